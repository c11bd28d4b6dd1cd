#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::codec::{ArchiveId, NameTable, check_index_memory};
use tensor_core::{At, Bytes, LimitExceeded, Source, SourceError};

use crate::cbor::{Header, Reader};
use crate::checksum::Checksum;
use crate::encoding::Encoding;
use crate::layout::{self, ALIGN, EntryMap, EntryParser, FOOTER, MAGIC, MIN_ENTRY, Magic};
use crate::read::{Entry, Extra};
use crate::{Error, Generation, Limits, ReadOptions, Result, Rule};

/// Everything that a file says about its tensors. One that exists is valid: all data aligned and
/// before the index, every name unique, sizes those of the shape where they are known.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) id: ArchiveId,
    pub(crate) entries: Vec<Entry>,
    #[cfg(feature = "zstd")]
    pub(crate) limits: Limits,
    /// Where it starts, which is where data must have ended.
    pub(crate) start: u64,
    pub(crate) generation: Generation,
    #[cfg(feature = "generations")]
    pub(crate) about: crate::manifest::About,
    names: NameTable,
}

impl Index {
    pub(crate) fn parse(source: &Arc<dyn Source>, options: &ReadOptions) -> Result<Self> {
        #[cfg(feature = "generations")]
        {
            let parse = match layout::check_magic(source)? {
                Magic::V0 => return Self::parse_v0(source, options),
                Magic::V1 => crate::v1::parse,
                Magic::V2 => crate::v2::parse,
            };
            let (assembly, about, start) = parse(source, options)?;
            let (id, generation) = (assembly.id, assembly.generation);
            let (entries, names) = assembly.finish()?;
            Ok(Self {
                id,
                entries,
                #[cfg(feature = "zstd")]
                limits: options.limits,
                start,
                generation,
                about,
                names,
            })
        }
        #[cfg(not(feature = "generations"))]
        match layout::check_magic(source)? {
            Magic::V0 => Self::parse_v0(source, options),
        }
    }

    fn parse_v0(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let range = index_range(source)?;
        let start = range.start;
        let limits = options.limits;
        let mut text = Text::new(source, range, limits.max_depth);

        let count = text.parse(|reader, _| match reader.item()? {
            Header::Array(count) => Ok(count),
            Header::Break => reader.fail(Rule::CborBreak),
            _ => reader.fail(Rule::IndexType),
        })?;
        let id = ArchiveId::next();
        let mut entries = Vec::new();
        if let Some(count) = count {
            if count > text.remaining() {
                return text.fail(Rule::CborEnd);
            }
            // More can't follow, so no count takes more memory than the index itself asks for.
            let room = text.remaining().checked_div(MIN_ENTRY).unwrap_or(0);
            let room = usize::try_from(count.min(room)).unwrap_or(usize::MAX);
            let least = (room as u64).saturating_mul(ENTRY_MEMORY);
            check_memory(least, source.size(), &limits, text.at())?;
            if count > limits.max_tensors || entries.try_reserve_exact(room).is_err() {
                return Err(too_many(text.at(), count, &limits));
            }
        }
        let mut parser = EntryParser::new(limits);
        let mut memory = 0u64;
        while count != Some(entries.len() as u64) {
            let ordinal = entries.len();
            text.entry = Some(ordinal as u64);
            let entry = text.parse(|reader, keep| {
                let at = reader.at();
                let Some(map) = parser.parse(reader, count.is_none())? else {
                    return Ok(None);
                };
                check_data(&map, start, at)?;
                Ok(Some(entry_of(map, keep, id, ordinal)))
            })?;
            let Some(entry) = entry else {
                break;
            };
            if entries.len() as u64 >= limits.max_tensors {
                let value = (ordinal as u64).saturating_add(1);
                return Err(too_many(text.at(), value, &limits));
            }
            memory = memory.saturating_add(memory_of(&entry));
            check_memory(memory, source.size(), &limits, text.at())?;
            entries.push(entry);
        }
        text.entry = None;
        match text.remaining() {
            0 => {}
            bytes => return text.fail(Rule::IndexTrailing { bytes }),
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
            #[cfg(feature = "zstd")]
            limits,
            start,
            generation: Generation::V0_1,
            #[cfg(feature = "generations")]
            about: crate::manifest::About::default(),
            names,
        })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries
            .get(self.names.find(&self.entries, Entry::name, name)?)
    }
}

