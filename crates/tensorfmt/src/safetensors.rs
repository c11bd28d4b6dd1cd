//! The bridge to everyone else: `.safetensors`, read lazily and written in call order.
//!
//! The dtypes are the `safetensors` crate's; this module reads no more of a file than
//! that header, and writes files whose bytes depend on nothing but the calls.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use ::safetensors::tensor::Dtype;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use tensor_core::{
    ArchiveId, At, AtomicFile, Bytes, CastError, DType, FileError, Item, Kind, LimitExceeded,
    NameTable, Order, Outcome, Report, Shape, ShapeError, Sink, SinkError, Source, SourceError,
    Tensor, Ticker, TransferError, Truncated, VerifyOptions, Window, WriteOptions, hinted_vec,
};

/// The longest header that the safetensors crate accepts, in bytes.
pub const MAX_HEADER: u64 = 100_000_000;

/// Bytes of memory that the list of tensors may take beyond the size of the file. A tensor takes
/// some 170 bytes; this only stops files of hundreds of thousands of tensors without data.
pub const MAX_INDEX_OVERHEAD: u64 = 64 << 20;

/// Why a safetensors file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The header is no valid header.
    #[error("invalid safetensors file: {message} ({at})")]
    Invalid {
        /// What is wrong.
        message: String,
        /// Where.
        at: At,
    },
    /// The file ends too early.
    #[error("invalid safetensors file: {0}")]
    Truncated(#[from] Truncated),
    /// The tensor's dtype is unknown or narrower than a byte.
    #[error("unsupported: dtype {dtype} of tensor {name:?}")]
    Unsupported {
        /// The tensor.
        name: String,
        /// Its dtype as the header spells it.
        dtype: String,
    },
    /// The header is above [`MAX_HEADER`].
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The caller asked for something that the format or the call can't do.
    #[error("{0}")]
    Build(String),
    /// A typed view was asked for that the tensor can't give.
    #[error(transparent)]
    Cast(#[from] CastError),
    /// The bytes could not be had.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The bytes could not be delivered.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A file could not be created.
    #[error(transparent)]
    File(#[from] FileError),
    /// The caller's progress function asked to stop.
    #[error("stopped on request")]
    Cancelled,
}

type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whose fault it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Invalid { .. } | Self::Truncated(_) => Kind::Invalid,
            Self::Unsupported { .. } => Kind::Unsupported,
            Self::Limit(_) => Kind::Limit,
            Self::Build(_) | Self::Cast(_) => Kind::Build,
            Self::File(error) => error.kind(),
            Self::Source(error) => error.kind(),
            Self::Sink(_) => Kind::Io,
            Self::Cancelled => Kind::Cancelled,
        }
    }

    /// A stable name of what is wrong.
    pub fn rule_id(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { .. } => Some("safetensors.header"),
            Self::Truncated(_) => Some("safetensors.truncated"),
            Self::Unsupported { .. } => Some("safetensors.dtype"),
            Self::Limit(limit) => Some(limit.limit),
            Self::Source(error) => error.rule_id(),
            _ => None,
        }
    }

    /// Where in the file it went wrong.
    pub fn at(&self) -> Option<At> {
        match self {
            Self::Invalid { at, .. } => Some(*at),
            Self::Truncated(truncated) => Some(truncated.at),
            Self::Limit(limit) => Some(limit.at),
            Self::Source(error) => error.at(),
            _ => None,
        }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid {
            message: message.into(),
            at: At::new(8, "header"),
        }
    }
}

impl From<TransferError> for Error {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Source(source) => Self::Source(source),
            TransferError::Sink(sink) => Self::Sink(sink),
            TransferError::Cancelled => Self::Cancelled,
        }
    }
}

/// The element type of a header's spelling; `None` where it is unknown or narrower than a byte.
fn dtype_of(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::BOOL => DType::Bool,
        Dtype::U8 => DType::U8,
        Dtype::I8 => DType::I8,
        Dtype::U16 => DType::U16,
        Dtype::I16 => DType::I16,
        Dtype::U32 => DType::U32,
        Dtype::I32 => DType::I32,
        Dtype::U64 => DType::U64,
        Dtype::I64 => DType::I64,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::F8_E4M3 => DType::F8E4M3,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::F8_E4M3FNUZ => DType::F8E4M3Fnuz,
        Dtype::F8_E5M2FNUZ => DType::F8E5M2Fnuz,
        Dtype::F8_E8M0 => DType::F8E8M0,
        Dtype::C64 => DType::C64,
        _ => return None,
    })
}

