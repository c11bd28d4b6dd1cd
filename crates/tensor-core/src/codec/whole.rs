use alloc::vec::Vec;
#[cfg(feature = "std")]
use std::path::{Path, PathBuf};

#[cfg(feature = "std")]
use super::{AtomicFile, Error, Format, TransferError};
use super::{Sink, hinted_vec};
#[cfg(feature = "std")]
use crate::{FileError, FileId, FileSource, Source, WriteOptions};

/// Opens the file at `path` for `parse`, whose errors then name the file: what `Archive::open_with`
/// of every codec does.
///
/// # Errors
/// What the operating system says, and what `parse` fails with.
///
/// ```
/// use tensor_core::Source;
/// use tensor_core::codec::{Error, Format, open_file};
///
/// fn size<F: Format>(path: &std::path::Path) -> Result<u64, Error<F>> {
///     open_file(path, |source| Ok(source.size()))
/// }
/// ```
#[cfg(feature = "std")]
pub fn open_file<T, F: Format>(
    path: impl AsRef<Path>,
    parse: impl FnOnce(FileSource) -> Result<T, Error<F>>,
) -> Result<T, Error<F>> {
    let path = path.as_ref();
    let source = FileSource::open(path)?;
    parse(source).map_err(|error| error.in_file(path))
}

/// What `write` puts, in memory: what `Builder::to_vec` of every codec does. `len` is how much that
/// will be, or 0 where it is not known.
///
/// # Errors
/// What `write` fails with.
///
/// ```
/// use tensor_core::codec::write_vec;
///
/// let bytes = write_vec(8, |sink| sink.put_u64_le(1))?;
/// assert_eq!(bytes, 1u64.to_le_bytes());
/// # Ok::<(), tensor_core::SinkError>(())
/// ```
pub fn write_vec<E>(
    len: u64,
    write: impl FnOnce(&mut Sink<Vec<u8>>) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut sink = Sink::new(hinted_vec(len));
    write(&mut sink)?;
    Ok(sink.into_inner())
}

/// Writes what `write` puts to the file at `path`, which appears only when it is complete: what
/// `Builder::write_file_with` of every codec does. Data is read from `sources` on the way, so none of
/// them may be the file that is written in place.
///
/// # Errors
/// As [`AtomicFile::create_from`] and [`AtomicFile::commit_with`], and what `write` fails with; the
/// target is then as it was.
///
/// ```
/// use tensor_core::codec::{AtomicFile, TransferError, write_file};
/// use tensor_core::{FileError, SinkError, WriteOptions};
///
/// /// A codec's error.
/// #[derive(Debug)]
/// struct Failed;
/// # impl From<FileError> for Failed { fn from(_: FileError) -> Self { Self } }
/// # impl From<TransferError> for Failed { fn from(_: TransferError) -> Self { Self } }
/// # impl From<SinkError> for Failed { fn from(_: SinkError) -> Self { Self } }
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("one.bin");
/// let written: Result<(), Failed> =
///     write_file(&path, [], &WriteOptions::default(), |sink| Ok(sink.put_u64_le(1)?));
/// assert!(written.is_ok());
/// assert_eq!(std::fs::read(&path)?, 1u64.to_le_bytes());
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(feature = "std")]
pub fn write_file<'s, E>(
    path: impl AsRef<Path>,
    sources: impl IntoIterator<Item = &'s dyn Source>,
    options: &WriteOptions<'_>,
    write: impl FnOnce(&mut Sink<AtomicFile>) -> Result<(), E>,
) -> Result<(), E>
where
    E: From<FileError> + From<TransferError>,
{
    let mut sink = Sink::new(AtomicFile::create_from(path, sources, options)?);
    write(&mut sink)?;
    sink.into_inner().commit_with(options)
}

/// Those of `old`, the files beside the set at `path`, that a set of the files `new` leaves without a
/// set, so that writing it deletes them: not those in other folders, and none that is one of `sources`.
///
/// ```
/// use std::path::PathBuf;
/// use tensor_core::codec::stale_files;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("set.json");
/// # let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
/// std::fs::write(&a, "")?;
/// std::fs::write(&b, "")?;
/// let stale = stale_files(&path, vec![a.clone(), b.clone()], &[b], || []);
/// assert_eq!(stale, [a]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(feature = "std")]
pub fn stale_files<'s, S: IntoIterator<Item = &'s dyn Source>>(
    path: &Path,
    mut old: Vec<PathBuf>,
    new: &[PathBuf],
    sources: impl Fn() -> S,
) -> Vec<PathBuf> {
    let is_read = |file: &PathBuf| {
        // What can't be told apart from the sources stays.
        let Ok(id) = FileId::of(file) else {
            return true;
        };
        let mut sources = sources().into_iter();
        sources.any(|source| source.file() == Some(&id))
    };
    old.retain(|file| file.parent() == path.parent() && !new.contains(file) && !is_read(file));
    old
}
