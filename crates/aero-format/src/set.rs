mod verify;

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;
use tensor_core::codec::{FilePool, HasEntries, read_elements};
use tensor_core::{
    At, Element, Entries, FileId, FileSource, Item, LimitExceeded, Parts, Report, Source,
    SourceError, Tensor, UsageError, Value, VerifyOptions,
};

use crate::entry::Entry;
use crate::read::Archive;
use crate::set_json::{self, Folder, Listed, Part, Place, at_path, listed, text_at};
use crate::{Error, MetaEntry, ReadOptions, Result, Rule, Unsupported};

/// How many parts are known at once, whatever their indexes take, and how many files are open in any case.
const OPEN: usize = 4;
/// How many parts are known at once where there is room for their indexes.
const KNOWN: usize = 32;
/// What the indexes of known parts may take beyond what that of the set takes, which lists the same tensors.
const ROOM: u64 = 8 << 20;

/// An open AEROSET: an index over parts, each a file of its own in the same folder. Parts are
/// opened when they are needed; one that is missing fails only its own tensors.
///
/// ```
/// use aero_format::{Builder, ReadOptions, Set, Source, Tensor};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.aeroset.json");
/// let mut builder = Builder::new();
/// builder.model("tiny", "llama").max_shard_bytes(8).max_part_shards(1);
/// builder.tensor("a", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// builder.tensor("b", Tensor::from_slice(&[2.5f32, 3.5], &[2])?)?;
/// builder.write_set(&path)?;
///
/// let set = Set::open_with(&path, &ReadOptions::default())?;
/// assert_eq!((set.len(), set.is_empty(), set.entries().len()), (2, false, 2));
/// assert_eq!(set.part_shards().collect::<Vec<_>>(), [1, 1]);
/// assert_eq!(set.files().len(), 4); // the JSON, the index, two parts
/// println!("{} bytes; {:?}", set.file_len(), set.metadata_entry("model"));
/// assert!(set.index().is_in_parts() && set.unlisted().is_empty());
///
/// let entry = set.entry("b").ok_or("no b")?;
/// let part = set.part_of(entry).ok_or("no part has it")?;
/// println!("{} is in {part} at {:#x}", entry.name(), set.offset(entry)?);
/// println!("{:?}", set.extra(entry));
/// let mut bytes = [0; 8];
/// set.read_into(entry, &mut bytes)?;
/// assert_eq!(set.data(entry)?.read(0..8)?, &bytes[..]);
/// assert_eq!(set.stored(entry)?.size(), 8);
/// println!("{:?}", set.part_metadata()?);
/// assert_eq!(set.part(1)?.len(), 1); // a part is an archive too
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Set {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    /// Size of the JSON.
    len: u64,
    files: Files,
    options: ReadOptions,
    index: Archive,
    index_file: Listed,
    parts: Vec<Part>,
    /// Which part has a shard.
    shards: HashMap<u32, usize>,
    metadata: Vec<MetaEntry>,
    /// The parts that are open, the one used last at the end.
    open: Mutex<Vec<(usize, Archive)>>,
}

