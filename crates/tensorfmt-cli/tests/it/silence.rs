//! Nothing is done or left undone without a word.

use std::fs;
use std::process::Stdio;

use crate::{Run, Scratch, case, write};

/// A safetensors file of these f32 tensors, two values each.
fn floats(names: &[&str]) -> Vec<u8> {
    let mut builder = tensorfmt::safetensors::Builder::new();
    for name in names {
        let tensor = tensorfmt::Tensor::from_slice(&[1.5f32, -2.0], &[2]).unwrap();
        builder.tensor(*name, tensor).unwrap();
    }
    builder.metadata("format", "pt").unwrap();
    builder.to_vec().unwrap()
}

#[test]
fn what_selects_nothing_ends_before_anything_is_written() {
    let scratch = Scratch::new();
    for options in [
        &["--filter", "typo*"][..],
        &["--filter", "encoder.*", "--filter", "typo*"],
        &["--exclude", "typo*"],
        &["--exclude", "*"],
        &["--rename", "s/^typo/x/"],
        &["--drop-metadata", "typo"],
    ] {
        for quieter in [&[][..], &["--strict", "-q"], &["--json"]] {
            for target in [
                "demo.mag",
                "new.zt",
                "new.aero",
                "new.aeroset.json",
                "new.model",
            ] {
                let convert = ["convert", "demo.mag", target, "--force"];
                let run = scratch.run(&[&convert[..], options, quieter].concat());
                assert_eq!(run.code, 2, "{options:?} {quieter:?} {target}: {run:?}");
                assert!(run.err.contains("--allow-empty"), "{}", run.err);
                assert_eq!(scratch.files(), ["demo.mag"]);
                assert_eq!(
                    fs::read(scratch.path("demo.mag")).unwrap(),
                    case("mag", "demo")
                );
            }
        }
        let convert = ["convert", "demo.mag", "new.zt", "--force", "--allow-empty"];
        let run = scratch.run(&[&convert[..], options].concat());
        assert_eq!(run.code, 0, "{options:?}: {run:?}");
        fs::remove_file(scratch.path("new.zt")).unwrap();
    }
    for verb in ["inspect", "stats"] {
        let run = scratch.run(&[
            verb, "demo.mag", "-q", "--filter", "typo", "--filter", "t?po",
        ]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
        // All of them at once.
        assert_eq!(run.err.matches("matches nothing").count(), 2, "{}", run.err);
        let run = scratch.run(&[verb, "demo.mag", "--filter", "typo", "--allow-empty"]);
        assert_eq!(run.code, 0, "{run:?}");
    }
}

#[test]
fn an_option_that_changed_nothing_is_said_and_refused_when_strict() {
    let scratch = Scratch::new();
    write(&scratch.path("a.safetensors"), floats(&["a", "b"]));
    assert_eq!(scratch.run(&["convert", "a.safetensors", "a.zt"]).code, 0);
    for (input, target, options) in [
        ("a.safetensors", "o.safetensors", &["--cast", "f32"][..]),
        ("a.safetensors", "o.zt", &["--cast", "i32"]),
        (
            "a.safetensors",
            "o.safetensors",
            &["--layout", "keep-bytes"],
        ),
        ("a.safetensors", "o.mag", &["--promote-scalars"]),
        ("a.safetensors", "o.model", &["--whole-names"]),
        ("a.zt", "o.zt", &["--checksum", "crc32c"]),
        ("a.safetensors", "o.safetensors", &["--sort"]),
        (
            "a.safetensors",
            "o.safetensors",
            &["--set-metadata", "format=pt"],
        ),
        ("a.safetensors", "o.safetensors", &["--rename", "s/a/a/"]),
    ] {
        let convert = [&["convert", input, target, "--force"][..], options].concat();
        let run = scratch.run(&convert);
        let said = format!("{} changed nothing", options[0]);
        assert_eq!(run.code, 0, "{options:?}: {run:?}");
        assert!(run.err.contains(&said), "{options:?}: {}", run.err);
        fs::remove_file(scratch.path(target)).unwrap();
        let run = scratch.run(&[&convert[..], &["--strict", "--json"]].concat());
        assert_eq!(run.code, 4, "{options:?}: {run:?}");
        let notes = run.json()["notes"].as_array().unwrap().clone();
        assert!(
            notes
                .iter()
                .any(|note| { note["option"] == options[0] && note["changed"] == 0 }),
            "{notes:?}"
        );
        assert!(!scratch.path(target).exists());
    }
    // A part: said, and no reason to refuse.
    let convert = [
        "convert",
        "demo.mag",
        "o.safetensors",
        "--cast",
        "f32",
        "--json",
        "--strict",
    ];
    let run = scratch.run(&convert);
    let json = run.json();
    assert_eq!(json["notes"][0]["option"], "--cast", "{json}");
    assert!(json["notes"][0]["changed"].as_u64() < json["notes"][0]["of"].as_u64());
}

#[test]
fn text_stays_text_and_can_be_forced_or_read_from_a_file() {
    let scratch = Scratch::new();
    write(&scratch.path("tpl.txt"), "{{ messages }}\n007\n");
    let texts = [
        "commit=12345e7",
        "e=83e2010",
        "ver=007",
        "n=nan",
        "big=12345678901234567890123",
    ];
    let mut convert = vec!["convert", "demo.mag", "o.bpk"];
    for text in texts {
        convert.extend(["--set-metadata", text]);
    }
    convert.extend([
        "--set-metadata",
        "tpl=@tpl.txt",
        "--set-metadata",
        "steps=12",
    ]);
    convert.extend(["--set-text", "twelve=12", "--set-text", "at=@tpl.txt"]);
    let run = scratch.run(&convert);
    assert_eq!(run.code, 0, "{run:?}");
    let metadata = scratch.run(&["inspect", "o.bpk", "--json"]).json()["metadata"].clone();
    for text in texts {
        let (key, value) = text.split_once('=').unwrap();
        assert_eq!(metadata[key], value, "{metadata}");
    }
    assert_eq!(metadata["tpl"], "{{ messages }}\n007\n");
    assert_eq!(
        (&metadata["twelve"], &metadata["at"]),
        (&"12".into(), &"@tpl.txt".into())
    );
    assert_eq!(metadata["steps"], 12);
    let run = scratch.run(&[
        "convert",
        "demo.mag",
        "p.bpk",
        "--set-metadata",
        "a=@absent",
    ]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(
        run.err.contains("absent") && run.err.contains("--set-text"),
        "{}",
        run.err
    );
    assert!(!scratch.path("p.bpk").exists());
}

#[test]
fn a_replacement_that_means_something_else_is_an_error_at_once() {
    let scratch = Scratch::new();
    for (rename, right) in [
        (r"s/(\w+)\.weight/h_$1_w/", "${1}_w"),
        (r"s/(\w+)\.weight/\1.w/", "${1}"),
        (r"s/weight/&s/", "${0}"),
        (r"s/weight/$w/", "$$w"),
    ] {
        let run = scratch.run(&["convert", "demo.mag", "o.mag", "--rename", rename]);
        assert_eq!(run.code, 2, "{rename}: {run:?}");
        assert!(run.err.contains(right), "{rename}: {}", run.err);
        assert_eq!(scratch.files(), ["demo.mag"]);
    }
}

#[test]
fn losses_are_one_line_each_kind_and_one_entry_each_thing_in_json() {
    let scratch = Scratch::new();
    write(
        &scratch.path("a.safetensors"),
        floats(&["a", "b", "c", "d", "e"]),
    );
    assert_eq!(scratch.run(&["convert", "a.safetensors", "a.zt"]).code, 0);
    let run = scratch.run(&["convert", "a.zt", "b.safetensors"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(
        run.err
            .contains("lost: checksum of 5: \"a\", \"b\", \"c\", ..."),
        "{}",
        run.err
    );
    let run = scratch.run(&["convert", "a.zt", "c.safetensors", "--json", "--strict"]);
    // Nothing of the model is lost with a checksum.
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.json()["losses"].as_array().unwrap().len(), 5);
}

#[test]
fn every_reason_of_a_refusal_comes_at_once_with_what_helps() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::safetensors::Builder::new();
    let longs = tensorfmt::Tensor::from_slice(&[1i64, 2], &[2]).unwrap();
    builder.tensor("ids", longs).unwrap();
    let scalar = tensorfmt::Tensor::from_slice(&[1.0f64], &[]).unwrap();
    builder.tensor("scale", scalar).unwrap();
    write(&scratch.path("x.safetensors"), builder.to_vec().unwrap());
    let run = scratch.run(&["convert", "x.safetensors", "x.mag"]);
    assert_eq!(run.code, 4, "{run:?}");
    for help in [
        "\"ids\" (i64)",
        "--cast i32",
        "\"scale\" (f64)",
        "--cast f32",
        "--promote-scalars",
    ] {
        assert!(run.err.contains(help), "{help}: {}", run.err);
    }
    let all = [
        "convert",
        "x.safetensors",
        "x.mag",
        "--cast",
        "f32",
        "--promote-scalars",
    ];
    assert_eq!(scratch.run(&all).code, 0);
}

#[test]
fn a_dash_is_standard_output() {
    let scratch = Scratch::new();
    assert_eq!(
        scratch
            .run(&["convert", "demo.mag", "whole.safetensors"])
            .code,
        0
    );
    let piped = |arguments: &[&str]| {
        let output = scratch
            .command()
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (
            output.status.code(),
            output.stdout,
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    for dash in ["-", "/dev/stdout"] {
        if cfg!(not(unix)) && dash != "-" {
            continue;
        }
        let (code, out, err) = piped(&["convert", "demo.mag", dash, "--to", "safetensors"]);
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(out, fs::read(scratch.path("whole.safetensors")).unwrap());
    }
    let (code, out, _) = piped(&[
        "extract",
        "demo.mag",
        "encoder.weight",
        "-o",
        "-",
        "--to",
        "bin",
    ]);
    assert_eq!(code, Some(0));
    let run = scratch.run(&["extract", "demo.mag", "encoder.weight", "-o", "w.bin"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(out, fs::read(scratch.path("w.bin")).unwrap());
    for (arguments, why) in [
        (&["convert", "demo.mag", "-"][..], "--to"),
        (
            &["convert", "demo.mag", "-", "--to", "mag", "--json"],
            "--json",
        ),
        (
            &["convert", "demo.mag", "-", "--to", "aeroset"],
            "several files",
        ),
        (
            &["extract", "demo.mag", "encoder.weight", "-o", "-"],
            "--to",
        ),
    ] {
        let run = scratch.run(arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
        assert!(run.err.contains(why), "{}", run.err);
    }
    assert!(!scratch.path("-").exists());
}

#[test]
fn a_limit_says_how_it_is_raised_and_can_be() {
    let scratch = Scratch::new();
    let run = scratch.run(&["inspect", "demo.mag", "--limit", "max_tensor_count=3"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.err.contains("--limit max_tensor_count=4"),
        "{}",
        run.err
    );
    let run = scratch.run(&["inspect", "demo.mag", "--limit", "max_tensor_count=4"]);
    assert_eq!(run.code, 0, "{run:?}");
    for wrong in ["max_tensor_count", "max_tensor_count=many", "max_wishes=3"] {
        let run = scratch.run(&["verify", "demo.mag", "--limit", wrong]);
        assert_ne!(run.code, 0, "{run:?}");
        assert!(run.err.contains(wrong), "{}", run.err);
    }
}

#[test]
fn what_is_no_tensor_file_is_named_by_what_it_is() {
    let scratch = Scratch::new();
    for (name, bytes, what) in [
        (
            "e.safetensors",
            &b"Entry not found"[..],
            "text: Entry not found",
        ),
        ("e.mag", b"Entry not found", "text: Entry not found"),
        (
            "e.aero",
            b"{\"error\":\"Invalid username or password.\"}",
            "JSON: {\"error\":\"Invalid",
        ),
        ("e.bpk", b"<html><body>502", "an HTML page"),
        ("e.zt", &[0; 1000], "zeros (1000 bytes"),
        ("e.model", &[0; 1000], "zeros (1000 bytes"),
        (
            "e.onnx",
            b"\x08\x08\x12\x07pytorch\x1a\x05",
            "an ONNX model",
        ),
        ("e.param", b"404: Not Found", "text: 404: Not Found"),
    ] {
        write(&scratch.path(name), bytes);
        for verb in ["inspect", "verify", "hash"] {
            let run = scratch.run(&[verb, name]);
            assert_eq!(run.code, 1, "{name}: {run:?}");
            assert!(run.err.contains(what), "{name}: {}", run.err);
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    /// Runs a script in the folder, in which `$T` is the command.
    fn script(scratch: &Scratch, text: &str) -> Run {
        let output = Command::new("sh")
            .args(["-c", text])
            .env("T", crate::program())
            .current_dir(scratch.path(""))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Run::of(output)
    }

    /// A file that takes a while to compress.
    fn large(scratch: &Scratch) {
        let mut word = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word.to_le_bytes()
        })
        .take(3 << 20)
        .flatten()
        .collect();
        let mut builder = tensorfmt::safetensors::Builder::new();
        let dims = [noise.len() as u64];
        let shape = tensorfmt::Shape::new(&dims).unwrap();
        let tensor = tensorfmt::Tensor::new(tensorfmt::DType::U8, shape, noise).unwrap();
        builder.tensor("noise", tensor).unwrap();
        write(
            &scratch.path("large.safetensors"),
            builder.to_vec().unwrap(),
        );
    }

    #[test]
    fn a_file_that_appears_during_the_run_is_kept() {
        let scratch = Scratch::new();
        large(&scratch);
        for (target, own) in [("race.zt", "race.zt"), ("race.aeroset.json", "index.aero")] {
            let zstd = if target.ends_with("zt") {
                "--zstd 19"
            } else {
                "--tensor-hash"
            };
            let text = format!(
                "$T convert large.safetensors {target} {zstd} --threads 1 & \
                 while ! ls -A | grep -q '^\\.tensorfmt-'; do :; done; \
                 echo precious > {own}; wait $!; echo code $?; cat {own}"
            );
            let run = script(&scratch, &text);
            assert_eq!(run.out, "code 2\nprecious\n", "{run:?}");
            assert!(run.err.contains("exists"), "{}", run.err);
            fs::remove_file(scratch.path(own)).unwrap();
            assert_eq!(
                scratch.files(),
                ["demo.mag", "large.safetensors"],
                "{target}"
            );
        }
    }

    #[test]
    fn signals_that_are_ignored_stay_so_and_others_have_their_number() {
        let scratch = Scratch::new();
        large(&scratch);
        for (signal, code) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
            let work = "$T convert large.safetensors o.zt --zstd 12 --threads 1 --force";
            let wait = "while ! ls -A | grep -q '^\\.tensorfmt-'; do :; done";
            if cfg!(target_os = "linux") {
                let ignored = format!(
                    "(trap '' {signal}; exec {work}) & p=$!; {wait}; kill -{signal} $p; \
                     wait $p; echo $?"
                );
                let run = script(&scratch, &ignored);
                assert_eq!(run.out, "0\n", "{signal}: {run:?}");
            }
            // Shells start what is in the background with INT ignored.
            let mut child = Command::new("sh")
                .args(["-c", &format!("exec {work}")])
                .env("T", crate::program())
                .current_dir(scratch.path(""))
                .spawn()
                .unwrap();
            script(&scratch, &format!("{wait}; kill -{signal} {}", child.id()));
            let status = child.wait().unwrap();
            assert_eq!(
                (status.code(), status.signal()),
                (Some(code), None),
                "{signal}"
            );
            assert!(scratch.files().iter().all(|name| !name.starts_with('.')));
        }
    }

    #[test]
    fn a_first_signal_ends_a_conversion_that_waits_for_a_reader() {
        let scratch = Scratch::new();
        assert!(
            Command::new("mkfifo")
                .arg(scratch.path("pipe.mag"))
                .status()
                .unwrap()
                .success()
        );
        let mut child = scratch
            .command()
            .args(["convert", "demo.mag", "pipe.mag"])
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none());
        script(&scratch, &format!("kill -TERM {}", child.id()));
        let started = Instant::now();
        assert_eq!(child.wait().unwrap().code(), Some(143));
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn pipes_are_written_to_and_read_from() {
        let scratch = Scratch::new();
        assert!(
            Command::new("mkfifo")
                .arg(scratch.path("pipe.mag"))
                .status()
                .unwrap()
                .success()
        );
        let text = "$T convert demo.mag pipe.mag & $T hash pipe.mag; wait $!; echo $?";
        let run = script(&scratch, text);
        let hash = scratch.run(&["hash", "demo.mag"]).out;
        assert_eq!(run.out, format!("{hash}0\n"), "{run:?}");
    }

    #[test]
    fn links_are_said_and_blobs_of_a_cache_kept() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("hf/blobs")).unwrap();
        let blob = format!("hf/blobs/{}", "0a".repeat(32));
        fs::copy(scratch.path("demo.mag"), scratch.path(&blob)).unwrap();
        for revision in ["r1", "r2"] {
            fs::create_dir_all(scratch.path(&format!("hf/snapshots/{revision}"))).unwrap();
            let link = scratch.path(&format!("hf/snapshots/{revision}/m.mag"));
            symlink(format!("../../../{blob}"), link).unwrap();
        }
        let r1 = "hf/snapshots/r1/m.mag";
        let run = scratch.run(&["convert", r1, r1, "--set-metadata", "k=7", "--force"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains("the link is replaced"), "{}", run.err);
        assert_eq!(fs::read(scratch.path(&blob)).unwrap(), case("mag", "demo"));
        assert!(!scratch.path(r1).is_symlink());
        let listing = scratch.run(&["inspect", r1, "--json"]).json();
        assert_eq!(listing["metadata"]["k"], 7);

        symlink("demo.mag", scratch.path("link.mag")).unwrap();
        let run = scratch.run(&["convert", "link.mag", "link.mag", "--force", "--json"]);
        assert_eq!(run.code, 0, "{run:?}");
        let said = run.json()["target"][0].as_str().unwrap().to_owned();
        assert!(
            said.contains("a link") && said.contains("demo.mag"),
            "{said}"
        );
    }

    #[test]
    fn what_a_killed_run_left_is_named_and_can_be_deleted() {
        let scratch = Scratch::new();
        large(&scratch);
        let text = "$T convert large.safetensors o.zt --zstd 19 --threads 1 & p=$!; \
             while [ \"$(ls -A | grep -c '^\\.tensorfmt-')\" = 0 ]; do :; done; sleep 1; \
             $T convert demo.mag live.mag; kill -9 $p; wait $p; $T convert demo.mag dead.mag";
        let run = script(&scratch, text);
        assert_eq!(run.code, 0, "{run:?}");
        // What the living run was writing was not named, what it left was.
        assert_eq!(
            run.err.matches("was left behind by a run").count(),
            1,
            "{}",
            run.err
        );
        assert!(scratch.path("live.mag").exists() && scratch.path("dead.mag").exists());
        let run = scratch.run(&["convert", "demo.mag", "next.mag", "--remove-leftovers"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains("deleted"), "{}", run.err);
        assert!(
            scratch.files().iter().all(|name| !name.starts_with('.')),
            "{:?}",
            scratch.files()
        );
    }

    #[test]
    fn a_terminal_is_no_place_for_bytes() {
        // What a pipe took is what was written, and nothing was added to it.
        let scratch = Scratch::new();
        let mut child = scratch
            .command()
            .args(["convert", "demo.mag", "-", "--to", "mag"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut bytes = Vec::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(bytes, case("mag", "demo"));
    }

    /// Few threads, files or addresses: the work is done, or one sentence says why not.
    #[cfg(target_os = "linux")]
    #[test]
    fn limits_of_the_system_are_a_sentence_and_never_a_panic() {
        use std::os::unix::fs::PermissionsExt;

        let scratch = Scratch::new();
        large(&scratch);
        let tool = |name: &str| {
            Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|run| run.status.success())
        };
        let is_root = || {
            fs::metadata("/proc/self").is_ok_and(|at| std::os::unix::fs::MetadataExt::uid(&at) == 0)
        };
        if !tool("prlimit") || is_root() && !tool("setpriv") {
            println!("no prlimit or setpriv here, so nothing is limited");
            return;
        }
        for (target, options) in [("z.zt", &["--zstd"][..]), ("o.aero", &[])] {
            let convert = ["convert", "large.safetensors", target, "-q"];
            let run = scratch.run(&[&convert[..], options].concat());
            assert_eq!(run.code, 0, "{run:?}");
        }
        // Root is above limits of processes, so the command runs as nobody, who must reach it.
        let program = scratch.path("tensorfmt");
        copy_program(&program);
        fs::create_dir(scratch.path("out")).unwrap();
        for path in [scratch.path(""), program, scratch.path("out")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let nobody = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "prlimit",
        ];
        let limited = |limit: &str, arguments: &[&str]| {
            let prefix = if is_root() { &nobody[..] } else { &nobody[4..] };
            let output = Command::new(prefix[0])
                .args(&prefix[1..])
                .args([limit, "./tensorfmt"])
                .args(arguments)
                .current_dir(scratch.path(""))
                .stdin(Stdio::null())
                .output();
            Run::of(output.unwrap())
        };
        for limit in [
            "--nproc=1",
            "--nproc=2",
            "--nofile=4",
            "--nofile=6",
            "--as=268435456",
        ] {
            for file in ["large.safetensors", "z.zt", "o.aero"] {
                for arguments in [
                    &["inspect", file][..],
                    &["inspect", file, "--html", "out/x.html", "--force"],
                    &["verify", file],
                    &["hash", file],
                    &["stats", file],
                    &["diff", file, "large.safetensors"],
                    &["extract", file, "noise", "-o", "out/x.bin", "--force"],
                    &["convert", file, "out/x.aero", "--force"],
                    &["convert", file, "out/x.zt", "--force", "--zstd", "1"],
                    &["convert", file, "out/x.aeroset.json", "--force"],
                ] {
                    let run = limited(limit, arguments);
                    let files = limit.starts_with("--nofile");
                    assert!(
                        run.code == 0 || files && run.code == 3,
                        "{limit} {arguments:?}: {run:?}"
                    );
                    assert!(
                        !run.err.contains("panicked"),
                        "{limit} {arguments:?}: {run:?}"
                    );
                    if run.code == 3 {
                        assert!(run.err.contains("Too many open files"), "{limit}: {run:?}");
                    }
                }
            }
        }
        let left = fs::read_dir(scratch.path("out")).unwrap();
        let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert!(
            names
                .iter()
                .all(|name| !name.to_string_lossy().starts_with('.')),
            "{names:?}"
        );
    }

    /// Copies the program, which is run from there. A copy made by this process could be open for writing in a
    /// child that another test starts meanwhile, and what is open for writing can't be run.
    #[cfg(target_os = "linux")]
    fn copy_program(to: &std::path::Path) {
        let copied = Command::new("cp").arg(crate::program()).arg(to).status();
        assert!(copied.unwrap().success());
    }

    /// Runs a script as nobody, in a folder that nobody may enter; `None` where that can't be done.
    #[cfg(target_os = "linux")]
    fn as_nobody(scratch: &Scratch, text: &str) -> Option<Run> {
        use std::os::unix::fs::PermissionsExt;

        let program = scratch.path("tensorfmt");
        copy_program(&program);
        for path in [scratch.path(""), program] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let output = Command::new("setpriv")
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "sh",
                "-c",
                text,
            ])
            .env("T", scratch.path("tensorfmt"))
            .current_dir(scratch.path(""))
            .stdin(Stdio::null())
            .output();
        let run = output.ok().map(Run::of)?;
        // Only root may become someone else.
        (!run.err.contains("setpriv:")).then_some(run)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_takes_no_file_is_answered_with_what_works() {
        use std::os::unix::fs::PermissionsExt;

        let scratch = Scratch::new();
        let mode = |name: &str, mode: u32| {
            fs::set_permissions(scratch.path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        for folder in ["ro", "sticky"] {
            fs::create_dir(scratch.path(folder)).unwrap();
            fs::write(scratch.path(&format!("{folder}/w.mag")), "old").unwrap();
            mode(&format!("{folder}/w.mag"), 0o666);
        }
        mode("ro", 0o555);
        mode("sticky", 0o1777);
        for folder in ["ro", "sticky"] {
            let convert = format!("$T convert demo.mag {folder}/w.mag --force");
            let Some(run) = as_nobody(&scratch, &convert) else {
                println!("nobody can't be had here");
                return;
            };
            assert_eq!(run.code, 3, "{run:?}");
            assert!(run.err.contains("--in-place"), "{}", run.err);
            assert_eq!(
                fs::read(scratch.path(&format!("{folder}/w.mag"))).unwrap(),
                b"old"
            );
            let run = as_nobody(&scratch, &format!("{convert} --in-place")).unwrap();
            assert_eq!(run.code, 0, "{run:?}");
            assert_eq!(scratch.run(&["verify", &format!("{folder}/w.mag")]).code, 0);
        }
        // Where that doesn't help, it isn't said.
        mode("ro/w.mag", 0o444);
        let run = as_nobody(&scratch, "$T convert demo.mag ro/w.mag --force").unwrap();
        assert_eq!(run.code, 3, "{run:?}");
        assert!(!run.err.contains("--in-place"), "{}", run.err);
    }

    #[test]
    fn a_file_is_given_to_whom_the_old_one_belonged() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

        let scratch = Scratch::new();
        let path = scratch.path("own.mag");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        let given = chown(&path, Some(1000), Some(1000)).is_ok();
        let run = scratch.run(&["convert", "demo.mag", "own.mag", "--force"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.mode() & 0o777, 0o664);
        if given {
            assert_eq!((metadata.uid(), metadata.gid()), (1000, 1000));
        }
        #[cfg(target_os = "linux")]
        if given {
            // Nobody may give nothing away, and says so.
            fs::create_dir(scratch.path("open")).unwrap();
            fs::rename(&path, scratch.path("open/own.mag")).unwrap();
            fs::set_permissions(scratch.path("open"), fs::Permissions::from_mode(0o777)).unwrap();
            if let Some(run) = as_nobody(&scratch, "$T convert demo.mag open/own.mag --force") {
                assert_eq!(run.code, 0, "{run:?}");
                assert!(
                    run.err.contains("owner and group were 1000:1000"),
                    "{}",
                    run.err
                );
            }
        }
    }
}

/// A stream is kept in a file while it is read, which is said once, and the folder with it; where that is full
/// the error names what another one is chosen by.
#[cfg(unix)]
#[test]
fn streams_are_said_once_and_a_full_folder_for_them_names_the_way_out() {
    let scratch = Scratch::new();
    let bin = crate::program();
    let shell = |script: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).current_dir(scratch.0.path());
        let output = shell.env("TMPDIR", scratch.path("kept")).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    std::fs::create_dir(scratch.path("kept")).unwrap();
    let folder = scratch.path("kept").display().to_string();
    for (script, stream) in [
        (format!("'{bin}' inspect - < demo.mag"), "standard input"),
        (
            format!("cat demo.mag | '{bin}' inspect /dev/stdin"),
            "/dev/stdin",
        ),
        (
            format!("mkfifo a b; cat demo.mag > a & cat demo.mag > b & '{bin}' diff a b"),
            "a",
        ),
    ] {
        let (code, err) = shell(&script);
        assert_eq!(code, Some(0), "{script}: {err}");
        assert_eq!(err.matches("is a stream").count(), 1, "{script}: {err}");
        assert!(err.contains(&folder), "{err}");
        let named = err.contains(&format!("note: {stream} is")) || err.contains("note: b is");
        assert!(named, "{err}");
        let (_, err) = shell(
            &script
                .replace("inspect", "-q inspect")
                .replace("mkfifo a b;", "")
                .replace("diff", "-q diff"),
        );
        assert_eq!(err, "", "{script}");
    }
    // The limit is in blocks of 512 bytes.
    let (code, err) = shell(&format!("ulimit -f 1; '{bin}' inspect - < demo.mag"));
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains(&format!("kept in {folder}")) && err.contains("TMPDIR"),
        "{err}"
    );
    assert_eq!(std::fs::read_dir(scratch.path("kept")).unwrap().count(), 0);
}

#[test]
fn an_address_on_a_server_is_called_one() {
    let scratch = Scratch::new();
    for verb in ["inspect", "verify", "hash", "stats"] {
        let run = scratch.run(&[verb, "ftp://host/m.safetensors"]);
        assert_eq!(run.code, 3, "{run:?}");
        assert!(run.err.contains("download it first"), "{}", run.err);
    }
    #[cfg(not(feature = "remote"))]
    for address in [
        "https://me:secret@host/m.safetensors?secret",
        "s3://bucket/m.mag",
    ] {
        let run = scratch.run(&["inspect", address]);
        assert_eq!(run.code, 3, "{run:?}");
        assert!(run.err.contains("feature `remote` is off"), "{}", run.err);
        assert!(!run.err.contains("secret"), "{}", run.err);
    }
    // A file of such a name is one.
    std::fs::create_dir_all(scratch.path("s3:/x")).unwrap();
    std::fs::copy(scratch.path("demo.mag"), scratch.path("s3:/x/m.mag")).unwrap();
    assert_eq!(scratch.run(&["inspect", "s3://x/m.mag"]).code, 0);
}
