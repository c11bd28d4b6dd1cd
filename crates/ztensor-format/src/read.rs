use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

#[cfg(feature = "zstd")]
use tensor_core::At;
#[cfg(any(feature = "generations", feature = "zstd"))]
use tensor_core::codec::Unchanged;
use tensor_core::codec::{HasEntries, read_elements};
use tensor_core::{Bytes, DType, Element, Entries, Source, Swapped, Tensor, Version, Window};

use crate::CustomField;
use crate::encoding::Encoding;
use crate::index::Index;
#[cfg(feature = "generations")]
use crate::manifest::{About, Shard};
use crate::{BuildError, Entry, Error, Generation, Limits, Result, Rule, UsageError};

/// How to open a file.
///
/// ```
/// use ztensor_format::{Limits, ReadOptions};
///
/// let options = ReadOptions::default()
///     .with_limits(Limits::default())
///     .with_check_data(true); // hold data against its checksum
/// assert!(options.check_data);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Limits on what the reader accepts.
    pub limits: Limits,
    /// Whether to hold the data of a tensor that is read against its checksum, where it has one.
    /// Off by default.
    pub check_data: bool,
}

impl ReadOptions {
    /// These options with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// These options with or without a check of the data that is read.
    #[must_use]
    pub const fn with_check_data(mut self, check_data: bool) -> Self {
        self.check_data = check_data;
        self
    }
}

/// An open `.zt` file: a list of its tensors, whose data is read on demand. Cheap to clone, and
/// shared between threads freely.
///
/// ```
/// use ztensor_format::{
///     Archive, Builder, Bytes, Outcome, ReadOptions, Source, Tensor, VerifyOptions,
/// };
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.zt");
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # builder.write_file(&path)?;
/// let archive = Archive::open(&path)?;
/// assert_eq!((archive.len(), archive.is_empty()), (1, false));
/// println!("version {}, {} bytes", archive.version(), archive.file_len());
/// assert_eq!(archive.generation().version(), archive.version());
/// let entry = archive.entry("w").ok_or("no such tensor")?;
///
/// let mut bytes = [0; 8];
/// archive.read_into(entry, &mut bytes)?; // into a buffer of your own
/// let data = archive.data(entry)?; // or as a source, in windows of any size
/// assert_eq!(data.read(4..8)?, &1.5f32.to_le_bytes()[..]);
/// assert_eq!(archive.stored(entry)?.size(), 8); // as it is in the file
///
/// let report = archive.verify(&VerifyOptions::default())?;
/// assert!(!report.has_failed());
/// assert_eq!(archive.verify_entry(entry)?.outcome, Outcome::Ok);
/// assert!(archive.file().is_some()); // the file that is read
///
/// // Any source of bytes will do: memory, a map, an object store.
/// let bytes = Bytes::from(std::fs::read(&path)?);
/// let archive = Archive::from_source(bytes, &ReadOptions::default())?;
/// assert!(archive.entry("w").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Archive {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) index: Arc<Index>,
    /// Whether data that is read is held against its checksum.
    pub(crate) check_data: bool,
    #[cfg(all(feature = "generations", feature = "zstd"))]
    pub(crate) tables: Arc<crate::seekable::Tables>,
}

/// A tensor that can be read: where its bytes are, and how they become elements.
pub(crate) enum Stored {
    Raw(Window<Arc<dyn Source>>),
    Swapped(Swapped<Window<Arc<dyn Source>>>),
    #[cfg(feature = "zstd")]
    Zstd(crate::encoding::Blob),
    /// Of generation 2, whose bytes may have rules of their own.
    #[cfg(feature = "generations")]
    Checked(Arc<dyn Source>),
}

