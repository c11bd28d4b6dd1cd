//! CRC-32C (Castagnoli), which two of the formats store: hardware instructions with the
//! feature `crc32c`, a table without; both give the same values.

use core::ops::Range;

use crate::Source;
use crate::codec::{Ticker, TransferError, walk};
#[cfg(feature = "crc32c")]
use crate::parallel;

/// Bytes that one thread checks before it takes the next piece.
#[cfg(feature = "crc32c")]
const PIECE: u64 = 16 << 20;

/// CRC-32C of `bytes`.
///
/// ```
/// assert_eq!(tensor_core::checksum::crc32c(b"123456789"), 0xE306_9283);
/// ```
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// CRC-32C of what gave `crc`, followed by `bytes`.
///
/// ```
/// use tensor_core::checksum::{crc32c, crc32c_append};
///
/// assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), crc32c(b"123456789"));
/// ```
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(feature = "crc32c")]
    {
        crc32c::crc32c_append(crc, bytes)
    }
    #[cfg(not(feature = "crc32c"))]
    {
        table::append(crc, bytes)
    }
}

/// CRC-32C of a range of `source`, on up to `threads` threads (0 for all).
///
/// # Errors
/// What the source fails with, or a stop on request.
///
/// ```
/// use tensor_core::Bytes;
/// use tensor_core::checksum::{crc32c, crc32c_source};
/// use tensor_core::codec::Ticker;
///
/// let source = Bytes::from_static(b"header, data");
/// let sum = crc32c_source(&source, 8..12, 0, &Ticker::new(None))?;
/// assert_eq!(sum, crc32c(b"data"));
/// # Ok::<(), tensor_core::codec::TransferError>(())
/// ```
pub fn crc32c_source(
    source: &dyn Source,
    range: Range<u64>,
    threads: usize,
    ticker: &Ticker<'_>,
) -> Result<u32, TransferError> {
    let one = |range: Range<u64>| {
        let mut crc = 0;
        walk::<TransferError>(source, range, ticker, |piece| {
            crc = crc32c_append(crc, piece);
            Ok(())
        })?;
        Ok(crc)
    };
    #[cfg(feature = "crc32c")]
    if parallel::threads(threads) > 1 && range.end.saturating_sub(range.start) > PIECE {
        let piece = |index: usize| {
            let start = range.start + index as u64 * PIECE;
            start..range.end.min(start + PIECE)
        };
        let count = usize::try_from((range.end - range.start).div_ceil(PIECE)).unwrap_or(1);
        let crcs = parallel::map(threads, count, |index| {
            let range = piece(index);
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            one(range).map(|crc| (crc, len))
        })?;
        return Ok(crcs.into_iter().fold(0, |whole, (crc, len)| {
            crc32c::crc32c_combine(whole, crc, len)
        }));
    }
    let _ = threads;
    one(range)
}

/// The table-driven form, also built for tests so that both can be held against each other.
#[cfg(any(test, not(feature = "crc32c")))]
mod table {
    use crc::{CRC_32_ISCSI, Crc, Table};

    const CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

    pub(super) fn append(crc: u32, bytes: &[u8]) -> u32 {
        // The crate takes the register's initial value, bit-reversed against the finished CRC.
        let mut digest = CRC.digest_with_initial((!crc).reverse_bits());
        digest.update(bytes);
        digest.finalize()
    }
}

#[cfg(all(test, feature = "crc32c"))]
mod tests {
    use super::*;

    #[test]
    fn both_forms_agree_at_every_split() {
        let bytes: alloc::vec::Vec<u8> = (0..=255u8)
            .cycle()
            .take(1000)
            .map(|i| i.wrapping_mul(7))
            .collect();
        for split in [0, 1, 7, 8, 63, 64, 500, 999, 1000] {
            let (left, right) = bytes.split_at(split);
            let hardware = crc32c_append(crc32c(left), right);
            assert_eq!(hardware, crc32c(&bytes));
            assert_eq!(table::append(table::append(0, left), right), hardware);
        }
    }

    #[test]
    fn pieces_combine_to_the_whole() {
        let bytes =
            crate::Bytes::from(alloc::vec![0x5Au8; usize::try_from(PIECE * 2 + 12345).unwrap()]);
        let range = 3..bytes.size() - 5;
        let whole = crc32c(&bytes[3..bytes.len() - 5]);
        for threads in [1, 2, 0] {
            let got = crc32c_source(&bytes, range.clone(), threads, &Ticker::default()).unwrap();
            assert_eq!(got, whole);
        }
    }
}
