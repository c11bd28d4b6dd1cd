use alloc::sync::Arc;
use core::ops::Range;

use bytes::Bytes;

#[cfg(feature = "std")]
pub use file::FileSource;

use crate::codec::{Ticker, TransferError};
use crate::scratch::Scratch;
use crate::{AlignedBytes, FileId, SourceError};

/// How many bytes a walk over a source asks for at a time, unless the source wants otherwise:
/// few calls on slow disks, little enough to stay in a cache.
pub const WINDOW: usize = 1 << 20;

/// Random-access bytes: memory, a file, a mapped file, or anything that can answer a range.
///
/// Every codec parses one and hands out others; [`Bytes`] is the simplest. Implement it to read
/// from elsewhere:
///
/// ```
/// use std::ops::Range;
/// use tensor_core::{Bytes, Source, SourceError};
///
/// /// A gibibyte of ones that takes no memory.
/// struct Ones;
///
/// impl Source for Ones {
///     fn size(&self) -> u64 {
///         1 << 30
///     }
///     fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
///         tensor_core::Source::check(self, offset, out.len() as u64)?;
///         out.fill(1);
///         Ok(())
///     }
/// }
/// assert_eq!(Ones.read(5..8)?, Bytes::from_static(&[1, 1, 1]));
/// assert!(Ones.read((1 << 30) - 1..(1 << 30) + 1).is_err());
/// # Ok::<(), SourceError>(())
/// ```
pub trait Source: Send + Sync {
    /// Number of bytes.
    fn size(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`SourceError::OutOfBounds`] where the range reaches past [`size`](Self::size), else what
    /// the source itself fails with.
    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError>;

    /// Exactly the bytes of `range`: without a copy where the source can, else one read into an
    /// aligned buffer.
    ///
    /// # Errors
    /// As [`read_into`](Self::read_into), and [`SourceError::OutOfMemory`].
    fn read(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
        let mut buffer = AlignedBytes::zeroed(extent(self, &range)?)?;
        self.read_into(range.start, buffer.as_mut_slice())?;
        Ok(buffer.freeze())
    }

    /// The whole content where it already lies in memory, so that a walk needs no buffer.
    fn contiguous(&self) -> Option<&Bytes> {
        None
    }

    /// How many bytes a walk should ask for at a time.
    fn window(&self) -> usize {
        WINDOW
    }

    /// The file that the bytes come from, so that nobody writes to it while they are read. A source
    /// over another source has that one's.
    fn file(&self) -> Option<&FileId> {
        None
    }

    /// Whether ranges may be asked for in any order, and on several threads at once, at no extra
    /// cost: not of what is decoded from front to back. A source over another source has that one's.
    fn is_random_access(&self) -> bool {
        false
    }

    /// Fails where `len` bytes from `offset` on are not all within [`size`](Self::size).
    ///
    /// # Errors
    /// [`SourceError::OutOfBounds`].
    fn check(&self, offset: u64, len: u64) -> Result<(), SourceError> {
        let size = self.size();
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            end => Err(SourceError::OutOfBounds {
                offset,
                end: end.unwrap_or(u64::MAX),
                size,
            }),
        }
    }
}

