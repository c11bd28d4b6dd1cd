use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use tensor_core::{AlignedBytes, Cast, Source, Ticker, walk};
use tensorfmt::convert::{Model, ModelTensor};
use tensorfmt::{DType, Error, Value, to_json};

use crate::Outcome;
use crate::cli::{Common, Diff};
use crate::failure::{Failure, INVALID};
use crate::input::Input;
use crate::output::{Out, escape};
use crate::progress::Meter;

#[derive(Serialize)]
struct Document {
    same: bool,
    tensors: Vec<Line>,
    metadata: Vec<MetaLine>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    /// `only_in_a`, `only_in_b`, `dtype`, `shape`, `values` or `unreadable`.
    difference: &'static str,
    a: Option<String>,
    b: Option<String>,
    #[serde(flatten)]
    values: Option<Values>,
}

/// How the values of a tensor differ.
#[derive(Clone, Copy, Default, Serialize)]
struct Values {
    count: u64,
    /// Of the first element that differs, counted row by row.
    first_index: u64,
    max_abs: Option<f64>,
    max_rel: Option<f64>,
}

#[derive(Serialize)]
struct MetaLine {
    key: String,
    a: Option<serde_json::Value>,
    b: Option<serde_json::Value>,
}

pub(crate) fn run(args: &Diff, common: &Common) -> Outcome {
    if !(args.atol >= 0.0 && args.rtol >= 0.0) {
        return Err(Failure::usage("--atol and --rtol are numbers from 0 up"));
    }
    let open = |path| {
        let input = Input::new(path, common)?;
        let archive = input
            .open()
            .map_err(|error| Failure::about(&input.path, &error))?;
        input.warn_of_metadata(&archive);
        Ok::<_, Failure>((Model::of(&archive), archive.format(), input))
    };
    // The inputs keep what was spooled from standard input.
    let (a, format_a, input_a) = open(&args.a)?;
    let (b, format_b, _input_b) = open(&args.b)?;
    let bytes = |tensor: &ModelTensor| tensor.data().map_or(0, |data| data.size());
    let total = a.tensors.iter().map(bytes).fold(0, u64::saturating_add);
    let meter = Meter::new(total, common);
    let progress = |bytes| meter.tick(bytes);
    let ticker = Ticker::new(Some(&progress));
    let tensors = tensors(&a, &b, args, common, &ticker)
        .map_err(|error| Failure::about(&input_a.path, &error))?;
    drop(meter);
    let metadata = metadata(&a.metadata, &b.metadata);
    // A format may be unable to hold the other one's metadata.
    let same = tensors.is_empty() && (metadata.is_empty() || format_a != format_b);
    let mut out = Out::new();
    if args.json {
        out.json(&Document {
            same,
            tensors,
            metadata,
        })?;
    } else {
        for line in &tensors {
            out.line(&describe(line))?;
        }
        for line in &metadata {
            let show = |value: &Option<serde_json::Value>| {
                value.as_ref().map_or("-".to_owned(), ToString::to_string)
            };
            let (a, b) = (show(&line.a), show(&line.b));
            out.line(&escape(&format!("metadata {:?}: {a} / {b}", line.key)))?;
        }
        if same {
            out.line("same")?;
        }
    }
    out.finish()?;
    Ok(ExitCode::from(if same { 0 } else { INVALID }))
}

fn describe(line: &Line) -> String {
    let name = escape(&line.name).into_owned();
    match (line.difference, &line.a, &line.b, line.values) {
        ("only_in_a", ..) => format!("{name}: only in the first file"),
        ("only_in_b", ..) => format!("{name}: only in the second file"),
        (_, _, _, Some(values)) => {
            let mut text = format!(
                "{name}: {} values differ, first at {}",
                values.count, values.first_index
            );
            if let (Some(abs), Some(rel)) = (values.max_abs, values.max_rel) {
                text.push_str(&format!(", by up to {abs:e} ({rel:e} of the value)"));
            }
            text
        }
        (what, Some(a), Some(b), _) => format!("{name}: {what} {} / {}", escape(a), escape(b)),
        (what, ..) => format!("{name}: {what}"),
    }
}

fn tensors(
    a: &Model,
    b: &Model,
    args: &Diff,
    common: &Common,
    ticker: &Ticker<'_>,
) -> Result<Vec<Line>, Error> {
    let named: HashMap<&str, &ModelTensor> = b
        .tensors
        .iter()
        .map(|tensor| (tensor.name(), tensor))
        .collect();
    let mine: std::collections::HashSet<&str> = a.tensors.iter().map(ModelTensor::name).collect();
    let lines = tensor_core::parallel::map(common.threads, a.tensors.len(), |at| {
        let Some(tensor) = a.tensors.get(at) else {
            return Ok(None);
        };
        match named.get(tensor.name()) {
            Some(other) => compare(tensor, other, args, ticker),
            None => Ok(Some(line(tensor.name(), "only_in_a", None, None))),
        }
    })?;
    let mut lines: Vec<Line> = lines.into_iter().flatten().collect();
    let only = b
        .tensors
        .iter()
        .filter(|tensor| !mine.contains(tensor.name()));
    lines.extend(only.map(|tensor| line(tensor.name(), "only_in_b", None, None)));
    Ok(lines)
}

fn line(name: &str, difference: &'static str, a: Option<String>, b: Option<String>) -> Line {
    Line {
        name: name.to_owned(),
        difference,
        a,
        b,
        values: None,
    }
}

