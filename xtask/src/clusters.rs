//! The examples for engines that run many processes, with the engines themselves.

use std::fs;
use std::process::Command;

use crate::Outcome;
use crate::python::{self, PIP, Task, program, quiet, run_shown};

/// Builds the package, installs it beside Ray and Dask in an environment of its own, and converts a large source
/// with workers, one of which is killed.
pub(crate) fn run() -> Outcome {
    let python = python::find().ok_or("no Python 3.11 or later found (PYTHON names one)")?;
    let task = Task::new();
    task.environment(&python)?;
    let wheel = task.wheels()?;
    let target = test_data::workspace_root().join("target/clusters");
    let home = target.join("venv");
    if !program(&home, "python").exists() {
        quiet(Command::new(&python).args(["-m", "venv"]).arg(&home))?;
    }
    let requirements = task.package().join("clusters.txt");
    let mut command = Command::new(program(&home, "python"));
    command.args(PIP).arg("-r").arg(requirements);
    quiet(&mut command).map_err(|why| format!("{why}; is a registry within reach?"))?;
    let mut command = Command::new(program(&home, "python"));
    command
        .args(PIP)
        .args(["--force-reinstall", "--no-deps"])
        .arg(wheel);
    quiet(&mut command)?;
    let files = target.join("files");
    if files.exists() {
        fs::remove_dir_all(&files).map_err(|error| format!("{}: {error}", files.display()))?;
    }
    run_shown(
        Command::new(program(&home, "python"))
            .current_dir(task.package())
            .args([
                "-m",
                "pytest",
                "-q",
                "-s",
                "-p",
                "no:cacheprovider",
                "--basetemp",
            ])
            .arg(files)
            .arg("tests/clusters.py"),
    )
}
