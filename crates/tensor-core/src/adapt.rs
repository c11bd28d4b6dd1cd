//! Sources over a source: what conversion is composed of.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;

pub use numbers::{Cast, CastCounts};

use crate::{AlignedBytes, DType, FileId, Order, Shape, ShapeError, Source, SourceError};

mod float8;
mod numbers;

/// How much of a transposed tensor a walk should ask for at a time: wide stripes mean long runs
/// of the source.
const STRIPE: usize = 16 << 20;

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

/// The other order of a dense tensor's elements: column-major bytes as row-major ones of the same
/// dims, or the reverse.
///
/// Over memory the bytes are gathered in place. Over a file each window reads the runs it needs;
/// a walk in windows of [`window`](Source::window) keeps those long.
///
/// ```
/// use tensor_core::{Bytes, DType, Order, Shape, Source, Transposed};
///
/// let column_major = Bytes::from_static(&[1, 4, 2, 5, 3, 6]);
/// let rows = Transposed::new(column_major, DType::U8, &Shape::new(&[2, 3])?, Order::ColumnMajor)?;
/// assert_eq!(rows.read(0..6)?, &[1, 2, 3, 4, 5, 6][..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Transposed<S> {
    inner: S,
    /// Dims of the result, slowest first; the source has them fastest first.
    dims: Arc<[u64]>,
    size: usize,
}

impl<S: Source> Transposed<S> {
    /// `inner` holds elements of `dtype` and `shape` in order `from`; the result has the other.
    ///
    /// # Errors
    /// [`ShapeError`] where the source's length isn't that of the tensor, or the dtype has no
    /// element size.
    pub fn new(inner: S, dtype: DType, shape: &Shape, from: Order) -> Result<Self, ShapeError> {
        let got = inner.size();
        let expected = shape.byte_len(dtype)?.unwrap_or(u64::MAX);
        if expected != got {
            return Err(ShapeError::DataLength { expected, got });
        }
        let size = dtype
            .size()
            .and_then(|size| usize::try_from(size).ok())
            .unwrap_or(1);
        let mut dims: Vec<u64> = shape
            .dims()
            .iter()
            .copied()
            .filter(|&dim| dim != 1)
            .collect();
        if from == Order::RowMajor {
            dims.reverse();
        }
        Ok(Self {
            inner,
            dims: dims.into(),
            size,
        })
    }

    /// Gathers one box of the result from memory, or from runs of the source.
    fn gather(&self, part: &Part<'_>, out: &mut [u8]) -> Result<(), SourceError> {
        if let Some(bytes) = self.inner.contiguous() {
            gather_from(bytes, 0, part, self.size, out);
            return Ok(());
        }
        let size = self.size as u64;
        let run = (part.count - 1) * part.stride + 1;
        // Runs that are mostly gaps: one element at a time.
        if part.stride * size > 4096 {
            for (index, slot) in out.chunks_exact_mut(self.size).enumerate() {
                self.inner
                    .read_into(part.source_of(index as u64) * size, slot)?;
            }
            return Ok(());
        }
        // A run too long for the scratch memory: the box in halves, one after the other.
        if run * size > STRIPE as u64 && part.count > 1 {
            let low = part.count / 2;
            let half = |base, count| Part {
                base,
                count,
                stride: part.stride,
                rest: part.rest,
                rest_stride: part.rest_stride,
            };
            let low = half(part.base, low);
            let high = half(part.base + low.count * part.stride, part.count - low.count);
            let middle = usize::try_from(low.len() * size).unwrap_or(usize::MAX);
            let halves = out.split_at_mut_checked(middle);
            let (low_out, high_out) = halves.unwrap_or_default();
            self.gather(&low, low_out)?;
            return self.gather(&high, high_out);
        }
        // The slower axes count the runs; read them side by side, then gather from that copy.
        let runs = part.rest.iter().product::<u64>();
        let most = (STRIPE as u64 / (run * size)).clamp(1, runs);
        let scratch_len = usize::try_from(most * run * size)
            .map_err(|_| SourceError::TooLarge(most * run * size))?;
        let mut scratch = AlignedBytes::zeroed(scratch_len)?;
        let inner = usize::try_from(runs).unwrap_or(usize::MAX);
        let run_len = usize::try_from(run * size).unwrap_or(usize::MAX);
        let mut start = 0;
        while start < runs {
            let now = most.min(runs - start);
            for (at, slot) in scratch.as_mut_slice().chunks_exact_mut(run_len).enumerate() {
                if at as u64 >= now {
                    break;
                }
                let source = part.run_of(start + at as u64);
                self.inner.read_into(source * size, slot)?;
            }
            let step = usize::try_from(part.stride).unwrap_or(usize::MAX);
            let first = usize::try_from(start).unwrap_or(usize::MAX);
            let width = usize::try_from(now).unwrap_or(usize::MAX);
            let run = usize::try_from(run).unwrap_or(usize::MAX);
            scatter_runs(
                scratch.as_slice(),
                run,
                step,
                self.size,
                out,
                inner,
                first,
                width,
            );
            start += now;
        }
        Ok(())
    }
}

