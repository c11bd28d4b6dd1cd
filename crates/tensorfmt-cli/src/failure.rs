use std::io;
use std::path::Path;
use std::process::ExitCode;

use tensor_core::Kind;

use crate::output::escape;

/// Why a verb could not do what it was asked, with its exit code.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: u8,
    message: Option<String>,
    /// Whether nothing more can be printed: standard output failed.
    mute: bool,
}

/// The file is invalid, a checksum failed, or two files differ.
pub(crate) const INVALID: u8 = 1;
/// The command line makes no sense.
pub(crate) const USAGE: u8 = 2;
/// Reading or writing failed.
pub(crate) const IO: u8 = 3;
/// The file is well-formed, but can't be interpreted or held.
pub(crate) const UNSUPPORTED: u8 = 4;
impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: Some(message.into()),
            mute: false,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// An error while a file was written to standard output.
    pub(crate) fn stdout_of(error: &tensorfmt::Error) -> Self {
        let mut source: Option<&dyn std::error::Error> = Some(error);
        while let Some(inner) = source {
            match inner.downcast_ref::<io::Error>() {
                Some(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Self::stdout(error);
                }
                _ => source = inner.source(),
            }
        }
        Self::new(exit_code(error.kind()), format!("standard output: {error}"))
    }

    /// The same failure in other words.
    pub(crate) fn saying(mut self, message: String) -> Self {
        self.message = Some(message);
        self
    }

    /// An error of the operating system about `path`.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self {
            code: IO,
            message: Some(format!("{}: {error}", path.display())),
            mute: false,
        }
    }

    /// Standard output failed: a closed pipe ends quietly, all else is an error.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self {
                code: 0,
                message: None,
                mute: true,
            },
            _ => Self {
                code: IO,
                message: Some(format!("standard output: {error}")),
                mute: true,
            },
        }
    }

    /// An error about `path`, which is named unless the error does so itself.
    pub(crate) fn about(path: &Path, error: &tensorfmt::Error) -> Self {
        let text = match path.is_dir() && error.kind() == Kind::Io {
            true => format!("{error}{}", holds(path)),
            false => error.to_string(),
        };
        let named = text.starts_with(&format!("{}: ", path.display()));
        let message = if named {
            text
        } else {
            format!("{}: {text}", path.display())
        };
        Self {
            code: exit_code(error.kind()),
            message: Some(message),
            mute: false,
        }
    }

    /// What is wrong; empty where nothing should be printed.
    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    /// Whether the run ends with it, whatever else there were to do: nothing can be said any more, or a
    /// signal asks to stop.
    pub(crate) fn ends_all(&self) -> bool {
        self.mute || self.code > UNSUPPORTED
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Says what is wrong on standard error and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if let Some(message) = &self.message {
            for line in message.lines() {
                complain(&escape(line));
            }
        }
        ExitCode::from(self.code)
    }
}

impl From<tensorfmt::Error> for Failure {
    fn from(error: tensorfmt::Error) -> Self {
        Self {
            code: exit_code(error.kind()),
            message: Some(error.to_string()),
            mute: false,
        }
    }
}

/// What can be opened of a folder, as the end of a sentence: sets first, since they name the rest.
fn holds(folder: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return String::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| tensorfmt::Format::from_path(name).is_some())
        .collect();
    names.sort_by_key(|name| (!name.ends_with(".json"), name.clone()));
    match names.as_slice() {
        [] => String::new(),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                count => format!(" and {count} more tensor files"),
            };
            format!("; it holds {}{more}", folder.join(first).display())
        }
    }
}

/// The exit code of a kind of error.
pub(crate) fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Unsupported => UNSUPPORTED,
        Kind::Build | Kind::Usage => USAGE,
        Kind::Io => IO,
        Kind::Cancelled => crate::signals::exit_code(),
        _ => INVALID,
    }
}

/// A line on standard error; a failure to write it is ignored, since there is no other place to report it.
pub(crate) fn complain(line: &str) {
    crate::console::say(&format!("tensorfmt: {line}\n"));
}
