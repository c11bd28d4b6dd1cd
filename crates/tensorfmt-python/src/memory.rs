//! Memory that Python and this library share: the only file with `unsafe` code.
//!
//! Three things need it: mapping a file, where the caller says that nobody changes it; the buffer protocol;
//! and DLPack. Each hands out or takes over plain pointers whose rules no type can tell.

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::ptr;

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use pyo3::{IntoPyObjectExt, ffi};
use tensor_core::AlignedBytes;
use tensorfmt::{DType, FileError, MappedFile, Order, Shape, Tensor};

use crate::dtype;

/// Maps a file on the word of the caller.
pub(crate) fn map(path: &Path) -> Result<MappedFile, FileError> {
    // SAFETY: `mmap=True` is documented as the caller's promise that nobody truncates or changes the file
    // while the archive or an array of it lives.
    unsafe { MappedFile::open(path) }
}

/// A writable buffer of bytes in a row, filled by `work` without the interpreter's lock.
pub(crate) fn fill<T: Send>(
    py: Python<'_>,
    target: &Bound<'_, PyAny>,
    work: impl FnOnce(&mut [u8]) -> T + Send,
) -> PyResult<T> {
    let buffer = PyBuffer::<u8>::get(target)?;
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err(
            "a writable buffer in a row is needed",
        ));
    }
    let Some(start) = ptr::NonNull::new(buffer.buf_ptr().cast::<u8>()) else {
        return py.detach(|| Ok(work(&mut [])));
    };
    // SAFETY: the buffer is held until this function ends, is writable and has that many bytes in a row.
    // It is of an array that was made for this and that no other code has yet, so nobody else looks at it.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), buffer.len_bytes()) };
    Ok(py.detach(|| work(bytes)))
}

/// The bytes of an object with the buffer protocol, one after the other. They are shared where nobody may
/// change them, or where `borrow` says that nobody will as long as they are needed; else they are copied.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>, borrow: bool) -> PyResult<Bytes> {
    let py = object.py();
    let is_bytes = object.is_exact_instance_of::<pyo3::types::PyBytes>();
    let buffer = PyBuffer::<u8>::get(object)?;
    if !buffer.is_c_contiguous() || !(is_bytes || borrow) {
        return Ok(Bytes::from(buffer.to_vec(py)?));
    }
    Ok(Bytes::from_owner(Borrowed(buffer)))
}

/// A buffer that is held as long as its bytes are in use.
struct Borrowed(PyBuffer<u8>);

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        match ptr::NonNull::new(self.0.buf_ptr().cast::<u8>()) {
            // SAFETY: the buffer is contiguous, as was checked, has that many bytes and is held by `self`.
            // It is of an immutable `bytes`, or of an argument that the documentation asks not to change
            // during the call.
            Some(start) => unsafe {
                std::slice::from_raw_parts(start.as_ptr(), self.0.len_bytes())
            },
            None => &[],
        }
    }
}

/// Read-only bytes of a tensor for the buffer protocol. They live as long as this, or a view of it.
#[pyclass(frozen, module = "tensorfmt._tensorfmt")]
pub(crate) struct Memory {
    bytes: Bytes,
    len: isize,
    format: &'static CStr,
    item: isize,
    shape: Box<[isize]>,
    strides: Box<[isize]>,
    /// Whether the bytes are in a row with the last dim fastest, and with the first.
    rows: bool,
    columns: bool,
}

impl Memory {
    /// The bytes as they are, without shape.
    pub(crate) fn plain(bytes: Bytes) -> PyResult<Self> {
        let len = [bytes.len() as u64];
        Self::of(bytes, c"B", 1, &len, false)
    }

    /// The bytes as dense elements of a dtype.
    pub(crate) fn typed(bytes: Bytes, dtype: DType, dims: &[u64], order: Order) -> PyResult<Self> {
        let (Some(format), Some(size)) = (dtype::format(dtype), dtype.size()) else {
            let name = dtype::name(dtype);
            return Err(PyBufferError::new_err(format!(
                "the buffer protocol has no {name}; numpy(), tobytes() or DLPack do"
            )));
        };
        Self::of(bytes, format, size, dims, order == Order::ColumnMajor)
    }

