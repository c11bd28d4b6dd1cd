mod markdown;
mod page;
mod tied;
mod tree;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use tensorfmt::convert::natural;
use tensorfmt::{Archive, Entry, Value, Work, to_json};

use crate::Outcome;
use crate::brief;
use crate::cli::{Common, Inspect, Sort};
use crate::failure::Failure;
use crate::files::{Heading, Round, each};
use crate::input::Input;
use crate::names::{Idle, Wanted};
use crate::output::{Columns, Out, escape, escape_all, human, shown, table};
use crate::picked::Picked;
use crate::target::{is_not_input, may_write};

#[derive(Serialize)]
struct Document<'a> {
    path: String,
    format: &'static str,
    version: String,
    file_bytes: u64,
    #[serde(flatten)]
    facts: Pairs<'a>,
    metadata: Pairs<'a>,
    /// Why there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_fault: Option<String>,
    tensors: Lines<'a>,
}

/// The tensors as a JSON list, each made when it is written: there may be a million of them.
struct Lines<'a> {
    archive: &'a Archive,
    entries: &'a Picked<'a>,
}

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let part = |entry| self.archive.part_of(entry);
        serializer.collect_seq(self.entries.iter().map(|entry| Line(entry, part(entry))))
    }
}

/// Key-value pairs as a JSON object, in their order.
struct Pairs<'a>(Vec<(std::borrow::Cow<'a, str>, Value)>);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, &to_json(value))?;
        }
        map.end()
    }
}

struct Line<'a>(Entry<'a>, Option<&'a str>);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = &self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", entry.name())?;
        map.serialize_entry("dtype", &entry.dtype_name())?;
        map.serialize_entry("shape", entry.shape().dims())?;
        map.serialize_entry("order", entry.order().letter())?;
        map.serialize_entry("encoding", &entry.encoding())?;
        // Of a part that is not open only the name is known.
        let offset = self.1.is_none().then(|| entry.offset());
        map.serialize_entry("offset", &offset)?;
        if let Some(part) = self.1 {
            map.serialize_entry("part", part)?;
        }
        map.serialize_entry("stored_bytes", &entry.stored_len())?;
        map.serialize_entry("nbytes", &entry.nbytes())?;
        for (key, value) in entry.extras() {
            map.serialize_entry(key, &to_json(&value))?;
        }
        map.end()
    }
}

pub(crate) fn run(args: &Inspect, common: &Common) -> Outcome {
    if let Some(target) = &args.html {
        may_write(target, args.force)?;
    }
    let forms = (args.json, Heading::Own, args.allow_empty);
    each(&args.files, forms, common, |input, round| {
        if round.several && args.html.is_some() {
            return Err(Failure::usage("--html: a page is of one file"));
        }
        file(input, args, common, round).map(|()| 0)
    })
}

fn file(input: &Input, args: &Inspect, common: &Common, round: &mut Round) -> Result<(), Failure> {
    let archive = input
        .open()
        .map_err(|error| Failure::about(&input.path, &error))?;
    let mut entries = Picked::all(&archive);
    let mut idle = Idle::default();
    let names = entries.iter().map(Entry::name);
    let wanted = Wanted::new(&args.filter, &args.exclude, names, &mut idle)?;
    round.idle(idle, args.allow_empty)?;
    entries.retain(|entry| wanted.has(entry.name()));
    match args.sort {
        Some(Sort::Name) => entries.sort_by(|a, b| natural(a.name(), b.name())),
        Some(Sort::Size) => entries.sort_by(|a, b| size(b).cmp(&size(a))),
        None => {}
    }
    input.warn(&archive);
    if let Some(target) = &args.html {
        is_not_input(&archive, &input.path, target)?;
        let to = (target.as_path(), !args.no_stats, args.force);
        page::write(&archive, &input.path, &entries, to, common)?;
        return Ok(());
    }
    let mut out = Out::new();
    if args.tied {
        let path = input.path.display().to_string();
        tied::print(&archive, &path, &entries, args.json, &mut out)?;
    } else if args.json {
        input.allows(&archive, Work::Listing)?;
        let facts = archive.facts().into_iter();
        let metadata = archive.metadata().into_iter();
        out.json(&Document {
            path: input.path.display().to_string(),
            format: archive.format().name(),
            version: archive.version(),
            file_bytes: archive.file_len(),
            facts: Pairs(facts.map(|(key, value)| (key.into(), value)).collect()),
            metadata: Pairs(metadata.map(|(key, value)| (key.into(), value)).collect()),
            metadata_fault: archive.metadata_fault().map(|error| error.to_string()),
            tensors: Lines {
                archive: &archive,
                entries: &entries,
            },
        })?;
    } else if args.markdown {
        let path = input.path.display().to_string();
        markdown::print(&archive, &path, &entries, &mut out)?;
    } else if args.tree {
        let depth = args.depth.and_then(|depth| usize::try_from(depth).ok());
        summary(&archive, input, &mut out)?;
        tree::print(&entries, depth, &mut out)?;
        totals(&entries, &mut out)?;
    } else {
        listing(&archive, input, &entries, (args.chunks, common), &mut out)?;
    }
    out.finish()
}

