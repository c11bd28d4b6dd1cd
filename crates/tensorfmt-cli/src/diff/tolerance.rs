//! How far two numbers may be apart: `|a - b| <= atol + rtol * |b|`.

/// Both tolerances. Floats are compared as `numpy.isclose` does, in f64; whole numbers exactly, where a
/// tolerance is the shortest decimal that parses as its f64: 0.3 is three tenths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    atol: f64,
    rtol: f64,
    exact: (Decimal, Decimal),
}

/// `digits * 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Decimal {
    digits: u64,
    exponent: i32,
}

/// Fractions are counted in this part of one, 10^-38.
const UNIT: u128 = 10u128.pow(38);

impl Decimal {
    /// The shortest decimal that is this float.
    fn of(value: f64) -> Self {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}").parse().unwrap_or(0);
        let places = i32::try_from(fraction.len()).unwrap_or(0);
        let exponent = exponent.parse().unwrap_or(0i32) - places;
        Self { digits, exponent }
    }

    /// This times `factor` as whole ones, at most `u128::MAX`, and as units of the rest, of which
    /// what is below a unit is cut.
    fn times(self, factor: u64) -> (u128, u128) {
        let value = u128::from(self.digits) * u128::from(factor);
        let power = |exponent: u32| 10u128.checked_pow(exponent);
        let places = self.exponent.unsigned_abs();
        if self.exponent >= 0 {
            let whole = power(places).and_then(|power| value.checked_mul(power));
            return match value {
                0 => (0, 0),
                _ => (whole.unwrap_or(u128::MAX), 0),
            };
        }
        match (power(places), power(38u32.saturating_sub(places))) {
            (Some(power), Some(rest)) if places <= 38 => (value / power, value % power * rest),
            // Below 10^37 times 10^-39: there is no whole one.
            _ => (0, power(places - 38).map_or(0, |power| value / power)),
        }
    }
}

impl Tolerance {
    pub(super) fn new(atol: f64, rtol: f64) -> Self {
        Self {
            atol,
            rtol,
            exact: (Decimal::of(atol), Decimal::of(rtol)),
        }
    }

    /// Whether two floats are close, NaN to NaN among them.
    pub(super) fn floats(&self, a: f64, b: f64) -> bool {
        if a == b || a.is_nan() && b.is_nan() {
            return true;
        }
        if !(a.is_finite() && b.is_finite()) {
            return false;
        }
        let apart = (a - b).abs();
        if apart.is_finite() {
            return apart <= self.atol + self.rtol * b.abs();
        }
        // Halves, since the difference itself is beyond the greatest float.
        (a / 2.0 - b / 2.0).abs() <= self.atol / 2.0 + self.rtol * (b.abs() / 2.0)
    }

    /// Whether numbers that are so far apart are close, where the second one is of this size.
    pub(super) fn within(&self, apart: f64, size: f64) -> bool {
        apart <= self.atol + self.rtol * size
    }

    /// Whether two complex numbers are close.
    pub(super) fn complex(&self, a: (f64, f64), b: (f64, f64)) -> bool {
        let is_nan = |z: (f64, f64)| z.0.is_nan() || z.1.is_nan();
        let is_finite = |z: (f64, f64)| z.0.is_finite() && z.1.is_finite();
        if a == b || is_nan(a) && is_nan(b) {
            return true;
        }
        if !(is_finite(a) && is_finite(b)) {
            return false;
        }
        // Quarters, so that no length is beyond the greatest float.
        let quarter = |z: (f64, f64)| (z.0 / 4.0, z.1 / 4.0);
        let apart = (a.0 - b.0).hypot(a.1 - b.1);
        if apart.is_finite() {
            return apart <= self.atol + self.rtol * b.0.hypot(b.1);
        }
        let (a, b) = (quarter(a), quarter(b));
        (a.0 - b.0).hypot(a.1 - b.1) <= self.atol / 4.0 + self.rtol * b.0.hypot(b.1)
    }

