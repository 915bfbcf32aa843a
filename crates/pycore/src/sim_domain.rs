//! Simulated domains for Python: whole nodes on simulated networks, whole runs per call.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use shoal_node::hub::{Overflow, WhenFull};
use shoal_node::norm::LANES;
use shoal_node::tcp::TcpConfig;
use shoal_node::{HubConfig, Interest, MembershipConfig, NodeConfig};
use shoal_norm::{ConfigError, NodeId, Time};
use shoal_sim::node::Clock;
use shoal_sim::{Simulation as Network, Whole};
use shoal_wire::Roles;

use crate::bus::event_to_python;
use crate::bus::priority_of;
use crate::convert::{duration, extract, seconds, time};
use crate::errors;
use crate::options;
use crate::selector::Selector;
use crate::sim::{TraceTuple, conditions, port_of, slices};

/// When, how long its publisher waited, topic, priority, identity, who wanted it, body.
type PublishedTuple<'py> = (f64, f64, String, u8, (u64, u32, u64), Vec<NodeId>, Bound<'py, PyBytes>);
/// When, by which subscription, topic, identity, timestamp, body.
type ReadTuple<'py> = (f64, u32, String, (u64, u32, u64), u64, Bound<'py, PyBytes>);
/// Which flush, when it began and ended, who was silent, and who lost something for good.
type FlushedTuple = (u32, f64, f64, Vec<NodeId>, Vec<NodeId>);
/// When, what kind, about which node, details.
type EventTuple<'py> = (f64, &'static str, NodeId, Bound<'py, PyDict>);

