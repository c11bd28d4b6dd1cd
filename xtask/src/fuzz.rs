//! Fuzzing: seeds for the targets of `xtask/fuzz/`, and a run of them with its figures as a table.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Outcome, cargo};

/// Larger files make runs slow, and hold nothing that smaller ones don't.
const LARGEST_SEED: u64 = 64 << 10;

/// How long a target runs unless told otherwise, in seconds.
const SECONDS: u64 = 600;

/// What the fuzzer is told: one allocation above 128 MiB is a finding, as are 2 GiB in all (the
/// sanitizer keeps what was freed) and half a minute for one input (by the clock, on a machine
/// that does other things too).
const LIMITS: [&str; 5] = [
    "-malloc_limit_mb=128",
    "-rss_limit_mb=2048",
    "-timeout=30",
    "-print_final_stats=1",
    "-verbosity=1",
];

pub(crate) fn run(arguments: &[String]) -> Outcome {
    let folder = test_data::workspace_root().join("xtask/fuzz");
    let targets = targets(&folder)?;
    let asked = parse(arguments, &targets)?;
    let count = seed(&folder, &targets)?;
    eprintln!("{count} seeds");
    let Asked::Run { seconds, targets } = asked else {
        return Ok(());
    };
    if !has_cargo_fuzz() {
        cargo(&["install", "cargo-fuzz", "--locked"], &[])?;
    }
    let mut rows = Vec::new();
    for target in targets {
        eprintln!("==> {target}");
        rows.push(fuzz(&folder, &target, seconds)?);
    }
    let mut out = std::io::stdout();
    let written = out.write_all(table(&rows).as_bytes());
    written.map_err(|error| format!("standard output: {error}"))?;
    match rows.iter().map(|row| row.findings).sum::<usize>() {
        0 => Ok(()),
        count => Err(format!("{count} findings; see xtask/fuzz/artifacts")),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Seed,
    Run { seconds: u64, targets: Vec<String> },
}

fn parse(arguments: &[String], known: &[String]) -> Result<Asked, String> {
    let mut seconds = SECONDS;
    let mut targets = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--seconds" {
            let value = arguments.next().and_then(|value| value.parse().ok());
            seconds = value.ok_or("--seconds wants a number")?;
        } else if argument == "seed" {
            return match arguments.next() {
                None => Ok(Asked::Seed),
                Some(more) => Err(format!("fuzz seed takes no argument {more:?}")),
            };
        } else if known.contains(argument) {
            targets.push(argument.clone());
        } else {
            let known = known.join(", ");
            return Err(format!("no fuzz target {argument:?}; there are {known}"));
        }
    }
    if targets.is_empty() {
        targets = known.to_vec();
    }
    Ok(Asked::Run { seconds, targets })
}

/// The names of all targets, sorted.
fn targets(folder: &Path) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = files_below(&folder.join("fuzz_targets"))?
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Copies the project's fixtures, and the corpus where there is one, to where the fuzzer looks for
/// seeds: each format's to its parser, and all to `any`. What builders are called with has no
/// files; the fuzzer makes it from nothing.
fn seed(folder: &Path, targets: &[String]) -> Result<usize, String> {
    let fixtures = test_data::workspace_root().join("fixtures");
    let mut roots = vec![fixtures];
    // The parent of any format's folder; a note says so where there is none.
    roots.extend(test_data::corpus::folder("mag").and_then(|mag| Some(mag.parent()?.to_owned())));
    let mut files = Vec::new();
    for root in &roots {
        files.extend(files_below(root)?);
    }
    let mut count = 0;
    for file in files {
        let failed = |error| format!("{}: {error}", file.display());
        let size = fs::metadata(&file).map_err(failed)?.len();
        let text = file
            .extension()
            .is_some_and(|end| end == "txt" || end == "json");
        if text || size > LARGEST_SEED {
            continue;
        }
        let bytes = fs::read(&file).map_err(failed)?;
        let format = format_of(&file, &roots).unwrap_or_default();
        for target in targets {
            if *target != format!("{format}_parse") && target != "any" {
                continue;
            }
            let into = folder.join("corpus").join(target);
            fs::create_dir_all(&into).map_err(failed)?;
            fs::write(into.join(seed_name(&file, &roots)), &bytes).map_err(failed)?;
            count += 1;
        }
    }
    Ok(count)
}

/// The format that a seed is of: the start of the first folder's name, as in `mag-snapshots`.
fn format_of(file: &Path, roots: &[PathBuf]) -> Option<String> {
    let inside = roots.iter().find_map(|root| file.strip_prefix(root).ok())?;
    let first = inside.iter().next()?.to_str()?;
    Some(first.split('-').next()?.to_owned())
}

