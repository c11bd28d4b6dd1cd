//! An open file.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyString, PyTuple};
use tensorfmt::convert::{Model, Tensors};
use tensorfmt::{Error, ReadOptions};

use crate::remote::{self, Pairs};
use crate::tensor::Tensor;
use crate::{errors, memory, source, values};

/// An open tensor file, or a set of them: a mapping from names to tensors whose data is read when it is
/// asked for.
///
/// Leaving its `with` block, or `close()`, lets go of the file; arrays stay as they are.
#[pyclass(frozen, mapping, module = "tensorfmt")]
pub(crate) struct Archive {
    open: RwLock<Option<Arc<tensorfmt::Archive>>>,
    place: Place,
    mapped: bool,
    limits: Vec<(String, u64)>,
}

/// How an archive was opened, for messages and for pickles.
#[derive(Clone, Default)]
struct Place {
    path: Option<PathBuf>,
    /// As it was typed, secrets included.
    address: Option<String>,
    /// The same for messages.
    shown: Option<String>,
    settings: Pairs,
}

/// Opens a tensor file of any format.
#[pyfunction]
#[pyo3(signature = (file, *, mmap=false, limits=None, settings=None))]
pub(crate) fn open(
    file: &Bound<'_, PyAny>,
    mmap: bool,
    limits: Option<Vec<(String, u64)>>,
    settings: Option<Pairs>,
) -> PyResult<Archive> {
    let py = file.py();
    let limits = limits.unwrap_or_default();
    let mut options = ReadOptions::default();
    for (name, value) in &limits {
        let set = options.limit(name, *value);
        set.map_err(|error| errors::raise(py, &error))?;
    }
    let opened = |result: tensorfmt::Result<tensorfmt::Archive>, place: Place, mapped| {
        let archive = result.map_err(|error| errors::raise(py, &error))?;
        Ok(Archive {
            open: RwLock::new(Some(Arc::new(archive))),
            place,
            mapped,
            limits,
        })
    };
    if let Some(address) = address_of(file) {
        if mmap {
            return Err(errors::usage(py, "only what is on this disk can be mapped"));
        }
        let settings = settings.unwrap_or_default();
        let result = py.detach(|| remote::open(&address, &settings, &options));
        let found = result.map_err(|error| errors::raise(py, &error))?;
        for note in found.notes {
            py.import("warnings")?.call_method1("warn", (note,))?;
        }
        let place = Place {
            address: Some(address),
            shown: Some(found.shown),
            settings,
            ..Place::default()
        };
        return opened(Ok(found.archive), place, false);
    }
    if let Some(path) = path_of(file)? {
        let result = py.detach(|| match mmap {
            true => open_mapped(&path, &options),
            false => tensorfmt::Archive::open_with(&path, &options),
        });
        let place = Place {
            path: Some(path),
            ..Place::default()
        };
        return opened(result, place, mmap);
    }
    if mmap {
        return Err(errors::usage(py, "only what has a path can be mapped"));
    }
    if source::FileObject::is(file)? {
        let source = source::FileObject::new(file)?;
        let result = py.detach(|| tensorfmt::Archive::from_source(source, &options));
        return opened(result, Place::default(), false);
    }
    let bytes = memory::bytes_of(file, false).map_err(|error| {
        let message =
            "a path, a binary file object or an object with the buffer protocol is needed";
        let wrong = PyTypeError::new_err(message);
        wrong.set_cause(py, Some(error));
        wrong
    })?;
    let result = py.detach(|| tensorfmt::Archive::from_source(bytes, &options));
    opened(result, Place::default(), false)
}

/// The address that an object is, if it is one.
fn address_of(object: &Bound<'_, PyAny>) -> Option<String> {
    let text = object.cast::<PyString>().ok()?.to_str().ok()?;
    remote::is_address(text).then(|| text.to_owned())
}

/// The path that an object is, if it is one. Bytes are the content of a file, not its name.
pub(crate) fn path_of(object: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if object.is_instance_of::<PyString>() || object.hasattr("__fspath__")? {
        return object.extract().map(Some);
    }
    Ok(None)
}

/// Maps a single file. The files of a set are found and opened by the set, and read without a map.
fn open_mapped(path: &PathBuf, options: &ReadOptions) -> tensorfmt::Result<tensorfmt::Archive> {
    let archive = tensorfmt::Archive::open_with(path, options)?;
    if archive.files().len() > 1 {
        let message = format!("{}: a set of files can't be mapped", path.display());
        return Err(Error::Usage(message));
    }
    let map = memory::map(path)?;
    tensorfmt::Archive::from_source_as(map, archive.format(), options)
}

