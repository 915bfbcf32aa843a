//! What is damaged in a log that nobody has open.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_io::store::Directory;
use shoal_log::{Damage, SegmentReport, verify};

use super::{OpenError, hex, opening};
use crate::bus::exit::detached;

/// Reads every frame of a log, and says what there is: a mapping. Nothing is changed.
#[pyfunction]
pub fn verify_log<'py>(py: Python<'py>, path: PathBuf, holder: &str) -> PyResult<Bound<'py, PyDict>> {
    let read = || {
        let disk = Arc::new(Directory::lock(&path, holder).map_err(OpenError::Lock)?);
        verify(&disk).map_err(OpenError::Log)
    };
    let found = detached(py, read).map_err(|error| opening(error, &path))?;
    let dict = PyDict::new(py);
    dict.set_item("store", format!("{:016x}", found.store))?;
    dict.set_item("incarnation", hex(&found.incarnation))?;
    let segments: PyResult<Vec<_>> = found.segments.iter().map(|one| segment(py, one)).collect();
    dict.set_item("segments", segments?)?;
    dict.set_item("missing", found.missing)?;
    let damages: PyResult<Vec<_>> = found.damages.iter().map(|one| damage(py, one)).collect();
    dict.set_item("damages", damages?)?;
    Ok(dict)
}

fn segment<'py>(py: Python<'py>, found: &SegmentReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("number", found.number)?;
    dict.set_item("bytes", found.bytes)?;
    dict.set_item("frames", found.frames)?;
    dict.set_item("messages", found.messages)?;
    dict.set_item("first", found.first)?;
    dict.set_item("end", found.end)?;
    dict.set_item("torn_bytes", found.torn)?;
    Ok(dict)
}

fn damage<'py>(py: Python<'py>, found: &Damage) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("file", &found.file)?;
    dict.set_item("from", found.from)?;
    dict.set_item("to", found.to)?;
    dict.set_item("first", found.first)?;
    dict.set_item("end", found.end)?;
    dict.set_item("why", &found.why)?;
    Ok(dict)
}
