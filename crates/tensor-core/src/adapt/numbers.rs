#![allow(
    clippy::cast_possible_truncation,
    reason = "casts are what this module is for; what they lose is counted"
)]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::float8::{E4m3, E4m3Fnuz, E5m2, E5m2Fnuz, E8m0};
use super::slices::{self, Table};
use super::{on_units, whole};
use crate::codec::WINDOW;
use crate::scratch::{Kept, Scratch};
use crate::{DType, FileId, ShapeError, Source, SourceError, bf16, f16, parallel};

/// Elements of a source as another dtype, with a count of what the change lost.
///
/// Casts go between `bool`, the integers and the floats, those of 8 bits among them. Exact values
/// stay exact; others round to the nearest float, ties to even, once (also from `f64` to the halves
/// and the 8-bit kinds). Floats beyond the target's range become infinity, or NaN where the target
/// has no infinity; integers and floats beyond an integer's range are clamped, fractions are cut, NaN
/// stays NaN in a float and becomes 0 in an integer; every such element is counted. Non-zero is true.
/// The kinds "fnuz" have no negative zero: there it becomes zero.
///
/// [`DType::F8E8M0`] holds powers of two only: others round to the nearest one, ties up, and up in any
/// case between the least two; what is smaller than all of them becomes the least, and zero and
/// negative numbers become NaN.
///
/// That is what NumPy and `ml_dtypes` do, but for `f64`, which `ml_dtypes` rounds to `f32` first.
///
/// ```
/// use tensor_core::{Bytes, Cast, DType, Source};
///
/// let floats = Bytes::copy_from_slice(&[1.5f32.to_le_bytes(), 70000f32.to_le_bytes()].concat());
/// let cast = Cast::new(floats, DType::F32, DType::F16)?;
/// assert_eq!(cast.read(0..4)?, &[0x00, 0x3E, 0x00, 0x7C][..]); // 1.5 and infinity
/// assert_eq!(cast.counts().overflowed(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cast<S> {
    inner: S,
    from: DType,
    to: DType,
    counts: Arc<CastCounts>,
    #[cfg(feature = "std")]
    table: std::sync::OnceLock<Table>,
    _kept: Kept,
}

/// How many elements a [`Cast`] changed, over all bytes read through it so far. A count that
/// reaches `usize::MAX` stays there: where addresses have 32 bits, elements may be more.
///
/// ```
/// use tensor_core::{Bytes, Cast, DType, Source};
///
/// assert!(Cast::<Bytes>::is_supported(DType::F32, DType::F16));
/// assert!(!Cast::<Bytes>::is_supported(DType::Opaque, DType::F16));
///
/// let floats = [1.0f32, 0.1, 70000.0, 1e-9].map(f32::to_le_bytes).concat();
/// let cast = Cast::new(Bytes::from(floats), DType::F32, DType::F16)?;
/// let counts = cast.counts();
/// cast.read(0..cast.size())?;
/// assert_eq!(counts.rounded(), 1); // 0.1
/// assert_eq!(counts.overflowed(), 1); // 70000 is infinity as f16
/// assert_eq!(counts.underflowed(), 1); // 1e-9 is zero as f16
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct CastCounts {
    rounded: AtomicUsize,
    overflowed: AtomicUsize,
    underflowed: AtomicUsize,
}

impl CastCounts {
    /// Elements whose value is not exactly the old one, without those of the other counts.
    pub fn rounded(&self) -> usize {
        self.rounded.load(Ordering::Relaxed)
    }

    /// Elements that were out of the target's range: too large, NaNs in an integer, and what a float
    /// without infinity, zero or negative numbers has no value for.
    pub fn overflowed(&self) -> usize {
        self.overflowed.load(Ordering::Relaxed)
    }

    /// Non-zero elements that became zero, or the least number there is, or lost digits as subnormal
    /// numbers.
    pub fn underflowed(&self) -> usize {
        self.underflowed.load(Ordering::Relaxed)
    }
}

