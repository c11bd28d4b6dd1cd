//! Moving the elements of a box from one order of its axes to the other, in memory.

use crate::parallel;

/// One axis of a box: how many positions it has, and how many elements lie between two of them in
/// what is read and in what is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) count: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Elements of a line that are copied before the next line is.
const BLOCK: usize = 512;

/// Bytes that are worth a second thread.
const PIECE: usize = 1 << 20;

/// Moves the elements of a box: the one at the start of all axes is number `base` of `source`, and
/// the first of `out`. Elements have `size` bytes; `axes` go from the slowest in `out`, which is the
/// fastest in `source`, to the other end. On several threads where the box is large, and for one
/// alone on this one.
pub(super) fn scatter(source: &[u8], base: usize, axes: &[Axis], size: usize, out: &mut [u8]) {
    let Some((rows, rest)) = axes.split_first() else {
        return;
    };
    let row = rows.to.saturating_mul(size).max(1);
    let piece = PIECE.div_ceil(row).max(1).saturating_mul(row);
    let moved = |start: usize, out: &mut [u8]| {
        let first = start / row;
        let count = out.len().div_ceil(row).min(rows.count - first);
        let rows = Axis { count, ..*rows };
        let base = base + first * rows.from;
        match size {
            1 => Tiles::<1, 64>::new(source, out).scatter(base, rows, rest),
            2 => Tiles::<2, 32>::new(source, out).scatter(base, rows, rest),
            4 => Tiles::<4, 16>::new(source, out).scatter(base, rows, rest),
            8 => Tiles::<8, 8>::new(source, out).scatter(base, rows, rest),
            _ => Tiles::<16, 4>::new(source, out).scatter(base, rows, rest),
        }
        Ok::<(), core::convert::Infallible>(())
    };
    let Ok(()) = parallel::fill(0, out, piece, moved);
}

/// Elements of `N` bytes, `T` of which fill a cache line. In tiles of `T` times `T` each line is read
/// once and each line written once, with a tile in between that fits any cache.
struct Tiles<'a, const N: usize, const T: usize> {
    source: &'a [[u8; N]],
    out: &'a mut [[u8; N]],
}

impl<'a, const N: usize, const T: usize> Tiles<'a, N, T> {
    fn new(source: &'a [u8], out: &'a mut [u8]) -> Self {
        let source = bytemuck::try_cast_slice(source).unwrap_or_default();
        let out = bytemuck::try_cast_slice_mut(out).unwrap_or_default();
        Self { source, out }
    }

    fn scatter(&mut self, base: usize, rows: Axis, rest: &[Axis]) {
        let Some((columns, middle)) = rest.split_last() else {
            return self.line(base, 0, rows);
        };
        // A band of columns at a time, so that all that lies beside its lines of the source is met
        // while they are in the cache: the axes that are near there go fastest.
        let band = if columns.count < 2 * T {
            columns.count
        } else {
            T
        };
        let mut start = 0;
        while start < columns.count {
            let columns = Axis {
                count: band.min(columns.count - start),
                ..*columns
            };
            let (mut from, mut to) = (base + start * columns.from, start * columns.to);
            let mut counts = [0usize; MOST_MIDDLE];
            loop {
                self.plane(from, to, rows, columns);
                if !step(middle, &mut counts, &mut from, &mut to) {
                    break;
                }
            }
            start += columns.count;
        }
    }

    /// One axis: a copy with steps.
    fn line(&mut self, from: usize, to: usize, axis: Axis) {
        let out = self.out.get_mut(to..).unwrap_or_default();
        let source = self.source.get(from..).unwrap_or_default();
        let slots = out.iter_mut().step_by(axis.to.max(1)).take(axis.count);
        match axis.from {
            1 => slots
                .zip(source)
                .for_each(|(slot, element)| *slot = *element),
            from => slots
                .zip(source.iter().step_by(from.max(1)))
                .for_each(|(slot, element)| *slot = *element),
        }
    }

    fn plane(&mut self, from: usize, to: usize, rows: Axis, columns: Axis) {
        // Few columns, or rows, are as many streams, of which a block at a time stays in the cache.
        let is_narrow = columns.count < T / 2;
        if is_narrow || rows.count < T / 2 || rows.from != 1 || columns.to != 1 {
            let (long, short) = match is_narrow {
                true => (rows, columns),
                false => (columns, rows),
            };
            let mut start = 0;
            while start < long.count {
                let count = BLOCK.min(long.count - start);
                let block = Axis { count, ..long };
                let (from, to) = (from + start * long.from, to + start * long.to);
                for at in 0..short.count {
                    self.line(from + at * short.from, to + at * short.to, block);
                }
                start += count;
            }
            return;
        }
        let mut column = 0;
        while column < columns.count {
            let width = T.min(columns.count - column);
            let mut row = 0;
            while row < rows.count {
                let height = T.min(rows.count - row);
                let from = from + row + column * columns.from;
                let to = to + row * rows.to + column;
                if width == T && height == T {
                    self.tile(from, columns.from, to, rows.to);
                } else {
                    for column in 0..width {
                        let rows = Axis {
                            count: height,
                            ..rows
                        };
                        self.line(from + column * columns.from, to + column, rows);
                    }
                }
                row += height;
            }
            column += width;
        }
    }

    /// A whole tile: `T` runs of `T` elements, `from_step` apart, become as many, `to_step` apart.
    #[inline]
    fn tile(&mut self, from: usize, from_step: usize, to: usize, to_step: usize) {
        let mut tile = [[[0u8; N]; T]; T];
        for (at, line) in tile.iter_mut().enumerate() {
            let from = from + at * from_step;
            if let Some(run) = self.source.get(from..from + T) {
                line.copy_from_slice(run);
            }
        }
        for at in 0..T {
            let to = to + at * to_step;
            if let Some(out) = self.out.get_mut(to..to + T) {
                for (slot, line) in out.iter_mut().zip(&tile) {
                    if let Some(element) = line.get(at) {
                        *slot = *element;
                    }
                }
            }
        }
    }
}

/// Axes between the first and the last that a box may have.
pub(super) const MOST_MIDDLE: usize = 64;

/// Goes to the next position of the middle axes, the first of them fastest; false after the last.
fn step(
    axes: &[Axis],
    counts: &mut [usize; MOST_MIDDLE],
    from: &mut usize,
    to: &mut usize,
) -> bool {
    for (axis, count) in axes.iter().zip(counts) {
        *count += 1;
        if *count < axis.count {
            *from += axis.from;
            *to += axis.to;
            return true;
        }
        *from -= (axis.count - 1) * axis.from;
        *to -= (axis.count - 1) * axis.to;
        *count = 0;
    }
    false
}
