//! Checks of a part of a file, and what all of them come to.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tensor_core::{Item, Outcome as Check};
use tensorfmt::{Part, VerifyOptions};

use super::{ErrorJson, Line, Said, Tail, end, line, verify, wrong};
use crate::cli::{Common, Verify};
use crate::failure::{Failure, exit_code};
use crate::files::worse;
use crate::input::Input;
use crate::output::Out;
use crate::reports::{Head, Range, Reports, one_file};

/// What a report has before its items.
#[derive(Serialize)]
struct Start {
    part: Head,
    format: Option<String>,
    version: Option<String>,
}

#[derive(Serialize)]
struct Placed<'a> {
    /// Where it stands among the items of all parts.
    at: (u32, u64),
    #[serde(flatten)]
    line: Line<'a>,
}

/// And what after them.
#[derive(Serialize)]
struct Finish {
    exit: u8,
    /// Each with where it stands among the warnings of all parts.
    warnings: Vec<((u32, u64), String)>,
    error: Option<ErrorJson>,
}

/// Makes the checks of a part, and prints each as it is made.
pub(super) fn run(args: &Verify, part: Part, common: &Common) -> Result<u8, Failure> {
    let input = Input::new(one_file(&args.files)?, common)?;
    let opened = input.open_to_verify();
    let archive = opened.as_ref().ok();
    let options = match args.strict {
        true => vec!["--strict".to_owned()],
        false => Vec::new(),
    };
    let start = Start {
        part: Head::new("verify", part, &input.path, archive, options)?,
        format: archive.map(|archive| archive.format().name().to_owned()),
        version: archive.map(tensorfmt::Archive::version),
    };
    let list = Mutex::new((Out::new().list(&start, "items")?, Ok(())));
    let warnings = Mutex::new(Vec::new());
    let checked = opened.and_then(|archive| {
        input.check_work(&archive, tensorfmt::Work::Verify)?;
        let share = Range::of(part, &archive);
        let told = |item: &Item| {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            let (list, failed) = &mut *list;
            if failed.is_ok() {
                let (at, line) = (share.place(), line(item));
                *failed = list.item(&Placed { at, line });
            }
        };
        let warned = |warning: &str| {
            let mut warnings = warnings.lock().unwrap_or_else(PoisonError::into_inner);
            warnings.push((share.place(), warning.to_owned()));
        };
        let options = VerifyOptions::default().with_strict(args.strict);
        let options = options.with_items(&told).with_forget(true);
        let options = options.with_warnings(&warned).with_share(&share);
        verify(&archive, options, common)
    });
    let (list, failed) = list.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed?;
    let warnings = warnings.into_inner();
    let (exit, error) = match &checked {
        Ok(report) => (end(report, args.strict), None),
        Err(error) => (exit_code(error.kind()), Some(wrong(error))),
    };
    let finish = Finish {
        exit,
        warnings: warnings.unwrap_or_else(PoisonError::into_inner),
        error,
    };
    list.end(&finish)?;
    Ok(exit)
}

/// A report that was read.
#[derive(Deserialize)]
struct Found {
    part: Head,
    format: Option<String>,
    version: Option<String>,
    items: Vec<FoundItem>,
    exit: u8,
    warnings: Vec<((u32, u64), String)>,
    error: Option<ErrorJson>,
}

#[derive(Deserialize)]
struct FoundItem {
    at: (u32, u64),
    item: String,
    outcome: String,
    expected: Option<String>,
    found: Option<String>,
    note: Option<String>,
}

impl FoundItem {
    fn item(self) -> Item {
        let outcomes = [Check::Ok, Check::Failed, Check::NotCovered];
        let outcome = outcomes
            .into_iter()
            .find(|outcome| outcome.name() == self.outcome);
        let mut item = Item::new(self.item, outcome.unwrap_or(Check::Unsupported));
        item.expected = self.expected;
        item.found = self.found;
        item.note = self.note;
        item
    }
}

/// Prints what one run on the whole file does.
pub(crate) fn join(reports: &Reports, common: &Common) -> Result<u8, Failure> {
    let mut said = Said::new((true, false), false, common.quiet)?;
    let mut head: Option<(String, Option<(String, String)>)> = None;
    let mut items = Vec::new();
    let mut warnings = Vec::new();
    let mut tail = Tail {
        exit: 0,
        error: None,
    };
    reports.each(|found: Found| {
        head.get_or_insert_with(|| (found.part.path, found.format.zip(found.version)));
        items.extend(found.items);
        warnings.extend(found.warnings);
        tail.exit = worse(tail.exit, found.exit);
        tail.error = tail.error.take().or(found.error);
        Ok(())
    })?;
    items.sort_by_key(|item| item.at);
    warnings.sort_by_key(|(at, _)| *at);
    let (path, format) = head.unwrap_or_default();
    said.head(path.as_ref(), format)?;
    for item in items {
        said.item(&item.item());
    }
    for (_, warning) in warnings {
        said.warning(&warning);
    }
    said.failed()?;
    said.tail(path.as_ref(), &tail)?;
    said.finish()?;
    Ok(tail.exit)
}
