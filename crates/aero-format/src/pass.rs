//! Hashing a shard while it is written, so that its data is read once.

use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::codec::{Output, Sink, Ticker, WINDOW};
use tensor_core::{AlignedBytes, Bytes, Source};

#[cfg(feature = "std")]
use crate::Error;
use crate::Result;
use crate::integrity::{PageHashes, ShardHashes};

/// Takes the bytes of a shard in order and finds its hashes.
pub(crate) struct ShardHasher {
    whole: blake3::Hasher,
    position: u64,
    pages: Option<Pages>,
    /// Where tensor hashes were asked for.
    tensors: Option<Tensors>,
}

/// The tensors of a shard, one after the other. A hasher takes two kilobytes, so that there is one of them.
struct Tensors {
    ranges: Vec<Range<u64>>,
    /// Of those that end before the position.
    digests: Vec<[u8; 32]>,
    /// Of the one after these.
    hasher: blake3::Hasher,
}

struct Pages {
    size: u64,
    filled: u64,
    hasher: blake3::Hasher,
    digests: Vec<[u8; 32]>,
}

impl ShardHasher {
    pub(crate) fn new(page_size: Option<u64>, tensors: Option<Vec<Range<u64>>>) -> Self {
        Self {
            whole: blake3::Hasher::new(),
            position: 0,
            pages: page_size.map(|size| Pages {
                size,
                filled: 0,
                hasher: blake3::Hasher::new(),
                digests: Vec::new(),
            }),
            tensors: tensors.map(|ranges| Tensors {
                digests: Vec::with_capacity(ranges.len()),
                ranges,
                hasher: blake3::Hasher::new(),
            }),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.whole.update(bytes);
        if let Some(pages) = &mut self.pages {
            pages.update(bytes);
        }
        if let Some(tensors) = &mut self.tensors {
            tensors.update(self.position, bytes);
        }
        self.position += bytes.len() as u64;
    }

    pub(crate) fn finish(self) -> ShardHashes {
        ShardHashes {
            whole: self.whole.finalize().into(),
            pages: self.pages.map(Pages::finish),
            tensors: self.tensors.map(Tensors::finish),
        }
    }
}

impl Tensors {
    /// Takes the bytes from `start` on, up to which all were taken.
    fn update(&mut self, start: u64, bytes: &[u8]) {
        let end = start + bytes.len() as u64;
        while let Some(range) = self.ranges.get(self.digests.len()) {
            if range.start >= end {
                break;
            }
            let within = |at: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX);
            let piece = within(range.start)..within(range.end.min(end));
            self.hasher.update(bytes.get(piece).unwrap_or_default());
            if range.end > end {
                break;
            }
            self.next();
        }
    }

    fn next(&mut self) {
        self.digests.push(self.hasher.finalize().into());
        self.hasher.reset();
    }

    fn finish(mut self) -> Vec<[u8; 32]> {
        while self.digests.len() < self.ranges.len() {
            self.next();
        }
        self.digests
    }
}

impl Pages {
    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(self.size - self.filled).unwrap_or(usize::MAX);
            let (page, rest) = bytes.split_at(room.min(bytes.len()));
            self.hasher.update(page);
            self.filled += page.len() as u64;
            if self.filled == self.size {
                self.next();
            }
            bytes = rest;
        }
    }

    fn next(&mut self) {
        self.digests.push(self.hasher.finalize().into());
        self.hasher.reset();
        self.filled = 0;
    }

    fn finish(mut self) -> PageHashes {
        if self.filled > 0 {
            self.next();
        }
        PageHashes {
            page_size: self.size,
            digests: self.digests,
        }
    }
}

/// A piece of a shard on its way to the hasher.
enum Piece {
    Shared(Bytes),
    /// A window that was read, to be read into again.
    Window(AlignedBytes, usize),
    Zeros(u64),
}

