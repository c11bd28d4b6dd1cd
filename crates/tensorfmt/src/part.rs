//! Work that is split up into parts, of which nobody has to tell the others.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::{Error, Result};

/// One part of a work on all tensors of a model that is split up, as `2/8` the second of eight.
///
/// Every part has tensors that follow each other, each of them as a whole, and as many bytes as the others as
/// far as that goes: no way to split has a smaller largest part. Which tensors they are depends on nothing but
/// the lengths, so that workers who never talk agree.
///
/// ```
/// use tensorfmt::Part;
///
/// let second: Part = "2/3".parse()?;
/// assert_eq!((second.number(), second.of(), second.to_string()), (2, 3, "2/3".to_owned()));
/// let lens = [10, 10, 40, 20, 20];
/// let ranges: Vec<_> = Part::all(3).map(|part| part.range(&lens)).collect();
/// assert_eq!(ranges, [0..2, 2..3, 3..5]);
/// assert!("0/3".parse::<Part>().is_err() && Part::new(4, 3).is_err());
/// # Ok::<(), tensorfmt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    number: u32,
    of: u32,
}

impl Part {
    /// The part of this number, counted from 1, of so many.
    ///
    /// # Errors
    /// [`Error::Usage`] where there is no such part.
    pub fn new(number: u32, of: u32) -> Result<Self> {
        match (1..=of).contains(&number) {
            true => Ok(Self { number, of }),
            false => Err(Error::Usage(format!(
                "part {number}/{of}: of {of} parts there are those from 1 to {of}"
            ))),
        }
    }

    /// All of so many parts, in order.
    pub fn all(of: u32) -> impl Iterator<Item = Self> {
        (1..=of).map(move |number| Self { number, of })
    }

    /// Which part it is, counted from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.number
    }

    /// How many parts there are.
    #[must_use]
    pub const fn of(self) -> u32 {
        self.of
    }

    /// Which of the tensors are in this part, given the length of each in bytes. Where there are fewer tensors
    /// than parts, each has a part of its own and the last parts have none.
    #[must_use]
    pub fn range(self, lens: &[u64]) -> Range<usize> {
        let (count, size) = (lens.len(), |number: u32| {
            usize::try_from(number).unwrap_or(usize::MAX)
        });
        let (place, parts) = (size(self.number).saturating_sub(1), size(self.of));
        // However many parts there are.
        if count <= parts {
            return place.min(count)..place.saturating_add(1).min(count);
        }
        let range = split(lens, parts).get(place).cloned();
        range.unwrap_or(count..count)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = text.split_once('/');
        let parsed =
            numbers.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parsed {
            Some((number, of)) => Self::new(number, of),
            None => Err(Error::Usage(format!(
                "part {text:?}: not of the form I/N, as 2/8 for the second of eight"
            ))),
        }
    }
}

/// The ranges of tensors in each of so many parts, of which there are no more than tensors.
pub(crate) fn split(lens: &[u64], parts: usize) -> Vec<Range<usize>> {
    let (count, parts) = (lens.len(), parts.max(1));
    let sums = Sums::new(lens);
    let most = sums.least_capacity(parts);
    let needed = sums.parts_needed(most);
    let needed = |at: usize| needed.get(at).copied().unwrap_or(0);
    let mut ranges = Vec::with_capacity(parts);
    let mut start = 0;
    for left in (0..parts).rev() {
        // The tensors that follow must fit the parts that follow, and give each of them one.
        let last = count.saturating_sub(left);
        let mut end = (start + 1).min(last);
        while end < last && needed(end) > left {
            end += 1;
        }
        let rest = sums.between(start, count);
        let target = rest.div_ceil(left as u128 + 1);
        while end < last {
            let (now, more) = (sums.between(start, end), sums.between(start, end + 1));
            // As near to an equal share as it gets.
            if more > most || now.abs_diff(target) <= more.abs_diff(target) {
                break;
            }
            end += 1;
        }
        if left == 0 {
            end = count;
        }
        ranges.push(start..end);
        start = end;
    }
    ranges
}

/// How many bytes the tensors before each one have, and one more for each tensor, which is work as well.
struct Sums(Vec<u128>);

