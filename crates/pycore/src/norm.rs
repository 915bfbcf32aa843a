//! NORM links on real sockets: one that carries messages, and the long transfers of the benchmark.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use shoal_io::files::{FileFailure, StoredFile};
use shoal_io::interfaces::Interface;
use shoal_io::norm::{
    Arrival, BulkReport, Full, LaneOptions, LinkOptions, NormLink as Link, Queue, fresh_instance,
};
use shoal_io::raw;
use shoal_io::udp::LinkAddress;
use shoal_norm::{Event, NodeId, Stats, StreamOptions};

use crate::convert::{duration, event_to_python};
use crate::errors;
use crate::options;

/// What waits for Python, at the most.
const QUEUE_BYTES_MAX: usize = 64 << 20;

pub fn address(group: &str, port: u16, interface: &str) -> PyResult<LinkAddress> {
    let group: IpAddr =
        group.parse().map_err(|_| errors::config(format!("group must be an IP address, not {group:?}")))?;
    let interface = match interface.parse::<IpAddr>() {
        Ok(address) => Interface::Address(address),
        Err(_) if interface == "auto" => Interface::Auto,
        Err(_) => Interface::Name(interface.to_owned()),
    };
    Ok(LinkAddress { group: SocketAddr::new(group, port), interface })
}

pub fn stats_to_python<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(py);
    for (name, count) in stats.named() {
        named.set_item(name, count)?;
    }
    Ok(named)
}

/// Takes a keyword that is not the session's out of `options`.
fn take<'py, T>(options: &Bound<'py, PyDict>, name: &str, default: T) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let Some(value) = options.get_item(name)? else {
        return Ok(default);
    };
    options.del_item(name)?;
    let refused =
        || PyValueError::new_err(format!("{name} cannot be {value:?}: wrong type, or out of range"));
    value.extract().map_err(|_| refused())
}

pub fn link_options(
    address: LinkAddress,
    node: NodeId,
    seed: u64,
    options: Option<&Bound<'_, PyDict>>,
    py: Python<'_>,
) -> PyResult<LinkOptions> {
    let options = match options {
        Some(options) => options.copy()?,
        None => PyDict::new(py),
    };
    let lanes: usize = take(&options, "lanes", 1)?;
    let stream = StreamOptions {
        cache_bytes: take(&options, "cache_bytes", 16 << 20)?,
        window_bytes: take(&options, "window_bytes", None)?,
        info: take(&options, "info", Vec::new())?,
        precedence: 0,
        quiet: false,
    };
    let drop_received = take(&options, "drop_received", 0.0)?;
    let receive_buffer_bytes = take(&options, "receive_buffer_bytes", 8 << 20)?;
    let listen_port: Option<u16> = take(&options, "listen_port", None)?;
    let files_directory: Option<PathBuf> = take(&options, "files_directory", None)?;
    let ackers = take(&options, "ackers", Vec::new())?;
    let message_bytes_max = take(&options, "message_bytes_max", 128 << 20)?;
    let fit_segments = take(&options, "fit_segments", false)?;
    let mut link = LinkOptions::new(address, options::config(node, fresh_instance(), seed, &options)?);
    link.fit_segments = fit_segments;
    link.lanes = (0..lanes)
        .map(|lane| LaneOptions {
            stream: StreamOptions { precedence: lane as u8, ..stream.clone() },
            marks: false,
        })
        .collect();
    link.drop_received = drop_received;
    link.sockets.receive_buffer_bytes = receive_buffer_bytes;
    link.sockets.listen_port = listen_port;
    link.ackers = ackers;
    link.files_directory = files_directory;
    link.message_bytes_max = message_bytes_max;
    Ok(link)
}

/// A NORM link on real sockets that carries messages in streams.
#[pyclass(module = "shoal._core", frozen)]
pub struct NormLink {
    link: Link,
    queue: Arc<Queue>,
}

