#[cfg(feature = "std")]
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use tensor_core::{
    At, CastError, DType, Kind, LimitExceeded, ReadError, ShapeError, SinkError, SourceError,
    TransferError, Truncated,
};

/// Why a `.mag` file could not be read, verified or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file breaks a rule of the format.
    #[error("invalid mag file: {rule} ({at})")]
    Invalid {
        /// The rule.
        rule: Rule,
        /// Where.
        at: At,
    },
    /// The file ends too early, or a count or length reaches past its end.
    #[error("invalid mag file: {0}")]
    Truncated(#[from] Truncated),
    /// The data of a tensor reaches past the end of the file.
    #[error("invalid mag file: tensor {tensor:?}: {truncated}")]
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
/// Sections are those of the file format's page ("Limits", "File Header", "Metadata Record",
/// "Tensor Record", "Data Layout").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// "File Header": the magic is always `MAG!`.
    Magic {
        /// The first four bytes.
        got: [u8; 4],
    },
    /// "Version": versions start from 1.
    Version,
    /// "Data Layout": the checksum of the records; see [`Checksum`](crate::Checksum).
    Checksum {
        /// The header's field.
        stored: u32,
        /// CRC-32C as real files carry it.
        crc32c: u32,
        /// CRC-32/IEEE by the letter of the text.
        ieee: u32,
    },
    /// "File Header": `aux` is reserved and zero.
    HeaderAux {
        /// The field.
        got: u32,
    },
    /// "Metadata Record": bits of `aux` above the type are reserved and zero.
    MetaAux {
        /// The field.
        got: u32,
    },
    /// "Metadata Record": type 0 is never stored.
    MetaType,
    /// "Limits": a metadata key has 1 to 65535 bytes.
    MetaKeyLength {
        /// The field.
        got: u32,
    },
    /// "Metadata Record": keys are UTF-8.
    MetaKey,
    /// "File Format": metadata keys are unique.
    MetaDuplicate {
        /// The record that has the key already.
        first: u64,
    },
    /// "Tensor Record": bits of `aux` above dtype and rank are reserved and zero.
    TensorAux {
        /// The field.
        got: u32,
    },
    /// "Limits": the rank is at least 1.
    TensorRank,
    /// "Limits": a dim has 1 to 2^63-1 elements.
    TensorDim {
        /// The dim.
        got: u64,
    },
    /// "Tensor Record": `numel` is the product of the dims, at most 2^63-1.
    TensorNumel {
        /// The field.
        stored: u64,
        /// The product.
        product: u64,
    },
    /// "Limits": the product of the dims fits 64 bits.
    TensorShape,
    /// "Limits": a tensor has at most 2^63-1 bytes.
    TensorSize {
        /// Number of elements.
        numel: u64,
    },
    /// "Data Layout": data starts at a multiple of 64.
    TensorOffsetAlignment {
        /// The field.
        got: u64,
    },
    /// "Data Layout": data lies after the records and within 64 bits.
    TensorOffset {
        /// The field.
        got: u64,
        /// End of the records.
        records_end: u64,
    },
    /// "Data Layout": each tensor's buffer is its own.
    TensorOverlap {
        /// The record whose data it shares.
        other: u64,
    },
    /// "Limits": a tensor key has 1 to 65535 bytes.
    TensorKeyLength {
        /// The field.
        got: u32,
    },
    /// "Tensor Record": keys are UTF-8.
    TensorKey,
    /// "File Format": tensor keys are unique.
    TensorDuplicate {
        /// The record that has the key already.
        first: u64,
    },
}

impl Rule {
    /// The rule's stable name, such as `mag.header.checksum`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Magic { .. } => "mag.header.magic",
            Self::Version => "mag.header.version",
            Self::Checksum { .. } => "mag.header.checksum",
            Self::HeaderAux { .. } => "mag.header.aux",
            Self::MetaAux { .. } => "mag.meta.aux",
            Self::MetaType => "mag.meta.type",
            Self::MetaKeyLength { .. } => "mag.meta.key_length",
            Self::MetaKey => "mag.meta.key",
            Self::MetaDuplicate { .. } => "mag.meta.duplicate",
            Self::TensorAux { .. } => "mag.tensor.aux",
            Self::TensorRank => "mag.tensor.rank",
            Self::TensorDim { .. } => "mag.tensor.dim",
            Self::TensorNumel { .. } => "mag.tensor.numel",
            Self::TensorShape => "mag.tensor.shape",
            Self::TensorSize { .. } => "mag.tensor.size",
            Self::TensorOffsetAlignment { .. } => "mag.tensor.offset_alignment",
            Self::TensorOffset { .. } => "mag.tensor.offset",
            Self::TensorOverlap { .. } => "mag.tensor.overlap",
            Self::TensorKeyLength { .. } => "mag.tensor.key_length",
            Self::TensorKey => "mag.tensor.key",
            Self::TensorDuplicate { .. } => "mag.tensor.duplicate",
        }
    }
}

