//! What was written goes to the disk while more is written, so that the flush at the end has little left.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Bytes that are worth a flush of their own.
const WORTH: u64 = 128 << 20;

/// Flushes of a file by another thread, one at a time.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Bytes that no flush was begun for.
    written: u64,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Early {
    /// Counts bytes that were written, and begins one of the flushes that `flush` makes where that is worth it
    /// and none is going on.
    pub(super) fn wrote<F>(
        &mut self,
        len: usize,
        flush: impl FnOnce() -> io::Result<F>,
    ) -> io::Result<()>
    where
        F: FnOnce() -> io::Result<()> + Send + 'static,
    {
        self.written = self.written.saturating_add(len as u64);
        let is_busy = |thread: &JoinHandle<_>| !thread.is_finished();
        if self.written < WORTH || self.thread.as_ref().is_some_and(is_busy) {
            return Ok(());
        }
        self.finish()?;
        self.written = 0;
        // Where there is no thread to be had, the flush at the end does all.
        self.thread = Builder::new().spawn(flush()?).ok();
        Ok(())
    }

    /// Waits for the flush that is going on. Its error is the file's: the system tells each only once, so the
    /// flush at the end would not fail again.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const ALL: usize = 128 << 20;

    /// What no flush is made of.
    fn none() -> io::Result<fn() -> io::Result<()>> {
        Err(io::Error::other("one more flush"))
    }

    #[test]
    fn one_flush_at_a_time_for_enough_bytes() {
        assert_eq!(ALL as u64, WORTH);
        let mut early = Early::default();
        let half = ALL / 2;
        early.wrote(half, none).unwrap();
        let (go, waits) = channel();
        let flush = move || waits.recv().map_err(io::Error::other);
        early.wrote(half, || Ok(flush)).unwrap();
        // It is not done yet, however much is written.
        early.wrote(4 * half, none).unwrap();
        go.send(()).unwrap();
        early.finish().unwrap();
        early.wrote(1, none).unwrap_err();
    }

    #[test]
    fn what_a_flush_fails_with_is_told_once() {
        let fails = || Ok(|| Err(io::Error::other("no space")));
        let mut early = Early::default();
        early.wrote(ALL, fails).unwrap();
        assert_eq!(early.finish().unwrap_err().to_string(), "no space");
        early.finish().unwrap();
        // Told by what is written next as well.
        early.wrote(ALL, fails).unwrap();
        while early
            .thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            std::thread::yield_now();
        }
        let error = early.wrote(ALL, none).unwrap_err();
        assert_eq!(error.to_string(), "no space");
    }
}
