//! What the data of a tensor is stored as, and the way from there to its elements.

/// Section 5.2: how elements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// As they are, in the byte order that the entry tells.
    Raw,
    /// As zstd frames of little-endian elements.
    Zstd,
    /// As zstd frames with a table of them, `zt.zstd-seekable/1` of zTensor 2.
    ZstdSeekable,
    /// In a way that version 0.1 does not have; see
    /// [`Entry::encoding_name`](crate::Entry::encoding_name).
    Other,
}

impl Encoding {
    pub(crate) fn from_name(name: &[u8]) -> Self {
        match name {
            b"raw" => Self::Raw,
            b"zstd" => Self::Zstd,
            _ => Self::Other,
        }
    }

    /// The field's text; `other` where version 0.1 has none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
            Self::ZstdSeekable => "zt.zstd-seekable/1",
            Self::Other => "other",
        }
    }
}

/// Section 6: the byte order of raw elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Endianness {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl Endianness {
    /// The field's text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Little => "little",
            Self::Big => "big",
        }
    }
}

/// The field `layout`, which the specification does not have: it came a day later, and every
/// release writes and demands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// No such field, as before the first release: dense.
    Absent,
    /// All elements, row-major.
    Dense,
    /// Coordinates and values.
    SparseCoo,
    /// Compressed rows.
    SparseCsr,
    /// One that version 0.1 does not have; see [`Entry::layout_name`](crate::Entry::layout_name).
    Other,
}

impl Layout {
    pub(crate) fn from_name(name: &[u8]) -> Self {
        match name {
            b"dense" => Self::Dense,
            b"sparsecoo" => Self::SparseCoo,
            b"sparsecsr" => Self::SparseCsr,
            _ => Self::Other,
        }
    }

    /// The field's text; `dense` where it is absent, `other` where version 0.1 has none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent | Self::Dense => "dense",
            Self::SparseCoo => "sparsecoo",
            Self::SparseCsr => "sparsecsr",
            Self::Other => "other",
        }
    }

    /// Whether the data is all elements, row-major.
    ///
    /// ```
    /// use ztensor_format::Layout;
    ///
    /// assert!(Layout::Dense.is_dense());
    /// ```
    #[must_use]
    pub const fn is_dense(self) -> bool {
        matches!(self, Self::Absent | Self::Dense)
    }
}

#[cfg(feature = "zstd")]
pub(crate) use frames::{Blob, Compressor, Decoded};
#[cfg(all(feature = "zstd", feature = "generations"))]
pub(crate) use frames::{MAX_RATIO, into_source};

#[cfg(feature = "zstd")]
mod frames {
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::cell::RefCell;
    use core::fmt;
    use core::ops::Range;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use tensor_core::codec::{Ticker, WINDOW, walk};
    use tensor_core::{AlignedBytes, At, Bytes, LimitExceeded, Source, SourceError, Window};
    use zstd::zstd_safe::{
        CCtx, CParameter, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer, ResetDirective,
        find_frame_compressed_size, get_error_name, is_error_kind, zstd_sys::ZSTD_ErrorCode,
    };

    use crate::checksum::Hasher;
    use crate::{BuildError, Error, Result, Rule};

    /// The most that one byte of a frame decodes to: a block of four bytes fills 128 KiB.
    pub(crate) const MAX_RATIO: u64 = (128 << 10) / 4;
    /// The most that a block decodes to.
    const MAX_BLOCK: u64 = 128 << 10;
    /// Compressed data up to this size is read at once, to be decoded straight into place; for
    /// more of it, new memory costs more than what the decoder of streams copies.
    const AT_ONCE: u64 = 1 << 20;
    /// A claim up to this size is believed, or up to `BELIEVED_RATIO` times the data.
    const BELIEVED: u64 = 64 << 20;
    const BELIEVED_RATIO: u64 = 64;
    /// The window that any number of threads may take at a time: what levels up to 19 use.
    const SMALL_WINDOW: u64 = 8 << 20;

