//! The benchmark, which is a package of its own so that the peers stay out of the workspace.

use crate::{Outcome, cargo};

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
    cargo(&command, &[])
}
