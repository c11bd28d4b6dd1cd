//! CBOR (RFC 8949) as far as an index needs it. Strings are slices of the index, and nothing
//! recurses.
//!
//! An index is mostly heads of one byte in front of short texts, and decoding them is most of
//! opening a file: with the pull decoder of `ciborium-ll` it took one and a half times as long.
//! `ciborium` serves the tests instead, as an encoder and decoder to be held against.

#![deny(clippy::arithmetic_side_effects)]

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::{At, LimitExceeded, Value, f16};

use crate::{Error, Result, Rule};

/// The deepest that is read whatever the limits, since values that nest are dropped one within the other.
const MOST_DEPTH: u64 = 255;

/// Reads items of an index in order, with absolute offsets in every error.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Absolute offset of the first of `bytes`.
    base: u64,
    max_depth: u64,
    /// Whether only deterministic encoding passes, RFC 8949, 4.2.1.
    #[cfg(feature = "generations")]
    pub(crate) strict: bool,
    /// The entry and field that errors from here on name.
    pub(crate) entry: Option<u64>,
    pub(crate) field: &'static str,
}

/// RFC 8949, 3: what an item starts with, its argument decoded. Lengths are `None` where they are
/// indefinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Header {
    Positive(u64),
    /// Of -1 - n, n.
    Negative(u64),
    Bytes(Option<u64>),
    Text(Option<u64>),
    Array(Option<u64>),
    Map(Option<u64>),
    Tag,
    Simple(u8),
    Float(f64),
    Break,
}

/// A value without children.
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

/// Told about the parts of an item, in file order.
pub(crate) trait Visit<'a> {
    fn scalar(&mut self, scalar: Scalar<'a>);
    fn open(&mut self, map: bool);
    fn close(&mut self);
}

/// An array or map that is being read.
struct Open {
    /// Items left, `None` until a break.
    left: Option<u64>,
    /// In a map, whether the next item is a value.
    value_next: bool,
    map: bool,
    /// Tags around it.
    tags: usize,
    /// In a map, where the key last begun starts, and the bytes of the one before it.
    #[cfg(feature = "generations")]
    key: (usize, core::ops::Range<usize>),
}

/// Where a walk stands: the arrays and maps around the next item, and how deep it is with their tags.
#[derive(Default)]
struct Walk {
    stack: Vec<Open>,
    depth: usize,
}

impl Walk {
    /// Counts an item, which starts here, in what is around it.
    #[cfg_attr(not(feature = "generations"), allow(unused_variables))]
    fn begin_item(&mut self, start: usize) {
        if let Some(open) = self.stack.last_mut() {
            open.left = open.left.map(|left| left.saturating_sub(1));
            open.value_next = open.map && !open.value_next;
            #[cfg(feature = "generations")]
            if open.value_next {
                open.key.0 = start;
            }
        }
    }

    /// Goes into an array or a map of `len` items or pairs, `None` for as many as come before a break.
    fn open(
        &mut self,
        reader: &Reader<'_>,
        map: bool,
        len: Option<u64>,
        tags: usize,
    ) -> Result<()> {
        let left = match len {
            // Pairs that can't be counted can't be there either.
            Some(pairs) if map => match pairs.checked_mul(2) {
                Some(items) => Some(items),
                None => return reader.fail(Rule::CborEnd),
            },
            len => len,
        };
        self.depth = self.depth.saturating_add(tags).saturating_add(1);
        #[cfg(feature = "generations")]
        let limited = !reader.strict;
        #[cfg(not(feature = "generations"))]
        let limited = true;
        if limited {
            reader.check_depth(self.depth)?;
        }
        self.stack.push(Open {
            left,
            value_next: false,
            map,
            tags,
            #[cfg(feature = "generations")]
            key: (0, 0..0),
        });
        Ok(())
    }

    /// Leaves what a break ends.
    fn break_off(&mut self, reader: &Reader<'_>) -> Result<()> {
        match self.stack.pop() {
            Some(open) if open.left.is_none() && !open.value_next => {
                self.leave(&open);
                Ok(())
            }
            _ => reader.fail(Rule::CborBreak),
        }
    }

