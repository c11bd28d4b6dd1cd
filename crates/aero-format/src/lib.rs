//! Read, write and verify AERO 0.1 tensor files, and AEROSET folders of them.
//!
//! ```text
//! +--------------------+ 0
//! | header             | 96 bytes: magic "AERO", version 0.1, where TOC and string table are, uuid
//! +--------------------+ 96
//! | TOC                | 16 bytes, then 80 for each chunk: fourcc, flags, place, name, BLAKE3
//! +--------------------+ multiple of 8
//! | string table       | names of the chunks
//! +--------------------+ multiple of 16, each
//! | chunks             | MJSN and MMSG metadata, TIDX tensor index, WTSH raw weights, hashes
//! +--------------------+
//! ```
//!
//! Opening reads header, TOC, string table and TIDX, never a weight:
//!
//! ```
//! use aero_format::{Archive, Builder, Tensor, VerifyOptions};
//!
//! let mut builder = Builder::new();
//! builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?)?;
//! builder.metadata("step", 7i64)?;
//! let archive = Archive::from_bytes(builder.to_vec()?)?;
//!
//! let entry = archive.entry("w").ok_or("no such tensor")?;
//! assert_eq!(archive.read(entry)?.as_slice::<f32>()?, &[1.0, 2.0, 3.0, 4.0]);
//! assert!(!archive.verify(&VerifyOptions::default())?.has_failed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A set is opened by its JSON; its parts are opened when they are needed:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.aeroset.json");
//! # let mut builder = aero_format::Builder::new();
//! # builder.tensor("w", aero_format::Tensor::from_slice(&[0.5f32], &[1])?)?;
//! # builder.write_set(&path)?;
//! let set = aero_format::Set::open(&path)?;
//! let entry = set.entry("w").ok_or("no such tensor")?;
//! assert_eq!(set.read(entry)?.as_slice::<f32>()?, &[0.5]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | files and sets |
//! | `zstd` | yes | compressed metadata chunks, which every real file has |
//! | `mmap` | no | [`MappedFile`](tensor_core), for zero-copy reads |
//! | `rayon` | no | hashing on several threads |
//!
//! With default features off the crate is `no_std` and needs only `alloc`.

#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod chunk;
mod dtype;
mod entry;
mod error;
mod index;
mod integrity;
mod layout;
mod limits;
mod meta;
mod msgpack;
mod options;
mod pass;
mod payload;
mod read;
mod rule;
#[cfg(feature = "std")]
mod set;
#[cfg(feature = "std")]
mod set_json;
mod style;
mod tensors;
mod tree;
mod verify;
mod write;

pub use chunk::{Chunk, FourCc};
pub use dtype::DTypeCode;
pub use entry::Entry;
pub use error::{Aero, BuildError, Error, TRUNCATED};
pub use layout::MAGIC;
pub use limits::Limits;
pub use meta::MetaEntry;
pub use options::ReadOptions;
pub use read::Archive;
pub use rule::{Digest, Rule, Unsupported};
#[cfg(feature = "std")]
pub use set::Set;
pub use style::Style;
#[cfg(feature = "mmap")]
pub use tensor_core::MappedFile;
pub use tensor_core::{
    At, Bytes, CastError, DType, Element, Entries, Item, Kind, LimitExceeded, Order, Outcome,
    Parts, Progress, Report, Shape, ShapeError, SinkError, Source, SourceError, StrideError,
    Tensor, TensorSpec, Truncated, UsageError, Value, VerifyOptions, Version, Window, WriteOptions,
    bf16, f16,
};
#[cfg(feature = "std")]
pub use tensor_core::{FileError, FileSource, SetOutput};
pub use write::{Builder, TensorOptions};
#[cfg(feature = "std")]
pub use write::{IndexStyle, JoinedPart};

/// What this crate's functions return.
pub type Result<T, E = Error> = core::result::Result<T, E>;
