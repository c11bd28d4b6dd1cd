use tensor_core::{At, LimitExceeded};

use crate::Result;

/// How much of a file the reader is willing to take on; the defaults are those of the format's
/// "Limits" and of its reference readers.
///
/// ```
/// let mut limits = aero_format::Limits::default();
/// limits.max_metadata_bytes = 1 << 20;
/// ```
///
/// By its name, as an error has it:
///
/// ```
/// use aero_format::Limits;
///
/// let mut limits = Limits::default();
/// assert!(limits.set("max_metadata_bytes", 10_000_000));
/// assert_eq!(limits.max_metadata_bytes, 10_000_000);
/// assert!(!limits.set("max_nonsense", 1)); // see `Limits::NAMES`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Chunks: MAX_ENTRY_COUNT.
    pub max_chunk_count: u64,
    /// Bytes of the string table: MAX_STRING_TABLE.
    pub max_string_table_bytes: u64,
    /// Bytes of the names of all chunks, which may share the string table but take memory each;
    /// 64 MiB unless set.
    pub max_chunk_name_bytes: u64,
    /// Uncompressed bytes of a metadata chunk: MAX_METADATA_ULEN.
    pub max_metadata_bytes: u64,
    /// How many bytes each byte of a compressed metadata chunk may stand for, once it holds more
    /// than 16 MiB; 64 unless set, several times what tensor indexes compress to.
    pub max_metadata_ratio: u64,
    /// Bytes of memory that a JSON or MessagePack document may take beyond the size of the file,
    /// as estimated before it is decoded: an item may be a single byte of it, and takes some 100,
    /// a JSON object some 800. 64 MiB unless set.
    pub max_metadata_overhead_bytes: u64,
    /// Bytes of a tensor's name.
    pub max_name_bytes: u64,
    /// Dims of one tensor; more than 32 are never read, whatever the limit.
    pub max_tensor_dim_count: u64,
    /// How deep MessagePack may nest; more than 1000 levels are never read, whatever the limit, since
    /// a value takes stack to build and to let go of.
    pub max_value_depth: u64,
    /// Bytes of a set's JSON.
    pub max_set_bytes: u64,
}

tensor_core::limits_by_name!(Limits {
    max_chunk_count,
    max_string_table_bytes,
    max_chunk_name_bytes,
    max_metadata_bytes,
    max_metadata_ratio,
    max_metadata_overhead_bytes,
    max_name_bytes,
    max_tensor_dim_count,
    max_value_depth,
    max_set_bytes,
});

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_chunk_count: 1_000_000,
            max_string_table_bytes: 512 << 20,
            max_chunk_name_bytes: 64 << 20,
            max_metadata_bytes: 2 << 30,
            max_metadata_ratio: 64,
            max_metadata_overhead_bytes: 64 << 20,
            max_name_bytes: 4096,
            max_tensor_dim_count: 32,
            max_value_depth: 64,
            max_set_bytes: 64 << 20,
        }
    }
}

/// Bytes of memory that an item of MessagePack takes at the most while a list of them grows.
const ITEM: u64 = 96;
/// The same of JSON, which is decoded twice.
const JSON_ITEM: u64 = 160;
/// What the node of a tree takes that a JSON object begins with.
const JSON_OBJECT: u64 = 640;

/// The deepest that a value may nest.
pub(crate) const MAX_DEPTH: u32 = 1000;

impl Limits {
    /// How deep MessagePack may nest, by the limit and by what a stack has room for.
    pub(crate) fn value_depth(&self) -> u32 {
        u32::try_from(self.max_value_depth).map_or(MAX_DEPTH, |depth| depth.min(MAX_DEPTH))
    }

    /// Fails where so many items of MessagePack would take too much memory.
    pub(crate) fn check_items(&self, items: u64, file_len: u64, at: At) -> Result<()> {
        self.check_overhead(items.saturating_mul(ITEM), file_len, at)
    }

    /// Fails where the values of a JSON text would take too much memory. Each has a character of
    /// its own before it; those within texts are counted too.
    pub(crate) fn check_json(&self, text: &[u8], file_len: u64, at: At) -> Result<()> {
        let cost = text.iter().map(|byte| match byte {
            b',' | b':' | b'[' => JSON_ITEM,
            b'{' => JSON_OBJECT,
            _ => 0,
        });
        self.check_overhead(cost.fold(0, u64::saturating_add), file_len, at)
    }

    fn check_overhead(&self, memory: u64, file_len: u64, at: At) -> Result<()> {
        let (value, max) = (
            memory.saturating_sub(file_len),
            self.max_metadata_overhead_bytes,
        );
        if value <= max {
            return Ok(());
        }
        Err(LimitExceeded {
            limit: "max_metadata_overhead_bytes",
            value,
            max,
            at,
        }
        .into())
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test may stop at the first surprise")]
mod tests {
    use super::*;
    use crate::msgpack::Decoder;

    #[test]
    fn no_limit_lets_a_value_nest_deeper_than_a_stack_has_room_for() {
        let reads = |levels: usize, max: u64| {
            let mut limits = Limits::default();
            assert!(limits.set("max_value_depth", max));
            let bytes = [vec![0x91; levels], vec![0xC0]].concat();
            Decoder::new(&bytes, limits.value_depth()).value().is_ok()
        };
        assert!(reads(64, 64) && !reads(65, 64));
        for max in [1000, 1001, 1 << 32, u64::MAX] {
            assert!(reads(1000, max) && !reads(1001, max), "{max}");
        }
    }
}
