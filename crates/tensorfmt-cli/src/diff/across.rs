//! Tensors of two dtypes, compared as the numbers that they hold. Every value of either is taken as it is:
//! integers are never rounded to floats.

use std::sync::Arc;

use tensor_core::codec::{Ticker, TransferError};
use tensor_core::{AlignedBytes, Source, SourceError};
use tensorfmt::{DType, Error};

use super::compare::{Distance, Failed, Form, Values, cast, eights};
use super::tolerance::Tolerance;

/// A tensor's elements, row by row.
pub(super) struct Side {
    pub(super) data: Arc<dyn Source>,
    pub(super) dtype: DType,
}

/// A number without an imaginary part, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Real {
    Float(f64),
    Whole(i128),
}

/// A number with its imaginary part.
type Number = (Real, f64);

impl Real {
    fn is_nan(self) -> bool {
        matches!(self, Self::Float(value) if value.is_nan())
    }

    fn is_finite(self) -> bool {
        match self {
            Self::Float(value) => value.is_finite(),
            Self::Whole(_) => true,
        }
    }

    fn size(self) -> f64 {
        match self {
            Self::Float(value) => value.abs(),
            Self::Whole(value) => value.unsigned_abs() as f64,
        }
    }

    /// How far apart two finite numbers are, rounded once; 0 only where they are equal.
    fn apart(self, other: Self) -> f64 {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => (a - b).abs(),
            (Self::Whole(a), Self::Whole(b)) => a.abs_diff(b) as f64,
            (Self::Float(float), Self::Whole(whole)) | (Self::Whole(whole), Self::Float(float)) => {
                // The float next to an integer of 64 bits is an integer, and what is between them is small.
                let near = whole as f64;
                #[allow(clippy::cast_possible_truncation, reason = "of at most 2^64")]
                let rest = whole - near as i128;
                ((float - near) - rest as f64).abs()
            }
        }
    }

    fn equals(self, other: Self) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a == b,
            (a, b) => a.is_finite() && b.is_finite() && a.apart(b) == 0.0,
        }
    }
}

/// How the values of two tensors of one shape differ, `None` where none do beyond the tolerance.
pub(super) fn compare(
    a: &Side,
    b: &Side,
    tolerance: &Tolerance,
    ticker: &Ticker<'_>,
) -> Result<Option<Values>, Failed> {
    /// Elements that are in memory at a time.
    const PIECE: u64 = 1 << 16;
    let in_a = |error: SourceError| Failed::A(error.into());
    let in_b = |error: SourceError| Failed::B(error.into());
    let unit = |side: &Side| side.dtype.size().unwrap_or(1).max(1);
    let (unit_a, unit_b) = (unit(a), unit(b));
    let count = a.data.size() / unit_a;
    let bytes = |elements: u64, unit: u64| usize::try_from(elements.saturating_mul(unit));
    let most = |unit| bytes(count.min(PIECE), unit).unwrap_or(0);
    let mut buffer_a = AlignedBytes::zeroed(most(unit_a)).map_err(in_a)?;
    let mut buffer_b = AlignedBytes::zeroed(most(unit_b)).map_err(in_b)?;
    let mut values = Values::default();
    let mut first = 0;
    while first < count {
        let piece = PIECE.min(count - first);
        let (len_a, len_b) = (bytes(piece, unit_a), bytes(piece, unit_b));
        let x = buffer_a.as_mut_slice();
        let x = x.get_mut(..len_a.unwrap_or(0)).unwrap_or_default();
        let y = buffer_b.as_mut_slice();
        let y = y.get_mut(..len_b.unwrap_or(0)).unwrap_or_default();
        a.data.read_into(first * unit_a, x).map_err(in_a)?;
        b.data.read_into(first * unit_b, y).map_err(in_b)?;
        let xs = numbers(x, a.dtype).map_err(Failed::A)?;
        let ys = numbers(y, b.dtype).map_err(Failed::B)?;
        for (index, (x, y)) in (first..).zip(xs.into_iter().zip(ys)) {
            element(index, x, y, tolerance, &mut values);
        }
        let stopped = |error: TransferError| Failed::A(error.into());
        ticker.tick(x.len() as u64).map_err(stopped)?;
        first += piece;
    }
    values.finish(count);
    Ok((values.count > 0).then_some(values))
}

