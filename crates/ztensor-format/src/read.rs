use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use tensor_core::codec::{ArchiveId, Ticker, walk};
use tensor_core::{
    At, Bytes, DType, Item, Order, Outcome, Report, Shape, Source, Swapped, Tensor, Value,
    VerifyOptions, Window, checksum::crc32c_source, parallel,
};

use crate::cbor;
use crate::checksum::{Checksum, Hasher};
use crate::encoding::{Encoding, Endianness, Layout};
use crate::index::Index;
use crate::layout::{self, Unknown};
#[cfg(feature = "generations")]
use crate::manifest::{About, Part, Shard};
use crate::{BuildError, Error, Generation, Limits, Result, Rule, Unsupported, dtype};

/// How to open a file.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// What the reader takes on.
    pub limits: Limits,
}

/// An open `.zt` file: a list of its tensors, whose data is read on demand. Cheap to clone, and
/// shared between threads freely.
#[derive(Clone)]
pub struct Archive {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) index: Arc<Index>,
}

/// One tensor of an [`Archive`], as the index describes it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) archive: ArchiveId,
    pub(crate) ordinal: usize,
    #[cfg(feature = "generations")]
    pub(crate) generation: Generation,
    pub(crate) name: Box<str>,
    pub(crate) shape: Shape,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) dtype: Option<DType>,
    pub(crate) layout: Layout,
    pub(crate) encoding: Encoding,
    pub(crate) endianness: Option<Endianness>,
    pub(crate) crc32c: Option<u32>,
    pub(crate) extra: Option<Box<Extra>>,
}

/// What few entries have.
#[derive(Clone, Debug)]
pub(crate) struct Extra {
    /// The entry itself, as CBOR, where it has custom fields.
    pub(crate) map: Bytes,
    pub(crate) unknown: Option<Box<Unknown>>,
    /// One that is no CRC-32C.
    pub(crate) checksum: Option<Checksum>,
    #[cfg(feature = "generations")]
    pub(crate) part: Option<Box<Part>>,
}

/// A field of an entry that the format gives no meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomField {
    key: String,
    cbor: Bytes,
}

impl CustomField {
    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value. Tags are left out, undefined is null, and a float is widened; what is exactly
    /// in the file is [`cbor`](Self::cbor).
    pub fn value(&self) -> Value {
        cbor::value_of(&self.cbor)
    }

    /// The value as it is in the file, one CBOR item: what
    /// [`TensorOptions::custom_cbor`](crate::TensorOptions::custom_cbor) takes.
    pub fn cbor(&self) -> &Bytes {
        &self.cbor
    }
}

impl Entry {
    /// The tensor's name: any text, also an empty one. Never use it as a path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dtype, `None` where the format has none of that name, or a name for none that we have.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The dtype's name as stored, such as `float32`, from version 1.1 on `f32`; that of the
    /// logical type where there is one.
    pub fn dtype_name(&self) -> &str {
        #[cfg(feature = "generations")]
        if !matches!(self.generation, Generation::V0_1 | Generation::V1_0) {
            let name = self.unknown().map_or("", |unknown| &unknown.dtype);
            return match self.dtype {
                Some(dtype) if name.is_empty() => dtype.name(),
                _ => name,
            };
        }
        match self.dtype.and_then(dtype::name_of) {
            Some(name) => name,
            None => self.unknown().map_or("", |unknown| &unknown.dtype),
        }
    }

    /// The dims, outermost first.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Always row-major.
    pub fn order(&self) -> Order {
        Order::RowMajor
    }

    /// How the elements are laid out; only dense tensors can be read.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The layout as stored; `dense` where the field is absent.
    pub fn layout_name(&self) -> &str {
        #[cfg(feature = "generations")]
        if let Some(part) = self.part() {
            return &part.object.format;
        }
        match self.layout {
            Layout::Other => self.unknown().map_or("", |unknown| &unknown.layout),
            layout => layout.name(),
        }
    }

