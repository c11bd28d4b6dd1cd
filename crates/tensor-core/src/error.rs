use alloc::boxed::Box;
use core::fmt;
#[cfg(feature = "std")]
use std::path::{Path, PathBuf};

use crate::DType;

/// Where in a file something is: an absolute byte offset, the tensor or record it belongs to
/// where there is one, and the field's name in the specification.
///
/// ```
/// use tensor_core::At;
///
/// let at = At::new(0x58, "shape").entry(3);
/// assert_eq!(at.to_string(), "byte 0x58, entry 3, field shape");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// Absolute byte offset from the start of the file.
    pub offset: u64,
    /// Ordinal of the record in its table, from 0.
    pub entry: Option<u64>,
    /// The specification's name of the field.
    pub field: &'static str,
}

impl At {
    /// A place outside of any record.
    #[must_use]
    pub const fn new(offset: u64, field: &'static str) -> Self {
        Self {
            offset,
            entry: None,
            field,
        }
    }

    /// Says that the place is part of record `entry`.
    #[must_use]
    pub const fn entry(mut self, entry: u64) -> Self {
        self.entry = Some(entry);
        self
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {:#x}", self.offset)?;
        if let Some(entry) = self.entry {
            write!(f, ", entry {entry}")?;
        }
        write!(f, ", field {}", self.field)
    }
}

/// Whose fault an error is; every codec's error has one.
///
/// ```
/// use tensor_core::Kind;
///
/// /// The exit code of a program that reads a file.
/// fn exit_code(kind: Kind) -> u8 {
///     match kind {
///         Kind::Invalid | Kind::Limit => 1,
///         Kind::Usage | Kind::Build => 2,
///         Kind::Unsupported => 4,
///         _ => 3,
///     }
/// }
/// assert_eq!((exit_code(Kind::Invalid), Kind::Invalid.name()), (1, "invalid"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The file breaks a rule of its format, or ends too early.
    Invalid,
    /// The file is well-formed, but this build can't interpret it.
    Unsupported,
    /// The file exceeds a limit that the caller can raise.
    Limit,
    /// The caller asked for something that the format can't hold.
    Build,
    /// The call does not fit what it is made on, such as a buffer of another length.
    Usage,
    /// The operating system or a caller's source failed.
    Io,
    /// The caller's progress function asked to stop.
    Cancelled,
}

impl Kind {
    /// A stable lower-case word for listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unsupported => "unsupported",
            Self::Limit => "limit",
            Self::Build => "build",
            Self::Usage => "usage",
            Self::Io => "io",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A field that reaches past the bytes that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("truncated: {needed} bytes needed, {available} there ({at})")]
pub struct Truncated {
    /// The field that does not fit.
    pub at: At,
    /// How many bytes the field takes.
    pub needed: u64,
    /// How many are left.
    pub available: u64,
}

/// A value above a caller-tunable limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{value} is above the limit of {max} ({at}); the file may be fine: raise `{limit}` of the reader's limits to accept it (--limit {limit}={value} on the command line)"
)]
pub struct LimitExceeded {
    /// The name of the field of `Limits`.
    pub limit: &'static str,
    /// What the file asks for.
    pub value: u64,
    /// What the limit allows.
    pub max: u64,
    /// Where the file asks for it.
    pub at: At,
}

impl LimitExceeded {
    /// Fails where `value` is above `max`, which is the limit's.
    ///
    /// ```
    /// use tensor_core::{At, LimitExceeded};
    ///
    /// let at = At::new(8, "count");
    /// assert!(LimitExceeded::check("max_tensor_count", 10, 10, at).is_ok());
    /// let error = LimitExceeded::check("max_tensor_count", 11, 10, at).unwrap_err();
    /// assert_eq!((error.limit, error.value, error.max), ("max_tensor_count", 11, 10));
    /// ```
    ///
    /// # Errors
    /// The limit, with both values and the place.
    pub const fn check(limit: &'static str, value: u64, max: u64, at: At) -> Result<(), Self> {
        if value <= max {
            return Ok(());
        }
        Err(Self {
            limit,
            value,
            max,
            at,
        })
    }
}

/// Dims whose element or byte count does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The product of the dims does not fit 64 bits.
    #[error("the product of the dims does not fit 64 bits")]
    Overflow,
    /// The number of bytes does not fit 64 bits.
    #[error("the number of bytes does not fit 64 bits")]
    ByteOverflow,
    /// The data's length is not what dtype and shape ask for.
    #[error("data of {got} bytes, but dtype and shape ask for {expected}")]
    DataLength {
        /// Elements times element size.
        expected: u64,
        /// What was given.
        got: u64,
    },
}

