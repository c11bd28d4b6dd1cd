//! `hash`: digests of tensors and of the whole, and the check of a list of them.

mod check;
mod digest;
pub(crate) mod part;

use std::cell::RefCell;
use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;

use check::{List, Lists, Mismatch};
use digest::{AboutTensor, Parts, hex};
use serde::Serialize;
use tensor_core::codec::Ticker;
use tensorfmt::convert::Tensors;
use tensorfmt::{Archive, Entry, Error};

use crate::Outcome;
use crate::cli::{Algorithm, Common, Hash};
use crate::failure::{Failure, INVALID, UNSUPPORTED, complain};
use crate::files::{Heading, Round, broken, each, worse};
use crate::input::Input;
use crate::names::{Idle, Wanted};
use crate::output::{BATCH, Listing, Out, escape, shown};
use crate::picked::Picked;
use crate::progress::Meter;
use crate::reports::one_file;
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
struct Tail {
    model: Option<String>,
    /// The names of tensors that hold the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    tied: Option<Vec<Vec<String>>>,
    /// Whether all is as the list has it that was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<bool>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    digest: Option<String>,
}

pub(crate) fn run(args: &Hash, common: &Common) -> Outcome {
    let lists = args.check.as_deref().map(Lists::read).transpose()?;
    let listed = lists.as_ref().and_then(|lists| lists.algorithm);
    if let (Some(lists), Some(asked), Some(listed)) = (&lists, args.algorithm, listed) {
        if asked != listed {
            let (path, asked, listed) = (&lists.path, asked.name(), listed.name());
            return Err(Failure::usage(format!(
                "--check {path}: is a list of {listed}, not of {asked}"
            )));
        }
    }
    let algorithm = args.algorithm.or(listed).unwrap_or(Algorithm::Blake3);
    if args.part.is_some() {
        one_file(&args.files)?;
        if algorithm == Algorithm::Autov3 {
            return Err(Failure::usage(
                "autov3 is of all data in one piece, not of a part",
            ));
        }
    }
    if algorithm == Algorithm::Autov3 && !(args.filter.is_empty() && args.exclude.is_empty()) {
        return Err(Failure::usage("autov3 is of all data, not of some tensors"));
    }
    let lists = lists.map(RefCell::new);
    let work = Work {
        args,
        common,
        algorithm,
        lists: lists.as_ref(),
    };
    let forms = (args.json, Heading::Line, args.allow_empty);
    let code = each(&args.files, forms, common, |input, round| {
        work.file(input, round)
    })?;
    match lists {
        // An exit code can't be looked at: what is missing is as bad as what differs.
        Some(lists) if lists.borrow().are_left() => Ok(match code == ExitCode::SUCCESS {
            true => ExitCode::from(INVALID),
            false => code,
        }),
        _ => Ok(code),
    }
}

/// What is done for each file.
struct Work<'a> {
    args: &'a Hash,
    common: &'a Common,
    algorithm: Algorithm,
    lists: Option<&'a RefCell<Lists>>,
}

/// Of each tensor, its digest and that of its values row by row where it is another one.
type Found = Result<(Vec<u8>, Option<Vec<u8>>), Arc<Error>>;