impl Set {
    /// Opens the set whose JSON is at `path`: reads it and the index, no part. Files are looked
    /// for beside `path` as it is given.
    ///
    /// # Errors
    /// What JSON or index break, or what the operating system says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &ReadOptions::default())
    }

    /// Opens the set whose JSON is at `path`, with `options`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        Self::of(path.as_ref(), None, options)
    }

    /// Opens the set whose JSON is at `path`, with what opens the addresses that it names.
    /// [`from_parts`](Self::from_parts) has an example.
    ///
    /// # Errors
    /// As [`open`](Self::open), and what `links` fails with.
    pub fn open_linked(
        path: impl AsRef<Path>,
        links: Arc<dyn Parts>,
        options: &ReadOptions,
    ) -> Result<Self> {
        Self::of(path.as_ref(), Some(links), options)
    }

    /// Opens the set whose JSON is `source`, called `name`: all other files come from `parts`.
    ///
    /// ```
    /// use std::path::PathBuf;
    /// use std::sync::Arc;
    /// use aero_format::{Builder, FileSource, ReadOptions, Set, Source, SourceError, Tensor};
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
    /// # let path = folder.path().join("m.aeroset.json");
    /// # let mut builder = Builder::new();
    /// # builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// # builder.write_set(&path)?;
    /// let parts = Arc::new(Renamed(folder.path().into()));
    /// let (json, options) = (FileSource::open(&path)?, ReadOptions::default());
    /// let set = Set::from_parts("m.aeroset.json", json, parts.clone(), &options)?;
    /// assert_eq!(set.entries().len(), 1);
    /// // All files of this folder, and `parts` only for addresses over http(s).
    /// assert_eq!(Set::open_linked(&path, parts, &options)?.entries().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What JSON or index break, or what `parts` fails with.
    pub fn from_parts(
        name: &str,
        source: impl Source,
        parts: Arc<dyn Parts>,
        options: &ReadOptions,
    ) -> Result<Self> {
        let path = PathBuf::from(parts.shown(name));
        let files = Files {
            parts: Some(parts),
            is_local: false,
            pool: FilePool::new(OPEN),
        };
        let parsed = parse(&path, &source, files, options);
        parsed.map(Self::new).map_err(|error| in_file(error, &path))
    }

    fn of(path: &Path, parts: Option<Arc<dyn Parts>>, options: &ReadOptions) -> Result<Self> {
        let source = FileSource::open(path)?;
        let files = Files {
            parts,
            is_local: true,
            pool: FilePool::new(OPEN),
        };
        let parsed = parse(path, &source, files, options);
        parsed.map(Self::new).map_err(|error| in_file(error, path))
    }

    fn new(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// All tensors, in index order.
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
        self.inner.index.entry(name)
    }

    /// The file of tensors and shards that the set starts from.
    #[must_use]
    pub fn index(&self) -> &Archive {
        &self.inner.index
    }

    /// The set's own description of its model: `model.name`, `model.architecture`.
    #[must_use]
    pub fn metadata(&self) -> &[MetaEntry] {
        &self.inner.metadata
    }

    /// The pair of the set's own description with this key.
    #[must_use]
    pub fn metadata_entry(&self, key: &str) -> Option<&MetaEntry> {
        self.metadata().iter().find(|pair| pair.key() == key)
    }

    /// The pairs of the first part's JSON chunk, which is where writers of sets put what is said
    /// about the model. Empty without a part.
    ///
    /// # Errors
    /// What the part or its chunk breaks, or that the part can't be read.
    pub fn part_metadata(&self) -> Result<Vec<MetaEntry>> {
        if self.inner.parts.is_empty() {
            return Ok(Vec::new());
        }
        self.inner.part(0)?.metadata()
    }

    /// Bytes of the JSON, the index and all parts that are there; of parts elsewhere what the set says.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        let len = |file: &Listed| match &file.place {
            Place::Local(path) => fs::metadata(path).map_or(0, |metadata| metadata.len()),
            _ => file.size.unwrap_or(0),
        };
        let parts = self.inner.parts.iter().map(|part| len(&part.file));
        let parts = parts.fold(0, u64::saturating_add);
        let index = len(&self.inner.index_file);
        self.inner.len.saturating_add(index).saturating_add(parts)
    }

    /// The files of the set on this disk: its JSON, its index, its parts; some may be missing.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let parts = self.inner.parts.iter().map(|part| &part.file);
        let listed = core::iter::once(&self.inner.index_file).chain(parts);
        let local = listed.filter_map(|file| match &file.place {
            Place::Local(path) => Some(path.clone()),
            _ => None,
        });
        let json = self.inner.files.is_local.then(|| self.inner.path.clone());
        json.into_iter().chain(local).collect()
    }

    /// How many shards each part has, in the order of the set.
    #[must_use]
    pub fn part_shards(&self) -> impl ExactSizeIterator<Item = usize> {
        self.inner.parts.iter().map(|part| part.shards.len())
    }

    /// A part as a file of its own, counted from 0.
    ///
    /// # Errors
    /// [`Rule::SetShard`] where there is none, or what opening it finds.
    pub fn part(&self, ordinal: usize) -> Result<Archive> {
        self.inner.part(ordinal)
    }

    /// The part that a tensor's shard is in, as the set names it; `None` where no part has it.
    #[must_use]
    pub fn part_of(&self, entry: Entry<'_>) -> Option<&str> {
        let ordinal = *self.inner.shards.get(&entry.shard_id())?;
        self.inner.parts.get(ordinal).map(|part| &*part.name)
    }

    /// Absolute offset of a tensor's data in the file of its part, which is opened for it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn offset(&self, entry: Entry<'_>) -> Result<u64> {
        let (archive, inside) = self.inner.find(entry)?;
        Ok(at(&archive, inside)?.offset())
    }

    /// Everything else that index or part says about a tensor.
    #[must_use]
    pub fn extra(&self, entry: Entry<'_>) -> Vec<(String, Value)> {
        self.inner.index.extra(entry)
    }

    /// Reads a tensor from its part.
    ///
    /// # Errors
    /// As [`Archive::read`], and what its part breaks.
    pub fn read(&self, entry: Entry<'_>) -> Result<Tensor> {
        let (archive, inside) = self.inner.locate(entry)?;
        archive.read(at(&archive, inside)?)
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`UsageError::BufferLength`].
    pub fn read_into(&self, entry: Entry<'_>, out: &mut [u8]) -> Result<()> {
        let (archive, inside) = self.inner.locate(entry)?;
        archive.read_into(at(&archive, inside)?, out)
    }

    /// Reads a tensor's elements into `out`, as [`Archive::read_slice`] does.
    ///
    /// # Errors
    /// As [`read_into`](Self::read_into), and [`UsageError::Cast`] where the elements are of another
    /// type.
    pub fn read_slice<T: Element>(&self, entry: Entry<'_>, out: &mut [T]) -> Result<()> {
        read_elements(entry.dtype(), out, |bytes| self.read_into(entry, bytes))
    }

    /// Checks one tensor in its part, as [`Archive::verify_entry`] does.
    ///
    /// # Errors
    /// As [`read`](Self::read); damage of the tensor is in the item.
    pub fn verify_entry(&self, entry: Entry<'_>) -> Result<Item> {
        let (archive, inside) = self.inner.find(entry)?;
        archive.verify_entry(at(&archive, inside)?)
    }

    /// A tensor's little-endian bytes as a source of their own, which opens the part whenever it
    /// is read.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn data(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        let (archive, inside) = self.inner.locate(entry)?;
        let size = archive.data(at(&archive, inside)?)?.size();
        self.inner.source(entry, size, false)
    }

    /// A tensor's bytes as its part stores them, whatever its dtype.
    ///
    /// # Errors
    /// As [`Archive::stored`], and what its part breaks.
    pub fn stored(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        let (archive, inside) = self.inner.find(entry)?;
        let size = archive.stored(at(&archive, inside)?)?.size();
        self.inner.source(entry, size, true)
    }

    /// Checks the index and every part, deeply: size and SHA-256 of each file, all that
    /// [`Archive::verify`] checks, and that index and parts agree about every tensor, in both
    /// directions.
    ///
    /// # Errors
    /// What reading fails with, or a stop on request; damage and missing parts are in the report.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        verify::set(&self.inner, &mut report, options)?;
        Ok(report)
    }

    /// The tensors that parts hold and the index does not list, each as the name of its part and
    /// its own. Opens every part; one that can't be opened is left out.
    #[must_use]
    pub fn unlisted(&self) -> Vec<(String, String)> {
        let inner = &*self.inner;
        let mut unlisted = Vec::new();
        for (ordinal, part) in inner.parts.iter().enumerate() {
            let Ok(archive) = inner.part(ordinal) else {
                continue;
            };
            let names = inner.unlisted(ordinal, &archive);
            unlisted.extend(names.map(|name| (part.name.clone(), name.to_owned())));
        }
        unlisted
    }
}

