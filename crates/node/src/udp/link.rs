//! The engine of a best-effort link.
//!
//! Input: [`UdpLink::handle_datagram`], [`UdpLink::handle_timeout`]. Output, to be asked for after each of them:
//! [`UdpLink::poll_transmit`] until it gives nothing, [`UdpLink::poll_timeout`].

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use shoal_norm::{Time, next_to_send};
use shoal_wire::{Announce, WIRE_VERSION};

use super::datagram::{self, Content, DATA_HEADER_BYTES, Misread, Sender};
use super::lane::OutLane;
use super::peer::{Outcome, Peer};
use crate::hub::{Departure, HubEvent, Port};
use crate::interest::{Announcer, Applied};
use crate::norm::Lane;

/// What we want is announced no more often than this.
const ANNOUNCE_MIN: Duration = Duration::from_millis(100);
/// Who is new is announced to after a part of this, so that not everybody does at once.
const WELCOME: Duration = Duration::from_millis(50);
/// The most datagrams in a run, and bytes.
const RUN_DATAGRAMS_MAX: usize = 60;
const RUN_BYTES_MAX: usize = 60_000;
/// Answers that wait; beyond it the oldest give way.
const ANSWERS_MAX: usize = 256;
/// What may be sent at once though the rate is limited.
const BURST: Duration = Duration::from_millis(10);
/// Other versions are told of no more often than this.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// To a group, or to one peer.
    To(SocketAddr),
    /// To whoever connects, this many at the most.
    Whoever(usize),
}

/// What a link can be told.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Nodes of other domains are ignored.
    pub domain: u64,
    /// Where it leads.
    pub way: Way,
    /// How often to say that we are here.
    pub heartbeat: Duration,
    /// After how many missed ones a node is taken for gone.
    pub missed_heartbeats_max: u32,
    /// The longest datagram of data.
    pub datagram_bytes: usize,
    /// Bytes a second; `None` is as fast as the socket takes them.
    pub rate: Option<f64>,
    /// The most nodes kept track of.
    pub peers_max: usize,
    /// A random number, of which those are made that addresses have to say again.
    pub secret: u64,
}

/// What happened so far.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Datagrams received, whatever they were.
    pub datagrams_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Datagrams that are none of ours.
    pub malformed: u64,
    /// Datagrams of another version.
    pub other_version: u64,
    /// Datagrams of another domain.
    pub other_domain: u64,
    /// Datagrams that came late, or twice.
    pub late: u64,
    /// Datagrams that cannot be used, because one before them did not come.
    pub useless: u64,
    /// Datagrams dropped because a reader's queue was full.
    pub dropped: u64,
    /// Datagrams of nodes or addresses beyond the bound.
    pub turned_away: u64,
}

impl UdpCounters {
    /// Every counter with its name.
    pub fn named(&self) -> [(&'static str, u64); 11] {
        [
            ("datagrams_sent", self.datagrams_sent),
            ("bytes_sent", self.bytes_sent),
            ("datagrams_received", self.datagrams_received),
            ("bytes_received", self.bytes_received),
            ("malformed", self.malformed),
            ("other_version", self.other_version),
            ("other_domain", self.other_domain),
            ("late", self.late),
            ("useless", self.useless),
            ("dropped", self.dropped),
            ("turned_away", self.turned_away),
        ]
    }
}

/// To whom a run of datagrams goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// To everybody: [`UdpLink::destinations`].
    All,
    /// To one address.
    One(SocketAddr),
}

/// Datagrams of equal size, of which the last may be shorter.
#[derive(Debug)]
pub struct Transmit<'a> {
    /// To whom.
    pub to: To,
    /// One after the other.
    pub bytes: &'a [u8],
    /// The size of each.
    pub segment_bytes: usize,
    /// The lane whose data they carry, if they carry any.
    pub lane: Option<usize>,
}

/// A best-effort link.
pub struct UdpLink {
    port: Port,
    config: UdpConfig,
    lanes: Vec<OutLane>,
    /// By publisher.
    peers: BTreeMap<u64, Peer>,
    /// Where others are that connected, and when they were heard.
    addresses: BTreeMap<SocketAddr, Time>,
    announce_at: Time,
    announced_at: Time,
    /// When what was put aside is looked at again.
    aside_at: Time,
    /// Announcements, questions and answers that wait.
    words: VecDeque<(To, Vec<u8>)>,
    run: Vec<u8>,
    send_at: Time,
    tell_at: Time,
    left: bool,
    counters: UdpCounters,
}

