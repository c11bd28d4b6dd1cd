//! Read, write and verify `.zt` files of zTensor 0.1, as its crates and packages 0.1.0 to 0.1.4
//! and the drafts before them write them.
//!
//! ```text
//! +------------------+ 0
//! | magic            | 8 bytes: "ZTEN0001"
//! +------------------+ next multiple of 64
//! | tensor data      | raw or zstd, row-major; each at a multiple of 64
//! +------------------+
//! | index            | one CBOR array with a map per tensor: name, offset, size, dtype, layout,
//! |                  | shape, encoding, data_endianness, checksum, and fields of the user's own
//! +------------------+ 8 bytes before the end
//! | index size       | u64, little-endian
//! +------------------+
//! ```
//!
//! With the feature `generations`, files of zTensor 1.0, 1.1, 1.2 and 2 open as well, read-only: a
//! dense object is one entry, any other one is an entry for each of its components, called
//! `<object>/<component>`. `Archive::generation` tells which it is.
//!
//! Opening reads the index, never the data:
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```ignore")]
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.zt");
//! # let mut builder = ztensor_format::Builder::new();
//! # builder.tensor("encoder.weight", ztensor_format::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
//! # builder.write_file(&path)?;
//! let archive = ztensor_format::Archive::open(&path)?;
//! for entry in archive.entries() {
//!     println!("{} {} {}", entry.name(), entry.dtype_name(), entry.shape());
//! }
//! let entry = archive.entry("encoder.weight").ok_or("no such tensor")?;
//! let weight = archive.read(entry)?;
//! assert_eq!(weight.as_slice::<f32>()?, &[0.5, 1.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Writing collects tensors, then writes once:
//!
#![cfg_attr(feature = "zstd", doc = "```")]
#![cfg_attr(not(feature = "zstd"), doc = "```ignore")]
//! use ztensor_format::{Archive, Builder, Encoding, Tensor, TensorOptions, Value};
//!
//! let mut builder = Builder::new();
//! let tensor = Tensor::from_slice(&[1.0f32; 1000], &[10, 100])?;
//! let options = TensorOptions::new().with_zstd(3).with_custom("epoch", 7u32)?;
//! builder.tensor_with("w", tensor.clone(), options)?;
//! let file = builder.to_vec()?;
//!
//! let archive = Archive::from_bytes(file)?;
//! let entry = archive.entry("w").ok_or("no such tensor")?;
//! assert_eq!(entry.encoding(), Encoding::Zstd);
//! assert_eq!(entry.custom()[0].value(), Value::Int(7));
//! assert_eq!(archive.read(entry)?, tensor);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | files, the hardware CRC-32C |
//! | `zstd` | yes | compressed tensors; without it they are listed, and unsupported when read |
//! | `generations` | no | files of 1.0, 1.1, 1.2 and 2; without it they are named, and unsupported |
//! | `mmap` | no | [`MappedFile`](tensor_core), for zero-copy reads |
//! | `rayon` | no | work on several threads |
//!
//! With default features off the crate is `no_std` and needs only `alloc`.

#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod cbor;
mod checksum;
#[cfg(feature = "generations")]
mod decoded;
mod dtype;
mod edit;
mod encoding;
mod entry;
mod entry_map;
mod error;
mod generation;
mod index;
mod layout;
mod limits;
#[cfg(feature = "generations")]
mod manifest;
mod read;
mod rule;
#[cfg(all(feature = "generations", feature = "zstd"))]
mod seekable;
mod shared;
mod tensors;
mod text;
#[cfg(feature = "generations")]
mod v1;
#[cfg(feature = "generations")]
mod v2;
mod verify;
mod write;

pub use checksum::{Algorithm, Checksum};
pub use encoding::{Encoding, Endianness, Layout};
pub use entry::{CustomField, Entry};
pub use error::{BuildError, Error, TRUNCATED, Ztensor};
pub use generation::Generation;
pub use layout::{Field, MAGIC};
pub use limits::Limits;
#[cfg(feature = "generations")]
pub use manifest::Shard;
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
pub use write::{Builder, TensorOptions};

/// What this crate's functions return.
pub type Result<T, E = Error> = core::result::Result<T, E>;