    /// Whether two whole numbers of up to 64 bits are close, without any rounding.
    pub(super) fn whole(&self, a: i128, b: i128) -> bool {
        let apart = a.abs_diff(b);
        if apart == 0 {
            return true;
        }
        let size = u64::try_from(b.unsigned_abs()).unwrap_or(u64::MAX);
        let (fixed, fixed_rest) = self.exact.0.times(1);
        let (share, share_rest) = self.exact.1.times(size);
        let carry = u128::from(fixed_rest + share_rest >= UNIT);
        apart <= fixed.saturating_add(share).saturating_add(carry)
    }
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "guesses near a bound"
)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_what_was_typed() {
        for (value, digits, exponent) in [
            (0.3, 3, -1),
            (1e-5, 1, -5),
            (1.25e10, 125, 8),
            (0.0, 0, 0),
            (12.0, 12, 0),
            (f64::MAX, 17_976_931_348_623_157, 292),
        ] {
            assert_eq!(
                Decimal::of(value),
                Decimal { digits, exponent },
                "{value:e}"
            );
        }
    }

    #[test]
    fn whole_numbers_are_held_against_the_tolerance_exactly() {
        let close = |a: i128, b: i128, atol, rtol| Tolerance::new(atol, rtol).whole(a, b);
        let most = i128::from(u64::MAX);
        assert!(!close(most, most - 1, 0.5, 0.0));
        assert!(close(most, most - 1, 1.0, 0.0));
        assert!(!close(1 << 53, (1 << 53) + 1, 0.0, 0.0));
        assert!(!close(i64::MIN.into(), i64::MAX.into(), 1.8e19, 0.0));
        assert!(close(i64::MIN.into(), i64::MAX.into(), 1.9e19, 0.0));
        // Three tenths are 3 of 10, though the f64 is less.
        assert!(close(13, 10, 0.0, 0.3) && !close(14, 10, 0.0, 0.3));
        assert!(close(10, 13, 0.0, 0.3) && !close(9, 13, 0.0, 0.3));
        // The second one is what scales; together they may make one.
        assert!(close(101, 100, 0.5, 0.005) && !close(101, 99, 0.5, 0.005));
        assert!(close(7, 7, 0.0, 0.0) && close(-3, 3, 6.0, 0.0) && !close(-3, 3, 5.9, 0.0));
        assert!(close(most, most - 1, 0.0, 1e-19) && !close(most, most - 1, 0.0, 5e-20));
        assert!(close(0, 1, 0.0, 1e300) && !close(1, 0, 1e-300, 1e300) && close(1, 0, 1e300, 0.0));
        assert!(
            !close(2, 1, 1e-30, 0.999_999_999_999_999_9)
                && close(2, 1, 1e-15, 0.999_999_999_999_999_9)
        );
    }

    /// Against big rationals: both sides times a power of ten, in 256 bits.
    #[test]
    fn whole_numbers_agree_with_fractions_of_256_bits() {
        // Limbs of 32 bits, low first.
        fn times(limbs: &mut Vec<u64>, factor: u64) {
            let mut product = vec![0u64; limbs.len() + 3];
            for (shift, part) in [factor & 0xFFFF_FFFF, factor >> 32].into_iter().enumerate() {
                let mut carry = 0;
                for (at, limb) in limbs.iter().enumerate() {
                    let sum = product[at + shift] + limb * part + carry;
                    product[at + shift] = sum & 0xFFFF_FFFF;
                    carry = sum >> 32;
                }
                let mut at = limbs.len() + shift;
                while carry > 0 {
                    let sum = product[at] + carry;
                    product[at] = sum & 0xFFFF_FFFF;
                    carry = sum >> 32;
                    at += 1;
                }
            }
            *limbs = product;
        }
        fn number(factors: &[u64], tens: u32) -> Vec<u64> {
            let mut limbs = vec![1];
            for factor in factors {
                times(&mut limbs, *factor);
            }
            for _ in 0..tens {
                times(&mut limbs, 10);
            }
            limbs
        }
        fn sum(a: &[u64], b: &[u64]) -> Vec<u64> {
            let mut carry = 0;
            let limb = |limbs: &[u64], at: usize| limbs.get(at).copied().unwrap_or(0);
            (0..a.len().max(b.len()) + 1)
                .map(|at| {
                    let sum = limb(a, at) + limb(b, at) + carry;
                    carry = sum >> 32;
                    sum & 0xFFFF_FFFF
                })
                .collect()
        }
        fn trimmed(mut limbs: Vec<u64>) -> Vec<u64> {
            while limbs.last() == Some(&0) {
                limbs.pop();
            }
            limbs
        }
        fn is_at_most(a: Vec<u64>, b: Vec<u64>) -> bool {
            let (a, b) = (trimmed(a), trimmed(b));
            (a.len(), a.iter().rev().collect::<Vec<_>>()) <= (b.len(), b.iter().rev().collect())
        }
        let mut state = 1u64;
        let mut random = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            state ^ state >> 29
        };
        let mut seen = [0, 0];
        for round in 0..100_000u32 {
            let shift = random() % 64;
            let b = random() >> shift;
            let places = u32::try_from(random() % 45).unwrap();
            let (fixed, share) = (
                random() % 1_000_000_000_000_000,
                random() % 1_000_000_000_000_000,
            );
            let tolerance = Tolerance {
                atol: 0.0,
                rtol: 0.0,
                exact: (
                    Decimal {
                        digits: fixed,
                        exponent: -i32::try_from(places / 2).unwrap(),
                    },
                    Decimal {
                        digits: share,
                        exponent: -i32::try_from(places).unwrap(),
                    },
                ),
            };
            // Near the bound, where there is one within 64 bits.
            let bound = fixed as f64 / 10f64.powi(places as i32 / 2)
                + share as f64 * b as f64 / 10f64.powi(places as i32);
            let near = (bound as u64)
                .saturating_add(random() % 3)
                .saturating_sub(1);
            let apart = if round % 4 == 0 {
                random() >> (random() % 64)
            } else {
                near
            };
            let a = i128::from(b) + i128::from(apart);
            let left = number(&[apart], places);
            let right = sum(
                &number(&[fixed], places - places / 2),
                &number(&[share, b], 0),
            );
            let want = apart == 0 || is_at_most(left, right);
            assert_eq!(tolerance.whole(a, b.into()), want, "{a} {b} {tolerance:?}");
            seen[usize::from(want)] += 1;
        }
        assert!(seen[0] > 10_000 && seen[1] > 10_000, "{seen:?}");
    }

    #[test]
    fn floats_are_close_as_numpy_has_it() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let close = |a, b, atol, rtol| Tolerance::new(atol, rtol).floats(a, b);
        assert!(
            close(nan, nan, 0.0, 0.0) && !close(nan, 1.0, 9.0, 9.0) && !close(1.0, nan, 9.0, 9.0)
        );
        assert!(close(inf, inf, 0.0, 0.0) && !close(inf, -inf, 1e300, 1e300));
        assert!(!close(1.0, inf, 0.0, 1.0) && !close(inf, 1.0, 0.0, 1.0));
        assert!(close(0.0, -0.0, 0.0, 0.0));
        assert!(close(1.0, 1.5, 0.5, 0.0) && !close(1.0, 1.5, 0.49, 0.0));
        // rtol scales the second one.
        assert!(close(10.0, 11.0, 0.0, 0.095) && !close(11.0, 10.0, 0.0, 0.095));
        // No overflow: the difference of these is twice the greatest float.
        let most = f64::MAX;
        assert!(!close(most, -most, most, 0.5) && close(most, -most, most, 1.0));
        assert!(close(most, -most, 0.0, 2.0) && !close(most, -most, 0.0, 1.999));
        let complex = |a, b, atol, rtol| Tolerance::new(atol, rtol).complex(a, b);
        assert!(
            complex((3.0, 4.0), (0.0, 0.0), 5.0, 0.0) && !complex((3.0, 4.0), (0.0, 0.0), 4.9, 0.0)
        );
        assert!(
            complex((nan, 1.0), (2.0, nan), 0.0, 0.0) && !complex((inf, 1.0), (1.0, inf), 9.0, 9.0)
        );
        assert!(
            !complex((most, most), (-most, -most), 0.0, 1.9)
                && complex((most, most), (-most, -most), 0.0, 2.1)
        );
    }
}
