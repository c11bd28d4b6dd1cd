use alloc::sync::Arc;
use core::ops::Range;

use crate::{Bytes, Source, SourceError, UsageError, Window};

/// The bytes of one tensor where a file stores them: what an archive reads once it has found an entry.
/// Errors of the source name the tensor.
///
/// ```
/// use std::sync::Arc;
/// use tensor_core::codec::StoredBytes;
/// use tensor_core::{Bytes, Source, SourceError};
///
/// let file: Arc<dyn Source> = Arc::new(Bytes::from_static(b"head, data"));
/// let stored = StoredBytes::new(&file, "w", 6..10);
/// assert_eq!(stored.read()?, &b"data"[..]);
/// assert_eq!(stored.to_source()?.size(), 4);
///
/// /// A codec's error.
/// #[derive(Debug)]
/// struct Failed(String);
/// # impl From<tensor_core::UsageError> for Failed { fn from(error: tensor_core::UsageError) -> Self { Self(error.to_string()) } }
/// # impl From<SourceError> for Failed { fn from(error: SourceError) -> Self { Self(error.to_string()) } }
///
/// let mut data = [0; 4];
/// let read: Result<(), Failed> = stored.read_into(&mut data);
/// assert!(read.is_ok() && data == *b"data");
/// let short: Result<(), Failed> = stored.read_into(&mut [0; 3]);
/// assert_eq!(short.unwrap_err().0, "tensor \"w\": a buffer of 3 bytes for 4");
/// # Ok::<(), SourceError>(())
/// ```
#[derive(Clone)]
pub struct StoredBytes<'a> {
    source: &'a Arc<dyn Source>,
    tensor: &'a str,
    range: Range<u64>,
}

impl<'a> StoredBytes<'a> {
    /// The bytes of `range` in `source`, which are those of the tensor with this name.
    pub fn new(source: &'a Arc<dyn Source>, tensor: &'a str, range: Range<u64>) -> Self {
        Self {
            source,
            tensor,
            range,
        }
    }

    /// The bytes: a slice where the source is memory, else one read into an aligned buffer.
    ///
    /// # Errors
    /// What the source fails with.
    pub fn read(&self) -> Result<Bytes, SourceError> {
        let read = self.source.read(self.range.clone());
        read.map_err(|error| self.named(error))
    }

    /// Reads the bytes into `out`, which has their exact length.
    ///
    /// # Errors
    /// [`UsageError::BufferLength`], and what the source fails with.
    pub fn read_into<E: From<UsageError> + From<SourceError>>(
        &self,
        out: &mut [u8],
    ) -> Result<(), E> {
        let len = self.range.end.saturating_sub(self.range.start);
        UsageError::check_buffer(self.tensor, len, out)?;
        let read = self.source.read_into(self.range.start, out);
        Ok(read.map_err(|error| self.named(error))?)
    }

    /// The bytes as a source of their own, which holds on to that of the file.
    ///
    /// # Errors
    /// [`SourceError`] where the source is shorter than that.
    pub fn to_source(&self) -> Result<Arc<dyn Source>, SourceError> {
        Ok(Arc::new(Window::new(
            self.source.clone(),
            self.range.clone(),
        )?))
    }

    fn named(&self, error: SourceError) -> SourceError {
        error.of_tensor(self.tensor, Some(self.range.start))
    }
}

impl core::fmt::Debug for StoredBytes<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StoredBytes")
            .field("tensor", &self.tensor)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}