/// The same error about a file; one of bytes that come from elsewhere says where that is.
fn in_file(error: Error, path: &Path) -> Error {
    match error {
        Error::Source(_) => error,
        error => error.in_file(path),
    }
}

/// What opens the files of a set.
struct Files {
    /// Those that are not on this disk, and addresses.
    parts: Option<Arc<dyn Parts>>,
    is_local: bool,
    pool: FilePool,
}

impl Files {
    /// Opens a file of the set; one that is missing is the set's fault.
    fn open(&self, place: &Place) -> Result<Arc<dyn Source>> {
        let opened = match (place, &self.parts) {
            (Place::Local(path), _) => match self.pool.open(path) {
                Ok(source) => Some(Arc::new(source) as Arc<dyn Source>),
                Err(error) => match error.source.kind() {
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::IsADirectory => None,
                    _ => return Err(Error::File(error)),
                },
            },
            (Place::Beside(name), Some(parts)) => parts.open(name)?,
            (Place::Remote(address, below), Some(parts)) if parts.follows() => {
                parts.open_address(address, below.as_deref())?
            }
            (Place::Remote(url, _), _) => {
                let what = Unsupported::Remote { url: url.clone() };
                return Err(Error::unsupported(what, At::new(0, "path")));
            }
            (Place::Beside(_), None) => None,
        };
        opened.ok_or_else(|| {
            let missing = Error::invalid(Rule::SetMissing, At::new(0, "path"));
            missing.in_file(&self.shown(place))
        })
    }

