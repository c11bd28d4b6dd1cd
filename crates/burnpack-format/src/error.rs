use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use tensor_core::codec::{ReadError, TransferError};
use tensor_core::{
    At, DType, Failure, Kind, LimitExceeded, ShapeError, SinkError, SourceError, Truncated,
};

use crate::write::Compat;

/// Why a burnpack file could not be read, verified or written.
///
/// ```
/// use burnpack_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 10][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("burnpack.header.magic")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file breaks a rule of the format.
    #[error("invalid burnpack file: {}{rule} ({at})", Named(tensor))]
    Invalid {
        /// The rule.
        rule: Rule,
        /// Where; an entry is a tensor's place in the file's index, which is sorted by name.
        at: At,
        /// The tensor's name, where it is about one.
        tensor: Option<Box<str>>,
    },
    /// The file ends too early, or a length or range reaches past its end.
    #[error("invalid burnpack file: {0}")]
    Truncated(#[from] Truncated),
    /// The data of a tensor reaches past the end of the file.
    #[error("invalid burnpack file: tensor {tensor:?}: {truncated}")]
    TruncatedData {
        /// The tensor.
        tensor: Box<str>,
        /// What does not fit.
        truncated: Truncated,
    },
    /// The file is well-formed, but this crate can't interpret it.
    #[error("unsupported: {}{what} ({at})", Named(tensor))]
    Unsupported {
        /// What.
        what: Unsupported,
        /// Where.
        at: At,
        /// The tensor's name, where it is about one.
        tensor: Option<Box<str>>,
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

/// Prints `tensor "name": `, shortened, or nothing.
struct Named<'a>(&'a Option<Box<str>>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 120;
        match self.0 {
            None => Ok(()),
            Some(name) if name.chars().nth(MOST).is_none() => write!(f, "tensor {name:?}: "),
            Some(name) => {
                let start: String = name.chars().take(MOST).collect();
                write!(f, "tensor {start:?}...: ")
            }
        }
    }
}

/// A requirement of the format that a file breaks. [`id`](Rule::id)s are stable.
///
/// Sections are those of this project's account of the format, `docs/formats/burnpack.md`;
/// "RFC 8949" is CBOR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// "Header": the magic is always `NRUB`.
    Magic {
        /// The first four bytes.
        got: [u8; 4],
        /// What the file looks like instead; empty where it is like nothing known.
        hint: &'static str,
    },
    /// RFC 8949: the metadata ends within an item.
    CborEnd,
    /// RFC 8949: a head that has no meaning, or not here (reserved length, stray break, chunk of
    /// another type).
    CborSyntax,
    /// RFC 8949: text is UTF-8, each chunk by itself.
    CborUtf8,
    /// "Metadata": unknown values nest at most 128 deep, as in Burn's reader.
    CborDepth,
    /// "Metadata": one item fills the metadata.
    Trailing {
        /// Bytes after it.
        left: u64,
    },
    /// "Metadata": the item is a map.
    Top,
    /// "Metadata": keys are text.
    Key,
    /// "Metadata": keys of a map are unique, known or not.
    DuplicateKey,
    /// "Metadata": `tensors` is always there.
    MissingTensors,
    /// "Metadata": `tensors` is a map.
    Tensors,
    /// "Metadata": `metadata` is a map.
    Metadata,
    /// "Metadata": values of `metadata` are text.
    MetadataValue,
    /// "Metadata": keys of `metadata` are unique.
    MetadataDuplicate {
        /// The pair that has the key already.
        first: u64,
    },
    /// "Scalars": `scalars` is a map.
    Scalars,
    /// "Scalars": a scalar is a map of one entry, its kind.
    Scalar,
    /// "Scalars": the value is of the kind's type and range.
    ScalarValue {
        /// The kind.
        kind: &'static str,
    },
    /// "Scalars": names are unique.
    ScalarDuplicate {
        /// The scalar that has the name already.
        first: u64,
    },
    /// "Descriptor": a tensor's name is text.
    TensorName,
    /// "Descriptor": names are unique.
    TensorDuplicate {
        /// The tensor that has the name already.
        first: u64,
    },
    /// "Descriptor": a tensor is described by a map.
    Descriptor,
    /// "Descriptor": `dtype`, `shape` and `data_offsets` are always there.
    MissingKey {
        /// The one that is not.
        key: &'static str,
    },
    /// "Dtype": a text, or a map of one entry.
    DType,
    /// "Quantization": the scheme is a map with the keys and types of one generation.
    Scheme {
        /// The key that is missing or wrong.
        key: &'static str,
    },
    /// "Descriptor": `shape` is an array of unsigned integers.
    Shape,
    /// "Descriptor": the product of the dims fits 64 bits.
    ShapeOverflow,
    /// "Descriptor": the number of bytes fits 64 bits.
    SizeOverflow {
        /// Number of elements.
        elements: u64,
    },
    /// "Descriptor": `data_offsets` is an array of two unsigned integers.
    Offsets,
    /// "Descriptor": data ends no earlier than it starts.
    OffsetsOrder {
        /// The first offset.
        start: u64,
        /// The second.
        end: u64,
    },
    /// "Data": offsets in the file fit 64 bits.
    OffsetsOverflow {
        /// The larger offset.
        end: u64,
    },
    /// "Descriptor": data takes elements times element size.
    Size {
        /// What dtype and shape ask for.
        expected: u64,
        /// What the offsets span.
        got: u64,
    },
    /// "Descriptor": `param_id` is an unsigned 64-bit integer or null.
    ParamId,
    /// "Data": in the aligned layout data starts at a multiple of 256.
    Alignment {
        /// The first offset.
        start: u64,
    },
    /// "Data": each tensor's bytes are its own.
    Overlap {
        /// The tensor whose data it shares.
        other: u64,
    },
}

