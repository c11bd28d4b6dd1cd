//! The anonymous memory of this process.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Watches the peak from a thread of its own, every millisecond.
pub struct Peak {
    done: Arc<AtomicBool>,
    watcher: JoinHandle<u64>,
}

impl Peak {
    pub fn watch() -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        let watcher = std::thread::spawn(move || {
            let mut peak = anonymous();
            while !seen.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                peak = peak.max(anonymous());
            }
            peak
        });
        Self { done, watcher }
    }

    /// The peak, in KiB.
    pub fn stop(self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        self.watcher.join().expect("watcher")
    }
}

fn anonymous() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse().ok()).expect("RssAnon")
}
