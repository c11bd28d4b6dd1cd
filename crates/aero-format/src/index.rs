#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

use tensor_core::{
    ArchiveId, At, Bytes, Cursor, DType, NameTable, Shape, Source, check_index_memory,
};

use crate::chunk::{Chunk, FourCc};
use crate::integrity::{control_digest, parse_ihsh, payload, unhex};
use crate::layout::{ALIGN, Header, Toc, inside};
use crate::msgpack::{Decoder, Fault};
use crate::read::Entry;
use crate::{DTypeCode, Error, Limits, ReadOptions, Result, Rule};

/// Everything that the control structures and the tensor index say. One that exists is valid:
/// all ranges in bounds and apart, all names unique, every tensor within its shard.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) id: ArchiveId,
    pub(crate) header: Header,
    pub(crate) chunks: Vec<Chunk>,
    chunk_keys: NameTable,
    pub(crate) entries: Vec<Entry>,
    names: NameTable,
    /// The tensor index, which entries keep ranges of.
    pub(crate) tidx: Bytes,
    /// Whether the file is an index alone: tensors, but no weights.
    pub(crate) in_parts: bool,
    /// What a salvaging reader found of each chunk: nothing yet, whole, damaged. Two threads may
    /// both find it, and find the same.
    found: Vec<AtomicU8>,
}

/// What [`Index::check_control`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// There is no IHSH.
    Absent,
    /// Header, TOC and string table are as it says.
    Holds,
    /// Its algorithm is not ours, so nothing was checked.
    OtherAlgorithm,
}

/// States of `Index::found`.
const WHOLE: u8 = 1;
const DAMAGED: u8 = 2;

impl Index {
    pub(crate) fn parse(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let limits = &options.limits;
        let header = Header::parse(source, limits)?;
        let count = Toc::count(source, &header, limits)?;
        let toc = header.toc_offset..header.toc_offset.saturating_add(Toc::len(count));
        let names = source.read(header.string_table())?;

        let mut cursor = Cursor::new(source, toc.clone())?;
        cursor.expect_up_to(toc.end);
        cursor.skip(Toc::HEADER, "toc")?;
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut names_len = 0u64;
        for ordinal in 0..u64::from(count) {
            cursor.set_entry(Some(ordinal));
            let at = cursor.at("chunk_offset");
            let chunk = Toc::entry(&mut cursor, &names)?;
            names_len = names_len.saturating_add(chunk.name().len() as u64);
            if names_len > limits.max_chunk_names {
                return Err(tensor_core::LimitExceeded {
                    limit: "max_chunk_names",
                    value: names_len,
                    max: limits.max_chunk_names,
                    at,
                }
                .into());
            }
            if ordinal == 1 && is_destroyed(chunks.first(), &chunk) {
                return Err(Error::Invalid {
                    rule: Rule::ControlDestroyed,
                    at,
                });
            }
            check_chunk(&chunk, source.size(), options, at)?;
            chunks.push(chunk);
        }
        check_overlap(&header, toc.clone(), &chunks, options.salvage)?;
        let chunk_keys = NameTable::of(&chunks, |chunk| &chunk.key).map_err(|twice| {
            let entry = (twice.second as u64).saturating_mul(Toc::ENTRY);
            let at = At::new(
                toc.start.saturating_add(Toc::HEADER).saturating_add(entry),
                "name_off",
            );
            Error::Invalid {
                rule: Rule::ChunkDuplicate,
                at: at.entry(twice.second as u64),
            }
        })?;

        let mut index = Self {
            id: ArchiveId::next(),
            header,
            chunks,
            chunk_keys,
            entries: Vec::new(),
            names: NameTable::default(),
            tidx: Bytes::new(),
            in_parts: false,
            found: Vec::new(),
        };
        if options.salvage {
            let unknown = index.chunks.iter().map(|_| AtomicU8::new(0));
            index.found = unknown.collect();
        }
        if options.check_control {
            index.check_control(source, limits, true)?;
        }
        if let Some(tidx) = index.first(FourCc::TIDX).cloned() {
            index.in_parts = index.first(FourCc::WTSH).is_none();
            index.tidx = payload(source, &tidx, limits)?;
            index.parse_tidx(&tidx, limits, source.size())?;
        }
        Ok(index)
    }

