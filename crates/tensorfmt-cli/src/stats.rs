pub(crate) mod part;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Serialize, Serializer};
use tensor_core::codec::Ticker;
use tensorfmt::convert::ModelTensor;

use crate::Outcome;
use crate::cli::{Common, FailOn, Stats};
use crate::failure::{Failure, INVALID, complain, exit_code};
use crate::files::{Heading, Round, broken, each};
use crate::input::Input;
use crate::measure::{Finding, Measures, Moments, PassedOver, Scalar, Survey, work};
use crate::names::{Idle, Wanted};
use crate::output::{BATCH, Listing, Out, escape, human, lines, shown, table, width};
use crate::picked::Picked;
use crate::progress::Meter;
use crate::reports::{len_of, one_file};
use part::Start;

/// How many cells of a terminal a line takes at most, as far as what is in it can be parted.
const WIDTH: usize = 80;
/// The columns of the totals, those from [`VALUES`] on being values and the others counts.
const HEAD: [&str; 11] = [
    "dtype", "tensors", "bytes", "values", "zeros", "nan", "inf", "min", "max", "mean", "std",
];
const VALUES: usize = 7;
/// All but the dtype are numbers.
const RIGHT: &[usize] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// What the JSON has before the tensors.
#[derive(Serialize)]
struct Head {
    /// Where there are several files.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

/// And what after them.
#[derive(Serialize)]
struct Tail {
    totals: Vec<Total>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Measured(Box<Line<'a>>),
    PassedOver(Reason<'a>),
}

/// A tensor without values.
#[derive(Serialize)]
struct Reason<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a [u64],
    /// Why it has none.
    reason: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a [u64],
    #[serde(flatten)]
    numbers: Numbers,
    quantiles: &'a [(f64, Scalar)],
    histogram: &'a [u64],
    /// From where to where the histogram goes.
    histogram_range: Option<(Scalar, Scalar)>,
    /// Why there are counts alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    /// What it must not have and has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fails: Vec<&'static str>,
}

/// All tensors of one dtype.
#[derive(Serialize)]
struct Total {
    dtype: String,
    tensors: u64,
    nbytes: u64,
    #[serde(flatten)]
    numbers: Numbers,
}

#[derive(Serialize)]
struct Numbers {
    count: u64,
    nan: u64,
    inf: u64,
    zeros: u64,
    sparsity: Option<Number>,
    min: Option<Scalar>,
    max: Option<Scalar>,
    mean: Option<Number>,
    std: Option<Number>,
}

impl From<&Moments> for Numbers {
    fn from(moments: &Moments) -> Self {
        Self {
            count: moments.count,
            nan: moments.nan,
            inf: moments.inf,
            zeros: moments.zeros,
            sparsity: moments.sparsity().map(Number),
            min: moments.min(),
            max: moments.max(),
            mean: moments.mean().map(Number),
            std: moments.std().map(Number),
        }
    }
}

/// A float that JSON may have no number for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_finite() => serializer.serialize_f64(value),
            value if value.is_nan() => serializer.serialize_str("nan"),
            value if value > 0.0 => serializer.serialize_str("inf"),
            _ => serializer.serialize_str("-inf"),
        }
    }
}

pub(crate) fn run(args: &Stats, common: &Common) -> Outcome {
    if args.part.is_some() {
        one_file(&args.files)?;
    }
    let forms = (args.json, Heading::Line, args.allow_empty);
    each(&args.files, forms, common, |input, round| {
        file(input, args, common, round)
    })
}

