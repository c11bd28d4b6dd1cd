//! The snapshot formats, which are read only: two with a pool of names, and one with a JSON
//! document.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::Value;
use tensor_core::codec::{ShapeId, Shapes};

use crate::Checksum;
use crate::index::Records;
use crate::limits::MAX_SIZE;
use crate::tensors::Tensors;

mod json;
pub(crate) mod manifest;
pub(crate) mod pooled;

/// What a snapshot says about itself beside its tensors.
///
/// ```no_run
/// use mag_format::Archive;
///
/// let archive = Archive::open("snapshot.mag")?;
/// let snapshot = archive.snapshot().ok_or("a file of version 1")?;
/// println!("written at {:?}", snapshot.timestamp());
/// for (key, value) in snapshot.metadata() {
///     println!("{key}: {value:?}");
/// }
/// // What only snapshot 0.3.0 says:
/// println!("{:?}", snapshot.magnetron_version());
/// println!("{:?} {:?}", snapshot.manifest_version(), snapshot.snapshot_version());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    timestamp: Timestamp,
    writer: Option<Box<Writer>>,
    metadata: Vec<(String, Value)>,
}

/// When a snapshot was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timestamp {
    /// Seconds since 1970, of snapshots 0.1.0 and 0.2.0.
    Unix(u64),
    /// What snapshot 0.3.0 has: date and time as ISO 8601 has them, unless somebody changed it.
    Text(String),
}

/// What only snapshot 0.3.0 says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Writer {
    magnetron: String,
    manifest: u64,
    snapshot: String,
}

impl Snapshot {
    /// When the file was written.
    #[must_use]
    pub fn timestamp(&self) -> &Timestamp {
        &self.timestamp
    }

    /// `magnetron_ver`, the release that wrote the file; snapshot 0.3.0 only.
    #[must_use]
    pub fn magnetron_version(&self) -> Option<&str> {
        self.writer.as_ref().map(|writer| writer.magnetron.as_str())
    }

    /// `manifest_ver`, which is 1; snapshot 0.3.0 only.
    #[must_use]
    pub fn manifest_version(&self) -> Option<u64> {
        self.writer.as_ref().map(|writer| writer.manifest)
    }

    /// `snapshot_ver` as the document has it, which no reader looks at; snapshot 0.3.0 only.
    #[must_use]
    pub fn snapshot_version(&self) -> Option<&str> {
        self.writer.as_ref().map(|writer| writer.snapshot.as_str())
    }

    /// `usr_metadata`, in its order; snapshot 0.3.0 only. Values nest up to 998 levels deep, NaN
    /// and infinities are floats, and of duplicate keys the last value counts.
    #[must_use]
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.metadata
    }
}

/// What the parser of a snapshot returns: consistent, except that names may be duplicates.
pub(crate) struct ParsedSnapshot {
    pub(crate) tensors: Tensors,
    pub(crate) checksum: Option<Checksum>,
    pub(crate) records: Option<Records>,
    pub(crate) snapshot: Snapshot,
    pub(crate) trailing: Option<u64>,
}

/// What is wrong with dims.
enum ShapeFault {
    /// One is above 2^63-1.
    Dim(u64),
    /// The product of those that are not zero is above 2^63-1.
    Product,
}

/// Checks dims, each and all of which, zeros aside, are at most 2^63-1.
fn checked_shape(dims: &[u64], shapes: &mut Shapes) -> Result<ShapeId, ShapeFault> {
    if let Some(&dim) = dims.iter().find(|&&dim| dim > MAX_SIZE) {
        return Err(ShapeFault::Dim(dim));
    }
    let full = dims.iter().filter(|&&dim| dim > 0);
    let product = full
        .copied()
        .try_fold(1u64, |product, dim| product.checked_mul(dim));
    match (product, shapes.push(dims)) {
        (Some(product), Ok(shape)) if product <= MAX_SIZE => Ok(shape),
        _ => Err(ShapeFault::Product),
    }
}
