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
    vec: Vec<u8>,
    start: usize,
    len: usize,
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
                vec: Vec::new(),
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
        Ok(Self { vec, start, len })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    pub fn copy_of(bytes: &[u8]) -> Result<Self, SourceError> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.as_mut_slice().copy_from_slice(bytes);
        Ok(buffer)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.vec
            .get(self.start..)
            .and_then(|rest| rest.get(..self.len))
            .unwrap_or_default()
    }

    /// The bytes, to be filled.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let len = self.len;
        self.vec
            .get_mut(self.start..)
            .and_then(|rest| rest.get_mut(..len))
            .unwrap_or_default()
    }

    /// Keeps only the first `len` bytes; no effect if there are fewer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The buffer as cheaply cloned, immutable bytes. Nothing is copied.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        let (start, len) = (self.start, self.len);
        Bytes::from(self.vec).slice(start..start + len)
    }
}
