use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use tensor_core::codec::{NameTable, Output, Sink, Ticker, Unchanged, write_vec};
use tensor_core::{Order, Shape, ShapeError, Source, Tensor, TensorSpec, WriteOptions};

use crate::layout::{Header, METADATA, PREFIX};
use crate::limits::MAX_HEADER;
#[cfg(feature = "std")]
use crate::limits::MAX_SHARD;
use crate::{Archive, BuildError, DTypeCode, Entry, Result};

/// What a [`Builder`] writes of a tensor beside dtype, shape and values: extra keys, none unless
/// set.
///
/// ```
/// use safetensors_format::{Archive, Builder, Tensor, TensorOptions};
///
/// let mut builder = Builder::new();
/// builder.tensor("w", Tensor::from_slice(&[1.0f32], &[1])?)?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// // Other values under what the file says about `w`.
/// let options = TensorOptions::new().with_extras_of(archive.entry("w").ok_or("no w")?);
/// let mut changed = Builder::new();
/// changed.tensor_with("w", Tensor::from_slice(&[2.0f32], &[1])?, options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorOptions {
    /// Keys and the JSON of their values.
    extras: Vec<(String, String)>,
}

impl TensorOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The extra keys of an archive's entry, instead of those set before.
    #[must_use]
    pub fn with_extras_of(mut self, entry: Entry<'_>) -> Self {
        self.extras = extras_of(entry);
        self
    }
}

/// Collects tensors and metadata, then writes a file at once.
///
/// The header keeps the order of the calls, `__metadata__` is sorted by key, and the same calls give
/// the same bytes. Every tensor's data lies at a multiple of its element's size in the file: where
/// the order of the calls would break that, the data alone is ordered by falling size of the
/// elements. A tensor shares its bytes with the builder; a deferred one is pulled in windows while it
/// is written.
///
/// ```
/// use safetensors_format::{Archive, Builder, Bytes, DType, Shape, Tensor, TensorSpec};
///
/// let mut builder = Builder::new();
/// builder.tensor("mask", Tensor::from_slice(&[1u8, 0, 1], &[3])?)?;
/// let source = Bytes::from_static(&[1, 0, 0, 0, 2, 0, 0, 0]);
/// builder.deferred("steps", TensorSpec::new(DType::I32, Shape::new(&[2])?), source)?;
/// assert!(builder.data_reordered());
///
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let names: Vec<&str> = archive.entries().map(|entry| entry.name()).collect();
/// assert_eq!(names, ["mask", "steps"]);
/// assert_eq!(archive.entries().get(1).ok_or("no tensor")?.offset() % 4, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To a file, to any writer, and a copy that names tensors anew:
///
/// ```
/// use safetensors_format::{Archive, Builder, Bytes, DType, Shape, Tensor, TensorSpec, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// let mut builder = Builder::new();
/// builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// let spec = TensorSpec::new(DType::F32, Shape::new(&[2])?);
/// builder.deferred("b", spec, Bytes::from_static(&[0; 8]))?; // any source
/// builder.write_file(&path)?;
/// let once = WriteOptions::default().with_create_new(true);
/// assert!(builder.write_file_with(&path, &once).is_err()); // there is a file
///
/// let mut out = Vec::new();
/// builder.write_to(&mut out)?;
/// assert_eq!(out.len() as u64, builder.encoded_len()?);
/// builder.write_to_with(std::io::sink(), &WriteOptions::default().with_threads(1))?;
///
/// let archive = Archive::open(&path)?;
/// let mut copy = Builder::like(&archive)?;
/// for entry in archive.entries() {
///     copy.copy_as(format!("layer.{}", entry.name()), &archive, entry)?;
/// }
/// assert!(Archive::from_bytes(copy.to_vec()?)?.entry("layer.b").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Builder {
    max_header_bytes: u64,
    /// Of the data of a set's shard.
    #[cfg(feature = "std")]
    pub(crate) max_shard_bytes: u64,
    /// Which tensors begin a shard, where that is asked for.
    #[cfg(feature = "std")]
    pub(crate) shard_starts: Vec<usize>,
    metadata: Vec<(String, String)>,
    metadata_names: NameTable,
    tensors: Vec<Planned>,
    names: NameTable,
}

