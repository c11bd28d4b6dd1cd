//! Writing a model in several files.

use std::path::{Path, PathBuf};
use std::string::String;
use std::vec::Vec;

use tensor_core::codec::{AtomicFile, Output, SealedFile, Sink, stale_files};
use tensor_core::{SetOutput, SinkError, WriteOptions};

use super::Set;
use crate::json::put_ascii;
use crate::{Archive, BuildError, Builder, Result};

/// How the name of an index ends.
const ENDINGS: [&str; 2] = [".safetensors.index.json", ".index.json"];

/// What the names of a set's shards begin with; `None` where the name is no index's.
pub(super) fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stem = ENDINGS
        .iter()
        .find_map(|ending| name.strip_suffix(ending))?;
    (!stem.is_empty()).then(|| stem.into())
}

/// Whether a file is named as a shard of the set with this stem: `STEM-00001-of-00003.safetensors`.
pub(super) fn is_shard_of(stem: &str, name: &str) -> bool {
    let numbers = name
        .strip_prefix(stem)
        .and_then(|rest| rest.strip_prefix('-'));
    let numbers = numbers.and_then(|rest| rest.strip_suffix(".safetensors"));
    let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers
        .and_then(|numbers| numbers.split_once("-of-"))
        .is_some_and(|(number, count)| is_number(number) && is_number(count))
}

impl Builder {
    /// Writes a set: `path` is the index, named `STEM.safetensors.index.json`, and beside it are shards
    /// `STEM-00001-of-00002.safetensors` of at most [`max_shard_bytes`](Self::max_shard_bytes) of data
    /// each, or of one tensor. Every shard has all metadata; a set without tensors has no shard, and so none. Files appear when all of them are complete,
    /// the index last.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors.index.json");
    /// use safetensors_format::{Builder, Set, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// for layer in 0..4 {
    ///     let name = format!("layers.{layer}.weight");
    ///     builder.tensor(name, Tensor::from_slice(&[layer as f32; 256], &[16, 16])?)?;
    /// }
    /// builder.metadata("format", "pt")?.max_shard_bytes(2048).write_set(&path)?;
    /// assert_eq!(Set::open(&path)?.shards().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::SetName`] where `path` is named otherwise, and as [`write_file`](Self::write_file);
    /// no new file has then appeared.
    pub fn write_set(&self, path: impl AsRef<Path>) -> Result<()> {
        self.write_set_with(path, &WriteOptions::default())
    }

    /// Like [`write_set`](Self::write_set), with `options`. Shards of the set that was at `path` before
    /// which the new one doesn't have are deleted, and told to
    /// [`notice`](WriteOptions::notice).
    ///
    /// # Errors
    /// As [`write_set`](Self::write_set), or a stop on request.
    ///
    /// ```
    /// use safetensors_format::{Builder, Tensor, WriteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors.index.json");
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
    /// let once = WriteOptions::default().with_create_new(true);
    /// builder.write_set_with(&path, &once)?;
    /// assert!(builder.write_set_with(&path, &once).is_err()); // there is a set
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_set_with(&self, path: impl AsRef<Path>, options: &WriteOptions<'_>) -> Result<()> {
        let path = path.as_ref();
        let shards = self.shards();
        let names = shard_names(path, shards.len())?;
        // What the format can't hold fails before the first byte.
        let plans = shards.iter().map(|shard| self.plan_of(shard));
        let plans = plans.collect::<Result<Vec<_>>>()?;
        let mut files = Vec::new();
        for (plan, name) in plans.iter().zip(&names) {
            let place = path.with_file_name(name);
            let file = AtomicFile::create_chosen(place, self.sources(), options)?;
            let mut sink = Sink::new(file);
            self.write(plan, &mut sink, options)?;
            files.push(sink.into_inner().seal()?);
        }
        let mut index = AtomicFile::create_from(path, self.sources(), options)?;
        index.put(self.index_of(&shards, &names).as_bytes())?;
        files.push(index.seal()?);
        let stale = match options.create_new {
            true => Vec::new(),
            false => self.stale_files(path),
        };
        SealedFile::commit_set(files, stale, options)
    }

