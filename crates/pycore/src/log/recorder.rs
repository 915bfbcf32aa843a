//! From a subscription into the log, many messages at a time, without Python.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use shoal_log::{Filter, Gap, LogError, MARKS_MAX, MarkKey, Marks, Meta, RowsWriter, lane_of};
use shoal_node::hub::Batch;
use shoal_norm::Time;
use shoal_wire::{MessageView, TopicPattern};

use super::{Log, Shared, patterns};
use crate::aging::of_age;
use crate::bus::Subscription;
use crate::bus::exit::{check, detached};
use crate::convert::duration;
use crate::errors;

/// How long to wait for messages before looking at the clock.
const TURN: Duration = Duration::from_millis(100);

/// How often to look whether a subscription is full, where what it has is thrown away.
const SKIP_TURN: Duration = Duration::from_millis(5);

/// What was taken from a subscription and is not appended yet.
struct Taking {
    batches: VecDeque<Batch>,
    rows: RowsWriter,
    /// Messages that somebody else records.
    unless: Filter,
    /// Persistent messages that reach the store by themselves.
    stored: Option<Filter>,
    lanes: Option<RecorderLane>,
    /// What the rows raise the marks to.
    numbers: Vec<(MarkKey, u64)>,
    /// What was missed before them. One for each chain at most, since it is heard of again once.
    gaps: VecDeque<Gap>,
    /// What was thrown away after them, by publisher and chain.
    missed: BTreeMap<(u64, u32), Gap>,
    messages: u64,
    bytes: u64,
    repeated: u64,
    /// The subscription is closed, and everything it had was taken.
    is_over: bool,
}

/// What one recorder of several knows of what is in the log already.
struct RecorderLane {
    lane: u32,
    marks: Marks,
    awaited: Arc<Mutex<Awaited>>,
}

/// Chains of which nothing new came since the store was opened, and the highest number recorded of each.
type Awaited = BTreeMap<(u64, u32), u64>;

/// The recorders of a log, one for each pattern, and how far each chain is recorded.
#[pyclass(module = "shoal._core", frozen)]
pub struct Lanes {
    shared: Arc<Shared>,
    patterns: Vec<TopicPattern>,
    marks: Marks,
    awaited: Arc<Mutex<Awaited>>,
}

#[pymethods]
impl Lanes {
    /// Reads in the log how far each chain is recorded. Once, before anything is recorded.
    #[new]
    #[pyo3(signature = (log, patterns))]
    fn new(py: Python<'_>, log: &Log, patterns: Vec<String>) -> PyResult<Lanes> {
        let patterns = self::patterns(&patterns)?;
        let shared = log.here()?.clone();
        let marks = detached(py, || shared.begin_recording(&patterns)).map_err(errors::store)?;
        let awaited = Arc::new(Mutex::new(marks.chains()));
        Ok(Lanes { shared, patterns, marks, awaited })
    }
}

impl RecorderLane {
    fn key(&self, (publisher, chain): (u64, u32)) -> MarkKey {
        MarkKey { lane: self.lane, publisher, chain }
    }

    /// The highest number recorded of a chain, if nothing new came of it yet.
    fn awaited(&self, chain: (u64, u32)) -> Option<u64> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).get(&chain).copied()
    }

    /// A message of a chain came. If it is the first that is new since the store was opened: what it lacks before it.
    fn hear(&self, chain: (u64, u32), number: u64) -> Option<Gap> {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = awaited.get(&chain).copied().filter(|&highest| number > highest)?;
        awaited.remove(&chain);
        let count = number - highest - 1;
        let (first, last) = (Some(highest + 1), Some(number - 1));
        (count > 0).then_some(Gap { publisher: chain.0, chain: chain.1, first, last, count, away: true })
    }
}

/// Appends what a subscription receives. For one thread at a time.
#[pyclass(module = "shoal._core", frozen)]
pub struct Recorder {
    shared: Arc<Shared>,
    subscription: Py<Subscription>,
    skip_node: Option<u32>,
    taking: Mutex<Taking>,
    messages: AtomicU64,
    bytes: AtomicU64,
    repeated: AtomicU64,
}

impl Taking {
    /// Whether somebody else records it.
    fn is_others(&mut self, record: &[u8]) -> bool {
        if self.unless.is_any_topic() && self.stored.is_none() {
            return false;
        }
        let Ok(view) = MessageView::parse(record) else { return !self.unless.is_any_topic() };
        let has_own_way = view.is_persistent() && matches!(view.origin(), Ok(Some(_)));
        (!self.unless.is_any_topic() && self.unless.destination_matches(&view))
            || (has_own_way && self.stored.as_mut().is_some_and(|stored| stored.destination_matches(&view)))
    }

