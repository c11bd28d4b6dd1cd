//! What two files hold, held against each other.

mod compare;
mod tolerance;

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

use compare::{Failed, Pair, Values};
use serde::Serialize;
use tensor_core::{Kind, Order, Ticker};
use tensorfmt::convert::{Model, ModelTensor};
use tensorfmt::{Error, Value, to_json};
use tolerance::Tolerance;

use crate::Outcome;
use crate::cli::{Common, Diff};
use crate::failure::{Failure, INVALID, exit_code};
use crate::input::Input;
use crate::output::{Out, escape};
use crate::progress::Meter;

#[derive(Serialize)]
struct Document {
    same: bool,
    tensors: Vec<Line>,
    metadata: Vec<MetaLine>,
    /// Whether differences of metadata count.
    metadata_counts: bool,
}

#[derive(Serialize)]
struct Line {
    name: String,
    /// `only_in_a`, `only_in_b`, `dtype`, `shape`, `order`, `length`, `values`, `bits`, `bytes` or
    /// `unreadable`.
    difference: &'static str,
    a: Option<String>,
    b: Option<String>,
    #[serde(flatten)]
    values: Option<Values>,
    /// Why a tensor can't be read, where that is no difference.
    #[serde(skip)]
    kind: Option<Kind>,
}

#[derive(Serialize)]
struct MetaLine {
    key: String,
    a: Option<serde_json::Value>,
    b: Option<serde_json::Value>,
}

