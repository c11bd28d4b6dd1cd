//! The snapshot formats, over the public API.

use std::fs;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use mag_format::{
    Archive, Bytes, Checksum, DType, Generation, Kind, ReadOptions, Source, Timestamp, Value,
    VerifyOptions,
};
use proptest::prelude::*;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use tensor_core::SourceError;
use test_data::{Case, Expect, mutate};

use crate::{Verdict, judge, verdict_of};

fn case(name: &str) -> Vec<u8> {
    let cases = test_data::mag_snapshots::cases();
    let found = cases.into_iter().find(|case| case.name == name);
    found.unwrap_or_else(|| panic!("no case {name}")).bytes
}

fn open(name: &str) -> Archive {
    Archive::from_bytes(case(name)).unwrap()
}

fn names(archive: &Archive) -> Vec<&str> {
    archive.entries().iter().map(|entry| entry.name()).collect()
}

#[test]
fn every_real_snapshot_gets_its_verdict() {
    let mut read = 0;
    for format in ["mag-snapshots", "mag"] {
        for (path, manifest) in test_data::corpus::cases(format) {
            let generation = manifest["generation"].as_str().unwrap_or_default();
            if !generation.starts_with("snapshot ") {
                continue;
            }
            let name = path.display().to_string();
            let (verdict, _) = judge(fs::read(&path).unwrap());
            match manifest["verdict"].as_str().unwrap() {
                "accept" => assert_eq!(verdict, Verdict::Accept, "{name}"),
                "reject" => {
                    assert!(matches!(verdict, Verdict::Reject(_)), "{name}: {verdict:?}");
                    continue;
                }
                _ => {
                    let is_read = format == "mag" && verdict == Verdict::Accept;
                    let is_unsupported = matches!(verdict, Verdict::Unsupported(_));
                    assert!(is_read || is_unsupported, "{name}: {verdict:?}");
                }
            }
            if manifest["tensors"].is_array() {
                compare(&name, &Archive::open(&path).unwrap(), &manifest);
                read += 1;
            }
        }
    }
    assert!(read > 30 || test_data::corpus::folder("mag-snapshots").is_none());
}

/// Names, dtypes, shapes, places, bytes and metadata, against the manifest.
fn compare(name: &str, archive: &Archive, manifest: &Json) {
    assert_eq!(
        archive.generation().name(),
        manifest["generation"],
        "{name}"
    );
    let others = manifest["unsupported_tensors"].as_array();
    let others: Vec<&str> = others
        .iter()
        .flat_map(|names| names.iter().filter_map(Json::as_str))
        .collect();
    for &other in &others {
        let entry = archive.entry(other).unwrap();
        assert_eq!(entry.dtype(), None, "{name}");
        let error = archive.read(entry).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{name}");
    }
    let tensors = manifest["tensors"].as_array().unwrap();
    assert_eq!(
        archive.entries().len(),
        tensors.len() + others.len(),
        "{name}"
    );
    let known = archive
        .entries()
        .iter()
        .filter(|entry| !others.contains(&entry.name()));
    for (entry, tensor) in known.zip(tensors) {
        assert_eq!(entry.name(), tensor["name"], "{name}");
        assert_eq!(entry.dtype_code().to_string(), tensor["dtype"], "{name}");
        if !tensor["offset"].is_null() {
            assert_eq!(Some(entry.offset()), tensor["offset"].as_u64(), "{name}");
        }
        let dims = Json::from(entry.shape().dims());
        assert_eq!(dims, tensor["shape"], "{name}");
        let digest = Sha256::digest(archive.read(entry).unwrap().data());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, tensor["sha256"], "{name}");
    }
    let snapshot = archive.snapshot().unwrap();
    if let Some(metadata) = manifest["metadata"].as_object() {
        let omitted = manifest["metadata_omitted"].as_array().map_or(0, Vec::len);
        assert_eq!(
            snapshot.metadata().len(),
            metadata.len() + omitted,
            "{name}"
        );
        for (key, value) in metadata {
            let got = snapshot.metadata().iter().find(|(known, _)| known == key);
            let kind = manifest["metadata_types"][key].as_str();
            compare_value(&format!("{name} {key}"), &got.unwrap().1, value, kind);
        }
    }
}

