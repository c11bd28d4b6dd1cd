//! One range of an object: asked for, checked against what the object was when it was opened, and asked for
//! again where the answer broke off.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};

use crate::address::RemoteAddress;
use crate::engine::{Engine, lost};
use crate::trace::Trace;
use crate::{Problem, RemoteError};

/// What the first request asks for: the index of most files, or its beginning.
pub(crate) const FIRST: u64 = 64 << 10;
/// An answer that brings so much before it breaks off is worth asking again as if it were the first time.
const PROGRESS: u64 = 64 << 10;
/// An object as it was when it was opened.
pub(crate) struct Object {
    pub(crate) engine: Arc<Engine>,
    pub(crate) address: RemoteAddress,
    store: Arc<dyn ObjectStore>,
    path: Path,
    meta: ObjectMeta,
    has_modified: bool,
    /// Its number in the cache.
    pub(crate) number: u64,
    /// Set once it was seen to have changed: from then on nothing of it is given out.
    changed: OnceLock<RemoteError>,
}

impl Object {
    /// Asks for the first bytes, with which come the size and the marks of this version.
    pub(crate) async fn open(
        engine: Arc<Engine>,
        address: RemoteAddress,
    ) -> Result<(Self, Bytes), RemoteError> {
        let (store, path) = crate::store::of(&engine, &address)?;
        let fail = |problem| RemoteError::new(&address, problem);
        let permit = engine.requests.acquire().await.map_err(|_| fail(lost()))?;
        let (meta, bytes, has_modified) = first(&*store, &path).await.map_err(fail)?;
        drop(permit);
        let number = engine.cache.object();
        engine.note_reader(&address, true);
        let object = Self {
            engine,
            address,
            store,
            path,
            meta,
            has_modified,
            number,
            changed: OnceLock::new(),
        };
        let asked = object.size().min(FIRST);
        let got = bytes.len() as u64;
        if got == asked {
            return Ok((object, bytes));
        }
        if got > asked {
            return Err(object.error(Problem::TooLong { expected: asked }, 0..asked));
        }
        // The rest of an answer that broke off.
        let mut all = bytes.to_vec();
        object
            .fetch(got..asked, |more| {
                all.extend_from_slice(&more);
                true
            })
            .await?;
        Ok((object, all.into()))
    }

    pub(crate) fn size(&self) -> u64 {
        self.meta.size
    }

    /// Whether the server says anything by which another version could be told.
    pub(crate) fn is_marked(&self) -> bool {
        self.meta.e_tag.is_some() || self.meta.version.is_some() || self.has_modified
    }

    /// Fails once the object is known to be another one.
    pub(crate) fn check(&self) -> Result<(), RemoteError> {
        self.changed
            .get()
            .map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(crate) fn error(&self, problem: Problem, range: Range<u64>) -> RemoteError {
        let error = RemoteError::new(&self.address, problem).at(range);
        if matches!(error.problem(), Problem::Changed(_)) {
            // The first to see it says where.
            return self.changed.get_or_init(|| error).clone();
        }
        error
    }

    /// Calls `take` with the bytes of `range` in order, until it says no.
    pub(crate) async fn fetch(
        &self,
        range: Range<u64>,
        mut take: impl FnMut(Bytes) -> bool,
    ) -> Result<(), RemoteError> {
        let (mut at, mut tries) = (range.start, 0);
        while at < range.end {
            self.check()?;
            let start = at;
            let fail = |problem| self.error(problem, range.clone());
            let failed = match self.ask(&mut at, range.end, &mut take).await {
                Ok(Answer::Whole) => return Ok(()),
                Ok(Answer::Unwanted) => return Ok(()),
                Ok(Answer::BrokeOff(problem)) => problem,
                Err(problem) => return Err(fail(problem)),
            };
            if at - start >= PROGRESS {
                tries = 0;
            }
            if tries >= self.engine.options.retries {
                let got = at - range.start;
                return Err(fail(failed.unwrap_or(Problem::Truncated {
                    expected: range.end - range.start,
                    got,
                })));
            }
            tries += 1;
            self.engine.counts.time().map_err(fail)?;
            tokio::time::sleep(pause(tries)).await;
        }
        Ok(())
    }

    /// One request for what is left. What it brings counts in `at`.
    async fn ask(
        &self,
        at: &mut u64,
        end: u64,
        take: &mut impl FnMut(Bytes) -> bool,
    ) -> Result<Answer, Problem> {
        let _permit = self.engine.requests.acquire().await.map_err(|_| lost())?;
        self.engine.counts.time()?;
        let trace = Trace::default();
        let mut options = options(&trace);
        options.range = Some(GetRange::Bounded(*at..end));
        // A weak mark never matches by the rules of HTTP; it is compared below.
        let e_tag = self.meta.e_tag.clone();
        options.if_match = e_tag.filter(|mark| !mark.starts_with("W/"));
        let answer = self.store.get_opts(&self.path, options).await;
        let answer = answer.map_err(|error| trace.problem(&error))?;
        self.compare(&answer)?;
        if answer.range != (*at..end) {
            let range = answer.range;
            return Err(Problem::WrongRange(format!(
                "{:#x}..{:#x}",
                range.start, range.end
            )));
        }
        let first = *at;
        let mut stream = answer.into_stream();
        while let Some(piece) = stream.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => match trace.status() {
                    Some(412) => return Err(trace.problem(&error)),
                    _ => return broke_off(&trace),
                },
            };
            let len = piece.len() as u64;
            if len > end - *at {
                return Err(Problem::TooLong {
                    expected: end - first,
                });
            }
            *at += len;
            if !take(piece) {
                return Ok(Answer::Unwanted);
            }
        }
        Ok(match *at == end {
            true => Answer::Whole,
            false => Answer::BrokeOff(None),
        })
    }

    /// Whether an answer is about the object that was opened.
    fn compare(&self, answer: &GetResult) -> Result<(), Problem> {
        let (then, now) = (&self.meta, &answer.meta);
        let what = match () {
            () if then.size != now.size => {
                format!("it had {} bytes, and has {} now", then.size, now.size)
            }
            () if then.e_tag != now.e_tag => "its ETag is another".to_owned(),
            () if then.version != now.version => "its version is another".to_owned(),
            () if then.last_modified != now.last_modified => {
                "its time of change is another".to_owned()
            }
            () => return Ok(()),
        };
        Err(Problem::Changed(what))
    }
}

