use std::borrow::Cow;

use mag_format::{Archive, Builder, DTypeCode, Entry, Generation, MetaValue, Timestamp};
use tensor_core::{Order, Value};

use super::{Capabilities, Describe, DescribeEntry, Prepared, lose_attributes, lose_generation};
use crate::convert::{Loss, LossKind, Model, Options, shrinking};
use crate::{Format, Result};

impl Describe for Archive {
    fn version_name(&self) -> String {
        self.generation().version().into()
    }

    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        if let Some(snapshot) = self.snapshot() {
            return snapshot.metadata().to_vec();
        }
        self.metadata()
            .iter()
            .map(|meta| (meta.key().into(), meta.value().into()))
            .collect()
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let checksum = self.checksum();
        let mut facts = vec![(
            "checksum",
            checksum.map_or(Value::Null, |checksum| checksum.name().into()),
        )];
        let Some(snapshot) = self.snapshot() else {
            return facts;
        };
        let timestamp = match snapshot.timestamp() {
            Timestamp::Unix(seconds) => Value::from(*seconds),
            Timestamp::Text(text) => text.as_str().into(),
            _ => Value::Null,
        };
        facts.push(("timestamp", timestamp));
        facts.extend(
            [
                (
                    "magnetron_ver",
                    snapshot.magnetron_version().map(Value::from),
                ),
                ("manifest_ver", snapshot.manifest_version().map(Value::from)),
                ("snapshot_ver", snapshot.snapshot_version().map(Value::from)),
            ]
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?))),
        );
        facts
    }
}

impl<'a> DescribeEntry<'a> for Entry<'a> {
    fn stored_bytes(self) -> Option<u64> {
        self.stored_len()
    }

    fn stored_dtype(self) -> Cow<'a, str> {
        Cow::Owned(self.dtype_code().to_string())
    }
}

pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    holds: |dtype| DTypeCode::from_dtype(dtype).is_some(),
    ranks: 1..=255,
    empty: false,
    order: Order::RowMajor,
    checksums: false,
    name: |name| {
        let held = (1..=65535).contains(&name.len()) && !name.contains('\0');
        (!held).then(|| "a mag name has 1 to 65535 bytes and no NUL".into())
    },
};

pub(crate) fn build(
    model: &Model,
    tensors: Vec<Prepared>,
    _options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Builder> {
    let written = Generation::Version1.version();
    lose_generation(model, Format::Mag, written, losses);
    let mut builder = Builder::new();
    for (key, value) in &model.metadata {
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
    for tensor in shrinking(tensors) {
        lose_attributes(
            &tensor.name,
            &tensor.attributes,
            &[],
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
    Ok(builder)
}
