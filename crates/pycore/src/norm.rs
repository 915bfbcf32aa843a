//! NORM links on real sockets: one that carries messages, and the long transfers of the benchmark.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_io::files::{FileFailure, StoredFile};
use shoal_io::norm::{Arrival, Full, NormLink as Link, Queue, SendError};
use shoal_norm::{AbortReason, Event, NodeId, Stats, WriteError};

use crate::bell::Bell;
use crate::bus::body::to_python;
use crate::bus::exit::{check, detached};
use crate::bus::fork::Birth;
use crate::bus::node::{SIGNAL_CHECK, deadline};
use crate::convert::{event_to_python, linger};
use crate::errors;
use crate::link_options::{keys_of, named_link, node_ids};

/// What waits for Python, at the most.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// How often to look whether the streams took what was sent.
const WRITE_INTERVAL: Duration = Duration::from_micros(200);

pub fn stats_to_python<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(py);
    for (name, count) in stats.named() {
        named.set_item(name, count)?;
    }
    Ok(named)
}

/// A NORM link on real sockets that carries messages in streams. May be shared between threads.
#[pyclass(module = "shoal._core", frozen)]
pub struct NormLink {
    /// None only while it is dropped.
    ends: Option<Ends>,
    birth: Birth,
    closed: AtomicBool,
    /// What closing answered.
    outcome: OnceLock<bool>,
}

struct Ends {
    /// Until it is closed, which gives back its sockets and what it keeps for repair.
    link: Mutex<Option<Arc<Link>>>,
    queue: Arc<Queue>,
    /// What the link could tell when it was closed.
    last: OnceLock<Last>,
}

/// What is still asked for once a link is closed.
struct Last {
    stats: Stats,
    rate_bytes_per_s: Option<f64>,
    grtt: Duration,
    socket_error: Mutex<Option<String>>,
}

impl Ends {
    /// The link, until it is gone.
    fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the link. Whoever still waits for something learns that nothing will come.
    fn close(&self, linger: Duration) -> bool {
        let Some(link) = self.link() else { return true };
        let done = link.close(linger);
        link.drop_application();
        let _ = self.last.set(Last {
            stats: link.stats(),
            rate_bytes_per_s: link.command(|session, _| session.rate_bytes_per_s()),
            grtt: link.grtt(),
            socket_error: Mutex::new(link.take_socket_error()),
        });
        self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        done
    }

    /// Asks the link, or what it said last.
    fn ask<R>(&self, open: impl FnOnce(&Link) -> R, closed: impl FnOnce(&Last) -> R) -> PyResult<R> {
        match (self.link(), self.last.get()) {
            (_, Some(last)) => Ok(closed(last)),
            (Some(link), None) => Ok(open(&link)),
            (None, None) => Err(errors::closed()),
        }
    }
}

impl NormLink {
    /// Both ends, also once it is closed; not in a forked child, where it has no thread.
    fn ends(&self) -> PyResult<&Ends> {
        self.birth.check()?;
        self.ends.as_ref().ok_or_else(errors::closed)
    }

    /// What can be done only while it is open.
    fn open(&self) -> PyResult<Arc<Link>> {
        let link = self.ends()?.link();
        link.filter(|_| !self.closed.load(Ordering::SeqCst)).ok_or_else(errors::closed)
    }
}

