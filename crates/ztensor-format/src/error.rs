use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use tensor_core::{
    At, CastError, DType, Kind, LimitExceeded, ShapeError, SinkError, SourceError, TransferError,
    Truncated,
};

use crate::layout::Field;

/// Why a `.zt` file could not be read, verified or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file breaks a rule of the format.
    #[error("invalid ztensor file: {rule} ({at})")]
    Invalid {
        /// The rule.
        rule: Rule,
        /// Where.
        at: At,
    },
    /// The file ends too early.
    #[error("invalid ztensor file: {0}")]
    Truncated(#[from] Truncated),
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
    Source(SourceError),
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
/// Sections are those of the zTensor specification, version 0.1.0; rules named `Cbor` are those
/// of RFC 8949 for well-formed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Section 3.1: the first eight bytes are `ZTEN0001`.
    Magic {
        /// What they are.
        got: [u8; 8],
    },
    /// Section 3.3.2: the index is at least one byte and lies behind the magic.
    IndexSize {
        /// The field.
        got: u64,
        /// The most that the file has room for.
        max: u64,
    },
    /// Section 3.3.1: the index is one array.
    IndexType,
    /// Section 3.3.1: the index is a single item.
    IndexTrailing {
        /// Bytes behind the array.
        bytes: u64,
    },
    /// RFC 8949, 5.3.1: an item ends within the data.
    CborEnd,
    /// RFC 8949, 3: additional information 28 to 30 is reserved, and numbers and tags have a
    /// definite head.
    CborHead,
    /// RFC 8949, 3.2.1: a break ends an indefinite-length item, and in a map only after a value.
    CborBreak,
    /// RFC 8949, 3.2.3: chunks of a string are definite strings of the same type.
    CborChunk,
    /// RFC 8949, 3.3: of the simple values only false, true, null and undefined are assigned.
    CborSimple,
    /// RFC 8949, 3.1: text is UTF-8.
    CborUtf8,
    /// Section 3.3.1: each element of the index is a map.
    EntryType,
    /// Section 4: keys are text.
    EntryKey,
    /// RFC 8949, 5.6: a map has each key once.
    EntryDuplicateKey,
    /// Section 4: six fields are required.
    Missing {
        /// The one that is not there.
        field: Field,
    },
    /// Section 4: a field's value has its type.
    Type {
        /// The field.
        field: Field,
    },
    /// Section 4, `shape`: dims are unsigned integers of 64 bits.
    ShapeDim,
    /// Section 4, `shape`: elements and bytes can be counted with 64 bits.
    ShapeOverflow,
    /// Section 4, `name`: a name stands for one tensor.
    NameDuplicate {
        /// The entry that has the name already.
        first: u64,
    },
    /// Section 4, `offset`: a multiple of 64.
    OffsetAlignment {
        /// The field.
        got: u64,
    },
    /// Section 3.1: offsets account for the magic.
    OffsetMagic,
    /// Section 2: data lies before the index.
    DataRange {
        /// Start of the data.
        offset: u64,
        /// Its size.
        size: u64,
        /// Start of the index.
        index_start: u64,
    },
    /// Section 5.2: raw data has the bytes that dtype and shape ask for.
    SizeMismatch {
        /// The field.
        got: u64,
        /// Elements times element size.
        expected: u64,
    },
    /// Section 4, `data_endianness`: `little` or `big`.
    Endianness,
    /// Section 4, `checksum`: `crc32c:` has up to 32 bits, `sha256:` has 64 hexadecimal digits.
    ChecksumSyntax,
    /// Section 4, `checksum`: it is that of the data as stored.
    ChecksumMismatch,
    /// Section 5.2: compressed data is intact zstd frames.
    ZstdFrame {
        /// What the decoder says.
        message: &'static str,
    },
    /// Section 5.2: compressed data ends with the end of a frame.
    ZstdTruncated,
    /// Section 5.2: compressed data decodes to what dtype and shape ask for, and no more.
    ZstdLonger {
        /// Elements times element size.
        expected: u64,
    },
    /// Section 5.2: compressed data decodes to what dtype and shape ask for, and no less.
    ZstdShorter {
        /// Elements times element size.
        expected: u64,
        /// The most that the data can decode to.
        got: u64,
    },
}

