use alloc::boxed::Box;
use core::fmt;

use tensor_core::DType;

use crate::quant::QuantScheme;

/// A tensor's dtype as the file names it, whether this crate knows it or not.
///
/// ```
/// use burnpack_format::{BoolStore, DType, DTypeCode};
///
/// assert_eq!(DTypeCode::Flex32.dtype(), Some(DType::F32));
/// assert_eq!(DTypeCode::Bool(BoolStore::U32).element_size(), Some(4));
/// assert_eq!(DTypeCode::Unknown("F128".into()).dtype(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DTypeCode {
    /// `"F64"`.
    F64,
    /// `"F32"`.
    F32,
    /// `"Flex32"`: stored exactly as `F32`; computation may use less precision.
    Flex32,
    /// `"F16"`.
    F16,
    /// `"BF16"`.
    BF16,
    /// `"I64"`.
    I64,
    /// `"I32"`.
    I32,
    /// `"I16"`.
    I16,
    /// `"I8"`.
    I8,
    /// `"U64"`.
    U64,
    /// `"U32"`.
    U32,
    /// `"U16"`.
    U16,
    /// `"U8"`.
    U8,
    /// `{"Bool": store}`, or `"Bool"` up to burn-store 0.20.
    Bool(BoolStore),
    /// `{"QFloat": scheme}`: quantized.
    QFloat(Box<QuantScheme>),
    /// Anything else, described.
    Unknown(Box<str>),
}

/// How a bool is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BoolStore {
    /// `"Bool"` of burn-store 0.19 and 0.20: one byte, 0 or 1.
    Legacy,
    /// One byte, 0 or 1.
    Native,
    /// One byte.
    U8,
    /// Four bytes; non-zero is true.
    U32,
}

impl BoolStore {
    /// A lower-case word for listings: `native-legacy`, `native`, `u8`, `u32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "native-legacy",
            Self::Native => "native",
            Self::U8 => "u8",
            Self::U32 => "u32",
        }
    }
}

impl DTypeCode {
    /// The dtype of the tensor; [`DType::Opaque`] for a quantized one, `None` for an unknown one.
    #[must_use]
    pub const fn dtype(&self) -> Option<DType> {
        Some(match self {
            Self::F64 => DType::F64,
            Self::F32 | Self::Flex32 => DType::F32,
            Self::F16 => DType::F16,
            Self::BF16 => DType::BF16,
            Self::I64 => DType::I64,
            Self::I32 => DType::I32,
            Self::I16 => DType::I16,
            Self::I8 => DType::I8,
            Self::U64 => DType::U64,
            Self::U32 => DType::U32,
            Self::U16 => DType::U16,
            Self::U8 => DType::U8,
            Self::Bool(_) => DType::Bool,
            Self::QFloat(_) => DType::Opaque,
            Self::Unknown(_) => return None,
        })
    }

    /// What a [`Builder`](crate::Builder) writes for a dtype, `None` where the format has nothing
    /// for it or, for [`DType::Opaque`], needs a scheme.
    ///
    /// ```
    /// use burnpack_format::{DType, DTypeCode};
    ///
    /// assert_eq!(DTypeCode::from_dtype(DType::F32), Some(DTypeCode::F32));
    /// assert_eq!(DTypeCode::from_dtype(DType::C64), None);
    /// ```
    #[must_use]
    pub const fn from_dtype(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::F64 => Self::F64,
            DType::F32 => Self::F32,
            DType::F16 => Self::F16,
            DType::BF16 => Self::BF16,
            DType::I64 => Self::I64,
            DType::I32 => Self::I32,
            DType::I16 => Self::I16,
            DType::I8 => Self::I8,
            DType::U64 => Self::U64,
            DType::U32 => Self::U32,
            DType::U16 => Self::U16,
            DType::U8 => Self::U8,
            DType::Bool => Self::Bool(BoolStore::Native),
            _ => return None,
        })
    }

    /// Bytes of one stored element, `None` for a quantized or unknown dtype.
    #[must_use]
    pub const fn element_size(&self) -> Option<u64> {
        match self {
            Self::Bool(BoolStore::U32) => Some(4),
            _ => match self.dtype() {
                Some(dtype) => dtype.size(),
                None => None,
            },
        }
    }

    /// The name in the file: that of the map's key where the dtype is a map. What is unknown is
    /// described.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::F64 => "F64",
            Self::F32 => "F32",
            Self::Flex32 => "Flex32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::I64 => "I64",
            Self::I32 => "I32",
            Self::I16 => "I16",
            Self::I8 => "I8",
            Self::U64 => "U64",
            Self::U32 => "U32",
            Self::U16 => "U16",
            Self::U8 => "U8",
            Self::Bool(_) => "Bool",
            Self::QFloat(_) => "QFloat",
            Self::Unknown(name) => name,
        }
    }

    /// How many codes need no memory of their own.
    pub(crate) const KNOWN: usize = KNOWN.len();

    /// The code at a position among those that need no memory of their own.
    pub(crate) fn known(position: usize) -> &'static Self {
        KNOWN.get(position).unwrap_or(&Self::F32)
    }

    /// The position of the code that is this text.
    pub(crate) fn position(text: &[u8]) -> Option<usize> {
        KNOWN.iter().position(|code| code.name().as_bytes() == text)
    }

    /// The position of this code.
    pub(crate) fn known_position(&self) -> Option<usize> {
        KNOWN.iter().position(|code| code == self)
    }
}

/// The codes that need no memory of their own. The first bool is the one that is a plain text.
static KNOWN: [DTypeCode; 17] = [
    DTypeCode::F32,
    DTypeCode::BF16,
    DTypeCode::F16,
    DTypeCode::F64,
    DTypeCode::Flex32,
    DTypeCode::I64,
    DTypeCode::I32,
    DTypeCode::I16,
    DTypeCode::I8,
    DTypeCode::U64,
    DTypeCode::U32,
    DTypeCode::U16,
    DTypeCode::U8,
    DTypeCode::Bool(BoolStore::Legacy),
    DTypeCode::Bool(BoolStore::Native),
    DTypeCode::Bool(BoolStore::U8),
    DTypeCode::Bool(BoolStore::U32),
];

impl fmt::Display for DTypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(store) => write!(f, "Bool({})", store.name()),
            Self::QFloat(scheme) => write!(f, "QFloat({scheme})"),
            code => f.pad(code.name()),
        }
    }
}
