use std::process::ExitCode;

use serde::{Serialize, Serializer};
use tensor_core::{Cast, Source, Ticker, walk};
use tensorfmt::convert::{Model, ModelTensor};
use tensorfmt::{DType, Error};

use crate::Outcome;
use crate::cli::{Common, Stats};
use crate::failure::{Failure, complain};
use crate::input::{Globs, Input};
use crate::output::{Out, escape};
use crate::progress::Meter;

/// Bins of the histogram.
const BINS: usize = 20;
/// The quantiles that are reported.
const QUANTILES: [f64; 5] = [0.01, 0.25, 0.5, 0.75, 0.99];
/// Times that the values are read: once for counts and moments, once for the histogram, and once
/// for each 16 bits of the quantiles.
const PASSES: u64 = 6;

#[derive(Serialize)]
struct Document {
    tensors: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    count: u64,
    nan: u64,
    inf: u64,
    zeros: u64,
    sparsity: Option<Number>,
    min: Option<Number>,
    max: Option<Number>,
    mean: Option<Number>,
    std: Option<Number>,
    quantiles: Vec<(f64, Number)>,
    histogram: Vec<u64>,
}

/// A float that JSON may have no number for.
#[derive(Clone, Copy)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_finite() => serializer.serialize_f64(value),
            value if value.is_nan() => serializer.serialize_str("nan"),
            value if value > 0.0 => serializer.serialize_str("inf"),
            _ => serializer.serialize_str("-inf"),
        }
    }
}

pub(crate) fn run(args: &Stats, common: &Common) -> Outcome {
    let globs = Globs::new(&args.filter)?;
    let input = Input::new(&args.file)?;
    let archive = input
        .open()
        .map_err(|error| Failure::about(&input.path, &error))?;
    let mut model = Model::of(&archive);
    model.retain(|name| globs.is_empty() || globs.matches(name));
    let bytes = |tensor: &ModelTensor| tensor.data().map_or(0, |data| data.size());
    let total = model.tensors.iter().map(bytes).fold(0, u64::saturating_add);
    let meter = Meter::new(total.saturating_mul(PASSES), common);
    let progress = |bytes| meter.tick(bytes);
    let ticker = Ticker::new(Some(&progress));
    let lines = tensor_core::parallel::map(common.threads, model.tensors.len(), |at| {
        match model.tensors.get(at) {
            Some(tensor) => stats(tensor, &ticker).map(|line| line.ok_or(at)),
            None => Ok(Err(at)),
        }
    });
    let lines = lines.map_err(|error| Failure::about(&input.path, &error))?;
    drop(meter);
    let mut known = Vec::new();
    for line in lines {
        match line {
            Ok(line) => known.push(line),
            Err(at) => {
                let name = model.tensors.get(at).map_or("", ModelTensor::name);
                complain(&escape(&format!(
                    "{name:?}: its values can't be interpreted"
                )));
            }
        }
    }
    let mut out = Out::new();
    if args.json {
        out.json(&Document { tensors: known })?;
    } else {
        for line in &known {
            print(line, &mut out)?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Calls `visit` with every value as f64; integers beyond 2^53 are rounded.
fn each(
    tensor: &ModelTensor,
    dtype: DType,
    ticker: &Ticker<'_>,
    mut visit: impl FnMut(f64),
) -> Result<(), Error> {
    let data = Counted {
        inner: tensor.data()?,
        ticker: *ticker,
    };
    let cast = Cast::new(data, dtype, DType::F64).map_err(|e| Error::Usage(e.to_string()))?;
    walk::<Error>(&cast, 0..cast.size(), &Ticker::default(), |piece| {
        for bytes in piece.chunks_exact(8) {
            visit(f64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        }
        Ok(())
    })
}

/// Reports what is read of a tensor, in bytes of the file rather than of the cast.
struct Counted<'a> {
    inner: std::sync::Arc<dyn Source>,
    ticker: Ticker<'a>,
}

impl Source for Counted<'_> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), tensor_core::SourceError> {
        self.inner.read_into(offset, out)?;
        let stopped = |_| tensor_core::SourceError::Other("stopped on request".into());
        self.ticker.tick(out.len() as u64).map_err(stopped)
    }
}

/// `None` where the dtype has no values that could be counted.
fn stats(tensor: &ModelTensor, ticker: &Ticker<'_>) -> Result<Option<Line>, Error> {
    let Some(dtype) = tensor.dtype() else {
        return Ok(None);
    };
    if !Cast::<std::sync::Arc<dyn Source>>::is_supported(dtype, DType::F64) {
        return Ok(None);
    }
    let (mut count, mut nan, mut inf, mut zeros) = (0u64, 0u64, 0u64, 0u64);
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    // Welford's update over the finite values.
    let (mut finite, mut mean, mut squares) = (0u64, 0.0, 0.0);
    each(tensor, dtype, ticker, |value| {
        count += 1;
        zeros += u64::from(value == 0.0);
        if value.is_nan() {
            nan += 1;
            return;
        }
        min = min.min(value);
        max = max.max(value);
        if value.is_infinite() {
            inf += 1;
            return;
        }
        finite += 1;
        let delta = value - mean;
        mean += delta / finite as f64;
        squares += delta * (value - mean);
    })?;
    let some = |there: bool, value: f64| there.then_some(Number(value));
    let numbers = count - nan;
    Ok(Some(Line {
        name: tensor.name().to_owned(),
        dtype: dtype.name().to_owned(),
        shape: tensor.shape().dims().to_vec(),
        count,
        nan,
        inf,
        zeros,
        sparsity: some(count > 0, zeros as f64 / count as f64),
        min: some(numbers > 0, min),
        max: some(numbers > 0, max),
        mean: some(finite > 0, mean),
        std: some(finite > 0, (squares / finite as f64).sqrt()),
        quantiles: quantiles(tensor, dtype, numbers, ticker)?,
        histogram: histogram(tensor, dtype, min, max, ticker)?,
    }))
}

/// The bits of a number, ordered as numbers are.
fn ordered(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

fn from_ordered(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 {
        key & !(1 << 63)
    } else {
        !key
    })
}

/// Exact quantiles (the value at rank `q * (n - 1)`, rounded down) without holding the values: the
/// bits of each are found from the highest down, 16 at a time.
fn quantiles(
    tensor: &ModelTensor,
    dtype: DType,
    numbers: u64,
    ticker: &Ticker<'_>,
) -> Result<Vec<(f64, Number)>, Error> {
    if numbers == 0 {
        return Ok(Vec::new());
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of a count is below it"
    )]
    let rank = |q: f64| (q * (numbers - 1) as f64) as u64;
    // For each quantile the bits known so far, and its rank among the numbers that share them.
    let mut found: Vec<(u64, u64)> = QUANTILES.iter().map(|&q| (0, rank(q))).collect();
    for shift in [48u32, 32, 16, 0] {
        let mut counts = vec![vec![0u64; 1 << 16]; found.len()];
        each(tensor, dtype, ticker, |value| {
            if value.is_nan() {
                return;
            }
            let key = ordered(value);
            let known = key.checked_shr(shift + 16).unwrap_or(0);
            for ((prefix, _), counts) in found.iter().zip(&mut counts) {
                if known == *prefix {
                    let slot = usize::try_from(key >> shift & 0xFFFF).unwrap_or(0);
                    if let Some(count) = counts.get_mut(slot) {
                        *count += 1;
                    }
                }
            }
        })?;
        for ((prefix, rank), counts) in found.iter_mut().zip(counts) {
            for (slot, count) in (0u64..).zip(counts) {
                if *rank < count {
                    *prefix = *prefix << 16 | slot;
                    break;
                }
                *rank -= count;
            }
        }
    }
    let value = |(&q, (key, _)): (&f64, (u64, u64))| (q, Number(from_ordered(key)));
    Ok(QUANTILES.iter().zip(found).map(value).collect())
}

