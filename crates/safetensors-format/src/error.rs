use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use tensor_core::codec::{ReadError, TransferError};
use tensor_core::{
    At, CastError, DType, Failure, Kind, LimitExceeded, ShapeError, SinkError, SourceError,
    Truncated,
};

/// Why a safetensors file could not be read, verified or written.
///
/// ```
/// use safetensors_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&b"\x02\0\0\0\0\0\0\0[]"[..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("safetensors.header.start")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(8)); // where
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file breaks a rule of the format.
    #[error(
        "invalid safetensors file: {}{rule}{} ({at})",
        Named(tensor),
        Other(other)
    )]
    Invalid {
        /// The rule.
        rule: Rule,
        /// Where; an entry is a tensor's place in the header.
        at: At,
        /// The tensor's name, where it is about one.
        tensor: Option<Box<str>>,
        /// The name of the other tensor, where it is about two.
        other: Option<Box<str>>,
    },
    /// The file ends too early, or its first field is too large.
    #[error("invalid safetensors file: {0}")]
    Truncated(#[from] Truncated),
    /// The data of a tensor reaches past the end of the file.
    #[error("invalid safetensors file: tensor {tensor:?}: {truncated}")]
    TruncatedData {
        /// The tensor.
        tensor: Box<str>,
        /// What does not fit.
        truncated: Truncated,
    },
    /// The file is well-formed, but this crate can't interpret it.
    #[error("unsupported: tensor {tensor:?}: {what} ({at})")]
    Unsupported {
        /// What.
        what: Unsupported,
        /// Where.
        at: At,
        /// The tensor's name.
        tensor: Box<str>,
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

/// A tensor's name before what is said about it.
struct Named<'a>(&'a Option<Box<str>>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "tensor {name:?}: "),
            None => Ok(()),
        }
    }
}

/// The other tensor's name behind it.
struct Other<'a>(&'a Option<Box<str>>);

impl fmt::Display for Other<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, " {name:?}"),
            None => Ok(()),
        }
    }
}

/// A requirement of the format that a file breaks. [`id`](Rule::id)s are stable.
///
/// The format's text is its README ("Format", "Notes"); where it is silent, the page of this project
/// says what is read and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// "Notes": the header begins with `{`.
    HeaderStart {
        /// Its first byte, `None` where it has none.
        got: Option<u8>,
    },
    /// "Format": the header is UTF-8.
    HeaderUtf8,
    /// "Format": the header is JSON.
    HeaderJson {
        /// What had to be there.
        expected: &'static str,
        /// The byte that is there, `None` at the end.
        got: Option<u8>,
    },
    /// "Format": text in JSON has no bare control characters, only known escapes, and surrogates
    /// in pairs.
    HeaderText,
    /// "Notes": the header may be filled up with spaces, and nothing else follows its object. Other
    /// white space of JSON is read as well.
    HeaderPadding {
        /// The byte that is there.
        got: u8,
    },
    /// "Notes": no name is there twice.
    NameTwice {
        /// The place of the first in the header.
        first: u64,
    },
    /// "Notes": `__metadata__` is there once.
    MetadataTwice,
    /// "Format": `__metadata__` maps text to text.
    MetadataType,
    /// "Notes": no key of `__metadata__` is there twice.
    MetadataKeyTwice,
    /// "Format": a tensor is an object with dtype, shape and offsets.
    TensorType,
    /// "Format": every tensor has all three fields.
    FieldMissing {
        /// The field.
        field: &'static str,
    },
    /// "Notes": no field is there twice.
    FieldTwice {
        /// The field.
        field: &'static str,
    },
    /// "Format": a dtype is text, a shape a list of numbers, offsets two numbers.
    FieldType {
        /// The field.
        field: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// "Format": dims and offsets are whole numbers from 0 to 2^64-1, written with digits alone.
    Number {
        /// The field.
        field: &'static str,
    },
    /// The product of the dims fits 64 bits at every step from the left, as readers multiply.
    Shape,
    /// "Format": a tensor does not end before it begins.
    Range {
        /// Where it begins.
        begin: u64,
        /// Where it ends.
        end: u64,
    },
    /// "Format": a tensor's bytes are what its dtype and shape ask for.
    Size {
        /// Bytes that dtype and shape ask for; saturated.
        expected: u64,
        /// Bytes that the offsets give.
        got: u64,
    },
    /// Elements narrower than a byte fill whole bytes.
    PartByte {
        /// Bits that dtype and shape ask for; saturated.
        bits: u64,
    },
    /// "Notes": the data has no holes.
    Hole {
        /// Where the hole begins, counted from the start of the data.
        begin: u64,
        /// Where it ends.
        end: u64,
    },
    /// "Notes": no two tensors share a byte of data, nor does an empty one lie inside another.
    Overlap {
        /// Where the other one ends, counted from the start of the data.
        end: u64,
    },
    /// "Notes": the tensors' data ends with the file.
    Trailing {
        /// Bytes that no tensor has.
        bytes: u64,
    },
    /// A file that git or a hub keeps elsewhere has to be fetched first.
    LfsPointer,
    /// The index of a set is UTF-8.
    IndexUtf8,
    /// The index of a set is JSON.
    IndexJson {
        /// What had to be there.
        expected: &'static str,
        /// The byte that is there, `None` at the end.
        got: Option<u8>,
    },
    /// Text in the JSON of an index is as in that of a header.
    IndexText,
    /// No key of an index is there twice.
    IndexTwice,
    /// The index of a set has an object `weight_map` of names to files.
    WeightMap,
    /// A shard is a file in the folder of the index or below it: a relative path with `/` between its
    /// parts, none of them empty, `.` or `..`, and not the index itself.
    ShardPath,
    /// Every shard that the index names is there, and a file.
    ShardMissing {
        /// How many tensors it should have.
        tensors: u64,
    },
    /// Every tensor of the index is in the shard that it names.
    SetTensor,
    /// Every tensor of the index is in the shard that it names, not in another one.
    SetShard,
    /// The index names every tensor of its shards.
    SetUnlisted,
}