impl Sums {
    fn new(lens: &[u64]) -> Self {
        let mut sums = Vec::with_capacity(lens.len().saturating_add(1));
        let mut sum = 0u128;
        sums.push(sum);
        for len in lens {
            sum += u128::from(*len) + 1;
            sums.push(sum);
        }
        Self(sums)
    }

    fn at(&self, place: usize) -> u128 {
        self.0.get(place).copied().unwrap_or(0)
    }

    fn between(&self, start: usize, end: usize) -> u128 {
        self.at(end).saturating_sub(self.at(start))
    }

    /// How many tensors there are.
    fn count(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// The smallest size of the largest of so many parts.
    fn least_capacity(&self, parts: usize) -> u128 {
        let largest = (0..self.count()).map(|at| self.between(at, at + 1)).max();
        let largest = largest.unwrap_or(0);
        let even = self.at(self.count()).div_ceil(parts as u128);
        let (mut low, mut high) = (largest.max(even), even + largest);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.fits(middle, parts) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    }

    /// Whether parts of up to this size are enough.
    fn fits(&self, most: u128, parts: usize) -> bool {
        let (mut start, mut used) = (0, 1);
        for end in 1..=self.count() {
            if self.between(start, end) > most {
                start = end - 1;
                used += 1;
            }
        }
        used <= parts
    }

    /// How many parts of up to this size it takes for the tensors from each one on.
    fn parts_needed(&self, most: u128) -> Vec<usize> {
        let count = self.count();
        let mut needed = vec![0; count + 1];
        let mut end = count;
        for start in (0..count).rev() {
            while end > start + 1 && self.between(start, end) > most {
                end -= 1;
            }
            let after = needed.get(end).copied().unwrap_or(0);
            if let Some(slot) = needed.get_mut(start) {
                *slot = after + 1;
            }
        }
        needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest part of the best split, found by trying all.
    fn best(lens: &[u64], parts: usize) -> u64 {
        let sum = |lens: &[u64]| lens.iter().map(|len| len + 1).sum::<u64>();
        if parts == 1 {
            return sum(lens);
        }
        let first = 1..=lens.len() - (parts - 1);
        first
            .map(|end| sum(&lens[..end]).max(best(&lens[end..], parts - 1)))
            .min()
            .unwrap()
    }

    #[test]
    fn no_split_has_a_smaller_largest_part() {
        let mut state = 7u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let lens: Vec<u64> = (0..1 + next(9)).map(|_| next(100) * next(3)).collect();
            for parts in 1..=lens.len() {
                let ranges = split(&lens, parts);
                assert_eq!(ranges.len(), parts);
                assert_eq!((ranges[0].start, ranges[parts - 1].end), (0, lens.len()));
                for pair in ranges.windows(2) {
                    assert_eq!(pair[0].end, pair[1].start);
                }
                assert!(ranges.iter().all(|range| !range.is_empty()), "{lens:?}");
                let sum =
                    |range: &Range<usize>| lens[range.clone()].iter().map(|len| len + 1).sum();
                let largest: u64 = ranges.iter().map(sum).max().unwrap();
                assert_eq!(
                    largest,
                    best(&lens, parts),
                    "{lens:?} in {parts}: {ranges:?}"
                );
            }
        }
    }

    #[test]
    fn equal_tensors_are_shared_out_equally() {
        assert_eq!(split(&[5; 10], 4), [0..2, 2..5, 5..7, 7..10]);
        assert_eq!(split(&[0; 4], 2), [0..2, 2..4]);
        assert_eq!(split(&[1 << 40; 3], 2), [0..2, 2..3]);
        assert_eq!(split(&[u64::MAX; 3], 3), [0..1, 1..2, 2..3]);
        let all = |lens: &[u64]| {
            Part::all(4)
                .map(|part| part.range(lens))
                .collect::<Vec<_>>()
        };
        assert_eq!(all(&[3, 4]), [0..1, 1..2, 2..2, 2..2]);
        assert_eq!(all(&[]), [0..0, 0..0, 0..0, 0..0]);
        assert_eq!(Part::new(u32::MAX, u32::MAX).unwrap().range(&[1]), 1..1);
    }
}
