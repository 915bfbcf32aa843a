//! The reading end of a subscription.
//!
//! Messages become Python objects many at a time, in a list that every reader of the subscription goes through
//! with one and the same iterator: a `for` loop then takes the next message without coming back here for each.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyMemoryError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyIterator, PyList, PyString};
use shoal_io::bus::Reader;
use shoal_node::Origin;
use shoal_node::hub::{Batch, Consumer, HeldBack};
use shoal_norm::Time;
use shoal_wire::MessageView;

use super::delivery;
use super::exit::{check, detached};
use super::fork::Birth;
use super::message::Message;
use super::node::{Inner, SIGNAL_CHECK, deadline};
use super::seen::Seen;
use crate::bell::Bell;
use crate::errors;

/// How long to wait before looking whether another thread is through.
const TURN_CHECK: Duration = Duration::from_millis(1);

/// A list is no longer than this, and its messages' records together not much.
const LIST_MAX: usize = 256;
const LIST_BYTES: usize = 64 << 10;

/// Why reading goes no further. That it is over is no Python error before somebody is told so: on the way out of the
/// interpreter there may be nobody left to look into one.
enum End {
    /// The subscription is closed, and everything that arrived was read.
    Over,
    Failed(PyErr),
}

impl From<PyErr> for End {
    fn from(error: PyErr) -> End {
        End::Failed(error)
    }
}

/// What was taken from the consumer and is no Python object yet.
#[derive(Default)]
struct Reading {
    batches: VecDeque<Batch>,
    batch: Option<(Batch, usize)>,
    seen: Seen,
    /// The topic of the last message, most likely that of the next.
    topic: Option<(Vec<u8>, Py<PyString>)>,
    /// Kept for its memory.
    list: Vec<Py<Message>>,
    /// What waits for its delivery time, if the reader wants that.
    held: Option<HeldBack<(Vec<u8>, Origin)>>,
}

impl Reading {
    /// The batch that is to be read next.
    fn first(&self) -> Option<&Batch> {
        let begun = self.batch.as_ref().filter(|(batch, at)| *at < batch.entries.len());
        begun.map(|(batch, _)| batch).or_else(|| self.batches.front())
    }

    /// Whether so much is held back that the rest has to wait.
    fn is_blocked(&self) -> bool {
        self.held.as_ref().is_some_and(HeldBack::is_full) && self.first().is_some()
    }
}

/// The messages to be read next.
struct Ahead {
    list: Py<PyList>,
    iterator: Py<PyIterator>,
}

/// A subscription: iterate over it, or ask it for messages.
#[pyclass(module = "shoal._core", frozen, subclass)]
pub struct Subscription {
    inner: Arc<Inner>,
    reader: Reader,
    pattern: String,
    reading: Mutex<Reading>,
    ahead: Mutex<Option<Ahead>>,
    closed: AtomicBool,
    /// It is not iterated over any more.
    stopped: AtomicBool,
    birth: Birth,
    /// What acknowledges and answers its messages.
    receiver: PyOnceLock<Py<PyAny>>,
}

impl Subscription {
    pub fn new(inner: Arc<Inner>, reader: Reader, pattern: String) -> Subscription {
        Subscription {
            inner,
            reader,
            pattern,
            reading: Mutex::default(),
            ahead: Mutex::default(),
            closed: false.into(),
            stopped: false.into(),
            birth: Birth::now(),
            receiver: PyOnceLock::new(),
        }
    }

    /// Takes what has arrived, raw, for a reader that makes no Python objects of it and is the only one. `None` once
    /// closed and empty.
    pub(crate) fn take_raw(&self, limit: Duration) -> Option<VecDeque<Batch>> {
        self.reader.wait_for_items(limit);
        let taken = self.reader.take()?;
        if taken.made_room {
            self.inner.bus.hub().resume();
        }
        Some(taken.batches)
    }

    /// What the clock shows by which messages arrive.
    pub(crate) fn now(&self) -> Time {
        self.inner.bus.clock().now()
    }

