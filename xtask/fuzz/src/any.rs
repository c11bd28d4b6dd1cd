use std::path::Path;

use tensor_core::{Bytes, WriteOptions};
use tensorfmt::convert::{Model, Options, Target, plan};
use tensorfmt::{Archive, Error, Kind, VerifyOptions};

use crate::{MOST_DECODED, MOST_WORK};

/// Detects, opens, reads and verifies; converts to every format, and opens what came out.
pub fn any(bytes: &[u8]) {
    let archive = match Archive::from_bytes(Bytes::copy_from_slice(bytes)) {
        Ok(archive) => archive,
        Err(error) => return assert!(is_expected(&error), "{error}"),
    };
    let _ = archive.facts();
    let _ = archive.metadata();
    let report = archive
        .verify(&VerifyOptions::default())
        .expect("memory can be read");
    let mut work = 0;
    for entry in archive.entries() {
        let _ = entry.extras();
        work += entry
            .nbytes()
            .unwrap_or(0)
            .max(entry.stored_len().unwrap_or(0));
        if entry.nbytes().is_some_and(|len| len <= MOST_DECODED) && work <= MOST_WORK {
            let _ = archive.read(entry);
        }
    }
    // A few numbers may stand for many bytes of zeros, which are no news here.
    if work > MOST_WORK || report.has_failed() || archive.entries().len() > 64 {
        return;
    }
    let folder = memory_folder();
    for &target in Target::ALL {
        convert(&archive, target, folder.path());
    }
}

fn convert(archive: &Archive, target: Target, folder: &Path) {
    let mut options = Options::default();
    options.skip_unsupported = true;
    options.promote_scalars =
        target != Target::Ztensor && target.format() != tensorfmt::Format::Safetensors;
    let planned = match plan(Model::of(archive), target, &options) {
        Ok(plan) => plan,
        Err(error) => return assert!(is_expected(&error), "{target:?}: {error}"),
    };
    let path = folder.join(match target.is_set() {
        true => format!("set.{}", target.ending()),
        false => "file".to_owned(),
    });
    let mut options = WriteOptions::default();
    options.durable = false;
    options.threads = 1;
    if let Err(error) = planned.write_file(&path, &options) {
        return assert!(is_expected(&error), "{target:?}: {error}");
    }
    let written = match Archive::open(&path) {
        Ok(written) => written,
        Err(error) => panic!("{target:?} was written and can't be read: {error}"),
    };
    let report = written
        .verify(&VerifyOptions::default())
        .expect("it is there");
    assert!(!report.has_failed(), "{target:?}: {report:?}");
}

/// What may rightly be said about a file, or against a conversion.
fn is_expected(error: &Error) -> bool {
    matches!(
        error.kind(),
        Kind::Invalid | Kind::Limit | Kind::Unsupported | Kind::Build
    )
}

/// A folder in memory where there is one.
fn memory_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .expect("a folder for the output")
}
