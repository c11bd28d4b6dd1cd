use std::ops::Range;
use std::sync::{Arc, Mutex};

use safetensors_format::{
    Archive, Builder, Bytes, DType, DTypeCode, Kind, ReadOptions, Source, Tensor,
};
use tensor_core::SourceError;

use crate::file;

/// Remembers which bytes were asked for.
struct Traced {
    bytes: Bytes,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Source for Traced {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        let range = offset..offset + out.len() as u64;
        self.reads.lock().unwrap().push(range);
        self.bytes.read_into(offset, out)
    }
}

#[test]
fn opening_takes_two_requests_and_no_data() {
    let mut builder = Builder::new();
    let data = Tensor::from_slice(&[1.0f32; 100], &[100]).unwrap();
    for i in 0..1000 {
        builder
            .tensor(format!("layer.{i}.weight"), data.clone())
            .unwrap();
        builder.metadata(format!("key {i}"), i.to_string()).unwrap();
    }
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let reads = Arc::new(Mutex::new(Vec::new()));
    let traced = Traced {
        bytes,
        reads: reads.clone(),
    };
    let archive = Archive::from_source(traced, &ReadOptions::default()).unwrap();
    let opened = std::mem::take(&mut *reads.lock().unwrap());
    assert_eq!(opened, [0..8, 8..archive.data_start()]);

    let entry = archive.entry("layer.500.weight").unwrap();
    assert_eq!(archive.read(entry).unwrap(), data);
    let one = reads.lock().unwrap().clone();
    assert_eq!(one, vec![entry.offset()..entry.offset() + 400; 1]);
}

/// A file of a length and a header that is claimed to be as long, in which nothing else is ever
/// asked for.
struct Claim(u64, u64);

impl Source for Claim {
    fn size(&self) -> u64 {
        self.0
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        assert_eq!((offset, out.len()), (0, 8));
        out.copy_from_slice(&self.1.to_le_bytes());
        Ok(())
    }
}

#[test]
fn a_header_above_the_limit_is_never_read() {
    let open = |size, len, max| {
        let mut options = ReadOptions::default();
        options.limits.max_header_bytes = max;
        Archive::from_source(Claim(size, len), &options).unwrap_err()
    };
    for (size, len, max) in [
        (1 << 40, 100_000_001, 100_000_000),
        (1 << 40, 8, 7),
        (1 << 40, 1 << 32, u64::MAX),
    ] {
        let error = open(size, len, max);
        assert_eq!(
            (error.kind(), error.rule_id()),
            (Kind::Limit, Some("max_header_bytes"))
        );
    }
    for (size, len) in [(100, 93), (1 << 40, u64::MAX), (8, 1)] {
        let error = open(size, len, u64::MAX);
        assert_eq!(error.rule_id(), Some("safetensors.truncated"));
    }
}

/// Sets one of the limits.
type Move = fn(&mut ReadOptions, u64);

/// Every limit refuses what is above it, by its name, and takes what is not.
#[test]
fn every_limit_can_be_moved() {
    let header = r#"{"__metadata__":{"a":"","b":""},
        "x":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"k":[[1]]},
        "y":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#;
    let bytes = Bytes::from(file(header, &[]));
    let open = |move_limit: Move, value: u64| {
        let mut options = ReadOptions::default();
        move_limit(&mut options, value);
        Archive::from_source(bytes.clone(), &options)
    };
    let limits: [(&str, Move, u64); 5] = [
        (
            "max_header_bytes",
            |o, value| o.limits.max_header_bytes = value,
            header.len() as u64,
        ),
        (
            "max_tensor_count",
            |o, value| o.limits.max_tensor_count = value,
            2,
        ),
        (
            "max_metadata_count",
            |o, value| o.limits.max_metadata_count = value,
            2,
        ),
        (
            "max_value_depth",
            |o, value| o.limits.max_value_depth = value,
            4,
        ),
        (
            "max_index_overhead_bytes",
            |o, value| o.limits.max_index_overhead_bytes = value,
            100_000,
        ),
    ];
    for (name, move_limit, enough) in limits {
        assert!(open(move_limit, enough).is_ok(), "{name}");
        let less = if enough < 100_000 { enough - 1 } else { 0 };
        let error = open(move_limit, less).unwrap_err();
        assert_eq!((error.kind(), error.rule_id()), (Kind::Limit, Some(name)));
    }
    // Higher than the default, too.
    let deep = format!(
        r#"{{"x":{{"dtype":"U8","shape":[0],"data_offsets":[0,0],"k":{}{}}}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let mut options = ReadOptions::default();
    options.limits.max_value_depth = 5002;
    let archive = Archive::from_source(Bytes::from(file(&deep, &[])), &options).unwrap();
    let extra = archive.entries().get(0).unwrap().extras().next().unwrap();
    assert_eq!(extra.value().as_str().map(str::len), Some(10_000));
}

