//! Real files with a manifest each, kept outside of the project.
//!
//! `TENSORFMT_CORPUS` names the folder that has one folder per format; without it the folder is
//! `../shared/corpus` seen from the workspace root. Where it is absent, tests that need it say so
//! and pass, unless `TENSORFMT_REQUIRE_CORPUS=1` makes that a failure.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder of a format's files, or `None`, with a line on stderr, where there is none.
///
/// # Panics
/// Where there is none and `TENSORFMT_REQUIRE_CORPUS=1` is set.
#[must_use]
pub fn folder(format: &str) -> Option<PathBuf> {
    let required = env::var_os("TENSORFMT_REQUIRE_CORPUS").is_some_and(|value| value == "1");
    folder_in(&root(), format, required)
}

/// Each file of a format's folder, subfolders included, with its manifest, sorted by path.
///
/// A manifest is `FILE.json` beside `FILE` and has the key `verdict`. Empty where there is no
/// corpus; see [`folder`].
///
/// # Panics
/// As [`folder`]; and where a folder can't be read, a manifest is no JSON, or the folder is there
/// and has no manifest at all.
#[must_use]
pub fn cases(format: &str) -> Vec<(PathBuf, Value)> {
    match folder(format) {
        Some(folder) => cases_in(&folder),
        None => Vec::new(),
    }
}

fn root() -> PathBuf {
    let named = env::var_os("TENSORFMT_CORPUS").filter(|value| !value.is_empty());
    let path = named.map_or_else(|| PathBuf::from("../shared/corpus"), PathBuf::from);
    // Tests run in the folder of their crate; a relative path is meant from the workspace.
    crate::workspace_root().join(path)
}

fn folder_in(root: &Path, format: &str, required: bool) -> Option<PathBuf> {
    let folder = root.join(format);
    if folder.is_dir() {
        return Some(folder);
    }
    let absent = format!(
        "no corpus of {format} files at {}; set TENSORFMT_CORPUS to the folder that has them",
        folder.display()
    );
    assert!(!required, "{absent} (TENSORFMT_REQUIRE_CORPUS=1)");
    eprintln!("{absent}");
    None
}

fn cases_in(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut cases = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries = fs::read_dir(&next)
            .unwrap_or_else(|error| panic!("cannot list {}: {error}", next.display()));
        for entry in entries {
            let path = entry
                .unwrap_or_else(|error| panic!("cannot list {}: {error}", next.display()))
                .path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(case) = case_of(&path) {
                cases.push(case);
            }
        }
    }
    assert!(
        !cases.is_empty(),
        "{} has no file with a manifest",
        folder.display()
    );
    cases.sort_by(|(a, _), (b, _)| a.cmp(b));
    cases
}

/// The file that a manifest speaks of, with the manifest.
fn case_of(path: &Path) -> Option<(PathBuf, Value)> {
    let name = path.file_name()?.to_str()?;
    let file = path.with_file_name(name.strip_suffix(".json")?);
    // `model.aeroset.json` is data; its manifest is `model.aeroset.json.json`.
    if name.ends_with(".aeroset.json") || !file.is_file() {
        return None;
    }
    let text =
        fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let manifest: Value = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{} is no manifest: {error}", path.display()));
    manifest.get("verdict")?;
    Some((file, manifest))
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    /// A folder for one test, gone when it ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("test-data-{name}-{}", process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_come_with_their_manifests() {
        let scratch = Scratch::new("manifests");
        scratch.write("b.mag", "data");
        scratch.write("b.mag.json", r#"{"verdict": "accept"}"#);
        scratch.write("reject/a.mag", "data");
        scratch.write("reject/a.mag.json", r#"{"verdict": "reject"}"#);
        scratch.write("set/model.aeroset", "a decoy");
        scratch.write("set/model.aeroset.json", r#"{"verdict": "data, not this"}"#);
        scratch.write("set/model.aeroset.json.json", r#"{"verdict": "accept"}"#);
        scratch.write("notes.txt", "no case");
        scratch.write("notes.txt.json", r#"{"no": "verdict"}"#);
        scratch.write("lonely.mag.json", r#"{"verdict": "accept"}"#);

        let cases = cases_in(&scratch.0);
        let paths: Vec<_> = cases
            .iter()
            .map(|(path, _)| path.strip_prefix(&scratch.0).unwrap().to_owned())
            .collect();
        let expected = ["b.mag", "reject/a.mag", "set/model.aeroset.json"];
        assert_eq!(paths, expected.map(PathBuf::from));
        assert_eq!(cases[1].1["verdict"], "reject");
    }

    #[test]
    #[should_panic(expected = "has no file with a manifest")]
    fn an_empty_folder_is_no_corpus() {
        let scratch = Scratch::new("empty");
        cases_in(&scratch.0);
    }

    #[test]
    fn an_absent_folder_is_none() {
        let scratch = Scratch::new("absent");
        assert_eq!(folder_in(&scratch.0, "mag", false), None);
        fs::create_dir(scratch.0.join("mag")).unwrap();
        assert_eq!(
            folder_in(&scratch.0, "mag", true),
            Some(scratch.0.join("mag"))
        );
    }

    #[test]
    #[should_panic(expected = "TENSORFMT_REQUIRE_CORPUS=1")]
    fn a_required_folder_must_be_there() {
        let scratch = Scratch::new("required");
        folder_in(&scratch.0, "mag", true);
    }

    #[test]
    fn every_manifest_of_the_corpus_has_a_known_verdict() {
        for format in ["mag", "ztensor", "burnpack", "aero", "primitiv"] {
            for (path, manifest) in cases(format) {
                let verdict = manifest["verdict"].as_str();
                let known = matches!(verdict, Some("accept" | "reject" | "unsupported"));
                assert!(known, "{}: {verdict:?}", path.display());
            }
        }
    }
}
