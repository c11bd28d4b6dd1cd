use crate::{DType, Order, Shape, ShapeError, Tensor};

/// What a tensor is, without its bytes: dtype, shape and order.
///
/// A builder takes one beside the source that a deferred tensor's bytes are pulled from.
///
/// ```
/// use tensor_core::{DType, Order, Shape, TensorSpec};
///
/// let spec = TensorSpec::new(DType::F32, Shape::new(&[2, 3])?).with_order(Order::ColumnMajor);
/// assert_eq!(spec.byte_len()?, Some(24));
/// # Ok::<(), tensor_core::ShapeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    dtype: DType,
    shape: Shape,
    order: Order,
}

impl TensorSpec {
    /// A row-major tensor.
    #[must_use]
    pub fn new(dtype: DType, shape: Shape) -> Self {
        Self {
            dtype,
            shape,
            order: Order::RowMajor,
        }
    }

    /// Says that the elements lie in `order`.
    #[must_use]
    pub fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The element type.
    ///
    /// [`is_in`](Self::is_in) has an example.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dims, outermost first.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Which dim varies fastest.
    ///
    /// [`is_in`](Self::is_in) has an example.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Whether the elements lie in `order`: also where their order makes no difference, since at
    /// most one dim is above 1.
    ///
    /// ```
    /// use tensor_core::{DType, Order, Shape, TensorSpec};
    ///
    /// let matrix = TensorSpec::new(DType::F32, Shape::new(&[2, 3])?);
    /// assert_eq!((matrix.dtype(), matrix.order()), (DType::F32, Order::RowMajor));
    /// assert!(!matrix.is_in(Order::ColumnMajor));
    /// let vector = TensorSpec::new(DType::F32, Shape::new(&[6])?);
    /// assert!(vector.is_in(Order::ColumnMajor));
    /// assert_eq!(vector.into_shape().dims(), &[6]);
    /// # Ok::<(), tensor_core::ShapeError>(())
    /// ```
    #[must_use]
    pub fn is_in(&self, order: Order) -> bool {
        self.order == order || self.shape.is_order_free()
    }

    /// How many bytes the elements take, `None` for [`DType::Opaque`], which may take any number.
    ///
    /// # Errors
    /// [`ShapeError::ByteOverflow`] where they are too many to count.
    pub fn byte_len(&self) -> Result<Option<u64>, ShapeError> {
        self.shape.byte_len(self.dtype)
    }

    /// Fails where the elements take another number of bytes than `got`.
    ///
    /// ```
    /// use tensor_core::{DType, Shape, ShapeError, TensorSpec};
    ///
    /// let spec = TensorSpec::new(DType::I16, Shape::new(&[3])?);
    /// assert_eq!(spec.check_len(6), Ok(()));
    /// let error = ShapeError::DataLength { expected: 6, got: 5 };
    /// assert_eq!(spec.check_len(5), Err(error));
    /// # Ok::<(), ShapeError>(())
    /// ```
    ///
    /// # Errors
    /// [`ShapeError::DataLength`], and as [`byte_len`](Self::byte_len).
    pub fn check_len(&self, got: u64) -> Result<(), ShapeError> {
        match self.byte_len()? {
            Some(expected) if expected != got => Err(ShapeError::DataLength { expected, got }),
            _ => Ok(()),
        }
    }

    /// The shape, without a copy.
    ///
    /// [`is_in`](Self::is_in) has an example.
    #[must_use]
    pub fn into_shape(self) -> Shape {
        self.shape
    }
}

impl From<&Tensor> for TensorSpec {
    fn from(tensor: &Tensor) -> Self {
        Self::new(tensor.dtype(), tensor.shape().clone()).with_order(tensor.order())
    }
}
