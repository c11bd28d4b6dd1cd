use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;

use super::on_units;
use super::tiles::{Axis, scatter};
use crate::codec::WINDOW;
use crate::scratch::{Kept, Scratch};
use crate::{AlignedBytes, DType, FileId, Order, Shape, ShapeError, Source, SourceError, parallel};

/// Bytes of the result that a walk asks for at a time: the more, the longer are the runs of the
/// source that they are made from.
const STRIPE: usize = 32 << 20;

/// Bytes of the source that are in memory at a time.
const HELD: usize = 8 << 20;

/// A gap of up to this many bytes is read and dropped, since one more call would cost more.
const GAP: u64 = 4096;

/// Bytes of the result that are next to each other, two cache lines: in shorter runs memory is written slower.
const LINE: usize = 128;

/// The other order of a dense tensor's elements: column-major bytes as row-major ones of the same
/// dims, or the reverse.
///
/// Over memory the bytes are gathered in place. Over anything else parts of the source are held, of
/// 8 MiB at most, and read in the longest runs that a window of the result allows; a walk in windows of
/// [`window`](Source::window) keeps those long.
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
    budget: ReadBudget,
    _kept: Kept,
}

/// How many bytes may be in memory at a time, and how long a gap may be that is read and dropped.
#[derive(Clone, Copy, Debug)]
struct ReadBudget {
    bytes: usize,
    gap: u64,
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
            budget: ReadBudget {
                bytes: HELD,
                gap: GAP,
            },
            _kept: Kept::new(),
        })
    }

    /// Gathers one box of the result from memory, or through parts of the source.
    fn gather(&self, part: &Part<'_>, out: &mut [u8]) -> Result<(), SourceError> {
        let size = self.size;
        if let Some(bytes) = self.inner.contiguous() {
            scatter(bytes, host(part.base), &part.axes(), size, out);
            return Ok(());
        }
        // Elements so far apart that what lies between is more than a call costs.
        if part.stride.saturating_mul(size as u64) > self.budget.gap {
            for (index, slot) in out.chunks_exact_mut(size).enumerate() {
                let source = part.source_of(index as u64) * size as u64;
                self.inner.read_into(source, slot)?;
            }
            return Ok(());
        }
        let budget = ReadBudget {
            bytes: parallel::share(self.budget.bytes),
            ..self.budget
        };
        let tiling = Tiling::of(part, size, budget);
        let mut ranges = tiling.first();
        loop {
            self.gather_tile(&tiling, &ranges, out)?;
            if !tiling.next(&mut ranges) {
                return Ok(());
            }
        }
    }

    /// Reads one tile of a box and moves it to its place.
    fn gather_tile(
        &self,
        tiling: &Tiling<'_>,
        ranges: &[Range<u64>],
        out: &mut [u8],
    ) -> Result<(), SourceError> {
        let size = self.size;
        let Placed {
            axes,
            base,
            start,
            held,
        } = tiling.place(ranges);
        let held = usize::try_from(held.saturating_mul(size as u64))
            .map_err(|_| SourceError::TooLarge(held))?;
        let mut held = Scratch::of(held)?;
        self.read_runs(tiling, ranges, held.as_mut_slice())?;
        let len = axes.first().map_or(0, |axis| axis.count * axis.to * size);
        let out = out.get_mut(start * size..).unwrap_or_default();
        let len = len.min(out.len());
        let out = out.get_mut(..len).unwrap_or_default();
        scatter(held.as_mut_slice(), base, &axes, size, out);
        Ok(())
    }

    /// Reads all of a tile, in calls of a window at most where several threads may.
    fn read_runs(
        &self,
        tiling: &Tiling<'_>,
        ranges: &[Range<u64>],
        held: &mut [u8],
    ) -> Result<(), SourceError> {
        let size = self.size as u64;
        let run = tiling.run(ranges);
        let read = |number: u64, skip: usize, out: &mut [u8]| {
            let source = tiling.start_of(ranges, number) * size;
            self.inner.read_into(source + skip as u64, out)
        };
        let run = host(run * size).max(1);
        if !self.inner.is_random_access() {
            let mut runs = held.chunks_mut(run).enumerate();
            return runs.try_for_each(|(number, out)| read(number as u64, 0, out));
        }
        if run >= WINDOW {
            let mut runs = held.chunks_mut(run).enumerate();
            return runs.try_for_each(|(number, out)| {
                parallel::fill(0, out, WINDOW, |skip, out| read(number as u64, skip, out))
            });
        }
        let piece = WINDOW / run * run;
        parallel::fill(0, held, piece, |start, out| {
            let mut runs = out.chunks_mut(run).enumerate();
            runs.try_for_each(|(number, out)| read((start / run + number) as u64, 0, out))
        })
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
                let from = host((at - start) * size);
                let len = host(part.len() * size);
                let out = out.get_mut(from..).and_then(|out| out.get_mut(..len));
                self.gather(part, out.unwrap_or_default())
            })
        })
    }

    /// Whole positions of the slowest axis that a stripe has room for, in windows of one length.
    fn window(&self) -> usize {
        if self.dims.len() <= 1 {
            return self.inner.window();
        }
        let most = parallel::share(STRIPE);
        let mut block = self.size() / self.size.max(1) as u64;
        for &dim in &*self.dims {
            block /= dim.max(1);
            let fits = most as u64 / (block * self.size as u64).max(1);
            if fits > 0 {
                let count = evenly(dim, fits);
                return host(count * block * self.size as u64).max(1);
            }
        }
        most
    }

    fn file(&self) -> Option<&FileId> {
        self.inner.file()
    }

    fn is_random_access(&self) -> bool {
        self.inner.is_random_access()
    }
}

