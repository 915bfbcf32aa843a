//! Rows written in from outside: Arrow columns become message records, without the GIL.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_log::columns::{Incoming, IncomingError, MapIn, NumbersIn, PropertyIn, TextsIn};
use shoal_log::{Meta, RowsWriter};

use crate::memory::Foreign;

type Any<'py> = Bound<'py, PyAny>;
/// Validity, offsets, data, first.
type TextsGiven<'py> = (Option<Any<'py>>, Any<'py>, Any<'py>, usize);
/// Validity, data, first.
type NumbersGiven<'py> = (Option<Any<'py>>, Any<'py>, usize);
/// Validity, offsets, first, keys, values.
type MapGiven<'py> = (Option<Any<'py>>, Any<'py>, usize, TextsGiven<'py>, TextsGiven<'py>);

struct Texts {
    validity: Option<Foreign>,
    offsets: Foreign,
    data: Foreign,
    first: usize,
}

struct Numbers {
    validity: Option<Foreign>,
    data: Foreign,
    first: usize,
}

struct Map {
    validity: Option<Foreign>,
    offsets: Foreign,
    first: usize,
    keys: Texts,
    values: Texts,
}

enum Property {
    String(Texts),
    Int64(Numbers),
    Float64(Numbers),
    Bool(Numbers),
}

fn optional(buffer: &Option<Any<'_>>) -> PyResult<Option<Foreign>> {
    buffer.as_ref().map(Foreign::new).transpose()
}

impl Texts {
    fn new((validity, offsets, data, first): &TextsGiven<'_>) -> PyResult<Self> {
        Ok(Self {
            validity: optional(validity)?,
            offsets: Foreign::new(offsets)?,
            data: Foreign::new(data)?,
            first: *first,
        })
    }

    fn view(&self) -> TextsIn<'_> {
        TextsIn {
            validity: self.validity.as_ref().map(Foreign::as_slice),
            offsets: self.offsets.as_slice(),
            data: self.data.as_slice(),
            first: self.first,
        }
    }
}

impl Numbers {
    fn new((validity, data, first): &NumbersGiven<'_>) -> PyResult<Self> {
        Ok(Self { validity: optional(validity)?, data: Foreign::new(data)?, first: *first })
    }

    fn view(&self) -> NumbersIn<'_> {
        NumbersIn {
            validity: self.validity.as_ref().map(Foreign::as_slice),
            data: self.data.as_slice(),
            first: self.first,
        }
    }
}

impl Map {
    fn new((validity, offsets, first, keys, values): &MapGiven<'_>) -> PyResult<Self> {
        Ok(Self {
            validity: optional(validity)?,
            offsets: Foreign::new(offsets)?,
            first: *first,
            keys: Texts::new(keys)?,
            values: Texts::new(values)?,
        })
    }

    fn view(&self) -> MapIn<'_> {
        MapIn {
            validity: self.validity.as_ref().map(Foreign::as_slice),
            offsets: self.offsets.as_slice(),
            first: self.first,
            keys: self.keys.view(),
            values: self.values.view(),
        }
    }
}

impl Property {
    fn new(kind: &str, column: &Any<'_>) -> PyResult<Self> {
        let numbers = || Numbers::new(&column.extract()?);
        Ok(match kind {
            "string" => Self::String(Texts::new(&column.extract()?)?),
            "int64" => Self::Int64(numbers()?),
            "float64" => Self::Float64(numbers()?),
            "bool" => Self::Bool(numbers()?),
            _ => return Err(PyValueError::new_err(format!("there is no type of a property {kind:?}"))),
        })
    }

    fn view(&self) -> PropertyIn<'_> {
        match self {
            Self::String(texts) => PropertyIn::String(texts.view()),
            Self::Int64(numbers) => PropertyIn::Int64(numbers.view()),
            Self::Float64(numbers) => PropertyIn::Float64(numbers.view()),
            Self::Bool(numbers) => PropertyIn::Bool(numbers.view()),
        }
    }
}

fn texts(given: Option<TextsGiven<'_>>) -> PyResult<Option<Texts>> {
    given.as_ref().map(Texts::new).transpose()
}

fn numbers(given: Option<NumbersGiven<'_>>) -> PyResult<Option<Numbers>> {
    given.as_ref().map(Numbers::new).transpose()
}

/// A batch of messages to be staged.
#[pyclass(frozen, module = "shoal._core")]
pub struct StagedRows {
    pub(crate) rows: RowsWriter,
}

#[pymethods]
impl StagedRows {
    #[new]
    #[pyo3(signature = (*, timestamp_us, rows, default_topic=None, topic=None, body=None, body_is_text=false, body_kind=None,
        priority=None, ttl_ms=None, correlation_id=None, r#type=None, reply_to=None, properties=None, typed=None))]
    #[allow(clippy::too_many_arguments, reason = "one for each column, as Python gives them")]
    fn new(
        py: Python<'_>,
        timestamp_us: u64,
        rows: usize,
        default_topic: Option<String>,
        topic: Option<TextsGiven<'_>>,
        body: Option<TextsGiven<'_>>,
        body_is_text: bool,
        body_kind: Option<TextsGiven<'_>>,
        priority: Option<NumbersGiven<'_>>,
        ttl_ms: Option<NumbersGiven<'_>>,
        correlation_id: Option<TextsGiven<'_>>,
        r#type: Option<TextsGiven<'_>>,
        reply_to: Option<TextsGiven<'_>>,
        properties: Option<MapGiven<'_>>,
        typed: Option<Vec<(String, String, Any<'_>)>>,
    ) -> PyResult<Self> {
        let (topic, body, body_kind) = (texts(topic)?, texts(body)?, texts(body_kind)?);
        let (correlation_id, message_type, reply_to) =
            (texts(correlation_id)?, texts(r#type)?, texts(reply_to)?);
        let (priority, ttl_ms) = (numbers(priority)?, numbers(ttl_ms)?);
        let properties = properties.as_ref().map(Map::new).transpose()?;
        let mut columns = Vec::new();
        for (name, kind, column) in typed.iter().flatten() {
            columns.push((name.as_str(), Property::new(kind, column)?));
        }
        let staged = py.detach(|| {
            let incoming = Incoming {
                rows,
                default_topic: default_topic.as_deref(),
                topic: topic.as_ref().map(Texts::view),
                body: body.as_ref().map(Texts::view),
                body_is_text,
                body_kind: body_kind.as_ref().map(Texts::view),
                priority: priority.as_ref().map(Numbers::view),
                ttl_ms: ttl_ms.as_ref().map(Numbers::view),
                correlation_id: correlation_id.as_ref().map(Texts::view),
                message_type: message_type.as_ref().map(Texts::view),
                reply_to: reply_to.as_ref().map(Texts::view),
                properties: properties.as_ref().map(Map::view),
                typed: columns.iter().map(|(name, column)| (*name, column.view())).collect(),
            };
            // Who published them is the store, once it gives them their offsets.
            let meta = Meta { timestamp_us, ..Meta::default() };
            let mut rows = RowsWriter::default();
            incoming.encode(|record| rows.push(&meta, record))?;
            Ok(Self { rows })
        });
        staged.map_err(|error: IncomingError| PyValueError::new_err(error.to_string()))
    }

    /// How many rows there are.
    #[getter]
    fn count(&self) -> u32 {
        self.rows.count()
    }

    /// Bytes they take in the log.
    #[getter]
    fn bytes(&self) -> usize {
        self.rows.bytes().len()
    }
}
