use std::process::ExitCode;

use tensor_core::{Output, Sink, Source, Ticker};
use tensorfmt::convert::{ModelTensor, Tensors};
use tensorfmt::{DType, Error, Order};

use crate::Outcome;
use crate::cli::{Common, Extract, ExtractKind};
use crate::failure::{Failure, UNSUPPORTED, complain};
use crate::input::Input;
use crate::output::escape;
use crate::progress::Meter;
use crate::signals::Graceful;
use crate::target::{Target, create, has_room, is_not_input, may_write};

pub(crate) fn run(args: &Extract, common: &Common) -> Outcome {
    let ending = args.output.extension().and_then(|ending| ending.to_str());
    let npy = match (args.to, ending) {
        (Some(ExtractKind::Npy), _) | (None, Some("npy")) => true,
        (Some(ExtractKind::Bin), _) | (None, Some("bin")) => false,
        _ => {
            let path = args.output.display();
            return Err(Failure::usage(format!(
                "{path}: ends neither in .npy nor in .bin; --to npy or --to bin says which"
            )));
        }
    };
    let output = Target::new(&args.output);
    output.takes_bytes(false)?;
    if let Target::Path(path) = &output {
        may_write(path, args.force)?;
    }
    let input = Input::new(&args.file, common)?;
    let archive = input
        .open()
        .map_err(|error| Failure::about(&input.path, &error))?;
    if let Target::Path(path) = &output {
        is_not_input(&archive, &input.path, path)?;
    }
    input.warn(&archive);
    let mut entries = archive.entries().into_iter();
    let Some(entry) = entries.find(|entry| entry.name() == args.name) else {
        return Err(Failure::about(
            &input.path,
            &archive.no_such_tensor(&args.name),
        ));
    };
    let tensor = &Tensors::new(&archive).get(&entry);
    let data = tensor
        .data()
        .map_err(|error| Failure::about(&input.path, &error))?;
    let head = match npy.then(|| header(tensor, data.size())) {
        None => Vec::new(),
        Some(Ok(head)) => head,
        Some(Err(reason)) => {
            let name = escape(&args.name).into_owned();
            complain(&format!(
                "{name:?}: {}; extract the bytes as .bin",
                escape(&reason)
            ));
            return Ok(ExitCode::from(UNSUPPORTED));
        }
    };
    let meter = Meter::new(data.size(), common);
    let progress = |bytes| meter.tick(bytes);
    let ticker = Ticker::new(Some(&progress));
    match &output {
        Target::Stdout => put(std::io::stdout().lock(), &head, &data, &ticker)
            .map(drop)
            .map_err(|error| Failure::stdout_of(&error))?,
        Target::Path(path) => {
            has_room(path, data.size().saturating_add(head.len() as u64), false)?;
            let _graceful = output.is_file().then(Graceful::new);
            create(path, args.force, common)
                .and_then(|file| Ok(put(file, &head, &data, &ticker)?.commit()?))
                .map_err(|error| Failure::about(path, &error))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts a head and all of the data.
fn put<O: Output>(
    mut out: O,
    head: &[u8],
    data: &dyn Source,
    ticker: &Ticker<'_>,
) -> Result<O, Error> {
    out.put(head)?;
    let mut sink = Sink::new(out);
    sink.copy_from(data, ticker)?;
    Ok(sink.into_inner())
}

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
/// print it, filled up so that the data, which has `len` bytes, starts at a multiple of 64. Or why
/// NumPy couldn't open such a file.
fn header(tensor: &ModelTensor, len: u64) -> Result<Vec<u8>, String> {
    let no_kind = || format!("NumPy has no dtype {}", tensor.dtype_name());
    let dtype = tensor.dtype().ok_or_else(no_kind)?;
    let kind = kind(dtype).ok_or_else(no_kind)?;
    let dims = tensor.shape().dims();
    if dims.len() > MAX_NPY_DIMS {
        let rank = dims.len();
        return Err(format!("NumPy holds {MAX_NPY_DIMS} dims, this has {rank}"));
    }
    // It multiplies all dims but those of 0.
    let size = dtype.size().unwrap_or(1);
    let counted = dims.iter().filter(|&&dim| dim > 0);
    let bytes = counted.copied().try_fold(size, u64::checked_mul);
    if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
        let shape = tensor.shape();
        return Err(format!("the dims {shape} are too large for NumPy"));
    }
    let expected = tensor.shape().elements().saturating_mul(size);
    if expected != len {
        let shape = tensor.shape();
        return Err(format!(
            "{dtype} of shape {shape} takes {expected} bytes, and there are {len}"
        ));
    }
    let fortran = if tensor.order() == Order::ColumnMajor {
        "True"
    } else {
        "False"
    };
    let dims: String = tensor
        .shape()
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