    /// The first chunk of a type.
    pub(crate) fn first(&self, fourcc: FourCc) -> Option<&Chunk> {
        self.chunks.iter().find(|chunk| chunk.fourcc == fourcc)
    }

    /// The chunk of a type and name.
    pub(crate) fn chunk(&self, fourcc: FourCc, name: &str) -> Option<&Chunk> {
        self.chunks.get(self.position(&Chunk::key(fourcc, name))?)
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.chunk_keys.find(&self.chunks, |chunk| &chunk.key, key)
    }

    /// Whether a chunk is as its hash says, which `check` finds out once.
    pub(crate) fn is_whole(
        &self,
        chunk: &Chunk,
        check: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let found = self.position(&chunk.key);
        let found = found.and_then(|at| self.found.get(at));
        match found.map(|found| found.load(Ordering::Relaxed)) {
            Some(WHOLE) => Ok(true),
            Some(DAMAGED) => Ok(false),
            _ => {
                let whole = check()?;
                if let Some(found) = found {
                    found.store(if whole { WHOLE } else { DAMAGED }, Ordering::Relaxed);
                }
                Ok(whole)
            }
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries
            .get(self.names.find(&self.entries, Entry::name, name)?)
    }

    /// AIP-0001: whether header, TOC and string table are as IHSH says; anything else than that is
    /// an error. `cheap` takes ranges that reach into the weights as they are.
    pub(crate) fn check_control(
        &self,
        source: &dyn Source,
        limits: &Limits,
        cheap: bool,
    ) -> Result<Control> {
        let Some(chunk) = self.first(FourCc::IHSH) else {
            return Ok(Control::Absent);
        };
        let at = At::new(chunk.offset, "covered_ranges");
        let bytes = payload(source, chunk, limits)?;
        let Some((end, digest)) = parse_ihsh(&bytes, at, limits)? else {
            return Ok(Control::OtherAlgorithm);
        };
        let count = u32::try_from(self.chunks.len()).unwrap_or(u32::MAX);
        let toc_end = self.header.toc_offset.saturating_add(Toc::len(count));
        let control = toc_end.max(self.header.string_table().end);
        if end < control || end > source.size() {
            return Err(Error::Invalid {
                rule: Rule::Ihsh,
                at,
            });
        }
        if cheap && end > control.saturating_add(4096) {
            return Ok(Control::Holds);
        }
        if control_digest(source, &self.header, count, end)? != digest {
            return Err(Error::Invalid {
                rule: Rule::IhshDigest,
                at,
            });
        }
        Ok(Control::Holds)
    }

    /// "TIDX Schema".
    fn parse_tidx(&mut self, chunk: &Chunk, limits: &Limits, file_len: u64) -> Result<()> {
        let bytes = self.tidx.clone();
        let mut decoder = Decoder::new(&bytes, limits.max_depth);
        let at = At::new(chunk.offset, "TIDX");
        let structure = |fault| Error::Invalid {
            rule: rule_of(fault, Rule::TidxShape),
            at,
        };
        let mut seen = false;
        for _ in 0..decoder.map().map_err(structure)? {
            match decoder.key().map_err(structure)? {
                Some("tensors") if seen => {
                    return Err(Error::Invalid {
                        rule: Rule::TidxDuplicateKey,
                        at,
                    });
                }
                Some("tensors") => {
                    seen = true;
                    let count = decoder.list().map_err(structure)?;
                    let mut shard = None;
                    let mut memory = bytes.len() as u64;
                    let mut extras = 0u64;
                    for ordinal in 0..count {
                        let at = At::new(chunk.offset, "tensors").entry(ordinal as u64);
                        let more =
                            self.parse_tensor(&mut decoder, ordinal, limits, at, &mut shard)?;
                        extras = extras.saturating_add(more);
                        limits.check_items(extras, file_len, at)?;
                        let more = self.entries.last().map_or(0, memory_of);
                        memory = memory.saturating_add(more);
                        check_index_memory(memory)?;
                    }
                }
                _ => {
                    decoder.skip().map_err(structure)?;
                }
            }
        }
        if !decoder.is_at_end() {
            return Err(Error::Invalid {
                rule: Rule::MessagePack,
                at,
            });
        }
        if !seen {
            return Err(Error::Invalid {
                rule: Rule::TidxShape,
                at,
            });
        }
        self.names = NameTable::of(&self.entries, Entry::name).map_err(|twice| {
            let at = At::new(chunk.offset, "name").entry(twice.second as u64);
            Error::Invalid {
                rule: Rule::TidxDuplicate,
                at,
            }
        })?;
        Ok(())
    }

    /// Adds a tensor, and returns how many items it has that are kept for `extra`.
    fn parse_tensor(
        &mut self,
        decoder: &mut Decoder<'_>,
        ordinal: usize,
        limits: &Limits,
        at: At,
        shard: &mut Option<(u32, u64, u64)>,
    ) -> Result<u64> {
        let invalid = |rule, field| Error::Invalid {
            rule,
            at: At { field, ..at },
        };
        let start = decoder.position();
        let pairs = decoder
            .map()
            .map_err(|fault| invalid(rule_of(fault, Rule::TidxShape), "tensors"))?;
        let mut fields = Fields::default();
        let mut seen = 0u32;
        for _ in 0..pairs {
            let key = decoder
                .key()
                .map_err(|fault| invalid(rule_of(fault, Rule::TidxField), "tensors"))?;
            let known = key.and_then(Fields::known);
            if let Some((bit, _)) = known {
                if seen & bit != 0 {
                    return Err(invalid(
                        Rule::TidxDuplicateKey,
                        known.map_or("", |known| known.1),
                    ));
                }
                seen |= bit;
            }
            let field = known.map_or("tensors", |known| known.1);
            fields
                .read(field, decoder)
                .map_err(|rule| invalid(rule, field))?;
        }
        let raw = start..decoder.position();
        let (Some(name), Some(code), Some(dims), Some(shard_id), Some(data_off), Some(data_len)) = (
            fields.name,
            fields.dtype,
            fields.shape,
            fields.shard_id,
            fields.data_off,
            fields.data_len,
        ) else {
            return Err(invalid(Rule::TidxMissing, "tensors"));
        };
        if name.len() > limits.max_name as usize {
            let (value, max) = (name.len() as u64, limits.max_name.into());
            let at = At {
                field: "name",
                ..at
            };
            return Err(tensor_core::LimitExceeded {
                limit: "max_name",
                value,
                max,
                at,
            }
            .into());
        }
        let max_rank = limits.max_rank.min(MAX_RANK);
        if dims.rank > max_rank as usize {
            let (value, max) = (dims.rank as u64, max_rank.into());
            let at = At {
                field: "shape",
                ..at
            };
            return Err(tensor_core::LimitExceeded {
                limit: "max_rank",
                value,
                max,
                at,
            }
            .into());
        }
        let dims = dims.dims.get(..dims.rank).unwrap_or_default();
        let code = DTypeCode(code);
        let shape = Shape::new(dims).map_err(|_| invalid(Rule::TidxOverflow, "shape"))?;
        let len = match code.dtype() {
            Some(DType::Opaque) => Some(data_len),
            Some(dtype) => {
                let len = shape
                    .byte_len(dtype)
                    .map_err(|_| invalid(Rule::TidxOverflow, "shape"))?;
                if len.is_some_and(|len| data_len < len) {
                    return Err(invalid(Rule::TidxDataLen, "data_len"));
                }
                len
            }
            None => None,
        };
        let mut offset = 0;
        if !self.in_parts {
            let (_, shard_offset, shard_len) = match *shard {
                Some(known) if known.0 == shard_id => known,
                _ => {
                    let chunk = alloc::format!("weights.shard{shard_id}");
                    let chunk = self.chunk(FourCc::WTSH, &chunk);
                    let chunk = chunk.ok_or_else(|| Error::MissingShard {
                        tensor: name.into(),
                        shard_id: shard_id.into(),
                        at: At {
                            field: "shard_id",
                            ..at
                        },
                    })?;
                    (shard_id, chunk.offset, chunk.length)
                }
            };
            *shard = Some((shard_id, shard_offset, shard_len));
            match data_off.checked_add(data_len) {
                Some(end) if end <= shard_len => offset = shard_offset.saturating_add(data_off),
                _ => return Err(invalid(Rule::TidxDataRange, "data_off")),
            }
        }
        self.entries.push(Entry {
            archive: self.id,
            ordinal,
            name: name.into(),
            code,
            shape,
            shard_id,
            data_off,
            data_len,
            offset,
            len,
            flags: fields.flags,
            hash_b3: fields.hash_b3,
            quant_id: fields.quant_id,
            raw,
        });
        Ok(fields.extras)
    }
}

/// What a tensor takes in the list, and in the table of names.
fn memory_of(entry: &Entry) -> u64 {
    (size_of::<Entry>() as u64)
        .saturating_add(NameTable::MEMORY)
        .saturating_add(entry.name.len() as u64)
        .saturating_add(entry.shape.heap_bytes())
}

/// The highest rank that is read, whatever the limits.
const MAX_RANK: u32 = 32;
/// The same as a length.
const KEPT: usize = 32;

/// Dims as they were read.
struct Dims {
    rank: usize,
    dims: [u64; KEPT],
}

/// The known fields of a tensor, as far as they were read.
#[derive(Default)]
struct Fields<'a> {
    name: Option<&'a str>,
    dtype: Option<u16>,
    shape: Option<Dims>,
    shard_id: Option<u32>,
    data_off: Option<u64>,
    data_len: Option<u64>,
    flags: u64,
    hash_b3: Option<[u8; 32]>,
    quant_id: Option<i64>,
    /// Items of all others.
    extras: u64,
}