impl UdpLink {
    /// A link that has said nothing yet.
    pub fn new(port: Port, config: UdpConfig) -> UdpLink {
        // Nobody's interest is known for certain, so everything is sent.
        port.set_open(true);
        let lanes = (0..port.lanes()).map(|lane| OutLane::new(Lane::share(lane))).collect();
        UdpLink {
            port,
            config,
            lanes,
            peers: BTreeMap::new(),
            addresses: BTreeMap::new(),
            announce_at: Time::ZERO,
            announced_at: Time::ZERO,
            aside_at: Time::NEVER,
            words: VecDeque::new(),
            run: Vec::new(),
            send_at: Time::ZERO,
            tell_at: Time::ZERO,
            left: false,
            counters: UdpCounters::default(),
        }
    }

    // --- getters ---

    /// What happened so far.
    pub fn counters(&self) -> UdpCounters {
        self.counters
    }

    /// Where what is for everybody goes.
    pub fn destinations(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let to = match self.config.way {
            Way::To(address) => Some(address),
            Way::Whoever(_) => None,
        };
        to.into_iter().chain(self.addresses.keys().copied())
    }

    /// Bytes that were published and not sent yet.
    pub fn waiting(&self) -> u64 {
        let taken: usize = self.lanes.iter().map(OutLane::waiting).sum();
        (taken + self.port.hub().chains().waiting(self.port.link())) as u64
    }

    /// Whether the goodbye was said, and everything before it.
    pub fn has_left(&self) -> bool {
        self.left && self.words.is_empty()
    }

    fn sender(&self) -> Sender {
        let hub = self.port.hub();
        Sender { domain: self.config.domain, publisher: hub.publisher(), node: hub.node() }
    }

    // --- input ---

    /// A datagram came from an address.
    pub fn handle_datagram(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) {
        self.counters.datagrams_received += 1;
        self.counters.bytes_received += bytes.len() as u64;
        let (sender, content) = match datagram::read(bytes) {
            Ok(read) => read,
            Err(Misread::Nonsense) => return self.counters.malformed += 1,
            Err(Misread::Version(version)) => return self.on_other_version(now, from, version),
        };
        if sender.domain != self.config.domain {
            return self.counters.other_domain += 1;
        }
        if sender.publisher == self.port.hub().publisher() {
            return;
        }
        match content {
            Content::Challenge(number) => return self.say(To::One(from), &Content::Answer(number)),
            Content::Answer(number) => return self.on_answer(now, from, number),
            _ => self.look_at(now, from),
        }
        match content {
            Content::Announce(record) => self.on_announce(now, &sender, record),
            Content::Data { lane, place, first, bytes } => {
                self.on_data(now, &sender, lane, (place, first), bytes);
            }
            Content::Goodbye => {
                self.part(now, sender.publisher, Departure::Left);
                self.addresses.remove(&from);
            }
            Content::Challenge(_) | Content::Answer(_) => {}
        }
    }

    fn on_other_version(&mut self, now: Time, from: SocketAddr, version: u8) {
        self.counters.other_version += 1;
        if now >= self.tell_at {
            self.tell_at = now + TELL_EVERY;
            let why = format!(
                "a program at {from} speaks version {version} of the wire format, and this one version {WIRE_VERSION}: \
                 run the same version of Shoal at both ends"
            );
            self.port.tell(HubEvent::Unreadable(0, why));
        }
    }

    /// Where we listen, an address is sent to only when somebody there heard us.
    fn look_at(&mut self, now: Time, from: SocketAddr) {
        if !matches!(self.config.way, Way::Whoever(_)) {
            return;
        }
        if let Some(heard_at) = self.addresses.get_mut(&from) {
            *heard_at = now;
        } else {
            let number = self.number_of(from);
            self.say(To::One(from), &Content::Challenge(number));
        }
    }

    fn on_answer(&mut self, now: Time, from: SocketAddr, number: u64) {
        let Way::Whoever(most) = self.config.way else { return };
        if number != self.number_of(from) {
            return self.counters.malformed += 1;
        }
        if self.addresses.len() >= most && !self.addresses.contains_key(&from) {
            return self.counters.turned_away += 1;
        }
        if self.addresses.insert(from, now).is_none() {
            self.announce_at = now;
        }
    }

