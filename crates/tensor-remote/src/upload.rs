//! Objects that are written part by part and appear whole or not at all.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Error, MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutOptions, PutPayload,
};
use tokio::task::JoinHandle;

use crate::engine::{Engine, lost};
use crate::fetch::head;
use crate::trace::Trace;
use crate::{Problem, RemoteAddress, RemoteError, Scheme};

/// The usual length of a part.
const PART: u64 = 8 << 20;
/// What stores allow of parts, with some to spare.
const PARTS: u64 = 9_000;

/// An object that is being written: takes bytes, and is there once it is [finished](Self::finish). One that is
/// dropped before leaves nothing.
///
/// ```
/// use std::io::Write;
/// use tensor_remote::{Remote, RemoteAddress, RemoteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let at = format!("file://{}/a.bin", folder.path().display());
/// let remote = Remote::new(RemoteOptions::default())?;
/// let address: RemoteAddress = at.parse()?; // as s3://models/a.bin
/// let mut upload = remote.create(&address, false, Some(7))?;
/// upload.write_all(b"weights")?;
/// assert_eq!((upload.written(), remote.size(&address)?), (7, None));
/// upload.finish()?;
/// assert_eq!(remote.size(&address)?, Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RemoteUpload {
    engine: Arc<Engine>,
    address: RemoteAddress,
    store: Arc<dyn ObjectStore>,
    path: Path,
    replace: bool,
    /// What is not yet a part.
    buffer: Vec<u8>,
    part: usize,
    written: u64,
    /// `None` until the first part is full, and when it is over.
    upload: Option<Box<dyn MultipartUpload>>,
    sender: Sender<Result<(), Problem>>,
    receiver: Receiver<Result<(), Problem>>,
    /// Parts on their way.
    sent: usize,
    tasks: Vec<JoinHandle<()>>,
    /// Whether it has appeared.
    is_there: bool,
}

impl RemoteUpload {
    pub(crate) fn new(
        engine: Arc<Engine>,
        address: RemoteAddress,
        replace: bool,
        len: Option<u64>,
    ) -> Result<Self, RemoteError> {
        let upload = Self::unchecked(engine, address, replace, len)?;
        upload.check_absent()?;
        Ok(upload)
    }

    /// One of which it is known already whether there is another.
    pub(crate) fn unchecked(
        engine: Arc<Engine>,
        address: RemoteAddress,
        replace: bool,
        len: Option<u64>,
    ) -> Result<Self, RemoteError> {
        may_write(&address)?;
        let at = (engine.clone(), address.clone());
        let opened = engine.wait(async move { crate::store::of(&at.0, &at.1) });
        let (store, path) = opened.map_err(|problem| RemoteError::new(&address, problem))??;
        let part = len
            .unwrap_or(0)
            .div_ceil(PARTS)
            .max(PART)
            .next_multiple_of(1 << 20);
        let (sender, receiver) = channel();
        Ok(Self {
            engine,
            address,
            store,
            path,
            replace,
            buffer: Vec::new(),
            part: usize::try_from(part).unwrap_or(usize::MAX),
            written: 0,
            upload: None,
            sender,
            receiver,
            sent: 0,
            tasks: Vec::new(),
            is_there: false,
        })
    }

    /// How many bytes were written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Makes the object appear.
    ///
    /// # Errors
    /// What the store fails with; there is no object then, or the one that was there before. Where the last
    /// request has no answer, it is asked whether the object is there.
    pub fn finish(mut self) -> Result<(), RemoteError> {
        self.complete()
    }

    pub(crate) fn address(&self) -> &RemoteAddress {
        &self.address
    }

    /// Whether it has appeared, whatever was found wrong with it afterwards.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Sends all that was written, so that nothing but the end is left and no memory is held. Nothing may be
    /// written afterwards.
    pub(crate) fn seal(&mut self) -> Result<(), RemoteError> {
        if !self.buffer.is_empty() {
            self.send()?;
        }
        while self.sent > 0 {
            self.take_one()?;
        }
        self.buffer = Vec::new();
        Ok(())
    }

