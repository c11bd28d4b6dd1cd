//! Reads the metadata, and counts what is kept of it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use ciborium_ll::Header as Head;
use tensor_core::codec::{NameTable, ShapeId};
use tensor_core::{At, LimitExceeded};

use super::tensors::{RECORD, Record, Tensors, short};
use crate::cbor::{Cbor, Fault, Integer, Parsed, What, fault, is_null};
use crate::dtype::BoolStore;
use crate::layout::{ALIGN, Header};
use crate::meta::{MetaEntry, Scalar, ScalarEntry};
use crate::{DTypeCode, Error, Limits, Result, Rule};

/// The fewest bytes of a tensor in the metadata: an empty name, then a map of `dtype`, `shape` and
/// `data_offsets` with the shortest values.
const MIN_TENSOR: usize = 1 + 1 + (6 + 3) + (6 + 1) + (13 + 3);

/// Offset in the file of a position in the metadata.
fn offset_of(position: usize) -> u64 {
    Header::SIZE.saturating_add(position as u64)
}

/// What in the metadata tells generations apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GenerationSigns {
    pub(super) bool_text: bool,
    pub(super) bool_map: bool,
    pub(super) old_scheme: bool,
    pub(super) new_scheme: bool,
    pub(super) scalars: bool,
}

/// What the offsets of all tensors say together, relative to the data section.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataSpan {
    pub(super) data_len: u64,
    pub(super) aligned: bool,
    pub(super) sorted: bool,
    last: u64,
}

impl DataSpan {
    const NONE: Self = Self {
        data_len: 0,
        aligned: true,
        sorted: true,
        last: 0,
    };

    fn add(&mut self, start: u64, end: u64) {
        self.data_len = self.data_len.max(end);
        self.aligned &= start % ALIGN == 0;
        // Empty tensors before others of the same start.
        self.sorted &= start >= self.last;
        self.last = end.max(self.last);
    }
}

/// What the metadata says, before it is compared with the file.
pub(super) struct Contents {
    pub(super) tensors: Tensors,
    pub(super) metadata: Vec<MetaEntry>,
    pub(super) scalars: Vec<ScalarEntry>,
    pub(super) signs: GenerationSigns,
    pub(super) span: DataSpan,
    pub(super) metadata_names: NameTable,
    pub(super) scalar_names: NameTable,
}

/// What the list of tensors takes, against the size of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// Bytes of the file, and of its metadata where they are in memory as well.
    file: u64,
    copy: u64,
    tensors: u64,
    names: u64,
    dims: u64,
}

impl Memory {
    pub(super) fn new(file: u64, copy: u64) -> Self {
        let (tensors, names, dims) = (0, 0, 0);
        Self {
            file,
            copy,
            tensors,
            names,
            dims,
        }
    }

    /// Bytes beyond those of the file.
    fn overhead(self) -> u64 {
        let each = |bytes: u64| self.tensors.saturating_mul(bytes);
        let kept = each(RECORD as u64)
            .saturating_add(self.names)
            .saturating_add(self.dims.saturating_mul(size_of::<u64>() as u64));
        // The metadata is let go of before names are sorted and put into a table.
        let sorted = each(NameTable::MEMORY.saturating_add(size_of::<usize>() as u64));
        let then = sorted.saturating_add(self.names).max(self.copy);
        kept.saturating_add(then).saturating_sub(self.file)
    }
}

/// Reads the metadata in one pass.
pub(super) struct Parser<'a> {
    pub(super) cbor: Cbor<'a>,
    limits: Limits,
    /// The metadata.
    bytes: &'a [u8],
    tensors: Tensors,
    /// For how many tensors memory is reserved, and for how much text of their names.
    reserved: usize,
    reserved_text: usize,
    metadata: Vec<MetaEntry>,
    scalars: Vec<ScalarEntry>,
    pub(super) signs: GenerationSigns,
    span: DataSpan,
    /// Bytes of text that may still be kept.
    text_left: u64,
    /// Dims that may still be kept.
    dims_left: u64,
    dims: Vec<u64>,
    memory: Memory,
    /// For errors: the field, and the name of the tensor that is being read.
    field: &'static str,
    tensor: Option<Cow<'a, str>>,
}