#[pymethods]
impl NormLink {
    #[new]
    #[pyo3(signature = (node, *, group, port, interface = "auto", seed = None, **options))]
    fn new(
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        group: &str,
        port: &Bound<'_, PyAny>,
        interface: &str,
        seed: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NormLink> {
        let options = named_link(py, node, group, port, interface, seed, options)?;
        let (queue, inbox) =
            Queue::new(QUEUE_BYTES_MAX, options.message_bytes_max, options.files_directory.clone());
        let link = detached(py, || Link::open(options, Box::new(inbox))).map_err(errors::link)?;
        Ok(NormLink {
            ends: Some(Ends { link: Mutex::new(Some(Arc::new(link))), queue, last: OnceLock::new() }),
            birth: Birth::now(),
            closed: AtomicBool::new(false),
            outcome: OnceLock::new(),
        })
    }

    /// Sends a message on a lane; waits for room, `timeout_s` at the most.
    #[pyo3(signature = (body, lane = 0, timeout_s = None))]
    fn send(&self, py: Python<'_>, body: &[u8], lane: usize, timeout_s: Option<f64>) -> PyResult<()> {
        let until = deadline(timeout_s)?;
        loop {
            let link = self.open()?;
            let (slice, last) = next_wait(until);
            match detached(py, || link.send(lane, &[body], Full::Wait(Some(slice)))) {
                Err(SendError::Full) if !last => check(py)?,
                result => return result.map_err(errors::send),
            }
        }
    }

    /// Messages and events since the last call: (kind, fields). Empty if nothing came in time.
    #[pyo3(signature = (timeout_s = None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout_s: Option<f64>,
    ) -> PyResult<Vec<(&'static str, Bound<'py, PyDict>)>> {
        let until = deadline(timeout_s)?;
        let ends = self.ends()?;
        let queue = &ends.queue;
        loop {
            let (slice, last) = next_wait(until);
            let Some((arrivals, was_full)) = detached(py, || queue.take(Some(slice))) else {
                return Err(queue.failure().map_or_else(errors::closed, |why| errors::link_failed(&why)));
            };
            if let Some(link) = ends.link().filter(|_| was_full) {
                link.resume();
            }
            if last || !arrivals.is_empty() {
                return arrivals.into_iter().map(|arrival| told(py, &arrival)).collect();
            }
            check(py)?;
        }
    }

    /// Sends bytes as one object: its number, or `None` if there is no room for it now.
    #[pyo3(signature = (content, info = None))]
    fn send_data(&self, py: Python<'_>, content: &[u8], info: Option<&[u8]>) -> PyResult<Option<u16>> {
        let link = self.open()?;
        detached(py, || link.send_data(content, info.unwrap_or_default())).map_err(|error| match error {
            WriteError::NoMemory => PyMemoryError::new_err(error.to_string()),
            error => errors::config(error.to_string()),
        })
    }

    /// Sends a file from disk: its number, or `None` if there is no room for it now.
    #[pyo3(signature = (path, info = None))]
    fn send_file(&self, py: Python<'_>, path: PathBuf, info: Option<&[u8]>) -> PyResult<Option<u16>> {
        let (link, queue) = (self.open()?, &self.ends()?.queue);
        detached(py, || link.send_file(queue.files(), &path, info.unwrap_or_default())).map_err(errors::link)
    }

    /// Forgets an object being sent; false if there is none.
    fn cancel_object(&self, py: Python<'_>, object: u16) -> PyResult<bool> {
        let link = self.open()?;
        Ok(detached(py, || link.cancel_object(object)))
    }

    /// Says something to everybody, some times; false if the last command is still being repeated.
    #[pyo3(signature = (content, times = 1))]
    fn send_command(&self, py: Python<'_>, content: &[u8], times: u32) -> PyResult<bool> {
        let link = self.open()?;
        if times == 0 {
            return Err(errors::config("times is 0, and must be at least 1".to_owned()));
        }
        let (said, segment_bytes) = detached(py, || {
            link.command(|session, now| {
                (session.send_command(now, content, times), session.config().segment_bytes)
            })
        });
        said.map_err(|_| {
            let bytes = content.len();
            errors::config(format!(
                "a command has {bytes} bytes, and must fit into a segment of {segment_bytes}"
            ))
        })
    }

    /// Asks nodes for an acknowledgement; the event `acks_done` tells who gave it. False if the last question is
    /// still open.
    fn request_acks(&self, py: Python<'_>, ack_type: u8, ack_id: u8, nodes: Vec<NodeId>) -> PyResult<bool> {
        let link = self.open()?;
        if ack_type < 16 {
            let wanted = "and must be from 16 to 255: those below are NORM's own";
            return Err(errors::config(format!("ack_type is {ack_type}, {wanted}")));
        }
        let (own, segment_bytes) =
            link.command(|session, _| (session.node(), session.config().segment_bytes));
        let nodes = node_ids("nodes", nodes, own)?;
        let most = usize::from(segment_bytes) / 4;
        if nodes.is_empty() || nodes.len() > most {
            let wanted = format!("and must be 1 to {most}, which fit into a segment");
            return Err(errors::config(format!("nodes are {}, {wanted}", nodes.len())));
        }
        Ok(detached(py, || link.command(|session, now| session.request_acks(now, ack_type, ack_id, &nodes))))
    }