    /// Makes the object appear; it must not be called twice.
    pub(crate) fn complete(&mut self) -> Result<(), RemoteError> {
        if self.upload.is_none() {
            return self.put_whole();
        }
        let before = match self.seal().and_then(|()| self.before()) {
            Ok(before) => before,
            Err(error) => {
                self.abort();
                return Err(error);
            }
        };
        let Some(mut upload) = self.upload.take() else {
            return Ok(());
        };
        let trace = Trace::default();
        let completed = self.run(trace.clone(), async move {
            let done = upload.complete().await;
            (done, upload)
        });
        let (done, upload) = completed?;
        if done.is_err() {
            self.upload = Some(upload);
        }
        let ended = self.end(done.map(drop), &trace, before.as_ref());
        if !self.is_there {
            self.abort();
        }
        self.upload = None;
        ended
    }

    /// What has less than a part's bytes is one request.
    fn put_whole(&mut self) -> Result<(), RemoteError> {
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        let before = self.before()?;
        let (store, path, replace) = (self.store.clone(), self.path.clone(), self.replace);
        let trace = Trace::default();
        let put = self.run(trace.clone(), async move {
            let put = |mode, bytes: Bytes| {
                store.put_opts(&path, PutPayload::from(bytes), PutOptions::from(mode))
            };
            let done = match replace {
                true => put(PutMode::Overwrite, bytes).await,
                false => match put(PutMode::Create, bytes.clone()).await {
                    // Not every store can promise that; a moment ago there was none.
                    Err(Error::NotImplemented { .. }) => put(PutMode::Overwrite, bytes).await,
                    done => done,
                },
            };
            (done, ())
        });
        self.end(put?.0.map(drop), &trace, before.as_ref())
    }

    /// What is there before the object appears; it may have come there in the hours that this has taken.
    fn before(&self) -> Result<Option<ObjectMeta>, RemoteError> {
        match self.meta()? {
            Some(_) if !self.replace => Err(self.fail(Problem::Exists)),
            before => Ok(before),
        }
    }

    /// Whether the object has appeared, after the request that makes it. One that was not answered may have been
    /// carried out, and its repetition refused; what is there then, and was not before, is this object.
    fn end(
        &mut self,
        done: Result<(), Problem>,
        trace: &Trace,
        before: Option<&ObjectMeta>,
    ) -> Result<(), RemoteError> {
        if let Err(problem) = done {
            let is_new = |there: &ObjectMeta| there.size == self.written && before != Some(there);
            let is_made =
                trace.is_in_doubt() && matches!(self.meta(), Ok(Some(there)) if is_new(&there));
            if !is_made {
                return Err(self.fail(problem));
            }
        }
        self.is_there = true;
        self.check_written()
    }

    /// Sends the buffer as a part.
    fn send(&mut self) -> Result<(), RemoteError> {
        let most = (self.engine.options.bytes_in_flight / 2 / self.part)
            .clamp(1, self.engine.options.concurrent_requests);
        while self.sent >= most {
            self.take_one()?;
        }
        self.engine
            .counts
            .time()
            .map_err(|problem| self.fail(problem))?;
        let mut upload = match self.upload.take() {
            Some(upload) => upload,
            None => self.begin()?,
        };
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        let part = upload.put_part(PutPayload::from(bytes));
        self.upload = Some(upload);
        let (sender, trace) = (self.sender.clone(), Trace::default());
        let started = self.engine.start(async move {
            let done = trace.clone().of(part).await;
            let _ = sender.send(done.map_err(|error| trace.problem_of_write(&error)));
        });
        let task = started.map_err(|problem| self.fail(problem))?;
        self.tasks.retain(|task| !task.is_finished());
        self.tasks.push(task);
        self.sent += 1;
        Ok(())
    }

