use std::collections::HashSet;
use std::sync::Arc;

use tensor_core::{Cast, DType, Kind, Order, Shape, Source, TensorSpec, Transposed};

use super::cast::{Stored, cast, wanted};
use super::choices::Casts;
use super::notes::{Before, Effects};
use super::parts::{Division, Identity, Origin};
use super::{
    Layout, Loss, LossKind, Model, ModelTensor, Options, Plan, Refusal, Remedy, Target, Unreadable,
    shrinking,
};
use crate::codec::{self, Capabilities, Native, Prepared, Write};
use crate::{Error, Format, Result};

/// What `target` can hold, `None` where this build leaves it out.
pub(crate) fn capabilities(target: Target) -> Option<Capabilities> {
    macro_rules! capabilities {
        (() $($Format:ident {
            about: $about:literal,
            feature: $feature:literal,
            codec: $krate:ident as $module:ident,
            $($rest:tt)*
        })*) => {
            match target.format() {
                $(
                    #[cfg(feature = $feature)]
                    Format::$Format => Some(codec::$module::CAPABILITIES),
                )*
                #[allow(unreachable_patterns, reason = "a build may have every codec")]
                _ => None,
            }
        };
    }
    formats! { capabilities! () }
}

/// The builder of the target's codec, filled.
fn build(
    target: Target,
    model: &Model,
    tensors: Vec<Prepared>,
    options: &Options,
    starts: Option<Vec<usize>>,
    losses: &mut Vec<Loss>,
) -> Result<Box<dyn Write>> {
    let _ = &starts;
    macro_rules! build {
        (() $($Format:ident {
            about: $about:literal,
            feature: $feature:literal,
            codec: $krate:ident as $module:ident,
            endings: $endings:tt,
            mark: $mark:expr,
            set: [$($Set:ident $name:literal $ending:literal)?],
        })*) => {
            match target {
                $(
                    #[cfg(feature = $feature)]
                    Target::$Format => {
                        Ok(Box::new(codec::$module::build(model, tensors, options, losses)?))
                    }
                    $(
                        #[cfg(feature = $feature)]
                        Target::$Set => {
                            lose_metadata_of_none(model, &tensors, losses);
                            Ok(Box::new(codec::$module::build_set(model, tensors, options, starts, losses)?))
                        }
                    )?
                )*
                #[allow(unreachable_patterns, reason = "a build may have every codec")]
                _ => Err(disabled(target, model, tensors, options, losses)),
            }
        };
    }
    formats! { build! () }
}

/// The error for a target that this build leaves out.
fn disabled(
    target: Target,
    _model: &Model,
    _tensors: Vec<Prepared>,
    _options: &Options,
    _losses: &mut Vec<Loss>,
) -> Error {
    Error::Disabled(target.format())
}

/// A set without tensors has no part for metadata.
#[allow(dead_code, reason = "a build may have few codecs, or none")]
fn lose_metadata_of_none(model: &Model, tensors: &[Prepared], losses: &mut Vec<Loss>) {
    if tensors.is_empty() {
        let reason = "metadata is in the parts of a set, and without tensors it has none";
        codec::lose_metadata(model, reason, losses);
    }
}

pub(crate) fn plan(mut model: Model, target: Target, options: &Options) -> Result<Plan> {
    let capabilities = capabilities(target).ok_or(Error::Disabled(target.format()))?;
    check_options(&model, target, &capabilities, options)?;
    if let Some(reason) = model.nothing {
        return Err(refusal(reason));
    }
    let identity = Identity::of(&model, target, options)?;
    let mut losses = Vec::new();
    lose_of_whole(&mut model, &mut losses);
    let none_left = |left: usize| match left == 0 && model.had > 0 && !options.allow_empty {
        true => Err(none_left(model.had)),
        false => Ok(()),
    };
    none_left(model.tensors.len())?;
    let sources = std::mem::take(&mut model.tensors);
    let mut passage = Passage {
        target,
        capabilities: &capabilities,
        options,
        home: model.format == Some(target.format()),
        twice: names_used_twice(&sources),
        parameter: None,
        casts: Casts::new(std::mem::take(&mut model.casts), options),
        effects: Effects::default(),
        losses,
        refusals: Vec::new(),
        tensors: Vec::new(),
        origins: identity.is_some().then(Vec::new),
    };
    for tensor in shrinking(sources) {
        passage.take(tensor)?;
    }
    let Passage {
        casts,
        effects,
        mut losses,
        refusals,
        tensors,
        origins,
        ..
    } = passage;
    if !refusals.is_empty() {
        return Err(Error::Refused(refusals));
    }
    none_left(tensors.len())?;
    let data_len = tensors
        .iter()
        .map(|tensor| tensor.data.size())
        .fold(0, u64::saturating_add);
    let division = identity.zip(origins);
    let division = division.map(|(identity, origins)| Division::new(&tensors, origins, identity));
    let division = division.transpose()?;
    let starts = division.as_ref().map(Division::starts);
    let writer = build(target, &model, tensors, options, starts, &mut losses).map_err(refuse)?;
    Ok(Plan {
        target,
        losses,
        notes: effects.notes(options, &casts),
        casts: casts.own().cloned().collect(),
        cast: casts.common,
        data_len,
        inputs: model.inputs,
        division,
        writer,
    })
}

