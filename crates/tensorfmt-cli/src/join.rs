//! `join`: parts that were written alone become a set, and reports about parts one report.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use tensorfmt::{Notice, WriteOptions, convert};

use crate::Outcome;
use crate::cli::{Common, Join};
use crate::failure::{Failure, complain};
use crate::output::{Out, escape};
use crate::signals::Graceful;
use crate::{remote, reports, signals, target};

/// What is said about a set that was joined.
#[derive(Serialize)]
struct Report {
    set: String,
    parts: u32,
    /// Whether it was there already.
    joined_before: bool,
    /// Files that were deleted, and the like.
    target: Vec<String>,
}

pub(crate) fn run(args: &Join, common: &Common) -> Outcome {
    match &args.set {
        Some(set) => join(set, args, common),
        None => reports::join(&args.reports, common),
    }
}

fn join(set: &Path, args: &Join, common: &Common) -> Outcome {
    let (path, object) = remote::parse(set, common)?;
    if object.is_some() {
        return Err(Failure::usage(format!(
            "{}: a set is several files, which are joined in a folder of this disk",
            path.display()
        )));
    }
    target::leftovers(&path, args.remove_leftovers, common.quiet)?;
    let _graceful = Graceful::new();
    let progress = |_: u64| match signals::stopped() {
        true => std::ops::ControlFlow::Break(()),
        false => std::ops::ControlFlow::Continue(()),
    };
    let notices = Mutex::new(Vec::new());
    let notice = |notice: &Notice| {
        let mut notices = notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.push(notice.to_string());
    };
    let mut options = WriteOptions::default();
    options.progress = Some(&progress);
    options.create_new = !args.force;
    options.notice = Some(&notice);
    let joined = match &args.fingerprint {
        Some(plan) => convert::join_plan(&path, plan, &options),
        None => convert::join(&path, &options),
    };
    let joined = joined.map_err(|error| Failure::about(&path, &error))?;
    let mut notices = notices.into_inner().unwrap_or_else(PoisonError::into_inner);
    let path = path.display().to_string();
    if joined.before {
        notices.push(format!("{path}: joined before; nothing is written"));
    }
    if !common.quiet {
        for notice in &notices {
            complain(&format!("note: {}", escape(notice)));
        }
    }
    if args.json {
        let mut out = Out::new();
        out.json(&Report {
            set: path,
            parts: joined.parts,
            joined_before: joined.before,
            target: notices,
        })?;
        out.finish()?;
    }
    Ok(ExitCode::SUCCESS)
}