    /// Waits for one of the parts on their way.
    fn take_one(&mut self) -> Result<(), RemoteError> {
        let part = self.receiver.recv().map_err(|_| self.fail(lost()))?;
        self.sent -= 1;
        part.map_err(|problem| self.fail(problem))
    }

    fn begin(&mut self) -> Result<Box<dyn MultipartUpload>, RemoteError> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let begun = self.run(Trace::default(), async move {
            let options = object_store::PutMultipartOptions::default();
            (store.put_multipart_opts(&path, options).await, ())
        });
        begun?.0.map_err(|problem| self.fail(problem))
    }

    /// Gives up what was sent, and what is on its way.
    fn abort(&mut self) {
        let Some(mut upload) = self.upload.take() else {
            return;
        };
        let tasks = std::mem::take(&mut self.tasks);
        // What can't be reached can't be told either; stores clear away such parts after some days.
        let _ = self.engine.wait(Trace::clearing().of(async move {
            let mut were_running = false;
            for task in tasks {
                were_running |= !task.is_finished();
                task.abort();
                let _ = task.await;
            }
            let aborted = upload.abort().await;
            // A part that arrived meanwhile would stay.
            if were_running && aborted.is_ok() {
                let _ = upload.abort().await;
            }
        }));
    }

    fn check_absent(&self) -> Result<(), RemoteError> {
        if self.replace || self.meta()?.is_none() {
            return Ok(());
        }
        Err(self.fail(Problem::Exists))
    }

    /// Whether what is there now has the length of what was written.
    fn check_written(&self) -> Result<(), RemoteError> {
        match self.meta()?.map(|meta| meta.size) {
            Some(size) if size == self.written => Ok(()),
            there => {
                let there = there.map_or("nothing".to_owned(), |size| format!("{size} bytes"));
                let text = format!("{} bytes were written, and {there} is there", self.written);
                Err(self.fail(Problem::Failed(text)))
            }
        }
    }

    fn meta(&self) -> Result<Option<ObjectMeta>, RemoteError> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let asked = self
            .engine
            .wait(async move { head(&*store, &path, &Trace::default()).await });
        match asked.map_err(|problem| self.fail(problem))? {
            Ok(meta) => Ok(Some(meta)),
            Err(Problem::NotFound) => Ok(None),
            Err(problem) => Err(self.fail(problem)),
        }
    }

    /// Waits for work of the store, and for what it has beside its result.
    fn run<T: Send + 'static, B: Send + 'static>(
        &self,
        trace: Trace,
        work: impl Future<Output = (Result<T, Error>, B)> + Send + 'static,
    ) -> Result<(Result<T, Problem>, B), RemoteError> {
        let done = self.engine.wait(trace.clone().of(work));
        let (done, beside) = done.map_err(|problem| self.fail(problem))?;
        let done = done.map_err(|error| trace.problem_of_write(&error));
        Ok((done, beside))
    }

    fn fail(&self, problem: Problem) -> RemoteError {
        RemoteError::new(&self.address, problem)
    }
}

/// Fails where nothing is written to.
pub(crate) fn may_write(address: &RemoteAddress) -> Result<(), RemoteError> {
    match address.scheme() {
        Scheme::Http => {
            let why = "nothing is written to web servers: name a bucket, as s3://, gs:// or az://";
            Err(RemoteError::new(address, Problem::Unsupported(why.into())))
        }
        _ => Ok(()),
    }
}

impl io::Write for RemoteUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.capacity() == 0 {
            self.buffer
                .try_reserve_exact(self.part)
                .map_err(io::Error::other)?;
        }
        let room = self.part.saturating_sub(self.buffer.len());
        let now = bytes.get(..room).unwrap_or(bytes);
        self.buffer.extend_from_slice(now);
        self.written += now.len() as u64;
        if self.buffer.len() >= self.part {
            self.send()?;
        }
        Ok(now.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for RemoteUpload {
    fn drop(&mut self) {
        self.abort();
    }
}

impl fmt::Debug for RemoteUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteUpload")
            .field("address", &self.address)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}
