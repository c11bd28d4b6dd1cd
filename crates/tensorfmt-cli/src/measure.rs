//! What the values of tensors are like: counts, moments, quantiles and a histogram, found in
//! windows, without ever holding a large tensor.

use std::ops::Range;
use std::sync::Arc;

use moments::{Bins, Sample, Tally};
pub(crate) use moments::{Moments, Scalar, State};
use tensor_core::codec::{Ticker, walk};
use tensor_core::{Cast, Kind, Source};
use tensorfmt::convert::{ModelTensor, Tensors};
use tensorfmt::{Archive, DType, Entry, Error};

use crate::shared::Shared;

mod moments;

/// Bins of a histogram.
const BINS: usize = 20;
/// The quantiles that are found, in percent.
const QUANTILES: [u8; 5] = [1, 25, 50, 75, 99];
/// Tensors of up to this many values are sorted in memory; larger ones are counted in windows.
const SORTED: u64 = 1 << 16;
/// Tensors of at least this many values are shared among threads.
const SHARED: u64 = 1 << 24;
/// Into how many parts; fixed, so that sums come out the same on every machine.
const PARTS: u64 = 8;
/// Bits of a key that one pass over the values finds out.
const DIGIT: u32 = 16;

/// What the values of one tensor are like.
#[derive(Clone, Debug)]
pub(crate) struct Measures {
    pub(crate) moments: Moments,
    /// Fractions, and the value at that rank, NaN aside; rank `q * (n - 1)`, rounded down: a value
    /// of the tensor, so that it is exact.
    pub(crate) quantiles: Vec<(f64, Scalar)>,
    /// How many finite values lie in each of equal steps from the least to the greatest of them.
    pub(crate) histogram: Vec<u64>,
    /// Why there are counts alone, if there are.
    pub(crate) note: Option<&'static str>,
}

/// What became of one tensor.
#[derive(Clone, Debug)]
pub(crate) enum Finding {
    Measured(Box<Measures>),
    PassedOver(PassedOver),
}

/// Why a tensor was not measured.
#[derive(Clone, Debug)]
pub(crate) struct PassedOver {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
}

impl PassedOver {
    fn unsupported(reason: &str) -> Finding {
        Finding::PassedOver(Self {
            kind: Kind::Unsupported,
            reason: reason.to_owned(),
        })
    }
}

/// How many bytes are read to measure a tensor.
pub(crate) fn work(entry: &Entry<'_>) -> u64 {
    let passes = match entry.dtype() {
        Some(dtype) if entry.shape().elements() > SORTED && dtype.is_number() => {
            Key::of(dtype).digits
        }
        _ => 1,
    };
    entry.nbytes().unwrap_or(0).saturating_mul(passes.into())
}

/// Measures tensors, batch by batch.
pub(crate) struct Survey<'a> {
    archive: &'a Archive,
    tensors: Tensors<'a>,
    shared: Shared<Finding>,
}

impl<'a> Survey<'a> {
    /// Of tensors of this archive.
    pub(crate) fn new(archive: &'a Archive) -> Self {
        Self {
            archive,
            tensors: Tensors::new(archive),
            shared: Shared::new(),
        }
    }

