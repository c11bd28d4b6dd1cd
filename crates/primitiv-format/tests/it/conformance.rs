use std::collections::BTreeSet;

use primitiv_format::{Rule, TRUNCATED, Unsupported};
use test_data::Expect;

use crate::{Verdict, judge};

#[test]
fn every_hand_assembled_file_gets_its_verdict() {
    let cases = test_data::cases("primitiv").unwrap();
    assert!(cases.len() > 50);
    for case in cases {
        let (verdict, _) = judge(case.bytes);
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
    let cases = test_data::cases("primitiv").unwrap();
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