    /// Writes a set to where `out` puts its files: the shards, and the index called `name` last. They are byte
    /// for byte what [`write_set`](Self::write_set) writes.
    ///
    /// ```
    /// use safetensors_format::{Builder, SetOutput, Tensor, WriteOptions};
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
    /// builder.write_set_to("m.safetensors.index.json", &mut out, &WriteOptions::default())?;
    /// assert_eq!(out.0, ["m-00001-of-00001.safetensors", "m.safetensors.index.json"]);
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
        let shards = self.shards();
        let names = shard_names(Path::new(name), shards.len())?;
        // What the format can't hold fails before the first byte.
        let plans = shards.iter().map(|shard| self.plan_of(shard));
        let plans = plans.collect::<Result<Vec<_>>>()?;
        for (plan, name) in plans.iter().zip(&names) {
            out.begin(name, Some(plan.file_len))
                .map_err(SinkError::Io)?;
            self.write(plan, &mut Sink::new(&mut *out), options)?;
        }
        let index = self.index_of(&shards, &names);
        let len = Some(index.len() as u64);
        let begun = out
            .begin(name, len)
            .and_then(|()| out.write_all(index.as_bytes()));
        Ok(begun.map_err(SinkError::Io)?)
    }

    /// Writes one shard of a set alone to `out`, front to back: the shard of this number, counted from 0 in the
    /// order of [`set_files`](Self::set_files). It is byte for byte what [`write_set`](Self::write_set)
    /// writes of it, and no other shard's data is read.
    ///
    /// ```
    /// use safetensors_format::{Archive, Builder, Tensor, WriteOptions};
    ///
    /// let mut builder = Builder::new();
    /// for name in ["a", "b"] {
    ///     builder.tensor(name, Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// }
    /// let mut shard = Vec::new();
    /// builder.max_shard_bytes(4).write_part_to(1, &mut shard, &WriteOptions::default())?;
    /// assert!(Archive::from_bytes(shard)?.entry("b").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Part`] where there is no such shard, and as [`write_set`](Self::write_set).
    pub fn write_part_to(
        &self,
        part: usize,
        out: impl std::io::Write,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let shards = self.shards();
        let count = shards.len();
        let shard = shards.get(part).ok_or(BuildError::Part { part, count })?;
        self.write(&self.plan_of(shard)?, &mut Sink::new(out), options)
    }

    /// The shards that [`write_set`](Self::write_set) puts beside the index at `path`.
    ///
    /// # Errors
    /// [`BuildError::SetName`].
    ///
    /// ```
    /// use safetensors_format::Builder;
    ///
    /// let files = Builder::new().set_files("model.safetensors.index.json")?;
    /// println!("{files:?}");
    /// # Ok::<(), safetensors_format::Error>(())
    /// ```
    pub fn set_files(&self, path: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
        let path = path.as_ref();
        let names = shard_names(path, self.shards().len())?;
        Ok(names.iter().map(|name| path.with_file_name(name)).collect())
    }

    /// The shards of the set that is at `path` now which [`write_set`](Self::write_set) would leave
    /// without an index: it deletes them, unless data is read from them.
    ///
    /// ```
    /// use safetensors_format::{Builder, Tensor};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors.index.json");
    /// let mut two = Builder::new();
    /// two.tensor("a", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// two.tensor("b", Tensor::from_slice(&[2.0f32], &[1])?)?;
    /// two.max_shard_bytes(4).write_set(&path)?;
    /// let mut one = Builder::new();
    /// one.tensor("a", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// assert!(!one.stale_files(&path).is_empty()); // the shards of the set of two
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stale_files(&self, path: impl AsRef<Path>) -> Vec<PathBuf> {
        let path = path.as_ref();
        let (Ok(old), Ok(new)) = (Set::open(path), self.set_files(path)) else {
            return Vec::new();
        };
        // The first one is the index itself.
        let old = old.files().into_iter().skip(1).collect();
        stale_files(path, old, &new, || self.sources())
    }

    /// Size of all files of the set in bytes, but for the index.
    ///
    /// [`max_shard_bytes`](Self::max_shard_bytes) has an example.
    ///
    /// # Errors
    /// As [`encoded_len`](Self::encoded_len).
    pub fn encoded_set_len(&self) -> Result<u64> {
        let mut len = 0u64;
        for shard in self.shards() {
            len = len.saturating_add(self.plan_of(&shard)?.file_len);
        }
        Ok(len)
    }

    /// Which tensors go to which shard, as the libraries do that these sets are of: in order, as many as
    /// fit; one that is larger than a shard may be has its own, and the one that is being filled goes on.
    fn shards(&self) -> Vec<Vec<usize>> {
        if !self.shard_starts.is_empty() {
            let ends = self.shard_starts.iter().copied().filter(|&start| start > 0);
            let ends = ends.chain([self.lens().count()]);
            let mut start = 0;
            let range = |end| {
                let shard: Vec<usize> = (start..end).collect();
                start = start.max(end);
                shard
            };
            return ends.map(range).filter(|shard| !shard.is_empty()).collect();
        }
        let mut shards = Vec::new();
        let mut filling = Vec::new();
        let mut filled = 0u64;
        for (at, len) in self.lens().enumerate() {
            if len > self.max_shard_bytes {
                shards.push(vec![at]);
                continue;
            }
            if filled.saturating_add(len) > self.max_shard_bytes {
                shards.push(core::mem::take(&mut filling));
                filled = 0;
            }
            filling.push(at);
            filled = filled.saturating_add(len);
        }
        if !filling.is_empty() {
            shards.push(filling);
        }
        shards
    }

    /// The JSON of the index.
    fn index_of(&self, shards: &[Vec<usize>], names: &[String]) -> String {
        let mut map: Vec<(&str, &str)> = Vec::new();
        for (shard, file) in shards.iter().zip(names) {
            let tensors = shard.iter().filter_map(|&at| self.name(at));
            map.extend(tensors.map(|name| (name, &**file)));
        }
        map.sort_unstable();
        let total = self.lens().fold(0u64, u64::saturating_add);
        index_text(map.into_iter(), total)
    }
}

