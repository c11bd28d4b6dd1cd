//! Many files of which few are open.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Bytes, FileError, FileId, FileSource, Source, SourceError};

/// Reads any number of files with a few of them open at a time: systems give a program some hundreds,
/// and a model may have more shards.
///
/// ```
/// use tensor_core::codec::FilePool;
/// use tensor_core::Source;
///
/// let folder = tempfile::tempdir()?;
/// let pool = FilePool::new(4);
/// let mut files = Vec::new();
/// for number in 0..100u8 {
///     let path = folder.path().join(number.to_string());
///     std::fs::write(&path, [number])?;
///     files.push(pool.open(&path)?);
/// }
/// assert_eq!(files[71].read(0..1)?[0], 71);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FilePool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Each with the number of its file; the one that was read last is at the end.
    files: Vec<(u64, Arc<FileSource>)>,
    numbered: u64,
}

/// A file of a [`FilePool`]. What it was when it was opened first it has to be whenever it is opened
/// again: a file that has taken its place is an error.
///
/// ```
/// use tensor_core::Source;
/// use tensor_core::codec::FilePool;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("part");
/// std::fs::write(&path, b"data")?;
/// let pool = FilePool::new(4);
/// let file = pool.open(&path)?;
/// assert_eq!((file.path(), file.size()), (path.as_path(), 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PooledFile {
    pool: FilePool,
    number: u64,
    path: PathBuf,
    size: u64,
    id: Option<FileId>,
}

impl FilePool {
    /// A pool that keeps up to this many files open, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                most: most.max(1),
                open: Mutex::default(),
            }),
        }
    }

    /// Takes the file at `path` into the pool; its size is taken now.
    ///
    /// # Errors
    /// As [`FileSource::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<PooledFile, FileError> {
        let source = FileSource::open(&path)?;
        let (size, id) = (source.size(), source.file().cloned());
        let mut open = self.lock();
        let number = open.numbered;
        open.numbered += 1;
        open.keep(number, Arc::new(source), self.inner.most);
        Ok(PooledFile {
            pool: self.clone(),
            number,
            path: path.as_ref().to_path_buf(),
            size,
            id,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.inner
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn keep(&mut self, number: u64, file: Arc<FileSource>, most: usize) {
        if self.files.len() >= most {
            self.files.remove(0);
        }
        self.files.push((number, file));
    }
}

impl PooledFile {
    /// The path that it was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, open. Whoever holds it keeps it open.
    fn source(&self) -> Result<Arc<FileSource>, FileError> {
        let mut open = self.pool.lock();
        let known = open
            .files
            .iter()
            .position(|(number, _)| *number == self.number);
        if let Some(at) = known {
            let found = open.files.remove(at);
            let source = found.1.clone();
            open.files.push(found);
            return Ok(source);
        }
        let source = FileSource::open(&self.path)?;
        if source.size() != self.size || source.file() != self.id.as_ref() {
            let changed =
                std::io::Error::other("another file has taken its place since it was opened");
            return Err(FileError::new(&self.path, changed));
        }
        let source = Arc::new(source);
        open.keep(self.number, source.clone(), self.pool.inner.most);
        Ok(source)
    }
}

impl Source for PooledFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        self.source()?.read_into(offset, out)
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
        self.source()?.read(range)
    }

    fn file(&self) -> Option<&FileId> {
        self.id.as_ref()
    }

    fn is_random_access(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    #[test]
    fn no_more_files_than_asked_for_stay_open_and_all_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let pool = FilePool::new(3);
        let files: Vec<PooledFile> = (0..40u8)
            .map(|number| {
                let path = folder.path().join(number.to_string());
                std::fs::write(&path, [number, 1]).unwrap();
                pool.open(path).unwrap()
            })
            .collect();
        for round in 0..2 {
            for (number, file) in files.iter().enumerate() {
                let number = (number + round * 7) % files.len();
                assert_eq!(usize::from(files[number].read(0..1).unwrap()[0]), number);
                assert_eq!(file.size(), 2);
                assert!(pool.lock().files.len() <= 3);
            }
        }
    }

    #[test]
    fn a_file_that_was_replaced_is_an_error_once_it_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&a, [1; 8]).unwrap();
        std::fs::write(&b, [2; 8]).unwrap();
        let pool = FilePool::new(1);
        let first = pool.open(&a).unwrap();
        pool.open(&b).unwrap();
        // The old one still exists, so that its number is not given to the new one.
        std::fs::rename(&a, folder.path().join("c")).unwrap();
        std::fs::write(&a, [3; 8]).unwrap();
        let error = first.read(0..8).unwrap_err().to_string();
        assert!(
            error.contains("another file has taken its place"),
            "{error}"
        );
        assert!(error.contains(&*a.to_string_lossy()), "{error}");
    }
}
