//! The JSON that says which shard each tensor is in.

#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::codec::NameTable;
use tensor_core::{At, LimitExceeded, Source};

use crate::index::place;
use crate::json::{Fault, Reader};
use crate::{Error, Limits, Result, Rule};

/// What the index says, compared with no shard yet.
pub(super) struct SetIndex {
    /// The names one after the other.
    names: String,
    records: Vec<Record>,
    table: NameTable,
    /// The shards as they are named, each once, sorted.
    pub(super) shards: Vec<Box<str>>,
    /// How many tensors each of them should have.
    pub(super) tensors: Vec<u64>,
    /// The JSON of `total_size`.
    pub(super) total_size: Option<Box<str>>,
    /// The other keys beside it, each with its JSON.
    pub(super) metadata: Vec<(Box<str>, Box<str>)>,
}

/// A name, and where it should be.
#[derive(Clone, Copy)]
struct Record {
    start: u32,
    len: u32,
    shard: u32,
}

impl SetIndex {
    /// Reads the JSON; `own_name` is that of the file that it is in, which can be no shard.
    pub(super) fn parse(source: &dyn Source, own_name: &str, limits: &Limits) -> Result<Self> {
        let (value, max) = (source.size(), limits.max_header_bytes.min(u32::MAX.into()));
        let at = At::new(0, "index");
        if value > max {
            let limit = "max_header_bytes";
            return Err(Error::Limit(LimitExceeded {
                limit,
                value,
                max,
                at,
            }));
        }
        let bytes = source.read(0..value)?;
        if bytes.starts_with(LFS_POINTER) {
            return Err(Error::invalid(Rule::LfsPointer, at));
        }
        let text = core::str::from_utf8(&bytes);
        let text = text.map_err(|_| Error::invalid(Rule::IndexUtf8, at))?;
        let depth = usize::try_from(limits.max_value_depth).unwrap_or(usize::MAX);
        let mut parser = Parser {
            // The index's own object is the first level.
            json: Reader::new(text, depth.saturating_sub(1)),
            own_name,
            names: String::new(),
            records: Vec::new(),
            shards: Vec::new(),
            shard_names: NameTable::default(),
            total_size: None,
            metadata: None,
            has_map: false,
        };
        parser.read().map_err(|error| match error {
            ParseError::Fault(Fault::Rule(rule, place)) => {
                Error::invalid(rule.of_index(), At::new(place as u64, "index"))
            }
            ParseError::Fault(Fault::Depth(place)) => Error::Limit(LimitExceeded {
                limit: "max_value_depth",
                value: limits.max_value_depth.saturating_add(1),
                max: limits.max_value_depth,
                at: At::new(place as u64, "index"),
            }),
            ParseError::Error(error) => error,
        })?;
        parser.finish(limits)
    }

    /// The shard that should have the tensor of this name, and the tensor's number here.
    pub(super) fn find(&self, name: &str) -> Option<(usize, u32)> {
        let at = self.table.find_at(|at| self.name(at), name)?;
        Some((at, self.records.get(at)?.shard))
    }

    /// The name with this number.
    pub(super) fn name(&self, at: usize) -> &str {
        let record = self.records.get(at);
        record.map_or("", |record| slice(&self.names, *record))
    }

    pub(super) fn shard(&self, at: usize) -> Option<u32> {
        self.records.get(at).map(|record| record.shard)
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}

/// How a Git LFS pointer begins, a file in place of one that is elsewhere.
pub(super) const LFS_POINTER: &[u8] = b"version https://git-lfs";

fn slice(names: &str, record: Record) -> &str {
    let start = place(record.start);
    let end = start.saturating_add(place(record.len));
    names.get(start..end).unwrap_or_default()
}

enum ParseError {
    Fault(Fault),
    Error(Error),
}

impl From<Fault> for ParseError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

struct Parser<'a> {
    json: Reader<'a>,
    own_name: &'a str,
    names: String,
    records: Vec<Record>,
    shards: Vec<Box<str>>,
    shard_names: NameTable,
    total_size: Option<Box<str>>,
    metadata: Option<Vec<(Box<str>, Box<str>)>>,
    has_map: bool,
}

impl<'a> Parser<'a> {
    fn read(&mut self) -> Result<(), ParseError> {
        self.json.expect(b'{', "`{`")?;
        if !self.json.eat(b'}') {
            loop {
                self.json.space();
                let start = self.json.at();
                let key = self.json.text("a key in quotes")?;
                self.json.expect(b':', "`:`")?;
                self.json.space();
                match (key.is("weight_map"), key.is("metadata")) {
                    (true, _) if self.has_map => return Err(duplicate(start)),
                    (_, true) if self.metadata.is_some() => return Err(duplicate(start)),
                    (true, _) => self.weight_map()?,
                    (_, true) => self.about()?,
                    _ => drop(self.json.value()?),
                }
                if !self.json.more(b'}', "`,` or `}`")? {
                    break;
                }
            }
        }
        self.json.space();
        match self.json.peek() {
            Some(_) => Err(self.json.expected("the end of the file").into()),
            None => Ok(()),
        }
    }

