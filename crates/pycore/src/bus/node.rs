//! The node inside a Python process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use shoal_io::bus::{Bus, BusOptions, Consumer, Domains, LocalSwitch, Overflow};
use shoal_node::Interest;
use shoal_norm::NodeId;
use shoal_wire::{Topic, TopicPattern};

use super::delivery::WhenFull;
use super::events::{EventTuple, event_to_python};
use super::exit::{check, detached};
use super::fork::Birth;
use super::message::Message;
use super::outgoing::{Extras, Scratch, correlation_bytes, priority_of};
use super::subscription::Subscription;
use super::topic_cache::TopicCache;
use crate::convert::{duration, linger};
use crate::errors;
use crate::link_options::{address, check_cache, link_options};
use crate::norm::stats_to_python;
use crate::selector::{CorrelationFilter, Selector};

static DOMAINS: Domains<Py<Message>> = Domains::new();

/// How long to wait before looking whether the user wants to interrupt.
pub const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// Streams that keep what was published for repair: one for each class, and one for reserved topics.
const CACHING_LANES: usize = 4;

/// What a node shares with its subscriptions.
pub struct Inner {
    pub(super) node: NodeId,
    pub(super) bus: Option<Bus<Py<Message>>>,
    pub(super) local: Arc<LocalSwitch<Py<Message>>>,
    birth: Birth,
    closed: AtomicBool,
}

impl Inner {
    /// Refuses to work once it is closed.
    fn check_open(&self) -> PyResult<()> {
        if self.closed.load(Ordering::SeqCst) { Err(errors::closed()) } else { Ok(()) }
    }

    pub fn resume(&self) {
        if let Some(bus) = &self.bus {
            bus.resume();
        }
    }

    pub fn unsubscribe(&self, (remote, local): (Option<u64>, u64)) {
        self.local.unsubscribe(local);
        if let (Some(bus), Some(remote)) = (&self.bus, remote) {
            bus.unsubscribe(remote);
        }
    }
}

/// A node: what a connection is made of. May be shared between threads.
#[pyclass(module = "shoal._core", frozen, subclass, weakref)]
pub struct Node {
    inner: Option<Arc<Inner>>,
    pub(super) topics: Mutex<TopicCache>,
    pub(super) scratch: Mutex<Scratch>,
    pub(super) full: WhenFull,
    /// How long a reader in this process may make no progress.
    pub(super) patience: Duration,
    pub(super) message_bytes_max: usize,
    /// Messages delivered in this process.
    pub(super) delivered: AtomicU64,
}

fn overflow(name: &str) -> PyResult<Overflow> {
    match name {
        "block" => Ok(Overflow::Wait),
        "drop_new" => Ok(Overflow::DropNew),
        "drop_old" => Ok(Overflow::DropOld),
        _ => Err(errors::config(format!("when_full must be block, drop_new or drop_old, not {name:?}"))),
    }
}

impl Node {
    /// What a connection can do only while it is open.
    pub(super) fn open(&self) -> PyResult<&Arc<Inner>> {
        let inner = self.inner()?;
        inner.check_open()?;
        Ok(inner)
    }

    fn inner(&self) -> PyResult<&Arc<Inner>> {
        let inner = self.inner.as_ref().ok_or_else(errors::closed)?;
        inner.birth.check()?;
        Ok(inner)
    }
}

#[pymethods]
impl Node {
    /// A node on a NORM link, or with `inproc` a name, in this process alone.
    #[new]
    #[pyo3(signature = (
        node, *, inproc = None, domain = 0, group = "239.192.74.1", port = 7474, interface = "auto", seed = 0,
        heartbeat_s = 4.0, missed_heartbeats_max = 5, members_max = 10_000, window_bytes = 1 << 20,
        cache_bytes = 4 << 20, when_full = "block", message_bytes_max = 128 << 20, assembly_bytes_max = 256 << 20,
        patience_s = 0.5, **options
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        node: NodeId,
        inproc: Option<&str>,
        domain: u64,
        group: &str,
        port: u16,
        interface: &str,
        seed: u64,
        heartbeat_s: f64,
        missed_heartbeats_max: u32,
        members_max: usize,
        window_bytes: usize,
        cache_bytes: usize,
        when_full: &str,
        message_bytes_max: usize,
        assembly_bytes_max: usize,
        patience_s: f64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Node> {
        let full = match when_full {
            "block" => WhenFull::Block,
            "drop" => WhenFull::Drop,
            "error" => WhenFull::Error,
            _ => {
                let wanted = format!("when_full must be block, drop or error, not {when_full:?}");
                return Err(errors::config(wanted));
            }
        };
        let patience = duration("patience_s", patience_s)?;
        let birth = Birth::now();
        let (bus, local) = match inproc {
            // A child does not share the domains of its parent, whose readers it does not have.
            Some(name) => (None, DOMAINS.open(&format!("{}:{name}", birth.forks()), seed)),
            None => {
                let mut link = link_options(address(group, port, interface)?, node, seed, options, py)?;
                check_cache(cache_bytes, CACHING_LANES)?;
                link.message_bytes_max = message_bytes_max;
                link.norm.acker_patience = patience;
                let options = BusOptions {
                    domain,
                    link,
                    heartbeat: duration("heartbeat_s", heartbeat_s)?,
                    missed_heartbeats_max,
                    members_max,
                    window_bytes,
                    cache_bytes,
                    assembly_bytes_max,
                };
                let bus = detached(py, || Bus::open(options)).map_err(errors::link)?;
                (Some(bus), Arc::new(LocalSwitch::new(seed)))
            }
        };
        let inner = Inner { node, bus, local, birth, closed: false.into() };
        Ok(Node {
            inner: Some(Arc::new(inner)),
            topics: Mutex::default(),
            scratch: Mutex::default(),
            full,
            patience,
            message_bytes_max,
            delivered: AtomicU64::new(0),
        })
    }

