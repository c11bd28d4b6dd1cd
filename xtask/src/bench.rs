//! The benchmark, which is a package of its own so that the peers stay out of the workspace.

use std::path::Path;

use crate::{Outcome, cargo};

/// The Python that the rows of the verbs are beside, where `cargo xtask python` has made one.
const PYTHON: &str = "target/python/venv/bin/python";

/// Builds and runs it; a full run writes `docs/benchmarks.md`, any other prints its results.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let mut command = vec![
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--manifest-path",
        "xtask/bench/Cargo.toml",
        "--target-dir",
        "target/bench",
        "--",
    ];
    command.extend(arguments.iter().map(String::as_str));
    let said = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if !said("--folder") {
        command.extend(["--folder", "target/bench-data"]);
    }
    if !said("--markdown") && !said("--quick") && !said("--only") {
        command.extend(["--markdown", "docs/benchmarks.md"]);
    }
    // The rows of the verbs run the program itself.
    cargo(
        &[
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "tensorfmt-cli",
        ],
        &[],
    )?;
    let root = test_data::workspace_root();
    let path = |path: &str| root.join(Path::new(path)).display().to_string();
    let python = std::env::var("TENSORFMT_PYTHON").unwrap_or_else(|_| path(PYTHON));
    let program = path("target/release/tensorfmt");
    cargo(
        &command,
        &[
            ("TENSORFMT_PROGRAM", &program),
            ("TENSORFMT_PYTHON", &python),
        ],
    )
}
