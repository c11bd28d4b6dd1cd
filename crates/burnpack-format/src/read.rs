use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use tensor_core::codec::{HasEntries, StoredBytes, Ticker, read_elements, walk};
use tensor_core::{
    Bytes, Cast, DType, Element, Entries, Item, Outcome, Report, Source, Tensor, UsageError,
    VerifyOptions, Version, parallel,
};

use crate::dtype::BoolStore;
use crate::generation::Generation;
use crate::index::Index;
use crate::layout::{ALIGN, Header, Layout};
use crate::meta::{MetaEntry, Scalar, ScalarEntry};
use crate::quant::QuantGeneration;
use crate::{BuildError, DTypeCode, Entry, Error, Limits, Result, Unsupported};

/// How to open a file.
///
/// ```
/// use burnpack_format::{Layout, Limits, ReadOptions};
///
/// let options = ReadOptions::default()
///     .with_limits(Limits::default())
///     .with_layout(Layout::Packed); // as Burn 0.19 wrote them
/// assert_eq!(options.layout, Layout::Packed);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Limits on what the reader accepts.
    pub limits: Limits,
    /// The layout of the data, where it is not to be told from the file. A few packed files could also be
    /// aligned ones that lost their end.
    pub layout: Layout,
}

impl ReadOptions {
    /// These options with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// These options for files with this layout of the data.
    #[must_use]
    pub const fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }
}