/// Calls `visit` with the bytes of `range` in order, window by window; memory is visited in
/// place. Each window is reported to `ticker`.
///
/// # Errors
/// What the source or `visit` fails with, or [`TransferError::Cancelled`].
///
/// ```
/// use tensor_core::Bytes;
/// use tensor_core::codec::{Ticker, TransferError, walk};
///
/// let mut zeros = 0;
/// let source = Bytes::from_static(&[0, 7, 0, 0]);
/// walk(&source, 1..4, &Ticker::new(None), |window| {
///     zeros += window.iter().filter(|&&byte| byte == 0).count();
///     Ok::<(), TransferError>(())
/// })?;
/// assert_eq!(zeros, 2);
/// # Ok::<(), TransferError>(())
/// ```
pub fn walk<E: From<TransferError>>(
    source: &dyn Source,
    range: Range<u64>,
    ticker: &Ticker<'_>,
    mut visit: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let len = range.end.saturating_sub(range.start);
    source
        .check(range.start, len)
        .map_err(TransferError::from)?;
    let window = source.window().max(1);
    if let Some(bytes) = source.contiguous() {
        let slice = bounds(&range)
            .and_then(|range| bytes.get(range))
            .unwrap_or_default();
        for piece in slice.chunks(window) {
            visit(piece)?;
            ticker.tick(piece.len() as u64).map_err(E::from)?;
        }
        return Ok(());
    }
    let most = at_most(len, window);
    let mut buffer = Scratch::of(most).map_err(TransferError::from)?;
    let mut offset = range.start;
    while offset < range.end {
        let piece = buffer
            .as_mut_slice()
            .get_mut(..at_most(range.end - offset, most))
            .unwrap_or_default();
        source
            .read_into(offset, piece)
            .map_err(TransferError::from)?;
        visit(piece)?;
        ticker.tick(piece.len() as u64).map_err(E::from)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

/// The range in numbers as wide as this host's addresses, if they hold it. `W` is `usize`; tests
/// take `u32`, whatever host they run on.
pub(crate) fn bounds<W: TryFrom<u64>>(range: &Range<u64>) -> Option<Range<W>> {
    Some(W::try_from(range.start).ok()?..W::try_from(range.end).ok()?)
}

/// Fails where the list of a file's tensors takes more memory than the addresses of this host let it
/// grow to, whatever limits and the size of the file allow: an eighth of them, since a list that
/// grows takes three times its memory, and its table of names is apart. Codecs ask before they list
/// one more.
///
/// # Errors
/// [`SourceError::OutOfMemory`].
///
/// ```
/// use tensor_core::codec::check_index_memory;
///
/// assert!(check_index_memory(1 << 20).is_ok());
/// assert_eq!(check_index_memory(1 << 30).is_ok(), usize::BITS > 32); // 8 GiB of addresses
/// ```
pub fn check_index_memory(memory: u64) -> Result<(), SourceError> {
    within_addresses::<usize>(memory)
}

fn within_addresses<W: TryFrom<u64>>(memory: u64) -> Result<(), SourceError> {
    match W::try_from(memory.saturating_mul(8)) {
        Ok(_) => Ok(()),
        Err(_) => Err(SourceError::OutOfMemory(memory)),
    }
}

/// The length of a range that `source` has.
fn extent<S: Source + ?Sized>(source: &S, range: &Range<u64>) -> Result<usize, SourceError> {
    let len = range
        .end
        .checked_sub(range.start)
        .ok_or(SourceError::OutOfBounds {
            offset: range.start,
            end: range.end,
            size: source.size(),
        })?;
    source.check(range.start, len)?;
    length(len)
}

/// The length of a buffer that holds `len` bytes.
fn length<W: TryFrom<u64>>(len: u64) -> Result<W, SourceError> {
    W::try_from(len).map_err(|_| SourceError::TooLarge(len))
}

/// `len` or `most`, whichever is less.
fn at_most<W: TryFrom<u64> + Ord>(len: u64, most: W) -> W {
    match W::try_from(len) {
        Ok(len) => len.min(most),
        Err(_) => most,
    }
}

impl Source for Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
        let len = range.end.saturating_sub(range.start);
        match bounds::<usize>(&range) {
            Some(range) if range.start <= range.end && range.end <= self.len() => {
                Ok(self.slice(range))
            }
            _ => Err(SourceError::OutOfBounds {
                offset: range.start,
                end: range.start.saturating_add(len),
                size: self.size(),
            }),
        }
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        let range = offset..offset + out.len() as u64;
        if let Some(bytes) = bounds(&range).and_then(|range| self.get(range)) {
            out.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn contiguous(&self) -> Option<&Bytes> {
        Some(self)
    }

    fn is_random_access(&self) -> bool {
        true
    }
}

impl<S: Source + ?Sized> Source for Arc<S> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
        (**self).read(range)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        (**self).read_into(offset, out)
    }

    fn contiguous(&self) -> Option<&Bytes> {
        (**self).contiguous()
    }

    fn window(&self) -> usize {
        (**self).window()
    }

    fn file(&self) -> Option<&FileId> {
        (**self).file()
    }

    fn is_random_access(&self) -> bool {
        (**self).is_random_access()
    }
}

/// A range of another source, as a source.
///
/// ```
/// use tensor_core::{Bytes, Source, Window};
///
/// let window = Window::new(Bytes::from_static(b"header data"), 7..11)?;
/// assert_eq!(window.read(0..4)?, "data");
/// # Ok::<(), tensor_core::SourceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Window<S> {
    inner: S,
    range: Range<u64>,
    memory: Option<Bytes>,
}

