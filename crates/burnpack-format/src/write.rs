use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use tensor_core::codec::{NameTable, Output, Sink, Ticker, Unchanged, write_vec};
use tensor_core::{Order, Shape, ShapeError, Source, Tensor, TensorSpec, WriteOptions};

use crate::cbor::{
    Major, put_bool, put_float, put_head, put_null, put_signed, put_text, put_unsigned,
};
use crate::dtype::BoolStore;
use crate::layout::{ALIGN, Header};
use crate::limits::WriteLimits;
use crate::meta::Scalar;
use crate::quant::{BlockSize, QuantGeneration, QuantMode, QuantParam, QuantScheme, QuantStore};
use crate::{Archive, BuildError, DTypeCode, Entry, Generation, Result};

mod options;

pub use options::{Compat, TensorOptions};

/// Collects tensors, metadata and scalars, then writes a file at once, byte for byte as Burn's own
/// writer does.
///
/// The data keeps the order of the calls, the file's index is sorted by name, and the same calls
/// give the same bytes. A tensor shares its bytes with the builder; a deferred one is pulled in
/// windows while it is written.
///
/// ```
/// use burnpack_format::{Archive, Builder, Bytes, DType, Shape, TensorOptions, TensorSpec};
///
/// let mut builder = Builder::new();
/// let source = Bytes::from_static(&[1, 0, 0, 0, 2, 0, 0, 0]);
/// let spec = TensorSpec::new(DType::I32, Shape::new(&[2])?);
/// builder.deferred_with("steps", spec, source, TensorOptions::new().with_param_id(u64::MAX))?;
/// builder.scalar("epoch", 3u64)?;
/// assert_eq!(builder.encoded_len()?, 264);
///
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let steps = archive.entry("steps").ok_or("no such tensor")?;
/// assert_eq!(steps.param_id(), Some(u64::MAX));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To a file, to any writer, and a copy that names tensors anew:
///
/// ```
/// use burnpack_format::{Archive, Builder, Bytes, DType, Shape, Tensor, TensorSpec, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.bpk");
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
    compat: Compat,
    limits: WriteLimits,
    tensors: Vec<Planned>,
    names: NameTable,
    metadata: Vec<(String, String)>,
    metadata_names: NameTable,
    scalars: Vec<(String, Scalar)>,
    scalar_names: NameTable,
}

#[derive(Clone)]
pub(crate) struct Planned {
    name: String,
    pub(crate) code: DTypeCode,
    pub(crate) shape: Shape,
    /// The CBOR item of a dtype that is copied without being known.
    spelling: Option<Box<[u8]>>,
    param_id: Option<u64>,
    pub(crate) len: u64,
    data: Arc<dyn Source>,
}

impl Builder {
    /// A builder of a file with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder of a file like `archive`, still without tensors: with its metadata and scalars, for the releases of Burn
    /// that read it.
    ///
    /// ```
    /// use burnpack_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.metadata("producer", "me")?;
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
    /// [`BuildError::UnknownScalar`] where it has a scalar of an unknown kind.
    pub fn like(archive: &Archive) -> Result<Self> {
        let mut builder = Self::new();
        builder.compat(match archive.generation() {
            Generation::V0_20 => Compat::V0_20,
            Generation::V0_21 => Compat::V0_21,
            Generation::V0_19 | Generation::Current => Compat::Current,
            // Nothing in it tells releases apart: as it is spelled, all of them read it.
            Generation::Unknown => Compat::AsSpelled,
        });
        for pair in archive.metadata() {
            builder.metadata(pair.key(), pair.value())?;
        }
        for scalar in archive.scalars() {
            builder.scalar(scalar.name(), scalar.value().clone())?;
        }
        Ok(builder)
    }

    /// Which releases shall read the file; [`Compat::Current`] unless set. What they can't hold is
    /// refused when the file is written, or its length is asked for.
    ///
    /// ```
    /// use burnpack_format::{Builder, Compat};
    ///
    /// let mut builder = Builder::new();
    /// builder.scalar("step", 7u64)?;
    /// assert!(builder.to_vec().is_ok());
    /// builder.compat(Compat::V0_20); // which has no scalars
    /// assert!(builder.to_vec().is_err());
    /// # Ok::<(), burnpack_format::Error>(())
    /// ```
    pub fn compat(&mut self, compat: Compat) -> &mut Self {
        self.compat = compat;
        self
    }

