//! One tensor of an open file, or rows of it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pyo3::exceptions::{PyBufferError, PyIndexError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PySlice, PyTuple};
use tensor_core::codec::fill;
use tensor_core::{AlignedBytes, Cast, Source, SourceError, Window};
use tensorfmt::convert::ModelTensor;
use tensorfmt::{DType, Entry, Error, Order, Shape};

use crate::archive::Archive;
use crate::memory::{self, Memory, Shared};
use crate::{dtype, errors, values};

/// As much is read at a time before signals are looked after.
const PIECE: usize = 64 << 20;

/// Dtype, dims, order and data.
pub(crate) type Parts = (Option<DType>, Shape, Order, Arc<dyn Source>);

/// A tensor of an open file: what the file says about it, and its data when that is asked for.
#[pyclass(frozen, module = "tensorfmt")]
pub(crate) struct Tensor {
    archive: Py<Archive>,
    model: ModelTensor,
    /// Rows of the whole, and whether their dim is dropped.
    rows: Option<(Range<u64>, bool)>,
    cast: Option<DType>,
    shape: Vec<u64>,
    offset: u64,
    stored: Option<u64>,
    nbytes: Option<u64>,
    encoding: String,
}

/// The tensor of a pickle.
#[pyfunction]
pub(crate) fn reopened(
    archive: &Bound<'_, Archive>,
    name: &str,
    rows: Option<(u64, u64, bool)>,
    cast: Option<&str>,
) -> PyResult<Tensor> {
    let mut tensor = Archive::tensor(archive, name)?;
    if let Some((start, end, dropped)) = rows {
        tensor = tensor.with_rows(archive.py(), start..end, dropped)?;
    }
    match cast {
        Some(name) => tensor.astype(archive.py(), name),
        None => Ok(tensor),
    }
}

