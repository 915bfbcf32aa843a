//! The handle of a bus.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use shoal_node::{Interest, Membership, MembershipConfig, SubscriptionId};
use shoal_norm::{FeedbackMode, NodeId, ObjectId, Stats, SyncPolicy};
use shoal_wire::is_reserved;

use crate::bell::{Bell, Bells};

use super::application::{BusApplication, BusEvent, Change};
use super::consumer::Consumer;
use super::flush::Flushes;
use super::inbox::InboxBounds;
use super::lanes::{Lane, lane_options};
use crate::norm::{Full, LinkError, LinkOptions, NormLink, Outbox, SendError};

/// Events kept for an owner that does not take them.
pub const EVENTS_MAX: usize = 10_000;
/// What is published first waits so long for somebody to answer, so that those who are there miss nothing.
pub const GREETING: Duration = Duration::from_millis(100);
/// A new node sends whatever is published for so long, because somebody may be about to ask for it.
pub const DISCOVERY: Duration = Duration::from_secs(2);

/// A bus.
#[derive(Clone, Debug)]
pub struct BusOptions {
    /// Its domain; nodes of others may share the group, and are ignored.
    pub domain: u64,
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

/// What the handle and the link's thread share.
pub struct Shared<L> {
    membership: Mutex<Membership>,
    changes: Mutex<Vec<Change<L>>>,
    has_changes: AtomicBool,
    events: Mutex<VecDeque<BusEvent>>,
    /// Of those who want to know when something changed: events, interest, flushes.
    pub bells: Bells,
    /// Counts changes of who wants what.
    interest_version: AtomicU64,
    pub flushes: Flushes,
    outbox: OnceLock<Arc<Outbox>>,
    discovering: AtomicBool,
    closed: AtomicBool,
}

impl<L> Shared<L> {
    pub fn new(membership: Membership) -> Shared<L> {
        Shared {
            membership: Mutex::new(membership),
            changes: Mutex::new(Vec::new()),
            has_changes: AtomicBool::new(false),
            events: Mutex::new(VecDeque::new()),
            bells: Bells::default(),
            interest_version: AtomicU64::new(0),
            flushes: Flushes::default(),
            outbox: OnceLock::new(),
            discovering: AtomicBool::new(true),
            closed: AtomicBool::new(false),
        }
    }

    pub fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take_changes(&self) -> Vec<Change<L>> {
        self.has_changes.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn has_changes(&self) -> bool {
        self.has_changes.load(Ordering::SeqCst)
    }

    fn change(&self, change: Change<L>) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        self.has_changes.store(true, Ordering::SeqCst);
    }

    pub fn tell(&self, event: BusEvent) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() >= EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(event);
        self.bells.ring();
    }

    pub fn interest_changed(&self) {
        self.interest_version.fetch_add(1, Ordering::SeqCst);
        self.bells.ring();
    }

    /// Whether we are so new that others may not have answered yet.
    pub fn is_discovering(&self) -> bool {
        self.discovering.load(Ordering::SeqCst)
    }

    /// From now on nothing is sent that nobody wants. True if that is new.
    pub fn end_discovery(&self) -> bool {
        self.discovering.swap(false, Ordering::SeqCst)
    }

    /// Only the link's thread asks, and it starts after this is set, or a moment before.
    pub fn outbox(&self) -> &Outbox {
        self.outbox.wait()
    }
}

/// Publish and subscribe over one NORM link. Dropping it closes it without lingering.
pub struct Bus<L: Send + 'static> {
    link: NormLink,
    shared: Arc<Shared<L>>,
    next: AtomicU64,
}

