//! Whatever is named as the output of a conversion, no file of its input is harmed.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::{Scratch, case};

/// Every kind of input, with the files that it consists of.
const INPUTS: &[(&str, &[&str])] = &[
    ("m.mag", &["m.mag"]),
    ("m.zt", &["m.zt"]),
    ("m.bpk", &["m.bpk"]),
    ("m.aero", &["m.aero"]),
    ("m.model", &["m.model"]),
    ("m.safetensors", &["m.safetensors"]),
    (
        "m.aeroset.json",
        &[
            "m.aeroset.json",
            "index.aero",
            "part-000.aero",
            "part-001.aero",
        ],
    ),
    // One part of a set beside the others, which is a file of its own.
    ("part-000.aero", &["part-000.aero"]),
    (
        "m.safetensors.index.json",
        &[
            "m.safetensors.index.json",
            "m-00001-of-00002.safetensors",
            "m-00002-of-00002.safetensors",
        ],
    ),
    // A file that has the name of the one shard that a set of `new` would have.
    (
        "new-00001-of-00001.safetensors",
        &["new-00001-of-00001.safetensors"],
    ),
];

const TARGETS: &[&str] = &[
    "mag",
    "ztensor",
    "burnpack",
    "aero",
    "aeroset",
    "primitiv",
    "safetensors",
    "safetensors-set",
];

/// Whether the target is several files.
fn is_set(target: &str) -> bool {
    target.ends_with("set")
}

/// The bytes of every file in a folder, links followed.
fn contents(folder: &Path, names: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let read = |name: &&str| ((*name).to_owned(), fs::read(folder.join(name)).unwrap());
    names.iter().map(read).collect()
}

/// A folder with the input in it, made anew for each case by copying the files.
struct Case {
    scratch: Scratch,
    origin: PathBuf,
}

impl Case {
    fn new() -> Self {
        let scratch = Scratch::new();
        let origin = scratch.path("origin");
        fs::create_dir(&origin).unwrap();
        fs::write(origin.join("demo.mag"), case("mag", "demo")).unwrap();
        for (name, _) in INPUTS {
            let path = format!("origin/{name}");
            if scratch.path(&path).exists() {
                continue;
            }
            let parts = ["--max-shard-bytes", "64", "--max-part-shards", "1"];
            let cast = ["--cast", "f32"];
            let options = match *name {
                "m.aeroset.json" => &parts[..],
                "m.safetensors.index.json" => &["--max-shard-size", "64"],
                "m.model" => &cast,
                _ => &[],
            };
            let convert = ["convert", "origin/demo.mag", &path, "-q", "--force"];
            let run = scratch.run(&[&convert[..], options].concat());
            assert_eq!(run.code, 0, "{name}: {run:?}");
        }
        Self { scratch, origin }
    }

    /// The input alone in a folder of its own, with links to one of its files beside it.
    fn prepare(&self, files: &[&str], file: &str) -> PathBuf {
        let folder = self.scratch.path("case");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        for name in files {
            fs::copy(self.origin.join(name), folder.join(name)).unwrap();
        }
        // An index has a name that says what it is.
        for ending in ["", ".index.json"] {
            fs::hard_link(folder.join(file), folder.join(format!("hard{ending}"))).unwrap();
            symlink(file, folder.join(format!("soft{ending}"))).unwrap();
        }
        fs::create_dir(folder.join("inner")).unwrap();
        symlink("..", folder.join("inner/outer")).unwrap();
        folder
    }
}