    /// Leaves the innermost array or map, if all of its items were read.
    fn close_full(&mut self) -> bool {
        match self.stack.pop() {
            Some(open) if open.left == Some(0) => {
                self.leave(&open);
                true
            }
            open => {
                self.stack.extend(open);
                false
            }
        }
    }

    fn leave(&mut self, open: &Open) {
        self.depth = self.depth.saturating_sub(open.tags.saturating_add(1));
    }

    /// Told of every scalar, array and map that has ended. RFC 8949, 4.2.1: keys ascend by their bytes.
    #[cfg(feature = "generations")]
    fn end_item(&mut self, reader: &Reader<'_>) -> Result<()> {
        let Some(open) = self
            .stack
            .last_mut()
            .filter(|open| reader.strict && open.map && open.value_next)
        else {
            return Ok(());
        };
        let (start, before) = &open.key;
        let bytes = |range| reader.bytes.get(range).unwrap_or_default();
        let range = *start..reader.position;
        match bytes(before.clone()).cmp(bytes(range.clone())) {
            core::cmp::Ordering::Less => open.key = (range.start, range),
            core::cmp::Ordering::Equal => return reader.fail(Rule::CborDuplicateKey),
            core::cmp::Ordering::Greater => return reader.fail(Rule::CborOrder),
        }
        Ok(())
    }

    /// Only later generations have an order of keys.
    #[cfg(not(feature = "generations"))]
    fn end_item(&mut self, _: &Reader<'_>) -> Result<()> {
        Ok(())
    }
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, the first of which is at `base` in the file.
    pub(crate) fn new(bytes: &'a [u8], base: u64, max_depth: u64) -> Self {
        Self {
            bytes,
            position: 0,
            base,
            max_depth: max_depth.min(MOST_DEPTH),
            #[cfg(feature = "generations")]
            strict: false,
            entry: None,
            field: "index",
        }
    }

    /// How many bytes were read.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    /// Bytes that were read.
    pub(crate) fn bytes(&self, range: core::ops::Range<usize>) -> &'a [u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// The next byte's place, for an error.
    pub(crate) fn at(&self) -> At {
        At {
            offset: self.base.saturating_add(self.position as u64),
            entry: self.entry,
            field: self.field,
        }
    }

    #[cold]
    pub(crate) fn fail<T>(&self, rule: Rule) -> Result<T> {
        let at = self.at();
        Err(Error::invalid(rule, at))
    }

