//! Reads a header, and counts what is kept of it.

use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::codec::{NameTable, Names, ShapeId, check_index_memory};
use tensor_core::{At, LimitExceeded, Shape, SourceError, Truncated};

use super::{Record, Tensors, short};
use crate::json::{Fault, Reader, Text};
use crate::layout::{METADATA, PREFIX};
use crate::meta::{Extras, MetaEntry};
use crate::{DTypeCode, Error, Limits, Result, Rule};

/// Bytes of memory of a tensor while the header is read: its record, and where its name ends.
const RECORD: u64 = size_of::<Record>() as u64 + Names::MEMORY - NameTable::MEMORY;
/// Bytes of memory that a tensor takes in the table of names, which is made after the header is read.
const TABLE: u64 = NameTable::MEMORY;

/// Reads a header, front to back.
pub(super) struct Parser<'a> {
    json: Reader<'a>,
    limits: &'a Limits,
    size: u64,
    data_start: u64,
    /// Bytes that a copy of the header takes.
    copy: u64,
    /// Bytes that texts, shapes and keys take.
    memory: u64,
    /// For how many tensors memory is reserved, and for how much text of their names.
    room: u64,
    text: u64,
    tensors: Tensors,
    unknown_names: NameTable,
    metadata: Vec<MetaEntry>,
    oddities: Vec<&'static str>,
    has_metadata: bool,
    dims: Vec<u64>,
}

impl<'a> Parser<'a> {
    /// Of the text of a header; `copied` is whether it was copied out of the file.
    pub(super) fn new(
        text: &'a str,
        size: u64,
        data_start: u64,
        copied: bool,
        limits: &'a Limits,
    ) -> Self {
        // A tensor's object is the second level.
        let depth = limits.max_value_depth.saturating_sub(2);
        Self {
            json: Reader::new(text, usize::try_from(depth).unwrap_or(usize::MAX)),
            limits,
            size,
            data_start,
            copy: if copied { text.len() as u64 } else { 0 },
            memory: 0,
            room: 0,
            text: 0,
            tensors: Tensors::default(),
            unknown_names: NameTable::default(),
            metadata: Vec::new(),
            oddities: Vec::new(),
            has_metadata: false,
            dims: Vec::new(),
        }
    }

    /// What was read: the tensors, the metadata, and what readers tolerate.
    /// What was found, and the bytes of memory that it takes beyond the size of the file.
    pub(super) fn into_parts(self) -> (Tensors, Vec<MetaEntry>, Vec<&'static str>, u64) {
        let overhead = self.memory().saturating_sub(self.size);
        (self.tensors, self.metadata, self.oddities, overhead)
    }

    fn data_len(&self) -> u64 {
        self.size.saturating_sub(self.data_start)
    }

    /// The tensor that is being read, counted from 0.
    fn ordinal(&self) -> usize {
        self.tensors.records.len()
    }

    /// The name of the tensor that is being read.
    fn name(&self) -> &str {
        self.tensors.names.get(self.ordinal())
    }

    /// The place of a byte of the header.
    fn at(&self, place: usize, field: &'static str) -> At {
        At::new(PREFIX.saturating_add(place as u64), field)
    }

    /// An error outside of tensors.
    #[cold]
    fn outside(&self, fault: Fault) -> Error {
        match fault {
            Fault::Rule(rule, place) => Error::invalid(rule, self.at(place, "header")),
            Fault::Depth(place) => self.too_deep(self.at(place, "header")),
        }
    }

    /// An error about the tensor that is being read.
    #[cold]
    fn inside(&self, fault: Fault, field: &'static str) -> Error {
        let entry = self.ordinal() as u64;
        match fault {
            Fault::Rule(rule, place) => {
                let at = self.at(place, field).entry(entry);
                Error::invalid(rule, at).of_tensor(self.name())
            }
            Fault::Depth(place) => self.too_deep(self.at(place, field).entry(entry)),
        }
    }

