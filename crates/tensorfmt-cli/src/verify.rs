pub(crate) mod part;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
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
    format: Option<String>,
    version: Option<String>,
}

/// And what after these and the warnings.
#[derive(Serialize)]
struct Tail {
    exit: u8,
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

#[derive(Serialize, Deserialize)]
struct ErrorJson {
    kind: String,
    rule: Option<String>,
    offset: Option<u64>,
    entry: Option<u64>,
    message: String,
}

pub(crate) fn run(args: &Verify, common: &Common) -> Outcome {
    if let Some(part) = args.part {
        return part::run(args, part, common).map(ExitCode::from);
    }
    let named = Files::new(&args.files, common);
    let mut said = Said::new((args.json, args.strict), named.several, common.quiet)?;
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
        error: Some(ErrorJson {
            kind: Kind::Io.name().to_owned(),
            rule: None,
            offset: None,
            entry: None,
            message: failure.message().to_owned(),
        }),
    }
}

/// Makes every check of a file and prints each as it is made, and then the warnings, since a million of them would
/// take much memory.
fn check(input: &Input, said: &mut Said, strict: bool, common: &Common) -> Result<Tail, Failure> {
    let opened = input.open_to_verify();
    let archive = opened.as_ref().ok();
    let format = archive.map(|archive| (archive.format().name().to_owned(), archive.version()));
    said.head(&input.path, format)?;
    let checked = opened.and_then(|archive| {
        input.check_work(&archive, Work::Verify)?;
        let said = Mutex::new(&mut *said);
        let said = || said.lock().unwrap_or_else(PoisonError::into_inner);
        let told = |item: &Item| said().item(item);
        let warned = |warning: &str| said().warning(warning);
        let options = VerifyOptions::default().with_strict(strict);
        let options = options.with_items(&told).with_forget(true);
        verify(&archive, options.with_warnings(&warned), common)
    });
    said.failed()?;
    Ok(match checked {
        Ok(report) => Tail {
            exit: end(&report, strict),
            error: None,
        },
        Err(error) => Tail {
            exit: exit_code(error.kind()),
            error: Some(wrong(&error)),
        },
    })
}

/// The exit code of a report.
fn end(report: &Report, strict: bool) -> u8 {
    let suspect = strict && report.warning_count() > 0;
    match (report.has_failed() || suspect, report.has_unsupported()) {
        (true, _) => INVALID,
        (_, true) => UNSUPPORTED,
        _ => 0,
    }
}

fn wrong(error: &Error) -> ErrorJson {
    let at = error.at();
    ErrorJson {
        kind: error.kind().name().to_owned(),
        rule: error.rule_id().map(str::to_owned),
        offset: at.map(|at| at.offset),
        entry: at.and_then(|at| at.entry),
        message: error.to_string(),
    }
}

/// Makes every check that the file allows, with a progress bar.
pub(crate) fn verify(
    archive: &Archive,
    options: VerifyOptions<'_>,
    common: &Common,
) -> Result<Report, Error> {
    let meter = Meter::new(archive.file_len(), common);
    let progress = |bytes| meter.tick(bytes);
    let options = options.with_threads(common.threads);
    archive.verify(&options.with_progress(&progress))
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
    /// Say only what failed or can't be checked, and warnings where that makes the file fail or it does already.
    quiet: bool,
    strict: bool,
    /// Before each line.
    prefix: String,
    files: usize,
    items: usize,
    warnings: usize,
    /// Whether an item of the file failed or can't be checked.
    is_ill: bool,
    /// What went wrong with saying an item or a warning.
    failure: Option<Failure>,
}

impl Said {
    fn new((json, strict): (bool, bool), several: bool, quiet: bool) -> Result<Self, Failure> {
        let mut out = Out::new();
        if json {
            out.text("{\n  \"files\": [")?;
        }
        Ok(Self {
            out,
            json,
            several,
            quiet,
            strict,
            prefix: String::new(),
            files: 0,
            items: 0,
            warnings: 0,
            is_ill: false,
            failure: None,
        })
    }

    /// Begins with a file, as far as it can be opened.
    fn head(&mut self, path: &Path, format: Option<(String, String)>) -> Result<(), Failure> {
        let path = path.display().to_string();
        if self.several {
            self.prefix = format!("{}: ", escape(&path));
        }
        (self.files, self.items, self.warnings) = (self.files + 1, 0, 0);
        self.is_ill = false;
        if !self.json {
            return Ok(());
        }
        let (format, version) = format.unzip();
        let head = Head {
            path,
            format,
            version,
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
        self.is_ill |= !is_well;
        match self.quiet && is_well {
            true => Ok(()),
            false => self
                .out
                .line(&format!("{}{}", self.prefix, escape(&words(item)))),
        }
    }

    /// Says a warning, after all items of the file.
    fn warning(&mut self, warning: &str) {
        if self.failure.is_none() {
            self.failure = self.try_warning(warning).err();
        }
    }

    fn try_warning(&mut self, warning: &str) -> Result<(), Failure> {
        self.warnings += 1;
        if self.json {
            let before = match self.warnings {
                1 => format!("{},\n      \"warnings\": [", self.end_of_items()),
                _ => ",".into(),
            };
            let text = indented(&warning, "        ")?;
            return self.out.text(&format!("{before}\n        {text}"));
        }
        // They fail a file only under --strict.
        match self.quiet && !self.strict && !self.is_ill {
            true => Ok(()),
            false => {
                let (prefix, warning) = (&self.prefix, escape(warning));
                self.out.line(&format!("{prefix}warning: {warning}"))
            }
        }
    }

    /// How the list of items ends in JSON.
    fn end_of_items(&self) -> &'static str {
        if self.items == 0 { "]" } else { "\n      ]" }
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
            let end = match self.warnings {
                0 => format!("{},\n      \"warnings\": []", self.end_of_items()),
                _ => "\n      ]".into(),
            };
            return self.out.text(&format!("{end},{fields}"));
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
