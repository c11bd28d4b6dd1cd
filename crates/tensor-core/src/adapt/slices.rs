#![allow(
    clippy::cast_possible_truncation,
    reason = "casts are what this module is for; what they lose is counted"
)]

//! Casts of many elements at once: the pairs that models are cast between, in loops without branches,
//! and by table where the old dtype has few values. Each is held against the cast of one element.

use alloc::vec::Vec;

use half::slice::HalfFloatSliceExt;

use super::numbers::{Lost, each};
use crate::{DType, f16};

/// Elements that are cast at a time.
const BLOCK: usize = 1024;

/// What the counts of losses become.
#[derive(Clone, Copy, Default)]
struct Changes {
    inexact: u32,
    overflowed: u32,
    underflowed: u32,
}

impl Changes {
    #[inline]
    fn note(&mut self, inexact: bool, overflows: bool, underflows: bool) {
        self.inexact += u32::from(inexact);
        self.overflowed += u32::from(inexact & overflows);
        self.underflowed += u32::from(inexact & underflows);
    }

    fn add_to(self, lost: &mut Lost) {
        lost.rounded += (self.inexact - self.overflowed - self.underflowed) as usize;
        lost.overflowed += self.overflowed as usize;
        lost.underflowed += self.underflowed as usize;
    }
}

const INFINITY: u32 = 0x7F80_0000;
const MAGNITUDE: u32 = 0x7FFF_FFFF;

/// Casts whole elements, if there is a way for many at once.
// Long since it is one arm for each pair of types that the compiler makes a loop of.
pub(super) fn convert(
    (from, to): (DType, DType),
    table: Option<&Table>,
    input: &[u8],
    out: &mut [u8],
    lost: &mut Lost,
) -> bool {
    match (from, to) {
        // Every bit has its place in the wider float, also those of a NaN.
        (DType::BF16, DType::F32) => {
            map(input, out, |bits| {
                (u32::from(u16::from_le_bytes(bits)) << 16).to_le_bytes()
            });
        }
        (DType::F16, DType::F32) => blocks::<2, 4>(input, out, |input, out| {
            single_of_half(input, out);
        }),
        (DType::F32, DType::BF16) => blocks::<4, 2>(input, out, |input, out| {
            let mut changes = Changes::default();
            map(input, out, |bits| {
                bf16_of_single(u32::from_le_bytes(bits), &mut changes).to_le_bytes()
            });
            changes.add_to(lost);
        }),
        (DType::F32, DType::F16) => blocks::<4, 2>(input, out, |input, out| {
            half_of_single(input, out, lost);
        }),
        (DType::F64, DType::F32) => blocks::<8, 4>(input, out, |input, out| {
            single_of_double(input, out, lost);
        }),
        (DType::F64, DType::F16 | DType::BF16) => blocks::<8, 2>(input, out, |input, out| {
            let mut odd = [0; BLOCK * 4];
            let Some(odd) = odd_single_of_double(input, &mut odd) else {
                return each((from, to), input, out, lost);
            };
            convert((DType::F32, to), None, odd, out, lost);
        }),
        (DType::F32 | DType::F64, _) if to.is_float8() => {
            let Some(table) = table else {
                return false;
            };
            let by_table = |single: &[u8], out: &mut [u8], lost: &mut Lost| {
                let mut odd = [0; BLOCK * 2];
                let odd = odd.get_mut(..single.len() / 2).unwrap_or_default();
                map(single, odd, |bits| {
                    odd_bf16_of_single(u32::from_le_bytes(bits)).to_le_bytes()
                });
                table.convert(2, odd, 1, out, lost);
            };
            match from {
                DType::F32 => blocks::<4, 1>(input, out, |input, out| by_table(input, out, lost)),
                _ => blocks::<8, 1>(input, out, |input, out| {
                    let mut odd = [0; BLOCK * 4];
                    match odd_single_of_double(input, &mut odd) {
                        Some(odd) => by_table(odd, out, lost),
                        None => each((from, to), input, out, lost),
                    }
                }),
            }
        }
        (DType::U32 | DType::I32 | DType::U64 | DType::I64, _)
            if to.is_float() && to != DType::F64 =>
        {
            return wholes((from, to), table, input, out, lost);
        }
        _ => {
            let (Some(table), Some(size), Some(to)) = (table, size(from), size(to)) else {
                return false;
            };
            table.convert(size, input, to, out, lost);
        }
    }
    true
}

