#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use tensor_core::codec::{ArchiveId, NameTable, check_index_memory};
use tensor_core::{At, LimitExceeded, Source};

use crate::layout::{DataType, HEADER, StoredShape, StoredTensor, header};
use crate::msgpack::{Reader, boxed};
use crate::object::Optimizer;
use crate::read::Entry;
use crate::{Error, ReadOptions, Result, Rule};

/// Everything that a file says. One that exists is valid: all lengths fit, all addresses,
/// statistics and configurations are there once, and nothing follows.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) id: ArchiveId,
    pub(crate) data_type: DataType,
    pub(crate) entries: Vec<Entry>,
    /// Of a Shape file.
    pub(crate) shape: Option<StoredShape>,
    /// Of an Optimizer file.
    pub(crate) optimizer: Optimizer,
    pub(crate) trailing_bytes: u64,
    /// Positions of entries whose joined name an earlier entry has: `["a.b"]` and `["a", "b"]`.
    pub(crate) same_named: Vec<usize>,
    names: NameTable,
}

impl Index {
    pub(crate) fn parse(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let mut reader = Reader::new(source)?;
        let data_type = header(source, &mut reader)?;
        let mut index = Self {
            id: ArchiveId::next(),
            data_type,
            entries: Vec::new(),
            shape: None,
            optimizer: Optimizer::default(),
            trailing_bytes: 0,
            same_named: Vec::new(),
            names: NameTable::default(),
        };
        let mut parser = Parser {
            reader: &mut reader,
            index: &mut index,
            options,
            path: Path::default(),
            memory: 0,
        };
        match data_type {
            DataType::Shape => {
                parser.index.shape = Some(StoredShape::parse(parser.reader)?);
            }
            DataType::Tensor => parser.tensor(None)?,
            DataType::Parameter => parser.parameter()?,
            DataType::Model => parser.model()?,
            DataType::Optimizer => parser.optimizer()?,
        }
        reader.cursor.set_entry(None);
        index.trailing_bytes = reader.cursor.remaining();
        if index.trailing_bytes > 0 && !options.allow_trailing {
            let rule = Rule::TrailingBytes {
                count: index.trailing_bytes,
            };
            return Err(Error::Invalid {
                rule,
                at: reader.cursor.at("end"),
            });
        }
        check_paths(&index.entries)?;
        if let Ok(names) = NameTable::of(&index.entries, Entry::name) {
            index.names = names;
            return Ok(index);
        }
        // Two addresses may join to one name; it then stands for the first.
        for position in 0..index.entries.len() {
            if index
                .names
                .insert(&index.entries, Entry::name, position)
                .is_err()
            {
                index.same_named.push(position);
            }
        }
        Ok(index)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries
            .get(self.names.find(&self.entries, Entry::name, name)?)
    }
}

/// An address: its parts joined, and where each but the last one ends.
#[derive(Debug, Default)]
struct Path {
    joined: String,
    cuts: Vec<u32>,
}

/// What an allocation takes beyond its size.
const HEAP: u64 = 16;

struct Parser<'p, 'a> {
    reader: &'p mut Reader<'a>,
    index: &'p mut Index,
    options: &'p ReadOptions,
    /// Of the parameter that is being read.
    path: Path,
    /// Bytes that the entries take, about.
    memory: u64,
}

impl Parser<'_, '_> {
    fn model(&mut self) -> Result<()> {
        let count = self.reader.uint32("N")?;
        // Key array, dims, batch, bin, and the number of statistics; at least.
        self.check_count(count, 18, "N")?;
        for _ in 0..count {
            self.reader
                .cursor
                .set_entry(Some(self.index.entries.len() as u64));
            self.path()?;
            self.parameter()?;
        }
        Ok(())
    }

