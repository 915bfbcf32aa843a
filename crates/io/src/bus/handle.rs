//! The handle of a bus.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_node::hub::Wake;
use shoal_node::hub::{Consumer, FlushId, FlushState, LinkKind, Overflow};
use shoal_node::inproc::{Meeting, Seat};
use shoal_node::norm::{Groups, LANES, NormBus, lane_streams};
use shoal_node::tcp::TcpConfig;
use shoal_node::udp::{UdpConfig, Way};
use shoal_node::{Hub, HubConfig, HubEvent, Interest, MembershipConfig, NodeConfig, SubscriptionId};
use shoal_norm::{NodeId, Stats};
use shoal_wire::Process;

use super::reader::Reader;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::datagram::{UdpNet, UdpOpen};
use crate::norm::{LinkError, LinkOptions, NormBell, NormLink};
use crate::sys;
use crate::tcp::TcpNet;
use crate::udp::{Mark, SocketOptions};
use crate::waiter::Waiter;

/// Bytes that wait for the other connections of a process: a message at a time, so that a full queue is felt at once.
const INPROC_LANE_BYTES: usize = 1;

/// Bytes that wait in a lane of a TCP link before publishers wait.
const TCP_LANE_BYTES: usize = 1 << 20;

/// Queues that became nearly full and were not asked for, at the most.
const FULL_MAX: usize = 64;

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
    /// Whether what comes over one link is passed on to others.
    pub router: bool,
    /// The groups that carry messages beside the domain's own.
    pub groups: Arc<Groups>,
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
    /// Whether what comes over one link is passed on to others.
    pub router: bool,
}

/// A bus without repair.
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// Our node id.
    pub node: NodeId,
    /// Who publishes: a random number that no other connection has.
    pub publisher: u64,
    /// The longest message.
    pub message_bytes_max: usize,
    /// Parts of messages whose end has not come yet, of all senders together.
    pub assembly_bytes_max: usize,
    /// Keeps others from choosing topics that collide.
    pub seed: u64,
    /// Where its socket is.
    pub open: UdpOpen,
    /// What to ask the kernel for.
    pub receive_buffer_bytes: usize,
    /// One more than the routers that multicast may pass.
    pub multicast_ttl: u32,
    /// How each lane's datagrams are marked; empty marks none.
    pub marks: Vec<Mark>,
    /// Its link; where it leads is overwritten, unless it is for whoever connects.
    pub link: UdpConfig,
}

/// Publish and subscribe. Dropping it closes it without lingering.
pub struct Bus {
    hub: Arc<Hub>,
    /// Which lane and group carries what.
    groups: Arc<Groups>,
    clock: Clock,
    waiter: Arc<Waiter>,
    /// Patterns of subscriptions whose queues became nearly full.
    full: Arc<Mutex<BTreeSet<Box<str>>>>,
    norm: Mutex<Norm>,
    seat: Mutex<Option<Seat>>,
    /// Until it is closed, which gives back its descriptors.
    tcp: Mutex<Option<Arc<TcpNet>>>,
    udp: Mutex<Option<Arc<UdpNet>>>,
    /// Processor time of threads that ended, nanoseconds.
    spent_ns: AtomicU64,
}

/// The NORM links of a bus, if it has some.
#[derive(Default)]
struct Norm {
    /// By number, until they are closed, which gives back their sockets and what they keep for repair.
    links: BTreeMap<u64, Arc<NormLink>>,
    /// The number given last.
    last: u64,
    /// What they did, once they are closed.
    stats: Vec<Stats>,
}

/// Notes that the queue of a subscription is nearly full, and wakes whoever waits for the bus.
struct Brim {
    pattern: Box<str>,
    full: Arc<Mutex<BTreeSet<Box<str>>>>,
    waiter: Arc<Waiter>,
}

