//! What the manifests of generations 1 and 2 have in common: maps of maps in CBOR, objects made
//! of components, and how these become entries.

#![deny(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::{At, Bytes, LimitExceeded, Source, Truncated};

use crate::checksum::Checksum;
use crate::{Error, ReadOptions, Result};

mod assembly;
mod element_type;
mod parser;

pub(crate) use assembly::{Assembly, Owner, Resolved};
pub(crate) use element_type::{ElementType, element_type};
pub(crate) use parser::{Object, Parser, Written};

/// The most that a manifest may have, by the readers of generation 1 and the text of 2.
pub(crate) const MAX_MANIFEST: u64 = 1 << 30;
/// What a file says beside its tensors.
#[derive(Debug, Default)]
pub(crate) struct About {
    /// The encoded map, empty where there is none.
    pub(crate) attributes: Bytes,
    /// `version` as it is written.
    pub(crate) version: Box<str>,
    pub(crate) generator: Option<Box<str>>,
    pub(crate) shards: Vec<Shard>,
    /// A file that only holds data for another one.
    pub(crate) is_data_shard: bool,
}

/// Another file that has data of this one.
///
/// ```no_run
/// use ztensor_format::Archive;
///
/// let archive = Archive::open("model.zt")?;
/// for shard in archive.shards() {
///     println!("{}: {} bytes, {}", shard.label(), shard.size(), shard.digest());
/// }
/// # Ok::<(), ztensor_format::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub(crate) label: Box<str>,
    pub(crate) size: u64,
    pub(crate) digest: Checksum,
}

impl Shard {
    /// Its label, which is no path.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The digest of the whole file.
    #[must_use]
    pub fn digest(&self) -> &Checksum {
        &self.digest
    }
}

/// The manifest as bytes, after its length was held against the file and the limits.
pub(crate) fn bytes(
    source: &dyn Source,
    range: Range<u64>,
    options: &ReadOptions,
) -> Result<Bytes> {
    let (value, max) = (
        range.end.saturating_sub(range.start),
        options.limits.max_manifest_bytes,
    );
    if value > max {
        let (limit, at) = ("max_manifest_bytes", At::new(range.start, "manifest"));
        return Err(Error::Limit(LimitExceeded {
            limit,
            value,
            max,
            at,
        }));
    }
    Ok(source.read(range)?)
}

/// A u64 of the file's frame.
pub(crate) fn field(source: &dyn Source, offset: u64) -> Result<u64> {
    let mut field = [0; 8];
    source.read_into(offset, &mut field)?;
    Ok(u64::from_le_bytes(field))
}

pub(crate) fn truncated(field: &'static str, needed: u64, available: u64) -> Error {
    let at = At::new(0, field);
    Error::from(Truncated {
        at,
        needed,
        available,
    })
}