impl Rule {
    /// The rule's stable name, such as `ztensor.offset.alignment`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Magic { .. } => "ztensor.magic",
            Self::IndexSize { .. } => "ztensor.index.size",
            Self::IndexType => "ztensor.index.type",
            Self::IndexTrailing { .. } => "ztensor.index.trailing",
            Self::CborEnd => "ztensor.cbor.end",
            Self::CborHead => "ztensor.cbor.head",
            Self::CborBreak => "ztensor.cbor.break",
            Self::CborChunk => "ztensor.cbor.chunk",
            Self::CborSimple => "ztensor.cbor.simple",
            Self::CborUtf8 => "ztensor.cbor.utf8",
            Self::EntryType => "ztensor.entry.type",
            Self::EntryKey => "ztensor.entry.key",
            Self::EntryDuplicateKey => "ztensor.entry.duplicate_key",
            Self::Missing { field } => match field {
                Field::Name => "ztensor.name.missing",
                Field::Offset => "ztensor.offset.missing",
                Field::Size => "ztensor.size.missing",
                Field::DType => "ztensor.dtype.missing",
                Field::Layout => "ztensor.layout.missing",
                Field::Shape => "ztensor.shape.missing",
                Field::Encoding => "ztensor.encoding.missing",
                Field::DataEndianness => "ztensor.data_endianness.missing",
                Field::Checksum => "ztensor.checksum.missing",
            },
            Self::Type { field } => match field {
                Field::Name => "ztensor.name.type",
                Field::Offset => "ztensor.offset.type",
                Field::Size => "ztensor.size.type",
                Field::DType => "ztensor.dtype.type",
                Field::Layout => "ztensor.layout.type",
                Field::Shape => "ztensor.shape.type",
                Field::Encoding => "ztensor.encoding.type",
                Field::DataEndianness => "ztensor.data_endianness.type",
                Field::Checksum => "ztensor.checksum.type",
            },
            Self::ShapeDim => "ztensor.shape.dim",
            Self::ShapeOverflow => "ztensor.shape.overflow",
            Self::NameDuplicate { .. } => "ztensor.name.duplicate",
            Self::OffsetAlignment { .. } => "ztensor.offset.alignment",
            Self::OffsetMagic => "ztensor.offset.magic",
            Self::DataRange { .. } => "ztensor.data.range",
            Self::SizeMismatch { .. } => "ztensor.size.mismatch",
            Self::Endianness => "ztensor.data_endianness.value",
            Self::ChecksumSyntax => "ztensor.checksum.syntax",
            Self::ChecksumMismatch => "ztensor.checksum.mismatch",
            Self::ZstdFrame { .. } => "ztensor.zstd.frame",
            Self::ZstdTruncated => "ztensor.zstd.truncated",
            Self::ZstdLonger { .. } => "ztensor.zstd.longer",
            Self::ZstdShorter { .. } => "ztensor.zstd.shorter",
        }
    }
}

/// The id of [`Error::Truncated`], beside the [`Rule::id`]s.
pub const TRUNCATED: &str = "ztensor.truncated";

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Magic { got } => write!(
                f,
                "starts with bytes {got:02x?} instead of the magic \"ZTEN0001\""
            ),
            Self::IndexSize { got, max } => {
                write!(
                    f,
                    "index of {got} bytes, but 1 to {max} fit; the file may have been cut short"
                )
            }
            Self::IndexType => write!(f, "the index is not an array"),
            Self::IndexTrailing { bytes } => {
                write!(f, "{bytes} bytes behind the array of the index")
            }
            Self::CborEnd => write!(f, "an item reaches past the end of the index"),
            Self::CborHead => write!(f, "a head that CBOR does not have"),
            Self::CborBreak => write!(f, "a break where a value must be"),
            Self::CborChunk => write!(f, "a chunk that is no definite string of the same type"),
            Self::CborSimple => write!(f, "a simple value that is not assigned"),
            Self::CborUtf8 => write!(f, "text is not UTF-8"),
            Self::EntryType => write!(f, "an entry of the index is not a map"),
            Self::EntryKey => write!(f, "a key is not text"),
            Self::EntryDuplicateKey => write!(f, "a key is there twice"),
            Self::Missing { field } => write!(f, "required field {field} is missing"),
            Self::Type { field } => write!(f, "{field} must be {}", field.expects()),
            Self::ShapeDim => write!(f, "a dim is no unsigned integer of 64 bits"),
            Self::ShapeOverflow => {
                write!(f, "elements or bytes of the shape don't fit 64 bits")
            }
            Self::NameDuplicate { first } => write!(f, "the name of entry {first} is used again"),
            Self::OffsetAlignment { got } => write!(f, "offset {got:#x} is not a multiple of 64"),
            Self::OffsetMagic => write!(f, "offset 0 is that of the magic"),
            Self::DataRange {
                offset,
                size,
                index_start,
            } => write!(
                f,
                "{size} bytes of data at {offset:#x} reach into the index at {index_start:#x}"
            ),
            Self::SizeMismatch { got, expected } => write!(
                f,
                "raw data of {got} bytes, but dtype and shape ask for {expected}"
            ),
            Self::Endianness => write!(f, "data_endianness is neither \"little\" nor \"big\""),
            Self::ChecksumSyntax => write!(f, "malformed checksum value"),
            Self::ChecksumMismatch => write!(f, "the checksum is not that of the data"),
            Self::ZstdFrame { message } => write!(f, "damaged zstd data: {message}"),
            Self::ZstdTruncated => write!(f, "the zstd data ends inside a frame"),
            Self::ZstdLonger { expected } => write!(
                f,
                "the zstd data decodes to more than the {expected} bytes that dtype and shape \
                 ask for"
            ),
            Self::ZstdShorter { expected, got } => write!(
                f,
                "the zstd data decodes to {got} bytes at most, but dtype and shape ask for \
                 {expected}"
            ),
        }
    }
}

