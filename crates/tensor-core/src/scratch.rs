//! Buffers for a while, whatever is in them. New memory costs about as much as what is done with
//! it, so they are used again.

use crate::{AlignedBytes, SourceError, source::WINDOW};

/// A buffer of at least the length asked for.
///
/// With `std`, one of up to a window comes from the thread that asks, which keeps two; a larger one
/// from those that [`Kept`] keeps.
#[derive(Debug)]
pub(crate) struct Scratch {
    buffer: Option<AlignedBytes>,
    len: usize,
}

impl Scratch {
    /// One of `len` bytes.
    pub(crate) fn of(len: usize) -> Result<Self, SourceError> {
        let buffer = match len {
            0..=WINDOW => small::take(len).map_or_else(|| AlignedBytes::zeroed(len), Ok)?,
            _ => large::take(len).map_or_else(|| large::new(len), Ok)?,
        };
        let buffer = Some(buffer);
        Ok(Self { buffer, len })
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        let all = self.buffer.as_mut().map(AlignedBytes::as_mut_slice);
        all.unwrap_or_default()
            .get_mut(..self.len)
            .unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            match buffer.as_slice().len() {
                0..=WINDOW => small::give(buffer),
                _ => large::give(buffer),
            }
        }
    }
}

/// Keeps large buffers from one use to the next, as long as there is one of these.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    #[cfg(feature = "std")]
    _spares: alloc::sync::Arc<large::Spares>,
}

impl Kept {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(feature = "std")]
            _spares: large::spares(),
        }
    }
}

#[cfg(feature = "std")]
mod small {
    use core::cell::Cell;

    use super::{AlignedBytes, WINDOW};

    std::thread_local! {
        // Two, since a walk over a source that has use for one holds another.
        static SPARES: Cell<[Option<AlignedBytes>; 2]> = const { Cell::new([None, None]) };
    }

    pub(super) fn take(len: usize) -> Option<AlignedBytes> {
        let change = |[first, second]: [Option<AlignedBytes>; 2]| match first {
            Some(_) => (first, [second, None]),
            None => (second, [None, None]),
        };
        SPARES
            .try_with(|spares| {
                let (spare, left) = change(spares.take());
                spares.set(left);
                spare
            })
            .ok()
            .flatten()
            .filter(|buffer| buffer.as_slice().len() >= len)
    }

    pub(super) fn give(buffer: AlignedBytes) {
        if buffer.as_slice().len() != WINDOW {
            return;
        }
        // A thread that is ending keeps none.
        let _ = SPARES.try_with(|spares| {
            let [first, second] = spares.take();
            spares.set(match first {
                None => [Some(buffer), second],
                Some(_) => [first, Some(buffer)],
            });
        });
    }
}

#[cfg(feature = "std")]
mod large {
    use alloc::sync::{Arc, Weak};
    use alloc::vec::Vec;
    use std::sync::{Mutex, PoisonError};

    use super::{AlignedBytes, SourceError};

    /// Bytes that are kept at most: a stripe of a transposition and what it is made from.
    const MAX_KEPT: usize = 40 << 20;

    /// In pages as large as the system has, which takes far fewer page faults.
    pub(super) fn new(len: usize) -> Result<AlignedBytes, SourceError> {
        let buffer = AlignedBytes::new_pages(len)?;
        buffer.ask_for_large_pages(0, len);
        Ok(buffer)
    }

    #[derive(Debug, Default)]
    pub(super) struct Spares(Mutex<Vec<AlignedBytes>>);

    static SPARES: Mutex<Weak<Spares>> = Mutex::new(Weak::new());

    pub(super) fn spares() -> Arc<Spares> {
        let mut known = SPARES.lock().unwrap_or_else(PoisonError::into_inner);
        known.upgrade().unwrap_or_else(|| {
            let new = Arc::default();
            *known = Arc::downgrade(&new);
            new
        })
    }

    /// The spares, if anything keeps them.
    fn kept() -> Option<Arc<Spares>> {
        SPARES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .upgrade()
    }

    /// The smallest that is large enough; one that is not is given up, so that no more is held than
    /// is in use.
    pub(super) fn take(len: usize) -> Option<AlignedBytes> {
        let kept = kept()?;
        let mut spares = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |(_, buffer): &(usize, &AlignedBytes)| buffer.as_slice().len() >= len;
        let best = spares
            .iter()
            .enumerate()
            .filter(fits)
            .min_by_key(|(_, buffer)| buffer.as_slice().len())
            .map(|(at, _)| at);
        match best {
            Some(at) => Some(spares.swap_remove(at)),
            None => {
                spares.sort_unstable_by_key(|spare| spare.as_slice().len());
                spares.pop();
                None
            }
        }
    }

    pub(super) fn give(buffer: AlignedBytes) {
        let Some(kept) = kept() else { return };
        let mut spares = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held: usize = spares.iter().map(|spare| spare.as_slice().len()).sum();
        if held.saturating_add(buffer.as_slice().len()) <= MAX_KEPT {
            spares.push(buffer);
        }
    }
}

/// Without threads and locks nothing is kept.
#[cfg(not(feature = "std"))]
mod small {
    use super::{AlignedBytes, SourceError};

    pub(super) fn new(len: usize) -> Result<AlignedBytes, SourceError> {
        AlignedBytes::zeroed(len)
    }

    pub(super) fn take(_len: usize) -> Option<AlignedBytes> {
        None
    }

    pub(super) fn give(_buffer: AlignedBytes) {}
}

#[cfg(not(feature = "std"))]
use small as large;

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    /// One test, since there is one store.
    #[test]
    fn large_buffers_are_kept_as_long_as_something_keeps_them() {
        let len = 3 * WINDOW + 5;
        let place = |len: usize| {
            let mut scratch = Scratch::of(len).unwrap();
            assert_eq!(scratch.as_mut_slice().len(), len);
            scratch.as_mut_slice().as_ptr()
        };
        let kept = Kept::new();
        let first = place(len);
        assert_eq!(place(len), first);
        // One that is smaller fits, too.
        assert_eq!(place(len - WINDOW), first);
        let held = Scratch::of(len).unwrap();
        assert_eq!(large::take(len).map(|buffer| buffer.as_slice().len()), None);
        drop(held);
        drop(kept);
        assert!(large::take(len).is_none());
    }

    #[test]
    fn small_buffers_stay_with_their_thread() {
        let place = |scratch: &mut Scratch| scratch.as_mut_slice().as_ptr();
        std::thread::spawn(move || {
            let mut first = Scratch::of(WINDOW).unwrap();
            let mut second = Scratch::of(WINDOW).unwrap();
            let mut places = [place(&mut first), place(&mut second)];
            drop((first, second));
            let mut again = [Scratch::of(WINDOW).unwrap(), Scratch::of(7).unwrap()];
            assert_eq!(again[1].as_mut_slice().len(), 7);
            let mut others = again.each_mut().map(place);
            places.sort_unstable();
            others.sort_unstable();
            assert_eq!(places, others);
        })
        .join()
        .unwrap();
    }
}
