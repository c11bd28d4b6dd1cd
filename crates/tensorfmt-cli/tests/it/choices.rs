//! What `convert` does to some tensors and not to others, and how it merges several inputs.

use serde_json::json;
use tensorfmt::{Archive, DType, Tensor, f16, safetensors};

use crate::names::{names_in, with_names};
use crate::{Run, Scratch, write};

/// A file with these tensors, and metadata of text.
fn file(scratch: &Scratch, path: &str, tensors: &[(&str, Tensor)], metadata: &[(&str, &str)]) {
    let mut builder = safetensors::Builder::new();
    for (name, tensor) in tensors {
        builder.tensor(*name, tensor.clone()).unwrap();
    }
    for (key, value) in metadata {
        builder.metadata(*key, *value).unwrap();
    }
    write(&scratch.path(path), builder.to_vec().unwrap());
}

fn floats(values: &[f32], shape: &[u64]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

fn convert(scratch: &Scratch, arguments: &[&str]) -> Run {
    scratch.run(&[&["convert"], arguments].concat())
}

fn read(scratch: &Scratch, path: &str, name: &str) -> Tensor {
    Archive::open(scratch.path(path))
        .unwrap()
        .read(name)
        .unwrap()
}

fn values(scratch: &Scratch, path: &str, name: &str) -> Vec<f32> {
    read(scratch, path, name)
        .to_row_major()
        .unwrap()
        .to_vec()
        .unwrap()
}

#[test]
fn some_tensors_are_cast_and_others_kept() {
    let scratch = Scratch::new();
    let third = 1.0f32 / 3.0;
    let tensors = [
        ("l.0.w", floats(&[third], &[1])),
        ("l.0.norm", floats(&[third], &[1])),
        ("l.1.w", floats(&[third], &[1])),
        ("ids", Tensor::from_slice(&[7i64], &[1]).unwrap()),
    ];
    file(&scratch, "m.safetensors", &tensors, &[]);
    let dtypes = |path: &str| {
        ["l.0.w", "l.0.norm", "l.1.w", "ids"].map(|name| read(&scratch, path, name).dtype())
    };
    let cast = |options: &[&str]| {
        let run = convert(
            &scratch,
            &[&["m.safetensors", "o.safetensors", "--force"], options].concat(),
        );
        assert_eq!(run.code, 0, "{run:?}");
        run.err
    };
    cast(&["--cast", "f16", "--keep", "*norm"]);
    assert_eq!(
        dtypes("o.safetensors"),
        [DType::F16, DType::F32, DType::F16, DType::I64]
    );
    assert_eq!(
        read(&scratch, "o.safetensors", "l.0.w")
            .to_vec::<f16>()
            .unwrap(),
        [f16::from_f32(third)]
    );
    assert_eq!(values(&scratch, "o.safetensors", "l.0.norm"), [third]);
    // A choice of some leaves the others, and the last one that matches decides.
    cast(&["--cast", "l.*=bf16", "--cast", "re:norm$=float64"]);
    assert_eq!(
        dtypes("o.safetensors"),
        [DType::BF16, DType::F64, DType::BF16, DType::I64]
    );
    // It comes before the cast of all, and what is kept is kept.
    cast(&[
        "--cast",
        "f64",
        "--cast",
        "l.0.*=f16",
        "--keep",
        "l.0.w",
        "--cast",
        "ids=i32",
    ]);
    assert_eq!(
        dtypes("o.safetensors"),
        [DType::F32, DType::F16, DType::F64, DType::I32]
    );
    // What a cast is not about, and what was kept for nothing, is said.
    let said = cast(&["--cast", "l.*=f16", "--cast", "ids=f16"]);
    assert!(
        said.contains("--cast changed nothing: \"ids=f16\""),
        "{said}"
    );
    let said = cast(&["--cast", "f16", "--keep", "ids"]);
    assert!(said.contains("--keep changed nothing"), "{said}");
    for (options, why) in [
        (
            &["--cast", "nothing*=f16"][..],
            "--cast \"nothing*\" matches nothing",
        ),
        (
            &["--cast", "f16", "--keep", "nothing*"],
            "--keep \"nothing*\" matches nothing",
        ),
        (&["--keep", "ids"], "--cast"),
        (&["--cast", "ids="], "not a dtype"),
        (&["--cast", "ids=f17"], "not a dtype"),
        (&["--cast", "f16", "--cast", "f32"], "one cast already"),
    ] {
        let run = convert(
            &scratch,
            &[&["m.safetensors", "x.safetensors"], options].concat(),
        );
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            run.err.contains(why) && !scratch.path("x.safetensors").exists(),
            "{run:?}"
        );
    }
    let strict = [
        "m.safetensors",
        "x.safetensors",
        "--strict",
        "--cast",
        "ids=f16",
    ];
    assert_eq!(convert(&scratch, &strict).code, 4);
    // What the target can't hold can't be asked for.
    let run = convert(&scratch, &["m.safetensors", "x.model", "--cast", "l.*=f64"]);
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn dims_are_swapped_with_their_values_from_any_format_to_any() {
    let scratch = Scratch::new();
    let tensors = [
        ("w", floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])),
        ("b", floats(&[7.0, 8.0], &[2])),
        ("r", floats(&[9.0, 10.0], &[1, 2])),
    ];
    file(&scratch, "m.safetensors", &tensors, &[("k", "v")]);
    for from in [
        "m.safetensors",
        "m.mag",
        "m.model",
        "m.zt",
        "m.bpk",
        "m.aero",
    ] {
        if from != "m.safetensors" {
            assert_eq!(convert(&scratch, &["m.safetensors", from, "-q"]).code, 0);
        }
        for to in [
            "o.safetensors",
            "o.model",
            "o.zt",
            "o.bpk",
            "o.aero",
            "o.mag",
        ] {
            let run = convert(&scratch, &[from, to, "--transpose", "w", "--force"]);
            assert_eq!(run.code, 0, "{run:?}");
            let w = read(&scratch, to, "w");
            assert_eq!(w.shape().dims(), [3, 2], "{from} {to}");
            assert_eq!(
                values(&scratch, to, "w"),
                [1.0, 4.0, 2.0, 5.0, 3.0, 6.0],
                "{from} {to}"
            );
            assert_eq!(values(&scratch, to, "b"), [7.0, 8.0]);
            // Twice is the old one.
            let run = convert(
                &scratch,
                &[to, "t.safetensors", "--transpose", "w", "--force"],
            );
            assert_eq!(run.code, 0, "{run:?}");
            assert_eq!(
                values(&scratch, "t.safetensors", "w"),
                [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
            );
        }
    }
    let both = [
        "m.safetensors",
        "o.zt",
        "--force",
        "--transpose",
        "[wr]",
        "--cast",
        "w=f64",
        "--zstd",
    ];
    assert_eq!(convert(&scratch, &both).code, 0);
    let w = read(&scratch, "o.zt", "w").to_vec::<f64>().unwrap();
    assert_eq!(w, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(read(&scratch, "o.zt", "r").shape().dims(), [2, 1]);
    // Compressed, and copied within its format.
    let again = ["o.zt", "p.zt", "--transpose", "w"];
    assert_eq!(convert(&scratch, &again).code, 0);
    let w = read(&scratch, "p.zt", "w").to_vec::<f64>().unwrap();
    assert_eq!(w, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);

    let run = convert(
        &scratch,
        &["m.safetensors", "x.mag", "--transpose", "{w,b}"],
    );
    assert_eq!(run.code, 4, "{run:?}");
    assert!(
        run.err
            .contains("tensor \"b\" (f32): two dims can be swapped, and it is [2]"),
        "{run:?}"
    );
    let run = convert(&scratch, &["m.safetensors", "x.mag", "--transpose", "v"]);
    assert_eq!(run.code, 2, "{run:?}");
    let keep = [
        "m.safetensors",
        "x.model",
        "--transpose",
        "w",
        "--layout",
        "keep-bytes",
    ];
    let run = convert(&scratch, &keep);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(!scratch.path("x.mag").exists() && !scratch.path("x.model").exists());
    let run = convert(&scratch, &["m.safetensors", "x.mag", "--transpose", "r"]);
    assert!(
        run.code == 0 && run.err.contains("no value moves"),
        "{run:?}"
    );
}

#[test]
fn a_table_renames_all_at_once() {
    let scratch = Scratch::new();
    with_names(&scratch, "m.safetensors", &["a", "b", "c", "x.y z"]);
    let rename = |table: &str, options: &[&str]| {
        write(&scratch.path("t"), table);
        let fixed = [
            "m.safetensors",
            "o.safetensors",
            "--force",
            "--rename-table",
            "t",
        ];
        convert(&scratch, &[&fixed[..], options].concat())
    };
    for table in [
        "a\tb\nb\ta\n",
        "a\tb\r\n\r\nb\ta",
        "{\"a\": \"b\",\n \"b\": \"a\"}\n",
        "\u{FEFF}a\tb\nb\ta",
    ] {
        let run = rename(table, &[]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
        assert_eq!(
            names_in(&scratch, "o.safetensors"),
            ["b", "a", "c", "x.y z"],
            "{table:?}"
        );
        assert_eq!(values(&scratch, "o.safetensors", "b"), [0.0]);
    }
    // Before --rename, and about names as they are.
    assert_eq!(rename("x.y z\tq\n", &["--rename", "s/q/r/"]).code, 0);
    assert_eq!(names_in(&scratch, "o.safetensors"), ["a", "b", "c", "r"]);
    let run = rename("a\td\ne\tf\ng\th\n", &[]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.err
            .contains("2 of 3 names in t are those of no tensor: \"e\", \"g\""),
        "{}",
        run.err
    );
    for (table, why) in [
        ("a b\n", "line 1 is not an old name"),
        ("a\tb\nb\n", "line 2"),
        ("a\tb\tc\n", "line 1"),
        ("a\tx\na\ty\n", "\"a\" is renamed twice"),
        ("{\"a\": \"x\", \"a\": \"y\"}", "\"a\" is renamed twice"),
        ("{\"a\": 1}", "invalid type"),
        ("{\"a\": \"b\"} x", "trailing"),
        ("\n", "renames nothing"),
        ("q\tr\n", "matches nothing"),
        ("a\tb\n", "two tensors would be named \"b\""),
    ] {
        let run = rename(table, &[]);
        assert_eq!(run.code, 2, "{table:?}: {run:?}");
        assert!(run.err.contains(why), "{table:?}: {}", run.err);
    }
    let gone = [
        "m.safetensors",
        "o.safetensors",
        "--force",
        "--rename-table",
        "gone",
    ];
    assert_eq!(convert(&scratch, &gone).code, 3);
    assert!(
        rename("a\ta\n", &[])
            .err
            .contains("--rename-table changed nothing")
    );
}

#[test]
fn several_inputs_become_one_model() {
    let scratch = Scratch::new();
    let kept = [("format", "pt"), ("of", "a")];
    file(
        &scratch,
        "a.safetensors",
        &[("x", floats(&[1.0], &[1])), ("y", floats(&[2.0], &[1]))],
        &kept,
    );
    file(
        &scratch,
        "b.safetensors",
        &[("z", floats(&[3.0], &[1]))],
        &[("format", "pt"), ("b", "1")],
    );
    assert_eq!(convert(&scratch, &["b.safetensors", "b.mag", "-q"]).code, 0);
    assert_eq!(
        convert(&scratch, &["b.safetensors", "b.model", "-q"]).code,
        0
    );
    for (b, out) in [
        ("b.safetensors", "o.safetensors"),
        ("b.safetensors", "o.zt"),
        ("b.mag", "o.safetensors"),
        ("b.mag", "p.mag"),
        ("b.model", "o.model"),
        ("b.model", "o.bpk"),
    ] {
        for (first, second) in [("a.safetensors", b), (b, "a.safetensors")] {
            let run = convert(&scratch, &[first, second, out, "--force"]);
            assert_eq!(run.code, 0, "{run:?}");
            for (name, value) in [("x", 1.0), ("y", 2.0), ("z", 3.0)] {
                assert_eq!(
                    values(&scratch, out, name),
                    [value],
                    "{first} {second} {out}"
                );
            }
        }
    }
    assert_eq!(
        convert(
            &scratch,
            &["a.safetensors", "b.safetensors", "o.safetensors", "--force"]
        )
        .code,
        0
    );
    assert_eq!(names_in(&scratch, "o.safetensors"), ["x", "y", "z"]);
    let metadata = scratch.run(&["inspect", "--json", "o.safetensors"]).json()["metadata"].clone();
    assert_eq!(metadata, json!({"b": "1", "format": "pt", "of": "a"}));
    // Options are about all of them, and one that matches in one is not idle.
    let some = [
        "a.safetensors",
        "b.safetensors",
        "o.safetensors",
        "--force",
        "--exclude",
        "z",
        "--rename",
        "s/x/w/",
    ];
    assert_eq!(convert(&scratch, &some).code, 0);
    assert_eq!(names_in(&scratch, "o.safetensors"), ["w", "y"]);
}

#[test]
fn what_two_inputs_have_is_refused_unless_one_is_chosen() {
    let scratch = Scratch::new();
    file(
        &scratch,
        "a.safetensors",
        &[("s", floats(&[1.0], &[1])), ("d", floats(&[2.0], &[1]))],
        &[("k", "a")],
    );
    file(
        &scratch,
        "b.safetensors",
        &[("s", floats(&[1.0], &[1])), ("e", floats(&[4.0], &[1]))],
        &[("k", "b")],
    );
    file(
        &scratch,
        "c.safetensors",
        &[("d", floats(&[5.0], &[1])), ("f", floats(&[6.0], &[1]))],
        &[],
    );
    file(
        &scratch,
        "h.safetensors",
        &[("d", floats(&[2.0, 2.0], &[2]))],
        &[],
    );
    let n = Tensor::from_slice(&[f16::from_f32(2.0)], &[1]).unwrap();
    file(&scratch, "n.safetensors", &[("d", n)], &[]);
    let merge = |inputs: &[&str], options: &[&str]| {
        convert(
            &scratch,
            &[inputs, &["o.safetensors", "--force"], options].concat(),
        )
    };
    let (a, b, c) = ("a.safetensors", "b.safetensors", "c.safetensors");
    let run = merge(&[a, b, c], &[]);
    assert_eq!(run.code, 2, "{run:?}");
    for said in [
        "tensor \"s\" is in a.safetensors and in b.safetensors",
        "tensor \"d\" is in a.safetensors and in c.safetensors",
        "metadata \"k\" is in a.safetensors and in b.safetensors",
        "--on-duplicate",
    ] {
        assert!(run.err.contains(said), "{said}: {}", run.err);
    }
    assert!(!scratch.path("o.safetensors").exists());
    let metadata =
        || scratch.run(&["inspect", "--json", "o.safetensors"]).json()["metadata"]["k"].clone();
    for (which, d, k) in [("first", 2.0, "a"), ("last", 5.0, "b")] {
        let run = merge(&[a, b, c], &["--on-duplicate", which]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(
            run.err.contains("left out 2 tensors and 1 metadata values"),
            "{}",
            run.err
        );
        assert_eq!(
            names_in(&scratch, "o.safetensors"),
            ["s", "d", "e", "f"],
            "{which}"
        );
        assert_eq!(values(&scratch, "o.safetensors", "d"), [d]);
        assert_eq!(metadata(), k);
    }
    // Only what is the same bit by bit.
    let same = |inputs: &[&str]| merge(inputs, &["--on-duplicate", "same"]);
    let run = same(&[a, b]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.err.contains("metadata \"k\"") && !run.err.contains("tensor \"s\""),
        "{}",
        run.err
    );
    for (other, why) in [
        (c, "with other values"),
        ("h.safetensors", "of shape [1] and [2]"),
        ("n.safetensors", "f32 and f16"),
    ] {
        let run = same(&[a, other]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            run.err.contains(why) && run.err.contains(other),
            "{}",
            run.err
        );
    }
    assert_eq!(convert(&scratch, &[a, "t.zt", "-q"]).code, 0);
    let run = same(&[a, "t.zt"]);
    assert_eq!(run.code, 0, "{run:?}");
    // What isn't converted is in nobody's way.
    assert_eq!(merge(&[a, c], &["--exclude", "d"]).code, 0);
    let idle = merge(&[b, c], &["--on-duplicate", "first"]);
    assert!(
        idle.code == 0 && idle.err.contains("--on-duplicate changed nothing"),
        "{idle:?}"
    );
}

#[test]
fn no_input_of_a_merge_is_written_over() {
    let scratch = Scratch::new();
    with_names(&scratch, "model-1.safetensors", &["x"]);
    with_names(&scratch, "model-2.safetensors", &["y"]);
    let before = std::fs::read(scratch.path("model-2.safetensors")).unwrap();
    // A pattern of the shell that stands for two files, or for three.
    let run = convert(&scratch, &["model-1.safetensors", "model-2.safetensors"]);
    assert_eq!(run.code, 2, "{run:?}");
    with_names(&scratch, "model-3.safetensors", &["z"]);
    let all = [
        "model-1.safetensors",
        "model-2.safetensors",
        "model-3.safetensors",
    ];
    assert_eq!(convert(&scratch, &all).code, 2);
    for out in ["model-1.safetensors", "./model-2.safetensors"] {
        let run = convert(
            &scratch,
            &["model-1.safetensors", "model-2.safetensors", out, "--force"],
        );
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            run.err.contains("is, or leads to, the input"),
            "{}",
            run.err
        );
        let run = convert(
            &scratch,
            &[
                "model-1.safetensors",
                "model-2.safetensors",
                out,
                "--in-place",
            ],
        );
        assert_eq!(run.code, 2, "{run:?}");
    }
    assert!(before == std::fs::read(scratch.path("model-2.safetensors")).unwrap());
    // A damaged input is as damaged as one alone.
    let sums = ["model-1.safetensors", "bad.zt", "--checksum", "crc32c"];
    assert_eq!(convert(&scratch, &sums).code, 0);
    let mut damaged = std::fs::read(scratch.path("bad.zt")).unwrap();
    damaged[64] ^= 1;
    write(&scratch.path("bad.zt"), damaged);
    let run = convert(&scratch, &["model-2.safetensors", "bad.zt", "o.mag"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.err.contains("bad.zt: x: FAILED") && !scratch.path("o.mag").exists(),
        "{run:?}"
    );
    let run = convert(&scratch, &["model-1.safetensors", "gone.mag", "o.mag"]);
    assert_eq!(run.code, 3, "{run:?}");
}
