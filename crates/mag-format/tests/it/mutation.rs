use test_data::{alloc::CountingAlloc, gate::Gate};

use crate::judge;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// All files, damaged in every way; `judge` panics on any error that is not the file's fault.
const GATE: Gate = Gate {
    format: "mag",
    folders: &["mag", "mag-snapshots"],
    header: |_| [0..1024, 0..0],
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
