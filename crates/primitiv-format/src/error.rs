use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use tensor_core::codec::{ReadError, TransferError};
use tensor_core::{
    At, CastError, DType, Failure, Kind, LimitExceeded, ShapeError, SinkError, SourceError,
    Truncated,
};

/// Why a primitiv file could not be read, verified or written.
///
/// ```
/// use primitiv_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 15][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("primitiv.type")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file breaks a rule of the format.
    #[error("invalid primitiv file: {rule} ({at})")]
    Invalid {
        /// The rule.
        rule: Rule,
        /// Where.
        at: At,
    },
    /// The file ends too early, or a count or length reaches past its end.
    #[error("invalid primitiv file: {0}")]
    Truncated(#[from] Truncated),
    /// The data of a tensor reaches past the end of the file.
    #[error("invalid primitiv file: tensor {tensor:?}: {truncated}")]
    TruncatedData {
        /// The tensor.
        tensor: Box<str>,
        /// What does not fit.
        truncated: Truncated,
    },
    /// The file is well-formed, but this crate can't interpret it.
    #[error("unsupported: {what} ({at})")]
    Unsupported {
        /// What.
        what: Unsupported,
        /// Where.
        at: At,
    },
    /// The file exceeds one of the reader's [`Limits`](crate::Limits).
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The caller asked for something that the format or the call can't do.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The bytes could not be had.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The bytes could not be delivered.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A file could not be opened or created.
    #[cfg(feature = "std")]
    #[error(transparent)]
    File(#[from] tensor_core::FileError),
    /// The caller's progress function asked to stop.
    #[error("stopped on request")]
    Cancelled,
    /// An error in the file at `path`.
    #[cfg(feature = "std")]
    #[error("{}: {error}", path.display())]
    InFile {
        /// The path that was opened.
        path: std::path::PathBuf,
        /// What is wrong with it.
        error: Box<Error>,
    },
}

/// A requirement of the format that a file breaks. [`id`](Rule::id)s are stable.
///
/// The sections are those of the format's page: "Types" and "File Format". Limits that the text
/// leaves open are those of the reference library, as docs/formats/primitiv.md lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// "Types": each value has one MessagePack type; a uint32 is `CE`, a float `CA`.
    Type {
        /// What the format has here.
        expected: &'static str,
        /// The first byte of what is there.
        got: u8,
    },
    /// "Types", Shape: at most 8 dims.
    Rank {
        /// Length of the array.
        got: u32,
    },
    /// "Types", Shape: no dim is 0.
    Dim,
    /// "Types", Shape: the batch is at least 1.
    Batch,
    /// "Types", Shape: dims and batch multiply to a 32-bit number.
    Volume,
    /// "Types", Tensor: the data has four bytes for each element.
    DataLength {
        /// What the shape asks for.
        expected: u64,
        /// Length of the bin.
        got: u64,
    },
    /// "Types", Shape: the batch of a parameter's value is 1.
    ValueBatch {
        /// The batch.
        got: u32,
    },
    /// "Types": names are UTF-8.
    Utf8,
    /// "Types", Model: an address has at least one part.
    EmptyPath,
    /// "Types", Model: each address is there once.
    DuplicatePath {
        /// The entry that has it already.
        first: u64,
    },
    /// "Types", Model: an address is a parameter's or a submodel's, not both.
    PathConflict {
        /// The entry that is a parameter at the start of this address.
        parameter: u64,
    },
    /// "Types", Parameter: each statistic is there once.
    DuplicateStat,
    /// "Types", Optimizer: each configuration is there once.
    DuplicateConfig,
    /// "File Format": nothing follows the object.
    TrailingBytes {
        /// How many bytes follow.
        count: u64,
    },
}

