use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt;

use tensor_core::codec::{HasEntries, StoredBytes, read_elements};
use tensor_core::{
    Bytes, DType, Element, Entries, Item, Outcome, Report, Source, Tensor, UsageError,
    VerifyOptions,
};

#[cfg(doc)]
use crate::Error;
use crate::index::Index;
use crate::meta::MetaEntry;
use crate::{BuildError, Entry, Limits, Result};

/// How to open a file.
///
/// ```
/// use safetensors_format::{Limits, ReadOptions};
///
/// let options = ReadOptions::default()
///     .with_limits(Limits::default())
///     .with_salvage(true); // a set though shards are missing
/// assert!(options.salvage);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Limits on what the reader accepts.
    pub limits: Limits,
    /// Whether a set opens though shards are missing or damaged, with the tensors that are there.
    pub salvage: bool,
}

impl ReadOptions {
    /// These options with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// These options with or without salvage.
    #[must_use]
    pub const fn with_salvage(mut self, salvage: bool) -> Self {
        self.salvage = salvage;
        self
    }
}

/// An open `.safetensors` file: its metadata and a list of its tensors, whose data is read on
/// demand. Cheap to clone, and shared between threads freely.
///
/// ```
/// use safetensors_format::{
///     Archive, Builder, Bytes, Outcome, ReadOptions, Source, Tensor, VerifyOptions,
/// };
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # builder.metadata("format", "pt")?;
/// # builder.write_file(&path)?;
/// let archive = Archive::open(&path)?;
/// assert_eq!((archive.len(), archive.is_empty()), (1, false));
/// println!("{} bytes", archive.file_len());
/// assert_eq!(archive.data_start() + 8, archive.file_len());
/// let format = archive.metadata_entry("format").map(|entry| entry.value());
/// assert_eq!(format, Some("pt"));
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
/// assert_eq!(archive.verify_entry(entry)?.outcome, Outcome::NotCovered);
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
    index: Arc<Index>,
}

impl Archive {
    /// Opens the file at `path`: reads the header, none of the data.
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
    /// # let path = folder.path().join("model.safetensors");
    /// # let mut builder = safetensors_format::Builder::new();
    /// # builder.metadata("a", "1")?.metadata("b", "2")?.write_file(&path)?;
    /// use safetensors_format::{Archive, Kind, Limits, ReadOptions};
    ///
    /// let mut limits = Limits::default();
    /// limits.max_metadata_count = 1;
    /// let options = ReadOptions::default().with_limits(limits);
    /// let error = Archive::open_with(&path, &options).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert_eq!(error.rule_id(), Some("max_metadata_count"));
    /// assert!(error.to_string().contains("model.safetensors"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "std")]
    pub fn open_with(path: impl AsRef<std::path::Path>, options: &ReadOptions) -> Result<Self> {
        tensor_core::codec::open_file(path, |source| Self::from_source(source, options))
    }

