//! Parts of one work, done by workers that never talk: sets that are joined, and reports that are added up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tensorfmt::convert::{Model, Options};
use tensorfmt::{DType, Tensor};

use crate::{Run, Scratch, case, write};

const SETS: [&str; 2] = ["model.aeroset.json", "model.safetensors.index.json"];

/// A model of tensors of several sizes, in a format.
fn model(scratch: &Scratch, name: &str, value: f32) {
    let mut model = Model::new();
    for layer in 0..7u64 {
        let rows = 1 + layer * layer * 20;
        let values: Vec<f32> = (0..rows * 8).map(|at| value + at as f32 / 7.0).collect();
        let weight = Tensor::from_slice(&values, &[rows, 8]).unwrap();
        model.tensor(format!("layers.{layer}.weight"), weight);
        let steps = Tensor::from_slice(&[7u8, 8, 9 + layer as u8], &[3]).unwrap();
        model.tensor(format!("layers.{layer}.steps"), steps);
    }
    model.set_metadata("model_name", "tiny");
    let mut options = Options::default();
    options.skip_unsupported = true;
    options.cast = name.ends_with(".model").then_some(DType::F32);
    let set = name.ends_with(".json") || name.ends_with(".aero");
    options.max_shard_bytes = set.then_some(8000);
    options.tensor_hash = name.starts_with("hashed");
    let path = scratch.path(name);
    model.save(path, &options, &Default::default()).unwrap();
}

/// What is in a folder, by the names of files.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn parts_and_a_join_are_what_one_process_writes() {
    let scratch = Scratch::new();
    for source in [
        "s.mag",
        "s.zt",
        "s.bpk",
        "s.aero",
        "s.model",
        "s.safetensors",
        "s.aeroset.json",
    ] {
        model(&scratch, source, 1.0);
        for set in SETS {
            for folder in ["one", "several"] {
                let _ = fs::remove_dir_all(scratch.path(folder));
                fs::create_dir(scratch.path(folder)).unwrap();
            }
            let one = format!("one/{set}");
            let run = scratch.run(&["convert", source, &one, "--parts", "4", "-q"]);
            assert_eq!((run.code, &*run.err), (0, ""), "{source} {set}");
            let several = format!("several/{set}");
            for part in ["3/4", "1/4", "4/4", "2/4", "3/4"] {
                let run = scratch.run(&["convert", source, &several, "--part", part, "-q"]);
                assert_eq!((run.code, &*run.err), (0, ""), "{source} {set}");
                assert!(!scratch.path(&several).exists());
            }
            let run = scratch.run(&["join", &several, "--json"]);
            assert_eq!(run.code, 0, "{run:?}");
            assert_eq!(run.json()["parts"], 4);
            let (one, several) = (files(&scratch.path("one")), files(&scratch.path("several")));
            assert!(
                one == several,
                "{source} {set}: {:?} {:?}",
                one.keys(),
                several.keys()
            );
        }
    }
}

