//! Moving the elements of a box from one order of its axes to the other, in memory.

use alloc::vec::Vec;

use crate::parallel;

/// One axis of a box: how many positions it has, and how many elements lie between two of them in
/// what is read and in what is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) count: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes that are worth a second thread.
const PIECE: usize = 1 << 20;

/// Moves the elements of a box: the one at the start of all axes is number `base` of `source`, and
/// the first of `out`. Elements have `size` bytes; `axes` go from the slowest in `out`, which is the
/// fastest in `source`, to the other end. On several threads where the box is large, and for one
/// alone on this one.
pub(super) fn scatter(source: &[u8], base: usize, axes: &[Axis], size: usize, out: &mut [u8]) {
    let Some((&rows, rest)) = axes.split_first() else {
        return;
    };
    let row = rows.to.saturating_mul(size).max(1);
    // As many rows as a block has, or half of what there is, in lines of the source that no other thread needs
    // where there are enough.
    let line = (LINE / size.max(1)).max(1);
    let half = match rows.count.div_ceil(2) {
        half if half < line => half,
        half => half.next_multiple_of(line),
    };
    let piece = PIECE.div_ceil(row).max(half.min(WIDE * line));
    let moved = |start: usize, out: &mut [u8]| {
        let first = start / row;
        let count = out.len().div_ceil(row).min(rows.count - first);
        let rows = Axis { count, ..rows };
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
    let Ok(()) = parallel::fill(0, out, piece.saturating_mul(row), moved);
}

/// Elements of `N` bytes, `T` of which fill a cache line. In tiles of `T` times `T` each line is read
/// once and each line written once, with a tile in between that fits any cache.
struct Tiles<'a, const N: usize, const T: usize> {
    source: &'a [[u8; N]],
    out: &'a mut [[u8; N]],
    /// A block as it was read and as it is written, each of its lines `WIDE` long.
    before: Vec<[[u8; N]; T]>,
    after: Vec<[[u8; N]; T]>,
}

/// Where an element is, in what is read and in what is written.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    from: usize,
    to: usize,
}

/// Rows, or columns, whose places are known at a time.
const BAND: usize = 512;

/// Cache lines that a block is wide and high.
const WIDE: usize = 4;

impl<'a, const N: usize, const T: usize> Tiles<'a, N, T> {
    fn new(source: &'a [u8], out: &'a mut [u8]) -> Self {
        let source = bytemuck::try_cast_slice(source).unwrap_or_default();
        let out = bytemuck::try_cast_slice_mut(out).unwrap_or_default();
        let (before, after) = (Vec::new(), Vec::new());
        Self {
            source,
            out,
            before,
            after,
        }
    }

    /// The axes that are fastest in the source together are rows, those that are fastest in the result
    /// columns, until both are long enough for lines, and on as long as these have no gap; what is left in
    /// the middle goes slowest.
    fn scatter(&mut self, base: usize, rows: Axis, rest: &[Axis]) {
        let mut axes = alloc::vec![rows];
        axes.extend_from_slice(rest);
        let enough = WIDE * T;
        let is_short = |len: usize, step: usize| len < T || len < enough && step == len;
        let mut last = axes.len();
        let mut width = 1;
        while let Some(&axis) = axes
            .get(last - 1)
            .filter(|axis| last > 1 && is_short(width, axis.to))
        {
            last -= 1;
            width *= axis.count;
        }
        let (left, columns) = axes.split_at(last);
        let mut first = 0;
        let mut height = 1;
        while let Some(axis) = left.get(first).filter(|axis| is_short(height, axis.from)) {
            height *= axis.count;
            first += 1;
        }
        let (rows, middle) = left.split_at(first);
        match (rows, columns) {
            ([long], short) if middle.is_empty() && width < T / 2 => {
                return self.lines(base, *long, short);
            }
            (short, [long]) if middle.is_empty() && height < T / 2 => {
                return self.lines(base, *long, short);
            }
            _ => {}
        }
        let lines = WIDE * WIDE * T;
        self.before = alloc::vec![[[0; N]; T]; lines];
        self.after = alloc::vec![[[0; N]; T]; lines];
        // The slowest in the result goes fastest among these, since that is near in the source.
        let columns: Vec<Axis> = columns.iter().rev().copied().collect();
        let mut rows = Places::new(rows);
        let mut columns = Places::new(&columns);
        while rows.fill(BAND) {
            let rows: Vec<Lines<'_>> = rows
                .band
                .chunks(enough)
                .map(|places| Lines::new(places, |place| place.from))
                .collect();
            columns.restart();
            // A band at a time of what fills few lines, so that what lies beside them in the source is
            // met while they are in the cache.
            while columns.fill(enough) {
                let columns = Lines::new(&columns.band, |place| place.to);
                let mut middle = Places::new(middle);
                while middle.fill(BAND) {
                    for &at in &middle.band {
                        for rows in &rows {
                            self.block(base + at.from, at.to, rows, &columns);
                        }
                    }
                }
            }
        }
    }

