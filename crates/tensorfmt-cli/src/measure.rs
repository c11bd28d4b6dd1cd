//! What the values of tensors are like: counts, moments, quantiles and a histogram, found in
//! windows, without ever holding a large tensor.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use tensor_core::{Cast, Source, Ticker, walk};
use tensorfmt::convert::ModelTensor;
use tensorfmt::{Archive, DType, Error};

/// Bins of a histogram.
const BINS: usize = 20;
/// The quantiles that are found.
const QUANTILES: [f64; 5] = [0.01, 0.25, 0.5, 0.75, 0.99];
/// Tensors of up to so many values are sorted in memory; larger ones are counted in windows.
const SORTED: u64 = 1 << 16;
/// Tensors of at least so many values are shared among threads.
const SHARED: u64 = 1 << 24;
/// Into how many parts; fixed, so that sums come out the same on every machine.
const PARTS: u64 = 8;
/// Bits of a key that one pass over the values finds out.
const DIGIT: u32 = 16;

/// What the values of one tensor are like.
#[derive(Debug)]
pub(crate) struct Measures {
    pub(crate) moments: Moments,
    /// Fractions, and the value at that rank, NaN aside; rank `q * (n - 1)`, rounded down.
    pub(crate) quantiles: Vec<(f64, f64)>,
    /// How many finite values lie in each of equal steps from the least to the greatest of them.
    pub(crate) histogram: Vec<u64>,
}

/// Counts and moments that can be merged.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    pub(crate) nan: u64,
    pub(crate) inf: u64,
    pub(crate) zeros: u64,
    /// Of all numbers, infinities among them.
    least: f64,
    greatest: f64,
    /// Of the finite values.
    finite: u64,
    low: f64,
    high: f64,
    mean: f64,
    squares: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            count: 0,
            nan: 0,
            inf: 0,
            zeros: 0,
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
            finite: 0,
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            mean: 0.0,
            squares: 0.0,
        }
    }
}

impl Moments {
    fn note(&mut self, value: f64) {
        self.count += 1;
        self.zeros += u64::from(value == 0.0);
        if value.is_nan() {
            self.nan += 1;
            return;
        }
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
        if value.is_infinite() {
            self.inf += 1;
            return;
        }
        self.finite += 1;
        self.low = self.low.min(value);
        self.high = self.high.max(value);
        // Welford's update.
        let delta = value - self.mean;
        self.mean += delta / self.finite as f64;
        self.squares += delta * (value - self.mean);
    }

    /// Adds what another part of the values is like.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.nan += other.nan;
        self.inf += other.inf;
        self.zeros += other.zeros;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        let finite = self.finite + other.finite;
        if other.finite > 0 {
            // Chan's update for two parts.
            let share = other.finite as f64 / finite as f64;
            let delta = other.mean - self.mean;
            self.squares += other.squares + delta * delta * self.finite as f64 * share;
            self.mean += delta * share;
        }
        self.finite = finite;
    }

    fn numbers(&self) -> u64 {
        self.count - self.nan
    }

    /// The fraction of zeros.
    pub(crate) fn sparsity(&self) -> Option<f64> {
        (self.count > 0).then(|| self.zeros as f64 / self.count as f64)
    }

    /// The least number, minus infinity among them.
    pub(crate) fn min(&self) -> Option<f64> {
        (self.numbers() > 0).then_some(self.least)
    }

    /// The greatest number, infinity among them.
    pub(crate) fn max(&self) -> Option<f64> {
        (self.numbers() > 0).then_some(self.greatest)
    }

    /// The mean of the finite values.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.finite > 0).then_some(self.mean)
    }

    /// The standard deviation of the finite values: over their count, not one less.
    pub(crate) fn std(&self) -> Option<f64> {
        (self.finite > 0).then(|| (self.squares / self.finite as f64).sqrt())
    }

    /// From the least to the greatest finite value, where these differ.
    pub(crate) fn span(&self) -> Option<(f64, f64)> {
        (self.low < self.high).then_some((self.low, self.high))
    }
}

/// Tensors whose values are to be measured.
pub(crate) struct Survey<'a> {
    tensors: &'a [ModelTensor],
    /// Tensors that can only be read from front to back.
    forward: HashSet<String>,
}