#[test]
fn no_output_harms_a_file_of_the_input() {
    let case = Case::new();
    let mut cells = 0;
    for (input, files) in INPUTS {
        // The parts of a set that is not asked about are bystanders, and just as precious.
        let all: &[&str] = match *input {
            "part-000.aero" => INPUTS[6].1,
            _ => files,
        };
        for file in *files {
            let through = format!("inner/outer/{file}");
            for (output, target) in cells_of(file, &through) {
                for options in [
                    &[][..],
                    &["--force"],
                    &["--in-place"],
                    &["--force", "--in-place"],
                ] {
                    let folder = case.prepare(all, file);
                    let before = contents(&folder, all);
                    let mut command = case.scratch.command();
                    let ran =
                        command
                            .current_dir(&folder)
                            .args(["convert", input, output, "--to", target, "-q"])
                            .args(["--skip-unsupported", "--promote-scalars"].iter().filter(
                                |option| {
                                    // An option that the target has no use for is refused, which proves nothing.
                                    **option == "--skip-unsupported" || matches!(target, "mag")
                                },
                            ))
                            .args(options)
                            .output()
                            .unwrap();
                    let code = ran.status.code();
                    let after = contents(&folder, all);
                    let cell = format!(
                        "{input} to {output} as {target} {options:?}: {code:?} {}",
                        String::from_utf8_lossy(&ran.stderr)
                    );
                    cells += 1;
                    let replaced = file == input && (output == *file || output == through);
                    if before == after {
                        let is_other = output.starts_with("new.") && !is_set(target);
                        assert!(
                            code != Some(0) || is_other || replaced || is_set(target),
                            "{cell}"
                        );
                        continue;
                    }
                    // A single file that is named as its own output is replaced whole.
                    assert!(replaced && files.len() == 1 && !is_set(target), "{cell}");
                    assert!(!options.is_empty() && code == Some(0), "{cell}");
                    assert_eq!(before.len(), after.len());
                    for name in all.iter().filter(|name| *name != file) {
                        assert_eq!(before[*name], after[*name], "{cell}");
                    }
                    let mut verify = case.scratch.command();
                    let verified = verify.current_dir(&folder).args(["verify", input]).output();
                    assert!(verified.unwrap().status.success(), "{cell}");
                }
            }
        }
    }
    assert_eq!(cells, (6 + 4 + 1 + 3 + 1) * 5 * 8 * 4);
}

/// The names that an output is given, for each target.
fn cells_of<'a>(file: &'a str, through: &'a str) -> Vec<(&'a str, &'static str)> {
    let mut cells = Vec::new();
    for target in TARGETS {
        let [hard, soft, new] = match *target {
            "safetensors-set" => ["hard.index.json", "soft.index.json", "new.index.json"],
            _ => ["hard", "soft", "new.x"],
        };
        cells.extend([file, hard, soft, through, new].map(|output| (output, *target)));
    }
    cells
}

/// A name that the tool chooses leads nowhere: a link of that name is replaced.
#[test]
fn the_parts_of_a_set_are_not_written_through_links() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("set")).unwrap();
    for options in [&["--force"][..], &["--force", "--in-place"]] {
        for name in ["part-000.aero", "index.aero"] {
            fs::write(scratch.path("precious"), "precious").unwrap();
            let link = scratch.path(&format!("set/{name}"));
            let _ = fs::remove_file(&link);
            symlink("../precious", &link).unwrap();
            let convert = ["convert", "demo.mag", "set/m.aeroset.json"];
            let run = scratch.run(&[&convert[..], options].concat());
            assert_eq!(run.code, 0, "{run:?}");
            assert_eq!(fs::read(scratch.path("precious")).unwrap(), b"precious");
            assert!(!link.is_symlink());
            assert_eq!(scratch.run(&["verify", "set/m.aeroset.json"]).code, 0);
        }
    }
}

/// What other verbs write is no file of the input either.
#[test]
fn pages_and_extracts_are_no_files_of_the_input() {
    let case = Case::new();
    for (input, files) in INPUTS {
        for file in *files {
            for output in [*file, "hard", "soft"] {
                let folder = case.prepare(files, file);
                let before = contents(&folder, files);
                for arguments in [
                    &["inspect", input, "--html", output, "--force"][..],
                    &[
                        "extract",
                        input,
                        "encoder.weight",
                        "-o",
                        output,
                        "--to",
                        "bin",
                        "--force",
                    ],
                ] {
                    let mut command = case.scratch.command();
                    let ran = command
                        .current_dir(&folder)
                        .args(arguments)
                        .output()
                        .unwrap();
                    assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {ran:?}");
                    assert_eq!(contents(&folder, files), before, "{arguments:?}");
                }
            }
        }
    }
}
