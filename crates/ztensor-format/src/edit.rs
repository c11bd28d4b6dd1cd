//! The index of a file that is written anew after its data.

use alloc::vec::Vec;
use core::result::Result as Edit;

use tensor_core::{Misfit, Patch};

use crate::checksum::Checksum;
use crate::generation::Generation;
use crate::layout::{FOOTER, MAGIC};
use crate::write::Planned;
use crate::{Algorithm, Archive, Builder, Encoding, Entry, Result};

impl Builder {
    /// What to write over the file of `archive` so that its tensors have the names of this builder, whose
    /// tensors are those of the archive in the same order: their data is taken to be the same. The index
    /// is the end of the file, so it may grow; it is written at once, and has to lie in one block.
    ///
    /// ```
    /// use ztensor_format::{Archive, Builder, Tensor};
    ///
    /// let mut old = Builder::new();
    /// old.tensor("weight", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// let archive = Archive::from_bytes(old.to_vec()?)?;
    /// let mut new = Builder::new();
    /// new.copy_as("w", &archive, archive.entries().get(0).unwrap())?;
    /// assert!(new.edit(&archive)?.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the source fails with; the inner error is why the change can't be made in place.
    pub fn edit(&self, archive: &Archive) -> Result<Edit<Patch, Misfit>> {
        if archive.generation() != Generation::V0_1 {
            return Ok(Err(Misfit::Layout("only files of version 0.1 are written")));
        }
        let entries = archive.entries();
        let tensors = self.tensors();
        let same = |(planned, entry): (&Planned, Entry<'_>)| is_stored_as(planned, entry);
        if tensors.len() != entries.len() || !tensors.iter().zip(&entries).all(same) {
            return Ok(Err(Misfit::Tensors));
        }
        let mut new = self.index_like(entries.clone());
        let len = new.len() as u64;
        new.extend_from_slice(&len.to_le_bytes());

        let (start, size) = (archive.index.start, archive.file_len());
        let old = archive.source.read(start..size)?;
        let ends = entries.map(|entry| entry.range().end);
        let data_end = ends.fold(MAGIC.len() as u64, u64::max);
        // The size of the index is the end of the file: a shorter index has that end, a longer one begins
        // where the old one does, or is added where that is in one block.
        let needed = new.len() as u64;
        let same_end = size.saturating_sub(needed);
        let places = match same_end >= data_end {
            true => [same_end, size],
            false => [start, size],
        };
        let mut why = Misfit::Tensors;
        for place in places {
            let mut patch = Patch::new(size);
            let there = place
                .checked_sub(start)
                .and_then(|skip| old.get(usize::try_from(skip).ok()?..));
            let there = match there {
                Some(there) => there.to_vec(),
                // In the gap before the old index.
                None => archive.source.read(place..size)?.to_vec(),
            };
            match patch.switch(place, &there, &new) {
                Ok(()) => {
                    // Nothing refers to the rest of the old index, and none of its names remain.
                    let rest = place.saturating_sub(start).min(old.len() as u64);
                    patch.unreferenced(start, zeros(rest));
                    return Ok(Ok(patch));
                }
                Err(misfit) if place != size => why = misfit,
                Err(_) => {}
            }
        }
        Ok(Err(why))
    }
}

fn zeros(len: u64) -> Vec<u8> {
    alloc::vec![0; usize::try_from(len).unwrap_or(0)]
}

/// Whether a tensor would be stored as the entry is.
fn is_stored_as(planned: &Planned, entry: Entry<'_>) -> bool {
    let algorithm = match entry.checksum() {
        None => Some(Algorithm::None),
        Some(Checksum::Crc32c(_)) => Some(Algorithm::Crc32c),
        Some(Checksum::Sha256(_)) => Some(Algorithm::Sha256),
        Some(_) => None,
    };
    let new = || {
        planned.level.is_none()
            && entry.encoding() == Encoding::Raw
            && planned.dtype == entry.dtype_name()
            && planned.endianness == entry.endianness()
            && Some(planned.checksum) == algorithm
    };
    planned.shape == *entry.shape()
        && planned.len == entry.record().size
        && (planned.copied.is_some() || new())
}

const _: () = assert!(FOOTER == 8);