/// An open burnpack file: its metadata, its scalars, and a list of its tensors, whose data is read
/// on demand. Cheap to clone, and shared between threads freely.
///
/// ```
/// use burnpack_format::{
///     Archive, Builder, Bytes, Outcome, ReadOptions, Source, Tensor, VerifyOptions, Layout,
/// };
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.bpk");
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # builder.metadata("step", "7")?;
/// # builder.write_file(&path)?;
/// let archive = Archive::open(&path)?;
/// assert_eq!((archive.len(), archive.is_empty()), (1, false));
/// println!("version {}, {} bytes", archive.version(), archive.file_len());
/// assert_eq!(archive.layout(), Layout::Aligned);
/// println!("written by {:?}", archive.generation());
/// assert_eq!((archive.data_start() % 256, archive.trailing_bytes()), (0, 0));
/// let step = archive.metadata_entry("step").map(|entry| entry.value());
/// assert_eq!(step, Some("7"));
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
    /// Opens the file at `path`: reads header and metadata, none of the data.
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
    /// # let path = folder.path().join("model.bpk");
    /// # burnpack_format::Builder::new().metadata("format", "burnpack")?.write_file(&path)?;
    /// use burnpack_format::{Archive, Kind, Limits, ReadOptions};
    ///
    /// let mut limits = Limits::default();
    /// limits.max_metadata_bytes = 10;
    /// let options = ReadOptions::default().with_limits(limits);
    /// let error = Archive::open_with(&path, &options).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert_eq!(error.rule_id(), Some("max_metadata_bytes"));
    /// assert!(error.to_string().contains("model.bpk"));
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
    /// ```
    /// use burnpack_format::Archive;
    ///
    /// // Weights in flash memory need not be copied; this is an empty container.
    /// static FILE: [u8; 256] = {
    ///     let mut file = [0; 256];
    ///     let start = *b"NRUB\x01\0\x0A\0\0\0\xA1\x67tensors\xA0";
    ///     let mut at = 0;
    ///     while at < start.len() {
    ///         file[at] = start[at];
    ///         at += 1;
    ///     }
    ///     file
    /// };
    /// let archive = Archive::from_bytes(&FILE[..])?;
    /// assert_eq!(archive.entries().len(), 0);
    /// # Ok::<(), burnpack_format::Error>(())
    /// ```
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

    /// All tensors, in the order of their data. The file's index is sorted by name; the order of
    /// the data is the one that the writer was given. An iterator that also gives the one at a position.
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

    /// The tensor with this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        self.entry_at(self.index.tensors.names.find(name)?)
    }

    /// All metadata, in file order.
    #[must_use]
    pub fn metadata(&self) -> &[MetaEntry] {
        &self.index.metadata
    }

    /// The metadata with this key.
    #[must_use]
    pub fn metadata_entry(&self, key: &str) -> Option<&MetaEntry> {
        self.index.find_metadata(key)
    }

    /// All scalars, in file order.
    #[must_use]
    pub fn scalars(&self) -> &[ScalarEntry] {
        &self.index.scalars
    }

    /// The scalar with this name.
    #[must_use]
    pub fn scalar(&self, name: &str) -> Option<&ScalarEntry> {
        self.index.find_scalar(name)
    }

    /// The version of the format: always 1. Which releases of Burn write such a file is its
    /// [`generation`](Self::generation).
    #[must_use]
    pub fn version(&self) -> Version {
        u32::from(crate::layout::VERSION).into()
    }

    /// How the data lies: [`Layout::Aligned`] or [`Layout::Packed`].
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.index.layout
    }

    /// Which releases of Burn write such a file.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.index.generation
    }

    /// Absolute offset of the data section.
    #[must_use]
    pub fn data_start(&self) -> u64 {
        self.index.data_start
    }

    pub(crate) fn metadata_end(&self) -> u64 {
        self.index.metadata_end
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

    /// Bytes after the last tensor, which no writer leaves.
    #[must_use]
    pub fn trailing_bytes(&self) -> u64 {
        self.file_len().saturating_sub(self.index.data_end)
    }

    /// Reads a tensor: a slice where the source is memory, else one read into an aligned buffer.
    ///
    /// Bools always come as one byte each; those held in four are converted, non-zero to 1. A
    /// quantized tensor comes as [`DType::Opaque`] with the stored bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the dtype is unknown, [`UsageError::ForeignEntry`] where the
    /// entry is another archive's, or what the source fails with.
    pub fn read(&self, entry: Entry<'_>) -> Result<Tensor> {
        let (dtype, stored) = self.locate(entry)?;
        let named = |error| BuildError::Shape {
            name: entry.name().to_string(),
            error,
        };
        let data = if entry.bool_store() == Some(BoolStore::U32) {
            let bools = Cast::new(stored.to_source()?, DType::U32, DType::Bool).map_err(named)?;
            bools.read(0..bools.size())?
        } else {
            stored.read()?
        };
        Ok(Tensor::new(dtype, entry.shape().clone(), data).map_err(named)?)
    }

    /// Reads a tensor's stored little-endian bytes into `out`, which is
    /// [`nbytes`](Entry::nbytes) long.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`UsageError::BufferLength`].
    pub fn read_into(&self, entry: Entry<'_>, out: &mut [u8]) -> Result<()> {
        self.locate(entry)?.1.read_into(out)
    }

    /// Reads a tensor's elements, in stored order, into `out`, which has room for exactly these.
    ///
    /// ```
    /// use burnpack_format::{Archive, Builder, Tensor};
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

    /// A tensor's stored little-endian bytes as a source of their own. Bools held in four bytes
    /// are `u32`s here; [`bools`](Self::bools) has them in one.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn data(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        Ok(self.locate(entry)?.1.to_source()?)
    }

    /// A tensor's bytes as the file stores them, whatever its dtype.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's, or what the source fails with.
    pub fn stored(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        Ok(self.bytes_of(entry)?.to_source()?)
    }

    /// A tensor's elements as [`read`](Self::read) gives them, as a source: the same as
    /// [`data`](Self::data) except that bools always take one byte.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// ```
    /// use burnpack_format::{Archive, Bytes, Builder, DType, Shape, Source, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// let mask = Tensor::new(DType::Bool, Shape::new(&[3])?, Bytes::from_static(&[1, 0, 1]))?;
    /// builder.tensor("mask", mask)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let bools = archive.bools(archive.entry("mask").ok_or("no mask")?)?;
    /// assert_eq!(bools.read(0..3)?, &[1, 0, 1][..]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bools(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        let stored = self.data(entry)?;
        if entry.bool_store() != Some(BoolStore::U32) {
            return Ok(stored);
        }
        let cast =
            Cast::new(stored, DType::U32, DType::Bool).map_err(|error| BuildError::Shape {
                name: entry.name().to_string(),
                error,
            })?;
        Ok(Arc::new(cast))
    }

    /// Says for each tensor that nothing in the format covers its data. The index was checked
    /// when the file was opened. Bytes after the last tensor are a warning; under
    /// [`strict`](VerifyOptions::strict) so are padding that is not zero, gaps, bools other than 0
    /// and 1, and quantized data of an unexpected length.
    ///
    /// # Errors
    /// What the source fails with, or a stop on request.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        if !options.has_rest() {
            return Ok(report);
        }
        let about = format!(
            "structure ok, no checksum; {} layout, Burn {}",
            self.layout().name(),
            self.generation().name()
        );
        report.tell(
            Item::new("metadata", Outcome::NotCovered).with_note(about),
            options,
        );
        for scalar in self.scalars() {
            if let Scalar::Unknown(kind) = scalar.value() {
                let what = Unsupported::Scalar { kind: kind.clone() };
                let item = format!("scalar {}", scalar.name());
                report.tell(
                    Item::new(item, Outcome::Unsupported).with_note(what.to_string()),
                    options,
                );
            }
        }
        for entry in self.entries() {
            report.tell(self.verify_entry(entry)?, options);
        }
        if self.index.ambiguous && self.is_zero(self.index.metadata_end, &Ticker::default())? {
            let text =
                "packed layout by its length alone; it could be an aligned file that lost its end";
            report.warn(text, options);
        }
        let burn = Limits::READ_BY_BURN;
        let (tensors, metadata) = (self.entries().len(), self.index.metadata_end - Header::SIZE);
        if tensors as u64 > burn.max_tensor_count || metadata > burn.max_metadata_bytes {
            let (most, bytes) = (burn.max_tensor_count, burn.max_metadata_bytes);
            let text = format!(
                "{tensors} tensors, {metadata} bytes of metadata: Burn reads {most} and {bytes} at the most"
            );
            report.warn(text, options);
        }
        match self.trailing_bytes() {
            0 => {}
            count => report.warn(format!("{count} bytes after the last tensor"), options),
        }
        if options.strict {
            self.lint(options, &mut report)?;
        }
        Ok(report)
    }

    /// Checks one tensor. The format has no checksums, so this says whether its dtype is known.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's.
    pub fn verify_entry(&self, entry: Entry<'_>) -> Result<Item> {
        if !entry.is_of(&self.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        Ok(match entry.dtype_code() {
            DTypeCode::Unknown(name) => Item::new(entry.name(), Outcome::Unsupported)
                .with_note(Unsupported::DType { name: name.clone() }.to_string()),
            _ => Item::new(entry.name(), Outcome::NotCovered),
        })
    }

    /// What readers tolerate but no writer leaves behind.
    fn lint(&self, options: &VerifyOptions<'_>, report: &mut Report) -> Result<()> {
        let ticker = Ticker::new(options.progress);
        let mut gaps = Occurrences::default();
        let mut padding = Occurrences::default();
        let mut lengths = Occurrences::default();
        let mut end = self.data_start();
        if !self.is_zero_range(self.index.metadata_end..end, &ticker)? {
            padding.add("metadata");
        }
        for entry in self.entries() {
            let expected = match self.layout() {
                Layout::Packed => end,
                Layout::Aligned | Layout::Auto => {
                    end.checked_next_multiple_of(ALIGN).unwrap_or(end)
                }
            };
            if entry.offset() > expected {
                gaps.add(entry.name());
            }
            if entry.offset() > end && !self.is_zero_range(end..entry.offset(), &ticker)? {
                padding.add(entry.name());
            }
            end = end.max(entry.range().end);
            if let Some(scheme) = entry.scheme() {
                let expected = scheme.expected_len(entry.shape());
                let new = scheme.generation == QuantGeneration::New;
                if new && expected.is_some_and(|expected| expected != entry.len()) {
                    lengths.add(entry.name());
                }
            }
        }
        let bytes = |store| store != BoolStore::U32;
        let is_bytes = |entry: &Entry<'_>| entry.bool_store().is_some_and(bytes);
        let bools: Vec<Entry<'_>> = self.entries().filter(is_bytes).collect();
        let odd = parallel::map(options.threads, bools.len(), |index| -> Result<bool> {
            let mut odd = false;
            if let Some(entry) = bools.get(index) {
                walk::<Error>(&self.source, entry.range(), &ticker, |piece| {
                    odd |= piece.iter().any(|&byte| byte > 1);
                    Ok(())
                })
                .map_err(|error| error.of_tensor(entry.name()))?;
            }
            Ok(odd)
        })?;
        let mut values = Occurrences::default();
        for (entry, _) in bools.iter().zip(odd).filter(|(_, odd)| *odd) {
            values.add(entry.name());
        }
        let found = [
            gaps.text("larger gap than needed before"),
            padding.text("padding that is not zero before or after"),
            values.text("bools other than 0 and 1 in"),
            lengths.text("other length of data than Burn stores for"),
        ];
        for text in found.into_iter().flatten() {
            report.warn(text, options);
        }
        Ok(())
    }

    /// Whether the bytes from `start` to the next multiple of 256, or the end, are zero.
    fn is_zero(&self, start: u64, ticker: &Ticker<'_>) -> Result<bool> {
        let end = start.checked_next_multiple_of(ALIGN).unwrap_or(start);
        self.is_zero_range(start..end.min(self.file_len()), ticker)
    }

    fn is_zero_range(&self, range: Range<u64>, ticker: &Ticker<'_>) -> Result<bool> {
        let mut zero = true;
        walk::<Error>(&self.source, range, ticker, |piece| {
            zero &= piece.iter().all(|&byte| byte == 0);
            Ok(())
        })?;
        Ok(zero)
    }

    /// Where the entry's bytes are, after checking that it is ours.
    fn bytes_of<'a>(&'a self, entry: Entry<'a>) -> Result<StoredBytes<'a>> {
        match entry.is_of(&self.index) {
            true => Ok(StoredBytes::new(&self.source, entry.name(), entry.range())),
            false => Err(UsageError::ForeignEntry.into()),
        }
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

/// How often something was found, and where first.
#[derive(Default)]
struct Occurrences<'a> {
    count: usize,
    first: Option<&'a str>,
}

impl<'a> Occurrences<'a> {
    fn add(&mut self, name: &'a str) {
        self.count += 1;
        self.first.get_or_insert(name);
    }

    fn text(&self, what: &str) -> Option<String> {
        let first = self.first?;
        Some(match self.count {
            1 => format!("{what} {first:?}"),
            count => format!("{what} {first:?} and {} more", count - 1),
        })
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("file_len", &self.file_len())
            .field("layout", &self.layout())
            .field("entries", &self.entries().len())
            .field("metadata", &self.metadata().len())
            .field("scalars", &self.scalars().len())
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
