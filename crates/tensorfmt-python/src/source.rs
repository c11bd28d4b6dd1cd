//! File objects of Python as sources of bytes.

use std::sync::{Mutex, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyEOFError;
use pyo3::prelude::*;
use tensor_core::{Source, SourceError};

/// A binary file object that can seek. Its position is shared, so that one thread at a time reads.
pub(crate) struct FileObject {
    file: Mutex<Py<PyAny>>,
    size: u64,
}

impl FileObject {
    /// Whether `object` is one, as far as its methods tell.
    pub(crate) fn is(object: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(object.hasattr("read")? && object.hasattr("seek")?)
    }

    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let size = object.call_method1("seek", (0, 2))?.extract()?;
        let file = Mutex::new(object.clone().unbind());
        Ok(Self { file, size })
    }
}

impl Source for FileObject {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        // First this lock, then the interpreter's: who waits for this one doesn't hold the other.
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        Python::attach(|py| fill(file.bind(py), offset, out))
            .map_err(|error| SourceError::Other(Box::new(error)))
    }
}

fn fill(file: &Bound<'_, PyAny>, offset: u64, mut out: &mut [u8]) -> PyResult<()> {
    file.call_method1("seek", (offset,))?;
    while !out.is_empty() {
        let wanted = out.len();
        let piece = file.call_method1("read", (wanted,))?;
        let bytes = PyBuffer::<u8>::get(&piece)?;
        let count = bytes.item_count();
        if count == 0 || count > wanted {
            let message = format!("the file object gave {count} bytes of {wanted}");
            return Err(PyEOFError::new_err(message));
        }
        let (filled, rest) = out.split_at_mut(count);
        bytes.copy_to_slice(file.py(), filled)?;
        out = rest;
    }
    Ok(())
}
