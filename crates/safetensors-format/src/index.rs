#![deny(clippy::arithmetic_side_effects)]

mod parser;

use alloc::vec::Vec;

use tensor_core::codec::{NameTable, Names, ShapeId, Shapes};
use tensor_core::{At, Source, SourceError};

use self::parser::Parser;
use crate::layout::{METADATA, PREFIX, header_len};
use crate::meta::{Extras, MetaEntry};
use crate::{DTypeCode, Error, ReadOptions, Result, Rule};

/// Everything that a file says about its tensors. One that exists is valid: the ranges tile the
/// data, every size of a known dtype is right, every name unique.
#[derive(Debug)]
pub(crate) struct Index {
    /// What a set finds the shard of an entry by.
    #[cfg(feature = "std")]
    pub(crate) id: tensor_core::codec::ArchiveId,
    pub(crate) tensors: Tensors,
    pub(crate) metadata: Vec<MetaEntry>,
    pub(crate) data_start: u64,
    /// What readers tolerate, but the format's text doesn't say.
    pub(crate) oddities: Vec<&'static str>,
    metadata_names: NameTable,
    /// Bytes of memory beyond the size of the file.
    #[cfg(feature = "std")]
    pub(crate) overhead: u64,
}

/// The tensors of an index: a small record of each, and in blocks what they share or seldom have.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) names: Names,
    pub(crate) shapes: Shapes,
    pub(crate) records: Vec<Record>,
    /// The dtypes that nobody knows, each once.
    unknown: Vec<DTypeCode>,
    pub(crate) extras: Extras,
}

/// A tensor as the header lists it, with offsets from the start of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) shape: ShapeId,
    /// The position of its dtype: among the known ones, then among those that nobody knows.
    pub(crate) code: u32,
}

impl Tensors {
    /// That of a tensor that there is.
    pub(crate) fn record(&self, ordinal: u32) -> Record {
        const NONE: Record = Record {
            begin: 0,
            end: 0,
            shape: ShapeId::NONE,
            code: 0,
        };
        let record = self.records.get(place(ordinal));
        record.copied().unwrap_or(NONE)
    }

    pub(crate) fn code(&self, record: Record) -> &DTypeCode {
        let code = place(record.code);
        let unknown = code.checked_sub(DTypeCode::KNOWN);
        let unknown = unknown.and_then(|unknown| self.unknown.get(unknown));
        unknown.unwrap_or_else(|| DTypeCode::known(code))
    }

    fn name(&self, ordinal: u32) -> &str {
        self.names.get(place(ordinal))
    }

    /// Gives back room for what did not come, where it is much.
    fn shrink(&mut self) {
        self.shapes.shrink();
        self.unknown.shrink_to_fit();
        self.extras.shrink();
        let len = self.records.len();
        if self.records.capacity() > len.saturating_add(len / 8) {
            self.records.shrink_to_fit();
        }
    }
}

impl Index {
    pub(crate) fn parse(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let header_len = header_len(source, &options.limits)?;
        let data_start = PREFIX.saturating_add(header_len);
        let header = source.read(PREFIX..data_start)?;
        check_start(&header)?;
        let Ok(text) = core::str::from_utf8(&header) else {
            return Err(Error::invalid(Rule::HeaderUtf8, At::new(PREFIX, "header")));
        };
        let size = source.size();
        let copied = source.contiguous().is_none();
        let mut parser = Parser::new(text, size, data_start, copied, &options.limits);
        parser.header()?;
        let (mut tensors, metadata, oddities, overhead) = parser.into_parts();
        #[cfg(not(feature = "std"))]
        let _ = overhead; // for sets
        check_tiling(&tensors, data_start, size.saturating_sub(data_start))?;
        let metadata_names = NameTable::of(&metadata, MetaEntry::key).map_err(|duplicate| {
            let at = At::new(PREFIX, METADATA).entry(duplicate.second as u64);
            let pair = metadata.get(duplicate.second);
            let key = pair.map_or("", MetaEntry::key).into();
            Error::invalid(Rule::MetadataKeyDuplicate { key }, at)
        })?;
        // Where it was read from a file its memory is freed before the table of names needs it.
        drop(header);
        tensors.shrink();
        if let Err(duplicate) = tensors.names.index() {
            let first = duplicate.first as u64;
            let at = At::new(PREFIX, "name").entry(duplicate.second as u64);
            let error = Error::invalid(Rule::NameDuplicate { first }, at);
            return Err(error.of_tensor(tensors.names.get(duplicate.second)));
        }
        Ok(Self {
            #[cfg(feature = "std")]
            id: tensor_core::codec::ArchiveId::next(),
            tensors,
            metadata,
            data_start,
            oddities,
            metadata_names,
            #[cfg(feature = "std")]
            overhead,
        })
    }

    pub(crate) fn find_metadata(&self, key: &str) -> Option<&MetaEntry> {
        self.metadata.get(
            self.metadata_names
                .find(&self.metadata, MetaEntry::key, key)?,
        )
    }
}

/// "Notes": the header begins with `{`.
fn check_start(header: &[u8]) -> Result<()> {
    match header.first() {
        Some(b'{') => Ok(()),
        got => {
            let rule = Rule::HeaderStart { got: got.copied() };
            Err(Error::invalid(rule, At::new(PREFIX, "header")))
        }
    }
}

/// "Notes": sorted by offset the tensors begin at 0, leave no hole, share no byte, and end with the
/// file, whatever is known of their dtypes. None ends beyond the file; that was seen before.
fn check_tiling(tensors: &Tensors, data_start: u64, data_len: u64) -> Result<()> {
    let records = &tensors.records;
    let mut end = 0;
    let in_order = records.iter().all(|record| {
        let next = record.begin == end;
        end = record.end;
        next
    });
    if !in_order {
        let mut sorted: Vec<u32> = Vec::new();
        sorted
            .try_reserve_exact(records.len())
            .map_err(|_| SourceError::OutOfMemory(records.len() as u64))?;
        sorted.extend((0u32..).zip(records).map(|(at, _)| at));
        sorted.sort_by_key(|&at| {
            let record = tensors.record(at);
            (record.begin, record.end)
        });
        end = 0;
        let mut before: Option<u32> = None;
        for at in sorted {
            let record = tensors.record(at);
            if record.begin != end {
                let rule = match record.begin > end {
                    true => Rule::Hole {
                        begin: end,
                        end: record.begin,
                    },
                    false => Rule::Overlap {
                        end,
                        other: before.map_or("", |before| tensors.name(before)).into(),
                    },
                };
                let data = data_start.saturating_add(record.begin);
                let place = At::new(data, "data_offsets").entry(at.into());
                return Err(Error::invalid(rule, place).of_tensor(tensors.name(at)));
            }
            end = record.end;
            before = Some(at);
        }
    }
    if end != data_len {
        let bytes = data_len.saturating_sub(end);
        let at = At::new(data_start.saturating_add(end), "data");
        return Err(Error::invalid(Rule::Trailing { bytes }, at));
    }
    Ok(())
}

/// A place as this host counts them.
pub(crate) fn place(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// A length as headers' places are kept.
fn short(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