/// The fields that the format itself writes, in its order.
pub(crate) const FIELDS: [&str; 10] = [
    "name",
    "dtype",
    "shape",
    "shard_id",
    "data_off",
    "data_len",
    "flags",
    "quant_id",
    "quant_params",
    "hash_b3",
];

impl<'a> Fields<'a> {
    /// A bit of its own and the name of a key that we know.
    fn known(key: &str) -> Option<(u32, &'static str)> {
        Some(match key {
            "name" => (0x1, "name"),
            "dtype" => (0x2, "dtype"),
            "shape" => (0x4, "shape"),
            "shard_id" => (0x8, "shard_id"),
            "data_off" => (0x10, "data_off"),
            "data_len" => (0x20, "data_len"),
            "flags" => (0x40, "flags"),
            "quant_id" => (0x80, "quant_id"),
            "quant_params" => (0x100, "quant_params"),
            "hash_b3" => (0x200, "hash_b3"),
            _ => return None,
        })
    }

    fn read(&mut self, field: &str, decoder: &mut Decoder<'a>) -> Result<(), Rule> {
        let wrong = |fault| rule_of(fault, Rule::TidxField);
        match field {
            "name" => {
                let name = decoder
                    .text()
                    .map_err(|fault| rule_of(fault, Rule::TidxName))?;
                self.name = Some(name);
            }
            "dtype" => {
                let code = decoder.uint().map_err(wrong)?;
                self.dtype = Some(u16::try_from(code).map_err(|_| Rule::TidxField)?);
            }
            "shape" => {
                let rank = decoder.list().map_err(wrong)?;
                let mut dims = Dims {
                    rank,
                    dims: [0; KEPT],
                };
                for at in 0..rank {
                    let dim = decoder.uint().map_err(wrong)?;
                    if i64::try_from(dim).is_err() {
                        return Err(Rule::TidxField);
                    }
                    // Of more dims than are kept only their number counts.
                    if let Some(slot) = dims.dims.get_mut(at) {
                        *slot = dim;
                    }
                }
                self.shape = Some(dims);
            }
            "shard_id" => {
                let id = decoder.uint().map_err(wrong)?;
                let id = i32::try_from(id).ok().and_then(|id| u32::try_from(id).ok());
                self.shard_id = Some(id.ok_or(Rule::TidxField)?);
            }
            "data_off" => self.data_off = Some(decoder.uint().map_err(wrong)?),
            "data_len" => self.data_len = Some(decoder.uint().map_err(wrong)?),
            "flags" => self.flags = decoder.uint().map_err(wrong)?,
            "quant_id" => {
                let id = decoder.int().map_err(wrong)?;
                self.quant_id = Some(i64::try_from(id).map_err(|_| Rule::TidxField)?);
            }
            "hash_b3" => {
                let text = decoder
                    .text()
                    .map_err(|fault| rule_of(fault, Rule::TidxHash))?;
                // An empty text means that there is none.
                if !text.is_empty() {
                    self.hash_b3 = Some(unhex(text).ok_or(Rule::TidxHash)?);
                }
            }
            _ => {
                let items = decoder.skip_items().map_err(wrong)?;
                self.extras = self.extras.saturating_add(items);
            }
        }
        Ok(())
    }
}

