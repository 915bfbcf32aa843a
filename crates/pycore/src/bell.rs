//! What wakes an event loop, for Python.

use std::sync::Arc;

use pyo3::prelude::*;
use shoal_io::Descriptor;

/// A descriptor that can be read when one of its sources rang. May be shared between threads.
#[pyclass(module = "shoal._core", frozen)]
pub struct Bell(Arc<shoal_io::bell::Bell>);

impl Bell {
    pub fn inner(&self) -> &Arc<shoal_io::bell::Bell> {
        &self.0
    }
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Bell> {
        Ok(Bell(Arc::new(shoal_io::bell::Bell::new()?)))
    }

    /// The descriptor. It lives as long as the bell.
    fn fileno(&self) -> Descriptor {
        self.0.descriptor()
    }

    /// Rings it.
    fn ring(&self, source: u64) {
        self.0.ring(source);
    }

    /// The sources that rang since the last call.
    fn take(&self) -> Vec<u64> {
        self.0.take()
    }
}