impl<'a> Survey<'a> {
    pub(crate) fn new(archive: &Archive, tensors: &'a [ModelTensor]) -> Self {
        let entries = archive.entries().into_iter();
        let forward = entries
            .filter(|entry| entry.encoding() != "raw")
            .map(|entry| entry.name().to_owned());
        Self {
            tensors,
            forward: forward.collect(),
        }
    }

    /// How many bytes will be read altogether.
    pub(crate) fn work(&self) -> u64 {
        let work = |tensor: &ModelTensor| {
            let bytes = tensor.data().map_or(0, |data| data.size());
            let count = tensor.shape().elements();
            let passes = match tensor.dtype() {
                Some(dtype) if count > SORTED => Key::of(dtype).digits(),
                _ => 1,
            };
            bytes.saturating_mul(passes.into())
        };
        let work = self.tensors.iter().map(work);
        work.fold(0, u64::saturating_add)
    }

    /// Measures every tensor, `None` where the dtype has no values that could be counted, or the data
    /// can't be had in this build or format.
    pub(crate) fn run(
        &self,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<Vec<Option<Measures>>, Error> {
        let tensors = self.tensors;
        let is_shared = |tensor: &ModelTensor| {
            tensor.shape().elements() >= SHARED && !self.forward.contains(tensor.name())
        };
        let is_passed_over =
            |tensor: &ModelTensor| tensor.data().is_err_and(|error| error.is_unsupported());
        let mut measured = tensor_core::parallel::map(threads, tensors.len(), |at| match tensors
            .get(at)
            .filter(|tensor| !is_shared(tensor) && !is_passed_over(tensor))
        {
            Some(tensor) => measure(tensor, 1, ticker),
            None => Ok(None),
        })?;
        for (tensor, slot) in tensors.iter().zip(&mut measured) {
            if is_shared(tensor) && !is_passed_over(tensor) {
                *slot = measure(tensor, threads, ticker)?;
            }
        }
        Ok(measured)
    }
}

/// One tensor's values as f64; integers beyond 2^53 are rounded.
struct Values<'a> {
    tensor: &'a ModelTensor,
    dtype: DType,
    ticker: &'a Ticker<'a>,
}

impl Values<'_> {
    /// Calls `visit` with the values of a range of elements.
    fn each(&self, range: Range<u64>, mut visit: impl FnMut(f64)) -> Result<(), Error> {
        let data = Counted {
            inner: self.tensor.data()?,
            ticker: *self.ticker,
        };
        let cast =
            Cast::new(data, self.dtype, DType::F64).map_err(|e| Error::Usage(e.to_string()))?;
        let bytes = range.start * 8..range.end * 8;
        walk::<Error>(&cast, bytes, &Ticker::default(), |piece| {
            for bytes in piece.chunks_exact(8) {
                visit(f64::from_le_bytes(bytes.try_into().unwrap_or_default()));
            }
            Ok(())
        })
    }

    /// Collects something from all values: from each part alone, then merged in order.
    fn collect<T: Send>(
        &self,
        threads: usize,
        new: impl Fn() -> T + Sync,
        visit: impl Fn(&mut T, f64) + Sync,
        mut merge: impl FnMut(&mut T, T),
    ) -> Result<T, Error> {
        let count = self.tensor.shape().elements();
        let parts = if threads == 1 { 1 } else { PARTS };
        let bound = |part: u64| {
            let scaled = u128::from(count) * u128::from(part) / u128::from(parts);
            u64::try_from(scaled).unwrap_or(count)
        };
        let parts_len = usize::try_from(parts).unwrap_or(1);
        let collected = tensor_core::parallel::map(threads, parts_len, |part| {
            let part = part as u64;
            let mut collected = new();
            self.each(bound(part)..bound(part + 1), |value| {
                visit(&mut collected, value);
            })?;
            Ok::<T, Error>(collected)
        })?;
        let mut whole = new();
        for part in collected {
            merge(&mut whole, part);
        }
        Ok(whole)
    }
}

/// Reports what is read of a tensor, in bytes of the file rather than of the cast.
struct Counted<'a> {
    inner: Arc<dyn Source>,
    ticker: Ticker<'a>,
}

