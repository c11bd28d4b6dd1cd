//! Hosts other than this one: of 32 bits, where `usize` is narrower than the fields of the formats, and
//! big-endian ones, where no number lies in memory as it does in a file.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{CODECS, Outcome, cargo};

struct Port {
    target: &'static str,
    /// Built with `std`, and so with all features, all tests and the command line.
    std: bool,
}

const PORTS: [Port; 4] = [
    Port {
        target: "i686-unknown-linux-gnu",
        std: true,
    },
    Port {
        target: "s390x-unknown-linux-gnu",
        std: true,
    },
    Port {
        target: "wasm32-unknown-unknown",
        std: false,
    },
    Port {
        target: "wasm32-wasip1",
        std: false,
    },
];

/// Has blake3 built from its Rust alone: to check code for a target takes no C library of that target,
/// and a host with a C compiler of its own seldom has one.
const WITHOUT_C: (&str, &str) = ("CARGO_FEATURE_PURE", "1");

/// Emulated, these take minutes to hours, or meet limits and mounts of the emulator's own.
const SKIPPED: [&str; 7] = [
    "mutation",
    "faults",
    "a_file_size_limit",
    "damaged_snapshots_end_in_errors",
    "data_that_is_damaged_is_no_unsupported_data",
    "every_hand_assembled_file_has_its_exit_code",
    "every_real_file_goes_everywhere_and_back",
];

/// Checks the codecs for every target whose standard library is at hand, and runs the tests of all
/// crates for those with a linker and a runner, by cargo's own variables.
pub(crate) fn width() -> Outcome {
    let mut tested = 0;
    for port in PORTS {
        let target = port.target;
        if !has_library(target)? && !install(target) {
            eprintln!("    {target}: skipped, its standard library is not installed");
            continue;
        }
        let mut arguments = vec!["check", "--quiet", "--target", target];
        arguments.push("--no-default-features");
        arguments.extend(CODECS.iter().flat_map(|codec| ["--package", codec]));
        cargo(&arguments, &[WITHOUT_C])?;
        let missing = missing(target, |name| env::var_os(name).is_some());
        if !port.std || !missing.is_empty() {
            let why = match port.std {
                true => format!("{} not set", missing.join(" and ")),
                false => "this is for builds without std".to_owned(),
            };
            eprintln!("    {target}: checked; no test ran, {why}");
            continue;
        }
        test(target)?;
        tested += 1;
    }
    eprintln!("    tests ran for {tested} of {} targets", PORTS.len());
    Ok(())
}

fn has_library(target: &str) -> Result<bool, String> {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--print", "target-libdir", "--target", target]);
    let printed = rustc
        .output()
        .map_err(|error| format!("cannot run rustc: {error}"))?;
    let folder = String::from_utf8_lossy(&printed.stdout).trim().to_owned();
    Ok(Path::new(&folder).is_dir())
}

/// Installs a standard library, in CI only and where rustup can: elsewhere that is for whose
/// machine it is to say.
fn install(target: &str) -> bool {
    let add = || {
        let mut rustup = Command::new("rustup");
        rustup.args(["target", "add", target]);
        rustup.stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    env::var_os("CI").is_some() && add().is_ok_and(|status| status.success())
}

/// Cargo's variable for a target.
fn variable(target: &str, what: &str) -> String {
    let target = target.to_uppercase().replace('-', "_");
    format!("CARGO_TARGET_{target}_{what}")
}

fn missing(target: &str, is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let names = ["LINKER", "RUNNER"].map(|what| variable(target, what));
    names.into_iter().filter(|name| !is_set(name)).collect()
}

/// The tests of the core, the codecs, the facade and the command line; without the code of the
/// documentation, which not every rustdoc can hand to a runner.
fn test(target: &str) -> Outcome {
    let runner = env::var(variable(target, "RUNNER")).unwrap_or_default();
    let program = program(target, &runner)?;
    let mut arguments = vec!["test", "--quiet", "--all-features", "--target", target];
    arguments.extend(["--lib", "--bins", "--tests"]);
    for package in CODECS
        .iter()
        .chain(&["tensor-core", "tensorfmt", "tensorfmt-cli"])
    {
        arguments.extend(["--package", package]);
    }
    let emulated = runner.contains("qemu");
    if emulated {
        arguments.push("--");
        arguments.extend(SKIPPED.iter().flat_map(|name| ["--skip", name]));
    }
    let program = program.to_string_lossy().into_owned();
    cargo(&arguments, &[("TENSORFMT_PROGRAM", &program)])?;
    match emulated {
        true => eprintln!("    {target}: tested, without {}", SKIPPED.join(", ")),
        false => eprintln!("    {target}: tested"),
    }
    Ok(())
}

/// A script that starts the command line as the runner starts a test.
fn program(target: &str, runner: &str) -> Result<PathBuf, String> {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(
        || test_data::workspace_root().join("target"),
        |folder| test_data::workspace_root().join(folder),
    );
    let folder = folder.join(target).join("debug");
    let script = folder.join("tensorfmt.sh");
    let binary = folder.join("tensorfmt");
    let text = format!("#!/bin/sh\nexec {runner} '{}' \"$@\"\n", binary.display());
    let fail = |error| format!("cannot write {}: {error}", script.display());
    fs::create_dir_all(&folder).map_err(fail)?;
    fs::write(&script, text).map_err(fail)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).map_err(fail)?;
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_target_lacks_is_named_as_cargo_names_it() {
        let linker = "CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER";
        let runner = "CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER";
        let target = "s390x-unknown-linux-gnu";
        assert_eq!(missing(target, |_| false), [linker, runner]);
        assert_eq!(missing(target, |name| name == linker), [runner]);
        assert!(missing(target, |_| true).is_empty());
    }
}
