use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use tensor_core::{
    ArchiveId, At, Bytes, DType, Item, Order, Outcome, Report, Shape, Source, Tensor, Ticker,
    Value, VerifyOptions, Window, parallel,
};

use crate::chunk::{Chunk, FourCc};
use crate::index::{FIELDS, Index};
use crate::integrity::{hex, parse_phsh, payload};
use crate::msgpack::{Decoder, Fault};
use crate::tree::blake3_of;
use crate::{BuildError, DTypeCode, Error, Limits, Result, Rule, Unsupported};

/// How to open a file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// What the reader takes on.
    pub limits: Limits,
    /// Whether to check header, TOC and string table against IHSH, where there is one. On by
    /// default.
    pub check_control: bool,
    /// Open files whose tensor index overran the weights, as the reference writer leaves them
    /// when tensor hashes are on. A tensor is then read only if its own hash is right. Off by
    /// default.
    pub salvage: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            check_control: true,
            salvage: false,
        }
    }
}

/// An open AERO file: its chunks and a list of its tensors, whose data is read on demand. Cheap
/// to clone, and shared between threads freely.
#[derive(Clone)]
pub struct Archive {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) index: Arc<Index>,
    options: ReadOptions,
}

/// One tensor of an [`Archive`] or a `Set`, as the tensor index describes it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) archive: ArchiveId,
    pub(crate) ordinal: usize,
    pub(crate) name: Box<str>,
    pub(crate) code: DTypeCode,
    pub(crate) shape: Shape,
    pub(crate) shard_id: u32,
    pub(crate) data_off: u64,
    pub(crate) data_len: u64,
    pub(crate) offset: u64,
    /// Bytes that count, `None` where the dtype is unknown.
    pub(crate) len: Option<u64>,
    pub(crate) flags: u64,
    pub(crate) hash_b3: Option<[u8; 32]>,
    pub(crate) quant_id: Option<i64>,
    /// Where in the index the tensor's map is.
    pub(crate) raw: Range<usize>,
}

impl Entry {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dtype code as stored.
    pub fn dtype_code(&self) -> DTypeCode {
        self.code
    }

    /// The dtype: [`DType::Opaque`] for packed data, `None` where the code is unknown.
    pub fn dtype(&self) -> Option<DType> {
        self.code.dtype()
    }

    /// The dims, outermost first.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Always row-major.
    pub fn order(&self) -> Order {
        Order::RowMajor
    }

    /// Absolute offset of the data in its file; 0 where that is a part of a set.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that the tensor takes in the file: data_len, which may be more than it needs.
    pub fn stored_len(&self) -> Option<u64> {
        Some(self.data_len)
    }

    /// Bytes of the data, `None` where the dtype is unknown.
    pub fn nbytes(&self) -> Option<u64> {
        self.len
    }

    /// The shard that holds the data; in a set counted through all parts.
    pub fn shard_id(&self) -> u32 {
        self.shard_id
    }

    /// Offset of the data within its shard.
    pub fn data_off(&self) -> u64 {
        self.data_off
    }

    /// The flags; no bit has a meaning yet.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// BLAKE3-256 of the data, where the index has it.
    pub fn hash_b3(&self) -> Option<&[u8; 32]> {
        self.hash_b3.as_ref()
    }

    /// Which quantization descriptor of the JSON metadata describes the data.
    pub fn quant_id(&self) -> Option<i64> {
        self.quant_id
    }
}

