//! What `hash` prints about the whole, and the check of a list made earlier.

use serde_json::json;
use sha2::{Digest, Sha256};
use tensorfmt::{Tensor, safetensors};

use crate::{Run, Scratch, case, write};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Two matrices, integers, bools and names that sort otherwise than they come.
fn model(scratch: &Scratch, path: &str) {
    let mut builder = safetensors::Builder::new();
    let w: Vec<f32> = (0..6u8).map(f32::from).collect();
    for (name, tensor) in [
        ("z.w", Tensor::from_slice(&w, &[2, 3]).unwrap()),
        ("b", Tensor::from_slice(&[1.5f32, -2.0], &[2]).unwrap()),
        ("a.w", Tensor::from_slice(&w, &[3, 2]).unwrap()),
    ] {
        builder.tensor(name, tensor).unwrap();
    }
    builder.metadata("k", "v").unwrap();
    write(&scratch.path(path), builder.to_vec().unwrap());
}

fn hash(scratch: &Scratch, arguments: &[&str]) -> Run {
    scratch.run(&[&["hash"], arguments].concat())
}

fn last(run: &Run) -> String {
    assert_eq!(run.code, 0, "{run:?}");
    let line = run.out.lines().last().unwrap();
    line.strip_suffix("  (model)")
        .unwrap_or_else(|| panic!("{line}"))
        .to_owned()
}

#[test]
fn the_digest_of_a_model_is_made_as_the_help_says() {
    let scratch = Scratch::new();
    model(&scratch, "m.safetensors");
    let floats =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let w = sha256(&floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    let b = sha256(&floats(&[1.5, -2.0]));
    let records =
        format!("3:a.w,3:f32,3:3,2,64:{w},1:b,3:f32,1:2,64:{b},3:z.w,3:f32,3:2,3,64:{w},");
    let expected = sha256(records.as_bytes());
    let arguments = ["--algorithm", "sha256", "m.safetensors"];
    let run = hash(&scratch, &arguments);
    assert_eq!(last(&run), expected);
    assert_eq!(run.out.lines().count(), 4);
    let document = hash(&scratch, &[&["--json"], &arguments[..]].concat()).json();
    assert_eq!(document["model"], expected);
    // The same by the other two.
    let crc = |bytes: &[u8]| format!("{:08x}", test_data::crc32c(bytes));
    let (w, b) = (
        crc(&floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])),
        crc(&floats(&[1.5, -2.0])),
    );
    let records = format!("3:a.w,3:f32,3:3,2,8:{w},1:b,3:f32,1:2,8:{b},3:z.w,3:f32,3:2,3,8:{w},");
    let run = hash(&scratch, &["--algorithm", "crc32c", "m.safetensors"]);
    assert_eq!(last(&run), crc(records.as_bytes()));
    let blake = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    let b = blake(&floats(&[1.5, -2.0]));
    let run = hash(&scratch, &["m.safetensors", "--filter", "b"]);
    assert_eq!(
        last(&run),
        blake(format!("1:b,3:f32,1:2,64:{b},").as_bytes())
    );
    // A name counts in bytes, a scalar has no dims.
    let mut builder = safetensors::Builder::new();
    builder
        .tensor("ä", Tensor::from_slice(&[7u8], &[]).unwrap())
        .unwrap();
    write(&scratch.path("s.safetensors"), builder.to_vec().unwrap());
    let run = hash(&scratch, &["--algorithm", "sha256", "s.safetensors"]);
    let expected = format!("2:ä,2:u8,0:,64:{},", sha256(&[7]));
    assert_eq!(last(&run), sha256(expected.as_bytes()));
}

