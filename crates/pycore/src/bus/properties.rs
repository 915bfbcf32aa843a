//! A message's properties from a Python mapping.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use shoal_selector::is_property_name;
use shoal_wire::PropertiesWriter;

use super::body::{PROPERTY, dict_of, encode_error, with_scalar};

/// Writes every entry of `mapping`.
pub fn write(properties: &Bound<'_, PyAny>, writer: &mut PropertiesWriter) -> PyResult<()> {
    let mapping = dict_of(properties)?
        .ok_or_else(|| PyTypeError::new_err(format!("properties must be a mapping, not {properties:?}")))?;
    writer.clear();
    for (name, value) in &mapping {
        let name = name
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err(format!("a property's name must be str, not {name:?}")))?;
        let name = name.to_str()?;
        if !is_property_name(name) {
            return Err(PyValueError::new_err(format!(
                "the property {name:?}: no selector could ask for it; a name has letters, digits, _ and $, does not \
                 start with a digit or with JMS, and is no word of selectors such as IN or NOT"
            )));
        }
        with_scalar(&value, PROPERTY, |scalar| writer.push(name, scalar).map_err(encode_error)).map_err(
            |error| {
                let py = mapping.py();
                let explained = format!("the property {name:?}: {}", error.value(py));
                let explained = match error.is_instance_of::<PyTypeError>(py) {
                    true => PyTypeError::new_err(explained),
                    false => PyValueError::new_err(explained),
                };
                explained.set_cause(py, Some(error));
                explained
            },
        )?;
    }
    Ok(())
}