/// A number as wide as this host's addresses, of what is known to be in memory.
fn host(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The largest part of `count` that is at most `most`, where all parts but the last are alike.
fn evenly(count: u64, most: u64) -> u64 {
    count.div_ceil(count.div_ceil(most.max(1)).max(1))
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
    /// How long the ranged axis is.
    dim: u64,
    /// Dims of the axes after it.
    rest: &'a [u64],
}

impl Part<'_> {
    fn len(&self) -> u64 {
        self.count * self.rest.iter().product::<u64>()
    }

    /// The axes of the box over the source as a whole.
    fn axes(&self) -> Vec<Axis> {
        let mut to = host(self.len());
        let mut from = host(self.stride);
        let mut axes = Vec::with_capacity(self.rest.len() + 1);
        let dims = core::iter::once((self.count, self.dim));
        for (count, dim) in dims.chain(self.rest.iter().map(|&dim| (dim, dim))) {
            let count = host(count);
            to /= count.max(1);
            axes.push(Axis { count, from, to });
            from = from.saturating_mul(host(dim));
        }
        axes
    }

    /// The source element of the box's element `index`.
    fn source_of(&self, mut index: u64) -> u64 {
        let mut source = self.base;
        let mut stride = self.stride * self.dim * self.rest.iter().product::<u64>();
        for &dim in self.rest.iter().rev() {
            stride /= dim;
            source += (index % dim) * stride;
            index /= dim;
        }
        source + index * self.stride
    }
}

/// How a box is taken apart so that what is read for each tile fits what may be held.
#[derive(Debug)]
struct Tiling<'a> {
    part: &'a Part<'a>,
    /// How many positions of each axis of the box a tile has at most.
    counts: Vec<u64>,
    /// Whether all of the ranged axis is read, also what is outside of its range.
    whole: bool,
}

/// Where the elements of a tile are.
struct Placed {
    /// In what was read, and in the box.
    axes: Vec<Axis>,
    /// The first of them in what was read.
    base: usize,
    /// And in the box.
    start: usize,
    /// How many elements are read.
    held: u64,
}

impl<'a> Tiling<'a> {
    fn of(part: &'a Part<'a>, size: usize, budget: ReadBudget) -> Self {
        let size = size as u64;
        let room = (budget.bytes as u64 / size).max(1);
        // As many of the slowest axis that lines of the result are filled in one go.
        let line = (LINE as u64 / size).max(1);
        let line = part.rest.last().map_or(1, |&last| last.min(line));
        let room = (room / line).max(1);
        let gap = (part.dim - part.count) * part.stride;
        let unit = part.dim * part.stride;
        let whole = gap * size <= budget.gap && unit <= room && part.count < part.dim;
        let (first, unit) = match whole {
            true => (part.count, unit),
            false => {
                let count = evenly(part.count, (room / part.stride).max(1));
                (count, count * part.stride)
            }
        };
        let mut counts = Vec::with_capacity(part.rest.len() + 1);
        counts.push(first);
        let mut room = (room / unit).max(1);
        if let Some((&last, middle)) = part.rest.split_last() {
            for &dim in middle {
                let count = evenly(dim, room);
                counts.push(count);
                room = (room / count).max(1);
            }
            counts.push(evenly(last, room * line));
        }
        Self {
            part,
            counts,
            whole,
        }
    }