impl Work<'_> {
    fn file(&self, input: &Input, round: &mut Round) -> Result<u8, Failure> {
        let archive = input
            .open()
            .map_err(|error| Failure::about(&input.path, &error))?;
        // One of those who share the work is enough to say it, which opens all files of a set.
        if self.args.part.is_none_or(|part| part.number() == 1) {
            input.warn(&archive);
        }
        input.allows(&archive, tensorfmt::Work::Digest)?;
        let mut entries = Picked::all(&archive);
        let mut idle = Idle::default();
        let names = entries.iter().map(Entry::name);
        let (filter, exclude) = (&self.args.filter, &self.args.exclude);
        let wanted = Wanted::new(filter, exclude, names, &mut idle)?;
        round.idle(idle, self.args.allow_empty)?;
        entries.retain(|entry| wanted.has(entry.name()));
        if let Some(part) = self.args.part {
            return part::run(self, (input, part), &archive, &mut entries);
        }
        let list = match self.lists {
            Some(lists) => {
                let path = input.path.display().to_string();
                Some(lists.borrow_mut().take(&path, round.several)?)
            }
            None => None,
        };
        if self.algorithm == Algorithm::Autov3 {
            return self.autov3(input, &archive, round, list);
        }
        let mut report = Report::new(self, input, round, list)?;
        let tensors = Tensors::new(&archive);
        let mut parts = Parts::new(self.algorithm);
        let total = entries.iter().filter_map(Entry::nbytes);
        let meter = Meter::new(total.fold(0, u64::saturating_add), self.common);
        let progress = |bytes| meter.tick(bytes);
        let ticker = Ticker::new(Some(&progress));
        let mut known = Shared::new();
        let mut exit = 0;
        for batch in &mut entries.batches(BATCH) {
            let digests = match self.batch(&archive, &tensors, &batch, &mut known, &ticker) {
                Ok(digests) => digests,
                Err(error) => {
                    return broken(report.listing, Failure::about(&input.path, &error));
                }
            };
            for (entry, found) in batch.iter().zip(&digests) {
                exit = worse(exit, self.complain_of(input, entry, found));
                let values = |(stored, rows): &(Vec<u8>, Option<Vec<u8>>)| {
                    rows.clone().unwrap_or_else(|| stored.clone())
                };
                parts.add(found.as_ref().ok().map(values).as_deref());
                let digest = found.as_ref().ok().map(|(stored, _)| hex(stored));
                if let (Some(ties), Ok(found)) = (&mut report.ties, found) {
                    let tensor = tensors.get(*entry);
                    let about = (tensor.name(), tensor.dtype_name(), tensor.shape().dims());
                    ties.note(about, values(found));
                }
                report.tensor(entry.name(), digest)?;
            }
        }
        drop(meter);
        let model = parts.finish(&tensors, &entries).map(|digest| hex(&digest));
        let all = filter.is_empty() && exclude.is_empty();
        let same = report.end(model, all, |name| wanted.has(name))?;
        Ok(worse(exit, if same { 0 } else { INVALID }))
    }

    /// Says why a tensor has no digest, if it has none, and what exit code that is worth.
    fn complain_of(&self, input: &Input, entry: &Entry<'_>, found: &Found) -> u8 {
        let Err(error) = found else {
            return 0;
        };
        let (path, name) = (input.path.display(), entry.name());
        complain(&escape(&format!("{path}: {name:?}: {error}")));
        // A damaged tensor outranks one that can't be interpreted.
        match error.is_unsupported() {
            true => UNSUPPORTED,
            false => INVALID,
        }
    }

    /// The digests of a batch of tensors, side by side.
    fn batch(
        &self,
        archive: &Archive,
        tensors: &Tensors<'_>,
        entries: &[Entry<'_>],
        known: &mut Shared<Result<Vec<u8>, Arc<Error>>>,
        ticker: &Ticker<'_>,
    ) -> Result<Vec<Found>, Error> {
        let (threads, algorithm) = (self.common.threads, self.algorithm);
        let stored = known.find(archive, entries, |asked| {
            tensor_core::parallel::map(threads, asked.len(), |at| {
                let Some(entry) = asked.get(at).and_then(|&at| entries.get(at)) else {
                    return Ok(Ok(Vec::new()));
                };
                let digest = digest::of_tensor(archive, entry, algorithm, ticker);
                settled(entry.name(), digest)
            })
        })?;
        // Of those in another order the values are read once more.
        let quiet = Ticker::default();
        let rows = tensor_core::parallel::map(threads, entries.len(), |at| {
            let readable = stored.get(at).is_some_and(Result::is_ok);
            match entries.get(at).filter(|_| readable) {
                Some(entry) => {
                    let digest = digest::of_rows(archive, tensors, entry, algorithm, &quiet);
                    settled(entry.name(), digest)
                }
                None => Ok(Ok(None)),
            }
        })?;
        let both = |(stored, rows): (Result<Vec<u8>, Arc<Error>>, _)| Ok((stored?, rows?));
        Ok(stored.into_iter().zip(rows).map(both).collect())
    }

    /// The digest of all data of a safetensors file.
    fn autov3(
        &self,
        input: &Input,
        archive: &Archive,
        round: &Round,
        list: Option<List>,
    ) -> Result<u8, Failure> {
        let Archive::Safetensors(inner) = archive else {
            let path = input.path.display();
            let what = match archive {
                Archive::SafetensorsSet(_) => "a set of them, and each has its own".to_owned(),
                _ => format!("a {} file", archive.format()),
            };
            return Err(Failure::usage(format!(
                "{path}: autov3 is of the data of one safetensors file, and this is {what}"
            )));
        };
        let report = Report::new(self, input, round, list)?;
        let meter = Meter::new(archive.file_len(), self.common);
        let progress = |bytes| meter.tick(bytes);
        let ticker = Ticker::new(Some(&progress));
        let source = input.source();
        let range = inner.data_start()..inner.file_len();
        let digest = source.and_then(|source| digest::of(&source, range, self.algorithm, &ticker));
        drop(meter);
        match digest {
            Ok(digest) => {
                let same = report.end(Some(hex(&digest)), true, |_| true)?;
                Ok(if same { 0 } else { INVALID })
            }
            Err(error) => broken(report.listing, Failure::about(&input.path, &error)),
        }
    }
}

/// An error that is about more than one tensor stays one.
fn settled<T>(name: &str, result: Result<T, Error>) -> Result<Result<T, Arc<Error>>, Error> {
    use tensor_core::Kind;
    match result {
        Err(error) if matches!(error.kind(), Kind::Io | Kind::Cancelled) => {
            Err(error.of_tensor(name))
        }
        result => Ok(result.map_err(Arc::new)),
    }
}