impl Source for Counted<'_> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), tensor_core::SourceError> {
        self.inner.read_into(offset, out)?;
        let stopped = |_| tensor_core::SourceError::Cancelled;
        self.ticker.tick(out.len() as u64).map_err(stopped)
    }
}

/// Numbers as integers of the same order, so that ranks are found digit by digit.
#[derive(Clone, Copy)]
enum Key {
    /// Floats of up to 32 bits.
    Float32,
    /// Integers of up to 32 bits, by their distance from the least of them.
    Int32 { least: i64 },
    /// All others, as f64.
    Float64,
}

impl Key {
    fn of(dtype: DType) -> Self {
        match dtype {
            DType::F16 | DType::BF16 | DType::F32 => Self::Float32,
            DType::I8 | DType::I16 | DType::I32 => Self::Int32 {
                least: i32::MIN.into(),
            },
            DType::Bool | DType::U8 | DType::U16 | DType::U32 => Self::Int32 { least: 0 },
            _ => Self::Float64,
        }
    }

    /// Passes that it takes to find a key, 16 bits each.
    fn digits(self) -> u32 {
        match self {
            Self::Float32 | Self::Int32 { .. } => 2,
            Self::Float64 => 4,
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the dtype says that the value fits"
    )]
    fn key(self, value: f64) -> u64 {
        match self {
            Self::Float32 => {
                let bits = (value as f32).to_bits();
                let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
                (bits ^ flip).into()
            }
            Self::Int32 { least } => (value as i64 - least) as u64,
            Self::Float64 => {
                let bits = value.to_bits();
                let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
                bits ^ flip
            }
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "a key came from a value"
    )]
    fn value(self, key: u64) -> f64 {
        match self {
            Self::Float32 => {
                let key = key as u32;
                let flip = if key >> 31 == 1 { 1 << 31 } else { u32::MAX };
                f32::from_bits(key ^ flip).into()
            }
            Self::Int32 { least } => (key as i64 + least) as f64,
            Self::Float64 => {
                let flip = if key >> 63 == 1 { 1 << 63 } else { u64::MAX };
                f64::from_bits(key ^ flip)
            }
        }
    }
}

/// How many keys have each value of one digit.
type Table = Vec<u64>;

fn table() -> Table {
    vec![0; 1 << DIGIT]
}

fn add_tables(sum: &mut [u64], part: &[u64]) {
    for (sum, part) in sum.iter_mut().zip(part) {
        *sum += part;
    }
}

/// Counts a key by the digit that starts at bit `shift`.
fn count_digit(table: &mut [u64], key: u64, shift: u32) {
    let digit = usize::try_from(key >> shift & 0xFFFF).unwrap_or(0);
    if let Some(count) = table.get_mut(digit) {
        *count += 1;
    }
}

/// The rank of each quantile among so many numbers.
fn ranks(numbers: u64) -> Vec<u64> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of a count is below it"
    )]
    let rank = |q: &f64| (q * numbers.saturating_sub(1) as f64) as u64;
    QUANTILES.iter().map(rank).collect()
}

/// Which of [`BINS`] equal steps from `low` to `high` a finite value is in.
fn bin(value: f64, (low, high): (f64, f64)) -> usize {
    // Halves first: the difference itself may be beyond the greatest float.
    let part = (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of the number of bins"
    )]
    let bin = (part * BINS as f64) as usize;
    bin.min(BINS - 1)
}

/// `None` where the dtype has no values that could be counted.
fn measure(
    tensor: &ModelTensor,
    threads: usize,
    ticker: &Ticker<'_>,
) -> Result<Option<Measures>, Error> {
    let Some(dtype) = tensor.dtype() else {
        return Ok(None);
    };
    if !Cast::<Arc<dyn Source>>::is_supported(dtype, DType::F64) {
        return Ok(None);
    }
    let values = Values {
        tensor,
        dtype,
        ticker,
    };
    match tensor.shape().elements() {
        ..=SORTED => sorted(&values).map(Some),
        _ => counted(&values, threads).map(Some),
    }
}

