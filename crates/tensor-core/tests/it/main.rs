//! Integration tests of the core, over its public API only.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may stop at the first surprise"
)]

mod adapters;
mod files;
mod strided;
mod targets;
mod tensors;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use tensor_core::{Bytes, Source, SourceError};

/// A source that is not memory and remembers what was asked of it.
#[derive(Clone)]
struct Traced {
    bytes: Bytes,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Traced {
    fn new(bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            reads: Arc::default(),
        }
    }

    fn reads(&self) -> Vec<Range<u64>> {
        self.reads.lock().unwrap().clone()
    }
}

impl Source for Traced {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.reads
            .lock()
            .unwrap()
            .push(offset..offset + out.len() as u64);
        self.bytes.read_into(offset, out)
    }
}
