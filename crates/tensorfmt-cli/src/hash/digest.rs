//! Digests of bytes that come in pieces, and of a whole model.

use std::fmt::Write;
use std::ops::Range;

use sha2::{Digest, Sha256};
use tensor_core::codec::{Ticker, walk};
use tensor_core::{Source, checksum};
use tensorfmt::convert::Tensors;
use tensorfmt::{Archive, DType, Entry, Error, Format, Order};

use crate::cli::Algorithm;
use crate::picked::Picked;

/// A digest under way.
pub(super) enum Hasher {
    Blake3(Box<blake3::Hasher>),
    Sha256(Sha256),
    Crc32c(u32),
}

impl Hasher {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Blake3 => Self::Blake3(Box::default()),
            Algorithm::Sha256 | Algorithm::Autov3 => Self::Sha256(Sha256::new()),
            Algorithm::Crc32c => Self::Crc32c(0),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake3(hasher) => {
                hasher.update(bytes);
            }
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Crc32c(crc) => *crc = checksum::crc32c_append(*crc, bytes),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Self::Blake3(hasher) => hasher.finalize().as_bytes().to_vec(),
            Self::Sha256(hasher) => hasher.finalize().to_vec(),
            Self::Crc32c(crc) => crc.to_be_bytes().to_vec(),
        }
    }
}

/// Bytes in lower-case hex.
pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that hex stands for.
pub(super) fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok()?;
        u8::from_str_radix(digits, 16).ok()
    };
    digits.map(byte).collect()
}

/// The digest of a range of a source.
pub(super) fn of(
    data: &dyn Source,
    range: Range<u64>,
    algorithm: Algorithm,
    ticker: &Ticker<'_>,
) -> Result<Vec<u8>, Error> {
    if let Algorithm::Crc32c = algorithm {
        let crc = checksum::crc32c_source(data, range, 1, ticker).map_err(Error::from)?;
        return Ok(crc.to_be_bytes().to_vec());
    }
    let mut hasher = Hasher::new(algorithm);
    walk::<Error>(data, range, ticker, |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    Ok(hasher.finish())
}

/// The digest of a tensor's decoded bytes in stored order; of its stored ones where the dtype is unknown.
pub(super) fn of_tensor(
    archive: &Archive,
    entry: &Entry<'_>,
    algorithm: Algorithm,
    ticker: &Ticker<'_>,
) -> Result<Vec<u8>, Error> {
    let data = match archive.data(*entry) {
        // The error says why there are no values; where there are no bytes either, that is all.
        Err(error) if error.is_unsupported() => archive.stored(*entry).map_err(|_| error)?,
        data => data?,
    };
    of(&data, 0..data.size(), algorithm, ticker)
}

/// The digest of a tensor's values row by row, `None` where that is the digest of its bytes as they are
/// stored.
pub(super) fn of_rows(
    archive: &Archive,
    tensors: &Tensors<'_>,
    entry: &Entry<'_>,
    algorithm: Algorithm,
    ticker: &Ticker<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    let is_turned = entry.order() == Order::ColumnMajor && !entry.shape().is_order_free();
    // Burn's bools may have four bytes each.
    let is_wide = archive.format() == Format::Burnpack && entry.dtype() == Some(DType::Bool);
    if !(is_turned || is_wide) {
        return Ok(None);
    }
    let tensor = tensors.get(*entry);
    if tensor.dtype().is_none_or(|dtype| dtype.size().is_none()) {
        return Ok(None);
    }
    let rows = tensor.rows()?;
    of(&rows, 0..rows.size(), algorithm, ticker).map(Some)
}

/// What the digest of a model is made of.
pub(super) struct Parts {
    algorithm: Algorithm,
    /// The digests one after the other, in the order of the tensors.
    digests: Vec<u8>,
    /// How long each is.
    len: usize,
    /// Whether one of them is not there.
    lacks: bool,
}

impl Parts {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            digests: Vec::new(),
            len: Hasher::new(algorithm).finish().len(),
            lacks: false,
        }
    }

    /// Adds the digest of the next tensor's values.
    pub(super) fn add(&mut self, digest: Option<&[u8]>) {
        match digest.filter(|digest| digest.len() == self.len) {
            Some(digest) if !self.lacks => self.digests.extend_from_slice(digest),
            Some(_) => {}
            None => {
                self.lacks = true;
                self.digests = Vec::new();
            }
        }
    }

    /// The digest over all tensors, whose entries these are; `None` where one has none.
    ///
    /// It is made of a record for each tensor, sorted by name, byte by byte: name, dtype, dims and digest,
    /// each as its length in bytes in decimal, a colon, the text, and a comma. Dims are decimal numbers with
    /// commas between them, digests lower-case hex.
    pub(super) fn finish(self, tensors: &Tensors<'_>, entries: &Picked<'_>) -> Option<Vec<u8>> {
        if self.lacks {
            return None;
        }
        // Of a million tensors a position each, not an entry.
        let mut sorted: Vec<u32> = (0..).take(entries.len()).collect();
        let position = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        let record = |at: u32| {
            let entry = entries.get(position(at))?;
            let start = position(at).saturating_mul(self.len);
            let digest = self.digests.get(start..start.saturating_add(self.len));
            let tensor = tensors.get(entry);
            let about = (tensor.name(), tensor.dtype_name(), tensor.shape().dims());
            Some(record(about, digest.unwrap_or_default()))
        };
        let name = |at: u32| entries.get(position(at)).map(|entry| entry.name());
        // Several tensors of one name, which some formats allow, have no order but that of what they hold.
        sorted.sort_unstable_by(|&a, &b| {
            let order = name(a).cmp(&name(b));
            order.then_with(|| record(a).cmp(&record(b)))
        });
        let mut hasher = Hasher::new(self.algorithm);
        for record in sorted.into_iter().filter_map(record) {
            hasher.update(record.as_bytes());
        }
        Some(hasher.finish())
    }
}

