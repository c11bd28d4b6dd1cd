use alloc::boxed::Box;
use core::fmt;
#[cfg(feature = "std")]
use std::path::{Path, PathBuf};

use super::{ReadError, TransferError};
#[cfg(feature = "std")]
use crate::FileError;
use crate::{
    At, CastError, Failure, Kind, LimitExceeded, SinkError, SourceError, Truncated, UsageError,
};

/// What the errors of a format say in its own words: its name, its rules, what its readers can't
/// interpret, and what can't be written to it.
pub trait Format: fmt::Debug + Send + Sync + 'static {
    /// The format's name in messages, such as `mag`.
    const NAME: &'static str;

    /// What [`Error::rule_id`] says of a file that ends too early, such as `mag.truncated`.
    const TRUNCATED: &'static str;

    /// The requirements of the format; declared by [`rules!`](super::rules).
    type Rule: Named;

    /// What a well-formed file can have that the codec does not interpret.
    type Unsupported: Named;

    /// What the caller asked for that the format can't hold.
    type Build: core::error::Error + Send + Sync + 'static;
}

/// Something that has a stable name beside its text; see [`rules!`](super::rules).
pub trait Named: fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// The stable name, such as `mag.header.magic`.
    fn id(&self) -> &'static str;
}

/// Why a file could not be read, verified or written: what every codec's `Error` is, with the
/// words of its format.
///
/// A codec names its rules, and has its error:
///
/// ```
/// use tensor_core::codec::{Format, rules};
/// use tensor_core::{At, Kind};
///
/// rules! {
///     /// What a file can break.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Rule {
///         /// It starts with `BOX!`.
///         #[rule("box.magic", "starts with {got:02x?} instead of \"BOX!\"")]
///         Magic {
///             /// The first bytes.
///             got: [u8; 4],
///         },
///     }
/// }
/// rules! {
///     /// What can't be interpreted.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Unsupported {
///         /// A version to come.
///         #[rule("box.version", "a later version")]
///         Version,
///     }
/// }
/// /// The format.
/// #[derive(Debug)]
/// pub struct Boxed;
/// impl Format for Boxed {
///     const NAME: &'static str = "box";
///     const TRUNCATED: &'static str = "box.truncated";
///     type Rule = Rule;
///     type Unsupported = Unsupported;
///     type Build = std::fmt::Error;
/// }
/// type Error = tensor_core::codec::Error<Boxed>;
///
/// let error = Error::invalid(Rule::Magic { got: *b"ZIP!" }, At::new(0, "magic"));
/// assert_eq!((error.kind(), error.rule_id()), (Kind::Invalid, Some("box.magic")));
/// assert_eq!(error.rule(), Some(&Rule::Magic { got: *b"ZIP!" }));
/// assert_eq!(error.at(), Some(At::new(0, "magic")));
///
/// let error = Error::unsupported(Unsupported::Version, At::new(4, "version"));
/// let error = error.of_tensor("w").in_file("model.box".as_ref());
/// assert_eq!((error.kind(), error.tensor()), (Kind::Unsupported, Some("w")));
/// assert!(error.to_string().starts_with("model.box: "));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<F: Format> {
    /// The file breaks a rule of the format.
    #[error("invalid {} file: {}{rule} ({at})", F::NAME, Of(tensor))]
    Invalid {
        /// The rule.
        rule: F::Rule,
        /// Where.
        at: At,
        /// The tensor that it is about, once its name is known.
        tensor: Option<Box<str>>,
    },
    /// The file ends too early, or a count, length or offset reaches past its end.
    #[error("invalid {} file: {}{truncated}", F::NAME, Of(tensor))]
    Truncated {
        /// What does not fit.
        truncated: Truncated,
        /// The tensor that it is about, once its name is known.
        tensor: Option<Box<str>>,
    },
    /// The file is well-formed, but this build can't interpret it.
    #[error("unsupported: {}{what} ({at})", Of(tensor))]
    Unsupported {
        /// What.
        what: F::Unsupported,
        /// Where.
        at: At,
        /// The tensor that it is about, once its name is known.
        tensor: Option<Box<str>>,
    },
    /// The file exceeds one of the reader's limits.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The caller asked for a file that the format can't be.
    #[error(transparent)]
    Build(F::Build),
    /// The call does not fit the archive: another archive's entry, or a buffer of another length.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The bytes could not be had.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The bytes could not be delivered.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A file could not be opened or created.
    #[cfg(feature = "std")]
    #[error(transparent)]
    File(#[from] FileError),
    /// The caller's progress function asked to stop.
    #[error("stopped on request")]
    Cancelled,
    /// An error in the file at `path`.
    #[cfg(feature = "std")]
    #[error("{}: {}", path.display(), Inner(error))]
    InFile {
        /// The path that was opened.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<Error<F>>,
    },
}

