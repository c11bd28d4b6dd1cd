//! Snapshots 0.1.0 and 0.2.0: a pool of names, descriptors, data without gaps but for alignment.

#![deny(clippy::arithmetic_side_effects)]

use alloc::vec;
use alloc::vec::Vec;

use tensor_core::codec::{Cursor, NameTable, Ticker, walk};
use tensor_core::{At, Bytes, LimitExceeded, Source, Truncated, checksum};

use super::{ParsedSnapshot, ShapeFault, Snapshot, Timestamp, checked_shape};
use crate::index::{Index, Records, check_memory};
use crate::limits::{MAX_POOLED_RANK, MAX_SIZE};
use crate::tensors::{Record, Tensors};
use crate::{Checksum, DTypeCode, Error, Generation, ReadOptions, Result, Rule};

/// Size of the header.
const HEADER: u64 = 32;
/// Where the checksummed bytes start; they end before `BUF!`.
const CHECKSUMMED: u64 = 20;
/// A descriptor without dims.
const DESCRIPTOR: u64 = 24;

/// Parses the file after magic and version, where the cursor stands.
// This function is long because it goes through the parts of the file in order, each with its own rules.
pub(crate) fn parse(
    source: &dyn Source,
    mut cursor: Cursor<'_>,
    generation: Generation,
    options: &ReadOptions,
) -> Result<Index> {
    let align = match generation {
        Generation::Snapshot0_1 => 1,
        _ => 16,
    };
    cursor.expect_up_to(HEADER.saturating_add(8));
    let timestamp = cursor.u64_le("timestamp")?;
    let stored = cursor.u32_le("checksum")?;
    zero(&mut cursor, "aux", |got| Rule::SnapshotAux { got })?;
    zero(&mut cursor, "metadata_map_len", |got| {
        Rule::SnapshotMetadata { got }
    })?;
    let at = cursor.at("tensor_header_count");
    let descriptors = cursor.u32_le("tensor_header_count")?;
    let each = (DESCRIPTOR, Tensors::MEMORY);
    count(descriptors, each, &cursor, at, options)?;

    let size = source.size();
    let pool = Pool::parse(&mut cursor, options)?;
    marker(&mut cursor, *b"MDT!")?;
    marker(&mut cursor, *b"DSC!")?;
    let mut used = vec![false; pool.len()];
    let mut tensors = Tensors::default();
    let mut layout = Packing::new(align);
    for left in (1..=u64::from(descriptors)).rev() {
        let ahead = left.saturating_mul(DESCRIPTOR);
        cursor.expect_up_to(cursor.position().saturating_add(ahead));
        let ordinal = tensors.len() as u64;
        cursor.set_entry(Some(ordinal));
        let (name, record) = descriptor(&mut cursor, generation, &pool, &mut used, &mut tensors)?;
        let at = At::new(record.record_offset.saturating_add(16), "offset");
        let numel = tensors.shapes.get(record.shape).elements();
        layout
            .place(record, numel, at.entry(ordinal))
            .map_err(|error| error.of_tensor(name))?;
        tensors.push(name, record);
        let rest = left.saturating_sub(1).saturating_mul(Tensors::MEMORY);
        let memory = tensors.memory().saturating_add(rest);
        check_memory(memory, size, options, at.entry(ordinal))?;
    }
    cursor.set_entry(None);
    let records_end = cursor.position();
    marker(&mut cursor, *b"BUF!")?;

    let data = layout.data_start(cursor.position(), size)?;
    for record in &mut tensors.records {
        record.offset = data.saturating_add(record.offset);
    }

    let records = Records {
        range: CHECKSUMMED..records_end,
        checksum: stored,
    };
    let checksum = match options.check_records {
        true => Some(check(source, &records)?),
        false => None,
    };
    let found = ParsedSnapshot {
        tensors,
        checksum,
        records: Some(records),
        snapshot: Snapshot {
            timestamp: Timestamp::Unix(timestamp),
            writer: None,
            metadata: Vec::new(),
        },
        trailing: None,
    };
    Index::of_snapshot(generation, found, |first| Rule::TensorDuplicate { first })
}

fn zero(cursor: &mut Cursor<'_>, field: &'static str, rule: impl Fn(u32) -> Rule) -> Result<()> {
    let at = cursor.at(field);
    match cursor.u32_le(field)? {
        0 => Ok(()),
        got => Err(Error::invalid(rule(got), at)),
    }
}

fn marker(cursor: &mut Cursor<'_>, expected: [u8; 4]) -> Result<()> {
    let at = cursor.at("marker");
    let got = cursor.array::<4>("marker")?;
    if got != expected {
        let rule = Rule::SnapshotMarker { expected, got };
        return Err(Error::invalid(rule, at));
    }
    Ok(())
}