    /// `metadata`, which may be anything: loaders never look at it.
    fn about(&mut self) -> Result<(), ParseError> {
        let mut pairs = Vec::new();
        if self.json.peek() != Some(b'{') {
            self.json.value()?;
        } else if self.json.expect(b'{', "`{`").is_ok() && !self.json.eat(b'}') {
            loop {
                let key = self.json.text("a key in quotes")?;
                self.json.expect(b':', "`:`")?;
                let value = self.json.value()?.into();
                match key.is("total_size") {
                    true => self.total_size = Some(value),
                    false => {
                        let mut plain = String::new();
                        key.append_to(&mut plain);
                        pairs.push((plain.into(), value));
                    }
                }
                if !self.json.more(b'}', "`,` or `}`")? {
                    break;
                }
            }
        }
        self.metadata = Some(pairs);
        Ok(())
    }

    fn weight_map(&mut self) -> Result<(), ParseError> {
        self.has_map = true;
        if self.json.peek() != Some(b'{') {
            return Err(Fault::Rule(Rule::WeightMap, self.json.at()).into());
        }
        self.json.expect(b'{', "`{`")?;
        if self.json.eat(b'}') {
            return Ok(());
        }
        let mut file = String::new();
        loop {
            let name = self.json.text("a name in quotes")?;
            let start = self.names.len();
            name.append_to(&mut self.names);
            self.json.expect(b':', "`:`")?;
            self.json.space();
            let at = self.json.at();
            if self.json.peek() != Some(b'"') {
                return Err(self.wrong(Rule::WeightMap, at, start));
            }
            file.clear();
            self.json.text("a file name")?.append_to(&mut file);
            if !is_beside(&file) || file == self.own_name {
                let shard = file.as_str().into();
                return Err(self.wrong(Rule::ShardPath { shard }, at, start));
            }
            let shard = self.shard(&file);
            self.records.push(Record {
                start: short(start),
                len: short(self.names.len().saturating_sub(start)),
                shard,
            });
            if !self.json.more(b'}', "`,` or `}`")? {
                return Ok(());
            }
        }
    }

    /// The number of the shard of this name.
    fn shard(&mut self, file: &str) -> u32 {
        // Most often it is the one before.
        if let Some(last) = self.records.last() {
            if self
                .shards
                .get(place(last.shard))
                .is_some_and(|name| **name == *file)
            {
                return last.shard;
            }
        }
        let known = self.shard_names.find(&self.shards, |name| name, file);
        short(known.unwrap_or_else(|| {
            let at = self.shards.len();
            // It isn't there, so this does not fail.
            let _ = self
                .shard_names
                .push(&mut self.shards, |name| name, Box::from(file));
            at
        }))
    }

    /// An error about the tensor whose name is the last one.
    fn wrong(&self, rule: Rule, at: usize, name_start: usize) -> ParseError {
        let at = At::new(at as u64, "weight_map").entry(self.records.len() as u64);
        let name = self.names.get(name_start..).unwrap_or_default();
        ParseError::Error(Error::invalid(rule, at).of_tensor(name))
    }

    fn finish(self, limits: &Limits) -> Result<SetIndex> {
        if !self.has_map {
            return Err(Error::invalid(Rule::WeightMap, At::new(0, "weight_map")));
        }
        let (value, max) = (self.records.len() as u64, limits.max_tensor_count);
        if value > max {
            return Err(Error::Limit(LimitExceeded {
                limit: "max_tensor_count",
                value,
                max,
                at: At::new(0, "weight_map"),
            }));
        }
        // Shards are gone through in the order of their names, which is that of their numbers.
        let mut sorted: Vec<(Box<str>, u32)> = self.shards.into_iter().zip(0u32..).collect();
        sorted.sort_unstable();
        let mut numbers = alloc::vec![0u32; sorted.len()];
        for (new, (_, old)) in (0u32..).zip(&sorted) {
            if let Some(number) = numbers.get_mut(place(*old)) {
                *number = new;
            }
        }
        let mut records = self.records;
        let mut tensors = alloc::vec![0u64; sorted.len()];
        for record in &mut records {
            record.shard = numbers
                .get(place(record.shard))
                .copied()
                .unwrap_or(u32::MAX);
            if let Some(count) = tensors.get_mut(place(record.shard)) {
                *count = count.saturating_add(1);
            }
        }
        let name = |at: usize| {
            let record = records.get(at);
            record.map_or("", |record| slice(&self.names, *record))
        };
        let table = NameTable::of_positions(records.len(), name);
        let table = table.map_err(|duplicate| {
            let at = At::new(0, "weight_map").entry(duplicate.second as u64);
            Error::invalid(Rule::IndexDuplicate, at).of_tensor(name(duplicate.second))
        })?;
        Ok(SetIndex {
            names: self.names,
            records,
            table,
            shards: sorted.into_iter().map(|(name, _)| name).collect(),
            tensors,
            total_size: self.total_size,
            metadata: self.metadata.unwrap_or_default(),
        })
    }
}

fn duplicate(place: usize) -> ParseError {
    ParseError::Fault(Fault::Rule(Rule::IndexDuplicate, place))
}

/// A length as places are kept; the limit of the index's own length keeps all of them that short.
fn short(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Whether a path is one of a file in the index's folder or below, by its text alone: links may lead
/// anywhere, as those of a download cache do.
fn is_beside(path: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    !path.contains(['\\', ':', '\0']) && path.split('/').all(is_plain)
}