fn listing(
    archive: &Archive,
    input: &Input,
    entries: &Picked<'_>,
    (chunks, common): (bool, &Common),
    out: &mut Out,
) -> Result<(), Failure> {
    let bold = |text: &str| match common.colored() {
        true => format!("\x1b[1m{text}\x1b[0m"),
        false => text.to_owned(),
    };
    summary(archive, input, out)?;
    for (key, value) in archive.facts() {
        match (&value, chunks) {
            (Value::Null, _) => {}
            // Nothing to see.
            (Value::Map(pairs), _) if pairs.is_empty() => {}
            (Value::Int(0), _) if key.starts_with("trailing") => {}
            (Value::List(items), true) if key == CHUNKS => table_of(items, out)?,
            (Value::List(items), false) if key == CHUNKS => {
                out.line(&format!("  {key}: {} (--chunks lists them)", items.len()))?;
            }
            _ => out.line(&format!("  {key}: {}", words(&value)))?,
        }
    }
    if chunks && !archive.facts().iter().any(|&(key, _)| key == CHUNKS) {
        let format = archive.format();
        return Err(Failure::usage(format!(
            "--chunks: a {format} file has none"
        )));
    }
    let mut said = Ok(());
    let mut begun = false;
    archive.each_metadata(|key, value| {
        if said.is_ok() && !std::mem::replace(&mut begun, true) {
            said = out.line(&bold("metadata"));
        }
        if said.is_ok() {
            said = out.line(&format!("  {}: {}", shown(key), words(value)));
        }
    });
    said?;
    if entries.is_empty() {
        return out.line("no tensors");
    }
    // What all have in common is printed once.
    let turned = entries.iter().all(|entry| is_column_major(&entry));
    if turned {
        out.line("  order: column-major, all tensors")?;
    }
    let place = match entries.iter().any(|entry| archive.part_of(entry).is_some()) {
        true => "part",
        false => "offset",
    };
    let head = ["name", "dtype", "shape", "bytes", place, ""].map(String::from);
    let mut columns = match place {
        "part" => Columns::new(&[3]),
        _ => Columns::new(&[3, 4]),
    };
    columns.note(&head);
    for entry in entries.iter() {
        columns.note(&row(archive, &entry, turned));
    }
    out.line(&bold(&columns.line(&head)))?;
    for entry in entries.iter() {
        out.line(&columns.line(&row(archive, &entry, turned)))?;
    }
    totals(entries, out)
}

/// Bytes of a tensor; where its dtype is unknown, as they are stored.
fn size(entry: &Entry<'_>) -> u64 {
    entry.nbytes().or(entry.stored_len()).unwrap_or(0)
}

/// The file in one line.
fn summary(archive: &Archive, input: &Input, out: &mut Out) -> Result<(), Failure> {
    out.line(&format!(
        "{}: {archive}, {}",
        escape(&input.path.display().to_string()),
        human(archive.file_len()),
    ))
}