impl Tensor {
    pub(crate) fn new(
        archive: &Bound<'_, Archive>,
        model: ModelTensor,
        entry: &Entry<'_>,
    ) -> PyResult<Self> {
        let shape = model.shape().dims().to_vec();
        // Of a dtype with elements it is what they take, also where the file stores them otherwise.
        let nbytes = model
            .dtype()
            .and_then(|dtype| model.shape().byte_len(dtype).ok()?);
        Ok(Self {
            archive: archive.clone().unbind(),
            shape,
            rows: None,
            cast: None,
            offset: entry.offset(),
            stored: entry.stored_len(),
            nbytes: nbytes.or_else(|| entry.nbytes()),
            encoding: entry.encoding().into_owned(),
            model,
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.model.name()
    }

    fn copy(&self, py: Python<'_>) -> Self {
        Self {
            archive: self.archive.clone_ref(py),
            model: self.model.clone(),
            rows: self.rows.clone(),
            cast: self.cast,
            shape: self.shape.clone(),
            offset: self.offset,
            stored: self.stored,
            nbytes: self.nbytes,
            encoding: self.encoding.clone(),
        }
    }

    /// The dtype of what is read.
    fn element(&self) -> Option<DType> {
        self.cast.or(self.model.dtype())
    }

    /// The same with a size of its elements, or why there is none.
    fn sized(&self, py: Python<'_>) -> PyResult<(DType, u64)> {
        let element = self.element();
        match (element, element.and_then(DType::size)) {
            (Some(dtype), Some(size)) => Ok((dtype, size)),
            _ => {
                let (name, dtype) = (self.name(), self.model.dtype_name());
                let message = format!(
                    "tensor {name:?}: {dtype} has no elements that an array could hold; tobytes() has the bytes"
                );
                Err(errors::unsupported(py, name, &message))
            }
        }
    }

    /// The order of what is read: rows of a column-major tensor are put together.
    fn read_order(&self) -> Order {
        match (&self.rows, self.model.shape().is_order_free()) {
            (None, false) => self.model.order(),
            _ => Order::RowMajor,
        }
    }

    /// Rows of this one.
    fn with_rows(&self, py: Python<'_>, rows: Range<u64>, dropped: bool) -> PyResult<Self> {
        let (dtype, _) = self.sized(py)?;
        let mut part = self.copy(py);
        let before = match &self.rows {
            Some((_, true)) | None if self.shape.is_empty() => {
                return Err(PyIndexError::new_err("a scalar has no rows"));
            }
            // Rows of one row: the second dim of the whole, which is no range of its rows.
            Some((_, true)) => {
                let message = "a row of a row; numpy() has an array to index further";
                return Err(PyTypeError::new_err(message));
            }
            Some((range, false)) => range.start,
            None => 0,
        };
        let count = rows.end - rows.start;
        part.rows = Some((before + rows.start..before + rows.end, dropped));
        match dropped {
            true => drop(part.shape.remove(0)),
            false => {
                if let Some(first) = part.shape.first_mut() {
                    *first = count;
                }
            }
        }
        let shape = Shape::new(&part.shape).ok();
        part.nbytes = shape.and_then(|shape| shape.byte_len(dtype).ok()?);
        Ok(part)
    }

    /// What the bytes are read from.
    fn source(&self, py: Python<'_>) -> PyResult<Arc<dyn Source>> {
        // Fails where the archive is closed.
        self.archive.get().get()?;
        self.made().map_err(|error| self.raise(py, &error))
    }

    fn made(&self) -> Result<Arc<dyn Source>, Error> {
        let mut source = match &self.rows {
            None => self.model.data()?,
            Some((range, _)) => {
                let size = self.model.dtype().and_then(DType::size).unwrap_or(1);
                let rest = self.model.shape().dims().iter().skip(1);
                // All of it is less than what the whole tensor has.
                let row = rest.fold(size, |bytes, &dim| bytes.saturating_mul(dim));
                let bytes = range.start.saturating_mul(row)..range.end.saturating_mul(row);
                Arc::new(Window::new(self.model.rows()?, bytes)?)
            }
        };
        if let (Some(from), Some(to)) = (self.model.dtype(), self.cast) {
            let cast = Cast::new(source, from, to);
            source = Arc::new(cast.map_err(|error| Error::Usage(error.to_string()))?);
        }
        Ok(source)
    }

    fn raise(&self, py: Python<'_>, error: &Error) -> PyErr {
        errors::raise_about(py, error, Some(self.name()))
    }

    /// Fills a buffer, with a look at signals now and then.
    fn read_into(&self, source: &dyn Source, out: &mut [u8]) -> PyResult<()> {
        let mut at = 0;
        for piece in out.chunks_mut(PIECE) {
            let len = piece.len() as u64;
            if let Err(error) = source.read_into(at, piece) {
                return Err(Python::attach(|py| self.raise(py, &error.into())));
            }
            at += len;
            if at >= PIECE as u64 {
                Python::attach(|py| py.check_signals())?;
            }
        }
        if self.element() == Some(DType::Bool) {
            truths(out);
        }
        Ok(())
    }

    /// The bytes, of the map itself where they are in one.
    fn bytes(&self, py: Python<'_>) -> PyResult<Bytes> {
        let source = self.source(py)?;
        if let Some(bytes) = in_place(source.as_ref(), self.element()) {
            return Ok(bytes);
        }
        Ok(self.own(py, source.as_ref())?.freeze())
    }

    /// The bytes in a buffer of their own.
    fn own(&self, py: Python<'_>, source: &dyn Source) -> PyResult<AlignedBytes> {
        py.detach(|| {
            let len = usize::try_from(source.size()).unwrap_or(usize::MAX);
            let raise = |error: SourceError| Python::attach(|py| self.raise(py, &error.into()));
            let mut buffer = AlignedBytes::new_pages(len).map_err(raise)?;
            if !source.is_random_access() {
                self.read_into(source, buffer.as_mut_slice())?;
                return Ok(buffer);
            }
            for start in (0..len).step_by(PIECE) {
                let end = len.min(start.saturating_add(PIECE));
                let read = |at: usize, piece: &mut [u8]| source.read_into(at as u64, piece);
                fill(&mut buffer, start..end, read).map_err(raise)?;
                if end < len {
                    Python::attach(|py| py.check_signals())?;
                }
            }
            if self.element() == Some(DType::Bool) {
                truths(buffer.as_mut_slice());
            }
            Ok(buffer)
        })
    }

    /// Name, dtype, dims, order and data, for a model.
    pub(crate) fn parts(&self, py: Python<'_>) -> PyResult<Parts> {
        let shape =
            Shape::new(&self.shape).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((self.element(), shape, self.read_order(), self.source(py)?))
    }

    /// The tensor as its file has it, if it is whole and uncast.
    pub(crate) fn whole(&self) -> PyResult<Option<ModelTensor>> {
        self.archive.get().get()?;
        let whole = self.rows.is_none() && self.cast.is_none();
        Ok(whole.then(|| self.model.clone()))
    }
}

/// The bytes of a source that has them all in memory. NumPy's bools are 0 and 1; where a file has others,
/// they can't be shared.
fn in_place(source: &dyn Source, element: Option<DType>) -> Option<Bytes> {
    let bytes = source.contiguous()?;
    let odd = element == Some(DType::Bool) && bytes.iter().any(|&byte| byte > 1);
    (!odd).then(|| bytes.clone())
}

/// Any value but 0 is true.
fn truths(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = u8::from(*byte != 0);
    }
}

#[pymethods]
impl Tensor {
    /// The name.
    #[getter(name)]
    fn name_of(&self) -> &str {
        self.name()
    }

