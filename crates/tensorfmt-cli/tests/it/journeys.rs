//! Every model goes to every format and back to where it came from: what differs then was told as lost,
//! and what was told as lost differs.

use serde_json::Value;

use crate::{Run, Scratch, write};

const TARGETS: [&str; 8] = [
    "x.mag",
    "x.zt",
    "x.bpk",
    "x.aero",
    "x.model",
    "x.safetensors",
    "set/x.aeroset.json",
    "set/x.safetensors.index.json",
];

/// What was lost that is more than how the file is stored: a checksum, a generation, the order of tensors
/// without bytes, and booleans held as other numbers than 1, which are the same values.
fn losses(run: &Run) -> Vec<Value> {
    let beside = ["checksum", "generation", "order", "value"];
    let all = run.json()["losses"].as_array().unwrap().clone();
    let of_model = |loss: &Value| !beside.iter().any(|kind| loss["kind"] == *kind);
    all.into_iter().filter(of_model).collect()
}

#[test]
fn what_differs_after_a_journey_is_what_was_told_as_lost() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("set")).unwrap();
    let mut back_again = [0; TARGETS.len()];
    let mut with_losses = 0;
    for format in test_data::FORMATS {
        let cases = (format.cases)();
        let valid = cases
            .iter()
            .filter(|case| case.expect == test_data::Expect::Valid);
        for (at, case) in valid.enumerate() {
            let (origin, back) = ("origin", "back");
            let [origin, back] = [origin, back].map(|name| format!("{name}.{}", format.extension));
            write(&scratch.path(&origin), &case.bytes);
            for (number, target) in TARGETS.iter().enumerate() {
                // Each file takes two of the eight ways, each way two of eight files.
                if (at + number) % 8 > 1 {
                    continue;
                }
                let convert = |from: &str, to: &str| {
                    scratch.run(&["convert", from, to, "--force", "--json", "--allow-empty"])
                };
                let there = convert(&origin, target);
                if there.code != 0 {
                    continue;
                }
                let again = convert(target, &back);
                if again.code != 0 {
                    continue;
                }
                let lost = [losses(&there), losses(&again)].concat();
                let diff = scratch.run(&["diff", &origin, &back]);
                let expected = i32::from(!lost.is_empty());
                assert_eq!(
                    diff.code, expected,
                    "{} by {target}: {diff:?} {lost:?}",
                    case.name
                );
                back_again[number] += 1;
                with_losses += usize::from(!lost.is_empty());
            }
        }
    }
    assert!(back_again.iter().all(|count| *count > 5), "{back_again:?}");
    assert!(with_losses > 20, "{with_losses}");
}

/// An object of primitiv stays what it is in a copy, and becomes a model when it is no longer one alone.
#[test]
fn a_copy_of_a_primitiv_object_is_that_object() {
    let scratch = Scratch::new();
    let fixtures = test_data::workspace_root().join("fixtures/primitiv/valid");
    for (name, ending) in [
        ("parameter_adam", "param"),
        ("parameter_stat_batch", "param"),
        ("tensor_batch", "tensor"),
        ("optimizer", "optimizer"),
    ] {
        let file = std::fs::read(fixtures.join(format!("{name}.model"))).unwrap();
        for ending in [ending, "model"] {
            let [a, b] = ["a", "b"].map(|name| format!("{name}.{ending}"));
            write(&scratch.path(&a), &file);
            let run = scratch.run(&["convert", &a, &b, "--force", "--strict"]);
            assert_eq!(run.code, 0, "{name}: {run:?}");
            assert!(std::fs::read(scratch.path(&b)).unwrap() == file, "{name}");
        }
    }
    let named = [
        "convert", "a.model", "c.model", "--force", "--rename", "s/^$/w/",
    ];
    let file = std::fs::read(fixtures.join("parameter_adam.model")).unwrap();
    write(&scratch.path("a.model"), file);
    let run = scratch.run(&named);
    assert_eq!(run.code, 0, "{run:?}");
    let listing = scratch.run(&["inspect", "c.model", "--json"]).json();
    assert_eq!(listing["data_type"], "Model");
    assert_eq!(listing["tensors"][0]["name"], "w");
}

/// A file of an older generation that becomes one of today's is said to, and is no less for it.
#[test]
fn another_generation_is_said_and_no_reason_to_refuse() {
    let scratch = Scratch::new();
    for (format, name, said) in [
        ("ztensor", "v2_seek.zt", "written as ztensor 0.1, no longer"),
        (
            "mag",
            "snapshot_0_2_rank_63.mag",
            "written as mag 1, no longer",
        ),
    ] {
        let fixtures = test_data::workspace_root().join("fixtures").join(format);
        let file = std::fs::read(fixtures.join("valid").join(name)).unwrap();
        write(&scratch.path(name), file);
        let copy = format!("copy-{name}");
        let run = scratch.run(&["convert", name, &copy, "--strict"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains(said), "{run:?}");
        let run = scratch.run(&[
            "convert", &copy, "again", "--to", format, "--strict", "--force",
        ]);
        assert_eq!((run.code, &*run.err), (0, ""), "{run:?}");
    }
}
