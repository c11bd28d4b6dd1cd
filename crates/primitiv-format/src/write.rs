use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use tensor_core::codec::{NameTable, Output, Sink, Ticker, Unchanged, write_vec};
use tensor_core::{DType, Order, Source, Tensor, TensorSpec, WriteOptions};

use crate::layout::{DataType, VERSION};
use crate::limits::{MAX_DATA, MAX_RANK};
use crate::msgpack::{put_array_len, put_bin_len, put_f32, put_map_len, put_str, put_u32};
use crate::object::Optimizer;
use crate::{Address, Archive, BuildError, Entry, Result};

/// What a [`Builder`] writes of a tensor beside its values: the batch, 1 unless set.
///
/// ```
/// use primitiv_format::{Builder, Tensor, TensorOptions};
///
/// let mut builder = Builder::tensor_file();
/// let minibatch = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[1, 3])?;
/// builder.tensor_with("", minibatch, TensorOptions::new().with_batch(3))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorOptions {
    batch: u32,
}

impl Default for TensorOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TensorOptions {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { batch: 1 }
    }

    /// The last dim of the tensor is a batch of so many. Only the tensor of a Tensor file, and
    /// statistics, hold batches above 1: for others [`Builder::check`] refuses them.
    #[must_use]
    pub const fn with_batch(mut self, batch: u32) -> Self {
        self.batch = batch;
        self
    }

    /// The batch.
    ///
    /// ```
    /// use primitiv_format::TensorOptions;
    ///
    /// assert_eq!(TensorOptions::new().batch(), 1);
    /// ```
    #[must_use]
    pub const fn batch(self) -> u32 {
        self.batch
    }
}

/// Collects parameters, then writes a file at once, byte for byte as the reference library does.
///
/// A [`new`](Self::new) one writes a Model, its parameters sorted by address as the library
/// writes them; [`parameter_file`](Self::parameter_file) and [`tensor_file`](Self::tensor_file)
/// write one of the smaller objects. A tensor shares its bytes with the builder; a deferred one
/// is pulled in windows while it is written. The same calls give the same bytes.
///
/// ```
/// use primitiv_format::{Builder, Bytes, DType, Order, Shape, TensorSpec};
///
/// let mut builder = Builder::new();
/// let zeros = Bytes::from_static(&[0; 24]);
/// let spec = TensorSpec::new(DType::F32, Shape::new(&[2, 3])?).with_order(Order::ColumnMajor);
/// builder.deferred("encoder.W", spec, zeros)?;
/// assert_eq!(builder.encoded_len()?, 78);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To a file, to any writer, and a copy that names tensors anew:
///
/// ```
/// use primitiv_format::{Archive, Builder, Bytes, DType, Shape, Tensor, TensorSpec, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("net.model");
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
/// let mut copy = Builder::like(&archive).ok_or("no tensors")?;
/// for entry in archive.entries() {
///     copy.copy_as(format!("layer.{}", entry.name()), &archive, entry)?;
/// }
/// assert!(Archive::from_bytes(copy.to_vec()?)?.entry("layer.b").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What else an object can have:
///
/// ```
/// use primitiv_format::{Archive, Builder, Bytes, DType, DataType, Shape, TensorOptions, TensorSpec};
///
/// let mut builder = Builder::new();
/// builder.sort(false).split_names(false); // the order and the names of the calls
/// let spec = TensorSpec::new(DType::F32, Shape::new(&[2])?);
/// let zeros = Bytes::from_static(&[0; 8]);
/// builder.deferred_with("enc.W", spec.clone(), zeros.clone(), TensorOptions::new())?;
/// builder.deferred_stat("Adam.m1", spec.clone(), zeros.clone())?;
/// builder.deferred_stat_with("Adam.m2", spec.clone(), zeros.clone(), TensorOptions::new())?;
/// builder.check()?; // addresses fit each other
/// assert_eq!(Archive::from_bytes(builder.to_vec()?)?.len(), 3);
///
/// let mut one = Builder::parameter_file();
/// assert!(one.check().is_err()); // exactly one parameter
/// one.deferred("b", spec, zeros)?;
/// assert_eq!(Archive::from_bytes(one.to_vec()?)?.data_type(), DataType::Parameter);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Builder {
    object: DataType,
    split: bool,
    sort: bool,
    parameters: Vec<Planned>,
}