/// The elements as numbers.
fn numbers(bytes: &[u8], dtype: DType) -> Result<Vec<Number>, Error> {
    let floats = |bytes: &[u8], dtype| {
        let wide = cast(bytes, dtype, DType::F64)?;
        Ok::<_, Error>(eights(&wide).map(f64::from_le_bytes).collect::<Vec<f64>>())
    };
    Ok(match Form::of(Some(dtype)) {
        Form::Complex => {
            let half = if dtype == DType::C64 {
                DType::F32
            } else {
                DType::F64
            };
            let parts = floats(bytes, half)?;
            let pair = |pair: &[f64]| match pair {
                [re, im] => (Real::Float(*re), *im),
                _ => (Real::Float(f64::NAN), 0.0),
            };
            parts.chunks_exact(2).map(pair).collect()
        }
        Form::Whole { unsigned: true } => {
            let wide = cast(bytes, dtype, DType::U64)?;
            let value = |bytes| (Real::Whole(u64::from_le_bytes(bytes).into()), 0.0);
            eights(&wide).map(value).collect()
        }
        Form::Whole { unsigned: false } => {
            let wide = cast(bytes, dtype, DType::I64)?;
            let value = |bytes| (Real::Whole(i64::from_le_bytes(bytes).into()), 0.0);
            eights(&wide).map(value).collect()
        }
        Form::Float | Form::Bytes => {
            let value = |value| (Real::Float(value), 0.0);
            floats(bytes, dtype)?.into_iter().map(value).collect()
        }
    })
}

/// Notes the difference of two elements.
fn element(index: u64, x: Number, y: Number, tolerance: &Tolerance, values: &mut Values) {
    let is_nan = |z: Number| z.0.is_nan() || z.1.is_nan();
    if x.0.equals(y.0) && x.1 == y.1 || is_nan(x) && is_nan(y) {
        return;
    }
    if is_nan(x) || is_nan(y) {
        values.note(index);
        values.nan += 1;
        return;
    }
    let finite = |z: Number| z.0.is_finite() && z.1.is_finite();
    let is_real = x.1 == 0.0 && y.1 == 0.0;
    let (distance, close) = match (x.0, y.0) {
        (Real::Whole(a), Real::Whole(b)) if is_real => {
            (Distance::Whole(a.abs_diff(b)), tolerance.whole(a, b))
        }
        (Real::Float(a), Real::Float(b)) if is_real => {
            (Distance::Float((a - b).abs()), tolerance.floats(a, b))
        }
        _ if finite(x) && finite(y) => {
            let apart = x.0.apart(y.0).hypot(x.1 - y.1);
            (Distance::Float(apart), tolerance.within(apart, size(y)))
        }
        _ => (Distance::Float(f64::INFINITY), false),
    };
    values.add(distance);
    if !close {
        values.note(index);
        values.note_distance(distance, size(y));
    }
}

fn size(z: Number) -> f64 {
    match z.1 == 0.0 {
        true => z.0.size(),
        false => z.0.size().hypot(z.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_two_kinds_are_apart_by_what_they_are() {
        let (float, whole) = (Real::Float, Real::Whole);
        let large = 1i128 << 53;
        let most = i128::from(u64::MAX);
        for (a, b, apart) in [
            (float(9_007_199_254_740_992.0), whole(large + 1), 1.0),
            (float(9_007_199_254_740_992.0), whole(large), 0.0),
            (float(18_446_744_073_709_551_616.0), whole(most), 1.0),
            (
                float(-9_223_372_036_854_775_808.0),
                whole(i64::MIN.into()),
                0.0,
            ),
            (
                float(9_223_372_036_854_775_808.0),
                whole(i64::MAX.into()),
                1.0,
            ),
            (float(0.5), whole(0), 0.5),
            (float(-0.0), whole(0), 0.0),
            (float(0.5), whole(large + 1), 9_007_199_254_740_992.5),
            (
                whole(most),
                whole(i64::MIN.into()),
                27_670_116_110_564_327_423.0,
            ),
        ] {
            assert_eq!(a.apart(b), apart, "{a:?} {b:?}");
            assert_eq!(b.apart(a), apart, "{a:?} {b:?}");
            assert_eq!(a.equals(b), apart == 0.0, "{a:?} {b:?}");
        }
        assert!(!float(f64::NAN).equals(whole(0)) && !float(f64::INFINITY).equals(whole(most)));
    }
}
