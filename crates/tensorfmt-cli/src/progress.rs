//! A bar on standard error while work takes over a second, on a terminal only.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::Common;
use crate::console::{self, Progress};
use crate::signals;

/// Counts bytes done; its [`tick`](Meter::tick) is what the library calls.
pub(crate) struct Meter {
    bar: ProgressBar,
    started: Instant,
    drawn: AtomicBool,
    wanted: bool,
    /// What else is called, with the number of bytes in all.
    told: Option<(Progress, u64)>,
}

impl Meter {
    /// A meter of `total` bytes.
    pub(crate) fn new(total: u64, common: &Common) -> Self {
        let wanted = !common.quiet && !console::is_captured() && io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            started: Instant::now(),
            drawn: AtomicBool::new(false),
            wanted,
            told: console::progress().map(|progress| (progress, total)),
        }
    }

    /// Notes `bytes` more.
    pub(crate) fn tick(&self, bytes: u64) -> ControlFlow<()> {
        self.bar.inc(bytes);
        let late = self.started.elapsed() > Duration::from_secs(1);
        if self.wanted && late && !self.drawn.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if let Some((progress, total)) = &self.told {
            return progress(bytes, *total);
        }
        match signals::stopped() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