fn compare_value(name: &str, got: &Value, value: &Json, kind: Option<&str>) {
    match (got, value) {
        (Value::Null, Json::Null) => {}
        (Value::Bool(got), Json::Bool(value)) => assert_eq!(got, value, "{name}"),
        (Value::Int(got), Json::Number(_)) => {
            assert_eq!(got.to_string(), value.to_string(), "{name}")
        }
        (Value::Float(got), Json::Number(number)) => {
            assert_eq!(Some(*got), number.as_f64(), "{name}");
        }
        (Value::Text(got), Json::String(text)) => assert_eq!(got, text, "{name}"),
        (Value::Int(got), Json::String(text)) if kind == Some("bigint") => {
            assert_eq!(&got.to_string(), text, "{name}");
        }
        (Value::BigInt(got), Json::String(text)) if kind == Some("bigint") => {
            assert_eq!(got, text, "{name}");
        }
        (Value::Float(got), Json::String(text)) => match text.as_str() {
            "nan" => assert!(got.is_nan(), "{name}"),
            text => assert_eq!(got.to_string(), text, "{name}"),
        },
        (Value::List(got), Json::Array(values)) => {
            assert_eq!(got.len(), values.len(), "{name}");
            for (got, value) in got.iter().zip(values) {
                compare_value(name, got, value, None);
            }
        }
        (Value::Map(got), Json::Object(values)) => {
            assert_eq!(got.len(), values.len(), "{name}");
            for (key, got) in got {
                compare_value(name, got, &values[key.as_str().unwrap()], None);
            }
        }
        _ => panic!("{name}: {got:?} instead of {value}"),
    }
}

#[test]
fn pooled_snapshots_say_what_they_are() {
    for (name, generation, number, align) in [
        ("snapshot_0_1_base", Generation::Snapshot0_1, 100, 1),
        ("snapshot_0_2_base", Generation::Snapshot0_2, 200, 16),
    ] {
        let archive = open(name);
        assert_eq!(archive.generation(), generation);
        assert_eq!(generation.number(), number);
        assert_eq!(archive.version(), generation.version());
        assert_eq!(archive.checksum(), Some(Checksum::Crc32c));
        assert_eq!(names(&archive), ["mask", "w"]);
        let snapshot = archive.snapshot().unwrap();
        assert_eq!(snapshot.timestamp(), &Timestamp::Unix(1_764_547_200));
        assert_eq!(snapshot.magnetron_version(), None);
        assert!(snapshot.metadata().is_empty() && archive.metadata().is_empty());
        let mask = archive.entry("mask").unwrap();
        assert_eq!(mask.dtype(), Some(DType::U8));
        assert_eq!(
            archive.read(mask).unwrap().as_slice::<u8>().unwrap(),
            [1, 0, 255]
        );
        assert_eq!(mask.offset() % align, 0);
        let w = archive.read(archive.entry("w").unwrap()).unwrap();
        assert_eq!(w.shape().dims(), [2, 3]);
        let values: Vec<f32> = w.to_vec().unwrap();
        assert_eq!(values, [0.0, 1.0, -2.5, 1e-3, 65504.0, -0.0]);

        let report = archive.verify(&VerifyOptions::default()).unwrap();
        let lines: Vec<String> = report.items.iter().map(|item| item.item.clone()).collect();
        assert_eq!(lines, ["records", "mask", "w"]);
        assert_eq!(verdict_of(&report), Verdict::Accept);
    }
}

#[test]
fn codes_mean_what_their_version_says() {
    let codes = |name| -> Vec<String> {
        let archive = open(name);
        let entries = archive.entries().iter();
        entries
            .map(|entry| entry.dtype_code().to_string())
            .collect()
    };
    let old = [
        "f32", "f16", "bf16", "bool", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64",
    ];
    assert_eq!(codes("snapshot_0_1_dtypes"), old);
    let mut new = old.to_vec();
    new.insert(3, "f8_e4m3fn");
    assert_eq!(codes("snapshot_0_2_dtypes"), new);
    assert_eq!(codes("snapshot_0_3_dtypes"), new);
}

