use alloc::string::String;

use tensor_core::{DType, ShapeError, codec};

use crate::{Rule, Unsupported};

/// Why a `.mag` file could not be read, verified or written.
///
/// ```
/// use mag_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 24][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("mag.header.magic")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
pub type Error = codec::Error<Mag>;

/// The format in types that all formats share.
#[derive(Clone, Copy, Debug)]
pub struct Mag;

impl codec::Format for Mag {
    const NAME: &'static str = "mag";
    const TRUNCATED: &'static str = TRUNCATED;
    type Rule = Rule;
    type Unsupported = Unsupported;
    type Build = BuildError;
}

/// What [`Error::rule_id`] says of a file that ends too early.
pub const TRUNCATED: &str = "mag.truncated";

/// What the caller asked for that the format can't hold. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format has no code for the dtype.
    #[error("tensor {name:?}: a mag file can't hold {dtype} (only f32, f16, bool and i32)")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// The format needs 1 to 255 dims.
    #[error("tensor {name:?}: rank {rank}; a mag file holds 1 to 255 dims (a scalar as [1])")]
    Rank {
        /// The tensor.
        name: String,
        /// Its rank.
        rank: usize,
    },
    /// The format has no empty tensors and no dims above 2^63-1.
    #[error("tensor {name:?}: dim of {dim}; a mag file holds dims of 1 to 2^63-1")]
    Dim {
        /// The tensor.
        name: String,
        /// The dim.
        dim: u64,
    },
    /// The format is row-major.
    #[error("tensor {name:?} is column-major; transpose it first (`Tensor::to_row_major`)")]
    Order {
        /// The tensor.
        name: String,
    },
    /// A key is empty, too long or holds a NUL.
    #[error("key {name:?}: a mag file holds keys of 1 to 65535 bytes without NUL")]
    Key {
        /// The key, shortened.
        name: String,
    },
    /// The key is taken.
    #[error("key {name:?} is used already")]
    Duplicate {
        /// The key.
        name: String,
    },
    /// The file to be like is a snapshot.
    #[error("a file of version 1 has no place for what a {generation} says about itself")]
    Generation {
        /// The snapshot's name.
        generation: &'static str,
    },
    /// More than 2^32-1 records.
    #[error("more than 2^32-1 records")]
    TooMany,
    /// The file would not fit 63 bits.
    #[error("the file would take more than 2^63-1 bytes")]
    TooLarge,
    /// A deferred tensor's source has another length than dtype and shape ask for.
    #[error("tensor {name:?}: {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// What does not fit.
        error: ShapeError,
    },
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}
