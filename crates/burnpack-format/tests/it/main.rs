//! Integration tests of the codec, over its public API only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise"
)]

mod conformance;
mod corpus;
mod lazy;
mod mutation;
mod roundtrip;
mod saving;

use burnpack_format::{Archive, BoolStore, Bytes, Error, Kind, Report, VerifyOptions};

/// What a reader made of a file: the same three verdicts as the command line's exit codes.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accept,
    Reject(Option<&'static str>),
    Unsupported(Option<&'static str>),
}

/// Opens, verifies and reads everything.
fn judge(bytes: impl Into<Bytes>) -> (Verdict, Option<Archive>) {
    let judged = Archive::from_bytes(bytes).and_then(|archive| {
        // One thread, whose memory is counted.
        let mut options = VerifyOptions::default();
        options.threads = 1;
        let report = archive.verify(&options)?;
        options.strict = true;
        archive.verify(&options)?;
        let mut unsupported = None;
        for entry in archive.entries() {
            match archive.read(entry) {
                Ok(tensor) if entry.bool_store() == Some(BoolStore::U32) => {
                    let whole = archive.bools(entry)?;
                    assert_eq!(tensor.data(), &whole.read(0..whole.size())?);
                }
                Ok(tensor) => {
                    let mut out = vec![0; tensor.data().len()];
                    archive.read_into(entry, &mut out)?;
                    assert_eq!(tensor.data(), &out);
                }
                Err(error) if error.kind() == Kind::Unsupported => {
                    unsupported = error.rule_id();
                }
                Err(error) => return Err(error),
            }
        }
        Ok((archive, report, unsupported))
    });
    match judged {
        Ok((archive, report, unsupported)) => (verdict_of(&report, unsupported), Some(archive)),
        Err(error) => (verdict_of_error(&error), None),
    }
}

fn verdict_of(report: &Report, unsupported: Option<&'static str>) -> Verdict {
    match (report.has_failed(), report.has_unsupported()) {
        (true, _) => Verdict::Reject(None),
        (_, true) => Verdict::Unsupported(unsupported),
        _ => {
            assert_eq!(unsupported, None);
            Verdict::Accept
        }
    }
}

fn verdict_of_error(error: &Error) -> Verdict {
    match error.kind() {
        Kind::Invalid | Kind::Limit => Verdict::Reject(error.rule_id()),
        Kind::Unsupported => Verdict::Unsupported(error.rule_id()),
        kind => panic!("{kind:?} from bytes in memory: {error}"),
    }
}
