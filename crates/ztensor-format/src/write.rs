use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use tensor_core::codec::{NameTable, Output, Sink, Ticker, Unchanged, walk, write_vec};
use tensor_core::{
    Bytes, Entries, Order, Shape, SinkError, Source, Swapped, Tensor, TensorSpec, Value,
    WriteOptions, parallel,
};

use crate::cbor;
use crate::checksum::{Algorithm, Hasher};
#[cfg(feature = "zstd")]
use crate::encoding::Compressor;
use crate::encoding::{Encoding, Endianness, Layout};
use crate::entry_map::WrittenEntry;
use crate::generation::Generation;
use crate::layout::{ALIGN, FOOTER, Field, MAGIC};
use crate::{Archive, BuildError, Entry, Error, Result, dtype};

/// The largest file: offsets stay within what a signed seek reaches.
const MAX_FILE: u64 = i64::MAX as u64;

/// How a [`Builder`] stores a tensor: raw, little-endian and with a CRC-32C unless set.
///
/// ```
/// use ztensor_format::{Algorithm, Builder, Endianness, Tensor, TensorOptions};
///
/// let options = TensorOptions::new()
///     .with_endianness(Endianness::Big)
///     .with_checksum(Algorithm::Sha256)
///     .with_custom("note", "as the device sends it")?;
/// let mut builder = Builder::new();
/// builder.tensor_with("samples", Tensor::from_slice(&[1i16, 2], &[2])?, options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Fields of your own, as values or as CBOR, and options for all that comes:
///
/// ```
/// use ztensor_format::{Algorithm, Builder, Bytes, DType, Shape, TensorOptions, TensorSpec};
///
/// let mut options = TensorOptions::new().with_zstd(3).with_custom_cbor("axis", &[0x01][..])?;
/// options.set_custom("scale", 0.5)?;
/// assert!(options.set_custom("shape", 1i64).is_err()); // the format has that field
/// assert!(options.set_custom_cbor("bias", &[0xFB][..]).is_err()); // a float without its bytes
/// assert!(options.is_compressed() && !options.clone().with_raw().is_compressed());
/// assert_eq!(options.checksum(), Algorithm::Crc32c);
///
/// let mut builder = Builder::new();
/// builder.defaults(TensorOptions::new().with_checksum(Algorithm::Sha256));
/// let spec = TensorSpec::new(DType::F32, Shape::new(&[256])?);
/// let zeros = Bytes::from_static(&[0; 1024]);
/// builder.deferred_with("w", spec, zeros, options)?; // has options of its own
/// assert!(builder.to_vec()?.len() < 1024);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TensorOptions {
    /// The level of zstd, `None` for raw.
    level: Option<i32>,
    checksum: Algorithm,
    endianness: Endianness,
    custom: Vec<(String, Bytes)>,
}