    /// What messages call a file.
    fn shown(&self, place: &Place) -> PathBuf {
        match place {
            Place::Local(path) => path.clone(),
            Place::Beside(name) => match &self.parts {
                Some(parts) => parts.shown(name).into(),
                None => name.into(),
            },
            Place::Remote(address, below) => match below {
                Some(name) => format!("{address}: {name}").into(),
                None => address.into(),
            },
        }
    }

    /// Opens a file of the set as an archive.
    fn archive(&self, place: &Place, options: &ReadOptions) -> Result<Archive> {
        let opened = Archive::from_source(self.open(place)?, options);
        opened.map_err(|error| in_file(error, &self.shown(place)))
    }
}

/// What the index of an archive takes.
fn memory(archive: &Archive) -> u64 {
    archive.index.tensors.memory()
}

impl Inner {
    /// The part with this number, opened unless it is already.
    fn part(&self, ordinal: usize) -> Result<Archive> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|(known, _)| *known == ordinal) {
            let part = open.remove(at);
            open.push(part.clone());
            return Ok(part.1);
        }
        let Some(part) = self.parts.get(ordinal) else {
            let at = At::new(0, "shards");
            return Err(Error::invalid(Rule::SetShard, at));
        };
        let archive = self.files.archive(&part.file.place, &self.options)?;
        open.push((ordinal, archive.clone()));
        // Tensors may go from part to part in their order.
        let most = memory(&self.index).saturating_add(ROOM);
        let sum = |open: &[(usize, Archive)]| {
            let each = open.iter().map(|(_, archive)| memory(archive));
            each.fold(0, u64::saturating_add)
        };
        while open.len() > KNOWN || open.len() > OPEN && sum(&open) > most {
            open.remove(0);
        }
        Ok(archive)
    }

    /// The part that holds a tensor of a known dtype, and its position there.
    fn locate(&self, entry: Entry<'_>) -> Result<(Archive, usize)> {
        if entry.is_of(&self.index.index) && entry.dtype().is_none() {
            let at = At::new(0, "shards").entry(entry.ordinal as u64);
            let what = Unsupported::DType {
                code: entry.dtype_code().0,
            };
            return Err(Error::unsupported(what, at));
        }
        self.find(entry)
    }

    /// The part that holds a tensor, and its position there, after checking that both agree.
    fn find(&self, entry: Entry<'_>) -> Result<(Archive, usize)> {
        if !entry.is_of(&self.index.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        let at = At::new(0, "shards").entry(entry.ordinal as u64);
        let ordinal = self.shards.get(&entry.shard_id());
        let ordinal = *ordinal.ok_or(Error::invalid(Rule::SetShard, at))?;
        let archive = self.part(ordinal)?;
        // Shards are counted anew in each part, so the name is what finds the tensor there.
        let inside = archive.entry(entry.name()).filter(|inside| {
            inside.dtype_code() == entry.dtype_code()
                && inside.shape() == entry.shape()
                && inside.stored_len() == entry.stored_len()
                && inside.data_off() == entry.data_off()
        });
        let Some(inside) = inside else {
            return Err(Error::invalid(Rule::SetTensor, at));
        };
        if archive.is_in_parts() {
            let rule = Rule::SetData;
            return Err(Error::invalid(rule, at));
        }
        // A salvaging reader goes by hashes, so it takes none that two files do not agree about.
        if self.options.salvage && !agree(entry.hash_b3(), inside.hash_b3()) {
            let rule = Rule::SetTensor;
            return Err(Error::invalid(rule, at));
        }
        let inside = inside.ordinal;
        Ok((archive, inside))
    }

    /// A tensor's bytes as a source that opens the part whenever it is read.
    fn source(
        self: &Arc<Self>,
        entry: Entry<'_>,
        size: u64,
        stored: bool,
    ) -> Result<Arc<dyn Source>> {
        let part = self.shards.get(&entry.shard_id());
        let part = part.and_then(|ordinal| self.parts.get(*ordinal));
        Ok(Arc::new(InPart {
            set: self.clone(),
            ordinal: entry.ordinal,
            size,
            stored,
            file: part.and_then(|part| part.id.clone()),
        }))
    }

    /// The tensors that a part holds and the index does not have in it.
    fn unlisted<'a>(&'a self, ordinal: usize, part: &'a Archive) -> impl Iterator<Item = &'a str> {
        let is_listed = move |name: &str| {
            let listed = self.index.entry(name);
            listed.is_some_and(|entry| self.shards.get(&entry.shard_id()) == Some(&ordinal))
        };
        let names = part.entries().map(|entry| entry.name());
        names.filter(move |name| !is_listed(name))
    }
}

