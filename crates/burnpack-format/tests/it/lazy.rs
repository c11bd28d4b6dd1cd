use std::ops::Range;
use std::sync::{Arc, Mutex};

use burnpack_format::{
    Archive, Builder, Bytes, Layout, ReadOptions, Rule, Source, Tensor, VerifyOptions,
};
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
    assert_eq!(opened.len(), 2, "{opened:?}");

    let entry = archive.entry("layer.500.weight").unwrap();
    assert_eq!(archive.read(entry).unwrap(), data);
    let one = reads.lock().unwrap().clone();
    assert_eq!(one, vec![entry.offset()..entry.offset() + 400; 1]);
}

#[test]
fn static_memory_is_shared_not_copied() {
    let mut builder = Builder::new();
    builder
        .tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap())
        .unwrap();
    let file: &'static [u8] = Vec::leak(builder.to_vec().unwrap());
    let archive = Archive::from_bytes(file).unwrap();
    let tensor = archive.read(archive.entry("w").unwrap()).unwrap();
    assert_eq!(tensor.data().as_ptr(), file[256..].as_ptr());
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
            burnpack_format::DType::Bool,
            burnpack_format::Shape::new(&[500]).unwrap(),
            vec![i; 500],
        );
        builder.tensor(i.to_string(), data.unwrap()).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.bpk");
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
fn entries_follow_the_data_and_are_found_by_name() {
    let mut builder = Builder::new();
    let names: Vec<String> = (0..300u32)
        .map(|i| format!("{}", i * 7919 % 1009))
        .collect();
    for (i, name) in names.iter().enumerate() {
        let empty = i % 5 == 0;
        let data = if empty { vec![] } else { vec![i as u8; 3] };
        let tensor = Tensor::from_slice(&data, &[data.len() as u64]).unwrap();
        builder.tensor(name.as_str(), tensor).unwrap();
    }
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let offsets: Vec<u64> = archive.entries().iter().map(|e| e.offset()).collect();
    assert!(offsets.is_sorted());
    for (i, name) in names.iter().enumerate() {
        let entry = archive.entry(name).unwrap();
        assert_eq!(entry.name(), name);
        let tensor = archive.read(entry).unwrap();
        assert!(tensor.data().iter().all(|&byte| byte == i as u8));
        if i % 5 != 0 {
            assert_eq!(archive.entries().get(i).unwrap().name(), name);
        }
    }
    assert!(archive.entry("1010").is_none());
}

#[test]
fn a_layout_can_be_imposed() {
    let mut builder = Builder::new();
    let tensor = Tensor::from_slice(&[7u8; 100], &[100]).unwrap();
    builder.tensor("w", tensor).unwrap();
    let file = Bytes::from(builder.to_vec().unwrap());
    let mut options = ReadOptions::default();
    for (layout, first) in [(Layout::Auto, 7), (Layout::Aligned, 7), (Layout::Packed, 0)] {
        options.layout = layout;
        let archive = Archive::from_source(file.clone(), &options).unwrap();
        let tensor = archive.read(archive.entries().get(0).unwrap()).unwrap();
        assert_eq!(tensor.data()[0], first, "{layout:?}");
        if layout != Layout::Auto {
            assert_eq!(archive.layout(), layout);
        }
    }
}

#[test]
fn strict_verification_warns_of_what_no_writer_leaves() {
    let strict = |file: Vec<u8>| {
        let mut options = VerifyOptions::default();
        options.strict = true;
        let archive = Archive::from_bytes(file).unwrap();
        archive.verify(&options).unwrap().warnings.join("; ")
    };
    let expected = [
        ("base", ""),
        ("trailing_bytes", "17 bytes after the last tensor"),
        ("packed_trailing", "3 bytes after the last tensor"),
        ("larger_gap", "larger gap than needed before \"b\""),
        (
            "padding_not_zero",
            "padding that is not zero before or after \"metadata\" and 1 more",
        ),
        ("bool_u8", "bools other than 0 and 1 in \"w\""),
        (
            "quant_any_length",
            "other length of data than Burn stores for \"w\"",
        ),
        ("quant_new_two_levels", ""),
    ];
    let cases = test_data::cases("burnpack").unwrap();
    for (name, warnings) in expected {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        assert_eq!(strict(case.bytes.clone()), warnings, "{name}");
    }
}