/// The id of [`Error::Truncated`], beside the [`Rule::id`]s.
pub const TRUNCATED: &str = "mag.truncated";

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Magic { got } => {
                write!(
                    f,
                    "starts with bytes {got:02x?} instead of the magic \"MAG!\""
                )
            }
            Self::Version => write!(f, "version 0; versions start from 1"),
            Self::Checksum {
                stored,
                crc32c,
                ieee,
            } => write!(
                f,
                "checksum {stored:#010x} stored, but the records give {crc32c:#010x} (CRC-32C) \
                 or {ieee:#010x} (CRC-32)"
            ),
            Self::HeaderAux { got } => write!(f, "reserved header field is {got:#x}, not 0"),
            Self::MetaAux { got } => write!(f, "reserved bits set in metadata aux {got:#010x}"),
            Self::MetaType => write!(f, "metadata type 0, which is never stored"),
            Self::MetaKeyLength { got } | Self::TensorKeyLength { got } => {
                write!(f, "key of {got} bytes; 1 to 65535 are allowed")
            }
            Self::MetaKey | Self::TensorKey => write!(f, "key is not UTF-8"),
            Self::MetaDuplicate { first } => {
                write!(f, "key of metadata record {first} is used again")
            }
            Self::TensorAux { got } => write!(f, "reserved bits set in tensor aux {got:#010x}"),
            Self::TensorRank => write!(f, "rank 0; a scalar has shape [1]"),
            Self::TensorDim { got } => write!(f, "dim of {got}; 1 to 2^63-1 are allowed"),
            Self::TensorNumel { stored, product } => {
                write!(
                    f,
                    "numel {stored}, but the dims give {product} (at most 2^63-1)"
                )
            }
            Self::TensorShape => write!(f, "the product of the dims does not fit 64 bits"),
            Self::TensorSize { numel } => {
                write!(f, "{numel} elements take more than 2^63-1 bytes")
            }
            Self::TensorOffsetAlignment { got } => {
                write!(f, "data offset {got:#x} is not a multiple of 64")
            }
            Self::TensorOffset { got, records_end } => write!(
                f,
                "data offset {got:#x} is before the end of the records at {records_end:#x}, or \
                 the data ends beyond 64 bits"
            ),
            Self::TensorOverlap { other } => {
                write!(f, "shares data bytes with tensor record {other}")
            }
            Self::TensorDuplicate { first } => {
                write!(f, "key of tensor record {first} is used again")
            }
        }
    }
}

/// What a well-formed file has that this crate can't interpret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// Another generation of the format; the text says which and who wrote it.
    Version {
        /// The header's version field.
        version: u32,
        /// What is known about it.
        about: &'static str,
    },
    /// An element type that version 1 does not have.
    DType {
        /// The code.
        code: u8,
    },
    /// A metadata type that version 1 does not have.
    MetaType {
        /// The code.
        code: u8,
    },
}

impl Unsupported {
    /// A stable name, such as `mag.version`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Version { .. } => "mag.version",
            Self::DType { .. } => "mag.dtype",
            Self::MetaType { .. } => "mag.meta.type",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Version { version, about } => {
                write!(
                    f,
                    "mag version {version}: {about}; this reader handles version 1"
                )
            }
            Self::DType { code } => {
                write!(
                    f,
                    "dtype code {code}; version 1 has 0 to 3 (f32, f16, bool, i32)"
                )
            }
            Self::MetaType { code } => {
                write!(f, "metadata type {code}; version 1 has 1 and 2 (i64, f64)")
            }
        }
    }
}

/// What the caller asked for that the format or the call can't do. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format has no code for the dtype.
    #[error("tensor {name:?}: a mag file can't hold {dtype} (only f32, f16, bool and i32)")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// The format needs 1 to 255 dims.
    #[error("tensor {name:?}: rank {rank}; a mag file holds 1 to 255 dims (a scalar as [1])")]
    Rank {
        /// The tensor.
        name: String,
        /// Its rank.
        rank: usize,
    },
    /// The format has no empty tensors and no dims above 2^63-1.
    #[error("tensor {name:?}: dim of {dim}; a mag file holds dims of 1 to 2^63-1")]
    Dim {
        /// The tensor.
        name: String,
        /// The dim.
        dim: u64,
    },
    /// The format is row-major.
    #[error("tensor {name:?} is column-major; transpose it first (`Tensor::to_row_major`)")]
    Order {
        /// The tensor.
        name: String,
    },
    /// A key is empty, too long or holds a NUL.
    #[error("key {key:?}: a mag file holds keys of 1 to 65535 bytes without NUL")]
    Key {
        /// The key, shortened.
        key: String,
    },
    /// The key is taken.
    #[error("key {key:?} is used already")]
    Duplicate {
        /// The key.
        key: String,
    },
    /// More than 2^32-1 records.
    #[error("more than 2^32-1 records")]
    TooMany,
    /// The file would not fit 63 bits.
    #[error("the file would take more than 2^63-1 bytes")]
    TooLarge,
    /// A deferred tensor's source has another length than dtype and shape ask for.
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
            Self::Source(_) | Self::Sink(_) => Kind::Io,
            #[cfg(feature = "std")]
            Self::File(_) => Kind::Io,
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

    /// The stable name of the rule, of what is unsupported, of the limit, or `mag.truncated`.
    pub fn rule_id(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { rule, .. } => Some(rule.id()),
            Self::Truncated(_) | Self::TruncatedData { .. } => Some(TRUNCATED),
            Self::Unsupported { what, .. } => Some(what.id()),
            Self::Limit(limit) => Some(limit.limit),
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