/// What names a tensor's values: its name, its dtype and its dims.
pub(super) type AboutTensor<'a> = (&'a str, &'a str, &'a [u64]);

fn record((name, dtype, shape): AboutTensor<'_>, digest: &[u8]) -> String {
    // One text, not one for each: a tensor may have a million dims.
    let mut dims = String::new();
    for dim in shape {
        let comma = if dims.is_empty() { "" } else { "," };
        let _ = write!(dims, "{comma}{dim}");
    }
    let digest = hex(digest);
    let fields = [name, dtype, &dims, &digest];
    let field = |text: &str| format!("{}:{text},", text.len());
    fields.map(field).concat()
}

/// What the digest of a model is made of, where the tensors themselves are not at hand.
pub(super) struct Records {
    algorithm: Algorithm,
    /// The name of each tensor, and its record.
    records: Vec<(String, String)>,
    /// How long a digest is.
    len: usize,
    /// Whether one of them is not there.
    lacks: bool,
}

impl Records {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            records: Vec::new(),
            len: Hasher::new(algorithm).finish().len(),
            lacks: false,
        }
    }

    /// Adds a tensor with the digest of its values.
    pub(super) fn add(&mut self, about: AboutTensor<'_>, digest: Option<&[u8]>) {
        match digest.filter(|digest| digest.len() == self.len) {
            Some(digest) if !self.lacks => {
                self.records
                    .push((about.0.to_owned(), record(about, digest)));
            }
            Some(_) => {}
            None => {
                self.lacks = true;
                self.records = Vec::new();
            }
        }
    }

    /// The digest over all tensors, as [`Parts::finish`] makes it.
    pub(super) fn finish(mut self) -> Option<Vec<u8>> {
        if self.lacks {
            return None;
        }
        self.records.sort_unstable();
        let mut hasher = Hasher::new(self.algorithm);
        for (_, record) in &self.records {
            hasher.update(record.as_bytes());
        }
        Some(hasher.finish())
    }
}
