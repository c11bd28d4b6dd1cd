//! What is kept of the tensors of a file: a small record of each, and in blocks what they share or seldom
//! have.

use alloc::boxed::Box;
use alloc::vec::Vec;

use tensor_core::codec::{DuplicateName, NameTable, Names, ShapeId, Shapes, check_index_memory};
use tensor_core::{At, SourceError};

use crate::layout::Header;
use crate::{DTypeCode, Error, Result, Rule};

/// The tensors of an index. While the metadata is read they are in its order, which is that of their
/// names; from then on in that of their data.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) names: Names,
    pub(crate) shapes: Shapes,
    pub(crate) records: Vec<Record>,
    spelled: Spelled,
    /// The parameter ids, and of which tensors they are by the place in the metadata; that list is empty
    /// where all tensors have one.
    ids: Vec<u64>,
    with_id: Vec<u32>,
}

/// What the metadata says about every tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Where its data begins, counted from the start of the data section.
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) shape: ShapeId,
    /// The position of its dtype: among the known ones, then among those that only this file has.
    pub(crate) code: u32,
    /// Its place in the metadata, counted from 0.
    pub(crate) ordinal: u32,
    /// Where in the metadata it is, in bytes.
    pub(crate) item: u32,
}

/// Bytes of memory of a tensor while the metadata is read: its record, and where its name ends.
pub(super) const RECORD: usize = size_of::<Record>() + size_of::<usize>();

impl Record {
    const NONE: Self = Self {
        start: 0,
        len: 0,
        shape: ShapeId::NONE,
        code: 0,
        ordinal: 0,
        item: 0,
    };

    /// Where its data ends, counted from the start of the data section.
    pub(crate) fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }

    pub(crate) fn at(self, field: &'static str) -> At {
        let offset = Header::SIZE.saturating_add(self.item.into());
        At::new(offset, field).entry(self.ordinal.into())
    }
}

impl Tensors {
    /// Makes room for so many tensors more, and for so many bytes more of their names.
    pub(super) fn try_reserve(&mut self, tensors: usize, text: usize) -> Result<(), SourceError> {
        let more = tensors.saturating_mul(RECORD).saturating_add(text);
        let table = tensors.saturating_mul(usize::try_from(NameTable::MEMORY).unwrap_or(16));
        check_index_memory(more.saturating_add(table) as u64)?;
        let reserved = self.names.try_reserve(tensors);
        let reserved = reserved.and_then(|()| self.names.try_reserve_text(text));
        let reserved = reserved.and_then(|()| self.records.try_reserve_exact(tensors));
        reserved.map_err(|_| SourceError::OutOfMemory(more as u64))
    }

    /// Keeps the parameter id of the tensor that is added next.
    pub(super) fn push_id(&mut self, ordinal: u32, id: u64) {
        self.with_id.push(ordinal);
        self.ids.push(id);
    }

    /// The position of a dtype that is none of the known ones, with its CBOR item; `None` where this one is
    /// the first.
    pub(super) fn find_code(&mut self, item: &[u8]) -> Option<u32> {
        self.spelled.find(item)
    }

    /// Adds a dtype that [`find_code`](Self::find_code) didn't find.
    pub(super) fn push_code(&mut self, code: DTypeCode, item: &[u8]) -> u32 {
        self.spelled.push(code, item)
    }

    /// Gives back what was reserved for more.
    pub(super) fn shrink(&mut self) {
        if self.ids.len() == self.records.len() {
            self.with_id = Vec::new();
        }
        self.ids.shrink_to_fit();
        self.with_id.shrink_to_fit();
        self.shapes.shrink();
        self.spelled.shrink();
        let len = self.records.len();
        if self.records.capacity() > len.saturating_add(len / 8) {
            self.records.shrink_to_fit();
        }
    }

