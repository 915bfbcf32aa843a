//! All TCP links of a node, without sockets: connections come and go, and sessions outlive them.
//!
//! Input: [`TcpLinks::open`], [`TcpLinks::handle_bytes`], [`TcpLinks::handle_end`]; [`TcpLinks::handle_timeout`] has to follow. Output, to
//! be asked for after it: [`TcpLinks::transmit`] for the connections of [`TcpLinks::take_unsent`], [`TcpLinks::poll_close`],
//! [`TcpLinks::poll_news`], [`TcpLinks::poll_timeout`]. A turn visits the sessions that have something to do; see [`super::agenda`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use shoal_norm::{NodeId, Time};
use shoal_wire::Goodbye;

use super::agenda::{Agenda, Party};
use super::block::{self, Found, kind};
use super::connection::{Connection, HANDSHAKE, Stage};
use super::greeting::{Code, Greeting, Misread, read_positions};
use super::news::{ConnectionId, LinkState, Over, Role, TcpConfig, TcpNews};
use super::session::{Session, Untaken};
use crate::hub::{Departure, Hub, LinkBell, LinkId};

/// What is kept of what all peers want together; beyond it everything is sent to whoever wants more.
const ALL_INTEREST_BYTES_MAX: usize = 256 << 20;
/// Denials of one connection that wait to be told; more are dropped.
const DENIALS_MAX: usize = 64;
/// Connections whose greetings are not over, at the most; the oldest gives way.
const STRANGERS_MAX: usize = 64;

/// What carries a session.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// We said welcome on it.
    Pending(ConnectionId),
    Up(ConnectionId),
    /// Nothing, since then.
    Down(Time),
}

impl Line {
    pub fn connection(self) -> Option<ConnectionId> {
        match self {
            Line::Pending(id) | Line::Up(id) => Some(id),
            Line::Down(_) => None,
        }
    }
}

/// Somebody with whom there is a session, or is about to be.
pub(super) struct Peer {
    /// The session's name.
    pub id: u64,
    pub line: Line,
    /// The credit that each of its lanes begins with.
    pub window: usize,
    /// Once it was confirmed.
    pub session: Option<Session>,
}

impl Peer {
    pub fn new(id: u64, window: usize) -> Peer {
        Peer { id, line: Line::Down(Time::ZERO), window, session: None }
    }
}

/// Gives each session a bell for the hub to ring.
pub type Bells = Box<dyn Fn() -> Box<dyn LinkBell> + Send>;

/// The links.
pub struct TcpLinks {
    pub(super) hub: Arc<Hub>,
    pub(super) config: TcpConfig,
    pub(super) bells: Bells,
    pub(super) lanes: usize,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    /// By publisher.
    pub(super) peers: BTreeMap<u64, Peer>,
    /// Sessions that are over, until what came of them was read.
    pub(super) draining: Vec<Session>,
    /// Publishers that claim a session with us that we do not have.
    pub(super) insists: BTreeSet<u64>,
    /// Our node id is somebody else's: draw another one before the next hello.
    pub(super) redraws: bool,
    pub(super) news: VecDeque<TcpNews>,
    closed: VecDeque<ConnectionId>,
    leaving: bool,
    pub(super) agenda: Agenda,
    /// Sessions that could send nothing in some lane when that was looked at last, and when to look again.
    pub(super) blocked: BTreeSet<u64>,
    pub(super) look_at: Time,
    /// When to look whether the rest of long messages comes.
    pub(super) parts_at: Time,
}

impl TcpLinks {
    /// None yet.
    pub fn new(hub: Arc<Hub>, config: TcpConfig, bells: Bells) -> TcpLinks {
        let lanes = hub.chains().count();
        TcpLinks {
            hub,
            config,
            bells,
            lanes,
            connections: BTreeMap::new(),
            peers: BTreeMap::new(),
            draining: Vec::new(),
            insists: BTreeSet::new(),
            redraws: false,
            news: VecDeque::new(),
            closed: VecDeque::new(),
            leaving: false,
            agenda: Agenda::default(),
            blocked: BTreeSet::new(),
            look_at: Time::NEVER,
            parts_at: Time::NEVER,
        }
    }

