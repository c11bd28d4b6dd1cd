//! What people see, line by line: texts and tables at 80 columns, and words that help. What a page looks like is
//! looked at in a browser, by `cargo xtask browser`.

use std::fs;

use crate::safetensors::file;
use crate::{Scratch, write};

/// The lines of a listing after its first, with single spaces.
fn lines(text: &str) -> Vec<String> {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().skip(1).map(squeezed).collect()
}

/// A tensor's line says what is special about it, not what all of the format have.
#[test]
fn a_listing_says_once_what_all_tensors_have_in_common() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::primitiv::Builder::new();
    for name in ["a.w", "a.b"] {
        let tensor = tensorfmt::Tensor::from_slice(&[1.0f32, 2.0], &[2, 1]).unwrap();
        builder.tensor(name, tensor).unwrap();
    }
    builder.write_file(scratch.path("m.model")).unwrap();
    let listed = scratch.run(&["inspect", "m.model"]).out;
    assert_eq!(listed.matches("column-major").count(), 1, "{listed}");
    assert!(!listed.contains("path="), "{listed}");
    for line in ["order: column-major, all tensors", "a.w f32 [2] 8"] {
        let shown = lines(&listed);
        assert!(
            shown.iter().any(|shown| shown.starts_with(line)),
            "{listed}"
        );
    }
    let run = scratch.run(&["convert", "-q", "m.model", "m.bpk"]);
    assert_eq!(run.code, 0, "{run:?}");
    let listed = scratch.run(&["inspect", "m.bpk"]).out;
    for empty in ["scalars", "trailing_bytes", "{}"] {
        assert!(!listed.contains(empty), "{listed}");
    }
}