/// What of a model is lost whatever the target holds.
fn lose_of_whole(model: &mut Model, losses: &mut Vec<Loss>) {
    for fault in &model.faults {
        losses.push(Loss::new(LossKind::Tensor, "*", fault));
    }
    for key in &model.said_by_index {
        let reason = "said by the set's index alone, about the set as it was";
        let item = format!("index: {key}");
        losses.push(Loss::new(LossKind::Metadata, item, reason));
    }
    if let Some(fault) = &model.fault {
        let reason = format!("can't be read, nor what it says about tensors: {fault}");
        losses.push(Loss::new(LossKind::Metadata, "*", reason));
    }
    for (part, name) in std::mem::take(&mut model.unlisted) {
        let reason = format!("{part} holds it, and the set's index doesn't list it");
        losses.push(Loss::new(LossKind::Tensor, name, reason));
    }
}

/// The way of a model's tensors to their target, and what came of it so far.
struct Passage<'a> {
    target: Target,
    capabilities: &'a Capabilities,
    options: &'a Options,
    /// Whether the model is of the target's own format.
    home: bool,
    /// Names that more than one tensor has.
    twice: HashSet<String>,
    /// The parameter that statistics belong to.
    parameter: Option<String>,
    casts: Casts,
    effects: Effects,
    losses: Vec<Loss>,
    refusals: Vec<Refusal>,
    tensors: Vec<Prepared>,
    /// Where each of these is from, where that is needed.
    origins: Option<Vec<Origin>>,
}

impl Passage<'_> {
    /// Prepares the next tensor, or notes why it is left out or refused.
    fn take(&mut self, tensor: ModelTensor) -> Result<()> {
        self.note_owner(&tensor);
        if tensor.is_stat && !self.home && !self.options.with_stats {
            let reason = "a statistic; converted only with the option for it";
            self.losses
                .push(Loss::new(LossKind::Tensor, tensor.name, reason));
            return Ok(());
        }
        if self.twice.contains(&tensor.name) && !self.home {
            self.refusals.push(Refusal {
                tensor: tensor.name,
                dtype: tensor.dtype_name.into_owned(),
                reason: "two tensors have this name; rename or leave out one of them".into(),
                damaged: false,
                remedy: Some(Remedy::Rename),
            });
            return Ok(());
        }
        let before = Before::of(&tensor, self.capabilities);
        let (name, dtype) = (tensor.name.clone(), tensor.dtype_name.clone());
        let damaged = matches!(&tensor.data, Err(Unreadable { damaged: true, .. }));
        let (from, casting) = (tensor.dtype, tensor.casting);
        let origin = (tensor.input, tensor.ordinal);
        // Of several formats that were merged, some tensors may be at home in the target.
        let native = tensor.native.as_ref().map(Native::format);
        let preparation = Preparation {
            target: self.capabilities,
            options: self.casts.options(casting, self.options),
            to: self.target,
            home: native.map_or(self.home, |format| format == self.target.format()),
        };
        match preparation.of(tensor, &mut self.losses)? {
            Ok(prepared) => {
                self.effects.note(&before, &prepared, self.options);
                let with = (self.capabilities, self.options);
                self.casts.note(casting, &prepared, (from, &dtype), with);
                self.tensors.push(prepared);
                if let Some(origins) = &mut self.origins {
                    origins.push(origin);
                }
            }
            Err(reasons) if self.options.skip_unsupported => {
                let reasons: Vec<String> = reasons.into_iter().map(|(why, _)| why).collect();
                let reason = format!("left out: {}", reasons.join("; "));
                self.losses.push(Loss::new(LossKind::Tensor, name, reason));
            }
            Err(reasons) => {
                let refused = reasons.into_iter().map(|(reason, remedy)| Refusal {
                    tensor: name.clone(),
                    dtype: dtype.clone().into_owned(),
                    reason,
                    damaged,
                    remedy,
                });
                self.refusals.extend(refused);
            }
        }
        Ok(())
    }

    /// Notes which parameter the statistics that follow belong to, and one whose own isn't before it.
    fn note_owner(&mut self, tensor: &ModelTensor) {
        let has_owner = |owner: &String| tensor.is_stat_of(owner);
        if !self.home || self.parameter.as_ref().is_some_and(has_owner) {
            return;
        }
        if tensor.is_stat {
            let reason = "its parameter is not before it; it becomes one of its own";
            self.losses
                .push(Loss::new(LossKind::Attribute, &*tensor.name, reason));
        }
        self.parameter = Some(tensor.name.clone());
    }
}