    /// Measures the tensors of these entries. What is damaged or can't be interpreted keeps nobody from the
    /// rest.
    pub(crate) fn run(
        &mut self,
        entries: &[Entry<'_>],
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<Vec<(ModelTensor, Finding)>, Error> {
        let tensors: Vec<ModelTensor> = entries
            .iter()
            .map(|entry| self.tensors.get(*entry))
            .collect();
        let found = self.shared.find(self.archive, entries, |asked| {
            let asked: Vec<(&Entry<'_>, &ModelTensor)> = asked
                .iter()
                .filter_map(|&at| Some((entries.get(at)?, tensors.get(at)?)))
                .collect();
            measure_all(&asked, threads, ticker)
        })?;
        Ok(tensors.into_iter().zip(found).collect())
    }
}

/// Measures tensors side by side; large ones one after another, each on all threads.
fn measure_all(
    tensors: &[(&Entry<'_>, &ModelTensor)],
    threads: usize,
    ticker: &Ticker<'_>,
) -> Result<Vec<Finding>, Error> {
    // What is not stored raw can only be read from front to back.
    let is_large = |(entry, _): &(&Entry<'_>, &ModelTensor)| {
        entry.shape().elements() >= SHARED && entry.encoding() == "raw"
    };
    let alone = |at| match tensors.get(at) {
        Some(pair) if !is_large(pair) => found(pair.1, None, ticker).map(Some),
        _ => Ok(None),
    };
    let findings = tensor_core::parallel::map(threads, tensors.len(), alone)?;
    let findings = tensors
        .iter()
        .zip(findings)
        .map(|((_, tensor), finding)| match finding {
            Some(finding) => Ok(finding),
            None => found(tensor, Some(threads), ticker),
        });
    findings.collect()
}

/// Measures a tensor, or says why that can't be; an error is one that ends all work. Unless it is in one
/// piece, it is measured in as many as on every other machine, on so many threads.
fn found(
    tensor: &ModelTensor,
    threads: Option<usize>,
    ticker: &Ticker<'_>,
) -> Result<Finding, Error> {
    match measure(tensor, threads, ticker) {
        Err(error)
            if !matches!(
                error.kind(),
                Kind::Io | Kind::Cancelled | Kind::Build | Kind::Usage
            ) =>
        {
            let reason = match error {
                Error::Refused(refusals) => refusals
                    .into_iter()
                    .map(|refusal| (refusal.damaged, refusal.reason))
                    .collect(),
                error => vec![(error.kind() != Kind::Unsupported, error.to_string())],
            };
            let damaged = reason.iter().any(|(damaged, _)| *damaged);
            let reasons: Vec<String> = reason.into_iter().map(|(_, reason)| reason).collect();
            Ok(Finding::PassedOver(PassedOver {
                kind: if damaged {
                    Kind::Invalid
                } else {
                    Kind::Unsupported
                },
                reason: reasons.join("; "),
            }))
        }
        other => other.map_err(|error| error.of_tensor(tensor.name())),
    }
}

/// One tensor's values.
struct Values<'a> {
    tensor: &'a ModelTensor,
    dtype: DType,
    ticker: &'a Ticker<'a>,
}

impl Values<'_> {
    /// Calls `visit` with the values of a range of elements, as a type that has all of them.
    fn each<N: Sample>(&self, range: Range<u64>, mut visit: impl FnMut(N)) -> Result<(), Error> {
        let data = Counted {
            inner: self.tensor.data()?,
            ticker: *self.ticker,
        };
        let cast =
            Cast::new(data, self.dtype, N::DTYPE).map_err(|e| Error::Usage(e.to_string()))?;
        let bytes = range.start.saturating_mul(8)..range.end.saturating_mul(8);
        walk::<Error>(&cast, bytes, &Ticker::default(), |piece| {
            for bytes in piece.chunks_exact(8) {
                visit(N::of(bytes.try_into().unwrap_or_default()));
            }
            Ok(())
        })
    }

    /// Collects something from all values: from each part alone, then merged in order.
    fn collect<N: Sample, T: Send>(
        &self,
        threads: Option<usize>,
        new: impl Fn() -> T + Sync,
        visit: impl Fn(&mut T, N) + Sync,
        mut merge: impl FnMut(&mut T, T),
    ) -> Result<T, Error> {
        let count = self.tensor.shape().elements();
        let parts = if threads.is_none() { 1 } else { PARTS };
        let threads = threads.unwrap_or(1);
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

/// Values as unsigned integers of the same order, so that ranks are found digit by digit.
#[derive(Clone, Copy)]
struct Key {
    /// Passes that it takes to find a key, 16 bits each.
    digits: u32,
    /// Of integers: the least that the dtype has.
    least: i64,
}

impl Key {
    fn of(dtype: DType) -> Self {
        let (digits, least) = match dtype {
            DType::I8 | DType::I16 | DType::I32 => (2, i32::MIN.into()),
            DType::I64 => (4, i64::MIN),
            DType::F64 | DType::U64 => (4, 0),
            _ => (2, 0),
        };
        Self { digits, least }
    }
}

/// Samples that have keys.
trait Ranked: Sample {
    fn key(self, key: Key) -> u64;
    fn of_key(key: Key, bits: u64) -> Self;
}

impl Ranked for f64 {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the dtype has 32 bits at most"
    )]
    fn key(self, key: Key) -> u64 {
        if key.digits == 2 {
            let bits = (self as f32).to_bits();
            let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
            return (bits ^ flip).into();
        }
        let bits = self.to_bits();
        let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
        bits ^ flip
    }

    #[allow(clippy::cast_possible_truncation, reason = "a key came from a value")]
    fn of_key(key: Key, bits: u64) -> Self {
        if key.digits == 2 {
            let bits = bits as u32;
            let flip = if bits >> 31 == 1 { 1 << 31 } else { u32::MAX };
            return f32::from_bits(bits ^ flip).into();
        }
        let flip = if bits >> 63 == 1 { 1 << 63 } else { u64::MAX };
        Self::from_bits(bits ^ flip)
    }
}

impl Ranked for i64 {
    #[allow(
        clippy::cast_sign_loss,
        reason = "the distance from the least, which fits 64 bits"
    )]
    fn key(self, key: Key) -> u64 {
        self.wrapping_sub(key.least) as u64
    }

    #[allow(clippy::cast_possible_wrap, reason = "undoes the wrapping of a key")]
    fn of_key(key: Key, bits: u64) -> Self {
        (bits as Self).wrapping_add(key.least)
    }
}

impl Ranked for u64 {
    fn key(self, _: Key) -> u64 {
        self
    }

