//! What must hold before a release: packages that build from what would be uploaded, licences and
//! advisories of what they depend on, and versions that keep their promise.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Outcome, cargo, workspace};

/// The program has no documentation of its own; that of the library of its name is better.
const WITHOUT_DOCS: &str = "tensorfmt-cli";

/// Packs every package that is published, in the order of their dependencies, and builds each from
/// what was packed; `quick` leaves out the builds.
pub(crate) fn package(quick: bool) -> Outcome {
    let metadata = workspace::metadata(&["--no-deps"])?;
    let mut arguments = vec!["package", "--locked", "--allow-dirty"];
    if quick {
        arguments.extend(["--no-verify", "--quiet"]);
    }
    let mut count = 0;
    for package in workspace::list(&metadata, "packages")? {
        if package.get("publish") == Some(&Value::Array(Vec::new())) {
            continue;
        }
        let name = workspace::text(package, "name")?;
        let lacks = lacking(package);
        if !lacks.is_empty() {
            return Err(format!("{name} has no {}", lacks.join(", no ")));
        }
        arguments.extend(["--package", name]);
        count += 1;
    }
    cargo(&arguments, &[])?;
    eprintln!("    {count} packages");
    Ok(())
}

/// What a package says nothing of that its readers look for.
fn lacking(package: &Value) -> Vec<&'static str> {
    let has = |key: &str| match package.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        _ => false,
    };
    let keys = [
        "description",
        "license",
        "repository",
        "readme",
        "keywords",
        "categories",
        "rust_version",
    ];
    let mut lacks: Vec<_> = keys.into_iter().filter(|key| !has(key)).collect();
    let name = package.get("name").and_then(Value::as_str);
    if package.pointer("/metadata/docs/rs").is_none() && name != Some(WITHOUT_DOCS) {
        lacks.push("metadata for docs.rs");
    }
    let folder = package
        .get("manifest_path")
        .and_then(Value::as_str)
        .and_then(|manifest| Path::new(manifest).parent());
    for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        if !folder.is_some_and(|folder| folder.join(file).is_file()) {
            lacks.push(file);
        }
    }
    lacks
}

/// Licences, sources, duplicates and advisories, by `deny.toml`. Advisories come over the network;
/// without one the rest is still checked.
pub(crate) fn deny() -> Outcome {
    if !has("deny") {
        eprintln!("deny: skipped, cargo-deny is not installed (cargo install cargo-deny)");
        return Ok(());
    }
    cargo(
        &[
            "deny",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ],
        &[],
    )?;
    if let Err(error) = cargo(&["deny", "fetch", "db"], &[]) {
        eprintln!("deny: advisories skipped, {error}");
        return Ok(());
    }
    cargo(&["deny", "check", "--disable-fetch", "advisories"], &[])
}

/// Compares the public interface with that of the last release, by cargo-semver-checks.
pub(crate) fn semver() -> Outcome {
    let tags = Command::new("git")
        .args(["tag", "--list", "v*", "--sort=-version:refname"])
        .current_dir(test_data::workspace_root())
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    let tags = String::from_utf8_lossy(&tags.stdout).into_owned();
    let Some(last) = tags.lines().next() else {
        eprintln!("semver: there is no baseline before the first release (no tag v*)");
        return Ok(());
    };
    if !has("semver-checks") {
        cargo(&["install", "cargo-semver-checks", "--locked"], &[])?;
    }
    let arguments = ["semver-checks", "check-release", "--workspace"];
    let excluded = ["--exclude", "tensorfmt-cli", "--baseline-rev", last];
    cargo(&[&arguments[..], &excluded].concat(), &[])
}

fn has(tool: &str) -> bool {
    let mut command = Command::new("cargo");
    command.args([tool, "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_package_lacks_is_named() {
        let folder = test_data::workspace_root().join("crates/mag-format");
        let mut package = json!({
            "name": "mag-format", "description": "x", "license": "MIT", "repository": "x",
            "readme": "README.md", "keywords": ["x"], "categories": ["x"],
            "rust_version": "1.85", "metadata": {"docs": {"rs": {"all-features": true}}},
            "manifest_path": folder.join("Cargo.toml").to_string_lossy(),
        });
        assert_eq!(lacking(&package), Vec::<&str>::new());
        package["keywords"] = json!([]);
        package["metadata"] = json!(null);
        package["manifest_path"] = json!("/absent/Cargo.toml");
        let expected = [
            "keywords",
            "metadata for docs.rs",
            "README.md",
            "LICENSE-APACHE",
            "LICENSE-MIT",
        ];
        assert_eq!(lacking(&package), expected);
    }
}