    /// How large a file may get; what Burn reads unless set.
    ///
    /// ```
    /// use burnpack_format::{Builder, WriteLimits};
    ///
    /// let mut limits = WriteLimits::default();
    /// limits.max_file_bytes = 500 << 30;
    /// let mut builder = Builder::new();
    /// builder.limits(limits);
    /// ```
    pub fn limits(&mut self, limits: WriteLimits) -> &mut Self {
        self.limits = limits;
        self
    }

    /// Adds a pair of metadata.
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

    /// Adds a scalar.
    ///
    /// # Errors
    /// [`BuildError::Duplicate`] where the name is taken, [`BuildError::UnknownScalar`] where the
    /// kind is unknown.
    pub fn scalar(
        &mut self,
        name: impl Into<String>,
        value: impl Into<Scalar>,
    ) -> Result<&mut Self> {
        let (name, value) = (name.into(), value.into());
        if let Scalar::Unknown(kind) = value {
            let kind = kind.into();
            return Err(BuildError::UnknownScalar { name, kind }.into());
        }
        self.scalar_names
            .push(&mut self.scalars, |(name, _)| name, (name, value))
            .map_err(|(name, _)| BuildError::Duplicate { name })?;
        Ok(self)
    }

    /// Adds a tensor; its bytes are shared, not copied.
    ///
    /// # Errors
    /// [`BuildError`] where the format can't hold the dtype or order, or the name is taken.
    pub fn tensor(&mut self, name: impl Into<String>, tensor: Tensor) -> Result<&mut Self> {
        self.tensor_with(name, tensor, TensorOptions::new())
    }

    /// Adds a tensor with `options` of its own.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
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

