//! What a queue or a subscription has to deliver, for Python: the kernel, and the log that it reads.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shoal_log::{BacklogOptions, Cache, Facts, Filter, Finished, LogError, Reader, RowsWriter};
use shoal_wire::TopicPattern;

use super::turn::meta_of;
use super::{Log, Shared, patterns};
use crate::bus::exit::detached;
use crate::errors;
use crate::selector::Selector;

/// Once messages that were looked at and are not delivered yet have so many bytes, no more are read.
const CACHE_BYTES_MAX: usize = 1 << 20;
/// Offsets that a consumer with a selector looks at in one go.
const SELECT_OFFSETS_MAX: u64 = 5000;
/// Offsets among which is looked for messages that are there, in one call.
const SHOWN_OFFSETS_MAX: u64 = 50_000;
/// Messages that lie closer together are read in one pass.
const PASS_OFFSETS_MAX: u64 = 2000;
/// Rows that are read in one go while messages are counted.
const MEASURE_ROWS: usize = 100_000;
/// Messages that wait for their time, at the most.
const WAITING_MAX: usize = 1_000_000;

/// Messages given out: the offset of the first, rows, how often each was given out where that is not once, how long each may
/// live that expires, messages, bytes, and what is granted, as runs.
type Batch<'py> = (u64, Bound<'py, PyBytes>, Vec<(u64, u32)>, Vec<(u64, u64)>, usize, usize, Vec<(u64, u64)>);

/// The first offset, rows, where to go on, and the next lower priority.
type BrowsedTuple<'py> = (u64, Bound<'py, PyBytes>, Option<u64>, Option<u8>);

/// Runs of offsets, both ends included, and where to go on.
type ShownTuple = (Vec<(u64, u64)>, Option<u64>);

/// (runs, messages, bytes).
type FinishedTuple = (Vec<(u64, u64)>, u64, u64);

struct Given {
    first: u64,
    rows: RowsWriter,
    counts: Vec<(u64, u32)>,
    lives: Vec<(u64, u64)>,
    offsets: Vec<u64>,
}

struct Reading {
    backlog: shoal_log::Backlog,
    patterns: Vec<TopicPattern>,
    filter: Filter,
    /// Publishers whose messages are not wanted.
    unless: HashSet<u64>,
    selectors: HashMap<u64, Filter>,
    cache: Cache,
    /// Up to here urgent messages behind the window were looked for.
    ahead: u64,
    /// Messages that retention removed, or that could not be read.
    lost: u64,
}

/// A queue or a subscription. For one thread at a time.
#[pyclass(module = "shoal._core", frozen)]
pub struct Backlog {
    shared: Arc<Shared>,
    reading: Mutex<Reading>,
}

fn finished(finished: Finished) -> FinishedTuple {
    (finished.runs, finished.messages, finished.bytes)
}

