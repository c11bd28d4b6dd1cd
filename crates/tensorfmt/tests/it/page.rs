//! `docs/user-reports.md` tells of tests that are there.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The reports that the page is about.
const REPORTS: &[u32] = &[
    1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, // mapping, opening
    17, 19, 20, 22, 23, 25, 26, // writing
    71, 73, 74, 76, 77, 79, 80, 82, 83, 85, 86, 88, 89, 91, 92, 94, 95, 97, 98, // numbers
    100, 101, 103, 104, 106, 107, // checksums
    109, 110, 112, 113, 115, 116, 118, 119, 121, 122, 124, 125, // metadata, order
    140, 142, 143, 145, 146, 148, 149, 151, 152, // command line, sets, building
    201, 202, 203, 204, 205, 206, 207, 209, 210, 211, 212, 215, 217, 218, 219, 220, 221, 226, 242,
    243, 244, // silence
    227, 229, 230, 232, 233, 234, 235, 236, 237, 239, 240, 241, 246, 247, 248,
    252, // models as they are shipped
];

/// All Rust code below a folder, as one text.
fn code(folder: &Path, text: &mut String) {
    for file in fs::read_dir(folder).into_iter().flatten() {
        let path = file.unwrap().path();
        if path.is_dir() {
            code(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_report_has_its_line_and_every_test_it_names_exists() {
    let root = test_data::workspace_root();
    let page = fs::read_to_string(root.join("docs/user-reports.md")).unwrap();
    let mut packages: HashMap<&str, String> = HashMap::new();
    let mut numbers = Vec::new();
    let mut named = 0;
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let Some(number) = cells.first().and_then(|cell| cell.parse::<u32>().ok()) else {
            continue;
        };
        numbers.push(number);
        assert_eq!(cells.len(), 5, "{line}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{line}");
        // Every second piece is between backticks.
        for test in cells[4].split('`').skip(1).step_by(2) {
            let (package, test) = test.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            let code = packages.entry(package).or_insert_with(|| {
                let mut text = String::new();
                let folder = match package {
                    "xtask" => root.join("xtask"),
                    package => root.join("crates").join(package),
                };
                code(&folder, &mut text);
                if text.contains("test_data::saving_tests!(") {
                    let shared = root.join("crates/test-data/src/saving.rs");
                    let shared = fs::read_to_string(shared).unwrap();
                    text.push_str(&shared.replace("\n        ", "\n    "));
                }
                text
            });
            let found = code.contains(&format!("#[test]\n    fn {test}("))
                || code.contains(&format!("#[test]\nfn {test}("));
            assert!(found, "report {number}: {package} has no test {test}");
            named += 1;
        }
    }
    assert_eq!(numbers, REPORTS);
    assert!(named > REPORTS.len(), "{named}");
}
