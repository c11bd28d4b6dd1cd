#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;
use core::mem::size_of_val;
use core::ops::Range;

use tensor_core::Shape;
use tensor_core::codec::{DuplicateName, Names, ShapeId, Shapes};

use crate::DTypeCode;

/// The tensors of an index: a small record of each, and in blocks what they share or seldom have.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) names: Names,
    pub(crate) shapes: Shapes,
    pub(crate) records: Vec<Record>,
    /// The shards that tensors are in, by their ids.
    pub(crate) shards: Vec<Shard>,
    /// What few tensors have, in the order of these.
    pub(crate) seldom: Vec<Seldom>,
    /// The pairs of key and value that the format does not write itself, as they are stored.
    pub(crate) extra: Vec<u8>,
    /// Which tensors have a hash, and the hashes.
    pub(crate) hashed: Vec<usize>,
    pub(crate) hashes: Vec<[u8; 32]>,
}

/// What the index says about every tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) data_off: u64,
    pub(crate) data_len: u64,
    pub(crate) shape: ShapeId,
    pub(crate) shard_id: u32,
    pub(crate) code: DTypeCode,
}

/// A shard that tensors are in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shard {
    pub(crate) id: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Seldom {
    pub(crate) ordinal: usize,
    pub(crate) flags: u64,
    pub(crate) quant_id: Option<i64>,
    pub(crate) extra: Range<usize>,
}

impl Tensors {
    pub(crate) fn reserve(&mut self, tensors: usize) {
        self.names.reserve(tensors);
        self.records.reserve_exact(tensors);
    }

    /// Makes the table of names, and gives back what was reserved for more.
    pub(crate) fn finish(&mut self) -> Result<(), DuplicateName> {
        self.shapes.shrink();
        self.records.shrink_to_fit();
        self.seldom.shrink_to_fit();
        self.extra.shrink_to_fit();
        self.hashed.shrink_to_fit();
        self.hashes.shrink_to_fit();
        self.names.index()
    }

    /// Bytes that everything takes.
    pub(crate) fn memory(&self) -> u64 {
        let records = size_of_val::<[Record]>(&self.records);
        let seldom = size_of_val::<[Seldom]>(&self.seldom);
        let hashed = size_of_val::<[usize]>(&self.hashed);
        let hashes = size_of_val::<[[u8; 32]]>(&self.hashes);
        let parts = [records, seldom, hashed, hashes, self.extra.len()];
        let parts = parts
            .iter()
            .fold(0u64, |sum, &part| sum.saturating_add(part as u64));
        parts
            .saturating_add(self.names.memory())
            .saturating_add(self.shapes.memory())
    }

    /// That of a tensor that there is.
    pub(crate) fn record(&self, ordinal: usize) -> &Record {
        const NONE: Record = Record {
            data_off: 0,
            data_len: 0,
            shape: ShapeId::NONE,
            shard_id: 0,
            code: DTypeCode(0),
        };
        self.records.get(ordinal).unwrap_or(&NONE)
    }

    pub(crate) fn shape(&self, record: &Record) -> &Shape {
        self.shapes.get(record.shape)
    }

    fn seldom(&self, ordinal: usize) -> Option<&Seldom> {
        let at = self
            .seldom
            .binary_search_by_key(&ordinal, |seldom| seldom.ordinal);
        at.ok().and_then(|at| self.seldom.get(at))
    }

    pub(crate) fn flags(&self, ordinal: usize) -> u64 {
        self.seldom(ordinal).map_or(0, |seldom| seldom.flags)
    }

    pub(crate) fn quant_id(&self, ordinal: usize) -> Option<i64> {
        self.seldom(ordinal)?.quant_id
    }

    /// The pairs that are kept of a tensor, one after the other.
    pub(crate) fn extra(&self, ordinal: usize) -> &[u8] {
        let seldom = self.seldom(ordinal);
        let extra = seldom.and_then(|seldom| self.extra.get(seldom.extra.clone()));
        extra.unwrap_or_default()
    }

    pub(crate) fn hash(&self, ordinal: usize) -> Option<&[u8; 32]> {
        // Mostly all have one, and then the ordinal is the place.
        let at = match self.hashed.get(ordinal) {
            Some(&hashed) if hashed == ordinal => ordinal,
            _ => self.hashed.binary_search(&ordinal).ok()?,
        };
        self.hashes.get(at)
    }
}