    // --- getters ---

    /// The sessions.
    pub fn states(&self, now: Time) -> Vec<LinkState> {
        let state = |(&publisher, peer): (&u64, &Peer)| {
            let session = peer.session.as_ref()?;
            Some(LinkState {
                publisher,
                node: session.node,
                connection: if let Line::Up(id) = peer.line { Some(id) } else { None },
                round_trip: session.round_trip,
                bytes_sent: session.sent.total,
                bytes_received: session.received.total,
                traffic: session.traffic(),
                send_rate: session.sent.rate(now),
                receive_rate: session.received.rate(now),
                denied: session.denied(),
                waiting: session.waiting() as u64,
                lacking: session.lacking(),
            })
        };
        self.peers.iter().filter_map(state).collect()
    }

    /// The nodes at the other end of open connections, and how long ago each was heard: its heartbeats count.
    pub fn heard(&self, now: Time) -> Vec<(NodeId, Duration)> {
        let heard = |peer: &Peer| {
            let Line::Up(id) = peer.line else { return None };
            let age = now.since(self.connections.get(&id)?.heard_at);
            Some((peer.session.as_ref()?.node, age))
        };
        self.peers.values().filter_map(heard).collect()
    }

    /// The hub's link that a session is, if there is one with this publisher.
    pub fn link(&self, publisher: u64) -> Option<LinkId> {
        self.peers.get(&publisher)?.session.as_ref().map(|session| session.port.link())
    }

    /// Connections there are, those included whose greetings are not over.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Bytes that wait in the hub and can be sent.
    pub fn sendable(&self) -> usize {
        let sessions = self.peers.values().filter_map(|peer| peer.session.as_ref());
        sessions.map(|session| self.hub.chains().sendable(session.port.link())).sum()
    }

    /// The same of the connections that [`TcpLinks::take_unsent`] would give: the hub rang for whatever is not in them.
    pub fn rung_bytes(&mut self) -> usize {
        self.hear_rings();
        let session = |id| self.peers.get(&self.connections.get(&id)?.publisher?)?.session.as_ref();
        let sessions = self.agenda.unsent().filter_map(session);
        sessions.map(|session| self.hub.chains().sendable(session.port.link())).sum()
    }

    /// Bytes that came and wait for readers.
    pub fn held_bytes(&self) -> usize {
        let sessions = self.peers.values().filter_map(|peer| peer.session.as_ref()).chain(&self.draining);
        sessions.map(Session::held_bytes).sum()
    }

    /// Bytes of messages whose end has not come, beside short ones.
    pub fn part_bytes(&self) -> usize {
        self.peers.values().filter_map(|peer| peer.session.as_ref()).map(Session::part_bytes).sum()
    }

    /// Whether a connection has said its last word, and its end is waited for.
    pub fn is_ending(&self, id: ConnectionId) -> bool {
        self.connections
            .get(&id)
            .is_some_and(|connection| connection.stage == Stage::Ending && connection.unwritten().is_empty())
    }

    // --- input ---

