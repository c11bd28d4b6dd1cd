//! Names and metadata that change in a file where it is: only its index is written.

use std::path::Path;

use tensor_core::codec::Patched;
use tensor_core::{FileSource, Misfit, PatchError, Value};

use super::choices::Casting;
use super::{Layout, LossKind, Model, ModelTensor, Options, Plan, Target, plan};
use crate::{Archive, Entry, Result};

/// Gives the file at `path` the names and the metadata of `model`, by writing over its index alone; says how
/// many bytes were written.
///
/// `archive` is the file, opened, and `model` was made of it. The bytes are written in an order in which the
/// file can be read after every write, as it was or as it will be ([`tensor_core::Patch`]). The index is read, as it
/// would be, before the first byte: were it not what was asked for, nothing is written.
///
/// ```
/// use tensorfmt::convert::{Model, Options, Target, edit_in_place, plan};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.zt");
/// # let mut new = tensorfmt::ztensor::Builder::new();
/// # new.tensor("weight", tensorfmt::Tensor::from_slice(&[1.0f32], &[1])?)?.write_file(&path)?;
///
/// let archive = tensorfmt::Archive::open(&path)?;
/// let mut model = Model::of(&archive);
/// model.rename(|_| "w".to_owned())?;
/// let written = edit_in_place(&path, &archive, &model, &Options::default())??;
/// assert!(written < 512);
/// assert!(tensorfmt::Archive::open(&path)?.entry("w").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`plan`], and what the disk fails with. The inner error says why the file can't be edited in place; it
/// is then as it was.
pub fn edit_in_place(
    path: impl AsRef<Path>,
    archive: &Archive,
    model: &Model,
    options: &Options,
) -> Result<std::result::Result<u64, Misfit>> {
    let path = path.as_ref();
    let files = archive.files();
    let (Some(target), [file]) = (target_of(archive), &*files) else {
        return Ok(Err(Misfit::Layout("a set is several files")));
    };
    if !changes_index_alone(archive, model, options) {
        return Ok(Err(Misfit::Tensors));
    }
    let plan = plan(model.clone(), target, options)?;
    let patch = match archive.patch(&*plan.writer)? {
        Ok(patch) => patch,
        Err(misfit) => return Ok(Err(misfit)),
    };
    let source = FileSource::open(path)?;
    let patched = Archive::from_source(
        Patched::new(std::sync::Arc::new(source), &patch),
        &Default::default(),
    );
    if !patched.is_ok_and(|patched| is_as_planned(archive, &patched, model, &plan)) {
        return Ok(Err(Misfit::Layout(
            "the file is laid out in a way that its index does not allow for",
        )));
    }
    match patch.apply(path, file) {
        Ok(()) => Ok(Ok(patch.written())),
        Err(PatchError::File(error)) => Err(error.into()),
        Err(PatchError::NotHere(why)) => Ok(Err(Misfit::Layout(why))),
        Err(_) => Ok(Err(Misfit::Tensors)),
    }
}

/// The target that is a copy of a single file.
fn target_of(archive: &Archive) -> Option<Target> {
    let mut targets = Target::ALL.iter().copied();
    targets.find(|target| target.format() == archive.format() && !archive.is_set())
}

/// Whether all tensors are present, in their order and unchanged, except for their names.
fn changes_index_alone(archive: &Archive, model: &Model, options: &Options) -> bool {
    let plain = options.cast.is_none()
        && options.layout == Layout::KeepDims
        && options.zstd.is_none()
        && options.checksum.is_none()
        && options.max_shard_bytes.is_none()
        && options.max_part_shards.is_none()
        && options.phsh.is_none()
        && options.burnpack.is_none()
        && options.primitiv.is_none()
        && !(options.promote_scalars || options.with_stats || options.whole_names)
        && !(options.tensor_hash || options.ihsh || options.page_align);
    let mut tensors = (0..).zip(&model.tensors);
    plain
        && model.inputs == archive.files()
        && model.had == model.tensors.len()
        && tensors.all(|(at, tensor)| {
            tensor.ordinal == at && !tensor.turned && tensor.casting == Casting::Common
        })
}

/// Whether a patched file has the tensors of the archive where they are, with the names and the metadata that
/// were asked for.
fn is_as_planned(old: &Archive, new: &Archive, model: &Model, plan: &Plan) -> bool {
    let (before, after) = (old.entries(), new.entries());
    let same = |((before, after), tensor): ((Entry<'_>, Entry<'_>), &ModelTensor)| {
        after.name() == tensor.name
            && before.dtype_name() == after.dtype_name()
            && before.shape() == after.shape()
            && before.order() == after.order()
            && before.offset() == after.offset()
            && before.stored_len() == after.stored_len()
            && before.encoding() == after.encoding()
            && before.extras() == after.extras()
    };
    let found = Model::about(new).metadata;
    let lost = plan
        .losses()
        .iter()
        .any(|loss| loss.kind == LossKind::Metadata);
    before.len() == after.len()
        && model.tensors.len() == after.len()
        && before
            .iter()
            .zip(after.iter())
            .zip(&model.tensors)
            .all(same)
        && (lost || sorted(&found) == sorted(&model.metadata))
}

fn sorted(metadata: &[(String, Value)]) -> Vec<&(String, Value)> {
    let mut pairs: Vec<&(String, Value)> = metadata.iter().collect();
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    pairs
}
