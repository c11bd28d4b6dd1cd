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
mod sets;

use safetensors_format::{Archive, Builder, Bytes, Error, Kind, Report, VerifyOptions};

/// What a reader made of a file: the same three verdicts as the command line's exit codes.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accept,
    Reject(Option<&'static str>),
    Unsupported(Option<&'static str>),
}

/// A file of this header and this data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let len = (header.len() as u64).to_le_bytes();
    [&len, header.as_bytes(), data].concat()
}

/// Opens, verifies and reads everything, and copies it to a file that holds the same.
fn judge(bytes: impl Into<Bytes>) -> (Verdict, Option<Archive>) {
    let judged = Archive::from_bytes(bytes).and_then(|archive| {
        let report = archive.verify(&VerifyOptions::default())?;
        let mut unsupported = None;
        for entry in archive.entries() {
            let len = entry.stored_len().unwrap();
            let stored = archive.stored(entry)?;
            assert_eq!(stored.size(), len);
            let stored = stored.read(0..len)?;
            match archive.read(entry) {
                Ok(tensor) => {
                    let mut out = vec![0; tensor.data().len()];
                    archive.read_into(entry, &mut out)?;
                    assert_eq!((tensor.data(), &stored), (&Bytes::from(out), &stored));
                    assert_eq!(tensor.data(), &stored);
                }
                Err(error) if error.kind() == Kind::Unsupported => {
                    assert_eq!(error.tensor(), Some(entry.name()));
                    unsupported = error.rule_id();
                }
                Err(error) => return Err(error),
            }
        }
        check_copy(&archive)?;
        Ok((archive, report, unsupported))
    });
    match judged {
        Ok((archive, report, unsupported)) => (verdict_of(&report, unsupported), Some(archive)),
        Err(error) => (verdict_of_error(&error), None),
    }
}

/// What was read can be written, and is the same: dtypes, extra keys and bytes.
fn check_copy(archive: &Archive) -> Result<(), Error> {
    let mut builder = Builder::new();
    for entry in archive.entries() {
        builder.copy(archive, entry)?;
    }
    for meta in archive.metadata() {
        builder.metadata(meta.key(), meta.value())?;
    }
    let again = Archive::from_bytes(builder.to_vec()?)?;
    assert_eq!(again.entries().len(), archive.entries().len());
    assert_eq!(again.data_start() % 8, 0);
    for (old, new) in archive.entries().iter().zip(again.entries()) {
        assert_eq!(old.name(), new.name());
        assert_eq!(old.dtype_code(), new.dtype_code());
        assert_eq!(old.shape(), new.shape());
        assert!(old.extras().eq(new.extras()));
        let len = old.stored_len().unwrap();
        assert_eq!(new.stored_len(), Some(len));
        let align = old.dtype_code().bits().map_or(1, |bits| bits.div_ceil(8));
        assert_eq!(new.offset() % align, 0, "{new:?}");
        let (old, new) = (archive.stored(old)?, again.stored(new)?);
        assert_eq!(old.read(0..len)?, new.read(0..len)?);
    }
    assert_eq!(again.metadata().len(), archive.metadata().len());
    for meta in archive.metadata() {
        assert_eq!(again.metadata_entry(meta.key()), Some(meta));
    }
    Ok(())
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
        kind => panic!("{kind:?} from bytes in memory: {error}"),
    }
}