/// Puts the parts of a shard, with zeros between them, and hashes them on the way: on a second
/// thread where `threads` allows one.
#[cfg(feature = "std")]
pub(crate) fn put_and_hash<O: Output>(
    parts: &[(u64, alloc::sync::Arc<dyn Source>)],
    sink: &mut Sink<O>,
    hasher: ShardHasher,
    threads: usize,
    ticker: &Ticker<'_>,
) -> Result<ShardHashes> {
    // A thread that can't be started takes what it was given with it, so the hasher waits here.
    let hasher = std::sync::Mutex::new(Some(hasher));
    let take = || {
        let mut slot = hasher.lock();
        slot.as_mut().ok().and_then(|slot| slot.take())
    };
    if tensor_core::parallel::threads(threads) >= 2 {
        let hashes = put_beside_hashing(parts, sink, &take, ticker)?;
        if let Some(hashes) = hashes {
            return Ok(hashes);
        }
    }
    let mut hasher = take().ok_or_else(hasher_lost)?;
    let mut spare = Vec::new();
    pieces(parts, sink, ticker, &mut spare, |piece, spare| {
        hash(&mut hasher, piece, spare);
        Ok(())
    })?;
    Ok(hasher.finish())
}

/// The same without threads.
#[cfg(not(feature = "std"))]
pub(crate) fn put_and_hash<O: Output>(
    parts: &[(u64, alloc::sync::Arc<dyn Source>)],
    sink: &mut Sink<O>,
    mut hasher: ShardHasher,
    _threads: usize,
    ticker: &Ticker<'_>,
) -> Result<ShardHashes> {
    let mut spare = Vec::new();
    pieces(parts, sink, ticker, &mut spare, |piece, spare| {
        hash(&mut hasher, piece, spare);
        Ok(())
    })?;
    Ok(hasher.finish())
}

/// Puts the parts on this thread and hashes them on a second one; `None`, with nothing put, where no second one is to be had.
#[cfg(feature = "std")]
fn put_beside_hashing<O: Output>(
    parts: &[(u64, alloc::sync::Arc<dyn Source>)],
    sink: &mut Sink<O>,
    hasher: &(impl Fn() -> Option<ShardHasher> + Sync),
    ticker: &Ticker<'_>,
) -> Result<Option<ShardHashes>> {
    // Two windows wait at most, and a third is being hashed: few enough for the cache.
    let (send, receive) = std::sync::mpsc::sync_channel::<Piece>(2);
    let (give_back, given_back) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let work = move || {
            let mut hasher = hasher()?;
            let mut spare = Vec::new();
            for piece in receive {
                hash(&mut hasher, piece, &mut spare);
                for buffer in spare.drain(..) {
                    // The writer may be done already.
                    let _ = give_back.send(buffer);
                }
            }
            Some(hasher.finish())
        };
        let Ok(thread) = std::thread::Builder::new().spawn_scoped(scope, work) else {
            return Ok(None);
        };
        let mut spare = Vec::new();
        let written = pieces(parts, sink, ticker, &mut spare, |piece, spare| {
            spare.extend(given_back.try_iter());
            // Fails only if the hasher has ended, which then returns its own error.
            let _ = send.send(piece);
            Ok(())
        });
        drop(send);
        let hashes = thread.join();
        written?;
        let hashes = hashes.ok().flatten().ok_or_else(hasher_lost)?;
        Ok(Some(hashes))
    })
}

#[cfg(feature = "std")]
fn hasher_lost() -> Error {
    tensor_core::SourceError::Other("the hashing thread ended early".into()).into()
}

fn hash(hasher: &mut ShardHasher, piece: Piece, spare: &mut Vec<AlignedBytes>) {
    match piece {
        Piece::Shared(bytes) => hasher.update(&bytes),
        Piece::Window(buffer, len) => {
            hasher.update(buffer.as_slice().get(..len).unwrap_or_default());
            spare.push(buffer);
        }
        Piece::Zeros(mut count) => {
            let zeros = [0; 4096];
            while count > 0 {
                let len = usize::try_from(count).unwrap_or(4096).min(4096);
                hasher.update(zeros.get(..len).unwrap_or_default());
                count -= len as u64;
            }
        }
    }
}

