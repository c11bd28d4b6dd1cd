//! Opening what the command line names.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tensorfmt::{Archive, FileSource};

use crate::cli::Common;
use crate::failure::{Failure, complain};
use crate::output::escape;

/// A file named on the command line; `-` is standard input, spooled to a temporary file.
pub(crate) struct Input {
    /// As named, for messages.
    pub(crate) path: PathBuf,
    spooled: Option<NamedTempFile>,
}

impl Input {
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let path = path.to_path_buf();
        if path.as_os_str() != "-" {
            return Ok(Self {
                path,
                spooled: None,
            });
        }
        let spool = || -> io::Result<NamedTempFile> {
            let mut file = NamedTempFile::with_prefix("tensorfmt-stdin-")?;
            io::copy(&mut io::stdin().lock(), &mut file)?;
            Ok(file)
        };
        let spooled = spool().map_err(|error| Failure::io(&path, &error))?;
        Ok(Self {
            path,
            spooled: Some(spooled),
        })
    }

    /// Opens the file through positional reads, never a map.
    pub(crate) fn open(&self) -> Result<Archive, tensorfmt::Error> {
        match &self.spooled {
            // The temporary file's name would only confuse.
            Some(file) => Archive::from_source(FileSource::open(file.path())?),
            None => Archive::open(&self.path),
        }
    }

    /// Says so where some of the metadata can't be read, which may also say how tensors are meant.
    pub(crate) fn warn_of_metadata(&self, archive: &Archive) {
        if let Some(error) = archive.metadata_fault() {
            let failure = Failure::about(&self.path, &error);
            let message = failure.message();
            complain(&escape(&format!("metadata can't be read: {message}")));
        }
    }

    /// Opens an AERO file whose index overran its weights.
    pub(crate) fn salvage(&self) -> Result<Archive, tensorfmt::Error> {
        Archive::salvage(
            self.spooled
                .as_ref()
                .map_or(&*self.path, |file| file.path()),
        )
    }
}

/// Decides by name, with globs.
#[derive(Debug, Default)]
pub(crate) struct Globs(Vec<glob::Pattern>);

impl Globs {
    pub(crate) fn new(patterns: &[String]) -> Result<Self, Failure> {
        let parse = |text: &String| {
            glob::Pattern::new(text)
                .map_err(|error| Failure::usage(format!("glob {text:?}: {}", error.msg)))
        };
        patterns
            .iter()
            .map(parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(name))
    }

    /// Warns of every pattern that none of the names matches: most often it is misspelt.
    pub(crate) fn warn_unmatched<'a>(
        &self,
        option: &str,
        names: impl Iterator<Item = &'a str> + Clone,
        common: &Common,
    ) {
        for pattern in &self.0 {
            if !names.clone().any(|name| pattern.matches(name)) {
                warn_unmatched(option, pattern.as_str(), common);
            }
        }
    }
}

/// Says that an option applies to nothing.
pub(crate) fn warn_unmatched(option: &str, pattern: &str, common: &Common) {
    if !common.quiet {
        let text = format!("warning: {option} {pattern:?} matches nothing");
        complain(&escape(&text));
    }
}
