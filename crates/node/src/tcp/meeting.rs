//! Greetings: whether a connection is welcome, and which session it carries.

use std::sync::Arc;

use shoal_norm::{NodeId, Time};

use super::block::{self, kind};
use super::connection::{Connection, Stage};
use super::greeting::{Code, Greeting, Identity, Position, write_positions};
use super::links::{Line, Peer, TcpLinks};
use super::news::{ConnectionId, Over, TcpNews};
use super::rights::Rights;
use crate::hub::Departure;

/// Why somebody has to come again later.
const STILL_READ: &str = "what came of the session before is still being read";

impl TcpLinks {
    fn identity(&self, session: u64) -> Identity {
        Identity {
            domain: self.config.domain.clone(),
            publisher: self.hub.publisher(),
            node: self.hub.node(),
            heartbeat_ms: u32::try_from(self.config.heartbeat.as_millis()).unwrap_or(u32::MAX),
            session,
            message_bytes_max: self.hub.chains().message_bytes_max() as u64,
            // Whoever is known by its id elsewhere keeps it.
            renames: !self.hub.has_links(),
        }
    }

    /// Says hello.
    pub(super) fn hail(&self, connection: &mut Connection, insists: bool) {
        let hello = Greeting::Hello(self.identity(connection.session), insists);
        hello.write(&self.config.software, connection.out());
    }

    /// Lets somebody not in, and says why.
    pub(super) fn refuse(
        &mut self,
        now: Time,
        id: ConnectionId,
        connection: &mut Connection,
        code: Code,
        why: String,
    ) {
        self.over(id, connection, Over::Turned(why.clone()));
        self.say_no(now, connection, code, 0, why);
    }

    fn say_no(&self, now: Time, connection: &mut Connection, code: Code, session: u64, why: String) {
        let no = Greeting::Refusal { code, publisher: self.hub.publisher(), session, why };
        no.write(&self.config.software, connection.out());
        connection.begin_ending(now);
    }

    /// Whether we have a node id ourselves, or another publisher has it whom we know.
    fn is_taken(&self, node: NodeId, publisher: u64) -> bool {
        let others = self.peers.iter().filter(|&(&other, _)| other != publisher);
        let mut ids = others.filter_map(|(_, peer)| match (&peer.session, peer.line.connection()) {
            (Some(session), _) => Some(session.node),
            // It was welcomed, and did not confirm yet.
            (None, id) => Some(self.connections.get(&id?)?.node),
        });
        node == self.hub.node() || ids.any(|id| id == node)
    }

    /// Why there can be no session with somebody, if there cannot.
    fn objection(&self, other: &Identity) -> Option<String> {
        if other.domain != self.config.domain {
            let (there, here) = (&other.domain, &self.config.domain);
            return Some(format!("its domain is {there:?}, and ours {here:?}"));
        }
        (other.publisher == self.hub.publisher())
            .then(|| "a connection cannot be linked with itself: connect to another address".to_owned())
    }

    /// Somebody who connected says hello.
    pub(super) fn on_hello(
        &mut self,
        now: Time,
        id: ConnectionId,
        connection: &mut Connection,
        hello: Identity,
        insists: bool,
    ) {
        if let Some(why) = self.objection(&hello) {
            // Seen from there it is the other way round.
            let there = match hello.domain == self.config.domain {
                true => why.clone(),
                false => format!("its domain is {:?}, and ours {:?}", self.config.domain, hello.domain),
            };
            self.over(id, connection, Over::Turned(why));
            return self.say_no(now, connection, Code::Never, 0, there);
        }
        if connection.is_guest {
            let (publisher, node) = (hello.publisher, hello.node);
            connection.hello = Some(Box::new((hello, insists)));
            connection.stage = Stage::Asked;
            return self.news.push_back(TcpNews::Asks { connection: id, publisher, node });
        }
        self.welcome(now, id, connection, &hello, insists);
    }

