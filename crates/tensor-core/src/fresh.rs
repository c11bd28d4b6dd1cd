//! New memory that is filled as a whole, in whichever way is fastest on this machine.
//!
//! New memory costs more than the read that fills it, and how much more depends on the system. Two threads
//! that touch new pages halve the time on one kernel and double it on the next. Pages of 2 MiB cost a fifth of
//! small ones where the machine has them at hand, and five times as much where a hypervisor has to find memory
//! for them first. Nothing that can be asked tells the two apart, so each way is timed on the first pieces of
//! what is read, the cheapest is taken from there on, and the others are tried again, ever more seldom.

use core::ops::Range;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::source::WINDOW;
use crate::{AlignedBytes, SourceError, parallel};

/// Bytes that are filled in one way.
const PIECE: usize = 4 << 20;

/// `len` bytes of new memory that `read` fills, as [`fill`] does.
///
/// # Errors
/// [`SourceError::OutOfMemory`], and the first error of `read`.
pub(crate) fn filled(
    len: usize,
    read: impl Fn(usize, &mut [u8]) -> Result<(), SourceError> + Sync,
) -> Result<AlignedBytes, SourceError> {
    let mut buffer = AlignedBytes::new_pages(len)?;
    fill(&mut buffer, 0..len, read)?;
    Ok(buffer)
}

/// Fills a range of a buffer that nobody has touched yet: `read` is called with pieces and where each starts,
/// on several threads where that is faster. It is for sources that are as fast at any place, as
/// [`Source::is_random_access`](crate::Source::is_random_access) says.
///
/// # Errors
/// The first error of `read`.
///
/// ```
/// use tensor_core::codec::fill;
/// use tensor_core::{AlignedBytes, Bytes, Source};
///
/// let source = Bytes::from(vec![7; 5 << 20]);
/// let mut buffer = AlignedBytes::new_pages(5 << 20)?;
/// fill(&mut buffer, 0..5 << 20, |start, piece| source.read_into(start as u64, piece))?;
/// assert_eq!(buffer.freeze(), source);
/// # Ok::<(), tensor_core::SourceError>(())
/// ```
pub fn fill(
    buffer: &mut AlignedBytes,
    range: Range<usize>,
    read: impl Fn(usize, &mut [u8]) -> Result<(), SourceError> + Sync,
) -> Result<(), SourceError> {
    static WAYS: Mutex<Ways> = Mutex::new(Ways::new());
    let ways = || WAYS.lock().unwrap_or_else(PoisonError::into_inner);
    let usable = Way::usable(buffer);
    let (mut start, end) = (range.start, range.end.min(buffer.as_slice().len()));
    while start < end {
        let next = buffer.next_boundary(start, PIECE).min(end);
        let way = ways().next(usable);
        let began = Instant::now();
        let supported = way.fill(buffer, start, next, &read)?;
        match supported {
            true => ways().took(usable, way, next - start, began.elapsed()),
            false => ways().forget(way),
        }
        start = next;
    }
    Ok(())
}

/// A way to fill a piece of new memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// One thread reads, and the system finds each page when it is touched.
    Touched,
    /// One thread asks for the pages of a window at once and then reads into them.
    Populated,
    /// Several threads read, and the system finds each page when it is touched.
    Threads,
    /// The pages are asked for at once, large ones if there are any; then several threads read.
    Large,
}

/// How many ways there are.
const COUNT: usize = 4;

impl Way {
    const ALL: [Self; COUNT] = [Self::Touched, Self::Populated, Self::Threads, Self::Large];

    /// Which ways there are for a buffer on this thread, in the order of [`Way::ALL`].
    fn usable(buffer: &AlignedBytes) -> [bool; COUNT] {
        let (pages, threads) = (buffer.has_pages(), parallel::has_threads());
        [!pages, pages, threads, pages]
    }

