use test_data::{alloc::CountingAlloc, gate::Gate};

use crate::judge;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// All files, damaged in every way; `judge` panics on any error that is not the file's fault.
const GATE: Gate = Gate {
    format: "primitiv",
    folders: &["primitiv"],
    header: |_| [0..128, 0..0],
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
fn lengths_without_bytes_take_no_memory() {
    let header = |object: u8| {
        let mut file = vec![0xCE, 0, 0, 0, 0, 0xCE, 0, 0, 0, 1, 0xCE, 0, 0, object, 0];
        file.reserve(32);
        file
    };
    for (object, body) in [
        (3, &[0xCE, 0xFF, 0xFF, 0xFF, 0xFF][..]),
        (3, &[0xCE, 0, 0, 0, 1, 0xDD, 0xFF, 0xFF, 0xFF, 0xFF]),
        (1, &[0xDD, 0xFF, 0xFF, 0xFF, 0xFF]),
        (1, &[0x90, 0xCE, 0, 0, 0, 1, 0xC6, 0xFF, 0xFF, 0xFF, 0xFF]),
        (4, &[0xDF, 0xFF, 0xFF, 0xFF, 0xFF]),
    ] {
        let mut file = header(object);
        file.extend_from_slice(body);
        let (_, peak) = test_data::alloc::peak_of(|| judge(file));
        assert!(peak < 1 << 20, "{peak}");
    }
}

/// A hundred thousand arrays, one in the other, where an address should be.
#[test]
fn nesting_costs_no_stack() {
    let mut file = vec![
        0xCE, 0, 0, 0, 0, 0xCE, 0, 0, 0, 1, 0xCE, 0, 0, 3, 0, 0xCE, 0, 0, 0, 1,
    ];
    file.extend(std::iter::repeat_n(0x91, 100_000));
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let (verdict, _) = thread.spawn(move || judge(file)).unwrap().join().unwrap();
    assert_eq!(verdict, crate::Verdict::Reject(Some("primitiv.type")));
}
