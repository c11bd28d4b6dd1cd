use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use tensor_core::codec::{NameTable, Output, Sink, Ticker, Unchanged, write_vec};
use tensor_core::{DType, Order, Shape, Source, Tensor, TensorSpec, Value, WriteOptions};

mod edit;
#[cfg(feature = "std")]
mod join;
mod joined;
mod like;
mod options;
mod place;
mod records;
#[cfg(feature = "std")]
mod set;

#[cfg(feature = "std")]
pub use join::{IndexStyle, JoinedPart};
use joined::Joined;
pub use options::TensorOptions;
use place::FileLayout;
use records::to_json;

#[cfg(feature = "std")]
use crate::integrity::PageHashes;
use crate::integrity::ShardHashes;
use crate::limits::Limits;
use crate::pass::{ShardHasher, put_and_hash};
use crate::{BuildError, DTypeCode, Result};

/// "Limits" and what the reference readers take: the largest dim, offset and length.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Collects tensors and metadata, then writes a file, or a set of files, at once.
///
/// Tensors keep the order of the calls, and fill one shard after the other. The same calls give
/// the same bytes: the uuid comes from the content unless it is given. Every chunk has its hash,
/// which comes before the data: a file is hashed while it is written and its index then put in
/// place, but for a stream or a vector the data is read twice.
///
/// ```
/// use aero_format::{Archive, Builder, Tensor};
///
/// let mut builder = Builder::new();
/// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
/// builder.tensor_hashes(true).ihsh(true);
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// assert!(archive.entry("w").ok_or("no w")?.hash_b3().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To a file, to any writer, and a copy that names tensors anew:
///
/// ```
/// use aero_format::{Archive, Builder, Bytes, DType, Shape, Tensor, TensorSpec, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.aero");
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
///
/// What else a file can have:
///
/// ```
/// use aero_format::{Archive, Builder, Tensor};
///
/// let mut builder = Builder::new();
/// builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// builder.model("tiny", "llama"); // or each alone:
/// builder.model_name("tiny").architecture("llama");
/// builder.max_shard_bytes(1 << 30).max_part_shards(1); // a set with a part for each shard
/// builder.page_align(true).phsh(Some(65536))?; // hashes of pages
/// builder.zstd_level(None)?; // nothing is compressed
/// builder.uuid([7; 16]);
/// assert!(builder.align(1).is_ok() && builder.align(3).is_err()); // packed; no power of two
///
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// assert_eq!(archive.entry("w").ok_or("no w")?.offset() % 4096, 0);
/// assert_eq!((archive.page_size()?, archive.uuid()), (Some(65536), &[7; 16]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Builder {
    tensors: Vec<Planned>,
    names: NameTable,
    metadata: Vec<(String, Value)>,
    metadata_names: NameTable,
    options: Options,
    /// Which tensors begin a part of a set, where that is asked for; the first one does.
    part_starts: Option<Vec<usize>>,
}

#[derive(Clone, Debug)]
struct Options {
    model_name: Option<String>,
    architecture: Option<String>,
    max_shard_bytes: u64,
    max_part_shards: u32,
    align: u64,
    page_align: bool,
    level: Option<i32>,
    tensor_hashes: bool,
    ihsh: bool,
    phsh: Option<u64>,
    uuid: Option<[u8; 16]>,
}

impl Options {
    /// What stands where the format must have a name.
    fn name(&self) -> &str {
        self.model_name.as_deref().unwrap_or(UNKNOWN)
    }

    fn architecture(&self) -> &str {
        self.architecture.as_deref().unwrap_or(UNKNOWN)
    }
}

/// The name and architecture of a model that has none.
const UNKNOWN: &str = "unknown";

#[derive(Clone)]
struct Planned {
    name: String,
    code: DTypeCode,
    shape: Shape,
    flags: u64,
    quant_id: Option<i64>,
    extra: Vec<(String, Value)>,
    data: Arc<dyn Source>,
}

/// Where a tensor goes: its number, and its offset within the shard.
struct Placed {
    tensor: usize,
    offset: u64,
}

struct Shard {
    tensors: Vec<Placed>,
    len: u64,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            tensors: Vec::new(),
            names: NameTable::default(),
            metadata: Vec::new(),
            metadata_names: NameTable::default(),
            part_starts: None,
            options: Options {
                model_name: None,
                architecture: None,
                max_shard_bytes: 2 << 30,
                max_part_shards: 4,
                align: 64,
                page_align: false,
                level: cfg!(feature = "zstd").then_some(6),
                tensor_hashes: false,
                ihsh: false,
                phsh: None,
                uuid: None,
            },
        }
    }
}

