use core::fmt;

use tensor_core::DType;

use crate::Generation;

/// A tensor's dtype code, kept as it is in the file whether it is known or not, with the
/// generation of the file: each has a table of its own.
///
/// The specification lists no codes; these are those of real files.
///
/// ```
/// use mag_format::{DType, DTypeCode, Generation};
///
/// let code = |generation| DTypeCode::new(generation, 3).dtype();
/// assert_eq!(code(Generation::Version1), Some(DType::I32));
/// assert_eq!(code(Generation::Snapshot0_1), Some(DType::Bool));
/// assert_eq!(code(Generation::Snapshot0_2), Some(DType::F8E4M3));
/// ```
///
/// ```
/// use mag_format::{DType, DTypeCode, Generation};
///
/// let code = DTypeCode::from_dtype(DType::F32).ok_or("no code")?;
/// assert_eq!((code.generation(), code.dtype()), (Generation::Version1, Some(DType::F32)));
/// assert_eq!(DTypeCode::new(code.generation(), code.code()), code);
/// assert_eq!(DTypeCode::from_dtype(DType::C64), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DTypeCode {
    code: u32,
    generation: Generation,
}

/// The codes of version 1.
const VERSION_1: &[DType] = &[DType::F32, DType::F16, DType::Bool, DType::I32];

/// The codes of snapshot 0.1.0.
const SNAPSHOT_0_1: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::U16,
    DType::I16,
    DType::U32,
    DType::I32,
    DType::U64,
    DType::I64,
];

/// The codes of snapshots 0.2.0 and 0.3.0: a new one at 3 moves all that follow.
const SNAPSHOT_0_2: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F8E4M3,
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::U16,
    DType::I16,
    DType::U32,
    DType::I32,
    DType::U64,
    DType::I64,
];

const fn table(generation: Generation) -> &'static [DType] {
    match generation {
        Generation::Version1 => VERSION_1,
        Generation::Snapshot0_1 => SNAPSHOT_0_1,
        Generation::Snapshot0_2 | Generation::Snapshot0_3 => SNAPSHOT_0_2,
    }
}

impl DTypeCode {
    /// A code in a file of this generation.
    #[must_use]
    pub const fn new(generation: Generation, code: u32) -> Self {
        Self { code, generation }
    }

    /// The number; one that a snapshot 0.3.0 spells out beyond 32 bits is `u32::MAX`.
    #[must_use]
    pub const fn code(self) -> u32 {
        self.code
    }

    /// The generation whose table it is of.
    #[must_use]
    pub const fn generation(self) -> Generation {
        self.generation
    }

    /// The dtype that the code stands for, `None` if the generation has no such code.
    #[must_use]
    pub fn dtype(self) -> Option<DType> {
        let position = usize::try_from(self.code).ok()?;
        table(self.generation).get(position).copied()
    }

    /// Version 1's code of a dtype, `None` if it can't hold it.
    #[must_use]
    pub fn from_dtype(dtype: DType) -> Option<Self> {
        let position = VERSION_1.iter().position(|&known| known == dtype)?;
        let code = u32::try_from(position).ok()?;
        Some(Self::new(Generation::Version1, code))
    }
}

impl fmt::Display for DTypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype() {
            Some(dtype) => dtype.fmt(f),
            None => write!(f, "dtype code {}", self.code),
        }
    }
}
