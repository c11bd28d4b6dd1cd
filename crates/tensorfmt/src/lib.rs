//! Detect, open, verify, write and convert tensor files.
//!
//! One type opens them all, and hands the codec's own type back to whoever matches it:
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.mag");
//! # let mut builder = tensorfmt::mag::Builder::new();
//! # builder.tensor("w", tensorfmt::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
//! # builder.write_file(&path)?;
//! let archive = tensorfmt::Archive::open(&path)?;
//! println!("{} {}", archive.format(), archive.version());
//! for entry in archive.entries() {
//!     println!("{} {} {}", entry.name(), entry.dtype_name(), entry.shape());
//! }
//! let tensor = archive.read("w")?;
//! assert_eq!(tensor.as_slice::<f32>()?, &[0.5, 1.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Conversion plans first, says what would be lost, then writes:
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.mag");
//! # let mut builder = tensorfmt::mag::Builder::new();
//! # builder.tensor("w", tensorfmt::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
//! # builder.write_file(&path)?;
//! use tensorfmt::convert::{Model, Options, Target, plan};
//!
//! let archive = tensorfmt::Archive::open(&path)?;
//! let plan = plan(Model::of(&archive), Target::Safetensors, &Options::default())?;
//! for loss in plan.losses() {
//!     eprintln!("{loss}");
//! }
//! plan.write_file(folder.path().join("model.safetensors"), &Default::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `mag` | yes | magnetron's `.mag`, and its snapshots to read |
//! | `ztensor` | yes | zTensor's `.zt`; with `zstd` also its compressed tensors |
//! | `burnpack` | yes | Burn's `.bpk` |
//! | `aero` | yes | AERO's `.aero`, and sets of them; nearly all files need `zstd` as well |
//! | `primitiv` | yes | primitiv's models, parameters and optimizers |
//! | `safetensors` | yes | `.safetensors` |
//! | `zstd` | yes | what AERO and zTensor files hold compressed |
//! | `mmap` | no | `MappedFile` |
//! | `rayon` | no | work on several threads |
//! | `remote` | no | files in object stores and on web servers: `Archive::open_address` |
//!
//! With `default-features = false` only what is picked is built. Files of a format that is left out are
//! recognised all the same, and the error names the feature that they need.

#![forbid(unsafe_code)]

#[macro_use]
mod table;

mod archive;
mod codec;
pub mod convert;
mod error;
mod fingerprint;
mod format;
mod json;
mod options;
mod part;
mod parts;
#[cfg(feature = "remote")]
mod remote;
mod select;
mod work;

pub use archive::{Archive, Entry};
pub use error::Error;
pub use format::Format;
pub use json::to_json;
pub use options::ReadOptions;
pub use part::Part;
#[cfg(feature = "remote")]
pub use remote::Elsewhere;
pub use select::Select;
#[cfg(feature = "mmap")]
pub use tensor_core::MappedFile;
pub use tensor_core::{
    At, Bytes, Cast, CastError, DType, Element, Entries, FileError, FileId, FileSource, Item, Kind,
    LimitExceeded, Misfit, Notice, Order, Outcome, Parts, Progress, Report, SetOutput, Shape,
    ShapeError, Share, Source, SourceError, StrideError, Tensor, TensorSpec, Value, VerifyOptions,
    Window, WriteOptions, bf16, f16,
};
#[cfg(feature = "remote")]
pub use tensor_remote::{self, Remote, RemoteAddress, RemoteOptions};
pub use work::Work;

/// What this crate's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codecs {
    (
        ()
        $($Format:ident {
            about: $about:literal,
            feature: $feature:literal,
            codec: $krate:ident as $module:ident,
            $($rest:tt)*
        })*
    ) => {$(
        #[cfg(feature = $feature)]
        pub use $krate as $module;
    )*};
}

formats! { codecs! () }
