use alloc::vec::Vec;

use crate::{CastError, Element};

/// Views little-endian bytes as elements: the one place where bytes become typed slices.
///
/// # Errors
/// [`CastError::ByteOrder`] on a big-endian host (for any element wider than a byte), and
/// [`CastError::Alignment`] where the first byte isn't aligned for `T`. A length that is not a
/// multiple of the element size never reaches this function from a `Tensor`; it is reported as
/// misalignment of the end.
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
