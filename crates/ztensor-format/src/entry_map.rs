//! An entry of the index as it is written, and what a writer says about a tensor.

#![deny(clippy::arithmetic_side_effects)]

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::codec::{NameTable, PieceId, ShapeId};
use tensor_core::{At, Bytes, DType, LimitExceeded};

use crate::cbor::{self, Budget, Header, Reader, Skip};
use crate::checksum::Checksum;
use crate::encoding::{Encoding, Endianness, Layout};
use crate::layout::{ALIGN, Field};
use crate::tensors::{Record, Tensors, Uncommon};
use crate::{Error, Limits, Result, Rule, dtype};

/// The fewest bytes that an entry takes: a map's head, six one-letter values with their keys.
pub(crate) const MIN_ENTRY: u64 = 46;

/// Section 4: an entry of the index as it is written, checked for types, not yet for what its
/// fields say about each other.
#[derive(Debug)]
struct EntryMap<'a> {
    name: Cow<'a, str>,
    offset: u64,
    size: u64,
    dtype: Option<DType>,
    layout: Layout,
    shape: ShapeId,
    encoding: Encoding,
    endianness: Option<Endianness>,
    checksum: Option<Checksum>,
    /// Names that are not the format's own.
    uncommon: Uncommon,
    /// Where custom fields are, key and value.
    custom: Vec<Range<usize>>,
}

impl EntryMap<'_> {
    /// One without fields, at this position.
    fn new(ordinal: usize) -> Self {
        Self {
            name: Cow::Borrowed(""),
            offset: 0,
            size: 0,
            dtype: None,
            layout: Layout::Absent,
            shape: ShapeId::NONE,
            encoding: Encoding::Raw,
            endianness: None,
            checksum: None,
            uncommon: Uncommon::new(ordinal),
            custom: Vec::new(),
        }
    }
}

/// Parses one entry after another, with memory that they share.
#[derive(Debug)]
pub(crate) struct EntryParser {
    limits: Limits,
    /// Where data must have ended.
    index_start: u64,
    /// Those so far.
    pub(crate) tensors: Tensors,
    dims: Vec<u64>,
    /// Dims of all tensors so far that don't fit their entry.
    dims_total: u64,
}

impl EntryParser {
    pub(crate) fn new(limits: Limits, index_start: u64) -> Self {
        Self {
            limits,
            index_start,
            tensors: Tensors::default(),
            dims: Vec::new(),
            dims_total: 0,
        }
    }

    /// Adds the next entry; `false` for the break that ends an `indefinite` array.
    pub(crate) fn parse(&mut self, reader: &mut Reader<'_>, indefinite: bool) -> Result<bool> {
        let (at, dims_before) = (reader.at(), self.dims_total);
        let Some(left) = Self::start(reader, indefinite)? else {
            return Ok(false);
        };
        let mut map = EntryMap::new(self.tensors.len());
        let parsed = self.parse_fields(reader, left, &mut map);
        let checked = parsed.and_then(|()| self.check_data(&map, at));
        match checked.and_then(|()| self.add(&map, reader)) {
            Ok(()) => Ok(true),
            Err(error) => {
                // It may be parsed again, with more bytes at hand.
                self.dims_total = dims_before;
                match map.name.is_empty() {
                    true => Err(error),
                    false => Err(error.of_tensor(&map.name)),
                }
            }
        }
    }

    /// The start of an entry: how many fields it has, where that is said; `None` for a break.
    #[inline]
    fn start(reader: &mut Reader<'_>, indefinite: bool) -> Result<Option<Option<u64>>> {
        reader.field = "entry";
        if reader.skip(&[cbor::MAP_START]) {
            return Ok(Some(None));
        }
        match reader.item()? {
            Header::Map(len) => Ok(Some(len)),
            Header::Break if indefinite => Ok(None),
            Header::Break => reader.fail(Rule::CborBreak),
            _ => reader.fail(Rule::EntryType),
        }
    }

