use alloc::boxed::Box;
use core::fmt;

use sha2::{Digest as _, Sha256};

/// Section 4, `checksum`: what an entry says about its data as stored.
///
/// ```
/// use ztensor_format::Checksum;
///
/// assert_eq!(Checksum::Crc32c(0x1234ABCD).to_string(), "crc32c:0x1234ABCD");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Checksum {
    /// `crc32c:`, Castagnoli's CRC-32.
    Crc32c(u32),
    /// `sha256:`, as its 32 bytes.
    Sha256([u8; 32]),
    /// `xxh3:`, XXH3-64 of the decoded data; zTensor 2 alone has it.
    Xxh3(u64),
    /// Anything else, as it is in the file: nothing that this crate could check.
    Other(Box<str>),
}

impl Checksum {
    /// Reads the field; `None` where a known algorithm has a malformed value.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(value) = text.strip_prefix("crc32c:") {
            let digits = value.strip_prefix("0x").unwrap_or(value);
            let mut crc = None;
            for digit in digits.chars() {
                // What the next digit pushes out must be zero.
                let high = crc.unwrap_or(0u32);
                crc = Some(high.checked_mul(16)? | digit.to_digit(16)?);
            }
            return crc.map(Self::Crc32c);
        }
        let Some(digits) = text.strip_prefix("sha256:") else {
            return Some(Self::Other(text.into()));
        };
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let pair = core::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self::Sha256(bytes))
    }

    /// Reads the field of a zTensor 2 file, an algorithm and lower-case digits; `None` where it is
    /// malformed. A known algorithm with another number of digits is well-formed there.
    #[cfg(feature = "generations")]
    pub(crate) fn parse_v2(text: &str) -> Option<Self> {
        let (algorithm, digits) = text.split_once(':')?;
        let name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_all = |text: &str, of: &dyn Fn(u8) -> bool| !text.is_empty() && text.bytes().all(of);
        if !is_all(algorithm, &name) || !is_all(digits, &digit) {
            return None;
        }
        Some(match (algorithm, digits.len()) {
            ("xxh3", 16) => Self::Xxh3(u64::from_str_radix(digits, 16).ok()?),
            ("sha256", 64) => Self::parse(text)?,
            _ => Self::Other(text.into()),
        })
    }

    /// The algorithm's name, the text before the first colon.
    ///
    /// ```
    /// use ztensor_format::Checksum;
    ///
    /// assert_eq!(Checksum::Crc32c(0x1234ABCD).algorithm(), "crc32c");
    /// ```
    #[must_use]
    pub fn algorithm(&self) -> &str {
        match self {
            Self::Crc32c(_) => "crc32c",
            Self::Sha256(_) => "sha256",
            Self::Xxh3(_) => "xxh3",
            Self::Other(text) => text.split(':').next().unwrap_or_default(),
        }
    }
}

/// As a [`Builder`](crate::Builder) writes it.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crc32c(crc) => write!(f, "crc32c:0x{crc:08X}"),
            Self::Sha256(bytes) => {
                f.write_str("sha256:")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Xxh3(hash) => write!(f, "xxh3:{hash:016x}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Which checksum a [`Builder`](crate::Builder) writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// CRC-32C, which every reader checks.
    #[default]
    Crc32c,
    /// SHA-256, which zTensor 0.1 itself does not check, but later releases do.
    Sha256,
    /// No checksum.
    None,
}

/// A checksum on its way.
#[derive(Clone)]
pub(crate) enum Hasher {
    Crc32c(u32),
    Sha256(Sha256),
    #[cfg(feature = "generations")]
    Xxh3(Box<xxhash_rust::xxh3::Xxh3Default>),
    None,
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Crc32c => Self::Crc32c(0),
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::None => Self::None,
        }
    }

    /// What computes a checksum like this one; nothing for one that can't be checked.
    pub(crate) fn like(checksum: Option<&Checksum>) -> Self {
        #[cfg(feature = "generations")]
        if let Some(Checksum::Xxh3(_)) = checksum {
            return Self::Xxh3(Box::default());
        }
        Self::new(match checksum {
            Some(Checksum::Crc32c(_)) => Algorithm::Crc32c,
            Some(Checksum::Sha256(_)) => Algorithm::Sha256,
            _ => Algorithm::None,
        })
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32c(crc) => *crc = tensor_core::checksum::crc32c_append(*crc, bytes),
            Self::Sha256(sha256) => sha256.update(bytes),
            #[cfg(feature = "generations")]
            Self::Xxh3(xxh3) => xxh3.update(bytes),
            Self::None => {}
        }
    }

    pub(crate) fn finish(self) -> Option<Checksum> {
        match self {
            Self::Crc32c(crc) => Some(Checksum::Crc32c(crc)),
            Self::Sha256(sha256) => Some(Checksum::Sha256(sha256.finalize().into())),
            #[cfg(feature = "generations")]
            Self::Xxh3(xxh3) => Some(Checksum::Xxh3(xxh3.digest())),
            Self::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn forms_that_are_read() {
        let crc = |text| Checksum::parse(text);
        for text in ["crc32c:0x0C1DA94E", "crc32c:0xc1da94e", "crc32c:0C1da94E"] {
            assert_eq!(crc(text), Some(Checksum::Crc32c(0x0C1D_A94E)), "{text}");
        }
        assert_eq!(
            crc("crc32c:0x00000000C1DA94E"),
            Some(Checksum::Crc32c(0x0C1D_A94E))
        );
        for text in [
            "crc32c:",
            "crc32c:0x",
            "crc32c:0x1G",
            "crc32c:+1",
            "crc32c:0x100000000",
        ] {
            assert_eq!(crc(text), None, "{text}");
        }
        let digits = "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff";
        let text = alloc::format!("sha256:{digits}");
        let sha256 = Checksum::parse(&text).unwrap();
        assert_eq!(sha256.to_string(), text.to_ascii_lowercase());
        assert_eq!(sha256.algorithm(), "sha256");
        assert_eq!(Checksum::parse("sha256:00"), None);
        assert_eq!(Checksum::parse(&text.replace('7', "g")), None);
        for text in ["", "md5:00", "CRC32C:0x1", "crc32c"] {
            assert_eq!(Checksum::parse(text), Some(Checksum::Other(text.into())));
        }
    }

    #[test]
    fn hashing_gives_what_is_written() {
        let mut hasher = Hasher::new(Algorithm::Crc32c);
        hasher.update(&[0, 1]);
        hasher.update(&[0, 2]);
        assert_eq!(hasher.finish().unwrap().to_string(), "crc32c:0x0C1DA94E");
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(b"abc");
        let text = hasher.finish().unwrap().to_string();
        assert!(text.starts_with("sha256:ba7816bf8f01cfea414140de5dae2223"));
        assert_eq!(Hasher::new(Algorithm::None).finish(), None);
    }
}