impl<S: Source> Cast<S> {
    /// Whether values of `from` can be cast to `to`.
    ///
    /// ```
    /// use tensor_core::{Bytes, Cast, DType};
    ///
    /// assert!(Cast::<Bytes>::is_supported(DType::F32, DType::BF16));
    /// assert!(!Cast::<Bytes>::is_supported(DType::C64, DType::F32));
    /// ```
    #[must_use]
    pub fn is_supported(from: DType, to: DType) -> bool {
        from.is_number() && to.is_number()
    }

    /// Reads `inner`, elements of `from`, as elements of `to`.
    ///
    /// # Errors
    /// [`ShapeError::DataLength`] where the source does not hold whole elements, or the pair
    /// isn't [supported](Self::is_supported) (then with an expected length of 0), or the result
    /// is too long.
    pub fn new(inner: S, from: DType, to: DType) -> Result<Self, ShapeError> {
        let got = inner.size();
        if !Self::is_supported(from, to) {
            return Err(ShapeError::DataLength { expected: 0, got });
        }
        whole(got, size(from) as u64)?;
        (got / size(from) as u64)
            .checked_mul(size(to) as u64)
            .ok_or(ShapeError::ByteOverflow)?;
        Ok(Self {
            inner,
            from,
            to,
            counts: Arc::default(),
            #[cfg(feature = "std")]
            table: std::sync::OnceLock::new(),
            _kept: Kept::new(),
        })
    }

    /// What was lost so far; shared, so it may be kept beyond the source.
    pub fn counts(&self) -> Arc<CastCounts> {
        self.counts.clone()
    }
}

fn size(dtype: DType) -> usize {
    dtype
        .size()
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(1)
}

/// Bytes, of the old elements or the new, that are cast at a time where threads share them.
const SHARED: usize = 8 << 20;

impl<S: Source> Cast<S> {
    /// Casts what `out` has room for, from the byte `at` of the source on.
    fn convert(&self, at: u64, out: &mut [u8]) -> Result<(), SourceError> {
        let (from, to) = (size(self.from), size(self.to));
        if let Some(bytes) = self.inner.contiguous() {
            let len = out.len() / to * from;
            let input = bytes.get(usize::try_from(at).unwrap_or(usize::MAX)..);
            let input = input.and_then(|input| input.get(..len));
            self.convert_memory(input.unwrap_or_default(), out);
            return Ok(());
        }
        // In pieces that suit the source: all of its bytes may be more than `out` has, and more than
        // the host has addresses for.
        let most = self.inner.window().min(WINDOW);
        let most = (most / from).clamp(1, (out.len() / to).max(1));
        let mut input = Scratch::of(most * from)?;
        let mut at = at;
        for out in out.chunks_mut(most * to) {
            let input = input.as_mut_slice().get_mut(..out.len() / to * from);
            let input = input.unwrap_or_default();
            self.inner.read_into(at, input)?;
            at += input.len() as u64;
            self.convert_memory(input, out);
        }
        Ok(())
    }

    fn convert_memory(&self, input: &[u8], out: &mut [u8]) {
        let mut lost = Lost::default();
        let pair = (self.from, self.to);
        if !slices::convert(pair, self.table(), input, out, &mut lost) {
            each(pair, input, out, &mut lost);
        }
        add(&self.counts.rounded, lost.rounded);
        add(&self.counts.overflowed, lost.overflowed);
        add(&self.counts.underflowed, lost.underflowed);
    }

    /// The table of the cast, if there is one; it costs as much to make as to cast its values one by
    /// one, so that few elements have none.
    #[cfg(feature = "std")]
    fn table(&self) -> Option<&Table> {
        let values = if size(self.from) == 1 {
            1 << 8
        } else {
            1 << 16
        };
        let worth = self.inner.size() / size(self.from) as u64 >= values;
        let is_of_use = worth && Table::is_of_use(self.from, self.to);
        is_of_use.then(|| self.table.get_or_init(|| Table::new(self.from, self.to)))
    }

