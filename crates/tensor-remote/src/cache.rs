//! What was read ahead, over all objects: few pieces, the one used last at the end.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::RemoteError;

/// A piece of an object that is there or on its way.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<u64>,
    state: Mutex<Option<Result<Bytes, RemoteError>>>,
    ready: Condvar,
}

impl Piece {
    pub(crate) fn new(range: Range<u64>) -> Arc<Self> {
        Arc::new(Self {
            range,
            state: Mutex::new(None),
            ready: Condvar::new(),
        })
    }

    /// Gives the piece its bytes, or says why there are none.
    pub(crate) fn set(&self, bytes: Result<Bytes, RemoteError>) {
        *lock(&self.state) = Some(bytes);
        self.ready.notify_all();
    }

    /// The bytes, once they are there.
    pub(crate) fn wait(&self) -> Result<Bytes, RemoteError> {
        let mut state = lock(&self.state);
        loop {
            if let Some(bytes) = &*state {
                return bytes.clone();
            }
            state = self
                .ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_ready(&self) -> bool {
        lock(&self.state).is_some()
    }

    fn len(&self) -> usize {
        usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX)
    }
}

/// Pieces of all objects, bounded in bytes.
#[derive(Debug)]
pub(crate) struct Cache {
    most: usize,
    pieces: Mutex<Pieces>,
}

#[derive(Debug, Default)]
struct Pieces {
    /// Each with the number of its object.
    list: Vec<(u64, Arc<Piece>)>,
    bytes: usize,
    objects: u64,
}

/// What the cache knows about a place.
pub(crate) enum Found {
    /// A piece that has it.
    Piece(Arc<Piece>),
    /// None, and the next piece of the object begins here, if there is one.
    Gap(Option<u64>),
}

impl Cache {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            pieces: Mutex::default(),
        }
    }

    /// The number of one more object.
    pub(crate) fn object(&self) -> u64 {
        let mut pieces = lock(&self.pieces);
        pieces.objects += 1;
        pieces.objects
    }

    pub(crate) fn find(&self, object: u64, offset: u64) -> Found {
        let mut pieces = lock(&self.pieces);
        let has = |(of, piece): &(u64, Arc<Piece>)| *of == object && piece.range.contains(&offset);
        // The one used last is the likeliest.
        if let Some(at) = pieces.list.iter().rposition(has) {
            let found = pieces.list.remove(at);
            let piece = found.1.clone();
            pieces.list.push(found);
            return Found::Piece(piece);
        }
        let of_object = pieces.list.iter().filter(|(of, _)| *of == object);
        let starts = of_object.map(|(_, piece)| piece.range.start);
        Found::Gap(starts.filter(|start| *start > offset).min())
    }

    /// Makes room for a piece and takes it, unless it would push out what is on its way, or `is_ahead` and
    /// it is not worth what it would push out. Whoever adds a piece fills it.
    pub(crate) fn add(&self, object: u64, range: Range<u64>) -> Option<Arc<Piece>> {
        let piece = Piece::new(range);
        let len = piece.len();
        let mut pieces = lock(&self.pieces);
        while pieces.bytes.saturating_add(len) > self.most {
            let at = pieces.list.iter().position(|(_, piece)| piece.is_ready())?;
            let (_, old) = pieces.list.remove(at);
            pieces.bytes -= old.len();
        }
        pieces.bytes += len;
        pieces.list.push((object, piece.clone()));
        Some(piece)
    }

    /// Takes a piece out, as one that failed.
    pub(crate) fn remove(&self, piece: &Arc<Piece>) {
        self.retain(|_, known| !Arc::ptr_eq(known, piece));
    }

    /// Takes all pieces of an object out.
    pub(crate) fn forget(&self, object: u64) {
        self.retain(|of, _| of != object);
    }

    fn retain(&self, keep: impl Fn(u64, &Arc<Piece>) -> bool) {
        let mut pieces = lock(&self.pieces);
        pieces.list.retain(|(of, piece)| keep(*of, piece));
        pieces.bytes = pieces.list.iter().map(|(_, piece)| piece.len()).sum();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_held_than_allowed_and_nothing_on_its_way_is_given_up() {
        let cache = Cache::new(100);
        let object = cache.object();
        let first = cache.add(object, 0..60).unwrap();
        assert!(cache.add(object, 60..120).is_none());
        first.set(Ok(Bytes::from_static(&[0; 60])));
        let second = cache.add(object, 60..120).unwrap();
        assert!(matches!(cache.find(object, 0), Found::Gap(Some(60))));
        assert!(matches!(cache.find(object, 119), Found::Piece(_)));
        assert!(matches!(cache.find(object, 120), Found::Gap(None)));
        assert!(matches!(cache.find(object + 1, 60), Found::Gap(None)));
        assert_eq!(first.wait().unwrap().len(), 60);
        cache.remove(&second);
        assert!(cache.add(object, 0..100).is_some());
    }

    #[test]
    fn what_was_used_last_stays_longest() {
        let cache = Cache::new(3);
        let object = cache.object();
        for at in 0..3 {
            cache
                .add(object, at..at + 1)
                .unwrap()
                .set(Ok(Bytes::from_static(b"x")));
        }
        cache.find(object, 0);
        cache.add(object, 9..10).unwrap();
        assert!(matches!(cache.find(object, 0), Found::Piece(_)));
        assert!(matches!(cache.find(object, 1), Found::Gap(_)));
    }
}