/// The rule that a fault breaks: that of the encoding, or `typed` where only the type is wrong.
fn rule_of(fault: Fault, typed: Rule) -> Rule {
    match fault {
        Fault::Malformed => Rule::MessagePack,
        Fault::Type => typed,
    }
}

/// What the reference leaves of a TOC when it adds IHSH to a list of chunks.
fn is_destroyed(first: Option<&Chunk>, second: &Chunk) -> bool {
    let ihsh = first.is_some_and(|first| first.fourcc == FourCc::IHSH);
    ihsh && second.fourcc == FourCc([0; 4]) && second.length == 0 && second.offset == 0
}

fn check_chunk(chunk: &Chunk, size: u64, options: &ReadOptions, at: At) -> Result<()> {
    let limits = &options.limits;
    let invalid = |rule| Err(Error::Invalid { rule, at });
    // A salvaging reader takes a file that ends within its weights.
    let weights = [FourCc::WTSH, FourCc::PHSH].contains(&chunk.fourcc);
    let size = match options.salvage && weights {
        true => u64::MAX,
        false => size,
    };
    inside(size, chunk.offset, chunk.length, Rule::ChunkRange, at)?;
    let never = [FourCc::WTSH, FourCc::IHSH, FourCc::PHSH].contains(&chunk.fourcc);
    if never && chunk.is_zstd() {
        return invalid(Rule::ShardCompressed);
    }
    if chunk.fourcc == FourCc::WTSH && chunk.offset % ALIGN != 0 {
        return invalid(Rule::ShardAlignment);
    }
    if !chunk.is_zstd() && chunk.ulen != chunk.length {
        return invalid(Rule::ChunkUlen);
    }
    let metadata = [FourCc::TIDX, FourCc::MMSG, FourCc::MJSN].contains(&chunk.fourcc);
    if metadata && chunk.ulen > limits.max_metadata_ulen {
        let (limit, value, max) = ("max_metadata_ulen", chunk.ulen, limits.max_metadata_ulen);
        return Err(tensor_core::LimitExceeded {
            limit,
            value,
            max,
            at,
        }
        .into());
    }
    Ok(())
}

