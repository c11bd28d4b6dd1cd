#![deny(clippy::arithmetic_side_effects)]

use alloc::format;
use alloc::string::String;
use core::fmt;

use tensor_core::{At, Source, Truncated};

#[cfg(not(feature = "generations"))]
use crate::cbor::{Budget, Header, Reader, Skip};
use crate::{Error, Result, Rule, Unsupported};

/// Section 3.1: the first eight bytes.
pub const MAGIC: [u8; 8] = *b"ZTEN0001";
/// The first eight bytes of versions 1.0 to 1.2, and the last eight from 1.1 on.
pub(crate) const MAGIC_1: [u8; 8] = *b"ZTEN1000";
/// The first and last eight bytes of version 2.
pub(crate) const MAGIC_2: [u8; 8] = *b"\x89ZT2\r\n\x1a\n";
/// Section 3.2: where tensor data may start.
pub(crate) const ALIGN: u64 = 64;
/// Section 3.3.2: how many bytes the size of the index takes.
pub(crate) const FOOTER: u64 = 8;
/// Section 7: the smallest file, magic, empty array and its size.
pub(crate) const MIN_FILE: u64 = 17;
/// Section 4: a field of an entry that the format gives a meaning.
///
/// ```
/// use ztensor_format::Field;
///
/// assert_eq!(Field::Checksum.key(), "checksum");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// `name`, text.
    Name,
    /// `offset`, where the data starts.
    Offset,
    /// `size`, bytes that it takes in the file.
    Size,
    /// `dtype`, the element type.
    DType,
    /// `layout`, which the specification does not have, but every released writer has.
    Layout,
    /// `shape`, the dims.
    Shape,
    /// `encoding`, how elements become data.
    Encoding,
    /// `data_endianness`, byte order of raw elements.
    DataEndianness,
    /// `checksum`, of the data in the file.
    Checksum,
}

impl Field {
    /// Every field, in the order of the reference writer.
    pub const ALL: [Self; 9] = [
        Self::Name,
        Self::Offset,
        Self::Size,
        Self::DType,
        Self::Layout,
        Self::Shape,
        Self::Encoding,
        Self::DataEndianness,
        Self::Checksum,
    ];

    /// The field's key.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Offset => "offset",
            Self::Size => "size",
            Self::DType => "dtype",
            Self::Layout => "layout",
            Self::Shape => "shape",
            Self::Encoding => "encoding",
            Self::DataEndianness => "data_endianness",
            Self::Checksum => "checksum",
        }
    }

    /// The key as nearly every writer encodes it.
    pub(crate) const fn encoded_key(self) -> &'static [u8] {
        match self {
            Self::Name => b"\x64name",
            Self::Offset => b"\x66offset",
            Self::Size => b"\x64size",
            Self::DType => b"\x65dtype",
            Self::Layout => b"\x66layout",
            Self::Shape => b"\x65shape",
            Self::Encoding => b"\x68encoding",
            Self::DataEndianness => b"\x6Fdata_endianness",
            Self::Checksum => b"\x68checksum",
        }
    }

    /// The field that has this key.
    pub(crate) fn from_key(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"name" => Self::Name,
            b"offset" => Self::Offset,
            b"size" => Self::Size,
            b"dtype" => Self::DType,
            b"layout" => Self::Layout,
            b"shape" => Self::Shape,
            b"encoding" => Self::Encoding,
            b"data_endianness" => Self::DataEndianness,
            b"checksum" => Self::Checksum,
            _ => return None,
        })
    }

    /// The rule that a value of another type breaks.
    pub(crate) const fn of_other_type(self) -> Rule {
        match self {
            Self::Name => Rule::NameType,
            Self::Offset => Rule::OffsetType,
            Self::Size => Rule::SizeType,
            Self::DType => Rule::DTypeType,
            Self::Layout => Rule::LayoutType,
            Self::Shape => Rule::ShapeType,
            Self::Encoding => Rule::EncodingType,
            Self::DataEndianness => Rule::DataEndiannessType,
            Self::Checksum => Rule::ChecksumType,
        }
    }

    /// The field's bit in a set of them.
    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// What the first eight bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magic {
    V0,
    #[cfg(feature = "generations")]
    V1,
    #[cfg(feature = "generations")]
    V2,
}

