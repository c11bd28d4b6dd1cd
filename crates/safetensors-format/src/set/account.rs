//! What the shards of a set take of memory together.

use crate::{Archive, Error, Limits, MetaEntry};

/// Memory beyond the sizes of the shards that are open: one limit is for all of them.
#[derive(Debug, Default)]
pub(super) struct Account {
    taken: u64,
}

impl Account {
    /// What the next shard may take.
    pub(super) fn left(&self, limits: &Limits) -> u64 {
        limits.max_index_overhead_bytes.saturating_sub(self.taken)
    }

    /// Counts a shard, and its metadata once more: that of all shards is one list as well.
    pub(super) fn take(&mut self, shard: &Archive) {
        let pairs = shard.metadata().iter();
        let memory = pairs.map(|pair| MetaEntry::memory(pair.key.len(), pair.value.len()));
        let all = memory.fold(0, u64::saturating_add);
        // What is in no overhead, since the file is as large, pays for the list, too.
        let more = all.saturating_sub(shard.file_len());
        self.taken = self
            .taken
            .saturating_add(shard.overhead())
            .saturating_add(more);
    }

    /// An error of the next shard, which says what all would take and may take.
    pub(super) fn named(&self, error: Error, limits: &Limits) -> Error {
        match error {
            Error::Limit(mut limit) if limit.limit == "max_index_overhead_bytes" => {
                limit.value = limit.value.saturating_add(self.taken);
                limit.max = limits.max_index_overhead_bytes;
                Error::Limit(limit)
            }
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Set};

    #[test]
    fn shards_take_from_one_limit() {
        let folder = tempfile::tempdir().unwrap();
        let shard = |name: &str| {
            let mut builder = Builder::new();
            for key in 0..100 {
                builder.metadata(std::format!("{key}"), "").unwrap();
            }
            let tensor = tensor_core::Tensor::from_slice(&[0u8], &[1]).unwrap();
            builder.tensor(name, tensor).unwrap();
            builder.write_file(folder.path().join(name)).unwrap();
        };
        shard("a.safetensors");
        shard("b.safetensors");
        let path = folder.path().join("m.safetensors.index.json");
        let json =
            r#"{"weight_map":{"a.safetensors":"a.safetensors","b.safetensors":"b.safetensors"}}"#;
        std::fs::write(&path, json).unwrap();
        let open = |max: u64| {
            let mut options = crate::ReadOptions::default();
            options.limits.max_index_overhead_bytes = max;
            Set::open_with(&path, &options)
        };
        // Enough for each of them, and not for both.
        let one = Archive::open(folder.path().join("a.safetensors"));
        let one = one.unwrap().overhead();
        let error = open(one).unwrap_err().to_string();
        let limit = std::format!("is above the limit of {one} ");
        assert!(
            error.contains("b.safetensors: ") && error.contains(&limit),
            "{error}"
        );
        // What it says is of both.
        let words = error.split(' ');
        let value = words.take_while(|word| *word != "is").last().unwrap();
        assert!(value.parse::<u64>().unwrap() > one, "{error}");
        assert!(open(4 * one).is_ok());
        assert!(
            open(one - 1)
                .unwrap_err()
                .to_string()
                .contains("a.safetensors: ")
        );
    }
}
