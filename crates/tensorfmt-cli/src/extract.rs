use std::process::ExitCode;

use tensor_core::{AtomicFile, Output, Sink, Ticker, WriteOptions};
use tensorfmt::convert::{Model, ModelTensor};
use tensorfmt::{DType, Error, Order};

use crate::Outcome;
use crate::cli::{Common, Extract};
use crate::failure::{Failure, UNSUPPORTED, complain};
use crate::input::Input;
use crate::output::escape;
use crate::progress::Meter;
use crate::target::{is_not_input, may_write};

pub(crate) fn run(args: &Extract, common: &Common) -> Outcome {
    let ending = args.output.extension().and_then(|ending| ending.to_str());
    let npy = match ending {
        Some("npy") => true,
        Some("bin") => false,
        _ => {
            let path = args.output.display();
            return Err(Failure::usage(format!(
                "{path}: ends neither in .npy nor in .bin"
            )));
        }
    };
    may_write(&args.output, args.force)?;
    is_not_input(&args.file, &args.output)?;
    let input = Input::new(&args.file)?;
    let archive = input
        .open()
        .map_err(|error| Failure::about(&input.path, &error))?;
    input.warn_of_metadata(&archive);
    let model = Model::of(&archive);
    let tensor = model
        .tensors
        .iter()
        .find(|tensor| tensor.name() == args.name);
    let Some(tensor) = tensor else {
        return Err(Failure::about(
            &input.path,
            &archive.no_such_tensor(&args.name),
        ));
    };
    let head = match (npy, header(tensor)) {
        (false, _) => Vec::new(),
        (true, Some(head)) => head,
        (true, None) => {
            let name = escape(&args.name).into_owned();
            complain(&format!(
                "{name:?}: NumPy has no such dtype; extract the bytes as .bin"
            ));
            return Ok(ExitCode::from(UNSUPPORTED));
        }
    };
    let data = tensor
        .data()
        .map_err(|error| Failure::about(&input.path, &error))?;
    let meter = Meter::new(data.size(), common);
    let progress = |bytes| meter.tick(bytes);
    let write = || -> Result<(), Error> {
        let mut file = AtomicFile::create(&args.output, &WriteOptions::default())?;
        file.put(&head)?;
        let mut sink = Sink::new(file);
        sink.copy_from(&data, &Ticker::new(Some(&progress)))?;
        Ok(sink.into_inner().commit()?)
    };
    write().map_err(|error| Failure::about(&args.output, &error))?;
    Ok(ExitCode::SUCCESS)
}

/// The head of an .npy file, version 1.0 or, for very many dims, 2.0: a dictionary as Python would
/// print it, filled up so that the data starts at a multiple of 64.
fn header(tensor: &ModelTensor) -> Option<Vec<u8>> {
    let kind = match tensor.dtype()? {
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
    };
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
            head.extend_from_slice(&u32::try_from(len).ok()?.to_le_bytes());
            12
        }
    };
    head.extend_from_slice(dict.as_bytes());
    let len = (fixed + dict.len() + 1).next_multiple_of(64);
    head.resize(len - 1, b' ');
    head.push(b'\n');
    Some(head)
}
