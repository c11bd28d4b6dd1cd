//! The verbs of the command line.

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::remote::Pairs;
use crate::work::{Watch, watched};

/// Runs a verb and returns its exit code, what it answers and what it says.
#[pyfunction]
#[pyo3(signature = (arguments, progress=None, settings=None))]
pub(crate) fn run<'py>(
    py: Python<'py>,
    arguments: Vec<OsString>,
    progress: Option<&Bound<'py, PyAny>>,
    settings: Option<Pairs>,
) -> PyResult<(u8, Bound<'py, PyBytes>, String)> {
    let watch = Arc::new(Watch::default());
    let told = Arc::clone(&watch);
    let tick: tensorfmt_cli::Progress = Arc::new(move |bytes, total| told.tick(bytes, total));
    let mut beside = tensorfmt_cli::Settings::default();
    beside.store = settings.unwrap_or_default();
    let work = || tensorfmt_cli::run_with(arguments, Some(tick), beside);
    let answer = watched(py, &watch, progress, work)?;
    let said = String::from_utf8_lossy(&answer.stderr).into_owned();
    Ok((answer.code, PyBytes::new(py, &answer.stdout), said))
}

/// Runs the program with these arguments and returns its exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| tensorfmt_cli::main(arguments))
}