    fn push(&mut self, meta: &Meta, record: &[u8]) {
        self.rows.push(meta, record);
        self.messages += 1;
        self.bytes += record.len() as u64;
    }

    /// Takes all of a batch in, also when some of it cannot be appended now.
    fn push_batch(&mut self, batch: &Batch, now: Time, shared: &Shared) -> Result<(), LogError> {
        let mut result = Ok(());
        let waited = now.since(batch.arrived);
        let chain = (batch.source.publisher, batch.source.chain);
        let known = self.lanes.as_ref().and_then(|lane| lane.marks.number(lane.key(chain)));
        let mut highest = known.unwrap_or(0);
        let mut awaited = self.lanes.as_ref().and_then(|lane| lane.awaited(chain));
        for entry in &batch.entries {
            let (origin, record) = (batch.origin(entry), batch.record(entry));
            if self.is_others(record) {
                continue;
            }
            let meta = Meta::of(&origin, record);
            // What somebody passed on has numbers of another kind.
            if let Some(lane) = &mut self.lanes
                && origin.number > 0
                && meta.number == Some(origin.number)
                && (meta.publisher, meta.chain) == chain
            {
                if origin.number <= highest {
                    self.repeated += 1;
                    continue;
                }
                if awaited.is_some_and(|before| before < origin.number) {
                    self.gaps.extend(lane.hear(chain, origin.number));
                    awaited = None;
                }
                highest = origin.number;
                let key = lane.key(chain);
                match self.numbers.last_mut() {
                    Some(last) if last.0 == key => last.1 = highest,
                    _ => self.numbers.push((key, highest)),
                }
            }
            let aged = of_age(record, batch.age(entry) + waited);
            self.push(&meta, aged.as_deref().unwrap_or(record));
            if self.rows.bytes().len() >= shared.frame_bytes() && result.is_ok() {
                result = self.append(shared);
            }
        }
        if let Some(lane) = &mut self.lanes
            && highest > known.unwrap_or(0)
        {
            lane.marks.raise(lane.key(chain), highest, batch.arrived.as_nanos() / 1000);
            lane.marks.trim(MARKS_MAX);
        }
        result
    }

    /// Notes what is in a batch that is thrown away. Beyond so many chains nobody is told whose it was.
    fn miss(&mut self, batch: &Batch) {
        for entry in &batch.entries {
            let (origin, record) = (batch.origin(entry), batch.record(entry));
            if self.is_others(record) {
                continue;
            }
            let Meta { publisher, chain, number, .. } = Meta::of(&origin, record);
            if let (Some(lane), Some(number)) = (&self.lanes, number) {
                let known = lane.marks.number(lane.key((publisher, chain)));
                if known.is_some_and(|known| number <= known) {
                    self.repeated += 1;
                    continue;
                }
                self.gaps.extend(lane.hear((publisher, chain), number));
            }
            let is_named = self.missed.len() < MARKS_MAX || self.missed.contains_key(&(publisher, chain));
            let (key, number) = if is_named { ((publisher, chain), number) } else { ((0, 0), None) };
            let nothing =
                Gap { publisher: key.0, chain: key.1, first: number, last: None, count: 0, away: false };
            let gap = self.missed.entry(key).or_insert(nothing);
            (gap.last, gap.count) = (number, gap.count + 1);
        }
    }

    /// What cannot be appended now stays here, and is the first to be tried again.
    fn append(&mut self, shared: &Shared) -> Result<(), LogError> {
        while let Some(gap) = self.gaps.front() {
            shared.with(|log, now| log.append_gap(now, gap))?;
            self.gaps.pop_front();
        }
        if !self.rows.is_empty() {
            if self.lanes.is_some() {
                shared.append_recorded(&self.rows, &self.numbers)?;
            } else {
                shared.append(&self.rows)?;
            }
            self.rows.clear();
            self.numbers.clear();
        }
        while let Some(missed) = self.missed.first_entry() {
            shared.with(|log, now| log.append_gap(now, missed.get()))?;
            missed.remove();
        }
        Ok(())
    }
}

impl Recorder {
    /// Records until the time is over, without the interpreter's lock.
    fn turn(
        &self,
        taking: &mut Taking,
        subscription: &Subscription,
        deadline: Instant,
    ) -> Result<(), LogError> {
        loop {
            while let Some(batch) = taking.batches.pop_front() {
                if Some(batch.source.node) == self.skip_node {
                    continue;
                }
                if taking.rows.bytes().len() >= self.shared.frame_bytes() {
                    // Only after a refusal: nothing more is taken in before it is through.
                    if let Err(error) = taking.append(&self.shared) {
                        taking.batches.push_front(batch);
                        return Err(error);
                    }
                }
                let pushed = taking.push_batch(&batch, subscription.now(), &self.shared);
                subscription.recycle(batch);
                pushed?;
            }
            taking.append(&self.shared)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || taking.is_over {
                return Ok(());
            }
            match subscription.take_raw(left.min(TURN)) {
                Some(batches) => taking.batches = batches,
                None => taking.is_over = true,
            }
        }
    }
}

