use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt;

use tensor_core::codec::{HasEntries, StoredBytes, read_elements};
use tensor_core::{
    Bytes, DType, Element, Entries, Item, Order, Outcome, Report, Source, Tensor, VerifyOptions,
    Version,
};

use crate::entry::Entry;
use crate::index::Index;
use crate::layout::DataType;
use crate::object::{Model, Object, Parameter};
use crate::tensors::Role;
use crate::{BuildError, Error, Limits, Result, UsageError};

/// How to open a file.
///
/// ```
/// use primitiv_format::{Limits, ReadOptions};
///
/// let options = ReadOptions::default()
///     .with_limits(Limits::default())
///     .with_allow_trailing(true); // bytes after the object
/// assert!(options.allow_trailing);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Limits on what the reader accepts.
    pub limits: Limits,
    /// Accept bytes after the object, as the reference library does. Off by default: no writer
    /// leaves any.
    pub allow_trailing: bool,
}

impl ReadOptions {
    /// These options with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// These options for files with or without bytes after the object.
    #[must_use]
    pub const fn with_allow_trailing(mut self, allow_trailing: bool) -> Self {
        self.allow_trailing = allow_trailing;
        self
    }
}

/// An open primitiv file: what it holds, with the data read on demand. Cheap to clone, and shared
/// between threads freely.
///
/// ```
/// use primitiv_format::{
///     Archive, Builder, Bytes, Outcome, ReadOptions, Source, Tensor, VerifyOptions, DataType,
/// };
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("net.model");
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # builder.write_file(&path)?;
/// let archive = Archive::open(&path)?;
/// assert_eq!((archive.len(), archive.is_empty()), (1, false));
/// println!("version {}, {} bytes", archive.version(), archive.file_len());
/// assert_eq!((archive.data_type(), archive.trailing_bytes()), (DataType::Model, 0));
/// assert_eq!(archive.same_named().count(), 0);
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
    source: Arc<dyn Source>,
    index: Arc<Index>,
}

impl Archive {
    /// Opens the file at `path`: walks the headers, and skips the data.
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
    /// # let path = folder.path().join("m.model");
    /// # let mut builder = primitiv_format::Builder::new();
    /// # builder.tensor("a.b.c", primitiv_format::Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # builder.write_file(&path)?;
    /// use primitiv_format::{Archive, Kind, Limits, ReadOptions};
    ///
    /// let mut limits = Limits::default();
    /// limits.max_path_part_count = 2;
    /// let options = ReadOptions::default().with_limits(limits);
    /// let error = Archive::open_with(&path, &options).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert_eq!(error.rule_id(), Some("max_path_part_count"));
    /// assert!(error.to_string().contains("m.model"));
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

    /// Which object the file holds.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.index.data_type
    }

    /// The object, typed.
    #[must_use]
    pub fn object(&self) -> Object<'_> {
        let first = self.entry_at(0);
        match (self.index.data_type, first, &self.index.shape) {
            (DataType::Shape, _, Some((dims, batch))) => Object::Shape {
                dims,
                batch: *batch,
            },
            (DataType::Tensor, Some(entry), _) => Object::Tensor(entry),
            (DataType::Parameter, Some(entry), _) => Object::Parameter(self.parameter(entry)),
            (DataType::Optimizer, _, _) => Object::Optimizer(&self.index.optimizer),
            _ => Object::Model(Model { archive: self }),
        }
    }

    /// The parameter that an entry is the value of.
    pub(crate) fn parameter<'a>(&'a self, value: Entry<'a>) -> Parameter<'a> {
        let first = value.ordinal.saturating_add(1);
        let count = match value.record().role {
            Role::Value(stats) => usize::try_from(stats).unwrap_or(usize::MAX),
            Role::Stat(_) => 0,
        };
        let stats = self.entries().slice(first..first.saturating_add(count));
        Parameter { value, stats }
    }

    /// All tensors, in file order: each value followed by its statistics.
    ///
    /// ```
    /// # use primitiv_format::{Archive, Builder, Tensor};
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
    #[must_use]
    pub fn len(&self) -> usize {
        self.entry_count()
    }

    /// Whether there is no tensor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first tensor of this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        self.entry_at(self.index.tensors.names.find(name)?)
    }

    /// Tensors whose name an earlier one has, because their addresses join to the same text:
    /// `["a.b"]` and `["a", "b"]`. [`Model::get`] tells them apart.
    pub fn same_named(&self) -> impl Iterator<Item = Entry<'_>> {
        let positions = self.index.same_named.iter();
        positions.filter_map(|&position| self.entry_at(position))
    }

    /// The version of the format: always 0.1.
    #[must_use]
    pub fn version(&self) -> Version {
        let (major, minor) = crate::layout::VERSION;
        Version::new(major, minor)
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

    /// Bytes after the object; above 0 only where the options allow it.
    #[must_use]
    pub fn trailing_bytes(&self) -> u64 {
        self.index.trailing_bytes
    }

    /// Reads a tensor, column-major as it is stored: a slice where the source is memory, else one
    /// read into an aligned buffer.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's, or what the source fails
    /// with.
    pub fn read(&self, entry: Entry<'_>) -> Result<Tensor> {
        let data = self.locate(entry)?.read()?;
        match Tensor::new(DType::F32, entry.shape().clone(), data) {
            Ok(tensor) => Ok(tensor.with_order(Order::ColumnMajor)),
            Err(error) => Err(BuildError::Shape {
                name: entry.name().to_string(),
                error,
            }
            .into()),
        }
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`UsageError::BufferLength`].
    pub fn read_into(&self, entry: Entry<'_>, out: &mut [u8]) -> Result<()> {
        self.locate(entry)?.read_into(out)
    }

    /// Reads a tensor's elements, in stored order, into `out`, which has room for exactly these.
    ///
    /// ```
    /// use primitiv_format::{Archive, Builder, Tensor};
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
        Ok(self.locate(entry)?.to_source()?)
    }

    /// A tensor's bytes as the file stores them, which is [`data`](Self::data): there is one dtype.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn stored(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        self.data(entry)
    }

    /// Says for each tensor that the format has no checksum; the structure was checked on open,
    /// down to the last byte.
    ///
    /// # Errors
    /// None today.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        if !options.has_rest() {
            return Ok(report);
        }
        report.tell(
            Item::new("index", Outcome::NotCovered).with_note(alloc::format!(
                "structure ok, no checksum; {}",
                self.data_type().name()
            )),
            options,
        );
        for entry in self.entries() {
            report.tell(self.verify_entry(entry)?, options);
        }
        for entry in self.entries().filter(|entry| entry.has_trailing_ones()) {
            let name = entry.name();
            let text = alloc::format!("{name:?} is stored with trailing dims of 1");
            report.warn(text, options);
        }
        for entry in self.same_named() {
            let name = entry.name();
            let text = alloc::format!("two addresses join to the name {name:?}");
            report.warn(text, options);
        }
        if self.trailing_bytes() > 0 {
            let count = self.trailing_bytes();
            report.warn(alloc::format!("{count} bytes follow the object"), options);
        }
        Ok(report)
    }

    /// Checks one tensor: the format has no checksums, so it is not covered.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's.
    pub fn verify_entry(&self, entry: Entry<'_>) -> Result<Item> {
        self.locate(entry)?;
        Ok(Item::new(entry.name(), Outcome::NotCovered))
    }

    fn locate<'a>(&'a self, entry: Entry<'a>) -> Result<StoredBytes<'a>, Error> {
        if !entry.is_of(&self.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        Ok(StoredBytes::new(&self.source, entry.name(), entry.range()))
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
            .field("data_type", &self.data_type())
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
