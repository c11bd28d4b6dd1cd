//! `--check LIST`: digests computed now, compared with those that were printed earlier.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cli::Algorithm;
use crate::failure::{Failure, IO, USAGE, complain};
use crate::output::{escape, shown};

/// A list as it was printed: what it has for one file, or for each of several.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) path: String,
    lists: Vec<List>,
    /// What JSON says, or what the length of the digests tells.
    pub(super) algorithm: Option<Algorithm>,
}

/// The digests of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    path: Option<String>,
    /// By the name as listings show it; those of one name in their order. The digest is `-` where there was
    /// none.
    tensors: HashMap<String, Vec<String>>,
    /// The names in the order of the list.
    order: Vec<String>,
    model: Option<String>,
    taken: bool,
}

/// What is not as the list has it.
#[derive(Debug, Serialize)]
pub(super) struct Mismatch {
    pub(super) name: String,
    /// `differs`, `missing` from the file, or `surplus` there.
    pub(super) outcome: &'static str,
    expected: Option<String>,
    found: Option<String>,
}

#[derive(Deserialize)]
struct Document {
    path: Option<String>,
    algorithm: String,
    tensors: Vec<Item>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    digest: Option<String>,
}

/// The name of the digest over all tensors.
pub(super) const MODEL: &str = "(model)";

impl Lists {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong =
            |code, why: String| Failure::new(code, format!("--check {}: {why}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| wrong(IO, error.to_string()))?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| wrong(USAGE, "is no text in UTF-8".into()))?;
        let lists = match text.trim_start().starts_with('{') {
            true => json(&text),
            false => lines(&text),
        };
        let mut lists = lists.map_err(|why| wrong(USAGE, why))?;
        lists.path = path.display().to_string();
        Ok(lists)
    }

    /// The list for a file.
    pub(super) fn take(&mut self, path: &str, several: bool) -> Result<List, Failure> {
        let found = match self.lists.as_mut_slice() {
            [list] if !several => Some(list),
            lists => {
                // A file may be named twice.
                let of_path = |list: &&mut List| list.path.as_deref() == Some(path);
                let mut lists: Vec<&mut List> = lists.iter_mut().filter(of_path).collect();
                lists.sort_by_key(|list| list.taken);
                lists.into_iter().next()
            }
        };
        let list = found.ok_or_else(|| {
            let list = &self.path;
            Failure::usage(format!("--check {list}: has nothing about {path}"))
        })?;
        list.taken = true;
        Ok(list.clone())
    }

    /// Says which files of the list were not looked at; whether there are any.
    pub(super) fn are_left(&self) -> bool {
        let left = self.lists.iter().filter(|list| !list.taken);
        left.map(|list| {
            let path = list.path.as_deref().unwrap_or_default();
            complain(&escape(&format!("{path}: missing, {} lists it", self.path)));
        })
        .count()
            > 0
    }
}

impl List {
    /// Holds the next tensor's digest against the list.
    pub(super) fn check(&mut self, name: &str, digest: Option<&str>) -> Option<Mismatch> {
        let found = digest.map(str::to_owned);
        let name = shown(name).into_owned();
        let listed = self.tensors.get_mut(&name).filter(|left| !left.is_empty());
        let wrong = |outcome, expected| Mismatch {
            name: name.clone(),
            outcome,
            expected,
            found: found.clone(),
        };
        match listed.map(|left| left.remove(0)) {
            None => Some(wrong("surplus", None)),
            Some(expected) if expected == digest.unwrap_or("-") => None,
            Some(expected) => Some(wrong("differs", Some(expected))),
        }
    }

    /// What is in the list and was not found, of the names that are looked for.
    pub(super) fn missing(&mut self, is_wanted: impl Fn(&str) -> bool) -> Vec<Mismatch> {
        let mut missing = Vec::new();
        for name in &self.order {
            let left = self.tensors.get_mut(name);
            for expected in left.map(std::mem::take).unwrap_or_default() {
                if is_wanted(name) {
                    missing.push(Mismatch {
                        name: name.clone(),
                        outcome: "missing",
                        expected: Some(expected),
                        found: None,
                    });
                }
            }
        }
        missing
    }

    /// Compares the digest of the model with the list's, where it has one.
    pub(super) fn check_model(&self, digest: Option<&str>) -> Option<Mismatch> {
        let expected = self.model.as_ref()?;
        (expected != digest.unwrap_or("-")).then(|| Mismatch {
            name: MODEL.to_owned(),
            outcome: "differs",
            expected: Some(expected.clone()),
            found: digest.map(str::to_owned),
        })
    }

    fn add(&mut self, name: String, digest: String) {
        self.order.push(name.clone());
        self.tensors.entry(name).or_default().push(digest);
    }
}

fn json(text: &str) -> Result<Lists, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Several { files: Vec<serde_json::Value> },
        One(Document),
    }
    let either = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let documents = match either {
        Either::One(document) => vec![document],
        Either::Several { files } => {
            // What could not be read then has no digests to check.
            let read = files
                .into_iter()
                .filter(|file| file.get("tensors").is_some());
            let documents = read.map(serde_json::from_value).collect::<Result<_, _>>();
            documents.map_err(|error| error.to_string())?
        }
    };
    let mut lists = Lists::default();
    for document in documents {
        lists.algorithm = Some(algorithm(&document.algorithm)?);
        let mut list = List {
            path: document.path,
            model: Some(document.model.unwrap_or_else(|| "-".into())),
            ..List::default()
        };
        for Item { name, digest } in document.tensors {
            list.add(
                shown(&name).into_owned(),
                digest.unwrap_or_else(|| "-".into()),
            );
        }
        lists.lists.push(list);
    }
    Ok(lists)
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let known = <Algorithm as clap::ValueEnum>::from_str(name, false);
    known.map_err(|_| format!("no digest is called {name:?}"))
}

fn lines(text: &str) -> Result<Lists, String> {
    let mut lists = Lists::default();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() {
            continue;
        }
        let heading = line.strip_prefix("==> ");
        if let Some(path) = heading.and_then(|line| line.strip_suffix(" <==")) {
            lists.lists.push(List {
                path: Some(path.to_owned()),
                ..List::default()
            });
            continue;
        }
        let is_digest = |text: &&str| {
            *text == "-"
                || matches!(text.len(), 8 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
        };
        let pair = line
            .split_once("  ")
            .filter(|(digest, _)| is_digest(digest));
        let (digest, name) =
            pair.ok_or_else(|| format!("line {number} is not a digest, two spaces and a name"))?;
        if digest.len() == 8 {
            lists.algorithm = Some(Algorithm::Crc32c);
        }
        if lists.lists.is_empty() {
            lists.lists.push(List::default());
        }
        if let Some(list) = lists.lists.last_mut() {
            // The last one of that name is the model, whatever tensors are called.
            if let Some(before) = list.model.take() {
                list.add(MODEL.to_owned(), before);
            }
            match name == MODEL {
                true => list.model = Some(digest.to_ascii_lowercase()),
                false => list.add(name.to_owned(), digest.to_ascii_lowercase()),
            }
        }
    }
    match lists.lists.is_empty() {
        true => Err("lists nothing".into()),
        false => Ok(lists),
    }
}
