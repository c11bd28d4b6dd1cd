use tensor_core::codec::rules;

use crate::{DTypeCode, Generation};

rules! {
    /// A requirement of the format that a file breaks. [`id`](Rule::id)s are stable.
    ///
    /// Sections are those of the file format's page ("Limits", "File Header", "Metadata Record",
    /// "Tensor Record", "Data Layout").
    ///
    /// ```
    /// use mag_format::Archive;
    ///
    /// let error = Archive::from_bytes(vec![0xA5; 200]).unwrap_err();
    /// let rule = error.rule().map(|rule| rule.id());
    /// assert_eq!(rule, Some("mag.header.magic"));
    /// assert_eq!(error.rule_id(), rule);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Rule {
        /// "File Header": the magic is always `MAG!`.
        #[rule("mag.header.magic", "starts with bytes {got:02x?} instead of the magic \"MAG!\"")]
        Magic {
            /// The first four bytes.
            got: [u8; 4],
        },
        /// "Version": versions start from 1.
        #[rule("mag.header.version", "version 0; versions start from 1")]
        Version,
        /// "Data Layout": the checksum of the records; see [`Checksum`](crate::Checksum).
        #[rule("mag.header.checksum", "checksum {stored:#010x} stored, but the records give {crc32c:#010x} (CRC-32C) \
             or {ieee:#010x} (CRC-32)")]
        Checksum {
            /// The header's field.
            stored: u32,
            /// CRC-32C as real files carry it.
            crc32c: u32,
            /// CRC-32/IEEE by the letter of the text.
            ieee: u32,
        },
        /// "File Header": `aux` is reserved and zero.
        #[rule("mag.header.aux", "reserved header field is {got:#x}, not 0")]
        HeaderAux {
            /// The field.
            got: u32,
        },
        /// "Metadata Record": bits of `aux` above the type are reserved and zero.
        #[rule("mag.meta.aux", "reserved bits set in metadata aux {got:#010x}")]
        MetaAux {
            /// The field.
            got: u32,
        },
        /// "Metadata Record": type 0 is never stored.
        #[rule("mag.meta.type", "metadata type 0, which is never stored")]
        MetaType,
        /// "Limits": a metadata key has 1 to 65535 bytes.
        #[rule("mag.meta.key_length", "key of {got} bytes; 1 to 65535 are allowed")]
        MetaKeyLength {
            /// The field.
            got: u32,
        },
        /// "Metadata Record": keys are UTF-8.
        #[rule("mag.meta.key", "key is not UTF-8")]
        MetaKey,
        /// "File Format": metadata keys are unique.
        #[rule("mag.meta.duplicate", "key of metadata record {first} is used again")]
        MetaDuplicate {
            /// The record that has the key already.
            first: u64,
        },
        /// "Tensor Record": bits of `aux` above dtype and rank are reserved and zero.
        #[rule("mag.tensor.aux", "reserved bits set in tensor aux {got:#010x}")]
        TensorAux {
            /// The field.
            got: u32,
        },
        /// "Limits": the rank is at least 1.
        #[rule("mag.tensor.rank", "rank 0; a scalar has shape [1]")]
        TensorRank,
        /// "Limits": a dim has 1 to 2^63-1 elements.
        #[rule("mag.tensor.dim", "dim of {got}; 1 to 2^63-1 are allowed")]
        TensorDim {
            /// The dim.
            got: u64,
        },
        /// "Tensor Record": `numel` is the product of the dims, at most 2^63-1.
        #[rule("mag.tensor.numel", "numel {stored}, but the dims give {product} (at most 2^63-1)")]
        TensorNumel {
            /// The field.
            stored: u64,
            /// The product.
            product: u64,
        },
        /// "Limits": the product of the dims fits 64 bits.
        #[rule("mag.tensor.shape", "the product of the dims does not fit 64 bits")]
        TensorShape,
        /// "Limits": a tensor has at most 2^63-1 bytes.
        #[rule("mag.tensor.size", "{numel} elements take more than 2^63-1 bytes")]
        TensorSize {
            /// Number of elements.
            numel: u64,
        },
        /// "Data Layout": data starts at a multiple of 64.
        #[rule("mag.tensor.offset_alignment", "data offset {got:#x} is not a multiple of 64")]
        TensorOffsetAlignment {
            /// The field.
            got: u64,
        },
        /// "Data Layout": data lies after the records and within 64 bits.
        #[rule("mag.tensor.offset", "data offset {got:#x} is before the end of the records at {records_end:#x}, or \
             the data ends beyond 64 bits")]
        TensorOffset {
            /// The field.
            got: u64,
            /// End of the records.
            records_end: u64,
        },
        /// "Data Layout": each tensor's buffer is its own.
        #[rule("mag.tensor.overlap", "shares data bytes with tensor record {other}")]
        TensorOverlap {
            /// The record whose data it shares.
            other: u64,
        },
        /// "Limits": a tensor key has 1 to 65535 bytes.
        #[rule("mag.tensor.key_length", "key of {got} bytes; 1 to 65535 are allowed")]
        TensorKeyLength {
            /// The field.
            got: u32,
        },
        /// "Tensor Record": keys are UTF-8.
        #[rule("mag.tensor.key", "key is not UTF-8")]
        TensorKey,
        /// "File Format": tensor keys are unique. In a snapshot 0.3.0 as well.
        #[rule("mag.tensor.duplicate", "key of tensor record {first} is used again")]
        TensorDuplicate {
            /// The record that has the key already.
            first: u64,
        },
        /// Snapshots 0.1.0 and 0.2.0: sections start with their markers.
        #[rule("mag.snapshot.marker", "bytes {got:02x?} instead of the marker {:?}", text(expected))]
        SnapshotMarker {
            /// `SRP!`, `MDT!`, `DSC!` or `BUF!`.
            expected: [u8; 4],
            /// The four bytes there.
            got: [u8; 4],
        },
        /// Snapshots 0.1.0 and 0.2.0: `aux` is reserved and zero.
        #[rule("mag.snapshot.aux", "reserved header field is {got:#x}, not 0")]
        SnapshotAux {
            /// The field.
            got: u32,
        },
        /// Snapshots 0.1.0 and 0.2.0: no metadata, since nothing says how it would be stored.
        #[rule("mag.snapshot.metadata", "{got} metadata records; no snapshot 0.1.0 or 0.2.0 has any")]
        SnapshotMetadata {
            /// The field.
            got: u32,
        },
        /// Snapshots 0.1.0 and 0.2.0: the first string starts the pool.
        #[rule("mag.snapshot.pool.start", "the first string starts at {got:#x}, not 0")]
        SnapshotPoolStart {
            /// Its offset.
            got: u32,
        },
        /// Snapshots 0.1.0 and 0.2.0: each offset of the pool is above the one before, so no string
        /// is empty.
        #[rule("mag.snapshot.pool.offset", "string offset {got:#x} is not above the one before, {previous:#x}")]
        SnapshotPoolOffset {
            /// The offset before.
            previous: u32,
            /// The offset.
            got: u32,
        },
        /// Snapshots 0.1.0 and 0.2.0: strings are UTF-8.
        #[rule("mag.snapshot.pool.text", "string is not UTF-8")]
        SnapshotPoolText,
        /// Snapshots 0.1.0 and 0.2.0: strings are unique.
        #[rule("mag.snapshot.pool.duplicate", "duplicate of string {first}")]
        SnapshotPoolDuplicate {
            /// The string that is equal.
            first: u64,
        },
        /// Snapshots 0.1.0 and 0.2.0: a tensor's key is a string of the pool.
        #[rule("mag.snapshot.tensor.key", "key {got} of {strings} strings")]
        SnapshotKey {
            /// The field.
            got: u32,
            /// How many strings there are.
            strings: u64,
        },
        /// Snapshots 0.1.0 and 0.2.0: no two tensors have the same key.
        #[rule("mag.snapshot.tensor.key_twice", "key {got} is that of another tensor already")]
        SnapshotKeyTwice {
            /// The field.
            got: u32,
        },
        /// Snapshots 0.1.0 and 0.2.0: the last two bytes before `key_id` are reserved and zero.
        #[rule("mag.snapshot.tensor.aux", "reserved bytes are {got:02x?}, not 0")]
        SnapshotTensorAux {
            /// The bytes.
            got: [u8; 2],
        },
        /// Snapshots 0.1.0 and 0.2.0: the rank is at most 63.
        #[rule("mag.snapshot.tensor.rank", "rank {got}; 0 to 63 are allowed")]
        SnapshotRank {
            /// The field.
            got: u8,
        },
        /// Snapshots 0.1.0 and 0.2.0: a dim is at most 2^63-1.
        #[rule("mag.snapshot.tensor.dim", "dim of {got}; 0 to 2^63-1 are allowed")]
        SnapshotDim {
            /// The dim.
            got: u64,
        },
        /// Snapshots 0.1.0 and 0.2.0: the product of the dims, zeros aside, is at most 2^63-1.
        #[rule("mag.snapshot.tensor.shape", "{}", TOO_MANY)]
        SnapshotShape,
        /// Snapshots 0.1.0 and 0.2.0: `numel` is the product of the dims.
        #[rule("mag.snapshot.tensor.numel", "numel {stored}, but the dims give {product}")]
        SnapshotNumel {
            /// The field.
            stored: u64,
            /// The product.
            product: u64,
        },
        /// Snapshots 0.1.0 and 0.2.0: a tensor has at most 2^63-1 bytes, and all end within 64 bits.
        #[rule("mag.snapshot.tensor.size", "{numel} elements take more than 2^63-1 bytes or end beyond 64 bits")]
        SnapshotSize {
            /// Number of elements.
            numel: u64,
        },
        /// Snapshots 0.1.0 and 0.2.0: a tensor starts where the one before it ends, rounded up to 16
        /// in 0.2.0.
        #[rule("mag.snapshot.tensor.offset", "data offset {got:#x} instead of {expected:#x}{}", leftover(got > expected))]
        SnapshotOffset {
            /// Where it must start.
            expected: u64,
            /// The field.
            got: u64,
        },
        /// Snapshots 0.1.0 and 0.2.0: a tensor after one of unknown size starts no earlier, and at a
        /// multiple of 16 in 0.2.0.
        #[rule("mag.snapshot.tensor.offset_unknown", "data offset {got:#x} is before {least:#x}, where the tensor before it starts, or \
             no multiple of the alignment")]
        SnapshotOffsetUnknown {
            /// Where the one before starts.
            least: u64,
            /// The field.
            got: u64,
        },
        /// Snapshots 0.1.0 and 0.2.0: the file ends with the last tensor.
        #[rule("mag.snapshot.length", "{got} bytes, but the last tensor ends at {expected}{}", leftover(got > expected))]
        SnapshotLength {
            /// Where it has to end.
            expected: u64,
            /// Where it ends.
            got: u64,
        },
        /// Snapshots 0.1.0 and 0.2.0: CRC-32C of byte 20 up to `BUF!`.
        #[rule("mag.snapshot.checksum", "checksum {stored:#010x} stored, but the records give {computed:#010x} (CRC-32C)")]
        SnapshotChecksum {
            /// The header's field.
            stored: u32,
            /// What the bytes give.
            computed: u32,
        },
        /// Snapshot 0.3.0: the document lies after the header.
        #[rule("mag.manifest.meta_offset", "the document at {got:#x} overlaps the header")]
        ManifestMetaOffset {
            /// The field.
            got: u64,
        },
        /// Snapshot 0.3.0: the document is not empty.
        #[rule("mag.manifest.meta_len", "an empty document")]
        ManifestMetaLen,
        /// Snapshot 0.3.0: the data starts at a multiple of 4096.
        #[rule("mag.manifest.data_offset_alignment", "the data at {got:#x} is at no multiple of 4096")]
        ManifestDataAlignment {
            /// The field.
            got: u64,
        },
        /// Snapshot 0.3.0: the data starts after the document.
        #[rule("mag.manifest.data_offset", "the data at {got:#x} starts before the end of the document at {document_end:#x}")]
        ManifestDataOffset {
            /// The field.
            got: u64,
            /// End of the document.
            document_end: u64,
        },
        /// Snapshot 0.3.0: the document is JSON as Python writes it.
        #[rule("mag.manifest.json", "the document is no JSON: {expected} had to be here")]
        ManifestJson {
            /// What was expected.
            expected: &'static str,
        },
        /// Snapshot 0.3.0: nothing but white space follows the document's object.
        #[rule("mag.manifest.trailing", "text after the document's object")]
        ManifestTrailing,
        /// Snapshot 0.3.0: the document is UTF-8.
        #[rule("mag.manifest.text", "string is not UTF-8")]
        ManifestText,
        /// Snapshot 0.3.0: escaped surrogates come in pairs.
        #[rule("mag.manifest.surrogate", "half of a surrogate pair in a string")]
        ManifestSurrogate,
        /// Snapshot 0.3.0: the document nests at most 1000 levels deep.
        #[rule("mag.manifest.depth", "the document nests deeper than 1000 levels")]
        ManifestDepth,
        /// Snapshot 0.3.0: the document and each tensor have all of their keys.
        #[rule("mag.manifest.missing", "no key {key:?}")]
        ManifestMissing {
            /// The first one that is not there.
            key: &'static str,
        },
        /// Snapshot 0.3.0: values have the types that their keys ask for.
        #[rule("mag.manifest.type", "a value of another type than {expected}")]
        ManifestType {
            /// What was expected.
            expected: &'static str,
        },
        /// Snapshot 0.3.0: outside of the user's metadata no key is a duplicate.
        #[rule("mag.manifest.duplicate", "a key that is there already")]
        ManifestDuplicate,
        /// Snapshot 0.3.0: a tensor has at most 255 dims.
        #[rule("mag.manifest.tensor.rank", "more than 255 dims")]
        ManifestRank,
        /// Snapshot 0.3.0: a dim is at most 2^63-1.
        #[rule("mag.manifest.tensor.dim", "dim above 2^63-1")]
        ManifestDim,
        /// Snapshot 0.3.0: the product of the dims, zeros aside, is at most 2^63-1.
        #[rule("mag.manifest.tensor.shape", "{}", TOO_MANY)]
        ManifestShape,
        /// Snapshot 0.3.0: `dtype` is not the name of another code than `dtype_id`.
        #[rule("mag.manifest.tensor.dtype", "dtype_id {id}, but the name of dtype_id {named}")]
        ManifestDType {
            /// The code that decides.
            id: u32,
            /// The code of the name.
            named: u32,
        },
        /// Snapshot 0.3.0: `nbytes` is what shape and dtype ask for.
        #[rule("mag.manifest.tensor.nbytes", "nbytes {got}, but shape and dtype give {expected}")]
        ManifestNbytes {
            /// What they ask for; `u64::MAX` where that does not fit 64 bits.
            expected: u64,
            /// The field.
            got: u64,
        },
        /// Snapshot 0.3.0: a tensor lies within the data.
        #[rule("mag.manifest.tensor.range", "{nbytes} bytes at {offset:#x} are not within the {data_len} bytes of data")]
        ManifestRange {
            /// The field.
            offset: u64,
            /// Its length.
            nbytes: u64,
            /// The data's length.
            data_len: u64,
        },
        /// Snapshot 0.3.0: a tensor with bytes starts at a multiple of 4096.
        #[rule("mag.manifest.tensor.offset_alignment", "data offset {got:#x} is not a multiple of 4096")]
        ManifestOffsetAlignment {
            /// The field.
            got: u64,
        },
        /// Snapshot 0.3.0: tensors share no byte.
        #[rule("mag.manifest.tensor.overlap", "shares data bytes with tensor {other}")]
        ManifestOverlap {
            /// The tensor whose data it shares.
            other: u64,
        },
        /// Snapshot 0.3.0: between tensors, before the first and after the last there is less than
        /// a page.
        #[rule("mag.manifest.tensor.gap", "{got} bytes of data before it are no tensor's; a page is 4096")]
        ManifestGap {
            /// How many bytes belong to no tensor.
            got: u64,
        },
        /// Snapshot 0.3.0: a tensor without bytes does not start inside another.
        #[rule("mag.manifest.tensor.inside", "no bytes of data, but an offset inside tensor {other}")]
        ManifestInside {
            /// The other.
            other: u64,
        },
    }
}

