//! The store's log for Python. Everything that may wait does so without the interpreter's lock.

mod backlog;
pub mod disk;
mod hearing;
mod member;
mod publisher;
mod recorder;
mod turn;
mod verify;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use shoal_io::store::{LockError, MemoryDisk};
use shoal_log::{Change, Clock, CommitOutcome, Gap, Identity, LogError, Options, Query, RowsWriter};
use shoal_wire::TopicPattern;

use crate::bus::exit::{check, detached};
use crate::bus::fork::Birth;
use crate::bus::node::{SIGNAL_CHECK, deadline};
use crate::convert::duration;
use crate::errors;
use crate::selector::Selector;
use crate::staging::StagedRows;

pub use backlog::Backlog;
pub use disk::{Shared, SimulatedDisk};
pub use hearing::{Hearing, heard_rows};
pub use member::Member;
pub use publisher::{as_passed_on, publish_rows};
pub use recorder::{Lanes, Recorder};
pub use turn::{Turn, check_forwarded, check_rows, sift_forwarded};
pub use verify::verify_log;

use disk::AnyDisk;
use member::FoundingTuple;

/// Patterns as they are parsed.
pub fn patterns(texts: &[String]) -> PyResult<Vec<TopicPattern>> {
    texts.iter().map(|text| errors::checked_pattern(text)).collect()
}

/// Those of the topics that match one of the patterns.
#[pyfunction]
#[pyo3(signature = (patterns, topics))]
pub fn match_topics(patterns: Vec<String>, topics: Vec<String>) -> PyResult<Vec<String>> {
    let filter = shoal_log::Filter::new(self::patterns(&patterns)?, None);
    Ok(topics.into_iter().filter(|topic| filter.topic_matches(topic.as_bytes())).collect())
}

/// What a reader of history asks for.
pub fn query(
    start: u64,
    end: u64,
    topics: &[String],
    selector: Option<&Bound<'_, Selector>>,
) -> PyResult<Query> {
    let selector = selector.map(|selector| selector.get().inner().clone());
    Ok(Query { start, end, patterns: patterns(topics)?, selector })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How a log could not be opened.
pub(crate) enum OpenError {
    /// Its directory could not be had.
    Lock(LockError),
    /// Its files could not be read.
    Log(LogError),
}

fn opening(error: OpenError, path: &std::path::Path) -> PyErr {
    match error {
        OpenError::Lock(LockError::Held(holder)) => errors::store_locked(path, &holder),
        OpenError::Lock(LockError::Io(error)) => {
            errors::store(LogError::io(format!("opening {}", path.display()), error))
        }
        OpenError::Log(error) => errors::store(error),
    }
}

/// (offset of the message before, publisher, chain, first, last, count, stored, whether the store was away).
type GapTuple = (i64, u64, u32, Option<u64>, Option<u64>, u64, u64, bool);

/// (name, first offset not done, runs, (messages, bytes) that came, that are done, runs of messages delivered before).
type ReaderTuple = (String, u64, usize, (u64, u64), (u64, u64), usize);

/// (lane, publisher, chain, number, stored).
type MarkTuple = (u32, u64, u32, u64, u64);

/// (topic, count, first, last, bytes).
type TopicTuple = (String, u64, u64, u64, u64);

/// An open log. May be shared between threads.
#[pyclass(module = "shoal._core", frozen)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    birth: Birth,
    recovered: (bool, u64, u64, f64),
}

impl Log {
    /// The log, in the process that opened it.
    pub(crate) fn here(&self) -> PyResult<&Arc<Shared>> {
        self.birth.check()?;
        Ok(&self.shared)
    }

    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&Shared) -> Result<R, LogError> + Send,
    ) -> PyResult<R> {
        let shared = self.here()?;
        detached(py, || ask(shared)).map_err(errors::store)
    }

    fn opened((shared, found): (Shared, shoal_log::Recovery), began: Instant) -> Log {
        let recovered = (found.created, found.bytes_read, found.bytes_torn, began.elapsed().as_secs_f64());
        Log { shared: Arc::new(shared), birth: Birth::now(), recovered }
    }

    fn on(
        disk: Arc<AnyDisk>,
        store_id: u64,
        incarnation: [u8; 16],
        segment_bytes: u64,
        clock_us: Option<u64>,
    ) -> PyResult<Log> {
        let fresh = Identity { store: store_id, incarnation };
        let options = Options { segment_bytes, state_bytes_max: (segment_bytes / 2) as usize };
        let began = Instant::now();
        let buffer_bytes_max = (segment_bytes as usize).max(64 << 10);
        let opened = Shared::on(disk, options, buffer_bytes_max, fresh, clock_us).map_err(errors::store)?;
        Ok(Log::opened(opened, began))
    }

    fn change(&self, py: Python<'_>, changes: Vec<Change>) -> PyResult<()> {
        self.ask(py, |shared| shared.with(|log, now| log.change(now, changes)))
    }
}

