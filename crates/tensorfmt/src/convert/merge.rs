//! Several models become one.

use std::collections::HashMap;
use std::sync::Arc;

use tensor_core::{AlignedBytes, Source, Value};

use super::{Model, ModelTensor};
use crate::{Error, Result};

/// What to do about tensors and metadata that more than one of the models has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDuplicate {
    /// Refuse tensors of one name, and metadata of one key whose values differ.
    #[default]
    Refuse,
    /// Take what the first of the models has.
    First,
    /// Take what the last of them has, in the place of the first.
    Last,
    /// Take one where all are the same, values bit by bit, and refuse what differs.
    Same,
}

/// What several of the models had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// How many tensors were left out since another one of their name was taken.
    pub tensors: usize,
    /// How many values of metadata were, equal ones aside.
    pub metadata: usize,
}

/// How many of the things that are in the way an error names.
const NAMED: usize = 10;

impl Model {
    /// Makes one model of several, each with a name for messages, in their order.
    ///
    /// Metadata that is equal in all files is kept once. [`OnDuplicate::Same`] reads the data of tensors that
    /// have one name; else no data is read.
    ///
    /// # Errors
    /// [`Error::Usage`] with each duplicate tensor and key where none may be, and where from; what
    /// reading data fails with.
    ///
    /// ```
    /// use tensorfmt::convert::{Model, OnDuplicate};
    /// use tensorfmt::{Archive, Tensor, safetensors};
    ///
    /// let file = |name: &str| {
    ///     let mut builder = safetensors::Builder::new();
    ///     builder.tensor(name, Tensor::from_slice(&[1.0f32], &[1]).unwrap())?;
    ///     Archive::from_bytes(builder.to_vec()?)
    /// };
    /// let models = vec![
    ///     ("a".into(), Model::of(&file("x")?)),
    ///     ("b".into(), Model::of(&file("y")?)),
    /// ];
    /// let (model, _) = Model::merge(models, OnDuplicate::Refuse)?;
    /// assert_eq!(model.tensors.len(), 2);
    /// # Ok::<(), tensorfmt::Error>(())
    /// ```
    pub fn merge(models: Vec<(String, Self)>, on_duplicate: OnDuplicate) -> Result<(Self, Merged)> {
        let names: Vec<String> = models.iter().map(|(name, _)| name.clone()).collect();
        let mut models = models.into_iter().map(|(_, model)| model);
        let Some(mut merged) = models.next() else {
            return Err(Error::Usage("there is no model to merge".into()));
        };
        let mut merger = Merger {
            names,
            on_duplicate,
            places: HashMap::new(),
            keys: vec![0; merged.metadata.len()],
            merged: Merged::default(),
            refused: Vec::new(),
        };
        for (place, tensor) in merged.tensors.iter().enumerate() {
            merger.places.insert(tensor.name.clone(), (0, place));
        }
        for (from, mut model) in (1..).zip(models) {
            let input = u32::try_from(from).unwrap_or(u32::MAX);
            for mut tensor in std::mem::take(&mut model.tensors) {
                tensor.input = input;
                merger.tensor(&mut merged.tensors, tensor, from)?;
            }
            for (key, value) in std::mem::take(&mut model.metadata) {
                merger.metadata(&mut merged.metadata, key, value, from);
            }
            merged.take_rest(model);
        }
        match merger.error() {
            Some(error) => Err(error),
            None => Ok((merged, merger.merged)),
        }
    }

    /// Takes all of another model but its tensors and metadata.
    fn take_rest(&mut self, other: Self) {
        // Several files are a copy of none.
        self.primitiv = None;
        self.signed.extend(other.signed);
        self.fault = self.fault.take().or(other.fault);
        self.nothing = self.nothing.take().or(other.nothing);
        self.faults.extend(other.faults);
        self.unlisted.extend(other.unlisted);
        self.said_by_index.extend(other.said_by_index);
        self.had = self.had.saturating_add(other.had);
        self.inputs.extend(other.inputs);
        #[cfg(feature = "aero")]
        {
            self.aero = self.aero.or(other.aero);
        }
    }
}

/// What is known while models become one.
struct Merger {
    names: Vec<String>,
    on_duplicate: OnDuplicate,
    /// Of each tensor's name, the model that it came from first, and where it is.
    places: HashMap<String, (usize, usize)>,
    /// Which model each value of metadata is from.
    keys: Vec<usize>,
    merged: Merged,
    refused: Vec<String>,
}