/// Bytes of a tensor, with the zeros before it, that are gathered with those of others: a piece of its own would
/// cost more than what is done with it.
const SMALL: u64 = 64 << 10;

/// Small tensors of which no piece was made yet.
#[derive(Default)]
struct Gathered {
    buffer: Option<AlignedBytes>,
    len: usize,
}

impl Gathered {
    /// Adds so many zeros and all of `data`, for which there is room.
    fn read(&mut self, gap: u64, data: &dyn Source, spare: &mut Vec<AlignedBytes>) -> Result<()> {
        let mut buffer = match self.buffer.take().or_else(|| spare.pop()) {
            Some(buffer) => buffer,
            None => AlignedBytes::zeroed(WINDOW)?,
        };
        let after =
            |start: usize, len: u64| start.saturating_add(usize::try_from(len).unwrap_or(WINDOW));
        let begin = after(self.len, gap);
        let end = after(begin, data.size());
        let slots = buffer.as_mut_slice();
        slots.get_mut(self.len..begin).unwrap_or_default().fill(0);
        let read = data.read_into(0, slots.get_mut(begin..end).unwrap_or_default());
        self.len = if read.is_ok() { end } else { begin };
        self.buffer = Some(buffer);
        Ok(read?)
    }

    /// Puts what there is, and hands it on as a piece.
    fn put<O: Output>(
        &mut self,
        sink: &mut Sink<O>,
        spare: &mut Vec<AlignedBytes>,
        hand_on: &mut impl FnMut(Piece, &mut Vec<AlignedBytes>) -> Result<()>,
    ) -> Result<()> {
        let len = core::mem::take(&mut self.len);
        match self.buffer.take() {
            Some(buffer) if len > 0 => {
                sink.put(buffer.as_slice().get(..len).unwrap_or_default())?;
                hand_on(Piece::Window(buffer, len), spare)
            }
            _ => Ok(()),
        }
    }
}

/// Puts everything piece by piece, and hands each piece on.
fn pieces<O: Output>(
    parts: &[(u64, alloc::sync::Arc<dyn Source>)],
    sink: &mut Sink<O>,
    ticker: &Ticker<'_>,
    spare: &mut Vec<AlignedBytes>,
    mut hand_on: impl FnMut(Piece, &mut Vec<AlignedBytes>) -> Result<()>,
) -> Result<()> {
    let start = sink.position();
    let mut gathered = Gathered::default();
    for (offset, data) in parts {
        let size = data.size();
        let position = sink.position().saturating_add(gathered.len as u64);
        let gap = start.saturating_add(*offset).saturating_sub(position);
        let all = gap.saturating_add(size);
        let room = (WINDOW - gathered.len) as u64;
        if all > SMALL.min(room) {
            gathered.put(sink, spare, &mut hand_on)?;
        }
        if all <= SMALL {
            if let Err(error) = gathered.read(gap, data, spare) {
                // What is before it is put, so that the position tells which one it is.
                gathered.put(sink, spare, &mut hand_on)?;
                return Err(error);
            }
            ticker.tick(size)?;
            continue;
        }
        if gap > 0 {
            sink.fill(gap, 0)?;
            hand_on(Piece::Zeros(gap), spare)?;
        }
        windows(data, sink, ticker, spare, &mut hand_on)?;
    }
    gathered.put(sink, spare, &mut hand_on)
}

