use alloc::vec::Vec;

use crate::codec::{Ticker, WINDOW, walk};
use crate::{Source, SourceError};

/// Where encoded bytes go: anything that implements `std::io::Write`, an `AtomicFile` among it, or,
/// without `std`, a vector or a borrowed one.
pub trait Output {
    /// Takes all of `bytes`.
    ///
    /// # Errors
    /// What the receiver fails with.
    fn put(&mut self, bytes: &[u8]) -> Result<(), SinkError>;
}

#[cfg(feature = "std")]
impl<W: std::io::Write> Output for W {
    fn put(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.write_all(bytes).map_err(SinkError::Io)
    }
}

#[cfg(not(feature = "std"))]
impl Output for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.try_reserve(bytes.len())
            .map_err(|_| SinkError::OutOfMemory(bytes.len() as u64))?;
        self.extend_from_slice(bytes);
        Ok(())
    }
}

// Of references to outputs only this one, which `std` has through `Write` as well: a feature takes
// no implementation away.
#[cfg(not(feature = "std"))]
impl Output for &mut Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        (**self).put(bytes)
    }
}

/// Why encoded bytes could not be delivered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The writer failed.
    #[cfg(feature = "std")]
    #[error(transparent)]
    Io(std::io::Error),
    /// A file could not be written.
    #[cfg(feature = "std")]
    #[error(transparent)]
    File(#[from] crate::FileError),
    /// The vector could not grow by this many bytes.
    #[error("no memory for {0} more bytes")]
    OutOfMemory(u64),
}

/// Why a walk from a source, or a copy from a source to a sink, stopped. Exhaustive, so that
/// every codec says what becomes of each.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The bytes could not be had.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The bytes could not be delivered.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The progress function asked to stop.
    #[error("stopped on request")]
    Cancelled,
}

impl TransferError {
    /// Says which tensor a source's error is about, as [`SourceError::of_tensor`] does.
    ///
    /// ```
    /// use tensor_core::SourceError;
    /// use tensor_core::codec::TransferError;
    ///
    /// let error = TransferError::from(SourceError::Other("HTTP 503".into())).of_tensor("w");
    /// assert_eq!(error.to_string(), "tensor \"w\": HTTP 503");
    /// ```
    #[cold]
    #[must_use]
    pub fn of_tensor(self, name: &str) -> Self {
        match self {
            Self::Source(error) => Self::Source(error.of_tensor(name, None)),
            error => error,
        }
    }
}

/// Counts what goes to an [`Output`], so that writers know where they are.
///
/// ```
/// use tensor_core::codec::Sink;
///
/// let mut sink = Sink::new(Vec::new());
/// sink.put_u32_le(7)?;
/// sink.pad_to(16, 0xFF)?;
/// assert_eq!(sink.position(), 16);
/// # Ok::<(), tensor_core::SinkError>(())
/// ```
///
/// Every kind of field:
///
/// ```
/// use tensor_core::Bytes;
/// use tensor_core::codec::{Sink, Ticker, TransferError};
///
/// let mut sink = Sink::new(Vec::new());
/// sink.put(b"BOX!")?;
/// sink.put_u8(1)?;
/// sink.put_u16_le(2)?;
/// sink.put_u64_le(3)?;
/// sink.fill(2, 0xFF)?;
/// sink.copy_from(&Bytes::from_static(b"data"), &Ticker::new(None))?;
/// sink.get_mut()[3] = b'?';
/// assert_eq!(sink.into_inner(), b"BOX?\x01\x02\0\x03\0\0\0\0\0\0\0\xFF\xFFdata");
/// # Ok::<(), TransferError>(())
/// ```
#[derive(Debug)]
pub struct Sink<O> {
    out: O,
    position: u64,
}

impl<O: Output> Sink<O> {
    /// Starts at position 0.
    pub fn new(out: O) -> Self {
        Self { out, position: 0 }
    }

    /// Number of bytes put so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The output, such as a file of which something that was put is to be corrected. What is put there
    /// by another way is not counted.
    pub fn get_mut(&mut self) -> &mut O {
        &mut self.out
    }

    /// What was put, where the output is the value itself.
    pub fn into_inner(self) -> O {
        self.out
    }

    /// Puts `bytes`.
    ///
    /// # Errors
    /// What the output fails with; as for all `put_` methods.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.out.put(bytes)?;
        self.position = self.position.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Puts a byte.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_u8(&mut self, value: u8) -> Result<(), SinkError> {
        self.put(&[value])
    }

