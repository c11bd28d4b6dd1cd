use alloc::string::String;
use core::fmt;

use tensor_core::codec::rules;

rules! {
    /// A requirement of the format that a file breaks. [`id`](Rule::id)s are stable.
    ///
    /// Names in quotes are sections of the format's page; AIP-0001, AIP-0002 and AEROSET are documents
    /// beside it.
    ///
    /// ```
    /// use aero_format::Archive;
    ///
    /// let error = Archive::from_bytes(vec![0xA5; 200]).unwrap_err();
    /// let rule = error.rule().map(|rule| rule.id());
    /// assert_eq!(rule, Some("aero.header.magic"));
    /// assert_eq!(error.rule_id(), rule);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Rule {
        /// "File Header": the magic is `AERO`.
        #[rule("aero.header.magic", "starts with bytes {got:02x?} instead of the magic \"AERO\"")]
        Magic {
            /// The first four bytes.
            got: [u8; 4],
        },
        /// "File Header": header_size is 96.
        #[rule("aero.header.header_size", "header_size is {got}, not 96")]
        HeaderSize {
            /// The field.
            got: u32,
        },
        /// "File Header": file_flags must be 0.
        #[rule("aero.header.file_flags", "file_flags is {got:#x}, not 0")]
        FileFlags {
            /// The field.
            got: u64,
        },
        /// "File Header": the reserved bytes must be zeros.
        #[rule("aero.header.reserved", "reserved header bytes are not zero")]
        HeaderReserved,
        /// "File Layout": the TOC lies after the header and within the file.
        #[rule("aero.toc.range", "the TOC of {len} bytes at {offset:#x} overlaps the header or ends beyond 64 bits")]
        TocRange {
            /// Its offset.
            offset: u64,
            /// Its length.
            len: u64,
        },
        /// "TOC Header": toc_length has room for all entries.
        #[rule("aero.toc.length", "toc_length is {got}, but the entries take {needed}")]
        TocLength {
            /// What the entries take.
            needed: u64,
            /// The field.
            got: u64,
        },
        /// "String Table": it lies within the file, apart from header and TOC.
        #[rule("aero.string_table.range", "the string table of {len} bytes at {offset:#x} overlaps header or TOC, or ends beyond 64 bits")]
        StringTableRange {
            /// Its offset.
            offset: u64,
            /// Its length.
            len: u64,
        },
        /// "TOC Entry": a name lies within the string table.
        #[rule("aero.toc.name", "the chunk name, {len} bytes at {start}, lies outside of the string table of {table}")]
        NameRange {
            /// Its place in the table.
            start: u32,
            /// Its length.
            len: u32,
            /// The length of the table.
            table: u64,
        },
        /// "String Table": names are UTF-8.
        #[rule("aero.toc.name_utf8", "the chunk name is not UTF-8")]
        NameUtf8,
        /// "TOC Entry": reserved0 must be 0.
        #[rule("aero.toc.reserved", "reserved0 is {got:#x}, not 0")]
        EntryReserved {
            /// The field.
            got: u64,
        },
        /// "TOC Entry": a payload ends within 64 bits.
        #[rule("aero.chunk.range", "the payload of {len} bytes at {offset:#x} ends beyond 64 bits")]
        ChunkRange {
            /// Its offset.
            offset: u64,
            /// Its length.
            len: u64,
        },
        /// "File Layout": payloads lie apart from each other and from the control structures.
        #[rule("aero.chunk.overlap", "the payload at {start:#x}..{end:#x} shares bytes with another chunk, the header, the TOC or the string table")]
        ChunkOverlap {
            /// Where the payload starts.
            start: u64,
            /// Where it ends.
            end: u64,
        },
        /// The tensor index runs over the first weights, as the reference writer leaves it when it adds tensor hashes.
        #[rule("aero.chunk.tidx_overrun", "the tensor index runs over the weights after it, as the reference writer leaves it when tensor hashes are on; a salvaging reader can read the tensors that are whole")]
        TidxOverrun,
        /// The TOC as the reference writer destroys it when it adds IHSH to a list of chunks.
        #[rule("aero.toc.destroyed", "all TOC entries but the first are zero, as the reference writer leaves them when it adds IHSH to a list of chunks")]
        ControlDestroyed,
        /// "Chunk Types": fourcc and name together are unique.
        #[rule("aero.chunk.duplicate", "chunk {first} has the same fourcc and name")]
        ChunkDuplicate {
            /// The entry that has them already.
            first: u64,
        },
        /// "Overview": weights are 16-byte aligned.
        #[rule("aero.chunk.alignment", "the weights start at {got:#x}, no multiple of 16")]
        ShardAlignment {
            /// Its offset.
            got: u64,
        },
        /// "Chunk Types": weights, IHSH and PHSH are never compressed.
        #[rule("aero.chunk.compressed", "a chunk that is never compressed has the zstd flag")]
        ShardCompressed,
        /// "TOC Entry": without compression both lengths are equal.
        #[rule("aero.chunk.ulen", "chunk_ulen is {ulen}, but chunk_length {length} without compression")]
        ChunkUlen {
            /// chunk_length.
            length: u64,
            /// chunk_ulen.
            ulen: u64,
        },
        /// "Chunk Flags": the payload is one zstd frame of exactly chunk_ulen bytes.
        #[rule("aero.chunk.zstd", "the payload is not one whole zstd frame of {ulen} bytes")]
        Zstd {
            /// chunk_ulen.
            ulen: u64,
        },
        /// "TOC Entry": blake3_256 is of the uncompressed bytes.
        #[rule("aero.chunk.blake3", "the payload does not have the BLAKE3 hash that the TOC gives, {expected}{}", ButFound(found))]
        ChunkHash {
            /// What the TOC says.
            expected: Digest,
            /// What the bytes give, where they were hashed just now.
            found: Option<Digest>,
        },
        /// "TIDX Schema", "MMSG Schema": one well-formed MessagePack value.
        #[rule("aero.msgpack", "not one well-formed MessagePack value")]
        MessagePack,
        /// "TIDX Schema": a map with a list of maps under `tensors`.
        #[rule("aero.tidx.structure", "the index is not a map with a list of maps under \"tensors\"")]
        TidxShape,
        /// "TIDX Schema": name, dtype, shape, shard_id, data_off and data_len are all there.
        #[rule("aero.tidx.missing", "the tensor has no {field}")]
        TidxMissing {
            /// The first one that is not there.
            field: &'static str,
        },
        /// "TIDX Schema": each field has its type and range.
        #[rule("aero.tidx.field", "a field of a tensor has the wrong type or range")]
        TidxField,
        /// "TIDX Schema": no key is a duplicate.
        #[rule("aero.tidx.duplicate_key", "a duplicate key")]
        TidxDuplicateKey,
        /// "TIDX Schema": a name is UTF-8 text.
        #[rule("aero.tidx.name", "the tensor name is no UTF-8 text")]
        TidxName,
        /// "TIDX Schema": no tensor is a duplicate.
        #[rule("aero.tidx.duplicate", "tensor {first} has the same name")]
        TidxDuplicate {
            /// The tensor that has the name already.
            first: u64,
        },
        /// "TIDX Schema": element and byte counts fit 64 bits.
        #[rule("aero.tidx.overflow", "the shape has more elements or bytes than 64 bits count")]
        TidxOverflow,
        /// "TIDX Schema": data_len has room for all elements.
        #[rule("aero.tidx.data_len", "data_len is {got}, but dtype and shape ask for {expected}")]
        TidxDataLen {
            /// What dtype and shape ask for.
            expected: u64,
            /// The field.
            got: u64,
        },
        /// "TIDX Schema": the data lies within its shard.
        #[rule("aero.tidx.data_range", "{len} bytes at {offset:#x} end beyond the shard of {shard}")]
        TidxDataRange {
            /// data_off.
            offset: u64,
            /// data_len.
            len: u64,
            /// The length of the shard.
            shard: u64,
        },
        /// "Multi-Shard": shard_id names a shard of the file.
        #[rule("aero.tidx.shard", "there is no shard {shard_id}")]
        TidxShard {
            /// The field.
            shard_id: u32,
        },
        /// "Optional TIDX Fields": hash_b3 has 64 hexadecimal digits.
        #[rule("aero.tidx.hash_b3", "hash_b3 is not 64 hexadecimal digits")]
        TidxHash,
        /// "Optional TIDX Fields": hash_b3 is of the tensor's bytes.
        #[rule("aero.tensor.hash_b3", "the tensor does not have the BLAKE3 hash that the index gives, {expected}, but {found}")]
        TensorHash {
            /// What the index says.
            expected: Digest,
            /// What the bytes give.
            found: Digest,
        },
        /// AIP-0001: one range from 0 over header, TOC and string table, and a digest of 32 bytes.
        #[rule("aero.ihsh.structure", "IHSH is not one range over header, TOC and string table with a digest of 32 bytes")]
        Ihsh,
        /// AIP-0001: the digest is of the control structures without chunk hashes.
        #[rule("aero.ihsh.digest", "header, TOC or string table were changed: IHSH says {expected}, but their digest is {found}")]
        IhshDigest {
            /// What the chunk says.
            expected: Digest,
            /// What the bytes give.
            found: Digest,
        },
        /// AIP-0002: the name of its shard, a page size, and a digest of 32 bytes for each page.
        #[rule("aero.phsh.structure", "PHSH does not name its shard, or has not one digest of 32 bytes for each page")]
        Phsh,
        /// AIP-0002: each digest is of its page.
        #[rule("aero.phsh.digest", "page {page} of the shard does not have the hash that PHSH gives, {expected}, but {found}")]
        PhshDigest {
            /// The page of the shard, counted from 0.
            page: u64,
            /// What the chunk says.
            expected: Digest,
            /// What the bytes give.
            found: Digest,
        },
        /// "Chunk Types": MJSN is JSON, at most 128 levels deep.
        #[rule("aero.json", "not JSON of at most 128 levels")]
        Json,
        /// AEROSET: the index is JSON with format, parts and global_tidx.
        #[rule("aero.set.json", "the set is not JSON with format AEROSET, parts and global_tidx")]
        SetJson,
        /// AEROSET: a path names a file in the folder of the set.
        #[rule("aero.set.path", "a path of the set leaves its folder, or is none")]
        SetPath,
        /// AEROSET: each shard is in exactly one part.
        #[rule("aero.set.shard", "a shard of the set is in no part, or in two")]
        SetShard,
        /// AEROSET: no part is missing.
        #[rule("aero.set.missing", "a file of the set is missing")]
        SetMissing,
        /// AEROSET: size_bytes and sha256 are those of the file.
        #[rule("aero.set.size", "a file of the set has another size or SHA-256 than the set says")]
        SetSize,
        /// AEROSET: index and part agree about a tensor.
        #[rule("aero.set.tensor", "index and part do not agree about a tensor")]
        SetTensor,
        /// AEROSET: no key is a duplicate.
        #[rule("aero.set.duplicate_key", "a duplicate key in the set")]
        SetDuplicateKey,
        /// AEROSET: size_bytes is a count, sha256 has 64 hexadecimal digits.
        #[rule("aero.set.field", "size_bytes is no count of bytes, or sha256 not 64 hexadecimal digits")]
        SetField,
        /// AEROSET: a part holds the data of the tensors that it lists.
        #[rule("aero.set.data", "the part lists the tensor but holds no data")]
        SetData,
        /// AEROSET: the index lists every tensor of the parts, in the part that holds it.
        #[rule("aero.set.unlisted", "the part holds a tensor that the index does not list there")]
        SetUnlisted,
    }
}

