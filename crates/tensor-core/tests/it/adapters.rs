use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tensor_core::codec::{Cursor, Sink, Ticker, walk};
use tensor_core::{
    Bytes, Cast, DType, Order, Shape, Source, SourceError, Swapped, Transposed, Window,
};

use crate::Traced;

/// Row-major bytes of column-major ones, one element at a time.
fn naive(bytes: &[u8], dims: &[u64], size: usize) -> Vec<u8> {
    let count: u64 = dims.iter().product();
    let mut out = Vec::new();
    for mut index in 0..count {
        // The index of the result, last dim fastest, taken apart.
        let mut at = vec![0; dims.len()];
        for (axis, &dim) in dims.iter().enumerate().rev() {
            at[axis] = index % dim;
            index /= dim;
        }
        let (mut from, mut stride) = (0, 1);
        for (&i, &dim) in at.iter().zip(dims) {
            from += i * stride;
            stride *= dim;
        }
        let from = from as usize * size;
        out.extend_from_slice(&bytes[from..from + size]);
    }
    out
}

fn numbered(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i % 251) as u8 ^ (i / 251) as u8)
        .collect()
}

proptest! {
    #[test]
    fn transposing_is_right_for_any_window(
        dims in prop::collection::vec(1u64..9, 0..6),
        dtype in prop::sample::select(vec![DType::U8, DType::F16, DType::F32, DType::F64, DType::C128]),
        start in 0.0f64..1.0,
        len in 0.0f64..1.0,
    ) {
        let shape = Shape::new(&dims).unwrap();
        let size = dtype.size().unwrap() as usize;
        let bytes = numbered(shape.elements() as usize * size);
        let want = naive(&bytes, &dims, size);
        let total = want.len() as f64;
        let from = (start * total) as usize;
        let to = from + (len * (total - from as f64)) as usize;
        let memory = Transposed::new(Bytes::from(bytes.clone()), dtype, &shape, Order::ColumnMajor).unwrap();
        let file = Transposed::new(Traced::new(bytes.clone()), dtype, &shape, Order::ColumnMajor).unwrap();
        let range = from as u64..to as u64;
        prop_assert_eq!(&memory.read(range.clone()).unwrap()[..], &want[from..to]);
        prop_assert_eq!(&file.read(range).unwrap()[..], &want[from..to]);
        // And back again.
        let back = Transposed::new(Bytes::from(want), dtype, &shape, Order::RowMajor).unwrap();
        prop_assert_eq!(&back.read(0..back.size()).unwrap()[..], &bytes[..]);
    }

    #[test]
    fn a_walk_sees_every_byte_once(len in 0usize..5000, from in 0.0f64..1.0) {
        let bytes = numbered(len);
        let from = (from * len as f64) as u64;
        for traced in [false, true] {
            let mut seen = Vec::new();
            let visit = |piece: &[u8]| { seen.extend_from_slice(piece); Ok(()) };
            let range = from..len as u64;
            let result: Result<(), tensor_core::codec::TransferError> = if traced {
                walk(&Traced::new(bytes.clone()), range, &Ticker::default(), visit)
            } else {
                walk(&Bytes::from(bytes.clone()), range, &Ticker::default(), visit)
            };
            result.unwrap();
            prop_assert_eq!(&seen[..], &bytes[from as usize..]);
        }
    }
}

#[test]
fn a_large_transposition_reads_long_runs() {
    let dims = [2048u64, 1024];
    let bytes = numbered(2048 * 1024 * 4);
    let traced = Traced::new(bytes.clone());
    let shape = Shape::new(&dims).unwrap();
    let rows = Transposed::new(traced.clone(), DType::F32, &shape, Order::ColumnMajor).unwrap();
    let mut sink = Sink::new(Vec::new());
    sink.copy_from(&rows, &Ticker::default()).unwrap();
    assert_eq!(sink.into_inner(), naive(&bytes, &dims, 4));
    // All of it at once, since that is what may be held.
    assert_eq!(traced.reads(), vec![0..bytes.len() as u64; 1]);
}

/// However long and wide a matrix is: every byte is asked for once, in calls of a window or of what a
/// window of the result has room for.
#[test]
fn a_transposition_asks_for_every_byte_once() {
    // Rows and columns of the source; the shortest read, and the most reads for each MiB.
    let cases: [(u64, u64, u64, u64); 6] = [
        (1024, 4096, 1 << 20, 1),
        (4096, 1024, 1 << 20, 1),
        (65_536, 64, 1 << 20, 1),
        (64, 65_536, 1 << 20, 1),
        (3, 4_000_000, 256 << 10, 4),
        // 300 columns are as many as a window has room for.
        (20_000, 1_500, 1_000, 1_100),
    ];
    for (rows, columns, shortest, most) in cases {
        let shape = Shape::new(&[rows, columns]).unwrap();
        let len = rows * columns * 4;
        let source = pages(len);
        let turned = Transposed::new(source.clone(), DType::F32, &shape, Order::RowMajor).unwrap();
        let mut sum = 0u64;
        walk::<tensor_core::codec::TransferError>(&turned, 0..len, &Ticker::default(), |piece| {
            sum += piece.iter().map(|&byte| u64::from(byte)).sum::<u64>();
            Ok(())
        })
        .unwrap();
        let want: u64 = (0..len)
            .step_by(4096)
            .map(|at| u64::from((at >> 12) as u8) * 4096.min(len - at))
            .sum();
        assert_eq!(sum, want, "{rows} x {columns}");
        let mut reads = source.reads.lock().unwrap().clone();
        reads.sort_unstable_by_key(|read| read.start);
        let (first, last) = (reads.first().unwrap(), reads.last().unwrap());
        assert_eq!((first.start, last.end), (0, len));
        assert!(
            reads.windows(2).all(|pair| pair[0].end == pair[1].start),
            "{rows} x {columns}"
        );
        let short = reads
            .iter()
            .filter(|read| read.end - read.start < shortest)
            .count();
        // What is left at the end of a part may be shorter.
        assert!(
            short as u64 <= len >> 22,
            "{rows} x {columns}: {short} short reads"
        );
        assert!(
            reads.len() as u64 <= ((len >> 20) + 1) * most + 4,
            "{rows} x {columns}: {}",
            reads.len()
        );
    }
}

