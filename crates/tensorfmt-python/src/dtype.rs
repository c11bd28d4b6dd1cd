//! What dtypes are called in Python, and what they are in the buffer protocol and in DLPack.

use tensorfmt::DType;

/// The name that NumPy, ml_dtypes, torch and JAX have for a dtype, where they have one.
pub(crate) fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8",
        DType::I8 => "int8",
        DType::U16 => "uint16",
        DType::I16 => "int16",
        DType::U32 => "uint32",
        DType::I32 => "int32",
        DType::U64 => "uint64",
        DType::I64 => "int64",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::F8E4M3 => "float8_e4m3fn",
        DType::F8E5M2 => "float8_e5m2",
        DType::F8E4M3Fnuz => "float8_e4m3fnuz",
        DType::F8E5M2Fnuz => "float8_e5m2fnuz",
        DType::F8E8M0 => "float8_e8m0fnu",
        other => other.name(),
    }
}

/// The dtype of a name as Python libraries, or the formats, spell it.
pub(crate) fn from_name(text: &str) -> Option<DType> {
    DType::from_spelling(text).filter(|&dtype| dtype != DType::Opaque)
}

/// What the buffer protocol calls little-endian elements of a dtype, where it can.
pub(crate) fn format(dtype: DType) -> Option<&'static std::ffi::CStr> {
    // A native code is what most consumers know; on other hosts the order has to be said.
    const LITTLE: bool = cfg!(target_endian = "little");
    Some(match dtype {
        DType::Bool => c"?",
        DType::U8 => c"B",
        DType::I8 => c"b",
        DType::U16 if LITTLE => c"H",
        DType::I16 if LITTLE => c"h",
        DType::U32 if LITTLE => c"I",
        DType::I32 if LITTLE => c"i",
        DType::U64 if LITTLE => c"Q",
        DType::I64 if LITTLE => c"q",
        DType::F16 if LITTLE => c"e",
        DType::F32 if LITTLE => c"f",
        DType::F64 if LITTLE => c"d",
        DType::C64 if LITTLE => c"Zf",
        DType::C128 if LITTLE => c"Zd",
        DType::U16 => c"<H",
        DType::I16 => c"<h",
        DType::U32 => c"<I",
        DType::I32 => c"<i",
        DType::U64 => c"<Q",
        DType::I64 => c"<q",
        DType::F16 => c"<e",
        DType::F32 => c"<f",
        DType::F64 => c"<d",
        DType::C64 => c"<Zf",
        DType::C128 => c"<Zd",
        _ => return None,
    })
}

/// The code and bits of a dtype in DLPack, where it has some.
pub(crate) fn dlpack(dtype: DType) -> Option<(u8, u8)> {
    Some(match dtype {
        DType::I8 => (0, 8),
        DType::I16 => (0, 16),
        DType::I32 => (0, 32),
        DType::I64 => (0, 64),
        DType::U8 => (1, 8),
        DType::U16 => (1, 16),
        DType::U32 => (1, 32),
        DType::U64 => (1, 64),
        DType::F16 => (2, 16),
        DType::F32 => (2, 32),
        DType::F64 => (2, 64),
        DType::BF16 => (4, 16),
        DType::C64 => (5, 64),
        DType::C128 => (5, 128),
        DType::Bool => (6, 8),
        DType::F8E4M3 => (10, 8),
        DType::F8E4M3Fnuz => (11, 8),
        DType::F8E5M2 => (12, 8),
        DType::F8E5M2Fnuz => (13, 8),
        DType::F8E8M0 => (14, 8),
        _ => return None,
    })
}

/// The dtype of a code and bits in DLPack.
pub(crate) fn from_dlpack(code: u8, bits: u8) -> Option<DType> {
    let mut all = DType::ALL.iter().copied();
    all.find(|&known| dlpack(known) == Some((code, bits)))
}

/// The strides, in bytes, of dense elements of `size` bytes.
pub(crate) fn strides(dims: &[u64], size: u64, columns: bool) -> Vec<u64> {
    let mut strides = vec![size; dims.len()];
    let mut next = size;
    let mut set = |(stride, dim): (&mut u64, &u64)| {
        *stride = next;
        next = next.saturating_mul((*dim).max(1));
    };
    match columns {
        true => strides.iter_mut().zip(dims).for_each(&mut set),
        false => strides.iter_mut().zip(dims).rev().for_each(&mut set),
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_lead_back_to_their_dtype() {
        for &dtype in DType::ALL.iter().filter(|&&dtype| dtype != DType::Opaque) {
            assert_eq!(from_name(name(dtype)), Some(dtype));
            let (code, bits) = dlpack(dtype).unwrap_or_default();
            assert_eq!(from_dlpack(code, bits), Some(dtype));
            assert_eq!(u64::from(bits), dtype.size().unwrap_or_default() * 8);
        }
        assert_eq!(from_name("opaque"), None);
        assert_eq!(from_dlpack(2, 4), None);
    }

    #[test]
    fn strides_are_those_of_dense_elements() {
        assert_eq!(strides(&[2, 3, 4], 2, false), [24, 8, 2]);
        assert_eq!(strides(&[2, 3, 4], 2, true), [2, 4, 12]);
        assert_eq!(strides(&[], 8, true), [0u64; 0]);
        assert_eq!(strides(&[2, 0, 4], 1, false), [4, 4, 1]);
    }
}
