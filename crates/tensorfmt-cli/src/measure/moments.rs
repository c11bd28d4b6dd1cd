//! Counts and moments of values, and the types that values are measured as.

mod state;

use serde::{Serialize, Serializer};
pub(crate) use state::State;
use tensor_core::DType;

use super::BINS;

/// A measured value: integers are never taken through a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Float(f64),
    Whole(i128),
}

impl Scalar {
    fn float(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Whole(value) => value as f64,
        }
    }

    fn is_less(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a < b,
            (a, b) => a.float() < b.float(),
        }
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Whole(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => serializer.serialize_i64(value),
                (_, Ok(value)) => serializer.serialize_u64(value),
                _ => serializer.serialize_i128(value),
            },
            Self::Float(value) if value.is_finite() => serializer.serialize_f64(value),
            Self::Float(value) if value.is_nan() => serializer.serialize_str("nan"),
            Self::Float(value) if value > 0.0 => serializer.serialize_str("inf"),
            Self::Float(_) => serializer.serialize_str("-inf"),
        }
    }
}

/// What values are read as: f64, i64 or u64, each of which has every value of the dtypes that are
/// read as it.
pub(super) trait Sample: Copy + Send + Sync + PartialOrd + Default {
    /// What tensors are cast to, without a loss.
    const DTYPE: DType;

    fn of(bytes: [u8; 8]) -> Self;
    fn scalar(self) -> Scalar;
    fn is_nan(self) -> bool {
        false
    }
    fn is_infinite(self) -> bool {
        false
    }
    fn order(&self, other: &Self) -> core::cmp::Ordering;
    fn note(self, spread: &mut Spread);
    fn bin(self, bins: &Bins<Self>) -> usize;
    /// What a step of the histogram is, from `low` to `high`.
    fn bins(low: Self, high: Self) -> Bins<Self>;
}

/// The steps of a histogram.
pub(super) struct Bins<N> {
    /// Where it starts; of floats, half of that.
    low: N,
    /// Where it ends; of floats, half of the distance to there.
    high: N,
    /// For whole numbers: the least distance from `low` that is in each step.
    edges: Vec<u64>,
    scale: f64,
}

impl Sample for f64 {
    const DTYPE: DType = DType::F64;

    fn of(bytes: [u8; 8]) -> Self {
        Self::from_le_bytes(bytes)
    }

    fn scalar(self) -> Scalar {
        Scalar::Float(self)
    }

    fn is_nan(self) -> bool {
        self.is_nan()
    }

    fn is_infinite(self) -> bool {
        self.is_infinite()
    }

    fn order(&self, other: &Self) -> core::cmp::Ordering {
        self.total_cmp(other)
    }

    #[inline(always)]
    fn note(self, spread: &mut Spread) {
        let size = self.abs();
        // Nearly all values are; of the others the smallest is a matter of scale.
        if (SMALL..LARGE).contains(&size) || size == 0.0 {
            spread.middle.note(self);
        } else if size < SMALL {
            spread.small.note(self * UP);
        } else {
            spread.large.note(self * DOWN);
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of the number of bins"
    )]
    fn bin(self, bins: &Bins<Self>) -> usize {
        // Halves first: the difference itself may be beyond the greatest float.
        let half = self * 0.5 - bins.low;
        let part = match bins.scale.is_finite() {
            true => half * bins.scale,
            // Less than a float of full precision.
            false => half / bins.high * BINS as f64,
        };
        (part as usize).min(BINS - 1)
    }

    fn bins(low: Self, high: Self) -> Bins<Self> {
        let half = high * 0.5 - low * 0.5;
        Bins {
            low: low * 0.5,
            high: half,
            edges: Vec::new(),
            scale: BINS as f64 / half,
        }
    }
}

/// The least distance from the start that is in each of [`BINS`] equal steps over `range`.
fn edges(range: u64) -> Vec<u64> {
    let edge = |step: usize| (u128::from(range) * step as u128).div_ceil(BINS as u128);
    let edges = (0..BINS).map(edge);
    edges
        .map(|edge| u64::try_from(edge).unwrap_or(u64::MAX))
        .collect()
}

