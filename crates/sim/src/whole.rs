//! A whole node: a hub with its NORM and TCP links, an application that publishes and reads, and clocks that may be wrong.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use shoal_node::hub::{
    Attempt, Consumer, FlushId, FlushState, Overflow, Patience, Publication, Refusal, WhenFull,
};
use shoal_node::norm::Lane;
use shoal_node::tcp::Role;
use shoal_node::{HubEvent, Interest, Moment, Node, NodeConfig, SubscriptionId};
use shoal_norm::{ConfigError, Destination, NodeId, Source, Time};
use shoal_wire::{
    BodyKind, Destination as Address, EncodeError, MessageId, MessageView, Outgoing, Priority, Roles, Topic,
};

use crate::cable::WireId;
use crate::dialler::Dialler;
use crate::node::Clock;
use crate::station::Station;

/// A message that was published, or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// When, by the simulation's clock.
    pub at: Time,
    /// How long its publisher waited.
    pub waited: Duration,
    /// Its topic.
    pub topic: String,
    /// Its identity. Number 0: it was dropped or refused.
    pub id: MessageId,
    /// How urgent it is.
    pub priority: u8,
    /// Members that wanted it, as far as its publisher knew.
    pub wanted_by: Vec<NodeId>,
    /// What.
    pub body: Vec<u8>,
}

/// A message that an application read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// When, by the simulation's clock.
    pub at: Time,
    /// By which subscription.
    pub subscription: u32,
    /// Its topic.
    pub topic: String,
    /// Its identity.
    pub id: MessageId,
    /// When it says that it was published.
    pub timestamp_us: u64,
    /// What.
    pub body: Vec<u8>,
}

/// A flush that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Which.
    pub number: u32,
    /// When it began, by the simulation's clock.
    pub began: Time,
    /// When it was over.
    pub ended: Time,
    /// Who did not answer.
    pub silent: Vec<NodeId>,
    /// Who lost something for good.
    pub losers: Vec<NodeId>,
}

/// The most that was ever held of something.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Receive memory of the sessions.
    pub receive_bytes: usize,
    /// The fullest queue of a subscription, beyond its bound.
    pub queue_bytes_over: usize,
    /// What waited to be written.
    pub waiting_bytes: usize,
    /// What came over TCP and waited for readers, or for the rest of its message.
    pub held_bytes: usize,
}

struct Subscription {
    id: SubscriptionId,
    consumer: Arc<Consumer>,
    bytes_max: usize,
    reading: bool,
}

/// A publisher's next message, which may have to wait.
struct Waiting {
    topic: String,
    priority: u8,
    lane: usize,
    head: Vec<u8>,
    body: Vec<u8>,
    when_full: WhenFull,
    since: Option<Time>,
    began: Option<Time>,
    without: Vec<Arc<Consumer>>,
}

/// A whole node.
pub struct Whole {
    config: NodeConfig,
    node: Node,
    clock: Clock,
    /// What its calendar shows at the simulation's start, microseconds since 1970.
    wall_us: u64,
    patience: Duration,
    subscriptions: BTreeMap<u32, Subscription>,
    outgoing: VecDeque<Waiting>,
    flushes: Vec<(u32, FlushId, Time)>,
    /// The cables at whose ends it is.
    pub cables: usize,
    /// Those of them on which it dials.
    diallers: Vec<Dialler>,
    /// What it published and nobody took yet.
    pub published: Vec<Published>,
    /// What its application read and nobody took yet.
    pub read: Vec<Read>,
    /// What its hub told and nobody took yet.
    pub events: Vec<(Time, HubEvent)>,
    /// Flushes that are over and nobody took yet.
    pub flushed: Vec<Flushed>,
    /// The most it ever held.
    pub peaks: Peaks,
    /// Records in which no message could be found.
    pub unreadable: u64,
}