/// What the target's builder does not take is refused like what is known to be beyond the target.
fn refuse(error: Error) -> Error {
    match error.kind() {
        Kind::Build if !matches!(error, Error::Usage(_)) => refusal(error.to_string()),
        _ => error,
    }
}

/// Nothing would be converted.
pub(crate) fn none_left(had: usize) -> Error {
    Error::Usage(format!(
        "none of the {had} tensors of the input would be left (`allow_empty`, --allow-empty on the \
        command line, allows that)"
    ))
}

/// The whole can't be held.
pub(crate) fn refusal(reason: String) -> Error {
    Error::Refused(vec![Refusal {
        tensor: String::new(),
        dtype: String::new(),
        reason,
        damaged: false,
        remedy: None,
    }])
}

/// Names that more than one of the tensors has.
fn names_used_twice(tensors: &[ModelTensor]) -> HashSet<String> {
    let mut seen = HashSet::with_capacity(tensors.len());
    let names = tensors.iter().map(|tensor| &tensor.name);
    names
        .filter(|name| !seen.insert(name.as_str()))
        .cloned()
        .collect()
}

/// Refuses options that would be without effect.
fn check_options(
    model: &Model,
    target: Target,
    capabilities: &Capabilities,
    options: &Options,
) -> Result<()> {
    let name = target.name();
    let aero = matches!(target, Target::Aero | Target::AeroSet);
    model.check_choices(name, capabilities, options)?;
    if options.promote_scalars && *capabilities.ranks.start() == 0 {
        return Err(Error::Usage(format!("a {name} file holds scalars")));
    }
    if options.with_stats && model.format != Some(Format::Primitiv) {
        return Err(Error::Usage(match model.format {
            Some(format) => format!("a {format} file keeps no statistics"),
            None => "tensors in memory have no statistics".to_owned(),
        }));
    }
    if options.zstd.is_some() && target != Target::Ztensor && !aero {
        return Err(Error::Usage(format!(
            "a {name} file can't be compressed with zstd"
        )));
    }
    let sharded = options.max_shard_bytes.is_some() && target != Target::SafetensorsSet
        || options.tensor_hash
        || options.ihsh
        || options.phsh.is_some()
        || options.page_align;
    if target == Target::Safetensors && options.max_shard_bytes.is_some() {
        let message = "a safetensors file has no shards; an output named STEM.safetensors.index.json \
                       is a set that has";
        return Err(Error::Usage(message.into()));
    }
    if sharded && !aero || options.max_part_shards.is_some() && target != Target::AeroSet {
        let message = "has no shards, parts, or hashes of them; such options are AERO's";
        return Err(Error::Usage(format!("a {name} file {message}")));
    }
    check_parts(target, options)?;
    if options.whole_names && target != Target::Primitiv {
        return Err(Error::Usage(format!(
            "names in a {name} file have no parts"
        )));
    }
    if options.burnpack.is_some() && target != Target::Burnpack {
        return Err(Error::Usage(format!(
            "a {name} file is not written for releases of Burn"
        )));
    }
    if options.checksum.is_some() && target != Target::Ztensor {
        return Err(Error::Usage(format!(
            "a {name} file has no choice of checksums"
        )));
    }
    Ok(())
}