    /// The next `N` bytes.
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self
            .bytes
            .get(self.position..)
            .and_then(<[u8]>::first_chunk)
        {
            Some(bytes) => {
                self.position = self.position.saturating_add(N);
                Ok(*bytes)
            }
            None => self.fail(Rule::CborEnd),
        }
    }

    /// The next head.
    #[inline]
    fn head(&mut self) -> Result<Header> {
        let [initial] = self.array()?;
        let info = initial & 0x1F;
        let argument = match info {
            0..24 => Some(u64::from(info)),
            24 => Some(u64::from(u8::from_be_bytes(self.array()?))),
            25 => Some(u64::from(u16::from_be_bytes(self.array()?))),
            26 => Some(u64::from(u32::from_be_bytes(self.array()?))),
            27 => Some(u64::from_be_bytes(self.array()?)),
            31 => None,
            _ => return self.fail(Rule::CborHead),
        };
        #[cfg(feature = "generations")]
        if self.strict {
            self.check_deterministic(initial, argument)?;
        }
        Ok(match (initial >> 5, argument) {
            (UNSIGNED, Some(value)) => Header::Positive(value),
            (NEGATIVE, Some(value)) => Header::Negative(value),
            (BYTES, len) => Header::Bytes(len),
            (TEXT, len) => Header::Text(len),
            (ARRAY, len) => Header::Array(len),
            (MAP, len) => Header::Map(len),
            (TAG, Some(_)) => Header::Tag,
            (UNSIGNED | NEGATIVE | TAG, None) => return self.fail(Rule::CborHead),
            (_, None) => Header::Break,
            (_, Some(argument)) => return self.simple(info, argument),
        })
    }

    /// RFC 8949, 4.2.1: definite lengths, shortest heads; and no tags or undefined, which the
    /// format forbids beyond that.
    #[cfg(feature = "generations")]
    fn check_deterministic(&self, initial: u8, argument: Option<u64>) -> Result<()> {
        let Some(argument) = argument else {
            return self.fail(Rule::CborIndefinite);
        };
        let single = |argument: u64| f32::from_bits(u32::try_from(argument).unwrap_or(0));
        let fits_half = |value: f64| f16::from_f64(value).to_f64().to_bits() == value.to_bits();
        let rule = match (initial >> 5, initial & 0x1F) {
            (TAG, _) => Rule::CborTag,
            (7, 23) => Rule::CborSimple,
            (7, 25) => match f16::from_bits(u16::try_from(argument).unwrap_or(0)).is_nan() {
                true if argument != 0x7E00 => Rule::CborFloat,
                _ => return Ok(()),
            },
            (7, 26) => match single(argument) {
                value if value.is_nan() || fits_half(value.into()) => Rule::CborFloat,
                _ => return Ok(()),
            },
            (7, 27) => {
                let value = f64::from_bits(argument);
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "the result is compared with the value"
                )]
                let narrow = f64::from(value as f32);
                match value.is_nan() || narrow.to_bits() == value.to_bits() {
                    true => Rule::CborFloat,
                    false => return Ok(()),
                }
            }
            (7, _) => return Ok(()),
            (_, 24) if argument < 24 => Rule::CborWidth,
            (_, 25) if argument <= 0xFF => Rule::CborWidth,
            (_, 26) if argument <= 0xFFFF => Rule::CborWidth,
            (_, 27) if argument <= 0xFFFF_FFFF => Rule::CborWidth,
            _ => return Ok(()),
        };
        self.fail(rule)
    }

    /// Whether the next item is text; an end or anything else is not.
    #[cfg(feature = "generations")]
    pub(crate) fn is_text_next(&self) -> bool {
        self.bytes
            .get(self.position)
            .is_some_and(|initial| initial >> 5 == TEXT)
    }

    /// An item of major type 7. Simple values of two bytes are ill-formed below 32 and not
    /// assigned above, as are all of one byte but four.
    fn simple(&self, info: u8, argument: u64) -> Result<Header> {
        let bits = |argument: u64| u32::try_from(argument).unwrap_or(0);
        Ok(match info {
            20..=23 => Header::Simple(info),
            25 => {
                let half = u16::try_from(argument).unwrap_or(0);
                Header::Float(f16::from_bits(half).to_f64())
            }
            26 => Header::Float(f32::from_bits(bits(argument)).into()),
            27 => Header::Float(f64::from_bits(argument)),
            _ => return self.fail(Rule::CborSimple),
        })
    }

    /// The text that comes next, if it is one of less than 24 bytes in one piece, as nearly all
    /// are. It is not checked to be UTF-8.
    #[inline]
    pub(crate) fn short_text(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.position..)?;
        let (&initial, rest) = rest.split_first()?;
        let len = usize::from(initial.wrapping_sub(TEXT << 5));
        let text = rest.get(..len).filter(|_| len < 24)?;
        self.position = self.position.saturating_add(len).saturating_add(1);
        Some(text)
    }

    /// The unsigned integer that comes next, if there is one without a tag.
    #[inline]
    pub(crate) fn short_uint(&mut self) -> Option<u64> {
        let rest = self.bytes.get(self.position..)?;
        let (&initial, rest) = rest.split_first()?;
        let (value, len) = match initial {
            0..24 => (u64::from(initial), 1),
            24 => (u64::from(*rest.first()?), 2),
            25 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 3),
            26 => (u64::from(u32::from_be_bytes(*rest.first_chunk()?)), 5),
            27 => (u64::from_be_bytes(*rest.first_chunk()?), 9),
            _ => return None,
        };
        self.position = self.position.saturating_add(len);
        Some(value)
    }

    /// The length of the array that comes next, if there is one of less than 24 items.
    #[inline]
    pub(crate) fn short_array(&mut self) -> Option<u64> {
        let len = self
            .bytes
            .get(self.position)?
            .checked_sub(ARRAY << 5)
            .filter(|&len| len < 24)?;
        self.position = self.position.saturating_add(1);
        Some(len.into())
    }

    /// Skips `bytes` if they come next.
    #[inline]
    pub(crate) fn skip(&mut self, bytes: &[u8]) -> bool {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let found = rest.starts_with(bytes);
        if found {
            self.position = self.position.saturating_add(bytes.len());
        }
        found
    }

    /// The head of the next item, after its tags; it may be a break.
    #[inline]
    pub(crate) fn item(&mut self) -> Result<Header> {
        self.item_at(0).map(|(header, _)| header)
    }

    /// The head of an item within `depth` others, and how many tags it has.
    #[inline]
    fn item_at(&mut self, depth: usize) -> Result<(Header, usize)> {
        match self.head()? {
            Header::Tag => self.tagged(depth),
            header => Ok((header, 0)),
        }
    }

    #[cold]
    fn tagged(&mut self, depth: usize) -> Result<(Header, usize)> {
        let mut tags = 1usize;
        loop {
            self.check_depth(depth.saturating_add(tags))?;
            match self.head()? {
                Header::Tag => tags = tags.saturating_add(1),
                Header::Break => return self.fail(Rule::CborBreak),
                header => return Ok((header, tags)),
            }
        }
    }

    fn check_depth(&self, depth: usize) -> Result<()> {
        let (value, max) = (depth as u64, self.max_depth);
        if value > max {
            let (limit, at) = ("max_value_depth", self.at());
            return Err(Error::Limit(LimitExceeded {
                limit,
                value,
                max,
                at,
            }));
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(len).ok();
        let end = end.and_then(|len| self.position.checked_add(len));
        match end.and_then(|end| Some((end, self.bytes.get(self.position..end)?))) {
            Some((end, bytes)) => {
                self.position = end;
                Ok(bytes)
            }
            None => self.fail(Rule::CborEnd),
        }
    }

    /// The bytes of a text or byte string whose head was just read.
    #[inline]
    fn string(&mut self, len: Option<u64>, text: bool) -> Result<Cow<'a, [u8]>> {
        match len {
            Some(len) => self.take(len).map(Cow::Borrowed),
            None => self.chunks(text).map(Cow::Owned),
        }
    }

    fn chunks(&mut self, text: bool) -> Result<Vec<u8>> {
        let mut joined = Vec::new();
        loop {
            match self.head()? {
                Header::Break => return Ok(joined),
                Header::Text(Some(len)) if text => {
                    let chunk = self.take(len)?;
                    self.utf8(chunk)?;
                    joined.extend_from_slice(chunk);
                }
                Header::Bytes(Some(len)) if !text => joined.extend_from_slice(self.take(len)?),
                _ => return self.fail(Rule::CborChunk),
            }
        }
    }

    fn utf8(&self, bytes: &'a [u8]) -> Result<&'a str> {
        match core::str::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => self.fail(Rule::CborUtf8),
        }
    }

    /// The text whose head was just read.
    #[inline]
    pub(crate) fn text(&mut self, len: Option<u64>) -> Result<Cow<'a, str>> {
        match self.string(len, true)? {
            Cow::Borrowed(bytes) => self.utf8(bytes).map(Cow::Borrowed),
            Cow::Owned(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Cow::Owned(text)),
                Err(_) => self.fail(Rule::CborUtf8),
            },
        }
    }

    /// The bytes of a text, without the check that it is UTF-8, for those that are compared with known ones.
    #[inline]
    pub(crate) fn text_bytes(&mut self, len: Option<u64>) -> Result<Cow<'a, [u8]>> {
        self.string(len, true)
    }

    /// Walks the next item and everything within it; counts items down in `budget`.
    pub(crate) fn walk(&mut self, visit: &mut impl Visit<'a>, budget: &mut Budget) -> Result<()> {
        let mut walk = Walk::default();
        loop {
            let start = self.position;
            #[cfg(feature = "generations")]
            if self.strict && walk.stack.len() as u64 > self.max_depth {
                return self.fail(Rule::CborDepth);
            }
            let (header, tags) = self.item_at(walk.depth)?;
            if header == Header::Break {
                walk.break_off(self)?;
                visit.close();
            } else {
                budget.take(self)?;
                walk.begin_item(start);
                let (map, len) = match header {
                    Header::Array(len) => (false, Some(len)),
                    Header::Map(len) => (true, Some(len)),
                    _ => (false, None),
                };
                match len {
                    Some(len) => {
                        walk.open(self, map, len, tags)?;
                        visit.open(map);
                    }
                    None => {
                        let scalar = self.scalar(header)?;
                        visit.scalar(scalar);
                        walk.end_item(self)?;
                    }
                }
            }
            while walk.close_full() {
                visit.close();
                walk.end_item(self)?;
            }
            if walk.stack.is_empty() {
                return Ok(());
            }
        }
    }

    fn scalar(&mut self, header: Header) -> Result<Scalar<'a>> {
        Ok(match header {
            Header::Positive(value) => Scalar::Int(value.into()),
            Header::Negative(value) => Scalar::Int(!i128::from(value)),
            Header::Float(value) => Scalar::Float(value),
            Header::Simple(20) => Scalar::Bool(false),
            Header::Simple(21) => Scalar::Bool(true),
            Header::Text(len) => Scalar::Text(self.text(len)?),
            Header::Bytes(len) => Scalar::Bytes(self.string(len, false)?),
            // Null and undefined; `head` lets no other simple value through, `walk` no container.
            _ => Scalar::Null,
        })
    }
}

