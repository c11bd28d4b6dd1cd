//! Several objects that appear when all of them are complete, the one that names the others last, or not at all.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tensor_core::SetOutput;

use crate::engine::Engine;
use crate::upload::{RemoteUpload, may_write};
use crate::{Problem, RemoteAddress, RemoteError};

/// How many objects are finished or given up at once.
const AT_ONCE: usize = 8;

/// The objects of a set that is being written: made by [`Remote::create_set`](crate::Remote::create_set), and
/// there once it is [finished](Self::finish). One that is dropped before leaves nothing.
///
/// All bytes are sent, and none of the objects is there, until all of them are complete; then they appear,
/// the one that was begun last, which names the others, after all of these.
///
/// ```
/// use std::io::Write;
/// use tensor_core::SetOutput;
/// use tensor_remote::{Remote, RemoteAddress, RemoteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let at = format!("file://{}/set.json", folder.path().display());
/// let remote = Remote::new(RemoteOptions::default())?;
/// let address: RemoteAddress = at.parse()?; // as s3://models/set.json
/// let mut set = remote.create_set(&address, &["part-0"], false)?;
/// set.begin("part-0", Some(7))?;
/// set.write_all(b"weights")?;
/// set.begin("set.json", None)?;
/// set.write_all(b"[\"part-0\"]")?;
/// assert!(remote.size(&address.join("part-0")?)?.is_none());
/// assert!(set.finish(|| true)?);
/// assert_eq!(remote.size(&address.join("part-0")?)?, Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RemoteSet {
    engine: Arc<Engine>,
    /// Of the object that names the others.
    address: RemoteAddress,
    replace: bool,
    /// Whether there was one already, of those that were asked about.
    there: HashMap<RemoteAddress, bool>,
    /// In the order in which they were begun; all but the last one are sealed.
    uploads: Vec<RemoteUpload>,
}

impl RemoteSet {
    pub(crate) fn new(
        engine: Arc<Engine>,
        address: RemoteAddress,
        names: &[impl AsRef<str>],
        replace: bool,
    ) -> Result<Self, RemoteError> {
        may_write(&address)?;
        let mut addresses = vec![address.clone()];
        for name in names {
            addresses.push(address.join(name.as_ref())?);
        }
        let sizes = crate::remote::sizes(&engine, &addresses)?;
        let there: HashMap<RemoteAddress, bool> = addresses
            .into_iter()
            .zip(sizes.iter().map(Option::is_some))
            .collect();
        match there.iter().find(|(_, is_there)| **is_there && !replace) {
            Some((address, _)) => Err(RemoteError::new(address, Problem::Exists)),
            None => Ok(Self {
                engine,
                address,
                replace,
                there,
                uploads: Vec::new(),
            }),
        }
    }

    /// Makes the objects appear, the one that was begun last after all others. `goes_on` is asked before each
    /// one whether to go on; `false` is returned where it said no.
    ///
    /// Where objects of a set that is there are replaced, the one that names them is deleted first, so that
    /// nobody reads a mixture of both. From then on `goes_on` is not asked any more.
    ///
    /// # Errors
    /// What the store fails with. The objects that had appeared by then are deleted again, and nothing of the
    /// others is left; what can't be deleted is named.
    pub fn finish(mut self, mut goes_on: impl FnMut() -> bool) -> Result<bool, RemoteError> {
        let Some(mut last) = self.uploads.pop() else {
            return Ok(true);
        };
        if !goes_on() {
            return Ok(false);
        }
        let replaces = self.make_way(&last)?;
        let mut ended = self.complete_all(|| replaces || goes_on());
        if let Ok(true) = ended {
            ended = last.complete().map(|()| true);
        }
        if let Ok(true) = ended {
            return ended;
        }
        self.uploads.push(last);
        let made = self.uploads.iter().filter(|upload| upload.is_there());
        let made: Vec<RemoteAddress> = made.map(|upload| upload.address().clone()).collect();
        let left: Vec<String> = crate::remote::remove(&self.engine, &made, true)
            .iter()
            .map(|error| error.address().to_owned())
            .collect();
        let mut notes = Vec::new();
        if replaces {
            notes.push("the set that was to be replaced is gone".to_owned());
        }
        if !left.is_empty() {
            notes.push(format!("could not be deleted again: {}", left.join(", ")));
        }
        match ended {
            Ok(_) if notes.is_empty() => Ok(false),
            Ok(_) => {
                let stopped = Problem::Failed("stopped on request".into());
                Err(RemoteError::new(&self.address, stopped).noting(notes.join("; ")))
            }
            Err(error) if notes.is_empty() => Err(error),
            Err(error) => Err(error.noting(notes.join("; "))),
        }
    }

