//! Read, write and verify `.mag` files, format version 1, as magnetron 0.1.2 writes them; read
//! the snapshots of later releases.
//!
//! ```text
//! +--------------------+ 0
//! | header             | 24 bytes: magic "MAG!", version, checksum, num_tensors, num_meta_kv, aux
//! +--------------------+ 24
//! | metadata records   | 16 + key bytes each: type, payload (i64 or f64), key
//! +--------------------+
//! | tensor records     | 24 + 8 * rank + key bytes each: dtype, rank, numel, offset, shape, key
//! +--------------------+ next multiple of 64
//! | tensor data        | row-major, little-endian; each at a multiple of 64, padded with 0xFF
//! +--------------------+
//! ```
//!
//! Opening reads header and records, never the data:
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.mag");
//! # let mut builder = mag_format::Builder::new();
//! # builder.tensor("encoder.weight", mag_format::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
//! # builder.metadata("step", 7i64)?;
//! # builder.write_file(&path)?;
//! let archive = mag_format::Archive::open(&path)?;
//! for entry in archive.entries() {
//!     println!("{} {:?} {}", entry.name(), entry.dtype(), entry.shape());
//! }
//! let entry = archive.entry("encoder.weight").ok_or("no such tensor")?;
//! let weight = archive.read(entry)?;
//! assert_eq!(weight.as_slice::<f32>()?, &[0.5, 1.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Writing collects tensors, then writes once:
//!
//! ```
//! use mag_format::{Archive, Builder, MetaValue, Tensor};
//!
//! let mut builder = Builder::new();
//! builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?)?;
//! builder.metadata("lr", 0.5)?;
//! let file = builder.to_vec()?;
//! assert_eq!(file.len() as u64, builder.encoded_len()?);
//!
//! let archive = Archive::from_bytes(file)?;
//! assert_eq!(archive.metadata()[0].value(), MetaValue::F64(0.5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Snapshots
//!
//! Since 0.1.5 magnetron writes other layouts into files of the same name. With the feature
//! `snapshots` they open as the same [`Archive`], read-only; without it they are refused by name.
//! [`Archive::generation`] tells which one a file has.
//!
//! ```text
//! snapshots 0.1.0, 0.2.0                       snapshot 0.3.0
//! +----------------------+ 0                   +------------------+ 0
//! | header               | 32 bytes            | header           | 44 bytes
//! +----------------------+ 32                  +------------------+ 44
//! | "SRP!" names         |                     | JSON document    | versions, metadata, tensors
//! | "MDT!"               |                     +------------------+ next multiple of 4096
//! | "DSC!" descriptors   |                     | tensor data      | each at a multiple of 4096
//! | "BUF!"               |                     +------------------+
//! +----------------------+ next multiple of 16 in 0.2.0
//! | tensor data          | dense in 0.1.0, each at a multiple of 16 in 0.2.0
//! +----------------------+
//! ```
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | files, the hardware CRC-32C |
//! | `mmap` | no | [`MappedFile`](tensor_core), for zero-copy reads |
//! | `rayon` | no | work on several threads |
//! | `snapshots` | no | reading snapshots 0.1.0, 0.2.0 and 0.3.0, of magnetron 0.1.5 to 0.2.2 |
//!
//! With default features off the crate is `no_std` and needs only `alloc`.

#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod dtype;
mod edit;
mod entry;
mod error;
mod generation;
mod index;
mod layout;
mod limits;
mod meta;
mod read;
mod rule;
#[cfg(feature = "snapshots")]
mod snapshot;
mod tensors;
mod write;

pub use dtype::DTypeCode;
pub use entry::Entry;
pub use error::{BuildError, Error, Mag, TRUNCATED};
pub use generation::Generation;
pub use layout::MAGIC;
pub use limits::Limits;
pub use meta::{MetaEntry, MetaValue};
pub use read::{Archive, Checksum, ReadOptions};
pub use rule::{Rule, Unsupported};
#[cfg(feature = "snapshots")]
pub use snapshot::{Snapshot, Timestamp};
#[cfg(feature = "mmap")]
pub use tensor_core::MappedFile;
pub use tensor_core::{
    At, Bytes, CastError, DType, Element, Entries, Item, Kind, LimitExceeded, Order, Outcome,
    Progress, Report, Shape, ShapeError, SinkError, Source, SourceError, StrideError, Tensor,
    TensorSpec, Truncated, UsageError, Value, VerifyOptions, Version, Window, WriteOptions, bf16,
    f16,
};
#[cfg(feature = "std")]
pub use tensor_core::{FileError, FileSource};
pub use write::Builder;

/// What this crate's functions return.
pub type Result<T, E = Error> = core::result::Result<T, E>;
