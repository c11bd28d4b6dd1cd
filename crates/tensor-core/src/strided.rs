#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;

use bytes::Bytes;

use crate::{AlignedBytes, DType, Shape, ShapeError};

/// Why a strided view can't become a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StrideError {
    /// The dims overflow.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// There is not one stride per dim.
    #[error("{dims} dims, but {strides} strides")]
    Count {
        /// How many dims were given.
        dims: usize,
        /// How many strides were given.
        strides: usize,
    },
    /// The view reaches before the first or past the last element of the data.
    #[error("the view spans elements {first} to {last} of data that holds {available}")]
    OutOfBounds {
        /// The lowest element that the view reaches; saturated.
        first: i128,
        /// The highest element that the view reaches; saturated.
        last: i128,
        /// How many whole elements the data holds.
        available: u64,
    },
    /// The dtype has no element size, so there is nothing to step by.
    #[error("elements of {0} have no size")]
    Opaque(DType),
    /// The buffer for the result could not be allocated.
    #[error("no memory for {0} bytes")]
    OutOfMemory(u64),
}

/// One dim of a view that has more than one position.
struct Dim {
    len: usize,
    /// From one position to the next, in elements.
    stride: isize,
    /// From the first position to the last, in elements.
    span: isize,
}

/// The elements of a view in row-major order: a slice of `data` where they lie so already.
pub(crate) fn gather(
    data: &Bytes,
    dtype: DType,
    shape: &Shape,
    strides: &[i64],
    offset: u64,
) -> Result<Bytes, StrideError> {
    let dims = shape.dims();
    if dims.len() != strides.len() {
        return Err(StrideError::Count {
            dims: dims.len(),
            strides: strides.len(),
        });
    }
    let size = dtype.size().and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|&size| size > 0);
    let size = size.ok_or(StrideError::Opaque(dtype))?;
    let len = shape.byte_len(dtype)?.unwrap_or(0);
    if len == 0 {
        return Ok(Bytes::new());
    }
    let available = data.len().checked_div(size).unwrap_or(0);
    let (first, last) = reach(dims, strides, offset);
    if first < 0 || last >= i128::try_from(available).unwrap_or(i128::MAX) {
        return Err(StrideError::OutOfBounds {
            first,
            last,
            available: available as u64,
        });
    }
    // Every position of the view is one of the data's, so all that follows fits.
    let beyond = StrideError::OutOfMemory(len);
    let start = usize::try_from(offset).map_err(|_| beyond)?;
    let len = usize::try_from(len).map_err(|_| beyond)?;
    let mut view = Vec::new();
    for (&dim, &stride) in dims.iter().zip(strides).filter(|&(&dim, _)| dim > 1) {
        let span = i128::from(stride).saturating_mul(i128::from(dim.saturating_sub(1)));
        view.push(Dim {
            len: usize::try_from(dim).map_err(|_| beyond)?,
            stride: isize::try_from(stride).map_err(|_| beyond)?,
            span: isize::try_from(span).map_err(|_| beyond)?,
        });
    }
    if is_row_major(&view) {
        let from = start.saturating_mul(size);
        return Ok(data.slice(from..from.saturating_add(len)));
    }
    let mut out = AlignedBytes::zeroed(len).map_err(|_| beyond)?;
    copy(data, size, start, &view, out.as_mut_slice());
    Ok(out.freeze())
}

/// The lowest and the highest element of a view that has any.
fn reach(dims: &[u64], strides: &[i64], offset: u64) -> (i128, i128) {
    let (mut first, mut last) = (i128::from(offset), i128::from(offset));
    for (&dim, &stride) in dims.iter().zip(strides) {
        // Below 2^127: no factor is larger than 2^64 and 2^63.
        let span = i128::from(stride).saturating_mul(i128::from(dim.saturating_sub(1)));
        if span < 0 {
            first = first.saturating_add(span);
        } else {
            last = last.saturating_add(span);
        }
    }
    (first, last)
}

fn is_row_major(view: &[Dim]) -> bool {
    let mut dense = Some(1usize);
    view.iter().rev().all(|dim| {
        let fits = dense.and_then(|dense| isize::try_from(dense).ok()) == Some(dim.stride);
        dense = dense.and_then(|dense| dense.checked_mul(dim.len));
        fits
    })
}

/// Copies run after run: the last dim is one run, the dims before it count like an odometer.
fn copy(data: &[u8], size: usize, start: usize, view: &[Dim], out: &mut [u8]) {
    let Some((inner, outer)) = view.split_last() else {
        return;
    };
    let mut at = start;
    let mut counts = alloc::vec![0usize; outer.len()];
    let run = inner.len.saturating_mul(size);
    for target in out.chunks_exact_mut(run) {
        copy_run(data, size, at, inner, target);
        for (count, dim) in counts.iter_mut().zip(outer).rev() {
            *count = count.saturating_add(1);
            if *count < dim.len {
                at = at.saturating_add_signed(dim.stride);
                break;
            }
            *count = 0;
            at = at.saturating_add_signed(dim.span.saturating_neg());
        }
    }
}

fn copy_run(data: &[u8], size: usize, start: usize, dim: &Dim, out: &mut [u8]) {
    let element = |at: usize, len: usize| {
        let from = at.saturating_mul(size);
        data.get(from..from.saturating_add(len)).unwrap_or_default()
    };
    if dim.stride == 1 {
        out.copy_from_slice(element(start, out.len()));
        return;
    }
    let mut at = start;
    for target in out.chunks_exact_mut(size) {
        target.copy_from_slice(element(at, size));
        at = at.saturating_add_signed(dim.stride);
    }
}
