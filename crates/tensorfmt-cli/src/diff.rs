//! The content of two files, compared.

mod across;
mod compare;
mod sides;
mod tolerance;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use compare::{Failed, Form, Pair, Values};
use serde::Serialize;
use sides::{Side, sides};
use tensor_core::codec::Ticker;
use tensor_core::{Kind, Order};
use tensorfmt::convert::{Model, ModelTensor, Tensors};
use tensorfmt::{Archive, Entry, Error, Value, Work, to_json};
use tolerance::Tolerance;

use crate::Outcome;
use crate::brief::dims;
use crate::cli::{Common, Diff};
use crate::failure::{Failure, INVALID, exit_code};
use crate::input::Input;
use crate::output::{BATCH, Listing, Out, escape, shown};
use crate::progress::Meter;
use crate::shared::{Key, MAX_REMEMBERED};

/// What the JSON has before the tensors.
#[derive(Serialize)]
struct Head {}

/// And what after them.
#[derive(Serialize)]
struct Tail {
    metadata: Vec<MetaLine>,
    only_in_a: usize,
    only_in_b: usize,
    /// Tensors of two dtypes, whose values were compared.
    other_dtypes: u64,
    /// Whether differences of metadata count.
    metadata_counts: bool,
    same: bool,
}

#[derive(Clone, Serialize)]
struct Line {
    name: String,
    /// `only_in_a`, `only_in_b`, `dtype`, `shape`, `order`, `length`, `values`, `bits`, `bytes`,
    /// `unreadable`, or `attribute` where only what its format says about the tensor differs.
    difference: &'static str,
    /// The attribute that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    a: Option<String>,
    b: Option<String>,
    #[serde(flatten)]
    values: Option<Values>,
    /// Why a tensor can't be read, where that does not count as a difference.
    #[serde(skip)]
    kind: Option<Kind>,
}

/// How many characters of a tensor's attribute are shown.
const MOST_SAID: usize = 1000;

/// A value of the metadata that differs.
#[derive(Serialize)]
struct MetaLine {
    key: String,
    a: Option<serde_json::Value>,
    b: Option<serde_json::Value>,
}

pub(crate) fn run(args: &Diff, common: &Common) -> Outcome {
    let tolerance = tolerance(args)?;
    // The inputs keep what was spooled from standard input.
    let (a, b) = Input::both((&args.a, &args.b), common)?;
    let (a, input_a) = open(a, None)?;
    let (b, input_b) = open(b, Some(&a))?;
    let (side_a, side_b) = sides(&a, &b, args)?;
    let metadata = metadata(&Model::about(&a).metadata, &Model::about(&b).metadata);
    let one_format = a.format() == b.format();
    let how = How {
        tolerance: tolerance.as_ref(),
        across: args.values,
        other_dtypes: AtomicU64::new(0),
    };
    let pairs = Pairs {
        a: (Tensors::new(&a), &side_a),
        b: (Tensors::new(&b), &side_b),
        said: one_format.then(|| (Tensors::described(&a), Tensors::described(&b))),
        shared: Mutex::new(None),
        known: Mutex::default(),
    };
    let mut answer = Answer::new(args)?;
    let compared = answer.tensors(&pairs, &how, common)?;
    compared.map_err(|failed| match failed {
        Failed::A(error) => Failure::about(&input_a.path, &error),
        Failed::B(error) => Failure::about(&input_b.path, &error),
    })?;
    answer.end(Rest {
        metadata,
        other_dtypes: how.other_dtypes.into_inner(),
        // A format may be unable to hold the other one's metadata.
        metadata_counts: one_format && !args.tensors_only,
        tensors_only: args.tensors_only,
    })
}

/// How far apart values may be; `None` where bits are compared.
fn tolerance(args: &Diff) -> Result<Option<Tolerance>, Failure> {
    let tolerances = [args.atol, args.rtol];
    let is_sound = |tolerance: &f64| tolerance.is_finite() && *tolerance >= 0.0;
    if !tolerances.iter().flatten().all(is_sound) {
        return Err(Failure::usage(
            "--atol and --rtol are finite numbers from 0 up",
        ));
    }
    let is_asked_for = tolerances.iter().any(Option::is_some);
    let zero = |tolerance: Option<f64>| tolerance.unwrap_or(0.0);
    Ok((is_asked_for || args.values).then(|| Tolerance::new(zero(args.atol), zero(args.rtol))))
}

