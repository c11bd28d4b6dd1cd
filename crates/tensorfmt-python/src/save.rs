//! Tensors of Python as files.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use tensorfmt::convert::{Model, Options, PrimitivObject, Target, plan};
use tensorfmt::{Error, Order, Shape, TensorSpec, WriteOptions};

use crate::tensor::Tensor;
use crate::work::{Watch, watched};
use crate::{dtype, errors, memory, values};

/// Writes tensors to a path, or to bytes where there is none, and returns what was lost.
///
/// Each is a tensor of an open file, a tuple of dtype, dims, order and bytes, or an object with DLPack.
#[pyfunction]
#[pyo3(signature = (tensors, path, format, metadata, *, durable=true, progress=None))]
#[allow(
    clippy::type_complexity,
    reason = "Python sees a tuple of a list and bytes"
)]
pub(crate) fn save<'py>(
    py: Python<'py>,
    tensors: Vec<(String, Bound<'py, PyAny>)>,
    path: Option<PathBuf>,
    format: Option<&str>,
    metadata: Vec<(String, Bound<'py, PyAny>)>,
    durable: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(
    Vec<(&'static str, String, String)>,
    Option<Bound<'py, PyBytes>>,
)> {
    let target = target(py, path.as_deref(), format)?;
    let mut model = Model::new();
    for (name, tensor) in &tensors {
        add(&mut model, name, tensor)?;
    }
    for (key, value) in &metadata {
        model.set_metadata(key, values::to_value(value, 0)?);
    }
    let mut options = Options::default();
    options.primitiv = path.as_deref().and_then(PrimitivObject::from_path);
    options.allow_empty = true;
    let watch = Watch::default();
    let notices = Mutex::new(Vec::new());
    let work = || -> Result<_, Error> {
        let plan = plan(model, target, &options)?;
        let total = plan.data_len();
        let tick = |bytes| watch.tick(bytes, total);
        let notice = |notice: &tensorfmt::Notice| {
            let mut notices = notices.lock().unwrap_or_else(PoisonError::into_inner);
            notices.push(notice.to_string());
        };
        let mut write = WriteOptions::default();
        write.durable = durable;
        write.progress = Some(&tick);
        write.notice = Some(&notice);
        let losses: Vec<(&'static str, String, String)> = plan
            .losses()
            .iter()
            .map(|loss| (loss.kind.name(), loss.item.clone(), loss.reason.clone()))
            .collect();
        let mut bytes = Vec::new();
        match &path {
            Some(path) => plan.write_file(path, &write)?,
            None => plan.write_to(&mut bytes, &write)?,
        }
        Ok((losses, bytes))
    };
    let (losses, bytes) =
        watched(py, &watch, progress, work)?.map_err(|error| errors::raise(py, &error))?;
    let bytes = path.is_none().then(|| PyBytes::new(py, &bytes));
    for notice in notices.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let warnings = py.import("warnings")?;
        warnings.call_method1("warn", (notice,))?;
    }
    Ok((losses, bytes))
}

fn target(
    py: Python<'_>,
    path: Option<&std::path::Path>,
    format: Option<&str>,
) -> PyResult<Target> {
    let known = || {
        let names: Vec<&str> = Target::ALL.iter().map(|target| target.name()).collect();
        names.join(", ")
    };
    let wrong = |message: String| errors::usage(py, &message);
    match (format, path) {
        (Some(name), _) => Target::from_name(name).ok_or_else(|| {
            wrong(format!(
                "no format is called {name:?}; there are {}",
                known()
            ))
        }),
        (None, Some(path)) => Target::from_path(path).ok_or_else(|| {
            let path = path.display();
            wrong(format!(
                "{path}: its ending names no format; say format= one of {}",
                known()
            ))
        }),
        (None, None) => Err(wrong(format!("say format= one of {}", known()))),
    }
}

fn add(model: &mut Model, name: &str, tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = tensor.py();
    if let Ok(tensor) = tensor.cast::<Tensor>() {
        let tensor = tensor.get();
        if let Some(whole) = tensor.whole()? {
            model.tensors.push(whole.named(name));
            return Ok(());
        }
        let (dtype, shape, order, data) = tensor.parts(py)?;
        let Some(dtype) = dtype else {
            let message = format!("tensor {name:?} has no dtype");
            return Err(errors::unsupported(py, name, &message));
        };
        let added = model.deferred(name, TensorSpec::new(dtype, shape).with_order(order), data);
        return added.map(drop).map_err(|error| errors::raise(py, &error));
    }
    if !tensor.is_exact_instance_of::<PyTuple>() {
        model.tensor(name, memory::from_dlpack(tensor)?);
        return Ok(());
    }
    let (kind, dims, order, data): (String, Vec<u64>, String, Bound<'_, PyAny>) =
        tensor.extract()?;
    let Some(dtype) = dtype::from_name(&kind) else {
        let message = format!("tensor {name:?}: no format has elements of {kind}");
        return Err(errors::unsupported(py, name, &message));
    };
    let shape = Shape::new(&dims).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let order = match order.as_str() {
        "F" => Order::ColumnMajor,
        _ => Order::RowMajor,
    };
    let bytes = memory::bytes_of(&data, true)?;
    let added = model.deferred(name, TensorSpec::new(dtype, shape).with_order(order), bytes);
    added.map(drop).map_err(|error| errors::raise(py, &error))
}
