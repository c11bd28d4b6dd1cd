//! The metadata of a file that is changed where it is.

use tensor_core::codec::Sink;
use tensor_core::{Misfit, Patch};

use crate::layout::{ALIGN, Header, Layout};
use crate::write::Planned;
use crate::{Archive, BuildError, Builder, Entry, Result};

impl Builder {
    /// What to write over the file of `archive` so that its tensors have the names, and it has the metadata
    /// and scalars, of this builder, whose tensors are those of the archive in the same order: their data is
    /// taken to be the same. There is room up to the multiple of 256 at which the data begins.
    ///
    /// ```
    /// use burnpack_format::{Archive, Builder, Tensor};
    ///
    /// let mut old = Builder::new();
    /// old.tensor("weight", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// let archive = Archive::from_bytes(old.to_vec()?)?;
    /// let mut new = Builder::new();
    /// new.copy_as("w", &archive, archive.entry("weight").ok_or("no tensor")?)?.metadata("epoch", "3")?;
    /// assert!(new.edit(&archive)?.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the source fails with, and what the format can't hold; the inner error is why the change can't be
    /// made in place.
    pub fn edit(&self, archive: &Archive) -> Result<core::result::Result<Patch, Misfit>> {
        if archive.layout() != Layout::Aligned {
            return Ok(Err(Misfit::Layout(
                "the data follows the metadata without a gap",
            )));
        }
        let entries = archive.entries();
        let same = |(planned, entry): (&Planned, Entry<'_>)| {
            planned.code == *entry.dtype_code()
                && planned.shape == *entry.shape()
                && planned.len == entry.len()
        };
        let tensors = self.tensors();
        if tensors.len() != entries.len() || !tensors.iter().zip(&entries).all(same) {
            return Ok(Err(Misfit::Tensors));
        }
        let (start, size) = (archive.data_start(), archive.file_len());
        let mut offsets = alloc::vec::Vec::with_capacity(entries.len());
        for entry in entries {
            let begin = entry.offset().saturating_sub(start);
            offsets.push((begin, begin.saturating_add(entry.len())));
        }
        let metadata = self.encode_metadata(&offsets)?;
        let metadata_size = u32::try_from(metadata.len()).map_err(|_| BuildError::TooLarge)?;
        let mut sink = Sink::new(alloc::vec::Vec::new());
        Header { metadata_size }.write(&mut sink)?;
        sink.put(&metadata)?;
        let mut new = sink.into_inner();
        let (needed, room) = (new.len() as u64, start.min(size));
        if needed > room {
            return Ok(Err(Misfit::Room { needed, room }));
        }
        if needed.next_multiple_of(ALIGN) != start {
            return Ok(Err(Misfit::Layout(
                "the data of a burnpack file begins at the next multiple of 256, which is an earlier one now",
            )));
        }
        let end = archive.metadata_end().max(needed);
        let old = archive.source.read(0..end)?;
        new.resize(old.len(), 0);
        let mut patch = Patch::new(size);
        Ok(patch.switch(0, &old, &new).map(|()| patch))
    }
}
