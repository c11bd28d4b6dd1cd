use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tensor_core::codec::HasEntries;
use tensor_core::{
    Bytes, DType, Entries, FileId, FileSource, Kind, Order, Report, Shape, Source, Tensor, Value,
    VerifyOptions,
};

use crate::codec::{About, Describe, DescribeEntry};
use crate::convert::{ModelTensor, Unreadable};
use crate::format::looks_like;
use crate::{Error, Format, ReadOptions, Result};

/// An open tensor file of any format: one variant per codec of this build. Match it to get the
/// codec's own type back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Archive {
    /// A mag file.
    #[cfg(feature = "mag")]
    Mag(mag_format::Archive),
    /// A zTensor file.
    #[cfg(feature = "ztensor")]
    Ztensor(ztensor_format::Archive),
    /// A burnpack file.
    #[cfg(feature = "burnpack")]
    Burnpack(burnpack_format::Archive),
    /// An AERO file.
    #[cfg(feature = "aero")]
    Aero(aero_format::Archive),
    /// A set of AERO files.
    #[cfg(feature = "aero")]
    AeroSet(aero_format::Set),
    /// A primitiv file.
    #[cfg(feature = "primitiv")]
    Primitiv(primitiv_format::Archive),
    /// A safetensors file.
    #[cfg(feature = "safetensors")]
    Safetensors(safetensors_format::Archive),
    /// A set of safetensors files.
    #[cfg(feature = "safetensors")]
    SafetensorsSet(safetensors_format::Set),
    /// Never there: what keeps a build without any codec a program.
    #[doc(hidden)]
    Never(Infallible),
}

