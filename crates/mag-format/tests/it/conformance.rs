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