    /// Puts a little-endian `u16`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_u16_le(&mut self, value: u16) -> Result<(), SinkError> {
        self.put(&value.to_le_bytes())
    }

    /// Puts a little-endian `u32`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_u32_le(&mut self, value: u32) -> Result<(), SinkError> {
        self.put(&value.to_le_bytes())
    }

    /// Puts a little-endian `u64`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_u64_le(&mut self, value: u64) -> Result<(), SinkError> {
        self.put(&value.to_le_bytes())
    }

    /// Puts `fill` until the position is a multiple of `align`; 0 and 1 put nothing.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn pad_to(&mut self, align: u64, fill: u8) -> Result<(), SinkError> {
        let past = self.position.checked_rem(align).unwrap_or(0);
        if past == 0 {
            Ok(())
        } else {
            self.fill(align - past, fill)
        }
    }

    /// Puts `count` bytes of `fill`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn fill(&mut self, mut count: u64, fill: u8) -> Result<(), SinkError> {
        let block = [fill; 256];
        while count > 0 {
            let n = usize::try_from(count)
                .unwrap_or(usize::MAX)
                .min(block.len());
            self.put(block.get(..n).unwrap_or_default())?;
            count -= n as u64;
        }
        Ok(())
    }

    /// Puts all bytes of `source`, window by window, and reports each to `ticker`. Windows end at their own
    /// multiples in the output, since a file takes whole pages faster than parts of them.
    ///
    /// # Errors
    /// What the source or the output fails with, or a stop on request.
    pub fn copy_from(
        &mut self,
        source: &dyn Source,
        ticker: &Ticker<'_>,
    ) -> Result<(), TransferError> {
        let lead = self.lead(source);
        for range in [0..lead, lead..source.size()] {
            walk::<TransferError>(source, range, ticker, |piece| Ok(self.put(piece)?))?;
        }
        Ok(())
    }

    /// How many bytes of `source` end at a multiple of a window in the output; 0 where the source has windows
    /// of its own, or elements that this could cut.
    fn lead(&self, source: &dyn Source) -> u64 {
        const WHOLE: u64 = 64;
        let window = WINDOW as u64;
        let lead = window - self.position % window;
        let anywhere = source.contiguous().is_some()
            || source.is_random_access() && source.window() == WINDOW && lead % WHOLE == 0;
        match anywhere && lead < window && source.size() > window {
            true => lead,
            false => 0,
        }
    }
}

/// A vector grown to `capacity` if that much can be had, else empty: the size is only a hint.
///
/// ```
/// use tensor_core::codec::hinted_vec;
///
/// assert!(hinted_vec(100).capacity() >= 100);
/// assert!(hinted_vec(u64::MAX).is_empty()); // no panic
/// ```
#[must_use]
pub fn hinted_vec(capacity: u64) -> Vec<u8> {
    let mut vec = Vec::new();
    if let Ok(capacity) = usize::try_from(capacity) {
        let _ = vec.try_reserve_exact(capacity);
    }
    vec
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::Bytes;

    /// The lengths of what is written.
    struct Lengths(Vec<usize>);

    impl std::io::Write for Lengths {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Bytes from somewhere else, whose places cost the same or not.
    struct Elsewhere(Bytes, bool);

    impl Source for Elsewhere {
        fn size(&self) -> u64 {
            self.0.size()
        }

        fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
            self.0.read_into(offset, out)
        }

        fn is_random_access(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn windows_end_at_their_multiples_in_the_output() {
        let bytes = Bytes::from(alloc::vec![7; 3 * WINDOW]);
        let lengths = |header: usize, source: &dyn Source| {
            let mut sink = Sink::new(Lengths(Vec::new()));
            sink.put(&alloc::vec![0; header]).unwrap();
            sink.copy_from(source, &Ticker::default()).unwrap();
            let lengths = sink.into_inner().0;
            assert_eq!(lengths.iter().sum::<usize>(), header + bytes.len());
            lengths
        };
        let whole = [WINDOW; 3];
        let cut = |header: usize| [WINDOW - header, WINDOW, WINDOW, header];
        assert_eq!(lengths(0, &bytes)[..], whole);
        assert_eq!(lengths(64, &bytes)[1..], cut(64));
        assert_eq!(lengths(7, &bytes)[1..], cut(7));
        let random = Elsewhere(bytes.clone(), true);
        assert_eq!(lengths(64, &random)[1..], cut(64));
        // Elements stay whole, and what is decoded from front to back has its own windows.
        assert_eq!(lengths(7, &random)[1..], whole);
        assert_eq!(lengths(64, &Elsewhere(bytes.clone(), false))[1..], whole);
        // What is less than a window is put at once.
        let small = bytes.slice(..WINDOW);
        let mut sink = Sink::new(Lengths(Vec::new()));
        sink.put(&[0]).unwrap();
        sink.copy_from(&small, &Ticker::default()).unwrap();
        assert_eq!(sink.into_inner().0, [1, WINDOW]);
    }
}
