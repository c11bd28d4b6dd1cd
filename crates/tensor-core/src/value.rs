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
    /// An integer; those of all formats fit, but for some in JSON.
    Int(i128),
    /// An integer beyond 128 bits, as JSON has it: decimal digits, and a minus in front of them.
    BigInt(String),
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

    /// How deep lists and maps nest: 0 for anything else, 1 for one that holds no other.
    ///
    /// ```
    /// # use tensor_core::Value;
    /// assert_eq!(Value::Null.depth(), 0);
    /// assert_eq!(Value::List(vec![Value::List(vec![]), Value::Null]).depth(), 2);
    /// ```
    pub fn depth(&self) -> usize {
        self.walk().map(|(depth, _)| depth).max().unwrap_or(0)
    }

    /// This value and all that are nested in it, keys included, each with the number of lists and
    /// maps that end with it. Takes no stack, however deep they nest.
    ///
    /// ```
    /// # use tensor_core::Value;
    /// let value = Value::List(vec![Value::Bool(true)]);
    /// let nested: Vec<_> = value.walk().collect();
    /// assert_eq!(nested, [(1, &value), (1, &Value::Bool(true))]);
    /// ```
    pub fn walk(&self) -> impl Iterator<Item = (usize, &Self)> {
        let mut left = alloc::vec![(0usize, self)];
        core::iter::from_fn(move || {
            let (around, value) = left.pop()?;
            let depth = around.saturating_add(match value {
                Self::List(_) | Self::Map(_) => 1,
                _ => 0,
            });
            match value {
                Self::List(items) => left.extend(items.iter().rev().map(|item| (depth, item))),
                Self::Map(pairs) => {
                    for (key, value) in pairs.iter().rev() {
                        left.extend([(depth, value), (depth, key)]);
                    }
                }
                _ => {}
            }
            Some((depth, value))
        })
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
