//! Errors of the library as the exceptions of the package.

use std::error::Error as StdError;
use std::io;

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tensorfmt::{Error, FileError, Kind};

/// The exception for an error of the library.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    raise_about(py, error, None)
}

/// The exception for an error about a tensor.
pub(crate) fn raise_about(py: Python<'_>, error: &Error, tensor: Option<&str>) -> PyErr {
    if let Some(own) = raised(error) {
        return own.clone_ref(py);
    }
    let class = match (error, error.kind()) {
        (Error::NoSuchTensor { .. }, _) => "NoSuchTensor",
        (_, Kind::Invalid) => "InvalidFile",
        (_, Kind::Unsupported) => "Unsupported",
        (_, Kind::Limit) => "LimitExceeded",
        (_, Kind::Io) => "FileError",
        (_, Kind::Cancelled) => return PyKeyboardInterrupt::new_err(()),
        _ => "UsageError",
    };
    let tensor = tensor.or(match error {
        Error::NoSuchTensor { name, .. } => Some(name.as_str()),
        Error::Refused(refused) => refused.first().map(|refusal| refusal.tensor.as_str()),
        error => error.tensor(),
    });
    let place = error.at();
    let about = PyDict::new(py);
    let filled = about
        .set_item("kind", error.kind().name())
        .and_then(|()| about.set_item("rule", error.rule_id()))
        .and_then(|()| about.set_item("offset", place.map(|at| at.offset)))
        .and_then(|()| about.set_item("tensor", tensor.filter(|name| !name.is_empty())))
        .and_then(|()| system(error, &about));
    let made = filled.and_then(|()| new(py, class, &error.to_string(), &about));
    made.unwrap_or_else(|error| error)
}

/// An exception of the package for a wrong argument.
pub(crate) fn usage(py: Python<'_>, message: &str) -> PyErr {
    simple(py, "UsageError", "build", message)
}

/// An exception of the package for what is well-formed and can't be had.
pub(crate) fn unsupported(py: Python<'_>, tensor: &str, message: &str) -> PyErr {
    let about = PyDict::new(py);
    let made = about
        .set_item("kind", "unsupported")
        .and_then(|()| about.set_item("tensor", tensor))
        .and_then(|()| new(py, "Unsupported", message, &about));
    made.unwrap_or_else(|error| error)
}

fn simple(py: Python<'_>, class: &str, kind: &str, message: &str) -> PyErr {
    let about = PyDict::new(py);
    let made = about
        .set_item("kind", kind)
        .and_then(|()| new(py, class, message, &about));
    made.unwrap_or_else(|error| error)
}

fn new(py: Python<'_>, class: &str, message: &str, about: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let module = py.import("tensorfmt._errors")?;
    let make = module.getattr("make")?;
    let exception = make.call((class, message), Some(about))?;
    Ok(PyErr::from_value(exception))
}

/// What the operating system said, for the attributes of an OSError.
fn system(error: &Error, about: &Bound<'_, PyDict>) -> PyResult<()> {
    // What a server answers, as the system numbers it.
    if error.rule_id() == Some("remote.denied") {
        return about.set_item("errno", 13);
    }
    let Some(io) = chain(error).find_map(|error| error.downcast_ref::<io::Error>()) else {
        return Ok(());
    };
    let number = io.raw_os_error().or(match io.kind() {
        // What the library finds out by itself, as the system numbers it.
        io::ErrorKind::IsADirectory => Some(21),
        io::ErrorKind::NotFound => Some(2),
        _ => None,
    });
    about.set_item("errno", number)?;
    let file = chain(error).find_map(|error| error.downcast_ref::<FileError>());
    about.set_item("filename", file.map(|file| file.path.clone()))
}

/// The exception that a file object of the caller's raised, if that is what it comes from.
fn raised(error: &Error) -> Option<&PyErr> {
    chain(error).find_map(|error| error.downcast_ref::<PyErr>())
}

fn chain(error: &Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    // Transparent errors answer for what is in them, so that the ones in between are asked as well.
    let mut next: Vec<&(dyn StdError + 'static)> = vec![error];
    let mut error = error;
    loop {
        match error {
            Error::InFile { error: inner, .. } => {
                next.push(inner.as_ref());
                error = inner;
            }
            Error::File(file) => {
                next.push(file);
                break;
            }
            Error::Source(source) => {
                next.push(source);
                if let tensorfmt::SourceError::File(file) = source {
                    next.push(file);
                }
                if let tensorfmt::SourceError::Other(other) = source {
                    next.push(other.as_ref());
                }
                break;
            }
            _ => break,
        }
    }
    next.into_iter().flat_map(|start| {
        let mut at = Some(start);
        std::iter::from_fn(move || {
            let this = at?;
            at = this.source();
            Some(this)
        })
    })
}

/// The exception for a thread that ended in the middle of its work.
pub(crate) fn broken() -> PyErr {
    PyRuntimeError::new_err("the work ended in a defect of this package; please report it")
}