#[derive(Clone)]
struct Planned {
    path: Vec<Box<str>>,
    value: Data,
    stats: Vec<(Box<str>, Data)>,
    stat_names: NameTable,
}

#[cfg(feature = "std")]
impl Planned {
    /// Where the values and the statistics come from.
    fn sources(&self) -> impl Iterator<Item = &dyn Source> {
        let stats = self.stats.iter().map(|(_, data)| data);
        core::iter::once(&self.value)
            .chain(stats)
            .map(|data| &*data.source)
    }
}

#[derive(Clone)]
struct Data {
    dims: Vec<u32>,
    batch: u32,
    source: Arc<dyn Source>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::of(DataType::Model)
    }
}

impl Builder {
    /// A builder of a Model file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder of a Parameter file: one tensor, with statistics; its name is not written.
    #[must_use]
    pub fn parameter_file() -> Self {
        Self::of(DataType::Parameter)
    }

    /// A builder of a Tensor file: one tensor; its name is not written.
    ///
    /// ```
    /// use primitiv_format::{Archive, Builder, DataType, Tensor, TensorOptions};
    ///
    /// let mut builder = Builder::tensor_file();
    /// let minibatch = Tensor::from_slice(&[1.0f32, 2.0], &[2])?;
    /// builder.tensor_with("", minibatch, TensorOptions::new().with_batch(2))?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// assert_eq!(archive.data_type(), DataType::Tensor);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tensor_file() -> Self {
        Self::of(DataType::Tensor)
    }

    fn of(object: DataType) -> Self {
        Self {
            object,
            split: true,
            sort: true,
            parameters: Vec::new(),
        }
    }

    /// Whether a name is split at `.` into the parts of an address. On unless set.
    pub fn split_names(&mut self, split: bool) -> &mut Self {
        self.split = split;
        self
    }

    /// Whether the parameters of a model are sorted by address. On unless set; else they keep
    /// the order of the calls.
    pub fn sort(&mut self, sort: bool) -> &mut Self {
        self.sort = sort;
        self
    }

    /// Adds a parameter; its bytes are shared, not copied.
    ///
    /// # Errors
    /// [`BuildError`] where the format can't hold the name, dtype, shape or order.
    pub fn tensor(&mut self, address: impl Into<Address>, tensor: Tensor) -> Result<&mut Self> {
        self.tensor_with(address, tensor, TensorOptions::new())
    }

    /// Adds a parameter with `options` of its own.
    ///
    /// See [`TensorOptions`].
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and where the last dim isn't the batch.
    pub fn tensor_with(
        &mut self,
        address: impl Into<Address>,
        tensor: Tensor,
        options: TensorOptions,
    ) -> Result<&mut Self> {
        let spec = TensorSpec::from(&tensor);
        self.deferred_with(address, spec, tensor.into_data(), options)
    }

    /// Adds a parameter whose little-endian bytes are pulled from `data` when the file is
    /// written. Trailing dims of 1 are not written: the format drops them.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and where `data` has another length than `spec` asks for.
    pub fn deferred(
        &mut self,
        address: impl Into<Address>,
        spec: TensorSpec,
        data: impl Source + 'static,
    ) -> Result<&mut Self> {
        self.deferred_with(address, spec, data, TensorOptions::new())
    }

    /// Adds a deferred parameter with `options` of its own.
    ///
    /// # Errors
    /// As [`deferred`](Self::deferred), and where the last dim isn't the batch.
    ///
    /// See [`Builder`].
    pub fn deferred_with(
        &mut self,
        address: impl Into<Address>,
        spec: TensorSpec,
        data: impl Source + 'static,
        options: TensorOptions,
    ) -> Result<&mut Self> {
        // The tensor of a Tensor file has no name to split.
        let split = self.split && self.object != DataType::Tensor;
        let path = address.into().into_path(split);
        let name = path.join(".");
        if path.is_empty() || name.len() as u64 > MAX_DATA {
            return Err(BuildError::Name {
                name: name.chars().take(60).collect(),
            }
            .into());
        }
        let value = plan(&name, &spec, options, Unchanged::shared(&name, data))?;
        self.parameters.push(Planned {
            path,
            value,
            stats: Vec::new(),
            stat_names: NameTable::default(),
        });
        Ok(self)
    }

    /// Adds a statistic to the parameter that was added last.
    ///
    /// ```
    /// use primitiv_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// builder.stat("adam.m1", Tensor::from_slice(&[0.5f32, 0.25], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// assert_eq!(archive.entry("w:adam.m1").unwrap().stat(), Some("adam.m1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and [`BuildError::StatFirst`].
    pub fn stat(&mut self, key: impl Into<String>, tensor: Tensor) -> Result<&mut Self> {
        let spec = TensorSpec::from(&tensor);
        self.deferred_stat(key, spec, tensor.into_data())
    }

    /// Adds a statistic whose bytes are pulled when the file is written.
    ///
    /// # Errors
    /// As [`deferred`](Self::deferred), and [`BuildError::StatFirst`].
    ///
    /// See [`Builder`].
    pub fn deferred_stat(
        &mut self,
        key: impl Into<String>,
        spec: TensorSpec,
        data: impl Source + 'static,
    ) -> Result<&mut Self> {
        self.deferred_stat_with(key, spec, data, TensorOptions::new())
    }

    /// Adds a deferred statistic with `options` of its own.
    ///
    /// # Errors
    /// As [`deferred_with`](Self::deferred_with), and [`BuildError::StatFirst`].
    ///
    /// See [`Builder`].
    pub fn deferred_stat_with(
        &mut self,
        key: impl Into<String>,
        spec: TensorSpec,
        data: impl Source + 'static,
        options: TensorOptions,
    ) -> Result<&mut Self> {
        let key = key.into();
        let Some(parameter) = self.parameters.last_mut() else {
            return Err(BuildError::StatFirst { name: key }.into());
        };
        let name = alloc::format!("{}:{key}", parameter.path.join("."));
        let data = plan(&name, &spec, options, Unchanged::shared(&name, data))?;
        parameter
            .stat_names
            .push(&mut parameter.stats, |(key, _)| key, (key.into(), data))
            .map_err(|_| BuildError::Duplicate { name })?;
        Ok(self)
    }

    /// A builder of the kind of object that `archive` holds, in the order of the calls, and still
    /// without tensors; `None` where that is a shape or an optimizer, which have none.
    ///
    /// ```
    /// use primitiv_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::parameter_file();
    /// builder.tensor("", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let mut copy = Builder::like(&archive).ok_or("no tensors")?;
    /// for entry in archive.entries() {
    ///     copy.copy(&archive, entry)?;
    /// }
    /// assert_eq!(copy.to_vec()?, builder.to_vec()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn like(archive: &Archive) -> Option<Self> {
        let mut builder = match archive.data_type() {
            DataType::Shape | DataType::Optimizer => return None,
            object => Self::of(object),
        };
        builder.sort = false;
        Some(builder)
    }

    /// Adds a tensor of an archive unchanged: a parameter with its address, or a statistic of
    /// the parameter that was added last. Its data is pulled when the file is written.
    ///
    /// # Errors
    /// As [`deferred_with`](Self::deferred_with) and [`deferred_stat_with`](Self::deferred_stat_with).
    ///
    /// ```
    /// use primitiv_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("b", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// builder.stat("Adam.m1", Tensor::from_slice(&[0.5f32], &[1])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    ///
    /// let mut copy = Builder::like(&archive).ok_or("no tensors")?;
    /// for entry in archive.entries() {
    ///     copy.copy(&archive, entry)?; // a parameter, then its statistics
    /// }
    /// assert_eq!(copy.to_vec()?, builder.to_vec()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy(&mut self, archive: &Archive, entry: Entry<'_>) -> Result<&mut Self> {
        let path: Vec<&str> = entry.path().collect();
        let path: &[&str] = if path.is_empty() { &[""] } else { &path };
        self.copy_as(path, archive, entry)
    }

    /// Adds a tensor of an archive unchanged, but at another address; a statistic goes to the
    /// parameter that was added last, wherever that is.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub fn copy_as(
        &mut self,
        address: impl Into<Address>,
        archive: &Archive,
        entry: Entry<'_>,
    ) -> Result<&mut Self> {
        let data = archive.data(entry)?;
        let spec = TensorSpec::new(DType::F32, entry.shape().clone()).with_order(entry.order());
        let options = TensorOptions::new().with_batch(entry.batch());
        match entry.stat() {
            Some(key) => self.deferred_stat_with(key, spec, data, options),
            None => self.deferred_with(address, spec, data, options),
        }
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// [`BuildError`] where the addresses conflict, or the object holds another number of tensors.
    pub fn encoded_len(&self) -> Result<u64> {
        let mut len = self.head()?.len() as u64;
        for parameter in self.in_order()? {
            len += parameter.key(self.object).len() as u64;
            len += parameter.value.head().len() as u64 + parameter.value.source.size();
            if self.object != DataType::Tensor {
                len += 5;
                for (key, data) in &parameter.stats {
                    let mut head = Vec::new();
                    put_str(&mut head, key);
                    len += (head.len() + data.head().len()) as u64 + data.source.size();
                }
            }
        }
        Ok(len)
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
        // What the format can't hold fails before the first byte.
        self.check()?;
        let sources = self.parameters.iter().flat_map(Planned::sources);
        tensor_core::codec::write_file(path, sources, options, |sink| self.write(sink, options))
    }

    /// Whether what was collected can be written.
    ///
    /// # Errors
    /// [`BuildError`] where the addresses conflict, or the object holds another number of tensors.
    pub fn check(&self) -> Result<()> {
        self.in_order().map(|_| ())
    }

    fn write<O: Output>(&self, sink: &mut Sink<O>, options: &WriteOptions<'_>) -> Result<()> {
        let parameters = self.in_order()?;
        let ticker = Ticker::new(options.progress);
        sink.put(&self.head()?)?;
        for parameter in parameters {
            sink.put(&parameter.key(self.object))?;
            let written = parameter.value.write(sink, &ticker);
            written.map_err(|error| error.of_tensor(&parameter.path.join(".")))?;
            if self.object == DataType::Tensor {
                continue;
            }
            let mut count = Vec::new();
            put_u32(&mut count, length(parameter.stats.len())?);
            sink.put(&count)?;
            for (key, data) in &parameter.stats {
                let mut head = Vec::new();
                put_str(&mut head, key);
                sink.put(&head)?;
                data.write(sink, &ticker).map_err(|error| {
                    let path = parameter.path.join(".");
                    error.of_tensor(&alloc::format!("{path}:{key}"))
                })?;
            }
        }
        Ok(())
    }

    fn head(&self) -> Result<Vec<u8>> {
        let mut head = header(self.object);
        if self.object == DataType::Model {
            put_u32(&mut head, length(self.parameters.len())?);
        }
        Ok(head)
    }

    /// The parameters as they will be written, after all checks that need to see all of them.
    fn in_order(&self) -> Result<Vec<&Planned>> {
        let count = self.parameters.len();
        let wrong = |object, expected| {
            Err(BuildError::Count {
                object,
                expected,
                got: count,
            }
            .into())
        };
        match self.object {
            DataType::Parameter if count != 1 => return wrong("Parameter", "exactly one tensor"),
            DataType::Tensor if count != 1 => return wrong("Tensor", "exactly one tensor"),
            DataType::Tensor if self.parameters.iter().any(|p| !p.stats.is_empty()) => {
                return wrong("Tensor", "no statistics");
            }
            _ => {}
        }
        let mut sorted: Vec<&Planned> = self.parameters.iter().collect();
        sorted.sort_by(|a, b| a.path.cmp(&b.path));
        for (shorter, longer) in sorted.iter().zip(sorted.iter().skip(1)) {
            if !longer.path.starts_with(&shorter.path) {
                continue;
            }
            let parameter = shorter.path.join(".");
            if longer.path.len() == shorter.path.len() {
                return Err(BuildError::Duplicate { name: parameter }.into());
            }
            return Err(BuildError::PathConflict {
                parameter,
                inner: longer.path.join("."),
            }
            .into());
        }
        if self.object != DataType::Tensor {
            if let Some(batched) = self.parameters.iter().find(|p| p.value.batch != 1) {
                let (name, batch) = (batched.path.join("."), batched.value.batch);
                return Err(BuildError::ValueBatch { name, batch }.into());
            }
        }
        Ok(if self.sort {
            sorted
        } else {
            self.parameters.iter().collect()
        })
    }
}