    /// What the fields of one entry say about each other and the file.
    fn check_data(&self, map: &EntryMap<'_>, at: At) -> Result<()> {
        let fail = |field, rule| {
            let at = At { field, ..at };
            Err(Error::invalid(rule, at))
        };
        let (offset, size, index_start) = (map.offset, map.size, self.index_start);
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
        match self.tensors.shapes.get(map.shape).byte_len(dtype) {
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

    /// Adds an entry that was checked.
    fn add(&mut self, map: &EntryMap<'_>, reader: &Reader<'_>) -> Result<()> {
        let tensors = &mut self.tensors;
        let custom = match map.custom.as_slice() {
            [] => PieceId::EMPTY,
            [field] => tensors.pieces.push(reader.bytes(field.clone()))?,
            fields => {
                let fields = fields.iter().map(|field| reader.bytes(field.clone()));
                tensors.pieces.push(&fields.collect::<Vec<_>>().concat())?
            }
        };
        let uncommon = Uncommon {
            custom,
            ..map.uncommon
        };
        let record = Record {
            offset: map.offset,
            size: map.size,
            shape: map.shape,
            checksum: tensors.keep(map.checksum.as_ref())?,
            dtype: map.dtype,
            layout: map.layout,
            encoding: map.encoding,
            endianness: map.endianness,
        };
        tensors.push_uncommon(uncommon);
        tensors.push(&map.name, record);
        Ok(())
    }

    /// The fields of an entry, all that are `left` or up to a break.
    fn parse_fields<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        mut left: Option<u64>,
        entry: &mut EntryMap<'a>,
    ) -> Result<()> {
        let mut seen = 0u16;
        let mut custom_keys = Vec::new();
        let mut budget = Budget::new(self.limits.max_custom_item_count);
        // Nearly every entry has its fields in the reference's order: look for the next one first.
        let mut order = Field::ALL.iter();
        loop {
            if let Some(left) = &mut left {
                match left.checked_sub(1) {
                    Some(fewer) => *left = fewer,
                    None => break,
                }
            }
            let expected = order.next().copied();
            if let Some(field) = expected.filter(|field| reader.skip(field.encoded_key())) {
                self.field(reader, field, &mut seen, entry)?;
                continue;
            }
            if left.is_none() && reader.skip(&[cbor::BREAK]) {
                break;
            }
            reader.field = "key";
            let start = reader.position();
            let key = match reader.short_text() {
                Some(key) => Cow::Borrowed(key),
                None => match reader.item()? {
                    Header::Text(len) => reader.text_bytes(len)?,
                    Header::Break if left.is_none() => break,
                    Header::Break => return reader.fail(Rule::CborBreak),
                    _ => return reader.fail(Rule::EntryKey),
                },
            };
            let Some(field) = Field::from_key(&key) else {
                reader.field = "custom field";
                custom_keys.push(utf8(reader, key)?);
                budget.take(reader)?;
                reader.walk(&mut Skip, &mut budget)?;
                match entry.custom.last_mut().filter(|last| last.end == start) {
                    Some(last) => last.end = reader.position(),
                    None => entry.custom.push(start..reader.position()),
                }
                continue;
            };
            // One that is left out is followed by the one after it.
            order.by_ref().find(|&&passed| passed == field);
            self.field(reader, field, &mut seen, entry)?;
        }
        for (field, rule) in REQUIRED {
            if seen & field.bit() == 0 {
                reader.field = field.key();
                return reader.fail(rule);
            }
        }
        if custom_keys.len() > 1 && NameTable::of(&custom_keys, |key| key).is_err() {
            reader.field = "key";
            return reader.fail(Rule::EntryDuplicateKey);
        }
        Ok(())
    }

    /// The value of `field`, whose key was just read.
    #[inline]
    fn field<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        field: Field,
        seen: &mut u16,
        entry: &mut EntryMap<'a>,
    ) -> Result<()> {
        reader.field = field.key();
        if *seen & field.bit() != 0 {
            return reader.fail(Rule::EntryDuplicateKey);
        }
        *seen |= field.bit();
        match field {
            Field::Offset | Field::Size => {
                if let Some(value) = reader.short_uint() {
                    match field {
                        Field::Offset => entry.offset = value,
                        _ => entry.size = value,
                    }
                    return Ok(());
                }
            }
            Field::Shape => {
                if let Some(len) = reader.short_array() {
                    entry.shape = self.shape(reader, Some(len))?;
                    return Ok(());
                }
            }
            _ => {
                if let Some(text) = reader.short_text() {
                    return self.text(reader, field, Cow::Borrowed(text), entry);
                }
            }
        }
        self.any(reader, field, entry)
    }

