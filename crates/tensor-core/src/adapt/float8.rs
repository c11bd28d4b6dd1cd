#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "codes have 8 bits, and exponents are bounded before they are cast"
)]

//! The 8-bit float kinds: what each code means, and which code is nearest to a number.

use super::numbers::{Lost, Number, Numeric, whole_as_float};

/// What sets one kind with sign and mantissa apart from another.
struct Kind {
    mantissa: u32,
    bias: i64,
    /// The code of the greatest finite value.
    greatest: u8,
    /// The code of infinity, or what stands for it.
    infinity: u8,
    /// The code that a NaN becomes.
    nan: u8,
    /// Whether infinity is infinity, and not NaN.
    has_infinity: bool,
    /// Whether one code, that of a negative zero, is the only NaN ("fnuz").
    is_unsigned_zero: bool,
}

const E4M3: Kind = Kind {
    mantissa: 3,
    bias: 7,
    greatest: 0x7E,
    infinity: 0x7F,
    nan: 0x7F,
    has_infinity: false,
    is_unsigned_zero: false,
};

const E5M2: Kind = Kind {
    mantissa: 2,
    bias: 15,
    greatest: 0x7B,
    infinity: 0x7C,
    nan: 0x7E,
    has_infinity: true,
    is_unsigned_zero: false,
};

const E4M3_FNUZ: Kind = Kind {
    mantissa: 3,
    bias: 8,
    greatest: 0x7F,
    infinity: 0x80,
    nan: 0x80,
    has_infinity: false,
    is_unsigned_zero: true,
};

const E5M2_FNUZ: Kind = Kind {
    mantissa: 2,
    bias: 16,
    greatest: 0x7F,
    infinity: 0x80,
    nan: 0x80,
    has_infinity: false,
    is_unsigned_zero: true,
};

/// 2 to the power of `exponent`, which is one of a normal number.
const fn power(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

impl Kind {
    /// The value of a code.
    const fn decode(&self, code: u8) -> f64 {
        let negative = code >> 7 == 1;
        let magnitude = code & 0x7F;
        if self.is_unsigned_zero && code == 0x80 {
            return -f64::NAN.abs();
        }
        let value = if magnitude > self.greatest {
            if self.has_infinity && magnitude == self.infinity {
                f64::INFINITY
            } else {
                f64::NAN.abs()
            }
        } else {
            let exponent = (magnitude >> self.mantissa) as i64;
            let rest = (magnitude & ((1 << self.mantissa) - 1)) as i64;
            let (whole, exponent) = match exponent {
                0 => (rest, 1),
                _ => (rest + (1 << self.mantissa), exponent),
            };
            whole as f64 * power(exponent - self.bias - self.mantissa as i64)
        };
        if negative { -value } else { value }
    }

    /// The values of all codes.
    const fn table(&self) -> [f64; 256] {
        let mut table = [0.0; 256];
        let mut code = 0;
        while code < 256 {
            #[allow(clippy::indexing_slicing, reason = "evaluated by the compiler")]
            {
                table[code] = self.decode(code as u8);
            }
            code += 1;
        }
        table
    }

    /// The code nearest to `value`, of two equally near ones the even one, in one step.
    #[inline]
    fn encode(&self, value: f64, lost: &mut Lost) -> u8 {
        let bits = value.to_bits();
        let magnitude = bits & !(1 << 63);
        let sign = ((bits >> 63) as u8) << 7;
        let signed = |code: u8| {
            if self.is_unsigned_zero && (code == 0 || code == 0x80) {
                code
            } else {
                sign | code
            }
        };
        if magnitude == 0 {
            return signed(0);
        }
        if magnitude >= 0x7FF0_0000_0000_0000 {
            let infinite = magnitude == 0x7FF0_0000_0000_0000;
            lost.overflowed += usize::from(infinite && !self.has_infinity);
            return signed(if infinite { self.infinity } else { self.nan });
        }
        let new = i64::try_from(magnitude >> 52).unwrap_or(0) - 1023 + self.bias;
        let subnormal = new <= 0;
        let cut = i64::from(52 - self.mantissa) + if subnormal { 1 - new } else { 0 };
        if cut > 54 {
            lost.underflowed += 1;
            return signed(0);
        }
        // That is a normal f64: subnormal ones are far below.
        let full = (magnitude & 0x000F_FFFF_FFFF_FFFF) | 1 << 52;
        let cut = u32::try_from(cut).unwrap_or(54);
        let (kept, rest) = (full >> cut, full & ((1 << cut) - 1));
        let half = 1u64 << (cut - 1);
        let up = rest > half || (rest == half && kept & 1 == 1);
        let base = match subnormal {
            true => 0,
            false => u64::try_from(new - 1).unwrap_or(0) << self.mantissa,
        };
        let code = base + kept + u64::from(up);
        if code > u64::from(self.greatest) {
            lost.overflowed += 1;
            return signed(self.infinity);
        }
        if rest != 0 {
            let count = match subnormal {
                true => &mut lost.underflowed,
                false => &mut lost.rounded,
            };
            *count += 1;
        }
        signed(code as u8)
    }
}

/// The value of a code of the kind that is an exponent only.
const fn decode_power(code: u8) -> f64 {
    match code {
        0xFF => f64::NAN.abs(),
        _ => power(code as i64 - 127),
    }
}

const fn power_table() -> [f64; 256] {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        #[allow(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            table[code] = decode_power(code as u8);
        }
        code += 1;
    }
    table
}

