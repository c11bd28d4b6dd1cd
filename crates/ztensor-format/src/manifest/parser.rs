//! Reads a manifest in the order it is written.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use tensor_core::codec::{NameTable, append};
use tensor_core::{At, LimitExceeded, Shape};

use super::Owner;
use crate::cbor::{Budget, Header, Reader, Skip};
use crate::checksum::Checksum;
use crate::index::check_memory;
use crate::tensors::{Part, RECORD_MEMORY};
use crate::{Error, Generation, Limits, Result, Rule};

/// RFC 8949, 3.3.
const NULL: u8 = 22;
const UNDEFINED: u8 = 23;

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
    manifest: &'a [u8],
    /// Where it starts in the file.
    base: u64,
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
pub(crate) struct Object<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) dtype: Option<Cow<'a, str>>,
    pub(crate) format: Cow<'a, str>,
    pub(crate) shape: Shape,
    /// The encoded map, empty where there is none.
    pub(crate) attributes: &'a [u8],
    pub(crate) parts: Vec<Written<'a>>,
    pub(crate) at: At,
}

impl Object<'_> {
    /// What its components share.
    pub(crate) fn owner(&self) -> Owner<'_> {
        Owner {
            name: &self.name,
            format: &self.format,
            shape: &self.shape,
            attributes: self.attributes,
        }
    }
}

/// What a component takes until its object is known, as it was written and as it was understood.
const WRITTEN_MEMORY: u64 = (size_of::<Part>() + size_of::<Written<'_>>()) as u64;

impl<'a> Parser<'a> {
    pub(crate) fn new(
        manifest: &'a [u8],
        base: u64,
        generation: Generation,
        limits: Limits,
    ) -> Self {
        let mut reader = Reader::new(manifest, base, limits.value_depth());
        reader.field = "manifest";
        Self {
            reader,
            generation,
            limits,
            manifest,
            base,
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
        let start = self.base.saturating_add(position as u64);
        let mut reader = Reader::new(bytes, start, self.limits.value_depth());
        reader.field = "manifest";
        Self {
            reader,
            generation: self.generation,
            limits: self.limits,
            manifest: self.manifest,
            base: self.base,
            dims: Vec::new(),
            dims_total: 0,
            parts_total: 0,
        }
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

    /// Fails where a name is a duplicate. What is sorted was looked at before.
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
    pub(crate) fn attributes(&mut self) -> Result<&'a [u8]> {
        let start = self.reader.position();
        let header = self.reader.item()?;
        let mut pairs = match header {
            Header::Map(left) => Pairs { left },
            header => return Ok(self.absent(header, "attributes", true)?.unwrap_or_default()),
        };
        let mut budget = Budget::new(self.limits.max_custom_item_count);
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
        Ok(self.reader.bytes(start..self.reader.position()))
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
                let (value, max) = (self.dims_total, self.limits.max_dim_count);
                if value > max {
                    return self.limit("max_dim_count", value, max);
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
    pub(crate) fn object(&mut self, name: Cow<'a, str>) -> Result<Object<'a>> {
        self.name(&name)?;
        let object = self.object_map(name.clone());
        object.map_err(|error| error.of_tensor(&name))
    }

    fn object_map(&mut self, name: Cow<'a, str>) -> Result<Object<'a>> {
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
        Ok(Object {
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
            let (value, max) = (self.parts_total, self.limits.max_tensor_count);
            if value > max {
                return self.limit("max_tensor_count", value, max);
            }
            // All are held until the object is known, so they are counted before its entries.
            let each = WRITTEN_MEMORY.saturating_add(RECORD_MEMORY);
            let memory = each.saturating_mul(parts.len() as u64);
            // Eight bytes each, twice, since a shape is collected before it is made.
            let shapes = self.dims_total.saturating_mul(16);
            let len = self.manifest.len() as u64;
            let memory = memory.saturating_add(shapes).saturating_add(len);
            let end = self.base.saturating_add(len);
            let at = At::new(self.base, "manifest");
            check_memory(memory, end, &self.limits, at)?;
            append(&mut parts, self.part(name)?);
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