    /// How the data is stored.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The encoding as stored.
    pub fn encoding_name(&self) -> &str {
        match self.encoding {
            Encoding::Other => self.unknown().map_or("", |unknown| &unknown.encoding),
            encoding => encoding.name(),
        }
    }

    /// Whether the data is in another file.
    fn is_elsewhere(&self) -> bool {
        #[cfg(feature = "generations")]
        if let Some(part) = self.part() {
            return matches!(part.why, Some(Unsupported::Shard { .. }));
        }
        false
    }

    /// The byte order as stored, `None` where the field is absent. What is read is always
    /// little-endian.
    pub fn endianness(&self) -> Option<Endianness> {
        self.endianness
    }

    /// The checksum of the data as stored, which [`Archive::verify`] compares.
    pub fn checksum(&self) -> Option<Checksum> {
        match self.crc32c {
            Some(crc) => Some(Checksum::Crc32c(crc)),
            None => self.extra.as_ref()?.checksum.clone(),
        }
    }

    /// Absolute offset of the data.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that the data takes in the file; always known.
    pub fn stored_len(&self) -> Option<u64> {
        Some(self.size)
    }

    /// Bytes of the decoded data, `None` where the tensor can't be read.
    pub fn nbytes(&self) -> Option<u64> {
        self.dense_len().map(|(_, len)| len)
    }

    /// Whether there are custom fields.
    pub fn has_custom(&self) -> bool {
        #[cfg(feature = "generations")]
        if let Some(part) = self.part() {
            return !part.object.attributes.is_empty();
        }
        self.extra
            .as_ref()
            .is_some_and(|extra| !extra.map.is_empty())
    }

