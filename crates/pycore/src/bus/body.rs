//! Bodies: Python values to and from their wire form.
//!
//! Bytes, text, numbers, lists and mappings are done here; arrays and Arrow data by the Python module
//! `shoal.bus.bodies`, which knows those libraries and is asked only for what is not known here.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use shoal_wire::{BodyKind, DecodeError, EncodeError, Scalar, ValueBuilder, ValueWriter, read_value};

use super::typed;
use crate::errors;

const BODIES: &str = "shoal.bus.bodies";

/// A body on its way out.
pub struct Encoded<'a> {
    pub kind: BodyKind,
    pub bytes: Bytes<'a>,
    pub detail: Vec<u8>,
}

/// Bytes that lie in a Python object, or that were made for the purpose.
pub enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl Bytes<'_> {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

pub fn encode_error(error: EncodeError) -> PyErr {
    match error {
        EncodeError::NoMemory { .. } => PyMemoryError::new_err(error.to_string()),
        error => PyValueError::new_err(error.to_string()),
    }
}

/// For so many bytes there may be no memory though the program goes on.
const LARGE_BYTES: usize = 64 << 10;

/// Bytes of which somebody else chose the number, as Python has them.
pub fn to_python<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    if bytes.len() < LARGE_BYTES {
        return Ok(PyBytes::new(py, bytes));
    }
    PyBytes::new_with(py, bytes.len(), |copy| {
        copy.copy_from_slice(bytes);
        Ok(())
    })
}

/// The wire form of a body.
pub fn encode<'a>(body: &'a Bound<'_, PyAny>) -> PyResult<Encoded<'a>> {
    let borrowed = |kind, bytes| Encoded { kind, bytes: Bytes::Borrowed(bytes), detail: Vec::new() };
    if let Ok(bytes) = body.cast::<PyBytes>() {
        return Ok(borrowed(BodyKind::Bytes, bytes.as_bytes()));
    }
    if let Ok(text) = body.cast::<PyString>() {
        return Ok(borrowed(BodyKind::Text, text.to_str()?.as_bytes()));
    }
    if body.is_none() {
        return Ok(borrowed(BodyKind::Empty, &[]));
    }
    let kind = if body.is_instance_of::<PyDict>() {
        BodyKind::Map
    } else if body.is_instance_of::<PyList>() || body.is_instance_of::<PyTuple>() {
        BodyKind::List
    } else if body.is_instance_of::<PyInt>() || body.is_instance_of::<PyFloat>() || is_array_scalar(body)? {
        BodyKind::Value
    } else if dict_of(body)?.is_some() {
        BodyKind::Map
    } else {
        return encode_other(body);
    };
    let mut bytes = Vec::new();
    match write_value(body, &mut ValueWriter::new(&mut bytes)) {
        Ok(()) => Ok(Encoded { kind, bytes: Bytes::Owned(bytes), detail: Vec::new() }),
        // Something in it may have a codec.
        Err(error) if error.is_instance_of::<PyTypeError>(body.py()) => encode_nested(body, error),
        Err(error) => Err(error),
    }
}

/// A list or mapping with something in it that is not known here.
fn encode_nested<'a>(body: &Bound<'_, PyAny>, error: PyErr) -> PyResult<Encoded<'a>> {
    let known = body.py().import(BODIES)?.call_method1("encode_nested", (body,))?;
    if known.is_none() { Err(error) } else { encode_object(&known, Vec::new()) }
}

/// An object as the value it was made into.
fn encode_object<'a>(value: &Bound<'_, PyAny>, detail: Vec<u8>) -> PyResult<Encoded<'a>> {
    let mut bytes = Vec::new();
    write_value(value, &mut ValueWriter::new(&mut bytes))?;
    Ok(Encoded { kind: BodyKind::Object, bytes: Bytes::Owned(bytes), detail })
}

/// A body as it stands on the wire, sent unchecked: tests of readers send with it what no encoder makes.
#[pyclass(module = "shoal.testing", frozen)]
pub struct RawBody {
    kind: BodyKind,
    detail: Vec<u8>,
    content: Vec<u8>,
}

#[pymethods]
impl RawBody {
    #[new]
    #[pyo3(signature = (kind, content, detail = Vec::new()))]
    fn new(kind: u8, content: Vec<u8>, detail: Vec<u8>) -> PyResult<RawBody> {
        let kind = BodyKind::try_from(kind).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(RawBody { kind, detail, content })
    }
}

