use alloc::string::String;

use tensor_core::{DType, ShapeError, codec};

use crate::{Rule, Unsupported};

/// Why a safetensors file could not be read, verified or written.
///
/// ```
/// use safetensors_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&b"\x02\0\0\0\0\0\0\0[]"[..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("safetensors.header.start")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(8)); // where
/// ```
pub type Error = codec::Error<Safetensors>;

/// The format in types that all formats share.
#[derive(Clone, Copy, Debug)]
pub struct Safetensors;

impl codec::Format for Safetensors {
    const NAME: &'static str = "safetensors";
    const TRUNCATED: &'static str = TRUNCATED;
    type Rule = Rule;
    type Unsupported = Unsupported;
    type Build = BuildError;
}

/// What [`Error::rule_id`] says of a file that ends too early.
pub const TRUNCATED: &str = "safetensors.truncated";

/// What the caller asked for that the format can't hold. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format has no name for the dtype.
    #[error("tensor {name:?}: a safetensors file can't hold {dtype}")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// Nobody knows the dtype; a tensor that has it can only be copied.
    #[error("tensor {name:?}: no dtype {code:?} is known")]
    UnknownDType {
        /// The tensor.
        name: String,
        /// The dtype's name.
        code: String,
    },
    /// The format is row-major.
    #[error("tensor {name:?} is column-major; transpose it first (`Tensor::to_row_major`)")]
    Order {
        /// The tensor.
        name: String,
    },
    /// The header has that name for something else.
    #[error("a tensor can't be named `__metadata__`: the name is the header's own")]
    Name,
    /// The name is taken.
    #[error("{name:?} is used already")]
    Duplicate {
        /// The name or key.
        name: String,
    },
    /// The header would be longer than readers accept.
    #[error("the header would take {len} bytes; readers accept {max}")]
    HeaderLength {
        /// Its length.
        len: u64,
        /// What is allowed.
        max: u64,
    },
    /// The file would not fit 64 bits.
    #[error("the file would take more than 2^64-1 bytes")]
    TooLarge,
    /// Readers multiply dims from the left and would not get to the zero.
    #[error("tensor {name:?}: the product of the first dims of {dims} does not fit 64 bits")]
    Dims {
        /// The tensor.
        name: String,
        /// Its dims.
        dims: String,
    },
    /// A tensor's data has another length than dtype and shape ask for.
    #[error("tensor {name:?}: {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// What does not fit.
        error: ShapeError,
    },
    /// Elements narrower than a byte that end within one.
    #[error("tensor {name:?}: {bits} bits are no whole bytes")]
    PartByte {
        /// The tensor.
        name: String,
        /// Bits that dtype and shape ask for.
        bits: u128,
    },
    /// A shard that a set doesn't have.
    #[error("the set has {count} shards, and none of number {part}, counted from 0")]
    Part {
        /// Its number.
        part: usize,
        /// How many there are.
        count: usize,
    },
    /// The index of a set has a name that says what it is.
    #[error("{path}: the index of a set is named STEM.safetensors.index.json")]
    SetName {
        /// The path that was given.
        path: String,
    },
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}
