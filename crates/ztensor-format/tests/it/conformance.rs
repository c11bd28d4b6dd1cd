use std::collections::BTreeSet;

use test_data::Expect;

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

/// The ids of the source are those of the cases: a rule without a case would not be tested, and a
/// case of an unknown rule would be a slip.
#[test]
fn every_rule_has_a_case() {
    let source = include_str!("../../src/error.rs");
    let ids: BTreeSet<&str> = source
        .split('"')
        .filter(|text| {
            let rest = text.strip_prefix("ztensor.");
            rest.is_some_and(|rest| {
                !rest.is_empty()
                    && rest
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b"._48".contains(&b))
            })
        })
        .collect();
    let cases = test_data::cases("ztensor").unwrap();
    let tested: BTreeSet<&str> = cases
        .iter()
        .filter_map(|case| match case.expect {
            Expect::Reject(id) | Expect::Unsupported(id) => Some(id),
            Expect::Valid => None,
        })
        .filter(|id| !id.starts_with("max_"))
        .collect();
    let untested: Vec<_> = ids
        .difference(&tested)
        // Only a build without zstd says the first, and the others are of fields that may be absent.
        .filter(|id| {
            let optional = ["checksum", "data_endianness", "layout"];
            let missing = id.strip_suffix(".missing").unwrap_or(id);
            let field = missing.strip_prefix("ztensor.").unwrap_or(missing);
            **id != "ztensor.zstd.disabled" && !(missing != **id && optional.contains(&field))
        })
        .collect();
    assert!(untested.is_empty(), "{untested:?}");
    let unknown: Vec<_> = tested.difference(&ids).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