/// Tensors, values and bytes of each dtype, and of all.
fn totals(entries: &Picked<'_>, out: &mut Out) -> Result<(), Failure> {
    let mut dtypes: BTreeMap<Cow<'_, str>, (u64, u64, u64)> = BTreeMap::new();
    for entry in entries.iter() {
        let (tensors, values, bytes) = dtypes.entry(entry.dtype_name()).or_default();
        *tensors += 1;
        *values = values.saturating_add(entry.shape().elements());
        *bytes = bytes.saturating_add(size(&entry));
    }
    let rows: Vec<Vec<String>> = dtypes
        .into_iter()
        .map(|(dtype, (tensors, values, bytes))| {
            let plural = if tensors == 1 { "" } else { "s" };
            vec![
                escape(&dtype).into_owned(),
                format!("{tensors} tensor{plural}"),
                format!("{values} values"),
                human(bytes),
            ]
        })
        .collect();
    for row in table(&rows, &[1, 2, 3]) {
        out.line(&row)?;
    }
    let bytes = entries.iter().filter_map(Entry::nbytes);
    let values = entries.iter().map(|entry| entry.shape().elements());
    out.line(&format!(
        "{} tensors, {} values, {}",
        entries.len(),
        values.fold(0, u64::saturating_add),
        human(bytes.fold(0, u64::saturating_add))
    ))
}

/// What a tensor's line says, column by column.
fn row(archive: &Archive, entry: &Entry<'_>, turned: bool) -> [String; 6] {
    [
        shown(entry.name()).into_owned(),
        escape(&entry.dtype_name()).into_owned(),
        brief::dims(entry.shape()),
        entry.nbytes().map_or("?".into(), |bytes| bytes.to_string()),
        match archive.part_of(*entry) {
            Some(part) => escape(part).into_owned(),
            None => format!("{:#x}", entry.offset()),
        },
        notes(entry, turned),
    ]
}

fn is_column_major(entry: &Entry<'_>) -> bool {
    entry.order() == tensorfmt::Order::ColumnMajor
}

/// What is not the same for most tensors, on one line.
fn notes(entry: &Entry<'_>, turned: bool) -> String {
    let mut notes: Vec<String> = Vec::new();
    if is_column_major(entry) && !turned {
        notes.push("column-major".into());
    }
    if entry.encoding() != "raw" {
        notes.push(escape(&entry.encoding()).into_owned());
    }
    let extras = extras(entry).into_iter();
    notes.extend(extras.map(|(key, value)| format!("{key}={value}")));
    notes.join(" ")
}

/// What only the file's own format says about the tensor, as words.
fn extras(entry: &Entry<'_>) -> Vec<(String, String)> {
    let extras = entry.extras_in_short().into_iter();
    // An address that is no more than the name is not worth repeating.
    let is_name = |key: &str, value: &Value| match value {
        Value::List(parts) if key == "path" => {
            let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            parts.join(".") == entry.name()
        }
        _ => false,
    };
    let extras = extras.filter(|(key, value)| *value != Value::Null && !is_name(key, value));
    extras
        .map(|(key, value)| (key.to_owned(), words(&value)))
        .collect()
}

/// The fact that lists the chunks of an AERO file.
const CHUNKS: &str = "chunks";

/// Maps with the same keys as a table.
fn table_of(items: &[Value], out: &mut Out) -> Result<(), Failure> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for item in items {
        let Value::Map(pairs) = item else { continue };
        if rows.is_empty() {
            rows.push(pairs.iter().map(|(key, _)| words(key)).collect());
        }
        rows.push(pairs.iter().map(|(_, value)| words(value)).collect());
    }
    for row in table(&rows, &[2, 3, 4, 5]) {
        out.line(&format!("  {row}"))?;
    }
    Ok(())
}

/// A value on one line, cut where it gets long.
fn words(value: &Value) -> String {
    let brief = brief::value(value);
    match value {
        Value::Text(_) => escape_all(&brief).into_owned(),
        // What JSON escapes is escaped.
        _ => escape(&brief).into_owned(),
    }
}