    /// Adds a row-major tensor with a dtype that only this format has: `Flex32`, a bool held in
    /// another way, or a quantized tensor, whose bytes may have any length.
    ///
    /// ```
    /// use burnpack_format::{BoolStore, Builder, Bytes, DTypeCode, Shape};
    ///
    /// let mut builder = Builder::new();
    /// let data = Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0]);
    /// builder.coded("mask", DTypeCode::Bool(BoolStore::U32), Shape::new(&[2])?, data)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError`] where the name is taken, the dtype is unknown, or `data` has another length
    /// than dtype and shape ask for. Tensors of an unknown dtype can be [copied](Self::copy).
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
    /// use burnpack_format::{Archive, Builder, Bytes, DTypeCode, Shape, TensorOptions};
    ///
    /// let mut builder = Builder::new();
    /// let data = Bytes::from_static(&[0; 8]);
    /// let options = TensorOptions::new().with_param_id(7);
    /// builder.coded_with("w", DTypeCode::Flex32, Shape::new(&[2])?, data, options)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let entry = archive.entry("w").ok_or("no w")?;
    /// assert_eq!((entry.dtype_code(), entry.param_id()), (&DTypeCode::Flex32, Some(7)));
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
            // What it says is a description, which need not be how a file spells it.
            let code = code.into();
            return Err(BuildError::UnknownDType { name, code }.into());
        }
        self.add(name, code, shape, data, options, None)
    }

    fn add(
        &mut self,
        name: String,
        code: DTypeCode,
        shape: Shape,
        data: impl Source + 'static,
        options: TensorOptions,
        spelling: Option<Box<[u8]>>,
    ) -> Result<&mut Self> {
        // Its length is asked once, and stays the one that is planned with.
        let data = Unchanged::shared(&name, data);
        let len = data.size();
        if let Some(size) = code.element_size() {
            let error = match shape.elements().checked_mul(size) {
                Some(expected) if expected == len => None,
                Some(expected) => Some(ShapeError::DataLength { expected, got: len }),
                None => Some(ShapeError::ByteOverflow),
            };
            if let Some(error) = error {
                return Err(BuildError::Shape { name, error }.into());
            }
        }
        let tensor = Planned {
            name,
            code,
            shape,
            spelling,
            param_id: options.param_id,
            len,
            data,
        };
        self.names
            .push(&mut self.tensors, |tensor| &tensor.name, tensor)
            .map_err(|tensor| BuildError::Duplicate { name: tensor.name })?;
        Ok(self)
    }

    /// Adds a tensor of an archive unchanged: with its dtype, known or not, its parameter id and
    /// the bytes that it has. Its data is pulled when the file is written. With [`Compat::AsSpelled`] the
    /// dtype keeps its spelling, too.
    ///
    /// ```
    /// # use burnpack_format::{Archive, Builder, Tensor};
    /// # let mut old = Builder::new();
    /// # old.tensor("w", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # let archive = Archive::from_bytes(old.to_vec()?)?;
    /// // Repacks a file, say a packed one of Burn 0.19, into a current one.
    /// let mut builder = Builder::new();
    /// for entry in archive.entries() {
    ///     builder.copy(&archive, entry)?;
    /// }
    /// for meta in archive.metadata() {
    ///     builder.metadata(meta.key(), meta.value())?;
    /// }
    /// for scalar in archive.scalars() {
    ///     builder.scalar(scalar.name(), scalar.value().clone())?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Duplicate`] where the name is taken, and as [`Archive::stored`].
    pub fn copy(&mut self, archive: &Archive, entry: Entry<'_>) -> Result<&mut Self> {
        self.copy_as(entry.name(), archive, entry)
    }

    /// Like [`copy`](Self::copy), under another name.
    ///
    /// # Errors
    /// [`BuildError::Duplicate`] where the name is taken, and as [`Archive::stored`].
    pub fn copy_as(
        &mut self,
        name: impl Into<String>,
        archive: &Archive,
        entry: Entry<'_>,
    ) -> Result<&mut Self> {
        let data = archive.stored(entry)?;
        let (code, shape) = (entry.dtype_code().clone(), entry.shape().clone());
        let options = TensorOptions {
            param_id: entry.param_id(),
        };
        let spelling = entry.spelling().map(Box::from);
        self.add(name.into(), code, shape, data, options, spelling)
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// [`BuildError::Compat`], [`BuildError::Limit`] or [`BuildError::TooLarge`] where the file
    /// can't be written.
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
        let sources = self.tensors.iter().map(|tensor| &*tensor.data);
        tensor_core::codec::write_file(path, sources, options, |sink| {
            self.write(&plan, sink, options)
        })
    }

    fn write<O: Output>(
        &self,
        plan: &Plan,
        sink: &mut Sink<O>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let header = Header {
            metadata_size: plan.metadata_size,
        };
        header.write(sink)?;
        sink.put(&plan.metadata)?;
        sink.pad_to(ALIGN, 0)?;
        let ticker = Ticker::new(options.progress);
        for tensor in &self.tensors {
            sink.pad_to(ALIGN, 0)?;
            let copied = sink.copy_from(&tensor.data, &ticker);
            copied.map_err(|error| error.of_tensor(&tensor.name))?;
        }
        Ok(())
    }

    pub(crate) fn tensors(&self) -> &[Planned] {
        &self.tensors
    }

    fn plan(&self) -> Result<Plan> {
        let limits = &self.limits;
        let at_most = |limit, value: u64, max: u64| {
            if value > max {
                return Err(BuildError::Limit { limit, value, max });
            }
            Ok(())
        };
        let count = self.tensors.len() as u64;
        at_most("max_tensor_count", count, limits.max_tensor_count)?;
        let mut offsets = Vec::with_capacity(self.tensors.len());
        let mut end = 0u64;
        for tensor in &self.tensors {
            at_most("max_tensor_bytes", tensor.len, limits.max_tensor_bytes)?;
            let start = end.checked_next_multiple_of(ALIGN);
            let start = start.ok_or(BuildError::TooLarge)?;
            end = start.checked_add(tensor.len).ok_or(BuildError::TooLarge)?;
            offsets.push((start, end));
        }
        let metadata = self.encode_metadata(&offsets)?;
        let metadata_len = metadata.len() as u64;
        at_most(
            "max_metadata_bytes",
            metadata_len,
            limits.max_metadata_bytes,
        )?;
        let metadata_size = u32::try_from(metadata_len).map_err(|_| BuildError::TooLarge)?;
        let file_len = (Header::SIZE + metadata_len)
            .next_multiple_of(ALIGN)
            .checked_add(end)
            .ok_or(BuildError::TooLarge)?;
        at_most("max_file_bytes", file_len, limits.max_file_bytes)?;
        Ok(Plan {
            metadata,
            metadata_size,
            file_len,
        })
    }

    /// "Metadata": keys in the order that Burn's structs have, maps sorted by the bytes of the
    /// key, everything in its shortest form, empty maps left out.
    pub(crate) fn encode_metadata(&self, offsets: &[(u64, u64)]) -> Result<Vec<u8>, BuildError> {
        let mut out = Vec::new();
        let maps = 1 + [self.metadata.is_empty(), self.scalars.is_empty()]
            .iter()
            .filter(|empty| !**empty)
            .count();
        put_head(&mut out, Major::Map, maps as u64);
        put_text(&mut out, "tensors");
        put_head(&mut out, Major::Map, self.tensors.len() as u64);
        let mut sorted: Vec<_> = self.tensors.iter().zip(offsets).collect();
        sorted.sort_unstable_by_key(|(tensor, _)| tensor.name.as_str());
        for (tensor, &(start, end)) in sorted {
            put_text(&mut out, &tensor.name);
            self.encode_descriptor(&mut out, tensor, start, end)?;
        }
        if !self.metadata.is_empty() {
            put_text(&mut out, "metadata");
            put_head(&mut out, Major::Map, self.metadata.len() as u64);
            let mut sorted: Vec<_> = self.metadata.iter().collect();
            sorted.sort_unstable();
            for (key, value) in sorted {
                put_text(&mut out, key);
                put_text(&mut out, value);
            }
        }
        if let Some((name, _)) = self.scalars.first() {
            if matches!(self.compat, Compat::V0_20 | Compat::V0_21) {
                return Err(self.cannot(name, "scalars"));
            }
            put_text(&mut out, "scalars");
            put_head(&mut out, Major::Map, self.scalars.len() as u64);
            let mut sorted: Vec<_> = self.scalars.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| name.as_str());
            for (name, scalar) in sorted {
                put_text(&mut out, name);
                put_head(&mut out, Major::Map, 1);
                put_text(&mut out, scalar.kind());
                match *scalar {
                    Scalar::Int(value) => put_signed(&mut out, value),
                    Scalar::UInt(value) => put_unsigned(&mut out, value),
                    Scalar::Float(value) => put_float(&mut out, value),
                    Scalar::Bool(value) => put_bool(&mut out, value),
                    Scalar::Unknown(_) => put_null(&mut out), // refused when added
                }
            }
        }
        Ok(out)
    }

    fn encode_descriptor(
        &self,
        out: &mut Vec<u8>,
        tensor: &Planned,
        start: u64,
        end: u64,
    ) -> Result<(), BuildError> {
        let keys = if tensor.param_id.is_some() { 4 } else { 3 };
        put_head(out, Major::Map, keys);
        put_text(out, "dtype");
        match &tensor.code {
            code @ DTypeCode::Unknown(_) => match &tensor.spelling {
                Some(item) => out.extend_from_slice(item),
                None => put_text(out, code.name()),
            },
            DTypeCode::Bool(store) => self.encode_bool(out, tensor, *store)?,
            DTypeCode::QFloat(scheme) => {
                put_head(out, Major::Map, 1);
                put_text(out, "QFloat");
                self.encode_scheme(out, tensor, scheme)?;
            }
            code => put_text(out, code.name()),
        }
        put_text(out, "shape");
        put_head(out, Major::Array, tensor.shape.rank() as u64);
        for &dim in tensor.shape.dims() {
            put_unsigned(out, dim);
        }
        put_text(out, "data_offsets");
        put_head(out, Major::Array, 2);
        put_unsigned(out, start);
        put_unsigned(out, end);
        if let Some(id) = tensor.param_id {
            put_text(out, "param_id");
            put_unsigned(out, id);
        }
        Ok(())
    }

    fn encode_bool(
        &self,
        out: &mut Vec<u8>,
        tensor: &Planned,
        store: BoolStore,
    ) -> Result<(), BuildError> {
        let name = match (store, self.compat) {
            (BoolStore::Legacy, Compat::AsSpelled)
            | (BoolStore::Legacy | BoolStore::Native, Compat::V0_20) => {
                put_text(out, "Bool");
                return Ok(());
            }
            (BoolStore::U8 | BoolStore::U32, Compat::V0_20) => {
                return Err(self.cannot(&tensor.name, "bools held as integers"));
            }
            (BoolStore::Legacy | BoolStore::Native, _) => "Native",
            (BoolStore::U8, _) => "U8",
            (BoolStore::U32, _) => "U32",
        };
        put_head(out, Major::Map, 1);
        put_text(out, "Bool");
        put_text(out, name);
        Ok(())
    }

    /// "Quantization", in the spelling of the generation.
    fn encode_scheme(
        &self,
        out: &mut Vec<u8>,
        tensor: &Planned,
        scheme: &QuantScheme,
    ) -> Result<(), BuildError> {
        put_head(out, Major::Map, 5);
        put_text(out, "value");
        put_text(out, scheme.value.name());
        let new = match self.compat {
            Compat::V0_20 | Compat::V0_21 => false,
            Compat::Current => true,
            Compat::AsSpelled => scheme.generation == QuantGeneration::New,
        };
        if new {
            put_text(out, "store");
            put_store(out, scheme.store);
            put_text(out, "mode");
            put_text(out, scheme.mode.name());
            put_text(out, "tensor");
            match scheme.tensor {
                Some(param) => put_text(out, param.name()),
                None => put_null(out),
            }
            put_text(out, "block");
            match &scheme.block {
                Some(block) => {
                    put_head(out, Major::Map, 2);
                    put_text(out, "size");
                    put_block_size(out, block.size);
                    put_text(out, "dtype");
                    put_text(out, block.dtype.name());
                }
                None => put_null(out),
            }
            return Ok(());
        }
        if scheme.mode == QuantMode::Lookup && self.compat != Compat::AsSpelled {
            return Err(self.cannot(&tensor.name, "quantization by a table"));
        }
        let (param, block) = match (scheme.tensor, &scheme.block) {
            (Some(_), Some(_)) => {
                return Err(self.cannot(&tensor.name, "two levels of quantization scales"));
            }
            (Some(param), None) => (param, None),
            (None, Some(block)) => (block.dtype, Some(block.size)),
            (None, None) => (QuantParam::F32, None),
        };
        put_text(out, "param");
        put_text(out, param.name());
        put_text(out, "store");
        put_store(out, scheme.store);
        put_text(out, "level");
        match block {
            Some(size) => {
                put_head(out, Major::Map, 1);
                put_text(out, "Block");
                put_block_size(out, size);
            }
            None => put_text(out, "Tensor"),
        }
        put_text(out, "mode");
        put_text(out, scheme.mode.name());
        Ok(())
    }

    fn cannot(&self, name: &str, what: &'static str) -> BuildError {
        BuildError::Compat {
            name: name.to_string(),
            compat: self.compat,
            what,
        }
    }
}

struct Plan {
    metadata: Vec<u8>,
    metadata_size: u32,
    file_len: u64,
}

fn put_store(out: &mut Vec<u8>, store: QuantStore) {
    let (name, dim) = match store {
        QuantStore::Native => return put_text(out, "Native"),
        QuantStore::PackedNative(dim) => ("PackedNative", dim),
        QuantStore::PackedU32(dim) => ("PackedU32", dim),
    };
    put_head(out, Major::Map, 1);
    put_text(out, name);
    put_unsigned(out, dim);
}

fn put_block_size(out: &mut Vec<u8>, size: BlockSize) {
    let (storage, len) = size.storage();
    put_head(out, Major::Map, 2);
    put_text(out, "storage");
    put_head(out, Major::Array, storage.len() as u64);
    for &dim in storage {
        put_unsigned(out, dim.into());
    }
    put_text(out, "len");
    put_unsigned(out, len.into());
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("compat", &self.compat)
            .field("metadata", &self.metadata.len())
            .field("scalars", &self.scalars.len())
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}
