use std::fs;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use safetensors_format::{
    Archive, Builder, DType, Kind, Shape, Source, Tensor, TensorSpec, WriteOptions,
};
use tensor_core::SourceError;

fn builder_of(values: &[f32]) -> Builder {
    let mut builder = Builder::new();
    let tensor = Tensor::from_slice(values, &[values.len() as u64]).unwrap();
    builder.tensor("w", tensor).unwrap();
    builder
}

/// A source that fails after its first bytes.
struct Failing(u64);

impl Source for Failing {
    fn size(&self) -> u64 {
        self.0
    }

    fn read_into(&self, offset: u64, _: &mut [u8]) -> Result<(), SourceError> {
        Err(SourceError::Other(format!("no bytes at {offset}").into()))
    }
}

#[test]
fn a_failing_source_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    builder_of(&[1.0, 2.0, 3.0]).write_file(&path).unwrap();
    let before = fs::read(&path).unwrap();

    let mut builder = builder_of(&[4.0]);
    let shape = Shape::new(&[1000]).unwrap();
    builder
        .deferred("x", TensorSpec::new(DType::F32, shape), Failing(4000))
        .unwrap();
    let error = builder.write_file(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    assert_eq!(error.tensor(), Some("x"));
    assert_eq!(error.to_string(), "tensor \"x\": no bytes at 0");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn stopping_on_request_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let stop = |_| ControlFlow::Break(());
    let mut options = WriteOptions::default();
    options.progress = Some(&stop);
    let error = builder_of(&[1.0])
        .write_file_with(&path, &options)
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Cancelled);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_archive_can_be_written_over_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    builder_of(&[1.0, 2.0, 3.0]).write_file(&path).unwrap();
    let archive = Archive::open(&path).unwrap();
    let mut builder = Builder::new();
    for entry in archive.entries() {
        let (dtype, shape) = (entry.dtype().unwrap(), entry.shape().clone());
        let data = archive.data(entry).unwrap();
        builder
            .deferred(
                "renamed",
                TensorSpec::new(dtype, shape).with_order(entry.order()),
                data,
            )
            .unwrap();
    }
    builder.write_file(&path).unwrap();
    // The open archive still reads the file it opened.
    let old = archive.read(archive.entries().get(0).unwrap()).unwrap();
    assert_eq!(old.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    let new = Archive::open(&path).unwrap();
    let tensor = new.read(new.entry("renamed").unwrap()).unwrap();
    assert_eq!(tensor.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn a_file_that_shrinks_while_open_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    builder_of(&[1.0; 4096]).write_file(&path).unwrap();
    let archive = Archive::open(&path).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(200)
        .unwrap();
    let error = archive.read(archive.entries().get(0).unwrap()).unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    let text = error.to_string();
    assert!(
        text.contains("w.safetensors") && text.contains("shorter"),
        "{text}"
    );
}

#[test]
fn errors_of_open_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.safetensors");
    let text = Archive::open(&missing).unwrap_err().to_string();
    assert!(text.contains("missing.safetensors"), "{text}");
    let broken = folder.path().join("broken.safetensors");
    fs::write(&broken, b"\x02\0\0\0\0\0\0\0[]").unwrap();
    let error = Archive::open(&broken).unwrap_err();
    assert_eq!(error.rule_id(), Some("safetensors.header.start"));
    assert!(
        error
            .to_string()
            .contains("broken.safetensors: invalid safetensors file: "),
        "{error}"
    );
}

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
