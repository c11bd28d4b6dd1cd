//! What only files of zTensor 1.x and 2 have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tensor_core::SourceError;
use ztensor_format::{Archive, Bytes, DType, Generation, ReadOptions, Source, Value};

fn case(name: &str) -> Vec<u8> {
    let cases = test_data::cases("ztensor").unwrap();
    let found = cases.into_iter().find(|case| case.name == name);
    found.unwrap_or_else(|| panic!("{name}")).bytes
}

fn open(name: &str) -> Archive {
    Archive::from_bytes(case(name)).unwrap()
}

#[test]
fn generations_are_told_apart() {
    for (name, generation) in [
        ("v10_dense", Generation::V1_0),
        ("v11_dense", Generation::V1_1),
        ("v12_dense", Generation::V1_2),
        ("v12_later", Generation::V1_2),
        ("v2_dense", Generation::V2),
    ] {
        let archive = open(name);
        assert_eq!(archive.generation(), generation, "{name}");
        assert_eq!(archive.version(), generation.version(), "{name}");
        assert_eq!(archive.version().to_string(), generation.name(), "{name}");
    }
    assert_eq!(open("v10_dense").generator(), Some("by hand"));
    assert_eq!(open("v12_later").version_text(), Some("1.9.0"));
    assert!(open("v2_data_shard").is_data_shard());
    assert_eq!(open("v2_sharded").shards()[0].label(), "a");
}

#[test]
fn objects_that_are_no_tensor_are_their_components() {
    let archive = open("v2_csr");
    let names: Vec<_> = archive.entries().iter().map(|entry| entry.name()).collect();
    assert_eq!(names, ["m/indptr", "m/values", "m/indices"]);
    let entry = archive.entry("m/indices").unwrap();
    assert_eq!(entry.shape().dims(), [2]);
    assert_eq!(entry.dtype(), Some(DType::U32));
    assert_eq!(
        (entry.object(), entry.component()),
        (Some("m"), Some("indices"))
    );
    assert_eq!(entry.object_shape().unwrap().dims(), [2, 3]);
    assert_eq!(entry.layout_name(), "zt.sparse_csr/1");
    assert_eq!(
        archive.read(entry).unwrap().to_vec::<u32>().unwrap(),
        [2, 0]
    );

    // Its index and pointers are u64, whatever the tensor is.
    let archive = open("v10_csr");
    let entry = archive.entry("m/indptr").unwrap();
    assert_eq!(
        (entry.dtype(), entry.dtype_name()),
        (Some(DType::U64), "uint64")
    );

    let archive = open("v12_dense_aux");
    let names: Vec<_> = archive.entries().iter().map(|entry| entry.name()).collect();
    assert_eq!(names, ["w", "w/scale"]);

    let archive = open("v12_collision");
    let names: Vec<_> = archive.entries().iter().map(|entry| entry.name()).collect();
    assert_eq!(names, ["a", "a/values"]);
    assert!(archive.read(archive.entry("a").unwrap()).is_err());
    assert!(archive.read(archive.entry("a/values").unwrap()).is_ok());
}

#[test]
fn unstated_lengths_are_found_out() {
    let archive = open("v10_zstd_unsized");
    let entry = archive.entry("m/coords").unwrap();
    assert_eq!(entry.shape().dims(), [1]);
    assert_eq!(archive.read(entry).unwrap().data().len(), 8);
    let mut options = ReadOptions::default();
    options.limits.max_unsized_bytes = 4;
    let bytes = Bytes::from(case("v10_zstd_unsized"));
    let error = Archive::from_source(bytes, &options).unwrap_err();
    assert_eq!(error.rule_id(), Some("max_unsized_bytes"));
}

#[test]
fn logical_types_have_a_dtype_where_there_is_one() {
    let archive = open("v2_bool");
    let entry = archive.entry("w").unwrap();
    assert_eq!(
        (entry.dtype(), entry.storage_dtype()),
        (Some(DType::Bool), Some("u8"))
    );
    let archive = open("v12_f8");
    let entry = archive.entry("w").unwrap();
    assert_eq!(
        (entry.dtype(), entry.dtype_name()),
        (Some(DType::F8E4M3), "f8_e4m3fn")
    );
    let archive = open("v2_f4");
    let entry = archive.entry("w").unwrap();
    assert_eq!((entry.dtype(), entry.dtype_name()), (None, "f4_e2m1"));
    // The rule for truth values holds however they are read.
    let archive = open("v2_bool_2");
    let entry = archive.entry("w").unwrap();
    assert!(archive.read(entry).is_err());
    let data = archive.data(entry).unwrap();
    assert!(data.read(2..3).is_err());
    assert!(data.read(0..2).is_ok());
}

#[test]
fn attributes_keep_their_kinds() {
    let archive = open("v12_attributes");
    let attributes = archive.metadata();
    assert_eq!(attributes[1].value(), Value::Bytes(vec![0, 255]));
    let seven = Value::Map(vec![(Value::Int(7), Value::Text("seven".into()))]);
    assert_eq!(attributes[4].value(), seven);
    let custom = archive.entry("w").unwrap().custom();
    assert_eq!(custom.len(), 5);
    assert_eq!(custom[0].key(), "text");
}

#[test]
fn a_limit_is_one_of_the_manifest_too() {
    let mut options = ReadOptions::default();
    options.limits.max_manifest_bytes = 8;
    let error = Archive::from_source(Bytes::from(case("v2_dense")), &options).unwrap_err();
    assert_eq!(error.rule_id(), Some("max_manifest_bytes"));
}

/// Counts the bytes that are read.
#[derive(Clone)]
struct Counted(Bytes, Arc<AtomicU64>);

impl Source for Counted {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.1.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.0.read_into(offset, out)
    }
}

#[test]
fn a_window_of_seekable_data_reads_its_frames_only() {
    let source = Counted(case("v2_seek").into(), Arc::default());
    let archive = Archive::from_source(source.clone(), &ReadOptions::default()).unwrap();
    let data = archive.data(archive.entry("w").unwrap()).unwrap();
    let before = source.1.load(Ordering::Relaxed);
    assert_eq!(data.read(9..11).unwrap(), [2, 2].as_slice());
    let second = source.1.load(Ordering::Relaxed) - before;
    assert!(second < 20, "{second}");
    // What was decoded last is at hand.
    assert_eq!(data.read(8..9).unwrap(), [2].as_slice());
    assert_eq!(source.1.load(Ordering::Relaxed) - before, second);
    assert_eq!(data.read(7..9).unwrap(), [1, 2].as_slice());
}

/// Data that decodes to nothing is looked at only so often.
#[test]
fn stored_bytes_count_towards_the_limit() {
    let mut options = ReadOptions::default();
    options.limits.max_unsized_bytes = 16;
    let bytes = Bytes::from(case("v10_zstd_unsized"));
    let error = Archive::from_source(bytes, &options).unwrap_err();
    assert_eq!(error.rule_id(), Some("max_unsized_bytes"));
}
