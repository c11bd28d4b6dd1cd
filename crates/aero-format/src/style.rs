use alloc::collections::BTreeMap;

use tensor_core::Entries;
use tensor_core::codec::HasEntries;

use crate::chunk::FourCc;
use crate::{Archive, Entry};

/// How large pages are that shards are aligned to.
const PAGE: u64 = 4096;

/// What a file's writer chose for the file as a whole: hashes, pages, shards, compression.
///
/// A copy keeps it, with [`Builder::style`](crate::Builder::style) or
/// [`Builder::like`](crate::Builder::like).
///
/// ```
/// use aero_format::{Archive, Builder, Style, Tensor};
///
/// let mut builder = Builder::new();
/// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
/// builder.ihsh(true).tensor_hashes(true).page_align(true);
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let mut copy = Builder::new();
/// copy.style(Style::of(&archive));
/// copy.copy(&archive, archive.entry("w").ok_or("no w")?)?;
/// assert_eq!(copy.to_vec()?, builder.to_vec()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Style {
    /// Whether an IHSH chunk covers header, TOC and string table.
    pub ihsh: bool,
    /// The page size of PHSH chunks.
    pub phsh: Option<u64>,
    /// Whether all shards start on a page of 4096 bytes.
    pub page_align: bool,
    /// How far shards are filled, where there are several: they come out the same again.
    pub shard_bytes: Option<u64>,
    /// The most shards in a part of a set.
    pub part_shards: Option<u32>,
    /// Whether the tensor index is compressed.
    pub compressed: bool,
    /// Whether the index has a hash of any tensor.
    pub tensor_hashes: bool,
}

impl Style {
    /// That of a single file. What can't be read is taken as absent.
    #[must_use]
    pub fn of(archive: &Archive) -> Self {
        let chunks = archive.chunks();
        let has = |fourcc| chunks.iter().any(|chunk| chunk.fourcc() == fourcc);
        let shards = || chunks.iter().filter(|chunk| chunk.fourcc() == FourCc::WTSH);
        Self {
            ihsh: has(FourCc::IHSH),
            phsh: archive.page_size().ok().flatten(),
            page_align: shards().count() > 0 && shards().all(|shard| shard.offset() % PAGE == 0),
            shard_bytes: fill(archive.entries()).filter(|_| shards().count() > 1),
            part_shards: None,
            compressed: chunks
                .iter()
                .any(|chunk| chunk.fourcc() == FourCc::TIDX && chunk.is_zstd()),
            tensor_hashes: archive.entries().any(|entry| entry.hash_b3().is_some()),
        }
    }

    /// That of a set: of its first part, and of how many shards are in each.
    ///
    /// ```
    /// use aero_format::{Builder, Set, Style, Tensor};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.aeroset.json");
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
    /// builder.page_align(true).write_set(&path)?;
    /// let mut copy = Builder::new();
    /// copy.style(Style::of_set(&Set::open(&path)?)); // pages here too
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    #[must_use]
    pub fn of_set(set: &crate::Set) -> Self {
        let Ok(first) = set.part(0) else {
            return Self::default();
        };
        let shards = set.part_shards();
        let several = set.part_shards().sum::<usize>() > 1;
        Self {
            part_shards: shards.max().and_then(|most| u32::try_from(most).ok()),
            shard_bytes: fill(set.entries()).filter(|_| several),
            tensor_hashes: set.entries().any(|entry| entry.hash_b3().is_some()),
            ..Self::of(&first)
        }
    }
}

/// How far shards were filled: the longest one of several tensors, since a tensor that is too long for a
/// shard has one of its own whatever its length.
fn fill<'a, S>(entries: Entries<'a, S>) -> Option<u64>
where
    S: HasEntries<Entry<'a> = Entry<'a>>,
{
    let mut shards: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for entry in entries {
        let end = entry
            .data_off()
            .saturating_add(entry.stored_len().unwrap_or(0));
        let (tensors, len) = shards.entry(entry.shard_id()).or_default();
        *tensors += 1;
        *len = end.max(*len);
    }
    let several = shards.values().filter(|(tensors, _)| *tensors > 1);
    Some(several.map(|(_, len)| *len).max().unwrap_or(1).max(1))
}
