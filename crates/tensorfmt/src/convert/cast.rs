//! Which tensors a cast is about, and what it does to them.

use std::sync::Arc;

use tensor_core::codec::{Ticker, walk};
use tensor_core::{Cast, DType, Order, Shape, Source};

use super::{Loss, LossKind, Options, Target};
use crate::codec::{Capabilities, Prepared};
use crate::{Error, Result};

/// What became of a cast, tensor by tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CastReport {
    /// What was asked for.
    pub to: DType,
    /// How many tensors have another dtype now.
    pub changed: usize,
    /// How many had the dtype that was asked for before.
    pub already: usize,
    /// How many the cast is not about: integers where floats are cast, floats where integers are.
    pub others: usize,
    /// Tensors whose values can't be cast at all, and which stay as they were.
    pub passed_over: Vec<PassedOver>,
}

/// A tensor whose values can't be cast.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassedOver {
    /// The tensor's name.
    pub tensor: String,
    /// Its dtype, as listings name it.
    pub dtype: String,
}

impl CastReport {
    pub(crate) fn new(to: DType) -> Self {
        Self {
            to,
            changed: 0,
            already: 0,
            others: 0,
            passed_over: Vec::new(),
        }
    }

    /// Notes what became of a tensor that was of dtype `from`, named `dtype`.
    pub(crate) fn note(&mut self, prepared: &Prepared, from: Option<DType>, dtype: &str) {
        match from {
            Some(from) if prepared.spec.dtype() != from => self.changed += 1,
            Some(from) if from == self.to => self.already += 1,
            Some(from) if from.is_number() => self.others += 1,
            _ => self.passed_over.push(PassedOver {
                tensor: prepared.name.clone(),
                dtype: dtype.to_owned(),
            }),
        }
    }
}

/// A tensor as it is stored.
pub(super) struct Stored<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: DType,
    pub(super) shape: &'a Shape,
    pub(super) order: Order,
}

impl Stored<'_> {
    /// The indices of the element that is stored as number `position`.
    fn indices(&self, mut position: u64) -> Vec<u64> {
        let dims = self.shape.dims();
        let take = |dim: &u64| {
            let dim = (*dim).max(1);
            let index = position % dim;
            position /= dim;
            index
        };
        // The fastest dim first.
        match self.order {
            Order::ColumnMajor => dims.iter().map(take).collect(),
            Order::RowMajor => {
                let mut indices: Vec<u64> = dims.iter().rev().map(take).collect();
                indices.reverse();
                indices
            }
        }
    }

    /// Where element number `position` is: its indices, and its number counted row by row.
    fn place(&self, position: u64) -> String {
        let indices = self.indices(position);
        let step = |flat: u64, (dim, index): (&u64, &u64)| {
            flat.saturating_mul(*dim).saturating_add(*index)
        };
        let flat = self.shape.dims().iter().zip(&indices).fold(0, step);
        format!("index {flat}, {indices:?}")
    }
}

/// The dtype that a tensor of this dtype is cast to, if the requested cast applies to it.
pub(super) fn wanted(dtype: DType, target: &Capabilities, options: &Options) -> Option<DType> {
    let can_hold = (target.holds)(dtype);
    let is_whole = dtype.is_integer() || dtype == DType::Bool;
    options.cast.filter(|&to| {
        let is_about = match (to.is_float(), to.is_integer()) {
            (true, _) => dtype.is_float() || !can_hold,
            (_, true) => is_whole || !can_hold && !dtype.is_float(),
            _ => !can_hold && !dtype.is_float(),
        };
        to != dtype && is_about
    })
}

type Data = (Arc<dyn Source>, DType);

