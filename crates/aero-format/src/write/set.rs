//! A set: several files, of which none appears before all are complete.

use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::vec::Vec;

use serde_json::{Value as Json, json};
use tensor_core::codec::{AtomicFile, Output, SealedFile, Sink, stale_files};
use tensor_core::{SetOutput, SinkError, WriteOptions};

use super::{Builder, FileLayout, Options, Shard};
use crate::integrity::hex;
use crate::{BuildError, Result};

/// The file of a set that lists the tensors of all its parts.
const INDEX_NAME: &str = "index.aero";

/// How names of sets end, before what files of parts are named by.
const ENDINGS: [&str; 2] = [".aeroset.json", ".json"];

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
    pub fn write_set(&self, path: impl AsRef<Path>) -> Result<()> {
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
    pub fn write_set_with(&self, path: impl AsRef<Path>, options: &WriteOptions<'_>) -> Result<()> {
        let path = path.as_ref();
        let mut files = Vec::new();
        let text = self.each_file(path, options, |name, layout| {
            let place = path.with_file_name(name);
            let file = AtomicFile::create_chosen(place, self.sources(), options)?;
            let mut sink = Sink::new(Hashed::new(file));
            self.write(layout, &mut sink, options)?;
            let (file, sha256, len) = sink.into_inner().done();
            files.push(file.seal()?);
            Ok((sha256, len))
        })?;
        let mut file = AtomicFile::create_from(path, self.sources(), options)?;
        file.put(text.as_bytes())?;
        files.push(file.seal()?);
        let stale = match options.create_new {
            true => Vec::new(),
            false => self.stale_files(path),
        };
        SealedFile::commit_set(files, stale, options)
    }

    /// Writes a set to where `out` puts its files: the parts, then the index, and the JSON called `name` last.
    /// They are byte for byte what [`write_set`](Self::write_set) writes.
    ///
    /// ```
    /// use aero_format::{Builder, SetOutput, Tensor, WriteOptions};
    ///
    /// /// The names of files, and their bytes one after the other.
    /// #[derive(Default)]
    /// struct Named(Vec<String>, Vec<u8>);
    /// # impl std::io::Write for Named {
    /// #     fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
    /// #         self.1.write(bytes)
    /// #     }
    /// #     fn flush(&mut self) -> std::io::Result<()> {
    /// #         Ok(())
    /// #     }
    /// # }
    /// impl SetOutput for Named {
    ///     fn begin(&mut self, name: &str, _len: Option<u64>) -> std::io::Result<()> {
    ///         self.0.push(name.to_owned());
    ///         Ok(())
    ///     }
    /// }
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
    /// let mut out = Named::default();
    /// builder.write_set_to("m.aeroset.json", &mut out, &WriteOptions::default())?;
    /// assert_eq!(out.0, ["part-000.aero", "index.aero", "m.aeroset.json"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`write_set`](Self::write_set), and what `out` fails with.
    pub fn write_set_to(
        &self,
        name: &str,
        out: &mut dyn SetOutput,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let text = self.each_file(Path::new(name), options, |name, layout| {
            out.begin(name, Some(layout.len)).map_err(SinkError::Io)?;
            let mut sink = Sink::new(Hashed::new(&mut *out));
            self.write(layout, &mut sink, options)?;
            let (_, sha256, len) = sink.into_inner().done();
            Ok((sha256, len))
        })?;
        let len = Some(text.len() as u64);
        let begun = out
            .begin(name, len)
            .and_then(|()| out.write_all(text.as_bytes()));
        Ok(begun.map_err(SinkError::Io)?)
    }

    /// Has each part and then the index written, which tells its SHA-256 and its length; gives the text of the
    /// set.
    fn each_file(
        &self,
        path: &Path,
        options: &WriteOptions<'_>,
        mut write: impl FnMut(&str, &FileLayout) -> Result<(String, u64)>,
    ) -> Result<String> {
        let shards = self.shards();
        let names = self.part_names(path, &shards);
        let (mut parts, mut hashed) = (Vec::new(), Vec::new());
        let mut first = 0;
        for (part, name) in self.parts_of(&shards).into_iter().zip(&names) {
            // What the format can't hold, and what can't be read, fails before the first byte.
            let layout = self.layout(part, options)?;
            let (sha256, len) = write(name, &layout)?;
            hashed.extend(layout.into_hashes());
            parts.push(part_json(name, &sha256, len, first, part.len()));
            first += part.len();
        }
        // The index has the hashes that the parts were written with.
        let name = self.index_name(path);
        let (sha256, len) = write(&name, &self.layout_with(&shards, false, hashed)?)?;
        Ok(set_json(
            &self.options,
            parts,
            &file_json(&name, &sha256, len),
        ))
    }

    /// Has the parts of a set start with these tensors, counted in the order of the calls, whatever
    /// [`max_part_shards`](Self::max_part_shards) is; the first one always starts one. The files are then
    /// named after the set and by how many parts there are, `STEM-00001-of-00002.aero` and
    /// `STEM-index.aero` of `STEM.aeroset.json`, so that each can be written by itself
    /// ([`write_part_to`](Self::write_part_to)). None for parts by their shards.
    ///
    /// ```
    /// use aero_format::{Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// for name in ["a", "b", "c"] {
    ///     builder.tensor(name, Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// }
    /// builder.parts_start_at([0, 2]); // `a` and `b`, then `c`
    /// let files = builder.set_files("model.aeroset.json");
    /// assert!(files[1].ends_with("model-00002-of-00002.aero"));
    /// assert!(files[2].ends_with("model-index.aero"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parts_start_at(&mut self, tensors: impl IntoIterator<Item = usize>) -> &mut Self {
        let mut starts: Vec<usize> = tensors.into_iter().chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        self.part_starts = Some(starts);
        self
    }

    /// Writes one part of a set alone to `out`, front to back: the part of this number, counted from 0 in the
    /// order of [`set_files`](Self::set_files). It is byte for byte what [`write_set`](Self::write_set)
    /// writes of it, and no other part's data is read.
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Tensor, WriteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.aeroset.json");
    /// let mut builder = Builder::new();
    /// for name in ["a", "b"] {
    ///     builder.tensor(name, Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// }
    /// builder.parts_start_at([0, 1]);
    /// let mut part = Vec::new();
    /// builder.write_part_to(1, &mut part, &WriteOptions::default())?;
    /// builder.write_set(&path)?;
    /// assert_eq!(std::fs::read(&builder.set_files(&path)[1])?, part);
    /// assert!(Archive::from_bytes(part)?.entry("b").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Option`] where there is no such part, and as [`write_set`](Self::write_set).
    pub fn write_part_to(
        &self,
        part: usize,
        out: impl std::io::Write,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let shards = self.shards();
        let parts = self.parts_of(&shards);
        let Some(shards) = parts.get(part) else {
            let value = i128::try_from(part).unwrap_or(i128::MAX);
            let option = "part";
            return Err(BuildError::Option { option, value }.into());
        };
        let layout = self.layout(shards, options)?;
        self.write(&layout, &mut Sink::new(out), options)
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
    pub fn stale_files(&self, path: impl AsRef<Path>) -> Vec<PathBuf> {
        let path = path.as_ref();
        let Ok(old) = crate::Set::open(path) else {
            return Vec::new();
        };
        // The first one is the set itself.
        let old = old.files().into_iter().skip(1).collect();
        stale_files(path, old, &self.set_files(path), || self.sources())
    }

    /// The files that [`write_set`](Self::write_set) puts beside the JSON at `path`: its parts in their order,
    /// and the index. Unless [`parts_start_at`](Self::parts_start_at) says where parts begin they have the
    /// same names whatever that of the set is: two sets in one folder would write the same ones.
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
    pub fn set_files(&self, path: impl AsRef<Path>) -> Vec<PathBuf> {
        let path = path.as_ref();
        let mut names = self.part_names(path, &self.shards());
        names.push(self.index_name(path));
        names.iter().map(|name| path.with_file_name(name)).collect()
    }

    /// Which shards are in each part.
    fn parts_of<'a>(&self, shards: &'a [Shard]) -> Vec<&'a [Shard]> {
        let Some(starts) = &self.part_starts else {
            let per_part = usize::try_from(self.options.max_part_shards).unwrap_or(usize::MAX);
            return shards.chunks(per_part).collect();
        };
        // A shard never goes on over the start of a part.
        let begins = |shard: &Shard| {
            let first = shard.tensors.first();
            first.is_some_and(|placed| starts.binary_search(&placed.tensor).is_ok())
        };
        shards.chunk_by(|_, next| !begins(next)).collect()
    }

    fn part_names(&self, path: &Path, shards: &[Shard]) -> Vec<String> {
        let count = self.parts_of(shards).len();
        let name = |ordinal: usize| match &self.part_starts {
            None => std::format!("part-{ordinal:03}.aero"),
            Some(_) => {
                let number = ordinal.saturating_add(1);
                std::format!("{}-{number:05}-of-{count:05}.aero", stem(path))
            }
        };
        (0..count).map(name).collect()
    }

    fn index_name(&self, path: &Path) -> String {
        match self.part_starts {
            None => INDEX_NAME.into(),
            Some(_) => joined_index_name(path),
        }
    }
}