    fn path(&mut self) -> Result<()> {
        let at = self.reader.cursor.at("param_key");
        let parts = self.reader.array_len("param_key")?;
        if parts == 0 {
            return Err(Error::Invalid {
                rule: Rule::EmptyPath,
                at,
            });
        }
        let max = self.options.limits.max_path_parts;
        // A count that the file has no room for is a fault, whatever the limit.
        self.check_count(parts, 1, "param_key")?;
        if parts > max {
            // A part that is no str, as in a deep nest, is a fault too.
            self.reader.str("param_key")?;
            let (value, max) = (parts.into(), max.into());
            return Err(LimitExceeded {
                limit: "max_path_parts",
                value,
                max,
                at,
            }
            .into());
        }
        let Path { joined, cuts } = &mut self.path;
        joined.clear();
        cuts.clear();
        for part in 0..parts {
            if part > 0 {
                cuts.push(u32::try_from(joined.len()).unwrap_or(u32::MAX));
                joined.push('.');
            }
            joined.push_str(self.reader.str("param_key")?);
        }
        Ok(())
    }

    fn parameter(&mut self) -> Result<()> {
        let value = self.index.entries.len();
        self.tensor(None)?;
        let batch = self
            .index
            .entries
            .last()
            .map_or(1, |entry| entry.shape.batch);
        if batch != 1 {
            let at = At::new(self.reader.cursor.position(), "batch").entry(value as u64);
            return Err(Error::Invalid {
                rule: Rule::ValueBatch { got: batch },
                at,
            });
        }
        let count = self.reader.uint32("N")?;
        self.check_count(count, 13, "N")?;
        for _ in 0..count {
            self.reader
                .cursor
                .set_entry(Some(self.index.entries.len() as u64));
            let key = boxed(self.reader.str("stat_key")?);
            self.tensor(Some(&key))?;
        }
        let first = value.saturating_add(1);
        let stats = self.index.entries.get(first..).unwrap_or_default();
        let twice = match stats {
            [] | [_] => None,
            _ => NameTable::of(stats, |entry| entry.stat().unwrap_or_default()).err(),
        };
        if let Some(twice) = twice {
            let second = first.saturating_add(twice.second);
            let offset = self
                .index
                .entries
                .get(second)
                .map_or(0, |entry| entry.offset);
            let at = At::new(offset, "stat_key").entry(second as u64);
            return Err(Error::Invalid {
                rule: Rule::DuplicateStat,
                at,
            });
        }
        if let Some(entry) = self.index.entries.get_mut(value) {
            entry.stats = count;
        }
        Ok(())
    }

    fn tensor(&mut self, stat: Option<&str>) -> Result<()> {
        let joined = self.path.joined.as_str();
        let path_len = joined.len();
        let name: Box<str> = match stat {
            Some(stat) => [joined, ":", stat].concat().into(),
            None => joined.into(),
        };
        let tensor = match StoredTensor::parse(self.reader) {
            Err(Error::Truncated(truncated)) if truncated.at.field == "data" => {
                let tensor = name;
                return Err(Error::TruncatedData { tensor, truncated });
            }
            parsed => parsed?,
        };
        let entry = Entry {
            archive: self.index.id,
            ordinal: self.index.entries.len(),
            name,
            path_len,
            is_stat: stat.is_some(),
            in_model: self.index.data_type == DataType::Model,
            cuts: self.path.cuts.as_slice().into(),
            batched: (tensor.shape.batch != 1).then(|| Box::new(tensor.shape.shape())),
            shape: tensor.shape,
            offset: tensor.offset,
            len: tensor.len,
            stats: 0,
        };
        // The entry, its place in the table of names, and its allocations.
        let fixed = (size_of::<Entry>() as u64).saturating_add(NameTable::MEMORY + 2 * HEAP);
        let more = entry
            .name
            .len()
            .saturating_add(entry.cuts.len().saturating_mul(4)) as u64;
        self.memory = self.memory.saturating_add(fixed).saturating_add(more);
        check_index_memory(self.memory)?;
        let max = self.options.limits.max_index_overhead;
        let size = self
            .reader
            .cursor
            .position()
            .saturating_add(self.reader.cursor.remaining());
        let value = self.memory.saturating_sub(size);
        if value > max {
            let (limit, at) = ("max_index_overhead", self.reader.cursor.at("data"));
            return Err(LimitExceeded {
                limit,
                value,
                max,
                at,
            }
            .into());
        }
        self.index.entries.push(entry);
        Ok(())
    }

