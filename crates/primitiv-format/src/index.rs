#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::codec::{NameTable, check_index_memory};
use tensor_core::{At, LimitExceeded, Shape, Source};

use crate::addresses::check_addresses;
use crate::layout::{DataType, HEADER, StoredShape, StoredTensor, header};
use crate::msgpack::{Reader, boxed};
use crate::object::Optimizer;
use crate::tensors::{Role, Tensors};
use crate::{Error, ReadOptions, Result, Rule};

/// Everything that a file says. One that exists is valid: all lengths fit, all addresses,
/// statistics and configurations are no duplicates, and nothing follows.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) data_type: DataType,
    pub(crate) tensors: Tensors,
    /// Dims and batch of a Shape file.
    pub(crate) shape: Option<(Shape, u32)>,
    /// Of an Optimizer file.
    pub(crate) optimizer: Optimizer,
    pub(crate) trailing_bytes: u64,
    /// Positions of entries whose joined name an earlier entry has: `["a.b"]` and `["a", "b"]`.
    pub(crate) same_named: Vec<usize>,
}

impl Index {
    pub(crate) fn parse(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let mut reader = Reader::new(source)?;
        let data_type = header(source, &mut reader)?;
        let mut index = Self {
            data_type,
            tensors: Tensors::default(),
            shape: None,
            optimizer: Optimizer::default(),
            trailing_bytes: 0,
            same_named: Vec::new(),
        };
        let mut parser = Parser {
            reader: &mut reader,
            index: &mut index,
            options,
            size: source.size(),
            path: Path::default(),
        };
        match data_type {
            DataType::Shape => {
                let shape = StoredShape::parse(parser.reader)?;
                // Their product was checked when they were parsed.
                let dims = Shape::new(shape.dims()).unwrap_or_default();
                parser.index.shape = Some((dims, shape.batch));
            }
            DataType::Tensor => parser.tensor(Role::Value(0))?,
            DataType::Parameter => parser.named_parameter()?,
            DataType::Model => parser.model()?,
            DataType::Optimizer => parser.optimizer()?,
        }
        reader.cursor.set_entry(None);
        index.trailing_bytes = reader.cursor.remaining();
        if index.trailing_bytes > 0 && !options.allow_trailing {
            let rule = Rule::TrailingBytes {
                count: index.trailing_bytes,
            };
            return Err(Error::invalid(rule, reader.cursor.at("end")));
        }
        // Two addresses may join to one name, which then finds the first.
        index.same_named = index.tensors.finish();
        check_addresses(&index)?;
        Ok(index)
    }
}

/// An address: its parts joined, and where each but the last one ends.
#[derive(Debug, Default)]
struct Path {
    joined: String,
    cuts: Vec<usize>,
    /// Where the cuts are kept, if a part has a dot.
    kept: Option<Range<usize>>,
}

struct Parser<'p, 'a> {
    reader: &'p mut Reader<'a>,
    index: &'p mut Index,
    options: &'p ReadOptions,
    size: u64,
    /// Of the parameter that is being read.
    path: Path,
}

impl Parser<'_, '_> {
    fn model(&mut self) -> Result<()> {
        let count = self.reader.uint32("N")?;
        // Key array, dims, batch, bin, and the number of statistics; at least.
        self.check_count(count, 18, "N")?;
        for _ in 0..count {
            self.start_entry();
            self.path()?;
            self.named_parameter()?;
        }
        Ok(())
    }

    /// A parameter, with errors that name it or its statistic.
    fn named_parameter(&mut self) -> Result<()> {
        let parameter = self.parameter();
        parameter.map_err(|error| match self.path.joined.as_str() {
            // The value of a Parameter file has no name.
            "" => error,
            name => error.of_tensor(name),
        })
    }

    /// Errors name the entry that comes next.
    fn start_entry(&mut self) {
        let ordinal = self.index.tensors.len() as u64;
        self.reader.cursor.set_entry(Some(ordinal));
    }

