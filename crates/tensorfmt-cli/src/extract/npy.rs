//! The head of NumPy's files.

use tensor_core::Source;
use tensorfmt::{DType, Order};

use super::Piece;

/// How NumPy calls a dtype.
fn kind(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::U16 => "<u2",
        DType::I16 => "<i2",
        DType::U32 => "<u4",
        DType::I32 => "<i4",
        DType::U64 => "<u8",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        _ => return None,
    })
}

/// The most dims that NumPy counts.
const MAX_NPY_DIMS: usize = 64;

/// The head of an .npy file, version 1.0 or, for very many digits, 2.0: a dictionary as Python would
/// print it, filled up so that the data starts at a multiple of 64. Or why NumPy couldn't open such a file.
pub(super) fn header(piece: &Piece) -> Result<Vec<u8>, String> {
    let len = piece.data.size();
    let no_kind = || format!("NumPy has no dtype {}", piece.dtype_name);
    let dtype = piece.dtype.ok_or_else(no_kind)?;
    let kind = kind(dtype).ok_or_else(no_kind)?;
    let dims = piece.shape.dims();
    if dims.len() > MAX_NPY_DIMS {
        let rank = dims.len();
        return Err(format!("NumPy holds {MAX_NPY_DIMS} dims, this has {rank}"));
    }
    // It multiplies all dims but those of 0.
    let size = dtype.size().unwrap_or(1);
    let counted = dims.iter().filter(|&&dim| dim > 0);
    let bytes = counted.copied().try_fold(size, u64::checked_mul);
    if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
        let shape = &piece.shape;
        return Err(format!("the dims {shape} are too large for NumPy"));
    }
    let expected = piece.shape.elements().saturating_mul(size);
    if expected != len {
        let shape = &piece.shape;
        return Err(format!(
            "{dtype} of shape {shape} takes {expected} bytes, and there are {len}"
        ));
    }
    let fortran = if piece.order == Order::ColumnMajor {
        "True"
    } else {
        "False"
    };
    let dims: String = piece
        .shape
        .dims()
        .iter()
        .map(|dim| format!("{dim}, "))
        .collect();
    let dict = format!("{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': ({dims}), }}");
    let mut head = b"\x93NUMPY".to_vec();
    let short = u16::try_from((10 + dict.len() + 1).next_multiple_of(64) - 10).ok();
    let fixed = match short {
        Some(len) => {
            head.extend_from_slice(&[1, 0]);
            head.extend_from_slice(&len.to_le_bytes());
            10
        }
        None => {
            let len = (12 + dict.len() + 1).next_multiple_of(64) - 12;
            head.extend_from_slice(&[2, 0]);
            let len = u32::try_from(len).map_err(|_| "the head of the file is too long")?;
            head.extend_from_slice(&len.to_le_bytes());
            12
        }
    };
    head.extend_from_slice(dict.as_bytes());
    let len = (fixed + dict.len() + 1).next_multiple_of(64);
    head.resize(len - 1, b' ');
    head.push(b'\n');
    Ok(head)
}
