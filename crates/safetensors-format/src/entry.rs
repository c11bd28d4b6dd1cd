use core::fmt;

use tensor_core::{At, DType, Order, Shape};

use crate::index::{Index, Record};
use crate::meta::Extra;
use crate::{DTypeCode, Error, Unsupported};

/// One tensor of an [`Archive`](crate::Archive) or a `Set`, as the header describes it: a view of the
/// index, as cheap to copy as a reference.
///
/// ```
/// use safetensors_format::{Archive, Builder, DType, Order, Tensor};
///
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let entry = archive.entry("w").ok_or("no such tensor")?;
/// assert_eq!((entry.name(), entry.shape().dims()), ("w", &[2][..]));
/// assert_eq!((entry.dtype(), entry.order()), (Some(DType::F32), Order::RowMajor));
/// assert_eq!((entry.nbytes(), entry.stored_len()), (Some(8), Some(8)));
/// println!("at byte {:#x}", entry.offset());
/// assert_eq!((entry.position(), entry.extras().count()), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub(crate) index: &'a Index,
    ordinal: u32,
}

impl<'a> Entry<'a> {
    pub(crate) fn of(index: &'a Index, position: usize) -> Option<Self> {
        let ordinal = u32::try_from(position).ok()?;
        (position < index.tensors.records.len()).then_some(Self { index, ordinal })
    }

    fn record(self) -> Record {
        self.index.tensors.record(self.ordinal)
    }

    /// The position among the entries of its archive.
    #[must_use]
    pub fn position(self) -> usize {
        crate::index::place(self.ordinal)
    }

    /// The tensor's name.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.index.tensors.names.get(self.position())
    }

    /// The dtype as the header spells it.
    #[must_use]
    pub fn dtype_code(self) -> &'a DTypeCode {
        self.index.tensors.code(self.record())
    }

    /// The dtype, `None` where its name is unknown; [`DType::Opaque`] where elements are narrower
    /// than a byte.
    #[must_use]
    pub fn dtype(self) -> Option<DType> {
        let known = DTypeCode::at(self.record().code);
        known.map(|(_, dtype)| dtype)
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
        self.index.data_start.saturating_add(self.record().begin)
    }

    /// Bytes that the data takes in the file, known whatever the dtype.
    #[must_use]
    pub fn stored_len(self) -> Option<u64> {
        Some(self.len())
    }

    /// Bytes of the data, which is stored as it is.
    #[must_use]
    pub fn nbytes(self) -> Option<u64> {
        Some(self.len())
    }

    pub(crate) fn len(self) -> u64 {
        let record = self.record();
        record.end.saturating_sub(record.begin)
    }

    /// The keys beside dtype, shape and offsets that the header has for the tensor, in its order.
    pub fn extras(self) -> impl Iterator<Item = Extra<'a>> {
        self.index.tensors.extras.of(self.ordinal)
    }

    /// The error that the dtype is unknown.
    pub(crate) fn unsupported(self) -> Error {
        let name = self.dtype_code().name().into();
        let at = At::new(self.offset(), "dtype").entry(self.ordinal.into());
        Error::unsupported(Unsupported::DType { name }, at).of_tensor(self.name())
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
            .field("dtype", self.dtype_code())
            .field("shape", self.shape())
            .field("offset", &self.offset())
            .field("stored_len", &self.len())
            .finish_non_exhaustive()
    }
}
