#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use tensor_core::codec::{ArchiveId, NameTable, ShapeId, Shapes, check_index_memory};
use tensor_core::{At, LimitExceeded, Shape, Source, SourceError, Truncated};

use crate::json::{Fault, Reader, Text};
use crate::layout::{METADATA, PREFIX, header_len};
use crate::meta::{Extras, MetaEntry};
use crate::read::Entry;
use crate::{DTypeCode, Error, Limits, ReadOptions, Result, Rule};

/// Everything that a file says about its tensors. One that exists is valid: the ranges tile the
/// data, every size of a known dtype is right, every name unique.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) id: ArchiveId,
    pub(crate) entries: Vec<Entry>,
    pub(crate) metadata: Vec<MetaEntry>,
    pub(crate) data_start: u64,
    /// What readers tolerate, but the format's text doesn't say.
    pub(crate) oddities: Vec<&'static str>,
    names: NameTable,
    metadata_names: NameTable,
}

/// What the entries of a file have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: ArchiveId,
    /// All names, one behind the other.
    pub(crate) names: String,
    pub(crate) shapes: Shapes,
    /// The known dtypes, and those that only this file has.
    pub(crate) codes: Vec<DTypeCode>,
    pub(crate) extras: Extras,
}

impl Shared {
    /// Gives back room for what did not come, where it is much.
    fn shrink(&mut self) {
        self.shapes.shrink();
        let len = self.names.len();
        if self.names.capacity() > len.saturating_add(len / 8) {
            self.names.shrink_to_fit();
        }
    }
}

/// A tensor as the header lists it, with offsets from the start of the data. Places are in 32 bits,
/// which hold every place in a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) name_start: u32,
    pub(crate) name_len: u32,
    pub(crate) shape: ShapeId,
    pub(crate) code: u32,
}

impl Index {
    pub(crate) fn parse(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let header_len = header_len(source, &options.limits)?;
        let data_start = PREFIX.saturating_add(header_len);
        let header = source.read(PREFIX..data_start)?;
        check_start(&header)?;
        let Ok(text) = core::str::from_utf8(&header) else {
            return Err(Error::invalid(Rule::HeaderUtf8, At::new(PREFIX, "header")));
        };
        let size = source.size();
        let mut parser = Parser::new(text, size, data_start, &options.limits);
        if source.contiguous().is_none() {
            parser.copy = header_len;
        }
        parser.header()?;
        check_tiling(&parser)?;
        let Parser {
            mut shared,
            records,
            metadata,
            oddities,
            ..
        } = parser;
        let metadata_names = NameTable::of(&metadata, MetaEntry::key).map_err(|twice| {
            let at = At::new(PREFIX, METADATA).entry(twice.second as u64);
            Error::invalid(Rule::MetadataKeyTwice, at)
        })?;
        // It is gone where it was read from a file, before its place is needed for the entries.
        drop(header);
        shared.shrink();
        let id = shared.id;
        let entries = entries_of(Arc::new(shared), records, data_start)?;
        let names = NameTable::of(&entries, Entry::name).map_err(|twice| Error::Invalid {
            rule: Rule::NameTwice {
                first: twice.first as u64,
            },
            at: At::new(PREFIX, "name").entry(twice.second as u64),
            tensor: entries.get(twice.second).map(|entry| entry.name().into()),
            other: None,
        })?;
        Ok(Self {
            id,
            entries,
            metadata,
            data_start,
            oddities,
            names,
            metadata_names,
        })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries
            .get(self.names.find(&self.entries, Entry::name, name)?)
    }

    pub(crate) fn find_metadata(&self, key: &str) -> Option<&MetaEntry> {
        self.metadata.get(
            self.metadata_names
                .find(&self.metadata, MetaEntry::key, key)?,
        )
    }
}

fn entries_of(shared: Arc<Shared>, records: Vec<Record>, data_start: u64) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let memory = (records.len() as u64).saturating_mul(size_of::<Entry>() as u64);
    entries
        .try_reserve_exact(records.len())
        .map_err(|_| SourceError::OutOfMemory(memory))?;
    for (ordinal, record) in (0u32..).zip(records) {
        entries.push(Entry {
            shared: shared.clone(),
            offset: data_start.saturating_add(record.begin),
            len: record.end.saturating_sub(record.begin),
            name_start: record.name_start,
            name_len: record.name_len,
            shape: record.shape,
            code: record.code,
            ordinal,
        });
    }
    Ok(entries)
}