/// How many finite values lie in each of equal steps from the least to the greatest of them.
fn histogram(
    tensor: &ModelTensor,
    dtype: DType,
    min: f64,
    max: f64,
    ticker: &Ticker<'_>,
) -> Result<Vec<u64>, Error> {
    if !(min.is_finite() && max.is_finite() && min < max) {
        return Ok(Vec::new());
    }
    let mut bins = vec![0u64; BINS];
    each(tensor, dtype, ticker, |value| {
        if value.is_finite() {
            // Halves first: the difference itself may be beyond the greatest float.
            let part = (value / 2.0 - min / 2.0) / (max / 2.0 - min / 2.0);
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a fraction of the number of bins"
            )]
            let bin = (part * BINS as f64) as usize;
            if let Some(count) = bins.get_mut(bin.min(BINS - 1)) {
                *count += 1;
            }
        }
    })?;
    Ok(bins)
}

fn print(line: &Line, out: &mut Out) -> Result<(), Failure> {
    out.line(&format!(
        "{}  {} {:?}",
        escape(&line.name),
        line.dtype,
        line.shape
    ))?;
    let number = |value: Option<Number>| value.map_or("-".to_owned(), |n| format!("{:.6}", n.0));
    out.line(&format!(
        "  min {}  max {}  mean {}  std {}",
        number(line.min),
        number(line.max),
        number(line.mean),
        number(line.std),
    ))?;
    out.line(&format!(
        "  count {}  zeros {}  nan {}  inf {}",
        line.count, line.zeros, line.nan, line.inf
    ))?;
    let quantiles: Vec<String> = line
        .quantiles
        .iter()
        .map(|(q, n)| format!("{:.0}% {:.6}", q * 100.0, n.0))
        .collect();
    if !quantiles.is_empty() {
        out.line(&format!("  {}", quantiles.join("  ")))?;
    }
    let most = line.histogram.iter().copied().max().unwrap_or(0);
    if most > 0 {
        let bars = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let bar = |&count: &u64| {
            let step = usize::try_from(count * 7 / most).unwrap_or(0);
            if count == 0 {
                ' '
            } else {
                bars.get(step).copied().unwrap_or('█')
            }
        };
        let drawn: String = line.histogram.iter().map(bar).collect();
        out.line(&format!("  |{drawn}|"))?;
    }
    Ok(())
}