fn size(dtype: DType) -> Option<usize> {
    dtype.size().and_then(|size| usize::try_from(size).ok())
}

/// Calls `cast` with blocks of elements of `F` bytes and where they go as ones of `T`.
fn blocks<const F: usize, const T: usize>(
    input: &[u8],
    out: &mut [u8],
    mut cast: impl FnMut(&[u8], &mut [u8]),
) {
    let blocks = input.chunks(BLOCK * F);
    blocks
        .zip(out.chunks_mut(BLOCK * T))
        .for_each(|(input, out)| cast(input, out));
}

/// Casts each element for itself.
#[inline]
fn map<const F: usize, const T: usize>(
    input: &[u8],
    out: &mut [u8],
    mut cast: impl FnMut([u8; F]) -> [u8; T],
) {
    let input = input.chunks_exact(F);
    for (to, from) in out.chunks_exact_mut(T).zip(input) {
        to.copy_from_slice(&cast(from.try_into().unwrap_or([0; F])));
    }
}

#[inline]
fn bf16_of_single(bits: u32, changes: &mut Changes) -> u16 {
    let magnitude = bits & MAGNITUDE;
    let is_nan = magnitude > INFINITY;
    // A carry out of the mantissa moves into the exponent, which is just what it should do.
    let rounded = (bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16) as u16;
    changes.note(
        bits & 0xFFFF != 0 && !is_nan,
        rounded & 0x7FFF == 0x7F80,
        magnitude < 0x0080_0000,
    );
    match is_nan {
        true => (bits >> 16) as u16 & 0x8000 | 0x7FC0,
        false => rounded,
    }
}

/// The bfloat16 below or above whose last bit says that something was cut: one more rounding of it is
/// that of the whole number.
#[inline]
fn odd_bf16_of_single(bits: u32) -> u16 {
    (bits >> 16) as u16 | u16::from(bits & 0xFFFF != 0)
}