impl Wake for Brim {
    fn wake(&self) {
        let mut full = lock(&self.full);
        if full.len() < FULL_MAX {
            full.insert(self.pattern.clone());
        }
        drop(full);
        self.waiter.wake();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bus {
    /// Joins a domain over NORM.
    pub fn open(options: BusOptions) -> Result<Bus, LinkError> {
        let link = &options.link;
        let config = HubConfig {
            publisher: options.publisher,
            node: link.norm.node,
            lanes: options.groups.lanes(),
            lane_bytes_max: link.lane_bytes_max,
            message_bytes_max: link.message_bytes_max,
            assembly_bytes_max: options.assembly_bytes_max,
            seed: link.norm.seed,
        };
        let mut bus = Bus::without_links(&config, options.router);
        bus.groups = options.groups.clone();
        bus.add_norm(options)?;
        Ok(bus)
    }

    fn without_links(config: &HubConfig, router: bool) -> Bus {
        let (waiter, clock) = (Arc::new(Waiter::default()), Clock::start());
        let hub = Hub::new(config, waiter.clone());
        hub.set_process(Process::new(&sys::host_name(), std::process::id()));
        if router {
            hub.set_router();
        }
        Bus {
            hub,
            groups: Arc::default(),
            full: Arc::default(),
            clock,
            waiter,
            norm: Mutex::default(),
            seat: Mutex::default(),
            tcp: Mutex::default(),
            udp: Mutex::default(),
            spent_ns: AtomicU64::new(0),
        }
    }

    /// Joins one more group: the link's number. Whose the messages are, and how large, is as for the bus.
    pub fn add_norm(&self, options: BusOptions) -> Result<u64, LinkError> {
        let mut link = options.link;
        let membership = MembershipConfig {
            domain: options.domain,
            node: link.norm.node,
            publisher: self.hub.publisher(),
            heartbeat: options.heartbeat,
            missed_heartbeats_max: options.missed_heartbeats_max,
            members_max: options.members_max,
            groups: self.groups.clone(),
        };
        NodeConfig::prepare(&mut link.norm);
        // Until the last moment somebody may have to be welcomed.
        link.end_streams = false;
        link.norm.send_streams_max = link.norm.send_streams_max.max(self.groups.lanes());
        let heard = &mut link.norm.streams_per_sender_max;
        *heard = (*heard).max(self.groups.lanes());
        link.lanes = lane_streams(self.groups.lanes(), options.window_bytes, options.cache_bytes);
        link.message_bytes_max = self.hub.chains().message_bytes_max();
        let (bell, twin) = NormBell::pair();
        let port = self.hub.attach("norm", LinkKind::Shared, bell);
        let place = (self.hub.chains().clone(), port.link());
        let application = NormBus::new(port, membership);
        let norm = NormLink::open_on(link, self.clock, place, twin, Box::new(application))?;
        let mut norms = lock(&self.norm);
        norms.last += 1;
        let number = norms.last;
        norms.links.insert(number, Arc::new(norm));
        Ok(number)
    }

    /// Leaves a group, after waiting up to `linger` until its members have everything. False if there is no such link.
    pub fn remove_norm(&self, number: u64, linger: Duration) -> bool {
        let Some(norm) = lock(&self.norm).links.remove(&number) else { return false };
        norm.close(linger);
        norm.drop_application();
        self.spent_ns.fetch_add(norm.cpu_ns(), Ordering::Relaxed);
        true
    }

    /// Makes TCP links possible, if they are not.
    pub fn add_tcp(&self, links: TcpConfig) -> Result<(), LinkError> {
        let mut tcp = lock(&self.tcp);
        if tcp.is_none() {
            *tcp = Some(Arc::new(TcpNet::open(self.hub.clone(), self.clock, links)?));
        }
        Ok(())
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
        let bus = Bus::without_links(&config, false);
        let clock = bus.clock;
        *lock(&bus.seat) = Some(meeting.join(&bus.hub, move || clock.now()));
        bus
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
        let bus = Bus::without_links(&config, options.router);
        bus.add_tcp(options.links)?;
        Ok(bus)
    }

    /// Begins without repair.
    pub fn open_udp(options: UdpOptions) -> Result<Bus, LinkError> {
        let config = HubConfig {
            publisher: options.publisher,
            node: options.node,
            lanes: LANES,
            lane_bytes_max: TCP_LANE_BYTES,
            message_bytes_max: options.message_bytes_max,
            assembly_bytes_max: options.assembly_bytes_max,
            seed: options.seed,
        };
        let bus = Bus::without_links(&config, false);
        let sockets = SocketOptions {
            receive_buffer_bytes: options.receive_buffer_bytes,
            ttl: options.multicast_ttl,
            marks: options.marks,
            // A link to one peer has a port of its own.
            listen_port: match &options.open {
                UdpOpen::To(address) if !address.group.ip().is_multicast() => Some(0),
                _ => None,
            },
            ..SocketOptions::default()
        };
        let mut link = options.link;
        let udp = UdpNet::open(&bus.hub, bus.clock, &options.open, &sockets, |sockets| {
            if let Way::To(_) = link.way {
                link.way = Way::To(sockets.destination());
            }
            link
        })?;
        *lock(&bus.udp) = Some(Arc::new(udp));
        Ok(bus)
    }

    /// What decides.
    #[inline]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Which lane and group carries what.
    #[inline]
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// The clock that the hub is given.
    #[inline]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The NORM link that was made first, if there is one and it is not closed.
    pub fn norm(&self) -> Option<Arc<NormLink>> {
        lock(&self.norm).links.values().next().cloned()
    }

    /// All NORM links that are not closed.
    pub fn norms(&self) -> Vec<Arc<NormLink>> {
        lock(&self.norm).links.values().cloned().collect()
    }

    /// The NORM link of a number, if it is not closed.
    pub fn norm_link(&self, number: u64) -> Option<Arc<NormLink>> {
        lock(&self.norm).links.get(&number).cloned()
    }

    /// The TCP links, if it has such, and is not closed.
    pub fn tcp(&self) -> Option<Arc<TcpNet>> {
        lock(&self.tcp).clone()
    }

    /// The link without repair, if it has one, and is not closed.
    pub fn udp(&self) -> Option<Arc<UdpNet>> {
        lock(&self.udp).clone()
    }

    /// Wakes whoever waits for the bus, for something that happened beside it.
    pub fn wake(&self) {
        self.waiter.wake();
    }

    /// What each NORM link did so far.
    pub fn stats(&self) -> Vec<Stats> {
        let links = self.norms();
        if links.is_empty() {
            lock(&self.norm).stats.clone()
        } else {
            links.iter().map(|link| link.stats()).collect()
        }
    }

    /// Nanoseconds of processor time that the threads of its links used, those of closed ones included. Work that a link does in a
    /// publisher's or a reader's thread is not in it.
    pub fn cpu_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
            + self.tcp().map_or(0, |tcp| tcp.cpu_ns())
            + self.udp().map_or(0, |udp| udp.cpu_ns())
            + self.norms().iter().map(|norm| norm.cpu_ns()).sum::<u64>()
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

    /// Delivers what is of interest from now on, into a bounded queue. Fails if its groups cannot be joined.
    pub fn subscribe(
        &self,
        interest: Interest,
        bytes_max: usize,
        overflow: Overflow,
        no_local: bool,
    ) -> io::Result<Reader> {
        let groups = self.groups.reached_by(interest.pattern.as_str().as_bytes());
        if groups & !self.groups.joined() != 0 {
            self.norms().iter().try_for_each(|norm| norm.join(groups))?;
            self.groups.join(groups);
        }
        let arrived = Arc::new(Waiter::ringing_once());
        let consumer = Arc::new(Consumer::new(bytes_max, overflow, arrived.clone()));
        let pattern = interest.pattern.as_str().into();
        let brim = Brim { pattern, full: self.full.clone(), waiter: self.waiter.clone() };
        consumer.on_brim(Arc::new(brim));
        let id = self.hub.subscribe(self.clock.now(), interest, consumer.clone(), no_local);
        Ok(Reader::new(id, consumer, arrived))
    }

    /// Patterns of subscriptions whose queues became nearly full since this was asked.
    pub fn take_nearly_full(&self) -> Vec<Box<str>> {
        std::mem::take(&mut *lock(&self.full)).into_iter().collect()
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
        let (mut waiting, mut lacking) = (lock(&self.seat).as_ref().map_or(0, Seat::unsent), BTreeMap::new());
        if let Some(tcp) = self.tcp() {
            let (unsent, behind) = tcp.backlog();
            waiting += unsent;
            behind.into_iter().for_each(|(node, bytes)| *lacking.entry(node).or_insert(0) += bytes);
        }
        waiting += self.udp().map_or(0, |udp| udp.waiting());
        for norm in self.norms() {
            for (lane, appended) in norm.appended().into_iter().enumerate().skip(1) {
                let (written, behind) = norm.progress(lane);
                waiting += appended.saturating_sub(written);
                behind.into_iter().for_each(|(node, bytes)| *lacking.entry(node).or_insert(0) += bytes);
            }
        }
        (waiting, lacking.into_iter().collect())
    }

    /// Says goodbye, without waiting for anything; [`Bus::close`] then has little to wait for.
    pub fn leave(&self) {
        self.norms().iter().for_each(|norm| norm.begin_close(Duration::ZERO));
        if let Some(tcp) = self.tcp() {
            tcp.begin_close(Duration::ZERO);
        }
        if let Some(udp) = self.udp() {
            udp.begin_close(Duration::ZERO);
        }
    }

    /// Whether the goodbye was said.
    pub fn has_left(&self) -> bool {
        self.norms().iter().all(|norm| norm.has_left())
            && self.tcp().is_none_or(|tcp| tcp.has_left())
            && self.udp().is_none_or(|udp| udp.has_left())
    }

    /// Leaves the domain, after waiting up to `linger` until everybody has everything. True if everybody has.
    pub fn close(&self, linger: Duration) -> bool {
        let deadline = Instant::now() + linger;
        // Nothing more comes in, and what came is waited for until it is acknowledged.
        self.hub.stop_publishing();
        let acknowledged = !linger.is_zero()
            && matches!(self.begin_flush().wait(deadline), FlushState::Done(silent) if silent.is_empty());
        let left = deadline.saturating_duration_since(Instant::now());
        let norms = self.norms();
        // Each gets its goodbye said, whatever became of the others.
        let mut drained = norms.iter().fold(true, |drained, norm| norm.close(left) & drained);
        drained &= self.tcp().is_none_or(|tcp| tcp.close(left));
        drained &= self.udp().is_none_or(|udp| udp.close(left));
        let spent_ns = lock(&self.tcp).take().map_or(0, |tcp| tcp.cpu_ns())
            + lock(&self.udp).take().map_or(0, |udp| udp.cpu_ns())
            + norms.iter().map(|norm| norm.cpu_ns()).sum::<u64>();
        self.spent_ns.fetch_add(spent_ns, Ordering::Relaxed);
        lock(&self.seat).take();
        self.hub.close();
        if !norms.is_empty() {
            norms.iter().for_each(|norm| norm.drop_application());
            let stats = norms.iter().map(|norm| norm.stats()).collect();
            let mut norm = lock(&self.norm);
            norm.links.clear();
            norm.stats = stats;
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