/// Bytes-like objects, and whatever the Python module knows.
fn encode_other<'a>(body: &Bound<'_, PyAny>) -> PyResult<Encoded<'a>> {
    let py = body.py();
    if let Ok(raw) = body.cast::<RawBody>() {
        let raw = raw.get();
        let (bytes, detail) = (Bytes::Owned(raw.content.clone()), raw.detail.clone());
        return Ok(Encoded { kind: raw.kind, bytes, detail });
    }
    let known = py.import(BODIES)?.call_method1("encode", (body,))?;
    if !known.is_none() {
        let (kind, detail, content): (u8, Vec<u8>, Bound<'_, PyAny>) = known.extract()?;
        let kind = match kind {
            6 => BodyKind::Arrow,
            7 => BodyKind::Array,
            8 => return encode_object(&content, detail),
            _ => return Err(PyValueError::new_err(format!("{BODIES}.encode gave the unknown kind {kind}"))),
        };
        return Ok(Encoded { kind, bytes: Bytes::Owned(buffer(&content)?), detail });
    }
    match buffer(body) {
        Ok(bytes) => Ok(Encoded { kind: BodyKind::Bytes, bytes: Bytes::Owned(bytes), detail: Vec::new() }),
        Err(error) if error.is_instance_of::<PyMemoryError>(py) => Err(error),
        Err(_) => Err(PyTypeError::new_err(format!(
            "a body cannot be of type {}: it can be bytes, str, a number, bool, None, a list, a mapping, \
             a numpy array, Arrow data, or of a type that shoal.codecs knows",
            body.get_type().name()?
        ))),
    }
}

/// A mapping as a `dict`; `None` if it is no mapping.
pub fn dict_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Some(dict.clone()));
    }
    if value.cast::<PyMapping>().is_err() {
        return Ok(None);
    }
    let dict = value.py().get_type::<PyDict>().call1((value,))?;
    Ok(Some(dict.cast_into::<PyDict>()?))
}

/// Whether it is a single value of numpy's, which stands for a plain one. A time is not: as a number it would lose its
/// unit.
fn is_array_scalar(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kind = value.get_type();
    Ok(kind.module()? == "numpy"
        && !["datetime64", "timedelta64"].iter().any(|name| kind.name().is_ok_and(|kind| kind == *name))
        && value.hasattr("item")?
        && !value.hasattr("__array_finalize__")?)
}

fn buffer(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let (py, buffer) = (object.py(), PyBuffer::<u8>::get(object)?);
    let (bytes, mut copy) = (buffer.item_count(), Vec::new());
    copy.try_reserve_exact(bytes).map_err(|_| encode_error(EncodeError::NoMemory { bytes }))?;
    copy.resize(bytes, 0);
    buffer.copy_to_slice(py, &mut copy)?;
    Ok(copy)
}

fn write_value(value: &Bound<'_, PyAny>, writer: &mut ValueWriter<'_>) -> PyResult<()> {
    if let Ok(mapping) = value.cast::<PyDict>() {
        return write_map(mapping, writer);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        writer.begin_list(value.len()?).map_err(encode_error)?;
        for item in value.try_iter()? {
            write_value(&item?, writer)?;
        }
        writer.end();
        return Ok(());
    }
    let plain = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyBytes>();
    // The slow question last: it asks the type's abstract base classes.
    if !plain && let Some(mapping) = dict_of(value)? {
        return write_map(&mapping, writer);
    }
    with_scalar(value, PART, |scalar| writer.scalar(scalar).map_err(encode_error))
}

fn write_map(mapping: &Bound<'_, PyDict>, writer: &mut ValueWriter<'_>) -> PyResult<()> {
    writer.begin_map(mapping.len()).map_err(encode_error)?;
    for (key, value) in mapping {
        with_scalar(&key, KEY, |key| writer.scalar(key).map_err(encode_error))?;
        write_value(&value, writer)?;
    }
    writer.end();
    Ok(())
}

/// Where a single value stands, and what may stand there, as an error says it.
pub const PROPERTY: &str = "a property: use str, bytes, bool, int, float or None";
const KEY: &str = "a key in a body: use str, bytes, bool, int, float or None";
const PART: &str = "part of a body: use str, bytes, bool, int, float, None, lists and mappings";

