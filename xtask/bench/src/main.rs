//! How fast tensorfmt is, beside its peers and beside what the machine can do. `cargo xtask bench`
//! runs it; every row is measured with its contenders taking turns in one process.

mod chart;
mod formats;
mod peers;
mod raw;
mod report;
mod rows;
mod rss;
mod time;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tensor_core::WriteOptions;
use tensorfmt::Archive;
use tensorfmt::convert::{Model, Options, Target, plan};

const USAGE: &str =
    "tensorfmt-bench [--quick] [--only ROWS] [--folder DIR] [--markdown FILE] [--json FILE]";

fn main() -> ExitCode {
    time::always_fresh_memory();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut settings = rows::Settings {
        quick: false,
        folder: std::env::temp_dir().join("tensorfmt-bench"),
    };
    let mut only: Vec<String> = Vec::new();
    let (mut markdown, mut json): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .ok_or_else(|| format!("{argument} what? {USAGE}"))
        };
        match argument.as_str() {
            "--quick" => settings.quick = true,
            "--only" => only.extend(value()?.split(',').map(str::to_owned)),
            "--folder" => settings.folder = value()?.into(),
            "--markdown" => markdown = Some(value()?.into()),
            "--json" => json = Some(value()?.into()),
            "--convert" => {
                let (from, to, target) = (value()?, value()?, value()?);
                return rows::convert_child(from.as_ref(), to.as_ref(), &target);
            }
            "--open" => {
                let (format, path) = (value()?, value()?);
                return rows::open_child(&format, path.as_ref());
            }
            _ => return Err(format!("{argument}? {USAGE}").into()),
        }
    }
    let known: Vec<&str> = rows::ALL_ROWS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("no rows {unknown:?}; there are {}", known.join(", ")).into());
    }
    fs::create_dir_all(&settings.folder)?;
    let mut all = Vec::new();
    for (name, rows) in rows::ALL_ROWS {
        if only.is_empty() || only.iter().any(|only| only == name) {
            eprintln!("bench: {name}");
            let rows = rows(&settings);
            eprint!("{}", report::markdown(&rows));
            all.extend(rows);
        }
    }
    let short = all.iter().filter(|row| row.holds() == Some(false)).count();
    let barred = all.iter().filter(|row| row.holds().is_some()).count();
    let page = page(&all, &settings, short, barred);
    match markdown {
        Some(path) => {
            fs::write(path.with_extension("svg"), chart::svg(&all))?;
            fs::write(path, page)?;
        }
        None => print!("{page}"),
    }
    if let Some(path) = json {
        let rows: Vec<serde_json::Value> = all.iter().map(report::Row::json).collect();
        fs::write(path, serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(())
}

fn page(rows: &[report::Row], settings: &rows::Settings, short: usize, barred: usize) -> String {
    let head = format!(
        "# How fast it is\n\n`cargo xtask bench` writes this page; `xtask/bench/README.md` says how it \
        measures.\n\n![Times beside others](benchmarks.svg)\n\n{} of {barred} rows hold, {short} fall short.\n\nMeasured on {} ({} cores, {}, pages of {} bytes, large pages: {}), {}. \
        Files are in the page cache. Contenders take turns within each round; a figure is the \
        median over the rounds of the ratio of that round's two times, so that a slow moment of \
        the machine meets both.{}\n",
        barred - short,
        first_line("/proc/cpuinfo", "model name").unwrap_or_else(|| "an unknown processor".into()),
        std::thread::available_parallelism().map_or(1, usize::from),
        first_line("/proc/version", "").unwrap_or_else(|| std::env::consts::OS.into()),
        page_size(),
        large_pages(),
        jiff::Timestamp::now().strftime("%F"),
        if settings.quick {
            " A quick run: smaller files, fewer rounds."
        } else {
            ""
        },
    );
    head + "\n" + include_str!("../falls-short.md") + &report::markdown(rows)
}

fn page_size() -> i64 {
    // SAFETY: asks the system for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
}

/// When the system gives large pages: the word in brackets of its setting.
fn large_pages() -> String {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let setting = setting.unwrap_or_default();
    let chosen = setting
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or("unknown", |(chosen, _)| chosen).to_owned()
}

/// The value of the first line of a file that starts with `key`.
fn first_line(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    if key.is_empty() {
        return Some(
            line.split_whitespace()
                .take(3)
                .collect::<Vec<_>>()
                .join(" "),
        );
    }
    line.split_once(':')
        .map(|(_, value)| value.trim().to_owned())
}

/// What `tensorfmt convert` does, without its words.
fn convert(from: &Path, to: &Path, target: Target) -> Result<(), Box<dyn Error>> {
    let archive = Archive::open(from)?;
    let plan = plan(Model::of(&archive), target, &Options::default())?;
    let mut options = WriteOptions::default();
    options.durable = false;
    Ok(plan.write_file(to, &options)?)
}