#[test]
fn a_manifest_says_what_it_is() {
    let archive = open("snapshot_0_3_key_order");
    assert_eq!(archive.generation(), Generation::Snapshot0_3);
    assert_eq!(archive.version().to_string(), "0.3.0");
    assert_eq!(archive.checksum(), None);
    let snapshot = archive.snapshot().unwrap();
    assert_eq!(snapshot.snapshot_version(), Some("9.9.9"));
    assert_eq!(snapshot.magnetron_version(), Some(""));
    assert_eq!(snapshot.manifest_version(), Some(1));
    assert_eq!(snapshot.timestamp(), &Timestamp::Text(String::new()));

    let archive = open("snapshot_0_3_names");
    assert_eq!(names(&archive), ["", "a\0b", "c"]);
    let archive = open("snapshot_0_3_unordered");
    assert_eq!(names(&archive), ["b", "a"]);
    assert_eq!(archive.entry("b").unwrap().offset(), 8192);

    let archive = open("snapshot_0_3_trailing");
    let report = archive.verify(&VerifyOptions::default()).unwrap();
    let last = report.items.last().unwrap();
    assert_eq!(
        last.note.as_deref(),
        Some("100 bytes after the data that belong to nothing")
    );
}

#[test]
fn metadata_keeps_its_types() {
    let archive = open("snapshot_0_3_metadata");
    let metadata = archive.snapshot().unwrap().metadata();
    let text = |text: &str| Value::Text(text.into());
    let expected = [
        ("epoch", Value::Int(3)),
        ("lr", Value::Float(0.5)),
        ("note", text("äö\u{2028}\u{1F600}\"/\u{8}\u{C}\n\r\t")),
        (
            "tags",
            Value::List(vec![
                text("a"),
                Value::Int(1),
                Value::Null,
                Value::Bool(true),
                Value::List(vec![Value::Float(2.5)]),
            ]),
        ),
        (
            "nested",
            Value::Map(vec![(
                text("k"),
                Value::Map(vec![(text("x"), Value::Int(-7))]),
            )]),
        ),
        ("none", Value::Null),
        ("no", Value::Bool(false)),
        ("empty", Value::Map(vec![])),
        ("", Value::List(vec![])),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v))
        .collect();
    assert_eq!(metadata, expected);

    let archive = open("snapshot_0_3_metadata_numbers");
    let metadata = archive.snapshot().unwrap().metadata();
    let values: Vec<String> = metadata
        .iter()
        .map(|(_, value)| format!("{value:?}"))
        .collect();
    let expected = [
        "Float(NaN)",
        "List([Float(inf), Float(-inf)])",
        "Int(18446744073709551615)",
        "Int(-9223372036854775808)",
        "Int(1180591620717411303424)",
        "BigInt(\"-1000000000000000000000000000000000000000000000001\")",
        "Float(inf)",
        "Int(0)",
        "Float(-0.0)",
    ];
    assert_eq!(values, expected);

    let archive = open("snapshot_0_3_metadata_duplicates");
    let metadata = archive.snapshot().unwrap().metadata();
    let inner = vec![(text("y"), Value::Int(3)), (text("z"), Value::Int(2))];
    let expected = [
        ("1".to_owned(), text("b")),
        ("x".to_owned(), Value::Map(inner)),
    ];
    assert_eq!(metadata, expected);
}

/// A thousand levels, on a stack that is smaller than any program's.
#[test]
fn deep_values_fit_a_small_stack() {
    // Every call takes 160 bytes more on s390x.
    let stack = if cfg!(target_arch = "s390x") { 4 } else { 1 };
    let thread = std::thread::Builder::new().stack_size(stack * (256 << 10));
    let handle = thread.spawn(|| {
        let archive = open("snapshot_0_3_depth_1000");
        let value = &archive.snapshot().unwrap().metadata()[0].1;
        assert_eq!(value.depth(), 998);
        let copy = value.clone();
        assert!(copy == *value);
        drop(copy);
        for name in ["snapshot_0_3_depth_open", "snapshot_0_3_depth_unknown_key"] {
            assert!(matches!(judge(case(name)).0, Verdict::Reject(_)));
        }
    });
    handle.unwrap().join().unwrap();
}

#[test]
fn leftovers_of_a_crash_are_named() {
    for version in ["0_1", "0_2"] {
        for fault in ["leftover_offset", "leftover_length"] {
            let error =
                Archive::from_bytes(case(&format!("snapshot_{version}_{fault}"))).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("left by a crashed magnetron"), "{text}");
        }
    }
}