/// A name that no other seed has: the path with other separators.
fn seed_name(file: &Path, roots: &[PathBuf]) -> String {
    let inside = roots.iter().find_map(|root| file.strip_prefix(root).ok());
    let parts = inside.unwrap_or(file).iter().map(OsStr::to_string_lossy);
    parts.collect::<Vec<_>>().join("-")
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let failed = |error| format!("{}: {error}", next.display());
        for entry in fs::read_dir(&next).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn has_cargo_fuzz() -> bool {
    let mut command = Command::new("cargo");
    command.args(["fuzz", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What came of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    target: String,
    seconds: u64,
    executions: u64,
    coverage: u64,
    features: u64,
    corpus: String,
    findings: usize,
}

/// Runs one target; the first finding ends it.
fn fuzz(folder: &Path, target: &str, seconds: u64) -> Result<Row, String> {
    let artifacts = folder.join("artifacts").join(target);
    fs::create_dir_all(&artifacts).map_err(|error| format!("{}: {error}", artifacts.display()))?;
    let before: BTreeSet<PathBuf> = files_below(&artifacts)?.into_iter().collect();
    let limit = format!("-max_total_time={seconds}");
    let largest = format!("-max_len={LARGEST_SEED}");
    let mut command = Command::new("cargo");
    command
        .args(["fuzz", "run", "--fuzz-dir", ".", "--target-dir"])
        .arg(test_data::workspace_root().join("target/fuzz"))
        .args([target, "--", &limit, &largest])
        .args(LIMITS)
        .current_dir(folder)
        // The instrumentation is no stable feature; the compiler still has it.
        .env("RUSTC_BOOTSTRAP", "1")
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot run cargo fuzz: {error}"))?;
    let mut row = Row {
        target: target.to_owned(),
        ..Row::default()
    };
    for line in child
        .stderr
        .take()
        .into_iter()
        .flat_map(|err| BufReader::new(err).lines())
    {
        let line = line.map_err(|error| format!("cargo fuzz: {error}"))?;
        if !row.take(&line) {
            eprintln!("{line}");
        }
    }
    let status = child
        .wait()
        .map_err(|error| format!("cargo fuzz: {error}"))?;
    let after = files_below(&artifacts)?;
    row.findings = after.iter().filter(|path| !before.contains(*path)).count();
    match row.findings {
        0 if !status.success() => Err(format!("cargo fuzz run {target}: {status}")),
        _ => Ok(row),
    }
}

impl Row {
    /// Takes what a line of the fuzzer's says; false where it says nothing that is counted.
    fn take(&mut self, line: &str) -> bool {
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = count.trim().parse().unwrap_or(0);
            return true;
        }
        if let Some(rest) = line.strip_prefix("Done ") {
            let seconds = rest
                .split(" in ")
                .nth(1)
                .and_then(|text| text.split(' ').next());
            self.seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(0);
            return true;
        }
        let mut words = line.split_whitespace();
        if !line.starts_with('#') || words.clone().all(|word| word != "cov:") {
            return line.starts_with("stat::");
        }
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|text| text.parse().ok()).unwrap_or(0);
            match word {
                "cov:" => self.coverage = number(),
                "ft:" => self.features = number(),
                "corp:" => self.corpus = words.next().unwrap_or_default().to_owned(),
                _ => {}
            }
        }
        true
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| target | seconds | executions | coverage (edges) | features | corpus | findings |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        text += &format!(
            "| `{}` | {} | {} | {} | {} | {} | {} |\n",
            row.target,
            row.seconds,
            row.executions,
            row.coverage,
            row.features,
            row.corpus,
            row.findings,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn arguments_name_targets_and_a_time() {
        let known = strings(&["any", "mag_parse"]);
        let parsed = |list: &[&str]| parse(&strings(list), &known);
        let run = |seconds, targets: &[&str]| {
            let targets = strings(targets);
            Ok(Asked::Run { seconds, targets })
        };
        assert_eq!(parsed(&[]), run(SECONDS, &["any", "mag_parse"]));
        assert_eq!(parsed(&["--seconds", "5", "any"]), run(5, &["any"]));
        assert_eq!(parsed(&["seed"]), Ok(Asked::Seed));
        assert!(parsed(&["seed", "any"]).is_err());
        assert!(parsed(&["--seconds"]).is_err());
        let message = parsed(&["png_parse"]).unwrap_err();
        assert_eq!(
            message,
            "no fuzz target \"png_parse\"; there are any, mag_parse"
        );
    }

    #[test]
    fn figures_are_taken_from_the_fuzzers_lines() {
        let mut row = Row::default();
        for line in [
            "#1170\tINITED cov: 12 ft: 15 corp: 8/140b exec/s: 0 rss: 31Mb",
            "#40218\tDONE   cov: 3701 ft: 10781 corp: 824/552Kb lim: 6916 exec/s: 3093 rss: 483Mb",
            "Done 40218 runs in 13 second(s)",
            "stat::number_of_executed_units: 40218",
            "stat::peak_rss_mb:              483",
        ] {
            assert!(row.take(line), "{line}");
        }
        assert!(!row.take("INFO: seed corpus: files: 5"));
        let expected = "| `` | 13 | 40218 | 3701 | 10781 | 824/552Kb | 0 |";
        assert_eq!(table(&[row]).lines().nth(2), Some(expected));
    }

    #[test]
    fn seeds_go_to_their_formats_parser() {
        let roots = [PathBuf::from("/fixtures"), PathBuf::from("/corpus")];
        let file = Path::new("/corpus/mag-snapshots/reject/a.mag");
        assert_eq!(format_of(file, &roots), Some("mag".to_owned()));
        assert_eq!(seed_name(file, &roots), "mag-snapshots-reject-a.mag");
        let file = Path::new("/fixtures/aero/valid/a.aero");
        assert_eq!(format_of(file, &roots), Some("aero".to_owned()));
    }
}
