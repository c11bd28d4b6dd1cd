#![allow(
    unsafe_code,
    reason = "mapping a file is the one promise that only the caller can make"
)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

use crate::{FileError, FileId, Source, SourceError};

/// A memory-mapped file: reads are slices of the map, without a copy.
///
/// ```
/// use tensor_core::{MappedFile, Source};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.mag");
/// std::fs::write(&path, b"MAG!....data")?;
/// // SAFETY: nothing truncates or changes the file while it is mapped.
/// let map = unsafe { MappedFile::open(&path) }?;
/// assert_eq!(map.bytes().slice(8..), &b"data"[..]);
/// assert_eq!(map.read(0..4)?, &b"MAG!"[..]); // nothing is copied
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MappedFile {
    bytes: Bytes,
    id: Option<FileId>,
}

impl MappedFile {
    /// Maps `path` for reading.
    ///
    /// # Safety
    /// Nobody may truncate or modify the file while this value, or any [`Bytes`] or tensor that
    /// came from it, lives. A file that shrinks makes the next access a signal that ends the
    /// process; one that changes makes immutable bytes change. Where that can't be promised,
    /// use [`FileSource`](crate::FileSource).
    ///
    /// # Errors
    /// What the operating system says, with the path. An empty file is no error.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let fail = |error| FileError::new(path, error);
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        #[cfg(unix)]
        let id = Some(FileId::of_metadata(&metadata));
        #[cfg(not(unix))]
        let id = FileId::of(path).ok();
        if metadata.len() == 0 {
            let bytes = Bytes::new();
            return Ok(Self { bytes, id });
        }
        // SAFETY: the caller promises that the file stays as it is while the map lives.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| fail(hint(&error)))?;
        let bytes = Bytes::from_owner(map);
        Ok(Self { bytes, id })
    }

    /// The whole file.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Some file systems, of networks above all, can't map; reading works on every one.
fn hint(error: &io::Error) -> io::Error {
    let text = format!("{error}; the file can't be mapped, but FileSource may read it");
    io::Error::new(error.kind(), text)
}

impl Source for MappedFile {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
        self.bytes.read(range)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.bytes.read_into(offset, out)
    }

    fn contiguous(&self) -> Option<&Bytes> {
        Some(&self.bytes)
    }

    fn file(&self) -> Option<&FileId> {
        self.id.as_ref()
    }

    fn is_random_access(&self) -> bool {
        true
    }
}