impl<S: Source> Source for Transposed<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        if self.dims.len() <= 1 || self.size() == 0 {
            return self.inner.read_into(offset, out);
        }
        on_units(self.size, offset, out, |offset, out| {
            let size = self.size as u64;
            let start = offset / size;
            let range = start..start + out.len() as u64 / size;
            boxes(&self.dims, range.clone(), &mut |part, at| {
                let from = usize::try_from((at - start) * size).unwrap_or(usize::MAX);
                let len = usize::try_from(part.len() * size).unwrap_or(usize::MAX);
                let out = out.get_mut(from..).and_then(|out| out.get_mut(..len));
                self.gather(part, out.unwrap_or_default())
            })
        })
    }

    fn window(&self) -> usize {
        STRIPE
    }

    fn file(&self) -> Option<&FileId> {
        self.inner.file()
    }
}

/// A box of the result that is contiguous there: fixed leading indices, a range on one axis, and
/// all of the axes after it.
#[derive(Debug)]
struct Part<'a> {
    /// Element of the source that the box starts at.
    base: u64,
    /// Length of the range.
    count: u64,
    /// Source stride of the ranged axis.
    stride: u64,
    /// Dims of the axes after it.
    rest: &'a [u64],
    /// Source stride of the first of those.
    rest_stride: u64,
}

impl Part<'_> {
    fn len(&self) -> u64 {
        self.count * self.rest.iter().product::<u64>()
    }

    /// The source element at which the run with index `run` over the rest axes starts.
    fn run_of(&self, mut run: u64) -> u64 {
        let mut source = self.base;
        let mut stride = self.rest_stride * self.rest.iter().product::<u64>();
        for &dim in self.rest.iter().rev() {
            stride /= dim;
            source += (run % dim) * stride;
            run /= dim;
        }
        source
    }

    /// The source element of the box's element `index`.
    fn source_of(&self, index: u64) -> u64 {
        let rest = self.rest.iter().product::<u64>();
        self.run_of(index % rest) + index / rest * self.stride
    }
}

