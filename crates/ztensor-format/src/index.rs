#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::vec::Vec;

use ciborium_ll::Header;
use tensor_core::{ArchiveId, At, Bytes, LimitExceeded, NameTable, Source};

use crate::cbor::Reader;
use crate::encoding::Encoding;
use crate::layout::{self, ALIGN, EntryMap, EntryParser, FOOTER, MAGIC, MIN_ENTRY};
use crate::read::{Entry, Extra};
use crate::{Error, Limits, ReadOptions, Result, Rule};

/// Everything that a file says about its tensors. One that exists is valid: all data aligned and
/// before the index, every name unique, sizes those of the shape where they are known.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) id: ArchiveId,
    pub(crate) entries: Vec<Entry>,
    pub(crate) limits: Limits,
    /// Where it starts, which is where data must have ended.
    pub(crate) start: u64,
    names: NameTable,
}

impl Index {
    pub(crate) fn parse(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        layout::check_magic(source)?;
        let (start, bytes) = read_index(source)?;
        let limits = options.limits;
        let mut reader = Reader::new(&bytes, start, limits.max_depth);
        let count = match reader.item()? {
            Header::Array(count) => count,
            Header::Break => return reader.fail(Rule::CborBreak),
            _ => return reader.fail(Rule::IndexType),
        };

        let id = ArchiveId::next();
        let mut entries = Vec::new();
        if let Some(count) = count {
            let count = count as u64;
            if count > reader.remaining() as u64 {
                return reader.fail(Rule::CborEnd);
            }
            if count > limits.max_tensors {
                return Err(too_many(&reader, count, &limits));
            }
            // More can't follow, so no count takes more memory than the index itself asks for.
            let room = (reader.remaining() as u64) / MIN_ENTRY;
            let room = usize::try_from(count.min(room)).unwrap_or(0);
            if entries.try_reserve_exact(room).is_err() {
                return Err(too_many(&reader, count, &limits));
            }
        }
        let mut parser = EntryParser::new(limits);
        while count != Some(entries.len()) {
            let ordinal = entries.len() as u64;
            reader.entry = Some(ordinal);
            reader.field = "entry";
            if ordinal >= limits.max_tensors {
                return Err(too_many(&reader, ordinal.saturating_add(1), &limits));
            }
            let start_of_entry = reader.position();
            let header = match reader.item()? {
                Header::Break if count.is_none() => break,
                header => header,
            };
            let map = parser.parse(&mut reader, header, start_of_entry)?;
            let at = At::new(start.saturating_add(map.start as u64), "entry").entry(ordinal);
            check_data(&map, start, at)?;
            entries.push(entry_of(map, &bytes, id, entries.len()));
        }
        reader.entry = None;
        reader.field = "index";
        match reader.remaining() {
            0 => {}
            left => return reader.fail(Rule::IndexTrailing { bytes: left as u64 }),
        }

        let names = NameTable::of(&entries, Entry::name).map_err(|twice| Error::Invalid {
            rule: Rule::NameDuplicate {
                first: twice.first as u64,
            },
            at: At::new(start, "name").entry(twice.second as u64),
        })?;
        Ok(Self {
            id,
            entries,
            limits,
            start,
            names,
        })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries
            .get(self.names.find(&self.entries, Entry::name, name)?)
    }
}

/// Section 3.3: the index and where it starts.
fn read_index(source: &dyn Source) -> Result<(u64, Bytes)> {
    let footer = source.size().saturating_sub(FOOTER);
    let mut field = [0; 8];
    source.read_into(footer, &mut field)?;
    let got = u64::from_le_bytes(field);
    let max = footer.saturating_sub(MAGIC.len() as u64);
    if got == 0 || got > max {
        let rule = Rule::IndexSize { got, max };
        let at = At::new(footer, "Total CBOR Blob Size");
        return Err(Error::Invalid { rule, at });
    }
    let start = footer.saturating_sub(got);
    Ok((start, source.read(start..footer)?))
}

fn too_many(reader: &Reader<'_>, value: u64, limits: &Limits) -> Error {
    Error::Limit(LimitExceeded {
        limit: "max_tensors",
        value,
        max: limits.max_tensors,
        at: reader.at(),
    })
}

/// What the fields of one entry say about each other and the file.
fn check_data(map: &EntryMap<'_>, index_start: u64, at: At) -> Result<()> {
    let fail = |field, rule| {
        let at = At { field, ..at };
        Err(Error::Invalid { rule, at })
    };
    let (offset, size) = (map.offset, map.size);
    if offset.checked_rem(ALIGN) != Some(0) {
        return fail("offset", Rule::OffsetAlignment { got: offset });
    }
    if offset == 0 {
        return fail("offset", Rule::OffsetMagic);
    }
    if offset.checked_add(size).is_none_or(|end| end > index_start) {
        let rule = Rule::DataRange {
            offset,
            size,
            index_start,
        };
        return fail("size", rule);
    }
    let Some(dtype) = map.dtype else {
        return Ok(());
    };
    match map.shape.byte_len(dtype) {
        Ok(Some(expected))
            if expected != size && map.encoding == Encoding::Raw && map.layout.is_dense() =>
        {
            let rule = Rule::SizeMismatch {
                got: size,
                expected,
            };
            fail("size", rule)
        }
        Ok(_) => Ok(()),
        Err(_) => fail("shape", Rule::ShapeOverflow),
    }
}

fn entry_of(map: EntryMap<'_>, index: &Bytes, archive: ArchiveId, ordinal: usize) -> Entry {
    let extra = (map.has_custom || map.unknown.is_some() || map.checksum.is_some()).then(|| {
        Box::new(Extra {
            map: if map.has_custom {
                index.slice(map.start..map.end)
            } else {
                Bytes::new()
            },
            unknown: map.unknown,
            checksum: map.checksum,
        })
    });
    Entry {
        archive,
        ordinal,
        name: map.name.into(),
        dtype: map.dtype,
        layout: map.layout,
        shape: map.shape,
        encoding: map.encoding,
        endianness: map.endianness,
        offset: map.offset,
        size: map.size,
        extra,
    }
}
