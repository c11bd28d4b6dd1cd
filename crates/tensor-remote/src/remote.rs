use std::sync::Arc;

use crate::engine::Engine;
use crate::fetch::Object;
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
    /// # Errors
    /// That it can't be reached.
    pub fn size(&self, address: &RemoteAddress) -> Result<Option<u64>, RemoteError> {
        self.allow(address);
        let (engine, at) = (self.engine.clone(), address.clone());
        let fail = |problem| RemoteError::new(address, problem);
        let asked = self.engine.wait(async move {
            let (store, path) = store::of(&engine, &at)?;
            match crate::fetch::head(&*store, &path, &Trace::default()).await {
                Ok(meta) => Ok(Some(meta.size)),
                Err(Problem::NotFound) => Ok(None),
                Err(problem) => Err(RemoteError::new(&at, problem)),
            }
        });
        asked.map_err(fail)?
    }

    /// Begins an object that appears whole once it is [finished](RemoteUpload::finish), or never.
    /// `replace` says whether one that is there may be replaced. `len` is its length, as far as it is known:
    /// it decides how large the parts must be.
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
