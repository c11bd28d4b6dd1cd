use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use tensor_core::codec::{NameTable, Output, Sink, Ticker, Unchanged, hinted_vec, write_vec};
use tensor_core::{DType, Order, Shape, Source, Tensor, TensorSpec, WriteOptions, checksum};

use crate::layout::{ALIGN, FILL, Header, MetaRecord, TensorRecord};
use crate::limits::{MAX_KEY, MAX_RANK, MAX_SIZE};
use crate::{Archive, BuildError, Checksum, DTypeCode, Entry, Generation, MetaValue, Result};

/// Collects tensors and metadata, then writes a file at once.
///
/// Records keep the order of the calls, and the same calls give the same bytes. A tensor shares
/// its bytes with the builder; a deferred one is pulled in windows while it is written.
///
/// ```
/// use mag_format::{Builder, Bytes, DType, Shape, TensorSpec};
///
/// let mut builder = Builder::new();
/// let source = Bytes::from_static(&[1, 0, 0, 0, 2, 0, 0, 0]);
/// builder.deferred("steps", TensorSpec::new(DType::I32, Shape::new(&[2])?), source)?;
/// assert_eq!(builder.encoded_len()?, 128);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To a file, to any writer, and a copy that names tensors anew:
///
/// ```
/// use mag_format::{Archive, Builder, Bytes, DType, Shape, Tensor, TensorSpec, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.mag");
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
    checksum: Checksum,
    metadata: Vec<(String, MetaValue)>,
    metadata_names: NameTable,
    tensors: Vec<Planned>,
    names: NameTable,
}

#[derive(Clone)]
pub(crate) struct Planned {
    name: String,
    pub(crate) code: DTypeCode,
    pub(crate) shape: Shape,
    pub(crate) len: u64,
    data: Arc<dyn Source>,
}

impl Builder {
    /// A builder of a file with no tensor and no metadata.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder of a file like `archive`, still without tensors: with its metadata and the kind of its checksum.
    ///
    /// ```
    /// use mag_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.metadata("step", 7i64)?;
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
    /// [`BuildError::Generation`] where it is a snapshot, whose metadata version 1 has no place for.
    pub fn like(archive: &Archive) -> Result<Self> {
        if archive.generation() != Generation::Version1 {
            let generation = archive.generation().name();
            return Err(BuildError::Generation { generation }.into());
        }
        let mut builder = Self::new();
        builder.checksum(archive.checksum().unwrap_or_default());
        for pair in archive.metadata() {
            builder.metadata(pair.key(), pair.value())?;
        }
        Ok(builder)
    }

    /// The checksum to write; [`Checksum::Crc32c`] unless set.
    ///
    /// ```
    /// use mag_format::{Archive, Builder, Checksum};
    ///
    /// let mut builder = Builder::new();
    /// builder.checksum(Checksum::Ieee); // by the letter of the specification
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// assert_eq!(archive.checksum(), Some(Checksum::Ieee));
    /// # Ok::<(), mag_format::Error>(())
    /// ```
    pub fn checksum(&mut self, checksum: Checksum) -> &mut Self {
        self.checksum = checksum;
        self
    }

    /// Adds a metadata record.
    ///
    /// # Errors
    /// [`BuildError`] where the key can't be held or is taken.
    pub fn metadata(
        &mut self,
        key: impl Into<String>,
        value: impl Into<MetaValue>,
    ) -> Result<&mut Self> {
        let key = key.into();
        check_key(&key)?;
        self.metadata_names
            .push(&mut self.metadata, |(key, _)| key, (key, value.into()))
            .map_err(|(key, _)| BuildError::Duplicate { name: key })?;
        Ok(self)
    }

    /// Adds a tensor; its bytes are shared, not copied.
    ///
    /// # Errors
    /// [`BuildError`] where the format can't hold the name, dtype, shape or order.
    pub fn tensor(&mut self, name: impl Into<String>, tensor: Tensor) -> Result<&mut Self> {
        self.deferred(name, TensorSpec::from(&tensor), tensor.into_data())
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
        let (name, dtype, shape) = (name.into(), spec.dtype(), spec.shape());
        check_key(&name)?;
        let Some(code) = DTypeCode::from_dtype(dtype) else {
            return Err(BuildError::DType { name, dtype }.into());
        };
        if shape.rank() == 0 || shape.rank() > MAX_RANK {
            return Err(BuildError::Rank {
                name,
                rank: shape.rank(),
            }
            .into());
        }
        if let Some(&dim) = shape.dims().iter().find(|&&dim| dim == 0 || dim > MAX_SIZE) {
            return Err(BuildError::Dim { name, dim }.into());
        }
        if !spec.is_in(Order::RowMajor) {
            return Err(BuildError::Order { name }.into());
        }
        // Its length is asked once, and stays the one that is planned with.
        let data = Unchanged::shared(&name, data);
        let len = data.size();
        if let Err(error) = spec.check_len(len) {
            return Err(BuildError::Shape { name, error }.into());
        }
        let tensor = Planned {
            name,
            code,
            shape: spec.into_shape(),
            len,
            data,
        };
        self.names
            .push(&mut self.tensors, |tensor| &tensor.name, tensor)
            .map_err(|tensor| BuildError::Duplicate { name: tensor.name })?;
        Ok(self)
    }

    /// Adds a tensor of an archive unchanged. Its data is pulled when the file is written.
    ///
    /// ```
    /// use mag_format::{Archive, Builder, Tensor};
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
    /// As [`deferred`](Self::deferred) and [`Archive::data`]: no file of version 1 says how long the
    /// bytes of an unknown dtype are, so they can't be copied.
    pub fn copy(&mut self, archive: &Archive, entry: Entry<'_>) -> Result<&mut Self> {
        self.copy_as(entry.name(), archive, entry)
    }