    /// Few lines, each along one axis: a block of each in turn, so that what they share stays in the
    /// cache.
    fn lines(&mut self, base: usize, long: Axis, short: &[Axis]) {
        let mut lines = Places::new(short);
        lines.fill(usize::MAX);
        for start in (0..long.count).step_by(BAND) {
            let count = BAND.min(long.count - start);
            for line in &lines.band {
                let from = base + line.from + start * long.from;
                let to = line.to + start * long.to;
                let out = self.out.get_mut(to..).unwrap_or_default();
                let source = self.source.get(from..).unwrap_or_default();
                let slots = out.iter_mut().step_by(long.to.max(1)).take(count);
                let copy = |(slot, element): (&mut [u8; N], &[u8; N])| *slot = *element;
                match long.from {
                    1 => slots.zip(source).for_each(copy),
                    step => slots.zip(source.iter().step_by(step.max(1))).for_each(copy),
                }
            }
        }
    }

    /// Moves a block of up to `WIDE` lines by as many: in, turned over tile by tile, and out, so that
    /// both sides are met in runs that are as long as the block.
    fn block(&mut self, from: usize, to: usize, rows: &Lines<'_>, columns: &Lines<'_>) {
        for (line, column) in self.before.chunks_exact_mut(WIDE).zip(columns.places) {
            let mut line = line.as_flattened_mut();
            let source = self.source.get(from + column.from..).unwrap_or_default();
            if rows.longest <= GROUP {
                copy_short(line, source, rows);
                continue;
            }
            for run in &rows.runs {
                let source = source.get(run.start..).unwrap_or_default();
                let (to, rest) = line.split_at_mut_checked(run.len).unwrap_or_default();
                copy(to, source);
                line = rest;
            }
        }
        for down in 0..columns.places.len().div_ceil(T) {
            for right in 0..rows.places.len().div_ceil(T) {
                let tiles = self
                    .before
                    .get(down * T * WIDE + right..)
                    .unwrap_or_default();
                let turned = turned(tiles);
                let tiles = self.after.get_mut(right * T * WIDE + down..);
                for (to, line) in tiles
                    .unwrap_or_default()
                    .iter_mut()
                    .step_by(WIDE)
                    .zip(&turned)
                {
                    *to = *line;
                }
            }
        }
        for (line, row) in self.after.chunks_exact(WIDE).zip(rows.places) {
            let mut line = line.as_flattened();
            for run in &columns.runs {
                let out = self.out.get_mut(to + row.to + run.start..);
                let out = out.unwrap_or_default();
                let (from, rest) = line.split_at_checked(run.len).unwrap_or_default();
                copy(out, from);
                line = rest;
            }
        }
    }
}

/// Elements that are copied at a time.
const GROUP: usize = 8;

/// Copies what both have room for.
fn copy<T: Copy>(to: &mut [T], from: &[T]) {
    let len = to.len().min(from.len());
    let (Some(to), Some(from)) = (to.get_mut(..len), from.get(..len)) else {
        return;
    };
    let (mut groups, mut from_groups) = (to.chunks_exact_mut(GROUP), from.chunks_exact(GROUP));
    for (to, from) in groups.by_ref().zip(from_groups.by_ref()) {
        to.copy_from_slice(from);
    }
    let rest = groups.into_remainder().iter_mut();
    for (to, from) in rest.zip(from_groups.remainder()) {
        *to = *from;
    }
}

/// Copies runs of at most a group one after the other: a whole group for each, of which the next covers what
/// was too much. In the shortest each element is found by itself.
fn copy_short<T: Copy>(mut to: &mut [T], from: &[T], lines: &Lines<'_>) {
    const PAIR: usize = 2;
    if lines.longest <= PAIR {
        for (to, place) in to.iter_mut().zip(lines.places) {
            if let Some(from) = from.get(place.from) {
                *to = *from;
            }
        }
        return;
    }
    for run in &lines.runs {
        let from = from.get(run.start..).unwrap_or_default();
        match (to.first_chunk_mut::<GROUP>(), from.first_chunk::<GROUP>()) {
            (Some(to), Some(from)) => *to = *from,
            _ => copy(to, from.get(..run.len).unwrap_or_default()),
        }
        to = to.get_mut(run.len..).unwrap_or_default();
    }
}

/// Rows or columns of a block, and how many of them follow each other without a gap on the side where
/// each of them is an element of every line.
struct Lines<'a> {
    places: &'a [Place],
    runs: Vec<Run>,
    /// The length of the longest run.
    longest: usize,
}

/// Where a run starts, and how many elements it has.
struct Run {
    start: usize,
    len: usize,
}

impl<'a> Lines<'a> {
    fn new(places: &'a [Place], of: impl Fn(&Place) -> usize) -> Self {
        let runs = places.chunk_by(|place, next| of(place) + 1 == of(next));
        let run = |run: &[Place]| Run {
            start: run.first().map_or(0, &of),
            len: run.len(),
        };
        let runs: Vec<Run> = runs.map(run).collect();
        let longest = runs.iter().map(|run| run.len).max().unwrap_or(0);
        Self {
            places,
            runs,
            longest,
        }
    }
}

