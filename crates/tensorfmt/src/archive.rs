use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tensor_core::{
    Bytes, DType, FileSource, Order, Report, Shape, Source, Tensor, Value, VerifyOptions,
};

use crate::format::looks_like;
use crate::{Error, Format, Result};

/// An open tensor file of any format: one variant per codec of this build. Match it to get the
/// codec's own type back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Archive {
    /// A mag file.
    #[cfg(feature = "mag")]
    Mag(mag_format::Archive),
    /// A safetensors file.
    #[cfg(feature = "safetensors")]
    Safetensors(crate::safetensors::Archive),
}

/// One tensor of an [`Archive`], as the file describes it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// Of a mag file.
    #[cfg(feature = "mag")]
    Mag(&'a mag_format::Entry),
    /// Of a safetensors file.
    #[cfg(feature = "safetensors")]
    Safetensors(&'a crate::safetensors::Entry),
}

/// Runs the same expression on whichever codec's value is inside.
macro_rules! with_inner {
    ($value:expr, $inner:ident => $body:expr) => {
        match $value {
            #[cfg(feature = "mag")]
            Self::Mag($inner) => $body,
            #[cfg(feature = "safetensors")]
            Self::Safetensors($inner) => $body,
            #[allow(
                unreachable_patterns,
                reason = "a build without any codec has no variant"
            )]
            _ => unreachable!("an archive of a codec that this build leaves out"),
        }
    };
}

impl Archive {
    /// Opens the file at `path`, whatever its format: reads its index, none of its data.
    ///
    /// # Errors
    /// [`Error::UnknownFormat`], or what the format's codec finds, with the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::open_source(FileSource::open(path)?, Some(path)).map_err(|error| error.in_file(path))
    }

    /// Opens a file that is in memory; tensors are slices of `bytes` where they are stored raw.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        Self::open_source(bytes.into(), None)
    }

    /// Opens any source of bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_source(source: impl Source + 'static) -> Result<Self> {
        Self::open_source(source, None)
    }

    /// Opens a source as a file of `format`, without detection.
    ///
    /// # Errors
    /// [`Error::Disabled`], or what the format's codec finds.
    pub fn from_source_as(source: impl Source + 'static, format: Format) -> Result<Self> {
        match format {
            #[cfg(feature = "mag")]
            Format::Mag => Ok(Self::Mag(mag_format::Archive::from_source(
                source,
                &Default::default(),
            )?)),
            #[cfg(feature = "safetensors")]
            Format::Safetensors => Ok(Self::Safetensors(crate::safetensors::Archive::from_source(
                source,
            )?)),
            #[allow(unreachable_patterns, reason = "a build may have every codec")]
            _ => Err(Error::Disabled(format)),
        }
    }

    fn open_source(source: impl Source + 'static, path: Option<&Path>) -> Result<Self> {
        let len = source.size();
        let head = source.read(0..len.min(Format::DETECT_LEN as u64))?;
        match Format::detect(&head, len, path) {
            Some(format) => Self::from_source_as(source, format),
            None => Err(Error::UnknownFormat {
                head: head.iter().copied().take(8).collect(),
                hint: match (looks_like(&head), head.is_empty()) {
                    (Some(what), _) => format!("; it looks like {what}"),
                    (None, true) => "; it is empty".into(),
                    (None, false) => String::new(),
                },
            }),
        }
    }

    /// The format.
    pub fn format(&self) -> Format {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(_) => Format::Mag,
            #[cfg(feature = "safetensors")]
            Self::Safetensors(_) => Format::Safetensors,
        }
    }

    /// The format's version or generation, as people name it.
    pub fn version(&self) -> String {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(archive) => archive.version().to_string(),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(_) => "1".into(),
        }
    }

    /// Size of the file in bytes.
    pub fn file_len(&self) -> u64 {
        with_inner!(self, archive => archive.file_len())
    }

    /// All tensors, in file order.
    pub fn entries(&self) -> Vec<Entry<'_>> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(archive) => archive.entries().iter().map(Entry::Mag).collect(),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(archive) => {
                archive.entries().iter().map(Entry::Safetensors).collect()
            }
        }
    }

    /// The tensor of this name.
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(archive) => archive.entry(name).map(Entry::Mag),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(archive) => archive.entry(name).map(Entry::Safetensors),
        }
    }

    /// File-level metadata, in file order.
    pub fn metadata(&self) -> Vec<(String, Value)> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(archive) => {
                let pair = |meta: &mag_format::MetaEntry| (meta.key().into(), meta.value().into());
                archive.metadata().iter().map(pair).collect()
            }
            #[cfg(feature = "safetensors")]
            Self::Safetensors(archive) => {
                let pair = |(key, value): &(String, String)| (key.clone(), value.as_str().into());
                archive.metadata().iter().map(pair).collect()
            }
        }
    }

    /// Facts about the file as a whole that are no metadata, under the keys of listings.
    pub fn facts(&self) -> Vec<(&'static str, Value)> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(archive) => {
                let checksum = archive.checksum().map_or(Value::Null, |c| c.name().into());
                vec![("checksum", checksum)]
            }
            #[cfg(feature = "safetensors")]
            Self::Safetensors(_) => Vec::new(),
        }
    }

    /// Reads the tensor of this name.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`], naming the nearest names, or what the codec finds.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let entry = self.entry(name).ok_or_else(|| self.no_such_tensor(name))?;
        self.read_entry(&entry)
    }

    /// Reads a tensor.
    ///
    /// # Errors
    /// What the codec finds; an entry of another archive is an error.
    pub fn read_entry(&self, entry: &Entry<'_>) -> Result<Tensor> {
        match (self, entry) {
            #[cfg(feature = "mag")]
            (Self::Mag(archive), Entry::Mag(entry)) => Ok(archive.read(entry)?),
            #[cfg(feature = "safetensors")]
            (Self::Safetensors(archive), Entry::Safetensors(entry)) => Ok(archive.read(entry)?),
            #[allow(unreachable_patterns, reason = "a build may have one codec only")]
            _ => Err(Error::Usage(
                "the entry belongs to an archive of another format".into(),
            )),
        }
    }

    /// A tensor's decoded, little-endian bytes as a source, in stored order.
    ///
    /// # Errors
    /// As [`read_entry`](Self::read_entry).
    pub fn data(&self, entry: &Entry<'_>) -> Result<Arc<dyn Source>> {
        match (self, entry) {
            #[cfg(feature = "mag")]
            (Self::Mag(archive), Entry::Mag(entry)) => Ok(archive.data(entry)?),
            #[cfg(feature = "safetensors")]
            (Self::Safetensors(archive), Entry::Safetensors(entry)) => Ok(archive.data(entry)?),
            #[allow(unreachable_patterns, reason = "a build may have one codec only")]
            _ => Err(Error::Usage(
                "the entry belongs to an archive of another format".into(),
            )),
        }
    }

    /// Makes every check that the format allows: structure, checksums, decompression.
    ///
    /// # Errors
    /// What keeps the checks from being made; damage is in the report.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        with_inner!(self, archive => Ok(archive.verify(options)?))
    }

    /// The error for a name that isn't there, with up to three near ones.
    pub(crate) fn no_such_tensor(&self, name: &str) -> Error {
        let mut near: Vec<(usize, &str)> = Vec::new();
        let entries = self.entries();
        for entry in &entries {
            let distance = distance(name, entry.name());
            if distance <= name.chars().count().max(6) / 2 {
                near.push((distance, entry.name()));
            }
        }
        near.sort_unstable();
        let near: Vec<String> = near
            .iter()
            .take(3)
            .map(|(_, name)| format!("{name:?}"))
            .collect();
        let hint = match near.is_empty() {
            true => String::new(),
            false => format!("; did you mean {}?", near.join(" or ")),
        };
        Error::NoSuchTensor {
            name: name.into(),
            hint,
        }
    }
}

