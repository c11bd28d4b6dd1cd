use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use tensor_core::{
    At, DType, NameTable, Order, Output, Shape, ShapeError, Sink, Source, Tensor, Ticker,
    Unchanged, Value, WriteOptions, hinted_vec,
};

#[cfg(feature = "std")]
use tensor_core::{AtomicFile, SealedFile};

use crate::chunk::{Chunk, FourCc, INDEX, MMAP_CRITICAL, OPTIONAL, ZSTD};
use crate::index::FIELDS;
use crate::integrity::{IHSH_SIZE, PageHashes, ShardHashes, control_digest, hex, ihsh, phsh};
use crate::layout::{ALIGN, Header, Toc};
use crate::limits::Limits;
use crate::msgpack::Encoder;
use crate::pass::{ShardHasher, put_and_hash};
use crate::tree::blake3_of;
use crate::{BuildError, DTypeCode, Result};

/// "Limits" and what the reference readers take: the largest dim, offset and length.
const MAX_SIZE: u64 = i64::MAX as u64;
/// The file of a set that lists the tensors of all its parts.
#[cfg(feature = "std")]
const INDEX_NAME: &str = "index.aero";

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
pub struct Builder {
    tensors: Vec<Planned>,
    names: NameTable,
    metadata: Vec<(String, Value)>,
    metadata_names: NameTable,
    options: Options,
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
        let (dtype, shape, order) = (tensor.dtype(), tensor.shape().clone(), tensor.order());
        self.deferred(name, dtype, shape, order, tensor.data().clone())
    }

    /// Adds a tensor whose little-endian bytes are pulled from `data` when the file is written.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and where `data` has another length than dtype and shape ask
    /// for.
    pub fn deferred(
        &mut self,
        name: impl Into<String>,
        dtype: DType,
        shape: Shape,
        order: Order,
        data: impl Source + 'static,
    ) -> Result<&mut Self> {
        let name = name.into();
        let limits = Limits::default();
        if name.len() > limits.max_name as usize {
            return Err(BuildError::Name {
                name: name.chars().take(60).collect(),
            }
            .into());
        }
        let Some(code) = DTypeCode::from_dtype(dtype) else {
            return Err(BuildError::DType { name, dtype }.into());
        };
        if shape.rank() > limits.max_rank as usize {
            return Err(BuildError::Rank {
                name,
                rank: shape.rank(),
            }
            .into());
        }
        if let Some(&dim) = shape.dims().iter().find(|&&dim| dim > MAX_SIZE) {
            return Err(BuildError::Dim { name, dim }.into());
        }
        if order != Order::RowMajor && !shape.is_order_free() {
            return Err(BuildError::Order { name }.into());
        }
        match shape.byte_len(dtype) {
            Ok(Some(expected)) if expected != data.size() => {
                let error = ShapeError::DataLength {
                    expected,
                    got: data.size(),
                };
                return Err(BuildError::Shape { name, error }.into());
            }
            Ok(_) => {}
            Err(error) => return Err(BuildError::Shape { name, error }.into()),
        }
        self.push(name, code, shape, data)
    }

    /// Adds a tensor of an archive as it is there: its dtype, known or not, its stored bytes, flags and all
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
        self.coded(name, entry.dtype_code(), entry.shape().clone(), data)?;
        self.flags(entry.flags())?;
        if let Some(id) = entry.quant_id() {
            self.quant_id(id)?;
        }
        for (key, value) in archive.extra(entry) {
            self.extra(key, value)?;
        }
        Ok(self)
    }

    /// Adds a tensor by the code of its dtype, which may be one that has no meaning here: its bytes may then
    /// have any length.
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
        match code.dtype() {
            Some(dtype) if dtype != DType::Opaque => {
                self.deferred(name, dtype, shape, Order::RowMajor, data)
            }
            _ => self.push(name.into(), code, shape, data),
        }
    }

    fn push(
        &mut self,
        name: String,
        code: DTypeCode,
        shape: Shape,
        data: impl Source + 'static,
    ) -> Result<&mut Self> {
        let (flags, quant_id, extra) = (0, None, Vec::new());
        let data = Unchanged::shared(&name, data);
        let tensor = Planned {
            name,
            code,
            shape,
            flags,
            quant_id,
            extra,
            data,
        };
        self.names
            .push(&mut self.tensors, |tensor| &tensor.name, tensor)
            .map_err(|tensor| BuildError::Duplicate { name: tensor.name })?;
        Ok(self)
    }

    /// Adds a key to what the index says about the tensor added last, such as `quant_params`.
    ///
    /// # Errors
    /// [`BuildError::Key`] for the format's own fields, [`BuildError::Duplicate`],
    /// [`BuildError::Value`] for what MessagePack can't hold, [`BuildError::NoTensor`] before
    /// any tensor.
    pub fn extra(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Result<&mut Self> {
        let (key, value) = (key.into(), value.into());
        if FIELDS.contains(&&*key) && key != "quant_params" {
            return Err(BuildError::Key { key }.into());
        }
        if !Encoder::new().value(&value) {
            return Err(BuildError::Value { key }.into());
        }
        let tensor = self.last(&key)?;
        if tensor.extra.iter().any(|(known, _)| *known == key) {
            return Err(BuildError::Duplicate { name: key }.into());
        }
        tensor.extra.push((key, value));
        Ok(self)
    }

    /// Which quantization descriptor of the metadata describes the tensor added last.
    ///
    /// # Errors
    /// [`BuildError::NoTensor`] before any tensor.
    pub fn quant_id(&mut self, id: i64) -> Result<&mut Self> {
        self.last("quant_id")?.quant_id = Some(id);
        Ok(self)
    }

    /// The flags of the tensor added last.
    ///
    /// # Errors
    /// [`BuildError::NoTensor`] before any tensor.
    pub fn flags(&mut self, flags: u64) -> Result<&mut Self> {
        self.last("flags")?.flags = flags;
        Ok(self)
    }

    fn last(&mut self, what: &str) -> Result<&mut Planned, BuildError> {
        let missing = BuildError::NoTensor {
            field: what.to_string(),
        };
        self.tensors.last_mut().ok_or(missing)
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
        let mut sink = Sink::new(hinted_vec(layout.len));
        self.write(&layout, &mut sink, &options)?;
        Ok(sink.into_inner())
    }

    /// Writes the file to `out`, front to back.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), and what `out` fails with.
    #[cfg(feature = "std")]
    pub fn write_to(&self, out: impl std::io::Write) -> Result<()> {
        self.write_to_with(out, &WriteOptions::default())
    }

    /// The same with options.
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
    /// to while it exists (`tensor_core::AtomicFile`).
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to); the target is then as it was.
    #[cfg(feature = "std")]
    pub fn write_file(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        self.write_file_with(path, &WriteOptions::default())
    }

    /// The same with options.
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
        // What the format can't hold fails before the file is there.
        let draft = match fixed {
            true => Some(self.layout_with(&shards, true, self.blank(&shards))?),
            false => None,
        };
        let file = AtomicFile::create_from(path, self.sources(), options)?;
        let Some(draft) = draft.filter(|_| file.can_rewrite()) else {
            let layout = self.layout(&shards, options)?;
            let mut sink = Sink::new(file);
            self.write(&layout, &mut sink, options)?;
            return Ok(sink.into_inner().commit()?);
        };
        let mut sink = Sink::new(file);
        let layout = self.write_draft(&shards, &draft, &mut sink, options)?;
        let mut file = sink.into_inner();
        let end = layout.header.string_table_offset + layout.header.string_table_length;
        file.rewrite(0, &layout.control(end)?)?;
        for (chunk, payload) in &layout.chunks {
            if let Payload::Bytes(bytes) = payload {
                file.rewrite(chunk.offset, bytes)?;
            }
        }
        Ok(file.commit()?)
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
        draft: &Layout,
        sink: &mut Sink<O>,
        options: &WriteOptions<'_>,
    ) -> Result<Layout> {
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
        self.layout_with(shards, true, hashed)
    }

    /// Writes a set: the JSON at `path`, and `index.aero` and `part-000.aero` ... beside it. None
    /// of them appears before all are complete; the JSON comes last. Files of these names are
    /// replaced, of another set too: [`set_files`](Self::set_files) lists them.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file); a set that was there is as it was.
    #[cfg(feature = "std")]
    pub fn write_set(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        self.write_set_with(path, &WriteOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`write_set`](Self::write_set), or a stop on request.
    #[cfg(feature = "std")]
    pub fn write_set_with(
        &self,
        path: impl AsRef<std::path::Path>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        use serde_json::json;

        let path = path.as_ref();
        let shards = self.shards();
        let per_part = usize::try_from(self.options.max_part_shards).unwrap_or(usize::MAX);
        let mut parts = Vec::new();
        let mut files = Vec::new();
        let mut write = |name: &str, layout: &Layout| {
            let file = Hashed::create(&path.with_file_name(name), self.sources(), options)?;
            let mut sink = Sink::new(file);
            self.write(layout, &mut sink, options)?;
            let (file, sha256, len) = sink.into_inner().seal()?;
            files.push(file);
            Ok::<_, crate::Error>(json!({"path": name, "sha256": sha256, "size_bytes": len}))
        };
        let mut hashed = Vec::new();
        for (ordinal, part) in shards.chunks(per_part).enumerate() {
            // What the format can't hold, and what can't be read, fails before the first byte.
            let layout = self.layout(part, options)?;
            let mut entry = write(&part_name(ordinal), &layout)?;
            hashed.extend(layout.into_hashes());
            let first = ordinal * per_part;
            let ids: Vec<usize> = (first..first + part.len()).collect();
            if let Some(fields) = entry.as_object_mut() {
                fields.insert("shards".into(), ids.into());
            }
            parts.push(entry);
        }
        // The index has the hashes that the parts were written with.
        let index = write(INDEX_NAME, &self.layout_with(&shards, false, hashed)?)?;
        let set = json!({
            "format": {"name": "AEROSET", "version": [0, 1]},
            "model": {
                "name": self.options.name(),
                "architecture": self.options.architecture(),
            },
            "parts": parts,
            "global_tidx": index,
        });
        let text = std::format!("{set:#}\n");
        let mut file = AtomicFile::create_from(path, self.sources(), options)?;
        file.put(text.as_bytes())?;
        files.push(file.seal()?);
        let stale = match options.create_new {
            true => Vec::new(),
            false => self.stale_files(path),
        };
        SealedFile::commit_all(files)?;
        for file in stale {
            // What can't be deleted harms nobody: the set doesn't name it any more.
            if std::fs::remove_file(&file).is_ok() {
                options.tell(&tensor_core::Notice::Removed { file });
            }
        }
        Ok(())
    }

    /// The parts of the set that is at `path` now which [`write_set`](Self::write_set) would leave without
    /// a set: it deletes them, unless data is read from them.
    #[cfg(feature = "std")]
    pub fn stale_files(&self, path: impl AsRef<std::path::Path>) -> Vec<std::path::PathBuf> {
        let path = path.as_ref();
        let Ok(old) = crate::Set::open(path) else {
            return Vec::new();
        };
        let new = self.set_files(path);
        let is_read = |file: &std::path::PathBuf| {
            let id = tensor_core::FileId::of(file).ok();
            id.is_none() || self.sources().any(|source| source.file() == id.as_ref())
        };
        // The first one is the set itself.
        let files = old.files().into_iter().skip(1);
        files
            .filter(|file| file.parent() == path.parent() && !new.contains(file) && !is_read(file))
            .collect()
    }

    /// The files that [`write_set`](Self::write_set) puts beside the JSON at `path`, whatever its
    /// name: two sets in one folder would write the same ones.
    #[cfg(feature = "std")]
    pub fn set_files(&self, path: impl AsRef<std::path::Path>) -> Vec<std::path::PathBuf> {
        let path = path.as_ref();
        let per_part = usize::try_from(self.options.max_part_shards).unwrap_or(usize::MAX);
        let parts = self.shards().len().div_ceil(per_part);
        let mut files: Vec<_> = (0..parts)
            .map(|ordinal| path.with_file_name(part_name(ordinal)))
            .collect();
        files.push(path.with_file_name(INDEX_NAME));
        files
    }

    /// Where the data comes from.
    #[cfg(feature = "std")]
    fn sources(&self) -> impl Iterator<Item = &dyn Source> {
        self.tensors.iter().map(|tensor| &*tensor.data)
    }

    /// Fills shards with the tensors in order; a tensor that does not fit starts the next one.
    fn shards(&self) -> Vec<Shard> {
        let mut shards: Vec<Shard> = Vec::new();
        for (tensor, planned) in self.tensors.iter().enumerate() {
            let len = planned.data.size();
            let fits = |shard: &Shard| {
                let end = shard
                    .len
                    .next_multiple_of(self.options.align)
                    .saturating_add(len);
                end <= self.options.max_shard_bytes
            };
            if !shards.last().is_some_and(fits) {
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

    /// Decides every byte but those of the tensors: chunks, their places and their hashes.
    fn layout(&self, shards: &[Shard], options: &WriteOptions<'_>) -> Result<Layout> {
        let ticker = Ticker::new(options.progress);
        let mut hashed = Vec::new();
        for shard in shards {
            let joined = Joined::of(shard, &self.tensors);
            let mut tensors = None;
            if self.options.tensor_hashes {
                let mut hashes = Vec::new();
                for (_, data) in &joined.parts {
                    let none = Ticker::default();
                    hashes.push(blake3_of(data, 0..data.size(), options.threads, &none)?);
                }
                tensors = Some(hashes);
            }
            let whole = blake3_of(&joined, 0..joined.size(), options.threads, &ticker)?;
            let pages = match self.options.phsh {
                Some(page_size) => Some(page_hashes(&joined, page_size)?),
                None => None,
            };
            hashed.push(ShardHashes {
                whole,
                pages,
                tensors,
            });
        }
        self.layout_with(shards, true, hashed)
    }

    /// The same with hashes that are known. Without `weights` only the index is written.
    fn layout_with(
        &self,
        shards: &[Shard],
        weights: bool,
        hashed: Vec<ShardHashes>,
    ) -> Result<Layout> {
        let mut tensor_hashes: Vec<Option<[u8; 32]>> = self.tensors.iter().map(|_| None).collect();
        for (shard, hashes) in shards.iter().zip(&hashed) {
            let hashes = hashes.tensors.iter().flatten();
            for (placed, hash) in shard.tensors.iter().zip(hashes) {
                if let Some(slot) = tensor_hashes.get_mut(placed.tensor) {
                    *slot = Some(*hash);
                }
            }
        }
        let mut chunks: Vec<(Chunk, Payload)> = Vec::new();
        let mut add = |fourcc, name: &str, flags, payload: Payload| {
            let key = Chunk::key(fourcc, name).into();
            let chunk = Chunk {
                fourcc,
                flags,
                offset: 0,
                length: 0,
                ulen: 0,
                blake3: [0; 32],
                key,
            };
            chunks.push((chunk, payload));
        };
        if self.options.ihsh {
            let zeros = [0u8; IHSH_SIZE].to_vec();
            add(
                FourCc::IHSH,
                "control.integrity",
                OPTIONAL,
                Payload::Bytes(zeros),
            );
        }
        if weights {
            let json = self.json();
            let data = shards.iter().map(|shard| shard.len);
            let len = data.fold(json.len() as u64, u64::saturating_add);
            let held = Limits::default().check_json(&json, len, At::new(0, "MJSN"));
            held.map_err(|_| BuildError::Metadata)?;
            let extras = self.tensors.iter().flat_map(|tensor| &tensor.extra);
            let items = extras.map(|(_, value)| value.walk().count() as u64);
            let items = items.fold(0, u64::saturating_add);
            let held = Limits::default().check_items(items, len, At::new(0, "TIDX"));
            held.map_err(|_| BuildError::Metadata)?;
            if self.has_json() {
                add(FourCc::MJSN, "meta.json", 0, Payload::Bytes(json));
            }
        }
        add(FourCc::MMSG, "manifest", 0, Payload::Bytes(Vec::new()));
        let tidx = self.tidx(shards, &tensor_hashes);
        add(FourCc::TIDX, "tensors", INDEX, Payload::Bytes(tidx));
        let hashed = shards.iter().zip(hashed).enumerate();
        for (id, (shard, hashes)) in hashed.filter(|_| weights) {
            let name = alloc::format!("weights.shard{id}");
            let joined = Joined::of(shard, &self.tensors);
            let pages = hashes.pages.as_ref().map(|pages| phsh(&name, pages));
            add(
                FourCc::WTSH,
                &name,
                MMAP_CRITICAL,
                Payload::Weights(joined, hashes),
            );
            if let Some(payload) = pages {
                let payload = Payload::Bytes(payload);
                add(
                    FourCc::PHSH,
                    &alloc::format!("{name}.phsh"),
                    OPTIONAL,
                    payload,
                );
            }
        }
        let manifest = self.manifest(&chunks, shards);
        if let Some((_, payload)) = chunks
            .iter_mut()
            .find(|(chunk, _)| chunk.fourcc == FourCc::MMSG)
        {
            *payload = Payload::Bytes(manifest);
        }
        self.place(chunks)
    }

    /// Compresses and hashes what is no weight, and gives every chunk its place.
    fn place(&self, mut chunks: Vec<(Chunk, Payload)>) -> Result<Layout> {
        let count = u32::try_from(chunks.len()).map_err(|_| BuildError::TooLarge)?;
        if count > Limits::default().max_chunks {
            return Err(BuildError::TooLarge.into());
        }
        for (chunk, payload) in &mut chunks {
            match payload {
                Payload::Bytes(bytes) => {
                    chunk.ulen = bytes.len() as u64;
                    chunk.blake3 = *blake3::hash(bytes).as_bytes();
                    let metadata = [FourCc::MMSG, FourCc::TIDX].contains(&chunk.fourcc);
                    if let Some(level) = self.options.level.filter(|_| metadata) {
                        if let Some(compressed) = compress(bytes, level) {
                            *bytes = compressed;
                            chunk.flags |= ZSTD;
                        }
                    }
                    chunk.length = bytes.len() as u64;
                }
                Payload::Weights(joined, hashes) => {
                    chunk.ulen = joined.size();
                    chunk.length = chunk.ulen;
                    chunk.blake3 = hashes.whole;
                }
            }
        }
        let mut names = Vec::new();
        let mut name_offsets = Vec::new();
        for (chunk, _) in &chunks {
            name_offsets.push(u32::try_from(names.len()).map_err(|_| BuildError::TooLarge)?);
            names.extend_from_slice(chunk.name().as_bytes());
            names.push(0);
        }
        names.resize(names.len().next_multiple_of(8), 0);
        let toc_length = Toc::len(count);
        let string_table_offset = (Header::SIZE + toc_length).next_multiple_of(8);
        let string_table_length = names.len() as u64;
        let mut end = string_table_offset + string_table_length;
        for (chunk, _) in &mut chunks {
            let page = self.options.page_align && chunk.fourcc == FourCc::WTSH;
            let align = if page { 4096 } else { ALIGN };
            chunk.offset = end
                .checked_next_multiple_of(align)
                .ok_or(BuildError::TooLarge)?;
            let next = chunk
                .offset
                .checked_add(chunk.length)
                .filter(|&end| end <= MAX_SIZE);
            end = next.ok_or(BuildError::TooLarge)?;
        }
        let header = Header {
            toc_offset: Header::SIZE,
            toc_length,
            string_table_offset,
            string_table_length,
            uuid: self.options.uuid.unwrap_or_else(|| content_uuid(&chunks)),
        };
        let control_end = (string_table_offset + string_table_length).next_multiple_of(ALIGN);
        let mut layout = Layout {
            header,
            chunks,
            name_offsets,
            names,
            len: end,
        };
        if self.options.ihsh {
            let control = tensor_core::Bytes::from(layout.control(control_end)?);
            let digest = control_digest(&control, &layout.header, count, control_end)?;
            if let Some((chunk, Payload::Bytes(bytes))) = layout.chunks.first_mut() {
                *bytes = ihsh(control_end, &digest);
                chunk.blake3 = *blake3::hash(bytes).as_bytes();
            }
        }
        Ok(layout)
    }

    fn write<O: Output>(
        &self,
        layout: &Layout,
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
        put_and_hash(&joined.parts, sink, hasher, threads, ticker)
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

    /// Whether there is anything for the chunk of metadata, which the format doesn't ask for.
    fn has_json(&self) -> bool {
        let about = [&self.options.model_name, &self.options.architecture];
        !self.metadata.is_empty() || about.into_iter().any(Option::is_some)
    }

    /// "MJSN": name and architecture where they are set, then the metadata, which may override them;
    /// sorted keys, no spaces, ASCII only.
    fn json(&self) -> Vec<u8> {
        let mut object = serde_json::Map::new();
        let about = [
            ("model_name", &self.options.model_name),
            ("architecture", &self.options.architecture),
        ];
        for (key, value) in about {
            if let Some(value) = value {
                object.insert(key.into(), value.as_str().into());
            }
        }
        for (key, value) in &self.metadata {
            // Values that JSON can't hold were refused when they were added.
            object.insert(key.clone(), to_json(value).unwrap_or_default());
        }
        let text = serde_json::Value::Object(object).to_string();
        let mut ascii = Vec::with_capacity(text.len());
        for c in text.chars() {
            if c.is_ascii() {
                ascii.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    ascii.extend_from_slice(alloc::format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
        ascii
    }

    /// "TIDX Schema", with the shards counted as they are given.
    fn tidx(&self, shards: &[Shard], hashes: &[Option<[u8; 32]>]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.map(1);
        encoder.text("tensors");
        encoder.list(shards.iter().map(|shard| shard.tensors.len()).sum());
        for (shard_id, shard) in shards.iter().enumerate() {
            for placed in &shard.tensors {
                let Some(tensor) = self.tensors.get(placed.tensor) else {
                    continue;
                };
                let hash = hashes.get(placed.tensor).copied().flatten();
                let more = usize::from(hash.is_some()) + usize::from(tensor.quant_id.is_some());
                encoder.map(7 + more + tensor.extra.len());
                encoder.text("name");
                encoder.text(&tensor.name);
                encoder.text("dtype");
                encoder.uint(tensor.code.0.into());
                encoder.text("shape");
                encoder.list(tensor.shape.rank());
                for &dim in tensor.shape.dims() {
                    encoder.uint(dim);
                }
                for (key, value) in [
                    ("shard_id", shard_id as u64),
                    ("data_off", placed.offset),
                    ("data_len", tensor.data.size()),
                    ("flags", tensor.flags),
                ] {
                    encoder.text(key);
                    encoder.uint(value);
                }
                if let Some(id) = tensor.quant_id {
                    encoder.text("quant_id");
                    encoder.value(&Value::from(id));
                }
                for (key, value) in &tensor.extra {
                    encoder.text(key);
                    encoder.value(value);
                }
                if let Some(hash) = hash {
                    encoder.text("hash_b3");
                    encoder.text(&hex(&hash));
                }
            }
        }
        encoder.into_vec()
    }

    /// "MMSG Schema": what the file is and which chunks it has.
    fn manifest(&self, chunks: &[(Chunk, Payload)], shards: &[Shard]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.map(4);
        encoder.text("format");
        encoder.map(2);
        encoder.text("name");
        encoder.text("AERO");
        encoder.text("version");
        encoder.list(2);
        encoder.uint(0);
        encoder.uint(1);
        encoder.text("model");
        encoder.map(2);
        encoder.text("name");
        encoder.text(self.options.name());
        encoder.text("architecture");
        encoder.text(self.options.architecture());
        encoder.text("chunks");
        encoder.list(chunks.len());
        let mut weights = Vec::new();
        for (at, (chunk, _)) in chunks.iter().enumerate() {
            let role = match chunk.fourcc {
                FourCc::IHSH => "control_integrity",
                FourCc::MJSN => "json",
                FourCc::MMSG => "manifest",
                FourCc::TIDX => "tensors",
                FourCc::WTSH => "weights",
                _ => "page_hashes",
            };
            if chunk.fourcc == FourCc::WTSH {
                weights.push(at as u64);
            }
            let shard = [FourCc::WTSH, FourCc::PHSH].contains(&chunk.fourcc);
            encoder.map(3 + usize::from(shard));
            encoder.text("role");
            encoder.text(role);
            encoder.text("fourcc");
            encoder.text(&chunk.fourcc.to_string());
            encoder.text("toc_index");
            encoder.uint(at as u64);
            if shard {
                encoder.text("shard_id");
                encoder.uint((weights.len() as u64).saturating_sub(1));
            }
        }
        encoder.text("shards");
        encoder.list(weights.len());
        for ((id, toc_index), shard) in weights.iter().enumerate().zip(shards) {
            encoder.map(5);
            for (key, value) in [
                ("shard_id", id as u64),
                ("toc_index", *toc_index),
                ("size_bytes", shard.len),
                ("tensor_count", shard.tensors.len() as u64),
            ] {
                encoder.text(key);
                encoder.uint(value);
            }
            encoder.text("mmap_critical");
            encoder.bool(true);
        }
        encoder.into_vec()
    }
}

enum Payload {
    Bytes(Vec<u8>),
    Weights(Joined, ShardHashes),
}

/// A file, decided down to the last byte that is no tensor's.
struct Layout {
    header: Header,
    chunks: Vec<(Chunk, Payload)>,
    name_offsets: Vec<u32>,
    names: Vec<u8>,
    len: u64,
}

impl Layout {
    /// The hashes of all shards whose data is in the file.
    #[cfg(feature = "std")]
    fn into_hashes(self) -> impl Iterator<Item = ShardHashes> {
        self.chunks
            .into_iter()
            .filter_map(|(_, payload)| match payload {
                Payload::Weights(_, hashes) => Some(hashes),
                Payload::Bytes(_) => None,
            })
    }

    /// Header, TOC and string table, filled up with zeros to `end`.
    fn control(&self, end: u64) -> Result<Vec<u8>> {
        let mut sink = Sink::new(hinted_vec(end));
        self.header.write(&mut sink)?;
        sink.put_u32_le(u32::try_from(self.chunks.len()).unwrap_or(u32::MAX))?;
        sink.put_u32_le(0)?;
        sink.put_u64_le(0)?;
        for ((chunk, _), &name_off) in self.chunks.iter().zip(&self.name_offsets) {
            Toc::write_entry(&mut sink, chunk, name_off)?;
        }
        sink.pad_to(8, 0)?;
        sink.put(&self.names)?;
        sink.fill(end.saturating_sub(sink.position()), 0)?;
        Ok(sink.into_inner())
    }
}

/// The tensors of a shard with the zeros between them, as one source.
struct Joined {
    /// Where each tensor starts.
    parts: Vec<(u64, Arc<dyn Source>)>,
    /// Which ones they are.
    tensors: Vec<usize>,
    len: u64,
}

impl Joined {
    fn of(shard: &Shard, tensors: &[Planned]) -> Self {
        let part = |placed: &Placed| {
            let tensor = tensors.get(placed.tensor)?;
            Some((placed.offset, tensor.data.clone()))
        };
        Self {
            parts: shard.tensors.iter().filter_map(part).collect(),
            tensors: shard.tensors.iter().map(|placed| placed.tensor).collect(),
            len: shard.len,
        }
    }
}

impl Source for Joined {
    fn size(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), tensor_core::SourceError> {
        self.check(offset, out.len() as u64)?;
        out.fill(0);
        let wanted = offset..offset + out.len() as u64;
        let first = self
            .parts
            .partition_point(|(start, data)| start + data.size() <= offset);
        for (start, data) in self.parts.iter().skip(first) {
            let part: Range<u64> = *start..start + data.size();
            if part.start >= wanted.end {
                break;
            }
            let (from, to) = (part.start.max(wanted.start), part.end.min(wanted.end));
            if from >= to {
                continue;
            }
            let at = |position: u64| usize::try_from(position - offset).unwrap_or(usize::MAX);
            let piece = out.get_mut(at(from)..at(to)).unwrap_or_default();
            data.read_into(from - part.start, piece)?;
        }
        Ok(())
    }
}

/// The file of a set's part.
#[cfg(feature = "std")]
fn part_name(ordinal: usize) -> String {
    std::format!("part-{ordinal:03}.aero")
}

fn page_hashes(joined: &Joined, page_size: u64) -> Result<PageHashes> {
    let mut digests = Vec::new();
    let mut start = 0u64;
    while start < joined.size() {
        let end = start.saturating_add(page_size).min(joined.size());
        digests.push(blake3_of(joined, start..end, 1, &Ticker::default())?);
        start = end;
    }
    Ok(PageHashes { page_size, digests })
}

/// An identity that the same content always gets: 16 bytes of the hash of all hashes and names.
fn content_uuid(chunks: &[(Chunk, Payload)]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for (chunk, _) in chunks
        .iter()
        .filter(|(chunk, _)| chunk.fourcc != FourCc::IHSH)
    {
        hasher.update(chunk.key.as_bytes());
        hasher.update(&chunk.blake3);
    }
    let mut uuid = [0; 16];
    for (byte, hash) in uuid.iter_mut().zip(hasher.finalize().as_bytes()) {
        *byte = *hash;
    }
    uuid
}

/// One zstd frame with its content size, as the reference writes it.
#[cfg(feature = "zstd")]
fn compress(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
    zstd::bulk::compress(bytes, level).ok()
}

#[cfg(not(feature = "zstd"))]
fn compress(_: &[u8], _: i32) -> Option<Vec<u8>> {
    None
}

/// A file whose SHA-256 is taken as it is written.
#[cfg(feature = "std")]
struct Hashed {
    file: AtomicFile,
    hasher: sha2::Sha256,
    len: u64,
}

#[cfg(feature = "std")]
impl Hashed {
    fn create<'s>(
        path: &std::path::Path,
        sources: impl Iterator<Item = &'s dyn Source>,
        options: &WriteOptions<'_>,
    ) -> Result<Self> {
        Ok(Self {
            file: AtomicFile::create_chosen(path, sources, options)?,
            hasher: sha2::Digest::new(),
            len: 0,
        })
    }

    /// The file, the hash in hexadecimal, and the length.
    fn seal(self) -> Result<(SealedFile, String, u64)> {
        let digest = sha2::Digest::finalize(self.hasher);
        Ok((self.file.seal()?, hex(&digest), self.len))
    }
}

#[cfg(feature = "std")]
impl Output for Hashed {
    fn put(&mut self, bytes: &[u8]) -> Result<(), tensor_core::SinkError> {
        sha2::Digest::update(&mut self.hasher, bytes);
        self.len += bytes.len() as u64;
        self.file.put(bytes)
    }
}

/// A value as JSON, `None` where JSON can't hold it.
fn to_json(value: &Value) -> Option<serde_json::Value> {
    Some(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => match (u64::try_from(*value), i64::try_from(*value)) {
            (Ok(value), _) => value.into(),
            (_, Ok(value)) => value.into(),
            _ => return None,
        },
        Value::Float(value) => serde_json::Number::from_f64(*value)?.into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => {
            serde_json::Value::Array(items.iter().map(to_json).collect::<Option<_>>()?)
        }
        Value::Map(pairs) => {
            let mut object = serde_json::Map::new();
            for (key, value) in pairs {
                if object
                    .insert(key.as_str()?.into(), to_json(value)?)
                    .is_some()
                {
                    return None;
                }
            }
            serde_json::Value::Object(object)
        }
        _ => return None,
    })
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
