//! The tensors of an index: a small record of each, and in blocks what they share or seldom have.

#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;
use core::mem::size_of;
#[cfg(feature = "generations")]
use core::ops::Range;

use tensor_core::codec::{DuplicateName, Names, PieceId, Pieces, ShapeId, Shapes, append};
use tensor_core::{DType, Shape, SourceError};

use crate::checksum::Checksum;
use crate::encoding::{Encoding, Endianness, Layout};

/// Every tensor of a file, and components that are not listed.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) names: Names,
    pub(crate) shapes: Shapes,
    /// Names that the format does not have, custom fields, checksums of other algorithms.
    pub(crate) pieces: Pieces,
    /// Those of listed tensors first.
    records: Vec<Record>,
    listed: usize,
    /// What few tensors have, in the order of these.
    uncommon: Vec<Uncommon>,
    sha256: Vec<[u8; 32]>,
    #[cfg(feature = "generations")]
    xxh3: Vec<u64>,
    /// What entries of generations 1 and 2 have beyond those of 0.1, in the order of these.
    #[cfg(feature = "generations")]
    parts: Vec<Part>,
    #[cfg(feature = "generations")]
    pub(crate) objects: Vec<Object>,
    /// Which listed tensors stand for components that are not, and for which.
    #[cfg(feature = "generations")]
    pub(crate) hidden: Vec<(usize, Range<usize>)>,
}

/// What the index says about every tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) shape: ShapeId,
    pub(crate) checksum: StoredChecksum,
    pub(crate) dtype: Option<DType>,
    pub(crate) layout: Layout,
    pub(crate) encoding: Encoding,
    pub(crate) endianness: Option<Endianness>,
}

const _: () = assert!(size_of::<Record>() <= 32);

/// A checksum, or where it is among those of its algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoredChecksum {
    None,
    Crc32c(u32),
    Sha256(u32),
    #[cfg(feature = "generations")]
    Xxh3(u32),
    Other(PieceId),
}

/// Names that the format does not have, and custom fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uncommon {
    pub(crate) ordinal: usize,
    pub(crate) dtype: PieceId,
    pub(crate) layout: PieceId,
    pub(crate) encoding: PieceId,
    /// Keys and values of custom fields as they are encoded.
    pub(crate) custom: PieceId,
}

impl Uncommon {
    pub(crate) const fn new(ordinal: usize) -> Self {
        Self {
            ordinal,
            dtype: PieceId::EMPTY,
            layout: PieceId::EMPTY,
            encoding: PieceId::EMPTY,
            custom: PieceId::EMPTY,
        }
    }

    fn is_empty(&self) -> bool {
        let pieces = [self.dtype, self.layout, self.encoding, self.custom];
        pieces.into_iter().all(PieceId::is_empty)
    }
}

/// What the components of an object share.
#[cfg(feature = "generations")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) format: PieceId,
    pub(crate) shape: ShapeId,
    /// The encoded map of its attributes.
    pub(crate) attributes: PieceId,
}

/// What an entry of generations 1 and 2 has beyond the fields of one of 0.1.
#[cfg(feature = "generations")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) ordinal: usize,
    /// Decoded bytes, where known.
    pub(crate) decoded: Option<u64>,
    /// Which of the objects it belongs to.
    pub(crate) object: u32,
    /// Of a component the length of the object's name, which its own name starts with.
    pub(crate) component_of: Option<u32>,
    /// Why it can't be read.
    pub(crate) obstacle: Option<Obstacle>,
    /// `dtype` as stored, where `type` says what it means.
    pub(crate) storage: Option<DType>,
    /// Whether the last half byte belongs to no element.
    pub(crate) odd_half: bool,
}

/// Why an entry can't be read; the names that belong to it are elsewhere.
#[cfg(feature = "generations")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The dtype, whose name is the entry's.
    DType,
    /// The logical type, whose name is the entry's.
    Type,
    /// The encoding, whose name is the entry's.
    Encoding,
    /// The component's name, which its format has no dtype for.
    Component,
    /// The format of the object.
    Layout,
    /// Names of components that others have.
    NameCollision,
    /// Another file, of this label.
    Shard(PieceId),
}

#[cfg(feature = "generations")]
impl Obstacle {
    /// Whether the bytes are in this file and can be decoded, even if they mean nothing to us.
    pub(crate) fn leaves_bytes(self) -> bool {
        matches!(self, Self::Type | Self::DType | Self::Component)
    }
}