impl Set {
    /// The text of an index of shards that are there already, in their order: byte for byte what
    /// [`Builder::write_set`] writes beside these. One after the other is open, and only its header is read.
    ///
    /// ```
    /// use safetensors_format::{Archive, Builder, Error, Set, Tensor};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors.index.json");
    /// let mut builder = Builder::new();
    /// for name in ["a", "b"] {
    ///     builder.tensor(name, Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// }
    /// builder.max_shard_bytes(4).write_set(&path)?;
    ///
    /// let files = builder.set_files(&path)?;
    /// let shards = files.iter().map(|file| {
    ///     let name = file.file_name().unwrap_or_default().to_string_lossy();
    ///     Ok::<_, Error>((name.into_owned(), Archive::open(file)?))
    /// });
    /// assert_eq!(Set::index_of(shards)?, std::fs::read_to_string(&path)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What `shards` fail with, and [`BuildError::Duplicate`] where two of them have a tensor of one name.
    pub fn index_of<E: From<crate::Error>>(
        shards: impl IntoIterator<Item = Result<(String, Archive), E>>,
    ) -> Result<String, E> {
        let mut files: Vec<String> = Vec::new();
        let mut names: Vec<(String, usize)> = Vec::new();
        let mut total = 0u64;
        for shard in shards {
            let (file, archive) = shard?;
            for entry in archive.entries() {
                names.push((entry.name().into(), files.len()));
                total = total.saturating_add(entry.stored_len().unwrap_or(0));
            }
            files.push(file);
        }
        names.sort_unstable();
        for pair in names.windows(2) {
            if let [(a, _), (b, _)] = pair {
                if a == b {
                    let name = a.clone();
                    return Err(crate::Error::from(BuildError::Duplicate { name }).into());
                }
            }
        }
        let file = |at: usize| files.get(at).map_or("", String::as_str);
        let map = names.iter().map(|(name, at)| (name.as_str(), file(*at)));
        Ok(index_text(map, total))
    }
}

/// The JSON of an index, as the libraries write it that these sets are of: keys sorted as they come, two
/// spaces, ASCII alone.
fn index_text<'a>(map: impl Iterator<Item = (&'a str, &'a str)>, total: u64) -> String {
    let mut json = std::format!("{{\n  \"metadata\": {{\n    \"total_size\": {total}\n  }},\n");
    json.push_str("  \"weight_map\": {");
    let mut comma = "";
    for (name, file) in map {
        json.push_str(comma);
        json.push_str("\n    ");
        put_ascii(name, &mut json);
        json.push_str(": ");
        put_ascii(file, &mut json);
        comma = ",";
    }
    json.push_str(if comma.is_empty() {
        "}\n}\n"
    } else {
        "\n  }\n}\n"
    });
    json
}

/// The names of this many shards.
fn shard_names(path: &Path, count: usize) -> Result<Vec<String>> {
    let stem = stem(path).ok_or_else(|| BuildError::SetName {
        path: path.display().to_string(),
    })?;
    let name = |number: usize| std::format!("{stem}-{number:05}-of-{count:05}.safetensors");
    Ok((1..=count).map(name).collect())
}
