//! Every verb of the command line on files of very many entries, each in a process of its own, against
//! the bounds of memory and time.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use test_data::crowds::{CROWDS, Crowd};
use wait4::Wait4;

use crate::{Outcome, cargo};

const MIB: u64 = 1 << 20;
/// Memory above the files, or above their index as decoded where that is larger.
const MEMORY: u64 = 64 * MIB;
/// Seconds that a verb may take.
const SECONDS: f64 = 20.0;
/// The most bytes that a conversion is made to write here.
const WRITTEN: u64 = 2 << 30;
/// Bytes that a conversion may hold for each tensor that has bytes of its own.
const CONVERTED: u64 = 920;
/// What a verb may print: so many times its input, beside so many bytes.
const OUTPUT: (u64, u64) = (32, 64 * MIB);
/// Nothing that runs wild may take the machine with it: KiB of addresses, seconds of processors.
const CAGE: &str = "ulimit -v 8388608; ulimit -t 30; exec \"$@\"";
/// How many entries the files have that a change is held against.
pub(crate) const FEW: usize = 10_000;

/// The targets of a conversion, by their endings.
const TARGETS: [&str; 8] = [
    "mag",
    "zt",
    "bpk",
    "aero",
    "aeroset.json",
    "model",
    "safetensors",
    "safetensors.index.json",
];

/// A verb: the column it is listed in, and its arguments, of which `FILE`, `COPY`, `FIRST` and `OUT.` stand
/// for files and a name.
type Verb = (&'static str, Vec<String>);

fn verbs() -> Vec<Verb> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    let mut verbs: Vec<Verb> = vec![
        ("inspect", words("inspect FILE")),
        ("json", words("inspect --json FILE")),
        ("html", words("inspect --html OUT.html --force FILE")),
        ("verify", words("verify FILE")),
        ("verify", words("verify --strict --json FILE")),
        ("hash", words("hash FILE")),
        ("stats", words("stats FILE")),
        ("diff", words("diff FILE FILE")),
        ("diff", words("diff FILE COPY")),
        ("extract", words("extract FILE FIRST -o OUT.npy --force")),
    ];
    for target in TARGETS {
        verbs.push((
            "convert",
            words(&format!("convert --force FILE OUT.{target}")),
        ));
    }
    verbs
}

/// How the fault of a run begins that ends otherwise than it may.
const ENDS: &str = "ends with ";

/// What one run took, against what it may take.
struct Run {
    column: &'static str,
    /// What was run, in short.
    verb: String,
    code: Option<i32>,
    /// Bytes above what the input accounts for.
    above: u64,
    seconds: f64,
    limit: bool,
    faults: Vec<String>,
}

/// Runs the verbs on all crowds of so many entries, or on those whose name has `only` in it, and prints a
/// table; fails where a bound is passed.
pub(crate) fn run(entries: &[usize], only: Option<&str>) -> Outcome {
    if !cfg!(target_os = "linux") {
        eprintln!("hostile: crowds skipped, memory is measured as Linux does");
        return Ok(());
    }
    cargo(
        &[
            "build",
            "--quiet",
            "--release",
            "--package",
            "tensorfmt-cli",
        ],
        &[],
    )?;
    let root = test_data::workspace_root();
    let folder = root.join("target/hostile");
    let mut faults = Vec::new();
    for &entries in entries {
        let crowds = CROWDS.iter();
        let mut rows = vec![head(entries)];
        for crowd in crowds.filter(|crowd| only.is_none_or(|only| crowd.name.contains(only))) {
            let runs = measure(crowd, entries, &folder, &program(&root))?;
            rows.push(row(crowd, &runs));
            let ill = runs.1.iter().filter(|run| !run.faults.is_empty());
            faults.extend(ill.map(|run| {
                let faults = run.faults.join(", ");
                format!("{} {}: {faults}", crowd.name, run.verb)
            }));
            eprintln!("{}", rows.last().map_or("", String::as_str));
        }
        eprintln!();
        println(&rows.join("\n"));
    }
    for fault in &faults {
        eprintln!("{fault}");
    }
    match faults.len() {
        0 => Ok(()),
        faults => Err(format!("{faults} runs are beyond a bound")),
    }
}

