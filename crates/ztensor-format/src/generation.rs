use core::fmt;

use tensor_core::Version;

/// A generation of the format. A file tells no release, only this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Generation {
    /// Magic `ZTEN0001`, an array of tensors at the end: releases 0.1.0 to 0.1.4.
    V0_1,
    /// Magic `ZTEN1000`, objects of components.
    V1_0,
    /// Magic `ZTEN1000` at both ends, and a dtype for each component.
    V1_1,
    /// As 1.1, with any attributes, lengths of compressed components, and logical types.
    V1_2,
    /// Magic `89 5A 54 32 0D 0A 1A 0A`, deterministic CBOR under a hash.
    V2,
}

impl Generation {
    /// As people name it: `0.1`, `1.0`, `1.1`, `1.2` or `2`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
            Self::V2 => "2",
        }
    }

    /// The version of the format that files of this generation have, as numbers.
    ///
    /// ```
    /// use ztensor_format::Generation;
    ///
    /// assert_eq!(Generation::V0_1.version().to_string(), "0.1");
    /// ```
    #[must_use]
    pub const fn version(self) -> Version {
        match self {
            Self::V0_1 => Version::new(0, 1),
            Self::V1_0 => Version::new(1, 0),
            Self::V1_1 => Version::new(1, 1),
            Self::V1_2 => Version::new(1, 2),
            Self::V2 => Version::of_one(2),
        }
    }

    /// Whether a hash covers the index.
    pub(crate) const fn has_index_hash(self) -> bool {
        matches!(self, Self::V2)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
