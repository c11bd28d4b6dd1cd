/// How much of a file the reader is willing to take on; the defaults are those of the format's
/// "Limits" and of its reference readers.
///
/// ```
/// let mut limits = aero_format::Limits::default();
/// limits.max_metadata_ulen = 1 << 20;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Chunks: MAX_ENTRY_COUNT.
    pub max_chunks: u32,
    /// Bytes of the string table: MAX_STRING_TABLE.
    pub max_string_table: u64,
    /// Bytes of the names of all chunks, which may share the string table but take memory each;
    /// 64 MiB unless set.
    pub max_chunk_names: u64,
    /// Uncompressed bytes of a metadata chunk: MAX_METADATA_ULEN.
    pub max_metadata_ulen: u64,
    /// How many bytes each byte of a compressed metadata chunk may stand for, once it holds more
    /// than 16 MiB; 64 unless set, several times what tensor indexes compress to.
    pub max_metadata_ratio: u64,
    /// Bytes of a tensor's name.
    pub max_name: u32,
    /// Dims of a tensor; more than 32 are never read.
    pub max_rank: u32,
    /// How deep MessagePack may nest.
    pub max_depth: u32,
    /// Bytes of a set's JSON.
    pub max_set_json: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_chunks: 1_000_000,
            max_string_table: 512 << 20,
            max_chunk_names: 64 << 20,
            max_metadata_ulen: 2 << 30,
            max_metadata_ratio: 64,
            max_name: 4096,
            max_rank: 32,
            max_depth: 64,
            max_set_json: 64 << 20,
        }
    }
}