    /// What somebody at this address has to say again: a keyed mix, so nobody else can guess it.
    fn number_of(&self, from: SocketAddr) -> u64 {
        use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
        let mut hasher = foldhash::fast::FixedState::with_seed(self.config.secret).build_hasher();
        self.config.secret.hash(&mut hasher);
        from.hash(&mut hasher);
        hasher.finish()
    }

    fn peer(&mut self, now: Time, sender: &Sender) -> Option<&mut Peer> {
        if !self.peers.contains_key(&sender.publisher) {
            if self.peers.len() >= self.config.peers_max {
                self.counters.turned_away += 1;
                return None;
            }
            let silence = self.silence(self.config.heartbeat);
            let peer = Peer::new(now, sender.node, self.lanes.len(), silence);
            self.peers.insert(sender.publisher, peer);
            self.port.join(sender.node);
            let share = (self.port.hub().publisher() % 64) as u32;
            self.announce_at = self.announce_at.min(now + WELCOME * share / 64);
        }
        let peer = self.peers.get_mut(&sender.publisher)?;
        peer.heard_at = now;
        Some(peer)
    }

    fn silence(&self, heartbeat: Duration) -> Duration {
        heartbeat.saturating_mul(self.config.missed_heartbeats_max.max(1))
    }

    fn on_announce(&mut self, now: Time, sender: &Sender, record: &[u8]) {
        let Ok(announce) = Announce::read(record) else { return self.counters.malformed += 1 };
        let heartbeat = Duration::from_millis(announce.header.heartbeat_ms.clamp(1, 3_600_000));
        let silence = self.silence(heartbeat);
        let Some(peer) = self.peer(now, sender) else { return };
        peer.silence = silence;
        let node = peer.node;
        if let Applied::Changed { added, removed } = peer.announced.apply(&announce) {
            self.port.change_interest(node, &added, &removed);
        }
    }

    fn on_data(
        &mut self,
        now: Time,
        sender: &Sender,
        lane: usize,
        place: (u64, Option<usize>),
        bytes: &[u8],
    ) {
        if self.peer(now, sender).is_none() {
            return;
        }
        let Some(peer) = self.peers.get_mut(&sender.publisher) else { return };
        match peer.feed(now, &mut self.port, (sender.publisher, lane), place, bytes) {
            Outcome::Fed => self.port.hand_over_if_full(now),
            Outcome::Old => self.counters.late += 1,
            Outcome::Useless => self.counters.useless += 1,
            Outcome::Full => self.counters.dropped += 1,
            Outcome::Broken => self.counters.malformed += 1,
        }
    }

    /// That was all that came for now: subscriptions get it.
    pub fn hand_over(&mut self, now: Time) {
        self.port.hand_over(now);
    }

    /// Time went by.
    pub fn handle_timeout(&mut self, now: Time) {
        self.port.settle(now);
        let gone = |(&publisher, peer): (&u64, &Peer)| {
            (now.since(peer.heard_at) >= peer.silence).then_some(publisher)
        };
        let gone: Vec<u64> = self.peers.iter().filter_map(gone).collect();
        for publisher in gone {
            self.part(now, publisher, Departure::Failed);
        }
        let silence = self.silence(self.config.heartbeat);
        self.addresses.retain(|_, heard_at| now.since(*heard_at) < silence);
        if now >= self.announce_at && !self.left {
            self.announce(now);
        }
        self.answer_flushes();
        (self.aside_at, _) = self.port.read_aside(now, |_, _| ());
        self.port.hand_over(now);
    }

    fn part(&mut self, now: Time, publisher: u64, departure: Departure) {
        if let Some(mut peer) = self.peers.remove(&publisher) {
            peer.close(now, &mut self.port);
            self.port.part(peer.node, departure);
        }
    }

    fn announce(&mut self, now: Time) {
        (self.announced_at, self.announce_at) = (now, now + self.config.heartbeat);
        let version = self.port.wanted_version();
        let hub = self.port.hub();
        let heartbeat_ms = u64::try_from(self.config.heartbeat.as_millis()).unwrap_or(u64::MAX).max(1);
        let (domain, publisher) = (self.config.domain, hub.publisher());
        let announcer = Announcer { domain, publisher, heartbeat_ms, groups: Default::default() };
        for record in self.port.announcement(announcer, None, &[]) {
            self.say(To::All, &Content::Announce(&record));
        }
        self.port.set_announced(version);
    }

