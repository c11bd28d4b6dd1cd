use alloc::string::String;

use tensor_core::Value;

/// A pair of metadata: a key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct MetaEntry {
    key: String,
    value: Value,
}

impl MetaEntry {
    pub(crate) fn new(key: impl Into<String>, value: Value) -> Self {
        let key = key.into();
        Self { key, value }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Both, without a copy.
    #[must_use]
    pub fn into_pair(self) -> (String, Value) {
        (self.key, self.value)
    }
}
