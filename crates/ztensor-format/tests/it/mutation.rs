use test_data::{Expect, alloc::CountingAlloc, mutate};
use ztensor_format::{Archive, Kind, VerifyOptions};

use crate::judge;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// No damage makes the reader panic; `judge` panics on any error that is not the file's fault.
#[test]
fn damaged_files_end_in_errors() {
    for case in test_data::cases("ztensor").unwrap() {
        if case.expect != Expect::Valid || case.bytes.len() > 4096 || case.name == "zstd_ratio" {
            continue;
        }
        for cut in mutate::truncations(&case.bytes) {
            judge(cut.to_vec());
        }
        // Head and data, then the index and its size.
        let len = case.bytes.len();
        for range in [
            0..len.min(80),
            len.saturating_sub(160).max(80).min(len)..len,
        ] {
            for flipped in mutate::bit_flips(&case.bytes, range) {
                judge(flipped);
            }
        }
        for mutated in mutate::mutations(&case.bytes, 0x5A54_454E, 500) {
            judge(mutated);
        }
    }
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
