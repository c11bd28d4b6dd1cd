use core::fmt;

use tensor_core::DType;

/// A tensor's dtype as TIDX has it ("DType Enum"), known or not.
///
/// ```
/// use aero_format::{DType, DTypeCode};
///
/// let code = DTypeCode::from_dtype(DType::F32).ok_or("no code")?;
/// assert_eq!(code.dtype(), Some(DType::F32));
/// assert_eq!(DTypeCode::from_dtype(DType::C64), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DTypeCode(pub u16);

impl DTypeCode {
    /// Quantized or codec data; what it means is in `quant_id` and `quant_params`.
    pub const PACKED: Self = Self(0x8000);

    /// The dtype, [`DType::Opaque`] for packed data, `None` for a code that 0.1 does not have.
    #[must_use]
    pub const fn dtype(self) -> Option<DType> {
        Some(match self.0 {
            0 => DType::F16,
            1 => DType::F32,
            2 => DType::BF16,
            3 => DType::F64,
            4 => DType::I8,
            5 => DType::U8,
            6 => DType::I16,
            7 => DType::U16,
            8 => DType::I32,
            9 => DType::U32,
            10 => DType::I64,
            11 => DType::U64,
            12 => DType::Bool,
            0x8000 => DType::Opaque,
            _ => return None,
        })
    }

    /// The code of a dtype, `None` if the format can't hold it.
    #[must_use]
    pub const fn from_dtype(dtype: DType) -> Option<Self> {
        Some(Self(match dtype {
            DType::F16 => 0,
            DType::F32 => 1,
            DType::BF16 => 2,
            DType::F64 => 3,
            DType::I8 => 4,
            DType::U8 => 5,
            DType::I16 => 6,
            DType::U16 => 7,
            DType::I32 => 8,
            DType::U32 => 9,
            DType::I64 => 10,
            DType::U64 => 11,
            DType::Bool => 12,
            DType::Opaque => 0x8000,
            _ => return None,
        }))
    }
}

impl fmt::Display for DTypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype() {
            Some(DType::Opaque) => f.pad("packed"),
            Some(dtype) => dtype.fmt(f),
            None => write!(f, "dtype {:#x}", self.0),
        }
    }
}