    /// The dims, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The dtype as NumPy, ml_dtypes and torch spell it, such as `float32` and `bfloat16`; the file's own
    /// word where they have none.
    #[getter]
    fn dtype(&self) -> String {
        match self.element() {
            Some(dtype) if dtype != DType::Opaque => dtype::name(dtype).to_owned(),
            _ => self.model.dtype_name().to_owned(),
        }
    }

    /// How many dims there are.
    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// How many elements there are.
    #[getter]
    fn size(&self) -> u64 {
        self.shape
            .iter()
            .fold(1, |all, &dim| all.saturating_mul(dim))
    }

    /// Bytes of an element, `None` where the dtype has none.
    #[getter]
    fn itemsize(&self) -> Option<u64> {
        self.element().and_then(DType::size)
    }

    /// Bytes of the data, `None` where that is unknown.
    #[getter]
    fn nbytes(&self) -> Option<u64> {
        self.nbytes
    }

    /// `C` where the last dim varies fastest in the file, `F` where the first does.
    #[getter]
    fn order(&self) -> &'static str {
        match self.read_order() {
            Order::RowMajor => "C",
            Order::ColumnMajor => "F",
        }
    }

    /// Where in the file its bytes start.
    #[getter]
    fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that the whole tensor takes in the file, `None` where that is unknown.
    #[getter]
    fn stored_bytes(&self) -> Option<u64> {
        self.stored
    }

    /// How its bytes are stored: `raw`, or the format's own word.
    #[getter]
    fn encoding(&self) -> &str {
        &self.encoding
    }

