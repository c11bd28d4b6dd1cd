use alloc::string::String;

use tensor_core::{DType, ShapeError, codec};

use crate::{Rule, Unsupported};

/// Why a `.zt` file could not be read, verified or written.
///
/// ```
/// use ztensor_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 17][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("ztensor.magic")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
pub type Error = codec::Error<Ztensor>;

/// The format in types that all formats share.
#[derive(Clone, Copy, Debug)]
pub struct Ztensor;

impl codec::Format for Ztensor {
    const NAME: &'static str = "ztensor";
    const TRUNCATED: &'static str = TRUNCATED;
    type Rule = Rule;
    type Unsupported = Unsupported;
    type Build = BuildError;
}

/// What [`Error::rule_id`] says of a file that ends too early.
pub const TRUNCATED: &str = "ztensor.truncated";

/// What the caller asked for that the format can't hold. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The entry is of a file of another generation, whose entries can't be copied as they are.
    #[error("tensor {name:?}: only entries of zTensor 0.1 files can be copied as they are")]
    Generation {
        /// The tensor.
        name: String,
    },
    /// The file to be like is of another generation.
    #[error("a file of zTensor 0.1 has no place for what one of {generation} says about itself")]
    Attributes {
        /// The generation's name.
        generation: &'static str,
    },
    /// The format has no name for the dtype.
    #[error("tensor {name:?}: a ztensor file can't hold {dtype}")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// The format is row-major.
    #[error("tensor {name:?} is column-major; transpose it first (`Tensor::to_row_major`)")]
    Order {
        /// The tensor.
        name: String,
    },
    /// The name is taken.
    #[error("name {name:?} is used already")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A custom field has the key of a standard one, or of another custom one.
    #[error("custom field {key:?}: the key is taken")]
    CustomKey {
        /// The key.
        key: String,
    },
    /// A custom field's value is not one well-formed CBOR item, or CBOR can't hold it.
    #[error("custom field {key:?}: {reason}")]
    CustomValue {
        /// The key.
        key: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Compressed big-endian data has no meaning in the format.
    #[error("tensor {name:?}: compressed data can't be big-endian")]
    ZstdEndianness {
        /// The tensor.
        name: String,
    },
    /// Compression was asked for, but this build has no `zstd` feature.
    #[error("tensor {name:?}: this build is without `zstd`")]
    ZstdDisabled {
        /// The tensor.
        name: String,
    },
    /// A level that zstd does not have.
    #[error("zstd has no level {level}")]
    ZstdLevel {
        /// The level.
        level: i32,
    },
    /// What the compressor says.
    #[error("tensor {name:?} can't be compressed: {message}")]
    Zstd {
        /// The tensor.
        name: String,
        /// Its words.
        message: &'static str,
    },
    /// How long a file with compressed tensors gets is known only when it is written.
    #[error("the length of a file with compressed tensors is not known before it is written")]
    EncodedLen,
    /// The file would not fit 63 bits.
    #[error("the file would take more than 2^63-1 bytes")]
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
