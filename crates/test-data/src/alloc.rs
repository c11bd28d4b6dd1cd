//! How much memory a piece of code takes.
#![allow(
    unsafe_code,
    reason = "a global allocator is an unsafe trait; this is the only unsafe code here"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, counting the bytes that were asked for.
///
/// Install it in a test binary of its own, with one test, since other tests' memory counts too:
///
/// ```
/// use test_data::alloc::CountingAlloc;
///
/// #[global_allocator]
/// static ALLOC: CountingAlloc = CountingAlloc::new();
///
/// ALLOC.reset();
/// let before = ALLOC.current();
/// drop(vec![0u8; 1 << 20]);
/// assert!(ALLOC.peak() - before >= 1 << 20);
/// assert!(ALLOC.current() - before < 1 << 20);
/// ```
#[derive(Debug)]
pub struct CountingAlloc {
    current: AtomicUsize,
    peak: AtomicUsize,
    total: AtomicUsize,
    count: AtomicUsize,
}

impl CountingAlloc {
    /// With all counts at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            current: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            total: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// Bytes allocated now.
    pub fn current(&self) -> usize {
        self.current.load(Relaxed)
    }

    /// The most bytes allocated at once since the last [`reset`](Self::reset).
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// Bytes asked for since the last reset, freed or not; growing a block adds the growth.
    pub fn total(&self) -> usize {
        self.total.load(Relaxed)
    }

    /// Calls that took or resized memory since the last reset.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Starts to count anew: the peak from what is allocated now, total and count from zero.
    pub fn reset(&self) {
        self.peak.store(self.current(), Relaxed);
        self.total.store(0, Relaxed);
        self.count.store(0, Relaxed);
    }

    fn taken(&self, size: usize) {
        ALLOCATED.with(|allocated| {
            let (now, peak) = allocated.get();
            let now = now.wrapping_add(size as isize);
            allocated.set((now, peak.max(now)));
        });
        self.total.fetch_add(size, Relaxed);
        let current = self.current.fetch_add(size, Relaxed) + size;
        self.peak.fetch_max(current, Relaxed);
    }

    fn given_back(&self, size: usize) {
        ALLOCATED.with(|allocated| {
            let (now, peak) = allocated.get();
            allocated.set((now.wrapping_sub(size as isize), peak));
        });
        self.current.fetch_sub(size, Relaxed);
    }
}

thread_local! {
    /// Bytes that this thread has allocated, and the most that it had; below zero where it freed what
    /// another took.
    static ALLOCATED: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// Runs `work` and tells how many bytes this thread had allocated at most beyond those from before: other
/// threads don't count, so other tests may run beside it.
///
/// Always 0 where no [`CountingAlloc`] is installed.
pub fn peak_of<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = ALLOCATED.with(|allocated| {
        let (now, _) = allocated.get();
        allocated.set((now, now));
        now
    });
    let result = work();
    let (_, peak) = ALLOCATED.with(Cell::get);
    (result, peak.wrapping_sub(before).unsigned_abs())
}

/// Bytes that this thread holds, below zero where it freed what another took: what lies between two calls.
///
/// Always 0 where no [`CountingAlloc`] is installed.
#[must_use]
pub fn allocated() -> isize {
    ALLOCATED.with(|allocated| allocated.get().0)
}

impl Default for CountingAlloc {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: every call goes to `System` unchanged, and its answer is returned unchanged; counting
// touches only atomics and a thread-local without a destructor, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `GlobalAlloc::alloc`'s contract, which is `System`'s.
        let pointer = unsafe { System.alloc(layout) };
        self.count.fetch_add(1, Relaxed);
        if !pointer.is_null() {
            self.taken(layout.size());
        }
        pointer
    }

    // Not left to the default, which would fill by hand the pages that the system gives as zeros.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as `alloc`.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        self.count.fetch_add(1, Relaxed);
        if !pointer.is_null() {
            self.taken(layout.size());
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's pointer came from this allocator, so from `System`, with this
        // layout.
        unsafe { System.dealloc(pointer, layout) };
        self.given_back(layout.size());
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as `dealloc` for the pointer and layout; the caller keeps `realloc`'s contract
        // for the new size.
        let moved = unsafe { System.realloc(pointer, layout, new_size) };
        self.count.fetch_add(1, Relaxed);
        if !moved.is_null() {
            match new_size.checked_sub(layout.size()) {
                Some(growth) => self.taken(growth),
                None => self.given_back(layout.size() - new_size),
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_held_and_what_was() {
        let alloc = CountingAlloc::new();
        let layout = Layout::from_size_align(1000, 8).unwrap();
        let smaller = Layout::from_size_align(10, 8).unwrap();
        // SAFETY: each layout has a size; each pointer is checked, and is resized and freed once
        // with the layout it then has.
        unsafe {
            let pointer = alloc.alloc(layout);
            assert!(!pointer.is_null());
            assert_eq!((alloc.current(), alloc.peak()), (1000, 1000));
            let pointer = alloc.realloc(pointer, layout, 10);
            assert!(!pointer.is_null());
            assert_eq!((alloc.current(), alloc.peak()), (10, 1000));

            alloc.reset();
            assert_eq!((alloc.peak(), alloc.total(), alloc.count()), (10, 0, 0));
            let zeroed = alloc.alloc_zeroed(layout);
            assert!(!zeroed.is_null());
            assert_eq!((alloc.current(), alloc.peak()), (1010, 1010));
            assert_eq!((alloc.total(), alloc.count()), (1000, 1));

            alloc.dealloc(zeroed, layout);
            alloc.dealloc(pointer, smaller);
        }
        assert_eq!((alloc.current(), alloc.peak()), (0, 1010));
    }

    #[test]
    fn a_threads_peak_is_its_own() {
        let alloc = CountingAlloc::new();
        let layout = Layout::from_size_align(1000, 8).unwrap();
        let take_and_free = || {
            // SAFETY: the layout has a size; the pointer is checked and freed once.
            unsafe {
                let pointer = alloc.alloc(layout);
                assert!(!pointer.is_null());
                alloc.dealloc(pointer, layout);
            }
        };
        let ((), peak) = peak_of(take_and_free);
        assert_eq!(peak, 1000);
        let (joined, peak) =
            peak_of(|| std::thread::scope(|scope| scope.spawn(take_and_free).join().is_ok()));
        assert_eq!((joined, peak), (true, 0));
    }
}
