#![deny(clippy::arithmetic_side_effects)]

use core::fmt;
use core::ops::Range;

use bytes::Bytes;

use crate::codec::ReadError;
use crate::source::bounds;
use crate::{At, Source, SourceError, Truncated};

/// The most bytes that a cursor holds at once without being asked for more.
const MAX_WINDOW: u64 = 1 << 20;

/// Reads little-endian fields in order from a range of a [`Source`], with absolute offsets in
/// every error.
///
/// Over memory a field is a slice away. Over anything else the cursor reads windows, and only
/// bytes that the caller knows to be structure: those of the field asked for, and those up to
/// the offset last given to [`expect_up_to`](Self::expect_up_to). So an index is read in a few
/// calls, and no tensor data with it.
///
/// ```
/// use tensor_core::codec::Cursor;
/// use tensor_core::Bytes;
///
/// let file = Bytes::from_static(b"MAG!\x01\0\0\0");
/// let mut cursor = Cursor::new(&file, 0..8)?;
/// assert_eq!(cursor.take(4, "magic")?, b"MAG!");
/// assert_eq!(cursor.u32_le("version")?, 1);
/// let error = cursor.u32_le("checksum").unwrap_err();
/// assert_eq!(error.to_string(), "truncated: 4 bytes needed, 0 there (byte 0x8, field checksum)");
/// # Ok::<(), tensor_core::codec::ReadError>(())
/// ```
///
/// Every kind of field:
///
/// ```
/// use tensor_core::Bytes;
/// use tensor_core::codec::Cursor;
///
/// let file = Bytes::from_static(b"BOX!\x01\x02\0\0\0\x03\0\0\0\0\0\0\0name");
/// let mut cursor = Cursor::new(&file, 0..file.len() as u64)?;
/// cursor.expect_up_to(file.len() as u64); // one read, where it is no memory
/// assert_eq!(&cursor.array::<4>("magic")?, b"BOX!");
/// assert_eq!(cursor.at("version").offset, 4); // for an error
/// assert_eq!((cursor.u8("version")?, cursor.u16_le("flags")?), (1, 2));
/// cursor.skip(2, "padding")?;
/// cursor.set_entry(Some(0)); // errors name it from here on
/// assert_eq!(cursor.u64_le("id")?, 3);
/// assert_eq!((cursor.position(), cursor.remaining()), (17, 4));
/// assert_eq!(cursor.take_bytes(4, "name")?, &b"name"[..]);
/// assert!(cursor.u8("end").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cursor<'a> {
    source: &'a dyn Source,
    window: Bytes,
    window_start: u64,
    position: u64,
    end: u64,
    expected: u64,
    entry: Option<u64>,
}

impl<'a> Cursor<'a> {
    /// Starts at the start of `range`; nothing is read yet.
    ///
    /// # Errors
    /// [`SourceError::OutOfBounds`] where the source has no such range.
    pub fn new(source: &'a dyn Source, range: Range<u64>) -> Result<Self, SourceError> {
        let len = range.end.saturating_sub(range.start);
        source.check(range.start, len)?;
        let window = match source.contiguous() {
            Some(bytes) => bytes.read(range.clone())?,
            None => Bytes::new(),
        };
        Ok(Self {
            source,
            window,
            window_start: range.start,
            position: range.start,
            end: range.end.max(range.start),
            expected: range.start,
            entry: None,
        })
    }

    /// Absolute offset of the next field.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes left in the cursor's range.
    pub fn remaining(&self) -> u64 {
        self.end.saturating_sub(self.position)
    }

    /// The record that errors from here on name, `None` outside of records.
    pub fn set_entry(&mut self, entry: Option<u64>) {
        self.entry = entry;
    }

    /// Says that all bytes up to `offset` are structure, so that they may be read ahead.
    pub fn expect_up_to(&mut self, offset: u64) {
        self.expected = self.expected.max(offset.min(self.end));
    }

    /// The place of `field` at the next byte, for an error.
    pub fn at(&self, field: &'static str) -> At {
        At {
            offset: self.position,
            entry: self.entry,
            field,
        }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`Truncated`] where fewer are left, else what the source fails with.
    pub fn take(&mut self, len: u64, field: &'static str) -> Result<&[u8], ReadError> {
        let range = self.advance(len, field)?;
        Ok(self.window.get(range).unwrap_or_default())
    }

    /// The next `len` bytes as shared bytes; over memory nothing is copied.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_bytes(&mut self, len: u64, field: &'static str) -> Result<Bytes, ReadError> {
        let range = self.advance(len, field)?;
        Ok(self.window.slice(range))
    }

    /// Skips `len` bytes without reading them.
    ///
    /// # Errors
    /// [`Truncated`] where fewer are left.
    pub fn skip(&mut self, len: u64, field: &'static str) -> Result<(), ReadError> {
        self.check(len, field)?;
        self.position = self.position.saturating_add(len);
        Ok(())
    }

    /// The next byte.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn u8(&mut self, field: &'static str) -> Result<u8, ReadError> {
        self.array(field).map(u8::from_le_bytes)
    }

    /// The next two bytes, little-endian.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn u16_le(&mut self, field: &'static str) -> Result<u16, ReadError> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// The next four bytes, little-endian.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn u32_le(&mut self, field: &'static str) -> Result<u32, ReadError> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// The next eight bytes, little-endian.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn u64_le(&mut self, field: &'static str) -> Result<u64, ReadError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ReadError> {
        let range = self.advance(N as u64, field)?;
        let mut array = [0; N];
        if let Some(bytes) = self.window.get(range) {
            array.copy_from_slice(bytes);
        }
        Ok(array)
    }

    fn check(&self, len: u64, field: &'static str) -> Result<(), Truncated> {
        let available = self.remaining();
        if len > available {
            return Err(Truncated {
                at: self.at(field),
                needed: len,
                available,
            });
        }
        Ok(())
    }

    /// Moves past `len` bytes and returns where in the window they lie.
    #[inline]
    fn advance(&mut self, len: u64, field: &'static str) -> Result<Range<usize>, ReadError> {
        self.check(len, field)?;
        if let Some(range) = self.in_window(len) {
            self.position = self.position.saturating_add(len);
            return Ok(range);
        }
        self.refill(len)?;
        let range = self.in_window(len).unwrap_or_default();
        self.position = self.position.saturating_add(len);
        Ok(range)
    }

    #[inline]
    fn in_window(&self, len: u64) -> Option<Range<usize>> {
        let start = self.position.checked_sub(self.window_start)?;
        let range = bounds(&(start..start.checked_add(len)?))?;
        (range.end <= self.window.len()).then_some(range)
    }

    #[cold]
    fn refill(&mut self, len: u64) -> Result<(), SourceError> {
        let ahead = self.expected.saturating_sub(self.position).min(MAX_WINDOW);
        let end = self.position.saturating_add(len.max(ahead)).min(self.end);
        self.window = self.source.read(self.position..end)?;
        self.window_start = self.position;
        Ok(())
    }
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("position", &self.position)
            .field("end", &self.end)
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}
