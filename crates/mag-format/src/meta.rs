use alloc::boxed::Box;

use tensor_core::Value;

/// A metadata value: the format has two types, and no text.
#[derive(Clone, Copy, Debug)]
pub enum MetaValue {
    /// Type 1: a two's complement 64-bit integer.
    I64(i64),
    /// Type 2: an IEEE 754 binary64; NaN payloads are kept.
    F64(f64),
}

impl MetaValue {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::I64(_) => 1,
            Self::F64(_) => 2,
        }
    }

    pub(crate) const fn payload(self) -> u64 {
        match self {
            Self::I64(value) => u64::from_le_bytes(value.to_le_bytes()),
            Self::F64(value) => value.to_bits(),
        }
    }

    pub(crate) const fn decode(code: u8, payload: u64) -> Option<Self> {
        match code {
            1 => Some(Self::I64(i64::from_le_bytes(payload.to_le_bytes()))),
            2 => Some(Self::F64(f64::from_bits(payload))),
            _ => None,
        }
    }
}

/// Equal bits: NaN equals itself, 0.0 differs from -0.0.
impl PartialEq for MetaValue {
    fn eq(&self, other: &Self) -> bool {
        self.code() == other.code() && self.payload() == other.payload()
    }
}

impl Eq for MetaValue {}

impl From<i64> for MetaValue {
    fn from(value: i64) -> Self {
        Self::I64(value)
    }
}

impl From<f64> for MetaValue {
    fn from(value: f64) -> Self {
        Self::F64(value)
    }
}

impl From<MetaValue> for Value {
    fn from(value: MetaValue) -> Self {
        match value {
            MetaValue::I64(value) => Self::Int(value.into()),
            MetaValue::F64(value) => Self::Float(value),
        }
    }
}

/// A metadata record: a key and its value.
///
/// ```
/// use mag_format::{Archive, Builder, MetaValue};
///
/// let mut builder = Builder::new();
/// builder.metadata("step", 7i64)?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let pairs: Vec<_> = archive.metadata().iter().map(|entry| (entry.key(), entry.value())).collect();
/// assert_eq!(pairs, [("step", MetaValue::I64(7))]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaEntry {
    pub(crate) key: Box<str>,
    pub(crate) value: MetaValue,
}

impl MetaEntry {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> MetaValue {
        self.value
    }
}
