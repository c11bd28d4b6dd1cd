#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::codec::{Cursor, Ticker, check_index_memory, walk};
use tensor_core::{At, LimitExceeded, Source, SourceError, Truncated, checksum};

use crate::layout::{Header, MetaRecord, TensorRecord};
use crate::meta::MetaEntry;
#[cfg(feature = "snapshots")]
use crate::snapshot::{manifest, pooled};
use crate::tensors::{Record, Tensors};
use crate::{Checksum, Error, Generation, ReadOptions, Result, Rule};

/// Everything that a file says about its tensors. One that exists is valid: every range in
/// bounds, aligned and disjoint, every name unique.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) metadata: Vec<MetaEntry>,
    pub(crate) tensors: Tensors,
    pub(crate) generation: Generation,
    pub(crate) checksum: Option<Checksum>,
    /// `None` where the format has no checksum.
    pub(crate) records: Option<Records>,
    #[cfg(feature = "snapshots")]
    pub(crate) snapshot: Option<crate::Snapshot>,
    /// Bytes after the data, where the format allows any.
    #[cfg(feature = "snapshots")]
    pub(crate) trailing: Option<u64>,
    /// Positions of the metadata by key. A table of names is quicker and four times as large, and the metadata
    /// of a real file has few pairs.
    metadata_order: Vec<u32>,
}

/// What the checksum covers, and its value in the file.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) range: Range<u64>,
    pub(crate) checksum: u32,
}

impl Index {
    pub(crate) fn parse(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let size = source.size();
        let mut cursor = Cursor::new(source, 0..size)?;
        cursor.expect_up_to(Header::SIZE);
        let generation = Generation::parse(source, &mut cursor)?;
        #[cfg(feature = "snapshots")]
        match generation {
            Generation::Version1 => {}
            Generation::Snapshot0_1 | Generation::Snapshot0_2 => {
                return pooled::parse(source, cursor, generation, options);
            }
            Generation::Snapshot0_3 => return manifest::parse(source, cursor, options),
        }
        let header = Header::parse(&mut cursor)?;
        check_counts(&header, &cursor, options)?;

        let (mut metas, tensors) = (header.num_meta_kv, header.num_tensors);
        let mut metadata = Vec::new();
        while metas > 0 {
            expect(&mut cursor, metas, tensors);
            let ordinal = metadata.len() as u64;
            cursor.set_entry(Some(ordinal));
            check_index_memory(cursor.position())?;
            let record = MetaRecord::parse(&mut cursor)?;
            metadata.push(MetaEntry {
                key: record.key.into(),
                value: record.value,
            });
            metas = metas.saturating_sub(1);
        }
        let tensors = parse_tensors(&mut cursor, tensors, options)?;
        let records_end = cursor.position();

        let checksum = if options.check_records {
            Some(check_records(source, &header, records_end)?)
        } else {
            None
        };
        check_ranges(&tensors, records_end, size)?;

        let metadata_order = by_key(&metadata).map_err(|(first, second)| {
            let rule = Rule::MetaDuplicate {
                first: first.into(),
            };
            let at = At::new(Header::SIZE, "metadata key").entry(second.into());
            Error::invalid(rule, at)
        })?;
        let tensors = tensors.with_names(|first| Rule::TensorDuplicate { first })?;
        let records = Records {
            range: Header::CHECKSUMMED..records_end,
            checksum: header.checksum,
        };
        Ok(Self {
            metadata,
            tensors,
            generation,
            checksum,
            records: Some(records),
            #[cfg(feature = "snapshots")]
            snapshot: None,
            #[cfg(feature = "snapshots")]
            trailing: None,
            metadata_order,
        })
    }

    /// The index of a snapshot, whose parser has checked everything but that names are unique.
    #[cfg(feature = "snapshots")]
    pub(crate) fn of_snapshot(
        generation: Generation,
        parsed: crate::snapshot::ParsedSnapshot,
        duplicate: impl Fn(u64) -> Rule,
    ) -> Result<Self> {
        let tensors = parsed.tensors.with_names(duplicate)?;
        Ok(Self {
            metadata: Vec::new(),
            tensors,
            generation,
            checksum: parsed.checksum,
            records: parsed.records,
            snapshot: Some(parsed.snapshot),
            trailing: parsed.trailing,
            metadata_order: Vec::new(),
        })
    }

