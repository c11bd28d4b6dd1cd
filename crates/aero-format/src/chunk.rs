use alloc::boxed::Box;
use core::fmt;

use crate::Rule;

/// A chunk's type: four bytes, ASCII in every known one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FourCc(pub [u8; 4]);

impl FourCc {
    /// "Chunk Types": integrity of header, TOC and string table.
    pub const IHSH: Self = Self(*b"IHSH");
    /// JSON metadata.
    pub const MJSN: Self = Self(*b"MJSN");
    /// The manifest, in MessagePack.
    pub const MMSG: Self = Self(*b"MMSG");
    /// Hashes of the pages of a shard.
    pub const PHSH: Self = Self(*b"PHSH");
    /// The tensor index.
    pub const TIDX: Self = Self(*b"TIDX");
    /// A weight shard.
    pub const WTSH: Self = Self(*b"WTSH");
}

impl fmt::Display for FourCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for FourCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// "Chunk Flags": the payload is one zstd frame.
pub(crate) const ZSTD: u32 = 0x1;
/// Should be mapped.
pub(crate) const MMAP_CRITICAL: u32 = 0x2;
/// Holds an index.
pub(crate) const INDEX: u32 = 0x4;
/// Readers may skip it.
pub(crate) const OPTIONAL: u32 = 0x8;

/// One chunk as the TOC describes it.
///
/// ```
/// use aero_format::{Archive, Builder, FourCc, Tensor};
///
/// let mut builder = Builder::new();
/// builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// for chunk in archive.chunks() {
///     println!("{} {:?} at {:#x}, flags {:#x}", chunk.fourcc(), chunk.name(), chunk.offset(), chunk.flags());
/// }
/// let found = archive.chunks().iter().find(|chunk| chunk.fourcc() == FourCc::WTSH);
/// let shard = found.ok_or("no shard")?;
/// assert!(!shard.is_zstd());
/// assert_eq!((shard.length(), shard.ulen()), (8, 8)); // in the file, and decompressed
/// assert_eq!(archive.chunk_data(shard)?.len(), 8); // checked against the hash
/// println!("{:02x?}", shard.blake3());
/// assert!(archive.chunk(FourCc::WTSH, shard.name()).is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chunk {
    pub(crate) fourcc: FourCc,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) ulen: u64,
    pub(crate) blake3: [u8; 32],
    /// The fourcc in hexadecimal and the name: together they are unique.
    pub(crate) key: Box<str>,
}

impl Chunk {
    /// The rule that a payload of another hash breaks.
    pub(crate) fn damaged(&self, found: Option<&[u8; 32]>) -> Rule {
        Rule::ChunkHash {
            expected: (&self.blake3).into(),
            found: found.map(Into::into),
        }
    }

    /// The rule that its range breaks.
    pub(crate) fn out_of_range(&self) -> Rule {
        Rule::ChunkRange {
            offset: self.offset,
            len: self.length,
        }
    }

    /// The type.
    #[must_use]
    pub fn fourcc(&self) -> FourCc {
        self.fourcc
    }

    /// The name, which may be empty.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.get(8..).unwrap_or_default()
    }

    /// The flags, unknown bits included.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Whether the payload is compressed.
    #[must_use]
    pub fn is_zstd(&self) -> bool {
        self.flags & ZSTD != 0
    }

    /// Absolute offset of the payload.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes in the file.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes when decompressed.
    #[must_use]
    pub fn ulen(&self) -> u64 {
        self.ulen
    }

    /// BLAKE3-256 of the decompressed payload.
    #[must_use]
    pub fn blake3(&self) -> &[u8; 32] {
        &self.blake3
    }

    /// Whether the chunk has no hash: a writer leaves that of its first JSON chunk at zero.
    pub(crate) fn is_unhashed(&self) -> bool {
        self.fourcc == FourCc::MJSN && self.blake3 == [0; 32]
    }

    pub(crate) fn key(fourcc: FourCc, name: &str) -> alloc::string::String {
        alloc::format!("{:08x}{name}", u32::from_be_bytes(fourcc.0))
    }
}
