use aero_format::{Archive, Builder, Bytes, ReadOptions, Tensor, TensorOptions, Value};
use test_data::{alloc::CountingAlloc, gate::Gate, mutate};

use crate::judge;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

fn file(level: Option<i32>) -> Vec<u8> {
    let mut builder = Builder::new();
    builder
        .tensor("a", Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap())
        .unwrap();
    let note = Value::List(vec![1i64.into(), "x".into()]);
    let options = TensorOptions::new().with_extra("note", note).unwrap();
    let b = Tensor::from_slice(&[1u8; 100], &[10, 10]).unwrap();
    builder.tensor_with("b", b, options).unwrap();
    builder.metadata("step", 7i64).unwrap();
    builder.tensor_hashes(true).ihsh(true).max_shard_bytes(64);
    builder.phsh(Some(32)).unwrap().zstd_level(level).unwrap();
    builder.to_vec().unwrap()
}

/// All files, damaged in every way; `judge` panics on any error that is not the file's fault.
const GATE: Gate = Gate {
    format: "aero",
    folders: &["aero"],
    header: |_| [0..192, 0..0],
    window: 128 << 20,
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

/// No damage makes the reader panic; `judge` panics on any error that is not the file's fault.
#[test]
fn damaged_files_end_in_errors() {
    for level in [None, Some(3)] {
        let file = file(level);
        for cut in mutate::truncations(&file) {
            judge(cut.to_vec());
        }
        for flipped in mutate::bit_flips(&file, 0..file.len().min(1500)) {
            judge(flipped);
        }
        for mutated in mutate::mutations(&file, 0x4145_524F, 5000) {
            judge(mutated);
        }
    }
}

/// Every single bit of a file with all hashes is covered, but for padding and the hash fields of
/// the TOC that nothing covers.
#[test]
fn a_flipped_bit_in_weights_or_metadata_is_found() {
    let file = file(None);
    let (_, archive) = judge(file.clone());
    for chunk in archive.unwrap().chunks() {
        let start = chunk.offset() as usize;
        for at in (start..start + chunk.length() as usize).step_by(3) {
            let mut damaged = file.clone();
            damaged[at] ^= 4;
            let (verdict, _) = judge(damaged);
            assert!(
                matches!(verdict, crate::Verdict::Reject(_)),
                "{} {at}",
                chunk.fourcc()
            );
        }
    }
}

#[test]
fn counts_without_items_take_no_memory() {
    for tidx in [
        &[0xDF, 0xFF, 0xFF, 0xFF, 0xFF][..],
        &[
            0x81, 0xA7, b't', b'e', b'n', b's', b'o', b'r', b's', 0xDD, 0xFF, 0xFF, 0xFF, 0xFF,
        ],
    ] {
        let mut builder = Builder::new();
        builder.zstd_level(None).unwrap();
        let mut file = builder.to_vec().unwrap();
        let (_, archive) = judge(file.clone());
        let archive = archive.unwrap();
        let at = archive
            .chunks()
            .iter()
            .position(|chunk| chunk.fourcc().0 == *b"TIDX")
            .unwrap();
        // The index goes to the end of the file; its entry gets the new place, length and hash.
        let entry = 96 + 16 + 80 * at;
        file.resize(file.len().next_multiple_of(16), 0);
        let (offset, len) = (file.len() as u64, tidx.len() as u64);
        file.extend_from_slice(tidx);
        file[entry + 8..entry + 16].copy_from_slice(&offset.to_le_bytes());
        file[entry + 16..entry + 24].copy_from_slice(&len.to_le_bytes());
        file[entry + 24..entry + 32].copy_from_slice(&len.to_le_bytes());
        let hash = blake3::hash(tidx);
        file[entry + 48..entry + 80].copy_from_slice(hash.as_bytes());
        let ((verdict, _), peak) = test_data::alloc::peak_of(|| judge(file));
        assert_eq!(verdict, crate::Verdict::Reject(Some("aero.msgpack")));
        assert!(peak < 1 << 20, "{peak}");
    }
}

/// A value may take a byte or two of its document, and the document a thousandth in the file.
#[test]
fn values_of_a_byte_each_take_no_multiple_of_their_document() {
    let judged = |file: Vec<u8>| {
        let archive = aero_format::Archive::from_bytes(file).unwrap();
        let (read, peak) = test_data::alloc::peak_of(|| archive.metadata().map(drop));
        (read.map_err(|error| error.rule_id()), peak)
    };
    let built = |value: Value| {
        let mut builder = Builder::new();
        builder.metadata("list", value).unwrap();
        builder.to_vec()
    };
    let zeros = |count| Value::List(vec![Value::Int(0); count]);
    let maps = |count| Value::List(vec![Value::Map(vec![("".into(), Value::Null)]); count]);

    // As many as are just accepted stay within the bound; the writer takes no more than that.
    for most in [zeros(400_000), maps(69_000)] {
        let (read, peak) = judged(built(most).unwrap());
        assert_eq!(read, Ok(()));
        assert!(peak < 68 << 20, "{peak}");
    }
    for more in [zeros(500_000), maps(100_000)] {
        let error = built(more).unwrap_err();
        let refused = aero_format::Error::Build(aero_format::BuildError::Metadata);
        assert_eq!(error.to_string(), refused.to_string());
    }

    // A text of the same length becomes a list where it lies.
    for item in ["0,", r#"{"":0},"#] {
        let mut builder = Builder::new();
        builder.zstd_level(None).unwrap();
        let list = format!("[{}0]", item.repeat(1_000_000));
        builder
            .metadata("list", "x".repeat(list.len() - 2))
            .unwrap();
        let mut file = builder.to_vec().unwrap();
        let at = file.windows(3).position(|window| window == b"xxx").unwrap() - 1;
        file[at..at + list.len()].copy_from_slice(list.as_bytes());
        // A JSON chunk may do without a hash, which is then zeros; it is the first chunk here.
        file[96 + 16 + 48..96 + 16 + 80].fill(0);
        let (read, peak) = judged(file);
        assert_eq!(read, Err(Some("max_metadata_overhead_bytes")));
        assert!(peak < 64 << 20, "{peak}");
    }

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.aeroset.json");
    let json = format!(
        r#"{{"format":{{"name":"AEROSET","version":[0,1]}},"x":[{}0]}}"#,
        "{},".repeat(1_000_000)
    );
    std::fs::write(&path, json).unwrap();
    let (set, peak) = test_data::alloc::peak_of(|| aero_format::Set::open(&path).map(drop));
    assert_eq!(
        set.unwrap_err().rule_id(),
        Some("max_metadata_overhead_bytes")
    );
    assert!(peak < 64 << 20, "{peak}");
}

/// What an index says beside the known fields of a tensor counts as well.
#[test]
fn extra_fields_take_no_multiple_of_their_index() {
    let built = |items: usize| {
        let mut builder = Builder::new();
        let tensor = Tensor::from_slice::<u8>(&[1, 2, 3], &[3]).unwrap();
        let list = Value::List(vec![Value::Null; items]);
        let options = TensorOptions::new().with_extra("list", list).unwrap();
        builder.tensor_with("a", tensor, options).unwrap();
        builder.to_vec()
    };
    let file = Bytes::from(built(10_000).unwrap());
    let mut options = ReadOptions::default();
    let archive = Archive::from_source(file.clone(), &options).unwrap();
    let (extra, peak) =
        test_data::alloc::peak_of(|| archive.extra(archive.entries().first().unwrap()));
    assert_eq!(extra.len(), 1);
    // No more than each item is counted for.
    assert!(peak < 10_000 * 96, "{peak}");
    options.limits.max_metadata_overhead_bytes = 10_000 * 96 - file.len() as u64 - 1;
    let refused = Archive::from_source(file, &options).unwrap_err();
    assert_eq!(refused.rule_id(), Some("max_metadata_overhead_bytes"));
    assert!(built(1_000_000).is_err());
}

/// The index is decoded piece by piece, and what is made of it is about as large.
#[test]
fn an_index_isnt_held_beside_the_list_that_is_made_of_it() {
    const COUNT: usize = 60_000;
    let crowds = test_data::crowds::CROWDS.iter();
    for name in ["aero-names", "aero-empty"] {
        let crowd = crowds.clone().find(|crowd| crowd.name == name).unwrap();
        let bytes = crowd.make(COUNT).files.swap_remove(0).1;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.aero");
        std::fs::write(&path, &bytes).unwrap();
        let (archive, peak) =
            test_data::alloc::peak_of(|| aero_format::Archive::open(&path).unwrap());
        assert_eq!(archive.entries().len(), COUNT);
        let last = archive.entries().next_back().unwrap();
        assert!(archive.entry(last.name()).is_some());
        // 56 bytes a tensor and its name, what a list has reserved that grows, and two windows.
        let names = COUNT * last.name().len();
        assert!(peak < COUNT * 64 + names * 2 + (3 << 20), "{name}: {peak}");
        assert!(peak < bytes.len() * 5 / 4 + (3 << 20), "{name}: {peak}");
    }
}

/// Tensors are decoded from pieces of the index, whatever ends where, and what is long is in several.
#[test]
fn an_index_of_many_pieces_says_the_same() {
    let mut builder = Builder::new();
    let mut wanted = Vec::new();
    for at in 0..3000usize {
        let tensor = Tensor::from_slice::<u8>(&[1, 2, 3], &[3]).unwrap();
        // One in a thousand is longer than a piece.
        let len = if at % 1000 == 7 { 300_000 } else { at % 300 };
        let note = "n".repeat(len);
        let options = TensorOptions::new()
            .with_extra("note", note.as_str())
            .unwrap();
        builder
            .tensor_with(format!("t{at}"), tensor, options)
            .unwrap();
        wanted.push((format!("t{at}"), note));
    }
    for level in [None, Some(3)] {
        builder.zstd_level(level).unwrap();
        let file = builder.to_vec().unwrap();
        let archive = aero_format::Archive::from_bytes(file.clone()).unwrap();
        for (entry, (name, note)) in archive.entries().zip(&wanted) {
            assert_eq!(entry.name(), name);
            let extra = archive.extra(entry);
            assert_eq!(extra.len(), 1);
            assert_eq!(extra[0].1.as_str(), Some(note.as_str()), "{name}");
        }
        assert_eq!(archive.entries().len(), wanted.len());
        // A byte that is not as it was written is the hash's fault, whatever it would be read as.
        let tidx = archive
            .chunks()
            .iter()
            .find(|chunk| chunk.fourcc().0 == *b"TIDX");
        let start = usize::try_from(tidx.unwrap().offset()).unwrap();
        if level.is_none() {
            for at in (start..file.len() - 200).step_by(91_000) {
                let mut damaged = file.clone();
                damaged[at] ^= 0x40;
                if let Err(error) = aero_format::Archive::from_bytes(damaged) {
                    assert_eq!(error.rule_id(), Some("aero.chunk.blake3"), "{at}");
                }
            }
        }
    }
}