#[pymethods]
impl NormLink {
    #[new]
    #[pyo3(signature = (node, *, group, port, interface = "auto", seed = 0, **options))]
    fn new(
        py: Python<'_>,
        node: NodeId,
        group: &str,
        port: u16,
        interface: &str,
        seed: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NormLink> {
        let options = link_options(address(group, port, interface)?, node, seed, options, py)?;
        let (queue, inbox) = Queue::new(QUEUE_BYTES_MAX, options.message_bytes_max);
        let link = py.detach(|| Link::open(options, Box::new(inbox))).map_err(errors::link)?;
        Ok(NormLink { link, queue })
    }

    #[pyo3(signature = (body, lane = 0, timeout_s = None))]
    fn send(&self, py: Python<'_>, body: &[u8], lane: usize, timeout_s: Option<f64>) -> PyResult<()> {
        let limit = timeout_s.map(|seconds| duration("timeout_s", seconds)).transpose()?;
        py.detach(|| self.link.send(lane, &[body], Full::Wait(limit))).map_err(errors::send)
    }

    /// Messages and events since the last call: (kind, fields). Empty if nothing came in time.
    #[pyo3(signature = (timeout_s = None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout_s: Option<f64>,
    ) -> PyResult<Vec<(&'static str, Bound<'py, PyDict>)>> {
        let limit = timeout_s.map(|seconds| duration("timeout_s", seconds)).transpose()?;
        let Some((arrivals, was_full)) = py.detach(|| self.queue.take(limit)) else {
            return Err(errors::closed());
        };
        if was_full {
            self.link.resume();
        }
        arrivals.into_iter().map(|arrival| arrival_to_python(py, &arrival)).collect()
    }

    /// Sends bytes as one object: its number, or `None` if there is no room for it now.
    #[pyo3(signature = (content, info = None))]
    fn send_data(&self, py: Python<'_>, content: &[u8], info: Option<&[u8]>) -> PyResult<Option<u16>> {
        py.detach(|| self.link.send_data(content, info.unwrap_or_default()))
            .map_err(|error| errors::config(error.to_string()))
    }

    /// Sends a file from disk: its number, or `None` if there is no room for it now.
    #[pyo3(signature = (path, info = None))]
    fn send_file(&self, py: Python<'_>, path: PathBuf, info: Option<&[u8]>) -> PyResult<Option<u16>> {
        py.detach(|| self.link.send_file(&path, info.unwrap_or_default())).map_err(errors::link)
    }

    /// Says something to everybody, some times; false if the last command is still being repeated.
    #[pyo3(signature = (content, times = 1))]
    fn send_command(&self, py: Python<'_>, content: &[u8], times: u32) -> PyResult<bool> {
        py.detach(|| self.link.command(|session, now| session.send_command(now, content, times)))
            .map_err(|error| errors::config(error.to_string()))
    }

    /// Asks nodes for an acknowledgement; the event `acks_done` tells who gave it.
    fn request_acks(&self, py: Python<'_>, ack_type: u8, ack_id: u8, nodes: Vec<NodeId>) -> bool {
        py.detach(|| self.link.command(|session, now| session.request_acks(now, ack_type, ack_id, &nodes)))
    }

    fn set_ackers(&self, py: Python<'_>, nodes: Vec<NodeId>) {
        py.detach(|| self.link.command(|session, _| session.set_ackers(&nodes)));
    }

    /// Asks the ackers to confirm all that was sent; the event `watermark_done` tells the outcome.
    #[pyo3(signature = (lane = 0))]
    fn request_watermark(&self, py: Python<'_>, lane: u16) -> PyResult<()> {
        py.detach(|| self.link.command(|session, now| session.request_watermark(now, lane)))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.link.stats());
        stats_to_python(py, &stats)
    }

    /// Bytes per second the session may send at; `None` is without limit.
    #[getter]
    fn rate_bytes_per_s(&self, py: Python<'_>) -> Option<f64> {
        py.detach(|| self.link.command(|session, _| session.rate_bytes_per_s()))
    }

    #[getter]
    fn grtt_s(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.link.grtt()).as_secs_f64()
    }

    /// The last thing the disk refused, once; the event `file_failed` tells each of them.
    fn take_file_error(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.link.take_file_error())
    }

    /// Sends what waits, ends the streams, says goodbye. True if every acker acknowledged everything; without
    /// ackers, if it was announced often enough.
    #[pyo3(signature = (linger_s = 1.0))]
    fn close(&self, py: Python<'_>, linger_s: f64) -> PyResult<bool> {
        let linger = duration("linger_s", linger_s)?;
        Ok(py.detach(|| self.link.close(linger)))
    }
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
        Arrival::Message(_, body) => fields.set_item("body", PyBytes::new(py, body))?,
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