    /// Whose acknowledgements count from now on.
    fn set_ackers(&self, py: Python<'_>, nodes: Vec<NodeId>) -> PyResult<()> {
        let link = self.open()?;
        let nodes = node_ids("ackers", nodes, link.node())?;
        detached(py, || link.command(|session, _| session.set_ackers(&nodes)));
        Ok(())
    }

    /// Asks the ackers to confirm an object, or everything sent on a stream so far; the event `watermark_done`
    /// tells the outcome. Streams are numbered as their lanes are.
    #[pyo3(signature = (object = 0))]
    fn request_watermark(&self, py: Python<'_>, object: u16) -> PyResult<()> {
        let link = self.open()?;
        detached(py, || link.command(|session, now| session.request_watermark(now, object))).map_err(|_| {
            errors::config(format!(
                "object is {object}, and must be a stream or an object that is still kept"
            ))
        })
    }

    /// Waits until the streams took everything that was sent, so that a watermark covers it. False if the time was
    /// over first.
    #[pyo3(signature = (timeout_s = None))]
    fn wait_written(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<bool> {
        let until = deadline(timeout_s)?;
        let appended = self.open()?.appended();
        loop {
            let (slice, last) = next_wait(until);
            let link = self.open()?;
            let written = detached(py, || {
                let began = Instant::now();
                while !link.is_written(&appended) && began.elapsed() < slice {
                    link.resume();
                    std::thread::sleep(WRITE_INTERVAL.min(slice));
                }
                link.is_written(&appended)
            });
            if written || last {
                return Ok(written);
            }
            check(py)?;
        }
    }

    /// Whether the streams took everything that was sent so far.
    fn is_written(&self) -> PyResult<bool> {
        let link = self.open()?;
        Ok(link.is_written(&link.appended()))
    }

    /// Rings `bell` as source 0 when something arrived, when there is room for a message that was refused, and at the
    /// end.
    fn attach_bell(&self, bell: &Bound<'_, Bell>) -> PyResult<()> {
        let (ends, bell) = (self.ends()?, bell.get().inner());
        ends.queue.attach(bell, 0);
        if let Some(link) = ends.link() {
            link.attach(bell, 0);
        }
        Ok(())
    }

    /// Begins to close, without waiting for it; `close` has little to wait for once `has_left`.
    fn begin_close(&self, linger_s: f64) -> PyResult<()> {
        let linger = linger("linger_s", linger_s)?;
        self.closed.store(true, Ordering::SeqCst);
        if let Some(link) = self.ends()?.link() {
            link.begin_close(linger);
        }
        Ok(())
    }

    /// Whether the goodbye was said.
    fn has_left(&self) -> PyResult<bool> {
        Ok(self.ends()?.link().is_none_or(|link| link.has_left()))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ends = self.ends()?;
        let stats = detached(py, || ends.ask(Link::stats, |last| last.stats.clone()))?;
        stats_to_python(py, &stats)
    }

    /// Changes the keys of a link that has some. False if it has none.
    fn set_keys(&self, keys: &str) -> PyResult<bool> {
        let keys = keys_of(keys)?;
        Ok(self.open()?.set_keys(keys))
    }

    /// The last error a socket gave, or who has another key, once.
    fn take_socket_error(&self) -> PyResult<Option<String>> {
        let lock = |last: &Last| last.socket_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.ends()?.ask(Link::take_socket_error, lock)
    }

    /// Bytes per second the session may send at; `None` is without limit.
    #[getter]
    fn rate_bytes_per_s(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let ends = self.ends()?;
        let ask = |link: &Link| link.command(|session, _| session.rate_bytes_per_s());
        detached(py, || ends.ask(ask, |last| last.rate_bytes_per_s))
    }

    #[getter]
    fn grtt_s(&self, py: Python<'_>) -> PyResult<f64> {
        let ends = self.ends()?;
        Ok(detached(py, || ends.ask(Link::grtt, |last| last.grtt))?.as_secs_f64())
    }

    /// The last thing the disk refused, once; the event `file_failed` tells each of them.
    fn take_file_error(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let queue = &self.ends()?.queue;
        Ok(detached(py, || queue.take_file_error()))
    }

    /// Sends what waits, ends the streams, says goodbye. True if every acker acknowledged everything; without
    /// ackers, if it was announced often enough. In a forked child there is nothing to close, and it is false.
    #[pyo3(signature = (linger_s = 1.0))]
    fn close(&self, py: Python<'_>, linger_s: f64) -> PyResult<bool> {
        let linger = linger("linger_s", linger_s)?;
        let Some(ends) = self.ends.as_ref().filter(|_| self.birth.is_here()) else {
            return Ok(false);
        };
        self.closed.store(true, Ordering::SeqCst);
        Ok(detached(py, || *self.outcome.get_or_init(|| ends.close(linger))))
    }
}

impl Drop for NormLink {
    fn drop(&mut self) {
        if let Some(ends) = self.ends.take()
            && !self.birth.is_here()
        {
            // Its thread stayed in the parent, so there is nothing to join and nothing to close.
            std::mem::forget(ends);
        }
    }
}

/// How long to wait before looking whether the user wants to interrupt, and whether time is over then.
fn next_wait(until: Option<Instant>) -> (Duration, bool) {
    let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
    (left.min(SIGNAL_CHECK), left <= SIGNAL_CHECK)
}

/// What arrived; if there is no memory for it, that it is lost.
fn told<'py>(py: Python<'py>, arrival: &Arrival) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
    arrival_to_python(py, arrival).or_else(|error| match arrival {
        _ if !error.is_instance_of::<PyMemoryError>(py) => Err(error),
        Arrival::Message(stream, body) => {
            let why = format!("there is no memory for a message of {} bytes: it is lost", body.len());
            arrival_to_python(py, &Arrival::Broken(*stream, why))
        }
        Arrival::Event(Event::DataReceived { object, .. } | Event::FileChunk { object, .. }) => {
            event_to_python(py, &Event::ObjectAborted { object: *object, reason: AbortReason::TooLarge })
        }
        _ => Err(error),
    })
}

