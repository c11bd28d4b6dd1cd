use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

use tensor_core::codec::ArchiveId;
use tensor_core::{
    Bytes, DType, Item, Order, Outcome, Report, Shape, Source, Tensor, VerifyOptions, Window,
};

use crate::index::Index;
use crate::layout::{DataType, StoredShape};
use crate::object::{Model, Object, Parameter};
use crate::{BuildError, Error, Limits, Result};

/// How to open a file.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// What the reader takes on.
    pub limits: Limits,
    /// Accept bytes after the object, as the reference library does. Off by default: no writer
    /// leaves any.
    pub allow_trailing: bool,
}

/// An open primitiv file: what it holds, with the data read on demand. Cheap to clone, and shared
/// between threads freely.
#[derive(Clone)]
pub struct Archive {
    source: Arc<dyn Source>,
    index: Arc<Index>,
}

/// One tensor of an [`Archive`]: a parameter's value, one of its statistics, or the tensor of a
/// Tensor file.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) archive: ArchiveId,
    pub(crate) ordinal: usize,
    pub(crate) name: Box<str>,
    pub(crate) path_len: usize,
    pub(crate) is_stat: bool,
    /// Whether it has an address, if an empty one.
    pub(crate) in_model: bool,
    pub(crate) cuts: Box<[u32]>,
    /// The dims with the batch, where that is not 1.
    pub(crate) batched: Option<Box<Shape>>,
    pub(crate) shape: StoredShape,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) stats: u32,
}

impl Entry {
    /// The parts of the address joined with `.`, followed by `:` and the key for a statistic.
    /// Empty for the value of a Parameter file and for the tensor of a Tensor file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parts of the address; none in a Parameter or Tensor file.
    pub fn path(&self) -> impl Iterator<Item = &str> {
        let joined = self.name.get(..self.path_len).unwrap_or_default();
        let parts = if self.in_model {
            self.cuts.len() + 1
        } else {
            0
        };
        (0..parts).map(move |part| {
            let cut = |at: usize| self.cuts.get(at).map(|&cut| cut as usize);
            let start = part.checked_sub(1).and_then(cut).map_or(0, |cut| cut + 1);
            joined
                .get(start..cut(part).unwrap_or(joined.len()))
                .unwrap_or_default()
        })
    }

    /// The key of a statistic, `None` for a value.
    pub fn stat(&self) -> Option<&str> {
        self.name.get(self.path_len + 1..).filter(|_| self.is_stat)
    }

    /// Always `f32`: the format has no other dtype.
    pub fn dtype(&self) -> Option<DType> {
        Some(DType::F32)
    }

    /// The dims, first fastest, without trailing ones; the batch is the last one unless it is 1.
    pub fn shape(&self) -> &Shape {
        self.batched.as_deref().unwrap_or(&self.shape.dims)
    }

    /// The dims without the batch.
    pub fn dims(&self) -> &Shape {
        &self.shape.dims
    }

    /// The batch.
    pub fn batch(&self) -> u32 {
        self.shape.batch
    }

    /// Whether the file stores dims of 1 at the end, which mean nothing and no writer leaves.
    pub fn has_trailing_ones(&self) -> bool {
        self.shape.dropped > 0
    }

    /// Always column-major.
    pub fn order(&self) -> Order {
        Order::ColumnMajor
    }

    /// Absolute offset of the data.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that the data takes.
    pub fn stored_len(&self) -> Option<u64> {
        Some(self.len)
    }

    /// Bytes of the decoded data.
    pub fn nbytes(&self) -> Option<u64> {
        Some(self.len)
    }
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

    /// The same with options, such as limits of the caller's own.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("m.model");
    /// # let mut builder = primitiv_format::Builder::new();
    /// # builder.tensor("a.b.c", primitiv_format::Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # builder.write_file(&path)?;
    /// use primitiv_format::{Archive, Kind, ReadOptions};
    ///
    /// let mut options = ReadOptions::default();
    /// options.limits.max_path_parts = 2;
    /// let error = Archive::open_with(&path, &options).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert_eq!(error.rule_id(), Some("max_path_parts"));
    /// assert!(error.to_string().contains("m.model"));
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
    pub fn data_type(&self) -> DataType {
        self.index.data_type
    }

