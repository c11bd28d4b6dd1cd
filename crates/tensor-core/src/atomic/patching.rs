//! Which files may be written over where they are.

use std::fs::{File, OpenOptions};
use std::path::Path;

use super::place::{Links, Place};
use crate::{FileError, FileId, PatchError};

/// Opens the file at `path`, which must be the one of this id and must have no other name that would
/// change with it.
pub(crate) fn open_to_patch(path: &Path, file: &FileId) -> Result<File, PatchError> {
    let fail = |error| PatchError::File(FileError::new(path, error));
    let place = Place::of(path, Links::Follow).map_err(fail)?;
    let no = |why| Err(PatchError::NotHere(why));
    if !place.regular {
        return no("it is no file");
    }
    if place.blob {
        return no("it is a link to a file that is named by its content");
    }
    let Ok(opened) = OpenOptions::new().read(true).write(true).open(&place.path) else {
        return no("the file can't be opened for writing");
    };
    let metadata = opened.metadata().map_err(fail)?;
    #[cfg(unix)]
    {
        use rustix::fs::{FlockOperation, flock};
        use std::os::unix::fs::MetadataExt;

        if FileId::of_metadata(&metadata) != *file {
            return no("another file has its name by now");
        }
        if metadata.nlink() > 1 {
            return no("it has other names (hard links), whose file would change as well");
        }
        // Not all file systems have locks; the bytes to be replaced are compared again in any case.
        if flock(&opened, FlockOperation::NonBlockingLockExclusive)
            == Err(rustix::io::Errno::WOULDBLOCK)
        {
            return no("another process has locked it");
        }
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        if FileId::of(&place.path).ok().as_ref() != Some(file) {
            return no("another file has its name by now");
        }
    }
    Ok(opened)
}
