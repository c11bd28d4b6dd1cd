use test_data::Expect;

use crate::{Verdict, judge};

#[test]
fn every_hand_assembled_file_gets_its_verdict() {
    let cases = test_data::cases("aero").unwrap();
    assert!(cases.len() > 150);
    for case in cases {
        if cfg!(not(feature = "zstd")) && case.expect == Expect::Reject("aero.chunk.zstd") {
            continue;
        }
        let (verdict, _) = judge(case.bytes);
        // What only verification finds is in its report, without the rule.
        let expected = match case.expect {
            Expect::Valid => [Verdict::Accept, Verdict::Accept],
            Expect::Reject(rule) => [Verdict::Reject(Some(rule)), Verdict::Reject(None)],
            Expect::Unsupported(what) => {
                [Verdict::Unsupported(Some(what)), Verdict::Unsupported(None)]
            }
        };
        assert!(
            expected.contains(&verdict),
            "{}: {}: {verdict:?} instead of {:?}",
            case.name,
            case.about,
            expected[0]
        );
    }
}
