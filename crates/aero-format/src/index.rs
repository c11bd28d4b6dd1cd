#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

use tensor_core::codec::{Cursor, NameTable, check_index_memory};
use tensor_core::{At, DType, LimitExceeded, Source};

use crate::chunk::{Chunk, FourCc};
use crate::integrity::{control_digest, parse_ihsh, unhex};
use crate::layout::{ALIGN, Header, Toc, inside};
use crate::msgpack::{Decoder, Fault};
use crate::payload::{Ahead, Pieces, payload};
use crate::tensors::{Record, Seldom, Shard, Tensors};
use crate::{DTypeCode, Error, Limits, ReadOptions, Result, Rule};

/// Everything that the control structures and the tensor index say. One that exists is valid:
/// all ranges in bounds and apart, all names unique, every tensor within its shard.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) header: Header,
    pub(crate) chunks: Vec<Chunk>,
    chunk_keys: NameTable,
    pub(crate) tensors: Tensors,
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
            let max = limits.max_chunk_name_bytes;
            LimitExceeded::check("max_chunk_name_bytes", names_len, max, at)?;
            if ordinal == 1 && is_destroyed(chunks.first(), &chunk) {
                return Err(Error::invalid(Rule::ControlDestroyed, at));
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
            Error::invalid(
                Rule::ChunkDuplicate {
                    first: twice.first as u64,
                },
                at.entry(twice.second as u64),
            )
        })?;

        let mut index = Self {
            header,
            chunks,
            chunk_keys,
            tensors: Tensors::default(),
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
            let mut ahead = Ahead::new(Pieces::new(source, &tidx, limits)?);
            let parsed = index.parse_tidx(&tidx, &mut ahead, limits, source.size());
            // Of bytes that are not those which were written no more is said.
            ahead.finish()?;
            parsed?;
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

    /// Where a shard starts that a tensor is in; 0 where that is in another file.
    pub(crate) fn shard_offset(&self, shard_id: u32) -> u64 {
        let shards = &self.tensors.shards;
        let at = shards.binary_search_by_key(&shard_id, |shard| shard.id);
        let shard = at.ok().and_then(|at| shards.get(at));
        shard.map_or(0, |shard| shard.offset)
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
            return Err(Error::invalid(Rule::Ihsh, at));
        }
        if cheap && end > control.saturating_add(4096) {
            return Ok(Control::Holds);
        }
        let found = control_digest(source, &self.header, count, end)?;
        if found != digest {
            let (expected, found) = ((&digest).into(), (&found).into());
            return Err(Error::invalid(Rule::IhshDigest { expected, found }, at));
        }
        Ok(Control::Holds)
    }

    /// "TIDX Schema".
    fn parse_tidx(
        &mut self,
        chunk: &Chunk,
        ahead: &mut Ahead<'_>,
        limits: &Limits,
        file_len: u64,
    ) -> Result<()> {
        let depth = limits.value_depth();
        let at = At::new(chunk.offset, "TIDX");
        let structure = |fault| Error::invalid(rule_of(fault, Rule::TidxShape), at);
        let mut seen = false;
        let reserved = usize::try_from(ahead.reserved()).unwrap_or(usize::MAX);
        for _ in 0..decode(ahead, (depth, at), |decoder| {
            decoder.map().map_err(structure)
        })? {
            let tensors = decode(ahead, (depth, at), |decoder| {
                let key = decoder.key().map_err(structure)?;
                Ok(key == Some("tensors"))
            })?;
            if tensors && seen {
                return Err(Error::invalid(Rule::TidxDuplicateKey, at));
            }
            if !tensors {
                decode(ahead, (depth, at), |decoder| {
                    decoder.skip().map_err(structure)
                })?;
                continue;
            }
            seen = true;
            let count = decode(ahead, (depth, at), |decoder| {
                decoder.list().map_err(structure)
            })?;
            // At most as many as fit into the bytes that remain, whatever the list says.
            self.tensors.reserve(count.min(reserved / MIN_TENSOR));
            let mut extras = 0u64;
            for ordinal in 0..count {
                let at = At::new(chunk.offset, "tensors").entry(ordinal as u64);
                let more = decode(ahead, (depth, at), |decoder| {
                    self.parse_tensor(decoder, ordinal, limits, at)
                })?;
                extras = extras.saturating_add(more);
                limits.check_items(extras, file_len, at)?;
                check_index_memory(self.tensors.memory())?;
            }
        }
        if !ahead.is_at_end() {
            return Err(Error::invalid(Rule::MessagePack, at));
        }
        if !seen {
            return Err(Error::invalid(Rule::TidxShape, at));
        }
        self.tensors.finish().map_err(|twice| {
            let at = At::new(chunk.offset, "name").entry(twice.second as u64);
            Error::invalid(
                Rule::TidxDuplicate {
                    first: twice.first as u64,
                },
                at,
            )
        })?;
        Ok(())
    }

    /// Adds a tensor of the index, and returns how many items it has that are kept for `extra`.
    fn parse_tensor(
        &mut self,
        decoder: &mut Decoder<'_>,
        ordinal: usize,
        limits: &Limits,
        at: At,
    ) -> Result<u64> {
        let invalid = |rule, field| Error::invalid(rule, At { field, ..at });
        let kept = self.tensors.extra.len();
        let fields = self.read_fields(decoder, at).inspect_err(|_| {
            // It may be begun again when more of it is here.
            self.tensors.extra.truncate(kept);
        })?;
        let (Some(name), Some(code), Some(dims), Some(shard_id), Some(data_off), Some(data_len)) = (
            fields.name,
            fields.dtype,
            fields.shape.as_ref(),
            fields.shard_id,
            fields.data_off,
            fields.data_len,
        ) else {
            let field = fields.missing();
            return Err(invalid(Rule::TidxMissing { field }, "tensors"));
        };
        let place = |field| At { field, ..at };
        let (len, rank) = (name.len() as u64, dims.rank as u64);
        LimitExceeded::check("max_name_bytes", len, limits.max_name_bytes, place("name"))?;
        let max = limits.max_tensor_dim_count.min(MAX_RANK.into());
        LimitExceeded::check("max_tensor_dim_count", rank, max, place("shape"))?;
        let dims = dims.dims.get(..dims.rank).unwrap_or_default();
        let shape = self.tensors.shapes.push(dims);
        let record = Record {
            data_off,
            data_len,
            shape: shape.map_err(|_| invalid(Rule::TidxOverflow, "shape").of_tensor(name))?,
            shard_id,
            code: DTypeCode(code),
        };
        self.check_record(&record)
            .map_err(|(rule, field)| invalid(rule, field).of_tensor(name))?;
        let tensors = &mut self.tensors;
        tensors.names.push(name);
        tensors.records.push(record);
        let seldom = Seldom {
            ordinal,
            flags: fields.flags,
            quant_id: fields.quant_id,
            extra: kept..tensors.extra.len(),
        };
        if seldom.flags != 0 || seldom.quant_id.is_some() || !seldom.extra.is_empty() {
            tensors.seldom.push(seldom);
        }
        if let Some(hash) = fields.hash_b3 {
            tensors.hashed.push(ordinal);
            tensors.hashes.push(hash);
        }
        Ok(fields.extras)
    }

    /// The known fields of a tensor; pairs that are kept as they are go to `extra`.
    fn read_fields<'a>(&mut self, decoder: &mut Decoder<'a>, at: At) -> Result<Fields<'a>> {
        let invalid = |rule, field| Error::invalid(rule, At { field, ..at });
        let pairs = decoder
            .map()
            .map_err(|fault| invalid(rule_of(fault, Rule::TidxShape), "tensors"))?;
        let mut fields = Fields::default();
        let mut seen = 0u32;
        for _ in 0..pairs {
            let start = decoder.position();
            let key = decoder
                .key()
                .map_err(|fault| invalid(rule_of(fault, Rule::TidxField), "tensors"))?;
            let known = key.and_then(Fields::known);
            let field = known.map_or("tensors", |(_, field)| field);
            if let Some((bit, _)) = known {
                if seen & bit != 0 {
                    return Err(invalid(Rule::TidxDuplicateKey, field));
                }
                seen |= bit;
            }
            fields
                .read(field, decoder)
                .map_err(|rule| invalid(rule, field))?;
            if key.is_some() && (known.is_none() || field == "quant_params") {
                self.tensors.extra.extend_from_slice(decoder.since(start));
            }
        }
        Ok(fields)
    }

    /// Holds a record against its dtype and its shard; the rule that it breaks comes with the field.
    fn check_record(&mut self, record: &Record) -> core::result::Result<(), (Rule, &'static str)> {
        let &Record {
            data_off,
            data_len,
            shard_id,
            ..
        } = record;
        if let Some(dtype) = record.code.dtype().filter(|&dtype| dtype != DType::Opaque) {
            let len = self.tensors.shapes.get(record.shape).byte_len(dtype);
            let len = len.map_err(|_| (Rule::TidxOverflow, "shape"))?;
            if let Some(expected) = len.filter(|&len| data_len < len) {
                let got = data_len;
                return Err((Rule::TidxDataLen { expected, got }, "data_len"));
            }
        }
        if self.in_parts {
            return Ok(());
        }
        let Some(shard) = self.shard_len(shard_id) else {
            return Err((Rule::TidxShard { shard_id }, "shard_id"));
        };
        if data_off.checked_add(data_len).is_none_or(|end| end > shard) {
            let (offset, len) = (data_off, data_len);
            return Err((Rule::TidxDataRange { offset, len, shard }, "data_off"));
        }
        Ok(())
    }

    /// The length of a shard, `None` where the file has none of this id. Of those that were asked for, the
    /// place is known from then on.
    fn shard_len(&mut self, id: u32) -> Option<u64> {
        let shards = &self.tensors.shards;
        match shards.binary_search_by_key(&id, |shard| shard.id) {
            Ok(at) => shards.get(at).map(|shard| shard.len),
            Err(at) => {
                let chunk = self.chunk(FourCc::WTSH, &alloc::format!("weights.shard{id}"))?;
                let (offset, len) = (chunk.offset, chunk.length);
                self.tensors.shards.insert(at, Shard { id, offset, len });
                Some(len)
            }
        }
    }
}

