//! The handle of a bus.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_node::hub::Wake as _;
use shoal_node::hub::{Consumer, FlushId, FlushState, Overflow};
use shoal_node::inproc::{Meeting, Seat};
use shoal_node::norm::{LANES, NormBus, lane_streams};
use shoal_node::tcp::TcpConfig;
use shoal_node::{Hub, HubConfig, HubEvent, Interest, MembershipConfig, NodeConfig, SubscriptionId};
use shoal_norm::{NodeId, Stats};

use super::reader::Reader;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::norm::{LinkError, LinkOptions, NormBell, NormLink};
use crate::tcp::TcpNet;
use crate::waiter::Waiter;

/// Bytes that wait for the other connections of a process: a message at a time, so that a full queue is felt at once.
const INPROC_LANE_BYTES: usize = 1;

/// Bytes that wait in a lane of a TCP link before publishers wait.
const TCP_LANE_BYTES: usize = 1 << 20;

/// A bus on a NORM link.
#[derive(Clone, Debug)]
pub struct BusOptions {
    /// Its domain; nodes of others may share the group, and are ignored.
    pub domain: u64,
    /// Who publishes: a random number that no other connection has.
    pub publisher: u64,
    /// Its link. Lanes and sync policy are the bus's own business and are overwritten.
    pub link: LinkOptions,
    /// How often to say that we are here (TI).
    pub heartbeat: Duration,
    /// After how many missed ones a node is taken for dead (MH).
    pub missed_heartbeats_max: u32,
    /// The most members kept track of.
    pub members_max: usize,
    /// Bytes sent ahead of the slowest member in the window.
    pub window_bytes: usize,
    /// What is kept for repair, per lane.
    pub cache_bytes: usize,
    /// Parts of messages whose end has not come yet, of all senders together.
    pub assembly_bytes_max: usize,
}

/// A bus inside a process.
#[derive(Clone, Debug)]
pub struct InprocOptions {
    /// Our node id.
    pub node: NodeId,
    /// Who publishes: a random number that no other connection has.
    pub publisher: u64,
    /// The longest message.
    pub message_bytes_max: usize,
    /// Keeps others from choosing topics that collide.
    pub seed: u64,
}

/// A bus over TCP, which has no links at first.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// Our node id.
    pub node: NodeId,
    /// Who publishes: a random number that no other connection has.
    pub publisher: u64,
    /// The longest message.
    pub message_bytes_max: usize,
    /// Parts of messages whose end has not come yet, of all links together.
    pub assembly_bytes_max: usize,
    /// Keeps others from choosing topics that collide.
    pub seed: u64,
    /// Its links.
    pub links: TcpConfig,
}

/// Publish and subscribe. Dropping it closes it without lingering.
pub struct Bus {
    hub: Arc<Hub>,
    clock: Clock,
    waiter: Arc<Waiter>,
    norm: Mutex<Norm>,
    seat: Mutex<Option<Seat>>,
    /// Until it is closed, which gives back its descriptors.
    tcp: Mutex<Option<Arc<TcpNet>>>,
}