/// One tensor of an [`Archive`], as the file describes it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// Of a mag file.
    #[cfg(feature = "mag")]
    Mag(mag_format::Entry<'a>),
    /// Of a zTensor file.
    #[cfg(feature = "ztensor")]
    Ztensor(ztensor_format::Entry<'a>),
    /// Of a burnpack file.
    #[cfg(feature = "burnpack")]
    Burnpack(burnpack_format::Entry<'a>),
    /// Of an AERO file.
    #[cfg(feature = "aero")]
    Aero(aero_format::Entry<'a>),
    /// Of a set of AERO files.
    #[cfg(feature = "aero")]
    AeroSet(aero_format::Entry<'a>),
    /// Of a primitiv file.
    #[cfg(feature = "primitiv")]
    Primitiv(primitiv_format::Entry<'a>),
    /// Of a safetensors file.
    #[cfg(feature = "safetensors")]
    Safetensors(safetensors_format::Entry<'a>),
    /// Of a set of safetensors files.
    #[cfg(feature = "safetensors")]
    SafetensorsSet(safetensors_format::Entry<'a>),
    /// Never there.
    #[doc(hidden)]
    Never(&'a Infallible),
}

/// Runs the same expression on whichever codec's value is inside.
macro_rules! with_inner {
    ($value:expr, $inner:ident => $body:expr) => {
        match $value {
            #[cfg(feature = "mag")]
            Self::Mag($inner) => $body,
            #[cfg(feature = "ztensor")]
            Self::Ztensor($inner) => $body,
            #[cfg(feature = "burnpack")]
            Self::Burnpack($inner) => $body,
            #[cfg(feature = "aero")]
            Self::Aero($inner) => $body,
            #[cfg(feature = "aero")]
            Self::AeroSet($inner) => $body,
            #[cfg(feature = "primitiv")]
            Self::Primitiv($inner) => $body,
            #[cfg(feature = "safetensors")]
            Self::Safetensors($inner) => $body,
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSet($inner) => $body,
            Self::Never(never) => never_there(never),
        }
    };
}

/// Runs the same expression on an archive and an entry of one codec.
macro_rules! with_both {
    ($archive:expr, $entry:expr, ($a:ident, $e:ident) => $body:expr, else $other:expr) => {
        match ($archive, $entry) {
            #[cfg(feature = "mag")]
            (Self::Mag($a), Entry::Mag($e)) => $body,
            #[cfg(feature = "ztensor")]
            (Self::Ztensor($a), Entry::Ztensor($e)) => $body,
            #[cfg(feature = "burnpack")]
            (Self::Burnpack($a), Entry::Burnpack($e)) => $body,
            #[cfg(feature = "aero")]
            (Self::Aero($a), Entry::Aero($e)) => $body,
            #[cfg(feature = "aero")]
            (Self::AeroSet($a), Entry::AeroSet($e)) => $body,
            #[cfg(feature = "primitiv")]
            (Self::Primitiv($a), Entry::Primitiv($e)) => $body,
            #[cfg(feature = "safetensors")]
            (Self::Safetensors($a), Entry::Safetensors($e)) => $body,
            #[cfg(feature = "safetensors")]
            (Self::SafetensorsSet($a), Entry::SafetensorsSet($e)) => $body,
            #[allow(unreachable_patterns, reason = "a build may have one codec only")]
            _ => $other,
        }
    };
}

impl Archive {
    /// Opens the file at `path`, whatever its format: reads its index, none of its data.
    ///
    /// # Errors
    /// [`Error::UnknownFormat`], or what the format's codec finds, with the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &ReadOptions::default())
    }

    /// Opens the file at `path`, whatever its format, with `options`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        let path = path.as_ref();
        let source = FileSource::open(path)?;
        #[cfg(feature = "aero")]
        if is_set(&source, path)? {
            let set = aero_format::Set::open_with(path, &aero_options(options))?;
            return Ok(Self::AeroSet(set));
        }
        #[cfg(feature = "safetensors")]
        if is_index(&source, path)? {
            let own = safetensors_options(options);
            let set = safetensors_format::Set::open_with(path, &own)?;
            return Ok(Self::SafetensorsSet(set));
        }
        Self::open_source(source, Some(path), options).map_err(|error| error.in_file(path))
    }

    /// Opens a file that is in memory; tensors are slices of `bytes` where they are stored raw.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        Self::open_source(bytes.into(), None, &ReadOptions::default())
    }

    /// Opens any source of bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_source(source: impl Source + 'static) -> Result<Self> {
        Self::from_source_with(source, &ReadOptions::default())
    }

    /// Opens any source of bytes, with `options`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_source_with(source: impl Source + 'static, options: &ReadOptions) -> Result<Self> {
        Self::open_source(source, None, options)
    }

    /// Opens a source as a file of `format`, without detection.
    ///
    /// # Errors
    /// [`Error::Disabled`], or what the format's codec finds.
    pub fn from_source_as(
        source: impl Source + 'static,
        format: Format,
        options: &ReadOptions,
    ) -> Result<Self> {
        match format {
            #[cfg(feature = "mag")]
            Format::Mag => {
                let mut own = mag_format::ReadOptions::default();
                options.set_limits(|name, value| own.limits.set(name, value));
                Ok(Self::Mag(mag_format::Archive::from_source(source, &own)?))
            }
            #[cfg(feature = "ztensor")]
            Format::Ztensor => {
                let mut own = ztensor_format::ReadOptions::default();
                options.set_limits(|name, value| own.limits.set(name, value));
                let archive = ztensor_format::Archive::from_source(source, &own)?;
                Ok(Self::Ztensor(archive))
            }
            #[cfg(feature = "burnpack")]
            Format::Burnpack => {
                let mut own = burnpack_format::ReadOptions::default();
                options.set_limits(|name, value| own.limits.set(name, value));
                let archive = burnpack_format::Archive::from_source(source, &own)?;
                Ok(Self::Burnpack(archive))
            }
            #[cfg(feature = "aero")]
            Format::Aero => {
                let own = aero_options(options);
                Ok(Self::Aero(aero_format::Archive::from_source(source, &own)?))
            }
            #[cfg(feature = "primitiv")]
            Format::Primitiv => {
                let mut own = primitiv_format::ReadOptions::default();
                options.set_limits(|name, value| own.limits.set(name, value));
                let archive = primitiv_format::Archive::from_source(source, &own)?;
                Ok(Self::Primitiv(archive))
            }
            #[cfg(feature = "safetensors")]
            Format::Safetensors => {
                let own = safetensors_options(options);
                let archive = safetensors_format::Archive::from_source(source, &own)?;
                Ok(Self::Safetensors(archive))
            }
            #[allow(unreachable_patterns, reason = "a build may have every codec")]
            _ => Err(Error::Disabled(format)),
        }
    }

    fn open_source(
        source: impl Source + 'static,
        path: Option<&Path>,
        options: &ReadOptions,
    ) -> Result<Self> {
        let len = source.size();
        let head = source.read(0..len.min(Format::DETECT_LEN as u64))?;
        let unknown = |what: Option<String>| Error::UnknownFormat {
            head: head.iter().copied().take(8).collect(),
            hint: match what {
                _ if head.is_empty() => "; it is empty".into(),
                Some(what) => format!("; it looks like {what}"),
                None => String::new(),
            },
        };
        let Some(format) = Format::detect(&head, len, path) else {
            return Err(unknown(looks_like(&head, len)));
        };
        match Self::from_source_as(source, format, options) {
            // A name that promises one thing over bytes that are clearly another.
            Err(error) if error.kind() == Kind::Invalid && !Format::is_marked(&head, len) => {
                match looks_like(&head, len) {
                    Some(what) => Err(unknown(Some(what))),
                    None => Err(error),
                }
            }
            opened => opened,
        }
    }

    /// The format.
    pub fn format(&self) -> Format {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(_) => Format::Mag,
            #[cfg(feature = "ztensor")]
            Self::Ztensor(_) => Format::Ztensor,
            #[cfg(feature = "burnpack")]
            Self::Burnpack(_) => Format::Burnpack,
            #[cfg(feature = "aero")]
            Self::Aero(_) => Format::Aero,
            #[cfg(feature = "aero")]
            Self::AeroSet(_) => Format::Aero,
            #[cfg(feature = "primitiv")]
            Self::Primitiv(_) => Format::Primitiv,
            #[cfg(feature = "safetensors")]
            Self::Safetensors(_) | Self::SafetensorsSet(_) => Format::Safetensors,
            Self::Never(never) => never_there(never),
        }
    }

    /// Whether it is several files.
    pub fn is_set(&self) -> bool {
        match self {
            #[cfg(feature = "aero")]
            Self::AeroSet(_) => true,
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSet(_) => true,
            _ => false,
        }
    }

    /// The format's version or generation, as people name it.
    pub fn version(&self) -> String {
        with_inner!(self, archive => archive.version_name())
    }

    /// Size of the file in bytes.
    pub fn file_len(&self) -> u64 {
        with_inner!(self, archive => archive.file_len())
    }

    /// Size of the index in bytes as decoded, where it is compressed.
    pub(crate) fn index_len(&self) -> u64 {
        match self {
            #[cfg(feature = "aero")]
            Self::Aero(archive) => crate::codec::aero::index_len(archive),
            _ => 0,
        }
    }

    /// Every file that is read, by what it is and not by its name: one, or all those of a set that are
    /// there. Empty where the bytes come from elsewhere.
    pub fn files(&self) -> Vec<FileId> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(archive) => archive.file().cloned().into_iter().collect(),
            #[cfg(feature = "ztensor")]
            Self::Ztensor(archive) => archive.file().cloned().into_iter().collect(),
            #[cfg(feature = "burnpack")]
            Self::Burnpack(archive) => archive.file().cloned().into_iter().collect(),
            #[cfg(feature = "aero")]
            Self::Aero(archive) => archive.file().cloned().into_iter().collect(),
            #[cfg(feature = "aero")]
            Self::AeroSet(set) => {
                let there = set
                    .files()
                    .into_iter()
                    .filter_map(|path| FileId::of(path).ok());
                there.collect()
            }
            #[cfg(feature = "primitiv")]
            Self::Primitiv(archive) => archive.file().cloned().into_iter().collect(),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(archive) => archive.file().cloned().into_iter().collect(),
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSet(set) => set.file_ids(),
            Self::Never(never) => never_there(never),
        }
    }

    /// All tensors, in file order: an iterator that also gives the one at a position.
    pub fn entries(&self) -> Entries<'_, Self> {
        Entries::of(self)
    }

    /// The tensor of this name.
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(archive) => archive.entry(name).map(Entry::Mag),
            #[cfg(feature = "ztensor")]
            Self::Ztensor(archive) => archive.entry(name).map(Entry::Ztensor),
            #[cfg(feature = "burnpack")]
            Self::Burnpack(archive) => archive.entry(name).map(Entry::Burnpack),
            #[cfg(feature = "aero")]
            Self::Aero(archive) => archive.entry(name).map(Entry::Aero),
            #[cfg(feature = "aero")]
            Self::AeroSet(archive) => archive.entry(name).map(Entry::AeroSet),
            #[cfg(feature = "primitiv")]
            Self::Primitiv(archive) => archive.entry(name).map(Entry::Primitiv),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(archive) => archive.entry(name).map(Entry::Safetensors),
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSet(set) => set.entry(name).map(Entry::SafetensorsSet),
            Self::Never(never) => never_there(never),
        }
    }

    /// File-level metadata, in file order: all that can be read, see
    /// [`metadata_fault`](Self::metadata_fault).
    pub fn metadata(&self) -> Vec<(String, Value)> {
        with_inner!(self, archive => archive.metadata_pairs())
    }

    /// Why [`metadata`](Self::metadata) lacks some, where it does: a chunk of an AERO file that is
    /// damaged or beyond a limit, a part of a set that is not there.
    pub fn metadata_fault(&self) -> Option<Error> {
        with_inner!(self, archive => archive.metadata_fault())
    }

    /// Tensors that are there and that no entry is for: what a part of a set holds and its index doesn't
    /// list, each with the name of its part. Opens every part.
    pub fn unlisted(&self) -> Vec<(String, String)> {
        match self {
            #[cfg(feature = "aero")]
            Self::AeroSet(set) => set.unlisted(),
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSet(set) => {
                let owned = |(shard, name): (&str, &str)| (shard.to_owned(), name.to_owned());
                set.unlisted().map(owned).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What is odd about the files of a set, and no fault: shards that its index doesn't name, a total
    /// size that is wrong.
    pub fn oddities(&self) -> &[String] {
        match self {
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSet(set) => set.oddities(),
            _ => &[],
        }
    }

    /// What [`salvage`](ReadOptions::salvage) went past when a set was opened: parts that are missing or
    /// damaged, tensors that are not where its index has them.
    pub fn faults(&self) -> Vec<String> {
        match self {
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSet(set) => set.faults().iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }

    /// The part of a set that holds a tensor's bytes, as the set names it; `None` where they are in the
    /// file itself.
    pub fn part_of(&self, entry: Entry<'_>) -> Option<&str> {
        match (self, entry) {
            #[cfg(feature = "aero")]
            (Self::AeroSet(set), Entry::AeroSet(entry)) => set.part_of(entry),
            #[cfg(feature = "safetensors")]
            (Self::SafetensorsSet(set), Entry::SafetensorsSet(entry)) => set.shard_of(entry),
            _ => None,
        }
    }

    /// Facts about the file as a whole that are no metadata, under the keys of listings.
    pub fn facts(&self) -> Vec<(&'static str, Value)> {
        with_inner!(self, archive => archive.facts())
    }

    /// Reads the tensor of this name.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`], naming the nearest names, or what the codec finds.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let entry = self.entry(name).ok_or_else(|| self.no_such_tensor(name))?;
        self.read_entry(entry)
    }

    /// Reads a tensor.
    ///
    /// # Errors
    /// What the codec finds; an entry of another archive is an error.
    pub fn read_entry(&self, entry: Entry<'_>) -> Result<Tensor> {
        with_both!(self, entry, (archive, entry) => Ok(archive.read(entry)?), else foreign())
    }

    /// A tensor's decoded, little-endian bytes as a source, in stored order.
    ///
    /// # Errors
    /// As [`read_entry`](Self::read_entry).
    pub fn data(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        with_both!(self, entry, (archive, entry) => Ok(archive.data(entry)?), else foreign())
    }

    /// A tensor's bytes as the file stores them, whatever its dtype.
    ///
    /// # Errors
    /// What the codec finds; an entry of another archive is an error.
    pub fn stored(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        with_both!(self, entry, (archive, entry) => Ok(archive.stored(entry)?), else foreign())
    }

    /// Whether the file's metadata says that its dims are in the other order.
    pub(crate) fn has_reversed_dims(&self) -> bool {
        #[cfg(feature = "aero")]
        if self.format() == Format::Aero {
            return crate::codec::aero::has_gguf_dims(&self.metadata());
        }
        false
    }

    /// A tensor with everything that the file says about it, for a model.
    pub(crate) fn model_tensor(&self, entry: Entry<'_>, about: About) -> ModelTensor {
        match (self, entry) {
            #[cfg(feature = "ztensor")]
            (Self::Ztensor(archive), Entry::Ztensor(entry)) => {
                crate::codec::ztensor::model_tensor(archive, entry, about)
            }
            #[cfg(feature = "burnpack")]
            (Self::Burnpack(archive), Entry::Burnpack(entry)) => {
                crate::codec::burnpack::model_tensor(archive, entry, about)
            }
            #[cfg(feature = "aero")]
            (Self::Aero(archive), Entry::Aero(entry)) => {
                crate::codec::aero::model_tensor(archive, entry, about)
            }
            #[cfg(feature = "aero")]
            (Self::AeroSet(archive), Entry::AeroSet(entry)) => {
                crate::codec::aero::set_tensor(archive, entry, about)
            }
            #[cfg(feature = "primitiv")]
            (Self::Primitiv(archive), Entry::Primitiv(entry)) => {
                crate::codec::primitiv::model_tensor(archive, entry, about)
            }
            #[cfg(feature = "safetensors")]
            (Self::Safetensors(archive), Entry::Safetensors(entry)) => {
                crate::codec::safetensors::model_tensor(archive, entry, about)
            }
            #[cfg(feature = "safetensors")]
            (Self::SafetensorsSet(set), Entry::SafetensorsSet(entry)) => {
                crate::codec::safetensors::set_tensor(set, entry, about)
            }
            _ => crate::codec::tensor(
                entry.name(),
                entry.dtype(),
                entry.dtype_name(),
                entry.shape(),
                entry.order(),
                self.data(entry).map_err(Unreadable::of),
            ),
        }
    }

    /// Makes every check that the format allows: structure, checksums, decompression.
    ///
    /// # Errors
    /// What keeps the checks from being made; damage is in the report.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        with_inner!(self, archive => Ok(archive.verify(options)?))
    }

    /// The error for a name that isn't there, with up to three near ones.
    pub fn no_such_tensor(&self, name: &str) -> Error {
        let mut near: Vec<(usize, &str)> = Vec::new();
        let entries = self.entries();
        for entry in &entries {
            let distance = distance(name, entry.name());
            if distance <= name.chars().count().max(6) / 2 {
                near.push((distance, entry.name()));
            }
        }
        near.sort_unstable();
        let near: Vec<String> = near
            .iter()
            .take(3)
            .map(|(_, name)| format!("{name:?}"))
            .collect();
        let hint = match near.is_empty() {
            true => String::new(),
            false => format!("; did you mean {}?", near.join(" or ")),
        };
        Error::NoSuchTensor {
            name: name.into(),
            hint,
        }
    }
}

impl HasEntries for Archive {
    type Entry<'a> = Entry<'a>;

    fn entry_count(&self) -> usize {
        with_inner!(self, archive => archive.entries().len())
    }

    fn entry_at(&self, position: usize) -> Option<Entry<'_>> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(archive) => archive.entries().get(position).map(Entry::Mag),
            #[cfg(feature = "ztensor")]
            Self::Ztensor(archive) => archive.entries().get(position).map(Entry::Ztensor),
            #[cfg(feature = "burnpack")]
            Self::Burnpack(archive) => archive.entry_at(position).map(Entry::Burnpack),
            #[cfg(feature = "aero")]
            Self::Aero(archive) => archive.entry_at(position).map(Entry::Aero),
            #[cfg(feature = "aero")]
            Self::AeroSet(set) => set.entries().get(position).map(Entry::AeroSet),
            #[cfg(feature = "primitiv")]
            Self::Primitiv(archive) => archive.entries().get(position).map(Entry::Primitiv),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(archive) => archive.entry_at(position).map(Entry::Safetensors),
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSet(set) => set.entry_at(position).map(Entry::SafetensorsSet),
            Self::Never(never) => never_there(never),
        }
    }
}