/// Edits between two names, of which only the first 200 characters count.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(200).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(200).enumerate() {
        // `row` holds the line above; its first column is the number of characters dropped.
        let (mut above_left, mut last) = (i, i + 1);
        if let Some(first) = row.first_mut() {
            *first = last;
        }
        for (y, slot) in b.iter().zip(row.iter_mut().skip(1)) {
            let best = (above_left + usize::from(x != *y))
                .min(*slot + 1)
                .min(last + 1);
            above_left = *slot;
            *slot = best;
            last = best;
        }
    }
    row.last().copied().unwrap_or(0)
}

impl<'a> Entry<'a> {
    /// The name.
    pub fn name(&self) -> &'a str {
        with_inner!(self, entry => entry.name())
    }

    /// The dtype, `None` where it is unknown.
    pub fn dtype(&self) -> Option<DType> {
        with_inner!(self, entry => entry.dtype())
    }

    /// The dtype's name in listings: ours where it is known, else the file's.
    pub fn dtype_name(&self) -> Cow<'a, str> {
        if let Some(dtype) = self.dtype().filter(|&dtype| dtype != DType::Opaque) {
            return Cow::Borrowed(dtype.name());
        }
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(entry) => Cow::Owned(entry.dtype_code().to_string()),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(entry) => Cow::Borrowed(entry.dtype_code()),
        }
    }

    /// The dims, outermost first.
    pub fn shape(&self) -> &'a Shape {
        with_inner!(self, entry => entry.shape())
    }

    /// Which dim varies fastest in the stored bytes.
    pub fn order(&self) -> Order {
        with_inner!(self, entry => entry.order())
    }

    /// Absolute offset of the stored bytes.
    pub fn offset(&self) -> u64 {
        with_inner!(self, entry => entry.offset())
    }

    /// Bytes that the tensor takes in the file, `None` where that is unknown.
    pub fn stored_len(&self) -> Option<u64> {
        with_inner!(self, entry => entry.stored_len())
    }

    /// Bytes of the decoded data, `None` where that is unknown.
    pub fn nbytes(&self) -> Option<u64> {
        with_inner!(self, entry => entry.nbytes())
    }

    /// How the bytes are stored: `raw` or the format's own word.
    pub fn encoding(&self) -> Cow<'a, str> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(_) => Cow::Borrowed("raw"),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(_) => Cow::Borrowed("raw"),
        }
    }

    /// What only this format says about a tensor, under the keys of listings.
    pub fn extras(&self) -> Vec<(&'static str, Value)> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(_) => Vec::new(),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(_) => Vec::new(),
        }
    }
}

impl fmt::Display for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.format(), self.version())
    }
}
