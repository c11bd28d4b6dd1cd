use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use tensor_core::{Item, Kind, Outcome as Check, Report};
use tensorfmt::{Archive, Error, VerifyOptions, Work};

use crate::Outcome;
use crate::cli::{Common, Verify};
use crate::failure::{Failure, INVALID, UNSUPPORTED, complain, exit_code};
use crate::files::{Files, worse};
use crate::input::Input;
use crate::output::{Out, escape, indented, shown};
use crate::progress::Meter;

/// What the JSON says of a file before its items.
#[derive(Serialize)]
struct Head {
    path: String,
    format: Option<&'static str>,
    version: Option<String>,
}

/// And what after them.
#[derive(Serialize)]
struct Tail {
    exit: u8,
    warnings: Vec<String>,
    error: Option<ErrorJson>,
}

#[derive(Serialize)]
struct Line<'a> {
    item: &'a str,
    outcome: &'static str,
    expected: Option<&'a str>,
    found: Option<&'a str>,
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct ErrorJson {
    kind: &'static str,
    rule: Option<&'static str>,
    offset: Option<u64>,
    entry: Option<u64>,
    message: String,
}

pub(crate) fn run(args: &Verify, common: &Common) -> Outcome {
    let named = Files::new(&args.files, common);
    let mut said = Said::new(args.json, named.several, common.quiet)?;
    let mut exit = 0;
    for (path, input) in named.inputs(common) {
        let tail = match input {
            Ok(input) => check(&input, &mut said, args.strict, common)?,
            Err(failure) => {
                said.head(path, None)?;
                unreadable(&failure)
            }
        };
        exit = worse(exit, tail.exit);
        said.tail(path, &tail)?;
    }
    said.finish()?;
    Ok(ExitCode::from(exit))
}

/// The report about an input that can't be read.
fn unreadable(failure: &Failure) -> Tail {
    Tail {
        exit: failure.code(),
        warnings: Vec::new(),
        error: Some(ErrorJson {
            kind: Kind::Io.name(),
            rule: None,
            offset: None,
            entry: None,
            message: failure.message().to_owned(),
        }),
    }
}

/// Makes every check of a file and prints each as it is made, since a million of them would take much memory.
fn check(input: &Input, said: &mut Said, strict: bool, common: &Common) -> Result<Tail, Failure> {
    let opened = input.open_to_verify();
    said.head(&input.path, opened.as_ref().ok())?;
    let checked = opened.and_then(|archive| {
        input.check_work(&archive, Work::Verify)?;
        let said = Mutex::new(&mut *said);
        let told = |item: &Item| {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.item(item);
        };
        verify(&archive, (strict, true), common, &told)
    });
    said.failed()?;
    Ok(match checked {
        Ok(report) => {
            let suspect = strict && !report.warnings.is_empty();
            let exit = match (report.has_failed() || suspect, report.has_unsupported()) {
                (true, _) => INVALID,
                (_, true) => UNSUPPORTED,
                _ => 0,
            };
            Tail {
                exit,
                warnings: report.warnings,
                error: None,
            }
        }
        Err(error) => Tail {
            exit: exit_code(error.kind()),
            warnings: Vec::new(),
            error: Some(wrong(&error)),
        },
    })
}

fn wrong(error: &Error) -> ErrorJson {
    let at = error.at();
    ErrorJson {
        kind: error.kind().name(),
        rule: error.rule_id(),
        offset: at.map(|at| at.offset),
        entry: at.and_then(|at| at.entry),
        message: error.to_string(),
    }
}

/// Makes every check that the file allows, with a progress bar.
///
/// Each is printed; the report keeps only those that failed or can't be interpreted, or if all are to be forgotten
/// only their number.
pub(crate) fn verify(
    archive: &Archive,
    (strict, forget): (bool, bool),
    common: &Common,
    told: &(dyn Fn(&Item) + Sync),
) -> Result<Report, Error> {
    let meter = Meter::new(archive.file_len(), common);
    let progress = |bytes| meter.tick(bytes);
    let mut options = VerifyOptions::default();
    options.strict = strict;
    options.threads = common.threads;
    options.progress = Some(&progress);
    options.items = Some(told);
    options.forget = forget;
    archive.verify(&options)
}