/// The power of two nearest to `value`, of two equally near ones the greater; but the second least
/// for all between it and the least, which no f32 but a subnormal one is, as `ml_dtypes` has it. Zero,
/// negative numbers and what is too large have none: they become NaN.
#[inline]
fn encode_power(value: f64, lost: &mut Lost) -> u8 {
    const NAN: u8 = 0xFF;
    if value.is_nan() {
        return NAN;
    }
    if value <= 0.0 || value.is_infinite() {
        lost.overflowed += 1;
        return NAN;
    }
    let bits = value.to_bits();
    let rest = bits & 0x000F_FFFF_FFFF_FFFF;
    let exponent = i64::try_from(bits >> 52).unwrap_or(0) - 1023;
    let up = i64::from(rest >> 51 == 1 || exponent == -127 && rest != 0);
    let code = exponent + up + 127;
    if exponent < -127 {
        lost.underflowed += 1;
        return 0;
    }
    match u8::try_from(code) {
        Ok(code) if code < NAN => {
            lost.rounded += usize::from(rest != 0);
            code
        }
        _ => {
            lost.overflowed += 1;
            NAN
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $table:ident = $decoded:expr, $encode:expr;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name(#[allow(dead_code, reason = "gives the type its size")] u8);

        static $table: [f64; 256] = $decoded;

        impl Numeric for $name {
            #[inline]
            fn get(bytes: &[u8]) -> Number {
                let code = bytes.first().copied().unwrap_or(0);
                Number::Float($table.get(usize::from(code)).copied().unwrap_or(0.0))
            }

            #[inline]
            fn put(number: Number, bytes: &mut [u8], lost: &mut Lost) {
                let value = match number {
                    Number::Int(value) => whole_as_float(value),
                    Number::Float(value) => value,
                };
                bytes.fill($encode(value, lost));
            }
        }
    )*};
}

kinds! {
    /// Four exponent and three mantissa bits; no infinity.
    E4m3: E4M3_VALUES = E4M3.table(), |value, lost| E4M3.encode(value, lost);
    /// Five exponent and two mantissa bits.
    E5m2: E5M2_VALUES = E5M2.table(), |value, lost| E5M2.encode(value, lost);
    /// As `E4m3`, with another bias, one NaN and one zero.
    E4m3Fnuz: E4M3_FNUZ_VALUES = E4M3_FNUZ.table(), |value, lost| E4M3_FNUZ.encode(value, lost);
    /// As `E5m2`, with another bias, one NaN, one zero, and no infinity.
    E5m2Fnuz: E5M2_FNUZ_VALUES = E5M2_FNUZ.table(), |value, lost| E5M2_FNUZ.encode(value, lost);
    /// A power of two, or NaN.
    E8m0: E8M0_VALUES = power_table(), encode_power;
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, Cast, CastCounts, DType, Source};

    const KINDS: [DType; 5] = [
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F8E4M3Fnuz,
        DType::F8E5M2Fnuz,
        DType::F8E8M0,
    ];

    /// The value as the definitions have it, by powers and sums.
    fn defined(dtype: DType, code: u8) -> f64 {
        let sign = if code >> 7 == 1 { -1.0 } else { 1.0 };
        let (e4, m3) = (f64::from(code >> 3 & 15), f64::from(code & 7));
        let (e5, m2) = (f64::from(code >> 2 & 31), f64::from(code & 3));
        let float = |exponent: f64, mantissa: f64, bias: f64| match exponent {
            0.0 => sign * mantissa * (1.0 - bias).exp2(),
            _ => sign * (1.0 + mantissa) * (exponent - bias).exp2(),
        };
        match (dtype, code) {
            (DType::F8E4M3, 0x7F | 0xFF) => f64::NAN,
            (DType::F8E5M2, 0x7C) => f64::INFINITY,
            (DType::F8E5M2, 0xFC) => f64::NEG_INFINITY,
            (DType::F8E5M2, 0x7D..=0x7F | 0xFD..) => f64::NAN,
            (DType::F8E4M3Fnuz | DType::F8E5M2Fnuz, 0x80) => f64::NAN,
            (DType::F8E8M0, 0xFF) => f64::NAN,
            (DType::F8E4M3, _) => float(e4, m3 / 8.0, 7.0),
            (DType::F8E5M2, _) => float(e5, m2 / 4.0, 15.0),
            (DType::F8E4M3Fnuz, _) => float(e4, m3 / 8.0, 8.0),
            (DType::F8E5M2Fnuz, _) => float(e5, m2 / 4.0, 16.0),
            _ => (f64::from(code) - 127.0).exp2(),
        }
    }

    fn cast(from: DType, to: DType, bytes: &[u8]) -> (Bytes, alloc::sync::Arc<CastCounts>) {
        let cast = Cast::new(Bytes::copy_from_slice(bytes), from, to).unwrap();
        (cast.read(0..cast.size()).unwrap(), cast.counts())
    }

    fn encode(to: DType, value: f64) -> (u8, [usize; 3]) {
        let (bytes, counts) = cast(DType::F64, to, &value.to_le_bytes());
        let counts = [counts.rounded(), counts.overflowed(), counts.underflowed()];
        (bytes[0], counts)
    }

    #[test]
    fn every_code_has_the_value_of_its_definition() {
        let codes: alloc::vec::Vec<u8> = (0..=255).collect();
        for dtype in KINDS {
            let (bytes, counts) = cast(dtype, DType::F64, &codes);
            for (code, bytes) in codes.iter().zip(bytes.chunks_exact(8)) {
                let got = f64::from_le_bytes(bytes.try_into().unwrap());
                let want = defined(dtype, *code);
                match want.is_nan() {
                    true => assert!(got.is_nan(), "{dtype} {code:#x}"),
                    // Bits, so that the sign of zero counts.
                    false => assert_eq!(got.to_bits(), want.to_bits(), "{dtype} {code:#x}"),
                }
            }
            assert_eq!(
                (counts.rounded(), counts.overflowed(), counts.underflowed()),
                (0, 0, 0)
            );
            // And the way back is the identity, NaNs of other payloads aside.
            let (back, _) = cast(DType::F64, dtype, &bytes);
            for (code, back) in codes.iter().zip(&back[..]) {
                let nan = defined(dtype, *code).is_nan();
                assert!(
                    code == back || nan && defined(dtype, *back).is_nan(),
                    "{dtype} {code:#x}"
                );
                assert_eq!(code >> 7, back >> 7, "{dtype} {code:#x}");
            }
        }
    }

    /// The nearest of all values, found by looking at each; of two, the one with the even code.
    fn nearest(dtype: DType, value: f64) -> Option<u8> {
        let mut best: Option<(f64, u8)> = None;
        for code in 0..=255u8 {
            let candidate = defined(dtype, code);
            if !candidate.is_finite() || candidate.is_sign_negative() != value.is_sign_negative() {
                continue;
            }
            let apart = (candidate - value).abs();
            let closer = best.is_none_or(|(least, known)| {
                apart < least
                    || apart == least
                        && match dtype {
                            DType::F8E8M0 => code > known,
                            _ => code % 2 == 0,
                        }
            });
            if closer {
                best = Some((apart, code));
            }
        }
        best.map(|(_, code)| code)
    }

    /// The f64 next to a positive one.
    fn up(value: f64) -> f64 {
        f64::from_bits(value.to_bits() + 1)
    }

    fn down(value: f64) -> f64 {
        f64::from_bits(value.to_bits() - 1)
    }

    #[test]
    fn numbers_round_to_the_nearest_code_once() {
        for dtype in KINDS {
            let mut values: alloc::vec::Vec<f64> = (0..=255)
                .map(|code| defined(dtype, code))
                .filter(|value| value.is_finite() && *value > 0.0)
                .collect();
            values.sort_by(f64::total_cmp);
            let greatest = values[values.len() - 1];
            let ulp = greatest - values[values.len() - 2];
            let half_up = match dtype {
                DType::F8E8M0 => greatest / 2.0,
                _ => ulp / 2.0,
            };
            for pair in values.windows(2) {
                let middle = (pair[0] + pair[1]) / 2.0;
                // Neighbours as near as f64 has them: rounding by way of f32 would not see them.
                for value in [middle, down(middle), up(middle), pair[0], down(pair[1])] {
                    for value in [value, -value] {
                        let (code, lost) = encode(dtype, value);
                        if dtype == DType::F8E8M0 && value < 0.0 {
                            assert_eq!((code, lost), (0xFF, [0, 1, 0]), "{value:e}");
                            continue;
                        }
                        let mut want = nearest(dtype, value).unwrap();
                        if dtype == DType::F8E8M0 && value > values[0] && value < values[1] {
                            want = 1;
                        }
                        if want == 0x80 && defined(dtype, want).is_nan() {
                            want = 0;
                        }
                        assert_eq!(code, want, "{dtype} {value:e}");
                        assert_eq!(
                            lost.iter().sum::<usize>(),
                            usize::from(defined(dtype, code) != value)
                        );
                    }
                }
            }
            // The last value that rounds down, and the first that is too large.
            let edge = greatest + half_up;
            let (top, _) = encode(dtype, greatest);
            assert_eq!(encode(dtype, down(edge)).0, top, "{dtype}");
            let beyond = encode(dtype, up(edge));
            assert!(!defined(dtype, beyond.0).is_finite(), "{dtype}");
            assert_eq!(beyond.1, [0, 1, 0], "{dtype}");
            assert_eq!(encode(dtype, 1e300).0, beyond.0);
        }
        // At the edge itself the even code wins, if it is one of a number.
        assert_eq!(encode(DType::F8E4M3, 464.0), (0x7E, [1, 0, 0]));
        assert_eq!(encode(DType::F8E5M2, 61440.0), (0x7C, [0, 1, 0]));
        assert_eq!(encode(DType::F8E4M3Fnuz, 248.0), (0x80, [0, 1, 0]));
        assert_eq!(encode(DType::F8E5M2Fnuz, -61440.0), (0x80, [0, 1, 0]));
        assert_eq!(
            encode(DType::F8E8M0, 127f64.exp2() * 1.5),
            (0xFF, [0, 1, 0])
        );
    }

    #[test]
    fn what_is_no_finite_number_becomes_what_the_kind_has_for_it() {
        let codes = |value: f64| KINDS.map(|dtype| encode(dtype, value).0);
        assert_eq!(codes(f64::INFINITY), [0x7F, 0x7C, 0x80, 0x80, 0xFF]);
        assert_eq!(codes(f64::NEG_INFINITY), [0xFF, 0xFC, 0x80, 0x80, 0xFF]);
        assert_eq!(codes(f64::NAN.abs()), [0x7F, 0x7E, 0x80, 0x80, 0xFF]);
        assert_eq!(codes(-f64::NAN.abs()), [0xFF, 0xFE, 0x80, 0x80, 0xFF]);
        assert_eq!(codes(0.0), [0, 0, 0, 0, 0xFF]);
        assert_eq!(codes(-0.0), [0x80, 0x80, 0, 0, 0xFF]);
        assert_eq!(codes(1e-300), [0; 5]);
        assert_eq!(codes(-1e-300), [0x80, 0x80, 0, 0, 0xFF]);
        assert_eq!(codes(f64::from_bits(1)), [0; 5]);
        let counts = |value: f64| KINDS.map(|dtype| encode(dtype, value).1);
        assert_eq!(
            counts(f64::INFINITY),
            [[0, 1, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]]
        );
        assert_eq!(counts(f64::NAN), [[0; 3]; 5]);
        assert_eq!(counts(1e-300), [[0, 0, 1]; 5]);
        assert_eq!(counts(0.0), [[0; 3], [0; 3], [0; 3], [0; 3], [0, 1, 0]]);
    }

    #[test]
    fn integers_and_other_floats_go_both_ways() {
        let (bytes, _) = cast(DType::I64, DType::F8E4M3, &(-17i64).to_le_bytes());
        assert_eq!(bytes, &[0xD8][..]); // -16, the even one of -16 and -18
        // 2^60 + 2^56 lies between two powers of E5M2's mantissa; one more must not be lost.
        let (a, _) = cast(
            DType::U64,
            DType::F8E8M0,
            &((1u64 << 62) + (1 << 61)).to_le_bytes(),
        );
        let (b, _) = cast(
            DType::U64,
            DType::F8E8M0,
            &((1u64 << 62) + (1 << 61) - 1).to_le_bytes(),
        );
        assert_eq!((a[0], b[0]), (127 + 63, 127 + 62));
        let (bytes, counts) = cast(DType::F8E5M2, DType::I16, &[0x3E, 0x7C, 0xFE, 0xC6]);
        assert_eq!(bytes, &[1, 0, 0xFF, 0x7F, 0, 0, 0xFA, 0xFF][..]); // 1.5, inf, NaN, -6
        assert_eq!((counts.rounded(), counts.overflowed()), (1, 2));
        let (bytes, _) = cast(DType::F8E4M3, DType::Bool, &[0x80, 0x01, 0x7F]);
        assert_eq!(bytes, &[0, 1, 1][..]);
        // 1.0625 is between 1 and 1.125 in E4M3; from every float.
        let all = [
            (DType::F16, 0x3C40u64, 2),
            (DType::BF16, 0x3F88, 2),
            (DType::F32, 0x3F88_0000, 4),
            (DType::F64, 0x3FF1_0000_0000_0000, 8),
        ];
        for (from, bits, size) in all {
            let (bytes, counts) = cast(from, DType::F8E4M3, &bits.to_le_bytes()[..size]);
            assert_eq!((bytes[0], counts.rounded()), (0x38, 1), "{from}");
        }
        let (bytes, _) = cast(DType::F8E4M3, DType::F8E5M2, &[0x39, 0x7F, 0xFF, 0x80]);
        assert_eq!(bytes, &[0x3C, 0x7E, 0xFE, 0x80][..]);
    }
}
