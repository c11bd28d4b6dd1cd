use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

use tensor_core::codec::ShapeId;
use tensor_core::{
    At, Bytes, DType, Item, Order, Outcome, Report, Shape, Source, Tensor, VerifyOptions, Window,
};

use crate::index::{Index, Shared, place};
use crate::meta::{Extra, MetaEntry};
use crate::{BuildError, DTypeCode, Error, Limits, Result, Unsupported};

/// How to open a file.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// What the reader takes on.
    pub limits: Limits,
    /// Whether a set opens though shards are missing or damaged, with the tensors that are there.
    pub salvage: bool,
}

/// An open `.safetensors` file: its metadata and a list of its tensors, whose data is read on
/// demand. Cheap to clone, and shared between threads freely.
#[derive(Clone)]
pub struct Archive {
    pub(crate) source: Arc<dyn Source>,
    index: Arc<Index>,
}

/// One tensor of an [`Archive`], as the header describes it.
#[derive(Clone)]
pub struct Entry {
    pub(crate) shared: Arc<Shared>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) name_start: u32,
    pub(crate) name_len: u32,
    pub(crate) shape: ShapeId,
    pub(crate) code: u32,
    pub(crate) ordinal: u32,
}

/// Of an entry without a dtype, of which there are none.
static NO_CODE: DTypeCode = DTypeCode::U8;

impl Entry {
    /// The tensor's name.
    pub fn name(&self) -> &str {
        let start = place(self.name_start);
        let end = start.saturating_add(place(self.name_len));
        self.shared.names.get(start..end).unwrap_or_default()
    }

    /// The dtype as the header spells it.
    pub fn dtype_code(&self) -> &DTypeCode {
        self.shared.codes.get(place(self.code)).unwrap_or(&NO_CODE)
    }

