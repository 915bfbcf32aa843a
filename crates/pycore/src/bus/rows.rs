//! Messages on their way to a store, and from it: rows as the log keeps them, many in one body.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use shoal_log::{Meta, Portion, Query, Row, RowsReader, RowsWriter};
use shoal_node::Origin;
use shoal_wire::MessageView;

use super::body;
use super::exit::detached;
use super::message::{Delivery, Message};
use super::node::{Node, deadline};
use super::outgoing::{
    Extras, Given, Scratch, correlation_bytes, given_priority, given_trace, timestamp_us, write_head,
    write_properties,
};
use super::typed;
use crate::aging::{AGE_BYTES, UNAGED, aged, aged_rows};
use crate::convert::{argument, duration, text_argument};
use crate::errors;
use crate::log::{Log, as_passed_on, query};

/// Where queues are among the topics of a log.
const QUEUES: &str = "_queue/";

/// How long a copy for live subscribers waits for them, where nobody says how long.
const PATIENCE: Duration = Duration::from_secs(3600);

fn unreadable_rows() -> PyErr {
    PyValueError::new_err("these bytes are no rows")
}

/// Rows are taken in parts of about so many bytes; one that is longer is alone in its part.
const PART_BYTES: usize = 256 << 10;

/// Rows that are taken together: their bytes, the number of the first and of the last.
type Part = (Vec<u8>, u64, u64);

struct Making {
    /// Parts that take no more rows.
    full: VecDeque<Part>,
    full_bytes: usize,
    rows: RowsWriter,
    next: u64,
    part_bytes: usize,
    /// Rows whose age matters, and when each was added.
    timed: VecDeque<(u64, Instant)>,
}

impl Making {
    /// Says in the rows of a part how long they waited, where that matters: their times count from when they were added.
    fn aged(&mut self, (bytes, first, last): Part) -> Part {
        let now = Instant::now();
        while self.timed.front().is_some_and(|(number, _)| *number < first) {
            self.timed.pop_front();
        }
        let count = self.timed.iter().take_while(|(number, _)| *number <= last).count();
        let mut timed = self.timed.drain(..count).peekable();
        if timed.peek().is_none_or(|(_, added)| now - *added < UNAGED) {
            return (bytes, first, last);
        }
        let mut age = |number| timed.next_if(|(timed, _)| *timed == number).map(|(_, added)| now - added);
        let aged = aged_rows(&bytes, |number| age(number).unwrap_or_default());
        (aged.unwrap_or(bytes), first, last)
    }

    fn push(&mut self, meta: &Meta, record: &[u8], is_timed: bool) -> u64 {
        if is_timed {
            self.timed.push_back((self.next, Instant::now()));
        }
        if !self.rows.is_empty() && self.rows.bytes().len() + record.len() > self.part_bytes {
            let part = self.take_open();
            self.full_bytes += part.0.len();
            self.full.push_back(part);
        }
        self.rows.push(&Meta { number: Some(self.next), ..*meta }, record);
        self.next += 1;
        self.next - 1
    }

    fn take_open(&mut self) -> Part {
        let part = (self.rows.bytes().to_vec(), self.next - u64::from(self.rows.count()), self.next - 1);
        self.rows.clear();
        part
    }
}

/// Rows of one publisher and chain: encoded one by one, taken all at once. May be shared between threads; whoever wants
/// numbers in the order of calls lets one thread at a time add.
#[pyclass(module = "shoal._core", frozen)]
pub struct RowsBuilder {
    publisher: u64,
    chain: u32,
    making: Mutex<Making>,
    scratch: Mutex<Scratch>,
}

impl RowsBuilder {
    fn making(&self) -> MutexGuard<'_, Making> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_micros() as u64)
}

#[pymethods]
impl RowsBuilder {
    #[new]
    #[pyo3(signature = (publisher, chain, next = 1, *, part_bytes = PART_BYTES))]
    fn new(publisher: u64, chain: u32, next: u64, part_bytes: usize) -> RowsBuilder {
        let rows = RowsWriter::default();
        let (full, timed) = (VecDeque::new(), VecDeque::new());
        let making = Making { full, full_bytes: 0, rows, next, part_bytes, timed };
        RowsBuilder { publisher, chain, making: Mutex::new(making), scratch: Mutex::default() }
    }

    /// The number that the next row gets.
    #[getter]
    fn next(&self) -> u64 {
        self.making().next
    }

