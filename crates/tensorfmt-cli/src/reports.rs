//! Reports about parts of a file, made by workers that never talk, and their sum.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tensor_core::Share;
use tensorfmt::{Archive, Part};

use crate::Outcome;
use crate::cli::Common;
use crate::failure::{Failure, INVALID};

/// How many reports that are missing are named.
const NAMED: usize = 1000;

/// What every report says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) verb: String,
    pub(crate) number: u32,
    pub(crate) of: u32,
    /// The file as it was named.
    pub(crate) path: String,
    /// What the file is known by; empty where it can't be opened.
    input: String,
    /// The options that decide what is found.
    options: Vec<String>,
    /// The release that found it.
    version: String,
}

impl Head {
    pub(crate) fn new(
        verb: &str,
        part: Part,
        path: &Path,
        archive: Option<&Archive>,
        options: Vec<String>,
    ) -> Result<Self, Failure> {
        let input = archive.map(Archive::fingerprint).transpose();
        Ok(Self {
            verb: verb.to_owned(),
            number: part.number(),
            of: part.of(),
            path: path.display().to_string(),
            input: input
                .map_err(|error| Failure::about(path, &error))?
                .unwrap_or_default(),
            options,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// How it differs from what a report of another part of the same work says.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let differs = [
            (self.verb != other.verb, "of another verb"),
            (self.of != other.of, "of another number of parts"),
            (
                self.version != other.version,
                "of another release of tensorfmt",
            ),
            (self.options != other.options, "with other options"),
            (self.input != other.input, "of another file"),
        ];
        differs
            .into_iter()
            .find_map(|(differs, what)| differs.then_some(what))
    }
}

/// The options that choose tensors, as reports keep them.
pub(crate) fn patterns(filter: &[String], exclude: &[String]) -> Vec<String> {
    let filter = filter.iter().map(|text| format!("--filter={text}"));
    let exclude = exclude.iter().map(|text| format!("--exclude={text}"));
    filter.chain(exclude).collect()
}

/// The one file that a part is of.
pub(crate) fn one_file(files: &[PathBuf]) -> Result<&Path, Failure> {
    match files {
        [file] if !file.is_dir() => Ok(file),
        _ => Err(Failure::usage(
            "--part is of one file or set; a run for each of several makes their reports",
        )),
    }
}

/// The tensors of one part, and where the checks of these stand among all.
pub(crate) struct Range {
    tensors: std::ops::Range<usize>,
    is_first: bool,
    at: Mutex<(u32, u64)>,
}

impl Range {
    /// The share of a part of an archive.
    pub(crate) fn of(part: Part, archive: &Archive) -> Self {
        let lens = archive.entries().map(|entry| len_of(&entry));
        Self {
            tensors: part.range(&lens.collect::<Vec<u64>>()),
            is_first: part.number() == 1,
            at: Mutex::new((0, 0)),
        }
    }

    /// Where the item that is told stands.
    pub(crate) fn place(&self) -> (u32, u64) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share for Range {
    fn has(&self, tensors: &mut dyn Iterator<Item = usize>) -> bool {
        // Who has the first of several has the check of all.
        tensors
            .next()
            .is_some_and(|first| self.tensors.contains(&first))
    }

    fn has_rest(&self) -> bool {
        self.is_first
    }

    fn at(&self, section: u32, item: u64) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = (section, item);
    }
}

/// The bytes that work on a tensor is measured by.
pub(crate) fn len_of(entry: &tensorfmt::Entry<'_>) -> u64 {
    entry.nbytes().or(entry.stored_len()).unwrap_or(0)
}

/// The beginning of any report.
#[derive(Deserialize)]
struct Begun {
    part: Head,
    /// Why it has no end, if it hasn't.
    #[serde(default)]
    error: Option<Broken>,
    #[serde(default)]
    exit: u8,
}

#[derive(Deserialize)]
struct Broken {
    message: String,
}

/// Reports of all parts, in their order.
pub(crate) struct Reports(Vec<(PathBuf, Head)>);

impl Reports {
    /// The heads of these files, if they are of one work and each part is there once.
    fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut heads: Vec<(PathBuf, Head)> = Vec::with_capacity(paths.len());
        let mut broken = Vec::new();
        for path in paths {
            let begun: Begun = parse(path)?;
            // What a check of a file ends with is a finding; what broke off another work is not.
            if let Some(error) = begun.error.filter(|_| begun.part.verb != "verify") {
                let text = format!("{}: it broke off: {}", path.display(), error.message);
                broken.push(Failure::new(begun.exit, text));
            }
            heads.push((path.clone(), begun.part));
        }
        let lines = faults(&heads);
        if !lines.is_empty() {
            return Err(Failure::new(INVALID, lines.join("\n")));
        }
        if let Some(failure) = broken.into_iter().next() {
            return Err(failure);
        }
        heads.sort_by_key(|(_, head)| head.number);
        Ok(Self(heads))
    }

