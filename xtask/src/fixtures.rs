//! `fixtures/<format>/{valid,reject,unsupported}/`: the hand-assembled files, each beside a text
//! with its verdict and a dump, so that a change of bytes shows in a review.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use test_data::{Case, Expect, FORMATS};

use crate::Outcome;

/// Contents by path below `fixtures/`, with `/` between the parts.
type Files = BTreeMap<String, Vec<u8>>;

#[derive(Debug, PartialEq, Eq)]
enum Difference {
    Missing,
    Stale,
    Unknown,
}

pub(crate) fn run(check: bool) -> Outcome {
    let root = test_data::workspace_root().join("fixtures");
    let mut expected = Files::new();
    for format in FORMATS {
        for case in (format.cases)() {
            let (path, text) = (
                path_of(format.name, format.extension, &case),
                text_of(&case),
            );
            expected.insert(format!("{path}.txt"), text.into_bytes());
            expected.insert(path, case.bytes);
        }
    }
    let found = files_below(&root)?;
    let differences = differences(&expected, &found);
    if check {
        report(&differences)
    } else {
        for (path, difference) in &differences {
            apply(&root, path, difference, &expected)?;
        }
        eprintln!(
            "{} fixture files, {} changed",
            expected.len(),
            differences.len()
        );
        Ok(())
    }
}

fn report(differences: &BTreeMap<String, Difference>) -> Outcome {
    for (path, difference) in differences {
        let state = match difference {
            Difference::Missing => "missing",
            Difference::Stale => "stale",
            Difference::Unknown => "unknown",
        };
        eprintln!("fixtures/{path}: {state}");
    }
    match differences.len() {
        0 => Ok(()),
        count => Err(format!(
            "{count} files of fixtures/ differ; run `cargo xtask fixtures` and review the diff"
        )),
    }
}

fn apply(root: &Path, path: &str, difference: &Difference, expected: &Files) -> Outcome {
    let target = root.join(path);
    let done = match expected.get(path) {
        Some(bytes) => fs::create_dir_all(target.parent().unwrap_or(root))
            .and_then(|()| fs::write(&target, bytes)),
        None => fs::remove_file(&target),
    };
    done.map_err(|error| format!("fixtures/{path}: {error}"))?;
    if *difference == Difference::Unknown {
        eprintln!("removed fixtures/{path}");
    }
    Ok(())
}

fn differences(expected: &Files, found: &Files) -> BTreeMap<String, Difference> {
    let mut differences = BTreeMap::new();
    for (path, bytes) in expected {
        match found.get(path) {
            None => differences.insert(path.clone(), Difference::Missing),
            Some(other) if other != bytes => differences.insert(path.clone(), Difference::Stale),
            Some(_) => None,
        };
    }
    for path in found.keys().filter(|path| !expected.contains_key(*path)) {
        differences.insert(path.clone(), Difference::Unknown);
    }
    differences
}

fn files_below(root: &Path) -> Result<Files, String> {
    let mut files = Files::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        if folder.is_empty() && !path.exists() {
            break;
        }
        let failed = |error| format!("{}: {error}", path.display());
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(format!("{name}/"));
            } else {
                let bytes = fs::read(entry.path()).map_err(failed)?;
                files.insert(name, bytes);
            }
        }
    }
    Ok(files)
}

fn path_of(format: &str, extension: &str, case: &Case) -> String {
    let folder = match case.expect {
        Expect::Valid => "valid",
        Expect::Reject(_) => "reject",
        Expect::Unsupported(_) => "unsupported",
    };
    format!("{format}/{folder}/{}.{extension}", case.name)
}

/// First line: the verdict. Second: what is special. Then the dump.
fn text_of(case: &Case) -> String {
    let verdict = match case.expect {
        Expect::Valid => "valid",
        Expect::Reject(id) | Expect::Unsupported(id) => id,
    };
    format!("{verdict}\n{}\n\n{}", case.about, dump(&case.bytes))
}

/// Sixteen bytes a line with their offset, in hex and ASCII. A line that repeats the one before it
/// becomes `*`, once; the last line is the length.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut previous: Option<&[u8]> = None;
    let mut skipping = false;
    for (index, line) in bytes.chunks(16).enumerate() {
        if previous == Some(line) {
            if !skipping {
                text += "*\n";
            }
            skipping = true;
            continue;
        }
        skipping = false;
        previous = Some(line);
        let hex: Vec<String> = line
            .chunks(8)
            .map(|half| {
                let pairs: Vec<String> = half.iter().map(|byte| format!("{byte:02x}")).collect();
                pairs.join(" ")
            })
            .collect();
        let ascii: String = line
            .iter()
            .map(|&byte| match byte {
                b' '..=b'~' => char::from(byte),
                _ => '.',
            })
            .collect();
        text += &format!("{:08x}  {:<48}  |{ascii}|\n", index * 16, hex.join("  "));
    }
    text + &format!("{:08x}\n", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        let pair = |&(path, text): &(&str, &str)| (path.to_owned(), text.as_bytes().to_vec());
        list.iter().map(pair).collect()
    }

    #[test]
    fn each_kind_of_difference_is_found() {
        let expected = files(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let found = files(&[("a", "1"), ("b", "other"), ("d", "4")]);
        let differences = differences(&expected, &found);
        let pairs: Vec<_> = differences
            .iter()
            .map(|(path, difference)| (path.as_str(), difference))
            .collect();
        assert_eq!(
            pairs,
            [
                ("b", &Difference::Stale),
                ("c", &Difference::Missing),
                ("d", &Difference::Unknown)
            ]
        );
        let message = report(&differences).unwrap_err();
        assert!(message.starts_with("3 files of fixtures/ differ"));
    }

    #[test]
    fn equal_files_pass() {
        let expected = files(&[("a", "1")]);
        assert_eq!(report(&differences(&expected, &expected)), Ok(()));
    }

    #[test]
    fn writing_leaves_nothing_to_report() {
        let root = std::env::temp_dir().join(format!("xtask-fixtures-{}", std::process::id()));
        fs::create_dir_all(root.join("mag/valid")).unwrap();
        fs::write(root.join("mag/valid/renamed.mag"), "old").unwrap();
        let expected = files(&[("mag/valid/a.mag", "1"), ("mag/reject/b.mag", "2")]);

        let before = differences(&expected, &files_below(&root).unwrap());
        assert_eq!(before.len(), 3);
        for (path, difference) in &before {
            apply(&root, path, difference, &expected).unwrap();
        }
        let after = files_below(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(after, expected);
    }

    #[test]
    fn an_absent_folder_has_no_files() {
        let absent = std::env::temp_dir().join("xtask-fixtures-absent");
        assert_eq!(files_below(&absent), Ok(Files::new()));
    }

    #[test]
    fn the_verdict_comes_first() {
        let case = Case::reject("x", "mag.truncated", "a lone byte", vec![0x4D]);
        assert_eq!(path_of("mag", "mag", &case), "mag/reject/x.mag");
        let line = format!("00000000  4d{}  |M|", " ".repeat(46));
        let expected = format!("mag.truncated\na lone byte\n\n{line}\n00000001\n");
        assert_eq!(text_of(&case), expected);
    }

    #[test]
    fn repeated_lines_are_left_out() {
        let mut bytes = vec![0xFF; 64];
        bytes.extend(b"0123456789abcdef");
        let expected = "\
00000000  ff ff ff ff ff ff ff ff  ff ff ff ff ff ff ff ff  |................|
*
00000040  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|
00000050
";
        assert_eq!(dump(&bytes), expected);
    }
}
