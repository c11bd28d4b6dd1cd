//! Read, write and verify the files of the neural network library primitiv, format version 0.1:
//! models, parameters with their optimizer statistics, optimizers, and single tensors and shapes.
//!
//! ```text
//! ver_major  CE 00000000   +
//! ver_minor  CE 00000001   | 15 bytes
//! data_type  CE 00000300   +   0x0 Shape, 0x100 Tensor, 0x200 Parameter, 0x300 Model, 0x400 Optimizer
//! Model      N, then N x (address as array<str>, Parameter)
//! Parameter  Tensor value, N, then N x (str key, Tensor statistic)
//! Tensor     Shape, bin data: f32, little-endian, first dim fastest, batch slowest
//! Shape      array<uint32> dims, uint32 batch
//! Optimizer  map<str, uint32>, map<str, float>
//! ```
//!
//! All of it is MessagePack, one object after the other. There is no index, so opening walks the
//! headers and skips the data. Tensors come out column-major, with the bytes of the file:
//!
//! ```
//! use primitiv_format::{Archive, Builder, Order, Tensor};
//!
//! let mut builder = Builder::new();
//! let weight = Tensor::from_slice(&[1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0], &[2, 3])?;
//! builder.tensor("encoder.W", weight.with_order(Order::ColumnMajor))?;
//! let archive = Archive::from_bytes(builder.to_vec()?)?;
//!
//! let entry = archive.entry("encoder.W").ok_or("no such tensor")?;
//! assert_eq!(entry.path().collect::<Vec<_>>(), ["encoder", "W"]);
//! let rows = archive.read(entry)?.to_row_major()?;
//! assert_eq!(rows.as_slice::<f32>()?, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The typed side knows what a file is:
//!
//! ```
//! # use primitiv_format::{Archive, Builder, Tensor};
//! # let mut builder = Builder::new();
//! # builder.tensor("enc.b", Tensor::from_slice(&[1.0f32], &[1])?)?;
//! # builder.stat("Adam.m1", Tensor::from_slice(&[0.5f32], &[1])?)?;
//! # let archive = Archive::from_bytes(builder.to_vec()?)?;
//! use primitiv_format::Object;
//!
//! if let Object::Model(model) = archive.object() {
//!     let bias = model.get(&["enc", "b"]).ok_or("no such parameter")?;
//!     let moment = bias.stat("Adam.m1").ok_or("never trained with Adam")?;
//!     assert_eq!(archive.read(moment)?.to_vec::<f32>()?, [0.5]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | files |
//! | `mmap` | no | [`MappedFile`](tensor_core), for zero-copy reads |
//! | `rayon` | no | large reads on several threads |
//!
//! With default features off the crate is `no_std` and needs only `alloc`.

#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod addresses;
mod entry;
mod error;
mod index;
mod layout;
mod limits;
mod msgpack;
mod object;
mod read;
mod rule;
mod tensors;
mod write;

pub use address::Address;
pub use entry::Entry;
pub use error::{BuildError, Error, Primitiv, TRUNCATED};
pub use layout::DataType;
pub use limits::Limits;
pub use object::{LearningState, Model, Object, Optimizer, OptimizerKind, Parameter};
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
