use alloc::vec::Vec;

use crate::{CastError, DType, Element, UsageError};

/// Views little-endian bytes as elements: the one place where bytes become typed slices.
///
/// # Errors
/// [`CastError::ByteOrder`] on a big-endian host (for any element wider than a byte), and
/// [`CastError::Alignment`] where the first byte isn't aligned for `T`. A length that is not a
/// multiple of the element size never reaches this function from a `Tensor`; it is reported as
/// misalignment of the end.
///
/// ```
/// use tensor_core::{AlignedBytes, CastError, cast_slice};
///
/// let bytes = AlignedBytes::copy_of(&[1, 0, 2, 0, 3, 0])?;
/// # if cfg!(target_endian = "little") {
/// assert_eq!(cast_slice::<u16>(bytes.as_slice())?, &[1, 2, 3]);
/// let odd = cast_slice::<u16>(&bytes.as_slice()[1..]);
/// assert!(matches!(odd, Err(CastError::Alignment { align: 2, .. })));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cast_slice<T: Element>(bytes: &[u8]) -> Result<&[T], CastError> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    if cfg!(target_endian = "big") && size_of::<T>() > 1 {
        return Err(CastError::ByteOrder);
    }
    bytemuck::try_cast_slice(bytes).map_err(|_| CastError::Alignment {
        address: bytes.as_ptr() as usize,
        align: align_of::<T>(),
    })
}

/// Fills `out` with a tensor's elements, of which `read` fills in the little-endian bytes.
///
/// # Errors
/// [`CastError::DType`] where the tensor is known to have other elements, and what `read` fails
/// with.
///
/// ```
/// use tensor_core::codec::read_elements;
/// use tensor_core::{DType, UsageError};
///
/// let mut values = [0f32; 2];
/// read_elements(Some(DType::F32), &mut values, |bytes| {
///     bytes[..4].copy_from_slice(&0.5f32.to_le_bytes()); // as an archive's `read_into`
///     Ok::<(), UsageError>(())
/// })?;
/// assert_eq!(values, [0.5, 0.0]);
/// # Ok::<(), UsageError>(())
/// ```
pub fn read_elements<T: Element, E: From<UsageError>>(
    dtype: Option<DType>,
    out: &mut [T],
    read: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(got) = dtype.filter(|&dtype| dtype != T::DTYPE) {
        let expected = T::DTYPE;
        return Err(UsageError::from(CastError::DType { expected, got }).into());
    }
    read(bytemuck::cast_slice_mut(out))?;
    if cfg!(target_endian = "big") {
        for element in out {
            *element = element.swapped();
        }
    }
    Ok(())
}

/// Copies little-endian bytes into a vector of elements, whatever the alignment and host order.
pub(crate) fn copy_slice<T: Element>(bytes: &[u8]) -> Result<Vec<T>, CastError> {
    let elements = bytes.chunks_exact(size_of::<T>()).map(|bytes| {
        let element: T = bytemuck::pod_read_unaligned(bytes);
        if cfg!(target_endian = "big") {
            element.swapped()
        } else {
            element
        }
    });
    let mut out = Vec::new();
    out.try_reserve_exact(elements.len())
        .map_err(|_| CastError::OutOfMemory(bytes.len() as u64))?;
    out.extend(elements);
    Ok(out)
}
