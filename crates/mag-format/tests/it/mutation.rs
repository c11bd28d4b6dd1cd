use test_data::{Expect, alloc::CountingAlloc, mutate};

use crate::judge;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// No damage makes the reader panic; `judge` panics on any error that is not the file's fault.
#[test]
fn damaged_files_end_in_errors() {
    for case in test_data::cases("mag").unwrap() {
        if case.expect != Expect::Valid
            || case.bytes.len() > 4096
            || case.name.starts_with("snapshot_")
        {
            continue;
        }
        for cut in mutate::truncations(&case.bytes) {
            judge(cut.to_vec());
        }
        for flipped in mutate::bit_flips(&case.bytes, 0..case.bytes.len().min(256)) {
            judge(flipped);
        }
        for mutated in mutate::mutations(&case.bytes, 0x6D61_6721, 1000) {
            judge(mutated);
        }
    }
}

#[test]
fn counts_without_records_take_no_memory() {
    let mut file = b"MAG!\x01\0\0\0\0\0\0\0".to_vec();
    file.extend([0xFF; 8]);
    file.extend([0; 4]);
    let before = ALLOC.total();
    judge(file);
    // Other tests of this binary allocate at the same time; a reserve for 2^32 records would
    // still stand out.
    assert!(ALLOC.total() - before < 1 << 30);
}
