use burnpack_format::{Archive, Error};
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
    for (limit, file) in files {
        match Archive::from_bytes(file).unwrap_err() {
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
        assert!(Archive::from_bytes(file).is_ok(), "{key}");
    }
}
