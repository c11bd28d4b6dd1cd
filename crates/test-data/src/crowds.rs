//! Files in which very many entries share what the file says once, or are next to nothing themselves.
//!
//! A reader that keeps a copy for each entry, or does work for each that it could do once, takes many
//! times the memory and the time that such a file is worth. Each [`Crowd`] is valid or damaged in nearly every
//! entry, of any size that is asked for, and made field by field as all files here are.
//!
//! ```
//! let crowd = test_data::crowds::CROWDS.iter().find(|crowd| crowd.name == "safetensors-empty");
//! let made = crowd.expect("a crowd of that name").make(3);
//! assert_eq!(made.files[0].0, "crowd.safetensors");
//! assert_eq!(made.index_len, made.files[0].1.len() as u64);
//! ```

mod aero;
mod burnpack;
mod mag;
mod primitiv;
mod safetensors;
mod ztensor;

/// One way to make a file of many entries.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Format and kind, as `aero-empty`.
    pub name: &'static str,
    /// What is special about it, in a few words.
    pub about: &'static str,
    /// Whether checks of it fail.
    pub damaged: bool,
    make: fn(usize) -> Made,
}

/// The files of a [`Crowd`].
#[derive(Clone, Debug)]
pub struct Made {
    /// Name and bytes of each; the first is the one to open.
    pub files: Vec<(String, Vec<u8>)>,
    /// Bytes of the index as decoded, or of the file where nothing of the index is compressed.
    pub index_len: u64,
    /// Bytes of all tensors together where they share them, as a copy has them that holds each by itself.
    pub data_len: u64,
    /// Whether each tensor has bytes of its own, as in files that people make.
    pub own: bool,
}

impl Made {
    /// The same, of so many tensors with so many bytes each.
    fn with_data(mut self, count: usize, len: usize) -> Self {
        self.data_len = count as u64 * len as u64;
        self
    }

    /// The same, of tensors of which each has bytes of its own.
    fn with_own(self) -> Self {
        Self { own: true, ..self }
    }
}

impl Crowd {
    /// The files with so many entries.
    #[must_use]
    pub fn make(&self, entries: usize) -> Made {
        (self.make)(entries)
    }
}

const fn crowd(name: &'static str, about: &'static str, make: fn(usize) -> Made) -> Crowd {
    Crowd {
        name,
        about,
        damaged: false,
        make,
    }
}

const fn damaged(name: &'static str, about: &'static str, make: fn(usize) -> Made) -> Crowd {
    Crowd {
        name,
        about,
        damaged: true,
        make,
    }
}

/// A single file with an index that isn't compressed.
fn single(ending: &str, bytes: Vec<u8>) -> Made {
    let index_len = bytes.len() as u64;
    Made {
        files: vec![(format!("crowd.{ending}"), bytes)],
        index_len,
        data_len: 0,
        own: false,
    }
}

