//! CBOR items (RFC 8949): heads through a pull decoder, bodies as slices of the metadata.

#![deny(clippy::arithmetic_side_effects)]

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use ciborium_ll::{Decoder, Error as DecodeError, Header};
use tensor_core::{SourceError, f16};

use crate::Rule;
use crate::limits::MAX_DEPTH;

/// What went wrong and where in the metadata; the index adds the file's offset and the tensor.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) what: What,
    pub(crate) position: usize,
}

#[derive(Debug)]
pub(crate) enum What {
    Rule(Rule),
    Limit {
        limit: &'static str,
        value: u64,
        max: u64,
    },
    Source(SourceError),
}

/// Boxed, so that the many small results stay in registers.
pub(crate) type Parsed<T> = Result<T, Box<Fault>>;

#[cold]
pub(crate) fn fault<T>(rule: Rule, position: usize) -> Parsed<T> {
    Err(Box::new(Fault {
        what: What::Rule(rule),
        position,
    }))
}

/// `null` and `undefined`.
const NULL: u8 = 22;
const UNDEFINED: u8 = 23;
/// RFC 8949, 3.4.3: an unsigned and a negative bignum.
const BIGNUM: u64 = 2;
const NEGATIVE_BIGNUM: u64 = 3;

/// Whether a head is that of no value.
pub(crate) fn is_null(head: Header) -> bool {
    matches!(head, Header::Simple(NULL | UNDEFINED))
}

/// An integer of either sign within 64 bits; the value of a negative one is `-1 - n`.
pub(crate) enum Integer {
    Positive(u64),
    Negative(u64),
}

/// A length as the host's own number. Where addresses have 32 bits one beyond them is `most`, which is
/// as far beyond the bytes that remain; the pull decoder would call it a wrong item instead.
fn host_len<W: TryFrom<u64>>(value: u64, most: W) -> W {
    W::try_from(value).unwrap_or(most)
}