impl TensorOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the data is compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.level.is_some()
    }

    /// Which checksum the data gets.
    #[must_use]
    pub fn checksum(&self) -> Algorithm {
        self.checksum
    }

    /// Stores the elements as they are.
    #[must_use]
    pub fn with_raw(mut self) -> Self {
        self.level = None;
        self
    }

    /// Stores the elements compressed with zstd at `level`: 0 for its default, 3; up to 22; the
    /// negative ones are faster still.
    #[must_use]
    pub fn with_zstd(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
    }

    /// Which checksum the entry gets.
    #[must_use]
    pub fn with_checksum(mut self, algorithm: Algorithm) -> Self {
        self.checksum = algorithm;
        self
    }

    /// The byte order of raw elements of more than one byte.
    #[must_use]
    pub fn with_endianness(mut self, endianness: Endianness) -> Self {
        self.endianness = endianness;
        self
    }

    /// Adds a field of your own to the entry.
    ///
    /// # Errors
    /// [`BuildError::CustomKey`] where the format has a field of that name,
    /// [`BuildError::CustomValue`] where CBOR can't hold the value.
    pub fn with_custom(mut self, key: impl Into<String>, value: impl Into<Value>) -> Result<Self> {
        self.set_custom(key, value)?;
        Ok(self)
    }

    /// Adds a field like [`with_custom`](Self::with_custom); the options stay as they were where
    /// it can't be added.
    ///
    /// # Errors
    /// As [`with_custom`](Self::with_custom).
    pub fn set_custom(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Result<()> {
        let key = key.into();
        let mut bytes = Vec::new();
        match cbor::put_value(&mut bytes, &value.into()) {
            Ok(()) => self.set_custom_cbor(key, bytes),
            Err(reason) => Err(BuildError::CustomValue { key, reason }.into()),
        }
    }

    /// Adds a custom field as an encoded CBOR item, which is kept byte for byte.
    ///
    /// # Errors
    /// As [`with_custom`](Self::with_custom), where `cbor` is not exactly one well-formed item that
    /// nests at most 128 deep.
    pub fn with_custom_cbor(
        mut self,
        key: impl Into<String>,
        cbor: impl Into<Bytes>,
    ) -> Result<Self> {
        self.set_custom_cbor(key, cbor)?;
        Ok(self)
    }

    /// Adds a field like [`with_custom_cbor`](Self::with_custom_cbor); the options stay as they were
    /// where it can't be added.
    ///
    /// # Errors
    /// As [`with_custom_cbor`](Self::with_custom_cbor).
    pub fn set_custom_cbor(
        &mut self,
        key: impl Into<String>,
        cbor: impl Into<Bytes>,
    ) -> Result<()> {
        let (key, cbor) = (key.into(), cbor.into());
        if Field::from_key(key.as_bytes()).is_some() {
            return Err(BuildError::CustomKey { key }.into());
        }
        if cbor::check_item(&cbor, crate::Limits::default().max_value_depth).is_err() {
            let reason = "not exactly one well-formed CBOR item of at most 128 levels";
            return Err(BuildError::CustomValue { key, reason }.into());
        }
        self.custom.push((key, cbor));
        Ok(())
    }
}

/// Collects tensors, then writes a file at once.
///
/// Entries and data keep the order of the calls, and the same calls give the same bytes: those
/// of the reference writer, `ztensor` 0.1.0. A tensor shares its bytes with the builder; a
/// deferred one is pulled in windows while it is written. Compressed tensors are compressed on
/// all threads, with at most 16 MiB per thread in memory; one that is larger than half of that is
/// compressed by itself.
///
/// ```
/// use ztensor_format::{Builder, Bytes, DType, Shape, TensorSpec};
///
/// let mut builder = Builder::new();
/// let source = Bytes::from_static(&[1, 0, 0, 0, 2, 0, 0, 0]);
/// builder.deferred("steps", TensorSpec::new(DType::I32, Shape::new(&[2])?), source)?;
/// assert_eq!(builder.encoded_len()?, builder.to_vec()?.len() as u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To a file, to any writer, and a copy that names tensors anew:
///
/// ```
/// use ztensor_format::{Archive, Builder, Bytes, DType, Shape, Tensor, TensorSpec, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.zt");
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
#[derive(Clone, Default)]
pub struct Builder {
    defaults: TensorOptions,
    tensors: Vec<Planned>,
    names: NameTable,
}