    fn of(
        bytes: Bytes,
        format: &'static CStr,
        item: u64,
        dims: &[u64],
        columns: bool,
    ) -> PyResult<Self> {
        let size = |size: &u64| isize::try_from(*size);
        let shape: Result<Box<[isize]>, _> = dims.iter().map(size).collect();
        let strides = dtype::strides(dims, item, columns);
        let strides: Result<Box<[isize]>, _> = strides.iter().map(size).collect();
        let elements = dims.iter().try_fold(item, |all, &dim| all.checked_mul(dim));
        let free = dims.iter().filter(|&&dim| dim > 1).count() < 2;
        match (shape, strides, elements) {
            (Ok(shape), Ok(strides), Some(len)) if len == bytes.len() as u64 => Ok(Self {
                len: isize::try_from(len)?,
                bytes,
                format,
                item: isize::try_from(item)?,
                shape,
                strides,
                rows: free || !columns,
                columns: free || columns,
            }),
            _ => Err(PyBufferError::new_err("bytes and shape don't fit")),
        }
    }
}

#[pymethods]
impl Memory {
    #[allow(unsafe_code, reason = "the signature of the protocol")]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the caller of this method passes what it got from the interpreter.
        unsafe { export(&slf, view, flags) }
    }
}

/// Fills a view of `memory`.
///
/// # Safety
/// `view` is null, or points to a view that may be written, as the protocol demands of its callers.
pub(crate) unsafe fn export(
    memory: &Bound<'_, Memory>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view to fill"));
    }
    let this = memory.get();
    let asks = |flag: c_int| flags & flag == flag;
    let refused = if asks(ffi::PyBUF_WRITABLE) {
        Some("the bytes of a tensor are read-only")
    } else if asks(ffi::PyBUF_C_CONTIGUOUS) && !this.rows {
        Some("the tensor is column-major")
    } else if asks(ffi::PyBUF_F_CONTIGUOUS) && !this.columns {
        Some("the tensor is row-major")
    } else if !asks(ffi::PyBUF_STRIDES) && !this.rows {
        Some("the tensor is column-major, which takes strides to say")
    } else {
        None
    };
    let fields = |view: &mut ffi::Py_buffer, obj| {
        view.obj = obj;
        view.buf = this.bytes.as_ptr().cast::<c_void>().cast_mut();
        view.len = this.len;
        view.readonly = 1;
        view.itemsize = this.item;
        view.format = ptr::null_mut();
        view.ndim = 1;
        view.shape = ptr::null_mut();
        view.strides = ptr::null_mut();
        view.suboffsets = ptr::null_mut();
        view.internal = ptr::null_mut();
        if asks(ffi::PyBUF_FORMAT) {
            view.format = this.format.as_ptr().cast_mut();
        }
        if asks(ffi::PyBUF_ND) {
            view.ndim = c_int::try_from(this.shape.len()).unwrap_or(c_int::MAX);
            view.shape = this.shape.as_ptr().cast_mut();
        }
        if asks(ffi::PyBUF_STRIDES) {
            view.strides = this.strides.as_ptr().cast_mut();
        }
    };
    // SAFETY: the view isn't null and may be written. All that it points to is in `memory`, which doesn't
    // change, and which the reference in `obj` keeps until the view is released; consumers may not write
    // through a view that says `readonly`, nor to shape and strides.
    unsafe {
        (*view).obj = ptr::null_mut();
        if let Some(refused) = refused {
            return Err(PyBufferError::new_err(refused));
        }
        fields(&mut *view, memory.clone().into_any().into_ptr());
    }
    Ok(())
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// What capsules named `dltensor` hold.
#[repr(C)]
struct Legacy {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// What capsules named `dltensor_versioned` hold.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: DlTensor,
}

const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const CPU: i32 = 1;
/// Memory of the host that is pinned for a device; the processor reads it as any other.
const PINNED: i32 = 3;

/// What a tensor that is handed out consists of.
pub(crate) enum Shared {
    /// Bytes that nobody may write to.
    Fixed(Bytes),
    /// Bytes of the consumer's own.
    Own(AlignedBytes),
}