    fn too_deep(&self, at: At) -> Error {
        let max = self.limits.max_value_depth;
        Error::Limit(LimitExceeded {
            limit: "max_value_depth",
            value: max.saturating_add(1),
            max,
            at,
        })
    }

    /// Counts memory, and fails where it is more than the list may take.
    fn take(&mut self, more: u64) -> Result<()> {
        self.memory = self.memory.saturating_add(more);
        let memory = self.memory();
        check_index_memory(memory)?;
        let max = self.limits.max_index_overhead_bytes;
        let value = memory.saturating_sub(self.size);
        self.within("max_index_overhead_bytes", value, max)
    }

    /// Bytes that were counted so far.
    fn memory(&self) -> u64 {
        // The records are in memory together with the header, then with the table of names.
        let records = self.room.saturating_mul(RECORD);
        let table = self.room.saturating_mul(TABLE);
        let memory = records.saturating_add(table.max(self.copy));
        memory.saturating_add(self.memory).saturating_add(self.text)
    }

    fn within(&self, limit: &'static str, value: u64, max: u64) -> Result<()> {
        if value <= max {
            return Ok(());
        }
        let at = self.at(self.json.at(), "header");
        Err(Error::Limit(LimitExceeded {
            limit,
            value,
            max,
            at,
        }))
    }

    /// "Format": the header's object, and what may follow it.
    pub(super) fn header(&mut self) -> Result<()> {
        self.json.eat(b'{');
        if !self.json.eat(b'}') {
            loop {
                self.item()?;
                let more = self.json.more(b'}', "`,` or `}`");
                if !more.map_err(|fault| self.outside(fault))? {
                    break;
                }
            }
        }
        while self.json.peek() == Some(b' ') {
            self.json.eat_exactly(b" ");
        }
        if self.json.peek().is_some() {
            self.json.space();
            if let Some(got) = self.json.peek() {
                let at = self.at(self.json.at(), "header");
                return Err(Error::invalid(Rule::HeaderPadding { got }, at));
            }
            self.oddities
                .push("the header is filled up with other white space than spaces");
        }
        Ok(())
    }

    /// A name of the header, and what it stands for.
    fn item(&mut self) -> Result<()> {
        let name = self.json.text("a name in quotes");
        let name = name.map_err(|fault| self.outside(fault))?;
        let colon = self.json.expect(b':', "`:`");
        colon.map_err(|fault| self.outside(fault))?;
        if name.is(METADATA) {
            return self.metadata();
        }
        let count = (self.ordinal() as u64).saturating_add(1);
        self.within("max_tensor_count", count, self.limits.max_tensor_count)?;
        self.reserve(name.raw.len())?;
        self.tensors.names.push_with(|text| name.append_to(text));
        let record = self.tensor()?;
        self.tensors.records.push(record);
        Ok(())
    }

    /// Makes room for a tensor whose name has so many bytes: for as many tensors, and as much text of their
    /// names, as the rest of the header has if all are like those so far. What grows by itself would take
    /// twice its length.
    #[inline]
    fn reserve(&mut self, name: usize) -> Result<()> {
        let text = self.tensors.names.text_len().saturating_add(name) as u64;
        if (self.ordinal() as u64) < self.room && text <= self.text {
            return Ok(());
        }
        self.grow(name)
    }

