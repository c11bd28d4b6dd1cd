//! `zt.zstd-seekable/1` of generation 2: zstd frames of equal content, and a table of them. Any
//! range is decoded from the frames that hold it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use std::sync::{Mutex, PoisonError};

use tensor_core::{At, Bytes, Source, SourceError, Window};

use crate::encoding::{Blob, MAX_RATIO, into_source};
use crate::{Error, Result, Rule};

/// The most that a frame decodes to.
const MAX_FRAME: u64 = 16 << 20;
const TABLE_HEAD: u64 = 8;
const TABLE_END: u64 = 9;

/// Data of that encoding, decoded.
pub(crate) struct Seekable {
    source: Arc<dyn Source>,
    /// Where the frames start in it.
    offset: u64,
    decoded: u64,
    /// Content of every frame but the last.
    frame: u64,
    /// Where each frame starts, and where the table does.
    starts: Arc<[u64]>,
    max_window: u64,
    at: At,
    /// The frame that was decoded last, as long as it wasn't read to its end: there may be very many of these.
    last: Mutex<Option<(usize, Bytes)>>,
}

/// The seek table that was read last: very many parts may have the same one.
#[derive(Default)]
pub(crate) struct Tables(Mutex<Option<Known>>);

/// Of which bytes a table is, and what it says.
#[derive(Clone)]
struct Known {
    range: Range<u64>,
    decoded: u64,
    frame: u64,
    starts: Arc<[u64]>,
}

impl Tables {
    /// The table of the data in `range`, whose errors name `at`.
    fn of(
        &self,
        source: &Arc<dyn Source>,
        range: &Range<u64>,
        decoded: u64,
        at: At,
    ) -> Result<Known> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = known().clone();
        if let Some(last) = last.filter(|last| last.range == *range && last.decoded == decoded) {
            return Ok(last);
        }
        let stored = Window::new(source.clone(), range.clone())?;
        let table = Table::find(&stored, at)?;
        let (frame, starts) = table.frames(&stored, decoded, at)?;
        let table = Known {
            range: range.clone(),
            decoded,
            frame,
            starts: starts.into(),
        };
        *known() = Some(table.clone());
        Ok(table)
    }
}

/// The seek table at the end of the data.
struct Table {
    /// Where it starts, which is where the frames end.
    start: u64,
    /// Where its entries end.
    end: u64,
    count: u64,
    /// Bytes of an entry.
    width: u64,
}

impl Table {
    /// Finds the table from its end, and checks its head and its footer.
    fn find(stored: &dyn Source, at: At) -> Result<Self> {
        let fail = |rule| Err(Error::invalid(rule, at));
        let Some(end) = stored.size().checked_sub(TABLE_END) else {
            return fail(Rule::SeekMagic);
        };
        let mut tail = [0; 9];
        stored.read_into(end, &mut tail)?;
        let [a, b, c, d, descriptor, 0xB1, 0xEA, 0x92, 0x8F] = tail else {
            return fail(Rule::SeekMagic);
        };
        if descriptor & 0x7F != 0 {
            return fail(Rule::SeekDescriptor);
        }
        let count = u64::from(u32::from_le_bytes([a, b, c, d]));
        let width = if descriptor & 0x80 == 0 { 8 } else { 12 };
        // At most 2^32 entries of 12 bytes: no sum of these overflows.
        let entries = count * width;
        let Some(start) = end
            .checked_sub(entries)
            .and_then(|at| at.checked_sub(TABLE_HEAD))
        else {
            return fail(Rule::SeekSize);
        };
        let mut head = [0; 8];
        stored.read_into(start, &mut head)?;
        let [0x5E, 0x2A, 0x4D, 0x18, e, f, g, h] = head else {
            return fail(Rule::SeekMagic);
        };
        if u64::from(u32::from_le_bytes([e, f, g, h])) != entries + TABLE_END {
            return fail(Rule::SeekSize);
        }
        Ok(Self {
            start,
            end,
            count,
            width,
        })
    }