/// Section 3.3: where the index is.
fn index_range(source: &dyn Source) -> Result<Range<u64>> {
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
    Ok(footer.saturating_sub(got)..footer)
}

/// Memory of an entry with nothing outside of it but its place in the table of names.
pub(crate) const ENTRY_MEMORY: u64 = size_of::<Entry>() as u64 + NameTable::MEMORY + HEAP;

/// What an allocation, as of a name, takes beyond its size.
pub(crate) const HEAP: u64 = 16;

/// Memory that an entry takes, what it refers to counted in.
fn memory_of(entry: &Entry) -> u64 {
    let dims = entry.shape.heap_bytes();
    let extra = entry.extra.as_ref().map_or(0, |extra| {
        size_of::<Extra>().saturating_add(extra.map.len())
    });
    let more = entry.name.len().saturating_add(extra) as u64;
    ENTRY_MEMORY.saturating_add(more).saturating_add(dims)
}

pub(crate) fn check_memory(memory: u64, file_len: u64, limits: &Limits, at: At) -> Result<()> {
    check_index_memory(memory)?;
    let (value, max) = (memory.saturating_sub(file_len), limits.max_index_overhead);
    if value > max {
        let limit = "max_index_overhead";
        return Err(Error::Limit(LimitExceeded {
            limit,
            value,
            max,
            at,
        }));
    }
    Ok(())
}

fn too_many(at: At, value: u64, limits: &Limits) -> Error {
    Error::Limit(LimitExceeded {
        limit: "max_tensors",
        value,
        max: limits.max_tensors,
        at,
    })
}

/// The text of the index: all of it where it is memory, else a window of it that moves on, so
/// that its pages are touched while they are in the cache, and soon used again.
struct Text<'a> {
    source: &'a dyn Source,
    /// What is not in the window yet.
    rest: Range<u64>,
    window: Window,
    /// How much of the window was parsed, and where in the file the window starts.
    parsed: usize,
    base: u64,
    max_depth: u8,
    entry: Option<u64>,
}

enum Window {
    Memory(Bytes),
    Buffer(Vec<u8>),
}

impl Window {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Buffer(bytes) => bytes,
        }
    }

    /// A part of the window that outlives it.
    fn keep(&self, range: Range<usize>) -> Bytes {
        match self {
            Self::Memory(bytes) if range.end <= bytes.len() => bytes.slice(range),
            window => Bytes::copy_from_slice(window.bytes().get(range).unwrap_or_default()),
        }
    }
}

impl<'a> Text<'a> {
    /// What is read of a file at a time.
    const WINDOW: u64 = 256 << 10;

    fn new(source: &'a dyn Source, range: Range<u64>, max_depth: u8) -> Self {
        let memory = source
            .contiguous()
            .and_then(|bytes| bytes.read(range.clone()).ok());
        let (window, rest) = match memory {
            Some(bytes) => (Window::Memory(bytes), range.end..range.end),
            None => (Window::Buffer(Vec::new()), range.clone()),
        };
        Self {
            source,
            rest,
            window,
            parsed: 0,
            base: range.start,
            max_depth,
            entry: None,
        }
    }

    fn in_window(&self) -> usize {
        self.window.bytes().len().saturating_sub(self.parsed)
    }

    /// Bytes of the index that were not parsed yet.
    fn remaining(&self) -> u64 {
        let rest = self.rest.end.saturating_sub(self.rest.start);
        rest.saturating_add(self.in_window() as u64)
    }

