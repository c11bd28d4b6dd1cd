//! What packages of the command line tool ship beside it.

use std::fs;

use crate::{Outcome, cargo, cargo_output};

/// Shells that the tool writes completions for, and what they call such a file.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "tensorfmt.bash"),
    ("elvish", "tensorfmt.elv"),
    ("fish", "tensorfmt.fish"),
    ("powershell", "_tensorfmt.ps1"),
    ("zsh", "_tensorfmt"),
];

/// Has the tool write its manual pages and completions to `target/assets`.
pub(crate) fn run() -> Outcome {
    let folder = test_data::workspace_root().join("target/assets");
    let pages = folder.join("man");
    let completions = folder.join("completions");
    for folder in [&pages, &completions] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let tool = ["run", "--quiet", "--package", "tensorfmt-cli", "--"];
    let to = pages.to_string_lossy();
    cargo(&[&tool[..], &["man", &to]].concat(), &[])?;
    let written = fs::read_dir(&pages).map_err(|error| error.to_string())?;
    let written = written.count();
    for (shell, name) in SHELLS {
        let script = cargo_output(&[&tool[..], &["completions", shell]].concat())?;
        let path = completions.join(name);
        fs::write(&path, script).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    eprintln!(
        "assets: {written} manual pages, {} completions in {}",
        SHELLS.len(),
        folder.display()
    );
    Ok(())
}