/// Reads items one after another; never recurses, never allocates by a declared length.
pub(crate) struct Cbor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cbor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    /// The next head.
    #[inline]
    pub(crate) fn head(&mut self) -> Parsed<Header> {
        match self.definite() {
            Some((header, end)) => {
                self.position = end;
                Ok(header)
            }
            None => self.pull(),
        }
    }

    /// A head of an integer or of definite length, and where it ends: nearly all there are, and
    /// several times faster than the pull decoder, which has the last word on everything else.
    #[inline]
    fn definite(&self) -> Option<(Header, usize)> {
        let (&first, rest) = self.bytes.get(self.position..)?.split_first()?;
        let (value, width) = match first & 0x1F {
            small @ 0..=23 => (u64::from(small), 1),
            24 => (u64::from(*rest.first()?), 2),
            25 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 3),
            26 => (u64::from(u32::from_be_bytes(*rest.first_chunk()?)), 5),
            27 => (u64::from_be_bytes(*rest.first_chunk()?), 9),
            _ => return None,
        };
        let len = host_len::<usize>(value, usize::MAX);
        let header = match first >> 5 {
            0 => Header::Positive(value),
            1 => Header::Negative(value),
            2 => Header::Bytes(Some(len)),
            3 => Header::Text(Some(len)),
            4 => Header::Array(Some(len)),
            5 => Header::Map(Some(len)),
            _ => return None,
        };
        Some((header, self.position.checked_add(width)?))
    }

    /// Any head, through the pull decoder.
    #[cold]
    fn pull(&mut self) -> Parsed<Header> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let mut decoder = Decoder::from(rest);
        match decoder.pull() {
            Ok(header) => {
                let width = decoder.offset();
                // RFC 8949, 3.3: values below 32 have no two-byte form.
                if width == 2 && matches!(header, Header::Simple(0..32)) {
                    return fault(Rule::CborSyntax, self.position);
                }
                self.position = self.position.saturating_add(width);
                Ok(header)
            }
            Err(DecodeError::Io(_)) => fault(Rule::CborEnd, self.position),
            Err(DecodeError::Syntax(_)) => fault(Rule::CborSyntax, self.position),
        }
    }

    /// The head of the next value: tags before it are skipped, as Burn's reader does, except
    /// those that make a bignum of what follows.
    #[inline]
    pub(crate) fn value(&mut self) -> Parsed<Header> {
        match self.head()? {
            Header::Tag(tag) if !matches!(tag, BIGNUM | NEGATIVE_BIGNUM) => self.after_tags(),
            Header::Break => fault(Rule::CborSyntax, self.position.saturating_sub(1)),
            head => Ok(head),
        }
    }

    #[cold]
    fn after_tags(&mut self) -> Parsed<Header> {
        for _ in 1..MAX_DEPTH {
            match self.head()? {
                Header::Tag(tag) if !matches!(tag, BIGNUM | NEGATIVE_BIGNUM) => {}
                Header::Break => return fault(Rule::CborSyntax, self.position.saturating_sub(1)),
                head => return Ok(head),
            }
        }
        fault(Rule::CborDepth, self.position)
    }

    /// Whether a map or array of which `left` items are to come (`None` for one of indefinite
    /// length) has another one.
    #[inline]
    pub(crate) fn more(&mut self, left: &mut Option<usize>) -> Parsed<bool> {
        match left {
            Some(0) => Ok(false),
            Some(count) => {
                *count = count.saturating_sub(1);
                Ok(true)
            }
            None => match self.bytes.get(self.position) {
                Some(0xFF) => {
                    self.position = self.position.saturating_add(1);
                    Ok(false)
                }
                _ => Ok(true),
            },
        }
    }

    /// The next `len` bytes.
    #[inline]
    fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        let end = self.position.checked_add(len);
        match end.and_then(|end| Some((end, self.bytes.get(self.position..end)?))) {
            Some((end, bytes)) => {
                self.position = end;
                Ok(bytes)
            }
            None => fault(Rule::CborEnd, self.position),
        }
    }

    /// The body of a text; not checked to be UTF-8 where it is a slice.
    #[inline]
    pub(crate) fn raw_text(&mut self, len: Option<usize>) -> Parsed<Cow<'a, [u8]>> {
        match len {
            Some(len) => Ok(Cow::Borrowed(self.take(len)?)),
            None => Ok(Cow::Owned(self.chunked_text()?.into_bytes())),
        }
    }

    /// The body of a text.
    #[inline]
    pub(crate) fn text(&mut self, len: Option<usize>) -> Parsed<Cow<'a, str>> {
        match len {
            Some(len) => Ok(Cow::Borrowed(self.whole_text(len)?)),
            None => Ok(Cow::Owned(self.chunked_text()?)),
        }
    }

    fn whole_text(&mut self, len: usize) -> Parsed<&'a str> {
        let start = self.position;
        let bytes = self.take(len)?;
        match core::str::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => fault(Rule::CborUtf8, start),
        }
    }

    /// RFC 8949, 3.2.3: chunks are whole texts of definite length.
    #[cold]
    fn chunked_text(&mut self) -> Parsed<String> {
        let mut text = String::new();
        loop {
            let start = self.position;
            match self.head()? {
                Header::Text(Some(len)) => text.push_str(self.whole_text(len)?),
                Header::Break => return Ok(text),
                _ => return fault(Rule::CborSyntax, start),
            }
        }
    }

    /// An integer whose head was read, `None` where it is something else or beyond 64 bits.
    #[inline]
    pub(crate) fn integer(&mut self, head: Header) -> Parsed<Option<Integer>> {
        Ok(match head {
            Header::Positive(value) => Some(Integer::Positive(value)),
            Header::Negative(value) => Some(Integer::Negative(value)),
            Header::Tag(BIGNUM) => self.bignum()?.map(Integer::Positive),
            Header::Tag(NEGATIVE_BIGNUM) => self.bignum()?.map(Integer::Negative),
            _ => None,
        })
    }

    /// The next value as an unsigned integer, or `rule` where it is something else.
    #[inline]
    pub(crate) fn unsigned(&mut self, rule: Rule) -> Parsed<u64> {
        let start = self.position;
        let head = self.value()?;
        match self.integer(head)? {
            Some(Integer::Positive(value)) => Ok(value),
            _ => fault(rule, start),
        }
    }

    /// The bytes of a bignum, `None` where they are beyond 64 bits or no bytes.
    #[cold]
    fn bignum(&mut self) -> Parsed<Option<u64>> {
        let Header::Bytes(mut len) = self.head()? else {
            return Ok(None);
        };
        let chunked = len.is_none();
        let mut value = Some(0u64);
        loop {
            if chunked {
                let start = self.position;
                len = match self.head()? {
                    Header::Bytes(Some(len)) => Some(len),
                    Header::Break => return Ok(value),
                    _ => return fault(Rule::CborSyntax, start),
                };
            }
            for &byte in self.take(len.unwrap_or(0))? {
                value = value
                    .and_then(|value| value.checked_mul(256))
                    .map(|value| value | u64::from(byte));
            }
            if !chunked {
                return Ok(value);
            }
        }
    }

    /// Reads past a whole item, checking that it is well-formed.
    pub(crate) fn skip(&mut self) -> Parsed<()> {
        let head = self.head()?;
        self.skip_from(head)
    }

    /// Reads past the rest of an item whose head was read.
    pub(crate) fn skip_from(&mut self, mut head: Header) -> Parsed<()> {
        let mut open: Vec<Level> = Vec::new();
        loop {
            let inside = match head {
                Header::Bytes(len) => {
                    self.skip_bytes(len)?;
                    None
                }
                Header::Text(Some(len)) => {
                    self.whole_text(len)?;
                    None
                }
                Header::Text(None) => {
                    self.skip_chunks()?;
                    None
                }
                Header::Array(Some(len)) => Some(Level::Left(len)),
                Header::Array(None) => Some(Level::Array),
                Header::Map(Some(len)) => match len.checked_mul(2) {
                    Some(len) => Some(Level::Left(len)),
                    None => return fault(Rule::CborEnd, self.position),
                },
                Header::Map(None) => Some(Level::Map { odd: false }),
                Header::Tag(_) => Some(Level::Left(1)),
                Header::Break => {
                    match open.pop() {
                        Some(Level::Array | Level::Map { odd: false }) => {}
                        _ => return fault(Rule::CborSyntax, self.position.saturating_sub(1)),
                    }
                    None
                }
                Header::Positive(_)
                | Header::Negative(_)
                | Header::Float(_)
                | Header::Simple(_) => None,
            };
            match inside {
                Some(_) if open.len() >= MAX_DEPTH => {
                    return fault(Rule::CborDepth, self.position);
                }
                Some(level) => open.push(level),
                None => count_item(&mut open),
            }
            // What is complete completes what holds it.
            while let Some(Level::Left(0)) = open.last() {
                open.pop();
                count_item(&mut open);
            }
            if open.is_empty() {
                return Ok(());
            }
            head = self.head()?;
        }
    }

    fn skip_bytes(&mut self, len: Option<usize>) -> Parsed<()> {
        if let Some(len) = len {
            return self.take(len).map(|_| ());
        }
        loop {
            let start = self.position;
            match self.head()? {
                Header::Bytes(Some(len)) => self.take(len)?,
                Header::Break => return Ok(()),
                _ => return fault(Rule::CborSyntax, start),
            };
        }
    }

    fn skip_chunks(&mut self) -> Parsed<()> {
        loop {
            let start = self.position;
            match self.head()? {
                Header::Text(Some(len)) => self.whole_text(len)?,
                Header::Break => return Ok(()),
                _ => return fault(Rule::CborSyntax, start),
            };
        }
    }
}

