//! The `tensorfmt` command: inspect, verify, hash and convert tensor files.

#![forbid(unsafe_code)]

mod brief;
mod cli;
mod completions;
mod convert;
mod diff;
mod extract;
mod failure;
mod files;
mod formats;
mod hash;
mod input;
mod inspect;
mod measure;
mod names;
mod output;
mod picked;
mod progress;
mod rename;
mod shared;
mod signals;
mod size;
mod stats;
mod target;
mod verify;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Verb};
use crate::failure::Failure;

fn main() -> ExitCode {
    signals::install();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, everything else is a usage error.
            let printed = error.print().and_then(|()| std::io::stdout().flush());
            return match (error.use_stderr(), printed) {
                (true, _) => ExitCode::from(failure::USAGE),
                (false, Err(error)) => Failure::stdout(&error).report(),
                (false, Ok(())) => ExitCode::SUCCESS,
            };
        }
    };
    let result = match &cli.verb {
        Verb::Inspect(args) => inspect::run(args, &cli.common),
        Verb::Verify(args) => verify::run(args, &cli.common),
        Verb::Hash(args) => hash::run(args, &cli.common),
        Verb::Convert(args) => convert::run(args, &cli.common),
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

/// Shorthand of what every verb returns.
type Outcome = Result<ExitCode, Failure>;