/// What a well-formed file has that this crate can't interpret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// Another generation of the format.
    Version {
        /// Which, and how it was recognised.
        about: Box<str>,
    },
    /// An element type that version 0.1 does not have.
    DType {
        /// The field.
        name: Box<str>,
    },
    /// An encoding that version 0.1 does not have.
    Encoding {
        /// The field.
        name: Box<str>,
    },
    /// A layout other than `dense`.
    Layout {
        /// The field.
        name: Box<str>,
    },
    /// Compressed data said to be big-endian: whether that is meant is nowhere written, and a
    /// wrong guess would be silent.
    ZstdEndianness,
    /// Compressed data, but this build has no `zstd` feature.
    ZstdDisabled,
}

impl Unsupported {
    /// A stable name, such as `ztensor.version`.
    pub const fn id(&self) -> &'static str {
        match self {
            Self::Version { .. } => "ztensor.version",
            Self::DType { .. } => "ztensor.dtype",
            Self::Encoding { .. } => "ztensor.encoding",
            Self::Layout { .. } => "ztensor.layout",
            Self::ZstdEndianness => "ztensor.zstd.endianness",
            Self::ZstdDisabled => "ztensor.zstd.disabled",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { about } => write!(f, "{about}; this reader handles zTensor 0.1"),
            Self::DType { name } => write!(f, "dtype {name:?}, which zTensor 0.1 does not have"),
            Self::Encoding { name } => {
                write!(f, "encoding {name:?}; zTensor 0.1 has \"raw\" and \"zstd\"")
            }
            Self::Layout { name } => write!(f, "layout {name:?}: not a dense tensor"),
            Self::ZstdEndianness => write!(
                f,
                "big-endian data under zstd, to which the format gives no meaning"
            ),
            Self::ZstdDisabled => write!(f, "zstd data, but this build is without `zstd`"),
        }
    }
}

/// What the caller asked for that the format or the call can't do. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format has no name for the dtype.
    #[error("tensor {name:?}: a ztensor file can't hold {dtype}")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// The format is row-major.
    #[error("tensor {name:?} is column-major; transpose it first (`Tensor::to_row_major`)")]
    Order {
        /// The tensor.
        name: String,
    },
    /// The name is taken.
    #[error("name {name:?} is used already")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A custom field has the key of a standard one, or of another custom one.
    #[error("custom field {key:?}: the key is taken")]
    CustomKey {
        /// The key.
        key: String,
    },
    /// A custom field's value is not one well-formed CBOR item, or CBOR can't hold it.
    #[error("custom field {key:?}: {reason}")]
    CustomValue {
        /// The key.
        key: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Compressed big-endian data has no meaning in the format.
    #[error("tensor {name:?}: compressed data can't be big-endian")]
    ZstdEndianness {
        /// The tensor.
        name: String,
    },
    /// Compression was asked for, but this build has no `zstd` feature.
    #[error("tensor {name:?}: this build is without `zstd`")]
    ZstdDisabled {
        /// The tensor.
        name: String,
    },
    /// A level that zstd does not have.
    #[error("zstd has no level {level}")]
    ZstdLevel {
        /// The level.
        level: i32,
    },
    /// What the compressor says.
    #[error("tensor {name:?} can't be compressed: {message}")]
    Zstd {
        /// The tensor.
        name: String,
        /// Its words.
        message: &'static str,
    },
    /// How long a file with compressed tensors gets is known only when it is written.
    #[error("the length of a file with compressed tensors is not known before it is written")]
    EncodedLen,
    /// The file would not fit 63 bits.
    #[error("the file would take more than 2^63-1 bytes")]
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
    /// A typed view was asked for that the tensor can't give.
    #[error(transparent)]
    Cast(#[from] CastError),
}

impl Error {
    /// Whose fault it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Invalid { .. } | Self::Truncated(_) => Kind::Invalid,
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

    /// The stable name of the rule, of what is unsupported, of the limit, or `ztensor.truncated`.
    pub fn rule_id(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { rule, .. } => Some(rule.id()),
            Self::Truncated(_) => Some(TRUNCATED),
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
            Self::Truncated(truncated) => Some(truncated.at),
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

/// What a source of decoded data found wrong with its input is told as the error it is.
impl From<SourceError> for Error {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Other(other) => match other.downcast::<Self>() {
                Ok(error) => *error,
                Err(other) => Self::Source(SourceError::Other(other)),
            },
            error => Self::Source(error),
        }
    }
}

impl From<TransferError> for Error {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Source(source) => source.into(),
            TransferError::Sink(sink) => Self::Sink(sink),
            TransferError::Cancelled => Self::Cancelled,
        }
    }
}
