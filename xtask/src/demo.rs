//! The main job, start to finish, on the model that comes with the project.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;

const PACKAGE: &str = "tensorfmt-cli";
const MODEL: &str = "fixtures/mag/valid/demo.mag";

pub(crate) fn run() -> Outcome {
    let root = test_data::workspace_root();
    let folder = root.join("target/demo");
    fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let converted = "target/demo/demo.safetensors";
    let back = "target/demo/demo.mag";
    let verbs: [&[&str]; 5] = [
        &["inspect", MODEL],
        &["convert", MODEL, converted, "--force"],
        &["inspect", converted],
        &["convert", converted, back, "--force"],
        &["verify", MODEL, converted, back],
    ];
    let build = ["build", "--quiet", "--release", "--package", PACKAGE];
    run_in(&root, "cargo", &build)?;
    // Cargo knows where it puts what it builds; a user may have set another folder.
    let tool = ["run", "--quiet", "--release", "--package", PACKAGE, "--"];
    for arguments in verbs {
        eprintln!("$ tensorfmt {}", arguments.join(" "));
        run_in(&root, "cargo", &[&tool[..], arguments].concat())?;
        eprintln!();
    }
    Ok(())
}

fn run_in(folder: &Path, program: &str, arguments: &[&str]) -> Outcome {
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .status()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} {}: {status}", arguments.join(" ")))
    }
}