    #[cfg(not(feature = "std"))]
    fn table(&self) -> Option<&Table> {
        None
    }

    /// Whether several threads share the work.
    fn is_shared(&self) -> bool {
        self.inner.is_random_access() && parallel::has_threads()
    }
}

impl<S: Source> Source for Cast<S> {
    fn size(&self) -> u64 {
        self.inner.size() / size(self.from) as u64 * size(self.to) as u64
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        let (from, to) = (size(self.from), size(self.to));
        on_units(to, offset, out, |offset, out| {
            let at = offset / to as u64 * from as u64;
            if !self.is_shared() {
                return self.convert(at, out);
            }
            let piece = WINDOW / from.max(to);
            parallel::fill(0, out, piece * to, |start, out| {
                self.convert(at + (start / to * from) as u64, out)
            })
        })
    }

    fn window(&self) -> usize {
        let (from, to) = (size(self.from), size(self.to));
        match self.is_shared() {
            true => SHARED / from.max(to) * to,
            false => (self.inner.window() / from).saturating_mul(to),
        }
    }

    fn file(&self) -> Option<&FileId> {
        self.inner.file()
    }

    fn is_random_access(&self) -> bool {
        self.inner.is_random_access()
    }
}

/// Counts on, up to `usize::MAX`.
fn add(count: &AtomicUsize, more: usize) {
    let add = |count: usize| Some(count.saturating_add(more));
    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
}

#[derive(Default)]
pub(super) struct Lost {
    pub(super) rounded: usize,
    pub(super) overflowed: usize,
    pub(super) underflowed: usize,
}

/// A value on its way: integers and floats don't pass through one another.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

macro_rules! dispatch {
    ($dtype:expr, $name:ident => $body:expr) => {
        match $dtype {
            DType::Bool => {
                type $name = BoolByte;
                $body
            }
            DType::U8 => {
                type $name = u8;
                $body
            }
            DType::I8 => {
                type $name = i8;
                $body
            }
            DType::U16 => {
                type $name = u16;
                $body
            }
            DType::I16 => {
                type $name = i16;
                $body
            }
            DType::U32 => {
                type $name = u32;
                $body
            }
            DType::I32 => {
                type $name = i32;
                $body
            }
            DType::U64 => {
                type $name = u64;
                $body
            }
            DType::I64 => {
                type $name = i64;
                $body
            }
            DType::F16 => {
                type $name = f16;
                $body
            }
            DType::BF16 => {
                type $name = bf16;
                $body
            }
            DType::F32 => {
                type $name = f32;
                $body
            }
            DType::F64 => {
                type $name = f64;
                $body
            }
            DType::F8E4M3 => {
                type $name = E4m3;
                $body
            }
            DType::F8E5M2 => {
                type $name = E5m2;
                $body
            }
            DType::F8E4M3Fnuz => {
                type $name = E4m3Fnuz;
                $body
            }
            DType::F8E5M2Fnuz => {
                type $name = E5m2Fnuz;
                $body
            }
            DType::F8E8M0 => {
                type $name = E8m0;
                $body
            }
            _ => {}
        }
    };
}

/// Casts whole elements, one after the other.
pub(super) fn each((from, to): (DType, DType), input: &[u8], out: &mut [u8], lost: &mut Lost) {
    dispatch!(from, From => dispatch!(to, To => each_of::<From, To>(input, out, lost)))
}

#[inline]
fn each_of<F: Numeric, T: Numeric>(input: &[u8], out: &mut [u8], lost: &mut Lost) {
    let sizes = (size_of::<F>(), size_of::<T>());
    for (from, to) in input
        .chunks_exact(sizes.0)
        .zip(out.chunks_exact_mut(sizes.1))
    {
        T::put(F::get(from), to, lost);
    }
}

/// An element type as little-endian bytes.
pub(super) trait Numeric {
    fn get(bytes: &[u8]) -> Number;
    fn put(number: Number, bytes: &mut [u8], lost: &mut Lost);
}