    fn of_key(_: Key, bits: u64) -> Self {
        bits
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

/// The rank of each quantile among this many numbers.
fn ranks(numbers: u64) -> Vec<u64> {
    let rank = |percent: &u8| {
        let rank = u128::from(numbers.saturating_sub(1)) * u128::from(*percent) / 100;
        u64::try_from(rank).unwrap_or(0)
    };
    QUANTILES.iter().map(rank).collect()
}

/// Each quantile as a fraction.
fn fractions() -> impl Iterator<Item = f64> {
    QUANTILES.iter().map(|&percent| f64::from(percent) / 100.0)
}

/// Measures a tensor in the type that has all of its values.
fn measure(
    tensor: &ModelTensor,
    threads: Option<usize>,
    ticker: &Ticker<'_>,
) -> Result<Finding, Error> {
    let data = tensor.data()?;
    let Some(dtype) = tensor.dtype() else {
        return Ok(PassedOver::unsupported("the dtype is unknown"));
    };
    if let Ok(Some(expected)) = tensor.shape().byte_len(dtype) {
        let got = data.size();
        if expected != got {
            return Ok(Finding::PassedOver(PassedOver {
                kind: Kind::Invalid,
                reason: format!("{got} bytes of data, but dtype and shape ask for {expected}"),
            }));
        }
    }
    let values = Values {
        tensor,
        dtype,
        ticker,
    };
    let measures = match dtype {
        DType::C64 | DType::C128 => complex(&values)?,
        DType::U64 => ranked::<u64>(&values, threads)?,
        _ if dtype.is_integer() || dtype == DType::Bool => ranked::<i64>(&values, threads)?,
        _ if dtype.is_float() => ranked::<f64>(&values, threads)?,
        _ => {
            let reason = "its bytes are packed in a way that gives no values";
            return Ok(PassedOver::unsupported(reason));
        }
    };
    Ok(Finding::Measured(Box::new(measures)))
}

fn ranked<N: Ranked>(values: &Values<'_>, threads: Option<usize>) -> Result<Measures, Error> {
    match values.tensor.shape().elements() {
        ..=SORTED => sorted::<N>(values),
        _ => counted::<N>(values, threads),
    }
}

/// Complex numbers have no order: they are counted, NaN and infinite where one half is.
fn complex(values: &Values<'_>) -> Result<Measures, Error> {
    let halves = Values {
        dtype: match values.dtype {
            DType::C64 => DType::F32,
            _ => DType::F64,
        },
        ..*values
    };
    let count = values.tensor.shape().elements();
    let (mut nan, mut inf, mut zeros, mut real) = (0, 0, 0, None);
    halves.each(0..count.saturating_mul(2), |half: f64| {
        let Some(real): Option<f64> = real.take() else {
            real = Some(half);
            return;
        };
        if real.is_nan() || half.is_nan() {
            nan += 1;
        } else if real.is_infinite() || half.is_infinite() {
            inf += 1;
        }
        zeros += u64::from(real == 0.0 && half == 0.0);
    })?;
    Ok(Measures {
        moments: Moments::unordered(count, nan, inf, zeros),
        quantiles: Vec::new(),
        histogram: Vec::new(),
        note: Some("complex numbers have no order: they are counted only"),
    })
}

/// A small tensor: its values are kept and sorted.
fn sorted<N: Ranked>(values: &Values<'_>) -> Result<Measures, Error> {
    let count = values.tensor.shape().elements();
    let mut tally = Tally::default();
    let mut numbers = Vec::new();
    values.each(0..count, |value: N| {
        tally.note(value);
        if !value.is_nan() {
            numbers.push(value);
        }
    })?;
    let mut histogram = Vec::new();
    if let Some(bins) = tally.bins() {
        histogram.resize(BINS, 0);
        for value in numbers.iter().filter(|value| !value.is_infinite()) {
            if let Some(count) = histogram.get_mut(value.bin(&bins)) {
                *count += 1;
            }
        }
    }
    numbers.sort_unstable_by(N::order);
    let at = |rank: u64| numbers.get(usize::try_from(rank).ok()?).copied();
    let moments = tally.moments();
    let found = ranks(moments.numbers());
    Ok(Measures {
        quantiles: fractions()
            .zip(found)
            .filter_map(|(q, rank)| Some((q, at(rank)?.scalar())))
            .collect(),
        histogram,
        moments,
        note: None,
    })
}

/// A large tensor, in as many passes as its keys have digits: the first one finds counts, moments
/// and the highest digit, the second one also the histogram.
fn counted<N: Ranked>(values: &Values<'_>, threads: Option<usize>) -> Result<Measures, Error> {
    let key = Key::of(values.dtype);
    let top = (key.digits - 1) * DIGIT;
    let (tally, first) = first_pass::<N>(values, key, top, threads)?;
    let moments = tally.moments();
    let ranks = ranks(moments.numbers()).into_iter();
    let mut found: Vec<Place> = ranks.map(|rank| Place { prefix: 0, rank }).collect();
    for place in &mut found {
        place.next_digit(&first);
    }
    let bins = tally.bins();
    let mut histogram = Vec::new();
    for pass in 1..key.digits {
        let shift = top - pass * DIGIT;
        let mut prefixes: Vec<u64> = found.iter().map(|place| place.prefix).collect();
        prefixes.dedup();
        let bins = bins.as_ref().filter(|_| pass == 1);
        let (counts, tables) = later_pass::<N>(values, key, (shift, &prefixes), bins, threads)?;
        if bins.is_some() {
            histogram = counts;
        }
        for place in &mut found {
            if let Some(at) = prefixes.iter().position(|prefix| *prefix == place.prefix) {
                place.next_digit(tables.get(at).map_or(&[], Vec::as_slice));
            }
        }
    }
    let numbers = moments.numbers();
    let quantiles = fractions().zip(found);
    Ok(Measures {
        quantiles: quantiles
            .filter(|_| numbers > 0)
            .map(|(q, place)| (q, N::of_key(key, place.prefix).scalar()))
            .collect(),
        histogram,
        moments,
        note: None,
    })
}

/// Counts all values, and the numbers among them by their highest digit.
fn first_pass<N: Ranked>(
    values: &Values<'_>,
    key: Key,
    top: u32,
    threads: Option<usize>,
) -> Result<(Tally<N>, Table), Error> {
    values.collect(
        threads,
        || (Tally::default(), table()),
        |(tally, table), value: N| {
            tally.note(value);
            if !value.is_nan() {
                count_digit(table, value.key(key), top);
            }
        },
        |(tally, table), part| {
            tally.merge(&part.0);
            add_tables(table, &part.1);
        },
    )
}

/// Counts numbers by the bin of a histogram, and those that begin with each prefix by the digit at bit
/// `shift`, which follows it.
fn later_pass<N: Ranked>(
    values: &Values<'_>,
    key: Key,
    (shift, prefixes): (u32, &[u64]),
    bins: Option<&Bins<N>>,
    threads: Option<usize>,
) -> Result<(Vec<u64>, Vec<Table>), Error> {
    values.collect(
        threads,
        || (vec![0u64; BINS], vec![table(); prefixes.len()]),
        |(counts, tables), value: N| {
            if value.is_nan() {
                return;
            }
            if let Some(bins) = bins.filter(|_| !value.is_infinite()) {
                if let Some(count) = counts.get_mut(value.bin(bins)) {
                    *count += 1;
                }
            }
            let key = value.key(key);
            let known = key >> (shift + DIGIT);
            for (prefix, table) in prefixes.iter().zip(tables) {
                if known == *prefix {
                    count_digit(table, key, shift);
                }
            }
        },
        |(counts, tables), part| {
            add_tables(counts, &part.0);
            for (table, part) in tables.iter_mut().zip(&part.1) {
                add_tables(table, part);
            }
        },
    )
}

/// Where a quantile is, as far as it is known.
struct Place {
    /// Its first digits.
    prefix: u64,
    /// Its rank among the numbers that begin with them.
    rank: u64,
}

impl Place {
    /// Finds one more digit, by how many numbers have each.
    fn next_digit(&mut self, table: &[u64]) {
        for (digit, &count) in (0u64..).zip(table) {
            if self.rank < count {
                self.prefix = self.prefix << DIGIT | digit;
                return;
            }
            self.rank -= count;
        }
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
        for key in [Key::of(DType::F32), Key::of(DType::F64)] {
            for pair in floats.windows(2) {
                let [a, b] = [pair[0], pair[1]];
                assert!(a.key(key) < b.key(key), "{a} {b}");
            }
            for value in floats {
                // 1e-30 is no f32.
                let near = f64::of_key(key, value.key(key));
                assert!(near == value || (near - value).abs() < 1e-36, "{value}");
                assert_eq!(near.is_sign_negative(), value.is_sign_negative());
            }
        }
        for (dtype, least, most) in [
            (DType::I64, i64::MIN, i64::MAX),
            (DType::I32, i32::MIN.into(), i32::MAX.into()),
            (DType::U32, 0, u32::MAX.into()),
            (DType::Bool, 0, 1),
        ] {
            let key = Key::of(dtype);
            for value in [least, (least + most) / 2, most - 1, most] {
                assert_eq!(i64::of_key(key, value.key(key)), value);
                assert_eq!(value.key(key) >> (key.digits * DIGIT - 1) >> 1, 0);
            }
            assert!(least.key(key) < (most - 1).key(key) || dtype == DType::Bool);
            assert!((most - 1).key(key) < most.key(key));
        }
    }

    #[test]
    fn ranks_are_exact_whatever_the_count() {
        assert_eq!(ranks(0), [0; 5]);
        assert_eq!(ranks(2), [0; 5]);
        assert_eq!(ranks(101), [1, 25, 50, 75, 99]);
        assert_eq!(ranks(100), [0, 24, 49, 74, 98]);
        let most = ranks(u64::MAX);
        assert_eq!(most[2], u64::MAX / 2);
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
        let longs: Vec<i64> = numbers
            .iter()
            .map(|&n| i64::from(n).wrapping_mul(0x1234_5678_9ABC_DEF1))
            .collect();
        let unsigned: Vec<u64> = longs
            .iter()
            .map(|n| u64::from_le_bytes(n.to_le_bytes()))
            .collect();
        add("i64", Tensor::from_slice(&longs, &dims(longs.len())));
        add("u64", Tensor::from_slice(&unsigned, &dims(unsigned.len())));
        let eight = tensorfmt::Shape::new(&dims(bytes.len())).unwrap();
        let eight = Tensor::new(DType::F8E5M2, eight, bytes.clone());
        builder.tensor("f8", eight.unwrap()).unwrap();
        let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
        let model = tensorfmt::convert::Model::of(&archive);
        assert_eq!(model.tensors.len(), 7);
        for tensor in &model.tensors {
            let values = Values {
                tensor,
                dtype: tensor.dtype().unwrap(),
                ticker: &Ticker::default(),
            };
            let both = |threads| match values.dtype {
                DType::I32 | DType::I64 | DType::U8 => {
                    (sorted::<i64>(&values), counted::<i64>(&values, threads))
                }
                DType::U64 => (sorted::<u64>(&values), counted::<u64>(&values, threads)),
                _ => (sorted::<f64>(&values), counted::<f64>(&values, threads)),
            };
            for threads in [None, Some(1), Some(3)] {
                let (sorted, counted) = both(threads);
                let (sorted, counted) = (sorted.unwrap(), counted.unwrap());
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
