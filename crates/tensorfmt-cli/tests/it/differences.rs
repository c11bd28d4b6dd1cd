//! What `diff` compares: chosen tensors, under other names, across dtypes.

use serde_json::json;
use tensorfmt::{Tensor, bf16, f16, safetensors};

use crate::{Run, Scratch, write};

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

fn diff(scratch: &Scratch, options: &[&str]) -> Run {
    scratch.run(&[&["diff", "a.safetensors", "b.safetensors"], options].concat())
}

#[test]
fn values_of_two_dtypes_are_compared_as_the_numbers_that_they_are() {
    let scratch = Scratch::new();
    let third = 1.0f32 / 3.0;
    let large = 1i64 << 53;
    let pairs = [
        (
            "half",
            f32s(&[third, 1.0]),
            Tensor::from_slice(&[bf16::from_f32(third), bf16::ONE], &[2]).unwrap(),
        ),
        (
            "same",
            f32s(&[0.5, -0.0, f32::NAN, f32::INFINITY]),
            Tensor::from_slice(
                &[f16::from_f32(0.5), f16::ZERO, f16::NAN, f16::INFINITY],
                &[4],
            )
            .unwrap(),
        ),
        // Beyond what a float of 64 bits tells apart.
        (
            "int",
            Tensor::from_slice(&[large + 1, 3], &[2]).unwrap(),
            Tensor::from_slice(&[large as f64, 3.0], &[2]).unwrap(),
        ),
        (
            "wide",
            Tensor::from_slice(&[u64::MAX, 5], &[2]).unwrap(),
            Tensor::from_slice(&[-1i64, 5], &[2]).unwrap(),
        ),
        (
            "small",
            Tensor::from_slice(&[255u8, 1], &[2]).unwrap(),
            Tensor::from_slice(&[255i16, 1], &[2]).unwrap(),
        ),
    ];
    let side = |of: fn(&(&'static str, Tensor, Tensor)) -> Tensor| -> Vec<(&str, Tensor)> {
        pairs.iter().map(|pair| (pair.0, of(pair))).collect()
    };
    file(&scratch, "a.safetensors", &side(|pair| pair.1.clone()));
    file(&scratch, "b.safetensors", &side(|pair| pair.2.clone()));
    let run = diff(&scratch, &["--json"]);
    assert_eq!(run.code, 1);
    let lines = run.json()["tensors"].clone();
    assert!(
        lines
            .as_array()
            .unwrap()
            .iter()
            .all(|line| line["difference"] == "dtype")
    );
    // A tolerance alone compares no dtypes.
    assert_eq!(
        diff(&scratch, &["--json", "--rtol", "1"]).json()["tensors"],
        lines
    );

    let run = diff(&scratch, &["--json", "--values"]);
    assert_eq!(run.code, 1, "{run:?}");
    let document = run.json();
    let names: Vec<&str> = document["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["half", "int", "wide"]);
    assert_eq!(document["other_dtypes"], 5);
    let lines = &document["tensors"];
    assert_eq!(
        (&lines[0]["count"], &lines[0]["first_index"]),
        (&json!(1), &json!(0))
    );
    let apart = f64::from(third) - f64::from(bf16::from_f32(third).to_f32());
    assert_eq!(lines[0]["max_abs"], json!(apart.abs()));
    assert_eq!(lines[0]["mean_abs"], json!(apart.abs() / 2.0));
    assert_eq!(
        (&lines[1]["count"], &lines[1]["max_abs"]),
        (&json!(1), &json!(1.0))
    );
    assert_eq!(lines[2]["max_abs"].to_string(), "18446744073709551615");

    // 1/3 and its bf16 are 0.2 % apart, 2^53 and the next integer by one.
    let run = diff(
        &scratch,
        &["--values", "--rtol", "1e-2", "--exclude", "wide"],
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.out
            .ends_with("4 tensors have another dtype; their values are compared\nsame\n"),
        "{}",
        run.out
    );
    for (atol, code) in [("0.99", 1), ("1", 0)] {
        let run = diff(&scratch, &["--values", "--atol", atol, "--filter", "int"]);
        assert_eq!(run.code, code, "{run:?}");
    }
    // rtol scales the second file's value.
    for (rtol, code) in [("1.96e-3", 0), ("1.94e-3", 1)] {
        let run = diff(&scratch, &["--values", "--rtol", rtol, "--filter", "half"]);
        assert_eq!(run.code, code, "{run:?}");
    }
}

#[test]
fn what_a_value_is_decides_with_values_also_in_one_dtype() {
    let scratch = Scratch::new();
    file(
        &scratch,
        "a.safetensors",
        &[("w", f32s(&[0.0, f32::NAN, 1.0]))],
    );
    file(
        &scratch,
        "b.safetensors",
        &[("w", f32s(&[-0.0, -f32::NAN, 1.0]))],
    );
    assert_eq!(diff(&scratch, &[]).code, 1);
    assert_eq!(diff(&scratch, &["--values"]).code, 0);
    file(&scratch, "b.safetensors", &[("w", f32s(&[0.0, 1.0, 1.0]))]);
    let run = diff(&scratch, &["--values", "--json"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.json()["tensors"][0]["nan"], 1);
}

#[test]
fn a_mean_is_over_all_values_and_counts_tell_what_is_in_one_file_only() {
    let scratch = Scratch::new();
    let ints = |values: &[i32]| Tensor::from_slice(values, &[values.len() as u64]).unwrap();
    file(
        &scratch,
        "a.safetensors",
        &[
            ("w", f32s(&[1.0, 2.0, 3.0, 4.0])),
            ("i", ints(&[1, 2, 3, 10])),
            ("x", f32s(&[1.0])),
            ("y", f32s(&[1.0])),
        ],
    );
    file(
        &scratch,
        "b.safetensors",
        &[
            ("w", f32s(&[1.0, 2.5, 3.0, 2.0])),
            ("i", ints(&[1, 0, 3, 0])),
            ("z", f32s(&[1.0])),
        ],
    );
    let run = diff(&scratch, &["--json"]);
    let document = run.json();
    assert_eq!(
        (&document["only_in_a"], &document["only_in_b"]),
        (&json!(2), &json!(1))
    );
    let lines = &document["tensors"];
    assert_eq!(
        (&lines[0]["max_abs"], &lines[0]["mean_abs"]),
        (&json!(2.0), &json!(0.625))
    );
    assert_eq!(
        (&lines[1]["max_abs"], &lines[1]["mean_abs"]),
        (&json!(10), &json!(3.0))
    );
    // What the tolerance lets pass is in the mean.
    let run = diff(&scratch, &["--json", "--atol", "1", "--filter", "w"]);
    let lines = &run.json()["tensors"];
    assert_eq!(
        (&lines[0]["count"], &lines[0]["mean_abs"]),
        (&json!(1), &json!(0.625))
    );
    let run = diff(&scratch, &[]);
    assert!(
        run.out.contains(
            "w: 2 values differ, first at 1, by up to 2e0 (1e0 of the value), 6.25e-1 on average"
        ),
        "{}",
        run.out
    );
    assert!(
        run.out.ends_with(
            "2 tensors are only in the first file; 1 tensor is only in the second file\n"
        ),
        "{}",
        run.out
    );
}

#[test]
fn names_that_differ_by_a_prefix_are_compared() {
    let scratch = Scratch::new();
    file(
        &scratch,
        "a.safetensors",
        &[
            ("model.layer.0", f32s(&[1.0])),
            ("model.layer.1", f32s(&[2.0])),
            ("model.head", f32s(&[3.0])),
        ],
    );
    file(
        &scratch,
        "b.safetensors",
        &[
            ("head", f32s(&[9.0])),
            ("layer.1", f32s(&[2.0])),
            ("layer.0", f32s(&[1.0])),
        ],
    );
    let rename = ["--rename", "s/^model\\.//"];
    let run = diff(&scratch, &[&rename[..], &["--json"]].concat());
    assert_eq!(run.code, 1, "{run:?}");
    let lines = run.json()["tensors"].clone();
    assert_eq!(lines.as_array().unwrap().len(), 1);
    assert_eq!(
        (&lines[0]["name"], &lines[0]["difference"]),
        (&json!("head"), &json!("values"))
    );
    // A pattern is about the old names and the new ones, in both files.
    for filter in [
        &["--filter", "layer.*"][..],
        &["--filter", "model.layer.*"],
        &["--exclude", "head"],
        &["--exclude", "model.head"],
        &["--filter", "re:layer"],
    ] {
        let run = diff(&scratch, &[&rename[..], filter].concat());
        assert_eq!(
            (run.code, run.out.as_str()),
            (0, "same\n"),
            "{filter:?} {run:?}"
        );
    }
    let back = [
        "diff",
        "b.safetensors",
        "a.safetensors",
        "--rename",
        "s/^model\\.//",
        "--filter",
        "layer.*",
    ];
    assert_eq!(scratch.run(&back).code, 0);
    for (options, why) in [
        (
            &["--filter", "nothing*"][..],
            "--filter \"nothing*\" matches nothing",
        ),
        (
            &["--rename", "s/nothing//"],
            "--rename \"nothing\" matches nothing",
        ),
        (&["--rename", "s/layer.*/x/"], "would both be named"),
        (&["--filter", "["], "[[] is the character"),
    ] {
        let run = diff(&scratch, options);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains(why), "{}", run.err);
    }
}

/// One program may write two pipes in turn: neither may wait for the other.
#[cfg(unix)]
#[test]
fn two_streams_are_read_side_by_side() {
    let scratch = Scratch::new();
    let values: Vec<f32> = (0..300_000u32).map(|i| i as f32).collect();
    file(&scratch, "a.safetensors", &[("w", f32s(&values))]);
    let script = format!(
        "mkfifo x y && (tee x < a.safetensors > y &) && '{}' diff y x && ! '{0}' diff - - < a.safetensors",
        crate::program()
    );
    let output = std::process::Command::new("timeout")
        .args(["60", "sh", "-c", &script])
        .current_dir(scratch.0.path())
        .output()
        .unwrap();
    let run = Run::of(output);
    assert_eq!((run.code, run.out.as_str()), (0, "same\n"), "{run:?}");
    assert!(run.err.contains("standard input can be one"), "{run:?}");
}