    /// The dtype, `None` where its name is unknown; [`DType::Opaque`] where elements are narrower
    /// than a byte.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype_code().dtype()
    }

    /// The dims, outermost first.
    pub fn shape(&self) -> &Shape {
        self.shared.shapes.get(self.shape)
    }

    /// Always row-major.
    pub fn order(&self) -> Order {
        Order::RowMajor
    }

    /// Absolute offset of the data.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that the data takes in the file, known whatever the dtype.
    pub fn stored_len(&self) -> Option<u64> {
        Some(self.len)
    }

    /// Bytes of the data, which is stored as it is.
    pub fn nbytes(&self) -> Option<u64> {
        Some(self.len)
    }

    /// The keys beside dtype, shape and offsets that the header has for the tensor, in its order.
    pub fn extras(&self) -> impl Iterator<Item = Extra<'_>> {
        self.shared.extras.of(self.ordinal)
    }

    /// The error that the dtype is unknown.
    fn unsupported(&self) -> Error {
        let name = self.dtype_code().name().into();
        Error::Unsupported {
            what: Unsupported::DType { name },
            at: At::new(self.offset, "dtype").entry(self.ordinal.into()),
            tensor: self.name().into(),
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name())
            .field("dtype", self.dtype_code())
            .field("shape", self.shape())
            .field("offset", &self.offset)
            .field("stored_len", &self.len)
            .finish_non_exhaustive()
    }
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

    /// The same with options, such as limits of the caller's own.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// # let mut builder = safetensors_format::Builder::new();
    /// # builder.metadata("a", "1")?.metadata("b", "2")?.write_file(&path)?;
    /// use safetensors_format::{Archive, Kind, ReadOptions};
    ///
    /// let mut options = ReadOptions::default();
    /// options.limits.max_metadata_count = 1;
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
        let path = path.as_ref();
        let source = tensor_core::FileSource::open(path)?;
        Self::from_source(source, options).map_err(|error| error.in_file(path))
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

    /// What its entries know it by.
    #[cfg(feature = "std")]
    pub(crate) fn id(&self) -> tensor_core::codec::ArchiveId {
        self.index.id
    }

    /// All tensors, in the order of the header, which need not be that of the data.
    pub fn entries(&self) -> &[Entry] {
        &self.index.entries
    }

    /// The tensor of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.index.find(name)
    }

    /// The pairs of `__metadata__`, in the order of the header.
    pub fn metadata(&self) -> &[MetaEntry] {
        &self.index.metadata
    }

    /// The pair of `__metadata__` with this key.
    pub fn metadata_entry(&self, key: &str) -> Option<&MetaEntry> {
        self.index.find_metadata(key)
    }

    /// Where the header ends and the data begins.
    pub fn data_start(&self) -> u64 {
        self.index.data_start
    }

    /// Size of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.source.size()
    }

    /// The file that is read, `None` where the bytes come from elsewhere.
    pub fn file(&self) -> Option<&tensor_core::FileId> {
        self.source.file()
    }

    /// Reads a tensor: a slice where the source is memory, else one read into an aligned buffer.
    /// Elements narrower than a byte come as the bytes that they are packed in.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the dtype is unknown, [`BuildError::ForeignEntry`] where the
    /// entry is another archive's, or what the source fails with.
    pub fn read(&self, entry: &Entry) -> Result<Tensor> {
        let (dtype, range) = self.locate(entry)?;
        let data = self.source.read(range)?;
        Tensor::new(dtype, entry.shape().clone(), data).map_err(|error| {
            Error::Build(BuildError::Shape {
                name: entry.name().to_string(),
                error,
            })
        })
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`BuildError::BufferLength`].
    pub fn read_into(&self, entry: &Entry, out: &mut [u8]) -> Result<()> {
        let (_, range) = self.locate(entry)?;
        let (expected, got) = (entry.len, out.len() as u64);
        if expected != got {
            let name = entry.name().to_string();
            return Err(BuildError::BufferLength {
                name,
                expected,
                got,
            }
            .into());
        }
        Ok(self.source.read_into(range.start, out)?)
    }

    /// A tensor's little-endian bytes as a source of their own.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn data(&self, entry: &Entry) -> Result<Arc<dyn Source>> {
        let (_, range) = self.locate(entry)?;
        Ok(Arc::new(Window::new(self.source.clone(), range)?))
    }

    /// A tensor's bytes as the file stores them, whatever its dtype.
    ///
    /// # Errors
    /// [`BuildError::ForeignEntry`] where the entry is another archive's, or what the source fails
    /// with.
    pub fn stored(&self, entry: &Entry) -> Result<Arc<dyn Source>> {
        let range = self.range(entry)?;
        Ok(Arc::new(Window::new(self.source.clone(), range)?))
    }

    /// Says for each tensor that the format has no checksum; the structure was checked when the file
    /// was opened. `strict` adds warnings about what readers take though the format's text does not
    /// say it.
    ///
    /// # Errors
    /// None today; the other formats' have some.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        report
            .push(Item::new("header", Outcome::NotCovered).with_note("structure ok, no checksum"));
        for entry in self.entries() {
            report.push(match entry.dtype() {
                Some(_) => Item::new(entry.name(), Outcome::NotCovered),
                None => Item::new(entry.name(), Outcome::Unsupported)
                    .with_note(format!("dtype {}", entry.dtype_code())),
            });
        }
        if options.strict {
            let oddities = self.index.oddities.iter();
            report.warnings.extend(oddities.map(ToString::to_string));
        }
        Ok(report)
    }

    /// Where the entry's bytes are, after checking that it is ours.
    fn range(&self, entry: &Entry) -> Result<Range<u64>> {
        if entry.shared.id != self.index.id {
            return Err(BuildError::ForeignEntry.into());
        }
        Ok(entry.offset..entry.offset.saturating_add(entry.len))
    }

    /// The same, and known.
    fn locate(&self, entry: &Entry) -> Result<(DType, Range<u64>)> {
        let range = self.range(entry)?;
        match entry.dtype() {
            Some(dtype) => Ok((dtype, range)),
            None => Err(entry.unsupported()),
        }
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