    /// The custom fields, in file order; the attributes of the object from version 1.0 on. They
    /// are decoded with every call.
    pub fn custom(&self) -> Vec<CustomField> {
        #[cfg(feature = "generations")]
        if let Some(part) = self.part() {
            return layout::pairs(&part.object.attributes)
                .into_iter()
                .map(|(key, cbor)| CustomField { key, cbor })
                .collect();
        }
        match &self.extra {
            Some(extra) if !extra.map.is_empty() => layout::custom_fields(&extra.map)
                .into_iter()
                .map(|(key, cbor)| CustomField { key, cbor })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// How many bytes the custom fields take in the index, without decoding them: what all components of an
    /// object say is there once.
    pub fn custom_len(&self) -> u64 {
        self.custom_bytes().len() as u64
    }

    /// Whether the custom fields of another entry have the same bytes, without decoding them.
    pub fn has_same_custom(&self, other: &Self) -> bool {
        self.custom_bytes() == other.custom_bytes()
    }

    fn custom_bytes(&self) -> &[u8] {
        #[cfg(feature = "generations")]
        if let Some(part) = self.part() {
            return &part.object.attributes;
        }
        self.extra.as_ref().map_or(&[], |extra| &extra.map)
    }

    /// The object that this is a component of, where it is not one tensor.
    #[cfg(feature = "generations")]
    pub fn object(&self) -> Option<&str> {
        let part = self.part()?;
        part.is_component.then_some(&*part.object.name)
    }

    /// The component's own name, the end of the entry's.
    #[cfg(feature = "generations")]
    pub fn component(&self) -> Option<&str> {
        // Behind the object's name there is a slash.
        let start = self.object()?.len().saturating_add(1);
        self.name.get(start..)
    }

    /// The shape of the object that this is a component of; the entry's own is that of its
    /// elements in a row.
    #[cfg(feature = "generations")]
    pub fn object_shape(&self) -> Option<&Shape> {
        let part = self.part()?;
        part.is_component.then_some(&part.object.shape)
    }

    /// The dtype that a logical type is stored as.
    #[cfg(feature = "generations")]
    pub fn storage_dtype(&self) -> Option<&str> {
        self.part()?.storage.map(DType::name)
    }

    #[cfg(feature = "generations")]
    pub(crate) fn part(&self) -> Option<&Part> {
        self.extra.as_ref()?.part.as_deref()
    }

    #[cfg(feature = "generations")]
    pub(crate) fn is_component(&self) -> bool {
        self.part().is_some_and(|part| part.is_component)
    }

    fn unknown(&self) -> Option<&Unknown> {
        self.extra.as_ref()?.unknown.as_deref()
    }

    /// Dtype and decoded length of a tensor that is all there.
    fn dense_len(&self) -> Option<(DType, u64)> {
        let dtype = self.dtype?;
        #[cfg(feature = "generations")]
        let is_whole = match self.part() {
            Some(part) => part.why.is_none(),
            None => self.layout.is_dense(),
        };
        #[cfg(not(feature = "generations"))]
        let is_whole = self.layout.is_dense();
        let known = is_whole && self.encoding != Encoding::Other;
        let len = self.shape.byte_len(dtype).ok()??;
        known.then_some((dtype, len))
    }

    /// Whether elements are stored in the other byte order.
    fn is_swapped(&self) -> bool {
        self.endianness == Some(Endianness::Big)
            && self.dtype.is_some_and(|dtype| dtype.swap_size() > 1)
    }

    pub(crate) fn at(&self, field: &'static str) -> At {
        At::new(self.offset, field).entry(self.ordinal as u64)
    }

    /// Why the tensor can't be read, if so.
    pub(crate) fn unsupported(&self) -> Option<Error> {
        #[cfg(feature = "generations")]
        let is_part = match self.part() {
            Some(part) => match &part.why {
                Some(what) => {
                    let (what, at) = (what.clone(), self.at("data"));
                    return Some(Error::Unsupported { what, at });
                }
                None => true,
            },
            None => false,
        };
        #[cfg(not(feature = "generations"))]
        let is_part = false;
        let (what, field) = if self.dtype.is_none() {
            let name = self.dtype_name().into();
            (Unsupported::DType { name }, "dtype")
        } else if !self.layout.is_dense() && !is_part {
            let name = self.layout_name().into();
            (Unsupported::Layout { name }, "layout")
        } else {
            match self.encoding {
                Encoding::Raw => return None,
                Encoding::Other => {
                    let name = self.encoding_name().into();
                    (Unsupported::Encoding { name }, "encoding")
                }
                Encoding::Zstd if self.is_swapped() => {
                    (Unsupported::ZstdEndianness, "data_endianness")
                }
                Encoding::Zstd | Encoding::ZstdSeekable if cfg!(feature = "zstd") => return None,
                Encoding::Zstd | Encoding::ZstdSeekable => (Unsupported::ZstdDisabled, "encoding"),
            }
        };
        let at = self.at(field);
        Some(Error::Unsupported { what, at })
    }
}

/// A tensor that can be read: where its bytes are, and how they become elements.
enum Stored {
    Raw(Window<Arc<dyn Source>>),
    Swapped(Swapped<Window<Arc<dyn Source>>>),
    #[cfg(feature = "zstd")]
    Zstd(crate::encoding::Blob),
    /// Of generation 2, whose bytes may have rules of their own.
    #[cfg(feature = "generations")]
    Ruled(Arc<dyn Source>),
}

impl Archive {
    /// Opens the file at `path`: reads the index, none of the data.
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
    /// # let path = folder.path().join("model.zt");
    /// # let mut builder = ztensor_format::Builder::new();
    /// # builder.tensor("a", ztensor_format::Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # builder.tensor("b", ztensor_format::Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # builder.write_file(&path)?;
    /// use ztensor_format::{Archive, Kind, ReadOptions};
    ///
    /// let mut options = ReadOptions::default();
    /// options.limits.max_tensors = 1;
    /// let error = Archive::open_with(&path, &options).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert_eq!(error.rule_id(), Some("max_tensors"));
    /// assert!(error.to_string().contains("model.zt"));
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

    /// Opens a file that is in memory; raw little-endian tensors will be slices of it.
    ///
    /// # Errors
    /// What the file breaks.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        Self::from_source(bytes.into(), &ReadOptions::default())
    }

    /// Opens any source: a map, a window of another file, something of the caller's own.
    ///
    /// # Errors
    /// What the file breaks, or what the source fails with.
    pub fn from_source(source: impl Source + 'static, options: &ReadOptions) -> Result<Self> {
        let source: Arc<dyn Source> = Arc::new(source);
        let index = Index::parse(&source, options)?;
        Ok(Self {
            source,
            index: Arc::new(index),
        })
    }

    /// The tensors, in the order of the index.
    pub fn entries(&self) -> &[Entry] {
        &self.index.entries
    }

    /// The tensor called `name`, found through a hash table.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.index.find(name)
    }

