//! The main job, start to finish, on the model that comes with the project.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;

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
    run_in(
        &root,
        "cargo",
        &[
            "build",
            "--quiet",
            "--release",
            "--package",
            "tensorfmt-cli",
        ],
    )?;
    let tool = root.join("target/release/tensorfmt");
    let tool = tool
        .to_str()
        .ok_or("the path of the workspace is no Unicode")?;
    for arguments in verbs {
        eprintln!("$ tensorfmt {}", arguments.join(" "));
        run_in(&root, tool, arguments)?;
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