#[test]
fn errors_name_tensor_and_place() {
    let cases = test_data::cases("burnpack").unwrap();
    let error = |name: &str| {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        Archive::from_bytes(case.bytes.clone()).unwrap_err()
    };
    let expected = [
        (
            "overlap_within",
            "invalid burnpack file: tensor \"b\": shares data bytes with tensor 0 \
             (byte 0x3c, entry 1, field data_offsets)",
        ),
        (
            "size_longer",
            "invalid burnpack file: tensor \"w\": data of 4 bytes, but dtype and shape ask for 3 \
             (byte 0x35, entry 0, field data_offsets)",
        ),
        (
            "message_pack",
            "invalid burnpack file: starts with bytes [82, a8, 6d, 65] instead of the magic \
             \"NRUB\"; this looks like MessagePack, as Burn's older recorders wrote (.mpk) \
             (byte 0x0, field magic)",
        ),
        (
            "version_2",
            "unsupported: burnpack version 2: a version later than any known release of Burn; \
             this reader handles version 1 (byte 0x4, field version)",
        ),
        (
            "safetensors",
            "invalid burnpack file: starts with bytes [08, 00, 00, 00] instead of the magic \
             \"NRUB\"; this looks like a safetensors file (byte 0x0, field magic)",
        ),
    ];
    for (name, text) in expected {
        assert_eq!(error(name).to_string(), text, "{name}");
    }
    assert_eq!(error("overlap_within").tensor(), Some("b"));
}

/// A file of one-byte tensors with these names and starts, in the packed layout.
fn packed(tensors: &[(&str, u8)]) -> Vec<u8> {
    let mut metadata = b"\xA1\x67tensors".to_vec();
    metadata.push(0xA0 + u8::try_from(tensors.len()).unwrap());
    for (name, start) in tensors {
        metadata.push(0x60 + u8::try_from(name.len()).unwrap());
        metadata.extend(name.as_bytes());
        metadata.extend(b"\xA3\x65dtype\x62U8\x65shape\x81\x01\x6Cdata_offsets\x82");
        metadata.extend([*start, start + 1]);
    }
    let mut file = b"NRUB\x01\0".to_vec();
    file.extend(u32::try_from(metadata.len()).unwrap().to_le_bytes());
    file.extend(metadata);
    file.extend((0..u8::try_from(tensors.len()).unwrap()).map(|i| 10 + i));
    file
}

#[test]
fn entries_in_the_order_of_the_data_know_their_positions() {
    let archive = Archive::from_bytes(packed(&[("a", 2), ("b", 0), ("c", 1)])).unwrap();
    let names: Vec<&str> = archive.entries().map(|entry| entry.name()).collect();
    assert_eq!(names, ["b", "c", "a"]);
    for (position, name) in names.into_iter().enumerate() {
        let entry = archive.entry(name).unwrap();
        assert_eq!(entry.position(), position);
        let same = archive.entries().get(position).unwrap();
        assert_eq!((same.name(), same.offset()), (name, entry.offset()));
        let value = archive.read(entry).unwrap().to_vec::<u8>().unwrap();
        assert_eq!(value, [10 + u8::try_from(position).unwrap()]);
    }
    assert!(archive.entries().get(3).is_none());
    assert!(archive.entry("d").is_none());
}

/// Whatever the order of their data, the later one of the file has the name that is taken.
#[test]
fn a_duplicate_is_the_later_one_of_the_file() {
    for starts in [[0, 1], [1, 0]] {
        let [first, second] = starts;
        let error = Archive::from_bytes(packed(&[("w", first), ("w", second)])).unwrap_err();
        assert_eq!(error.rule(), Some(&Rule::TensorDuplicate { first: 0 }));
        assert_eq!(error.at().and_then(|at| at.entry), Some(1));
        assert_eq!(error.tensor(), Some("w"));
    }
}
