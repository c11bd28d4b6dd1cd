use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use tensor_core::codec::{ReadError, TransferError};
use tensor_core::{
    At, CastError, DType, Failure, Kind, LimitExceeded, ShapeError, SinkError, SourceError,
    Truncated,
};

/// Why an AERO file could not be read, verified or written.
///
/// ```
/// use aero_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 96][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("aero.header.magic")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file breaks a rule of the format.
    #[error("invalid AERO file: {rule} ({at})")]
    Invalid {
        /// The rule.
        rule: Rule,
        /// Where.
        at: At,
    },
    /// [`Rule::TidxShard`]: the shard that has a tensor's data is not there.
    #[error("invalid AERO file: tensor {tensor:?}: there is no shard {shard_id} ({at})")]
    MissingShard {
        /// The tensor.
        tensor: Box<str>,
        /// The shard.
        shard_id: u64,
        /// Where.
        at: At,
    },
    /// The file ends too early, or a count or length reaches past its end.
    #[error("invalid AERO file: {0}")]
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
/// Names in quotes are sections of the format's page; AIP-0001, AIP-0002 and AEROSET are documents
/// beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// "File Header": the magic is `AERO`.
    Magic,
    /// "File Header": header_size is 96.
    HeaderSize,
    /// "File Header": file_flags must be 0.
    FileFlags,
    /// "File Header": the reserved bytes must be zeros.
    HeaderReserved,
    /// "File Layout": the TOC lies after the header and within the file.
    TocRange,
    /// "TOC Header": toc_length has room for all entries.
    TocLength,
    /// "String Table": it lies within the file, apart from header and TOC.
    StringTableRange,
    /// "TOC Entry": a name lies within the string table.
    NameRange,
    /// "String Table": names are UTF-8.
    NameUtf8,
    /// "TOC Entry": reserved0 must be 0.
    EntryReserved,
    /// "TOC Entry": a payload ends within 64 bits.
    ChunkRange,
    /// "File Layout": payloads lie apart from each other and from the control structures.
    ChunkOverlap,
    /// The same, as the reference writer breaks it when it adds tensor hashes: the index runs over the first weights.
    TidxOverrun,
    /// The TOC as the reference writer destroys it when it adds IHSH to a list of chunks.
    ControlDestroyed,
    /// "Chunk Types": fourcc and name together are unique.
    ChunkDuplicate,
    /// "Overview": weights are 16-byte aligned.
    ShardAlignment,
    /// "Chunk Types": weights, IHSH and PHSH are never compressed.
    ShardCompressed,
    /// "TOC Entry": without compression both lengths are equal.
    ChunkUlen,
    /// "Chunk Flags": the payload is one zstd frame of exactly chunk_ulen bytes.
    Zstd,
    /// "TOC Entry": blake3_256 is of the uncompressed bytes.
    ChunkHash,
    /// "TIDX Schema", "MMSG Schema": one well-formed MessagePack value.
    MessagePack,
    /// "TIDX Schema": a map with a list of maps under `tensors`.
    TidxShape,
    /// "TIDX Schema": name, dtype, shape, shard_id, data_off and data_len are all there.
    TidxMissing,
    /// "TIDX Schema": each field has its type and range.
    TidxField,
    /// "TIDX Schema": no key is there twice.
    TidxDuplicateKey,
    /// "TIDX Schema": a name is UTF-8 text.
    TidxName,
    /// "TIDX Schema": each tensor is there once.
    TidxDuplicate,
    /// "TIDX Schema": element and byte counts fit 64 bits.
    TidxOverflow,
    /// "TIDX Schema": data_len has room for all elements.
    TidxDataLen,
    /// "TIDX Schema": the data lies within its shard.
    TidxDataRange,
    /// "Multi-Shard": shard_id names a shard of the file.
    TidxShard,
    /// "Optional TIDX Fields": hash_b3 has 64 hexadecimal digits.
    TidxHash,
    /// "Optional TIDX Fields": hash_b3 is of the tensor's bytes.
    TensorHash,
    /// AIP-0001: one range from 0 over header, TOC and string table, and a digest of 32 bytes.
    Ihsh,
    /// AIP-0001: the digest is of the control structures without chunk hashes.
    IhshDigest,
    /// AIP-0002: the name of its shard, a page size, and a digest of 32 bytes for each page.
    Phsh,
    /// AIP-0002: each digest is of its page.
    PhshDigest,
    /// "Chunk Types": MJSN is JSON, at most 128 levels deep.
    Json,
    /// AEROSET: the index is JSON with format, parts and global_tidx.
    SetJson,
    /// AEROSET: a path names a file in the folder of the set.
    SetPath,
    /// AEROSET: each shard is in exactly one part.
    SetShard,
    /// AEROSET: every part is there.
    SetMissing,
    /// AEROSET: size_bytes and sha256 are those of the file.
    SetSize,
    /// AEROSET: index and part agree about a tensor.
    SetTensor,
    /// AEROSET: no key is there twice.
    SetDuplicateKey,
    /// AEROSET: size_bytes is a count, sha256 has 64 hexadecimal digits.
    SetField,
    /// AEROSET: a part holds the data of the tensors that it lists.
    SetData,
    /// AEROSET: the index lists every tensor of the parts, in the part that holds it.
    SetUnlisted,
}

