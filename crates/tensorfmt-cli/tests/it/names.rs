//! How tensors are named by patterns, in which order names are sorted, and how sizes are written.

use tensorfmt::{Tensor, safetensors};

use crate::{Scratch, write};

/// A safetensors file with a tensor of one value for each name.
pub(crate) fn with_names(scratch: &Scratch, file: &str, names: &[&str]) {
    let mut builder = safetensors::Builder::new();
    for (at, name) in (0u16..).zip(names) {
        let tensor = Tensor::from_slice(&[f32::from(at)], &[1]).unwrap();
        builder.tensor(*name, tensor).unwrap();
    }
    write(&scratch.path(file), builder.to_vec().unwrap());
}

/// The names in a file, in its order.
pub(crate) fn names_in(scratch: &Scratch, file: &str) -> Vec<String> {
    let run = scratch.run(&["inspect", "--json", file]);
    assert_eq!(run.code, 0, "{run:?}");
    let tensors = run.json()["tensors"].clone();
    let name = |tensor: &serde_json::Value| tensor["name"].as_str().unwrap().to_owned();
    tensors.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn a_pattern_means_the_same_to_every_verb() {
    let scratch = Scratch::new();
    let names = [
        "a/b/w", "a.b.w", "l.0.w", "l.1.w", "l.10.w", "w[0]", "w0", "*",
    ];
    with_names(&scratch, "m.safetensors", &names);
    for (pattern, expected) in [
        ("a/*", &["a/b/w"][..]),
        ("a**w", &["a/b/w", "a.b.w"]),
        ("l.{0,10}.w", &["l.0.w", "l.10.w"]),
        ("l.?.w", &["l.0.w", "l.1.w"]),
        ("l.[!0].w", &["l.1.w"]),
        ("re:^l\\.\\d\\d", &["l.10.w"]),
        ("re:0", &["l.0.w", "l.10.w", "w[0]", "w0"]),
        // Names that are there, though they look like patterns.
        ("w[0]", &["w[0]"]),
        ("*", &["*"]),
    ] {
        let filter = ["--filter", pattern, "--json"];
        for verb in ["inspect", "stats"] {
            let run = scratch.run(&[&[verb, "m.safetensors"][..], &filter].concat());
            assert_eq!(run.code, 0, "{run:?}");
            let tensors = run.json()["tensors"].clone();
            let found: Vec<&str> = tensors
                .as_array()
                .unwrap()
                .iter()
                .map(|tensor| tensor["name"].as_str().unwrap())
                .collect();
            assert_eq!(found, expected, "{verb} {pattern}");
            let exclude = [verb, "m.safetensors", "--exclude", pattern, "--json"];
            let rest = scratch.run(&exclude).json()["tensors"].clone();
            assert_eq!(rest.as_array().unwrap().len(), names.len() - expected.len());
        }
        let convert = ["convert", "m.safetensors", "o.safetensors", "--force"];
        let run = scratch.run(&[&convert[..], &filter].concat());
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(names_in(&scratch, "o.safetensors"), expected, "{pattern}");
    }
    for (pattern, why) in [
        ("a[b", "[[] is the character"),
        ("a{b", "[{] is the character"),
        ("re:(", "unclosed group"),
        ("w0[0:1]", "rows of \"w0\""),
        ("nothing*", "matches nothing"),
        ("re:nothing", "matches nothing"),
    ] {
        for verb in [
            &["inspect", "m.safetensors"][..],
            &["stats", "m.safetensors"],
            &["convert", "m.safetensors", "x.safetensors"],
        ] {
            for option in ["--filter", "--exclude"] {
                let run = scratch.run(&[verb, &[option, pattern][..]].concat());
                assert_eq!(run.code, 2, "{pattern}: {run:?}");
                assert!(run.err.contains(why) && run.out.is_empty(), "{}", run.err);
            }
        }
    }
}

#[test]
fn names_are_sorted_with_numbers_by_their_value() {
    let scratch = Scratch::new();
    let names = ["l.10.w", "l.9.w", "head", "l.2.b", "l.10.b", "l.02.b"];
    with_names(&scratch, "m.safetensors", &names);
    let run = scratch.run(&["convert", "m.safetensors", "s.safetensors", "--sort"]);
    assert_eq!(run.code, 0, "{run:?}");
    let sorted = ["head", "l.02.b", "l.2.b", "l.9.w", "l.10.b", "l.10.w"];
    assert_eq!(names_in(&scratch, "s.safetensors"), sorted);
}

#[test]
fn sizes_have_units() {
    let scratch = Scratch::new();
    let shards = |size: &str, option: &str| {
        let run = scratch.run(&[
            "convert", "demo.mag", "m.aero", "--force", option, size, "-q",
        ]);
        assert_eq!(run.code, 0, "{run:?}");
        std::fs::read(scratch.path("m.aero")).unwrap()
    };
    let exact = shards("2000", "--max-shard-bytes");
    for size in ["2kB", "2_000", "2000B", "0.002MB"] {
        assert!(shards(size, "--max-shard-size") == exact, "{size}");
    }
    let paged = ["convert", "demo.mag", "p.aero", "--force", "--phsh"];
    assert_eq!(scratch.run(&[&paged[..], &["64KiB"]].concat()).code, 0);
    let pages = std::fs::read(scratch.path("p.aero")).unwrap();
    assert_eq!(scratch.run(&[&paged[..], &["65_536"]].concat()).code, 0);
    assert!(pages == std::fs::read(scratch.path("p.aero")).unwrap());
    for (size, why) in [
        ("5G", "KiB, MiB"),
        ("5gb", "no unit"),
        ("x", "no unit"),
        ("1.5", "not a whole number"),
        ("99EiB", "more than any file has"),
    ] {
        let run = scratch.run(&["convert", "demo.mag", "x.aero", "--max-shard-size", size]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains(why), "{}", run.err);
        let run = scratch.run(&[
            "inspect",
            "demo.mag",
            "--limit",
            &format!("max_metadata_count={size}"),
        ]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains(why), "{}", run.err);
    }
    let limit = ["inspect", "demo.mag", "--limit", "max_tensor_count=1"];
    assert_eq!(scratch.run(&limit).code, 1);
    let limit = ["inspect", "demo.mag", "--limit", "max_tensor_count=1kB"];
    assert_eq!(scratch.run(&limit).code, 0);
}