    #[cold]
    fn grow(&mut self, name: usize) -> Result<()> {
        let (len, text) = (self.ordinal(), self.tensors.names.text_len());
        let most = self
            .limits
            .max_index_overhead_bytes
            .saturating_add(self.size);
        let free = most.saturating_sub(self.memory).saturating_sub(self.copy);
        // A guess is no reason to fail.
        let fitting = |bytes: u64, each: u64| {
            let fitting = bytes.checked_div(each).unwrap_or(0);
            usize::try_from(fitting).unwrap_or(usize::MAX)
        };
        let (mut tensors, mut bytes) = (0, 0);
        if len as u64 >= self.room {
            let free = free.saturating_sub(self.text);
            let guess = self.in_all(len).min(fitting(free, RECORD + TABLE));
            tensors = guess.saturating_sub(len).max(len / 16).max(64);
            self.room = len.saturating_add(tensors) as u64;
        }
        let needed = text.saturating_add(name);
        if needed as u64 > self.text {
            let free = free.saturating_sub(self.room.saturating_mul(RECORD));
            let guess = self.in_all(text).min(fitting(free, 1));
            let room = guess.max(needed).max(text.saturating_add(text / 16));
            let room = room.max(1024);
            bytes = room.saturating_sub(text);
            self.text = room as u64;
        }
        self.take(0)?;
        let names = &mut self.tensors.names;
        let reserved = names.try_reserve(tensors);
        let reserved = reserved.and_then(|()| names.try_reserve_text(bytes));
        let reserved = reserved.and_then(|()| self.tensors.records.try_reserve_exact(tensors));
        let memory = (tensors as u64).saturating_mul(RECORD);
        let memory = memory.saturating_add(bytes as u64);
        Ok(reserved.map_err(|_| SourceError::OutOfMemory(memory))?)
    }

    /// How many there are in the whole header, if its rest is like what was read.
    fn in_all(&self, so_far: usize) -> usize {
        let done = (self.json.at() as u64).max(1);
        let header = self.data_start.saturating_sub(PREFIX);
        let all = (so_far as u128).saturating_mul(header.into());
        let guess = all.checked_div(done.into()).unwrap_or(0);
        usize::try_from(guess).unwrap_or(usize::MAX)
    }