    /// The content of every frame but the last, and where each starts, the table last. All frames
    /// together must be the data, and decode to `decoded` bytes.
    fn frames(&self, stored: &dyn Source, decoded: u64, at: At) -> Result<(u64, Vec<u64>)> {
        let fail = |rule| Err(Error::invalid(rule, at));
        let entries = self.count * self.width;
        let len = usize::try_from(self.count).map_err(|_| SourceError::TooLarge(entries))?;
        let mut starts = Vec::new();
        starts
            .try_reserve_exact(len + 1)
            .map_err(|_| SourceError::OutOfMemory(entries))?;
        let (mut at_stored, mut at_content, mut frame) = (0u64, 0u64, 0u64);
        let mut place = self.start + TABLE_HEAD;
        while place < self.end {
            // A whole number of entries of either width.
            let piece = stored.read(place..self.end.min(place + (24 << 10)))?;
            place += piece.len() as u64;
            for entry in piece.chunks_exact(usize::try_from(self.width).unwrap_or(8)) {
                let [c0, c1, c2, c3, d0, d1, d2, d3, ..] = *entry else {
                    continue;
                };
                let compressed = u64::from(u32::from_le_bytes([c0, c1, c2, c3]));
                let content = u64::from(u32::from_le_bytes([d0, d1, d2, d3]));
                let index = starts.len();
                if index == 0 {
                    frame = content;
                }
                let is_last = index + 1 == len;
                let fits = content == frame || (is_last && content < frame);
                if content > MAX_FRAME || !fits {
                    return fail(Rule::SeekFrame { got: content });
                }
                // What no frame of this size decodes to is not waited for.
                if content > compressed.saturating_mul(MAX_RATIO) {
                    let (expected, got) = (content, compressed * MAX_RATIO);
                    return fail(Rule::ZstdShorter { expected, got });
                }
                starts.push(at_stored);
                at_stored += compressed;
                at_content += content;
            }
        }
        starts.push(at_stored);
        if at_stored != self.start || at_content != decoded {
            return fail(Rule::SeekSum);
        }
        Ok((frame, starts))
    }
}

impl Seekable {
    /// Reads the seek table and holds it against the data's size and `decoded`.
    pub(crate) fn new(
        (source, tables): (&Arc<dyn Source>, &Tables),
        range: Range<u64>,
        decoded: u64,
        max_window: u64,
        at: At,
    ) -> Result<Self> {
        let table = tables.of(source, &range, decoded, at)?;
        Ok(Self {
            source: source.clone(),
            offset: range.start,
            decoded,
            frame: table.frame,
            starts: table.starts,
            max_window,
            at,
            last: Mutex::new(None),
        })
    }

    /// The content of a frame: where it starts, and how long it is.
    fn content(&self, index: usize) -> (u64, u64) {
        let start = self.frame.saturating_mul(index as u64).min(self.decoded);
        (start, self.frame.min(self.decoded - start))
    }

    fn decode(&self, index: usize) -> Result<Bytes> {
        let start = self.starts.get(index).copied().unwrap_or(0);
        let end = self.starts.get(index + 1).copied().unwrap_or(start);
        let blob = Blob {
            stored: Window::new(self.source.clone(), self.offset + start..self.offset + end)?,
            decoded: self.content(index).1,
            max_window: self.max_window,
            at: self.at,
        };
        blob.decode()
    }

    /// What is kept of a frame, if it is the one that was decoded last.
    fn kept(&self, index: usize) -> Option<Bytes> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = last.as_ref().filter(|(kept, _)| *kept == index);
        kept.map(|(_, content)| content.clone())
    }

    fn keep(&self, frame: Option<(usize, Bytes)>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = frame;
    }

    /// Decodes the frames that hold `out`, the last one decoded before not again.
    fn fill(&self, mut offset: u64, mut out: &mut [u8]) -> Result<()> {
        while !out.is_empty() {
            let index = offset.checked_div(self.frame).unwrap_or(0);
            let index = usize::try_from(index).map_err(|_| SourceError::TooLarge(offset))?;
            let kept = self.kept(index);
            let is_kept = kept.is_some();
            let content = match kept {
                Some(content) => content,
                None => self.decode(index)?,
            };
            let skip = usize::try_from(offset - self.content(index).0).unwrap_or(usize::MAX);
            let piece = content.get(skip..).unwrap_or_default();
            let len = piece.len().min(out.len());
            let (Some((now, rest)), Some(piece)) =
                (out.split_at_mut_checked(len), piece.get(..len))
            else {
                break;
            };
            if len == 0 {
                let rule = Rule::SeekSum;
                return Err(Error::invalid(rule, self.at));
            }
            now.copy_from_slice(piece);
            // Whoever reads on begins with the next frame.
            let is_read = skip.saturating_add(len) >= content.len();
            if is_read || !is_kept {
                self.keep((!is_read).then_some((index, content.clone())));
            }
            offset += len as u64;
            out = rest;
        }
        Ok(())
    }

    /// Whether a frame takes so much memory that only one thread should have one.
    pub(crate) fn is_large(&self) -> bool {
        self.frame > 4 << 20
    }

    /// Decodes frames that hold nothing, which no range asks for.
    pub(crate) fn check_empty(&self) -> Result<()> {
        if self.frame == 0 {
            for index in 0..self.starts.len().saturating_sub(1) {
                self.decode(index)?;
            }
        }
        Ok(())
    }
}

impl Source for Seekable {
    fn size(&self) -> u64 {
        self.decoded
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        if self.decoded == 0 {
            return self.check_empty().map_err(into_source);
        }
        self.fill(offset, out).map_err(into_source)
    }

    fn file(&self) -> Option<&tensor_core::FileId> {
        self.source.file()
    }
}

impl fmt::Debug for Seekable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seekable")
            .field("frames", &self.starts.len().saturating_sub(1))
            .field("decoded", &self.decoded)
            .finish_non_exhaustive()
    }
}
