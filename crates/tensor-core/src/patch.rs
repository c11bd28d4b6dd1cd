use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::{Source, SourceError};

/// What is written whole or not at all: a block of a file system, and what disks write at once.
const BLOCK: u64 = 4096;

/// What to write over a file so that its index says something else, in an order in which the file can be
/// read after every write: as it was, or as it will be.
///
/// All that the old index doesn't refer to may be written in any number of bytes. The step from the old
/// index to the new one is a single write within one block of 4096 bytes, which file systems and disks
/// write whole or not at all. A builder's `edit` makes one where the format allows it; what the data of
/// tensors takes in the file is never written.
///
/// ```
/// use std::sync::Arc;
/// use tensor_core::codec::Patched;
/// use tensor_core::{Bytes, Misfit, Patch, Source};
///
/// let old = b"index 1, data";
/// let mut patch = Patch::new(old.len() as u64);
/// patch.switch(0, b"index 1", b"index 2")?;
/// assert_eq!(patch.written(), 1);
///
/// let file: Arc<dyn Source> = Arc::new(Bytes::from_static(old));
/// assert_eq!(Patched::new(file, &patch).read(0..13)?, &b"index 2, data"[..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    len: u64,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    offset: u64,
    /// What is there before, where that must be known.
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Patch {
    /// A patch of a file of so many bytes that changes nothing.
    #[must_use]
    pub fn new(file_len: u64) -> Self {
        Self {
            len: file_len,
            steps: Vec::new(),
        }
    }

    /// Writes bytes that no index refers to when they are written.
    ///
    /// ```
    /// use tensor_core::Patch;
    ///
    /// let mut patch = Patch::new(100);
    /// assert!(patch.is_empty());
    /// patch.unreferenced(100, b"a new index".to_vec());
    /// let writes: Vec<_> = patch.writes().collect();
    /// assert_eq!(writes, [(100, &b"a new index"[..])]);
    /// ```
    pub fn unreferenced(&mut self, offset: u64, bytes: Vec<u8>) {
        self.push(offset, Vec::new(), bytes);
    }

    /// Steps from `old` to `new` at once; `old` may end earlier, with the file.
    ///
    /// # Errors
    /// [`Misfit::Blocks`] where what differs lies in more than one block.
    pub fn switch(&mut self, offset: u64, old: &[u8], new: &[u8]) -> Result<(), Misfit> {
        let same = |(old, new): &(&u8, &u8)| old == new;
        let start = old.iter().zip(new).take_while(same).count();
        let both = old.len().min(new.len());
        let end = match old.len() == new.len() {
            true => {
                let ends = old.iter().rev().zip(new.iter().rev());
                new.len() - ends.take_while(same).count().min(both - start)
            }
            false => new.len(),
        };
        let piece = new.get(start..end).unwrap_or_default();
        let first = offset.saturating_add(start as u64);
        let last = offset.saturating_add(end as u64).saturating_sub(1);
        if !piece.is_empty() && first / BLOCK != last / BLOCK {
            let bytes = piece.len() as u64;
            return Err(Misfit::Blocks { bytes });
        }
        let was = old.get(start..end.min(old.len())).unwrap_or_default();
        self.push(first, was.to_vec(), piece.to_vec());
        Ok(())
    }

    fn push(&mut self, offset: u64, old: Vec<u8>, new: Vec<u8>) {
        if !new.is_empty() {
            self.steps.push(Step { offset, old, new });
        }
    }

    /// Whether nothing is written.
    ///
    /// ```
    /// use tensor_core::Patch;
    ///
    /// assert!(Patch::new(100).is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// How many bytes are written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.steps.iter().map(|step| step.new.len() as u64).sum()
    }

    /// The writes in their order, each with its place; each is on the disk before the next one.
    ///
    /// ```
    /// use tensor_core::Patch;
    ///
    /// let mut patch = Patch::new(7);
    /// patch.unreferenced(7, b"names".to_vec());
    /// patch.switch(0, b"index 1", b"index 2")?;
    /// let places: Vec<u64> = patch.writes().map(|(offset, _)| offset).collect();
    /// assert_eq!(places, [7, 6]);
    /// # Ok::<(), tensor_core::Misfit>(())
    /// ```
    pub fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.steps.iter().map(|step| (step.offset, &*step.new))
    }

    /// Writes it all over the file at `path`, each step flushed to the disk before the next one.
    ///
    /// # Errors
    /// [`PatchError::NotHere`], with nothing written, where the file is not one to be written over or no
    /// longer what it was; what the operating system says.
    ///
    /// ```
    /// use tensor_core::{FileSource, Patch, Source};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("file");
    /// std::fs::write(&path, b"index 1, data")?;
    /// let source = FileSource::open(&path)?;
    /// let mut patch = Patch::new(source.size());
    /// patch.switch(0, b"index 1", b"index 2")?;
    /// patch.apply(&path, source.file().ok_or("no file")?)?;
    /// assert_eq!(std::fs::read(&path)?, b"index 2, data");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn apply(
        &self,
        path: impl AsRef<std::path::Path>,
        file: &crate::FileId,
    ) -> Result<(), PatchError> {
        let path = path.as_ref();
        let opened = crate::atomic::open_to_patch(path, file)?;
        let fail = |error| PatchError::File(crate::FileError::new(path, error));
        self.check(&opened)
            .map_err(fail)?
            .map_or(Ok(()), |why| Err(PatchError::NotHere(why)))?;
        for step in &self.steps {
            write_at(&opened, step.offset, &step.new).map_err(fail)?;
            opened.sync_data().map_err(fail)?;
        }
        Ok(())
    }

    /// Why the file is not the one that the patch was made for, if it isn't.
    #[cfg(feature = "std")]
    fn check(&self, file: &std::fs::File) -> std::io::Result<Option<&'static str>> {
        use std::io::{Read, Seek, SeekFrom};

        const CHANGED: Option<&str> = Some("the file has changed since it was read");
        if file.metadata()?.len() != self.len {
            return Ok(CHANGED);
        }
        let mut reader = file;
        for step in self.steps.iter().filter(|step| !step.old.is_empty()) {
            let mut there = alloc::vec![0; step.old.len()];
            reader.seek(SeekFrom::Start(step.offset))?;
            reader.read_exact(&mut there)?;
            if there != step.old {
                return Ok(CHANGED);
            }
        }
        Ok(None)
    }
}

