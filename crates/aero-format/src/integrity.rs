//! BLAKE3 of chunks and tensors, IHSH (AIP-0001) and PHSH (AIP-0002).

use alloc::vec::Vec;

use tensor_core::codec::{Ticker, walk};
use tensor_core::{At, Source};

use crate::layout::{Header, Toc};
use crate::msgpack::{Decoder, Encoder};
use crate::{Error, Limits, Result, Rule};

/// Bytes of an IHSH payload as the reference writes it.
pub(crate) const IHSH_SIZE: usize = 256;

/// AIP-0001: the digest of `[0, end)` with every chunk hash of the TOC as zeros.
pub(crate) fn control_digest(
    source: &dyn Source,
    header: &Header,
    count: u32,
    end: u64,
) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut offset = 0u64;
    let first = header.toc_offset + Toc::HEADER;
    let hashes_end = first + u64::from(count) * Toc::ENTRY;
    walk::<Error>(source, 0..end, &Ticker::default(), |piece| {
        let piece_end = offset + piece.len() as u64;
        if piece_end <= first || offset >= hashes_end {
            hasher.update(piece);
        } else {
            let mut piece = piece.to_vec();
            let entry_before = offset.saturating_sub(first) / Toc::ENTRY;
            for entry in entry_before..u64::from(count) {
                let start = first + entry * Toc::ENTRY + Toc::HASH;
                if start >= piece_end {
                    break;
                }
                let from = usize::try_from(start.saturating_sub(offset)).unwrap_or(usize::MAX);
                let to = usize::try_from((start + 32).min(piece_end).saturating_sub(offset));
                let to = to.unwrap_or(0);
                if let Some(hash) = piece.get_mut(from..to) {
                    hash.fill(0);
                }
            }
            hasher.update(&piece);
        }
        offset = piece_end;
        Ok(())
    })?;
    Ok(hasher.finalize().into())
}

/// What an IHSH payload says: where its range ends, and the digest; `None` for an algorithm that
/// is not ours.
pub(crate) fn parse_ihsh(bytes: &[u8], at: At, limits: &Limits) -> Result<Option<(u64, [u8; 32])>> {
    let wrong = || Error::invalid(Rule::Ihsh, at);
    let mut decoder = Decoder::new(bytes, limits.value_depth());
    let (mut algorithm, mut range, mut digest) = (None, None, None);
    let mut parse = || {
        for _ in 0..decoder.map()? {
            match decoder.key()? {
                Some("algo") => algorithm = Some(decoder.text()?),
                Some("covered_ranges") => {
                    let count = decoder.list()?;
                    for at in 0..count {
                        if decoder.list()? != 2 {
                            return Err(crate::msgpack::Fault::Type);
                        }
                        let pair = (decoder.uint()?, decoder.uint()?);
                        range = (at == 0 && count == 1).then_some(pair);
                    }
                }
                Some("digest") => digest = Some(decoder.bin()?),
                _ => {
                    decoder.skip()?;
                }
            }
        }
        Ok(())
    };
    if parse().is_err() {
        return Err(decoder.named(wrong(), at));
    }
    // Zeros fill the payload up.
    if bytes
        .get(decoder.position()..)
        .unwrap_or_default()
        .iter()
        .any(|&byte| byte != 0)
    {
        return Err(wrong());
    }
    if algorithm.is_some_and(|algorithm| algorithm != "blake3-256") {
        return Ok(None);
    }
    match (algorithm, range, digest.map(<[u8; 32]>::try_from)) {
        (Some(_), Some((0, end)), Some(Ok(digest))) => Ok(Some((end, digest))),
        _ => Err(wrong()),
    }
}

/// The payload of an IHSH chunk.
pub(crate) fn ihsh(end: u64, digest: &[u8; 32]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.map(3);
    encoder.text("algo");
    encoder.text("blake3-256");
    encoder.text("covered_ranges");
    encoder.list(1);
    encoder.list(2);
    encoder.uint(0);
    encoder.uint(end);
    encoder.text("digest");
    encoder.bin(digest);
    let mut bytes = encoder.into_vec();
    bytes.resize(IHSH_SIZE, 0);
    bytes
}

/// Hashes of a shard's pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageHashes {
    pub(crate) page_size: u64,
    pub(crate) digests: Vec<[u8; 32]>,
}

/// All hashes of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardHashes {
    pub(crate) whole: [u8; 32],
    pub(crate) pages: Option<PageHashes>,
    /// In the order of the shard's tensors, where they were asked for.
    pub(crate) tensors: Option<Vec<[u8; 32]>>,
}

/// Parses the PHSH of a shard of `len` bytes.
pub(crate) fn parse_phsh(
    bytes: &[u8],
    shard: &str,
    len: u64,
    at: At,
    limits: &Limits,
) -> Result<PageHashes> {
    let wrong = || Error::invalid(Rule::Phsh, at);
    let mut decoder = Decoder::new(bytes, limits.value_depth());
    let (mut name, mut page_size, mut digests) = (None, None, None);
    let mut parse = || {
        for _ in 0..decoder.map()? {
            match decoder.key()? {
                Some("shard_name") => name = Some(decoder.text()?),
                Some("page_size") => page_size = Some(decoder.uint()?),
                Some("digests") => {
                    let mut list = Vec::new();
                    for _ in 0..decoder.list()? {
                        let digest = decoder.bin()?.try_into();
                        list.push(digest.map_err(|_| crate::msgpack::Fault::Type)?);
                    }
                    digests = Some(list);
                }
                _ => {
                    decoder.skip()?;
                }
            }
        }
        Ok::<(), crate::msgpack::Fault>(())
    };
    if parse().is_err() {
        return Err(decoder.named(wrong(), at));
    }
    if !decoder.is_at_end() || name != Some(shard) {
        return Err(wrong());
    }
    match (page_size, digests) {
        (Some(page_size), Some(digests))
            if page_size > 0 && len.div_ceil(page_size) == digests.len() as u64 =>
        {
            Ok(PageHashes { page_size, digests })
        }
        _ => Err(wrong()),
    }
}

/// The payload of a PHSH chunk.
pub(crate) fn phsh(shard: &str, pages: &PageHashes) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.map(3);
    encoder.text("shard_name");
    encoder.text(shard);
    encoder.text("page_size");
    encoder.uint(pages.page_size);
    encoder.text("digests");
    encoder.list(pages.digests.len());
    for digest in &pages.digests {
        encoder.bin(digest);
    }
    encoder.into_vec()
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> alloc::string::String {
    bytes
        .iter()
        .map(|byte| alloc::format!("{byte:02x}"))
        .collect()
}

/// Bytes of 64 hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0u8; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0usize..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}
