use std::borrow::Cow;

use tensor_core::{Order, Value};

use super::{Capabilities, Describe, DescribeEntry, Prepared};
use crate::Result;
use crate::convert::{Loss, Model, Options, Record};
use crate::safetensors::{Archive, Builder, Entry, name_of};

impl Describe for Archive {
    fn version_name(&self) -> String {
        "1".into()
    }

    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        self.metadata()
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect()
    }
}

impl DescribeEntry for Entry {
    fn stored_bytes(&self) -> Option<u64> {
        self.stored_len()
    }

    fn stored_dtype(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.dtype_code())
    }
}

pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    holds: |dtype| name_of(dtype).is_some(),
    ranks: 0..=usize::MAX,
    empty: true,
    order: Order::RowMajor,
    checksums: false,
    name: |name| (name == "__metadata__").then(|| "the name is the header's own".into()),
};

pub(crate) fn build(
    model: &Model,
    tensors: Vec<Prepared>,
    _options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Builder> {
    let mut builder = Builder::new();
    let mut record = Record::default();
    for (key, value) in &model.metadata {
        losses.extend(Record::loss_of(key, value));
        builder.metadata(key, record.text_of(key, value))?;
    }
    for tensor in &tensors {
        record.attributes(&tensor.name, &tensor.attributes);
    }
    if let Some(text) = record.to_text() {
        if builder.metadata(Record::KEY, text).is_err() {
            losses.push(Record::has_no_place());
        }
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
    Ok(builder)
}
