//! What the manifests of generations 1 and 2 have in common: maps of maps in CBOR, objects made
//! of components, and how these become entries.

#![deny(clippy::arithmetic_side_effects)]

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::codec::{ArchiveId, NameTable};
use tensor_core::{At, Bytes, DType, LimitExceeded, Shape, Source, Truncated};

use crate::cbor::{Budget, Header, Reader, Skip};
use crate::checksum::Checksum;
use crate::encoding::{Encoding, Layout};
use crate::index::HEAP;
use crate::read::{Entry, Extra};
use crate::{Error, Generation, Limits, ReadOptions, Result, Rule, Unsupported};

/// The most that a manifest may have, by the readers of generation 1 and the text of 2.
pub(crate) const MAX_MANIFEST: u64 = 1 << 30;
/// RFC 8949, 3.3.
const NULL: u8 = 22;
const UNDEFINED: u8 = 23;

/// What a file says beside its tensors.
#[derive(Debug, Default)]
pub(crate) struct About {
    /// The encoded map, empty where there is none.
    pub(crate) attributes: Bytes,
    /// `version` as it is written.
    pub(crate) version: Box<str>,
    pub(crate) generator: Option<Box<str>>,
    pub(crate) shards: Vec<Shard>,
    /// A file that only holds data for another one.
    pub(crate) is_data_shard: bool,
}

/// Another file that has data of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub(crate) label: Box<str>,
    pub(crate) size: u64,
    pub(crate) digest: Checksum,
}

impl Shard {
    /// Its label, which is no path.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The digest of the whole file.
    pub fn digest(&self) -> &Checksum {
        &self.digest
    }
}

/// A named thing of the manifest: a tensor, or several ranges of bytes that make one.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) name: Box<str>,
    pub(crate) format: Box<str>,
    pub(crate) shape: Shape,
    /// The encoded map, empty where there is none.
    pub(crate) attributes: Bytes,
}

/// What an entry of generations 1 and 2 has beyond the fields of one of 0.1.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) object: Arc<Object>,
    /// Whether the entry is one of the object's components, not the object itself.
    pub(crate) is_component: bool,
    /// `dtype` as stored, where `type` says what it means.
    pub(crate) storage: Option<DType>,
    /// Decoded bytes, where known.
    pub(crate) decoded: Option<u64>,
    /// Why it can't be read.
    pub(crate) why: Option<Unsupported>,
    /// The components of an object that is listed as one thing.
    pub(crate) hidden: Box<[Entry]>,
    /// Whether the last half byte belongs to no element.
    pub(crate) odd_half: bool,
}

impl Part {
    /// Whether the bytes are in this file and can be decoded, even if they mean nothing to us.
    pub(crate) fn has_bytes(&self) -> bool {
        self.hidden.is_empty()
            && matches!(
                self.why,
                None | Some(
                    Unsupported::Type { .. }
                        | Unsupported::DType { .. }
                        | Unsupported::Component { .. }
                )
            )
    }
}

/// The manifest as bytes, after its length was held against the file and the limits.
pub(crate) fn bytes(
    source: &dyn Source,
    range: Range<u64>,
    options: &ReadOptions,
) -> Result<Bytes> {
    let (value, max) = (
        range.end.saturating_sub(range.start),
        options.limits.max_manifest_bytes,
    );
    if value > max {
        let (limit, at) = ("max_manifest_bytes", At::new(range.start, "manifest"));
        return Err(Error::Limit(LimitExceeded {
            limit,
            value,
            max,
            at,
        }));
    }
    Ok(source.read(range)?)
}

/// A u64 of the file's frame.
pub(crate) fn field(source: &dyn Source, offset: u64) -> Result<u64> {
    let mut field = [0; 8];
    source.read_into(offset, &mut field)?;
    Ok(u64::from_le_bytes(field))
}

pub(crate) fn truncated(field: &'static str, needed: u64, available: u64) -> Error {
    let at = At::new(0, field);
    Error::Truncated(Truncated {
        at,
        needed,
        available,
    })
}

/// A map that is being read.
pub(crate) struct Pairs {
    left: Option<u64>,
}

/// Reads the manifest in the order it is written.
pub(crate) struct Parser<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) generation: Generation,
    pub(crate) limits: Limits,
    /// The manifest, of which attributes are parts.
    manifest: &'a Bytes,
    dims: Vec<u64>,
    dims_total: u64,
    parts_total: u64,
}

