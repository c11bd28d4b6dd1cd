//! Several files for one verb: those named, and of a folder all that are of a known format.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use tensor_core::{FileId, Kind};
use tensorfmt::{Archive, Format};

use crate::Outcome;
use crate::cli::Common;
use crate::failure::{Failure, INVALID, IO, UNSUPPORTED, complain};
use crate::input::Input;
use crate::names::Idle;
use crate::output::{Listing, Out, escape};

/// The files that a verb works on.
pub(crate) struct Files {
    /// Each with its path, or the failure of what should have named it.
    list: Vec<Result<PathBuf, (PathBuf, Failure)>>,
    /// Whether more than one is asked for, though one or none may be there.
    pub(crate) several: bool,
}

impl Files {
    /// Those that are named; a folder means the files of known formats directly in it.
    pub(crate) fn new(named: &[PathBuf], common: &Common) -> Self {
        let mut list = Vec::with_capacity(named.len());
        let mut several = named.len() > 1;
        for path in named {
            if !path.is_dir() {
                list.push(Ok(path.clone()));
                continue;
            }
            several = true;
            match in_folder(path, common) {
                Ok(files) => list.extend(files.into_iter().map(Ok)),
                Err(failure) => list.push(Err((path.clone(), failure))),
            }
        }
        Self { list, several }
    }

    /// Each with its path, and opened for reading where that works.
    pub(crate) fn inputs<'a>(
        &'a self,
        common: &'a Common,
    ) -> impl Iterator<Item = (&'a Path, Result<Input, Failure>)> {
        self.list.iter().map(|file| match file {
            Ok(path) => (path.as_path(), Input::new(path, common)),
            Err((path, failure)) => (path.as_path(), Err(failure.clone())),
        })
    }
}

/// How a verb says which of several files it goes on with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heading {
    /// A line above the output about the file.
    Line,
    /// Lines begin with the path.
    Own,
}

/// What a verb must know about the files around the one that it works on.
#[derive(Default)]
pub(crate) struct Round {
    /// Whether there may be others.
    pub(crate) several: bool,
    /// Patterns that matched nothing in any file so far, `None` before the first one.
    idle: Option<Idle>,
}

impl Round {
    /// Takes the patterns that match nothing: of a single file an error, of several one at the end if no
    /// file has anything for them.
    pub(crate) fn idle(&mut self, idle: Idle, allow_empty: bool) -> Result<(), Failure> {
        if !self.several {
            return idle.check(allow_empty);
        }
        self.idle = Some(match self.idle.take() {
            Some(known) => known.common(&idle),
            None => idle,
        });
        Ok(())
    }

    /// The path for a document that has none where the file is the only one.
    pub(crate) fn path(&self, input: &Input) -> Option<String> {
        self.several.then(|| input.path.display().to_string())
    }
}

/// Does a verb's work for each file, and ends with the worst exit code. What fails for one file keeps nobody
/// from the others. With `json`, of several files the documents come in a list.
pub(crate) fn each(
    named: &[PathBuf],
    (json, heading, allow_empty): (bool, Heading, bool),
    common: &Common,
    mut work: impl FnMut(&Input, &mut Round) -> Result<u8, Failure>,
) -> Outcome {
    let files = Files::new(named, common);
    let mut round = Round {
        several: files.several,
        idle: None,
    };
    let mut exit = 0;
    let mut said = String::new();
    let mut is_first = true;
    if !files.several {
        for (_, input) in files.inputs(common) {
            exit = work(&input?, &mut round)?;
        }
        return Ok(ExitCode::from(exit));
    }
    say(if json { "{\"files\": [\n" } else { "" })?;
    for (path, input) in files.inputs(common) {
        let gap = match (is_first, json) {
            (true, _) => "",
            (false, true) => ",\n",
            (false, false) => "\n",
        };
        is_first = false;
        say(gap)?;
        if heading == Heading::Line && !json {
            say(&format!(
                "==> {} <==\n",
                escape(&path.display().to_string())
            ))?;
        }
        let code = match input.and_then(|input| work(&input, &mut round)) {
            Ok(code) => code,
            Err(failure) if failure.ends_all() => return Err(failure),
            Err(failure) => {
                // The same pattern may be wrong for a hundred files.
                if failure.message() != said {
                    failure.report();
                }
                failure.message().clone_into(&mut said);
                if json {
                    let mut out = Out::new();
                    out.json(&Unread::new(Some(path), &failure))?;
                    out.finish()?;
                }
                failure.code()
            }
        };
        exit = worse(exit, code);
    }
    say(if json { "]}\n" } else { "" })?;
    if let Err(failure) = round.idle.unwrap_or_default().check(allow_empty) {
        failure.report();
        exit = worse(exit, failure.code());
    }
    Ok(ExitCode::from(exit))
}

fn say(text: &str) -> Result<(), Failure> {
    let mut out = Out::new();
    out.text(text)?;
    out.finish()
}

