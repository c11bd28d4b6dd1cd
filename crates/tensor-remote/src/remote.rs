use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;

use crate::engine::Engine;
use crate::fetch::Object;
use crate::set::RemoteSet;
use crate::store;
use crate::trace::Trace;
use crate::upload::RemoteUpload;
use crate::{Problem, RemoteAddress, RemoteError, RemoteOptions, RemoteSource, Usage};

/// Access to objects: what they share of connections, memory and limits.
///
/// It has threads of its own, on which all requests run; whoever reads waits like for a slow disk, on any
/// thread, also on one of an async runtime.
///
/// ```no_run
/// use tensor_core::Source;
/// use tensor_remote::{Remote, RemoteOptions};
///
/// let remote = Remote::new(RemoteOptions::default())?;
/// let source = remote.open(&"s3://models/llama.safetensors".parse()?)?;
/// println!("{} bytes, {:?}", source.size(), source.read(0..8)?);
/// println!("{:?}", remote.usage());
/// assert_eq!(remote.options().retries, 6);
///
/// // What a file names may only be where the user has named something.
/// let address = "https://elsewhere.example.org/part.aero".parse()?;
/// assert!(remote.open_linked(&address).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Remote {
    engine: Arc<Engine>,
}

impl Remote {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`Problem::Address`] for one of the [`origins`](RemoteOptions::origins) that is none, or what the
    /// operating system says.
    pub fn new(mut options: RemoteOptions) -> Result<Self, RemoteError> {
        for origin in &mut options.origins {
            let Some(parsed) = RemoteOptions::parse_origin(origin) else {
                let why = "not of the form https://host or https://host:port".into();
                return Err(RemoteError::new(
                    &crate::address::shown(origin),
                    Problem::Address(why),
                ));
            };
            *origin = parsed;
        }
        let engine = Engine::new(options).map_err(|error| {
            let why = format!("no threads to read with: {error}");
            RemoteError::new(&"remote", Problem::Failed(why))
        })?;
        Ok(Self {
            engine: Arc::new(engine),
        })
    }

    /// Opens an object that the user named: one request, for its beginning. Where it is, may also lead to
    /// by redirects what lies on the same server.
    ///
    /// # Errors
    /// That it isn't there, can't be reached or can't be read in ranges.
    pub fn open(&self, address: &RemoteAddress) -> Result<RemoteSource, RemoteError> {
        self.allow(address);
        self.open_allowed(address)
    }

    /// Opens an object that a file names and no user: one on a server that the user named for another
    /// object, or in [`RemoteOptions::origins`].
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`Problem::Origin`].
    pub fn open_linked(&self, address: &RemoteAddress) -> Result<RemoteSource, RemoteError> {
        match address.origin() {
            Some(origin) if !self.engine.allows(&origin) => {
                Err(RemoteError::new(address, Problem::Origin { origin }))
            }
            _ => self.open_allowed(address),
        }
    }

    /// Size of an object, `None` where there is none.
    ///
    /// [`RemoteUpload`] has an example.
    ///
    /// # Errors
    /// That it can't be reached.
    pub fn size(&self, address: &RemoteAddress) -> Result<Option<u64>, RemoteError> {
        let sizes = self.sizes(std::slice::from_ref(address))?;
        Ok(sizes.first().copied().flatten())
    }

    /// The sizes of objects, asked for several at once.
    ///
    /// ```
    /// use tensor_remote::{Remote, RemoteAddress, RemoteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let at = format!("file://{}/a.bin", folder.path().display());
    /// # std::fs::write(folder.path().join("a.bin"), "weights")?;
    /// let remote = Remote::new(RemoteOptions::default())?;
    /// let address: RemoteAddress = at.parse()?; // as s3://models/a.bin
    /// let both = [address.clone(), address.join("b.bin")?];
    /// assert_eq!(remote.sizes(&both)?, [Some(7), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// That one can't be reached.
    pub fn sizes(&self, addresses: &[RemoteAddress]) -> Result<Vec<Option<u64>>, RemoteError> {
        addresses.iter().for_each(|address| self.allow(address));
        sizes(&self.engine, addresses)
    }

    /// Deletes an object; where there is none that is no error.
    ///
    /// ```
    /// use tensor_remote::{Remote, RemoteAddress, RemoteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let at = format!("file://{}/a.bin", folder.path().display());
    /// # std::fs::write(folder.path().join("a.bin"), "weights")?;
    /// let remote = Remote::new(RemoteOptions::default())?;
    /// let address: RemoteAddress = at.parse()?; // as s3://models/a.bin
    /// remote.remove(&address)?;
    /// assert_eq!(remote.size(&address)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// That it can't be reached, or may not be deleted. Nothing is deleted from web servers.
    pub fn remove(&self, address: &RemoteAddress) -> Result<(), RemoteError> {
        crate::upload::may_write(address)?;
        let failed = remove(&self.engine, std::slice::from_ref(address), false);
        failed.into_iter().next().map_or(Ok(()), Err)
    }

    /// Whether an object is open, by a source that was made here and is still there: what reads from it would
    /// fail once it is replaced or deleted.
    ///
    /// ```
    /// use tensor_remote::{Remote, RemoteAddress, RemoteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let at = format!("file://{}/a.bin", folder.path().display());
    /// # std::fs::write(folder.path().join("a.bin"), "weights")?;
    /// let remote = Remote::new(RemoteOptions::default())?;
    /// let address: RemoteAddress = at.parse()?; // as s3://models/a.bin
    /// let source = remote.open(&address)?;
    /// assert!(remote.is_open(&address));
    /// drop(source);
    /// assert!(!remote.is_open(&address));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_open(&self, address: &RemoteAddress) -> bool {
        self.engine.is_read(address)
    }

    /// Begins the objects of a set: the one at `address`, and those it names, which lie beside it. `replace` says
    /// whether what is there may be replaced.
    ///
    /// [`RemoteSet`] has an example.
    ///
    /// # Errors
    /// [`Problem::Exists`], [`Problem::Outside`] of a name, [`Problem::Unsupported`] of a store that can't do
    /// that, or that it can't be reached.
    pub fn create_set(
        &self,
        address: &RemoteAddress,
        names: &[impl AsRef<str>],
        replace: bool,
    ) -> Result<RemoteSet, RemoteError> {
        RemoteSet::new(self.engine.clone(), address.clone(), names, replace)
    }

    /// Begins an object that appears whole once it is [finished](RemoteUpload::finish), or never.
    /// `replace` says whether one that is there may be replaced. `len` is its length, as far as it is known:
    /// it decides how large the parts must be.
    ///
    /// [`RemoteUpload`] has an example.
    ///
    /// # Errors
    /// [`Problem::Exists`], [`Problem::Unsupported`] of a store that can't do that, or that it can't be
    /// reached.
    pub fn create(
        &self,
        address: &RemoteAddress,
        replace: bool,
        len: Option<u64>,
    ) -> Result<RemoteUpload, RemoteError> {
        RemoteUpload::new(self.engine.clone(), address.clone(), replace, len)
    }

    /// What was done so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.engine.usage()
    }

    /// The options that it was made with.
    #[must_use]
    pub fn options(&self) -> &RemoteOptions {
        &self.engine.options
    }

    fn allow(&self, address: &RemoteAddress) {
        if let Some(origin) = address.origin() {
            self.engine.allow(origin);
        }
    }

    fn open_allowed(&self, address: &RemoteAddress) -> Result<RemoteSource, RemoteError> {
        let opened = self
            .engine
            .wait(Object::open(self.engine.clone(), address.clone()));
        let opened = opened.map_err(|problem| RemoteError::new(address, problem))?;
        let (object, head) = opened?;
        Ok(RemoteSource::new(object, head))
    }
}