fn line(item: &Item) -> Line<'_> {
    Line {
        item: &item.item,
        outcome: item.outcome.name(),
        expected: item.expected.as_deref(),
        found: item.found.as_deref(),
        note: item.note.as_deref(),
    }
}

/// An outcome in one line, to be escaped.
pub(crate) fn words(item: &Item) -> String {
    let outcome = match item.outcome {
        Check::Failed => "FAILED",
        Check::NotCovered => "not covered",
        outcome => outcome.name(),
    };
    let mut text = format!("{}: {outcome}", shown(&item.item));
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

/// The report on standard output, file by file and item by item.
struct Said {
    out: Out,
    json: bool,
    several: bool,
    /// Say only what failed or can't be checked.
    quiet: bool,
    /// Before each line.
    prefix: String,
    files: usize,
    items: usize,
    /// What went wrong with saying an item.
    failure: Option<Failure>,
}

impl Said {
    fn new(json: bool, several: bool, quiet: bool) -> Result<Self, Failure> {
        let mut out = Out::new();
        if json {
            out.text("{\n  \"files\": [")?;
        }
        Ok(Self {
            out,
            json,
            several,
            quiet,
            prefix: String::new(),
            files: 0,
            items: 0,
            failure: None,
        })
    }

    /// Begins with a file, as far as it can be opened.
    fn head(&mut self, path: &Path, archive: Option<&Archive>) -> Result<(), Failure> {
        let path = path.display().to_string();
        if self.several {
            self.prefix = format!("{}: ", escape(&path));
        }
        (self.files, self.items) = (self.files + 1, 0);
        if !self.json {
            return Ok(());
        }
        let head = Head {
            path,
            format: archive.map(|archive| archive.format().name()),
            version: archive.map(Archive::version),
        };
        let head = indented(&head, "    ")?;
        let head = head.strip_suffix("\n    }").unwrap_or(&head);
        let comma = if self.files > 1 { "," } else { "" };
        let text = format!("{comma}\n    {head},\n      \"items\": [");
        self.out.text(&text)
    }

    /// Says what became of a check; after a failure nothing more.
    fn item(&mut self, item: &Item) {
        if self.failure.is_none() {
            self.failure = self.try_item(item).err();
        }
    }

    fn try_item(&mut self, item: &Item) -> Result<(), Failure> {
        self.items += 1;
        if self.json {
            let comma = if self.items > 1 { "," } else { "" };
            let text = indented(&line(item), "        ")?;
            return self.out.text(&format!("{comma}\n        {text}"));
        }
        let is_well = matches!(item.outcome, Check::Ok | Check::NotCovered);
        match self.quiet && is_well {
            true => Ok(()),
            false => self
                .out
                .line(&format!("{}{}", self.prefix, escape(&words(item)))),
        }
    }

    /// The failure, if there was one.
    fn failed(&mut self) -> Result<(), Failure> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Ends with a file.
    fn tail(&mut self, path: &Path, tail: &Tail) -> Result<(), Failure> {
        if self.json {
            let text = indented(tail, "    ")?;
            let fields = text.strip_prefix('{').unwrap_or_default();
            let end = if self.items == 0 { "]" } else { "\n      ]" };
            return self.out.text(&format!("{end},{fields}"));
        }
        // Warnings fail a file only under --strict.
        let warnings = tail.warnings.iter();
        for warning in warnings.filter(|_| !self.quiet || tail.exit != 0) {
            let warning = escape(warning);
            self.out
                .line(&format!("{}warning: {warning}", self.prefix))?;
        }
        if let Some(error) = &tail.error {
            let path = format!("{}: ", path.display());
            let path = match error.message.starts_with(&path) {
                true => "",
                false => &path,
            };
            complain(&escape(&format!("{path}{}", error.message)));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        if self.json {
            let end = if self.files == 0 {
                "]\n}\n"
            } else {
                "\n  ]\n}\n"
            };
            self.out.text(end)?;
        }
        self.out.finish()
    }
}