#[derive(Clone)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) code: DTypeCode,
    pub(crate) shape: Shape,
    pub(crate) len: u64,
    data: Arc<dyn Source>,
    /// Keys and the JSON of their values.
    pub(crate) extras: Vec<(String, String)>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            max_header_bytes: MAX_HEADER,
            #[cfg(feature = "std")]
            max_shard_bytes: MAX_SHARD,
            #[cfg(feature = "std")]
            shard_starts: Vec::new(),
            metadata: Vec::new(),
            metadata_names: NameTable::default(),
            tensors: Vec::new(),
            names: NameTable::default(),
        }
    }
}

impl Builder {
    /// A builder of a file with no tensor and no metadata.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder of a file like `archive`, still without tensors: with its metadata.
    ///
    /// ```
    /// use safetensors_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.metadata("format", "pt")?;
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// // The same file, with one tensor changed.
    /// let mut changed = Builder::like(&archive)?;
    /// changed.tensor("w", Tensor::from_slice(&[1.0f32, 3.0], &[2])?)?;
    /// let changed = Archive::from_bytes(changed.to_vec()?)?;
    /// assert_eq!(changed.metadata(), archive.metadata());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Duplicate`] where it has a key of metadata twice.
    pub fn like(archive: &Archive) -> Result<Self> {
        let mut builder = Self::new();
        for pair in archive.metadata() {
            builder.metadata(pair.key(), pair.value())?;
        }
        Ok(builder)
    }