impl<'a> Parser<'a> {
    /// Reads all of the metadata.
    pub(super) fn parse(bytes: &'a [u8], limits: Limits, memory: Memory) -> Result<Contents> {
        let mut parser = Self {
            cbor: Cbor::new(bytes),
            limits,
            bytes,
            tensors: Tensors::default(),
            reserved: 0,
            reserved_text: 0,
            metadata: Vec::new(),
            scalars: Vec::new(),
            signs: GenerationSigns::default(),
            span: DataSpan::NONE,
            text_left: limits.max_text_bytes,
            dims_left: limits.max_dim_count,
            dims: Vec::new(),
            memory,
            field: "metadata",
            tensor: None,
        };
        let [metadata_names, scalar_names] = match parser.top() {
            Ok(tables) => tables,
            Err(fault) => return Err(parser.error(*fault)),
        };
        Ok(Contents {
            tensors: parser.tensors,
            metadata: parser.metadata,
            scalars: parser.scalars,
            signs: parser.signs,
            span: parser.span,
            metadata_names,
            scalar_names,
        })
    }

    fn error(&self, fault: Fault) -> Error {
        let mut at = At::new(offset_of(fault.position), self.field);
        if self.tensor.is_some() {
            at = at.entry(self.tensors.records.len() as u64);
        }
        match fault.what {
            What::Rule(rule) => {
                let error = Error::invalid(rule, at);
                match self.tensor.as_deref() {
                    Some(tensor) => error.of_tensor(tensor),
                    None => error,
                }
            }
            What::Limit { limit, value, max } => Error::Limit(LimitExceeded {
                limit,
                value,
                max,
                at,
            }),
            What::Source(error) => Error::Source(error),
        }
    }

    /// The top map; returns the tables of metadata keys and scalar names.
    fn top(&mut self) -> Parsed<[NameTable; 2]> {
        let Head::Map(mut left) = self.cbor.value()? else {
            return fault(Rule::Top, 0);
        };
        let mut tables = [NameTable::default(), NameTable::default()];
        let [metadata_names, scalar_names] = &mut tables;
        let mut keys = [false; 3];
        let [tensors, metadata, scalars] = &mut keys;
        let mut unknown = Vec::new();
        while self.cbor.more(&mut left)? {
            self.field = "metadata";
            let start = self.cbor.position();
            let key = self.key()?;
            match &*key {
                b"tensors" => {
                    once(tensors, start)?;
                    self.field = "tensors";
                    self.tensors()?;
                }
                b"metadata" => {
                    once(metadata, start)?;
                    *metadata_names = self.pairs()?;
                }
                b"scalars" => {
                    once(scalars, start)?;
                    self.field = "scalars";
                    self.signs.scalars = true;
                    *scalar_names = self.scalars()?;
                }
                _ => self.unknown_key(&mut unknown, key, start)?,
            }
        }
        self.field = "metadata";
        unique(&mut unknown, self.cbor.position())?;
        if !*tensors {
            return fault(Rule::MissingTensors, 0);
        }
        match self.cbor.remaining() as u64 {
            0 => Ok(tables),
            left => fault(Rule::Trailing { left }, self.cbor.position()),
        }
    }

