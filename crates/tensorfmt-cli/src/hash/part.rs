//! Digests of a part of a file, and what all of them come to.

use serde::{Deserialize, Serialize};
use tensor_core::codec::Ticker;
use tensorfmt::Part;
use tensorfmt::convert::Tensors;

use super::digest::{Records, hex, of_hex};
use super::{Head, Line, Tail, Ties, Work};
use crate::cli::Algorithm;
use crate::failure::{Failure, INVALID};
use crate::files::{broken, worse};
use crate::input::Input;
use crate::output::{BATCH, Listing, Out};
use crate::picked::Picked;
use crate::progress::Meter;
use crate::reports::{self, Reports};
use crate::shared::Shared;

/// What a report has before its tensors.
#[derive(Serialize)]
struct Start {
    part: reports::Head,
    algorithm: &'static str,
    tied: bool,
}

#[derive(Serialize, Deserialize)]
struct Tensor {
    name: String,
    digest: Option<String>,
    dtype: String,
    shape: Vec<u64>,
    /// The digest of the values row by row, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    rows: Option<String>,
}

/// And what after them.
#[derive(Serialize)]
struct Finish {
    exit: u8,
}

/// Prints the digests of a part of these tensors.
pub(super) fn run(
    work: &Work<'_>,
    (input, part): (&Input, Part),
    archive: &tensorfmt::Archive,
    entries: &mut Picked<'_>,
) -> Result<u8, Failure> {
    let args = work.args;
    let mut options = reports::patterns(&args.filter, &args.exclude);
    options.push(format!("--algorithm={}", work.algorithm.name()));
    options.extend(args.tied.then(|| "--tied".to_owned()));
    let start = Start {
        part: reports::Head::new("hash", part, &input.path, Some(archive), options)?,
        algorithm: work.algorithm.name(),
        tied: args.tied,
    };
    let lens: Vec<u64> = entries
        .iter()
        .map(|entry| reports::len_of(&entry))
        .collect();
    entries.slice(part.range(&lens));
    let mut list = Out::new().list(&start, "tensors")?;
    let tensors = Tensors::new(archive);
    let total = entries.iter().filter_map(|entry| entry.nbytes());
    let meter = Meter::new(total.fold(0, u64::saturating_add), work.common);
    let progress = |bytes| meter.tick(bytes);
    let ticker = Ticker::new(Some(&progress));
    let mut known = Shared::new();
    let mut exit = 0;
    for batch in entries.batches(BATCH) {
        let digests = match work.batch(archive, &tensors, &batch, &mut known, &ticker) {
            Ok(digests) => digests,
            Err(error) => {
                return broken(Listing::Json(list), Failure::about(&input.path, &error));
            }
        };
        for (entry, found) in batch.iter().zip(&digests) {
            exit = worse(exit, work.complain_of(input, entry, found));
            let tensor = tensors.get(*entry);
            let digests = found.as_ref().ok();
            list.item(&Tensor {
                name: tensor.name().to_owned(),
                digest: digests.map(|(stored, _)| hex(stored)),
                dtype: tensor.dtype_name().to_owned(),
                shape: tensor.shape().dims().to_vec(),
                rows: digests.and_then(|(_, rows)| rows.as_deref()).map(hex),
            })?;
        }
    }
    drop(meter);
    list.end(&Finish { exit })?;
    Ok(exit)
}

/// A report that was read.
#[derive(Deserialize)]
struct Found {
    algorithm: String,
    tied: bool,
    tensors: Vec<Tensor>,
    exit: u8,
}

/// Prints what one run on the whole file does.
pub(crate) fn join(reports: &Reports) -> Result<u8, Failure> {
    let mut joined: Option<Joined> = None;
    reports.each(|found: Found| {
        if joined.is_none() {
            joined = Some(Joined::new(&found)?);
        }
        joined.as_mut().map_or(Ok(()), |joined| joined.take(found))
    })?;
    match joined {
        Some(joined) => joined.end(),
        None => Ok(0),
    }
}

/// What is printed of the reports so far.
struct Joined {
    list: crate::output::List,
    ties: Option<Ties>,
    records: Records,
    exit: u8,
}

impl Joined {
    fn new(first: &Found) -> Result<Self, Failure> {
        let known = [Algorithm::Blake3, Algorithm::Sha256, Algorithm::Crc32c];
        let named = known
            .into_iter()
            .find(|known| known.name() == first.algorithm);
        let algorithm = named.ok_or_else(|| {
            let name = &first.algorithm;
            Failure::new(
                INVALID,
                format!("reports of digests by {name:?}, which is unknown"),
            )
        })?;
        let (path, algorithm_name) = (None, algorithm.name());
        let head = Head {
            path,
            algorithm: algorithm_name,
        };
        Ok(Self {
            list: Out::new().list(&head, "tensors")?,
            ties: first.tied.then(Ties::default),
            records: Records::new(algorithm),
            exit: 0,
        })
    }

    fn take(&mut self, found: Found) -> Result<(), Failure> {
        self.exit = worse(self.exit, found.exit);
        for tensor in found.tensors {
            let (name, digest) = (&*tensor.name, tensor.digest.clone());
            let values = tensor.rows.or(tensor.digest).as_deref().and_then(of_hex);
            let about = (name, &*tensor.dtype, &*tensor.shape);
            self.records.add(about, values.as_deref());
            if let (Some(ties), Some(values)) = (&mut self.ties, values) {
                ties.note(about, values);
            }
            self.list.item(&Line { name, digest })?;
        }
        Ok(())
    }

    fn end(self) -> Result<u8, Failure> {
        let model = self.records.finish().map(|digest| hex(&digest));
        self.list.end(&Tail {
            model,
            tied: self.ties.map(Ties::groups),
            same: None,
        })?;
        Ok(self.exit)
    }
}
