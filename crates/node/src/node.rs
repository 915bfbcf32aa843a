//! A whole node without sockets, threads or clock: a hub, its NORM links and its TCP links, for simulations.
//!
//! Input: [`Node::handle_datagram`], [`Node::handle_timeout`], and commands. Output, to be asked for after each of them:
//! [`Node::poll_transmit`] until there is nothing, [`Node::poll_timeout`], [`Node::poll_event`]. What goes over TCP links goes in and out
//! at [`Node::tcp`]; [`Node::handle_timeout`] has to follow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shoal_norm::{Config, ConfigError, FeedbackMode, Session, Source, SyncPolicy, Time, Transmit};

use crate::hub::{
    Asleep, Attempt, Clock, Consumer, FlushId, FlushState, Hub, HubConfig, HubEvent, LinkBell, LinkKind,
    Overflow, Publication, Ring, Silent,
};
use crate::membership::MembershipConfig;
use crate::norm::{Driver, NormBus, lane_streams};
use crate::switch::{Interest, SubscriptionId};
use crate::tcp::{TcpConfig, TcpLinks};

/// Runs that are transmitted between the decision to leave and the goodbye: what is said last is among the first of them.
const LAST_WORDS: u32 = 4;
/// Whoever leaves has so long to send over TCP what was published.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// What a node is made from.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its hub.
    pub hub: HubConfig,
    /// Its links: the session of each, in which what a bus needs is set here, and how it finds others.
    pub links: Vec<(Config, MembershipConfig)>,
    /// How it meets others over TCP.
    pub tcp: TcpConfig,
    /// Bytes sent ahead of the slowest member in the window.
    pub window_bytes: usize,
    /// What is kept for repair, per lane.
    pub cache_bytes: usize,
    /// Whether it passes on what comes over one link to others.
    pub router: bool,
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

/// The bell of a TCP link: somebody looks soon.
struct Noted(Arc<AtomicBool>);

impl LinkBell for Noted {
    fn ring(&self, _why: Ring) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A node.
pub struct Node {
    hub: Arc<Hub>,
    links: Vec<Driver>,
    tcp: TcpLinks,
    /// A TCP link was rung, and not asked since what it has to say.
    rung: Arc<AtomicBool>,
    /// Runs that each link transmits before it leaves, and one.
    last_words: Vec<u32>,
}

impl Node {
    /// A node that knows nobody.
    pub fn new(config: &NodeConfig) -> Result<Node, ConfigError> {
        let hub = Hub::new(&config.hub, Arc::new(Asleep));
        if config.router {
            hub.set_router();
        }
        let mut links = Vec::new();
        for (norm, membership) in &config.links {
            let mut norm = norm.clone();
            NodeConfig::prepare(&mut norm);
            let session = Session::new(norm)?;
            let port = hub.attach("norm", LinkKind::Shared, Box::new(Silent));
            let (chains, link) = (hub.chains().clone(), port.link());
            let application = NormBus::new(port, membership.clone());
            let streams = lane_streams(config.hub.lanes, config.window_bytes, config.cache_bytes);
            let opened = Driver::new(session, &[], &streams, chains, link, Box::new(application));
            let wanted = "room for its lanes";
            links.push(opened.map_err(|_| ConfigError::new("cache_bytes", wanted))?);
        }
        let last_words = vec![0; links.len()];
        let rung = Arc::new(AtomicBool::new(false));
        let bell = rung.clone();
        let bells = Box::new(move || Box::new(Noted(bell.clone())) as Box<dyn LinkBell>);
        let tcp = TcpLinks::new(hub.clone(), config.tcp.clone(), bells);
        Ok(Node { hub, links, tcp, rung, last_words })
    }

    // --- getters ---

    /// Its hub: publish, subscribe, members and interest are there.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The sessions of its links, for what they did and hold.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.links.iter().map(|link| &link.session)
    }

    /// Its TCP links.
    pub fn tcp_links(&self) -> &TcpLinks {
        &self.tcp
    }

    /// Bytes that wait to be written to streams.
    pub fn waiting(&self) -> usize {
        self.links.iter().map(Driver::waiting).sum::<usize>() + self.tcp.sendable()
    }

    /// Bytes that came over TCP, and wait for readers or for the rest of their message.
    pub fn held_bytes(&self) -> usize {
        self.tcp.held_bytes() + self.tcp.part_bytes()
    }

    /// Whether everything published was sent, and acknowledged by everybody who is known.
    pub fn is_drained(&self) -> bool {
        self.links.iter().all(Driver::is_drained)
    }

    /// Whether the goodbye was said.
    pub fn has_left(&self) -> bool {
        self.sessions().all(Session::has_left) && self.tcp.connections() == 0
    }

    // --- input ---

    /// A datagram came over a link.
    pub fn handle_datagram(&mut self, now: Time, link: usize, from: Source, datagram: &[u8]) {
        let Some(driver) = self.links.get_mut(link) else { return };
        driver.note_room(now);
        driver.handle_datagrams(now, from, [datagram]);
        driver.batch_done(now);
        self.turn(now);
    }

    /// Connections come and go, and bytes come over them and go.
    pub fn tcp(&mut self) -> &mut TcpLinks {
        &mut self.tcp
    }

    /// Whether a TCP link was rung since this was asked: what it has to say is to be taken.
    pub fn take_rung(&mut self) -> bool {
        self.rung.swap(false, Ordering::Relaxed)
    }

    /// Time went by, or a reader made room.
    pub fn handle_timeout(&mut self, now: Time) {
        self.links.iter_mut().for_each(|link| link.note_room(now));
        self.turn(now);
    }

    fn turn(&mut self, now: Time) {
        self.tcp.handle_timeout(now);
        for link in &mut self.links {
            link.deliver(now);
            link.serve(now);
            link.write(now);
            link.deliver(now);
        }
        if self.hub.is_router() {
            // What one of them brought may be for one that had its turn.
            for link in &mut self.links {
                link.serve(now);
                link.write(now);
            }
        }
    }

    // --- commands ---

    /// Offers a message to everybody who wants its topic.
    pub fn publish(&mut self, moment: Moment, topic: &str, publication: &mut Publication<'_>) -> Attempt {
        let attempt = loop {
            let plan = self.hub.plan(topic.as_bytes());
            match self.hub.publish(&moment, &plan, publication) {
                Attempt::Outdated => {}
                attempt => break attempt,
            }
        };
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
        let id = self.hub.subscribe(now, interest, consumer.clone(), no_local);
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
        for (link, last_words) in self.links.iter_mut().zip(&mut self.last_words) {
            link.begin_leaving(now);
            *last_words = LAST_WORDS;
        }
        self.tcp.leave(now, now + LEAVES_WITHIN);
    }

    // --- output ---

    /// The next run of datagrams to send over a link.
    pub fn poll_transmit(&mut self, now: Time, link: usize) -> Option<Transmit<'_>> {
        let (driver, last_words) = (self.links.get_mut(link)?, self.last_words.get_mut(link)?);
        if *last_words > 0 {
            *last_words -= 1;
            if *last_words == 0 {
                driver.session.leave(now);
            }
        }
        driver.poll_transmit(now)
    }

    /// When [`Node::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Time {
        if self.rung.load(Ordering::Relaxed) {
            return Time::ZERO;
        }
        self.links.iter().map(Driver::poll_timeout).fold(self.tcp.poll_timeout(), Time::min)
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<HubEvent> {
        self.hub.poll_event()
    }
}
