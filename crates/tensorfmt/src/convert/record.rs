use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value as Json};
use tensor_core::Value;

use super::{Loss, LossKind, Model};
use crate::json::{DecodeBudget, float_word, from_json, to_json};

/// How deep values may nest so that they can be read as JSON again.
const MAX_DEPTH: usize = 100;

/// What a format whose metadata is text can't say in its own way: which metadata values are no
/// text, and what only some formats say about single tensors. It travels as JSON under one key
/// beside the values themselves, which stay readable for everyone:
///
/// ```json
/// {"order": ["step", "lr"], "types": {"step": "json"}, "tensors": {"w": {"param_id": 7}}}
/// ```
///
/// The order is recorded where the keys are not sorted, since such formats sort them, but is no reason
/// of its own: what is text alone has come from a map, whose order means nothing, and is left as it
/// is.
#[derive(Debug, Default)]
pub(crate) struct Record {
    order: Vec<String>,
    types: Map<String, Json>,
    /// By name, as JSON text, which takes a tenth of what a tree does.
    tensors: BTreeMap<String, String>,
}

impl Record {
    /// The metadata key that carries it.
    pub(crate) const KEY: &str = "tensorfmt";

    /// Notes where a key stands among the metadata.
    pub(crate) fn note_order(&mut self, key: &str) {
        if self.order.last().is_none_or(|last| last != key) {
            self.order.push(key.to_owned());
        }
    }

    /// The text of a value, with a note of its type unless it is text already.
    pub(crate) fn text_of(&mut self, key: &str, value: &Value) -> String {
        self.note_order(key);
        let (kind, text) = match value {
            Value::Text(text) => return text.clone(),
            Value::Int(value)
                if u64::try_from(*value).is_err() && i64::try_from(*value).is_err() =>
            {
                ("int", value.to_string())
            }
            Value::BigInt(digits) => ("int", digits.clone()),
            Value::Float(value) if !value.is_finite() => ("float", float_word(*value).to_owned()),
            value => ("json", to_json(value).to_string()),
        };
        self.types.insert(key.to_owned(), kind.into());
        text
    }

    /// Whether a reader of JSON takes a value that nests like this; many stop at 128 levels.
    pub(crate) fn is_flat(value: &Value) -> bool {
        value.depth() <= MAX_DEPTH
    }

    /// What is lost of a value that [`text_of`](Self::text_of) turns into text, if anything is.
    pub(crate) fn loss_of(key: &str, value: &Value) -> Option<Loss> {
        if !matches!(value, Value::List(_) | Value::Map(_)) {
            return None;
        }
        let has_no_json = |value: &Value| match value {
            Value::Float(value) => !value.is_finite(),
            Value::Int(value) => u64::try_from(*value).is_err() && i64::try_from(*value).is_err(),
            Value::BigInt(_) => true,
            _ => false,
        };
        let reason = if !Self::is_flat(value) {
            format!("nested deeper than {MAX_DEPTH} levels, so that it stays JSON text")
        } else if value.walk().any(|(_, value)| has_no_json(value)) {
            "NaN, infinities and integers beyond 64 bits in it become text".to_owned()
        } else {
            return None;
        };
        Some(Loss::new(LossKind::Metadata, key, reason))
    }

    /// Notes the attributes of a tensor.
    pub(crate) fn attributes(&mut self, tensor: &str, attributes: &[(String, Value)]) {
        if !attributes.is_empty() {
            let pair = |(key, value): &(String, Value)| (key.clone(), to_json(value));
            let object: Map<String, Json> = attributes.iter().map(pair).collect();
            let text = Json::Object(object).to_string();
            self.tensors.insert(tensor.to_owned(), text);
        }
    }

    /// The value of [`KEY`](Self::KEY), `None` where there is nothing to say.
    pub(crate) fn to_text(&self) -> Option<String> {
        if self.types.is_empty() && self.tensors.is_empty() {
            return None;
        }
        // Written part by part, since a copy of the attributes of a million tensors is large.
        let mut parts = Vec::new();
        if !self.order.is_sorted() {
            parts.push(format!(
                "\"order\":{}",
                serde_json::to_string(&self.order).ok()?
            ));
        }
        // The parts of an object are sorted by their keys.
        if !self.tensors.is_empty() {
            let mut part = String::from("\"tensors\":");
            let mut before = '{';
            for (name, text) in &self.tensors {
                part.push(before);
                part.push_str(&serde_json::to_string(name).ok()?);
                part.push(':');
                part.push_str(text);
                before = ',';
            }
            part.push('}');
            parts.push(part);
        }
        if !self.types.is_empty() {
            parts.push(format!(
                "\"types\":{}",
                serde_json::to_string(&self.types).ok()?
            ));
        }
        Some(format!("{{{}}}", parts.join(",")))
    }

    /// The loss where the source uses [`KEY`](Self::KEY) for a text of its own.
    pub(crate) fn has_no_place() -> Loss {
        let reason = "the key is used already, so the order and types of metadata, and what only \
            the source says about single tensors, are not noted under it";
        Loss::new(LossKind::Metadata, Self::KEY, reason)
    }

    /// Gives a model that was read from such a format its types and attributes back. A record
    /// that makes no sense, or has more values than a file of this size may, stays what it is: a
    /// text.
    pub(crate) fn restore(model: &mut Model, file_len: u64) {
        let Some(at) = model.metadata.iter().position(|(key, _)| key == Self::KEY) else {
            return;
        };
        let text = model.metadata.get(at).and_then(|(_, value)| value.as_str());
        let mut budget = DecodeBudget::of(file_len);
        let record = text.and_then(|text| budget.decode(text));
        let Some(Json::Object(record)) = record else {
            return;
        };
        model.metadata.remove(at);
        if let Some(Json::Array(order)) = record.get("order") {
            let places: HashMap<&str, usize> = order
                .iter()
                .enumerate()
                .filter_map(|(at, key)| Some((key.as_str()?, at)))
                .collect();
            // Keys that the order does not know stay where they are, at the end.
            let place = |key: &str| places.get(key).copied().unwrap_or(usize::MAX);
            model.metadata.sort_by_key(|(key, _)| place(key));
        }
        if let Some(Json::Object(types)) = record.get("types") {
            for (key, value) in &mut model.metadata {
                let kind = types.get(key.as_str()).and_then(Json::as_str);
                let parsed = kind
                    .zip(value.as_str())
                    .and_then(|(kind, text)| parse(kind, text, &mut budget));
                if let Some(parsed) = parsed {
                    *value = parsed;
                }
            }
        }
        if let Some(Json::Object(tensors)) = record.get("tensors") {
            for tensor in &mut model.tensors {
                if let Some(Json::Object(attributes)) = tensors.get(&tensor.name) {
                    for (key, value) in attributes {
                        if !tensor.attributes.iter().any(|(known, _)| known == key) {
                            tensor.attributes.push((key.clone(), from_json(value)));
                        }
                    }
                }
            }
        }
    }
}

/// The text, if it is an integer.
fn digits(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then_some(text)
}

fn parse(kind: &str, text: &str, budget: &mut DecodeBudget) -> Option<Value> {
    match kind {
        "int" => Some(match text.parse() {
            Ok(value) => Value::Int(value),
            Err(_) => Value::BigInt(digits(text)?.into()),
        }),
        "float" => text.parse().ok().map(Value::Float),
        "json" => budget.decode(text).map(|json| from_json(&json)),
        _ => None,
    }
}