    /// How long the header may get; 100,000,000 bytes unless set, which is what the format's own
    /// library reads.
    ///
    /// ```
    /// use safetensors_format::{Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
    /// builder.max_header_bytes(16);
    /// assert!(builder.to_vec().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_header_bytes(&mut self, bytes: u64) -> &mut Self {
        self.max_header_bytes = bytes;
        self
    }

    /// How much data a shard of a set may have; 5,000,000,000 bytes unless set. A tensor that is larger
    /// has a shard of its own.
    ///
    /// ```
    /// use safetensors_format::{Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("a", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// builder.tensor("b", Tensor::from_slice(&[3.0f32, 4.0], &[2])?)?;
    /// builder.max_shard_bytes(8);
    /// assert_eq!(builder.set_files("model.safetensors.index.json")?.len(), 2);
    /// println!("{} bytes in all shards", builder.encoded_set_len()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn max_shard_bytes(&mut self, bytes: u64) -> &mut Self {
        self.max_shard_bytes = bytes;
        self
    }

    /// Has the shards of a set start with these tensors, counted in the order of the calls, whatever
    /// [`max_shard_bytes`](Self::max_shard_bytes) is; the first one always starts one. None for shards
    /// by size.
    ///
    /// ```
    /// use safetensors_format::{Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// for name in ["a", "b", "c"] {
    ///     builder.tensor(name, Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// }
    /// builder.shards_start_at([0, 2]); // `a` and `b`, then `c`
    /// assert_eq!(builder.set_files("model.safetensors.index.json")?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn shards_start_at(&mut self, tensors: impl IntoIterator<Item = usize>) -> &mut Self {
        self.shard_starts = tensors.into_iter().collect();
        self.shard_starts.sort_unstable();
        self.shard_starts.dedup();
        self
    }

    /// Adds a pair of `__metadata__`.
    ///
    /// # Errors
    /// [`BuildError::Duplicate`] where the key is taken.
    pub fn metadata(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<&mut Self> {
        let pair = (key.into(), value.into());
        self.metadata_names
            .push(&mut self.metadata, |(key, _)| key, pair)
            .map_err(|(name, _)| BuildError::Duplicate { name })?;
        Ok(self)
    }

    /// Adds a tensor; its bytes are shared, not copied.
    ///
    /// # Errors
    /// [`BuildError`] where the format can't hold the name, dtype, shape or order, or the name is
    /// taken.
    pub fn tensor(&mut self, name: impl Into<String>, tensor: Tensor) -> Result<&mut Self> {
        self.tensor_with(name, tensor, TensorOptions::new())
    }

    /// Adds a tensor with `options` of its own.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    ///
    /// ```
    /// use safetensors_format::{Builder, Tensor, TensorOptions};
    ///
    /// let mut builder = Builder::new();
    /// let w = Tensor::from_slice(&[0.5f32, 1.5], &[2])?;
    /// builder.tensor_with("w", w, TensorOptions::new())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tensor_with(
        &mut self,
        name: impl Into<String>,
        tensor: Tensor,
        options: TensorOptions,
    ) -> Result<&mut Self> {
        self.deferred_with(name, TensorSpec::from(&tensor), tensor.into_data(), options)
    }

    /// Adds a tensor whose little-endian bytes are pulled from `data` when the file is written.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and where `data` has another length than `spec` asks for.
    pub fn deferred(
        &mut self,
        name: impl Into<String>,
        spec: TensorSpec,
        data: impl Source + 'static,
    ) -> Result<&mut Self> {
        self.deferred_with(name, spec, data, TensorOptions::new())
    }

    /// Adds a deferred tensor with `options` of its own.
    ///
    /// # Errors
    /// As [`deferred`](Self::deferred).
    ///
    /// ```
    /// use safetensors_format::{Builder, Bytes, DType, Shape, TensorOptions, TensorSpec};
    ///
    /// let mut builder = Builder::new();
    /// let spec = TensorSpec::new(DType::F32, Shape::new(&[2])?);
    /// builder.deferred_with("w", spec, Bytes::from_static(&[0; 8]), TensorOptions::new())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deferred_with(
        &mut self,
        name: impl Into<String>,
        spec: TensorSpec,
        data: impl Source + 'static,
        options: TensorOptions,
    ) -> Result<&mut Self> {
        let (name, dtype) = (name.into(), spec.dtype());
        let Some(code) = DTypeCode::from_dtype(dtype) else {
            return Err(BuildError::DType { name, dtype }.into());
        };
        if !spec.is_in(Order::RowMajor) {
            return Err(BuildError::Order { name }.into());
        }
        self.coded_with(name, code, spec.into_shape(), data, options)
    }

    /// Adds a row-major tensor with a dtype that only this format has: one whose elements are
    /// narrower than a byte.
    ///
    /// ```
    /// use safetensors_format::{Builder, Bytes, DTypeCode, Shape};
    ///
    /// let mut builder = Builder::new();
    /// let data = Bytes::from_static(&[0x21, 0x43]);
    /// builder.coded("w", DTypeCode::F4, Shape::new(&[2, 2])?, data)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError`] where the name can't be held or is taken, the dtype is unknown, or `data` has
    /// another length than dtype and shape ask for.
    pub fn coded(
        &mut self,
        name: impl Into<String>,
        code: DTypeCode,
        shape: Shape,
        data: impl Source + 'static,
    ) -> Result<&mut Self> {
        self.coded_with(name, code, shape, data, TensorOptions::new())
    }

    /// Adds a tensor with a dtype that only this format has, and with `options` of its own.
    ///
    /// # Errors
    /// As [`coded`](Self::coded).
    ///
    /// ```
    /// use safetensors_format::{Builder, Bytes, DTypeCode, Shape, TensorOptions};
    ///
    /// let mut builder = Builder::new();
    /// let code = DTypeCode::from_name("F4"); // two elements to the byte
    /// let data = Bytes::from_static(&[0x12; 2]);
    /// builder.coded_with("w", code, Shape::new(&[4])?, data, TensorOptions::new())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn coded_with(
        &mut self,
        name: impl Into<String>,
        code: DTypeCode,
        shape: Shape,
        data: impl Source + 'static,
        options: TensorOptions,
    ) -> Result<&mut Self> {
        let name = name.into();
        if let DTypeCode::Unknown(code) = code {
            let code = code.into();
            return Err(BuildError::UnknownDType { name, code }.into());
        }
        let data = Unchanged::shared(&name, data);
        self.add(name, code, shape, data, options.extras)
    }

    /// Adds a tensor of an archive unchanged: its dtype, known or not, its extra keys, and the
    /// bytes that it has, which are pulled when the file is written.
    ///
    /// ```
    /// # use safetensors_format::{Archive, Builder, Tensor};
    /// # let mut old = Builder::new();
    /// # old.tensor("w", Tensor::from_slice(&[1.0f32], &[1])?)?.metadata("format", "pt")?;
    /// # let archive = Archive::from_bytes(old.to_vec()?)?;
    /// let mut builder = Builder::new();
    /// for entry in archive.entries() {
    ///     builder.copy(&archive, entry)?;
    /// }
    /// for meta in archive.metadata() {
    ///     builder.metadata(meta.key(), meta.value())?;
    /// }
    /// # assert_eq!(builder.to_vec()?, old.to_vec()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError`] where the name is taken, and as [`Archive::stored`].
    pub fn copy(&mut self, archive: &Archive, entry: Entry<'_>) -> Result<&mut Self> {
        self.copy_as(entry.name(), archive, entry)
    }

    /// Adds a tensor of an archive unchanged, but under another name.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub fn copy_as(
        &mut self,
        name: impl Into<String>,
        archive: &Archive,
        entry: Entry<'_>,
    ) -> Result<&mut Self> {
        let data = archive.stored(entry)?;
        let (code, shape) = (entry.dtype_code().clone(), entry.shape().clone());
        let name = name.into();
        let data = Unchanged::shared(&name, data);
        self.add(name, code, shape, data, extras_of(entry))
    }

    fn add(
        &mut self,
        name: String,
        code: DTypeCode,
        shape: Shape,
        data: Arc<dyn Source>,
        extras: Vec<(String, String)>,
    ) -> Result<&mut Self> {
        if name == METADATA {
            return Err(BuildError::Name.into());
        }
        let mut product = Some(1u64);
        for &dim in shape.dims() {
            product = product.and_then(|product| product.checked_mul(dim));
        }
        if product.is_none() {
            let dims = shape.to_string();
            return Err(BuildError::Dims { name, dims }.into());
        }
        let len = data.size();
        if let Some(bits) = code.bits() {
            let bits = u128::from(bits) * u128::from(shape.elements());
            if bits % 8 != 0 {
                return Err(BuildError::PartByte { name, bits }.into());
            }
            let error = match u64::try_from(bits / 8) {
                Ok(expected) if expected == len => None,
                Ok(expected) => Some(ShapeError::DataLength { expected, got: len }),
                Err(_) => Some(ShapeError::ByteOverflow),
            };
            if let Some(error) = error {
                return Err(BuildError::Shape { name, error }.into());
            }
        }
        let tensor = Planned {
            name,
            code,
            shape,
            len,
            data,
            extras,
        };
        self.names
            .push(&mut self.tensors, |tensor| &tensor.name, tensor)
            .map_err(|tensor| BuildError::Duplicate { name: tensor.name })?;
        Ok(self)
    }

    /// Whether the data gets another order than the calls had, so that all of it is aligned; the
    /// header keeps theirs.
    #[must_use]
    pub fn data_reordered(&self) -> bool {
        self.is_unaligned(0..self.tensors.len())
    }

    /// Whether the data of these tensors, one after the other, would not be aligned.
    fn is_unaligned(&self, tensors: impl Iterator<Item = usize>) -> bool {
        // The data starts at a multiple of the largest element's size.
        let mut offset = 0u64;
        tensors.filter_map(|at| self.tensors.get(at)).any(|tensor| {
            let aligned = offset % tensor.code.align() == 0;
            offset = offset.wrapping_add(tensor.len);
            !aligned
        })
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// [`BuildError::HeaderLength`] where the header is longer than it may, or
    /// [`BuildError::TooLarge`].
    pub fn encoded_len(&self) -> Result<u64> {
        Ok(self.plan()?.file_len)
    }

    /// The file in memory.
    ///
    /// # Errors
    /// As [`encoded_len`](Self::encoded_len), and what a deferred tensor's source fails with.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let (plan, options) = (self.plan()?, WriteOptions::default());
        write_vec(plan.file_len, |sink| self.write(&plan, sink, &options))
    }

    /// Writes the file to `out`, front to back.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), and what `out` fails with.
    #[cfg(feature = "std")]
    pub fn write_to(&self, out: impl std::io::Write) -> Result<()> {
        self.write_to_with(out, &WriteOptions::default())
    }

    /// Like [`write_to`](Self::write_to), with `options`.
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to), or a stop on request.
    #[cfg(feature = "std")]
    pub fn write_to_with(
        &self,
        out: impl std::io::Write,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        self.write(&self.plan()?, &mut Sink::new(out), options)
    }

    /// Writes the file at `path`, which appears only when it is complete and is never written
    /// to while it exists (`tensor_core::codec::AtomicFile`).
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to); the target is then as it was.
    #[cfg(feature = "std")]
    pub fn write_file(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        self.write_file_with(path, &WriteOptions::default())
    }

    /// Like [`write_file`](Self::write_file), with `options`.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file), or a stop on request.
    #[cfg(feature = "std")]
    pub fn write_file_with(
        &self,
        path: impl AsRef<std::path::Path>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        // What the format can't hold fails before the first byte.
        let plan = self.plan()?;
        tensor_core::codec::write_file(path, self.sources(), options, |sink| {
            self.write(&plan, sink, options)
        })
    }

    /// The tensors and the metadata.
    pub(crate) fn parts(&self) -> (&[Planned], &[(String, String)]) {
        (&self.tensors, &self.metadata)
    }

    /// Where the data comes from.
    #[cfg(feature = "std")]
    pub(crate) fn sources(&self) -> impl Iterator<Item = &dyn Source> {
        self.tensors.iter().map(|tensor| &*tensor.data)
    }

    /// How many bytes each tensor has.
    #[cfg(feature = "std")]
    pub(crate) fn lens(&self) -> impl Iterator<Item = u64> {
        self.tensors.iter().map(|tensor| tensor.len)
    }

    #[cfg(feature = "std")]
    pub(crate) fn name(&self, at: usize) -> Option<&str> {
        self.tensors.get(at).map(|tensor| &*tensor.name)
    }

    pub(crate) fn write<O: Output>(
        &self,
        plan: &Plan,
        sink: &mut Sink<O>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        sink.put(&plan.start)?;
        let ticker = Ticker::new(options.progress);
        let tensors = plan.order.iter().filter_map(|&at| self.tensors.get(at));
        for tensor in tensors {
            let copied = sink.copy_from(&tensor.data, &ticker);
            copied.map_err(|error| error.of_tensor(&tensor.name))?;
        }
        Ok(())
    }

    fn plan(&self) -> Result<Plan> {
        let all: Vec<usize> = (0..self.tensors.len()).collect();
        self.plan_of(&all)
    }

    /// The file of these tensors, whose positions rise.
    pub(crate) fn plan_of(&self, tensors: &[usize]) -> Result<Plan> {
        let mut order = tensors.to_vec();
        let tensor = |at: usize| self.tensors.get(at);
        if self.is_unaligned(tensors.iter().copied()) {
            let align = |at| tensor(at).map_or(0, |tensor| tensor.code.align());
            order.sort_by_key(|&at| core::cmp::Reverse(align(at)));
        }
        let mut ranges = alloc::vec![(0, 0); order.len()];
        let mut end = 0u64;
        for &at in &order {
            let len = tensor(at).map_or(0, |tensor| tensor.len);
            let begin = end;
            end = begin.checked_add(len).ok_or(BuildError::TooLarge)?;
            let place = match tensors.get(at) {
                // All tensors of the builder.
                Some(&same) if same == at => Some(at),
                _ => tensors.binary_search(&at).ok(),
            };
            if let Some(range) = place.and_then(|place| ranges.get_mut(place)) {
                *range = (begin, end);
            }
        }
        let mut header = Header::new();
        if !self.metadata.is_empty() {
            let pairs = self.metadata.iter();
            let mut pairs: Vec<(&str, &str)> =
                pairs.map(|(key, value)| (&**key, &**value)).collect();
            pairs.sort_unstable();
            header.put_metadata(pairs.into_iter());
        }
        let members = tensors.iter().filter_map(|&at| tensor(at));
        for (tensor, range) in members.zip(ranges) {
            let (code, shape) = (&tensor.code, &tensor.shape);
            header.put_tensor(&tensor.name, code, shape, range, &tensor.extras);
        }
        let start = header.finish();
        let len = (start.len() as u64).saturating_sub(PREFIX);
        let max = self.max_header_bytes;
        if len > max {
            return Err(BuildError::HeaderLength { len, max }.into());
        }
        let file_len = (start.len() as u64).checked_add(end);
        Ok(Plan {
            start,
            order,
            file_len: file_len.ok_or(BuildError::TooLarge)?,
        })
    }
}

pub(crate) struct Plan {
    /// All before the data.
    start: Vec<u8>,
    /// The tensors in the order of their data.
    order: Vec<usize>,
    pub(crate) file_len: u64,
}

pub(crate) fn extras_of(entry: Entry<'_>) -> Vec<(String, String)> {
    let extras = entry.extras();
    let pairs = extras.map(|extra| (extra.key().to_string(), extra.json().to_string()));
    pairs.collect()
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("metadata", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}
