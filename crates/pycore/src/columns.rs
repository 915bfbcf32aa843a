//! History as Arrow columns: what Python asks for, and the buffers it gets.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};
use shoal_log::columns::{Column, ColumnBuffers, Columns, PropertyType, Selection, UnknownColumn};
use shoal_log::{Cursor, LogError, Query, Row};
use shoal_wire::{DecodeError, Destination, HeaderFields, Outgoing, Priority, PropertiesWriter};

use crate::bus::exit::detached;
use crate::bus::{body, properties};
use crate::errors;
use crate::log::disk::AnyDisk;
use crate::log::{Log, Shared, query};
use crate::memory::ArrowBuffer;
use crate::selector::Selector;

fn unknown(error: UnknownColumn) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Columns by their names, then properties by name and type.
pub fn selection(columns: &[String], properties: &[(String, String)]) -> PyResult<Selection> {
    let mut chosen = Vec::with_capacity(columns.len() + properties.len());
    for name in columns {
        chosen.push(Column::named(name).map_err(unknown)?);
    }
    for (name, kind) in properties {
        let kind = PropertyType::named(kind).map_err(unknown)?;
        chosen.push(Column::Property { name: name.as_str().into(), kind });
    }
    Ok(Selection::new(chosen))
}

/// An array as (length, null count, buffers, children), from which `pyarrow` makes one.
pub fn to_python<'py>(py: Python<'py>, column: ColumnBuffers) -> PyResult<Bound<'py, PyTuple>> {
    let buffers = PyList::empty(py);
    for buffer in column.buffers {
        match buffer {
            Some(buffer) => buffers.append(Bound::new(py, ArrowBuffer::from(buffer))?)?,
            None => buffers.append(py.None())?,
        }
    }
    let children = PyList::empty(py);
    for child in column.children {
        children.append(to_python(py, child)?)?;
    }
    (column.length, column.null_count, buffers, children).into_pyobject(py)
}

/// A range of a log on its way into columns. One thread at a time goes on with it.
#[pyclass(frozen, module = "shoal._core")]
pub struct HistoryScan {
    shared: Arc<Shared>,
    scanning: Mutex<Scanning>,
    selection: Selection,
}

struct Scanning {
    query: Query,
    /// None: it is opened where the query starts.
    cursor: Option<Cursor<AnyDisk>>,
}

/// A batch: how many rows, and its columns.
type BatchParts<'py> = (usize, Vec<Bound<'py, PyTuple>>);

#[pymethods]
impl HistoryScan {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "one for each part of a query")]
    fn new(
        py: Python<'_>,
        log: &Log,
        start: u64,
        end: u64,
        patterns: Vec<String>,
        selector: Option<&Bound<'_, Selector>>,
        columns: Vec<String>,
        properties: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let selection = selection(&columns, &properties)?;
        let query = query(start, end, &patterns, selector)?;
        let shared = log.here()?.clone();
        let cursor = Some(detached(py, || shared.cursor(&query)).map_err(errors::store)?);
        Ok(Self { shared, scanning: Mutex::new(Scanning { query, cursor }), selection })
    }

    /// The next rows, up to so many, or until they take so many bytes; none at the end. One that alone is longer comes only
    /// if `large` says so; otherwise there are no rows, and its memory is given back.
    #[pyo3(signature = (rows_max, bytes_max, large = false))]
    fn next<'py>(
        &self,
        py: Python<'py>,
        rows_max: usize,
        bytes_max: usize,
        large: bool,
    ) -> PyResult<Option<BatchParts<'py>>> {
        let (filled, is_over) =
            detached(py, || self.fill(rows_max, bytes_max, large)).map_err(|error| match error {
                ScanError::Log(error) => errors::store(error),
                ScanError::Unreadable(offset, error) => errors::unreadable_at(offset, &error),
            })?;
        let rows = filled.rows();
        if rows == 0 {
            return Ok((!is_over).then(|| (0, Vec::new())));
        }
        let columns = filled.finish().into_iter().map(|column| to_python(py, column));
        Ok(Some((rows, columns.collect::<PyResult<_>>()?)))
    }
}

