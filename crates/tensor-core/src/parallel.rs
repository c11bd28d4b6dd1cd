//! The same work on many items, on several threads where the `rayon` feature is on.
//!
//! Called on a thread of one of rayon's pools, the work is shared with that pool. Called anywhere
//! else, it gets threads of its own, which end with it: rayon's global pool is never started, and a
//! process that may have no more threads does the work on the one it has.

use alloc::vec::Vec;

/// How many threads `threads` means: itself, or for 0 as many as the pool has that this thread belongs
/// to, or else as the machine has. 1 without the `rayon` feature.
///
/// ```
/// use tensor_core::parallel::threads;
///
/// assert!(threads(0) >= 1); // all that there are
/// ```
#[must_use]
pub fn threads(threads: usize) -> usize {
    #[cfg(feature = "rayon")]
    {
        match threads {
            0 if in_pool() => rayon::current_num_threads(),
            0 => available(),
            _ => threads,
        }
    }
    #[cfg(not(feature = "rayon"))]
    {
        let _ = threads;
        1
    }
}

/// Whether this thread belongs to one of rayon's pools.
#[cfg(feature = "rayon")]
fn in_pool() -> bool {
    rayon::current_thread_index().is_some()
}

/// How many threads the machine runs at once, asked once: the answer takes several system calls.
#[cfg(feature = "rayon")]
fn available() -> usize {
    use std::sync::OnceLock;

    static AVAILABLE: OnceLock<usize> = OnceLock::new();
    *AVAILABLE.get_or_init(|| std::thread::available_parallelism().map_or(1, Into::into))
}

/// A pool of up to `threads` threads for one piece of work; `None` where the system grants not even two.
#[cfg(feature = "rayon")]
fn pool(threads: usize) -> Option<rayon::ThreadPool> {
    let fewer = |&threads: &usize| Some(threads / 2);
    core::iter::successors(Some(threads), fewer)
        .take_while(|&threads| threads > 1)
        .find_map(|threads| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
            builder.build().ok()
        })
}

/// Whether [`fill`] has more than one thread here.
pub(crate) fn has_threads() -> bool {
    #[cfg(feature = "rayon")]
    {
        !in_pool() && available() > 1
    }
    #[cfg(not(feature = "rayon"))]
    {
        false
    }
}

/// The part of `bytes` that one thread may hold: all of it, or on a thread of a pool, where others
/// may hold as much at the same time, its share; 2 MiB in any case.
pub(crate) fn share(bytes: usize) -> usize {
    #[cfg(feature = "rayon")]
    if in_pool() {
        const LEAST: usize = 2 << 20;
        return (bytes / rayon::current_num_threads().max(1)).max(LEAST.min(bytes));
    }
    bytes
}

/// Runs `body` on this thread and what it spawns in `pool`, or in the pool that this thread belongs to.
#[cfg(feature = "rayon")]
fn scope<'scope, E>(
    pool: Option<&rayon::ThreadPool>,
    body: impl FnOnce(&rayon::Scope<'scope>) -> Result<(), E>,
) -> Result<(), E> {
    match pool {
        Some(pool) => pool.in_place_scope(body),
        None => rayon::in_place_scope(body),
    }
}

/// Calls `work` with every index below `count` and returns the results in index order. Items are
/// started in index order, at most `threads` (0 for all) at a time; after an error no new one is
/// started, and the error of the lowest index is returned.
///
/// # Errors
/// The error of the first item that fails.
///
/// ```
/// use tensor_core::parallel::map;
///
/// let squares = map(0, 4, |index| Ok::<_, ()>(index * index));
/// assert_eq!(squares, Ok(vec![0, 1, 4, 9]));
/// assert_eq!(map(0, 4, |index| if index < 2 { Ok(()) } else { Err(index) }), Err(2));
/// ```
pub fn map<T: Send, E: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    #[cfg(feature = "rayon")]
    {
        let threads = self::threads(threads);
        let workers = threads.min(count);
        if workers > 1 && in_pool() {
            return threaded(None, workers, count, work);
        }
        // Work on one item may be shared in turn, so the pool may have more threads than items.
        if let Some(pool) = (workers > 1).then(|| pool(threads)).flatten() {
            return threaded(Some(&pool), workers, count, work);
        }
    }
    let _ = threads;
    (0..count).map(work).collect()
}

