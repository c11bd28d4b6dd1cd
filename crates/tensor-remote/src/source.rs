//! An object as a source of bytes.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tensor_core::{Source, SourceError};
use tokio::sync::OwnedSemaphorePermit;

use crate::ahead::Streams;
use crate::cache::{Found, Piece};
use crate::engine::lost;
use crate::fetch::Object;
use crate::{RemoteAddress, RemoteError};

/// The least that is asked for.
pub(crate) const BLOCK: u64 = 64 << 10;
/// From so many bytes on a read is answered on its own, and nothing of it is kept.
const LARGE: u64 = 256 << 10;
/// Reads begin at multiples of this where they are kept.
const ALIGN: u64 = 4 << 10;

/// An object in a store or on a web server, read in ranges from any thread: made by
/// [`Remote::open`](crate::Remote::open).
///
/// Small reads bring what is around them and are answered from that; a large one is several requests at
/// once; reads that follow each other are asked for ahead. All of it is of one version of the object: a
/// change is an error from then on.
///
/// ```
/// use tensor_core::Source;
/// use tensor_remote::{Remote, RemoteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let at = format!("file://{}/a.bin", folder.path().display());
/// # std::fs::write(folder.path().join("a.bin"), "weights")?;
/// let remote = Remote::new(RemoteOptions::default())?;
/// let source = remote.open(&at.parse()?)?; // as s3://models/a.bin
/// assert_eq!(&source.read(0..3)?[..], b"wei");
/// assert!(source.is_marked() && source.address().file_name() == "a.bin");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RemoteSource {
    inner: Arc<Inner>,
}

struct Inner {
    object: Arc<Object>,
    streams: Mutex<Streams>,
}

