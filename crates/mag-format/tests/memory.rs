//! How much memory a hostile snapshot takes: one test, since other tests' memory would count too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::fmt::Write as _;

use mag_format::{Archive, Bytes, Error, Kind, ReadOptions};
use test_data::{LeBuffer, alloc::CountingAlloc, crc32c, mutate};

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// The most bytes beyond the file itself that opening it took.
fn peak(bytes: Vec<u8>) -> (usize, Result<Archive, Error>) {
    let before = ALLOC.current();
    ALLOC.reset();
    let archive = Archive::from_bytes(bytes);
    (ALLOC.peak().saturating_sub(before), archive)
}

/// A document with this metadata and this map of tensors, and one byte of data.
fn manifest(metadata: &str, map: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"manifest_ver":1,"timestamp":"","magnetron_ver":"","snapshot_ver":"","usr_metadata":{metadata},"tensor_map":{map}}}"#
    );
    let mut file = LeBuffer::new();
    let len = text.len() as u64;
    file.text("MAG!").u32(300).u32(0).u64(44).u64(len);
    file.u64((44 + len).next_multiple_of(4096)).u64(1);
    file.text(&text).pad_to(4096, 0).u8(0);
    file.into_vec()
}

/// A pool of `count` names of four letters that nobody uses.
fn pool(count: u32) -> Vec<u8> {
    let mut file = LeBuffer::new();
    file.text("MAG!").u32(200).u64(0).tag("checksum").u32(0);
    file.tag("start").u32(0).u32(0).u32(0);
    file.text("SRP!").u32(count);
    for i in 0..=count {
        file.u32(i * 4);
    }
    for i in 0..count {
        let letter = |shift: u32| b'0' + u8::try_from(i >> shift & 63).unwrap();
        file.bytes(&[letter(0), letter(6), letter(12), letter(18)]);
    }
    file.text("MDT!DSC!").tag("end").text("BUF!").pad_to(16, 0);
    let checksum = crc32c(&file.as_slice()[file.position("start")..file.position("end")]);
    file.set_u32_at("checksum", checksum);
    file.into_vec()
}

const MIB: usize = 1 << 20;

#[test]
fn memory_is_bounded_by_the_file() {
    // Fields that ask for the most there can be.
    for case in test_data::mag_snapshots::cases() {
        let (taken, _) = peak(case.bytes);
        assert!(taken < MIB, "{}: {taken}", case.name);
    }

    // As many values as the limit allows, each in the least text: lists, maps, strings.
    for (item, count) in [
        ("0,", 999_000),
        ("[0],", 499_000),
        (r#"[{}],"#, 499_000),
        (r#""a","#, 999_000),
    ] {
        let items = item.repeat(count);
        let file = manifest(&format!(r#"{{"a":[{items}0]}}"#), "{}");
        let (taken, archive) = peak(file);
        assert!(archive.is_ok(), "{item}");
        assert!(taken < 72 * MIB, "{item}: {taken}");
    }
    let mut pairs = String::from("{");
    for i in 0..400_000 {
        write!(pairs, r#""{i:x}":"a","#).unwrap();
    }
    pairs += r#""":""}"#;
    let (taken, archive) = peak(manifest(&pairs, "{}"));
    assert!(archive.is_ok());
    assert!(taken < 96 * MIB, "{taken}");

    // One more is refused, and takes no more.
    let file = manifest(&format!(r#"{{"a":[{}0]}}"#, "0,".repeat(5_000_000)), "{}");
    let (taken, archive) = peak(file);
    assert_eq!(archive.unwrap_err().kind(), Kind::Limit);
    assert!(taken < 72 * MIB, "{taken}");
    // What is skipped is not held at all.
    let file = manifest(
        "{}",
        &format!(r#"{{}},"x":[{}0]"#, "[0,{}],".repeat(1_000_000)),
    );
    let (taken, archive) = peak(file);
    assert!(archive.is_ok());
    assert!(taken < MIB, "{taken}");

    // A list of tensors takes some multiple of its text, whatever the file's size.
    let mut map = String::from("{");
    for i in 0..65_535 {
        let comma = if i == 0 { "" } else { "," };
        write!(
            map,
            r#"{comma}"{i}":{{"shape":[0],"dtype":"","dtype_id":0,"offset":0,"nbytes":0}}"#
        )
        .unwrap();
    }
    map += "}";
    let file = manifest("{}", &map);
    let len = file.len();
    let (taken, archive) = peak(file);
    assert_eq!(archive.unwrap().entries().len(), 65_535);
    assert!(taken < len * 6, "{taken} for {len}");

    // What takes more than the file is held against a limit.
    let mut options = ReadOptions::default();
    options.limits.max_index_overhead_bytes = 0;
    let error = Archive::from_source(Bytes::from(pool(1024)), &options).unwrap_err();
    assert_eq!(error.rule_id(), Some("max_index_overhead_bytes"));
    options.limits.max_index_overhead_bytes = 50 << 10;
    assert!(Archive::from_source(Bytes::from(pool(1024)), &options).is_ok());

    // A pool that nobody uses takes no more than any file may.
    let file = pool(1 << 20);
    let len = file.len();
    let (taken, archive) = peak(file);
    assert!(archive.is_ok());
    assert!(taken < len + 64 * MIB, "{taken} for {len}");

    // Nothing that is damaged takes more.
    for name in [
        "snapshot_0_1_base",
        "snapshot_0_2_base",
        "snapshot_0_3_metadata",
    ] {
        let cases = test_data::mag_snapshots::cases();
        let case = cases.into_iter().find(|case| case.name == name).unwrap();
        for mutated in mutate::mutations(&case.bytes, 0x6D61_6724, 20_000) {
            let (taken, _) = peak(mutated);
            assert!(taken < MIB, "{name}: {taken}");
        }
    }
}