    /// Bytes that wait to be taken, at the most; 0 if there are no rows.
    #[getter]
    fn waiting_bytes(&self) -> usize {
        let making = self.making();
        let rows = making.full_bytes + if making.rows.is_empty() { 0 } else { making.rows.bytes().len() };
        rows + making.timed.len() * AGE_BYTES
    }

    /// Adds a message, and returns its number. With `node` it is published there first, under the same identity; with
    /// `log` it is appended there, and does not wait to be taken.
    #[pyo3(signature = (
        topic, body = None, *, properties = None, priority = None, ttl_s = None, correlation_id = None,
        reply_to = None, r#type = None, persistent = None, delivery_delay_s = None, timestamp = None, group = None,
        connection = None, bytes_max = None, node = None, log = None, timeout_s = None, trace = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn add(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
        properties: Option<&Bound<'_, PyAny>>,
        priority: Option<&Bound<'_, PyAny>>,
        ttl_s: Option<&Bound<'_, PyAny>>,
        correlation_id: Option<&Bound<'_, PyAny>>,
        reply_to: Option<&Bound<'_, PyAny>>,
        r#type: Option<&Bound<'_, PyAny>>,
        persistent: Option<&Bound<'_, PyAny>>,
        delivery_delay_s: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        group: Option<&Bound<'_, PyAny>>,
        connection: Option<u64>,
        bytes_max: Option<usize>,
        node: Option<&Bound<'_, Node>>,
        log: Option<&Bound<'_, Log>>,
        timeout_s: Option<f64>,
        trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let topic = text_argument("topic", topic)?;
        let correlation = correlation_id.map(correlation_bytes).transpose()?;
        let correlation_id = correlation.as_deref();
        let message_type = r#type;
        let given =
            Given { properties, ttl_s, correlation_id, reply_to, message_type, persistent, delivery_delay_s };
        let group = match group {
            Some(group) => Some(text_argument("group", group)?.to_str()?),
            None => None,
        };
        let trace = given_trace(trace)?;
        let trace = trace.as_ref().map(|(trace, state)| (&trace[..], &state[..]));
        let extras = Extras { group, connection, trace, ..given.check()? };
        let published_us = timestamp.map(timestamp_us).transpose()?.unwrap_or_else(now_us);
        let none = py.None().into_bound(py);
        let encoded = body::encode(body.unwrap_or(&none))?;
        let name = errors::checked_topic(topic.to_str()?)?;
        let mut scratch = std::mem::take(&mut *self.scratch.lock().unwrap_or_else(PoisonError::into_inner));
        write_properties(&extras, &mut scratch)?;
        write_head(name, given_priority(priority)?, &encoded, &extras, &mut scratch)?;
        let record = &mut scratch.head;
        record.extend_from_slice(encoded.bytes.as_slice());
        if let Some(bytes_max) = bytes_max.filter(|&most| record.len() > most) {
            return Err(errors::too_long(record.len(), bytes_max));
        }
        let mut meta = Meta {
            publisher: self.publisher,
            chain: self.chain,
            number: Some(self.next()),
            timestamp_us: published_us,
        };
        if let Some(node) = node {
            let until = deadline(timeout_s)?.unwrap_or_else(|| Instant::now() + PATIENCE);
            publish_row(py, node.get(), topic, &meta, record, false, Duration::ZERO, until)?;
        }
        let number = match log {
            Some(log) => {
                let shared = log.get().here()?;
                let appended = detached(py, || {
                    let mut making = self.making();
                    meta.number = Some(making.next);
                    let mut rows = RowsWriter::default();
                    rows.push(&meta, record);
                    shared.append(&rows)?;
                    making.next += 1;
                    Ok(making.next - 1)
                });
                appended.map_err(errors::store)?
            }
            None => self.making().push(&meta, record, extras.is_timed()),
        };
        *self.scratch.lock().unwrap_or_else(PoisonError::into_inner) = scratch;
        Ok(number)
    }

    /// The first rows that wait, about `part_bytes` of them, and the numbers of the first and the last; `None` if there are
    /// none. Those with a time to live or a delivery delay say how long they waited here.
    fn take<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyBytes>, u64, u64)> {
        let mut making = self.making();
        let part = match making.full.pop_front() {
            Some(part) => {
                making.full_bytes -= part.0.len();
                part
            }
            None if making.rows.is_empty() => return None,
            None => making.take_open(),
        };
        let (bytes, first, last) = making.aged(part);
        Some((PyBytes::new(py, &bytes), first, last))
    }
}