impl RemoteSource {
    pub(crate) fn new(object: Object, head: Bytes) -> Self {
        let (object, len) = (Arc::new(object), head.len() as u64);
        if len > 0 {
            if let Some(piece) = object.engine.cache.add(object.number, 0..len) {
                piece.set(Ok(head));
            }
        }
        Self {
            inner: Arc::new(Inner {
                object,
                streams: Mutex::default(),
            }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &RemoteAddress {
        &self.inner.object.address
    }

    /// Whether the server says by what another version of the object could be told: an ETag, a version, a
    /// time of change. Without one only a change of its size is noticed.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.inner.object.is_marked()
    }
}

impl Source for RemoteSource {
    fn size(&self) -> u64 {
        self.inner.object.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        Ok(self.inner.read(offset, out)?)
    }

    fn window(&self) -> usize {
        self.inner.object.engine.part()
    }

    fn is_random_access(&self) -> bool {
        true
    }
}

impl Inner {
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), RemoteError> {
        self.object.check()?;
        let end = offset + out.len() as u64;
        let (run, ahead) = {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.note(offset..end)
        };
        let (mut at, mut rest, mut is_first) = (offset, out, true);
        while at < end {
            let want = end - at;
            let (len, waiting) = match self.object.engine.cache.find(self.object.number, at) {
                Found::Piece(piece) => (want.min(piece.range.end - at), Waiting::Piece(piece)),
                Found::Gap(next) => {
                    let len = next.map_or(want, |next| want.min(next - at));
                    self.gap(at..at + len, next, run)
                }
            };
            if is_first {
                // Behind what is waited for.
                self.read_ahead(end, ahead, run);
                is_first = false;
            }
            let taken = std::mem::take(&mut rest);
            let (now, later) =
                taken.split_at_mut(usize::try_from(len).unwrap_or(taken.len()).min(taken.len()));
            match waiting {
                Waiting::Piece(piece) => self.copy(&piece, at, now)?,
                Waiting::Parts(parts) => self.collect(&parts, at, now)?,
            }
            at += len;
            rest = later;
        }
        self.object.check()
    }

    /// Asks for bytes that are not there: large ones as they are, small ones with what is around them.
    fn gap(&self, range: Range<u64>, next: Option<u64>, run: u64) -> (u64, Waiting) {
        let len = range.end - range.start;
        if len < LARGE {
            let block = run
                .next_power_of_two()
                .clamp(BLOCK, self.object.engine.part() as u64);
            let around = around(range.clone(), block, self.object.size(), next);
            let start = range.start;
            if let Some(piece) = self.start_piece(around) {
                return (len.min(piece.range.end - start), Waiting::Piece(piece));
            }
        }
        (len, Waiting::Parts(self.start_parts(range)))
    }

    /// Starts the request for a piece that is kept, if there is room for it.
    fn start_piece(&self, range: Range<u64>) -> Option<Arc<Piece>> {
        let object = self.object.clone();
        let piece = object.engine.cache.add(object.number, range.clone())?;
        let filling = Filling {
            piece: Some(piece.clone()),
            object: object.clone(),
        };
        let started = object.engine.clone().spawn(async move {
            let len = usize::try_from(range.end - range.start).unwrap_or_default();
            let mut bytes = Vec::with_capacity(len);
            let fetched = object.fetch(range, |more| {
                bytes.extend_from_slice(&more);
                true
            });
            let fetched = fetched.await;
            filling.end(fetched.map(|()| bytes.into()));
        });
        // Else the task, and with it `filling`, is gone already.
        if let Err(problem) = started {
            piece.set(Err(RemoteError::new(&self.object.address, problem)));
        }
        Some(piece)
    }

    /// Starts the requests for bytes that are given out as they come.
    fn start_parts(&self, range: Range<u64>) -> Parts {
        let (sender, receiver) = channel();
        let parts = Parts {
            receiver,
            stop: Arc::new(AtomicBool::new(false)),
        };
        let step = self.object.engine.part() as u64;
        let mut start = range.start;
        while start < range.end {
            let part = start..range.end.min(start + step);
            start = part.end;
            let (object, sender, stop) = (self.object.clone(), sender.clone(), parts.stop.clone());
            let task = fetch_part(object.clone(), part, sender.clone(), stop);
            if let Err(problem) = object.engine.spawn(task) {
                let _ = sender.send(Part::End(
                    Err(RemoteError::new(&object.address, problem)),
                    None,
                ));
                break;
            }
        }
        parts
    }

    /// Asks for what a walk comes to next.
    fn read_ahead(&self, from: u64, ahead: u64, run: u64) {
        let target = from.saturating_add(ahead).min(self.object.size());
        let step = (run / 2)
            .next_power_of_two()
            .clamp(BLOCK, self.object.engine.part() as u64);
        let mut at = from;
        while at < target {
            match self.object.engine.cache.find(self.object.number, at) {
                Found::Piece(piece) => at = piece.range.end,
                Found::Gap(next) => {
                    let mut end = self.object.size().min(at + step);
                    end = next.map_or(end, |next| end.min(next));
                    if self.start_piece(at..end).is_none() {
                        return;
                    }
                    at = end;
                }
            }
        }
    }

    fn copy(&self, piece: &Arc<Piece>, at: u64, out: &mut [u8]) -> Result<(), RemoteError> {
        let bytes = match piece.wait() {
            Ok(bytes) => bytes,
            Err(error) => {
                self.object.engine.cache.remove(piece);
                self.object.check()?;
                return Err(error);
            }
        };
        let from = usize::try_from(at - piece.range.start).unwrap_or(usize::MAX);
        let bytes = bytes.get(from..).and_then(|bytes| bytes.get(..out.len()));
        let bytes = bytes.ok_or_else(|| self.object.error(lost(), at..at + out.len() as u64))?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn collect(&self, parts: &Parts, start: u64, out: &mut [u8]) -> Result<(), RemoteError> {
        let mut left = out.len();
        while left > 0 {
            // All senders are gone only with the runtime.
            let part = parts.receiver.recv();
            let range = start..start + out.len() as u64;
            let part = part.map_err(|_| self.object.error(lost(), range.clone()))?;
            match part {
                Part::Bytes(at, bytes) => {
                    let from = usize::try_from(at - start).unwrap_or(usize::MAX);
                    let place = out
                        .get_mut(from..)
                        .and_then(|out| out.get_mut(..bytes.len()));
                    let place = place.ok_or_else(|| self.object.error(lost(), range))?;
                    place.copy_from_slice(&bytes);
                    left -= bytes.len();
                }
                Part::End(result, permit) => {
                    drop(permit);
                    result?;
                }
            }
        }
        Ok(())
    }
}

/// A piece around a range: from a multiple of [`ALIGN`] on, back from the end where that is near, and as long
/// as `block` up to the next piece.
fn around(range: Range<u64>, block: u64, size: u64, next: Option<u64>) -> Range<u64> {
    let mut start = range.start - range.start % ALIGN;
    let mut end = range.end.max(start.saturating_add(block)).min(size);
    if end == size {
        start = start.min(size.saturating_sub(BLOCK));
    }
    if let Some(next) = next {
        end = end.min(next);
    }
    start..end
}

/// What a read waits for.
enum Waiting {
    Piece(Arc<Piece>),
    Parts(Parts),
}

/// Answers on their way; whoever drops it wants no more of them.
struct Parts {
    receiver: Receiver<Part>,
    stop: Arc<AtomicBool>,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

enum Part {
    Bytes(u64, Bytes),
    /// With the leave to hold what came before it.
    End(Result<(), RemoteError>, Option<OwnedSemaphorePermit>),
}

async fn fetch_part(
    object: Arc<Object>,
    part: Range<u64>,
    sender: Sender<Part>,
    stop: Arc<AtomicBool>,
) {
    let len = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
    let permit = match object.engine.bytes(len).await {
        Ok(permit) => permit,
        Err(problem) => {
            let error = object.error(problem, part);
            let _ = sender.send(Part::End(Err(error), None));
            return;
        }
    };
    if stop.load(Ordering::Relaxed) {
        return;
    }
    let mut at = part.start;
    let fetched = object.fetch(part, |bytes| {
        let len = bytes.len() as u64;
        let is_wanted = sender.send(Part::Bytes(at, bytes)).is_ok();
        at += len;
        is_wanted
    });
    let fetched = fetched.await;
    let _ = sender.send(Part::End(fetched, Some(permit)));
}

/// Whoever ends without having filled the piece says so, since others wait for it.
struct Filling {
    piece: Option<Arc<Piece>>,
    object: Arc<Object>,
}

impl Filling {
    fn end(mut self, bytes: Result<Bytes, RemoteError>) {
        if let Some(piece) = self.piece.take() {
            piece.set(bytes);
        }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            let range = piece.range.clone();
            piece.set(Err(self.object.error(lost(), range)));
        }
    }
}

impl fmt::Debug for RemoteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSource")
            .field("address", self.address())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_reads_take_what_is_around_them() {
        let size = 10 << 20;
        assert_eq!(around(5000..5008, BLOCK, size, None), 4096..4096 + BLOCK);
        // The end in one piece, however little of it is asked for first.
        assert_eq!(
            around(size - 16..size, BLOCK, size, None),
            size - BLOCK..size
        );
        assert_eq!(around(100..200, BLOCK, 1000, None), 0..1000);
        assert_eq!(around(4096..4100, BLOCK, size, Some(8192)), 4096..8192);
        let long = around(4096..4096 + 200_000, BLOCK, size, None);
        assert_eq!(long, 4096..4096 + 200_000);
    }
}
