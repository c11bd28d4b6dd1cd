#![deny(clippy::arithmetic_side_effects)]

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::fmt;
use core::mem::size_of_val;
use core::ops::Range;

use tensor_core::codec::{DuplicateName, Names, ShapeId, Shapes};
use tensor_core::{At, DType, Order, Shape};

use crate::DTypeCode;
use crate::index::Index;

/// One tensor of an [`Archive`](crate::Archive), as its record describes it: a view of the index, as
/// cheap to copy as a reference.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    index: &'a Index,
    ordinal: usize,
}

impl<'a> Entry<'a> {
    pub(crate) fn of(index: &'a Index, ordinal: usize) -> Option<Self> {
        (ordinal < index.tensors.len()).then_some(Self { index, ordinal })
    }

    pub(crate) fn is_of(self, index: &Index) -> bool {
        core::ptr::eq(self.index, index)
    }

    fn record(self) -> Record {
        self.index.tensors.record(self.ordinal)
    }

    /// The bytes in the file, where the file or the dtype says how many there are.
    pub(crate) fn range(self) -> Option<Range<u64>> {
        let record = self.record();
        let end = record.offset.saturating_add(record.len()?);
        Some(record.offset..end)
    }

    /// A field of the tensor's record, as errors have it.
    pub(crate) fn at(self, field: &'static str) -> At {
        At::new(self.record().record_offset, field).entry(self.ordinal as u64)
    }

    /// The tensor's key.
    pub fn name(self) -> &'a str {
        self.index.tensors.names.get(self.ordinal)
    }

    /// The dtype code as stored.
    pub fn dtype_code(self) -> DTypeCode {
        DTypeCode::new(self.index.generation, self.record().code)
    }

    /// The dtype, `None` where the code is unknown.
    pub fn dtype(self) -> Option<DType> {
        self.dtype_code().dtype()
    }

    /// The dims, outermost first.
    pub fn shape(self) -> &'a Shape {
        self.index.tensors.shapes.get(self.record().shape)
    }

    /// Always row-major.
    pub fn order(self) -> Order {
        Order::RowMajor
    }

    /// Absolute offset of the data.
    pub fn offset(self) -> u64 {
        self.record().offset
    }

    /// Bytes that the data takes in the file, `None` where the dtype is unknown and the file does
    /// not say.
    pub fn stored_len(self) -> Option<u64> {
        self.record().len()
    }

    /// Bytes of the decoded data, `None` where the dtype is unknown.
    pub fn nbytes(self) -> Option<u64> {
        self.dtype().and(self.stored_len())
    }
}

/// Name, dtype and dims: `w f32 [2, 3]`.
impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype() {
            Some(dtype) => write!(f, "{} {dtype} {}", self.name(), self.shape()),
            None => write!(f, "{} {} {}", self.name(), self.dtype_code(), self.shape()),
        }
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name())
            .field("dtype_code", &self.dtype_code())
            .field("shape", self.shape())
            .field("offset", &self.offset())
            .field("stored_len", &self.stored_len())
            .finish_non_exhaustive()
    }
}

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
    code: u32,
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
