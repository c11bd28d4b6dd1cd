use std::collections::BTreeSet;

use burnpack_format::VerifyOptions;
use test_data::Expect;

use crate::{Verdict, judge};

#[test]
fn every_hand_assembled_file_gets_its_verdict() {
    let cases = test_data::cases("burnpack").unwrap();
    assert!(cases.len() > 150);
    for case in cases {
        let (verdict, archive) = judge(case.bytes);
        let expected = match case.expect {
            Expect::Valid => Verdict::Accept,
            Expect::Reject(rule) => Verdict::Reject(Some(rule)),
            // A scalar is not read as a tensor is: what is said about it is in the report.
            Expect::Unsupported("burnpack.scalar_kind") => Verdict::Unsupported(None),
            Expect::Unsupported(what) => Verdict::Unsupported(Some(what)),
        };
        assert_eq!(verdict, expected, "{}: {}", case.name, case.about);
        if let (Expect::Unsupported("burnpack.scalar_kind"), Some(archive)) = (case.expect, archive)
        {
            let report = archive.verify(&VerifyOptions::default()).unwrap();
            let mut notes = report.items.iter().filter_map(|item| item.note.as_deref());
            assert!(notes.any(|note| note == "unknown kind of scalar \"Complex\""));
        }
    }
}

/// Every rule that the documentation lists has a file that breaks it.
#[test]
fn every_rule_has_a_case() {
    let text = include_str!("../../src/error.rs");
    let listed: BTreeSet<&str> = text
        .split('"')
        .filter(|part| part.starts_with("burnpack.") && !part.contains(' '))
        .collect();
    let mut tested = BTreeSet::new();
    for case in test_data::cases("burnpack").unwrap() {
        if let Expect::Reject(id) | Expect::Unsupported(id) = case.expect {
            tested.insert(id);
        }
    }
    let untested: Vec<_> = listed.difference(&tested).collect();
    assert!(untested.is_empty(), "{untested:?}");
}