/// Checks the magic, and names other generations. Leaves the rest of the file alone.
pub(crate) fn check_magic(source: &dyn Source) -> Result<Magic> {
    let size = source.size();
    let at = At::new(0, "magic");
    let truncated = |needed| {
        Err(Error::from(Truncated {
            at,
            needed,
            available: size,
        }))
    };
    if size < MAGIC.len() as u64 {
        return truncated(MIN_FILE);
    }
    let mut magic = [0; 8];
    source.read_into(0, &mut magic)?;
    let about = match &magic {
        got if *got == MAGIC && size < MIN_FILE => return truncated(MIN_FILE),
        got if *got == MAGIC => return Ok(Magic::V0),
        #[cfg(feature = "generations")]
        got if *got == MAGIC_1 => return Ok(Magic::V1),
        #[cfg(feature = "generations")]
        got if *got == MAGIC_2 => return Ok(Magic::V2),
        #[cfg(not(feature = "generations"))]
        got if *got == MAGIC_1 => generation_1(source)?,
        #[cfg(not(feature = "generations"))]
        got if *got == MAGIC_2 => generation_2(source)?,
        [b'Z', b'T', b'E', b'N', rest @ ..] => {
            let version: String = rest.escape_ascii().map(char::from).collect();
            format!("this is a zTensor file of unknown version (magic \"ZTEN{version}\")")
        }
        _ => {
            let rule = Rule::Magic { got: magic };
            return Err(Error::invalid(rule, at));
        }
    };
    let what = Unsupported::Version {
        about: about.into(),
    };
    Err(Error::unsupported(what, at))
}

/// 1.0 ends in the size of its manifest, 1.1 and 1.2 repeat the magic after that. All three say
/// in the manifest, a CBOR map, which version wrote it.
#[cfg(not(feature = "generations"))]
fn generation_1(source: &dyn Source) -> Result<String> {
    /// How much of a manifest is looked at for its version.
    const HEAD: u64 = 4096;
    let size = source.size();
    let footer = |back: u64| -> Result<[u8; 8]> {
        let mut field = [0; 8];
        if let Some(offset) = size.checked_sub(back).filter(|&offset| offset >= 8) {
            source.read_into(offset, &mut field)?;
        }
        Ok(field)
    };
    let repeated = footer(8)? == MAGIC_1;
    let (manifest_end, manifest_size) = match repeated {
        true => (size.saturating_sub(16), footer(16)?),
        false => (size.saturating_sub(8), footer(8)?),
    };
    let manifest_start = manifest_end.checked_sub(u64::from_le_bytes(manifest_size));
    let version = match manifest_start.filter(|&start| start >= 8) {
        Some(start) => {
            let head = source.read(start..manifest_end.min(start.saturating_add(HEAD)))?;
            version_in(&head)
        }
        None => None,
    };
    Ok(match (repeated, version) {
        (true, Some(version)) => {
            format!(
                "this is a zTensor 1.1 or 1.2 file (magic ZTEN1000, manifest version {version})"
            )
        }
        (true, None) => "this is a zTensor 1.1 or 1.2 file (magic ZTEN1000 at both ends)".into(),
        (false, Some(version)) => format!(
            "this is a zTensor 1.0 file (magic ZTEN1000, no footer magic, manifest version \
             {version})"
        ),
        (false, None) => "this is a zTensor 1.0 file (magic ZTEN1000, no footer magic)".into(),
    })
}

/// The text under the key `version` at the top of a manifest, as far as it is there.
#[cfg(not(feature = "generations"))]
fn version_in(manifest: &[u8]) -> Option<String> {
    let mut reader = Reader::new(manifest, 0, 128);
    let Header::Map(_) = reader.item().ok()? else {
        return None;
    };
    loop {
        let Header::Text(len) = reader.item().ok()? else {
            return None;
        };
        if reader.text(len).ok()? == "version" {
            let Header::Text(len) = reader.item().ok()? else {
                return None;
            };
            return Some(reader.text(len).ok()?.escape_default().collect());
        }
        reader.walk(&mut Skip, &mut Budget::new(u64::MAX)).ok()?;
    }
}

/// 2.x ends in 40 bytes whose last eight repeat the magic; the version is at 16 from the end.
#[cfg(not(feature = "generations"))]
fn generation_2(source: &dyn Source) -> Result<String> {
    let size = source.size();
    let mut footer = [0; 16];
    if let Some(offset) = size.checked_sub(16).filter(|&offset| offset >= 8) {
        source.read_into(offset, &mut footer)?;
    }
    Ok(match footer {
        [a, b, c, d, _, _, _, _, magic @ ..] if magic == MAGIC_2 => {
            let version = u32::from_le_bytes([a, b, c, d]);
            format!("this is a zTensor 2.x file (footer version {version})")
        }
        _ => "this is a zTensor 2.x file (magic 89 5A 54 32, no footer)".into(),
    })
}
