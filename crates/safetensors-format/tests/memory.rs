//! How much memory opening takes: one test, since other tests' memory would count too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise"
)]

use std::fmt::Write as _;

use safetensors_format::{Archive, Bytes, Error, Kind, ReadOptions, Source, SourceError};
use test_data::alloc::CountingAlloc;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

const MIB: usize = 1 << 20;

/// A file, whose header has to be copied out of it.
struct File(Bytes);

impl Source for File {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.0.read_into(offset, out)
    }
}

/// What opening a file took at most, and what is left of it.
fn open(file: Vec<u8>) -> (usize, usize, Result<Archive, Error>) {
    let file = Bytes::from(file);
    let before = ALLOC.current();
    ALLOC.reset();
    let archive = Archive::from_source(File(file), &ReadOptions::default());
    let (peak, now) = (ALLOC.peak(), ALLOC.current());
    (
        peak.saturating_sub(before),
        now.saturating_sub(before),
        archive,
    )
}

fn file(mut header: String, data: usize) -> Vec<u8> {
    header.push('}');
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + data, 0);
    file
}

/// Tensors of so many bytes; `item` is what their dtype and shape are.
fn tensors(count: usize, name: &str, bytes: usize, item: impl Fn(usize) -> String) -> Vec<u8> {
    let mut header = String::from("{");
    for i in 0..count {
        let comma = if i == 0 { "" } else { "," };
        let (begin, end) = (i * bytes, (i + 1) * bytes);
        let item = item(i);
        write!(
            header,
            r#"{comma}"{name}{i}":{{{item},"data_offsets":[{begin},{end}]}}"#
        )
        .unwrap();
    }
    file(header, count * bytes)
}

/// Of files of few shapes and dtypes, whatever these are; their names are part of what is kept.
fn a_tensor_takes_at_most_64_bytes_and_its_name() {
    const COUNT: usize = 10_000;
    let same = |_: usize| r#""dtype":"F32","shape":[8]"#.to_owned();
    let turns = |i: usize| match i % 3 {
        0 => r#""dtype":"F32","shape":[2,4]"#.to_owned(),
        1 => r#""dtype":"X32","shape":[2,2,2]"#.to_owned(),
        _ => r#""dtype":"a dtype of a long name that nobody knows","shape":[8]"#.to_owned(),
    };
    let kinds: [(&str, &dyn Fn(usize) -> String); 2] = [("same", &same), ("turns", &turns)];
    for (what, item) in kinds {
        let names: usize = (0..COUNT).map(|i| format!("layer.{i}").len()).sum();
        let (peak, kept, archive) = open(tensors(COUNT, "layer.", 32, item));
        let header = usize::try_from(archive.unwrap().data_start()).unwrap();
        let kept = kept.saturating_sub(names);
        println!("{what}: {kept} kept beside {names} of names, {peak} at most");
        assert!(kept <= 64 * COUNT, "{what}: {kept}");
        assert!(peak <= 64 * COUNT + names + header, "{what}: {peak}");
    }
}

#[test]
fn memory_is_bounded_by_the_file() {
    a_tensor_takes_at_most_64_bytes_and_its_name();
    // A million small tensors, as a file of small layers has them.
    let plain = |_: usize| r#""dtype":"F32","shape":[8]"#.to_owned();
    let many = tensors(1_000_000, "layer.", 32, plain);
    let len = many.len();
    let (peak, kept, archive) = open(many);
    assert_eq!(archive.unwrap().entries().len(), 1_000_000);
    println!("{len} bytes: {peak} at most, {kept} kept");
    assert!(peak <= len + 64 * MIB, "{peak} of {len}");
    // Their names have 12 bytes.
    assert!(kept <= 1_000_000 * (64 + 12), "{kept}");

    // What takes more in memory than in the file, each with a limit and without reaching it.
    let empty = |_: usize| r#""dtype":"U8","shape":[0]"#.to_owned();
    let shapes = |i: usize| format!(r#""dtype":"U8","shape":[0,{i},{i}]"#);
    let dtypes = |i: usize| format!(r#""dtype":"Q{i}","shape":[0]"#);
    let extras = |_: usize| r#""dtype":"U8","shape":[0],"":0,"":0,"":0,"":0,"":0"#.to_owned();
    let dims = |_: usize| format!(r#""dtype":"U8","shape":[{}0]"#, "0,".repeat(500_000));
    let hostile: [(&str, Vec<u8>); 8] = [
        ("empty", tensors(200_000, "", 0, empty)),
        ("empty", tensors(1_700_000, "", 0, empty)),
        ("shapes", tensors(200_000, "", 0, shapes)),
        ("shapes", tensors(1_000_000, "", 0, shapes)),
        ("dtypes", tensors(1_000_000, "", 0, dtypes)),
        ("extras", tensors(900_000, "", 0, extras)),
        ("dims", tensors(90, "", 0, dims)),
        (
            "dims",
            tensors(1, "", 0, |_| {
                format!(r#""dtype":"U8","shape":[{}0]"#, "0,".repeat(20_000_000))
            }),
        ),
    ];
    for (what, bytes) in hostile {
        let len = bytes.len();
        let (peak, _, archive) = open(bytes);
        assert!(peak <= len + 64 * MIB, "{what}: {peak} of {len}");
        match archive {
            Ok(archive) => println!(
                "{what}: {peak} of {len}, {} tensors",
                archive.entries().len()
            ),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Limit, "{what}: {error}");
                println!("{what}: {peak} of {len}, {error}");
            }
        }
    }

    // Pairs of metadata.
    for (pairs, opens) in [(214_000, true), (1_000_001, false)] {
        let mut header = String::from(r#"{"__metadata__":{"":"""#);
        for i in 1..pairs {
            write!(header, r#","{i:x}":"""#).unwrap();
        }
        header.push('}');
        let bytes = file(header, 0);
        let len = bytes.len();
        let (peak, _, archive) = open(bytes);
        assert!(peak <= len + 64 * MIB, "{pairs} pairs: {peak} of {len}");
        assert_eq!(archive.is_ok(), opens, "{pairs}");
    }
}
