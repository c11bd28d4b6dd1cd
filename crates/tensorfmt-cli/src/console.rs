//! Where answers and messages go: the streams of the process, or the memory of a program that runs a verb.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Called, from any thread, with the number of bytes just done and that of all; a break stops the work.
pub type Progress = Arc<dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync>;

/// What became of a verb that was run within another program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The exit code: 0 done, 1 invalid or different, 2 usage, 3 input or output, 4 unsupported.
    pub code: u8,
    /// What the program prints to standard output.
    pub stdout: Vec<u8>,
    /// What it says on standard error.
    pub stderr: Vec<u8>,
}

/// What a run on this thread gathers.
#[derive(Default)]
struct Captured {
    answer: Answer,
    progress: Option<Progress>,
}

thread_local! {
    static CAPTURED: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

/// Runs `work` on this thread, keeping all that it prints.
pub(crate) fn capture(progress: Option<Progress>, work: impl FnOnce() -> u8) -> Answer {
    /// Ends the capture, also where the work panics.
    struct End(Option<Captured>);
    impl Drop for End {
        fn drop(&mut self) {
            CAPTURED.set(self.0.take());
        }
    }
    let started = Captured {
        answer: Answer::default(),
        progress,
    };
    let _end = End(CAPTURED.replace(Some(started)));
    let code = work();
    let mut answer = CAPTURED.take().unwrap_or_default().answer;
    answer.code = code;
    answer
}

/// Whether what this thread prints is captured.
pub(crate) fn is_captured() -> bool {
    CAPTURED.with_borrow(Option::is_some)
}

/// What is called with the progress of this thread.
pub(crate) fn progress() -> Option<Progress> {
    CAPTURED.with_borrow(|captured| captured.as_ref()?.progress.clone())
}

/// Standard output, or what captures it on this thread.
pub(crate) fn stdout() -> Stdout {
    match is_captured() {
        true => Stdout::Captured,
        false => Stdout::Real(io::stdout()),
    }
}

/// Where answers go.
pub(crate) enum Stdout {
    Real(io::Stdout),
    Captured,
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Real(stdout) => stdout.write(bytes),
            Self::Captured => CAPTURED.with_borrow_mut(|captured| match captured {
                Some(captured) => captured.answer.stdout.write(bytes),
                // It was taken to another thread, or kept beyond the run.
                None => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
            }),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Real(stdout) => stdout.flush(),
            Self::Captured => Ok(()),
        }
    }
}

impl fmt::Debug for Stdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdout").finish_non_exhaustive()
    }
}

/// Text on standard error; a failure to write it is ignored, since there is no other place to report it.
pub(crate) fn say(text: &str) {
    let kept = CAPTURED.with_borrow_mut(|captured| match captured {
        Some(captured) => captured.answer.stderr.write_all(text.as_bytes()).is_ok(),
        None => false,
    });
    if !kept {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Prints help, a version, or what is wrong with the arguments, to where it belongs.
pub(crate) fn show(error: &clap::Error) -> io::Result<()> {
    if !is_captured() {
        return error.print().and_then(|()| io::stdout().flush());
    }
    let text = error.render().to_string();
    match error.use_stderr() {
        true => say(&text),
        false => stdout().write_all(text.as_bytes())?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_verb_prints_is_kept_and_the_next_one_starts_anew() {
        let answer = crate::run(["formats"], None);
        assert_eq!((answer.code, answer.stderr.len()), (0, 0));
        let text = String::from_utf8(answer.stdout).unwrap();
        assert!(text.contains("safetensors"), "{text}");
        let answer = crate::run(["inspect", "not there.mag"], None);
        assert_eq!((answer.code, answer.stdout.len()), (3, 0));
        let text = String::from_utf8(answer.stderr).unwrap();
        assert!(text.starts_with("tensorfmt: not there.mag: "), "{text}");
        let answer = crate::run(["inspekt"], None);
        assert_eq!((answer.code, answer.stdout.len()), (2, 0));
        assert!(
            String::from_utf8(answer.stderr)
                .unwrap()
                .contains("inspekt")
        );
        assert_eq!(crate::run(["--version"], None).code, 0);
        assert!(!is_captured());
    }

    #[test]
    fn progress_stops_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let tensor = tensorfmt::Tensor::from_slice(&[1u8; 4096], &[4096]).unwrap();
        let mut builder = tensorfmt::safetensors::Builder::new();
        builder.tensor("w", tensor).unwrap();
        builder.write_file(&path).unwrap();
        let path = path.to_str().unwrap();
        let seen = Arc::new(std::sync::Mutex::new((0, 0)));
        let told = Arc::clone(&seen);
        let progress: Progress = Arc::new(move |bytes, total| {
            let mut seen = told.lock().unwrap();
            *seen = (seen.0 + bytes, total);
            ControlFlow::Continue(())
        });
        assert_eq!(crate::run(["hash", path], Some(progress)).code, 0);
        assert_eq!(*seen.lock().unwrap(), (4096, 4096));
        let stop: Progress = Arc::new(|_, _| ControlFlow::Break(()));
        assert_eq!(crate::run(["hash", path], Some(stop)).code, 130);
    }
}