/// The entry at a position that another look-up found.
fn at(archive: &Archive, position: usize) -> Result<Entry<'_>> {
    let entry = archive.entry_at(position);
    entry.ok_or_else(|| UsageError::ForeignEntry.into())
}

/// Whether two hashes of one tensor do not contradict each other.
fn agree(a: Option<&[u8; 32]>, b: Option<&[u8; 32]>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a == b)
}

/// A tensor's bytes, in whichever part they are.
struct InPart {
    set: Arc<Inner>,
    ordinal: usize,
    size: u64,
    /// Whether it is all bytes that are stored.
    stored: bool,
    file: Option<FileId>,
}

impl Source for InPart {
    fn file(&self) -> Option<&FileId> {
        self.file.as_ref()
    }

    fn size(&self) -> u64 {
        self.size
    }

    /// The data of an AERO file is never compressed.
    fn is_random_access(&self) -> bool {
        true
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        let data = || {
            let (archive, inside) = self.set.find(at(&self.set.index, self.ordinal)?)?;
            let inside = at(&archive, inside)?;
            match self.stored {
                true => archive.stored(inside),
                false => archive.data(inside),
            }
        };
        let data = data().map_err(|error| match error {
            Error::Source(error) => error,
            Error::File(error) => SourceError::File(error),
            error => SourceError::failure(error),
        })?;
        data.read_into(offset, out)
    }
}

fn wrong(field: &'static str) -> Error {
    Error::invalid(Rule::SetJson, At::new(0, field))
}

