//! A set of parts that are there already: what its index and its JSON are.

use std::path::{Path, PathBuf};
use std::string::String;
use std::vec::Vec;

use sha2::{Digest, Sha256};
use tensor_core::codec::write_vec;
use tensor_core::{Source, SourceError, WriteOptions};

use super::set::{file_json, joined_index_name, part_json, set_json};
use super::{Builder, Placed, Shard, TensorOptions};
use crate::chunk::FourCc;
use crate::integrity::{ShardHashes, hex};
use crate::{Archive, Result};

/// A part of a set that was written alone, for [`IndexStyle::join`].
#[derive(Clone, Debug)]
pub struct JoinedPart {
    /// The name of its file, which lies beside the set.
    pub name: String,
    /// The SHA-256 of the file in lower-case hex.
    pub sha256: String,
    /// The file, open; of it the index alone is read.
    pub archive: Archive,
}

/// How the index of a set is written, whatever tensors it lists.
///
/// It is what those who write parts alone tell the one who joins them:
///
/// ```
/// use aero_format::{Archive, Builder, JoinedPart, Tensor, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.aeroset.json");
/// let mut builder = Builder::new();
/// for name in ["a", "b"] {
///     builder.tensor(name, Tensor::from_slice(&[1.0f32], &[1])?)?;
/// }
/// builder.parts_start_at([0, 1]).write_set(&path)?;
///
/// // From the parts alone:
/// # use sha2::Digest;
/// let part = |file: &std::path::PathBuf| -> Result<JoinedPart, Box<dyn std::error::Error>> {
///     let name = file.file_name().ok_or("no name")?.to_string_lossy().into_owned();
///     let digest = sha2::Sha256::digest(std::fs::read(file)?);
///     let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
///     Ok(JoinedPart { name, sha256, archive: Archive::open(file)? })
/// };
/// let files = builder.set_files(&path);
/// let parts = vec![part(&files[0])?, part(&files[1])?];
/// let parts = parts.into_iter().map(Ok);
/// for (file, bytes) in builder.index_style().join::<aero_format::Error>(&path, parts)? {
///     assert_eq!(std::fs::read(file)?, bytes); // the same index, the same JSON
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStyle {
    /// The model's name, if it has one.
    pub model_name: Option<String>,
    /// The model's architecture, if it has one.
    pub architecture: Option<String>,
    /// The level of zstd, `None` for no compression.
    pub zstd_level: Option<i32>,
    /// Whether an IHSH chunk covers header, TOC and string table.
    pub ihsh: bool,
}

impl Builder {
    /// How this builder writes the index of a set. [`IndexStyle`] has an example.
    #[must_use]
    pub fn index_style(&self) -> IndexStyle {
        IndexStyle {
            model_name: self.options.model_name.clone(),
            architecture: self.options.architecture.clone(),
            zstd_level: self.options.level,
            ihsh: self.options.ihsh,
        }
    }
}

impl IndexStyle {
    /// The files of the set at `path` that name its parts, each with its place: the index, then the JSON. They
    /// are byte for byte what a builder with [`parts_start_at`](Builder::parts_start_at) writes beside these
    /// parts, which come in their order and of which one after the other is open. The type has an example.
    ///
    /// # Errors
    /// What `parts` fail with, and as [`Builder::write_set`].
    pub fn join<E: From<crate::Error>>(
        &self,
        path: impl AsRef<Path>,
        parts: impl IntoIterator<Item = Result<JoinedPart, E>>,
    ) -> Result<Vec<(PathBuf, Vec<u8>)>, E> {
        let path = path.as_ref();
        let mut joiner = Joiner::new(self)?;
        let mut listed = Vec::new();
        for part in parts {
            let part = part?;
            let (first, len) = (joiner.shards.len(), part.archive.file_len());
            let shards = joiner.take(&part.archive)?;
            listed.push(part_json(&part.name, &part.sha256, len, first, shards));
        }
        let Joiner {
            builder,
            shards,
            hashed,
        } = joiner;
        let layout = builder.layout_with(&shards, false, hashed)?;
        let options = WriteOptions::default();
        let index = write_vec(layout.len, |sink| builder.write(&layout, sink, &options))?;
        let name = joined_index_name(path);
        let sha256 = hex(&Sha256::digest(&index));
        let listed_index = file_json(&name, &sha256, index.len() as u64);
        let text = set_json(&builder.options, listed, &listed_index);
        Ok(vec![
            (path.with_file_name(name), index),
            (path.to_path_buf(), text.into_bytes()),
        ])
    }
}

/// The tensors and shards of parts that were looked at.
struct Joiner {
    builder: Builder,
    shards: Vec<Shard>,
    hashed: Vec<ShardHashes>,
}

impl Joiner {
    fn new(style: &IndexStyle) -> Result<Self> {
        let mut builder = Builder::new();
        builder.options.model_name.clone_from(&style.model_name);
        builder.options.architecture.clone_from(&style.architecture);
        builder.zstd_level(style.zstd_level)?.ihsh(style.ihsh);
        Ok(Self {
            builder,
            shards: Vec::new(),
            hashed: Vec::new(),
        })
    }

    /// Takes all tensors of the next part, and tells how many shards they are in.
    fn take(&mut self, part: &Archive) -> Result<usize> {
        let first = self.shards.len();
        let chunks = part.chunks().iter();
        let count = chunks
            .filter(|chunk| chunk.fourcc() == FourCc::WTSH)
            .count();
        for _ in 0..count {
            self.shards.push(Shard {
                tensors: Vec::new(),
                len: 0,
            });
            self.hashed.push(ShardHashes {
                whole: [0; 32],
                pages: None,
                tensors: Some(Vec::new()),
            });
        }
        for entry in part.entries() {
            let mut options = TensorOptions::new().with_flags(entry.flags());
            options.quant_id = entry.quant_id();
            for (key, value) in part.extra(entry) {
                options.set_extra(key, value)?;
            }
            let len = entry.stored_len().unwrap_or(0);
            let (code, shape) = (entry.dtype_code(), entry.shape().clone());
            let tensor = self.builder.tensors.len();
            let data = std::sync::Arc::new(Elsewhere(len));
            self.builder
                .push(entry.name().into(), code, shape, data, options)?;
            let place =
                usize::try_from(entry.shard_id()).map_or(usize::MAX, |id| first.saturating_add(id));
            if let Some(shard) = self.shards.get_mut(place) {
                let offset = entry.data_off();
                shard.tensors.push(Placed { tensor, offset });
                shard.len = shard.len.max(offset.saturating_add(len));
            }
            if let Some(hashes) = self.hashed.get_mut(place) {
                hashes.tensors = entry.hash_b3().and_then(|hash| {
                    let mut known = hashes.tensors.take()?;
                    known.push(*hash);
                    Some(known)
                });
            }
        }
        Ok(count)
    }
}

/// The bytes of a tensor that lie in a part, of which the index says how many they are.
struct Elsewhere(u64);

impl Source for Elsewhere {
    fn size(&self) -> u64 {
        self.0
    }

    fn read_into(&self, _offset: u64, _out: &mut [u8]) -> Result<(), SourceError> {
        let error = std::io::Error::from(std::io::ErrorKind::Unsupported);
        Err(SourceError::Other(std::boxed::Box::new(error)))
    }
}
