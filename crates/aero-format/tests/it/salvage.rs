//! What a salvaging reader gives away, and what it does not.

use aero_format::{
    Archive, Builder, Bytes, DTypeCode, FourCc, Outcome, ReadOptions, Tensor, VerifyOptions,
};

/// Three shards of two tensors each.
fn file(hashes: bool) -> Vec<u8> {
    let mut builder = Builder::new();
    for i in 0..6u8 {
        let tensor = Tensor::from_slice(&[i; 64], &[64]).unwrap();
        builder.tensor(format!("t{i}"), tensor).unwrap();
    }
    builder.max_shard_bytes(128).tensor_hashes(hashes);
    builder.zstd_level(None).unwrap();
    builder.to_vec().unwrap()
}

fn salvage(bytes: Vec<u8>) -> Archive {
    let options = ReadOptions::default().with_salvage(true);
    Archive::from_source(Bytes::from(bytes), &options).unwrap()
}

fn shard(archive: &Archive, id: u32) -> (usize, usize) {
    let shard = archive.chunk(FourCc::WTSH, &format!("weights.shard{id}"));
    let shard = shard.unwrap();
    (shard.offset() as usize, shard.length() as usize)
}

/// The numbers of the tensors that every way of reading gives, and the rules that the others break.
fn readable(archive: &Archive) -> (Vec<usize>, Vec<&'static str>) {
    let (mut readable, mut rules) = (Vec::new(), Vec::new());
    for (i, entry) in archive.entries().iter().enumerate() {
        let mut out = [0; 64];
        let read = archive.read(entry);
        let into = archive.read_into(entry, &mut out);
        let data = archive.data(entry);
        assert_eq!(read.is_ok(), into.is_ok());
        assert_eq!(read.is_ok(), data.is_ok());
        match read {
            Ok(tensor) => {
                assert_eq!(tensor.data(), &[i as u8; 64][..]);
                assert_eq!(out, [i as u8; 64]);
                assert_eq!(data.unwrap().read(0..64).unwrap(), &out[..]);
                readable.push(i);
            }
            Err(error) => {
                assert_eq!(into.unwrap_err().rule_id(), error.rule_id());
                rules.push(error.rule_id().unwrap());
            }
        }
    }
    (readable, rules)
}

#[test]
fn without_hashes_of_tensors_those_of_shards_decide() {
    let mut bytes = file(false);
    let (start, _) = shard(&Archive::from_bytes(bytes.clone()).unwrap(), 1);
    bytes[start + 64] ^= 1;
    let found = readable(&salvage(bytes.clone()));
    assert_eq!(found.0, [0, 1, 4, 5]);
    assert_eq!(found.1, ["aero.chunk.blake3"; 2]);
    // The shard's item says which tensors are not known to be whole.
    let archive = Archive::from_bytes(bytes).unwrap();
    let report = archive.verify(&VerifyOptions::default()).unwrap();
    let failed = report
        .items
        .iter()
        .filter(|item| item.outcome == Outcome::Failed);
    let failed: Vec<_> = failed
        .map(|item| (&*item.item, item.tensors.join(" ")))
        .collect();
    let want = [
        ("WTSH weights.shard1", "t2 t3".to_owned()),
        ("t2", "t2".to_owned()),
        ("t3", "t3".to_owned()),
    ];
    assert_eq!(failed, want);
}

#[test]
fn a_hash_of_its_own_goes_before_that_of_the_shard() {
    let mut bytes = file(true);
    let (start, _) = shard(&Archive::from_bytes(bytes.clone()).unwrap(), 1);
    bytes[start + 64] ^= 1;
    let found = readable(&salvage(bytes));
    assert_eq!(found.0, [0, 1, 2, 4, 5]);
    assert_eq!(found.1, ["aero.tensor.hash_b3"]);
}

#[test]
fn what_lies_before_a_cut_is_read() {
    for hashes in [false, true] {
        let bytes = file(hashes);
        let whole = Archive::from_bytes(bytes.clone()).unwrap();
        let (start, len) = shard(&whole, 1);
        for (cut, want) in [
            (start + 127, &[0, 1, 2][..]),
            (start + 64, &[0, 1, 2]),
            (start + 63, &[0, 1]),
            (start, &[0, 1]),
            (start + len, &[0, 1, 2, 3]),
        ] {
            let cut = bytes[..cut].to_vec();
            assert_eq!(
                Archive::from_bytes(cut.clone()).unwrap_err().rule_id(),
                Some("aero.truncated")
            );
            let archive = salvage(cut);
            let found = readable(&archive);
            assert_eq!(found.0, want);
            assert!(found.1.iter().all(|rule| *rule == "aero.truncated"));
            let report = archive.verify(&VerifyOptions::default()).unwrap();
            assert!(report.has_failed());
        }
    }
}

