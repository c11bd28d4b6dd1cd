#![deny(clippy::arithmetic_side_effects)]

use alloc::sync::Arc;
use core::fmt;

use crate::{DType, ShapeError};

/// How many dims are held without an allocation.
const INLINE: usize = 4;

/// Dimensions of a tensor, outermost first, whose product is known to fit `u64`.
///
/// An empty list is a scalar: one element. A zero anywhere makes the count 0, however large the
/// other dims are.
///
/// ```
/// use tensor_core::Shape;
///
/// assert_eq!(Shape::new(&[])?.elements(), 1);
/// assert_eq!(Shape::new(&[u64::MAX, 0, u64::MAX])?.elements(), 0);
/// assert!(Shape::new(&[1 << 32, 1 << 32]).is_err());
/// # Ok::<(), tensor_core::ShapeError>(())
/// ```
#[derive(Clone)]
pub struct Shape {
    dims: Dims,
    elements: u64,
}

#[derive(Clone)]
enum Dims {
    Inline {
        len: u8,
        dims: [u64; INLINE],
    },
    /// Shared by all copies: a file may say for very many tensors what their shape is once.
    Heap(Arc<[u64]>),
}

impl Shape {
    /// A scalar: no dims, one element.
    pub const SCALAR: Self = Self {
        dims: Dims::Inline {
            len: 0,
            dims: [0; INLINE],
        },
        elements: 1,
    };

    /// Bytes of memory that the dims take outside of the value itself.
    ///
    /// ```
    /// use tensor_core::Shape;
    ///
    /// // A scalar's shape takes no memory of its own.
    /// assert_eq!(Shape::new(&[])?.heap_bytes(), 0);
    /// # Ok::<(), tensor_core::ShapeError>(())
    /// ```
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        match &self.dims {
            Dims::Inline { .. } => 0,
            Dims::Heap(dims) => size_of_val::<[u64]>(dims) as u64,
        }
    }

    /// Checks that the element count fits `u64` and copies the dims.
    ///
    /// # Errors
    /// [`ShapeError::Overflow`] when the product of the dims does not fit.
    pub fn new(dims: &[u64]) -> Result<Self, ShapeError> {
        let elements = product(dims).ok_or(ShapeError::Overflow)?;
        let stored = match u8::try_from(dims.len()) {
            Ok(len) if dims.len() <= INLINE => {
                let mut inline = [0; INLINE];
                for (slot, &dim) in inline.iter_mut().zip(dims) {
                    *slot = dim;
                }
                Dims::Inline { len, dims: inline }
            }
            _ => Dims::Heap(dims.into()),
        };
        Ok(Self {
            dims: stored,
            elements,
        })
    }

    /// The dims, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        match &self.dims {
            Dims::Inline { len, dims } => dims.get(..usize::from(*len)).unwrap_or_default(),
            Dims::Heap(dims) => dims,
        }
    }

    /// Number of dims; 0 for a scalar.
    ///
    /// ```
    /// use tensor_core::Shape;
    ///
    /// assert_eq!((Shape::new(&[2, 3])?.rank(), Shape::new(&[])?.rank()), (2, 0));
    /// # Ok::<(), tensor_core::ShapeError>(())
    /// ```
    #[must_use]
    pub fn rank(&self) -> usize {
        self.dims().len()
    }

    /// Number of elements: the product of the dims.
    #[must_use]
    pub const fn elements(&self) -> u64 {
        self.elements
    }

    /// Bytes that a dense tensor of this shape takes, `None` where the dtype has no element size.
    ///
    /// # Errors
    /// [`ShapeError::Overflow`] when the byte count does not fit `u64`.
    ///
    /// ```
    /// use tensor_core::{DType, Shape};
    ///
    /// let shape = Shape::new(&[2, 3])?;
    /// assert_eq!(shape.byte_len(DType::F32)?, Some(24));
    /// assert_eq!(shape.byte_len(DType::Opaque)?, None);
    /// # Ok::<(), tensor_core::ShapeError>(())
    /// ```
    pub fn byte_len(&self, dtype: DType) -> Result<Option<u64>, ShapeError> {
        match dtype.size() {
            Some(size) => self
                .elements
                .checked_mul(size)
                .map(Some)
                .ok_or(ShapeError::ByteOverflow),
            None => Ok(None),
        }
    }

    /// A shape of these dims, last first.
    ///
    /// ```
    /// use tensor_core::Shape;
    ///
    /// let shape = Shape::new(&[2, 3])?;
    /// assert_eq!((shape.rank(), shape.reversed().dims()), (2, &[3, 2][..]));
    /// # Ok::<(), tensor_core::ShapeError>(())
    /// ```
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut reversed = self.clone();
        match &mut reversed.dims {
            Dims::Inline { len, dims } => {
                if let Some(used) = dims.get_mut(..usize::from(*len)) {
                    used.reverse();
                }
            }
            Dims::Heap(dims) => *dims = dims.iter().rev().copied().collect(),
        }
        reversed
    }

    /// Whether row-major and column-major bytes are the same: at most one dim is above 1, or
    /// there is no element at all.
    ///
    /// ```
    /// use tensor_core::Shape;
    ///
    /// assert!(Shape::new(&[1, 5, 1])?.is_order_free());
    /// assert!(!Shape::new(&[2, 3])?.is_order_free());
    /// # Ok::<(), tensor_core::ShapeError>(())
    /// ```
    #[must_use]
    pub fn is_order_free(&self) -> bool {
        self.elements == 0 || self.dims().iter().filter(|&&dim| dim > 1).count() <= 1
    }
}

/// Product of the dims, `None` on overflow; a zero wins over any overflow.
fn product(dims: &[u64]) -> Option<u64> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

impl Default for Shape {
    fn default() -> Self {
        Self::SCALAR
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.dims() == other.dims()
    }
}

impl Eq for Shape {}

impl core::hash::Hash for Shape {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.dims().hash(state);
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dims(), f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dims(), f)
    }
}

impl TryFrom<&[u64]> for Shape {
    type Error = ShapeError;

    fn try_from(dims: &[u64]) -> Result<Self, ShapeError> {
        Self::new(dims)
    }
}

/// Which dimension of a dense tensor varies fastest in memory.
///
/// ```
/// use tensor_core::Order;
///
/// assert_eq!((Order::RowMajor.letter(), Order::ColumnMajor.letter()), ("C", "F"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last dimension is fastest (C, NumPy's default).
    #[default]
    RowMajor,
    /// The first dimension is fastest (Fortran, primitiv).
    ColumnMajor,
}

impl Order {
    /// `"C"` or `"F"`, the letters NumPy uses.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::RowMajor => "C",
            Self::ColumnMajor => "F",
        }
    }
}
