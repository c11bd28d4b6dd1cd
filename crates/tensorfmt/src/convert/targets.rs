use std::path::Path;
use std::sync::Arc;

use tensor_core::{
    Cast, DType, Order, Shape, Source, Ticker, Transposed, Value, WriteOptions, walk,
};

use super::record::{KEY, Record};
use super::{Layout, Loss, LossKind, Model, ModelTensor, Options, Plan, Refusal, Target};
use crate::{Error, Result};

/// What a target can hold.
pub(crate) struct Capabilities {
    pub(crate) holds: fn(DType) -> bool,
    ranks: std::ops::RangeInclusive<usize>,
    /// Whether a dim may be 0.
    empty: bool,
    order: Order,
    /// Why a name can't be held.
    name: fn(&str) -> Option<String>,
}

/// What `target` can hold, `None` where this build leaves it out.
pub(crate) fn capabilities(target: Target) -> Option<Capabilities> {
    match target {
        #[cfg(feature = "mag")]
        Target::Mag => Some(Capabilities {
            holds: |dtype| mag_format::DTypeCode::from_dtype(dtype).is_some(),
            ranks: 1..=255,
            empty: false,
            order: Order::RowMajor,
            name: |name| {
                let held = (1..=65535).contains(&name.len()) && !name.contains('\0');
                (!held).then(|| "a mag name has 1 to 65535 bytes and no NUL".into())
            },
        }),
        #[cfg(feature = "safetensors")]
        Target::Safetensors => Some(Capabilities {
            holds: |dtype| crate::safetensors::name_of(dtype).is_some(),
            ranks: 0..=usize::MAX,
            empty: true,
            order: Order::RowMajor,
            name: |name| {
                (name == "__metadata__").then(|| "the name is the safetensors header's own".into())
            },
        }),
        #[allow(unreachable_patterns, reason = "a build may have every codec")]
        _ => None,
    }
}

/// The builder of the target's codec, filled.
#[derive(Debug)]
pub(crate) enum Writer {
    #[cfg(feature = "mag")]
    Mag(mag_format::Builder),
    #[cfg(feature = "safetensors")]
    Safetensors(crate::safetensors::Builder),
}

impl Writer {
    pub(crate) fn write_file(&self, path: &Path, options: &WriteOptions<'_>) -> Result<()> {
        match self {
            #[cfg(feature = "mag")]
            Self::Mag(builder) => Ok(builder.write_file_with(path, options)?),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(builder) => Ok(builder.write_file_with(path, options)?),
        }
    }
}

/// A tensor as the target will hold it.
struct Prepared {
    name: String,
    dtype: DType,
    shape: Shape,
    order: Order,
    data: Arc<dyn Source>,
    attributes: Vec<(String, Value)>,
}

pub(crate) fn plan(model: Model, target: Target, options: &Options) -> Result<Plan> {
    let capabilities = capabilities(target).ok_or(Error::Disabled(target.format()))?;
    let mut losses = Vec::new();
    let mut refusals = Vec::new();
    let mut tensors = Vec::new();
    for tensor in model.tensors {
        let (name, dtype) = (tensor.name.clone(), tensor.dtype_name.clone());
        match prepare(tensor, &capabilities, options, target, &mut losses)? {
            Ok(prepared) => tensors.push(prepared),
            Err(reason) if options.skip_unsupported => {
                losses.push(Loss::new(
                    LossKind::Tensor,
                    name,
                    format!("left out: {reason}"),
                ));
            }
            Err(reason) => refusals.push(Refusal {
                tensor: name,
                dtype,
                reason,
            }),
        }
    }
    if !refusals.is_empty() {
        return Err(Error::Refused(refusals));
    }
    let data_len = tensors
        .iter()
        .map(|tensor| tensor.data.size())
        .fold(0, u64::saturating_add);
    let writer = match target {
        #[cfg(feature = "mag")]
        Target::Mag => mag(tensors, &model.metadata, &mut losses)?,
        #[cfg(feature = "safetensors")]
        Target::Safetensors => safetensors(tensors, &model.metadata)?,
        #[allow(unreachable_patterns, reason = "a build may have every codec")]
        _ => return Err(Error::Disabled(target.format())),
    };
    Ok(Plan {
        target,
        losses,
        data_len,
        writer,
    })
}

/// Casts and reorders a tensor so that the target can hold it, or says why it can't.
fn prepare(
    tensor: ModelTensor,
    target: &Capabilities,
    options: &Options,
    to: Target,
    losses: &mut Vec<Loss>,
) -> Result<Result<Prepared, String>> {
    let name = tensor.name;
    let (data, dtype) = match (tensor.data, tensor.dtype) {
        (Ok(data), Some(dtype)) => (data, dtype),
        (Err(reason), _) => return Ok(Err(reason)),
        (Ok(_), None) => return Ok(Err("the dtype is unknown".into())),
    };
    if let Some(reason) = (target.name)(&name) {
        return Ok(Err(reason));
    }
    let (data, dtype) = match cast(data, dtype, &name, target, options, losses)? {
        Ok(cast) => cast,
        Err(reason) => return Ok(Err(format!("a {} file {reason}", to.name()))),
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
        return Ok(Err(match rank {
            0 => format!("a {} file can't hold a scalar", to.name()),
            _ => format!("rank {rank}; a {} file holds up to {most} dims", to.name()),
        }));
    }
    if shape.elements() == 0 && !target.empty {
        return Ok(Err(format!(
            "no elements; a {} file holds no empty tensor",
            to.name()
        )));
    }
    let (shape, order, data) = reorder(data, dtype, shape, tensor.order, target, options)?;
    if let Some(checksum) = tensor.checksum {
        let reason = format!("{checksum} is of the source's bytes and is not carried over");
        losses.push(Loss::new(LossKind::Checksum, &*name, reason));
    }
    Ok(Ok(Prepared {
        name,
        dtype,
        shape,
        order,
        data,
        attributes: tensor.attributes,
    }))
}