/// The header's spelling of an element type; `None` where the format has none.
pub(crate) fn name_of(dtype: DType) -> Option<Dtype> {
    let all = [
        Dtype::BOOL,
        Dtype::U8,
        Dtype::I8,
        Dtype::U16,
        Dtype::I16,
        Dtype::U32,
        Dtype::I32,
        Dtype::U64,
        Dtype::I64,
        Dtype::F16,
        Dtype::BF16,
        Dtype::F32,
        Dtype::F64,
        Dtype::F8_E4M3,
        Dtype::F8_E5M2,
        Dtype::F8_E4M3FNUZ,
        Dtype::F8_E5M2FNUZ,
        Dtype::F8_E8M0,
        Dtype::C64,
    ];
    all.into_iter().find(|&name| dtype_of(name) == Some(dtype))
}

/// Spellings that need no memory of their own.
const SPELLINGS: [&str; 15] = [
    "BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "BF16", "F32", "F64",
    "F8_E4M3", "F8_E5M2",
];

/// An open safetensors file: its header, with the data read on demand.
#[derive(Clone)]
pub struct Archive {
    source: Arc<dyn Source>,
    index: Arc<Index>,
}

#[derive(Debug)]
struct Index {
    id: ArchiveId,
    entries: Vec<Entry>,
    names: NameTable,
    metadata: Vec<(String, String)>,
}

/// One tensor of an [`Archive`].
#[derive(Clone, Debug)]
pub struct Entry {
    archive: ArchiveId,
    name: Box<str>,
    spelling: Cow<'static, str>,
    dtype: Option<DType>,
    shape: Shape,
    offset: u64,
    len: u64,
}

impl Entry {
    /// The tensor's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dtype as the header spells it.
    pub fn dtype_code(&self) -> &str {
        &self.spelling
    }

    /// The dtype, `None` where it is unknown or narrower than a byte.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The dims, outermost first.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Always row-major.
    pub fn order(&self) -> Order {
        Order::RowMajor
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
    /// Opens any source of bytes; reads the header alone.
    ///
    /// # Errors
    /// What the file breaks, or what the source fails with.
    pub fn from_source(source: impl Source + 'static) -> Result<Self> {
        let index = Index::parse(&source)?;
        Ok(Self {
            source: Arc::new(source),
            index: Arc::new(index),
        })
    }

    /// Opens a file that is in memory.
    ///
    /// # Errors
    /// What the file breaks.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        Self::from_source(bytes.into())
    }

    /// All tensors, in the order of their data.
    pub fn entries(&self) -> &[Entry] {
        &self.index.entries
    }

    /// The tensor of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        let at = self
            .index
            .names
            .find(&self.index.entries, Entry::name, name)?;
        self.index.entries.get(at)
    }

    /// The pairs of `__metadata__`, in header order.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.index.metadata
    }

    /// Size of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.source.size()
    }

    /// The file that is read, `None` where the bytes come from elsewhere.
    pub fn file(&self) -> Option<&tensor_core::FileId> {
        self.source.file()
    }

    /// Reads a tensor.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a dtype that is unknown, or what the source fails with.
    pub fn read(&self, entry: &Entry) -> Result<Tensor> {
        let (dtype, range) = self.locate(entry)?;
        let data = self.source.read(range)?;
        Tensor::new(dtype, entry.shape.clone(), data)
            .map_err(|error| Error::Build(error.to_string()))
    }

    /// A tensor's bytes as a source of their own.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn data(&self, entry: &Entry) -> Result<Arc<dyn Source>> {
        let (_, range) = self.locate(entry)?;
        Ok(Arc::new(Window::new(self.source.clone(), range)?))
    }

    /// Says for each tensor that the format has no checksum; the structure was checked on open.
    ///
    /// # Errors
    /// None today.
    pub fn verify(&self, _: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        report.push(Item::new("header", Outcome::Ok).with_note("structure"));
        for entry in self.entries() {
            report.push(match entry.dtype {
                Some(_) => Item::new(entry.name(), Outcome::NotCovered),
                None => Item::new(entry.name(), Outcome::Unsupported)
                    .with_note(format!("dtype {}", entry.spelling)),
            });
        }
        Ok(report)
    }

    fn locate(&self, entry: &Entry) -> Result<(DType, Range<u64>)> {
        if entry.archive != self.index.id {
            return Err(Error::Build("the entry belongs to another archive".into()));
        }
        let Some(dtype) = entry.dtype else {
            let (name, dtype) = (entry.name().to_owned(), entry.spelling.to_string());
            return Err(Error::Unsupported { name, dtype });
        };
        Ok((dtype, entry.offset..entry.offset + entry.len))
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("file_len", &self.file_len())
            .field("entries", &self.entries().len())
            .finish_non_exhaustive()
    }
}

