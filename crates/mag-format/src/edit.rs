//! The records of a file that are changed where they are.

use tensor_core::{Misfit, Patch};

use crate::layout::FILL;
use crate::write::Planned;
use crate::{Archive, Builder, Entry, Generation, Result};

impl Builder {
    /// What to write over the file of `archive` so that its tensors have the names, and it has the metadata,
    /// of this builder, whose tensors are those of the archive in the same order: their data is taken to
    /// be the same. There is room for records up to where the data begins.
    ///
    /// ```
    /// use mag_format::{Archive, Builder, Tensor};
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
    /// What the source fails with, and what the format can't hold; the inner error is why the change can't be
    /// made in place.
    pub fn edit(&self, archive: &Archive) -> Result<core::result::Result<Patch, Misfit>> {
        let (Generation::Version1, Some(checksum)) = (archive.generation(), archive.checksum())
        else {
            return Ok(Err(Misfit::Layout("only files of version 1 are written")));
        };
        let entries = archive.entries();
        let same = |(planned, entry): (&Planned, Entry<'_>)| {
            planned.code == entry.dtype_code()
                && planned.shape == *entry.shape()
                && Some(planned.len) == entry.stored_len()
        };
        let tensors = self.tensors();
        if tensors.len() != entries.len() || !tensors.iter().zip(entries.iter()).all(same) {
            return Ok(Err(Misfit::Tensors));
        }
        let offsets = entries.map(Entry::offset);
        let mut new = self.records_at(offsets.clone(), checksum)?;
        let size = archive.file_len();
        let (needed, room) = (new.len() as u64, offsets.fold(size, u64::min));
        if needed > room {
            return Ok(Err(Misfit::Room { needed, room }));
        }
        let end = archive.records_end().max(needed);
        let old = archive.source.read(0..end)?;
        new.resize(old.len(), FILL);
        let mut patch = Patch::new(size);
        Ok(patch.switch(0, &old, &new).map(|()| patch))
    }
}
