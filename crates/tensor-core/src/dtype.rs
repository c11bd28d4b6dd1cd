use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

/// The element type of a tensor.
///
/// Formats have codes or names of their own for these; the mapping lives in each codec.
/// The complex kinds only pass through: their size is known, their values are never interpreted. The
/// 8-bit float kinds can be [cast](crate::Cast), but have no [`Element`](crate::Element). [`DType::Opaque`] is a tensor whose bytes mean nothing without
/// the codec that packed them (AERO's packed tensors, burnpack's quantized ones): it has no
/// element size, and a tensor's data is what the file stores.
///
/// ```
/// use tensor_core::DType;
///
/// assert_eq!((DType::BF16.name(), DType::BF16.size()), ("bf16", Some(2)));
/// assert_eq!(DType::from_name("bf16"), Some(DType::BF16));
/// assert!(DType::BF16.is_float() && DType::BF16.is_number() && !DType::BF16.is_integer());
/// assert!(DType::F8E4M3.is_float8() && !DType::F16.is_float8());
/// assert_eq!(DType::C64.swap_size(), 4); // a complex number is two floats of four bytes
/// assert_eq!(DType::Opaque.size(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DType {
    /// One byte per element; zero is false, any other value true.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    I64,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// 8-bit float, 4 exponent and 3 mantissa bits, finite only ("fn").
    F8E4M3,
    /// 8-bit float, 5 exponent and 2 mantissa bits.
    F8E5M2,
    /// 8-bit float, 4 exponent and 3 mantissa bits, finite only, no negative zero.
    F8E4M3Fnuz,
    /// 8-bit float, 5 exponent and 2 mantissa bits, finite only, no negative zero.
    F8E5M2Fnuz,
    /// 8-bit power of two: exponent bits only.
    F8E8M0,
    /// Complex number of two binary32.
    C64,
    /// Complex number of two binary64.
    C128,
    /// Bytes that only their codec can interpret; no element size.
    Opaque,
}

impl DType {
    /// Every dtype, in declaration order.
    pub const ALL: &'static [Self] = &[
        Self::Bool,
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::F8E4M3Fnuz,
        Self::F8E5M2Fnuz,
        Self::F8E8M0,
        Self::C64,
        Self::C128,
        Self::Opaque,
    ];

    /// Bytes per element, `None` for [`DType::Opaque`].
    ///
    /// ```
    /// # use tensor_core::DType;
    /// assert_eq!(DType::BF16.size(), Some(2));
    /// assert_eq!(DType::Opaque.size(), None);
    /// ```
    #[must_use]
    pub const fn size(self) -> Option<u64> {
        Some(match self {
            Self::Bool
            | Self::U8
            | Self::I8
            | Self::F8E4M3
            | Self::F8E5M2
            | Self::F8E4M3Fnuz
            | Self::F8E5M2Fnuz
            | Self::F8E8M0 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
            Self::Opaque => return None,
        })
    }

    /// Bytes of the unit that a byte-order swap reverses: the element, or half of a complex one.
    /// 1 where there is nothing to swap.
    #[must_use]
    pub const fn swap_size(self) -> usize {
        match self {
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::C64 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::C128 => 8,
            _ => 1,
        }
    }

    /// The name used in listings: `f32`, `bf16`, `bool`, ...
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F8E4M3 => "f8_e4m3fn",
            Self::F8E5M2 => "f8_e5m2",
            Self::F8E4M3Fnuz => "f8_e4m3fnuz",
            Self::F8E5M2Fnuz => "f8_e5m2fnuz",
            Self::F8E8M0 => "f8_e8m0",
            Self::C64 => "complex64",
            Self::C128 => "complex128",
            Self::Opaque => "opaque",
        }
    }

    /// The dtype with this [`name`](Self::name).
    ///
    /// ```
    /// # use tensor_core::DType;
    /// assert!(DType::ALL.iter().all(|&dtype| DType::from_name(dtype.name()) == Some(dtype)));
    /// assert_eq!(DType::from_name("float"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }

    /// The dtype that some library or format spells so: `float32`, `F32`, `torch.bfloat16`, `half`,
    /// `F8_E4M3`, or its [`name`](Self::name), in any case.
    ///
    /// ```
    /// # use tensor_core::DType;
    /// assert_eq!(DType::from_spelling("bfloat16"), Some(DType::BF16));
    /// assert_eq!(DType::from_spelling("F32"), Some(DType::F32));
    /// assert_eq!(DType::from_spelling("torch.int8"), Some(DType::I8));
    /// assert_eq!(DType::from_spelling("number"), None);
    /// ```
    #[must_use]
    pub fn from_spelling(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let libraries = ["torch.", "numpy.", "np.", "jnp.", "tf."];
        let stripped = libraries
            .iter()
            .find_map(|library| text.strip_prefix(library));
        let text = stripped.unwrap_or(&text);
        Some(match text {
            "bool_" | "boolean" => Self::Bool,
            "uint8" | "byte" => Self::U8,
            "int8" => Self::I8,
            "uint16" => Self::U16,
            "int16" | "short" => Self::I16,
            "uint32" => Self::U32,
            "int32" | "int" => Self::I32,
            "uint64" => Self::U64,
            "int64" | "long" => Self::I64,
            "float16" | "fp16" | "half" => Self::F16,
            "bfloat16" => Self::BF16,
            "float32" | "fp32" | "float" | "single" => Self::F32,
            "float64" | "fp64" | "double" => Self::F64,
            "f8_e4m3" | "float8_e4m3fn" | "float8_e4m3" => Self::F8E4M3,
            "float8_e5m2" => Self::F8E5M2,
            "float8_e4m3fnuz" => Self::F8E4M3Fnuz,
            "float8_e5m2fnuz" => Self::F8E5M2Fnuz,
            "float8_e8m0fnu" | "f8_e8m0fnu" | "e8m0" => Self::F8E8M0,
            name => return Self::from_name(name),
        })
    }

    /// Whether values are floating-point numbers that casts can read and write; complex ones are not.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64) || self.is_float8()
    }

    /// Whether values are floating-point numbers of 8 bits.
    #[must_use]
    pub const fn is_float8(self) -> bool {
        matches!(
            self,
            Self::F8E4M3 | Self::F8E5M2 | Self::F8E4M3Fnuz | Self::F8E5M2Fnuz | Self::F8E8M0
        )
    }

    /// Whether values are numbers that a cast can read and write: floats, integers, and `bool`.
    ///
    /// ```
    /// # use tensor_core::DType;
    /// assert!(DType::F8E4M3.is_number() && DType::Bool.is_number());
    /// assert!(!DType::C64.is_number() && !DType::Opaque.is_number());
    /// ```
    #[must_use]
    pub const fn is_number(self) -> bool {
        self.is_float() || self.is_integer() || matches!(self, Self::Bool)
    }

    /// Whether values are integers; `bool` is not.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::U8
                | Self::I8
                | Self::U16
                | Self::I16
                | Self::U32
                | Self::I32
                | Self::U64
                | Self::I64
        )
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// By any spelling that [`DType::from_spelling`] knows.
///
/// ```
/// # use tensor_core::DType;
/// assert_eq!("bfloat16".parse(), Ok(DType::BF16));
/// assert_eq!("number".parse::<DType>().unwrap_err().to_string(), "no dtype is spelled \"number\"");
/// ```
impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<Self, UnknownDType> {
        Self::from_spelling(text).ok_or_else(|| UnknownDType(text.into()))
    }
}

/// A text that spells no dtype.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no dtype is spelled {0:?}")]
pub struct UnknownDType(Box<str>);
