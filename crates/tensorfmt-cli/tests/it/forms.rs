//! The listing as a tree, as Markdown and as a page.

use std::fs;

use serde_json::Value;
use tensorfmt::{Tensor, safetensors};

use crate::{Scratch, write};

/// A name that would do harm in HTML, in a Markdown table and on a terminal.
const HOSTILE: &str = "x</script><img src=y>|`a`*\u{1b}[2J\n<!--";

fn save(scratch: &Scratch, names: &[&str]) {
    let mut builder = safetensors::Builder::new();
    for (at, name) in names.iter().enumerate() {
        let values = vec![at as f32; at + 1];
        let tensor = Tensor::from_slice(&values, &[at as u64 + 1]).unwrap();
        builder.tensor(*name, tensor).unwrap();
    }
    builder.metadata("a|b", "</script><b>").unwrap();
    write(&scratch.path("m.safetensors"), builder.to_vec().unwrap());
}

#[test]
fn the_tree_parts_names_at_dots_and_sorts_numbers_by_value() {
    let scratch = Scratch::new();
    save(
        &scratch,
        &["l.10.w", "l.2.w", "l.2.b", "head", "l.2", "z.y.x", "", "."],
    );
    let run = scratch.run(&["inspect", "--tree", "m.safetensors"]);
    assert_eq!(run.code, 0, "{run:?}");
    let labels: Vec<&str> = run.out.lines().skip(1).map(str::trim_end).collect();
    assert_eq!(
        labels,
        [
            r#"""       f32  [7]  28 B"#,
            r#".        f32  [8]  32 B"#,
            r#"head     f32  [4]  16 B"#,
            r#"l                  44 B  4 tensors"#,
            r#"├─ 2     f32  [5]  20 B"#,
            r#"├─ 2               20 B  2 tensors"#,
            r#"│  ├─ b  f32  [3]  12 B"#,
            r#"│  └─ w  f32  [2]   8 B"#,
            r#"└─ 10.w  f32  [1]   4 B"#,
            r#"z.y.x    f32  [6]  24 B"#,
            r#"f32  8 tensors  36 values  144 B"#,
            r#"8 tensors, 36 values, 144 B"#,
        ]
    );
    let run = scratch.run(&["inspect", "--tree", "--depth", "1", "m.safetensors"]);
    assert!(
        run.out.contains("4 tensors") && !run.out.contains("├─"),
        "{run:?}"
    );
    assert_eq!(
        scratch
            .run(&["inspect", "--depth", "1", "m.safetensors"])
            .code,
        2
    );
    assert_eq!(
        scratch
            .run(&["inspect", "--tree", "--json", "m.safetensors"])
            .code,
        2
    );
}

/// A name with a hundred thousand dots, beside one that shares most of them.
#[test]
fn the_tree_does_not_care_how_deep_it_is() {
    let scratch = Scratch::new();
    let deep = "a.".repeat(100_000);
    save(
        &scratch,
        &[&format!("{deep}x"), &format!("{deep}y"), "a.a.b"],
    );
    let run = scratch.run(&["inspect", "--tree", "m.safetensors"]);
    assert_eq!(run.code, 0);
    assert_eq!(run.out.lines().count(), 1 + 5 + 2);
}

#[test]
fn markdown_keeps_a_name_in_its_cell() {
    let scratch = Scratch::new();
    save(&scratch, &[HOSTILE, "w"]);
    let run = scratch.run(&["inspect", "--markdown", "m.safetensors"]);
    assert_eq!(run.code, 0, "{run:?}");
    let line = run.out.lines().find(|line| line.contains("img")).unwrap();
    assert!(
        line.starts_with(
            r"| x\</script\>\<img src=y\>\|\`a\`\*\\u{1b}\[2J\\n\<\!-- | f32 | \[1\] |"
        ),
        "{line}"
    );
    assert!(
        run.out.contains(r"| a\|b | \</script\>\<b\> |"),
        "{}",
        run.out
    );
    assert!(run.out.contains("2 tensors, 3 values"), "{}", run.out);
}