#[cfg(feature = "std")]
fn write_at(mut file: &std::fs::File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};

    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// Why a patch was not applied.
#[cfg(feature = "std")]
#[derive(Debug)]
#[non_exhaustive]
pub enum PatchError {
    /// The file must not, or can't, be written over; nothing was written.
    NotHere(&'static str),
    /// What the operating system said.
    File(crate::FileError),
}

#[cfg(feature = "std")]
impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHere(why) => f.write_str(why),
            Self::File(error) => error.fmt(f),
        }
    }
}

#[cfg(feature = "std")]
impl std::error::Error for PatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotHere(_) => None,
            Self::File(error) => error.source(),
        }
    }
}

/// Why an index can't be changed where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misfit {
    /// More than names and metadata changes.
    Tensors,
    /// The new index is longer than what there is room for.
    Room {
        /// Bytes of the new index.
        needed: u64,
        /// Bytes that there are for it.
        room: u64,
    },
    /// What changes lies in several blocks, and no disk writes these at once.
    Blocks {
        /// From the first byte that changes to the last.
        bytes: u64,
    },
    /// The format, or how this file is laid out.
    Layout(&'static str),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensors => f.write_str("more than names and metadata changes"),
            Self::Room { needed, room } => write!(
                f,
                "the new index has {needed} bytes, and there is room for {room}"
            ),
            Self::Blocks { bytes } => write!(
                f,
                "the changes reach over {bytes} bytes in several blocks, which no disk writes at once"
            ),
            Self::Layout(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for Misfit {}

/// A source as a [`Patch`] will leave it.
///
/// ```
/// use std::sync::Arc;
/// use tensor_core::codec::Patched;
/// use tensor_core::{Bytes, Patch, Source};
///
/// let file: Arc<dyn Source> = Arc::new(Bytes::from_static(b"index"));
/// let mut patch = Patch::new(5);
/// patch.unreferenced(5, b" and more".to_vec());
/// let patched = Patched::new(file, &patch);
/// assert_eq!(patched.read(0..patched.size())?, &b"index and more"[..]);
/// # Ok::<(), tensor_core::SourceError>(())
/// ```
#[derive(Clone)]
pub struct Patched {
    inner: Arc<dyn Source>,
    patch: Patch,
}

impl Patched {
    /// `inner` with the bytes of the patch.
    #[must_use]
    pub fn new(inner: Arc<dyn Source>, patch: &Patch) -> Self {
        let patch = patch.clone();
        Self { inner, patch }
    }
}

impl fmt::Debug for Patched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patched")
            .field("size", &self.size())
            .field("patch", &self.patch)
            .finish_non_exhaustive()
    }
}

