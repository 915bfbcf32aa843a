//! Memory shared with Python without copying: ours lent out by the buffer protocol, theirs read without the GIL.
//! The only `unsafe` of this crate.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use shoal_log::columns::Buffer;

/// Read-only memory; whoever looks at it keeps it alive.
#[pyclass(frozen, module = "shoal._core")]
pub struct ArrowBuffer(Buffer);

impl From<Buffer> for ArrowBuffer {
    fn from(buffer: Buffer) -> Self {
        Self(buffer)
    }
}

impl ArrowBuffer {
    fn pointer_and_bytes(&self) -> (*const c_void, usize) {
        match &self.0 {
            Buffer::Bytes(values) => (values.as_ptr().cast(), values.len()),
            Buffer::Int32(values) => (values.as_ptr().cast(), size_of_val(&values[..])),
            Buffer::Int64(values) => (values.as_ptr().cast(), size_of_val(&values[..])),
            Buffer::Float64(values) => (values.as_ptr().cast(), size_of_val(&values[..])),
        }
    }
}

#[pymethods]
impl ArrowBuffer {
    /// # Safety
    ///
    /// Called by the interpreter only, with a view that it owns.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let (pointer, bytes) = slf.get().pointer_and_bytes();
        let length = ffi::Py_ssize_t::try_from(bytes)?;
        // SAFETY: the memory belongs to a frozen object, never changes or moves, and the view keeps a reference to
        // that object; the view is read-only, and the call refuses flags that ask for more.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer.cast_mut(), length, 1, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }

    fn __len__(&self) -> usize {
        self.pointer_and_bytes().1
    }
}

/// Memory of a buffer of an Arrow array. Arrays never change, so it is read without the GIL and without a copy.
pub struct Foreign(PyUntypedBuffer);

impl Foreign {
    /// The memory of an object, which must be one piece, and which nobody may write to any more.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not in one piece"));
        }
        Ok(Self(buffer))
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        let bytes = self.0.len_bytes();
        if bytes == 0 {
            return &[];
        }
        // SAFETY: the view is contiguous, so `bytes` bytes lie there, and it is held as long as `self`; the only
        // callers hand over buffers of Arrow arrays, which are immutable.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), bytes) }
    }
}