/// All that a handed out tensor points to.
struct Kept {
    shared: Shared,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// A tensor as a DLPack capsule; the old kind can't say that it is read-only, so that it has bytes of its
/// own.
pub(crate) fn to_dlpack<'py>(
    py: Python<'py>,
    shared: Shared,
    (element, dims, order): (DType, &[u64], Order),
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((code, bits)) = dtype::dlpack(element) else {
        let name = dtype::name(element);
        return Err(PyBufferError::new_err(format!("DLPack has no {name}")));
    };
    let shape: Result<Vec<i64>, _> = dims.iter().map(|&dim| i64::try_from(dim)).collect();
    let columns = order == Order::ColumnMajor;
    let strides = dtype::strides(dims, 1, columns).into_iter();
    let strides: Result<Vec<i64>, _> = strides.map(i64::try_from).collect();
    let mut kept = Box::new(Kept {
        shared,
        shape: shape?,
        strides: strides?,
    });
    let flags = match kept.shared {
        Shared::Fixed(_) => READ_ONLY,
        Shared::Own(_) => IS_COPIED,
    };
    let data = match &mut kept.shared {
        Shared::Fixed(bytes) => bytes.as_ptr().cast_mut(),
        Shared::Own(bytes) => bytes.as_mut_slice().as_mut_ptr(),
    };
    let tensor = DlTensor {
        // Consumers take null for what has no elements.
        data: match dims.contains(&0) {
            true => ptr::null_mut(),
            false => data.cast(),
        },
        device: DlDevice { kind: CPU, id: 0 },
        ndim: i32::try_from(kept.shape.len())?,
        dtype: DlDType {
            code,
            bits,
            lanes: 1,
        },
        shape: kept.shape.as_mut_ptr(),
        strides: kept.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(kept).cast::<c_void>();
    if versioned {
        let managed = Box::into_raw(Box::new(Versioned {
            major: 1,
            minor: 0,
            context,
            deleter: Some(delete_versioned),
            flags,
            tensor,
        }));
        // SAFETY: the pointer is that of a box whose deleter frees it once: by the consumer, who renames
        // the capsule, or else by the capsule.
        unsafe { capsule(py, managed.cast(), VERSIONED, drop_versioned) }
    } else {
        let managed = Box::into_raw(Box::new(Legacy {
            tensor,
            context,
            deleter: Some(delete_legacy),
        }));
        // SAFETY: as above.
        unsafe { capsule(py, managed.cast(), LEGACY, drop_legacy) }
    }
}

/// # Safety
/// `pointer` is what the destructor of this name frees.
unsafe fn capsule<'py>(
    py: Python<'py>,
    pointer: *mut c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the name is static, the pointer isn't null, and the interpreter's lock is held.
    unsafe {
        let made = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor));
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// # Safety
/// `managed` is null or from [`to_dlpack`], and not used again.
unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    if !managed.is_null() {
        // SAFETY: both are boxes that to_dlpack gave away, and this is called once.
        unsafe {
            let managed = Box::from_raw(managed);
            drop(Box::from_raw(managed.context.cast::<Kept>()));
        }
    }
}

/// # Safety
/// As [`delete_versioned`].
unsafe extern "C" fn delete_legacy(managed: *mut Legacy) {
    if !managed.is_null() {
        // SAFETY: both are boxes that to_dlpack gave away, and this is called once.
        unsafe {
            let managed = Box::from_raw(managed);
            drop(Box::from_raw(managed.context.cast::<Kept>()));
        }
    }
}

/// # Safety
/// Called by the interpreter with a capsule that ends.
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that still has this name was not consumed, so that its pointer is ours to free.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// # Safety
/// Called by the interpreter with a capsule that ends.
unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: as in drop_versioned.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}

/// A consumed capsule, with the bytes that its elements lie in.
struct Consumed {
    /// What frees the bytes when this ends.
    _managed: Managed,
    data: *const u8,
    len: usize,
}

enum Managed {
    Legacy(*mut Legacy),
    Versioned(*mut Versioned),
}

