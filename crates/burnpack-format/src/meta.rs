use alloc::boxed::Box;

use tensor_core::Value;

/// A pair of the file's `metadata`: text to text.
///
/// ```
/// use burnpack_format::{Archive, Builder};
///
/// let mut builder = Builder::new();
/// builder.metadata("step", "7")?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let pairs: Vec<_> = archive.metadata().iter().map(|entry| (entry.key(), entry.value())).collect();
/// assert_eq!(pairs, [("step", "7")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetaEntry {
    pub(crate) key: Box<str>,
    pub(crate) value: Box<str>,
}

impl MetaEntry {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// A named number or truth value beside the tensors, such as an optimizer's step count. Files of
/// Burn 0.22 and later have them.
///
/// Two are equal where kind and bits are: NaN equals itself, 0.0 differs from -0.0.
///
/// ```
/// use burnpack_format::Scalar;
///
/// assert_eq!(Scalar::from(7u64), Scalar::UInt(7));
/// assert_eq!(Scalar::from(f64::NAN), Scalar::Float(f64::NAN));
/// assert_ne!(Scalar::Int(7), Scalar::UInt(7));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Scalar {
    /// `{"Int": n}`.
    Int(i64),
    /// `{"UInt": n}`.
    UInt(u64),
    /// `{"Float": x}`.
    Float(f64),
    /// `{"Bool": b}`.
    Bool(bool),
    /// A kind that this crate does not know, by its name; the value is not kept, and no builder
    /// takes it.
    Unknown(Box<str>),
}

impl Scalar {
    /// The kind's name in the file.
    ///
    /// ```
    /// use burnpack_format::Scalar;
    ///
    /// assert_eq!((Scalar::from(7u64).kind(), Scalar::from(0.5).kind()), ("UInt", "Float"));
    /// ```
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Int(_) => "Int",
            Self::UInt(_) => "UInt",
            Self::Float(_) => "Float",
            Self::Bool(_) => "Bool",
            Self::Unknown(kind) => kind,
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::UInt(a), Self::UInt(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Unknown(a), Self::Unknown(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Scalar {}

macro_rules! from {
    ($($type:ty => $variant:ident;)*) => {$(
        impl From<$type> for Scalar {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

from! {
    i64 => Int;
    u64 => UInt;
    f64 => Float;
    bool => Bool;
}

/// The value without its kind: `Int` and `UInt` become the same, an unknown kind becomes null.
impl From<&Scalar> for Value {
    fn from(scalar: &Scalar) -> Self {
        match *scalar {
            Scalar::Int(value) => Self::Int(value.into()),
            Scalar::UInt(value) => Self::Int(value.into()),
            Scalar::Float(value) => Self::Float(value),
            Scalar::Bool(value) => Self::Bool(value),
            Scalar::Unknown(_) => Self::Null,
        }
    }
}

/// A scalar with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalarEntry {
    pub(crate) name: Box<str>,
    pub(crate) value: Scalar,
}

impl ScalarEntry {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &Scalar {
        &self.value
    }
}
