//! What one turn of a store makes durable, for Python.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use shoal_log::{
    Appended, Chain, Change, Delivery, Destinations, Filter, Forwarded, Intake, Known, LogError, Meta, Row,
    RowsWriter,
};
use shoal_wire::{Destination, EncodeError, MessageView, Outgoing, PropertiesWriter, Scalar, Topic};

use super::{Log, Shared};
use crate::aging::aged;
use crate::bus::exit::detached;
use crate::errors;

/// (first number, last number, how many are new, bytes of the longest, [(destination, messages, bytes) of the new ones]).
type Checked = (u64, u64, u32, usize, Vec<(String, u64, u64)>);

/// Looks through rows of one chain that somebody sent. Those with a number above `mark` are new.
#[pyfunction]
pub fn check_rows(
    py: Python<'_>,
    rows: PyBackedBytes,
    publisher: u64,
    chain: u32,
    mark: u64,
) -> PyResult<Checked> {
    let checked = detached(py, || Intake::check(&rows, publisher, chain, mark));
    let found = checked.map_err(|error| errors::store(LogError::Refused(error.to_string())))?;
    Ok((found.numbers.0, found.numbers.1, found.new, found.longest, found.destinations))
}

/// (bytes of the longest, [(publisher, chain, first number, last number) of rows that follow each other]).
type CheckedForwarded = (usize, Vec<(u64, u32, u64, u64)>);

/// Looks through rows of any publishers that another store forwarded.
#[pyfunction]
pub fn check_forwarded(py: Python<'_>, rows: PyBackedBytes) -> PyResult<CheckedForwarded> {
    let checked = detached(py, || Forwarded::check(&rows));
    let found = checked.map_err(|error| errors::store(LogError::Refused(error.to_string())))?;
    let runs = found.runs.iter().map(|run| (run.publisher, run.chain, run.first, run.last)).collect();
    Ok((found.longest, runs))
}

/// Publisher, chain, and runs of numbers that are known of it.
type KnownRuns = (u64, u32, Vec<(u64, u64)>);

/// Of rows that another store forwarded those that are not known, how many there are, and where they go. What is known of a
/// publisher's chain are runs of numbers, each from after the first up to and with the second.
#[pyfunction]
pub fn sift_forwarded<'py>(
    py: Python<'py>,
    rows: PyBackedBytes,
    known: Vec<KnownRuns>,
) -> (Bound<'py, PyBytes>, u32, Destinations) {
    let known: Known = known.into_iter().map(|(publisher, chain, runs)| ((publisher, chain), runs)).collect();
    let (new, destinations) = detached(py, || Forwarded::sift(&rows, &known));
    (PyBytes::new(py, new.bytes()), new.count(), destinations)
}

/// Messages and changes of a log's state that become durable together. For one thread at a time.
#[pyclass(module = "shoal._core", frozen)]
#[derive(Default)]
pub struct Turn {
    turn: Mutex<shoal_log::Turn>,
}

impl Turn {
    fn lock(&self) -> MutexGuard<'_, shoal_log::Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends it, and empties it if that went well.
    pub fn append(&self, shared: &Shared) -> Result<Appended, LogError> {
        let mut turn = self.lock();
        let appended = shared.append_turn(&turn)?;
        *turn = shoal_log::Turn::default();
        Ok(appended)
    }

    fn note(&self, change: Change, with_rows: bool) {
        let mut turn = self.lock();
        if with_rows {
            turn.change_with_rows(change);
        } else {
            turn.change(change);
        }
    }
}

#[pymethods]
impl Turn {
    #[new]
    fn new() -> Turn {
        Turn::default()
    }

    /// Takes rows over whose number is above `mark`; they were checked. The store publishes those whose destination does not
    /// begin with `unpublished`, if that is given.
    #[pyo3(signature = (rows, mark, unpublished = None))]
    fn push_rows(&self, py: Python<'_>, rows: PyBackedBytes, mark: u64, unpublished: Option<&str>) {
        detached(py, || self.lock().push_rows(&rows, mark, unpublished.map(str::as_bytes)));
    }

