//! The programs of `docs/programs.md`: each becomes a package in a folder of its own, outside of the workspace
//! and with one dependency, and has to print what stands below it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Outcome, cargo_command};

/// A program of the page.
struct Program {
    /// The crate that it depends on.
    package: String,
    code: String,
    output: String,
}

/// Runs all; with `update` the page gets what they print.
pub(crate) fn run(update: bool) -> Outcome {
    let root = test_data::workspace_root();
    let page = root.join("docs/programs.md");
    let mut text =
        fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let programs = programs(&text);
    if programs.is_empty() {
        return Err("docs/programs.md has no program".to_owned());
    }
    let folder = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    for program in programs {
        let found = run_one(&root, folder.path(), &program)?;
        if found == program.output {
            continue;
        }
        let Program {
            package, output, ..
        } = &program;
        if !update {
            return Err(format!(
                "the program of {package} prints\n{found}instead of\n{output}"
            ));
        }
        let heading = format!("## `{package}`\n");
        let (before, after) = text.split_once(&heading).unwrap_or_default();
        let old = format!("```text\n{output}```");
        let after = after.replacen(&old, &format!("```text\n{found}```"), 1);
        text = format!("{before}{heading}{after}");
    }
    if update {
        fs::write(&page, text).map_err(|error| format!("{}: {error}", page.display()))?;
    }
    Ok(())
}

fn programs(text: &str) -> Vec<Program> {
    let block = |section: &str, language: &str| -> Option<String> {
        let (_, rest) = section.split_once(&format!("```{language}\n"))?;
        Some(rest.split_once("```")?.0.to_owned())
    };
    let sections = text.split("\n## `").skip(1);
    sections
        .filter_map(|section| {
            Some(Program {
                package: section.split_once('`')?.0.to_owned(),
                code: block(section, "rust")?,
                output: block(section, "text")?,
            })
        })
        .collect()
}

fn run_one(root: &Path, folder: &Path, program: &Program) -> Result<String, String> {
    let home = folder.join(&program.package);
    let place = root.join("crates").join(&program.package);
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n{} = {{ path = {place:?} }}\n",
        program.package
    );
    let write = |path: &str, text: &str| -> Outcome {
        let path = home.join(path);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(home.join("src")).map_err(|error| format!("a folder: {error}"))?;
    write("Cargo.toml", &manifest)?;
    write("src/main.rs", &program.code)?;
    // The versions that the workspace has, so that nothing is looked for elsewhere.
    let lock = root.join("Cargo.lock");
    fs::copy(&lock, home.join("Cargo.lock"))
        .map_err(|error| format!("{}: {error}", lock.display()))?;
    let mut build: Command = cargo_command(&["build", "--quiet", "--target-dir"]);
    build.arg(root.join("target")).current_dir(&home);
    let status = build.status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(format!(
            "the program of {} does not compile",
            program.package
        ));
    }
    let run = Command::new(root.join("target/debug/program"))
        .current_dir(&home)
        .output();
    let run = run.map_err(|error| format!("the program of {}: {error}", program.package))?;
    let mut found = String::from_utf8_lossy(&run.stdout).into_owned();
    if !run.status.success() {
        found += &String::from_utf8_lossy(&run.stderr);
    }
    Ok(found)
}
