//! Whether two tensors hold the same, and how far apart they are where they don't.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use tensor_core::codec::{Ticker, TransferError};
use tensor_core::{AlignedBytes, Bytes, Cast, Source, SourceError};
use tensorfmt::{DType, Error};

use super::tolerance::Tolerance;
use crate::stats::Number;

/// How the values of a tensor differ.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Values {
    pub(super) count: u64,
    /// Of the first element that differs, counted row by row; of the first byte where only bytes
    /// can be compared.
    pub(super) first_index: u64,
    /// How many of them have equal values in other bits: the sign of a zero, the payload of a NaN,
    /// a bool that is neither 0 nor 1.
    pub(super) bits_only: u64,
    /// How many of them are a NaN on one side alone.
    pub(super) nan: u64,
    /// How far apart the others are at most.
    pub(super) max_abs: Option<Distance>,
    /// The same as a share of the second value.
    pub(super) max_rel: Option<Number>,
    /// How far apart all values of the tensor are on average, but those that are a NaN on one side alone.
    pub(super) mean_abs: Option<Number>,
    /// How far apart they are all together.
    #[serde(skip)]
    sum: f64,
    #[serde(skip)]
    whole: u128,
}

/// How far apart two values are, of whole numbers exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Distance {
    Float(f64),
    Whole(u128),
}

impl Distance {
    fn max(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => Self::Whole(a.max(b)),
            (Self::Float(a), Self::Float(b)) => Self::Float(a.max(b)),
            (_, other) => other,
        }
    }
}

impl std::fmt::Display for Distance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Float(value) => write!(f, "{value:e}"),
            Self::Whole(value) => write!(f, "{value}"),
        }
    }
}

impl Serialize for Distance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Float(value) => Number(value).serialize(serializer),
            // The distance of two 64-bit integers has 64 bits.
            Self::Whole(value) => {
                serializer.serialize_u64(u64::try_from(value).unwrap_or(u64::MAX))
            }
        }
    }
}

impl Values {
    /// Adds how far apart two values are, whether that is too far or not.
    pub(super) fn add(&mut self, distance: Distance) {
        match distance {
            Distance::Float(apart) => self.sum += apart,
            Distance::Whole(apart) => self.whole = self.whole.saturating_add(apart),
        }
    }

    /// Finds the mean, of `count` values.
    pub(super) fn finish(&mut self, count: u64) {
        let counted = count.saturating_sub(self.nan);
        if self.max_abs.is_some() && counted > 0 {
            self.mean_abs = Some(Number((self.sum + self.whole as f64) / counted as f64));
        }
    }

    /// Notes that element `index` differs.
    pub(super) fn note(&mut self, index: u64) {
        if self.count == 0 {
            self.first_index = index;
        }
        self.count += 1;
    }

    /// Notes how far apart its values are.
    pub(super) fn note_distance(&mut self, distance: Distance, size: f64) {
        let apart = match distance {
            Distance::Float(value) => value,
            Distance::Whole(value) => value as f64,
        };
        let relative = if apart.is_infinite() || size == 0.0 {
            f64::INFINITY
        } else {
            apart / size
        };
        self.max_abs = Some(self.max_abs.map_or(distance, |most| most.max(distance)));
        let most = self.max_rel.map_or(relative, |most| most.0.max(relative));
        self.max_rel = Some(Number(most));
    }
}

/// Which of the two files something went wrong in.
#[derive(Debug)]
pub(super) enum Failed {
    A(Error),
    B(Error),
}

/// How elements are told apart.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Float,
    Whole { unsigned: bool },
    Complex,
    Bytes,
}

impl Form {
    pub(super) fn of(dtype: Option<DType>) -> Self {
        match dtype {
            Some(DType::C64 | DType::C128) => Self::Complex,
            Some(dtype) if dtype.is_float() => Self::Float,
            Some(dtype) if dtype.is_number() => Self::Whole {
                unsigned: dtype == DType::U64,
            },
            _ => Self::Bytes,
        }
    }
}

/// Two tensors of one dtype and shape.
pub(super) struct Pair {
    pub(super) a: Arc<dyn Source>,
    pub(super) b: Arc<dyn Source>,
    pub(super) dtype: Option<DType>,
}

