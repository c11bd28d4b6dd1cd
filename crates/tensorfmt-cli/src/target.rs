//! Where output goes, and what may be written there.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use tensor_core::codec::AtomicFile;
use tensor_core::{FileId, Leftover};
use tensorfmt::{Archive, WriteOptions};

use crate::beside::{breaks, set_of};
use crate::cli::Common;
use crate::failure::{Failure, complain};
use crate::output::{escape, human};

/// What the output names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Standard output.
    Stdout,
    /// A file, a device or a pipe.
    Path(PathBuf),
}

impl Target {
    pub(crate) fn new(path: &Path) -> Self {
        let stdout = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
        match stdout.iter().any(|name| path.as_os_str() == *name) {
            true => Self::Stdout,
            false => Self::Path(path.to_path_buf()),
        }
    }

    /// Fails where the bytes would fill a terminal, or go between the lines of something else.
    pub(crate) fn takes_bytes(&self, json: bool) -> Result<(), Failure> {
        if *self != Self::Stdout {
            return Ok(());
        }
        if json {
            let text = "standard output can't have both the file and --json";
            return Err(Failure::usage(text));
        }
        if io::stdout().is_terminal() {
            return Err(Failure::usage(
                "standard output is a terminal; send it to a pipe or a file",
            ));
        }
        Ok(())
    }

    /// Whether what fails midway leaves something to take away: a file, not a pipe or a device.
    pub(crate) fn is_file(&self) -> bool {
        match self {
            Self::Stdout => false,
            Self::Path(path) => path.metadata().map_or(true, |metadata| metadata.is_file()),
        }
    }
}

/// Fails where there is a file at `path` already, unless that may be overwritten; a device or a pipe is
/// written to, not overwritten.
pub(crate) fn may_write(path: &Path, force: bool) -> Result<(), Failure> {
    let Ok(there) = path.symlink_metadata() else {
        return Ok(());
    };
    let leads_to = path.metadata().ok();
    if leads_to.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return Err(Failure::usage(format!(
            "{} is a folder; name a file in it",
            path.display()
        )));
    }
    let is_file = leads_to.unwrap_or(there);
    if force || !(is_file.is_file() || is_file.is_symlink()) {
        return Ok(());
    }
    let of_set = set_of(path, None).map_or_else(String::new, |set| {
        format!(
            ", which breaks the set {} that it is a file of",
            set.display()
        )
    });
    Err(Failure::usage(format!(
        "{} exists; --force overwrites it{of_set}",
        path.display()
    )))
}

/// Fails where `output` is, or leads to, one of the files that the input consists of.
pub(crate) fn is_not_input(archive: &Archive, input: &Path, output: &Path) -> Result<(), Failure> {
    let is_input = FileId::of(output).is_ok_and(|id| archive.files().contains(&id));
    if !is_input {
        return Ok(());
    }
    let (input, output) = (input.display(), output.display());
    Err(Failure::usage(match archive.files().len() {
        1 => format!("{output} is, or leads to, the input {input}"),
        _ => format!("{output} is, or leads to, a file of the input {input}"),
    }))
}

/// Whether two paths name one entry of one folder: not two links to one file.
pub(crate) fn same_name(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Some((folder.canonicalize().ok()?, path.file_name()?.to_owned()))
    };
    matches!((place(a), place(b)), (Some(a), Some(b)) if a == b)
}

/// Fails where the file system of `path` has less room than `needed` bytes; what is written in place takes
/// the room of what is there.
pub(crate) fn has_room(path: &Path, needed: u64, in_place: bool) -> Result<(), Failure> {
    let Some(free) = free(path) else {
        return Ok(());
    };
    let there = match path.metadata() {
        Ok(metadata) if !metadata.is_file() => return Ok(()),
        Ok(metadata) if in_place => metadata.len(),
        _ => 0,
    };
    if needed <= free.saturating_add(there) {
        return Ok(());
    }
    let error = io::Error::other(format!(
        "no room: {} ({needed} bytes) needed, {} ({free} bytes) free",
        human(needed),
        human(free)
    ));
    Err(Failure::io(path, &error))
}

/// How many bytes may still be written where `path` is, if the system tells.
fn free(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let status = rustix::fs::statvfs(folder(&path)).ok()?;
        // Some file systems of networks have no numbers to give.
        (status.f_blocks > 0).then(|| status.f_bavail.saturating_mul(status.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Starts a file at `path`, which replaces another only where that was asked for; what there is to say
/// about it is said.
pub(crate) fn create(
    path: &Path,
    force: bool,
    common: &Common,
) -> Result<AtomicFile, tensorfmt::Error> {
    let notice = |notice: &tensorfmt::Notice| {
        if !common.quiet {
            complain(&escape(&format!("note: {notice}")));
        }
    };
    if let Some(broken) = breaks(path, None).filter(|_| !common.quiet) {
        complain(&escape(&format!("note: {broken}")));
    }
    let mut options = WriteOptions::default();
    options.create_new = !force;
    options.notice = Some(&notice);
    Ok(AtomicFile::create(path, &options)?)
}

/// Names the files that killed runs left in the folder of `path`, and deletes them where that is requested.
pub(crate) fn leftovers(path: &Path, remove: bool, quiet: bool) -> Result<(), Failure> {
    // A folder that can't be listed may well take a file.
    for leftover in Leftover::find(folder(path)).unwrap_or_default() {
        let (name, size) = (leftover.path.display(), human(leftover.bytes));
        if remove {
            leftover
                .remove()
                .map_err(|error| Failure::io(&leftover.path, &error))?;
        }
        if !quiet {
            let text = match remove {
                true => format!("deleted: {name} ({size}), left behind by a run that was killed"),
                false => format!(
                    "note: {name} ({size}) was left behind by a run that was killed; \
                    --remove-leftovers deletes it"
                ),
            };
            complain(&escape(&text));
        }
    }
    Ok(())
}