/// How many more items may be read.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    max: u64,
}

impl Budget {
    pub(crate) fn new(max: u64) -> Self {
        Self { left: max, max }
    }

    pub(crate) fn take(&mut self, reader: &Reader<'_>) -> Result<()> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::Limit(LimitExceeded {
                limit: "max_custom_item_count",
                value: self.max.saturating_add(1),
                max: self.max,
                at: reader.at(),
            })),
        }
    }
}

/// Checks an item without keeping it.
pub(crate) struct Skip;

impl Visit<'_> for Skip {
    fn scalar(&mut self, _: Scalar<'_>) {}
    fn open(&mut self, _: bool) {}
    fn close(&mut self) {}
}

/// Builds a [`Value`].
#[derive(Default)]
struct Build {
    open: Vec<(bool, Vec<Value>)>,
    done: Option<Value>,
}

impl Build {
    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some((_, items)) => items.push(value),
            None => self.done = Some(value),
        }
    }
}

impl Visit<'_> for Build {
    fn scalar(&mut self, scalar: Scalar<'_>) {
        self.put(match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(value) => Value::Int(value),
            Scalar::Float(value) => Value::Float(value),
            Scalar::Text(value) => Value::Text(value.into_owned()),
            Scalar::Bytes(value) => Value::Bytes(value.into_owned()),
        });
    }

    fn open(&mut self, map: bool) {
        self.open.push((map, Vec::new()));
    }

    fn close(&mut self) {
        let Some((map, items)) = self.open.pop() else {
            return;
        };
        self.put(if map {
            let mut pairs = Vec::with_capacity(items.len() / 2);
            let mut items = items.into_iter();
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((key, value));
            }
            Value::Map(pairs)
        } else {
            Value::List(items)
        });
    }
}

