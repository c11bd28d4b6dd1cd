use core::fmt;

/// Which releases of Burn shall read a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compat {
    /// burn-store 0.20: bools as a plain text, the older quantization schemes, no scalars.
    V0_20,
    /// burn-store 0.21: the older quantization schemes, no scalars.
    V0_21,
    /// burn-pack 0.22 and later.
    #[default]
    Current,
    /// Those that read what the tensors come from: every dtype as it is spelled, a bool as a plain
    /// text where it is [`BoolStore::Legacy`](crate::BoolStore::Legacy), a scheme by its own
    /// [`generation`](crate::QuantScheme::generation).
    AsSpelled,
}

impl Compat {
    /// For messages: `0.20`, `0.21`, `0.22+`, `as spelled`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V0_20 => "0.20",
            Self::V0_21 => "0.21",
            Self::Current => "0.22+",
            Self::AsSpelled => "as spelled",
        }
    }
}

impl fmt::Display for Compat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a [`Builder`](crate::Builder) writes of a tensor beside its values: a parameter id, none unless set.
///
/// ```
/// use burnpack_format::{Archive, Builder, Tensor, TensorOptions};
///
/// let mut builder = Builder::new();
/// let w = Tensor::from_slice(&[1.0f32, 2.0], &[2])?;
/// builder.tensor_with("w", w, TensorOptions::new().with_param_id(42))?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// assert_eq!(archive.entry("w").unwrap().param_id(), Some(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorOptions {
    pub(super) param_id: Option<u64>,
}

impl TensorOptions {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { param_id: None }
    }

    /// The parameter that Burn knows the tensor as.
    #[must_use]
    pub const fn with_param_id(mut self, id: u64) -> Self {
        self.param_id = Some(id);
        self
    }

    /// The parameter id, if there is one.
    #[must_use]
    pub const fn param_id(self) -> Option<u64> {
        self.param_id
    }
}