enum ScanError {
    Log(LogError),
    Unreadable(u64, DecodeError),
}

impl HistoryScan {
    /// Columns of the next rows, and whether there are no more.
    fn fill(&self, rows_max: usize, bytes_max: usize, large: bool) -> Result<(Columns, bool), ScanError> {
        let mut scanning = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        let Scanning { query, cursor } = &mut *scanning;
        let mut columns = Columns::new(&self.selection);
        let reading = match cursor {
            Some(reading) => reading,
            None => cursor.insert(self.shared.cursor(query).map_err(ScanError::Log)?),
        };
        while columns.rows() < rows_max && columns.bytes() < bytes_max {
            let Some(row) = reading.next().map_err(ScanError::Log)? else { return Ok((columns, true)) };
            if row.record.len() > bytes_max && !large {
                query.start = row.offset;
                *cursor = None;
                break;
            }
            columns.push(&row).map_err(|error| ScanError::Unreadable(row.offset, error))?;
        }
        Ok((columns, false))
    }
}

/// Offset, stored, publisher, chain, number, timestamp and record.
type RowTuple = (u64, u64, u64, u32, Option<u64>, u64, PyBackedBytes);

/// Rows given one by one, as columns. Python has it for tests; readers of a log use the same columns.
#[pyfunction]
pub fn columnise<'py>(
    py: Python<'py>,
    rows: Vec<RowTuple>,
    columns: Vec<String>,
    properties: Vec<(String, String)>,
) -> PyResult<(usize, Vec<Bound<'py, PyTuple>>)> {
    let mut filling = Columns::new(&selection(&columns, &properties)?);
    for (offset, stored_us, publisher, chain, number, timestamp_us, record) in &rows {
        let row = Row {
            offset: *offset,
            stored_us: *stored_us,
            publisher: *publisher,
            chain: *chain,
            number: *number,
            timestamp_us: *timestamp_us,
            record,
        };
        filling.push(&row).map_err(|error| errors::unreadable(&error))?;
    }
    let bytes = filling.bytes();
    let finished = filling.finish();
    Ok((bytes, finished.into_iter().map(|column| to_python(py, column)).collect::<PyResult<_>>()?))
}

/// A message record from Python values. Python has it for tests.
#[pyfunction]
#[pyo3(signature = (topic, body, *, properties=None, priority=4, correlation_id=None, reply_to=None, r#type=None, redelivered=false))]
#[allow(clippy::too_many_arguments, reason = "one for each field, as Python gives them")]
pub fn encode_record<'py>(
    py: Python<'py>,
    topic: &str,
    body: &Bound<'py, PyAny>,
    properties: Option<&Bound<'py, PyAny>>,
    priority: u8,
    correlation_id: Option<&[u8]>,
    reply_to: Option<&str>,
    r#type: Option<&str>,
    redelivered: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let encoded = body::encode(body)?;
    let mut writer = PropertiesWriter::new();
    if let Some(properties) = properties {
        properties::write(properties, &mut writer)?;
    }
    let named = |name| errors::checked_topic(name).map(Destination::topic);
    let message = Outgoing {
        priority: Priority::new(priority).map_err(body::encode_error)?,
        redelivered,
        fields: HeaderFields {
            correlation_id,
            reply_to: reply_to.map(named).transpose()?,
            message_type: r#type,
            body_detail: (!encoded.detail.is_empty()).then_some(&encoded.detail[..]),
            ..HeaderFields::default()
        },
        properties: writer.properties(),
        ..Outgoing::new(named(topic)?, encoded.kind, encoded.bytes.as_slice())
    };
    let mut record = Vec::new();
    message.encode_into(&mut record).map_err(body::encode_error)?;
    Ok(PyBytes::new(py, &record))
}
