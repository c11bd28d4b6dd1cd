//! The tasks of this workspace, the same for developers and CI: `cargo xtask <task>`.

#![forbid(unsafe_code)]

use std::env;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

mod api;
mod assets;
mod bench;
mod browser;
mod clusters;
mod crowds;
mod demo;
mod dependencies;
mod fixtures;
mod fuzz;
mod pictures;
mod ports;
mod programs;
mod python;
mod release;
mod remote;
mod shown;
mod workspace;

/// Nothing, or one line on what failed.
type Outcome = Result<(), String>;

/// A part of `ci`: its name in headers and messages, and what it does.
type Step = (&'static str, fn() -> Outcome);

struct Task {
    name: &'static str,
    /// The one flag that the task takes; one that ends in `..` stands for any arguments, which
    /// the task checks itself.
    flag: Option<&'static str>,
    help: &'static str,
    /// Runs the task with its arguments.
    run: fn(&[String]) -> Outcome,
}

const TASKS: &[Task] = &[
    Task {
        name: "ci",
        flag: Some("--no-test"),
        help: "everything a change must pass, in one go; --no-test where the tests ran already",
        run: |flags| ci(!flags.is_empty()),
    },
    Task {
        name: "demo",
        flag: None,
        help: "builds the command line tool and shows it a small model: inspect, convert, verify",
        run: |_| demo::run(),
    },
    Task {
        name: "check",
        flag: None,
        help: "formatting and lints",
        run: |_| fmt().and_then(|()| clippy()),
    },
    Task {
        name: "test",
        flag: None,
        help: "all tests and the code of the documentation",
        run: |_| test(),
    },
    Task {
        name: "features",
        flag: None,
        help: "lints each published crate with no feature, each feature alone, and all",
        run: |_| workspace::features(),
    },
    Task {
        name: "doc",
        flag: None,
        help: "builds the documentation; a broken link is an error",
        run: |_| doc(),
    },
    Task {
        name: "no-std",
        flag: None,
        help: "links and runs a program without std that uses every codec",
        run: |_| no_std(),
    },
    Task {
        name: "interop",
        flag: None,
        help: "holds the codecs against other projects' crates; downloads and builds those",
        run: |_| interop(),
    },
    Task {
        name: "bench",
        flag: Some("--quick --only ROWS .."),
        help: "measures every row of the performance budget beside the peers",
        run: bench::run,
    },
    Task {
        name: "browser",
        flag: Some("--if-found"),
        help: "looks at `inspect --html` in Chromium, installing it unless --if-found",
        run: |flags| browser::run(!flags.is_empty()),
    },
    Task {
        name: "python",
        flag: Some("--if-found"),
        help: "builds the Python package's wheels and tests them; --if-found passes without Python",
        run: |flags| python::run(!flags.is_empty()),
    },
    Task {
        name: "remote",
        flag: None,
        help: "reads from and writes to real services: an S3 server, Azure's emulator, nginx; installs them",
        run: |_| remote::run(),
    },
    Task {
        name: "clusters",
        flag: None,
        help: "runs the Python examples for Ray and Dask with four workers, one of which is killed; installs both",
        run: |_| clusters::run(),
    },
    Task {
        name: "pictures",
        flag: None,
        help: "makes the README's pictures of a terminal and of a page anew, which takes a browser",
        run: |_| pictures::run(),
    },
    Task {
        name: "assets",
        flag: None,
        help: "writes manual pages and shell completions to target/assets",
        run: |_| assets::run(),
    },
    Task {
        name: "fixtures",
        flag: Some("--check"),
        help: "writes fixtures/; --check compares instead and fails on any difference",
        run: |flags| fixtures::run(!flags.is_empty()),
    },
    Task {
        name: "fuzz",
        flag: Some("seed | --seconds N TARGET.."),
        help: "runs the fuzz targets, 600 seconds each, and prints their figures",
        run: fuzz::run,
    },
    Task {
        name: "msrv",
        flag: None,
        help: "the oldest Rust is enough: for dependencies, and for all code where it is at hand",
        run: |_| workspace::msrv(),
    },
    Task {
        name: "hostile",
        flag: Some("N.. | --only NAME N.."),
        help: "the tests of hostile input in a release build, then every verb on crowds of N entries",
        run: hostile,
    },
    Task {
        name: "width",
        flag: None,
        help: "checks and tests for hosts of 32 bits and big-endian ones, as far as these are at hand",
        run: |_| ports::width(),
    },
    Task {
        name: "dependencies",
        flag: Some("--check"),
        help: "writes docs/dependencies.md; --check compares instead",
        run: |flags| dependencies::run(!flags.is_empty()),
    },
    Task {
        name: "api",
        flag: Some("--check"),
        help: "writes docs/api, the public interface of each library; --check compares instead",
        run: |flags| api::run(!flags.is_empty()),
    },
    Task {
        name: "programs",
        flag: Some("--update"),
        help: "runs the programs of docs/programs.md; --update writes what they print to the page",
        run: |flags| programs::run(!flags.is_empty()),
    },
    Task {
        name: "deny",
        flag: None,
        help: "licences, sources and advisories of dependencies, where cargo-deny is installed",
        run: |_| release::deny(),
    },
    Task {
        name: "package",
        flag: Some("--no-verify"),
        help: "packs every package and builds it from that; --no-verify only packs",
        run: |flags| release::package(!flags.is_empty()),
    },
    Task {
        name: "semver",
        flag: None,
        help: "compares the public interface with the last release's",
        run: |_| release::semver(),
    },
];

/// What `ci` runs, in this order.
const CI_STEPS: &[Step] = &[
    ("fmt", fmt),
    ("clippy", clippy),
    (TEST_STEP, test),
    ("features", workspace::features),
    ("doc", doc),
    ("api --check", || api::run(true)),
    ("fixtures --check", || fixtures::run(true)),
    ("msrv", workspace::msrv),
    ("no-std", no_std),
    ("programs", || programs::run(false)),
    ("browser --if-found", || browser::run(true)),
    ("python --if-found", || python::run(true)),
    ("assets", assets::run),
    ("width", ports::width),
    ("hostile", || hostile(&[])),
    ("dependencies --check", || dependencies::run(true)),
    ("package --no-verify", || release::package(true)),
    ("deny", release::deny),
];

const TEST_STEP: &str = "test";

/// The packages that read and write one format each.
const CODECS: [&str; 6] = [
    "aero-format",
    "burnpack-format",
    "mag-format",
    "primitiv-format",
    "safetensors-format",
    "ztensor-format",
];

fn main() -> ExitCode {
    if let Some(code) = api::as_rustdoc() {
        return code;
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Outcome {
    let Some((name, flags)) = arguments.split_first() else {
        eprint!("{}", help());
        return Err("no task named".to_owned());
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        eprint!("{}", help());
        return Ok(());
    }
    let task = TASKS
        .iter()
        .find(|task| task.name == name)
        .ok_or_else(|| format!("no task {name:?}; `cargo xtask help` lists them"))?;
    let free = task.flag.is_some_and(|flag| flag.ends_with(".."));
    for flag in flags {
        if !free && task.flag != Some(flag.as_str()) {
            return Err(format!("{name} takes no argument {flag:?}"));
        }
    }
    (task.run)(flags)
}

fn help() -> String {
    let usage = |task: &Task| format!("{} {}", task.name, flag_in_brackets(task));
    let width = TASKS.iter().map(|task| usage(task).len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::from("cargo xtask <task>\n\n");
    for task in TASKS {
        text += &format!("  {:<width$}  {}\n", usage(task), task.help);
    }
    text
}

fn flag_in_brackets(task: &Task) -> String {
    task.flag
        .map_or_else(String::new, |flag| format!("[{flag}]"))
}

fn ci(no_test: bool) -> Outcome {
    let start = Instant::now();
    for (name, step) in CI_STEPS {
        if no_test && *name == TEST_STEP {
            continue;
        }
        eprintln!("==> {name}");
        let step_start = Instant::now();
        step().map_err(|message| format!("ci failed at {name}: {message}"))?;
        eprintln!("    {name}: {:.1} s", step_start.elapsed().as_secs_f64());
    }
    eprintln!("ci passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn fmt() -> Outcome {
    cargo(&["fmt", "--all", "--check"], &[])
}

fn clippy() -> Outcome {
    cargo(
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )
}

fn test() -> Outcome {
    cargo(&["test", "--workspace", "--all-features"], &[])
}

/// A release build wraps where a test build stops: the same bytes must end the same way in both.
///
/// Then files of very many entries, of [`crowds::FEW`] or as many as are named; these alone if any are.
fn hostile(arguments: &[String]) -> Outcome {
    let (only, counts) = match arguments {
        [flag, rest @ ..] if flag == "--make" => return crowds::make(rest),
        [flag, name, rest @ ..] if flag == "--only" => (Some(name.as_str()), rest),
        counts => (None, counts),
    };
    let parse = |text: &String| text.replace('_', "").parse();
    let counts: Result<Vec<usize>, _> = counts.iter().map(parse).collect();
    let mut counts = counts.map_err(|error| format!("hostile takes counts: {error}"))?;
    if arguments.is_empty() {
        hostile_tests()?;
    }
    if counts.is_empty() {
        counts.push(crowds::FEW);
    }
    crowds::run(&counts, only)
}

fn hostile_tests() -> Outcome {
    let mut arguments = vec!["test", "--quiet", "--release", "--all-features"];
    for codec in CODECS {
        arguments.extend(["--package", codec]);
    }
    arguments.extend(["--test", "it", "--", "conformance", "mutation"]);
    cargo(&arguments, &[])
}

/// The program takes memory from the C library by the name that Linux has for it.
fn no_std() -> Outcome {
    if !cfg!(target_os = "linux") {
        eprintln!("no-std: skipped, the program is written for Linux");
        return Ok(());
    }
    let manifest = "xtask/no-std/Cargo.toml";
    let target = "target/no-std";
    cargo(
        &[
            "run",
            "--quiet",
            "--locked",
            "--manifest-path",
            manifest,
            "--target-dir",
            target,
        ],
        &[],
    )
}

/// Runs each package under xtask/`interop/`; each says what it compared, and fails on any difference.
fn interop() -> Outcome {
    let folder = test_data::workspace_root().join("xtask/interop");
    let entries = std::fs::read_dir(&folder)
        .map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut manifests: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path().join("Cargo.toml")))
        .filter(|manifest| manifest.is_file())
        .collect();
    manifests.sort();
    for manifest in manifests {
        let manifest = manifest.to_string_lossy().into_owned();
        eprintln!("==> {manifest}");
        let target = "target/interop";
        cargo(
            &[
                "run",
                "--release",
                "--manifest-path",
                &manifest,
                "--target-dir",
                target,
            ],
            &[],
        )?;
    }
    cargo(&["build", "--release", "-p", "tensorfmt-cli"], &[])?;
    // Casts against NumPy and ml_dtypes, sets against the libraries that write them.
    interop_python(&folder, "numbers", &["numpy", "ml_dtypes"])?;
    let libraries = ["huggingface_hub", "safetensors", "numpy"];
    interop_python(&folder, "shards", &libraries)
}

/// Holds the command line against Python libraries, in an environment of its own.
fn interop_python(folder: &std::path::Path, name: &str, libraries: &[&str]) -> Outcome {
    let script = folder.join(name).join("check.py");
    let home = test_data::workspace_root()
        .join("target/interop")
        .join(name);
    let python = home.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    });
    let run = |command: &mut Command| -> Outcome {
        eprintln!("==> {command:?}");
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{command:?} ended with {status}")),
            Err(error) => Err(format!("cannot run {command:?}: {error}")),
        }
    };
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    }
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet"])
        .args(libraries))?;
    run(Command::new(&python).arg(script))
}