impl Archive {
    /// Opens the file at `path`: reads header, TOC, string table and tensor index, no weights.
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
    /// # let path = folder.path().join("model.aero");
    /// # let mut builder = aero_format::Builder::new();
    /// # builder.tensor("w", aero_format::Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # builder.write_file(&path)?;
    /// use aero_format::{Archive, Kind, ReadOptions};
    ///
    /// let mut options = ReadOptions::default();
    /// options.limits.max_chunks = 2;
    /// let error = Archive::open_with(&path, &options).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert_eq!(error.rule_id(), Some("max_chunks"));
    /// assert!(error.to_string().contains("model.aero"));
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
            options: *options,
        })
    }

    /// All tensors, in index order.
    pub fn entries(&self) -> &[Entry] {
        &self.index.entries
    }

    /// The tensor of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.index.find(name)
    }

    /// All chunks, in TOC order.
    pub fn chunks(&self) -> &[Chunk] {
        &self.index.chunks
    }

    /// The chunk of this type and name.
    pub fn chunk(&self, fourcc: FourCc, name: &str) -> Option<&Chunk> {
        self.index.chunk(fourcc, name)
    }

    /// A chunk's decompressed bytes, checked against its hash. For a weight shard that is all of
    /// it; [`data`](Self::data) reads single tensors.
    ///
    /// # Errors
    /// What the chunk breaks, or what the source fails with.
    pub fn chunk_data(&self, chunk: &Chunk) -> Result<Bytes> {
        let limits = Limits {
            max_metadata_ulen: u64::MAX,
            ..self.options.limits
        };
        let limits = if chunk.is_zstd() {
            &self.options.limits
        } else {
            &limits
        };
        payload(&self.source, chunk, limits)
    }

    /// The file's identity.
    pub fn uuid(&self) -> &[u8; 16] {
        &self.index.header.uuid
    }

    /// The format version: always 0.1.
    pub fn version(&self) -> (u16, u16) {
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

    /// Whether this is the index of a set: tensors without weights.
    pub fn is_in_parts(&self) -> bool {
        self.index.in_parts
    }

    /// The pairs of the first JSON chunk, empty without one.
    ///
    /// # Errors
    /// What the chunk breaks, or what the source fails with.
    pub fn metadata(&self) -> Result<Vec<(String, Value)>> {
        let Some(chunk) = self.index.first(FourCc::MJSN) else {
            return Ok(Vec::new());
        };
        match self.json(chunk)? {
            Value::Map(pairs) => Ok(pairs
                .into_iter()
                .filter_map(|(key, value)| Some((key.as_str()?.to_string(), value)))
                .collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// The manifest, `None` without one.
    ///
    /// # Errors
    /// What the chunk breaks, or what the source fails with.
    pub fn manifest(&self) -> Result<Option<Value>> {
        let Some(chunk) = self.index.first(FourCc::MMSG) else {
            return Ok(None);
        };
        self.msgpack(chunk).map(Some)
    }

    /// Everything that the index says about a tensor beyond the fields that the format writes,
    /// and `quant_params`.
    pub fn extra(&self, entry: &Entry) -> Vec<(String, Value)> {
        let raw = self.index.tidx.get(entry.raw.clone()).unwrap_or_default();
        let mut decoder = Decoder::new(raw, self.options.limits.max_depth);
        let mut extra = Vec::new();
        // The index was decoded before, so nothing here fails.
        for _ in 0..decoder.map().unwrap_or(0) {
            let Ok(key) = decoder.key() else { break };
            match (key, decoder.value()) {
                (Some(key), Ok(value)) if key == "quant_params" || !FIELDS.contains(&key) => {
                    extra.push((key.to_string(), value));
                }
                (_, Ok(_)) => {}
                (_, Err(_)) => break,
            }
        }
        extra
    }

    /// Reads a tensor: a slice where the source is memory, else one read into an aligned buffer.
    /// A salvaging archive checks the tensor's own hash, and refuses one that has none.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the dtype is unknown or the data is in the parts of a set,
    /// [`BuildError::ForeignEntry`] where the entry is another archive's, or what the source
    /// fails with.
    pub fn read(&self, entry: &Entry) -> Result<Tensor> {
        let (dtype, range) = self.locate(entry)?;
        let data = self.source.read(range)?;
        if self.options.salvage {
            self.salvaged(entry, || {
                let range = self.stored(entry);
                blake3_of(&self.source, range, 1, &Ticker::default())
            })?;
        }
        Tensor::new(dtype, entry.shape.clone(), data).map_err(|error| {
            BuildError::Shape {
                name: entry.name.to_string(),
                error,
            }
            .into()
        })
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`BuildError::BufferLength`].
    pub fn read_into(&self, entry: &Entry, out: &mut [u8]) -> Result<()> {
        let (_, range) = self.locate(entry)?;
        let (expected, got) = (range.end - range.start, out.len() as u64);
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
        let (_, range) = self.locate(entry)?;
        if self.options.salvage {
            self.salvaged(entry, || {
                let range = self.stored(entry);
                blake3_of(&self.source, range, 0, &Ticker::default())
            })?;
        }
        Ok(Arc::new(Window::new(self.source.clone(), range)?))
    }

    /// Bytes of a tensor, checked by the page against the page hashes of its shard: only the
    /// pages that hold `range` are read.
    ///
    /// # Errors
    /// [`Rule::PhshDigest`] where a page is damaged, [`Rule::Phsh`] where the shard has no page
    /// hashes, and as [`read`](Self::read).
    pub fn read_verified(&self, entry: &Entry, range: Range<u64>) -> Result<Bytes> {
        let (_, data) = self.locate(entry)?;
        let wanted = data.start.saturating_add(range.start)..data.start.saturating_add(range.end);
        if range.start > range.end || wanted.end > data.end {
            let (expected, got) = (data.end - data.start, range.end);
            return Err(BuildError::BufferLength { expected, got }.into());
        }
        let name = format!("weights.shard{}", entry.shard_id);
        let at = At::new(entry.offset, "digests");
        let missing = || Error::Invalid {
            rule: Rule::Phsh,
            at,
        };
        let shard = self.index.chunk(FourCc::WTSH, &name).ok_or_else(missing)?;
        let hashes = self
            .index
            .chunk(FourCc::PHSH, &format!("{name}.phsh"))
            .ok_or_else(missing)?;
        let limits = &self.options.limits;
        let bytes = payload(&self.source, hashes, limits)?;
        let pages = parse_phsh(&bytes, &name, shard.length, at, limits)?;
        let (start, end) = (wanted.start - shard.offset, wanted.end - shard.offset);
        let mut page = start / pages.page_size;
        while page * pages.page_size < end {
            let from = page * pages.page_size;
            let to = (from + pages.page_size).min(shard.length);
            let range = shard.offset + from..shard.offset + to;
            let digest = blake3_of(&self.source, range, 1, &Ticker::default())?;
            let expected = usize::try_from(page)
                .ok()
                .and_then(|page| pages.digests.get(page));
            if expected != Some(&digest) {
                let at = At::new(shard.offset + from, "digests");
                return Err(Error::Invalid {
                    rule: Rule::PhshDigest,
                    at,
                });
            }
            page += 1;
        }
        Ok(self.source.read(wanted)?)
    }

    /// Checks everything that the file can be checked against: IHSH, the hash of every chunk, the
    /// page hashes of every shard, the hash of every tensor that has one, and that metadata is
    /// well-formed.
    ///
    /// # Errors
    /// What the source fails with, or a stop on request; damage is in the report.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        self.verify_into(&mut report, "", options)?;
        Ok(report)
    }

    pub(crate) fn verify_into(
        &self,
        report: &mut Report,
        prefix: &str,
        options: &VerifyOptions<'_>,
    ) -> Result<()> {
        let ticker = Ticker::new(options.progress);
        let limits = &self.options.limits;
        let control = self.index.check_control(&self.source, limits, false);
        report.push(match control {
            Ok(Some(true)) => Item::new(format!("{prefix}control"), Outcome::Ok).with_note("IHSH"),
            Ok(Some(false)) => Item::new(format!("{prefix}control"), Outcome::Unsupported)
                .with_note(Unsupported::IhshAlgorithm.to_string()),
            Ok(None) => {
                Item::new(format!("{prefix}control"), Outcome::NotCovered).with_note("no IHSH")
            }
            Err(error) => failed(format!("{prefix}control"), error)?,
        });
        // Shards one after the other on all threads; what is small side by side.
        let mut damaged = BTreeSet::new();
        for chunk in &self.index.chunks {
            let item = format!("{prefix}{} {}", chunk.fourcc, chunk.name());
            if chunk.is_unhashed() {
                report
                    .warnings
                    .push(format!("{item} has no hash, as one writer leaves it"));
            }
            let checked = self.verify_chunk(chunk, options, &ticker);
            let item = match checked {
                Ok(found) => {
                    let expected = hex(&chunk.blake3);
                    match found {
                        Some(found) => Item::compared(item, expected, hex(&found)),
                        None => Item::new(item, Outcome::NotCovered),
                    }
                    .with_note("blake3")
                }
                Err(error) => failed(item, error)?,
            };
            if chunk.fourcc == FourCc::WTSH && item.outcome != Outcome::Ok {
                damaged.insert(chunk.name());
            }
            report.push(item);
        }
        let entries = self.entries();
        let items = parallel::map(options.threads, entries.len(), |at| {
            let Some(entry) = entries.get(at) else {
                return Ok(None);
            };
            self.verify_tensor(entry, prefix, &damaged, &ticker)
        })?;
        report.items.extend(items.into_iter().flatten());
        if self.index.in_parts && !entries.is_empty() && prefix.is_empty() {
            report.push(
                Item::new("data", Outcome::NotCovered).with_note("data in parts: not covered"),
            );
        }
        if options.strict {
            for entry in entries {
                if entry.len.is_some_and(|len| len < entry.data_len) {
                    let name = entry.name();
                    report
                        .warnings
                        .push(format!("{prefix}{name:?} has more data than it needs"));
                }
            }
        }
        Ok(())
    }

    /// The hash of a chunk's bytes, after a check of what is in it; `None` where there is nothing
    /// to hold it against.
    fn verify_chunk(
        &self,
        chunk: &Chunk,
        options: &VerifyOptions<'_>,
        ticker: &Ticker<'_>,
    ) -> Result<Option<[u8; 32]>> {
        match chunk.fourcc {
            FourCc::MJSN => {
                self.json(chunk)?;
            }
            FourCc::MMSG => self.check_msgpack(chunk)?,
            FourCc::PHSH => self.verify_pages(chunk, options.threads, ticker)?,
            _ => {}
        }
        if chunk.is_unhashed() {
            return Ok(None);
        }
        if chunk.is_zstd() {
            // Decompressing checked the hash.
            payload(&self.source, chunk, &self.options.limits)?;
            return Ok(Some(chunk.blake3));
        }
        let range = chunk.offset..chunk.offset + chunk.length;
        blake3_of(&self.source, range, options.threads, ticker).map(Some)
    }

    fn verify_pages(&self, chunk: &Chunk, threads: usize, ticker: &Ticker<'_>) -> Result<()> {
        let at = At::new(chunk.offset, "digests");
        let name = chunk.name().strip_suffix(".phsh").unwrap_or_default();
        let shard = self.index.chunk(FourCc::WTSH, name);
        let shard = shard.ok_or(Error::Invalid {
            rule: Rule::Phsh,
            at,
        })?;
        let limits = &self.options.limits;
        let bytes = payload(&self.source, chunk, limits)?;
        let pages = parse_phsh(&bytes, name, shard.length, at, limits)?;
        parallel::map(threads, pages.digests.len(), |page| {
            let from = page as u64 * pages.page_size;
            let to = (from + pages.page_size).min(shard.length);
            let range = shard.offset + from..shard.offset + to;
            let digest = blake3_of(&self.source, range, 1, ticker)?;
            if pages.digests.get(page) == Some(&digest) {
                return Ok(());
            }
            let at = At::new(shard.offset + from, "digests").entry(page as u64);
            Err(Error::Invalid {
                rule: Rule::PhshDigest,
                at,
            })
        })?;
        Ok(())
    }

    fn verify_tensor(
        &self,
        entry: &Entry,
        prefix: &str,
        damaged: &BTreeSet<&str>,
        ticker: &Ticker<'_>,
    ) -> Result<Option<Item>> {
        let item = format!("{prefix}{}", entry.name());
        if entry.dtype().is_none() {
            let what = Unsupported::DType { code: entry.code.0 };
            return Ok(Some(
                Item::new(item, Outcome::Unsupported).with_note(what.to_string()),
            ));
        }
        if self.index.in_parts {
            return Ok(None);
        }
        match entry.hash_b3 {
            Some(expected) => {
                let found = blake3_of(&self.source, self.stored(entry), 1, ticker)?;
                let item = Item::compared(item, hex(&expected), hex(&found));
                Ok(Some(item.with_note("hash_b3")))
            }
            // Without a hash of its own it is as good as its shard.
            None => {
                let shard = format!("weights.shard{}", entry.shard_id);
                Ok(Some(if damaged.contains(shard.as_str()) {
                    let rule = Rule::ChunkHash.id();
                    let note = format!("no hash of its own, and its shard is damaged [{rule}]");
                    Item::new(item, Outcome::Failed).with_note(note)
                } else {
                    Item::new(item, Outcome::Ok).with_note("by its shard's hash")
                }))
            }
        }
    }

    /// A JSON chunk as a value.
    fn json(&self, chunk: &Chunk) -> Result<Value> {
        let bytes = payload(&self.source, chunk, &self.options.limits)?;
        let at = At::new(chunk.offset, "MJSN");
        let limits = &self.options.limits;
        limits.check_json(&bytes, self.file_len(), at)?;
        let json = serde_json::from_slice(&bytes);
        json.map(|json| from_json(&json))
            .map_err(|_| Error::Invalid {
                rule: Rule::Json,
                at,
            })
    }

    /// A MessagePack chunk as a value.
    fn msgpack(&self, chunk: &Chunk) -> Result<Value> {
        let limits = &self.options.limits;
        self.decoded(chunk, |decoder, at| {
            let items = decoder.items().unwrap_or(0);
            limits.check_items(items, self.file_len(), at)?;
            Ok(decoder.value())
        })
    }

    /// Whether a MessagePack chunk is one value, which is not kept.
    fn check_msgpack(&self, chunk: &Chunk) -> Result<()> {
        self.decoded(chunk, |decoder, _| Ok(decoder.check()))
    }

    /// What `decode` makes of a chunk that is one MessagePack value.
    fn decoded<T>(
        &self,
        chunk: &Chunk,
        decode: impl FnOnce(&mut Decoder<'_>, At) -> Result<Result<T, Fault>>,
    ) -> Result<T> {
        let bytes = payload(&self.source, chunk, &self.options.limits)?;
        let at = At::new(chunk.offset, "MMSG");
        let mut decoder = Decoder::new(&bytes, self.options.limits.max_depth);
        match decode(&mut decoder, at)? {
            Ok(value) if decoder.is_at_end() => Ok(value),
            _ => Err(Error::Invalid {
                rule: Rule::MessagePack,
                at,
            }),
        }
    }

    /// All bytes that the index gives a tensor; its hash is over these.
    fn stored(&self, entry: &Entry) -> Range<u64> {
        entry.offset..entry.offset + entry.data_len
    }

    fn salvaged(&self, entry: &Entry, digest: impl FnOnce() -> Result<[u8; 32]>) -> Result<()> {
        let at = At::new(entry.offset, "hash_b3").entry(entry.ordinal as u64);
        match entry.hash_b3 {
            Some(expected) if digest()? == expected => Ok(()),
            _ => Err(Error::Invalid {
                rule: Rule::TensorHash,
                at,
            }),
        }
    }

    /// Where the entry's bytes are, after checking that it is ours and known.
    fn locate(&self, entry: &Entry) -> Result<(DType, Range<u64>)> {
        if entry.archive != self.index.id {
            return Err(BuildError::ForeignEntry.into());
        }
        let at = At::new(entry.offset, "dtype").entry(entry.ordinal as u64);
        if self.index.in_parts {
            return Err(Error::Unsupported {
                what: Unsupported::InParts,
                at,
            });
        }
        match (entry.dtype(), entry.len) {
            (Some(dtype), Some(len)) => Ok((dtype, entry.offset..entry.offset + len)),
            _ => {
                let what = Unsupported::DType { code: entry.code.0 };
                Err(Error::Unsupported { what, at })
            }
        }
    }
}

/// The file's fault as an item of a report; anything else stays an error.
pub(crate) fn failed(item: String, error: Error) -> Result<Item> {
    use tensor_core::Kind;
    let outcome = match error.kind() {
        Kind::Invalid | Kind::Limit => Outcome::Failed,
        Kind::Unsupported => Outcome::Unsupported,
        _ => return Err(error),
    };
    let note = match error.rule_id() {
        Some(rule) => format!("{error} [{rule}]"),
        None => error.to_string(),
    };
    Ok(Item::new(item, outcome).with_note(note))
}

pub(crate) fn from_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Value::Int(value.into()),
            (_, Some(value)) => Value::Int(value.into()),
            _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(from_json).collect()),
        serde_json::Value::Object(pairs) => {
            let pair = |(key, value): (&String, _)| (Value::Text(key.clone()), from_json(value));
            Value::Map(pairs.iter().map(pair).collect())
        }
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("file_len", &self.file_len())
            .field("chunks", &self.chunks().len())
            .field("entries", &self.entries().len())
            .finish_non_exhaustive()
    }
}