fn file(input: &Input, args: &Stats, common: &Common, round: &mut Round) -> Result<u8, Failure> {
    let archive = input
        .open()
        .map_err(|error| Failure::about(&input.path, &error))?;
    // One of those who share the work is enough to say it, which opens all files of a set.
    if args.part.is_none_or(|part| part.number() == 1) {
        input.warn(&archive);
    }
    let mut entries = Picked::all(&archive);
    let mut idle = Idle::default();
    let names = entries.iter().map(|entry| entry.name());
    let wanted = Wanted::new(&args.filter, &args.exclude, names, &mut idle)?;
    round.idle(idle, args.allow_empty)?;
    entries.retain(|entry| wanted.has(entry.name()));
    if let Some(part) = args.part {
        let lens: Vec<u64> = entries.iter().map(|entry| len_of(&entry)).collect();
        entries.slice(part.range(&lens));
    }
    let work = entries.iter().map(|entry| work(&entry));
    let meter = Meter::new(work.fold(0, u64::saturating_add), common);
    let progress = |bytes| meter.tick(bytes);
    let ticker = Ticker::new(Some(&progress));
    let mut survey = Survey::new(&archive);
    let mut answer = Answer::new(input, args, &archive, round)?;
    for batch in entries.batches(BATCH) {
        let measured = match survey.run(&batch, common.threads, &ticker) {
            Ok(measured) => measured,
            Err(error) => return broken(answer.listing, Failure::about(&input.path, &error)),
        };
        for (tensor, finding) in &measured {
            answer.tensor(tensor, finding)?;
        }
    }
    drop(meter);
    answer.end(entries.len())
}

/// The output about one file, tensor by tensor.
struct Answer<'a> {
    input: &'a Input,
    fail_on: &'a [FailOn],
    listing: Listing,
    /// Whether it is a report of a part.
    is_part: bool,
    totals: Totals,
    /// How many tensors have what they must not have.
    failed: u64,
    exit: u8,
}

impl<'a> Answer<'a> {
    fn new(
        input: &'a Input,
        args: &'a Stats,
        archive: &tensorfmt::Archive,
        round: &Round,
    ) -> Result<Self, Failure> {
        let path = round.path(input);
        let listing = match (args.part, args.json) {
            (Some(part), _) => {
                let start = Start::new(args, (input, part), archive)?;
                Listing::Json(Out::new().list(&start, "tensors")?)
            }
            (None, true) => Listing::Json(Out::new().list(&Head { path }, "tensors")?),
            (None, false) => Listing::Lines(Out::new()),
        };
        Ok(Self {
            input,
            fail_on: &args.fail_on,
            listing,
            is_part: args.part.is_some(),
            totals: Totals::default(),
            failed: 0,
            exit: 0,
        })
    }

    /// Counts a tensor and says what was found; of those that are good nothing where others are asked for.
    fn tensor(&mut self, tensor: &ModelTensor, finding: &Finding) -> Result<(), Failure> {
        match finding {
            Finding::PassedOver(why) => self.passed_over(tensor, why),
            Finding::Measured(measures) => self.totals.add(tensor, measures),
        }
        let fails = fails(finding, self.fail_on);
        if !fails.is_empty() {
            self.exit = INVALID;
            self.failed += 1;
        }
        let is_good = matches!(finding, Finding::Measured(_)) && fails.is_empty();
        let is_listed = !is_good || self.fail_on.is_empty();
        match (&mut self.listing, finding) {
            (Listing::Json(list), _) if self.is_part => list.item(&part::Tensor {
                line: is_listed.then(|| entry(tensor, finding, fails)),
                dtype: tensor.dtype_name(),
                nbytes: len_of_data(tensor),
                moments: finding.state(),
            }),
            _ if !is_listed => Ok(()),
            (Listing::Json(list), _) => list.item(&entry(tensor, finding, fails)),
            (Listing::Lines(out), Finding::Measured(measures)) => {
                print(tensor, measures, out)?;
                match fails.is_empty() {
                    true => Ok(()),
                    false => out.line(&format!("  fails: {}", fails.join(", "))),
                }
            }
            (Listing::Lines(_), Finding::PassedOver(_)) => Ok(()),
        }
    }

