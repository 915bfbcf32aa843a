//! The reading end of a subscription.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use shoal_io::bus::{Batch, Consumer, Item};
use shoal_wire::MessageView;

use super::delivery;
use super::exit::{check, detached};
use super::fork::Birth;
use super::message::Message;
use super::node::{Inner, SIGNAL_CHECK, deadline};

/// How long to wait before looking whether another thread is through.
const TURN_CHECK: Duration = Duration::from_millis(1);

/// What was taken from the consumer and not read yet.
#[derive(Default)]
struct Reading {
    items: VecDeque<(Item<Py<Message>>, usize)>,
    batch: Option<(Batch, usize)>,
    /// The topic of the last message, most likely that of the next.
    topic: Option<(Vec<u8>, Py<PyString>)>,
}

/// A subscription: iterate over it, or ask it for messages.
#[pyclass(module = "shoal._core", frozen, subclass)]
pub struct Subscription {
    inner: Arc<Inner>,
    consumer: Arc<Consumer<Py<Message>>>,
    ids: (Option<u64>, u64),
    pattern: String,
    reading: Mutex<Reading>,
    closed: AtomicBool,
    /// It is not iterated over any more.
    stopped: AtomicBool,
    birth: Birth,
}

impl Subscription {
    pub fn new(
        inner: Arc<Inner>,
        consumer: Arc<Consumer<Py<Message>>>,
        ids: (Option<u64>, u64),
        pattern: String,
    ) -> Subscription {
        Subscription {
            inner,
            consumer,
            ids,
            pattern,
            reading: Mutex::default(),
            closed: false.into(),
            stopped: false.into(),
            birth: Birth::now(),
        }
    }

    fn unsubscribe(&self) {
        self.inner.unsubscribe(self.ids);
        self.consumer.close();
    }

    /// What was taken. Two threads that read one subscription take turns, and the one that waits for its
    /// turn leaves Python to others meanwhile.
    fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<MutexGuard<'a, Reading>> {
        // In a child it may be locked for ever, by a thread that stayed behind.
        self.birth.check()?;
        loop {
            match self.reading.try_lock() {
                Ok(reading) => return Ok(reading),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => detached(py, || std::thread::sleep(TURN_CHECK)),
            }
            check(py)?;
        }
    }

    /// The next message that is here already.
    fn next_here(&self, py: Python<'_>, reading: &mut Reading) -> PyResult<Option<Py<Message>>> {
        loop {
            if let Some((batch, at)) = &mut reading.batch {
                while let Some(entry) = batch.entries.get(*at) {
                    *at += 1;
                    let record = batch.record(entry);
                    let Ok(view) = MessageView::parse(record) else { continue };
                    if has_expired(&view, batch.arrived, batch.age(entry)) {
                        continue;
                    }
                    let topic = match &reading.topic {
                        Some((name, topic)) if name == view.name_bytes() => topic.clone_ref(py),
                        _ => {
                            let name = String::from_utf8_lossy(view.name_bytes());
                            let topic = PyString::new(py, &name).unbind();
                            reading.topic = Some((view.name_bytes().to_vec(), topic.clone_ref(py)));
                            topic
                        }
                    };
                    let message = Message::from_record(py, record, &view, topic, batch.origin(entry));
                    return Ok(Some(Py::new(py, message)?));
                }
                if let Some((batch, _)) = reading.batch.take() {
                    self.consumer.recycle(batch);
                }
            }
            match reading.items.pop_front() {
                Some((Item::Batch(batch), _)) => reading.batch = Some((batch, 0)),
                Some((Item::Local(message), _)) => {
                    if !message.get().has_expired() {
                        return Ok(Some(message));
                    }
                }
                None => return Ok(None),
            }
        }
    }

    /// Takes more from the consumer. False if nothing came before `deadline`; an error once it is closed.
    fn refill(&self, py: Python<'_>, reading: &mut Reading, deadline: Option<Instant>) -> PyResult<bool> {
        let mut left = Duration::ZERO;
        loop {
            let taken = if left.is_zero() {
                // What is here, or never will be, is not waited for.
                self.consumer.take(Some(left))
            } else {
                detached(py, || self.consumer.take(Some(left.min(SIGNAL_CHECK))))
            };
            left = deadline.map_or(SIGNAL_CHECK, |at| at.saturating_duration_since(Instant::now()));
            let Some(taken) = taken else {
                return Err(PyStopIteration::new_err(()));
            };
            if taken.made_room {
                self.inner.resume();
            }
            if !taken.items.is_empty() {
                reading.items = taken.items;
                return Ok(true);
            }
            check(py)?;
            if deadline.is_some_and(|at| at <= Instant::now()) {
                return Ok(false);
            }
        }
    }

    fn next_before(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Option<Py<Message>>> {
        let mut reading = self.lock(py)?;
        loop {
            if let Some(message) = self.next_here(py, &mut reading)? {
                return Ok(Some(message));
            }
            if !self.refill(py, &mut reading, deadline)? {
                return Ok(None);
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if !self.birth.is_here() {
            // In a forked child the link's thread is not there to be joined, should this be its last user.
            std::mem::forget(self.inner.clone());
        } else if !self.closed.swap(true, Ordering::SeqCst) {
            self.unsubscribe();
        }
    }
}

/// Whether a message outlived its time: the age at which it arrived, and how long it waited here.
fn has_expired(view: &MessageView<'_>, arrived: Instant, age: Duration) -> bool {
    let Ok(fields) = view.fields() else { return false };
    let Some(ttl) = fields.ttl_us else { return false };
    age + arrived.elapsed() >= Duration::from_micros(ttl)
}

#[pymethods]
impl Subscription {
    #[getter]
    fn pattern(&self) -> &str {
        &self.pattern
    }

    #[getter]
    fn dropped(&self) -> u64 {
        self.consumer.dropped()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<Message>>> {
        if self.stopped.load(Ordering::SeqCst) {
            return Ok(None);
        }
        match self.next_before(py, None) {
            Ok(_) if self.stopped.load(Ordering::SeqCst) => Ok(None),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(None),
            other => other,
        }
    }

    /// The next message, or `None` if none came in time or the subscription is closed.
    #[pyo3(signature = (timeout_s = None))]
    fn receive(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<Option<Py<Message>>> {
        match self.next_before(py, deadline(timeout_s)?) {
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(None),
            other => other,
        }
    }

    /// Messages that are here already, at most so many, without waiting; `None` once closed and empty.
    #[pyo3(signature = (count_max = 1000))]
    fn receive_nowait<'py>(&self, py: Python<'py>, count_max: usize) -> PyResult<Option<Bound<'py, PyList>>> {
        let messages = PyList::empty(py);
        let mut reading = self.lock(py)?;
        while messages.len() < count_max {
            if let Some(message) = self.next_here(py, &mut reading)? {
                messages.append(message)?;
                continue;
            }
            match self.refill(py, &mut reading, Some(Instant::now())) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                    return Ok((!messages.is_empty()).then_some(messages));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(messages))
    }

    /// Says that this thread runs the callback of this subscription and does nothing else.
    fn mark_callback_thread(&self) {
        delivery::mark_callback_thread(&self.consumer);
    }

    /// A descriptor that can be read when there is something to receive.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.consumer.descriptor()?)
    }

    /// Ends the subscription; what has arrived can still be read.
    fn close(&self, py: Python<'_>) {
        if self.birth.is_here() && !self.closed.swap(true, Ordering::SeqCst) {
            detached(py, || self.unsubscribe());
        }
    }

    /// Ends an iteration, whatever has arrived.
    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if self.birth.is_here() {
            self.consumer.close();
        }
    }
}
