use alloc::string::String;

use tensor_core::{DType, ShapeError, codec};

use crate::{Rule, Unsupported};

/// Why an AERO file could not be read, verified or written.
///
/// ```
/// use aero_format::{Archive, Kind};
///
/// let error = Archive::from_bytes(&[0u8; 96][..]).unwrap_err();
/// assert_eq!(error.kind(), Kind::Invalid); // whose fault it is
/// assert_eq!(error.rule_id(), Some("aero.header.magic")); // what is wrong
/// assert_eq!(error.at().map(|at| at.offset), Some(0)); // where
/// ```
pub type Error = codec::Error<Aero>;

/// The format in types that all formats share.
#[derive(Clone, Copy, Debug)]
pub struct Aero;

impl codec::Format for Aero {
    const NAME: &'static str = "AERO";
    const TRUNCATED: &'static str = TRUNCATED;
    type Rule = Rule;
    type Unsupported = Unsupported;
    type Build = BuildError;
}

/// What [`Error::rule_id`] says of a file that ends too early.
pub const TRUNCATED: &str = "aero.truncated";

/// What the caller asked for that the format can't hold. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The format has no code for the dtype.
    #[error("tensor {name:?}: an AERO file can't hold {dtype}")]
    DType {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// More than 32 dims.
    #[error("tensor {name:?}: rank {rank}; an AERO file holds up to 32 dims")]
    Rank {
        /// The tensor.
        name: String,
        /// Its rank.
        rank: usize,
    },
    /// A dim above 2^63-1.
    #[error("tensor {name:?}: dim of {dim}; an AERO file holds dims of up to 2^63-1")]
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
    /// A name of more than 4096 bytes.
    #[error("tensor name {name:?}...: an AERO file holds names of up to 4096 bytes")]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// The name or key is taken.
    #[error("{name:?} is used already")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A key that the format itself writes.
    #[error("{key:?} is a field of the format itself")]
    Key {
        /// The key.
        key: String,
    },
    /// A value that neither JSON nor MessagePack holds.
    #[error("the value of {key:?} can't be held")]
    Value {
        /// Its key.
        key: String,
    },
    /// A value that nests deeper than readers go, unless their
    /// [`Limits::max_value_depth`](crate::Limits::max_value_depth) is raised.
    #[error("the value of {key:?} nests {depth} levels deep; readers of AERO go {max} levels")]
    Depth {
        /// Its key.
        key: String,
        /// How deep it nests.
        depth: u64,
        /// How deep it may.
        max: u64,
    },
    /// Metadata of so many values that a reader refuses it, unless its
    /// [`Limits::max_metadata_overhead_bytes`](crate::Limits::max_metadata_overhead_bytes) is raised.
    #[error("the metadata has too many values for the size of the file")]
    Metadata,
    /// An alignment, size or level that makes no sense.
    #[error("{option} of {value} makes no sense")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: i128,
    },
    /// More shards than a file may have chunks, or more bytes than 2^63-1.
    #[error("the file would have too many chunks or bytes")]
    TooLarge,
    /// A deferred tensor's source has another length than dtype and shape ask for.
    #[error("tensor {name:?}: {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// What does not fit.
        error: ShapeError,
    },
    /// A deferred tensor's bytes changed between the two times that they were read.
    #[error("{} changed between the two times that it was read", about(*.shard, .first, .last))]
    Changed {
        /// The shard, counted from 0.
        shard: usize,
        /// The first tensor that it may be.
        first: String,
        /// The last one: the same where there is no doubt, as with a hash for each tensor.
        last: String,
    },
}

/// The data of one tensor, or of several in a row.
fn about(shard: usize, first: &str, last: &str) -> String {
    match first == last {
        true => alloc::format!("the data of tensor {first:?}"),
        false => alloc::format!("the data of shard {shard}, tensors {first:?} to {last:?},"),
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}
