use std::collections::BTreeSet;

use aero_format::{Archive, Outcome, Rule, TRUNCATED, Unsupported, VerifyOptions};
use test_data::Expect;

use crate::{Verdict, judge};

#[test]
fn every_hand_assembled_file_gets_its_verdict() {
    let cases = test_data::cases("aero").unwrap();
    assert!(cases.len() > 200);
    for case in cases {
        if cfg!(not(feature = "zstd")) && case.expect == Expect::Reject("aero.chunk.zstd") {
            continue;
        }
        let (verdict, _) = judge(case.bytes.clone());
        let (expected, in_report) = match case.expect {
            Expect::Valid => (Verdict::Accept, Verdict::Accept),
            Expect::Reject(rule) => (Verdict::Reject(Some(rule)), Verdict::Reject(None)),
            Expect::Unsupported(what) => {
                (Verdict::Unsupported(Some(what)), Verdict::Unsupported(None))
            }
        };
        let right = verdict == expected || verdict == in_report && is_reported(&case);
        assert!(right, "{}: {}: {verdict:?}", case.name, case.about);
    }
}

/// A rule without a case would not be tested, and a case of an unknown rule would be a slip. Those about sets
/// are tested with sets.
#[test]
fn every_rule_has_a_case() {
    let rules: BTreeSet<&str> = Rule::IDS.iter().copied().collect();
    assert_eq!(rules.len(), Rule::IDS.len(), "an id is used twice");
    let known = Rule::IDS.iter().chain(Unsupported::IDS).copied();
    let known: BTreeSet<&str> = known
        .chain([TRUNCATED])
        .filter(|id| !id.starts_with("aero.set.") && *id != "aero.in_parts")
        .collect();
    let cases = test_data::cases("aero").unwrap();
    let tested: BTreeSet<&str> = cases
        .iter()
        .filter_map(|case| match case.expect {
            Expect::Reject(id) | Expect::Unsupported(id) => Some(id),
            Expect::Valid => None,
        })
        .filter(|id| !id.starts_with("max_"))
        .collect();
    assert_eq!(tested, known);
}

/// Whether the report, which has no field for a rule, has what the file breaks and nothing else.
fn is_reported(case: &test_data::Case) -> bool {
    let archive = Archive::from_bytes(case.bytes.clone()).unwrap();
    let report = archive.verify(&VerifyOptions::default()).unwrap();
    let mut faults = report
        .items
        .iter()
        .filter(|item| matches!(item.outcome, Outcome::Failed | Outcome::Unsupported));
    match case.expect {
        Expect::Valid => faults.next().is_none(),
        Expect::Reject(rule) => faults.all(|item| {
            let note = item.note.as_deref().unwrap_or_default();
            // A hash that differs is named by its kind, all else, and what follows, by the rule.
            let hash = match rule {
                "aero.chunk.blake3" => note == "blake3",
                "aero.tensor.hash_b3" => note == "hash_b3",
                _ => false,
            };
            hash || note.ends_with(&format!("[{rule}]"))
        }),
        Expect::Unsupported(what) => faults.all(|item| {
            let note = item.note.as_deref().unwrap_or_default();
            match what {
                "aero.dtype" => note.starts_with("dtype "),
                _ => note.contains("IHSH algorithm"),
            }
        }),
    }
}