    /// What the first part says.
    pub(crate) fn first(&self) -> Option<&Head> {
        self.0.first().map(|(_, head)| head)
    }

    /// Calls `take` with each report in turn.
    pub(crate) fn each<T: DeserializeOwned>(
        &self,
        mut take: impl FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (path, _) in &self.0 {
            take(parse(path)?)?;
        }
        Ok(())
    }
}

fn parse<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let file = File::open(path).map_err(|error| Failure::io(path, &error))?;
    serde_json::from_reader(BufReader::new(file)).map_err(|error| match error.is_io() {
        true => Failure::io(path, &error.into()),
        false => Failure::new(
            INVALID,
            format!(
                "{}: no report of a part, as --part I/N --json prints one: {error}",
                path.display()
            ),
        ),
    })
}

/// What is wrong with the reports as a whole: one of another work, a part twice or not at all.
fn faults(heads: &[(PathBuf, Head)]) -> Vec<String> {
    let Some((first_path, first)) = heads.first() else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let mut same: Vec<&(PathBuf, Head)> = Vec::new();
    for pair in heads {
        let (path, head) = pair;
        if let Some(what) = first.difference(head) {
            let (path, first) = (path.display(), first_path.display());
            lines.push(format!("{path}: a report {what} than {first}"));
            continue;
        }
        if let Some((other, _)) = same.iter().find(|(_, known)| known.number == head.number) {
            let (path, other) = (path.display(), other.display());
            let (number, of) = (head.number, head.of);
            lines.push(format!("{path}: part {number}/{of} is in {other} already"));
            continue;
        }
        same.push(pair);
    }
    let there: HashSet<u32> = same.iter().map(|(_, head)| head.number).collect();
    let missing = Part::all(first.of).filter(|part| !there.contains(&part.number()));
    lines.extend(
        missing
            .take(NAMED)
            .map(|part| format!("no report of part {part} is given")),
    );
    lines
}

/// Adds up reports to what one run on the whole file prints with `--json`.
pub(crate) fn join(paths: &[PathBuf], common: &Common) -> Outcome {
    let reports = Reports::read(paths)?;
    let verb = reports.first().map(|head| head.verb.clone());
    let exit = match verb.as_deref() {
        Some("verify") => crate::verify::part::join(&reports, common)?,
        Some("hash") => crate::hash::part::join(&reports)?,
        Some("stats") => crate::stats::part::join(&reports)?,
        verb => {
            let verb = verb.unwrap_or_default();
            return Err(Failure::new(
                INVALID,
                format!("reports of {verb:?} are none that are known"),
            ));
        }
    };
    Ok(ExitCode::from(exit))
}

/// A JSON value whose keys keep their order, so that it is printed as it was.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> serde::de::Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        let number = serde_json::Number::from_f64(value);
        number
            .map(Json::Number)
            .ok_or_else(|| E::custom("no finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut pairs: A) -> Result<Json, A::Error> {
        let mut map = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            map.push(pair);
        }
        Ok(Json::Map(map))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => value.serialize(serializer),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Map(pairs) => {
                let mut map = serializer.serialize_map(Some(pairs.len()))?;
                for (key, value) in pairs {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_printed_as_it_was() {
        let text =
            r#"{"z":1,"a":[null,true,-3,0.1,1e-300,-0.0,18446744073709551615],"m":{"é":"\n"}}"#;
        let value: Json = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
    }
}
