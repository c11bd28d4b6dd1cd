use burnpack_format::{Archive, Bytes, Error, Limits, ReadOptions, VerifyOptions};
use test_data::{Expect, alloc::CountingAlloc, gate::Gate, mutate};

use crate::judge;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// All files, damaged in every way; `judge` panics on any error that is not the file's fault.
const GATE: Gate = Gate {
    format: "burnpack",
    folders: &["burnpack"],
    header: |_| [0..160, 0..0],
    window: 0,
    slow: &[],
};

#[test]
fn files_cut_at_any_length_end_in_errors() {
    // Without the allocator above, the gate would see no memory at all.
    assert!(test_data::alloc::peak_of(|| vec![0u8; 4096]).1 >= 4096);
    GATE.truncations(|file| drop(judge(file)));
}

#[test]
fn any_bit_of_a_header_may_be_wrong() {
    GATE.header_bits(|file| drop(judge(file)));
}

#[test]
fn spliced_files_end_in_errors() {
    GATE.splices(|file| drop(judge(file)));
}

/// The metadata alone, so that every fault hits the structure.
#[test]
fn damaged_metadata_ends_in_errors() {
    for case in test_data::cases("burnpack").unwrap() {
        let metadata_end = match case.bytes.get(6..10) {
            Some(size) => 10 + u32::from_le_bytes(size.try_into().unwrap()) as usize,
            None => continue,
        };
        if case.expect != Expect::Valid || metadata_end > 1024 {
            continue;
        }
        for mutated in mutate::mutations(&case.bytes[10..metadata_end], 0x4E52_5542, 500) {
            let mut file = b"NRUB\x01\0".to_vec();
            file.extend(u32::try_from(mutated.len()).unwrap().to_le_bytes());
            file.extend(mutated);
            file.resize(file.len().next_multiple_of(256) + 300, 0);
            judge(file);
        }
    }
}

#[test]
fn declared_counts_take_no_memory() {
    let cases = test_data::cases("burnpack").unwrap();
    for case in cases.iter().filter(|case| case.name.starts_with("huge_")) {
        let (_, peak) = test_data::alloc::peak_of(|| judge(case.bytes.clone()));
        assert!(peak < 1 << 20, "{}: {peak}", case.name);
    }
}

/// A file of one map of this many items, of which each takes a few bytes.
fn many(key: &str, count: u32, item: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let mut metadata = match key {
        "tensors" => vec![0xA1],
        _ => b"\xA2\x67tensors\xA0".to_vec(),
    };
    metadata.push(0x60 | key.len() as u8);
    metadata.extend(key.as_bytes());
    metadata.push(0xBA);
    metadata.extend(count.to_be_bytes());
    metadata.extend((0..count).flat_map(item));
    let mut file = b"NRUB\x01\0".to_vec();
    file.extend(u32::try_from(metadata.len()).unwrap().to_le_bytes());
    file.extend(metadata);
    file.resize(file.len().next_multiple_of(256), 0);
    file
}

fn name(index: u32) -> Vec<u8> {
    [&[0x68][..], format!("{index:08x}").as_bytes()].concat()
}

/// Small items take many times their size in memory, so there is a limit to how many.
#[test]
fn many_small_items_meet_a_limit() {
    let tensor = |shape: &[u8]| {
        let parts = [
            b"\xA3\x65dtype\x62U8\x65shape",
            shape,
            b"\x6Cdata_offsets\x82\0\0",
        ];
        parts.concat()
    };
    let flat = |index| [name(index), tensor(&[0x81, 0])].concat();
    let long_shape = [&[0x9A, 0, 0, 0x10, 0][..], &[0; 0x1000]].concat();
    let long = |index| [name(index), tensor(&long_shape)].concat();
    let wide = |index| {
        let mut pair = name(index);
        pair.extend([0x7A, 0, 0x10, 0, 0]);
        pair.resize(pair.len() + 0x10_0000, b'x');
        pair
    };
    let pair = |index| [name(index), vec![0x60]].concat();
    let scalar = |index| [name(index), b"\xA1\x63Int\0".to_vec()].concat();
    let files = [
        ("max_tensor_count", many("tensors", 100_001, flat)),
        ("max_dim_count", many("tensors", 489, long)),
        ("max_text_bytes", many("metadata", 33, wide)),
        ("max_metadata_count", many("metadata", 100_001, pair)),
        ("max_metadata_count", many("scalars", 100_001, scalar)),
    ];
    // As many as Burn reads; more are read where they don't take more memory than they are worth.
    let mut options = ReadOptions::default();
    options.limits = Limits::READ_BY_BURN;
    options.limits.max_dim_count = 2_000_000;
    let open = |file: Vec<u8>| Archive::from_source(Bytes::from(file), &options);
    for (limit, file) in files {
        match open(file).unwrap_err() {
            Error::Limit(exceeded) => assert_eq!(exceeded.limit, limit),
            error => panic!("{limit}: {error}"),
        }
    }
    for (key, file) in [
        ("tensors", many("tensors", 100_000, flat)),
        ("dims", many("tensors", 488, long)),
        ("text", many("metadata", 31, wide)),
        ("metadata", many("metadata", 100_000, pair)),
        ("scalars", many("scalars", 100_000, scalar)),
    ] {
        assert!(open(file).is_ok(), "{key}");
    }
}

/// A million tensors are read, if the file has as much for each as it takes to list them.
#[test]
fn a_million_tensors_of_ordinary_names_are_read() {
    let descriptor = |at: u64| {
        let mut bytes = b"\xA3\x65dtype\x62U8\x65shape\x81\x01\x6Cdata_offsets\x82".to_vec();
        for offset in [at * 256, at * 256 + 1] {
            bytes.push(0x1B);
            bytes.extend(offset.to_be_bytes());
        }
        bytes
    };
    let long = |index: u32| {
        let name = format!("model.layers.{}.mlp.experts.{index:07}.weight", index % 61);
        let text = [&[0x78, name.len() as u8][..], name.as_bytes()].concat();
        [text, descriptor(index.into())].concat()
    };
    let mut file = many("tensors", 1_000_000, long);
    file.resize(file.len() + 256 * 1_000_000, 0);
    let archive = Archive::from_bytes(file).unwrap();
    assert_eq!(archive.entries().len(), 1_000_000);
    let report = archive.verify(&VerifyOptions::default()).unwrap();
    assert!(!report.has_failed());
    let said = report
        .warnings
        .iter()
        .any(|text| text.contains("Burn reads 100000"));
    assert!(said, "{:?}", report.warnings);

    // Empty ones with the shortest of names would take several times their file.
    let flat = |index| {
        [
            name(index),
            b"\xA3\x65dtype\x62U8\x65shape\x81\0\x6Cdata_offsets\x82\0\0".to_vec(),
        ]
        .concat()
    };
    let error = Archive::from_bytes(many("tensors", 2_000_000, flat)).unwrap_err();
    assert_eq!(error.rule_id(), Some("max_index_overhead_bytes"));
}