/// Checks that no payload shares bytes with another one or with the control structures. A
/// salvaging reader takes the tensor index over the weights that it overran.
fn check_overlap(header: &Header, toc: Range<u64>, chunks: &[Chunk], salvage: bool) -> Result<()> {
    let table = header.string_table();
    let apart = |a: &Range<u64>, b: &Range<u64>| {
        a.is_empty() || b.is_empty() || a.end <= b.start || b.end <= a.start
    };
    if !apart(&toc, &table) || (!table.is_empty() && table.start < Header::SIZE) {
        let at = At::new(28, "string_table_offset");
        return Err(Error::Invalid {
            rule: Rule::StringTableRange,
            at,
        });
    }
    let range = |chunk: &Chunk| chunk.offset..chunk.offset.saturating_add(chunk.length);
    let at = |ordinal: usize| {
        let entry = (ordinal as u64).saturating_mul(Toc::ENTRY);
        let offset = toc.start.saturating_add(Toc::HEADER).saturating_add(entry);
        At::new(offset.saturating_add(8), "chunk_offset").entry(ordinal as u64)
    };
    let mut sorted: Vec<(usize, &Chunk)> = chunks
        .iter()
        .enumerate()
        .filter(|(_, chunk)| chunk.length > 0)
        .collect();
    sorted.sort_unstable_by_key(|(_, chunk)| chunk.offset);
    let control = [0..Header::SIZE, toc.clone(), table];
    for &(ordinal, chunk) in &sorted {
        if control.iter().any(|part| !apart(part, &range(chunk))) {
            return Err(Error::Invalid {
                rule: Rule::ChunkOverlap,
                at: at(ordinal),
            });
        }
    }
    for (&(_, left), &(ordinal, right)) in sorted.iter().zip(sorted.iter().skip(1)) {
        if range(left).end <= right.offset {
            continue;
        }
        let overrun = left.fourcc == FourCc::TIDX && right.fourcc == FourCc::WTSH;
        match (overrun, salvage) {
            (true, true) => {}
            (true, false) => {
                return Err(Error::Invalid {
                    rule: Rule::TidxOverrun,
                    at: at(ordinal),
                });
            }
            (false, _) => {
                return Err(Error::Invalid {
                    rule: Rule::ChunkOverlap,
                    at: at(ordinal),
                });
            }
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "zstd"))]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a test may panic"
)]
mod tests {
    use super::*;
    use crate::{Archive, Error};