fn doc() -> Outcome {
    cargo(
        &["doc", "--workspace", "--no-deps", "--all-features"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )
}

fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(arguments)
        .current_dir(test_data::workspace_root());
    command
}

/// Runs cargo in the workspace root; its output goes where ours goes.
fn cargo(arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let status = cargo_command(arguments)
        .envs(variables.iter().copied())
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`cargo {}`: {status}", arguments.join(" ")))
    }
}

/// Runs cargo in the workspace root and hands back what it prints.
fn cargo_output(arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = cargo_command(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!(
            "`cargo {}`: {}",
            arguments.join(" "),
            output.status
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        run(&arguments).unwrap_err()
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert_eq!(
            message(&["cy"]),
            "no task \"cy\"; `cargo xtask help` lists them"
        );
        assert_eq!(
            message(&["ci", "--check"]),
            "ci takes no argument \"--check\""
        );
        assert_eq!(message(&["doc", "x"]), "doc takes no argument \"x\"");
    }

    #[test]
    fn help_has_a_line_per_task() {
        let help = help();
        for task in TASKS {
            assert!(help.contains(&format!("\n  {}", task.name)), "{help}");
        }
        let line = help
            .lines()
            .find(|line| line.contains("fixtures [--check]"));
        assert!(line.unwrap().ends_with("fails on any difference"));
    }

    #[test]
    fn leaving_out_the_tests_leaves_out_one_step() {
        let steps = CI_STEPS.iter().filter(|(name, _)| *name == TEST_STEP);
        assert_eq!(steps.count(), 1);
    }
}
