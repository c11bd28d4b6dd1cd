//! Metadata: values of files as Python objects, and back.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use tensorfmt::Value;

use crate::errors;

/// How deep values may nest; Python's own limits are near.
const DEPTH: usize = 200;

/// A value as Python has it. A map whose keys can't be those of a dict is a list of pairs.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    if value.depth() > DEPTH {
        let message = format!("metadata nests deeper than {DEPTH} levels");
        return Err(errors::unsupported(py, "", &message));
    }
    nested(py, value)
}

fn nested<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::BigInt(digits) => py.get_type::<PyInt>().call1((digits,))?,
        Value::Float(value) => PyFloat::new(py, *value).into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(nested(py, item)?)?;
            }
            list.into_any()
        }
        Value::Map(pairs) => match dict(py, pairs)? {
            Some(dict) => dict.into_any(),
            None => {
                let list = PyList::empty(py);
                for (key, value) in pairs {
                    list.append((nested(py, key)?, nested(py, value)?))?;
                }
                list.into_any()
            }
        },
        _ => py.None().into_bound(py),
    })
}

/// A dict of the pairs, unless two keys are one to Python, or one can't be a key.
fn dict<'py>(py: Python<'py>, pairs: &[(Value, Value)]) -> PyResult<Option<Bound<'py, PyDict>>> {
    let dict = PyDict::new(py);
    for (key, value) in pairs {
        if matches!(key, Value::List(_) | Value::Map(_)) {
            return Ok(None);
        }
        dict.set_item(nested(py, key)?, nested(py, value)?)?;
    }
    Ok((dict.len() == pairs.len()).then_some(dict))
}

/// A Python object as a value.
pub(crate) fn to_value(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let py = value.py();
    if depth > DEPTH {
        let message = format!("metadata nests deeper than {DEPTH} levels");
        return Err(errors::usage(py, &message));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Value::Bool(value.is_true()));
    }
    if let Ok(value) = value.cast::<PyInt>() {
        return match value.extract::<i128>() {
            Ok(value) => Ok(Value::Int(value)),
            Err(_) => Ok(Value::BigInt(value.str()?.to_string())),
        };
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(Value::Float(value.value()));
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(Value::Text(value.to_str()?.to_owned()));
    }
    if let Ok(value) = value.cast::<PyBytes>() {
        return Ok(Value::Bytes(value.as_bytes().to_vec()));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let mut pairs = Vec::with_capacity(dict.len());
        for (key, value) in dict {
            pairs.push((to_value(&key, depth + 1)?, to_value(&value, depth + 1)?));
        }
        return Ok(Value::Map(pairs));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut items = Vec::new();
        for item in value.try_iter()? {
            items.push(to_value(&item?, depth + 1)?);
        }
        return Ok(Value::List(items));
    }
    let message = format!("metadata can't be a {}", value.get_type().name()?);
    Err(errors::usage(py, &message))
}
