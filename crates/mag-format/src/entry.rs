#![deny(clippy::arithmetic_side_effects)]

use core::fmt;
use core::ops::Range;

use tensor_core::{At, DType, Order, Shape};

use crate::DTypeCode;
use crate::index::Index;
use crate::tensors::Record;

/// One tensor of an [`Archive`](crate::Archive), as its record describes it: a view of the index, as
/// cheap to copy as a reference.
///
/// ```
/// use mag_format::{Archive, Builder, DType, DTypeCode, Order, Tensor};
///
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let entry = archive.entry("w").ok_or("no such tensor")?;
/// assert_eq!((entry.name(), entry.shape().dims()), ("w", &[2][..]));
/// assert_eq!((entry.dtype(), entry.order()), (Some(DType::F32), Order::RowMajor));
/// assert_eq!((entry.nbytes(), entry.stored_len()), (Some(8), Some(8)));
/// println!("at byte {:#x}", entry.offset());
/// assert_eq!(entry.dtype_code(), DTypeCode::from_dtype(DType::F32).ok_or("no code")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    #[must_use]
    pub fn name(self) -> &'a str {
        self.index.tensors.names.get(self.ordinal)
    }

    /// The dtype code as stored.
    #[must_use]
    pub fn dtype_code(self) -> DTypeCode {
        DTypeCode::new(self.index.generation, self.record().code)
    }

    /// The dtype, `None` where the code is unknown.
    #[must_use]
    pub fn dtype(self) -> Option<DType> {
        self.dtype_code().dtype()
    }

    /// The dims, outermost first.
    #[must_use]
    pub fn shape(self) -> &'a Shape {
        self.index.tensors.shapes.get(self.record().shape)
    }

    /// Always row-major.
    #[must_use]
    pub fn order(self) -> Order {
        Order::RowMajor
    }

    /// Absolute offset of the data.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.record().offset
    }

    /// Bytes that the data takes in the file, `None` where the dtype is unknown and the file does
    /// not say.
    #[must_use]
    pub fn stored_len(self) -> Option<u64> {
        self.record().len()
    }

    /// Bytes of the decoded data, `None` where the dtype is unknown.
    #[must_use]
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