/// "Notes": the header begins with `{`.
fn check_start(header: &[u8]) -> Result<()> {
    match header.first() {
        Some(b'{') => Ok(()),
        got => {
            let rule = Rule::HeaderStart { got: got.copied() };
            Err(Error::invalid(rule, At::new(PREFIX, "header")))
        }
    }
}

/// "Notes": sorted by offset the tensors begin at 0, leave no hole, share no byte, and end with the
/// file, whatever is known of their dtypes. None ends beyond the file; that was seen before.
fn check_tiling(parser: &Parser<'_>) -> Result<()> {
    let records = &parser.records;
    let mut end = 0;
    let in_order = records.iter().all(|record| {
        let next = record.begin == end;
        end = record.end;
        next
    });
    if !in_order {
        let mut sorted: Vec<u32> = Vec::new();
        sorted
            .try_reserve_exact(records.len())
            .map_err(|_| SourceError::OutOfMemory(records.len() as u64))?;
        sorted.extend((0u32..).zip(records).map(|(at, _)| at));
        let record = |at: u32| records.get(place(at));
        sorted.sort_by_key(|&at| record(at).map(|record| (record.begin, record.end)));
        end = 0;
        let mut before: Option<u32> = None;
        for at in sorted {
            let Some(record) = record(at) else { continue };
            if record.begin != end {
                let rule = match record.begin > end {
                    true => Rule::Hole {
                        begin: end,
                        end: record.begin,
                    },
                    false => Rule::Overlap { end },
                };
                let name = |at: u32| parser.name_of(at).map(Box::from);
                let data = parser.data_start.saturating_add(record.begin);
                return Err(Error::Invalid {
                    rule,
                    at: At::new(data, "data_offsets").entry(at.into()),
                    tensor: name(at),
                    other: before
                        .filter(|_| matches!(rule, Rule::Overlap { .. }))
                        .and_then(name),
                });
            }
            end = record.end;
            before = Some(at);
        }
    }
    let data_len = parser.data_len();
    if end != data_len {
        let bytes = data_len.saturating_sub(end);
        let at = At::new(parser.data_start.saturating_add(end), "data");
        return Err(Error::invalid(Rule::Trailing { bytes }, at));
    }
    Ok(())
}