#[test]
fn the_digest_of_a_model_is_the_same_in_every_format_and_order() {
    let scratch = Scratch::new();
    model(&scratch, "m.safetensors");
    let expected = last(&hash(&scratch, &["m.safetensors"]));
    for out in [
        "m.mag",
        "m.zt",
        "m.bpk",
        "m.aero",
        "m.model",
        "m.aeroset.json",
        "x.safetensors.index.json",
    ] {
        let run = scratch.run(&[
            "convert",
            "m.safetensors",
            out,
            "-q",
            "--drop-metadata",
            "k",
        ]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(last(&hash(&scratch, &[out])), expected, "{out}");
    }
    let sorted = ["convert", "m.safetensors", "s.zt", "--sort", "--zstd", "-q"];
    assert_eq!(scratch.run(&sorted).code, 0);
    assert_eq!(last(&hash(&scratch, &["s.zt"])), expected);
    // Anything else is another model.
    for edit in [
        &["--rename", "s/^b$/c/"][..],
        &["--cast", "f64"],
        &["--transpose", "a.w"],
        &["--exclude", "b"],
    ] {
        let run =
            scratch.run(&[&["convert", "m.safetensors", "e.zt", "--force", "-q"], edit].concat());
        assert_eq!(run.code, 0, "{run:?}");
        assert_ne!(last(&hash(&scratch, &["e.zt"])), expected, "{edit:?}");
    }
    // Bools of four bytes are bools.
    let mut builder = safetensors::Builder::new();
    let truth = Tensor::new(
        tensorfmt::DType::Bool,
        tensorfmt::Shape::new(&[2]).unwrap(),
        vec![1, 0],
    );
    builder.tensor("t", truth.unwrap()).unwrap();
    write(&scratch.path("t.safetensors"), builder.to_vec().unwrap());
    let expected = last(&hash(&scratch, &["t.safetensors"]));
    for out in ["t.bpk", "t.mag", "t.zt"] {
        assert_eq!(
            scratch.run(&["convert", "t.safetensors", out, "-q"]).code,
            0
        );
        assert_eq!(last(&hash(&scratch, &[out])), expected, "{out}");
    }
}

#[test]
fn a_model_with_a_tensor_without_digest_has_none() {
    let scratch = Scratch::new();
    write(&scratch.path("u.bpk"), case("burnpack", "dtype_unknown"));
    let run = hash(&scratch, &["u.bpk", "--json"]);
    let document = run.json();
    let has_all = document["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .all(|tensor| tensor["digest"].is_string());
    assert_eq!(document["model"].is_string(), has_all, "{document}");
    assert_eq!(run.code == 4, !has_all);
}

#[test]
fn a_list_made_earlier_is_checked() {
    let scratch = Scratch::new();
    model(&scratch, "m.safetensors");
    for (form, options) in [
        ("text", &[][..]),
        ("json", &["--json"]),
        ("crc", &["--algorithm", "crc32c"]),
        ("sha", &["--algorithm", "sha256"]),
        ("both", &["m.safetensors"]),
        ("bothjson", &["m.safetensors", "--json"]),
    ] {
        let list = hash(&scratch, &[&["m.safetensors"], options].concat()).out;
        write(&scratch.path(form), list);
        let algorithm: &[&str] = if form == "sha" {
            &["--algorithm", "sha256"]
        } else {
            &[]
        };
        let file: &[&str] = match form.starts_with("both") {
            true => &["m.safetensors", "m.safetensors"],
            false => &["m.safetensors"],
        };
        let run = hash(&scratch, &[&["--check", form], file, algorithm].concat());
        assert_eq!(run.code, 0, "{form}: {run:?}");
        assert!(run.out.contains("same: 3 tensors are as listed"), "{run:?}");
    }
    let edit = [
        "convert",
        "m.safetensors",
        "e.safetensors",
        "-q",
        "--rename",
        "s/^z.w$/new/",
        "--cast",
        "b=f64",
    ];
    assert_eq!(scratch.run(&edit).code, 0);
    for list in ["text", "json"] {
        let run = hash(&scratch, &["--check", list, "e.safetensors"]);
        assert_eq!(run.code, 1, "{run:?}");
        assert_eq!(
            run.out,
            "new: surplus\nb: differs\nz.w: missing\n(model): differs\n4 differences from the list\n"
        );
        let run = hash(&scratch, &["--check", list, "e.safetensors", "--json"]);
        assert_eq!(run.code, 1, "{run:?}");
        let document = run.json();
        assert_eq!(document["same"], false);
        assert_eq!(document["tensors"][2]["outcome"], "missing");
        assert_eq!(document["tensors"][0]["expected"], json!(null));
        // Of some tensors only these are looked for.
        let some = hash(
            &scratch,
            &["--check", list, "e.safetensors", "--filter", "a.*"],
        );
        assert_eq!(some.code, 0, "{some:?}");
    }
    // Another shape alone is in the digest of the model.
    let turned = Tensor::from_slice(&[1.5f32, -2.0], &[1, 2]).unwrap();
    let mut builder = safetensors::Builder::new();
    builder.tensor("b", turned).unwrap();
    write(&scratch.path("t.safetensors"), builder.to_vec().unwrap());
    let run = hash(&scratch, &["m.safetensors", "--filter", "b"]);
    write(&scratch.path("one"), run.out);
    let run = hash(&scratch, &["--check", "one", "t.safetensors"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (1, "(model): differs\n1 difference from the list\n")
    );
    // The wrong algorithm.
    assert!(
        hash(&scratch, &["--check", "sha", "m.safetensors"])
            .err
            .contains("every digest differs")
    );
    let run = hash(
        &scratch,
        &["--check", "crc", "m.safetensors", "--algorithm", "blake3"],
    );
    assert_eq!(run.code, 2, "{run:?}");
    for (list, why) in [
        ("", "lists nothing"),
        ("hello\n", "line 1"),
        ("{\"a\": 1}", "data did not match"),
    ] {
        write(&scratch.path("bad"), list);
        let run = hash(&scratch, &["--check", "bad", "m.safetensors"]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains(why), "{}", run.err);
    }
    assert_eq!(
        hash(&scratch, &["--check", "gone", "m.safetensors"]).code,
        3
    );
    // Files that are listed and not given, or given and not listed.
    write(
        &scratch.path("two"),
        hash(&scratch, &["m.safetensors", "t.safetensors"]).out,
    );
    let run = hash(
        &scratch,
        &["--check", "two", "m.safetensors", "t.safetensors"],
    );
    assert_eq!(run.code, 0, "{run:?}");
    let run = hash(&scratch, &["--check", "two", "m.safetensors"]);
    assert!(
        run.code != 0 && run.err.contains("nothing about m.safetensors") || run.code == 1,
        "{run:?}"
    );
}

#[test]
fn names_of_any_kind_survive_a_list() {
    let scratch = Scratch::new();
    let mut builder = safetensors::Builder::new();
    for (at, name) in (0u8..).zip(["", " a  b ", "(model)", "x\ny", "\\", "ok"]) {
        builder
            .tensor(name, Tensor::from_slice(&[at], &[1]).unwrap())
            .unwrap();
    }
    write(&scratch.path("n.safetensors"), builder.to_vec().unwrap());
    for options in [&[][..], &["--json"]] {
        let list = hash(&scratch, &[&["n.safetensors"], options].concat()).out;
        write(&scratch.path("list"), list);
        let run = hash(&scratch, &["--check", "list", "n.safetensors"]);
        assert_eq!(run.code, 0, "{options:?} {run:?}");
        assert!(run.out.contains("same: 6 tensors"), "{run:?}");
    }
}

#[test]
fn model_sites_show_the_digest_of_all_data() {
    let scratch = Scratch::new();
    model(&scratch, "m.safetensors");
    let bytes = std::fs::read(scratch.path("m.safetensors")).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let expected = sha256(&bytes[start..]);
    let arguments = ["--algorithm", "autov3", "m.safetensors"];
    let run = hash(&scratch, &arguments);
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, &*format!("{expected}  (model)\n"))
    );
    let document = hash(&scratch, &[&["--json"], &arguments[..]].concat()).json();
    assert_eq!(
        document,
        json!({"algorithm": "autov3", "tensors": [], "model": expected})
    );
    // Other metadata, the same data.
    let noted = [
        "convert",
        "m.safetensors",
        "n.safetensors",
        "--set-metadata",
        "long=text",
    ];
    assert_eq!(scratch.run(&noted).code, 0);
    assert_eq!(
        last(&hash(&scratch, &["--algorithm", "autov3", "n.safetensors"])),
        expected
    );
    let set = ["convert", "m.safetensors", "s.safetensors.index.json"];
    assert_eq!(scratch.run(&set).code, 0);
    for other in ["demo.mag", "s.safetensors.index.json"] {
        let run = hash(&scratch, &["--algorithm", "autov3", other]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            run.err
                .contains("autov3 is of the data of one safetensors file"),
            "{run:?}"
        );
    }
    let some = ["--algorithm", "autov3", "m.safetensors", "--filter", "b"];
    assert_eq!(hash(&scratch, &some).code, 2);
    // From standard input too.
    let mut command = scratch.command();
    let file = std::fs::File::open(scratch.path("m.safetensors")).unwrap();
    let command = command
        .args(["hash", "--algorithm", "autov3", "-"])
        .stdin(file);
    assert_eq!(last(&Run::of(command.output().unwrap())), expected);
}
