mod early;
mod keep;
mod leftovers;
mod patching;
mod place;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use early::Early;
pub use leftovers::Leftover;
pub(crate) use patching::open_to_patch;
use place::{Links, Place};
use tempfile::{Builder, NamedTempFile, TempPath};

use crate::codec::{Output, Ticker, TransferError, WINDOW};
use crate::{FileError, FileId, Notice, SinkError, Source, WriteOptions};

/// Small pieces are gathered to this size; larger ones go straight through.
const BUFFER: usize = 256 << 10;

/// A file that appears under its name only when it is complete.
///
/// Bytes go to a temporary file beside the target. [`commit`](Self::commit) flushes it to the
/// disk, renames it over the target and flushes the folder; dropping it instead removes it and
/// leaves the target as it was. So a target that somebody has open or mapped is never written to.
///
/// A file that replaces another gets its mode, and owner, group and extended attributes as far as
/// the system allows, and a new one the umask's. A target that is a symbolic link stays one: the
/// file that it points to is replaced, unless that is a blob of a content-addressed cache, which is
/// named by a digest of its content: then the link is. Of several hard links only the one named is
/// replaced. A device or a pipe is written to, never replaced. What of this a caller may want to know
/// is told to [`WriteOptions::notice`]. A process that is killed leaves a temporary file, which
/// [`Leftover::find`] finds.
///
/// ```
/// use tensor_core::codec::{AtomicFile, Output};
/// use tensor_core::WriteOptions;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("weights.bin");
/// let mut file = AtomicFile::create(&path, &WriteOptions::default())?;
/// file.put(b"weights")?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"weights");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What was written may be corrected, and files that belong together appear together:
///
/// ```
/// use tensor_core::codec::{AtomicFile, Output, SealedFile, TransferError};
/// use tensor_core::{FileError, FileSource, Source, WriteOptions};
///
/// /// A codec's error.
/// #[derive(Debug)]
/// struct Failed;
/// impl From<FileError> for Failed {
///     fn from(_: FileError) -> Self {
///         Self
///     }
/// }
/// impl From<TransferError> for Failed {
///     fn from(_: TransferError) -> Self {
///         Self
///     }
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let options = WriteOptions::default();
/// let mut file = AtomicFile::create(folder.join("a"), &options)?;
/// file.put(b"length ?")?;
/// assert!(file.can_rewrite()); // no pipe
/// file.rewrite(7, b"8")?;
/// file.commit_with::<Failed>(&options).map_err(|_| "not written")?;
/// assert_eq!(std::fs::read(folder.join("a"))?, b"length 8");
///
/// // What is read is not written over while it is read.
/// let source = FileSource::open(folder.join("a"))?;
/// let sources = [&source as &dyn Source];
/// let in_place = options.with_in_place(true);
/// assert!(AtomicFile::create_from(folder.join("a"), sources, &in_place).is_err());
///
/// // A set: its parts, whose names no user has given, then the file that lists them.
/// let part = AtomicFile::create_chosen(folder.join("part"), sources, &options)?.seal()?;
/// let list = AtomicFile::create_from(folder.join("list"), sources, &options)?.seal()?;
/// assert!(!folder.join("part").exists());
/// SealedFile::commit_set::<Failed>([part, list], Vec::new(), &options).map_err(|_| "no set")?;
/// assert!(folder.join("part").exists() && folder.join("list").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    writer: BufWriter<File>,
    early: Early,
    /// `None` where the target itself is written.
    temporary: Option<TempPath>,
    durable: bool,
    regular: bool,
    create_new: bool,
}

impl AtomicFile {
    /// Starts a file that will appear as `path`.
    ///
    /// # Errors
    /// What the operating system says about the target or its folder, and what is known to keep the
    /// file from appearing in the end: with [`WriteOptions::create_new`] that there is one.
    pub fn create(path: impl AsRef<Path>, options: &WriteOptions<'_>) -> Result<Self, FileError> {
        Self::start(path.as_ref(), Links::Follow, core::iter::empty(), options)
    }