fn arrival_to_python<'py>(
    py: Python<'py>,
    arrival: &Arrival,
) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
    let (stream, fields) = match arrival {
        Arrival::Event(event) => return event_to_python(py, event),
        Arrival::FileStored(stored) => return stored_to_python(py, stored),
        Arrival::FileFailed(failure) => return failure_to_python(py, failure),
        Arrival::Message(stream, _) | Arrival::Broken(stream, _) => (stream, PyDict::new(py)),
    };
    fields.set_item("sender", stream.node)?;
    fields.set_item("instance", stream.instance)?;
    fields.set_item("stream", stream.object)?;
    match arrival {
        Arrival::Message(_, body) => fields.set_item("body", to_python(py, body)?)?,
        Arrival::Broken(_, why) => fields.set_item("why", why)?,
        Arrival::Event(_) | Arrival::FileStored(_) | Arrival::FileFailed(_) => {}
    }
    Ok((if matches!(arrival, Arrival::Message(..)) { "message" } else { "broken" }, fields))
}

/// A file that was received, and where it is.
fn stored_to_python<'py>(
    py: Python<'py>,
    stored: &StoredFile,
) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
    let received = Event::FileReceived { object: stored.object, bytes: stored.bytes };
    let (kind, fields) = event_to_python(py, &received)?;
    fields.set_item("path", &stored.path)?;
    Ok((kind, fields))
}

/// A file the disk refused: of ours its number, of somebody else's whose it was.
fn failure_to_python<'py>(
    py: Python<'py>,
    failure: &FileFailure,
) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
    let fields = PyDict::new(py);
    match failure {
        FileFailure::Sending(object, _) => fields.set_item("stream", object)?,
        FileFailure::Receiving(object, _) => {
            fields.set_item("sender", object.node)?;
            fields.set_item("instance", object.instance)?;
            fields.set_item("stream", object.object)?;
        }
    }
    fields.set_item("sending", matches!(failure, FileFailure::Sending(..)))?;
    fields.set_item("why", failure.why())?;
    Ok(("file_failed", fields))
}
