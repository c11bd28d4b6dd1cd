//! Sources over a source: what conversion is composed of.

pub use numbers::{Cast, CastCounts};
pub use transposed::Transposed;
pub(crate) use transposed::transpose;

use crate::scratch::Scratch;
use crate::{DType, FileId, ShapeError, Source, SourceError};

mod float8;
mod numbers;
mod slices;
mod tiles;
mod transposed;

/// Elements of a source with the bytes of each reversed: big-endian data as little-endian.
///
/// ```
/// use tensor_core::{Bytes, DType, Source, Swapped};
///
/// let swapped = Swapped::new(Bytes::from_static(&[0x3F, 0x80, 0, 0]), DType::F32)?;
/// assert_eq!(swapped.read(0..4)?, &[0, 0, 0x80, 0x3F][..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Swapped<S> {
    inner: S,
    unit: usize,
}

impl<S: Source> Swapped<S> {
    /// Swaps every element of `inner`; both halves of a complex number for themselves.
    ///
    /// # Errors
    /// [`ShapeError::DataLength`] where the source does not hold whole elements.
    pub fn new(inner: S, dtype: DType) -> Result<Self, ShapeError> {
        let unit = dtype.swap_size();
        whole(inner.size(), unit as u64)?;
        Ok(Self { inner, unit })
    }
}

impl<S: Source> Source for Swapped<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        on_units(self.unit, offset, out, |offset, out| {
            self.inner.read_into(offset, out)?;
            swap_units(out, self.unit);
            Ok(())
        })
    }

    fn window(&self) -> usize {
        self.inner.window()
    }

    fn file(&self) -> Option<&FileId> {
        self.inner.file()
    }

    fn is_random_access(&self) -> bool {
        self.inner.is_random_access()
    }
}

/// Reverses every `unit` bytes in place.
fn swap_units(bytes: &mut [u8], unit: usize) {
    fn swap<const N: usize>(bytes: &mut [u8]) {
        for unit in bytes.chunks_exact_mut(N) {
            unit.reverse();
        }
    }
    match unit {
        2 => swap::<2>(bytes),
        4 => swap::<4>(bytes),
        8 => swap::<8>(bytes),
        _ => {}
    }
}

/// Fails where `len` bytes are no whole number of units.
fn whole(len: u64, unit: u64) -> Result<(), ShapeError> {
    match len.checked_rem(unit) {
        Some(0) => Ok(()),
        _ => Err(ShapeError::DataLength {
            expected: len / unit.max(1) * unit,
            got: len,
        }),
    }
}

/// Answers any byte range with `read`, which only takes whole units: the range itself where it
/// is one, else the units around it through a buffer.
fn on_units(
    unit: usize,
    offset: u64,
    out: &mut [u8],
    read: impl Fn(u64, &mut [u8]) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let before = usize::try_from(offset % unit as u64).unwrap_or(0);
    if before == 0 && out.len() % unit == 0 {
        return read(offset, out);
    }
    let mut wider = Scratch::of((before + out.len()).next_multiple_of(unit))?;
    read(offset - before as u64, wider.as_mut_slice())?;
    let exact = wider
        .as_mut_slice()
        .get(before..)
        .and_then(|rest| rest.get(..out.len()));
    out.copy_from_slice(exact.unwrap_or_default());
    Ok(())
}