/// The step that a distance is in.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a guess, put right below"
)]
fn step(distance: u64, edges: &[u64], scale: f64) -> usize {
    let mut step = ((distance as f64 * scale) as usize).min(BINS - 1);
    while step > 0 && edges.get(step).is_some_and(|&edge| distance < edge) {
        step -= 1;
    }
    while edges.get(step + 1).is_some_and(|&edge| distance >= edge) {
        step += 1;
    }
    step
}

macro_rules! whole {
    ($($type:ident => $dtype:ident;)*) => {$(
        impl Sample for $type {
            const DTYPE: DType = DType::$dtype;

            fn of(bytes: [u8; 8]) -> Self {
                Self::from_le_bytes(bytes)
            }

            fn scalar(self) -> Scalar {
                Scalar::Whole(self.into())
            }

            fn order(&self, other: &Self) -> core::cmp::Ordering {
                self.cmp(other)
            }

            #[inline]
            fn note(self, spread: &mut Spread) {
                let value = i128::from(self);
                if spread.middle.count == 0 {
                    spread.origin = value;
                }
                spread.sum += value;
                let distance = value - spread.origin;
                let distance = match i64::try_from(distance) {
                    Ok(near) => near as f64,
                    Err(_) => distance as f64,
                };
                spread.middle.note(distance);
            }

            fn bin(self, bins: &Bins<Self>) -> usize {
                // The lowest bits of a wrapped difference are those of the difference, which
                // fits 64 bits.
                #[allow(clippy::cast_sign_loss, reason = "no value is below the least")]
                let distance = self.wrapping_sub(bins.low) as u64;
                step(distance, &bins.edges, bins.scale)
            }

            fn bins(low: Self, high: Self) -> Bins<Self> {
                #[allow(clippy::cast_sign_loss, reason = "the least is not above the greatest")]
                let range = high.wrapping_sub(low) as u64;
                Bins {
                    low,
                    high,
                    edges: edges(range),
                    scale: BINS as f64 / range as f64,
                }
            }
        }
    )*};
}

whole! {
    i64 => I64;
    u64 => U64;
}

/// Squares of values within these bounds, and sums of 2^64 of them, are floats; others are scaled.
const LARGE: f64 = f64::from_bits((1023 + 400) << 52);
const SMALL: f64 = f64::from_bits((1023 - 400) << 52);
const UP: f64 = f64::from_bits((1023 + 600) << 52);
const DOWN: f64 = f64::from_bits((1023 - 600) << 52);

/// Mean and sum of squares about it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Welford {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Welford {
    #[inline]
    fn note(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// Adds another part, whose values are counted from `offset`: Chan's update.
    fn merge(&mut self, other: &Self, offset: f64) {
        if other.count == 0 {
            return;
        }
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        let delta = other.mean + offset - self.mean;
        self.squares += other.squares + delta * delta * self.count as f64 * share;
        self.mean += delta * share;
        self.count = count;
    }

    fn scaled(&self, factor: f64) -> Self {
        Self {
            count: self.count,
            mean: self.mean * factor,
            squares: self.squares * factor * factor,
        }
    }
}

/// How finite values are spread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    /// Values whose squares would not be floats, times [`UP`] and [`DOWN`].
    small: Welford,
    large: Welford,
    /// All others; of whole numbers their distances from `origin`.
    middle: Welford,
    origin: i128,
    /// Of whole numbers.
    sum: i128,
}

