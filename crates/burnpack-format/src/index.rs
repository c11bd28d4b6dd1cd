#![deny(clippy::arithmetic_side_effects)]

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use ciborium_ll::Header as Head;
use tensor_core::codec::{ArchiveId, Cursor, NameTable};
use tensor_core::{At, Bytes, LimitExceeded, Shape, Source, Truncated};

use crate::cbor::{Cbor, Fault, Integer, Parsed, What, fault, is_null};
use crate::dtype::BoolStore;
use crate::layout::{ALIGN, Evidence, Header, Layout};
use crate::meta::{MetaEntry, Scalar, ScalarEntry};
use crate::quant::{
    BlockSize, QuantBlock, QuantGeneration, QuantMode, QuantParam, QuantScheme, QuantStore,
    QuantValue,
};
use crate::read::{Entry, Generation};
use crate::{DTypeCode, Error, Limits, ReadOptions, Result, Rule};

/// Everything that a file says about its tensors. One that exists is valid: every range in
/// bounds, aligned and disjoint, every name unique, every size that of dtype and shape.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) id: ArchiveId,
    /// In the order of the data.
    pub(crate) entries: Vec<Entry>,
    pub(crate) metadata: Vec<MetaEntry>,
    pub(crate) scalars: Vec<ScalarEntry>,
    /// By the tensor's position in the file's order, rising: how an unknown dtype is spelled.
    spellings: Vec<(u32, Box<[u8]>)>,
    pub(crate) layout: Layout,
    pub(crate) generation: Generation,
    pub(crate) metadata_end: u64,
    pub(crate) data_start: u64,
    /// Where the last tensor ends.
    pub(crate) data_end: u64,
    /// Whether nothing but the file's length speaks for the packed layout.
    pub(crate) ambiguous: bool,
    /// Of the tensors in file order.
    names: NameTable,
    /// Where in `entries` the tensors of the file's order are; empty where that is the same.
    order: Vec<u32>,
    metadata_names: NameTable,
    scalar_names: NameTable,
}

impl Index {
    pub(crate) fn parse(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let size = source.size();
        let mut cursor = Cursor::new(source, 0..size)?;
        cursor.expect_up_to(Header::SIZE);
        let header = Header::parse(&mut cursor)?;
        let at = At::new(6, "metadata_size");
        let metadata_size = u64::from(header.metadata_size);
        let available = cursor.remaining();
        if metadata_size > available {
            return Err(Error::Truncated(Truncated {
                at,
                needed: metadata_size,
                available,
            }));
        }
        let limits = &options.limits;
        if header.metadata_size > limits.max_metadata_len {
            return Err(Error::Limit(LimitExceeded {
                limit: "max_metadata_len",
                value: metadata_size,
                max: limits.max_metadata_len.into(),
                at,
            }));
        }
        let metadata_end = Header::SIZE.saturating_add(metadata_size);
        let metadata = source.read(Header::SIZE..metadata_end)?;
        drop(cursor);

        let id = ArchiveId::next();
        let mut parser = Parser::new(&metadata, id, *limits);
        let tables = match parser.top() {
            Ok(tables) => tables,
            Err(fault) => return Err(parser.error(*fault)),
        };
        let (seen, extent) = (parser.seen, parser.extent);
        let (mut entries, pairs, scalars) = (parser.entries, parser.metadata, parser.scalars);
        let spellings = parser.spellings;
        let [metadata_names, scalar_names] = tables;
        // In file order, in which the names lie in memory.
        let names = NameTable::of(&entries, Entry::name).map_err(|twice| {
            let rule = Rule::TensorDuplicate {
                first: twice.first as u64,
            };
            match entries.get(twice.second) {
                Some(entry) => entry.invalid(rule, "tensors"),
                None => Error::Invalid {
                    rule,
                    at: At::new(Header::SIZE, "tensors"),
                    tensor: None,
                },
            }
        })?;
        let order = if extent.sorted {
            Vec::new()
        } else {
            sort(&mut entries)
        };
        let chained = check_overlap(&entries)?;
        let version = burn_version(&pairs);
        let evidence = Evidence {
            file_len: size,
            metadata_end,
            data_len: extent.data_len,
            aligned: extent.aligned,
            chained,
            modern: seen.bool_map
                || seen.new_scheme
                || seen.scalars
                || version.is_some_and(writes_aligned),
        };
        let layout = place(&mut entries, &evidence, options.layout)?;
        let data_start = evidence.data_start(layout);
        let ambiguous = layout == Layout::Packed
            && options.layout == Layout::Auto
            && extent.aligned
            && data_start != evidence.aligned_start()
            && version.is_none();
        Ok(Self {
            id,
            entries,
            generation: seen.generation(layout, version),
            metadata: pairs,
            scalars,
            spellings,
            layout,
            metadata_end,
            data_start,
            data_end: evidence.end(layout),
            ambiguous,
            names,
            order,
            metadata_names,
            scalar_names,
        })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        if !self.order.is_empty() {
            let entry = |at: usize| self.entries.get(*self.order.get(at)? as usize);
            let name_at = |at| entry(at).map_or("", Entry::name);
            return entry(self.names.find_at(name_at, name)?);
        }
        self.entries
            .get(self.names.find(&self.entries, Entry::name, name)?)
    }

