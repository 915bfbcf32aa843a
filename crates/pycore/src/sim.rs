//! The simulated network for Python: whole runs per call, so that no Python runs per packet.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use shoal_norm::{ConfigError, NodeId, ObjectId, Time, WriteError};
use shoal_sim::node::{Clock, Node};
use shoal_sim::{Conditions, Port, Simulation as Network};

use crate::convert::{duration, event_to_python, extract, seconds, time};
use crate::options;

/// A run pauses so many times to look whether the user wants to interrupt it.
const PAUSES: u32 = 64;

/// When, sender, instance, stream and body of a message.
type DeliveryTuple<'py> = (f64, NodeId, u16, ObjectId, Bound<'py, PyBytes>);
/// When, source, target and bytes of a datagram.
pub type TraceTuple<'py> = (f64, NodeId, NodeId, Bound<'py, PyBytes>);

fn config_error(error: ConfigError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn write_error(error: WriteError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn no_such_node(id: NodeId) -> PyErr {
    PyValueError::new_err(format!("node must be the id of a node of this simulation, not {id}"))
}

/// A network of simulated nodes with one clock and one seed.
#[pyclass(module = "shoal._core")]
pub struct Simulation {
    network: Network,
}

impl Simulation {
    fn node(&self, id: NodeId) -> PyResult<&Node> {
        self.network.node(id).ok_or_else(|| no_such_node(id))
    }

    fn act<R>(&mut self, id: NodeId, act: impl FnOnce(&mut Node, Time) -> R) -> PyResult<R> {
        self.network.act(id, act).ok_or_else(|| no_such_node(id))
    }
}

#[pymethods]
impl Simulation {
    #[new]
    fn new(seed: u64) -> Simulation {
        Simulation { network: Network::new(seed) }
    }

    // --- the network ---

    #[getter]
    fn now_s(&self) -> f64 {
        seconds(self.network.now())
    }

    #[getter]
    fn digest(&self) -> u64 {
        self.network.digest()
    }

    #[getter]
    fn traffic(&self) -> (u64, u64) {
        self.network.traffic()
    }

    fn record_trace(&mut self) {
        self.network.trace.get_or_insert_default();
    }

    fn take_trace<'py>(&mut self, py: Python<'py>) -> Vec<TraceTuple<'py>> {
        trace_to_python(py, self.network.trace.as_mut())
    }

    #[pyo3(signature = (source, target, **link))]
    fn set_link(
        &mut self,
        source: Option<NodeId>,
        target: Option<NodeId>,
        link: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let link = conditions(link)?;
        match (source, target) {
            (None, None) => self.network.set_conditions(link),
            (Some(source), Some(target)) => self.network.set_path(source, target, Some(link)),
            _ => return Err(PyValueError::new_err("source and target must be given together, or neither")),
        }
        .map_err(config_error)
    }

    fn reset_link(&mut self, source: NodeId, target: NodeId) -> PyResult<()> {
        self.network.set_path(source, target, None).map_err(config_error)
    }

    // --- nodes ---

    #[pyo3(signature = (node, options, clock, port))]
    fn add_node(
        &mut self,
        node: NodeId,
        options: &Bound<'_, PyDict>,
        clock: (f64, f64),
        port: (Option<f64>, Option<f64>, usize),
    ) -> PyResult<()> {
        let seed = self.network.random();
        let config = options::config(node, 1, seed, options)?;
        let clock = Clock { offset: duration("offset_s", clock.0)?, skew: clock.1 };
        self.network.add(config, clock, port_of(port)).map_err(config_error)
    }

    fn set_port(&mut self, node: NodeId, port: (Option<f64>, Option<f64>, usize)) -> PyResult<()> {
        self.network.set_port(node, port_of(port)).map_err(config_error)
    }

    fn stop(&mut self, node: NodeId) -> PyResult<()> {
        self.network.stop(node).ok_or_else(|| no_such_node(node))
    }

    fn resume(&mut self, node: NodeId) -> PyResult<()> {
        self.network.resume(node).ok_or_else(|| no_such_node(node))
    }

    fn restart(&mut self, node: NodeId) -> PyResult<()> {
        self.network.restart(node).ok_or_else(|| no_such_node(node))?.map_err(config_error)
    }

    fn set_reading(&mut self, node: NodeId, reading: bool) -> PyResult<()> {
        self.act(node, |node, _| node.set_reading(reading))
    }

    // --- sending ---

    #[pyo3(signature = (node, *, cache_bytes, precedence, info, window_bytes))]
    fn open_stream(
        &mut self,
        node: NodeId,
        cache_bytes: usize,
        precedence: u8,
        info: Vec<u8>,
        window_bytes: Option<usize>,
    ) -> PyResult<ObjectId> {
        let options = shoal_norm::StreamOptions {
            cache_bytes,
            precedence,
            info,
            window_bytes,
            ..shoal_norm::StreamOptions::default()
        };
        self.act(node, |node, _| node.open_stream(options))?.map_err(write_error)
    }

    fn publish(
        &mut self,
        node: NodeId,
        stream: ObjectId,
        bodies: Vec<Bound<'_, PyBytes>>,
        flush: bool,
    ) -> PyResult<()> {
        self.act(node, |node, _| {
            bodies.iter().try_for_each(|body| node.publish(stream, body.as_bytes(), flush))
        })?
        .map_err(write_error)
    }

    fn flush(&mut self, node: NodeId, stream: ObjectId) -> PyResult<()> {
        self.act(node, |node, _| node.flush(stream))?.map_err(write_error)
    }

    fn close_stream(&mut self, node: NodeId, stream: ObjectId) -> PyResult<()> {
        self.act(node, |node, _| node.close_stream(stream))?.map_err(write_error)
    }

    fn drop_stream(&mut self, node: NodeId, stream: ObjectId) -> PyResult<()> {
        self.act(node, |node, now| node.command(now, |session, _| session.drop_stream(stream)))
    }

    fn send_data(&mut self, node: NodeId, content: &[u8], info: &[u8]) -> PyResult<Option<ObjectId>> {
        self.act(node, |node, now| {
            node.command(now, |session, local| session.send_data(local, content, info))
        })?
        .map_err(write_error)
    }

    fn cancel_object(&mut self, node: NodeId, object: ObjectId) -> PyResult<bool> {
        self.act(node, |node, now| node.command(now, |session, _| session.cancel_object(object)))
    }

    fn send_command(&mut self, node: NodeId, content: &[u8], times: u32) -> PyResult<bool> {
        self.act(node, |node, now| {
            node.command(now, |session, local| session.send_command(local, content, times))
        })?
        .map_err(write_error)
    }

    fn set_ackers(&mut self, node: NodeId, ackers: Vec<NodeId>) -> PyResult<()> {
        self.act(node, |node, now| node.command(now, |session, _| session.set_ackers(&ackers)))
    }

    fn request_watermark(&mut self, node: NodeId, stream: ObjectId) -> PyResult<()> {
        self.act(node, |node, now| {
            node.command(now, |session, local| session.request_watermark(local, stream))
        })?
        .map_err(write_error)
    }

    fn set_rate(&mut self, node: NodeId, rate_bytes_per_s: Option<f64>) -> PyResult<()> {
        self.act(node, |node, now| node.command(now, |session, _| session.set_rate(rate_bytes_per_s)))
    }

    fn leave(&mut self, node: NodeId) -> PyResult<()> {
        self.act(node, |node, now| node.command(now, |session, local| session.leave(local)))
    }

    fn backlog(&self, node: NodeId) -> PyResult<usize> {
        Ok(self.node(node)?.backlog())
    }

    // --- running ---

    fn run_until(&mut self, py: Python<'_>, at_s: f64) -> PyResult<()> {
        let end = time("at_s", at_s)?;
        for at in slices(self.network.now(), end) {
            self.network.run_until(at);
            py.check_signals()?;
        }
        Ok(())
    }

    fn run_until_delivered(
        &mut self,
        py: Python<'_>,
        wanted: Vec<(NodeId, usize)>,
        at_s: f64,
    ) -> PyResult<bool> {
        let end = time("at_s", at_s)?;
        for &(node, _) in &wanted {
            self.node(node)?;
        }
        for at in slices(self.network.now(), end) {
            if self.network.run_until_delivered(at, &wanted) {
                return Ok(true);
            }
            py.check_signals()?;
        }
        Ok(false)
    }

    // --- what happened ---

    fn take_deliveries<'py>(&mut self, py: Python<'py>, node: NodeId) -> PyResult<Vec<DeliveryTuple<'py>>> {
        let deliveries = self.act(node, |node, _| std::mem::take(&mut node.deliveries))?;
        let tuple = |delivery: shoal_sim::Delivery| {
            let stream = delivery.stream;
            let body = PyBytes::new(py, &delivery.body);
            (seconds(delivery.at), stream.node, stream.instance, stream.object, body)
        };
        Ok(deliveries.into_iter().map(tuple).collect())
    }

    fn take_events<'py>(
        &mut self,
        py: Python<'py>,
        node: NodeId,
    ) -> PyResult<Vec<(f64, &'static str, Bound<'py, PyDict>)>> {
        let occurrences = self.act(node, |node, _| std::mem::take(&mut node.occurrences))?;
        occurrences
            .iter()
            .map(|occurrence| {
                let (kind, fields) = event_to_python(py, &occurrence.event)?;
                Ok((seconds(occurrence.at), kind, fields))
            })
            .collect()
    }

    fn stats<'py>(&self, py: Python<'py>, node: NodeId) -> PyResult<Bound<'py, PyDict>> {
        let stats = PyDict::new(py);
        for (name, count) in self.node(node)?.session().stats().named() {
            stats.set_item(name, count)?;
        }
        Ok(stats)
    }

    fn state<'py>(&self, py: Python<'py>, node: NodeId) -> PyResult<Bound<'py, PyDict>> {
        let node = self.node(node)?;
        let session = node.session();
        let state = PyDict::new(py);
        state.set_item("instance", session.config().instance)?;
        state.set_item("delivered", node.delivered)?;
        state.set_item("unreadable", node.unreadable)?;
        state.set_item("receive_bytes", session.receive_bytes())?;
        state.set_item("receive_bytes_peak", node.receive_bytes_peak)?;
        state.set_item("receive_bytes_max", session.config().receive_bytes_max)?;
        state.set_item("rate_bytes_per_s", session.config().rate_bytes_per_s)?;
        state.set_item("busy_s", node.work.busy.as_secs_f64())?;
        state.set_item("busy_bytes", node.work.busy_bytes)?;
        state.set_item("grtt_s", session.grtt().as_secs_f64())?;
        Ok(state)
    }
}