    /// Complains about a tensor without values.
    fn passed_over(&mut self, tensor: &ModelTensor, PassedOver { kind, reason }: &PassedOver) {
        let (path, name) = (self.input.path.display(), tensor.name());
        let dtype = tensor.dtype_name();
        complain(&escape(&format!("{path}: {name:?} ({dtype}): {reason}")));
        self.exit = match (self.exit, exit_code(*kind)) {
            // Damage outranks what is merely not supported.
            (INVALID, _) => INVALID,
            (_, code) => code,
        };
    }

    /// Prints the summary of all tensors, of which there are this many.
    fn end(self, tensors: usize) -> Result<u8, Failure> {
        let totals = self.totals.lines();
        match self.listing {
            Listing::Json(list) if self.is_part => list.end(&part::Finish { exit: self.exit })?,
            Listing::Json(list) => list.end(&Tail { totals })?,
            Listing::Lines(mut out) => {
                match self.fail_on.is_empty() {
                    true => print_totals(&totals, &mut out)?,
                    false => out.line(&format!("{} of {tensors} tensors fail", self.failed))?,
                }
                out.finish()?;
            }
        }
        Ok(self.exit)
    }
}

/// What a tensor must not have and has.
fn fails(finding: &Finding, fail_on: &[FailOn]) -> Vec<&'static str> {
    let Finding::Measured(measures) = finding else {
        return Vec::new();
    };
    let moments = &measures.moments;
    let of = |what: &FailOn| {
        let (name, fails) = match what {
            FailOn::Nan => ("nan", moments.nan > 0),
            FailOn::Inf => ("inf", moments.inf > 0),
            FailOn::Zero => ("zero", moments.count > 0 && moments.zeros == moments.count),
            // One value is always equal to itself.
            FailOn::Equal => {
                let is_one = moments.min().is_some() && moments.min() == moments.max();
                ("equal", moments.count > 1 && moments.nan == 0 && is_one)
            }
        };
        fails.then_some(name)
    };
    fail_on.iter().filter_map(of).collect()
}

fn entry<'a>(tensor: &'a ModelTensor, finding: &'a Finding, fails: Vec<&'static str>) -> Entry<'a> {
    let (name, dtype, shape) = (tensor.name(), tensor.dtype_name(), tensor.shape().dims());
    match finding {
        Finding::Measured(measures) => Entry::Measured(Box::new(Line {
            name,
            dtype,
            shape,
            numbers: (&measures.moments).into(),
            quantiles: &measures.quantiles,
            histogram: &measures.histogram,
            histogram_range: measures.moments.span(),
            note: measures.note,
            fails,
        })),
        Finding::PassedOver(PassedOver { reason, .. }) => Entry::PassedOver(Reason {
            name,
            dtype,
            shape,
            reason,
        }),
    }
}

/// How many bytes a tensor's data has.
fn len_of_data(tensor: &ModelTensor) -> u64 {
    tensor.data().map_or(0, |data| data.size())
}

/// What all values of each dtype together are like.
#[derive(Default)]
struct Totals(BTreeMap<String, (u64, u64, Moments)>);

impl Totals {
    fn add(&mut self, tensor: &ModelTensor, measures: &Measures) {
        self.merge(tensor.dtype_name(), len_of_data(tensor), &measures.moments);
    }

    /// Adds what the values of a tensor are like that has so many bytes.
    fn merge(&mut self, dtype: &str, len: u64, of_tensor: &Moments) {
        if !self.0.contains_key(dtype) {
            self.0.insert(dtype.to_owned(), Default::default());
        }
        if let Some((tensors, nbytes, moments)) = self.0.get_mut(dtype) {
            *tensors += 1;
            *nbytes = nbytes.saturating_add(len);
            moments.merge(of_tensor);
        }
    }

    fn lines(self) -> Vec<Total> {
        let total = |(dtype, (tensors, nbytes, moments)): (String, (u64, u64, Moments))| Total {
            dtype,
            tensors,
            nbytes,
            numbers: (&moments).into(),
        };
        self.0.into_iter().map(total).collect()
    }
}