    /// The CBOR item of an unknown dtype.
    pub(crate) fn spelling(&self, entry: &Entry) -> Option<&[u8]> {
        let spellings = &self.spellings;
        let at = spellings.binary_search_by_key(&entry.ordinal, |(ordinal, _)| *ordinal);
        spellings.get(at.ok()?).map(|(_, item)| &**item)
    }

    pub(crate) fn find_metadata(&self, key: &str) -> Option<&MetaEntry> {
        self.metadata.get(
            self.metadata_names
                .find(&self.metadata, MetaEntry::key, key)?,
        )
    }

    pub(crate) fn find_scalar(&self, name: &str) -> Option<&ScalarEntry> {
        self.scalars.get(
            self.scalar_names
                .find(&self.scalars, ScalarEntry::name, name)?,
        )
    }
}

/// The fewest bytes of a tensor in the metadata: an empty name, then a map of `dtype`, `shape` and
/// `data_offsets` with the shortest values.
const MIN_TENSOR: usize = 1 + 1 + (6 + 3) + (6 + 1) + (13 + 3);

/// Offset in the file of a position in the metadata.
fn offset_of(position: usize) -> u64 {
    Header::SIZE.saturating_add(position as u64)
}

/// Sorts by start, empty tensors first: the order of the data. Returns the new position of each.
fn sort(entries: &mut [Entry]) -> Vec<u32> {
    // Offsets that are cut off here are those of no valid file.
    let key = |entry: &Entry| entry.offset.saturating_mul(2) | u64::from(entry.data_len > 0);
    let mut keys: Vec<(u64, u32)> = entries
        .iter()
        .map(|entry| (key(entry), entry.ordinal))
        .collect();
    keys.sort_unstable();
    let mut order = vec![0; keys.len()];
    for (position, &(_, ordinal)) in (0..).zip(&keys) {
        if let Some(slot) = order.get_mut(ordinal as usize) {
            *slot = position;
        }
    }
    // In place, since new memory costs more than the swaps. What belongs at a position that was
    // passed has moved to where it was swapped with.
    for position in 0..keys.len() {
        let at = |index: usize| keys.get(index).map_or(index, |&(_, from)| from as usize);
        let mut from = at(position);
        while from < position {
            from = at(from);
        }
        entries.swap(position, from);
        if let (Some((_, slot)), Ok(from)) = (keys.get_mut(position), u32::try_from(from)) {
            *slot = from;
        }
    }
    order
}

/// Decides on the layout and makes the entries' offsets absolute.
fn place(entries: &mut [Entry], evidence: &Evidence, wanted: Layout) -> Result<Layout> {
    let last = || {
        let end = |entry: &&Entry| entry.offset.saturating_add(entry.data_len);
        entries.iter().max_by_key(end)
    };
    // Offsets that no file can have come first: they would saturate below.
    let end = evidence.data_len;
    if evidence.aligned_start().checked_add(end).is_none() {
        let rule = Rule::OffsetsOverflow { end };
        return Err(match last() {
            Some(entry) => entry.invalid(rule, "data_offsets"),
            None => Error::Invalid {
                rule,
                at: At::new(evidence.metadata_end, "padding"),
                tensor: None,
            },
        });
    }
    let layout = match wanted {
        Layout::Auto => evidence.layout(),
        layout => (evidence.file_len >= evidence.end(layout)).then_some(layout),
    };
    let Some(layout) = layout else {
        let likely = match wanted {
            Layout::Auto if evidence.aligned || evidence.modern => Layout::Aligned,
            Layout::Auto => Layout::Packed,
            layout => layout,
        };
        let truncated = |at| Truncated {
            at,
            needed: evidence.end(likely),
            available: evidence.file_len,
        };
        return Err(match last() {
            Some(entry) => Error::TruncatedData {
                tensor: entry.name().into(),
                truncated: truncated(entry.at("data_offsets")),
            },
            None => truncated(At::new(evidence.metadata_end, "padding")).into(),
        });
    };
    let start = evidence.data_start(layout);
    for entry in entries {
        if layout == Layout::Aligned && entry.offset % ALIGN != 0 {
            let start = entry.offset;
            return Err(entry.invalid(Rule::Alignment { start }, "data_offsets"));
        }
        entry.offset = entry.offset.saturating_add(start);
    }
    Ok(layout)
}

