use serde_json::{Map, Number, Value as Json};
use tensor_core::Value;

/// A metadata value as JSON, losing nothing: integers stay exact (as text beyond 64 bits), NaN
/// and infinities are `"nan"`, `"inf"`, `"-inf"`, bytes are `{"$bytes": hex}`, and a map with
/// keys that are no text is `{"$map": [[key, value], ...]}`.
///
/// ```
/// use tensorfmt::{Value, to_json};
///
/// assert_eq!(to_json(&Value::from(f64::NAN)).to_string(), "\"nan\"");
/// assert_eq!(to_json(&Value::Bytes(vec![1, 2])).to_string(), r#"{"$bytes":"0102"}"#);
/// ```
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => integer(*value),
        Value::BigInt(digits) => Json::String(digits.clone()),
        Value::Float(value) => float(*value),
        Value::Text(text) => Json::String(text.clone()),
        Value::Bytes(bytes) => wrapped("$bytes", Json::String(hex(bytes))),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Map(pairs) => map(pairs),
        _ => Json::Null,
    }
}

fn integer(value: i128) -> Json {
    if let Ok(value) = u64::try_from(value) {
        Json::Number(Number::from(value))
    } else if let Ok(value) = i64::try_from(value) {
        Json::Number(Number::from(value))
    } else {
        Json::String(value.to_string())
    }
}

fn float(value: f64) -> Json {
    Number::from_f64(value).map_or_else(|| Json::String(float_word(value).into()), Json::Number)
}

/// The word for a float that JSON has no number for.
pub(crate) fn float_word(value: f64) -> &'static str {
    if value.is_nan() {
        "nan"
    } else if value > 0.0 {
        "inf"
    } else {
        "-inf"
    }
}

fn map(pairs: &[(Value, Value)]) -> Json {
    let mut object = Map::new();
    for (key, value) in pairs {
        match key.as_str() {
            Some(key) if !object.contains_key(key) => {
                object.insert(key.to_owned(), to_json(value));
            }
            _ => {
                let pairs = pairs
                    .iter()
                    .map(|(k, v)| Json::Array(vec![to_json(k), to_json(v)]));
                return wrapped("$map", Json::Array(pairs.collect()));
            }
        }
    }
    Json::Object(object)
}

fn wrapped(key: &str, value: Json) -> Json {
    Json::Object(Map::from_iter([(key.to_owned(), value)]))
}

/// What values that are decoded from the texts of one file may still take of memory: a value can
/// be two bytes of text, and takes a hundred.
#[derive(Debug)]
pub(crate) struct DecodeBudget(u64);

impl DecodeBudget {
    /// What the values of a file may take beyond its size.
    const OVERHEAD: u64 = 64 << 20;
    /// What a value takes at the most, and what the tree takes that an object begins with.
    const VALUE: u64 = 96;
    const OBJECT: u64 = 640;

    pub(crate) fn of(file_len: u64) -> Self {
        Self(file_len.saturating_add(Self::OVERHEAD))
    }

    /// Decodes a text, unless its values would take more than is left. Each has a character of
    /// its own before it; those within texts are counted too.
    pub(crate) fn decode(&mut self, text: &str) -> Option<Json> {
        let cost = text.bytes().map(|byte| match byte {
            b',' | b':' | b'[' => Self::VALUE,
            b'{' => Self::OBJECT,
            _ => 0,
        });
        self.0 = self.0.checked_sub(cost.fold(0, u64::saturating_add))?;
        serde_json::from_str(text).ok()
    }
}

/// The value that [`to_json`] made this of; numbers without a fraction are integers.
pub(crate) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Value::Int(value.into()),
            (_, Some(value)) => Value::Int(value.into()),
            _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::List(items.iter().map(from_json).collect()),
        Json::Object(object) => {
            let only = |key| object.get(key).filter(|_| object.len() == 1);
            if let Some(bytes) = only("$bytes").and_then(|hex| unhex(hex.as_str()?)) {
                return Value::Bytes(bytes);
            }
            if let Some(pairs) = only("$map").and_then(|pairs| pairs.as_array()) {
                let pair = |pair: &Json| match pair.as_array().map(Vec::as_slice) {
                    Some([key, value]) => Some((from_json(key), from_json(value))),
                    _ => None,
                };
                if let Some(pairs) = pairs.iter().map(pair).collect() {
                    return Value::Map(pairs);
                }
            }
            let pair =
                |(key, value): (&String, &Json)| (Value::Text(key.clone()), from_json(value));
            Value::Map(object.iter().map(pair).collect())
        }
    }
}

/// Bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| {
        char::from(*byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}