/// Splits the elements `range` of a tensor with `dims` into boxes, at most two per axis, in order.
fn boxes<E>(
    dims: &[u64],
    range: Range<u64>,
    visit: &mut impl FnMut(&Part<'_>, u64) -> Result<(), E>,
) -> Result<(), E> {
    let mut at = range.start;
    while at < range.end {
        // The slowest axis whose whole sub-blocks fit from here.
        let mut block: u64 = dims.iter().product();
        let mut base = 0;
        let mut stride = 1;
        let mut index = at;
        for (axis, &dim) in dims.iter().enumerate() {
            block /= dim;
            let i = index / block;
            index %= block;
            let whole = if index == 0 {
                (range.end - at) / block
            } else {
                0
            };
            let count = whole.min(dim - i);
            base += i * stride;
            if count > 0 {
                let rest = dims.get(axis + 1..).unwrap_or_default();
                let part = Part {
                    base,
                    count,
                    stride,
                    rest,
                    rest_stride: stride * dim,
                };
                visit(&part, at)?;
                at += part.len();
                break;
            }
            stride *= dim;
        }
    }
    Ok(())
}

/// Gathers a box from contiguous source bytes whose first element is source element `origin`.
fn gather_from(bytes: &[u8], origin: u64, part: &Part<'_>, size: usize, out: &mut [u8]) {
    match size {
        1 => gather_sized::<1, 64>(bytes, origin, part, out),
        2 => gather_sized::<2, 32>(bytes, origin, part, out),
        4 => gather_sized::<4, 16>(bytes, origin, part, out),
        8 => gather_sized::<8, 8>(bytes, origin, part, out),
        _ => gather_sized::<16, 4>(bytes, origin, part, out),
    }
}

/// The blocked transposition: tiles of `T` x `T` elements, `T` of which fill a cache line. Each
/// line of the source is read once and each line of the result written once, with a tile in
/// between that fits any cache.
fn gather_sized<const N: usize, const T: usize>(
    bytes: &[u8],
    origin: u64,
    part: &Part<'_>,
    out: &mut [u8],
) {
    let source: &[[u8; N]] = units(bytes);
    let out: &mut [[u8; N]] = units_mut(out);
    let host = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let rest = host(part.rest.iter().product());
    let Some((&last, middle)) = part.rest.split_last() else {
        // The ranged axis is the last one: a strided copy.
        let (mut at, step) = (host(part.base - origin), host(part.stride));
        for slot in out.iter_mut() {
            *slot = source.get(at).copied().unwrap_or([0; N]);
            at = at.saturating_add(step);
        }
        return;
    };
    let last = host(last);
    let last_stride = part.rest_stride * middle.iter().product::<u64>();
    let (last_stride, stride) = (host(last_stride), host(part.stride));
    let count = host(part.count);
    let groups: u64 = middle.iter().product();
    for group in 0..groups {
        let base = host(part.run_of(group * last as u64) - origin);
        let column = host(group) * last;
        let mut tile = [[[0u8; N]; T]; T];
        for i0 in (0..count).step_by(T) {
            let height = T.min(count - i0);
            for j0 in (0..last).step_by(T) {
                let width = T.min(last - j0);
                for j in 0..width {
                    let from = base + (j0 + j) * last_stride + i0 * stride;
                    if stride == 1 {
                        let run = source.get(from..from + height).unwrap_or_default();
                        for (row, &element) in tile.iter_mut().zip(run) {
                            if let Some(slot) = row.get_mut(j) {
                                *slot = element;
                            }
                        }
                    } else {
                        for (i, row) in tile.iter_mut().take(height).enumerate() {
                            let element = source.get(from + i * stride).copied();
                            if let (Some(slot), Some(element)) = (row.get_mut(j), element) {
                                *slot = element;
                            }
                        }
                    }
                }
                for (i, row) in tile.iter().take(height).enumerate() {
                    let to = (i0 + i) * rest + column + j0;
                    if let (Some(to), Some(row)) = (out.get_mut(to..to + width), row.get(..width)) {
                        to.copy_from_slice(row);
                    }
                }
            }
        }
    }
}

/// Puts the columns `first..first + width` of a box: `runs` holds them one after the other, each
/// of `run` elements of which every `step`-th counts; a row of the box has `row` elements.
#[allow(clippy::too_many_arguments, reason = "a kernel over one call site")]
fn scatter_runs(
    runs: &[u8],
    run: usize,
    step: usize,
    size: usize,
    out: &mut [u8],
    row: usize,
    first: usize,
    width: usize,
) {
    let part = Part {
        base: 0,
        count: run.div_ceil(step) as u64,
        stride: step as u64,
        rest: &[width as u64],
        rest_stride: run as u64,
    };
    if first == 0 && width == row {
        gather_from(runs, 0, &part, size, out);
        return;
    }
    for (i, out) in out.chunks_exact_mut(row * size).enumerate() {
        let out = out
            .get_mut(first * size..(first + width) * size)
            .unwrap_or_default();
        for (j, slot) in out.chunks_exact_mut(size).enumerate() {
            let at = (j * run + i * step) * size;
            if let Some(element) = runs.get(at..at + size) {
                slot.copy_from_slice(element);
            }
        }
    }
}

/// Row-major bytes of column-major `data` with `dims` and elements of `size` bytes.
pub(crate) fn transpose(data: &[u8], dims: &[u64], size: u64) -> Result<Bytes, SourceError> {
    let size = usize::try_from(size).unwrap_or(1);
    let dims: Vec<u64> = dims.iter().copied().filter(|&dim| dim != 1).collect();
    let mut out = AlignedBytes::zeroed(data.len())?;
    if let Some((&count, rest)) = dims.split_first() {
        let part = Part {
            base: 0,
            count,
            stride: 1,
            rest,
            rest_stride: count,
        };
        gather_from(data, 0, &part, size, out.as_mut_slice());
    }
    Ok(out.freeze())
}

fn units<const N: usize>(bytes: &[u8]) -> &[[u8; N]] {
    bytemuck::try_cast_slice(bytes).unwrap_or_default()
}

fn units_mut<const N: usize>(bytes: &mut [u8]) -> &mut [[u8; N]] {
    bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
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
    let mut wider = AlignedBytes::zeroed((before + out.len()).next_multiple_of(unit))?;
    read(offset - before as u64, wider.as_mut_slice())?;
    let exact = wider
        .as_slice()
        .get(before..)
        .and_then(|rest| rest.get(..out.len()));
    out.copy_from_slice(exact.unwrap_or_default());
    Ok(())
}
