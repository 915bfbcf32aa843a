//! A whole node without sockets, threads or clock: a hub and its NORM link, for simulations.
//!
//! Input: [`Node::handle_datagram`], [`Node::handle_timeout`], and commands. Output, to be asked for after each of them:
//! [`Node::poll_transmit`] until there is nothing, [`Node::poll_timeout`], [`Node::poll_event`].

use std::sync::Arc;

use shoal_norm::{Config, ConfigError, FeedbackMode, Session, Source, SyncPolicy, Time, Transmit};

use crate::hub::{
    Asleep, Attempt, Clock, Consumer, FlushId, FlushState, Hub, HubConfig, HubEvent, Overflow, Publication,
    Silent,
};
use crate::membership::MembershipConfig;
use crate::norm::{Driver, NormBus, lane_streams};
use crate::switch::{Interest, SubscriptionId};

/// What a node is made from.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its hub.
    pub hub: HubConfig,
    /// Its session. What a bus needs of it is set here.
    pub norm: Config,
    /// How it finds others.
    pub membership: MembershipConfig,
    /// Bytes sent ahead of the slowest member in the window.
    pub window_bytes: usize,
    /// What is kept for repair, per lane.
    pub cache_bytes: usize,
}

impl NodeConfig {
    /// Sets what every NORM link of a bus needs.
    pub fn prepare(norm: &mut Config) {
        norm.sync = SyncPolicy::Ask;
        norm.receive_objects = false;
        norm.feedback = FeedbackMode::UnicastAcks;
    }
}

/// A moment by a node's clocks.
#[derive(Copy, Clone, Debug)]
pub struct Moment {
    /// By the one that never jumps.
    pub now: Time,
    /// Microseconds since 1970.
    pub wall_us: u64,
}

impl Clock for Moment {
    fn now(&self) -> Time {
        self.now
    }

    fn wall_us(&self) -> u64 {
        self.wall_us
    }
}

/// A node.
pub struct Node {
    hub: Arc<Hub>,
    driver: Driver,
}

impl Node {
    /// A node that knows nobody.
    pub fn new(config: &NodeConfig) -> Result<Node, ConfigError> {
        let hub = Hub::new(&config.hub, Arc::new(Asleep));
        let mut norm = config.norm.clone();
        NodeConfig::prepare(&mut norm);
        let session = Session::new(norm)?;
        let port = hub.attach("norm", true, Box::new(Silent));
        let (chains, link) = (hub.chains().clone(), port.link());
        let application = NormBus::new(port, config.membership.clone());
        let streams = lane_streams(config.window_bytes, config.cache_bytes);
        let opened = Driver::new(session, &[], &streams, chains, link, Box::new(application));
        let wanted = "room for its lanes";
        let driver = opened.map_err(|_| ConfigError { field: "cache_bytes", wanted })?;
        Ok(Node { hub, driver })
    }

    // --- getters ---

    /// Its hub: publish, subscribe, members and interest are there.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Its session, for what that did and holds.
    pub fn session(&self) -> &Session {
        &self.driver.session
    }

    /// Whether everything published was sent, and acknowledged by everybody who is known.
    pub fn is_drained(&self) -> bool {
        self.driver.is_drained()
    }

    /// Whether the goodbye was said.
    pub fn has_left(&self) -> bool {
        self.driver.session.has_left()
    }

    // --- input ---

    /// A datagram came.
    pub fn handle_datagram(&mut self, now: Time, from: Source, datagram: &[u8]) {
        self.driver.note_room(now);
        self.driver.handle_datagrams(now, from, [datagram]);
        self.driver.batch_done(now);
        self.turn(now);
    }

    /// Time went by, or a reader made room.
    pub fn handle_timeout(&mut self, now: Time) {
        self.driver.note_room(now);
        self.turn(now);
    }

    fn turn(&mut self, now: Time) {
        self.driver.deliver(now);
        self.driver.serve(now);
        self.driver.write(now);
        self.driver.deliver(now);
    }

    // --- commands ---

    /// Offers a message to everybody who wants its topic.
    pub fn publish(&mut self, moment: Moment, topic: &str, publication: &mut Publication<'_>) -> Attempt {
        let plan = self.hub.plan(topic.as_bytes());
        let attempt = self.hub.publish(&moment, &plan, publication);
        self.turn(moment.now);
        attempt
    }

    /// Delivers what is of interest into a bounded queue from now on; others hear of it at once.
    pub fn subscribe(
        &mut self,
        now: Time,
        interest: Interest,
        (bytes_max, overflow): (usize, Overflow),
        no_local: bool,
    ) -> (SubscriptionId, Arc<Consumer>) {
        let consumer = Arc::new(Consumer::new(bytes_max, overflow, Arc::new(Asleep)));
        let id = self.hub.subscribe(interest, consumer.clone(), no_local);
        self.turn(now);
        (id, consumer)
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, now: Time, id: SubscriptionId) {
        self.hub.unsubscribe(id);
        self.turn(now);
    }

    /// Starts waiting until every member has everything published so far.
    pub fn begin_flush(&mut self, now: Time) -> FlushId {
        let id = self.hub.begin_flush();
        self.turn(now);
        id
    }

    /// What became of a flush.
    pub fn flush_state(&self, id: FlushId) -> FlushState {
        self.hub.flush_state(id)
    }

    /// Says goodbye, whatever was not acknowledged yet.
    pub fn leave(&mut self, now: Time) {
        self.hub.stop_publishing();
        self.driver.session.leave(now);
    }

    // --- output ---

    /// The next run of datagrams to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        self.driver.poll_transmit(now)
    }

    /// When [`Node::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Time {
        self.driver.poll_timeout()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<HubEvent> {
        self.hub.poll_event()
    }
}