fn half_of_single(input: &[u8], out: &mut [u8], lost: &mut Lost) {
    let mut singles = [0f32; BLOCK];
    let mut halves = [f16::ZERO; BLOCK];
    let mut back = [0f32; BLOCK];
    let count = out.len() / 2;
    let (Some(singles), Some(halves), Some(back)) = (
        singles.get_mut(..count),
        halves.get_mut(..count),
        back.get_mut(..count),
    ) else {
        return;
    };
    for (single, bytes) in singles.iter_mut().zip(input.chunks_exact(4)) {
        *single = f32::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    halves.convert_from_f32_slice(singles);
    for (half, bytes) in halves.iter().zip(out.chunks_exact_mut(2)) {
        bytes.copy_from_slice(&half.to_le_bytes());
    }
    halves.convert_to_f32_slice(back);
    let mut changes = Changes::default();
    for (single, back) in singles.iter().zip(&*back) {
        let magnitude = single.to_bits() & MAGNITUDE;
        changes.note(
            single.to_bits() != back.to_bits() && magnitude <= INFINITY,
            back.to_bits() & MAGNITUDE == INFINITY,
            magnitude < 0x3880_0000,
        );
    }
    changes.add_to(lost);
}

fn single_of_half(input: &[u8], out: &mut [u8]) {
    let mut halves = [f16::ZERO; BLOCK];
    let mut singles = [0f32; BLOCK];
    let count = input.len() / 2;
    let (Some(halves), Some(singles)) = (halves.get_mut(..count), singles.get_mut(..count)) else {
        return;
    };
    for (half, bytes) in halves.iter_mut().zip(input.chunks_exact(2)) {
        *half = f16::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    halves.convert_to_f32_slice(singles);
    for ((half, single), bytes) in halves.iter().zip(&*singles).zip(out.chunks_exact_mut(4)) {
        let bits = u32::from(half.to_bits());
        // Every bit of a NaN has its place, too.
        let single = match bits & 0x7FFF > 0x7C00 {
            true => (bits & 0x8000) << 16 | INFINITY | (bits & 0x03FF) << 13,
            false => single.to_bits(),
        };
        bytes.copy_from_slice(&single.to_le_bytes());
    }
}

/// Whether one of the doubles is a NaN.
fn has_nan(input: &[u8]) -> bool {
    let doubles = input.chunks_exact(8);
    doubles.fold(false, |nan, bytes| {
        nan | f64::from_le_bytes(bytes.try_into().unwrap_or_default()).is_nan()
    })
}

fn single_of_double(input: &[u8], out: &mut [u8], lost: &mut Lost) {
    // What a processor makes of a NaN is its own affair.
    if has_nan(input) {
        return each((DType::F64, DType::F32), input, out, lost);
    }
    let mut changes = Changes::default();
    map(input, out, |bytes| {
        let double = f64::from_le_bytes(bytes);
        let single = double as f32;
        changes.note(
            f64::from(single) != double,
            single.is_infinite(),
            double.abs() < f64::from(f32::MIN_POSITIVE),
        );
        single.to_le_bytes()
    });
    changes.add_to(lost);
}

/// Doubles as singles below or above, whose last bit says that something was cut; `None` where one is a
/// NaN.
fn odd_single_of_double<'a>(input: &[u8], out: &'a mut [u8; BLOCK * 4]) -> Option<&'a [u8]> {
    if has_nan(input) {
        return None;
    }
    let out = out.get_mut(..input.len() / 2)?;
    map(input, out, |bytes| {
        let double = f64::from_le_bytes(bytes);
        let single = double as f32;
        let near = f64::from(single);
        let beyond = u32::from(near.abs() > double.abs());
        let odd = single.to_bits().wrapping_sub(beyond) | u32::from(near != double);
        odd.to_le_bytes()
    });
    Some(out)
}

/// Casts integers by way of doubles.
fn wholes(
    (from, to): (DType, DType),
    table: Option<&Table>,
    input: &[u8],
    out: &mut [u8],
    lost: &mut Lost,
) -> bool {
    let (Some(size), Some(width)) = (size(from), size(to)) else {
        return false;
    };
    let blocks = input.chunks(BLOCK * size);
    blocks
        .zip(out.chunks_mut(BLOCK * width))
        .all(|(input, out)| {
            let mut doubles = [0; BLOCK * 8];
            let doubles = doubles.get_mut(..input.len() / size * 8);
            let doubles = doubles.unwrap_or_default();
            match from {
                DType::U32 => map(input, doubles, |bytes| {
                    f64::from(u32::from_le_bytes(bytes)).to_le_bytes()
                }),
                DType::I32 => map(input, doubles, |bytes| {
                    f64::from(i32::from_le_bytes(bytes)).to_le_bytes()
                }),
                DType::U64 => map(input, doubles, |bytes| {
                    odd_double_of_whole(u64::from_le_bytes(bytes), false)
                }),
                _ => map(input, doubles, |bytes| {
                    let value = i64::from_le_bytes(bytes);
                    odd_double_of_whole(value.unsigned_abs(), value < 0)
                }),
            }
            convert((DType::F64, to), table, doubles, out, lost)
        })
}

/// The double below or above an integer, whose last bit says that something was cut.
#[inline]
fn odd_double_of_whole(magnitude: u64, is_negative: bool) -> [u8; 8] {
    const BEYOND: f64 = (1u128 << 64) as f64;
    let near = magnitude as f64;
    let back = near as u64;
    let beyond = near >= BEYOND || back > magnitude;
    let inexact = near >= BEYOND || back != magnitude;
    let odd = near.to_bits().wrapping_sub(u64::from(beyond)) | u64::from(inexact);
    (odd | u64::from(is_negative) << 63).to_le_bytes()
}

