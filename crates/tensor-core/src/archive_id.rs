use core::sync::atomic::{AtomicUsize, Ordering};

/// Ties an entry to the archive that listed it, so that reading it from another one is an error.
///
/// ```
/// use tensor_core::codec::ArchiveId;
///
/// let (one, other) = (ArchiveId::next(), ArchiveId::next());
/// assert_ne!(one, other);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArchiveId(usize);

impl ArchiveId {
    /// An id that no other archive of this process has.
    #[must_use]
    pub fn next() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
