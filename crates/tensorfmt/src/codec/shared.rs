//! What several codecs do alike.

use tensor_core::{FileId, Value};

use crate::Format;
use crate::convert::{Loss, LossKind, Model};

/// Notes all attributes of a tensor as lost, except the keys in `kept`.
pub(crate) fn lose_attributes(
    tensor: &str,
    attributes: &[(String, Value)],
    kept: &[&str],
    reason: &str,
    losses: &mut Vec<Loss>,
) {
    for (key, _) in attributes
        .iter()
        .filter(|(key, _)| !kept.contains(&key.as_str()))
    {
        losses.push(Loss::new(
            LossKind::Attribute,
            format!("{tensor}: {key}"),
            reason,
        ));
    }
}

/// Notes all metadata as lost.
pub(crate) fn lose_metadata(model: &Model, reason: &str, losses: &mut Vec<Loss>) {
    for (key, _) in &model.metadata {
        losses.push(Loss::new(LossKind::Metadata, key, reason));
    }
}

/// Notes that the file becomes one of another generation of its own format, if it does.
pub(crate) fn lose_generation(
    model: &Model,
    format: Format,
    written: &str,
    losses: &mut Vec<Loss>,
) {
    if model.format == Some(format) && model.version != written {
        let read = &model.version;
        let reason = format!("written as {format} {written}, no longer {read}");
        losses.push(Loss::new(LossKind::Generation, read, reason));
    }
}

/// The files of an archive that is one file at most.
pub(crate) fn one_file(file: Option<&FileId>) -> Vec<FileId> {
    file.cloned().into_iter().collect()
}