impl Builder {
    /// A builder of a file with no tensor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The model's name and architecture.
    pub fn model(&mut self, name: impl Into<String>, architecture: impl Into<String>) -> &mut Self {
        self.model_name(name).architecture(architecture)
    }

    /// The model's name. Unless set, it is `unknown` where the format must have one, and left out of
    /// the metadata.
    pub fn model_name(&mut self, name: impl Into<String>) -> &mut Self {
        self.options.model_name = Some(name.into());
        self
    }

    /// The model's architecture, as [`model_name`](Self::model_name).
    pub fn architecture(&mut self, architecture: impl Into<String>) -> &mut Self {
        self.options.architecture = Some(architecture.into());
        self
    }

    /// How many bytes fill a shard; a larger tensor has one of its own. 2 GiB unless set.
    pub fn max_shard_bytes(&mut self, bytes: u64) -> &mut Self {
        self.options.max_shard_bytes = bytes.max(1);
        self
    }

    /// How many shards a part of a set has. 4 unless set.
    pub fn max_part_shards(&mut self, shards: u32) -> &mut Self {
        self.options.max_part_shards = shards.max(1);
        self
    }

    /// The alignment of tensors within a shard: 64 unless set, 1 to pack them as the reference
    /// does.
    ///
    /// # Errors
    /// [`BuildError::Option`] where it is no power of two, or above 1 MiB.
    pub fn align(&mut self, align: u64) -> Result<&mut Self> {
        if !align.is_power_of_two() || align > 1 << 20 {
            return Err(BuildError::Option {
                option: "align",
                value: align.into(),
            }
            .into());
        }
        self.options.align = align;
        Ok(self)
    }

    /// Whether shards start on a page of 4096 bytes. Off unless set.
    pub fn page_align(&mut self, page_align: bool) -> &mut Self {
        self.options.page_align = page_align;
        self
    }

    /// The level of zstd for manifest and tensor index, `None` for no compression. 6 unless set,
    /// where the build has zstd.
    ///
    /// # Errors
    /// [`BuildError::Option`] for a level that zstd does not have, or any without zstd.
    pub fn zstd_level(&mut self, level: Option<i32>) -> Result<&mut Self> {
        if level.is_some_and(|level| !cfg!(feature = "zstd") || !(-7..=22).contains(&level)) {
            let value = level.unwrap_or(0).into();
            return Err(BuildError::Option {
                option: "zstd_level",
                value,
            }
            .into());
        }
        self.options.level = level;
        Ok(self)
    }

    /// Whether the index has a BLAKE3 hash of every tensor. Off unless set.
    pub fn tensor_hashes(&mut self, tensor_hashes: bool) -> &mut Self {
        self.options.tensor_hashes = tensor_hashes;
        self
    }

    /// Whether header, TOC and string table are covered by an IHSH chunk. Off unless set.
    pub fn ihsh(&mut self, ihsh: bool) -> &mut Self {
        self.options.ihsh = ihsh;
        self
    }

    /// The page size of PHSH chunks, one for each shard; `None`, as unless set, for none.
    ///
    /// # Errors
    /// [`BuildError::Option`] for pages of 0 bytes.
    pub fn phsh(&mut self, page_size: Option<u64>) -> Result<&mut Self> {
        if page_size == Some(0) {
            return Err(BuildError::Option {
                option: "phsh",
                value: 0,
            }
            .into());
        }
        self.options.phsh = page_size;
        Ok(self)
    }

    /// The file's identity; made from its content unless set.
    pub fn uuid(&mut self, uuid: [u8; 16]) -> &mut Self {
        self.options.uuid = Some(uuid);
        self
    }

