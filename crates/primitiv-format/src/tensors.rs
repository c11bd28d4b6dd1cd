//! The tensors of a file: a small record of each, and in blocks what they share or seldom have.

#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;
use core::mem::size_of_val;
use core::ops::Range;

use tensor_core::codec::{Names, ShapeId, Shapes, append};
use tensor_core::{Shape, SourceError};

use crate::layout::StoredShape;

/// Every tensor of a file, each value followed by its statistics.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) names: Names,
    shapes: Shapes,
    records: Vec<Record>,
    /// Shapes with the batch as their last dim, where that is not 1.
    batched: Vec<(usize, ShapeId)>,
    /// Which tensors are stored with dims of 1 at the end.
    trailing_ones: Vec<usize>,
    /// Addresses of which a part has a dot: all others are split where their names have one.
    dotted: Vec<(usize, Range<usize>)>,
    /// Where the parts of these end, but the last ones.
    cuts: Vec<usize>,
}

/// What the file says about every tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) offset: u64,
    pub(crate) role: Role,
    pub(crate) batch: u32,
    /// The dims without the batch.
    shape: ShapeId,
}

const _: () = assert!(size_of::<Record>() <= 24);

/// What a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A value, and how many statistics follow it.
    Value(u32),
    /// A statistic, and how long the address is that its name starts with.
    Stat(u32),
}

impl Tensors {
    /// Adds a tensor.
    pub(crate) fn push(
        &mut self,
        name: &str,
        role: Role,
        shape: &StoredShape,
        offset: u64,
    ) -> Result<(), SourceError> {
        // The product of the dims was checked, so there can only be too many.
        let too_many = |_| SourceError::TooLarge(u32::MAX.into());
        let ordinal = self.records.len();
        if shape.batch != 1 {
            let batched = self
                .shapes
                .push(shape.with_batch().as_slice())
                .map_err(too_many)?;
            append(&mut self.batched, (ordinal, batched));
        }
        if shape.has_trailing_ones {
            append(&mut self.trailing_ones, ordinal);
        }
        let record = Record {
            offset,
            role,
            batch: shape.batch,
            shape: self.shapes.push(shape.dims()).map_err(too_many)?,
        };
        self.names.push(name);
        append(&mut self.records, record);
        Ok(())
    }

    /// Keeps where the parts of an address end.
    pub(crate) fn keep_cuts(&mut self, cuts: &[usize]) -> Range<usize> {
        let start = self.cuts.len();
        for &cut in cuts {
            append(&mut self.cuts, cut);
        }
        start..self.cuts.len()
    }

    /// Says of the tensor that comes next where the parts of its address end.
    pub(crate) fn push_dotted(&mut self, cuts: Range<usize>) {
        append(&mut self.dotted, (self.records.len(), cuts));
    }

    /// Sets how many statistics follow a value.
    pub(crate) fn set_stats(&mut self, ordinal: usize, stats: u32) {
        if let Some(record) = self.records.get_mut(ordinal) {
            record.role = Role::Value(stats);
        }
    }

    /// Makes the table of names, and gives back what was reserved for more. Returns the tensors whose name
    /// an earlier one has.
    pub(crate) fn finish(&mut self) -> Vec<usize> {
        self.shapes.shrink();
        self.records.shrink_to_fit();
        self.batched.shrink_to_fit();
        self.trailing_ones.shrink_to_fit();
        self.dotted.shrink_to_fit();
        self.cuts.shrink_to_fit();
        self.names.index_repeated()
    }

    /// Bytes that everything takes.
    pub(crate) fn memory(&self) -> u64 {
        let lists = [
            size_of_val::<[Record]>(&self.records),
            size_of_val::<[(usize, ShapeId)]>(&self.batched),
            size_of_val::<[usize]>(&self.trailing_ones),
            size_of_val::<[(usize, Range<usize>)]>(&self.dotted),
            size_of_val::<[usize]>(&self.cuts),
        ];
        let add = |sum: u64, list: usize| sum.saturating_add(list as u64);
        let names = self.names.memory().saturating_add(self.shapes.memory());
        lists.into_iter().fold(names, add)
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// That of a tensor that there is.
    pub(crate) fn record(&self, ordinal: usize) -> &Record {
        const NONE: Record = Record {
            offset: 0,
            role: Role::Value(0),
            batch: 1,
            shape: ShapeId::NONE,
        };
        self.records.get(ordinal).unwrap_or(&NONE)
    }

    /// The dims without the batch.
    pub(crate) fn dims(&self, ordinal: usize) -> &Shape {
        self.shapes.get(self.record(ordinal).shape)
    }

    /// The dims with the batch, where that is not 1.
    pub(crate) fn shape(&self, ordinal: usize) -> &Shape {
        let record = self.record(ordinal);
        let batched = || {
            let at = self.batched.binary_search_by_key(&ordinal, |(at, _)| *at);
            self.batched.get(at.ok()?).map(|(_, shape)| *shape)
        };
        let batched = if record.batch == 1 { None } else { batched() };
        self.shapes.get(batched.unwrap_or(record.shape))
    }

    pub(crate) fn has_trailing_ones(&self, ordinal: usize) -> bool {
        self.trailing_ones.binary_search(&ordinal).is_ok()
    }

    /// Whether the name of any tensor does not tell the parts of its address.
    pub(crate) fn has_dotted(&self) -> bool {
        !self.dotted.is_empty()
    }

    /// Where the parts of an address end, but the last one; `None` where that is at every dot.
    pub(crate) fn cuts(&self, ordinal: usize) -> Option<&[usize]> {
        let at = self.dotted.binary_search_by_key(&ordinal, |(at, _)| *at);
        let (_, range) = self.dotted.get(at.ok()?)?;
        self.cuts.get(range.clone())
    }
}