    /// Starts a file at `path` whose content will be read from `sources`.
    ///
    /// # Errors
    /// As [`create`](Self::create), and where one of the sources reads from the very file that would be
    /// written in place: the first byte written would destroy what is yet to be read.
    pub fn create_from<'s>(
        path: impl AsRef<Path>,
        sources: impl IntoIterator<Item = &'s dyn Source>,
        options: &WriteOptions<'_>,
    ) -> Result<Self, FileError> {
        Self::start(path.as_ref(), Links::Follow, sources, options)
    }

    /// Starts a file whose name no user has given, such as the part of a set: a symbolic link at `path`
    /// is replaced, wherever it leads, and no source may read from the file that is there.
    ///
    /// # Errors
    /// As [`create_from`](Self::create_from).
    pub fn create_chosen<'s>(
        path: impl AsRef<Path>,
        sources: impl IntoIterator<Item = &'s dyn Source>,
        options: &WriteOptions<'_>,
    ) -> Result<Self, FileError> {
        Self::start(path.as_ref(), Links::Replace, sources, options)
    }

    fn start<'s>(
        path: &Path,
        links: Links,
        sources: impl IntoIterator<Item = &'s dyn Source>,
        options: &WriteOptions<'_>,
    ) -> Result<Self, FileError> {
        let fail = |error| FileError::new(path, error);
        let place = Place::of(path, links).map_err(fail)?;
        let taken = place.regular && place.path.symlink_metadata().is_ok();
        if options.create_new && taken {
            return Err(fail(io::Error::from(io::ErrorKind::AlreadyExists)));
        }
        let in_place = options.in_place && place.regular;
        if in_place || links == Links::Replace {
            let id = FileId::of(path).ok();
            if id.is_some()
                && sources
                    .into_iter()
                    .any(|source| source.file() == id.as_ref())
            {
                return Err(FileError::misuse(
                    path,
                    "the data to be written is read from this very file",
                ));
            }
        }
        if in_place && place.blob {
            return Err(FileError::misuse(
                path,
                "leads to a file that is named by its content, which must not be written in place",
            ));
        }
        if let Some(notice) = &place.notice {
            options.tell(notice);
        }
        let (file, temporary) = if in_place || !place.regular {
            let mut open = OpenOptions::new();
            open.write(true);
            // A link is replaced, not written through; what a descriptor refers to is not truncated.
            if place.regular {
                open.create(true).truncate(true);
                if links == Links::Replace && place.path.is_symlink() {
                    std::fs::remove_file(&place.path).map_err(fail)?;
                }
                open.create_new(options.create_new);
            }
            (open.open(&place.path).map_err(fail)?, None)
        } else {
            let (file, path) = beside(&place, options).map_err(fail)?.into_parts();
            (file, Some(path))
        };
        Ok(Self {
            target: place.path,
            writer: BufWriter::with_capacity(BUFFER, file),
            early: Early::default(),
            temporary,
            // A device or a pipe has nothing to flush to.
            durable: options.durable && place.regular,
            regular: place.regular,
            create_new: options.create_new,
        })
    }

    /// Whether [`rewrite`](Self::rewrite) works: not for a device or a pipe.
    #[must_use]
    pub fn can_rewrite(&self) -> bool {
        self.regular
    }

    /// Puts `bytes` over those that were put at `offset` before; what is put next still goes to
    /// the end.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn rewrite(&mut self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        let result = rewrite(&mut self.writer, offset, bytes);
        result.map_err(|error| FileError::new(&self.target, error))
    }

    /// Makes the file appear.
    ///
    /// # Errors
    /// What the operating system says; the target is then as it was, unless written in place.
    pub fn commit(self) -> Result<(), FileError> {
        self.seal()?.commit()
    }

    /// Makes the file appear, unless the progress function asks to stop while it is flushed, which may take
    /// longer than to write it.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), and [`TransferError::Cancelled`]; the file is then removed, unless it
    /// was written in place.
    pub fn commit_with<E>(self, options: &WriteOptions<'_>) -> Result<(), E>
    where
        E: From<FileError> + From<TransferError>,
    {
        SealedFile::commit_set(core::iter::once(self.seal()?), Vec::new(), options)
    }

    /// Flushes and closes the file, which is then complete but has yet to appear. Files that
    /// belong together are all sealed before the first one appears.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn seal(self) -> Result<SealedFile, FileError> {
        let Self {
            target,
            writer,
            mut early,
            temporary,
            durable,
            create_new,
            ..
        } = self;
        let fail = |error| FileError::new(&target, error);
        let file = writer
            .into_inner()
            .map_err(|error| fail(error.into_error()))?;
        early.finish().map_err(fail)?;
        if durable {
            file.sync_all().map_err(fail)?;
        }
        Ok(SealedFile {
            target,
            temporary,
            durable,
            create_new,
        })
    }
}

