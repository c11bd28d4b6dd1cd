//! The Python package: lints, wheels, and tests in an environment of its own.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// Where the package is, from the root of the workspace.
const PACKAGE: &str = "crates/tensorfmt-python";

/// Installs what follows it.
pub(crate) const PIP: [&str; 5] = [
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
];

/// Builds the wheels, installs the one of this Python, and runs all its tests. Where Python or a registry
/// is missing: skipped with a word if it `may_skip`.
pub(crate) fn run(may_skip: bool) -> Outcome {
    let task = Task::new();
    let Some(python) = find() else {
        return missing(may_skip, "no Python 3.11 or later found (PYTHON names one)");
    };
    if let Err(why) = task.environment(&python) {
        return missing(may_skip, &format!("{why}; is a registry within reach?"));
    }
    task.lints()?;
    let wheels = task.wheels()?;
    task.tests(&wheels)?;
    task.fresh(&python, &wheels)?;
    task.free_threaded()
}

/// Holds the package, if its task has installed it, against a server of S3's protocol that has the files of a folder
/// in the bucket `models`.
pub(crate) fn on_s3(endpoint: &str, files: &Path) -> Outcome {
    let task = Task::new();
    let has_package = task.python().args(["-c", "import tensorfmt"]).output();
    if !has_package.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "remote: the Python package is not built (`cargo xtask python`), so it is left out"
        );
        return Ok(());
    }
    let arguments = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/services.py",
    ];
    run_shown(
        task.python()
            .args(arguments)
            .env("TENSORFMT_S3_ENDPOINT", endpoint)
            .env("TENSORFMT_S3_FILES", files),
    )
}

fn missing(may_skip: bool, why: &str) -> Outcome {
    match may_skip {
        true => {
            eprintln!("python: skipped, {why}");
            Ok(())
        }
        false => Err(why.to_owned()),
    }
}

/// The folders of the task.
pub(crate) struct Task {
    package: PathBuf,
    target: PathBuf,
    /// The workspace's own: what the package is built of is mostly built there.
    cargo: PathBuf,
    wheels: PathBuf,
}

impl Task {
    pub(crate) fn new() -> Self {
        let root = test_data::workspace_root();
        Self {
            package: root.join(PACKAGE),
            target: root.join("target/python"),
            cargo: root.join("target"),
            wheels: root.join("target/wheels"),
        }
    }

    /// An environment with all that is needed, in the versions that `requirements.txt` names.
    pub(crate) fn environment(&self, python: &str) -> Outcome {
        let home = self.target.join("venv");
        if !program(&home, "python").exists() {
            quiet(Command::new(python).args(["-m", "venv"]).arg(&home))?;
        }
        let mut install = Command::new(program(&home, "python"));
        quiet(
            install
                .args(PIP)
                .arg("-r")
                .arg(self.package.join("requirements.txt")),
        )
    }

    /// Where the package is.
    pub(crate) fn package(&self) -> &Path {
        &self.package
    }

    fn python(&self) -> Command {
        let mut command = Command::new(program(&self.target.join("venv"), "python"));
        command.current_dir(&self.package);
        command
    }

    /// Formatting, lints and tests of the Rust code. It stands outside of the workspace, whose tasks leave
    /// it out.
    fn lints(&self) -> Outcome {
        let cargo = |arguments: &[&str]| {
            let mut command = crate::cargo_command(arguments);
            // Lints and tests know the interpreter that the wheel is for.
            command
                .current_dir(&self.package)
                .env("CARGO_TARGET_DIR", &self.cargo)
                .env("PYO3_PYTHON", program(&self.target.join("venv"), "python"));
            run_shown(&mut command)
        };
        cargo(&["fmt", "--check"])?;
        cargo(&[
            "clippy",
            "--locked",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])
    }

    /// The wheels, in a folder that has nothing else.
    pub(crate) fn wheels(&self) -> Result<PathBuf, String> {
        if self.wheels.exists() {
            fs::remove_dir_all(&self.wheels)
                .map_err(|error| format!("{}: {error}", self.wheels.display()))?;
        }
        self.build(
            &["--interpreter"],
            &program(&self.target.join("venv"), "python"),
        )?;
        let found = list(&self.wheels)?;
        let wheel = found
            .into_iter()
            .find(|path| path.to_string_lossy().contains("abi3"));
        wheel.ok_or_else(|| "maturin left no wheel for the stable ABI".to_owned())
    }

    fn build(&self, arguments: &[&str], interpreter: &Path) -> Outcome {
        let mut build = Command::new(program(&self.target.join("venv"), "maturin"));
        build
            .args([
                "build",
                "--release",
                "--strip",
                "--locked",
                "--quiet",
                "--out",
            ])
            .arg(&self.wheels)
            .args(arguments)
            .arg(interpreter)
            .current_dir(&self.package)
            .env("CARGO_TARGET_DIR", &self.cargo);
        run_shown(&mut build)
    }

