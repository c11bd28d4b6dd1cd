//! What scripts ask: exit codes for bad values, only what failed, what is how large, and what is tied.

use serde_json::json;
use tensorfmt::{Tensor, safetensors};
use test_data::crowds::CROWDS;

use crate::{Scratch, case, write};

fn file(scratch: &Scratch, path: &str, tensors: &[(&str, Tensor)]) {
    let mut builder = safetensors::Builder::new();
    for (name, tensor) in tensors {
        builder.tensor(*name, tensor.clone()).unwrap();
    }
    write(&scratch.path(path), builder.to_vec().unwrap());
}

fn f32s(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len() as u64]).unwrap()
}

#[test]
fn bad_values_fail_a_script_and_are_listed_alone() {
    let scratch = Scratch::new();
    let ints = |values: &[i32]| Tensor::from_slice(values, &[values.len() as u64]).unwrap();
    file(
        &scratch,
        "m.safetensors",
        &[
            ("good", f32s(&[1.0, 0.0])),
            ("nan", f32s(&[1.0, f32::NAN])),
            ("inf", f32s(&[1.0, f32::NEG_INFINITY])),
            ("zero", f32s(&[0.0, -0.0])),
            ("equal", f32s(&[3.0, 3.0])),
            ("one", f32s(&[3.0])),
            ("empty", f32s(&[])),
            ("ints", ints(&[7, 7, 7])),
            ("zeros", ints(&[0])),
        ],
    );
    for (what, expected) in [
        ("nan", &["nan"][..]),
        ("inf", &["inf"]),
        ("nan,inf", &["nan", "inf"]),
        ("zero", &["zero", "zeros"]),
        ("equal", &["zero", "equal", "ints"]),
    ] {
        let run = scratch.run(&["stats", "--json", "m.safetensors", "--fail-on", what]);
        assert_eq!(run.code, 1, "{run:?}");
        let tensors = run.json()["tensors"].clone();
        let names: Vec<&str> = tensors
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{what}");
        let text = scratch.run(&["stats", "m.safetensors", "--fail-on", what]);
        assert_eq!(text.code, 1);
        assert!(
            text.out
                .ends_with(&format!("{} of 9 tensors fail\n", expected.len())),
            "{}",
            text.out
        );
        assert!(!text.out.contains("good  f32"));
    }
    let both = scratch.run(&[
        "stats",
        "--json",
        "m.safetensors",
        "--fail-on",
        "zero,equal",
        "--filter",
        "zero",
    ]);
    assert_eq!(both.json()["tensors"][0]["fails"], json!(["zero", "equal"]));
    let good = scratch.run(&[
        "stats",
        "m.safetensors",
        "--filter",
        "good",
        "--fail-on",
        "nan,inf,zero,equal",
    ]);
    assert_eq!((good.code, good.out.as_str()), (0, "0 of 1 tensors fail\n"));
    assert_eq!(scratch.run(&["stats", "m.safetensors"]).code, 0);
    assert_eq!(
        scratch
            .run(&["stats", "m.safetensors", "--fail-on", "nans"])
            .code,
        2
    );
    // What has no values is not good.
    write(&scratch.path("u.bpk"), case("burnpack", "dtype_unknown"));
    let run = scratch.run(&["stats", "u.bpk", "--fail-on", "nan"]);
    assert_eq!(run.code, 4, "{run:?}");
}