    #[getter]
    fn node(&self) -> PyResult<NodeId> {
        Ok(self.inner()?.node)
    }

    /// Publishes a message. True unless it was dropped because nobody takes more.
    #[pyo3(signature = (
        topic, body = None, *, properties = None, priority = 4, ttl_s = None, correlation_id = None,
        reply_to = None, r#type = None, timeout_s = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn publish(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        body: Option<&Bound<'_, PyAny>>,
        properties: Option<&Bound<'_, PyAny>>,
        priority: i64,
        ttl_s: Option<f64>,
        correlation_id: Option<&Bound<'_, PyAny>>,
        reply_to: Option<&str>,
        r#type: Option<&str>,
        timeout_s: Option<f64>,
    ) -> PyResult<bool> {
        let ttl = ttl_s.map(|seconds| duration("ttl_s", seconds)).transpose()?;
        let correlation = correlation_id.map(correlation_bytes).transpose()?;
        let extras = Extras {
            properties,
            ttl,
            published_us: None,
            correlation_id: correlation.as_deref(),
            reply_to,
            message_type: r#type,
        };
        self.publish_message(py, topic, body, priority_of(priority)?, extras, deadline(timeout_s)?)
    }

    /// Delivers what matches a pattern, and passes its filters, to a subscription from now on.
    #[pyo3(signature = (
        pattern, *, selector = None, correlation = None, no_local = false, queue_bytes_max = 4 << 20,
        when_full = "block"
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn open_subscription(
        &self,
        py: Python<'_>,
        pattern: &str,
        selector: Option<&Bound<'_, Selector>>,
        correlation: Option<&Bound<'_, CorrelationFilter>>,
        no_local: bool,
        queue_bytes_max: usize,
        when_full: &str,
    ) -> PyResult<Subscription> {
        let inner = self.open()?;
        let parsed = TopicPattern::new(pattern).map_err(errors::topic)?;
        let consumer = Arc::new(Consumer::new(queue_bytes_max, overflow(when_full)?));
        let interest = Interest {
            pattern: parsed,
            selector: selector.map(|selector| selector.get().inner().clone()),
            correlation: correlation.map(|filter| filter.get().inner().clone()),
        };
        let local = inner.local.subscribe(inner.node, interest.clone(), consumer.clone(), no_local);
        let remote = detached(py, || inner.bus.as_ref().map(|bus| bus.subscribe(interest, consumer.clone())));
        Ok(Subscription::new(inner.clone(), consumer, (remote, local), pattern.to_owned()))
    }

    /// Waits until so many other members subscribe to a topic. False if the time was over first.
    #[pyo3(signature = (topic, count = 1, timeout_s = None))]
    fn wait_for_subscribers(
        &self,
        py: Python<'_>,
        topic: &str,
        count: usize,
        timeout_s: Option<f64>,
    ) -> PyResult<bool> {
        let inner = self.open()?;
        Topic::new(topic).map_err(errors::topic)?;
        let deadline = deadline(timeout_s)?;
        loop {
            let slice = Instant::now() + SIGNAL_CHECK;
            let until = Some(deadline.map_or(slice, |at| at.min(slice)));
            let found = detached(py, || match &inner.bus {
                Some(bus) => bus.wait_interested(topic.as_bytes(), count, until),
                None => inner.local.wait_interested(inner.node, topic.as_bytes(), count, until),
            });
            if found || deadline.is_some_and(|at| at <= Instant::now()) {
                return Ok(found);
            }
            check(py)?;
            inner.check_open()?;
        }
    }

    /// Members that subscribe to a topic.
    fn subscribers(&self, py: Python<'_>, topic: &str) -> PyResult<Vec<NodeId>> {
        let inner = self.inner()?;
        Ok(detached(py, || match &inner.bus {
            Some(bus) => bus.interested(topic.as_bytes()),
            None => inner.local.interested(inner.node, topic.as_bytes()),
        }))
    }

    #[getter]
    fn members(&self, py: Python<'_>) -> PyResult<Vec<NodeId>> {
        let inner = self.inner()?;
        Ok(detached(py, || inner.bus.as_ref().map_or_else(Vec::new, Bus::members)))
    }

    /// Waits until every member has everything published before: the members that did not answer, or `None` if
    /// the time was over first.
    #[pyo3(signature = (timeout_s = None))]
    fn flush_nodes(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<Option<Vec<NodeId>>> {
        let inner = self.open()?;
        let deadline = deadline(timeout_s)?;
        let Some(bus) = &inner.bus else { return Ok(Some(Vec::new())) };
        let flush = bus.begin_flush();
        loop {
            let slice = Instant::now() + SIGNAL_CHECK;
            let until = deadline.map_or(slice, |at| at.min(slice));
            if let Some(silent) = detached(py, || flush.wait(until)) {
                return Ok(Some(silent));
            }
            if deadline.is_some_and(|at| at <= Instant::now()) {
                return Ok(None);
            }
            check(py)?;
            inner.check_open()?;
        }
    }

    /// What happened since the last call: (kind, node, details). `None` once closed.
    #[pyo3(signature = (timeout_s = None))]
    fn take_events<'py>(
        &self,
        py: Python<'py>,
        timeout_s: Option<f64>,
    ) -> PyResult<Option<Vec<EventTuple<'py>>>> {
        let inner = self.inner()?;
        let deadline = deadline(timeout_s)?;
        let Some(bus) = &inner.bus else { return Ok(None) };
        loop {
            let slice = Instant::now() + SIGNAL_CHECK;
            let until = deadline.map_or(slice, |at| at.min(slice));
            let Some(events) = detached(py, || bus.take_events(until)) else { return Ok(None) };
            if !events.is_empty() || deadline.is_some_and(|at| at <= Instant::now()) {
                return events
                    .iter()
                    .map(|event| event_to_python(py, event))
                    .collect::<PyResult<_>>()
                    .map(Some);
            }
            check(py)?;
        }
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner()?;
        match &inner.bus {
            Some(bus) => {
                let stats = detached(py, || bus.stats());
                stats_to_python(py, &stats)
            }
            None => Ok(PyDict::new(py)),
        }
    }

    /// Bytes per second that may be sent now; `None` is without limit, or without a network.
    #[getter]
    fn rate_bytes_per_s(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let inner = self.inner()?;
        Ok(detached(py, || {
            let bus = inner.bus.as_ref()?;
            bus.link().command(|session, _| session.rate_bytes_per_s())
        }))
    }

    /// The interface, the address and the receive buffer in use: (name, address, bytes).
    fn describe_link(&self) -> PyResult<Option<(String, String, usize)>> {
        let Some(bus) = &self.inner()?.bus else { return Ok(None) };
        let sockets = bus.link().sockets();
        let interface =
            sockets.interface().map_or_else(|| "any".to_owned(), |interface| interface.name.clone());
        Ok(Some((interface, sockets.local_addr()?.to_string(), bus.link().receive_buffer_bytes()?)))
    }

    /// The last error a socket gave, once.
    fn take_socket_error(&self) -> PyResult<Option<String>> {
        Ok(self.inner()?.bus.as_ref().and_then(|bus| bus.link().take_socket_error()))
    }

    /// Leaves, after waiting up to `linger_s` until everybody has everything. True if everybody has.
    #[pyo3(signature = (linger_s = 1.0))]
    fn shut_down(&self, py: Python<'_>, linger_s: f64) -> PyResult<bool> {
        let linger = linger("linger_s", linger_s)?;
        let Some(inner) = self.inner.as_ref().filter(|inner| inner.birth.is_here()) else {
            return Ok(true);
        };
        inner.closed.store(true, Ordering::SeqCst);
        Ok(detached(py, || {
            inner.local.unsubscribe_node(inner.node);
            inner.bus.as_ref().is_none_or(|bus| bus.close(linger))
        }))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take()
            && !inner.birth.is_here()
        {
            // Its thread stayed in the parent, so there is nothing to join and nothing to close.
            std::mem::forget(inner);
        }
    }
}

pub fn deadline(timeout_s: Option<f64>) -> PyResult<Option<Instant>> {
    let span = timeout_s.map(|seconds| duration("timeout_s", seconds)).transpose()?;
    // Later than any clock goes is never.
    Ok(span.and_then(|span| Instant::now().checked_add(span)))
}
