//! Very many entries that share what the file says once, or are next to nothing: no verb takes many times the
//! memory, the time or the paper that such a file is worth. `cargo xtask hostile` has them all, and larger.

use std::io::Read;
use std::process::{Child, Stdio};

use test_data::crowds::CROWDS;

use super::{Run, Scratch, write};

const MIB: u64 = 1 << 20;

/// Puts the files of a crowd into a folder, and tells which to open, and how many bytes it may be held
/// against.
fn make(scratch: &Scratch, name: &str, entries: usize) -> (String, u64) {
    let crowd = CROWDS.iter().find(|crowd| crowd.name == name).expect(name);
    let made = crowd.make(entries);
    let len: usize = made.files.iter().map(|(_, bytes)| bytes.len()).sum();
    for (name, bytes) in &made.files {
        write(&scratch.path(name), bytes);
    }
    (made.files[0].0.clone(), made.index_len.max(len as u64))
}

/// Runs the command to its end, and tells the most memory that it was seen to take; 0 where that can't be seen.
fn watch(scratch: &Scratch, arguments: &[&str]) -> (Run, u64) {
    let mut command = scratch.command();
    command.args(arguments).stdin(Stdio::null());
    let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    let drain = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            pipe.unwrap().read_to_string(&mut text).unwrap();
            text
        })
    };
    let out = drain(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let err = drain(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let mut peak = 0;
    let status = loop {
        peak = high_water(&child).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    let run = Run {
        code: status.code().expect("ended by a signal"),
        out: out.join().unwrap(),
        err: err.join().unwrap(),
    };
    (run, peak)
}

/// The most memory that a process has had so far, as Linux tells it.
fn high_water(child: &Child) -> Option<u64> {
    // Until it has become another program, it has the memory of the tests.
    let program = std::fs::read_link(format!("/proc/{}/exe", child.id())).ok()?;
    if program == std::fs::read_link("/proc/self/exe").ok()? {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// Runs the command, and holds it to 64 MiB above its files.
fn bounded(scratch: &Scratch, allowed: u64, arguments: &[&str]) -> Run {
    let (run, peak) = watch(scratch, arguments);
    let above = peak.saturating_sub(allowed) / MIB;
    assert!(above <= 64, "{above} MiB above the input: {arguments:?}");
    run
}

/// The limit that a run names as the one to raise, with the value that is enough.
fn limit_of(run: &Run) -> String {
    assert_eq!(run.code, 1, "{}", run.err);
    let (_, named) = run.err.split_once("--limit ").expect(&run.err);
    let end = named.find([' ', ')']).unwrap();
    named[..end].to_owned()
}

#[test]
fn a_million_dims_of_very_many_components_are_said_once() {
    let scratch = Scratch::new();
    let (file, allowed) = make(&scratch, "ztensor-1.1-dims", 4000);
    let file = file.as_str();
    let listed = bounded(&scratch, allowed, &["inspect", file]);
    assert_eq!(listed.code, 0);
    assert_eq!(
        listed.out.matches("object_shape=1000000 dims").count(),
        4000
    );
    assert!(listed.out.len() < 1 << 20, "{}", listed.out.len());
    // Each would say all of them, which makes 48 GB.
    let json = bounded(&scratch, allowed, &["inspect", "--json", file]);
    assert!(
        limit_of(&json).starts_with("max_work_overhead_bytes=4800"),
        "{}",
        json.err
    );
    assert_eq!(json.out, "");
    let diff = bounded(&scratch, allowed, &["diff", file, file]);
    assert_eq!((diff.code, diff.out.as_str()), (0, "same\n"));
    for verb in ["stats", "hash", "verify"] {
        assert_eq!(bounded(&scratch, allowed, &[verb, file]).code, 0, "{verb}");
    }
    let page = ["inspect", "--html", "p.html", file];
    assert_eq!(bounded(&scratch, allowed, &page).code, 0);
    let converted = bounded(&scratch, allowed, &["convert", file, "o.safetensors"]);
    assert!(limit_of(&converted).starts_with("max_work_overhead_bytes="));
    assert!(!scratch.path("o.safetensors").exists());
}

#[test]
fn a_megabyte_beside_very_many_components_is_said_once() {
    for crowd in [
        "ztensor-1.1-attributes",
        "ztensor-1.2-attributes",
        "ztensor-2-attributes",
    ] {
        let scratch = Scratch::new();
        let (file, allowed) = make(&scratch, crowd, 3000);
        let file = file.as_str();
        let listed = bounded(&scratch, allowed, &["inspect", file]);
        assert_eq!(
            listed.out.matches("custom=1000011 bytes").count(),
            3000,
            "{crowd}"
        );
        let diff = bounded(&scratch, allowed, &["diff", file, file]);
        assert_eq!((diff.code, diff.out.as_str()), (0, "same\n"));
        assert_eq!(bounded(&scratch, allowed, &["stats", file]).code, 0);
        let converted = bounded(&scratch, allowed, &["convert", file, "o.safetensors"]);
        assert!(limit_of(&converted).starts_with("max_work_overhead_bytes="));
    }
}

#[test]
fn two_objects_that_differ_at_length_are_said_to_differ() {
    let scratch = Scratch::new();
    let (file, allowed) = make(&scratch, "ztensor-1.2-attributes", 50);
    let bytes = std::fs::read(scratch.path(&file)).unwrap();
    let at = bytes
        .windows(4)
        .rposition(|window| window == b"xxxx")
        .unwrap();
    let mut other = bytes;
    other[at] = b'y';
    write(&scratch.path("other.zt"), other);
    let diff = bounded(&scratch, 2 * allowed, &["diff", &file, "other.zt"]);
    assert_eq!(diff.code, 1);
    assert_eq!(
        diff.out
            .lines()
            .filter(|line| line.contains("custom 1000011 bytes"))
            .count(),
        50
    );
    assert!(
        diff.out.ends_with("differ: 50 tensors\n") || diff.out.contains("50"),
        "{}",
        diff.out
    );
}

#[test]
fn many_tensors_of_a_small_index_take_what_they_are_worth() {
    for (crowd, entries) in [
        ("aero-zstd", 60_000),
        ("aero-empty", 60_000),
        ("aeroset-empty", 20_000),
    ] {
        let scratch = Scratch::new();
        let (file, allowed) = make(&scratch, crowd, entries);
        let file = file.as_str();
        for arguments in [
            &["inspect", file][..],
            &["inspect", "--html", "p.html", file],
            &["hash", file],
            &["stats", file],
            &["verify", file],
        ] {
            assert_eq!(
                bounded(&scratch, allowed, arguments).code,
                0,
                "{arguments:?}"
            );
        }
        let diff = bounded(&scratch, 2 * allowed, &["diff", file, file]);
        assert_eq!(diff.out, "same\n");
        bounded(&scratch, allowed, &["convert", file, "o.safetensors"]);
    }
}

#[test]
fn the_limit_that_is_named_is_enough() {
    for crowd in ["ztensor-1.1-empty", "ztensor-2-empty"] {
        let scratch = Scratch::new();
        let (file, allowed) = make(&scratch, crowd, 40_000);
        let file = file.as_str();
        let refused = bounded(&scratch, allowed, &["convert", file, "o.safetensors"]);
        let limit = limit_of(&refused);
        let args = ["convert", "--limit", &limit, file, "o.safetensors"];
        let converted = scratch.run(&args);
        assert_eq!(converted.code, 0, "{}", converted.err);
        let listed = scratch.run(&["inspect", "o.safetensors"]);
        assert!(listed.out.ends_with("40000 tensors, 0 values, 0 B\n"));
        // And no more than was said.
        let (_, peak) = watch(&scratch, &[&args[..], &["--force"]].concat());
        let asked: u64 = limit.split_once('=').unwrap().1.parse().unwrap();
        assert!(peak <= allowed + asked + 16 * MIB, "{peak} {asked}");
    }
}

#[test]
fn metadata_of_nothing_but_small_values_takes_what_it_is_worth() {
    for (crowd, entries) in [
        ("mag-snapshot-0.3-list", 200_000),
        ("safetensors-keys", 60_000),
    ] {
        let scratch = Scratch::new();
        let (file, allowed) = make(&scratch, crowd, entries);
        let file = file.as_str();
        let listed = bounded(&scratch, allowed, &["inspect", file]);
        assert_eq!(listed.code, 0);
        for arguments in [
            &["inspect", "--json", file][..],
            &["inspect", "--html", "p.html", file],
            &["convert", "--allow-empty", file, "o.bpk"],
            &["convert", "--allow-empty", file, "o.aero"],
        ] {
            let run = bounded(&scratch, allowed, arguments);
            assert!(
                run.code == 0 || !limit_of(&run).is_empty(),
                "{arguments:?} {run:?}"
            );
        }
        bounded(&scratch, 2 * allowed, &["diff", file, file]);
    }
}

#[test]
fn a_blob_that_all_share_is_decoded_once() {
    // Sixteen GiB, were each decoded.
    for crowd in ["ztensor-0.1-blob", "ztensor-1.2-blob", "ztensor-2-seekable"] {
        let scratch = Scratch::new();
        let (file, allowed) = make(&scratch, crowd, 16_000);
        let stats = bounded(&scratch, allowed, &["stats", &file]);
        assert_eq!(stats.code, 0);
        assert_eq!(stats.out.matches("min 1  max 1").count(), 16_000, "{crowd}");
    }
}

/// A listing as JSON is written tensor by tensor, and two files that are open at once share what is allowed.
#[test]
fn a_million_statistics_are_listed_and_compared_within_the_bound() {
    let scratch = Scratch::new();
    let (file, allowed) = make(&scratch, "primitiv-stats", 1_000_000);
    let file = file.as_str();
    let listed = bounded(&scratch, allowed, &["inspect", "--json", file]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    assert_eq!(listed.out.matches("\"name\"").count(), 1_000_001);
    let diff = bounded(&scratch, allowed * 2, &["diff", file, file]);
    assert!(limit_of(&diff).starts_with("max_"));
    let raised = ["--limit", "max_index_overhead_bytes=1000000000"];
    let arguments = ["diff", file, file, raised[0], raised[1]];
    assert!(limit_of(&scratch.run(&arguments)).starts_with("max_work_overhead_bytes="));
    let work = "max_work_overhead_bytes=1000000000";
    let both = ["diff", file, file, "--limit", work];
    let both = scratch.run(&both);
    assert_eq!(
        (both.code, both.out.as_str()),
        (0, "same\n"),
        "{}",
        both.err
    );
}

/// A damaged file has as many items that failed as tensors; they are said, not held.
#[test]
fn very_many_failed_tensors_are_said_within_the_bound() {
    const COUNT: usize = 400_000;
    let scratch = Scratch::new();
    let mut builder = tensorfmt::ztensor::Builder::new();
    for at in 0..COUNT {
        let tensor = tensorfmt::Tensor::from_slice(&[at as u32], &[1]).unwrap();
        builder.tensor(format!("{at:06}"), tensor).unwrap();
    }
    let mut file = builder.to_vec().unwrap();
    for at in 0..COUNT {
        file[64 + 64 * at] ^= 1;
    }
    write(&scratch.path("m.zt"), &file);
    // Bytes of the file are no allowance here: its tensors are far apart.
    let index = file.len() as u64 - 64 * COUNT as u64;
    let run = bounded(&scratch, index, &["verify", "m.zt"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.out.matches(": FAILED").count(), COUNT);
}

/// Warnings and failures are said as they are found: a million of them are never in memory at once.
#[test]
fn a_million_warnings_and_failures_are_said_within_the_bound() {
    const COUNT: usize = 1_000_000;
    let strict = ["verify", "--strict"];
    let json = ["verify", "--strict", "--json"];
    for (crowd, runs) in [
        (
            "ztensor-0.1-bare",
            &[
                (&strict[..], 1, "warning: tensor "),
                (&json, 1, "has no layout"),
            ][..],
        ),
        ("primitiv-ones", &[(&["verify"], 0, "warning: ")]),
        ("ztensor-0.1-damaged", &[(&["verify"], 1, ": FAILED")]),
        ("aero-damaged", &[(&["verify"], 1, ": FAILED")]),
        ("aeroset-damaged", &[(&["verify"], 1, ": FAILED")]),
        ("aeroset-other", &[(&["verify"], 1, ": FAILED")]),
    ] {
        let scratch = Scratch::new();
        let (file, allowed) = make(&scratch, crowd, COUNT);
        for (arguments, code, said) in runs {
            let run = bounded(
                &scratch,
                allowed,
                &[arguments, &[file.as_str()][..]].concat(),
            );
            assert_eq!(run.code, *code, "{crowd} {}", run.err);
            let lines = run.out.lines().filter(|line| line.contains(said)).count();
            assert!((COUNT..=COUNT + 9).contains(&lines), "{crowd} {lines}");
        }
    }
}

/// What a plan takes is known beforehand; the check of the input adds nothing to it, however much fails.
#[test]
fn the_check_before_a_conversion_holds_no_failures() {
    const COUNT: usize = 400_000;
    for crowd in ["ztensor-0.1-damaged", "aero-damaged", "aeroset-damaged"] {
        let scratch = Scratch::new();
        let (file, _) = make(&scratch, crowd, COUNT);
        let convert = [
            "convert",
            &file,
            "o.safetensors",
            "--limit",
            "max_work_overhead_bytes=2GiB",
        ];
        let (run, peak) = watch(&scratch, &convert);
        assert_eq!(run.code, 1, "{crowd} {}", run.err);
        assert!(run.err.matches(": FAILED").count() >= COUNT, "{crowd}");
        assert!(!scratch.path("o.safetensors").exists());
        let (run, free) = watch(&scratch, &[&convert[..], &["--no-verify"]].concat());
        assert_eq!(run.code, 0, "{crowd} {}", run.err);
        assert!(
            peak <= free + 8 * MIB,
            "{crowd} {} {}",
            peak / MIB,
            free / MIB
        );
    }
}

/// A set that lacks all of its tensors, or whose shards say other things, is said to in few words.
#[test]
fn what_is_wrong_with_a_whole_set_takes_no_more_memory_than_its_files() {
    const COUNT: usize = 1_000_000;
    let scratch = Scratch::new();
    let (file, allowed) = make(&scratch, "safetensors-set-missing", COUNT);
    for verb in ["verify", "inspect"] {
        let run = bounded(&scratch, allowed, &[verb, &file]);
        assert_eq!(run.code, 1, "{}", run.err);
        assert!(run.err.contains("\"00000\""), "{}", run.err);
    }
    let scratch = Scratch::new();
    let (file, allowed) = make(&scratch, "safetensors-set-keys", COUNT / 10);
    let run = bounded(&scratch, allowed, &["verify", &file]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.out.contains("99997 more keys of metadata"),
        "{}",
        run.out
    );
}

/// A conversion holds no decoded frame of a tensor that it is done with, nor the same table of frames twice.
#[test]
fn data_that_all_share_is_converted_in_windows() {
    for crowd in ["ztensor-0.1-blob", "ztensor-1.2-blob", "ztensor-2-seekable"] {
        let scratch = Scratch::new();
        let (file, allowed) = make(&scratch, crowd, 150);
        let run = bounded(&scratch, allowed, &["convert", &file, "o.safetensors"]);
        assert_eq!(run.code, 0, "{crowd} {}", run.err);
        let converted = std::fs::metadata(scratch.path("o.safetensors")).unwrap();
        assert!(converted.len() > 150 * MIB, "{crowd}");
    }
}