    pub(crate) fn find_metadata(&self, key: &str) -> Option<&MetaEntry> {
        let at = |position: u32| self.metadata.get(usize::try_from(position).ok()?);
        let order = &self.metadata_order;
        let found =
            order.binary_search_by(|&position| at(position).map(MetaEntry::key).cmp(&Some(key)));
        at(*order.get(found.ok()?)?)
    }
}

/// The tensor records, each of which is valid; what they say of the rest of the file is not checked.
fn parse_tensors(cursor: &mut Cursor<'_>, count: u32, options: &ReadOptions) -> Result<Tensors> {
    let size = cursor.position().saturating_add(cursor.remaining());
    let least = u64::from(count).saturating_mul(Tensors::MEMORY);
    check_memory(least, size, options, At::new(12, "num_tensors"))?;
    let mut tensors = Tensors::default();
    // The file has more bytes than that, each of them a record's or its data's; but it may have
    // holes, and be larger than memory.
    tensors
        .reserve(usize::try_from(count).unwrap_or(usize::MAX))
        .map_err(|_| SourceError::OutOfMemory(least))?;
    for left in (1..=count).rev() {
        expect(cursor, 0, left);
        if let Some(first) = tensors.records.first() {
            // Records come before data, so all up to the first data is structure.
            cursor.expect_up_to(first.offset);
        }
        let ordinal = tensors.len() as u64;
        let at = At::new(cursor.position(), "key").entry(ordinal);
        cursor.set_entry(Some(ordinal));
        tensors.parse_record(cursor)?;
        let rest = u64::from(left.saturating_sub(1)).saturating_mul(Tensors::MEMORY);
        check_memory(tensors.memory().saturating_add(rest), size, options, at)?;
    }
    Ok(tensors)
}

impl Tensors {
    /// These tensors with a table of all names, or the error about the first duplicate.
    fn with_names(mut self, duplicate: impl Fn(u64) -> Rule) -> Result<Self> {
        if let Err(twice) = self.finish() {
            let rule = duplicate(twice.first as u64);
            let at = At::new(self.record(twice.second).record_offset, "key");
            let error = Error::invalid(rule, at.entry(twice.second as u64));
            return Err(error.of_tensor(self.names.get(twice.second)));
        }
        Ok(self)
    }
}

/// Refuses counts that the rest of the file has no room for: a record takes a minimum, and a
/// tensor at least one byte of data at a multiple of 64 of its own.
fn check_counts(header: &Header, cursor: &Cursor<'_>, options: &ReadOptions) -> Result<()> {
    let limits = options.limits;
    for (value, max, limit, field) in [
        (
            u64::from(header.num_tensors),
            limits.max_tensor_count,
            "max_tensor_count",
            "num_tensors",
        ),
        (
            u64::from(header.num_meta_kv),
            limits.max_metadata_count,
            "max_metadata_count",
            "num_meta_kv",
        ),
    ] {
        let minimum = if field == "num_tensors" {
            value
                .saturating_mul(TensorRecord::MIN_SIZE.saturating_add(64))
                .saturating_sub(if value > 0 { 63 } else { 0 })
        } else {
            value.saturating_mul(MetaRecord::MIN_SIZE)
        };
        let at = At::new(if field == "num_tensors" { 12 } else { 16 }, field);
        let available = cursor.remaining();
        if minimum > available {
            return Err(Error::from(Truncated {
                at,
                needed: minimum,
                available,
            }));
        }
        if value > max {
            return Err(Error::Limit(LimitExceeded {
                limit,
                value,
                max,
                at,
            }));
        }
    }
    Ok(())
}

/// Positions in the order of their keys, or the first two with one key.
fn by_key(metadata: &[MetaEntry]) -> core::result::Result<Vec<u32>, (u32, u32)> {
    let key = |position: u32| {
        let entry = usize::try_from(position)
            .ok()
            .and_then(|at| metadata.get(at));
        entry.map(MetaEntry::key)
    };
    let mut order: Vec<u32> = (0u32..).take(metadata.len()).collect();
    order.sort_unstable_by(|&a, &b| key(a).cmp(&key(b)).then(a.cmp(&b)));
    let pairs = order.iter().copied().zip(order.iter().copied().skip(1));
    let twice = pairs.filter(|&(a, b)| key(a) == key(b));
    match twice.min_by_key(|&(_, second)| second) {
        None => Ok(order),
        Some(twice) => Err(twice),
    }
}

