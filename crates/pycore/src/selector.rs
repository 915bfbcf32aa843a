//! Bindings of `shoal-selector`: selectors, correlation filters and the index over many selectors.

use std::fmt;

use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};
use shoal_selector::condition::Name;
use shoal_selector::{Attributes, HEADER_NAMES, Value};

create_exception!(
    _core,
    SelectorSyntaxError,
    PyValueError,
    "A text that is no selector; its arguments are position, found, expected and the caret lines."
);

fn syntax_error(error: shoal_selector::SelectorError) -> PyErr {
    let caret = error.caret();
    SelectorSyntaxError::new_err((error.position, error.found, error.expected, caret))
}

fn decode_error(error: shoal_selector::DecodeError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An attribute's value, out of Python's hands.
enum Owned {
    Plain(Value<'static>),
    Text(String),
}

impl Owned {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Text(text) => Value::Str(text),
        }
    }

    /// Reads a value; the typed ones say what they are in their class attribute `jms_type`.
    fn read(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Self::Text(text.to_str()?.to_owned()));
        }
        let unfit = || PyValueError::new_err(format!("the value of {name} does not fit a long"));
        let plain = if value.is_none() {
            Value::Null
        } else if let Ok(boolean) = value.cast::<PyBool>() {
            Value::Bool(boolean.is_true())
        } else if value.is_exact_instance_of::<PyInt>() {
            Value::Long(value.extract().map_err(|_| unfit())?)
        } else if value.is_exact_instance_of::<PyFloat>() {
            Value::Double(value.extract()?)
        } else if let Ok(jms_type) = value.getattr("jms_type") {
            typed(jms_type.extract()?, value)?
        } else if value.is_instance_of::<PyInt>() {
            Value::Long(value.extract().map_err(|_| unfit())?)
        } else if value.is_instance_of::<PyFloat>() {
            Value::Double(value.extract()?)
        } else {
            let kind = value.get_type().name()?;
            let expected = "a bool, int, float, str, None or one of the typed values";
            return Err(PyTypeError::new_err(format!("the value of {name} is {kind}, not {expected}")));
        };
        if name == "JMSDeliveryMode"
            && let Value::Long(mode) = plain
        {
            return delivery_mode(mode);
        }
        Ok(Self::Plain(plain))
    }
}

fn typed(jms_type: &str, value: &Bound<'_, PyAny>) -> PyResult<Value<'static>> {
    Ok(match jms_type {
        "byte" => Value::Byte(value.extract()?),
        "short" => Value::Short(value.extract()?),
        "int" => Value::Int(value.extract()?),
        "long" => Value::Long(value.extract()?),
        "float" => Value::Float(value.extract::<f64>()? as f32),
        "double" => Value::Double(value.extract()?),
        other => {
            return Err(PyTypeError::new_err(format!("{other:?} is no type of a property")));
        }
    })
}

/// In a selector the delivery mode is a string (section 3.8.1.3); programs have JMS's two numbers.
fn delivery_mode(mode: i64) -> PyResult<Owned> {
    let text = match mode {
        1 => "NON_PERSISTENT",
        2 => "PERSISTENT",
        _ => {
            let message = format!("JMSDeliveryMode is {mode}, not 1 (non-persistent) or 2 (persistent)");
            return Err(PyValueError::new_err(message));
        }
    };
    Ok(Owned::Plain(Value::Str(text)))
}

/// A few attributes; looking one up is a linear search.
struct Message<'n>(Vec<(&'n str, Owned)>);

impl Attributes for Message<'_> {
    fn get(&self, name: &str) -> Value<'_> {
        self.0.iter().find(|(known, _)| *known == name).map_or(Value::Null, |(_, owned)| owned.value())
    }

    fn visit<'a>(&'a self, visitor: &mut dyn FnMut(&'a str, Value<'a>)) {
        for (name, owned) in &self.0 {
            visitor(name, owned.value());
        }
    }
}

impl<'n> Message<'n> {
    /// Reads only the attributes that are asked for: headers from one mapping, properties from the other.
    fn read(
        names: &'n [Name],
        properties: &Bound<'_, PyAny>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut attributes = Vec::with_capacity(names.len());
        for name in names {
            let mapping = if HEADER_NAMES.contains(&&**name) { headers } else { Some(properties) };
            let Some(mapping) = mapping else { continue };
            let value = match mapping.cast::<PyDict>() {
                Ok(dict) => dict.get_item(&**name)?,
                Err(_) => Some(mapping.call_method1("get", (&**name,))?),
            };
            if let Some(value) = value {
                attributes.push((&**name, Owned::read(name, &value)?));
            }
        }
        Ok(Self(attributes))
    }
}

