//! The payload of a metadata chunk: decompressed and held against its hash, at once or piece by piece.

use alloc::vec::Vec;

use tensor_core::codec::hinted_vec;
use tensor_core::{At, Bytes, LimitExceeded, Source, SourceError};

#[cfg(not(feature = "zstd"))]
use crate::Unsupported;
use crate::chunk::Chunk;
use crate::{Error, Limits, Result, Rule};

/// Uncompressed bytes up to which any ratio will do.
const RATIO_FROM: u64 = 16 << 20;

/// How many decompressed bytes are made at a time: few enough for the cache.
const PIECE: usize = 256 << 10;

/// The decompressed payload of a metadata chunk, checked against its hash.
pub(crate) fn payload(source: &dyn Source, chunk: &Chunk, limits: &Limits) -> Result<Bytes> {
    let mut pieces = Pieces::new(source, chunk, limits)?;
    if chunk.is_zstd() {
        let mut all = hinted_vec(pieces.reserved());
        while pieces.left() > 0 {
            pieces.more(&mut all, PIECE)?;
        }
        pieces.finish()?;
        return Ok(all.into());
    }
    let bytes = source.read(chunk.offset..chunk.offset.saturating_add(chunk.length))?;
    pieces.hash(&bytes);
    pieces.check_hash()?;
    Ok(bytes)
}

/// The decompressed payload of a metadata chunk from its start to its end.
pub(crate) struct Pieces<'a> {
    chunk: &'a Chunk,
    stored: Stored<'a>,
    /// None where the chunk says no hash.
    hasher: Option<blake3::Hasher>,
    left: u64,
    /// An error was returned that leaves nothing to go on with.
    broken: bool,
}

enum Stored<'a> {
    Raw(Reader<'a>),
    #[cfg(feature = "zstd")]
    Zstd(alloc::boxed::Box<Frame<'a>>),
}

#[cfg(feature = "zstd")]
type Frame<'a> = zstd::stream::read::Decoder<'static, Reader<'a>>;

impl<'a> Pieces<'a> {
    /// Checks what the chunk says of its length.
    pub(crate) fn new(source: &'a dyn Source, chunk: &'a Chunk, limits: &Limits) -> Result<Self> {
        let at = At::new(chunk.offset, "payload");
        let max = limits.max_metadata_bytes;
        LimitExceeded::check("max_metadata_bytes", chunk.ulen, max, at)?;
        let most = chunk.length.saturating_mul(limits.max_metadata_ratio);
        if chunk.is_zstd() && chunk.ulen > most.max(RATIO_FROM) {
            return Err(LimitExceeded {
                limit: "max_metadata_ratio",
                value: chunk.ulen.checked_div(chunk.length).unwrap_or(u64::MAX),
                max: limits.max_metadata_ratio,
                at,
            }
            .into());
        }
        source.check(chunk.offset, chunk.length)?;
        let reader = Reader {
            source,
            at: chunk.offset,
            end: chunk.offset.saturating_add(chunk.length),
            window: Bytes::new(),
            #[cfg(feature = "zstd")]
            failed: None,
        };
        let (stored, left) = match chunk.is_zstd() {
            true => (Self::frame(chunk, reader)?, chunk.ulen),
            false => (Stored::Raw(reader), chunk.length),
        };
        Ok(Self {
            chunk,
            stored,
            hasher: (!chunk.is_unhashed()).then(blake3::Hasher::new),
            left,
            broken: false,
        })
    }

    #[cfg(feature = "zstd")]
    fn frame(chunk: &Chunk, reader: Reader<'a>) -> Result<Stored<'a>> {
        // The window of a frame may take this much, as in zstd's own tool.
        const WINDOW_LOG: u32 = 27;

        let invalid = |_| invalid(chunk, Rule::Zstd { ulen: chunk.ulen });
        let decoder = Frame::with_buffer(reader).map_err(invalid)?;
        let mut decoder = decoder.single_frame();
        decoder.window_log_max(WINDOW_LOG).map_err(invalid)?;
        Ok(Stored::Zstd(alloc::boxed::Box::new(decoder)))
    }

    #[cfg(not(feature = "zstd"))]
    fn frame(_: &Chunk, _: Reader<'a>) -> Result<Stored<'a>> {
        let at = At::new(0, "chunk_flags");
        Err(Error::unsupported(Unsupported::Zstd, at))
    }

    /// How many bytes are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// So many bytes may be reserved for: in proportion to what is there, whatever is said of the length.
    pub(crate) fn reserved(&self) -> u64 {
        self.left.min(self.chunk.length.saturating_mul(4))
    }

    /// Adds up to so many bytes more to `out`, and at least one if any is left.
    pub(crate) fn more(&mut self, out: &mut Vec<u8>, most: usize) -> Result<()> {
        let most = usize::try_from(self.left).map_or(most, |left| left.min(most));
        let start = out.len();
        let read = self.read(out, most);
        self.broken = read.is_err();
        read?;
        let piece = out.get(start..).unwrap_or_default();
        self.left = self.left.saturating_sub(piece.len() as u64);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<u8>, most: usize) -> Result<()> {
        out.try_reserve(most)
            .map_err(|_| SourceError::OutOfMemory(most as u64))?;
        match &mut self.stored {
            Stored::Raw(reader) => {
                let window = reader.fill()?;
                let piece = window.get(..window.len().min(most)).unwrap_or_default();
                out.extend_from_slice(piece);
                let len = piece.len();
                reader.used(len);
                Ok(())
            }
            #[cfg(feature = "zstd")]
            Stored::Zstd(frame) => {
                use std::io::Read;

                let mut piece = frame.as_mut().take(most as u64);
                let read = piece.read_to_end(out);
                match read {
                    Ok(len) if len == most => Ok(()),
                    read => Err(frame_error(self.chunk, frame, read.err())),
                }
            }
        }
    }

    /// Goes over what is left: whether there is no less and no more than the chunk says, and as its hash says.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.broken {
            return Ok(());
        }
        let mut piece = Vec::new();
        while self.left > 0 {
            piece.clear();
            self.more(&mut piece, PIECE)?;
        }
        #[cfg(feature = "zstd")]
        if let Stored::Zstd(frame) = &mut self.stored {
            use std::io::{BufRead, Read};

            let ends = match frame.read(&mut [0]) {
                Ok(len) => Ok(len == 0 && frame.get_mut().fill_buf().is_ok_and(<[u8]>::is_empty)),
                Err(error) => Err(error),
            };
            if !matches!(ends, Ok(true)) {
                return Err(frame_error(self.chunk, frame, ends.err()));
            }
        }
        self.check_hash()
    }

    fn hash(&mut self, bytes: &[u8]) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
    }

    fn check_hash(&self) -> Result<()> {
        let found = self.hasher.as_ref().map(blake3::Hasher::finalize);
        match found {
            Some(found) if *found.as_bytes() != self.chunk.blake3 => Err(invalid(
                self.chunk,
                self.chunk.damaged(Some(found.as_bytes())),
            )),
            _ => Ok(()),
        }
    }
}

