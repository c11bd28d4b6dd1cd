//! Models in several files: an index, and the shards that it names.

mod account;
mod index;
mod odd;
mod write;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::Vec;

use tensor_core::codec::{ArchiveId, FilePool, HasEntries, NameTable, read_elements};
use tensor_core::{
    At, Element, Entries, FileId, FileSource, Item, Kind, Outcome, Parts, Report, Source, Tensor,
    UsageError, Value, VerifyOptions,
};

use self::account::Account;
use self::index::SetIndex;
use self::odd::{metadata_of, strays, total_size};
use crate::index::place;
use crate::{Archive, Entry, Error, MetaEntry, ReadOptions, Result, Rule, json};

/// How many shards are open at once.
const OPEN: usize = 8;
/// How many faults a reader that salvages goes past; with more of them there is little to salvage.
const FAULTS: usize = 1 << 12;

/// An open set: the index `*.safetensors.index.json` and the shards that it names, read as one model.
///
/// Opening reads the index and every shard's header, none of the data, and holds both against each
/// other: the index says which tensors there are and which copy of one is meant, the shards say what
/// they are like. Of the shards a few are open at a time. Cheap to clone, and shared between threads
/// freely.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use safetensors_format::{Builder, Set, Tensor};
///
/// let path = folder.path().join("model.safetensors.index.json");
/// let mut builder = Builder::new();
/// builder.tensor("a", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
/// builder.tensor("b", Tensor::from_slice(&[3.0f32, 4.0], &[2])?)?;
/// builder.max_shard_bytes(8).write_set(&path)?;
/// assert!(folder.path().join("model-00002-of-00002.safetensors").exists());
///
/// let set = Set::open(&path)?;
/// let entry = set.entry("b").ok_or("no such tensor")?;
/// assert_eq!(set.shard_of(entry), Some("model-00002-of-00002.safetensors"));
/// assert_eq!(set.read(entry)?.as_slice::<f32>()?, &[3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// All of it, with what a set says about itself:
///
/// ```
/// use safetensors_format::{Builder, ReadOptions, Set, Source, Tensor, VerifyOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors.index.json");
/// # let mut builder = Builder::new();
/// # builder.metadata("format", "pt")?;
/// # builder.tensor("a", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
/// # builder.tensor("b", Tensor::from_slice(&[3.0f32, 4.0], &[2])?)?;
/// # builder.max_shard_bytes(8).write_set(&path)?;
/// let set = Set::open_with(&path, &ReadOptions::default().with_salvage(true))?;
/// assert!(!set.is_empty() && set.faults().is_empty()); // nothing is missing
/// assert_eq!((set.shards().len(), set.files().len(), set.file_ids().len()), (2, 3, 3));
/// println!("{} bytes", set.file_len());
/// assert!(set.oddities().is_empty() && set.unlisted().next().is_none());
/// let format = set.metadata_entry("format").map(|entry| entry.value());
/// assert_eq!(format, Some("pt"));
/// assert_eq!(set.index_metadata().count(), 0); // nothing beside the total size
///
/// let entry = set.entry("b").ok_or("no b")?;
/// let mut bytes = [0; 8];
/// set.read_into(entry, &mut bytes)?;
/// assert_eq!(set.data(entry)?.read(0..8)?, &bytes[..]);
/// assert_eq!(set.stored(entry)?.size(), 8);
/// assert_eq!(set.archive_of(entry)?.len(), 1); // a shard is an archive too
/// println!("{:?}", set.verify_entry(entry)?.outcome);
/// assert!(!set.verify(&VerifyOptions::default())?.has_failed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Set {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    len: u64,
    id: Option<FileId>,
    shards: Vec<Shard>,
    /// Which shard has an archive's entries: the position in `shards`, by rising id.
    by_id: Vec<(ArchiveId, usize)>,
    /// The tensors of the index: the shard of each, and the position among its entries.
    places: Vec<Place>,
    names: NameTable,
    metadata: Vec<MetaEntry>,
    index_metadata: Vec<(Box<str>, Box<str>)>,
    /// Tensors of shards that the index doesn't name there.
    unlisted: Vec<Place>,
    /// What is odd and no fault.
    oddities: Vec<String>,
    /// What a reader that salvages went past.
    faults: Vec<Error>,
}

