use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::Value;
use tensor_core::codec::NameTable;

use crate::index::FIELDS;
use crate::msgpack::Encoder;
use crate::{BuildError, Limits, Result};

/// What a [`Builder`](crate::Builder) says about a tensor in the index beside name, dtype and
/// shape: nothing unless set.
///
/// ```
/// use aero_format::{Archive, Builder, Tensor, TensorOptions};
///
/// let options = TensorOptions::new()
///     .with_quant_id(0)
///     .with_extra("note", "of the second run")?;
/// let mut builder = Builder::new();
/// builder.tensor_with("w", Tensor::from_slice(&[1u8, 2], &[2])?, options)?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let entry = archive.entry("w").ok_or("no w")?;
/// assert_eq!(entry.quant_id(), Some(0));
/// assert_eq!(archive.extra(entry), [("note".to_string(), "of the second run".into())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TensorOptions {
    pub(super) flags: u64,
    pub(super) quant_id: Option<i64>,
    pub(super) extra: Vec<(String, Value)>,
    keys: NameTable,
}

impl TensorOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The flags of the tensor.
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Tensor, TensorOptions};
    ///
    /// let mut builder = Builder::new();
    /// let options = TensorOptions::new().with_flags(5);
    /// builder.tensor_with("w", Tensor::from_slice(&[1.0f32], &[1])?, options)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// assert_eq!(archive.entry("w").ok_or("no w")?.flags(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_flags(mut self, flags: u64) -> Self {
        self.flags = flags;
        self
    }

    /// Which quantization descriptor of the metadata describes the tensor.
    #[must_use]
    pub fn with_quant_id(mut self, id: i64) -> Self {
        self.quant_id = Some(id);
        self
    }

    /// Adds a key to what the index says about the tensor, such as `quant_params`.
    ///
    /// # Errors
    /// [`BuildError::Key`] for the format's own fields, [`BuildError::Duplicate`],
    /// [`BuildError::Value`] for what MessagePack can't hold, [`BuildError::Depth`] for what readers don't
    /// follow.
    pub fn with_extra(mut self, key: impl Into<String>, value: impl Into<Value>) -> Result<Self> {
        self.set_extra(key, value)?;
        Ok(self)
    }

    /// Adds a key like [`with_extra`](Self::with_extra); the options stay as they were where it
    /// can't be added.
    ///
    /// # Errors
    /// As [`with_extra`](Self::with_extra).
    ///
    /// ```
    /// use aero_format::TensorOptions;
    ///
    /// let mut options = TensorOptions::new();
    /// options.set_extra("author", "me")?;
    /// assert!(options.set_extra("name", "w").is_err()); // the format has that key
    /// # Ok::<(), aero_format::Error>(())
    /// ```
    pub fn set_extra(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Result<()> {
        let (key, value) = (key.into(), value.into());
        if FIELDS.contains(&&*key) && key != "quant_params" {
            return Err(BuildError::Key { key }.into());
        }
        let (depth, max) = (value.depth() as u64, Limits::default().max_value_depth);
        if depth > max {
            return Err(BuildError::Depth { key, depth, max }.into());
        }
        if !Encoder::new().value(&value) {
            return Err(BuildError::Value { key }.into());
        }
        self.keys
            .push(&mut self.extra, |(key, _)| key, (key, value))
            .map_err(|(name, _)| BuildError::Duplicate { name })?;
        Ok(())
    }
}
