//! Ctrl-C and similar signals: work that would leave something half done is asked to stop, all else ends at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Which signal asked to stop, and whether the next one ends the process at once.
#[derive(Debug, Default)]
struct State {
    signal: Arc<AtomicUsize>,
    at_once: Arc<AtomicBool>,
}

static STATE: OnceLock<State> = OnceLock::new();

/// Takes care of the signals that end a program, but those that were ignored when it started: a program
/// under `nohup`, or in the background of a script, goes on.
pub(crate) fn install() {
    let state = STATE.get_or_init(State::default);
    state.at_once.store(true, Ordering::Relaxed);
    #[cfg(unix)]
    unix::install(state);
    #[cfg(not(unix))]
    {
        let (signal, at_once) = (state.signal.clone(), state.at_once.clone());
        // Without a handler the process ends as it always would.
        let _ = ctrlc::set_handler(move || {
            if at_once.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            signal.store(2, Ordering::Relaxed);
        });
    }
}

/// Whether a signal asked to stop.
pub(crate) fn stopped() -> bool {
    STATE
        .get()
        .is_some_and(|state| state.signal.load(Ordering::Relaxed) != 0)
}

/// The exit code of a run that a signal ended, as shells number it: 130 for Ctrl-C.
pub(crate) fn exit_code() -> u8 {
    let signal = STATE
        .get()
        .map_or(0, |state| state.signal.load(Ordering::Relaxed));
    match u8::try_from(signal) {
        Ok(signal @ 1..=127) => 128 + signal,
        _ => 130,
    }
}

/// While it lives, a first signal asks the work to stop, so that it can take away what is half done; the
/// second one ends the process.
pub(crate) struct Graceful;

impl Graceful {
    pub(crate) fn new() -> Self {
        if let Some(state) = STATE.get() {
            state.at_once.store(false, Ordering::Relaxed);
        }
        Self
    }
}

impl Drop for Graceful {
    fn drop(&mut self) {
        if let Some(state) = STATE.get() {
            state.at_once.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::ffi::c_int;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::flag;

    use super::State;

    pub(super) fn install(state: &State) {
        let ignored = ignored();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if is_in(ignored, signal) {
                continue;
            }
            let number = usize::try_from(signal).unwrap_or_default();
            // In this order: the flags are set after they were asked. One that can't be registered leaves
            // the signal as it was.
            let _ =
                flag::register_conditional_shutdown(signal, 128 + signal, state.at_once.clone())
                    .and_then(|_| flag::register_usize(signal, state.signal.clone(), number))
                    .and_then(|_| flag::register(signal, state.at_once.clone()));
        }
        // A write beyond `ulimit -f` becomes an error like a full disk, instead of the end of the process.
        if !is_in(ignored, SIGXFSZ) {
            let _ = flag::register(SIGXFSZ, std::sync::Arc::default());
        }
    }

    fn is_in(mask: u64, signal: c_int) -> bool {
        let bit = u32::try_from(signal - 1).unwrap_or_default();
        mask.checked_shr(bit).unwrap_or_default() & 1 == 1
    }

    /// The signals that the process was started with as ignored. Only Linux tells without code that
    /// changes them; elsewhere none is known.
    fn ignored() -> u64 {
        let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
            return 0;
        };
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0)
    }
}