    /// Whether there is nothing to take, and may be later.
    pub(super) fn is_idle(&self) -> bool {
        self.reader.consumer().is_idle()
    }

    /// Whether it makes its senders wait.
    pub(crate) fn holds_back(&self) -> bool {
        self.reader.consumer().holds_back()
    }

    /// Gives back a batch that was taken raw.
    pub(crate) fn recycle(&self, batch: Batch) {
        self.reader.consumer().recycle(batch);
    }

    /// Its queue.
    pub(super) fn consumer(&self) -> &Arc<Consumer> {
        self.reader.consumer()
    }

    /// Refuses to work in a forked child.
    pub(crate) fn check_here(&self) -> PyResult<()> {
        self.birth.check()
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn unsubscribe(&self) {
        self.inner.bus.unsubscribe(self.reader.id);
        self.reader.consumer().close();
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

    /// The messages to be read next. Held only for a moment, never while waiting.
    fn ahead(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The iterator over the messages to be read next, if there are any.
    fn iterator<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyIterator>>> {
        let known = self.ahead().as_ref().map(|ahead| ahead.iterator.bind(py).clone());
        let Some(iterator) = known else { return Ok(None) };
        // Calling Python may let another thread in, which must not find what is ahead locked.
        let left: usize = iterator.call_method0(intern!(py, "__length_hint__"))?.extract()?;
        if left > 0 {
            return Ok(Some(iterator));
        }
        let spent = self.ahead().take_if(|ahead| ahead.iterator.is(&iterator));
        drop(spent);
        Ok(None)
    }

    /// Makes a list of what is here already. One that does not live for ever is alone in it: it must not grow
    /// old there.
    fn fill_list(&self, py: Python<'_>, reading: &mut Reading, count_max: usize) -> PyResult<()> {
        let mut bytes = 0;
        while reading.list.len() < count_max && bytes < LIST_BYTES {
            if let Some((batch, at)) = &mut reading.batch {
                let Some(entry) = batch.entries.get(*at) else {
                    if let Some((batch, _)) = reading.batch.take() {
                        self.reader.consumer().recycle(batch);
                    }
                    continue;
                };
                let record = batch.record(entry);
                let Ok(view) = MessageView::parse(record) else {
                    *at += 1;
                    continue;
                };
                let ttl = view.ttl_us().ok().flatten().map(Duration::from_micros);
                if ttl.is_some() && !reading.list.is_empty() {
                    return Ok(());
                }
                let held = reading.held.as_mut();
                let delay = held.as_ref().and_then(|_| view.delivery_delay_us().ok().flatten());
                let delay = delay.filter(|&delay| delay > 0).map(Duration::from_micros);
                if delay.is_some() && held.is_some_and(|held| held.is_full()) {
                    return Ok(());
                }
                *at += 1;
                if !reading.seen.is_new(&view) {
                    continue;
                }
                let left = ttl.map(|ttl| {
                    let age = batch.age(entry) + self.now().since(batch.arrived);
                    ttl.saturating_sub(age)
                });
                if left.is_some_and(|left| left.is_zero()) {
                    continue;
                }
                let origin = batch.origin(entry);
                if let Some(held) = &mut reading.held
                    && let Some(delay) = delay
                {
                    // Also one that is due: others that are behind it here may have been due before.
                    let (now, born) = (self.now(), batch.arrived - batch.age(entry));
                    let order = (origin.publisher, origin.chain, delay);
                    held.hold(now, born, order, ttl, record.len(), (record.to_vec(), origin));
                    continue;
                }
                let topic = topic_of(py, &mut reading.topic, &view);
                let made = Message::from_record(py, record, &view, topic, origin);
                let receiver = self.receiver.get(py).map(|receiver| receiver.clone_ref(py));
                let made = made.map(|message| message.received_by(receiver).living_for(left));
                match made.and_then(|message| Py::new(py, message)) {
                    Ok(message) => reading.list.push(message),
                    // It is lost to this reader, who goes on with the next.
                    Err(error) if error.is_instance_of::<PyMemoryError>(py) => {
                        self.inner.bus.hub().lose(&origin);
                        continue;
                    }
                    Err(error) => return Err(error),
                }
                bytes += record.len();
                if ttl.is_some() {
                    return Ok(());
                }
                continue;
            }
            match reading.batches.pop_front() {
                Some(batch) => reading.batch = Some((batch, 0)),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes more from the consumer. False if there is nothing; an error once it is closed.
    fn refill(&self, reading: &mut Reading) -> Result<bool, End> {
        let Some(taken) = self.reader.take() else {
            let failure = self.reader.consumer().failure();
            return Err(failure.map_or(End::Over, |why| End::Failed(errors::link_failed(&why))));
        };
        if taken.made_room {
            self.inner.bus.hub().resume();
        }
        reading.batches = taken.batches;
        Ok(!reading.batches.is_empty())
    }

    /// The iterator over the messages to be read next that are here already.
    fn iterator_here<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyIterator>>, End> {
        let mut reading = self.lock(py)?;
        loop {
            if let Some(iterator) = self.iterator(py)? {
                return Ok(Some(iterator));
            }
            self.fill_list(py, &mut reading, LIST_MAX)?;
            if !reading.list.is_empty() {
                let list = PyList::new(py, reading.list.drain(..))?;
                let iterator = list.try_iter()?;
                let ahead = Ahead { list: list.unbind(), iterator: iterator.clone().unbind() };
                let spent = self.ahead().replace(ahead);
                drop(spent);
                return Ok(Some(iterator));
            }
            if !self.refill(&mut reading)? {
                return Ok(None);
            }
        }
    }

    /// The same, waiting until `deadline` for the first of them.
    fn iterator_before<'py>(
        &self,
        py: Python<'py>,
        deadline: Option<Instant>,
    ) -> Result<Option<Bound<'py, PyIterator>>, End> {
        loop {
            if let Some(iterator) = self.iterator_here(py)? {
                return Ok(Some(iterator));
            }
            if !self.wait(py, deadline)? {
                return Ok(None);
            }
        }
    }

    /// The next message that was held back and is due: before a time, if one is given.
    fn due<'py>(
        &self,
        py: Python<'py>,
        reading: &mut Reading,
        before: Option<Time>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(held) = &mut reading.held else { return Ok(None) };
        let now = self.now();
        let by = before.map_or(now, |before| before.min(now));
        let Some(((record, origin), left)) = held.take(by, now) else { return Ok(None) };
        let view = MessageView::parse(&record).map_err(|error| errors::unreadable(&error))?;
        let topic = topic_of(py, &mut reading.topic, &view);
        let message = Message::from_record(py, &record, &view, topic, origin)?;
        let receiver = self.receiver.get(py).map(|receiver| receiver.clone_ref(py));
        let message = message.received_by(receiver).living_for(Some(left));
        Ok(Some(Py::new(py, message)?.into_bound(py).into_any()))
    }

    /// The next message that is here already. No list is made for it.
    fn next_here<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>, End> {
        let mut reading = self.lock(py)?;
        if reading.held.is_some() {
            return self.next_in_time(py, &mut reading);
        }
        loop {
            if let Some(mut iterator) = self.iterator(py)? {
                // Another reader may have had the last one.
                if let Some(message) = iterator.next() {
                    return Ok(Some(message?));
                }
                continue;
            }
            self.fill_list(py, &mut reading, 1)?;
            if let Some(message) = reading.list.pop() {
                return Ok(Some(message.into_bound(py).into_any()));
            }
            if !self.refill(&mut reading)? {
                return Ok(None);
            }
        }
    }

    /// The next message in the order of delivery times. What is here and has no delay came when it arrived.
    fn next_in_time<'py>(
        &self,
        py: Python<'py>,
        reading: &mut Reading,
    ) -> Result<Option<Bound<'py, PyAny>>, End> {
        loop {
            if reading.first().is_none() {
                self.refill(reading)?;
            }
            let Some(arrived) = reading.first().map(|batch| batch.arrived) else {
                return Ok(self.due(py, reading, None)?);
            };
            if let Some(due) = self.due(py, reading, Some(arrived))? {
                return Ok(Some(due));
            }
            self.fill_list(py, reading, 1)?;
            if let Some(message) = reading.list.pop() {
                return Ok(Some(message.into_bound(py).into_any()));
            }
            if reading.is_blocked() {
                return Ok(self.due(py, reading, None)?);
            }
        }
    }

    /// How long until the next message that is held back is due, and whether nothing else can come before.
    fn until_due(&self, py: Python<'_>) -> PyResult<Option<(Duration, bool)>> {
        let reading = self.lock(py)?;
        let due = reading.held.as_ref().and_then(HeldBack::next_due);
        Ok(due.map(|due| (due.since(self.now()), reading.is_blocked())))
    }

    fn next_before<'py>(
        &self,
        py: Python<'py>,
        deadline: Option<Instant>,
    ) -> Result<Option<Bound<'py, PyAny>>, End> {
        loop {
            if let Some(message) = self.next_here(py)? {
                return Ok(Some(message));
            }
            if !self.wait(py, deadline)? {
                return Ok(None);
            }
        }
    }

    /// Waits for messages, and for no longer than it takes to look for signals; false once the time is over.
    fn wait(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<bool> {
        let left = deadline.map_or(SIGNAL_CHECK, |at| at.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(false);
        }
        let left = left.min(SIGNAL_CHECK);
        // Nothing is locked meanwhile: another thread, or the handler of a signal, may read.
        match self.until_due(py)? {
            None => detached(py, || self.reader.wait_for_items(left)),
            Some((due, false)) => detached(py, || self.reader.wait_for_items(left.min(due))),
            Some((due, true)) => detached(py, || std::thread::sleep(left.min(due))),
        }
        check(py)?;
        Ok(true)
    }
}