/// The value of one item that is known to be well-formed.
pub(crate) fn value_of(bytes: &[u8]) -> Value {
    let mut build = Build::default();
    let mut reader = Reader::new(bytes, 0, u64::MAX);
    match reader.walk(&mut build, &mut Budget::new(u64::MAX)) {
        Ok(()) => build.done.unwrap_or(Value::Null),
        Err(_) => Value::Null,
    }
}

/// Whether `bytes` are exactly one well-formed item that every reader takes.
pub(crate) fn check_item(bytes: &[u8], max_depth: u64) -> Result<()> {
    let mut reader = Reader::new(bytes, 0, max_depth);
    reader.walk(&mut Skip, &mut Budget::new(u64::MAX))?;
    match reader.remaining() {
        0 => Ok(()),
        bytes => reader.fail(Rule::IndexTrailing {
            bytes: bytes as u64,
        }),
    }
}

/// Major types, RFC 8949, 3.1.
const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
/// An indefinite-length map, and what ends it.
pub(crate) const MAP_START: u8 = 0xBF;
pub(crate) const BREAK: u8 = 0xFF;

/// Appends the shortest head that holds `argument`.
fn put_head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    if let Ok(byte) = u8::try_from(argument) {
        if byte < 24 {
            out.push(major | byte);
        } else {
            out.extend([major | 24, byte]);
        }
    } else if let Ok(short) = u16::try_from(argument) {
        out.push(major | 25);
        out.extend(short.to_be_bytes());
    } else if let Ok(word) = u32::try_from(argument) {
        out.push(major | 26);
        out.extend(word.to_be_bytes());
    } else {
        out.push(major | 27);
        out.extend(argument.to_be_bytes());
    }
}

