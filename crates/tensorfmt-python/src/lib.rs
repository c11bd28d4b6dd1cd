//! The Python package `tensorfmt`: what its Python files can't do by themselves.

#![deny(unsafe_code)]

mod archive;
mod dtype;
mod errors;
#[allow(
    unsafe_code,
    reason = "the buffer protocol and DLPack are pointers that two sides agree about"
)]
mod memory;
mod remote;
mod save;
mod source;
mod tensor;
mod values;
mod verbs;
mod work;

#[pyo3::pymodule(gil_used = false)]
mod _tensorfmt {
    #[pymodule_export]
    use crate::archive::{Archive, open};
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::remote::{is_address, settings};
    #[pymodule_export]
    use crate::save::save;
    #[pymodule_export]
    use crate::tensor::{Tensor, reopened};
    #[pymodule_export]
    use crate::verbs::{main, run};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "so Python names it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
