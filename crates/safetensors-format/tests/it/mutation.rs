use test_data::{Expect, alloc::CountingAlloc, gate::Gate, mutate};

use crate::judge;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// All files, damaged in every way; `judge` panics on any error that is not the file's fault.
const GATE: Gate = Gate {
    format: "safetensors",
    folders: &["safetensors"],
    header: |_| [0..512, 0..0],
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

/// The header alone, with its right length, so that every fault hits the JSON.
#[test]
fn damaged_headers_end_in_errors() {
    for case in test_data::cases("safetensors").unwrap() {
        if case.expect != Expect::Valid || case.bytes.len() > 1024 {
            continue;
        }
        let len = u64::from_le_bytes(case.bytes[..8].try_into().unwrap()) as usize;
        let (header, data) = case.bytes[8..].split_at(len);
        for mutated in mutate::mutations(header, 0x7361_6665, 500) {
            let len = (mutated.len() as u64).to_le_bytes();
            judge([&len[..], &mutated, data].concat());
        }
    }
}