/// Puts a tensor window by window.
fn windows<O: Output>(
    data: &alloc::sync::Arc<dyn Source>,
    sink: &mut Sink<O>,
    ticker: &Ticker<'_>,
    spare: &mut Vec<AlignedBytes>,
    hand_on: &mut impl FnMut(Piece, &mut Vec<AlignedBytes>) -> Result<()>,
) -> Result<()> {
    let size = data.size();
    let mut at = 0;
    while at < size {
        let len = (size - at).min(WINDOW as u64);
        let short = usize::try_from(len).unwrap_or(WINDOW);
        let whole = data.contiguous();
        let range = usize::try_from(at).ok().map(|at| at..at + short);
        let shared = whole
            .zip(range)
            .filter(|(bytes, range)| range.end <= bytes.len());
        let piece = match shared {
            Some((bytes, range)) => {
                let bytes = bytes.slice(range);
                sink.put(&bytes)?;
                Piece::Shared(bytes)
            }
            None => {
                let mut buffer = match spare.pop() {
                    Some(buffer) => buffer,
                    None => AlignedBytes::zeroed(WINDOW)?,
                };
                let window = buffer.as_mut_slice().get_mut(..short).unwrap_or_default();
                data.read_into(at, window)?;
                sink.put(window)?;
                Piece::Window(buffer, short)
            }
        };
        hand_on(piece, spare)?;
        ticker.tick(len)?;
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;

    use super::*;
    use crate::tree::blake3_of;

    #[test]
    fn hashes_of_one_pass_are_those_of_many() {
        let noise = |len: usize, seed: usize| -> Bytes {
            let bytes = (0..len).map(|i| (i * 31 + seed).to_le_bytes()[0]);
            bytes.collect::<Vec<u8>>().into()
        };
        /// Memory that does not say that it is.
        struct Plain(Bytes);
        impl Source for Plain {
            fn size(&self) -> u64 {
                self.0.size()
            }
            fn read_into(
                &self,
                offset: u64,
                out: &mut [u8],
            ) -> core::result::Result<(), tensor_core::SourceError> {
                self.0.read_into(offset, out)
            }
        }
        let data = [
            noise(5_000_000, 1),
            noise(0, 2),
            noise(17, 3),
            noise(3_000_001, 4),
        ];
        // And more small ones than a window has room for.
        let small = (0..3_000).map(|i| noise(i % 1_500, i));
        let data: Vec<Bytes> = data
            .into_iter()
            .chain(small)
            .chain([noise(2_000_000, 5)])
            .collect();
        let mut parts: Vec<(u64, Arc<dyn Source>)> = Vec::new();
        let mut ranges = Vec::new();
        let mut end = 0u64;
        for (i, bytes) in data.iter().enumerate() {
            let start = end.next_multiple_of(64);
            end = start + bytes.size();
            ranges.push(start..end);
            let source: Arc<dyn Source> = match i % 2 {
                0 => Arc::new(Plain(bytes.clone())),
                _ => Arc::new(bytes.clone()),
            };
            parts.push((start, source));
        }
        for threads in [1, 2, 0] {
            let hasher = ShardHasher::new(Some(1 << 20), Some(ranges.clone()));
            let mut sink = Sink::new(vec![]);
            let ticker = Ticker::default();
            let hashes = put_and_hash(&parts, &mut sink, hasher, threads, &ticker).unwrap();
            let shard = Bytes::from(sink.into_inner());
            assert_eq!(shard.size(), end);
            let of = |range| blake3_of(&shard, range, 1, &ticker).unwrap();
            assert_eq!(hashes.whole, of(0..end));
            let tensors: Vec<[u8; 32]> = ranges.iter().map(|range| of(range.clone())).collect();
            assert_eq!(hashes.tensors, Some(tensors));
            let pages = hashes.pages.unwrap();
            assert_eq!(pages.digests.len() as u64, end.div_ceil(1 << 20));
            for (page, digest) in (0u64..).zip(&pages.digests) {
                let range = page << 20..((page + 1) << 20).min(end);
                assert_eq!(*digest, of(range));
            }
        }
    }
}