/// Publishes a row for live subscribers, if there are any, under the identity it has in the store. It waited for `age` more
/// than it says.
#[allow(clippy::too_many_arguments, reason = "what a message is, and how it is published")]
fn publish_row(
    py: Python<'_>,
    node: &Node,
    topic: &Bound<'_, PyString>,
    meta: &Meta,
    record: &[u8],
    redelivered: bool,
    age: Duration,
    until: Instant,
) -> PyResult<()> {
    if !node.is_wanted(py, topic)? {
        return Ok(());
    }
    let aged = aged(record, age);
    let record = aged.as_deref().unwrap_or(record);
    let view = MessageView::parse(record).map_err(|error| errors::unreadable(&error))?;
    let row = Row {
        offset: 0,
        stored_us: 0,
        publisher: meta.publisher,
        chain: meta.chain,
        number: meta.number,
        timestamp_us: meta.timestamp_us,
        record,
    };
    let mut passed = Vec::with_capacity(record.len() + 32);
    as_passed_on(&row, 0, &view, redelivered, node.clock_us()?, &mut passed)?;
    node.publish_record(py, topic, &passed, until)?;
    Ok(())
}

/// Publishes rows for live subscribers, under the identity they have in the store; queues have none. Whoever has read those
/// that are `redelivered` does not read them again. They waited for `age_s` more than they say.
#[pyfunction]
#[pyo3(signature = (node, rows, timeout_s = None, *, redelivered = false, age_s = 0.0))]
pub fn pass_on(
    py: Python<'_>,
    node: &Node,
    rows: &[u8],
    timeout_s: Option<f64>,
    redelivered: bool,
    age_s: f64,
) -> PyResult<()> {
    let age = duration("age_s", age_s)?;
    let until = deadline(timeout_s)?.unwrap_or_else(|| Instant::now() + PATIENCE);
    let mut reader = RowsReader::new(rows, 0).ok_or_else(unreadable_rows)?;
    while let Some((_, meta, record)) = reader.next_row().map_err(|()| unreadable_rows())? {
        let view = MessageView::parse(record).map_err(|error| errors::unreadable(&error))?;
        let name = std::str::from_utf8(view.name_bytes()).map_err(|error| errors::unreadable(&error))?;
        if !name.starts_with(QUEUES) {
            publish_row(py, node, &PyString::new(py, name), &meta, record, redelivered, age, until)?;
        }
    }
    Ok(())
}

/// Rows as messages. `first` is the offset of the first one, `counts` which delivery it is of those for which it is not
/// the first, by their offset, 0 if that is not known; `consumer` and `lease` are what an acknowledgement names again,
/// `receiver` acknowledges and answers them.
#[pyfunction]
#[pyo3(signature = (rows, first = 0, *, consumer = 0, lease = 0, counts = None, receiver = None))]
pub fn read_rows<'py>(
    py: Python<'py>,
    rows: &[u8],
    first: u64,
    consumer: u64,
    lease: u64,
    counts: Option<&Bound<'_, PyDict>>,
    receiver: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let messages = PyList::empty(py);
    let mut reader = RowsReader::new(rows, first).ok_or_else(unreadable_rows)?;
    let mut known: Option<(Vec<u8>, Py<PyString>)> = None;
    let counts = counts.filter(|counts| !counts.is_empty());
    while let Some((offset, meta, record)) = reader.next_row().map_err(|()| unreadable_rows())? {
        let view = MessageView::parse(record).map_err(|error| errors::unreadable(&error))?;
        let topic = match &known {
            Some((name, topic)) if name == view.name_bytes() => topic.clone_ref(py),
            _ => {
                let name = String::from_utf8_lossy(view.name_bytes());
                let topic = match name.strip_prefix(QUEUES) {
                    Some(queue) => typed::queue_name(py, queue)?.cast_into::<PyString>()?.unbind(),
                    None => PyString::new(py, &name).unbind(),
                };
                known = Some((view.name_bytes().to_vec(), topic.clone_ref(py)));
                topic
            }
        };
        let count = match counts {
            Some(counts) => counts.get_item(offset)?.map_or(Ok(1), |count| argument("count", &count))?,
            None => 1,
        };
        // At least the second, where a store forgot how often.
        let count = if count == 0 { 2 } else { count };
        let origin = Origin {
            publisher: meta.publisher,
            chain: meta.chain,
            number: meta.number.unwrap_or_default(),
            timestamp_us: meta.timestamp_us,
            node: 0,
        };
        let delivery = Delivery { count, consumer, offset, lease };
        let message = Message::delivered(py, record, &view, topic, origin, delivery)?;
        messages.append(message.received_by(receiver.as_ref().map(|receiver| receiver.clone_ref(py))))?;
    }
    Ok(messages)
}