/// A folder is its files where several are taken; else what could be meant in it is named, sets first.
#[test]
fn a_folder_is_answered_with_what_is_in_it() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("f")).unwrap();
    for target in ["f/m.aeroset.json", "f/a.mag"] {
        let run = scratch.run(&["convert", "-q", "demo.mag", target]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    let run = scratch.run(&["inspect", "f"]);
    assert_eq!(run.code, 0, "{run:?}");
    for (file, times) in [
        ("f/m.aeroset.json: ", 1),
        ("f/a.mag: ", 1),
        ("part-000.aero: ", 0),
    ] {
        assert_eq!(run.out.matches(file).count(), times, "{}", run.out);
    }
    let run = scratch.run(&["extract", "f", "w", "-o", "w.npy"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("it holds f/m.aeroset.json"), "{}", run.err);
}

/// Digests of tensors depend on the order of their elements; the help says so, and what doesn't.
#[test]
fn the_help_of_hash_says_which_digests_are_the_same_elsewhere() {
    let scratch = Scratch::new();
    let help = scratch.run(&["hash", "--help"]).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "a column-major format (primitiv) and a row-major one give the same tensor different digests",
        "the digest of the model, which is the same in every format and order",
    ] {
        assert!(help.contains(words), "{help}");
    }
}

/// What looks the same is the same: an escape of ours is no text of the file, and no two blanks are alike.
#[test]
fn names_that_differ_never_look_alike() {
    let scratch = Scratch::new();
    let names = [
        "a\nb",
        "a\\nb",
        "a b",
        "a\u{a0}b",
        "a\u{2003}b",
        "a\u{2800}b",
        "ab",
        "a\u{200b}b",
    ];
    let mut builder = tensorfmt::safetensors::Builder::new();
    for (at, name) in (0u8..).zip(names) {
        let tensor = tensorfmt::Tensor::from_slice(&[at], &[1]).unwrap();
        builder.tensor(name, tensor).unwrap();
        builder.metadata(name, name).unwrap();
    }
    builder.write_file(scratch.path("m.safetensors")).unwrap();
    let empty = tensorfmt::safetensors::Builder::new();
    empty.write_file(scratch.path("none.safetensors")).unwrap();
    let shown = [
        r"a\nb",
        r"a\\nb",
        "a b",
        r"a\u{a0}b",
        r"a\u{2003}b",
        r"a\u{2800}b",
        "ab",
        r"a\u{200b}b",
    ];
    let marked = |name: &str| {
        let escaped = ["\\", "`", "_"].iter().fold(name.to_owned(), |text, c| {
            text.replace(c, &format!("\\{c}"))
        });
        format!("| {escaped} |")
    };
    for (arguments, after) in [
        (&["inspect", "m.safetensors"][..], "  "),
        (&["inspect", "--tree", "m.safetensors"], "  "),
        (&["verify", "m.safetensors"], ": not covered"),
        (&["hash", "m.safetensors"], ""),
        (&["stats", "m.safetensors"], "  u8 [1]"),
        (&["diff", "m.safetensors", "none.safetensors"], ": only in"),
    ] {
        let out = scratch.run(arguments).out;
        for name in shown {
            let wanted = format!("{name}{after}");
            let lines = out.lines().filter(|line| {
                let text = line.split_once("  ").filter(|_| arguments[0] == "hash");
                let text = text.map_or(*line, |(_, name)| name);
                text.starts_with(&wanted) && (arguments[0] != "hash" || text == name)
            });
            assert_eq!(lines.count(), 1, "{arguments:?} {name} {out}");
        }
    }
    let listed = scratch.run(&["inspect", "m.safetensors"]).out;
    for name in shown {
        assert!(listed.contains(&format!("  {name}: {name}\n")), "{listed}");
    }
    let table = scratch.run(&["inspect", "--markdown", "m.safetensors"]).out;
    for name in shown {
        assert!(table.contains(&marked(name)), "{name} {table}");
    }
}

/// No line of these is wider than a terminal, whatever there is to say.
#[test]
fn what_is_said_of_formats_and_large_integers_fits_a_terminal() {
    let scratch = Scratch::new();
    let formats = scratch.run(&["formats"]).out;
    let widest = formats.lines().map(str::len).max();
    assert!(widest.is_some_and(|widest| widest <= 80), "{formats}");
    assert!(
        formats.contains("\n  holds      bool i32 f16 f32\n"),
        "{formats}"
    );
    let mut builder = tensorfmt::safetensors::Builder::new();
    let tensor = tensorfmt::Tensor::from_slice(&[i64::MIN, i64::MIN + 1], &[2]).unwrap();
    builder.tensor("w", tensor).unwrap();
    builder.write_file(scratch.path("m.safetensors")).unwrap();
    let stats = scratch.run(&["stats", "m.safetensors"]).out;
    let quantiles = stats.lines().filter(|line| line.contains("% -"));
    let quantiles: Vec<&str> = quantiles.collect();
    assert_eq!(quantiles.len(), 2, "{stats}");
    let chars = |text: &str| text.lines().map(|line| line.chars().count()).max();
    assert!(chars(&stats).is_some_and(|widest| widest <= 80), "{stats}");
    // The totals are there for all that, as one table where that fits.
    let totals = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with("dtype"));
        let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect()
    };
    assert_eq!(
        totals(&stats),
        [
            "dtype tensors bytes values zeros nan inf",
            "i64 1 16 B 2 0 0 0",
            "dtype min max mean std",
            "i64 -9223372036854775808 -9223372036854775807 -9.22337e18 0.500000",
        ]
    );
    let mut builder = tensorfmt::safetensors::Builder::new();
    let tensor = tensorfmt::Tensor::from_slice(&[1i8, 3], &[2]).unwrap();
    builder.tensor("w", tensor).unwrap();
    builder.write_file(scratch.path("s.safetensors")).unwrap();
    let stats = scratch.run(&["stats", "s.safetensors"]).out;
    assert_eq!(
        totals(&stats),
        [
            "dtype tensors bytes values zeros nan inf min max mean std",
            "i8 1 2 B 2 0 0 0 1 3 2.000000 1.000000",
        ]
    );
}