/// Why a tensor can't be viewed or read as a given element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CastError {
    /// The tensor's elements have another type.
    #[error("tensor of {got}, asked for {expected}")]
    DType {
        /// What was asked for.
        expected: DType,
        /// What the tensor holds.
        got: DType,
    },
    /// The bytes don't start at a multiple of the element's alignment; `to_vec` copies.
    #[error("data at address {address:#x} is not aligned to {align} bytes; `to_vec` copies it")]
    Alignment {
        /// Address of the first byte.
        address: usize,
        /// Alignment that the element type needs.
        align: usize,
    },
    /// The host is big-endian, the data little-endian; `to_vec` swaps.
    #[error("data is little-endian, this host is not; `to_vec` swaps it")]
    ByteOrder,
    /// The elements lie with the first dim fastest, which a slice would hide; `to_row_major` moves
    /// them, `reversed_view` shows them as they lie.
    #[error(
        "the elements are column-major; `to_row_major` moves them, `reversed_view` shows them as they lie"
    )]
    ColumnMajor,
    /// The dtype's values can't be interpreted ([`DType::Opaque`] and the pass-through kinds).
    #[error("values of {0} can't be interpreted")]
    Opaque(DType),
    /// The buffer for the result could not be allocated.
    #[error("no memory for {0} bytes")]
    OutOfMemory(u64),
}

/// What a call asks of an archive that it can't give, whatever its file holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The entry comes from another archive.
    #[error("the entry belongs to another archive")]
    ForeignEntry,
    /// The caller's buffer has another length than the tensor.
    #[error("tensor {tensor:?}: a buffer of {got} bytes for {expected}")]
    BufferLength {
        /// The tensor's name.
        tensor: Box<str>,
        /// The tensor's length.
        expected: u64,
        /// The buffer's.
        got: u64,
    },
    /// A typed view was asked for that the tensor can't give.
    #[error(transparent)]
    Cast(#[from] CastError),
}

impl UsageError {
    /// Fails where `out` is not as long as a tensor of `expected` bytes.
    ///
    /// # Errors
    /// [`UsageError::BufferLength`].
    ///
    /// ```
    /// use tensor_core::UsageError;
    ///
    /// assert!(UsageError::check_buffer("w", 8, &[0; 8]).is_ok());
    /// let error = UsageError::check_buffer("w", 8, &[0; 4]).unwrap_err();
    /// assert_eq!(error.to_string(), "tensor \"w\": a buffer of 4 bytes for 8");
    /// ```
    pub fn check_buffer(tensor: &str, expected: u64, out: &[u8]) -> Result<(), Self> {
        let got = out.len() as u64;
        if expected == got {
            return Ok(());
        }
        Err(Self::BufferLength {
            tensor: tensor.into(),
            expected,
            got,
        })
    }
}

/// What every codec's error can say about itself, whichever codec it is of: what a source over
/// decoded data fails with, so that its reader knows whose fault that is.
///
/// ```
/// use tensor_core::{At, Failure, Kind, SourceError};
///
/// #[derive(Debug)]
/// struct Torn;
///
/// impl std::fmt::Display for Torn {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         f.write_str("a page is torn")
///     }
/// }
/// impl std::error::Error for Torn {}
/// impl Failure for Torn {
///     fn kind(&self) -> Kind {
///         Kind::Invalid
///     }
///     fn rule_id(&self) -> Option<&'static str> {
///         Some("book.page")
///     }
///     fn at(&self) -> Option<At> {
///         None
///     }
/// }
///
/// let error = SourceError::failure(Torn);
/// assert_eq!((error.kind(), error.rule_id()), (Kind::Invalid, Some("book.page")));
/// ```
pub trait Failure: core::error::Error + Send + Sync {
    /// Whose fault it is.
    fn kind(&self) -> Kind;

    /// The stable name of the rule that is broken, of what is unsupported, or of the limit.
    fn rule_id(&self) -> Option<&'static str>;

    /// Where in the file it went wrong.
    fn at(&self) -> Option<At>;

    /// The tensor that it is about, where one is known.
    fn tensor(&self) -> Option<&str> {
        None
    }
}