    /// The value of a field in any form there is.
    fn any<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        field: Field,
        entry: &mut EntryMap<'a>,
    ) -> Result<()> {
        match (field, reader.item()?) {
            (_, Header::Break) => return reader.fail(Rule::CborBreak),
            (Field::Offset, Header::Positive(offset)) => entry.offset = offset,
            (Field::Size, Header::Positive(size)) => entry.size = size,
            (Field::Shape, Header::Array(len)) => entry.shape = self.shape(reader, len)?,
            (Field::Offset | Field::Size | Field::Shape, _) => {
                return reader.fail(field.of_other_type());
            }
            (_, Header::Text(len)) => {
                let text = reader.text_bytes(len)?;
                self.text(reader, field, text, entry)?;
            }
            // An optional field that is null is as if it were absent.
            (
                Field::Layout | Field::DataEndianness | Field::Checksum,
                Header::Simple(NULL | UNDEFINED),
            ) => {}
            _ => return reader.fail(field.of_other_type()),
        }
        Ok(())
    }

    #[inline]
    fn text<'a>(
        &mut self,
        reader: &Reader<'a>,
        field: Field,
        text: Cow<'a, [u8]>,
        entry: &mut EntryMap<'a>,
    ) -> Result<()> {
        match field {
            Field::Name => entry.name = utf8(reader, text)?,
            Field::DType => {
                entry.dtype = dtype::from_name(&text);
                if entry.dtype.is_none() {
                    entry.uncommon.dtype = self.piece(reader, text)?;
                }
            }
            Field::Layout => {
                entry.layout = Layout::from_name(&text);
                if entry.layout == Layout::Other {
                    entry.uncommon.layout = self.piece(reader, text)?;
                }
            }
            Field::Encoding => {
                entry.encoding = Encoding::from_name(&text);
                if entry.encoding == Encoding::Other {
                    entry.uncommon.encoding = self.piece(reader, text)?;
                }
            }
            Field::DataEndianness => {
                entry.endianness = Some(match &*text {
                    b"little" => Endianness::Little,
                    b"big" => Endianness::Big,
                    _ => return reader.fail(Rule::Endianness),
                });
            }
            Field::Checksum => {
                entry.checksum = match Checksum::parse(&utf8(reader, text)?) {
                    Some(checksum) => Some(checksum),
                    None => return reader.fail(Rule::ChecksumSyntax),
                };
            }
            Field::Offset | Field::Size | Field::Shape => {}
        }
        Ok(())
    }

    /// A name that the format does not have.
    fn piece(&mut self, reader: &Reader<'_>, text: Cow<'_, [u8]>) -> Result<PieceId> {
        let text = utf8(reader, text)?;
        Ok(self.tensors.pieces.push(text.as_bytes())?)
    }

    fn shape(&mut self, reader: &mut Reader<'_>, len: Option<u64>) -> Result<ShapeId> {
        self.dims.clear();
        while len != Some(self.dims.len() as u64) {
            match reader.short_uint() {
                Some(dim) => self.dims.push(dim),
                None => match reader.item()? {
                    Header::Positive(dim) => self.dims.push(dim),
                    Header::Break if len.is_none() => break,
                    Header::Break => return reader.fail(Rule::CborBreak),
                    _ => return reader.fail(Rule::ShapeDim),
                },
            }
            if self.dims.len() > 4 {
                self.dims_total = self.dims_total.saturating_add(1);
                let (value, max) = (self.dims_total, self.limits.max_dim_count);
                if value > max {
                    let (limit, at) = ("max_dim_count", reader.at());
                    return Err(Error::Limit(LimitExceeded {
                        limit,
                        value,
                        max,
                        at,
                    }));
                }
            }
        }
        match self.tensors.shapes.push(&self.dims) {
            Ok(shape) => Ok(shape),
            Err(_) => reader.fail(Rule::ShapeOverflow),
        }
    }
}

/// RFC 8949, 3.3.
const NULL: u8 = 22;
const UNDEFINED: u8 = 23;