impl Merger {
    fn tensor(
        &mut self,
        tensors: &mut Vec<ModelTensor>,
        tensor: ModelTensor,
        from: usize,
    ) -> Result<()> {
        let known = self.places.get(&tensor.name).copied();
        // Some formats allow one name twice in one file, which is for the target to judge.
        let Some((first, place)) = known.filter(|(first, _)| *first != from) else {
            self.places
                .entry(tensor.name.clone())
                .or_insert((from, tensors.len()));
            tensors.push(tensor);
            return Ok(());
        };
        let there = tensors.get_mut(place);
        let differs = match (self.on_duplicate, &there) {
            (OnDuplicate::Refuse, _) => Some(String::new()),
            (OnDuplicate::Same, Some(there)) => difference(there, &tensor)?,
            _ => None,
        };
        if let Some(what) = differs {
            let places = self.both(first, from);
            let name = &tensor.name;
            self.refused
                .push(format!("tensor {name:?} is in {places}{what}"));
            return Ok(());
        }
        self.merged.tensors += 1;
        if let (OnDuplicate::Last, Some(there)) = (self.on_duplicate, there) {
            *there = tensor;
        }
        Ok(())
    }

    fn metadata(
        &mut self,
        metadata: &mut Vec<(String, Value)>,
        key: String,
        value: Value,
        from: usize,
    ) {
        let known = metadata.iter().position(|(known, _)| *known == key);
        let Some((place, (_, there))) = known.and_then(|at| Some((at, metadata.get_mut(at)?)))
        else {
            self.keys.push(from);
            metadata.push((key, value));
            return;
        };
        // NaN is the same as NaN here.
        if *there == value || format!("{there:?}") == format!("{value:?}") {
            return;
        }
        match self.on_duplicate {
            OnDuplicate::Refuse | OnDuplicate::Same => {
                let first = self.keys.get(place).copied().unwrap_or(0);
                let places = self.both(first, from);
                self.refused.push(format!(
                    "metadata {key:?} is in {places}, with other values"
                ));
            }
            OnDuplicate::First => self.merged.metadata += 1,
            OnDuplicate::Last => {
                self.merged.metadata += 1;
                *there = value;
            }
        }
    }

    /// Two of the models by their names.
    fn both(&self, a: usize, b: usize) -> String {
        let name = |at: usize| self.names.get(at).map_or("", String::as_str);
        format!("{} and in {}", name(a), name(b))
    }

    /// All that is refused.
    fn error(&self) -> Option<Error> {
        if self.refused.is_empty() {
            return None;
        }
        let mut lines: Vec<String> = self.refused.iter().take(NAMED).cloned().collect();
        if self.refused.len() > NAMED {
            lines.push(format!("and {} more", self.refused.len() - NAMED));
        }
        if let (OnDuplicate::Refuse, Some(last)) = (self.on_duplicate, lines.last_mut()) {
            let help = "`on_duplicate` (--on-duplicate first, last or same) takes one of them";
            last.push_str(&format!("; {help}"));
        }
        Some(Error::Usage(lines.join("\n")))
    }
}

/// How two tensors of one name differ, as the end of a sentence.
fn difference(a: &ModelTensor, b: &ModelTensor) -> Result<Option<String>> {
    if a.dtype_name != b.dtype_name {
        let (a, b) = (&a.dtype_name, &b.dtype_name);
        return Ok(Some(format!(": {a} and {b}")));
    }
    if a.shape != b.shape {
        return Ok(Some(format!(", of shape {} and {}", a.shape, b.shape)));
    }
    let (rows_a, rows_b) = match a.order == b.order {
        true => (a.data()?, b.data()?),
        false => (a.rows()?, b.rows()?),
    };
    let same = rows_a.size() == rows_b.size() && are_same(&rows_a, &rows_b)?;
    Ok((!same).then(|| ", with other values".to_owned()))
}

/// Whether two sources of one size have the same bytes.
fn are_same(a: &Arc<dyn Source>, b: &Arc<dyn Source>) -> Result<bool> {
    let len = a.size();
    let window = a.window().max(b.window()).max(1);
    let most = usize::try_from(len).map_or(window, |len| len.min(window));
    let mut buffers = (AlignedBytes::zeroed(most)?, AlignedBytes::zeroed(most)?);
    let mut offset = 0;
    while offset < len {
        let piece = usize::try_from(len - offset).map_or(most, |left| left.min(most));
        let (x, y) = (buffers.0.as_mut_slice(), buffers.1.as_mut_slice());
        let x = x.get_mut(..piece).unwrap_or_default();
        let y = y.get_mut(..piece).unwrap_or_default();
        a.read_into(offset, x)?;
        b.read_into(offset, y)?;
        if x != y {
            return Ok(false);
        }
        offset += piece as u64;
    }
    Ok(true)
}