impl Recorder {
    /// Takes what the subscription has, and notes it as missed.
    fn throw_away(&self, taking: &mut Taking, subscription: &Subscription) {
        let Some(batches) = subscription.take_raw(Duration::ZERO) else {
            taking.is_over = true;
            return;
        };
        for batch in batches {
            if Some(batch.source.node) != self.skip_node {
                taking.miss(&batch);
            }
            subscription.recycle(batch);
        }
    }
}

#[pymethods]
impl Recorder {
    /// Records what a subscription receives, except on topics of `unless`, and except what a node published. As the
    /// recorder of a pattern of `lanes`, it leaves out what an earlier pattern matches, and what is in the log. Persistent
    /// messages on topics of `stored` come to the store on a way of their own.
    #[new]
    #[pyo3(signature = (
        log, subscription, *, unless = Vec::new(), skip_node = None, lanes = None, at = 0, stored = Vec::new()
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        log: &Log,
        subscription: Py<Subscription>,
        unless: Vec<String>,
        skip_node: Option<u32>,
        lanes: Option<&Lanes>,
        at: usize,
        stored: Vec<String>,
    ) -> PyResult<Recorder> {
        let stored = (!stored.is_empty()).then(|| patterns(&stored)).transpose()?;
        let mut unless = patterns(&unless)?;
        let lane = match lanes {
            None => None,
            Some(lanes) => {
                let Some(pattern) = lanes.patterns.get(at) else {
                    let count = lanes.patterns.len();
                    return Err(errors::config(format!("at is {at}, and there are {count} patterns")));
                };
                if !Arc::ptr_eq(&lanes.shared, log.here()?) {
                    return Err(errors::config("the lanes are of another log".into()));
                }
                unless.extend_from_slice(&lanes.patterns[..at]);
                let lane = lane_of(pattern);
                let mut marks = Marks::default();
                let own = lanes.marks.iter().filter(|(key, _)| key.lane == lane);
                // All are older than what arrives from now on.
                own.for_each(|(key, mark)| marks.raise(key, mark.number, 0));
                Some(RecorderLane { lane, marks, awaited: lanes.awaited.clone() })
            }
        };
        let taking = Taking {
            batches: VecDeque::new(),
            rows: RowsWriter::default(),
            unless: Filter::new(unless, None),
            stored: stored.map(|patterns| Filter::new(patterns, None)),
            lanes: lane,
            numbers: Vec::new(),
            gaps: VecDeque::new(),
            missed: BTreeMap::new(),
            messages: 0,
            bytes: 0,
            repeated: 0,
            is_over: false,
        };
        Ok(Recorder {
            shared: log.here()?.clone(),
            subscription,
            skip_node,
            taking: Mutex::new(taking),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
        })
    }

    /// Records for so many seconds. False once the subscription is closed and everything it had is appended.
    fn run(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let deadline = Instant::now() + duration("seconds", seconds)?;
        let subscription = self.subscription.get();
        subscription.check_here()?;
        let Ok(mut taking) = self.taking.try_lock() else {
            return Err(errors::config("another thread runs this recorder".into()));
        };
        let taking = &mut *taking;
        let turn = detached(py, || self.turn(taking, subscription, deadline));
        self.messages.store(taking.messages, Ordering::Relaxed);
        self.bytes.store(taking.bytes, Ordering::Relaxed);
        self.repeated.store(taking.repeated, Ordering::Relaxed);
        check(py)?;
        turn.map_err(errors::store)?;
        Ok(!taking.is_over)
    }

    /// For so many seconds, throws away what the subscription has whenever that makes its senders wait. It is a gap in the log
    /// once there is room.
    fn skip(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let deadline = Instant::now() + duration("seconds", seconds)?;
        let subscription = self.subscription.get();
        subscription.check_here()?;
        let Ok(mut taking) = self.taking.try_lock() else {
            return Err(errors::config("another thread runs this recorder".into()));
        };
        let taking = &mut *taking;
        detached(py, || {
            loop {
                if subscription.holds_back() {
                    self.throw_away(taking, subscription);
                }
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || taking.is_over {
                    return;
                }
                std::thread::sleep(left.min(SKIP_TURN));
            }
        });
        check(py)
    }

    /// What was recorded so far: (messages, bytes).
    #[getter]
    fn recorded(&self) -> (u64, u64) {
        (self.messages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Messages that came, and were recorded before.
    #[getter]
    fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }
}
