use alloc::vec::Vec;

use bytes::Bytes;

use crate::SourceError;

/// From this size on a buffer starts on a page.
const LARGE: usize = 1 << 20;
const PAGE: usize = 4096;
const LINE: usize = 64;

/// A zeroed byte buffer whose first byte lies on a 64-byte boundary, or on a page boundary from
/// 1 MiB up: aligned for every element type, and for the fast paths of positional reads.
///
/// ```
/// let mut buffer = tensor_core::AlignedBytes::zeroed(1000)?;
/// buffer.as_mut_slice()[0] = 7;
/// let bytes = buffer.freeze();
/// assert_eq!(bytes.as_ptr() as usize % 64, 0);
/// assert_eq!(bytes.len(), 1000);
/// # Ok::<(), tensor_core::SourceError>(())
/// ```
#[derive(Debug)]
pub struct AlignedBytes {
    memory: Memory,
    start: usize,
    len: usize,
}

#[derive(Debug)]
enum Memory {
    Vec(Vec<u8>),
    #[cfg(all(feature = "mmap", target_os = "linux"))]
    Map(memmap2::MmapMut),
}

impl AlignedBytes {
    /// `len` zero bytes. Large ones come lazily from the operating system.
    ///
    /// # Errors
    /// [`SourceError::OutOfMemory`] where the allocator refuses.
    pub fn zeroed(len: usize) -> Result<Self, SourceError> {
        let align = if len >= LARGE { PAGE } else { LINE };
        if len == 0 {
            return Ok(Self {
                memory: Memory::Vec(Vec::new()),
                start: 0,
                len,
            });
        }
        let no_memory = || SourceError::OutOfMemory(len as u64);
        let padded = len
            .checked_add(align - 1)
            .filter(|&n| n <= isize::MAX as usize);
        let padded = padded.ok_or_else(no_memory)?;
        // A buffer too large for this machine must be an error, not an abort; asking first for
        // the reservation would lose the lazy zeros, so only implausible sizes ask.
        if padded >= 16 << 20 {
            let mut probe = Vec::<u8>::new();
            probe.try_reserve_exact(padded).map_err(|_| no_memory())?;
        }
        let vec = alloc::vec![0u8; padded];
        let start = vec.as_ptr().align_offset(align).min(align - 1);
        Ok(Self {
            memory: Memory::Vec(vec),
            start,
            len,
        })
    }

    /// `len` zero bytes that the operating system has at hand already, in large pages where it has
    /// those: for what is about to be filled as a whole. `None` where that is no faster than to let it
    /// find each page when it is first touched.
    #[cfg(feature = "std")]
    pub(crate) fn at_hand(len: usize) -> Option<Self> {
        #[cfg(all(feature = "mmap", target_os = "linux"))]
        {
            let map = at_hand::map(len)?;
            Some(Self {
                memory: Memory::Map(map),
                start: 0,
                len,
            })
        }
        #[cfg(not(all(feature = "mmap", target_os = "linux")))]
        {
            let _ = len;
            None
        }
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    ///
    /// ```
    /// use tensor_core::AlignedBytes;
    ///
    /// let mut buffer = AlignedBytes::copy_of(b"weights and a tail")?;
    /// buffer.truncate(7);
    /// assert_eq!(buffer.freeze(), &b"weights"[..]);
    /// # Ok::<(), tensor_core::SourceError>(())
    /// ```
    pub fn copy_of(bytes: &[u8]) -> Result<Self, SourceError> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.as_mut_slice().copy_from_slice(bytes);
        Ok(buffer)
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        #[allow(
            clippy::infallible_destructuring_match,
            reason = "a build may have one kind of memory only"
        )]
        let all: &[u8] = match &self.memory {
            Memory::Vec(vec) => vec,
            #[cfg(all(feature = "mmap", target_os = "linux"))]
            Memory::Map(map) => map,
        };
        all.get(self.start..)
            .and_then(|rest| rest.get(..self.len))
            .unwrap_or_default()
    }

    /// The bytes, to be filled.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let len = self.len;
        #[allow(
            clippy::infallible_destructuring_match,
            reason = "a build may have one kind of memory only"
        )]
        let all: &mut [u8] = match &mut self.memory {
            Memory::Vec(vec) => vec,
            #[cfg(all(feature = "mmap", target_os = "linux"))]
            Memory::Map(map) => map,
        };
        all.get_mut(self.start..)
            .and_then(|rest| rest.get_mut(..len))
            .unwrap_or_default()
    }

    /// Keeps only the first `len` bytes; no effect if there are fewer.
    ///
    /// ```
    /// use tensor_core::AlignedBytes;
    ///
    /// let mut buffer = AlignedBytes::zeroed(4096)?;
    /// buffer.truncate(100);
    /// assert_eq!(buffer.as_slice().len(), 100);
    /// # Ok::<(), tensor_core::SourceError>(())
    /// ```
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The buffer as cheaply cloned, immutable bytes. Nothing is copied.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        let (start, len) = (self.start, self.len);
        let bytes = match self.memory {
            Memory::Vec(vec) => Bytes::from(vec),
            #[cfg(all(feature = "mmap", target_os = "linux"))]
            Memory::Map(map) => Bytes::from_owner(map),
        };
        bytes.slice(start..start + len)
    }
}

