//! Whether every public function of a library is shown in an example, read from rustdoc's JSON.
//!
//! A function is shown by an example on itself, or by one that calls it on its type, on the front page
//! of its crate or on an item that its documentation links to. Hidden lines of an example show nothing.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// The functions of the crate described at `json` that no example shows, as `Type::name`, and how many
/// functions there are.
pub(crate) fn unshown(json: &Path) -> Result<(Vec<String>, usize), String> {
    let text = fs::read(json).map_err(|error| format!("{}: {error}", json.display()))?;
    let described: Value =
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", json.display()))?;
    let Some(items) = described.get("index").and_then(Value::as_object) else {
        return Err(format!("{}: no index", json.display()));
    };
    let front = described.get("root").and_then(|root| item(items, root));
    let front = front.map(examples).unwrap_or_default();
    let mut missing = Vec::new();
    let mut count = 0_usize;
    for (function, owner) in functions(items) {
        count += 1;
        let name = text_of(function, "name");
        let mut shown = !examples(function).is_empty() || calls(&front, name, owner.is_none());
        if let Some(owner) = owner {
            shown = shown || calls(&examples(owner), name, false);
        }
        let links = function.get("links").and_then(Value::as_object);
        for link in links.into_iter().flat_map(Map::values) {
            let linked = item(items, link).map(examples).unwrap_or_default();
            shown = shown || calls(&linked, name, owner.is_none());
        }
        if !shown {
            let owner = owner.map_or(String::new(), |owner| {
                format!("{}::", text_of(owner, "name"))
            });
            missing.push(format!("{owner}{name}"));
        }
    }
    missing.sort();
    Ok((missing, count))
}

/// Every public free function, and every public inherent one with its type.
fn functions(items: &Map<String, Value>) -> Vec<(&Value, Option<&Value>)> {
    let mut found = Vec::new();
    let mut of_types = HashSet::new();
    for body in items.values().filter_map(|block| inner(block, "impl")) {
        let members = body.get("items").and_then(Value::as_array);
        let members = members.into_iter().flatten();
        of_types.extend(members.clone().map(ToString::to_string));
        let owner = body.pointer("/for/resolved_path/id");
        let owner = owner.and_then(|id| item(items, id)).filter(|it| public(it));
        let inherent = body.get("trait").is_none_or(Value::is_null);
        if let (Some(owner), true) = (owner, inherent) {
            let members = members.filter_map(|id| item(items, id));
            let members = members.filter(|it| public(it) && inner(it, "function").is_some());
            found.extend(members.map(|function| (function, Some(owner))));
        }
    }
    for body in items.values().filter_map(|block| inner(block, "trait")) {
        let members = body.get("items").and_then(Value::as_array);
        of_types.extend(members.into_iter().flatten().map(ToString::to_string));
    }
    let free = items.iter().filter(|(id, it)| {
        !of_types.contains(*id) && public(it) && inner(it, "function").is_some()
    });
    found.extend(free.map(|(_, function)| (function, None)));
    found
}

/// An item of this crate by its number.
fn item<'a>(items: &'a Map<String, Value>, id: &Value) -> Option<&'a Value> {
    let found = items.get(&id.to_string())?;
    (found.get("crate_id").and_then(Value::as_u64) == Some(0)).then_some(found)
}

fn public(item: &Value) -> bool {
    let own = item.get("crate_id").and_then(Value::as_u64) == Some(0);
    own && text_of(item, "visibility") == "public"
}

fn inner<'a>(item: &'a Value, kind: &str) -> Option<&'a Value> {
    item.get("inner")?.get(kind)
}

fn text_of<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The lines of Rust that the documentation of an item shows.
fn examples(item: &Value) -> String {
    let mut shown = String::new();
    let (mut fenced, mut rust) = (false, false);
    for line in text_of(item, "docs").lines() {
        let line = line.trim_start();
        if let Some(words) = line.strip_prefix("```") {
            fenced = !fenced;
            rust = fenced && words.split(',').all(is_of_rust);
        } else if rust && line != "#" && !line.starts_with("# ") && !line.starts_with("//") {
            shown.push_str(line);
            shown.push('\n');
        }
    }
    shown
}

/// Whether a word after the fence leaves a block Rust.
fn is_of_rust(word: &str) -> bool {
    let word = word.trim();
    matches!(
        word,
        "" | "rust" | "no_run" | "should_panic" | "compile_fail"
    ) || word.starts_with("edition")
}

/// Whether `code` calls what has this name: as a method, by a path, or, where it is `free`, alone.
fn calls(code: &str, name: &str, free: bool) -> bool {
    code.match_indices(name).any(|(start, _)| {
        let before = code.get(..start).unwrap_or_default();
        let after = code.get(start + name.len()..).unwrap_or_default();
        let called = after.starts_with('(') || after.starts_with("::<");
        let alone = !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        called && (before.ends_with('.') || before.ends_with("::") || (free && alone))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn described(type_docs: &str, method_docs: &str, front: &str) -> Vec<String> {
        let json = serde_json::json!({
            "root": 0,
            "index": {
                "0": {"crate_id": 0, "name": "c", "docs": front, "visibility": "public", "inner": {"module": {}}},
                "1": {"crate_id": 0, "name": "T", "docs": type_docs, "visibility": "public", "inner": {"struct": {}}},
                "2": {"crate_id": 0, "visibility": "default", "inner": {"impl": {
                    "trait": null, "for": {"resolved_path": {"id": 1}}, "items": [3, 4]}}},
                "3": {"crate_id": 0, "name": "len", "docs": method_docs, "visibility": "public",
                    "links": {"`go`": 5}, "inner": {"function": {}}},
                "4": {"crate_id": 0, "name": "hidden", "docs": null, "visibility": "crate",
                    "inner": {"function": {}}},
                "5": {"crate_id": 0, "name": "go", "docs": "```\nlet n = go(1);\n```", "visibility": "public",
                    "inner": {"function": {}}},
            },
        });
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(json.to_string().as_bytes()).unwrap();
        let (missing, count) = unshown(file.path()).unwrap();
        assert_eq!(count, 2);
        missing
    }

    #[test]
    fn a_function_is_shown_where_an_example_calls_it() {
        let call = "A type.\n\n```\nt.len();\n```";
        assert!(described(call, "", "").is_empty());
        assert!(described("", call, "").is_empty());
        assert!(described("", "", call).is_empty());
        assert!(described("```no_run\nT::len(&t);\n```", "", "").is_empty());
        assert!(described("```\nt.len::<u8>();\n```", "", "").is_empty());
    }

    #[test]
    fn words_hidden_lines_and_other_names_show_nothing() {
        for docs in [
            "",
            "What `t.len()` says.",
            "```text\nt.len()\n```",
            "```\n# t.len();\n```",
            "```\n// t.len()\n```",
            "```\nt.strlen(); t.len_of(); len();\n```",
            "```\n1;\n```\nt.len()",
        ] {
            assert_eq!(described(docs, "", docs), ["T::len"], "{docs}");
        }
    }

    #[test]
    fn a_link_to_an_example_that_calls_it_is_enough() {
        let json =
            |code: &str| serde_json::json!({"docs": format!("```\n{code}\n```"), "crate_id": 0});
        assert!(calls(&examples(&json("crate::go(1)")), "go", true));
        assert!(calls(&examples(&json("let n = go(1)")), "go", true));
        assert!(!calls(&examples(&json("let n = cargo(1)")), "go", true));
        assert!(!calls(&examples(&json("let n = go(1)")), "go", false));
    }
}
