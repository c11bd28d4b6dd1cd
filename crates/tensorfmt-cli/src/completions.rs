use std::process::ExitCode;

use clap::CommandFactory;

use crate::Outcome;
use crate::cli::{Cli, Completions, Man};
use crate::failure::Failure;
use crate::output::Out;

pub(crate) fn completions(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tensorfmt", &mut script);
    let mut out = Out::new();
    out.line(String::from_utf8_lossy(&script).trim_end())?;
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &Man) -> Outcome {
    clap_mangen::generate_to(Cli::command(), &args.folder)
        .map_err(|error| Failure::io(&args.folder, &error))?;
    Ok(ExitCode::SUCCESS)
}