    /// The generation, as people name it.
    pub fn version(&self) -> &'static str {
        self.index.generation.name()
    }

    /// The generation of the format.
    pub fn generation(&self) -> Generation {
        self.index.generation
    }

    /// The file's own attributes, in file order. They are decoded with every call.
    #[cfg(feature = "generations")]
    pub fn attributes(&self) -> Vec<CustomField> {
        let pairs = layout::pairs(&self.about().attributes);
        let field = |(key, cbor)| CustomField { key, cbor };
        pairs.into_iter().map(field).collect()
    }

    /// `version` as a file of generation 1 has it, such as `1.2.0`.
    #[cfg(feature = "generations")]
    pub fn version_text(&self) -> Option<&str> {
        Some(&*self.about().version).filter(|text| !text.is_empty())
    }

    /// What a file of version 1.0 says about its writer.
    #[cfg(feature = "generations")]
    pub fn generator(&self) -> Option<&str> {
        self.about().generator.as_deref()
    }

    /// The other files that have data of this one, in generation 2.
    #[cfg(feature = "generations")]
    pub fn shards(&self) -> &[Shard] {
        &self.about().shards
    }

    /// Whether the file has no list of tensors, only data for another file.
    #[cfg(feature = "generations")]
    pub fn is_data_shard(&self) -> bool {
        self.about().is_data_shard
    }

    #[cfg(feature = "generations")]
    fn about(&self) -> &About {
        &self.index.about
    }

    /// Size of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.source.size()
    }

    /// The file that is read, `None` where the bytes come from elsewhere.
    pub fn file(&self) -> Option<&tensor_core::FileId> {
        self.source.file()
    }

    /// Reads a tensor: a slice where the source is memory and the data raw and little-endian,
    /// else one new, aligned buffer. The checksum is not compared; see [`verify`](Self::verify).
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the dtype, encoding or layout is unknown, [`Error::Invalid`]
    /// where compressed data is damaged, [`BuildError::ForeignEntry`] where the entry is another
    /// archive's, or what the source fails with.
    pub fn read(&self, entry: &Entry) -> Result<Tensor> {
        let (dtype, stored) = self.locate(entry)?;
        let data = match stored {
            Stored::Raw(window) => window.read(0..window.size())?,
            Stored::Swapped(swapped) => swapped.read(0..swapped.size())?,
            #[cfg(feature = "zstd")]
            Stored::Zstd(blob) => blob.decode()?,
            #[cfg(feature = "generations")]
            Stored::Ruled(source) => source.read(0..source.size())?,
        };
        Tensor::new(dtype, entry.shape.clone(), data).map_err(|error| {
            Error::Build(BuildError::Shape {
                name: entry.name().to_owned(),
                error,
            })
        })
    }

    /// Reads a tensor's little-endian bytes into `out`, which has its exact length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`BuildError::BufferLength`].
    pub fn read_into(&self, entry: &Entry, out: &mut [u8]) -> Result<()> {
        let (_, stored) = self.locate(entry)?;
        let (expected, got) = (entry.nbytes().unwrap_or(0), out.len() as u64);
        if expected != got {
            return Err(BuildError::BufferLength { expected, got }.into());
        }
        match stored {
            Stored::Raw(window) => Ok(window.read_into(0, out)?),
            Stored::Swapped(swapped) => Ok(swapped.read_into(0, out)?),
            #[cfg(feature = "zstd")]
            Stored::Zstd(blob) => blob.decode_into(out),
            #[cfg(feature = "generations")]
            Stored::Ruled(source) => Ok(source.read_into(0, out)?),
        }
    }

    /// A tensor's little-endian bytes as a source of their own.
    ///
    /// Compressed data is decoded as it is asked for: reads that move forward cost what they
    /// skip, a step back starts over. An error about the data itself comes out of the source as
    /// [`SourceError::Codec`](tensor_core::SourceError::Codec), with kind and rule of this crate's
    /// [`Error`].
    ///
    /// # Errors
    /// As [`read`](Self::read), as far as the index tells.
    pub fn data(&self, entry: &Entry) -> Result<Arc<dyn Source>> {
        Ok(match self.locate(entry)?.1 {
            Stored::Raw(window) => Arc::new(window),
            Stored::Swapped(swapped) => Arc::new(swapped),
            #[cfg(feature = "zstd")]
            Stored::Zstd(blob) => Arc::new(crate::encoding::Decoded::new(blob)),
            #[cfg(feature = "generations")]
            Stored::Ruled(source) => source,
        })
    }

    /// A tensor's bytes as the file stores them, whatever its dtype, layout or encoding.
    ///
    /// # Errors
    /// [`BuildError::ForeignEntry`] where the entry is another archive's, what [`data`](Self::data) says
    /// where the bytes are in another file, or what the source fails with.
    pub fn stored(&self, entry: &Entry) -> Result<Arc<dyn Source>> {
        if entry.archive != self.index.id {
            return Err(BuildError::ForeignEntry.into());
        }
        let range = entry.offset..entry.offset.saturating_add(entry.size);
        match Window::new(self.source.clone(), range) {
            Ok(window) if !entry.is_elsewhere() => Ok(Arc::new(window)),
            _ => self.data(entry),
        }
    }

    /// Compares every checksum and decodes all compressed data, window by window. There is one
    /// item per tensor, in the order of the index, and one for the index; the note of a tensor's tells the algorithm, that
    /// compressed data decodes to the right length, and what is wrong, with the rule's id.
    ///
    /// `strict` adds warnings about data that overlaps, entries without `layout`, and byte
    /// orders given where they have no meaning.
    ///
    /// # Errors
    /// What the source fails with, or a stop on request; damage is in the report.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        /// Data from this size on is checked by all threads together, what is smaller by one.
        const LARGE: u64 = 32 << 20;
        let ticker = Ticker::new(options.progress);
        let entries = self.entries();
        let is_large = |entry: &Entry| {
            entry.encoding == Encoding::Raw
                && entry.size >= LARGE
                && entry.crc32c.is_some()
                && parallel::threads(options.threads) > 1
        };
        let items = parallel::map(options.threads, entries.len(), |index| {
            match entries.get(index) {
                Some(entry) if !is_large(entry) => self.verify_entry(entry, 1, &ticker).map(Some),
                _ => Ok(None),
            }
        })?;
        let mut report = Report::default();
        for (entry, item) in entries.iter().zip(items) {
            report.push(match item {
                Some(item) => item,
                None => self.verify_entry(entry, options.threads, &ticker)?,
            });
        }
        // Only the manifest of version 2 has a hash of its own, which opening has compared.
        report.push(match self.index.generation.has_index_hash() {
            true => Item::new("index", Outcome::Ok),
            false => Item::new("index", Outcome::NotCovered).with_note("structure ok, no checksum"),
        });
        if options.strict {
            self.warn(&mut report);
        }
        Ok(report)
    }

    pub(crate) fn verify_entry(
        &self,
        entry: &Entry,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<Item> {
        #[cfg(feature = "generations")]
        {
            if let Some(part) = entry.part().filter(|part| !part.hidden.is_empty()) {
                return self.verify_hidden(entry, &part.hidden, threads, ticker);
            }
            if entry.generation == Generation::V2 {
                return self.verify_decoded(entry, ticker);
            }
        }
        match self.locate(entry) {
            Err(error) => {
                let (outcome, note) = outcome_of(error)?;
                // What can't be interpreted can still be intact, or not.
                let hashed = self.hash_stored(entry, threads, ticker)?;
                let mut item = compared(entry, hashed.as_ref());
                if item.outcome == Outcome::Failed {
                    return Ok(item);
                }
                item.outcome = outcome;
                Ok(item.with_note(note))
            }
            #[cfg(feature = "zstd")]
            Ok((_, Stored::Zstd(blob))) => {
                let hasher = Hasher::like(entry.checksum().as_ref());
                match blob.verify(hasher.clone(), ticker) {
                    Ok(hasher) => {
                        let item = compared(entry, hasher.finish().as_ref());
                        let note = format!("zstd decodes to {} bytes", blob.decoded);
                        Ok(also(item, &note))
                    }
                    Err(error) => {
                        let (_, note) = outcome_of(error)?;
                        let hasher = blob.hash(hasher, ticker)?;
                        let mut item = compared(entry, hasher.finish().as_ref());
                        item.outcome = Outcome::Failed;
                        Ok(also(item, &note))
                    }
                }
            }
            Ok(_) => {
                let hashed = self.hash_stored(entry, threads, ticker)?;
                Ok(compared(entry, hashed.as_ref()))
            }
        }
    }

    /// The checksum of an entry's stored bytes, of the kind that it has.
    fn hash_stored(
        &self,
        entry: &Entry,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<Option<Checksum>> {
        let range = entry.offset..entry.offset.saturating_add(entry.size);
        let mut hasher = match entry.checksum() {
            None | Some(Checksum::Other(_) | Checksum::Xxh3(_)) => return Ok(None),
            Some(Checksum::Crc32c(_)) => {
                let crc = crc32c_source(&self.source, range, threads, ticker)?;
                return Ok(Some(Checksum::Crc32c(crc)));
            }
            Some(checksum) => Hasher::like(Some(&checksum)),
        };
        walk::<Error>(&self.source, range, ticker, |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        Ok(hasher.finish())
    }

    /// What readers tolerate but no careful writer leaves behind.
    fn warn(&self, report: &mut Report) {
        let here = |entry: &&Entry| {
            #[cfg(feature = "generations")]
            let elsewhere = entry.part().is_some_and(|part| {
                matches!(part.why, Some(Unsupported::Shard { .. })) || !part.hidden.is_empty()
            });
            #[cfg(not(feature = "generations"))]
            let elsewhere = false;
            entry.size > 0 && !elsewhere
        };
        for entry in self.entries() {
            if entry.layout == Layout::Absent {
                report.warnings.push(format!(
                    "tensor {:?} has no layout, which readers of zTensor 0.1.0 to 0.1.4 demand",
                    entry.name()
                ));
            }
            let meaningless = entry.encoding != Encoding::Raw
                || entry.dtype.is_some_and(|dtype| dtype.swap_size() == 1);
            if entry.endianness.is_some() && meaningless {
                report.warnings.push(format!(
                    "tensor {:?} has a data_endianness, which means nothing for its data",
                    entry.name()
                ));
            }
        }
        let mut sorted: Vec<&Entry> = self.entries().iter().filter(here).collect();
        sorted.sort_by_key(|entry| (entry.offset, entry.size));
        for (left, right) in sorted.iter().zip(sorted.iter().skip(1)) {
            // Tensors that share all their data are tied, which is meant.
            let tied = (left.offset, left.size) == (right.offset, right.size);
            if left.offset.saturating_add(left.size) > right.offset && !tied {
                report.warnings.push(format!(
                    "tensors {:?} and {:?} share some of their data",
                    left.name(),
                    right.name()
                ));
            }
        }
        if self.generation() == Generation::V2 {
            // What an append leaves behind lies anywhere.
            return;
        }
        let data_end = self.entries().iter().map(|entry| entry.offset + entry.size);
        let data_end = data_end.max().unwrap_or(self.index.start);
        if data_end + layout::ALIGN <= self.index.start {
            report.warnings.push(format!(
                "{} unused bytes before the index",
                self.index.start - data_end
            ));
        }
    }

    /// Refuses to decode more than the caller wants to.
    #[cfg(feature = "zstd")]
    pub(crate) fn check_decoded(&self, value: u64, at: At) -> Result<()> {
        let (limit, max) = ("max_decoded_bytes", self.index.limits.max_decoded_bytes);
        if value > max {
            return Err(Error::Limit(tensor_core::LimitExceeded {
                limit,
                value,
                max,
                at,
            }));
        }
        Ok(())
    }

    /// Where the entry's bytes are, after checking that it is ours and can be read.
    fn locate(&self, entry: &Entry) -> Result<(DType, Stored)> {
        if entry.archive != self.index.id {
            return Err(BuildError::ForeignEntry.into());
        }
        if let Some(error) = entry.unsupported() {
            return Err(error);
        }
        let Some((dtype, decoded)) = entry.dense_len() else {
            let rule = Rule::ShapeOverflow;
            let at = entry.at("shape");
            return Err(Error::Invalid { rule, at });
        };
        #[cfg(feature = "generations")]
        if entry.generation == Generation::V2 {
            return Ok((dtype, Stored::Ruled(self.ruled(entry, decoded)?)));
        }
        let range = entry.offset..entry.offset.saturating_add(entry.size);
        let window = Window::new(self.source.clone(), range)?;
        let stored = match entry.encoding {
            Encoding::Raw if entry.is_swapped() => match Swapped::new(window, dtype) {
                Ok(swapped) => Stored::Swapped(swapped),
                Err(error) => {
                    let name = entry.name().to_owned();
                    return Err(BuildError::Shape { name, error }.into());
                }
            },
            #[cfg(feature = "zstd")]
            Encoding::Zstd => {
                let (limits, at) = (&self.index.limits, entry.at("data"));
                self.check_decoded(decoded, at)?;
                Stored::Zstd(crate::encoding::Blob {
                    stored: window,
                    decoded,
                    max_window: limits.max_window_bytes,
                    at,
                })
            }
            _ => Stored::Raw(window),
        };
        #[cfg(not(feature = "zstd"))]
        let _ = decoded;
        Ok((dtype, stored))
    }
}

/// What a file's fault in one tensor is in a report; errors that stop the walk stay errors.
pub(crate) fn outcome_of(error: Error) -> Result<(Outcome, String)> {
    use tensor_core::Kind;
    let outcome = match error.kind() {
        Kind::Unsupported => Outcome::Unsupported,
        Kind::Invalid | Kind::Limit => Outcome::Failed,
        _ => return Err(error),
    };
    let id = match &error {
        Error::Limit(limit) => Some(limit.limit),
        error => error.rule_id(),
    };
    let note = match id {
        Some(id) => format!("{error} [{id}]"),
        None => error.to_string(),
    };
    Ok((outcome, note))
}

/// The item that says what became of an entry's checksum.
pub(crate) fn compared(entry: &Entry, found: Option<&Checksum>) -> Item {
    match (entry.checksum(), found) {
        (Some(stored), Some(found)) => {
            let item = Item::compared(entry.name(), stored.to_string(), found.to_string());
            match item.outcome {
                Outcome::Ok => item.with_note(stored.algorithm()),
                _ => {
                    let rule = Rule::ChecksumMismatch;
                    item.with_note(format!("{rule} [{}]", rule.id()))
                }
            }
        }
        (Some(stored), None) => {
            let mut item = Item::new(entry.name(), Outcome::NotCovered);
            item.expected = Some(stored.to_string());
            let algorithm = stored.algorithm();
            item.with_note(format!("checksum algorithm {algorithm:?} is unknown"))
        }
        (None, _) => Item::new(entry.name(), Outcome::NotCovered).with_note("no checksum"),
    }
}

/// The same item with one more thing to say.
#[cfg(feature = "zstd")]
fn also(mut item: Item, note: &str) -> Item {
    let all = match item.note.take() {
        Some(first) => format!("{first}; {note}"),
        None => note.to_owned(),
    };
    item.with_note(all)
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("file_len", &self.file_len())
            .field("entries", &self.entries().len())
            .finish_non_exhaustive()
    }
}