#[pymethods]
impl Log {
    /// Locks a directory and opens the log in it, or makes one. `holder` tells others who has it.
    #[new]
    #[pyo3(signature = (
        path, *, store_id, incarnation, holder = "", segment_bytes = 64 << 20, buffer_bytes_max = 8 << 20,
        state_bytes_max = 8 << 20
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        store_id: u64,
        incarnation: [u8; 16],
        holder: &str,
        segment_bytes: u64,
        buffer_bytes_max: usize,
        state_bytes_max: usize,
    ) -> PyResult<Log> {
        let fresh = Identity { store: store_id, incarnation };
        let options = Options { segment_bytes, state_bytes_max };
        let began = Instant::now();
        let opened = detached(py, || {
            let disk = Arc::new(AnyDisk::lock(&path, holder).map_err(OpenError::Lock)?);
            Shared::on(disk, options, buffer_bytes_max, fresh, None).map_err(OpenError::Log)
        });
        Ok(Log::opened(opened.map_err(|error| opening(error, &path))?, began))
    }

    /// A log in memory, which has room for so many bytes.
    #[staticmethod]
    #[pyo3(signature = (*, store_id, incarnation, bytes_max, segment_bytes = 8 << 20))]
    fn in_memory(store_id: u64, incarnation: [u8; 16], bytes_max: u64, segment_bytes: u64) -> PyResult<Log> {
        let disk = Arc::new(AnyDisk::Memory(MemoryDisk::new(bytes_max)));
        Log::on(disk, store_id, incarnation, segment_bytes, None)
    }

    /// A log on a simulated disk, where it is the time that it is told.
    #[staticmethod]
    #[pyo3(signature = (disk, *, store_id, incarnation, segment_bytes, clock_us))]
    fn simulated(
        disk: &SimulatedDisk,
        store_id: u64,
        incarnation: [u8; 16],
        segment_bytes: u64,
        clock_us: u64,
    ) -> PyResult<Log> {
        let disk = Arc::new(AnyDisk::Simulated(disk.disk.clone()));
        Log::on(disk, store_id, incarnation, segment_bytes, Some(clock_us))
    }

    /// Locks a directory and opens the log of a member of a group in it. One that has no log yet
    /// needs `founding`, what the first members agreed on: (store, incarnation, members, microseconds since 1970); or the store
    /// that it `joins`.
    #[staticmethod]
    #[pyo3(signature = (
        path, *, member, founding = None, joins = None, holder = "", segment_bytes = 64 << 20, buffer_bytes_max = 8 << 20,
        state_bytes_max = 8 << 20, election_s = 1.0
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn of_member(
        py: Python<'_>,
        path: PathBuf,
        member: u64,
        founding: Option<FoundingTuple>,
        joins: Option<u64>,
        holder: &str,
        segment_bytes: u64,
        buffer_bytes_max: usize,
        state_bytes_max: usize,
        election_s: f64,
    ) -> PyResult<Log> {
        let options = Options { segment_bytes, state_bytes_max };
        let member = member::options(member, founding, joins, election_s, member)?;
        let began = Instant::now();
        let opened = detached(py, || {
            let disk = Arc::new(AnyDisk::lock(&path, holder).map_err(OpenError::Lock)?);
            Shared::on_member(disk, options, buffer_bytes_max, member, None).map_err(OpenError::Log)
        });
        Ok(Log::opened(opened.map_err(|error| opening(error, &path))?, began))
    }

    /// Lets the last disk of a group go on alone, as another member: the offset after its last message, and when its last frame
    /// was made, microseconds since 1970.
    #[staticmethod]
    #[pyo3(signature = (path, *, member, holder = "", segment_bytes = 64 << 20, state_bytes_max = 8 << 20))]
    fn force_member(
        py: Python<'_>,
        path: PathBuf,
        member: u64,
        holder: &str,
        segment_bytes: u64,
        state_bytes_max: usize,
    ) -> PyResult<(u64, u64)> {
        let options = Options { segment_bytes, state_bytes_max };
        let forced = detached(py, || {
            let disk = Arc::new(AnyDisk::lock(&path, holder).map_err(OpenError::Lock)?);
            Shared::force(disk, options, member).map_err(OpenError::Log)
        });
        forced.map_err(|error| opening(error, &path))
    }

    /// The log of a member on a simulated disk, where it is the time that it is told.
    #[staticmethod]
    #[pyo3(signature = (disk, *, member, founding, joins = None, segment_bytes, clock_us, election_s, seed))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn simulated_member(
        disk: &SimulatedDisk,
        member: u64,
        founding: Option<FoundingTuple>,
        joins: Option<u64>,
        segment_bytes: u64,
        clock_us: u64,
        election_s: f64,
        seed: u64,
    ) -> PyResult<Log> {
        let disk = Arc::new(AnyDisk::Simulated(disk.disk.clone()));
        let options = Options { segment_bytes, state_bytes_max: (segment_bytes / 2) as usize };
        let member = member::options(member, founding, joins, election_s, seed)?;
        let buffer_bytes_max = (segment_bytes as usize).max(64 << 10);
        let began = Instant::now();
        let opened = Shared::on_member(disk, options, buffer_bytes_max, member, Some(clock_us));
        Ok(Log::opened(opened.map_err(errors::store)?, began))
    }

    /// From now on it is this time, microseconds since 1970. For simulations.
    fn set_clock_us(&self, clock_us: u64) -> PyResult<()> {
        self.here()?.set_clock_us(clock_us);
        Ok(())
    }

    /// What time it is for the log, microseconds since 1970.
    #[getter]
    fn clock_us(&self) -> PyResult<u64> {
        Ok(self.here()?.clock_us())
    }

    /// Appends all of a turn in one frame, and empties it: (first, end). It is durable after `sync`.
    fn append_turn(&self, py: Python<'_>, turn: &Turn) -> PyResult<(u64, u64)> {
        let appended = self.ask(py, |shared| turn.append(shared))?;
        Ok((appended.first, appended.end))
    }

    /// The highest number that is stored of a publisher's chain; 0 if none is.
    fn chain(&self, publisher: u64, chain: u32) -> PyResult<u64> {
        Ok(self
            .here()?
            .look(|log| log.state().chains().get(publisher, chain).map_or(0, |found| found.number)))
    }

    /// A hash of what the publisher of a chain alone knows; 0 if the chain has no owner.
    fn chain_owner(&self, publisher: u64, chain: u32) -> PyResult<u64> {
        Ok(self.here()?.look(|log| log.state().chains().get(publisher, chain).map_or(0, |found| found.owner)))
    }

    /// What consumers of a reader were granted, of messages that are not done: (first offset, end offset, lease).
    fn grants(&self, reader: &str) -> PyResult<Vec<(u64, u64, u64)>> {
        Ok(self.here()?.look(|log| {
            let reader = log.state().readers().get(reader);
            let granted = reader.into_iter().flat_map(|reader| reader.granted.iter());
            granted.map(|(run, lease)| (run.start, run.end, lease)).collect()
        }))
    }

    /// How often messages of a reader that are not done were given out: (first offset, end offset, count).
    fn deliveries(&self, reader: &str) -> PyResult<Vec<(u64, u64, u32)>> {
        Ok(self.here()?.look(|log| {
            let reader = log.state().readers().get(reader);
            let delivered = reader.into_iter().flat_map(|reader| reader.delivered.iter());
            delivered.map(|(run, delivery)| (run.start, run.end, delivery.count)).collect()
        }))
    }

    /// What readers have behind them, those whose name begins so: (name, first offset not done, runs, messages and bytes
    /// that came, messages and bytes that are done, runs of messages delivered before).
    fn readers(&self, prefix: &str) -> PyResult<Vec<ReaderTuple>> {
        Ok(self.here()?.look(|log| {
            let readers = log.state().readers().iter().filter(|(name, _)| name.starts_with(prefix));
            readers
                .map(|(name, reader)| {
                    let (runs, delivered) = (reader.done.runs(), reader.delivered.runs());
                    (name.to_owned(), reader.base(), runs, reader.came, reader.gone, delivered)
                })
                .collect()
        }))
    }

    /// Whether offsets that readers are done with come in more runs than the state has room for.
    #[getter]
    fn is_scattered(&self) -> PyResult<bool> {
        Ok(self.here()?.look(|log| log.is_scattered()))
    }

    /// About how long the state is, and how long it may be.
    #[getter]
    fn state_bytes(&self) -> PyResult<(usize, usize)> {
        Ok(self.here()?.look(|log| (log.state().bytes(), log.options().state_bytes_max)))
    }

    /// Messages of a publisher and chain, from an offset on: their rows, and where to go on if there are more.
    fn rows_of_chain<'py>(
        &self,
        py: Python<'py>,
        chain: (u64, u32),
        start: u64,
        bytes_max: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Option<u64>)> {
        let (rows, next) = self.ask(py, |shared| turn::rows_of_chain(shared, chain, start, bytes_max))?;
        Ok((PyBytes::new(py, rows.bytes()), next))
    }

    /// What opening found: (made anew, bytes read, bytes of a torn tail, seconds).
    #[getter]
    fn recovered(&self) -> (bool, u64, u64, f64) {
        self.recovered
    }

    #[getter]
    fn store_id(&self) -> PyResult<u64> {
        Ok(self.here()?.look(shoal_log::Log::store))
    }

    #[getter]
    fn incarnation(&self) -> PyResult<String> {
        Ok(hex(&self.here()?.look(shoal_log::Log::incarnation)))
    }

    #[getter]
    fn floor(&self) -> PyResult<u64> {
        Ok(self.here()?.look(shoal_log::Log::floor))
    }

    #[getter]
    fn end(&self) -> PyResult<u64> {
        Ok(self.here()?.look(shoal_log::Log::end))
    }

    #[getter]
    fn durable_end(&self) -> PyResult<u64> {
        Ok(self.here()?.look(|log| log.durable().end))
    }

    /// Whether everything that was appended is durable.
    #[getter]
    fn is_settled(&self) -> PyResult<bool> {
        Ok(self.here()?.look(shoal_log::Log::is_settled))
    }

    /// Up to where it is durable: (segment, position, offset).
    #[getter]
    fn durable(&self) -> PyResult<(u32, u64, u64)> {
        let durable = self.here()?.look(shoal_log::Log::durable);
        Ok((durable.segment, durable.position, durable.end))
    }

    /// Why it takes nothing more, if it does not.
    #[getter]
    fn failure(&self) -> PyResult<Option<String>> {
        Ok(self.here()?.look(|log| log.failure().map(str::to_owned)))
    }

    /// Appends records: pairs of a timestamp and a message as it travels. As what the recorder of a pattern appends, they
    /// raise its marks.
    #[pyo3(signature = (publisher, chain, records, *, pattern = None))]
    fn append(
        &self,
        py: Python<'_>,
        publisher: u64,
        chain: u32,
        records: Vec<(Option<u64>, u64, PyBackedBytes)>,
        pattern: Option<&str>,
    ) -> PyResult<(u64, u64)> {
        let pattern = pattern.map(errors::checked_pattern).transpose()?;
        self.ask(py, |shared| {
            let mut rows = RowsWriter::default();
            for (number, timestamp_us, record) in &records {
                let meta = shoal_log::Meta { publisher, chain, number: *number, timestamp_us: *timestamp_us };
                rows.push(&meta, record);
            }
            let highest = records.iter().filter_map(|(number, ..)| *number).max();
            if let (Some(pattern), Some(highest)) = (pattern, highest) {
                let lane = shoal_log::lane_of(&pattern);
                let key = shoal_log::MarkKey { lane, publisher, chain };
                return shared.append_recorded(&rows, &[(key, highest)]);
            }
            shared.append(&rows)
        })
    }

    /// Notes that messages are lost.
    #[pyo3(signature = (publisher, chain, first = None, last = None, count = 0, *, away = false))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn gap(
        &self,
        py: Python<'_>,
        publisher: u64,
        chain: u32,
        first: Option<u64>,
        last: Option<u64>,
        count: u64,
        away: bool,
    ) -> PyResult<()> {
        let gap = Gap { publisher, chain, first, last, count, away };
        self.ask(py, |shared| shared.with(|log, now| log.append_gap(now, &gap)))
    }

    /// How far each chain is recorded: (lane, publisher, chain, number, stored), and up to which offset that is complete.
    fn marks(&self) -> PyResult<(u64, Vec<MarkTuple>)> {
        Ok(self.here()?.look(|log| {
            let marks = log.state().marks();
            let tuple = |(key, mark): (shoal_log::MarkKey, shoal_log::Mark)| {
                (key.lane, key.publisher, key.chain, mark.number, mark.stored_us)
            };
            (marks.covered(), marks.iter().map(tuple).collect())
        }))
    }

    /// Returns when everything that was appended before is durable.
    fn sync(&self, py: Python<'_>) -> PyResult<u64> {
        self.ask(py, Shared::sync)
    }

    /// Waits until something was appended, and makes it durable. False if nothing was, in time.
    fn sync_next(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let limit = duration("timeout_s", timeout_s)?;
        let synced = self.ask(py, |shared| shared.sync_next(limit));
        check(py)?;
        synced
    }

    /// Waits until a message behind `offset` is durable; the offset after the last one.
    #[pyo3(signature = (offset, timeout_s = None))]
    fn wait_for(&self, py: Python<'_>, offset: u64, timeout_s: Option<f64>) -> PyResult<u64> {
        let deadline = deadline(timeout_s)?;
        loop {
            let slice = Instant::now() + SIGNAL_CHECK;
            let until = deadline.map_or(slice, |at| at.min(slice));
            let end = self.ask(py, |shared| shared.wait_for(offset, until))?;
            if end > offset || deadline.is_some_and(|at| at <= Instant::now()) || self.here()?.is_closed() {
                return Ok(end);
            }
            check(py)?;
        }
    }

    /// Adds rows to a staging, which the first of them begins.
    fn stage(&self, py: Python<'_>, id: &str, rows: &StagedRows) -> PyResult<()> {
        self.ask(py, |shared| shared.stage(id, &rows.rows))
    }

    /// Makes stagings visible, and returns when they are durable: (first, end, repeated).
    #[pyo3(signature = (scope, number, stagings))]
    fn commit(
        &self,
        py: Python<'_>,
        scope: Option<&str>,
        number: u64,
        stagings: Vec<String>,
    ) -> PyResult<(i64, i64, bool)> {
        let ids: Vec<&str> = stagings.iter().map(String::as_str).collect();
        Ok(match self.ask(py, |shared| shared.commit(scope, number, &ids))? {
            CommitOutcome::Done(first, end) => (first as i64, end as i64, false),
            CommitOutcome::Repeated(first, end) => (first as i64, end as i64, true),
            CommitOutcome::Older => (-1, -1, true),
        })
    }

    /// Forgets stagings; how many there were.
    fn discard(&self, py: Python<'_>, stagings: Vec<String>) -> PyResult<usize> {
        self.ask(py, |shared| {
            shared.with(|log, now| {
                let known = |id: &String| log.state().staging(id).is_some();
                let changes: Vec<_> = stagings.into_iter().filter(known).map(Change::Discard).collect();
                let count = changes.len();
                if count > 0 {
                    log.change(now, changes)?;
                }
                Ok(count)
            })
        })
    }

    /// Open stagings: (id, rows, bytes, when the last rows came).
    fn stagings(&self) -> PyResult<Vec<(String, u64, u64, u64)>> {
        Ok(self.here()?.look(|log| {
            let one = |(id, staging): (&str, &shoal_log::Staging)| {
                (id.to_owned(), staging.rows(), staging.bytes(), staging.stored_us)
            };
            log.state().stagings().map(one).collect()
        }))
    }

    /// Every scope and its last commit: (scope, number, first, end).
    fn scopes(&self) -> PyResult<Vec<(String, u64, u64, u64)>> {
        Ok(self.here()?.look(|log| {
            let scopes = log.state().scopes();
            scopes.map(|(scope, last)| (scope.to_owned(), last.number, last.first, last.end)).collect()
        }))
    }

    /// Remembers nothing of a scope any more; whether there was anything.
    fn forget(&self, py: Python<'_>, scope: String) -> PyResult<bool> {
        let known = self.here()?.look(|log| log.state().committed(&scope).is_some());
        if known {
            self.change(py, vec![Change::Forget(scope)])?;
        }
        Ok(known)
    }

    /// Runs of committed rows that are durable and still to be published: (first, end).
    fn unpublished(&self) -> PyResult<Vec<(u64, u64)>> {
        Ok(self.here()?.look(|log| log.unpublished().collect()))
    }

    /// Notes that committed rows below an offset are published.
    fn set_published(&self, py: Python<'_>, offset: u64) -> PyResult<()> {
        self.change(py, vec![Change::Published(offset)])
    }

    /// Keeps a value under a key, or removes it.
    #[pyo3(signature = (key, value))]
    fn put(&self, py: Python<'_>, key: String, value: Option<Vec<u8>>) -> PyResult<()> {
        let change = match value {
            Some(value) => Change::Put(key, value),
            None => Change::Remove(key),
        };
        self.change(py, vec![change])
    }

    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.here()?.look(|log| log.state().value(key).map(<[u8]>::to_vec));
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// Keys that begin so, and their values.
    fn items<'py>(&self, py: Python<'py>, prefix: &str) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
        let found: Vec<_> = self.here()?.look(|log| {
            let values = log.state().values(prefix);
            values.map(|(key, value)| (key.to_owned(), value.to_vec())).collect()
        });
        Ok(found.into_iter().map(|(key, value)| (key, PyBytes::new(py, &value))).collect())
    }

    /// Rows one by one, for tests and small questions: (offset, stored, publisher, chain, number, timestamp, record).
    #[pyo3(signature = (start, end, patterns = Vec::new(), selector = None, rows_max = 1000))]
    #[allow(clippy::type_complexity, reason = "a tuple in Python")]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        end: u64,
        patterns: Vec<String>,
        selector: Option<&Bound<'_, Selector>>,
        rows_max: usize,
    ) -> PyResult<Vec<(u64, u64, u64, u32, Option<u64>, u64, Bound<'py, PyBytes>)>> {
        let query = query(start, end, &patterns, selector)?;
        let mut cursor = self.ask(py, |shared| shared.cursor(&query))?;
        let mut rows = Vec::new();
        while rows.len() < rows_max
            && let Some(row) = cursor.next().map_err(errors::store)?
        {
            let record = PyBytes::new(py, row.record);
            rows.push((
                row.offset,
                row.stored_us,
                row.publisher,
                row.chain,
                row.number,
                row.timestamp_us,
                record,
            ));
        }
        Ok(rows)
    }

    /// Counts what matches, up to so many rows and bytes: (offset after the last, rows, bytes).
    #[pyo3(signature = (start, end, patterns, selector = None, rows_max = u64::MAX, bytes_max = u64::MAX))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn extent(
        &self,
        py: Python<'_>,
        start: u64,
        end: u64,
        patterns: Vec<String>,
        selector: Option<&Bound<'_, Selector>>,
        rows_max: u64,
        bytes_max: u64,
    ) -> PyResult<(u64, u64, u64)> {
        let query = query(start, end, &patterns, selector)?;
        let extent = self.ask(py, |shared| shared.extent(&query, rows_max, bytes_max))?;
        Ok((extent.end, extent.rows, extent.bytes))
    }

    /// Cuts a range into parts with about as many messages each.
    fn split(
        &self,
        py: Python<'_>,
        start: u64,
        end: u64,
        patterns: Vec<String>,
        parts: usize,
    ) -> PyResult<Vec<(u64, u64)>> {
        let query = query(start, end, &patterns, None)?;
        self.ask(py, |shared| shared.split(&query, parts))
    }

    /// The first offset stored, or published, at a time or later.
    #[pyo3(signature = (time_us, by = "stored"))]
    fn offset_at(&self, py: Python<'_>, time_us: u64, by: &str) -> PyResult<u64> {
        let clock = match by {
            "stored" => Clock::Stored,
            "published" => Clock::Published,
            _ => return Err(errors::config(format!("by is {by:?}, and must be stored or published"))),
        };
        self.ask(py, |shared| shared.offset_at(time_us, clock))
    }

    /// Topics between two offsets: (topic, count, first, last).
    fn topics(
        &self,
        py: Python<'_>,
        start: u64,
        end: u64,
        patterns: Vec<String>,
    ) -> PyResult<Vec<(String, u64, u64, u64)>> {
        let query = query(start, end, &patterns, None)?;
        let found = self.ask(py, |shared| shared.topics(&query))?;
        let named = |topic: shoal_log::TopicEntry| {
            (String::from_utf8_lossy(&topic.name).into_owned(), topic.count, topic.first, topic.last)
        };
        Ok(found.into_iter().map(named).collect())
    }

    /// Gaps between two offsets, both included.
    fn gaps(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<Vec<GapTuple>> {
        let found = self.ask(py, |shared| shared.gaps(start, end))?;
        let tuple = |row: shoal_log::GapRow| {
            let gap = row.gap;
            let before = row.offset as i64 - 1;
            (before, gap.publisher, gap.chain, gap.first, gap.last, gap.count, row.stored_us, gap.away)
        };
        Ok(found.into_iter().map(tuple).collect())
    }

    /// The segments, oldest first.
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let segments: Vec<_> = self.here()?.look(|log| {
            let dead = |segment: &shoal_log::Segment| log.dead_bytes(segment.number);
            log.segments().into_iter().map(|segment| (dead(&segment), segment)).collect()
        });
        segments.iter().map(|(dead, segment)| segment_to_python(py, segment, *dead)).collect()
    }

    /// How long the segments are together.
    #[getter]
    fn used_bytes(&self) -> PyResult<u64> {
        Ok(self.here()?.look(|log| log.segments().iter().map(|segment| segment.end_position).sum()))
    }

    /// Makes the next index that is missing. False if there is none.
    fn build_next_index(&self, py: Python<'_>) -> PyResult<bool> {
        self.ask(py, Shared::build_next_index)
    }

    /// What making durable has cost so far: (syncs, bytes, seconds, longest, last).
    fn sync_stats(&self) -> PyResult<(u64, u64, f64, f64, f64)> {
        let stats = self.here()?.sync_stats();
        let seconds = Duration::as_secs_f64;
        Ok((stats.count, stats.bytes, seconds(&stats.total), seconds(&stats.longest), seconds(&stats.last)))
    }

    /// Makes spare segments, if some are missing and the disk has room.
    fn fill_spares(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, |shared| shared.with(|log, _| log.fill_spares()))
    }

    /// Lets history begin at the start of a segment, at the most at this offset: (floor, segments that are gone).
    fn trim(&self, py: Python<'_>, offset: u64) -> PyResult<(u64, Vec<u32>)> {
        self.ask(py, |shared| shared.trim(offset))
    }

    /// Writes a segment anew without the messages on these topics; false if nothing of it went.
    fn compact(&self, py: Python<'_>, segment: u32, topics: Vec<String>) -> PyResult<bool> {
        let topics: HashSet<_> = topics.into_iter().map(String::into_bytes).collect();
        self.ask(py, |shared| shared.compact(segment, &topics))
    }

    /// Lets the next message begin a new segment.
    fn seal(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, |shared| shared.with(shoal_log::Log::seal))
    }

    /// The topics of a segment: (topic, count, first, last, bytes).
    fn segment_topics(&self, py: Python<'_>, segment: u32) -> PyResult<Vec<TopicTuple>> {
        let found = self.ask(py, |shared| shared.segment_topics(segment))?;
        let named = |one: shoal_log::TopicEntry| {
            let name = String::from_utf8_lossy(&one.name).into_owned();
            (name, one.count, one.first, one.last, one.bytes)
        };
        Ok(found.into_iter().map(named).collect())
    }

    /// Segments made in advance: (how many, bytes).
    #[getter]
    fn spares(&self) -> PyResult<(usize, u64)> {
        Ok(self.here()?.look(shoal_log::Log::spares))
    }

    /// Proves that everything before was durable.
    fn mark(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, |shared| shared.with(shoal_log::Log::mark))
    }

    /// Begins a new incarnation: the store was restored.
    fn renew(&self, py: Python<'_>, incarnation: [u8; 16]) -> PyResult<()> {
        self.ask(py, |shared| shared.renew(incarnation))
    }

    /// Makes everything durable, and lets somebody else have the directory.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.birth.is_here() {
            return Ok(());
        }
        let closed = detached(py, || self.shared.close()).map_err(errors::store)?;
        if closed {
            self.shared.disk().unlock();
        }
        Ok(())
    }
}

fn segment_to_python<'py>(
    py: Python<'py>,
    segment: &shoal_log::Segment,
    dead: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("number", segment.number)?;
    dict.set_item("first", segment.first_offset)?;
    dict.set_item("end", segment.end_offset)?;
    dict.set_item("begun_us", segment.begun_us)?;
    dict.set_item("ended_us", segment.ended_us)?;
    dict.set_item("bytes", segment.end_position)?;
    dict.set_item("sealed", segment.sealed)?;
    dict.set_item("compacted", segment.compacted)?;
    dict.set_item("dead_bytes", dead)?;
    Ok(dict)
}