/// The name of the index of a set whose parts are named after it.
pub(super) fn joined_index_name(path: &Path) -> String {
    std::format!("{}-{INDEX_NAME}", stem(path))
}

/// What the names of a set's files begin with.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(&name).to_string()
}

/// What a set says about one of its files.
pub(super) fn file_json(name: &str, sha256: &str, len: u64) -> Json {
    json!({"path": name, "sha256": sha256, "size_bytes": len})
}

/// What a set says about a part with this many shards, the first of which has this number.
pub(super) fn part_json(name: &str, sha256: &str, len: u64, first: usize, shards: usize) -> Json {
    let mut part = file_json(name, sha256, len);
    let ids: Vec<usize> = (first..first.saturating_add(shards)).collect();
    if let Some(fields) = part.as_object_mut() {
        fields.insert("shards".into(), ids.into());
    }
    part
}

/// The text of a set.
pub(super) fn set_json(options: &Options, parts: Vec<Json>, index: &Json) -> String {
    let set = json!({
        "format": {"name": "AEROSET", "version": [0, 1]},
        "model": {
            "name": options.name(),
            "architecture": options.architecture(),
        },
        "parts": parts,
        "global_tidx": index,
    });
    std::format!("{set:#}\n")
}

/// A file whose SHA-256 is taken as it is written.
struct Hashed<O> {
    out: O,
    hasher: sha2::Sha256,
    len: u64,
}

impl<O: Output> Hashed<O> {
    fn new(out: O) -> Self {
        Self {
            out,
            hasher: sha2::Digest::new(),
            len: 0,
        }
    }

    /// The file, the hash in hexadecimal, and the length.
    fn done(self) -> (O, String, u64) {
        let digest = sha2::Digest::finalize(self.hasher);
        (self.out, hex(&digest), self.len)
    }
}

impl<O: Output> Output for Hashed<O> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        sha2::Digest::update(&mut self.hasher, bytes);
        self.len += bytes.len() as u64;
        self.out.put(bytes)
    }
}
