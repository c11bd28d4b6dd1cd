use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tensor_core::codec::HasEntries;
use tensor_core::{
    Bytes, DType, Element, Entries, FileId, FileSource, Item, Kind, Misfit, Order, Parts, Patch,
    Report, Shape, Source, Tensor, Value, VerifyOptions,
};

#[allow(unused_imports, reason = "a build may have no codec")]
use crate::codec::{self, About, Describe, DescribeEntry, Write, disabled};
use crate::convert::{Model, ModelTensor, Unreadable};
use crate::format::looks_like;
use crate::{Error, Format, ReadOptions, Result, Select};

macro_rules! define {
    (() $([
        $Archive:ident $feature:literal $krate:ident $Type:ident $about:literal $Format:ident
    ])*) => {
        /// An open tensor file of any format: one variant per codec of this build. Match it to get the
        /// codec's own type back.
        ///
        /// ```
        /// use tensorfmt::{Archive, Format, ReadOptions, Source, VerifyOptions};
        ///
        /// # let folder = tempfile::tempdir()?;
        /// # let path = folder.path().join("model.mag");
        /// # let mut builder = tensorfmt::mag::Builder::new();
        /// # builder.tensor("w", tensorfmt::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
        /// # builder.metadata("step", 7i64)?;
        /// # builder.write_file(&path)?;
        /// let archive = Archive::open_with(&path, &ReadOptions::default())?;
        /// assert_eq!((archive.format(), archive.len(), archive.is_empty()), (Format::Mag, 1, false));
        /// println!("{} bytes; {:?}; {:?}", archive.file_len(), archive.metadata(), archive.facts());
        /// assert!(archive.metadata_fault().is_none()); // all of it could be read
        /// assert_eq!((archive.is_set(), archive.files().len()), (false, 1));
        /// let mut values = [0f32; 2];
        /// archive.read_slice("w", &mut values)?;
        /// assert_eq!(values, [0.5, 1.5]);
        /// let entry = archive.entry("w").ok_or_else(|| archive.no_such_tensor("w"))?;
        /// let mut bytes = [0; 8];
        /// archive.read_into(entry, &mut bytes)?;
        /// assert_eq!(archive.data(entry)?.read(4..8)?, &bytes[4..]); // in windows of any size
        /// assert_eq!(archive.stored(entry)?.size(), 8); // as the file has it
        /// let report = archive.verify(&VerifyOptions::default())?;
        /// assert!(!report.has_failed());
        /// println!("{:?}", archive.verify_entry(entry)?.outcome);
        /// // What is odd about a set, or missing.
        /// assert!(archive.unlisted().is_empty() && archive.oddities().is_empty());
        /// assert!(archive.faults().is_empty() && archive.part_of(entry).is_none());
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Archive {
            $(
                #[doc = concat!($about, ": [`", stringify!($krate), "::", stringify!($Type), "`].")]
                #[cfg(feature = $feature)]
                $Archive($krate::$Type),
            )*
            /// Never there: what keeps a build without any codec a program.
            #[doc(hidden)]
            Never(Infallible),
        }

        /// One tensor of an [`Archive`], as the file describes it.
        ///
        /// ```
        /// use tensorfmt::{Archive, DType, Order};
        ///
        /// # let mut builder = tensorfmt::ztensor::Builder::new();
        /// # builder.tensor("w", tensorfmt::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
        /// # let archive = Archive::from_bytes(builder.to_vec()?)?;
        /// let entry = archive.entry("w").ok_or("no w")?;
        /// assert_eq!((entry.name(), entry.shape().dims()), ("w", &[2][..]));
        /// assert_eq!((entry.dtype(), entry.order()), (Some(DType::F32), Order::RowMajor));
        /// assert_eq!((entry.nbytes(), entry.stored_len()), (Some(8), Some(8)));
        /// println!("{} at {:#x}", entry.encoding(), entry.offset());
        /// // What only this format says, such as a checksum.
        /// println!("{:?}, {:?}", entry.extras(), entry.extras_in_short());
        /// // What the file says once about an object of several tensors, which zTensor alone has.
        /// assert!(entry.object().is_none() && !entry.is_said_at_length());
        /// println!("{}", archive.entries().any(|other| other.says_as(entry)));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum Entry<'a> {
            $(
                #[doc = concat!($about, ": [`", stringify!($krate), "::Entry`].")]
                #[cfg(feature = $feature)]
                $Archive($krate::Entry<'a>),
            )*
            /// Never there.
            #[doc(hidden)]
            Never(&'a Infallible),
        }
    };
}

archives! { define! () }

/// Runs the same expression on whichever codec's value is inside.
macro_rules! with_inner {
    ($value:expr, $inner:ident => $body:expr) => {
        archives! { match_inner! ($value, $inner, $body) }
    };
}

macro_rules! match_inner {
    (
        ($value:expr, $inner:ident, $body:expr)
        $([$Archive:ident $feature:literal $($rest:tt)*])*
    ) => {
        match $value {
            $(
                #[cfg(feature = $feature)]
                Self::$Archive($inner) => $body,
            )*
            Self::Never(never) => never_there(never),
        }
    };
}

/// Runs the same expression on an archive and an entry of one codec.
macro_rules! with_both {
    ($archive:expr, $entry:expr, ($a:ident, $e:ident) => $body:expr, else $other:expr) => {
        archives! { match_both! ($archive, $entry, $a, $e, $body, $other) }
    };
}

macro_rules! match_both {
    (
        ($archive:expr, $entry:expr, $a:ident, $e:ident, $body:expr, $other:expr)
        $([$Archive:ident $feature:literal $($rest:tt)*])*
    ) => {
        match ($archive, $entry) {
            $(
                #[cfg(feature = $feature)]
                (Self::$Archive($a), Entry::$Archive($e)) => $body,
            )*
            _ => $other,
        }
    };
}

/// Wraps what a codec made, if it made something.
macro_rules! with_variant {
    ($archive:expr, $inner:ident => $made:expr) => {
        archives! { match_variant! ($archive, $inner, $made) }
    };
}

macro_rules! match_variant {
    (
        ($archive:expr, $inner:ident, $made:expr)
        $([$Archive:ident $feature:literal $($rest:tt)*])*
    ) => {
        match $archive {
            $(
                #[cfg(feature = $feature)]
                Self::$Archive($inner) => $made.map(Entry::$Archive),
            )*
            Self::Never(never) => never_there(never),
        }
    };
}

#[allow(unused_variables, reason = "a build may have no codec")]
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
        Self::open_path(path.as_ref(), None, options)
    }

    /// Opens the file at `path`; where it is a set that names addresses over http(s), `links` opens those.
    /// [`Elsewhere`](crate::Elsewhere) of the feature `remote` has an example.
    ///
    /// # Errors
    /// As [`open`](Self::open), and what `links` fails with.
    pub fn open_linked(
        path: impl AsRef<Path>,
        links: Arc<dyn Parts>,
        options: &ReadOptions,
    ) -> Result<Self> {
        Self::open_path(path.as_ref(), Some(links), options)
    }

    fn open_path(
        path: &Path,
        links: Option<Arc<dyn Parts>>,
        options: &ReadOptions,
    ) -> Result<Self> {
        let source = FileSource::open(path)?;
        if let Some(set) = Self::open_set(&source, path, links, options)? {
            return Ok(set);
        }
        Self::open_source(source, Some(path), options).map_err(|error| error.in_file(path))
    }

    /// Opens a file that is in memory ([`ReadOptions`] has an example); tensors are slices of `bytes`
    /// where they are stored raw.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        Self::open_source(bytes.into(), None, &ReadOptions::default())
    }

    /// Opens any source of bytes; [`ReadOptions`] has an example.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_source(source: impl Source + 'static, options: &ReadOptions) -> Result<Self> {
        Self::open_source(source, None, options)
    }

    /// Opens a source as a file of `format`, without detection; [`ReadOptions`] has an example.
    ///
    /// # Errors
    /// [`Error::Disabled`], or what the format's codec finds.
    pub fn from_source_as(
        source: impl Source + 'static,
        format: Format,
        options: &ReadOptions,
    ) -> Result<Self> {
        macro_rules! open {
            (() $($Format:ident {
                about: $about:literal,
                feature: $feature:literal,
                codec: $krate:ident as $module:ident,
                $($rest:tt)*
            })*) => {
                match format {
                    $(
                        #[cfg(feature = $feature)]
                        Format::$Format => codec::$module::open(source, options).map(Self::$Format),
                    )*
                    #[allow(unreachable_patterns, reason = "a build may have every codec")]
                    _ => Err(disabled(format, source, options)),
                }
            };
        }
        formats! { open! () }
    }

    /// Opens the set that a file is the beginning of, if it is.
    fn open_set(
        source: &FileSource,
        path: &Path,
        links: Option<Arc<dyn Parts>>,
        options: &ReadOptions,
    ) -> Result<Option<Self>> {
        macro_rules! open {
            (() $($Format:ident {
                about: $about:literal,
                feature: $feature:literal,
                codec: $krate:ident as $module:ident,
                endings: $endings:tt,
                mark: $mark:expr,
                set: [$($Set:ident $name:literal $ending:literal)?],
            })*) => {$($(
                #[cfg(feature = $feature)]
                if codec::$module::is_set(source, path)? {
                    let set = match links {
                        Some(links) => codec::$module::open_linked(path, links, options)?,
                        None => codec::$module::open_set(path, options)?,
                    };
                    return Ok(Some(Self::$Set(set)));
                }
            )?)*};
        }
        formats! { open! () }
        let _ = (source, path, links, options);
        Ok(None)
    }

    pub(crate) fn open_source(
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
    #[must_use]
    pub fn format(&self) -> Format {
        macro_rules! kind {
            (() $([
                $Archive:ident $feature:literal $krate:ident $Type:ident $about:literal $Format:ident
            ])*) => {
                match self {
                    $(
                        #[cfg(feature = $feature)]
                        Self::$Archive(_) => Format::$Format,
                    )*
                    Self::Never(never) => never_there(never),
                }
            };
        }
        archives! { kind! () }
    }

    /// Whether it is several files.
    #[must_use]
    pub fn is_set(&self) -> bool {
        with_inner!(self, archive => archive.is_several())
    }

    /// The format's version or generation, as people name it.
    #[must_use]
    pub fn version(&self) -> String {
        with_inner!(self, archive => archive.version_name())
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        with_inner!(self, archive => archive.file_len())
    }

    /// Size of the index in bytes as decoded, where it is compressed.
    pub(crate) fn index_len(&self) -> u64 {
        with_inner!(self, archive => archive.index_len())
    }

    /// Every file that is read, by what it is and not by its name: one, or all those of a set that are
    /// there. Empty where the bytes come from elsewhere.
    #[must_use]
    pub fn files(&self) -> Vec<FileId> {
        with_inner!(self, archive => archive.read_files())
    }

    /// All tensors, in file order: an iterator that also gives the one at a position.
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
        with_variant!(self, archive => archive.entry(name))
    }

    /// File-level metadata, in file order: all that can be read, see
    /// [`metadata_fault`](Self::metadata_fault).
    #[must_use]
    pub fn metadata(&self) -> Vec<(String, Value)> {
        with_inner!(self, archive => archive.metadata_pairs())
    }

    /// Calls `take` with every pair of [`metadata`](Self::metadata) in turn, for a walk over more of them than
    /// are to be held at once.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// # let mut new = tensorfmt::safetensors::Builder::new();
    /// # new.metadata("step", "7")?.write_file(&path)?;
    /// let archive = tensorfmt::Archive::open(&path)?;
    /// let mut pairs = Vec::new();
    /// archive.each_metadata(|key, value| pairs.push((key.to_owned(), value.clone())));
    /// assert_eq!(pairs, archive.metadata());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn each_metadata(&self, take: impl FnMut(&str, &Value)) {
        let take: &mut dyn FnMut(&str, &Value) = &mut { take };
        let () = with_inner!(self, archive => archive.each_pair(take));
    }

    /// The first metadata value of this key.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// # let mut new = tensorfmt::safetensors::Builder::new();
    /// # new.metadata("step", "7")?.write_file(&path)?;
    /// let archive = tensorfmt::Archive::open(&path)?;
    /// assert_eq!(archive.metadata_value("step").unwrap().as_str(), Some("7"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn metadata_value(&self, key: &str) -> Option<Value> {
        let pairs = self.metadata().into_iter();
        pairs
            .into_iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value)
    }

    /// Why [`metadata`](Self::metadata) lacks some, where it does: a chunk of an AERO file that is
    /// damaged or beyond a limit, a part of a set that is not there.
    #[must_use]
    pub fn metadata_fault(&self) -> Option<Error> {
        with_inner!(self, archive => archive.metadata_fault())
    }

    /// Tensors that are there and that no entry is for: what a part of a set holds and its index doesn't
    /// list, each with the name of its part. Opens every part.
    #[must_use]
    pub fn unlisted(&self) -> Vec<(String, String)> {
        with_inner!(self, archive => archive.unlisted_tensors())
    }

    /// What is odd about the files of a set, and no fault: shards that its index doesn't name, a total
    /// size that is wrong.
    #[must_use]
    pub fn oddities(&self) -> &[String] {
        with_inner!(self, archive => archive.odd_facts())
    }

    /// What [`salvage`](ReadOptions::salvage) went past when a set was opened: parts that are missing or
    /// damaged, tensors that are not where its index has them.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        with_inner!(self, archive => archive.faults_passed())
    }

    /// The part of a set that holds a tensor's bytes, as the set names it; `None` where they are in the
    /// file itself.
    #[must_use]
    pub fn part_of(&self, entry: Entry<'_>) -> Option<&str> {
        with_both!(self, entry, (archive, entry) => archive.part_name(entry), else None)
    }

    /// Where the bytes of a tensor are that has any: the part, the shard, the offset.
    pub(crate) fn place(&self, entry: Entry<'_>) -> Option<(Option<&str>, u32, u64)> {
        entry.stored_len().filter(|&len| len > 0)?;
        let (shard, offset) = entry.in_shard().unwrap_or((0, entry.offset()));
        Some((self.part_of(entry), shard, offset))
    }

    /// Facts about the file as a whole that are no metadata, under the keys of listings.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, Value)> {
        with_inner!(self, archive => archive.facts())
    }

    /// Reads a tensor, picked by its name or its entry.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// # tensorfmt::convert::Model::new()
    /// #     .tensor("w", tensorfmt::Tensor::from_slice(&[1.0f32, 2.0], &[2])?)
    /// #     .clone()
    /// #     .save(&path, &Default::default(), &Default::default())?;
    /// let archive = tensorfmt::Archive::open(&path)?;
    /// let w = archive.read("w")?;
    /// for entry in &archive {
    ///     assert_eq!(archive.read(entry)?, w);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`], naming the nearest names, or what the codec finds; an entry of
    /// another archive is an error.
    pub fn read<'a>(&'a self, tensor: impl Select<'a>) -> Result<Tensor> {
        let entry = tensor.select(self)?;
        with_both!(self, entry, (archive, entry) => Ok(archive.read(entry)?), else foreign())
    }

    /// Reads a tensor's decoded, little-endian bytes, in stored order, into `out`, which has their exact
    /// length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and a buffer of another length.
    pub fn read_into<'a>(&'a self, tensor: impl Select<'a>, out: &mut [u8]) -> Result<()> {
        let entry = tensor.select(self)?;
        with_both!(self, entry, (archive, entry) => Ok(archive.read_into(entry, out)?), else foreign())
    }

    /// Reads a tensor's elements, in stored order, into `out`, which has room for exactly these.
    ///
    /// # Errors
    /// As [`read_into`](Self::read_into), and where the elements are of another type.
    pub fn read_slice<'a, T: Element>(
        &'a self,
        tensor: impl Select<'a>,
        out: &mut [T],
    ) -> Result<()> {
        let entry = tensor.select(self)?;
        with_both!(self, entry, (archive, entry) => Ok(archive.read_slice(entry, out)?), else foreign())
    }

    /// A tensor's decoded, little-endian bytes as a source, in stored order.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn data<'a>(&'a self, tensor: impl Select<'a>) -> Result<Arc<dyn Source>> {
        let entry = tensor.select(self)?;
        with_both!(self, entry, (archive, entry) => Ok(archive.data(entry)?), else foreign())
    }

    /// A tensor's bytes as the file stores them, whatever its dtype.
    ///
    /// # Errors
    /// What the codec finds; an entry of another archive is an error.
    pub fn stored<'a>(&'a self, tensor: impl Select<'a>) -> Result<Arc<dyn Source>> {
        let entry = tensor.select(self)?;
        with_both!(self, entry, (archive, entry) => Ok(archive.stored(entry)?), else foreign())
    }

    /// Checks one tensor against what its file holds to check it with; most formats hold nothing.
    ///
    /// # Errors
    /// What keeps the check from being made; damage is in the item.
    pub fn verify_entry<'a>(&'a self, tensor: impl Select<'a>) -> Result<Item> {
        let entry = tensor.select(self)?;
        with_both!(self, entry, (archive, entry) => Ok(archive.verify_entry(entry)?), else foreign())
    }

    /// Whether the file's metadata says that its dims are in the other order.
    pub(crate) fn has_reversed_dims(&self) -> bool {
        with_inner!(self, archive => archive.has_reversed_dims())
    }

    /// Adds to a model what only its own format knows of the file as a whole.
    pub(crate) fn add_to(&self, model: &mut Model) {
        with_inner!(self, archive => archive.add_to(model))
    }

    /// What to write over the file to make it what a writer of its own format would.
    pub(crate) fn patch(&self, writer: &dyn Write) -> Result<std::result::Result<Patch, Misfit>> {
        with_inner!(self, archive => archive.patch(writer))
    }

    /// A tensor with everything that the file says about it, for a model.
    pub(crate) fn model_tensor(&self, entry: Entry<'_>, about: About) -> ModelTensor {
        with_both!(self, entry, (archive, entry) => archive.model_tensor(entry, about), else {
            let data = foreign().map_err(Unreadable::of);
            let (dtype, name) = (entry.dtype(), entry.dtype_name());
            codec::tensor(entry.name(), dtype, name, entry.shape(), entry.order(), data)
        })
    }

    /// Makes every check that the format allows: structure, checksums, decompression.
    ///
    /// # Errors
    /// What keeps the checks from being made; damage is in the report.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        with_inner!(self, archive => Ok(archive.verify(options)?))
    }

    /// The error for a name that isn't there, with up to three near ones.
    #[must_use]
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