    /// Compressed data of one tensor, and what must come out.
    #[derive(Clone)]
    pub(crate) struct Blob {
        pub(crate) stored: Window<Arc<dyn Source>>,
        /// Bytes that dtype and shape ask for.
        pub(crate) decoded: u64,
        pub(crate) max_window: u64,
        pub(crate) at: At,
    }

    impl Blob {
        /// Decodes all of it into `out`, which has the decoded length.
        pub(crate) fn decode_into(&self, out: &mut [u8]) -> Result<()> {
            if self.stored.contiguous().is_some() || self.stored.size() <= AT_ONCE {
                let stored = self.stored.read(0..self.stored.size())?;
                if self.check_windows(&stored)? && decode_at_once(&stored, out).is_ok() {
                    return Ok(());
                }
                // The decoder of streams tells what is wrong, and has the last word: it lets a
                // frame pass that promises bytes but ends in an empty block.
            }
            let mut reader = Reader::new(self, self.max_window, Hasher::None)?;
            reader.fill(out)?;
            reader.finish()
        }

        /// Decodes all of it into new memory, which grows as decoding goes on: fresh pages cost
        /// nothing before they are written, and a claim out of all proportion is first followed
        /// without keeping what comes out.
        pub(crate) fn decode(&self) -> Result<Bytes> {
            self.check_claim()?;
            let ratio = self.decoded.checked_div(self.stored.size());
            if self.decoded > BELIEVED && ratio.unwrap_or(u64::MAX) > BELIEVED_RATIO {
                self.check(self.max_window, Hasher::None, &Ticker::default())?;
            }
            let len =
                usize::try_from(self.decoded).map_err(|_| SourceError::TooLarge(self.decoded))?;
            let mut out = AlignedBytes::zeroed(len)?;
            self.decode_into(out.as_mut_slice())?;
            Ok(out.freeze())
        }

        /// Decodes without keeping what comes out; returns the hasher after all stored bytes.
        fn check(&self, max_window: u64, hasher: Hasher, ticker: &Ticker<'_>) -> Result<Hasher> {
            self.check_claim()?;
            let mut reader = Reader::new(self, max_window, hasher)?;
            let len = usize::try_from(self.decoded)
                .unwrap_or(usize::MAX)
                .min(WINDOW);
            let mut scratch = AlignedBytes::zeroed(len)?;
            while reader.decoded < self.decoded {
                let left = usize::try_from(self.decoded - reader.decoded).unwrap_or(usize::MAX);
                let piece = scratch.as_mut_slice().get_mut(..left.min(len));
                let piece = piece.unwrap_or_default();
                reader.fill(piece)?;
                ticker.tick(piece.len() as u64)?;
            }
            reader.finish()?;
            Ok(reader.hasher)
        }

        /// Checks one of many blobs at a time: whatever windows their frames declare, only one
        /// thread of the process has one above `SMALL_WINDOW`.
        pub(crate) fn verify(&self, hasher: Hasher, ticker: &Ticker<'_>) -> Result<Hasher> {
            static LARGE: Mutex<()> = Mutex::new(());
            if self.decoded <= WINDOW as u64 && self.stored.size() <= WINDOW as u64 {
                self.check_claim()?;
                let stored = self.stored.read(0..self.stored.size())?;
                let at_once = self.check_windows(&stored)?;
                let mut scratch =
                    AlignedBytes::zeroed(usize::try_from(self.decoded).unwrap_or_default())?;
                if at_once && decode_at_once(&stored, scratch.as_mut_slice()).is_ok() {
                    let mut hasher = hasher;
                    hasher.update(&stored);
                    ticker.tick(self.decoded)?;
                    return Ok(hasher);
                }
            }
            let small = self.max_window.min(SMALL_WINDOW);
            match self.check(small, hasher.clone(), ticker) {
                Err(Error::Limit(limit))
                    if limit.limit == WINDOW_LIMIT && small < self.max_window =>
                {
                    let _only = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
                    self.check(self.max_window, hasher, ticker)
                }
                result => result,
            }
        }