/// What JSON has of a file that could not be worked on, or not to its end.
#[derive(Serialize)]
struct Unread {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    exit: u8,
    error: ErrorJson,
}

#[derive(Serialize)]
struct ErrorJson {
    kind: &'static str,
    message: String,
}

impl Unread {
    fn new(path: Option<&Path>, failure: &Failure) -> Self {
        Self {
            path: path.map(|path| path.display().to_string()),
            exit: failure.code(),
            error: ErrorJson {
                kind: match failure.code() {
                    INVALID => Kind::Invalid.name(),
                    IO => Kind::Io.name(),
                    UNSUPPORTED => Kind::Unsupported.name(),
                    _ => "usage",
                },
                message: failure.message().to_owned(),
            },
        }
    }
}

/// Ends a listing that can't go on: a document stays one, with the error at its end.
pub(crate) fn broken(listing: Listing, failure: Failure) -> Result<u8, Failure> {
    match listing {
        Listing::Json(list) if !failure.ends_all() => {
            list.end(&Unread::new(None, &failure))?;
            failure.report();
            Ok(failure.code())
        }
        Listing::Json(_) => Err(failure),
        Listing::Lines(out) => {
            out.finish()?;
            Err(failure)
        }
    }
}

/// Over several files 3 outranks 1, and 1 outranks 4; an interrupt outranks all.
pub(crate) fn worse(a: u8, b: u8) -> u8 {
    let rank = |code: u8| match code {
        0 => 0,
        UNSUPPORTED => 1,
        INVALID => 2,
        IO => 3,
        _ => 4,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// The files of known formats in a folder, by their names: hidden ones left out, links followed, and of a
/// set the file that names the others.
fn in_folder(folder: &Path, common: &Common) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error: std::io::Error| Failure::io(folder, &error);
    let mut names: Vec<OsString> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            names.push(name);
        }
    }
    names.sort();
    let mut paths: Vec<PathBuf> = Vec::new();
    for name in names {
        let path = folder.join(&name);
        // A link that leads nowhere is named like what is missing.
        let is_file = path.metadata().map_or(true, |at| at.is_file());
        if is_file && is_known(&path, common) {
            paths.push(path);
        }
    }
    let mut members = Members::default();
    for path in &paths {
        if path.extension().is_some_and(|ending| ending == "json") {
            members.add(path);
        }
    }
    paths.retain(|path| !members.has(path));
    if paths.is_empty() {
        let folder = folder.display();
        let text = format!("{folder}: holds no file of a known format");
        return Err(Failure::usage(text));
    }
    Ok(paths)
}

/// Whether a file is of a format that we know, by its ending or by how it begins.
fn is_known(path: &Path, common: &Common) -> bool {
    let mut head = Vec::new();
    let len = path.metadata().map_or(0, |at| at.len());
    if let Ok(file) = File::open(path) {
        // What can't be read is reported when its turn comes.
        let _ = file.take(Format::DETECT_LEN as u64).read_to_end(&mut head);
    }
    if Format::detect(&head, len, None).is_some() {
        return true;
    }
    match Format::from_path(path) {
        None => false,
        // Its endings are also those of others, tokenizers above all, and some of its files have no mark.
        Some(Format::Primitiv) => match Archive::open(path) {
            Err(error) if matches!(error.kind(), Kind::Invalid) => {
                if !common.quiet {
                    let path = path.display();
                    complain(&escape(&format!(
                        "note: {path}: no primitiv file for all its ending, left out"
                    )));
                }
                false
            }
            _ => true,
        },
        Some(_) => true,
    }
}

/// The files that sets consist of.
#[derive(Default)]
struct Members {
    files: HashSet<FileId>,
    /// Names in the files of sets, which may not open as they are.
    names: HashSet<String>,
}

impl Members {
    /// Adds the files of a set, except the one that the set is opened by.
    fn add(&mut self, path: &Path) {
        if let Ok(archive) = Archive::open(path) {
            self.files.extend(archive.files());
        }
        let text = std::fs::read(path).unwrap_or_default();
        let mut open: Vec<serde_json::Value> = serde_json::from_slice(&text).into_iter().collect();
        while let Some(value) = open.pop() {
            match value {
                serde_json::Value::String(text) => {
                    let name = text.strip_prefix("./").unwrap_or(&text);
                    if Format::from_path(name).is_some() {
                        self.names.insert(name.to_owned());
                    }
                }
                serde_json::Value::Array(items) => open.extend(items),
                serde_json::Value::Object(pairs) => {
                    open.extend(pairs.into_iter().map(|(_, value)| value));
                }
                _ => {}
            }
        }
    }

    fn has(&self, path: &Path) -> bool {
        if path.extension().is_some_and(|ending| ending == "json") {
            return false;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| self.names.contains(name))
            || FileId::of(path).is_ok_and(|id| self.files.contains(&id))
    }
}
