use test_data::{Expect, alloc::CountingAlloc, mutate};

use crate::judge;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// No damage makes the reader panic; `judge` panics on any error that is not the file's fault.
#[test]
fn damaged_files_end_in_errors() {
    for case in test_data::cases("primitiv").unwrap() {
        if case.expect != Expect::Valid || case.bytes.len() > 4096 {
            continue;
        }
        for cut in mutate::truncations(&case.bytes) {
            judge(cut.to_vec());
        }
        for flipped in mutate::bit_flips(&case.bytes, 0..case.bytes.len().min(256)) {
            judge(flipped);
        }
        for mutated in mutate::mutations(&case.bytes, 0x7072_696D, 1000) {
            judge(mutated);
        }
    }
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
        let before = ALLOC.total();
        judge(file);
        // Other tests of this binary allocate at the same time; room for 2^32 of anything would
        // still stand out.
        assert!(ALLOC.total() - before < 1 << 30);
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