/// Tensors by what they hold.
#[derive(Default)]
struct Ties {
    /// By dtype, dims and digest of the values, where in the groups.
    places: HashMap<(String, Vec<u64>, Vec<u8>), usize>,
    groups: Vec<Vec<String>>,
}

impl Ties {
    fn note(&mut self, (name, dtype, dims): AboutTensor<'_>, digest: Vec<u8>) {
        // Tensors without values have nothing to share.
        if dims.contains(&0) {
            return;
        }
        let (dtype, dims) = (dtype.to_owned(), dims.to_vec());
        let place = *self.places.entry((dtype, dims, digest)).or_insert_with(|| {
            self.groups.push(Vec::new());
            self.groups.len() - 1
        });
        if let Some(group) = self.groups.get_mut(place) {
            group.push(name.to_owned());
        }
    }

    /// The groups of more than one, in the order of their first tensors.
    fn groups(self) -> Vec<Vec<String>> {
        let groups = self.groups.into_iter();
        groups.filter(|group| group.len() > 1).collect()
    }
}

/// What is printed about a file: its digests, or what is not as a list has it.
struct Report {
    listing: Listing,
    list: Option<List>,
    ties: Option<Ties>,
    checked: u64,
    wrong: u64,
    differ: u64,
}

impl Report {
    fn new(
        work: &Work<'_>,
        input: &Input,
        round: &Round,
        list: Option<List>,
    ) -> Result<Self, Failure> {
        let (path, algorithm) = (round.path(input), work.algorithm.name());
        Ok(Self {
            listing: match work.args.json {
                true => Listing::Json(Out::new().list(&Head { path, algorithm }, "tensors")?),
                false => Listing::Lines(Out::new()),
            },
            list,
            ties: work.args.tied.then(Ties::default),
            checked: 0,
            wrong: 0,
            differ: 0,
        })
    }

    fn tensor(&mut self, name: &str, digest: Option<String>) -> Result<(), Failure> {
        if let Some(list) = &mut self.list {
            self.checked += 1;
            let wrong = list.check(name, digest.as_deref());
            return wrong.map_or(Ok(()), |wrong| self.wrong(&wrong));
        }
        match &mut self.listing {
            Listing::Json(list) => list.item(&Line { name, digest }),
            // Of these only what is tied is of interest.
            Listing::Lines(_) if self.ties.is_some() => Ok(()),
            Listing::Lines(out) => {
                let digest = digest.as_deref().unwrap_or("-");
                out.line(&format!("{digest}  {}", shown(name)))
            }
        }
    }

    fn wrong(&mut self, wrong: &Mismatch) -> Result<(), Failure> {
        self.wrong += 1;
        self.differ += u64::from(wrong.outcome == "differs" && wrong.name != check::MODEL);
        match &mut self.listing {
            Listing::Json(list) => list.item(wrong),
            Listing::Lines(out) => out.line(&format!("{}: {}", wrong.name, wrong.outcome)),
        }
    }

    /// Ends with the digest of the model; whether all is as a list has it.
    fn end(
        mut self,
        model: Option<String>,
        all: bool,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<bool, Failure> {
        if let Some(mut list) = self.list.take() {
            for wrong in list.missing(is_wanted) {
                self.wrong(&wrong)?;
            }
            // A digest over some tensors is not the one over all.
            if let Some(wrong) = list.check_model(model.as_deref()).filter(|_| all) {
                self.wrong(&wrong)?;
            }
            if self.checked > 0 && self.differ == self.checked {
                complain("every digest differs: --algorithm must be the one that the list is of");
            }
            let (checked, wrong) = (self.checked, self.wrong);
            match self.listing {
                Listing::Json(list) => {
                    let same = Some(wrong == 0);
                    let tied = None;
                    list.end(&Tail { model, tied, same })?;
                }
                Listing::Lines(mut out) => {
                    out.line(&match wrong {
                        0 => format!("same: {checked} tensors are as listed"),
                        1 => "1 difference from the list".to_owned(),
                        wrong => format!("{wrong} differences from the list"),
                    })?;
                    out.finish()?;
                }
            }
            return Ok(wrong == 0);
        }
        let tied = self.ties.map(Ties::groups);
        match self.listing {
            Listing::Json(list) => list.end(&Tail {
                model,
                tied,
                same: None,
            })?,
            Listing::Lines(mut out) => {
                for group in tied.iter().flatten() {
                    let names: Vec<_> = group.iter().map(|name| shown(name)).collect();
                    out.line(&names.join(" = "))?;
                }
                let digest = model.as_deref().unwrap_or("-");
                out.line(&format!("{digest}  {}", check::MODEL))?;
                out.finish()?;
            }
        }
        Ok(true)
    }
}