/// How a request ended that was not refused.
enum Answer {
    Whole,
    Unwanted,
    /// Before its end, with what went wrong where that is known.
    BrokeOff(Option<Problem>),
}

/// Whether a body that fails is worth another request.
fn broke_off(trace: &Trace) -> Result<Answer, Problem> {
    match trace.seen().problem.clone() {
        Some(problem @ (Problem::Failed(_) | Problem::Truncated { .. })) => {
            Ok(Answer::BrokeOff(Some(problem)))
        }
        Some(problem) => Err(problem),
        None => Ok(Answer::BrokeOff(None)),
    }
}

fn options(trace: &Trace) -> GetOptions {
    let mut options = GetOptions::default();
    options.extensions.insert(trace.clone());
    options
}

/// Size and marks of an object with its first bytes, as far as they came.
async fn first(store: &dyn ObjectStore, path: &Path) -> Result<(ObjectMeta, Bytes, bool), Problem> {
    let trace = Trace::default();
    let mut asked = options(&trace);
    asked.range = Some(GetRange::Bounded(0..FIRST));
    match store.get_opts(path, asked).await {
        Ok(answer) => {
            let meta = answer.meta.clone();
            let most = meta.size.min(FIRST);
            let mut bytes = Vec::new();
            let mut stream = answer.into_stream();
            // What is missing is asked for by itself.
            while let Some(Ok(piece)) = stream.next().await {
                bytes.extend_from_slice(&piece);
                if bytes.len() as u64 > most {
                    break;
                }
            }
            let has_modified = trace.seen().has_modified;
            Ok((meta, bytes.into(), has_modified))
        }
        // An object without bytes has no range, and servers say so in several ways.
        Err(error) if trace.is_of_range() => {
            let again = Trace::default();
            let meta = head(store, path, &again).await?;
            let has_modified = again.seen().has_modified;
            match meta.size {
                0 => Ok((meta, Bytes::new(), has_modified)),
                _ => Err(trace.problem(&error)),
            }
        }
        Err(error) => Err(trace.problem(&error)),
    }
}

/// Size and marks of an object.
pub(crate) async fn head(
    store: &dyn ObjectStore,
    path: &Path,
    trace: &Trace,
) -> Result<ObjectMeta, Problem> {
    let mut asked = options(trace);
    asked.head = true;
    let answer = store.get_opts(path, asked).await;
    Ok(answer.map_err(|error| trace.problem(&error))?.meta)
}

/// How long to wait before a request is repeated.
fn pause(tries: usize) -> Duration {
    let doublings = u32::try_from(tries.min(7)).unwrap_or(7);
    Duration::from_millis(25 << doublings)
}

impl Drop for Object {
    fn drop(&mut self) {
        self.engine.cache.forget(self.number);
        self.engine.note_reader(&self.address, false);
    }
}
