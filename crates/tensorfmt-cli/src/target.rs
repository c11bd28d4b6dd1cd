//! What may be written where.

use std::path::Path;

use crate::failure::Failure;

/// Fails where there is something at `path` already, unless that may be overwritten.
pub(crate) fn may_write(path: &Path, force: bool) -> Result<(), Failure> {
    let path_is_free = path.symlink_metadata().is_err();
    if force || path_is_free {
        return Ok(());
    }
    let path = path.display();
    Err(Failure::usage(format!(
        "{path} exists; --force overwrites it"
    )))
}

/// Fails where what is written would take the place of the tensors that it is about.
pub(crate) fn is_not_input(input: &Path, output: &Path) -> Result<(), Failure> {
    if !same_file(input, output) {
        return Ok(());
    }
    let path = output.display();
    Err(Failure::usage(format!("{path} is the input itself")))
}

/// Whether two paths lead to one file, through links of either kind.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(a), Ok(b)) = (a.metadata(), b.metadata()) {
        use std::os::unix::fs::MetadataExt;
        return (a.dev(), a.ino()) == (b.dev(), b.ino());
    }
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