#[test]
fn unknown_dtypes_are_listed() {
    let archive = open("snapshot_0_3_dtype_13");
    let mask = archive.entry("mask").unwrap();
    assert_eq!(
        (mask.dtype(), mask.stored_len(), mask.nbytes()),
        (None, Some(3), None)
    );
    assert_eq!(mask.dtype_code().to_string(), "dtype code 13");
    assert_eq!(archive.read(mask).unwrap_err().rule_id(), Some("mag.dtype"));
    assert!(archive.data(mask).is_err());
    assert!(archive.read(archive.entry("w1").unwrap()).is_ok());
    for name in ["snapshot_0_1_dtype_next", "snapshot_0_2_dtype_next"] {
        let archive = open(name);
        let mask = archive.entry("mask").unwrap();
        assert_eq!((mask.dtype(), mask.stored_len()), (None, None));
        assert!(archive.read(archive.entry("w").unwrap()).is_ok());
    }
}

#[test]
fn the_checksum_may_be_left_out() {
    let bytes = Bytes::from(case("snapshot_0_2_checksum"));
    let mut options = ReadOptions::default();
    options.check_records = false;
    let archive = Archive::from_source(bytes, &options).unwrap();
    assert_eq!(archive.checksum(), None);
    let report = archive.verify(&VerifyOptions::default()).unwrap();
    assert!(report.has_failed());
}

#[test]
fn limits_hold_for_snapshots() {
    let limited = |name: &str, change: fn(&mut ReadOptions)| {
        let mut options = ReadOptions::default();
        change(&mut options);
        let error = Archive::from_source(Bytes::from(case(name)), &options).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit);
        error.rule_id()
    };
    let tensors: fn(&mut ReadOptions) = |options| options.limits.max_tensor_count = 1;
    for name in [
        "snapshot_0_1_base",
        "snapshot_0_2_base",
        "snapshot_0_3_base",
    ] {
        assert_eq!(limited(name, tensors), Some("max_tensor_count"));
    }
    let metadata: fn(&mut ReadOptions) = |options| options.limits.max_metadata_count = 5;
    assert_eq!(
        limited("snapshot_0_3_metadata", metadata),
        Some("max_metadata_count")
    );
}

/// No damage makes the reader panic; `judge` panics on any error that is not the file's fault.
#[test]
fn damaged_snapshots_end_in_errors() {
    let valid = |case: &Case| case.expect == Expect::Valid;
    for (seed, case) in test_data::mag_snapshots::cases()
        .iter()
        .filter(|case| valid(case))
        .enumerate()
    {
        // Of a file of pages only the start is worth it: the rest is filler and data.
        let head = case.bytes.len().min(1200);
        for len in 0..head {
            judge(case.bytes[..len].to_vec());
        }
        for flipped in mutate::bit_flips(&case.bytes, 0..head.min(600)) {
            judge(flipped);
        }
        for mutated in mutate::mutations(&case.bytes, 0x6D61_6722 + seed as u64, 300) {
            judge(mutated);
        }
        // Damage to the document alone, so that it is not the length that is wrong.
        if case.name.starts_with("snapshot_0_3_") {
            let len = u64::from_le_bytes(case.bytes[20..28].try_into().unwrap());
            let document = 44..44 + usize::try_from(len).unwrap().min(4000);
            for mutated in mutate::mutations(&case.bytes[document.clone()], 0x6D61_6723, 300) {
                let mut bytes = case.bytes.clone();
                let len = mutated.len().min(document.len());
                bytes[document.start..document.start + len].copy_from_slice(&mutated[..len]);
                judge(bytes);
            }
        }
    }
}

/// Every byte of the structure counts: a file that is cut anywhere is refused.
#[test]
fn every_cut_is_refused() {
    for name in [
        "snapshot_0_1_base",
        "snapshot_0_2_base",
        "snapshot_0_3_base",
    ] {
        let bytes = case(name);
        for len in 0..bytes.len() {
            let (verdict, _) = judge(bytes[..len].to_vec());
            assert!(
                matches!(verdict, Verdict::Reject(_)),
                "{name} {len}: {verdict:?}"
            );
        }
        assert_eq!(judge(bytes).0, Verdict::Accept);
    }
}