fn compare(
    a: &ModelTensor,
    b: &ModelTensor,
    args: &Diff,
    ticker: &Ticker<'_>,
) -> Result<Option<Line>, Error> {
    let name = a.name();
    if a.dtype_name() != b.dtype_name() {
        let names = (a.dtype_name().to_owned(), b.dtype_name().to_owned());
        return Ok(Some(line(name, "dtype", Some(names.0), Some(names.1))));
    }
    if a.shape() != b.shape() {
        let shapes = (a.shape().to_string(), b.shape().to_string());
        return Ok(Some(line(name, "shape", Some(shapes.0), Some(shapes.1))));
    }
    let (Ok(rows_a), Ok(rows_b)) = (a.rows(), b.rows()) else {
        return Ok(Some(line(name, "unreadable", None, None)));
    };
    let dtype = a.dtype().unwrap_or(DType::Opaque);
    let size = dtype.size().unwrap_or(1);
    let Some(first) = first_difference(&rows_a, &rows_b, ticker)? else {
        return Ok(None);
    };
    let mut values = Values {
        count: 1,
        first_index: first / size,
        ..Values::default()
    };
    if Cast::<Arc<dyn Source>>::is_supported(dtype, DType::F64) {
        match numbers(rows_a, rows_b, dtype, args)? {
            Some(numbers) => values = numbers,
            None => return Ok(None),
        }
    }
    Ok(Some(Line {
        values: Some(values),
        ..line(name, "values", None, None)
    }))
}

/// The offset of the first byte that differs.
fn first_difference(
    a: &Arc<dyn Source>,
    b: &Arc<dyn Source>,
    ticker: &Ticker<'_>,
) -> Result<Option<u64>, Error> {
    if a.size() != b.size() {
        return Ok(Some(a.size().min(b.size())));
    }
    let (mut offset, mut first) = (0u64, None);
    let mut buffer = AlignedBytes::zeroed(0)?;
    walk::<Error>(a, 0..a.size(), ticker, |piece| {
        if buffer.as_slice().len() < piece.len() {
            buffer = AlignedBytes::zeroed(piece.len())?;
        }
        let other = buffer
            .as_mut_slice()
            .get_mut(..piece.len())
            .unwrap_or_default();
        b.read_into(offset, other)?;
        if first.is_none() && piece != other {
            let at = piece.iter().zip(other.iter()).position(|(a, b)| a != b);
            first = at.map(|at| offset + at as u64);
        }
        offset += piece.len() as u64;
        Ok(())
    })?;
    Ok(first)
}

/// How far the values are apart where they are beyond the tolerance; `None` where none is. Equal
/// bits are equal, and NaN equals NaN where there is a tolerance.
fn numbers(
    a: Arc<dyn Source>,
    b: Arc<dyn Source>,
    dtype: DType,
    args: &Diff,
) -> Result<Option<Values>, Error> {
    let exact = args.atol == 0.0 && args.rtol == 0.0;
    let size = dtype.size().unwrap_or(1);
    let cast = |source| {
        Cast::new(source, dtype, DType::F64).map_err(|error| Error::Usage(error.to_string()))
    };
    let (cast_a, cast_b) = (cast(a.clone())?, cast(b.clone())?);
    let per = usize::try_from(size).unwrap_or(1);
    let mut values = Values {
        max_abs: Some(0.0),
        max_rel: Some(0.0),
        ..Values::default()
    };
    let window = 1u64 << 16;
    let elements = a.size() / size;
    let mut start = 0u64;
    while start < elements {
        let end = (start + window).min(elements);
        let (raw_a, raw_b) = (
            a.read(start * size..end * size)?,
            b.read(start * size..end * size)?,
        );
        if raw_a != raw_b {
            let (f_a, f_b) = (
                cast_a.read(start * 8..end * 8)?,
                cast_b.read(start * 8..end * 8)?,
            );
            let bits = raw_a.chunks_exact(per).zip(raw_b.chunks_exact(per));
            let floats = f_a.chunks_exact(8).zip(f_b.chunks_exact(8));
            for (index, ((x_bits, y_bits), (x, y))) in (start..).zip(bits.zip(floats)) {
                if x_bits == y_bits {
                    continue;
                }
                let float = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap_or_default());
                let (x, y) = (float(x), float(y));
                let apart = (x - y).abs();
                let both_nan = x.is_nan() && y.is_nan();
                let near = apart <= args.atol + args.rtol * y.abs() || x == y || both_nan;
                if !exact && near {
                    continue;
                }
                if values.count == 0 {
                    values.first_index = index;
                }
                values.count += 1;
                if apart.is_finite() {
                    values.max_abs = values.max_abs.map(|most| most.max(apart));
                    let relative = if y == 0.0 { 0.0 } else { apart / y.abs() };
                    values.max_rel = values.max_rel.map(|most| most.max(relative));
                }
            }
        }
        start = end;
    }
    Ok((values.count > 0).then_some(values))
}

fn metadata(a: &[(String, Value)], b: &[(String, Value)]) -> Vec<MetaLine> {
    let (in_a, in_b) = (first_values(a), first_values(b));
    let get = |values: &HashMap<&str, &Value>, key: &str| values.get(key).copied().map(to_json);
    let keys = a.iter().map(|(key, _)| key);
    let more = b
        .iter()
        .map(|(key, _)| key)
        .filter(|key| !in_a.contains_key(key.as_str()));
    keys.chain(more)
        .map(|key| MetaLine {
            key: key.clone(),
            a: get(&in_a, key),
            b: get(&in_b, key),
        })
        .filter(|line| line.a != line.b)
        .collect()
}

/// The values by key; of a key that is there twice, the first one.
fn first_values(pairs: &[(String, Value)]) -> HashMap<&str, &Value> {
    let mut values = HashMap::new();
    for (key, value) in pairs {
        values.entry(key.as_str()).or_insert(value);
    }
    values
}