/// The tensor that a message is about, where there is one: the start of its name where that is long.
struct Of<'a>(&'a Option<Box<str>>);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_CHARS: usize = 120;
        let Some(tensor) = self.0 else { return Ok(()) };
        let end = tensor.char_indices().nth(MAX_CHARS).map(|(end, _)| end);
        match end.and_then(|end| tensor.get(..end)) {
            Some(start) => write!(f, "tensor {start:?}...: "),
            None => write!(f, "tensor {tensor:?}: "),
        }
    }
}

/// An error within an error: derived bounds would ask for themselves.
#[cfg(feature = "std")]
struct Inner<'a, F: Format>(&'a Error<F>);

#[cfg(feature = "std")]
impl<F: Format> fmt::Display for Inner<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<F: Format> Error<F> {
    /// The error of a file that breaks `rule`.
    #[cold]
    pub fn invalid(rule: F::Rule, at: At) -> Self {
        Self::Invalid {
            rule,
            at,
            tensor: None,
        }
    }

    /// The error of a file with something that this build can't interpret.
    #[cold]
    pub fn unsupported(what: F::Unsupported, at: At) -> Self {
        Self::Unsupported {
            what,
            at,
            tensor: None,
        }
    }

    /// Says which tensor the error is about, unless it names one.
    #[cold]
    #[must_use]
    pub fn of_tensor(mut self, name: &str) -> Self {
        match &mut self {
            Self::Invalid { tensor, .. }
            | Self::Truncated { tensor, .. }
            | Self::Unsupported { tensor, .. } => {
                tensor.get_or_insert_with(|| name.into());
                self
            }
            Self::Source(_) => match self {
                Self::Source(error) => Self::Source(error.of_tensor(name, None)),
                error => error,
            },
            _ => self,
        }
    }

    /// Says which file the error is about, unless it names a path.
    #[cfg(feature = "std")]
    #[cold]
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::File(_) | Self::InFile { .. } | Self::Source(SourceError::File(_)) => self,
            error => Self::InFile {
                path: path.to_path_buf(),
                error: Box::new(error),
            },
        }
    }

    /// Whose fault it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Invalid { .. } | Self::Truncated { .. } => Kind::Invalid,
            Self::Unsupported { .. } => Kind::Unsupported,
            Self::Limit(_) => Kind::Limit,
            Self::Build(_) => Kind::Build,
            Self::Usage(_) => Kind::Usage,
            Self::Source(error) => error.kind(),
            Self::Sink(_) => Kind::Io,
            #[cfg(feature = "std")]
            Self::File(error) => error.kind(),
            Self::Cancelled => Kind::Cancelled,
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.kind(),
        }
    }

    /// The rule that the file breaks, if that is what went wrong.
    pub fn rule(&self) -> Option<&F::Rule> {
        match self {
            Self::Invalid { rule, .. } => Some(rule),
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.rule(),
            _ => None,
        }
    }

    /// The stable name of the rule, of what is unsupported or of the limit, or
    /// [`Format::TRUNCATED`].
    pub fn rule_id(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { rule, .. } => Some(rule.id()),
            Self::Truncated { .. } => Some(F::TRUNCATED),
            Self::Unsupported { what, .. } => Some(what.id()),
            Self::Limit(limit) => Some(limit.limit),
            Self::Source(error) => error.rule_id(),
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.rule_id(),
            _ => None,
        }
    }

    /// Where in the file it went wrong.
    pub fn at(&self) -> Option<At> {
        match self {
            Self::Invalid { at, .. } | Self::Unsupported { at, .. } => Some(*at),
            Self::Truncated { truncated, .. } => Some(truncated.at),
            Self::Limit(limit) => Some(limit.at),
            Self::Source(error) => error.at(),
            #[cfg(feature = "std")]
            Self::File(error) => error.at(),
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.at(),
            _ => None,
        }
    }

    /// The tensor that it is about, where one is known.
    pub fn tensor(&self) -> Option<&str> {
        match self {
            Self::Invalid { tensor, .. }
            | Self::Truncated { tensor, .. }
            | Self::Unsupported { tensor, .. } => tensor.as_deref(),
            Self::Source(error) => error.tensor(),
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.tensor(),
            _ => None,
        }
    }
}