/// Checks that no two tensors share a byte, and tells whether they follow each other without a
/// gap. Entries come in the order of their data.
fn check_overlap(entries: &[Entry]) -> Result<bool> {
    let mut last: Option<&Entry> = None;
    let mut last_end = 0;
    let mut chained = true;
    for entry in entries {
        chained &= entry.offset == last_end;
        if entry.data_len == 0 {
            continue;
        }
        if let Some(last) = last {
            if last_end > entry.offset {
                let (first, later) = if last.ordinal < entry.ordinal {
                    (last, entry)
                } else {
                    (entry, last)
                };
                let other = first.ordinal.into();
                return Err(later.invalid(Rule::Overlap { other }, "data_offsets"));
            }
        }
        last_end = entry.offset.saturating_add(entry.data_len);
        last = Some(entry);
    }
    Ok(chained)
}

/// What the offsets of all tensors say together, relative to the data section.
#[derive(Clone, Copy, Debug)]
struct Extent {
    data_len: u64,
    aligned: bool,
    sorted: bool,
    last: u64,
}

impl Extent {
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

/// The release that the metadata names, where it is Burn's own.
fn burn_version(metadata: &[MetaEntry]) -> Option<&str> {
    let value = |key: &str| {
        let pair = metadata.iter().find(|pair| pair.key() == key);
        pair.map(MetaEntry::value)
    };
    if value("producer") != Some("burn") {
        return None;
    }
    value("version").filter(|version| version.starts_with("0."))
}

/// Whether a release of Burn writes the aligned layout.
fn writes_aligned(version: &str) -> bool {
    let pre_release = version.strip_prefix("0.20.0-pre.").map(str::as_bytes);
    !version.starts_with("0.19.") && !matches!(pre_release, Some([b'1'..=b'4']))
}

/// What in the metadata tells generations apart.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    bool_text: bool,
    bool_map: bool,
    old_scheme: bool,
    new_scheme: bool,
    scalars: bool,
}

impl Seen {
    fn generation(self, layout: Layout, version: Option<&str>) -> Generation {
        if layout == Layout::Packed && !self.bool_map && !self.new_scheme && !self.scalars {
            Generation::V0_19
        } else if self.scalars || self.new_scheme {
            Generation::Current
        } else if self.bool_text {
            Generation::V0_20
        } else {
            // What is spelled counts for more than what the text says: a file may have been
            // rewritten since. A file of 0.19 that is aligned was.
            let old = |version: &str| version.starts_with("0.19.") || version.starts_with("0.20.");
            match version {
                Some(version) if old(version) && !self.bool_map => Generation::V0_20,
                Some(version) if old(version) || version.starts_with("0.21.") => Generation::V0_21,
                Some(_) if self.old_scheme => Generation::V0_21,
                Some(_) => Generation::Current,
                None if self.old_scheme && self.bool_map => Generation::V0_21,
                None => Generation::Unknown,
            }
        }
    }
}

/// Reads the metadata in one pass.
struct Parser<'a> {
    cbor: Cbor<'a>,
    id: ArchiveId,
    limits: Limits,
    entries: Vec<Entry>,
    metadata: Vec<MetaEntry>,
    scalars: Vec<ScalarEntry>,
    metadata_bytes: &'a [u8],
    spellings: Vec<(u32, Box<[u8]>)>,
    seen: Seen,
    extent: Extent,
    /// Bytes of text that may still be kept.
    text_left: u64,
    /// Dims that may still be kept.
    dims_left: u64,
    dims: Vec<u64>,
    /// For errors: the field, and the tensor that is being read.
    field: &'static str,
    tensor: Option<Cow<'a, str>>,
}

