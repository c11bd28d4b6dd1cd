#![deny(clippy::arithmetic_side_effects)]

use core::ops::Range;

use tensor_core::codec::{Cursor, Sink};
use tensor_core::{At, LimitExceeded, SinkError, Source, Truncated};

use crate::chunk::{Chunk, FourCc};
use crate::{Error, Limits, Result, Rule, Unsupported};

/// "File Header": the first four bytes.
pub const MAGIC: [u8; 4] = *b"AERO";
pub(crate) const VERSION: (u16, u16) = (0, 1);
/// "Overview": where payloads may start.
pub(crate) const ALIGN: u64 = 16;

/// "File Header (96 bytes)".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) toc_offset: u64,
    pub(crate) toc_length: u64,
    pub(crate) string_table_offset: u64,
    pub(crate) string_table_length: u64,
    pub(crate) uuid: [u8; 16],
}

impl Header {
    pub(crate) const SIZE: u64 = 96;

    // This function is long because each field of the header has its own rule.
    pub(crate) fn parse(source: &dyn Source, limits: &Limits) -> Result<Self> {
        let size = source.size();
        let mut cursor = Cursor::new(source, 0..size)?;
        cursor.expect_up_to(Self::SIZE);
        let invalid = |rule, at| Err(Error::invalid(rule, at));
        let at = cursor.at("magic");
        let got = cursor.array::<4>("magic")?;
        if got != MAGIC {
            return invalid(Rule::Magic { got }, at);
        }
        let at = cursor.at("version_major");
        let version = (
            cursor.u16_le("version_major")?,
            cursor.u16_le("version_minor")?,
        );
        if version != VERSION {
            let (major, minor) = (version.0.into(), version.1.into());
            let what = Unsupported::Version {
                format: "AERO",
                major,
                minor,
            };
            return Err(Error::unsupported(what, at));
        }
        let at = cursor.at("header_size");
        let got = cursor.u32_le("header_size")?;
        if u64::from(got) != Self::SIZE {
            return invalid(Rule::HeaderSize { got }, at);
        }
        let toc_at = cursor.at("toc_offset");
        let toc_offset = cursor.u64_le("toc_offset")?;
        let toc_length = cursor.u64_le("toc_length")?;
        let table_at = cursor.at("string_table_offset");
        let string_table_offset = cursor.u64_le("string_table_offset")?;
        let string_table_length = cursor.u64_le("string_table_length")?;
        let at = cursor.at("file_flags");
        let got = cursor.u64_le("file_flags")?;
        if got != 0 {
            return invalid(Rule::FileFlags { got }, at);
        }
        let uuid = cursor.array("uuid")?;
        let at = cursor.at("reserved");
        if cursor.array::<28>("reserved")? != [0; 28] {
            return invalid(Rule::HeaderReserved, at);
        }
        let (offset, len) = (toc_offset, toc_length);
        let rule = Rule::TocRange { offset, len };
        if offset < Self::SIZE {
            return invalid(rule, toc_at);
        }
        if len < Toc::HEADER {
            let (needed, got) = (Toc::HEADER, len);
            return invalid(Rule::TocLength { needed, got }, toc_at);
        }
        inside(size, offset, len, rule, toc_at)?;
        let (offset, len) = (string_table_offset, string_table_length);
        let max = limits.max_string_table_bytes;
        LimitExceeded::check("max_string_table_bytes", len, max, table_at)?;
        let rule = Rule::StringTableRange { offset, len };
        inside(size, offset, len, rule, table_at)?;
        Ok(Self {
            toc_offset,
            toc_length,
            string_table_offset,
            string_table_length,
            uuid,
        })
    }

    pub(crate) fn string_table(&self) -> Range<u64> {
        self.string_table_offset
            ..self
                .string_table_offset
                .saturating_add(self.string_table_length)
    }

    pub(crate) fn write<O: tensor_core::codec::Output>(
        &self,
        sink: &mut Sink<O>,
    ) -> Result<(), SinkError> {
        sink.put(&MAGIC)?;
        sink.put_u16_le(VERSION.0)?;
        sink.put_u16_le(VERSION.1)?;
        sink.put_u32_le(96)?;
        for word in [
            self.toc_offset,
            self.toc_length,
            self.string_table_offset,
            self.string_table_length,
            0,
        ] {
            sink.put_u64_le(word)?;
        }
        sink.put(&self.uuid)?;
        sink.put(&[0; 28])
    }
}