fn report_to_python<'py>(py: Python<'py>, report: &BulkReport) -> PyResult<Bound<'py, PyDict>> {
    let fields = stats_to_python(py, &report.stats)?;
    fields.set_item("bytes", report.bytes)?;
    fields.set_item("seconds", report.seconds)?;
    fields.set_item("fault", &report.fault)?;
    Ok(fields)
}

/// Calls back into Python a few times a second, and passes on what it raises.
fn report_progress(progress: Option<Py<PyAny>>) -> impl FnMut(u64) {
    let mut last = std::time::Instant::now();
    move |bytes| {
        if let Some(callback) = &progress
            && last.elapsed() >= Duration::from_millis(100)
        {
            last = std::time::Instant::now();
            Python::attach(|py| {
                if let Err(error) = callback.call1(py, (bytes,)) {
                    error.print(py);
                }
            });
        }
    }
}

/// Sends one long stream as fast as it goes.
#[pyfunction]
#[pyo3(signature = (node, bytes, message_bytes, *, group, port, interface = "lo", linger_s = 10.0, progress = None, **options))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn norm_send_bulk<'py>(
    py: Python<'py>,
    node: NodeId,
    bytes: u64,
    message_bytes: usize,
    group: &str,
    port: u16,
    interface: &str,
    linger_s: f64,
    progress: Option<Py<PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = link_options(address(group, port, interface)?, node, u64::from(node), options, py)?;
    let linger = duration("linger_s", linger_s)?;
    let report = py
        .detach(|| {
            shoal_io::norm::send_bulk(options, bytes, message_bytes, linger, report_progress(progress))
        })
        .map_err(errors::link)?;
    report_to_python(py, &report)
}

/// Receives one long stream, and checks every byte of it.
#[pyfunction]
#[pyo3(signature = (node, message_bytes, *, group, port, interface = "lo", patience_s = 10.0, progress = None, **options))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn norm_receive_bulk<'py>(
    py: Python<'py>,
    node: NodeId,
    message_bytes: usize,
    group: &str,
    port: u16,
    interface: &str,
    patience_s: f64,
    progress: Option<Py<PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = link_options(address(group, port, interface)?, node, u64::from(node), options, py)?;
    let patience = duration("patience_s", patience_s)?;
    let report = py
        .detach(|| shoal_io::norm::receive_bulk(options, message_bytes, patience, report_progress(progress)))
        .map_err(errors::link)?;
    report_to_python(py, &report)
}

/// Sends datagrams with no protocol for a while: (bytes, seconds).
#[pyfunction]
#[pyo3(signature = (segment_bytes, duration_s, *, group, port, interface = "lo"))]
pub fn raw_send(
    py: Python<'_>,
    segment_bytes: usize,
    duration_s: f64,
    group: &str,
    port: u16,
    interface: &str,
) -> PyResult<(u64, f64)> {
    let address = address(group, port, interface)?;
    let span = duration("duration_s", duration_s)?;
    let rate = py.detach(|| raw::send_for(&address, segment_bytes, span))?;
    Ok((rate.bytes, rate.seconds))
}

/// Counts what [`raw_send`] sends: (bytes, seconds).
#[pyfunction]
#[pyo3(signature = (*, group, port, interface = "lo", patience_s = 10.0))]
pub fn raw_receive(
    py: Python<'_>,
    group: &str,
    port: u16,
    interface: &str,
    patience_s: f64,
) -> PyResult<(u64, f64)> {
    let address = address(group, port, interface)?;
    let patience = duration("patience_s", patience_s)?;
    let rate = py.detach(|| raw::receive_until_end(&address, patience))?;
    Ok((rate.bytes, rate.seconds))
}
