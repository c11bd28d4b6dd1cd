use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::adapt::transpose;
use crate::cast::copy_slice;
use crate::strided::gather;
use crate::{AlignedBytes, CastError, DType, Element, Order, Shape, ShapeError, StrideError};

/// One tensor: element type, shape, order and shared little-endian bytes. Cheap to clone, free of
/// lifetimes.
///
/// ```
/// use tensor_core::{DType, Order, Shape, Tensor};
///
/// let tensor = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
/// assert_eq!((tensor.dtype(), tensor.order()), (DType::F32, Order::RowMajor));
/// assert_eq!(tensor.dims_usize()?, [2, 3]);
/// assert_eq!(tensor.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// assert!(tensor.as_slice::<f64>().is_err()); // values are never changed in silence
///
/// // Bytes as they come from elsewhere: little-endian, without a copy.
/// let bytes = tensor.data().slice(..8);
/// let row = Tensor::new(DType::F32, Shape::new(&[2])?, bytes)?;
/// assert_eq!(row.clone().into_vec::<f32>()?, [1.0, 2.0]);
/// assert_eq!(row.into_data().len(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    order: Order,
    data: Bytes,
}

impl Tensor {
    /// A row-major tensor over `data`: dense elements, little-endian on every host. Nothing is
    /// copied.
    ///
    /// # Errors
    /// [`ShapeError::DataLength`] where the data's length is not elements times element size;
    /// data of [`DType::Opaque`] may have any length.
    pub fn new(dtype: DType, shape: Shape, data: impl Into<Bytes>) -> Result<Self, ShapeError> {
        let data = data.into();
        let got = data.len() as u64;
        match shape.byte_len(dtype)? {
            Some(expected) if expected != got => Err(ShapeError::DataLength { expected, got }),
            _ => Ok(Self {
                dtype,
                shape,
                order: Order::RowMajor,
                data,
            }),
        }
    }

    /// A row-major tensor with a copy of `elements`, stored little-endian whatever the host.
    ///
    /// ```
    /// use tensor_core::{DType, Tensor};
    ///
    /// let tensor = Tensor::from_slice(&[1.0f32, 2.0], &[2, 1])?;
    /// assert_eq!(tensor.dtype(), DType::F32);
    /// assert_eq!(&tensor.data()[..], [0, 0, 0x80, 0x3F, 0, 0, 0, 0x40]);
    /// # Ok::<(), tensor_core::ShapeError>(())
    /// ```
    ///
    /// # Errors
    /// [`ShapeError`] where the dims overflow or ask for another number of elements.
    pub fn from_slice<T: Element>(elements: &[T], dims: &[u64]) -> Result<Self, ShapeError> {
        let shape = Shape::new(dims)?;
        let data = if cfg!(target_endian = "big") {
            let swapped: Vec<T> = elements.iter().map(|element| element.swapped()).collect();
            aligned_copy(bytemuck::cast_slice(&swapped))
        } else {
            aligned_copy(bytemuck::cast_slice(elements))
        };
        Self::new(T::DTYPE, shape, data)
    }

    /// A row-major tensor of `elements`, which are not copied on a little-endian host.
    ///
    /// ```
    /// use tensor_core::Tensor;
    ///
    /// let tensor = Tensor::from_vec(vec![1i32, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(tensor.as_slice::<i32>()?[4], 5);
    /// assert_eq!(tensor.into_vec::<i32>()?, [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShapeError`] where the dims overflow or ask for another number of elements.
    pub fn from_vec<T: Element>(elements: Vec<T>, dims: &[u64]) -> Result<Self, ShapeError> {
        if cfg!(target_endian = "big") {
            return Self::from_slice(&elements, dims);
        }
        let data = Bytes::from_owner(Elements(elements));
        Self::new(T::DTYPE, Shape::new(dims)?, data)
    }

    /// A row-major tensor of the elements that a strided view of `data` shows: a transposed,
    /// sliced, reversed or broadcast array of another library.
    ///
    /// `strides` says for each dim how many *elements* lie between two neighbours, and `offset` is
    /// the element that all indices of 0 stand for. A stride may be negative, and is 0 where a
    /// dim repeats the same elements. Data is little-endian, as everywhere. Nothing is copied
    /// where the elements lie in row-major order already.
    ///
    /// ```
    /// use tensor_core::{DType, Tensor};
    ///
    /// let stored = Tensor::from_slice(&[1i16, 2, 3, 4, 5, 6], &[2, 3])?;
    /// // Its transpose, without moving a byte: swap dims and strides.
    /// let view = Tensor::from_strided(DType::I16, &[3, 2], &[1, 3], 0, stored.data().clone())?;
    /// assert_eq!(view.as_slice::<i16>()?, &[1, 4, 2, 5, 3, 6]);
    /// // Its second row backwards, twice.
    /// let view = Tensor::from_strided(DType::I16, &[2, 3], &[0, -1], 5, stored.data().clone())?;
    /// assert_eq!(view.as_slice::<i16>()?, &[6, 5, 4, 6, 5, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StrideError`] where strides and dims aren't of one number, the dims overflow, the view
    /// reaches outside of the data, or the dtype has no element size.
    pub fn from_strided(
        dtype: DType,
        dims: &[u64],
        strides: &[i64],
        offset: u64,
        data: impl Into<Bytes>,
    ) -> Result<Self, StrideError> {
        let shape = Shape::new(dims)?;
        let data = gather(&data.into(), dtype, &shape, strides, offset)?;
        Ok(Self::new(dtype, shape, data)?)
    }