impl Spread {
    fn merge(&mut self, other: &Self) {
        if self.middle.count == 0 {
            self.origin = other.origin;
        }
        let offset = (other.origin - self.origin) as f64;
        self.small.merge(&other.small, 0.0);
        self.large.merge(&other.large, 0.0);
        self.middle.merge(&other.middle, offset);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// All values together, and what to multiply them by.
    fn total(&self) -> (Welford, f64) {
        let (mut small, mut middle) = (self.small, self.middle);
        if middle.mean == 0.0 && middle.squares == 0.0 {
            // Zeros are as small as any.
            small.merge(&middle, 0.0);
            middle = Welford::default();
        }
        if self.large.count > 0 {
            let mut total = self.large;
            total.merge(&middle.scaled(DOWN), 0.0);
            total.merge(&small.scaled(DOWN).scaled(DOWN), 0.0);
            (total, UP)
        } else if middle.count > 0 {
            middle.merge(&small.scaled(DOWN), 0.0);
            (middle, 1.0)
        } else {
            (small, DOWN)
        }
    }
}

/// Counts and moments that can be merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    pub(crate) nan: u64,
    pub(crate) inf: u64,
    pub(crate) zeros: u64,
    /// The least and the greatest of all numbers, infinities among them.
    extremes: Option<(Scalar, Scalar)>,
    /// Of the finite values.
    pub(super) finite: u64,
    bounds: Option<(Scalar, Scalar)>,
    spread: Spread,
}

/// [`Moments`] while values are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally<N> {
    count: u64,
    nan: u64,
    inf: u64,
    zeros: u64,
    /// The infinities, where there are any.
    below: Option<N>,
    above: Option<N>,
    finite: u64,
    low: N,
    high: N,
    spread: Spread,
}

impl<N: Sample> Tally<N> {
    // A call for each value would keep all of this in memory.
    #[inline(always)]
    pub(super) fn note(&mut self, value: N) {
        self.count += 1;
        self.zeros += u64::from(value == N::default());
        if value.is_nan() || value.is_infinite() {
            return self.note_infinite(value);
        }
        if self.finite == 0 {
            (self.low, self.high) = (value, value);
        }
        self.finite += 1;
        // As selections, which take no branch.
        self.low = if value < self.low { value } else { self.low };
        self.high = if value > self.high { value } else { self.high };
        value.note(&mut self.spread);
    }

    #[cold]
    fn note_infinite(&mut self, value: N) {
        if value.is_nan() {
            self.nan += 1;
            return;
        }
        self.inf += 1;
        match value < N::default() {
            true => self.below = Some(value),
            false => self.above = Some(value),
        }
    }

    /// The least and the greatest of all numbers.
    fn extremes(&self) -> Option<(N, N)> {
        let finite = (self.finite > 0).then_some((self.low, self.high));
        let least = self.below.or(finite.map(|(low, _)| low)).or(self.above)?;
        let greatest = self.above.or(finite.map(|(_, high)| high)).or(self.below)?;
        Some((least, greatest))
    }

    pub(super) fn moments(&self) -> Moments {
        let pair = |low: N, high: N| (low.scalar(), high.scalar());
        Moments {
            count: self.count,
            nan: self.nan,
            inf: self.inf,
            zeros: self.zeros,
            extremes: self
                .extremes()
                .map(|(least, greatest)| pair(least, greatest)),
            finite: self.finite,
            bounds: (self.finite > 0).then(|| pair(self.low, self.high)),
            spread: self.spread.clone(),
        }
    }
}

/// The least and the greatest of two pairs.
fn widest(a: Option<(Scalar, Scalar)>, b: Option<(Scalar, Scalar)>) -> Option<(Scalar, Scalar)> {
    let (Some(a), Some(b)) = (a, b) else {
        return a.or(b);
    };
    let low = if b.0.is_less(a.0) { b.0 } else { a.0 };
    let high = if a.1.is_less(b.1) { b.1 } else { a.1 };
    Some((low, high))
}

impl Moments {
    /// Counts alone, of values that have no order.
    pub(super) fn unordered(count: u64, nan: u64, inf: u64, zeros: u64) -> Self {
        Self {
            count,
            nan,
            inf,
            zeros,
            ..Self::default()
        }
    }