impl Rule {
    /// The rule's stable name, such as `burnpack.tensor.overlap`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Magic { .. } => "burnpack.header.magic",
            Self::CborEnd => "burnpack.cbor.end",
            Self::CborSyntax => "burnpack.cbor.syntax",
            Self::CborUtf8 => "burnpack.cbor.utf8",
            Self::CborDepth => "burnpack.cbor.depth",
            Self::Trailing { .. } => "burnpack.cbor.trailing",
            Self::Top => "burnpack.top",
            Self::Key => "burnpack.key",
            Self::DuplicateKey => "burnpack.key_duplicate",
            Self::MissingTensors => "burnpack.tensors.missing",
            Self::Tensors => "burnpack.tensors",
            Self::Metadata => "burnpack.metadata",
            Self::MetadataValue => "burnpack.metadata.value",
            Self::MetadataDuplicate { .. } => "burnpack.metadata.duplicate",
            Self::Scalars => "burnpack.scalars",
            Self::Scalar => "burnpack.scalar",
            Self::ScalarValue { .. } => "burnpack.scalar.value",
            Self::ScalarDuplicate { .. } => "burnpack.scalar.duplicate",
            Self::TensorName => "burnpack.tensor.name",
            Self::TensorDuplicate { .. } => "burnpack.tensor.duplicate",
            Self::Descriptor => "burnpack.tensor.descriptor",
            Self::MissingKey { .. } => "burnpack.tensor.missing_key",
            Self::DType => "burnpack.tensor.dtype",
            Self::Scheme { .. } => "burnpack.tensor.scheme",
            Self::Shape => "burnpack.tensor.shape",
            Self::ShapeOverflow => "burnpack.tensor.shape_overflow",
            Self::SizeOverflow { .. } => "burnpack.tensor.size_overflow",
            Self::Offsets => "burnpack.tensor.data_offsets",
            Self::OffsetsOrder { .. } => "burnpack.tensor.offsets_order",
            Self::OffsetsOverflow { .. } => "burnpack.tensor.offsets_overflow",
            Self::Size { .. } => "burnpack.tensor.size",
            Self::ParamId => "burnpack.tensor.param_id",
            Self::Alignment { .. } => "burnpack.tensor.alignment",
            Self::Overlap { .. } => "burnpack.tensor.overlap",
        }
    }
}

/// The id of [`Error::Truncated`], beside the [`Rule::id`]s.
pub const TRUNCATED: &str = "burnpack.truncated";

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Magic { got, hint } => {
                write!(
                    f,
                    "starts with bytes {got:02x?} instead of the magic \"NRUB\""
                )?;
                match hint {
                    "" => Ok(()),
                    hint => write!(f, "; {hint}"),
                }
            }
            Self::CborEnd => write!(f, "the metadata ends within a CBOR item"),
            Self::CborSyntax => write!(f, "not well-formed CBOR"),
            Self::CborUtf8 => write!(f, "text is not UTF-8"),
            Self::CborDepth => write!(f, "CBOR items nest more than 128 deep"),
            Self::Trailing { left } => {
                write!(f, "{left} bytes after the map, within the metadata size")
            }
            Self::Top => write!(f, "the metadata is not a map"),
            Self::Key => write!(f, "a map key is not text"),
            Self::DuplicateKey => write!(f, "a map key is used twice"),
            Self::MissingTensors => write!(f, "no key \"tensors\""),
            Self::Tensors => write!(f, "\"tensors\" is not a map"),
            Self::Metadata => write!(f, "\"metadata\" is not a map"),
            Self::MetadataValue => write!(f, "a value of \"metadata\" is not text"),
            Self::MetadataDuplicate { first } => {
                write!(f, "key of metadata pair {first} is used again")
            }
            Self::Scalars => write!(f, "\"scalars\" is not a map"),
            Self::Scalar => write!(f, "a scalar is not a map of one entry"),
            Self::ScalarValue { kind } => {
                write!(
                    f,
                    "the scalar's value is not of kind {kind}, or out of its range"
                )
            }
            Self::ScalarDuplicate { first } => {
                write!(f, "name of scalar {first} is used again")
            }
            Self::TensorName => write!(f, "a tensor's name is not text"),
            Self::TensorDuplicate { first } => {
                write!(f, "name of tensor {first} is used again")
            }
            Self::Descriptor => write!(f, "the descriptor is not a map"),
            Self::MissingKey { key } => write!(f, "the descriptor has no key {key:?}"),
            Self::DType => write!(f, "dtype is neither text nor a map of one entry"),
            Self::Scheme { key } => {
                write!(
                    f,
                    "key {key:?} of the quantization scheme is missing or malformed"
                )
            }
            Self::Shape => write!(f, "shape is not an array of unsigned integers"),
            Self::ShapeOverflow => write!(f, "the product of the dims does not fit 64 bits"),
            Self::SizeOverflow { elements } => {
                write!(f, "{elements} elements take more than 2^64-1 bytes")
            }
            Self::Offsets => write!(f, "data_offsets is not an array of two unsigned integers"),
            Self::OffsetsOrder { start, end } => {
                write!(f, "data ends at {end:#x}, before its start at {start:#x}")
            }
            Self::OffsetsOverflow { end } => {
                write!(f, "data offset {end:#x} lies beyond 64 bits in the file")
            }
            Self::Size { expected, got } => write!(
                f,
                "data of {got} bytes, but dtype and shape ask for {expected}"
            ),
            Self::ParamId => write!(f, "param_id is not an unsigned 64-bit integer"),
            Self::Alignment { start } => write!(
                f,
                "data offset {start:#x} is not a multiple of 256 in a file of the aligned layout"
            ),
            Self::Overlap { other } => write!(f, "shares data bytes with tensor {other}"),
        }
    }
}