pub(crate) fn run(args: &Diff, common: &Common) -> Outcome {
    let tolerances = [args.atol, args.rtol];
    let is_sound = |tolerance: &f64| tolerance.is_finite() && *tolerance >= 0.0;
    if !tolerances.iter().flatten().all(is_sound) {
        return Err(Failure::usage(
            "--atol and --rtol are finite numbers from 0 up",
        ));
    }
    let is_asked_for = tolerances.iter().any(Option::is_some);
    let zero = |tolerance: Option<f64>| tolerance.unwrap_or(0.0);
    let tolerance = is_asked_for.then(|| Tolerance::new(zero(args.atol), zero(args.rtol)));
    let open = |path| {
        let input = Input::new(path, common)?;
        let archive = input
            .open()
            .map_err(|error| Failure::about(&input.path, &error))?;
        input.warn(&archive);
        Ok::<_, Failure>((Model::of(&archive), archive.format(), input))
    };
    // The inputs keep what was spooled from standard input.
    let (a, format_a, input_a) = open(&args.a)?;
    let (b, format_b, input_b) = open(&args.b)?;
    let bytes = |tensor: &ModelTensor| tensor.data().map_or(0, |data| data.size());
    let total = a.tensors.iter().map(bytes).fold(0, u64::saturating_add);
    let meter = Meter::new(total, common);
    let progress = |bytes| meter.tick(bytes);
    let ticker = Ticker::new(Some(&progress));
    let tensors = tensors(&a, &b, tolerance.as_ref(), common, &ticker);
    let tensors = tensors.map_err(|failed| match failed {
        Failed::A(error) => Failure::about(&input_a.path, &error),
        Failed::B(error) => Failure::about(&input_b.path, &error),
    })?;
    drop(meter);
    let metadata = metadata(&a.metadata, &b.metadata);
    // A format may be unable to hold the other one's metadata.
    let metadata_counts = format_a == format_b && !args.tensors_only;
    let same = tensors.is_empty() && (metadata.is_empty() || !metadata_counts);
    let exit = exit(same, &tensors, metadata_counts && !metadata.is_empty());
    let mut out = Out::new();
    if args.json {
        out.json(&Document {
            same,
            tensors,
            metadata,
            metadata_counts,
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
        let uncounted = match (metadata.is_empty() || metadata_counts, args.tensors_only) {
            (true, _) => None,
            (false, true) => Some("metadata does not count with --tensors-only: "),
            (false, false) => Some("metadata does not count between two formats: "),
        };
        out.line(&summary(same, &tensors, &metadata, uncounted))?;
    }
    out.finish()?;
    Ok(ExitCode::from(exit))
}

/// 1 where something differs or is damaged; where some tensors can't be read and all else is the
/// same, as that says.
fn exit(same: bool, tensors: &[Line], metadata_differs: bool) -> u8 {
    if same {
        return 0;
    }
    let unread = |line: &Line| line.kind.map(exit_code);
    let codes: Vec<Option<u8>> = tensors.iter().map(unread).collect();
    match codes.iter().all(Option::is_some) && !metadata_differs {
        true if codes.contains(&Some(INVALID)) => INVALID,
        true => codes.into_iter().flatten().max().unwrap_or(INVALID),
        false => INVALID,
    }
}

/// What counted, and that it is the same.
fn summary(
    same: bool,
    tensors: &[Line],
    metadata: &[MetaLine],
    uncounted: Option<&'static str>,
) -> String {
    let head = uncounted.unwrap_or_default();
    if same {
        return format!("{head}same");
    }
    let count = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    let unread = tensors.iter().filter(|line| line.kind.is_some()).count();
    let keys = if uncounted.is_some() {
        0
    } else {
        metadata.len()
    };
    let parts = [
        count(tensors.len() - unread, "tensor", "tensors"),
        count(keys, "metadata value", "metadata values"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let unread = count(
        unread,
        "tensor can't be compared",
        "tensors can't be compared",
    );
    let differ = (!parts.is_empty()).then(|| format!("differ: {}", parts.join(", ")));
    let said: Vec<String> = [differ, unread].into_iter().flatten().collect();
    format!("{head}{}", said.join("; "))
}

fn describe(line: &Line) -> String {
    let name = escape(&line.name).into_owned();
    match (line.difference, &line.a, &line.b, line.values) {
        ("only_in_a", ..) => format!("{name}: only in the first file"),
        ("only_in_b", ..) => format!("{name}: only in the second file"),
        (what, _, _, Some(values)) => format!("{name}: {}", differences(what, &values)),
        ("unreadable", a, b, _) => {
            let reasons = [("first", a), ("second", b)];
            let said = reasons.into_iter().filter_map(|(which, reason)| {
                let reason = reason.as_ref()?;
                Some(format!("in the {which} file: {}", escape(reason)))
            });
            let said: Vec<String> = said.collect();
            format!("{name}: unreadable {}", said.join("; "))
        }
        (what, Some(a), Some(b), _) => format!("{name}: {what} {} / {}", escape(a), escape(b)),
        (what, ..) => format!("{name}: {what}"),
    }
}

/// How values differ, in words.
fn differences(what: &str, values: &Values) -> String {
    let Values {
        count, first_index, ..
    } = values;
    let differ = |what: &str| match count {
        1 => format!("1 {what} differs"),
        _ => format!("{count} {what}s differ"),
    };
    let bits = "the sign of a zero, the payload of a NaN, or a bool other than 0 and 1";
    match what {
        "bytes" => return format!("{}, first at {first_index}", differ("byte")),
        "bits" => {
            let differ = differ("value");
            return format!("{differ} in the bits only ({bits}), first at {first_index}");
        }
        _ => {}
    }
    let mut text = format!("{}, first at {first_index}", differ("value"));
    if let (Some(abs), Some(rel)) = (values.max_abs, values.max_rel) {
        text.push_str(&format!(", by up to {abs} ({:e} of the value)", rel.0));
    }
    if values.nan > 0 {
        text.push_str(&format!("; {} are NaN on one side only", values.nan));
    }
    if values.bits_only > 0 {
        text.push_str(&format!("; {} in the bits only ({bits})", values.bits_only));
    }
    text
}

fn tensors(
    a: &Model,
    b: &Model,
    tolerance: Option<&Tolerance>,
    common: &Common,
    ticker: &Ticker<'_>,
) -> Result<Vec<Line>, Failed> {
    let named: HashMap<&str, &ModelTensor> = b
        .tensors
        .iter()
        .map(|tensor| (tensor.name(), tensor))
        .collect();
    let mine: HashSet<&str> = a.tensors.iter().map(ModelTensor::name).collect();
    let lines = tensor_core::parallel::map(common.threads, a.tensors.len(), |at| {
        let Some(tensor) = a.tensors.get(at) else {
            return Ok(None);
        };
        match named.get(tensor.name()) {
            Some(other) => compare(tensor, other, tolerance, ticker),
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
        kind: None,
    }
}

/// A tensor that can't be read, in one file or both.
fn unreadable(name: &str, a: Option<&Error>, b: Option<&Error>) -> Line {
    let kinds = [a, b].map(|error| error.map(Error::kind));
    let kinds = || kinds.into_iter().flatten();
    // Damage outranks what is merely not supported.
    let kind = kinds().find(|kind| *kind != Kind::Unsupported);
    let text = |error: &Error| match error {
        Error::Refused(refusals) => {
            let reasons: Vec<&str> = refusals.iter().map(|one| &*one.reason).collect();
            reasons.join("; ")
        }
        error => error.to_string(),
    };
    Line {
        kind: kind.or_else(|| kinds().next()),
        ..line(name, "unreadable", a.map(text), b.map(text))
    }
}

fn compare(
    a: &ModelTensor,
    b: &ModelTensor,
    tolerance: Option<&Tolerance>,
    ticker: &Ticker<'_>,
) -> Result<Option<Line>, Failed> {
    let name = a.name();
    let differs = |what, a: String, b: String| Ok(Some(line(name, what, Some(a), Some(b))));
    if a.dtype_name() != b.dtype_name() {
        return differs(
            "dtype",
            a.dtype_name().to_owned(),
            b.dtype_name().to_owned(),
        );
    }
    if a.shape() != b.shape() {
        return differs("shape", a.shape().to_string(), b.shape().to_string());
    }
    // Elements of no known size can't be moved: bytes are compared as they are.
    let has_size = a.dtype().is_some_and(|dtype| dtype.size().is_some());
    if !has_size && a.order() != b.order() && !a.shape().is_order_free() {
        let letter = |order: Order| order.letter().to_owned();
        return differs("order", letter(a.order()), letter(b.order()));
    }
    let rows = |tensor: &ModelTensor| match has_size {
        true => tensor.rows(),
        false => tensor.data(),
    };
    let (rows_a, rows_b) = match (rows(a), rows(b)) {
        (Ok(a), Ok(b)) => (a, b),
        (a, b) => return Ok(Some(unreadable(name, a.err().as_ref(), b.err().as_ref()))),
    };
    if rows_a.size() != rows_b.size() {
        let bytes = |size: u64| format!("{size} bytes");
        return differs("length", bytes(rows_a.size()), bytes(rows_b.size()));
    }
    let pair = Pair {
        a: rows_a,
        b: rows_b,
        dtype: a.dtype().filter(|_| has_size),
    };
    let ends_all = |error: &Error| matches!(error.kind(), Kind::Io | Kind::Cancelled | Kind::Build);
    let values = match pair.compare(tolerance, ticker) {
        Ok(None) => return Ok(None),
        Ok(Some(values)) => values,
        Err(Failed::A(error)) if !ends_all(&error) => {
            return Ok(Some(unreadable(name, Some(&error), None)));
        }
        Err(Failed::B(error)) if !ends_all(&error) => {
            return Ok(Some(unreadable(name, None, Some(&error))));
        }
        Err(failed) => return Err(failed),
    };
    let what = match has_size {
        false => "bytes",
        true if values.bits_only == values.count => "bits",
        true => "values",
    };
    Ok(Some(Line {
        values: Some(values),
        ..line(name, what, None, None)
    }))
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