impl<S: Source> Window<S> {
    /// The bytes `range` of `inner`.
    ///
    /// # Errors
    /// [`SourceError::OutOfBounds`] where `inner` has no such range.
    pub fn new(inner: S, range: Range<u64>) -> Result<Self, SourceError> {
        let len = range
            .end
            .checked_sub(range.start)
            .ok_or(SourceError::OutOfBounds {
                offset: range.start,
                end: range.end,
                size: inner.size(),
            })?;
        inner.check(range.start, len)?;
        let memory = match inner.contiguous() {
            Some(bytes) => Some(bytes.read(range.clone())?),
            None => None,
        };
        Ok(Self {
            inner,
            range,
            memory,
        })
    }
}

impl<S: Source> Source for Window<S> {
    fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
        if let Some(memory) = &self.memory {
            return memory.read(range);
        }
        self.check(range.start, range.end.saturating_sub(range.start))?;
        self.inner
            .read(self.range.start + range.start..self.range.start + range.end)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        self.inner.read_into(self.range.start + offset, out)
    }

    fn contiguous(&self) -> Option<&Bytes> {
        self.memory.as_ref()
    }

    fn window(&self) -> usize {
        self.inner.window()
    }

    fn file(&self) -> Option<&FileId> {
        self.inner.file()
    }

    fn is_random_access(&self) -> bool {
        self.inner.is_random_access()
    }
}

#[cfg(feature = "std")]
mod file {
    use std::fs::File;
    use std::io;
    use std::path::{Path, PathBuf};

    use super::{Bytes, Range, Source};
    use crate::{AlignedBytes, FileError, FileId, SourceError, fresh, parallel};

    /// Bytes from which on a read is worth more than one thread.
    const LARGE: usize = 4 * super::WINDOW;

    /// A file, read lazily at the positions asked for.
    ///
    /// Reads share no cursor, so threads don't disturb each other; with the `rayon` feature a large
    /// one is done by several of them, in pieces that rise. A file that shrinks while it is open gives
    /// an error, never a signal.
    ///
    /// ```
    /// use tensor_core::{FileSource, Source};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.mag");
    /// std::fs::write(&path, b"MAG!....data")?;
    /// let source = FileSource::open(&path)?;
    /// assert_eq!((source.size(), source.path()), (12, path.as_path()));
    /// assert_eq!(source.read(0..4)?, &b"MAG!"[..]);
    ///
    /// // A file that is open already; the path is for errors alone.
    /// let source = FileSource::new(std::fs::File::open(&path)?, "model.mag")?;
    /// let mut data = [0; 4];
    /// source.read_into(8, &mut data)?;
    /// assert_eq!(&data, b"data");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Debug)]
    pub struct FileSource {
        path: PathBuf,
        file: Positional,
        size: u64,
        id: Option<FileId>,
    }

    impl FileSource {
        /// Opens `path` for reading; its size is taken now.
        ///
        /// # Errors
        /// What the operating system says, with the path; a folder, a pipe or a device, which
        /// have no size and no positions, are errors too.
        pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
            let path = path.as_ref();
            let fail = |error| FileError::new(path, error);
            // Before opening, which waits for a writer where the path is a pipe, and after it.
            regular(&std::fs::metadata(path).map_err(fail)?).map_err(fail)?;
            let file = File::open(path).map_err(fail)?;
            Self::new(file, path)
        }

        /// Takes a file that is open, of whatever name: `path` is what errors call it.
        ///
        /// # Errors
        /// As [`open`](Self::open).
        pub fn new(file: File, path: impl AsRef<Path>) -> Result<Self, FileError> {
            let path = path.as_ref();
            let fail = |error| FileError::new(path, error);
            let metadata = file.metadata().map_err(fail)?;
            regular(&metadata).map_err(fail)?;
            #[cfg(unix)]
            let id = Some(FileId::of_metadata(&metadata));
            #[cfg(not(unix))]
            let id = FileId::of(path).ok();
            Ok(Self {
                path: path.to_path_buf(),
                file: Positional::new(file),
                size: metadata.len(),
                id,
            })
        }