    /// Brings the tensors into the order of their data, those without any first.
    pub(super) fn sort(&mut self) -> Result<(), SourceError> {
        // Starts that are cut off here are those of no valid file.
        self.records.sort_unstable_by_key(|record| {
            let start = record.start.saturating_mul(2) | u64::from(record.len > 0);
            (start, record.ordinal)
        });
        let mut names = Names::default();
        let text = self.names.text_len();
        names
            .try_reserve(self.records.len())
            .and_then(|()| names.try_reserve_text(text))
            .map_err(|_| SourceError::OutOfMemory(text as u64))?;
        for record in &self.records {
            names.push(self.names.get(place(record.ordinal)));
        }
        self.names = names;
        Ok(())
    }

    /// Makes the table of names.
    ///
    /// # Errors
    /// Two tensors of one name, by their positions.
    pub(super) fn index_names(&mut self) -> Result<(), DuplicateName> {
        self.names.index()
    }

    /// That of a tensor that there is.
    pub(crate) fn record(&self, position: usize) -> Record {
        let record = self.records.get(position);
        record.copied().unwrap_or(Record::NONE)
    }

    /// The dtype of a position that a record has.
    pub(crate) fn code(&self, code: u32) -> &DTypeCode {
        let code = place(code);
        let own = code.checked_sub(DTypeCode::KNOWN);
        let own = own.and_then(|own| self.spelled.list.get(own));
        own.map_or_else(|| DTypeCode::known(code), |(own, _)| own)
    }

    /// The CBOR item of a dtype that is unknown.
    pub(crate) fn spelling(&self, code: u32) -> Option<&[u8]> {
        let own = place(code).checked_sub(DTypeCode::KNOWN)?;
        let (code, item) = self.spelled.list.get(own)?;
        matches!(code, DTypeCode::Unknown(_)).then_some(&**item)
    }

    pub(crate) fn param_id(&self, record: Record) -> Option<u64> {
        let at = match self.with_id.is_empty() {
            true => place(record.ordinal),
            false => self.with_id.binary_search(&record.ordinal).ok()?,
        };
        self.ids.get(at).copied()
    }

    /// The error that a tensor breaks a rule.
    pub(crate) fn invalid(&self, position: usize, rule: Rule, field: &'static str) -> Error {
        let at = self.record(position).at(field);
        Error::invalid(rule, at).of_tensor(self.names.get(position))
    }
}

/// The dtypes that only this file has, each with its CBOR item: of those that come again soon there is one.
#[derive(Debug, Default)]
struct Spelled {
    list: Vec<(DTypeCode, Box<[u8]>)>,
    /// Where the last one of each hash is.
    recent: Vec<u32>,
}

impl Spelled {
    /// How many hashes are told apart; a model has few schemes.
    const RECENT: usize = 256;

    fn slot(item: &[u8]) -> usize {
        // FNV-1a: good enough to tell few items apart.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = item.iter().fold(0xcbf2_9ce4_8422_2325, mix);
        usize::try_from(hash >> 32).unwrap_or(0) % Self::RECENT
    }

    fn find(&self, item: &[u8]) -> Option<u32> {
        let at = *self.recent.get(Self::slot(item))?;
        let (_, known) = self.list.get(place(at))?;
        (**known == *item).then(|| at.saturating_add(short(DTypeCode::KNOWN)))
    }

    fn push(&mut self, code: DTypeCode, item: &[u8]) -> u32 {
        if self.recent.is_empty() {
            self.recent = alloc::vec![u32::MAX; Self::RECENT];
        }
        let at = short(self.list.len());
        self.list.push((code, item.into()));
        if let Some(recent) = self.recent.get_mut(Self::slot(item)) {
            *recent = at;
        }
        at.saturating_add(short(DTypeCode::KNOWN))
    }

    fn shrink(&mut self) {
        self.recent = Vec::new();
        self.list.shrink_to_fit();
    }
}

/// A place as this host counts them.
pub(crate) fn place(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// A place as records keep it: the metadata has fewer bytes than 32 bits count.
pub(super) fn short(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