/// The pauses of a run, of which the last is its end.
pub fn slices(now: Time, end: Time) -> impl Iterator<Item = Time> {
    let span = end.since(now);
    (1..=PAUSES).map(move |pause| if pause == PAUSES { end } else { now + span * pause / PAUSES })
}

pub fn port_of((egress, ingress, queue): (Option<f64>, Option<f64>, usize)) -> Port {
    Port { egress_bytes_per_s: egress, ingress_bytes_per_s: ingress, ingress_queue_bytes: queue }
}

/// Takes what was recorded.
pub fn trace_to_python<'py>(
    py: Python<'py>,
    trace: Option<&mut Vec<shoal_sim::TraceEntry>>,
) -> Vec<TraceTuple<'py>> {
    let tuple = |entry: shoal_sim::TraceEntry| {
        (seconds(entry.at), entry.from, entry.to, PyBytes::new(py, &entry.bytes))
    };
    trace.map(std::mem::take).unwrap_or_default().into_iter().map(tuple).collect()
}

/// The weather as Python describes it; what is left out is fine.
pub fn conditions(link: Option<&Bound<'_, PyDict>>) -> PyResult<Conditions> {
    let mut conditions = Conditions::default();
    for (field, value) in link.into_iter().flatten() {
        let field: String = field.extract()?;
        match field.as_str() {
            "loss" => conditions.loss = extract(&field, &value)?,
            "burst_begins" => conditions.burst_begins = extract(&field, &value)?,
            "burst_ends" => conditions.burst_ends = extract(&field, &value)?,
            "run_loss" => conditions.run_loss = extract(&field, &value)?,
            "duplication" => conditions.duplication = extract(&field, &value)?,
            "reordering" => conditions.reordering = extract(&field, &value)?,
            "delay_s" => conditions.delay = duration(&field, extract(&field, &value)?)?,
            "jitter_s" => conditions.jitter = duration(&field, extract(&field, &value)?)?,
            "cut" => conditions.cut = extract(&field, &value)?,
            _ => return Err(PyValueError::new_err(format!("a link has no field {field:?}"))),
        }
    }
    Ok(conditions)
}