rules! {
    /// What a well-formed file has that this crate can't interpret.
    ///
    /// ```
    /// use aero_format::Unsupported;
    ///
    /// let what = Unsupported::DType { code: 99 };
    /// assert_eq!(what.id(), "aero.dtype");
    /// assert!(Unsupported::IDS.contains(&what.id()));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Unsupported {
        /// Another version of the container, or of the set's JSON.
        #[rule("aero.version", "{format} version {major}.{minor}; this reader handles 0.1")]
        Version {
            /// `AERO` or `AEROSET`.
            format: &'static str,
            /// The major number.
            major: u64,
            /// The minor number.
            minor: u64,
        },
        /// A dtype that 0.1 does not have.
        #[rule("aero.dtype", "dtype {code:#x}; AERO 0.1 has 0 to 12 and 0x8000")]
        DType {
            /// The code.
            code: u16,
        },
        /// A hash algorithm of IHSH.
        #[rule("aero.ihsh.algo", "an IHSH algorithm other than blake3-256")]
        IhshAlgorithm,
        /// The build has no zstd.
        #[rule("aero.chunk.zstd", "a zstd chunk in a build without the feature `zstd`")]
        Zstd,
        /// A part of a set that is not a local file.
        #[rule("aero.set.remote", "remote part {url:?}; nothing is fetched unless asked for")]
        Remote {
            /// Its address.
            url: String,
        },
        /// An index without weights: those are in the parts of its set.
        #[rule("aero.in_parts", "the data is in the parts of the set that this is the index of")]
        InParts,
    }
}

/// The first bytes of a BLAKE3 hash, which are enough to tell it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest([u8; 8]);

impl From<&[u8; 32]> for Digest {
    fn from(hash: &[u8; 32]) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *hash;
        Self([a, b, c, d, e, f, g, h])
    }
}

/// As hexadecimal digits, with an ellipsis for the rest.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("...")
    }
}

/// The end of a message: what was found instead, where that is known.
struct ButFound<'a>(&'a Option<Digest>);

impl fmt::Display for ButFound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(found) => write!(f, ", but {found}"),
            None => Ok(()),
        }
    }
}
