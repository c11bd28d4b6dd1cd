//! `docs/api/CRATE.txt`: the public interface of each library, an item a line, so that a change of it is
//! seen in a review; and whether an example shows every function of it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::shown::unshown;
use crate::{CODECS, Outcome, cargo_command, cargo_output};

/// Where this program finds the real rustdoc when cargo calls it in its place.
const RUSTDOC: &str = "TENSORFMT_XTASK_RUSTDOC";

/// The release of Rust whose JSON the reader of it knows, and whose names of the standard library the
/// listings have.
const RUST: &str = "1.95";

/// What this program is as a rustdoc: the real one, with JSON as its output.
///
/// Only rustdoc is told to take unstable options, so that nothing else has to be built anew.
pub(crate) fn as_rustdoc() -> Option<ExitCode> {
    let real = env::var_os(RUSTDOC)?;
    let mut command = Command::new(real);
    command.args(env::args_os().skip(1));
    command.env("RUSTC_BOOTSTRAP", "1");
    let done = command.status().is_ok_and(|status| status.success());
    Some(if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub(crate) fn run(check: bool) -> Outcome {
    let version = Command::new("rustc").arg("--version").output();
    let version = version.map_err(|error| format!("rustc: {error}"))?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(&format!("rustc {RUST}.")) {
        eprintln!(
            "api: skipped, the listings are made with Rust {RUST}, not {}",
            version.trim()
        );
        return Ok(());
    }
    describe()?;
    let root = test_data::workspace_root();
    let folder = root.join("docs/api");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut changed = Vec::new();
    let mut dark = Vec::new();
    for package in CODECS
        .iter()
        .chain(&["tensor-core", "tensor-remote", "tensorfmt"])
    {
        let (missing, count) = unshown(&described(&root, package))?;
        eprintln!(
            "{package}: {} of {count} functions are shown in an example",
            count - missing.len()
        );
        dark.extend(missing.iter().map(|name| format!("{package}: {name}")));
        let listing = listing(&root, package)?;
        let path = folder.join(format!("{package}.txt"));
        if fs::read(&path).is_ok_and(|found| found == listing) {
            continue;
        }
        changed.push(*package);
        if !check {
            fs::write(&path, listing).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    if check && !dark.is_empty() {
        return Err(format!(
            "no example shows these functions; their type is where a program that calls them belongs:\n  {}",
            dark.join("\n  ")
        ));
    }
    match (check, changed.is_empty()) {
        (true, false) => Err(format!(
            "the public interface of {} is not as docs/api has it; `cargo xtask api` writes it, and the \
             difference belongs into the review",
            changed.join(", ")
        )),
        _ => Ok(()),
    }
}

/// The JSON of every library, in `target/doc`.
fn describe() -> Outcome {
    let this = env::current_exe().map_err(|error| format!("xtask: {error}"))?;
    let real = env::var_os("RUSTDOC").unwrap_or_else(|| OsString::from("rustdoc"));
    let mut command = cargo_command(&[
        "doc",
        "--quiet",
        "--workspace",
        "--no-deps",
        "--all-features",
    ]);
    command.env("RUSTDOC", this).env(RUSTDOC, real);
    command.env("RUSTDOCFLAGS", "-Z unstable-options --output-format json");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo doc ended with {status}")),
        Err(error) => Err(format!("cargo doc: {error}")),
    }
}

/// Where rustdoc has put the JSON of a library.
fn described(root: &Path, package: &str) -> PathBuf {
    root.join(format!("target/doc/{}.json", package.replace('-', "_")))
}

fn listing(root: &Path, package: &str) -> Result<Vec<u8>, String> {
    let json = described(root, package).to_string_lossy().into_owned();
    let manifest = "xtask/api/Cargo.toml";
    let target = "target/api";
    cargo_output(&[
        "run",
        "--quiet",
        "--locked",
        "--manifest-path",
        manifest,
        "--target-dir",
        target,
        "--",
        &json,
    ])
}
