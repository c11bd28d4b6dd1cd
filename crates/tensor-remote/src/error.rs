use std::fmt;
use std::ops::Range;

use tensor_core::{At, Failure, Kind, SourceError};

/// What went wrong with an object: its address, the bytes that were asked for, and what happened.
///
/// The address is shown without its query and without a user, and what a server answers is not repeated
/// but for the code of the error, so that a message can be passed on.
///
/// ```
/// use tensor_core::Kind;
/// use tensor_remote::{Problem, Remote, RemoteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let at = format!("file://{}/gone.aero", folder.path().display());
/// let remote = Remote::new(RemoteOptions::default())?;
/// let error = remote.open(&at.parse()?).unwrap_err(); // as s3://models/gone.aero
/// assert!(error.is_not_found() && error.kind() == Kind::Io);
/// assert_eq!((error.problem(), error.range()), (&Problem::NotFound, None));
/// assert!(error.address().ends_with("/gone.aero"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RemoteError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    address: String,
    range: Option<Range<u64>>,
    problem: Problem,
    /// What else there is to say.
    note: Option<String>,
}

/// What happened to a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It is no address that can be read or written.
    #[error("no address of an object: {0}")]
    Address(String),
    /// A name inside an index leads out of its folder.
    #[error("{0:?} lies outside of its folder")]
    Outside(String),
    /// A setting that the store doesn't have.
    #[error("{0}")]
    Setting(String),
    /// This build has no access to such stores.
    #[error("this build can't reach it (feature `{0}` is off)")]
    Disabled(&'static str),
    /// A file or a redirect leads to a server that the user didn't name.
    #[error("leads to {origin}, which was not asked for: allow it by name to go there")]
    Origin {
        /// Scheme, host and port.
        origin: String,
    },
    /// A redirect that can't be followed.
    #[error("redirected {0}")]
    Redirect(String),
    /// There is no such object.
    #[error("no such object")]
    NotFound,
    /// The object is there already.
    #[error("is there already")]
    Exists,
    /// The server wants other credentials, or any.
    #[error("access denied: {0}")]
    Denied(String),
    /// The object is another one than when it was opened.
    #[error("has changed since it was opened: {0}")]
    Changed(String),
    /// The server sends whole objects only.
    #[error(
        "the server answers with the whole file where a part is asked for, so it can't be read in parts: \
         download it first"
    )]
    NoRanges,
    /// The answer is about other bytes than those asked for.
    #[error("the server answered with other bytes: {0}")]
    WrongRange(String),
    /// The answer ended early, each time it was asked for the rest.
    #[error("the answer ended after {got} of {expected} bytes")]
    Truncated {
        /// How many bytes there were to be.
        expected: u64,
        /// How many came.
        got: u64,
    },
    /// The answer goes on after the bytes that were asked for.
    #[error("the answer goes on after the {expected} bytes that were asked for")]
    TooLong {
        /// How many bytes there were to be.
        expected: u64,
    },
    /// A limit of [`RemoteOptions`](crate::RemoteOptions).
    #[error("{what} reached (limit `{limit}` of the remote options)")]
    Limit {
        /// The option.
        limit: &'static str,
        /// What was counted, and up to where.
        what: String,
    },
    /// The store can't do that.
    #[error("{0}")]
    Unsupported(String),
    /// The server or the way there failed, also when asked again.
    #[error("{0}")]
    Failed(String),
}

impl RemoteError {
    pub(crate) fn new(address: &impl fmt::Display, problem: Problem) -> Self {
        Self(Box::new(Inner {
            address: address.to_string(),
            range: None,
            problem,
            note: None,
        }))
    }

    pub(crate) fn at(mut self, range: Range<u64>) -> Self {
        self.0.range.get_or_insert(range);
        self
    }

    /// With what else there is to say.
    pub(crate) fn noting(mut self, note: String) -> Self {
        self.0.note = Some(note);
        self
    }

    /// What happened.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }

    /// The address, without secrets.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// The bytes that were asked for, where it was some.
    #[must_use]
    pub fn range(&self) -> Option<Range<u64>> {
        self.0.range.clone()
    }

    /// Whose fault it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match &self.0.problem {
            Problem::Address(_) | Problem::Exists | Problem::Setting(_) => Kind::Build,
            Problem::Outside(_) => Kind::Invalid,
            Problem::Disabled(_)
            | Problem::Origin { .. }
            | Problem::Redirect(_)
            | Problem::NoRanges
            | Problem::Unsupported(_) => Kind::Unsupported,
            Problem::Limit { .. } => Kind::Limit,
            _ => Kind::Io,
        }
    }

    /// Whether there is no such object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.0.problem == Problem::NotFound
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.0.address)?;
        if let Some(range) = &self.0.range {
            write!(f, "bytes {:#x}..{:#x}: ", range.start, range.end)?;
        }
        write!(f, "{}", self.0.problem)?;
        match &self.0.note {
            Some(note) => write!(f, " ({note})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for RemoteError {}

impl Failure for RemoteError {
    fn kind(&self) -> Kind {
        RemoteError::kind(self)
    }

    fn rule_id(&self) -> Option<&'static str> {
        Some(match &self.0.problem {
            Problem::Address(_) => "remote.address",
            Problem::Outside(_) => "remote.outside",
            Problem::Setting(_) => "remote.setting",
            Problem::Disabled(_) => "remote.disabled",
            Problem::Origin { .. } => "remote.origin",
            Problem::Redirect(_) => "remote.redirect",
            Problem::NotFound => "remote.not_found",
            Problem::Exists => "remote.exists",
            Problem::Denied(_) => "remote.denied",
            Problem::Changed(_) => "remote.changed",
            Problem::NoRanges => "remote.no_ranges",
            Problem::WrongRange(_) => "remote.wrong_range",
            Problem::Truncated { .. } => "remote.truncated",
            Problem::TooLong { .. } => "remote.too_long",
            Problem::Limit { limit, .. } => limit,
            Problem::Unsupported(_) => "remote.unsupported",
            Problem::Failed(_) => "remote.failed",
        })
    }

    fn at(&self) -> Option<At> {
        let range = self.0.range.as_ref()?;
        Some(At::new(range.start, "range"))
    }
}

impl From<RemoteError> for SourceError {
    fn from(error: RemoteError) -> Self {
        Self::failure(error)
    }
}

impl From<RemoteError> for std::io::Error {
    fn from(error: RemoteError) -> Self {
        let kind = match error.problem() {
            Problem::NotFound => std::io::ErrorKind::NotFound,
            Problem::Exists => std::io::ErrorKind::AlreadyExists,
            Problem::Denied(_) => std::io::ErrorKind::PermissionDenied,
            _ => std::io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