// SAFETY: the bytes are only read, and the deleter runs under the interpreter's lock, whatever the thread.
unsafe impl Send for Consumed {}

impl AsRef<[u8]> for Consumed {
    fn as_ref(&self) -> &[u8] {
        match self.len {
            0 => &[],
            // SAFETY: the producer keeps its elements, which lie in these bytes, until the deleter runs.
            len => unsafe { std::slice::from_raw_parts(self.data, len) },
        }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // Deleters of Python libraries release objects. Where no interpreter is left, so is no object.
        let delete = |_: Python<'_>| {
            // SAFETY: the pointers are those of a capsule that was renamed, so that this is the one call.
            unsafe {
                match *self {
                    Self::Legacy(managed) => {
                        if let Some(deleter) = (*managed).deleter {
                            deleter(managed);
                        }
                    }
                    Self::Versioned(managed) => {
                        if let Some(deleter) = (*managed).deleter {
                            deleter(managed);
                        }
                    }
                }
            }
        };
        let _ = Python::try_attach(delete);
    }
}

/// The tensor of an object that offers DLPack. Its elements are shared where they are dense, else copied.
pub(crate) fn from_dlpack(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let device: (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    if !matches!(device.0, CPU | PINNED) {
        let message = format!(
            "a {} on another device (DLPack device {}); copy it to the host first, as .cpu() does in torch",
            object.get_type().name()?,
            device.0
        );
        return Err(PyBufferError::new_err(message));
    }
    let capsule = offered(object)?;
    let managed = consume(&capsule)?;
    // SAFETY: the capsule's pointer is valid until its deleter runs, which is when `managed` ends.
    let tensor = unsafe {
        match &managed {
            Managed::Legacy(managed) => ptr::addr_of!((**managed).tensor),
            Managed::Versioned(managed) => ptr::addr_of!((**managed).tensor),
        }
    };
    // SAFETY: as above; shape and strides have as many numbers as there are dims, and where there are no
    // strides the tensor is row-major.
    let (tensor, dims, strides) = unsafe {
        let tensor = &*tensor;
        let ndim = usize::try_from(tensor.ndim)?;
        let numbers = |start: *mut i64| match (ndim, start.is_null()) {
            (0, _) | (_, true) => Vec::new(),
            (len, false) => std::slice::from_raw_parts(start, len).to_vec(),
        };
        (tensor, numbers(tensor.shape), numbers(tensor.strides))
    };
    let DlDType { code, bits, lanes } = tensor.dtype;
    let element = dtype::from_dlpack(code, bits).filter(|_| lanes == 1);
    let element = element.ok_or_else(|| {
        PyTypeError::new_err(format!("no dtype for DLPack's code {code} of {bits} bits"))
    })?;
    let dims: Result<Vec<u64>, _> = dims.into_iter().map(u64::try_from).collect();
    let dims = dims?;
    let size = i64::try_from(element.size().unwrap_or(1))?;
    let view = Strided::new(&dims, strides, size)
        .ok_or_else(|| PyValueError::new_err("dims and strides don't fit 64 bits"))?;
    let start = tensor.data.cast::<u8>().cast_const();
    let data = match view.len {
        0 => ptr::null(),
        // SAFETY: the first element is `byte_offset` after the data, and the lowest one that strides reach
        // before it is the producer's as well.
        _ => unsafe {
            start
                .offset(isize::try_from(tensor.byte_offset)?)
                .offset(isize::try_from(view.lowest)?)
        },
    };
    let bytes = Bytes::from_owner(Consumed {
        _managed: managed,
        data,
        len: view.len,
    });
    view.tensor(element, &dims, bytes, size)
}

/// The capsule of an object, of the versioned kind where it has one.
fn offered<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let wanted = PyDict::new(py);
    wanted.set_item("max_version", (1, 0))?;
    match object.call_method("__dlpack__", (), Some(&wanted)) {
        // Older libraries don't know the argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => object.call_method0("__dlpack__"),
        answer => answer,
    }
}