/// A parsed selector.
#[pyclass(frozen, module = "shoal._core")]
pub struct Selector {
    selector: shoal_selector::Selector,
    names: Vec<Name>,
}

impl Selector {
    pub fn inner(&self) -> &shoal_selector::Selector {
        &self.selector
    }
}

impl From<shoal_selector::Selector> for Selector {
    fn from(selector: shoal_selector::Selector) -> Self {
        Self { names: selector.names(), selector }
    }
}

#[pymethods]
impl Selector {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        shoal_selector::Selector::parse(text).map(Self::from).map_err(syntax_error)
    }

    #[staticmethod]
    fn decode(data: &[u8]) -> PyResult<Self> {
        shoal_selector::Selector::decode(data).map(Self::from).map_err(decode_error)
    }

    #[staticmethod]
    fn any_of(selectors: Vec<PyRef<'_, Self>>) -> Self {
        shoal_selector::Selector::any_of(selectors.iter().map(|one| &one.selector)).into()
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut out = Vec::new();
        self.selector.encode(&mut out);
        PyBytes::new(py, &out)
    }

    fn names(&self) -> Vec<&str> {
        self.names.iter().map(|name| &**name).collect()
    }

    #[pyo3(signature = (properties, headers=None))]
    fn matches(&self, properties: &Bound<'_, PyAny>, headers: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        Ok(self.selector.matches(&Message::read(&self.names, properties, headers)?))
    }

    fn __str__(&self) -> String {
        self.selector.to_string()
    }
}

/// A parsed correlation-ID filter.
#[pyclass(frozen, module = "shoal._core")]
pub struct CorrelationFilter(shoal_selector::CorrelationFilter);

impl CorrelationFilter {
    pub fn inner(&self) -> &shoal_selector::CorrelationFilter {
        &self.0
    }
}

#[pymethods]
impl CorrelationFilter {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        shoal_selector::CorrelationFilter::parse(text).map(Self).map_err(syntax_error)
    }

    #[staticmethod]
    fn decode(data: &[u8]) -> PyResult<Self> {
        shoal_selector::CorrelationFilter::decode(data).map(Self).map_err(decode_error)
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut out = Vec::new();
        self.0.encode(&mut out);
        PyBytes::new(py, &out)
    }

    fn matches(&self, correlation_id: &str) -> bool {
        self.0.matches(correlation_id)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }
}

/// Which of many selectors match. Python has it for tests; nodes use the Rust type.
#[pyclass(module = "shoal._core")]
pub struct SelectorIndex {
    index: shoal_selector::SelectorIndex,
    /// Every name that any selector ever mentioned: what has to be read from a message.
    names: Vec<Name>,
}

impl fmt::Debug for SelectorIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.index.fmt(f)
    }
}

#[pymethods]
impl SelectorIndex {
    /// Up to `evaluated_filters_max` filters are evaluated one by one instead of looked up.
    #[new]
    #[pyo3(signature = (seed, evaluated_filters_max=16))]
    fn new(seed: u64, evaluated_filters_max: usize) -> Self {
        let index = shoal_selector::SelectorIndex::new(seed).evaluating_up_to(evaluated_filters_max);
        Self { index, names: Vec::new() }
    }

    fn add(&mut self, selector: &Selector, subscriber: u64) {
        for name in &selector.names {
            if let Err(position) = self.names.binary_search(name) {
                self.names.insert(position, name.clone());
            }
        }
        self.index.add(&selector.selector, subscriber);
    }

    fn remove(&mut self, selector: &Selector, subscriber: u64) -> bool {
        self.index.remove(&selector.selector, subscriber)
    }

    fn tune(&mut self, count: usize) {
        self.index.tune(count);
    }

    #[pyo3(signature = (properties, headers=None))]
    fn matches(
        &mut self,
        properties: &Bound<'_, PyAny>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<u64>> {
        let message = Message::read(&self.names, properties, headers)?;
        let matches = self.index.matches(&message);
        let mut found: Vec<u64> = matches.subscribers().flat_map(|(_, all)| all.iter().copied()).collect();
        found.sort_unstable();
        Ok(found)
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.index.counters();
        let dict = PyDict::new(py);
        dict.set_item("messages", counters.messages)?;
        dict.set_item("evaluations", counters.evaluations)?;
        dict.set_item("predicates_evaluated", counters.predicates_evaluated)?;
        dict.set_item("matches", counters.matches)?;
        Ok(dict)
    }

    fn __len__(&self) -> usize {
        self.index.len()
    }
}