impl Archive {
    /// What is open.
    pub(crate) fn get(&self) -> PyResult<Arc<tensorfmt::Archive>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone()
            .ok_or_else(|| PyValueError::new_err("the archive is closed"))
    }

    /// The tensor of this name.
    pub(crate) fn tensor(slf: &Bound<'_, Self>, name: &str) -> PyResult<Tensor> {
        let archive = slf.get().get()?;
        let Some(entry) = archive.entry(name) else {
            return Err(errors::raise(slf.py(), &archive.no_such_tensor(name)));
        };
        let model = Tensors::described(&archive).get(entry);
        Tensor::new(slf, model, &entry)
    }
}

#[pymethods]
impl Archive {
    /// The format: `mag`, `ztensor`, `burnpack`, `aero`, `primitiv` or `safetensors`.
    #[getter]
    fn format(&self) -> PyResult<&'static str> {
        Ok(self.get()?.format().name())
    }

    /// The version or generation of the format, as people name it.
    #[getter]
    fn version(&self) -> PyResult<String> {
        Ok(self.get()?.version())
    }

    /// The path that it was opened by, if it was.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.place.path.clone()
    }

    /// The address that it was opened by, if it was, without secrets.
    #[getter]
    fn address(&self) -> Option<&str> {
        self.place.shown.as_deref()
    }

    /// Whether arrays are views of the mapped file.
    #[getter]
    fn mmap(&self) -> bool {
        self.mapped
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.is_none()
    }

    /// The metadata of the file, in its order. Values that were saved to a format whose own are text alone have
    /// the types that they had.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let archive = self.get()?;
        if let Some(fault) = archive.metadata_fault() {
            return Err(errors::raise(py, &fault));
        }
        let dict = PyDict::new(py);
        for (key, value) in Model::about(&archive).metadata {
            dict.set_item(key, values::to_python(py, &value)?)?;
        }
        Ok(dict)
    }

    /// Lets go of the file.
    fn close(&self) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let closed = open.take();
        drop(open);
        drop(closed);
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().get()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.get()?.entries().len())
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let archive = self.get()?;
        Ok(match name.cast::<PyString>() {
            Ok(name) => archive.entry(name.to_str()?).is_some(),
            Err(_) => false,
        })
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    /// The names, in the order of the file.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let archive = self.get()?;
        let entries = archive.entries();
        PyList::new(py, entries.iter().map(tensorfmt::Entry::name))
    }

    /// The tensors, in the order of the file.
    fn values(slf: &Bound<'_, Self>) -> PyResult<Vec<Tensor>> {
        let archive = slf.get().get()?;
        let tensors = Tensors::described(&archive);
        let entries = archive.entries();
        let each = entries
            .iter()
            .map(|entry| Tensor::new(slf, tensors.get(entry), &entry));
        each.collect()
    }

    /// Names and tensors, in the order of the file.
    fn items(slf: &Bound<'_, Self>) -> PyResult<Vec<(String, Tensor)>> {
        let tensors = Self::values(slf)?.into_iter();
        Ok(tensors
            .map(|tensor| (tensor.name().to_owned(), tensor))
            .collect())
    }

    /// The tensor of this name, or `default`.
    #[pyo3(name = "get", signature = (name, default=None))]
    fn get_or<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match slf.get().get()?.entry(name) {
            Some(_) => Ok(Some(
                Self::tensor(slf, name)?.into_pyobject(slf.py())?.into_any(),
            )),
            None => Ok(default),
        }
    }

    fn __getitem__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Tensor> {
        Self::tensor(slf, name)
    }

    fn __repr__(&self) -> String {
        let path = match (&self.place.path, &self.place.shown) {
            (Some(path), _) => format!("{:?}", path.display().to_string()),
            (None, Some(address)) => format!("{address:?}"),
            (None, None) => "in memory".to_owned(),
        };
        match self.get() {
            Ok(archive) => {
                let count = archive.entries().len();
                format!("<tensorfmt.Archive {path}: {archive}, {count} tensors>")
            }
            Err(_) => format!("<tensorfmt.Archive {path}: closed>"),
        }
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    /// A copy in another process opens the file again.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let path = match (&self.place.path, &self.place.address) {
            (Some(path), _) => std::path::absolute(path)?.into_pyobject(py)?.into_any(),
            (None, Some(address)) => address.into_pyobject(py)?.into_any(),
            (None, None) => {
                let message =
                    "only an archive that was opened by a path or an address can be pickled";
                return Err(PyTypeError::new_err(message));
            }
        };
        self.get()?;
        let again = py.import("tensorfmt._archive")?.getattr("again")?;
        let settings = self.place.settings.clone();
        let arguments = (path, self.mapped, self.limits.clone(), settings);
        Ok((again, arguments.into_pyobject(py)?))
    }
}