struct Shard {
    name: Box<str>,
    path: PathBuf,
    /// `None` where it could not be opened.
    archive: Option<Archive>,
}

/// A tensor of a set.
#[derive(Clone, Copy)]
struct Place {
    shard: u32,
    entry: u32,
}

impl Place {
    fn in_shards(self, shards: &[Shard]) -> Option<Entry<'_>> {
        let archive = shards.get(place(self.shard))?.archive.as_ref()?;
        archive.entry_at(place(self.entry))
    }
}

impl Set {
    /// Opens the set whose index is at `path`: reads that and the headers of all shards. They are looked
    /// for beside `path` as it is given, wherever links lead.
    ///
    /// # Errors
    /// What the index or a shard breaks, with its path, what one of them says that the other doesn't,
    /// or what the operating system says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &ReadOptions::default())
    }

    /// Opens the set whose index is at `path`, with `options`: with
    /// [`salvage`](ReadOptions::salvage) shards and tensors that are missing are
    /// [`faults`](Self::faults), and the other shards are read.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        let path = path.as_ref();
        let source = FileSource::open(path)?;
        let own_name = path.file_name().map(|name| name.to_string_lossy());
        let own_name = own_name.unwrap_or(Cow::Borrowed(""));
        Self::of(path, &own_name, &source, None, options)
    }

    /// Opens the set whose index is `source`, called `name`: the shards come from `parts`.
    ///
    /// ```
    /// use std::path::PathBuf;
    /// use std::sync::Arc;
    /// use safetensors_format::{Builder, FileSource, ReadOptions, Set, Source, SourceError, Tensor};
    /// use tensor_core::Parts;
    ///
    /// /// A folder that knows its files by other names.
    /// struct Renamed(PathBuf);
    ///
    /// impl Parts for Renamed {
    ///     fn open(&self, name: &str) -> Result<Option<Arc<dyn Source>>, SourceError> {
    ///         let path = self.0.join(name.replace(".part", ""));
    ///         Ok(Some(Arc::new(FileSource::open(path)?)))
    ///     }
    /// }
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("m.safetensors.index.json");
    /// # let mut builder = Builder::new();
    /// # builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// # builder.write_set(&path)?;
    /// let parts = Renamed(folder.path().into());
    /// let (json, options) = (FileSource::open(&path)?, ReadOptions::default());
    /// let set = Set::from_parts("m.safetensors.index.json", json, &parts, &options)?;
    /// assert_eq!(set.entries().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open), and what `parts` fails with.
    pub fn from_parts(
        name: &str,
        source: impl Source,
        parts: &dyn Parts,
        options: &ReadOptions,
    ) -> Result<Self> {
        let path = PathBuf::from(parts.shown(name));
        Self::of(&path, name, &source, Some(parts), options)
    }

    fn of(
        path: &Path,
        own_name: &str,
        source: &dyn Source,
        parts: Option<&dyn Parts>,
        options: &ReadOptions,
    ) -> Result<Self> {
        let index = SetIndex::parse(source, own_name, &options.limits);
        let index = index.map_err(|error| in_file(error, path))?;
        let mut reading = Reading {
            path,
            parts,
            options,
            index: &index,
            found: vec![false; index.len()],
            faults: Vec::new(),
        };
        let shards = reading.shards()?;
        let (places, unlisted) = reading.places(&shards)?;
        let entry_at = |at: usize| {
            places
                .get(at)
                .and_then(|place: &Place| place.in_shards(&shards))
        };
        let names =
            NameTable::of_positions(places.len(), |at| entry_at(at).map_or("", Entry::name));
        // The index has no duplicate.
        let names = names.map_err(|duplicate| {
            let at = At::new(0, "weight_map").entry(duplicate.second as u64);
            Error::invalid(Rule::IndexDuplicate, at).in_file(path)
        })?;
        let faults = reading.faults;
        let archive = |shard: &Shard| shard.archive.clone();
        let archives = shards.iter().map(archive).enumerate();
        let by_id = archives.filter_map(|(at, archive)| Some((archive?.id(), at)));
        let mut oddities = Vec::new();
        let metadata = metadata_of(&shards, &mut oddities);
        let lens = (0..places.len()).filter_map(|at| entry_at(at)?.stored_len());
        oddities.extend(total_size(&index, lens.fold(0, u64::saturating_add)));
        if parts.is_none() {
            oddities.extend(strays(path, &shards));
        }
        Ok(Self {
            inner: Arc::new(Inner {
                path: path.to_path_buf(),
                len: source.size(),
                id: source.file().cloned(),
                by_id: by_id.collect(),
                shards,
                places,
                names,
                metadata,
                index_metadata: index.metadata,
                unlisted,
                oddities,
                faults,
            }),
        })
    }

    /// All tensors that the index names, shard by shard, each in the order of its header: an iterator that
    /// also gives the one at a position.
    #[must_use]
    pub fn entries(&self) -> Entries<'_, Self> {
        Entries::of(self)
    }

    /// How many tensors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entry_count()
    }

    /// Whether there is no tensor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor of this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        let name_at = |at| self.entry_at(at).map_or("", Entry::name);
        self.entry_at(self.inner.names.find_at(name_at, name)?)
    }

    /// The pairs of `__metadata__` of all shards. Of a key to which shards give several values there is
    /// the first; [`oddities`](Self::oddities) say so.
    #[must_use]
    pub fn metadata(&self) -> &[MetaEntry] {
        &self.inner.metadata
    }

    /// The pair of that metadata with this key.
    #[must_use]
    pub fn metadata_entry(&self, key: &str) -> Option<&MetaEntry> {
        self.metadata().iter().find(|pair| pair.key() == key)
    }

    /// What the index says under `metadata` beside `total_size`.
    pub fn index_metadata(&self) -> impl Iterator<Item = (&str, Value)> {
        let pairs = self.inner.index_metadata.iter();
        pairs.map(|(key, json)| (&**key, json::decode(json)))
    }

    /// The names of the shards, as the index has them.
    #[must_use]
    pub fn shards(&self) -> impl ExactSizeIterator<Item = &str> {
        self.inner.shards.iter().map(|shard| &*shard.name)
    }

    /// The shard that a tensor is in.
    #[must_use]
    pub fn shard_of(&self, entry: Entry<'_>) -> Option<&str> {
        self.inner.shard(entry).map(|shard| &*shard.name)
    }

    /// The shard that a tensor is in, as an archive.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is of another set.
    pub fn archive_of(&self, entry: Entry<'_>) -> Result<&Archive> {
        let archive = self
            .inner
            .shard(entry)
            .and_then(|shard| shard.archive.as_ref());
        Ok(archive.ok_or(UsageError::ForeignEntry)?)
    }

    /// Size of the index and all shards that are there, in bytes.
    pub fn file_len(&self) -> u64 {
        let archives = self
            .inner
            .shards
            .iter()
            .filter_map(|shard| shard.archive.as_ref());
        let lens = archives.map(Archive::file_len);
        lens.fold(self.inner.len, u64::saturating_add)
    }

    /// The files of the set: the index, then the shards, whether they are there or not. Of a set that is
    /// not on this disk it is what messages call them.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let shards = self.inner.shards.iter().map(|shard| shard.path.clone());
        core::iter::once(self.inner.path.clone())
            .chain(shards)
            .collect()
    }

    /// The files that are read, by what they are and not by their names.
    #[must_use]
    pub fn file_ids(&self) -> Vec<FileId> {
        let archives = self
            .inner
            .shards
            .iter()
            .filter_map(|shard| shard.archive.as_ref());
        let ids = archives.filter_map(|archive| archive.file().cloned());
        self.inner.id.iter().cloned().chain(ids).collect()
    }

    /// Tensors that a shard holds and the index doesn't name in it, each with the name of the shard. They
    /// are no entries.
    pub fn unlisted(&self) -> impl Iterator<Item = (&str, &str)> {
        let inner = &*self.inner;
        let pair = |unlisted: &Place| {
            let shard = inner.shards.get(place(unlisted.shard))?;
            Some((&*shard.name, unlisted.in_shards(&inner.shards)?.name()))
        };
        inner.unlisted.iter().filter_map(pair)
    }

    /// What is odd, and no fault of the set: a `total_size` that isn't the tensors', shards in the folder
    /// that the index doesn't name, metadata that differs from shard to shard.
    #[must_use]
    pub fn oddities(&self) -> &[String] {
        &self.inner.oddities
    }

    /// What a reader that [salvages](ReadOptions::salvage) went past: shards that are missing or damaged,
    /// tensors that are not where the index has them.
    #[must_use]
    pub fn faults(&self) -> &[Error] {
        &self.inner.faults
    }

    /// Reads a tensor, as [`Archive::read`] does.
    ///
    /// # Errors
    /// As [`Archive::read`].
    pub fn read(&self, entry: Entry<'_>) -> Result<Tensor> {
        self.in_shard(entry, |archive| archive.read(entry))
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length.
    ///
    /// # Errors
    /// As [`Archive::read_into`].
    pub fn read_into(&self, entry: Entry<'_>, out: &mut [u8]) -> Result<()> {
        self.in_shard(entry, |archive| archive.read_into(entry, out))
    }

    /// Reads a tensor's elements into `out`, as [`Archive::read_slice`] does.
    ///
    /// # Errors
    /// As [`read_into`](Self::read_into), and [`UsageError::Cast`] where the elements are of another
    /// type.
    pub fn read_slice<T: Element>(&self, entry: Entry<'_>, out: &mut [T]) -> Result<()> {
        read_elements(entry.dtype(), out, |bytes| self.read_into(entry, bytes))
    }

    /// Checks one tensor, as [`Archive::verify_entry`] does.
    ///
    /// # Errors
    /// As [`Archive::verify_entry`].
    pub fn verify_entry(&self, entry: Entry<'_>) -> Result<Item> {
        self.in_shard(entry, |archive| archive.verify_entry(entry))
    }

    /// A tensor's little-endian bytes as a source of their own, which opens the shard when it is read.
    ///
    /// # Errors
    /// As [`Archive::data`].
    pub fn data(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        self.in_shard(entry, |archive| archive.data(entry))
    }

    /// A tensor's bytes as the shard stores them, whatever its dtype.
    ///
    /// # Errors
    /// As [`Archive::stored`].
    pub fn stored(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        self.in_shard(entry, |archive| archive.stored(entry))
    }

    fn in_shard<T>(&self, entry: Entry<'_>, work: impl FnOnce(&Archive) -> Result<T>) -> Result<T> {
        let shard = self.inner.shard(entry).ok_or(UsageError::ForeignEntry)?;
        let archive = shard.archive.as_ref().ok_or(UsageError::ForeignEntry)?;
        work(archive).map_err(|error| match error.kind() {
            // What the caller got wrong is no shard's fault.
            Kind::Build | Kind::Usage | Kind::Cancelled => error,
            _ => in_file(error, &shard.path),
        })
    }

    /// Says what of index and shards doesn't agree, and what each shard is like; the format has no
    /// checksums. Oddities are warnings.
    ///
    /// # Errors
    /// None today; other formats' sets have some.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        let inner = &*self.inner;
        let mut report = Report::default();
        if !options.has_rest() {
            return Ok(report);
        }
        let structure = "structure ok, no checksum";
        report.tell(
            Item::new("index", Outcome::NotCovered).with_note(structure),
            options,
        );
        for error in &inner.faults {
            let (path, error) = match error {
                Error::InFile { path, error } => (Some(path), &**error),
                error => (None, error),
            };
            let of = |path: &PathBuf| inner.shards.iter().find(|shard| shard.path == *path);
            let shard = path.and_then(of).map_or("index", |shard| &*shard.name);
            let mut item = match error.tensor() {
                Some(name) => Item::new(std::format!("{shard}: {name}"), Outcome::Failed),
                None => Item::new(shard, Outcome::Failed),
            };
            item.tensors.extend(error.tensor().map(String::from));
            let id = error.rule_id().map(|id| std::format!(" [{id}]"));
            let text = std::format!("{error}{}", id.unwrap_or_default());
            report.tell(item.with_note(text), options);
        }
        let mut warnings = Vec::new();
        for (at, shard) in inner.shards.iter().enumerate() {
            let Some(archive) = &shard.archive else {
                continue;
            };
            let found = Mutex::new(&mut report);
            let tell = |item: &Item| {
                let mut report = found.lock().unwrap_or_else(PoisonError::into_inner);
                let listed = self
                    .entry(&item.item)
                    .and_then(|entry| inner.position(entry));
                if archive.entry(&item.item).is_none() {
                    // The header.
                    let mut item = item.clone();
                    item.item = std::format!("{}: {}", shard.name, item.item);
                    report.tell(item, options);
                } else if listed == Some(at) {
                    report.tell(item.clone(), options);
                }
            };
            let mut of_shard = options.with_items(&tell).with_forget(true);
            // They come after all items, and a shard has few.
            of_shard.warnings = None;
            let found = archive.verify(&of_shard)?.warnings.into_iter();
            warnings.extend(found.map(|text| std::format!("{}: {text}", shard.name)));
        }
        for (shard, name) in self.unlisted() {
            let rule = Rule::SetUnlisted;
            let mut item = Item::new(std::format!("{shard}: {name}"), Outcome::Failed);
            // Nothing that the index names is damaged by it.
            item.tensors.push(name.to_string());
            report.tell(
                item.with_note(std::format!("{rule} [{}]", rule.id())),
                options,
            );
        }
        for warning in warnings.iter().chain(&inner.oddities) {
            report.warn(warning.as_str(), options);
        }
        Ok(report)
    }
}

