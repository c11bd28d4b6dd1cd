use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Range;

use bytes::Bytes;

use crate::{At, Failure, FileId, Kind, Source, SourceError};

/// The bytes of a tensor that a builder has planned with: a source that must keep the length that it had
/// then, since everything after it has its place by now. Its errors name the tensor.
///
/// ```
/// use tensor_core::codec::Unchanged;
/// use tensor_core::{Bytes, Source};
///
/// let data = Unchanged::new("w", Bytes::from_static(&[1, 2, 3]));
/// assert_eq!(data.read(0..3)?, Bytes::from_static(&[1, 2, 3]));
/// # Ok::<(), tensor_core::SourceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Unchanged<S> {
    name: Box<str>,
    inner: S,
    size: u64,
}

impl<S: Source> Unchanged<S> {
    /// Takes the length of `inner` as that of the tensor of this name.
    pub fn new(name: impl Into<Box<str>>, inner: S) -> Self {
        Self {
            name: name.into(),
            size: inner.size(),
            inner,
        }
    }

    /// Such a source behind a pointer, as builders keep it. What lies in memory can't change, and an open file
    /// has the length that it was opened with or fails to be read: those are kept as they are.
    ///
    /// ```
    /// use tensor_core::codec::Unchanged;
    /// use tensor_core::{Bytes, Source};
    ///
    /// let kept = Unchanged::shared("w", Bytes::from_static(b"data"));
    /// assert_eq!(kept.read(0..4)?, &b"data"[..]);
    /// # Ok::<(), tensor_core::SourceError>(())
    /// ```
    pub fn shared(name: &str, inner: S) -> Arc<dyn Source>
    where
        S: 'static,
    {
        match inner.contiguous().is_some() || inner.file().is_some() {
            true => Arc::new(inner),
            false => Arc::new(Self::new(name, inner)),
        }
    }

    fn check_size(&self) -> Result<(), SourceError> {
        let (expected, got) = (self.size, self.inner.size());
        if expected == got {
            return Ok(());
        }
        let name = self.name.clone().into();
        Err(SourceError::Codec(Box::new(Changed {
            name,
            expected,
            got,
        })))
    }
}

impl<S: Source> Source for Unchanged<S> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check_size()?;
        let read = self.inner.read_into(offset, out);
        // That it got shorter is more to the point than that it could not be read.
        self.check_size()?;
        read.map_err(|error| error.of_tensor(&self.name, None))
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
        self.check_size()?;
        let read = self.inner.read(range);
        self.check_size()?;
        read.map_err(|error| error.of_tensor(&self.name, None))
    }

    fn contiguous(&self) -> Option<&Bytes> {
        self.inner.contiguous()
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

/// A deferred tensor's bytes have another length than when it was added.
#[derive(Debug, thiserror::Error)]
#[error("tensor {name:?} had {expected} bytes when it was added, and has {got} now")]
struct Changed {
    name: String,
    expected: u64,
    got: u64,
}

impl Failure for Changed {
    fn kind(&self) -> Kind {
        Kind::Build
    }

    fn rule_id(&self) -> Option<&'static str> {
        None
    }

    fn at(&self) -> Option<At> {
        None
    }

    fn tensor(&self) -> Option<&str> {
        Some(&self.name)
    }
}
