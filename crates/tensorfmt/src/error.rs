use std::path::{Path, PathBuf};

use tensor_core::codec::TransferError;
use tensor_core::{At, Failure, FileError, Kind, LimitExceeded, SinkError, SourceError};

use crate::Format;
use crate::convert::{PartFault, Refusal};

macro_rules! define {
    (
        ()
        $($Format:ident {
            about: $about:literal,
            feature: $feature:literal,
            codec: $krate:ident as $module:ident,
            endings: $endings:tt,
            mark: $mark:expr,
            set: $set:tt,
        })*
    ) => {
/// Why a tensor file could not be opened, read, verified, written or converted.
///
/// ```
/// use tensorfmt::{Archive, Kind};
///
/// let error = Archive::from_bytes(&b"MAG!\x01\0\0\0"[..]).unwrap_err(); // cut after 8 bytes
/// assert_eq!(error.kind(), Kind::Invalid);
/// assert!(!error.is_limit() && !error.is_unsupported());
/// println!("{:?} at {:?}, tensor {:?}", error.rule_id(), error.at(), error.tensor());
/// assert!(error.rule_id().is_some_and(|rule| rule.starts_with("mag.")));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    $(
        #[doc = concat!("A file of this format: ", $about, ".")]
        #[cfg(feature = $feature)]
        #[error(transparent)]
        $Format(#[from] $krate::Error),
    )*
    /// The file is of none of the formats.
    #[error("not a tensor file of a known format (starts with {head:02x?}){hint}")]
    UnknownFormat {
        /// The first bytes, at most 8.
        head: Vec<u8>,
        /// What it looks like, as the end of a sentence; may be empty.
        hint: String,
    },
    /// The format is known, but this build leaves it out.
    #[error("this build can't handle {0} files (feature `{0}` is off)")]
    Disabled(Format),
    /// There is no tensor of this name.
    #[error("no tensor named {name:?}{hint}")]
    NoSuchTensor {
        /// The name.
        name: String,
        /// The nearest names, as the end of a sentence; may be empty.
        hint: String,
    },
    /// The target can't hold some tensors.
    #[error("{}", refusals(.0))]
    Refused(Vec<Refusal>),
    /// The parts of a set can't be joined; where no fault is named, no part is there.
    #[error("{}", unjoined(path, faults))]
    Unjoined {
        /// The set.
        path: PathBuf,
        /// What is wrong with each part.
        faults: Vec<PartFault>,
    },
    /// An option makes no sense for this conversion.
    #[error("{0}")]
    Usage(String),
    /// What is to be done takes more memory than a limit of the caller's allows.
    #[error(transparent)]
    Limit(LimitExceeded),
    /// The operating system failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bytes could not be had.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The bytes could not be delivered.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The caller's progress function asked to stop.
    #[error("stopped on request")]
    Cancelled,
    /// An error in the file at `path`.
    #[error("{}: {error}", path.display())]
    InFile {
        /// The path that was opened.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<Error>,
    },
}

impl Error {
    /// What a codec says about itself, where the error is one's.
    fn of_codec(&self) -> Option<&dyn Failure> {
        match self {
            $(
                #[cfg(feature = $feature)]
                Self::$Format(error) => Some(error),
            )*
            _ => None,
        }
    }

    /// Says which tensor the error is about, unless it names one.
    ///
    /// ```
    /// use tensorfmt::{Error, SourceError};
    ///
    /// let error = Error::from(SourceError::Other("HTTP 503".into())).of_tensor("w");
    /// assert_eq!(error.to_string(), "tensor \"w\": HTTP 503");
    /// ```
    #[cold]
    #[must_use]
    pub fn of_tensor(self, name: &str) -> Self {
        match self {
            $(
                #[cfg(feature = $feature)]
                Self::$Format(error) => Self::$Format(error.of_tensor(name)),
            )*
            Self::Source(error) => Self::Source(error.of_tensor(name, None)),
            Self::InFile { path, error } => Self::InFile {
                path,
                error: Box::new(error.of_tensor(name)),
            },
            error => error,
        }
    }
}
    };
}

formats! { define! () }

fn refusals(refusals: &[Refusal]) -> String {
    let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn unjoined(path: &Path, faults: &[PartFault]) -> String {
    let path = path.display();
    if faults.is_empty() {
        return format!("{path}: none of its parts is there to be joined");
    }
    let lines: Vec<String> = faults
        .iter()
        .map(|fault| format!("{path}: {fault}"))
        .collect();
    lines.join("\n")
}

impl Error {
    /// Whose fault it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        if let Some(error) = self.of_codec() {
            return error.kind();
        }
        match self {
            Self::UnknownFormat { .. } | Self::Unjoined { .. } => Kind::Invalid,
            // Damage outranks what is merely not supported.
            Self::Refused(refused) if refused.iter().any(|refusal| refusal.damaged) => {
                Kind::Invalid
            }
            Self::NoSuchTensor { .. } | Self::Usage(_) => Kind::Build,
            Self::Limit(_) => Kind::Limit,
            Self::File(error) => error.kind(),
            Self::Source(error) => error.kind(),
            Self::Sink(_) => Kind::Io,
            Self::Cancelled => Kind::Cancelled,
            Self::InFile { error, .. } => error.kind(),
            _ => Kind::Unsupported,
        }
    }

    /// Whether the file is well-formed, but this build can't interpret or hold it.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.kind() == Kind::Unsupported
    }

    /// Whether the file exceeds a limit that the caller can raise.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.kind() == Kind::Limit
    }

    /// The stable name of the rule that the file breaks, or of what is unsupported.
    #[must_use]
    pub fn rule_id(&self) -> Option<&'static str> {
        if let Some(error) = self.of_codec() {
            return error.rule_id();
        }
        match self {
            Self::UnknownFormat { .. } => Some("format.unknown"),
            Self::Disabled(_) => Some("format.disabled"),
            Self::Source(error) => error.rule_id(),
            Self::InFile { error, .. } => error.rule_id(),
            _ => None,
        }
    }

    /// Where in the file it went wrong.
    #[must_use]
    pub fn at(&self) -> Option<At> {
        if let Some(error) = self.of_codec() {
            return error.at();
        }
        match self {
            Self::Source(error) => error.at(),
            Self::File(error) => error.at(),
            Self::Limit(limit) => Some(limit.at),
            Self::InFile { error, .. } => error.at(),
            _ => None,
        }
    }

    /// The tensor that it is about, where one is known.
    #[must_use]
    pub fn tensor(&self) -> Option<&str> {
        if let Some(error) = self.of_codec() {
            return error.tensor();
        }
        match self {
            Self::Source(error) => error.tensor(),
            Self::InFile { error, .. } => error.tensor(),
            _ => None,
        }
    }

    /// Says which file the error is about; errors that name their path already stay.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        match self {
            Self::File(_) | Self::InFile { .. } | Self::Source(SourceError::File(_)) => self,
            error if error.kind() == Kind::Io => error,
            error => Self::InFile {
                path: path.to_path_buf(),
                error: Box::new(error),
            },
        }
    }
}

impl From<TransferError> for Error {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Source(source) => Self::Source(source),
            TransferError::Sink(sink) => Self::Sink(sink),
            TransferError::Cancelled => Self::Cancelled,
        }
    }
}
