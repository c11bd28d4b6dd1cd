use alloc::string::String;

use tensor_core::Value;

/// A pair of metadata: a key and its value.
///
/// ```
/// use aero_format::{Archive, Builder, Value};
///
/// let mut builder = Builder::new();
/// builder.metadata("step", 7i64)?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let found = archive.metadata()?.into_iter().find(|entry| entry.key() == "step");
/// let step = found.ok_or("no step")?;
/// assert_eq!(step.value(), &Value::from(7i64));
/// assert_eq!(step.into_pair(), ("step".into(), Value::from(7i64)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
