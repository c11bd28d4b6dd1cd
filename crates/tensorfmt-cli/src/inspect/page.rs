//! The listing as one HTML page that loads nothing: a map of the sizes, a table that sorts and
//! filters, and a histogram per tensor.

use std::path::Path;

use serde::Serialize;
use tensor_core::{Output, Ticker};
use tensorfmt::convert::ModelTensor;
use tensorfmt::{Archive, Entry, Error, Value};

use super::{extras, words};
use crate::cli::Common;
use crate::failure::Failure;
use crate::measure::{Finding, Measures, Scalar, Survey, work};
use crate::output::{escape, shown};
use crate::progress::Meter;
use crate::signals::Graceful;
use crate::stats::Number;
use crate::target::create;

/// Everything but the data.
const PAGE: &str = include_str!("page.html");

#[derive(Serialize)]
struct Document<'a> {
    name: String,
    format: &'static str,
    version: String,
    file_bytes: u64,
    /// Whether the values were read.
    measured: bool,
    facts: Vec<(String, String)>,
    metadata: Vec<(String, String)>,
    tensors: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: String,
    dtype: String,
    shape: String,
    values: u64,
    order: &'static str,
    encoding: String,
    offset: u64,
    stored_bytes: Option<u64>,
    nbytes: Option<u64>,
    notes: Vec<(String, String)>,
    #[serde(flatten)]
    measures: Option<Numbers<'a>>,
}

#[derive(Serialize)]
struct Numbers<'a> {
    count: u64,
    zeros: u64,
    nan: u64,
    inf: u64,
    min: Option<Scalar>,
    max: Option<Scalar>,
    mean: Option<Number>,
    std: Option<Number>,
    quantiles: &'a [(f64, Scalar)],
    histogram: &'a [u64],
    range: Option<(Scalar, Scalar)>,
}

impl<'a> From<&'a Measures> for Numbers<'a> {
    fn from(measures: &'a Measures) -> Self {
        let moments = &measures.moments;
        Self {
            count: moments.count,
            zeros: moments.zeros,
            nan: moments.nan,
            inf: moments.inf,
            min: moments.min(),
            max: moments.max(),
            mean: moments.mean().map(Number),
            std: moments.std().map(Number),
            quantiles: &measures.quantiles,
            histogram: &measures.histogram,
            range: moments.span(),
        }
    }
}

/// Writes the page; the values are read for it unless `measure` is off.
pub(crate) fn write(
    archive: &Archive,
    path: &Path,
    entries: &[Entry<'_>],
    (target, measure, force): (&Path, bool, bool),
    common: &Common,
) -> Result<(), Failure> {
    let measured = match measure {
        true => survey(archive, path, entries, common)?,
        false => Vec::new(),
    };
    let mut measured = measured.iter();
    let tensors = entries.iter().map(|entry| Line {
        name: shown(entry.name()).into_owned(),
        dtype: escape(&entry.dtype_name()).into_owned(),
        shape: entry.shape().to_string(),
        values: entry.shape().elements(),
        order: entry.order().letter(),
        encoding: escape(&entry.encoding()).into_owned(),
        offset: entry.offset(),
        stored_bytes: entry.stored_len(),
        nbytes: entry.nbytes(),
        notes: extras(entry),
        measures: match measured.next() {
            Some(Finding::Measured(measures)) => Some(Numbers::from(&**measures)),
            _ => None,
        },
    });
    let facts = archive.facts().into_iter();
    let facts = facts
        .filter(|(_, value)| !matches!(value, Value::Null | Value::List(_)))
        .map(|(key, value)| (key.to_owned(), words(&value)));
    let metadata = archive.metadata().into_iter();
    let metadata = metadata.map(|(key, value)| (escape(&key).into_owned(), words(&value)));
    let name = path.file_name().unwrap_or(path.as_os_str());
    let document = Document {
        name: escape(&name.to_string_lossy()).into_owned(),
        format: archive.format().name(),
        version: archive.version(),
        file_bytes: archive.file_len(),
        measured: measure,
        facts: facts.collect(),
        metadata: metadata.collect(),
        tensors: tensors.collect(),
    };
    // Nothing in JSON but text has a `<`, and in text it may be escaped: so no name ends the
    // element that the data is in.
    let json =
        serde_json::to_string(&document).map_err(|error| Failure::usage(error.to_string()))?;
    let json = json.replace('<', "\\u003c");
    let (head, tail) = PAGE.split_once("@DATA@").unwrap_or((PAGE, ""));
    let save = || -> Result<(), Error> {
        let mut file = create(target, force, common)?;
        file.put(head.as_bytes())?;
        file.put(json.as_bytes())?;
        file.put(tail.as_bytes())?;
        Ok(file.commit()?)
    };
    let _graceful = Graceful::new();
    save().map_err(|error| Failure::about(target, &error))
}

/// What the values of each entry are like.
fn survey(
    archive: &Archive,
    path: &Path,
    entries: &[Entry<'_>],
    common: &Common,
) -> Result<Vec<Finding>, Failure> {
    let tensors = ModelTensor::of(archive, entries);
    let survey = Survey::new(entries, &tensors);
    let meter = Meter::new(
        entries.iter().map(work).fold(0, u64::saturating_add),
        common,
    );
    let progress = |bytes| meter.tick(bytes);
    survey
        .run(common.threads, &Ticker::new(Some(&progress)))
        .map_err(|error| Failure::about(path, &error))
}
