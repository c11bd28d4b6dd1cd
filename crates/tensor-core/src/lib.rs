//! What the tensor file formats of this workspace share: element types, shapes, tensors on
//! [`bytes::Bytes`], and random-access byte sources.
//!
//! A codec parses a [`Source`] and hands out [`Tensor`]s; a builder takes tensors, or sources
//! whose bytes it pulls in windows while writing. Nothing here knows a file format.
//!
//! ```
//! use tensor_core::{DType, Order, Shape, Tensor};
//!
//! // Dims [2, 3] with the first dimension fastest, as Fortran and primitiv store them.
//! let column_major = Tensor::from_slice(&[1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0], &[2, 3])?
//!     .with_order(Order::ColumnMajor);
//! let row_major = column_major.to_row_major()?;
//! assert_eq!(row_major.as_slice::<f32>()?, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! assert_eq!(column_major.reversed_view().shape().dims(), &[3, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | `FileSource`, `AtomicFile`, hardware CRC-32C, `std::io::Write` sinks |
//! | `mmap` | no | `MappedFile` |
//! | `rayon` | no | work on several threads in [`parallel`], large reads of a `FileSource` among it |
//!
//! With default features off the crate is `no_std` and needs only `alloc`.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod adapt;
mod archive_id;
#[cfg(feature = "std")]
mod atomic;
mod buffer;
mod cast;
#[cfg(feature = "checksum")]
pub mod checksum;
pub mod codec;
mod compact;
mod cursor;
mod dtype;
mod element;
mod error;
mod file_id;
#[cfg(feature = "std")]
mod fresh;
mod limits;
#[cfg(feature = "mmap")]
mod map;
mod names;
#[cfg(feature = "std")]
mod notice;
mod options;
pub mod parallel;
mod parts;
mod patch;
mod pieces;
#[cfg(feature = "std")]
mod pool;
mod report;
mod scratch;
#[cfg(feature = "std")]
mod set_output;
mod shape;
mod share;
mod sink;
mod source;
mod spec;
mod strided;
mod tensor;
mod unchanged;
mod value;
mod version;

pub use adapt::{Cast, CastCounts, Swapped, Transposed};
#[cfg(feature = "std")]
pub use atomic::Leftover;
pub use buffer::AlignedBytes;
pub use bytes::Bytes;
pub use cast::cast_slice;
pub use compact::Entries;
pub use dtype::{DType, UnknownDType};
pub use element::Element;
#[cfg(feature = "std")]
pub use error::FileError;
pub use error::{
    At, CastError, Failure, Kind, LimitExceeded, ShapeError, SourceError, Truncated, UsageError,
};
pub use file_id::FileId;
pub use half::{bf16, f16};
#[cfg(feature = "mmap")]
pub use map::MappedFile;
#[cfg(feature = "std")]
pub use notice::Notice;
pub use options::{Progress, VerifyOptions, WriteOptions};
pub use parts::Parts;
#[cfg(feature = "std")]
pub use patch::PatchError;
pub use patch::{Misfit, Patch};
pub use report::{Item, Outcome, Report};
#[cfg(feature = "std")]
pub use set_output::SetOutput;
pub use shape::{Order, Shape};
pub use share::Share;
pub use sink::SinkError;
#[cfg(feature = "std")]
pub use source::FileSource;
pub use source::{Source, Window};
pub use spec::TensorSpec;
pub use strided::StrideError;
pub use tensor::Tensor;
pub use value::Value;
pub use version::Version;
