//! What cargo knows of the packages: their features, and the Rust their dependencies ask for.

use std::collections::BTreeSet;
use std::env;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Outcome, cargo, cargo_output};

/// The command line is checked like a library even where it is not published.
const COMMAND_LINE: &str = "tensorfmt-cli";

/// The Rust that the workspace promises to build with.
const RUST_VERSION: &str = env!("CARGO_PKG_RUST_VERSION");

/// Clippy instead of a plain check: an import that one feature alone leaves unused is an error,
/// and dependencies are not built again for other flags.
pub(crate) fn features() -> Outcome {
    let metadata = metadata(&["--no-deps"])?;
    for (package, features) in published(&metadata)? {
        for set in feature_sets(&features) {
            let mut arguments = vec!["clippy", "--quiet", "--package", package];
            arguments.extend(set.iter().map(String::as_str));
            eprintln!("    {package} {}", set.join(" "));
            arguments.extend(["--", "-D", "warnings"]);
            cargo(&arguments, &[])?;
        }
    }
    Ok(())
}

pub(crate) fn msrv() -> Outcome {
    let metadata = metadata(&["--all-features"])?;
    let (checked, newer) = newer_than(&metadata, RUST_VERSION)?;
    for line in &newer {
        eprintln!("    {line}");
    }
    if checked == 0 {
        return Err("found no package to check".to_owned());
    }
    if !newer.is_empty() {
        return Err(format!(
            "{} dependencies ask for more than Rust {RUST_VERSION}: {}",
            newer.len(),
            newer.join(", ")
        ));
    }
    eprintln!("    {checked} packages ask for no more than Rust {RUST_VERSION}");
    let Some(rustc) = oldest() else {
        eprintln!("    nothing was built with it: install it by rustup, or name it in MSRV_RUSTC");
        return Ok(());
    };
    let printed = Command::new(&rustc).arg("--version").output();
    let printed = printed.map_err(|error| format!("cannot run {rustc}: {error}"))?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    if !printed.starts_with(&format!("rustc {RUST_VERSION}.")) {
        return Err(format!(
            "{rustc} is no Rust {RUST_VERSION}: {}",
            printed.trim()
        ));
    }
    let target = "target/msrv";
    let mut arguments = vec!["check", "--quiet", "--all-targets", "--all-features"];
    arguments.extend(["--workspace", "--exclude", "xtask", "--target-dir", target]);
    cargo(&arguments, &[("RUSTC", &rustc)])?;
    eprintln!("    all of them build with it, and so do their tests");
    Ok(())
}

/// The compiler that is promised to be enough: `MSRV_RUSTC`, or one of rustup's.
fn oldest() -> Option<String> {
    if let Ok(rustc) = env::var("MSRV_RUSTC") {
        return Some(rustc);
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["which", "--toolchain", RUST_VERSION, "rustc"]);
    let printed = rustup.stderr(Stdio::null()).output().ok()?;
    let path = String::from_utf8(printed.stdout).ok()?.trim().to_owned();
    (printed.status.success() && !path.is_empty()).then_some(path)
}

pub(crate) fn metadata(arguments: &[&str]) -> Result<Value, String> {
    let mut all = vec!["metadata", "--format-version", "1"];
    all.extend(arguments);
    serde_json::from_slice(&cargo_output(&all)?)
        .map_err(|error| format!("cannot read the answer of `cargo metadata`: {error}"))
}

/// Name and features of each package that is published, and of the command line.
fn published(metadata: &Value) -> Result<Vec<(&str, Vec<&str>)>, String> {
    let mut packages = Vec::new();
    for package in list(metadata, "packages")? {
        let name = text(package, "name")?;
        let private = package.get("publish") == Some(&Value::Array(Vec::new()));
        if private && name != COMMAND_LINE {
            continue;
        }
        let features = package
            .get("features")
            .and_then(Value::as_object)
            .ok_or_else(|| format!("{name} has no list of features"))?;
        packages.push((name, features.keys().map(String::as_str).collect()));
    }
    Ok(packages)
}

/// Cargo's arguments for the default, no feature, each one alone, and all; none of them twice.
fn feature_sets(features: &[&str]) -> Vec<Vec<String>> {
    const NONE: &str = "--no-default-features";
    let named: Vec<&str> = features
        .iter()
        .copied()
        .filter(|&feature| feature != "default")
        .collect();
    let mut sets = Vec::new();
    if features.contains(&"default") {
        sets.push(Vec::new());
    }
    sets.push(vec![NONE.to_owned()]);
    for feature in &named {
        let alone = [NONE, "--features", feature];
        sets.push(alone.map(str::to_owned).to_vec());
    }
    if named.len() > 1 {
        sets.push(vec!["--all-features".to_owned()]);
    }
    sets
}