    /// The owner decided about somebody who said hello: it is let in, with rights where rules count, or not, and hears why.
    pub fn admit(&mut self, now: Time, id: ConnectionId, refused: Option<&str>, rights: Option<Arc<Rights>>) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        if connection.stage == Stage::Asked
            && let Some(asked) = connection.hello.take()
        {
            match refused {
                None => {
                    connection.rights = rights;
                    self.welcome(now, id, &mut connection, &asked.0, asked.1);
                }
                Some(why) => self.refuse(now, id, &mut connection, Code::Never, why.to_owned()),
            }
        }
        self.put_back(id, connection);
    }

    /// Sends the other end to the addresses that `places` names. A guest is refused with them; a peer whose session is up is
    /// told, and leaves when it has another link.
    pub fn redirect(&mut self, now: Time, id: ConnectionId, places: &str) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        match connection.stage {
            Stage::Asked => {
                self.refuse(now, id, &mut connection, Code::Elsewhere, places.to_owned());
            }
            Stage::Open => block::write(kind::REDIRECT, places.as_bytes(), connection.out()),
            _ => {}
        }
        self.put_back(id, connection);
    }

    /// Begins a session with somebody, or goes on with it, unless there is another connection or no room.
    fn welcome(
        &mut self,
        now: Time,
        id: ConnectionId,
        connection: &mut Connection,
        hello: &Identity,
        insists: bool,
    ) {
        let publisher = hello.publisher;
        if self.draining.iter().any(|session| session.publisher == publisher) {
            return self.refuse(now, id, connection, Code::Busy, STILL_READ.to_owned());
        }
        if let Some(peer) = self.peers.get(&publisher) {
            let other = peer.line.connection();
            let same = peer.id == hello.session;
            let ours =
                other.is_some_and(|other| self.connections.get(&other).is_some_and(|other| other.dialled));
            let stays = match (other, &peer.session) {
                _ if insists => false,
                // Whoever dials may not know yet whom it reaches, and have that session.
                (_, Some(_)) if !same => true,
                (None, _) => false,
                // Both ends connect at once, to go on.
                (Some(_), Some(_)) => ours && self.hub.publisher() < publisher,
                // Whoever said hello and did not confirm is here again.
                (Some(_), None) => false,
            };
            if stays {
                let (session, why) = (peer.id, "there is a link with it already".to_owned());
                // Two that connect to each other do nothing wrong.
                self.over(id, connection, Over::Duplicate(publisher));
                return self.say_no(now, connection, Code::Duplicate, session, why);
            }
            if let Some(other) = other {
                self.replace(now, other);
            }
            if !same {
                self.give_up(now, publisher);
                if self.draining.iter().any(|session| session.publisher == publisher) {
                    return self.refuse(now, id, connection, Code::Busy, STILL_READ.to_owned());
                }
            }
        }
        if hello.renames && self.is_taken(hello.node, publisher) {
            let why = format!("another node has its id, {}", hello.node);
            return self.refuse(now, id, connection, Code::Taken, why);
        }
        if !self.peers.contains_key(&publisher) && !self.make_room(now) {
            let why = format!("it has {} links, and takes no more", self.peers.len());
            return self.refuse(now, id, connection, Code::Busy, why);
        }
        let window = self.window();
        let peer = self.peers.entry(publisher).or_insert_with(|| Peer::new(hello.session, window));
        peer.line = Line::Pending(id);
        connection.session = hello.session;
        connection.publisher = Some(publisher);
        connection.node = hello.node;
        connection.message_bytes_max = hello.message_bytes_max;
        connection.silence = self.config.silence(hello.heartbeat_ms);
        let resumed = peer.session.is_some();
        let window = peer.window as u64;
        let positions = match &mut peer.session {
            Some(session) => {
                session.set_blocked(true);
                session.positions()
            }
            None => vec![Position { received: 0, limit: window }; self.lanes - 1],
        };
        let welcome = Greeting::Welcome(self.identity(hello.session), resumed, positions);
        welcome.write(&self.config.software, connection.out());
        connection.stage = Stage::Answered;
    }

    /// We are welcome, if the other end may be what it says.
    pub(super) fn on_welcome(
        &mut self,
        now: Time,
        id: ConnectionId,
        connection: &mut Connection,
        (welcome, resumed, theirs): (&Identity, bool, &[Position]),
    ) {
        let publisher = welcome.publisher;
        if let Some(why) = self.objection(welcome) {
            self.over(id, connection, Over::Refused(why));
            return connection.begin_ending(now);
        }
        if welcome.session != connection.session {
            return self.break_off(now, id, connection, "it welcomed another session");
        }
        if let Some(peer) = self.peers.get(&publisher)
            && let Some(other) = peer.line.connection()
        {
            let other_dialled = self.connections.get(&other).is_some_and(|other| other.dialled);
            let stands = peer.session.is_some() && peer.id != welcome.session;
            if other_dialled || stands || publisher < self.hub.publisher() {
                self.over(id, connection, Over::Duplicate(publisher));
                return connection.end(now, "there is a link already");
            }
            self.replace(now, other);
        }
        let known = self.peers.get(&publisher);
        let goes_on = known.is_some_and(|peer| peer.session.is_some() && peer.id == welcome.session);
        if resumed && !goes_on {
            return self.break_off(now, id, connection, "it goes on with a session that is over");
        }
        if !resumed {
            // It remembers nothing of the one before.
            self.give_up(now, publisher);
            if self.draining.iter().any(|session| session.publisher == publisher) {
                return self.break_off(now, id, connection, "what came before is still being read");
            }
        }
        if let Some(last) = connection.last.filter(|&last| last != publisher)
            && self.peers.get(&last).is_some_and(|peer| peer.line.connection().is_none())
        {
            // Whoever was there before is not any more.
            self.give_up(now, last);
        }
        connection.publisher = Some(publisher);
        connection.node = welcome.node;
        connection.message_bytes_max = welcome.message_bytes_max;
        connection.silence = self.config.silence(welcome.heartbeat_ms);
        let window = self.window();
        let peer = self.peers.entry(publisher).or_insert_with(|| Peer::new(welcome.session, window));
        peer.id = welcome.session;
        let Some(ours) = self.carry(now, id, connection, theirs, resumed) else { return };
        let mut content = Vec::new();
        write_positions(&ours, &mut content);
        block::write(kind::CONFIRM, &content, connection.out());
    }

    /// Whoever said hello confirms.
    pub(super) fn on_confirm(
        &mut self,
        now: Time,
        id: ConnectionId,
        connection: &mut Connection,
        theirs: &[Position],
    ) {
        let resumed = connection
            .publisher
            .and_then(|publisher| self.peers.get(&publisher))
            .is_some_and(|peer| peer.session.is_some());
        let _ = self.carry(now, id, connection, theirs, resumed);
    }

    /// The session goes on over this connection. Returns how far we are with it.
    fn carry(
        &mut self,
        now: Time,
        id: ConnectionId,
        connection: &mut Connection,
        theirs: &[Position],
        resumed: bool,
    ) -> Option<Vec<Position>> {
        let (publisher, node) = (connection.publisher?, connection.node);
        let peer = self.peers.get(&publisher)?;
        if peer.session.is_none() {
            let session = self.begin_session(publisher, node, peer.window);
            self.peers.get_mut(&publisher)?.session = Some(session);
            self.share_out();
        }
        let peer = self.peers.get_mut(&publisher)?;
        let session = peer.session.as_mut()?;
        if connection.rights.clone().is_some_and(|rights| !session.set_rights(rights)) {
            self.give_up(now, publisher);
            self.break_off(now, id, connection, "its session began where no access rules count");
            return None;
        }
        let positions = session.positions();
        if !session.rewind(theirs) {
            self.give_up(now, publisher);
            self.break_off(now, id, connection, "it says that it has what was never sent");
            return None;
        }
        // What was acknowledged last may not have arrived.
        session.tell_soon(now);
        session.trust();
        if resumed {
            // So may what was said beside messages.
            session.port.tell_link_states();
            session.port.ask_again();
        }
        session.port.set_message_bytes_max(connection.message_bytes_max);
        peer.line = Line::Up(id);
        connection.stage = Stage::Open;
        connection.ping_at = now;
        self.news.push_back(TcpNews::Up { connection: id, publisher, node, resumed });
        Some(positions)
    }

    /// We are refused.
    pub(super) fn on_refusal(
        &mut self,
        now: Time,
        id: ConnectionId,
        connection: &mut Connection,
        (code, publisher, session, why): (Code, u64, u64, String),
    ) {
        let has = |peer: &Peer| peer.id == session;
        let over = match code {
            Code::Never => Over::Refused(why),
            Code::Busy => Over::Broken(why),
            Code::Elsewhere => Over::Elsewhere(why),
            Code::Taken => {
                self.redraws = true;
                Over::Stale(publisher)
            }
            Code::Duplicate if self.peers.get(&publisher).is_some_and(has) => Over::Duplicate(publisher),
            Code::Duplicate => {
                self.insists.insert(publisher);
                Over::Stale(publisher)
            }
        };
        self.over(id, connection, over);
        connection.begin_ending(now);
    }

    /// Another connection takes over.
    fn replace(&mut self, now: Time, id: ConnectionId) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        let publisher = connection.publisher.unwrap_or_default();
        self.over(id, &mut connection, Over::Duplicate(publisher));
        connection.end(now, "another connection takes over");
        self.put_back(id, connection);
    }

    /// Ends what there is with a publisher, whether or not a connection carries it.
    pub(super) fn give_up(&mut self, now: Time, publisher: u64) {
        self.end_session(now, publisher, Departure::Failed);
    }
}