/// A boolean byte.
struct BoolByte(#[allow(dead_code, reason = "gives the type its size")] u8);

impl Numeric for BoolByte {
    fn get(bytes: &[u8]) -> Number {
        Number::Int(i128::from(bytes.iter().any(|&byte| byte != 0)))
    }

    fn put(number: Number, bytes: &mut [u8], lost: &mut Lost) {
        let (truth, exact) = match number {
            Number::Int(value) => (value != 0, value == 0 || value == 1),
            Number::Float(value) => (value != 0.0, value == 0.0 || value == 1.0),
        };
        lost.rounded += usize::from(!exact);
        bytes.fill(u8::from(truth));
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or([0; N])
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Numeric for $type {
            #[inline]
            fn get(bytes: &[u8]) -> Number {
                Number::Int(i128::from(<$type>::from_le_bytes(array(bytes))))
            }

            #[inline]
            fn put(number: Number, bytes: &mut [u8], lost: &mut Lost) {
                let value = match number {
                    Number::Int(value) => <$type>::try_from(value).unwrap_or_else(|_| {
                        lost.overflowed += 1;
                        if value < 0 { <$type>::MIN } else { <$type>::MAX }
                    }),
                    Number::Float(value) => {
                        // `as` cuts the fraction, clamps, and makes 0 of NaN.
                        let whole = value as i128;
                        let result = value as $type;
                        if value.is_nan() || i128::from(result) != whole {
                            lost.overflowed += 1;
                        } else if whole as f64 != value {
                            lost.rounded += 1;
                        }
                        result
                    }
                };
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        }
    )*};
}

integers!(u8, i8, u16, i16, u32, i32, u64, i64);

macro_rules! floats {
    ($($type:ident => $mantissa:literal, $exponent:literal;)*) => {$(
        impl Numeric for $type {
            #[inline]
            fn get(bytes: &[u8]) -> Number {
                Number::Float(f64::from(<$type>::from_le_bytes(array(bytes))))
            }

            #[inline]
            fn put(number: Number, bytes: &mut [u8], lost: &mut Lost) {
                let value = match number {
                    Number::Int(value) if $mantissa < 52 => whole_as_float(value),
                    Number::Int(value) => {
                        lost.rounded += usize::from(value as f64 as i128 != value);
                        value as f64
                    }
                    Number::Float(value) => value,
                };
                let bits = narrow(value, $mantissa, $exponent, lost);
                let all = bits.to_le_bytes();
                bytes.copy_from_slice(all.get(..size_of::<$type>()).unwrap_or_default());
            }
        }
    )*};
}

floats! {
    f16 => 10, 5;
    bf16 => 7, 8;
    f32 => 23, 8;
    f64 => 52, 11;
}

/// An integer of up to 64 bits as a float that rounds to a narrower one as the integer itself would:
/// it may itself round, and the second rounding then starts from a sticky bit.
#[inline]
pub(super) fn whole_as_float(value: i128) -> f64 {
    let float = value as f64;
    match float as i128 == value {
        true => float,
        false => sticky(float, value),
    }
}

/// `float` moved towards `value` so that its last bit says that something was cut: rounding to
/// odd, after which one more rounding is exact.
fn sticky(float: f64, value: i128) -> f64 {
    let bits = float.to_bits();
    let toward_zero = if (float as i128).unsigned_abs() > value.unsigned_abs() {
        bits - 1
    } else {
        bits
    };
    f64::from_bits(toward_zero | 1)
}

/// Rounds to a float of `mantissa` and `exponent` bits, to nearest, ties to even, in one step.
/// Returns its bits. A NaN keeps its sign and leading payload and is made quiet; as a bfloat16 it
/// keeps the sign alone, as everywhere.
#[inline]
fn narrow(value: f64, mantissa: u32, exponent: u32, lost: &mut Lost) -> u64 {
    let bits = value.to_bits();
    if mantissa == 52 {
        return bits;
    }
    let sign = (bits >> 63) << (mantissa + exponent);
    let infinity = ((1u64 << exponent) - 1) << mantissa;
    let magnitude = bits & !(1 << 63);
    if magnitude >= 0x7FF0_0000_0000_0000 {
        if magnitude == 0x7FF0_0000_0000_0000 {
            return sign | infinity;
        }
        let payload = match mantissa {
            7 => 0,
            _ => (magnitude & 0x000F_FFFF_FFFF_FFFF) >> (52 - mantissa),
        };
        return sign | infinity | payload | (1 << (mantissa - 1));
    }
    if magnitude == 0 {
        return sign;
    }
    let bias = (1i64 << (exponent - 1)) - 1;
    let old = i64::try_from(magnitude >> 52).unwrap_or(0);
    let new = old - 1023 + bias;
    let full = (magnitude & 0x000F_FFFF_FFFF_FFFF) | if old > 0 { 1 << 52 } else { 0 };
    // Below the smallest normal exponent more bits are cut, and no leading one is implied.
    let subnormal = new <= 0;
    let cut = i64::from(52 - mantissa) + if subnormal { 1 - new } else { 0 };
    if cut > 54 {
        lost.underflowed += 1;
        return sign;
    }
    let cut = u32::try_from(cut).unwrap_or(54);
    let kept = full >> cut;
    let rest = full & ((1u64 << cut) - 1);
    let half = 1u64 << (cut - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    // A carry out of the mantissa moves into the exponent, which is just what it should do.
    let base = if subnormal {
        0
    } else {
        u64::try_from(new - 1).unwrap_or(0) << mantissa
    };
    let rounded = base + kept + u64::from(up);
    if rounded >= infinity {
        lost.overflowed += 1;
        return sign | infinity;
    }
    if rest != 0 {
        if subnormal {
            lost.underflowed += 1
        } else {
            lost.rounded += 1
        }
    }
    sign | rounded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    fn cast(from: DType, to: DType, bytes: &[u8]) -> (Bytes, Arc<CastCounts>) {
        let cast = Cast::new(Bytes::copy_from_slice(bytes), from, to).unwrap();
        (cast.read(0..cast.size()).unwrap(), cast.counts())
    }

    fn half_of(value: f64) -> u16 {
        let (bytes, _) = cast(DType::F64, DType::F16, &value.to_le_bytes());
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    #[test]
    fn f64_rounds_once_to_f16_around_every_midpoint() {
        assert_eq!(half_of(1.0 + 2f64.powi(-11) + 2f64.powi(-22)), 0x3C01);
        for bits in 0..0x7BFFu16 {
            let (low, high) = (
                f16::from_bits(bits).to_f64(),
                f16::from_bits(bits + 1).to_f64(),
            );
            let middle = (low + high) / 2.0;
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            assert_eq!(half_of(middle), even, "{bits:#x}");
            assert_eq!(
                half_of(f64::from_bits(middle.to_bits() - 1)),
                bits,
                "{bits:#x}"
            );
            assert_eq!(
                half_of(f64::from_bits(middle.to_bits() + 1)),
                bits + 1,
                "{bits:#x}"
            );
        }
        assert_eq!(half_of(65519.99), 0x7BFF);
        assert_eq!(half_of(65520.0), 0x7C00);
        assert_eq!(half_of(-0.0), 0x8000);
    }

    #[test]
    fn f32_agrees_with_the_hardware() {
        let mut bits = 1u64;
        for _ in 0..200_000 {
            bits = bits
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let value = f64::from_bits(bits);
            let (bytes, _) = cast(DType::F64, DType::F32, &value.to_le_bytes());
            let got = f32::from_le_bytes(array(&bytes));
            let want = value as f32;
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{value:e}"
            );
            let (bytes, _) = cast(DType::I64, DType::F32, &bits.to_le_bytes());
            assert_eq!(
                f32::from_le_bytes(array(&bytes)),
                bits as i64 as f32,
                "{bits}"
            );
        }
    }

    #[test]
    fn halves_agree_with_half_and_nan_stays_nan() {
        for high in 0..=u16::MAX {
            let bits = u32::from(high) << 16 | 0x8001;
            let value = f32::from_bits(bits);
            let (bf, _) = cast(DType::F32, DType::BF16, &bits.to_le_bytes());
            let (h, _) = cast(DType::F32, DType::F16, &bits.to_le_bytes());
            let bf = bf16::from_le_bytes(array(&bf));
            let h = f16::from_le_bytes(array(&h));
            if value.is_nan() {
                assert!(bf.is_nan() && h.is_nan(), "{bits:#x}");
            } else {
                assert_eq!(bf, bf16::from_f32(value), "{bits:#x}");
                assert_eq!(h, f16::from_f32(value), "{bits:#x}");
            }
        }
        for bits in [0x7F80_0001u32, 0xFF80_0001] {
            let (bf, _) = cast(DType::F32, DType::BF16, &bits.to_le_bytes());
            assert!(bf16::from_le_bytes(array(&bf)).is_nan());
        }
    }

    #[test]
    fn halves_widen_to_f32_with_every_bit() {
        for bits in 0..=u16::MAX {
            for (dtype, same) in [(DType::F16, 0x03FF), (DType::BF16, 0x007F)] {
                let (wide, _) = cast(dtype, DType::F32, &bits.to_le_bytes());
                let wide = u32::from_le_bytes(array(&wide));
                let value = match dtype {
                    DType::F16 => f16::from_bits(bits).to_f64(),
                    _ => bf16::from_bits(bits).to_f64(),
                };
                if value.is_nan() {
                    let shift = if dtype == DType::F16 { 13 } else { 16 };
                    let payload = u32::from(bits & same) << shift;
                    assert_eq!(wide & 0x007F_FFFF, payload, "{dtype} {bits:#x}");
                    assert_eq!(wide >> 31, u32::from(bits >> 15));
                    assert!(f32::from_bits(wide).is_nan());
                } else {
                    assert_eq!(f64::from(f32::from_bits(wide)).to_bits(), value.to_bits());
                }
            }
        }
    }

    #[test]
    fn losses_are_counted() {
        let (bytes, counts) = cast(DType::F32, DType::F16, &70000f32.to_le_bytes());
        assert_eq!(bytes, &[0x00, 0x7C][..]);
        assert_eq!((counts.overflowed(), counts.rounded()), (1, 0));
        let (_, counts) = cast(DType::F32, DType::F16, &1e-7f32.to_le_bytes());
        assert_eq!(counts.underflowed(), 1);
        let (bytes, counts) = cast(DType::I64, DType::I32, &(1i64 << 40).to_le_bytes());
        assert_eq!(bytes, &i32::MAX.to_le_bytes()[..]);
        assert_eq!(counts.overflowed(), 1);
        let (bytes, counts) = cast(DType::F64, DType::U8, &2.5f64.to_le_bytes());
        assert_eq!((&bytes[..], counts.rounded()), (&[2u8][..], 1));
        let (bytes, counts) = cast(DType::U64, DType::F64, &u64::MAX.to_le_bytes());
        assert_eq!(bytes, &18446744073709551616f64.to_le_bytes()[..]);
        assert_eq!(counts.rounded(), 1);
        let (bytes, counts) = cast(DType::BF16, DType::F32, &[0x80, 0x3F]);
        assert_eq!(bytes, &1f32.to_le_bytes()[..]);
        assert_eq!(
            (counts.rounded(), counts.overflowed(), counts.underflowed()),
            (0, 0, 0)
        );
    }

    #[test]
    fn a_count_that_is_full_stays_full() {
        let cast = Cast::new(Bytes::from(vec![0xFF; 8]), DType::U32, DType::U8).unwrap();
        cast.counts
            .overflowed
            .store(usize::MAX - 1, Ordering::Relaxed);
        cast.read(0..2).unwrap();
        assert_eq!(cast.counts.overflowed(), usize::MAX);
    }
}