    /// Whoever flushes waits until everything was sent; nobody acknowledges anything here.
    fn answer_flushes(&mut self) {
        let mut sent = Vec::new();
        let lanes = &self.lanes;
        self.port.ask_flushes(
            |lane| lanes[lane].sent(),
            |lane| {
                sent.push(lane);
                true
            },
        );
        sent.iter().for_each(|&lane| self.port.answer_flush(lane, &[]));
    }

    fn say(&mut self, to: To, content: &Content<'_>) {
        if self.words.len() >= ANSWERS_MAX {
            self.words.pop_front();
        }
        let mut bytes = Vec::new();
        datagram::write(&self.sender(), content, &mut bytes);
        self.words.push_back((to, bytes));
    }

    // --- commands ---

    /// What we want changed: announce it soon.
    pub fn want(&mut self, now: Time) {
        self.announce_at = self.announce_at.min(now.max(self.announced_at + ANNOUNCE_MIN));
    }

    /// Says goodbye.
    pub fn leave(&mut self) {
        if !std::mem::replace(&mut self.left, true) {
            self.say(To::All, &Content::Goodbye);
        }
    }

    /// The link's interface is gone: why.
    pub fn down(&mut self, why: &str) {
        self.port.tell(HubEvent::LinkDown(self.port.link(), why.to_owned()));
    }

    /// The link is on an interface again, with this address.
    pub fn up(&mut self, address: &str) {
        self.port.tell(HubEvent::LinkUp(self.port.link(), address.to_owned()));
    }

    /// The link cannot go on: why. Whoever waits for it is told.
    pub fn fail(&mut self, why: &str) {
        self.port.fail(why);
    }

    // --- output ---

    /// The next datagrams to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        let (to, segment_bytes, lane) = match self.words.pop_front() {
            Some((to, bytes)) => {
                self.run = bytes;
                (to, self.run.len(), None)
            }
            None => (To::All, self.config.datagram_bytes, Some(self.fill(now)?)),
        };
        let times = if to == To::All { self.destinations().count() as u64 } else { 1 };
        self.counters.datagrams_sent += times * self.run.len().div_ceil(segment_bytes) as u64;
        self.counters.bytes_sent += times * self.run.len() as u64;
        Some(Transmit { to, bytes: &self.run, segment_bytes, lane })
    }

    /// Puts data together, as much as goes in one run. Returns the lane that it is of.
    fn fill(&mut self, now: Time) -> Option<usize> {
        if now < self.send_at {
            return None;
        }
        self.run.clear();
        let (sender, most) = (self.sender(), self.config.datagram_bytes);
        let UdpLink { lanes, run, port, .. } = self;
        // The control lane carries nothing here.
        for (lane, out) in lanes.iter_mut().enumerate().skip(1) {
            while out.is_empty() && port.take(lane, out.emptied()) {}
        }
        let lane = next_to_send(lanes, RUN_BYTES_MAX, |out| &mut out.share, |out| !out.is_empty())?;
        let out = &mut lanes[lane];
        // Only the last of a run may be shorter than the others.
        while !out.is_empty()
            && run.len() % most == 0
            && (run.is_empty() || run.len() + most <= RUN_BYTES_MAX)
            && run.len() / most < RUN_DATAGRAMS_MAX
        {
            out.cut(lane, most - DATA_HEADER_BYTES, |content| datagram::write(&sender, content, run));
        }
        out.share.charge(run.len());
        self.pace(now);
        Some(lane)
    }

    /// Notes when the next run may follow.
    fn pace(&mut self, now: Time) {
        if let Some(rate) = self.config.rate {
            let earliest = if now.as_nanos() > BURST.as_nanos() as u64 {
                Time::from_nanos(now.as_nanos() - BURST.as_nanos() as u64)
            } else {
                Time::ZERO
            };
            let span = Duration::from_secs_f64((self.run.len() as f64 / rate).min(1e6));
            self.send_at = self.send_at.max(earliest) + span;
        }
    }

    /// When [`UdpLink::handle_timeout`] or, unless the socket takes no more, [`UdpLink::poll_transmit`] has something to do though
    /// nothing comes.
    pub fn poll_timeout(&self, clogged: bool) -> Time {
        let peers = self.peers.values().map(|peer| peer.heard_at + peer.silence);
        let paced = if !clogged && self.waiting() > 0 { self.send_at } else { Time::NEVER };
        peers.fold(self.announce_at.min(paced).min(self.aside_at), Time::min)
    }
}
