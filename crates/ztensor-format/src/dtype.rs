use tensor_core::DType;

/// Section 5.1: the names of element types, a closed set; case matters.
const NAMES: [(&str, DType); 13] = [
    ("float64", DType::F64),
    ("float32", DType::F32),
    ("float16", DType::F16),
    ("bfloat16", DType::BF16),
    ("int64", DType::I64),
    ("int32", DType::I32),
    ("int16", DType::I16),
    ("int8", DType::I8),
    ("uint64", DType::U64),
    ("uint32", DType::U32),
    ("uint16", DType::U16),
    ("uint8", DType::U8),
    ("bool", DType::Bool),
];

/// The dtype that a `dtype` field names, `None` if the format has no such name.
pub(crate) fn from_name(name: &[u8]) -> Option<DType> {
    // `match` on the common ones is a comparison of lengths and words; the table serves the rest.
    match name {
        b"float32" => Some(DType::F32),
        b"bfloat16" => Some(DType::BF16),
        b"float16" => Some(DType::F16),
        _ => NAMES
            .iter()
            .find(|(known, _)| known.as_bytes() == name)
            .map(|&(_, dtype)| dtype),
    }
}

/// The dtype of a short name, as components have them from version 1.1 on.
#[cfg(feature = "generations")]
pub(crate) fn from_short_name(name: &str) -> Option<DType> {
    // The short names are those of listings.
    DType::from_name(name).filter(|&dtype| name_of(dtype).is_some())
}

/// The name of a dtype, `None` if the format can't hold it.
pub(crate) fn name_of(dtype: DType) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|&&(_, known)| known == dtype)
        .map(|&(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_dtypes_pair_up() {
        for (name, dtype) in NAMES {
            assert_eq!(from_name(name.as_bytes()), Some(dtype));
            assert_eq!(name_of(dtype), Some(name));
        }
        assert_eq!(from_name(b"Float32"), None);
        assert_eq!(name_of(DType::C64), None);
    }
}
