//! The `tensorfmt` command as a library: what the program itself calls, and what other programs that
//! offer the same verbs do.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.mag");
//! # let mut builder = tensorfmt::mag::Builder::new();
//! # builder.tensor("w", tensorfmt::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
//! # builder.write_file(&path)?;
//! let path = path.display().to_string();
//! let answer = tensorfmt_cli::run(["inspect", "--json", &path], None);
//! assert_eq!(answer.code, 0);
//! assert!(String::from_utf8_lossy(&answer.stdout).contains("\"format\": \"mag\""));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod beside;
mod brief;
mod cli;
mod completions;
mod console;
mod convert;
mod diff;
mod extract;
mod failure;
mod files;
mod formats;
mod hash;
mod input;
mod inspect;
mod join;
mod measure;
mod names;
mod output;
mod picked;
mod progress;
mod remote;
mod rename;
mod reports;
mod shared;
mod signals;
mod size;
mod stats;
mod target;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Verb};
pub use crate::console::{Answer, Progress};
use crate::failure::Failure;

/// Runs the program with these arguments, the first of which is its own name, and returns its exit code.
///
/// It answers on standard output, and takes care of the signals that end a program until the process ends.
pub fn main(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    signals::install();
    code_of(parsed(arguments, Settings::default()))
}

/// Runs one verb within another program: what it answers and says is returned, and it leaves signals alone.
///
/// The arguments are those after the name of the program. `progress` is told, from any thread, how many
/// bytes more are done, and of how many; its answer may stop the work.
pub fn run(
    arguments: impl IntoIterator<Item = impl Into<OsString>>,
    progress: Option<Progress>,
) -> Answer {
    run_with(arguments, progress, Settings::default())
}

/// What a program that runs a verb sets beside its arguments.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Settings of the stores that addresses are of, which outrank the environment and are never shown: those of
    /// `RemoteOptions::store`. A build without the feature `remote` has no use for them.
    pub store: Vec<(String, String)>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.store.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Settings").field("store", &names).finish()
    }
}

/// As [`run`], with settings that no argument is for.
///
/// ```
/// let mut settings = tensorfmt_cli::Settings::default();
/// settings.store.push(("aws_region".into(), "eu-central-1".into()));
/// let answer = tensorfmt_cli::run_with(["formats", "--json"], None, settings);
/// assert_eq!(answer.code, 0);
/// ```
pub fn run_with(
    arguments: impl IntoIterator<Item = impl Into<OsString>>,
    progress: Option<Progress>,
    settings: Settings,
) -> Answer {
    let name = OsString::from("tensorfmt");
    let arguments: Vec<OsString> = std::iter::once(name)
        .chain(arguments.into_iter().map(Into::into))
        .collect();
    console::capture(progress, || code_of(parsed(arguments, settings)))
}

fn parsed(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    settings: Settings,
) -> ExitCode {
    let mut cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, everything else is a usage error.
            let printed = console::show(&error);
            return match (error.use_stderr(), printed) {
                (true, _) => ExitCode::from(failure::USAGE),
                (false, Err(error)) => Failure::stdout(&error).report(),
                (false, Ok(())) => ExitCode::SUCCESS,
            };
        }
    };
    cli.common.settings = settings;
    let result = match &cli.verb {
        Verb::Inspect(args) => inspect::run(args, &cli.common),
        Verb::Verify(args) => verify::run(args, &cli.common),
        Verb::Hash(args) => hash::run(args, &cli.common),
        Verb::Convert(args) => convert::run(args, &cli.common),
        Verb::Join(args) => join::run(args, &cli.common),
        Verb::Diff(args) => diff::run(args, &cli.common),
        Verb::Stats(args) => stats::run(args, &cli.common),
        Verb::Extract(args) => extract::run(args, &cli.common),
        Verb::Formats(args) => formats::run(args),
        Verb::Completions(args) => completions::completions(args),
        Verb::Man(args) => completions::man(args),
    };
    match result {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// The number of an exit code, which can be compared but not be read.
fn code_of(code: ExitCode) -> u8 {
    let all = 0..=u8::MAX;
    all.into_iter()
        .find(|&number| ExitCode::from(number) == code)
        .unwrap_or(failure::INVALID)
}

/// Shorthand of what every verb returns.
type Outcome = Result<ExitCode, Failure>;
