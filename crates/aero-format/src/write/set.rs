//! A set: several files, of which none appears before all are complete.

use std::string::String;
use std::vec::Vec;

use tensor_core::codec::{AtomicFile, Output, SealedFile, Sink, stale_files};
use tensor_core::{Source, WriteOptions};

use super::{Builder, FileLayout};
use crate::Result;
use crate::integrity::hex;

/// The file of a set that lists the tensors of all its parts.
const INDEX_NAME: &str = "index.aero";

impl Builder {
    /// Writes a set: the JSON at `path`, and `index.aero` and `part-000.aero` ... beside it. None
    /// of them appears before all are complete; the JSON comes last. Files of these names are
    /// replaced, of another set too: [`set_files`](Self::set_files) lists them.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file); a set that was there is as it was.
    ///
    /// ```
    /// use aero_format::{Builder, Tensor, WriteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.aeroset.json");
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
    /// assert_eq!(builder.set_files(&path).len(), 2); // index.aero and part-000.aero
    /// builder.write_set(&path)?;
    /// assert!(builder.stale_files(&path).is_empty()); // nothing that writing it again would delete
    /// builder.write_set_with(&path, &WriteOptions::default().with_durable(false))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_set(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        self.write_set_with(path, &WriteOptions::default())
    }

    /// Writes a set as [`write_set`](Self::write_set) does, with `options`.
    ///
    /// # Errors
    /// As [`write_set`](Self::write_set), or a stop on request.
    ///
    /// ```
    /// use aero_format::{Builder, WriteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.aeroset.json");
    /// let mut builder = Builder::new();
    /// builder.write_set(&path)?;
    /// let once = WriteOptions::default().with_create_new(true);
    /// assert!(builder.write_set_with(&path, &once).is_err()); // there is a set
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_set_with(
        &self,
        path: impl AsRef<std::path::Path>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        use serde_json::json;

        let path = path.as_ref();
        let shards = self.shards();
        let per_part = usize::try_from(self.options.max_part_shards).unwrap_or(usize::MAX);
        let mut parts = Vec::new();
        let mut files = Vec::new();
        let mut write = |name: &str, layout: &FileLayout| {
            let file = Hashed::create(&path.with_file_name(name), self.sources(), options)?;
            let mut sink = Sink::new(file);
            self.write(layout, &mut sink, options)?;
            let (file, sha256, len) = sink.into_inner().seal()?;
            files.push(file);
            Ok::<_, crate::Error>(json!({"path": name, "sha256": sha256, "size_bytes": len}))
        };
        let mut hashed = Vec::new();
        for (ordinal, part) in shards.chunks(per_part).enumerate() {
            // What the format can't hold, and what can't be read, fails before the first byte.
            let layout = self.layout(part, options)?;
            let mut entry = write(&part_name(ordinal), &layout)?;
            hashed.extend(layout.into_hashes());
            let first = ordinal * per_part;
            let ids: Vec<usize> = (first..first + part.len()).collect();
            if let Some(fields) = entry.as_object_mut() {
                fields.insert("shards".into(), ids.into());
            }
            parts.push(entry);
        }
        // The index has the hashes that the parts were written with.
        let index = write(INDEX_NAME, &self.layout_with(&shards, false, hashed)?)?;
        let set = json!({
            "format": {"name": "AEROSET", "version": [0, 1]},
            "model": {
                "name": self.options.name(),
                "architecture": self.options.architecture(),
            },
            "parts": parts,
            "global_tidx": index,
        });
        let text = std::format!("{set:#}\n");
        let mut file = AtomicFile::create_from(path, self.sources(), options)?;
        file.put(text.as_bytes())?;
        files.push(file.seal()?);
        let stale = match options.create_new {
            true => Vec::new(),
            false => self.stale_files(path),
        };
        SealedFile::commit_set(files, stale, options)
    }

    /// The parts of the set that is at `path` now which [`write_set`](Self::write_set) would leave without
    /// a set: it deletes them, unless data is read from them.
    ///
    /// ```
    /// use aero_format::{Builder, Tensor};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.aeroset.json");
    /// let one = |name: &str| -> Result<Builder, Box<dyn std::error::Error>> {
    ///     let mut builder = Builder::new();
    ///     builder.max_shard_bytes(4).max_part_shards(1);
    ///     builder.tensor(name, Tensor::from_slice(&[1.0f32], &[1])?)?;
    ///     Ok(builder)
    /// };
    /// let mut two = one("a")?;
    /// two.tensor("b", Tensor::from_slice(&[2.0f32], &[1])?)?;
    /// two.write_set(&path)?;
    /// let stale = one("a")?.stale_files(&path); // a set of one part where there are two
    /// assert_eq!(stale, [folder.path().join("part-001.aero")]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stale_files(&self, path: impl AsRef<std::path::Path>) -> Vec<std::path::PathBuf> {
        let path = path.as_ref();
        let Ok(old) = crate::Set::open(path) else {
            return Vec::new();
        };
        // The first one is the set itself.
        let old = old.files().into_iter().skip(1).collect();
        stale_files(path, old, &self.set_files(path), || self.sources())
    }

    /// The files that [`write_set`](Self::write_set) puts beside the JSON at `path`, whatever its
    /// name: two sets in one folder would write the same ones.
    ///
    /// ```
    /// use aero_format::{Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
    /// let files = builder.set_files("model.aeroset.json");
    /// assert!(files.iter().any(|file| file.ends_with("part-000.aero")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_files(&self, path: impl AsRef<std::path::Path>) -> Vec<std::path::PathBuf> {
        let path = path.as_ref();
        let per_part = usize::try_from(self.options.max_part_shards).unwrap_or(usize::MAX);
        let parts = self.shards().len().div_ceil(per_part);
        let mut files: Vec<_> = (0..parts)
            .map(|ordinal| path.with_file_name(part_name(ordinal)))
            .collect();
        files.push(path.with_file_name(INDEX_NAME));
        files
    }
}

/// The file of a set's part.
fn part_name(ordinal: usize) -> String {
    std::format!("part-{ordinal:03}.aero")
}

/// A file whose SHA-256 is taken as it is written.
struct Hashed {
    file: AtomicFile,
    hasher: sha2::Sha256,
    len: u64,
}

impl Hashed {
    fn create<'s>(
        path: &std::path::Path,
        sources: impl Iterator<Item = &'s dyn Source>,
        options: &WriteOptions<'_>,
    ) -> Result<Self> {
        Ok(Self {
            file: AtomicFile::create_chosen(path, sources, options)?,
            hasher: sha2::Digest::new(),
            len: 0,
        })
    }

    /// The file, the hash in hexadecimal, and the length.
    fn seal(self) -> Result<(SealedFile, String, u64)> {
        let digest = sha2::Digest::finalize(self.hasher);
        Ok((self.file.seal()?, hex(&digest), self.len))
    }
}

impl Output for Hashed {
    fn put(&mut self, bytes: &[u8]) -> Result<(), tensor_core::SinkError> {
        sha2::Digest::update(&mut self.hasher, bytes);
        self.len += bytes.len() as u64;
        self.file.put(bytes)
    }
}