        /// The path given to [`open`](Self::open).
        #[must_use]
        pub fn path(&self) -> &Path {
            &self.path
        }
    }

    fn regular(metadata: &std::fs::Metadata) -> io::Result<()> {
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(())
    }

    impl Source for FileSource {
        fn size(&self) -> u64 {
            self.size
        }

        fn read(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
            let len = super::extent(self, &range)?;
            if len < LARGE {
                let mut buffer = AlignedBytes::zeroed(len)?;
                self.read_piece(range.start, buffer.as_mut_slice())?;
                return Ok(buffer.freeze());
            }
            let buffer = fresh::filled(len, |start, piece| {
                self.read_piece(range.start + start as u64, piece)
            })?;
            Ok(buffer.freeze())
        }

        fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
            self.check(offset, out.len() as u64)?;
            if out.len() < LARGE {
                return self.read_piece(offset, out);
            }
            parallel::fill(0, out, super::WINDOW, |start, piece| {
                self.read_piece(offset + start as u64, piece)
            })
        }

        fn file(&self) -> Option<&FileId> {
            self.id.as_ref()
        }

        fn is_random_access(&self) -> bool {
            true
        }
    }

    impl FileSource {
        fn read_piece(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
            self.file.read_exact_at(out, offset).map_err(|error| {
                let error = match error.kind() {
                    io::ErrorKind::UnexpectedEof => io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the file has become shorter since it was opened",
                    ),
                    _ => error,
                };
                SourceError::File(FileError::new(&self.path, error).at_offset(offset))
            })
        }
    }

    /// Positional reads with what the platform has for them.
    #[cfg(unix)]
    #[derive(Debug)]
    struct Positional(File);

    #[cfg(unix)]
    impl Positional {
        fn new(file: File) -> Self {
            Self(file)
        }

        fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
            std::os::unix::fs::FileExt::read_exact_at(&self.0, out, offset)
        }
    }

    #[cfg(windows)]
    #[derive(Debug)]
    struct Positional(File);

    #[cfg(windows)]
    impl Positional {
        fn new(file: File) -> Self {
            Self(file)
        }

        fn read_exact_at(&self, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
            use std::os::windows::fs::FileExt;
            while !out.is_empty() {
                match self.0.seek_read(out, offset) {
                    Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                    Ok(n) => {
                        out = out.get_mut(n..).unwrap_or_default();
                        offset += n as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }
    }

    /// Elsewhere one shared cursor, guarded.
    #[cfg(not(any(unix, windows)))]
    #[derive(Debug)]
    struct Positional(std::sync::Mutex<File>);

    #[cfg(not(any(unix, windows)))]
    impl Positional {
        fn new(file: File) -> Self {
            Self(std::sync::Mutex::new(file))
        }

        fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
            use std::io::{Read, Seek, SeekFrom};
            let mut file = self
                .0
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            file.seek(SeekFrom::Start(offset))?;
            file.read_exact(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// What is beyond 4 GiB must be an error where addresses have 32 bits, never another place.
    #[test]
    fn nothing_wraps_where_addresses_have_32_bits() {
        let bounds = |range| super::bounds::<u32>(&range);
        assert_eq!(bounds(0..4 * GIB - 1), Some(0..u32::MAX));
        assert_eq!(bounds(0..4 * GIB), None);
        assert_eq!(bounds(4 * GIB..4 * GIB + 1), None);
        assert_eq!(bounds(u64::MAX..u64::MAX), None);

        assert_eq!(length::<u32>(4 * GIB - 1).unwrap(), u32::MAX);
        for len in [4 * GIB, 4 * GIB + 16, u64::MAX] {
            let error = length::<u32>(len).unwrap_err();
            assert!(matches!(error, SourceError::TooLarge(got) if got == len));
        }

        assert!(within_addresses::<u32>(GIB / 2 - 1).is_ok());
        for memory in [GIB / 2, 4 * GIB + 16, u64::MAX] {
            let error = within_addresses::<u32>(memory).unwrap_err();
            assert!(matches!(error, SourceError::OutOfMemory(got) if got == memory));
        }

        assert_eq!(at_most(10, 100u32), 10);
        // 4 GiB and 10 bytes are not 10 bytes.
        assert_eq!(at_most(4 * GIB + 10, 100u32), 100);
        assert_eq!(at_most(4 * GIB, u32::MAX), u32::MAX);
    }
}