impl Pair {
    /// How the values differ, `None` where they don't: by their bits, or beyond a tolerance. The
    /// sources are of one size.
    pub(super) fn compare(
        &self,
        tolerance: Option<&Tolerance>,
        ticker: &Ticker<'_>,
    ) -> Result<Option<Values>, Failed> {
        let form = Form::of(self.dtype);
        let size = match form {
            Form::Bytes => 1,
            _ => self.dtype.and_then(DType::size).unwrap_or(1),
        };
        let unit = usize::try_from(size).unwrap_or(1);
        // Whole elements of both, in windows that suit both.
        let window = self.a.window().max(self.b.window()).max(unit);
        let window = window - window % unit;
        let len = self.a.size();
        let most = usize::try_from(len).map_or(window, |len| len.min(window));
        let in_a = |error: SourceError| Failed::A(error.into());
        let in_b = |error: SourceError| Failed::B(error.into());
        let mut buffers = [
            AlignedBytes::zeroed(most).map_err(in_a)?,
            AlignedBytes::zeroed(most).map_err(in_b)?,
        ];
        let mut values = Values::default();
        let mut offset = 0;
        while offset < len {
            let piece = usize::try_from(len - offset).map_or(most, |left| left.min(most));
            let [a, b] = &mut buffers;
            let a = a.as_mut_slice().get_mut(..piece).unwrap_or_default();
            let b = b.as_mut_slice().get_mut(..piece).unwrap_or_default();
            self.a.read_into(offset, a).map_err(in_a)?;
            self.b.read_into(offset, b).map_err(in_b)?;
            if a != b {
                self.elements(form, (a, b), offset / size, tolerance, &mut values)
                    .map_err(Failed::A)?;
            }
            let stopped = |error: TransferError| Failed::A(error.into());
            ticker.tick(piece as u64).map_err(stopped)?;
            offset += piece as u64;
        }
        values.finish(len / size);
        Ok((values.count > 0).then_some(values))
    }