/// What an entry says that is copied with its stored bytes.
#[derive(Clone)]
pub(crate) struct Copied {
    dtype: Box<str>,
    layout: Box<str>,
    encoding: Box<str>,
    checksum: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Planned {
    name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Shape,
    /// Decoded bytes.
    pub(crate) len: u64,
    pub(crate) level: Option<i32>,
    pub(crate) checksum: Algorithm,
    pub(crate) endianness: Option<Endianness>,
    custom: Vec<(String, Bytes)>,
    /// Elements in the byte order that they are stored in; of a copy what the file stores.
    data: Arc<dyn Source>,
    /// What an entry of another file says, where it is copied as it is.
    pub(crate) copied: Option<Box<Copied>>,
}

impl Builder {
    /// A builder of a file with no tensor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder of a file like `archive`, still without tensors: a file of 0.1 says nothing about
    /// itself, so this is a new one.
    ///
    /// ```
    /// use ztensor_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let mut copy = Builder::like(&archive)?;
    /// for entry in archive.entries() {
    ///     copy.copy(&archive, entry)?;
    /// }
    /// assert_eq!(copy.to_vec()?, builder.to_vec()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Attributes`] where it is of another generation, whose attributes 0.1 has no
    /// place for.
    pub fn like(archive: &Archive) -> Result<Self> {
        match archive.generation() {
            Generation::V0_1 => Ok(Self::new()),
            other => {
                let generation = other.name();
                Err(BuildError::Attributes { generation }.into())
            }
        }
    }

    /// How tensors are stored that are added from here on without options of their own.
    ///
    /// See [`TensorOptions`].
    pub fn defaults(&mut self, options: TensorOptions) -> &mut Self {
        self.defaults = options;
        self
    }

    /// Adds a tensor; its bytes are shared, not copied.
    ///
    /// # Errors
    /// [`BuildError`] where the format can't hold the dtype or order, or the name is taken.
    pub fn tensor(&mut self, name: impl Into<String>, tensor: Tensor) -> Result<&mut Self> {
        self.tensor_with(name, tensor, self.defaults.clone())
    }

    /// Adds a tensor with `options` of its own.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and where the options don't fit the tensor or each other.
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
        self.deferred_with(name, spec, data, self.defaults.clone())
    }

    /// Adds a deferred tensor with `options` of its own.
    ///
    /// # Errors
    /// As [`deferred`](Self::deferred), and where the options don't fit the tensor or each other.
    ///
    /// See [`TensorOptions`].
    pub fn deferred_with(
        &mut self,
        name: impl Into<String>,
        spec: TensorSpec,
        data: impl Source + 'static,
        options: TensorOptions,
    ) -> Result<&mut Self> {
        let (name, dtype) = (name.into(), spec.dtype());
        let Some(dtype_name) = dtype::name_of(dtype) else {
            return Err(BuildError::DType { name, dtype }.into());
        };
        if !spec.is_in(Order::RowMajor) {
            return Err(BuildError::Order { name }.into());
        }
        let wide = dtype.swap_size() > 1;
        let endianness = (wide && options.level.is_none()).then_some(options.endianness);
        if let Some(level) = options.level {
            check_level(&name, level)?;
            if wide && options.endianness == Endianness::Big {
                return Err(BuildError::ZstdEndianness { name }.into());
            }
        }
        // Its length is asked once, and stays the one that is planned with.
        let data = Unchanged::shared(&name, data);
        let len = data.size();
        let swapped = spec.check_len(len).and_then(|()| match endianness {
            Some(Endianness::Big) => {
                Swapped::new(data.clone(), dtype).map(|data| Arc::new(data) as Arc<dyn Source>)
            }
            _ => Ok(data),
        });
        let data = match swapped {
            Ok(data) => data,
            Err(error) => return Err(BuildError::Shape { name, error }.into()),
        };
        let mut custom = options.custom;
        custom.sort_by(|(left, _), (right, _)| left.cmp(right));
        let twice = custom.windows(2).find_map(|pair| match pair {
            [(left, _), (right, _)] if left == right => Some(left.clone()),
            _ => None,
        });
        if let Some(key) = twice {
            return Err(BuildError::CustomKey { key }.into());
        }
        let tensor = Planned {
            name,
            dtype: dtype_name,
            shape: spec.into_shape(),
            len,
            level: options.level,
            checksum: options.checksum,
            endianness,
            custom,
            data,
            copied: None,
        };
        self.push(tensor)
    }

