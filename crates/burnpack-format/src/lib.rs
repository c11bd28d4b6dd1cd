//! Read, write and verify burnpack (`.bpk`) files, in which the Burn framework keeps models,
//! optimizers and schedulers: every generation from burn-store 0.19 to burn-pack 0.23.
//!
//! ```text
//! +--------------------+ 0
//! | header             | 10 bytes: magic "NRUB", version, metadata_size
//! +--------------------+ 10
//! | metadata           | a CBOR map: tensors (dtype, shape, data_offsets, param_id by name),
//! |                    | metadata (text to text), scalars
//! +--------------------+ next multiple of 256; in files of burn-store 0.19 at once
//! | data section       | row-major, little-endian; each tensor at a multiple of 256, padded with
//! |                    | zeros; in files of burn-store 0.19 without gaps
//! +--------------------+
//! ```
//!
//! All generations say version 1. They are told apart by content; see [`Layout`] and
//! [`Generation`].
//!
//! Opening reads header and metadata, never the data:
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.bpk");
//! # let mut builder = burnpack_format::Builder::new();
//! # builder.tensor("encoder.weight", burnpack_format::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
//! # builder.write_file(&path)?;
//! let archive = burnpack_format::Archive::open(&path)?;
//! for entry in archive.entries() {
//!     println!("{} {} {}", entry.name(), entry.dtype_code(), entry.shape());
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
//! use burnpack_format::{Archive, Builder, Scalar, Tensor, TensorOptions};
//!
//! let mut builder = Builder::new();
//! let w = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! builder.tensor_with("w", w, TensorOptions::new().with_param_id(42))?;
//! builder.metadata("producer", "me")?.scalar("step", 1000u64)?;
//! let file = builder.to_vec()?;
//! assert_eq!(file.len() as u64, builder.encoded_len()?);
//!
//! let archive = Archive::from_bytes(file)?;
//! assert_eq!(archive.scalars()[0].value(), &Scalar::UInt(1000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | files |
//! | `mmap` | no | [`MappedFile`](tensor_core), for zero-copy reads |
//! | `rayon` | no | work on several threads |
//!
//! With default features off the crate is `no_std` and needs only `alloc`; tensors of a
//! `&'static [u8]` are slices of it.

#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod cbor;
mod dtype;
mod edit;
mod entry;
mod error;
mod generation;
mod index;
mod layout;
mod limits;
mod meta;
mod quant;
mod read;
mod rule;
mod write;

pub use dtype::{BoolStore, DTypeCode};
pub use entry::Entry;
pub use error::{BuildError, Burnpack, Error, TRUNCATED};
pub use generation::Generation;
pub use layout::{Layout, MAGIC};
pub use limits::{Limits, WriteLimits};
pub use meta::{MetaEntry, Scalar, ScalarEntry};
pub use quant::{
    BlockSize, QuantBlock, QuantGeneration, QuantMode, QuantParam, QuantScheme, QuantStore,
    QuantValue,
};
pub use read::{Archive, ReadOptions};
pub use rule::{Rule, Unsupported};
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
pub use write::{Builder, Compat, TensorOptions};

/// What this crate's functions return.
pub type Result<T, E = Error> = core::result::Result<T, E>;