    /// A key of a map.
    #[inline]
    pub(super) fn key(&mut self) -> Parsed<Cow<'a, [u8]>> {
        let start = self.cbor.position();
        match self.cbor.value()? {
            Head::Text(len) => self.cbor.raw_text(len),
            _ => fault(Rule::Key, start),
        }
    }

    /// Reads past the value of a key that means nothing, and keeps the key to see it only once.
    #[cold]
    pub(super) fn unknown_key(
        &mut self,
        unknown: &mut Vec<Cow<'a, str>>,
        key: Cow<'a, [u8]>,
        start: usize,
    ) -> Parsed<()> {
        let key = match key {
            Cow::Borrowed(key) => core::str::from_utf8(key).ok().map(Cow::Borrowed),
            Cow::Owned(key) => String::from_utf8(key).ok().map(Cow::Owned),
        };
        let Some(key) = key else {
            return fault(Rule::CborUtf8, start);
        };
        self.count(unknown.len(), start)?;
        unknown.push(key);
        self.cbor.skip()
    }

    /// Refuses one more than the limit.
    fn count(&self, have: usize, position: usize) -> Parsed<()> {
        let max = self.limits.max_metadata_count;
        at_most(
            "max_metadata_count",
            (have as u64).saturating_add(1),
            max,
            position,
        )
    }

    /// Counts text that will be kept.
    #[inline]
    fn keep(&mut self, len: usize, position: usize) -> Parsed<()> {
        match self.text_left.checked_sub(len as u64) {
            Some(left) => self.text_left = left,
            None => return beyond("max_text_bytes", self.limits.max_text_bytes, position),
        }
        Ok(())
    }

    /// Text to be kept.
    #[inline]
    pub(super) fn kept(&mut self, text: Cow<'_, str>, position: usize) -> Parsed<Box<str>> {
        self.keep(text.len(), position)?;
        Ok(match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        })
    }

    fn tensors(&mut self) -> Parsed<()> {
        let start = self.cbor.position();
        let Head::Map(mut left) = self.cbor.value()? else {
            return fault(Rule::Tensors, start);
        };
        let declared = left.unwrap_or(0);
        while self.cbor.more(&mut left)? {
            let start = self.cbor.position();
            let max = self.limits.max_tensor_count;
            let ordinal = self.tensors.records.len();
            let count = (ordinal as u64).saturating_add(1);
            at_most("max_tensor_count", count, max, start)?;
            let name = match self.cbor.value()? {
                Head::Text(len) => self.cbor.text(len)?,
                _ => return fault(Rule::TensorName, start),
            };
            self.memory.tensors = count;
            self.memory.names = self.memory.names.saturating_add(name.len() as u64);
            self.check_memory(start)?;
            self.reserve(declared, name.len())?;
            self.tensors.names.push(&name);
            self.tensor = Some(name);
            let record = self.descriptor(start)?;
            self.tensors.records.push(record);
            self.field = "tensors";
            self.tensor = None;
        }
        Ok(())
    }

    /// Refuses a list that takes more than it may.
    #[inline]
    fn check_memory(&self, position: usize) -> Parsed<()> {
        let (value, max) = (self.memory.overhead(), self.limits.max_index_overhead_bytes);
        at_most("max_index_overhead_bytes", value, max, position)
    }

    /// Makes room for a tensor whose name has so many bytes.
    #[inline]
    fn reserve(&mut self, declared: usize, name: usize) -> Parsed<()> {
        let text = self.tensors.names.text_len().saturating_add(name);
        if self.tensors.records.len() < self.reserved && text <= self.reserved_text {
            return Ok(());
        }
        self.grow(declared, text)
    }

    /// Makes room for as many tensors as the map declares, and as much text of their names as the rest of the
    /// metadata has if all are like those so far; never for more than there are bytes for.
    #[cold]
    fn grow(&mut self, declared: usize, needed: usize) -> Parsed<()> {
        let (len, text) = (self.tensors.records.len(), self.tensors.names.text_len());
        let (mut tensors, mut bytes) = (0, 0);
        if len >= self.reserved {
            // As many as the file has room for, if it says how many.
            let left = self.cbor.remaining();
            let fitting = left.checked_div(MIN_TENSOR).unwrap_or(0);
            let limit = usize::try_from(self.limits.max_tensor_count).unwrap_or(usize::MAX);
            let all = declared.min(len.saturating_add(fitting)).min(limit);
            tensors = all.saturating_sub(len).max(len / 4).max(1);
            self.reserved = len.saturating_add(tensors);
        }
        if needed > self.reserved_text {
            let (done, all) = (self.cbor.position().max(1), self.bytes.len());
            let guess = (text as u128).saturating_mul(all as u128);
            let guess = guess.checked_div(done as u128).unwrap_or(0);
            let guess = usize::try_from(guess).unwrap_or(usize::MAX).min(all);
            let room = guess.max(needed).max(text.saturating_add(text / 16));
            bytes = room.saturating_sub(text);
            self.reserved_text = room;
        }
        let position = self.cbor.position();
        let reserved = self.tensors.try_reserve(tensors, bytes);
        reserved.map_err(|error| {
            let what = What::Source(error);
            Box::new(Fault { what, position })
        })
    }

    fn descriptor(&mut self, item: usize) -> Parsed<Record> {
        let start = self.cbor.position();
        let Head::Map(mut left) = self.cbor.value()? else {
            return fault(Rule::Descriptor, start);
        };
        let mut code = None;
        let mut shape = None;
        let mut offsets = None;
        let mut param_id = None;
        let mut unknown = Vec::new();
        while self.cbor.more(&mut left)? {
            let key_start = self.cbor.position();
            let key = self.key()?;
            match &*key {
                b"dtype" => {
                    self.field = "dtype";
                    let value = self.dtype()?;
                    put(&mut code, value, key_start)?;
                }
                b"shape" => {
                    self.field = "shape";
                    let value = self.shape()?;
                    put(&mut shape, value, key_start)?;
                }
                b"data_offsets" => {
                    self.field = "data_offsets";
                    let at = self.cbor.position();
                    let value = (self.offsets()?, at);
                    put(&mut offsets, value, key_start)?;
                }
                b"param_id" => {
                    self.field = "param_id";
                    let value = self.param_id()?;
                    put(&mut param_id, value, key_start)?;
                }
                _ => {
                    self.field = "tensors";
                    self.unknown_key(&mut unknown, key, key_start)?;
                }
            }
        }
        if !unknown.is_empty() {
            unique(&mut unknown, start)?;
        }
        self.field = "tensors";
        let there = (code.is_some(), shape.is_some());
        let (Some(code), Some(shape), Some((offsets, at))) = (code, shape, offsets) else {
            return missing(start, there);
        };
        self.field = "data_offsets";
        let ordinal = short(self.tensors.records.len());
        let (start, len) = self.checked(code, shape, offsets, at)?;
        if let Some(id) = param_id.flatten() {
            self.tensors.push_id(ordinal, id);
        }
        Ok(Record {
            start,
            len,
            shape,
            code,
            ordinal,
            item: short(item),
        })
    }

    /// "Descriptor": where the data begins and how long it is, which is what dtype and shape ask for where the
    /// dtype is known.
    #[inline]
    fn checked(
        &mut self,
        code: u32,
        shape: ShapeId,
        (start, end): (u64, u64),
        at: usize,
    ) -> Parsed<(u64, u64)> {
        let Some(len) = end.checked_sub(start) else {
            return fault(Rule::OffsetsOrder { start, end }, at);
        };
        if let Some(size) = self.tensors.code(code).element_size() {
            let elements = self.tensors.shapes.get(shape).elements();
            match elements.checked_mul(size) {
                Some(expected) if expected == len => {}
                Some(expected) => return fault(Rule::Size { expected, got: len }, at),
                None => return fault(Rule::SizeOverflow { elements }, at),
            }
        }
        self.span.add(start, end);
        Ok((start, len))
    }

    #[inline]
    fn shape(&mut self) -> Parsed<ShapeId> {
        let start = self.cbor.position();
        let Head::Array(mut left) = self.cbor.value()? else {
            return fault(Rule::Shape, start);
        };
        self.dims.clear();
        while self.cbor.more(&mut left)? {
            let dim = self.cbor.unsigned(Rule::Shape)?;
            match self.dims_left.checked_sub(1) {
                Some(left) => self.dims_left = left,
                None => return beyond("max_dim_count", self.limits.max_dim_count, start),
            }
            self.dims.push(dim);
            self.memory.dims = self.memory.dims.saturating_add(1);
            self.check_memory(start)?;
        }
        match self.tensors.shapes.push(&self.dims) {
            Ok(shape) => Ok(shape),
            Err(_) => fault(Rule::ShapeOverflow, start),
        }
    }

    #[inline]
    fn offsets(&mut self) -> Parsed<(u64, u64)> {
        let at = self.cbor.position();
        let Head::Array(mut left) = self.cbor.value()? else {
            return fault(Rule::Offsets, at);
        };
        let mut two = [0; 2];
        for offset in &mut two {
            if !self.cbor.more(&mut left)? {
                return fault(Rule::Offsets, at);
            }
            *offset = self.cbor.unsigned(Rule::Offsets)?;
        }
        if self.cbor.more(&mut left)? {
            return fault(Rule::Offsets, at);
        }
        let [start, end] = two;
        Ok((start, end))
    }

    #[inline]
    fn param_id(&mut self) -> Parsed<Option<u64>> {
        let at = self.cbor.position();
        let head = self.cbor.value()?;
        match self.cbor.integer(head)? {
            Some(Integer::Positive(id)) => Ok(Some(id)),
            None if is_null(head) => Ok(None),
            _ => fault(Rule::ParamId, at),
        }
    }

    /// The position of a dtype among the known ones and those of this file.
    #[inline]
    fn dtype(&mut self) -> Parsed<u32> {
        let start = self.cbor.position();
        let code = match self.cbor.value()? {
            Head::Text(len) => {
                let text = self.cbor.raw_text(len)?;
                match DTypeCode::position(&text) {
                    Some(position) => {
                        let code = DTypeCode::known(position);
                        self.signs.bool_text |= matches!(code, DTypeCode::Bool(_));
                        return Ok(short(position));
                    }
                    None => self.unknown_dtype(text, start)?,
                }
            }
            Head::Map(left) => self.dtype_map(left, start)?,
            _ => return fault(Rule::DType, start),
        };
        self.code(code, start)
    }

    /// The position of a dtype whose item was just read.
    fn code(&mut self, code: DTypeCode, start: usize) -> Parsed<u32> {
        if let DTypeCode::Bool(_) = code {
            return Ok(code.known_position().map_or(0, short));
        }
        let item = self.bytes.get(start..self.cbor.position());
        let item = item.unwrap_or_default();
        match self.tensors.find_code(item) {
            Some(position) => Ok(position),
            None => {
                self.keep(item.len(), start)?;
                Ok(self.tensors.push_code(code, item))
            }
        }
    }

    fn unknown_dtype(&mut self, text: Cow<'a, [u8]>, start: usize) -> Parsed<DTypeCode> {
        match String::from_utf8(text.into_owned()) {
            Ok(text) => Ok(DTypeCode::Unknown(self.kept(Cow::Owned(text), start)?)),
            Err(_) => fault(Rule::CborUtf8, start),
        }
    }

    fn dtype_map(&mut self, mut left: Option<usize>, start: usize) -> Parsed<DTypeCode> {
        if !self.cbor.more(&mut left)? {
            return fault(Rule::DType, start);
        }
        let key = self.key()?;
        let code = match &*key {
            b"Bool" => {
                let at = self.cbor.position();
                let Head::Text(len) = self.cbor.value()? else {
                    return fault(Rule::DType, at);
                };
                let store = self.cbor.text(len)?;
                self.signs.bool_map = true;
                match &*store {
                    "Native" => DTypeCode::Bool(BoolStore::Native),
                    "U8" => DTypeCode::Bool(BoolStore::U8),
                    "U32" => DTypeCode::Bool(BoolStore::U32),
                    _ => {
                        let name = Cow::Owned(format!("Bool({store})"));
                        DTypeCode::Unknown(self.kept(name, at)?)
                    }
                }
            }
            b"QFloat" => self.scheme()?,
            _ => {
                self.cbor.skip()?;
                self.unknown_dtype(key, start)?
            }
        };
        if self.cbor.more(&mut left)? {
            return fault(Rule::DType, start);
        }
        Ok(code)
    }

    /// The map of user metadata.
    fn pairs(&mut self) -> Parsed<NameTable> {
        let start = self.cbor.position();
        let Head::Map(mut left) = self.cbor.value()? else {
            return fault(Rule::Metadata, start);
        };
        let mut names = NameTable::default();
        while self.cbor.more(&mut left)? {
            let start = self.cbor.position();
            self.count(self.metadata.len(), start)?;
            let key = match self.cbor.value()? {
                Head::Text(len) => self.cbor.text(len)?,
                _ => return fault(Rule::Key, start),
            };
            let key = self.kept(key, start)?;
            let at = self.cbor.position();
            let value = match self.cbor.value()? {
                Head::Text(len) => self.cbor.text(len)?,
                _ => return fault(Rule::MetadataValue, at),
            };
            let value = self.kept(value, at)?;
            self.metadata.push(MetaEntry { key, value });
            let last = self.metadata.len().saturating_sub(1);
            if let Err(duplicate) = names.insert(&self.metadata, MetaEntry::key, last) {
                let first = duplicate.first as u64;
                return fault(Rule::MetadataDuplicate { first }, start);
            }
        }
        Ok(names)
    }

    fn scalars(&mut self) -> Parsed<NameTable> {
        let start = self.cbor.position();
        let Head::Map(mut left) = self.cbor.value()? else {
            return fault(Rule::Scalars, start);
        };
        let mut names = NameTable::default();
        while self.cbor.more(&mut left)? {
            let start = self.cbor.position();
            self.count(self.scalars.len(), start)?;
            let name = match self.cbor.value()? {
                Head::Text(len) => self.cbor.text(len)?,
                _ => return fault(Rule::Key, start),
            };
            let name = self.kept(name, start)?;
            let value = self.scalar()?;
            self.scalars.push(ScalarEntry { name, value });
            let last = self.scalars.len().saturating_sub(1);
            if let Err(duplicate) = names.insert(&self.scalars, ScalarEntry::name, last) {
                let first = duplicate.first as u64;
                return fault(Rule::ScalarDuplicate { first }, start);
            }
        }
        Ok(names)
    }

    fn scalar(&mut self) -> Parsed<Scalar> {
        let start = self.cbor.position();
        let Head::Map(mut left) = self.cbor.value()? else {
            return fault(Rule::Scalar, start);
        };
        if !self.cbor.more(&mut left)? {
            return fault(Rule::Scalar, start);
        }
        let key = self.key()?;
        let at = self.cbor.position();
        let wrong = |kind| fault(Rule::ScalarValue { kind }, at);
        let scalar = match &*key {
            b"Int" => {
                let head = self.cbor.value()?;
                let value = match self.cbor.integer(head)? {
                    Some(Integer::Positive(value)) => i64::try_from(value).ok(),
                    // -1 - n has the bits of n inverted.
                    Some(Integer::Negative(value)) => i64::try_from(value).ok().map(|n| !n),
                    None => None,
                };
                match value {
                    Some(value) => Scalar::Int(value),
                    None => return wrong("Int"),
                }
            }
            b"UInt" => Scalar::UInt(self.cbor.unsigned(Rule::ScalarValue { kind: "UInt" })?),
            b"Float" => match self.cbor.value()? {
                Head::Float(value) => Scalar::Float(value),
                _ => return wrong("Float"),
            },
            b"Bool" => match self.cbor.value()? {
                Head::Simple(20) => Scalar::Bool(false),
                Head::Simple(21) => Scalar::Bool(true),
                _ => return wrong("Bool"),
            },
            _ => {
                self.cbor.skip()?;
                match String::from_utf8(key.into_owned()) {
                    Ok(kind) => Scalar::Unknown(self.kept(Cow::Owned(kind), start)?),
                    Err(_) => return fault(Rule::CborUtf8, start),
                }
            }
        };
        if self.cbor.more(&mut left)? {
            return fault(Rule::Scalar, start);
        }
        Ok(scalar)
    }
}