impl Archive {
    /// Opens the file at `path`: reads the index, none of the data.
    ///
    /// # Errors
    /// What the file breaks, with the path, or what the operating system says.
    #[cfg(feature = "std")]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(path, &ReadOptions::default())
    }

    /// Opens the file at `path` with `options`, such as limits of the caller's own.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.zt");
    /// # let mut builder = ztensor_format::Builder::new();
    /// # builder.tensor("a", ztensor_format::Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # builder.tensor("b", ztensor_format::Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # builder.write_file(&path)?;
    /// use ztensor_format::{Archive, Kind, Limits, ReadOptions};
    ///
    /// let mut limits = Limits::default();
    /// limits.max_tensor_count = 1;
    /// let options = ReadOptions::default().with_limits(limits);
    /// let error = Archive::open_with(&path, &options).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert_eq!(error.rule_id(), Some("max_tensor_count"));
    /// assert!(error.to_string().contains("model.zt"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "std")]
    pub fn open_with(path: impl AsRef<std::path::Path>, options: &ReadOptions) -> Result<Self> {
        tensor_core::codec::open_file(path, |source| Self::from_source(source, options))
    }

    /// Opens a file that is in memory; raw little-endian tensors will be slices of it.
    ///
    /// # Errors
    /// What the file breaks.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        Self::from_source(bytes.into(), &ReadOptions::default())
    }

    /// Opens any source: a map, a window of another file, something of the caller's own.
    ///
    /// # Errors
    /// What the file breaks, or what the source fails with.
    pub fn from_source(source: impl Source + 'static, options: &ReadOptions) -> Result<Self> {
        let source: Arc<dyn Source> = Arc::new(source);
        let index = Index::parse(&source, options)?;
        Ok(Self {
            source,
            index: Arc::new(index),
            check_data: options.check_data,
            #[cfg(all(feature = "generations", feature = "zstd"))]
            tables: Arc::default(),
        })
    }

    /// The tensors, in the order of the index.
    ///
    /// ```
    /// # use ztensor_format::{Archive, Builder, Tensor};
    /// # let mut builder = Builder::new();
    /// # builder.tensor("w", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// for entry in archive.entries() {
    ///     println!("{} {}", entry.name(), entry.shape());
    /// }
    /// assert_eq!(archive.entries().len(), 1);
    /// assert_eq!(archive.entries().get(0).unwrap().name(), "w");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn entries(&self) -> Entries<'_, Self> {
        Entries::of(self)
    }

    /// How many tensors there are.
    ///
    /// ```
    /// # let archive = ztensor_format::Archive::from_bytes(ztensor_format::Builder::new().to_vec()?)?;
    /// assert_eq!((archive.len(), archive.is_empty()), (0, true));
    /// # Ok::<(), ztensor_format::Error>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.entry_count()
    }

    /// Whether there is no tensor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor called `name`, found through a hash table.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        self.entry_at(self.index.tensors.names.find(name)?)
    }

    /// The version of the format: 0.1, 1.0, 1.1, 1.2 or 2.
    #[must_use]
    pub fn version(&self) -> Version {
        self.index.generation.version()
    }

    /// The generation of the format.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.index.generation
    }

    /// The file's own attributes, in file order, which files of 0.1 have none of. They are decoded
    /// with every call.
    ///
    /// ```no_run
    /// let archive = ztensor_format::Archive::open("model.zt")?;
    /// for attribute in archive.metadata() {
    ///     println!("{}: {:?}", attribute.key(), attribute.value());
    /// }
    /// # Ok::<(), ztensor_format::Error>(())
    /// ```
    #[must_use]
    pub fn metadata(&self) -> Vec<CustomField> {
        #[cfg(feature = "generations")]
        return CustomField::all(&self.about().attributes);
        #[cfg(not(feature = "generations"))]
        Vec::new()
    }

    /// The attribute with this key. All are decoded to find it.
    ///
    /// ```no_run
    /// let archive = ztensor_format::Archive::open("model.zt")?;
    /// let architecture = archive.metadata_entry("architecture");
    /// println!("{:?}", architecture.map(|attribute| attribute.value()));
    /// # Ok::<(), ztensor_format::Error>(())
    /// ```
    #[must_use]
    pub fn metadata_entry(&self, key: &str) -> Option<CustomField> {
        let mut fields = self.metadata().into_iter();
        fields.find(|field| field.key() == key)
    }

    /// `version` as a file of generation 1 has it, such as `1.2.0`.
    ///
    /// ```no_run
    /// let archive = ztensor_format::Archive::open("model.zt")?;
    /// println!("{:?}, written by {:?}", archive.version_text(), archive.generator());
    /// # Ok::<(), ztensor_format::Error>(())
    /// ```
    #[cfg(feature = "generations")]
    #[must_use]
    pub fn version_text(&self) -> Option<&str> {
        Some(&*self.about().version).filter(|text| !text.is_empty())
    }

    /// What a file of version 1.0 says about its writer.
    ///
    /// ```no_run
    /// let archive = ztensor_format::Archive::open("model.zt")?;
    /// println!("written by {}", archive.generator().unwrap_or("an unnamed writer"));
    /// # Ok::<(), ztensor_format::Error>(())
    /// ```
    #[cfg(feature = "generations")]
    #[must_use]
    pub fn generator(&self) -> Option<&str> {
        self.about().generator.as_deref()
    }

    /// The other files that have data of this one, in generation 2.
    ///
    /// ```no_run
    /// let archive = ztensor_format::Archive::open("model.zt")?;
    /// let total: u64 = archive.shards().iter().map(|shard| shard.size()).sum();
    /// println!("{total} bytes in other files");
    /// # Ok::<(), ztensor_format::Error>(())
    /// ```
    #[cfg(feature = "generations")]
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.about().shards
    }

    /// Whether the file has no list of tensors, only data for another file.
    ///
    /// ```no_run
    /// let archive = ztensor_format::Archive::open("model.zt")?;
    /// if archive.is_data_shard() {
    ///     println!("open the file that lists its tensors instead");
    /// }
    /// # Ok::<(), ztensor_format::Error>(())
    /// ```
    #[cfg(feature = "generations")]
    #[must_use]
    pub fn is_data_shard(&self) -> bool {
        self.about().is_data_shard
    }

    #[cfg(feature = "generations")]
    fn about(&self) -> &About {
        &self.index.about
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.source.size()
    }

    /// The file that is read, `None` where the bytes come from elsewhere.
    #[must_use]
    pub fn file(&self) -> Option<&tensor_core::FileId> {
        self.source.file()
    }

    /// Reads a tensor: a slice where the source is memory and the data raw and little-endian,
    /// else one new, aligned buffer. The checksum is compared where the archive
    /// [checks data](ReadOptions::check_data); see also [`verify_entry`](Self::verify_entry).
    ///
    /// ```
    /// use ztensor_format::{Archive, Builder, Bytes, Kind, ReadOptions, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let mut file = builder.to_vec()?;
    /// file[64] ^= 1; // the first byte of `w`
    /// let options = ReadOptions::default().with_check_data(true);
    /// let archive = Archive::from_source(Bytes::from(file), &options)?;
    /// let error = archive.read(archive.entry("w").ok_or("no w")?).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Invalid);
    /// assert_eq!(error.tensor(), Some("w"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the dtype, encoding or layout is unknown, [`Error::Invalid`]
    /// where compressed data is damaged, [`UsageError::ForeignEntry`] where the entry is another
    /// archive's, or what the source fails with.
    pub fn read(&self, entry: Entry<'_>) -> Result<Tensor> {
        let (dtype, stored) = self.named(entry)?;
        let data = match stored {
            Stored::Raw(window) => {
                let data = window.read(0..window.size());
                let data = data.map_err(|error| entry.unread(error))?;
                self.check_bytes(entry, &data)?;
                data
            }
            Stored::Swapped(swapped) => {
                self.check_data(entry)?;
                let data = swapped.read(0..swapped.size());
                data.map_err(|error| entry.unread(error))?
            }
            #[cfg(feature = "zstd")]
            Stored::Zstd(blob) => {
                let data = blob.decode();
                let data = data.map_err(|error| error.of_tensor(entry.name()))?;
                self.check_data(entry)?;
                data
            }
            #[cfg(feature = "generations")]
            Stored::Checked(source) => {
                self.check_data(entry)?;
                let data = source.read(0..source.size());
                data.map_err(|error| entry.unread(error))?
            }
        };
        Tensor::new(dtype, entry.shape().clone(), data).map_err(|error| {
            Error::Build(BuildError::Shape {
                name: entry.name().to_owned(),
                error,
            })
        })
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`UsageError::BufferLength`].
    pub fn read_into(&self, entry: Entry<'_>, out: &mut [u8]) -> Result<()> {
        let (_, stored) = self.named(entry)?;
        UsageError::check_buffer(entry.name(), entry.nbytes().unwrap_or(0), out)?;
        match stored {
            Stored::Raw(window) => {
                let read = window.read_into(0, out);
                read.map_err(|error| entry.unread(error))?;
                self.check_bytes(entry, out)
            }
            Stored::Swapped(swapped) => {
                self.check_data(entry)?;
                Ok(swapped
                    .read_into(0, out)
                    .map_err(|error| entry.unread(error))?)
            }
            #[cfg(feature = "zstd")]
            Stored::Zstd(blob) => {
                let decoded = blob.decode_into(out);
                decoded.map_err(|error| error.of_tensor(entry.name()))?;
                self.check_data(entry)
            }
            #[cfg(feature = "generations")]
            Stored::Checked(source) => {
                self.check_data(entry)?;
                Ok(source
                    .read_into(0, out)
                    .map_err(|error| entry.unread(error))?)
            }
        }
    }

    /// Reads a tensor's elements, in stored order, into `out`, which has room for exactly these.
    ///
    /// ```
    /// use ztensor_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let mut w = [0.0f32; 2];
    /// archive.read_slice(archive.entry("w").ok_or("no w")?, &mut w)?;
    /// assert_eq!(w, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`read_into`](Self::read_into), and [`UsageError::Cast`] where the elements are of another
    /// type.
    pub fn read_slice<T: Element>(&self, entry: Entry<'_>, out: &mut [T]) -> Result<()> {
        read_elements(entry.dtype(), out, |bytes| self.read_into(entry, bytes))
    }

    /// A tensor's little-endian bytes as a source of their own.
    ///
    /// Compressed data is decoded as it is asked for: reads that move forward cost what they
    /// skip, a step back starts over. An error about the data itself comes out of the source as
    /// [`SourceError::Codec`](tensor_core::SourceError::Codec), with kind and rule of this crate's
    /// [`Error`]. An archive that checks data does so here, once.
    ///
    /// # Errors
    /// As [`read`](Self::read), as far as the index tells.
    pub fn data(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        let (_, stored) = self.named(entry)?;
        self.check_data(entry)?;
        Ok(match stored {
            Stored::Raw(window) => Arc::new(window),
            Stored::Swapped(swapped) => Arc::new(swapped),
            #[cfg(feature = "zstd")]
            Stored::Zstd(blob) => {
                let decoded = crate::encoding::Decoded::new(blob);
                Arc::new(Unchanged::new(entry.name(), decoded))
            }
            #[cfg(feature = "generations")]
            Stored::Checked(source) => Arc::new(Unchanged::new(entry.name(), source)),
        })
    }

    /// A tensor's bytes as the file stores them, whatever its dtype, layout or encoding.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's, what [`data`](Self::data) says
    /// where the bytes are in another file, or what the source fails with.
    pub fn stored(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        if !entry.is_of(&self.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        let range = entry.range();
        match Window::new(self.source.clone(), range) {
            Ok(window) if !entry.is_elsewhere() => Ok(Arc::new(window)),
            _ => self.data(entry),
        }
    }

    /// Refuses to decode more than the caller wants to.
    #[cfg(feature = "zstd")]
    pub(crate) fn check_decoded(&self, value: u64, at: At) -> Result<()> {
        let (limit, max) = ("max_decoded_bytes", self.index.limits.max_decoded_bytes);
        if value > max {
            return Err(Error::Limit(tensor_core::LimitExceeded {
                limit,
                value,
                max,
                at,
            }));
        }
        Ok(())
    }

    /// Where the entry's bytes are, with errors that name the tensor.
    fn named(&self, entry: Entry<'_>) -> Result<(DType, Stored)> {
        let located = self.locate(entry);
        located.map_err(|error| error.of_tensor(entry.name()))
    }

    /// Where the entry's bytes are, after checking that it is ours and can be read.
    pub(crate) fn locate(&self, entry: Entry<'_>) -> Result<(DType, Stored)> {
        if !entry.is_of(&self.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        if let Some((what, at)) = entry.unsupported() {
            return Err(Error::unsupported(what, at));
        }
        let Some((dtype, decoded)) = entry.dense_len() else {
            let rule = Rule::ShapeOverflow;
            let at = entry.at("shape");
            return Err(Error::invalid(rule, at));
        };
        #[cfg(feature = "generations")]
        if self.generation() == Generation::V2 {
            return Ok((dtype, self.checked(entry, decoded)?));
        }
        let range = entry.range();
        let window = Window::new(self.source.clone(), range)?;
        let stored = match entry.encoding() {
            Encoding::Raw if entry.is_swapped() => match Swapped::new(window, dtype) {
                Ok(swapped) => Stored::Swapped(swapped),
                Err(error) => {
                    let name = entry.name().to_owned();
                    return Err(BuildError::Shape { name, error }.into());
                }
            },
            #[cfg(feature = "zstd")]
            Encoding::Zstd => {
                let (limits, at) = (&self.index.limits, entry.at("data"));
                self.check_decoded(decoded, at)?;
                Stored::Zstd(crate::encoding::Blob {
                    stored: window,
                    decoded,
                    max_window: limits.max_window_bytes,
                    at,
                })
            }
            _ => Stored::Raw(window),
        };
        #[cfg(not(feature = "zstd"))]
        let _ = decoded;
        Ok((dtype, stored))
    }
}

impl HasEntries for Archive {
    type Entry<'a> = Entry<'a>;

    fn entry_count(&self) -> usize {
        self.index.tensors.len()
    }

    fn entry_at(&self, position: usize) -> Option<Entry<'_>> {
        Entry::of(&self.index, position)
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("file_len", &self.file_len())
            .field("entries", &self.entries().len())
            .finish_non_exhaustive()
    }
}

impl<'a> IntoIterator for &'a Archive {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a, Archive>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries()
    }
}
