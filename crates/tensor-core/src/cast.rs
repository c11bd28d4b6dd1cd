use alloc::vec::Vec;

use crate::{CastError, Element};

/// Views little-endian bytes as elements: the one place where bytes become typed slices.
///
/// # Errors
/// [`CastError::ByteOrder`] on a big-endian host (for elements wider than a byte), and
/// [`CastError::Alignment`] where the first byte isn't aligned for `T`. A length that is not a
/// multiple of the element size never reaches this function from a `Tensor`; it is reported as
/// misalignment of the end.
pub fn cast_slice<T: Element>(bytes: &[u8]) -> Result<&[T], CastError> {
    if cfg!(target_endian = "big") && size_of::<T>() > 1 {
        return Err(CastError::ByteOrder);
    }
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|_| CastError::Alignment {
        address: bytes.as_ptr() as usize,
        align: align_of::<T>(),
    })
}

/// Copies little-endian bytes into a vector of elements, whatever the alignment and host order.
pub(crate) fn copy_slice<T: Element>(bytes: &[u8]) -> Vec<T> {
    let mut out = alloc::vec![T::zeroed(); bytes.len() / size_of::<T>()];
    let whole = out.len() * size_of::<T>();
    if let Some(bytes) = bytes.get(..whole) {
        bytemuck::cast_slice_mut(&mut out).copy_from_slice(bytes);
    }
    if cfg!(target_endian = "big") {
        for element in &mut out {
            *element = element.swapped();
        }
    }
    out
}
