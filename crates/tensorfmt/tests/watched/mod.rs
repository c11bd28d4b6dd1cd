//! A source that tells what was asked of it.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use tensor_core::SourceError;
use tensorfmt::{Bytes, Source};

/// Bytes, and which of them were asked for.
pub(crate) struct Watched {
    pub(crate) bytes: Bytes,
    pub(crate) asked: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Source for Watched {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(offset..offset + out.len() as u64);
        self.bytes.read_into(offset, out)
    }
}