impl Index {
    fn parse(source: &dyn Source) -> Result<Self> {
        let size = source.size();
        let at = At::new(0, "header length");
        if size < 8 {
            return Err(Truncated {
                at,
                needed: 8,
                available: size,
            }
            .into());
        }
        let head = source.read(0..8)?;
        let len = u64::from_le_bytes(head.as_ref().try_into().unwrap_or_default());
        if len > size - 8 {
            return Err(Truncated {
                at,
                needed: len,
                available: size - 8,
            }
            .into());
        }
        if len > MAX_HEADER {
            let limit = "safetensors::MAX_HEADER";
            return Err(LimitExceeded {
                limit,
                value: len,
                max: MAX_HEADER,
                at,
            }
            .into());
        }
        let data_start = 8 + len;
        let text = source.read(8..data_start)?;
        let memory = Cell::new(0);
        let most = size.saturating_add(MAX_INDEX_OVERHEAD);
        let header = HeaderOf {
            memory: &memory,
            most,
        };
        let mut parser = serde_json::Deserializer::from_slice(&text);
        let header = header.deserialize(&mut parser);
        let header = header.and_then(|header| parser.end().map(|()| header));
        let header = header.map_err(|error| match memory.get() > most {
            true => Error::Limit(LimitExceeded {
                limit: "safetensors::MAX_INDEX_OVERHEAD",
                value: memory.get() - size,
                max: MAX_INDEX_OVERHEAD,
                at: At::new(8, "header"),
            }),
            false => Error::invalid(error.to_string()),
        })?;
        // It is gone where it was read from a file.
        drop(text);
        let Header {
            id,
            mut entries,
            metadata,
        } = header;
        entries.sort_by_key(|entry| (entry.offset, entry.len));
        check(&entries, size - data_start)?;
        for entry in &mut entries {
            entry.offset += data_start;
        }
        let names = NameTable::of(&entries, Entry::name).map_err(|twice| {
            let name = entries.get(twice.second).map_or("", Entry::name);
            Error::invalid(format!("tensor {name:?} is listed twice"))
        })?;
        Ok(Self {
            id,
            entries,
            names,
            metadata,
        })
    }
}

/// The header as it stands: order and duplicates stay visible, offsets are those of the header.
struct Header {
    id: ArchiveId,
    metadata: Vec<(String, String)>,
    entries: Vec<Entry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Info {
    dtype: String,
    shape: Vec<u64>,
    #[serde(rename = "data_offsets")]
    range: (u64, u64),
}

/// What a dtype is called in headers, if the safetensors crate knows it.
fn known(spelling: &str) -> Option<Dtype> {
    let text: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
        spelling.into_deserializer();
    Dtype::deserialize(text).ok()
}

/// Checks ranges and sizes of entries in the order of their data: all of it where every dtype is
/// known, else only that the ranges fit.
fn check(entries: &[Entry], data_len: u64) -> Result<()> {
    if let Some(entry) = entries.iter().find(|entry| {
        entry
            .offset
            .checked_add(entry.len)
            .is_none_or(|end| end > data_len)
    }) {
        let (name, start, len) = (&entry.name, entry.offset, entry.len);
        return Err(Error::invalid(format!(
            "tensor {name:?} takes {len} bytes from {start} on, of {data_len} bytes of data"
        )));
    }
    if entries.iter().any(|entry| known(&entry.spelling).is_none()) {
        return Ok(());
    }
    let mut taken = 0;
    for entry in entries {
        let name = &entry.name;
        let bits = known(&entry.spelling).and_then(|dtype| bits(entry.shape.dims(), dtype));
        if entry.offset != taken {
            return Err(Error::invalid(format!(
                "tensor {name:?} overlaps another or leaves a gap"
            )));
        }
        if bits.is_none_or(|bits| entry.len.checked_mul(8) != Some(bits)) {
            return Err(Error::invalid(format!(
                "the range of tensor {name:?} is not what its dtype and shape ask for"
            )));
        }
        taken += entry.len;
    }
    if taken != data_len {
        return Err(Error::invalid(format!(
            "the tensors take {taken} bytes, the file has {data_len} of data"
        )));
    }
    Ok(())
}

/// Parses a [`Header`], and stops where its entries take more memory than they may.
struct HeaderOf<'a> {
    memory: &'a Cell<u64>,
    most: u64,
}