    fn at(&self) -> At {
        At {
            offset: self.base.saturating_add(self.parsed as u64),
            entry: self.entry,
            field: "index",
        }
    }

    fn fail<T>(&self, rule: Rule) -> Result<T> {
        let at = self.at();
        Err(Error::Invalid { rule, at })
    }

    fn reader(&self) -> Reader<'_> {
        let bytes = self.window.bytes().get(self.parsed..).unwrap_or_default();
        let base = self.base.saturating_add(self.parsed as u64);
        let mut reader = Reader::new(bytes, base, self.max_depth);
        reader.entry = self.entry;
        reader
    }

    /// Whether what failed may only have run into the end of the window; if so, there is more of
    /// the index now. What is left doubles each time, so that a long entry is soon all there.
    fn grows(&mut self, error: &Error) -> Result<bool> {
        let ended = matches!(
            error,
            Error::Invalid {
                rule: Rule::CborEnd,
                ..
            }
        );
        let left = self.rest.end.saturating_sub(self.rest.start);
        let Window::Buffer(buffer) = &mut self.window else {
            return Ok(false);
        };
        if !ended || left == 0 {
            return Ok(false);
        }
        buffer.drain(..self.parsed.min(buffer.len()));
        self.base = self.base.saturating_add(self.parsed as u64);
        self.parsed = 0;
        let old = buffer.len();
        let more = left.min(Self::WINDOW.max(old as u64));
        let len = usize::try_from(more)
            .ok()
            .and_then(|more| old.checked_add(more))
            .ok_or(SourceError::TooLarge(more))?;
        buffer
            .try_reserve(len.saturating_sub(old))
            .map_err(|_| SourceError::OutOfMemory(more))?;
        buffer.resize(len, 0);
        let read = buffer.get_mut(old..).unwrap_or_default();
        self.source.read_into(self.rest.start, read)?;
        self.rest.start = self.rest.start.saturating_add(more);
        Ok(true)
    }

    /// What `parse` makes of the next bytes. It is also given what keeps a range of them, counted
    /// as the reader's positions are.
    fn parse<T>(
        &mut self,
        mut parse: impl FnMut(&mut Reader<'_>, &dyn Fn(Range<usize>) -> Bytes) -> Result<T>,
    ) -> Result<T> {
        loop {
            let keep = |range: Range<usize>| {
                let at = |position: usize| position.saturating_add(self.parsed);
                self.window.keep(at(range.start)..at(range.end))
            };
            let mut reader = self.reader();
            let error = match parse(&mut reader, &keep) {
                Ok(value) => {
                    self.parsed = self.parsed.saturating_add(reader.position());
                    return Ok(value);
                }
                Err(error) => error,
            };
            if !self.grows(&error)? {
                return Err(error);
            }
        }
    }
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

fn entry_of(
    map: EntryMap<'_>,
    keep: &dyn Fn(Range<usize>) -> Bytes,
    archive: ArchiveId,
    ordinal: usize,
) -> Entry {
    let (crc32c, checksum) = match map.checksum {
        Some(Checksum::Crc32c(crc)) => (Some(crc), None),
        checksum => (None, checksum),
    };
    let extra = (map.has_custom || map.unknown.is_some() || checksum.is_some()).then(|| {
        Box::new(Extra {
            map: if map.has_custom {
                keep(map.start..map.end)
            } else {
                Bytes::new()
            },
            unknown: map.unknown,
            checksum,
            #[cfg(feature = "generations")]
            part: None,
        })
    });
    Entry {
        archive,
        ordinal,
        #[cfg(feature = "generations")]
        generation: Generation::V0_1,
        name: map.name.into(),
        dtype: map.dtype,
        layout: map.layout,
        shape: map.shape,
        encoding: map.encoding,
        endianness: map.endianness,
        offset: map.offset,
        size: map.size,
        crc32c,
        extra,
    }
}