/// What a well-formed file has that this crate can't interpret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// A version other than 1.
    Version {
        /// The header's version field.
        version: u16,
        /// What is known about it.
        about: &'static str,
    },
    /// An element type that no known release has.
    DType {
        /// Its name in the file, or a description of what it has of unknown parts.
        name: Box<str>,
    },
    /// A scalar of a kind that no known release has.
    Scalar {
        /// The kind's name in the file.
        kind: Box<str>,
    },
}

impl Unsupported {
    /// A stable name, such as `burnpack.version`.
    pub const fn id(&self) -> &'static str {
        match self {
            Self::Version { .. } => "burnpack.version",
            Self::DType { .. } => "burnpack.dtype",
            Self::Scalar { .. } => "burnpack.scalar_kind",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { version, about } => write!(
                f,
                "burnpack version {version}: {about}; this reader handles version 1"
            ),
            Self::DType { name } => write!(f, "unknown dtype {name:?}"),
            Self::Scalar { kind } => write!(f, "unknown kind of scalar {kind:?}"),
        }
    }
}

/// What the caller asked for that the format or the call can't do. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format has no name for the dtype.
    #[error("tensor {name:?}: a burnpack file can't hold {dtype}")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// A dtype as read from a file that this crate does not know.
    #[error("tensor {name:?}: dtype {code:?} is unknown, so it can't be written")]
    UnknownDType {
        /// The tensor.
        name: String,
        /// The dtype's name.
        code: String,
    },
    /// A scalar as read from a file that this crate does not know.
    #[error("scalar {name:?} of unknown kind {kind:?} can't be written")]
    UnknownScalar {
        /// The scalar.
        name: String,
        /// Its kind.
        kind: String,
    },
    /// The generation chosen with [`Builder::compat`](crate::Builder::compat) can't hold it.
    #[error("{item:?}: Burn {compat} has no {what}")]
    Compat {
        /// The tensor or scalar.
        item: String,
        /// The generation.
        compat: Compat,
        /// What it does not have.
        what: &'static str,
    },
    /// The format is row-major.
    #[error("tensor {name:?} is column-major; transpose it first (`Tensor::to_row_major`)")]
    Order {
        /// The tensor.
        name: String,
    },
    /// The name or key is taken.
    #[error("key {key:?} is used already")]
    Duplicate {
        /// The name or key.
        key: String,
    },
    /// No tensor of that name was added.
    #[error("no tensor {name:?} was added")]
    NoSuchTensor {
        /// The name.
        name: String,
    },
    /// Burn's readers would refuse the file; see [`WriteLimits`](crate::WriteLimits).
    #[error("{value} is above the limit of {max} that Burn reads; to write it, raise `{limit}`")]
    Limit {
        /// The name of the field of `WriteLimits`.
        limit: &'static str,
        /// What the file would have.
        value: u64,
        /// What the limit allows.
        max: u64,
    },
    /// The metadata would take more than 2^32-1 bytes, or the file more than 2^64-1.
    #[error("the file would be larger than its fields can say")]
    TooLarge,
    /// A tensor's data has another length than dtype and shape ask for.
    #[error("tensor {name:?}: {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// What does not fit.
        error: ShapeError,
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

    /// The stable name of the rule, of what is unsupported, of the limit, or `burnpack.truncated`.
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

    /// The name of the tensor that it is about.
    pub fn tensor(&self) -> Option<&str> {
        match self {
            Self::Invalid { tensor, .. } | Self::Unsupported { tensor, .. } => tensor.as_deref(),
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.tensor(),
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
