//! Integration tests of the codec, over its public API only.

#![cfg(feature = "zstd")]
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
#[cfg(feature = "generations")]
mod generations;
mod mutation;
mod roundtrip;
mod saving;
mod streams;

use tensor_core::SourceError;
use ztensor_format::{
    Archive, Bytes, Error, Item, Kind, Outcome, ReadOptions, Report, Source, VerifyOptions,
};

/// What a reader made of a file: the same three verdicts as the command line's exit codes.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accept,
    Reject(Option<String>),
    Unsupported(Option<String>),
}

/// The same bytes, but not as memory: what a file is to a reader.
struct Remote(Bytes);

impl Source for Remote {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.0.read_into(offset, out)
    }
}

/// Opens, verifies and reads everything, from memory and from elsewhere, by every way there is;
/// they must agree.
fn judge(bytes: impl Into<Bytes>) -> (Verdict, Option<Archive>) {
    judge_up_to(u64::MAX, bytes)
}

/// The same, but tensors that decode to more bytes than `most` are only verified.
fn judge_up_to(most: u64, bytes: impl Into<Bytes>) -> (Verdict, Option<Archive>) {
    let bytes = bytes.into();
    let remote = Archive::from_source(Remote(bytes.clone()), &ReadOptions::default());
    let (archive, remote) = match (Archive::from_bytes(bytes), remote) {
        (Ok(archive), Ok(remote)) => (archive, remote),
        (Err(error), Err(remote)) => {
            assert_eq!(error.to_string(), remote.to_string());
            return (verdict_of_error(&error), None);
        }
        (archive, remote) => panic!("{archive:?} from memory, {remote:?} from elsewhere"),
    };
    // One thread, whose memory is counted.
    let mut options = VerifyOptions::default();
    options.threads = 1;
    let report = archive.verify(&options).unwrap();
    assert_eq!(report, remote.verify(&options).unwrap());
    // The last one is about the index.
    assert_eq!(report.items.len(), archive.entries().len() + 1);
    assert_eq!(report.items.last().unwrap().item, "index");
    for ((entry, far), item) in archive
        .entries()
        .iter()
        .zip(remote.entries())
        .zip(&report.items)
    {
        assert_eq!(item.item, entry.name());
        if entry.nbytes().is_some_and(|len| len > most) {
            continue;
        }
        let read = archive.read(entry);
        match (&read, remote.read(far)) {
            (Ok(tensor), Ok(far)) => assert_eq!(*tensor, far),
            (Err(error), Err(far)) => assert_eq!(error.to_string(), far.to_string()),
            (read, far) => panic!("{read:?} from memory, {far:?} from elsewhere"),
        }
        match read {
            Ok(tensor) => {
                let mut out = vec![1; tensor.data().len()];
                remote.read_into(far, &mut out).unwrap();
                assert!(tensor.data() == &out);
                let source = remote.data(far).unwrap();
                out.fill(1);
                source.read_into(0, &mut out).unwrap();
                assert!(tensor.data() == &out);
            }
            Err(error) => match error.kind() {
                // Its data may be damaged too, which outranks that.
                Kind::Unsupported => {
                    assert!([Outcome::Unsupported, Outcome::Failed].contains(&item.outcome));
                }
                _ => assert_eq!(item.outcome, Outcome::Failed, "{error}"),
            },
        }
        let _ = archive.data(entry).map(|data| data.read(0..data.size()));
        let _ = entry.custom();
    }
    (verdict_of(&report), Some(archive))
}

/// The last rule or the like that an item's note names in brackets.
fn id_of(item: &Item) -> Option<String> {
    let note = item.note.as_ref()?;
    let (_, id) = note.rsplit_once('[')?;
    Some(id.split_once(']')?.0.to_owned())
}

fn verdict_of(report: &Report) -> Verdict {
    let first = |outcome| report.items.iter().find(|item| item.outcome == outcome);
    if let Some(item) = first(Outcome::Failed) {
        return Verdict::Reject(id_of(item));
    }
    match first(Outcome::Unsupported) {
        Some(item) => Verdict::Unsupported(id_of(item)),
        None => Verdict::Accept,
    }
}

fn verdict_of_error(error: &Error) -> Verdict {
    let id = match error {
        Error::Limit(limit) => Some(limit.limit.to_owned()),
        error => error.rule_id().map(str::to_owned),
    };
    match error.kind() {
        Kind::Invalid | Kind::Limit => Verdict::Reject(id),
        Kind::Unsupported => Verdict::Unsupported(id),
        kind => panic!("{kind:?} from bytes in memory: {error}"),
    }
}
