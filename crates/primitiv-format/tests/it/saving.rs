use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use primitiv_format::{Builder, DType, Kind, Shape, Source, Tensor, TensorOptions, TensorSpec};
use tensor_core::SourceError;

/// A source that has another length each time that it is asked.
struct Stepping {
    size: AtomicU64,
    grows: bool,
}

impl Source for Stepping {
    fn size(&self) -> u64 {
        match self.grows {
            true => self.size.fetch_add(4, Ordering::Relaxed),
            false => self.size.fetch_sub(4, Ordering::Relaxed),
        }
    }

    fn read_into(&self, _: u64, out: &mut [u8]) -> Result<(), SourceError> {
        out.fill(0);
        Ok(())
    }
}

#[test]
fn a_source_that_changes_its_length_is_an_error_and_leaves_nothing() {
    for (grows, now) in [(true, "404"), (false, "396")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w");
        let mut builder = Builder::new();
        let shape = Shape::new(&[100]).unwrap();
        let size = AtomicU64::new(400);
        let source = Stepping { size, grows };
        builder
            .deferred("layer.w", TensorSpec::new(DType::F32, shape), source)
            .unwrap();
        let error = builder.write_file(&path).unwrap_err();
        assert_eq!(error.kind(), Kind::Build);
        assert_eq!(
            error.to_string(),
            format!("tensor \"layer.w\" had 400 bytes when it was added, and has {now} now")
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_error_about_a_statistic_names_its_parameter_too() {
    let mut builder = Builder::new();
    let value = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    builder.tensor("layer.w", value.clone()).unwrap();
    builder.stat("m1", value.clone()).unwrap();
    let error = builder.stat("m1", value).unwrap_err().to_string();
    assert!(error.contains("\"layer.w:m1\""), "{error}");
    let shape = Shape::new(&[100]).unwrap();
    let size = AtomicU64::new(400);
    let source = Stepping { size, grows: true };
    builder
        .deferred_stat_with(
            "m2",
            TensorSpec::new(DType::F32, shape),
            source,
            TensorOptions::new().with_batch(1),
        )
        .unwrap();
    assert_eq!(
        builder.to_vec().unwrap_err().to_string(),
        "tensor \"layer.w:m2\" had 400 bytes when it was added, and has 404 now"
    );
}