/// Calls `take` with a single Python value. `place` says in an error where it stands.
pub fn with_scalar<R>(
    value: &Bound<'_, PyAny>,
    place: &str,
    take: impl FnOnce(Scalar<'_>) -> PyResult<R>,
) -> PyResult<R> {
    if let Ok(text) = value.cast::<PyString>() {
        return match typed::of(value, text.is_exact_instance_of::<PyString>())? {
            Some(typed) => take(typed),
            None => take(Scalar::Str(text.to_str()?)),
        };
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return take(Scalar::Bool(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        if let Some(typed) = typed::of(value, value.is_exact_instance_of::<PyInt>())? {
            return take(typed);
        }
        return match value.extract::<i64>() {
            Ok(number) => take(Scalar::Int(number)),
            Err(_) => match value.extract::<u64>() {
                Ok(number) => take(Scalar::UInt(number)),
                Err(_) => Err(PyValueError::new_err(format!("{value} does not fit into 64 bits"))),
            },
        };
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return match typed::of(value, number.is_exact_instance_of::<PyFloat>())? {
            Some(typed) => take(typed),
            None => take(Scalar::F64(number.value())),
        };
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return take(Scalar::Bytes(bytes.as_bytes()));
    }
    if value.is_none() {
        return take(Scalar::Null);
    }
    if is_array_scalar(value)? {
        let plain = value.call_method0("item")?;
        if !is_array_scalar(&plain)? {
            return with_scalar(&plain, place, take);
        }
    }
    Err(PyTypeError::new_err(format!("a {} cannot be {place}", value.get_type().name()?)))
}

/// The Python value of a body. Of a body that cannot be read it raises `MessageFormatError` and nothing else: readers
/// catch that, whatever a library or a codec says about the bytes.
pub fn decode<'py>(
    py: Python<'py>,
    kind: BodyKind,
    detail: &[u8],
    body: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyAny>> {
    decode_as(py, kind, detail, body).map_err(|error| errors::unreadable_body(py, error))
}

fn decode_as<'py>(
    py: Python<'py>,
    kind: BodyKind,
    detail: &[u8],
    body: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = body.as_bytes();
    match kind {
        BodyKind::Empty => Ok(py.None().into_bound(py)),
        BodyKind::Bytes => Ok(body.clone().into_any()),
        BodyKind::Text => {
            let text =
                std::str::from_utf8(bytes).map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(PyString::from_bytes(py, text.as_bytes())?.into_any())
        }
        BodyKind::Map | BodyKind::List | BodyKind::Value => {
            read_value(bytes, &mut PythonBuilder { py }).map_err(|error| error.0)
        }
        BodyKind::Object => {
            let value = read_value(bytes, &mut PythonBuilder { py }).map_err(|error| error.0)?;
            py.import(BODIES)?.call_method1("decode_object", (PyBytes::new(py, detail), value))
        }
        BodyKind::Arrow | BodyKind::Array => {
            py.import(BODIES)?.call_method1("decode", (kind as u8, PyBytes::new(py, detail), body))
        }
    }
}

/// A single value as Python has it.
pub fn scalar_to_python<'py>(py: Python<'py>, value: Scalar<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Scalar::Null => py.None().into_bound(py),
        Scalar::Bool(flag) => PyBool::new(py, flag).to_owned().into_any(),
        Scalar::Int(number) => number.into_pyobject(py)?.into_any(),
        Scalar::UInt(number) => number.into_pyobject(py)?.into_any(),
        Scalar::F32(_) | Scalar::Typed(_) => typed::to_python(py, value)?,
        Scalar::F64(number) => PyFloat::new(py, number).into_any(),
        Scalar::Str(text) => PyString::from_bytes(py, text.as_bytes())?.into_any(),
        Scalar::Bytes(bytes) => to_python(py, bytes)?.into_any(),
    })
}

struct PythonBuilder<'py> {
    py: Python<'py>,
}

/// An error of Python, or one of decoding as Python raises it.
struct BuildError(PyErr);

impl From<DecodeError> for BuildError {
    fn from(error: DecodeError) -> BuildError {
        BuildError(PyValueError::new_err(error.to_string()))
    }
}

impl From<PyErr> for BuildError {
    fn from(error: PyErr) -> BuildError {
        BuildError(error)
    }
}

impl<'py> ValueBuilder for PythonBuilder<'py> {
    type Value = Bound<'py, PyAny>;
    type List = Bound<'py, PyList>;
    type Map = Bound<'py, PyDict>;
    type Error = BuildError;

    fn scalar(&mut self, value: Scalar<'_>) -> Result<Self::Value, BuildError> {
        Ok(scalar_to_python(self.py, value)?)
    }

    fn begin_list(&mut self, _length: usize) -> Result<Self::List, BuildError> {
        Ok(PyList::empty(self.py))
    }

    fn push(&mut self, list: &mut Self::List, value: Self::Value) -> Result<(), BuildError> {
        Ok(list.append(value)?)
    }

    fn end_list(&mut self, list: Self::List) -> Result<Self::Value, BuildError> {
        Ok(list.into_any())
    }

    fn begin_map(&mut self, _length: usize) -> Result<Self::Map, BuildError> {
        Ok(PyDict::new(self.py))
    }

    fn insert(&mut self, map: &mut Self::Map, key: Scalar<'_>, value: Self::Value) -> Result<(), BuildError> {
        Ok(map.set_item(scalar_to_python(self.py, key)?, value)?)
    }

    fn end_map(&mut self, map: Self::Map) -> Result<Self::Value, BuildError> {
        Ok(map.into_any())
    }
}
