//! MessagePack from bytes in memory: every length is held against what is left, nesting is
//! bounded, and nothing recurses deeper than that bound.

#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;
use core::ops::Range;

use rmp::Marker;
use rmp::encode::buffer::ByteBuf;
use tensor_core::{At, LimitExceeded, Value};

use crate::Error;
use crate::limits::MAX_DEPTH;

/// What is wrong with the bytes; the caller knows where they are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not MessagePack, or cut, or too deep.
    Malformed,
    /// Well-formed, but of another type or range than is due.
    Type,
}

type Result<T, E = Fault> = core::result::Result<T, E>;

/// The head of a value; the bytes of texts and the like, and the items of lists, follow.
#[derive(Clone, Copy, Debug)]
enum Head {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(u32),
    Bytes(u32),
    Ext(u32),
    List(u32),
    Map(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    position: usize,
    max_depth: u32,
    /// How many bytes come after those that are here.
    beyond: u64,
    /// Whether one of those was wanted.
    short: bool,
    /// Whether a value nests deeper than is read.
    deep: bool,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8], max_depth: u32) -> Self {
        Self::of_piece(bytes, max_depth, 0)
    }

    /// Decodes what begins in `bytes`, after which so many more come that are not here yet.
    pub(crate) fn of_piece(bytes: &'a [u8], max_depth: u32, beyond: u64) -> Self {
        Self {
            bytes,
            position: 0,
            max_depth,
            beyond,
            short: false,
            deep: false,
        }
    }

    /// Whether a fault is no more than that the bytes to decode are not all here.
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }

    /// The error of a fault, `error` but for values that nest deeper than is read: those may be well-formed.
    pub(crate) fn named(&self, error: Error, at: At) -> Error {
        // No limit goes further than a stack.
        if !self.deep || self.max_depth >= MAX_DEPTH {
            return error;
        }
        let max = u64::from(self.max_depth);
        Error::Limit(LimitExceeded {
            limit: "max_value_depth",
            value: max.saturating_add(1),
            max,
            at,
        })
    }

    /// The bytes from a position up to the current one.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.position).unwrap_or_default()
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position == self.bytes.len()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.position.checked_add(len).ok_or(Fault::Malformed)?;
        let Some(bytes) = self.bytes.get(self.position..end) else {
            self.short = self.beyond > 0;
            return Err(Fault::Malformed);
        };
        self.position = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Fault::Malformed)
    }

    fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    fn head(&mut self) -> Result<Head> {
        let marker = Marker::from_u8(self.u8()?);
        Ok(match marker {
            Marker::Null => Head::Null,
            Marker::True => Head::Bool(true),
            Marker::False => Head::Bool(false),
            Marker::FixPos(value) => Head::Int(value.into()),
            Marker::FixNeg(value) => Head::Int(value.into()),
            Marker::U8 => Head::Int(self.u8()?.into()),
            Marker::U16 => Head::Int(self.u16()?.into()),
            Marker::U32 => Head::Int(self.u32()?.into()),
            Marker::U64 => Head::Int(u64::from_be_bytes(self.array()?).into()),
            Marker::I8 => Head::Int(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Head::Int(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Head::Int(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Head::Int(i64::from_be_bytes(self.array()?).into()),
            Marker::F32 => Head::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => Head::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(len) => Head::Text(len.into()),
            Marker::Str8 => Head::Text(self.u8()?.into()),
            Marker::Str16 => Head::Text(self.u16()?.into()),
            Marker::Str32 => Head::Text(self.u32()?),
            Marker::Bin8 => Head::Bytes(self.u8()?.into()),
            Marker::Bin16 => Head::Bytes(self.u16()?.into()),
            Marker::Bin32 => Head::Bytes(self.u32()?),
            Marker::FixExt1 => Head::Ext(1),
            Marker::FixExt2 => Head::Ext(2),
            Marker::FixExt4 => Head::Ext(4),
            Marker::FixExt8 => Head::Ext(8),
            Marker::FixExt16 => Head::Ext(16),
            Marker::Ext8 => Head::Ext(self.u8()?.into()),
            Marker::Ext16 => Head::Ext(self.u16()?.into()),
            Marker::Ext32 => Head::Ext(self.u32()?),
            Marker::FixArray(len) => Head::List(len.into()),
            Marker::Array16 => Head::List(self.u16()?.into()),
            Marker::Array32 => Head::List(self.u32()?),
            Marker::FixMap(len) => Head::Map(len.into()),
            Marker::Map16 => Head::Map(self.u16()?.into()),
            Marker::Map32 => Head::Map(self.u32()?),
            Marker::Reserved => return Err(Fault::Malformed),
        })
    }

    /// A count of items that the bytes have room for, at a byte each.
    fn count(&self, count: u32, bytes_each: usize) -> Result<usize> {
        let count = usize::try_from(count).map_err(|_| Fault::Malformed)?;
        let there = (self.remaining() as u64).saturating_add(self.beyond);
        match count.checked_mul(bytes_each) {
            Some(needed) if needed as u64 <= there => Ok(count),
            _ => Err(Fault::Malformed),
        }
    }

    /// The number of pairs of a map.
    pub(crate) fn map(&mut self) -> Result<usize> {
        match self.head()? {
            Head::Map(len) => self.count(len, 2),
            _ => Err(Fault::Type),
        }
    }

    /// The number of items of a list.
    pub(crate) fn list(&mut self) -> Result<usize> {
        match self.head()? {
            Head::List(len) => self.count(len, 1),
            _ => Err(Fault::Type),
        }
    }

    /// A text.
    pub(crate) fn text(&mut self) -> Result<&'a str> {
        match self.head()? {
            Head::Text(len) => {
                let len = self.count(len, 1)?;
                core::str::from_utf8(self.take(len)?).map_err(|_| Fault::Type)
            }
            _ => Err(Fault::Type),
        }
    }

    /// A key of a map: text, or nothing that we know by name, which is skipped.
    pub(crate) fn key(&mut self) -> Result<Option<&'a str>> {
        let start = self.position;
        match self.head()? {
            Head::Text(len) => {
                let len = self.count(len, 1)?;
                let text = core::str::from_utf8(self.take(len)?);
                text.map(Some).map_err(|_| Fault::Type)
            }
            _ => {
                self.position = start;
                self.skip()?;
                Ok(None)
            }
        }
    }

    /// An integer of any width.
    pub(crate) fn int(&mut self) -> Result<i128> {
        match self.head()? {
            Head::Int(value) => Ok(value),
            _ => Err(Fault::Type),
        }
    }

    /// An integer that fits `u64`.
    pub(crate) fn uint(&mut self) -> Result<u64> {
        u64::try_from(self.int()?).map_err(|_| Fault::Type)
    }

    /// A bin.
    pub(crate) fn bin(&mut self) -> Result<&'a [u8]> {
        match self.head()? {
            Head::Bytes(len) => {
                let len = self.count(len, 1)?;
                self.take(len)
            }
            _ => Err(Fault::Type),
        }
    }

    /// Skips a value and returns where it was.
    pub(crate) fn skip(&mut self) -> Result<Range<usize>> {
        let start = self.position;
        self.walk(false)?;
        Ok(start..self.position)
    }

    /// Skips a value and returns how many items it has, itself included.
    pub(crate) fn skip_items(&mut self) -> Result<u64> {
        self.walk(false)
    }

    /// How many items the next value has, itself included.
    pub(crate) fn items(&self) -> Result<u64> {
        self.clone().walk(false)
    }

    /// Goes over a value without keeping it; unlike a skip this also looks into texts.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.walk(true).map(drop)
    }

    /// Goes over a value and counts its items; texts are UTF-8 where that is asked for.
    fn walk(&mut self, utf8: bool) -> Result<u64> {
        let mut items = 0u64;
        // How many items are left on each level.
        let mut levels: Vec<usize> = Vec::new();
        loop {
            items = items.saturating_add(1);
            let inner = match self.head()? {
                Head::Text(len) => {
                    let len = self.count(len, 1)?;
                    let text = self.take(len)?;
                    if utf8 && core::str::from_utf8(text).is_err() {
                        return Err(Fault::Malformed);
                    }
                    0
                }
                Head::Bytes(len) => {
                    let len = self.count(len, 1)?;
                    self.take(len)?;
                    0
                }
                Head::Ext(len) => {
                    // The type comes before the bytes.
                    let len = self.count(len, 1)?;
                    self.u8()?;
                    self.take(len)?;
                    0
                }
                Head::List(len) => self.count(len, 1)?,
                Head::Map(len) => self.count(len, 2)?.saturating_mul(2),
                _ => 0,
            };
            if inner > 0 {
                if levels.len() >= self.max_depth as usize {
                    self.deep = true;
                    return Err(Fault::Malformed);
                }
                levels.push(inner);
                continue;
            }
            loop {
                match levels.last_mut() {
                    None => return Ok(items),
                    Some(left) if *left > 1 => {
                        *left = left.saturating_sub(1);
                        break;
                    }
                    Some(_) => {
                        levels.pop();
                    }
                }
            }
        }
    }

    /// A value of any kind; extension types are their bytes.
    pub(crate) fn value(&mut self) -> Result<Value> {
        // A look ahead bounds the depth before anything recurses.
        let mut ahead = self.clone();
        let result = ahead.skip();
        (self.short, self.deep) = (ahead.short, ahead.deep);
        result?;
        self.value_inside()
    }

    fn value_inside(&mut self) -> Result<Value> {
        Ok(match self.head()? {
            Head::Null => Value::Null,
            Head::Bool(value) => Value::Bool(value),
            Head::Int(value) => Value::Int(value),
            Head::Float(value) => Value::Float(value),
            Head::Text(len) => {
                let len = self.count(len, 1)?;
                match core::str::from_utf8(self.take(len)?) {
                    Ok(text) => Value::Text(text.into()),
                    Err(_) => return Err(Fault::Malformed),
                }
            }
            Head::Bytes(len) => {
                let len = self.count(len, 1)?;
                Value::Bytes(self.take(len)?.into())
            }
            Head::Ext(len) => {
                let len = self.count(len, 1)?;
                self.u8()?;
                Value::Bytes(self.take(len)?.into())
            }
            Head::List(len) => {
                let mut items = Vec::new();
                for _ in 0..self.count(len, 1)? {
                    items.push(self.value_inside()?);
                }
                Value::List(items)
            }
            Head::Map(len) => {
                let mut pairs = Vec::new();
                for _ in 0..self.count(len, 2)? {
                    pairs.push((self.value_inside()?, self.value_inside()?));
                }
                Value::Map(pairs)
            }
        })
    }
}