impl Rule {
    /// The rule's stable name, such as `aero.chunk.blake3`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Magic => "aero.header.magic",
            Self::HeaderSize => "aero.header.header_size",
            Self::FileFlags => "aero.header.file_flags",
            Self::HeaderReserved => "aero.header.reserved",
            Self::TocRange => "aero.toc.range",
            Self::TocLength => "aero.toc.length",
            Self::StringTableRange => "aero.string_table.range",
            Self::NameRange => "aero.toc.name",
            Self::NameUtf8 => "aero.toc.name_utf8",
            Self::EntryReserved => "aero.toc.reserved",
            Self::ChunkRange => "aero.chunk.range",
            Self::ChunkOverlap => "aero.chunk.overlap",
            Self::TidxOverrun => "aero.chunk.tidx_overrun",
            Self::ControlDestroyed => "aero.toc.destroyed",
            Self::ChunkDuplicate => "aero.chunk.duplicate",
            Self::ShardAlignment => "aero.chunk.alignment",
            Self::ShardCompressed => "aero.chunk.compressed",
            Self::ChunkUlen => "aero.chunk.ulen",
            Self::Zstd => "aero.chunk.zstd",
            Self::ChunkHash => "aero.chunk.blake3",
            Self::MessagePack => "aero.msgpack",
            Self::TidxShape => "aero.tidx.structure",
            Self::TidxMissing => "aero.tidx.missing",
            Self::TidxField => "aero.tidx.field",
            Self::TidxDuplicateKey => "aero.tidx.duplicate_key",
            Self::TidxName => "aero.tidx.name",
            Self::TidxDuplicate => "aero.tidx.duplicate",
            Self::TidxOverflow => "aero.tidx.overflow",
            Self::TidxDataLen => "aero.tidx.data_len",
            Self::TidxDataRange => "aero.tidx.data_range",
            Self::TidxShard => "aero.tidx.shard",
            Self::TidxHash => "aero.tidx.hash_b3",
            Self::TensorHash => "aero.tensor.hash_b3",
            Self::Ihsh => "aero.ihsh.structure",
            Self::IhshDigest => "aero.ihsh.digest",
            Self::Phsh => "aero.phsh.structure",
            Self::PhshDigest => "aero.phsh.digest",
            Self::Json => "aero.json",
            Self::SetJson => "aero.set.json",
            Self::SetPath => "aero.set.path",
            Self::SetShard => "aero.set.shard",
            Self::SetMissing => "aero.set.missing",
            Self::SetSize => "aero.set.size",
            Self::SetTensor => "aero.set.tensor",
            Self::SetDuplicateKey => "aero.set.duplicate_key",
            Self::SetField => "aero.set.field",
            Self::SetData => "aero.set.data",
            Self::SetUnlisted => "aero.set.unlisted",
        }
    }
}