#[test]
fn a_quiet_verify_says_only_what_failed() {
    let scratch = Scratch::new();
    file(
        &scratch,
        "m.safetensors",
        &[("x", f32s(&[1.0])), ("y", f32s(&[2.0]))],
    );
    let sums = [
        "convert",
        "m.safetensors",
        "m.zt",
        "--checksum",
        "crc32c",
        "-q",
    ];
    assert_eq!(scratch.run(&sums).code, 0);
    let run = scratch.run(&["verify", "-q", "m.zt", "m.safetensors", "demo.mag"]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{run:?}");
    let mut damaged = std::fs::read(scratch.path("m.zt")).unwrap();
    damaged[64] ^= 1;
    write(&scratch.path("bad.zt"), damaged);
    let run = scratch.run(&["verify", "-q", "m.zt", "bad.zt"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(run.out.lines().count(), 1, "{}", run.out);
    assert!(run.out.starts_with("bad.zt: x: FAILED"), "{}", run.out);
    let loud = scratch.run(&["verify", "bad.zt"]);
    assert!(loud.out.contains("y: ok") && loud.out.lines().count() > 1);
    write(&scratch.path("u.bpk"), case("burnpack", "dtype_unknown"));
    let run = scratch.run(&["verify", "-q", "u.bpk"]);
    assert!(run.code == 4 && run.out.contains("unsupported"), "{run:?}");
}

#[test]
fn each_dtype_has_a_line_from_the_index_alone() {
    let scratch = Scratch::new();
    // A file that is mostly a hole, so that no data can be read in time.
    let header = br#"{"b":{"dtype":"BF16","shape":[549755813888],"data_offsets":[0,1099511627776]},"n":{"dtype":"BF16","shape":[4],"data_offsets":[1099511627776,1099511627784]},"x":{"dtype":"F32","shape":[2],"data_offsets":[1099511627784,1099511627792]}} "#;
    let mut start = (header.len() as u64).to_le_bytes().to_vec();
    start.extend_from_slice(header);
    write(&scratch.path("m.safetensors"), &start);
    let file = std::fs::File::options()
        .write(true)
        .open(scratch.path("m.safetensors"))
        .unwrap();
    if file.set_len(start.len() as u64 + (1 << 40) + 16).is_err() {
        return eprintln!("this file system has no files of a TiB");
    }
    for form in [
        &["inspect", "m.safetensors"][..],
        &["inspect", "--tree", "m.safetensors"],
    ] {
        let run = scratch.run(form);
        assert_eq!(run.code, 0, "{run:?}");
        let lines: Vec<Vec<&str>> = run
            .out
            .lines()
            .rev()
            .take(3)
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[2],
            [
                "bf16",
                "2",
                "tensors",
                "549755813892",
                "values",
                "1.0",
                "TiB"
            ]
        );
        assert_eq!(lines[1], ["f32", "1", "tensor", "2", "values", "8", "B"]);
        assert_eq!(lines[0][..2], ["3", "tensors,"]);
    }
}

#[test]
fn a_listing_is_sorted_by_name_or_by_size() {
    let scratch = Scratch::new();
    let tensors = [
        ("layer.10", f32s(&[0.5])),
        ("layer.2", f32s(&[1.5, 2.5])),
        ("layer.1", f32s(&[3.5])),
    ];
    file(&scratch, "m.safetensors", &tensors);
    let names = |more: &[&str]| -> Vec<String> {
        let run = scratch.run(&[&["inspect", "--json", "m.safetensors"], more].concat());
        assert_eq!(run.code, 0, "{run:?}");
        let tensors = run.json()["tensors"].clone();
        let name = |tensor: &serde_json::Value| tensor["name"].as_str().unwrap().to_owned();
        tensors.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names(&[]), ["layer.10", "layer.2", "layer.1"]);
    assert_eq!(
        names(&["--sort", "name"]),
        ["layer.1", "layer.2", "layer.10"]
    );
    // Those of one size stay in the order of the file.
    assert_eq!(
        names(&["--sort", "size"]),
        ["layer.2", "layer.10", "layer.1"]
    );
    let some = names(&["--sort", "size", "--exclude", "*.10"]);
    assert_eq!(some, ["layer.2", "layer.1"]);
    let text = scratch
        .run(&["inspect", "--sort", "size", "m.safetensors"])
        .out;
    assert!(text.find("layer.2 ") < text.find("layer.10"), "{text}");
    let tree = scratch.run(&["inspect", "--sort", "size", "--tree", "m.safetensors"]);
    assert_eq!(tree.code, 2, "{tree:?}");
}

#[test]
fn tied_tensors_are_named_by_place_and_by_content() {
    let scratch = Scratch::new();
    // Two names for the same four bytes, which a header can say, and a third with equal ones elsewhere.
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"c":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]},"d":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}  "#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header);
    for value in [1.5f32, 2.5, 1.5, 1.5] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    write(&scratch.path("m.safetensors"), &bytes);
    let none = scratch.run(&["inspect", "--tied", "m.safetensors"]);
    assert!(
        none.code == 0 && none.out.ends_with("no tensors share their bytes\n"),
        "{none:?}"
    );
    write(&scratch.path("s.aero"), case("aero", "shared_data"));
    let run = scratch.run(&["inspect", "--tied", "--json", "s.aero"]);
    assert_eq!(run.code, 0, "{run:?}");
    let tied = run.json()["tied"].clone();
    assert_eq!(tied.as_array().unwrap().len(), 1, "{tied}");
    let names: Vec<&str> = tied[0]["names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap())
        .collect();
    assert!(names.len() > 1, "{tied}");
    let all = scratch.run(&["inspect", "--json", "s.aero"]).json()["tensors"].clone();
    for tensor in all.as_array().unwrap() {
        let is_named = names.contains(&tensor["name"].as_str().unwrap());
        assert_eq!(is_named, tensor["offset"] == tied[0]["offset"], "{tensor}");
    }
    let text = scratch.run(&["inspect", "--tied", "s.aero"]).out;
    assert!(text.contains(&names.join(" = ")), "{text}");
    // In a set the index says in which part the bytes are, and the part where.
    let crowd = CROWDS.iter().find(|crowd| crowd.name == "aeroset-shared");
    for (name, bytes) in crowd.unwrap().make(3).files {
        write(&scratch.path(&name), &bytes);
    }
    let run = scratch.run(&["inspect", "--tied", "--json", "crowd.aeroset.json"]);
    let part = scratch.run(&["inspect", "--json", "part-000.aero"]).json();
    let offset = part["tensors"][0]["offset"].clone();
    assert!(run.code == 0 && offset.as_u64() > Some(0), "{run:?}");
    let tied = json!([{"names": ["00000", "00001", "00002"], "part": "part-000.aero", "offset": offset, "stored_bytes": 16384}]);
    assert_eq!(run.json()["tied"], tied);
    let run = scratch.run(&["hash", "--tied", "m.safetensors"]);
    assert_eq!(run.code, 0, "{run:?}");
    let lines: Vec<&str> = run.out.lines().collect();
    // Other dims make it another tensor.
    assert_eq!(lines[0], "a = d");
    assert!(
        lines.len() == 2 && lines[1].ends_with("  (model)"),
        "{lines:?}"
    );
    let document = scratch
        .run(&["hash", "--tied", "--json", "m.safetensors"])
        .json();
    assert_eq!(document["tied"], json!([["a", "d"]]));
    assert_eq!(document["tensors"].as_array().unwrap().len(), 4);
}
