#![deny(clippy::arithmetic_side_effects)]

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use tensor_core::codec::NameTable;
use tensor_core::{At, Bytes, DType, LimitExceeded, Shape, Source, Truncated};

use crate::cbor::{self, Budget, Header, Reader, Skip};
use crate::checksum::Checksum;
use crate::encoding::{Encoding, Endianness, Layout};
use crate::{Error, Limits, Result, Rule, Unsupported, dtype};

/// Section 3.1: the first eight bytes.
pub const MAGIC: [u8; 8] = *b"ZTEN0001";
/// The first eight bytes of versions 1.0 to 1.2, and the last eight from 1.1 on.
pub(crate) const MAGIC_1: [u8; 8] = *b"ZTEN1000";
/// The first and last eight bytes of version 2.
pub(crate) const MAGIC_2: [u8; 8] = *b"\x89ZT2\r\n\x1a\n";
/// Section 3.2: where tensor data may start.
pub(crate) const ALIGN: u64 = 64;
/// Section 3.3.2: how many bytes the size of the index takes.
pub(crate) const FOOTER: u64 = 8;
/// Section 7: the smallest file, magic, empty array and its size.
pub(crate) const MIN_FILE: u64 = 17;
/// The fewest bytes that an entry takes: a map's head, six one-letter values with their keys.
pub(crate) const MIN_ENTRY: u64 = 46;

/// Section 4: a field of an entry that the format gives a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// `name`, text.
    Name,
    /// `offset`, where the data starts.
    Offset,
    /// `size`, bytes that it takes in the file.
    Size,
    /// `dtype`, the element type.
    DType,
    /// `layout`, which the specification does not have, but every released writer has.
    Layout,
    /// `shape`, the dims.
    Shape,
    /// `encoding`, how elements become data.
    Encoding,
    /// `data_endianness`, byte order of raw elements.
    DataEndianness,
    /// `checksum`, of the data in the file.
    Checksum,
}

impl Field {
    /// Every field, in the order of the reference writer.
    pub const ALL: [Self; 9] = [
        Self::Name,
        Self::Offset,
        Self::Size,
        Self::DType,
        Self::Layout,
        Self::Shape,
        Self::Encoding,
        Self::DataEndianness,
        Self::Checksum,
    ];

    /// The field's key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Offset => "offset",
            Self::Size => "size",
            Self::DType => "dtype",
            Self::Layout => "layout",
            Self::Shape => "shape",
            Self::Encoding => "encoding",
            Self::DataEndianness => "data_endianness",
            Self::Checksum => "checksum",
        }
    }

    /// The key as nearly every writer encodes it.
    const fn encoded_key(self) -> &'static [u8] {
        match self {
            Self::Name => b"\x64name",
            Self::Offset => b"\x66offset",
            Self::Size => b"\x64size",
            Self::DType => b"\x65dtype",
            Self::Layout => b"\x66layout",
            Self::Shape => b"\x65shape",
            Self::Encoding => b"\x68encoding",
            Self::DataEndianness => b"\x6Fdata_endianness",
            Self::Checksum => b"\x68checksum",
        }
    }

    /// The field that has this key.
    pub(crate) fn from_key(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"name" => Self::Name,
            b"offset" => Self::Offset,
            b"size" => Self::Size,
            b"dtype" => Self::DType,
            b"layout" => Self::Layout,
            b"shape" => Self::Shape,
            b"encoding" => Self::Encoding,
            b"data_endianness" => Self::DataEndianness,
            b"checksum" => Self::Checksum,
            _ => return None,
        })
    }

    pub(crate) const fn expects(self) -> &'static str {
        match self {
            Self::Offset | Self::Size => "an unsigned integer",
            Self::Shape => "an array",
            _ => "text",
        }
    }

    /// The field's bit in a set of them.
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// A generation of the format. A file tells no release, only this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Generation {
    /// Magic `ZTEN0001`, an array of tensors at the end: releases 0.1.0 to 0.1.4.
    V0_1,
    /// Magic `ZTEN1000`, objects of components.
    V1_0,
    /// The same with a magic at the end and a dtype for each component.
    V1_1,
    /// The same with any attributes, lengths of compressed components, and logical types.
    V1_2,
    /// Magic `89 5A 54 32 0D 0A 1A 0A`, deterministic CBOR under a hash.
    V2,
}

