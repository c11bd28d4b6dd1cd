use alloc::boxed::Box;

use tensor_core::codec::rules;

rules! {
    /// A requirement of the format that a file breaks. [`id`](Rule::id)s are stable.
    ///
    /// Sections are those of the zTensor specification, version 0.1.0; rules named `Cbor` are those
    /// of RFC 8949 for well-formed data. Rules of later generations say which.
    ///
    /// ```
    /// use ztensor_format::Archive;
    ///
    /// let error = Archive::from_bytes(vec![0xA5; 200]).unwrap_err();
    /// let rule = error.rule().map(|rule| rule.id());
    /// assert_eq!(rule, Some("ztensor.magic"));
    /// assert_eq!(error.rule_id(), rule);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Rule {
        /// Section 3.1: the first eight bytes are `ZTEN0001`.
        #[rule("ztensor.magic", "starts with bytes {got:02x?} instead of the magic \"ZTEN0001\"")]
        Magic {
            /// What they are.
            got: [u8; 8],
        },
        /// Section 3.3.2: the index is at least one byte and lies after the magic.
        #[rule("ztensor.index.size", "index of {got} bytes, but 1 to {max} fit; the file may have been cut short")]
        IndexSize {
            /// The field.
            got: u64,
            /// The most that the file has room for.
            max: u64,
        },
        /// Section 3.3.1: the index is one array.
        #[rule("ztensor.index.type", "the index is not an array")]
        IndexType,
        /// Section 3.3.1: the index is a single item.
        #[rule("ztensor.index.trailing", "{bytes} bytes after the array of the index")]
        IndexTrailing {
            /// Bytes after the array.
            bytes: u64,
        },
        /// RFC 8949, 5.3.1: an item ends within the data.
        #[rule("ztensor.cbor.end", "an item reaches past the end of the index")]
        CborEnd,
        /// RFC 8949, 3: additional information 28 to 30 is reserved, and numbers and tags have a
        /// definite head.
        #[rule("ztensor.cbor.head", "a head that CBOR does not have")]
        CborHead,
        /// RFC 8949, 3.2.1: a break ends an indefinite-length item, and in a map only after a value.
        #[rule("ztensor.cbor.break", "a break where a value must be")]
        CborBreak,
        /// RFC 8949, 3.2.3: chunks of a string are definite strings of the same type.
        #[rule("ztensor.cbor.chunk", "a chunk that is no definite string of the same type")]
        CborChunk,
        /// RFC 8949, 3.3: of the simple values only false, true, null and undefined are assigned.
        #[rule("ztensor.cbor.simple", "a simple value that is not assigned")]
        CborSimple,
        /// RFC 8949, 3.1: text is UTF-8.
        #[rule("ztensor.cbor.utf8", "text is not UTF-8")]
        CborUtf8,
        /// Section 3.3.1: each element of the index is a map.
        #[rule("ztensor.entry.type", "an entry of the index is not a map")]
        EntryType,
        /// Section 4: keys are text.
        #[rule("ztensor.entry.key", "a key is not text")]
        EntryKey,
        /// RFC 8949, 5.6: a map has each key once.
        #[rule("ztensor.entry.duplicate_key", "duplicate key")]
        EntryDuplicateKey,
        /// Section 4: `name` is required.
        #[rule("ztensor.name.missing", "required field name is missing")]
        NameMissing,
        /// Section 4: `offset` is required.
        #[rule("ztensor.offset.missing", "required field offset is missing")]
        OffsetMissing,
        /// Section 4: `size` is required.
        #[rule("ztensor.size.missing", "required field size is missing")]
        SizeMissing,
        /// Section 4: `dtype` is required.
        #[rule("ztensor.dtype.missing", "required field dtype is missing")]
        DTypeMissing,
        /// Section 4: `shape` is required.
        #[rule("ztensor.shape.missing", "required field shape is missing")]
        ShapeMissing,
        /// Section 4: `encoding` is required.
        #[rule("ztensor.encoding.missing", "required field encoding is missing")]
        EncodingMissing,
        /// Section 4: `name` is text.
        #[rule("ztensor.name.type", "name must be text")]
        NameType,
        /// Section 4: `offset` is an unsigned integer.
        #[rule("ztensor.offset.type", "offset must be an unsigned integer")]
        OffsetType,
        /// Section 4: `size` is an unsigned integer.
        #[rule("ztensor.size.type", "size must be an unsigned integer")]
        SizeType,
        /// Section 4: `dtype` is text.
        #[rule("ztensor.dtype.type", "dtype must be text")]
        DTypeType,
        /// Section 4: `layout` is text.
        #[rule("ztensor.layout.type", "layout must be text")]
        LayoutType,
        /// Section 4: `shape` is an array.
        #[rule("ztensor.shape.type", "shape must be an array")]
        ShapeType,
        /// Section 4: `encoding` is text.
        #[rule("ztensor.encoding.type", "encoding must be text")]
        EncodingType,
        /// Section 4: `data_endianness` is text.
        #[rule("ztensor.data_endianness.type", "data_endianness must be text")]
        DataEndiannessType,
        /// Section 4: `checksum` is text.
        #[rule("ztensor.checksum.type", "checksum must be text")]
        ChecksumType,
        /// Section 4, `shape`: dims are unsigned integers of 64 bits.
        #[rule("ztensor.shape.dim", "a dim is no unsigned integer of 64 bits")]
        ShapeDim,
        /// Section 4, `shape`: elements and bytes can be counted with 64 bits.
        #[rule("ztensor.shape.overflow", "elements or bytes of the shape don't fit 64 bits")]
        ShapeOverflow,
        /// Section 4, `name`: a name stands for one tensor.
        #[rule("ztensor.name.duplicate", "the name of entry {first} is used again")]
        NameDuplicate {
            /// The entry that has the name already.
            first: u64,
        },
        /// Section 4, `offset`: a multiple of 64.
        #[rule("ztensor.offset.alignment", "offset {got:#x} is not a multiple of 64")]
        OffsetAlignment {
            /// The field.
            got: u64,
        },
        /// Section 3.1: offsets account for the magic.
        #[rule("ztensor.offset.magic", "offset 0 is that of the magic")]
        OffsetMagic,
        /// Section 2: data lies before the index.
        #[rule("ztensor.data.range", "{size} bytes of data at {offset:#x} reach into the index at {index_start:#x}")]
        DataRange {
            /// Start of the data.
            offset: u64,
            /// Its size.
            size: u64,
            /// Start of the index.
            index_start: u64,
        },
        /// Section 5.2: raw data has the bytes that dtype and shape ask for.
        #[rule("ztensor.size.mismatch", "raw data of {got} bytes, but dtype and shape ask for {expected}")]
        SizeMismatch {
            /// The field.
            got: u64,
            /// Elements times element size.
            expected: u64,
        },
        /// Section 4, `data_endianness`: `little` or `big`.
        #[rule("ztensor.data_endianness.value", "data_endianness is neither \"little\" nor \"big\"")]
        Endianness,
        /// Section 4, `checksum`: `crc32c:` has up to 32 bits, `sha256:` has 64 hexadecimal digits.
        #[rule("ztensor.checksum.syntax", "malformed checksum value")]
        ChecksumSyntax,
        /// Section 4, `checksum`: it is that of the data as stored.
        #[rule("ztensor.checksum.mismatch", "the checksum is not that of the data")]
        ChecksumMismatch,
        /// Section 5.2: compressed data is intact zstd frames.
        #[rule("ztensor.zstd.frame", "damaged zstd data: {message}")]
        ZstdFrame {
            /// What the decoder says.
            message: &'static str,
        },
        /// Section 5.2: compressed data ends with the end of a frame.
        #[rule("ztensor.zstd.truncated", "the zstd data ends inside a frame")]
        ZstdTruncated,
        /// Section 5.2: compressed data decodes to what dtype and shape ask for, and no more.
        #[rule("ztensor.zstd.longer", "the zstd data decodes to more than the {expected} bytes that dtype and shape \
                 ask for")]
        ZstdLonger {
            /// Elements times element size.
            expected: u64,
        },
        /// Section 5.2: compressed data decodes to what dtype and shape ask for, and no less.
        #[rule("ztensor.zstd.shorter", "the zstd data decodes to {got} bytes at most, but dtype and shape ask for \
                 {expected}")]
        ZstdShorter {
            /// Elements times element size.
            expected: u64,
            /// The most that the data can decode to.
            got: u64,
        },
        /// Generation 2, manifest: no item lies deeper than 32.
        #[rule("ztensor.cbor.depth", "an item lies within more than 32 others")]
        CborDepth,
        /// RFC 8949, 4.2.1: a map has each key once.
        #[rule("ztensor.cbor.duplicate_key", "duplicate key")]
        CborDuplicateKey,
        /// RFC 8949, 4.2.1: floats are as short as their value allows, and there is one NaN.
        #[rule("ztensor.cbor.float", "a float that is longer than its value needs, or another NaN")]
        CborFloat,
        /// RFC 8949, 4.2.1: lengths are definite.
        #[rule("ztensor.cbor.indefinite", "an item of indefinite length")]
        CborIndefinite,
        /// RFC 8949, 4.2.1: keys ascend by their encoded bytes.
        #[rule("ztensor.cbor.order", "keys are out of order")]
        CborOrder,
        /// Generation 2, manifest: there are no tags.
        #[rule("ztensor.cbor.tag", "a tag")]
        CborTag,
        /// RFC 8949, 4.2.1: heads are as short as their argument allows.
        #[rule("ztensor.cbor.width", "a head that is longer than its argument needs")]
        CborWidth,
        /// Generations 1.0 and 1.1: what the ends of the file look like goes with the key of the
        /// manifest that lists tensors. Eight bytes at the end are the difference.
        #[rule("ztensor.frame", "a manifest of another generation than {ends}: is the file truncated by 8 bytes, or 8 too long?")]
        Frame {
            /// What the ends of the file say.
            ends: &'static str,
        },
        /// Generation 2, footer: a file ends in the magic it starts with.
        #[rule("ztensor.footer.magic", "ends in bytes {got:02x?} instead of the magic: cut, or something follows the footer")]
        FooterMagic {
            /// What the last eight bytes are.
            got: [u8; 8],
        },
        /// Generation 2, footer: a file without manifest has no offset and no hash of one.
        #[rule("ztensor.footer.data_shard", "a footer without manifest, but with an offset or hash of one")]
        DataShard,
        /// Generation 2, footer: the manifest starts at a multiple of 4096, after the magic.
        #[rule("ztensor.manifest.alignment", "the manifest's offset {got:#x} is not a multiple of 4096 after the magic")]
        ManifestAlignment {
            /// The field.
            got: u64,
        },
        /// Generation 2, footer: the manifest ends before the footer.
        #[rule("ztensor.manifest.range", "a manifest of {size} bytes at {offset:#x} reaches past {end:#x}")]
        ManifestRange {
            /// Where it starts.
            offset: u64,
            /// Its size.
            size: u64,
            /// Where it must have ended.
            end: u64,
        },
        /// Generations 1 and 2: the manifest has at least one byte, at most 2^30, and lies after the
        /// magic.
        #[rule("ztensor.manifest.size", "manifest of {got} bytes; 1 to {max} fit this file")]
        ManifestSize {
            /// The field.
            got: u64,
            /// The most that the file has room for, or 2^30.
            max: u64,
        },
        /// Generation 2, footer: XXH3-64 of the manifest.
        #[rule("ztensor.manifest.hash", "the manifest's XXH3 is {found:016x}, the footer says {got:016x}")]
        ManifestHash {
            /// The field.
            got: u64,
            /// The hash.
            found: u64,
        },
        /// Generations 1 and 2: the manifest is one map.
        #[rule("ztensor.manifest.type", "the manifest is not a map")]
        ManifestType,
        /// Generations 1 and 2: the manifest is a single item.
        #[rule("ztensor.manifest.trailing", "{bytes} bytes after the map of the manifest")]
        ManifestTrailing {
            /// Bytes after the map.
            bytes: u64,
        },
        /// Generations 1 and 2: keys and names are text.
        #[rule("ztensor.manifest.key", "a key or name is not text")]
        ManifestKey,
        /// Generation 1: a map has each key once.
        #[rule("ztensor.manifest.duplicate_key", "duplicate key")]
        ManifestDuplicateKey,
        /// Generations 1 and 2: a required key.
        #[rule("ztensor.manifest.missing", "required key {key} is missing")]
        ManifestMissing {
            /// The one that is not there.
            key: &'static str,
        },
        /// Generations 1 and 2: the value of a key has its type.
        #[rule("ztensor.manifest.value", "the value of {key} has another type than the format gives it")]
        ManifestValue {
            /// Whose value.
            key: &'static str,
        },
        /// Generation 1: `version` starts with digits, up to a dot.
        #[rule("ztensor.version.syntax", "a version that does not start with digits")]
        VersionSyntax,
        /// Generation 2: names of objects, parts and attributes have 1 to 1024 bytes, none of them
        /// zero.
        #[rule("ztensor.name.value", "a name that is empty, longer than 1024 bytes or has a zero byte")]
        NameValue,
        /// Generation 1: a name stands for one object.
        #[rule("ztensor.object.duplicate", "an object's name is used again")]
        ObjectDuplicate,
        /// Generation 2: an object has parts.
        #[rule("ztensor.object.empty", "an object without parts")]
        ObjectEmpty,
        /// Generation 2: a shape has at most 64 dims.
        #[rule("ztensor.shape.rank", "{got} dims; 64 are the most")]
        ShapeRank {
            /// The dims.
            got: u64,
        },
        /// Generation 1: a name stands for one component.
        #[rule("ztensor.component.duplicate", "a component's name is used again")]
        ComponentDuplicate,
        /// Generations 1 and 2: data starts at a multiple of 64, in generation 2 of 4096.
        #[rule("ztensor.component.alignment", "offset {got:#x} is not a multiple of {align}")]
        ComponentAlignment {
            /// The field.
            got: u64,
            /// What it must be a multiple of.
            align: u64,
        },
        /// Generations 1 and 2: data lies before the manifest, in generation 2 before the footer.
        #[rule("ztensor.component.range", "{size} bytes of data at {offset:#x} reach past {end:#x}")]
        ComponentRange {
            /// Start of the data.
            offset: u64,
            /// Its size.
            size: u64,
            /// Where it must have ended.
            end: u64,
        },
        /// Generations 1 and 2: a component has whole elements.
        #[rule("ztensor.component.width", "{bytes} bytes are no whole number of elements of {width}")]
        ComponentWidth {
            /// Its decoded bytes.
            bytes: u64,
            /// Of an element.
            width: u64,
        },
        /// Generations 1 and 2: the length said to come out of decoding is that of dtype and shape.
        #[rule("ztensor.decoded_length.mismatch", "{got} bytes are said to be decoded, but dtype and shape ask for {expected}")]
        DecodedLength {
            /// The field.
            got: u64,
            /// What dtype and shape ask for.
            expected: u64,
        },
        /// Generation 2: `decoded_length` is present exactly where `encoding` is.
        #[rule("ztensor.decoded_length.presence", "encoding and decoded_length must be there both or not at all")]
        DecodedLengthPresence,
        /// Generation 2: `blob` is an offset and a length.
        #[rule("ztensor.blob.pair", "a blob that is not two unsigned integers")]
        BlobPair,
        /// Generation 2: ranges of data are the same or apart, and apart from the manifest.
        #[rule("ztensor.blob.overlap", "data at {offset:#x} starts before other data has ended at {end:#x}")]
        BlobOverlap {
            /// Where the second one starts.
            offset: u64,
            /// Where the first one ends.
            end: u64,
        },
        /// Generations 1 and 2: a dense object has the component `data`, in generation 2 no other.
        #[rule("ztensor.dense.data", "a dense object without its data, or with a second part")]
        DenseData,
        /// Generation 2: dtypes are a closed set.
        #[rule("ztensor.dtype.value", "a dtype that zTensor 2 does not have")]
        DTypeValue,
        /// Generation 2: a known logical type has its dtype.
        #[rule("ztensor.type.dtype", "a logical type over another dtype than its own")]
        TypeDType,
        /// Generation 2: labels of shards have 1 to 64 letters, digits, dots, lines and dashes, and
        /// start with no dot.
        #[rule("ztensor.shard.name", "a shard's label that the format does not allow")]
        ShardName,
        /// Generation 2: a shard has at least 48 bytes.
        #[rule("ztensor.shard.size", "a shard of {got} bytes; 48 are the fewest")]
        ShardSize {
            /// The field.
            got: u64,
        },
        /// Generation 2: a part names a shard of the manifest.
        #[rule("ztensor.shard.unknown", "a shard that the manifest does not have")]
        ShardUnknown,
        /// Generation 2, `zt.sparse_csr/1`: a matrix has two dims.
        #[rule("ztensor.csr.shape", "a sparse matrix that has not two dims")]
        CsrShape,
        /// Generation 2, `zt.sparse_csr/1`: the parts are values, indices and indptr.
        #[rule("ztensor.csr.parts", "a sparse matrix has other parts than values, indices and indptr")]
        CsrParts,
        /// Generation 2, `zt.sparse_csr/1`: indices and indptr are both u32 or both u64.
        #[rule("ztensor.csr.dtype", "indices and indptr are not both u32 or both u64")]
        CsrDType,
        /// Generation 2, `zt.sparse_csr/1`: the sizes of the parts go together.
        #[rule("ztensor.csr.size", "rows, indptr, indices and values don't go together by their sizes")]
        CsrSize,
        /// Generation 2, `zt.sparse_csr/1`: indptr goes from 0 to the number of values and never down.
        #[rule("ztensor.csr.indptr", "indptr does not rise from 0 to the number of values")]
        CsrIndptr,
        /// Generation 2, `zt.sparse_csr/1`: columns rise within a row and are less than the second dim.
        #[rule("ztensor.csr.column", "columns don't rise within a row, or lie outside of the matrix")]
        CsrColumn,
        /// Generation 2: a truth value is 0 or 1.
        #[rule("ztensor.bool.value", "a truth value that is neither 0 nor 1")]
        BoolValue,
        /// Generation 2: the half byte after an odd number of `f4_e2m1` is 0.
        #[rule("ztensor.f4.padding", "the half byte after the last element is not 0")]
        F4Padding,
        /// Generation 2: the value of a known algorithm has its number of digits.
        #[rule("ztensor.checksum.digits", "a checksum with another number of digits than its algorithm has")]
        ChecksumDigits,
        /// `zt.zstd-seekable/1`: the data ends in a seek table, a skippable frame.
        #[rule("ztensor.seek.magic", "no seek table at the end of the data")]
        SeekMagic,
        /// `zt.zstd-seekable/1`: the low seven bits of the descriptor are 0.
        #[rule("ztensor.seek.descriptor", "reserved bits of the seek table's descriptor are set")]
        SeekDescriptor,
        /// `zt.zstd-seekable/1`: the size of the seek table is that of its entries.
        #[rule("ztensor.seek.size", "the seek table has another size than its entries")]
        SeekSize,
        /// `zt.zstd-seekable/1`: the entries add up to the data and to `decoded_length`.
        #[rule("ztensor.seek.sum", "the entries of the seek table don't add up")]
        SeekSum,
        /// `zt.zstd-seekable/1`: frames hold the same, at most 16 MiB, the last one not more.
        #[rule("ztensor.seek.frame", "a frame of {got} bytes: longer than 16 MiB, or not as the first")]
        SeekFrame {
            /// Its size.
            got: u64,
        },
    }
}

