use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use tensor_core::codec::{ReadError, TransferError};
use tensor_core::{
    At, CastError, DType, Failure, Kind, LimitExceeded, ShapeError, SinkError, SourceError,
    Truncated,
};

use crate::{DTypeCode, Generation};

/// Why a `.mag` file could not be read, verified or written.
///
/// ```
/// use mag_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 24][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("mag.header.magic")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
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
    /// "File Format": tensor keys are unique. In a snapshot 0.3.0 as well.
    TensorDuplicate {
        /// The record that has the key already.
        first: u64,
    },

    /// Snapshots 0.1.0 and 0.2.0: sections start with their markers.
    SnapshotMarker {
        /// `SRP!`, `MDT!`, `DSC!` or `BUF!`.
        expected: [u8; 4],
        /// The four bytes there.
        got: [u8; 4],
    },
    /// Snapshots 0.1.0 and 0.2.0: `aux` is reserved and zero.
    SnapshotAux {
        /// The field.
        got: u32,
    },
    /// Snapshots 0.1.0 and 0.2.0: no metadata, since nothing says how it would be stored.
    SnapshotMetadata {
        /// The field.
        got: u32,
    },
    /// Snapshots 0.1.0 and 0.2.0: the first string starts the pool.
    SnapshotPoolStart {
        /// Its offset.
        got: u32,
    },
    /// Snapshots 0.1.0 and 0.2.0: each offset of the pool is above the one before, so no string
    /// is empty.
    SnapshotPoolOffset {
        /// The offset before.
        previous: u32,
        /// The offset.
        got: u32,
    },
    /// Snapshots 0.1.0 and 0.2.0: strings are UTF-8.
    SnapshotPoolText,
    /// Snapshots 0.1.0 and 0.2.0: strings are unique.
    SnapshotPoolDuplicate {
        /// The string that is equal.
        first: u64,
    },
    /// Snapshots 0.1.0 and 0.2.0: a tensor's key is a string of the pool.
    SnapshotKey {
        /// The field.
        got: u32,
        /// How many strings there are.
        strings: u64,
    },
    /// Snapshots 0.1.0 and 0.2.0: no two tensors have the same key.
    SnapshotKeyTwice {
        /// The field.
        got: u32,
    },
    /// Snapshots 0.1.0 and 0.2.0: the last two bytes before `key_id` are reserved and zero.
    SnapshotTensorAux {
        /// The bytes.
        got: [u8; 2],
    },
    /// Snapshots 0.1.0 and 0.2.0: the rank is at most 63.
    SnapshotRank {
        /// The field.
        got: u8,
    },
    /// Snapshots 0.1.0 and 0.2.0: a dim is at most 2^63-1.
    SnapshotDim {
        /// The dim.
        got: u64,
    },
    /// Snapshots 0.1.0 and 0.2.0: the product of the dims, zeros aside, is at most 2^63-1.
    SnapshotShape,
    /// Snapshots 0.1.0 and 0.2.0: `numel` is the product of the dims.
    SnapshotNumel {
        /// The field.
        stored: u64,
        /// The product.
        product: u64,
    },
    /// Snapshots 0.1.0 and 0.2.0: a tensor has at most 2^63-1 bytes, and all end within 64 bits.
    SnapshotSize {
        /// Number of elements.
        numel: u64,
    },
    /// Snapshots 0.1.0 and 0.2.0: a tensor starts where the one before it ends, rounded up to 16
    /// in 0.2.0.
    SnapshotOffset {
        /// Where it has to start.
        expected: u64,
        /// The field.
        got: u64,
    },
    /// Snapshots 0.1.0 and 0.2.0: a tensor behind one of unknown size starts no earlier, and at a
    /// multiple of 16 in 0.2.0.
    SnapshotOffsetUnknown {
        /// Where the one before starts.
        least: u64,
        /// The field.
        got: u64,
    },
    /// Snapshots 0.1.0 and 0.2.0: the file ends with the last tensor.
    SnapshotLength {
        /// Where it has to end.
        expected: u64,
        /// Where it ends.
        got: u64,
    },
    /// Snapshots 0.1.0 and 0.2.0: CRC-32C of byte 20 up to `BUF!`.
    SnapshotChecksum {
        /// The header's field.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },

    /// Snapshot 0.3.0: the document lies behind the header.
    ManifestMetaOffset {
        /// The field.
        got: u64,
    },
    /// Snapshot 0.3.0: the document is not empty.
    ManifestMetaLen,
    /// Snapshot 0.3.0: the data starts at a multiple of 4096.
    ManifestDataAlignment {
        /// The field.
        got: u64,
    },
    /// Snapshot 0.3.0: the data starts behind the document.
    ManifestDataOffset {
        /// The field.
        got: u64,
        /// End of the document.
        document_end: u64,
    },
    /// Snapshot 0.3.0: the document is JSON as Python writes it.
    ManifestJson {
        /// What had to come.
        expected: &'static str,
    },
    /// Snapshot 0.3.0: nothing but white space follows the document's object.
    ManifestTrailing,
    /// Snapshot 0.3.0: the document is UTF-8.
    ManifestText,
    /// Snapshot 0.3.0: escaped surrogates come in pairs.
    ManifestSurrogate,
    /// Snapshot 0.3.0: the document nests at most 1000 levels deep.
    ManifestDepth,
    /// Snapshot 0.3.0: the document and each tensor have all of their keys.
    ManifestMissing {
        /// The first one that is not there.
        key: &'static str,
    },
    /// Snapshot 0.3.0: values have the types that their keys ask for.
    ManifestType {
        /// What had to come.
        expected: &'static str,
    },
    /// Snapshot 0.3.0: outside of the user's metadata no key is there twice.
    ManifestDuplicate,
    /// Snapshot 0.3.0: a tensor has at most 255 dims.
    ManifestRank,
    /// Snapshot 0.3.0: a dim is at most 2^63-1.
    ManifestDim,
    /// Snapshot 0.3.0: the product of the dims, zeros aside, is at most 2^63-1.
    ManifestShape,
    /// Snapshot 0.3.0: `dtype` is not the name of another code than `dtype_id`.
    ManifestDType {
        /// The code that decides.
        id: u32,
        /// The code of the name.
        named: u32,
    },
    /// Snapshot 0.3.0: `nbytes` is what shape and dtype ask for.
    ManifestNbytes {
        /// What they ask for; `u64::MAX` where that does not fit 64 bits.
        expected: u64,
        /// The field.
        got: u64,
    },
    /// Snapshot 0.3.0: a tensor lies within the data.
    ManifestRange {
        /// The field.
        offset: u64,
        /// Its length.
        nbytes: u64,
        /// The data's length.
        data_len: u64,
    },
    /// Snapshot 0.3.0: a tensor with bytes starts at a multiple of 4096.
    ManifestOffsetAlignment {
        /// The field.
        got: u64,
    },
    /// Snapshot 0.3.0: tensors share no byte.
    ManifestOverlap {
        /// The tensor whose data it shares.
        other: u64,
    },
    /// Snapshot 0.3.0: between tensors, before the first and behind the last there is less than
    /// a page.
    ManifestGap {
        /// The bytes that are nobody's.
        got: u64,
    },
    /// Snapshot 0.3.0: a tensor without bytes does not start inside another.
    ManifestInside {
        /// The other.
        other: u64,
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
            Self::SnapshotMarker { .. } => "mag.snapshot.marker",
            Self::SnapshotAux { .. } => "mag.snapshot.aux",
            Self::SnapshotMetadata { .. } => "mag.snapshot.metadata",
            Self::SnapshotPoolStart { .. } => "mag.snapshot.pool.start",
            Self::SnapshotPoolOffset { .. } => "mag.snapshot.pool.offset",
            Self::SnapshotPoolText => "mag.snapshot.pool.text",
            Self::SnapshotPoolDuplicate { .. } => "mag.snapshot.pool.duplicate",
            Self::SnapshotKey { .. } => "mag.snapshot.tensor.key",
            Self::SnapshotKeyTwice { .. } => "mag.snapshot.tensor.key_twice",
            Self::SnapshotTensorAux { .. } => "mag.snapshot.tensor.aux",
            Self::SnapshotRank { .. } => "mag.snapshot.tensor.rank",
            Self::SnapshotDim { .. } => "mag.snapshot.tensor.dim",
            Self::SnapshotShape => "mag.snapshot.tensor.shape",
            Self::SnapshotNumel { .. } => "mag.snapshot.tensor.numel",
            Self::SnapshotSize { .. } => "mag.snapshot.tensor.size",
            Self::SnapshotOffset { .. } => "mag.snapshot.tensor.offset",
            Self::SnapshotOffsetUnknown { .. } => "mag.snapshot.tensor.offset_unknown",
            Self::SnapshotLength { .. } => "mag.snapshot.length",
            Self::SnapshotChecksum { .. } => "mag.snapshot.checksum",
            Self::ManifestMetaOffset { .. } => "mag.manifest.meta_offset",
            Self::ManifestMetaLen => "mag.manifest.meta_len",
            Self::ManifestDataAlignment { .. } => "mag.manifest.data_offset_alignment",
            Self::ManifestDataOffset { .. } => "mag.manifest.data_offset",
            Self::ManifestJson { .. } => "mag.manifest.json",
            Self::ManifestTrailing => "mag.manifest.trailing",
            Self::ManifestText => "mag.manifest.text",
            Self::ManifestSurrogate => "mag.manifest.surrogate",
            Self::ManifestDepth => "mag.manifest.depth",
            Self::ManifestMissing { .. } => "mag.manifest.missing",
            Self::ManifestType { .. } => "mag.manifest.type",
            Self::ManifestDuplicate => "mag.manifest.duplicate",
            Self::ManifestRank => "mag.manifest.tensor.rank",
            Self::ManifestDim => "mag.manifest.tensor.dim",
            Self::ManifestShape => "mag.manifest.tensor.shape",
            Self::ManifestDType { .. } => "mag.manifest.tensor.dtype",
            Self::ManifestNbytes { .. } => "mag.manifest.tensor.nbytes",
            Self::ManifestRange { .. } => "mag.manifest.tensor.range",
            Self::ManifestOffsetAlignment { .. } => "mag.manifest.tensor.offset_alignment",
            Self::ManifestOverlap { .. } => "mag.manifest.tensor.overlap",
            Self::ManifestGap { .. } => "mag.manifest.tensor.gap",
            Self::ManifestInside { .. } => "mag.manifest.tensor.inside",
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
            Self::SnapshotMarker { .. }
            | Self::SnapshotAux { .. }
            | Self::SnapshotMetadata { .. }
            | Self::SnapshotPoolStart { .. }
            | Self::SnapshotPoolOffset { .. }
            | Self::SnapshotPoolText
            | Self::SnapshotPoolDuplicate { .. }
            | Self::SnapshotKey { .. }
            | Self::SnapshotKeyTwice { .. }
            | Self::SnapshotTensorAux { .. }
            | Self::SnapshotRank { .. }
            | Self::SnapshotDim { .. }
            | Self::SnapshotShape
            | Self::SnapshotNumel { .. }
            | Self::SnapshotSize { .. }
            | Self::SnapshotOffset { .. }
            | Self::SnapshotOffsetUnknown { .. }
            | Self::SnapshotLength { .. }
            | Self::SnapshotChecksum { .. } => self.fmt_snapshot(f),
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
            Self::ManifestMetaOffset { .. }
            | Self::ManifestMetaLen
            | Self::ManifestDataAlignment { .. }
            | Self::ManifestDataOffset { .. }
            | Self::ManifestJson { .. }
            | Self::ManifestTrailing
            | Self::ManifestText
            | Self::ManifestSurrogate
            | Self::ManifestDepth
            | Self::ManifestMissing { .. }
            | Self::ManifestType { .. }
            | Self::ManifestDuplicate
            | Self::ManifestRank
            | Self::ManifestDim
            | Self::ManifestShape
            | Self::ManifestDType { .. }
            | Self::ManifestNbytes { .. }
            | Self::ManifestRange { .. }
            | Self::ManifestOffsetAlignment { .. }
            | Self::ManifestOverlap { .. }
            | Self::ManifestGap { .. }
            | Self::ManifestInside { .. } => self.fmt_manifest(f),
        }
    }
}

