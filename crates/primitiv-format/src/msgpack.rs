//! Strict reads of the few MessagePack types that these files have. Nothing here recurses, and
//! no length is believed before it is held against the bytes that are left.

#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::vec::Vec;

use rmp::Marker;
use rmp::encode::buffer::ByteBuf;
use tensor_core::codec::{Cursor, check_index_memory};
use tensor_core::{Source, SourceError};

use crate::{Error, Result, Rule};

/// What is read at once where tensors are short: of these, reading the data costs less than another request.
const NEAR: u64 = 4096;
/// The longest data that is read with the headers around it.
const SHORT: u64 = 1024;
/// As much as a length takes, with a little more that the next header may have.
const MORE: u64 = 8;

/// Reads objects one after the other.
pub(crate) struct Reader<'a> {
    pub(crate) cursor: Cursor<'a>,
    /// Where the header starts that is being read, and how long it will be, as far as the one before it
    /// tells: so much is read at once, and no data with it.
    start: u64,
    header: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(source: &'a dyn Source) -> Result<Self, SourceError> {
        Ok(Self {
            cursor: Cursor::new(source, 0..source.size())?,
            start: 0,
            header: 64,
        })
    }

    /// Skips the data of a tensor, whose header was just read.
    pub(crate) fn skip_data(&mut self, len: u64, field: &'static str) -> Result<()> {
        let header = self.cursor.position().saturating_sub(self.start);
        self.cursor.skip(len, field)?;
        self.start = self.cursor.position();
        self.header = match len <= SHORT {
            true => NEAR,
            false => header.saturating_add(MORE).min(NEAR),
        };
        Ok(())
    }

    /// A uint32, which is always `CE` and four bytes.
    pub(crate) fn uint32(&mut self, field: &'static str) -> Result<u32> {
        self.marker(field, "a uint32", |marker| {
            (marker == Marker::U32).then_some(0)
        })?;
        Ok(u32::from_be_bytes(self.cursor.array(field)?))
    }

    /// A float, which is always `CA` and four bytes; its bits.
    pub(crate) fn float(&mut self, field: &'static str) -> Result<f32> {
        self.marker(field, "a float32", |marker| {
            (marker == Marker::F32).then_some(0)
        })?;
        Ok(f32::from_be_bytes(self.cursor.array(field)?))
    }

    /// The length of an array.
    pub(crate) fn array_len(&mut self, field: &'static str) -> Result<u32> {
        self.length(field, "an array", |marker| match marker {
            Marker::FixArray(len) => Some(Length::Given(len.into())),
            Marker::Array16 => Some(Length::Two),
            Marker::Array32 => Some(Length::Four),
            _ => None,
        })
    }

    /// The length of a map.
    pub(crate) fn map_len(&mut self, field: &'static str) -> Result<u32> {
        self.length(field, "a map", |marker| match marker {
            Marker::FixMap(len) => Some(Length::Given(len.into())),
            Marker::Map16 => Some(Length::Two),
            Marker::Map32 => Some(Length::Four),
            _ => None,
        })
    }

    /// The length of a bin; its bytes are next.
    pub(crate) fn bin_len(&mut self, field: &'static str) -> Result<u32> {
        self.length(field, "a bin", |marker| match marker {
            Marker::Bin8 => Some(Length::One),
            Marker::Bin16 => Some(Length::Two),
            Marker::Bin32 => Some(Length::Four),
            _ => None,
        })
    }

    /// A str.
    pub(crate) fn str(&mut self, field: &'static str) -> Result<&str> {
        let len = self.length(field, "a str", |marker| match marker {
            Marker::FixStr(len) => Some(Length::Given(len.into())),
            Marker::Str8 => Some(Length::One),
            Marker::Str16 => Some(Length::Two),
            Marker::Str32 => Some(Length::Four),
            _ => None,
        })?;
        let at = self.cursor.at(field);
        let bytes = self.cursor.take(len.into(), field)?;
        // The caller makes a copy.
        check_index_memory(len.into())?;
        core::str::from_utf8(bytes).map_err(|error| {
            let offset = at.offset.saturating_add(error.valid_up_to() as u64);
            Error::invalid(Rule::Utf8, tensor_core::At { offset, ..at })
        })
    }

    fn marker<T>(
        &mut self,
        field: &'static str,
        expected: &'static str,
        read: impl Fn(Marker) -> Option<T>,
    ) -> Result<T> {
        let header = self.start.saturating_add(self.header);
        let least = self.cursor.position().saturating_add(MORE);
        self.cursor.expect_up_to(header.max(least));
        let at = self.cursor.at(field);
        let got = self.cursor.u8(field)?;
        let fault = || Error::invalid(Rule::Type { expected, got }, at);
        read(Marker::from_u8(got)).ok_or_else(fault)
    }

    fn length(
        &mut self,
        field: &'static str,
        expected: &'static str,
        read: impl Fn(Marker) -> Option<Length>,
    ) -> Result<u32> {
        Ok(match self.marker(field, expected, read)? {
            Length::Given(len) => len,
            Length::One => self.cursor.u8(field)?.into(),
            Length::Two => u16::from_be_bytes(self.cursor.array(field)?).into(),
            Length::Four => u32::from_be_bytes(self.cursor.array(field)?),
        })
    }
}

/// Where a length stands: in the marker, or in so many bytes after it.
enum Length {
    Given(u32),
    One,
    Two,
    Four,
}

/// Appends what rmp encodes; into memory that never fails, and the shortest head is rmp's to
/// choose.
fn put<T, E>(out: &mut Vec<u8>, encode: impl FnOnce(&mut ByteBuf) -> Result<T, E>) {
    let mut buffer = ByteBuf::from_vec(core::mem::take(out));
    let _ = encode(&mut buffer);
    *out = buffer.into_vec();
}

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    put(out, |out| rmp::encode::write_u32(out, value));
}

pub(crate) fn put_f32(out: &mut Vec<u8>, value: f32) {
    // The bits as they are: a NaN's payload must not pass through a float operation.
    out.push(Marker::F32.to_u8());
    out.extend_from_slice(&value.to_bits().to_be_bytes());
}

pub(crate) fn put_array_len(out: &mut Vec<u8>, len: u32) {
    put(out, |out| rmp::encode::write_array_len(out, len));
}

pub(crate) fn put_map_len(out: &mut Vec<u8>, len: u32) {
    put(out, |out| rmp::encode::write_map_len(out, len));
}

pub(crate) fn put_bin_len(out: &mut Vec<u8>, len: u32) {
    put(out, |out| rmp::encode::write_bin_len(out, len));
}

pub(crate) fn put_str(out: &mut Vec<u8>, text: &str) {
    let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
    put(out, |out| rmp::encode::write_str_len(out, len));
    out.extend_from_slice(text.as_bytes());
}

/// Text that is known to be wanted later, in a box of its own.
pub(crate) fn boxed(text: &str) -> Box<str> {
    text.into()
}
