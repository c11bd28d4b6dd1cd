//! Exit codes, JSON, escaping: what scripts rely on.

use std::io::Read;
use std::process::Stdio;

use serde_json::json;
use tensorfmt::Format;
use test_data::Expect;

use crate::{Run, Scratch, case, write};

#[test]
fn inspect_lists_everything() {
    let scratch = Scratch::new();
    let run = scratch.run(&["inspect", "demo.mag"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.out
            .contains("encoder.weight  f32    [8, 4]    128   0x140"),
        "{}",
        run.out
    );
    assert!(run.out.contains("steps: 1000"), "{}", run.out);

    let document = scratch.run(&["inspect", "--json", "demo.mag"]).json();
    assert_eq!(document["format"], "mag");
    assert_eq!(
        document["metadata"],
        json!({"steps": 1000, "learning_rate": 0.001})
    );
    assert_eq!(
        document["tensors"][0],
        json!({
            "name": "encoder.weight", "dtype": "f32", "shape": [8, 4], "order": "C",
            "encoding": "raw", "offset": 320, "stored_bytes": 128, "nbytes": 128,
        })
    );
    let filtered = scratch.run(&["inspect", "--json", "--filter", "encoder.*", "demo.mag"]);
    assert_eq!(filtered.json()["tensors"].as_array().unwrap().len(), 3);
}

#[test]
fn chunks_are_listed_where_there_are_any() {
    let scratch = Scratch::new();
    assert_eq!(
        scratch
            .run(&["convert", "demo.mag", "x.aero", "--ihsh"])
            .code,
        0
    );
    let run = scratch.run(&["inspect", "--chunks", "x.aero"]);
    assert_eq!(run.code, 0, "{run:?}");
    for fourcc in ["IHSH", "MJSN", "MMSG", "TIDX", "WTSH"] {
        assert!(run.out.contains(fourcc), "{}", run.out);
    }
    assert!(
        scratch
            .run(&["inspect", "x.aero"])
            .out
            .contains("chunks: 5 (--chunks lists them)")
    );
    assert_eq!(scratch.run(&["inspect", "--chunks", "demo.mag"]).code, 2);
}

#[test]
fn offsets_are_where_the_bytes_are() {
    let scratch = Scratch::new();
    let bytes = case("mag", "demo");
    let document = scratch.run(&["inspect", "--json", "demo.mag"]).json();
    let ids = &document["tensors"][3];
    let offset = usize::try_from(ids["offset"].as_u64().unwrap()).unwrap();
    let ids: Vec<u32> = bytes[offset..offset + 16]
        .chunks(4)
        .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    assert_eq!(ids, [101, 2023, 2003, 102]);
}

#[test]
fn every_hand_assembled_file_has_its_exit_code() {
    let scratch = Scratch::new();
    for format in test_data::FORMATS {
        for case in (format.cases)() {
            // A file of another format is that format's, whatever its name says.
            let (head, len) = (&case.bytes, case.bytes.len() as u64);
            let detected = Format::detect(head, len, None).map(Format::name);
            if detected.is_some_and(|detected| detected != format.name) {
                continue;
            }
            let name = format!("case.{}", format.extension);
            write(&scratch.path(&name), &case.bytes);
            let run = scratch.run(&["verify", "--json", &name]);
            let (code, rule) = match case.expect {
                Expect::Valid => (0, None),
                Expect::Reject(rule) => (1, Some(rule)),
                Expect::Unsupported(what) => (4, Some(what)),
            };
            assert_eq!(run.code, code, "{} {}: {run:?}", format.name, case.name);
            let file = &run.json()["files"][0];
            if let (Some(rule), Some(error)) = (rule, file["error"].as_object()) {
                assert_eq!(error["rule"], rule, "{} {}", format.name, case.name);
            }
            std::fs::remove_file(scratch.path(&name)).unwrap();
        }
    }
}

#[test]
fn verify_says_what_nothing_covers_and_where_it_breaks() {
    let scratch = Scratch::new();
    let run = scratch.run(&["verify", "demo.mag"]);
    assert_eq!(run.code, 0);
    assert!(run.out.contains("records: ok"), "{}", run.out);
    assert!(
        run.out.contains("encoder.weight: not covered"),
        "{}",
        run.out
    );

    let mut bytes = case("mag", "demo");
    bytes[30] ^= 1;
    write(&scratch.path("bad.mag"), bytes);
    let run = scratch.run(&["verify", "demo.mag", "bad.mag", "--json"]);
    assert_eq!(run.code, 1);
    let files = run.json()["files"].clone();
    assert_eq!(
        (&files[0]["exit"], &files[1]["exit"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(files[1]["error"]["rule"], "mag.header.checksum");
    assert_eq!(files[1]["error"]["offset"], 8);
    assert_eq!(files[1]["error"]["kind"], "invalid");

    let run = scratch.run(&["verify", "bad.mag", "absent.mag"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("absent.mag"), "{}", run.err);
}

#[test]
fn hashes_are_of_decoded_bytes() {
    let scratch = Scratch::new();
    let run = scratch.run(&["hash", "--algorithm", "crc32c", "--json", "demo.mag"]);
    let ids: Vec<u8> = [101u32, 2023, 2003, 102]
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .collect();
    let expected = format!("{:08x}", test_data::crc32c(&ids));
    let document = run.json();
    assert_eq!(document["algorithm"], "crc32c");
    assert_eq!(
        document["tensors"][3],
        json!({"name": "vocabulary.ids", "digest": expected})
    );
    for algorithm in ["blake3", "sha256"] {
        let run = scratch.run(&["hash", "--algorithm", algorithm, "demo.mag"]);
        assert!(
            run.out.lines().all(|line| line.find("  ") == Some(64)),
            "{}",
            run.out
        );
    }
}

#[test]
fn standard_input_is_a_file() {
    let scratch = Scratch::new();
    let file = std::fs::File::open(scratch.path("demo.mag")).unwrap();
    let output = scratch
        .command()
        .args(["inspect", "-", "--json"])
        .stdin(file)
        .output()
        .unwrap();
    let run = Run::of(output);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.json()["path"], "-");
}

#[test]
fn names_cannot_drive_the_terminal() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::mag::Builder::new();
    let tensor = tensorfmt::Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    builder
        .tensor("red\u{1b}[31m\nforged line\u{202e}", tensor)
        .unwrap();
    builder.write_file(scratch.path("evil.mag")).unwrap();
    for verb in ["inspect", "hash", "verify"] {
        let run = scratch.run(&[verb, "evil.mag"]);
        assert_eq!(run.code, 0);
        assert!(
            !run.out.contains(['\u{1b}', '\u{202e}']),
            "{verb}: {:?}",
            run.out
        );
        assert!(
            run.out.contains("\\u{1b}[31m\\nforged line\\u{202e}"),
            "{verb}: {}",
            run.out
        );
    }
    let name = scratch.run(&["inspect", "--json", "evil.mag"]).json()["tensors"][0]["name"].clone();
    assert_eq!(name, "red\u{1b}[31m\nforged line\u{202e}");
}

#[test]
fn usage_and_missing_files_have_their_codes() {
    let scratch = Scratch::new();
    assert_eq!(scratch.run(&["inspect"]).code, 2);
    assert_eq!(scratch.run(&["frobnicate"]).code, 2);
    assert_eq!(scratch.run(&["convert", "demo.mag", "out.unknown"]).code, 2);
    assert_eq!(scratch.run(&["inspect", "absent.mag"]).code, 3);
    // A folder is the files in it, where several are taken.
    assert_eq!(scratch.run(&["inspect", "."]).code, 0);
    assert_eq!(scratch.run(&["diff", "demo.mag", "."]).code, 3);
    assert_eq!(scratch.run(&["help"]).code, 0);
    assert_eq!(scratch.run(&["--version"]).code, 0);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = scratch.run(&["completions", shell]);
        assert_eq!(run.code, 0);
        assert!(run.out.contains("tensorfmt"));
    }
}

/// Older generations are no target; the words say what is.
#[test]
fn a_generation_that_is_not_written_is_answered_with_one_that_is() {
    let scratch = Scratch::new();
    for (name, instead) in [
        ("ztensor-2", "--to ztensor writes 0.1"),
        ("zt1.2", "--to ztensor writes 0.1"),
        ("snapshot", "--to mag writes version 1"),
        ("mag-snapshot", "--to mag writes version 1"),
        ("burnpack0.19", "--to burnpack writes 0.22"),
        ("onnx", "known formats are mag,"),
    ] {
        let run = scratch.run(&["convert", "demo.mag", "x.zt", "--to", name]);
        assert_eq!(run.code, 2, "{name}");
        assert!(run.err.contains(instead), "{name}: {}", run.err);
    }
    assert_eq!(scratch.files(), ["demo.mag"]);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::mag::Builder::new();
    let tensor = tensorfmt::Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    for i in 0..20_000 {
        builder
            .tensor(format!("layer.{i}"), tensor.clone())
            .unwrap();
    }
    builder.write_file(scratch.path("many.mag")).unwrap();
    for json in [&["--json"][..], &[]] {
        let mut child = scratch
            .command()
            .args(["inspect", "many.mag"])
            .args(json)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(
            output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn piped_output_has_no_control_bytes_and_color_is_obeyed() {
    let scratch = Scratch::new();
    let run = scratch.run(&["inspect", "demo.mag"]);
    assert!(!run.out.contains('\u{1b}') && run.err.is_empty());
    let run = scratch.run(&["inspect", "--color", "always", "demo.mag"]);
    assert!(run.out.contains("\u{1b}[1m"));
}

/// Every `Examples` line of every verb's help runs as it stands.
#[test]
fn the_examples_of_help_work() {
    let scratch = Scratch::new();
    for name in ["model.mag", "a.mag"] {
        std::fs::copy(scratch.path("demo.mag"), scratch.path(name)).unwrap();
    }
    assert_eq!(scratch.run(&["convert", "a.mag", "b.safetensors"]).code, 0);
    // `convert` first: it makes what others read.
    let help = scratch.run(&["--help"]).out;
    let mut verbs: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    verbs.sort_by_key(|verb| *verb != "convert");
    assert_eq!(verbs.len(), 11, "{verbs:?}");
    let mut ran = 0;
    for verb in verbs {
        let help = scratch.run(&[verb, "--help"]).out;
        let before = ran;
        let examples = help.lines().skip_while(|line| !line.starts_with("Example"));
        let examples = examples.skip(1).map(str::trim);
        for line in examples.take_while(|line| !line.is_empty()) {
            assert!(line.starts_with(&format!("tensorfmt {verb}")), "{line}");
            let bin = crate::program();
            let script = line.replacen("tensorfmt", &format!("'{bin}'"), 1);
            // Files that an example names and that no example before it made.
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .current_dir(scratch.0.path())
                .output()
                .unwrap();
            let run = Run::of(output);
            assert_eq!(run.code, 0, "{line}: {run:?}");
            ran += 1;
        }
        assert!(ran > before, "{verb} has no example");
    }
}

#[cfg(unix)]
#[test]
fn standard_input_that_cannot_be_read_is_in_the_json() {
    let scratch = Scratch::new();
    // A folder opens, but gives no bytes.
    let folder = std::fs::File::open(scratch.0.path()).unwrap();
    let mut command = scratch.command();
    let command = command.args(["verify", "--json", "demo.mag", "-"]);
    let run = Run::of(command.stdin(folder).output().unwrap());
    assert_eq!(run.code, 3, "{run:?}");
    let files = run.json()["files"].clone();
    assert_eq!(files.as_array().unwrap().len(), 2);
    assert_eq!(
        (&files[0]["exit"], &files[1]["exit"]),
        (&json!(0), &json!(3))
    );
    assert_eq!(files[1]["path"], "-");
    assert_eq!(files[1]["error"]["kind"], "io");
    let message = files[1]["error"]["message"].as_str().unwrap();
    assert!(message.contains("directory"), "{message}");

    let folder = std::fs::File::open(scratch.0.path()).unwrap();
    let mut command = scratch.command();
    let run = Run::of(
        command
            .args(["verify", "-"])
            .stdin(folder)
            .output()
            .unwrap(),
    );
    assert_eq!(run.code, 3, "{run:?}");
    assert_eq!(run.err.matches("-: ").count(), 1, "{}", run.err);
}

#[test]
fn a_flipped_bit_is_found_or_said_not_to_be_covered() {
    let scratch = Scratch::new();
    // The target, how to write it, and what is said of one flipped bit in the data.
    let (failed, uncovered) = ("encoder.weight: FAILED", "encoder.weight: not covered");
    for (name, options, found, item) in [
        ("x.mag", &[][..], false, uncovered),
        ("x.bpk", &[], false, uncovered),
        ("x.safetensors", &[], false, uncovered),
        ("x.model", &["--cast", "f32"], false, uncovered),
        ("x.zt", &["--checksum", "none"], false, uncovered),
        ("x.zt", &["--checksum", "crc32c"], true, failed),
        ("x.zt", &["--checksum", "sha256"], true, failed),
        ("x.aero", &[], true, "FAILED"),
        ("x.aero", &["--tensor-hash"], true, failed),
        ("x.aero", &["--phsh", "4096"], true, "FAILED"),
    ] {
        let convert = ["convert", "--quiet", "--force", "demo.mag", name];
        let run = scratch.run(&[&convert[..], options].concat());
        assert_eq!(run.code, 0, "{name}: {run:?}");
        let listing = scratch.run(&["inspect", "--json", name]).json();
        let tensor = &listing["tensors"][0];
        assert_eq!(tensor["name"], "encoder.weight");
        let offset = usize::try_from(tensor["offset"].as_u64().unwrap()).unwrap();
        let whole = scratch.run(&["verify", name]);
        assert_eq!(whole.code, 0, "{name}: {whole:?}");
        let mut bytes = std::fs::read(scratch.path(name)).unwrap();
        bytes[offset + 5] ^= 0x10;
        write(&scratch.path(name), bytes);
        let run = scratch.run(&["verify", name]);
        assert_eq!(run.code, i32::from(found), "{name} {options:?}: {run:?}");
        assert!(run.out.contains(item), "{name} {options:?}: {}", run.out);
        assert!(
            !run.out.contains("encoder.weight: ok"),
            "{name} {options:?}"
        );
    }
}

#[test]
fn metadata_is_shown_without_asking() {
    let scratch = Scratch::new();
    for name in [
        "x.bpk",
        "x.safetensors",
        "x.aero",
        "x.aeroset.json",
        "y.mag",
    ] {
        let run = scratch.run(&["convert", "--quiet", "demo.mag", name]);
        assert_eq!(run.code, 0, "{name}: {run:?}");
        let run = scratch.run(&["inspect", name]);
        assert!(run.out.contains("steps: 1000"), "{name}: {}", run.out);
        let json = scratch.run(&["inspect", "--json", name]).json();
        assert!(json["metadata"].get("steps").is_some(), "{name}: {json}");
    }
}

/// Metadata that can't be read is no metadata that isn't there.
#[test]
fn damaged_metadata_is_said() {
    let scratch = Scratch::new();
    assert_eq!(scratch.run(&["convert", "demo.mag", "x.aero"]).code, 0);
    let whole = scratch.run(&["inspect", "--json", "x.aero"]).json();
    assert!(whole["metadata_fault"].is_null() && whole["metadata"].is_object());
    let chunks = whole["chunks"].as_array().unwrap();
    let chunk = chunks.iter().find(|chunk| chunk["fourcc"] == "MJSN");
    let at = chunk.unwrap()["offset"].as_u64().unwrap();
    let mut bytes = std::fs::read(scratch.path("x.aero")).unwrap();
    bytes[usize::try_from(at).unwrap() + 12] ^= 1;
    write(&scratch.path("x.aero"), &bytes);

    let says = "metadata can't be read: x.aero: ";
    let run = scratch.run(&["inspect", "--json", "x.aero"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains(says), "{run:?}");
    let listed = run.json();
    assert!(listed["metadata_fault"].is_string(), "{listed}");
    assert_eq!(listed["tensors"], whole["tensors"]);
    for verb in [&["stats", "x.aero"][..], &["diff", "x.aero", "demo.mag"]] {
        let run = scratch.run(verb);
        assert!(run.err.contains(says), "{run:?}");
    }

    let convert = ["convert", "x.aero", "x.safetensors", "--force"];
    assert_eq!(scratch.run(&convert).code, 1);
    let unchecked = scratch.run(&[&convert[..], &["--no-verify"]].concat());
    assert_eq!(unchecked.code, 0, "{unchecked:?}");
    assert!(unchecked.err.contains("can't be read, nor what it says"));
    let strict = scratch.run(&[&convert[..], &["--no-verify", "--strict"]].concat());
    assert_eq!(strict.code, 4, "{strict:?}");
}