/// What a value that can't be there is worth.
pub(crate) fn never_there<T>(never: &Infallible) -> T {
    match *never {}
}

fn foreign<T>() -> Result<T> {
    let message = "the entry belongs to an archive of another format";
    Err(Error::Usage(message.into()))
}

#[cfg(feature = "aero")]
fn aero_options(options: &ReadOptions) -> aero_format::ReadOptions {
    let mut own = aero_format::ReadOptions::default();
    own.salvage = options.salvage;
    options.set_limits(|name, value| own.limits.set(name, value));
    own
}

#[cfg(feature = "safetensors")]
fn safetensors_options(options: &ReadOptions) -> safetensors_format::ReadOptions {
    let mut own = safetensors_format::ReadOptions::default();
    own.salvage = options.salvage;
    options.set_limits(|name, value| own.limits.set(name, value));
    own
}

/// Whether a file is the index of a set of safetensors: by its name, or by the beginning of its JSON.
#[cfg(feature = "safetensors")]
fn is_index(source: &FileSource, path: &Path) -> Result<bool> {
    /// As much as comes before the map of a file whose other keys are few.
    const HEAD: u64 = 4096;
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_ascii_lowercase());
    if name.is_some_and(|name| name.ends_with(".index.json")) {
        return Ok(true);
    }
    let head = source.read(0..source.size().min(HEAD))?;
    let is_json = head.trim_ascii_start().starts_with(b"{");
    let map = b"\"weight_map\"";
    Ok(is_json && head.windows(map.len()).any(|window| window == map))
}

