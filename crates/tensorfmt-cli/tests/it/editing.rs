//! Names and metadata that are edited in the file itself.

use std::fs::{self, File};
use std::io::Write;

use super::{Scratch, case};

/// A file of 1 GiB of zeros that takes no room, with a header that has some left.
fn sparse(scratch: &Scratch, name: &str) {
    let data = 1u64 << 30;
    let mut header = format!(
        "{{\"__metadata__\":{{\"format\":\"np\"}},\
        \"model.w\":{{\"dtype\":\"U8\",\"shape\":[{data}],\"data_offsets\":[0,{data}]}}}}"
    );
    header.extend(std::iter::repeat_n(' ', 512 - header.len()));
    let mut file = File::create(scratch.path(name)).unwrap();
    file.write_all(&512u64.to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(520 + data).unwrap();
}

#[test]
fn an_edit_in_place_writes_the_index_and_no_data() {
    let scratch = Scratch::new();
    sparse(&scratch, "m.safetensors");
    let edit = ["convert", "m.safetensors", "m.safetensors", "--in-place"];
    let options = [
        "--rename",
        "s/model.//",
        "--set-metadata",
        "format=pt",
        "--json",
    ];
    let before = fs::metadata(scratch.path("m.safetensors")).unwrap();
    let run = scratch.run(&[&edit[..], &options].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let written = run.json()["written_in_place"].as_u64().unwrap();
    assert!(written > 0 && written < 512, "{written}");
    assert!(
        run.err
            .contains(&format!("edited in place: {written} bytes")),
        "{}",
        run.err
    );
    let after = fs::metadata(scratch.path("m.safetensors")).unwrap();
    assert_eq!(before.len(), after.len());
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(before.ino(), after.ino());
        // Had the data been written, it would have room of its own.
        assert!(after.blocks() < 64, "{}", after.blocks());
    }
    let listing = scratch.run(&["inspect", "m.safetensors", "--json"]).json();
    assert_eq!(listing["metadata"]["format"], "pt");
    assert_eq!(listing["tensors"][0]["name"], "w");
    assert_eq!(listing["tensors"][0]["offset"], 520);
    // The same once more changes nothing.
    let run = scratch.run(&[&edit[..], &["--set-metadata", "format=pt"]].concat());
    assert!(run.err.contains("nothing was written"), "{}", run.err);
    assert_eq!(scratch.files(), ["demo.mag", "m.safetensors"]);
}

/// Every format: the same tensors, checks that hold, and a note that says which way it went.
#[test]
fn an_edit_in_place_leaves_checks_that_hold() {
    let scratch = Scratch::new();
    for (file, options) in [
        ("a.zt", &[][..]),
        ("a.bpk", &[]),
        ("a.aero", &["--tensor-hash", "--phsh", "64"]),
        ("b.mag", &[]),
        ("a.safetensors", &[]),
    ] {
        let made = scratch.run(&[&["convert", "demo.mag", file][..], options].concat());
        assert_eq!(made.code, 0, "{made:?}");
        let digest = scratch.run(&["hash", "demo.mag", "--json"]).json();
        let edit = [
            "convert",
            file,
            file,
            "--in-place",
            "--rename",
            "s/^(.)(.*)/$2/",
        ];
        for round in 0..2 {
            let run = scratch.run(&edit);
            assert_eq!(run.code, 0, "{run:?}");
            assert!(
                run.err.contains("edited in place"),
                "{file} {round}: {}",
                run.err
            );
            let verified = scratch.run(&["verify", "--strict", file]);
            assert_eq!(verified.code, 0, "{file} {round}: {verified:?}");
        }
        let now = scratch.run(&["hash", file, "--json"]).json();
        let of = |json: &serde_json::Value| -> Vec<String> {
            let tensors = json["tensors"].as_array().unwrap().iter();
            let digest = |tensor: &serde_json::Value| tensor["digest"].as_str().unwrap().to_owned();
            tensors.map(digest).collect()
        };
        assert_eq!(of(&digest), of(&now), "{file}");
    }
}

/// Where the file can't be edited, the whole is written and the reason said; its other names stay as they are.
#[test]
fn what_can_not_be_edited_in_place_is_written_anew() {
    let scratch = Scratch::new();
    fs::hard_link(scratch.path("demo.mag"), scratch.path("hard.mag")).unwrap();
    let edit = [
        "convert",
        "demo.mag",
        "demo.mag",
        "--in-place",
        "--set-metadata",
    ];
    let run = scratch.run(&[&edit[..], &["a=1"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    #[cfg(unix)]
    assert!(
        run.err
            .contains("written anew, not its index alone: it has other names"),
        "{}",
        run.err
    );
    assert_eq!(
        fs::read(scratch.path("hard.mag")).unwrap(),
        case("mag", "demo")
    );
    let made = scratch.run(&["convert", "demo.mag", "m.model", "--cast", "f32"]);
    assert_eq!(made.code, 0, "{made:?}");
    let run = scratch.run(&[
        "convert",
        "m.model",
        "m.model",
        "--in-place",
        "--rename",
        "s/^/x/",
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("written anew"), "{}", run.err);
    // A cast is no edit of the index, and nothing is said about one.
    let run = scratch.run(&[
        "convert",
        "demo.mag",
        "demo.mag",
        "--in-place",
        "--cast",
        "f16",
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        !run.err.contains("in place") && !run.err.contains("anew"),
        "{}",
        run.err
    );
}

/// Some loaders refuse a safetensors file that does not say which framework it is of.
#[test]
fn a_loader_that_asks_for_a_framework_is_told_one() {
    let scratch = Scratch::new();
    let convert = [
        "convert",
        "demo.mag",
        "m.safetensors",
        "--set-metadata",
        "format=pt",
    ];
    assert_eq!(scratch.run(&convert).code, 0);
    let bytes = fs::read(scratch.path("m.safetensors")).unwrap();
    let header = String::from_utf8_lossy(&bytes[8..200]);
    assert!(header.contains(r#""format":"pt""#), "{header}");
}
