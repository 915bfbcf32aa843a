//! A message's properties from a Python mapping.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use shoal_wire::PropertiesWriter;

use super::body::{encode_error, with_scalar};

/// Writes every entry of `mapping`.
pub fn write(mapping: &Bound<'_, PyDict>, writer: &mut PropertiesWriter) -> PyResult<()> {
    writer.clear();
    for (name, value) in mapping {
        let name = name
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err(format!("a property's name must be str, not {name:?}")))?;
        let name = name.to_str()?;
        with_scalar(&value, |scalar| writer.push(name, scalar).map_err(encode_error)).map_err(|error| {
            let py = mapping.py();
            let explained = PyTypeError::new_err(format!("the property {name:?}: {}", error.value(py)));
            explained.set_cause(py, Some(error));
            explained
        })?;
    }
    Ok(())
}
