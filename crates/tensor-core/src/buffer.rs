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

    /// `len` zero bytes in pages of their own where the system gives them, else as [`zeroed`](Self::zeroed):
    /// what [`fill`](crate::codec::fill) fills fastest.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    ///
    /// ```
    /// let buffer = tensor_core::AlignedBytes::new_pages(1 << 20)?;
    /// assert!(buffer.as_slice().iter().all(|&byte| byte == 0));
    /// # Ok::<(), tensor_core::SourceError>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn new_pages(len: usize) -> Result<Self, SourceError> {
        #[cfg(all(feature = "mmap", target_os = "linux"))]
        if let Ok(map) = memmap2::MmapMut::map_anon(len) {
            return Ok(Self {
                memory: Memory::Map(map),
                start: 0,
                len,
            });
        }
        Self::zeroed(len)
    }

    /// Whether its pages can be asked for.
    #[cfg(feature = "std")]
    pub(crate) fn has_pages(&self) -> bool {
        !matches!(self.memory, Memory::Vec(_))
    }

    /// Asks for the pages of a range, which starts and ends at a page, at once. `false` where the system
    /// can't do that.
    #[cfg(feature = "std")]
    pub(crate) fn populate(&self, start: usize, end: usize) -> bool {
        let _ = (start, end);
        match &self.memory {
            Memory::Vec(_) => false,
            #[cfg(all(feature = "mmap", target_os = "linux"))]
            Memory::Map(map) => map
                .advise_range(memmap2::Advice::PopulateWrite, start, end - start)
                .is_ok(),
        }
    }

    /// Asks for large pages in a range, which starts and ends at a page. `false` where the system has none.
    #[cfg(feature = "std")]
    pub(crate) fn ask_for_large_pages(&self, start: usize, end: usize) -> bool {
        let _ = (start, end);
        match &self.memory {
            Memory::Vec(_) => false,
            #[cfg(all(feature = "mmap", target_os = "linux"))]
            Memory::Map(map) => map
                .advise_range(memmap2::Advice::HugePage, start, end - start)
                .is_ok(),
        }
    }

    /// The bytes from `start` to `end`, as far as there are any.
    #[cfg(feature = "std")]
    pub(crate) fn piece(&mut self, start: usize, end: usize) -> &mut [u8] {
        self.as_mut_slice().get_mut(start..end).unwrap_or_default()
    }

    /// The first place after `start` whose address is a multiple of `step`.
    #[cfg(feature = "std")]
    pub(crate) fn next_boundary(&self, start: usize, step: usize) -> usize {
        let address = self.as_slice().as_ptr() as usize;
        start + step - address.wrapping_add(start) % step
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

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn new_pages_are_zero_start_on_a_page_and_can_be_filled() {
        for len in [1, 4096, (5 << 20) + 3] {
            let mut buffer = AlignedBytes::new_pages(len).unwrap();
            assert_eq!(buffer.populate(0, len), buffer.has_pages());
            assert_eq!(buffer.as_slice().len(), len);
            assert!(buffer.as_slice().iter().all(|&byte| byte == 0));
            if len >= LARGE {
                assert_eq!(buffer.as_slice().as_ptr().align_offset(PAGE), 0);
            }
            buffer.as_mut_slice().fill(7);
            buffer.truncate(len - 1);
            let bytes = buffer.freeze();
            assert_eq!(bytes.len(), len - 1);
            assert!(bytes.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn a_boundary_is_the_next_multiple_of_an_address() {
        let buffer = AlignedBytes::new_pages(1 << 20).unwrap();
        let address = buffer.as_slice().as_ptr() as usize;
        for start in [0, 1, 4095, 4096, 70_000] {
            let next = buffer.next_boundary(start, 8192);
            assert!(next > start && next <= start + 8192);
            assert_eq!((address + next) % 8192, 0);
        }
    }
}
