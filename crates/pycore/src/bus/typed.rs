//! Values that keep their type: the classes of `shoal.types`, to and from the wire.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use shoal_wire::{Scalar, Typed};

/// What a class of `shoal.types` says it is, in the order of [`CLASSES`].
const MARK: &str = "__shoal_type__";
const CLASSES: [&str; 6] = ["Byte", "Short", "Int", "Long", "Char", "Float"];

/// The value, if its class says that it keeps its type. A `plain` str, int or float is not asked.
pub fn of(value: &Bound<'_, PyAny>, plain: bool) -> PyResult<Option<Scalar<'static>>> {
    if plain {
        return Ok(None);
    }
    let py = value.py();
    let Some(class) = value.get_type().getattr_opt(pyo3::intern!(py, MARK))? else { return Ok(None) };
    let class: String = class.extract()?;
    Ok(Some(match class.as_str() {
        "Byte" => Scalar::Typed(Typed::Byte(value.extract()?)),
        "Short" => Scalar::Typed(Typed::Short(value.extract()?)),
        "Int" => Scalar::Typed(Typed::Int(value.extract()?)),
        "Long" => Scalar::Typed(Typed::Long(value.extract()?)),
        "Char" => Scalar::Typed(Typed::Char(value.call_method0("unit")?.extract()?)),
        "Float" => Scalar::F32(value.extract()?),
        other => return Err(PyTypeError::new_err(format!("{MARK} is {other:?}, not one of {CLASSES:?}"))),
    }))
}

/// A value that keeps its type as Python has it.
pub fn to_python<'py>(py: Python<'py>, value: Scalar<'_>) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Scalar::Typed(Typed::Byte(number)) => class(py, 0)?.call1((number,)),
        Scalar::Typed(Typed::Short(number)) => class(py, 1)?.call1((number,)),
        Scalar::Typed(Typed::Int(number)) => class(py, 2)?.call1((number,)),
        Scalar::Typed(Typed::Long(number)) => class(py, 3)?.call1((number,)),
        Scalar::Typed(Typed::Char(unit)) => class(py, 4)?.call_method1("of_unit", (unit,)),
        Scalar::F32(number) => class(py, 5)?.call1((number,)),
        _ => Err(PyTypeError::new_err("not a value that keeps its type")),
    }
}

/// The name of a queue: a `str` that says so.
pub fn queue_name<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    types(py)?.getattr("QueueName")?.call1((name,))
}

/// Whether a name is that of a queue.
pub fn is_queue_name(name: &Bound<'_, PyString>) -> PyResult<bool> {
    if name.is_exact_instance_of::<PyString>() {
        return Ok(false);
    }
    let py = name.py();
    name.is_instance(&types(py)?.getattr("QueueName")?)
}

fn types(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("shoal.types")
}

fn class(py: Python<'_>, index: usize) -> PyResult<Bound<'_, PyAny>> {
    static FOUND: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();
    let found = FOUND.get_or_try_init(py, || {
        let module = types(py)?;
        CLASSES.iter().map(|name| module.getattr(*name).map(Bound::unbind)).collect::<PyResult<Vec<_>>>()
    })?;
    Ok(found[index].bind(py).clone())
}