impl Rule {
    /// The rule's stable name, such as `primitiv.shape.rank`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Type { .. } => "primitiv.type",
            Self::Rank { .. } => "primitiv.shape.rank",
            Self::Dim => "primitiv.shape.dim",
            Self::Batch => "primitiv.shape.batch",
            Self::Volume => "primitiv.shape.volume",
            Self::DataLength { .. } => "primitiv.tensor.data_length",
            Self::ValueBatch { .. } => "primitiv.parameter.value_batch",
            Self::Utf8 => "primitiv.utf8",
            Self::EmptyPath => "primitiv.model.empty_path",
            Self::DuplicatePath { .. } => "primitiv.model.duplicate",
            Self::PathConflict { .. } => "primitiv.model.conflict",
            Self::DuplicateStat => "primitiv.parameter.duplicate",
            Self::DuplicateConfig => "primitiv.optimizer.duplicate",
            Self::TrailingBytes { .. } => "primitiv.trailing_bytes",
        }
    }
}

/// The id of [`Error::Truncated`], beside the [`Rule::id`]s.
pub const TRUNCATED: &str = "primitiv.truncated";

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Type { expected, got } => {
                write!(
                    f,
                    "a {expected} is due, but byte {got:#04x} starts something else"
                )?;
                if got == b'\r' {
                    write!(f, " (was the file written or copied in text mode?)")?;
                }
                Ok(())
            }
            Self::Rank { got } => write!(f, "shape of {got} dims; at most 8 are allowed"),
            Self::Dim => write!(f, "dim of 0"),
            Self::Batch => write!(f, "batch of 0"),
            Self::Volume => write!(f, "dims and batch multiply to more than 2^32-1"),
            Self::DataLength { expected, got } => {
                write!(f, "data of {got} bytes, but the shape asks for {expected}")
            }
            Self::ValueBatch { got } => {
                write!(
                    f,
                    "batch of {got} in the value of a parameter; only 1 is allowed"
                )
            }
            Self::Utf8 => write!(f, "name is not UTF-8"),
            Self::EmptyPath => write!(f, "parameter without a name"),
            Self::DuplicatePath { first } => {
                write!(f, "the address of entry {first} is used again")
            }
            Self::PathConflict { parameter } => {
                write!(
                    f,
                    "address inside of entry {parameter}, which is a parameter, no submodel"
                )
            }
            Self::DuplicateStat => write!(f, "statistic is there twice"),
            Self::DuplicateConfig => write!(f, "configuration is there twice"),
            Self::TrailingBytes { count } => write!(f, "{count} bytes follow the object"),
        }
    }
}

/// What a well-formed file has that this crate can't interpret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// Another version of the format.
    Version {
        /// `ver_major`.
        major: u32,
        /// `ver_minor`.
        minor: u32,
    },
    /// An older generation, which is no MessagePack or has a shorter header.
    Era {
        /// Which, and what wrote it.
        about: &'static str,
    },
    /// A `data_type` that version 0.1 does not have.
    DataType {
        /// The field.
        code: u32,
    },
}

impl Unsupported {
    /// A stable name, such as `primitiv.version`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Version { .. } => "primitiv.version",
            Self::Era { .. } => "primitiv.era",
            Self::DataType { .. } => "primitiv.data_type",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Version { major, minor } => {
                write!(
                    f,
                    "primitiv file version {major}.{minor}; this reader handles 0.1"
                )
            }
            Self::Era { about } => write!(f, "{about}; this reader handles version 0.1"),
            Self::DataType { code } => {
                write!(
                    f,
                    "data type {code:#x}; version 0.1 has 0x0, 0x100, 0x200, 0x300 and 0x400"
                )
            }
        }
    }
}