    /// A connection is there. `fresh` is a random number, for a session that may begin.
    pub fn open(&mut self, now: Time, id: ConnectionId, role: Role, fresh: u64) {
        let strangers: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                matches!(connection.stage, Stage::Listening | Stage::Asked | Stage::Answered)
            })
            .map(|(&id, _)| id)
            .collect();
        if !matches!(role, Role::Dialled(_))
            && strangers.len() >= STRANGERS_MAX
            && let Some(&oldest) = strangers.iter().min_by_key(|id| self.connections[id].began)
        {
            self.handle_distrust(now, oldest, "too many connections came at once that said nothing");
            self.closed.push_back(oldest);
        }
        let mut connection = match role {
            Role::Accepted | Role::Guest => {
                let mut connection = Connection::new(now, false, 0);
                connection.is_guest = role == Role::Guest;
                connection
            }
            Role::Dialled(last) => {
                let peer = last.and_then(|publisher| self.peers.get(&publisher));
                let session = peer.filter(|peer| peer.session.is_some()).map_or(fresh, |peer| peer.id);
                let mut connection = Connection::new(now, true, session);
                connection.last = last;
                if std::mem::take(&mut self.redraws) && !self.hub.has_links() {
                    self.hub.take_another_id(node_of(fresh));
                }
                let insists = last.is_some_and(|publisher| self.insists.remove(&publisher));
                self.hail(&mut connection, insists);
                connection
            }
        };
        if self.leaving {
            self.over(id, &mut connection, Over::Closed);
            connection.begin_ending(now);
        }
        self.put_back(id, connection);
    }

    /// A connection was taken out of the map to change it: it is back, and is visited in the next turn.
    pub(super) fn put_back(&mut self, id: ConnectionId, connection: Connection) {
        self.connections.insert(id, connection);
        self.agenda.touch(Party::Connection(id));
    }

    /// The socket of a connection has room again.
    pub fn handle_room(&mut self, id: ConnectionId) {
        self.agenda.touch(Party::Connection(id));
    }

    /// Bytes came.
    pub fn handle_bytes(&mut self, now: Time, id: ConnectionId, mut bytes: &[u8]) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        connection.heard_at = now;
        if let Some(session) = self.session_on(id, &connection) {
            session.received.add(now, bytes.len());
        }
        while !bytes.is_empty() && connection.stage != Stage::Ending {
            let software = &self.config.software;
            match connection.reader.read(bytes, software) {
                Ok((found, taken)) => {
                    self.handle(now, id, &mut connection, found);
                    bytes = &bytes[taken..];
                }
                Err(misread) => self.on_misread(now, id, &mut connection, misread),
            }
        }
        if let Some(session) = self.session_on(id, &connection) {
            session.port.hand_over(now);
        }
        self.tell_denials(id, &mut connection);
        self.put_back(id, connection);
    }

    /// Rights were replaced: sessions use the new ones.
    pub fn use_rules(&mut self) {
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(mut connection) = self.connections.remove(&id) else { continue };
            if let Some(session) = self.session_on(id, &connection) {
                session.use_rules();
            }
            self.tell_denials(id, &mut connection);
            self.put_back(id, connection);
        }
    }

    /// Tells both ends what rules denied.
    fn tell_denials(&mut self, id: ConnectionId, connection: &mut Connection) {
        if connection.rights.is_none() {
            return;
        }
        let denials = self.session_on(id, connection).map_or_else(Vec::new, Session::take_denials);
        for why in denials {
            block::write(kind::DENIED, why.as_bytes(), connection.out());
            self.news.push_back(TcpNews::Denied { connection: id, ours: true, why });
        }
    }

    /// Bytes cannot be read. Another version is told so; it reads that much.
    fn on_misread(&mut self, now: Time, id: ConnectionId, connection: &mut Connection, misread: Misread) {
        let over = match (connection.stage, misread) {
            (Stage::Listening, Misread::Version(why)) => {
                let (code, publisher) = (Code::Never, self.hub.publisher());
                let no = Greeting::Refusal { code, publisher, session: 0, why: why.clone() };
                no.write(&self.config.software, connection.out());
                Over::Turned(why)
            }
            (Stage::Listening, Misread::Nonsense(why)) => Over::Turned(why),
            (Stage::Hailing, Misread::Version(why)) => Over::Refused(why),
            (_, Misread::Version(why) | Misread::Nonsense(why)) => {
                return self.break_off(now, id, connection, &why);
            }
        };
        self.over(id, connection, over);
        connection.begin_ending(now);
    }

    fn handle(&mut self, now: Time, id: ConnectionId, connection: &mut Connection, found: Found<'_>) {
        match (connection.stage, found) {
            (_, Found::Nothing) => {}
            (Stage::Listening, Found::Greeting(Greeting::Hello(hello, insists))) => {
                self.on_hello(now, id, connection, hello, insists);
            }
            (Stage::Hailing, Found::Greeting(Greeting::Welcome(welcome, resumed, positions))) => {
                self.on_welcome(now, id, connection, (&welcome, resumed, &positions));
            }
            (Stage::Hailing, Found::Greeting(Greeting::Refusal { code, publisher, session, why })) => {
                self.on_refusal(now, id, connection, (code, publisher, session, why));
            }
            (Stage::Answered, Found::Block(kind::CONFIRM, content)) => match read_positions(&content) {
                Some(positions) => self.on_confirm(now, id, connection, &positions),
                None => self.break_off(now, id, connection, "its confirmation cannot be read"),
            },
            (Stage::Answered, Found::Block(kind::END, why)) => {
                self.break_off(now, id, connection, &words(&why));
            }
            (Stage::Open, Found::Bytes(lane, bytes)) => {
                match self.handle_lane(now, connection, lane.into(), bytes) {
                    Ok(()) => {}
                    Err(Untaken::Wrong(why)) => self.fail_session(now, id, connection, &why),
                    Err(Untaken::NoMemory) => {
                        self.break_off(now, id, connection, "there is no memory for what it sends");
                    }
                    Err(Untaken::Crowded) => {
                        let why = "readers take less than comes, and more may not wait (assembly_bytes_max)";
                        self.break_off(now, id, connection, why);
                    }
                }
            }
            (Stage::Open, Found::Block(kind, content)) => {
                if let Err(why) = self.handle_block(now, id, connection, kind, &content) {
                    self.break_off(now, id, connection, &why);
                }
            }
            _ => self.break_off(now, id, connection, "it says what does not belong here"),
        }
    }

    fn handle_lane(
        &mut self,
        now: Time,
        connection: &mut Connection,
        lane: usize,
        bytes: &[u8],
    ) -> Result<(), Untaken> {
        let may_hold = connection.publisher.is_none_or(|publisher| self.may_hold(publisher, bytes.len()));
        let everybody = self.peers.values().filter_map(|peer| peer.session.as_ref());
        let interest: usize = if lane == 0 { everybody.map(Session::interest_bytes).sum() } else { 0 };
        let Some(session) = connection
            .publisher
            .and_then(|publisher| self.peers.get_mut(&publisher))
            .and_then(|peer| peer.session.as_mut())
        else {
            return Err(Untaken::Wrong("there is no session".to_owned()));
        };
        if lane > 0 {
            return session.handle_bytes(now, lane, bytes, may_hold);
        }
        let mut outcome = Ok(());
        let each = |record: &[u8], _| {
            if outcome.is_ok() {
                let others = interest.saturating_sub(session.interest_bytes());
                outcome = session.handle_record(record, ALL_INTEREST_BYTES_MAX.saturating_sub(others));
            }
            false
        };
        connection.control.read(bytes, each).map_err(|error| Untaken::Wrong(error.to_string()))?;
        outcome.map_err(Untaken::Wrong)
    }

    fn handle_block(
        &mut self,
        now: Time,
        id: ConnectionId,
        connection: &mut Connection,
        kind: u8,
        content: &[u8],
    ) -> Result<(), String> {
        let unreadable = || format!("a block of kind {kind} cannot be read");
        let session = self.session_on(id, connection).ok_or("there is no session")?;
        match kind {
            kind::ACK => {
                let [lane, rest @ ..] = content else { return Err(unreadable()) };
                let consumed = rest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
                let limit =
                    rest.get(8..).and_then(<[u8]>::first_chunk).map(|bytes| u64::from_be_bytes(*bytes));
                let (Some(consumed), Some(limit)) = (consumed, limit) else { return Err(unreadable()) };
                if !session.acknowledge((*lane).into(), consumed, limit) {
                    return Err("it acknowledges what was not sent".to_owned());
                }
            }
            kind::ASK => {
                let [lane] = content else { return Err(unreadable()) };
                let inflow = usize::from(*lane).checked_sub(1).and_then(|at| session.into.get_mut(at));
                inflow.ok_or_else(unreadable)?.tell_at = now;
            }
            kind::PING => {
                let sent_us = u64::from_be_bytes(*content.first_chunk().ok_or_else(unreadable)?);
                connection.on_ping(now, sent_us, self.config.heartbeat);
            }
            kind::PONG => {
                let sent_us = u64::from_be_bytes(*content.first_chunk().ok_or_else(unreadable)?);
                let sample = Duration::from_micros((now.as_nanos() / 1000).saturating_sub(sent_us));
                // Nobody can answer what was not asked yet.
                if sent_us > 0 && sample <= now.since(connection.began) {
                    let smooth = |known: Duration| (known * 7 + sample) / 8;
                    session.round_trip = Some(session.round_trip.map_or(sample, smooth));
                }
            }
            kind::GOODBYE => {
                let goodbye = Goodbye::read(content).map_err(|error| error.to_string())?;
                session.move_held(now)?;
                let publisher = session.publisher;
                session.goodbye = Some(goodbye);
                self.over(id, connection, Over::Left);
                self.end_session(now, publisher, Departure::Left);
                connection.begin_ending(now);
            }
            kind::END => self.break_off(now, id, connection, &words(content)),
            // One that repeats itself fills nothing: the news of before are still there.
            kind::REDIRECT if !self.has_redirect(id) => {
                let places = words(content);
                self.news.push_back(TcpNews::Redirected { connection: id, places });
            }
            kind::DENIED if self.denials(id) < DENIALS_MAX => {
                let why = words(content);
                self.news.push_back(TcpNews::Denied { connection: id, ours: false, why });
            }
            _ => {}
        }
        Ok(())
    }

    /// What the other end of a connection denied, and nobody took note of yet.
    fn denials(&self, id: ConnectionId) -> usize {
        let of = |news: &&TcpNews| matches!(news, TcpNews::Denied { connection, .. } if *connection == id);
        self.news.iter().filter(of).count()
    }

    fn has_redirect(&self, id: ConnectionId) -> bool {
        let of = |news: &TcpNews| matches!(news, TcpNews::Redirected { connection, .. } if *connection == id);
        self.news.iter().any(of)
    }

    /// A connection ended by itself: why.
    pub fn handle_end(&mut self, now: Time, id: ConnectionId, why: &str) {
        if let Some(mut connection) = self.connections.remove(&id) {
            self.agenda.touch(Party::Connection(id));
            self.over(id, &mut connection, Over::Broken(why.to_owned()));
            self.note_down(now, id, &connection);
        }
    }

    /// What carries a connection does not trust the other end, or is not trusted: why. Trying again does not help.
    pub fn handle_distrust(&mut self, now: Time, id: ConnectionId, why: &str) {
        let over = match self.connections.get(&id).map(|connection| connection.stage) {
            Some(Stage::Hailing) => Over::Refused(why.to_owned()),
            Some(Stage::Listening | Stage::Asked) => Over::Turned(why.to_owned()),
            _ => return self.handle_end(now, id, why),
        };
        if let Some(mut connection) = self.connections.remove(&id) {
            self.agenda.touch(Party::Connection(id));
            self.over(id, &mut connection, over);
        }
    }

    /// What was to become a connection did not: why.
    pub fn handle_unreachable(&mut self, id: ConnectionId, why: &str) {
        let why = Over::Broken(why.to_owned());
        self.news.push_back(TcpNews::Over { connection: id, peer: None, why });
    }

    pub(super) fn handle_late(&mut self, now: Time, id: ConnectionId) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        match connection.stage {
            Stage::Asked => {
                let why = format!("nobody decided within {} s whether to let it in", HANDSHAKE.as_secs());
                self.refuse(now, id, &mut connection, Code::Busy, why);
            }
            Stage::Hailing | Stage::Listening | Stage::Answered => {
                let why = format!("it did not say who it is within {} s", HANDSHAKE.as_secs());
                if !connection.dialled {
                    self.over(id, &mut connection, Over::Turned(why.clone()));
                }
                self.break_off(now, id, &mut connection, &why);
            }
            Stage::Open if now >= connection.heard_at + connection.silence => {
                let silent_s = connection.silence.as_secs_f64();
                self.break_off(now, id, &mut connection, &format!("nothing was heard for {silent_s} s"));
            }
            Stage::Ending if now >= connection.end_by => {
                self.note_down(now, id, &connection);
                return self.closed.push_back(id);
            }
            Stage::Open if connection.leave_by.is_some_and(|by| now >= by) && connection.clogged => {
                // Not even the goodbye can be written.
                self.over(id, &mut connection, Over::Closed);
                connection.begin_ending(now);
            }
            Stage::Open | Stage::Ending => {}
        }
        self.connections.insert(id, connection);
    }

    // --- commands ---

    /// Says goodbye to everybody, by then at the latest, and sooner where everything was sent. Nobody is let in any more.
    pub fn leave(&mut self, now: Time, by: Time) {
        self.leaving = true;
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(mut connection) = self.connections.remove(&id) else { continue };
            self.leave_on(now, id, &mut connection, by);
            self.put_back(id, connection);
        }
    }

    /// Says goodbye on one connection, by then at the latest, and sooner where everything was sent. Its session ends with it.
    pub fn part(&mut self, now: Time, id: ConnectionId, by: Time) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        connection.parting = true;
        self.leave_on(now, id, &mut connection, by);
        self.put_back(id, connection);
    }

    fn leave_on(&mut self, now: Time, id: ConnectionId, connection: &mut Connection, by: Time) {
        match connection.stage {
            Stage::Open => {
                connection.leave_by = Some(connection.leave_by.map_or(by, |known| known.min(by)));
            }
            Stage::Ending => {}
            _ => {
                self.over(id, connection, Over::Closed);
                connection.end(now, "it closes");
            }
        }
    }

    /// Ends every session, with its port. Nothing more is said.
    pub fn close(&mut self) {
        self.peers.clear();
        self.draining.clear();
        self.connections.clear();
    }

    /// The links cannot go on: why. Whoever waits for one is told.
    pub fn fail(&mut self, why: &str) {
        for session in self.peers.values().filter_map(|peer| peer.session.as_ref()) {
            session.port.fail(why);
        }
        self.close();
    }

    // --- output ---

    /// A connection that is to be closed.
    pub fn poll_close(&mut self) -> Option<ConnectionId> {
        self.closed.pop_front()
    }

    /// What became of connections.
    pub fn poll_news(&mut self) -> Option<TcpNews> {
        self.news.pop_front()
    }

    /// When [`TcpLinks::handle_timeout`] has something to do though nothing comes.
    pub fn poll_timeout(&self) -> Time {
        let draining = self.draining.iter().map(Session::visit_at);
        draining.fold(self.agenda.next().min(self.look_at).min(self.parts_at), Time::min)
    }
}

/// A node id made of a random number; 0 and the greatest one have a meaning of their own.
fn node_of(fresh: u64) -> NodeId {
    ((fresh >> 32) as NodeId).clamp(1, NodeId::MAX - 1)
}

/// Letters of a reason, or of a list of addresses, that are read.
const WORDS_MAX: usize = 500;

fn words(content: &[u8]) -> String {
    String::from_utf8_lossy(content).chars().filter(|letter| !letter.is_control()).take(WORDS_MAX).collect()
}
