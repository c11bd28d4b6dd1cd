//! Contenders that take turns, and what their times are.

use std::time::Instant;

use crate::report;

/// One way of doing the work of a row.
pub struct Contender<'a> {
    pub name: String,
    /// Done before each run, not timed.
    pub before: Box<dyn FnMut() + 'a>,
    pub run: Box<dyn FnMut() + 'a>,
}

impl<'a> Contender<'a> {
    pub fn new(name: impl Into<String>, run: impl FnMut() + 'a) -> Self {
        Self {
            name: name.into(),
            before: Box::new(|| ()),
            run: Box::new(run),
        }
    }

    pub fn before(mut self, before: impl FnMut() + 'a) -> Self {
        self.before = Box::new(before);
        self
    }
}

/// The times of one contender, in seconds, in the order of the rounds.
#[derive(Clone)]
pub struct Times {
    pub name: String,
    pub seconds: Vec<f64>,
}

impl Times {
    pub fn median(&self) -> f64 {
        median(&self.seconds)
    }

    pub fn min(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn max(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }

    /// The median over the rounds of `other`'s time by this one's: the speed of this one as a
    /// multiple of the other's. Rounds are paired, so that a slow moment of the machine, which
    /// both meet, is no difference between them.
    pub fn speed_over(&self, other: &Self) -> f64 {
        let pairs = self.seconds.iter().zip(&other.seconds);
        median(
            &pairs
                .map(|(ours, theirs)| theirs / ours)
                .collect::<Vec<f64>>(),
        )
    }

    /// Every round's slower time of two contenders.
    pub fn slower(name: &str, a: &Self, b: &Self) -> Self {
        let pairs = a.seconds.iter().zip(&b.seconds);
        Self {
            name: name.to_owned(),
            seconds: pairs.map(|(a, b)| a.max(*b)).collect(),
        }
    }
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

/// Runs every contender once to warm up, then in `rounds` rounds, each in another order.
pub fn race(rounds: usize, mut contenders: Vec<Contender<'_>>) -> Vec<Times> {
    let mut times: Vec<Times> = contenders
        .iter()
        .map(|contender| Times {
            name: contender.name.clone(),
            seconds: Vec::with_capacity(rounds),
        })
        .collect();
    for round in 0..=rounds {
        for turn in 0..contenders.len() {
            let at = (turn + round) % contenders.len();
            let contender = &mut contenders[at];
            (contender.before)();
            fresh_memory();
            let start = Instant::now();
            (contender.run)();
            let elapsed = start.elapsed().as_secs_f64();
            if round > 0 {
                times[at].seconds.push(elapsed);
            }
        }
    }
    // A long run tells how far it is, and one that is cut keeps what it has measured.
    for times in &times {
        eprintln!("    {}: {}", times.name, report::spread(times));
    }
    times
}

/// From here on every large buffer is new memory, as it is for a program that loads a model once:
/// the C library would otherwise keep the first ones and hand them out again.
pub fn always_fresh_memory() {
    // SAFETY: sets a number of the C library's allocator.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 10);
    }
}

/// Gives back what the contender before has freed, so that the next one does not pay for it.
fn fresh_memory() {
    // SAFETY: takes nothing that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
