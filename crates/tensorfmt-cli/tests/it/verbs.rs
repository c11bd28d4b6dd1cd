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
    let listed = "metadata \"step\": - / 1\n";
    assert_eq!(run.out, format!("{listed}differ: 1 metadata value\n"));
    let run = scratch.run(&["diff", "x.mag", "y.mag", "--tensors-only"]);
    assert_eq!(run.code, 0);
    let last = "metadata does not count with --tensors-only: same\n";
    assert_eq!(run.out, format!("{listed}{last}"));
    let run = scratch.run(&["diff", "y.mag", "x.zt"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.out
            .ends_with("metadata does not count between two formats: same\n")
    );
    let run = scratch.run(&["diff", "x.mag", "x.mag"]);
    assert_eq!((run.code, &*run.out), (0, "same\n"));
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
        // What has values has bytes; some that has bytes has no values.
        let without_bytes = |name: &serde_json::Value| {
            all.iter()
                .any(|tensor| tensor["name"] == *name && tensor["digest"].is_null())
        };
        let document = run.json();
        let tensors = document["tensors"].as_array().unwrap();
        assert_eq!(tensors.len(), all.len(), "{}", case.name);
        for tensor in tensors.iter().filter(|tensor| tensor["reason"].is_null()) {
            assert!(!without_bytes(&tensor["name"]), "{}", case.name);
        }
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

#[test]
fn diff_of_floats_goes_by_bits_or_as_numpy_is_close() {
    let scratch = Scratch::new();
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let file = |name: &str, values: &[f64]| {
        let tensor = Tensor::from_slice(values, &[values.len() as u64]).unwrap();
        save(&scratch.path(name), &[("w", tensor)]);
    };
    let run = |options: &[&str]| {
        let run = scratch.run(
            &[
                &["diff", "--json", "a.safetensors", "b.safetensors"],
                options,
            ]
            .concat(),
        );
        assert_eq!(
            run.code,
            i32::from(!run.json()["same"].as_bool().unwrap()),
            "{run:?}"
        );
        (run.code, run.json()["tensors"][0].clone())
    };
    // numpy.isclose(a, b, equal_nan=True), element by element.
    for (a, b, options, close) in [
        (0.0, -0.0, &["--atol", "0"][..], true),
        (inf, -inf, &["--rtol", "1e-3"], false),
        (1.0, inf, &["--rtol", "0.5"], false),
        (inf, 1.0, &["--atol", "1e300"], false),
        (inf, inf, &["--rtol", "0"], true),
        (nan, -nan, &["--atol", "0"], true),
        (nan, 1.0, &["--atol", "9"], false),
        (10.0, 11.0, &["--rtol", "0.095"], true),
        (11.0, 10.0, &["--rtol", "0.095"], false),
        (1.0, 1.5, &["--atol", "0.25", "--rtol", "0.2"], true),
        (f64::MAX, -f64::MAX, &["--rtol", "1"], false),
        (f64::MAX, -f64::MAX, &["--rtol", "2"], true),
    ] {
        file("a.safetensors", &[7.0, a]);
        file("b.safetensors", &[7.0, b]);
        let (code, line) = run(options);
        assert_eq!(code, i32::from(!close), "{a} {b} {options:?}: {line}");
        assert!(
            close || line["first_index"] == 1 && line["count"] == 1,
            "{line}"
        );
    }
    file("a.safetensors", &[1.0, nan, inf]);
    file("b.safetensors", &[inf, 2.0, -inf]);
    let (_, line) = run(&["--rtol", "0.1"]);
    assert_eq!(
        (&line["max_abs"], &line["max_rel"]),
        (&json!("inf"), &json!("inf"))
    );
    assert_eq!((&line["count"], &line["nan"]), (&json!(3), &json!(1)));
    file(
        "a.safetensors",
        &[0.0, f64::from_bits(0x7FF8_0000_0000_0001), 3.0],
    );
    file("b.safetensors", &[-0.0, nan, 3.0]);
    let (code, line) = run(&[]);
    assert_eq!((code, &line["difference"]), (1, &json!("bits")));
    assert_eq!(
        (&line["count"], &line["max_abs"]),
        (&json!(2), &json!(null))
    );
    let text = scratch.run(&["diff", "a.safetensors", "b.safetensors"]).out;
    assert!(
        text.contains("w: 2 values differ in the bits only"),
        "{text}"
    );
    assert!(text.ends_with("differ: 1 tensor\n"), "{text}");
    for wrong in ["-1", "nan", "inf"] {
        let run = scratch.run(&["diff", "a.safetensors", "b.safetensors", "--atol", wrong]);
        assert_eq!(run.code, 2, "{wrong}");
    }
}

#[test]
fn diff_of_integers_is_exact() {
    let scratch = Scratch::new();
    let most = u64::MAX;
    let edge = 1i64 << 53;
    save(
        &scratch.path("a.safetensors"),
        &[
            ("u", Tensor::from_slice(&[most, 5], &[2]).unwrap()),
            ("i", Tensor::from_slice(&[edge, i64::MIN], &[2]).unwrap()),
            ("on", raw(DType::Bool, &[1, 2, 0])),
        ],
    );
    save(
        &scratch.path("b.safetensors"),
        &[
            ("u", Tensor::from_slice(&[most - 1, 5], &[2]).unwrap()),
            (
                "i",
                Tensor::from_slice(&[edge + 1, i64::MAX], &[2]).unwrap(),
            ),
            ("on", raw(DType::Bool, &[1, 1, 0])),
        ],
    );
    let run = |options: &[&str]| {
        let run = scratch.run(
            &[
                &["diff", "--json", "a.safetensors", "b.safetensors"],
                options,
            ]
            .concat(),
        );
        run.json()["tensors"].as_array().unwrap().clone()
    };
    let lines = run(&[]);
    assert_eq!(
        (&lines[0]["max_abs"], &lines[0]["count"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&lines[1]["max_abs"], &lines[1]["count"]),
        (&json!(most), &json!(2))
    );
    // A bool of 2 is true, in other bits.
    assert_eq!(
        (&lines[2]["difference"], &lines[2]["first_index"]),
        (&json!("bits"), &json!(1))
    );
    let names = |options: &[&str]| -> Vec<String> {
        let lines = run(options);
        lines
            .iter()
            .map(|line| line["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&["--atol", "0.5"]), ["u", "i"]);
    assert_eq!(names(&["--atol", "1"]), ["i"]);
    assert_eq!(run(&["--atol", "1"])[0]["count"], json!(1));
    // A share of 2^64 - 2 that is just one, or just not.
    assert_eq!(names(&["--rtol", "5.5e-20"]), ["i"]);
    assert_eq!(names(&["--rtol", "5.4e-20"]), ["u", "i"]);
    assert_eq!(names(&["--rtol", "3"]), Vec::<String>::new());
}

#[test]
fn diff_knows_eight_bit_floats_complex_numbers_and_bytes_without_meaning() {
    let scratch = Scratch::new();
    let complex = |halves: [f32; 4]| {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        raw(DType::C64, &bytes)
    };
    save(
        &scratch.path("a.safetensors"),
        &[
            ("f8", raw(DType::F8E4M3, &[0x38, 0x7F, 0x00])),
            ("z", complex([1.0, 2.0, 3.0, 4.0])),
        ],
    );
    save(
        &scratch.path("b.safetensors"),
        &[
            ("f8", raw(DType::F8E4M3, &[0x39, 0xFF, 0x80])),
            ("z", complex([1.0, 2.0, 0.0, 0.0])),
        ],
    );
    let run = |options: &[&str]| {
        let run = scratch.run(
            &[
                &["diff", "--json", "a.safetensors", "b.safetensors"],
                options,
            ]
            .concat(),
        );
        run.json()["tensors"].as_array().unwrap().clone()
    };
    let lines = run(&[]);
    let f8 = &lines[0];
    assert_eq!((&f8["count"], &f8["bits_only"]), (&json!(3), &json!(2)));
    assert_eq!(f8["max_abs"], json!(0.125));
    let z = &lines[1];
    assert_eq!(
        (&z["count"], &z["first_index"], &z["max_abs"]),
        (&json!(1), &json!(1), &json!(5.0))
    );
    assert_eq!(run(&["--atol", "0.125"]).len(), 1);
    assert_eq!(run(&["--atol", "5"]).len(), 0);

    // Packed tensors are told apart by their bytes.
    let packed = test_data::cases("aero").unwrap();
    let packed = packed.iter().find(|case| case.name == "packed").unwrap();
    write(&scratch.path("p.aero"), &packed.bytes);
    let run = scratch.run(&["diff", "p.aero", "p.aero"]);
    assert_eq!((run.code, &*run.out), (0, "same\n"), "{run:?}");
    let listed = scratch.run(&["inspect", "--json", "p.aero"]).json();
    let tensors = listed["tensors"].as_array().unwrap();
    let tensor = tensors
        .iter()
        .find(|tensor| tensor["dtype"] == "packed")
        .unwrap();
    let mut bytes = packed.bytes.clone();
    bytes[usize::try_from(tensor["offset"].as_u64().unwrap()).unwrap() + 1] ^= 1;
    write(&scratch.path("q.aero"), &bytes);
    let run = scratch.run(&["diff", "p.aero", "q.aero"]);
    assert_eq!(run.code, 1);
    let name = tensor["name"].as_str().unwrap();
    let said = format!("{name}: 1 byte differs, first at 1\ndiffer: 1 tensor\n");
    assert_eq!(run.out, said);
}