type Data = (Arc<dyn Source>, DType);

/// The data in a dtype that the target holds and the options ask for.
fn cast(
    data: Arc<dyn Source>,
    dtype: DType,
    name: &str,
    target: &Capabilities,
    options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Result<Data, String>> {
    let held = (target.holds)(dtype);
    let wanted = options.cast.filter(|&to| {
        to != dtype
            && (!held || to.is_float() && dtype.is_float())
            && (to.is_float() || !dtype.is_float())
    });
    let Some(to) = wanted.filter(|&to| (target.holds)(to)) else {
        return Ok(match held {
            true => Ok((data, dtype)),
            false => Err(format!("can't hold {dtype}")),
        });
    };
    if !Cast::<Arc<dyn Source>>::is_supported(dtype, to) {
        return Ok(Err(format!(
            "can't hold {dtype}, and it can't be cast to {to}"
        )));
    }
    let cast = Cast::new(data, dtype, to).map_err(|error| Error::Usage(error.to_string()))?;
    if !is_exact(dtype, to) {
        // Read everything once before the first byte is written, to know what is lost.
        walk::<Error>(&cast, 0..cast.size(), &Ticker::default(), |_| Ok(()))?;
        let counts = cast.counts();
        let lost = [
            (counts.overflowed(), "out of range"),
            (counts.underflowed(), "too small"),
            (counts.rounded(), "rounded"),
        ];
        if to.is_integer() && counts.overflowed() > 0 {
            let reason = format!(
                "can't hold {dtype}, and {} values don't fit {to}",
                counts.overflowed()
            );
            return Ok(Err(reason));
        }
        let lost: Vec<String> = lost
            .into_iter()
            .filter(|&(count, _)| count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if !lost.is_empty() {
            let reason = format!("{dtype} cast to {to}: {} values", lost.join(", "));
            losses.push(Loss::new(LossKind::Value, name, reason));
        }
    }
    Ok(Ok((Arc::new(cast), to)))
}

/// Whether every value of one dtype is one of the other.
fn is_exact(from: DType, to: DType) -> bool {
    let bits = |dtype: DType| dtype.size().unwrap_or(0) * 8;
    let mantissa = |dtype: DType| match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        DType::F64 => 53,
        _ => 0,
    };
    let signed = |dtype| matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    match (from, to) {
        (DType::Bool, _) => true,
        (_, DType::Bool) => false,
        (DType::F16 | DType::BF16, DType::F32 | DType::F64) | (DType::F32, DType::F64) => true,
        (from, to) if from.is_integer() && to.is_float() => bits(from) <= mantissa(to),
        (from, to) if from.is_integer() && to.is_integer() => match (signed(from), signed(to)) {
            (false, true) => bits(from) < bits(to),
            (true, false) => false,
            _ => bits(from) <= bits(to),
        },
        _ => false,
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

#[cfg(feature = "mag")]
fn mag(
    tensors: Vec<Prepared>,
    metadata: &[(String, Value)],
    losses: &mut Vec<Loss>,
) -> Result<Writer> {
    use mag_format::MetaValue;

    let mut builder = mag_format::Builder::new();
    for (key, value) in metadata {
        let held = match value {
            Value::Int(value) => i64::try_from(*value).ok().map(MetaValue::I64),
            Value::Float(value) => Some(MetaValue::F64(*value)),
            Value::Bool(value) => Some(MetaValue::I64((*value).into())),
            _ => None,
        };
        let reason = match held.map(|held| builder.metadata(key, held)) {
            Some(Ok(_)) if matches!(value, Value::Bool(_)) => "held as an integer".to_owned(),
            Some(Ok(_)) => continue,
            Some(Err(error)) => error.to_string(),
            None => "mag metadata holds 64-bit integers and floats only".to_owned(),
        };
        losses.push(Loss::new(LossKind::Metadata, key, reason));
    }
    for tensor in tensors {
        lose_attributes(
            &tensor,
            "a mag file says nothing but dtype and shape",
            losses,
        );
        let Prepared {
            name,
            dtype,
            shape,
            order,
            data,
            ..
        } = tensor;
        builder.deferred(name, dtype, shape, order, data)?;
    }
    Ok(Writer::Mag(builder))
}

#[cfg(feature = "safetensors")]
fn safetensors(tensors: Vec<Prepared>, metadata: &[(String, Value)]) -> Result<Writer> {
    let mut builder = crate::safetensors::Builder::new();
    let mut record = Record::default();
    for (key, value) in metadata {
        builder.metadata(key, record.text_of(key, value))?;
    }
    for tensor in &tensors {
        record.attributes(&tensor.name, &tensor.attributes);
    }
    if let Some(text) = record.to_text() {
        builder.metadata(KEY, text)?;
    }
    for Prepared {
        name,
        dtype,
        shape,
        order,
        data,
        ..
    } in tensors
    {
        builder.deferred(name, dtype, shape, order, data)?;
    }
    Ok(Writer::Safetensors(builder))
}

/// Notes everything that is said about a tensor as lost.
fn lose_attributes(tensor: &Prepared, reason: &str, losses: &mut Vec<Loss>) {
    for (key, _) in &tensor.attributes {
        losses.push(Loss::new(
            LossKind::Attribute,
            format!("{}: {key}", tensor.name),
            reason,
        ));
    }
}