#[allow(unused_variables, reason = "a build may have no codec")]
impl HasEntries for Archive {
    type Entry<'a> = Entry<'a>;

    fn entry_count(&self) -> usize {
        with_inner!(self, archive => archive.entries().len())
    }

    fn entry_at(&self, position: usize) -> Option<Entry<'_>> {
        with_variant!(self, archive => archive.entry_at(position))
    }
}

impl<'a> IntoIterator for &'a Archive {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a, Archive>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries()
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
    #[must_use]
    pub fn name(self) -> &'a str {
        with_inner!(self, entry => entry.name())
    }

    /// The dtype, `None` where it is unknown.
    #[must_use]
    pub fn dtype(self) -> Option<DType> {
        with_inner!(self, entry => entry.dtype())
    }

    /// The dtype's name in listings: ours where it is known, else the file's.
    #[must_use]
    pub fn dtype_name(self) -> Cow<'a, str> {
        if let Some(dtype) = self.dtype().filter(|&dtype| dtype != DType::Opaque) {
            return Cow::Borrowed(dtype.name());
        }
        with_inner!(self, entry => entry.stored_dtype())
    }

    /// The dims, outermost first.
    #[must_use]
    pub fn shape(self) -> &'a Shape {
        with_inner!(self, entry => entry.shape())
    }

    /// Which dim varies fastest in the stored bytes.
    #[must_use]
    pub fn order(self) -> Order {
        with_inner!(self, entry => entry.order())
    }

    /// Absolute offset of the stored bytes.
    #[must_use]
    pub fn offset(self) -> u64 {
        with_inner!(self, entry => entry.offset())
    }

    /// Bytes that the tensor takes in the file, `None` where that is unknown.
    #[must_use]
    pub fn stored_len(self) -> Option<u64> {
        with_inner!(self, entry => entry.stored_bytes())
    }

    /// Bytes of the decoded data, `None` where that is unknown.
    #[must_use]
    pub fn nbytes(self) -> Option<u64> {
        with_inner!(self, entry => entry.nbytes())
    }

    /// How the bytes are stored: `raw` or the format's own word.
    #[must_use]
    pub fn encoding(self) -> Cow<'a, str> {
        with_inner!(self, entry => DescribeEntry::encoding(entry))
    }

    /// What only this format says about a tensor, under the keys of listings.
    #[must_use]
    pub fn extras(self) -> Vec<(&'static str, Value)> {
        with_inner!(self, entry => DescribeEntry::extras(entry))
    }

    /// What only this format says about a tensor, for people: of what the file says once for many entries, and at length, it says how long it
    /// is. Takes little, however many entries there are.
    #[must_use]
    pub fn extras_in_short(self) -> Vec<(&'static str, Value)> {
        with_inner!(self, entry => DescribeEntry::extras_in_short(entry))
    }

    /// The object of the file that this is a part of, where there is one: what the file says about it, all of
    /// its parts say.
    #[must_use]
    pub fn object(self) -> Option<&'a str> {
        with_inner!(self, entry => DescribeEntry::object_name(entry))
    }

    /// Whether the object that this is a part of, and that of another entry, are said to be the same; `false`
    /// also where there is none, or it takes more than a comparison of bytes to tell.
    #[must_use]
    pub fn says_as(self, other: Entry<'_>) -> bool {
        match (self, other) {
            #[cfg(feature = "ztensor")]
            (Self::Ztensor(entry), Entry::Ztensor(other)) => entry.says_as(other),
            _ => false,
        }
    }

    /// Whether the file says more about the object that this is a part of than each part should repeat.
    #[must_use]
    pub fn is_said_at_length(self) -> bool {
        self.said_once() > 1 << 16
    }

    /// Shard and offset within it, where a set says these instead of an offset in a file.
    fn in_shard(self) -> Option<(u32, u64)> {
        with_inner!(self, entry => DescribeEntry::in_shard(entry))
    }

    /// Dims and bytes that the file says once for several entries.
    pub(crate) fn said_once(self) -> u64 {
        with_inner!(self, entry => DescribeEntry::said_once(entry))
    }
}

/// Name, dtype and dims: `w f32 [2, 3]`.
impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name(), self.dtype_name(), self.shape())
    }
}

impl fmt::Display for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.format(), self.version())
    }
}