impl Planned {
    /// The address, in a model.
    fn key(&self, object: DataType) -> Vec<u8> {
        let mut key = Vec::new();
        if object == DataType::Model {
            put_array_len(&mut key, u32::try_from(self.path.len()).unwrap_or(u32::MAX));
            for part in &self.path {
                put_str(&mut key, part);
            }
        }
        key
    }
}

impl Data {
    /// Shape, and the head of the bin.
    fn head(&self) -> Vec<u8> {
        let mut head = Vec::new();
        put_array_len(
            &mut head,
            u32::try_from(self.dims.len()).unwrap_or(u32::MAX),
        );
        for &dim in &self.dims {
            put_u32(&mut head, dim);
        }
        put_u32(&mut head, self.batch);
        put_bin_len(
            &mut head,
            u32::try_from(self.source.size()).unwrap_or(u32::MAX),
        );
        head
    }

    fn write<O: Output>(&self, sink: &mut Sink<O>, ticker: &Ticker<'_>) -> Result<()> {
        sink.put(&self.head())?;
        Ok(sink.copy_from(&self.source, ticker)?)
    }
}

impl Optimizer {
    /// The Optimizer file.
    ///
    /// # Errors
    /// [`BuildError::TooMany`] where there are more than 2^32-1 configurations.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut out = header(DataType::Optimizer);
        put_map_len(&mut out, length(self.uints.len())?);
        for (key, value) in &self.uints {
            put_str(&mut out, key);
            put_u32(&mut out, *value);
        }
        put_map_len(&mut out, length(self.floats.len())?);
        for (key, value) in &self.floats {
            put_str(&mut out, key);
            put_f32(&mut out, *value);
        }
        Ok(out)
    }

    /// Writes the Optimizer file at `path`, as [`Builder::write_file`] does.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), and what the operating system says.
    ///
    /// ```
    /// use primitiv_format::{Archive, DataType, Optimizer, WriteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("sgd.optimizer");
    /// let mut optimizer = Optimizer::new();
    /// optimizer.float("SGD.eta", 0.5)?;
    /// optimizer.write_file(&path)?;
    /// assert_eq!(Archive::open(&path)?.data_type(), DataType::Optimizer);
    /// let once = WriteOptions::default().with_create_new(true);
    /// assert!(optimizer.write_file_with(&path, &once).is_err()); // there is a file
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn write_file(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        self.write_file_with(path, &WriteOptions::default())
    }

    /// Writes the file at `path` with `options`; it is too small to show progress.
    ///
    /// [`write_file`](Self::write_file) has an example.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file).
    #[cfg(feature = "std")]
    pub fn write_file_with(
        &self,
        path: impl AsRef<std::path::Path>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let bytes = self.to_vec()?;
        tensor_core::codec::write_file(path, [], options, |sink| Ok(sink.put(&bytes)?))
    }
}

