//! BLAKE3 of ranges: large ones as subtrees, side by side.

use core::ops::Range;

use tensor_core::Source;
use tensor_core::codec::{Ticker, walk};

use crate::{Error, Result};

/// BLAKE3-256 of a range, on all threads that `threads` allows (0 for all).
pub(crate) fn blake3_of(
    source: &dyn Source,
    range: Range<u64>,
    threads: usize,
    ticker: &Ticker<'_>,
) -> Result<[u8; 32]> {
    #[cfg(feature = "rayon")]
    if tensor_core::parallel::threads(threads) > 1 {
        if let Some(part) = subtrees::part_of(range.end.saturating_sub(range.start)) {
            return subtrees::blake3_of(source, range, part, threads, ticker);
        }
    }
    let _ = threads;
    let mut hasher = blake3::Hasher::new();
    walk::<Error>(source, range, ticker, |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    Ok(hasher.finalize().into())
}

/// Each thread hashes a part of its own, window by window, so that what was read is still in its
/// core's cache when it is hashed.
#[cfg(feature = "rayon")]
mod subtrees {
    use core::ops::Range;

    use blake3::hazmat::{
        ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
    };
    use tensor_core::codec::{Ticker, walk};
    use tensor_core::{Source, parallel};

    use crate::{Error, Result};

    /// The shortest and the longest part.
    const PARTS: Range<u64> = 1 << 18..1 << 23;
    /// Above this many parts they get longer.
    const MAX_PARTS: u64 = 1 << 16;

    /// The length of the parts of `len` bytes, a power of two; `None` where one is enough.
    pub(super) fn part_of(len: u64) -> Option<u64> {
        let wanted = (len / 16)
            .clamp(PARTS.start, PARTS.end)
            .max(len / MAX_PARTS);
        let part = wanted.checked_next_power_of_two()?;
        (len > part).then_some(part)
    }

    /// BLAKE3-256 of a range that is longer than `part`.
    pub(super) fn blake3_of(
        source: &dyn Source,
        range: Range<u64>,
        part: u64,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<[u8; 32]> {
        let count = (range.end - range.start).div_ceil(part);
        let values = parallel::map(threads, usize::try_from(count).unwrap_or(0), |index| {
            let at = index as u64 * part;
            let start = range.start + at;
            let end = range.end.min(start.saturating_add(part));
            let mut hasher = blake3::Hasher::new();
            hasher.set_input_offset(at);
            walk::<Error>(source, start..end, ticker, |piece| {
                hasher.update(piece);
                Ok(())
            })?;
            Ok::<_, Error>(hasher.finalize_non_root())
        })?;
        let (left, right) = values.split_at(left_of(values.len()));
        let root = merge_subtrees_root(&merged(left), &merged(right), Mode::Hash);
        Ok(root.into())
    }

    /// How many of the parts below a node are to its left: the most that make a complete tree.
    fn left_of(parts: usize) -> usize {
        parts.next_power_of_two() / 2
    }

    /// The value of the node above these parts.
    fn merged(values: &[ChainingValue]) -> ChainingValue {
        match values {
            [] => ChainingValue::default(),
            [value] => *value,
            _ => {
                let (left, right) = values.split_at(left_of(values.len()));
                merge_subtrees_non_root(&merged(left), &merged(right), Mode::Hash)
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use alloc::vec::Vec;

        use tensor_core::Bytes;

        use super::*;

        #[test]
        fn parts_make_the_hash_of_the_whole() {
            const PART: u64 = 1 << 12;
            let noise: Vec<u8> = (0..PART * 17 + 1)
                .map(|i| (i * 31 + i / 251).to_le_bytes()[0])
                .collect();
            let bytes = Bytes::from(noise);
            for parts in 1..=17 {
                for len in [parts * PART + 1, (parts + 1) * PART - 1, (parts + 1) * PART] {
                    let range = bytes.size().saturating_sub(len)..bytes.size();
                    if range.end - range.start <= PART {
                        continue;
                    }
                    let whole = blake3::hash(&bytes[usize::try_from(range.start).unwrap()..]);
                    for threads in [1, 2, 0] {
                        let ticker = Ticker::default();
                        let got = blake3_of(&bytes, range.clone(), PART, threads, &ticker);
                        assert_eq!(got.unwrap(), *whole.as_bytes(), "{len} bytes");
                    }
                }
            }
        }

        #[test]
        fn parts_are_few_and_complete_trees() {
            assert_eq!(part_of(0), None);
            assert_eq!(part_of(1 << 18), None);
            assert_eq!(part_of((1 << 18) + 1), Some(1 << 18));
            assert_eq!(part_of(1 << 30), Some(1 << 23));
            for len in [(1 << 18) + 1, 1 << 22, 1 << 40, u64::MAX / 3, (1 << 63) - 1] {
                let part = part_of(len).unwrap();
                assert!(part.is_power_of_two() && len.div_ceil(part) <= 2 * MAX_PARTS);
            }
        }
    }
}