impl Whole {
    /// A node that knows nobody. `patience` is how long it waits for a reader of its own.
    pub fn new(
        config: NodeConfig,
        clock: Clock,
        wall_us: u64,
        patience: Duration,
    ) -> Result<Whole, ConfigError> {
        Ok(Whole {
            node: Node::new(&config)?,
            config,
            clock,
            wall_us,
            patience,
            subscriptions: BTreeMap::new(),
            outgoing: VecDeque::new(),
            flushes: Vec::new(),
            cables: 0,
            diallers: Vec::new(),
            published: Vec::new(),
            read: Vec::new(),
            events: Vec::new(),
            flushed: Vec::new(),
            peaks: Peaks::default(),
            unreadable: 0,
        })
    }

    // --- getters ---

    /// The engine.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// What it was made from.
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// Messages that its publisher could not give away yet.
    pub fn backlog(&self) -> usize {
        self.outgoing.len()
    }

    /// Since when its publisher waits, by the simulation's clock.
    pub fn waits_since(&self) -> Option<Time> {
        self.outgoing.front()?.since
    }

    fn moment(&self, now: Time) -> Moment {
        Moment { now: self.clock.read(now), wall_us: self.wall_us + now.as_nanos() / 1000 }
    }

    // --- commands ---

    /// Starts over with nothing but its configuration, perhaps another one.
    pub fn restart(&mut self, config: NodeConfig) -> Result<(), ConfigError> {
        self.node = Node::new(&config)?;
        self.config = config;
        self.subscriptions.clear();
        self.outgoing.clear();
        self.flushes.clear();
        self.diallers.iter_mut().for_each(Dialler::forget);
        // What nobody took of the life before is gone with it.
        self.published.clear();
        self.read.clear();
        self.events.clear();
        self.flushed.clear();
        self.peaks = Peaks::default();
        Ok(())
    }

    /// Its calendar jumps; the clock that engines use does not.
    pub fn jump(&mut self, by_us: i64) {
        self.wall_us = self.wall_us.saturating_add_signed(by_us);
    }

    /// Subscribes; messages are read as they come.
    pub fn subscribe(
        &mut self,
        now: Time,
        number: u32,
        interest: Interest,
        (bytes_max, overflow): (usize, Overflow),
        no_local: bool,
    ) {
        let local = self.clock.read(now);
        let (id, consumer) = self.node.subscribe(local, interest, (bytes_max, overflow), no_local);
        self.subscriptions.insert(number, Subscription { id, consumer, bytes_max, reading: true });
    }

    /// Ends a subscription, after reading what came for it.
    pub fn unsubscribe(&mut self, now: Time, number: u32) {
        self.take_messages(now);
        if let Some(subscription) = self.subscriptions.remove(&number) {
            self.node.unsubscribe(self.clock.read(now), subscription.id);
        }
    }

    /// Whether a subscription is read.
    pub fn set_reading(&mut self, number: u32, reading: bool) {
        if let Some(subscription) = self.subscriptions.get_mut(&number) {
            subscription.reading = reading;
        }
    }

    /// Says what it does beside what its own programs do.
    pub fn set_roles(&mut self, now: Time, roles: Roles) {
        self.node.hub().set_roles(roles);
        self.node.handle_timeout(self.clock.read(now));
    }

    /// Publishes a message, once those before it are published.
    pub fn publish(
        &mut self,
        topic: Topic<'_>,
        priority: Priority,
        body: &[u8],
        when_full: WhenFull,
    ) -> Result<(), EncodeError> {
        let mut head = Vec::new();
        let message = Outgoing { priority, ..Outgoing::new(Address::topic(topic), BodyKind::Bytes, body) };
        message.encode_head_into(&mut head)?;
        self.outgoing.push_back(Waiting {
            topic: topic.as_str().to_owned(),
            priority: priority.get(),
            lane: Lane::of(topic.as_str().as_bytes(), priority.class()).number(),
            head,
            body: body.to_vec(),
            when_full,
            since: None,
            began: None,
            without: Vec::new(),
        });
        Ok(())
    }

    /// Waits until every member has what was published so far.
    pub fn flush(&mut self, now: Time, number: u32) {
        let id = self.node.begin_flush(self.clock.read(now));
        self.flushes.push((number, id, now));
    }

