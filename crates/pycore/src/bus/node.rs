//! The node inside a Python process.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use shoal_io::bus::{Bus, BusOptions, InprocOptions, TcpOptions, UdpOptions};
use shoal_io::datagram::UdpOpen;
use shoal_io::norm::{fresh_publisher, fresh_router};
use shoal_io::udp::Which;
use shoal_node::hub::{FlushState, Overflow, WhenFull};
use shoal_node::inproc::Domains;
use shoal_node::norm::LANES;
use shoal_node::tcp::TcpConfig;
use shoal_node::udp::{UdpConfig, Way};
use shoal_node::{Interest, Origin};
use shoal_norm::NodeId;
use shoal_wire::Roles;

use super::events::{EventTuple, event_to_python};
use super::exit::detached;
use super::fork::Birth;
use super::load::{load_to_python, total_load};
use super::outgoing::{Extras, Given, Scratch, correlation_bytes, given_priority, given_trace, timestamp_us};
use super::publishing::Wait;
use super::subscription::Subscription;
use super::tcp::set_traffic;
use super::topic_cache::TopicCache;
use crate::bell::Bell;
use crate::convert::{argument, duration, linger, text_argument};
use crate::errors;
use crate::link_options::{ClassMarks, address, check_cache, groups_of, keys_of, lane_marks, link_options};
use crate::norm::stats_to_python;
use crate::selector::{CorrelationFilter, Selector};

static DOMAINS: Domains = Domains::new();

/// Patterns that a loss report names, at the most.
const LOST_PATTERNS_MAX: usize = 10;

/// What `udp` is: see [`Node::new`].
type UdpTuple = (bool, usize, Option<f64>, usize, usize, u32, Option<ClassMarks>);

/// How long to wait before looking whether the user wants to interrupt.
pub const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// Streams that keep what was published for repair: one for each class, and one for reserved topics.
const CACHING_LANES: usize = 4;

/// What a node shares with its subscriptions.
pub struct Inner {
    pub(super) bus: Bus,
    pub(super) birth: Birth,
    closed: AtomicBool,
}

impl Inner {
    /// Refuses to work once it is closed.
    fn check_open(&self) -> PyResult<()> {
        if self.closed.load(Ordering::SeqCst) { Err(errors::closed()) } else { Ok(()) }
    }

    /// Refuses to wait for a link that failed.
    fn check_link(&self) -> PyResult<()> {
        self.bus.hub().failure().map_or(Ok(()), |why| Err(errors::link_failed(&why)))
    }
}

/// Who it is, whether it is a router, and its links: whether one is multicast, and who is there.
type Known = (u64, bool, Vec<(bool, Vec<u64>)>);

/// A node: what a connection is made of. May be shared between threads.
#[pyclass(module = "shoal._core", frozen, subclass, weakref)]
pub struct Node {
    inner: Option<Arc<Inner>>,
    pub(super) topics: Mutex<TopicCache>,
    pub(super) scratch: Mutex<Scratch>,
    pub(super) full: WhenFull,
    /// How long a reader in this process may make no progress.
    pub(super) patience: Duration,
    /// What publishes persistent and retained messages, which are kept: that is Python's business.
    persistently: PyOnceLock<Py<PyAny>>,
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

    pub(super) fn inner(&self) -> PyResult<&Arc<Inner>> {
        let inner = self.inner.as_ref().ok_or_else(errors::closed)?;
        inner.birth.check()?;
        Ok(inner)
    }
}

