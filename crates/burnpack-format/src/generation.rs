use core::fmt;

/// Which releases of Burn write files like this one, as far as its content tells. The version
/// field says 1 in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Generation {
    /// burn-store 0.19 and early 0.20 pre-releases: packed.
    V0_19,
    /// burn-store 0.20: aligned, bools as a plain text.
    V0_20,
    /// burn-store 0.21: bools with a store, quantization schemes with `param` and `level`.
    V0_21,
    /// burn-pack 0.22 and later: scalars, quantization schemes with `tensor` and `block`.
    Current,
    /// Any aligned one: nothing in the file differs between them.
    Unknown,
}

impl Generation {
    /// For listings: `0.19`, `0.20`, `0.21`, `0.22+`, `0.20+`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V0_19 => "0.19",
            Self::V0_20 => "0.20",
            Self::V0_21 => "0.21",
            Self::Current => "0.22+",
            Self::Unknown => "0.20+",
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
