//! What is odd about the files of a set, and no fault.

use std::path::Path;
use std::string::String;
use std::vec::Vec;

use tensor_core::Value;
use tensor_core::codec::NameTable;

use super::Shard;
use super::index::SetIndex;
use crate::{Archive, MetaEntry, json};

/// The metadata of all shards; keys that differ are noted, the first few of a shard by name.
pub(super) fn metadata_of(shards: &[Shard], oddities: &mut Vec<String>) -> Vec<MetaEntry> {
    /// How many keys of a shard are named.
    const NAMED: usize = 3;
    let mut metadata: Vec<MetaEntry> = Vec::new();
    let mut names = NameTable::default();
    for shard in shards {
        let archive = shard.archive.iter();
        let mut differing = 0;
        for pair in archive.flat_map(Archive::metadata) {
            match names.find(&metadata, MetaEntry::key, pair.key()) {
                Some(at) if metadata.get(at) != Some(pair) => {
                    differing += 1;
                    if differing <= NAMED {
                        oddities.push(std::format!(
                            "{}: metadata {:?} has another value than in the shards before",
                            shard.name,
                            pair.key()
                        ));
                    }
                }
                Some(_) => {}
                None => {
                    // It isn't there, so this does not fail.
                    let _ = names.push(&mut metadata, MetaEntry::key, pair.clone());
                }
            }
        }
        if differing > NAMED {
            let more = differing - NAMED;
            oddities.push(std::format!(
                "{}: {more} more keys of metadata have another value than in the shards before",
                shard.name
            ));
        }
    }
    metadata
}

/// Whether `total_size` is what the tensors take: `sum`.
pub(super) fn total_size(index: &SetIndex, sum: u64) -> Option<String> {
    let json = index.total_size.as_deref()?;
    let is_sum = match json::decode(json) {
        Value::Int(value) => value == i128::from(sum),
        #[allow(clippy::cast_precision_loss, reason = "so is what it is compared with")]
        Value::Float(value) => value == sum as f64,
        _ => false,
    };
    let short: String = json.chars().take(40).collect();
    (!is_sum).then(|| std::format!("total_size is {short}, the tensors take {sum} bytes"))
}

/// Files of the folder that are named as shards of this set are and that the index doesn't name: what is
/// left of another one.
pub(super) fn strays(path: &Path, shards: &[Shard]) -> Vec<String> {
    let Some(stem) = super::write::stem(path) else {
        return Vec::new();
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let is_stray = |name: &String| {
        super::write::is_shard_of(&stem, name) && !shards.iter().any(|shard| *shard.name == **name)
    };
    let mut strays: Vec<String> = names.filter(is_stray).collect();
    strays.sort_unstable();
    let text = |name| std::format!("{name} is a shard by its name, and the index doesn't name it");
    strays.into_iter().map(text).collect()
}