/// The [`rule_id`](Error::rule_id) of a file that ends too early.
pub const TRUNCATED: &str = "safetensors.truncated";

impl Rule {
    /// A stable name, such as `safetensors.data.overlap`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::HeaderStart { .. } => "safetensors.header.start",
            Self::HeaderUtf8 => "safetensors.header.utf8",
            Self::HeaderJson { .. } => "safetensors.header.json",
            Self::HeaderText => "safetensors.header.text",
            Self::HeaderPadding { .. } => "safetensors.header.padding",
            Self::NameTwice { .. } => "safetensors.name.twice",
            Self::MetadataTwice => "safetensors.metadata.twice",
            Self::MetadataType => "safetensors.metadata.type",
            Self::MetadataKeyTwice => "safetensors.metadata.key_twice",
            Self::TensorType => "safetensors.tensor.type",
            Self::FieldMissing { .. } => "safetensors.field.missing",
            Self::FieldTwice { .. } => "safetensors.field.twice",
            Self::FieldType { .. } => "safetensors.field.type",
            Self::Number { .. } => "safetensors.field.number",
            Self::Shape => "safetensors.tensor.shape",
            Self::Range { .. } => "safetensors.tensor.range",
            Self::Size { .. } => "safetensors.tensor.size",
            Self::PartByte { .. } => "safetensors.tensor.part_byte",
            Self::Hole { .. } => "safetensors.data.hole",
            Self::Overlap { .. } => "safetensors.data.overlap",
            Self::Trailing { .. } => "safetensors.data.trailing",
            Self::LfsPointer => "safetensors.lfs_pointer",
            Self::IndexUtf8 => "safetensors.index.utf8",
            Self::IndexJson { .. } => "safetensors.index.json",
            Self::IndexText => "safetensors.index.text",
            Self::IndexTwice => "safetensors.index.twice",
            Self::WeightMap => "safetensors.index.weight_map",
            Self::ShardPath => "safetensors.index.path",
            Self::ShardMissing { .. } => "safetensors.set.shard_missing",
            Self::SetTensor => "safetensors.set.tensor_missing",
            Self::SetShard => "safetensors.set.tensor_elsewhere",
            Self::SetUnlisted => "safetensors.set.unlisted",
        }
    }
}

#[cfg(feature = "std")]
impl Rule {
    /// The same about the JSON of an index, which is read as that of a header is.
    pub(crate) fn of_index(self) -> Self {
        match self {
            Self::HeaderJson { expected, got } => Self::IndexJson { expected, got },
            Self::HeaderText => Self::IndexText,
            rule => rule,
        }
    }
}

