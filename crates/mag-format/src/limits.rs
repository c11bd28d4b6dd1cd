/// Limits on what the reader accepts of a file.
///
/// ```
/// let mut limits = mag_format::Limits::default();
/// limits.max_metadata_count = 10;
/// ```
///
/// By its name, as an error has it:
///
/// ```
/// use mag_format::Limits;
///
/// let mut limits = Limits::default();
/// assert!(limits.set("max_metadata_count", 10_000_000));
/// assert_eq!(limits.max_metadata_count, 10_000_000);
/// assert!(!limits.set("max_nonsense", 1)); // see `Limits::NAMES`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Tensor records. The default of 50 million takes some 3 GiB of memory to list; a file
    /// with so many has at least 97 bytes for each, or 29 in a snapshot.
    pub max_tensor_count: u64,
    /// Bytes of memory that the list of tensors may take beyond the size of the file. A tensor
    /// takes some 60 bytes beside its name, and 64 more where no other has its shape, but at least 97
    /// in the file, or 29 in a snapshot; the default of 56 MiB only stops snapshots of more than a
    /// million tensors of a few bytes each.
    pub max_index_overhead_bytes: u64,
    /// Metadata records; in a snapshot all values and keys of the user's metadata, however they
    /// are nested. The default of a million keeps a file of nothing but metadata from taking
    /// several times its size in memory.
    pub max_metadata_count: u64,
}

tensor_core::limits_by_name!(Limits {
    max_tensor_count,
    max_index_overhead_bytes,
    max_metadata_count,
});

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_tensor_count: 50_000_000,
            max_index_overhead_bytes: 56 << 20,
            max_metadata_count: 1_000_000,
        }
    }
}

/// "Limits": the longest key, in bytes.
pub(crate) const MAX_KEY: u32 = u16::MAX as u32;
/// "Limits": the largest dim, element count and byte count.
pub(crate) const MAX_SIZE: u64 = i64::MAX as u64;
/// "Limits": the highest rank.
pub(crate) const MAX_RANK: usize = 255;
/// The highest rank in a pooled snapshot.
#[cfg(feature = "snapshots")]
pub(crate) const MAX_POOLED_RANK: u8 = 63;
/// How deep a snapshot's document may nest, itself included.
#[cfg(feature = "snapshots")]
pub(crate) const MAX_DEPTH: usize = 1000;
