use core::fmt;
use core::ops::Range;

use tensor_core::{DType, Order, Shape};

use crate::dtype::BoolStore;
use crate::index::{Index, Record};
use crate::quant::QuantScheme;
use crate::{DTypeCode, Error, Unsupported};

/// One tensor of an [`Archive`](crate::Archive), as its descriptor says: a view of the index, as cheap to
/// copy as a reference.
///
/// ```
/// use burnpack_format::{Archive, Builder, DType, Order, Tensor};
///
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let entry = archive.entry("w").ok_or("no such tensor")?;
/// assert_eq!((entry.name(), entry.shape().dims()), ("w", &[2][..]));
/// assert_eq!((entry.dtype(), entry.order()), (Some(DType::F32), Order::RowMajor));
/// assert_eq!((entry.nbytes(), entry.stored_len()), (Some(8), Some(8)));
/// println!("at byte {:#x}", entry.offset());
/// assert_eq!((entry.position(), entry.param_id()), (0, None));
/// assert_eq!((entry.scheme(), entry.bool_store()), (None, None)); // neither quantized nor bools
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    index: &'a Index,
    position: usize,
}

impl<'a> Entry<'a> {
    pub(crate) fn of(index: &'a Index, position: usize) -> Option<Self> {
        (position < index.tensors.records.len()).then_some(Self { index, position })
    }

    pub(crate) fn is_of(self, index: &Index) -> bool {
        core::ptr::eq(self.index, index)
    }

    fn record(self) -> Record {
        self.index.tensors.record(self.position)
    }

    /// The position among the entries of its archive.
    #[must_use]
    pub fn position(self) -> usize {
        self.position
    }

    /// The tensor's name.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.index.tensors.names.get(self.position)
    }

    /// The dtype as the file names it.
    #[must_use]
    pub fn dtype_code(self) -> &'a DTypeCode {
        self.index.tensors.code(self.record().code)
    }

    /// The dtype: [`DType::Opaque`] for a quantized tensor, `None` where it is unknown.
    #[must_use]
    pub fn dtype(self) -> Option<DType> {
        self.dtype_code().dtype()
    }

    /// The quantization scheme, where the tensor is quantized.
    #[must_use]
    pub fn scheme(self) -> Option<&'a QuantScheme> {
        match self.dtype_code() {
            DTypeCode::QFloat(scheme) => Some(scheme),
            _ => None,
        }
    }

    /// How a bool is held, where the tensor has bools.
    #[must_use]
    pub fn bool_store(self) -> Option<BoolStore> {
        match self.dtype_code() {
            DTypeCode::Bool(store) => Some(*store),
            _ => None,
        }
    }

    /// The id of the parameter that Burn saved. Several tensors may have the same.
    #[must_use]
    pub fn param_id(self) -> Option<u64> {
        self.index.tensors.param_id(self.record())
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
        self.index.data_start.saturating_add(self.record().start)
    }

    /// Bytes that the data takes in the file; always known.
    #[must_use]
    pub fn stored_len(self) -> Option<u64> {
        Some(self.len())
    }

    /// Bytes of the data as [`Archive::data`](crate::Archive::data) gives it, `None` where the dtype is
    /// unknown. Bools held in four bytes count four each.
    #[must_use]
    pub fn nbytes(self) -> Option<u64> {
        self.dtype().map(|_| self.len())
    }

    pub(crate) fn len(self) -> u64 {
        self.record().len
    }

    pub(crate) fn range(self) -> Range<u64> {
        let offset = self.offset();
        offset..offset.saturating_add(self.len())
    }

    /// The CBOR item of an unknown dtype.
    pub(crate) fn spelling(self) -> Option<&'a [u8]> {
        self.index.tensors.spelling(self.record().code)
    }

    /// The error that the dtype is unknown.
    pub(crate) fn unsupported(self) -> Error {
        let name = self.dtype_code().name().into();
        let at = self.record().at("dtype");
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
            .field("dtype_code", self.dtype_code())
            .field("shape", self.shape())
            .field("offset", &self.offset())
            .field("stored_len", &self.len())
            .finish_non_exhaustive()
    }
}