/// What a shape that takes too much is told.
const TOO_MANY: &str = "the product of the dims, zeros aside, is above 2^63-1";

/// What leaves files whose offsets or length are too large.
const LEFTOVER: &str = "probably left by a crashed magnetron, which stored a view of a larger \
     tensor; such a file can't be repaired";

impl Rule {
    /// The rules of snapshots 0.1.0 and 0.2.0.
    fn fmt_snapshot(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SnapshotMarker { expected, got } => {
                let expected = core::str::from_utf8(&expected).unwrap_or_default();
                write!(f, "bytes {got:02x?} instead of the marker {expected:?}")
            }
            Self::SnapshotAux { got } => write!(f, "reserved header field is {got:#x}, not 0"),
            Self::SnapshotMetadata { got } => {
                write!(
                    f,
                    "{got} metadata records; no snapshot 0.1.0 or 0.2.0 has any"
                )
            }
            Self::SnapshotPoolStart { got } => {
                write!(f, "the first string starts at {got:#x}, not 0")
            }
            Self::SnapshotPoolOffset { previous, got } => {
                write!(
                    f,
                    "string offset {got:#x} is not above the one before, {previous:#x}"
                )
            }
            Self::SnapshotPoolText => write!(f, "string is not UTF-8"),
            Self::SnapshotPoolDuplicate { first } => {
                write!(f, "string {first} is there again")
            }
            Self::SnapshotKey { got, strings } => {
                write!(f, "key {got} of {strings} strings")
            }
            Self::SnapshotKeyTwice { got } => {
                write!(f, "key {got} is that of another tensor already")
            }
            Self::SnapshotTensorAux { got } => write!(f, "reserved bytes are {got:02x?}, not 0"),
            Self::SnapshotRank { got } => write!(f, "rank {got}; 0 to 63 are allowed"),
            Self::SnapshotDim { got } => write!(f, "dim of {got}; 0 to 2^63-1 are allowed"),
            Self::SnapshotShape => f.write_str(TOO_MANY),
            Self::SnapshotNumel { stored, product } => {
                write!(f, "numel {stored}, but the dims give {product}")
            }
            Self::SnapshotSize { numel } => {
                write!(
                    f,
                    "{numel} elements take more than 2^63-1 bytes or end beyond 64 bits"
                )
            }
            Self::SnapshotOffset { expected, got } if got > expected => {
                write!(
                    f,
                    "data offset {got:#x} instead of {expected:#x}; {LEFTOVER}"
                )
            }
            Self::SnapshotOffset { expected, got } => {
                write!(f, "data offset {got:#x} instead of {expected:#x}")
            }
            Self::SnapshotOffsetUnknown { least, got } => write!(
                f,
                "data offset {got:#x} is before {least:#x}, where the tensor before it starts, or \
                 no multiple of the alignment"
            ),
            Self::SnapshotLength { expected, got } if got > expected => write!(
                f,
                "{got} bytes, but the last tensor ends at {expected}; {LEFTOVER}"
            ),
            Self::SnapshotLength { expected, got } => {
                write!(f, "{got} bytes, but the last tensor ends at {expected}")
            }
            Self::SnapshotChecksum { stored, computed } => write!(
                f,
                "checksum {stored:#010x} stored, but the records give {computed:#010x} (CRC-32C)"
            ),
            // The ones above are told apart by `fmt`, which has to name every rule.
            _ => f.write_str(self.id()),
        }
    }

    /// The rules of snapshot 0.3.0.
    fn fmt_manifest(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ManifestMetaOffset { got } => {
                write!(f, "the document at {got:#x} overlaps the header")
            }
            Self::ManifestMetaLen => write!(f, "an empty document"),
            Self::ManifestDataAlignment { got } => {
                write!(f, "the data at {got:#x} is at no multiple of 4096")
            }
            Self::ManifestDataOffset { got, document_end } => write!(
                f,
                "the data at {got:#x} starts before the end of the document at {document_end:#x}"
            ),
            Self::ManifestJson { expected } => {
                write!(f, "the document is no JSON: {expected} had to be here")
            }
            Self::ManifestTrailing => write!(f, "text behind the document's object"),
            Self::ManifestText => write!(f, "string is not UTF-8"),
            Self::ManifestSurrogate => write!(f, "half of a surrogate pair in a string"),
            Self::ManifestDepth => write!(f, "the document nests deeper than 1000 levels"),
            Self::ManifestMissing { key } => write!(f, "no key {key:?}"),
            Self::ManifestType { expected } => {
                write!(f, "a value of another type than {expected}")
            }
            Self::ManifestDuplicate => write!(f, "a key that is there already"),
            Self::ManifestRank => write!(f, "more than 255 dims"),
            Self::ManifestDim => write!(f, "dim above 2^63-1"),
            Self::ManifestShape => f.write_str(TOO_MANY),
            Self::ManifestDType { id, named } => {
                write!(f, "dtype_id {id}, but the name of dtype_id {named}")
            }
            Self::ManifestNbytes { expected, got } => {
                write!(f, "nbytes {got}, but shape and dtype give {expected}")
            }
            Self::ManifestRange {
                offset,
                nbytes,
                data_len,
            } => write!(
                f,
                "{nbytes} bytes at {offset:#x} are not within the {data_len} bytes of data"
            ),
            Self::ManifestOffsetAlignment { got } => {
                write!(f, "data offset {got:#x} is not a multiple of 4096")
            }
            Self::ManifestOverlap { other } => write!(f, "shares data bytes with tensor {other}"),
            Self::ManifestGap { got } => {
                write!(
                    f,
                    "{got} bytes of data before it are no tensor's; a page is 4096"
                )
            }
            Self::ManifestInside { other } => {
                write!(f, "no bytes of data, but an offset inside tensor {other}")
            }
            // The ones above are told apart by `fmt`, which has to name every rule.
            _ => f.write_str(self.id()),
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
    /// An element type that the file's generation does not have.
    DType {
        /// The code.
        code: DTypeCode,
    },
    /// Big-endian data in a snapshot 0.3.0.
    BigEndian,
    /// Bits in the header of a snapshot 0.3.0 that only a newer writer can have set.
    ManifestAux {
        /// The field.
        got: u32,
    },
    /// A snapshot 0.3.0 with a `manifest_ver` other than 1.
    Manifest,
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
            Self::BigEndian => "mag.manifest.big_endian",
            Self::ManifestAux { .. } => "mag.manifest.aux",
            Self::Manifest => "mag.manifest.version",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Version { version, about } => {
                let handled = match cfg!(feature = "snapshots") {
                    true => "version 1 and the snapshots 0.1.0, 0.2.0 and 0.3.0",
                    false => "version 1",
                };
                write!(
                    f,
                    "mag version {version}: {about}; this reader handles {handled}"
                )
            }
            Self::DType { code } => {
                let generation = code.generation();
                let codes = match generation {
                    Generation::Version1 => "0 to 3 (f32, f16, bool, i32)",
                    Generation::Snapshot0_1 => "0 to 11",
                    Generation::Snapshot0_2 | Generation::Snapshot0_3 => "0 to 12",
                };
                write!(f, "{code}; {generation} has {codes}")
            }
            Self::BigEndian => write!(f, "big-endian data"),
            Self::ManifestAux { got } => {
                write!(
                    f,
                    "header bits {got:#x}, which only a newer magnetron can have set"
                )
            }
            Self::Manifest => write!(f, "manifest_ver is not 1, so a newer magnetron wrote it"),
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

    /// The stable name of the rule, of what is unsupported, of the limit, or `mag.truncated`.
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
