#![deny(clippy::arithmetic_side_effects)]

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::mem::size_of_val;

use tensor_core::codec::{DuplicateName, Names, ShapeId, Shapes};

use crate::DTypeCode;

/// The tensors of an index: a small record of each, and in blocks what they share.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) names: Names,
    pub(crate) shapes: Shapes,
    pub(crate) records: Vec<Record>,
}

/// What the index says about every tensor, but for its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) offset: u64,
    /// Bytes of data; [`Self::UNKNOWN`] where nothing says how many there are.
    len: u64,
    pub(crate) record_offset: u64,
    pub(crate) shape: ShapeId,
    pub(crate) code: u32,
}

impl Record {
    /// More than any tensor has.
    const UNKNOWN: u64 = u64::MAX;

    pub(crate) fn new(
        record_offset: u64,
        code: DTypeCode,
        shape: ShapeId,
        offset: u64,
        len: Option<u64>,
    ) -> Self {
        Self {
            offset,
            len: len.unwrap_or(Self::UNKNOWN),
            record_offset,
            shape,
            code: code.code(),
        }
    }

    pub(crate) fn len(self) -> Option<u64> {
        (self.len != Self::UNKNOWN).then_some(self.len)
    }
}

impl Tensors {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes of memory that a tensor takes beside its name's text and its shape.
    pub(crate) const MEMORY: u64 = (size_of::<Record>() as u64).saturating_add(Names::MEMORY);

    /// Makes room for so many tensors.
    pub(crate) fn reserve(&mut self, tensors: usize) -> Result<(), TryReserveError> {
        self.records.try_reserve_exact(tensors)?;
        self.names.try_reserve(tensors)
    }

    pub(crate) fn push(&mut self, name: &str, record: Record) {
        self.names.push(name);
        self.records.push(record);
    }

    /// Makes the table of names, and gives back what was reserved for more.
    pub(crate) fn finish(&mut self) -> Result<(), DuplicateName> {
        self.shapes.shrink();
        self.records.shrink_to_fit();
        self.names.index()
    }

    /// That of a tensor that there is.
    pub(crate) fn record(&self, ordinal: usize) -> Record {
        const NONE: Record = Record {
            offset: 0,
            len: 0,
            record_offset: 0,
            shape: ShapeId::NONE,
            code: 0,
        };
        self.records.get(ordinal).copied().unwrap_or(NONE)
    }

    /// Bytes that everything takes.
    pub(crate) fn memory(&self) -> u64 {
        let records = size_of_val::<[Record]>(&self.records) as u64;
        records
            .saturating_add(self.names.memory())
            .saturating_add(self.shapes.memory())
    }
}