/// Opens an input, if there is memory to hold it against all of the other one.
fn open(input: Input, other: Option<&Archive>) -> Result<(Archive, Input), Failure> {
    let archive = input
        .open_beside(other.into_iter(), Work::Compare, false)
        .map_err(|error| Failure::about(&input.path, &error))?;
    input.allows_beside(&archive, other.into_iter(), Work::Compare)?;
    input.warn(&archive);
    Ok((archive, input))
}

/// The report on standard output, line by line.
struct Answer {
    listing: Listing,
    differences: Differences,
}

/// What is printed after the tensors.
struct Rest {
    metadata: Vec<MetaLine>,
    other_dtypes: u64,
    metadata_counts: bool,
    tensors_only: bool,
}

impl Answer {
    fn new(args: &Diff) -> Result<Self, Failure> {
        let listing = match args.json {
            true => Listing::Json(Out::new().list(&Head {}, "tensors")?),
            false => Listing::Lines(Out::new()),
        };
        let differences = Differences::default();
        Ok(Self {
            listing,
            differences,
        })
    }

    fn line(&mut self, line: &Line) -> Result<(), Failure> {
        self.differences.note(line);
        match &mut self.listing {
            Listing::Json(list) => list.item(line),
            Listing::Lines(out) => out.line(&describe(line)),
        }
    }

    /// Says what differs of all tensors, until a file fails.
    fn tensors(
        &mut self,
        pairs: &Pairs<'_>,
        how: &How<'_>,
        common: &Common,
    ) -> Result<Result<(), Failed>, Failure> {
        let ((_, side_a), (_, side_b)) = (&pairs.a, &pairs.b);
        let total = side_a.entries.iter().filter_map(|entry| entry.nbytes());
        let meter = Meter::new(total.fold(0, u64::saturating_add), common);
        let progress = |bytes| meter.tick(bytes);
        let ticker = Ticker::new(Some(&progress));
        for start in (0..side_a.entries.len()).step_by(BATCH) {
            match pairs.compare(start, how, common.threads, &ticker) {
                Ok(lines) => lines.iter().try_for_each(|line| self.line(line))?,
                Err(failed) => return Ok(Err(failed)),
            }
        }
        for at in 0..side_b.entries.len() {
            if side_a.find(side_b.name(at), at).is_none() {
                self.line(&line(side_b.name(at), "only_in_b", None, None))?;
            }
        }
        Ok(Ok(()))
    }

    /// Says the rest, and whether all is the same.
    fn end(self, rest: Rest) -> Outcome {
        let differences = self.differences;
        let values = rest.metadata.len() + differences.attributes;
        let same = differences.tensors == 0 && (values == 0 || !rest.metadata_counts);
        let metadata_counts = rest.metadata_counts;
        match self.listing {
            Listing::Json(list) => list.end(&Tail {
                metadata: rest.metadata,
                only_in_a: differences.only.0,
                only_in_b: differences.only.1,
                other_dtypes: rest.other_dtypes,
                metadata_counts,
                same,
            })?,
            Listing::Lines(mut out) => {
                for line in rest.lines() {
                    out.line(&line)?;
                }
                out.line(&differences.summary(same, values, rest.uncounted(values)))?;
                out.finish()?;
            }
        }
        Ok(ExitCode::from(
            differences.exit(metadata_counts && values > 0),
        ))
    }
}

impl Rest {
    /// What of the metadata differs, and how many tensors were compared by their values alone.
    fn lines(&self) -> impl Iterator<Item = String> {
        let show = |value: &Option<serde_json::Value>| {
            value.as_ref().map_or("-".to_owned(), ToString::to_string)
        };
        let differs = move |line: &MetaLine| {
            let (a, b) = (show(&line.a), show(&line.b));
            escape(&format!("metadata {:?}: {a} / {b}", line.key)).into_owned()
        };
        let other = match self.other_dtypes {
            0 => None,
            1 => Some("1 tensor has another dtype; its values are compared".to_owned()),
            n => Some(format!(
                "{n} tensors have another dtype; their values are compared"
            )),
        };
        self.metadata.iter().map(differs).chain(other)
    }

    /// Why this many values of the metadata that differ do not count, where they don't.
    fn uncounted(&self, values: usize) -> Option<&'static str> {
        match (values == 0 || self.metadata_counts, self.tensors_only) {
            (true, _) => None,
            (false, true) => Some("metadata does not count with --tensors-only: "),
            (false, false) => Some("metadata does not count between two formats: "),
        }
    }
}

