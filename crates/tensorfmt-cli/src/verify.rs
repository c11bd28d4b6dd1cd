use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use tensor_core::{Item, Kind, Outcome as Check, Report};
use tensorfmt::{Archive, Error, VerifyOptions, Work};

use crate::Outcome;
use crate::cli::{Common, Verify};
use crate::failure::{Failure, INVALID, UNSUPPORTED, complain, exit_code};
use crate::files::{Files, worse};
use crate::input::Input;
use crate::output::{Out, escape};
use crate::progress::Meter;

#[derive(Serialize)]
struct Document {
    files: Vec<File>,
}

#[derive(Serialize)]
struct File {
    path: String,
    format: Option<&'static str>,
    version: Option<String>,
    exit: u8,
    items: Vec<Line>,
    warnings: Vec<String>,
    error: Option<Wrong>,
}

#[derive(Serialize)]
pub(crate) struct Line {
    item: String,
    outcome: &'static str,
    expected: Option<String>,
    found: Option<String>,
    note: Option<String>,
}

#[derive(Serialize)]
struct Wrong {
    kind: &'static str,
    rule: Option<&'static str>,
    offset: Option<u64>,
    entry: Option<u64>,
    message: String,
}

pub(crate) fn run(args: &Verify, common: &Common) -> Outcome {
    let mut out = Out::new();
    let mut files = Vec::new();
    let mut exit = 0;
    let files_named = Files::new(&args.files, common);
    for (path, input) in files_named.inputs(common) {
        let file = match input {
            Ok(input) => check(&input, args.strict, common),
            Err(failure) => unreadable(path, &failure),
        };
        exit = worse(exit, file.exit);
        if args.json {
            files.push(file);
        } else {
            print(&file, files_named.several, common.quiet, &mut out)?;
        }
    }
    if args.json {
        out.json(&Document { files })?;
    }
    out.finish()?;
    Ok(ExitCode::from(exit))
}

impl File {
    fn new(path: &Path) -> Self {
        Self {
            path: path.display().to_string(),
            format: None,
            version: None,
            exit: 0,
            items: Vec::new(),
            warnings: Vec::new(),
            error: None,
        }
    }
}

/// What is said about an input that can't be read.
fn unreadable(path: &Path, failure: &Failure) -> File {
    let mut file = File::new(path);
    file.exit = failure.code();
    file.error = Some(Wrong {
        kind: Kind::Io.name(),
        rule: None,
        offset: None,
        entry: None,
        message: failure.message().to_owned(),
    });
    file
}

fn check(input: &Input, strict: bool, common: &Common) -> File {
    let mut file = File::new(&input.path);
    let checked = input.open_to_verify().and_then(|archive| {
        file.format = Some(archive.format().name());
        file.version = Some(archive.version());
        input.check_work(&archive, Work::Verify)?;
        verify(&archive, strict, common)
    });
    match checked {
        Ok(report) => {
            let suspect = strict && !report.warnings.is_empty();
            file.exit = match (report.has_failed() || suspect, report.has_unsupported()) {
                (true, _) => INVALID,
                (_, true) => UNSUPPORTED,
                _ => 0,
            };
            file.items = report.items.into_iter().map(line).collect();
            file.warnings = report.warnings;
        }
        Err(error) => {
            file.exit = exit_code(error.kind());
            let at = error.at();
            file.error = Some(Wrong {
                kind: error.kind().name(),
                rule: error.rule_id(),
                offset: at.map(|at| at.offset),
                entry: at.and_then(|at| at.entry),
                message: error.to_string(),
            });
        }
    }
    file
}

/// Makes every check that the file allows, with a progress bar.
pub(crate) fn verify(archive: &Archive, strict: bool, common: &Common) -> Result<Report, Error> {
    let meter = Meter::new(archive.file_len(), common);
    let progress = |bytes| meter.tick(bytes);
    let mut options = VerifyOptions::default();
    options.strict = strict;
    options.threads = common.threads;
    options.progress = Some(&progress);
    archive.verify(&options)
}

pub(crate) fn line(item: Item) -> Line {
    Line {
        item: item.item,
        outcome: item.outcome.name(),
        expected: item.expected,
        found: item.found,
        note: item.note,
    }
}

/// An outcome in one line, to be escaped.
pub(crate) fn words(item: &Line) -> String {
    let outcome = match item.outcome {
        outcome if outcome == Check::Failed.name() => "FAILED",
        outcome if outcome == Check::NotCovered.name() => "not covered",
        outcome => outcome,
    };
    let mut text = format!("{}: {outcome}", item.item);
    if let Some(note) = &item.note {
        text.push_str(&format!(" ({note})"));
    }
    match (&item.expected, &item.found) {
        (Some(expected), Some(found)) if expected != found => {
            text.push_str(&format!(", expected {expected}, found {found}"));
        }
        _ => {}
    }
    text
}

/// Prints what was checked; where it is to be `quiet`, only what failed or can't be checked.
fn print(file: &File, several: bool, quiet: bool, out: &mut Out) -> Result<(), Failure> {
    let prefix = if several {
        format!("{}: ", escape(&file.path))
    } else {
        String::new()
    };
    let is_fine = |item: &Line| {
        let fine = [Check::Ok.name(), Check::NotCovered.name()];
        fine.contains(&item.outcome)
    };
    for item in file.items.iter().filter(|item| !(quiet && is_fine(item))) {
        out.line(&format!("{prefix}{}", escape(&words(item))))?;
    }
    // Warnings fail a file only under --strict.
    let warnings = file.warnings.iter().filter(|_| !quiet || file.exit != 0);
    for warning in warnings {
        out.line(&format!("{prefix}warning: {}", escape(warning)))?;
    }
    if let Some(error) = &file.error {
        let named = error.message.starts_with(&format!("{}: ", file.path));
        let message = if named {
            String::new()
        } else {
            format!("{}: ", file.path)
        };
        complain(&escape(&format!("{message}{}", error.message)));
    }
    Ok(())
}
