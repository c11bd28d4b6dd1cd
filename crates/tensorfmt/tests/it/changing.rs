//! A source whose length or content changes between the plan and the writing is noticed by every codec.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tensorfmt::{DType, Kind, Order, Shape, Source, SourceError, TensorSpec, WriteOptions};

/// Bytes whose number and value may be changed from outside.
#[derive(Clone)]
struct Changing {
    size: Arc<AtomicU64>,
    value: Arc<AtomicU64>,
    /// From which read on the value is another one.
    reads: Arc<AtomicU64>,
}

impl Changing {
    fn new(size: u64) -> Self {
        Self {
            size: Arc::new(size.into()),
            value: Arc::default(),
            reads: Arc::default(),
        }
    }
}

impl Source for Changing {
    fn size(&self) -> u64 {
        self.size.load(Ordering::SeqCst)
    }

    fn read_into(&self, _: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        out.fill(u8::try_from(self.value.load(Ordering::SeqCst)).unwrap());
        Ok(())
    }
}

/// Adds the source as tensor `w`, lets `change` happen, and writes.
fn write(codec: &str, source: &Changing, path: &Path, change: impl FnOnce()) -> (Kind, String) {
    let shape = Shape::new(&[1000]).unwrap();
    let (dtype, order, data) = (DType::F32, Order::RowMajor, source.clone());
    let mut options = WriteOptions::default();
    options.durable = false;
    macro_rules! with {
        ($format:ident) => {{
            let mut builder = tensorfmt::$format::Builder::new();
            builder
                .deferred("w", TensorSpec::new(dtype, shape).with_order(order), data)
                .unwrap();
            change();
            let error = builder.write_file_with(path, &options).unwrap_err();
            (error.kind(), error.to_string())
        }};
    }
    match codec {
        "mag" => with!(mag),
        "ztensor" => with!(ztensor),
        "burnpack" => with!(burnpack),
        "aero" => with!(aero),
        "primitiv" => with!(primitiv),
        _ => with!(safetensors),
    }
}

#[test]
fn a_source_of_another_length_is_noticed_by_every_codec() {
    let folder = tempfile::tempdir().unwrap();
    for codec in [
        "mag",
        "ztensor",
        "burnpack",
        "aero",
        "primitiv",
        "safetensors",
    ] {
        for size in [0, 3996, 4004, 1 << 20] {
            let path = folder.path().join("x");
            fs::write(&path, "old").unwrap();
            let source = Changing::new(4000);
            let (kind, text) = write(codec, &source, &path, || {
                source.size.store(size, Ordering::SeqCst);
            });
            assert_eq!(kind, Kind::Build, "{codec} {size}: {text}");
            assert!(
                text.contains("\"w\"") && text.contains("4000"),
                "{codec} {size}: {text}"
            );
            assert_eq!(fs::read(&path).unwrap(), b"old", "{codec} {size}");
            assert_eq!(
                fs::read_dir(folder.path()).unwrap().count(),
                1,
                "{codec} {size}"
            );
        }
    }
}

/// What is compressed is read by other threads; the error is the same.
#[test]
fn a_source_of_another_length_is_noticed_while_it_is_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let source = Changing::new(4000);
    let mut builder = tensorfmt::ztensor::Builder::new();
    builder.defaults(tensorfmt::ztensor::TensorOptions::new().with_zstd(3));
    let shape = Shape::new(&[1000]).unwrap();
    builder
        .deferred("w", TensorSpec::new(DType::F32, shape), source.clone())
        .unwrap();
    source.size.store(8000, Ordering::SeqCst);
    let error = builder.write_file(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::Build, "{error}");
    assert!(error.to_string().contains("\"w\""), "{error}");
    assert!(!path.exists());
}

/// AERO's hashes stand before the data: where both can't be had in one pass, the second one is held
/// against the first.
#[test]
fn content_that_changes_between_hashing_and_writing_is_noticed() {
    /// Bytes that are others each time that all of them were read.
    struct Drifting(Changing);

    impl Source for Drifting {
        fn size(&self) -> u64 {
            self.0.size()
        }

        fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
            let before = self.0.reads.load(Ordering::SeqCst);
            self.0.value.store(before % 251, Ordering::SeqCst);
            self.0.read_into(offset, out)
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let mut builder = tensorfmt::aero::Builder::new();
    let shape = Shape::new(&[1000]).unwrap();
    let source = Drifting(Changing::new(4000));
    builder
        .deferred("w", TensorSpec::new(DType::F32, shape), source)
        .unwrap();
    let error = builder.write_to(Vec::new()).unwrap_err();
    assert_eq!(error.kind(), Kind::Build, "{error}");
    let text = error.to_string();
    assert!(text.contains("tensor \"w\" changed"), "{text}");
    let set = folder.path().join("x.aeroset.json");
    let error = builder.write_set(&set).unwrap_err();
    assert_eq!(error.kind(), Kind::Build, "{error}");
    assert!(error.to_string().contains("\"w\""), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
