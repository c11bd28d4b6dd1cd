//! The `tensorfmt` command: inspect, verify, hash and convert tensor files.

#![forbid(unsafe_code)]

mod cli;
mod completions;
mod convert;
mod failure;
mod formats;
mod hash;
mod input;
mod inspect;
mod output;
mod progress;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Verb};
use crate::failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, everything else is a usage error.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let result = match &cli.verb {
        Verb::Inspect(args) => inspect::run(args, &cli.common),
        Verb::Verify(args) => verify::run(args, &cli.common),
        Verb::Hash(args) => hash::run(args, &cli.common),
        Verb::Convert(args) => convert::run(args, &cli.common),
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