/// A complete file that has yet to appear; see [`AtomicFile::seal`]. Dropping it removes it.
///
/// ```
/// use tensor_core::codec::{AtomicFile, SealedFile};
/// use tensor_core::WriteOptions;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let options = WriteOptions::default();
/// AtomicFile::create(folder.join("alone"), &options)?.seal()?.commit()?;
/// let a = AtomicFile::create(folder.join("a"), &options)?.seal()?;
/// let b = AtomicFile::create(folder.join("b"), &options)?.seal()?;
/// SealedFile::commit_all([a, b])?;
/// assert!(folder.join("a").exists() && folder.join("b").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SealedFile {
    target: PathBuf,
    /// `None` where the file was written in place, and is there already.
    temporary: Option<TempPath>,
    durable: bool,
    create_new: bool,
}

impl SealedFile {
    /// Makes all files appear, in order. Where one can't, those that are new are removed again; what
    /// was replaced stays so.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_all(files: impl IntoIterator<Item = Self>) -> Result<(), FileError> {
        let mut new = Vec::new();
        for file in files {
            let target = file.target.clone();
            let is_new = file.temporary.is_some() && target.symlink_metadata().is_err();
            if let Err(error) = file.commit() {
                for path in new {
                    // The first error is the one that is returned.
                    let _ = std::fs::remove_file(path);
                }
                return Err(error);
            }
            if is_new {
                new.push(target);
            }
        }
        Ok(())
    }

    /// Makes all files of a set appear, in order, unless the progress function asks to stop, and deletes what
    /// the set that they replace leaves behind.
    ///
    /// # Errors
    /// As [`commit_all`](Self::commit_all), and [`TransferError::Cancelled`]; none of the files has then
    /// appeared.
    ///
    /// See [`AtomicFile`].
    pub fn commit_set<E>(
        files: impl IntoIterator<Item = Self>,
        stale: Vec<PathBuf>,
        options: &WriteOptions<'_>,
    ) -> Result<(), E>
    where
        E: From<FileError> + From<TransferError>,
    {
        Ticker::new(options.progress).tick(0)?;
        Self::commit_all(files)?;
        for file in stale {
            // What can't be deleted harms nobody: the set doesn't name it any more.
            if std::fs::remove_file(&file).is_ok() {
                options.tell(&Notice::Removed { file });
            }
        }
        Ok(())
    }

    /// Makes the file appear.
    ///
    /// # Errors
    /// What the operating system says; the target is then as it was.
    pub fn commit(self) -> Result<(), FileError> {
        let Self {
            target,
            temporary,
            durable,
            create_new,
        } = self;
        let fail = |error| FileError::new(&target, error);
        if let Some(temporary) = temporary {
            if create_new {
                appear(temporary, &target).map_err(fail)?;
            } else {
                temporary
                    .persist(&target)
                    .map_err(|error| fail(rename_error(error.error)))?;
            }
            if durable {
                sync_folder(&target).map_err(fail)?;
            }
        }
        Ok(())
    }
}

impl Output for AtomicFile {
    fn put(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let Self {
            writer,
            early,
            durable,
            ..
        } = self;
        // In windows: for one large write the system looks for memory in one piece, which can take longer than
        // the write.
        let result = bytes.chunks(WINDOW).try_for_each(|piece| {
            writer.write_all(piece)?;
            match durable {
                true => early.wrote(piece.len(), || {
                    let file = writer.get_ref().try_clone()?;
                    Ok(move || file.sync_data())
                }),
                false => Ok(()),
            }
        });
        result.map_err(|error| SinkError::File(FileError::new(&self.target, error)))
    }
}

fn rewrite(out: &mut (impl Write + Seek), offset: u64, bytes: &[u8]) -> io::Result<()> {
    // Seeking flushes what is still gathered.
    let end = out.stream_position()?;
    out.seek(SeekFrom::Start(offset))?;
    out.write_all(bytes)?;
    out.seek(SeekFrom::Start(end))?;
    Ok(())
}