/// Bytes that are others each time that they are read.
struct Changing(Bytes, std::sync::atomic::AtomicU8, u64);

impl aero_format::Source for Changing {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), tensor_core::SourceError> {
        self.0.read_into(offset, out)?;
        if offset >= self.2 {
            out.fill(self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
        Ok(())
    }
}

#[test]
fn the_bytes_that_are_returned_are_those_that_were_checked() {
    let bytes = file(true);
    let (start, _) = shard(&Archive::from_bytes(bytes.clone()).unwrap(), 0);
    let mut options = ReadOptions::default();
    options.salvage = true;
    let open = |first: u8| {
        let source = Changing(bytes.clone().into(), first.into(), start as u64);
        Archive::from_source(source, &options).unwrap()
    };
    // The first read is right, whatever a second one would be.
    let archive = open(0);
    let tensor = archive.read(archive.entry("t0").unwrap()).unwrap();
    assert_eq!(tensor.data(), &[0; 64][..]);
    // The first is wrong, and a second one would be right.
    for (first, name) in [(1, "t2"), (2, "t3")] {
        let archive = open(first);
        let entry = archive.entry(name).unwrap();
        let error = archive.read(entry).unwrap_err();
        assert_eq!(error.rule_id(), Some("aero.tensor.hash_b3"));
        let archive = open(first);
        let entry = archive.entry(name).unwrap();
        let error = archive.read_into(entry, &mut [0; 64]).unwrap_err();
        assert_eq!(error.rule_id(), Some("aero.tensor.hash_b3"));
    }
}

/// The file with a dtype that the format does not have for the tensor `t3`.
fn unknown_dtype(hashes: bool) -> Vec<u8> {
    let mut bytes = file(hashes);
    let archive = Archive::from_bytes(bytes.clone()).unwrap();
    let ordinal = archive
        .chunks()
        .iter()
        .position(|chunk| chunk.fourcc() == FourCc::TIDX);
    let chunk = &archive.chunks()[ordinal.unwrap()];
    let range = chunk.offset() as usize..(chunk.offset() + chunk.length()) as usize;
    let from = b"\xa2t3\xa5dtype\x05";
    let at = bytes
        .windows(from.len())
        .position(|bytes| bytes == from)
        .unwrap();
    bytes[at + from.len() - 1] = 13;
    let hash = *blake3::hash(&bytes[range]).as_bytes();
    let toc = 112 + 80 * ordinal.unwrap();
    bytes[toc + 48..toc + 80].copy_from_slice(&hash);
    bytes
}

#[test]
fn bytes_of_an_unknown_dtype_are_hashed_and_read_as_stored() {
    for hashes in [false, true] {
        let mut bytes = unknown_dtype(hashes);
        let archive = Archive::from_bytes(bytes.clone()).unwrap();
        let entry = archive.entry("t3").unwrap();
        assert_eq!(entry.dtype_code(), DTypeCode(13));
        assert!(archive.read(entry).is_err());
        let stored = archive.stored(entry).unwrap();
        assert_eq!(stored.read(0..stored.size()).unwrap(), &[3; 64][..]);
        let outcomes = |bytes: &[u8]| {
            let archive = Archive::from_bytes(bytes.to_vec()).unwrap();
            let report = archive.verify(&VerifyOptions::default()).unwrap();
            let of = |name: &str| {
                let mut items = report.items.iter();
                items.find(|item| item.item == name).unwrap().outcome
            };
            (of("t2"), of("t3"))
        };
        assert_eq!(outcomes(&bytes), (Outcome::Ok, Outcome::Unsupported));
        let (start, _) = shard(&archive, 1);
        bytes[start + 64] ^= 1;
        let neighbour = if hashes { Outcome::Ok } else { Outcome::Failed };
        assert_eq!(outcomes(&bytes), (neighbour, Outcome::Failed));
    }
}
