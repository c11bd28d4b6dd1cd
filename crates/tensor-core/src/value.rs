use alloc::string::String;
use alloc::vec::Vec;

/// A metadata value of any of the formats: what CBOR, MessagePack and JSON have in common.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Nothing (null, nil, undefined).
    Null,
    /// True or false.
    Bool(bool),
    /// An integer; every integer of the formats fits.
    Int(i128),
    /// A floating-point number; narrower ones are widened exactly.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// Key-value pairs in file order; keys need not be text.
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of the first text key `key`, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(pairs) => pairs
                .iter()
                .find(|(k, _)| k.as_str() == Some(key))
                .map(|(_, value)| value),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($type:ty => |$value:ident| $expression:expr;)*) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $expression
            }
        }
    )*};
}

from! {
    bool => |value| Self::Bool(value);
    i64 => |value| Self::Int(value.into());
    u64 => |value| Self::Int(value.into());
    u32 => |value| Self::Int(value.into());
    f64 => |value| Self::Float(value);
    &str => |value| Self::Text(value.into());
    String => |value| Self::Text(value);
}