/// A small tensor: its values are held and sorted.
fn sorted(values: &Values<'_>) -> Result<Measures, Error> {
    let count = values.tensor.shape().elements();
    let mut moments = Moments::default();
    let mut numbers = Vec::new();
    values.each(0..count, |value| {
        moments.note(value);
        if !value.is_nan() {
            numbers.push(value);
        }
    })?;
    let mut histogram = Vec::new();
    if let Some(span) = moments.span() {
        histogram.resize(BINS, 0);
        for value in numbers.iter().filter(|value| value.is_finite()) {
            if let Some(count) = histogram.get_mut(bin(*value, span)) {
                *count += 1;
            }
        }
    }
    numbers.sort_unstable_by(f64::total_cmp);
    let at = |rank: u64| numbers.get(usize::try_from(rank).ok()?).copied();
    let found = ranks(moments.numbers());
    Ok(Measures {
        quantiles: QUANTILES
            .into_iter()
            .zip(found)
            .filter_map(|(q, rank)| Some((q, at(rank)?)))
            .collect(),
        histogram,
        moments,
    })
}

/// A large tensor, in as many passes as its keys have digits: the first one finds counts, moments
/// and the highest digit, the second one also the histogram.
fn counted(values: &Values<'_>, threads: usize) -> Result<Measures, Error> {
    let key = Key::of(values.dtype);
    let digits = key.digits();
    let top = (digits - 1) * DIGIT;
    let (moments, first) = values.collect(
        threads,
        || (Moments::default(), table()),
        |(moments, table), value| {
            moments.note(value);
            if !value.is_nan() {
                count_digit(table, key.key(value), top);
            }
        },
        |(moments, table), part| {
            moments.merge(&part.0);
            add_tables(table, &part.1);
        },
    )?;
    // The digits of each quantile known so far, and its rank among the numbers that share them.
    let mut found: Vec<(u64, u64)> = ranks(moments.numbers())
        .into_iter()
        .map(|rank| (0, rank))
        .collect();
    for found in &mut found {
        next_digit(found, &first);
    }
    let span = moments.span();
    let mut histogram = Vec::new();
    for pass in 1..digits {
        let shift = top - pass * DIGIT;
        let mut prefixes: Vec<u64> = found.iter().map(|&(prefix, _)| prefix).collect();
        prefixes.dedup();
        let wants_bins = pass == 1;
        let (bins, tables) = values.collect(
            threads,
            || (vec![0u64; BINS], vec![table(); prefixes.len()]),
            |(bins, tables), value| {
                if value.is_nan() {
                    return;
                }
                if let Some(span) = span.filter(|_| wants_bins && value.is_finite()) {
                    if let Some(count) = bins.get_mut(bin(value, span)) {
                        *count += 1;
                    }
                }
                let key = key.key(value);
                let known = key >> (shift + DIGIT);
                for (prefix, table) in prefixes.iter().zip(tables) {
                    if known == *prefix {
                        count_digit(table, key, shift);
                    }
                }
            },
            |(bins, tables), part| {
                add_tables(bins, &part.0);
                for (table, part) in tables.iter_mut().zip(&part.1) {
                    add_tables(table, part);
                }
            },
        )?;
        if wants_bins && span.is_some() {
            histogram = bins;
        }
        for found in &mut found {
            if let Some(at) = prefixes.iter().position(|prefix| *prefix == found.0) {
                next_digit(found, tables.get(at).map_or(&[], Vec::as_slice));
            }
        }
    }
    let numbers = moments.numbers();
    let quantiles = QUANTILES.into_iter().zip(found);
    Ok(Measures {
        quantiles: quantiles
            .filter(|_| numbers > 0)
            .map(|(q, (found, _))| (q, key.value(found)))
            .collect(),
        histogram,
        moments,
    })
}

