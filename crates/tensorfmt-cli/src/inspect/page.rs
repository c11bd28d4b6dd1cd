//! The listing as one HTML page that loads nothing: a map of the sizes, a table that sorts and
//! filters, and a histogram per tensor.

use std::path::Path;

use serde::Serialize;
use tensor_core::codec::{Output, Ticker};
use tensorfmt::{Archive, Entry, Error, Value};

use super::{extras, words};
use crate::cli::Common;
use crate::failure::Failure;
use crate::measure::{Finding, Measures, Scalar, Survey, work};
use crate::output::{BATCH, escape, shown};
use crate::picked::Picked;
use crate::progress::Meter;
use crate::signals::Graceful;
use crate::stats::Number;
use crate::target::create;

/// Everything but the data.
const PAGE: &str = include_str!("page.html");

#[derive(Serialize)]
struct Document {
    name: String,
    format: &'static str,
    version: String,
    file_bytes: u64,
    /// Whether the values were read.
    measured: bool,
    facts: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: String,
    dtype: String,
    shape: String,
    values: u64,
    order: &'static str,
    encoding: String,
    offset: Option<u64>,
    /// The part of a set that holds it.
    part: Option<String>,
    stored_bytes: Option<u64>,
    nbytes: Option<u64>,
    notes: Vec<(String, String)>,
    /// Why its values can't be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
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
    entries: &Picked<'_>,
    (target, measure, force): (&Path, bool, bool),
    common: &Common,
) -> Result<(), Failure> {
    let facts = archive.facts().into_iter();
    let facts = facts
        .filter(|(_, value)| !matches!(value, Value::Null | Value::List(_)))
        .map(|(key, value)| (key.to_owned(), words(&value)));
    let name = path.file_name().unwrap_or(path.as_os_str());
    let document = Document {
        name: escape(&name.to_string_lossy()).into_owned(),
        format: archive.format().name(),
        version: archive.version(),
        file_bytes: archive.file_len(),
        measured: measure,
        facts: facts.collect(),
    };
    let (head, tail) = PAGE.split_once("@DATA@").unwrap_or((PAGE, ""));
    let json = data(&document)?;
    // The lists of metadata and tensors are too long for memory, so they are put before the brace that ends
    // the rest.
    let open = json.strip_suffix('}').unwrap_or(&json);
    let work = entries.iter().filter(|_| measure).map(|entry| work(&entry));
    let meter = Meter::new(work.fold(0, u64::saturating_add), common);
    let progress = |bytes| meter.tick(bytes);
    let ticker = Ticker::new(Some(&progress));
    let mut survey = Survey::new(archive);
    let _graceful = Graceful::new();
    let about = |error: Error| Failure::about(target, &error);
    let mut file = create(target, force, common).map_err(about)?;
    let mut put = |text: &str| {
        file.put(text.as_bytes())
            .map_err(|error| about(error.into()))
    };
    put(&format!("{head}{open},\"metadata\":["))?;
    let mut comma = "";
    let mut written = Ok(());
    archive.each_metadata(|key, value| {
        if written.is_ok() {
            let pair = data(&(escape(key), words(value)));
            written = pair.and_then(|pair| put(&format!("{comma}{pair}")));
            comma = ",";
        }
    });
    written?;
    put("],\"tensors\":[")?;
    comma = "";
    for batch in entries.batches(BATCH) {
        let measured = match measure {
            true => survey
                .run(&batch, common.threads, &ticker)
                .map_err(|error| Failure::about(path, &error))?,
            false => Vec::new(),
        };
        let mut findings = measured.iter().map(|(_, finding)| finding);
        for entry in &batch {
            put(&format!(
                "{comma}{}",
                data(&line(archive, entry, findings.next()))?
            ))?;
            comma = ",";
        }
    }
    put(&format!("]}}{tail}"))?;
    file.commit().map_err(|error| about(error.into()))
}

/// A value as the page holds it: nothing in JSON but text has a `<`, and in text it may be escaped, so
/// that no name ends the element that the data is in.
fn data(value: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(value).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(json.replace('<', "\\u003c"))
}

fn line<'a>(archive: &Archive, entry: &Entry<'_>, finding: Option<&'a Finding>) -> Line<'a> {
    let part = archive.part_of(*entry);
    Line {
        name: shown(entry.name()).into_owned(),
        dtype: escape(&entry.dtype_name()).into_owned(),
        shape: crate::brief::dims(entry.shape()),
        values: entry.shape().elements(),
        order: entry.order().letter(),
        encoding: escape(&entry.encoding()).into_owned(),
        offset: part.is_none().then(|| entry.offset()),
        part: part.map(|part| escape(part).into_owned()),
        stored_bytes: entry.stored_len(),
        nbytes: entry.nbytes(),
        notes: extras(entry),
        fault: match finding {
            Some(Finding::PassedOver(why)) => Some(escape(&why.reason).into_owned()),
            _ => None,
        },
        measures: match finding {
            Some(Finding::Measured(measures)) => Some(Numbers::from(&**measures)),
            _ => None,
        },
    }
}
