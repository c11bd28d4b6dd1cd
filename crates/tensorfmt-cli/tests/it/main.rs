//! Runs the command as a user would, on files that no writer of ours made.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may stop at the first surprise"
)]

mod aero;
mod checks;
mod choices;
mod contract;
mod crowds;
mod differences;
mod editing;
mod extracts;
mod faults;
mod forms;
mod hashes;
mod journeys;
mod looks;
mod names;
mod own_files;
mod parts;
mod releases;
#[cfg(feature = "remote")]
mod remote;
mod safetensors;
mod saving;
mod several;
mod sharded;
mod silence;
#[cfg(feature = "remote")]
mod stores;
mod unread;
mod verbs;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The command, or what `TENSORFMT_PROGRAM` names instead: a script that starts it in an emulator,
/// say.
fn program() -> String {
    std::env::var("TENSORFMT_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_tensorfmt").into())
}

/// A folder with the demo model in it, gone at the end of the test.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        std::fs::write(scratch.path("demo.mag"), case("mag", "demo")).unwrap();
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the command in the folder.
    fn run(&self, arguments: &[&str]) -> Run {
        Run::of(
            self.command()
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.current_dir(self.0.path());
        command
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("ended by a signal"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The bytes of a hand-assembled file.
fn case(format: &str, name: &str) -> Vec<u8> {
    let cases = test_data::cases(format).unwrap();
    cases
        .into_iter()
        .find(|case| case.name == name)
        .expect(name)
        .bytes
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::write(path, bytes).unwrap();
}