    fn path(&mut self) -> Result<()> {
        let at = self.reader.cursor.at("param_key");
        let parts = self.reader.array_len("param_key")?;
        if parts == 0 {
            return Err(Error::invalid(Rule::EmptyPath, at));
        }
        let max = self.options.limits.max_path_part_count;
        // A count that the file has no room for is a fault, whatever the limit.
        self.check_count(parts, 1, "param_key")?;
        if u64::from(parts) > max {
            // A part that is no str, as in a deep nest, is a fault too.
            self.reader.str("param_key")?;
            return Err(LimitExceeded {
                limit: "max_path_part_count",
                value: parts.into(),
                max,
                at,
            }
            .into());
        }
        let Path { joined, cuts, kept } = &mut self.path;
        joined.clear();
        cuts.clear();
        let mut is_dotted = false;
        for part in 0..parts {
            if part > 0 {
                cuts.push(joined.len());
                joined.push('.');
            }
            let part = self.reader.str("param_key")?;
            is_dotted |= part.contains('.');
            joined.push_str(part);
        }
        *kept = is_dotted.then(|| self.index.tensors.keep_cuts(cuts));
        Ok(())
    }

    fn parameter(&mut self) -> Result<()> {
        let value = self.index.tensors.len();
        self.tensor(Role::Value(0))?;
        let batch = self.index.tensors.record(value).batch;
        if batch != 1 {
            let at = At::new(self.reader.cursor.position(), "batch").entry(value as u64);
            return Err(Error::invalid(Rule::ValueBatch { got: batch }, at));
        }
        let count = self.reader.uint32("N")?;
        self.check_count(count, 13, "N")?;
        let len = self.path.joined.len();
        let address =
            u32::try_from(len).map_err(|_| tensor_core::SourceError::TooLarge(len as u64))?;
        for _ in 0..count {
            self.start_entry();
            let key = self.reader.str("stat_key")?;
            self.path.joined.push(':');
            self.path.joined.push_str(key);
            self.tensor(Role::Stat(address))?;
            self.path.joined.truncate(len);
        }
        self.check_stats(value, count)?;
        self.index.tensors.set_stats(value, count);
        Ok(())
    }

    /// Checks that no statistic of a value is a duplicate.
    fn check_stats(&self, value: usize, count: u32) -> Result<()> {
        /// Up to this many are compared with each other.
        const MAX_COMPARED: usize = 8;
        let first = value.saturating_add(1);
        let tensors = &self.index.tensors;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        // They have the same address, so their names tell.
        let name = |at: usize| tensors.names.get(first.saturating_add(at));
        let second = match count <= MAX_COMPARED {
            true => (1..count).find(|&second| (0..second).any(|at| name(at) == name(second))),
            false => {
                let table = NameTable::of_positions(count, name);
                table.err().map(|twice| twice.second)
            }
        };
        let Some(second) = second else {
            return Ok(());
        };
        let second = first.saturating_add(second);
        let offset = tensors.record(second).offset;
        let at = At::new(offset, "stat_key").entry(second as u64);
        let error = Error::invalid(Rule::DuplicateStat, at);
        Err(error.of_tensor(tensors.names.get(second)))
    }

    /// A tensor that has the name of the path as it is now.
    fn tensor(&mut self, role: Role) -> Result<()> {
        let tensor = StoredTensor::parse(self.reader)?;
        let tensors = &mut self.index.tensors;
        if let Some(cuts) = &self.path.kept {
            tensors.push_dotted(cuts.clone());
        }
        tensors.push(&self.path.joined, role, &tensor.shape, tensor.offset)?;
        let memory = tensors.memory();
        check_index_memory(memory)?;
        let max = self.options.limits.max_index_overhead_bytes;
        let value = memory.saturating_sub(self.size);
        if value > max {
            let (limit, at) = ("max_index_overhead_bytes", self.reader.cursor.at("data"));
            return Err(LimitExceeded {
                limit,
                value,
                max,
                at,
            }
            .into());
        }
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
            Err(Error::invalid(Rule::DuplicateConfig, at))
        }
    }
}
