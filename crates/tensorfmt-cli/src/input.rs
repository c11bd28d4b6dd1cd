//! Opening what the command line names.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tensor_core::{Kind, Source};
use tensorfmt::{Archive, FileSource, ReadOptions, Work};

use crate::cli::Common;
use crate::failure::{Failure, complain};
use crate::output::escape;
use crate::remote::{self, Links, Object};
use crate::size;

/// Whether it was said what becomes of streams.
static SAID: std::sync::Once = std::sync::Once::new();

/// A file named on the command line; `-` is standard input, spooled to a temporary file.
pub(crate) struct Input {
    /// As named, for messages.
    pub(crate) path: PathBuf,
    /// Without a name, so that nothing is left behind however the run ends.
    spooled: Option<File>,
    /// Where it is, if not on this disk.
    object: Option<Object>,
    /// What goes to the addresses that it names.
    links: Links,
    options: ReadOptions,
}

impl Input {
    pub(crate) fn new(path: &Path, common: &Common) -> Result<Self, Failure> {
        let (path, object) = remote::parse(path, common)?;
        if object.is_none() && is_url(&path) {
            let why = "no such file, and no such addresses are read: download it first";
            let error = io::Error::new(io::ErrorKind::NotFound, why);
            return Err(Failure::io(&path, &error));
        }
        let options = read_options(common)?;
        let stdin = path.as_os_str() == "-";
        if (stdin || is_pipe(&path)) && !common.quiet {
            SAID.call_once(|| {
                let folder = std::env::temp_dir();
                complain(&escape(&format!(
                    "note: {} is a stream, kept in {} while it is read",
                    if stdin {
                        "standard input".into()
                    } else {
                        path.display().to_string()
                    },
                    folder.display()
                )));
            });
        }
        let spooled = match stdin {
            true => Some(spool(io::stdin().lock())),
            false if is_pipe(&path) => Some(File::open(&path).and_then(spool)),
            false => None,
        };
        let spooled = spooled.transpose();
        Ok(Self {
            spooled: spooled.map_err(|error| Failure::io(&path, &error))?,
            links: Links::of(common)?,
            object,
            path,
            options,
        })
    }