/// The id of [`Error::Truncated`], beside the [`Rule::id`]s.
pub const TRUNCATED: &str = "aero.truncated";

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Magic => "does not start with \"AERO\"",
            Self::HeaderSize => "header_size is not 96",
            Self::FileFlags => "file_flags is not 0",
            Self::HeaderReserved => "reserved header bytes are not zero",
            Self::TocRange => "the TOC overlaps the header or ends beyond 64 bits",
            Self::TocLength => "toc_length has no room for the entries",
            Self::StringTableRange => "the string table overlaps header or TOC, or ends beyond 64 bits",
            Self::NameRange => "the chunk name lies outside of the string table",
            Self::NameUtf8 => "the chunk name is not UTF-8",
            Self::EntryReserved => "reserved0 is not 0",
            Self::ChunkRange => "the payload ends beyond 64 bits",
            Self::ChunkOverlap => "the payload shares bytes with another chunk, the header, the TOC or the string table",
            Self::TidxOverrun => "the tensor index runs over the weights behind it, as the reference writer leaves it when tensor hashes are on; a salvaging reader can read the tensors that are whole",
            Self::ControlDestroyed => "all TOC entries but the first are zero, as the reference writer leaves them when it adds IHSH to a list of chunks",
            Self::ChunkDuplicate => "another chunk has the same fourcc and name",
            Self::ShardAlignment => "the weights do not start at a multiple of 16",
            Self::ShardCompressed => "a chunk that is never compressed has the zstd flag",
            Self::ChunkUlen => "chunk_ulen differs from chunk_length without compression",
            Self::Zstd => "the payload is not one whole zstd frame of chunk_ulen bytes",
            Self::ChunkHash => "the payload does not have the BLAKE3 hash that the TOC gives",
            Self::MessagePack => "not one well-formed MessagePack value",
            Self::TidxShape => "the index is not a map with a list of maps under \"tensors\"",
            Self::TidxMissing => "a tensor lacks one of name, dtype, shape, shard_id, data_off, data_len",
            Self::TidxField => "a field of a tensor has the wrong type or range",
            Self::TidxDuplicateKey => "a key is there twice",
            Self::TidxName => "the tensor name is no UTF-8 text",
            Self::TidxDuplicate => "another tensor has the same name",
            Self::TidxOverflow => "the shape has more elements or bytes than 64 bits count",
            Self::TidxDataLen => "data_len is less than dtype and shape ask for",
            Self::TidxDataRange => "the data ends beyond its shard",
            Self::TidxShard => "there is no shard of this shard_id",
            Self::TidxHash => "hash_b3 is not 64 hexadecimal digits",
            Self::TensorHash => "the tensor does not have the BLAKE3 hash that the index gives",
            Self::Ihsh => "IHSH is not one range over header, TOC and string table with a digest of 32 bytes",
            Self::IhshDigest => "header, TOC or string table were changed: the IHSH digest is another",
            Self::Phsh => "PHSH does not name its shard, or has not one digest of 32 bytes for each page",
            Self::PhshDigest => "a page of the shard does not have the hash that PHSH gives",
            Self::Json => "not JSON of at most 128 levels",
            Self::SetJson => "the set is not JSON with format AEROSET, parts and global_tidx",
            Self::SetPath => "a path of the set leaves its folder, or is none",
            Self::SetShard => "a shard of the set is in no part, or in two",
            Self::SetMissing => "a file of the set is missing",
            Self::SetSize => "a file of the set has another size or SHA-256 than the set says",
            Self::SetTensor => "index and part do not agree about a tensor",
            Self::SetDuplicateKey => "a key of the set is there twice",
            Self::SetField => "size_bytes is no count of bytes, or sha256 not 64 hexadecimal digits",
            Self::SetData => "the part lists the tensor but holds no data",
            Self::SetUnlisted => "the part holds a tensor that the index does not list there",
        })
    }
}

/// What a well-formed file has that this crate can't interpret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// Another version of the container, or of the set's JSON.
    Version {
        /// `AERO` or `AEROSET`.
        format: &'static str,
        /// The major number.
        major: u64,
        /// The minor number.
        minor: u64,
    },
    /// A dtype that 0.1 does not have.
    DType {
        /// The code.
        code: u16,
    },
    /// A hash algorithm of IHSH.
    IhshAlgorithm,
    /// The build has no zstd.
    Zstd,
    /// A part of a set that is not a local file.
    Remote {
        /// Its address.
        url: String,
    },
    /// An index without weights: those are in the parts of its set.
    InParts,
}

