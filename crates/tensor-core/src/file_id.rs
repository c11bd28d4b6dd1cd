/// Which file something is, whatever name leads to it: two links to one file have one id.
///
/// On Unix it is the device and the inode, elsewhere the canonical path, which can't tell two hard
/// links.
///
/// ```
/// use tensor_core::FileId;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("weights.bin");
/// std::fs::write(&path, b"weights")?;
/// std::fs::hard_link(&path, folder.path().join("link.bin"))?;
/// # if cfg!(unix) {
/// assert_eq!(FileId::of(&path)?, FileId::of(folder.path().join("link.bin"))?);
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileId(
    #[cfg(all(feature = "std", unix))] (u64, u64),
    #[cfg(all(feature = "std", not(unix)))] std::path::PathBuf,
    #[cfg(not(feature = "std"))] (),
);

#[cfg(feature = "std")]
impl FileId {
    /// The id of the file that `path` leads to.
    ///
    /// # Errors
    /// What the operating system says, most often that there is no such file.
    pub fn of(path: impl AsRef<std::path::Path>) -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            Ok(Self::of_metadata(&path.as_ref().metadata()?))
        }
        #[cfg(not(unix))]
        {
            Ok(Self(path.as_ref().canonicalize()?))
        }
    }

    #[cfg(unix)]
    pub(crate) fn of_metadata(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self((metadata.dev(), metadata.ino()))
    }
}