/// New memory page by page costs more than the read that fills it, and with several threads in it more
/// yet on some systems. Asked for at once it costs half, in pages of 2 MiB a fraction.
#[cfg(all(feature = "mmap", target_os = "linux"))]
mod at_hand {
    use core::sync::atomic::{AtomicU32, Ordering};
    use core::time::Duration;
    use std::time::Instant;

    use memmap2::{Advice, MmapMut};

    /// Bytes that are asked for at a time.
    const STEP: usize = 16 << 20;

    /// What that may take; page by page it takes a tenth. Where memory is in pieces, the system may
    /// search long for large pages.
    const PATIENCE: Duration = Duration::from_millis(100);

    /// Rises where it took longer, by more than it falls where it did not: once, another program may
    /// have had the processor.
    static SLOWNESS: AtomicU32 = AtomicU32::new(0);
    const RISE: u32 = 4;
    const TOO_SLOW: u32 = 3 * RISE;

    pub(super) fn map(len: usize) -> Option<MmapMut> {
        if SLOWNESS.load(Ordering::Relaxed) >= TOO_SLOW {
            return None;
        }
        let map = MmapMut::map_anon(len).ok()?;
        // Without large pages it is still worth asking for all at once.
        let _ = map.advise(Advice::HugePage);
        for start in (0..len).step_by(STEP) {
            let began = Instant::now();
            let step = STEP.min(len - start);
            if map
                .advise_range(Advice::PopulateWrite, start, step)
                .is_err()
            {
                // The system does not know how.
                SLOWNESS.store(TOO_SLOW, Ordering::Relaxed);
                return None;
            }
            let is_slow = began.elapsed() > PATIENCE;
            let next = |slowness: u32| match slowness {
                TOO_SLOW.. => None,
                _ if is_slow => Some(slowness + RISE),
                _ => slowness.checked_sub(1),
            };
            let change = SLOWNESS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            if change.is_ok_and(|before| is_slow && before + RISE >= TOO_SLOW) {
                break;
            }
        }
        Some(map)
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn memory_at_hand_is_zero_starts_on_a_page_and_can_be_filled() {
        for len in [1, 4096, (5 << 20) + 3] {
            // Only a system that is too slow at it has none.
            let Some(mut buffer) = AlignedBytes::at_hand(len) else {
                continue;
            };
            assert_eq!(buffer.as_slice().len(), len);
            assert!(buffer.as_slice().iter().all(|&byte| byte == 0));
            assert_eq!(buffer.as_slice().as_ptr().align_offset(PAGE), 0);
            buffer.as_mut_slice().fill(7);
            buffer.truncate(len - 1);
            let bytes = buffer.freeze();
            assert_eq!(bytes.len(), len - 1);
            assert!(bytes.iter().all(|&byte| byte == 7));
        }
    }
}