/// Takes over what a capsule holds.
fn consume(capsule: &Bound<'_, PyAny>) -> PyResult<Managed> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.as_ptr();
    let py = capsule.py();
    // SAFETY: it is a capsule, and the pointer is asked for by the name that was checked. Renamed it is
    // ours, and its own destructor leaves it alone. A major version beyond 1 may be laid out otherwise.
    unsafe {
        let has = |name: &CStr| ffi::PyCapsule_IsValid(pointer, name.as_ptr()) == 1;
        let (managed, used) = if has(VERSIONED) {
            let managed =
                ffi::PyCapsule_GetPointer(pointer, VERSIONED.as_ptr()).cast::<Versioned>();
            if (*managed).major != 1 {
                let message = format!("DLPack {} is not known", (*managed).major);
                return Err(PyBufferError::new_err(message));
            }
            (Managed::Versioned(managed), c"used_dltensor_versioned")
        } else if has(LEGACY) {
            let managed = ffi::PyCapsule_GetPointer(pointer, LEGACY.as_ptr()).cast();
            (Managed::Legacy(managed), c"used_dltensor")
        } else {
            return Err(PyBufferError::new_err(
                "no DLPack capsule, or one that is used",
            ));
        };
        if ffi::PyCapsule_SetName(pointer, used.as_ptr()) != 0 {
            // It stays the capsule's.
            std::mem::forget(managed);
            return Err(PyErr::fetch(py));
        }
        Ok(managed)
    }
}

/// Where the elements of a view lie.
struct Strided {
    strides: Vec<i64>,
    /// Bytes from the first element to the lowest one.
    lowest: i64,
    /// Bytes from the lowest element to the end of the highest.
    len: usize,
}

impl Strided {
    fn new(dims: &[u64], strides: Vec<i64>, size: i64) -> Option<Self> {
        let strides = match strides.len() == dims.len() {
            true => strides,
            false => dtype::strides(dims, 1, false)
                .into_iter()
                .map(i64::try_from)
                .collect::<Result<_, _>>()
                .ok()?,
        };
        let (mut lowest, mut highest) = (0i64, 0i64);
        if dims.contains(&0) {
            return Some(Self {
                strides,
                lowest: 0,
                len: 0,
            });
        }
        for (&dim, &stride) in dims.iter().zip(&strides) {
            let steps = i64::try_from(dim - 1).ok()?;
            let reach = stride.checked_mul(steps)?;
            match reach < 0 {
                true => lowest = lowest.checked_add(reach)?,
                false => highest = highest.checked_add(reach)?,
            }
        }
        let elements = highest.checked_sub(lowest)?.checked_add(1)?;
        Some(Self {
            strides,
            lowest: lowest.checked_mul(size)?,
            len: usize::try_from(elements.checked_mul(size)?).ok()?,
        })
    }

    fn tensor(self, element: DType, dims: &[u64], bytes: Bytes, size: i64) -> PyResult<Tensor> {
        let wrong = |error: String| PyValueError::new_err(error);
        let shape = Shape::new(dims).map_err(|error| wrong(error.to_string()))?;
        let dense = |columns: bool| {
            let dense = dtype::strides(dims, 1, columns);
            let mut all = dims.iter().zip(&self.strides).zip(dense);
            all.all(|((&dim, &stride), dense)| dim < 2 || u64::try_from(stride) == Ok(dense))
        };
        let order = match (dense(false), dense(true)) {
            _ if self.len == 0 => Some(Order::RowMajor),
            (true, _) => Some(Order::RowMajor),
            (_, true) => Some(Order::ColumnMajor),
            _ => None,
        };
        if let Some(order) = order {
            let tensor = Tensor::new(element, shape, bytes);
            let tensor = tensor.map_err(|error| wrong(error.to_string()))?;
            return Ok(tensor.with_order(order));
        }
        let first = u64::try_from(-self.lowest / size.max(1))?;
        Tensor::from_strided(element, dims, &self.strides, first, bytes)
            .map_err(|error| wrong(error.to_string()))
    }
}

/// The device of all that is handed out.
pub(crate) fn device(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    (CPU, 0).into_bound_py_any(py)
}
