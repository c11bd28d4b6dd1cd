//! Objects that are written part by part and appear whole or not at all.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Error, MultipartUpload, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
};

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
    trace: Trace,
    sender: Sender<Result<(), Error>>,
    receiver: Receiver<Result<(), Error>>,
    /// Parts on their way.
    sent: usize,
}

impl RemoteUpload {
    pub(crate) fn new(
        engine: Arc<Engine>,
        address: RemoteAddress,
        replace: bool,
        len: Option<u64>,
    ) -> Result<Self, RemoteError> {
        if address.scheme() == Scheme::Http {
            let why = "nothing is written to web servers: name a bucket, as s3://, gs:// or az://";
            return Err(RemoteError::new(&address, Problem::Unsupported(why.into())));
        }
        let at = (engine.clone(), address.clone());
        let opened = engine.wait(async move { crate::store::of(&at.0, &at.1) });
        let (store, path) = opened.map_err(|problem| RemoteError::new(&address, problem))??;
        let part = len
            .unwrap_or(0)
            .div_ceil(PARTS)
            .max(PART)
            .next_multiple_of(1 << 20);
        let (sender, receiver) = channel();
        let upload = Self {
            engine,
            address,
            store,
            path,
            replace,
            buffer: Vec::new(),
            part: usize::try_from(part).unwrap_or(usize::MAX),
            written: 0,
            upload: None,
            trace: Trace::default(),
            sender,
            receiver,
            sent: 0,
        };
        upload.check_absent()?;
        Ok(upload)
    }

    /// How many bytes were written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Makes the object appear.
    ///
    /// # Errors
    /// What the store fails with; there is no object then, or the one that was there before. Whether a last
    /// request without an answer was carried out, nobody knows: the error says that there was none.
    pub fn finish(mut self) -> Result<(), RemoteError> {
        let Some(mut upload) = self.upload.take() else {
            return self.put_whole();
        };
        if let Err(error) = self.end(&mut upload) {
            self.abort(upload);
            return Err(error);
        }
        let completed = self.engine.wait(async move {
            let done = upload.complete().await;
            if done.is_err() {
                let _ = upload.abort().await;
            }
            done
        });
        let completed = completed.map_err(|problem| self.fail(problem))?;
        completed.map_err(|error| self.of_store(&error))?;
        self.check_written()
    }

    fn end(&mut self, upload: &mut Box<dyn MultipartUpload>) -> Result<(), RemoteError> {
        if !self.buffer.is_empty() {
            self.send(upload)?;
        }
        while self.sent > 0 {
            self.take_one()?;
        }
        // Once more, since it may have taken hours.
        self.check_absent()?;
        Ok(())
    }

    /// What has less than a part's bytes is one request.
    fn put_whole(&mut self) -> Result<(), RemoteError> {
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        let (store, path, trace, replace) = (
            self.store.clone(),
            self.path.clone(),
            self.trace.clone(),
            self.replace,
        );
        let put = self.engine.wait(async move {
            let put = |mode, bytes: Bytes| {
                let mut options = PutOptions::from(mode);
                options.extensions.insert(trace.clone());
                store.put_opts(&path, PutPayload::from(bytes), options)
            };
            match replace {
                true => put(PutMode::Overwrite, bytes).await,
                false => match put(PutMode::Create, bytes.clone()).await {
                    // Not every store can promise that; a moment ago there was none.
                    Err(Error::NotImplemented { .. }) => put(PutMode::Overwrite, bytes).await,
                    done => done,
                },
            }
        });
        let put = put.map_err(|problem| self.fail(problem))?;
        put.map_err(|error| self.of_store(&error))?;
        self.check_written()
    }

    /// Sends the buffer as a part.
    fn send(&mut self, upload: &mut Box<dyn MultipartUpload>) -> Result<(), RemoteError> {
        let most = (self.engine.options.bytes_in_flight / 2 / self.part)
            .clamp(1, self.engine.options.concurrent_requests);
        while self.sent >= most {
            self.take_one()?;
        }
        self.engine
            .counts
            .time()
            .map_err(|problem| self.fail(problem))?;
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        let part = upload.put_part(PutPayload::from(bytes));
        let sender = self.sender.clone();
        self.spawn(async move {
            let _ = sender.send(part.await);
        })?;
        self.sent += 1;
        Ok(())
    }

    /// Waits for one of the parts on their way.
    fn take_one(&mut self) -> Result<(), RemoteError> {
        let part = self.receiver.recv().map_err(|_| self.fail(lost()))?;
        self.sent -= 1;
        part.map_err(|error| self.of_store(&error))
    }

    fn begin(&mut self) -> Result<Box<dyn MultipartUpload>, RemoteError> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let mut options = PutMultipartOptions::default();
        options.extensions.insert(self.trace.clone());
        let begun = self
            .engine
            .wait(async move { store.put_multipart_opts(&path, options).await });
        let begun = begun.map_err(|problem| self.fail(problem))?;
        begun.map_err(|error| self.of_store(&error))
    }

    /// Gives up what was sent.
    fn abort(&self, mut upload: Box<dyn MultipartUpload>) {
        // What can't be reached can't be told either; stores clear away such parts after some days.
        let _ = self.engine.wait(async move { upload.abort().await });
    }

    fn check_absent(&self) -> Result<(), RemoteError> {
        if self.replace || self.size()?.is_none() {
            return Ok(());
        }
        Err(self.fail(Problem::Exists))
    }

    /// Whether what is there now has the length of what was written.
    fn check_written(&self) -> Result<(), RemoteError> {
        match self.size()? {
            Some(size) if size == self.written => Ok(()),
            there => {
                let there = there.map_or("nothing".to_owned(), |size| format!("{size} bytes"));
                let text = format!("{} bytes were written, and {there} is there", self.written);
                Err(self.fail(Problem::Failed(text)))
            }
        }
    }

    fn size(&self) -> Result<Option<u64>, RemoteError> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let asked = self
            .engine
            .wait(async move { head(&*store, &path, &Trace::default()).await });
        match asked.map_err(|problem| self.fail(problem))? {
            Ok(meta) => Ok(Some(meta.size)),
            Err(Problem::NotFound) => Ok(None),
            Err(problem) => Err(self.fail(problem)),
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<(), RemoteError> {
        self.engine
            .spawn(work)
            .map_err(|problem| self.fail(problem))
    }

    fn fail(&self, problem: Problem) -> RemoteError {
        RemoteError::new(&self.address, problem)
    }

    fn of_store(&self, error: &Error) -> RemoteError {
        self.fail(self.trace.problem(error))
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
            let mut upload = match self.upload.take() {
                Some(upload) => upload,
                None => self.begin()?,
            };
            let sent = self.send(&mut upload);
            self.upload = Some(upload);
            sent?;
        }
        Ok(now.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for RemoteUpload {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            self.abort(upload);
        }
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
