use core::fmt;
use core::ops::Range;

use tensor_core::{DType, Order, Shape};

use crate::index::Index;
use crate::layout::DataType;
use crate::tensors::{Record, Role};

/// One tensor of an [`Archive`](crate::Archive): a parameter's value, one of its statistics, or the tensor of
/// a Tensor file. A view of the index, as cheap to copy as a reference.
///
/// ```
/// use primitiv_format::{Archive, Builder, DType, Order, Tensor};
///
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let entry = archive.entry("w").ok_or("no such tensor")?;
/// assert_eq!((entry.name(), entry.shape().dims()), ("w", &[2][..]));
/// assert_eq!((entry.dtype(), entry.order()), (Some(DType::F32), Order::ColumnMajor));
/// assert_eq!((entry.nbytes(), entry.stored_len()), (Some(8), Some(8)));
/// println!("at byte {:#x}", entry.offset());
/// assert_eq!((entry.dims().dims(), entry.batch()), (&[2][..], 1));
/// assert!(!entry.has_trailing_ones());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub(crate) index: &'a Index,
    pub(crate) ordinal: usize,
}

impl<'a> Entry<'a> {
    pub(crate) fn of(index: &'a Index, ordinal: usize) -> Option<Self> {
        (ordinal < index.tensors.len()).then_some(Self { index, ordinal })
    }

    pub(crate) fn is_of(self, index: &Index) -> bool {
        core::ptr::eq(self.index, index)
    }

    pub(crate) fn record(self) -> &'a Record {
        self.index.tensors.record(self.ordinal)
    }

    /// The parts of the address joined with `.`, followed by `:` and the key for a statistic.
    /// Empty for the value of a Parameter file and for the tensor of a Tensor file.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.index.tensors.names.get(self.ordinal)
    }

    /// The parts of the address; none in a Parameter or Tensor file.
    pub fn path(self) -> impl Iterator<Item = &'a str> + use<'a> {
        let name = self.name();
        let address = match self.record().role {
            Role::Value(_) => name,
            Role::Stat(len) => usize::try_from(len)
                .ok()
                .and_then(|len| name.get(..len))
                .unwrap_or_default(),
        };
        Parts {
            address,
            next: (self.index.data_type == DataType::Model).then_some(0),
            cuts: self.index.tensors.cuts(self.ordinal),
        }
    }

    /// The key of a statistic, `None` for a value.
    #[must_use]
    pub fn stat(self) -> Option<&'a str> {
        match self.record().role {
            Role::Value(_) => None,
            // After the address there is a colon.
            Role::Stat(len) => {
                let start = usize::try_from(len).ok()?.checked_add(1)?;
                self.name().get(start..)
            }
        }
    }

    /// Always `f32`: the format has no other dtype.
    #[must_use]
    pub fn dtype(self) -> Option<DType> {
        Some(DType::F32)
    }

    /// The dims, first fastest, without trailing ones; the batch is the last one unless it is 1.
    #[must_use]
    pub fn shape(self) -> &'a Shape {
        self.index.tensors.shape(self.ordinal)
    }

    /// The dims without the batch.
    #[must_use]
    pub fn dims(self) -> &'a Shape {
        self.index.tensors.dims(self.ordinal)
    }

    /// The batch.
    #[must_use]
    pub fn batch(self) -> u32 {
        self.record().batch
    }

    /// Whether the file stores dims of 1 at the end, which mean nothing and no writer leaves.
    #[must_use]
    pub fn has_trailing_ones(self) -> bool {
        self.index.tensors.has_trailing_ones(self.ordinal)
    }

    /// Always column-major.
    #[must_use]
    pub fn order(self) -> Order {
        Order::ColumnMajor
    }

    /// Absolute offset of the data.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.record().offset
    }

    /// Bytes that the data takes.
    #[must_use]
    pub fn stored_len(self) -> Option<u64> {
        Some(self.len())
    }

    /// Bytes of the decoded data.
    #[must_use]
    pub fn nbytes(self) -> Option<u64> {
        Some(self.len())
    }

    /// Four bytes for each element, as was checked.
    pub(crate) fn len(self) -> u64 {
        let elements = self.dims().elements();
        let all = elements.saturating_mul(self.batch().into());
        all.saturating_mul(4)
    }

    pub(crate) fn range(self) -> Range<u64> {
        let offset = self.offset();
        offset..offset.saturating_add(self.len())
    }
}

/// Name, dtype and dims: `w f32 [2, 3]`.
impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} f32 {}", self.name(), self.shape())
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name())
            .field("stat", &self.stat())
            .field("shape", self.shape())
            .field("batch", &self.batch())
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

/// The parts of an address.
#[derive(Clone, Debug)]
struct Parts<'a> {
    address: &'a str,
    /// Where the next part starts, `None` after the last one.
    next: Option<usize>,
    /// Where parts end that are still to come, but the last one; `None` where that is at every dot.
    cuts: Option<&'a [usize]>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let start = self.next?;
        let rest = self.address.get(start..).unwrap_or_default();
        let len = match &mut self.cuts {
            None => rest.find('.'),
            Some(cuts) => cuts.split_first().map(|(cut, more)| {
                *cuts = more;
                cut.saturating_sub(start)
            }),
        };
        self.next = len.map(|len| start.saturating_add(len).saturating_add(1));
        Some(len.map_or(rest, |len| rest.get(..len).unwrap_or_default()))
    }
}