    /// Takes rows over that another store forwarded. The store publishes those whose destination does not begin with
    /// `unpublished`, if that is given.
    #[pyo3(signature = (rows, unpublished = None))]
    fn push_forwarded(&self, py: Python<'_>, rows: PyBackedBytes, unpublished: Option<&str>) {
        detached(py, || self.lock().push_forwarded(&rows, unpublished.map(str::as_bytes)));
    }

    /// Takes rows over that a store heard, but for those to some destinations.
    fn push_heard(&self, py: Python<'_>, rows: PyBackedBytes, without: Vec<String>) {
        detached(py, || self.lock().push_heard(&rows, &without));
    }

    /// A chain is stored up to this number, together with the rows. One that is `kept` is never forgotten. Its first `owner`
    /// that is not 0 stays.
    #[pyo3(signature = (publisher, chain, number, stored_us, kept, owner = 0))]
    fn chain(&self, publisher: u64, chain: u32, number: u64, stored_us: u64, kept: bool, owner: u64) {
        self.note(Change::Chain(publisher, chain, Chain { number, stored_us, kept, owner }), true);
    }

    /// So many messages and bytes of the rows are for a reader.
    fn came(&self, reader: String, messages: u64, bytes: u64) {
        self.note(Change::Came(reader, messages, bytes), true);
    }

    /// A reader is done with these runs, each from the first up to before the second.
    #[pyo3(signature = (reader, messages, bytes, runs, *, with_rows = false))]
    fn done(&self, reader: String, messages: u64, bytes: u64, runs: Vec<(u64, u64)>, with_rows: bool) {
        self.note(Change::Done(reader, messages, bytes, runs), with_rows);
    }

    /// Messages from one offset up to before another were given out so often, and are not again before a time.
    fn delivered(&self, reader: String, first: u64, end: u64, count: u32, due_us: u64) {
        self.note(Change::Delivered(reader, first, end, Delivery { count, due_us }), false);
    }

    /// Messages from one offset up to before another are granted to a reader's consumer, under a lease.
    fn granted(&self, reader: String, first: u64, end: u64, lease: u64) {
        self.note(Change::Granted(reader, first, end, lease), false);
    }

    /// A reader's consumer gets rows of this turn as soon as they are durable: the first, the one after the last, its lease.
    fn grant_rows(&self, reader: String, first: u32, end: u32, lease: u64) {
        self.lock().grant(reader, first, end, lease);
    }

    /// Messages from one offset up to before another are granted to no consumer of a reader.
    fn revoked(&self, reader: String, first: u64, end: u64) {
        self.note(Change::Revoked(reader, first, end), false);
    }

    /// A consumer of a reader has nothing any more that it was granted under a lease.
    fn lease_over(&self, reader: String, lease: u64) {
        self.note(Change::LeaseOver(reader, lease), false);
    }

    /// Nothing is known of a reader any more.
    fn forget(&self, reader: String) {
        self.note(Change::ForgetReader(reader), false);
    }

    /// Keeps a value under a key, or removes it.
    #[pyo3(signature = (key, value, *, with_rows = false))]
    fn put(&self, key: String, value: Option<Vec<u8>>, with_rows: bool) {
        let change = match value {
            Some(value) => Change::Put(key, value),
            None => Change::Remove(key),
        };
        self.note(change, with_rows);
    }