/// How many packages the core and the codecs build with, and those that ask for a newer Rust.
///
/// Build dependencies count as normal ones do, since they run on the user's compiler too;
/// dependencies of tests don't.
fn newer_than(metadata: &Value, promised: &str) -> Result<(usize, Vec<String>), String> {
    let promised = version(promised)?;
    let packages = list(metadata, "packages")?;
    let nodes = list(
        metadata
            .get("resolve")
            .ok_or("`cargo metadata` resolved nothing")?,
        "nodes",
    )?;

    let mut waiting = Vec::new();
    for package in packages {
        let name = text(package, "name")?;
        let local = package.get("source") == Some(&Value::Null);
        if local && (name == "tensor-core" || name.ends_with("-format")) {
            waiting.push(text(package, "id")?);
        }
    }
    let mut reached = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !reached.insert(id) {
            continue;
        }
        for node in nodes {
            if text(node, "id")? != id {
                continue;
            }
            for dependency in list(node, "deps")? {
                let mut kinds = list(dependency, "dep_kinds")?.iter();
                if kinds.any(|kind| kind.get("kind").and_then(Value::as_str) != Some("dev")) {
                    waiting.push(text(dependency, "pkg")?);
                }
            }
        }
    }

    let mut newer = Vec::new();
    for package in packages {
        let Some(asked) = package.get("rust_version").and_then(Value::as_str) else {
            continue;
        };
        if reached.contains(text(package, "id")?) && version(asked)? > promised {
            let (name, version) = (text(package, "name")?, text(package, "version")?);
            newer.push(format!("{name} {version} ({asked})"));
        }
    }
    Ok((reached.len(), newer))
}

fn version(text: &str) -> Result<(u64, u64, u64), String> {
    let malformed = || format!("{text:?} is no Rust version");
    let mut numbers = [0; 3];
    let mut parts = text.split('.');
    for (number, part) in numbers.iter_mut().zip(parts.by_ref()) {
        *number = part.parse().map_err(|_| malformed())?;
    }
    match parts.next() {
        None => Ok(numbers.into()),
        Some(_) => Err(malformed()),
    }
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value
        .get(key)
        .and_then(Value::as_array)
        .ok_or_else(|| format!("`cargo metadata` gives no list of {key}"))
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("`cargo metadata` gives no {key}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn private_packages_are_left_out() {
        let metadata = json!({"packages": [
            {"name": "a-format", "publish": null, "features": {"std": [], "default": ["std"]}},
            {"name": "test-data", "publish": [], "features": {}},
            {"name": "tensorfmt-cli", "publish": [], "features": {}},
            {"name": "elsewhere", "publish": ["own-registry"], "features": {}},
        ]});
        let expected = vec![
            ("a-format", vec!["default", "std"]),
            ("tensorfmt-cli", vec![]),
            ("elsewhere", vec![]),
        ];
        assert_eq!(published(&metadata), Ok(expected));
    }

    #[test]
    fn feature_sets_are_each_run_once() {
        let lines = |features: &[&str]| -> Vec<String> {
            let sets = feature_sets(features);
            sets.iter().map(|set| set.join(" ")).collect()
        };
        assert_eq!(
            lines(&["default", "mmap", "std"]),
            [
                "",
                "--no-default-features",
                "--no-default-features --features mmap",
                "--no-default-features --features std",
                "--all-features",
            ]
        );
        assert_eq!(
            lines(&["std"]),
            [
                "--no-default-features",
                "--no-default-features --features std"
            ]
        );
        assert_eq!(lines(&[]), ["--no-default-features"]);
    }

    #[test]
    fn dependencies_that_ask_for_a_newer_rust_are_named() {
        let package = |name: &str, rust: Value, source: Value| {
            json!({"id": name, "name": name, "version": "1.0.0", "rust_version": rust,
                   "source": source})
        };
        let registry = json!("registry");
        let node = |id: &str, deps: &[(&str, Value)]| {
            let deps: Vec<Value> = deps
                .iter()
                .map(|(pkg, kind)| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]}))
                .collect();
            json!({"id": id, "deps": deps})
        };
        let metadata = json!({
            "packages": [
                package("mag-format", json!("1.85"), json!(null)),
                package("tensorfmt-cli", json!("1.90"), json!(null)),
                package("direct", json!("1.85.0"), registry.clone()),
                package("indirect", json!("1.85.1"), registry.clone()),
                package("builds", json!("1.86"), registry.clone()),
                package("silent", json!(null), registry.clone()),
                package("tests-only", json!("1.99"), registry.clone()),
                package("other-format", json!("1.99"), registry),
            ],
            "resolve": {"nodes": [
                node("mag-format", &[("direct", json!(null)), ("tests-only", json!("dev"))]),
                node("direct", &[("indirect", json!(null)), ("builds", json!("build"))]),
                node("indirect", &[("silent", json!(null)), ("direct", json!(null))]),
                node("builds", &[]),
                node("silent", &[]),
                node("tests-only", &[]),
                node("tensorfmt-cli", &[("other-format", json!(null))]),
                node("other-format", &[]),
            ]},
        });
        let newer = vec![
            "indirect 1.0.0 (1.85.1)".to_owned(),
            "builds 1.0.0 (1.86)".to_owned(),
        ];
        assert_eq!(newer_than(&metadata, "1.85"), Ok((5, newer)));
        assert_eq!(newer_than(&metadata, "1.86"), Ok((5, Vec::new())));
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(version("1.100") > version("1.85.1"));
        assert_eq!(version("1.85"), version("1.85.0"));
        assert!(version("1.85.0.1").is_err());
        assert!(version("1.x").is_err());
    }
}
