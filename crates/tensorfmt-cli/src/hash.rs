use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest, Sha256};
use tensor_core::{Source, Ticker, checksum, walk};
use tensorfmt::{Archive, Entry, Error};

use crate::Outcome;
use crate::cli::{Algorithm, Common, Hash};
use crate::failure::{Failure, INVALID, UNSUPPORTED, complain};
use crate::files::{Heading, Round, broken, each};
use crate::input::Input;
use crate::output::{BATCH, Listing, Out, escape, shown};
use crate::progress::Meter;
use crate::shared::Shared;

/// What the JSON has before the tensors.
#[derive(Serialize)]
struct Head {
    /// Where there are several files.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    algorithm: &'static str,
}

/// And what after them.
#[derive(Serialize)]
struct Tail {}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    digest: Option<String>,
}

pub(crate) fn run(args: &Hash, common: &Common) -> Outcome {
    each(
        &args.files,
        (args.json, Heading::Line, false),
        common,
        |input, round| file(input, args, common, round),
    )
}

fn file(input: &Input, args: &Hash, common: &Common, round: &mut Round) -> Result<u8, Failure> {
    let archive = input
        .open()
        .map_err(|error| Failure::about(&input.path, &error))?;
    input.warn(&archive);
    let entries = archive.entries();
    let total = entries
        .iter()
        .filter_map(Entry::nbytes)
        .fold(0, u64::saturating_add);
    let meter = Meter::new(total, common);
    let progress = |bytes| meter.tick(bytes);
    let ticker = Ticker::new(Some(&progress));
    let mut exit = 0;
    let algorithm = match args.algorithm {
        Algorithm::Blake3 => "blake3",
        Algorithm::Sha256 => "sha256",
        Algorithm::Crc32c => "crc32c",
    };
    let mut listing = match args.json {
        true => {
            let path = round.path(input);
            Listing::Json(Out::new().list(&Head { path, algorithm }, "tensors")?)
        }
        false => Listing::Lines(Out::new()),
    };
    let mut known = Shared::new();
    for entries in entries.chunks(BATCH) {
        let digests = known.find(entries, |asked| {
            tensor_core::parallel::map(common.threads, asked.len(), |at| {
                let Some(entry) = asked.get(at).and_then(|&at| entries.get(at)) else {
                    return Ok(Ok(String::new()));
                };
                let digest = digest(&archive, entry, args.algorithm, &ticker);
                match digest {
                    Err(error) if fatal(&error) => Err(error),
                    digest => Ok(digest.map_err(Arc::new)),
                }
            })
        });
        let digests = match digests {
            Ok(digests) => digests,
            Err(error) => return broken(listing, Failure::about(&input.path, &error)),
        };
        for (entry, digest) in entries.iter().zip(digests) {
            if let Err(error) = &digest {
                let code = if error.is_unsupported() {
                    UNSUPPORTED
                } else {
                    INVALID
                };
                // A damaged tensor outranks one that can't be interpreted.
                exit = if exit == INVALID { INVALID } else { code };
                let (path, name) = (input.path.display(), entry.name());
                complain(&escape(&format!("{path}: {name:?}: {error}")));
            }
            let line = Line {
                name: entry.name(),
                digest: digest.ok(),
            };
            match &mut listing {
                Listing::Json(list) => list.item(&line)?,
                Listing::Lines(out) => {
                    let digest = line.digest.as_deref().unwrap_or("-");
                    out.line(&format!("{digest}  {}", shown(line.name)))?;
                }
            }
        }
    }
    drop(meter);
    match listing {
        Listing::Json(list) => list.end(&Tail {})?,
        Listing::Lines(out) => out.finish()?,
    }
    Ok(exit)
}

/// Whether an error is about more than one tensor.
fn fatal(error: &Error) -> bool {
    use tensor_core::Kind;
    matches!(error.kind(), Kind::Io | Kind::Cancelled)
}

/// The digest of a tensor's decoded bytes in stored order, as lower-case hex; of its stored ones
/// where the dtype is unknown.
fn digest(
    archive: &Archive,
    entry: &Entry<'_>,
    algorithm: Algorithm,
    ticker: &Ticker<'_>,
) -> Result<String, Error> {
    let data = match archive.data(entry) {
        // The error says why there are no values; where there are no bytes either, that is all.
        Err(error) if error.is_unsupported() => archive.stored(entry).map_err(|_| error)?,
        data => data?,
    };
    let all = 0..data.size();
    match algorithm {
        Algorithm::Blake3 => {
            let mut hasher = blake3::Hasher::new();
            walk::<Error>(&data, all, ticker, |piece| {
                hasher.update(piece);
                Ok(())
            })?;
            Ok(hasher.finalize().to_hex().to_string())
        }
        Algorithm::Sha256 => {
            let mut hasher = Sha256::new();
            walk::<Error>(&data, all, ticker, |piece| {
                hasher.update(piece);
                Ok(())
            })?;
            Ok(hasher
                .finalize()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect())
        }
        Algorithm::Crc32c => {
            let crc = checksum::crc32c_source(&data, all, 1, ticker).map_err(Error::from)?;
            Ok(format!("{crc:08x}"))
        }
    }
}