/// What each value of 8 or 16 bits becomes.
#[derive(Debug)]
pub(super) struct Table {
    values: Vec<u64>,
    /// Which count each raises, in an order of its own: 0 for none.
    losses: Vec<u8>,
    is_exact: bool,
}

#[cfg_attr(
    not(feature = "std"),
    allow(dead_code, reason = "made once for many threads, which takes std")
)]
impl Table {
    /// Whether one is of use: the old dtype has few values, or only as many matter to the new one.
    pub(super) fn is_of_use(from: DType, to: DType) -> bool {
        match (from, to) {
            (DType::BF16 | DType::F16, DType::F32) => false,
            (DType::F32 | DType::F64 | DType::U32 | DType::I32 | DType::U64 | DType::I64, to) => {
                to.is_float8()
            }
            (from, _) => from.size().is_some_and(|size| size <= 2),
        }
    }

    pub(super) fn new(from: DType, to: DType) -> Self {
        let from = match size(from) {
            Some(1 | 2) => from,
            _ => DType::BF16,
        };
        let is_short = size(from) == Some(1);
        let width = size(to).unwrap_or(1);
        let count: usize = if is_short { 1 << 8 } else { 1 << 16 };
        let (mut values, mut losses) = (Vec::new(), Vec::new());
        for bits in 0..count {
            let bits = (bits as u16).to_le_bytes();
            let input = bits.get(..if is_short { 1 } else { 2 });
            let mut value = [0; 8];
            let mut lost = Lost::default();
            let out = value.get_mut(..width).unwrap_or_default();
            each((from, to), input.unwrap_or_default(), out, &mut lost);
            values.push(u64::from_le_bytes(value));
            losses.push(match (lost.rounded, lost.overflowed, lost.underflowed) {
                (0, 0, 0) => 0,
                (_, 0, 0) => 1,
                (0, _, 0) => 2,
                _ => 3,
            });
        }
        let is_exact = losses.iter().all(|&loss| loss == 0);
        Self {
            values,
            losses,
            is_exact,
        }
    }

    fn convert(&self, from: usize, input: &[u8], to: usize, out: &mut [u8], lost: &mut Lost) {
        match from {
            1 => self.convert_from::<1>(input, to, out, lost),
            _ => self.convert_from::<2>(input, to, out, lost),
        }
    }

    fn convert_from<const F: usize>(
        &self,
        input: &[u8],
        to: usize,
        out: &mut [u8],
        lost: &mut Lost,
    ) {
        match to {
            1 => self.look_up::<F, 1>(input, out),
            2 => self.look_up::<F, 2>(input, out),
            4 => self.look_up::<F, 4>(input, out),
            _ => self.look_up::<F, 8>(input, out),
        }
        if self.is_exact {
            return;
        }
        // Three counts in one number, of which none grows into the next.
        for input in input.chunks(BLOCK * F) {
            let counts = input.chunks_exact(F).fold(0u64, |counts, bytes| {
                let loss = self.losses.get(index(bytes)).copied().unwrap_or(0);
                counts + (1 << (16 * u32::from(loss & 3)))
            });
            let count = |loss: u32| usize::from((counts >> (16 * loss)) as u16);
            lost.rounded += count(1);
            lost.overflowed += count(2);
            lost.underflowed += count(3);
        }
    }

    fn look_up<const F: usize, const T: usize>(&self, input: &[u8], out: &mut [u8]) {
        for (out, bytes) in out.chunks_exact_mut(T).zip(input.chunks_exact(F)) {
            let value = self.values.get(index(bytes)).copied().unwrap_or(0);
            let bytes = value.to_le_bytes();
            out.copy_from_slice(bytes.get(..T).unwrap_or_default());
        }
    }
}