/// Every bit of a pooled file but those of time stamp and filler is checked or is data.
#[test]
fn every_flipped_bit_of_the_records_is_refused() {
    for name in ["snapshot_0_1_base", "snapshot_0_2_base"] {
        let bytes = case(name);
        let end = bytes.windows(4).position(|four| four == b"BUF!").unwrap() + 4;
        for bit in (0..end * 8).filter(|bit| !(64..128).contains(bit)) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (verdict, _) = judge(flipped);
            assert_ne!(verdict, Verdict::Accept, "{name} bit {bit}");
        }
    }
}

/// Bytes of which only the head is there; all that follow are zero.
struct Sparse {
    head: Bytes,
    size: u64,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Source for Sparse {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        let end = offset + out.len() as u64;
        self.reads.lock().unwrap().push(offset..end);
        out.fill(0);
        let there = offset.min(self.head.size())..end.min(self.head.size());
        let len = usize::try_from(there.end - there.start).unwrap();
        self.head.read_into(there.start, &mut out[..len])
    }
}

/// 65,535 tensors on pages of their own.
fn many() -> (Bytes, u64) {
    let tensors = 65_535u64;
    let mut text = String::from(concat!(
        r#"{"manifest_ver":1,"timestamp":"","magnetron_ver":"","snapshot_ver":"","#,
        r#""usr_metadata":{},"tensor_map":{"#,
    ));
    for i in 0..tensors {
        let comma = if i == 0 { "" } else { "," };
        let offset = i * 4096;
        text += &format!(
            r#"{comma}"layer.{i}":{{"shape":[1],"dtype":"uint8","dtype_id":5,"offset":{offset},"nbytes":1}}"#
        );
    }
    text += "}}";
    let len = text.len() as u64;
    let data = (44 + len).next_multiple_of(4096);
    let data_len = (tensors - 1) * 4096 + 1;
    let mut head = b"MAG!\x2C\x01\0\0\0\0\0\0".to_vec();
    for field in [44, len, data, data_len] {
        head.extend(field.to_le_bytes());
    }
    head.extend(text.into_bytes());
    (Bytes::from(head), data + data_len)
}

#[test]
fn opening_a_sparse_file_touches_no_data() {
    let (head, size) = many();
    let document_end = head.size();
    let reads = Arc::new(Mutex::new(Vec::new()));
    let source = Sparse {
        head,
        size,
        reads: reads.clone(),
    };
    let archive = Archive::from_source(source, &ReadOptions::default()).unwrap();
    assert_eq!(archive.entries().len(), 65_535);
    let opened = std::mem::take(&mut *reads.lock().unwrap());
    assert!(
        opened.iter().all(|read| read.end <= document_end),
        "{opened:?}"
    );
    assert!(opened.len() < 100, "{} reads", opened.len());
    let entry = archive.entry("layer.65534").unwrap();
    assert_eq!(entry.offset() + 1, size);
    assert_eq!(
        archive.read(entry).unwrap().data(),
        &Bytes::from_static(&[0])
    );
}

/// The same document through windows and from memory.
#[test]
fn sources_of_all_kinds_read_the_same() {
    for case in test_data::mag_snapshots::cases() {
        let reads = Arc::new(Mutex::new(Vec::new()));
        let sparse = Sparse {
            head: Bytes::from(case.bytes.clone()),
            size: case.bytes.len() as u64,
            reads: reads.clone(),
        };
        let windows = Archive::from_source(sparse, &ReadOptions::default());
        match (windows, Archive::from_bytes(case.bytes)) {
            (Ok(a), Ok(b)) => {
                assert_eq!(names(&a), names(&b));
                let (a, b) = (a.snapshot(), b.snapshot());
                assert_eq!(format!("{a:?}"), format!("{b:?}"));
            }
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string(), "{}", case.name),
            (a, b) => panic!("{}: {a:?}, {b:?}", case.name),
        }
    }
}

