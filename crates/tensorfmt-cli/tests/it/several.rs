//! Several files and folders in one run.

use serde_json::{Value, json};

use crate::names::with_names;
use crate::{Scratch, case, write};

const VERBS: [&str; 4] = ["inspect", "verify", "hash", "stats"];

fn paths(document: &Value) -> Vec<&str> {
    let files = document["files"].as_array().unwrap();
    files
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect()
}

#[test]
fn several_files_come_in_a_list_and_one_keeps_its_shape() {
    let scratch = Scratch::new();
    with_names(&scratch, "a.safetensors", &["x", "y"]);
    with_names(&scratch, "b.safetensors", &["z"]);
    for verb in VERBS {
        let one = scratch.run(&[verb, "--json", "a.safetensors"]).json();
        let both = scratch.run(&[verb, "--json", "a.safetensors", "b.safetensors"]);
        assert_eq!(both.code, 0, "{both:?}");
        let both = both.json();
        assert_eq!(paths(&both), ["a.safetensors", "b.safetensors"]);
        if verb == "verify" {
            assert_eq!(both["files"][0], one["files"][0]);
            continue;
        }
        // The same as alone, with the path.
        let mut alone = one.clone();
        alone["path"] = json!("a.safetensors");
        assert_eq!(both["files"][0], alone, "{verb}");
        assert!(one.get("files").is_none() && one.get("tensors").is_some());
        let text = scratch.run(&[verb, "a.safetensors", "b.safetensors"]);
        let (a, b) = (
            text.out.find("a.safetensors"),
            text.out.find("b.safetensors"),
        );
        assert!(a < b && a.is_some(), "{text:?}");
        let alone = scratch.run(&[verb, "a.safetensors"]).out;
        assert!(text.out.contains(&alone), "{text:?}");
    }
}

#[test]
fn the_worst_file_decides_and_stops_no_other() {
    let scratch = Scratch::new();
    with_names(&scratch, "a.safetensors", &["x"]);
    with_names(&scratch, "z.safetensors", &["y"]);
    write(&scratch.path("bad.safetensors"), "nothing of the kind");
    let unsupported = case("burnpack", "dtype_unknown");
    write(&scratch.path("u.bpk"), unsupported);
    for verb in VERBS {
        let all = [
            "a.safetensors",
            "bad.safetensors",
            "gone.mag",
            "z.safetensors",
        ];
        let run = scratch.run(&[&[verb, "--json"][..], &all].concat());
        assert_eq!(run.code, 3, "{run:?}");
        let document = run.json();
        assert_eq!(paths(&document), all, "{verb}");
        let files = &document["files"];
        assert_eq!(files[1]["error"]["kind"], "invalid", "{verb}: {files}");
        assert_eq!(files[1]["exit"], 1);
        assert_eq!(files[2]["error"]["kind"], "io");
        assert_eq!(files[2]["exit"], 3);
        assert!(run.err.matches("gone.mag: ").count() <= 1, "{}", run.err);
        let run = scratch.run(&[verb, "a.safetensors", "bad.safetensors", "z.safetensors"]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.out.contains("a.safetensors") && run.out.contains("z.safetensors"));
        assert!(run.err.contains("bad.safetensors: "), "{}", run.err);
    }
    // Damage outranks what is not supported.
    let hash = |files: &[&str]| scratch.run(&[&["stats"], files].concat()).code;
    assert_eq!(hash(&["a.safetensors", "u.bpk"]), 4);
    assert_eq!(hash(&["u.bpk", "bad.safetensors", "a.safetensors"]), 1);
}

