use std::ops::Range;
use std::sync::{Arc, Mutex};

use mag_format::{Archive, Builder, Bytes, Kind, ReadOptions, Source, Tensor};
use tensor_core::SourceError;

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
        self.reads
            .lock()
            .unwrap()
            .push(offset..offset + out.len() as u64);
        self.bytes.read_into(offset, out)
    }
}

#[test]
fn opening_reads_no_data_in_few_calls() {
    let mut builder = Builder::new();
    let data = Tensor::from_slice(&[1.0f32; 100], &[100]).unwrap();
    for i in 0..1000 {
        builder
            .tensor(format!("layer.{i}.weight"), data.clone())
            .unwrap();
        builder.metadata(format!("key {i}"), i64::from(i)).unwrap();
    }
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let reads = Arc::new(Mutex::new(Vec::new()));
    let traced = Traced {
        bytes,
        reads: reads.clone(),
    };
    let archive = Archive::from_source(traced, &ReadOptions::default()).unwrap();

    let opened = std::mem::take(&mut *reads.lock().unwrap());
    let data_start = archive
        .entries()
        .iter()
        .map(|entry| entry.offset())
        .min()
        .unwrap();
    assert!(
        opened.iter().all(|read| read.end <= data_start),
        "{opened:?}"
    );
    assert!(opened.len() < 20, "{} reads", opened.len());

    let entry = archive.entry("layer.500.weight").unwrap();
    assert_eq!(archive.read(entry).unwrap(), data);
    let one = reads.lock().unwrap().clone();
    assert_eq!(one, vec![entry.offset()..entry.offset() + 400; 1]);
}

/// A file that is zeros after its first bytes, as one with a hole is.
struct Hole {
    head: Vec<u8>,
    size: u64,
}

impl Source for Hole {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        for (at, byte) in (offset..).zip(out) {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            *byte = self.head.get(at).copied().unwrap_or(0);
        }
        Ok(())
    }
}

/// The size of a file with a hole says nothing about memory; where addresses have 32 bits, no list
/// of this length exists.
#[test]
fn a_count_that_only_a_hole_has_room_for_is_an_error() {
    let mut head = Builder::new().to_vec().unwrap();
    head[12..16].copy_from_slice(&25_000_000u32.to_le_bytes());
    let size = 5 << 30;
    assert!(Archive::from_source(Hole { head, size }, &ReadOptions::default()).is_err());
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
    let error = one.read(other.entries().get(0).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "the entry belongs to another archive");
    assert!(one.clone().read(one.entries().get(0).unwrap()).is_ok());
}

#[test]
fn threads_read_the_same_bytes() {
    let mut builder = Builder::new();
    for i in 0..100u8 {
        let data = Tensor::new(
            mag_format::DType::Bool,
            mag_format::Shape::new(&[500]).unwrap(),
            vec![i; 500],
        );
        builder.tensor(i.to_string(), data.unwrap()).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.mag");
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

/// Two tensors, of which the second has an unknown dtype and begins this many bytes after the first.
fn with_an_unknown_one(behind: u64) -> Vec<u8> {
    let mut builder = Builder::new();
    let values = [1.0f32; 32];
    builder
        .tensor("a", Tensor::from_slice(&values, &[32]).unwrap())
        .unwrap();
    builder
        .tensor("b", Tensor::from_slice(&values[..1], &[1]).unwrap())
        .unwrap();
    let mut file = builder.to_vec().unwrap();
    let first = u64::from_le_bytes(file[36..44].try_into().unwrap());
    file[57] = 9;
    file[69..77].copy_from_slice(&(first + behind).to_le_bytes());
    file
}

#[test]
fn a_tensor_of_unknown_dtype_blinds_no_check_of_the_others() {
    let options = ReadOptions::default().with_check_records(false);
    let open = |behind| {
        let source = Bytes::from(with_an_unknown_one(behind));
        Archive::from_source(source, &options)
    };
    let archive = open(128).unwrap();
    assert_eq!(archive.entries().get(1).unwrap().dtype(), None);
    // Its first byte is another's.
    for behind in [0, 64] {
        let error = open(behind).unwrap_err();
        assert_eq!(error.rule_id(), Some("mag.tensor.overlap"), "{error}");
    }
    // There is no first byte.
    let error = open(192).unwrap_err();
    assert!(error.to_string().contains("\"b\""), "{error}");

    // How long it is nobody knows, so its bytes can't be had; those of others can.
    let (a, b) = (archive.entry("a").unwrap(), archive.entry("b").unwrap());
    assert_eq!(archive.stored(a).unwrap().size(), 128);
    assert_eq!(archive.stored(b).err().unwrap().kind(), Kind::Unsupported);
    let mut builder = Builder::new();
    builder.copy_as("c", &archive, a).unwrap();
    let error = builder.copy(&archive, b).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    let copy = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    assert_eq!(copy.entries().len(), 1);
    assert_eq!(
        copy.read(copy.entries().get(0).unwrap()).unwrap().data(),
        archive.read(a).unwrap().data()
    );
    let foreign = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    assert_eq!(foreign.stored(a).err().unwrap().kind(), Kind::Usage);
}

#[test]
fn metadata_is_found_by_its_key_whatever_the_order() {
    let mut builder = Builder::new();
    // 37 and 1,000 have no common factor, so that each is there once.
    let keys: Vec<i64> = (0..1000).map(|at| at * 37 % 1000).collect();
    for &key in &keys {
        builder.metadata(format!("key {key}"), key).unwrap();
    }
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    for key in keys {
        let entry = archive.metadata_entry(&format!("key {key}")).unwrap();
        assert_eq!(entry.value(), mag_format::MetaValue::I64(key));
    }
    for absent in ["", "key", "key 1000", "key 00", "l"] {
        assert!(archive.metadata_entry(absent).is_none(), "{absent}");
    }
}
