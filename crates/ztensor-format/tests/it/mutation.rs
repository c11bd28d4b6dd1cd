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

/// The same for generation 2, whose files are mostly padding. The hash is made right again, so
/// that damage to the manifest is seen by what is behind it.
#[cfg(feature = "generations")]
#[test]
fn damaged_files_of_generation_2_end_in_errors() {
    const MAGIC: &[u8] = b"\x89ZT2\r\n\x1a\n";
    let rehashed = |mut file: Vec<u8>| {
        let footer = file.len() - 40;
        let field = |file: &[u8], at: usize| {
            u64::from_le_bytes(file[footer + at..footer + at + 8].try_into().unwrap()) as usize
        };
        let (offset, len) = (field(&file, 0), field(&file, 8));
        let manifest = offset
            .checked_add(len)
            .and_then(|end| file.get(offset..end));
        if let Some(hash) = manifest.map(test_data::xxh3) {
            file[footer + 16..footer + 24].copy_from_slice(&hash.to_le_bytes());
        }
        file
    };
    for case in test_data::cases("ztensor").unwrap() {
        if case.expect != Expect::Valid || !case.bytes.starts_with(MAGIC) {
            continue;
        }
        let len = case.bytes.len();
        let tail = len.saturating_sub(400).max(4096).min(len);
        for cut in (tail..len).chain(0..64) {
            judge(case.bytes[..cut].to_vec());
        }
        for flipped in mutate::bit_flips(&case.bytes, tail..len) {
            judge(rehashed(flipped));
        }
        // Only what is not padding.
        for mutated in mutate::mutations(&case.bytes[tail..], 0x0032_5A54, 500) {
            if mutated.len() >= 40 {
                judge(rehashed([&case.bytes[..tail], &mutated].concat()));
            }
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