        /// The checksum of the stored bytes alone, for data that does not decode.
        pub(crate) fn hash(&self, mut hasher: Hasher, ticker: &Ticker<'_>) -> Result<Hasher> {
            walk::<Error>(&self.stored, 0..self.stored.size(), ticker, |piece| {
                hasher.update(piece);
                Ok(())
            })?;
            Ok(hasher)
        }

        /// What the data decodes to where nothing else says so: as its frames state, or else what
        /// comes out, which is not kept; and whether it is stated. `decoded` is the most that is
        /// followed.
        #[cfg(feature = "generations")]
        pub(crate) fn measure(&self) -> Result<(u64, bool)> {
            let limit = |value| {
                Err(Error::Limit(LimitExceeded {
                    limit: "max_unsized_bytes",
                    value,
                    max: self.decoded,
                    at: self.at,
                }))
            };
            if self.stored.contiguous().is_some() || self.stored.size() <= AT_ONCE {
                let stored = self.stored.read(0..self.stored.size())?;
                if let Some(stated) = stated(&stored) {
                    let claim = Self {
                        decoded: stated,
                        ..self.clone()
                    };
                    claim.check_claim()?;
                    return Ok((stated, true));
                }
            }
            let mut reader = Reader::new(self, self.max_window, Hasher::None)?;
            let mut scratch = AlignedBytes::zeroed(WINDOW)?;
            while reader.some(scratch.as_mut_slice())? > 0 {
                if reader.decoded > self.decoded {
                    return limit(reader.decoded);
                }
            }
            Ok((reader.decoded, false))
        }

        /// Refuses a length that no zstd data of this size decodes to.
        fn check_claim(&self) -> Result<()> {
            let most = self.stored.size().saturating_mul(MAX_RATIO);
            if self.decoded > most {
                return self.fail(Rule::ZstdShorter {
                    expected: self.decoded,
                    got: most,
                });
            }
            Ok(())
        }

        /// Refuses what a decoder of streams would, though at once there is no need for windows:
        /// whether a tensor can be read must not depend on how. `false` where a frame has blocks
        /// that may be larger than its window, on which the decoders don't agree.
        fn check_windows(&self, mut stored: &[u8]) -> Result<bool> {
            let block = self.decoded.min(MAX_BLOCK);
            let mut agree = true;
            while !stored.is_empty() {
                let window = window_of(stored).unwrap_or(0);
                // The decoder of streams takes powers of two.
                let max = self.max_window.checked_ilog2().map_or(0, |log| 1u64 << log);
                if window > max.max(1 << 10) {
                    return Err(window_limit(window, self.max_window, self.at));
                }
                agree &= window >= block;
                match find_frame_compressed_size(stored) {
                    Ok(len) if len > 0 => stored = stored.get(len..).unwrap_or_default(),
                    // The decoder will say what is wrong.
                    _ => break,
                }
            }
            Ok(agree)
        }

        fn fail<T>(&self, rule: Rule) -> Result<T> {
            let at = self.at;
            Err(Error::invalid(rule, at))
        }
    }

    /// The content sizes that all frames state, added up.
    #[cfg(feature = "generations")]
    fn stated(mut stored: &[u8]) -> Option<u64> {
        let mut sum = 0u64;
        while !stored.is_empty() {
            let len = find_frame_compressed_size(stored)
                .ok()
                .filter(|&len| len > 0)?;
            let content = zstd::zstd_safe::get_frame_content_size(stored).ok()??;
            sum = sum.checked_add(content)?;
            stored = stored.get(len..)?;
        }
        Some(sum)
    }

