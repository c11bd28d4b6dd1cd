//! Models of tensors in memory, saved by the ending of a path.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use tensorfmt::convert::{Model, Options, Target};
use tensorfmt::{
    Archive, Bytes, DType, Error, Kind, Order, Shape, Tensor, TensorSpec, WriteOptions,
};

fn model() -> Model {
    let mut model = Model::new();
    let columns = Tensor::from_slice(&[1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0], &[2, 3]).unwrap();
    model.tensor("columns", columns.with_order(Order::ColumnMajor));
    let shape = Shape::new(&[4]).unwrap();
    let bytes = Bytes::from_static(&[
        0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0x80, 0xBF,
    ]);
    model
        .deferred("later", TensorSpec::new(DType::F32, shape), bytes)
        .unwrap();
    model
}

/// Every target takes the same model, and an open of what was written has its values in its order.
#[test]
fn a_model_of_memory_is_saved_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    for &target in Target::ALL {
        let path = folder.path().join(format!("x.{}", target.ending()));
        let losses = model()
            .save(&path, &Options::default(), &WriteOptions::default())
            .unwrap();
        assert!(losses.is_empty(), "{target:?}: {losses:?}");
        let archive = Archive::open(&path).unwrap();
        assert_eq!(archive.format(), target.format());
        let columns = archive.read("columns").unwrap().to_row_major().unwrap();
        assert_eq!(columns.shape().dims(), &[2, 3], "{target:?}");
        let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(columns.to_vec::<f32>().unwrap(), rows, "{target:?}");
        let later = archive.read("later").unwrap();
        assert_eq!(later.to_vec::<f32>().unwrap(), [1.0, 2.0, 0.0, -1.0]);
    }
}

#[test]
fn metadata_of_memory_is_kept_or_told_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str| {
        let path = folder.path().join(name);
        let mut model = model();
        model.set_metadata("step", 12u64);
        let losses = model.save(&path, &Options::default(), &WriteOptions::default());
        (
            losses.unwrap().len(),
            Archive::open(&path).unwrap().metadata().len(),
        )
    };
    assert_eq!(save("x.mag"), (0, 1));
    assert_eq!(save("x.model"), (1, 0));
}

#[test]
fn what_can_t_be_saved_is_refused_before_a_file_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.weights");
    let save = |model: Model, name: &str| {
        let path = folder.path().join(name);
        model.save(&path, &Options::default(), &WriteOptions::default())
    };
    let error = save(model(), "x.weights").unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    assert!(error.to_string().contains(".safetensors"), "{error}");
    assert!(!path.exists());

    let mut twice = model();
    twice.tensor("later", Tensor::from_slice(&[1u8], &[1]).unwrap());
    let error = save(twice, "x.mag").unwrap_err();
    assert!(error.to_string().contains("later"), "{error}");
    assert!(!folder.path().join("x.mag").exists());

    let mut short = Model::new();
    let shape = Shape::new(&[3]).unwrap();
    let error = short.deferred(
        "w",
        TensorSpec::new(DType::F16, shape),
        Bytes::from_static(&[0; 5]),
    );
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("5 bytes") && error.contains("ask for 6"),
        "{error}"
    );
}

#[test]
fn a_parameter_is_what_its_ending_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.param");
    let mut one = Model::new();
    one.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap());
    let losses = one.save(&path, &Options::default(), &WriteOptions::default());
    // The object has no place for a name.
    assert_eq!(losses.unwrap().len(), 1);
    let archive = Archive::open(&path).unwrap();
    assert_eq!(archive.entries().len(), 1);
}

#[test]
fn tensors_of_files_and_of_memory_go_into_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.mag");
    let save = |model: Model| model.save(&path, &Options::default(), &WriteOptions::default());
    save(model()).unwrap();
    let archive = Archive::open(&path).unwrap();
    let from_file = Model::of(&archive).tensors.swap_remove(1);
    let mut both = Model::new();
    both.tensor("new", Tensor::from_slice(&[7i32], &[1]).unwrap());
    both.tensors.push(from_file.named("old"));
    // In the place of the file that one of them comes from.
    save(both).unwrap();
    let archive = Archive::open(&path).unwrap();
    let old = archive.read("old").unwrap();
    assert_eq!(old.to_vec::<f32>().unwrap(), [1.0, 2.0, 0.0, -1.0]);
    assert_eq!(archive.read("new").unwrap().to_vec::<i32>().unwrap(), [7]);
}

/// Whoever stops the work when all bytes are written, and the files have yet to appear, finds none.
#[test]
fn a_stop_before_the_files_appear_leaves_none() {
    for &target in Target::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("x.{}", target.ending()));
        let written = AtomicU64::new(0);
        let progress = |bytes| match (bytes, written.fetch_add(bytes, Ordering::Relaxed)) {
            // 24 and 16 bytes of data, however often they are read.
            (0, 40..) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let mut write = WriteOptions::default();
        write.progress = Some(&progress);
        let stopped = model().save(&path, &Options::default(), &write);
        let stopped = stopped.unwrap_err();
        assert_eq!(stopped.kind(), Kind::Cancelled, "{target:?}: {stopped}");
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "{target:?}");
    }
}