    fn optimizer(&mut self) -> Result<()> {
        let uints = self.reader.map_len("uint_configs")?;
        self.check_count(uints, 6, "uint_configs")?;
        check_index_memory(u64::from(uints).saturating_mul(CONFIG_MEMORY))?;
        for _ in 0..uints {
            let key = boxed(self.reader.str("uint_configs")?);
            check_index_memory(self.reader.cursor.position())?;
            let value = self.reader.uint32("uint_configs")?;
            self.index.optimizer.uints.push((key, value));
        }
        unique(&self.index.optimizer.uints, "uint_configs")?;
        let floats = self.reader.map_len("float_configs")?;
        self.check_count(floats, 6, "float_configs")?;
        check_index_memory(u64::from(floats).saturating_mul(CONFIG_MEMORY))?;
        for _ in 0..floats {
            let key = boxed(self.reader.str("float_configs")?);
            check_index_memory(self.reader.cursor.position())?;
            let value = self.reader.float("float_configs")?;
            self.index.optimizer.floats.push((key, value));
        }
        unique(&self.index.optimizer.floats, "float_configs")
    }

    /// Refuses a count of things, each of at least `least` bytes, that the file has no room for.
    fn check_count(&self, count: u32, least: u64, field: &'static str) -> Result<()> {
        let needed = u64::from(count).saturating_mul(least);
        let available = self.reader.cursor.remaining();
        if needed > available {
            let at = self.reader.cursor.at(field);
            return Err(tensor_core::Truncated {
                at,
                needed,
                available,
            }
            .into());
        }
        Ok(())
    }
}

/// What a configuration takes besides its key's text: an entry, an allocation, and a place in the
/// table of names.
const CONFIG_MEMORY: u64 = 64;

fn unique<T>(configs: &[(Box<str>, T)], field: &'static str) -> Result<()> {
    match NameTable::of(configs, |(key, _)| key) {
        Ok(_) => Ok(()),
        Err(twice) => {
            let at = At::new(HEADER, field).entry(twice.second as u64);
            Err(Error::Invalid {
                rule: Rule::DuplicateConfig,
                at,
            })
        }
    }
}

/// Checks that no address is there twice or is the start of another one. In order, part by part,
/// an address is followed at once by all that start with it.
fn check_paths(entries: &[Entry]) -> Result<()> {
    let values = || entries.iter().filter(|entry| !entry.is_stat);
    let compare = |a: &Entry, b: &Entry| a.path().cmp(b.path());
    let in_order = values()
        .zip(values().skip(1))
        .all(|(a, b)| compare(a, b) == Ordering::Less);
    let mut sorted: Vec<&Entry> = values().collect();
    if !in_order {
        sorted.sort_by(|a, b| compare(a, b));
    }
    for (shorter, longer) in sorted.iter().zip(sorted.iter().skip(1)) {
        let mut rest = longer.path();
        if !shorter.path().all(|part| rest.next() == Some(part)) {
            continue;
        }
        let (first, second) = (
            shorter.ordinal.min(longer.ordinal),
            shorter.ordinal.max(longer.ordinal),
        );
        let rule = match rest.next() {
            None => Rule::DuplicatePath {
                first: first as u64,
            },
            Some(_) => Rule::PathConflict {
                parameter: shorter.ordinal as u64,
            },
        };
        let offset = entries.get(second).map_or(0, |entry| entry.offset);
        let at = At::new(offset, "param_key").entry(second as u64);
        return Err(Error::Invalid { rule, at });
    }
    Ok(())
}