#[cfg(feature = "rayon")]
fn threaded<T: Send, E: Send>(
    pool: Option<&rayon::ThreadPool>,
    workers: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};

    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done = Mutex::new(Vec::with_capacity(count));
    let run = || {
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
    };
    scope(pool, |scope| {
        (0..workers).for_each(|_| scope.spawn(|_| run()));
        Ok(())
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Calls `work` with every piece of `bytes`, `piece` long but the last, and where it starts, on
/// up to `threads` threads (0 for a few). Pieces are started in order; after an error no new one is,
/// and the error of the first piece is returned.
///
/// The threads are of its own, not rayon's, so that it may be called with a lock held: a pool whose
/// threads wait for that lock is not waited for. On a thread of a pool it stays on that thread,
/// since the others have work already.
///
/// ```
/// let mut bytes = [0; 10];
/// tensor_core::parallel::fill(0, &mut bytes, 4, |start, piece| {
///     piece.fill(u8::try_from(start)?);
///     Ok::<_, std::num::TryFromIntError>(())
/// })?;
/// assert_eq!(bytes, [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]);
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
///
/// # Errors
/// The error of the first piece that fails.
pub fn fill<E: Send>(
    threads: usize,
    bytes: &mut [u8],
    piece: usize,
    work: impl Fn(usize, &mut [u8]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let piece = piece.max(1);
    #[cfg(feature = "rayon")]
    {
        /// More threads do not copy faster.
        const MAX_COPY_THREADS: usize = 4;
        let wanted = match threads {
            0 => available().min(MAX_COPY_THREADS),
            _ => threads,
        };
        let workers = wanted.min(bytes.len().div_ceil(piece));
        if workers > 1 && !in_pool() {
            return shared(workers, bytes, piece, work);
        }
    }
    let _ = threads;
    let mut pieces = bytes.chunks_mut(piece).enumerate();
    pieces.try_for_each(|(index, bytes)| work(index * piece, bytes))
}

#[cfg(feature = "rayon")]
fn shared<E: Send>(
    workers: usize,
    bytes: &mut [u8],
    piece: usize,
    work: impl Fn(usize, &mut [u8]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    use std::sync::{Mutex, PoisonError};

    /// What is left, and the error of the first piece that failed.
    struct State<I, E> {
        left: I,
        failed: Option<(usize, E)>,
    }
    let state = Mutex::new(State {
        left: bytes.chunks_mut(piece).enumerate(),
        failed: None,
    });
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let take = || {
        let mut state = lock();
        state.failed.is_none().then(|| state.left.next()).flatten()
    };
    let run = || {
        while let Some((index, bytes)) = take() {
            if let Err(error) = work(index * piece, bytes) {
                let failed = &mut lock().failed;
                if failed.as_ref().is_none_or(|&(first, _)| index < first) {
                    *failed = Some((index, error));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            // Where no thread can be started, this one does all of the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.failed.map_or(Ok(()), |(_, error)| Err(error))
}

/// Calls `work` with every index below `count`, on up to `threads` threads (0 for all), and hands
/// the results to `take` on this thread, in index order: what a writer needs that compresses on
/// many threads and writes on one.
///
/// A result is held from when its work starts until it was taken. All that are held together cost
/// at most `budget`, as `cost` tells it by index; one that costs more is held alone.
///
/// ```
/// let mut all = Vec::new();
/// let square = |index: usize| Ok::<_, ()>(index * index);
/// tensor_core::parallel::ordered(0, 5, 2, |_| 1, square, |_, square| Ok(all.push(square)))?;
/// assert_eq!(all, [0, 1, 4, 9, 16]);
/// # Ok::<(), ()>(())
/// ```
///
/// # Errors
/// The first error in index order, of `work` or `take`. No work is started after it.
pub fn ordered<T: Send, E: Send>(
    threads: usize,
    count: usize,
    budget: u64,
    cost: impl Fn(usize) -> u64,
    work: impl Fn(usize) -> Result<T, E> + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    #[cfg(feature = "rayon")]
    {
        let workers = self::threads(threads).min(count);
        if workers > 1 && in_pool() {
            return pipelined(None, workers, count, budget, cost, work, take);
        }
        if let Some(pool) = (workers > 1).then(|| pool(workers)).flatten() {
            return pipelined(Some(&pool), workers, count, budget, cost, work, take);
        }
    }
    let _ = (threads, budget, cost);
    (0..count).try_for_each(|index| take(index, work(index)?))
}

/// Results that are made in any order and taken in theirs.
#[cfg(feature = "rayon")]
mod ordered {
    use std::collections::BTreeMap;
    use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

    /// How many results are held at most, however little they cost.
    pub(super) const MAX_RESULTS: usize = 1024;

    pub(super) struct State<R> {
        pub(super) done: BTreeMap<usize, R>,
        pub(super) running: usize,
        pub(super) panicked: bool,
    }

    impl<R> State<R> {
        pub(super) fn new() -> Self {
            Self {
                done: BTreeMap::new(),
                running: 0,
                panicked: false,
            }
        }
    }

    /// Tells that work ended, with a result or without one.
    pub(super) struct Ending<'a, R> {
        pub(super) state: &'a Mutex<State<R>>,
        pub(super) changed: &'a Condvar,
        pub(super) result: Option<(usize, R)>,
    }

    impl<R> Drop for Ending<'_, R> {
        fn drop(&mut self) {
            let mut state = lock(self.state);
            state.running -= 1;
            match self.result.take() {
                Some((index, result)) => drop(state.done.insert(index, result)),
                None => state.panicked = true,
            }
            self.changed.notify_one();
        }
    }

    pub(super) fn lock<R>(state: &Mutex<State<R>>) -> MutexGuard<'_, State<R>> {
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "rayon")]
fn pipelined<T: Send, E: Send>(
    pool: Option<&rayon::ThreadPool>,
    workers: usize,
    count: usize,
    budget: u64,
    cost: impl Fn(usize) -> u64,
    work: impl Fn(usize) -> Result<T, E> + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    use ordered::{Ending, MAX_RESULTS, State, lock};
    use std::sync::{Condvar, Mutex, PoisonError};

    let (state, changed, work) = (Mutex::new(State::new()), Condvar::new(), work);
    let in_pool = in_pool();
    scope(pool, |scope| {
        let (mut next, mut held) = (0, 0u64);
        for index in 0..count {
            let mut now = lock(&state);
            let result = loop {
                while next < count.min(index + MAX_RESULTS)
                    && now.running < workers
                    && (next == index || held.saturating_add(cost(next)) <= budget)
                {
                    let (state, changed, work, at) = (&state, &changed, &work, next);
                    held = held.saturating_add(cost(next));
                    next += 1;
                    now.running += 1;
                    scope.spawn(move |_| {
                        let mut ending = Ending {
                            state,
                            changed,
                            result: None,
                        };
                        ending.result = Some((at, work(at)));
                    });
                }
                if let Some(result) = now.done.remove(&index) {
                    break result;
                }
                if now.panicked {
                    // The scope passes the panic on.
                    return Ok(());
                }
                if in_pool {
                    // All of the pool's threads may be waiting like this one.
                    drop(now);
                    if rayon::yield_now() != Some(rayon::Yield::Executed) {
                        std::thread::yield_now();
                    }
                    now = lock(&state);
                } else {
                    now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
                }
            };
            drop(now);
            take(index, result?)?;
            held = held.saturating_sub(cost(index));
        }
        Ok(())
    })
}

#[cfg(all(test, feature = "rayon"))]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};
    use core::time::Duration;

    use super::*;

    #[test]
    fn results_come_in_order_and_within_the_budget() {
        let held = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        let cost = |index: usize| [3, 1, 20, 0, 2][index % 5];
        for threads in [2, 5] {
            let mut taken = Vec::new();
            let work = |index: usize| {
                let now = held.fetch_add(cost(index), Ordering::SeqCst) + cost(index);
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(index as u64 * 37 % 200));
                Ok::<_, ()>(index)
            };
            let take = |index: usize, result| {
                assert_eq!(index, result);
                held.fetch_sub(cost(index), Ordering::SeqCst);
                taken.push(index);
                Ok(())
            };
            ordered(threads, 100, 8, cost, work, take).unwrap();
            assert!(taken.into_iter().eq(0..100));
            assert!(most.load(Ordering::SeqCst) <= 20);
        }
    }

    #[test]
    fn the_first_error_stops() {
        let work = |index: usize| if index == 7 { Err(index) } else { Ok(index) };
        let mut taken = 0;
        let take = |_, _| {
            taken += 1;
            Ok(())
        };
        assert_eq!(ordered(3, 1_000_000, 10, |_| 1, work, take), Err(7));
        assert_eq!(taken, 7);
        let take = |index, _| if index == 3 { Err(index) } else { Ok(()) };
        assert_eq!(ordered(3, 100, 10, |_| 1, Ok, take), Err(3));
    }

    #[test]
    fn the_first_piece_that_fails_is_told() {
        let fail = |start: usize, piece: &mut [u8]| {
            piece.fill(1);
            if start >= 300 { Err(start) } else { Ok(()) }
        };
        for threads in [1, 2, 0] {
            let mut bytes = [0; 1000];
            assert_eq!(fill(threads, &mut bytes, 100, fail), Err(300));
            assert!(bytes[..400].iter().all(|&byte| byte == 1));
            assert_eq!(fill(threads, &mut bytes[..300], 100, fail), Ok(()));
            assert_eq!(fill(threads, &mut [], 100, fail), Ok(()));
        }
    }

    #[test]
    fn filling_waits_for_no_thread_of_a_pool() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.unwrap();
        let (lock, held) = (std::sync::Mutex::new(()), std::sync::Barrier::new(2));
        pool.in_place_scope(|scope| {
            let guard = lock.lock().unwrap();
            scope.spawn(|_| {
                held.wait();
                drop(lock.lock().unwrap());
            });
            held.wait();
            // The pool's only thread waits for the lock.
            let mut bytes = [0; 1000];
            let work = |_: usize, piece: &mut [u8]| {
                piece.fill(1);
                Ok::<_, ()>(())
            };
            fill(2, &mut bytes, 100, work).unwrap();
            assert_eq!(bytes, [1; 1000]);
            drop(guard);
        });
        let here = pool.install(|| {
            let id = std::thread::current().id();
            let mut bytes = [0; 1000];
            let stays = |_: usize, _: &mut [u8]| match std::thread::current().id() == id {
                true => Ok(()),
                false => Err(()),
            };
            fill(2, &mut bytes, 100, stays)
        });
        assert_eq!(here, Ok(()));
    }

    #[test]
    fn a_pool_that_is_busy_with_it_still_finishes() {
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let sum = pool.unwrap().install(|| {
                let mut sum = 0;
                ordered(
                    4,
                    100,
                    3,
                    |_| 1,
                    Ok::<_, ()>,
                    |_, index| {
                        sum += index;
                        Ok(())
                    },
                )
                .unwrap();
                sum
            });
            assert_eq!(sum, 4950);
        }
    }

    #[test]
    #[should_panic(expected = "in work")]
    fn a_panic_is_passed_on() {
        let work = |index: usize| match index {
            5 => panic!("in work"),
            index => Ok::<_, ()>(index),
        };
        let _ = ordered(2, 100, 10, |_| 1, work, |_, _| Ok(()));
    }
}