impl<L: Send + 'static> Bus<L> {
    /// Joins the domain.
    pub fn open(options: BusOptions) -> Result<Bus<L>, LinkError> {
        let mut link = options.link;
        let (node, seed) = (link.norm.node, link.norm.seed);
        let membership = Membership::new(MembershipConfig {
            domain: options.domain,
            node,
            instance: link.norm.instance,
            heartbeat: options.heartbeat,
            missed_heartbeats_max: options.missed_heartbeats_max,
            members_max: options.members_max,
            seed,
        });
        let shared = Arc::new(Shared::new(membership));
        link.norm.sync = SyncPolicy::Ask;
        link.norm.receive_objects = false;
        link.norm.feedback = FeedbackMode::UnicastAcks;
        // Until the last moment somebody may have to be welcomed.
        link.end_streams = false;
        link.lanes = lane_options(options.window_bytes, options.cache_bytes);
        let data_lanes = (1..link.lanes.len() as ObjectId).collect();
        let bounds = InboxBounds {
            message_bytes_max: link.message_bytes_max,
            assembly_bytes_max: options.assembly_bytes_max,
        };
        let application = BusApplication::new(shared.clone(), data_lanes, seed, bounds);
        let link = NormLink::open(link, Box::new(application))?;
        // The thread may be waiting for it already.
        let _ = shared.outbox.set(link.outbox().clone());
        Ok(Bus { link, shared, next: AtomicU64::new(1) })
    }

    /// The link.
    pub fn link(&self) -> &NormLink {
        &self.link
    }

    /// What the link did so far.
    pub fn stats(&self) -> Stats {
        self.link.stats()
    }

    /// Publishes an encoded message, in parts, on a lane.
    pub fn publish(&self, lane: Lane, parts: &[&[u8]], full: Full) -> Result<(), SendError> {
        self.link.send(lane.number(), parts, full)
    }

    /// Counts changes of who wants what; what [`Bus::is_wanted`] said holds until it changes.
    pub fn interest_version(&self) -> u64 {
        self.shared.interest_version.load(Ordering::SeqCst)
    }

    /// Whether a message on this topic has to be sent: somebody wants it, or may be about to say so, or it
    /// is an answer, whose asker may have subscribed a moment ago.
    pub fn is_wanted(&self, topic: &[u8]) -> bool {
        is_reserved(topic) || self.shared.is_discovering() || self.shared.membership().is_wanted(topic)
    }

    /// Members that want a topic.
    pub fn interested(&self, topic: &[u8]) -> Vec<NodeId> {
        self.shared.membership().interested(topic).to_vec()
    }

    /// Everybody else in the domain.
    pub fn members(&self) -> Vec<NodeId> {
        self.shared.membership().members().collect()
    }

    /// Delivers what is of interest to a consumer from now on.
    pub fn subscribe(&self, interest: Interest, consumer: Arc<Consumer<L>>) -> SubscriptionId {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.shared.change(Change::Subscribe(id, Box::new(interest), consumer));
        // Others hear of it before they hear anything this program says from now on.
        self.link.serve_now();
        id
    }

    /// Ends a subscription; its consumer is closed.
    pub fn unsubscribe(&self, id: SubscriptionId) {
        self.shared.change(Change::Unsubscribe(id));
        self.link.resume();
    }

    /// A consumer that held its senders back has room again.
    pub fn resume(&self) {
        self.link.resume();
    }

    /// Starts waiting until every member has everything published so far.
    pub fn begin_flush(&self) -> Flush<'_, L> {
        Flush { bus: self, id: self.start_flush() }
    }

    /// Starts waiting as [`Bus::begin_flush`] does; [`Bus::poll_flush`] tells the outcome.
    pub fn start_flush(&self) -> u64 {
        let id = self.shared.flushes.begin(self.link.outbox());
        self.link.resume();
        id
    }

    /// The members that did not acknowledge, or `None` if it is not over.
    pub fn poll_flush(&self, id: u64) -> Option<Vec<NodeId>> {
        self.shared.flushes.wait(id, Instant::now())
    }

    /// Stops waiting.
    pub fn end_flush(&self, id: u64) {
        self.shared.flushes.end(id);
    }

    /// Rings `bell` as `source` when something changed: an event, who wants what, the outcome of a flush, room for a
    /// message that was refused, the end.
    pub fn attach(&self, bell: &Arc<Bell>, source: u64) {
        self.shared.bells.add(bell, source);
        self.link.outbox().attach(bell, source);
    }

    /// Takes nothing more. What was published is still being sent.
    pub fn stop_publishing(&self) {
        self.link.outbox().close();
    }

    /// Bytes that were not sent yet, and the members that have not acknowledged everything that was, each with about how
    /// many bytes it lacks.
    pub fn backlog(&self) -> (u64, Vec<(NodeId, u64)>) {
        let outbox = self.link.outbox();
        self.link.command(|session, _| {
            let mut waiting = 0;
            let mut lacking = BTreeMap::new();
            for (lane, appended) in outbox.appended().into_iter().enumerate().skip(1) {
                waiting += appended.saturating_sub(outbox.written(lane));
                for (node, bytes) in session.lacking(lane as ObjectId) {
                    *lacking.entry(node).or_insert(0) += bytes;
                }
            }
            (waiting, lacking.into_iter().collect())
        })
    }

    /// Says goodbye, without waiting for anything; [`Bus::close`] then has little to wait for.
    pub fn leave(&self) {
        self.link.begin_close(Duration::ZERO);
    }

    /// Whether the link's thread ended.
    pub fn has_left(&self) -> bool {
        self.link.has_left()
    }

    /// What happened since the last call. `None` once closed, and everything was taken.
    pub fn take_events(&self) -> Option<VecDeque<BusEvent>> {
        let mut events = self.shared.events.lock().unwrap_or_else(PoisonError::into_inner);
        (!events.is_empty() || !self.is_closed()).then(|| std::mem::take(&mut *events))
    }

    fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::SeqCst)
    }

    /// Leaves the domain, after waiting up to `linger` until everybody has everything.
    pub fn close(&self, linger: Duration) -> bool {
        let deadline = Instant::now() + linger;
        // Nothing more comes in, and what came is waited for until it is acknowledged.
        self.link.outbox().close();
        let acknowledged =
            !linger.is_zero() && self.begin_flush().wait(deadline).is_some_and(|silent| silent.is_empty());
        let drained = self.link.close(deadline.saturating_duration_since(Instant::now()));
        let drained = if linger.is_zero() { drained } else { acknowledged };
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.flushes.close();
        for change in self.shared.take_changes() {
            if let Change::Subscribe(_, _, consumer) = change {
                consumer.close();
            }
        }
        self.link.drop_application();
        self.shared.bells.ring();
        drained
    }
}

/// A flush that was begun; dropping it stops waiting.
pub struct Flush<'a, L: Send + 'static> {
    bus: &'a Bus<L>,
    id: u64,
}

impl<L: Send + 'static> Flush<'_, L> {
    /// Waits until `deadline`; returns the members that did not acknowledge, or `None` if it is not over.
    pub fn wait(&self, deadline: Instant) -> Option<Vec<NodeId>> {
        self.bus.shared.flushes.wait(self.id, deadline)
    }
}

impl<L: Send + 'static> Drop for Flush<'_, L> {
    fn drop(&mut self) {
        self.bus.shared.flushes.end(self.id);
    }
}