/// The mean of finite values is finite, also where their sum is beyond the greatest float.
#[test]
fn the_mean_of_finite_values_is_finite_in_every_form() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::safetensors::Builder::new();
    let (huge, wide) = ([f64::MAX; 3], [f32::MAX; 3]);
    let tensor = tensorfmt::Tensor::from_slice(&huge, &[3]).unwrap();
    builder.tensor("d", tensor).unwrap();
    let tensor = tensorfmt::Tensor::from_slice(&wide, &[3]).unwrap();
    builder.tensor("s", tensor).unwrap();
    builder.write_file(scratch.path("m.safetensors")).unwrap();
    let document = scratch.run(&["stats", "--json", "m.safetensors"]).json();
    for of in ["tensors", "totals"] {
        // The totals are in the order of the dtypes' names.
        let means: Vec<&serde_json::Value> = document[of]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| &of["mean"])
            .collect();
        let (single, double) = (f64::from(f32::MAX), f64::MAX);
        let expected: [f64; 2] = if of == "tensors" {
            [double, single]
        } else {
            [single, double]
        };
        assert_eq!(
            means,
            [
                &serde_json::json!(expected[0]),
                &serde_json::json!(expected[1])
            ],
            "{of}"
        );
    }
    let text = scratch.run(&["stats", "m.safetensors"]).out;
    assert!(
        !text.contains("mean inf") && text.contains("mean 1.79769e308"),
        "{text}"
    );
    let run = scratch.run(&["inspect", "--html", "p.html", "m.safetensors"]);
    assert_eq!(run.code, 0, "{run:?}");
    let page = std::fs::read_to_string(scratch.path("p.html")).unwrap();
    assert!(
        !page.contains("\"mean\":\"inf\"") && page.contains("\"mean\":1.79769"),
        "{page}"
    );
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let scratch = Scratch::new();
    for (bytes, word) in [
        (&b"\x89PNG\r\n\x1a\n0000"[..], "PNG"),
        (b"GGUF\x03\0\0\0", "GGUF"),
        (b"PK\x03\x04....", "zip"),
        (b"<!DOCTYPE html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        (b"", "empty"),
    ] {
        write(&scratch.path("other"), bytes);
        let run = scratch.run(&["inspect", "other"]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains(word), "{run:?}");
    }
}

#[test]
fn no_numpy_file_is_written_that_numpy_cannot_open() {
    let scratch = Scratch::new();
    let one = |dims: &str, end: usize| {
        let tensor = format!(r#"{{"dtype":"U8","shape":[{dims}],"data_offsets":[0,{end}]}}"#);
        file(&format!(r#"{{"x":{tensor}}}"#), &vec![7; end])
    };
    let ones = |count: usize| vec!["1"; count].join(",");
    for (dims, end, code) in [
        (ones(64), 1, 0),
        (ones(65), 1, 4),
        ("0,9223372036854775807".into(), 0, 0),
        ("0,9223372036854775808".into(), 0, 4),
        ("0,4294967296,4294967296".into(), 0, 4),
    ] {
        write(&scratch.path("x.safetensors"), one(&dims, end));
        let run = scratch.run(&["extract", "x.safetensors", "x", "-o", "x.npy", "--force"]);
        assert_eq!(run.code, code, "{dims}: {run:?}");
        assert_eq!(scratch.path("x.npy").exists(), code == 0, "{dims}");
        let _ = std::fs::remove_file(scratch.path("x.npy"));
        let run = scratch.run(&["extract", "x.safetensors", "x", "-o", "x.bin", "--force"]);
        assert_eq!(run.code, 0, "{dims}: {run:?}");
    }
}

#[test]
fn options_that_make_no_sense_are_usage_errors() {
    let scratch = Scratch::new();
    for options in [
        ["--phsh", "0"],
        ["--zstd", "99"],
        ["--zstd", "-8"],
        ["--max-shard-size", "0"],
        ["--max-part-shards", "0"],
    ] {
        let convert = ["convert", "demo.mag", "x.aeroset.json"];
        let run = scratch.run(&[&convert[..], &options].concat());
        assert_eq!(run.code, 2, "{options:?}: {run:?}");
        assert!(run.err.contains(options[1]), "{options:?}: {}", run.err);
    }
    let run = scratch.run(&["convert", "demo.mag", "x.zt", "--zstd", "99"]);
    assert_eq!(run.code, 2, "{run:?}");
}