/// Whether a file is the JSON of an AERO set: by what it starts with, or by its name.
#[cfg(feature = "aero")]
fn is_set(source: &FileSource, path: &Path) -> Result<bool> {
    let len = source.size();
    let head = source.read(0..len.min(Format::DETECT_LEN as u64))?;
    let json = Format::is_marked(&head, len) && head.trim_ascii_start().starts_with(b"{");
    let named = path
        .to_string_lossy()
        .to_ascii_lowercase()
        .ends_with(".aeroset.json");
    let aero = Format::detect(&head, len, Some(path)) == Some(Format::Aero);
    let is_text = head.trim_ascii_start().starts_with(b"{") || looks_like(&head, len).is_none();
    Ok(aero && !head.starts_with(b"AERO") && (json || named && is_text))
}

/// Edits between two names, of which only the first 200 characters count.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(200).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(200).enumerate() {
        // `row` holds the line above; its first column is the number of characters dropped.
        let (mut above_left, mut last) = (i, i + 1);
        if let Some(first) = row.first_mut() {
            *first = last;
        }
        for (y, slot) in b.iter().zip(row.iter_mut().skip(1)) {
            let best = (above_left + usize::from(x != *y))
                .min(*slot + 1)
                .min(last + 1);
            above_left = *slot;
            *slot = best;
            last = best;
        }
    }
    row.last().copied().unwrap_or(0)
}