/// The data in a dtype that the target holds and the options ask for, or why there is none.
pub(super) fn cast(
    data: Arc<dyn Source>,
    stored: &Stored<'_>,
    capabilities: &Capabilities,
    target: Target,
    options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Result<Data, String>> {
    let (dtype, format) = (stored.dtype, target.name());
    let can_hold = (capabilities.holds)(dtype);
    let Some(to) = wanted(dtype, capabilities, options) else {
        return Ok(match can_hold {
            true => Ok((data, dtype)),
            false => Err(format!("a {format} file can't hold {dtype}")),
        });
    };
    if !Cast::<Arc<dyn Source>>::is_supported(dtype, to) {
        return Ok(Err(format!(
            "a {format} file can't hold {dtype}, and it can't be cast to {to}"
        )));
    }
    let cast =
        Cast::new(data.clone(), dtype, to).map_err(|error| Error::Usage(error.to_string()))?;
    if is_exact(dtype, to) {
        return Ok(Ok((Arc::new(cast), to)));
    }
    // Read everything once before the first byte is written, to know what is lost.
    walk::<Error>(&cast, 0..cast.size(), &Ticker::default(), |_| Ok(()))?;
    let counts = cast.counts();
    if to.is_integer() && counts.overflowed() > 0 {
        let misfit = first_misfit(&data, dtype, to)?;
        let first = misfit.map_or_else(String::new, |(position, value)| {
            format!(": {value} at {}", stored.place(position))
        });
        return Ok(Err(match counts.overflowed() {
            1 => format!("a value doesn't fit {to}{first}"),
            count => format!("{count} values don't fit {to}; the first{first}"),
        }));
    }
    let lost = [
        (counts.overflowed(), "out of range"),
        (counts.underflowed(), "too small"),
        (counts.rounded(), "rounded"),
    ];
    let lost: Vec<String> = lost
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !lost.is_empty() {
        let reason = format!("{dtype} cast to {to}: {} values", lost.join(", "));
        losses.push(Loss::new(LossKind::Value, stored.name, reason));
    }
    Ok(Ok((Arc::new(cast), to)))
}

/// The position and value of the first integer that an integer dtype has no place for.
fn first_misfit(data: &Arc<dyn Source>, from: DType, to: DType) -> Result<Option<(u64, String)>> {
    // As the one 64-bit dtype that has all values of the old one.
    let unsigned = from == DType::U64;
    let wide = if unsigned { DType::U64 } else { DType::I64 };
    let wide = Cast::new(data.clone(), from, wide).map_err(|e| Error::Usage(e.to_string()))?;
    let (mut position, mut found) = (0u64, None);
    walk::<Error>(&wide, 0..wide.size(), &Ticker::default(), |piece| {
        if found.is_some() {
            return Ok(());
        }
        for bytes in piece.chunks_exact(8) {
            let bytes = bytes.try_into().unwrap_or_default();
            let value = match unsigned {
                true => i128::from(u64::from_le_bytes(bytes)),
                false => i128::from(i64::from_le_bytes(bytes)),
            };
            if !fits(value, to) {
                found = Some((position, value.to_string()));
                return Ok(());
            }
            position += 1;
        }
        Ok(())
    })?;
    Ok(found)
}

/// Whether an integer dtype has this value.
fn fits(value: i128, dtype: DType) -> bool {
    match dtype {
        DType::U8 => u8::try_from(value).is_ok(),
        DType::I8 => i8::try_from(value).is_ok(),
        DType::U16 => u16::try_from(value).is_ok(),
        DType::I16 => i16::try_from(value).is_ok(),
        DType::U32 => u32::try_from(value).is_ok(),
        DType::I32 => i32::try_from(value).is_ok(),
        DType::U64 => u64::try_from(value).is_ok(),
        DType::I64 => i64::try_from(value).is_ok(),
        _ => true,
    }
}

/// Whether every value of one dtype is one of the other.
fn is_exact(from: DType, to: DType) -> bool {
    let bits = |dtype: DType| dtype.size().unwrap_or(0) * 8;
    let mantissa = |dtype: DType| match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        DType::F64 => 53,
        _ => 0,
    };
    let signed = |dtype| matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    match (from, to) {
        // A power of two is never zero.
        (DType::Bool, _) => to != DType::F8E8M0,
        (_, DType::Bool) => false,
        (DType::F16 | DType::BF16, DType::F32 | DType::F64) | (DType::F32, DType::F64) => true,
        // From 2^-127 to 2^127.
        (DType::F8E8M0, to) => matches!(to, DType::BF16 | DType::F32 | DType::F64),
        (from, to) if from.is_float8() => to.is_float() && !to.is_float8(),
        (from, to) if from.is_integer() && to.is_float() => bits(from) <= mantissa(to),
        (from, to) if from.is_integer() && to.is_integer() => match (signed(from), signed(to)) {
            (false, true) => bits(from) < bits(to),
            (true, false) => false,
            _ => bits(from) <= bits(to),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_row_by_row_whatever_the_order_of_the_data() {
        let shape = Shape::new(&[2, 3, 4]).unwrap();
        let stored = |order| Stored {
            name: "w",
            dtype: DType::U8,
            shape: &shape,
            order,
        };
        let rows = stored(Order::RowMajor);
        assert_eq!(rows.place(0), "index 0, [0, 0, 0]");
        assert_eq!(rows.place(17), "index 17, [1, 1, 1]");
        // Element number 17 is 1 + 2 * (2 + 3 * 2).
        let columns = stored(Order::ColumnMajor);
        assert_eq!(columns.place(17), "index 22, [1, 2, 2]");
        assert_eq!(columns.place(23), "index 23, [1, 2, 3]");
    }

    /// What is called exact is read once less: it must be exact indeed.
    #[test]
    fn exact_casts_lose_nothing() {
        let numbers = || DType::ALL.iter().copied().filter(|dtype| dtype.is_number());
        for from in numbers() {
            for to in numbers().filter(|&to| is_exact(from, to)) {
                // All first and last bytes that an element can have.
                let size = usize::try_from(from.size().unwrap()).unwrap();
                let data: Vec<u8> = (0..=u16::MAX)
                    .flat_map(|bits| {
                        let [low, high] = bits.to_le_bytes();
                        let mut element = vec![low; size];
                        *element.last_mut().unwrap() = if size == 1 { low } else { high };
                        element
                    })
                    .collect();
                let data = tensor_core::Bytes::from(data);
                let there = Cast::new(data.clone(), from, to).unwrap();
                let bytes = there.read(0..there.size()).unwrap();
                let counts = there.counts();
                let lost = (counts.rounded(), counts.overflowed(), counts.underflowed());
                assert_eq!(lost, (0, 0, 0), "{from} to {to}");
                let back = Cast::new(bytes, to, from).unwrap();
                back.read(0..back.size()).unwrap();
                assert_eq!(back.counts().rounded(), 0, "{from} to {to}");
            }
        }
    }
}
