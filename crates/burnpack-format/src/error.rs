use alloc::string::String;

use tensor_core::{DType, ShapeError, codec};

use crate::write::Compat;
use crate::{Rule, Unsupported};

/// Why a burnpack file could not be read, verified or written.
///
/// ```
/// use burnpack_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 10][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("burnpack.header.magic")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
pub type Error = codec::Error<Burnpack>;

/// The format in types that all formats share.
#[derive(Clone, Copy, Debug)]
pub struct Burnpack;

impl codec::Format for Burnpack {
    const NAME: &'static str = "burnpack";
    const TRUNCATED: &'static str = TRUNCATED;
    type Rule = Rule;
    type Unsupported = Unsupported;
    type Build = BuildError;
}

/// What [`Error::rule_id`] says of a file that ends too early.
pub const TRUNCATED: &str = "burnpack.truncated";

/// What the caller asked for that the format can't hold. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format has no name for the dtype.
    #[error("tensor {name:?}: a burnpack file can't hold {dtype}")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// A dtype as read from a file that this crate does not know.
    #[error("tensor {name:?}: dtype {code:?} is unknown, so it can't be written")]
    UnknownDType {
        /// The tensor.
        name: String,
        /// The dtype's name.
        code: String,
    },
    /// A scalar as read from a file that this crate does not know.
    #[error("scalar {name:?} of unknown kind {kind:?} can't be written")]
    UnknownScalar {
        /// The scalar.
        name: String,
        /// Its kind.
        kind: String,
    },
    /// The generation chosen with [`Builder::compat`](crate::Builder::compat) can't hold it.
    #[error("{name:?}: Burn {compat} has no {what}")]
    Compat {
        /// The tensor or scalar.
        name: String,
        /// The generation.
        compat: Compat,
        /// What it does not have.
        what: &'static str,
    },
    /// The format is row-major.
    #[error("tensor {name:?} is column-major; transpose it first (`Tensor::to_row_major`)")]
    Order {
        /// The tensor.
        name: String,
    },
    /// The name or key is taken.
    #[error("key {name:?} is used already")]
    Duplicate {
        /// The name or key.
        name: String,
    },
    /// Burn's readers would refuse the file; see [`WriteLimits`](crate::WriteLimits).
    #[error("{value} is above the limit of {max} that Burn reads; to write it, raise `{limit}`")]
    Limit {
        /// The name of the field of `WriteLimits`.
        limit: &'static str,
        /// What the file would have.
        value: u64,
        /// What the limit allows.
        max: u64,
    },
    /// The metadata would take more than 2^32-1 bytes, or the file more than 2^64-1.
    #[error("the file would be larger than its fields can say")]
    TooLarge,
    /// A tensor's data has another length than dtype and shape ask for.
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