impl<F: Format> Failure for Error<F> {
    fn kind(&self) -> Kind {
        self.kind()
    }

    fn rule_id(&self) -> Option<&'static str> {
        self.rule_id()
    }

    fn at(&self) -> Option<At> {
        self.at()
    }

    fn tensor(&self) -> Option<&str> {
        self.tensor()
    }
}

impl<F: Format> From<Truncated> for Error<F> {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated {
            truncated,
            tensor: None,
        }
    }
}

impl<F: Format> From<CastError> for Error<F> {
    fn from(error: CastError) -> Self {
        Self::Usage(error.into())
    }
}

impl<F: Format> From<ReadError> for Error<F> {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Truncated(truncated) => truncated.into(),
            ReadError::Source(source) => Self::Source(source),
        }
    }
}

impl<F: Format> From<TransferError> for Error<F> {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Source(source) => Self::Source(source),
            TransferError::Sink(sink) => Self::Sink(sink),
            TransferError::Cancelled => Self::Cancelled,
        }
    }
}

/// Declares what a format asks of a file, a line of text beside each: the enum with its
/// documentation, a stable name by `id`, the list of all of them as `IDS`, and `Display`.
///
/// Texts are those of `write!`, over the variant's fields, which are references there.
///
/// ```
/// use tensor_core::codec::{Named, rules};
///
/// rules! {
///     /// A requirement of the format.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Rule {
///         /// "Header": the magic is always `TOY!`.
///         #[rule("toy.magic", "bytes {got:02x?} instead of the magic")]
///         Magic {
///             /// The first four bytes.
///             got: [u8; 4],
///         },
///         /// "Header": versions start from 1.
///         #[rule("toy.version", "version 0; versions start from {}", 1)]
///         Version,
///     }
/// }
///
/// assert_eq!(Rule::Version.to_string(), "version 0; versions start from 1");
/// assert_eq!(Named::id(&Rule::Magic { got: *b"TOY?" }), "toy.magic");
/// assert_eq!(Rule::IDS, ["toy.magic", "toy.version"]);
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __rules {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Rule:ident {$(
            $(#[doc = $doc:literal])*
            $(#[cfg($cfg:meta)])?
            #[rule($id:literal, $($text:tt)+)]
            $Name:ident $({$(
                $(#[doc = $field_doc:literal])*
                $field:ident: $Field:ty
            ),* $(,)?})?
        ),* $(,)?}
    ) => {
        $(#[$meta])*
        $vis enum $Rule {$(
            $(#[doc = $doc])*
            $(#[cfg($cfg)])?
            $Name $({$(
                $(#[doc = $field_doc])*
                $field: $Field
            ),*})?
        ),*}

        impl $Rule {
            /// The stable names of all of them, in the order of their declaration.
            pub const IDS: &'static [&'static str] = &[$($(#[cfg($cfg)])? $id),*];

            /// The stable name.
            pub const fn id(&self) -> &'static str {
                match self {$(
                    $(#[cfg($cfg)])?
                    Self::$Name { .. } => $id,
                )*}
            }
        }

        impl ::core::fmt::Display for $Rule {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self {$(
                    $(#[cfg($cfg)])?
                    #[allow(unused_variables)]
                    Self::$Name $({ $($field),* })? => ::core::write!(f, $($text)+),
                )*}
            }
        }

        impl $crate::codec::Named for $Rule {
            fn id(&self) -> &'static str {
                Self::id(self)
            }
        }
    };
}
