//! Models whose tensors are in several safetensors files, behind an index.

use std::fs;

use serde_json::Value;

use crate::{Scratch, write};

const INDEX: &str = "model.safetensors.index.json";

/// A model of layers with tensors of several dtypes, in one file and as a set of shards.
fn model(scratch: &Scratch, shard_bytes: &str) {
    let mut builder = tensorfmt::safetensors::Builder::new();
    for layer in 0..12u64 {
        let weight: Vec<f32> = (0..64u64).map(|at| (layer * 64 + at) as f32).collect();
        let weight = tensorfmt::Tensor::from_slice(&weight, &[8, 8]).unwrap();
        builder
            .tensor(format!("layers.{layer}.weight"), weight)
            .unwrap();
        let steps = tensorfmt::Tensor::from_slice(&[layer as i32; 8], &[8]).unwrap();
        builder
            .tensor(format!("layers.{layer}.steps"), steps)
            .unwrap();
    }
    builder.metadata("format", "pt").unwrap();
    write(&scratch.path("one.safetensors"), builder.to_vec().unwrap());
    let convert = ["convert", "one.safetensors", INDEX, "--max-shard-size"];
    let run = scratch.run(&[&convert[..], &[shard_bytes]].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
}

fn digests(scratch: &Scratch, file: &str) -> Vec<(String, String)> {
    let run = scratch.run(&["hash", "--json", file]);
    assert_eq!(run.code, 0, "{run:?}");
    let json = run.json();
    let tensors = json["tensors"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut digests: Vec<_> = tensors
        .map(|tensor| (text(&tensor["name"]), text(&tensor["digest"])))
        .collect();
    digests.sort();
    digests
}

#[test]
fn a_set_is_one_model_in_every_verb() {
    let scratch = Scratch::new();
    model(&scratch, "1000");
    let listing = scratch.run(&["inspect", INDEX, "--json"]).json();
    assert_eq!(listing["format"], "safetensors");
    assert_eq!(listing["shards"], 4);
    assert_eq!(listing["metadata"]["format"], "pt");
    assert_eq!(listing["tensors"].as_array().unwrap().len(), 24);
    assert_eq!(
        listing["tensors"][0]["part"],
        "model-00001-of-00004.safetensors"
    );
    let run = scratch.run(&["inspect", INDEX]);
    assert!(
        run.out.contains("model-00004-of-00004.safetensors"),
        "{}",
        run.out
    );
    assert_eq!(scratch.run(&["verify", INDEX]).code, 0);
    assert_eq!(
        digests(&scratch, INDEX),
        digests(&scratch, "one.safetensors")
    );
    for other in ["one.safetensors", INDEX] {
        let run = scratch.run(&["diff", INDEX, other]);
        assert_eq!((run.code, run.out.as_str()), (0, "same\n"), "{run:?}");
    }
    let stats = |file: &str| scratch.run(&["stats", "--json", file]).json()["tensors"].clone();
    assert_eq!(stats(INDEX), stats("one.safetensors"));
    let run = scratch.run(&["extract", INDEX, "layers.7.steps", "-o", "s.bin"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        fs::read(scratch.path("s.bin")).unwrap(),
        [7, 0, 0, 0].repeat(8)
    );
    assert_eq!(
        scratch.run(&["inspect", INDEX, "--html", "page.html"]).code,
        0
    );
}

#[test]
fn a_set_goes_to_every_format_and_back() {
    let scratch = Scratch::new();
    model(&scratch, "1000");
    let expected = digests(&scratch, INDEX);
    fs::create_dir(scratch.path("back")).unwrap();
    for there in [
        "x.mag",
        "x.zt",
        "x.bpk",
        "x.aero",
        "x.aeroset.json",
        "x.safetensors",
        "x.index.json",
    ] {
        let run = scratch.run(&["convert", INDEX, there, "-q"]);
        assert_eq!(run.code, 0, "{there}: {run:?}");
        assert_eq!(digests(&scratch, there), expected, "{there}");
        let back = format!("back/{INDEX}");
        let convert = ["convert", there, &back, "-q", "--force"];
        let run = scratch.run(&[&convert[..], &["--max-shard-size", "1000"]].concat());
        assert_eq!(run.code, 0, "{there}: {run:?}");
        assert_eq!(digests(&scratch, &back), expected, "{there}");
        assert_eq!(scratch.run(&["verify", &back]).code, 0, "{there}");
        // The target of a second set takes the shards of the first along.
        assert_eq!(
            fs::read_dir(scratch.path("back")).unwrap().count(),
            5,
            "{there}"
        );
    }
    // A copy has the shards that its source has, byte for byte.
    let run = scratch.run(&[
        "convert",
        INDEX,
        &format!("back/{INDEX}"),
        "--force",
        "--strict",
    ]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    for file in fs::read_dir(scratch.path("back")).unwrap() {
        let name = file.unwrap().file_name();
        let bytes = |folder: &str| fs::read(scratch.path(folder).join(&name)).unwrap();
        assert!(bytes("back") == bytes("."), "{name:?}");
    }
    // primitiv holds nothing but f32.
    let run = scratch.run(&["convert", INDEX, "x.model", "-q"]);
    assert_eq!(run.code, 4, "{run:?}");
    let run = scratch.run(&["convert", INDEX, "x.model", "-q", "--filter", "*.weight"]);
    assert_eq!(run.code, 0, "{run:?}");
    let run = scratch.run(&["convert", "x.model", "y.index.json", "-q"]);
    assert_eq!(run.code, 0, "{run:?}");
    let is_left = |(name, _): &&(String, String)| name.ends_with("weight");
    let left: Vec<_> = expected.iter().filter(is_left).cloned().collect();
    assert_eq!(digests(&scratch, "y.index.json"), left);
}

/// What index and shards don't agree about ends every verb that reads it, and `verify` says all of it.
#[test]
fn a_missing_shard_or_tensor_is_an_error_in_every_verb() {
    let scratch = Scratch::new();
    model(&scratch, "1000");
    let second = scratch.path("model-00002-of-00004.safetensors");
    let index = fs::read_to_string(scratch.path(INDEX)).unwrap();
    fs::remove_file(&second).unwrap();
    let stale = index.replace("layers.11.steps", "layers.12.steps");
    fs::write(scratch.path(INDEX), stale).unwrap();
    let verbs: [&[&str]; 7] = [
        &["inspect", INDEX],
        &["hash", INDEX],
        &["stats", INDEX],
        &["diff", INDEX, "one.safetensors"],
        &["diff", "one.safetensors", INDEX],
        &["convert", INDEX, "x.zt"],
        &["extract", INDEX, "layers.0.steps", "-o", "x.npy"],
    ];
    for verb in verbs {
        let run = scratch.run(verb);
        assert_eq!(run.code, 1, "{verb:?}: {run:?}");
        assert!(run.err.contains("model-00002-of-00004"), "{run:?}");
        assert!(run.err.contains("tensors should be in it"), "{run:?}");
    }
    let run = scratch.run(&["verify", INDEX]);
    assert_eq!(run.code, 1);
    for said in [
        "model-00002-of-00004.safetensors: FAILED",
        "layers.12.steps: FAILED (",
        "safetensors.set.shard_missing",
        "safetensors.set.tensor_missing",
        "layers.11.steps: FAILED",
    ] {
        assert!(run.out.contains(said), "{said}: {}", run.out);
    }
    // What is whole can be had when that is asked for.
    let salvage = ["convert", INDEX, "x.zt", "--salvage"];
    assert_eq!(scratch.run(&[&salvage[..], &["--strict"]].concat()).code, 4);
    let run = scratch.run(&salvage);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("model-00002-of-00004"), "{run:?}");
    assert_eq!(scratch.run(&["verify", "x.zt"]).code, 0);
    assert!(!scratch.path("x.npy").exists());
}

#[test]
fn what_is_odd_about_a_set_is_a_line() {
    let scratch = Scratch::new();
    model(&scratch, "1000");
    let index = fs::read_to_string(scratch.path(INDEX)).unwrap();
    let total = index
        .lines()
        .find(|line| line.contains("total_size"))
        .unwrap();
    let text = index.replace(
        total,
        "    \"total_size\": 5, \"total_parameters\": 7, \"note\": \"x\"",
    );
    fs::write(scratch.path(INDEX), text).unwrap();
    write(&scratch.path("model-00001-of-00009.safetensors"), b"");
    for said in [
        "total_size is 5, the tensors take 3456 bytes",
        "model-00001-of-00009",
    ] {
        for verb in [
            &["inspect", INDEX][..],
            &["hash", INDEX],
            &["convert", INDEX, "x.zt", "--force"],
        ] {
            let run = scratch.run(verb);
            assert_eq!(run.code, 0, "{verb:?}: {run:?}");
            assert!(run.err.contains(said), "{verb:?}: {run:?}");
        }
        let run = scratch.run(&["verify", INDEX]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.out.contains(&format!("warning: {said}")), "{run:?}");
        assert_eq!(scratch.run(&["verify", INDEX, "--strict"]).code, 1);
    }
    // What the index alone says stays behind; what follows from the tensors is no loss.
    let run = scratch.run(&["convert", INDEX, "x.zt", "--force"]);
    assert!(
        run.err.contains("lost: metadata of 2: \"index: note\""),
        "{run:?}"
    );
    assert!(!run.err.contains("total_parameters"), "{run:?}");
    // A surplus tensor: verify fails, the rest goes by the index.
    let scratch = Scratch::new();
    model(&scratch, "1000");
    let index = fs::read_to_string(scratch.path(INDEX)).unwrap();
    let line = index
        .lines()
        .find(|line| line.contains("layers.1.steps"))
        .unwrap();
    fs::write(scratch.path(INDEX), index.replace(&format!("{line}\n"), "")).unwrap();
    assert_eq!(scratch.run(&["verify", INDEX]).code, 1);
    let run = scratch.run(&["convert", INDEX, "x.zt"]);
    assert_eq!(run.code, 0, "{run:?}");
    let said = "tensor \"layers.1.steps\": model-00001-of-00004.safetensors holds it";
    assert!(run.err.contains(said), "{run:?}");
    assert_eq!(digests(&scratch, "x.zt").len(), 23);
}

#[test]
fn a_set_is_written_under_a_name_that_says_so() {
    let scratch = Scratch::new();
    model(&scratch, "5000");
    let files = || fs::read_dir(scratch.path(".")).unwrap().count();
    let before = files();
    for (arguments, said) in [
        (
            &["one.safetensors", "x.json", "--to", "safetensors-set"][..],
            "STEM.safetensors.index.json",
        ),
        (
            &["one.safetensors", "-", "--to", "safetensors-set"],
            "several files",
        ),
        (
            &["one.safetensors", "x.safetensors", "--max-shard-size", "9"],
            "STEM.safetensors.index.json",
        ),
        (&["one.safetensors", "x.index.json", "--ihsh"], "AERO"),
        (&["one.safetensors", INDEX], "exists"),
        // A shard of the input is no output, whatever it is to be.
        (
            &[INDEX, "model-00001-of-00001.safetensors", "--force"],
            "the input",
        ),
        (&[INDEX, INDEX, "--force"], "the input"),
    ] {
        let run = scratch.run(&[&["convert"], arguments].concat());
        assert_eq!(run.code, 2, "{arguments:?}: {run:?}");
        assert!(run.err.contains(said), "{arguments:?}: {run:?}");
        assert_eq!(files(), before, "{arguments:?}");
    }
    // A large file has the shards of the libraries that made these sets.
    let run = scratch.run(&["convert", "one.safetensors", "y.safetensors.index.json"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(scratch.path("y-00001-of-00001.safetensors").exists());
}

/// Of 300 shards few are open at once.
#[cfg(target_os = "linux")]
#[test]
fn hundreds_of_shards_are_read_with_few_files_open() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::safetensors::Builder::new();
    for number in 0..300u32 {
        let tensor = tensorfmt::Tensor::from_slice(&[number; 64], &[64]).unwrap();
        builder.tensor(format!("{number}"), tensor).unwrap();
    }
    write(&scratch.path("one.safetensors"), builder.to_vec().unwrap());
    let limited = |arguments: &str| {
        let program = env!("CARGO_BIN_EXE_tensorfmt");
        let output = std::process::Command::new("sh")
            .current_dir(scratch.path("."))
            .args(["-c", &format!("ulimit -n 64; exec {program} {arguments}")])
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{arguments}: {err}");
    };
    limited(&format!(
        "convert one.safetensors {INDEX} --max-shard-size 256"
    ));
    assert!(scratch.path("model-00300-of-00300.safetensors").exists());
    for arguments in ["inspect", "verify", "hash", "stats"] {
        limited(&format!("{arguments} {INDEX}"));
    }
    limited(&format!("diff {INDEX} one.safetensors"));
    limited(&format!("convert {INDEX} x.zt"));
    limited(&format!(
        "convert {INDEX} x.aeroset.json --max-shard-size 256 --max-part-shards 1"
    ));
    limited("convert x.aeroset.json y.safetensors.index.json --max-shard-size 256");
}
