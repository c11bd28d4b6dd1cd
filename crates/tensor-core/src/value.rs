use alloc::string::String;
use alloc::vec::Vec;

/// A metadata value of any of the formats: what CBOR, MessagePack and JSON have in common.
///
/// ```
/// use tensor_core::Value;
///
/// let value = Value::Map(vec![
///     (Value::from("model"), Value::from("tiny")),
///     (Value::from("layers"), Value::from(2i64)),
///     (Value::from("tied"), Value::from(true)),
///     (Value::from("heads"), Value::List(vec![Value::from(4i64), Value::from(8i64)])),
///     (Value::from("salt"), Value::Bytes(vec![1, 2])),
/// ]);
/// assert_eq!(value.get("model").and_then(Value::as_str), Some("tiny"));
/// let of = |key| value.get(key).unwrap_or(&Value::Null);
/// assert_eq!((of("layers").as_i64(), of("layers").as_u64()), (Some(2), Some(2)));
/// assert_eq!(of("tied").as_bool(), Some(true));
/// assert_eq!(of("heads").as_list().map(<[Value]>::len), Some(2));
/// assert_eq!(of("salt").as_bytes(), Some(&[1, 2][..]));
/// assert_eq!(of("model").as_str(), Some("tiny"));
/// assert_eq!(value.as_map().map(<[_]>::len), Some(5));
/// assert_eq!(of("absent"), &Value::Null);
/// ```
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
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, if the value is an integer that fits, not a float.
    ///
    /// ```
    /// # use tensor_core::Value;
    /// assert_eq!(Value::from(-7i64).as_i64(), Some(-7));
    /// assert_eq!(Value::from(u64::MAX).as_i64(), None);
    /// assert_eq!(Value::from("7").as_i64(), None);
    /// ```
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(value) => i64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The integer, if the value is an integer of at least 0 that fits, not a float.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Int(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The number as the nearest float, if it is one.
    ///
    /// ```
    /// # use tensor_core::Value;
    /// assert_eq!(Value::from(0.5).as_f64(), Some(0.5));
    /// assert_eq!(Value::from(3i64).as_f64(), Some(3.0));
    /// assert_eq!(Value::Null.as_f64(), None);
    /// ```
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            #[allow(clippy::cast_precision_loss, reason = "the nearest float is asked for")]
            Self::Int(value) => Some(*value as f64),
            Self::BigInt(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// True or false, if it is one of them.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The bytes, if the value is bytes, not text.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The items, if it is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The pairs of key and value, if it is a map.
    #[must_use]
    pub fn as_map(&self) -> Option<&[(Self, Self)]> {
        match self {
            Self::Map(pairs) => Some(pairs),
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
    #[must_use]
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
    #[must_use]
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