/// The NORM link of a bus, if it has one.
#[derive(Default)]
struct Norm {
    /// Until it is closed, which gives back its sockets and what it keeps for repair.
    link: Option<Arc<NormLink>>,
    /// What it did, once it is closed.
    stats: Option<Stats>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bus {
    /// Joins a domain over NORM.
    pub fn open(options: BusOptions) -> Result<Bus, LinkError> {
        let mut link = options.link;
        let config = HubConfig {
            publisher: options.publisher,
            node: link.norm.node,
            lanes: LANES,
            lane_bytes_max: link.lane_bytes_max,
            message_bytes_max: link.message_bytes_max,
            assembly_bytes_max: options.assembly_bytes_max,
            seed: link.norm.seed,
        };
        let membership = MembershipConfig {
            domain: options.domain,
            node: link.norm.node,
            publisher: options.publisher,
            heartbeat: options.heartbeat,
            missed_heartbeats_max: options.missed_heartbeats_max,
            members_max: options.members_max,
        };
        let (waiter, clock) = (Arc::new(Waiter::default()), Clock::start());
        let hub = Hub::new(&config, waiter.clone());
        NodeConfig::prepare(&mut link.norm);
        // Until the last moment somebody may have to be welcomed.
        link.end_streams = false;
        link.lanes = lane_streams(options.window_bytes, options.cache_bytes);
        let (bell, twin) = NormBell::pair();
        let port = hub.attach("norm", true, bell);
        let place = (hub.chains().clone(), port.link());
        let application = NormBus::new(port, membership);
        let norm = NormLink::open_on(link, clock, place, twin, Box::new(application))?;
        Ok(Bus {
            hub,
            clock,
            waiter,
            norm: Mutex::new(Norm { link: Some(Arc::new(norm)), stats: None }),
            seat: Mutex::default(),
            tcp: Mutex::default(),
        })
    }

    /// Joins a domain of this process.
    pub fn open_inproc(options: &InprocOptions, meeting: &Arc<Meeting>) -> Bus {
        let config = HubConfig {
            publisher: options.publisher,
            node: options.node,
            lanes: LANES,
            lane_bytes_max: INPROC_LANE_BYTES,
            message_bytes_max: options.message_bytes_max,
            // Nothing arrives in parts.
            assembly_bytes_max: options.message_bytes_max,
            seed: options.seed,
        };
        let (waiter, clock) = (Arc::new(Waiter::default()), Clock::start());
        let hub = Hub::new(&config, waiter.clone());
        let seat = meeting.join(&hub, move || clock.now());
        Bus {
            hub,
            clock,
            waiter,
            norm: Mutex::default(),
            seat: Mutex::new(Some(seat)),
            tcp: Mutex::default(),
        }
    }

    /// Begins without links; [`Bus::tcp`] makes them.
    pub fn open_tcp(options: TcpOptions) -> Result<Bus, LinkError> {
        let config = HubConfig {
            publisher: options.publisher,
            node: options.node,
            lanes: LANES,
            lane_bytes_max: TCP_LANE_BYTES,
            message_bytes_max: options.message_bytes_max,
            assembly_bytes_max: options.assembly_bytes_max,
            seed: options.seed,
        };
        let (waiter, clock) = (Arc::new(Waiter::default()), Clock::start());
        let hub = Hub::new(&config, waiter.clone());
        let tcp = TcpNet::open(hub.clone(), clock, options.links)?;
        Ok(Bus {
            hub,
            clock,
            waiter,
            norm: Mutex::default(),
            seat: Mutex::default(),
            tcp: Mutex::new(Some(Arc::new(tcp))),
        })
    }

    /// What decides.
    #[inline]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The clock that the hub is given.
    #[inline]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The NORM link, if there is one and it is not closed.
    pub fn norm(&self) -> Option<Arc<NormLink>> {
        lock(&self.norm).link.clone()
    }

    /// The TCP links, if it is a bus of those, and not closed.
    pub fn tcp(&self) -> Option<Arc<TcpNet>> {
        lock(&self.tcp).clone()
    }

    /// Wakes whoever waits for the bus, for something that happened beside it.
    pub fn wake(&self) {
        self.waiter.wake();
    }

    /// What the NORM link did so far.
    pub fn stats(&self) -> Option<Stats> {
        self.norm().map(|link| link.stats()).or_else(|| lock(&self.norm).stats.clone())
    }

    /// How often whoever waits was woken: to be asked before looking, for [`Bus::wait`].
    #[inline]
    pub fn seen(&self) -> u64 {
        self.waiter.seen()
    }

    /// Waits until the hub changed since `seen` was asked for, at the latest until `deadline`.
    pub fn wait(&self, seen: u64, deadline: Instant) -> bool {
        self.waiter.wait(seen, deadline)
    }

    /// Delivers what is of interest from now on, into a bounded queue.
    pub fn subscribe(
        &self,
        interest: Interest,
        bytes_max: usize,
        overflow: Overflow,
        no_local: bool,
    ) -> Reader {
        let arrived = Arc::new(Waiter::ringing_once());
        let consumer = Arc::new(Consumer::new(bytes_max, overflow, arrived.clone()));
        let id = self.hub.subscribe(interest, consumer.clone(), no_local);
        Reader::new(id, consumer, arrived)
    }

    /// Ends a subscription; what has arrived can still be read.
    pub fn unsubscribe(&self, id: SubscriptionId) {
        self.hub.unsubscribe(id);
    }

    /// Starts waiting until every member has everything published so far.
    pub fn begin_flush(&self) -> Flush<'_> {
        Flush { bus: self, id: self.hub.begin_flush() }
    }