    /// The window that a frame declares, RFC 8878, 3.1.1.1: its own field, or the content size
    /// of a single segment. `None` for anything else than the start of a frame.
    fn window_of(frame: &[u8]) -> Option<u64> {
        let [0x28, 0xB5, 0x2F, 0xFD, descriptor, rest @ ..] = frame else {
            return None;
        };
        if descriptor & 0x20 == 0 {
            let window = rest.first()?;
            let base = 1u64 << (10 + u32::from(window >> 3));
            return Some(base + base / 8 * u64::from(window & 7));
        }
        let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 3))?;
        let len = 1usize << (descriptor >> 6);
        let field = rest.get(*dictionary..)?.get(..len)?;
        let mut size = [0; 8];
        size.get_mut(..len)?.copy_from_slice(field);
        let size = u64::from_le_bytes(size);
        Some(if len == 2 { size + 256 } else { size })
    }

    fn window_limit(value: u64, max: u64, at: At) -> Error {
        Error::Limit(LimitExceeded {
            limit: WINDOW_LIMIT,
            value,
            max,
            at,
        })
    }

    const WINDOW_LIMIT: &str = "max_window_bytes";

    /// Decodes frames that are all there into all of `out`.
    fn decode_at_once(stored: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        std::thread_local! {
            // Its tables are worth keeping for the next of many small tensors.
            static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
        }
        let expected = out.len();
        let decoded = CONTEXT.with_borrow_mut(|context| {
            let context = match context {
                Some(context) => context,
                None => context.insert(DCtx::try_create().ok_or(NO_CONTEXT)?),
            };
            context.decompress(out, stored).map_err(get_error_name)
        })?;
        if decoded == expected {
            Ok(())
        } else {
            Err("decoded size is wrong")
        }
    }

    const NO_CONTEXT: &str = "no memory for a context";

    /// Decodes front to back.
    struct Reader<'a> {
        stored: &'a Window<Arc<dyn Source>>,
        state: State,
        decoded: u64,
        expected: u64,
        at: At,
        hasher: Hasher,
    }

    /// The part of a reader that outlives a call.
    struct State {
        context: DCtx<'static>,
        max_window: u64,
        /// Stored bytes that were asked for so far, and those of them not yet decoded.
        read: u64,
        input: Bytes,
        buffer: Option<AlignedBytes>,
        pending: Range<usize>,
        in_frame: bool,
    }

    impl State {
        fn new(max_window: u64) -> Result<Self> {
            let mut context =
                DCtx::try_create().ok_or(SourceError::OutOfMemory(size_of::<usize>() as u64))?;
            // The library takes 10 to 30 or 31, which depends on the host.
            let log = max_window.checked_ilog2().unwrap_or(0).clamp(10, 30);
            let _ = context.set_parameter(DParameter::WindowLogMax(log));
            Ok(Self {
                context,
                max_window,
                read: 0,
                input: Bytes::new(),
                buffer: None,
                pending: 0..0,
                in_frame: false,
            })
        }

        fn restart(&mut self) {
            // Dropping what is left of a frame can't fail.
            let _ = self.context.reset(ResetDirective::SessionOnly);
            self.read = 0;
            self.pending = 0..0;
            self.in_frame = false;
        }

        /// Gets the next window of stored bytes, all that is left of them where they are memory.
        fn refill(&mut self, stored: &Window<Arc<dyn Source>>, hasher: &mut Hasher) -> Result<()> {
            let left = stored.size().saturating_sub(self.read);
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(WINDOW);
            let end = self.read + len as u64;
            if stored.contiguous().is_some() {
                self.input = stored.read(self.read..end)?;
            } else {
                let buffer = match &mut self.buffer {
                    Some(buffer) => buffer,
                    None => self.buffer.insert(AlignedBytes::zeroed(len)?),
                };
                let piece = buffer.as_mut_slice().get_mut(..len).unwrap_or_default();
                stored.read_into(self.read, piece)?;
            }
            self.read = end;
            self.pending = 0..len;
            hasher.update(self.input());
            Ok(())
        }

        /// Stored bytes that were read and not yet decoded.
        fn input(&self) -> &[u8] {
            let bytes = match &self.buffer {
                Some(buffer) => buffer.as_slice(),
                None => &self.input,
            };
            bytes.get(self.pending.clone()).unwrap_or_default()
        }

        /// Decodes some bytes; 0 only where the stored bytes end or `out` is empty.
        fn step(&mut self, out: &mut [u8], at: At) -> Result<usize> {
            let bytes = match &self.buffer {
                Some(buffer) => buffer.as_slice(),
                None => &self.input,
            };
            let mut input = InBuffer::around(bytes.get(self.pending.clone()).unwrap_or_default());
            let mut output = OutBuffer::around(out);
            let hint = self.context.decompress_stream(&mut output, &mut input);
            let hint = hint.map_err(|code| fault(code, self.max_window, at))?;
            self.in_frame = hint != 0;
            self.pending.start += input.pos();
            Ok(output.pos())
        }
    }

    #[cold]
    fn fault(code: ErrorCode, max_window: u64, at: At) -> Error {
        if is_error_kind(
            code,
            ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge,
        ) {
            // The library does not say how large it is.
            return window_limit(max_window.saturating_add(1), max_window, at);
        }
        let message = get_error_name(code);
        let rule = Rule::ZstdFrame { message };
        Error::invalid(rule, at)
    }

    impl<'a> Reader<'a> {
        fn new(blob: &'a Blob, max_window: u64, hasher: Hasher) -> Result<Self> {
            Ok(Self {
                stored: &blob.stored,
                state: State::new(max_window)?,
                decoded: 0,
                expected: blob.decoded,
                at: blob.at,
                hasher,
            })
        }

        /// Decodes some bytes; 0 only at the end of the stored bytes.
        fn some(&mut self, out: &mut [u8]) -> Result<usize> {
            loop {
                if self.state.pending.is_empty() {
                    if self.state.read < self.stored.size() {
                        self.state.refill(self.stored, &mut self.hasher)?;
                    } else if !self.state.in_frame {
                        return Ok(0);
                    }
                }
                let ended = self.state.pending.is_empty();
                let decoded = self.state.step(out, self.at)?;
                self.decoded += decoded as u64;
                if decoded > 0 {
                    return Ok(decoded);
                }
                if ended && self.state.in_frame {
                    return self.fail(Rule::ZstdTruncated);
                }
            }
        }

        /// Fills `out`.
        fn fill(&mut self, mut out: &mut [u8]) -> Result<()> {
            while !out.is_empty() {
                match self.some(out)? {
                    0 => {
                        return self.fail(Rule::ZstdShorter {
                            expected: self.expected,
                            got: self.decoded,
                        });
                    }
                    n => out = out.get_mut(n..).unwrap_or_default(),
                }
            }
            Ok(())
        }

        /// Checks that nothing more comes out and the last frame ends with the stored bytes.
        fn finish(&mut self) -> Result<()> {
            match self.some(&mut [0])? {
                0 => Ok(()),
                _ => self.fail(Rule::ZstdLonger {
                    expected: self.expected,
                }),
            }
        }

        fn fail<T>(&self, rule: Rule) -> Result<T> {
            let at = self.at;
            Err(Error::invalid(rule, at))
        }
    }

    /// Decoded data as a source: decodes forward, and from the start again on a step back.
    pub(crate) struct Decoded {
        blob: Blob,
        running: Mutex<Option<Running>>,
    }

    struct Running {
        state: State,
        decoded: u64,
    }

    impl Decoded {
        pub(crate) fn new(blob: Blob) -> Self {
            Self {
                blob,
                running: Mutex::new(None),
            }
        }

        fn lock(&self) -> MutexGuard<'_, Option<Running>> {
            self.running.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn decode(&self, offset: u64, out: &mut [u8]) -> Result<()> {
            self.blob.check_claim()?;
            let mut running = self.lock();
            // What fails is dropped, so that the next call starts anew.
            let mut now = match running.take() {
                Some(running) => running,
                None => Running {
                    state: State::new(self.blob.max_window)?,
                    decoded: 0,
                },
            };
            if offset < now.decoded {
                now.state.restart();
                now.decoded = 0;
            }
            let mut reader = Reader {
                stored: &self.blob.stored,
                state: now.state,
                decoded: now.decoded,
                expected: self.blob.decoded,
                at: self.blob.at,
                hasher: Hasher::None,
            };
            if reader.decoded < offset {
                let skip = usize::try_from(offset - reader.decoded).unwrap_or(usize::MAX);
                let mut scratch = AlignedBytes::zeroed(skip.min(WINDOW))?;
                while reader.decoded < offset {
                    let left = usize::try_from(offset - reader.decoded).unwrap_or(usize::MAX);
                    let piece = scratch.as_mut_slice();
                    let piece = piece.get_mut(..left.min(WINDOW)).unwrap_or_default();
                    reader.fill(piece)?;
                }
            }
            reader.fill(out)?;
            if reader.decoded == self.blob.decoded {
                // Whoever has all of it has had it checked; the memory is free again.
                return reader.finish();
            }
            let (state, decoded) = (reader.state, reader.decoded);
            *running = Some(Running { state, decoded });
            Ok(())
        }
    }

    impl Source for Decoded {
        fn size(&self) -> u64 {
            self.blob.decoded
        }

        fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
            self.check(offset, out.len() as u64)?;
            if out.is_empty() && self.size() > 0 {
                return Ok(());
            }
            self.decode(offset, out).map_err(into_source)
        }

        fn file(&self) -> Option<&tensor_core::FileId> {
            self.blob.stored.file()
        }

        fn read(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
            if range == (0..self.size()) {
                return self.blob.decode().map_err(into_source);
            }
            let len = range.end.saturating_sub(range.start);
            self.check(range.start, len)?;
            self.blob.check_claim().map_err(into_source)?;
            let len = usize::try_from(len).map_err(|_| SourceError::TooLarge(len))?;
            let mut out = AlignedBytes::zeroed(len)?;
            self.read_into(range.start, out.as_mut_slice())?;
            Ok(out.freeze())
        }
    }

    impl fmt::Debug for Decoded {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Decoded")
                .field("stored", &self.blob.stored.size())
                .field("decoded", &self.blob.decoded)
                .finish_non_exhaustive()
        }
    }

    /// This codec's error as that of a source.
    pub(crate) fn into_source(error: Error) -> SourceError {
        match error {
            Error::Source(error) => error,
            error => SourceError::failure(error),
        }
    }

    /// Compresses tensors, and keeps what that takes from one to the next.
    #[derive(Default)]
    pub(crate) struct Compressor(Mutex<Vec<CCtx<'static>>>);

    impl Compressor {
        fn contexts(&self) -> MutexGuard<'_, Vec<CCtx<'static>>> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Compresses `source` as the reference does, one frame without content size, and hands
        /// it to `put` piece by piece.
        pub(crate) fn compress(
            &self,
            name: &str,
            source: &dyn Source,
            level: i32,
            ticker: &Ticker<'_>,
            mut put: impl FnMut(&[u8]) -> Result<()>,
        ) -> Result<()> {
            let fail = |message| BuildError::Zstd {
                name: name.into(),
                message,
            };
            let check = |result: Result<usize, ErrorCode>| {
                result.map_err(|code| Error::from(fail(get_error_name(code))))
            };
            let kept = self.contexts().pop();
            let mut context = match kept {
                Some(context) => context,
                None => CCtx::try_create().ok_or_else(|| fail(NO_CONTEXT))?,
            };
            check(context.set_parameter(CParameter::CompressionLevel(level)))?;
            let mut piece = AlignedBytes::zeroed(CCtx::out_size())?;
            walk::<Error>(source, 0..source.size(), ticker, |bytes| {
                let mut input = InBuffer::around(bytes);
                while input.pos() < bytes.len() {
                    let mut output = OutBuffer::around(piece.as_mut_slice());
                    check(context.compress_stream(&mut output, &mut input))?;
                    put(output.as_slice())?;
                }
                Ok(())
            })
            .map_err(|error| error.of_tensor(name))?;
            loop {
                let mut output = OutBuffer::around(piece.as_mut_slice());
                let left = check(context.end_stream(&mut output))?;
                put(output.as_slice())?;
                if left == 0 {
                    break;
                }
            }
            // The frame has ended, so the next tensor finds the context as a new one is.
            self.contexts().push(context);
            Ok(())
        }
    }
}