/// The other order of a square of elements, whose lines are each `WIDE` lines apart.
#[inline]
fn turned<const N: usize, const T: usize>(lines: &[[[u8; N]; T]]) -> [[[u8; N]; T]; T] {
    let mut tile = [[[0u8; N]; T]; T];
    for (to, line) in tile.iter_mut().zip(lines.iter().step_by(WIDE)) {
        *to = *line;
    }
    let mut turned = [[[0u8; N]; T]; T];
    let from: Option<&[[[u8; 8]; 8]; T]> = words_of(&tile);
    let to: Option<&mut [[[u8; 8]; 8]; T]> = words_of_mut(&mut turned);
    let (1 | 2 | 4, Some(from), Some(to)) = (N, from, to) else {
        for (at, line) in turned.iter_mut().enumerate() {
            for (slot, from) in line.iter_mut().zip(&tile) {
                *slot = from.get(at).copied().unwrap_or([0; N]);
            }
        }
        return turned;
    };
    // Squares of 8 bytes by as many elements as are in 8 bytes, each in as many words.
    let width = 8 / N;
    for (number, from) in from.chunks_exact(width).enumerate() {
        for (chunk, to) in to.chunks_exact_mut(width).enumerate() {
            let mut words = [0u64; 8];
            for (word, line) in words.iter_mut().zip(from) {
                *word = u64::from_le_bytes(line.get(chunk).copied().unwrap_or_default());
            }
            turn_words::<N>(&mut words);
            for (word, line) in words.iter().zip(to) {
                if let Some(slot) = line.get_mut(number) {
                    *slot = word.to_le_bytes();
                }
            }
        }
    }
    turned
}

/// Swaps the elements of words that hold the rows of a square, the first element lowest.
#[inline]
fn turn_words<const N: usize>(words: &mut [u64; 8]) {
    let [a, b, c, d, e, f, g, h] = words;
    let swap = |low: &mut u64, high: &mut u64, shift: u32, mask: u64| {
        let change = (*low >> shift ^ *high) & mask;
        *high ^= change;
        *low ^= change << shift;
    };
    const HALF: u64 = 0x0000_0000_FFFF_FFFF;
    const QUARTER: u64 = 0x0000_FFFF_0000_FFFF;
    const EIGHTH: u64 = 0x00FF_00FF_00FF_00FF;
    match N {
        1 => {
            swap(a, e, 32, HALF);
            swap(b, f, 32, HALF);
            swap(c, g, 32, HALF);
            swap(d, h, 32, HALF);
            for [low, high, next, last] in [[&mut *a, b, c, d], [e, f, g, h]] {
                swap(low, next, 16, QUARTER);
                swap(high, last, 16, QUARTER);
                swap(low, high, 8, EIGHTH);
                swap(next, last, 8, EIGHTH);
            }
        }
        2 => {
            swap(a, c, 32, HALF);
            swap(b, d, 32, HALF);
            swap(a, b, 16, QUARTER);
            swap(c, d, 16, QUARTER);
        }
        _ => swap(a, b, 32, HALF),
    }
}

fn words_of<const N: usize, const T: usize>(
    tile: &[[[u8; N]; T]; T],
) -> Option<&[[[u8; 8]; 8]; T]> {
    let bytes: &[u8] = bytemuck::try_cast_slice(tile.as_flattened()).ok()?;
    let lines: &[[[u8; 8]; 8]] = bytemuck::try_cast_slice(bytes).ok()?;
    lines.try_into().ok()
}

fn words_of_mut<const N: usize, const T: usize>(
    tile: &mut [[[u8; N]; T]; T],
) -> Option<&mut [[[u8; 8]; 8]; T]> {
    let bytes: &mut [u8] = bytemuck::try_cast_slice_mut(tile.as_flattened_mut()).ok()?;
    let lines: &mut [[[u8; 8]; 8]] = bytemuck::try_cast_slice_mut(bytes).ok()?;
    lines.try_into().ok()
}

/// The places along several axes, the first fastest, some at a time.
struct Places<'a> {
    axes: &'a [Axis],
    counts: Vec<usize>,
    at: Place,
    is_done: bool,
    band: Vec<Place>,
}

impl<'a> Places<'a> {
    fn new(axes: &'a [Axis]) -> Self {
        Self {
            axes,
            counts: alloc::vec![0; axes.len()],
            at: Place::default(),
            is_done: false,
            band: Vec::new(),
        }
    }

    fn restart(&mut self) {
        self.counts.fill(0);
        self.at = Place::default();
        self.is_done = false;
    }

    /// Puts up to `most` of those that are left into the band; false where none is.
    fn fill(&mut self, most: usize) -> bool {
        self.band.clear();
        while !self.is_done && self.band.len() < most {
            self.band.push(self.at);
            self.step();
        }
        !self.band.is_empty()
    }

    fn step(&mut self) {
        for (axis, count) in self.axes.iter().zip(&mut self.counts) {
            *count += 1;
            self.at.from += axis.from;
            self.at.to += axis.to;
            if *count < axis.count {
                return;
            }
            self.at.from -= axis.count * axis.from;
            self.at.to -= axis.count * axis.to;
            *count = 0;
        }
        self.is_done = true;
    }
}
