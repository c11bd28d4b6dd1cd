use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt;

use tensor_core::codec::{HasEntries, StoredBytes, Ticker, read_elements};
use tensor_core::{
    Bytes, DType, Element, Entries, Item, Outcome, Report, Source, Tensor, UsageError,
    VerifyOptions, Version,
};

use crate::entry::Entry;
use crate::index::{Index, Records};
use crate::meta::MetaEntry;
use crate::{BuildError, Error, Generation, Limits, Result, Unsupported};

/// Which checksum a file carries, or a [`Builder`](crate::Builder) writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// CRC-32C of byte 12 up to the end of the records: what real files carry.
    #[default]
    Crc32c,
    /// CRC-32/IEEE of the header, with its checksum field as zero, and the records: the letter of
    /// the specification ("Data Layout").
    Ieee,
}

impl Checksum {
    /// `crc32c` or `crc32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Ieee => "crc32",
        }
    }
}

/// How to open a file.
///
/// ```
/// use mag_format::{Limits, ReadOptions};
///
/// let options = ReadOptions::default()
///     .with_limits(Limits::default())
///     .with_check_records(false); // read whatever the checksum says
/// assert!(!options.check_records);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Limits on what the reader accepts.
    pub limits: Limits,
    /// Whether to check the checksum of the records. On by default.
    pub check_records: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            check_records: true,
        }
    }
}

impl ReadOptions {
    /// These options with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// These options with or without a check of the checksum of the records.
    #[must_use]
    pub const fn with_check_records(mut self, check_records: bool) -> Self {
        self.check_records = check_records;
        self
    }
}