/// The data that a page holds.
fn data_of(page: &str) -> Value {
    let start = r#"<script id="data" type="application/json">"#;
    let (_, rest) = page.split_once(start).unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn the_page_holds_everything_and_loads_nothing() {
    let scratch = Scratch::new();
    save(&scratch, &[HOSTILE, "w"]);
    let run = scratch.run(&["inspect", "--html", "m.html", "m.safetensors"]);
    assert_eq!((run.code, &*run.out), (0, ""), "{run:?}");
    let page = fs::read_to_string(scratch.path("m.html")).unwrap();
    let data = data_of(&page);
    assert!(!page.contains("<img"), "a name has become HTML");
    assert!(page.contains("default-src 'none'"));
    for loads in ["src=\"", "href=", "@import", "url(", "fetch("] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert_eq!(data["metadata"][0][1], "</script><b>");
    let w = &data["tensors"][1];
    assert_eq!((&w["name"], &w["dtype"]), (&"w".into(), &"f32".into()));
    assert_eq!((&w["max"], &w["count"]), (&1.0.into(), &2.into()));
    assert_eq!(
        w["offset"],
        scratch.run(&["inspect", "--json", "m.safetensors"]).json()["tensors"][1]["offset"]
    );
}

#[test]
fn the_page_is_written_like_any_other_output() {
    let scratch = Scratch::new();
    let html = |arguments: &[&str]| scratch.run(&[&["inspect", "--html"], arguments].concat());
    assert_eq!(html(&["m.html", "demo.mag"]).code, 0);
    let first = fs::read(scratch.path("m.html")).unwrap();
    let run = html(&["m.html", "demo.mag"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.err.contains("--force"), "{run:?}");
    assert_eq!(html(&["m.html", "--force", "demo.mag"]).code, 0);
    assert_eq!(fs::read(scratch.path("m.html")).unwrap(), first);
    assert_eq!(html(&["no/folder.html", "demo.mag"]).code, 3);
    // The model itself is never a place for its page.
    let before = fs::read(scratch.path("demo.mag")).unwrap();
    assert_eq!(html(&["demo.mag", "--force", "demo.mag"]).code, 2);
    assert_eq!(fs::read(scratch.path("demo.mag")).unwrap(), before);
    assert_eq!(html(&["n.html", "--no-stats", "demo.mag"]).code, 0);
    let page = fs::read_to_string(scratch.path("n.html")).unwrap();
    let data = data_of(&page);
    assert_eq!(data["measured"], false);
    assert_eq!(data["tensors"][0]["histogram"], Value::Null);
    assert_eq!(scratch.files(), ["demo.mag", "m.html", "n.html"]);
}

/// What has no values is listed without them.
#[test]
fn the_page_lists_what_cannot_be_read() {
    for format in ["mag", "ztensor"] {
        let scratch = Scratch::new();
        let cases = test_data::cases(format).unwrap().into_iter();
        let mut seen = 0;
        for case in cases.filter(|case| matches!(case.expect, test_data::Expect::Unsupported(_))) {
            write(&scratch.path("u"), &case.bytes);
            let listed = scratch.run(&["inspect", "--json", "u"]);
            let run = scratch.run(&["inspect", "--force", "--html", "u.html", "u"]);
            assert_eq!(run.code, listed.code, "{}: {run:?}", case.name);
            if run.code == 0 {
                let page = fs::read_to_string(scratch.path("u.html")).unwrap();
                let listed = listed.json()["tensors"].as_array().unwrap().len();
                let shown = data_of(&page)["tensors"].as_array().unwrap().len();
                assert_eq!(shown, listed, "{}", case.name);
                let data = data_of(&page);
                let mut shown = data["tensors"].as_array().unwrap().iter();
                let says_why =
                    |tensor: &Value| tensor["fault"].is_string() && tensor["histogram"].is_null();
                assert!(shown.any(says_why), "{}", case.name);
                seen += 1;
            }
        }
        assert!(seen > 0, "{format}");
    }
}