impl Generation {
    /// As people name it: `0.1`, `1.0`, `1.1`, `1.2` or `2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
            Self::V2 => "2",
        }
    }

    /// Whether a hash covers the index.
    pub(crate) const fn has_index_hash(self) -> bool {
        matches!(self, Self::V2)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the first eight bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magic {
    V0,
    #[cfg(feature = "generations")]
    V1,
    #[cfg(feature = "generations")]
    V2,
}

/// Checks the magic, and names other generations. Leaves the rest of the file alone.
pub(crate) fn check_magic(source: &dyn Source) -> Result<Magic> {
    let size = source.size();
    let at = At::new(0, "magic");
    let truncated = |needed| {
        Err(Error::Truncated(Truncated {
            at,
            needed,
            available: size,
        }))
    };
    if size < MAGIC.len() as u64 {
        return truncated(MIN_FILE);
    }
    let mut magic = [0; 8];
    source.read_into(0, &mut magic)?;
    let about = match &magic {
        got if *got == MAGIC && size < MIN_FILE => return truncated(MIN_FILE),
        got if *got == MAGIC => return Ok(Magic::V0),
        #[cfg(feature = "generations")]
        got if *got == MAGIC_1 => return Ok(Magic::V1),
        #[cfg(feature = "generations")]
        got if *got == MAGIC_2 => return Ok(Magic::V2),
        #[cfg(not(feature = "generations"))]
        got if *got == MAGIC_1 => generation_1(source)?,
        #[cfg(not(feature = "generations"))]
        got if *got == MAGIC_2 => generation_2(source)?,
        [b'Z', b'T', b'E', b'N', rest @ ..] => {
            let version: String = rest.escape_ascii().map(char::from).collect();
            format!("this is a zTensor file of unknown version (magic \"ZTEN{version}\")")
        }
        _ => {
            let rule = Rule::Magic { got: magic };
            return Err(Error::Invalid { rule, at });
        }
    };
    let what = Unsupported::Version {
        about: about.into(),
    };
    Err(Error::Unsupported { what, at })
}

/// 1.0 ends in the size of its manifest, 1.1 and 1.2 repeat the magic behind that. All three say
/// in the manifest, a CBOR map, which version wrote it.
#[cfg(not(feature = "generations"))]
fn generation_1(source: &dyn Source) -> Result<String> {
    /// How much of a manifest is looked at for its version.
    const HEAD: u64 = 4096;
    let size = source.size();
    let footer = |back: u64| -> Result<[u8; 8]> {
        let mut field = [0; 8];
        if let Some(offset) = size.checked_sub(back).filter(|&offset| offset >= 8) {
            source.read_into(offset, &mut field)?;
        }
        Ok(field)
    };
    let repeated = footer(8)? == MAGIC_1;
    let (manifest_end, manifest_size) = match repeated {
        true => (size.saturating_sub(16), footer(16)?),
        false => (size.saturating_sub(8), footer(8)?),
    };
    let manifest_start = manifest_end.checked_sub(u64::from_le_bytes(manifest_size));
    let version = match manifest_start.filter(|&start| start >= 8) {
        Some(start) => {
            let head = source.read(start..manifest_end.min(start.saturating_add(HEAD)))?;
            version_in(&head)
        }
        None => None,
    };
    Ok(match (repeated, version) {
        (true, Some(version)) => {
            format!(
                "this is a zTensor 1.1 or 1.2 file (magic ZTEN1000, manifest version {version})"
            )
        }
        (true, None) => "this is a zTensor 1.1 or 1.2 file (magic ZTEN1000 at both ends)".into(),
        (false, Some(version)) => format!(
            "this is a zTensor 1.0 file (magic ZTEN1000, no footer magic, manifest version \
             {version})"
        ),
        (false, None) => "this is a zTensor 1.0 file (magic ZTEN1000, no footer magic)".into(),
    })
}

/// The text under the key `version` at the top of a manifest, as far as it is there.
#[cfg(not(feature = "generations"))]
fn version_in(manifest: &[u8]) -> Option<String> {
    let mut reader = Reader::new(manifest, 0, 128);
    let Header::Map(_) = reader.item().ok()? else {
        return None;
    };
    loop {
        let Header::Text(len) = reader.item().ok()? else {
            return None;
        };
        if reader.text(len).ok()? == "version" {
            let Header::Text(len) = reader.item().ok()? else {
                return None;
            };
            return Some(reader.text(len).ok()?.escape_default().collect());
        }
        reader.walk(&mut Skip, &mut Budget::new(u64::MAX)).ok()?;
    }
}

/// 2.x ends in 40 bytes whose last eight repeat the magic; the version is at 16 from the end.
#[cfg(not(feature = "generations"))]
fn generation_2(source: &dyn Source) -> Result<String> {
    let size = source.size();
    let mut footer = [0; 16];
    if let Some(offset) = size.checked_sub(16).filter(|&offset| offset >= 8) {
        source.read_into(offset, &mut footer)?;
    }
    Ok(match footer {
        [a, b, c, d, _, _, _, _, magic @ ..] if magic == MAGIC_2 => {
            let version = u32::from_le_bytes([a, b, c, d]);
            format!("this is a zTensor 2.x file (footer version {version})")
        }
        _ => "this is a zTensor 2.x file (magic 89 5A 54 32, no footer)".into(),
    })
}

/// Section 4: an entry of the index as it is written, checked for types, not yet for what its
/// fields say about each other.
#[derive(Debug)]
pub(crate) struct EntryMap<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) dtype: Option<DType>,
    pub(crate) layout: Layout,
    pub(crate) shape: Shape,
    pub(crate) encoding: Encoding,
    pub(crate) endianness: Option<Endianness>,
    pub(crate) checksum: Option<Checksum>,
    /// What is not one of the format's own names.
    pub(crate) unknown: Option<Box<Unknown>>,
    pub(crate) has_custom: bool,
    /// Where it is within the bytes that were parsed.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Names that version 0.1 does not have, as they are in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unknown {
    pub(crate) dtype: Box<str>,
    pub(crate) layout: Box<str>,
    pub(crate) encoding: Box<str>,
}

