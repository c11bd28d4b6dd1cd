//! Work without the interpreter's lock, which Ctrl-C stops and which tells how far it is.

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors;

/// How often a caller looks after signals and tells of progress.
const TICK: Duration = Duration::from_millis(50);

/// What work and the one who waits for it share.
#[derive(Default)]
pub(crate) struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

impl Watch {
    /// Notes `bytes` more of `total`; a break says that the work is to end.
    pub(crate) fn tick(&self, bytes: u64, total: u64) -> ControlFlow<()> {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        match self.stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn so_far(&self) -> (u64, u64) {
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed);
        (done, total.max(done))
    }
}

/// Runs `work` on a thread of its own, without the interpreter's lock. This thread looks after signals
/// meanwhile, and calls `progress(done, total)` with bytes; an exception of either stops the work, and is
/// raised when that has ended.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    watch: &Watch,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let ended = (Mutex::new(false), Condvar::new());
    let mut said = None;
    let mut tell = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        let now = watch.so_far();
        match progress {
            Some(progress) if said != Some(now) => {
                said = Some(now);
                progress.call1(now).map(drop)
            }
            _ => Ok(()),
        }
    };
    let (result, raised) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let result = std::panic::catch_unwind(AssertUnwindSafe(work));
            *ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            ended.1.notify_all();
            result
        });
        let mut raised = None;
        while !py.detach(|| wait(&ended)) {
            if raised.is_none() {
                raised = tell(py).err();
                watch.stop.store(raised.is_some(), Ordering::Relaxed);
            }
        }
        (py.detach(|| thread.join()), raised)
    });
    match (result, raised) {
        (_, Some(raised)) => Err(raised),
        (Ok(Ok(result)), None) => tell(py).map(|()| result),
        _ => Err(errors::broken()),
    }
}

/// Waits for the end, but not for long.
fn wait((ended, bell): &(Mutex<bool>, Condvar)) -> bool {
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
    match bell.wait_timeout_while(ended, TICK, |ended| !*ended) {
        Ok((ended, _)) => *ended,
        Err(poisoned) => *poisoned.into_inner().0,
    }
}