/// A byte of the file, as itself where that can be read.
struct Byte(u8);

impl fmt::Display for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("NUL"),
            byte if byte.is_ascii_graphic() => write!(f, "`{}`", char::from(byte)),
            byte => write!(f, "byte {byte:#04x}"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HeaderStart { got: None } => {
                f.write_str("the header is empty; it begins with `{`")
            }
            Self::HeaderStart {
                got: Some(b' ' | b'\t' | b'\r' | b'\n'),
            } => f.write_str(
                "white space before the header's `{`; the format has it begin with that",
            ),
            Self::HeaderStart { got: Some(byte) } => {
                write!(f, "the header begins with {}, not with `{{`", Byte(byte))
            }
            Self::HeaderUtf8 => f.write_str("the header is not UTF-8"),
            Self::HeaderJson {
                expected,
                got: Some(byte),
            } => {
                write!(
                    f,
                    "the header is no JSON: {expected} expected, {} found",
                    Byte(byte)
                )
            }
            Self::HeaderJson {
                expected,
                got: None,
            } => {
                write!(
                    f,
                    "the header is no JSON: it ends where {expected} is expected"
                )
            }
            Self::HeaderText => f.write_str(
                "a bare control character, an unknown escape or half of a surrogate pair in a text",
            ),
            Self::HeaderPadding { got: 0 } => f.write_str(
                "the header is filled up with NUL bytes; the format has spaces there, and readers \
                 refuse anything else",
            ),
            Self::HeaderPadding { got } => {
                write!(
                    f,
                    "{} behind the header's object; only spaces may follow it",
                    Byte(got)
                )
            }
            Self::NameTwice { first } => write!(f, "the name is that of entry {first} already"),
            Self::MetadataTwice => f.write_str("__metadata__ is there twice"),
            Self::MetadataType => f.write_str("__metadata__ is not an object of text to text"),
            Self::MetadataKeyTwice => f.write_str("a key of __metadata__ is there twice"),
            Self::TensorType => f.write_str("not an object with dtype, shape and data_offsets"),
            Self::FieldMissing { field } => write!(f, "no {field}"),
            Self::FieldTwice { field } => write!(f, "{field} is there twice"),
            Self::FieldType { field, expected } => write!(f, "{field} is not {expected}"),
            Self::Number { field } => write!(
                f,
                "a number in {field} that is not written as a whole one from 0 to 2^64-1"
            ),
            Self::Shape => f.write_str("the product of the dims does not fit 64 bits"),
            Self::Range { begin, end } => {
                write!(f, "its data ends at {end}, before it begins at {begin}")
            }
            Self::Size { expected, got } => write!(
                f,
                "dtype and shape ask for {expected} bytes, data_offsets give {got}"
            ),
            Self::PartByte { bits } => {
                write!(
                    f,
                    "dtype and shape ask for {bits} bits, which are no whole bytes"
                )
            }
            Self::Hole { begin, end } => {
                write!(f, "the data from {begin} to {end} before it is no tensor's")
            }
            Self::Overlap { end } => {
                write!(f, "its data begins before {end}, the end of that of tensor")
            }
            Self::Trailing { bytes } => {
                write!(f, "{bytes} bytes at the end of the file are no tensor's")
            }
            Self::LfsPointer => f.write_str("a Git LFS pointer, not the file itself"),
            Self::IndexUtf8 => f.write_str("the index is not UTF-8"),
            Self::IndexJson {
                expected,
                got: Some(byte),
            } => write!(
                f,
                "the index is no JSON: {expected} expected, {} found",
                Byte(byte)
            ),
            Self::IndexJson {
                expected,
                got: None,
            } => write!(
                f,
                "the index is no JSON: it ends where {expected} is expected"
            ),
            Self::IndexText => f.write_str(
                "a bare control character, an unknown escape or half of a surrogate pair in a text \
                 of the index",
            ),
            Self::IndexTwice => f.write_str("the index has the key twice"),
            Self::WeightMap => f.write_str("the index has no weight_map of names to files"),
            Self::ShardPath => {
                f.write_str("its shard is no path to a file in the folder of the index or below:")
            }
            Self::ShardMissing { tensors: 1 } => {
                f.write_str("the shard is missing, or no file; one tensor should be in it")
            }
            Self::ShardMissing { tensors } => write!(
                f,
                "the shard is missing, or no file; {tensors} tensors should be in it"
            ),
            Self::SetTensor => f.write_str("the index has it in this shard, which doesn't"),
            Self::SetShard => f.write_str("the index has it in this shard; it is in"),
            Self::SetUnlisted => f.write_str("the index doesn't name it in this shard"),
        }
    }
}