#[test]
fn what_keeps_parts_from_being_joined_is_named() {
    let scratch = Scratch::new();
    model(&scratch, "s.mag", 1.0);
    model(&scratch, "other.mag", 2.0);
    for set in SETS {
        let run = scratch.run(&["join", set]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains("none of its parts"), "{run:?}");
        let convert = |source: &str, part: &str, more: &[&str]| {
            let arguments = ["convert", source, set, "--part", part, "-q"];
            scratch.run(&[&arguments[..], more].concat())
        };
        assert_eq!(convert("s.mag", "1/3", &[]).code, 0);
        let run = scratch.run(&["join", set]);
        assert_eq!(run.code, 1, "{run:?}");
        for part in ["2/3", "3/3"] {
            assert!(
                run.err.contains(&format!("part {part} is missing")),
                "{run:?}"
            );
        }
        assert!(run.err.contains("model-00002-of-00003"), "{run:?}");
        assert_eq!(convert("other.mag", "2/3", &[]).code, 0);
        assert_eq!(convert("s.mag", "3/3", &["--cast", "f16"]).code, 0);
        let run = scratch.run(&["join", set]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(
            run.err
                .contains("part 2/3 is of another plan, of another input"),
            "{run:?}"
        );
        assert!(
            run.err
                .contains("part 3/3 is of another plan, with other options"),
            "{run:?}"
        );

        // What is there is not written over.
        let run = convert("s.mag", "2/3", &[]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains("--force"), "{run:?}");
        for part in ["2/3", "3/3"] {
            assert_eq!(convert("s.mag", part, &["--force"]).code, 0);
        }
        assert_eq!(convert("s.mag", "4/7", &[]).code, 0);
        let run = scratch.run(&["join", set]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains("part 4/7 is of another plan"), "{run:?}");
        let run = scratch.run(&["join", set, "--force"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(
            run.err.contains("deleted") && run.err.contains("-00004-of-00007"),
            "{run:?}"
        );
        assert_eq!(scratch.run(&["verify", set]).code, 0);
        assert_eq!(scratch.run(&["diff", "s.mag", set]).code, 0);
        let run = scratch.run(&["join", set]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains("joined before"), "{run:?}");
        // A worker that comes late.
        let before = files(&scratch.path(""));
        assert_eq!(convert("s.mag", "2/3", &[]).code, 0);
        assert_eq!(convert("other.mag", "2/3", &[]).code, 2);
        assert!(files(&scratch.path("")) == before);
    }
}

#[test]
fn a_dry_run_says_what_would_be_written_and_a_plan_is_known_by_its_fingerprint() {
    let scratch = Scratch::new();
    model(&scratch, "s.safetensors", 1.0);
    model(&scratch, "other.safetensors", 2.0);
    for set in SETS {
        let there = scratch.files();
        let dry = |source: &str, more: &[&str]| {
            let arguments = ["convert", source, set, "--part", "1/3", "--dry-run"];
            scratch.run(&[&arguments[..], more].concat())
        };
        let run = dry("s.safetensors", &["--json"]);
        assert_eq!((run.code, &*run.err), (0, ""), "{run:?}");
        let plan = &run.json()["plan"];
        let print = plan["fingerprint"].as_str().unwrap().to_owned();
        let parts = plan["parts"].as_array().unwrap();
        let tensors: u64 = parts.iter().map(|p| p["tensors"].as_u64().unwrap()).sum();
        let bytes: u64 = parts.iter().map(|p| p["bytes"].as_u64().unwrap()).sum();
        assert_eq!(
            (parts.len(), tensors, plan["bytes"].as_u64()),
            (3, 14, Some(bytes))
        );
        assert!(
            parts[1]["file"]
                .as_str()
                .unwrap()
                .contains("-00002-of-00003")
        );
        let run = dry("s.safetensors", &[]);
        let shown = format!("fingerprint: {print}\nnothing is written: --dry-run\n");
        assert!(run.code == 0 && run.out.ends_with(&shown), "{run:?}");
        assert!(
            run.out.contains("part 2/3: ") && run.out.contains(" tensors, "),
            "{run:?}"
        );
        assert_eq!(scratch.files(), there);

        // A worker knows by it that it is about the same.
        let part = |source: &str, part: &str, print: &str| {
            let arguments = [
                "convert",
                source,
                set,
                "--part",
                part,
                "--fingerprint",
                print,
                "-q",
            ];
            scratch.run(&arguments)
        };
        for (source, print) in [("other.safetensors", &*print), ("s.safetensors", "00")] {
            let run = part(source, "2/3", print);
            assert_eq!(run.code, 1, "{run:?}");
            assert!(run.err.contains("the input has changed since"), "{run:?}");
            assert!(run.err.contains("--fingerprint"), "{run:?}");
        }
        assert_eq!(scratch.files(), there);
        for number in ["2/3", "1/3", "3/3"] {
            assert_eq!(part("s.safetensors", number, &print).code, 0);
        }
        // All parts are there, but of a plan that isn't meant.
        for more in [&[][..], &["--force"]] {
            let run = scratch.run(&[&["join", set, "--fingerprint", "00"], more].concat());
            assert_eq!(run.code, 1, "{run:?}");
            assert!(
                run.err.contains("not of the one that is asked for"),
                "{run:?}"
            );
        }
        assert!(!scratch.path(set).exists());
        assert_eq!(scratch.run(&["join", set, "--fingerprint", &print]).code, 0);
        assert_eq!(scratch.run(&["diff", "s.safetensors", set]).code, 0);
    }
    // What would be refused is refused.
    let convert = |more: &[&str]| {
        scratch.run(
            &[
                &["convert", "s.safetensors", "x.model", "--dry-run"][..],
                more,
            ]
            .concat(),
        )
    };
    let run = convert(&[]);
    assert_eq!(run.code, 4, "{run:?}");
    let run = convert(&["--skip-unsupported", "--json"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!run.json()["losses"].as_array().unwrap().is_empty());
    assert!(run.json()["plan"]["fingerprint"].is_null());
    assert_eq!(convert(&["--skip-unsupported", "--strict"]).code, 4);
    assert!(!scratch.path("x.model").exists());
    write(&scratch.path("x.model"), b"there");
    assert_eq!(convert(&["--skip-unsupported"]).code, 2);
    assert_eq!(convert(&["--skip-unsupported", "--force"]).code, 0);
    assert_eq!(fs::read(scratch.path("x.model")).unwrap(), b"there");
    for usage in [
        &["convert", "s.safetensors", "x.mag", "--fingerprint", "00"][..],
        &["join", "--reports", "x.json", "--fingerprint", "00"],
    ] {
        assert_eq!(scratch.run(usage).code, 2, "{usage:?}");
    }
}

#[test]
fn what_makes_no_sense_about_parts_is_a_usage_error() {
    let scratch = Scratch::new();
    model(&scratch, "s.safetensors", 1.0);
    for (arguments, says) in [
        (
            &["convert", "s.safetensors", "x.zt", "--part", "1/2"][..],
            "in one piece",
        ),
        (
            &["convert", "s.safetensors", "x.zt", "--parts", "2"],
            "in one piece",
        ),
        (
            &["convert", "s.safetensors", SETS[0], "--part", "3/2"],
            "from 1 to 2",
        ),
        (
            &["convert", "s.safetensors", SETS[0], "--part", "0/2"],
            "from 1 to 2",
        ),
        (&["convert", "s.safetensors", SETS[0], "--part", "2"], "2/8"),
        (
            &["convert", "s.safetensors", SETS[0], "--parts", "15"],
            "14 tensors",
        ),
        (
            &["convert", "s.safetensors", SETS[0], "--part", "1/15"],
            "14 tensors",
        ),
        (
            &[
                "convert",
                "s.safetensors",
                SETS[0],
                "--part",
                "1/2",
                "--parts",
                "2",
            ],
            "--part",
        ),
        (
            &[
                "convert",
                "s.safetensors",
                SETS[0],
                "--parts",
                "2",
                "--max-part-shards",
                "2",
            ],
            "parts",
        ),
        (
            &[
                "convert",
                "s.safetensors",
                SETS[1],
                "--parts",
                "2",
                "--max-shard-size",
                "2KiB",
            ],
            "shards",
        ),
        (&["verify", "s.safetensors", "--part", "1/2"], "--json"),
        (
            &[
                "hash",
                "s.safetensors",
                "s.safetensors",
                "--part",
                "1/2",
                "--json",
            ],
            "one file",
        ),
        (&["stats", ".", "--part", "1/2", "--json"], "one file"),
        (
            &[
                "hash",
                "s.safetensors",
                "--part",
                "1/2",
                "--json",
                "--algorithm",
                "autov3",
            ],
            "autov3",
        ),
        (&["join"], "SET"),
        (&["join", SETS[0], "--reports", "x.json"], "--reports"),
    ] {
        let run = scratch.run(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {run:?}");
        assert!(run.err.contains(says), "{arguments:?}: {}", run.err);
    }
    assert_eq!(scratch.files(), ["demo.mag", "s.safetensors"]);
}

/// A worker that is killed midway leaves a temporary file and no part, and its part can be written again.
#[cfg(unix)]
#[test]
fn a_killed_worker_s_part_is_written_again() {
    let scratch = Scratch::new();
    // All holes: long to copy, short to make.
    const LEN: u64 = 96 << 20;
    let tensor = |at: u64| {
        let (from, to) = (at * LEN, (at + 1) * LEN);
        format!(r#""layer.{at}":{{"dtype":"U8","shape":[{LEN}],"data_offsets":[{from},{to}]}}"#)
    };
    let header = format!("{{{}}}", [0, 1, 2, 3].map(tensor).join(","));
    let start = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    write(&scratch.path("s.safetensors"), &start);
    let file = fs::File::options()
        .write(true)
        .open(scratch.path("s.safetensors"))
        .unwrap();
    file.set_len(start.len() as u64 + 4 * LEN).unwrap();
    fs::create_dir(scratch.path("several")).unwrap();
    fs::create_dir(scratch.path("one")).unwrap();
    let set = "several/model.aeroset.json";
    let work = |part: &str| {
        let mut command = scratch.command();
        command.args([
            "convert",
            "s.safetensors",
            set,
            "--part",
            part,
            "--no-verify",
        ]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let folder = scratch.path("several");
    let mut killed = 0;
    for _ in 0..20 {
        let mut child = work("2/2").spawn().unwrap();
        let begun = Instant::now();
        let has_begun =
            || files_of(&folder).any(|(name, len)| name.starts_with(".tensorfmt-") && len > 0);
        while !has_begun() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        if !child.wait().unwrap().success() {
            killed += 1;
            break;
        }
        for (name, _) in files_of(&folder) {
            fs::remove_file(folder.join(name)).unwrap();
        }
    }
    assert_eq!(killed, 1, "no run was slow enough to be killed");
    assert!(files_of(&folder).all(|(name, _)| name.starts_with(".tensorfmt-")));
    assert_eq!(scratch.run(&["join", set]).code, 1);
    for part in ["2/2", "1/2"] {
        assert!(work(part).status().unwrap().success());
    }
    let run = scratch.run(&["join", set, "--remove-leftovers"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.err.contains("left behind by a run that was killed"),
        "{run:?}"
    );
    let convert = [
        "convert",
        "s.safetensors",
        "one/model.aeroset.json",
        "--parts",
        "2",
    ];
    let run = scratch.run(&[&convert[..], &["--no-verify"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    assert!(files(&scratch.path("one")) == files(&folder));
}

fn files_of(folder: &Path) -> impl Iterator<Item = (String, u64)> {
    let entries = fs::read_dir(folder).unwrap().filter_map(Result::ok);
    entries.filter_map(|entry| {
        let len = entry.metadata().ok()?.len();
        Some((entry.file_name().into_string().ok()?, len))
    })
}

/// Damage that the part has which is written, and none that it hasn't, keeps it from being written.
#[test]
fn a_part_s_input_is_checked_and_no_more() {
    let scratch = Scratch::new();
    model(&scratch, "hashed.aero", 1.0);
    let mut bytes = fs::read(scratch.path("hashed.aero")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    write(&scratch.path("hashed.aero"), bytes);
    let convert =
        |part: &str| scratch.run(&["convert", "hashed.aero", SETS[1], "--part", part, "-q"]);
    assert_eq!(convert("1/3").code, 0);
    let run = convert("3/3");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("layers.6.steps"), "{run:?}");
    let run = scratch.run(&["convert", "hashed.aero", SETS[0], "--parts", "3", "-q"]);
    assert_eq!(run.code, 1, "{run:?}");
}

/// Runs a verb on a file as a whole, and by so many parts whose reports are added up in any order.
fn both(scratch: &Scratch, arguments: &[&str], parts: u32) -> (Run, Run) {
    let whole = scratch.run(&[arguments, &["--json"]].concat());
    let mut reports = Vec::new();
    let mut worst = 0;
    for number in (1..=parts).rev() {
        let part = format!("{number}/{parts}");
        let run = scratch.run(&[arguments, &["--json", "--part", &part]].concat());
        let name = format!("report-{number}.json");
        write(&scratch.path(&name), &run.out);
        reports.push(name);
        worst = worst.max(run.code);
    }
    let mut join = vec!["join", "--reports"];
    join.extend(reports.iter().map(String::as_str));
    let joined = scratch.run(&join);
    for report in &reports {
        fs::remove_file(scratch.path(report)).unwrap();
    }
    assert!(worst <= 4, "{arguments:?}");
    (whole, joined)
}

fn same(scratch: &Scratch, arguments: &[&str]) {
    for parts in [1, 2, 3, 5, 20] {
        let (whole, joined) = both(scratch, arguments, parts);
        assert_eq!(
            joined.code, whole.code,
            "{arguments:?} in {parts}: {joined:?}"
        );
        assert_eq!(joined.out, whole.out, "{arguments:?} in {parts}");
    }
}

#[test]
fn reports_about_parts_add_up_to_what_one_machine_says() {
    let scratch = Scratch::new();
    let sources = [
        "s.mag",
        "s.zt",
        "s.bpk",
        "s.aero",
        "hashed.aero",
        "s.model",
        "s.safetensors",
        "set.aeroset.json",
        "s.safetensors.index.json",
    ];
    for source in sources {
        model(&scratch, source, 0.1);
        same(&scratch, &["verify", source]);
        same(&scratch, &["verify", "--strict", source]);
        same(&scratch, &["hash", source]);
        same(
            &scratch,
            &["hash", "--algorithm", "sha256", "--tied", source],
        );
        same(&scratch, &["hash", "--filter", "*weight", source]);
        same(&scratch, &["stats", source]);
        same(
            &scratch,
            &[
                "stats",
                "--fail-on",
                "nan,equal",
                "--exclude",
                "*.0.*",
                source,
            ],
        );
    }
}

#[test]
fn reports_about_hand_made_files_add_up_too() {
    let scratch = Scratch::new();
    for format in [
        "mag",
        "ztensor",
        "burnpack",
        "aero",
        "primitiv",
        "safetensors",
    ] {
        for case in test_data::cases(format).unwrap() {
            write(&scratch.path("x"), &case.bytes);
            for verb in ["verify", "hash", "stats"] {
                let whole = scratch.run(&[verb, "x", "--json"]);
                // What can't be opened has nothing to be shared out, and hash and stats print nothing of it.
                if whole.out.is_empty() {
                    continue;
                }
                let (whole, joined) = both(&scratch, &[verb, "x"], 2);
                assert_eq!(
                    joined.code, whole.code,
                    "{verb} {format} {}: {joined:?}",
                    case.name
                );
                assert_eq!(joined.out, whole.out, "{verb} {format} {}", case.name);
            }
        }
    }
}

#[test]
fn damage_is_in_the_sum_of_reports_where_it_was_found() {
    let scratch = Scratch::new();
    for source in ["s.aero", "hashed.aero", "s.zt", "set.aeroset.json"] {
        model(&scratch, source, 0.1);
        let damaged = match source {
            "set.aeroset.json" => "part-000.aero",
            source => source,
        };
        let whole = fs::read(scratch.path(damaged)).unwrap();
        for place in [whole.len() / 2, whole.len() * 3 / 4] {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            write(&scratch.path(damaged), bytes);
            let (one, _) = both(&scratch, &["verify", source], 1);
            assert_eq!(one.code, 1, "{source}");
            same(&scratch, &["verify", source]);
            same(&scratch, &["stats", source]);
        }
        write(&scratch.path(damaged), &whole);
        if damaged != source {
            fs::remove_file(scratch.path(damaged)).unwrap();
            same(&scratch, &["verify", source]);
        }
    }
}

#[test]
fn reports_that_don_t_add_up_are_named() {
    let scratch = Scratch::new();
    model(&scratch, "s.mag", 1.0);
    model(&scratch, "t.mag", 2.0);
    let report = |name: &str, arguments: &[&str]| {
        let run = scratch.run(&[arguments, &["--json"]].concat());
        assert_eq!(run.code, 0, "{run:?}");
        write(&scratch.path(name), run.out);
    };
    report("1.json", &["hash", "s.mag", "--part", "1/3"]);
    report("2.json", &["hash", "s.mag", "--part", "2/3"]);
    report("3.json", &["hash", "s.mag", "--part", "3/3"]);
    report("again.json", &["hash", "s.mag", "--part", "2/3"]);
    report("other.json", &["hash", "t.mag", "--part", "2/3"]);
    report(
        "sha.json",
        &["hash", "s.mag", "--part", "2/3", "--algorithm", "sha256"],
    );
    report("of4.json", &["hash", "s.mag", "--part", "2/4"]);
    report("stats.json", &["stats", "s.mag", "--part", "2/3"]);
    report("whole.json", &["hash", "s.mag"]);
    for (reports, says) in [
        (&["1.json", "3.json"][..], "no report of part 2/3"),
        (
            &["1.json", "3.json", "2.json", "again.json"],
            "again.json: part 2/3 is in 2.json",
        ),
        (
            &["1.json", "3.json", "other.json"],
            "other.json: a report of another file than 1.json",
        ),
        (
            &["1.json", "3.json", "sha.json"],
            "sha.json: a report with other options",
        ),
        (
            &["1.json", "3.json", "of4.json"],
            "of4.json: a report of another number of parts",
        ),
        (
            &["1.json", "3.json", "stats.json"],
            "stats.json: a report of another verb",
        ),
        (
            &["1.json", "3.json", "whole.json"],
            "whole.json: no report of a part",
        ),
        (&["1.json", "3.json", "s.mag"], "s.mag: no report of a part"),
    ] {
        let run = scratch.run(&[&["join", "--reports"], reports].concat());
        assert_eq!(run.code, 1, "{reports:?}: {run:?}");
        assert!(run.err.contains(says), "{reports:?}: {}", run.err);
        assert_eq!(run.out, "");
    }
    let run = scratch.run(&["join", "--reports", "1.json", "gone.json"]);
    assert_eq!(run.code, 3, "{run:?}");
    let whole = fs::read_to_string(scratch.path("whole.json")).unwrap();
    let run = scratch.run(&["join", "--reports", "3.json", "1.json", "2.json"]);
    assert_eq!((run.code, run.out), (0, whole));
}

/// The job of an array in the documentation, run as a scheduler would, in an order of its own.
#[cfg(unix)]
#[test]
fn the_job_in_the_documentation_runs() {
    let scratch = Scratch::new();
    model(&scratch, "in.safetensors", 1.0);
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md");
    let document = fs::read_to_string(document).unwrap();
    let scripts: Vec<&str> = document
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert_eq!(scripts.len(), 2, "a task, and what comes after all tasks");
    let run = |script: &str, task: &str| {
        let mut shell = std::process::Command::new("sh");
        let prelude = format!("tensorfmt() {{ '{}' \"$@\"; }}\n", crate::program());
        let run = shell
            .args(["-ec", &format!("{prelude}{script}")])
            .current_dir(scratch.path(""))
            .env("SLURM_ARRAY_TASK_ID", task)
            .env("SLURM_ARRAY_TASK_COUNT", "4")
            .env("IN", "in.safetensors")
            .env("OUT", "out.aeroset.json")
            .output()
            .unwrap();
        let run = Run::of(run);
        assert_eq!(run.code, 0, "{script}: {run:?}");
        run
    };
    for task in ["3", "1", "4", "2", "3"] {
        run(scripts[0], task);
    }
    run(scripts[1], "");
    assert_eq!(
        scratch
            .run(&["diff", "in.safetensors", "out.aeroset.json"])
            .code,
        0
    );
    let hash = scratch.run(&["hash", "out.aeroset.json", "--json"]);
    assert_eq!(
        fs::read_to_string(scratch.path("digests.json")).unwrap(),
        hash.out
    );
}

#[test]
fn the_demo_goes_by_parts_as_well() {
    let scratch = Scratch::new();
    write(&scratch.path("again.mag"), case("mag", "demo"));
    same(&scratch, &["verify", "again.mag"]);
    same(&scratch, &["hash", "again.mag"]);
    same(&scratch, &["stats", "again.mag"]);
}
