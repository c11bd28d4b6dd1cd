/// Limits on what the reader accepts of a file.
///
/// ```
/// let mut limits = safetensors_format::Limits::default();
/// limits.max_header_bytes = 1 << 30;
/// ```
///
/// By its name, as an error has it:
///
/// ```
/// use safetensors_format::Limits;
///
/// let mut limits = Limits::default();
/// assert!(limits.set("max_header_bytes", 10_000_000));
/// assert_eq!(limits.max_header_bytes, 10_000_000);
/// assert!(!limits.set("max_nonsense", 1)); // see `Limits::NAMES`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the header. The default of 100,000,000 is what the format's own library reads: some
    /// 1.2 million tensors. 2^32-1 is the most that any value here allows.
    pub max_header_bytes: u64,
    /// Tensors. The default of 50 million is beyond what the default header has room for.
    pub max_tensor_count: u64,
    /// Pairs of `__metadata__`. The default of a million keeps a file of nothing but short pairs
    /// from taking several times its size in memory.
    pub max_metadata_count: u64,
    /// Bytes of memory that the list of tensors may take beyond the size of the file. A tensor
    /// takes some 50 bytes and its name, and some 80 in the header alone; the default of 64 MiB only
    /// stops files of over a million tensors without data, or with the shortest of names.
    pub max_index_overhead_bytes: u64,
    /// How deep objects and lists may nest, the header and a tensor's own object counted in. The
    /// default of 127 is what the format's own library reads.
    pub max_value_depth: u64,
}

tensor_core::limits_by_name!(Limits {
    max_header_bytes,
    max_tensor_count,
    max_metadata_count,
    max_index_overhead_bytes,
    max_value_depth,
});

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_header_bytes: MAX_HEADER,
            max_tensor_count: 50_000_000,
            max_metadata_count: 1_000_000,
            max_index_overhead_bytes: 64 << 20,
            max_value_depth: 127,
        }
    }
}

/// What the libraries that write sets put into a shard.
#[cfg(feature = "std")]
pub(crate) const MAX_SHARD: u64 = 5_000_000_000;
/// The longest header that the format's own library reads.
pub(crate) const MAX_HEADER: u64 = 100_000_000;
/// How deep a value may nest that is handed out as a [`Value`](tensor_core::Value), which takes
/// stack to let go of.
pub(crate) const MAX_DECODED_DEPTH: usize = 1000;