rules! {
    /// What a well-formed file has that this crate can't interpret.
    ///
    /// ```
    /// use mag_format::Unsupported;
    ///
    /// let what = Unsupported::BigEndian;
    /// assert_eq!(what.id(), "mag.manifest.big_endian");
    /// assert!(Unsupported::IDS.contains(&what.id()));
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Unsupported {
        /// Another generation of the format; the text says which and who wrote it.
        #[rule("mag.version", "mag version {version}: {about}; this reader handles {HANDLED}")]
        Version {
            /// The header's version field.
            version: u32,
            /// What is known about it.
            about: &'static str,
        },
        /// An element type that the file's generation does not have.
        #[rule("mag.dtype", "{code}; {} has {}", code.generation(), codes(code.generation()))]
        DType {
            /// The code.
            code: DTypeCode,
        },
        /// Big-endian data in a snapshot 0.3.0.
        #[rule("mag.manifest.big_endian", "big-endian data")]
        BigEndian,
        /// Bits in the header of a snapshot 0.3.0 that only a newer writer can have set.
        #[rule("mag.manifest.aux", "header bits {got:#x}, which only a newer magnetron can have set")]
        ManifestAux {
            /// The field.
            got: u32,
        },
        /// A snapshot 0.3.0 with a `manifest_ver` other than 1.
        #[rule("mag.manifest.version", "manifest_ver is not 1, so a newer magnetron wrote it")]
        Manifest,
        /// A metadata type that version 1 does not have.
        #[rule("mag.meta.type", "metadata type {code}; version 1 has 1 and 2 (i64, f64)")]
        MetaType {
            /// The code.
            code: u8,
        },
    }
}

/// The text about a shape that is too large.
const TOO_MANY: &str = "the product of the dims, zeros aside, is above 2^63-1";

/// The versions that this build reads.
const HANDLED: &str = match cfg!(feature = "snapshots") {
    true => "version 1 and the snapshots 0.1.0, 0.2.0 and 0.3.0",
    false => "version 1",
};

/// The text about files whose offsets or length are too large.
fn leftover(is_too_large: bool) -> &'static str {
    match is_too_large {
        true => {
            "; probably left by a crashed magnetron, which stored a view of a larger tensor; such a \
             file can't be repaired"
        }
        false => "",
    }
}

/// A marker as text.
fn text(marker: &[u8]) -> &str {
    core::str::from_utf8(marker).unwrap_or_default()
}

/// The dtype codes that a generation has.
fn codes(generation: Generation) -> &'static str {
    match generation {
        Generation::Version1 => "0 to 3 (f32, f16, bool, i32)",
        Generation::Snapshot0_1 => "0 to 11",
        Generation::Snapshot0_2 | Generation::Snapshot0_3 => "0 to 12",
    }
}