fn invalid(chunk: &Chunk, rule: Rule) -> Error {
    Error::invalid(rule, At::new(chunk.offset, "payload"))
}

/// Why no more comes of a frame: what its source failed with, no memory, or a fault of its own.
#[cfg(feature = "zstd")]
fn frame_error(chunk: &Chunk, frame: &mut Frame<'_>, error: Option<std::io::Error>) -> Error {
    if let Some(error) = frame.get_mut().failed.take() {
        return error.into();
    }
    match error {
        Some(error) if error.kind() == std::io::ErrorKind::OutOfMemory => {
            SourceError::OutOfMemory(chunk.ulen).into()
        }
        _ => invalid(chunk, Rule::Zstd { ulen: chunk.ulen }),
    }
}

/// The stored bytes, a window at a time.
struct Reader<'a> {
    source: &'a dyn Source,
    /// Where the next window begins.
    at: u64,
    end: u64,
    window: Bytes,
    /// What the source said when it failed, which an error of input and output can't hold.
    #[cfg(feature = "zstd")]
    failed: Option<SourceError>,
}

impl Reader<'_> {
    /// What is left of the window, or the next one; empty at the end.
    fn fill(&mut self) -> Result<&[u8], SourceError> {
        if self.window.is_empty() && self.at < self.end {
            let len = (self.source.window().max(1) as u64).min(self.end.saturating_sub(self.at));
            let next = self.at.saturating_add(len);
            // The one before is given back first.
            self.window = Bytes::new();
            self.window = self.source.read(self.at..next)?;
            self.at = next;
        }
        Ok(&self.window)
    }

    fn used(&mut self, len: usize) {
        let _ = self.window.split_to(len.min(self.window.len()));
    }
}

#[cfg(feature = "zstd")]
impl std::io::Read for Reader<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut window = std::io::BufRead::fill_buf(self)?;
        let len = window.read(out)?;
        self.used(len);
        Ok(len)
    }
}

#[cfg(feature = "zstd")]
impl std::io::BufRead for Reader<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        match self.fill() {
            Ok(_) => Ok(&self.window),
            Err(error) => {
                self.failed = Some(error);
                Err(std::io::ErrorKind::Other.into())
            }
        }
    }

    fn consume(&mut self, len: usize) {
        self.used(len);
    }
}

/// What is decoded next of a payload: the bytes that are here, and where the first of them is that was not.
pub(crate) struct Ahead<'a> {
    pieces: Pieces<'a>,
    bytes: Vec<u8>,
    used: usize,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(pieces: Pieces<'a>) -> Self {
        Self {
            pieces,
            bytes: Vec::new(),
            used: 0,
        }
    }

    /// The bytes that are not decoded and are here, and how many more will come.
    pub(crate) fn next(&self) -> (&[u8], u64) {
        let bytes = self.bytes.get(self.used..).unwrap_or_default();
        (bytes, self.pieces.left())
    }

    /// So many bytes are decoded.
    pub(crate) fn used(&mut self, len: usize) {
        self.used = self.used.saturating_add(len).min(self.bytes.len());
    }

    /// Gets more bytes: as many again as are here, so that what is long is not begun again too often.
    pub(crate) fn more(&mut self) -> Result<()> {
        self.bytes.drain(..self.used);
        self.used = 0;
        let most = self.bytes.len().max(PIECE);
        self.pieces.more(&mut self.bytes, most)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        let (bytes, left) = self.next();
        bytes.is_empty() && left == 0
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.pieces.reserved()
    }

    /// As [`Pieces::finish`].
    pub(crate) fn finish(self) -> Result<()> {
        self.pieces.finish()
    }
}
