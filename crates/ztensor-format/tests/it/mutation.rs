use test_data::{alloc::CountingAlloc, gate::Gate};
use ztensor_format::{Archive, Kind, VerifyOptions};

use crate::judge_up_to;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// A file may rightly ask for more memory than it has bytes, if a caller reads it whole.
const MOST: u64 = 8 << 20;

/// All files, damaged in every way; `judge` panics on any error that is not the file's fault.
const GATE: Gate = Gate {
    format: "ztensor",
    folders: &["ztensor", "ztensor-1-2"],
    header: |len| [0..64, len.saturating_sub(96).max(64)..len],
    window: 128 << 20,
    slow: &[
        "zstd_ratio",
        "zstd_claim",
        "many_items",
        "many_1000.zt",
        "many.zt",
        "zstd_high_ratio.zt",
    ],
};

#[test]
fn files_cut_at_any_length_end_in_errors() {
    // Without the allocator above, the gate would see no memory at all.
    assert!(test_data::alloc::peak_of(|| vec![0u8; 4096]).1 >= 4096);
    GATE.truncations(|file| drop(judge_up_to(MOST, file)));
}

#[test]
fn any_bit_of_a_header_may_be_wrong() {
    GATE.header_bits(|file| drop(judge_up_to(MOST, file)));
}

#[test]
fn spliced_files_end_in_errors() {
    GATE.splices(|file| drop(judge_up_to(MOST, file)));
}

/// What claims much and holds little ends as an error that takes little memory. Other tests of
/// this binary allocate at the same time, so the bound is not the exact one, which
/// `cargo xtask` measures from outside; a buffer for what is claimed would still stand out.
#[test]
fn claims_take_no_memory() {
    let claims = [
        "count_2_32",
        "count_max",
        "bytes_max",
        "text_2_32",
        "array_max",
        "map_max",
        "shape_max",
        "name_max",
        "size_2_62",
        "zstd_64_tib",
        "zstd_claim",
        "zstd_bomb",
        "zstd_lies_huge",
        "zstd_window",
        "zstd_segment",
    ];
    let cases = test_data::cases("ztensor").unwrap();
    for name in claims {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let before = ALLOC.total();
        let archive = match Archive::from_bytes(case.bytes.clone()) {
            Ok(archive) => archive,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Invalid, "{name}");
                continue;
            }
        };
        let report = archive.verify(&VerifyOptions::default()).unwrap();
        assert!(report.has_failed(), "{name}");
        assert!(archive.read(&archive.entries()[0]).is_err(), "{name}");
        let data = archive.data(&archive.entries()[0]).unwrap();
        assert!(data.read(0..data.size()).is_err(), "{name}");
        // A bomb's 16 bytes, a claim's windows; 64 TiB, 2^60 bytes or 120 MiB would be more.
        assert!(ALLOC.total() - before < 96 << 20, "{name}");
    }
}