#[allow(clippy::print_stdout, reason = "the table is the answer")]
fn println(text: &str) {
    println!("{text}\n");
}

/// Where cargo puts the program.
fn program(root: &Path) -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("release/tensorfmt")
}

/// Writes the files of a crowd: in a process of its own, since what a process takes counts for those that it
/// starts.
pub(crate) fn make(arguments: &[String]) -> Outcome {
    let [name, entries, folder] = arguments else {
        return Err("--make takes a name, a count and a folder".into());
    };
    let crowd = CROWDS.iter().find(|crowd| crowd.name == name);
    let crowd = crowd.ok_or_else(|| format!("no crowd {name:?}"))?;
    let made = crowd.make(
        entries
            .parse()
            .map_err(|error| format!("{entries}: {error}"))?,
    );
    let write = |name: &str, bytes: &[u8]| {
        let path = Path::new(folder).join(name);
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))
    };
    for (name, bytes) in &made.files {
        write(name, bytes)?;
    }
    let first = made.files.first().map_or("", |(name, _)| name.as_str());
    let own = u8::from(made.own);
    println(&format!(
        "{first}\n{}\n{}\n{own}",
        made.index_len, made.data_len
    ));
    Ok(())
}

/// Bytes of the input, and every run.
type Runs = (u64, Vec<Run>);

fn measure(crowd: &Crowd, entries: usize, folder: &Path, program: &Path) -> Result<Runs, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", folder.display());
    let (input, copy) = (folder.join("input"), folder.join("copy"));
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(fail)?;
    }
    fs::create_dir_all(&input).map_err(fail)?;
    fs::create_dir_all(&copy).map_err(fail)?;
    let made = Command::new(std::env::current_exe().map_err(fail)?)
        .args(["hostile", "--make", crowd.name, &entries.to_string()])
        .arg(&input)
        .stderr(Stdio::inherit())
        .output()
        .map_err(fail)?;
    let made = String::from_utf8_lossy(&made.stdout).into_owned();
    let mut lines = made.lines();
    let file = lines.next().unwrap_or_default();
    let mut number = || lines.next().and_then(|len| len.parse().ok());
    let [index, data, own]: [u64; 3] = std::array::from_fn(|_| number().unwrap_or(0));
    let mut len = 0;
    for entry in fs::read_dir(&input).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        len += fs::copy(entry.path(), copy.join(entry.file_name())).map_err(fail)?;
    }
    let allowed = len.max(index);
    let path = |folder: &Path| folder.join(file).to_string_lossy().into_owned();
    let out = folder.join("out").to_string_lossy().into_owned();
    let first = first_name(program, &path(&input));
    let mut runs = Vec::new();
    for (column, words) in verbs() {
        // To write many times what is there takes its time.
        if column == "extract" && first.is_none() || column == "convert" && data > WRITTEN {
            continue;
        }
        let (both, kept) = match column {
            "diff" => (2, 0),
            // What is held of each tensor until all are written: the file pays for it.
            "convert" if own > 0 => (1, (CONVERTED * entries as u64).min(8 * len)),
            _ => (1, 0),
        };
        let words: Vec<String> = words
            .iter()
            .map(|word| match word.as_str() {
                "FILE" => path(&input),
                "COPY" => path(&copy),
                "FIRST" => first.clone().unwrap_or_default(),
                word => word.replace("OUT.", &format!("{out}.")),
            })
            .collect();
        let mut run = watch(column, program, &words, allowed * both + kept)?;
        // What fails its checks is not converted, and warnings count for some.
        let may_fail = crowd.damaged || words.iter().any(|word| word == "--strict");
        if run.code == Some(1) && may_fail {
            run.faults.retain(|fault| !fault.starts_with(ENDS));
        }
        runs.push(run);
    }
    Ok((len, runs))
}

/// The name of the first tensor.
fn first_name(program: &Path, path: &str) -> Option<String> {
    let mut child = Command::new(program)
        .args(["hash", "--algorithm", "crc32c", path])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut text = [0; 4096];
    let len = child.stdout.take()?.read(&mut text).ok()?;
    let _ = child.kill();
    let _ = child.wait();
    let line = String::from_utf8_lossy(text.get(..len)?).into_owned();
    let (_, name) = line.lines().next()?.split_once("  ")?;
    (name != "(model)").then(|| name.to_owned())
}