/// Section 4, "Required Fields", and the rule that each breaks which is not there.
const REQUIRED: [(Field, Rule); 6] = [
    (Field::Name, Rule::NameMissing),
    (Field::Offset, Rule::OffsetMissing),
    (Field::Size, Rule::SizeMissing),
    (Field::DType, Rule::DTypeMissing),
    (Field::Shape, Rule::ShapeMissing),
    (Field::Encoding, Rule::EncodingMissing),
];

/// Bytes as text.
#[inline]
fn utf8<'a>(reader: &Reader<'_>, text: Cow<'a, [u8]>) -> Result<Cow<'a, str>> {
    let text = match text {
        Cow::Borrowed(bytes) => core::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    };
    match text {
        Some(text) => Ok(text),
        None => reader.fail(Rule::CborUtf8),
    }
}

/// Key and value of every pair of `pairs`, with or without the head of a map. They were parsed before, so
/// nothing can fail; if it did, the pairs would end.
pub(crate) fn each_pair(pairs: &Bytes) -> Vec<(String, Bytes)> {
    let mut fields = Vec::new();
    let mut reader = Reader::new(pairs, 0, u8::MAX);
    while reader.remaining() > 0 {
        let start = reader.position();
        let len = match reader.item() {
            Ok(Header::Text(len)) => len,
            // No key is one.
            Ok(Header::Map(_)) if start == 0 => continue,
            _ => break,
        };
        let Ok(key) = reader.text(len) else { break };
        let start = reader.position();
        if reader.walk(&mut Skip, &mut Budget::new(u64::MAX)).is_err() {
            break;
        }
        fields.push((key.into_owned(), pairs.slice(start..reader.position())));
    }
    fields
}

/// Section 4: what a writer says about a tensor.
#[derive(Debug)]
pub(crate) struct WrittenEntry<'a> {
    pub(crate) name: &'a str,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) dtype: &'a str,
    pub(crate) layout: &'a str,
    pub(crate) dims: &'a [u64],
    pub(crate) encoding: &'a str,
    pub(crate) endianness: Option<Endianness>,
    pub(crate) checksum: Option<String>,
    /// Keys and encoded values, sorted by key.
    pub(crate) custom: &'a [(String, Bytes)],
}

impl WrittenEntry<'_> {
    /// Appends the entry as the reference does: an indefinite-length map, keys in its order.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let text = |out: &mut Vec<u8>, field: Field, value: &str| {
            cbor::put_text(out, field.key());
            cbor::put_text(out, value);
        };
        out.push(cbor::MAP_START);
        text(out, Field::Name, self.name);
        cbor::put_text(out, Field::Offset.key());
        cbor::put_uint(out, self.offset);
        cbor::put_text(out, Field::Size.key());
        cbor::put_uint(out, self.size);
        text(out, Field::DType, self.dtype);
        text(out, Field::Layout, self.layout);
        cbor::put_text(out, Field::Shape.key());
        cbor::put_array(out, self.dims.len());
        for &dim in self.dims {
            cbor::put_uint(out, dim);
        }
        text(out, Field::Encoding, self.encoding);
        if let Some(endianness) = self.endianness {
            text(out, Field::DataEndianness, endianness.name());
        }
        if let Some(checksum) = &self.checksum {
            text(out, Field::Checksum, checksum);
        }
        for (key, value) in self.custom {
            cbor::put_text(out, key);
            out.extend_from_slice(value);
        }
        out.push(cbor::BREAK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_with_and_without_their_map() {
        let keys = |bytes: &'static [u8]| -> Vec<String> {
            let pairs = each_pair(&Bytes::from_static(bytes)).into_iter();
            pairs
                .map(|(key, value)| {
                    assert_eq!(value, [1u8].as_slice());
                    key
                })
                .collect()
        };
        assert_eq!(keys(b"\x61a\x01\x61b\x01"), ["a", "b"]);
        assert_eq!(keys(b"\xA2\x61a\x01\x61b\x01"), ["a", "b"]);
        assert_eq!(keys(b"\xBF\x61a\x01\xFF"), ["a"]);
        // Tags before a map, and before a key.
        assert_eq!(keys(b"\xC1\xA1\xC1\x61a\x01"), ["a"]);
        assert_eq!(keys(b"\xC1\x61a\x01"), ["a"]);
        assert!(keys(b"").is_empty() && keys(b"\xA0").is_empty());
    }
}