impl<'a> Parser<'a> {
    fn new(metadata: &'a Bytes, id: ArchiveId, limits: Limits) -> Self {
        Self {
            cbor: Cbor::new(metadata),
            id,
            limits,
            entries: Vec::new(),
            metadata: Vec::new(),
            scalars: Vec::new(),
            metadata_bytes: metadata,
            spellings: Vec::new(),
            seen: Seen::default(),
            extent: Extent::NONE,
            text_left: limits.max_text,
            dims_left: limits.max_dims,
            dims: Vec::new(),
            field: "metadata",
            tensor: None,
        }
    }

    fn error(&self, fault: Fault) -> Error {
        let mut at = At::new(offset_of(fault.position), self.field);
        if self.tensor.is_some() {
            at = at.entry(self.entries.len() as u64);
        }
        match fault.what {
            What::Rule(rule) => Error::Invalid {
                rule,
                at,
                tensor: self.tensor.as_deref().map(Box::from),
            },
            What::Limit { limit, value, max } => Error::Limit(LimitExceeded {
                limit,
                value,
                max,
                at,
            }),
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
                    self.seen.scalars = true;
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
    fn key(&mut self) -> Parsed<Cow<'a, [u8]>> {
        let start = self.cbor.position();
        match self.cbor.value()? {
            Head::Text(len) => self.cbor.raw_text(len),
            _ => fault(Rule::Key, start),
        }
    }

    /// Reads past the value of a key that means nothing, and keeps the key to see it only once.
    #[cold]
    fn unknown_key(
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
        let max = u64::from(self.limits.max_metadata);
        at_most(
            "max_metadata",
            (have as u64).saturating_add(1),
            max,
            position,
        )
    }

    /// Text to be kept.
    #[inline]
    fn kept(&mut self, text: Cow<'a, str>, position: usize) -> Parsed<Box<str>> {
        match self.text_left.checked_sub(text.len() as u64) {
            Some(left) => self.text_left = left,
            None => return beyond("max_text", self.limits.max_text, position),
        }
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
        // As many as the file has room for, if it says so.
        let room = self.cbor.remaining().checked_div(MIN_TENSOR).unwrap_or(0);
        let limit = usize::try_from(self.limits.max_tensors).unwrap_or(usize::MAX);
        self.entries.reserve(left.unwrap_or(0).min(room).min(limit));
        while self.cbor.more(&mut left)? {
            let start = self.cbor.position();
            let max = u64::from(self.limits.max_tensors);
            let count = (self.entries.len() as u64).saturating_add(1);
            at_most("max_tensors", count, max, start)?;
            let name = match self.cbor.value()? {
                Head::Text(len) => self.cbor.text(len)?,
                _ => return fault(Rule::TensorName, start),
            };
            self.tensor = Some(name.clone());
            let name = self.kept(name, start)?;
            let entry = self.descriptor(name, start)?;
            self.entries.push(entry);
            self.field = "tensors";
            self.tensor = None;
        }
        Ok(())
    }

    fn descriptor(&mut self, name: Box<str>, item: usize) -> Parsed<Entry> {
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
                    let at = self.cbor.position();
                    let value = self.dtype()?;
                    if matches!(value, DTypeCode::Unknown(_)) {
                        self.keep_spelling(at)?;
                    }
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
        let (Some(code), Some(shape), Some(((start, end), at))) = (code, shape, offsets) else {
            return missing(start, there);
        };
        self.field = "data_offsets";
        let Some(data_len) = end.checked_sub(start) else {
            return fault(Rule::OffsetsOrder { start, end }, at);
        };
        if let Some(size) = code.element_size() {
            let elements = shape.elements();
            match elements.checked_mul(size) {
                Some(expected) if expected == data_len => {}
                Some(expected) => {
                    let got = data_len;
                    return fault(Rule::Size { expected, got }, at);
                }
                None => return fault(Rule::SizeOverflow { elements }, at),
            }
        }
        self.extent.add(start, end);
        Ok(Entry {
            archive: self.id,
            name,
            code,
            shape,
            offset: start,
            data_len,
            param_id: param_id.flatten(),
            ordinal: u32::try_from(self.entries.len()).unwrap_or(u32::MAX),
            item: u32::try_from(item).unwrap_or(u32::MAX),
        })
    }

    #[inline]
    fn shape(&mut self) -> Parsed<Shape> {
        let start = self.cbor.position();
        let Head::Array(mut left) = self.cbor.value()? else {
            return fault(Rule::Shape, start);
        };
        self.dims.clear();
        while self.cbor.more(&mut left)? {
            let dim = self.cbor.unsigned(Rule::Shape)?;
            match self.dims_left.checked_sub(1) {
                Some(left) => self.dims_left = left,
                None => return beyond("max_dims", self.limits.max_dims, start),
            }
            self.dims.push(dim);
        }
        match Shape::new(&self.dims) {
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

    #[inline]
    fn dtype(&mut self) -> Parsed<DTypeCode> {
        let start = self.cbor.position();
        match self.cbor.value()? {
            Head::Text(len) => {
                let text = self.cbor.raw_text(len)?;
                match DTypeCode::from_text(&text) {
                    Some(DTypeCode::Bool(store)) => {
                        self.seen.bool_text = true;
                        Ok(DTypeCode::Bool(store))
                    }
                    Some(code) => Ok(code),
                    None => self.unknown_dtype(text, start),
                }
            }
            Head::Map(left) => self.dtype_map(left, start),
            _ => fault(Rule::DType, start),
        }
    }

    /// Keeps the item that was just read, the unknown dtype of the tensor that is being read.
    #[cold]
    fn keep_spelling(&mut self, start: usize) -> Parsed<()> {
        let item = self.metadata_bytes.get(start..self.cbor.position());
        let item = item.unwrap_or_default();
        match self.text_left.checked_sub(item.len() as u64) {
            Some(left) => self.text_left = left,
            None => return beyond("max_text", self.limits.max_text, start),
        }
        let ordinal = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.spellings.push((ordinal, item.into()));
        Ok(())
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
                self.seen.bool_map = true;
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

    /// "Quantization": a scheme of either generation.
    fn scheme(&mut self) -> Parsed<DTypeCode> {
        let start = self.cbor.position();
        let Head::Map(mut left) = self.cbor.value()? else {
            return fault(Rule::Scheme { key: "QFloat" }, start);
        };
        let mut strange = None;
        let (mut value, mut store, mut mode) = (None, None, None);
        let (mut param, mut level) = (None, None);
        let (mut tensor, mut block) = (None, None);
        let mut unknown = Vec::new();
        while self.cbor.more(&mut left)? {
            let at = self.cbor.position();
            let key = self.key()?;
            match &*key {
                b"value" => {
                    let known = self.named("value", QuantValue::from_name, &mut strange)?;
                    put(&mut value, known, at)?;
                }
                b"store" => {
                    let known = self.store(&mut strange)?;
                    put(&mut store, known, at)?;
                }
                b"mode" => {
                    let known = self.named("mode", QuantMode::from_name, &mut strange)?;
                    put(&mut mode, known, at)?;
                }
                b"param" => {
                    let known = self.named("param", QuantParam::from_name, &mut strange)?;
                    put(&mut param, known, at)?;
                }
                b"level" => {
                    let known = self.level(&mut strange)?;
                    put(&mut level, known, at)?;
                }
                b"tensor" => {
                    let head = self.cbor.value()?;
                    let known = if is_null(head) {
                        Some(None)
                    } else {
                        let from = QuantParam::from_name;
                        self.named_from(head, "tensor", from, &mut strange)?
                            .map(Some)
                    };
                    put(&mut tensor, known, at)?;
                }
                b"block" => {
                    let known = self.block(&mut strange)?;
                    put(&mut block, known, at)?;
                }
                _ => self.unknown_key(&mut unknown, key, at)?,
            }
        }
        unique(&mut unknown, start)?;
        let need = |there: bool, key| {
            if there {
                Ok(())
            } else {
                fault(Rule::Scheme { key }, start)
            }
        };
        need(value.is_some(), "value")?;
        need(store.is_some(), "store")?;
        need(mode.is_some(), "mode")?;
        let old = param.is_some() || level.is_some();
        if old {
            need(param.is_some(), "param")?;
            need(level.is_some(), "level")?;
            need(tensor.is_none(), "tensor")?;
            need(block.is_none(), "block")?;
            self.seen.old_scheme = true;
        } else {
            self.seen.new_scheme = true;
        }
        if let Some(strange) = strange {
            let name = Cow::Owned(format!("QFloat({strange})"));
            return Ok(DTypeCode::Unknown(self.kept(name, start)?));
        }
        let (Some(Some(value)), Some(Some(store)), Some(Some(mode))) = (value, store, mode) else {
            return fault(Rule::Scheme { key: "QFloat" }, start);
        };
        let mut scheme = QuantScheme::new(value, store, mode);
        if let (Some(Some(param)), Some(Some(level))) = (param, level) {
            scheme.generation = QuantGeneration::Old;
            match level {
                Level::Tensor => scheme.tensor = Some(param),
                Level::Block(size) => scheme.block = Some(QuantBlock { size, dtype: param }),
            }
        } else {
            scheme.tensor = tensor.flatten().flatten();
            scheme.block = block.flatten().flatten();
        }
        Ok(DTypeCode::QFloat(Box::new(scheme)))
    }

    /// A text that is one of a list of names, `None`, noted in `strange`, where it is another.
    fn named<T>(
        &mut self,
        key: &'static str,
        from_name: impl Fn(&str) -> Option<T>,
        strange: &mut Option<String>,
    ) -> Parsed<Option<T>> {
        let head = self.cbor.value()?;
        self.named_from(head, key, from_name, strange)
    }

    /// The same where the head was read.
    fn named_from<T>(
        &mut self,
        head: Head,
        key: &'static str,
        from_name: impl Fn(&str) -> Option<T>,
        strange: &mut Option<String>,
    ) -> Parsed<Option<T>> {
        let Head::Text(len) = head else {
            return fault(Rule::Scheme { key }, self.cbor.position());
        };
        let name = self.cbor.text(len)?;
        let known = from_name(&name);
        if known.is_none() {
            strange.get_or_insert_with(|| format!("{key} {name}"));
        }
        Ok(known)
    }

    fn store(&mut self, strange: &mut Option<String>) -> Parsed<Option<QuantStore>> {
        let rule = Rule::Scheme { key: "store" };
        let from_name = |name: &str| match name {
            "Native" => Some(QuantStore::Native),
            "U32" => Some(QuantStore::PackedU32(0)),
            _ => None,
        };
        let start = self.cbor.position();
        let mut left = match self.cbor.value()? {
            Head::Map(left) => left,
            head => return self.named_from(head, "store", from_name, strange),
        };
        if !self.cbor.more(&mut left)? {
            return fault(rule, start);
        }
        let key = self.key()?;
        let store = match &*key {
            b"PackedNative" => Some(QuantStore::PackedNative(self.cbor.unsigned(rule)?)),
            b"PackedU32" => Some(QuantStore::PackedU32(self.cbor.unsigned(rule)?)),
            _ => {
                self.strange_key("store", &key, strange)?;
                None
            }
        };
        if self.cbor.more(&mut left)? {
            return fault(rule, start);
        }
        Ok(store)
    }

    fn level(&mut self, strange: &mut Option<String>) -> Parsed<Option<Level>> {
        let rule = Rule::Scheme { key: "level" };
        let from_name = |name: &str| (name == "Tensor").then_some(Level::Tensor);
        let start = self.cbor.position();
        let mut left = match self.cbor.value()? {
            Head::Map(left) => left,
            head => return self.named_from(head, "level", from_name, strange),
        };
        if !self.cbor.more(&mut left)? {
            return fault(rule, start);
        }
        let key = self.key()?;
        let level = match &*key {
            b"Block" => {
                let head = self.cbor.value()?;
                Some(Level::Block(self.block_size(head, "level")?))
            }
            _ => {
                self.strange_key("level", &key, strange)?;
                None
            }
        };
        if self.cbor.more(&mut left)? {
            return fault(rule, start);
        }
        Ok(level)
    }

    /// Reads past the value of a variant that is not known.
    fn strange_key(&mut self, field: &str, key: &[u8], strange: &mut Option<String>) -> Parsed<()> {
        let Ok(name) = core::str::from_utf8(key) else {
            return fault(Rule::CborUtf8, self.cbor.position());
        };
        strange.get_or_insert_with(|| format!("{field} {name}"));
        self.cbor.skip()
    }

    /// `null`, or a map of `size` and `dtype`.
    fn block(&mut self, strange: &mut Option<String>) -> Parsed<Option<Option<QuantBlock>>> {
        let rule = Rule::Scheme { key: "block" };
        let start = self.cbor.position();
        let mut left = match self.cbor.value()? {
            Head::Map(left) => left,
            head if is_null(head) => return Ok(Some(None)),
            _ => return fault(rule, start),
        };
        let (mut size, mut dtype) = (None, None);
        let mut unknown = Vec::new();
        while self.cbor.more(&mut left)? {
            let at = self.cbor.position();
            let key = self.key()?;
            match &*key {
                b"size" => {
                    let head = self.cbor.value()?;
                    let value = self.block_size(head, "block")?;
                    put(&mut size, value, at)?;
                }
                b"dtype" => {
                    let known = self.named("block", QuantParam::from_name, strange)?;
                    put(&mut dtype, known, at)?;
                }
                _ => self.unknown_key(&mut unknown, key, at)?,
            }
        }
        unique(&mut unknown, start)?;
        match (size, dtype) {
            (Some(size), Some(dtype)) => Ok(dtype.map(|dtype| Some(QuantBlock { size, dtype }))),
            _ => fault(rule, start),
        }
    }

    /// `{"storage": [5 numbers], "len": n}`.
    fn block_size(&mut self, head: Head, key: &'static str) -> Parsed<BlockSize> {
        let rule = Rule::Scheme { key };
        let start = self.cbor.position();
        let Head::Map(mut left) = head else {
            return fault(rule, start);
        };
        let (mut storage, mut len) = (None, None);
        let mut unknown = Vec::new();
        while self.cbor.more(&mut left)? {
            let at = self.cbor.position();
            let key = self.key()?;
            match &*key {
                b"storage" => {
                    let value = self.storage(rule)?;
                    put(&mut storage, value, at)?;
                }
                b"len" => {
                    let value = self.byte(rule)?;
                    put(&mut len, value, at)?;
                }
                _ => self.unknown_key(&mut unknown, key, at)?,
            }
        }
        unique(&mut unknown, start)?;
        let size = storage.zip(len);
        match size.and_then(|(storage, len)| BlockSize::from_storage(storage, len)) {
            Some(size) => Ok(size),
            None => fault(rule, start),
        }
    }

    fn storage(&mut self, rule: Rule) -> Parsed<[u8; BlockSize::MAX_RANK]> {
        let at = self.cbor.position();
        let Head::Array(mut left) = self.cbor.value()? else {
            return fault(rule, at);
        };
        let mut storage = [0; BlockSize::MAX_RANK];
        for byte in &mut storage {
            if !self.cbor.more(&mut left)? {
                return fault(rule, at);
            }
            *byte = self.byte(rule)?;
        }
        if self.cbor.more(&mut left)? {
            return fault(rule, at);
        }
        Ok(storage)
    }

    fn byte(&mut self, rule: Rule) -> Parsed<u8> {
        let at = self.cbor.position();
        match u8::try_from(self.cbor.unsigned(rule)?) {
            Ok(byte) => Ok(byte),
            Err(_) => fault(rule, at),
        }
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
            if let Err(twice) = names.insert(&self.metadata, MetaEntry::key, last) {
                let first = twice.first as u64;
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
            if let Err(twice) = names.insert(&self.scalars, ScalarEntry::name, last) {
                let first = twice.first as u64;
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

/// `level` of an old scheme.
enum Level {
    Tensor,
    Block(BlockSize),
}

/// Notes that a key is there, which it may be only once.
fn once(there: &mut bool, position: usize) -> Parsed<()> {
    if *there {
        return fault(Rule::DuplicateKey, position);
    }
    *there = true;
    Ok(())
}

/// Keeps the value of a key, of which there may be only one.
#[inline]
fn put<T>(slot: &mut Option<T>, value: T, position: usize) -> Parsed<()> {
    if slot.is_some() {
        return fault(Rule::DuplicateKey, position);
    }
    *slot = Some(value);
    Ok(())
}

/// Fails where two of the keys are equal.
fn unique(keys: &mut Vec<Cow<'_, str>>, position: usize) -> Parsed<()> {
    keys.sort_unstable();
    let twice = keys.iter().zip(keys.iter().skip(1)).any(|(a, b)| a == b);
    keys.clear();
    if twice {
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
