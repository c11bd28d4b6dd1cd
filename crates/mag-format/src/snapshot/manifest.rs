//! Snapshot 0.3.0: a JSON document that lists the tensors, and data on pages of its own.

#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::codec::{Cursor, NameTable, ShapeId};
use tensor_core::{At, LimitExceeded, Source, Truncated};

use super::json::Json;
use super::{ParsedSnapshot, ShapeFault, Snapshot, Timestamp, Writer, checked_shape};
use crate::index::{Index, check_memory};
use crate::limits::{MAX_RANK, MAX_SIZE};
use crate::tensors::{Record, Tensors};
use crate::{DTypeCode, Error, Generation, ReadOptions, Result, Rule, Unsupported};

/// Size of the header, and the least place of the document.
const HEADER: u64 = 44;
/// Tensors start at multiples of it, and no gap is as long.
const PAGE: u64 = 4096;

const GENERATION: Generation = Generation::Snapshot0_3;

/// The dtypes' long names, in the order of their codes.
const LONG_NAMES: [&str; 13] = [
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "boolean",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
];

/// Parses the file after magic and version, where the cursor stands.
pub(crate) fn parse(
    source: &dyn Source,
    cursor: Cursor<'_>,
    options: &ReadOptions,
) -> Result<Index> {
    let header = Header::parse(cursor, source.size())?;
    let json = Json::new(
        source,
        header.document.clone(),
        options.limits.max_metadata_count,
    )?;
    let mut document = Document {
        json,
        header: &header,
        options,
        tensors: Tensors::default(),
        size: source.size(),
    };
    let snapshot = document.parse()?;
    let tensors = document.tensors;
    check_ranges(&tensors, &header.data)?;
    let found = ParsedSnapshot {
        tensors,
        checksum: None,
        records: None,
        snapshot,
        trailing: Some(source.size().saturating_sub(header.data.end)),
    };
    Index::of_snapshot(GENERATION, found, |first| Rule::TensorDuplicate { first })
}

struct Header {
    document: Range<u64>,
    data: Range<u64>,
}

impl Header {
    fn parse(mut cursor: Cursor<'_>, size: u64) -> Result<Self> {
        cursor.expect_up_to(HEADER);
        let at = cursor.at("aux");
        let aux = cursor.u32_le("aux")?;
        let at_meta = cursor.at("meta_offset");
        let meta = cursor.u64_le("meta_offset")?;
        let at_len = cursor.at("meta_len");
        let meta_len = cursor.u64_le("meta_len")?;
        let at_data = cursor.at("data_offset");
        let data = cursor.u64_le("data_offset")?;
        let at_data_len = cursor.at("data_len");
        let data_len = cursor.u64_le("data_len")?;
        match aux {
            0 => {}
            1 => {
                let what = Unsupported::BigEndian;
                return Err(Error::unsupported(what, at));
            }
            got => {
                let what = Unsupported::ManifestAux { got };
                return Err(Error::unsupported(what, at));
            }
        }
        let invalid = |rule, at| Err(Error::invalid(rule, at));
        if meta < HEADER {
            return invalid(Rule::ManifestMetaOffset { got: meta }, at_meta);
        }
        if meta_len == 0 {
            return invalid(Rule::ManifestMetaLen, at_len);
        }
        let document = meta..within(meta, meta_len, size, at_len)?;
        if data % PAGE != 0 {
            return invalid(Rule::ManifestDataAlignment { got: data }, at_data);
        }
        if data < document.end {
            let rule = Rule::ManifestDataOffset {
                got: data,
                document_end: document.end,
            };
            return invalid(rule, at_data);
        }
        let data = data..within(data, data_len, size, at_data_len)?;
        Ok(Self { document, data })
    }
}

/// The end of `len` bytes at `start`, which must lie in the file.
fn within(start: u64, len: u64, size: u64, at: At) -> Result<u64> {
    match start.checked_add(len) {
        Some(end) if end <= size => Ok(end),
        _ => Err(Error::from(Truncated {
            at,
            needed: len,
            available: size.saturating_sub(start),
        })),
    }
}

struct Document<'a> {
    json: Json<'a>,
    header: &'a Header,
    options: &'a ReadOptions,
    tensors: Tensors,
    /// Bytes of the file.
    size: u64,
}

/// The keys of an object that were met, to find duplicates.
#[derive(Default)]
struct Keys {
    known: u8,
    others: Vec<String>,
    table: NameTable,
}

