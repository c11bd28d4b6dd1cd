//! What diff, stats and extract say.

use serde_json::json;
use tensorfmt::{Order, Tensor, primitiv, safetensors};

use crate::{Scratch, write};

#[test]
fn extract_writes_numpy_files_and_bytes() {
    let scratch = Scratch::new();
    let run = scratch.run(&["extract", "demo.mag", "vocabulary.ids", "-o", "ids.npy"]);
    assert_eq!(run.code, 0, "{run:?}");
    let npy = std::fs::read(scratch.path("ids.npy")).unwrap();
    assert_eq!(npy[..8], *b"\x93NUMPY\x01\x00");
    assert_eq!(npy.len(), 128 + 16);
    let head = std::str::from_utf8(&npy[10..128]).unwrap();
    assert!(head.starts_with("{'descr': '<i4', 'fortran_order': False, 'shape': (4, ), }"));
    assert!(head.ends_with(" \n"));
    assert_eq!(npy[128..132], 101u32.to_le_bytes());

    assert_eq!(
        scratch
            .run(&["extract", "demo.mag", "vocabulary.ids", "-o", "ids.npy"])
            .code,
        2
    );
    let run = scratch.run(&["extract", "demo.mag", "vocabulary.ids", "-o", "ids.bin"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(std::fs::read(scratch.path("ids.bin")).unwrap(), npy[128..]);

    let run = scratch.run(&["extract", "demo.mag", "encoder.wieght", "-o", "w.npy"]);
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("did you mean \"encoder.weight\""),
        "{}",
        run.err
    );
    assert_eq!(
        scratch
            .run(&["extract", "demo.mag", "encoder.bias", "-o", "w.txt"])
            .code,
        2
    );
}

#[test]
fn what_numpy_cannot_hold_is_named() {
    let scratch = Scratch::new();
    let mut builder = safetensors::Builder::new();
    let brain = tensorfmt::bf16::from_f32(1.5);
    builder
        .tensor("b", Tensor::from_slice(&[brain], &[1]).unwrap())
        .unwrap();
    write(&scratch.path("b.safetensors"), builder.to_vec().unwrap());
    let run = scratch.run(&["extract", "b.safetensors", "b", "-o", "b.npy"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(!scratch.path("b.npy").exists());
}

#[test]
fn stats_are_exact_and_strict_json() {
    let scratch = Scratch::new();
    let mut builder = safetensors::Builder::new();
    let values = [3.0f32, -1.0, 0.0, 2.0, 1.0, f32::NAN, 5.0, 4.0];
    builder
        .tensor("v", Tensor::from_slice(&values, &[8]).unwrap())
        .unwrap();
    let infinite = [f32::INFINITY, 1.0, f32::NEG_INFINITY];
    builder
        .tensor("i", Tensor::from_slice(&infinite, &[3]).unwrap())
        .unwrap();
    builder
        .tensor("e", Tensor::from_slice::<f32>(&[], &[3, 0]).unwrap())
        .unwrap();
    write(&scratch.path("s.safetensors"), builder.to_vec().unwrap());
    let run = scratch.run(&["stats", "--json", "s.safetensors"]);
    assert_eq!(run.code, 0, "{run:?}");
    let tensors = run.json()["tensors"].clone();
    let v = &tensors[0];
    assert_eq!(
        (&v["count"], &v["nan"], &v["zeros"]),
        (&json!(8), &json!(1), &json!(1))
    );
    assert_eq!(
        (&v["min"], &v["max"], &v["mean"]),
        (&json!(-1.0), &json!(5.0), &json!(2.0))
    );
    assert_eq!(v["std"], json!(2.0));
    assert_eq!(
        v["quantiles"],
        json!([
            [0.01, -1.0],
            [0.25, 0.0],
            [0.5, 2.0],
            [0.75, 3.0],
            [0.99, 4.0]
        ])
    );
    let sum: u64 = v["histogram"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(sum, 7);
    let i = &tensors[1];
    assert_eq!(
        (&i["min"], &i["max"], &i["inf"]),
        (&json!("-inf"), &json!("inf"), &json!(2))
    );
    assert_eq!(i["mean"], json!(1.0));
    let e = &tensors[2];
    assert_eq!(
        (&e["count"], &e["min"], &e["mean"]),
        (&json!(0), &json!(null), &json!(null))
    );
    assert_eq!(scratch.run(&["stats", "s.safetensors"]).code, 0);
}

#[test]
fn diff_finds_each_kind_of_difference() {
    let scratch = Scratch::new();
    let save = |name: &str, tensors: &[(&str, Tensor)]| {
        let mut builder = safetensors::Builder::new();
        for (name, tensor) in tensors {
            builder.tensor(*name, tensor.clone()).unwrap();
        }
        write(&scratch.path(name), builder.to_vec().unwrap());
    };
    let floats = |values: &[f32]| Tensor::from_slice(values, &[values.len() as u64]).unwrap();
    let ints = |values: &[i32]| Tensor::from_slice(values, &[values.len() as u64]).unwrap();
    save(
        "a.safetensors",
        &[
            ("nan", floats(&[f32::NAN])),
            ("value", floats(&[1.0, 2.0, 3.0])),
            ("shape", floats(&[1.0])),
            ("dtype", floats(&[1.0])),
            ("gone", floats(&[1.0])),
        ],
    );
    save(
        "b.safetensors",
        &[
            ("nan", floats(&[f32::NAN])),
            ("value", floats(&[1.0, 2.5, 3.0])),
            ("shape", floats(&[1.0, 1.0])),
            ("dtype", ints(&[1])),
            ("new", floats(&[1.0])),
        ],
    );
    assert_eq!(
        scratch
            .run(&["diff", "a.safetensors", "a.safetensors"])
            .code,
        0
    );
    let run = scratch.run(&["diff", "--json", "a.safetensors", "b.safetensors"]);
    assert_eq!(run.code, 1);
    let document = run.json();
    let found: Vec<_> = document["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            (
                line["name"].as_str().unwrap(),
                line["difference"].as_str().unwrap(),
            )
        })
        .collect();
    let want = [
        ("value", "values"),
        ("shape", "shape"),
        ("dtype", "dtype"),
        ("gone", "only_in_a"),
        ("new", "only_in_b"),
    ];
    assert_eq!(found, want);
    let value = &document["tensors"][0];
    assert_eq!(
        (&value["count"], &value["first_index"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&value["max_abs"], &value["max_rel"]),
        (&json!(0.5), &json!(0.2))
    );

    save("c.safetensors", &[("value", floats(&[1.0, 2.0, 3.0]))]);
    save("d.safetensors", &[("value", floats(&[1.0, 2.001, 3.0]))]);
    assert_eq!(
        scratch
            .run(&["diff", "c.safetensors", "d.safetensors"])
            .code,
        1
    );
    let close = ["diff", "--rtol", "1e-3", "c.safetensors", "d.safetensors"];
    assert_eq!(scratch.run(&close).code, 0);

    // NaN is the same as itself by its bits, and as any other NaN where numbers are compared.
    let other = f32::from_bits(0xFFC0_0001);
    save("e.safetensors", &[("value", floats(&[f32::NAN, 1.0]))]);
    save("f.safetensors", &[("value", floats(&[other, 1.0]))]);
    for (a, b, options, code) in [
        ("e.safetensors", "e.safetensors", &[][..], 0),
        ("e.safetensors", "f.safetensors", &[], 1),
        ("e.safetensors", "f.safetensors", &["--atol", "0.1"], 0),
    ] {
        let run = scratch.run(&[&["diff", a, b], options].concat());
        assert_eq!(run.code, code, "{a} {b} {options:?}: {run:?}");
    }
    assert_eq!(scratch.run(&["diff", "c.safetensors", "absent"]).code, 3);
}

#[test]
fn the_same_values_in_another_order_and_format_are_the_same() {
    let scratch = Scratch::new();
    let mut builder = primitiv::Builder::new();
    let tensor = Tensor::from_slice(&[0.0f32, 3.0, 1.0, 4.0, 2.0, 5.0], &[2, 3]).unwrap();
    builder
        .tensor("w", tensor.with_order(Order::ColumnMajor))
        .unwrap();
    builder.write_file(scratch.path("x.model")).unwrap();
    for name in [
        "x.mag",
        "x.zt",
        "x.bpk",
        "x.aero",
        "x.aeroset.json",
        "x.safetensors",
    ] {
        assert_eq!(scratch.run(&["convert", "x.model", name]).code, 0);
        let run = scratch.run(&["diff", "x.model", name]);
        // A format may add metadata of its own.
        assert!(
            run.code == 0 && run.out.ends_with("same\n"),
            "{name}: {run:?}"
        );
    }
    // Metadata counts between files of one format.
    let run = scratch.run(&["convert", "x.mag", "y.mag", "--set-metadata", "step=1"]);
    assert_eq!(run.code, 0);
    let run = scratch.run(&["diff", "x.mag", "y.mag"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.out, "metadata \"step\": - / 1\n");
}

/// What can't be read keeps nobody from the rest.
#[test]
fn stats_pass_over_what_cannot_be_read() {
    let scratch = Scratch::new();
    let mut seen = 0;
    for case in test_data::cases("mag").unwrap() {
        if !matches!(case.expect, test_data::Expect::Unsupported(_)) {
            continue;
        }
        write(&scratch.path("u.mag"), &case.bytes);
        if scratch.run(&["inspect", "u.mag"]).code != 0 {
            continue;
        }
        let run = scratch.run(&["stats", "--json", "u.mag"]);
        assert_eq!(run.code, 4, "{}: {run:?}", case.name);
        let all = scratch.run(&["hash", "--json", "u.mag"]).json();
        let all = all["tensors"].as_array().unwrap();
        let readable = all.iter().filter(|tensor| !tensor["digest"].is_null());
        let counted = run.json()["tensors"].as_array().unwrap().len();
        assert_eq!(counted, readable.count(), "{}", case.name);
        seen += 1;
    }
    assert!(seen > 0);
}