    /// Adds a tensor of another archive under another name.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub fn copy_as(
        &mut self,
        name: impl Into<String>,
        archive: &Archive,
        entry: Entry<'_>,
    ) -> Result<&mut Self> {
        let data = archive.data(entry)?;
        // The data is only there where the dtype is known.
        let dtype = entry.dtype().unwrap_or(DType::Opaque);
        let spec = TensorSpec::new(dtype, entry.shape().clone()).with_order(entry.order());
        self.deferred(name, spec, data)
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// [`BuildError::TooMany`] or [`BuildError::TooLarge`] where the format can't hold it.
    pub fn encoded_len(&self) -> Result<u64> {
        Ok(self.plan()?.file_len)
    }

    /// The file in memory.
    ///
    /// # Errors
    /// As [`encoded_len`](Self::encoded_len), and what a deferred tensor's source fails with.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let options = WriteOptions::default();
        write_vec(self.encoded_len()?, |sink| self.write(sink, &options))
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
        // What the format can't hold fails before the first byte.
        self.plan()?;
        let sources = self.tensors.iter().map(|tensor| &*tensor.data);
        tensor_core::codec::write_file(path, sources, options, |sink| self.write(sink, options))
    }

    fn write<O: Output>(&self, sink: &mut Sink<O>, options: &WriteOptions<'_>) -> Result<()> {
        let plan = self.plan()?;
        sink.put(&self.records(&plan)?)?;
        sink.fill(plan.data_base - plan.records_end, FILL)?;
        let ticker = Ticker::new(options.progress);
        for tensor in &self.tensors {
            let copied = sink.copy_from(&tensor.data, &ticker);
            copied.map_err(|error| error.of_tensor(&tensor.name))?;
            sink.pad_to(ALIGN, FILL)?;
        }
        Ok(())
    }

    pub(crate) fn tensors(&self) -> &[Planned] {
        &self.tensors
    }

    /// Header and records, as they start the file.
    fn records(&self, plan: &Plan) -> Result<Vec<u8>> {
        let mut end = plan.data_base;
        let offsets = self.tensors.iter().map(|tensor| {
            let offset = end;
            end += tensor.len.next_multiple_of(ALIGN);
            offset
        });
        self.records_at(offsets, self.checksum)
    }

    /// Plans the file with tensors at these places.
    pub(crate) fn records_at(
        &self,
        offsets: impl Iterator<Item = u64>,
        checksum: Checksum,
    ) -> Result<Vec<u8>> {
        let plan = self.plan()?;
        let mut sink = Sink::new(hinted_vec(plan.records_end));
        let mut header = Header {
            checksum: 0,
            num_tensors: count(self.tensors.len())?,
            num_meta_kv: count(self.metadata.len())?,
        };
        header.write(&mut sink)?;
        for (key, value) in &self.metadata {
            MetaRecord { value: *value, key }.write(&mut sink)?;
        }
        for (tensor, offset) in self.tensors.iter().zip(offsets) {
            let record = TensorRecord {
                code: tensor.code,
                offset,
                shape: &tensor.shape,
                key: &tensor.name,
            };
            record.write(&mut sink)?;
        }
        let mut bytes = sink.into_inner();
        header.checksum = match checksum {
            Checksum::Crc32c => checksum::crc32c(bytes.get(12..).unwrap_or_default()),
            Checksum::Ieee => crc32fast::hash(&bytes),
        };
        if let Some(field) = bytes.get_mut(8..12) {
            field.copy_from_slice(&header.checksum.to_le_bytes());
        }
        Ok(bytes)
    }

    fn plan(&self) -> Result<Plan, BuildError> {
        count(self.tensors.len())?;
        count(self.metadata.len())?;
        let metas = self.metadata.iter().map(|(key, _)| 16 + key.len() as u64);
        let tensors = self
            .tensors
            .iter()
            .map(|tensor| 24 + 8 * tensor.shape.rank() as u64 + tensor.name.len() as u64);
        let add = |sum: u64, more: u64| sum.checked_add(more).filter(|&sum| sum <= MAX_SIZE);
        let records_end = metas.chain(tensors).try_fold(Header::SIZE, add);
        let records_end = records_end.ok_or(BuildError::TooLarge)?;
        if self.tensors.is_empty() {
            return Ok(Plan {
                records_end,
                data_base: records_end,
                file_len: records_end,
            });
        }
        let round = |len: u64| len.checked_next_multiple_of(ALIGN);
        let data_base = round(records_end).ok_or(BuildError::TooLarge)?;
        let file_len = self
            .tensors
            .iter()
            .try_fold(data_base, |sum, tensor| add(sum, round(tensor.len)?))
            .ok_or(BuildError::TooLarge)?;
        Ok(Plan {
            records_end,
            data_base,
            file_len,
        })
    }
}

struct Plan {
    records_end: u64,
    data_base: u64,
    file_len: u64,
}

fn count(records: usize) -> Result<u32, BuildError> {
    u32::try_from(records).map_err(|_| BuildError::TooMany)
}

fn check_key(key: &str) -> Result<(), BuildError> {
    if key.is_empty() || key.len() > MAX_KEY as usize || key.contains('\0') {
        return Err(BuildError::Key {
            name: key.chars().take(60).collect(),
        });
    }
    Ok(())
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("checksum", &self.checksum)
            .field("metadata", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}