    /// What only its format says about it.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in self.model.attributes() {
            dict.set_item(key, values::to_python(py, &value)?)?;
        }
        Ok(dict)
    }

    /// The values as an array. It is a read-only view where the file is mapped, or all of it in memory, and
    /// an array of its own else; `copy=True` asks for one of its own, `copy=False` for a view or an error.
    #[pyo3(signature = (*, copy=None))]
    fn numpy<'py>(&self, py: Python<'py>, copy: Option<bool>) -> PyResult<Bound<'py, PyAny>> {
        let (dtype, _) = self.sized(py)?;
        let numpy = py.import("tensorfmt._numpy")?;
        let source = self.source(py)?;
        let order = match self.read_order() {
            Order::RowMajor => "C",
            Order::ColumnMajor => "F",
        };
        let about = (PyTuple::new(py, &self.shape)?, dtype::name(dtype), order);
        if copy != Some(true) {
            if let Some(bytes) = in_place(source.as_ref(), Some(dtype)) {
                let memory = Bound::new(py, Memory::plain(bytes)?)?;
                return numpy.call_method1("view", (memory, about.0, about.1, about.2));
            }
        }
        if copy == Some(false) {
            let message =
                "the data has to be read or changed, which makes a copy; mmap=True maps the file";
            return Err(PyValueError::new_err(message));
        }
        let made: (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            numpy.call_method1("empty", about)?.extract()?;
        memory::fill(py, &made.1, |out| self.read_into(source.as_ref(), out))??;
        Ok(made.0)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.numpy(py, copy)?;
        match dtype {
            Some(dtype) if !array.getattr("dtype")?.eq(&dtype)? => match copy {
                Some(false) => Err(PyValueError::new_err("another dtype makes a copy")),
                _ => array.call_method1("astype", (dtype,)),
            },
            _ => Ok(array),
        }
    }

    /// The bytes as they are stored, decoded and little-endian, in the tensor's order.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let source = self.source(py)?;
        let len = usize::try_from(source.size()).unwrap_or(usize::MAX);
        if let Some(bytes) = source.contiguous() {
            return Ok(PyBytes::new(py, bytes));
        }
        let mut failed = None;
        let bytes = PyBytes::new_with(py, len, |out| {
            // As in read_into, but bools stay what they are.
            for (index, piece) in out.chunks_mut(PIECE).enumerate() {
                let at = index as u64 * PIECE as u64;
                if let Err(error) = py.detach(|| source.read_into(at, piece)) {
                    failed = Some(self.raise(py, &error.into()));
                    break;
                }
                py.check_signals()?;
            }
            Ok(())
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(bytes),
        }
    }

    /// The same tensor with its values cast when they are read: between floats, or from integers to floats.
    fn astype(&self, py: Python<'_>, dtype: &str) -> PyResult<Self> {
        let (from, _) = self.sized(py)?;
        let Some(to) = dtype::from_name(dtype) else {
            return Err(errors::usage(py, &format!("no dtype is called {dtype:?}")));
        };
        let mut cast = self.copy(py);
        if from == to {
            return Ok(cast);
        }
        if self.cast.is_some() {
            return Err(errors::usage(py, "it is cast already"));
        }
        if !to.is_float() {
            let message =
                format!("values are cast to floats, not to {dtype}; numpy() has an array to cast");
            return Err(errors::usage(py, &message));
        }
        cast.cast = Some(to);
        let made = cast.made();
        made.map_err(|error| cast.raise(py, &error))?;
        let shape = Shape::new(&cast.shape).ok();
        cast.nbytes = shape.and_then(|shape| shape.byte_len(to).ok()?);
        Ok(cast)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some() {
            return Err(PyBufferError::new_err("memory of the host has no streams"));
        }
        if dl_device.is_some_and(|(kind, _)| kind != 1) {
            return Err(PyBufferError::new_err(
                "the data can be had on the host alone",
            ));
        }
        let (dtype, _) = self.sized(py)?;
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        let source = self.source(py)?;
        let view = match copy {
            Some(true) => None,
            // An old capsule can't say that it is read-only.
            _ if !versioned => None,
            _ => in_place(source.as_ref(), Some(dtype)),
        };
        let shared = match view {
            Some(bytes) => Shared::Fixed(bytes),
            None if copy == Some(false) => {
                let message = "the data has to be read, which makes a copy";
                return Err(PyBufferError::new_err(message));
            }
            None => Shared::Own(self.own(py, source.as_ref())?),
        };
        memory::to_dlpack(
            py,
            shared,
            (dtype, &self.shape, self.read_order()),
            versioned,
        )
    }

    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        memory::device(py)
    }

    #[allow(unsafe_code, reason = "the signature of the protocol")]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let (dtype, _) = this.sized(py)?;
        let bytes = match flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            true => {
                return Err(PyBufferError::new_err(
                    "the bytes of a tensor are read-only",
                ));
            }
            false => this.bytes(py)?,
        };
        let memory = Memory::typed(bytes, dtype, &this.shape, this.read_order())?;
        // SAFETY: the caller of this method passes what it got from the interpreter.
        unsafe { memory::export(&Bound::new(py, memory)?, view, flags) }
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.shape.first() {
            Some(&first) => Ok(usize::try_from(first)?),
            None => Err(PyTypeError::new_err("a scalar has no len()")),
        }
    }

    /// Some rows, or one of them; nothing is read yet.
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Some(&first) = self.shape.first() else {
            return Err(PyIndexError::new_err("a scalar has no rows"));
        };
        let len = isize::try_from(first)?;
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(len)?;
            if range.step != 1 {
                let message =
                    "rows are read in a row, with a step of 1; numpy() has an array to index";
                return Err(PyIndexError::new_err(message));
            }
            let start = u64::try_from(range.start)?;
            let stop = u64::try_from(range.stop)?.max(start);
            return self.with_rows(py, start..stop, false);
        }
        if index.hasattr("__index__")? {
            let at: isize = index.call_method0("__index__")?.extract()?;
            let row = if at < 0 { at + len } else { at };
            return match u64::try_from(row) {
                Ok(row) if row < first => self.with_rows(py, row..row + 1, true),
                _ => Err(PyIndexError::new_err(format!("row {at} of {first} rows"))),
            };
        }
        let kind = index.get_type();
        let message = format!(
            "rows are picked by a number or a slice, not by {}; numpy() has an array to index",
            kind.name()?
        );
        Err(PyTypeError::new_err(message))
    }

    fn __repr__(&self) -> String {
        let dims: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        let rows = match &self.rows {
            Some((range, true)) => format!("[{}]", range.start),
            Some((range, false)) => format!("[{}:{}]", range.start, range.end),
            None => String::new(),
        };
        let (name, dtype, comma) = (
            self.name(),
            self.dtype(),
            if dims.len() == 1 { "," } else { "" },
        );
        format!(
            "<tensorfmt.Tensor {name:?}{rows} {dtype} ({}{comma})>",
            dims.join(", ")
        )
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
        let again = py.import("tensorfmt._tensorfmt")?.getattr("reopened")?;
        let rows = self.rows.as_ref();
        let rows = rows.map(|(range, dropped)| (range.start, range.end, *dropped));
        let cast = self.cast.map(dtype::name);
        let arguments = (self.archive.clone_ref(py), self.name(), rows, cast);
        Ok((again, arguments.into_pyobject(py)?))
    }
}
