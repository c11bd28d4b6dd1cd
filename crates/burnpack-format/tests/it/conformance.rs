use std::collections::BTreeSet;

use burnpack_format::{Archive, Rule, TRUNCATED, Unsupported, VerifyOptions};
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

/// A rule without a case would not be tested, and a case of an unknown rule would be a slip.
#[test]
fn every_rule_has_a_case() {
    let rules: BTreeSet<&str> = Rule::IDS.iter().copied().collect();
    assert_eq!(rules.len(), Rule::IDS.len(), "an id is used twice");
    let known = Rule::IDS.iter().chain(Unsupported::IDS).copied();
    let known: BTreeSet<&str> = known.chain([TRUNCATED]).collect();
    let cases = test_data::cases("burnpack").unwrap();
    let tested: BTreeSet<&str> = cases
        .iter()
        .filter_map(|case| match case.expect {
            Expect::Reject(id) | Expect::Unsupported(id) => Some(id),
            Expect::Valid => None,
        })
        .collect();
    assert_eq!(tested, known);
}

/// A name of a megabyte does not make a message of a megabyte.
#[test]
fn long_names_are_shortened_in_messages() {
    let message = |len: usize| {
        let name = "é".repeat(len);
        let mut metadata = b"\xA1\x67tensors\xA1\x7A".to_vec();
        metadata.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
        metadata.extend(name.as_bytes());
        metadata.push(0x80);
        let mut file = b"NRUB\x01\0".to_vec();
        file.extend(u32::try_from(metadata.len()).unwrap().to_le_bytes());
        file.extend(metadata);
        let error = Archive::from_bytes(file).unwrap_err();
        assert_eq!(error.rule_id(), Some("burnpack.tensor.descriptor"));
        assert_eq!(error.tensor(), Some(&*name));
        error.to_string()
    };
    let start = "é".repeat(120);
    assert!(message(120).contains(&format!("tensor \"{start}\": the descriptor")));
    let long = message(1 << 20);
    assert!(
        long.contains(&format!("tensor \"{start}\"...: the descriptor")),
        "{long}"
    );
}