/// An open `.mag` file: its metadata and a list of its tensors, whose data is read on demand.
/// Cheap to clone, and shared between threads freely.
///
/// ```
/// use mag_format::{
///     Archive, Builder, Bytes, Outcome, ReadOptions, Source, Tensor, VerifyOptions, Checksum, Generation, MetaValue,
/// };
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.mag");
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # builder.metadata("step", 7i64)?;
/// # builder.write_file(&path)?;
/// let archive = Archive::open(&path)?;
/// assert_eq!((archive.len(), archive.is_empty()), (1, false));
/// println!("version {}, {} bytes", archive.version(), archive.file_len());
/// assert_eq!((archive.generation(), archive.checksum()), (Generation::Version1, Some(Checksum::Crc32c)));
/// let step = archive.metadata_entry("step").map(|entry| entry.value());
/// assert_eq!(step, Some(MetaValue::I64(7)));
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
    /// Opens the file at `path`: reads header and records, none of the data.
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
    /// # let path = folder.path().join("model.mag");
    /// # mag_format::Builder::new().metadata("a", 1i64)?.metadata("b", 2i64)?.write_file(&path)?;
    /// use mag_format::{Archive, Kind, Limits, ReadOptions};
    ///
    /// let mut limits = Limits::default();
    /// limits.max_metadata_count = 1;
    /// let options = ReadOptions::default().with_limits(limits);
    /// let error = Archive::open_with(&path, &options).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert_eq!(error.rule_id(), Some("max_metadata_count"));
    /// assert!(error.to_string().contains("model.mag"));
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

    /// Opens any source of bytes.
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

    /// All tensors, in record order.
    ///
    /// ```
    /// use mag_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
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
    #[must_use]
    pub fn len(&self) -> usize {
        self.entry_count()
    }

    /// Whether there is no tensor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor with this key.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        self.entry_at(self.index.tensors.names.find(name)?)
    }

    /// All metadata records, in record order. A snapshot has none; what it holds instead is in
    /// [`Snapshot::metadata`](crate::Snapshot::metadata).
    #[must_use]
    pub fn metadata(&self) -> &[MetaEntry] {
        &self.index.metadata
    }

    /// The metadata record with this key.
    #[must_use]
    pub fn metadata_entry(&self, key: &str) -> Option<&MetaEntry> {
        self.index.find_metadata(key)
    }

    /// The checksum that matched when the file was opened, `None` if it was not checked or, as in
    /// a snapshot 0.3.0, there is none.
    #[must_use]
    pub fn checksum(&self) -> Option<Checksum> {
        self.index.checksum
    }

    /// The version of the format: 1, or 0.1.0 to 0.3.0 of a snapshot.
    #[must_use]
    pub fn version(&self) -> Version {
        self.index.generation.version()
    }

    /// Which of magnetron's layouts the file has.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.index.generation
    }

    /// What a snapshot says about itself beside its tensors, `None` for version 1.
    ///
    /// ```no_run
    /// use mag_format::Archive;
    ///
    /// let archive = Archive::open("snapshot.mag")?;
    /// if let Some(snapshot) = archive.snapshot() {
    ///     println!("magnetron {:?}", snapshot.magnetron_version());
    /// }
    /// # Ok::<(), mag_format::Error>(())
    /// ```
    #[cfg(feature = "snapshots")]
    #[must_use]
    pub fn snapshot(&self) -> Option<&crate::Snapshot> {
        self.index.snapshot.as_ref()
    }

    /// Where the records end; 0 where there are none.
    pub(crate) fn records_end(&self) -> u64 {
        self.index
            .records
            .as_ref()
            .map_or(0, |records| records.range.end)
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

    /// Reads a tensor: a slice where the source is memory, else one read into an aligned buffer.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the dtype is unknown, [`UsageError::ForeignEntry`] where the
    /// entry is another archive's, or what the source fails with.
    pub fn read(&self, entry: Entry<'_>) -> Result<Tensor> {
        let (dtype, stored) = self.locate(entry)?;
        Tensor::new(dtype, entry.shape().clone(), stored.read()?).map_err(|error| {
            Error::Build(BuildError::Shape {
                name: entry.name().to_string(),
                error,
            })
        })
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
    /// use mag_format::{Archive, Builder, Tensor};
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
    /// [`Error::Unsupported`] where the dtype is unknown and the file doesn't say how long the bytes
    /// are, as only a snapshot 0.3.0 does; [`UsageError::ForeignEntry`] where the entry is another
    /// archive's, or what the source fails with.
    pub fn stored(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        let stored = match entry.range() {
            Some(range) if entry.is_of(&self.index) => {
                StoredBytes::new(&self.source, entry.name(), range)
            }
            _ => self.locate(entry)?.1,
        };
        Ok(stored.to_source()?)
    }

    /// Checks the checksum of the records again, whatever the archive was opened with; a snapshot
    /// 0.3.0 has none. Nothing in the format covers the data, which the report says for each
    /// tensor.
    ///
    /// # Errors
    /// What the source fails with, or a stop on request; damage is in the report.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        if !options.has_rest() {
            return Ok(report);
        }
        if let Some(records) = &self.index.records {
            report.tell(self.verify_records(records, options)?, options);
        }
        for entry in self.entries() {
            report.tell(self.verify_entry(entry)?, options);
        }
        #[cfg(feature = "snapshots")]
        if let Some(bytes) = self.index.trailing.filter(|&bytes| bytes > 0) {
            let note = format!("{bytes} bytes after the data that belong to nothing");
            report.tell(
                Item::new("trailing bytes", Outcome::NotCovered).with_note(note),
                options,
            );
        }
        Ok(report)
    }

    /// Checks one tensor. Nothing in the format covers the data, so this says whether its dtype is
    /// known.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's.
    pub fn verify_entry(&self, entry: Entry<'_>) -> Result<Item> {
        if !entry.is_of(&self.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        Ok(match entry.dtype() {
            Some(_) => Item::new(entry.name(), Outcome::NotCovered),
            None => {
                let code = entry.dtype_code();
                let note = Unsupported::DType { code }.to_string();
                Item::new(entry.name(), Outcome::Unsupported).with_note(note)
            }
        })
    }

    fn verify_records(&self, records: &Records, options: &VerifyOptions<'_>) -> Result<Item> {
        let ticker = Ticker::new(options.progress);
        let stored = records.checksum;
        let found = tensor_core::checksum::crc32c_source(
            &self.source,
            records.range.clone(),
            options.threads,
            &ticker,
        )?;
        if stored != found && self.index.checksum == Some(Checksum::Ieee) {
            let item = Item::new("records", Outcome::Ok);
            return Ok(item.with_note("crc32 by the letter of the specification"));
        }
        let hex = |crc: u32| format!("{crc:#010x}");
        Ok(Item::compared("records", hex(stored), hex(found)).with_note("crc32c"))
    }

    /// Where the entry's bytes are, after checking that it is ours and known.
    fn locate<'a>(&'a self, entry: Entry<'a>) -> Result<(DType, StoredBytes<'a>)> {
        if !entry.is_of(&self.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        match (entry.dtype(), entry.range()) {
            (Some(dtype), Some(range)) => {
                Ok((dtype, StoredBytes::new(&self.source, entry.name(), range)))
            }
            _ => {
                let code = entry.dtype_code();
                let error = Error::unsupported(Unsupported::DType { code }, entry.at("aux"));
                Err(error.of_tensor(entry.name()))
            }
        }
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