fn print(tensor: &ModelTensor, measures: &Measures, out: &mut Out) -> Result<(), Failure> {
    let Measures {
        moments,
        quantiles,
        histogram,
        note,
    } = measures;
    out.line(&format!(
        "{}  {} {}",
        shown(tensor.name()),
        escape(tensor.dtype_name()),
        crate::brief::dims(tensor.shape())
    ))?;
    let spread = [
        format!("min {}", scalar(moments.min())),
        format!("max {}", scalar(moments.max())),
        format!("mean {}", number(moments.mean())),
        format!("std {}", number(moments.std())),
    ];
    for line in lines(&spread, "  ", WIDTH - 2) {
        out.line(&format!("  {line}"))?;
    }
    if let Some(note) = note {
        out.line(&format!("  {note}"))?;
    }
    out.line(&format!(
        "  count {}  zeros {}{}  nan {}  inf {}",
        moments.count,
        moments.zeros,
        percent(moments.sparsity()),
        moments.nan,
        moments.inf
    ))?;
    let quantiles: Vec<String> = quantiles
        .iter()
        .map(|&(q, value)| format!("{:.0}% {}", q * 100.0, scalar(Some(value))))
        .collect();
    for line in lines(&quantiles, "  ", WIDTH - 2) {
        out.line(&format!("  {line}"))?;
    }
    let most = histogram.iter().copied().max().unwrap_or(0);
    if most > 0 {
        let bars = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let bar = |&count: &u64| {
            let step = usize::try_from(u128::from(count) * 7 / u128::from(most)).unwrap_or(0);
            match count {
                0 => ' ',
                _ => bars.get(step).copied().unwrap_or('█'),
            }
        };
        let drawn: String = histogram.iter().map(bar).collect();
        out.line(&format!("  |{drawn}|"))?;
    }
    Ok(())
}

/// A table with a line per dtype: in two parts, counts and values, where it is wider than a terminal.
fn print_totals(totals: &[Total], out: &mut Out) -> Result<(), Failure> {
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(totals.iter().map(|total| {
        let numbers = &total.numbers;
        let value = |value: Option<Number>| number(value.map(|value| value.0));
        [
            escape(&total.dtype).into_owned(),
            total.tensors.to_string(),
            human(total.nbytes),
            numbers.count.to_string(),
            numbers.zeros.to_string(),
            numbers.nan.to_string(),
            numbers.inf.to_string(),
            scalar(numbers.min),
            scalar(numbers.max),
            value(numbers.mean),
            value(numbers.std),
        ]
    }));
    let of = |part: Range<usize>| -> Vec<Vec<String>> {
        // The dtype begins each line.
        let cells = |row: &[String; 11]| {
            let cells = row.iter().enumerate();
            let cells = cells.filter(|(at, _)| *at == 0 || part.contains(at));
            cells.map(|(_, cell)| cell.clone()).collect()
        };
        rows.iter().map(cells).collect()
    };
    let whole = table(&of(0..HEAD.len()), RIGHT);
    let printed = match whole.iter().all(|line| width(line) <= WIDTH) {
        true => whole,
        false => [0..VALUES, VALUES..HEAD.len()]
            .into_iter()
            .flat_map(|part| table(&of(part), RIGHT))
            .collect(),
    };
    printed.iter().try_for_each(|line| out.line(line))
}

/// A value for people: integers as they are.
fn scalar(value: Option<Scalar>) -> String {
    match value {
        Some(Scalar::Whole(value)) => value.to_string(),
        Some(Scalar::Float(value)) => number(Some(value)),
        None => number(None),
    }
}

/// A number for people: six digits, whatever its size.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value == 0.0 || (1e-4..1e9).contains(&value.abs()) => format!("{value:.6}"),
        Some(value) if value.is_finite() => format!("{value:.5e}"),
        Some(value) => value.to_string(),
    }
}

fn percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(String::new, |f| format!(" ({:.1}%)", f * 100.0))
}