    /// Says goodbye, and reads and publishes nothing more.
    pub fn leave(&mut self, now: Time) {
        self.take_messages(now);
        self.subscriptions.clear();
        self.outgoing.clear();
        self.diallers.clear();
        self.node.leave(self.clock.read(now));
    }

    // --- the application's turn ---

    fn publish_waiting(&mut self, now: Time) {
        let moment = self.moment(now);
        while let Some(waiting) = self.outgoing.front_mut() {
            let since = *waiting.since.get_or_insert(now);
            let wanted_by = self.node.hub().wanting(&waiting.head);
            let patience = Patience { when_full: waiting.when_full, patience: self.patience, deadline: None };
            let mut publication = Publication {
                lane: waiting.lane,
                parts: [&waiting.head, &waiting.body],
                expires: false,
                patience,
                caller: None,
                began: waiting.began,
                without: std::mem::take(&mut waiting.without),
            };
            let attempt = self.node.publish(moment, &waiting.topic, &mut publication);
            let (began, without) = (publication.began, publication.without);
            let number = match attempt {
                Attempt::Done(number) => number,
                Attempt::Refused(Refusal::Unreadable(_)) => {
                    self.unreadable += 1;
                    0
                }
                Attempt::Refused(_) => 0,
                Attempt::Wait(_) | Attempt::Outdated => {
                    (waiting.began, waiting.without) = (began, without);
                    return;
                }
            };
            let id = MessageId { publisher: self.config.hub.publisher, chain: waiting.lane as u32, number };
            let Some(done) = self.outgoing.pop_front() else { return };
            let waited = now.since(since);
            self.published.push(Published {
                at: now,
                waited,
                topic: done.topic,
                priority: done.priority,
                id,
                wanted_by,
                body: done.body,
            });
        }
    }

    fn take_messages(&mut self, now: Time) -> bool {
        let mut made_room = false;
        for (&number, subscription) in self.subscriptions.iter().filter(|(_, found)| found.reading) {
            while let Some(taken) = subscription.consumer.take() {
                made_room |= taken.made_room;
                if taken.batches.is_empty() {
                    break;
                }
                for batch in taken.batches {
                    for entry in &batch.entries {
                        let origin = batch.origin(entry);
                        let Ok(view) = MessageView::parse(batch.record(entry)) else {
                            self.unreadable += 1;
                            continue;
                        };
                        let id = MessageId {
                            publisher: origin.publisher,
                            chain: origin.chain,
                            number: origin.number,
                        };
                        self.read.push(Read {
                            at: now,
                            subscription: number,
                            topic: String::from_utf8_lossy(view.name_bytes()).into_owned(),
                            id,
                            timestamp_us: origin.timestamp_us,
                            body: view.body().to_vec(),
                        });
                    }
                }
            }
        }
        made_room
    }

    fn take_flushes(&mut self, now: Time) {
        let node = &self.node;
        let flushed = &mut self.flushed;
        self.flushes.retain(|&(number, id, began)| match node.flush_state(id) {
            FlushState::Pending => true,
            FlushState::Done(silent) => {
                let losers = node.hub().flush_losers(id).into_iter().collect();
                node.hub().end_flush(id);
                flushed.push(Flushed { number, began, ended: now, silent, losers });
                false
            }
            FlushState::Failed(_) => {
                node.hub().end_flush(id);
                false
            }
        });
    }

    fn measure(&mut self) {
        let receive_bytes = self.node.sessions().map(|session| session.receive_bytes()).sum();
        let over = |found: &Subscription| found.consumer.bytes().saturating_sub(found.bytes_max);
        let over = self.subscriptions.values().map(over).max().unwrap_or(0);
        self.peaks.receive_bytes = self.peaks.receive_bytes.max(receive_bytes);
        self.peaks.queue_bytes_over = self.peaks.queue_bytes_over.max(over);
        self.peaks.waiting_bytes = self.peaks.waiting_bytes.max(self.node.waiting());
        self.peaks.held_bytes = self.peaks.held_bytes.max(self.node.held_bytes());
    }
}

