//! What picks a tensor of an archive.

use crate::{Archive, Entry, Result};

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Entry<'_> {}
    impl Sealed for &str {}
    impl Sealed for &String {}
}

/// What picks a tensor of an [`Archive`]: one of its entries, or a name.
pub trait Select<'a>: sealed::Sealed {
    /// The entry.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`](crate::Error::NoSuchTensor), naming the nearest names.
    fn select(self, archive: &'a Archive) -> Result<Entry<'a>>;
}

impl<'a> Select<'a> for Entry<'a> {
    fn select(self, _: &'a Archive) -> Result<Entry<'a>> {
        Ok(self)
    }
}

impl<'a> Select<'a> for &str {
    fn select(self, archive: &'a Archive) -> Result<Entry<'a>> {
        let entry = archive.entry(self);
        entry.ok_or_else(|| archive.no_such_tensor(self))
    }
}

impl<'a> Select<'a> for &String {
    fn select(self, archive: &'a Archive) -> Result<Entry<'a>> {
        self.as_str().select(archive)
    }
}