fn config_error(error: ConfigError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn no_such_node(name: NodeId) -> PyErr {
    PyValueError::new_err(format!("node must be a node of this simulation, not {name}"))
}

fn when_full_of(name: &str) -> PyResult<WhenFull> {
    match name {
        "block" => Ok(WhenFull::Block),
        "drop" => Ok(WhenFull::Drop),
        "error" => Ok(WhenFull::Error),
        _ => Err(errors::config(format!("when_full must be block, drop or error, not {name:?}"))),
    }
}

fn overflow_of(name: &str) -> PyResult<Overflow> {
    match name {
        "block" => Ok(Overflow::Wait),
        "drop_new" => Ok(Overflow::DropNew),
        "drop_old" => Ok(Overflow::DropOld),
        _ => Err(errors::config(format!("queue_full must be block, drop_new or drop_old, not {name:?}"))),
    }
}

/// What a node is told beside what its sessions are told.
struct Told {
    config: NodeConfig,
    patience: std::time::Duration,
}

/// Networks of simulated whole nodes with one clock and one seed.
#[pyclass(module = "shoal._core")]
pub struct DomainSimulation {
    // Python may hand it from thread to thread; links may not be used by two at once.
    network: Mutex<Network<Whole>>,
}

impl DomainSimulation {
    fn network(&mut self) -> &mut Network<Whole> {
        self.network.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&mut self, name: NodeId) -> PyResult<&Whole> {
        self.network().station(name).ok_or_else(|| no_such_node(name))
    }

    fn act<R>(&mut self, name: NodeId, act: impl FnOnce(&mut Whole, Time) -> R) -> PyResult<R> {
        self.network().act(name, act).ok_or_else(|| no_such_node(name))
    }

    fn told(
        &mut self,
        node: NodeId,
        domain: u64,
        links: usize,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Told> {
        let options = options.copy()?;
        let take = |field: &str| -> PyResult<Bound<'_, PyAny>> {
            let value =
                options.get_item(field)?.ok_or_else(|| errors::config(format!("{field} is missing")))?;
            options.del_item(field)?;
            Ok(value)
        };
        let heartbeat = duration("heartbeat_s", extract("heartbeat_s", &take("heartbeat_s")?)?)?;
        let patience = duration("slow_after_s", extract("slow_after_s", &take("slow_after_s")?)?)?;
        let missed_heartbeats_max: u32 = extract("missed_heartbeats_max", &take("missed_heartbeats_max")?)?;
        let bytes = |field: &str| -> PyResult<usize> { extract(field, &take(field)?) };
        let (window_bytes, cache_bytes) = (bytes("window_bytes")?, bytes("cache_bytes")?);
        let lane_bytes_max = bytes("lane_bytes_max")?;
        let resume = duration("resume_s", extract("resume_s", &take("resume_s")?)?)?;
        let router: bool = extract("router", &take("router")?)?;
        let message_bytes_max = bytes("message_bytes_max")?;
        let assembly_bytes_max = bytes("assembly_bytes_max")?;
        let seed = self.network().random();
        let drawn = self.network().random().max(1);
        // As with real nodes, one that starts over is another instance, and so is one with the same id.
        let instance = (drawn >> 32) as u16;
        // And routers have their numbers by their age.
        let seconds = self.network().now().as_nanos() / 1_000_000_000;
        let publisher = if router { (seconds << 32 | drawn & 0xffff_ffff).max(1) } else { drawn };
        let hub = HubConfig {
            publisher,
            node,
            lanes: LANES,
            lane_bytes_max,
            message_bytes_max,
            assembly_bytes_max,
            seed,
        };
        let mut configs = Vec::new();
        for _ in 0..links {
            let mut norm = options::config(node, instance, self.network().random(), &options)?;
            norm.acker_patience = patience;
            let membership = MembershipConfig {
                domain,
                node,
                publisher,
                heartbeat,
                missed_heartbeats_max,
                members_max: 1000,
                groups: Arc::default(),
            };
            configs.push((norm, membership));
        }
        let tcp = TcpConfig {
            domain: "simulated".to_owned(),
            domain_number: domain,
            software: "shoal".to_owned(),
            heartbeat,
            missed_heartbeats_max,
            resume,
            patience,
            window_bytes,
            peers_max: 1000,
        };
        let config = NodeConfig { hub, links: configs, tcp, window_bytes, cache_bytes, router };
        Ok(Told { config, patience })
    }
}

#[pymethods]
impl DomainSimulation {
    #[new]
    fn new(seed: u64) -> DomainSimulation {
        DomainSimulation { network: Mutex::new(Network::of_stations(seed)) }
    }

    // --- the network ---

    #[getter]
    fn now_s(&mut self) -> f64 {
        seconds(self.network().now())
    }

    #[getter]
    fn digest(&mut self) -> u64 {
        self.network().digest()
    }

    #[getter]
    fn traffic(&mut self) -> (u64, u64) {
        self.network().traffic()
    }

    fn record_trace(&mut self) {
        self.network().trace.get_or_insert_default();
    }

    fn take_trace<'py>(&mut self, py: Python<'py>) -> Vec<TraceTuple<'py>> {
        crate::sim::trace_to_python(py, self.network().trace.as_mut())
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
            (None, None) => self.network().set_conditions(link),
            (Some(source), Some(target)) => self.network().set_path(source, target, Some(link)),
            _ => return Err(PyValueError::new_err("source and target must be given together, or neither")),
        }
        .map_err(config_error)
    }

    fn reset_link(&mut self, source: NodeId, target: NodeId) -> PyResult<()> {
        self.network().set_path(source, target, None).map_err(config_error)
    }

    /// Somebody who is no node sends a datagram to everybody on a network.
    fn inject(&mut self, segment: u32, datagram: &[u8]) {
        self.network().inject(segment, datagram);
    }

    fn run_until(&mut self, py: Python<'_>, at_s: f64) -> PyResult<()> {
        let end = time("at_s", at_s)?;
        for at in slices(self.network().now(), end) {
            self.network().run_until(at);
            py.check_signals()?;
        }
        Ok(())
    }

    // --- nodes ---

    /// Adds a node and returns its publisher id.
    #[pyo3(signature = (name, node, domain, segments, options, clock, port, wall_s))]
    #[allow(clippy::too_many_arguments, reason = "called from one place in Python")]
    fn add_node(
        &mut self,
        name: NodeId,
        node: NodeId,
        domain: u64,
        segments: Vec<u32>,
        options: &Bound<'_, PyDict>,
        clock: (f64, f64),
        port: (Option<f64>, Option<f64>, usize),
        wall_s: f64,
    ) -> PyResult<u64> {
        let clock = Clock { offset: duration("offset_s", clock.0)?, skew: clock.1 };
        let port = port_of(port);
        self.network().check_new(name, clock, &port).map_err(config_error)?;
        let Told { config, patience } = self.told(node, domain, segments.len(), options)?;
        let publisher = config.hub.publisher;
        let wall_us = duration("wall_s", wall_s)?.as_micros() as u64;
        let whole = Whole::new(config, clock, wall_us, patience).map_err(config_error)?;
        self.network().place(name, whole, &segments, &port);
        self.act(name, |_, _| ())?;
        Ok(publisher)
    }

    /// Starts a node over under a node id, and returns its new publisher id.
    fn restart(&mut self, name: NodeId, node: NodeId, options: &Bound<'_, PyDict>) -> PyResult<u64> {
        let (links, domain) = {
            let config = self.node(name)?.config();
            (config.links.len(), config.tcp.domain_number)
        };
        let Told { config, .. } = self.told(node, domain, links, options)?;
        let publisher = config.hub.publisher;
        let begun = self.network().replace(name, |whole| whole.restart(config));
        begun.ok_or_else(|| no_such_node(name))?.map_err(config_error)?;
        Ok(publisher)
    }

    /// Lays a cable for TCP between two nodes; the first one dials.
    fn lay_cable(&mut self, one: NodeId, two: NodeId) -> PyResult<()> {
        self.network().lay_cable(one, two).ok_or_else(|| no_such_node(if one == two { one } else { two }))
    }

    /// The connections of a node end, as those of a killed process do.
    fn hang_up(&mut self, name: NodeId) -> PyResult<()> {
        self.network().hang_up(name).ok_or_else(|| no_such_node(name))
    }

    fn stop(&mut self, name: NodeId) -> PyResult<()> {
        self.network().stop(name).ok_or_else(|| no_such_node(name))
    }

    fn resume(&mut self, name: NodeId) -> PyResult<()> {
        self.network().resume(name).ok_or_else(|| no_such_node(name))
    }

    fn freeze(&mut self, name: NodeId, socket_bytes: usize) -> PyResult<()> {
        self.network().freeze(name, socket_bytes).ok_or_else(|| no_such_node(name))
    }

    fn thaw(&mut self, name: NodeId) -> PyResult<()> {
        self.network().thaw(name).ok_or_else(|| no_such_node(name))
    }

    fn jump(&mut self, name: NodeId, by_s: f64) -> PyResult<()> {
        self.act(name, |whole, _| whole.jump((by_s * 1e6) as i64))
    }

    fn set_port(&mut self, name: NodeId, port: (Option<f64>, Option<f64>, usize)) -> PyResult<()> {
        self.network().set_port(name, port_of(port)).map_err(config_error)
    }

    fn set_store(&mut self, name: NodeId, is_store: bool) -> PyResult<()> {
        let roles = if is_store { Roles::STORE } else { Roles::default() };
        self.act(name, |whole, now| whole.set_roles(now, roles))
    }

    // --- what applications do ---

    #[pyo3(signature = (name, number, pattern, *, selector, no_local, queue_bytes_max, queue_full))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn subscribe(
        &mut self,
        name: NodeId,
        number: u32,
        pattern: &str,
        selector: Option<&Bound<'_, Selector>>,
        no_local: bool,
        queue_bytes_max: usize,
        queue_full: &str,
    ) -> PyResult<()> {
        let interest = Interest {
            selector: selector.map(|selector| selector.get().inner().clone()),
            ..Interest::topics(errors::checked_pattern(pattern)?)
        };
        let queue = (queue_bytes_max, overflow_of(queue_full)?);
        self.act(name, |whole, now| whole.subscribe(now, number, interest, queue, no_local))
    }

    fn unsubscribe(&mut self, name: NodeId, number: u32) -> PyResult<()> {
        self.act(name, |whole, now| whole.unsubscribe(now, number))
    }

    fn set_reading(&mut self, name: NodeId, number: u32, reading: bool) -> PyResult<()> {
        self.act(name, |whole, _| whole.set_reading(number, reading))
    }

    fn publish(
        &mut self,
        name: NodeId,
        topic: &str,
        bodies: Vec<Bound<'_, PyBytes>>,
        priority: i64,
        when_full: &str,
    ) -> PyResult<()> {
        let topic = errors::checked_topic(topic)?;
        let (priority, when_full) = (priority_of(priority)?, when_full_of(when_full)?);
        let publish = |whole: &mut Whole, _| {
            bodies.iter().try_for_each(|body| whole.publish(topic, priority, body.as_bytes(), when_full))
        };
        self.act(name, publish)?.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn flush(&mut self, name: NodeId, number: u32) -> PyResult<()> {
        self.act(name, |whole, now| whole.flush(now, number))
    }

    fn leave(&mut self, name: NodeId) -> PyResult<()> {
        self.act(name, |whole, now| whole.leave(now))
    }

    // --- what happened ---

    fn take_published<'py>(&mut self, py: Python<'py>, name: NodeId) -> PyResult<Vec<PublishedTuple<'py>>> {
        let published = self.act(name, |whole, _| std::mem::take(&mut whole.published))?;
        let tuple = |message: shoal_sim::Published| {
            let id = (message.id.publisher, message.id.chain, message.id.number);
            let body = PyBytes::new(py, &message.body);
            (
                seconds(message.at),
                message.waited.as_secs_f64(),
                message.topic,
                message.priority,
                id,
                message.wanted_by,
                body,
            )
        };
        Ok(published.into_iter().map(tuple).collect())
    }

    fn take_read<'py>(&mut self, py: Python<'py>, name: NodeId) -> PyResult<Vec<ReadTuple<'py>>> {
        let read = self.act(name, |whole, _| std::mem::take(&mut whole.read))?;
        let tuple = |message: shoal_sim::Read| {
            let id = (message.id.publisher, message.id.chain, message.id.number);
            let body = PyBytes::new(py, &message.body);
            (seconds(message.at), message.subscription, message.topic, id, message.timestamp_us, body)
        };
        Ok(read.into_iter().map(tuple).collect())
    }

    fn take_flushed(&mut self, name: NodeId) -> PyResult<Vec<FlushedTuple>> {
        let flushed = self.act(name, |whole, _| std::mem::take(&mut whole.flushed))?;
        let tuple = |flush: shoal_sim::Flushed| {
            (flush.number, seconds(flush.began), seconds(flush.ended), flush.silent, flush.losers)
        };
        Ok(flushed.into_iter().map(tuple).collect())
    }

    fn take_events<'py>(&mut self, py: Python<'py>, name: NodeId) -> PyResult<Vec<EventTuple<'py>>> {
        let events = self.act(name, |whole, _| std::mem::take(&mut whole.events))?;
        let tuple = |(at, event): &(Time, shoal_node::HubEvent)| {
            let (kind, node, details) = event_to_python(py, event, Vec::new)?;
            Ok((seconds(*at), kind, node, details))
        };
        events.iter().map(tuple).collect()
    }

    fn members(&mut self, name: NodeId) -> PyResult<Vec<NodeId>> {
        Ok(self.node(name)?.node().hub().members())
    }

    fn interested(&mut self, name: NodeId, topic: &str) -> PyResult<Vec<NodeId>> {
        Ok(self.node(name)?.node().hub().interested(topic.as_bytes()))
    }

    fn state<'py>(&mut self, py: Python<'py>, name: NodeId) -> PyResult<Bound<'py, PyDict>> {
        let whole = self.node(name)?;
        let state = PyDict::new(py);
        let config = whole.config();
        state.set_item("publisher", config.hub.publisher)?;
        state.set_item("node", whole.node().hub().node())?;
        state.set_item("backlog", whole.backlog())?;
        state.set_item("waits_since_s", whole.waits_since().map(seconds))?;
        state.set_item("has_left", whole.node().has_left())?;
        state.set_item("unreadable", whole.unreadable)?;
        state.set_item("receive_bytes_peak", whole.peaks.receive_bytes)?;
        let receive_bytes_max: usize = config.links.iter().map(|(norm, _)| norm.receive_bytes_max).sum();
        state.set_item("receive_bytes_max", receive_bytes_max)?;
        state.set_item("queue_bytes_over_peak", whole.peaks.queue_bytes_over)?;
        state.set_item("waiting_bytes_peak", whole.peaks.waiting_bytes)?;
        state.set_item("lane_bytes_max", config.hub.lane_bytes_max)?;
        state.set_item("held_bytes_peak", whole.peaks.held_bytes)?;
        state.set_item("assembly_bytes_max", config.hub.assembly_bytes_max)?;
        state.set_item("tcp_links", whole.node().tcp_links().states(Time::ZERO).len())?;
        let lanes = config.hub.lanes * (config.links.len() + whole.cables);
        state.set_item("lanes", lanes)?;
        state.set_item("message_bytes_max", config.hub.message_bytes_max)?;
        state.set_item("passed_messages", whole.node().hub().chains().passed())?;
        state.set_item("resting_links", whole.node().hub().resting().len())?;
        Ok(state)
    }

    fn stats<'py>(&mut self, py: Python<'py>, name: NodeId) -> PyResult<Bound<'py, PyDict>> {
        let stats = PyDict::new(py);
        for session in self.node(name)?.node().sessions() {
            for (field, count) in session.stats().named() {
                let before: u64 = stats.get_item(field)?.map_or(Ok(0), |found| found.extract())?;
                stats.set_item(field, before + count)?;
            }
        }
        Ok(stats)
    }
}