impl HasEntries for Set {
    type Entry<'a> = Entry<'a>;

    fn entry_count(&self) -> usize {
        self.inner.places.len()
    }

    fn entry_at(&self, position: usize) -> Option<Entry<'_>> {
        self.inner
            .places
            .get(position)?
            .in_shards(&self.inner.shards)
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a, Set>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries()
    }
}

impl Inner {
    fn position(&self, entry: Entry<'_>) -> Option<usize> {
        let id = entry.index.id;
        let at = self.by_id.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        self.by_id.get(at).map(|&(_, shard)| shard)
    }

    fn shard(&self, entry: Entry<'_>) -> Option<&Shard> {
        self.shards.get(self.position(entry)?)
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set")
            .field("path", &self.inner.path)
            .field("shards", &self.inner.shards.len())
            .field("entries", &self.inner.places.len())
            .finish_non_exhaustive()
    }
}

/// A set while it is opened.
struct Reading<'a> {
    path: &'a Path,
    /// What opens the shards, where they are not beside it on this disk.
    parts: Option<&'a dyn Parts>,
    options: &'a ReadOptions,
    index: &'a SetIndex,
    /// Which tensors of the index were found.
    found: Vec<bool>,
    faults: Vec<Error>,
}

impl Reading<'_> {
    /// Ends with a fault, unless all that is whole is asked for.
    fn fault(&mut self, error: Error) -> Result<()> {
        // Memory, or a file that can't be read, is no fault of the set's.
        let is_of_files = matches!(
            error.kind(),
            tensor_core::Kind::Invalid | tensor_core::Kind::Unsupported | tensor_core::Kind::Limit
        );
        if !self.options.salvage || !is_of_files || self.faults.len() >= FAULTS {
            return Err(error);
        }
        self.faults.push(error);
        Ok(())
    }

    fn shards(&mut self) -> Result<Vec<Shard>> {
        let pool = FilePool::new(OPEN);
        let mut shards = Vec::new();
        let (mut options, mut account) = (*self.options, Account::default());
        for (name, tensors) in self.index.shards.iter().zip(&self.index.tensors) {
            options.limits.max_index_overhead_bytes = account.left(&self.options.limits);
            let (path, opened) = match self.parts {
                None => {
                    let path = self.path.with_file_name(&**name);
                    let opened = open(&pool, &path, *tensors, &options);
                    (path, opened)
                }
                Some(parts) => {
                    let opened = open_elsewhere(parts, name, *tensors, &options);
                    (parts.shown(name).into(), opened)
                }
            };
            let archive = match opened {
                Ok(archive) => {
                    account.take(&archive);
                    Some(archive)
                }
                Err(error) => {
                    let error = account.named(error, &self.options.limits);
                    self.fault(in_file(error, &path))?;
                    None
                }
            };
            let name = name.clone();
            shards.push(Shard {
                name,
                path,
                archive,
            });
        }
        Ok(shards)
    }

    /// The tensors that are where the index has them, and those that it doesn't have.
    fn places(&mut self, shards: &[Shard]) -> Result<(Vec<Place>, Vec<Place>)> {
        let (mut listed, mut unlisted) = (Vec::new(), Vec::new());
        for (shard, of) in (0u32..).zip(shards) {
            for (at, entry) in (0u32..).zip(of.archive.iter().flat_map(Archive::entries)) {
                let place = Place { shard, entry: at };
                match self.index.find(entry.name()) {
                    Some((number, meant)) if meant == shard => {
                        if let Some(found) = self.found.get_mut(number) {
                            *found = true;
                        }
                        listed.push(place);
                    }
                    _ => unlisted.push(place),
                }
            }
        }
        self.check_found(shards, &unlisted)?;
        Ok((listed, unlisted))
    }

    /// Every tensor of the index is in the shard that it names.
    fn check_found(&mut self, shards: &[Shard], unlisted: &[Place]) -> Result<()> {
        let mut elsewhere: HashMap<&str, u32> = HashMap::new();
        for place in unlisted {
            if let Some(entry) = place.in_shards(shards) {
                elsewhere.entry(entry.name()).or_insert(place.shard);
            }
        }
        for number in 0..self.index.len() {
            let shard = self
                .index
                .shard(number)
                .and_then(|at| shards.get(place(at)));
            let Some(shard) = shard.filter(|shard| shard.archive.is_some()) else {
                continue;
            };
            if self.found.get(number) == Some(&true) {
                continue;
            }
            let name = self.index.name(number);
            let elsewhere = elsewhere.get(name).and_then(|at| shards.get(place(*at)));
            let rule = match elsewhere {
                Some(elsewhere) => Rule::SetShard {
                    shard: elsewhere.name.clone(),
                },
                None => Rule::SetTensor,
            };
            let at = At::new(0, "weight_map").entry(number as u64);
            let error = Error::invalid(rule, at).of_tensor(name);
            self.fault(in_file(error, &shard.path))?;
        }
        Ok(())
    }
}