fn parse(path: &Path, source: &dyn Source, files: Files, options: &ReadOptions) -> Result<Inner> {
    let (size, limits, at) = (source.size(), &options.limits, At::new(0, "json"));
    LimitExceeded::check("max_set_bytes", size, limits.max_set_bytes, at)?;
    let bytes = source.read(0..size)?;
    limits.check_json(&bytes, size, at)?;
    let json = set_json::parse(&bytes)?;
    check_version(&json)?;
    let follows = files.parts.as_ref().is_some_and(|parts| parts.follows());
    let base = json.get("base_url").filter(|url| !url.is_null());
    let base = base.map(|url| url.as_str().unwrap_or_default());
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = match base {
        Some(url) if !follows => return Err(remote(url, "base_url")),
        Some(url) => Folder::Below(url),
        None if files.is_local => Folder::Local(folder.unwrap_or(Path::new("."))),
        None => Folder::Elsewhere,
    };
    let index_file = listed(at_path(&json, &["global_tidx"]), folder)?;
    if let (Place::Remote(url, _), false) = (&index_file.place, follows) {
        return Err(remote(url, "global_tidx"));
    }
    let (parts, shards) = parse_parts(&json, folder)?;
    let index = files.archive(&index_file.place, options)?;
    if let Some(entry) = index
        .entries()
        .find(|entry| !shards.contains_key(&entry.shard_id()))
    {
        let at = At::new(0, "shard_id").entry(entry.ordinal as u64);
        return Err(Error::invalid(Rule::SetShard, at).of_tensor(entry.name()));
    }
    let mut metadata = Vec::new();
    for key in ["name", "architecture"] {
        if let Some(text) = text_at(&json, &["model", key]) {
            metadata.push(MetaEntry::new(format!("model.{key}"), Value::from(text)));
        }
    }
    Ok(Inner {
        path: path.to_path_buf(),
        len: size,
        files,
        options: *options,
        index,
        index_file,
        parts,
        shards,
        metadata,
        open: Mutex::new(Vec::new()),
    })
}

/// The error about an address that is not opened.
fn remote(url: &str, field: &'static str) -> Error {
    let url = url.to_owned();
    Error::unsupported(Unsupported::Remote { url }, At::new(0, field))
}

/// Whether the JSON is a set's, of a version that is read.
fn check_version(json: &Json) -> Result<()> {
    if text_at(json, &["format", "name"]) != Some("AEROSET") {
        return Err(wrong("format"));
    }
    let version = at_path(json, &["format", "version"]).as_array();
    let [major, minor] = version.map(Vec::as_slice).unwrap_or_default() else {
        return Err(wrong("version"));
    };
    match (major.as_u64(), minor.as_u64()) {
        (Some(0), Some(1 | 2)) => Ok(()),
        (Some(major), Some(minor)) => {
            let what = Unsupported::Version {
                format: "AEROSET",
                major,
                minor,
            };
            Err(Error::unsupported(what, At::new(0, "version")))
        }
        _ => Err(wrong("version")),
    }
}

/// The parts, and which of them holds each shard.
fn parse_parts(json: &Json, folder: Folder<'_>) -> Result<(Vec<Part>, HashMap<u32, usize>)> {
    let mut parts = Vec::new();
    let mut shards = HashMap::new();
    let mut seen = std::collections::HashSet::new();
    let listed_parts = at_path(json, &["parts"]).as_array();
    for part in listed_parts.ok_or_else(|| wrong("parts"))? {
        let file = listed(part, folder)?;
        let name = text_at(part, &["path"]).unwrap_or_default().to_owned();
        if !seen.insert(name.clone()) {
            return Err(Error::invalid(Rule::SetShard, At::new(0, "shards")));
        }
        let mut ids = Vec::new();
        let listed_ids = at_path(part, &["shards"]).as_array();
        for id in listed_ids.ok_or_else(|| wrong("shards"))? {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| wrong("shards"))?;
            ids.push(id);
            if shards.insert(id, parts.len()).is_some() {
                return Err(Error::invalid(Rule::SetShard, At::new(0, "shards")));
            }
        }
        let id = match &file.place {
            Place::Local(path) => FileId::of(path).ok(),
            _ => None,
        };
        parts.push(Part {
            name,
            file,
            shards: ids,
            id,
        });
    }
    Ok((parts, shards))
}

impl HasEntries for Set {
    type Entry<'a> = Entry<'a>;

    fn entry_count(&self) -> usize {
        self.inner.index.entry_count()
    }

    fn entry_at(&self, position: usize) -> Option<Entry<'_>> {
        self.inner.index.entry_at(position)
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a, Set>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries()
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set")
            .field("path", &self.inner.path)
            .field("parts", &self.inner.parts.len())
            .field("entries", &self.entries().len())
            .finish_non_exhaustive()
    }
}