/// What a record takes with its place in the names, without the name.
pub(crate) const RECORD_MEMORY: u64 = size_of::<Record>() as u64 + Names::MEMORY;

impl Tensors {
    /// Makes room for so many tensors, or says that there is no memory for them.
    pub(crate) fn reserve(&mut self, tensors: usize) -> Result<(), SourceError> {
        let reserved = self.records.try_reserve_exact(tensors);
        reserved.map_err(|_| SourceError::OutOfMemory(tensors as u64))?;
        self.names.reserve(tensors);
        Ok(())
    }

    /// Adds a tensor; what it has beyond the record is of its position.
    pub(crate) fn push(&mut self, name: &str, record: Record) {
        self.names.push(name);
        append(&mut self.records, record);
        self.listed = self.records.len();
    }

    /// Adds what the tensor that comes next has beyond its record, if it does.
    pub(crate) fn push_uncommon(&mut self, uncommon: Uncommon) {
        if !uncommon.is_empty() {
            append(&mut self.uncommon, uncommon);
        }
    }

    #[cfg(feature = "generations")]
    pub(crate) fn push_part(&mut self, part: Part) {
        append(&mut self.parts, part);
    }

    /// Keeps a checksum where the record has no room for it.
    pub(crate) fn keep(
        &mut self,
        checksum: Option<&Checksum>,
    ) -> Result<StoredChecksum, SourceError> {
        let id = |len: usize| u32::try_from(len).map_err(|_| SourceError::TooLarge(len as u64));
        Ok(match checksum {
            None => StoredChecksum::None,
            Some(Checksum::Crc32c(crc)) => StoredChecksum::Crc32c(*crc),
            Some(Checksum::Sha256(hash)) => {
                let at = id(self.sha256.len())?;
                append(&mut self.sha256, *hash);
                StoredChecksum::Sha256(at)
            }
            #[cfg(feature = "generations")]
            Some(Checksum::Xxh3(hash)) => {
                let at = id(self.xxh3.len())?;
                append(&mut self.xxh3, *hash);
                StoredChecksum::Xxh3(at)
            }
            // Before generation 2 there are none.
            #[cfg(not(feature = "generations"))]
            Some(Checksum::Xxh3(_)) => StoredChecksum::None,
            Some(Checksum::Other(text)) if text.is_empty() => StoredChecksum::Other(PieceId::EMPTY),
            Some(Checksum::Other(text)) => {
                StoredChecksum::Other(self.pieces.push(text.as_bytes())?)
            }
        })
    }

    /// Makes the table of names, and gives back what was reserved for more.
    pub(crate) fn finish(&mut self) -> Result<(), DuplicateName> {
        self.shapes.shrink();
        self.pieces.finish();
        self.records.shrink_to_fit();
        self.uncommon.shrink_to_fit();
        self.sha256.shrink_to_fit();
        #[cfg(feature = "generations")]
        {
            self.xxh3.shrink_to_fit();
            self.parts.shrink_to_fit();
            self.objects.shrink_to_fit();
        }
        self.names.index_first(self.listed)
    }

    /// Bytes that everything takes.
    pub(crate) fn memory(&self) -> u64 {
        fn of<T>(list: &[T]) -> u64 {
            size_of_val::<[T]>(list) as u64
        }
        let parts = [
            of(&self.records),
            of(&self.uncommon),
            of(&self.sha256),
            self.names.memory(),
            self.shapes.memory(),
            self.pieces.memory(),
        ];
        let memory = parts.into_iter().fold(0, u64::saturating_add);
        #[cfg(feature = "generations")]
        let memory = memory
            .saturating_add(of(&self.xxh3))
            .saturating_add(of(&self.parts))
            .saturating_add(of(&self.objects))
            .saturating_add(of(&self.hidden));
        memory
    }

    /// How many tensors are listed.
    pub(crate) fn len(&self) -> usize {
        self.listed
    }

    /// How many there are, listed or not.
    #[cfg(feature = "generations")]
    pub(crate) fn all(&self) -> usize {
        self.records.len()
    }