#[test]
fn a_folder_is_the_files_of_known_formats_in_it() {
    let scratch = Scratch::new();
    let folder = scratch.path("models");
    std::fs::create_dir_all(folder.join("deeper")).unwrap();
    std::fs::create_dir_all(folder.join("folder.mag")).unwrap();
    with_names(&scratch, "models/b.safetensors", &["x"]);
    with_names(&scratch, "models/deeper/c.safetensors", &["x"]);
    with_names(&scratch, "models/.hidden.safetensors", &["x"]);
    std::fs::copy(scratch.path("demo.mag"), folder.join("no ending")).unwrap();
    for name in ["config.json", "README.md", "tokenizer.model", "x.npy"] {
        write(&folder.join(name), "{\"a\": 1}, and more of it");
    }
    write(&folder.join("p.param"), case("primitiv", "parameter"));
    #[cfg(unix)]
    std::os::unix::fs::symlink("../demo.mag", folder.join("link.mag")).unwrap();
    let mut expected = vec![
        "models/b.safetensors",
        "models/link.mag",
        "models/no ending",
        "models/p.param",
    ];
    if !cfg!(unix) {
        expected.remove(1);
    }
    for verb in VERBS {
        let run = scratch.run(&[verb, "--json", "models"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(paths(&run.json()), expected, "{verb}");
        // What has an ending of ours and nothing else is said to be left out.
        assert!(run.err.contains("tokenizer.model"), "{}", run.err);
    }
    // A folder with one file is a folder.
    std::fs::create_dir(scratch.path("one")).unwrap();
    with_names(&scratch, "one/m.safetensors", &["x"]);
    let run = scratch.run(&["hash", "--json", "one"]);
    assert_eq!(paths(&run.json()), ["one/m.safetensors"]);
    // Nothing in it is no success.
    std::fs::create_dir(scratch.path("none")).unwrap();
    for verb in VERBS {
        let run = scratch.run(&[verb, "none"]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains("no file of a known format"), "{}", run.err);
        let run = scratch.run(&[verb, "none", "one"]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.out.contains("one/m.safetensors"), "{run:?}");
    }
}

#[test]
fn a_set_in_a_folder_is_there_once() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("set")).unwrap();
    let set = [
        "convert",
        "demo.mag",
        "set/m.aeroset.json",
        "--max-shard-size",
        "64",
        "--max-part-shards",
        "1",
    ];
    assert_eq!(scratch.run(&set).code, 0);
    assert!(std::fs::read_dir(scratch.path("set")).unwrap().count() > 2);
    with_names(&scratch, "set/other.safetensors", &["x"]);
    let expected = ["set/m.aeroset.json", "set/other.safetensors"];
    for verb in VERBS {
        let run = scratch.run(&[verb, "--json", "set"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(paths(&run.json()), expected, "{verb}");
    }
    // A set that lacks a part still names those that are there.
    let part = std::fs::read_dir(scratch.path("set"))
        .unwrap()
        .find_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name.ends_with(".aero") && !name.contains("index")).then_some(path)
        });
    std::fs::remove_file(part.unwrap()).unwrap();
    let run = scratch.run(&["hash", "--json", "set"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(paths(&run.json()), expected);
}

#[test]
fn a_pattern_must_match_in_one_of_the_files() {
    let scratch = Scratch::new();
    with_names(&scratch, "a.safetensors", &["l.0.w"]);
    with_names(&scratch, "b.safetensors", &["l.1.w"]);
    let both = ["a.safetensors", "b.safetensors"];
    for verb in ["inspect", "stats"] {
        let run = |filter: &[&str]| scratch.run(&[&[verb, "--json"][..], &both, filter].concat());
        let one = run(&["--filter", "l.1.*"]);
        assert_eq!(one.code, 0, "{one:?}");
        let files = one.json()["files"].clone();
        assert_eq!(files[0]["tensors"].as_array().unwrap().len(), 0);
        assert_eq!(files[1]["tensors"][0]["name"], "l.1.w");
        let none = run(&["--filter", "l.1.*", "--filter", "l.7.*"]);
        assert_eq!(none.code, 2, "{none:?}");
        assert!(none.err.contains("\"l.7.*\" matches nothing") && !none.err.contains("\"l.1.*\""));
        assert_eq!(run(&["--filter", "l.7.*", "--allow-empty"]).code, 0);
        let wrong = run(&["--filter", "l["]);
        assert_eq!(wrong.code, 2, "{wrong:?}");
        assert_eq!(wrong.err.matches("[[] is the character").count(), 1);
        assert_eq!(paths(&wrong.json()), both);
    }
    let page = scratch.run(&[
        "inspect",
        "--html",
        "p.html",
        "a.safetensors",
        "b.safetensors",
    ]);
    assert_eq!(page.code, 2, "{page:?}");
    assert!(!scratch.path("p.html").exists());
}

/// What several inputs take of memory is one account: each alone is within the limit, both together are not.
#[test]
fn inputs_that_are_open_at_once_share_a_limit() {
    let scratch = Scratch::new();
    let names =
        |prefix: &str| -> Vec<String> { (0..200).map(|at| format!("{prefix}{at}")).collect() };
    for prefix in ["a", "b"] {
        let names = names(prefix);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        with_names(&scratch, &format!("{prefix}.safetensors"), &names);
    }
    let run = |verb: &[&str], limit: &str| {
        let limit = format!("max_work_overhead_bytes={limit}");
        scratch.run(&[verb, &["--limit", &limit]].concat())
    };
    // What the error says is enough.
    let enough = |verb: &[&str], limit: &str| {
        let run = run(verb, limit);
        assert_eq!(run.code, 1, "{run:?}");
        let (_, value) = run
            .err
            .split_once("max_work_overhead_bytes=")
            .expect(&run.err);
        let value: String = value.chars().take_while(char::is_ascii_digit).collect();
        value
    };
    let one = enough(&["convert", "a.safetensors", "m.zt"], "0");
    assert_eq!(run(&["convert", "a.safetensors", "o.zt"], &one).code, 0);
    let both = ["convert", "a.safetensors", "b.safetensors", "m.zt"];
    let two = enough(&both, &one);
    assert!(!scratch.path("m.zt").exists());
    assert!(
        two.parse::<u64>().unwrap() > one.parse::<u64>().unwrap() * 3 / 2,
        "{one} {two}"
    );
    assert_eq!(run(&both, &two).code, 0);
    let alone = ["diff", "a.safetensors", "a.safetensors"];
    let one = enough(&alone, "0");
    let two = enough(&alone, &one);
    assert_eq!(run(&alone, &two).code, 0);
}