/// Decodes what comes next, from as many bytes as that takes.
fn decode<T>(
    ahead: &mut Ahead<'_>,
    (depth, at): (u32, At),
    mut read: impl FnMut(&mut Decoder<'_>) -> Result<T>,
) -> Result<T> {
    loop {
        let (bytes, left) = ahead.next();
        let mut decoder = Decoder::of_piece(bytes, depth, left);
        let result = read(&mut decoder);
        if result.is_ok() || !decoder.is_short() {
            let used = decoder.position();
            let result = result.map_err(|error| decoder.named(error, at));
            ahead.used(used);
            return result;
        }
        ahead.more()?;
    }
}

/// The fewest bytes that a tensor takes in the index: its six fields, each with its name.
const MIN_TENSOR: usize = 50;

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

    /// The first field that a tensor has to have and this one does not.
    fn missing(&self) -> &'static str {
        let fields = [
            (self.name.is_some(), "name"),
            (self.dtype.is_some(), "dtype"),
            (self.shape.is_some(), "shape"),
            (self.shard_id.is_some(), "shard_id"),
            (self.data_off.is_some(), "data_off"),
            (self.data_len.is_some(), "data_len"),
        ];
        let missing = fields.iter().find(|(is_there, _)| !is_there);
        missing.map_or("", |(_, field)| field)
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
    let invalid = |rule| Err(Error::invalid(rule, at));
    // A salvaging reader takes a file that ends within its weights.
    let weights = [FourCc::WTSH, FourCc::PHSH].contains(&chunk.fourcc);
    let size = match options.salvage && weights {
        true => u64::MAX,
        false => size,
    };
    inside(size, chunk.offset, chunk.length, chunk.out_of_range(), at)?;
    let never = [FourCc::WTSH, FourCc::IHSH, FourCc::PHSH].contains(&chunk.fourcc);
    if never && chunk.is_zstd() {
        return invalid(Rule::ShardCompressed);
    }
    if chunk.fourcc == FourCc::WTSH && chunk.offset % ALIGN != 0 {
        return invalid(Rule::ShardAlignment { got: chunk.offset });
    }
    if !chunk.is_zstd() && chunk.ulen != chunk.length {
        let (length, ulen) = (chunk.length, chunk.ulen);
        return invalid(Rule::ChunkUlen { length, ulen });
    }
    let metadata = [FourCc::TIDX, FourCc::MMSG, FourCc::MJSN].contains(&chunk.fourcc);
    if metadata {
        let max = limits.max_metadata_bytes;
        LimitExceeded::check("max_metadata_bytes", chunk.ulen, max, at)?;
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
        return Err(Error::invalid(
            Rule::StringTableRange {
                offset: table.start,
                len: header.string_table_length,
            },
            at,
        ));
    }
    let range = |chunk: &Chunk| chunk.offset..chunk.offset.saturating_add(chunk.length);
    let at = |ordinal: usize| {
        let entry = (ordinal as u64).saturating_mul(Toc::ENTRY);
        let offset = toc.start.saturating_add(Toc::HEADER).saturating_add(entry);
        At::new(offset.saturating_add(8), "chunk_offset").entry(ordinal as u64)
    };
    let overlap = |chunk: &Chunk, ordinal| {
        let Range { start, end } = range(chunk);
        Error::invalid(Rule::ChunkOverlap { start, end }, at(ordinal))
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
            return Err(overlap(chunk, ordinal));
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
                return Err(Error::invalid(Rule::TidxOverrun, at(ordinal)));
            }
            (false, _) => {
                return Err(overlap(right, ordinal));
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
        assert_eq!(
            limit_of(file(65, &names, b"", 0)),
            Some("max_chunk_name_bytes")
        );
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
