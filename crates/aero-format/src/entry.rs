#![deny(clippy::arithmetic_side_effects)]

use core::fmt;

use tensor_core::{DType, Order, Shape};

use crate::DTypeCode;
use crate::index::Index;
use crate::tensors::Record;

/// One tensor of an [`Archive`](crate::Archive) or a `Set`, as the tensor index describes it: a view of the
/// index, as cheap to copy as a reference.
///
/// ```
/// use aero_format::{Archive, Builder, DType, Order, Tensor};
///
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let entry = archive.entry("w").ok_or("no such tensor")?;
/// assert_eq!((entry.name(), entry.shape().dims()), ("w", &[2][..]));
/// assert_eq!((entry.dtype(), entry.order()), (Some(DType::F32), Order::RowMajor));
/// assert_eq!((entry.nbytes(), entry.stored_len()), (Some(8), Some(8)));
/// println!("at byte {:#x}", entry.offset());
/// assert_eq!(entry.dtype_code().dtype(), Some(DType::F32));
/// assert_eq!((entry.shard_id(), entry.data_off(), entry.flags()), (0, 0, 0));
/// assert_eq!((entry.hash_b3(), entry.quant_id()), (None, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub(crate) index: &'a Index,
    pub(crate) ordinal: usize,
}

impl<'a> Entry<'a> {
    pub(crate) fn of(index: &'a Index, ordinal: usize) -> Option<Self> {
        (ordinal < index.tensors.records.len()).then_some(Self { index, ordinal })
    }

    pub(crate) fn is_of(&self, index: &Index) -> bool {
        core::ptr::eq(self.index, index)
    }

    pub(crate) fn record(self) -> &'a Record {
        self.index.tensors.record(self.ordinal)
    }

    /// The name.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.index.tensors.names.get(self.ordinal)
    }

    /// The dtype code as stored.
    #[must_use]
    pub fn dtype_code(self) -> DTypeCode {
        self.record().code
    }

    /// The dtype: [`DType::Opaque`] for packed data, `None` where the code is unknown.
    #[must_use]
    pub fn dtype(self) -> Option<DType> {
        self.record().code.dtype()
    }

    /// The dims, outermost first.
    #[must_use]
    pub fn shape(self) -> &'a Shape {
        self.index.tensors.shape(self.record())
    }

    /// Always row-major.
    #[must_use]
    pub fn order(self) -> Order {
        Order::RowMajor
    }

    /// Absolute offset of the data in its file; 0 where that is a part of a set.
    #[must_use]
    pub fn offset(self) -> u64 {
        if self.index.in_parts {
            return 0;
        }
        let shard = self.index.shard_offset(self.record().shard_id);
        shard.saturating_add(self.record().data_off)
    }

    /// Bytes that the tensor takes in the file: data_len, which may be more than it needs.
    #[must_use]
    pub fn stored_len(self) -> Option<u64> {
        Some(self.record().data_len)
    }

    /// Bytes of the data, `None` where the dtype is unknown.
    #[must_use]
    pub fn nbytes(self) -> Option<u64> {
        match self.dtype()? {
            DType::Opaque => Some(self.record().data_len),
            dtype => self.shape().byte_len(dtype).ok().flatten(),
        }
    }

    /// The shard that holds the data; in a set counted through all parts.
    #[must_use]
    pub fn shard_id(self) -> u32 {
        self.record().shard_id
    }

    /// Offset of the data within its shard.
    #[must_use]
    pub fn data_off(self) -> u64 {
        self.record().data_off
    }

    /// The flags; no bit has a meaning yet.
    #[must_use]
    pub fn flags(self) -> u64 {
        self.index.tensors.flags(self.ordinal)
    }

    /// BLAKE3-256 of the data, where the index has it.
    #[must_use]
    pub fn hash_b3(self) -> Option<&'a [u8; 32]> {
        self.index.tensors.hash(self.ordinal)
    }

    /// Which quantization descriptor of the JSON metadata describes the data.
    #[must_use]
    pub fn quant_id(self) -> Option<i64> {
        self.index.tensors.quant_id(self.ordinal)
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
            .field("shard_id", &self.shard_id())
            .field("data_off", &self.data_off())
            .field("data_len", &self.record().data_len)
            .finish_non_exhaustive()
    }
}
