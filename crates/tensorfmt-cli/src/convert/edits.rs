//! What changes on the way from the inputs to the output.

use tensorfmt::convert::{Model, ModelTensor, OnDuplicate, Target};
use tensorfmt::{Archive, DType, Value};

use super::report::Note;
use super::{dtype, metadata};
use crate::cli::{Convert, OnDuplicateArg};
use crate::failure::Failure;
use crate::names::{Choice, Idle, Patterns, Wanted};
use crate::rename::{Rename, Table};

/// What to change on the way.
pub(super) struct Edits<'a> {
    args: &'a Convert,
    /// Which tensors are converted, known once there are names.
    wanted: Wanted,
    renames: Vec<Rename>,
    table: Option<Table>,
    /// The pattern and the dtype of casts of some tensors, each with its text.
    casts: Vec<(&'a str, Patterns, DType)>,
    set: Vec<(String, Value)>,
}

impl<'a> Edits<'a> {
    pub(super) fn new(args: &'a Convert) -> Result<Self, Failure> {
        let mut casts = Vec::new();
        for text in &args.cast {
            if let Some((pattern, to)) = text.rsplit_once('=') {
                let pattern = Patterns::new("--cast", &[pattern.to_owned()]);
                casts.push((text.as_str(), pattern, dtype(text, to)?));
            }
        }
        let renames = args.rename.iter().map(|text| Rename::new(text));
        Ok(Self {
            args,
            wanted: Wanted::default(),
            renames: renames.collect::<Result<_, _>>()?,
            table: args.rename_table.as_deref().map(Table::read).transpose()?,
            casts,
            set: metadata::settings(args)?,
        })
    }

    /// Whether a tensor of this name is converted.
    pub(super) fn keeps(&self, name: &str) -> bool {
        self.wanted.has(name)
    }

    /// Makes one changed model of the archives, each with its path, and says which options changed nothing
    /// of it.
    pub(super) fn model(
        &mut self,
        archives: &[(String, &Archive)],
        target: Target,
    ) -> Result<(Model, Vec<Note>), Failure> {
        let mut idle = Idle::default();
        {
            let entries = archives.iter().flat_map(|(_, archive)| archive.entries());
            let names = entries.map(|entry| entry.name());
            self.wanted = Wanted::new(&self.args.filter, &self.args.exclude, names, &mut idle)?;
        }
        let mut notes = Vec::new();
        let mut model = self.merged(archives, target, &mut notes)?;
        self.choose(&mut model, &mut idle, &mut notes)?;
        self.rename(&mut model, &mut idle, &mut notes)?;
        let keys = model.metadata.iter().map(|(key, _)| key.as_str());
        let drop = Patterns::new("--drop-metadata", &self.args.drop_metadata);
        let drop = drop.among(keys, &mut idle)?;
        idle.check(self.args.allow_empty)?;
        model.drop_metadata(|key| drop.has(key));
        for (key, value) in &self.set {
            if model.metadata.contains(&(key.clone(), value.clone())) {
                let why = format!("{key:?} has this value already");
                notes.push(Note::idle("--set-metadata", why));
            }
            model.set_metadata(key.clone(), value.clone());
        }
        if self.args.sort {
            let before: Vec<String> = model.tensors.iter().map(|t| t.name().to_owned()).collect();
            model.sort();
            let after = model.tensors.iter().map(ModelTensor::name);
            if after.eq(before.iter().map(String::as_str)) {
                notes.push(Note::idle("--sort", "the tensors are sorted already"));
            }
        }
        Ok((model, notes))
    }

