//! How connections and sessions end.

use shoal_norm::{NodeId, Time};

use super::agenda::Party;
use super::connection::{Connection, Stage};
use super::links::{Line, Peer, TcpLinks};
use super::news::{ConnectionId, Over, TcpNews};
use super::session::Session;
use crate::hub::{Departure, HubEvent, LinkKind};

impl TcpLinks {
    /// The session that a connection carries.
    pub(super) fn session_on(&mut self, id: ConnectionId, connection: &Connection) -> Option<&mut Session> {
        let peer = self.peers.get_mut(&connection.publisher?)?;
        if peer.line == Line::Up(id) { peer.session.as_mut() } else { None }
    }

    /// Tells that a connection is over, once, and lets its session wait for another one.
    pub(super) fn over(&mut self, id: ConnectionId, connection: &mut Connection, why: Over) {
        if std::mem::replace(&mut connection.is_over, true) {
            return;
        }
        let was_up = connection.stage == Stage::Open;
        let peer = connection.publisher.filter(|_| was_up).map(|publisher| (publisher, connection.node));
        self.news.push_back(TcpNews::Over { connection: id, peer, why });
    }

    /// A connection no longer carries its session.
    pub(super) fn note_down(&mut self, now: Time, id: ConnectionId, connection: &Connection) {
        let Some(publisher) = connection.publisher else { return };
        let Some(peer) = self.peers.get_mut(&publisher) else { return };
        if peer.line.connection() == Some(id) {
            if connection.parting {
                return self.end_session(now, publisher, Departure::Left);
            }
            peer.line = Line::Down(now);
            self.agenda.touch(Party::Session(publisher));
            match &mut peer.session {
                Some(session) => session.set_blocked(true),
                None => drop(self.peers.remove(&publisher)),
            }
        }
    }

    /// Something is wrong with a connection; its session may go on with another one.
    pub(super) fn break_off(&mut self, now: Time, id: ConnectionId, connection: &mut Connection, why: &str) {
        self.over(id, connection, Over::Broken(why.to_owned()));
        connection.end(now, why);
        self.note_down(now, id, connection);
    }

    /// Something is wrong with a session: the next connection begins another one.
    pub(super) fn fail_session(
        &mut self,
        now: Time,
        id: ConnectionId,
        connection: &mut Connection,
        why: &str,
    ) {
        if let Some(session) = self.session_on(id, connection) {
            session.port.tell(HubEvent::Unreadable(session.node, why.to_owned()));
        }
        self.break_off(now, id, connection, why);
        if let Some(publisher) = connection.publisher {
            self.give_up(now, publisher);
        }
    }

    /// A session is over. What came of it is still read.
    pub(super) fn end_session(&mut self, now: Time, publisher: u64, departure: Departure) {
        let Some(peer) = self.peers.remove(&publisher) else { return };
        self.agenda.touch(Party::Session(publisher));
        let Some(mut session) = peer.session else { return };
        session.part(departure);
        session.port.stop_sending();
        let drained = session.move_held(now).is_err() || session.is_drained();
        if drained {
            self.close_session(now, session)
        } else {
            self.draining.push(session)
        }
        self.share_out();
    }

    pub(super) fn close_session(&mut self, now: Time, mut session: Session) {
        session.note_goodbye(now);
        session.close(now);
    }

    pub(super) fn begin_session(&mut self, publisher: u64, node: NodeId, window: usize) -> Session {
        let port = self.hub.attach("tcp", LinkKind::Alone, self.agenda.bell(publisher, (self.bells)()));
        Session::new(port, (publisher, node), window)
    }

    /// Makes room for another peer: whoever was longest without a connection gives way. False if nobody does.
    pub(super) fn make_room(&mut self, now: Time) -> bool {
        if self.peers.len() + self.draining.len() < self.config.peers_max {
            return true;
        }
        let since = |peer: &Peer| if let Line::Down(since) = peer.line { Some(since) } else { None };
        let idle = self.peers.iter().filter_map(|(&publisher, peer)| Some((since(peer)?, publisher))).min();
        if let Some((_, publisher)) = idle {
            self.give_up(now, publisher);
        }
        self.peers.len() + self.draining.len() < self.config.peers_max
    }
}
