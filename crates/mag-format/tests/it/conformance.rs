use test_data::Expect;

use crate::{Verdict, judge};

#[test]
fn every_hand_assembled_file_gets_its_verdict() {
    let cases = test_data::cases("mag").unwrap();
    assert!(cases.len() > 100);
    for case in cases {
        let (verdict, _) = judge(case.bytes);
        // Without the feature a snapshot is refused by its number, before anything else.
        let is_snapshot = case.name.starts_with("snapshot_0_");
        if is_snapshot && !cfg!(feature = "snapshots") {
            let expected = match case.expect {
                Expect::Reject("mag.truncated") => continue,
                _ => Verdict::Unsupported(Some("mag.version")),
            };
            assert_eq!(verdict, expected, "{}: {}", case.name, case.about);
            continue;
        }
        if case.name.starts_with("snapshot_100_") && !cfg!(feature = "snapshots") {
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