/// Parses one entry after another, with memory that they share.
#[derive(Debug)]
pub(crate) struct EntryParser {
    limits: Limits,
    dims: Vec<u64>,
    /// Dims of all tensors so far that don't fit their entry.
    dims_total: u64,
}

impl EntryParser {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            dims: Vec::new(),
            dims_total: 0,
        }
    }

    /// The next entry; `None` for the break that ends an `indefinite` array.
    pub(crate) fn parse<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        indefinite: bool,
    ) -> Result<Option<EntryMap<'a>>> {
        let dims_before = self.dims_total;
        let parsed = self.parse_map(reader, indefinite);
        if parsed.is_err() {
            // It may be parsed again, with more bytes at hand.
            self.dims_total = dims_before;
        }
        parsed
    }

    fn parse_map<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        indefinite: bool,
    ) -> Result<Option<EntryMap<'a>>> {
        let start = reader.position();
        reader.field = "entry";
        let mut left = if reader.skip(&[cbor::MAP_START]) {
            None
        } else {
            match reader.item()? {
                Header::Map(len) => len,
                Header::Break if indefinite => return Ok(None),
                Header::Break => return reader.fail(Rule::CborBreak),
                _ => return reader.fail(Rule::EntryType),
            }
        };
        let mut entry = EntryMap {
            name: Cow::Borrowed(""),
            offset: 0,
            size: 0,
            dtype: None,
            layout: Layout::Absent,
            shape: Shape::SCALAR,
            encoding: Encoding::Raw,
            endianness: None,
            checksum: None,
            unknown: None,
            has_custom: false,
            start,
            end: start,
        };
        let mut seen = 0u16;
        let mut custom_keys = Vec::new();
        let mut budget = Budget::new(self.limits.max_custom_items);
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
                self.field(reader, field, &mut seen, &mut entry)?;
                continue;
            }
            if left.is_none() && reader.skip(&[cbor::BREAK]) {
                break;
            }
            reader.field = "key";
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
                continue;
            };
            // One that is left out is followed by the one after it.
            order.by_ref().find(|&&passed| passed == field);
            self.field(reader, field, &mut seen, &mut entry)?;
        }
        if seen & REQUIRED != REQUIRED {
            let missing = Field::ALL
                .into_iter()
                .find(|field| REQUIRED & !seen & field.bit() != 0);
            let field = missing.unwrap_or(Field::Name);
            reader.field = field.key();
            return reader.fail(Rule::Missing { field });
        }
        entry.has_custom = !custom_keys.is_empty();
        if custom_keys.len() > 1 && NameTable::of(&custom_keys, |key| key).is_err() {
            reader.field = "key";
            return reader.fail(Rule::EntryDuplicateKey);
        }
        entry.end = reader.position();
        Ok(Some(entry))
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

    /// The same in any form there is.
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
                return reader.fail(Rule::Type { field });
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
            _ => return reader.fail(Rule::Type { field }),
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
                    let name = utf8(reader, text)?.into();
                    entry.unknown.get_or_insert_default().dtype = name;
                }
            }
            Field::Layout => {
                entry.layout = Layout::from_name(&text);
                if entry.layout == Layout::Other {
                    let name = utf8(reader, text)?.into();
                    entry.unknown.get_or_insert_default().layout = name;
                }
            }
            Field::Encoding => {
                entry.encoding = Encoding::from_name(&text);
                if entry.encoding == Encoding::Other {
                    let name = utf8(reader, text)?.into();
                    entry.unknown.get_or_insert_default().encoding = name;
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

    fn shape(&mut self, reader: &mut Reader<'_>, len: Option<u64>) -> Result<Shape> {
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
                let (value, max) = (self.dims_total, self.limits.max_dims);
                if value > max {
                    let (limit, at) = ("max_dims", reader.at());
                    return Err(Error::Limit(LimitExceeded {
                        limit,
                        value,
                        max,
                        at,
                    }));
                }
            }
        }
        match Shape::new(&self.dims) {
            Ok(shape) => Ok(shape),
            Err(_) => reader.fail(Rule::ShapeOverflow),
        }
    }
}

