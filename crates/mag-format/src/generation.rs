#![deny(clippy::arithmetic_side_effects)]

use core::fmt;

use tensor_core::codec::Cursor;
use tensor_core::{Source, Version};

use crate::layout::{MAGIC, VERSION};
use crate::{Error, Result, Rule, Unsupported};

/// Which of magnetron's layouts a file has. Only [`Version1`](Self::Version1) is ever written;
/// the snapshots are read with the feature `snapshots`.
///
/// ```
/// use mag_format::Generation;
///
/// let first = Generation::Version1;
/// assert_eq!((first.number(), first.version().to_string()), (1, "1".into()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Generation {
    /// Format version 1, as magnetron 0.1.2 writes it.
    #[default]
    Version1,
    /// Snapshot 0.1.0, of magnetron 0.1.5 and 0.1.6.
    Snapshot0_1,
    /// Snapshot 0.2.0, of magnetron 0.1.7 to 0.1.9.
    Snapshot0_2,
    /// Snapshot 0.3.0, of magnetron 0.2.0 to 0.2.2.
    Snapshot0_3,
}

impl Generation {
    /// How people call it: `version 1`, `snapshot 0.1.0`, ...
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Version1 => "version 1",
            Self::Snapshot0_1 => "snapshot 0.1.0",
            Self::Snapshot0_2 => "snapshot 0.2.0",
            Self::Snapshot0_3 => "snapshot 0.3.0",
        }
    }

    /// The version of the format: 1, or 0.1.0 to 0.3.0 of the snapshots.
    #[must_use]
    pub const fn version(self) -> Version {
        match self {
            Self::Version1 => Version::of_one(VERSION),
            Self::Snapshot0_1 => Version::of_three(0, 1, 0),
            Self::Snapshot0_2 => Version::of_three(0, 2, 0),
            Self::Snapshot0_3 => Version::of_three(0, 3, 0),
        }
    }

    /// The number in the file: 1, 100, 200 or 300.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Version1 => VERSION,
            Self::Snapshot0_1 => 100,
            Self::Snapshot0_2 => 200,
            Self::Snapshot0_3 => 300,
        }
    }

    /// Reads magic and version, after which the cursor stands.
    pub(crate) fn parse(source: &dyn Source, cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.at("magic");
        let magic = cursor.array::<4>("magic")?;
        if &magic == b"MAG&" {
            let what = Unsupported::Version {
                version: 1,
                about: "a layout of source builds of \
                April to July 2025 (magic \"MAG&\"), written by no release",
            };
            return Err(Error::unsupported(what, at));
        }
        if magic != MAGIC {
            let rule = Rule::Magic { got: magic };
            return Err(Error::invalid(rule, at));
        }
        let at = cursor.at("version");
        let version = cursor.u32_le("version")?;
        let about = match version {
            0 => {
                let rule = Rule::Version;
                return Err(Error::invalid(rule, at));
            }
            VERSION => return Ok(Self::Version1),
            100 if is_snapshot(source)? => return Self::Snapshot0_1.enabled(at),
            100 => {
                "the version 1 layout under number 100, written by source builds of October to \
                 December 2025 with one of two dtype tables"
            }
            200 => return Self::Snapshot0_2.enabled(at),
            300 => return Self::Snapshot0_3.enabled(at),
            0x0100_0000 => "version 1 with its bytes swapped, as a big-endian host would write it",
            _ => "a version that no known release writes",
        };
        let what = Unsupported::Version { version, about };
        Err(Error::unsupported(what, at))
    }

    #[cfg(feature = "snapshots")]
    fn enabled(self, _: tensor_core::At) -> Result<Self> {
        Ok(self)
    }

    #[cfg(not(feature = "snapshots"))]
    fn enabled(self, at: tensor_core::At) -> Result<Self> {
        let about = match self {
            Self::Snapshot0_1 => {
                "magnetron snapshot format 0.1.0, written by magnetron 0.1.5 and 0.1.6 (enable \
                 the feature `snapshots` to read it)"
            }
            Self::Snapshot0_2 => {
                "magnetron snapshot format 0.2.0, written by magnetron 0.1.7 to 0.1.9 (enable the \
                 feature `snapshots` to read it)"
            }
            Self::Snapshot0_3 => {
                "magnetron snapshot format 0.3.0, written by magnetron 0.2.0 to 0.2.2 (enable the \
                 feature `snapshots` to read it)"
            }
            Self::Version1 => return Ok(self),
        };
        let what = Unsupported::Version {
            version: self.number(),
            about,
        };
        Err(Error::unsupported(what, at))
    }
}

/// Which of the two different layouts with the number 100 a file has.
///
/// A snapshot has four zero bytes at 24, the count of metadata that no release could write, and
/// the marker `SRP!` at 32. Either is enough, so that damage to one still counts as damage to a
/// snapshot. In the other layout a record starts at 24, which never begins with zeros, and a file
/// without records ends there.
fn is_snapshot(source: &dyn Source) -> Result<bool> {
    let size = source.size();
    let mut cursor = Cursor::new(source, 0..size)?;
    cursor.expect_up_to(36);
    cursor.skip(12, "header")?;
    if size == 24 && cursor.array::<12>("header")? == [0; 12] {
        return Ok(false);
    }
    let mut cursor = Cursor::new(source, 0..size)?;
    cursor.expect_up_to(36);
    cursor.skip(24, "header")?;
    let count = cursor.u32_le("metadata_map_len")?;
    cursor.skip(4, "tensor_header_count")?;
    let marker = cursor.array::<4>("marker")?;
    Ok(count == 0 || &marker == b"SRP!")
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
