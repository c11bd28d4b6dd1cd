use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use tensor_core::codec::{HasEntries, StoredBytes, Ticker, read_elements};
use tensor_core::{
    At, Bytes, DType, Element, Entries, Source, Tensor, UsageError, Value, Version, Window,
};

use crate::MetaEntry;
use crate::chunk::{Chunk, FourCc};
use crate::entry::Entry;
use crate::index::Index;
use crate::integrity::parse_phsh;
use crate::layout::inside;
use crate::msgpack::{Decoder, Fault};
use crate::payload::payload;
use crate::tree::blake3_of;
use crate::{BuildError, Error, Limits, ReadOptions, Result, Rule, Unsupported};

/// An open AERO file: its chunks and a list of its tensors, whose data is read on demand. Cheap
/// to clone, and shared between threads freely.
///
/// ```
/// use aero_format::{
///     Archive, Builder, Bytes, Outcome, ReadOptions, Source, Tensor, VerifyOptions,
/// };
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.aero");
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # builder.write_file(&path)?;
/// let archive = Archive::open(&path)?;
/// assert_eq!((archive.len(), archive.is_empty()), (1, false));
/// println!("version {}, {} bytes", archive.version(), archive.file_len());
/// assert!(!archive.is_in_parts()); // the index of a set has no weights
/// println!("{:02x?} {:?}", archive.uuid(), archive.manifest()?);
/// assert_eq!(archive.page_size()?, None); // no hashes of pages
/// let entry = archive.entry("w").ok_or("no such tensor")?;
///
/// let mut bytes = [0; 8];
/// archive.read_into(entry, &mut bytes)?; // into a buffer of your own
/// let data = archive.data(entry)?; // or as a source, in windows of any size
/// assert_eq!(data.read(4..8)?, &1.5f32.to_le_bytes()[..]);
/// assert_eq!(archive.stored(entry)?.size(), 8); // as it is in the file
///
/// let report = archive.verify(&VerifyOptions::default())?;
/// assert!(!report.has_failed());
/// assert_eq!(archive.verify_entry(entry)?.outcome, Outcome::Ok);
/// assert!(archive.file().is_some()); // the file that is read
///
/// // Any source of bytes will do: memory, a map, an object store.
/// let bytes = Bytes::from(std::fs::read(&path)?);
/// let archive = Archive::from_source(bytes, &ReadOptions::default())?;
/// assert!(archive.entry("w").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Archive {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) index: Arc<Index>,
    pub(crate) options: ReadOptions,
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

    /// Opens the file at `path` with `options`, such as limits of the caller's own.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.aero");
    /// # let mut builder = aero_format::Builder::new();
    /// # builder.tensor("w", aero_format::Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # builder.write_file(&path)?;
    /// use aero_format::{Archive, Kind, Limits, ReadOptions};
    ///
    /// let mut limits = Limits::default();
    /// limits.max_chunk_count = 2;
    /// let options = ReadOptions::default().with_limits(limits);
    /// let error = Archive::open_with(&path, &options).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert_eq!(error.rule_id(), Some("max_chunk_count"));
    /// assert!(error.to_string().contains("model.aero"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "std")]
    pub fn open_with(path: impl AsRef<std::path::Path>, options: &ReadOptions) -> Result<Self> {
        tensor_core::codec::open_file(path, |source| Self::from_source(source, options))
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
    ///
    /// ```
    /// # use aero_format::{Archive, Builder, Tensor};
    /// # let mut builder = Builder::new();
    /// # builder.tensor("w", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// for entry in archive.entries() {
    ///     println!("{} {}", entry.name(), entry.shape());
    /// }
    /// assert_eq!(archive.entries().len(), 1);
    /// assert_eq!(archive.entries().get(0).unwrap().name(), "w");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn entries(&self) -> Entries<'_, Self> {
        Entries::of(self)
    }

    /// How many tensors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entry_count()
    }

    /// Whether there is no tensor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor of this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        self.entry_at(self.index.tensors.names.find(name)?)
    }

    /// All chunks, in TOC order.
    ///
    /// See [`Chunk`].
    #[must_use]
    pub fn chunks(&self) -> &[Chunk] {
        &self.index.chunks
    }

    /// The chunk of this type and name.
    ///
    /// See [`Chunk`].
    #[must_use]
    pub fn chunk(&self, fourcc: FourCc, name: &str) -> Option<&Chunk> {
        self.index.chunk(fourcc, name)
    }

    /// A chunk's decompressed bytes, checked against its hash. For a weight shard that is all of
    /// it; [`data`](Self::data) reads single tensors.
    ///
    /// # Errors
    /// What the chunk breaks, or what the source fails with.
    ///
    /// See [`Chunk`].
    pub fn chunk_data(&self, chunk: &Chunk) -> Result<Bytes> {
        let limits = Limits {
            max_metadata_bytes: u64::MAX,
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
    #[must_use]
    pub fn uuid(&self) -> &[u8; 16] {
        &self.index.header.uuid
    }

    /// The version of the format: always 0.1.
    #[must_use]
    pub fn version(&self) -> Version {
        let (major, minor) = crate::layout::VERSION;
        Version::new(major.into(), minor.into())
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.source.size()
    }

    /// The file that is read, `None` where the bytes come from elsewhere.
    #[must_use]
    pub fn file(&self) -> Option<&tensor_core::FileId> {
        self.source.file()
    }

    /// Whether this is the index of a set: tensors without weights.
    #[must_use]
    pub fn is_in_parts(&self) -> bool {
        self.index.in_parts
    }

    /// The pairs of the first JSON chunk, empty without one. They are read and decoded with every
    /// call.
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Value};
    ///
    /// let mut builder = Builder::new();
    /// builder.metadata("epoch", 3i64)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// for meta in archive.metadata()? {
    ///     println!("{} {:?}", meta.key(), meta.value());
    /// }
    /// let epoch = archive.metadata_entry("epoch")?.ok_or("no epoch")?;
    /// assert_eq!(epoch.value(), &Value::from(3i64));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the chunk breaks, or what the source fails with.
    pub fn metadata(&self) -> Result<Vec<MetaEntry>> {
        let Some(chunk) = self.index.first(FourCc::MJSN) else {
            return Ok(Vec::new());
        };
        match self.json(chunk)? {
            Value::Map(pairs) => Ok(pairs
                .into_iter()
                .filter_map(|(key, value)| Some(MetaEntry::new(key.as_str()?, value)))
                .collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// The pair with this key. All are read and decoded to find it.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub fn metadata_entry(&self, key: &str) -> Result<Option<MetaEntry>> {
        let mut pairs = self.metadata()?.into_iter();
        Ok(pairs.find(|pair| pair.key() == key))
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
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Tensor, TensorOptions, Value};
    ///
    /// let mut builder = Builder::new();
    /// let options = TensorOptions::new().with_extra("author", "me")?;
    /// builder.tensor_with("w", Tensor::from_slice(&[1.0f32], &[1])?, options)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let extra = archive.extra(archive.entry("w").ok_or("no w")?);
    /// assert_eq!(extra, [("author".into(), Value::from("me"))]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn extra(&self, entry: Entry<'_>) -> Vec<(String, Value)> {
        let pairs = entry.index.tensors.extra(entry.ordinal);
        let mut decoder = Decoder::new(pairs, self.options.limits.value_depth());
        let mut extra = Vec::new();
        // The index was decoded before, so nothing here fails.
        while let (false, Ok(Some(key))) = (decoder.is_at_end(), decoder.key()) {
            let Ok(value) = decoder.value() else { break };
            extra.push((key.to_string(), value));
        }
        extra
    }

    /// Reads a tensor: a slice where the source is memory, else one read into an aligned buffer.
    /// An archive that [checks data](ReadOptions::check_data) or salvages holds the very bytes that
    /// it returns against the tensor's own hash; one without is read where its shard is whole, or
    /// was cut off after it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the dtype is unknown or the data is in the parts of a set,
    /// [`UsageError::ForeignEntry`] where the entry is another archive's, or what the source
    /// fails with.
    pub fn read(&self, entry: Entry<'_>) -> Result<Tensor> {
        let (dtype, range) = self.locate(entry)?;
        let data = if self.options.checks_data() {
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let stored = self.bytes_at(entry, self.stored_range(entry)?).read()?;
            self.check_hash(entry, || Ok(blake3::hash(&stored).into()))?;
            stored.slice(..len.min(stored.len()))
        } else {
            self.bytes_at(entry, range).read()?
        };
        Tensor::new(dtype, entry.shape().clone(), data).map_err(|error| {
            BuildError::Shape {
                name: entry.name().to_string(),
                error,
            }
            .into()
        })
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length. Where they are
    /// found damaged, `out` holds nothing to rely on.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`UsageError::BufferLength`].
    pub fn read_into(&self, entry: Entry<'_>, out: &mut [u8]) -> Result<()> {
        let (_, range) = self.locate(entry)?;
        let expected = range.end - range.start;
        if self.options.checks_data() && entry.record().data_len != expected {
            // The hash is over more bytes than are asked for.
            UsageError::check_buffer(entry.name(), expected, out)?;
            out.copy_from_slice(self.read(entry)?.data());
            return Ok(());
        }
        self.bytes_at(entry, range).read_into::<Error>(out)?;
        match self.options.checks_data() {
            true => self.check_hash(entry, || Ok(blake3::hash(out).into())),
            false => Ok(()),
        }
    }

    /// Reads a tensor's elements, in stored order, into `out`, which has room for exactly these.
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let mut w = [0.0f32; 2];
    /// archive.read_slice(archive.entry("w").ok_or("no w")?, &mut w)?;
    /// assert_eq!(w, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`read_into`](Self::read_into), and [`UsageError::Cast`] where the elements are of another
    /// type.
    pub fn read_slice<T: Element>(&self, entry: Entry<'_>, out: &mut [T]) -> Result<()> {
        read_elements(entry.dtype(), out, |bytes| self.read_into(entry, bytes))
    }

    /// A tensor's little-endian bytes as a source of their own. An archive that checks data does so
    /// here, once.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn data(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        let (_, range) = self.locate(entry)?;
        self.check_stored(entry)?;
        Ok(Arc::new(Window::new(self.source.clone(), range)?))
    }

    /// A tensor's bytes as the file stores them, whatever its dtype: all of data_len, which may
    /// be more than the shape asks for.
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's, [`Error::Unsupported`]
    /// where the data is in the parts of a set, or what the source fails with.
    pub fn stored(&self, entry: Entry<'_>) -> Result<Arc<dyn Source>> {
        let range = self.stored_range(entry)?;
        self.check_stored(entry)?;
        Ok(Arc::new(Window::new(self.source.clone(), range)?))
    }

    /// How many bytes each page hash is of, `None` where there are no page hashes (PHSH).
    ///
    /// # Errors
    /// [`Rule::Phsh`] where the first chunk of them can't be read, or what the source fails with.
    pub fn page_size(&self) -> Result<Option<u64>> {
        let mut chunks = self.chunks().iter();
        let Some(chunk) = chunks.find(|chunk| chunk.fourcc() == FourCc::PHSH) else {
            return Ok(None);
        };
        let name = chunk.name().strip_suffix(".phsh").unwrap_or_default();
        let at = At::new(chunk.offset, "digests");
        let shard = self
            .chunk(FourCc::WTSH, name)
            .ok_or(Error::invalid(Rule::Phsh, at))?;
        let limits = &self.options.limits;
        let bytes = payload(&self.source, chunk, limits)?;
        let pages = parse_phsh(&bytes, name, shard.length, at, limits)?;
        Ok(Some(pages.page_size))
    }

    /// Bytes of a tensor, checked by the page against the page hashes of its shard: only the
    /// pages that hold `range` are read.
    ///
    /// # Errors
    /// [`Rule::PhshDigest`] where a page is damaged, [`Rule::Phsh`] where the shard has no page
    /// hashes, and as [`read`](Self::read).
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[0.5f32; 4096], &[4096])?)?;
    /// builder.phsh(Some(4096))?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// assert_eq!(archive.page_size()?, Some(4096));
    /// let entry = archive.entry("w").ok_or("no w")?;
    /// assert_eq!(archive.read_verified(entry, 8..12)?, &0.5f32.to_le_bytes()[..]); // one page
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_verified(&self, entry: Entry<'_>, range: Range<u64>) -> Result<Bytes> {
        let (_, data) = self.locate(entry)?;
        let wanted = data.start.saturating_add(range.start)..data.start.saturating_add(range.end);
        if range.start > range.end || wanted.end > data.end {
            let (expected, got) = (data.end - data.start, range.end);
            let tensor = entry.name().into();
            return Err(UsageError::BufferLength {
                tensor,
                expected,
                got,
            }
            .into());
        }
        let name = format!("weights.shard{}", entry.shard_id());
        let at = At::new(entry.offset(), "digests");
        let missing = || Error::invalid(Rule::Phsh, at);
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
            let expected = expected.copied().unwrap_or_default();
            if expected != digest {
                let at = At::new(shard.offset + from, "digests");
                return Err(Error::invalid(damaged_page(page, &expected, &digest), at));
            }
            page += 1;
        }
        Ok(self.bytes_at(entry, wanted).read()?)
    }

    /// The shard of a tensor, where it is among the damaged ones.
    pub(crate) fn damaged_shard(
        &self,
        entry: Entry<'_>,
        damaged: &BTreeSet<&str>,
    ) -> Option<&Chunk> {
        if damaged.is_empty() {
            return None;
        }
        let shard = self.shard(entry);
        shard.filter(|shard| damaged.contains(shard.name()))
    }

    pub(crate) fn shard(&self, entry: Entry<'_>) -> Option<&Chunk> {
        let name = format!("weights.shard{}", entry.shard_id());
        self.index.chunk(FourCc::WTSH, &name)
    }

    /// Whether the file ends within the chunk, which only a salvaging reader takes.
    pub(crate) fn is_cut(&self, chunk: &Chunk) -> bool {
        chunk.offset.saturating_add(chunk.length) > self.file_len()
    }

    /// A JSON chunk as a value.
    pub(crate) fn json(&self, chunk: &Chunk) -> Result<Value> {
        let bytes = payload(&self.source, chunk, &self.options.limits)?;
        let at = At::new(chunk.offset, "MJSN");
        let limits = &self.options.limits;
        limits.check_json(&bytes, self.file_len(), at)?;
        let json = serde_json::from_slice(&bytes);
        json.map(|json| from_json(&json))
            .map_err(|_| Error::invalid(Rule::Json, at))
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
    pub(crate) fn check_msgpack(&self, chunk: &Chunk) -> Result<()> {
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
        let mut decoder = Decoder::new(&bytes, self.options.limits.value_depth());
        match decode(&mut decoder, at)? {
            Ok(value) if decoder.is_at_end() => Ok(value),
            _ => Err(decoder.named(Error::invalid(Rule::MessagePack, at), at)),
        }
    }

    /// Where all bytes are that the index gives a tensor; its hash is over these.
    pub(crate) fn stored_range(&self, entry: Entry<'_>) -> Result<Range<u64>> {
        let at = self.place(entry, "data")?;
        self.range(entry, at)
    }

    /// The bytes of an entry at `range`, which is within the file.
    fn bytes_at<'a>(&'a self, entry: Entry<'a>, range: Range<u64>) -> StoredBytes<'a> {
        StoredBytes::new(&self.source, entry.name(), range)
    }

    /// The place of a field of an entry, after checking that the entry is ours and its data in this file.
    fn place(&self, entry: Entry<'_>, field: &'static str) -> Result<At> {
        if !entry.is_of(&self.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        let at = At::new(entry.offset(), field).entry(entry.ordinal as u64);
        match self.index.in_parts {
            true => Err(Error::unsupported(Unsupported::InParts, at)),
            false => Ok(at),
        }
    }

    /// The range of an entry's bytes; a salvaging reader opens files that were cut.
    fn range(&self, entry: Entry<'_>, at: At) -> Result<Range<u64>> {
        let (offset, len) = (entry.offset(), entry.record().data_len);
        let end = offset.checked_add(len);
        if let Some(end) = end.filter(|&end| end <= self.file_len()) {
            return Ok(offset..end);
        }
        // The shard is looked up only for the error that names it.
        let shard = self.shard(entry).map_or(0, |shard| shard.length);
        let rule = Rule::TidxDataRange { offset, len, shard };
        inside(self.file_len(), offset, len, rule, at)?;
        Ok(offset..offset + len)
    }

    /// The check of bytes that are read later, where the archive makes one.
    fn check_stored(&self, entry: Entry<'_>) -> Result<()> {
        if !self.options.checks_data() {
            return Ok(());
        }
        let range = self.stored_range(entry)?;
        self.check_hash(entry, || {
            blake3_of(&self.source, range, 0, &Ticker::default())
        })
    }

    /// Holds a tensor whose bytes have `digest` against its hash, or its shard's.
    fn check_hash(
        &self,
        entry: Entry<'_>,
        digest: impl FnOnce() -> Result<[u8; 32]>,
    ) -> Result<()> {
        match entry.hash_b3() {
            Some(expected) => {
                let found = digest()?;
                if found == *expected {
                    return Ok(());
                }
                let at = At::new(entry.offset(), "hash_b3").entry(entry.ordinal as u64);
                let rule = Rule::TensorHash {
                    expected: expected.into(),
                    found: (&found).into(),
                };
                Err(Error::invalid(rule, at))
            }
            None => self.check_shard(entry),
        }
    }

    /// Without a hash of its own a tensor is as good as its shard. One that is cut has no hash to
    /// hold it against: what lies before the cut is as it was.
    pub(crate) fn check_shard(&self, entry: Entry<'_>) -> Result<()> {
        let Some(shard) = self.shard(entry) else {
            return Ok(());
        };
        let at = At::new(shard.offset, "payload");
        if self.is_cut(shard) {
            let overruns = |chunk: &Chunk| {
                let end = chunk.offset.saturating_add(chunk.length);
                chunk.offset < shard.offset && end > shard.offset
            };
            return match self.index.chunks.iter().any(overruns) {
                true => Err(Error::invalid(Rule::TidxOverrun, at)),
                false => Ok(()),
            };
        }
        let is_whole = self.index.is_whole(shard, || {
            let range = shard.offset..shard.offset + shard.length;
            let found = blake3_of(&self.source, range, 0, &Ticker::default())?;
            Ok(found == shard.blake3)
        })?;
        match is_whole {
            true => Ok(()),
            false => Err(Error::invalid(shard.damaged(None), at)),
        }
    }

    /// Where the entry's bytes are, after checking that it is ours and known.
    fn locate(&self, entry: Entry<'_>) -> Result<(DType, Range<u64>)> {
        let at = self.place(entry, "dtype")?;
        let Some((dtype, len)) = entry.dtype().zip(entry.nbytes()) else {
            let code = entry.dtype_code().0;
            let what = Unsupported::DType { code };
            return Err(Error::unsupported(what, at));
        };
        let start = self.range(entry, at)?.start;
        Ok((dtype, start..start + len))
    }
}

/// The rule that a page of another hash breaks.
pub(crate) fn damaged_page(page: u64, expected: &[u8; 32], found: &[u8; 32]) -> Rule {
    Rule::PhshDigest {
        page,
        expected: expected.into(),
        found: found.into(),
    }
}

impl HasEntries for Archive {
    type Entry<'a> = Entry<'a>;

    fn entry_count(&self) -> usize {
        self.index.tensors.records.len()
    }

    fn entry_at(&self, position: usize) -> Option<Entry<'_>> {
        Entry::of(&self.index, position)
    }
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

impl<'a> IntoIterator for &'a Archive {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a, Archive>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries()
    }
}