    /// Tells the elements of two windows apart, the first of which has number `first`.
    fn elements(
        &self,
        form: Form,
        (a, b): (&[u8], &[u8]),
        first: u64,
        tolerance: Option<&Tolerance>,
        values: &mut Values,
    ) -> Result<(), Error> {
        /// Bytes that are cast at a time.
        const BLOCK: usize = 1 << 16;
        let mut index = first;
        for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
            let size = match form {
                Form::Bytes => 1,
                _ => self.dtype.and_then(DType::size).unwrap_or(1),
            };
            if a != b {
                match form {
                    Form::Bytes => bytes(a, b, index, values),
                    Form::Float => self.floats((a, b), index, tolerance, values)?,
                    Form::Whole { unsigned } => {
                        self.whole((a, b), unsigned, index, tolerance, values)?;
                    }
                    Form::Complex => self.complex((a, b), index, tolerance, values)?,
                }
            }
            index += a.len() as u64 / size;
        }
        Ok(())
    }

    fn floats(
        &self,
        (a, b): (&[u8], &[u8]),
        first: u64,
        tolerance: Option<&Tolerance>,
        values: &mut Values,
    ) -> Result<(), Error> {
        let dtype = self.dtype.unwrap_or(DType::F64);
        let unit = dtype.size().and_then(|size| usize::try_from(size).ok());
        let unit = unit.unwrap_or(1);
        let (x, y) = (cast(a, dtype, DType::F64)?, cast(b, dtype, DType::F64)?);
        let bits = a.chunks_exact(unit).zip(b.chunks_exact(unit));
        let pairs = eights(&x).zip(eights(&y));
        for (index, ((a, b), (x, y))) in (first..).zip(bits.zip(pairs)) {
            let (x, y) = (f64::from_le_bytes(x), f64::from_le_bytes(y));
            if a == b {
                continue;
            }
            if x != y && !x.is_nan() && !y.is_nan() {
                values.add(Distance::Float((x - y).abs()));
            }
            if tolerance.is_some_and(|tolerance| tolerance.floats(x, y)) {
                continue;
            }
            values.note(index);
            if x == y || x.is_nan() && y.is_nan() {
                values.bits_only += 1;
            } else if x.is_nan() || y.is_nan() {
                values.nan += 1;
            } else {
                values.note_distance(Distance::Float((x - y).abs()), y.abs());
            }
        }
        Ok(())
    }

    fn whole(
        &self,
        (a, b): (&[u8], &[u8]),
        unsigned: bool,
        first: u64,
        tolerance: Option<&Tolerance>,
        values: &mut Values,
    ) -> Result<(), Error> {
        let dtype = self.dtype.unwrap_or(DType::I64);
        let unit = dtype.size().and_then(|size| usize::try_from(size).ok());
        let unit = unit.unwrap_or(1);
        let wide = if unsigned { DType::U64 } else { DType::I64 };
        let (x, y) = (cast(a, dtype, wide)?, cast(b, dtype, wide)?);
        let value = |bytes| match unsigned {
            true => i128::from(u64::from_le_bytes(bytes)),
            false => i128::from(i64::from_le_bytes(bytes)),
        };
        let bits = a.chunks_exact(unit).zip(b.chunks_exact(unit));
        let pairs = eights(&x).map(value).zip(eights(&y).map(value));
        for (index, ((a, b), (x, y))) in (first..).zip(bits.zip(pairs)) {
            if a == b {
                continue;
            }
            values.add(Distance::Whole(x.abs_diff(y)));
            if tolerance.is_some_and(|tolerance| tolerance.whole(x, y)) {
                continue;
            }
            values.note(index);
            match x == y {
                true => values.bits_only += 1,
                false => {
                    let size = y.unsigned_abs() as f64;
                    values.note_distance(Distance::Whole(x.abs_diff(y)), size);
                }
            }
        }
        Ok(())
    }

    fn complex(
        &self,
        (a, b): (&[u8], &[u8]),
        first: u64,
        tolerance: Option<&Tolerance>,
        values: &mut Values,
    ) -> Result<(), Error> {
        let (half, unit) = match self.dtype {
            Some(DType::C64) => (DType::F32, 8),
            _ => (DType::F64, 16),
        };
        let (x, y) = (cast(a, half, DType::F64)?, cast(b, half, DType::F64)?);
        let bits = a.chunks_exact(unit).zip(b.chunks_exact(unit));
        let pairs = x.chunks_exact(16).zip(y.chunks_exact(16));
        let parts = |bytes: &[u8]| {
            let mut halves = eights(bytes).map(f64::from_le_bytes);
            (halves.next().unwrap_or(0.0), halves.next().unwrap_or(0.0))
        };
        let is_nan = |z: (f64, f64)| z.0.is_nan() || z.1.is_nan();
        for (index, ((a, b), (x, y))) in (first..).zip(bits.zip(pairs)) {
            let (x, y) = (parts(x), parts(y));
            if a == b {
                continue;
            }
            // Infinity less itself is no number, and no distance either.
            let apart = |a: f64, b: f64| if a == b { 0.0 } else { a - b };
            let distance = Distance::Float(apart(x.0, y.0).hypot(apart(x.1, y.1)));
            if !is_nan(x) && !is_nan(y) {
                values.add(distance);
            }
            if tolerance.is_some_and(|tolerance| tolerance.complex(x, y)) {
                continue;
            }
            values.note(index);
            if x == y || is_nan(x) && is_nan(y) {
                values.bits_only += 1;
            } else if is_nan(x) || is_nan(y) {
                values.nan += 1;
            } else {
                values.note_distance(distance, y.0.hypot(y.1));
            }
        }
        Ok(())
    }
}

/// Tells bytes apart that mean nothing to us.
fn bytes(a: &[u8], b: &[u8], first: u64, values: &mut Values) {
    for (index, (a, b)) in (first..).zip(a.iter().zip(b)) {
        if a != b {
            values.note(index);
        }
    }
}

pub(super) fn cast(bytes: &[u8], from: DType, to: DType) -> Result<Bytes, Error> {
    let cast = Cast::new(Bytes::copy_from_slice(bytes), from, to);
    let cast = cast.map_err(|error| Error::Usage(error.to_string()))?;
    Ok(cast.read(0..cast.size())?)
}

pub(super) fn eights(bytes: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    let eight = |bytes: &[u8]| bytes.try_into().unwrap_or_default();
    bytes.chunks_exact(8).map(eight)
}
