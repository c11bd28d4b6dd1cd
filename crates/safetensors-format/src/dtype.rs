use alloc::boxed::Box;
use core::fmt;

use tensor_core::DType;

/// A dtype as headers spell it.
///
/// ```
/// use safetensors_format::{DType, DTypeCode};
///
/// let code = DTypeCode::from_name("F8_E4M3");
/// assert_eq!((code.bits(), code.dtype()), (Some(8), Some(DType::F8E4M3)));
/// // Narrower than a byte: the bytes can be had, but not as elements.
/// let code = DTypeCode::from_name("F6_E2M3");
/// assert_eq!((code.bits(), code.dtype()), (Some(6), Some(DType::Opaque)));
/// let code = DTypeCode::from_name("I4");
/// assert_eq!((code.name(), code.bits(), code.dtype()), ("I4", None, None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DTypeCode {
    /// `BOOL`.
    Bool,
    /// `U8`.
    U8,
    /// `I8`.
    I8,
    /// `F8_E5M2`.
    F8E5M2,
    /// `F8_E4M3`, finite only.
    F8E4M3,
    /// `F8_E8M0`.
    F8E8M0,
    /// `F8_E4M3FNUZ`.
    F8E4M3Fnuz,
    /// `F8_E5M2FNUZ`.
    F8E5M2Fnuz,
    /// `I16`.
    I16,
    /// `U16`.
    U16,
    /// `F16`.
    F16,
    /// `BF16`.
    BF16,
    /// `I32`.
    I32,
    /// `U32`.
    U32,
    /// `F32`.
    F32,
    /// `C64`: two `F32`.
    C64,
    /// `F64`.
    F64,
    /// `I64`.
    I64,
    /// `U64`.
    U64,
    /// `F4`: two elements a byte.
    F4,
    /// `F6_E2M3`: four elements in three bytes.
    F6E2M3,
    /// `F6_E3M2`: four elements in three bytes.
    F6E3M2,
    /// A name that this crate does not know.
    Unknown(Box<str>),
}

/// Every name with its bits and what it is to us.
static KNOWN: [(&str, DTypeCode, u64, DType); 22] = [
    ("F32", DTypeCode::F32, 32, DType::F32),
    ("BF16", DTypeCode::BF16, 16, DType::BF16),
    ("F16", DTypeCode::F16, 16, DType::F16),
    ("F64", DTypeCode::F64, 64, DType::F64),
    ("BOOL", DTypeCode::Bool, 8, DType::Bool),
    ("U8", DTypeCode::U8, 8, DType::U8),
    ("I8", DTypeCode::I8, 8, DType::I8),
    ("U16", DTypeCode::U16, 16, DType::U16),
    ("I16", DTypeCode::I16, 16, DType::I16),
    ("U32", DTypeCode::U32, 32, DType::U32),
    ("I32", DTypeCode::I32, 32, DType::I32),
    ("U64", DTypeCode::U64, 64, DType::U64),
    ("I64", DTypeCode::I64, 64, DType::I64),
    ("F8_E4M3", DTypeCode::F8E4M3, 8, DType::F8E4M3),
    ("F8_E5M2", DTypeCode::F8E5M2, 8, DType::F8E5M2),
    ("F8_E8M0", DTypeCode::F8E8M0, 8, DType::F8E8M0),
    ("F8_E4M3FNUZ", DTypeCode::F8E4M3Fnuz, 8, DType::F8E4M3Fnuz),
    ("F8_E5M2FNUZ", DTypeCode::F8E5M2Fnuz, 8, DType::F8E5M2Fnuz),
    ("C64", DTypeCode::C64, 64, DType::C64),
    ("F4", DTypeCode::F4, 4, DType::Opaque),
    ("F6_E2M3", DTypeCode::F6E2M3, 6, DType::Opaque),
    ("F6_E3M2", DTypeCode::F6E3M2, 6, DType::Opaque),
];

impl DTypeCode {
    /// How many names are known.
    pub(crate) const KNOWN: usize = KNOWN.len();

    /// The code at a position among the known ones.
    pub(crate) fn known(position: usize) -> &'static Self {
        let known = KNOWN.get(position);
        known.map_or(&Self::U8, |(_, code, ..)| code)
    }

    /// Bits of an element and dtype of the code at a position; `None` beyond the known ones.
    pub(crate) fn at(position: u32) -> Option<(u64, DType)> {
        let known = KNOWN.get(usize::try_from(position).ok()?)?;
        Some((known.2, known.3))
    }

    /// The position of a name among the known ones.
    pub(crate) fn position(name: &str) -> Option<usize> {
        KNOWN.iter().position(|(known, ..)| *known == name)
    }

    /// The code that headers spell so; names are case-sensitive.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let known = KNOWN.iter().find(|(known, ..)| *known == name);
        known.map_or_else(|| Self::Unknown(name.into()), |(_, code, ..)| code.clone())
    }

    /// The code of a dtype, `None` where the format has none.
    ///
    /// ```
    /// use safetensors_format::{DType, DTypeCode};
    ///
    /// let code = DTypeCode::from_dtype(DType::BF16).ok_or("no code")?;
    /// assert_eq!(code, DTypeCode::from_name("BF16"));
    /// assert_eq!(DTypeCode::from_dtype(DType::Opaque), None);
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub fn from_dtype(dtype: DType) -> Option<Self> {
        let mut known = KNOWN.iter().filter(|_| dtype != DType::Opaque);
        let found = known.find(|(.., known)| *known == dtype);
        found.map(|(_, code, ..)| code.clone())
    }

    fn known_as(&self) -> Option<&'static (&'static str, Self, u64, DType)> {
        KNOWN.iter().find(|(_, code, ..)| code == self)
    }

    /// The name in headers.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown(name) => name,
            code => code.known_as().map_or("", |(name, ..)| name),
        }
    }

    /// Bits of an element, `None` where the name is unknown.
    #[must_use]
    pub fn bits(&self) -> Option<u64> {
        self.known_as().map(|(_, _, bits, _)| *bits)
    }

    /// The dtype, `None` where the name is unknown; [`DType::Opaque`] for those narrower than a
    /// byte.
    #[must_use]
    pub fn dtype(&self) -> Option<DType> {
        self.known_as().map(|(.., dtype)| *dtype)
    }

    /// What the data's place is a multiple of in a file that is written with care: the size of an
    /// element, or 1 where that is unknown or narrower than a byte.
    pub(crate) fn align(&self) -> u64 {
        self.bits().map_or(1, |bits| (bits / 8).max(1))
    }
}

impl fmt::Display for DTypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