/// Finds the digit that the number of this rank has.
fn next_digit((prefix, rank): &mut (u64, u64), table: &[u64]) {
    for (digit, &count) in (0u64..).zip(table) {
        if *rank < count {
            *prefix = *prefix << DIGIT | digit;
            return;
        }
        *rank -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_values() {
        let floats = [
            f64::NEG_INFINITY,
            -3.5,
            -f64::from(f32::MIN_POSITIVE),
            -0.0,
            0.0,
            1e-30,
            2.0,
            f64::INFINITY,
        ];
        for key in [Key::Float32, Key::Float64] {
            for pair in floats.windows(2) {
                let [a, b] = [pair[0], pair[1]];
                assert!(key.key(a) < key.key(b), "{a} {b}");
            }
            for value in floats {
                // 1e-30 is no f32.
                let near = key.value(key.key(value));
                assert!(near == value || (near - value).abs() < 1e-36, "{value}");
                assert_eq!(near.is_sign_negative(), value.is_sign_negative());
            }
        }
        let ints = Key::of(DType::I32);
        for value in [f64::from(i32::MIN), -1.0, 0.0, f64::from(i32::MAX)] {
            assert_eq!(ints.value(ints.key(value)), value);
        }
        assert!(ints.key(-1.0) < ints.key(0.0));
        let unsigned = Key::of(DType::U32);
        assert_eq!(unsigned.key(f64::from(u32::MAX)), u64::from(u32::MAX));
    }

    #[test]
    fn moments_of_parts_are_those_of_the_whole() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i * i % 977) - 300.0).collect();
        let of = |values: &[f64]| {
            let mut moments = Moments::default();
            for value in values {
                moments.note(*value);
            }
            moments
        };
        let whole = of(&values);
        let mut merged = Moments::default();
        for part in values.chunks(301) {
            merged.merge(&of(part));
        }
        assert_eq!((merged.count, merged.zeros), (whole.count, whole.zeros));
        let near = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs() < 1e-9;
        assert!(near(merged.mean(), whole.mean()));
        assert!(near(merged.std(), whole.std()));
        assert_eq!(merged.span(), whole.span());
    }

    /// Large tensors are counted in windows, small ones sorted: both say the same.
    #[test]
    fn counting_gives_what_sorting_gives() {
        let numbers: Vec<i32> = (0..5000i32)
            .map(|i| i.wrapping_mul(-1_640_531_527) >> 9)
            .collect();
        let mut floats: Vec<f32> = numbers.iter().map(|&n| n as f32 / 1000.0).collect();
        floats.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0]);
        let doubles: Vec<f64> = floats.iter().map(|&n| f64::from(n) * 1e100).collect();
        let bytes: Vec<u8> = numbers.iter().map(|n| n.to_le_bytes()[1]).collect();
        let mut builder = tensorfmt::safetensors::Builder::new();
        let mut add = |name: &str, tensor: Result<tensorfmt::Tensor, _>| {
            builder.tensor(name, tensor.unwrap()).unwrap();
        };
        use tensorfmt::Tensor;
        let dims = |len: usize| [len as u64];
        add("i32", Tensor::from_slice(&numbers, &dims(numbers.len())));
        add("f32", Tensor::from_slice(&floats, &dims(floats.len())));
        add("f64", Tensor::from_slice(&doubles, &dims(doubles.len())));
        add("u8", Tensor::from_slice(&bytes, &dims(bytes.len())));
        let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
        let model = tensorfmt::convert::Model::of(&archive);
        assert_eq!(model.tensors.len(), 4);
        for tensor in &model.tensors {
            let values = Values {
                tensor,
                dtype: tensor.dtype().unwrap(),
                ticker: &Ticker::default(),
            };
            let sorted = sorted(&values).unwrap();
            for threads in [1, 3] {
                let counted = counted(&values, threads).unwrap();
                let name = tensor.name();
                assert_eq!(counted.quantiles, sorted.quantiles, "{name}");
                assert_eq!(counted.quantiles.len(), QUANTILES.len());
                assert_eq!(counted.histogram, sorted.histogram, "{name}");
                let finite = sorted.moments.finite;
                assert_eq!(counted.histogram.iter().sum::<u64>(), finite);
                let (a, b) = (&counted.moments, &sorted.moments);
                assert_eq!((a.count, a.nan, a.inf), (b.count, b.nan, b.inf));
                assert_eq!((a.min(), a.max()), (b.min(), b.max()));
                let near = |a: Option<f64>, b: Option<f64>| {
                    let (a, b) = (a.unwrap(), b.unwrap());
                    (a - b).abs() <= b.abs() * 1e-9
                };
                assert!(near(a.std(), b.std()), "{name}");
            }
        }
    }
}