    /// That of a tensor that there is.
    pub(crate) fn record(&self, ordinal: usize) -> &Record {
        const NONE: Record = Record {
            offset: 0,
            size: 0,
            shape: ShapeId::NONE,
            checksum: StoredChecksum::None,
            dtype: None,
            layout: Layout::Absent,
            encoding: Encoding::Raw,
            endianness: None,
        };
        self.records.get(ordinal).unwrap_or(&NONE)
    }

    pub(crate) fn shape(&self, ordinal: usize) -> &Shape {
        self.shapes.get(self.record(ordinal).shape)
    }

    pub(crate) fn uncommon(&self, ordinal: usize) -> Option<&Uncommon> {
        let at = self
            .uncommon
            .binary_search_by_key(&ordinal, |uncommon| uncommon.ordinal);
        at.ok().and_then(|at| self.uncommon.get(at))
    }

    pub(crate) fn checksum(&self, ordinal: usize) -> Option<Checksum> {
        let at = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        match self.record(ordinal).checksum {
            StoredChecksum::None => None,
            StoredChecksum::Crc32c(crc) => Some(Checksum::Crc32c(crc)),
            StoredChecksum::Sha256(id) => self.sha256.get(at(id)).copied().map(Checksum::Sha256),
            #[cfg(feature = "generations")]
            StoredChecksum::Xxh3(id) => self.xxh3.get(at(id)).copied().map(Checksum::Xxh3),
            StoredChecksum::Other(id) => Some(Checksum::Other(self.pieces.text(id).into())),
        }
    }

    #[cfg(feature = "generations")]
    pub(crate) fn part(&self, ordinal: usize) -> Option<&Part> {
        // Mostly all have one or none has.
        let at = match self.parts.get(ordinal) {
            Some(part) if part.ordinal == ordinal => ordinal,
            _ => {
                let found = self
                    .parts
                    .binary_search_by_key(&ordinal, |part| part.ordinal);
                found.ok()?
            }
        };
        self.parts.get(at)
    }

    #[cfg(feature = "generations")]
    pub(crate) fn object(&self, part: &Part) -> Option<&Object> {
        self.objects.get(usize::try_from(part.object).ok()?)
    }

    /// The components that a listed tensor stands for.
    #[cfg(feature = "generations")]
    pub(crate) fn hidden(&self, ordinal: usize) -> Range<usize> {
        let at = self.hidden.binary_search_by_key(&ordinal, |(of, _)| *of);
        let range = at.ok().and_then(|at| self.hidden.get(at));
        range.map_or(0..0, |(_, range)| range.clone())
    }

    /// Starts anew with records, names and what belongs to them; shapes, pieces, objects and checksums stay.
    #[cfg(feature = "generations")]
    pub(crate) fn take_order(&mut self) -> Order {
        Order {
            names: core::mem::take(&mut self.names),
            records: core::mem::take(&mut self.records),
            uncommon: core::mem::take(&mut self.uncommon),
            parts: core::mem::take(&mut self.parts),
        }
    }

    /// Adds a tensor of an order that was taken.
    #[cfg(feature = "generations")]
    pub(crate) fn push_from(&mut self, order: &Order, at: usize) {
        let Some(&record) = order.records.get(at) else {
            return;
        };
        let ordinal = self.records.len();
        let found = order
            .uncommon
            .binary_search_by_key(&at, |uncommon| uncommon.ordinal);
        if let Some(uncommon) = found.ok().and_then(|found| order.uncommon.get(found)) {
            append(
                &mut self.uncommon,
                Uncommon {
                    ordinal,
                    ..*uncommon
                },
            );
        }
        let found = order.parts.binary_search_by_key(&at, |part| part.ordinal);
        if let Some(part) = found.ok().and_then(|found| order.parts.get(found)) {
            append(&mut self.parts, Part { ordinal, ..*part });
        }
        self.push(order.names.get(at), record);
    }

    /// Says that what comes from here on is not listed.
    #[cfg(feature = "generations")]
    pub(crate) fn end_of_list(&mut self, listed: usize) {
        self.listed = listed;
    }
}

/// Tensors in the order that they had.
#[cfg(feature = "generations")]
pub(crate) struct Order {
    names: Names,
    records: Vec<Record>,
    uncommon: Vec<Uncommon>,
    parts: Vec<Part>,
}

#[cfg(feature = "generations")]
impl Order {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn offset(&self, at: usize) -> Option<u64> {
        self.records.get(at).map(|record| record.offset)
    }
}