    /// Adds what another part of the values is like.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.nan += other.nan;
        self.inf += other.inf;
        self.zeros += other.zeros;
        self.extremes = widest(self.extremes, other.extremes);
        self.bounds = widest(self.bounds, other.bounds);
        self.spread.merge(&other.spread);
        self.finite += other.finite;
    }

    pub(super) fn numbers(&self) -> u64 {
        self.count - self.nan
    }

    /// The fraction of zeros.
    pub(crate) fn sparsity(&self) -> Option<f64> {
        (self.count > 0).then(|| self.zeros as f64 / self.count as f64)
    }

    /// The least number, minus infinity among them.
    pub(crate) fn min(&self) -> Option<Scalar> {
        self.extremes.map(|(least, _)| least)
    }

    /// The greatest number, infinity among them.
    pub(crate) fn max(&self) -> Option<Scalar> {
        self.extremes.map(|(_, greatest)| greatest)
    }

    /// The mean of the finite values: of whole numbers that of their exact sum.
    pub(crate) fn mean(&self) -> Option<f64> {
        let (low, high) = self.bounds?;
        let mean = match low {
            Scalar::Whole(_) => {
                let count = i128::from(self.finite.max(1));
                let (whole, rest) = (self.spread.sum / count, self.spread.sum % count);
                whole as f64 + rest as f64 / count as f64
            }
            Scalar::Float(_) => {
                let (total, scale) = self.spread.total();
                total.mean * scale
            }
        };
        // A mean lies between them; what is beyond has been rounded there.
        Some(mean.max(low.float()).min(high.float()))
    }

    /// The standard deviation of the finite values: over their count, not one less.
    pub(crate) fn std(&self) -> Option<f64> {
        let (low, high) = self.bounds?;
        let (total, scale) = match low {
            Scalar::Whole(_) => (self.spread.middle, 1.0),
            Scalar::Float(_) => self.spread.total(),
        };
        let std = (total.squares / total.count as f64).sqrt() * scale;
        let most = match (low, high) {
            (Scalar::Whole(low), Scalar::Whole(high)) => (high - low) as f64 / 2.0,
            _ => high.float() / 2.0 - low.float() / 2.0,
        };
        Some(std.min(most))
    }

    /// From the least to the greatest finite value, where these differ.
    pub(crate) fn span(&self) -> Option<(Scalar, Scalar)> {
        self.bounds.filter(|(low, high)| low.is_less(*high))
    }
}

impl<N: Sample> Tally<N> {
    /// Adds another part of the values.
    pub(super) fn merge(&mut self, other: &Self) {
        self.below = self.below.or(other.below);
        self.above = self.above.or(other.above);
        if other.finite > 0 {
            let is_first = self.finite == 0;
            if is_first || other.low < self.low {
                self.low = other.low;
            }
            if is_first || other.high > self.high {
                self.high = other.high;
            }
        }
        self.count += other.count;
        self.nan += other.nan;
        self.inf += other.inf;
        self.zeros += other.zeros;
        self.finite += other.finite;
        self.spread.merge(&other.spread);
    }

    /// The steps of the histogram of the finite values, where these differ.
    pub(super) fn bins(&self) -> Option<Bins<N>> {
        (self.finite > 0 && self.low < self.high).then(|| N::bins(self.low, self.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<N: Sample>(values: &[N]) -> Tally<N> {
        let mut tally = Tally::default();
        for value in values {
            tally.note(*value);
        }
        tally
    }

    #[test]
    fn moments_of_parts_are_those_of_the_whole() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i * i % 977) - 300.0).collect();
        let whole = of(&values).moments();
        let (mut merged, mut tally) = (Moments::default(), Tally::default());
        for part in values.chunks(301) {
            merged.merge(&of(part).moments());
            tally.merge(&of(part));
        }
        for merged in [merged, tally.moments()] {
            assert_eq!((merged.count, merged.zeros), (whole.count, whole.zeros));
            let near = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs() < 1e-9;
            assert!(near(merged.mean(), whole.mean()));
            assert!(near(merged.std(), whole.std()));
            assert_eq!(merged.span(), whole.span());
        }
    }

