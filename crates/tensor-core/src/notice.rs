use core::fmt;
use std::path::{Path, PathBuf};
use std::string::String;

/// What happened to the target of a file that was written, beside that it was.
///
/// ```
/// use std::sync::Mutex;
/// use tensor_core::{Notice, WriteOptions};
///
/// let told = Mutex::new(Vec::new());
/// let tell = |notice: &Notice| {
///     if let Ok(mut told) = told.lock() {
///         told.push(format!("{}: {notice}", notice.path().display()));
///     }
/// };
/// let mut options = WriteOptions::default();
/// options.notice = Some(&tell);
/// options.tell(&Notice::Removed { file: "model-2.safetensors".into() }); // as a builder does
/// assert_eq!(told.into_inner()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The target is a symbolic link, and the file that it leads to is written.
    LinkFollowed {
        /// The target as named.
        link: PathBuf,
        /// The file that is written.
        file: PathBuf,
    },
    /// The target is a symbolic link to a blob of a content-addressed cache: the link is replaced by
    /// a file, the blob stays as it is.
    LinkReplaced {
        /// The target as named.
        link: PathBuf,
        /// What it led to.
        blob: PathBuf,
    },
    /// The file that was replaced belonged to someone else, and the new one could not be given to
    /// them.
    OwnerChanged {
        /// The file.
        file: PathBuf,
        /// Owner and group of the file that was replaced.
        before: (u32, u32),
        /// Owner and group now.
        now: (u32, u32),
    },
    /// A file that the set before this one listed, and that no longer belongs to it, was deleted.
    Removed {
        /// The file.
        file: PathBuf,
    },
    /// Extended attributes, among them access lists, that the new file could not be given.
    AttributesDropped {
        /// The file.
        file: PathBuf,
        /// Their names.
        names: String,
        /// Why, as the operating system says it.
        reason: String,
    },
}

impl Notice {
    /// The file or link that it is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::LinkFollowed { link, .. } | Self::LinkReplaced { link, .. } => link,
            Self::OwnerChanged { file, .. }
            | Self::AttributesDropped { file, .. }
            | Self::Removed { file } => file,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path().display())?;
        match self {
            Self::LinkFollowed { file, .. } => {
                write!(
                    f,
                    "a link; the file that it leads to is written: {}",
                    file.display()
                )
            }
            Self::LinkReplaced { blob, .. } => write!(
                f,
                "a link into a cache whose files are named by their content; the link is replaced, {} is kept",
                blob.display()
            ),
            Self::OwnerChanged { before, now, .. } => write!(
                f,
                "owner and group were {}:{} and are now {}:{}",
                before.0, before.1, now.0, now.1
            ),
            Self::Removed { .. } => f.write_str(
                "deleted: a part of the set that was replaced, and of no use without it",
            ),
            Self::AttributesDropped { names, reason, .. } => {
                write!(f, "extended attributes not kept: {names} ({reason})")
            }
        }
    }
}
