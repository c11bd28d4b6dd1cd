use alloc::vec::Vec;
use core::fmt;
use core::mem::size_of;

use bytes::Bytes;

use crate::SourceError;
use crate::compact::{append, step};

/// Which of the pieces of a [`Pieces`] it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceId(u32);

impl PieceId {
    /// The empty piece, which every list has.
    pub const EMPTY: Self = Self(u32::MAX);

    /// Whether it is the empty piece.
    ///
    /// ```
    /// use tensor_core::codec::Pieces;
    ///
    /// let mut pieces = Pieces::default();
    /// assert!(pieces.push(b"")?.is_empty());
    /// # Ok::<(), tensor_core::SourceError>(())
    /// ```
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }
}

/// Pieces of bytes or text that few tensors of a file have, in one block: those that come again soon are
/// held once.
///
/// ```
/// use tensor_core::codec::{PieceId, Pieces};
///
/// let mut pieces = Pieces::default();
/// let a = pieces.push(b"int4")?;
/// let b = pieces.push(b"float3")?;
/// assert_eq!(pieces.push(b"int4")?, a);
/// assert_eq!(pieces.push(b"")?, PieceId::EMPTY);
/// assert_eq!(pieces.text(b), "float3");
/// # Ok::<(), tensor_core::SourceError>(())
/// ```
///
/// Bytes that outlive the list:
///
/// ```
/// use tensor_core::codec::Pieces;
///
/// let mut pieces = Pieces::default();
/// let id = pieces.push(b"scale 0.5")?;
/// pieces.finish(); // no more of them
/// assert_eq!(pieces.get(id), b"scale 0.5");
/// assert!(pieces.memory() >= 9);
/// let bytes = pieces.bytes(id);
/// drop(pieces);
/// assert_eq!(bytes, "scale 0.5");
/// # Ok::<(), tensor_core::SourceError>(())
/// ```
#[derive(Clone, Default)]
pub struct Pieces {
    /// All of them, one after the other; empty once they are finished.
    growing: Vec<u8>,
    /// All of them, once no more are to come.
    block: Bytes,
    ends: Vec<usize>,
    /// Where the last piece of each hash is.
    recent: Vec<u32>,
}

impl Pieces {
    /// How many hashes are told apart; most pieces are equal to the one before.
    const RECENT: usize = 256;
    /// Of a long piece only its ends are hashed.
    const HASHED: usize = 32;

    /// Adds a piece, unless it is known.
    ///
    /// # Errors
    /// [`SourceError::TooLarge`] where there are more pieces than any file has.
    pub fn push(&mut self, piece: &[u8]) -> Result<PieceId, SourceError> {
        if piece.is_empty() {
            return Ok(PieceId::EMPTY);
        }
        if self.recent.is_empty() {
            self.recent = alloc::vec![u32::MAX; Self::RECENT];
        }
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let head = piece.iter().take(Self::HASHED);
        let tail = piece.iter().rev().take(Self::HASHED);
        let hash = head.chain(tail).fold(piece.len() as u64, mix);
        let slot = usize::try_from(hash >> 32).unwrap_or(0) % Self::RECENT;
        let recent = self.recent.get(slot).copied().map(PieceId);
        if let Some(known) = recent.filter(|&known| self.get(known) == piece) {
            return Ok(known);
        }
        let id = u32::try_from(self.ends.len()).ok();
        let id = id.filter(|&id| PieceId(id) != PieceId::EMPTY);
        let id = id.ok_or(SourceError::TooLarge(self.ends.len() as u64))?;
        let more = step(self.growing.len(), self.growing.capacity(), piece.len());
        self.growing.reserve_exact(more);
        self.growing.extend_from_slice(piece);
        append(&mut self.ends, self.growing.len());
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = id;
        }
        Ok(PieceId(id))
    }

    /// Says that no more pieces come, and gives back what was reserved for more.
    pub fn finish(&mut self) {
        self.recent = Vec::new();
        self.ends.shrink_to_fit();
        if self.block.is_empty() {
            let all = core::mem::take(&mut self.growing);
            self.block = all.into_boxed_slice().into();
        }
    }

    /// A piece of this list.
    pub fn get(&self, id: PieceId) -> &[u8] {
        let all: &[u8] = match self.block.is_empty() {
            true => &self.growing,
            false => &self.block,
        };
        let range = self.range(id);
        all.get(range).unwrap_or_default()
    }

    /// A piece as text; empty where it is not UTF-8.
    pub fn text(&self, id: PieceId) -> &str {
        core::str::from_utf8(self.get(id)).unwrap_or_default()
    }

    /// A piece that outlives the list; shares its memory once that is finished.
    pub fn bytes(&self, id: PieceId) -> Bytes {
        let range = self.range(id);
        match range.end <= self.block.len() {
            true => self.block.slice(range),
            false => Bytes::copy_from_slice(self.get(id)),
        }
    }

    fn range(&self, id: PieceId) -> core::ops::Range<usize> {
        let at = usize::try_from(id.0).unwrap_or(usize::MAX);
        let Some(&end) = self.ends.get(at) else {
            return 0..0;
        };
        let before = at.checked_sub(1).and_then(|before| self.ends.get(before));
        before.copied().unwrap_or(0)..end
    }

    /// Bytes that all pieces take.
    pub fn memory(&self) -> u64 {
        let ends = (self.ends.len() as u64).saturating_mul(size_of::<usize>() as u64);
        let bytes = self.growing.len().max(self.block.len());
        ends.saturating_add(bytes as u64)
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces")
            .field("pieces", &self.ends.len())
            .field("bytes", &self.growing.len().max(self.block.len()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_was_pushed_before_and_after_the_last_one() {
        let mut pieces = Pieces::default();
        let of = |i: u32| alloc::format!("{}", i % 1000).into_bytes();
        let ids: Vec<PieceId> = (0..5000).map(|i| pieces.push(&of(i)).unwrap()).collect();
        for finished in [false, true] {
            for (i, id) in (0..).zip(&ids) {
                assert_eq!(pieces.get(*id), of(i));
                assert_eq!(pieces.bytes(*id), of(i));
            }
            assert_eq!(pieces.text(ids[999]), "999");
            assert_eq!(pieces.get(PieceId::EMPTY), b"");
            if !finished {
                pieces.finish();
            }
        }
        // What the ends alone don't tell apart.
        let mut pieces = Pieces::default();
        let mut long = alloc::vec![1; 200];
        let one = pieces.push(&long).unwrap();
        long[100] = 2;
        let other = pieces.push(&long).unwrap();
        assert_ne!(one, other);
        assert_eq!((pieces.get(one)[100], pieces.get(other)[100]), (1, 2));
        assert_eq!(pieces.push(&long).unwrap(), other);
        assert_eq!(pieces.memory(), 400 + 2 * size_of::<usize>() as u64);
    }
}