/// Notes a key, and refuses a duplicate.
fn once(there: &mut bool, position: usize) -> Parsed<()> {
    if *there {
        return fault(Rule::DuplicateKey, position);
    }
    *there = true;
    Ok(())
}

/// Keeps the value of a key, of which there may be only one.
#[inline]
pub(super) fn put<T>(slot: &mut Option<T>, value: T, position: usize) -> Parsed<()> {
    if slot.is_some() {
        return fault(Rule::DuplicateKey, position);
    }
    *slot = Some(value);
    Ok(())
}

/// Fails where two of the keys are equal.
pub(super) fn unique(keys: &mut Vec<Cow<'_, str>>, position: usize) -> Parsed<()> {
    keys.sort_unstable();
    let has_duplicate = keys.iter().zip(keys.iter().skip(1)).any(|(a, b)| a == b);
    keys.clear();
    if has_duplicate {
        return fault(Rule::DuplicateKey, position);
    }
    Ok(())
}

#[cold]
fn missing<T>(position: usize, there: (bool, bool)) -> Parsed<T> {
    let key = match there {
        (false, _) => "dtype",
        (true, false) => "shape",
        (true, true) => "data_offsets",
    };
    fault(Rule::MissingKey { key }, position)
}

fn at_most(limit: &'static str, value: u64, max: u64, position: usize) -> Parsed<()> {
    if value > max {
        return Err(Box::new(Fault {
            what: What::Limit { limit, value, max },
            position,
        }));
    }
    Ok(())
}

/// For limits that are used up bit by bit: the value is the first beyond.
#[cold]
fn beyond<T>(limit: &'static str, max: u64, position: usize) -> Parsed<T> {
    let value = max.saturating_add(1);
    Err(Box::new(Fault {
        what: What::Limit { limit, value, max },
        position,
    }))
}