    /// Two of them. Streams are spooled side by side, since one program may write both in turn.
    pub(crate) fn both((a, b): (&Path, &Path), common: &Common) -> Result<(Self, Self), Failure> {
        let is_stream = |path: &Path| path.as_os_str() == "-" || is_pipe(path);
        if a.as_os_str() == "-" && b.as_os_str() == "-" {
            return Err(Failure::usage(
                "standard input can be one of the files only",
            ));
        }
        if !(is_stream(a) && is_stream(b)) {
            return Ok((Self::new(a, common)?, Self::new(b, common)?));
        }
        std::thread::scope(|scope| {
            let beside = std::thread::Builder::new().spawn_scoped(scope, || Self::new(b, common));
            let a = Self::new(a, common);
            // Where no thread starts, they come one after the other.
            let b = match beside.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(b)) => b,
                _ => Self::new(b, common),
            };
            Ok((a?, b?))
        })
    }

    /// Where it is, if not on this disk.
    pub(crate) fn object(&self) -> Option<&Object> {
        self.object.as_ref()
    }

    /// Opens the file through positional reads, never a map.
    pub(crate) fn open(&self) -> Result<Archive, tensorfmt::Error> {
        self.open_with(&self.options)
    }

    /// Opens what is whole of a damaged file.
    pub(crate) fn salvage(&self) -> Result<Archive, tensorfmt::Error> {
        let mut options = self.options.clone();
        options.salvage = true;
        self.open_with(&options)
    }

    /// Opens the file, or what is whole of it, for work on it and on others that are open: one limit is for all.
    pub(crate) fn open_beside<'a>(
        &self,
        others: impl Iterator<Item = &'a Archive>,
        work: Work,
        salvage: bool,
    ) -> Result<Archive, tensorfmt::Error> {
        let mut options = self.options.beside(others, work);
        options.salvage |= salvage;
        self.open_with(&options)
    }

    /// Opens the file to check it: a set of which something is missing with what it has, so that all that
    /// is wrong with it can be said.
    pub(crate) fn open_to_verify(&self) -> Result<Archive, tensorfmt::Error> {
        let opened = self.open();
        match &opened {
            Err(error) if !matches!(error.kind(), Kind::Io | Kind::Limit) => match self.salvage() {
                Ok(archive) if !archive.faults().is_empty() => Ok(archive),
                _ => opened,
            },
            _ => opened,
        }
    }

    /// The bytes of the file, whatever is in it.
    pub(crate) fn source(&self) -> Result<Arc<dyn Source>, tensorfmt::Error> {
        if let Some(object) = &self.object {
            return object.source();
        }
        let fail = |error| tensorfmt::FileError::new(&self.path, error);
        let file = match &self.spooled {
            Some(file) => file.try_clone(),
            None => File::open(&self.path),
        };
        Ok(Arc::new(FileSource::new(file.map_err(fail)?, &self.path)?))
    }

    fn open_with(&self, options: &ReadOptions) -> Result<Archive, tensorfmt::Error> {
        if let Some(object) = &self.object {
            return object.open(options);
        }
        match &self.spooled {
            Some(file) => {
                let fail = |error| tensorfmt::FileError::new(&self.path, error);
                let source = FileSource::new(file.try_clone().map_err(fail)?, &self.path)?;
                Archive::from_source(source, options)
            }
            None => self.links.open(&self.path, options),
        }
    }

    /// Fails where work on all of the archive takes more memory than such a file is worth.
    pub(crate) fn allows(&self, archive: &Archive, work: Work) -> Result<(), Failure> {
        let allowed = self.check_work(archive, work);
        allowed.map_err(|error| Failure::about(&self.path, &error))
    }

    /// The same of this archive and those that are open already, which share one limit.
    pub(crate) fn allows_beside<'a>(
        &self,
        archive: &'a Archive,
        others: impl Iterator<Item = &'a Archive>,
        work: Work,
    ) -> Result<(), Failure> {
        let all = others.chain([archive]);
        let allowed = self.options.check_work_of(all, work);
        allowed.map_err(|error| Failure::about(&self.path, &error))
    }

    /// The same as an error of the library.
    pub(crate) fn check_work(&self, archive: &Archive, work: Work) -> Result<(), tensorfmt::Error> {
        self.options.check_work(archive, work)
    }

    /// Says what is not quite right with a file that opens: metadata that can't be read, which may also say
    /// how tensors are meant, and tensors of a set that its index doesn't list.
    pub(crate) fn warn(&self, archive: &Archive) {
        let path = self.path.display();
        for what in archive.oddities().iter().chain(&archive.faults()) {
            complain(&escape(&format!("note: {path}: {what}")));
        }
        for (part, name) in archive.unlisted() {
            complain(&escape(&format!(
                "note: {path}: {part} holds {name:?}, which the index doesn't list: it is left out"
            )));
        }
        if let Some(error) = archive.metadata_fault() {
            let failure = Failure::about(&self.path, &error);
            let message = failure.message();
            complain(&escape(&format!("metadata can't be read: {message}")));
        }
    }
}

/// Whether a path is the address of something on a server, and there is no such file.
fn is_url(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|text| text.split_once("://"));
    let is_word = |word: &str| {
        let mut bytes = word.bytes();
        bytes.len() > 1 && bytes.all(|byte| byte.is_ascii_alphanumeric())
    };
    scheme.is_some_and(|(scheme, _)| is_word(scheme)) && !path.exists()
}

/// Whether bytes come from a path in one stream, which has no positions to read at.
fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        path.metadata().is_ok_and(|at| at.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// A temporary file with all that a stream gives.
fn spool(mut stream: impl io::Read) -> io::Result<File> {
    let folder = std::env::temp_dir();
    let fail = |error: io::Error| {
        let text = format!(
            "{error} (kept in {} while it is read; TMPDIR names another folder)",
            folder.display()
        );
        io::Error::new(error.kind(), text)
    };
    let mut file = tempfile::tempfile_in(&folder).map_err(fail)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let len = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // It is the stream's fault, not the folder's.
            Err(error) => return Err(error),
        };
        file.write_all(buffer.get(..len).unwrap_or_default())
            .map_err(fail)?;
    }
    file.rewind()?;
    Ok(file)
}

fn read_options(common: &Common) -> Result<ReadOptions, Failure> {
    let mut options = ReadOptions::default();
    for text in &common.limit {
        let pair = text.split_once('=');
        let wrong = |why: &str| Failure::usage(format!("--limit {text:?}: {why}"));
        let (name, value) = pair.ok_or_else(|| wrong("not of the form NAME=VALUE"))?;
        let value = size::bytes(value).map_err(|why| wrong(&why))?;
        if remote::is_limit(name) {
            continue;
        }
        options
            .limit(name, value)
            .map_err(|error| Failure::usage(format!("--limit {text:?}: {error}")))?;
    }
    Ok(options)
}
