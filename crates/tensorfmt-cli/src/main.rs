//! The `tensorfmt` command: inspect, verify, hash and convert tensor files.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(tensorfmt_cli::main(std::env::args_os()))
}