/// What a container that is being skipped waits for.
enum Level {
    /// This many items.
    Left(usize),
    /// A break.
    Array,
    /// A break, after an even number of items.
    Map { odd: bool },
}

fn count_item(open: &mut [Level]) {
    match open.last_mut() {
        Some(Level::Left(left)) => *left = left.saturating_sub(1),
        Some(Level::Map { odd }) => *odd = !*odd,
        Some(Level::Array) | None => {}
    }
}

/// Major types of RFC 8949, 3.1, as the writer needs them.
#[derive(Clone, Copy)]
pub(crate) enum Major {
    Unsigned = 0x00,
    Negative = 0x20,
    Text = 0x60,
    Array = 0x80,
    Map = 0xA0,
}

/// Puts a head in its shortest form.
pub(crate) fn put_head(out: &mut Vec<u8>, major: Major, value: u64) {
    let major = major as u8;
    let bytes = value.to_be_bytes();
    let [.., b4, b5, b6, b7] = bytes;
    match value {
        0..=23 => out.push(major | b7),
        24..=0xFF => out.extend_from_slice(&[major | 24, b7]),
        0x100..=0xFFFF => out.extend_from_slice(&[major | 25, b6, b7]),
        0x1_0000..=0xFFFF_FFFF => out.extend_from_slice(&[major | 26, b4, b5, b6, b7]),
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&bytes);
        }
    }
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_head(out, Major::Text, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    put_head(out, Major::Unsigned, value);
}

pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    match u64::try_from(value) {
        Ok(value) => put_head(out, Major::Unsigned, value),
        // -1 - n has the bits of n inverted.
        Err(_) => put_head(out, Major::Negative, (!value) as u64),
    }
}

pub(crate) fn put_null(out: &mut Vec<u8>) {
    out.push(0xE0 | NULL);
}

pub(crate) fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { 0xF5 } else { 0xF4 });
}

/// Puts a float in the shortest width that keeps all of its bits.
pub(crate) fn put_float(out: &mut Vec<u8>, value: f64) {
    let half = f16::from_f64(value);
    #[allow(clippy::cast_possible_truncation, reason = "checked to be exact")]
    let single = value as f32;
    if half.to_f64().to_bits() == value.to_bits() {
        out.push(0xF9);
        out.extend_from_slice(&half.to_be_bytes());
    } else if f64::from(single).to_bits() == value.to_bits() {
        out.push(0xFA);
        out.extend_from_slice(&single.to_be_bytes());
    } else {
        out.push(0xFB);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_addresses_is_beyond_the_bytes() {
        assert_eq!(host_len(0xFFFF_FFFE, u32::MAX), 0xFFFF_FFFE);
        for len in [1 << 32, (1 << 32) + 1, 1 << 63, u64::MAX] {
            assert_eq!(host_len(len, u32::MAX), u32::MAX);
        }
    }

    /// The fast path and the decoder agree on every head, whole or cut.
    #[test]
    fn both_ways_to_read_a_head_agree() {
        let tails = [[0u8; 8], [0xFF; 8], [0, 0, 0, 0, 1, 2, 3, 4], [0x12; 8]];
        for first in 0..=u8::MAX {
            for tail in &tails {
                let bytes = [&[first][..], tail].concat();
                for len in 1..=bytes.len() {
                    let mut quick = Cbor::new(&bytes[..len]);
                    let mut slow = Cbor::new(&bytes[..len]);
                    let (quick_head, slow_head) = (quick.head(), slow.pull());
                    match (&quick_head, &slow_head) {
                        (Ok(Header::Float(a)), Ok(Header::Float(b))) => {
                            assert_eq!(a.to_bits(), b.to_bits());
                        }
                        (Ok(a), Ok(b)) => assert_eq!(a, b),
                        (Err(_), Err(_)) => {}
                        // The decoder has no word for a length beyond the host's addresses.
                        (
                            Ok(
                                Header::Bytes(Some(usize::MAX))
                                | Header::Text(Some(usize::MAX))
                                | Header::Array(Some(usize::MAX))
                                | Header::Map(Some(usize::MAX)),
                            ),
                            Err(_),
                        ) if size_of::<usize>() < 8 => continue,
                        _ => panic!("{bytes:02x?}: {quick_head:?} {slow_head:?}"),
                    }
                    assert_eq!(quick.position(), slow.position(), "{bytes:02x?}");
                }
            }
        }
    }

    #[test]
    fn what_is_put_is_read() {
        let values = [
            0,
            23,
            24,
            255,
            256,
            65535,
            65536,
            u64::from(u32::MAX),
            1 << 32,
            u64::MAX,
        ];
        for value in values {
            let mut out = Vec::new();
            put_unsigned(&mut out, value);
            let head = Cbor::new(&out).head().unwrap();
            assert_eq!(head, Header::Positive(value));
            let signed = i64::try_from(value).unwrap_or(i64::MAX);
            for signed in [signed, -signed, !signed] {
                let mut out = Vec::new();
                put_signed(&mut out, signed);
                let mut cbor = Cbor::new(&out);
                let head = cbor.head().unwrap();
                let got = match cbor.integer(head).unwrap() {
                    Some(Integer::Positive(value)) => i128::from(value),
                    Some(Integer::Negative(value)) => -1 - i128::from(value),
                    None => panic!("{head:?}"),
                };
                assert_eq!(got, i128::from(signed));
            }
        }
    }

    #[test]
    fn floats_take_the_shortest_width_that_keeps_their_bits() {
        let widths = [
            (1.0, 3),
            (-0.0, 3),
            (f64::INFINITY, 3),
            (f64::NAN, 3),
            (65504.0, 3),
            (65505.0, 5),
            (1.000_000_119_209_289_6, 5),
            (0.1, 9),
            (f64::MAX, 9),
            (f64::from_bits(0x7FF8_0000_0000_0001), 9),
        ];
        for (value, width) in widths {
            let mut out = Vec::new();
            put_float(&mut out, value);
            assert_eq!(out.len(), width, "{value}");
            match Cbor::new(&out).head().unwrap() {
                Header::Float(got) => assert_eq!(got.to_bits(), value.to_bits()),
                head => panic!("{head:?}"),
            }
        }
    }

    #[test]
    fn bignums_within_64_bits_are_integers() {
        let read = |bytes: &[u8]| {
            let mut cbor = Cbor::new(bytes);
            cbor.unsigned(Rule::ParamId).ok()
        };
        assert_eq!(read(&[0xC2, 0x42, 1, 0]), Some(256));
        assert_eq!(
            read(&[0xC2, 0x49, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
            Some(1 << 56)
        );
        assert_eq!(read(&[0xC2, 0x49, 1, 1, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(read(&[0xC2, 0x5F, 0x41, 1, 0x41, 2, 0xFF]), Some(258));
        assert_eq!(read(&[0xC3, 0x41, 1]), None);
        assert_eq!(read(&[0xC2, 0x61, b'1']), None);
        // Tags that mean nothing here are read past, as Burn does.
        assert_eq!(read(&[0xD9, 0xD9, 0xF7, 0x07]), Some(7));
    }

    #[test]
    fn skipping_needs_whole_items() {
        let skip = |bytes: &[u8]| {
            let mut cbor = Cbor::new(bytes);
            cbor.skip().is_ok() && cbor.remaining() == 0
        };
        let good: [&[u8]; 9] = [
            &[0x00],
            &[0x82, 0x01, 0x80],
            &[0xBF, 0x01, 0x02, 0xFF],
            &[0x9F, 0x9F, 0xFF, 0xA0, 0xFF],
            &[0xC6, 0xC6, 0xF6],
            &[0x5F, 0x41, 0x00, 0x40, 0xFF],
            &[0x7F, 0x61, b'a', 0xFF],
            &[0xF8, 0x20],
            &[0xA1, 0x01, 0xA1, 0x02, 0x03],
        ];
        for bytes in good {
            assert!(skip(bytes), "{bytes:02x?}");
        }
        let bad: [&[u8]; 12] = [
            &[],
            &[0xFF],
            &[0x81],
            &[0x81, 0xFF],
            &[0xBF, 0x01, 0xFF],
            &[0xA1, 0x01],
            &[0x5F, 0x61, 0x00, 0xFF],
            &[0x7F, 0x7F, 0x60, 0xFF, 0xFF],
            &[0x61, 0xFF],
            &[0xF8, 0x18],
            &[0xC6],
            &[0x9B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        ];
        for bytes in bad {
            assert!(!skip(bytes), "{bytes:02x?}");
        }
        let deep = |levels: usize| skip(&[alloc::vec![0x81; levels], alloc::vec![0]].concat());
        assert!(deep(MAX_DEPTH));
        assert!(!deep(MAX_DEPTH + 1));
    }
}