    /// "Format": `__metadata__` maps text to text; `null` is read as if it were not there.
    fn metadata(&mut self) -> Result<()> {
        let start = self.json.at();
        let fault = |rule| Fault::Rule(rule, start);
        if core::mem::replace(&mut self.has_metadata, true) {
            return Err(self.outside(fault(Rule::MetadataDuplicate)));
        }
        self.json.space();
        if self.json.eat_exactly(b"null") {
            self.oddities.push("__metadata__ is null");
            return Ok(());
        }
        if !self.json.eat(b'{') {
            return Err(self.outside(fault(Rule::MetadataType)));
        }
        if self.json.eat(b'}') {
            return Ok(());
        }
        loop {
            let (key, value) = self.pair().map_err(|fault| self.outside(fault))?;
            let plain = |text: Text<'_>| {
                let mut plain = String::new();
                text.append_to(&mut plain);
                plain.into_boxed_str()
            };
            let count = (self.metadata.len() as u64).saturating_add(1);
            self.within("max_metadata_count", count, self.limits.max_metadata_count)?;
            self.take(MetaEntry::memory(key.raw.len(), value.raw.len()))?;
            self.metadata.push(MetaEntry {
                key: plain(key),
                value: plain(value),
            });
            let more = self.json.more(b'}', "`,` or `}`");
            if !more.map_err(|fault| self.outside(fault))? {
                return Ok(());
            }
        }
    }

    fn pair(&mut self) -> Result<(Text<'a>, Text<'a>), Fault> {
        let key = self.json.text("a key in quotes")?;
        self.json.expect(b':', "`:`")?;
        self.json.space();
        if self.json.peek() != Some(b'"') {
            return Err(Fault::Rule(Rule::MetadataType, self.json.at()));
        }
        Ok((key, self.json.text("a text")?))
    }

    /// "Format": a tensor's object.
    fn tensor(&mut self) -> Result<Record> {
        let start = self.json.at();
        let mut fields = Fields::default();
        let (fault, field) = match self.fields(&mut fields) {
            Ok(()) => match fields.all(start) {
                Ok(record) => return self.checked(fields.place, record),
                Err(fault) => (fault, "tensor"),
            },
            Err(Stop::Fault(fault, field)) => (fault, field),
            Err(Stop::Error(error)) => return Err(error),
        };
        Err(self.inside(fault, field))
    }

    fn fields(&mut self, fields: &mut Fields) -> Result<(), Stop> {
        let of = |field| move |fault| Stop::Fault(fault, field);
        if !self.json.eat(b'{') {
            let fault = Fault::Rule(Rule::TensorType, self.json.at());
            return Err(Stop::Fault(fault, "tensor"));
        }
        if self.json.eat(b'}') {
            return Ok(());
        }
        loop {
            let place = self.json.at();
            let key = self.json.text("a key in quotes").map_err(of("tensor"))?;
            self.json.expect(b':', "`:`").map_err(of("tensor"))?;
            let once = |field, there: bool| match there {
                true => Err(Stop::Fault(
                    Fault::Rule(Rule::FieldDuplicate { field }, place),
                    field,
                )),
                false => Ok(()),
            };
            if key.is("dtype") {
                once("dtype", fields.code.is_some())?;
                fields.code = Some(self.dtype().map_err(|stop| stop.of("dtype"))?);
            } else if key.is("shape") {
                once("shape", fields.shape.is_some())?;
                fields.shape = Some(self.shape().map_err(|stop| stop.of("shape"))?);
            } else if key.is("data_offsets") {
                once("data_offsets", fields.range.is_some())?;
                fields.place = self.json.at();
                fields.range = Some(self.range().map_err(of("data_offsets"))?);
            } else {
                self.extra(key)?;
            }
            let more = self.json.more(b'}', "`,` or `}`");
            if !more.map_err(of("tensor"))? {
                return Ok(());
            }
        }
    }

    fn extra(&mut self, key: Text<'a>) -> Result<(), Stop> {
        let json = self
            .json
            .value()
            .map_err(|fault| Stop::Fault(fault, "tensor"))?;
        let text = (key.raw.len() as u64).saturating_add(json.len() as u64);
        // The text that grows is copied.
        self.take(text.saturating_mul(2).saturating_add(Extras::MEMORY))?;
        let entry = short(self.ordinal());
        let extras = &mut self.tensors.extras;
        extras.push(entry, |out| key.append_to(out), json);
        Ok(())
    }

    /// The place of a dtype among the file's.
    fn dtype(&mut self) -> Result<u32, Stop> {
        self.json.space();
        if self.json.peek() != Some(b'"') {
            let (field, expected) = ("dtype", "a text");
            let rule = Rule::FieldType { field, expected };
            return Err(Stop::from(Fault::Rule(rule, self.json.at())));
        }
        let text = self.json.text("a text")?;
        let mut plain = String::new();
        let name = match text.escaped {
            false => text.raw,
            true => {
                text.append_to(&mut plain);
                &plain
            }
        };
        if let Some(known) = DTypeCode::position(name) {
            return Ok(short(known));
        }
        let unknown = &mut self.tensors.unknown;
        let names = &mut self.unknown_names;
        let at = match names.find(unknown, DTypeCode::name, name) {
            Some(at) => at,
            None => {
                let at = unknown.len();
                // It isn't there, so this does not fail.
                let _ = names.push(unknown, DTypeCode::name, DTypeCode::from_name(name));
                // Lists that grow take twice their own, and texts on the heap 16 bytes more than they have.
                let fixed = (size_of::<DTypeCode>() as u64).saturating_mul(3);
                let memory = fixed.saturating_add(16 + 2 * TABLE);
                self.take(memory.saturating_add(name.len() as u64))?;
                at
            }
        };
        Ok(short(at.saturating_add(DTypeCode::KNOWN)))
    }

    /// The place of a shape among the file's.
    fn shape(&mut self) -> Result<ShapeId, Stop> {
        let field = "shape";
        self.dims.clear();
        self.json.space();
        let start = self.json.at();
        let rule = |rule| Stop::from(Fault::Rule(rule, start));
        if !self.json.eat(b'[') {
            let expected = "a list of numbers";
            return Err(rule(Rule::FieldType { field, expected }));
        }
        let mut product = Some(1u64);
        if !self.json.eat(b']') {
            loop {
                let dim = self.json.number(field)?;
                product = product.and_then(|product| product.checked_mul(dim));
                if self.dims.len() == self.dims.capacity() {
                    let more = self.dims.len().max(16);
                    // The list before it and the shape are in memory at the same time.
                    self.take((more as u64).saturating_mul(24))?;
                    let reserved = self.dims.try_reserve_exact(more);
                    let memory = |_| Error::from(SourceError::OutOfMemory(more as u64));
                    reserved.map_err(memory)?;
                }
                self.dims.push(dim);
                if !self.json.more(b']', "`,` or `]`")? {
                    break;
                }
            }
        }
        if product.is_none() {
            return Err(rule(Rule::Shape));
        }
        let shapes = &mut self.tensors.shapes;
        let before = shapes.memory();
        let shape = shapes.push(&self.dims).map_err(|_| rule(Rule::Shape))?;
        let more = match shapes.memory().saturating_sub(before) {
            0 => 0,
            // A list that grows takes twice its own.
            more => more.saturating_add(size_of::<Shape>() as u64),
        };
        self.take(more)?;
        Ok(shape)
    }

    fn range(&mut self) -> Result<(u64, u64), Fault> {
        let (field, expected) = ("data_offsets", "a list of two numbers");
        self.json.space();
        let start = self.json.at();
        let fault = || Fault::Rule(Rule::FieldType { field, expected }, start);
        if !self.json.eat(b'[') || self.json.eat(b']') {
            return Err(fault());
        }
        let begin = self.json.number(field)?;
        if !self.json.more(b']', "`,` or `]`")? {
            return Err(fault());
        }
        let end = self.json.number(field)?;
        if self.json.more(b']', "`,` or `]`")? {
            return Err(fault());
        }
        match begin <= end {
            true => Ok((begin, end)),
            false => Err(Fault::Rule(Rule::Range { begin, end }, start)),
        }
    }

    /// A tensor within the file, whose size is right where its dtype is known.
    fn checked(&mut self, at: usize, record: Record) -> Result<Record> {
        let (begin, end) = (record.begin, record.end);
        let data_len = self.data_len();
        if end > data_len {
            let entry = self.ordinal() as u64;
            let truncated = Truncated {
                at: self.at(at, "data_offsets").entry(entry),
                needed: end.saturating_sub(begin),
                available: data_len.saturating_sub(begin),
            };
            return Err(Error::from(truncated).of_tensor(self.name()));
        }
        let Some((bits, _)) = DTypeCode::at(record.code) else {
            return Ok(record);
        };
        let shape = self.tensors.shapes.get(record.shape);
        let bits = u128::from(bits).saturating_mul(shape.elements().into());
        let saturated = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        let got = end.saturating_sub(begin);
        let rule = if bits % 8 != 0 {
            let bits = saturated(bits);
            Rule::PartByte { bits }
        } else if bits / 8 != got.into() {
            let expected = saturated(bits / 8);
            Rule::Size { expected, got }
        } else {
            return Ok(record);
        };
        Err(self.inside(Fault::Rule(rule, at), "data_offsets"))
    }
}

/// What a tensor's object has said so far.
#[derive(Default)]
struct Fields {
    code: Option<u32>,
    shape: Option<ShapeId>,
    range: Option<(u64, u64)>,
    place: usize,
}

impl Fields {
    /// The record of all three, or which one is missing from the object that starts there.
    fn all(&self, start: usize) -> Result<Record, Fault> {
        let missing = |field| Fault::Rule(Rule::FieldMissing { field }, start);
        let code = self.code.ok_or_else(|| missing("dtype"))?;
        let shape = self.shape.ok_or_else(|| missing("shape"))?;
        let (begin, end) = self.range.ok_or_else(|| missing("data_offsets"))?;
        Ok(Record {
            begin,
            end,
            shape,
            code,
        })
    }
}

/// Why the reading of a tensor's fields ended early.
enum Stop {
    Fault(Fault, &'static str),
    Error(Error),
}

impl Stop {
    /// This, about a field.
    fn of(self, field: &'static str) -> Self {
        match self {
            Self::Fault(fault, _) => Self::Fault(fault, field),
            error => error,
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault, "tensor")
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