impl Reading {
    /// Reads on until the window is full, so many rows were read, or the log ends. Whether there is more.
    fn scan(&mut self, shared: &Shared, now_us: u64, rows_max: usize, keep: bool) -> Result<bool, LogError> {
        let Reading { backlog, filter, unless, cache, lost, .. } = self;
        let from = backlog.scanned();
        let source = shared.source(from);
        let mut rows = 0;
        let reached = source.each(from, u64::MAX, filter, |row| {
            rows += 1;
            let is_new = !unless.contains(&row.publisher) && backlog.see(&Facts::of(row), now_us);
            if is_new && keep {
                cache.put(row);
            }
            let has_read_enough = rows >= rows_max || cache.bytes() >= CACHE_BYTES_MAX;
            let is_enough = backlog.is_full() || has_read_enough;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match reached {
            Ok(reached) => backlog.pass_to(reached),
            Err(LogError::Trimmed { floor, .. }) => {
                *lost += 1;
                backlog.pass_to(floor);
            }
            Err(LogError::Corrupt { end, .. }) if end > from => {
                *lost += end - from;
                backlog.pass_to(end);
            }
            Err(error) => return Err(error),
        }
        Ok(backlog.scanned() < source.end() && !backlog.is_full())
    }

    /// Looks at so many rows behind the window for urgent messages. Whether there is more to look at.
    fn look_ahead(&mut self, shared: &Shared, now_us: u64, rows_max: usize) -> Result<bool, LogError> {
        let Reading { backlog, filter, unless, ahead, .. } = self;
        let from = (*ahead).max(backlog.scanned());
        let source = shared.source(from);
        if from >= source.end() || !backlog.is_full() || !backlog.has_room_ahead() {
            return Ok(false);
        }
        let mut rows = 0;
        let reached = source.each(from, u64::MAX, filter, |row| {
            rows += 1;
            if !unless.contains(&row.publisher) {
                backlog.see_ahead(&Facts::of(row), now_us);
            }
            let is_enough = rows >= rows_max || !backlog.has_room_ahead();
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match reached {
            Ok(reached) => *ahead = reached,
            // What cannot be read is told when everything before it was.
            Err(LogError::Trimmed { .. } | LogError::Corrupt { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(*ahead < source.end() && backlog.has_room_ahead())
    }

    /// Messages that are not done, their bytes, and how many of them lie behind the window: it reads on as far as there is room,
    /// and then through all that is behind.
    fn measure(&mut self, shared: &Shared, now_us: u64) -> Result<(u64, u64, u64), LogError> {
        while self.scan(shared, now_us, MEASURE_ROWS, false)? {}
        let Reading { backlog, filter, unless, .. } = self;
        let (mut messages, mut bytes) = backlog.known();
        let mut behind = 0;
        let from = backlog.scanned();
        let measured = shared.source(from).each(from, u64::MAX, filter, |row| {
            if !unless.contains(&row.publisher) && !backlog.is_known_ahead(row.offset) {
                messages += 1;
                bytes += row.record.len() as u64;
                behind += 1;
            }
            ControlFlow::Continue(())
        });
        match measured {
            Ok(_) | Err(LogError::Trimmed { .. } | LogError::Corrupt { .. }) => Ok((messages, bytes, behind)),
            Err(error) => Err(error),
        }
    }

    /// Messages for a consumer with a selector: looks at some more of the log. Also whether there is more to look at.
    fn select(
        &mut self,
        shared: &Shared,
        consumer: u64,
        now_us: u64,
        messages_max: usize,
        bytes_max: u64,
        oldest: bool,
    ) -> Result<(Vec<u64>, bool), LogError> {
        let Reading { backlog, selectors, unless, cache, .. } = self;
        let Some(filter) = selectors.get_mut(&consumer) else { return Ok((Vec::new(), false)) };
        // The place stays where it is while only the oldest ones are given out.
        let from = if oldest { backlog.pin() } else { backlog.place(consumer) };
        let to = if oldest { backlog.oldest_end() } else { from + SELECT_OFFSETS_MAX };
        let source = shared.source(from);
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let reached = source.each(from, to, filter, |row| {
            if !unless.contains(&row.publisher) && backlog.take_one(consumer, &Facts::of(row), now_us) {
                cache.put(row);
                taken.push(row.offset);
                bytes += row.record.len() as u64;
            }
            let is_enough = taken.len() >= messages_max || bytes >= bytes_max;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if oldest {
            return Ok((taken, false));
        }
        backlog.set_place(consumer, reached);
        Ok((taken, reached < source.end()))
    }

    /// Puts messages together that were taken, in their order: what ascends goes into one batch.
    fn gather(&mut self, shared: &Shared, offsets: &[u64], now_us: u64) -> Result<Vec<Given>, LogError> {
        self.read(shared, offsets)?;
        let mut batches: Vec<Given> = Vec::new();
        let (mut next, mut missing) = (0, Vec::new());
        for &offset in offsets {
            if !self.cache.has(offset) {
                missing.push(offset);
                continue;
            }
            if batches.is_empty() || offset < next {
                let (rows, counts, lives) = (RowsWriter::default(), Vec::new(), Vec::new());
                batches.push(Given { first: offset, rows, counts, lives, offsets: Vec::new() });
                next = offset;
            }
            let Some(batch) = batches.last_mut() else { continue };
            self.cache.take(offset, |meta, record| batch.rows.push_after(offset - next, meta, record));
            next = offset + 1;
            batch.offsets.push(offset);
            let count = self.backlog.delivery_of(offset);
            if count != 1 {
                batch.counts.push((offset, count));
            }
            if count == 0 {
                self.backlog.keep_mark(offset);
            }
            batch.lives.extend(self.backlog.life_us(offset, now_us).map(|left_us| (offset, left_us)));
        }
        // They are gone, and nobody can have them.
        self.lost += missing.len() as u64;
        self.backlog.finish(&missing);
        Ok(batches)
    }

    /// Reads messages that are not in the cache.
    fn read(&mut self, shared: &Shared, offsets: &[u64]) -> Result<(), LogError> {
        let mut missing: Vec<u64> =
            offsets.iter().copied().filter(|offset| !self.cache.has(*offset)).collect();
        missing.sort_unstable();
        let mut topics = Filter::new(self.patterns.clone(), None);
        let mut left = &missing[..];
        while let Some(&first) = left.first() {
            let near = |pair: &[u64]| pair[1] - pair[0] <= PASS_OFFSETS_MAX;
            let count = left.windows(2).take_while(|pair| near(pair)).count() + 1;
            let (now, later) = left.split_at(count);
            let last = now[count - 1];
            let cache = &mut self.cache;
            let mut wanted = now.iter().copied().peekable();
            let read = shared.source(first).each(first, last + 1, &mut topics, |row| {
                while wanted.next_if(|&offset| offset < row.offset).is_some() {}
                if wanted.next_if_eq(&row.offset).is_some() {
                    cache.put(row);
                }
                if wanted.peek().is_none() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            match read {
                Ok(_) | Err(LogError::Trimmed { .. } | LogError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
            left = later;
        }
        Ok(())
    }
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Backlog {
    /// The backlog of a reader of the log: messages that match one of the patterns and the selector, except those of some
    /// publishers. All of its consumers are absent.
    #[new]
    #[pyo3(signature = (
        log, reader, *, patterns, selector = None, unless = Vec::new(), window = 65_536, by_priority = true
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        log: &Log,
        reader: &str,
        patterns: Vec<String>,
        selector: Option<&Bound<'_, Selector>>,
        unless: Vec<u64>,
        window: usize,
        by_priority: bool,
    ) -> PyResult<Backlog> {
        let patterns = self::patterns(&patterns)?;
        let shared = log.here()?.clone();
        let reader = shared.look(|log| log.state().readers().get(reader).cloned());
        let options = BacklogOptions { window, waiting_max: WAITING_MAX, by_priority };
        let selector = selector.map(|selector| selector.get().inner().clone());
        let reading = Reading {
            backlog: shoal_log::Backlog::new(options, &reader.unwrap_or_else(Reader::default)),
            filter: Filter::new(patterns.clone(), selector),
            patterns,
            unless: unless.into_iter().collect(),
            selectors: HashMap::new(),
            cache: Cache::default(),
            ahead: 0,
            lost: 0,
        };
        Ok(Backlog { shared, reading: Mutex::new(reading) })
    }

    /// A consumer begins, perhaps with a selector of its own.
    #[pyo3(signature = (consumer, selector = None))]
    fn attach(&self, consumer: u64, selector: Option<&Bound<'_, Selector>>) {
        let mut reading = self.lock();
        reading.backlog.attach(consumer);
        if let Some(selector) = selector {
            let filter = Filter::new(reading.patterns.clone(), Some(selector.get().inner().clone()));
            reading.selectors.insert(consumer, filter);
        }
    }

    /// A consumer ends, and what it has goes back: (offset, how often given out) of what it has seen.
    fn detach(&self, consumer: u64, unseen: Vec<(u64, u64)>, now_us: u64) -> Vec<(u64, u32)> {
        let mut reading = self.lock();
        reading.selectors.remove(&consumer);
        reading.backlog.detach(consumer, &unseen, now_us)
    }

    /// A consumer is gone without a word, and what it has goes back: (offset, how often handed over) of what it said that
    /// it handed over. The rest may have been handed over under its lease.
    fn abandon(&self, consumer: u64, lease: u64, now_us: u64) -> Vec<(u64, u32)> {
        let mut reading = self.lock();
        reading.selectors.remove(&consumer);
        reading.backlog.abandon(consumer, lease, now_us)
    }

    /// A consumer handed what it has of these runs, both ends included, to its program.
    fn hand_over(&self, consumer: u64, runs: Vec<(u64, u64)>) {
        self.lock().backlog.hand_over(consumer, &runs);
    }

    /// A commit takes what a consumer has of these runs out of its hold, under another number: (runs, messages, bytes).
    fn transfer(&self, from: u64, to: u64, runs: Vec<(u64, u64)>) -> FinishedTuple {
        finished(self.lock().backlog.transfer(from, to, &runs))
    }

    /// What a consumer that is absent was granted under a lease, as runs with both ends included.
    fn granted(&self, lease: u64) -> Vec<(u64, u64)> {
        self.lock().backlog.granted(lease)
    }

    /// A consumer that was absent said what it handed over: no program received the rest under its lease.
    fn absolve(&self, lease: u64) {
        self.lock().backlog.absolve(lease);
    }

    /// Programs may have received messages from one offset up to before another: runs of what was not known as delivered.
    fn presume(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        self.lock().backlog.presume(first..end)
    }

    /// Which hand-over of a message comes next; 0 if a program may have received it before, and nobody knows.
    fn delivery_of(&self, offset: u64) -> u32 {
        self.lock().backlog.delivery_of(offset)
    }

    /// One more publisher whose messages are not wanted, from here on.
    fn leave_out(&self, publisher: u64) {
        self.lock().unless.insert(publisher);
    }

    /// Reads on, so many rows at the most; those are kept for a consumer that waits if `keep`. Whether there is more to
    /// read now.
    fn scan(&self, py: Python<'_>, now_us: u64, rows_max: usize, keep: bool) -> PyResult<bool> {
        detached(py, || self.lock().scan(&self.shared, now_us, rows_max, keep)).map_err(errors::store)
    }

    /// Looks at so many rows behind a full window for messages of priorities 5 to 9, which come into it. Whether there is
    /// more to look at now.
    fn look_ahead(&self, py: Python<'_>, now_us: u64, rows_max: usize) -> PyResult<bool> {
        detached(py, || self.lock().look_ahead(&self.shared, now_us, rows_max)).map_err(errors::store)
    }

    /// Messages that are not done, their bytes, and how many of them lie behind the window. Reads all of them.
    fn measure(&self, py: Python<'_>, now_us: u64) -> PyResult<(u64, u64, u64)> {
        detached(py, || self.lock().measure(&self.shared, now_us)).map_err(errors::store)
    }

    /// Gives a consumer messages: at most so many, and no more once they have so many bytes; only some of the `oldest` ones, if
    /// that is said. Also whether there is more to look at.
    #[pyo3(signature = (consumer, now_us, messages_max, bytes_max, *, oldest = false))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        consumer: u64,
        now_us: u64,
        messages_max: usize,
        bytes_max: u64,
        oldest: bool,
    ) -> PyResult<(Vec<Batch<'py>>, bool)> {
        let given = detached(py, || {
            let reading = &mut *self.lock();
            let (offsets, more) = if reading.selectors.contains_key(&consumer) {
                reading.select(&self.shared, consumer, now_us, messages_max, bytes_max, oldest)?
            } else if oldest {
                (reading.backlog.take_oldest(consumer, now_us, messages_max, bytes_max), false)
            } else {
                (reading.backlog.take(consumer, now_us, messages_max, bytes_max), false)
            };
            let batches = reading.gather(&self.shared, &offsets, now_us)?;
            let granted = |given: Given| {
                let runs = reading.backlog.grants_of(given.offsets.iter().copied());
                (given, runs)
            };
            Ok((batches.into_iter().map(granted).collect::<Vec<_>>(), more))
        });
        let (batches, more) = given.map_err(errors::store)?;
        let batch = |(given, runs): (Given, Vec<(u64, u64)>)| {
            let (messages, bytes) = (given.offsets.len(), given.rows.bytes().len());
            let rows = PyBytes::new(py, given.rows.bytes());
            (given.first, rows, given.counts, given.lives, messages, bytes, runs)
        };
        Ok((batches.into_iter().map(batch).collect(), more))
    }

    /// Gives a consumer these runs of offsets, both ends included, as far as it may have them; how many.
    fn take_these(
        &self,
        py: Python<'_>,
        consumer: u64,
        runs: Vec<(u64, u64)>,
        now_us: u64,
    ) -> PyResult<usize> {
        let taken = detached(py, || {
            let Reading { backlog, filter, .. } = &mut *self.lock();
            let mut taken = 0;
            for (first, last) in runs {
                self.shared.source(first).each(first, last.saturating_add(1), filter, |row| {
                    taken += usize::from(backlog.take_one(consumer, &Facts::of(row), now_us));
                    ControlFlow::Continue(())
                })?;
            }
            Ok::<_, LogError>(taken)
        });
        taken.map_err(errors::store)
    }

    /// Sets messages aside for a consumer, and reads none of them: how many, and whether there is more to look at.
    fn set_aside(
        &self,
        py: Python<'_>,
        consumer: u64,
        now_us: u64,
        messages_max: usize,
        bytes_max: u64,
    ) -> PyResult<(usize, bool)> {
        let aside = detached(py, || {
            let reading = &mut *self.lock();
            if !reading.selectors.contains_key(&consumer) {
                return Ok((reading.backlog.take(consumer, now_us, messages_max, bytes_max).len(), false));
            }
            let (offsets, more) =
                reading.select(&self.shared, consumer, now_us, messages_max, bytes_max, false)?;
            for &offset in &offsets {
                reading.cache.take(offset, |_, _| ());
            }
            Ok::<_, LogError>((offsets.len(), more))
        });
        aside.map_err(errors::store)
    }

    /// Which messages are there, from an offset on, as runs with both ends included, and where to go on if there is more.
    #[pyo3(signature = (from, now_us, selector, messages_max, runs_max))]
    fn shown(
        &self,
        py: Python<'_>,
        from: u64,
        now_us: u64,
        selector: Option<&Bound<'_, Selector>>,
        messages_max: usize,
        runs_max: usize,
    ) -> PyResult<ShownTuple> {
        let selector = selector.map(|selector| selector.get().inner().clone());
        let shown = detached(py, || {
            let reading = &*self.lock();
            let mut filter = Filter::new(reading.patterns.clone(), selector);
            let from = from.max(reading.backlog.pin());
            let source = self.shared.source(from);
            let mut runs: Vec<(u64, u64)> = Vec::new();
            let mut messages = 0;
            let to = from.saturating_add(SHOWN_OFFSETS_MAX);
            let reached = source.each(from, to, &mut filter, |row| {
                let facts = Facts::of(row);
                let is_there = facts.due_us <= now_us && facts.expires_us > now_us;
                if is_there && reading.backlog.shows(row.offset, now_us, false) {
                    messages += 1;
                    match runs.last_mut() {
                        Some((_, last)) if *last + 1 == row.offset => *last = row.offset,
                        _ => runs.push((row.offset, row.offset)),
                    }
                }
                let is_enough = messages >= messages_max || runs.len() >= runs_max;
                if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            Ok::<_, LogError>((runs, (reached < source.end()).then_some(reached)))
        });
        shown.map_err(errors::store)
    }

    /// Messages of a priority that are there, from an offset on: the first offset, rows, where to go on if there is more, and
    /// otherwise the next lower priority of which there are some. What consumers only have ready is there.
    #[pyo3(signature = (from, now_us, selector, messages_max, bytes_max, priority))]
    #[allow(clippy::too_many_arguments, reason = "positions in Python")]
    fn browse<'py>(
        &self,
        py: Python<'py>,
        from: u64,
        now_us: u64,
        selector: Option<&Bound<'_, Selector>>,
        messages_max: u32,
        bytes_max: usize,
        priority: u8,
    ) -> PyResult<BrowsedTuple<'py>> {
        let selector = selector.map(|selector| selector.get().inner().clone());
        let browsed = detached(py, || {
            let reading = &*self.lock();
            let mut filter = Filter::new(reading.patterns.clone(), selector);
            let from = from.max(reading.backlog.pin());
            let source = self.shared.source(from);
            let (mut rows, mut first, mut next, mut rest) = (RowsWriter::default(), from, from, None);
            let mut below: Option<u8> = None;
            source.each(from, u64::MAX, &mut filter, |row| {
                let facts = Facts::of(row);
                let is_there = facts.due_us <= now_us && facts.expires_us > now_us;
                if facts.priority > priority || !is_there || !reading.backlog.shows(row.offset, now_us, true)
                {
                    return ControlFlow::Continue(());
                }
                if facts.priority < priority {
                    below = below.max(Some(facts.priority));
                    return ControlFlow::Continue(());
                }
                let is_too_long = rows.bytes().len() + row.record.len() > bytes_max && !rows.is_empty();
                if rows.count() >= messages_max || is_too_long {
                    rest = Some(row.offset);
                    return ControlFlow::Break(());
                }
                if rows.is_empty() {
                    (first, next) = (row.offset, row.offset);
                }
                rows.push_after(row.offset - next, &meta_of(row), row.record);
                next = row.offset + 1;
                ControlFlow::Continue(())
            })?;
            Ok::<_, LogError>((first, rows, rest, below))
        });
        let (first, rows, next, below) = browsed.map_err(errors::store)?;
        Ok((first, PyBytes::new(py, rows.bytes()), next, below))
    }

    /// How many of these runs, both ends included, a consumer has.
    fn has(&self, consumer: u64, runs: Vec<(u64, u64)>) -> usize {
        self.lock().backlog.has(consumer, &runs)
    }

    /// A consumer acknowledges what it has of these runs, both ends included: (runs done now, messages, bytes).
    fn acknowledge(&self, consumer: u64, runs: Vec<(u64, u64)>) -> FinishedTuple {
        finished(self.lock().backlog.acknowledge(consumer, &runs))
    }

    /// A consumer gives back what it has of these runs, both ends included: (offset, how often given out) of what it
    /// has seen.
    fn give_back(
        &self,
        consumer: u64,
        runs: Vec<(u64, u64)>,
        seen: bool,
        due_us: u64,
        now_us: u64,
    ) -> Vec<(u64, u32)> {
        self.lock().backlog.give_back(consumer, &runs, seen, due_us, now_us)
    }

    /// Messages, each with how often it was given out, as runs: (first, end, count).
    fn runs_of(&self, counted: Vec<(u64, u32)>) -> Vec<(u64, u64, u32)> {
        self.lock().backlog.runs_of(&counted)
    }

    /// These are done, whoever has them: (runs done now, messages, bytes).
    fn finish(&self, offsets: Vec<u64>) -> FinishedTuple {
        let mut reading = self.lock();
        for &offset in &offsets {
            reading.cache.take(offset, |_, _| ());
        }
        finished(reading.backlog.finish(&offsets))
    }

    /// What acknowledging these runs, both ends included, would come to: (runs, messages, bytes). Changes nothing.
    fn weigh(&self, consumer: u64, runs: Vec<(u64, u64)>) -> FinishedTuple {
        finished(self.lock().backlog.weigh(consumer, &runs))
    }

    /// A consumer gets these, though it did not ask, if nobody has them.
    fn seize(&self, consumer: u64, offsets: Vec<u64>) {
        self.lock().backlog.seize(consumer, &offsets);
    }

    /// It is so late: what waited for it is ready. Returns what expired, which is to be finished.
    fn wake(&self, now_us: u64) -> Vec<u64> {
        self.lock().backlog.wake(now_us)
    }

    /// The next time at which something is ready or expires.
    #[getter]
    fn next_wake_us(&self) -> Option<u64> {
        self.lock().backlog.next_wake_us()
    }

    /// Messages that are neither done nor given to anybody and match, of those that were read: their offsets.
    #[pyo3(signature = (selector, count_max))]
    fn untaken(
        &self,
        py: Python<'_>,
        selector: Option<&Bound<'_, Selector>>,
        count_max: usize,
    ) -> PyResult<Vec<u64>> {
        let selector = selector.map(|selector| selector.get().inner().clone());
        let found = detached(py, || {
            let reading = &*self.lock();
            let Some(selector) = selector else {
                return Ok(reading.backlog.untaken().take(count_max).collect());
            };
            let free: Vec<u64> = reading.backlog.untaken().collect();
            let (Some(&first), Some(&last)) = (free.first(), free.last()) else { return Ok(Vec::new()) };
            let mut filter = Filter::new(reading.patterns.clone(), Some(selector));
            let mut found = Vec::new();
            self.shared.source(first).each(first, last + 1, &mut filter, |row| {
                if free.binary_search(&row.offset).is_ok() {
                    found.push(row.offset);
                }
                if found.len() >= count_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            Ok::<_, LogError>(found)
        });
        found.map_err(errors::store)
    }

    /// Everything below an offset is of no concern.
    fn pass_to(&self, offset: u64) {
        self.lock().backlog.pass_to(offset);
    }

    /// The lowest offset that is still needed.
    #[getter]
    fn pin(&self) -> u64 {
        self.lock().backlog.pin()
    }

    /// The offset up to which the log was read.
    #[getter]
    fn scanned(&self) -> u64 {
        self.lock().backlog.scanned()
    }

    /// Whether it is time to read more, as far as there is room.
    #[getter]
    fn is_low(&self) -> bool {
        self.lock().backlog.is_low()
    }

    /// How many messages are ready, waiting and taken, as far as they were read.
    #[getter]
    fn counts(&self) -> (usize, usize, usize) {
        let counts = self.lock().backlog.counts();
        (counts.ready, counts.waiting, counts.taken)
    }

    /// Messages that retention removed before they were delivered, or that could not be read.
    #[getter]
    fn lost(&self) -> u64 {
        self.lock().lost
    }
}