    /// Opens a file that is in memory; its tensors are slices of `bytes`.
    ///
    /// # Errors
    /// What the file breaks.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        Self::from_source(bytes.into(), &ReadOptions::default())
    }

    /// Opens any source of bytes, in two requests.
    ///
    /// # Errors
    /// What the file breaks, or what the source fails with.
    pub fn from_source(source: impl Source + 'static, options: &ReadOptions) -> Result<Self> {
        let index = Index::parse(&source, options)?;
        Ok(Self {
            source: Arc::new(source),
            index: Arc::new(index),
        })
    }

    /// What a set finds it by.
    #[cfg(feature = "std")]
    pub(crate) fn id(&self) -> tensor_core::codec::ArchiveId {
        self.index.id
    }

    /// All tensors, in the order of the header, which need not be that of the data: an iterator that also
    /// gives the one at a position.
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
        self.entry_at(self.index.tensors.names.find(name)?)
    }

    /// The pairs of `__metadata__`, in the order of the header.
    #[must_use]
    pub fn metadata(&self) -> &[MetaEntry] {
        &self.index.metadata
    }

    /// The pair of `__metadata__` with this key.
    #[must_use]
    pub fn metadata_entry(&self, key: &str) -> Option<&MetaEntry> {
        self.index.find_metadata(key)
    }

    /// Where the header ends and the data begins.
    #[must_use]
    pub fn data_start(&self) -> u64 {
        self.index.data_start
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.source.size()
    }

    /// Bytes of memory that the list of tensors and the metadata take beyond that.
    #[cfg(feature = "std")]
    pub(crate) fn overhead(&self) -> u64 {
        self.index.overhead
    }

    /// The file that is read, `None` where the bytes come from elsewhere.
    #[must_use]
    pub fn file(&self) -> Option<&tensor_core::FileId> {
        self.source.file()
    }

    /// Reads a tensor: a slice where the source is memory, else one read into an aligned buffer.
    /// Elements narrower than a byte come as the bytes that they are packed in.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the dtype is unknown, [`UsageError::ForeignEntry`] where the
    /// entry is another archive's, or what the source fails with.
    pub fn read(&self, entry: Entry<'_>) -> Result<Tensor> {
        let (dtype, stored) = self.locate(entry)?;
        let tensor = Tensor::new(dtype, entry.shape().clone(), stored.read()?);
        Ok(tensor.map_err(|error| BuildError::Shape {
            name: entry.name().to_string(),
            error,
        })?)
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`UsageError::BufferLength`].
    pub fn read_into(&self, entry: Entry<'_>, out: &mut [u8]) -> Result<()> {
        self.locate(entry)?.1.read_into(out)
    }

    /// Reads a tensor's elements, in stored order, into `out`, which has room for exactly these.
    ///
    /// ```
    /// use safetensors_format::{Archive, Builder, Tensor};
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
    /// # Errors
    /// As [`read`](Self::read).
    pub fn data(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        Ok(self.locate(entry)?.1.to_source()?)
    }

    /// A tensor's bytes as the file stores them, whatever its dtype.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's, or what the source fails
    /// with.
    pub fn stored(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        Ok(self.bytes_of(entry)?.to_source()?)
    }

    /// Says for each tensor that the format has no checksum; the structure was checked when the file
    /// was opened. `strict` adds warnings about what readers take though the format's text does not
    /// say it.
    ///
    /// # Errors
    /// None today; the other formats' have some.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        if !options.has_rest() {
            return Ok(report);
        }
        report.tell(
            Item::new("header", Outcome::NotCovered).with_note("structure ok, no checksum"),
            options,
        );
        for entry in self.entries() {
            report.tell(self.verify_entry(entry)?, options);
        }
        if options.strict {
            for oddity in &self.index.oddities {
                report.warn(*oddity, options);
            }
        }
        Ok(report)
    }

    /// Checks one tensor. The format has no checksums, so this says whether its dtype is known.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's.
    pub fn verify_entry(&self, entry: Entry<'_>) -> Result<Item> {
        self.bytes_of(entry)?;
        Ok(match entry.dtype() {
            Some(_) => Item::new(entry.name(), Outcome::NotCovered),
            None => Item::new(entry.name(), Outcome::Unsupported)
                .with_note(format!("dtype {}", entry.dtype_code())),
        })
    }

    /// Where the entry's bytes are, after checking that it is ours.
    fn bytes_of<'a>(&'a self, entry: Entry<'a>) -> Result<StoredBytes<'a>> {
        if !core::ptr::eq(entry.index, &*self.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        let offset = entry.offset();
        let range = offset..offset.saturating_add(entry.len());
        Ok(StoredBytes::new(&self.source, entry.name(), range))
    }

    /// Where the entry's bytes are, and its dtype, which is known.
    fn locate<'a>(&'a self, entry: Entry<'a>) -> Result<(DType, StoredBytes<'a>)> {
        let stored = self.bytes_of(entry)?;
        match entry.dtype() {
            Some(dtype) => Ok((dtype, stored)),
            None => Err(entry.unsupported()),
        }
    }
}

impl HasEntries for Archive {
    type Entry<'a> = Entry<'a>;

    fn entry_count(&self) -> usize {
        self.index.tensors.records.len()
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
            .field("metadata", &self.metadata().len())
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
