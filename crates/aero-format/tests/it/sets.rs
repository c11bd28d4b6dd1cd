use std::fs;
use std::path::Path;

use aero_format::{Builder, Kind, Set, Tensor, TensorSpec, VerifyOptions};

/// A set of three parts with two shards each.
fn write(path: &Path) {
    let mut builder = Builder::new();
    for i in 0..12u8 {
        let tensor = Tensor::from_slice(&[i; 64], &[64]).unwrap();
        builder.tensor(format!("t{i}"), tensor).unwrap();
    }
    builder
        .max_shard_bytes(128)
        .max_part_shards(2)
        .write_set(path)
        .unwrap();
}

fn failed(set: &Set) -> Vec<String> {
    let report = set.verify(&VerifyOptions::default()).unwrap();
    let failed = report
        .items
        .iter()
        .filter(|item| item.outcome.name() == "failed");
    failed.map(|item| item.item.clone()).collect()
}

#[test]
fn a_set_is_read_through_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.aeroset.json");
    write(&path);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
    let set = Set::open(&path).unwrap();
    assert_eq!(failed(&set), Vec::<String>::new());
    for (i, entry) in set.entries().iter().enumerate() {
        let tensor = set.read(entry).unwrap();
        assert!(tensor.data().iter().all(|&byte| usize::from(byte) == i));
        let data = set.data(entry).unwrap();
        assert_eq!(data.read(3..10).unwrap(), &[i as u8; 7][..]);
    }
}

#[test]
fn a_missing_part_fails_only_its_own_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.aeroset.json");
    write(&path);
    fs::remove_file(folder.path().join("part-001.aero")).unwrap();
    let set = Set::open(&path).unwrap();
    assert!(set.read(set.entry("t0").unwrap()).is_ok());
    let error = set.read(set.entry("t5").unwrap()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("part-001.aero"), "{error}");
    let failed = failed(&set);
    assert_eq!(failed, ["part-001.aero", "t4", "t5", "t6", "t7"]);
}

#[test]
fn the_data_of_a_damaged_part_fails_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.aeroset.json");
    // More parts than are kept open, one tensor each.
    let mut builder = Builder::new();
    for i in 0..40u8 {
        let tensor = Tensor::from_slice(&[i; 64], &[64]).unwrap();
        builder.tensor(format!("t{i}"), tensor).unwrap();
    }
    builder.max_shard_bytes(64).max_part_shards(1);
    builder.write_set(&path).unwrap();
    let set = Set::open(&path).unwrap();
    let data = set.data(set.entry("t5").unwrap()).unwrap();
    for entry in set.entries() {
        set.read(entry).unwrap();
    }
    fs::write(folder.path().join("part-005.aero"), [0; 5000]).unwrap();
    let error = data.read_into(0, &mut [0; 64]).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(error.rule_id(), Some("aero.header.magic"));
    assert!(error.to_string().contains("part-005.aero"), "{error}");
    // Nor does it change when another builder pulls it.
    let mut builder = Builder::new();
    let shape = aero_format::Shape::new(&[64]).unwrap();
    let order = aero_format::Order::RowMajor;
    builder
        .deferred(
            "t",
            TensorSpec::new(aero_format::DType::U8, shape).with_order(order),
            data,
        )
        .unwrap();
    let error = builder.to_vec().unwrap_err();
    let found = (error.kind(), error.rule_id());
    assert_eq!(found, (Kind::Invalid, Some("aero.header.magic")));
}

#[test]
fn damage_in_a_part_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.aeroset.json");
    write(&path);
    let part = folder.path().join("part-002.aero");
    let mut bytes = fs::read(&part).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&part, bytes).unwrap();
    // The file, the shard, and the tensors in it, which have no hashes of their own.
    let want = ["", ": WTSH weights.shard1", ": t10", ": t11"];
    let want = want.map(|item| format!("part-002.aero{item}"));
    assert_eq!(failed(&Set::open(&path).unwrap()), want);
}

#[test]
fn paths_stay_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.aeroset.json");
    write(&path);
    let text = fs::read_to_string(&path).unwrap();
    for (place, kind) in [
        ("../part-000.aero", Kind::Invalid),
        ("/etc/passwd", Kind::Invalid),
        ("C:part", Kind::Invalid),
        ("a\\\\b", Kind::Invalid),
        ("", Kind::Invalid),
        ("file:///part-000.aero", Kind::Invalid),
        ("./part-000.aero", Kind::Io),
    ] {
        fs::write(&path, text.replacen("part-000.aero", place, 1)).unwrap();
        match Set::open(&path) {
            Ok(set) => {
                assert_eq!(kind, Kind::Io, "{place:?} was taken");
                assert_eq!(failed(&set), Vec::<String>::new());
            }
            Err(error) => assert_eq!(error.kind(), kind, "{place:?}: {error}"),
        }
    }
    fs::write(
        &path,
        text.replacen("part-000.aero", "https://host/part", 1),
    )
    .unwrap();
    let set = Set::open(&path).unwrap();
    let error = set.read(set.entry("t0").unwrap()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    #[cfg(unix)]
    {
        let outside = tempfile::tempdir().unwrap();
        fs::rename(
            folder.path().join("part-000.aero"),
            outside.path().join("p"),
        )
        .unwrap();
        let link = folder.path().join("part-000.aero");
        std::os::unix::fs::symlink(outside.path().join("p"), link).unwrap();
        fs::write(&path, text).unwrap();
        assert_eq!(
            Set::open(&path).unwrap_err().rule_id(),
            Some("aero.set.path")
        );
    }
}

/// A source that fails after its first bytes.
struct Failing;

impl aero_format::Source for Failing {
    fn size(&self) -> u64 {
        4000
    }

    fn read_into(&self, offset: u64, _: &mut [u8]) -> Result<(), tensor_core::SourceError> {
        let error = format!("no bytes at {offset}");
        Err(tensor_core::SourceError::Other(error.into()))
    }
}

#[test]
fn a_set_that_fails_on_its_way_leaves_the_old_one_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.aeroset.json");
    write(&path);
    let bytes = || -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let read = |path: std::path::PathBuf| {
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        };
        paths.into_iter().map(read).collect()
    };
    let before = bytes();
    let mut builder = Builder::new();
    let tensor = Tensor::from_slice(&[0u8; 100], &[100]).unwrap();
    builder.tensor("first", tensor).unwrap();
    let shape = aero_format::Shape::new(&[1000]).unwrap();
    let (dtype, order) = (aero_format::DType::F32, aero_format::Order::RowMajor);
    builder
        .deferred(
            "second",
            TensorSpec::new(dtype, shape).with_order(order),
            Failing,
        )
        .unwrap();
    builder.max_shard_bytes(64).max_part_shards(1);
    let error = builder.write_set(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    assert!(bytes() == before);
}
