use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempPath};

use crate::{FileError, Output, SinkError, WriteOptions};

/// Small pieces are gathered to this size; larger ones go straight through.
const BUFFER: usize = 256 << 10;

/// A file that appears under its name only when it is complete.
///
/// Bytes go to a temporary file beside the target. [`commit`](Self::commit) flushes it to the
/// disk, renames it over the target and flushes the folder; dropping it instead removes it and
/// leaves the target as it was. So a target that somebody has open or mapped is never written to.
///
/// An existing target keeps its mode, a new one gets the umask's. A target that is a symbolic
/// link stays one: the file that it points to is replaced. Of several hard links only the one
/// named is. A device or a pipe is written to, never replaced. A process that is killed leaves a
/// `.tensorfmt-*.tmp` file in the folder, which may be deleted.
///
/// ```
/// use tensor_core::{AtomicFile, Output, WriteOptions};
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
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    out: Destination,
    durable: bool,
    regular: bool,
}

#[derive(Debug)]
enum Destination {
    Beside(BufWriter<NamedTempFile>),
    InPlace(BufWriter<File>),
}

impl AtomicFile {
    /// Starts a file that will appear as `path`.
    ///
    /// # Errors
    /// What the operating system says about the target or its folder.
    pub fn create(path: impl AsRef<Path>, options: &WriteOptions<'_>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let fail = |error| FileError::new(path, bare(error));
        let target = follow(path).map_err(fail)?;
        let existing = match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(fail(io::Error::from(io::ErrorKind::IsADirectory)));
            }
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fail(error)),
        };
        let regular = existing.as_ref().is_none_or(fs::Metadata::is_file);
        let out = if options.in_place || !regular {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&target);
            Destination::InPlace(BufWriter::with_capacity(BUFFER, file.map_err(fail)?))
        } else {
            let permissions = existing.map(|metadata| metadata.permissions());
            let temporary = beside(&target, permissions).map_err(fail)?;
            Destination::Beside(BufWriter::with_capacity(BUFFER, temporary))
        };
        Ok(Self {
            target,
            out,
            // A device or a pipe has nothing to flush to.
            durable: options.durable && regular,
            regular,
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
        let result = match &mut self.out {
            Destination::Beside(writer) => rewrite(writer, offset, bytes),
            Destination::InPlace(writer) => rewrite(writer, offset, bytes),
        };
        result.map_err(|error| FileError::new(&self.target, bare(error)))
    }

    /// Makes the file appear.
    ///
    /// # Errors
    /// What the operating system says; the target is then as it was, unless written in place.
    pub fn commit(self) -> Result<(), FileError> {
        self.seal()?.commit()
    }

    /// Flushes and closes the file, which is then complete but has yet to appear. Files that
    /// belong together are all sealed before the first one appears.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn seal(self) -> Result<SealedFile, FileError> {
        let Self {
            target,
            out,
            durable,
            ..
        } = self;
        let fail = |error| FileError::new(&target, bare(error));
        let temporary = match out {
            Destination::InPlace(writer) => {
                let file = writer
                    .into_inner()
                    .map_err(|error| fail(error.into_error()))?;
                if durable {
                    file.sync_all().map_err(fail)?;
                }
                None
            }
            Destination::Beside(writer) => {
                let file = writer
                    .into_inner()
                    .map_err(|error| fail(error.into_error()))?;
                if durable {
                    file.as_file().sync_all().map_err(fail)?;
                }
                Some(file.into_temp_path())
            }
        };
        Ok(SealedFile {
            target,
            temporary,
            durable,
        })
    }
}

/// A complete file that has yet to appear; see [`AtomicFile::seal`]. Dropping it removes it.
#[derive(Debug)]
pub struct SealedFile {
    target: PathBuf,
    /// `None` where the file was written in place, and is there already.
    temporary: Option<TempPath>,
    durable: bool,
}

impl SealedFile {
    /// Makes the file appear.
    ///
    /// # Errors
    /// What the operating system says; the target is then as it was.
    pub fn commit(self) -> Result<(), FileError> {
        let Self {
            target,
            temporary,
            durable,
        } = self;
        let fail = |error| FileError::new(&target, bare(error));
        if let Some(temporary) = temporary {
            temporary
                .persist(&target)
                .map_err(|error| fail(rename_error(error.error)))?;
            if durable {
                sync_folder(&target).map_err(fail)?;
            }
        }
        Ok(())
    }
}

impl Output for AtomicFile {
    fn put(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let result = match &mut self.out {
            Destination::Beside(writer) => writer.write_all(bytes),
            Destination::InPlace(writer) => writer.write_all(bytes),
        };
        result.map_err(|error| SinkError::File(FileError::new(&self.target, bare(error))))
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

/// The error without the name of the temporary file, which is no name that a user has given.
fn bare(error: io::Error) -> io::Error {
    // tempfile adds it to the text, and has no other way to the error without it.
    match error.to_string().split_once(" at path ") {
        Some((text, _)) if error.get_ref().is_some() => io::Error::new(error.kind(), text),
        _ => error,
    }
}

/// The path that a chain of symbolic links ends at; it need not exist.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..40 {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                let link = fs::read_link(&path)?;
                path = folder_of(&path).join(link);
            }
            _ => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn beside(target: &Path, existing: Option<Permissions>) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(".tensorfmt-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The umask applies to what is asked for here.
        builder.permissions(Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(folder_of(target))?;
    if let Some(permissions) = existing {
        file.as_file()
            .set_permissions(permissions)
            .map_err(|error| in_place_hint(error, "give a new file the old one's mode"))?;
    }
    Ok(file)
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
    let hint = "`in_place`, or --in-place on the command line";
    let text = format!("{error}; this file system can't {what}, so write in place ({hint})");
    io::Error::new(kind_of(&error), text)
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
