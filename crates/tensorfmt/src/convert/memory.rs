//! Models of tensors that are in no file yet.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use tensor_core::{Source, Tensor, TensorSpec, WriteOptions};

use super::{Loss, Model, ModelTensor, Options, PrimitivObject, Target, plan};
use crate::{Error, Format, Result, codec};

impl Model {
    /// A model without tensors, to be filled with [`tensor`](Self::tensor), [`deferred`](Self::deferred) and
    /// [`set_metadata`](Self::set_metadata).
    ///
    /// ```
    /// use tensorfmt::convert::Model;
    /// use tensorfmt::{Archive, Tensor};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// let mut model = Model::new();
    /// model.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?);
    /// model.set_metadata("step", "12");
    /// let losses = model.save(&path, &Default::default(), &Default::default())?;
    /// assert!(losses.is_empty());
    /// assert_eq!(Archive::open(&path)?.read("w")?.as_slice::<f32>()?, &[0.5, 1.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor at the end; its bytes are shared, not copied.
    ///
    /// Two tensors of one name are refused when the model is written.
    pub fn tensor(&mut self, name: impl AsRef<str>, tensor: Tensor) -> &mut Self {
        let spec = TensorSpec::from(&tensor);
        self.push(name.as_ref(), &spec, Arc::new(tensor.into_data()))
    }

    /// Adds a tensor at the end whose little-endian bytes are pulled in windows when they are written.
    ///
    /// # Errors
    /// [`Error::Usage`] where `data` isn't as long as `spec` asks for.
    pub fn deferred(
        &mut self,
        name: impl AsRef<str>,
        spec: TensorSpec,
        data: impl Source + 'static,
    ) -> Result<&mut Self> {
        let name = name.as_ref();
        match spec.check_len(data.size()) {
            Ok(()) => Ok(self.push(name, &spec, Arc::new(data))),
            Err(error) => Err(Error::Usage(format!("tensor {name:?}: {error}"))),
        }
    }

    fn push(&mut self, name: &str, spec: &TensorSpec, data: Arc<dyn Source>) -> &mut Self {
        let (dtype, shape, order) = (spec.dtype(), spec.shape(), spec.order());
        let dtype_name = Cow::Borrowed(dtype.name());
        let tensor = codec::tensor(name, Some(dtype), dtype_name, shape, order, Ok(data));
        self.tensors.push(tensor);
        self
    }

    /// Writes the model to `path`, in the format that its ending names, and returns what that format
    /// can't hold of it beside tensors, which it has to hold all.
    ///
    /// A primitiv file is of the object that the ending names, unless the options name one.
    ///
    /// # Errors
    /// [`Error::Usage`] where the ending names no format; what [`plan`] and
    /// [`write_file`](super::Plan::write_file) say.
    pub fn save(
        self,
        path: impl AsRef<Path>,
        options: &Options,
        write: &WriteOptions<'_>,
    ) -> Result<Vec<Loss>> {
        let path = path.as_ref();
        let target = Target::from_path(path).ok_or_else(|| {
            let known: Vec<String> = Target::ALL
                .iter()
                .map(|target| format!(".{}", target.ending()))
                .collect();
            let (path, known) = (path.display(), known.join(", "));
            Error::Usage(format!(
                "{path}: its ending names no format; endings are {known}"
            ))
        })?;
        let mut options = *options;
        if target.format() == Format::Primitiv && options.primitiv.is_none() {
            options.primitiv = PrimitivObject::from_path(path);
        }
        let plan = plan(self, target, &options)?;
        plan.write_file(path, write)?;
        Ok(plan.losses().to_vec())
    }
}

impl ModelTensor {
    /// This tensor under another name, which [`Model::tensors`] of another model can take.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        #[cfg(feature = "primitiv")]
        if self.name != name && matches!(self.native, Some(codec::Native::Primitiv(_))) {
            // The parts of its address are not those of the new name.
            self.native = None;
        }
        self.name = name;
        self
    }
}