impl HeaderOf<'_> {
    /// Counts the memory of one entry, with what a growing list has to spare.
    fn take<E: serde::de::Error>(&self, entry: &Entry) -> Result<(), E> {
        let fixed = size_of::<Entry>() as u64 * 9 / 8 + NameTable::MEMORY;
        let more = entry.name.len() as u64 + entry.shape.heap_bytes();
        let memory = self.memory.get() + fixed + more;
        self.memory.set(memory);
        match memory > self.most {
            true => Err(E::custom("too many tensors")),
            false => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for HeaderOf<'_> {
    type Value = Header;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Header, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeaderOf<'_> {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        use serde::de::Error;

        let mut header = Header {
            id: ArchiveId::next(),
            metadata: Vec::new(),
            entries: Vec::new(),
        };
        let mut seen = false;
        while let Some(key) = map.next_key::<String>()? {
            if key != "__metadata__" {
                let entry =
                    entry_of(header.id, key, map.next_value()?).map_err(A::Error::custom)?;
                self.take(&entry)?;
                let entries = &mut header.entries;
                if entries.len() == entries.capacity() {
                    entries.reserve_exact(entries.len() / 8 + 64);
                }
                entries.push(entry);
            } else if seen {
                return Err(A::Error::custom("__metadata__ is there twice"));
            } else {
                seen = true;
                header.metadata = map.next_value::<Pairs>()?.0;
            }
        }
        Ok(header)
    }
}

fn entry_of(archive: ArchiveId, name: String, info: Info) -> Result<Entry, String> {
    let shape = Shape::new(&info.shape).map_err(|error| error.to_string())?;
    let (offset, end) = info.range;
    let Some(len) = end.checked_sub(offset) else {
        return Err(format!("tensor {name:?} ends before it starts"));
    };
    let dtype = known(&info.dtype).and_then(dtype_of);
    let spelling = SPELLINGS.iter().find(|&&known| known == info.dtype);
    Ok(Entry {
        archive,
        name: name.into(),
        spelling: spelling.map_or(Cow::Owned(info.dtype), |&known| Cow::Borrowed(known)),
        dtype,
        shape,
        offset,
        len,
    })
}

/// Text pairs in order, each key once.
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;

        impl<'de> Visitor<'de> for Visit {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of text to text")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                let twice = NameTable::of(&pairs, |(key, _): &(String, String)| key).err();
                match twice.and_then(|twice| pairs.get(twice.second)) {
                    Some((key, _)) => Err(serde::de::Error::custom(format!(
                        "metadata key {key:?} is there twice"
                    ))),
                    None => Ok(Pairs(pairs)),
                }
            }

            fn visit_unit<E>(self) -> Result<Pairs, E> {
                Ok(Pairs(Vec::new()))
            }
        }

        deserializer.deserialize_any(Visit)
    }
}

/// Collects tensors and metadata, then writes a file at once: tensors in call order, metadata
/// sorted by key.
#[derive(Default)]
pub struct Builder {
    metadata: Vec<(String, String)>,
    metadata_names: NameTable,
    tensors: Vec<Planned>,
    names: NameTable,
}

struct Planned {
    name: String,
    dtype: Dtype,
    shape: Shape,
    data: Arc<dyn Source>,
}

