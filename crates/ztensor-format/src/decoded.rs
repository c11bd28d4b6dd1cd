//! What only generation 2 asks of data: digests over decoded bytes, and rules for what they say.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use tensor_core::codec::{Ticker, WINDOW, walk};
use tensor_core::{At, Bytes, DType, FileId, Item, Outcome, Source, SourceError, Window};

use crate::checksum::{Checksum, Hasher};
use crate::encoding::Encoding;
use crate::read::Stored;
use crate::tensors::Obstacle;
use crate::verify::{compared, outcome_of};
use crate::{Archive, Entry, Error, Result, Rule, Unsupported, v2};

/// Bools, each of which is checked to be 0 or 1 when it is read.
struct CheckedBools {
    inner: Arc<dyn Source>,
    at: At,
}

impl CheckedBools {
    fn check(&self, values: &[u8]) -> Result<(), SourceError> {
        if values.iter().all(|&value| value <= 1) {
            return Ok(());
        }
        let (rule, at) = (Rule::BoolValue, self.at);
        Err(SourceError::failure(Error::invalid(rule, at)))
    }
}

impl Source for CheckedBools {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.inner.read_into(offset, out)?;
        self.check(out)
    }

    fn read(&self, range: core::ops::Range<u64>) -> Result<Bytes, SourceError> {
        let bytes = self.inner.read(range)?;
        self.check(&bytes)?;
        Ok(bytes)
    }

    fn window(&self) -> usize {
        self.inner.window()
    }

    fn file(&self) -> Option<&FileId> {
        self.inner.file()
    }

    fn is_random_access(&self) -> bool {
        self.inner.is_random_access()
    }
}

impl fmt::Debug for CheckedBools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedBools")
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

/// The bytes of a part as they are checked.
enum Parts {
    Raw(Window<Arc<dyn Source>>),
    #[cfg(feature = "zstd")]
    Seekable(crate::seekable::Seekable),
}

impl Archive {
    /// The decoded bytes of an entry of generation 2, with the rules that its type has.
    pub(crate) fn checked(&self, entry: Entry<'_>, decoded: u64) -> Result<Stored> {
        let bools = entry.dtype() == Some(DType::Bool);
        let inner: Arc<dyn Source> = match self.parts(entry, decoded)? {
            Parts::Raw(window) if !bools => return Ok(Stored::Raw(window)),
            Parts::Raw(window) => Arc::new(window),
            #[cfg(feature = "zstd")]
            Parts::Seekable(seekable) => Arc::new(seekable),
        };
        let at = entry.at("data");
        Ok(Stored::Checked(match bools {
            true => Arc::new(CheckedBools { inner, at }),
            false => inner,
        }))
    }

    /// The decoded bytes, whatever they mean.
    fn parts(&self, entry: Entry<'_>, decoded: u64) -> Result<Parts> {
        let range = entry.range();
        let at = entry.at("data");
        match entry.encoding() {
            Encoding::Raw => Ok(Parts::Raw(Window::new(self.source.clone(), range)?)),
            #[cfg(feature = "zstd")]
            Encoding::ZstdSeekable => {
                self.check_decoded(decoded, at)?;
                let max_window = self.index.limits.max_window_bytes;
                let seekable = crate::seekable::Seekable::new(
                    (&self.source, &self.tables),
                    range,
                    decoded,
                    max_window,
                    at,
                )?;
                Ok(Parts::Seekable(seekable))
            }
            _ => {
                let _ = decoded;
                let what = Unsupported::ZstdDisabled;
                Err(Error::unsupported(what, at))
            }
        }
    }

    /// One item for an object whose components can't be listed.
    pub(crate) fn verify_hidden(
        &self,
        entry: Entry<'_>,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<Item> {
        for component in entry.hidden() {
            let mut item = self.check_entry(component, threads, ticker)?;
            if item.outcome == Outcome::Failed {
                let note = item.note.take().unwrap_or_default();
                item.item = entry.name().into();
                let of = component.component().unwrap_or("data");
                return Ok(item.with_note(format!("component {of:?}: {note}")));
            }
        }
        let item = Item::new(entry.name(), Outcome::Unsupported);
        match entry.unsupported() {
            Some((what, at)) => {
                let (_, note) = outcome_of(Error::unsupported(what, at))?;
                Ok(item.with_note(note))
            }
            None => Ok(item),
        }
    }

    /// Holds the decoded bytes of an entry of generation 2 against its digest and its rules.
    pub(crate) fn verify_decoded(&self, entry: Entry<'_>, ticker: &Ticker<'_>) -> Result<Item> {
        let unsupported = entry.unsupported();
        let obstacle = entry.part().and_then(|part| part.obstacle);
        let has_bytes = obstacle.is_none_or(Obstacle::leaves_bytes)
            && !matches!(&unsupported, Some((Unsupported::ZstdDisabled, _)));
        let unsupported = unsupported.map(|(what, at)| Error::unsupported(what, at));
        let unsupported = match unsupported {
            Some(error) if !has_bytes => {
                let (outcome, note) = outcome_of(error)?;
                return Ok(Item::new(entry.name(), outcome).with_note(note));
            }
            unsupported => unsupported,
        };
        let mut item = match self.check_decoded_bytes(entry, ticker) {
            Ok(item) => item,
            Err(error) => {
                let (outcome, note) = outcome_of(error)?;
                return Ok(Item::new(entry.name(), outcome).with_note(note));
            }
        };
        match unsupported {
            Some(error) if item.outcome != Outcome::Failed => {
                let (outcome, note) = outcome_of(error)?;
                item.outcome = outcome;
                Ok(item.with_note(note))
            }
            _ => Ok(item),
        }
    }