/// A source of `size` bytes that takes no memory, each byte the number of its 4 KiB, and remembers
/// what was read.
struct Pages {
    size: u64,
    longest: AtomicUsize,
    reads: Mutex<Vec<Range<u64>>>,
}

impl Source for Pages {
    fn size(&self) -> u64 {
        self.size
    }

    fn is_random_access(&self) -> bool {
        true
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        self.longest.fetch_max(out.len(), Ordering::Relaxed);
        let end = offset + out.len() as u64;
        self.reads.lock().unwrap().push(offset..end);
        for (at, byte) in (offset..).zip(out) {
            *byte = (at >> 12) as u8;
        }
        Ok(())
    }
}

fn pages(size: u64) -> Arc<Pages> {
    let longest = AtomicUsize::new(0);
    let reads = Mutex::default();
    Arc::new(Pages {
        size,
        longest,
        reads,
    })
}

#[test]
fn a_row_that_is_spread_over_the_whole_source_is_read_in_pieces() {
    let dims = [4096u64, 10_000];
    let source = pages(4096 * 10_000);
    let shape = Shape::new(&dims).unwrap();
    let rows = Transposed::new(source.clone(), DType::U8, &shape, Order::ColumnMajor).unwrap();
    // The end of a row, whole ones, and the start of another.
    let read = rows.read(9_000..32_000).unwrap();
    assert!(
        (9_000u64..)
            .zip(&read[..])
            .all(|(at, &byte)| byte == (at % 10_000) as u8)
    );
    assert_eq!(read.len(), 23_000);
    assert!(source.longest.load(Ordering::Relaxed) <= 16 << 20);
}

#[test]
fn a_cast_reads_what_may_not_fit_memory_in_pieces() {
    let source = pages(16 << 20);
    let cast = Cast::new(source.clone(), DType::I64, DType::U8).unwrap();
    let read = cast.read(3..(2 << 20) - 5).unwrap();
    let clamped = |at: u64| match (at >> 9) as i8 {
        1.. => u8::MAX,
        _ => 0,
    };
    assert!((3..).zip(&read[..]).all(|(at, &byte)| byte == clamped(at)));
    assert_eq!(read.len(), (2 << 20) - 8);
    assert!(source.longest.load(Ordering::Relaxed) <= tensor_core::codec::WINDOW);
}

#[test]
fn swapping_answers_ranges_inside_elements() {
    let swapped = Swapped::new(Bytes::from(numbered(64)), DType::F64).unwrap();
    let whole = swapped.read(0..64).unwrap();
    assert_eq!(whole[..8], [7, 6, 5, 4, 3, 2, 1, 0]);
    for (start, end) in [(0, 1), (3, 5), (7, 20), (8, 16), (63, 64), (5, 5)] {
        assert_eq!(
            swapped.read(start..end).unwrap(),
            whole.slice(start as usize..end as usize)
        );
    }
    assert!(Swapped::new(Bytes::from(numbered(63)), DType::F64).is_err());
}

#[test]
fn windows_keep_to_their_range() {
    for memory in [false, true] {
        let bytes = Bytes::from(numbered(100));
        let window: Box<dyn Source> = if memory {
            Box::new(Window::new(bytes.clone(), 10..20).unwrap())
        } else {
            Box::new(Window::new(Traced::new(bytes.clone()), 10..20).unwrap())
        };
        assert_eq!(window.size(), 10);
        assert_eq!(window.read(2..10).unwrap(), bytes.slice(12..20));
        assert!(window.read(2..11).is_err());
        assert!(window.read_into(10, &mut [0]).is_err());
        assert!(window.read_into(u64::MAX, &mut [0]).is_err());
        assert!(window.read_into(10, &mut []).is_ok());
    }
    assert!(Window::new(Bytes::from(numbered(100)), 90..101).is_err());
}

#[test]
fn a_cursor_reads_what_it_needs_and_what_it_was_told() {
    let traced = Traced::new(numbered(1000));
    let mut cursor = Cursor::new(&traced, 0..1000).unwrap();
    cursor.u32_le("a").unwrap();
    assert_eq!(traced.reads(), vec![0..4; 1]);
    cursor.expect_up_to(100);
    cursor.u32_le("b").unwrap();
    cursor.take(92, "c").unwrap();
    assert_eq!(traced.reads(), vec![0..4, 4..100]);
    cursor.skip(800, "d").unwrap();
    assert_eq!(cursor.take(100, "e").unwrap(), &numbered(1000)[900..]);
    let error = cursor.u8("f").unwrap_err().to_string();
    assert_eq!(
        error,
        "truncated: 1 bytes needed, 0 there (byte 0x3e8, field f)"
    );
    assert!(cursor.skip(u64::MAX, "g").is_err());
    assert_eq!(traced.reads().len(), 3);
}