/// Refuses a count that the rest of the file has no room for, or that is above a limit: each takes so
/// many bytes of the file, and of memory.
fn count(
    value: u32,
    (each, memory): (u64, u64),
    cursor: &Cursor<'_>,
    at: At,
    options: &ReadOptions,
) -> Result<()> {
    let value = u64::from(value);
    let needed = value.saturating_mul(each);
    let available = cursor.remaining();
    if needed > available {
        return Err(Error::from(Truncated {
            at,
            needed,
            available,
        }));
    }
    let memory = memory.saturating_mul(value);
    let size = cursor.position().saturating_add(available);
    check_memory(memory, size, options, at)?;
    let max = options.limits.max_tensor_count;
    if value > max {
        return Err(Error::Limit(LimitExceeded {
            limit: "max_tensor_count",
            value,
            max,
            at,
        }));
    }
    Ok(())
}

/// The names, in the order in which tensors were added.
struct Pool {
    offsets: Vec<u32>,
    blob: Bytes,
}

impl Pool {
    /// Bytes of memory that a name takes beside its text: its offset, whether it is used, and while names
    /// are compared a slice and its place in a table.
    const MEMORY: u64 = (size_of::<(u32, bool, &str)>() as u64).saturating_add(NameTable::MEMORY);

    fn parse(cursor: &mut Cursor<'_>, options: &ReadOptions) -> Result<Self> {
        marker(cursor, *b"SRP!")?;
        let at = cursor.at("string count");
        let strings = cursor.u32_le("string count")?;
        // An offset and a byte each, and one more offset, which the first reads below need.
        count(strings, (5, Self::MEMORY), cursor, at, options)?;
        let table = u64::from(strings).saturating_add(1).saturating_mul(4);
        cursor.expect_up_to(cursor.position().saturating_add(table));
        let mut offsets: Vec<u32> = Vec::new();
        for ordinal in 0..=u64::from(strings) {
            let at = cursor.at("string offset").entry(ordinal);
            let got = cursor.u32_le("string offset")?;
            let rule = match offsets.last() {
                None if got != 0 => Rule::SnapshotPoolStart { got },
                Some(&previous) if got <= previous => Rule::SnapshotPoolOffset { previous, got },
                _ => {
                    offsets.push(got);
                    continue;
                }
            };
            return Err(Error::invalid(rule, at));
        }
        let start = cursor.position();
        let len = offsets.last().copied().unwrap_or(0);
        let blob = cursor.take_bytes(len.into(), "strings")?;
        let pool = Self { offsets, blob };
        pool.check(start)?;
        Ok(pool)
    }

    /// Checks that every string is UTF-8 and none a duplicate.
    fn check(&self, start: u64) -> Result<()> {
        let place = |position: usize| {
            let offset = self.offsets.get(position).copied().unwrap_or(0);
            At::new(start.saturating_add(offset.into()), "string").entry(position as u64)
        };
        let mut strings: Vec<&str> = Vec::new();
        for position in 0..self.len() {
            let Some(string) = self.get(position) else {
                let rule = Rule::SnapshotPoolText;
                let at = place(position);
                return Err(Error::invalid(rule, at));
            };
            strings.push(string);
        }
        NameTable::of(&strings, |string| string).map_err(|twice| {
            let rule = Rule::SnapshotPoolDuplicate {
                first: twice.first as u64,
            };
            let at = place(twice.second);
            Error::invalid(rule, at)
        })?;
        Ok(())
    }

    fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn get(&self, position: usize) -> Option<&str> {
        let start = usize::try_from(*self.offsets.get(position)?).ok()?;
        let end = usize::try_from(*self.offsets.get(position.checked_add(1)?)?).ok()?;
        core::str::from_utf8(self.blob.get(start..end)?).ok()
    }
}