fn watch(
    column: &'static str,
    program: &Path,
    words: &[String],
    allowed: u64,
) -> Result<Run, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", program.display());
    let start = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", CAGE, "sh"])
        .arg(program)
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let err = std::thread::spawn(move || drain(err));
    let (printed, out_limit, _) = drain(out);
    let (complained, err_limit, last) = err.join().unwrap_or_default();
    let used = child.wait4().map_err(fail)?;
    let seconds = start.elapsed().as_secs_f64();
    let above = used.rusage.maxrss.saturating_sub(allowed);
    // A verification says it among the rest of what it found.
    let limit = out_limit || err_limit;
    let ends_well = match used.status.code() {
        Some(0 | 2 | 4) => true,
        Some(1) => limit,
        _ => false,
    };
    let printed = printed + complained;
    let mut faults = Vec::new();
    if above > MEMORY {
        faults.push(format!("takes {} MiB above its input", above / (1 << 20)));
    }
    if seconds > SECONDS {
        faults.push(format!("takes {seconds:.0} s"));
    }
    if printed > OUTPUT.0 * allowed + OUTPUT.1 {
        faults.push(format!("prints {} MiB", printed / MIB));
    }
    if !ends_well {
        faults.push(format!("{ENDS}{}: {}", used.status, last.trim()));
    }
    let verb: Vec<&str> = words
        .iter()
        .filter_map(|word| word.rsplit('/').next())
        .collect();
    Ok(Run {
        column,
        verb: verb.join(" "),
        code: used.status.code(),
        above,
        seconds,
        limit,
        faults,
    })
}

/// How many bytes come from a pipe, whether they name a limit to raise, and the last of them as text.
fn drain(pipe: Option<impl Read>) -> (u64, bool, String) {
    const LIMIT: &[u8] = b"(--limit ";
    let (mut len, mut limit, mut last) = (0, false, Vec::new());
    let mut buffer = vec![0; 1 << 16];
    let Some(mut pipe) = pipe else {
        return (0, false, String::new());
    };
    while let Ok(read) = pipe.read(&mut buffer) {
        if read == 0 {
            break;
        }
        len += read as u64;
        last.extend_from_slice(buffer.get(..read).unwrap_or_default());
        limit |= last.windows(LIMIT.len()).any(|bytes| bytes == LIMIT);
        last.drain(..last.len().saturating_sub(2000));
    }
    (len, limit, String::from_utf8_lossy(&last).into_owned())
}

/// The columns, in the order of the verbs.
fn columns() -> Vec<&'static str> {
    let mut columns: Vec<&'static str> = verbs().iter().map(|(column, _)| *column).collect();
    columns.dedup();
    columns
}

fn head(entries: usize) -> String {
    let columns = columns();
    let rule = "---|".repeat(columns.len() + 2);
    format!(
        "{entries} entries\n\n| file | MiB | {} |\n|{rule}",
        columns.join(" | ")
    )
}

/// MiB above the input and seconds of each column, of its worst runs.
fn row(crowd: &Crowd, (len, runs): &Runs) -> String {
    let mut worst: BTreeMap<&str, (u64, f64, bool, bool)> = BTreeMap::new();
    for run in runs {
        let known = worst
            .entry(run.column)
            .or_insert((u64::MIN, 0.0, true, false));
        known.0 = known.0.max(run.above);
        known.1 = known.1.max(run.seconds);
        known.2 &= run.limit;
        known.3 |= !run.faults.is_empty();
    }
    let cell = |column: &&str| match worst.get(column) {
        None => "-".to_owned(),
        Some((above, seconds, limit, fault)) => {
            let limit = if *limit { " limit" } else { "" };
            let fault = if *fault { " **!**" } else { "" };
            let mib = (above + (1 << 19)) >> 20;
            format!("{mib}, {seconds:.1} s{limit}{fault}")
        }
    };
    let cells: Vec<String> = columns().iter().map(cell).collect();
    let mib = *len as f64 / MIB as f64;
    format!("| {} | {mib:.1} | {} |", crowd.name, cells.join(" | "))
}