/// The topic of a message as a Python object, most likely that of the last.
fn topic_of(
    py: Python<'_>,
    last: &mut Option<(Vec<u8>, Py<PyString>)>,
    view: &MessageView<'_>,
) -> Py<PyString> {
    match last {
        Some((name, topic)) if name == view.name_bytes() => topic.clone_ref(py),
        _ => {
            let name = String::from_utf8_lossy(view.name_bytes());
            let topic = PyString::new(py, &name).unbind();
            *last = Some((view.name_bytes().to_vec(), topic.clone_ref(py)));
            topic
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

/// What a `for` loop over a subscription asks for more.
#[pyclass(frozen)]
struct Lists(Py<Subscription>);

#[pymethods]
impl Lists {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyIterator>>> {
        let subscription = self.0.get();
        ended(subscription.iterator_before(py, None)).map(|next| next.filter(|_| !subscription.is_stopped()))
    }
}

/// A subscription that is closed and empty has no next.
fn ended<T>(next: Result<Option<T>, End>) -> PyResult<Option<T>> {
    match next {
        Ok(next) => Ok(next),
        Err(End::Over) => Ok(None),
        Err(End::Failed(error)) => Err(error),
    }
}

#[pymethods]
impl Subscription {
    #[getter]
    fn pattern(&self) -> &str {
        &self.pattern
    }

    #[getter]
    fn dropped(&self) -> PyResult<u64> {
        // In a child its queue may be locked for ever, by a thread that stayed behind.
        self.birth.check()?;
        Ok(self.reader.consumer().dropped())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    /// Chained lists: the loop runs inside Python, and comes here once for each of them.
    fn __iter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        static CHAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let chain = CHAIN.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
            Ok(py.import("itertools")?.getattr("chain")?.getattr("from_iterable")?.unbind())
        })?;
        chain.bind(py).call1((Lists(slf),))
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.is_stopped() {
            return Ok(None);
        }
        ended(self.next_before(py, None)).map(|next| next.filter(|_| !self.is_stopped()))
    }

    /// The next message, or `None` if none came in time.
    #[pyo3(signature = (timeout_s = None))]
    fn receive<'py>(&self, py: Python<'py>, timeout_s: Option<f64>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.next_before(py, deadline(timeout_s)?) {
            Ok(next) => Ok(next),
            Err(End::Over) => Err(errors::subscription_closed()),
            Err(End::Failed(error)) => Err(error),
        }
    }

    /// Messages that are here already, at most so many, without waiting; `None` once closed and empty.
    #[pyo3(signature = (count_max = 1000))]
    fn receive_nowait<'py>(&self, py: Python<'py>, count_max: usize) -> PyResult<Option<Bound<'py, PyList>>> {
        let messages = PyList::empty(py);
        let mut reading = self.lock(py)?;
        while messages.len() < count_max {
            if let Some(mut iterator) = self.iterator(py)? {
                if let Some(message) = iterator.next() {
                    messages.append(message?)?;
                }
                continue;
            }
            self.fill_list(py, &mut reading, count_max - messages.len())?;
            if !reading.list.is_empty() {
                for message in reading.list.drain(..) {
                    messages.append(message)?;
                }
                continue;
            }
            match ended(self.refill(&mut reading).map(Some))? {
                Some(true) => {}
                Some(false) => break,
                None => return Ok((!messages.is_empty()).then_some(messages)),
            }
        }
        Ok(Some(messages))
    }

    /// Has messages with a delivery delay wait for their delivery time here, about so many bytes of them; then the rest of the
    /// queue waits, too. For a reader that calls `receive`, before it does.
    fn hold_back(&self, py: Python<'_>, bytes_max: usize) -> PyResult<()> {
        self.lock(py)?.held = Some(HeldBack::new(bytes_max));
        Ok(())
    }

    /// Seconds until the next message that is held back is due; `None` if there is none.
    #[getter]
    fn next_due_s(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.until_due(py)?.map(|(due, _)| due.as_secs_f64()))
    }

    /// Has its messages acknowledged and answered by an object. Once.
    fn set_receiver(&self, py: Python<'_>, receiver: Py<PyAny>) -> PyResult<()> {
        let set = self.receiver.set(py, receiver);
        set.map_err(|_| errors::config("the subscription has a receiver already".into()))
    }

    /// Says that this thread runs the callback of this subscription and does nothing else.
    fn mark_callback_thread(&self) {
        delivery::mark_callback_thread(self.reader.consumer());
    }

    /// Rings `bell` as `source` when there is something to receive, or never will be.
    fn attach_bell(&self, bell: &Bound<'_, Bell>, source: u64) {
        self.reader.attach(bell.get().inner(), source);
    }

    /// Messages that are here and were not read yet.
    #[getter]
    fn pending(&self, py: Python<'_>) -> PyResult<usize> {
        let reading = self.lock(py)?;
        let batched = reading.batch.as_ref().map_or(0, |(batch, at)| batch.entries.len().saturating_sub(*at));
        let taken: usize = reading.batches.iter().map(|batch| batch.entries.len()).sum();
        let ahead = match self.iterator(py)? {
            Some(iterator) => iterator.call_method0(intern!(py, "__length_hint__"))?.extract()?,
            None => 0,
        };
        Ok(ahead + batched + taken + self.reader.consumer().pending())
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        self.birth.check()?;
        Ok(self.closed.load(Ordering::SeqCst) || self.reader.consumer().is_closed())
    }

    /// Ends the subscription; what has arrived can still be read.
    fn close(&self, py: Python<'_>) {
        if self.birth.is_here() && !self.closed.swap(true, Ordering::SeqCst) {
            detached(py, || self.unsubscribe());
        }
    }

    /// Ends an iteration, whatever has arrived.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.stopped.store(true, Ordering::SeqCst);
        let ahead = self.ahead().take();
        if let Some(Ahead { list, .. }) = ahead {
            list.bind(py).del_slice(0, LIST_MAX)?;
        }
        if self.birth.is_here() {
            self.reader.consumer().close();
        }
        Ok(())
    }
}