/// Renames without ever replacing a file that has appeared meanwhile.
fn appear(temporary: TempPath, target: &Path) -> io::Result<()> {
    let Err(error) = temporary.persist_noclobber(target) else {
        return Ok(());
    };
    let (temporary, error) = (error.path, error.error);
    let there = target.symlink_metadata().is_ok();
    if there || error.kind() == io::ErrorKind::AlreadyExists {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    // Some file systems neither link nor rename with conditions; nothing was there just now.
    temporary
        .persist(target)
        .map_err(|error| rename_error(error.error))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A temporary file beside the target, with what the file there has: owner, mode, attributes.
fn beside(place: &Place, options: &WriteOptions<'_>) -> io::Result<NamedTempFile> {
    let (prefix, suffix) = leftovers::name_parts();
    let create = |path: &Path| {
        let mut open = OpenOptions::new();
        open.read(true).write(true).create_new(true);
        open.open(path)
    };
    let file = Builder::new()
        .prefix(&prefix)
        .suffix(suffix)
        .make_in(folder_of(&place.path), create)
        .map_err(|error| folder_error(error, place))?;
    leftovers::mark(file.as_file());
    if let Some(existing) = &place.existing {
        may_be_replaced(&file, place)?;
        keep::keep(file.as_file(), &place.path, existing, options)
            .map_err(|error| in_place_hint(error, "give a new file the old one's mode"))?;
    }
    Ok(file)
}

/// Why no file can be made beside the target, with the way out where there is one.
fn folder_error(error: io::Error, place: &Place) -> io::Error {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let refused = matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem);
    if refused && place.can_be_opened() {
        return in_place_only(error, "no file can be made in its folder");
    }
    error
}

/// Fails where the folder is one in which files are replaced by their owners alone, as `/tmp` is: the
/// rename at the end would be refused.
#[cfg(unix)]
fn may_be_replaced(temporary: &NamedTempFile, place: &Place) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    const STICKY: u32 = 0o1000;
    // A link in the folder is not owned by whom the file belongs to that it leads to.
    let there = place.path.symlink_metadata()?;
    let folder = folder_of(&place.path).metadata()?;
    let me = temporary.as_file().metadata()?.uid();
    let sticky = folder.mode() & STICKY != 0;
    if !sticky || [0, folder.uid(), there.uid()].contains(&me) {
        return Ok(());
    }
    let error = io::Error::from(io::ErrorKind::PermissionDenied);
    Err(match place.can_be_opened() {
        true => in_place_only(error, "only its owner may replace it in this folder"),
        false => error,
    })
}

#[cfg(not(unix))]
fn may_be_replaced(_temporary: &NamedTempFile, _place: &Place) -> io::Result<()> {
    Ok(())
}

fn rename_error(error: io::Error) -> io::Error {
    match kind_of(&error) {
        io::ErrorKind::Unsupported => in_place_hint(error, "rename"),
        _ => error,
    }
}

/// The error's kind; Rust 1.85 has none for EOPNOTSUPP of Linux.
fn kind_of(error: &io::Error) -> io::ErrorKind {
    match error.raw_os_error() {
        Some(95) if cfg!(target_os = "linux") => io::ErrorKind::Unsupported,
        _ => error.kind(),
    }
}

/// The error of a file system that can't do what a file needs to appear whole, with the way out.
fn in_place_hint(error: io::Error, what: &str) -> io::Error {
    let text = format!("{error}; this file system can't {what}, so write in place ({IN_PLACE})");
    io::Error::new(kind_of(&error), text)
}

/// How writing in place is asked for.
const IN_PLACE: &str = "`in_place`, or --in-place on the command line";

/// The error of a folder that a file can't be replaced in, where the file itself can be written.
fn in_place_only(error: io::Error, why: &str) -> io::Error {
    let text = format!("{error}: {why}; the file itself can be written in place ({IN_PLACE})");
    io::Error::new(error.kind(), text)
}

#[cfg(unix)]
fn sync_folder(target: &Path) -> io::Result<()> {
    File::open(folder_of(target))?.sync_all()
}

/// Elsewhere a folder can't be opened as a file; the rename itself is journalled.
#[cfg(not(unix))]
fn sync_folder(_target: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_system_without_rename_is_pointed_to_writing_in_place() {
        // What mounted object stores answer: ENOSYS and EOPNOTSUPP, as Linux numbers them.
        for code in if cfg!(target_os = "linux") {
            &[38, 95][..]
        } else {
            &[]
        } {
            let error = rename_error(io::Error::from_raw_os_error(*code));
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert!(error.to_string().contains("--in-place"), "{error}");
        }
        // The file system is not to blame for all that goes wrong.
        let error = rename_error(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(!error.to_string().contains("in-place"), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