impl Station for Whole {
    fn handle_datagram(&mut self, now: Time, link: usize, from: Source, datagram: &[u8]) {
        self.node.handle_datagram(self.clock.read(now), link, from, datagram);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.node.handle_timeout(self.clock.read(now));
    }

    fn turn(&mut self, now: Time) {
        self.publish_waiting(now);
        if self.take_messages(now) {
            self.node.hub().resume();
            self.node.handle_timeout(self.clock.read(now));
        }
    }

    fn transmit(&mut self, now: Time, link: usize, datagram: &mut dyn FnMut(Destination, &[u8])) -> bool {
        let local = self.clock.read(now);
        let Some(burst) = self.node.poll_transmit(local, link) else { return false };
        burst.datagrams().for_each(|bytes| datagram(burst.to, bytes));
        true
    }

    fn finish_turn(&mut self, now: Time) {
        // What was sent made room for what waits.
        self.node.handle_timeout(self.clock.read(now));
        self.turn(now);
        self.take_flushes(now);
        let local = self.clock.read(now);
        while let Some(news) = self.node.tcp().poll_news() {
            self.diallers.iter_mut().for_each(|dialler| dialler.hear(local, &news));
        }
        while let Some(event) = self.node.poll_event() {
            self.events.push((now, event));
        }
        self.measure();
    }

    fn deadline(&self) -> Time {
        // Whoever waits for a queue looks again when its patience ends.
        let waits =
            self.outgoing.front().and_then(|waiting| waiting.began).map(|began| began + self.patience);
        let patience = waits.filter(|_| !self.outgoing.is_empty()).unwrap_or(Time::NEVER);
        let dials = self.diallers.iter().map(|dialler| dialler.dial_at).fold(patience, Time::min);
        self.clock.when(self.node.poll_timeout().min(dials))
    }

    fn add_cable(&mut self, now: Time, cable: usize, dials: bool) {
        self.cables += 1;
        if dials {
            self.diallers.push(Dialler::new(self.clock.read(now), cable, self.config.hub.seed));
            self.node.hub().expect_links(self.diallers.len());
        }
    }

    fn poll_dial(&mut self, now: Time) -> Option<usize> {
        let now = self.clock.read(now);
        self.diallers.iter().find(|dialler| dialler.dial_at <= now).map(|dialler| dialler.cable)
    }

    fn dialled(&mut self, now: Time, cable: usize, wire: Option<WireId>) {
        let now = self.clock.read(now);
        let dialler = self.diallers.iter_mut().find(|dialler| dialler.cable == cable);
        dialler.into_iter().for_each(|dialler| dialler.dialled(now, wire));
    }

    fn handle_open(&mut self, now: Time, wire: WireId, fresh: u64) {
        let dialler = self.diallers.iter().find(|dialler| dialler.wire == Some(wire));
        let role = dialler.map_or(Role::Accepted, |dialler| Role::Dialled(dialler.last));
        self.node.tcp().open(self.clock.read(now), wire, role, fresh);
    }

    fn handle_bytes(&mut self, now: Time, wire: WireId, bytes: &[u8]) {
        let now = self.clock.read(now);
        self.node.tcp().handle_bytes(now, wire, bytes);
        self.node.handle_timeout(now);
    }

    fn handle_end(&mut self, now: Time, wire: WireId) {
        let now = self.clock.read(now);
        self.node.tcp().handle_end(now, wire, "the other end closed the connection");
        self.node.handle_timeout(now);
    }

    fn speak(&mut self, now: Time, wire: WireId, room: usize) -> Vec<u8> {
        let now = self.clock.read(now);
        self.node.take_rung();
        let links = self.node.tcp();
        let bytes = links.transmit(now, wire);
        let bytes = bytes[..bytes.len().min(room)].to_vec();
        links.written(now, wire, bytes.len());
        bytes
    }

    fn is_through(&self, wire: WireId) -> bool {
        self.node.tcp_links().is_ending(wire)
    }

    fn poll_close(&mut self) -> Option<WireId> {
        self.node.take_rung();
        self.node.tcp().poll_close()
    }
}
