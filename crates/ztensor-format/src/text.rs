//! The text of an index in a window that moves on, and the end of a file read at once.

#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::{At, Bytes, Source, SourceError};

use crate::cbor::Reader;
use crate::{Error, Result, Rule};

/// A source whose last bytes are at hand: where each read is a request, those of the frame and a short index
/// are one.
pub(crate) struct Tail<'a> {
    source: &'a dyn Source,
    /// Where the bytes at hand start.
    start: u64,
    bytes: Bytes,
}

impl<'a> Tail<'a> {
    /// What is read at once.
    const LEN: u64 = 64 << 10;

    /// Reads the end of `source`, unless it is memory, or a file of this machine, of which no byte should be
    /// read without need.
    pub(crate) fn new(source: &'a dyn Source) -> Result<Self> {
        let size = source.size();
        let is_near = source.contiguous().is_some() || source.file().is_some();
        let start = match is_near {
            true => size,
            false => size.saturating_sub(Self::LEN),
        };
        let bytes = match start < size {
            true => source.read(start..size)?,
            false => Bytes::new(),
        };
        Ok(Self {
            source,
            start,
            bytes,
        })
    }
}

impl Source for Tail<'_> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn contiguous(&self) -> Option<&Bytes> {
        self.source.contiguous()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        let before = self.start.saturating_sub(offset);
        let before = usize::try_from(before).unwrap_or(usize::MAX).min(out.len());
        let (before, at_hand) = out.split_at_mut_checked(before).unwrap_or_default();
        if !before.is_empty() {
            self.source.read_into(offset, before)?;
        }
        let skip = offset.saturating_sub(self.start);
        let bytes = usize::try_from(skip)
            .ok()
            .and_then(|skip| self.bytes.get(skip..));
        for (to, from) in at_hand.iter_mut().zip(bytes.unwrap_or_default()) {
            *to = *from;
        }
        Ok(())
    }
}

/// The text of the index: all of it where it is memory, else a window of it that moves on, so
/// that its pages are touched while they are in the cache, and soon used again.
pub(crate) struct Text<'a> {
    source: &'a dyn Source,
    /// What is not in the window yet.
    rest: Range<u64>,
    window: Window,
    /// How much of the window was parsed, and where in the file the window starts.
    parsed: usize,
    base: u64,
    max_depth: u64,
    /// The entry that errors from here on name.
    pub(crate) entry: Option<u64>,
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

    /// Bytes of memory that it takes by itself.
    fn memory(&self) -> u64 {
        match self {
            Self::Memory(_) => 0,
            Self::Buffer(bytes) => bytes.capacity() as u64,
        }
    }
}

impl<'a> Text<'a> {
    /// What is read of a file at a time.
    const WINDOW: u64 = 256 << 10;

    pub(crate) fn new(source: &'a dyn Source, range: Range<u64>, max_depth: u64) -> Self {
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

    /// Bytes of memory that the window takes beyond its usual length.
    pub(crate) fn memory(&self) -> u64 {
        self.window.memory().saturating_sub(Self::WINDOW)
    }

    /// Bytes of the index that were not parsed yet.
    pub(crate) fn remaining(&self) -> u64 {
        let rest = self.rest.end.saturating_sub(self.rest.start);
        rest.saturating_add(self.in_window() as u64)
    }

    pub(crate) fn at(&self) -> At {
        At {
            offset: self.base.saturating_add(self.parsed as u64),
            entry: self.entry,
            field: "index",
        }
    }

    pub(crate) fn fail<T>(&self, rule: Rule) -> Result<T> {
        let at = self.at();
        Err(Error::invalid(rule, at))
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
            .try_reserve_exact(len.saturating_sub(old))
            .map_err(|_| SourceError::OutOfMemory(more))?;
        buffer.resize(len, 0);
        let read = buffer.get_mut(old..).unwrap_or_default();
        self.source.read_into(self.rest.start, read)?;
        self.rest.start = self.rest.start.saturating_add(more);
        Ok(true)
    }

    /// What `parse` makes of the next bytes; it is asked again where the window ended too early.
    pub(crate) fn parse<T>(
        &mut self,
        mut parse: impl FnMut(&mut Reader<'_>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let mut reader = self.reader();
            let error = match parse(&mut reader) {
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