    /// The object, typed.
    pub fn object(&self) -> Object<'_> {
        let first = self.index.entries.first();
        match (self.index.data_type, first, &self.index.shape) {
            (DataType::Shape, _, Some(shape)) => Object::Shape {
                dims: &shape.dims,
                batch: shape.batch,
            },
            (DataType::Tensor, Some(entry), _) => Object::Tensor(entry),
            (DataType::Parameter, Some(entry), _) => Object::Parameter(self.parameter(entry)),
            (DataType::Optimizer, _, _) => Object::Optimizer(&self.index.optimizer),
            _ => Object::Model(Model { archive: self }),
        }
    }

    /// The parameter that an entry is the value of.
    pub(crate) fn parameter<'a>(&'a self, value: &'a Entry) -> Parameter<'a> {
        let first = value.ordinal + 1;
        let count = value.stats as usize;
        let stats = self
            .index
            .entries
            .get(first..first + count)
            .unwrap_or_default();
        Parameter { value, stats }
    }

    /// All tensors, in file order: each value followed by its statistics.
    pub fn entries(&self) -> &[Entry] {
        &self.index.entries
    }

    /// The first tensor of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.index.find(name)
    }

    /// Tensors whose name an earlier one has, because their addresses join to the same text:
    /// `["a.b"]` and `["a", "b"]`. [`Model::get`] tells them apart.
    pub fn same_named(&self) -> impl Iterator<Item = &Entry> {
        self.index
            .same_named
            .iter()
            .filter_map(|&position| self.index.entries.get(position))
    }

    /// The format version, major and minor: always 0.1.
    pub fn version(&self) -> (u32, u32) {
        crate::layout::VERSION
    }

    /// Size of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.source.size()
    }

    /// The file that is read, `None` where the bytes come from elsewhere.
    pub fn file(&self) -> Option<&tensor_core::FileId> {
        self.source.file()
    }

    /// Bytes after the object; above 0 only where the options allow it.
    pub fn trailing_bytes(&self) -> u64 {
        self.index.trailing_bytes
    }

    /// Reads a tensor, column-major as it is stored: a slice where the source is memory, else one
    /// read into an aligned buffer.
    ///
    /// # Errors
    /// [`BuildError::ForeignEntry`] where the entry is another archive's, or what the source fails
    /// with.
    pub fn read(&self, entry: &Entry) -> Result<Tensor> {
        let data = self.source.read(self.locate(entry)?)?;
        match Tensor::new(DType::F32, entry.shape().clone(), data) {
            Ok(tensor) => Ok(tensor.with_order(Order::ColumnMajor)),
            Err(error) => Err(BuildError::Shape {
                name: entry.name.to_string(),
                error,
            }
            .into()),
        }
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`BuildError::BufferLength`].
    pub fn read_into(&self, entry: &Entry, out: &mut [u8]) -> Result<()> {
        let range = self.locate(entry)?;
        let (expected, got) = (entry.len, out.len() as u64);
        if expected != got {
            return Err(BuildError::BufferLength { expected, got }.into());
        }
        Ok(self.source.read_into(range.start, out)?)
    }

    /// A tensor's little-endian bytes as a source of their own.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn data(&self, entry: &Entry) -> Result<Arc<dyn Source>> {
        let range = self.locate(entry)?;
        Ok(Arc::new(Window::new(self.source.clone(), range)?))
    }

    /// A tensor's bytes as the file stores them, which is [`data`](Self::data): there is one dtype.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn stored(&self, entry: &Entry) -> Result<Arc<dyn Source>> {
        self.data(entry)
    }

    /// Says for each tensor that the format has no checksum; the structure was checked on open,
    /// down to the last byte.
    ///
    /// # Errors
    /// None today.
    pub fn verify(&self, _: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        report.push(
            Item::new("index", Outcome::NotCovered).with_note(alloc::format!(
                "structure ok, no checksum; {}",
                self.data_type().name()
            )),
        );
        for entry in self.entries() {
            report.push(Item::new(entry.name(), Outcome::NotCovered));
            if entry.has_trailing_ones() {
                let name = entry.name();
                report
                    .warnings
                    .push(alloc::format!("{name:?} is stored with trailing dims of 1"));
            }
        }
        for entry in self.same_named() {
            let name = entry.name();
            report
                .warnings
                .push(alloc::format!("two addresses join to the name {name:?}"));
        }
        if self.trailing_bytes() > 0 {
            let count = self.trailing_bytes();
            report
                .warnings
                .push(alloc::format!("{count} bytes follow the object"));
        }
        Ok(report)
    }

    fn locate(&self, entry: &Entry) -> Result<Range<u64>, Error> {
        if entry.archive != self.index.id {
            return Err(BuildError::ForeignEntry.into());
        }
        Ok(entry.offset..entry.offset + entry.len)
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

impl tensor_core::codec::HasEntries for Archive {
    type Entry<'a> = &'a Entry;

    fn entry_count(&self) -> usize {
        self.entries().len()
    }

    fn entry_at(&self, position: usize) -> Option<&Entry> {
        self.entries().get(position)
    }
}