/// What the caller asked for that the format or the call can't do. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format holds f32 only.
    #[error("tensor {name:?}: a primitiv file can't hold {dtype} (only f32)")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// The format has at most 8 dims, trailing ones not counted.
    #[error("tensor {name:?}: rank {rank}; a primitiv file holds up to 8 dims")]
    Rank {
        /// The tensor.
        name: String,
        /// Its rank.
        rank: usize,
    },
    /// The format has no empty tensors.
    #[error("tensor {name:?} has no elements; a primitiv file holds no empty tensor")]
    Empty {
        /// The tensor.
        name: String,
    },
    /// A tensor has at most 1,073,741,823 elements, or 2^32-1 bytes.
    #[error("tensor {name:?}: {elements} elements; a primitiv file holds up to 1073741823")]
    TooLarge {
        /// The tensor.
        name: String,
        /// Its elements.
        elements: u64,
    },
    /// The format is column-major.
    #[error("tensor {name:?} is row-major; transpose it, or reverse its dims, first")]
    Order {
        /// The tensor.
        name: String,
    },
    /// A deferred tensor's source has another length than its shape asks for.
    #[error("tensor {name:?}: {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// What does not fit.
        error: ShapeError,
    },
    /// The value of a parameter has no batch.
    #[error("tensor {name:?}: the value of a parameter can't have a batch of {batch}")]
    ValueBatch {
        /// The parameter.
        name: String,
        /// The batch.
        batch: u32,
    },
    /// An address has no parts, or a name is longer than 2^32-1 bytes.
    #[error("{name:?} is no name that a primitiv file can hold")]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// There are more parameters, statistics or configurations than 32 bits can count.
    #[error("more than 2^32-1 parameters, statistics or configurations")]
    TooMany,
    /// The address, statistic or configuration is there already.
    #[error("{name:?} is used already")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// One address is a parameter and the start of another address;
    /// [`Builder::split_names`](crate::Builder::split_names) keeps names whole.
    #[error(
        "{parameter:?} is a parameter and can't have {inner:?} in it; \
         with whole names, which are not split at dots, both can be held"
    )]
    PathConflict {
        /// The shorter address, joined.
        parameter: String,
        /// The longer one.
        inner: String,
    },
    /// The object holds a fixed number of tensors.
    #[error("a {object} file holds {expected}, not {got} tensors")]
    Count {
        /// The object.
        object: &'static str,
        /// What it holds.
        expected: &'static str,
        /// What it was given.
        got: usize,
    },
    /// A statistic without a parameter to belong to.
    #[error("statistic {name:?} comes before any parameter")]
    StatFirst {
        /// The statistic.
        name: String,
    },
    /// The entry comes from another archive.
    #[error("the entry belongs to another archive")]
    ForeignEntry,
    /// The caller's buffer has another length than the tensor.
    #[error("buffer of {got} bytes for a tensor of {expected}")]
    BufferLength {
        /// The tensor's length.
        expected: u64,
        /// The buffer's.
        got: u64,
    },
    /// A typed view was asked for that the tensor can't give.
    #[error(transparent)]
    Cast(#[from] CastError),
}

impl Error {
    /// Whose fault it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Invalid { .. } | Self::Truncated(_) | Self::TruncatedData { .. } => Kind::Invalid,
            Self::Unsupported { .. } => Kind::Unsupported,
            Self::Limit(_) => Kind::Limit,
            Self::Build(_) => Kind::Build,
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
    pub fn rule(&self) -> Option<Rule> {
        match self {
            Self::Invalid { rule, .. } => Some(*rule),
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.rule(),
            _ => None,
        }
    }

    /// The stable name of the rule, of what is unsupported, of the limit, or `primitiv.truncated`.
    pub fn rule_id(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { rule, .. } => Some(rule.id()),
            Self::Truncated(_) | Self::TruncatedData { .. } => Some(TRUNCATED),
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
            Self::Truncated(truncated) | Self::TruncatedData { truncated, .. } => {
                Some(truncated.at)
            }
            Self::Limit(limit) => Some(limit.at),
            Self::Source(error) => error.at(),
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.at(),
            _ => None,
        }
    }

    /// The same error about the file at `path`; errors that name their path already stay.
    #[cfg(feature = "std")]
    pub(crate) fn in_file(self, path: &std::path::Path) -> Self {
        match self {
            Self::File(_) | Self::InFile { .. } | Self::Source(SourceError::File(_)) => self,
            error => Self::InFile {
                path: path.to_path_buf(),
                error: Box::new(error),
            },
        }
    }
}

impl Failure for Error {
    fn kind(&self) -> Kind {
        self.kind()
    }

    fn rule_id(&self) -> Option<&'static str> {
        self.rule_id()
    }

    fn at(&self) -> Option<At> {
        self.at()
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Truncated(truncated) => Self::Truncated(truncated),
            ReadError::Source(source) => Self::Source(source),
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