/// Fails where a range ends beyond 64 bits (`rule`) or beyond the file.
pub(crate) fn inside(size: u64, offset: u64, len: u64, rule: Rule, at: At) -> Result<()> {
    match offset.checked_add(len) {
        None => Err(Error::invalid(rule, at)),
        Some(end) if end > size => {
            let available = size.saturating_sub(offset);
            Err(Truncated {
                at,
                needed: len,
                available,
            }
            .into())
        }
        Some(_) => Ok(()),
    }
}

/// "TOC Header" and "TOC Entry".
pub(crate) struct Toc;

impl Toc {
    pub(crate) const HEADER: u64 = 16;
    pub(crate) const ENTRY: u64 = 80;
    /// Where in an entry its hash is.
    pub(crate) const HASH: u64 = 48;

    /// The number of entries, checked against the length of the TOC.
    pub(crate) fn count(source: &dyn Source, header: &Header, limits: &Limits) -> Result<u32> {
        let end = header.toc_offset.saturating_add(header.toc_length);
        let mut cursor = Cursor::new(source, header.toc_offset..end)?;
        let at = cursor.at("entry_count");
        let count = cursor.u32_le("entry_count")?;
        let needed = u64::from(count)
            .saturating_mul(Self::ENTRY)
            .saturating_add(Self::HEADER);
        let got = header.toc_length;
        if needed > got {
            return Err(Error::invalid(Rule::TocLength { needed, got }, at));
        }
        let (value, max) = (u64::from(count), limits.max_chunk_count);
        if value > max {
            return Err(tensor_core::LimitExceeded {
                limit: "max_chunk_count",
                value,
                max,
                at,
            }
            .into());
        }
        Ok(count)
    }

    pub(crate) fn len(count: u32) -> u64 {
        u64::from(count)
            .saturating_mul(Self::ENTRY)
            .saturating_add(Self::HEADER)
    }

    /// Parses an entry; its name is looked up in `names`.
    pub(crate) fn entry(cursor: &mut Cursor<'_>, names: &[u8]) -> Result<Chunk> {
        let invalid = |rule, at| Err(Error::invalid(rule, at));
        let fourcc = FourCc(cursor.array("fourcc")?);
        let flags = cursor.u32_le("chunk_flags")?;
        let offset = cursor.u64_le("chunk_offset")?;
        let length = cursor.u64_le("chunk_length")?;
        let ulen = cursor.u64_le("chunk_ulen")?;
        let at = cursor.at("name_off");
        let start = cursor.u32_le("name_off")?;
        let len = cursor.u32_le("name_len")?;
        let end = u64::from(start).saturating_add(len.into());
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let name = range.and_then(|(start, end)| names.get(start..end));
        let Some(name) = name else {
            let table = names.len() as u64;
            return invalid(Rule::NameRange { start, len, table }, at);
        };
        let Ok(name) = core::str::from_utf8(name) else {
            return invalid(Rule::NameUtf8, at);
        };
        let at = cursor.at("reserved0");
        let got = cursor.u64_le("reserved0")?;
        if got != 0 {
            return invalid(Rule::EntryReserved { got }, at);
        }
        let blake3 = cursor.array("blake3_256")?;
        let key = Chunk::key(fourcc, name).into();
        Ok(Chunk {
            fourcc,
            flags,
            offset,
            length,
            ulen,
            blake3,
            key,
        })
    }

    pub(crate) fn write_entry<O: tensor_core::codec::Output>(
        sink: &mut Sink<O>,
        chunk: &Chunk,
        name_off: u32,
    ) -> Result<(), SinkError> {
        sink.put(&chunk.fourcc.0)?;
        sink.put_u32_le(chunk.flags)?;
        sink.put_u64_le(chunk.offset)?;
        sink.put_u64_le(chunk.length)?;
        sink.put_u64_le(chunk.ulen)?;
        sink.put_u32_le(name_off)?;
        sink.put_u32_le(u32::try_from(chunk.name().len()).unwrap_or(u32::MAX))?;
        sink.put_u64_le(0)?;
        sink.put(&chunk.blake3)
    }
}
