//! Where a file that is written ends up: what a path leads to, and what may be done there.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::folder_of;
use crate::Notice;

/// What becomes of a symbolic link at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// It is followed, unless it leads to a blob of a cache.
    Follow,
    /// It is replaced: a name that no user has given must not lead anywhere else.
    Replace,
}

/// What a target path comes down to.
#[derive(Debug)]
pub(super) struct Place {
    /// The file that is written.
    pub(super) path: PathBuf,
    /// What is there now, if anything is.
    pub(super) existing: Option<Metadata>,
    /// Whether it is or will be a regular file: not a device, a pipe, or what a descriptor refers to.
    pub(super) regular: bool,
    /// What is worth saying about the link that led here.
    pub(super) notice: Option<Notice>,
    /// Whether the path leads to a blob of a content-addressed cache.
    pub(super) blob: bool,
}

impl Place {
    pub(super) fn of(path: &Path, links: Links) -> io::Result<Self> {
        let (end, descriptor) = match links {
            Links::Follow => follow(path)?,
            Links::Replace => (path.to_path_buf(), false),
        };
        let is_link = end != path && !descriptor;
        let blob = is_link && is_blob(&end);
        let link = path.to_path_buf();
        let (place, notice) = match (is_link, blob) {
            (false, _) => (end, None),
            (true, false) => {
                let file = end.clone();
                (end, Some(Notice::LinkFollowed { link, file }))
            }
            (true, true) => (
                path.to_path_buf(),
                Some(Notice::LinkReplaced { link, blob: end }),
            ),
        };
        // The mode, and whether there is a file at all, are what the link led to.
        let existing = match (links, fs::metadata(path)) {
            (Links::Replace, _) => fs::symlink_metadata(path)
                .ok()
                .filter(|at| !at.is_symlink()),
            (_, Ok(metadata)) => Some(metadata),
            (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => None,
            (_, Err(error)) => return Err(error),
        };
        if existing.as_ref().is_some_and(Metadata::is_dir) {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let regular = !descriptor && existing.as_ref().is_none_or(Metadata::is_file);
        Ok(Self {
            path: place,
            existing,
            regular,
            notice: notice.filter(|_| regular),
            blob,
        })
    }

    /// Whether the file that is there could be written in place.
    pub(super) fn can_be_opened(&self) -> bool {
        self.existing.is_some() && OpenOptions::new().write(true).open(&self.path).is_ok()
    }
}

/// The path that a chain of symbolic links ends at, which need not exist, and whether it leads through a
/// descriptor of a process, as `/dev/stdout` does.
fn follow(path: &Path) -> io::Result<(PathBuf, bool)> {
    let mut path = path.to_path_buf();
    for _ in 0..40 {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            return Ok((path, false));
        };
        if !metadata.is_symlink() {
            return Ok((path, false));
        }
        if is_descriptor(&path) {
            return Ok((path, true));
        }
        let link = fs::read_link(&path)?;
        path = folder_of(&path).join(link);
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Whether a link refers to an open file of a process rather than to a path.
fn is_descriptor(link: &Path) -> bool {
    let parent = folder_of(link);
    let Ok(parent) = parent.canonicalize() else {
        return false;
    };
    parent.starts_with("/proc") && parent.ends_with("fd")
}

/// Whether a file is named by a digest of what is in it, as caches of downloads name theirs.
pub(super) fn is_blob(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    // Some put the algorithm first: `sha256-0123...` or `sha256:0123...`.
    let digest = name.rsplit(['-', ':']).next().unwrap_or(name);
    let prefix = name.strip_suffix(digest).unwrap_or_default();
    let has_algorithm = prefix.is_empty()
        || [
            "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake3",
        ]
        .iter()
        .any(|known| {
            prefix
                .strip_prefix(known)
                .is_some_and(|rest| rest.len() == 1)
        });
    let has_length = matches!(digest.len(), 32 | 40 | 56 | 64 | 96 | 128);
    has_algorithm && has_length && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_named_by_a_digest_and_nothing_else() {
        let sha256 = "0123456789abcdef".repeat(4);
        let sha1 = "0123456789abcdef01234567".repeat(2)[..40].to_owned();
        for name in [
            &sha256,
            &sha1,
            &format!("sha256-{sha256}"),
            &format!("sha256:{sha256}"),
        ] {
            assert!(is_blob(&Path::new("cache").join(name)), "{name}");
        }
        let longer = format!("{sha256}0");
        let ending = format!("{sha256}.safetensors");
        let other = format!("model-{sha256}");
        for name in [
            "model.safetensors",
            "deadbeef",
            &longer,
            &ending,
            &other,
            "",
        ] {
            assert!(!is_blob(&Path::new("cache").join(name)), "{name}");
        }
    }
}