/// How many small requests are made at once.
const AT_ONCE: usize = 16;

/// The sizes of objects, `None` where there is none.
pub(crate) fn sizes(
    engine: &Arc<Engine>,
    addresses: &[RemoteAddress],
) -> Result<Vec<Option<u64>>, RemoteError> {
    let Some(first) = addresses.first() else {
        return Ok(Vec::new());
    };
    let (own, all) = (engine.clone(), addresses.to_vec());
    let asked = engine.wait(async move {
        let size = |address: RemoteAddress| {
            let engine = own.clone();
            async move {
                let (store, path) = store::of(&engine, &address)?;
                match crate::fetch::head(&*store, &path, &Trace::default()).await {
                    Ok(meta) => Ok(Some(meta.size)),
                    Err(Problem::NotFound) => Ok(None),
                    Err(problem) => Err(RemoteError::new(&address, problem)),
                }
            }
        };
        let sizes = stream::iter(all.into_iter().map(size)).buffered(AT_ONCE);
        sizes.try_collect().await
    });
    asked.map_err(|problem| RemoteError::new(first, problem))?
}

/// Deletes objects, and tells which ones it could not; `clears` what this run has made, whatever the limits are.
pub(crate) fn remove(
    engine: &Arc<Engine>,
    addresses: &[RemoteAddress],
    clears: bool,
) -> Vec<RemoteError> {
    let (own, all) = (engine.clone(), addresses.to_vec());
    let asked = engine.wait(async move {
        let removed = |address: RemoteAddress| {
            let engine = own.clone();
            async move {
                let (store, path) = match store::of(&engine, &address) {
                    Ok(found) => found,
                    Err(error) => return Some(error),
                };
                let trace = match clears {
                    true => Trace::clearing(),
                    false => Trace::default(),
                };
                let removed = trace.clone().of(async { store.delete(&path).await }).await;
                match removed.map_err(|error| trace.problem_of_write(&error)) {
                    Ok(()) | Err(Problem::NotFound) => None,
                    Err(problem) => Some(RemoteError::new(&address, problem)),
                }
            }
        };
        let removed = stream::iter(all.into_iter().map(removed)).buffer_unordered(AT_ONCE);
        removed.filter_map(std::future::ready).collect().await
    });
    asked.unwrap_or_else(|problem| {
        let fail = |address| RemoteError::new(address, problem.clone());
        addresses.iter().map(fail).collect()
    })
}
