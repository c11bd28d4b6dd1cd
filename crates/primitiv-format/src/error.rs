use alloc::string::String;

use tensor_core::{DType, ShapeError, codec};

use crate::{Rule, Unsupported};

/// Why a primitiv file could not be read, verified or written.
///
/// ```
/// use primitiv_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 15][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("primitiv.type")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
pub type Error = codec::Error<Primitiv>;

/// The format in types that all formats share.
#[derive(Clone, Copy, Debug)]
pub struct Primitiv;

impl codec::Format for Primitiv {
    const NAME: &'static str = "primitiv";
    const TRUNCATED: &'static str = TRUNCATED;
    type Rule = Rule;
    type Unsupported = Unsupported;
    type Build = BuildError;
}

/// What [`Error::rule_id`] says of a file that ends too early.
pub const TRUNCATED: &str = "primitiv.truncated";

/// What the caller asked for that the format can't hold. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format holds f32 only.
    #[error("tensor {name:?}: a primitiv file can't hold {dtype} (only f32)")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// The format has at most 8 dims, trailing ones not counted.
    #[error("tensor {name:?}: rank {rank}; a primitiv file holds up to 8 dims")]
    Rank {
        /// The tensor.
        name: String,
        /// Its rank.
        rank: usize,
    },
    /// The format has no empty tensors.
    #[error("tensor {name:?} has no elements; a primitiv file holds no empty tensor")]
    Empty {
        /// The tensor.
        name: String,
    },
    /// A tensor has at most 1,073,741,823 elements, or 2^32-1 bytes.
    #[error("tensor {name:?}: {elements} elements; a primitiv file holds up to 1073741823")]
    TooLarge {
        /// The tensor.
        name: String,
        /// Its elements.
        elements: u64,
    },
    /// The format is column-major.
    #[error("tensor {name:?} is row-major; transpose it, or reverse its dims, first")]
    Order {
        /// The tensor.
        name: String,
    },
    /// A deferred tensor's source has another length than its shape asks for.
    #[error("tensor {name:?}: {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// What does not fit.
        error: ShapeError,
    },
    /// The value of a parameter has no batch.
    #[error("tensor {name:?}: the value of a parameter can't have a batch of {batch}")]
    ValueBatch {
        /// The parameter.
        name: String,
        /// The batch.
        batch: u32,
    },
    /// An address has no parts, or a name is longer than 2^32-1 bytes.
    #[error("{name:?} is no name that a primitiv file can hold")]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// There are more parameters, statistics or configurations than 32 bits can count.
    #[error("more than 2^32-1 parameters, statistics or configurations")]
    TooMany,
    /// The address, statistic or configuration is a duplicate.
    #[error("{name:?} is used already")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// One address is a parameter and the start of another address;
    /// [`Builder::split_names`](crate::Builder::split_names) keeps names whole.
    #[error(
        "{parameter:?} is a parameter and can't have {inner:?} in it; \
         with whole names, which are not split at dots, both can be held"
    )]
    PathConflict {
        /// The shorter address, joined.
        parameter: String,
        /// The longer one.
        inner: String,
    },
    /// The object holds a fixed number of tensors.
    #[error("a {object} file holds {expected}, not {got} tensors")]
    Count {
        /// The object.
        object: &'static str,
        /// What it holds.
        expected: &'static str,
        /// What it was given.
        got: usize,
    },
    /// A statistic without a parameter to belong to.
    #[error("statistic {name:?} comes before any parameter")]
    StatFirst {
        /// The statistic.
        name: String,
    },
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}