/// Opens a shard; one that is missing, or no file, is the set's fault.
fn open(pool: &FilePool, path: &Path, tensors: u64, options: &ReadOptions) -> Result<Archive> {
    let source = pool.open(path).map_err(|error| {
        let kind = error.source.kind();
        let is_link_loop = path.is_symlink() && kind != ErrorKind::PermissionDenied;
        let is_missing = matches!(
            kind,
            ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory
        );
        let is_no_file = path.metadata().is_ok_and(|metadata| !metadata.is_file());
        if is_missing || is_no_file || (is_link_loop && path.metadata().is_err()) {
            let rule = Rule::ShardMissing { tensors };
            return Error::invalid(rule, At::new(0, "shard"));
        }
        Error::File(error)
    })?;
    shard(source, options)
}

/// Opens a shard that is not on this disk.
fn open_elsewhere(
    parts: &dyn Parts,
    name: &str,
    tensors: u64,
    options: &ReadOptions,
) -> Result<Archive> {
    match parts.open(name)? {
        Some(source) => shard(source, options),
        None => {
            let rule = Rule::ShardMissing { tensors };
            Err(Error::invalid(rule, At::new(0, "shard")))
        }
    }
}

fn shard(source: impl Source + 'static, options: &ReadOptions) -> Result<Archive> {
    let head = source.read(0..source.size().min(index::LFS_POINTER.len() as u64))?;
    if *head == *index::LFS_POINTER {
        return Err(Error::invalid(Rule::LfsPointer, At::new(0, "shard")));
    }
    Archive::from_source(source, options)
}

/// The same error about a file; one of bytes that come from elsewhere says where that is.
fn in_file(error: Error, path: &Path) -> Error {
    match error {
        Error::Source(_) => error,
        error => error.in_file(path),
    }
}