impl Unsupported {
    /// A stable name, such as `aero.version`.
    pub const fn id(&self) -> &'static str {
        match self {
            Self::Version { .. } => "aero.version",
            Self::DType { .. } => "aero.dtype",
            Self::IhshAlgorithm => "aero.ihsh.algo",
            Self::Zstd => "aero.zstd",
            Self::Remote { .. } => "aero.set.remote",
            Self::InParts => "aero.in_parts",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version {
                format,
                major,
                minor,
            } => {
                write!(
                    f,
                    "{format} version {major}.{minor}; this reader handles 0.1"
                )
            }
            Self::DType { code } => write!(f, "dtype {code:#x}; AERO 0.1 has 0 to 12 and 0x8000"),
            Self::IhshAlgorithm => write!(f, "an IHSH algorithm other than blake3-256"),
            Self::Zstd => write!(f, "a zstd chunk in a build without the feature `zstd`"),
            Self::Remote { url } => write!(f, "remote part {url:?}; nothing is fetched"),
            Self::InParts => write!(
                f,
                "the data is in the parts of the set that this is the index of"
            ),
        }
    }
}

/// What the caller asked for that the format or the call can't do. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format has no code for the dtype.
    #[error("tensor {name:?}: an AERO file can't hold {dtype}")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// More than 32 dims.
    #[error("tensor {name:?}: rank {rank}; an AERO file holds up to 32 dims")]
    Rank {
        /// The tensor.
        name: String,
        /// Its rank.
        rank: usize,
    },
    /// A dim above 2^63-1.
    #[error("tensor {name:?}: dim of {dim}; an AERO file holds dims of up to 2^63-1")]
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
    /// A name of more than 4096 bytes.
    #[error("tensor name {name:?}...: an AERO file holds names of up to 4096 bytes")]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// The name or key is taken.
    #[error("{name:?} is used already")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A key that the format itself writes.
    #[error("{key:?} is a field of the format itself")]
    Key {
        /// The key.
        key: String,
    },
    /// A value that neither JSON nor MessagePack holds.
    #[error("the value of {key:?} can't be held")]
    Value {
        /// Its key.
        key: String,
    },
    /// Metadata of so many values that a reader refuses it, unless its
    /// [`Limits::max_metadata_overhead`](crate::Limits::max_metadata_overhead) is raised.
    #[error("the metadata has too many values for the size of the file")]
    Metadata,
    /// A field of the tensor added last was given before any tensor.
    #[error("{field:?} is said of the tensor added last, and none was added yet")]
    NoTensor {
        /// The field.
        field: String,
    },
    /// An alignment, size or level that makes no sense.
    #[error("{option} of {value} makes no sense")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: i128,
    },
    /// More shards than a file may have chunks, or more bytes than 2^63-1.
    #[error("the file would have too many chunks or bytes")]
    TooLarge,
    /// A deferred tensor's source has another length than dtype and shape ask for.
    #[error("tensor {name:?}: {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// What does not fit.
        error: ShapeError,
    },
    /// A deferred tensor's bytes changed between the two times that they were read.
    #[error("{} changed between the two times that it was read", about(*.shard, .first, .last))]
    Changed {
        /// The shard, counted from 0.
        shard: usize,
        /// The first tensor that it may be.
        first: String,
        /// The last one: the same where there is no doubt, as with a hash for each tensor.
        last: String,
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

/// The data of one tensor, or of several in a row.
fn about(shard: usize, first: &str, last: &str) -> String {
    match first == last {
        true => alloc::format!("the data of tensor {first:?}"),
        false => alloc::format!("the data of shard {shard}, tensors {first:?} to {last:?},"),
    }
}

impl Error {
    /// Whose fault it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Invalid { .. } | Self::MissingShard { .. } | Self::Truncated(_) => Kind::Invalid,
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
            Self::MissingShard { .. } => Some(Rule::TidxShard),
            #[cfg(feature = "std")]
            Self::InFile { error, .. } => error.rule(),
            _ => None,
        }
    }

    /// The stable name of the rule, of what is unsupported, of the limit, or `aero.truncated`.
    pub fn rule_id(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { rule, .. } => Some(rule.id()),
            Self::MissingShard { .. } => Some(Rule::TidxShard.id()),
            Self::Truncated(_) => Some(TRUNCATED),
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
            Self::Invalid { at, .. }
            | Self::MissingShard { at, .. }
            | Self::Unsupported { at, .. } => Some(*at),
            Self::Truncated(truncated) => Some(truncated.at),
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