impl Source for Patched {
    fn size(&self) -> u64 {
        let ends = self.patch.writes();
        let ends = ends.map(|(offset, bytes)| offset.saturating_add(bytes.len() as u64));
        ends.fold(self.inner.size(), u64::max)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        let end = offset.saturating_add(out.len() as u64);
        let old = self.inner.size().clamp(offset, end);
        let at = |position: u64| usize::try_from(position - offset).unwrap_or(usize::MAX);
        let (there, beyond) = out.split_at_mut(at(old).min(out.len()));
        beyond.fill(0);
        if !there.is_empty() {
            self.inner.read_into(offset, there)?;
        }
        for (start, bytes) in self.patch.writes() {
            let from = start.max(offset);
            let to = start.saturating_add(bytes.len() as u64).min(end);
            if from >= to {
                continue;
            }
            let within = |position: u64| usize::try_from(position - start).unwrap_or(usize::MAX);
            let piece = bytes.get(within(from)..within(to));
            let place = out.get_mut(at(from)..at(to));
            if let (Some(piece), Some(place)) = (piece, place) {
                place.copy_from_slice(piece);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    fn steps(patch: &Patch) -> Vec<(u64, Vec<u8>)> {
        patch
            .writes()
            .map(|(at, bytes)| (at, bytes.to_vec()))
            .collect()
    }

    #[test]
    fn a_switch_is_no_longer_than_what_differs() {
        let switch = |offset, old: &[u8], new: &[u8]| {
            let mut patch = Patch::new(100);
            patch.switch(offset, old, new).map(|()| steps(&patch))
        };
        assert_eq!(
            switch(5, b"abcdef", b"abXYef"),
            Ok(alloc::vec![(7, b"XY".to_vec())])
        );
        assert_eq!(
            switch(5, b"aaaa", b"aaXa"),
            Ok(alloc::vec![(7, b"X".to_vec())])
        );
        assert_eq!(switch(5, b"same", b"same"), Ok(alloc::vec![]));
        // What makes the file longer is new up to its end.
        assert_eq!(
            switch(5, b"ab", b"abab"),
            Ok(alloc::vec![(7, b"ab".to_vec())])
        );
        assert_eq!(
            switch(5, b"ab", b"xbab"),
            Ok(alloc::vec![(5, b"xbab".to_vec())])
        );
        // The last byte of a block and the first of the next one.
        assert_eq!(switch(4095, b"ab", b"xy"), Err(Misfit::Blocks { bytes: 2 }));
        assert_eq!(
            switch(4095, b"ab", b"xb"),
            Ok(alloc::vec![(4095, b"x".to_vec())])
        );
        assert_eq!(
            switch(4096, &[0; 4096], &[1; 4096]).map(|steps| steps.len()),
            Ok(1)
        );
        assert_eq!(
            switch(4096, &[0; 4097], &[1; 4097]),
            Err(Misfit::Blocks { bytes: 4097 })
        );
    }

    #[test]
    fn a_patched_source_has_the_last_write_everywhere() {
        let file: Arc<dyn Source> = Arc::new(Bytes::from_static(b"0123456789"));
        let mut patch = Patch::new(10);
        patch.unreferenced(12, b"new".to_vec());
        patch.switch(2, b"234", b"abc").unwrap();
        patch.unreferenced(3, b"Z".to_vec());
        let patched = Patched::new(file, &patch);
        let whole = b"01aZc56789\0\0new";
        assert_eq!(patched.size(), 15);
        for start in 0..15u64 {
            for end in start..=15 {
                let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
                assert_eq!(patched.read(start..end).unwrap(), &whole[range]);
            }
        }
        assert!(patched.read(0..16).is_err());
    }

    #[cfg(feature = "std")]
    #[test]
    fn a_patch_is_for_the_file_that_it_was_made_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let other = folder.path().join("b");
        std::fs::write(&path, b"0123456789").unwrap();
        std::fs::write(&other, b"0123456789").unwrap();
        let id = crate::FileId::of(&path).unwrap();
        let mut patch = Patch::new(10);
        patch.unreferenced(10, b"+".to_vec());
        patch.switch(2, b"23", b"xy").unwrap();
        let refused = |path: &std::path::Path| match patch.apply(path, &id) {
            Err(PatchError::NotHere(why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(&other), "another file has its name by now");
        assert_eq!(std::fs::read(&other).unwrap(), b"0123456789");
        // Longer, and changed where it is to be written.
        std::fs::write(&path, b"0123456789.").unwrap();
        assert!(refused(&path).contains("changed"));
        std::fs::write(&path, b"01X3456789").unwrap();
        assert!(refused(&path).contains("changed"));
        assert_eq!(std::fs::read(&path).unwrap(), b"01X3456789");
        std::fs::write(&path, b"0123456789").unwrap();
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::fs::hard_link(&path, &link).unwrap();
            assert!(refused(&path).contains("other names"));
            std::fs::remove_file(&link).unwrap();
        }
        patch.apply(&path, &id).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"01xy456789+");
    }
}
