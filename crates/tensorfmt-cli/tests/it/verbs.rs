//! What diff, stats and extract say.

use serde_json::json;
use tensorfmt::{DType, Order, Shape, Tensor, primitiv, safetensors};

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
        let document = run.json();
        let tensors = document["tensors"].as_array().unwrap();
        assert_eq!(tensors.len(), all.len(), "{}", case.name);
        let counted = tensors.iter().filter(|tensor| tensor["reason"].is_null());
        assert_eq!(counted.count(), readable.count(), "{}", case.name);
        // What has no values is named, with the file and the dtype.
        for tensor in tensors.iter().filter(|tensor| !tensor["reason"].is_null()) {
            let (dtype, reason) = (&tensor["dtype"], &tensor["reason"]);
            let (dtype, reason) = (dtype.as_str().unwrap(), reason.as_str().unwrap());
            let said = format!("u.mag: {} ({dtype}): {reason}", tensor["name"]);
            assert!(run.err.contains(&said), "{said}: {run:?}");
        }
        seen += 1;
    }
    assert!(seen > 0);
}

fn save(path: &std::path::Path, tensors: &[(&str, Tensor)]) {
    let mut builder = safetensors::Builder::new();
    for (name, tensor) in tensors {
        builder.tensor(*name, tensor.clone()).unwrap();
    }
    write(path, builder.to_vec().unwrap());
}

fn raw(dtype: DType, data: &[u8]) -> Tensor {
    let count = data.len() as u64 / dtype.size().unwrap();
    Tensor::new(dtype, Shape::new(&[count]).unwrap(), data.to_vec()).unwrap()
}

#[test]
fn stats_never_take_an_integer_through_a_float() {
    let scratch = Scratch::new();
    let signed = [i64::MAX, (1 << 53) + 1, i64::MIN, 5];
    let unsigned = [u64::MAX, u64::MAX - 2];
    let tensors = [
        ("i", Tensor::from_slice(&signed, &[4]).unwrap()),
        ("u", Tensor::from_slice(&unsigned, &[2]).unwrap()),
        ("on", raw(DType::Bool, &[1, 0, 1])),
        ("small", Tensor::from_slice(&[-127i8, 3], &[2]).unwrap()),
    ];
    save(&scratch.path("n.safetensors"), &tensors);
    let run = scratch.run(&["stats", "--json", "n.safetensors"]);
    assert_eq!(run.code, 0, "{run:?}");
    let document = run.json();
    let (i, u, on) = (
        &document["tensors"][0],
        &document["tensors"][1],
        &document["tensors"][2],
    );
    assert_eq!((&i["min"], &i["max"]), (&json!(i64::MIN), &json!(i64::MAX)));
    // Rank 0.5 * 3, rounded down: of -2^63, 5, 2^53 + 1, 2^63 - 1 the second.
    assert_eq!(i["quantiles"][2], json!([0.5, 5]));
    assert_eq!(i["quantiles"][3], json!([0.75, 9_007_199_254_740_993u64]));
    assert_eq!(i["histogram_range"], json!([i64::MIN, i64::MAX]));
    assert_eq!(
        (&u["min"], &u["max"]),
        (&json!(u64::MAX - 2), &json!(u64::MAX))
    );
    assert_eq!(u["std"], json!(1.0));
    assert_eq!((&on["min"], &on["max"]), (&json!(0), &json!(1)));
    let totals = document["totals"].as_array().unwrap();
    let total = totals.iter().find(|total| total["dtype"] == "u64").unwrap();
    assert_eq!(total["max"], json!(u64::MAX));
    let text = scratch.run(&["stats", "n.safetensors"]).out;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("  min -9223372036854775808  max 9223372036854775807  mean "));
    assert!(text.contains("min -127  max 3  mean -62.000000"), "{text}");
    assert!(text.contains("1% 18446744073709551613"), "{text}");
    assert!(text.contains("min 0  max 1  mean 0.666667"), "{text}");
}

#[test]
fn stats_know_eight_bit_floats_and_count_complex_numbers() {
    let scratch = Scratch::new();
    let complex: Vec<u8> = [0.0f32, 0.0, 1.0, f32::NAN, f32::INFINITY, 0.0, 0.0, 2.0]
        .iter()
        .flat_map(|half| half.to_le_bytes())
        .collect();
    let huge = [f64::MAX, f64::MAX, f64::MAX / 2.0, f64::MAX / 2.0];
    let tensors = [
        ("w", raw(DType::F8E4M3, &[0x38, 0xC0, 0x7E, 0x7F, 0x00])),
        ("g", raw(DType::F8E5M2, &[0x7C, 0x3C])),
        ("s", raw(DType::F8E8M0, &[0x7F, 0x81])),
        ("z", raw(DType::C64, &complex)),
        ("h", Tensor::from_slice(&huge, &[4]).unwrap()),
    ];
    save(&scratch.path("f.safetensors"), &tensors);
    let run = scratch.run(&["stats", "--json", "f.safetensors"]);
    assert_eq!((run.code, &*run.err), (0, ""), "{run:?}");
    let document = run.json();
    let of = |at: usize| document["tensors"][at].clone();
    let w = of(0);
    assert_eq!((&w["min"], &w["max"]), (&json!(-2.0), &json!(448.0)));
    assert_eq!((&w["nan"], &w["zeros"]), (&json!(1), &json!(1)));
    assert_eq!(w["mean"], json!(111.75));
    assert_eq!(w["histogram"][19], json!(1));
    assert_eq!((&of(1)["max"], &of(1)["inf"]), (&json!("inf"), &json!(1)));
    assert_eq!(of(2)["quantiles"][4], json!([0.99, 1.0]));
    let z = of(3);
    assert_eq!(
        (&z["count"], &z["nan"], &z["inf"], &z["zeros"]),
        (&json!(4), &json!(1), &json!(1), &json!(1))
    );
    assert!(z["min"].is_null() && z["note"].as_str().unwrap().contains("no order"));
    assert_eq!(of(4)["mean"], json!(f64::MAX * 0.75));
    assert_eq!(of(4)["std"], json!(f64::MAX * 0.25));
    let text = scratch.run(&["stats", "f.safetensors"]).out;
    assert!(text.contains("complex numbers have no order"), "{text}");
}

/// Damage in one tensor is the file's fault, and keeps nobody from the rest.
#[test]
fn stats_of_a_damaged_tensor_exit_as_the_damage_does() {
    let scratch = Scratch::new();
    let run = scratch.run(&["convert", "demo.mag", "x.zt", "--zstd", "3"]);
    assert_eq!(run.code, 0, "{run:?}");
    let listed = scratch.run(&["inspect", "--json", "x.zt"]).json();
    let first = &listed["tensors"][0];
    let at = usize::try_from(first["offset"].as_u64().unwrap()).unwrap();
    let mut bytes = std::fs::read(scratch.path("x.zt")).unwrap();
    bytes[at..at + 8].fill(0xFF);
    write(&scratch.path("x.zt"), &bytes);
    let run = scratch.run(&["stats", "--json", "x.zt"]);
    assert_eq!(run.code, 1, "{run:?}");
    let tensors = run.json()["tensors"].as_array().unwrap().clone();
    assert_eq!(tensors.len(), listed["tensors"].as_array().unwrap().len());
    assert!(
        tensors[0]["reason"].as_str().unwrap().contains("zstd"),
        "{tensors:?}"
    );
    assert!(tensors[1]["reason"].is_null());
    let said = format!(
        "x.zt: {} ({}): ",
        first["name"],
        first["dtype"].as_str().unwrap()
    );
    assert!(run.err.contains(&said), "{run:?}");
}