impl Keys {
    /// Notes a known key by its number; false for a duplicate.
    fn note(&mut self, known: u8) -> bool {
        let bit = 1u8.checked_shl(known.into()).unwrap_or(0);
        let is_new = self.known & bit == 0;
        self.known |= bit;
        is_new
    }

    /// Notes any other key; false for a duplicate.
    fn note_other(&mut self, key: String) -> bool {
        self.table
            .push(&mut self.others, String::as_str, key)
            .is_ok()
    }
}

const TOP: [&str; 6] = [
    "manifest_ver",
    "timestamp",
    "magnetron_ver",
    "snapshot_ver",
    "usr_metadata",
    "tensor_map",
];

const RECORD: [&str; 5] = ["shape", "dtype", "dtype_id", "offset", "nbytes"];

/// The number of a key among those that an object has to have.
fn number_of(known: &[&'static str], key: &str) -> Option<u8> {
    let position = known.iter().position(|&known| known == key)?;
    u8::try_from(position).ok()
}

/// A tensor's record while it is read.
#[derive(Default)]
struct Fields {
    shape: Option<ShapeId>,
    /// The code that the long name stands for, if that is known.
    named: Option<u32>,
    code: Option<u32>,
    offset: Option<u64>,
    nbytes: Option<u64>,
}

impl Document<'_> {
    fn parse(&mut self) -> Result<Snapshot> {
        if !self.json.enter_object()? {
            let at = self.json.at("document");
            let rule = Rule::ManifestJson {
                expected: "an object",
            };
            return Err(Error::invalid(rule, at));
        }
        let mut keys = Keys::default();
        let mut manifest = 0;
        let (mut timestamp, mut magnetron, mut snapshot) = Default::default();
        let mut metadata = Vec::new();
        let mut first = true;
        loop {
            let at = self.json.at("document");
            let Some(key) = self.json.key(&mut first)? else {
                break;
            };
            let known = number_of(&TOP, key);
            self.note(&mut keys, known, at, Rule::ManifestDuplicate)?;
            match known {
                Some(0) => manifest = self.manifest_version()?,
                Some(1) => timestamp = self.text("timestamp")?,
                Some(2) => magnetron = self.text("magnetron_ver")?,
                Some(3) => snapshot = self.text("snapshot_ver")?,
                Some(4) => {
                    let at = self.json.at("usr_metadata");
                    let Some(pairs) = self.json.object()? else {
                        return Err(wrong_type("an object", at));
                    };
                    metadata = pairs;
                }
                Some(_) => self.tensor_map()?,
                None => self.json.skip()?,
            }
        }
        self.missing(&keys, &TOP)?;
        self.json.finish()?;
        Ok(Snapshot {
            timestamp: Timestamp::Text(timestamp),
            writer: Some(Box::new(Writer {
                magnetron,
                manifest,
                snapshot,
            })),
            metadata,
        })
    }

    /// Notes the key that was just read.
    fn note(&mut self, keys: &mut Keys, known: Option<u8>, at: At, rule: Rule) -> Result<()> {
        let is_new = match known {
            Some(known) => keys.note(known),
            None => keys.note_other(self.json.text().to_string()),
        };
        match is_new {
            true => Ok(()),
            false => Err(Error::invalid(rule, at)),
        }
    }

    /// Refuses an object that has ended without one of its keys.
    fn missing(&self, keys: &Keys, known: &[&'static str]) -> Result<()> {
        let mut absent = Keys {
            known: keys.known,
            ..Keys::default()
        };
        for (number, &key) in (0u8..).zip(known) {
            if absent.note(number) {
                let rule = Rule::ManifestMissing { key };
                let at = self.json.at("document");
                return Err(Error::invalid(rule, at));
            }
        }
        Ok(())
    }

    fn manifest_version(&mut self) -> Result<u64> {
        let at = self.json.at("manifest_ver");
        match self.json.integer()? {
            Some(1) => Ok(1),
            Some(_) => {
                let what = Unsupported::Manifest;
                Err(Error::unsupported(what, at))
            }
            None => Err(wrong_type("an integer", at)),
        }
    }

    fn text(&mut self, field: &'static str) -> Result<String> {
        let at = self.json.at(field);
        match self.json.text_value()? {
            Some(text) => Ok(text.to_string()),
            None => Err(wrong_type("a string", at)),
        }
    }

    fn tensor_map(&mut self) -> Result<()> {
        let at = self.json.at("tensor_map");
        if !self.json.enter_object()? {
            return Err(wrong_type("an object", at));
        }
        let mut first = true;
        loop {
            self.json.set_entry(Some(self.tensors.len() as u64));
            let record_offset = self.json.at("key").offset;
            let Some(name) = self.json.key(&mut first)? else {
                break;
            };
            let name: Box<str> = name.into();
            let (value, max) = (
                self.tensors.len() as u64,
                self.options.limits.max_tensor_count,
            );
            if value >= max {
                return Err(Error::Limit(LimitExceeded {
                    limit: "max_tensor_count",
                    value: value.saturating_add(1),
                    max,
                    at: self.json.at("tensor_map"),
                }));
            }
            let record = self
                .record(record_offset)
                .map_err(|error| error.of_tensor(&name))?;
            self.tensors.push(&name, record);
            let text = record_offset.saturating_sub(HEADER);
            let memory = self.tensors.memory().saturating_add(text);
            check_memory(memory, self.size, self.options, self.json.at("tensor_map"))?;
        }
        self.json.set_entry(None);
        Ok(())
    }

    fn record(&mut self, record_offset: u64) -> Result<Record> {
        let at = self.json.at("tensor_map");
        if !self.json.enter_object()? {
            return Err(wrong_type("an object", at));
        }
        let mut keys = Keys::default();
        let mut fields = Fields::default();
        let mut first = true;
        loop {
            let at = self.json.at("document");
            let Some(key) = self.json.key(&mut first)? else {
                break;
            };
            let known = number_of(&RECORD, key);
            self.note(&mut keys, known, at, Rule::ManifestDuplicate)?;
            match known {
                Some(0) => fields.shape = Some(self.shape()?),
                Some(1) => {
                    let at = self.json.at("dtype");
                    let Some(name) = self.json.text_value()? else {
                        return Err(wrong_type("a string", at));
                    };
                    let position = LONG_NAMES.iter().position(|&known| known == name);
                    fields.named = position.and_then(|position| u32::try_from(position).ok());
                }
                Some(2) => {
                    let id = self.unsigned("dtype_id", u64::MAX)?;
                    fields.code = Some(u32::try_from(id).unwrap_or(u32::MAX));
                }
                Some(3) => fields.offset = Some(self.exact("offset")?),
                Some(_) => fields.nbytes = Some(self.exact("nbytes")?),
                None => self.json.skip()?,
            }
        }
        self.missing(&keys, &RECORD)?;
        self.checked(record_offset, fields)
    }

    /// Compares the fields of a record with each other.
    fn checked(&self, record_offset: u64, fields: Fields) -> Result<Record> {
        let ordinal = self.tensors.len();
        let at = |field| At::new(record_offset, field).entry(ordinal as u64);
        let shape = fields.shape.unwrap_or(ShapeId::NONE);
        let code = DTypeCode::new(GENERATION, fields.code.unwrap_or_default());
        let nbytes = fields.nbytes.unwrap_or_default();
        if let Some(dtype) = code.dtype() {
            if let Some(named) = fields.named.filter(|&named| named != code.code()) {
                let rule = Rule::ManifestDType {
                    id: code.code(),
                    named,
                };
                let at = at("dtype");
                return Err(Error::invalid(rule, at));
            }
            let expected = self
                .tensors
                .shapes
                .get(shape)
                .byte_len(dtype)
                .ok()
                .flatten();
            if expected != Some(nbytes) {
                let rule = Rule::ManifestNbytes {
                    expected: expected.unwrap_or(u64::MAX),
                    got: nbytes,
                };
                let at = at("nbytes");
                return Err(Error::invalid(rule, at));
            }
        } else if let Some(named) = fields.named {
            let id = code.code();
            let rule = Rule::ManifestDType { id, named };
            let at = at("dtype");
            return Err(Error::invalid(rule, at));
        }
        let offset = fields.offset.unwrap_or_default();
        let data = &self.header.data;
        let len = data.end.saturating_sub(data.start);
        let fits = offset.checked_add(nbytes).is_some_and(|end| end <= len);
        if !fits {
            let rule = Rule::ManifestRange {
                offset,
                nbytes,
                data_len: len,
            };
            let at = at("offset");
            return Err(Error::invalid(rule, at));
        }
        if nbytes > 0 && offset % PAGE != 0 {
            let rule = Rule::ManifestOffsetAlignment { got: offset };
            let at = at("offset");
            return Err(Error::invalid(rule, at));
        }
        let offset = data.start.saturating_add(offset);
        Ok(Record::new(
            record_offset,
            code,
            shape,
            offset,
            Some(nbytes),
        ))
    }

    fn shape(&mut self) -> Result<ShapeId> {
        let at = self.json.at("shape");
        if !self.json.enter_array()? {
            return Err(wrong_type("an array", at));
        }
        let mut dims: Vec<u64> = Vec::new();
        let mut first = true;
        while self.json.item(&mut first)? {
            if dims.len() >= MAX_RANK {
                let rule = Rule::ManifestRank;
                return Err(Error::invalid(rule, at));
            }
            let at = self.json.at("shape");
            match self.json.integer()? {
                Some(dim) if dim >= 0 => match u64::try_from(dim) {
                    Ok(dim) if dim <= MAX_SIZE => dims.push(dim),
                    _ => {
                        let rule = Rule::ManifestDim;
                        return Err(Error::invalid(rule, at));
                    }
                },
                _ => return Err(wrong_type("integers of 0 to 2^63-1", at)),
            }
        }
        checked_shape(&dims, &mut self.tensors.shapes).map_err(|fault| {
            let rule = match fault {
                ShapeFault::Dim(_) => Rule::ManifestDim,
                ShapeFault::Product => Rule::ManifestShape,
            };
            Error::invalid(rule, at)
        })
    }

    /// An integer of at least 0; `above` stands for those beyond 64 bits.
    fn unsigned(&mut self, field: &'static str, above: u64) -> Result<u64> {
        let at = self.json.at(field);
        match self.json.integer()? {
            Some(value) if value >= 0 => Ok(u64::try_from(value).unwrap_or(above)),
            _ => Err(wrong_type("an integer of at least 0", at)),
        }
    }

    /// An integer of 0 to 2^64-1.
    fn exact(&mut self, field: &'static str) -> Result<u64> {
        let at = self.json.at(field);
        let value = self.json.integer()?;
        value
            .and_then(|value| u64::try_from(value).ok())
            .ok_or_else(|| wrong_type("an integer of 0 to 2^64-1", at))
    }
}

fn wrong_type(expected: &'static str, at: At) -> Error {
    let rule = Rule::ManifestType { expected };
    Error::invalid(rule, at)
}

/// Checks that tensors share no byte and leave no gap of a page, and that none without bytes
/// starts inside another.
fn check_ranges(tensors: &Tensors, data: &Range<u64>) -> Result<()> {
    let invalid = |rule, ordinal: usize| {
        let at = At::new(tensors.record(ordinal).record_offset, "offset").entry(ordinal as u64);
        Err(Error::invalid(rule, at).of_tensor(tensors.names.get(ordinal)))
    };
    let end_of = |record: &Record| record.offset.saturating_add(record.len().unwrap_or(0));
    let is_full = |record: &Record| record.len().is_some_and(|len| len > 0);
    let all = tensors.records.iter().zip(0usize..);
    let mut full: Vec<(&Record, usize)> =
        all.clone().filter(|(record, _)| is_full(record)).collect();
    full.sort_unstable_by_key(|(record, _)| record.offset);
    let mut previous: Option<(&Record, usize)> = None;
    for &(record, ordinal) in &full {
        let end = previous.map_or(data.start, |(previous, _)| end_of(previous));
        if record.offset < end {
            let other = previous.map_or(0, |(_, previous)| previous as u64);
            return invalid(Rule::ManifestOverlap { other }, ordinal);
        }
        let gap = record.offset.saturating_sub(end);
        if gap >= PAGE {
            return invalid(Rule::ManifestGap { got: gap }, ordinal);
        }
        previous = Some((record, ordinal));
    }
    let end = previous.map_or(data.start, |(previous, _)| end_of(previous));
    let gap = data.end.saturating_sub(end);
    if gap >= PAGE {
        let rule = Rule::ManifestGap { got: gap };
        let at = At::new(36, "data_len");
        return Err(Error::invalid(rule, at));
    }
    for (record, ordinal) in all.filter(|(record, _)| !is_full(record)) {
        let before = full.partition_point(|(full, _)| full.offset < record.offset);
        let other = before.checked_sub(1).and_then(|before| full.get(before));
        if let Some(&(_, other)) = other.filter(|(other, _)| end_of(other) > record.offset) {
            let other = other as u64;
            return invalid(Rule::ManifestInside { other }, ordinal);
        }
    }
    Ok(())
}