/// Refuses parts of what has none, and what says in another way how many files there are.
fn check_parts(target: Target, options: &Options) -> Result<()> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    match (options.parts, target) {
        (None, _) => Ok(()),
        (Some(_), target) if !target.is_set() => {
            let name = target.name();
            usage(&format!(
                "a {name} file is written in one piece; those of a set can be written in parts"
            ))
        }
        (Some(_), Target::AeroSet) if options.max_part_shards.is_some() => usage(
            "`parts` (--parts, --part) says how many parts the set has, whatever shards are in each",
        ),
        (Some(_), Target::SafetensorsSet) if options.max_shard_bytes.is_some() => {
            usage("`parts` (--parts, --part) says how many shards the set has, whatever their size")
        }
        _ => Ok(()),
    }
}

/// Why a tensor can't be held, and what helps.
type Why = (String, Option<Remedy>);

/// The cast that lets the target hold a dtype, if one does that was not asked for already.
fn cast_remedy(dtype: DType, target: &Capabilities, options: &Options) -> Remedy {
    let integers = [DType::I64, DType::I32, DType::U8];
    let floats = [DType::F32, DType::F64, DType::BF16];
    let (first, second) = match dtype.is_float() {
        true => (&floats, &[][..]),
        false => (&integers, &floats[..]),
    };
    first
        .iter()
        .chain(second)
        .copied()
        .filter(|_| options.cast.is_none())
        .find(|&to| (target.holds)(to) && Cast::<Arc<dyn Source>>::is_supported(dtype, to))
        .map_or(Remedy::LeaveOut, Remedy::Cast)
}

/// How a tensor is made into one that the target can hold.
struct Preparation<'a> {
    target: &'a Capabilities,
    /// With the cast that is this tensor's own.
    options: Options,
    to: Target,
    /// Whether the tensor comes from the target's own format.
    home: bool,
}