    /// The tensors that are wanted, of one archive or of all together.
    fn merged(
        &self,
        archives: &[(String, &Archive)],
        target: Target,
        notes: &mut Vec<Note>,
    ) -> Result<Model, Failure> {
        let models = archives.iter().map(|(path, archive)| {
            let mut model = Model::of_for(archive, target);
            model.retain(|name| self.keeps(name));
            (path.clone(), model)
        });
        let on_duplicate = match self.args.on_duplicate {
            None => OnDuplicate::Refuse,
            Some(OnDuplicateArg::First) => OnDuplicate::First,
            Some(OnDuplicateArg::Last) => OnDuplicate::Last,
            Some(OnDuplicateArg::Same) => OnDuplicate::Same,
        };
        let (model, merged) = Model::merge(models.collect(), on_duplicate)?;
        if self.args.on_duplicate.is_some() {
            let option = "--on-duplicate";
            notes.push(match (merged.tensors, merged.metadata) {
                (0, 0) => Note::idle(option, "no two inputs have anything in common"),
                (tensors, keys) => Note::new(
                    option,
                    (tensors + keys) as u64,
                    format!("left out {tensors} tensors and {keys} metadata values"),
                ),
            });
        }
        Ok(model)
    }

    /// Casts and transposes what the patterns name, by the names of the inputs.
    fn choose(
        &self,
        model: &mut Model,
        idle: &mut Idle,
        notes: &mut Vec<Note>,
    ) -> Result<(), Failure> {
        fn among(model: &Model, patterns: &Patterns, idle: &mut Idle) -> Result<Choice, Failure> {
            patterns.among(model.tensors.iter().map(ModelTensor::name), idle)
        }
        for (text, pattern, to) in &self.casts {
            let choice = among(model, pattern, idle)?;
            model.cast(*text, *to, |name| choice.has(name));
        }
        let keep = Patterns::new("--keep", &self.args.keep);
        let choice = among(model, &keep, idle)?;
        model.keep_dtype(|name| choice.has(name));
        let transpose = Patterns::new("--transpose", &self.args.transpose);
        let choice = among(model, &transpose, idle)?;
        let mut moved = model
            .tensors
            .iter()
            .filter(|tensor| choice.has(tensor.name()));
        let flat = |tensor: &ModelTensor| tensor.shape().is_order_free();
        if !transpose.is_empty() && moved.clone().next().is_some() && moved.all(flat) {
            let why = "no value moves, since one dim of each tensor is 1 or 0; dims are swapped";
            notes.push(Note::new("--transpose", 1, why.into()));
        }
        model
            .transpose(|name| choice.has(name))
            .map_err(|error| super::report::refused(std::path::Path::new("--transpose"), &error))
    }

    fn rename(
        &self,
        model: &mut Model,
        idle: &mut Idle,
        notes: &mut Vec<Note>,
    ) -> Result<(), Failure> {
        if let Some(table) = &self.table {
            let used = table.used(model.tensors.iter().map(ModelTensor::name));
            match table.unused(&used) {
                unused if used.is_empty() => {
                    let first = unused.first().copied().unwrap_or_default();
                    idle.note("--rename-table", first);
                }
                unused if !unused.is_empty() => {
                    notes.push(Note::new(
                        "--rename-table",
                        used.len() as u64,
                        table.says(&unused),
                    ));
                }
                _ => {}
            }
            let same = |tensor: &ModelTensor| table.apply(tensor.name()) == tensor.name();
            if !used.is_empty() && model.tensors.iter().all(same) {
                notes.push(Note::idle(
                    "--rename-table",
                    "it leaves every name as it is",
                ));
            }
            model.rename(|name| table.apply(name).to_owned())?;
        }
        for rename in &self.renames {
            let mut names = model.tensors.iter().map(ModelTensor::name);
            if !names.any(|name| rename.matches(name)) {
                idle.note("--rename", rename.pattern());
                continue;
            }
            let same = |tensor: &ModelTensor| rename.apply(tensor.name()) == tensor.name();
            if model.tensors.iter().all(same) {
                notes.push(Note::idle("--rename", "it leaves every name as it is"));
            }
            model.rename(|name| rename.apply(name))?;
        }
        Ok(())
    }
}