/// Why bytes could not be had from a [`Source`](crate::Source).
///
/// A codec's error keeps what it says about itself:
///
/// ```
/// use tensor_core::{Bytes, Kind, Source, SourceError};
///
/// let bytes = Bytes::from_static(b"four");
/// let error = bytes.read(2..6).unwrap_err();
/// assert!(matches!(error, SourceError::OutOfBounds { size: 4, .. }));
/// assert_eq!(error.kind(), Kind::Io);
/// // Only a codec knows of rules, places and tensors.
/// assert_eq!((error.rule_id(), error.at(), error.tensor()), (None, None, None));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The range reaches past the source's size.
    #[error("bytes {offset:#x}..{end:#x} asked of a source of {size}")]
    OutOfBounds {
        /// First byte asked for.
        offset: u64,
        /// One past the last byte asked for; saturated.
        end: u64,
        /// The source's size.
        size: u64,
    },
    /// A range longer than this host can address.
    #[error("{0} bytes don't fit this host's address space")]
    TooLarge(u64),
    /// The buffer for the bytes could not be allocated.
    #[error("no memory for {0} bytes")]
    OutOfMemory(u64),
    /// The operating system failed.
    #[cfg(feature = "std")]
    #[error(transparent)]
    File(#[from] FileError),
    /// A codec could not decode what the bytes come from.
    #[error("{0}")]
    Codec(Box<dyn Failure>),
    /// The caller's progress function asked to stop.
    #[error("stopped on request")]
    Cancelled,
    /// A source of the caller's own failed.
    #[error(transparent)]
    Other(Box<dyn core::error::Error + Send + Sync>),
}

impl SourceError {
    /// A codec's error as that of a source over what it decodes.
    ///
    /// [`Failure`] has an example.
    pub fn failure(error: impl Failure + 'static) -> Self {
        Self::Codec(Box::new(error))
    }

    /// Says which tensor the error is about, whose bytes lie at `offset` of its file where that is known. One that
    /// names a tensor stays as it is.
    ///
    /// ```
    /// use tensor_core::{FileError, Kind, SourceError};
    ///
    /// let error = SourceError::Other("HTTP 503".into()).of_tensor("w", Some(0x40));
    /// assert_eq!((error.kind(), error.tensor()), (Kind::Io, Some("w")));
    /// assert_eq!(error.to_string(), "tensor \"w\": HTTP 503 (byte 0x40, field data)");
    ///
    /// let error = FileError::new("model.zt", std::io::Error::other("a sector can't be read"));
    /// let error = SourceError::from(error).of_tensor("w", Some(0x40));
    /// assert_eq!(
    ///     error.to_string(),
    ///     "model.zt: tensor \"w\": a sector can't be read (byte 0x40, field data)"
    /// );
    /// ```
    #[cold]
    #[must_use]
    pub fn of_tensor(self, name: &str, offset: Option<u64>) -> Self {
        #[cfg(feature = "std")]
        if let Self::File(error) = self {
            return Self::File(error.of_tensor(name, offset));
        }
        let is_bare = matches!(self, Self::Other(_) | Self::OutOfBounds { .. });
        if !is_bare && !matches!(&self, Self::Codec(error) if error.tensor().is_none()) {
            return self;
        }
        Self::failure(OfTensor {
            tensor: name.into(),
            at: self.at().or(offset.map(|offset| At::new(offset, "data"))),
            says_at: self.at().is_some(),
            error: self,
        })
    }

    /// Whose fault it is: a codec's word where there is one, else that of the system or the source.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Codec(error) => error.kind(),
            #[cfg(feature = "std")]
            Self::File(error) => error.kind(),
            Self::Cancelled => Kind::Cancelled,
            _ => Kind::Io,
        }
    }

    /// What a codec calls the broken rule, what is unsupported, or the limit.
    #[must_use]
    pub fn rule_id(&self) -> Option<&'static str> {
        match self {
            Self::Codec(error) => error.rule_id(),
            _ => None,
        }
    }

    /// Where a codec found it, in the file that it decodes, or where a file could not be read.
    #[must_use]
    pub fn at(&self) -> Option<At> {
        match self {
            Self::Codec(error) => error.at(),
            #[cfg(feature = "std")]
            Self::File(error) => error.at(),
            _ => None,
        }
    }

    /// The tensor that it is about, where one is known.
    #[must_use]
    pub fn tensor(&self) -> Option<&str> {
        match self {
            Self::Codec(error) => error.tensor(),
            #[cfg(feature = "std")]
            Self::File(error) => error.tensor(),
            _ => None,
        }
    }
}