    /// Adds a pair of JSON metadata.
    ///
    /// # Errors
    /// [`BuildError::Duplicate`], [`BuildError::Value`] for what JSON can't hold: bytes, NaN,
    /// infinities, integers beyond 64 bits and maps with keys that are no text.
    pub fn metadata(
        &mut self,
        key: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<&mut Self> {
        let (key, value) = (key.into(), value.into());
        if to_json(&value).is_none() {
            return Err(BuildError::Value { key }.into());
        }
        self.metadata_names
            .push(&mut self.metadata, |(key, _)| key, (key, value))
            .map_err(|(key, _)| BuildError::Duplicate { name: key })?;
        Ok(self)
    }

    /// Adds a tensor; its bytes are shared, not copied. One of [`DType::Opaque`] is packed data
    /// of any length.
    ///
    /// # Errors
    /// [`BuildError`] where the format can't hold the name, dtype, shape or order.
    pub fn tensor(&mut self, name: impl Into<String>, tensor: Tensor) -> Result<&mut Self> {
        self.tensor_with(name, tensor, TensorOptions::new())
    }

    /// Adds a tensor with `options` of its own.
    ///
    /// See [`TensorOptions`].
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
    ///
    /// ```
    /// use aero_format::{Builder, Bytes, DType, Shape, TensorOptions, TensorSpec};
    ///
    /// let mut builder = Builder::new();
    /// let spec = TensorSpec::new(DType::F32, Shape::new(&[2])?);
    /// let options = TensorOptions::new().with_flags(1);
    /// builder.deferred_with("w", spec, Bytes::from_static(&[0; 8]), options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deferred_with(
        &mut self,
        name: impl Into<String>,
        spec: TensorSpec,
        data: impl Source + 'static,
        options: TensorOptions,
    ) -> Result<&mut Self> {
        let (name, dtype, shape) = (name.into(), spec.dtype(), spec.shape());
        let limits = Limits::default();
        if name.len() as u64 > limits.max_name_bytes {
            return Err(BuildError::Name {
                name: name.chars().take(60).collect(),
            }
            .into());
        }
        // Its length is asked once, and stays the one that is planned with.
        let data = Unchanged::shared(&name, data);
        let Some(code) = DTypeCode::from_dtype(dtype) else {
            return Err(BuildError::DType { name, dtype }.into());
        };
        if shape.rank() as u64 > limits.max_tensor_dim_count {
            return Err(BuildError::Rank {
                name,
                rank: shape.rank(),
            }
            .into());
        }
        if let Some(&dim) = shape.dims().iter().find(|&&dim| dim > MAX_SIZE) {
            return Err(BuildError::Dim { name, dim }.into());
        }
        if !spec.is_in(Order::RowMajor) {
            return Err(BuildError::Order { name }.into());
        }
        if let Err(error) = spec.check_len(data.size()) {
            return Err(BuildError::Shape { name, error }.into());
        }
        self.push(name, code, spec.into_shape(), data, options)
    }