    /// Fills a piece in this way. `false` where the system doesn't know it; the piece is filled all the same.
    fn fill(
        self,
        buffer: &mut AlignedBytes,
        start: usize,
        end: usize,
        read: &(impl Fn(usize, &mut [u8]) -> Result<(), SourceError> + Sync),
    ) -> Result<bool, SourceError> {
        let mut supported = true;
        match self {
            Self::Touched => read(start, buffer.piece(start, end))?,
            Self::Populated => {
                for start in (start..end).step_by(WINDOW) {
                    let end = end.min(start + WINDOW);
                    supported &= buffer.populate(start, end);
                    read(start, buffer.piece(start, end))?;
                }
            }
            Self::Threads | Self::Large => {
                if self == Self::Large {
                    supported = buffer.ask_for_large_pages(start, end);
                    supported &= buffer.populate(start, end);
                }
                parallel::fill(0, buffer.piece(start, end), WINDOW, |at, piece| {
                    read(start + at, piece)
                })?;
            }
        }
        Ok(supported)
    }
}

/// What each way has taken so far.
#[derive(Debug)]
struct Ways {
    all: [Experience; COUNT],
}

/// What one way has taken.
#[derive(Clone, Copy, Debug)]
struct Experience {
    /// Picoseconds a byte, of late; `None` where it was never tried.
    cost: Option<u64>,
    /// Bytes until it is tried again although another is cheaper.
    rest: u64,
    /// Bytes that it had to wait the last time.
    wait: u64,
    /// Whether the system knows it.
    known: bool,
}

impl Experience {
    /// Bytes that a way which was not the cheapest waits at first, and at most. A trial may take eight times
    /// as long as the piece would have taken otherwise.
    const FIRST_WAIT: u64 = 256 << 20;
    const LONGEST_WAIT: u64 = 16 << 30;
}

impl Ways {
    const fn new() -> Self {
        let untried = Experience {
            cost: None,
            rest: 0,
            wait: 0,
            known: true,
        };
        Self {
            all: [untried; COUNT],
        }
    }

    fn usable(&self, usable: [bool; COUNT]) -> impl Iterator<Item = (Way, &Experience)> {
        let all = Way::ALL.into_iter().zip(&self.all).zip(usable);
        all.filter_map(|((way, experience), usable)| {
            (usable && experience.known).then_some((way, experience))
        })
    }

    /// The cheapest way as far as is known.
    fn cheapest(&self, usable: [bool; COUNT]) -> Option<Way> {
        let tried = self.usable(usable);
        let costs = tried.filter_map(|(way, experience)| Some((experience.cost?, way)));
        costs.min_by_key(|&(cost, _)| cost).map(|(_, way)| way)
    }

    /// How the next piece is filled.
    fn next(&self, usable: [bool; COUNT]) -> Way {
        let best = self.cheapest(usable);
        let is_due = |experience: &Experience| experience.cost.is_none() || experience.rest == 0;
        let trial = self
            .usable(usable)
            .find(|&(way, experience)| Some(way) != best && is_due(experience));
        trial.map(|(way, _)| way).or(best).unwrap_or(Way::Touched)
    }