    /// A file of `count` TIDX chunks that share a payload, and a name of all of `names`.
    fn file(count: u32, names: &[u8], payload: &[u8], ulen: u64) -> Vec<u8> {
        let toc_len = 16 + 80 * u64::from(count);
        let mut file = Vec::new();
        file.extend_from_slice(b"AERO\0\0\x01\0\x60\0\0\0");
        for field in [96, toc_len, 96 + toc_len, names.len() as u64, 0] {
            file.extend_from_slice(&field.to_le_bytes());
        }
        file.resize(96, 0);
        file.extend_from_slice(&count.to_le_bytes());
        file.resize(112, 0);
        let offset = 96 + toc_len + names.len() as u64;
        for _ in 0..count {
            file.extend_from_slice(b"TIDX\x01\0\0\0");
            for field in [offset, payload.len() as u64, ulen] {
                file.extend_from_slice(&field.to_le_bytes());
            }
            file.extend_from_slice(&0u32.to_le_bytes());
            file.extend_from_slice(&u32::try_from(names.len()).unwrap().to_le_bytes());
            file.resize(file.len() + 40, 0);
        }
        file.extend_from_slice(names);
        file.extend_from_slice(payload);
        file
    }

    fn limit_of(file: Vec<u8>) -> Option<&'static str> {
        match Archive::from_bytes(file) {
            Err(Error::Limit(limit)) => Some(limit.limit),
            _ => None,
        }
    }

    #[test]
    fn names_that_share_the_string_table_take_no_more_than_their_limit() {
        let names = alloc::vec![b'n'; 1 << 20];
        assert_eq!(limit_of(file(65, &names, b"", 0)), Some("max_chunk_names"));
        assert_eq!(limit_of(file(1, &names, b"", 0)), None);
    }

    #[test]
    fn metadata_out_of_all_proportion_is_refused_before_it_is_decoded() {
        let bomb = zstd::bulk::compress(&alloc::vec![0; 32 << 20], 6).unwrap();
        let claim = file(1, b"tensors", &bomb, 32 << 20);
        assert_eq!(limit_of(claim), Some("max_metadata_ratio"));
        let small = zstd::bulk::compress(&alloc::vec![0; 8 << 20], 6).unwrap();
        assert_eq!(limit_of(file(1, b"tensors", &small, 8 << 20)), None);
    }
}