    /// Adds a tensor of a file of 0.1 unchanged: its dtype, layout and encoding, known or not, its
    /// stored bytes, checksum and custom fields. Compressed data stays as it was compressed.
    ///
    /// ```
    /// use ztensor_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let mut copy = Builder::new();
    /// copy.copy(&archive, archive.entry("w").unwrap())?;
    /// assert_eq!(copy.to_vec()?, builder.to_vec()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`copy_as`](Self::copy_as).
    pub fn copy(&mut self, archive: &Archive, entry: Entry<'_>) -> Result<&mut Self> {
        self.copy_as(entry.name(), archive, entry)
    }

    /// Like [`copy`](Self::copy), under another name.
    ///
    /// # Errors
    /// [`BuildError::Duplicate`], [`BuildError::Generation`] where the file is of another generation, and
    /// as [`Archive::stored`].
    pub fn copy_as(
        &mut self,
        name: impl Into<String>,
        archive: &Archive,
        entry: Entry<'_>,
    ) -> Result<&mut Self> {
        let name = name.into();
        if archive.generation() != Generation::V0_1 {
            return Err(BuildError::Generation { name }.into());
        }
        let data = Unchanged::shared(&name, archive.stored(entry)?);
        let custom = entry.custom().into_iter();
        let copied = Copied {
            dtype: entry.dtype_name().into(),
            layout: entry.layout_name().into(),
            encoding: entry.encoding_name().into(),
            checksum: entry.checksum().map(|checksum| checksum.to_string()),
        };
        let tensor = Planned {
            dtype: "",
            shape: entry.shape().clone(),
            len: data.size(),
            data,
            level: None,
            checksum: Algorithm::None,
            endianness: entry.endianness(),
            custom: custom
                .map(|field| (field.key().into(), field.cbor().clone()))
                .collect(),
            copied: Some(Box::new(copied)),
            name,
        };
        self.push(tensor)
    }