/// A place as this host counts them.
pub(crate) fn place(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// A length as headers' places are kept.
fn short(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Bytes of memory of a tensor while the header is read.
const RECORD: u64 = size_of::<Record>() as u64;
/// Bytes of memory of a tensor that is listed; the table of names is smaller than the record.
const ENTRY: u64 = size_of::<Entry>() as u64;

/// Reads a header, front to back.
struct Parser<'a> {
    json: Reader<'a>,
    limits: &'a Limits,
    size: u64,
    data_start: u64,
    /// What a copy of the header takes of memory, and texts, shapes and keys.
    copy: u64,
    memory: u64,
    /// For how many tensors there is room, and for how much text of their names.
    room: u64,
    text: u64,
    shared: Shared,
    records: Vec<Record>,
    metadata: Vec<MetaEntry>,
    oddities: Vec<&'static str>,
    has_metadata: bool,
    dims: Vec<u64>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, size: u64, data_start: u64, limits: &'a Limits) -> Self {
        // A tensor's object is the second level.
        let depth = limits.max_value_depth.saturating_sub(2);
        Self {
            json: Reader::new(text, usize::try_from(depth).unwrap_or(usize::MAX)),
            limits,
            size,
            data_start,
            copy: 0,
            memory: 0,
            room: 0,
            text: 0,
            shared: Shared {
                id: ArchiveId::next(),
                names: String::new(),
                shapes: Shapes::default(),
                codes: DTypeCode::known().collect(),
                extras: Extras::default(),
            },
            records: Vec::new(),
            metadata: Vec::new(),
            oddities: Vec::new(),
            has_metadata: false,
            dims: Vec::new(),
        }
    }

    fn data_len(&self) -> u64 {
        self.size.saturating_sub(self.data_start)
    }

    /// The name of a tensor that was listed.
    fn name_of(&self, at: u32) -> Option<&str> {
        let record = self.records.get(place(at))?;
        self.name_at(record.name_start, record.name_len)
    }

    fn name_at(&self, start: u32, len: u32) -> Option<&str> {
        let end = place(start).saturating_add(place(len));
        self.shared.names.get(place(start)..end)
    }

    /// The place of a byte of the header, in the record that is being read.
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

    /// An error about the tensor whose name begins here among the names.
    #[cold]
    fn inside(&self, fault: Fault, name_start: u32, field: &'static str) -> Error {
        let entry = self.records.len() as u64;
        match fault {
            Fault::Rule(rule, place) => Error::Invalid {
                rule,
                at: self.at(place, field).entry(entry),
                tensor: self
                    .shared
                    .names
                    .get(self::place(name_start)..)
                    .map(Box::from),
                other: None,
            },
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
        // The records are there together with the header, then with the entries.
        let records = self.room.saturating_mul(RECORD);
        let entries = self.room.saturating_mul(ENTRY);
        let memory = records.saturating_add(entries.max(self.copy));
        let memory = memory.saturating_add(self.memory).saturating_add(self.text);
        check_index_memory(memory)?;
        let max = self.limits.max_index_overhead_bytes;
        let value = memory.saturating_sub(self.size);
        self.within("max_index_overhead_bytes", value, max)
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
    fn header(&mut self) -> Result<()> {
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
        let count = (self.records.len() as u64).saturating_add(1);
        self.within("max_tensor_count", count, self.limits.max_tensor_count)?;
        let start = short(self.shared.names.len());
        self.reserve_names(name.raw.len())?;
        name.append_to(&mut self.shared.names);
        let len = short(self.shared.names.len()).saturating_sub(start);
        self.reserve()?;
        let record = self.tensor(start, len)?;
        self.records.push(record);
        Ok(())
    }

    /// Makes room for as many tensors as the rest of the header has, if all are like those so far.
    fn reserve(&mut self) -> Result<()> {
        let len = self.records.len();
        if len < self.records.capacity() {
            return Ok(());
        }
        let guess = self.in_all(len);
        // A guess is no reason to fail.
        let most = self
            .limits
            .max_index_overhead_bytes
            .saturating_add(self.size);
        let free = most.saturating_sub(self.memory).saturating_sub(self.copy);
        let room = usize::try_from(free / (RECORD + ENTRY)).unwrap_or(usize::MAX);
        let more = guess.min(room).saturating_sub(len).max(len / 16).max(64);
        self.room = len.saturating_add(more) as u64;
        self.take(0)?;
        let fault = |_| SourceError::OutOfMemory(self.room.saturating_mul(RECORD));
        Ok(self.records.try_reserve_exact(more).map_err(fault)?)
    }

    /// How many there are in the whole header, if its rest is like what was read.
    fn in_all(&self, so_far: usize) -> usize {
        let done = (self.json.at() as u64).max(1);
        let header = self.data_start.saturating_sub(PREFIX);
        let all = (so_far as u128).saturating_mul(header.into());
        let guess = all.checked_div(done.into()).unwrap_or(0);
        usize::try_from(guess).unwrap_or(usize::MAX)
    }

    /// Makes room for a name, and for as much text as the names of the rest of the header have if all are like
    /// those so far: text that grows by itself would take twice its length.
    fn reserve_names(&mut self, more: usize) -> Result<()> {
        let len = self.shared.names.len();
        let needed = len.saturating_add(more);
        if needed <= self.shared.names.capacity() {
            return Ok(());
        }
        let guess = self.in_all(len);
        let most = self
            .limits
            .max_index_overhead_bytes
            .saturating_add(self.size)
            .saturating_sub(self.memory)
            .saturating_sub(self.copy)
            .saturating_sub(self.room.saturating_mul(RECORD));
        // A guess is no reason to fail.
        let guess = guess.min(usize::try_from(most).unwrap_or(usize::MAX));
        let room = guess
            .max(needed)
            .max(len.saturating_add(len / 16))
            .max(1024);
        self.text = room as u64;
        self.take(0)?;
        let fault = |_| SourceError::OutOfMemory(room as u64);
        let names = &mut self.shared.names;
        Ok(names
            .try_reserve_exact(room.saturating_sub(len))
            .map_err(fault)?)
    }

    /// "Format": `__metadata__` maps text to text; `null` is read as if it were not there.
    fn metadata(&mut self) -> Result<()> {
        let start = self.json.at();
        let fault = |rule| Fault::Rule(rule, start);
        if core::mem::replace(&mut self.has_metadata, true) {
            return Err(self.outside(fault(Rule::MetadataTwice)));
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
            // Texts on the heap take 16 bytes more than they have, a list that grows twice its own.
            let fixed = (size_of::<MetaEntry>() as u64).saturating_mul(2);
            let text = (key.raw.len() as u64).saturating_add(value.raw.len() as u64);
            self.take(
                fixed
                    .saturating_add(NameTable::MEMORY + 32)
                    .saturating_add(text),
            )?;
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
    fn tensor(&mut self, name_start: u32, name_len: u32) -> Result<Record> {
        let names = self.shared.names.len();
        let start = self.json.at();
        let mut fields = Fields::default();
        let read = self.fields(&mut fields);
        // An unknown key may stand behind the name while it is read.
        self.shared.names.truncate(names);
        let (fault, field) = match read {
            Ok(()) => match fields.all(start) {
                Ok((code, shape, (begin, end))) => {
                    return self.checked(
                        fields.place,
                        Record {
                            begin,
                            end,
                            name_start,
                            name_len,
                            shape,
                            code,
                        },
                    );
                }
                Err(fault) => (fault, "tensor"),
            },
            Err(Stop::Fault(fault, field)) => (fault, field),
            Err(Stop::Error(error)) => return Err(error),
        };
        Err(self.inside(fault, name_start, field))
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
            let twice = |field, there: bool| match there {
                true => Err(Stop::Fault(
                    Fault::Rule(Rule::FieldTwice { field }, place),
                    field,
                )),
                false => Ok(()),
            };
            if key.is("dtype") {
                twice("dtype", fields.code.is_some())?;
                fields.code = Some(self.dtype().map_err(|stop| stop.of("dtype"))?);
            } else if key.is("shape") {
                twice("shape", fields.shape.is_some())?;
                fields.shape = Some(self.shape().map_err(|stop| stop.of("shape"))?);
            } else if key.is("data_offsets") {
                twice("data_offsets", fields.range.is_some())?;
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
        // The text of a list that grows may be there twice.
        self.take(text.saturating_mul(2).saturating_add(Extras::MEMORY))?;
        let entry = short(self.records.len());
        self.shared
            .extras
            .push(entry, |out| key.append_to(out), json);
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
        // One tensor like the next has the same.
        let codes = &mut self.shared.codes;
        let last = codes.last().filter(|last| last.name() == name);
        if last.is_none() {
            codes.push(DTypeCode::from_name(name));
            let len = codes.len();
            let fixed = (size_of::<DTypeCode>() as u64).saturating_mul(3);
            let memory = fixed.saturating_add(name.len() as u64);
            self.take(memory)?;
            return Ok(short(len).saturating_sub(1));
        }
        Ok(short(codes.len()).saturating_sub(1))
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
                    // Those of the list before it, and of the shape, are there at the same time.
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
        let shapes = &mut self.shared.shapes;
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
        let fault = Fault::Rule(Rule::FieldType { field, expected }, start);
        if !self.json.eat(b'[') || self.json.eat(b']') {
            return Err(fault);
        }
        let begin = self.json.number(field)?;
        if !self.json.more(b']', "`,` or `]`")? {
            return Err(fault);
        }
        let end = self.json.number(field)?;
        if self.json.more(b']', "`,` or `]`")? {
            return Err(fault);
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
            let entry = self.records.len() as u64;
            let truncated = Truncated {
                at: self.at(at, "data_offsets").entry(entry),
                needed: end.saturating_sub(begin),
                available: data_len.saturating_sub(begin),
            };
            let name = self.name_at(record.name_start, record.name_len);
            let tensor = name.unwrap_or_default().into();
            return Err(Error::TruncatedData { tensor, truncated });
        }
        let shared = &self.shared;
        let bits = shared
            .codes
            .get(place(record.code))
            .and_then(DTypeCode::bits);
        let shape = shared.shapes.get(record.shape);
        if let Some(bits) = bits {
            let bits = u128::from(bits).saturating_mul(shape.elements().into());
            let saturated = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
            let got = end.saturating_sub(begin);
            let rule = if bits % 8 != 0 {
                let bits = saturated(bits);
                Some(Rule::PartByte { bits })
            } else if bits / 8 != got.into() {
                let expected = saturated(bits / 8);
                Some(Rule::Size { expected, got })
            } else {
                None
            };
            if let Some(rule) = rule {
                let fault = Fault::Rule(rule, at);
                return Err(self.inside(fault, record.name_start, "data_offsets"));
            }
        }
        Ok(record)
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
    /// All three, or which one is missing from the object that starts there.
    fn all(&self, start: usize) -> Result<(u32, ShapeId, (u64, u64)), Fault> {
        let missing = |field| Fault::Rule(Rule::FieldMissing { field }, start);
        Ok((
            self.code.ok_or_else(|| missing("dtype"))?,
            self.shape.ok_or_else(|| missing("shape"))?,
            self.range.ok_or_else(|| missing("data_offsets"))?,
        ))
    }
}

/// Why the reading of a tensor's fields ended early.
enum Stop {
    Fault(Fault, &'static str),
    Error(Error),
}

impl Stop {
    /// The same, about a field.
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