    /// Deletes the object that names the others, where it is there and one of these is replaced.
    fn make_way(&self, last: &RemoteUpload) -> Result<bool, RemoteError> {
        let is_there = |upload: &RemoteUpload| self.there.get(upload.address()) == Some(&true);
        if !is_there(last) || !self.uploads.iter().any(is_there) {
            return Ok(false);
        }
        let gone = crate::remote::remove(&self.engine, &[last.address().clone()], false);
        match gone.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(true),
        }
    }

    /// Makes all objects appear but the last one, several at once.
    fn complete_all(&mut self, mut goes_on: impl FnMut() -> bool) -> Result<bool, RemoteError> {
        let count = self.uploads.len();
        let (stop, failed) = (AtomicBool::new(false), Mutex::new(None));
        let queue = Mutex::new(self.uploads.iter_mut());
        // Whether there may be another one.
        let next = || {
            let upload = lock(&queue).next();
            let Some(upload) = upload.filter(|_| !stop.load(Ordering::Relaxed)) else {
                return false;
            };
            if let Err(error) = upload.complete() {
                lock(&failed).get_or_insert(error);
                stop.store(true, Ordering::Relaxed);
            }
            true
        };
        let mut is_stopped = false;
        std::thread::scope(|scope| {
            for _ in 1..count.min(AT_ONCE) {
                // Where no thread starts, the others do its work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || while next() {});
            }
            loop {
                if !goes_on() {
                    is_stopped = true;
                    stop.store(true, Ordering::Relaxed);
                }
                if !next() {
                    break;
                }
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(!is_stopped),
        }
    }

    fn address_of(&self, name: &str) -> Result<RemoteAddress, RemoteError> {
        match self.address.file_name() == name {
            true => Ok(self.address.clone()),
            false => self.address.join(name),
        }
    }
}

impl SetOutput for RemoteSet {
    fn begin(&mut self, name: &str, len: Option<u64>) -> io::Result<()> {
        if let Some(before) = self.uploads.last_mut() {
            before.seal()?;
        }
        let address = self.address_of(name)?;
        let (engine, replace) = (self.engine.clone(), self.replace);
        let is_known = self.there.contains_key(&address);
        let upload = match is_known {
            true => RemoteUpload::unchecked(engine, address, replace, len),
            false => RemoteUpload::new(engine, address, replace, len),
        };
        self.uploads.push(upload?);
        Ok(())
    }
}

impl io::Write for RemoteSet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.uploads.last_mut() {
            Some(upload) => upload.write(bytes),
            None => Err(io::Error::other("no file of the set was begun")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for RemoteSet {
    fn drop(&mut self) {
        let uploads = Mutex::new(std::mem::take(&mut self.uploads));
        let count = lock(&uploads).len();
        // Each gives up what was sent of it.
        let next = || {
            let upload = lock(&uploads).pop();
            upload.is_some()
        };
        std::thread::scope(|scope| {
            for _ in 1..count.min(AT_ONCE) {
                let _ = std::thread::Builder::new().spawn_scoped(scope, || while next() {});
            }
            while next() {}
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for RemoteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSet")
            .field("address", &self.address)
            .field("objects", &self.uploads.len())
            .finish_non_exhaustive()
    }
}