/// Refuses an index that takes more than it may beyond the size of the file.
pub(crate) fn check_memory(
    memory: u64,
    file_len: u64,
    options: &ReadOptions,
    at: At,
) -> Result<()> {
    check_index_memory(memory)?;
    let max = options.limits.max_index_overhead_bytes;
    let value = memory.saturating_sub(file_len);
    if value > max {
        let limit = "max_index_overhead_bytes";
        return Err(Error::Limit(LimitExceeded {
            limit,
            value,
            max,
            at,
        }));
    }
    Ok(())
}

/// Tells the cursor how much the records that are left take at least.
fn expect(cursor: &mut Cursor<'_>, metas: u32, tensors: u32) {
    let metas = u64::from(metas).saturating_mul(MetaRecord::MIN_SIZE);
    let tensors = u64::from(tensors).saturating_mul(TensorRecord::MIN_SIZE);
    let end = cursor
        .position()
        .saturating_add(metas)
        .saturating_add(tensors);
    cursor.expect_up_to(end);
}

/// Tells which of the two checksums the header carries.
fn check_records(source: &dyn Source, header: &Header, records_end: u64) -> Result<Checksum> {
    let mut crc32c = 0;
    let range = Header::CHECKSUMMED..records_end;
    walk::<Error>(source, range.clone(), &Ticker::default(), |piece| {
        crc32c = checksum::crc32c_append(crc32c, piece);
        Ok(())
    })?;
    if header.checksum == crc32c {
        return Ok(Checksum::Crc32c);
    }
    let mut ieee = crc32fast::Hasher::new();
    ieee.update(&source.read(0..8)?);
    ieee.update(&[0; 4]);
    walk::<Error>(source, range, &Ticker::default(), |piece| {
        ieee.update(piece);
        Ok(())
    })?;
    let ieee = ieee.finalize();
    if header.checksum == ieee {
        return Ok(Checksum::Ieee);
    }
    let rule = Rule::Checksum {
        stored: header.checksum,
        crc32c,
        ieee,
    };
    Err(Error::invalid(rule, At::new(8, "checksum")))
}

/// What a tensor of an unknown dtype takes at least: it has an element.
const UNKNOWN: u64 = 1;

/// Checks that all data lies after the records, in the file, and shares no byte.
fn check_ranges(tensors: &Tensors, records_end: u64, size: u64) -> Result<()> {
    let place = |ordinal: usize| {
        let record = tensors.record(ordinal);
        At::new(record.record_offset.saturating_add(12), "offset").entry(ordinal as u64)
    };
    let len_of = |record: &Record| record.len().unwrap_or(UNKNOWN);
    let mut ascending = true;
    let mut last_end = records_end;
    for (ordinal, record) in tensors.records.iter().enumerate() {
        let len = len_of(record);
        let error = match record.offset.checked_add(len) {
            Some(end) if record.offset >= records_end && end <= size => {
                ascending &= record.offset >= last_end;
                last_end = end;
                continue;
            }
            Some(_) if record.offset >= records_end => Error::from(Truncated {
                at: place(ordinal),
                needed: len,
                available: size.saturating_sub(record.offset),
            }),
            _ => {
                let got = record.offset;
                Error::invalid(Rule::TensorOffset { got, records_end }, place(ordinal))
            }
        };
        return Err(error.of_tensor(tensors.names.get(ordinal)));
    }
    if ascending {
        return Ok(());
    }
    let mut sorted: Vec<(&Record, usize)> = tensors.records.iter().zip(0..).collect();
    sorted.sort_unstable_by_key(|(record, _)| record.offset);
    for (&(left, a), &(right, b)) in sorted.iter().zip(sorted.iter().skip(1)) {
        if left.offset.saturating_add(len_of(left)) > right.offset {
            let (other, later) = (a.min(b), a.max(b));
            let rule = Rule::TensorOverlap {
                other: other as u64,
            };
            let error = Error::invalid(rule, place(later));
            return Err(error.of_tensor(tensors.names.get(later)));
        }
    }
    Ok(())
}
