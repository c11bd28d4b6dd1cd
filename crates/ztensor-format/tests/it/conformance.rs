use std::collections::BTreeSet;

use test_data::Expect;
use ztensor_format::{Rule, TRUNCATED, Unsupported};

use crate::{Verdict, judge};

/// What a case is to this build: one that does not read later generations names them.
fn expected(expect: Expect, bytes: &[u8]) -> Verdict {
    let is_later = bytes.starts_with(b"ZTEN1000") || bytes.starts_with(b"\x89ZT2\r\n\x1a\n");
    if is_later && !cfg!(feature = "generations") {
        return Verdict::Unsupported(Some("ztensor.version".to_owned()));
    }
    match expect {
        Expect::Valid => Verdict::Accept,
        Expect::Reject(rule) => Verdict::Reject(Some(rule.to_owned())),
        Expect::Unsupported(what) => Verdict::Unsupported(Some(what.to_owned())),
    }
}

#[test]
fn every_hand_assembled_file_gets_its_verdict() {
    let cases = test_data::cases("ztensor").unwrap();
    assert!(cases.len() > 350);
    let mut wrong = Vec::new();
    for case in cases {
        let expected = expected(case.expect, &case.bytes);
        let (verdict, _) = judge(case.bytes);
        if verdict != expected {
            wrong.push(format!("{}: {verdict:?}, not {expected:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A rule without a case would not be tested, and a case of an unknown rule would be a slip.
#[test]
fn every_rule_has_a_case() {
    let rules: BTreeSet<&str> = Rule::IDS.iter().copied().collect();
    assert_eq!(rules.len(), Rule::IDS.len(), "an id is used twice");
    let known = Rule::IDS.iter().chain(Unsupported::IDS).copied();
    // Only a build without zstd says that.
    let known = known.filter(|&id| id != "ztensor.zstd.disabled");
    let known: BTreeSet<&str> = known.chain([TRUNCATED]).collect();
    let cases = test_data::cases("ztensor").unwrap();
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