/// RFC 8949, 3.3.
const NULL: u8 = 22;
const UNDEFINED: u8 = 23;

/// Section 4, "Required Fields".
const REQUIRED: u16 = Field::Name.bit()
    | Field::Offset.bit()
    | Field::Size.bit()
    | Field::DType.bit()
    | Field::Shape.bit()
    | Field::Encoding.bit();

/// The same bytes as text.
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

/// Key and value of every field of the entry `map` that the format gives no meaning, in file
/// order. The entry is one that was parsed, so nothing can fail; if it did, the fields would end.
pub(crate) fn custom_fields(map: &Bytes) -> Vec<(String, Bytes)> {
    let mut fields = Vec::new();
    let mut reader = Reader::new(map, 0, u8::MAX);
    let _ = each_custom(&mut reader, &mut |key, range| {
        fields.push((key.into_owned(), map.slice(range)));
    });
    fields
}

/// Key and value of every pair of the encoded map `map`, which was parsed before.
#[cfg(feature = "generations")]
pub(crate) fn pairs(map: &Bytes) -> Vec<(String, Bytes)> {
    let mut fields = Vec::new();
    let mut reader = Reader::new(map, 0, u8::MAX);
    let _ = each_pair(&mut reader, &mut |key, range| {
        fields.push((key.into_owned(), map.slice(range)));
    });
    fields
}

fn each_custom<'a>(
    reader: &mut Reader<'a>,
    found: &mut dyn FnMut(Cow<'a, str>, core::ops::Range<usize>),
) -> Result<()> {
    each_pair(reader, &mut |key, range| {
        if Field::from_key(key.as_bytes()).is_none() {
            found(key, range);
        }
    })
}

fn each_pair<'a>(
    reader: &mut Reader<'a>,
    found: &mut dyn FnMut(Cow<'a, str>, core::ops::Range<usize>),
) -> Result<()> {
    let mut left = match reader.item()? {
        Header::Map(len) => len,
        _ => return Ok(()),
    };
    loop {
        if let Some(left) = &mut left {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => return Ok(()),
            }
        }
        let Header::Text(len) = reader.item()? else {
            return Ok(());
        };
        let key = reader.text(len)?;
        let start = reader.position();
        reader.walk(&mut Skip, &mut Budget::new(u64::MAX))?;
        found(key, start..reader.position());
    }
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