/// What a well-formed file has that this crate can't interpret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// A dtype that the format did not have when this was written.
    DType {
        /// As the header spells it.
        name: Box<str>,
    },
}

impl Unsupported {
    /// A stable name: `safetensors.dtype`.
    pub const fn id(&self) -> &'static str {
        match self {
            Self::DType { .. } => "safetensors.dtype",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DType { name } => {
                write!(f, "unknown dtype {name:?}; its bytes can still be copied")
            }
        }
    }
}

/// What the caller asked for that the format or the call can't do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format has no name for the dtype.
    #[error("tensor {name:?}: a safetensors file can't hold {dtype}")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// Nobody knows the dtype; a tensor that has it can only be copied.
    #[error("tensor {name:?}: no dtype {code:?} is known")]
    UnknownDType {
        /// The tensor.
        name: String,
        /// The dtype's name.
        code: String,
    },
    /// The format is row-major.
    #[error("tensor {name:?} is column-major; transpose it first (`Tensor::to_row_major`)")]
    Order {
        /// The tensor.
        name: String,
    },
    /// The header has that name for something else.
    #[error("a tensor can't be named `__metadata__`: the name is the header's own")]
    Name,
    /// The name is taken.
    #[error("{key:?} is used already")]
    Duplicate {
        /// The name or key.
        key: String,
    },
    /// The header would be longer than readers accept.
    #[error("the header would take {len} bytes; readers accept {max}")]
    HeaderLength {
        /// Its length.
        len: u64,
        /// What is allowed.
        max: u64,
    },
    /// The file would not fit 64 bits.
    #[error("the file would take more than 2^64-1 bytes")]
    TooLarge,
    /// Readers multiply dims from the left and would not get to the zero.
    #[error("tensor {name:?}: the product of the first dims of {dims} does not fit 64 bits")]
    Dims {
        /// The tensor.
        name: String,
        /// Its dims.
        dims: String,
    },
    /// A tensor's data has another length than dtype and shape ask for.
    #[error("tensor {name:?}: {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// What does not fit.
        error: ShapeError,
    },
    /// Elements narrower than a byte that end within one.
    #[error("tensor {name:?}: {bits} bits are no whole bytes")]
    PartByte {
        /// The tensor.
        name: String,
        /// Bits that dtype and shape ask for.
        bits: u128,
    },
    /// A deferred tensor's source has another length now than when it was added.
    #[error("tensor {name:?} has {got} bytes now; it had {expected} when it was added")]
    Changed {
        /// The tensor.
        name: String,
        /// The length that it was added with.
        expected: u64,
        /// The length that it has.
        got: u64,
    },
    /// The index of a set has a name that says what it is.
    #[error("{path}: the index of a set is named STEM.safetensors.index.json")]
    SetName {
        /// The path that was given.
        path: String,
    },
    /// Keys were given before any tensor was added.
    #[error("no tensor was added yet that keys could be given to")]
    NoTensor,
    /// The entry comes from another archive.
    #[error("the entry belongs to another archive")]
    ForeignEntry,
    /// The caller's buffer has another length than the tensor.
    #[error("buffer of {got} bytes for tensor {name:?} of {expected}")]
    BufferLength {
        /// The tensor.
        name: String,
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

    /// The stable name of the rule, of what is unsupported, of the limit, or
    /// `safetensors.truncated`.
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

    /// The tensor that it is about, if it is about one of the file's.
    pub fn tensor(&self) -> Option<&str> {
        match self {
            Self::Invalid { tensor, .. } => tensor.as_deref(),
            Self::Unsupported { tensor, .. } | Self::TruncatedData { tensor, .. } => Some(tensor),
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.tensor(),
            _ => None,
        }
    }

    /// An error that is about no tensor.
    pub(crate) fn invalid(rule: Rule, at: At) -> Self {
        Self::Invalid {
            rule,
            at,
            tensor: None,
            other: None,
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
