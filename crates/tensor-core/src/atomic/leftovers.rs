//! Temporary files of runs that were killed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::vec::Vec;

/// How the names of temporary files begin; the number of the process that writes it follows.
const PREFIX: &str = ".tensorfmt-";
const SUFFIX: &str = ".tmp";

/// The beginning and the end of the name of a temporary file of this process.
pub(super) fn name_parts() -> (std::string::String, &'static str) {
    (std::format!("{PREFIX}{}-", std::process::id()), SUFFIX)
}

/// A temporary file that a killed run left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Leftover {
    /// The files in `folder` that killed runs left there, sorted by path; not what a run that still lives
    /// is writing. Empty where the system can't tell (elsewhere than on Unix).
    ///
    /// ```
    /// let folder = tempfile::tempdir()?;
    /// assert!(tensor_core::Leftover::find(folder.path())?.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the operating system says about the folder.
    pub fn find(folder: impl AsRef<Path>) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(process) = name.to_str().and_then(process_of) else {
                continue;
            };
            let path = entry.path();
            if !is_alive(process) && is_abandoned(&path) {
                let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                found.push(Self { path, bytes });
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Deletes the file.
    ///
    /// # Errors
    /// What the operating system says.
    ///
    /// ```
    /// use tensor_core::Leftover;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path();
    /// for leftover in Leftover::find(folder)? {
    ///     leftover.remove()?;
    /// }
    /// assert!(Leftover::find(folder)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

/// The process in the name of a temporary file; 0 where a name has none.
fn process_of(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let number = rest.split_once('-').map(|(number, _)| number);
    Some(number.and_then(|number| number.parse().ok()).unwrap_or(0))
}

/// Whether a process of this number runs, on this host and in this container.
fn is_alive(process: u32) -> bool {
    #[cfg(unix)]
    {
        let process = i32::try_from(process)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let signalled = process.map(rustix::process::test_kill_process);
        // A process that may not be signalled exists.
        matches!(signalled, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
    }
    #[cfg(not(unix))]
    {
        let _ = process;
        true
    }
}

/// Keeps the file marked as one that is being written, for as long as it is open: a process that dies
/// loses the mark, and one in another container has no number here.
pub(super) fn mark(file: &File) {
    #[cfg(unix)]
    {
        // Not all file systems have locks; the process's number has to do there.
        let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    }
    #[cfg(not(unix))]
    let _ = file;
}

/// Whether nobody has the file marked. A file without a byte may be about to be.
fn is_abandoned(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use rustix::fs::{FlockOperation, flock};
        // Opening a pipe would wait.
        let has_bytes = |at: std::fs::Metadata| at.is_file() && at.len() > 0;
        if !path.symlink_metadata().is_ok_and(has_bytes) {
            return false;
        }
        File::open(path)
            .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}