impl Builder {
    /// A builder of a file with no tensor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pair of `__metadata__`.
    ///
    /// # Errors
    /// [`Error::Build`] where the key is taken.
    pub fn metadata(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<&mut Self> {
        self.metadata_names
            .push(
                &mut self.metadata,
                |(key, _)| key,
                (key.into(), value.into()),
            )
            .map_err(|(key, _)| Error::Build(format!("metadata key {key:?} is used already")))?;
        Ok(self)
    }

    /// Adds a tensor; its bytes are shared, not copied.
    ///
    /// # Errors
    /// [`Error::Build`] where the format can't hold it.
    pub fn tensor(&mut self, name: impl Into<String>, tensor: Tensor) -> Result<&mut Self> {
        let (dtype, shape, order) = (tensor.dtype(), tensor.shape().clone(), tensor.order());
        self.deferred(name, dtype, shape, order, tensor.data().clone())
    }

    /// Adds a tensor whose little-endian bytes are pulled from `data` when the file is written.
    ///
    /// # Errors
    /// [`Error::Build`] where the format can't hold it, or `data` has the wrong length.
    pub fn deferred(
        &mut self,
        name: impl Into<String>,
        dtype: DType,
        shape: Shape,
        order: Order,
        data: impl Source + 'static,
    ) -> Result<&mut Self> {
        let name = name.into();
        let fail = |why: String| Err(Error::Build(format!("tensor {name:?}: {why}")));
        if name == "__metadata__" {
            return fail("the name is the format's own".into());
        }
        let Some(spelling) = name_of(dtype) else {
            return fail(format!("a safetensors file can't hold {dtype}"));
        };
        if order != Order::RowMajor && !shape.is_order_free() {
            return fail("column-major; transpose it first".into());
        }
        match shape.byte_len(dtype) {
            Ok(Some(expected)) if expected != data.size() => {
                return fail(
                    ShapeError::DataLength {
                        expected,
                        got: data.size(),
                    }
                    .to_string(),
                );
            }
            Ok(_) => {}
            Err(error) => return fail(error.to_string()),
        }
        if bits(shape.dims(), spelling).is_none() {
            return fail(format!("readers can't multiply the dims of {shape}"));
        }
        let tensor = Planned {
            name,
            dtype: spelling,
            shape,
            data: Arc::new(data),
        };
        self.names
            .push(&mut self.tensors, |tensor| &tensor.name, tensor)
            .map_err(|tensor| {
                Error::Build(format!("tensor name {:?} is used already", tensor.name))
            })?;
        Ok(self)
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// [`Error::Build`] where the header is above [`MAX_HEADER`].
    pub fn encoded_len(&self) -> Result<u64> {
        let data = self.tensors.iter().map(|tensor| tensor.data.size());
        let sum = data.fold(self.header()?.len() as u64, u64::saturating_add);
        Ok(sum)
    }

    /// The file in memory.
    ///
    /// # Errors
    /// As [`encoded_len`](Self::encoded_len), and what a deferred tensor's source fails with.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut sink = Sink::new(hinted_vec(self.encoded_len()?));
        self.write(&mut sink, &WriteOptions::default())?;
        Ok(sink.into_inner())
    }

    /// Writes the file to `out`, front to back.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), and what `out` fails with.
    pub fn write_to_with(&self, out: impl io::Write, options: &WriteOptions<'_>) -> Result<()> {
        self.write(&mut Sink::new(out), options)
    }

    /// Writes the file at `path`, which appears only when it is complete.
    ///
    /// # Errors
    /// As [`write_to_with`](Self::write_to_with); the target is then as it was.
    pub fn write_file_with(
        &self,
        path: impl AsRef<Path>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        self.header()?;
        let sources = self.tensors.iter().map(|tensor| &*tensor.data);
        let mut sink = Sink::new(AtomicFile::create_from(path, sources, options)?);
        self.write(&mut sink, options)?;
        Ok(sink.into_inner().commit()?)
    }

    fn write<O: tensor_core::Output>(
        &self,
        sink: &mut Sink<O>,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        sink.put(&self.header()?)?;
        let ticker = Ticker::new(options.progress);
        for tensor in &self.tensors {
            sink.copy_from(&tensor.data, &ticker)?;
        }
        Ok(())
    }

    /// Length and JSON, padded with spaces so that the data starts at a multiple of 8.
    fn header(&self) -> Result<Vec<u8>> {
        let mut text = vec![0; 8];
        text.push(b'{');
        let mut metadata: Vec<_> = self.metadata.iter().collect();
        metadata.sort();
        if !metadata.is_empty() {
            let pairs = metadata
                .iter()
                .map(|(key, value)| format!("{}:{}", quoted(key), quoted(value)));
            let pairs: Vec<_> = pairs.collect();
            text.extend_from_slice(format!("\"__metadata__\":{{{}}}", pairs.join(",")).as_bytes());
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            if text.len() > 9 {
                text.push(b',');
            }
            let end = offset
                .checked_add(tensor.data.size())
                .ok_or_else(|| Error::Build("more than 2^64-1 bytes of data".into()))?;
            let dims: Vec<_> = tensor.shape.dims().iter().map(u64::to_string).collect();
            let info = format!(
                "{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{offset},{end}]}}",
                quoted(&tensor.name),
                tensor.dtype,
                dims.join(","),
            );
            text.extend_from_slice(info.as_bytes());
            offset = end;
        }
        text.push(b'}');
        text.resize(text.len().next_multiple_of(8), b' ');
        let len = text.len() as u64 - 8;
        if len > MAX_HEADER {
            return Err(Error::Build(format!(
                "the header would take {len} bytes; readers accept {MAX_HEADER}"
            )));
        }
        if let Some(field) = text.get_mut(..8) {
            field.copy_from_slice(&len.to_le_bytes());
        }
        Ok(text)
    }
}

/// The number of bits, if it fits 64 bits at every step from the left, as readers count them: a
/// dim of 0 does not help once what is before it is too much.
fn bits(dims: &[u64], dtype: Dtype) -> Option<u64> {
    dims.iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim))
        .and_then(|elements| elements.checked_mul(dtype.bitsize() as u64))
}

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("metadata", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}
