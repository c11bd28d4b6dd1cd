//! What an AERO file's writer chose stays in a copy, and what a conversion to it invents is not carried on.

use std::fs;

use crate::{Scratch, write};

/// A safetensors file of these f32 tensors and this metadata.
fn model(scratch: &Scratch, name: &str, metadata: &[(&str, &str)]) {
    let mut builder = tensorfmt::safetensors::Builder::new();
    for (at, tensor) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let values = vec![at as f32; 100 * (at + 1)];
        let len = values.len() as u64;
        let values = tensorfmt::Tensor::from_slice(&values, &[len]).unwrap();
        builder.tensor(tensor, values).unwrap();
    }
    for (key, value) in metadata {
        builder.metadata(*key, *value).unwrap();
    }
    write(&scratch.path(name), builder.to_vec().unwrap());
}

#[test]
fn a_copy_keeps_hashes_pages_shards_and_compression() {
    let scratch = Scratch::new();
    model(&scratch, "m.safetensors", &[("step", "7")]);
    for options in [
        &[][..],
        &["--ihsh"],
        &["--phsh", "4096"],
        &["--page-align"],
        &["--tensor-hash"],
        &["--zstd"],
        &["--max-shard-bytes", "2000"],
        &[
            "--ihsh",
            "--phsh",
            "65536",
            "--page-align",
            "--tensor-hash",
            "--max-shard-bytes",
            "1300",
        ],
    ] {
        let convert = ["convert", "m.safetensors", "a.aero", "--force", "-q"];
        let run = scratch.run(&[&convert[..], options].concat());
        assert_eq!(run.code, 0, "{options:?}: {run:?}");
        let run = scratch.run(&["convert", "a.aero", "b.aero", "--force", "--strict"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{options:?}");
        let bytes = |name: &str| fs::read(scratch.path(name)).unwrap();
        assert!(
            bytes("a.aero") == bytes("b.aero"),
            "{options:?}: the copy differs"
        );
    }
    for options in [
        &["--max-shard-bytes", "1300", "--max-part-shards", "1"][..],
        &[
            "--max-shard-bytes",
            "900",
            "--max-part-shards",
            "2",
            "--ihsh",
            "--phsh",
            "4096",
        ],
    ] {
        let folder = |name: &str| {
            let _ = fs::remove_dir_all(scratch.path(name));
            fs::create_dir(scratch.path(name)).unwrap();
        };
        folder("one");
        folder("two");
        let convert = ["convert", "m.safetensors", "one/m.aeroset.json", "-q"];
        let run = scratch.run(&[&convert[..], options].concat());
        assert_eq!(run.code, 0, "{options:?}: {run:?}");
        let run = scratch.run(&[
            "convert",
            "one/m.aeroset.json",
            "two/m.aeroset.json",
            "--strict",
        ]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{options:?}");
        for entry in fs::read_dir(scratch.path("one")).unwrap() {
            let path = entry.unwrap().path();
            let copy = scratch.path("two").join(path.file_name().unwrap());
            assert!(
                fs::read(&path).unwrap() == fs::read(copy).unwrap(),
                "{path:?} {options:?}"
            );
        }
    }
}

#[test]
fn a_model_comes_back_from_every_format_with_its_metadata() {
    let scratch = Scratch::new();
    for metadata in [
        &[][..],
        &[("step", "7")],
        &[("architecture", "unknown"), ("format", "pt")],
        &[("model_name", "m"), ("architecture", "llama"), ("z", "")],
    ] {
        model(&scratch, "m.safetensors", metadata);
        for there in ["x.aero", "x.aeroset.json", "x.bpk"] {
            let run = scratch.run(&["convert", "m.safetensors", there, "--force", "--strict"]);
            assert_eq!(run.code, 0, "{there}: {run:?}");
            let run = scratch.run(&["convert", there, "back.safetensors", "--force", "-q"]);
            assert_eq!(run.code, 0, "{there}: {run:?}");
            let run = scratch.run(&["diff", "m.safetensors", "back.safetensors"]);
            assert_eq!(
                (run.code, run.out.trim()),
                (0, "same"),
                "{there} {metadata:?}: {run:?}"
            );
            let listing = scratch.run(&["inspect", there, "--json"]).json();
            let keys: Vec<_> = listing["metadata"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect();
            let mut expected: Vec<_> = metadata.iter().map(|(key, _)| (*key).to_owned()).collect();
            expected.sort();
            let mut sorted = keys.clone();
            sorted.sort();
            assert_eq!(sorted, expected, "{there}");
        }
    }
}

/// A tensor of a set has no offset as long as its part isn't open: the part is what is known.
#[test]
fn a_set_lists_the_part_of_each_tensor() {
    let scratch = Scratch::new();
    model(&scratch, "m.safetensors", &[]);
    let parts = ["--max-shard-bytes", "1300", "--max-part-shards", "1", "-q"];
    let convert = ["convert", "m.safetensors", "m.aeroset.json"];
    let run = scratch.run(&[&convert[..], &parts].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let run = scratch.run(&["inspect", "m.aeroset.json"]);
    let of = |name: &str, text: &str| {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_default().to_owned()
    };
    assert!(of("name", &run.out).contains("part"), "{}", run.out);
    assert!(of("a ", &run.out).contains("part-000.aero"), "{}", run.out);
    assert!(of("e ", &run.out).contains("part-003.aero"), "{}", run.out);
    assert!(!run.out.contains("0x"), "{}", run.out);
    let listing = scratch.run(&["inspect", "m.aeroset.json", "--json"]).json();
    let first = &listing["tensors"][0];
    assert_eq!(
        (&first["part"], &first["offset"]),
        (&"part-000.aero".into(), &().into())
    );
    let run = scratch.run(&["inspect", "m.aeroset.json", "--html", "m.html"]);
    assert_eq!(run.code, 0, "{run:?}");
    let page = fs::read_to_string(scratch.path("m.html")).unwrap();
    assert!(page.contains("\"part\":\"part-003.aero\""));
}

#[test]
fn parts_of_a_larger_set_go_with_it_and_nothing_else_does() {
    let scratch = Scratch::new();
    model(&scratch, "m.safetensors", &[]);
    let convert = ["convert", "m.safetensors", "set/m.aeroset.json", "--force"];
    let small = ["--max-shard-bytes", "400", "--max-part-shards", "1"];
    fs::create_dir(scratch.path("set")).unwrap();
    assert_eq!(scratch.run(&[&convert[..], &small].concat()).code, 0);
    // Beside it lies what looks like a part, and is none.
    fs::copy(
        scratch.path("set/part-000.aero"),
        scratch.path("set/part-009.aero"),
    )
    .unwrap();
    let run = scratch.run(&convert);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        run.err.matches("deleted: a part of the set").count(),
        4,
        "{}",
        run.err
    );
    let mut left: Vec<_> = fs::read_dir(scratch.path("set"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(
        left,
        [
            "index.aero",
            "m.aeroset.json",
            "part-000.aero",
            "part-009.aero"
        ]
    );
    assert_eq!(scratch.run(&["verify", "set/m.aeroset.json"]).code, 0);

    // A part that is the input stays, whatever its set becomes.
    assert_eq!(scratch.run(&[&convert[..], &small].concat()).code, 0);
    let part = [
        "convert",
        "set/part-003.aero",
        "set/m.aeroset.json",
        "--force",
    ];
    assert_eq!(scratch.run(&part).code, 0);
    assert!(scratch.path("set/part-003.aero").exists());
    assert!(!scratch.path("set/part-004.aero").exists());
}

#[test]
fn a_tensor_that_the_index_does_not_list_is_said_by_every_verb() {
    use sha2::Digest;

    let scratch = Scratch::new();
    model(&scratch, "m.safetensors", &[]);
    for (folder, filter) in [("all", "[ab]"), ("one", "a")] {
        fs::create_dir(scratch.path(folder)).unwrap();
        let set = format!("{folder}/m.aeroset.json");
        let run = scratch.run(&["convert", "m.safetensors", &set, "--filter", filter]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    // The part of the larger set under the index of the smaller one.
    let part = fs::read(scratch.path("all/part-000.aero")).unwrap();
    write(&scratch.path("one/part-000.aero"), &part);
    let set = scratch.path("one/m.aeroset.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&set).unwrap()).unwrap();
    let digest: String = sha2::Sha256::digest(&part)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    json["parts"][0]["sha256"] = digest.into();
    json["parts"][0]["size_bytes"] = part.len().into();
    write(&set, json.to_string());

    let said = "part-000.aero holds \"b\"";
    for verb in ["inspect", "hash", "stats"] {
        let run = scratch.run(&[verb, "one/m.aeroset.json"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains(said), "{verb}: {}", run.err);
    }
    assert_eq!(scratch.run(&["verify", "one/m.aeroset.json"]).code, 1);
    let run = scratch.run(&["convert", "one/m.aeroset.json", "x.safetensors", "--json"]);
    assert_eq!(run.code, 0, "{run:?}");
    let losses = run.json()["losses"].as_array().unwrap().clone();
    assert!(
        losses
            .iter()
            .any(|loss| loss["kind"] == "tensor" && loss["item"] == "b"),
        "{losses:?}"
    );
    let listing = scratch.run(&["inspect", "x.safetensors", "--json"]).json();
    assert_eq!(listing["tensors"].as_array().unwrap().len(), 1);
}

#[test]
fn a_damaged_shard_stops_only_what_is_in_it() {
    let scratch = Scratch::new();
    model(&scratch, "m.safetensors", &[]);
    let run = scratch.run(&[
        "convert",
        "m.safetensors",
        "m.aero",
        "--max-shard-bytes",
        "1300",
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    let listing = scratch.run(&["inspect", "m.aero", "--json"]).json();
    let tensors = listing["tensors"].as_array().unwrap();
    let shards: Vec<u64> = tensors
        .iter()
        .map(|tensor| tensor["shard_id"].as_u64().unwrap())
        .collect();
    assert!(shards.last().unwrap() >= &2, "{shards:?}");
    let damaged = tensors
        .iter()
        .find(|tensor| tensor["shard_id"] == 1)
        .unwrap();
    let mut bytes = fs::read(scratch.path("m.aero")).unwrap();
    bytes[damaged["offset"].as_u64().unwrap() as usize] ^= 1;
    write(&scratch.path("m.aero"), bytes);

    let convert = ["convert", "m.aero", "x.safetensors", "--force"];
    let run = scratch.run(&convert);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(!scratch.path("x.safetensors").exists());
    let mut exclude = Vec::new();
    for tensor in tensors.iter().filter(|tensor| tensor["shard_id"] == 1) {
        exclude.extend(["--exclude", tensor["name"].as_str().unwrap()]);
    }
    let run = scratch.run(&[&convert[..], &exclude].concat());
    assert_eq!(run.code, 0, "{run:?}");
    // What is whole can be had without naming what isn't.
    let run = scratch.run(&[&convert[..], &["--salvage", "--skip-unsupported"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let saved = scratch.run(&["inspect", "x.safetensors", "--json"]).json();
    let whole = shards.iter().filter(|shard| **shard != 1).count();
    assert_eq!(saved["tensors"].as_array().unwrap().len(), whole);
}