impl<'a> Entry<'a> {
    /// The name.
    pub fn name(self) -> &'a str {
        with_inner!(self, entry => entry.name())
    }

    /// The dtype, `None` where it is unknown.
    pub fn dtype(self) -> Option<DType> {
        with_inner!(self, entry => entry.dtype())
    }

    /// The dtype's name in listings: ours where it is known, else the file's.
    pub fn dtype_name(self) -> Cow<'a, str> {
        if let Some(dtype) = self.dtype().filter(|&dtype| dtype != DType::Opaque) {
            return Cow::Borrowed(dtype.name());
        }
        with_inner!(self, entry => entry.stored_dtype())
    }

    /// The dims, outermost first.
    pub fn shape(self) -> &'a Shape {
        with_inner!(self, entry => entry.shape())
    }

    /// Which dim varies fastest in the stored bytes.
    pub fn order(self) -> Order {
        with_inner!(self, entry => entry.order())
    }

    /// Absolute offset of the stored bytes.
    pub fn offset(self) -> u64 {
        with_inner!(self, entry => entry.offset())
    }

    /// Bytes that the tensor takes in the file, `None` where that is unknown.
    pub fn stored_len(self) -> Option<u64> {
        with_inner!(self, entry => entry.stored_bytes())
    }

    /// Bytes of the decoded data, `None` where that is unknown.
    pub fn nbytes(self) -> Option<u64> {
        with_inner!(self, entry => entry.nbytes())
    }

    /// How the bytes are stored: `raw` or the format's own word.
    pub fn encoding(self) -> Cow<'a, str> {
        with_inner!(self, entry => DescribeEntry::encoding(entry))
    }

    /// What only this format says about a tensor, under the keys of listings.
    pub fn extras(self) -> Vec<(&'static str, Value)> {
        with_inner!(self, entry => DescribeEntry::extras(entry))
    }

    /// The same for people: of what the file says once for many entries, and at length, it says how long it
    /// is. Takes little, however many entries there are.
    pub fn extras_in_short(self) -> Vec<(&'static str, Value)> {
        with_inner!(self, entry => DescribeEntry::extras_in_short(entry))
    }

    /// The object of the file that this is a part of, where there is one: what the file says about it, all of
    /// its parts say.
    pub fn object(self) -> Option<&'a str> {
        with_inner!(self, entry => DescribeEntry::object_name(entry))
    }

    /// Whether the object that this is a part of, and that of another entry, are said to be the same; `false`
    /// also where there is none, or it takes more than a comparison of bytes to tell.
    pub fn says_as(self, other: Entry<'_>) -> bool {
        match (self, other) {
            #[cfg(feature = "ztensor")]
            (Self::Ztensor(entry), Entry::Ztensor(other)) => entry.says_as(other),
            _ => false,
        }
    }

    /// Whether the file says more about the object that this is a part of than each part should repeat.
    pub fn is_said_at_length(self) -> bool {
        self.said_once() > 1 << 16
    }

    /// Dims and bytes that the file says once for several entries.
    pub(crate) fn said_once(self) -> u64 {
        with_inner!(self, entry => DescribeEntry::said_once(entry))
    }
}

impl fmt::Display for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.format(), self.version())
    }
}
