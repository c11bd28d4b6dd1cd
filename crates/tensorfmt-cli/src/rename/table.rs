//! `--rename-table FILE`: old names and new ones, all changed at once.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserializer;
use serde::de::{MapAccess, Visitor};

use crate::failure::{Failure, IO, USAGE};

/// New names by the old ones.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    new: HashMap<String, String>,
    /// The old names in the order of the file.
    order: Vec<String>,
}

/// How many unused lines are named.
const NAMED: usize = 3;

impl Table {
    /// Reads lines of an old name, a tab and a new one, or a JSON object with the new names by the old ones.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |code, why: String| {
            let path = path.display();
            Failure::new(code, format!("--rename-table {path}: {why}"))
        };
        let bytes = std::fs::read(path).map_err(|error| wrong(IO, error.to_string()))?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| wrong(USAGE, "is no text in UTF-8".into()))?;
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
        // A line with a tab is one of a table, whatever it starts with.
        let first = text.trim_start().lines().next().unwrap_or_default();
        let pairs = match first.starts_with('{') && serde_json::from_str::<Ignored>(text).is_ok()
            || first.starts_with('{') && !first.contains('\t')
        {
            true => json(text),
            false => lines(text),
        };
        let mut table = Self {
            path: path.to_path_buf(),
            new: HashMap::new(),
            order: Vec::new(),
        };
        for (old, new) in pairs.map_err(|why| wrong(USAGE, why))? {
            if table.new.contains_key(&old) {
                return Err(wrong(USAGE, format!("{old:?} is renamed twice")));
            }
            table.order.push(old.clone());
            table.new.insert(old, new);
        }
        match table.order.is_empty() {
            true => Err(wrong(USAGE, "renames nothing".into())),
            false => Ok(table),
        }
    }

    /// The new name, or the old one where it isn't in the table.
    pub(crate) fn apply<'a>(&'a self, name: &'a str) -> &'a str {
        self.new.get(name).map_or(name, String::as_str)
    }

    /// The old names that are among these.
    pub(crate) fn used<'a>(&'a self, names: impl Iterator<Item = &'a str>) -> HashSet<String> {
        names
            .filter(|name| self.new.contains_key(*name))
            .map(str::to_owned)
            .collect()
    }

    /// The other ones, in their order.
    pub(crate) fn unused(&self, used: &HashSet<String>) -> Vec<&str> {
        let order = self.order.iter().map(String::as_str);
        order.filter(|name| !used.contains(*name)).collect()
    }

    /// That some old names are those of no tensor.
    pub(crate) fn says(&self, unused: &[&str]) -> String {
        let named: Vec<String> = unused
            .iter()
            .take(NAMED)
            .map(|n| format!("{n:?}"))
            .collect();
        let more = if unused.len() > NAMED { ", ..." } else { "" };
        format!(
            "{} of {} names in {} are those of no tensor: {}{more}",
            unused.len(),
            self.order.len(),
            self.path.display(),
            named.join(", ")
        )
    }
}

/// A whole JSON document, whatever it holds.
type Ignored = serde::de::IgnoredAny;

type Pairs = Result<Vec<(String, String)>, String>;

fn lines(text: &str) -> Pairs {
    let mut pairs = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() {
            continue;
        }
        let mut fields = line.split('\t');
        match (fields.next(), fields.next(), fields.next()) {
            (Some(old), Some(new), None) => pairs.push((old.to_owned(), new.to_owned())),
            _ => {
                return Err(format!(
                    "line {number} is not an old name, a tab and a new name: {line:?}"
                ));
            }
        }
    }
    Ok(pairs)
}

/// The pairs of a JSON object, those with a duplicate key too.
fn json(text: &str) -> Pairs {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with a new name for each old one")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let pairs = reader.deserialize_map(Object);
    let pairs = pairs.and_then(|pairs| reader.end().map(|()| pairs));
    pairs.map_err(|error| error.to_string())
}