#[pymethods]
impl Node {
    /// A node on a NORM link; with `inproc` a name, in this process alone; with `tcp`, which is the domain's name, how long
    /// a link waits for another connection and how many peers there may be, one without links; with `udp`, which is whether it
    /// listens, bytes of a datagram, a rate, how many peers there may be, what to ask the kernel for, the multicast TTL and
    /// the marks of classes, one without repair.
    #[new]
    #[pyo3(signature = (
        node, *, inproc = None, tcp = None, udp = None, domain = 0, group = "239.192.74.1", port = 7474, interface = "auto", seed = 0,
        heartbeat_s = 4.0, missed_heartbeats_max = 5, members_max = 10_000, window_bytes = 1 << 20,
        cache_bytes = 4 << 20, when_full = "block", message_bytes_max = 128 << 20, assembly_bytes_max = 256 << 20,
        patience_s = 0.5, router = false, assigned = None, **options
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        node: NodeId,
        inproc: Option<&str>,
        tcp: Option<(String, f64, usize)>,
        udp: Option<UdpTuple>,
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
        router: bool,
        assigned: Option<Vec<(String, usize)>>,
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
        let publisher = if router { fresh_router() } else { fresh_publisher() };
        let bus = if let Some((listens, datagram_bytes, rate, peers_max, receive_buffer_bytes, ttl, marks)) =
            udp
        {
            let place = address(group, port, interface)?;
            let way = if listens { Way::Whoever(peers_max) } else { Way::To(place.group) };
            let link = UdpConfig {
                domain,
                way,
                heartbeat: duration("heartbeat_s", heartbeat_s)?,
                missed_heartbeats_max,
                datagram_bytes,
                rate,
                peers_max: members_max,
                secret: fresh_publisher(),
            };
            let open = if listens { UdpOpen::At(place.group) } else { UdpOpen::To(place) };
            let options = UdpOptions {
                node,
                publisher,
                message_bytes_max,
                assembly_bytes_max,
                seed,
                open,
                receive_buffer_bytes,
                multicast_ttl: ttl,
                marks: lane_marks(marks.as_deref())?,
                link,
            };
            detached(py, || Bus::open_udp(options)).map_err(errors::link)?
        } else {
            match (inproc, tcp) {
                (None, Some((name, resume_s, peers_max))) => {
                    let beats = (heartbeat_s, missed_heartbeats_max);
                    let links =
                        tcp_config((name, domain), (resume_s, peers_max), beats, patience, window_bytes)?;
                    let options = TcpOptions {
                        node,
                        publisher,
                        message_bytes_max,
                        assembly_bytes_max,
                        seed,
                        links,
                        router,
                    };
                    detached(py, || Bus::open_tcp(options)).map_err(errors::link)?
                }
                // A child does not share the domains of its parent, whose readers it does not have.
                (Some(name), _) => {
                    let meeting = DOMAINS.open(&format!("{}:{name}", birth.forks()));
                    let options = InprocOptions { node, publisher, message_bytes_max, seed };
                    Bus::open_inproc(&options, &meeting)
                }
                (None, None) => {
                    let mut link = link_options(address(group, port, interface)?, node, seed, options, py)?;
                    let groups = groups_of(&link, assigned.unwrap_or_default())?;
                    check_cache(cache_bytes, CACHING_LANES + groups.lanes() - LANES)?;
                    link.message_bytes_max = message_bytes_max;
                    link.norm.acker_patience = patience;
                    let options = BusOptions {
                        domain,
                        publisher,
                        link,
                        heartbeat: duration("heartbeat_s", heartbeat_s)?,
                        missed_heartbeats_max,
                        members_max,
                        window_bytes,
                        cache_bytes,
                        assembly_bytes_max,
                        router,
                        groups: Arc::new(groups),
                    };
                    detached(py, || Bus::open(options)).map_err(errors::link)?
                }
            }
        };
        let inner = Inner { bus, birth, closed: false.into() };
        Ok(Node {
            inner: Some(Arc::new(inner)),
            topics: Mutex::default(),
            scratch: Mutex::default(),
            full,
            patience,
            persistently: PyOnceLock::new(),
        })
    }

    /// Has persistent and retained messages published by a function, which is given what `publish` was. Once.
    fn set_persistently(&self, py: Python<'_>, publish: Py<PyAny>) -> PyResult<()> {
        let set = self.persistently.set(py, publish);
        set.map_err(|_| errors::config("persistent messages have their way already".into()))
    }

    /// Joins one more group, as `Node` does with the same keywords: the link's number.
    #[pyo3(signature = (
        *, domain, group, port, interface, seed, heartbeat_s, missed_heartbeats_max, window_bytes, cache_bytes,
        members_max = 10_000, **options
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn add_norm(
        &self,
        py: Python<'_>,
        domain: u64,
        group: &str,
        port: u16,
        interface: &str,
        seed: u64,
        heartbeat_s: f64,
        missed_heartbeats_max: u32,
        window_bytes: usize,
        cache_bytes: usize,
        members_max: usize,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        let inner = self.open()?;
        let hub = inner.bus.hub();
        let mut link = link_options(address(group, port, interface)?, hub.node(), seed, options, py)?;
        check_cache(cache_bytes, CACHING_LANES)?;
        link.norm.acker_patience = self.patience;
        let options = BusOptions {
            domain,
            publisher: hub.publisher(),
            link,
            heartbeat: duration("heartbeat_s", heartbeat_s)?,
            missed_heartbeats_max,
            members_max,
            window_bytes,
            cache_bytes,
            assembly_bytes_max: 0,
            router: hub.is_router(),
            groups: inner.bus.groups().clone(),
        };
        detached(py, || inner.bus.add_norm(options)).map_err(errors::link)
    }

    /// Leaves a group, after waiting up to `linger_s` until its members have everything. False if there is no such link.
    #[pyo3(signature = (number, linger_s = 0.0))]
    fn remove_norm(&self, py: Python<'_>, number: u64, linger_s: f64) -> PyResult<bool> {
        let linger = linger("linger_s", linger_s)?;
        let inner = self.open()?;
        Ok(detached(py, || inner.bus.remove_norm(number, linger)))
    }

    /// Says what a step over a group's link costs; `None` if it costs as usual. False if there is no such link.
    fn set_norm_cost(&self, py: Python<'_>, number: u64, cost: Option<NonZeroU32>) -> PyResult<bool> {
        let inner = self.open()?;
        let Some(link) = inner.bus.norm_link(number) else { return Ok(false) };
        detached(py, || inner.bus.hub().set_cost(link.hub_link(), cost));
        Ok(true)
    }

    /// A group's link as it is now; `None` if it was left.
    fn norm_link<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(link) = self.inner()?.bus.norm_link(number) else { return Ok(None) };
        let told = PyDict::new(py);
        let (rate, grtt, delay) = detached(py, || {
            link.command(|session, _| (session.rate_bytes_per_s(), session.grtt(), session.send_delay()))
        });
        let sockets = link.sockets();
        told.set_item("interface", sockets.interface().map_or("any", |interface| &interface.name))?;
        told.set_item("address", sockets.local_addr()?.to_string())?;
        told.set_item("rate_bytes_per_s", rate)?;
        told.set_item("send_delay_s", delay.as_secs_f64())?;
        told.set_item("round_trip_s", grtt.as_secs_f64())?;
        set_traffic(&told, self.inner()?.bus.hub().traffic(link.hub_link()))?;
        told.set_item("link", link.hub_link())?;
        told.set_item("down", detached(py, || link.down()))?;
        told.set_item("has_ended", link.has_left())?;
        told.set_item("stats", stats_to_python(py, &detached(py, || link.stats()))?)?;
        Ok(Some(told))
    }

    /// Makes TCP links possible: the domain's name and number, how long a link waits for another connection, how many peers
    /// there may be, how often to say that we are here and how often that may be missed, and the window of a link.
    #[pyo3(signature = (names, limits, beats, window_bytes))]
    fn add_tcp(
        &self,
        py: Python<'_>,
        names: (String, u64),
        limits: (f64, usize),
        beats: (f64, u32),
        window_bytes: usize,
    ) -> PyResult<()> {
        let inner = self.open()?;
        let links = tcp_config(names, limits, beats, self.patience, window_bytes)?;
        detached(py, || inner.bus.add_tcp(links)).map_err(errors::link)
    }

    /// Whether it passes on what comes over one link to others.
    #[getter]
    fn is_router(&self) -> PyResult<bool> {
        Ok(self.inner()?.bus.hub().is_router())
    }

    /// The routers beside this node: each stands for whoever is behind it.
    #[getter]
    fn routers(&self) -> PyResult<Vec<u32>> {
        Ok(self.inner()?.bus.hub().neighbouring_routers().into_iter().collect())
    }

    #[getter]
    fn node(&self) -> PyResult<NodeId> {
        Ok(self.inner()?.bus.hub().node())
    }

    /// Who publishes here: a number drawn at random when the connection was made.
    #[getter]
    fn publisher(&self) -> PyResult<u64> {
        Ok(self.inner()?.bus.hub().publisher())
    }

    /// Patterns of subscriptions whose queues became nearly full since this was asked.
    fn take_nearly_full(&self) -> PyResult<Vec<String>> {
        Ok(self.open()?.bus.take_nearly_full().into_iter().map(String::from).collect())
    }

    /// The identity of a message that `publish` returned the number of, as its readers see it.
    #[pyo3(signature = (number, priority = None, *, topic = None))]
    fn message_id(
        &self,
        number: &Bound<'_, PyAny>,
        priority: Option<&Bound<'_, PyAny>>,
        topic: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<String>> {
        let number = argument("number", number)?;
        let topic = topic.map_or(Ok(""), |topic| text_argument("topic", topic)?.to_str())?;
        let lane = self.open()?.bus.groups().lane(topic.as_bytes(), given_priority(priority)?.class());
        let publisher = self.publisher()?;
        Ok(Origin { publisher, chain: lane as u32, number, ..Origin::default() }.message_id())
    }

    /// Publishes a message. Returns its number, or 0 if it was dropped because nobody takes more; for one that Python
    /// publishes, what that returns.
    #[pyo3(signature = (
        topic, body = None, *, properties = None, priority = None, ttl_s = None, correlation_id = None,
        reply_to = None, r#type = None, persistent = None, delivery_delay_s = None, timestamp = None,
        connection = None, window = None, timeout_s = None, retain = None, held_s = None, waited_s = 0.0,
        caller = None, trace = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    pub(super) fn publish<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        body: Option<&Bound<'py, PyAny>>,
        properties: Option<&Bound<'_, PyAny>>,
        priority: Option<&Bound<'_, PyAny>>,
        ttl_s: Option<&Bound<'_, PyAny>>,
        correlation_id: Option<&Bound<'_, PyAny>>,
        reply_to: Option<&Bound<'_, PyAny>>,
        r#type: Option<&Bound<'_, PyAny>>,
        persistent: Option<&Bound<'_, PyAny>>,
        delivery_delay_s: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        connection: Option<&Bound<'_, PyAny>>,
        window: Option<&Bound<'_, PyAny>>,
        timeout_s: Option<&Bound<'_, PyAny>>,
        retain: Option<&Bound<'_, PyAny>>,
        held_s: Option<f64>,
        waited_s: f64,
        caller: Option<&Bound<'_, Subscription>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let topic = text_argument("topic", topic)?;
        let is_persistent = persistent.map_or(Ok(false), |mark| argument("persistent", mark))?;
        let is_retained = retain.map_or(Ok(false), |mark| argument("retain", mark))?;
        if (is_persistent || is_retained) && self.inner()?.bus.udp().is_some() {
            let kind = if is_persistent { "persistent" } else { "retained" };
            return Err(errors::config(format!(
                "a {kind} message cannot be published on udp://, which may lose it: use norm:// or tcp://"
            )));
        }
        if (is_persistent || is_retained)
            && let Some(publish) = self.persistently.get(py)
        {
            let named = PyDict::new(py);
            let given = [
                ("properties", properties),
                ("priority", priority),
                ("ttl_s", ttl_s),
                ("correlation_id", correlation_id),
                ("reply_to", reply_to),
                ("type", r#type),
                ("delivery_delay_s", delivery_delay_s),
                ("timestamp", timestamp),
                ("connection", connection),
                ("window", window),
                ("timeout_s", timeout_s),
                ("persistent", persistent),
                ("retain", retain),
                ("trace", trace),
            ];
            for (name, value) in given {
                if let Some(value) = value {
                    named.set_item(name, value)?;
                }
            }
            return publish.bind(py).call((topic, body), Some(&named));
        }
        if window.is_some() {
            return Err(errors::config("window means something only with persistent=True".into()));
        }
        let correlation = correlation_id.map(correlation_bytes).transpose()?;
        let correlation_id = correlation.as_deref();
        let message_type = r#type;
        let given =
            Given { properties, ttl_s, correlation_id, reply_to, message_type, persistent, delivery_delay_s };
        let trace = given_trace(trace)?;
        let extras = Extras {
            trace: trace.as_ref().map(|(trace, state)| (&trace[..], &state[..])),
            timestamp_us: timestamp.map(timestamp_us).transpose()?,
            connection: connection.map(|number| argument("connection", number)).transpose()?,
            held: held_s.map(|held| duration("held_s", held)).transpose()?,
            ..given.check()?
        };
        let timeout_s = timeout_s.map(|limit| argument("timeout_s", limit)).transpose()?;
        let began = match waited_s {
            0.0 => None,
            waited => Instant::now().checked_sub(duration("waited_s", waited)?),
        };
        let caller = caller.map(|caller| caller.get().consumer());
        let wait = Wait { deadline: deadline(timeout_s)?, began, caller };
        let number = self.publish_message(py, topic, body, given_priority(priority)?, extras, wait)?;
        Ok(number.into_pyobject(py)?.into_any())
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
        let parsed = errors::checked_pattern(pattern)?;
        let overflow = overflow(when_full)?;
        let interest = Interest {
            selector: selector.map(|selector| selector.get().inner().clone()),
            correlation: correlation.map(|filter| filter.get().inner().clone()),
            ..Interest::topics(parsed)
        };
        let reader = detached(py, || inner.bus.subscribe(interest, queue_bytes_max, overflow, no_local));
        let reader = reader.map_err(|error| errors::link(error.into()))?;
        Ok(Subscription::new(inner.clone(), reader, pattern.to_owned()))
    }

    /// Says whether this node is a store, for which publishers wait however slow it is.
    fn set_store(&self, py: Python<'_>, is_store: bool) -> PyResult<()> {
        let inner = self.open()?;
        let roles = if is_store { Roles::STORE } else { Roles::default() };
        detached(py, || inner.bus.hub().set_roles(roles));
        Ok(())
    }

    /// The nodes that subscribe to a topic, this one among them if it does.
    fn subscribers(&self, py: Python<'_>, topic: &Bound<'_, PyAny>) -> PyResult<Vec<NodeId>> {
        let inner = self.open()?;
        inner.check_link()?;
        let topic = text_argument("topic", topic)?.to_str()?;
        errors::checked_topic(topic)?;
        Ok(detached(py, || inner.bus.hub().subscribers(topic.as_bytes())))
    }

    /// Whether somebody subscribes to a topic, or may without having said so yet.
    fn may_want(&self, py: Python<'_>, topic: &str) -> PyResult<bool> {
        let inner = self.open()?;
        errors::checked_topic(topic)?;
        Ok(detached(py, || !inner.bus.hub().plan(topic.as_bytes()).is_empty()))
    }

    #[getter]
    fn members(&self, py: Python<'_>) -> PyResult<Vec<NodeId>> {
        let inner = self.inner()?;
        Ok(detached(py, || inner.bus.hub().members()))
    }

    /// Starts waiting until every member has everything published before; `poll_flush` tells the outcome.
    fn begin_flush(&self, py: Python<'_>) -> PyResult<u64> {
        let inner = self.inner()?;
        inner.check_link()?;
        Ok(detached(py, || inner.bus.hub().begin_flush()))
    }

    /// The network as far as known: everybody who has several links or is a router, whether it is one, and for each of its links
    /// whether it is multicast, and who is there.
    fn network(&self, py: Python<'_>) -> PyResult<Vec<Known>> {
        let inner = self.inner()?;
        let network = detached(py, || inner.bus.hub().network());
        let links = |links: Vec<shoal_wire::Reach>| {
            links.into_iter().map(|link| (link.is_shared, link.neighbours)).collect()
        };
        Ok(network
            .into_iter()
            .map(|(publisher, is_router, reach)| (publisher, is_router, links(reach)))
            .collect())
    }

    /// Starts waiting until every router knows what was subscribed to before; `poll_flush` tells the outcome.
    fn begin_sync(&self, py: Python<'_>) -> PyResult<u64> {
        let inner = self.inner()?;
        inner.check_link()?;
        Ok(detached(py, || inner.bus.hub().begin_sync()))
    }

    /// The members that did not acknowledge everything, or `None` if it is not over.
    fn poll_flush(&self, py: Python<'_>, flush: u64) -> PyResult<Option<Vec<NodeId>>> {
        let inner = self.inner()?;
        match detached(py, || inner.bus.hub().flush_state(flush)) {
            FlushState::Done(silent) => Ok(Some(silent)),
            FlushState::Failed(why) => Err(errors::link_failed(&why)),
            FlushState::Pending => Ok(None),
        }
    }

    /// Members that lost for good something that a flush waits for, and that none named before.
    fn flush_losers(&self, py: Python<'_>, flush: u64) -> PyResult<Vec<NodeId>> {
        let inner = self.inner()?;
        Ok(detached(py, || inner.bus.hub().flush_losers(flush)).into_iter().collect())
    }

    /// Whether paths between routers changed while a flush waited, so that it confirms nothing yet.
    fn flush_is_unsettled(&self, flush: u64) -> PyResult<bool> {
        Ok(self.inner()?.bus.hub().flush_is_unsettled(flush))
    }

    /// Whom those routers wait for, as far as they said: each router, and those behind it.
    fn flush_behind(&self, flush: u64) -> PyResult<Vec<(NodeId, Vec<NodeId>)>> {
        Ok(self.inner()?.bus.hub().flush_behind(flush))
    }

    /// Routers that a flush waits for: those behind them may not have everything.
    fn flush_awaited(&self, flush: u64) -> PyResult<Vec<NodeId>> {
        Ok(self.inner()?.bus.hub().flush_awaited(flush))
    }

    /// So many links are about to begin: if there are several then, what is published may have to be said again on another.
    fn expect_links(&self, count: usize) -> PyResult<()> {
        self.inner()?.bus.hub().expect_links(count);
        Ok(())
    }

    /// Whether something was published of which no flush confirmed that everybody has it.
    fn has_unconfirmed(&self) -> PyResult<bool> {
        Ok(self.inner()?.bus.hub().has_unconfirmed())
    }

    /// Stops waiting.
    fn end_flush(&self, flush: u64) -> PyResult<()> {
        self.inner()?.bus.hub().end_flush(flush);
        Ok(())
    }

    /// Rings `bell` as source 0 when something changed: an event, who subscribes to what, the outcome of a flush, room
    /// for a message that was refused, the end.
    fn attach_bell(&self, bell: &Bound<'_, Bell>) -> PyResult<()> {
        self.inner()?.bus.attach(bell.get().inner(), 0);
        Ok(())
    }

    /// Takes no more messages, and delivers none in this process any more; what was published is still being sent.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner()?;
        inner.closed.store(true, Ordering::SeqCst);
        detached(py, || {
            inner.bus.hub().stop_publishing();
            inner.bus.hub().stop_delivering();
        });
        Ok(())
    }

    /// Bytes that were not sent yet, and who has not acknowledged what was: (bytes, [(node, about how many bytes)]).
    fn backlog(&self, py: Python<'_>) -> PyResult<(u64, Vec<(NodeId, u64)>)> {
        let inner = self.inner()?;
        Ok(detached(py, || inner.bus.backlog()))
    }

    /// Says goodbye without waiting for anything. `shut_down` has little to wait for once `has_left`.
    fn leave(&self) -> PyResult<()> {
        self.inner()?.bus.leave();
        Ok(())
    }

    /// Whether the goodbye was said.
    fn has_left(&self) -> PyResult<bool> {
        Ok(self.inner()?.bus.has_left())
    }

    /// What happened since the last call: (kind, node, details). `None` once closed.
    fn take_events<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<EventTuple<'py>>>> {
        let inner = self.inner()?;
        let Some(events) = detached(py, || inner.bus.take_events()) else { return Ok(None) };
        let patterns = || inner.bus.hub().patterns_here(LOST_PATTERNS_MAX);
        events.iter().map(|event| event_to_python(py, event, patterns)).collect::<PyResult<_>>().map(Some)
    }

    /// What was counted of messages since the node began: totals, processor time of its threads, and a row for each link and
    /// lane.
    fn load<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner()?;
        let (rows, cpu_ns) = detached(py, || (inner.bus.hub().load(), inner.bus.cpu_ns()));
        load_to_python(py, &rows, cpu_ns)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner()?;
        let sum = PyDict::new(py);
        for stats in detached(py, || inner.bus.stats()) {
            for (name, count) in stats.named() {
                let before: u64 = sum.get_item(name)?.map_or(Ok(0), |found| found.extract())?;
                sum.set_item(name, before + count)?;
            }
        }
        if let Some(counters) = detached(py, || Some(inner.bus.udp()?.counters())) {
            for (name, count) in counters.named() {
                sum.set_item(name, count)?;
            }
        }
        let (evaluations, rows) = detached(py, || (inner.bus.hub().evaluations(), inner.bus.hub().load()));
        sum.set_item("filters_evaluated", evaluations)?;
        let total = total_load(&rows);
        sum.set_item("messages_received", total.received)?;
        sum.set_item("messages_matched", total.matched)?;
        sum.set_item("messages_delivered", total.delivered)?;
        sum.set_item("messages_dropped_at_source", total.dropped_at_source)?;
        sum.set_item("message_bytes_in", total.bytes_in)?;
        sum.set_item("message_bytes_out", total.bytes_out)?;
        sum.set_item("cpu_ns", detached(py, || inner.bus.cpu_ns()))?;
        Ok(sum)
    }

    /// Bytes per second that may be sent now; `None` is without limit, or without a network.
    #[getter]
    fn rate_bytes_per_s(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let inner = self.inner()?;
        Ok(detached(py, || inner.bus.norm()?.command(|session, _| session.rate_bytes_per_s())))
    }

    /// The greatest round trip to a member of the group, as it is estimated; `None` without multicast.
    #[getter]
    fn round_trip_s(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let inner = self.inner()?;
        let grtt = detached(py, || Some(inner.bus.norm()?.command(|session, _| session.grtt())));
        Ok(grtt.map(|grtt| grtt.as_secs_f64()))
    }

    /// The interface, the address and the receive buffer in use: (name, address, bytes).
    fn describe_link(&self) -> PyResult<Option<(String, String, usize)>> {
        let inner = self.inner()?;
        if let Some(link) = inner.bus.udp() {
            let sockets = link.sockets();
            let interface = sockets.interface().map_or("any", |interface| &interface.name).to_owned();
            let buffer = sockets.receive_buffer_bytes(Which::Group)?;
            return Ok(Some((interface, sockets.local_addr()?.to_string(), buffer)));
        }
        let Some(link) = inner.bus.norm() else { return Ok(None) };
        let sockets = link.sockets();
        let interface =
            sockets.interface().map_or_else(|| "any".to_owned(), |interface| interface.name.clone());
        Ok(Some((interface, sockets.local_addr()?.to_string(), link.receive_buffer_bytes()?)))
    }

    /// Why nothing goes out or comes in over datagrams without repair, while their interface is gone.
    fn udp_down(&self) -> PyResult<Option<String>> {
        Ok(self.inner()?.bus.udp().and_then(|link| link.down()))
    }

    /// Changes the keys of all links that have some, or of the one with a number. False if none has.
    #[pyo3(signature = (keys, number = None))]
    fn set_keys(&self, keys: &str, number: Option<u64>) -> PyResult<bool> {
        let keys = keys_of(keys)?;
        let bus = &self.open()?.bus;
        let links = number.map_or_else(|| bus.norms(), |number| bus.norm_link(number).into_iter().collect());
        Ok(links.iter().fold(false, |changed, link| link.set_keys(keys.clone()) | changed))
    }

    /// The last error a socket of the first link gave, or of the one with a number, once.
    #[pyo3(signature = (number = None))]
    fn take_socket_error(&self, number: Option<u64>) -> PyResult<Option<String>> {
        let bus = &self.inner()?.bus;
        let link = number.map_or_else(|| bus.norm(), |number| bus.norm_link(number));
        Ok(link.and_then(|link| link.take_socket_error()))
    }

    /// Leaves, after waiting up to `linger_s` until everybody has everything. True if everybody has.
    #[pyo3(signature = (linger_s = 1.0))]
    fn shut_down(&self, py: Python<'_>, linger_s: f64) -> PyResult<bool> {
        let linger = linger("linger_s", linger_s)?;
        let Some(inner) = self.inner.as_ref().filter(|inner| inner.birth.is_here()) else {
            return Ok(true);
        };
        inner.closed.store(true, Ordering::SeqCst);
        Ok(detached(py, || inner.bus.close(linger)))
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

/// What TCP links are told.
fn tcp_config(
    (domain, domain_number): (String, u64),
    (resume_s, peers_max): (f64, usize),
    (heartbeat_s, missed_heartbeats_max): (f64, u32),
    patience: Duration,
    window_bytes: usize,
) -> PyResult<TcpConfig> {
    Ok(TcpConfig {
        domain,
        domain_number,
        software: concat!("shoal ", env!("CARGO_PKG_VERSION")).to_owned(),
        heartbeat: duration("heartbeat_s", heartbeat_s)?,
        missed_heartbeats_max,
        resume: duration("resume_s", resume_s)?,
        patience,
        window_bytes,
        peers_max,
    })
}

pub fn deadline(timeout_s: Option<f64>) -> PyResult<Option<Instant>> {
    // Later than any clock goes is never.
    let ends = timeout_s.filter(|seconds| seconds.is_nan() || *seconds < Duration::MAX.as_secs_f64());
    let span = ends.map(|seconds| duration("timeout_s", seconds)).transpose()?;
    Ok(span.and_then(|span| Instant::now().checked_add(span)))
}
