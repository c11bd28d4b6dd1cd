//! Read, write and verify `.safetensors` files.
//!
//! ```text
//! +--------------------+ 0
//! | n                  | 8 bytes: length of the header
//! +--------------------+ 8
//! | header             | n bytes of JSON: "__metadata__", and for each tensor its dtype, its shape
//! |                    | and where its data begins and ends; may be filled up with spaces
//! +--------------------+ 8 + n
//! | data               | row-major, little-endian; no byte of it is nobody's, or two tensors'
//! +--------------------+
//! ```
//!
//! Opening reads the header, never the data:
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.safetensors");
//! # let mut builder = safetensors_format::Builder::new();
//! # let weight = safetensors_format::Tensor::from_slice(&[0.5f32, 1.5], &[2])?;
//! # builder.tensor("encoder.weight", weight)?.metadata("format", "pt")?;
//! # builder.write_file(&path)?;
//! let archive = safetensors_format::Archive::open(&path)?;
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
//! use safetensors_format::{Archive, Builder, Tensor};
//!
//! let mut builder = Builder::new();
//! builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?)?;
//! builder.metadata("format", "pt")?;
//! let file = builder.to_vec()?;
//! assert_eq!(file.len() as u64, builder.encoded_len()?);
//!
//! let archive = Archive::from_bytes(file)?;
//! assert_eq!(archive.metadata()[0].value(), "pt");
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
//! With default features off the crate is `no_std` and needs only `alloc`.

#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod dtype;
mod edit;
mod entry;
mod error;
mod index;
mod json;
mod layout;
mod limits;
mod meta;
mod read;
mod rule;
#[cfg(feature = "std")]
mod set;
mod write;

pub use dtype::DTypeCode;
pub use entry::Entry;
pub use error::{BuildError, Error, Safetensors, TRUNCATED};
pub use limits::Limits;
pub use meta::{Extra, MetaEntry};
pub use read::{Archive, ReadOptions};
pub use rule::{Rule, Unsupported};
#[cfg(feature = "std")]
pub use set::Set;
#[cfg(feature = "mmap")]
pub use tensor_core::MappedFile;
pub use tensor_core::{
    At, Bytes, CastError, DType, Element, Entries, Item, Kind, LimitExceeded, Order, Outcome,
    Parts, Progress, Report, Shape, ShapeError, SinkError, Source, SourceError, StrideError,
    Tensor, TensorSpec, Truncated, UsageError, Value, VerifyOptions, Window, WriteOptions, bf16,
    f16,
};
#[cfg(feature = "std")]
pub use tensor_core::{FileError, FileSource, SetOutput};
pub use write::{Builder, TensorOptions};

/// What this crate's functions return.
pub type Result<T, E = Error> = core::result::Result<T, E>;