    /// Notes what a piece took.
    fn took(&mut self, usable: [bool; COUNT], way: Way, bytes: usize, time: Duration) {
        let picoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 1000);
        let cost = picoseconds.saturating_mul(1000) / (bytes as u64).max(1);
        let was_best = self.cheapest(usable) == Some(way);
        for (other, experience) in Way::ALL.into_iter().zip(&mut self.all) {
            if other == way {
                // A way that is tried now and then is judged by its last trial alone.
                experience.cost = match experience.cost {
                    Some(before) if was_best => Some(before / 2 + cost / 2),
                    _ => Some(cost),
                };
            } else {
                experience.rest = experience.rest.saturating_sub(bytes as u64);
            }
        }
        let best = self.cheapest(usable);
        for (other, experience) in Way::ALL.into_iter().zip(&mut self.all) {
            if Some(other) == best {
                experience.wait = 0;
            } else if other == way {
                let longer = experience.wait.saturating_mul(4);
                let wait = longer.clamp(Experience::FIRST_WAIT, Experience::LONGEST_WAIT);
                (experience.wait, experience.rest) = (wait, wait);
            }
        }
    }

    /// Notes that the system doesn't know a way.
    fn forget(&mut self, way: Way) {
        for (other, experience) in Way::ALL.into_iter().zip(&mut self.all) {
            experience.known &= other != way;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [bool; COUNT] = [true; COUNT];

    /// Microseconds that `bytes` take by the ways chosen, where a piece takes so many each way.
    fn run(ways: &mut Ways, bytes: usize, costs: [u64; COUNT]) -> u64 {
        let mut sum = 0;
        for _ in 0..bytes / PIECE {
            let way = ways.next(ALL);
            let at = Way::ALL.iter().position(|other| *other == way).unwrap();
            ways.took(ALL, way, PIECE, Duration::from_micros(costs[at]));
            sum += costs[at];
        }
        sum
    }

    #[test]
    fn a_machine_pays_little_above_its_cheapest_way() {
        // Measured: threads are best; large pages are; large pages from a hypervisor; threads that hurt.
        let machines = [
            [2500, 2000, 1600, 18_000],
            [2500, 2200, 2000, 900],
            [2600, 2000, 1700, 9000],
            [2100, 1900, 3900, 20_000],
        ];
        for costs in machines {
            let mut ways = Ways::new();
            let pieces = (4 << 30) / PIECE as u64;
            let best = costs.iter().min().unwrap() * pieces;
            let took = run(&mut ways, 4 << 30, costs);
            assert!(took * 100 <= best * 107, "{costs:?}: {took} for {best}");
            // The longer, the closer.
            let more = run(&mut ways, 16 << 30, costs);
            assert!(more * 1000 <= best * 4 * 1015, "{costs:?}: {more}");
        }
    }

    #[test]
    fn the_way_changes_with_the_machine() {
        let mut ways = Ways::new();
        run(&mut ways, 1 << 30, [2500, 2000, 1600, 18_000]);
        assert_eq!(ways.cheapest(ALL), Some(Way::Threads));
        // Another program takes the second processor.
        run(&mut ways, 1 << 30, [2500, 2000, 4000, 18_000]);
        assert_eq!(ways.cheapest(ALL), Some(Way::Populated));
        // Memory is at hand; that is found out within the longest wait.
        run(&mut ways, 20 << 30, [2500, 2000, 4000, 900]);
        assert_eq!(ways.cheapest(ALL), Some(Way::Large));
    }

    #[test]
    fn what_the_system_does_not_know_is_not_tried_again() {
        let mut ways = Ways::new();
        ways.forget(Way::Large);
        ways.forget(Way::Populated);
        run(&mut ways, 4 << 30, [1000, 1, 2000, 1]);
        assert_eq!(ways.cheapest(ALL), Some(Way::Touched));
        // Where nothing is usable, memory is touched as ever.
        assert_eq!(ways.next([false, true, false, true]), Way::Touched);
    }

    #[test]
    fn every_way_fills_all_and_stops_at_an_error() {
        let value = |at: usize| u8::try_from(at % 251).unwrap();
        let fill = |start: usize, piece: &mut [u8]| {
            let bytes = piece.iter_mut().zip(start..);
            bytes.for_each(|(byte, at)| *byte = value(at));
            Ok(())
        };
        let len = 3 * PIECE + 4097;
        for _ in 0..4 {
            let buffer = filled(len, fill).unwrap();
            let bytes = buffer.as_slice().iter().enumerate();
            assert_eq!(buffer.as_slice().len(), len);
            assert!(bytes.into_iter().all(|(at, &byte)| byte == value(at)));
        }
        for way in Way::ALL {
            let mut buffer = AlignedBytes::new_pages(len).unwrap();
            way.fill(&mut buffer, 5000, len, &fill).unwrap();
            let bytes = buffer.as_slice().iter().enumerate();
            let mut rest = bytes.skip(5000);
            assert!(rest.all(|(at, &byte)| byte == value(at)), "{way:?}");
        }
        let fail = |start: usize, _: &mut [u8]| match start {
            0 => Ok(()),
            _ => Err(SourceError::OutOfMemory(start as u64)),
        };
        assert!(filled(len, fail).is_err());
    }
}