    /// Installs the wheel and holds it against the corpus, other packages, its own documentation and a
    /// checker of types.
    fn tests(&self, wheel: &Path) -> Outcome {
        run_shown(
            self.python()
                .args(PIP)
                .args(["--force-reinstall", "--no-deps"])
                .arg(wheel),
        )?;
        run_shown(
            self.python()
                .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]),
        )?;
        // Checks of the interpreter and of its allocator.
        let checked = ["-X", "dev", "-m", "pytest", "-q", "-p", "no:cacheprovider"];
        run_shown(
            self.python()
                .args(checked)
                .args([
                    "tests/test_read.py",
                    "tests/test_save.py",
                    "tests/test_compat.py",
                ])
                .env("PYTHONMALLOC", "debug"),
        )?;
        let mypy = ["-m", "mypy", "--strict", "--cache-dir"];
        run_shown(
            self.python()
                .args(mypy)
                .arg(self.target.join("mypy"))
                .arg("examples"),
        )
    }

    /// The wheel alone in a new environment, with no compiler in reach.
    fn fresh(&self, python: &str, wheel: &Path) -> Outcome {
        let home = self.target.join("fresh");
        if home.exists() {
            fs::remove_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        }
        quiet(Command::new(python).args(["-m", "venv"]).arg(&home))?;
        let bare = |command: &mut Command| {
            let path = home.join(if cfg!(windows) { "Scripts" } else { "bin" });
            quiet(command.env("PATH", path).env_remove("CARGO"))
        };
        bare(
            Command::new(program(&home, "python"))
                .args(PIP)
                .arg("--no-index")
                .arg(wheel),
        )?;
        let sample = test_data::workspace_root().join("fixtures/mag/valid/base.mag");
        let code = "import sys, tensorfmt; f = tensorfmt.open(sys.argv[1]); \
                    assert memoryview(f['weight']).shape == (2, 3), f";
        bare(
            Command::new(program(&home, "python"))
                .args(["-c", code])
                .arg(&sample),
        )?;
        bare(
            Command::new(program(&home, "tensorfmt"))
                .arg("inspect")
                .arg(&sample),
        )?;
        eprintln!("python: the wheel installs and runs without a compiler in reach");
        Ok(())
    }

    /// A wheel for a free-threaded interpreter, where one is found.
    fn free_threaded(&self) -> Outcome {
        let names = ["python3.15t", "python3.14t", "python3.13t"];
        let named = env::var("PYTHON_FREE_THREADED").ok();
        let mut known = named.iter().map(String::as_str).chain(names);
        let Some(python) = known.find(|name| answers(name)) else {
            eprintln!(
                "python: no free-threaded interpreter found (PYTHON_FREE_THREADED names one)"
            );
            return Ok(());
        };
        self.build(
            &[
                "--no-default-features",
                "--features",
                "remote",
                "--interpreter",
            ],
            Path::new(python),
        )?;
        let home = self.target.join("free-threaded");
        quiet(Command::new(python).args(["-m", "venv"]).arg(&home))?;
        let wheel = list(&self.wheels)?
            .into_iter()
            .find(|path| !path.to_string_lossy().contains("abi3"))
            .ok_or("maturin left no wheel for the free-threaded interpreter")?;
        quiet(
            Command::new(program(&home, "python"))
                .args(PIP)
                .arg("--force-reinstall")
                .arg(wheel),
        )?;
        let code = "import sys, tensorfmt; assert not sys._is_gil_enabled()";
        run_shown(Command::new(program(&home, "python")).args(["-W", "error", "-c", code]))
    }
}

/// A program of an environment.
pub(crate) fn program(home: &Path, name: &str) -> PathBuf {
    match cfg!(windows) {
        true => home.join("Scripts").join(format!("{name}.exe")),
        false => home.join("bin").join(name),
    }
}

/// An interpreter that is new enough and can make environments.
pub(crate) fn find() -> Option<String> {
    let named = env::var("PYTHON").ok();
    let mut known = named
        .iter()
        .map(String::as_str)
        .chain(["python3", "python"]);
    known.find(|name| answers(name)).map(str::to_owned)
}

fn answers(name: &str) -> bool {
    let code = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
    let status = Command::new(name)
        .args(["-c", code])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let fail = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(fail)?;
    entries
        .map(|entry| Ok(entry.map_err(fail)?.path()))
        .collect()
}

/// Runs a program whose output goes where ours goes.
pub(crate) fn run_shown(command: &mut Command) -> Outcome {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!(
            "cannot run {}: {error}",
            shown(command.get_program())
        )),
    }
}

/// Runs a program of which only what goes wrong is shown, in one line.
pub(crate) fn quiet(command: &mut Command) -> Outcome {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", shown(command.get_program())))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let name = shown(command.get_program());
    Err(format!("{name}: {}: {}", output.status, last.unwrap_or("")))
}

fn shown(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}