/// A component as it is written.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) dtype: Option<Cow<'a, str>>,
    pub(crate) kind: Option<Cow<'a, str>>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) decoded: Option<u64>,
    pub(crate) encoding: Option<Cow<'a, str>>,
    pub(crate) digest: Option<Checksum>,
    pub(crate) shard: Option<Cow<'a, str>>,
    pub(crate) at: At,
}

/// An object as it is written.
pub(crate) struct WrittenObject<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) dtype: Option<Cow<'a, str>>,
    pub(crate) format: Cow<'a, str>,
    pub(crate) shape: Shape,
    pub(crate) attributes: Bytes,
    pub(crate) parts: Vec<Written<'a>>,
    pub(crate) at: At,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(
        manifest: &'a Bytes,
        base: u64,
        generation: Generation,
        limits: Limits,
    ) -> Self {
        let mut reader = Reader::new(manifest, base, limits.max_depth);
        reader.field = "manifest";
        Self {
            reader,
            generation,
            limits,
            manifest,
            dims: Vec::new(),
            dims_total: 0,
            parts_total: 0,
        }
    }

    pub(crate) fn fail<T>(&self, rule: Rule) -> Result<T> {
        self.reader.fail(rule)
    }

    fn is_v2(&self) -> bool {
        self.generation == Generation::V2
    }

    /// Reads on from `position`.
    pub(crate) fn at_position(&self, position: usize) -> Self {
        let bytes = self.manifest.get(position..).unwrap_or_default();
        let base = self.base().saturating_add(position as u64);
        let mut reader = Reader::new(bytes, base, self.limits.max_depth);
        reader.field = "manifest";
        Self {
            reader,
            generation: self.generation,
            limits: self.limits,
            manifest: self.manifest,
            dims: Vec::new(),
            dims_total: 0,
            parts_total: 0,
        }
    }

    /// Where the manifest starts in the file.
    fn base(&self) -> u64 {
        let read = self.reader.position() as u64;
        self.reader.at().offset.saturating_sub(read)
    }

    /// The values of the root's keys `known`, as positions; checks all of the rest on the way.
    pub(crate) fn root<const N: usize>(
        &mut self,
        known: [&'static str; N],
    ) -> Result<[Option<usize>; N]> {
        let mut found = [None; N];
        let mut pairs = match self.reader.item()? {
            Header::Map(left) => Pairs { left },
            Header::Break => return self.fail(Rule::CborBreak),
            _ => return self.fail(Rule::ManifestType),
        };
        let mut keys = Vec::new();
        while let Some(key) = self.next(&mut pairs, false)? {
            let position = self.reader.position();
            self.skip()?;
            let Some(key) = key else { continue };
            let at = known.iter().position(|&known| known == key);
            if let Some(slot) = at.and_then(|at| found.get_mut(at)) {
                *slot = Some(position);
            }
            keys.push(key);
        }
        self.unique(&keys, Rule::ManifestDuplicateKey)?;
        match self.reader.remaining() {
            0 => Ok(found),
            bytes => self.fail(Rule::ManifestTrailing {
                bytes: bytes as u64,
            }),
        }
    }

    /// Fails where a name is there twice. What is sorted was looked at before.
    pub(crate) fn unique(&self, names: &[Cow<'_, str>], rule: Rule) -> Result<()> {
        if !self.is_v2() && names.len() > 1 && NameTable::of(names, |name| name).is_err() {
            return self.fail(rule);
        }
        Ok(())
    }

    /// The value of `key` as a map.
    pub(crate) fn map(&mut self, key: &'static str) -> Result<Pairs> {
        match self.reader.item()? {
            Header::Map(left) => Ok(Pairs { left }),
            Header::Break => self.fail(Rule::CborBreak),
            _ => self.value(key),
        }
    }

    fn value<T>(&self, key: &'static str) -> Result<T> {
        self.fail(Rule::ManifestValue { key })
    }

    /// The next key of a map, `None` at its end. Keys that are no text are skipped with their
    /// values, and `None` within, where generation 2 allows them: not among `names`.
    pub(crate) fn next(
        &mut self,
        pairs: &mut Pairs,
        names: bool,
    ) -> Result<Option<Option<Cow<'a, str>>>> {
        if let Some(left) = &mut pairs.left {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => return Ok(None),
            }
        }
        if self.is_v2() && !names && !self.reader.is_text_next() {
            self.skip()?;
            return Ok(Some(None));
        }
        match self.reader.item()? {
            Header::Text(len) => Ok(Some(Some(self.reader.text(len)?))),
            Header::Break if pairs.left.is_none() => Ok(None),
            Header::Break => self.fail(Rule::CborBreak),
            _ => self.fail(Rule::ManifestKey),
        }
    }

    pub(crate) fn skip(&mut self) -> Result<()> {
        self.reader.walk(&mut Skip, &mut Budget::new(u64::MAX))
    }

    /// A text, or `None` for null where that means absent.
    pub(crate) fn text(
        &mut self,
        key: &'static str,
        optional: bool,
    ) -> Result<Option<Cow<'a, str>>> {
        match self.reader.item()? {
            Header::Text(len) => Ok(Some(self.reader.text(len)?)),
            header => self.absent(header, key, optional),
        }
    }

    pub(crate) fn uint(&mut self, key: &'static str, optional: bool) -> Result<Option<u64>> {
        match self.reader.item()? {
            Header::Positive(value) => Ok(Some(value)),
            header => self.absent(header, key, optional),
        }
    }

    fn absent<T>(&self, header: Header, key: &'static str, optional: bool) -> Result<Option<T>> {
        match header {
            Header::Simple(NULL | UNDEFINED) if optional && !self.is_v2() => Ok(None),
            Header::Break => self.fail(Rule::CborBreak),
            _ => self.value(key),
        }
    }

    /// A map of attributes: its bytes, after they were looked at.
    pub(crate) fn attributes(&mut self) -> Result<Bytes> {
        let start = self.reader.position();
        let offset = self.base_of_reader(start);
        let header = self.reader.item()?;
        let mut pairs = match header {
            Header::Map(left) => Pairs { left },
            header => return Ok(self.absent(header, "attributes", true)?.unwrap_or_default()),
        };
        let mut budget = Budget::new(self.limits.max_custom_items);
        let mut keys = Vec::new();
        while let Some(key) = self.next(&mut pairs, true)? {
            budget.take(&self.reader)?;
            self.reader.walk(&mut Skip, &mut budget)?;
            let Some(key) = key else { continue };
            self.name(&key)?;
            if !self.is_v2() {
                keys.push(key);
            }
        }
        self.unique(&keys, Rule::ManifestDuplicateKey)?;
        let len = self.reader.position().saturating_sub(start);
        let slice = self.manifest.get(offset..offset.saturating_add(len));
        Ok(Bytes::copy_from_slice(slice.unwrap_or_default()))
    }

    /// Position within the manifest of a position of the reader.
    fn base_of_reader(&self, position: usize) -> usize {
        // A reader always reads up to the manifest's end.
        let all = self
            .reader
            .position()
            .saturating_add(self.reader.remaining());
        self.manifest
            .len()
            .saturating_sub(all)
            .saturating_add(position)
    }

    /// Generation 2: what a name may be.
    pub(crate) fn name(&self, name: &str) -> Result<()> {
        if self.is_v2() && (name.is_empty() || name.len() > 1024 || name.contains('\0')) {
            return self.fail(Rule::NameValue);
        }
        Ok(())
    }

    fn shape(&mut self) -> Result<Shape> {
        let len = match self.reader.item()? {
            Header::Array(len) => len,
            Header::Break => return self.fail(Rule::CborBreak),
            _ => return self.value("shape"),
        };
        if let Some(got) = len.filter(|&rank| self.is_v2() && rank > 64) {
            return self.fail(Rule::ShapeRank { got });
        }
        self.dims.clear();
        while len != Some(self.dims.len() as u64) {
            match self.reader.item()? {
                Header::Positive(dim) => self.dims.push(dim),
                Header::Break if len.is_none() => break,
                Header::Break => return self.fail(Rule::CborBreak),
                _ => return self.fail(Rule::ShapeDim),
            }
            if self.dims.len() > 4 {
                self.dims_total = self.dims_total.saturating_add(1);
                let (value, max) = (self.dims_total, self.limits.max_dims);
                if value > max {
                    return self.limit("max_dims", value, max);
                }
            }
        }
        /// More are rare, and would keep their memory until all objects are read.
        const KEPT: usize = 1024;
        let shape = Shape::new(&self.dims);
        if self.dims.len() > KEPT {
            self.dims = Vec::new();
        }
        match shape {
            Ok(shape) => Ok(shape),
            Err(_) => self.fail(Rule::ShapeOverflow),
        }
    }

    pub(crate) fn limit<T>(&self, limit: &'static str, value: u64, max: u64) -> Result<T> {
        let at = self.reader.at();
        Err(Error::Limit(LimitExceeded {
            limit,
            value,
            max,
            at,
        }))
    }

    fn required<T>(&self, value: Option<T>, key: &'static str) -> Result<T> {
        match value {
            Some(value) => Ok(value),
            None => self.fail(Rule::ManifestMissing { key }),
        }
    }

    /// The object `name`, whose map comes next.
    pub(crate) fn object(&mut self, name: Cow<'a, str>) -> Result<WrittenObject<'a>> {
        self.name(&name)?;
        let at = self.reader.at();
        let (format_key, parts_key) = match self.is_v2() {
            true => ("layout", "parts"),
            false => ("format", "components"),
        };
        let mut pairs = self.map("object")?;
        let (mut dtype, mut format, mut shape, mut parts) = (None, None, None, None);
        let mut attributes = None;
        let mut keys = Vec::new();
        while let Some(key) = self.next(&mut pairs, false)? {
            let Some(key) = key else {
                self.skip()?;
                continue;
            };
            match &*key {
                "dtype" if self.generation == Generation::V1_0 => {
                    dtype = self.text("dtype", false)?;
                }
                "shape" => shape = Some(self.shape()?),
                "attributes" if self.generation != Generation::V1_0 => {
                    attributes = Some(self.attributes()?);
                }
                key if key == format_key => format = self.text(format_key, false)?,
                key if key == parts_key => parts = Some(self.parts(parts_key)?),
                _ => self.skip()?,
            }
            if !self.is_v2() {
                keys.push(key);
            }
        }
        self.unique(&keys, Rule::ManifestDuplicateKey)?;
        if self.generation == Generation::V1_0 && dtype.is_none() {
            return self.required(None, "dtype");
        }
        Ok(WrittenObject {
            name,
            dtype,
            shape: self.required(shape, "shape")?,
            format: self.required(format, format_key)?,
            parts: self.required(parts, parts_key)?,
            attributes: attributes.unwrap_or_default(),
            at,
        })
    }

    fn parts(&mut self, key: &'static str) -> Result<Vec<Written<'a>>> {
        let mut pairs = self.map(key)?;
        let mut parts = Vec::new();
        while let Some(name) = self.next(&mut pairs, true)? {
            let Some(name) = name else { continue };
            self.name(&name)?;
            self.parts_total = self.parts_total.saturating_add(1);
            let (value, max) = (self.parts_total, self.limits.max_tensors);
            if value > max {
                return self.limit("max_tensors", value, max);
            }
            // All are held until the object is known, so they are counted before its entries.
            let each = PART_MEMORY.saturating_add(crate::index::ENTRY_MEMORY);
            let memory = each.saturating_mul(parts.len() as u64);
            // Eight bytes each, twice, since a shape is collected before it is made.
            let shapes = self.dims_total.saturating_mul(16);
            let memory = memory
                .saturating_add(shapes)
                .saturating_add(self.manifest.len() as u64);
            let end = self.base().saturating_add(self.manifest.len() as u64);
            let at = At::new(self.base(), "manifest");
            crate::index::check_memory(memory, end, &self.limits, at)?;
            parts.push(self.part(name)?);
        }
        if !self.is_v2() && parts.len() > 1 && NameTable::of(&parts, |part| &part.name).is_err() {
            return self.fail(Rule::ComponentDuplicate);
        }
        Ok(parts)
    }

    fn part(&mut self, name: Cow<'a, str>) -> Result<Written<'a>> {
        let mut part = Written {
            name,
            dtype: None,
            kind: None,
            offset: 0,
            length: 0,
            decoded: None,
            encoding: None,
            digest: None,
            shard: None,
            at: self.reader.at(),
        };
        let is_v2 = self.is_v2();
        let has_dtype = self.generation != Generation::V1_0;
        let mut pairs = self.map("component")?;
        let mut keys = Vec::new();
        let (mut offset, mut length, mut blob) = (None, None, false);
        while let Some(key) = self.next(&mut pairs, false)? {
            let Some(key) = key else {
                self.skip()?;
                continue;
            };
            match &*key {
                "dtype" if has_dtype => part.dtype = self.text("dtype", false)?,
                "type" if has_dtype => part.kind = self.text("type", true)?,
                "offset" if !is_v2 => offset = self.uint("offset", false)?,
                "length" if !is_v2 => length = self.uint("length", false)?,
                "uncompressed_length" if has_dtype && !is_v2 => {
                    part.decoded = self.uint("uncompressed_length", true)?;
                }
                "decoded_length" if is_v2 => part.decoded = self.uint("decoded_length", false)?,
                "blob" if is_v2 => {
                    (part.offset, part.length) = self.blob()?;
                    blob = true;
                }
                "shard" if is_v2 => part.shard = self.text("shard", false)?,
                "encoding" => part.encoding = self.text("encoding", true)?,
                "digest" => {
                    let text = self.text("digest", true)?;
                    part.digest = match text.as_deref().map(|text| self.digest(text)) {
                        Some(digest) => Some(digest?),
                        None => None,
                    };
                }
                _ => self.skip()?,
            }
            if !is_v2 {
                keys.push(key);
            }
        }
        self.unique(&keys, Rule::ManifestDuplicateKey)?;
        if has_dtype && part.dtype.is_none() {
            return self.required(None, "dtype").map(|_: ()| part);
        }
        if is_v2 {
            if !blob {
                return self.required(None, "blob").map(|_: ()| part);
            }
            if part.encoding.is_some() != part.decoded.is_some() {
                return self.fail(Rule::DecodedLengthPresence);
            }
        } else {
            part.offset = self.required(offset, "offset")?;
            part.length = self.required(length, "length")?;
        }
        Ok(part)
    }

    pub(crate) fn digest(&self, text: &str) -> Result<Checksum> {
        let digest = match self.is_v2() {
            true => Checksum::parse_v2(text),
            false => Checksum::parse(text),
        };
        match digest {
            Some(digest) => Ok(digest),
            None => self.fail(Rule::ChecksumSyntax),
        }
    }

    fn blob(&mut self) -> Result<(u64, u64)> {
        let pair = match self.reader.item()? {
            Header::Array(Some(2)) => (self.reader.item()?, self.reader.item()?),
            _ => return self.fail(Rule::BlobPair),
        };
        match pair {
            (Header::Positive(offset), Header::Positive(length)) => Ok((offset, length)),
            _ => self.fail(Rule::BlobPair),
        }
    }
}

/// What a dtype and a logical type mean together.
pub(crate) struct Meaning {
    pub(crate) dtype: Option<DType>,
    /// What the entry is called, where not by `dtype`'s name.
    pub(crate) name: Option<Box<str>>,
    pub(crate) storage: Option<DType>,
    pub(crate) why: Option<Unsupported>,
    /// Bytes of an element as stored; `None` where unknown.
    pub(crate) width: Option<u64>,
    pub(crate) half: bool,
}

impl Meaning {
    pub(crate) fn plain(dtype: DType) -> Self {
        Self {
            dtype: Some(dtype),
            name: None,
            storage: None,
            why: None,
            width: dtype.size(),
            half: false,
        }
    }

    /// A dtype that the generation does not have.
    pub(crate) fn unknown(name: &str) -> Self {
        Self {
            dtype: None,
            name: Some(name.into()),
            storage: None,
            why: Some(Unsupported::DType { name: name.into() }),
            width: None,
            half: false,
        }
    }

    /// Bytes of all elements of `shape`; `Ok(None)` where the size of one is unknown.
    pub(crate) fn len_of(&self, shape: &Shape) -> Result<Option<u64>, ()> {
        let elements = shape.elements();
        if self.half {
            return Ok(Some(elements.div_ceil(2)));
        }
        match self.width {
            Some(width) => elements.checked_mul(width).map(Some).ok_or(()),
            None => Ok(None),
        }
    }
}

/// The logical types that have a dtype of their own, and what they are stored as.
const TYPES: [(&str, DType, DType); 8] = [
    ("bool", DType::U8, DType::Bool),
    ("f8_e4m3fn", DType::U8, DType::F8E4M3),
    ("f8_e5m2", DType::U8, DType::F8E5M2),
    ("f8_e4m3fnuz", DType::U8, DType::F8E4M3Fnuz),
    ("f8_e5m2fnuz", DType::U8, DType::F8E5M2Fnuz),
    ("f8_e8m0", DType::U8, DType::F8E8M0),
    ("complex64", DType::F32, DType::C64),
    ("complex128", DType::F64, DType::C128),
];

/// What the logical type `kind` over `storage` means.
pub(crate) fn meaning(storage: DType, kind: &str, generation: Generation) -> Result<Meaning, Rule> {
    let is_v2 = generation == Generation::V2;
    if !is_v2 && kind == storage.name() {
        return Ok(Meaning::plain(storage));
    }
    let mut meaning = Meaning {
        dtype: None,
        name: Some(kind.into()),
        storage: Some(storage),
        why: Some(Unsupported::Type { name: kind.into() }),
        width: None,
        half: false,
    };
    if is_v2 && kind == "f4_e2m1" {
        meaning.half = true;
        return match storage {
            DType::U8 => Ok(meaning),
            _ => Err(Rule::TypeDType),
        };
    }
    let known = TYPES.iter().find(|(name, ..)| *name == kind);
    // Generation 1 has these two nowhere.
    let Some(&(_, over, dtype)) = known.filter(|_| is_v2 || !["bool", "f8_e8m0"].contains(&kind))
    else {
        return Ok(meaning);
    };
    if over != storage {
        return match is_v2 {
            true => Err(Rule::TypeDType),
            false => Ok(meaning),
        };
    }
    meaning.dtype = Some(dtype);
    meaning.width = dtype.size();
    meaning.why = None;
    Ok(meaning)
}

/// Collects entries and, at the end, sees to their names.
pub(crate) struct Assembly {
    pub(crate) id: ArchiveId,
    pub(crate) generation: Generation,
    pub(crate) entries: Vec<Entry>,
    /// Objects that are not one entry of their own name, and which entries they have.
    groups: Vec<(Arc<Object>, Range<usize>)>,
    composed: u64,
    /// What the manifest and the entries take, and the size of the file that it is held against.
    memory: u64,
    file_len: u64,
    limits: Limits,
    base: u64,
}

/// One component, resolved.
pub(crate) struct Resolved<'a> {
    pub(crate) meaning: Meaning,
    pub(crate) shape: Shape,
    pub(crate) encoding: Encoding,
    pub(crate) encoding_name: Option<&'a str>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) decoded: Option<u64>,
    pub(crate) digest: Option<Checksum>,
}

/// What a name takes while names that could collide are looked for.
const LOOKUP: u64 = size_of::<(&str, usize)>() as u64 + tensor_core::codec::NameTable::MEMORY;

/// What a component takes besides its entry, as it was written and as it was understood.
const PART_MEMORY: u64 = (size_of::<Part>() + size_of::<Written<'_>>()) as u64 + HEAP;

const EXTRA_MEMORY: u64 = size_of::<Extra>() as u64 + HEAP;
const UNKNOWN_MEMORY: u64 = size_of::<crate::layout::Unknown>() as u64 + HEAP;
/// What an object takes besides its texts and dims, its place in the list of groups counted in.
const OBJECT_MEMORY: u64 =
    (size_of::<Object>() + size_of::<(Arc<Object>, Range<usize>)>()) as u64 + 4 * HEAP + LOOKUP;

/// Memory that an entry takes until all are known, what it refers to counted in.
fn memory_of(entry: &Entry) -> u64 {
    let extra = entry.extra.as_ref().map_or(0, |extra| {
        let unknown = extra.unknown.as_ref().map_or(0, |_| UNKNOWN_MEMORY);
        let part = extra.part.as_ref().map_or(0, |_| PART_MEMORY);
        EXTRA_MEMORY.saturating_add(part).saturating_add(unknown)
    });
    crate::index::ENTRY_MEMORY
        .saturating_add(entry.name.len() as u64)
        .saturating_add(LOOKUP)
        .saturating_add(extra)
        .saturating_add(entry.shape.heap_bytes())
}

/// Memory that an object takes which its entries refer to.
fn memory_of_object(object: &Object) -> u64 {
    let texts = [
        object.name.len(),
        object.format.len(),
        object.attributes.len(),
    ];
    let texts = texts.into_iter().fold(0, usize::saturating_add);
    OBJECT_MEMORY
        .saturating_add(texts as u64)
        .saturating_add(object.shape.heap_bytes())
}

impl Assembly {
    /// An assembly of what a manifest at `range` of a file lists.
    pub(crate) fn new(
        generation: Generation,
        limits: Limits,
        range: &Range<u64>,
        file_len: u64,
    ) -> Self {
        Self {
            id: ArchiveId::next(),
            generation,
            entries: Vec::new(),
            groups: Vec::new(),
            composed: 0,
            memory: range.end.saturating_sub(range.start),
            file_len,
            limits,
            base: range.start,
        }
    }

    /// Starts a group of entries that one object has.
    pub(crate) fn group(&self) -> usize {
        self.entries.len()
    }

    /// Ends a group that is not one entry of the object's name.
    pub(crate) fn close(&mut self, object: &Arc<Object>, start: usize) -> Result<()> {
        self.count(memory_of_object(object))?;
        let range = start..self.entries.len();
        self.groups.push((object.clone(), range));
        Ok(())
    }

    /// Counts memory that is about to be taken.
    fn count(&mut self, memory: u64) -> Result<()> {
        self.memory = self.memory.saturating_add(memory);
        let at = At::new(self.base, "manifest");
        crate::index::check_memory(self.memory, self.file_len, &self.limits, at)
    }

    /// Adds the entry of a component; under the object's own name where `component` is `None`.
    pub(crate) fn push(
        &mut self,
        object: &Arc<Object>,
        component: Option<&str>,
        resolved: Resolved<'_>,
    ) -> Result<()> {
        let entry = self.entry(object, component, resolved)?;
        self.add(entry)
    }

    fn add(&mut self, entry: Entry) -> Result<()> {
        let (value, max) = (
            (self.entries.len() as u64).saturating_add(1),
            self.limits.max_tensors,
        );
        if value > max {
            let (limit, at) = ("max_tensors", At::new(self.base, "manifest"));
            return Err(Error::Limit(LimitExceeded {
                limit,
                value,
                max,
                at,
            }));
        }
        let refers_to = entry.part().filter(|part| !part.is_component);
        let object = refers_to.map_or(0, |part| memory_of_object(&part.object));
        self.count(memory_of(&entry).saturating_add(object))?;
        self.entries.push(entry);
        Ok(())
    }

    fn entry(
        &mut self,
        object: &Arc<Object>,
        component: Option<&str>,
        resolved: Resolved<'_>,
    ) -> Result<Entry> {
        let Resolved {
            meaning,
            shape,
            encoding,
            encoding_name,
            offset,
            length,
            decoded,
            digest,
        } = resolved;
        let name: Box<str> = match component {
            None => object.name.clone(),
            Some(component) => {
                let name = format!("{}/{component}", object.name);
                self.composed = self.composed.saturating_add(name.len() as u64);
                let (value, max) = (self.composed, self.limits.max_composed_bytes);
                if value > max {
                    let (limit, at) = ("max_composed_bytes", At::new(self.base, "manifest"));
                    return Err(Error::Limit(LimitExceeded {
                        limit,
                        value,
                        max,
                        at,
                    }));
                }
                name.into()
            }
        };
        let is_dense = object.format.as_ref() == "dense";
        let odd_half = meaning.half && is_dense && shape.elements() & 1 == 1;
        let why = match meaning.why {
            None if encoding == Encoding::Other => Some(Unsupported::Encoding {
                name: encoding_name.unwrap_or_default().into(),
            }),
            // What can't be decoded is told first: nothing can be said about its bytes.
            Some(Unsupported::Type { .. } | Unsupported::DType { .. })
                if encoding == Encoding::Other =>
            {
                Some(Unsupported::Encoding {
                    name: encoding_name.unwrap_or_default().into(),
                })
            }
            why => why,
        };
        let (crc32c, checksum) = match digest {
            Some(Checksum::Crc32c(crc)) => (Some(crc), None),
            digest => (None, digest),
        };
        let needs_part = component.is_some()
            || why.is_some()
            || meaning.storage.is_some()
            || !object.attributes.is_empty();
        let part = needs_part.then(|| {
            Box::new(Part {
                object: object.clone(),
                is_component: component.is_some(),
                storage: meaning.storage,
                decoded,
                why,
                hidden: Box::default(),
                odd_half,
            })
        });
        let unknown = (meaning.name.is_some() || encoding == Encoding::Other).then(|| {
            Box::new(crate::layout::Unknown {
                dtype: meaning.name.unwrap_or_default(),
                layout: Box::default(),
                encoding: match encoding {
                    Encoding::Other => encoding_name.unwrap_or_default().into(),
                    _ => Box::default(),
                },
            })
        });
        let extra = (part.is_some() || unknown.is_some() || checksum.is_some()).then(|| {
            Box::new(Extra {
                map: Bytes::new(),
                unknown,
                checksum,
                part,
            })
        });
        Ok(Entry {
            archive: self.id,
            ordinal: self.entries.len(),
            generation: self.generation,
            name,
            dtype: meaning.dtype,
            layout: match component.is_none() && is_dense {
                true => Layout::Dense,
                false => Layout::Other,
            },
            shape,
            encoding,
            endianness: None,
            offset,
            size: length,
            crc32c,
            extra,
        })
    }

    /// An entry that stands for all components of an object.
    fn whole(&self, object: &Arc<Object>, why: Unsupported, hidden: Vec<Entry>) -> Entry {
        Entry {
            archive: self.id,
            ordinal: 0,
            generation: self.generation,
            name: object.name.clone(),
            dtype: None,
            layout: Layout::Other,
            shape: object.shape.clone(),
            encoding: Encoding::Raw,
            endianness: None,
            offset: hidden.first().map_or(0, |entry| entry.offset),
            size: 0,
            crc32c: None,
            extra: Some(Box::new(Extra {
                map: Bytes::new(),
                unknown: None,
                checksum: None,
                part: Some(Box::new(Part {
                    object: object.clone(),
                    is_component: false,
                    storage: None,
                    decoded: None,
                    why: Some(why),
                    hidden: hidden.into_boxed_slice(),
                    odd_half: false,
                })),
            })),
        }
    }

    /// Puts one entry in place of those since `start`.
    pub(crate) fn replace(
        &mut self,
        object: &Arc<Object>,
        start: usize,
        why: Unsupported,
    ) -> Result<()> {
        let hidden = self.entries.split_off(start.min(self.entries.len()));
        let entry = self.whole(object, why, hidden);
        self.add(entry)
    }

    /// All entries with a table of their names. Objects whose components would have a name that
    /// is there already are listed as one.
    pub(crate) fn finish(mut self) -> Result<(Vec<Entry>, NameTable)> {
        let collided = self.collisions()?;
        if collided.iter().any(|&collided| collided) {
            let mut old = core::mem::take(&mut self.entries).into_iter();
            let mut taken = 0usize;
            let groups = core::mem::take(&mut self.groups);
            let mut entries = Vec::new();
            for ((object, range), collided) in groups.iter().zip(&collided) {
                entries.extend(old.by_ref().take(range.start.saturating_sub(taken)));
                let own = range.end.saturating_sub(range.start);
                if *collided {
                    let hidden = old.by_ref().take(own).collect();
                    entries.push(self.whole(object, Unsupported::NameCollision, hidden));
                } else {
                    entries.extend(old.by_ref().take(own));
                }
                taken = range.end;
            }
            entries.extend(old);
            self.entries = entries;
        }
        for (ordinal, entry) in self.entries.iter_mut().enumerate() {
            entry.ordinal = ordinal;
        }
        match NameTable::of(&self.entries, Entry::name) {
            Ok(names) => Ok((self.entries, names)),
            Err(twice) => Err(self.duplicate(twice.second)),
        }
    }

    fn duplicate(&self, position: usize) -> Error {
        let at = At::new(self.base, "name").entry(position as u64);
        let rule = Rule::ObjectDuplicate;
        Error::Invalid { rule, at }
    }

    /// Which groups have a composed name that is somebody else's too.
    fn collisions(&self) -> Result<Vec<bool>> {
        let mut collided = alloc::vec![false; self.groups.len()];
        if self.groups.is_empty() {
            return Ok(collided);
        }
        let own = usize::MAX;
        let mut names: Vec<(&str, usize)> = Vec::new();
        let mut groups = self.groups.iter().enumerate().peekable();
        let mut position = 0usize;
        loop {
            // What comes first, a group of no entries among them.
            let starts = groups
                .peek()
                .is_some_and(|(_, (_, range))| range.start == position);
            if starts {
                let Some((group, (object, range))) = groups.next() else {
                    break;
                };
                names.push((&object.name, own));
                for entry in self.entries.get(range.clone()).unwrap_or_default() {
                    if entry.is_component() {
                        names.push((entry.name(), group));
                    }
                }
                position = range.end;
            } else {
                let Some(entry) = self.entries.get(position) else {
                    break;
                };
                names.push((entry.name(), own));
                position = position.saturating_add(1);
            }
        }
        let mut table = NameTable::with_capacity(names.len());
        for position in 0..names.len() {
            let Err(twice) = table.insert(&names, |(name, _)| name, position) else {
                continue;
            };
            let group = |at: usize| names.get(at).map_or(own, |&(_, group)| group);
            let (first, second) = (group(twice.first), group(twice.second));
            if first == own && second == own {
                return Err(self.duplicate(position));
            }
            for group in [first, second] {
                if let Some(collided) = collided.get_mut(group) {
                    *collided = true;
                }
            }
        }
        Ok(collided)
    }
}