rules! {
    /// What a well-formed file has that this crate can't interpret.
    ///
    /// ```
    /// use ztensor_format::Unsupported;
    ///
    /// let what = Unsupported::DType { name: "f4".into() };
    /// assert_eq!(what.id(), "ztensor.dtype");
    /// assert!(Unsupported::IDS.contains(&what.id()));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Unsupported {
        /// Another generation of the format.
        #[rule("ztensor.version", "{about}; this reader handles zTensor {}", GENERATIONS)]
        Version {
            /// Which, and how it was recognised.
            about: Box<str>,
        },
        /// An element type that version 0.1 does not have.
        #[rule("ztensor.dtype", "dtype {name:?}, which this generation of zTensor does not have")]
        DType {
            /// The field.
            name: Box<str>,
        },
        /// An encoding that version 0.1 does not have.
        #[rule("ztensor.encoding", "encoding {name:?}, which this generation of zTensor does not have")]
        Encoding {
            /// The field.
            name: Box<str>,
        },
        /// A layout other than `dense`.
        #[rule("ztensor.layout", "layout {name:?}: not a dense tensor")]
        Layout {
            /// The field.
            name: Box<str>,
        },
        /// A component that the object's format does not give an element type.
        #[rule("ztensor.component", "component {name:?}, which has no element type in this format")]
        Component {
            /// Its name.
            name: Box<str>,
        },
        /// A logical type that this crate does not know, or has no element type for.
        #[rule("ztensor.type", "elements of the logical type {name:?}")]
        Type {
            /// The field.
            name: Box<str>,
        },
        /// The object's components would be listed under names that others have.
        #[rule("ztensor.name.collision", "name collision: another tensor is called as a component would be")]
        NameCollision,
        /// The data is in another file.
        #[rule("ztensor.shard", "data in another file, shard {label:?}")]
        Shard {
            /// Its label in the manifest.
            label: Box<str>,
        },
        /// Compressed data said to be big-endian: whether that is meant is nowhere written, and a
        /// wrong guess would be silent.
        #[rule("ztensor.zstd.endianness", "big-endian data under zstd, to which the format gives no meaning")]
        ZstdEndianness,
        /// Compressed data, but this build has no `zstd` feature.
        #[rule("ztensor.zstd.disabled", "zstd data, but this build is without `zstd`")]
        ZstdDisabled,
    }
}

/// What is read, and with what it would be more.
const GENERATIONS: &str = match cfg!(feature = "generations") {
    true => "0.1, 1.0 to 1.2 and 2",
    false => "0.1, and 1.0 to 1.2 and 2 with the feature `generations`",
};