    /// Takes messages over from the log, each as often delivered as said, to another destination: under their identity,
    /// with properties, and without a time to live. Returns offset and bytes of those that were there.
    fn push_moved(
        &self,
        py: Python<'_>,
        log: &Log,
        messages: Vec<(u64, u32)>,
        topic: &str,
        properties: Vec<(String, String)>,
    ) -> PyResult<Vec<(u64, u64)>> {
        let name = errors::checked_topic(topic)?;
        let shared = log.here()?;
        let moved = detached(py, || {
            let mut moved = Vec::new();
            let mut rows = Vec::new();
            for &(offset, deliveries) in &messages {
                let mut everything = Filter::new(Vec::new(), None);
                shared.source(offset).each(offset, offset + 1, &mut everything, |row| {
                    if let Ok(record) = readdressed(row, name, &properties, deliveries) {
                        moved.push((offset, row.record.len() as u64));
                        rows.push((meta_of(row), record));
                    }
                    ControlFlow::Break(())
                })?;
            }
            let mut turn = self.lock();
            rows.iter().for_each(|(meta, record)| turn.push(meta, record));
            Ok::<_, LogError>(moved)
        });
        moved.map_err(errors::store)
    }

    /// There was no room for the rows: what belongs to them goes, too.
    fn drop_rows(&self) {
        self.lock().drop_rows();
    }

    #[getter]
    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether it has nothing but what readers are done with: it need not be durable at once.
    #[getter]
    fn may_wait(&self) -> bool {
        self.lock().may_wait()
    }

    /// How many rows it has.
    #[getter]
    fn rows(&self) -> u32 {
        self.lock().rows().count()
    }

    /// Bytes of its rows.
    #[getter]
    fn bytes(&self) -> usize {
        self.lock().rows().bytes().len()
    }
}

/// What the log knows of a message.
pub fn meta_of(row: &Row<'_>) -> Meta {
    Meta { publisher: row.publisher, chain: row.chain, number: row.number, timestamp_us: row.timestamp_us }
}

fn readdressed(
    row: &Row<'_>,
    name: Topic<'_>,
    properties: &[(String, String)],
    deliveries: u32,
) -> Result<Vec<u8>, EncodeError> {
    let mut record = Vec::new();
    let Ok(message) = MessageView::parse(row.record).and_then(|view| view.to_outgoing()) else {
        // It cannot be read, and is kept as it is.
        return Ok(row.record.to_vec());
    };
    let mut writer = PropertiesWriter::new();
    for (name, value) in properties {
        writer.push(name, Scalar::Str(value))?;
    }
    writer.push("shoal_deliveries", Scalar::Int(i64::from(deliveries)))?;
    let is_new = |name: &str| name != "shoal_deliveries" && properties.iter().all(|(own, _)| own != name);
    for (name, value) in message.properties.iter().flatten() {
        if is_new(name) {
            writer.push(name, value)?;
        }
    }
    let mut message =
        Outgoing { destination: Destination::topic(name), properties: writer.properties(), ..message };
    message.fields.ttl_us = None;
    message.fields.delivery_delay_us = None;
    message.encode_into(&mut record)?;
    Ok(record)
}

/// Messages of a chain, from an offset on: their rows, and where to go on if there are more. They say how long the log had
/// them, where that counts.
pub fn rows_of_chain(
    shared: &Shared,
    (publisher, chain): (u64, u32),
    from: u64,
    bytes_max: usize,
) -> Result<(RowsWriter, Option<u64>), LogError> {
    let (end, floor) = shared.look(|log| (log.durable().end, log.floor()));
    let from = from.max(floor);
    let mut rows = RowsWriter::default();
    let mut next = None;
    let mut everything = Filter::new(Vec::new(), None);
    let now_us = shared.clock_us();
    shared.source(from).each(from, end, &mut everything, |row| {
        if (row.publisher, row.chain) == (publisher, chain) {
            if rows.bytes().len() + row.record.len() > bytes_max && !rows.is_empty() {
                next = Some(row.offset);
                return ControlFlow::Break(());
            }
            let aged = aged(row.record, Duration::from_micros(now_us.saturating_sub(row.stored_us)));
            rows.push(&meta_of(row), aged.as_deref().unwrap_or(row.record));
        }
        ControlFlow::Continue(())
    })?;
    Ok((rows, next))
}
