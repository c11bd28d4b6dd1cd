use std::collections::HashSet;
use std::sync::Arc;

use tensor_core::{Cast, DType, Kind, Order, Shape, Source, Transposed};

use super::cast::{Stored, cast, wanted};
use super::choices::Casts;
use super::notes::{Before, Effects};
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
    losses: &mut Vec<Loss>,
) -> Result<Box<dyn Write>> {
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
                            Ok(Box::new(codec::$module::build_set(model, tensors, options, losses)?))
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

pub(crate) fn plan(model: Model, target: Target, options: &Options) -> Result<Plan> {
    let capabilities = capabilities(target).ok_or(Error::Disabled(target.format()))?;
    check_options(&model, target, &capabilities, options)?;
    if let Some(reason) = model.nothing {
        return Err(refusal(reason));
    }
    let mut model = model;
    let mut losses = Vec::new();
    for fault in &model.faults {
        losses.push(Loss::new(LossKind::Tensor, "*", fault));
    }
    for key in &model.said_by_index {
        let reason = "said by the set's index alone, about the set as it was";
        losses.push(Loss::new(
            LossKind::Metadata,
            format!("index: {key}"),
            reason,
        ));
    }
    if let Some(fault) = &model.fault {
        let reason = format!("can't be read, nor what it says about tensors: {fault}");
        losses.push(Loss::new(LossKind::Metadata, "*", reason));
    }
    if model.tensors.is_empty() && model.had > 0 && !options.allow_empty {
        return Err(none_left(model.had));
    }
    for (part, name) in std::mem::take(&mut model.unlisted) {
        let reason = format!("{part} holds it, and the set's index doesn't list it");
        losses.push(Loss::new(LossKind::Tensor, name, reason));
    }
    let mut refusals = Vec::new();
    let mut tensors = Vec::new();
    let mut effects = Effects::default();
    let home = model.format == Some(target.format());
    let twice = names_used_twice(&model);
    let mut parameter: Option<String> = None;
    let mut casts = Casts::new(std::mem::take(&mut model.casts), options);
    for tensor in shrinking(std::mem::take(&mut model.tensors)) {
        let has_owner = |owner: &String| tensor.is_stat_of(owner);
        if home && !parameter.as_ref().is_some_and(has_owner) {
            if tensor.is_stat {
                let reason = "its parameter is not before it; it becomes one of its own";
                losses.push(Loss::new(LossKind::Attribute, &*tensor.name, reason));
            }
            parameter = Some(tensor.name.clone());
        }
        if tensor.is_stat && !home && !options.with_stats {
            let reason = "a statistic; converted only with the option for it";
            losses.push(Loss::new(LossKind::Tensor, tensor.name, reason));
            continue;
        }
        if twice.contains(&tensor.name) && !home {
            let (tensor, dtype) = (tensor.name, tensor.dtype_name.into_owned());
            let reason = "two tensors have this name; rename or leave out one of them".into();
            refusals.push(Refusal {
                tensor,
                dtype,
                reason,
                damaged: false,
                remedy: Some(Remedy::Rename),
            });
            continue;
        }
        let before = Before::of(&tensor, &capabilities);
        let (name, dtype) = (tensor.name.clone(), tensor.dtype_name.clone());
        let damaged = matches!(&tensor.data, Err(Unreadable { damaged: true, .. }));
        let (from, casting) = (tensor.dtype, tensor.casting);
        let own = casts.options(casting, options);
        // Of several formats that were merged, some tensors may be at home in the target.
        let native = tensor.native.as_ref().map(Native::format);
        let home = native.map_or(home, |format| format == target.format());
        match prepare(tensor, &capabilities, &own, target, home, &mut losses)? {
            Ok(prepared) => {
                effects.note(&before, &prepared, options);
                let with = (&capabilities, options);
                casts.note(casting, &prepared, (from, &dtype), with);
                tensors.push(prepared);
            }
            Err(reasons) if options.skip_unsupported => {
                let reasons: Vec<String> = reasons.into_iter().map(|(why, _)| why).collect();
                let reason = format!("left out: {}", reasons.join("; "));
                losses.push(Loss::new(LossKind::Tensor, name, reason));
            }
            Err(reasons) => refusals.extend(reasons.into_iter().map(|(reason, remedy)| Refusal {
                tensor: name.clone(),
                dtype: dtype.clone().into_owned(),
                reason,
                damaged,
                remedy,
            })),
        }
    }
    if !refusals.is_empty() {
        return Err(Error::Refused(refusals));
    }
    if tensors.is_empty() && model.had > 0 && !options.allow_empty {
        return Err(none_left(model.had));
    }
    let data_len = tensors
        .iter()
        .map(|tensor| tensor.data.size())
        .fold(0, u64::saturating_add);
    let writer = build(target, &model, tensors, options, &mut losses).map_err(refuse)?;
    Ok(Plan {
        target,
        losses,
        notes: effects.notes(options, &casts),
        casts: casts.own().cloned().collect(),
        cast: casts.common,
        data_len,
        inputs: model.inputs,
        writer,
    })
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

/// Names that more than one tensor of the model has.
fn names_used_twice(model: &Model) -> HashSet<String> {
    let mut seen = HashSet::with_capacity(model.tensors.len());
    let names = model.tensors.iter().map(|tensor| &tensor.name);
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

/// Casts and reorders a tensor so that the target can hold it, or says why it can't.
fn prepare(
    tensor: ModelTensor,
    target: &Capabilities,
    options: &Options,
    to: Target,
    home: bool,
    losses: &mut Vec<Loss>,
) -> Result<Result<Prepared, Vec<Why>>> {
    let name = tensor.name;
    // What comes from the target's own format and stays as it is, can be held as it was.
    let casts = |from: DType| wanted(from, target, options).is_some() && from.is_number();
    let changes = tensor.dtype.is_some_and(casts) || tensor.turned;
    #[cfg(feature = "burnpack")]
    if !home {
        let wide = codec::burnpack::wide_truths(tensor.native.as_ref())?;
        if wide > 0 {
            let reason = format!("{wide} truth values held as other numbers than 0 and 1 become 1");
            losses.push(Loss::new(LossKind::Value, &*name, reason));
        }
    }
    let own = safetensors_native(tensor.native.as_ref());
    let native = tensor.native.filter(|_| home && !changes);
    // Bytes of an unknown dtype can still be copied within their format.
    let unknown = native.as_ref().map(|_| DType::Opaque);
    let copied = tensor.dtype.or(unknown);
    if let (Some(dtype), Ok(data), true) = (copied, &tensor.data, native.is_some()) {
        let (shape, order, data) = (tensor.shape, tensor.order, data.clone());
        let attributes = tensor.attributes;
        return Ok(Ok(Prepared {
            name,
            dtype,
            shape,
            order,
            data,
            attributes,
            native,
        }));
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
    let mut whys: Vec<Why> = Vec::new();
    if let Some(reason) = (target.name)(&name) {
        whys.push((reason, Some(Remedy::Rename)));
    }
    let stored = Stored {
        name: &name,
        dtype,
        shape: &tensor.shape,
        order: tensor.order,
    };
    let cast = match cast(data, &stored, target, to, options, losses)? {
        Ok(cast) => Some(cast),
        Err(reason) => {
            whys.push((reason, Some(cast_remedy(dtype, target, options))));
            None
        }
    };
    let mut shape = tensor.shape;
    if shape.rank() == 0 && *target.ranks.start() > 0 && options.promote_scalars {
        shape = Shape::new(&[1]).unwrap_or_default();
        losses.push(Loss::new(
            LossKind::Shape,
            &*name,
            "the scalar [] becomes [1]",
        ));
    }
    if !target.ranks.contains(&shape.rank()) {
        let (rank, most) = (shape.rank(), target.ranks.end());
        whys.push(match rank {
            0 => (
                format!("a {} file can't hold a scalar", to.name()),
                Some(Remedy::PromoteScalars),
            ),
            _ => (
                format!("rank {rank}; a {} file holds up to {most} dims", to.name()),
                Some(Remedy::LeaveOut),
            ),
        });
    }
    if shape.elements() == 0 && !target.empty {
        whys.push((
            format!("no elements; a {} file holds no empty tensor", to.name()),
            Some(Remedy::LeaveOut),
        ));
    }
    let Some((data, dtype)) = cast.filter(|_| whys.is_empty()) else {
        return Ok(Err(whys));
    };
    let (shape, order, data) = reorder(data, dtype, shape, tensor.order, target, options)?;
    if let Some(checksum) = tensor.checksum.filter(|_| !target.checksums) {
        let reason = format!("{checksum} is of the source's bytes and is not carried over");
        losses.push(Loss::new(LossKind::Checksum, &*name, reason));
    }
    #[cfg(feature = "safetensors")]
    if let (false, Some(native)) = (home, &own) {
        codec::safetensors::lose_extras(&name, native, losses);
    }
    let attributes = tensor.attributes;
    Ok(Ok(Prepared {
        name,
        dtype,
        shape,
        order,
        data,
        attributes,
        native: own.filter(|_| home),
    }))
}

/// What a safetensors file says about a tensor, which stays with it also where its data changes.
fn safetensors_native(native: Option<&Native>) -> Option<Native> {
    match native {
        #[cfg(feature = "safetensors")]
        Some(native @ Native::Safetensors(..)) => Some(native.clone()),
        _ => None,
    }
}

fn reorder(
    data: Arc<dyn Source>,
    dtype: DType,
    shape: Shape,
    order: Order,
    target: &Capabilities,
    options: &Options,
) -> Result<(Shape, Order, Arc<dyn Source>)> {
    let to = target.order;
    if order == to {
        return Ok((shape, to, data));
    }
    if options.layout == Layout::KeepBytes {
        return Ok((shape.reversed(), to, data));
    }
    if shape.is_order_free() {
        return Ok((shape, to, data));
    }
    let transposed = Transposed::new(data, dtype, &shape, order)
        .map_err(|error| Error::Usage(error.to_string()))?;
    Ok((shape, to, Arc::new(transposed)))
}
