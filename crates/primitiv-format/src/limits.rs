/// Limits on what the reader accepts of a file.
///
/// ```
/// let mut limits = primitiv_format::Limits::default();
/// limits.max_path_part_count = 10;
/// ```
///
/// By its name, as an error has it:
///
/// ```
/// use primitiv_format::Limits;
///
/// let mut limits = Limits::default();
/// assert!(limits.set("max_path_part_count", 10_000_000));
/// assert_eq!(limits.max_path_part_count, 10_000_000);
/// assert!(!limits.set("max_nonsense", 1)); // see `Limits::NAMES`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Parts of one address. The default of 1024 is far beyond any model; the format has none.
    pub max_path_part_count: u64,
    /// Bytes of memory that the list of entries may take beyond the size of the file. An entry takes
    /// some 50 bytes and its name, and a file can hold one in 23; the default of 56 MiB only stops files of
    /// millions of tensors of one number each. With what a program takes for itself that is 64 MiB.
    pub max_index_overhead_bytes: u64,
}

tensor_core::limits_by_name!(Limits {
    max_path_part_count,
    max_index_overhead_bytes,
});

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_path_part_count: 1024,
            max_index_overhead_bytes: 56 << 20,
        }
    }
}

/// The highest rank; counted before trailing ones are dropped.
pub(crate) const MAX_RANK: u32 = 8;
/// The most elements of a shape, its batch counted in.
pub(crate) const MAX_VOLUME: u64 = u32::MAX as u64;
/// The most bytes of a tensor.
pub(crate) const MAX_DATA: u64 = u32::MAX as u64;