    #[test]
    fn means_and_deviations_of_any_floats_are_floats() {
        let both = |values: &[f64]| {
            let moments = of(values).moments();
            (moments.mean().unwrap(), moments.std().unwrap())
        };
        assert_eq!(both(&[f64::MAX; 3]), (f64::MAX, 0.0));
        assert_eq!(both(&[f64::MAX, -f64::MAX]), (0.0, f64::MAX));
        let (mean, std) = both(&[1e308, 1.5e308, 0.5e308, 1.0]);
        assert!((mean / 0.75e308 - 1.0).abs() < 1e-15);
        assert!(
            (std / 0.559_016_994_374_947_4e308 - 1.0).abs() < 1e-14,
            "{std:e}"
        );
        let (mean, std) = both(&[1e-300, 3e-300, 0.0, 0.0]);
        assert!((mean / 1e-300 - 1.0).abs() < 1e-14, "{mean:e}");
        assert!(
            (std / 1.224_744_871_391_589e-300 - 1.0).abs() < 1e-14,
            "{std:e}"
        );
        let (mean, std) = both(&[1.0, 3.0, 1e-300]);
        assert!((mean - 4.0 / 3.0).abs() < 1e-15 && (std - 1.247_219_128_924_647).abs() < 1e-15);
        let (mean, _) = both(&[1e308, -1e308, 3.0]);
        assert!((mean - 1.0).abs() < 1e-12, "{mean:e}");
    }

    #[test]
    fn whole_numbers_stay_whole() {
        let big = 1i64 << 62;
        let moments = of(&[big + 1, big, big + 2]).moments();
        let whole = |value: i64| Some(Scalar::Whole(value.into()));
        assert_eq!((moments.min(), moments.max()), (whole(big), whole(big + 2)));
        // Doubles are 1024 apart there, and still the deviation is that of 0, 1, 2.
        assert!((moments.std().unwrap() - (2.0f64 / 3.0).sqrt()).abs() < 1e-15);
        let mut merged = of(&[i64::MAX]).moments();
        merged.merge(&of(&[i64::MIN, i64::MIN]).moments());
        assert_eq!(merged.mean(), Some(-3_074_457_345_618_258_603.0));
        let std = merged.std().unwrap();
        assert!((std / (2f64.sqrt() / 3.0 * 18_446_744_073_709_551_615.0) - 1.0).abs() < 1e-14);
        let unsigned = of(&[u64::MAX, u64::MAX - 1]).moments();
        assert_eq!(unsigned.max(), Some(Scalar::Whole(u64::MAX.into())));
        assert_eq!(unsigned.std(), Some(0.5));
        assert_eq!(of(&[0u64, 255, 3]).moments().mean(), Some(86.0));
    }

    #[test]
    fn steps_of_whole_numbers_are_exact() {
        for (low, high) in [
            (-10i64, 9),
            (i64::MIN, i64::MAX),
            (1 << 62, (1 << 62) + 20),
            (0, 7),
        ] {
            let bins = i64::bins(low, high);
            let range = i128::from(high) - i128::from(low);
            for part in 0..=1000i128 {
                let value = i64::try_from(i128::from(low) + range * part / 1000).unwrap();
                let exact = (i128::from(value) - i128::from(low)) * BINS as i128 / range;
                let want = usize::try_from(exact).unwrap().min(BINS - 1);
                assert_eq!(value.bin(&bins), want, "{value} from {low} to {high}");
            }
        }
    }

    #[test]
    fn json_has_every_integer_exactly() {
        let text = |scalar| serde_json::to_string(&scalar).unwrap();
        assert_eq!(text(Scalar::Whole(u64::MAX.into())), "18446744073709551615");
        assert_eq!(text(Scalar::Whole(i64::MIN.into())), "-9223372036854775808");
        assert_eq!(text(Scalar::Float(f64::NEG_INFINITY)), "\"-inf\"");
        assert_eq!(text(Scalar::Float(0.5)), "0.5");
    }
}