/// Every crowd there is.
pub const CROWDS: &[Crowd] = &[
    crowd(
        "safetensors-empty",
        "no tensor has a byte",
        safetensors::empty,
    ),
    crowd("safetensors-small", "16 bytes a tensor", safetensors::small),
    crowd(
        "safetensors-keys",
        "metadata of short pairs",
        safetensors::keys,
    ),
    crowd(
        "safetensors-rank",
        "one tensor of that many dims",
        safetensors::rank,
    ),
    crowd(
        "safetensors-set",
        "a set of one shard, 16 bytes a tensor",
        safetensors::set,
    ),
    crowd(
        "safetensors-set-keys",
        "two shards with other values of the same keys",
        safetensors::set_keys,
    ),
    damaged(
        "safetensors-set-missing",
        "a set whose shard has none of its tensors",
        safetensors::set_missing,
    ),
    crowd("mag-small", "one f32 a tensor", mag::small),
    crowd("mag-keys", "metadata of short keys", mag::keys),
    crowd(
        "mag-snapshot-0.1",
        "pooled names, no tensor has a byte",
        mag::pooled_100,
    ),
    crowd(
        "mag-snapshot-0.2",
        "pooled names, no tensor has a byte",
        mag::pooled_200,
    ),
    crowd("mag-snapshot-0.3", "no tensor has a byte", mag::manifest),
    crowd(
        "mag-snapshot-0.3-list",
        "metadata of one list of numbers",
        mag::manifest_list,
    ),
    crowd(
        "mag-snapshot-0.3-keys",
        "metadata of short keys",
        mag::manifest_keys,
    ),
    crowd("burnpack-empty", "no tensor has a byte", burnpack::empty),
    crowd(
        "burnpack-small",
        "16 bytes a tensor, 256 apart",
        burnpack::small,
    ),
    crowd(
        "burnpack-packed",
        "16 bytes a tensor, as Burn 0.19 packs them",
        burnpack::packed,
    ),
    crowd(
        "burnpack-bools",
        "empty bools, spelled as Burn 0.20 does",
        burnpack::bools,
    ),
    crowd("burnpack-keys", "metadata of short pairs", burnpack::keys),
    crowd("primitiv-scalars", "one f32 a parameter", primitiv::scalars),
    crowd(
        "primitiv-ones",
        "one f32 a parameter, with a dim that is not needed",
        primitiv::ones,
    ),
    crowd(
        "primitiv-stats",
        "statistics of one parameter",
        primitiv::stats,
    ),
    crowd(
        "primitiv-configs",
        "settings of an optimizer",
        primitiv::configs,
    ),
    crowd("aero-empty", "no tensor has a byte", aero::empty),
    crowd(
        "aero-names",
        "no tensor has a byte, names of 31 bytes",
        aero::names,
    ),
    crowd(
        "aero-small",
        "16 bytes a tensor, names of 31 bytes",
        aero::small,
    ),
    crowd(
        "aero-zstd",
        "no tensor has a byte, the index is compressed",
        aero::compressed,
    ),
    crowd(
        "aero-shared",
        "all tensors are the same bytes",
        aero::shared,
    ),
    crowd("aero-keys", "metadata of short pairs", aero::keys),
    crowd(
        "aeroset-empty",
        "a set whose tensors have no byte",
        aero::set_empty,
    ),
    crowd(
        "aeroset-shared",
        "a set whose tensors are the same bytes",
        aero::set_shared,
    ),
    damaged(
        "aero-damaged",
        "tensors in a shard whose hash is wrong",
        aero::damaged,
    ),
    damaged(
        "aeroset-damaged",
        "a set whose part has such a shard",
        aero::set_damaged,
    ),
    damaged(
        "aeroset-other",
        "tensors that are other ones in their six parts",
        aero::set_other,
    ),
    crowd(
        "ztensor-0.1-bare",
        "no tensor has a byte or says its layout",
        ztensor::flat_bare,
    ),
    damaged(
        "ztensor-0.1-damaged",
        "no tensor has the checksum that it says",
        ztensor::flat_damaged,
    ),
    crowd(
        "ztensor-0.1-empty",
        "no tensor has a byte",
        ztensor::flat_empty,
    ),
    crowd(
        "ztensor-0.1-small",
        "16 bytes a tensor",
        ztensor::flat_small,
    ),
    crowd(
        "ztensor-0.1-shared",
        "all tensors are the same bytes",
        ztensor::flat_shared,
    ),
    crowd(
        "ztensor-0.1-blob",
        "all tensors are one compressed MiB",
        ztensor::flat_blob,
    ),
    crowd(
        "ztensor-1.0-empty",
        "components of one object",
        ztensor::v10_empty,
    ),
    crowd(
        "ztensor-1.1-empty",
        "components of one object",
        ztensor::v11_empty,
    ),
    crowd(
        "ztensor-1.1-dims",
        "components of one object of a million dims",
        ztensor::v11_dims,
    ),
    crowd(
        "ztensor-1.1-attributes",
        "components of one object with a million bytes beside",
        ztensor::v11_attributes,
    ),
    crowd(
        "ztensor-1.2-attributes",
        "components of one object with a million bytes beside",
        ztensor::v12_attributes,
    ),
    crowd(
        "ztensor-1.2-blob",
        "components that are one compressed MiB",
        ztensor::v12_blob,
    ),
    crowd(
        "ztensor-1.2-keys",
        "metadata of short keys",
        ztensor::v12_keys,
    ),
    crowd("ztensor-2-empty", "parts of one object", ztensor::v2_empty),
    crowd(
        "ztensor-2-objects",
        "objects without a byte",
        ztensor::v2_objects,
    ),
    crowd(
        "ztensor-2-attributes",
        "parts of one object with a million bytes beside",
        ztensor::v2_attributes,
    ),
    crowd(
        "ztensor-2-seekable",
        "parts that are one seekable MiB",
        ztensor::v2_seekable,
    ),
    crowd("ztensor-2-keys", "metadata of short keys", ztensor::v2_keys),
];

/// The name of an entry: as short as it can be with one length for all, so that their order by length is
/// their order by bytes.
fn name(at: usize) -> String {
    format!("{at:05x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_has_a_name_of_its_own_and_grows_with_its_entries() {
        let mut names: Vec<&str> = CROWDS.iter().map(|crowd| crowd.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CROWDS.len());
        for crowd in CROWDS {
            let len = |entries| -> usize {
                let files = crowd.make(entries).files;
                files.iter().map(|(_, bytes)| bytes.len()).sum()
            };
            assert!(len(2000) > len(1000), "{}", crowd.name);
        }
    }
}
