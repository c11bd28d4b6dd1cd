use core::fmt;

use tensor_core::DType;

/// A tensor record's dtype code, kept as it is in the file whether it is known or not.
///
/// The specification lists no codes; these are the four of every version 1 file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DTypeCode(pub u8);

impl DTypeCode {
    /// The dtype that the code stands for, `None` if version 1 has no such code.
    pub const fn dtype(self) -> Option<DType> {
        Some(match self.0 {
            0 => DType::F32,
            1 => DType::F16,
            2 => DType::Bool,
            3 => DType::I32,
            _ => return None,
        })
    }

    /// The code of a dtype, `None` if version 1 can't hold it.
    pub const fn from_dtype(dtype: DType) -> Option<Self> {
        Some(Self(match dtype {
            DType::F32 => 0,
            DType::F16 => 1,
            DType::Bool => 2,
            DType::I32 => 3,
            _ => return None,
        }))
    }
}

impl fmt::Display for DTypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype() {
            Some(dtype) => dtype.fmt(f),
            None => write!(f, "dtype code {}", self.0),
        }
    }
}