    fn push(&mut self, tensor: Planned) -> Result<&mut Self> {
        self.names
            .push(&mut self.tensors, |tensor| &tensor.name, tensor)
            .map_err(|tensor| BuildError::Duplicate { name: tensor.name })?;
        Ok(self)
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// [`BuildError::EncodedLen`] where a tensor is compressed, [`BuildError::TooLarge`] where
    /// the format can't hold the file.
    pub fn encoded_len(&self) -> Result<u64> {
        if self.tensors.iter().any(|tensor| tensor.level.is_some()) {
            return Err(BuildError::EncodedLen.into());
        }
        let mut index = IndexWriter::new(self.tensors.len());
        let mut position = MAGIC.len() as u64;
        for tensor in &self.tensors {
            let offset = align(position)?;
            position = offset
                .checked_add(tensor.len)
                .filter(|&end| end <= MAX_FILE)
                .ok_or(BuildError::TooLarge)?;
            // Its text has the same length whatever the data.
            index.add(tensor, offset, tensor.len, Hasher::new(tensor.checksum));
        }
        let rest = index.bytes.len() as u64 + FOOTER;
        let end = position.checked_add(rest).filter(|&end| end <= MAX_FILE);
        Ok(end.ok_or(BuildError::TooLarge)?)
    }

    /// The file in memory.
    ///
    /// # Errors
    /// [`BuildError::TooLarge`] where the format can't hold the file, and what a deferred
    /// tensor's source fails with.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let len = match self.encoded_len() {
            Err(Error::Build(BuildError::EncodedLen)) => 0,
            len => len?,
        };
        let options = WriteOptions::default();
        write_vec(len, |sink| self.write(sink, &options))
    }

    /// Writes the file to `out`, front to back.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), and what `out` fails with.
    #[cfg(feature = "std")]
    pub fn write_to(&self, out: impl std::io::Write) -> Result<()> {
        self.write_to_with(out, &WriteOptions::default())
    }

    /// Writes the file to `out` with `options`.
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to), or a stop on request.
    #[cfg(feature = "std")]
    pub fn write_to_with(
        &self,
        out: impl std::io::Write,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        self.write(&mut Sink::new(out), options)
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

    /// Writes the file at `path` with `options`.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file), or a stop on request.
    #[cfg(feature = "std")]
    pub fn write_file_with(
        &self,
        path: impl AsRef<std::path::Path>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let sources = self.tensors.iter().map(|tensor| &*tensor.data);
        tensor_core::codec::write_file(path, sources, options, |sink| self.write(sink, options))
    }

    fn write<O: Output>(&self, sink: &mut Sink<O>, options: &WriteOptions<'_>) -> Result<()> {
        // What the format can't hold fails before the first byte.
        self.tensors
            .iter()
            .try_fold(MAGIC.len() as u64, |position, tensor| {
                let end = align(position)?.checked_add(tensor.len);
                end.filter(|&end| end <= MAX_FILE)
                    .ok_or(BuildError::TooLarge)
            })?;
        let ticker = Ticker::new(options.progress);
        let compressor = Compressor::default();
        let mut index = IndexWriter::new(self.tensors.len());
        sink.put(&MAGIC)?;
        let threads = parallel::threads(options.threads);
        let budget = HELD_BYTES.saturating_mul(threads as u64);
        // Tensors that are compressed ahead of their turn; all others are written as they come.
        let ahead: Vec<usize> = self
            .tensors
            .iter()
            .enumerate()
            .filter(|(_, tensor)| threads > 1 && tensor.level.is_some() && tensor.len <= budget / 2)
            .map(|(at, _)| at)
            .collect();
        let compressed_ahead = |nth: usize| ahead.get(nth).and_then(|&at| self.tensors.get(at));
        let mut written = 0;
        let mut write_up_to = |sink: &mut Sink<O>, end: usize, last: Option<Vec<u8>>| {
            let tensors = self.tensors.get(written..end).unwrap_or_default();
            written = end;
            let mut last = last;
            for (left, tensor) in (0..tensors.len()).rev().zip(tensors) {
                let compressed = if left == 0 { last.take() } else { None };
                tensor.write(sink, compressed, &compressor, &ticker, &mut index)?;
            }
            Ok::<(), Error>(())
        };
        parallel::ordered(
            threads,
            ahead.len(),
            budget,
            |nth| compressed_ahead(nth).map_or(0, |tensor| tensor.len),
            |nth| match compressed_ahead(nth) {
                Some(tensor) => tensor.compressed(&compressor, &ticker),
                None => Ok(Vec::new()),
            },
            |nth, compressed| {
                let at = ahead.get(nth).copied().unwrap_or(0);
                write_up_to(sink, at + 1, Some(compressed))
            },
        )?;
        write_up_to(sink, self.tensors.len(), None)?;
        sink.put(&index.bytes)?;
        Ok(sink.put_u64_le(index.bytes.len() as u64)?)
    }
}

impl Builder {
    pub(crate) fn tensors(&self) -> &[Planned] {
        &self.tensors
    }

    /// The index over data that is where these entries have it, and has their checksums.
    pub(crate) fn index_like(&self, entries: Entries<'_, Archive>) -> Vec<u8> {
        let mut index = IndexWriter::new(self.tensors.len());
        for (tensor, entry) in self.tensors.iter().zip(entries) {
            let place = (entry.offset(), entry.record().size);
            let checksum = entry.checksum().map(|checksum| checksum.to_string());
            index.put(tensor, place, Encoding::Raw, checksum);
        }
        index.bytes
    }
}

/// Bytes per thread that may be held compressed, or on their way to it.
const HELD_BYTES: u64 = 16 << 20;

