//! What a conversion says: losses, options that changed nothing, and what happened to the target.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;
use tensorfmt::Error;
use tensorfmt::convert::{self, Loss, LossKind, Remedy};

use super::planned::Planned;
use crate::cli::Common;
use crate::failure::{Failure, complain};
use crate::output::{Out, escape};

/// How many items a line of losses names.
const NAMED: usize = 3;

#[derive(Serialize)]
struct LossLine {
    kind: &'static str,
    item: String,
    reason: String,
}

/// What became of an option, under the keys of the JSON.
#[derive(Clone, Serialize)]
pub(super) struct Note {
    option: String,
    changed: u64,
    of: u64,
    message: String,
}

impl Note {
    /// An option that did something, and what there is to say about it.
    pub(super) fn new(option: &str, changed: u64, message: String) -> Self {
        Self {
            option: option.to_owned(),
            changed,
            of: changed,
            message: format!("{option}: {message}"),
        }
    }

    /// An option that changed nothing.
    pub(super) fn idle(option: &str, why: impl std::fmt::Display) -> Self {
        Self {
            option: option.to_owned(),
            changed: 0,
            of: 0,
            message: format!("{option} changed nothing: {why}"),
        }
    }
}

/// A note of the library, with the option as it is spelt here.
pub(super) fn note(note: &convert::Note) -> Note {
    let option = format!("--{}", note.option.replace('_', "-"));
    let message = match note.is_idle() {
        true => format!("{option} changed nothing: {}", note.what),
        false => format!(
            "{option} changed {} of {} {}",
            note.changed, note.of, note.what
        ),
    };
    Note {
        option,
        changed: note.changed,
        of: note.of,
        message,
    }
}

/// All that is printed about a conversion except its errors.
#[derive(Serialize)]
pub(super) struct Report {
    losses: Vec<LossLine>,
    notes: Vec<Note>,
    /// What is worth knowing of the target: the order of its data, links, owners.
    target: Vec<String>,
    /// How many bytes were written into the input itself, where its index alone was.
    #[serde(skip_serializing_if = "Option::is_none")]
    written_in_place: Option<u64>,
    /// What would be written, where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Planned>,
    #[serde(skip)]
    lines: Vec<String>,
}

impl Report {
    pub(super) fn new(losses: &[Loss], notes: Vec<Note>) -> Self {
        let line = |loss: &Loss| LossLine {
            kind: loss.kind.name(),
            item: loss.item.clone(),
            reason: loss.reason.clone(),
        };
        Self {
            losses: losses.iter().map(line).collect(),
            notes,
            target: Vec::new(),
            written_in_place: None,
            plan: None,
            lines: grouped(losses),
        }
    }

    /// Whether an option was asked for that changed nothing.
    pub(super) fn has_idle_option(&self) -> bool {
        self.notes.iter().any(|note| note.changed == 0)
    }

    /// Says losses and notes on standard error, unless they go into the JSON.
    pub(super) fn print(&self, json: bool, common: &Common) {
        if json || common.quiet {
            return;
        }
        for line in &self.lines {
            complain(&format!("lost: {}", escape(line)));
        }
        for note in &self.notes {
            complain(&format!("note: {}", escape(&note.message)));
        }
    }

    /// Says what happened to the target.
    pub(super) fn notices(&mut self, notices: Vec<String>, common: &Common) {
        if !common.quiet {
            for notice in &notices {
                complain(&format!("note: {}", escape(notice)));
            }
        }
        self.target.extend(notices);
    }

    /// Says that the index alone was written.
    pub(super) fn written_in_place(&mut self, bytes: u64, common: &Common) {
        let what = match bytes {
            0 => "nothing changes, so nothing was written".into(),
            _ => format!(
                "edited in place: {bytes} bytes of the index written; the data was neither read nor written"
            ),
        };
        self.written_in_place = Some(bytes);
        self.notices(vec![what], common);
    }

    /// Says what would be written.
    pub(super) fn planned(&mut self, plan: Planned) {
        self.plan = Some(plan);
    }

    /// Prints the JSON where it is asked for, else what would be written where nothing is.
    pub(super) fn finish(&self, json: bool) -> Result<(), Failure> {
        if !json {
            return self.plan.as_ref().map_or(Ok(()), Planned::print);
        }
        let mut out = Out::new();
        out.json(self)?;
        out.finish()
    }
}

/// One line for each kind of loss, with a count where it is about several things.
fn grouped(losses: &[Loss]) -> Vec<String> {
    let mut kinds: Vec<(LossKind, Vec<&Loss>)> = Vec::new();
    for loss in losses {
        match kinds.iter_mut().find(|(kind, _)| *kind == loss.kind) {
            Some((_, group)) => group.push(loss),
            None => kinds.push((loss.kind, vec![loss])),
        }
    }
    kinds
        .iter()
        .map(|(kind, group)| line(*kind, group))
        .collect()
}

fn line(kind: LossKind, group: &[&Loss]) -> String {
    let [first, others @ ..] = group else {
        return String::new();
    };
    if others.is_empty() {
        return first.to_string();
    }
    let mut line = format!("{} of {}: ", kind.name(), group.len());
    for (at, loss) in group.iter().take(NAMED).enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let _ = write!(line, "{comma}{:?}", loss.item);
    }
    if group.len() > NAMED {
        line.push_str(", ...");
    }
    let _ = write!(line, ": {}", first.reason);
    let reasons = group.iter().any(|loss| loss.reason != first.reason);
    if reasons {
        line.push_str(", and the like; --json lists each");
    }
    line
}

/// The failure of a plan: every reason at once, each with the option that helps.
pub(super) fn refused(path: &Path, error: &Error) -> Failure {
    let Error::Refused(refusals) = error else {
        return Failure::about(path, error);
    };
    let mut lines = Vec::with_capacity(refusals.len());
    for (at, refusal) in refusals.iter().enumerate() {
        let head = match at {
            0 => format!("{}: ", path.display()),
            _ => String::new(),
        };
        let help = refusal.remedy.map_or_else(String::new, remedy);
        lines.push(format!("{head}{refusal}{help}"));
    }
    Failure::about(path, error).saying(lines.join("\n"))
}

/// The option that helps, as the end of a sentence.
fn remedy(remedy: Remedy) -> String {
    match remedy {
        Remedy::Cast(dtype) => format!("; --cast {dtype} converts it"),
        Remedy::PromoteScalars => "; --promote-scalars writes it as [1]".into(),
        Remedy::Rename => "; --rename gives it another name".into(),
        Remedy::LeaveOut => "; --skip-unsupported leaves it out".into(),
        _ => String::new(),
    }
}
