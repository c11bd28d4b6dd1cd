//! AERO files.

use aero_format::{Archive, Builder, ReadOptions, TensorOptions};

use crate::{Input, MOST_DECODED, parse_with, read_back, written};

/// As it is; and, since hardly an input has the right hashes, with those made right.
pub fn parse(bytes: &[u8]) {
    parse_once(bytes);
    if let Some(repaired) = repaired(bytes) {
        parse_once(&repaired);
    }
}

fn parse_once(bytes: &[u8]) {
    for (check_control, salvage) in [(true, false), (false, true)] {
        let mut options = ReadOptions::default();
        options.check_control = check_control;
        options.salvage = salvage;
        let archive = match salvage {
            // A salvaging archive refuses to read what has no hash, but not `read_into`.
            true => Archive::from_source(tensor_core::Bytes::copy_from_slice(bytes), &options).ok(),
            false => parse_with!(aero_format, bytes, &options, |_| true),
        };
        let Some(archive) = archive else { continue };
        let _ = (archive.metadata(), archive.manifest());
        for entry in archive.entries().iter().take(8) {
            let _ = archive.extra(entry);
            if entry.nbytes().is_some_and(|len| len <= MOST_DECODED) {
                let _ = archive.read(entry);
                let _ = archive.read_verified(entry, 0..1);
            }
        }
        for chunk in archive.chunks().iter().take(8) {
            if chunk.ulen().max(chunk.length()) <= MOST_DECODED {
                let _ = archive.chunk_data(chunk);
            }
        }
    }
}

/// The file with the hash of every chunk as it should be, where its TOC can be made out.
fn repaired(bytes: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let toc = usize::try_from(word(16)?).ok()?;
    let count = word(toc)? as u32;
    let mut file = bytes.to_vec();
    for entry in 0..count.min(64) as usize {
        let entry = toc.checked_add(16 + 80 * entry)?;
        let Some(hash) = file.get(entry.checked_add(48)?..entry.checked_add(80)?) else {
            break;
        };
        if hash == [0; 32] {
            continue;
        }
        let start = usize::try_from(word(entry + 8)?).ok()?;
        let len = usize::try_from(word(entry + 16)?).ok()?;
        let Some(stored) = start.checked_add(len).and_then(|end| bytes.get(start..end)) else {
            continue;
        };
        let hash = match word(entry)? >> 32 & 1 {
            0 => blake3::hash(stored),
            _ => match zstd::bulk::decompress(stored, MOST_DECODED as usize) {
                Ok(payload) => blake3::hash(&payload),
                Err(_) => continue,
            },
        };
        file[entry + 48..entry + 80].copy_from_slice(hash.as_bytes());
    }
    (file != bytes).then_some(file)
}

/// Tensors in shards, with every kind of hash.
pub fn roundtrip(input: &Input) {
    let mut builder = Builder::new();
    builder
        .tensor_hashes(input.flag(0))
        .ihsh(input.flag(1))
        .page_align(input.flag(2))
        .max_shard_bytes(u64::from(input.options[1]) * 16);
    let align = 1 << (input.options[2] % 13);
    builder.align(align).expect("a power of two");
    let page = u64::from(input.options[3]);
    builder
        .phsh((page > 0).then_some(page * 8))
        .expect("not zero");
    let level = i32::from(input.options[4] % 8) - 2;
    builder
        .zstd_level((level >= 0).then_some(level))
        .expect("zstd has it");
    for (key, value) in &input.texts {
        let _ = builder.metadata(&**key, &**value);
    }
    for (key, value) in &input.floats {
        let _ = builder.metadata(&**key, *value);
    }
    let tensors = input.add_all(|tensor, data| {
        let mut options = TensorOptions::new();
        if tensor.options[0] % 2 == 1 {
            options = options.with_quant_id(tensor.options[1].into());
        }
        let integers = input.integers.iter();
        for (key, value) in integers.take(usize::from(tensor.options[2] % 3)) {
            let _ = options.set_extra(&**key, *value);
        }
        builder.tensor_with(&*tensor.name, data, options).map(drop)
    });
    let Some(file) = written!(&builder) else {
        return;
    };
    let archive = Archive::from_bytes(file).expect("what was written is read");
    archive.metadata().expect("was written");
    read_back!(&archive, &tensors);
    for (entry, (name, tensor)) in archive.entries().iter().zip(&tensors) {
        assert_eq!((entry.name(), entry.shape()), (*name, tensor.shape()));
    }
}
