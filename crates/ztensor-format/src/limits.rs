/// Limits on what the reader accepts of a file.
///
/// ```
/// let mut limits = ztensor_format::Limits::default();
/// limits.max_decoded_bytes = 1 << 30;
/// ```
///
/// By its name, as an error has it:
///
/// ```
/// use ztensor_format::Limits;
///
/// let mut limits = Limits::default();
/// assert!(limits.set("max_decoded_bytes", 10_000_000));
/// assert_eq!(limits.max_decoded_bytes, 10_000_000);
/// assert!(!limits.set("max_nonsense", 1)); // see `Limits::NAMES`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Tensors in the index. The default of 50 million takes some 4 GiB of memory to list; an
    /// entry has at least 46 bytes in the file. Above 2^32-1 there are none, whatever the limit.
    pub max_tensor_count: u64,
    /// Bytes of memory that the list of tensors may take beyond the size of the file. A tensor
    /// takes some 60 bytes and its name, and one without data at least 46 in the file; the default of 56 MiB
    /// only stops files of a million tensors that have no data and each a shape of its own. In zTensor 1.x
    /// and 2 a component takes some 110 bytes and its name, those of one object at a time 350, and may have
    /// no data of its own: it stops files of hundreds of thousands of these.
    pub max_index_overhead_bytes: u64,
    /// Dims of all tensors of rank above 4, together, since each takes one byte of the file but
    /// eight of memory. 4 million unless set.
    pub max_dim_count: u64,
    /// CBOR items in the custom fields of one tensor, keys included: an item may take a single
    /// byte of the file, but some 40 as a [`Value`](crate::Value). 262,144 unless set.
    pub max_custom_item_count: u64,
    /// How deep arrays, maps and tags may nest; 128 unless set, as in other readers. More than 255
    /// levels are never read, whatever the limit, since a value takes stack to let go of.
    pub max_value_depth: u64,
    /// Bytes that a compressed tensor may decode to; unlimited unless set, since memory is taken
    /// only as decoding goes on, and never more than the shape asks for.
    pub max_decoded_bytes: u64,
    /// Bytes of the manifest of a zTensor 1.x or 2 file, which is read as a whole; 1 GiB unless
    /// set, which is also the most that the format has.
    pub max_manifest_bytes: u64,
    /// Bytes that the names `<object>/<component>` of a file may take together, since a long
    /// object name is repeated for each of its components. 32 MiB unless set.
    pub max_composed_bytes: u64,
    /// Bytes that compressed components of one file may decode to together where the file does
    /// not state their lengths, as in zTensor 1.0 and 1.1: opening decodes them to learn it.
    /// 1 GiB unless set.
    pub max_unsized_bytes: u64,
    /// Bytes of the window of a zstd frame where it is decoded as a stream; 128 MiB unless set,
    /// as in other readers. Rounded down to a power of two.
    pub max_window_bytes: u64,
}

tensor_core::limits_by_name!(Limits {
    max_tensor_count,
    max_index_overhead_bytes,
    max_dim_count,
    max_custom_item_count,
    max_value_depth,
    max_decoded_bytes,
    max_manifest_bytes,
    max_composed_bytes,
    max_unsized_bytes,
    max_window_bytes,
});

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_tensor_count: 50_000_000,
            max_index_overhead_bytes: 56 << 20,
            max_dim_count: 4_000_000,
            max_custom_item_count: 1 << 18,
            max_value_depth: 128,
            max_decoded_bytes: u64::MAX,
            max_manifest_bytes: 1 << 30,
            max_composed_bytes: 32 << 20,
            max_unsized_bytes: 1 << 30,
            max_window_bytes: 128 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_lets_a_value_nest_deeper_than_a_stack_has_room_for() {
        let refused = |levels: usize, max: u64| {
            let mut limits = Limits::default();
            assert!(limits.set("max_value_depth", max));
            let bytes = [vec![0x81; levels], vec![0]].concat();
            let checked = crate::cbor::check_item(&bytes, limits.max_value_depth);
            checked.err().and_then(|error| error.rule_id())
        };
        assert_eq!(refused(128, 128), None);
        assert_eq!(refused(129, 128), Some("max_value_depth"));
        for max in [255, 256, 1 << 32, u64::MAX] {
            assert_eq!(refused(255, max), None, "{max}");
            assert_eq!(refused(256, max), Some("max_value_depth"), "{max}");
        }
    }
}
