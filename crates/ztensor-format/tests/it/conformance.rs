use test_data::Expect;

use crate::{Verdict, judge};

#[test]
fn every_hand_assembled_file_gets_its_verdict() {
    let cases = test_data::cases("ztensor").unwrap();
    assert!(cases.len() > 150);
    for case in cases {
        let (verdict, _) = judge(case.bytes);
        let expected = match case.expect {
            Expect::Valid => Verdict::Accept,
            Expect::Reject(rule) => Verdict::Reject(Some(rule.to_owned())),
            Expect::Unsupported(what) => Verdict::Unsupported(Some(what.to_owned())),
        };
        assert_eq!(verdict, expected, "{}: {}", case.name, case.about);
    }
}