/// Appends MessagePack to bytes in memory, in the shortest forms.
#[derive(Debug)]
pub(crate) struct Encoder(ByteBuf);

impl Encoder {
    pub(crate) fn new() -> Self {
        Self(ByteBuf::new())
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }

    // Memory takes all bytes, so none of rmp's results below is an error.

    pub(crate) fn map(&mut self, len: usize) {
        let _ = rmp::encode::write_map_len(&mut self.0, u32::try_from(len).unwrap_or(u32::MAX));
    }

    pub(crate) fn list(&mut self, len: usize) {
        let _ = rmp::encode::write_array_len(&mut self.0, u32::try_from(len).unwrap_or(u32::MAX));
    }

    pub(crate) fn text(&mut self, text: &str) {
        let _ = rmp::encode::write_str(&mut self.0, text);
    }

    pub(crate) fn uint(&mut self, value: u64) {
        let _ = rmp::encode::write_uint(&mut self.0, value);
    }

    pub(crate) fn bin(&mut self, bytes: &[u8]) {
        let _ = rmp::encode::write_bin(&mut self.0, bytes);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        let _ = rmp::encode::write_bool(&mut self.0, value);
    }

    /// A value that MessagePack can hold; says whether it is one.
    pub(crate) fn value(&mut self, value: &Value) -> bool {
        match value {
            Value::Bool(value) => self.bool(*value),
            Value::Int(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => self.uint(value),
                (_, Ok(value)) => {
                    let _ = rmp::encode::write_sint(&mut self.0, value);
                }
                _ => return false,
            },
            Value::Float(value) => {
                let _ = rmp::encode::write_f64(&mut self.0, *value);
            }
            Value::Text(text) => self.text(text),
            Value::Bytes(bytes) => self.bin(bytes),
            Value::List(items) => {
                self.list(items.len());
                return items.iter().all(|item| self.value(item));
            }
            Value::Map(pairs) => {
                self.map(pairs.len());
                return pairs
                    .iter()
                    .all(|(key, value)| self.value(key) && self.value(value));
            }
            _ => {
                let _ = rmp::encode::write_nil(&mut self.0);
            }
        }
        true
    }
}
