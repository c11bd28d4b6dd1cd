use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use tensor_core::codec::TransferError;
use tensor_core::{
    At, CastError, DType, Failure, Kind, LimitExceeded, ShapeError, SinkError, SourceError,
    Truncated,
};

use crate::layout::Field;

/// Why a `.zt` file could not be read, verified or written.
///
/// ```
/// use ztensor_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 17][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("ztensor.magic")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
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
/// Sections are those of the zTensor specification, version 0.1.0; rules named `Cbor` are those
/// of RFC 8949 for well-formed data. Rules of later generations say which.
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
    /// Generation 2, manifest: no item lies deeper than 32.
    CborDepth,
    /// RFC 8949, 4.2.1: a map has each key once.
    CborDuplicateKey,
    /// RFC 8949, 4.2.1: floats are as short as their value allows, and there is one NaN.
    CborFloat,
    /// RFC 8949, 4.2.1: lengths are definite.
    CborIndefinite,
    /// RFC 8949, 4.2.1: keys ascend by their encoded bytes.
    CborOrder,
    /// Generation 2, manifest: there are no tags.
    CborTag,
    /// RFC 8949, 4.2.1: heads are as short as their argument allows.
    CborWidth,
    /// Generations 1.0 and 1.1: what the ends of the file look like goes with the key of the
    /// manifest that lists tensors. Eight bytes at the end are the difference.
    Frame {
        /// What the ends of the file say.
        ends: &'static str,
    },
    /// Generation 2, footer: a file ends in the magic it starts with.
    FooterMagic {
        /// What the last eight bytes are.
        got: [u8; 8],
    },
    /// Generation 2, footer: a file without manifest has no offset and no hash of one.
    DataShard,
    /// Generation 2, footer: the manifest starts at a multiple of 4096, behind the magic.
    ManifestAlignment {
        /// The field.
        got: u64,
    },
    /// Generation 2, footer: the manifest ends before the footer.
    ManifestRange {
        /// Where it starts.
        offset: u64,
        /// Its size.
        size: u64,
        /// Where it must have ended.
        end: u64,
    },
    /// Generations 1 and 2: the manifest has at least one byte, at most 2^30, and lies behind the
    /// magic.
    ManifestSize {
        /// The field.
        got: u64,
        /// The most that the file has room for, or 2^30.
        max: u64,
    },
    /// Generation 2, footer: XXH3-64 of the manifest.
    ManifestHash {
        /// The field.
        got: u64,
        /// The hash.
        found: u64,
    },
    /// Generations 1 and 2: the manifest is one map.
    ManifestType,
    /// Generations 1 and 2: the manifest is a single item.
    ManifestTrailing {
        /// Bytes behind the map.
        bytes: u64,
    },
    /// Generations 1 and 2: keys and names are text.
    ManifestKey,
    /// Generation 1: a map has each key once.
    ManifestDuplicateKey,
    /// Generations 1 and 2: a required key.
    ManifestMissing {
        /// The one that is not there.
        key: &'static str,
    },
    /// Generations 1 and 2: the value of a key has its type.
    ManifestValue {
        /// Whose value.
        key: &'static str,
    },
    /// Generation 1: `version` starts with digits, up to a dot.
    VersionSyntax,
    /// Generation 2: names of objects, parts and attributes have 1 to 1024 bytes, none of them
    /// zero.
    NameValue,
    /// Generation 1: a name stands for one object.
    ObjectDuplicate,
    /// Generation 2: an object has parts.
    ObjectEmpty,
    /// Generation 2: a shape has at most 64 dims.
    ShapeRank {
        /// The dims.
        got: u64,
    },
    /// Generation 1: a name stands for one component.
    ComponentDuplicate,
    /// Generations 1 and 2: data starts at a multiple of 64, in generation 2 of 4096.
    ComponentAlignment {
        /// The field.
        got: u64,
        /// What it must be a multiple of.
        align: u64,
    },
    /// Generations 1 and 2: data lies before the manifest, in generation 2 before the footer.
    ComponentRange {
        /// Start of the data.
        offset: u64,
        /// Its size.
        size: u64,
        /// Where it must have ended.
        end: u64,
    },
    /// Generations 1 and 2: a component has whole elements.
    ComponentWidth {
        /// Its decoded bytes.
        bytes: u64,
        /// Of an element.
        width: u64,
    },
    /// Generations 1 and 2: the length said to come out of decoding is that of dtype and shape.
    DecodedLength {
        /// The field.
        got: u64,
        /// What dtype and shape ask for.
        expected: u64,
    },
    /// Generation 2: `decoded_length` is there exactly where `encoding` is.
    DecodedLengthPresence,
    /// Generation 2: `blob` is an offset and a length.
    BlobPair,
    /// Generation 2: ranges of data are the same or apart, and apart from the manifest.
    BlobOverlap {
        /// Where the second one starts.
        offset: u64,
        /// Where the first one ends.
        end: u64,
    },
    /// Generations 1 and 2: a dense object has the component `data`, in generation 2 no other.
    DenseData,
    /// Generation 2: dtypes are a closed set.
    DTypeValue,
    /// Generation 2: a known logical type has its dtype.
    TypeDType,
    /// Generation 2: labels of shards have 1 to 64 letters, digits, dots, lines and dashes, and
    /// start with no dot.
    ShardName,
    /// Generation 2: a shard has at least 48 bytes.
    ShardSize {
        /// The field.
        got: u64,
    },
    /// Generation 2: a part names a shard of the manifest.
    ShardUnknown,
    /// Generation 2, `zt.sparse_csr/1`: a matrix has two dims.
    CsrShape,
    /// Generation 2, `zt.sparse_csr/1`: the parts are values, indices and indptr.
    CsrParts,
    /// Generation 2, `zt.sparse_csr/1`: indices and indptr are both u32 or both u64.
    CsrDType,
    /// Generation 2, `zt.sparse_csr/1`: the sizes of the parts go together.
    CsrSize,
    /// Generation 2, `zt.sparse_csr/1`: indptr goes from 0 to the number of values and never down.
    CsrIndptr,
    /// Generation 2, `zt.sparse_csr/1`: columns rise within a row and are less than the second dim.
    CsrColumn,
    /// Generation 2: a truth value is 0 or 1.
    BoolValue,
    /// Generation 2: the half byte behind an odd number of `f4_e2m1` is 0.
    F4Padding,
    /// Generation 2: the value of a known algorithm has its number of digits.
    ChecksumDigits,
    /// `zt.zstd-seekable/1`: the data ends in a seek table, a skippable frame.
    SeekMagic,
    /// `zt.zstd-seekable/1`: the low seven bits of the descriptor are 0.
    SeekDescriptor,
    /// `zt.zstd-seekable/1`: the size of the seek table is that of its entries.
    SeekSize,
    /// `zt.zstd-seekable/1`: the entries add up to the data and to `decoded_length`.
    SeekSum,
    /// `zt.zstd-seekable/1`: frames hold the same, at most 16 MiB, the last one not more.
    SeekFrame {
        /// Its size.
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
            Self::CborDepth => "ztensor.cbor.depth",
            Self::CborDuplicateKey => "ztensor.cbor.duplicate_key",
            Self::CborFloat => "ztensor.cbor.float",
            Self::CborIndefinite => "ztensor.cbor.indefinite",
            Self::CborOrder => "ztensor.cbor.order",
            Self::CborTag => "ztensor.cbor.tag",
            Self::CborWidth => "ztensor.cbor.width",
            Self::Frame { .. } => "ztensor.frame",
            Self::FooterMagic { .. } => "ztensor.footer.magic",
            Self::DataShard => "ztensor.footer.data_shard",
            Self::ManifestAlignment { .. } => "ztensor.manifest.alignment",
            Self::ManifestRange { .. } => "ztensor.manifest.range",
            Self::ManifestSize { .. } => "ztensor.manifest.size",
            Self::ManifestHash { .. } => "ztensor.manifest.hash",
            Self::ManifestType => "ztensor.manifest.type",
            Self::ManifestTrailing { .. } => "ztensor.manifest.trailing",
            Self::ManifestKey => "ztensor.manifest.key",
            Self::ManifestDuplicateKey => "ztensor.manifest.duplicate_key",
            Self::ManifestMissing { .. } => "ztensor.manifest.missing",
            Self::ManifestValue { .. } => "ztensor.manifest.value",
            Self::VersionSyntax => "ztensor.version.syntax",
            Self::NameValue => "ztensor.name.value",
            Self::ObjectDuplicate => "ztensor.object.duplicate",
            Self::ObjectEmpty => "ztensor.object.empty",
            Self::ShapeRank { .. } => "ztensor.shape.rank",
            Self::ComponentDuplicate => "ztensor.component.duplicate",
            Self::ComponentAlignment { .. } => "ztensor.component.alignment",
            Self::ComponentRange { .. } => "ztensor.component.range",
            Self::ComponentWidth { .. } => "ztensor.component.width",
            Self::DecodedLength { .. } => "ztensor.decoded_length.mismatch",
            Self::DecodedLengthPresence => "ztensor.decoded_length.presence",
            Self::BlobPair => "ztensor.blob.pair",
            Self::BlobOverlap { .. } => "ztensor.blob.overlap",
            Self::DenseData => "ztensor.dense.data",
            Self::DTypeValue => "ztensor.dtype.value",
            Self::TypeDType => "ztensor.type.dtype",
            Self::ShardName => "ztensor.shard.name",
            Self::ShardSize { .. } => "ztensor.shard.size",
            Self::ShardUnknown => "ztensor.shard.unknown",
            Self::CsrShape => "ztensor.csr.shape",
            Self::CsrParts => "ztensor.csr.parts",
            Self::CsrDType => "ztensor.csr.dtype",
            Self::CsrSize => "ztensor.csr.size",
            Self::CsrIndptr => "ztensor.csr.indptr",
            Self::CsrColumn => "ztensor.csr.column",
            Self::BoolValue => "ztensor.bool.value",
            Self::F4Padding => "ztensor.f4.padding",
            Self::ChecksumDigits => "ztensor.checksum.digits",
            Self::SeekMagic => "ztensor.seek.magic",
            Self::SeekDescriptor => "ztensor.seek.descriptor",
            Self::SeekSize => "ztensor.seek.size",
            Self::SeekSum => "ztensor.seek.sum",
            Self::SeekFrame { .. } => "ztensor.seek.frame",
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
            Self::CborDepth => write!(f, "an item lies within more than 32 others"),
            Self::CborDuplicateKey => write!(f, "a key is there twice"),
            Self::CborFloat => write!(
                f,
                "a float that is longer than its value needs, or another NaN"
            ),
            Self::CborIndefinite => write!(f, "an item of indefinite length"),
            Self::CborOrder => write!(f, "keys are out of order"),
            Self::CborTag => write!(f, "a tag"),
            Self::CborWidth => write!(f, "a head that is longer than its argument needs"),
            Self::Frame { ends } => write!(
                f,
                "a manifest of another generation than {ends}: is the file truncated by 8 bytes, or 8 too long?"
            ),
            Self::FooterMagic { got } => write!(
                f,
                "ends in bytes {got:02x?} instead of the magic: cut, or something follows the footer"
            ),
            Self::DataShard => write!(
                f,
                "a footer without manifest, but with an offset or hash of one"
            ),
            Self::ManifestAlignment { got } => write!(
                f,
                "the manifest's offset {got:#x} is not a multiple of 4096 behind the magic"
            ),
            Self::ManifestRange { offset, size, end } => write!(
                f,
                "a manifest of {size} bytes at {offset:#x} reaches past {end:#x}"
            ),
            Self::ManifestSize { got, max } => {
                write!(f, "manifest of {got} bytes; 1 to {max} fit this file")
            }
            Self::ManifestHash { got, found } => write!(
                f,
                "the manifest's XXH3 is {found:016x}, the footer says {got:016x}"
            ),
            Self::ManifestType => write!(f, "the manifest is not a map"),
            Self::ManifestTrailing { bytes } => {
                write!(f, "{bytes} bytes behind the map of the manifest")
            }
            Self::ManifestKey => write!(f, "a key or name is not text"),
            Self::ManifestDuplicateKey => write!(f, "a key is there twice"),
            Self::ManifestMissing { key } => write!(f, "required key {key} is missing"),
            Self::ManifestValue { key } => write!(
                f,
                "the value of {key} has another type than the format gives it"
            ),
            Self::VersionSyntax => write!(f, "a version that does not start with digits"),
            Self::NameValue => write!(
                f,
                "a name that is empty, longer than 1024 bytes or has a zero byte"
            ),
            Self::ObjectDuplicate => write!(f, "an object's name is used again"),
            Self::ObjectEmpty => write!(f, "an object without parts"),
            Self::ShapeRank { got } => write!(f, "{got} dims; 64 are the most"),
            Self::ComponentDuplicate => write!(f, "a component's name is used again"),
            Self::ComponentAlignment { got, align } => {
                write!(f, "offset {got:#x} is not a multiple of {align}")
            }
            Self::ComponentRange { offset, size, end } => {
                write!(f, "{size} bytes of data at {offset:#x} reach past {end:#x}")
            }
            Self::ComponentWidth { bytes, width } => write!(
                f,
                "{bytes} bytes are no whole number of elements of {width}"
            ),
            Self::DecodedLength { got, expected } => write!(
                f,
                "{got} bytes are said to be decoded, but dtype and shape ask for {expected}"
            ),
            Self::DecodedLengthPresence => write!(
                f,
                "encoding and decoded_length must be there both or not at all"
            ),
            Self::BlobPair => write!(f, "a blob that is not two unsigned integers"),
            Self::BlobOverlap { offset, end } => write!(
                f,
                "data at {offset:#x} starts before other data has ended at {end:#x}"
            ),
            Self::DenseData => write!(f, "a dense object without its data, or with a second part"),
            Self::DTypeValue => write!(f, "a dtype that zTensor 2 does not have"),
            Self::TypeDType => write!(f, "a logical type over another dtype than its own"),
            Self::ShardName => write!(f, "a shard's label that the format does not allow"),
            Self::ShardSize { got } => write!(f, "a shard of {got} bytes; 48 are the fewest"),
            Self::ShardUnknown => write!(f, "a shard that the manifest does not have"),
            Self::CsrShape => write!(f, "a sparse matrix that has not two dims"),
            Self::CsrParts => write!(
                f,
                "a sparse matrix has other parts than values, indices and indptr"
            ),
            Self::CsrDType => write!(f, "indices and indptr are not both u32 or both u64"),
            Self::CsrSize => write!(
                f,
                "rows, indptr, indices and values don't go together by their sizes"
            ),
            Self::CsrIndptr => write!(f, "indptr does not rise from 0 to the number of values"),
            Self::CsrColumn => write!(
                f,
                "columns don't rise within a row, or lie outside of the matrix"
            ),
            Self::BoolValue => write!(f, "a truth value that is neither 0 nor 1"),
            Self::F4Padding => write!(f, "the half byte behind the last element is not 0"),
            Self::ChecksumDigits => write!(
                f,
                "a checksum with another number of digits than its algorithm has"
            ),
            Self::SeekMagic => write!(f, "no seek table at the end of the data"),
            Self::SeekDescriptor => {
                write!(f, "reserved bits of the seek table's descriptor are set")
            }
            Self::SeekSize => write!(f, "the seek table has another size than its entries"),
            Self::SeekSum => write!(f, "the entries of the seek table don't add up"),
            Self::SeekFrame { got } => write!(
                f,
                "a frame of {got} bytes: longer than 16 MiB, or not as the first"
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
    /// A component that the object's format does not give an element type.
    Component {
        /// Its name.
        name: Box<str>,
    },
    /// A logical type that this crate does not know, or has no element type for.
    Type {
        /// The field.
        name: Box<str>,
    },
    /// The object's components would be listed under names that others have.
    NameCollision,
    /// The data is in another file.
    Shard {
        /// Its label in the manifest.
        label: Box<str>,
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
            Self::Component { .. } => "ztensor.component",
            Self::Type { .. } => "ztensor.type",
            Self::NameCollision => "ztensor.name.collision",
            Self::Shard { .. } => "ztensor.shard",
            Self::ZstdEndianness => "ztensor.zstd.endianness",
            Self::ZstdDisabled => "ztensor.zstd.disabled",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { about } if cfg!(feature = "generations") => write!(
                f,
                "{about}; this reader handles zTensor 0.1, 1.0 to 1.2 and 2"
            ),
            Self::Version { about } => write!(
                f,
                "{about}; this reader handles zTensor 0.1, and 1.0 to 1.2 and 2 with the feature \
                 `generations`"
            ),
            Self::DType { name } => write!(
                f,
                "dtype {name:?}, which this generation of zTensor does not have"
            ),
            Self::Encoding { name } => write!(
                f,
                "encoding {name:?}, which this generation of zTensor does not have"
            ),
            Self::Layout { name } => write!(f, "layout {name:?}: not a dense tensor"),
            Self::Component { name } => write!(
                f,
                "component {name:?}, which has no element type in this format"
            ),
            Self::Type { name } => write!(f, "elements of the logical type {name:?}"),
            Self::NameCollision => write!(
                f,
                "name collision: another tensor is called as a component would be"
            ),
            Self::Shard { label } => write!(f, "data in another file, shard {label:?}"),
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
    /// The entry is of a file of another generation, whose entries can't be copied as they are.
    #[error("tensor {name:?}: only entries of zTensor 0.1 files can be copied as they are")]
    Generation {
        /// The tensor.
        name: String,
    },
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

    /// The stable name of the rule, of what is unsupported, of the limit, or `ztensor.truncated`.
    pub fn rule_id(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { rule, .. } => Some(rule.id()),
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
            Self::Invalid { at, .. } | Self::Unsupported { at, .. } => Some(*at),
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

impl From<TransferError> for Error {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Source(source) => source.into(),
            TransferError::Sink(sink) => Self::Sink(sink),
            TransferError::Cancelled => Self::Cancelled,
        }
    }
}