/// Any value that Python's `json` writes; keys of one map differ.
fn any_value() -> impl Strategy<Value = Value> {
    let big = "-?[1-9][0-9]{39,60}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i128>().prop_map(Value::Int),
        any::<i32>().prop_map(|value| Value::Int(value.into())),
        big.prop_map(Value::BigInt),
        any::<f64>().prop_map(Value::Float),
        any::<String>().prop_map(Value::Text),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        let map = proptest::collection::btree_map(any::<String>(), inner.clone(), 0..8);
        prop_oneof![
            proptest::collection::vec(inner, 0..8).prop_map(Value::List),
            map.prop_map(|map| {
                Value::Map(
                    map.into_iter()
                        .map(|(key, value)| (Value::Text(key), value))
                        .collect(),
                )
            }),
        ]
    })
}

/// The value as Python writes it.
fn python(value: &Value) -> String {
    let quoted = |text: &str| Json::from(text).to_string();
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::BigInt(digits) => digits.clone(),
        Value::Float(value) if value.is_nan() => "NaN".into(),
        Value::Float(value) if value.is_infinite() => {
            format!("{}Infinity", if *value < 0.0 { "-" } else { "" })
        }
        Value::Float(value) => format!("{value:e}"),
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(python).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(pairs) => {
            let pair = |(key, value): &(Value, Value)| {
                format!("{}: {}", quoted(key.as_str().unwrap()), python(value))
            };
            let pairs: Vec<String> = pairs.iter().map(pair).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        _ => "null".into(),
    }
}

proptest! {
    #[test]
    fn any_metadata_comes_out_as_it_went_in(value in any_value()) {
        let text = format!(r#"{{"before": 1, "value": {}, "after": []}}"#, python(&value));
        let file = test_data::mag_snapshots::manifest_file(&text, "{}", &[]);
        let archive = Archive::from_bytes(file).unwrap();
        let metadata = archive.snapshot().unwrap().metadata();
        // NaN is equal to nothing, but reads the same.
        prop_assert_eq!(format!("{:?}", metadata[1].1), format!("{value:?}"));
        prop_assert_eq!(metadata.len(), 3);
    }

    /// Text that is close to JSON never stops the reader, and what it takes serde_json takes too.
    #[test]
    fn anything_that_looks_like_json_ends(text in r#"\{"a":[\[\]{}",:0-9.eE+\-ntfalsruINiy\\ ]{0,24}\}"#) {
        let file = test_data::mag_snapshots::manifest_file(&text, "{}", &[]);
        let (verdict, _) = judge(file);
        let strict = serde_json::from_str::<Json>(&text);
        if !text.contains('N') && !text.contains('I') && !text.contains("e") && !text.contains("E") {
            prop_assert_eq!(verdict == Verdict::Accept, strict.is_ok(), "{}", text);
        }
    }

    #[test]
    fn any_tensors_come_out_as_they_went_in(
        version in prop_oneof![Just(100u32), Just(200)],
        tensors in proptest::collection::btree_map(
            "[^\0]{1,12}",
            (0u8..13, proptest::collection::vec(0u64..4, 0..5)),
            0..12,
        ),
    ) {
        let codes = if version == 100 { 12 } else { 13 };
        let mut sizes = vec![4usize, 2, 2, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8];
        if version == 100 {
            sizes.remove(3);
        }
        let tensors: Vec<_> = tensors
            .into_iter()
            .map(|(name, (code, dims))| {
                let code = code % codes;
                let elements = dims.iter().product::<u64>() as usize;
                let bytes: Vec<u8> = (0..elements * sizes[usize::from(code)])
                    .map(|at| (at * 7) as u8)
                    .collect();
                (name, code, dims, bytes)
            })
            .collect();
        let borrowed: Vec<_> = tensors
            .iter()
            .map(|(name, code, dims, bytes)| (name.as_str(), *code, dims.as_slice(), bytes.as_slice()))
            .collect();
        let file = test_data::mag_snapshots::pooled_file(version, &borrowed);
        let archive = Archive::from_bytes(file).unwrap();
        prop_assert_eq!(archive.entries().len(), tensors.len());
        for (name, code, dims, bytes) in &tensors {
            let entry = archive.entry(name).unwrap();
            prop_assert_eq!(entry.dtype_code().code(), u32::from(*code));
            prop_assert_eq!(entry.shape().dims(), dims.as_slice());
            let tensor = archive.read(entry).unwrap();
            prop_assert_eq!(tensor.data(), bytes);
        }
    }
}
