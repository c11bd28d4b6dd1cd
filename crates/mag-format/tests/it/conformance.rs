use std::collections::BTreeSet;

use mag_format::{Rule, TRUNCATED, Unsupported};
use test_data::Expect;

use crate::{Verdict, judge};

#[test]
fn every_hand_assembled_file_gets_its_verdict() {
    let cases = test_data::cases("mag").unwrap();
    assert!(cases.len() > 100);
    for case in cases {
        let (verdict, _) = judge(case.bytes);
        // Without the feature a snapshot is refused by its number, unless it ends before that says
        // which layout it has.
        if case.name.starts_with("snapshot_") && !cfg!(feature = "snapshots") {
            let by_number = verdict == Verdict::Unsupported(Some("mag.version"));
            let too_short = verdict == Verdict::Reject(Some("mag.truncated"));
            let may_be_short = case.expect == Expect::Reject("mag.truncated");
            let fine = by_number || (too_short && may_be_short);
            assert!(fine, "{}: {verdict:?}", case.name);
            continue;
        }
        let expected = match case.expect {
            Expect::Valid => Verdict::Accept,
            Expect::Reject(rule) => Verdict::Reject(Some(rule)),
            Expect::Unsupported(what) => Verdict::Unsupported(Some(what)),
        };
        assert_eq!(verdict, expected, "{}: {}", case.name, case.about);
    }
}

/// A rule without a case would not be tested, and a case of an unknown rule would be a slip.
#[test]
fn every_rule_has_a_case() {
    let rules: BTreeSet<&str> = Rule::IDS.iter().copied().collect();
    assert_eq!(rules.len(), Rule::IDS.len(), "an id is used twice");
    let known = Rule::IDS.iter().chain(Unsupported::IDS).copied();
    let known: BTreeSet<&str> = known.chain([TRUNCATED]).collect();
    let cases = test_data::cases("mag").unwrap();
    let tested: BTreeSet<&str> = cases
        .iter()
        .filter_map(|case| match case.expect {
            Expect::Reject(id) | Expect::Unsupported(id) => Some(id),
            Expect::Valid => None,
        })
        .collect();
    assert_eq!(tested, known);
}

/// The feature that is off is what the error asks for.
#[cfg(not(feature = "snapshots"))]
#[test]
fn the_error_names_generation_and_feature() {
    for (name, about) in [
        ("snapshot_0_1_base", "snapshot format 0.1.0"),
        ("snapshot_0_2_base", "snapshot format 0.2.0"),
        ("snapshot_0_3_base", "snapshot format 0.3.0"),
    ] {
        let cases = test_data::cases("mag").unwrap();
        let case = cases.into_iter().find(|case| case.name == name).unwrap();
        let error = mag_format::Archive::from_bytes(case.bytes).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(about), "{text}");
        assert!(text.contains("enable the feature `snapshots`"), "{text}");
    }
}
