/// Limits on what the reader accepts of a file.
///
/// The defaults for the metadata and the number of tensors are those of Burn's own reader; the
/// others keep a file of nothing but small items from taking many times its size in memory. No
/// file that is known comes near them. Tensor data has no limit of its own: it is read on demand,
/// and its ranges are checked against the file.
///
/// ```
/// use burnpack_format::{Archive, Builder, Kind, ReadOptions};
///
/// let file = Builder::new().metadata("format", "burnpack")?.to_vec()?;
/// let mut options = ReadOptions::default();
/// options.limits.max_metadata_bytes = 10;
/// let error = Archive::from_source(burnpack_format::Bytes::from(file), &options).unwrap_err();
/// assert_eq!(error.kind(), Kind::Limit);
/// # Ok::<(), burnpack_format::Error>(())
/// ```
///
/// By its name, as an error has it:
///
/// ```
/// use burnpack_format::Limits;
///
/// let mut limits = Limits::default();
/// assert!(limits.set("max_tensor_count", 20_000_000));
/// assert_eq!(limits.max_tensor_count, 20_000_000);
/// assert!(!limits.set("max_nonsense", 1)); // see `Limits::NAMES`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of CBOR between header and data; 1 GiB. Burn itself goes as far as [`READ_BY_BURN`](Self::READ_BY_BURN).
    pub max_metadata_bytes: u64,
    /// Tensors; ten million, of which Burn reads a hundredth.
    pub max_tensor_count: u64,
    /// Key-value pairs of `metadata`, of `scalars`, and of unknown keys in one map, each; 100,000.
    pub max_metadata_count: u64,
    /// Dims of all tensors together; 32 million.
    pub max_dim_count: u64,
    /// Bytes of keys and text values together; 32 MiB.
    pub max_text_bytes: u64,
    /// Bytes of memory that the list of tensors may take beyond the size of the file; 48 MiB. A tensor takes
    /// some 70 bytes, its name and its dims, and some 80 in the metadata alone.
    pub max_index_overhead_bytes: u64,
}

impl Limits {
    /// What Burn's own reader has, as far as it knows these limits: 100 MiB of metadata, 100,000 tensors.
    ///
    /// ```
    /// use burnpack_format::Limits;
    ///
    /// assert!(Limits::READ_BY_BURN.max_tensor_count < Limits::default().max_tensor_count);
    /// ```
    pub const READ_BY_BURN: Self = Self {
        max_metadata_bytes: 100 << 20,
        max_tensor_count: 100_000,
        max_metadata_count: 100_000,
        max_dim_count: 32_000_000,
        max_text_bytes: 32 << 20,
        max_index_overhead_bytes: 48 << 20,
    };
}

tensor_core::limits_by_name!(Limits {
    max_metadata_bytes,
    max_tensor_count,
    max_metadata_count,
    max_dim_count,
    max_text_bytes,
    max_index_overhead_bytes,
});

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_metadata_bytes: 1 << 30,
            max_tensor_count: 10_000_000,
            ..Self::READ_BY_BURN
        }
    }
}

/// What a [`Builder`](crate::Builder) refuses to write because Burn refuses to read it.
///
/// ```
/// use burnpack_format::{Builder, WriteLimits};
///
/// let mut limits = WriteLimits::default();
/// limits.max_file_bytes = 500 << 30; // what Burn 0.23 reads
/// let mut builder = Builder::new();
/// builder.limits(limits);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct WriteLimits {
    /// Bytes of CBOR between header and data; 100 MiB.
    pub max_metadata_bytes: u64,
    /// Tensors; 100,000.
    pub max_tensor_count: u64,
    /// Bytes of one tensor; 10 GiB.
    pub max_tensor_bytes: u64,
    /// Bytes of the file; 100 GiB, as Burn up to 0.22 reads.
    pub max_file_bytes: u64,
}

impl Default for WriteLimits {
    fn default() -> Self {
        Self {
            max_metadata_bytes: Limits::READ_BY_BURN.max_metadata_bytes,
            max_tensor_count: Limits::READ_BY_BURN.max_tensor_count,
            max_tensor_bytes: 10 << 30,
            max_file_bytes: 100 << 30,
        }
    }
}

/// How deep unknown values may nest, as in Burn's reader.
pub(crate) const MAX_DEPTH: usize = 128;