    fn check_decoded_bytes(&self, entry: Entry<'_>, ticker: &Ticker<'_>) -> Result<Item> {
        let fail = |rule: Rule| {
            let at = entry.at("data");
            Err(Error::invalid(rule, at))
        };
        let decoded = match entry.part().and_then(|part| part.decoded) {
            Some(decoded) => decoded,
            None => match entry.nbytes() {
                Some(decoded) => decoded,
                None => return fail(Rule::ShapeOverflow),
            },
        };
        let digest = entry.checksum();
        let mut hasher = Hasher::like(digest.as_ref());
        let (mut truths, mut last) = (true, 0);
        let is_bool = entry.dtype() == Some(DType::Bool);
        let mut visit = |piece: &[u8]| {
            hasher.update(piece);
            truths &= !is_bool || piece.iter().all(|&value| value <= 1);
            last = piece.last().copied().unwrap_or(last);
            Ok(())
        };
        match self.parts(entry, decoded)? {
            Parts::Raw(window) => walk::<Error>(&window, 0..decoded, ticker, &mut visit)?,
            #[cfg(feature = "zstd")]
            Parts::Seekable(seekable) => {
                static LARGE: std::sync::Mutex<()> = std::sync::Mutex::new(());
                let _only = seekable.is_large().then(|| {
                    let poisoned = std::sync::PoisonError::into_inner;
                    LARGE.lock().unwrap_or_else(poisoned)
                });
                seekable.check_empty()?;
                walk::<Error>(&seekable, 0..decoded, ticker, &mut visit)?;
            }
        }
        if !truths {
            return fail(Rule::BoolValue);
        }
        if entry.part().is_some_and(|part| part.odd_half) && last >> 4 != 0 {
            return fail(Rule::F4Padding);
        }
        if let Some(Checksum::Other(_)) = &digest {
            let algorithm = digest.as_ref().map_or("", Checksum::algorithm);
            if ["xxh3", "sha256"].contains(&algorithm) {
                return fail(Rule::ChecksumDigits);
            }
        }
        let item = compared(entry, hasher.finish().as_ref());
        if item.outcome != Outcome::Failed && entry.component() == Some("indices") {
            self.check_csr(entry)?;
        }
        Ok(item)
    }

    /// What the indices of a sparse matrix say together with its row pointers.
    fn check_csr(&self, entry: Entry<'_>) -> Result<()> {
        let (Some(part), Some(object)) = (entry.part(), entry.object()) else {
            return Ok(());
        };
        if entry.layout_name() != v2::CSR {
            return Ok(());
        }
        let find = || {
            let is_ours = |found: &Entry<'_>| {
                found
                    .part()
                    .is_some_and(|other| other.object == part.object)
            };
            let listed = self.entry(&format!("{object}/indptr"));
            listed.filter(is_ours).or_else(|| {
                let mut hidden = self.entry(object)?.hidden();
                hidden.find(|hidden| hidden.component() == Some("indptr"))
            })
        };
        let (Some(pointers), Some(dtype)) = (find(), entry.dtype()) else {
            return Ok(());
        };
        // What can't be read has an item of its own.
        let Ok(pointers) = self.data(pointers) else {
            return Ok(());
        };
        let width = match dtype {
            DType::U32 => 4,
            _ => 8,
        };
        let dims = entry
            .object_shape()
            .map_or(&[][..], tensor_core::Shape::dims);
        let columns = dims.get(1).copied().unwrap_or(0);
        let mut pointers = Numbers::new(pointers, width);
        let mut indices = Numbers::new(self.data(entry)?, width);
        let fail = |rule: Rule| {
            let at = entry.at("data");
            Err(Error::invalid(rule, at))
        };
        let count = indices.count();
        let mut end = pointers.next()?.unwrap_or(0);
        if end != 0 {
            return fail(Rule::CsrIndptr);
        }
        while let Some(next) = pointers.next()? {
            if next < end || next > count {
                return fail(Rule::CsrIndptr);
            }
            let mut before = None;
            for _ in end..next {
                let column = indices.next()?.unwrap_or(u64::MAX);
                if column >= columns || before.is_some_and(|before| before >= column) {
                    return fail(Rule::CsrColumn);
                }
                before = Some(column);
            }
            end = next;
        }
        match end == count {
            true => Ok(()),
            false => fail(Rule::CsrIndptr),
        }
    }
}

/// Little-endian numbers, one after the other, in windows.
struct Numbers {
    source: Arc<dyn Source>,
    width: usize,
    next: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl Numbers {
    fn new(source: Arc<dyn Source>, width: usize) -> Self {
        Self {
            source,
            width,
            next: 0,
            buffer: Vec::new(),
            used: 0,
        }
    }

    fn count(&self) -> u64 {
        self.source.size() / self.width as u64
    }

    fn next(&mut self) -> Result<Option<u64>> {
        if self.used >= self.buffer.len() {
            let left = self.source.size().saturating_sub(self.next);
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(WINDOW);
            if len < self.width {
                return Ok(None);
            }
            self.buffer.resize(len, 0);
            self.source.read_into(self.next, &mut self.buffer)?;
            self.next += len as u64;
            self.used = 0;
        }
        let bytes = self.buffer.get(self.used..).unwrap_or_default();
        self.used += self.width;
        Ok(match self.width {
            4 => bytes
                .first_chunk()
                .map(|bytes| u32::from_le_bytes(*bytes).into()),
            _ => bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
        })
    }
}