fn header(object: DataType) -> Vec<u8> {
    let mut header = Vec::new();
    for word in [VERSION.0, VERSION.1, object.code()] {
        put_u32(&mut header, word);
    }
    header
}

/// Checks a tensor and takes its shape apart.
fn plan(
    name: &str,
    spec: &TensorSpec,
    options: TensorOptions,
    source: Arc<dyn Source>,
) -> Result<Data, BuildError> {
    let name = || name.to_string();
    let (dtype, shape, batch) = (spec.dtype(), spec.shape(), options.batch);
    if dtype != DType::F32 {
        return Err(BuildError::DType {
            name: name(),
            dtype,
        });
    }
    if !spec.is_in(Order::ColumnMajor) {
        return Err(BuildError::Order { name: name() });
    }
    let elements = shape.elements();
    if elements == 0 {
        return Err(BuildError::Empty { name: name() });
    }
    if elements.saturating_mul(4) > MAX_DATA {
        return Err(BuildError::TooLarge {
            name: name(),
            elements,
        });
    }
    if let Err(error) = spec.check_len(source.size()) {
        let name = name();
        return Err(BuildError::Shape { name, error });
    }
    let mut dims = shape.dims().to_vec();
    if batch != 1 && dims.pop() != Some(batch.into()) {
        return Err(BuildError::ValueBatch {
            name: name(),
            batch,
        });
    }
    while dims.last() == Some(&1) {
        dims.pop();
    }
    if dims.len() > MAX_RANK as usize {
        return Err(BuildError::Rank {
            name: name(),
            rank: dims.len(),
        });
    }
    // Each is at most the number of elements, which fits.
    let dims = dims
        .iter()
        .map(|&dim| u32::try_from(dim).unwrap_or(u32::MAX))
        .collect();
    Ok(Data {
        dims,
        batch,
        source,
    })
}

fn length(count: usize) -> Result<u32, BuildError> {
    u32::try_from(count).map_err(|_| BuildError::TooMany)
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("object", &self.object)
            .field("parameters", &self.parameters.len())
            .finish_non_exhaustive()
    }
}
