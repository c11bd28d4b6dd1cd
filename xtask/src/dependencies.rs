//! `docs/dependencies.md`: what a user of one format builds, as trees with counts.

use std::collections::BTreeSet;
use std::fs;

use crate::{Outcome, cargo_output};

/// No choice of one format may take more crates than this, its own and the core counted in.
const MOST: usize = 45;

/// What knows the network takes what that takes; no format does.
const REMOTE: &[(&str, &str)] = &[
    ("tensor-remote", "http"),
    ("tensor-remote", "azure,gcs,http,s3"),
];

/// Trees differ between platforms; these are of one, wherever they are printed.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What a user may pick: a package and its features, instead of the default ones.
const PICKS: &[(&str, &str)] = &[
    ("mag-format", "std"),
    ("ztensor-format", "std"),
    ("ztensor-format", "std,zstd"),
    ("burnpack-format", "std"),
    ("aero-format", "std,zstd"),
    ("primitiv-format", "std"),
    ("safetensors-format", "std"),
    ("tensorfmt", "mag"),
    ("tensorfmt", "ztensor,zstd"),
    ("tensorfmt", "burnpack"),
    ("tensorfmt", "aero,zstd"),
    ("tensorfmt", "primitiv"),
    ("tensorfmt", "safetensors"),
];

const HEAD: &str = "\
# Dependencies

What a user who picks one format depends on, for 64-bit Linux, printed by
`cargo xtask dependencies`; CI compares. First come the crates that are part of the program, the
package itself counted in: no choice of one format may take more than 45; what reads from networks does, and
is part of no format. Then all that a build runs: macros, and build scripts, most of them for the C library of
zstd.

";

pub(crate) fn run(check: bool) -> Outcome {
    let path = test_data::workspace_root().join("docs/dependencies.md");
    let text = text()?;
    let shown = path.display();
    if check {
        match fs::read_to_string(&path) {
            Ok(found) if found == text => Ok(()),
            Ok(_) => Err("docs/dependencies.md is stale; run `cargo xtask dependencies`".into()),
            Err(error) => Err(format!("{shown}: {error}")),
        }
    } else {
        fs::write(&path, text).map_err(|error| format!("{shown}: {error}"))
    }
}

fn text() -> Result<String, String> {
    let mut table = String::from(
        "| package | features | in the program | in its build too |\n|---|---|---:|---:|\n",
    );
    let mut trees = String::new();
    for &(package, features) in PICKS.iter().chain(REMOTE) {
        let count = count(&tree(package, features, "normal,no-proc-macro")?);
        if count > MOST && package != "tensor-remote" {
            return Err(format!(
                "{package} with {features} takes {count} crates; {MOST} are the most"
            ));
        }
        let tree = tree(package, features, "normal,build")?;
        let all = self::count(&tree);
        table += &format!("| `{package}` | `{features}` | {count} | {all} |\n");
        trees += &format!("\n## `{package}` with `{features}`\n\n```text\n{tree}```\n");
    }
    Ok(format!("{HEAD}{table}{trees}"))
}

fn tree(package: &str, features: &str, edges: &str) -> Result<String, String> {
    let mut arguments = vec!["tree", "--locked", "--package", package];
    arguments.extend(["--no-default-features", "--features", features]);
    arguments.extend(["--edges", edges, "--target", PLATFORM]);
    let output = cargo_output(&arguments)?;
    let tree = String::from_utf8(output).map_err(|error| format!("cargo tree: {error}"))?;
    Ok(without_paths(&tree))
}

/// The tree without the folders of our own crates, which differ from machine to machine.
fn without_paths(tree: &str) -> String {
    let mut text = String::new();
    for line in tree.lines() {
        let line = match line.split_once(" (/") {
            Some((start, rest)) => {
                let end = rest.split_once(')').map_or("", |(_, end)| end);
                format!("{start}{end}")
            }
            None => line.to_owned(),
        };
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// How many crates a tree names, each version once.
fn count(tree: &str) -> usize {
    let names = tree.lines().filter_map(|line| {
        let name = line.trim_start_matches(['│', '├', '└', '─', ' ']);
        let (name, version) = name.split_once(" v")?;
        Some((name, version.split(' ').next()?))
    });
    names.collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_counted_without_folders_and_repetitions() {
        let tree = "\
mag-format v0.1.0 (/home/me/crates/mag-format)
├── crc32fast v1.5.5
│   └── cfg-if v1.0.5
│   [build-dependencies]
└── tensor-core v0.1.0 (/home/me/crates/tensor-core) (*)
    └── cfg-if v1.0.5
";
        let plain = without_paths(tree);
        assert!(plain.starts_with("mag-format v0.1.0\n├── crc32fast v1.5.5\n"));
        assert!(plain.contains("└── tensor-core v0.1.0 (*)\n"), "{plain}");
        assert_eq!(count(&plain), 4);
    }
}