    /// Adds a tensor of an archive unchanged: its dtype, known or not, its stored bytes, flags and all
    /// that the index says about it.
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Tensor};
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
    pub fn copy(&mut self, archive: &crate::Archive, entry: crate::Entry<'_>) -> Result<&mut Self> {
        self.copy_as(entry.name(), archive, entry)
    }

    /// Like [`copy`](Self::copy), under another name.
    ///
    /// # Errors
    /// [`BuildError::Duplicate`], and as [`Archive::stored`](crate::Archive::stored).
    pub fn copy_as(
        &mut self,
        name: impl Into<String>,
        archive: &crate::Archive,
        entry: crate::Entry<'_>,
    ) -> Result<&mut Self> {
        let data = archive.stored(entry)?;
        let mut options = TensorOptions::new().with_flags(entry.flags());
        options.quant_id = entry.quant_id();
        for (key, value) in archive.extra(entry) {
            options.set_extra(key, value)?;
        }
        self.coded_with(
            name,
            entry.dtype_code(),
            entry.shape().clone(),
            data,
            options,
        )
    }

    /// Adds a tensor by the code of its dtype, which may be one that has no meaning here: its bytes may then
    /// have any length.
    ///
    /// ```
    /// use aero_format::{Builder, Bytes, DTypeCode, Shape};
    ///
    /// let mut builder = Builder::new();
    /// let packed = Bytes::from_static(&[1, 2, 3]);
    /// builder.coded("w", DTypeCode(900), Shape::new(&[6])?, packed)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`deferred`](Self::deferred).
    pub fn coded(
        &mut self,
        name: impl Into<String>,
        code: DTypeCode,
        shape: Shape,
        data: impl Source + 'static,
    ) -> Result<&mut Self> {
        self.coded_with(name, code, shape, data, TensorOptions::new())
    }

    /// Adds a tensor by the code of its dtype, with `options` of its own.
    ///
    /// # Errors
    /// As [`deferred`](Self::deferred).
    ///
    /// ```
    /// use aero_format::{Builder, Bytes, DTypeCode, Shape, TensorOptions};
    ///
    /// let mut builder = Builder::new();
    /// let options = TensorOptions::new().with_quant_id(3); // in the JSON metadata
    /// let data = Bytes::from_static(&[0; 16]);
    /// builder.coded_with("w", DTypeCode::PACKED, Shape::new(&[32])?, data, options)?;
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
        match code.dtype() {
            Some(dtype) if dtype != DType::Opaque => {
                self.deferred_with(name, TensorSpec::new(dtype, shape), data, options)
            }
            _ => {
                let name = name.into();
                let data = Unchanged::shared(&name, data);
                self.push(name, code, shape, data, options)
            }
        }
    }

    fn push(
        &mut self,
        name: String,
        code: DTypeCode,
        shape: Shape,
        data: Arc<dyn Source>,
        options: TensorOptions,
    ) -> Result<&mut Self> {
        let tensor = Planned {
            name,
            code,
            shape,
            flags: options.flags,
            quant_id: options.quant_id,
            extra: options.extra,
            data,
        };
        self.names
            .push(&mut self.tensors, |tensor| &tensor.name, tensor)
            .map_err(|tensor| BuildError::Duplicate { name: tensor.name })?;
        Ok(self)
    }

    /// Size of the file in bytes. Reads all data where the index has tensor hashes.
    ///
    /// # Errors
    /// [`BuildError::TooLarge`], and what a deferred tensor's source fails with.
    pub fn encoded_len(&self) -> Result<u64> {
        Ok(self.layout(&self.shards(), &WriteOptions::default())?.len)
    }

    /// The file in memory.
    ///
    /// # Errors
    /// [`BuildError::TooLarge`], and what a deferred tensor's source fails with.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let options = WriteOptions::default();
        let layout = self.layout(&self.shards(), &options)?;
        write_vec(layout.len, |sink| self.write(&layout, sink, &options))
    }

    /// Writes the file to `out`, front to back.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), and what `out` fails with.
    #[cfg(feature = "std")]
    pub fn write_to(&self, out: impl std::io::Write) -> Result<()> {
        self.write_to_with(out, &WriteOptions::default())
    }

    /// Writes the file to `out`, with `options`.
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to), or a stop on request.
    #[cfg(feature = "std")]
    pub fn write_to_with(
        &self,
        out: impl std::io::Write,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let layout = self.layout(&self.shards(), options)?;
        self.write(&layout, &mut Sink::new(out), options)
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

    /// Writes the file at `path`, with `options`.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file), or a stop on request.
    #[cfg(feature = "std")]
    pub fn write_file_with(
        &self,
        path: impl AsRef<std::path::Path>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let shards = self.shards();
        // With tensor hashes in a compressed index its size is known only when they are.
        let fixed = self.options.level.is_none() || !self.options.tensor_hashes;
        // What the format can't hold fails before the file is created.
        let draft = match fixed {
            true => Some(self.layout_with(&shards, true, self.blank(&shards))?),
            false => None,
        };
        tensor_core::codec::write_file(path, self.sources(), options, |sink| {
            let Some(draft) = draft.filter(|_| sink.get_mut().can_rewrite()) else {
                return self.write(&self.layout(&shards, options)?, sink, options);
            };
            let layout = self.write_draft(&shards, draft, sink, options)?;
            let end = layout.header.string_table_offset + layout.header.string_table_length;
            let file = sink.get_mut();
            file.rewrite(0, &layout.control(end)?)?;
            for (chunk, payload) in &layout.chunks {
                if let Payload::Bytes(bytes) = payload {
                    file.rewrite(chunk.offset, bytes)?;
                }
            }
            Ok(())
        })
    }

    /// Hashes of zeros, for a layout that has its final size.
    #[cfg(feature = "std")]
    fn blank(&self, shards: &[Shard]) -> Vec<ShardHashes> {
        let blank = |shard: &Shard| ShardHashes {
            whole: [0; 32],
            pages: self.options.phsh.map(|page_size| {
                let pages = shard.len.div_ceil(page_size);
                PageHashes {
                    page_size,
                    digests: alloc::vec![[0; 32]; usize::try_from(pages).unwrap_or(0)],
                }
            }),
            tensors: self
                .options
                .tensor_hashes
                .then(|| alloc::vec![[0; 32]; shard.tensors.len()]),
        };
        shards.iter().map(blank).collect()
    }

    /// Writes the data of a file, all else as zeros, in one pass; returns the layout with the
    /// hashes that were found on the way.
    #[cfg(feature = "std")]
    fn write_draft<O: Output>(
        &self,
        shards: &[Shard],
        draft: FileLayout,
        sink: &mut Sink<O>,
        options: &WriteOptions<'_>,
    ) -> Result<FileLayout> {
        let ticker = Ticker::new(options.progress);
        let mut hashed = Vec::new();
        for (chunk, payload) in &draft.chunks {
            sink.fill(chunk.offset.saturating_sub(sink.position()), 0)?;
            let Payload::Weights(joined, _) = payload else {
                sink.fill(chunk.length, 0)?;
                continue;
            };
            hashed.push(self.put_hashed(joined, sink, options.threads, &ticker)?);
        }
        // Two layouts of very many tensors would be held at once.
        drop(draft);
        self.layout_with(shards, true, hashed)
    }

    /// Where the data comes from.
    #[cfg(feature = "std")]
    fn sources(&self) -> impl Iterator<Item = &dyn Source> {
        self.tensors.iter().map(|tensor| &*tensor.data)
    }

    /// Fills shards with the tensors in order; a tensor that does not fit starts the next one, and so does one that
    /// begins a part.
    fn shards(&self) -> Vec<Shard> {
        let mut shards: Vec<Shard> = Vec::new();
        for (tensor, planned) in self.tensors.iter().enumerate() {
            let len = planned.data.size();
            let begins = |starts: &Vec<usize>| starts.binary_search(&tensor).is_ok();
            let begins = self.part_starts.as_ref().is_some_and(begins);
            let fits = |shard: &Shard| {
                let end = shard
                    .len
                    .next_multiple_of(self.options.align)
                    .saturating_add(len);
                end <= self.options.max_shard_bytes
            };
            if begins || !shards.last().is_some_and(fits) {
                shards.push(Shard {
                    tensors: Vec::new(),
                    len: 0,
                });
            }
            if let Some(shard) = shards.last_mut() {
                let offset = shard.len.next_multiple_of(self.options.align);
                shard.tensors.push(Placed { tensor, offset });
                shard.len = offset.saturating_add(len);
            }
        }
        shards
    }

    fn write<O: Output>(
        &self,
        layout: &FileLayout,
        sink: &mut Sink<O>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let ticker = Ticker::new(options.progress);
        let end = layout.header.string_table_offset + layout.header.string_table_length;
        let mut shard = 0;
        sink.put(&layout.control(end)?)?;
        for (chunk, payload) in &layout.chunks {
            sink.fill(chunk.offset.saturating_sub(sink.position()), 0)?;
            match payload {
                Payload::Bytes(bytes) => sink.put(bytes)?,
                // The hashes of what is written now stand before it already: none may lie.
                Payload::Weights(joined, hashes) => {
                    let found = self.put_hashed(joined, sink, options.threads, &ticker)?;
                    if found != *hashes {
                        return Err(self.changed(shard, joined, hashes, &found).into());
                    }
                    shard += 1;
                }
            }
        }
        Ok(())
    }

    /// Puts a shard, and finds all of its hashes that were asked for.
    fn put_hashed<O: Output>(
        &self,
        joined: &Joined,
        sink: &mut Sink<O>,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<ShardHashes> {
        let range = |(start, data): &(u64, Arc<dyn Source>)| *start..start + data.size();
        let tensors = self.options.tensor_hashes;
        let tensors = tensors.then(|| joined.parts.iter().map(range).collect());
        let hasher = ShardHasher::new(self.options.phsh, tensors);
        let start = sink.position();
        let hashes = put_and_hash(&joined.parts, sink, hasher, threads, ticker);
        hashes.map_err(|error| {
            let at = sink.position().saturating_sub(start);
            let tensor = joined.around(at).and_then(|at| self.tensors.get(at));
            match tensor {
                Some(tensor) => error.of_tensor(&tensor.name),
                None => error,
            }
        })
    }

    /// Which tensors of a shard may be those whose bytes are not what they were.
    fn changed(
        &self,
        shard: usize,
        joined: &Joined,
        before: &ShardHashes,
        now: &ShardHashes,
    ) -> BuildError {
        let same = |at: usize| {
            let before = before.tensors.as_ref().and_then(|hashes| hashes.get(at));
            let now = now.tensors.as_ref().and_then(|hashes| hashes.get(at));
            before.is_some() && before == now
        };
        // All of them, if what changed was the same again when it was hashed by itself.
        let all = (0..joined.parts.len()).all(same);
        let suspect = |(at, (_, data)): (usize, &(u64, Arc<dyn Source>))| {
            data.size() > 0 && (all || !same(at))
        };
        let numbers = joined.parts.iter().enumerate().zip(&joined.tensors);
        let suspects = numbers.filter(|(part, _)| suspect(*part));
        let mut names = suspects.filter_map(|(_, tensor)| Some(&self.tensors.get(*tensor)?.name));
        let first = names.next().cloned().unwrap_or_default();
        let last = names.next_back().cloned().unwrap_or_else(|| first.clone());
        BuildError::Changed { shard, first, last }
    }
}

enum Payload {
    Bytes(Vec<u8>),
    Weights(Joined, ShardHashes),
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tensors", &self.tensors.len())
            .field("metadata", &self.metadata.len())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
