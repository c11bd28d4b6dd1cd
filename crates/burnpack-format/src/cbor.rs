//! CBOR items (RFC 8949): heads through a pull decoder, bodies as slices of the metadata.

#![deny(clippy::arithmetic_side_effects)]

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use ciborium_ll::{Decoder, Error as DecodeError, Header};
use tensor_core::f16;

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

/// Whether a head stands for no value.
pub(crate) fn is_null(head: Header) -> bool {
    matches!(head, Header::Simple(NULL | UNDEFINED))
}

/// An integer of either sign within 64 bits; the value of a negative one is `-1 - n`.
pub(crate) enum Integer {
    Positive(u64),
    Negative(u64),
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

    /// The same for an item whose head was read.
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