#[test]
fn memory_is_shared_not_copied() {
    let mut builder = Builder::new();
    builder
        .tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap())
        .unwrap();
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let archive = Archive::from_bytes(bytes.clone()).unwrap();
    let entry = archive.entry("w").unwrap();
    let tensor = archive.read(entry).unwrap();
    let offset = usize::try_from(entry.offset()).unwrap();
    assert_eq!(tensor.data().as_ptr(), bytes[offset..].as_ptr());
}

#[test]
fn an_entry_of_another_archive_is_refused() {
    let mut builder = Builder::new();
    builder
        .tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap())
        .unwrap();
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let one = Archive::from_bytes(bytes.clone()).unwrap();
    let other = Archive::from_bytes(bytes).unwrap();
    let foreign = other.entries().get(0).unwrap();
    let text = "the entry belongs to another archive";
    assert_eq!(one.read(foreign).unwrap_err().to_string(), text);
    assert_eq!(one.data(foreign).err().unwrap().to_string(), text);
    assert_eq!(one.stored(foreign).err().unwrap().to_string(), text);
    assert_eq!(builder.copy(&one, foreign).unwrap_err().to_string(), text);
    assert!(one.clone().read(one.entries().get(0).unwrap()).is_ok());
}

#[test]
fn an_unknown_dtype_keeps_its_bytes() {
    let cases = test_data::cases("safetensors").unwrap();
    let case = cases
        .into_iter()
        .find(|case| case.name == "dtype_among_others");
    let archive = Archive::from_bytes(case.unwrap().bytes).unwrap();
    let entry = archive.entry("w").unwrap();
    assert_eq!((entry.dtype(), entry.stored_len()), (None, Some(2)));
    assert_eq!(entry.dtype_code(), &DTypeCode::Unknown("I4".into()));
    let error = archive.read(entry).unwrap_err();
    let text = "unsupported: tensor \"w\": unknown dtype \"I4\"; its bytes can still be copied \
                (byte 0xb2, entry 1, field dtype)";
    assert_eq!(error.to_string(), text);
    assert!(archive.data(entry).is_err());
    let stored = archive.stored(entry).unwrap();
    assert_eq!(stored.read(0..2).unwrap(), Bytes::from_static(&[2, 3]));
    for name in ["a", "b"] {
        assert!(archive.read(archive.entry(name).unwrap()).is_ok());
    }
}

#[test]
fn elements_narrower_than_a_byte_are_read_as_bytes() {
    let header = r#"{"w":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]}}"#;
    let archive = Archive::from_bytes(file(header, &[0x21, 0x43])).unwrap();
    let tensor = archive.read(archive.entries().get(0).unwrap()).unwrap();
    assert_eq!(
        (tensor.dtype(), tensor.shape().dims()),
        (DType::Opaque, &[2, 2][..])
    );
    assert_eq!(tensor.data(), &[0x21, 0x43][..]);
}

#[test]
fn threads_read_the_same_bytes() {
    let mut builder = Builder::new();
    for i in 0..100u8 {
        let tensor = Tensor::from_slice(&vec![i; 500], &[500]).unwrap();
        builder.tensor(i.to_string(), tensor).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.safetensors");
    builder.write_file(&path).unwrap();
    let archive = Archive::open(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let archive = &archive;
            scope.spawn(move || {
                for i in 0..1000usize {
                    let entry = archive.entries().get((i * 7 + thread * 13) % 100).unwrap();
                    let value: u8 = entry.name().parse().unwrap();
                    let tensor = archive.read(entry).unwrap();
                    assert!(tensor.data().iter().all(|&byte| byte == value));
                }
            });
        }
    });
}

#[test]
fn entries_know_their_positions() {
    // The order of the header is not that of the data.
    let header = r#"{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},
        "a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    let archive = Archive::from_bytes(file(header, &[7, 8])).unwrap();
    for (position, (name, value)) in [("b", 8u8), ("a", 7)].into_iter().enumerate() {
        let entry = archive.entry(name).unwrap();
        assert_eq!(entry.position(), position);
        assert_eq!(archive.entries().get(position).unwrap().name(), name);
        let read = archive.read(entry).unwrap();
        assert_eq!(read.to_vec::<u8>().unwrap(), [value]);
    }
    assert!(archive.entries().get(2).is_none());
}