    /// The dims of the box's axes.
    fn dims(&self) -> impl Iterator<Item = u64> {
        core::iter::once(self.part.count).chain(self.part.rest.iter().copied())
    }

    /// The ranges of the first tile.
    fn first(&self) -> Vec<Range<u64>> {
        self.counts.iter().map(|&count| 0..count).collect()
    }

    /// Goes on to the next tile, in the order of the source; false after the last.
    fn next(&self, ranges: &mut [Range<u64>]) -> bool {
        for ((range, dim), &count) in ranges.iter_mut().zip(self.dims()).zip(&self.counts) {
            if range.end < dim {
                *range = range.end..(range.end + count).min(dim);
                return true;
            }
            *range = 0..count;
        }
        false
    }

    /// Elements that are read without a gap on the ranged axis, and all that it has.
    fn unit(&self, ranges: &[Range<u64>]) -> (u64, u64) {
        let all = self.part.dim * self.part.stride;
        let count = ranges.first().map_or(0, |range| range.end - range.start);
        match self.whole {
            true => (all, all),
            false => (count * self.part.stride, all),
        }
    }

    /// How long the runs of a tile are: on from the first axis for as long as nothing is left out.
    fn run(&self, ranges: &[Range<u64>]) -> u64 {
        let (mut run, mut all) = self.unit(ranges);
        for (range, dim) in ranges.iter().zip(self.dims()).skip(1) {
            if run < all {
                break;
            }
            run *= range.end - range.start;
            all *= dim;
        }
        run
    }

    /// The source element that a run starts at.
    fn start_of(&self, ranges: &[Range<u64>], mut number: u64) -> u64 {
        let part = self.part;
        let (mut run, mut all) = self.unit(ranges);
        // The ranged axis, whose first position is that of the box.
        let mut source = part.base - part.base % part.stride;
        match (self.whole, ranges.first()) {
            (true, _) => source -= part.base / part.stride % part.dim * part.stride,
            (false, range) => source += range.map_or(0, |range| range.start) * part.stride,
        }
        let mut stride = all;
        for (range, dim) in ranges.iter().zip(self.dims()).skip(1) {
            source += range.start * stride;
            let count = range.end - range.start;
            if run < all {
                source += number % count * stride;
                number /= count;
            } else {
                run *= count;
                all *= dim;
            }
            stride *= dim;
        }
        source
    }