/// One descriptor with its tensor's name; the offset is still relative to the data.
// This function is long because each field has its own rule.
fn descriptor<'a>(
    cursor: &mut Cursor<'_>,
    generation: Generation,
    pool: &'a Pool,
    used: &mut [bool],
    tensors: &mut Tensors,
) -> Result<(&'a str, Record)> {
    let record_offset = cursor.position();
    let at = cursor.at("rank");
    let [rank, code, aux @ ..] = cursor.array::<4>("rank")?;
    if aux != [0; 2] {
        let rule = Rule::SnapshotTensorAux { got: aux };
        return Err(Error::invalid(rule, at));
    }
    if rank > MAX_POOLED_RANK {
        let rule = Rule::SnapshotRank { got: rank };
        return Err(Error::invalid(rule, at));
    }
    let at = cursor.at("key_id");
    let key = cursor.u32_le("key_id")?;
    let position = usize::try_from(key).unwrap_or(usize::MAX);
    let (Some(name), Some(used)) = (pool.get(position), used.get_mut(position)) else {
        let rule = Rule::SnapshotKey {
            got: key,
            strings: pool.len() as u64,
        };
        return Err(Error::invalid(rule, at));
    };
    if core::mem::replace(used, true) {
        let rule = Rule::SnapshotKeyTwice { got: key };
        return Err(Error::invalid(rule, at));
    }
    let at = cursor.at("numel");
    let numel = cursor.u64_le("numel")?;
    let offset = cursor.u64_le("offset")?;
    let at_shape = cursor.at("shape");
    let mut dims = [0u64; MAX_POOLED_RANK as usize];
    let dims = dims.get_mut(..usize::from(rank)).unwrap_or_default();
    for dim in dims.iter_mut() {
        *dim = cursor.u64_le("shape")?;
    }
    let shape = match checked_shape(dims, &mut tensors.shapes) {
        Ok(shape) => shape,
        Err(ShapeFault::Dim(got)) => {
            let rule = Rule::SnapshotDim { got };
            return Err(Error::invalid(rule, at_shape));
        }
        Err(ShapeFault::Product) => {
            let rule = Rule::SnapshotShape;
            return Err(Error::invalid(rule, at_shape));
        }
    };
    let product = tensors.shapes.get(shape).elements();
    if numel != product {
        let rule = Rule::SnapshotNumel {
            stored: numel,
            product,
        };
        return Err(Error::invalid(rule, at));
    }
    let code = DTypeCode::new(generation, code.into());
    let data_len = match code.dtype().and_then(|dtype| dtype.size()) {
        None => None,
        Some(size) => match numel.checked_mul(size) {
            Some(len) if len <= MAX_SIZE => Some(len),
            _ => {
                let rule = Rule::SnapshotSize { numel };
                return Err(Error::invalid(rule, at));
            }
        },
    };
    let record = Record::new(record_offset, code, shape, offset, data_len);
    Ok((name, record))
}

/// Where the next tensor must start: the writer leaves no gap.
struct Packing {
    align: u64,
    /// End of the data so far, relative to its start.
    end: u64,
    /// Whether the last tensor is of unknown size, so that `end` is where it starts.
    open: bool,
}

impl Packing {
    fn new(align: u64) -> Self {
        Self {
            align,
            end: 0,
            open: false,
        }
    }

    /// Where the data starts that follows what ends here, after a check that all of it makes a file
    /// of `size` bytes.
    fn data_start(&self, records_end: u64, size: u64) -> Result<u64> {
        let data = aligned(records_end, self.align);
        let expected = data.and_then(|data| data.checked_add(self.end));
        let fits = match (expected, self.open) {
            (Some(end), false) => end == size,
            (Some(end), true) => end <= size,
            (None, _) => false,
        };
        match data.filter(|_| fits) {
            Some(data) => Ok(data),
            None => {
                let rule = Rule::SnapshotLength {
                    expected: expected.unwrap_or(u64::MAX),
                    got: size,
                };
                Err(Error::invalid(rule, At::new(records_end, "data")))
            }
        }
    }

    fn place(&mut self, record: Record, numel: u64, at: At) -> Result<()> {
        let got = record.offset;
        let expected = aligned(self.end, self.align);
        let rule = match expected {
            Some(expected) if !self.open && got != expected => {
                Some(Rule::SnapshotOffset { expected, got })
            }
            Some(_) if self.open && (got < self.end || got.checked_rem(self.align) != Some(0)) => {
                let least = self.end;
                Some(Rule::SnapshotOffsetUnknown { least, got })
            }
            None => Some(Rule::SnapshotSize { numel }),
            Some(_) => None,
        };
        let end = got.checked_add(record.len().unwrap_or(0));
        match (rule, end) {
            (None, Some(end)) => {
                self.end = end;
                self.open = record.len().is_none();
                Ok(())
            }
            (rule, _) => {
                let rule = rule.unwrap_or(Rule::SnapshotSize { numel });
                Err(Error::invalid(rule, at))
            }
        }
    }
}

fn aligned(offset: u64, align: u64) -> Option<u64> {
    offset.checked_next_multiple_of(align)
}

fn check(source: &dyn Source, records: &Records) -> Result<Checksum> {
    let mut computed = 0;
    walk::<Error>(source, records.range.clone(), &Ticker::default(), |piece| {
        computed = checksum::crc32c_append(computed, piece);
        Ok(())
    })?;
    if computed == records.checksum {
        return Ok(Checksum::Crc32c);
    }
    let rule = Rule::SnapshotChecksum {
        stored: records.checksum,
        computed,
    };
    let at = At::new(16, "checksum");
    Err(Error::invalid(rule, at))
}