#[inline]
fn index(bytes: &[u8]) -> usize {
    match *bytes {
        [low, high] => usize::from(u16::from_le_bytes([low, high])),
        [low] => usize::from(low),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements of every kind: all leading 16 bits with trailing ones that decide how they round.
    fn elements(dtype: DType) -> Vec<u8> {
        let size = size(dtype).unwrap();
        let mut bytes = Vec::new();
        let mut state = 1u64;
        for high in 0..=u16::MAX {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Nothing, the least, what is just below, at and above the middle, and anything.
            let tails = [0, 1, (1 << 47) - 1, 1 << 47, (1 << 47) + 1, state >> 16];
            let tail = tails[usize::from(high) % 6] & ((1 << 48) - 1);
            let mut bits = u64::from(high) << 48 | tail;
            if high % 3 == 0 {
                // The middle between two halves is elsewhere in a wider float.
                bits = u64::from(high) << 48 | 1 << (28 + high % 19) | state >> 63;
            }
            bytes.extend_from_slice(&bits.to_le_bytes()[8 - size..]);
        }
        // The ends of what integers hold, and what doubles make of them.
        for bits in [
            1 << 63,
            u64::MAX,
            u64::MAX >> 1,
            (u64::MAX >> 1) - 511,
            u64::MAX - 1023,
        ] {
            bytes.extend_from_slice(&bits.to_le_bytes()[8 - size..]);
        }
        bytes
    }

    #[test]
    fn many_at_once_become_what_each_becomes() {
        let numbers = || DType::ALL.iter().copied().filter(|dtype| dtype.is_number());
        for from in numbers() {
            let input = elements(from);
            let count = input.len() / size(from).unwrap();
            for to in numbers() {
                // That keeps every bit of a NaN has a test beside the casts of one element.
                if matches!((from, to), (DType::F16 | DType::BF16, DType::F32)) {
                    continue;
                }
                let table = Table::is_of_use(from, to).then(|| Table::new(from, to));
                let len = count * size(to).unwrap();
                let (mut many, mut one) = (alloc::vec![0; len], alloc::vec![0; len]);
                let (mut many_lost, mut one_lost) = (Lost::default(), Lost::default());
                if !convert(
                    (from, to),
                    table.as_ref(),
                    &input,
                    &mut many,
                    &mut many_lost,
                ) {
                    continue;
                }
                each((from, to), &input, &mut one, &mut one_lost);
                let differs = many.iter().zip(&one).position(|(many, one)| many != one);
                assert_eq!(differs, None, "{from} to {to}");
                let of = |lost: &Lost| (lost.rounded, lost.overflowed, lost.underflowed);
                assert_eq!(of(&many_lost), of(&one_lost), "{from} to {to}");
            }
        }
    }

    /// The pairs that have a way for many at once, and that models are cast between.
    #[test]
    fn what_models_are_cast_between_is_done_at_once() {
        let floats = || DType::ALL.iter().copied().filter(|dtype| dtype.is_float());
        for from in floats() {
            for to in floats().filter(|&to| to != DType::F64 && to != from) {
                let table = Table::is_of_use(from, to).then(|| Table::new(from, to));
                let lost = &mut Lost::default();
                let done = convert((from, to), table.as_ref(), &[], &mut [], lost);
                assert!(done, "{from} to {to}");
            }
        }
    }

    /// Processors without an instruction for it take another way through the same library.
    #[test]
    fn halves_are_the_same_without_the_instruction() {
        let singles = elements(DType::F32);
        for bytes in singles.chunks_exact(4) {
            let single = f32::from_le_bytes(bytes.try_into().unwrap());
            let mut half = [0; 2];
            half_of_single(bytes, &mut half, &mut Lost::default());
            let want = f16::from_f32_const(single);
            assert_eq!(u16::from_le_bytes(half), want.to_bits(), "{single:e}");
            let mut back = [0; 4];
            single_of_half(&half, &mut back);
            if !want.is_nan() {
                assert_eq!(
                    f32::from_le_bytes(back).to_bits(),
                    want.to_f32_const().to_bits()
                );
            }
        }
    }
}