    fn place(&self, ranges: &[Range<u64>]) -> Placed {
        let part = self.part;
        let (mut held, _) = self.unit(ranges);
        let mut base = part.base % part.stride;
        if self.whole {
            let first = ranges.first().map_or(0, |range| range.start);
            base += (part.base / part.stride % part.dim + first) * part.stride;
        }
        let (mut to, mut start) = (part.len(), 0);
        let mut axes = Vec::with_capacity(ranges.len());
        for (at, (range, dim)) in ranges.iter().zip(self.dims()).enumerate() {
            let count = range.end - range.start;
            to /= dim;
            start += range.start * to;
            let from = match at {
                0 => part.stride,
                _ => held,
            };
            axes.push(Axis {
                count: host(count),
                from: host(from),
                to: host(to),
            });
            if at > 0 {
                held *= count;
            }
        }
        Placed {
            axes,
            base: host(base),
            start: host(start),
            held,
        }
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
                    dim,
                    rest,
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
            dim: count,
            rest,
        };
        scatter(data, 0, &part.axes(), size, out.as_mut_slice());
    }
    Ok(out.freeze())
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "numbers of tests are small"
)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes that are read like those of a file.
    struct Far {
        bytes: Bytes,
        any_order: bool,
        longest: core::sync::atomic::AtomicUsize,
    }

    impl Source for Far {
        fn size(&self) -> u64 {
            self.bytes.size()
        }

        fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
            self.longest
                .fetch_max(out.len(), core::sync::atomic::Ordering::Relaxed);
            self.bytes.read_into(offset, out)
        }

        fn is_random_access(&self) -> bool {
            self.any_order
        }
    }

    proptest! {
        /// Boxes that don't fit what may be held are taken apart along any axis, with what lies
        /// between their elements read or left out.
        #[test]
        fn every_tiling_finds_every_element(
            dims in prop::collection::vec(1u64..24, 1..5),
            dtype in prop::sample::select(vec![DType::U8, DType::BF16, DType::F32, DType::F64, DType::C128]),
            held in 1usize..3000,
            gap in 0u64..300,
            any_order in any::<bool>(),
            start in 0.0f64..1.0,
            len in 0.0f64..1.0,
        ) {
            let shape = Shape::new(&dims).unwrap();
            let size = dtype.size().unwrap();
            let total = (shape.elements() * size) as usize;
            let bytes: Vec<u8> = (0..total).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect();
            let bytes = Bytes::from(bytes);
            let memory = Transposed::new(bytes.clone(), dtype, &shape, Order::RowMajor).unwrap();
            let longest = core::sync::atomic::AtomicUsize::new(0);
            let far = Far { bytes: bytes.clone(), any_order, longest };
            let mut far = Transposed::new(far, dtype, &shape, Order::RowMajor).unwrap();
            far.budget = ReadBudget { bytes: held, gap };
            let from = (start * total as f64) as u64;
            let to = from + (len * (total as u64 - from) as f64) as u64;
            let (got, want) = (far.read(from..to).unwrap(), memory.read(from..to).unwrap());
            prop_assert_eq!(&got[..], &want[..]);
            // A line of the slowest axis, for each of the fastest, is read at once whatever is held.
            let least = gap as usize + LINE * 24 * size as usize;
            let longest = far.inner.longest.load(core::sync::atomic::Ordering::Relaxed);
            prop_assert!(dims.len() < 2 || longest <= held.max(least), "{}", longest);
        }
    }

    /// A row is more than a piece of work, and there are fewer of them than a cache line has elements.
    #[test]
    fn few_rows_go_to_several_threads() {
        for slowest in [2u32, 5, 20] {
            let shape = Shape::new(&[slowest.into(), 300, 1000]).unwrap();
            let count = slowest * 300 * 1000;
            let column_major: Vec<u8> = (0..count).flat_map(u32::to_ne_bytes).collect();
            let source = Bytes::from(column_major);
            let rows = Transposed::new(source, DType::U32, &shape, Order::ColumnMajor).unwrap();
            let got = rows.read(0..rows.size()).unwrap();
            let number = |row: u32| {
                let (i, j, k) = (row / 300_000, row / 1000 % 300, row % 1000);
                i + slowest * (j + 300 * k)
            };
            let want: Vec<u8> = (0..count).map(number).flat_map(u32::to_ne_bytes).collect();
            assert!(got == want, "{slowest} rows");
        }
    }

    #[test]
    fn windows_are_whole_rows_of_one_length() {
        let window = |dims: &[u64], dtype: DType| {
            let shape = Shape::new(dims).unwrap();
            let len = shape.byte_len(dtype).unwrap().unwrap();
            struct Empty(u64);
            impl Source for Empty {
                fn size(&self) -> u64 {
                    self.0
                }
                fn read_into(&self, _: u64, _: &mut [u8]) -> Result<(), SourceError> {
                    Ok(())
                }
            }
            let rows = Transposed::new(Empty(len), dtype, &shape, Order::ColumnMajor).unwrap();
            rows.window() as u64
        };
        // All of it.
        assert_eq!(window(&[1024, 4096], DType::F32), 16 << 20);
        // Of 256 rows 27 fit a window: 10 windows, of which the last has 22.
        assert_eq!(window(&[256, 300_000], DType::F32), 26 * 300_000 * 4);
        // A row is more than a window: whole parts of it.
        assert_eq!(window(&[2, 3, 4 << 20], DType::F32), 32 << 20);
        let ninth = (65u64 << 20).div_ceil(9);
        assert_eq!(window(&[2, 65 << 20], DType::F32), ninth * 4);
    }
}
