//! Damaged files, the same on every run: what a fuzzer tries first, on a stable toolchain.

use std::ops::Range;

/// The file cut at every length from nothing to one byte short.
pub fn truncations(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..bytes.len()).map(|len| &bytes[..len])
}

/// The file with one bit changed, for every bit of the bytes in `range`.
///
/// # Panics
/// Where the range lies outside of the file.
pub fn bit_flips(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = Vec<u8>> {
    assert!(range.end <= bytes.len(), "{range:?} lies outside");
    range.flat_map(move |at| {
        (0..8).map(move |bit| {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << bit;
            flipped
        })
    })
}

/// `count` damaged versions of the file; equal seeds give equal versions.
///
/// Each has one to four faults: a cut, flipped bits, a field set to a value at the edge of its
/// range, or a run copied, inserted or removed. Most of them differ from the original, and none is
/// more than 256 bytes longer.
pub fn mutations(bytes: &[u8], seed: u64, count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random(seed);
    (0..count).map(move |_| {
        let mut damaged = bytes.to_vec();
        for _ in 0..=random.below(4) {
            damage(&mut damaged, bytes, &mut random);
        }
        damaged
    })
}

/// The longest run that one fault inserts; four faults stay within 256 bytes.
const MAX_RUN: usize = 64;

/// Field values at which bounds checks go wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0xFFFF_FFFF_FFFF_FFC0,
    0xFFFF_FFFF_FFFF_FFFF,
];

fn damage(damaged: &mut Vec<u8>, original: &[u8], random: &mut Random) {
    match random.below(6) {
        0 => damaged.truncate(random.below(damaged.len() + 1)),
        1 => {
            for _ in 0..=random.below(8) {
                if !damaged.is_empty() {
                    let at = random.below(damaged.len());
                    damaged[at] ^= 1 << random.below(8);
                }
            }
        }
        2 => {
            let edge = EDGES[random.below(EDGES.len())];
            let width = [1, 2, 4, 8][random.below(4)];
            let field = match random.below(2) {
                0 => edge.to_le_bytes()[..width].to_vec(),
                _ => edge.to_be_bytes()[8 - width..].to_vec(),
            };
            let at = random.below(damaged.len() + 1);
            overwrite(damaged, at, &field);
        }
        3 => {
            let run = original[random.run(original.len())].to_vec();
            let at = random.below(damaged.len() + 1);
            overwrite(damaged, at, &run);
        }
        4 => {
            let run = original[random.run(original.len())].to_vec();
            let at = random.below(damaged.len() + 1);
            damaged.splice(at..at, run);
        }
        _ => {
            let run = random.run(damaged.len());
            damaged.drain(run);
        }
    }
}

fn overwrite(damaged: &mut [u8], at: usize, with: &[u8]) {
    for (place, byte) in damaged[at..].iter_mut().zip(with) {
        *place = *byte;
    }
}

/// SplitMix64: one addition and a mix of the bits per number, good for any seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero. The same on 32-bit hosts.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a remainder is below the bound, which is a usize"
    )]
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A range within `0..len`, at most `MAX_RUN` long.
    fn run(&mut self, len: usize) -> Range<usize> {
        let start = self.below(len + 1);
        let end = start + self.below((len - start).min(MAX_RUN) + 1);
        start..end
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const FILE: &[u8] = b"a file of some bytes, long enough to be cut and spliced in places";

    #[test]
    fn equal_seeds_give_equal_files() {
        let first: Vec<_> = mutations(FILE, 7, 200).collect();
        let second: Vec<_> = mutations(FILE, 7, 200).collect();
        let other: Vec<_> = mutations(FILE, 8, 200).collect();
        assert_eq!(first, second);
        assert_ne!(first, other);
    }

    #[test]
    fn files_differ_and_stay_small() {
        let files: Vec<_> = mutations(FILE, 1, 1000).collect();
        assert_eq!(files.len(), 1000);
        let changed: BTreeSet<_> = files.iter().filter(|file| *file != FILE).collect();
        assert!(changed.len() > 700, "only {} of 1000", changed.len());
        assert!(files.iter().all(|file| file.len() <= FILE.len() + 256));
        assert!(files.iter().any(|file| file.len() < FILE.len()));
        assert!(files.iter().any(|file| file.len() > FILE.len()));
    }

    #[test]
    fn an_empty_file_stays_empty() {
        assert!(mutations(b"", 1, 100).all(|file| file.is_empty()));
    }

    #[test]
    fn the_first_numbers_are_pinned() {
        // Published first outputs of SplitMix64 for seed 1234567.
        let mut random = Random(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn every_cut_and_every_bit() {
        let cuts: Vec<_> = truncations(b"abc").collect();
        assert_eq!(cuts, [&b""[..], b"a", b"ab"]);
        let flips: BTreeSet<_> = bit_flips(b"abc", 1..3).collect();
        assert_eq!(flips.len(), 16);
        for flip in flips {
            let changed: u32 = flip
                .iter()
                .zip(b"abc")
                .map(|(a, b)| (a ^ b).count_ones())
                .sum();
            assert_eq!((changed, flip[0]), (1, b'a'));
        }
    }
}