    /// Rings `bell` as `source` when something changed: an event, who wants what, the outcome of a flush, room for a
    /// message that was refused, the end.
    pub fn attach(&self, bell: &Arc<Bell>, source: u64) {
        self.waiter.attach(bell, source);
    }

    /// What happened since the last call. `None` once closed, and everything was taken.
    pub fn take_events(&self) -> Option<VecDeque<HubEvent>> {
        let events = self.hub.take_events();
        (!events.is_empty() || !self.hub.is_closed()).then_some(events)
    }

    /// Bytes that were not sent yet, and the members that have not acknowledged everything that was, each with about how
    /// many bytes it lacks.
    pub fn backlog(&self) -> (u64, Vec<(NodeId, u64)>) {
        if let Some(tcp) = self.tcp() {
            return tcp.backlog();
        }
        let Some(norm) = self.norm() else {
            return (lock(&self.seat).as_ref().map_or(0, Seat::unsent), Vec::new());
        };
        let (mut waiting, mut lacking) = (0, BTreeMap::new());
        for (lane, appended) in norm.appended().into_iter().enumerate().skip(1) {
            let (written, behind) = norm.progress(lane);
            waiting += appended.saturating_sub(written);
            for (node, bytes) in behind {
                *lacking.entry(node).or_insert(0) += bytes;
            }
        }
        (waiting, lacking.into_iter().collect())
    }

    /// Says goodbye, without waiting for anything; [`Bus::close`] then has little to wait for.
    pub fn leave(&self) {
        if let Some(norm) = self.norm() {
            norm.begin_close(Duration::ZERO);
        }
        if let Some(tcp) = self.tcp() {
            tcp.begin_close(Duration::ZERO);
        }
    }

    /// Whether the goodbye was said.
    pub fn has_left(&self) -> bool {
        self.norm().is_none_or(|norm| norm.has_left()) && self.tcp().is_none_or(|tcp| tcp.has_left())
    }

    /// Leaves the domain, after waiting up to `linger` until everybody has everything. True if everybody has.
    pub fn close(&self, linger: Duration) -> bool {
        let deadline = Instant::now() + linger;
        // Nothing more comes in, and what came is waited for until it is acknowledged.
        self.hub.stop_publishing();
        let acknowledged = !linger.is_zero()
            && matches!(self.begin_flush().wait(deadline), FlushState::Done(silent) if silent.is_empty());
        let left = deadline.saturating_duration_since(Instant::now());
        let norm = self.norm();
        let drained =
            norm.as_ref().is_none_or(|norm| norm.close(left)) && self.tcp().is_none_or(|tcp| tcp.close(left));
        lock(&self.tcp).take();
        lock(&self.seat).take();
        self.hub.close();
        if let Some(norm) = norm {
            norm.drop_application();
            *lock(&self.norm) = Norm { link: None, stats: Some(norm.stats()) };
        }
        if linger.is_zero() { drained } else { acknowledged }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

/// A flush that was begun; dropping it stops waiting.
pub struct Flush<'a> {
    bus: &'a Bus,
    id: FlushId,
}

impl Flush<'_> {
    /// Waits until `deadline` for the end.
    pub fn wait(&self, deadline: Instant) -> FlushState {
        loop {
            let seen = self.bus.seen();
            let state = self.bus.hub.flush_state(self.id);
            let over = state != FlushState::Pending || self.bus.hub.is_closed();
            if over || !self.bus.wait(seen, deadline) {
                return state;
            }
        }
    }
}

impl Drop for Flush<'_> {
    fn drop(&mut self) {
        self.bus.hub.end_flush(self.id);
    }
}
