//! What a new file takes over from the one that it replaces: owner, group, mode, extended attributes.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use crate::{Notice, WriteOptions};

/// Gives `file`, which will replace the one at `path`, what that one has, as far as the system lets it.
#[cfg(unix)]
pub(super) fn keep(
    file: &File,
    path: &Path,
    existing: &Metadata,
    options: &WriteOptions<'_>,
) -> io::Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    let before = (existing.uid(), existing.gid());
    let made = file.metadata()?;
    let mut now = (made.uid(), made.gid());
    if before.1 != now.1 && fchown(file, None, Some(before.1)).is_ok() {
        now.1 = before.1;
    }
    if before.0 != now.0 && fchown(file, Some(before.0), None).is_ok() {
        now.0 = before.0;
    }
    let mut mode = existing.mode() & 0o7777;
    if now != before {
        // What a program may do as its owner must not be done as someone else.
        mode &= 0o777;
        options.tell(&Notice::OwnerChanged {
            file: path.to_path_buf(),
            before,
            now,
        });
    }
    // Changing the owner takes such bits away, so the mode comes after it.
    file.set_permissions(Permissions::from_mode(mode))?;
    keep_attributes(file, path, options);
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn keep(
    file: &File,
    _path: &Path,
    existing: &Metadata,
    _options: &WriteOptions<'_>,
) -> io::Result<()> {
    file.set_permissions(existing.permissions())
}

/// Keeps extended attributes, access lists among them, where the file system has any.
#[cfg(unix)]
fn keep_attributes(file: &File, path: &Path, options: &WriteOptions<'_>) {
    use std::string::{String, ToString};
    use std::vec::Vec;

    use xattr::FileExt;

    let Ok(names) = xattr::list(path) else {
        return;
    };
    let mut dropped: Vec<String> = Vec::new();
    let mut reason = String::new();
    for name in names {
        let kept = match xattr::get(path, &name) {
            Ok(Some(value)) => match file.get_xattr(&name) {
                // What the system gives every file itself needs no right to set it.
                Ok(Some(own)) if own == value => Ok(()),
                _ => file.set_xattr(&name, &value),
            },
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            dropped.push(name.to_string_lossy().into_owned());
            reason = error.to_string();
        }
    }
    if !dropped.is_empty() {
        options.tell(&Notice::AttributesDropped {
            file: path.to_path_buf(),
            names: dropped.join(", "),
            reason,
        });
    }
}