impl Preparation<'_> {
    /// Casts and reorders a tensor so that the target can hold it, or says why it can't.
    fn of(
        &self,
        mut tensor: ModelTensor,
        losses: &mut Vec<Loss>,
    ) -> Result<Result<Prepared, Vec<Why>>> {
        #[cfg(feature = "burnpack")]
        if !self.home {
            lose_wide_truths(&tensor, losses)?;
        }
        let native = tensor.native.take();
        let own = safetensors_native(native.as_ref());
        let native = native.filter(|_| self.home && !self.changes(&tensor));
        if native.is_some() {
            match as_it_is(tensor, native) {
                Ok(prepared) => return Ok(Ok(prepared)),
                Err(other) => tensor = *other,
            }
        }
        let (data, dtype) = match (tensor.data, tensor.dtype) {
            (Ok(data), Some(dtype)) => (data, dtype),
            (Err(unreadable), _) => {
                return Ok(Err(vec![(unreadable.reason, Some(Remedy::LeaveOut))]));
            }
            (Ok(_), None) => {
                let unknown = || "the dtype is unknown".into();
                let reason = tensor.unread.unwrap_or_else(unknown);
                return Ok(Err(vec![(reason, Some(Remedy::LeaveOut))]));
            }
        };
        let name = tensor.name;
        let mut whys: Vec<Why> = Vec::new();
        if let Some(reason) = (self.target.name)(&name) {
            whys.push((reason, Some(Remedy::Rename)));
        }
        let stored = Stored {
            name: &name,
            dtype,
            shape: &tensor.shape,
            order: tensor.order,
        };
        let cast = match cast(data, &stored, self.target, self.to, &self.options, losses)? {
            Ok(cast) => Some(cast),
            Err(reason) => {
                let remedy = cast_remedy(dtype, self.target, &self.options);
                whys.push((reason, Some(remedy)));
                None
            }
        };
        let shape = self.promoted(&name, tensor.shape, losses);
        whys.extend(self.misfits(&shape));
        let Some((data, dtype)) = cast.filter(|_| whys.is_empty()) else {
            return Ok(Err(whys));
        };
        let (spec, data) = self.reordered(data, dtype, shape, tensor.order)?;
        if let Some(checksum) = tensor.checksum.filter(|_| !self.target.checksums) {
            let reason = format!("{checksum} is of the source's bytes and is not carried over");
            losses.push(Loss::new(LossKind::Checksum, &*name, reason));
        }
        #[cfg(feature = "safetensors")]
        if let (false, Some(native)) = (self.home, &own) {
            codec::safetensors::lose_extras(&name, native, losses);
        }
        Ok(Ok(Prepared {
            name,
            spec,
            data,
            attributes: tensor.attributes,
            native: own.filter(|_| self.home),
        }))
    }

    /// Whether a tensor differs from the one in its own file.
    fn changes(&self, tensor: &ModelTensor) -> bool {
        let casts =
            |from: DType| wanted(from, self.target, &self.options).is_some() && from.is_number();
        tensor.dtype.is_some_and(casts) || tensor.turned
    }

    /// The shape; of a scalar `[1]` where that is requested and the target has no scalars.
    fn promoted(&self, name: &str, shape: Shape, losses: &mut Vec<Loss>) -> Shape {
        if shape.rank() > 0 || *self.target.ranks.start() == 0 || !self.options.promote_scalars {
            return shape;
        }
        let reason = "the scalar [] becomes [1]";
        losses.push(Loss::new(LossKind::Shape, name, reason));
        Shape::new(&[1]).unwrap_or_default()
    }

    /// Why the target can't hold a shape.
    fn misfits(&self, shape: &Shape) -> Vec<Why> {
        let name = self.to.name();
        let mut whys = Vec::new();
        if !self.target.ranks.contains(&shape.rank()) {
            let (rank, most) = (shape.rank(), self.target.ranks.end());
            whys.push(match rank {
                0 => (
                    format!("a {name} file can't hold a scalar"),
                    Some(Remedy::PromoteScalars),
                ),
                _ => (
                    format!("rank {rank}; a {name} file holds up to {most} dims"),
                    Some(Remedy::LeaveOut),
                ),
            });
        }
        if shape.elements() == 0 && !self.target.empty {
            whys.push((
                format!("no elements; a {name} file holds no empty tensor"),
                Some(Remedy::LeaveOut),
            ));
        }
        whys
    }

    /// The elements in the target's order, or its dims in the other one.
    fn reordered(
        &self,
        data: Arc<dyn Source>,
        dtype: DType,
        shape: Shape,
        order: Order,
    ) -> Result<(TensorSpec, Arc<dyn Source>)> {
        let to = self.target.order;
        let spec = |shape| TensorSpec::new(dtype, shape).with_order(to);
        if order == to {
            return Ok((spec(shape), data));
        }
        if self.options.layout == Layout::KeepBytes {
            return Ok((spec(shape.reversed()), data));
        }
        if shape.is_order_free() {
            return Ok((spec(shape), data));
        }
        let transposed = Transposed::new(data, dtype, &shape, order)
            .map_err(|error| Error::Usage(error.to_string()))?;
        Ok((spec(shape), Arc::new(transposed)))
    }
}

/// A tensor that its own format can hold as it was, also where its dtype is unknown; itself again where
/// its bytes can't be had.
fn as_it_is(tensor: ModelTensor, native: Option<Native>) -> Result<Prepared, Box<ModelTensor>> {
    let Ok(data) = &tensor.data else {
        return Err(Box::new(tensor));
    };
    let dtype = tensor.dtype.unwrap_or(DType::Opaque);
    Ok(Prepared {
        data: data.clone(),
        name: tensor.name,
        spec: TensorSpec::new(dtype, tensor.shape).with_order(tensor.order),
        attributes: tensor.attributes,
        native,
    })
}

/// Bools of Burn that are stored as numbers other than 0 and 1 lose these numbers.
#[cfg(feature = "burnpack")]
fn lose_wide_truths(tensor: &ModelTensor, losses: &mut Vec<Loss>) -> Result<()> {
    let wide = codec::burnpack::wide_truths(tensor.native.as_ref())?;
    if wide > 0 {
        let reason = format!("{wide} truth values held as other numbers than 0 and 1 become 1");
        losses.push(Loss::new(LossKind::Value, &*tensor.name, reason));
    }
    Ok(())
}

/// What a safetensors file says about a tensor, which stays with it also where its data changes.
fn safetensors_native(native: Option<&Native>) -> Option<Native> {
    match native {
        #[cfg(feature = "safetensors")]
        Some(native @ Native::Safetensors(..)) => Some(native.clone()),
        _ => None,
    }
}
