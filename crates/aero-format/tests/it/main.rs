//! Integration tests of the codec, over its public API only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise"
)]

mod changing;
mod conformance;
mod corpus;
mod lazy;
mod mutation;
mod roundtrip;
mod salvage;
mod saving;
mod set_faults;
mod sets;

use aero_format::{Archive, Bytes, Error, Kind, Report, VerifyOptions};

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
        for entry in archive.entries() {
            let _ = archive.extra(entry);
            match archive.read(entry) {
                Ok(tensor) => {
                    let mut out = vec![0; tensor.data().len()];
                    archive.read_into(entry, &mut out)?;
                    assert_eq!(tensor.data(), &out);
                }
                Err(error) => assert_eq!(error.kind(), Kind::Unsupported, "{error}"),
            }
        }
        Ok((archive, report))
    });
    match judged {
        Ok((archive, report)) => (verdict_of(&report), Some(archive)),
        Err(error) => (verdict_of_error(&error), None),
    }
}

fn verdict_of(report: &Report) -> Verdict {
    match (report.has_failed(), report.has_unsupported()) {
        (true, _) => Verdict::Reject(None),
        (_, true) => Verdict::Unsupported(None),
        _ => Verdict::Accept,
    }
}

fn verdict_of_error(error: &Error) -> Verdict {
    match error.kind() {
        Kind::Invalid | Kind::Limit => Verdict::Reject(error.rule_id()),
        Kind::Unsupported => Verdict::Unsupported(error.rule_id()),
        kind => panic!("{kind:?}: {error}"),
    }
}