/// What a source failed with while a tensor's bytes were asked of it.
#[derive(Debug)]
struct OfTensor {
    tensor: Box<str>,
    at: Option<At>,
    /// Whether the error's own text tells where.
    says_at: bool,
    error: SourceError,
}

impl fmt::Display for OfTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor {:?}: {}", self.tensor, self.error)?;
        match self.at.filter(|_| !self.says_at) {
            Some(at) => write!(f, " ({at})"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for OfTensor {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl Failure for OfTensor {
    fn kind(&self) -> Kind {
        self.error.kind()
    }

    fn rule_id(&self) -> Option<&'static str> {
        self.error.rule_id()
    }

    fn at(&self) -> Option<At> {
        self.at
    }

    fn tensor(&self) -> Option<&str> {
        Some(&self.tensor)
    }
}

/// An operating system error with the path it is about.
///
/// ```
/// use std::io;
/// use tensor_core::{FileError, Kind};
///
/// let error = FileError::new("model.mag", io::Error::new(io::ErrorKind::NotFound, "no such file"));
/// assert_eq!(error.kind(), Kind::Io);
/// assert_eq!(error.to_string(), "model.mag: no such file");
/// // Only what fails while bytes are read knows of places, and its reader of tensors.
/// assert_eq!((error.at(), error.tensor()), (None, None));
/// ```
#[cfg(feature = "std")]
#[derive(Debug, thiserror::Error)]
#[error("{}: {}{source}{}", path.display(), OfFile(tensor), In(self.at()))]
pub struct FileError {
    /// The file or folder.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: std::io::Error,
    /// The tensor whose bytes were asked for.
    tensor: Option<Box<str>>,
    /// Where in the file bytes were asked for.
    offset: Option<u64>,
}

#[cfg(feature = "std")]
impl FileError {
    /// The error about `path`.
    pub fn new(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self {
            path: path.as_ref().to_path_buf(),
            source,
            tensor: None,
            offset: None,
        }
    }

    /// Says where bytes were asked for.
    #[must_use]
    pub(crate) fn at_offset(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Says for which tensor, and where its bytes begin, unless there is a place or a tensor.
    #[must_use]
    fn of_tensor(mut self, name: &str, offset: Option<u64>) -> Self {
        self.tensor.get_or_insert_with(|| name.into());
        self.offset = self.offset.or(offset);
        self
    }

    /// Where in the file bytes could not be read.
    #[must_use]
    pub fn at(&self) -> Option<At> {
        self.offset.map(|offset| At::new(offset, "data"))
    }

    /// The tensor whose bytes were asked for, where it is known.
    #[must_use]
    pub fn tensor(&self) -> Option<&str> {
        self.tensor.as_deref()
    }

    /// The error of a caller who must not write to `path`.
    pub(crate) fn misuse(path: &Path, why: &'static str) -> Self {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, Misuse(why));
        Self::new(path, error)
    }

    /// Whose fault it is: the caller's where a file is there that must not be replaced, or would be
    /// written while it is read, else the system's.
    #[must_use]
    pub fn kind(&self) -> Kind {
        let misused = self
            .source
            .get_ref()
            .is_some_and(|inner| inner.is::<Misuse>());
        match misused || self.source.kind() == std::io::ErrorKind::AlreadyExists {
            true => Kind::Build,
            false => Kind::Io,
        }
    }
}

/// The tensor that a file is read for, as the start of a message.
#[cfg(feature = "std")]
struct OfFile<'a>(&'a Option<Box<str>>);

#[cfg(feature = "std")]
impl fmt::Display for OfFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(tensor) => write!(f, "tensor {tensor:?}: "),
            None => Ok(()),
        }
    }
}

/// A place as the end of a message.
#[cfg(feature = "std")]
struct In(Option<At>);

#[cfg(feature = "std")]
impl fmt::Display for In {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => write!(f, " ({at})"),
            None => Ok(()),
        }
    }
}

/// Why a file must not be written.
#[cfg(feature = "std")]
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Misuse(&'static str);

/// Why a [`Cursor`](crate::codec::Cursor) could not read a field. Exhaustive, so that every codec says
/// what becomes of each.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The field reaches past the end of what the cursor covers.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
}