    /// Says that the bytes lie in `order`; nothing moves.
    #[must_use]
    pub fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dims, outermost first.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Which dim varies fastest in [`data`](Self::data).
    pub fn order(&self) -> Order {
        self.order
    }

    /// The decoded, little-endian bytes.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// The decoded, little-endian bytes, without the rest.
    #[must_use]
    pub fn into_data(self) -> Bytes {
        self.data
    }

    /// The elements in row-major order, without a copy.
    ///
    /// ```
    /// use tensor_core::{CastError, Order, Tensor};
    ///
    /// let rows = Tensor::from_slice(&[1i32, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(rows.as_slice::<i32>()?[1], 2);
    /// let columns = rows.with_order(Order::ColumnMajor);
    /// assert_eq!(columns.as_slice::<i32>(), Err(CastError::ColumnMajor));
    /// assert_eq!(columns.to_vec::<i32>()?, [1, 3, 5, 2, 4, 6]);
    /// assert_eq!(columns.reversed_view().as_slice::<i32>()?, [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CastError`] where the dtype is another, the elements are in another order, the bytes aren't
    /// aligned for `T`, or the host is big-endian. [`to_vec`](Self::to_vec) takes care of the latter
    /// three.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], CastError> {
        self.expect::<T>()?;
        if self.order == Order::ColumnMajor && !self.shape.is_order_free() {
            return Err(CastError::ColumnMajor);
        }
        crate::cast_slice(&self.data)
    }

    /// A copy of the elements in row-major order, on any host and at any alignment.
    ///
    /// # Errors
    /// [`CastError::DType`] where the elements aren't of type `T`, [`CastError::OutOfMemory`] where
    /// there is no room for the copy.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, CastError> {
        self.expect::<T>()?;
        copy_slice(&self.to_row_major()?.data)
    }

    /// The elements in row-major order as a vector of the caller's own: a copy, since the bytes of
    /// a tensor may be those of a file or of another tensor.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec).
    pub fn into_vec<T: Element>(self) -> Result<Vec<T>, CastError> {
        self.to_vec()
    }

    /// The dims as `usize`, as `ndarray` and most of memory count them.
    ///
    /// # Errors
    /// [`ShapeError::Overflow`] where one does not fit this host's `usize`.
    pub fn dims_usize(&self) -> Result<Vec<usize>, ShapeError> {
        let dims = self.shape.dims().iter();
        dims.map(|&dim| usize::try_from(dim).map_err(|_| ShapeError::Overflow))
            .collect()
    }

    fn expect<T: Element>(&self) -> Result<(), CastError> {
        if self.dtype == T::DTYPE {
            Ok(())
        } else {
            Err(CastError::DType {
                expected: T::DTYPE,
                got: self.dtype,
            })
        }
    }

    /// A tensor of these values with the last dim fastest; dims stay. Copies only where the bytes must
    /// move.
    ///
    /// # Errors
    /// [`CastError::Opaque`] where the dtype has no element size, [`CastError::OutOfMemory`] where
    /// there is no room for the copy.
    pub fn to_row_major(&self) -> Result<Self, CastError> {
        let size = self.dtype.size().ok_or(CastError::Opaque(self.dtype))?;
        let data = if self.order == Order::RowMajor || self.shape.is_order_free() {
            self.data.clone()
        } else {
            transpose(&self.data, self.shape.dims(), size)
                .map_err(|_| CastError::OutOfMemory(self.data.len() as u64))?
        };
        Ok(Self {
            dtype: self.dtype,
            shape: self.shape.clone(),
            order: Order::RowMajor,
            data,
        })
    }

    /// A tensor of these bytes with reversed dims and the other order: what is column-major `[a, b]` is
    /// row-major `[b, a]`. Nothing is copied.
    #[must_use]
    pub fn reversed_view(&self) -> Self {
        let order = match self.order {
            Order::RowMajor => Order::ColumnMajor,
            Order::ColumnMajor => Order::RowMajor,
        };
        Self {
            dtype: self.dtype,
            shape: self.shape.reversed(),
            order,
            data: self.data.clone(),
        }
    }
}

/// An aligned copy; where memory for one can't be had the allocator's answer is the same as for
/// any other vector.
fn aligned_copy(bytes: &[u8]) -> Bytes {
    match AlignedBytes::copy_of(bytes) {
        Ok(buffer) => buffer.freeze(),
        Err(_) => Bytes::copy_from_slice(bytes),
    }
}

/// The memory of a vector as bytes.
struct Elements<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Elements<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("dtype", &self.dtype)
            .field("shape", &self.shape)
            .field("order", &self.order)
            .field("data", &format_args!("{} bytes", self.data.len()))
            .finish()
    }
}
