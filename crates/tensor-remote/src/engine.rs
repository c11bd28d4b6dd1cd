//! The runtime that requests run on, what they may take, and what they took.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
use object_store::ObjectStore;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::cache::Cache;
use crate::{Problem, RemoteAddress, RemoteOptions, Usage};

/// Threads of the runtime: they wait and decrypt, no more.
const THREADS: usize = 2;

/// What all objects of a [`Remote`](crate::Remote) share.
pub(crate) struct Engine {
    pub(crate) options: RemoteOptions,
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    /// The process that it was made in: a fork has none of its threads.
    process: u32,
    pub(crate) counts: Counts,
    pub(crate) requests: Semaphore,
    /// Bytes that large reads may ask for at once, in units of [`UNIT`].
    bytes: Arc<Semaphore>,
    pub(crate) cache: Cache,
    /// Servers that files and redirects may lead to.
    origins: Mutex<HashSet<String>>,
    /// The store of each bucket.
    #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
    stores: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    /// The clients, one that only has TLS and one that does without.
    #[cfg(any(feature = "azure", feature = "gcs", feature = "http", feature = "s3"))]
    clients: Mutex<HashMap<bool, reqwest::Client>>,
    /// What is being read, and by how many.
    read: Mutex<HashMap<String, usize>>,
}

/// What a permit stands for.
const UNIT: usize = 1 << 10;

/// Counters that the requests themselves see.
pub(crate) struct Counts {
    start: Instant,
    requests: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    max_requests: Option<u64>,
    total_time: Option<Duration>,
}

impl Counts {
    /// Counts one more request, if it may be made: whatever the limits say where it takes away what was sent.
    pub(crate) fn request(&self, clears: bool) -> Result<(), Problem> {
        if !clears {
            self.time()?;
        }
        let made = self.requests.fetch_add(1, Ordering::Relaxed);
        match self.max_requests {
            Some(max) if made >= max && !clears => {
                self.requests.fetch_sub(1, Ordering::Relaxed);
                Err(Problem::Limit {
                    limit: "max_requests",
                    what: format!("{max} requests"),
                })
            }
            _ => Ok(()),
        }
    }

    /// Fails once the time is over.
    pub(crate) fn time(&self) -> Result<(), Problem> {
        match self.total_time {
            Some(total) if self.start.elapsed() >= total => Err(Problem::Limit {
                limit: "total_time",
                what: format!("{} seconds", total.as_secs_f32()),
            }),
            _ => Ok(()),
        }
    }

    /// How long a wait may be that should be no longer than `most`.
    pub(crate) fn wait(&self, most: Duration) -> Duration {
        match self.total_time {
            Some(total) => total.saturating_sub(self.start.elapsed()).min(most),
            None => most,
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            requests: self.requests.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
        }
    }
}

impl Engine {
    pub(crate) fn new(mut options: RemoteOptions) -> std::io::Result<Self> {
        options.bytes_in_flight = options.bytes_in_flight.max(1 << 20);
        options.concurrent_requests = options.concurrent_requests.clamp(1, 1 << 10);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("tensor-remote")
            .enable_all()
            .build()?;
        let half = options.bytes_in_flight / 2;
        Ok(Self {
            runtime: Some(runtime),
            process: std::process::id(),
            counts: Counts {
                start: Instant::now(),
                requests: AtomicU64::new(0),
                received: AtomicU64::new(0),
                sent: AtomicU64::new(0),
                max_requests: options.max_requests,
                total_time: options.total_time,
            },
            requests: Semaphore::new(options.concurrent_requests),
            bytes: Arc::new(Semaphore::new(half / UNIT)),
            cache: Cache::new(half),
            origins: Mutex::new(options.origins.iter().cloned().collect()),
            #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
            stores: Mutex::default(),
            #[cfg(any(feature = "azure", feature = "gcs", feature = "http", feature = "s3"))]
            clients: Mutex::default(),
            read: Mutex::default(),
            options,
        })
    }

    /// Bytes that one request asks for at the most.
    pub(crate) fn part(&self) -> usize {
        const MOST: usize = 4 << 20;
        (self.options.bytes_in_flight / 8).min(MOST)
    }

    /// Starts work on the runtime.
    pub(crate) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Problem> {
        self.start(work).map(drop)
    }

    /// Starts work on the runtime that may be given up.
    pub(crate) fn start(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<JoinHandle<()>, Problem> {
        if self.process != std::process::id() {
            let why = "it was opened before this process was forked: open it again";
            return Err(Problem::Failed(why.into()));
        }
        let runtime = self.runtime.as_ref().ok_or_else(lost)?;
        Ok(runtime.spawn(work))
    }

    /// Does work on the runtime while this thread waits, whichever thread that is: one of another runtime
    /// too, since no runtime is entered here.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.spawn(async move {
            let _ = sender.send(work.await);
        })?;
        receiver.recv().map_err(|_| lost())
    }

    /// Leave to hold `len` bytes until it is dropped.
    pub(crate) async fn bytes(&self, len: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let units = u32::try_from(len.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX);
        self.bytes
            .clone()
            .acquire_many_owned(units)
            .await
            .map_err(|_| lost())
    }

    pub(crate) fn usage(&self) -> Usage {
        self.counts.usage()
    }

    pub(crate) fn allow(&self, origin: String) {
        self.origins().insert(origin);
    }

    pub(crate) fn allows(&self, origin: &str) -> bool {
        self.origins().contains(origin)
    }

    /// Notes that one more reads an object, or that one has ended.
    pub(crate) fn note_reader(&self, address: &RemoteAddress, comes: bool) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let readers = read.entry(address.identity()).or_default();
        *readers = match comes {
            true => readers.saturating_add(1),
            false => readers.saturating_sub(1),
        };
        if *readers == 0 {
            read.remove(&address.identity());
        }
    }

    pub(crate) fn is_read(&self, address: &RemoteAddress) -> bool {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.contains_key(&address.identity())
    }

    #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
    pub(crate) fn stores(&self) -> MutexGuard<'_, HashMap<String, Arc<dyn ObjectStore>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(any(feature = "azure", feature = "gcs", feature = "http", feature = "s3"))]
    pub(crate) fn clients(&self) -> MutexGuard<'_, HashMap<bool, reqwest::Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn origins(&self) -> MutexGuard<'_, HashSet<String>> {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What should not be: the runtime ended while someone waits for it.
pub(crate) fn lost() -> Problem {
    Problem::Failed("the request was given up".into())
}

impl Drop for Engine {
    fn drop(&mut self) {
        // To wait for its threads is forbidden where another runtime is entered.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