impl Planned {
    /// Writes the data, compressed where that was done already, and adds the entry to `index`.
    fn write<O: Output>(
        &self,
        sink: &mut Sink<O>,
        compressed: Option<Vec<u8>>,
        compressor: &Compressor,
        ticker: &Ticker<'_>,
        index: &mut IndexWriter,
    ) -> Result<()> {
        sink.pad_to(ALIGN, 0)?;
        let offset = sink.position();
        let mut hasher = Hasher::new(self.checksum);
        let mut put = |piece: &[u8]| {
            hasher.update(piece);
            Ok(sink.put(piece)?)
        };
        match (compressed, self.level) {
            (Some(bytes), _) => put(&bytes)?,
            (None, Some(level)) => {
                compressor.compress(&self.name, &self.data, level, ticker, &mut put)?;
            }
            (None, None) => walk::<Error>(&self.data, 0..self.len, ticker, put)
                .map_err(|error| error.of_tensor(&self.name))?,
        }
        index.add(self, offset, sink.position() - offset, hasher);
        Ok(())
    }

    /// The data, compressed.
    fn compressed(&self, compressor: &Compressor, ticker: &Ticker<'_>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let put = |piece: &[u8]| {
            bytes
                .try_reserve(piece.len())
                .map_err(|_| SinkError::OutOfMemory(piece.len() as u64))?;
            bytes.extend_from_slice(piece);
            Ok(())
        };
        let level = self.level.unwrap_or(0);
        compressor.compress(&self.name, &self.data, level, ticker, put)?;
        Ok(bytes)
    }
}

/// The index as it grows, one entry after another.
struct IndexWriter {
    bytes: Vec<u8>,
}

impl IndexWriter {
    fn new(tensors: usize) -> Self {
        let mut bytes = Vec::new();
        cbor::put_array(&mut bytes, tensors);
        Self { bytes }
    }

    fn add(&mut self, tensor: &Planned, offset: u64, size: u64, hasher: Hasher) {
        let encoding = match tensor.level {
            Some(_) => Encoding::Zstd,
            None => Encoding::Raw,
        };
        let copied = tensor.copied.as_deref();
        let checksum = match copied {
            Some(copied) => copied.checksum.clone(),
            None => hasher.finish().map(|checksum| checksum.to_string()),
        };
        self.put(tensor, (offset, size), encoding, checksum);
    }

    fn put(
        &mut self,
        tensor: &Planned,
        (offset, size): (u64, u64),
        encoding: Encoding,
        checksum: Option<String>,
    ) {
        let copied = tensor.copied.as_deref();
        let entry = WrittenEntry {
            name: &tensor.name,
            offset,
            size,
            dtype: copied.map_or(tensor.dtype, |copied| &copied.dtype),
            layout: copied.map_or(Layout::Dense.name(), |copied| &copied.layout),
            dims: tensor.shape.dims(),
            encoding: copied.map_or(encoding.name(), |copied| &copied.encoding),
            endianness: tensor.endianness,
            checksum,
            custom: &tensor.custom,
        };
        entry.write(&mut self.bytes);
    }
}

fn align(position: u64) -> Result<u64, BuildError> {
    position
        .checked_next_multiple_of(ALIGN)
        .ok_or(BuildError::TooLarge)
}

#[cfg(feature = "zstd")]
fn check_level(name: &str, level: i32) -> Result<(), BuildError> {
    let _ = name;
    let levels = zstd::zstd_safe::min_c_level()..=zstd::zstd_safe::max_c_level();
    if levels.contains(&level) {
        Ok(())
    } else {
        Err(BuildError::ZstdLevel { level })
    }
}

#[cfg(not(feature = "zstd"))]
fn check_level(name: &str, _: i32) -> Result<(), BuildError> {
    Err(BuildError::ZstdDisabled { name: name.into() })
}

/// `check_level` lets no tensor in that this would have to compress.
#[cfg(not(feature = "zstd"))]
#[derive(Default)]
struct Compressor {}

#[cfg(not(feature = "zstd"))]
impl Compressor {
    fn compress(
        &self,
        name: &str,
        _: &dyn Source,
        _: i32,
        _: &Ticker<'_>,
        _: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        Err(BuildError::ZstdDisabled { name: name.into() }.into())
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("defaults", &self.defaults)
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}