/// The offsets of messages that a store delivered.
#[pyfunction]
pub fn offsets_of(messages: Vec<Bound<'_, Message>>) -> Vec<u64> {
    messages.iter().filter_map(|message| message.get().offset()).collect()
}

/// Each row by itself, with its number.
#[pyfunction]
pub fn split_rows<'py>(py: Python<'py>, rows: &[u8]) -> PyResult<Vec<(u64, Bound<'py, PyBytes>)>> {
    let mut reader = RowsReader::new(rows, 0).ok_or_else(unreadable_rows)?;
    let mut alone = Vec::new();
    while let Some((_, meta, record)) = reader.next_row().map_err(|()| unreadable_rows())? {
        let mut writer = RowsWriter::default();
        writer.push(&meta, record);
        alone.push((meta.number.unwrap_or_default(), PyBytes::new(py, writer.bytes())));
    }
    Ok(alone)
}

/// Rows that waited for so many seconds more than they say.
#[pyfunction]
pub fn age_rows<'py>(
    py: Python<'py>,
    rows: Bound<'py, PyBytes>,
    age_s: f64,
) -> PyResult<Bound<'py, PyBytes>> {
    let age = duration("age_s", age_s)?;
    let aged = if age < UNAGED { None } else { aged_rows(rows.as_bytes(), |_| age) };
    Ok(aged.map_or(rows, |aged| PyBytes::new(py, &aged)))
}

/// Rows of a log from an offset on, at most so many and about so many bytes: the rows, the offset after the last one, how
/// many there are. They say how long the log had them, where that counts.
#[pyfunction]
#[pyo3(signature = (log, start, end, rows_max, bytes_max))]
pub fn take_rows<'py>(
    py: Python<'py>,
    log: &Log,
    start: u64,
    end: u64,
    rows_max: u32,
    bytes_max: usize,
) -> PyResult<(Bound<'py, PyBytes>, u64, u32)> {
    let shared = log.here()?;
    let now_us = shared.clock_us();
    let taken = detached(py, || {
        let mut cursor = shared.cursor(&Query::range(start, end))?;
        let mut rows = RowsWriter::default();
        let mut next = start;
        while rows.count() < rows_max && rows.bytes().len() < bytes_max {
            let Some(row) = cursor.next()? else {
                next = end.max(next);
                break;
            };
            let meta = Meta {
                publisher: row.publisher,
                chain: row.chain,
                number: row.number,
                timestamp_us: row.timestamp_us,
            };
            let aged = aged(row.record, Duration::from_micros(now_us.saturating_sub(row.stored_us)));
            rows.push(&meta, aged.as_deref().unwrap_or(row.record));
            next = row.offset + 1;
        }
        Ok((rows, next))
    });
    let (rows, next) = taken.map_err(errors::store)?;
    Ok((PyBytes::new(py, rows.bytes()), next, rows.count()))
}

/// (rows, offset after the last one looked at, how many rows, messages passed, their bytes).
type Forwardable<'py> = (Bound<'py, PyBytes>, u64, u32, u64, u64);

/// Persistent messages of a log that match patterns, for the next store: at most so many and about so many bytes, but a
/// transaction is whole. Those that expired are passed by, and what has a time to live or a delay says how long it was held.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "what to read, and how much of it")]
pub fn forward_rows<'py>(
    py: Python<'py>,
    log: &Log,
    start: u64,
    end: u64,
    patterns: Vec<String>,
    rows_max: u32,
    bytes_max: usize,
    now_us: u64,
) -> PyResult<Forwardable<'py>> {
    let shared = log.here()?;
    let query = query(start, end, &patterns, None)?;
    let taken = detached(py, || {
        let mut cursor = shared.cursor(&query)?;
        let mut portion = Portion::new(start);
        loop {
            match cursor.next()? {
                Some(row) if portion.take(&row, now_us, rows_max, bytes_max) => {}
                Some(_) => return Ok(portion),
                None => break,
            }
        }
        portion.next = end.max(portion.next);
        Ok(portion)
    });
    let taken = taken.map_err(errors::store)?;
    let rows = PyBytes::new(py, taken.rows.bytes());
    Ok((rows, taken.next, taken.rows.count(), taken.messages, taken.bytes))
}
