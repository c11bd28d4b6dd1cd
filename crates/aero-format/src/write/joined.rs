//! The data of a shard, from wherever its tensors are.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use tensor_core::Source;

use super::{Placed, Planned, Shard};
use crate::Error;

/// The tensors of a shard with the zeros between them, as one source.
pub(super) struct Joined {
    /// Where each tensor starts.
    pub(super) parts: Vec<(u64, Arc<dyn Source>)>,
    /// Which ones they are.
    pub(super) tensors: Vec<usize>,
    len: u64,
    /// Which part could not be read; past the end where all could.
    failed: AtomicUsize,
}

impl Joined {
    pub(super) fn of(shard: &Shard, tensors: &[Planned]) -> Self {
        let part = |placed: &Placed| {
            let tensor = tensors.get(placed.tensor)?;
            Some((placed.offset, tensor.data.clone()))
        };
        Self {
            parts: shard.tensors.iter().filter_map(part).collect(),
            tensors: shard.tensors.iter().map(|placed| placed.tensor).collect(),
            len: shard.len,
            failed: AtomicUsize::new(usize::MAX),
        }
    }

    /// The error of a read with the name of the tensor that could not be read.
    pub(super) fn named(&self, error: Error, tensors: &[Planned]) -> Error {
        let failed = self.tensors.get(self.failed.load(Ordering::Relaxed));
        match failed.and_then(|&tensor| tensors.get(tensor)) {
            Some(tensor) => error.of_tensor(&tensor.name),
            None => error,
        }
    }

    /// The tensor that is around `position`, or begins there.
    pub(super) fn around(&self, position: u64) -> Option<usize> {
        let ends_before =
            |(start, data): &(u64, Arc<dyn Source>)| start.saturating_add(data.size()) <= position;
        let part = self.parts.partition_point(ends_before);
        self.tensors.get(part).copied()
    }
}

impl Source for Joined {
    fn size(&self) -> u64 {
        self.len
    }

    fn is_random_access(&self) -> bool {
        self.parts.iter().all(|(_, data)| data.is_random_access())
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), tensor_core::SourceError> {
        self.check(offset, out.len() as u64)?;
        out.fill(0);
        let wanted = offset..offset + out.len() as u64;
        let first = self
            .parts
            .partition_point(|(start, data)| start + data.size() <= offset);
        for (number, (start, data)) in self.parts.iter().enumerate().skip(first) {
            let part: Range<u64> = *start..start + data.size();
            if part.start >= wanted.end {
                break;
            }
            let (from, to) = (part.start.max(wanted.start), part.end.min(wanted.end));
            if from >= to {
                continue;
            }
            let at = |position: u64| usize::try_from(position - offset).unwrap_or(usize::MAX);
            let piece = out.get_mut(at(from)..at(to)).unwrap_or_default();
            data.read_into(from - part.start, piece)
                .inspect_err(|_| self.failed.store(number, Ordering::Relaxed))?;
        }
        Ok(())
    }
}
