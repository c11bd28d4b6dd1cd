//! Opening files, and sets of them, that are not on this disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tensor_core::{FileError, Parts, Source};

#[allow(unused_imports, reason = "a build may have no codec")]
use crate::codec;
use crate::{Archive, ReadOptions, Result};

impl Archive {
    /// Opens the file called `name` among `parts`; where it is a set, all its files come from there.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tensorfmt::{Archive, FileSource, Parts, Source, SourceError};
    ///
    /// /// The files of a folder, as if they were elsewhere.
    /// struct Folder(std::path::PathBuf);
    ///
    /// impl Parts for Folder {
    ///     fn open(&self, name: &str) -> Result<Option<Arc<dyn Source>>, SourceError> {
    ///         Ok(Some(Arc::new(FileSource::open(self.0.join(name))?)))
    ///     }
    /// }
    /// # let folder = tempfile::tempdir()?;
    /// # let mut builder = tensorfmt::safetensors::Builder::new();
    /// # builder.tensor("w", tensorfmt::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
    /// # builder.write_set(folder.path().join("model.safetensors.index.json"))?;
    /// let parts = Arc::new(Folder(folder.path().to_owned()));
    /// let archive = Archive::open_parts("model.safetensors.index.json", parts, &Default::default())?;
    /// assert!(archive.is_set() && archive.entry("w").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open), and what `parts` fails with.
    pub fn open_parts(name: &str, parts: Arc<dyn Parts>, options: &ReadOptions) -> Result<Self> {
        let shown = PathBuf::from(parts.shown(name));
        let Some(source) = parts.open(name)? else {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(FileError::new(&shown, missing).into());
        };
        if let Some(set) = Self::open_set_in_parts(name, &source, &parts, options)? {
            return Ok(set);
        }
        let opened = Self::open_source(source, Some(Path::new(name)), options);
        opened.map_err(|error| error.in_file(&shown))
    }

    /// Opens the set that a file is the beginning of, if it is.
    fn open_set_in_parts(
        name: &str,
        source: &Arc<dyn Source>,
        parts: &Arc<dyn Parts>,
        options: &ReadOptions,
    ) -> Result<Option<Self>> {
        macro_rules! open {
            (() $($Format:ident {
                about: $about:literal,
                feature: $feature:literal,
                codec: $krate:ident as $module:ident,
                endings: $endings:tt,
                mark: $mark:expr,
                set: [$($Set:ident $name:literal $ending:literal)?],
            })*) => {$($(
                #[cfg(feature = $feature)]
                if codec::$module::is_set(source, Path::new(name))? {
                    let (source, parts) = (source.clone(), parts.clone());
                    let set = codec::$module::open_parts(name, source, parts, options)?;
                    return Ok(Some(Self::$Set(set)));
                }
            )?)*};
        }
        formats! { open! () }
        let _ = (name, source, parts, options);
        Ok(None)
    }
}
