test_data::saving_tests!(
    safetensors_format,
    ending: "safetensors",
    format: "safetensors",
    broken: b"\x02\0\0\0\0\0\0\0[]",
    rule: "safetensors.header.start",
    shrunk: 200
);

/// A source of zeros whose length is what the counter says, and changes after so many questions.
struct Growing {
    asked: AtomicU64,
    after: u64,
    lengths: (u64, u64),
}

impl Source for Growing {
    fn size(&self) -> u64 {
        let before = self.asked.fetch_add(1, Ordering::Relaxed) < self.after;
        if before {
            self.lengths.0
        } else {
            self.lengths.1
        }
    }

    fn read_into(&self, _: u64, out: &mut [u8]) -> Result<(), SourceError> {
        out.fill(0);
        Ok(())
    }
}

#[test]
fn a_source_that_changes_its_length_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    // Asked when it is added, before its one piece is read, and after that.
    for after in 1..=2 {
        for lengths in [(4, 8), (8, 4), (4, 0)] {
            let mut builder = builder_of(&[1.0]);
            let shape = Shape::new(&[lengths.0 / 4]).unwrap();
            let asked = AtomicU64::new(0);
            let source = Growing {
                asked,
                after,
                lengths,
            };
            builder
                .deferred("x", TensorSpec::new(DType::F32, shape), source)
                .unwrap();
            let error = builder.write_file(&path).unwrap_err();
            assert_eq!(error.kind(), Kind::Build, "{error}");
            let (expected, got) = lengths;
            let text =
                format!("tensor \"x\" had {expected} bytes when it was added, and has {got} now");
            assert_eq!(error.to_string(), text, "{after}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
