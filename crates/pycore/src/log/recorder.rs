//! From a subscription into the log, many messages at a time, without Python.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use shoal_io::store::Shared;
use shoal_log::{Filter, LogError, Meta, RowsWriter};
use shoal_node::hub::Batch;
use shoal_wire::MessageView;

use super::{Log, patterns};
use crate::bus::Subscription;
use crate::bus::exit::{check, detached};
use crate::convert::duration;
use crate::errors;

/// How long to wait for messages before looking at the clock.
const TURN: Duration = Duration::from_millis(100);

/// What was taken from a subscription and is not appended yet.
struct Taking {
    batches: VecDeque<Batch>,
    rows: RowsWriter,
    /// Messages that somebody else records.
    unless: Filter,
    messages: u64,
    bytes: u64,
    /// The subscription is closed, and everything it had was taken.
    is_over: bool,
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
}

impl Taking {
    fn push(&mut self, meta: &Meta, record: &[u8]) {
        if !self.unless.is_any_topic() {
            let Ok(view) = MessageView::parse(record) else { return };
            if self.unless.destination_matches(&view) {
                return;
            }
        }
        self.rows.push(meta, record);
        self.messages += 1;
        self.bytes += record.len() as u64;
    }

    /// Takes all of a batch in, also when some of it cannot be appended now.
    fn push_batch(&mut self, batch: &Batch, shared: &Shared) -> Result<(), LogError> {
        let mut result = Ok(());
        for entry in &batch.entries {
            self.push(&Meta::of(&batch.origin(entry), batch.record(entry)), batch.record(entry));
            if self.rows.bytes().len() >= shared.frame_bytes() && result.is_ok() {
                result = self.append(shared);
            }
        }
        result
    }

    /// What cannot be appended now stays here, and is the first to be tried again.
    fn append(&mut self, shared: &Shared) -> Result<(), LogError> {
        if !self.rows.is_empty() {
            shared.append(&self.rows)?;
            self.rows.clear();
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
                let pushed = taking.push_batch(&batch, &self.shared);
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

#[pymethods]
impl Recorder {
    /// Records what a subscription receives, except on topics of `unless`, and except what a node published.
    #[new]
    #[pyo3(signature = (log, subscription, *, unless = Vec::new(), skip_node = None))]
    fn new(
        log: &Log,
        subscription: Py<Subscription>,
        unless: Vec<String>,
        skip_node: Option<u32>,
    ) -> PyResult<Recorder> {
        let taking = Taking {
            batches: VecDeque::new(),
            rows: RowsWriter::default(),
            unless: Filter::new(patterns(&unless)?, None),
            messages: 0,
            bytes: 0,
            is_over: false,
        };
        Ok(Recorder {
            shared: log.here()?.clone(),
            subscription,
            skip_node,
            taking: Mutex::new(taking),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
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
        check(py)?;
        turn.map_err(errors::store)?;
        Ok(!taking.is_over)
    }

    /// What was recorded so far: (messages, bytes).
    #[getter]
    fn recorded(&self) -> (u64, u64) {
        (self.messages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}