pub(crate) fn put_uint(out: &mut Vec<u8>, value: u64) {
    put_head(out, UNSIGNED, value);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_head(out, TEXT, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_array(out: &mut Vec<u8>, len: usize) {
    put_head(out, ARRAY, len as u64);
}

/// Appends the shortest float that keeps the value; every NaN is the same.
fn put_float(out: &mut Vec<u8>, value: f64) {
    let half = f16::from_f64(value);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the result is compared with the value"
    )]
    let single = value as f32;
    if value.is_nan() {
        out.extend([0xF9, 0x7E, 0x00]);
    } else if half.to_f64().to_bits() == value.to_bits() {
        out.push(0xF9);
        out.extend(half.to_be_bytes());
    } else if f64::from(single).to_bits() == value.to_bits() {
        out.push(0xFA);
        out.extend(single.to_be_bytes());
    } else {
        out.push(0xFB);
        out.extend(value.to_be_bytes());
    }
}

/// Appends `value`, or says why CBOR can't hold it. What was appended by then stays.
pub(crate) fn put_value(out: &mut Vec<u8>, value: &Value) -> Result<(), &'static str> {
    // The values that are still to come, the next one last.
    let mut rest = alloc::vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Null => out.push(0xF6),
            Value::Bool(false) => out.push(0xF4),
            Value::Bool(true) => out.push(0xF5),
            Value::Int(value) => {
                if let Ok(value) = u64::try_from(*value) {
                    put_head(out, UNSIGNED, value);
                } else if let Ok(value) = u64::try_from(!*value) {
                    put_head(out, NEGATIVE, value);
                } else {
                    return Err("CBOR integers lie between -2^64 and 2^64-1");
                }
            }
            Value::Float(value) => put_float(out, *value),
            Value::Text(text) => put_text(out, text),
            Value::Bytes(bytes) => {
                put_head(out, BYTES, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
            Value::List(items) => {
                put_array(out, items.len());
                rest.extend(items.iter().rev());
            }
            Value::Map(pairs) => {
                put_head(out, MAP, pairs.len() as u64);
                for (key, value) in pairs.iter().rev() {
                    rest.extend([value, key]);
                }
            }
            _ => return Err("a value that CBOR does not have"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        put_value(&mut out, value).unwrap();
        out
    }

    #[test]
    fn values_of_the_standard_are_written_as_there() {
        // RFC 8949, appendix A.
        for (value, hex) in [
            (Value::Int(23), "17"),
            (Value::Int(24), "1818"),
            (Value::Int(1_000_000), "1a000f4240"),
            (Value::Int(u64::MAX.into()), "1bffffffffffffffff"),
            (
                Value::Int(-18_446_744_073_709_551_616),
                "3bffffffffffffffff",
            ),
            (Value::Int(-1000), "3903e7"),
            (Value::Float(-0.0), "f98000"),
            (Value::Float(1.1), "fb3ff199999999999a"),
            (Value::Float(100_000.0), "fa47c35000"),
            (Value::Float(f64::INFINITY), "f97c00"),
            (Value::Float(-f64::NAN), "f97e00"),
            (Value::Text("\u{6c34}".into()), "63e6b0b4"),
            (Value::Bytes([1, 2].into()), "420102"),
        ] {
            let bytes = encoded(&value);
            let got: String = bytes.iter().map(|b| alloc::format!("{b:02x}")).collect();
            assert_eq!(got, hex);
            if !hex.starts_with("f97e") {
                assert_eq!(value_of(&bytes), value);
            }
        }
        assert!(put_value(&mut Vec::new(), &Value::Int(i128::MAX)).is_err());
    }

    #[test]
    fn nested_values_come_back() {
        let list = Value::List([Value::Null, Value::Bool(true)].into());
        let map = Value::Map([(Value::Int(-1), list), ("k".into(), Value::List([].into()))].into());
        assert_eq!(
            encoded(&map),
            [0xA2, 0x20, 0x82, 0xF6, 0xF5, 0x61, b'k', 0x80]
        );
        assert_eq!(value_of(&encoded(&map)), map);
        // Indefinite lengths, chunks and tags say the same.
        let chunked = [
            0xBF, 0x20, 0xC1, 0x9F, 0xF7, 0xF5, 0xFF, 0x7F, 0x61, b'k', 0xFF, 0x80, 0xFF,
        ];
        assert_eq!(value_of(&chunked), map);
        assert!(check_item(&chunked, 128).is_ok());
    }

    #[test]
    fn what_is_no_item_is_told() {
        let rule = |bytes: &[u8]| match check_item(bytes, 4).unwrap_err() {
            Error::Invalid { rule, .. } => rule.id(),
            Error::Limit(limit) => limit.limit,
            error => panic!("{error}"),
        };
        assert_eq!(rule(&[]), "ztensor.cbor.end");
        assert_eq!(rule(&[0x82, 0]), "ztensor.cbor.end");
        assert_eq!(rule(&[0x62, b'a']), "ztensor.cbor.end");
        assert_eq!(rule(&[0xBB, 0x80, 0, 0, 0, 0, 0, 0, 0]), "ztensor.cbor.end");
        assert_eq!(rule(&[0x1C]), "ztensor.cbor.head");
        assert_eq!(rule(&[0x1F]), "ztensor.cbor.head");
        assert_eq!(rule(&[0xDF, 0]), "ztensor.cbor.head");
        assert_eq!(rule(&[0xFF]), "ztensor.cbor.break");
        assert_eq!(rule(&[0x81, 0xFF]), "ztensor.cbor.break");
        assert_eq!(rule(&[0x9F, 0xC1, 0xFF]), "ztensor.cbor.break");
        assert_eq!(rule(&[0xBF, 0, 0xFF]), "ztensor.cbor.break");
        assert_eq!(rule(&[0x7F, 0x41, 0, 0xFF]), "ztensor.cbor.chunk");
        assert_eq!(rule(&[0x7F, 0x7F, 0xFF, 0xFF]), "ztensor.cbor.chunk");
        assert_eq!(rule(&[0xF8, 20]), "ztensor.cbor.simple");
        assert_eq!(rule(&[0xF8, 255]), "ztensor.cbor.simple");
        assert_eq!(rule(&[0xE0]), "ztensor.cbor.simple");
        assert_eq!(rule(&[0x61, 0xFF]), "ztensor.cbor.utf8");
        assert_eq!(
            rule(&[0x7F, 0x61, 0xC3, 0x61, 0xA9, 0xFF]),
            "ztensor.cbor.utf8"
        );
        assert_eq!(rule(&[0, 0]), "ztensor.index.trailing");
        assert_eq!(rule(&[0x81, 0x81, 0x81, 0x81, 0x81, 0]), "max_value_depth");
        assert_eq!(rule(&[0xC1, 0x81, 0xC1, 0xC1, 0xC1, 0]), "max_value_depth");
        assert!(check_item(&[0x81, 0x81, 0x81, 0x81, 0], 4).is_ok());
    }
}