/// How many tensors differ, and how many of them can't be compared.
#[derive(Default)]
struct Differences {
    tensors: usize,
    /// How many of them are in the first or the second file only.
    only: (usize, usize),
    /// Attributes of tensors that differ.
    attributes: usize,
    unread: usize,
    /// What those say that can't be: damage, or what is not supported.
    invalid: bool,
    worst: u8,
}

impl Differences {
    fn note(&mut self, line: &Line) {
        if line.key.is_some() {
            self.attributes += 1;
            return;
        }
        self.tensors += 1;
        self.only.0 += usize::from(line.difference == "only_in_a");
        self.only.1 += usize::from(line.difference == "only_in_b");
        if let Some(code) = line.kind.map(exit_code) {
            self.unread += 1;
            self.invalid |= code == INVALID;
            self.worst = self.worst.max(code);
        }
    }

    /// 1 where something differs or is damaged; where only tensors differ that can't be read, the exit code
    /// of the error about these.
    fn exit(&self, metadata_differs: bool) -> u8 {
        match (self.tensors, metadata_differs) {
            (0, false) => 0,
            (tensors, false) if tensors == self.unread && !self.invalid => self.worst,
            _ => INVALID,
        }
    }

    /// What counted, and that it is the same.
    fn summary(&self, same: bool, metadata: usize, uncounted: Option<&'static str>) -> String {
        let head = uncounted.unwrap_or_default();
        if same {
            return format!("{head}same");
        }
        let count = |count: usize, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        };
        let keys = if uncounted.is_some() { 0 } else { metadata };
        let parts = [
            count(self.tensors - self.unread, "tensor", "tensors"),
            count(keys, "metadata value", "metadata values"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let one = "tensor can't be compared";
        let unread = count(self.unread, one, "tensors can't be compared");
        let differ = (!parts.is_empty()).then(|| format!("differ: {}", parts.join(", ")));
        let only = |count: usize, which: &str| match count {
            0 => None,
            1 => Some(format!("1 tensor is only in the {which} file")),
            count => Some(format!("{count} tensors are only in the {which} file")),
        };
        let only = [only(self.only.0, "first"), only(self.only.1, "second")];
        let said = [differ, unread].into_iter().chain(only).flatten();
        let said: Vec<String> = said.collect();
        format!("{head}{}", said.join("; "))
    }
}

fn describe(line: &Line) -> String {
    let name = shown(&line.name).into_owned();
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
        _ if line.key.is_some() => {
            let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
            let (key, a, b) = (
                line.key.as_deref().unwrap_or_default(),
                show(&line.a),
                show(&line.b),
            );
            escape(&format!("{name}: attribute {key:?}: {a} / {b}")).into_owned()
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
    if let Some(mean) = values.mean_abs {
        text.push_str(&format!(", {:e} on average", mean.0));
    }
    if values.nan > 0 {
        text.push_str(&format!("; {} are NaN on one side only", values.nan));
    }
    if values.bits_only > 0 {
        text.push_str(&format!("; {} in the bits only ({bits})", values.bits_only));
    }
    text
}

/// How tensors are compared.
struct How<'a> {
    tolerance: Option<&'a Tolerance>,
    /// Whether values of two dtypes are compared.
    across: bool,
    /// How many tensors of two dtypes were compared.
    other_dtypes: AtomicU64,
}

/// The tensors of two archives by their names.
struct Pairs<'a> {
    a: (Tensors<'a>, &'a Side<'a>),
    b: (Tensors<'a>, &'a Side<'a>),
    /// The same with what is said about them, where both are of one format, which says the same things.
    said: Option<(Tensors<'a>, Tensors<'a>)>,
    /// What was found last about two objects that many tensors are parts of.
    shared: Mutex<Option<(&'a str, Arc<Said>)>>,
    /// What was found about values that several tensors share, in both files.
    known: Mutex<HashMap<(Key, Key), Option<Line>>>,
}

/// Keys of attributes that differ, with the values of both files.
type Said = Vec<(String, Option<String>, Option<String>)>;

impl<'a> Pairs<'a> {
    /// What is said about the tensor and differs. All parts of an object say the same, but for their own
    /// names, which are equal where those of the object and of the whole are.
    fn attributes(&self, name: &str, a: &Entry<'a>, b: &Entry<'_>) -> Vec<Line> {
        let Some((in_a, in_b)) = &self.said else {
            return Vec::new();
        };
        let find = || {
            Arc::new(if a.says_as(*b) {
                Vec::new()
            } else if a.is_said_at_length() || b.is_said_at_length() {
                said_in_short(a, b)
            } else {
                said(&in_a.get(*a), &in_b.get(*b))
            })
        };
        let object = a.object().filter(|&object| b.object() == Some(object));
        let known = || self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = match object {
            None => find(),
            Some(object) => {
                let last = known().clone().filter(|(last, _)| *last == object);
                last.map_or_else(
                    || {
                        let found = find();
                        *known() = Some((object, Arc::clone(&found)));
                        found
                    },
                    |(_, found)| found,
                )
            }
        };
        let lines = differs.iter().map(|(key, x, y)| Line {
            key: Some(key.clone()),
            ..line(name, "attribute", x.clone(), y.clone())
        });
        lines.collect()
    }

    /// What `find` finds, or has found about the same bytes. They are the same values where both are in one
    /// order and of one shape.
    fn once(
        &self,
        name: &str,
        (entry_a, a): (&Entry<'_>, &ModelTensor),
        (entry_b, b): (&Entry<'_>, &ModelTensor),
        find: impl FnOnce() -> Result<Option<Line>, Failed>,
    ) -> Result<Option<Line>, Failed> {
        let is_plain = [a, b].iter().all(|one| one.order() == Order::RowMajor);
        let is_one = a.dtype_name() == b.dtype_name() && a.shape() == b.shape();
        let key = match is_plain && is_one {
            true => {
                let (side_a, side_b) = (self.a.1, self.b.1);
                let a = Key::of(side_a.archive, entry_a);
                a.zip(Key::of(side_b.archive, entry_b))
            }
            false => None,
        };
        let Some(key) = key else {
            return find();
        };
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().get(&key).cloned();
        let found = match found {
            Some(found) => found,
            None => {
                let found = find()?;
                let mut known = known();
                if known.len() >= MAX_REMEMBERED {
                    known.clear();
                }
                known.insert(key, found.clone());
                found
            }
        };
        Ok(found.map(|found| Line {
            name: name.to_owned(),
            ..found
        }))
    }

    /// What differs in a batch of the tensors of the first archive.
    fn compare(
        &self,
        start: usize,
        how: &How<'_>,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<Vec<Line>, Failed> {
        let ((tensors_a, a), (tensors_b, b)) = (&self.a, &self.b);
        let count = a.entries.len().saturating_sub(start).min(BATCH);
        let lines = tensor_core::parallel::map(threads, count, |at| {
            let at = start + at;
            let Some(entry) = a.entries.get(at) else {
                return Ok(Vec::new());
            };
            let name = a.name(at);
            match b.find(name, at) {
                Some(other) => {
                    let (a, b) = (tensors_a.get(entry), tensors_b.get(other));
                    let mut lines = Vec::new();
                    let find = || compare(name, (&a, &b), how, ticker);
                    lines.extend(self.once(name, (&entry, &a), (&other, &b), find)?);
                    lines.extend(self.attributes(name, &entry, &other));
                    Ok(lines)
                }
                None => Ok(vec![line(name, "only_in_a", None, None)]),
            }
        })?;
        Ok(lines.into_iter().flatten().collect())
    }
}

fn line(name: &str, difference: &'static str, a: Option<String>, b: Option<String>) -> Line {
    Line {
        name: name.to_owned(),
        difference,
        key: None,
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

/// Two tensors whose values can be compared.
enum Match {
    Alike(Pair),
    /// Of two dtypes, both of numbers.
    Across(across::Side, across::Side),
}

/// Whether a tensor's elements have a size in whole bytes; else bytes are compared as they are.
fn has_size(tensor: &ModelTensor) -> bool {
    tensor.dtype().is_some_and(|dtype| dtype.size().is_some())
}

/// Matches the data of two tensors, or says what differs before any of it is read.
fn matched(
    name: &str,
    (a, b): (&ModelTensor, &ModelTensor),
    how: &How<'_>,
) -> Result<Match, Box<Line>> {
    let differs = |what, a: String, b: String| Err(Box::new(line(name, what, Some(a), Some(b))));
    // Two dtypes whose values are numbers, which are compared.
    let number = |tensor: &ModelTensor| {
        let dtype = tensor.dtype();
        dtype.filter(|&dtype| !matches!(Form::of(Some(dtype)), Form::Bytes))
    };
    let other = a.dtype_name() != b.dtype_name();
    let across = match (number(a), number(b)) {
        (Some(a), Some(b)) if how.across && other => Some((a, b)),
        _ if other => {
            let (a, b) = (a.dtype_name(), b.dtype_name());
            return differs("dtype", a.to_owned(), b.to_owned());
        }
        _ => None,
    };
    if a.shape() != b.shape() {
        return differs("shape", dims(a.shape()), dims(b.shape()));
    }
    // Elements of no known size can't be moved.
    let has_size = has_size(a);
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
        (a, b) => {
            let line = unreadable(name, a.err().as_ref(), b.err().as_ref());
            return Err(Box::new(line));
        }
    };
    if let Some((dtype_a, dtype_b)) = across {
        let side = |data, dtype| across::Side { data, dtype };
        return Ok(Match::Across(side(rows_a, dtype_a), side(rows_b, dtype_b)));
    }
    if rows_a.size() != rows_b.size() {
        let bytes = |size: u64| format!("{size} bytes");
        return differs("length", bytes(rows_a.size()), bytes(rows_b.size()));
    }
    Ok(Match::Alike(Pair {
        a: rows_a,
        b: rows_b,
        dtype: a.dtype().filter(|_| has_size),
    }))
}

fn compare(
    name: &str,
    (a, b): (&ModelTensor, &ModelTensor),
    how: &How<'_>,
    ticker: &Ticker<'_>,
) -> Result<Option<Line>, Failed> {
    let compared = match matched(name, (a, b), how) {
        Err(line) => return Ok(Some(*line)),
        Ok(Match::Alike(pair)) => pair.compare(how.tolerance, ticker),
        Ok(Match::Across(a, b)) => {
            how.other_dtypes.fetch_add(1, Ordering::Relaxed);
            let exact = Tolerance::new(0.0, 0.0);
            across::compare(&a, &b, how.tolerance.unwrap_or(&exact), ticker)
        }
    };
    let ends_all = |error: &Error| {
        matches!(
            error.kind(),
            Kind::Io | Kind::Cancelled | Kind::Build | Kind::Usage
        )
    };
    let values = match compared {
        Ok(None) => return Ok(None),
        Ok(Some(values)) => values,
        Err(Failed::A(error)) if !ends_all(&error) => {
            return Ok(Some(unreadable(name, Some(&error), None)));
        }
        Err(Failed::B(error)) if !ends_all(&error) => {
            return Ok(Some(unreadable(name, None, Some(&error))));
        }
        Err(Failed::A(error)) => return Err(Failed::A(error.of_tensor(a.name()))),
        Err(Failed::B(error)) => return Err(Failed::B(error.of_tensor(b.name()))),
    };
    let what = match has_size(a) {
        false => "bytes",
        true if values.bits_only == values.count => "bits",
        true => "values",
    };
    Ok(Some(Line {
        values: Some(values),
        ..line(name, what, None, None)
    }))
}

/// The same where it is too long to be decoded: how much each file says, which is there even if it is as much.
fn said_in_short(a: &Entry<'_>, b: &Entry<'_>) -> Said {
    let words = |entry: &Entry<'_>| {
        let said = entry.extras_in_short().into_iter();
        let said: Vec<String> = said
            .map(|(key, value)| format!("{key} {}", crate::brief::value(&value)))
            .collect();
        Some(said.join(", "))
    };
    vec![("*".to_owned(), words(a), words(b))]
}

/// Attributes of two tensors that differ; long ones are cut, since very many tensors may have them.
fn said(a: &ModelTensor, b: &ModelTensor) -> Said {
    let differs = metadata(&a.attributes(), &b.attributes()).into_iter();
    let text = |value: Option<serde_json::Value>| {
        let text = value?.to_string();
        let most = text.char_indices().nth(MOST_SAID).map(|(at, _)| at);
        Some(match most.and_then(|at| text.get(..at)) {
            Some(front) => format!("{front}… ({} bytes)", text.len()),
            None => text,
        })
    };
    let differs = differs.map(|differs| (differs.key, text(differs.a), text(differs.b)));
    differs.collect()
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

/// The values by key; of duplicate keys the first one.
fn first_values(pairs: &[(String, Value)]) -> HashMap<&str, &Value> {
    let mut values = HashMap::new();
    for (key, value) in pairs {
        values.entry(key.as_str()).or_insert(value);
    }
    values
}
