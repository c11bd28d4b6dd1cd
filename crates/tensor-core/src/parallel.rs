//! The same work on many items, on several threads where the `rayon` feature is on.

use alloc::vec::Vec;

/// How many threads `threads` means: itself, or all there are for 0. 1 without the `rayon` feature.
#[must_use]
pub fn threads(threads: usize) -> usize {
    #[cfg(feature = "rayon")]
    {
        if threads == 0 {
            rayon::current_num_threads()
        } else {
            threads
        }
    }
    #[cfg(not(feature = "rayon"))]
    {
        let _ = threads;
        1
    }
}

/// Calls `work` with every index below `count` and returns the results in index order. Items are
/// started in index order, at most `threads` (0 for all) at a time; after an error no new one is
/// started, and the error of the lowest index is returned.
///
/// # Errors
/// The error of the first item that fails.
pub fn map<T: Send, E: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    #[cfg(feature = "rayon")]
    {
        let workers = self::threads(threads).min(count);
        if workers > 1 {
            return threaded(workers, count, work);
        }
    }
    let _ = threads;
    (0..count).map(work).collect()
}

#[cfg(feature = "rayon")]
fn threaded<T: Send, E: Send>(
    workers: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};

    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done = Mutex::new(Vec::with_capacity(count));
    rayon::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|_| {
                while !failed.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let result = work(index);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}
