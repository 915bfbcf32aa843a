//! A turn of the links: whoever has something to do is visited, and says when to come again.

use std::collections::BTreeSet;

use shoal_norm::Time;

use super::agenda::Party;
use super::links::{Line, Peer, TcpLinks};
use super::news::ConnectionId;
use super::session::Session;
use crate::hub::{HubEvent, LinkId};

impl TcpLinks {
    /// Time went by, the hub rang, or something came. Returns how many sessions it visited.
    pub fn handle_timeout(&mut self, now: Time) -> usize {
        self.hear_rings();
        let mut sessions = BTreeSet::new();
        for party in self.agenda.take_due(now) {
            match party {
                Party::Session(publisher) => drop(sessions.insert(publisher)),
                Party::Connection(id) => sessions.extend(self.visit_connection(now, id)),
            }
        }
        for &publisher in &sessions {
            self.visit_session(now, publisher);
        }
        self.drain(now);
        self.find_stuck(now);
        self.end_idle_parts(now);
        sessions.len()
    }

    /// Returns whose session it carries.
    fn visit_connection(&mut self, now: Time, id: ConnectionId) -> Option<u64> {
        if self.connections.get(&id).is_some_and(|connection| now >= connection.deadline()) {
            self.handle_late(now, id);
        }
        self.agenda.add_unsent(id);
        self.plan(now, id);
        self.connections.get(&id)?.publisher
    }

    fn visit_session(&mut self, now: Time, publisher: u64) {
        let Some(Peer { line, session, .. }) = self.peers.get_mut(&publisher) else {
            return self.plan_session(now, publisher);
        };
        let line = *line;
        if let Some(session) = session {
            let visited = session.visit(now);
            if let Line::Down(since) = line {
                session.suspect(now, since);
            }
            if let Err(why) = visited {
                self.fail_peer(now, publisher, line, &why);
            }
        }
        match line {
            Line::Up(id) => self.agenda.add_unsent(id),
            Line::Down(since) if now >= since + self.config.resume => self.give_up(now, publisher),
            Line::Pending(_) | Line::Down(_) => {}
        }
        self.plan_session(now, publisher);
    }

    /// A session cannot go on: why.
    pub(super) fn fail_peer(&mut self, now: Time, publisher: u64, line: Line, why: &str) {
        match line.connection().and_then(|id| Some((id, self.connections.remove(&id)?))) {
            Some((id, mut connection)) => {
                self.fail_session(now, id, &mut connection, why);
                self.put_back(id, connection);
            }
            None => self.give_up(now, publisher),
        }
    }

    /// Says when a connection, and the session that it carries, are to be visited next.
    pub(super) fn plan(&mut self, now: Time, id: ConnectionId) {
        let connection = self.connections.get(&id);
        let at = connection.map_or(Time::NEVER, |connection| connection.deadline());
        let publisher = connection.and_then(|connection| connection.publisher);
        self.agenda.set(Party::Connection(id), at);
        if let Some(publisher) = publisher {
            self.plan_session(now, publisher);
        }
    }

    fn plan_session(&mut self, now: Time, publisher: u64) {
        let peer = self.peers.get(&publisher);
        let at = match peer.and_then(|peer| Some((peer.line, peer.session.as_ref()?))) {
            None => Time::NEVER,
            Some((line, session)) => {
                if session.is_blocked() && self.blocked.insert(publisher) && !session.lagging {
                    // Nobody rings for what cannot be sent.
                    self.look_at = self.look_at.min(now + self.config.patience / 4);
                }
                session.visit_at().min(match line {
                    Line::Down(since) => session.suspect_at(since).min(since + self.config.resume),
                    Line::Up(id) => {
                        let connection = self.connections.get(&id);
                        connection.map_or(Time::NEVER, |up| up.say_at(session.tell_at()))
                    }
                    Line::Pending(_) => Time::NEVER,
                })
            }
        };
        self.agenda.set(Party::Session(publisher), at);
    }

    /// Reads what came of sessions that are over.
    fn drain(&mut self, now: Time) {
        for mut session in std::mem::take(&mut self.draining) {
            if session.visit(now).is_ok() && !session.is_drained() {
                self.draining.push(session);
            } else {
                self.close_session(now, session);
            }
        }
    }

    /// Lets nobody wait for a peer that takes nothing while others do that read something.
    fn find_stuck(&mut self, now: Time) {
        if now < self.look_at {
            return;
        }
        self.look_at = Time::NEVER;
        let (full, patience) = (self.hub.chains().lane_bytes_max() / 2, self.config.patience);
        let (mut blocked, mut is_any_late) = (BTreeSet::new(), false);
        for publisher in std::mem::take(&mut self.blocked) {
            let peer = self.peers.get_mut(&publisher);
            let Some(session) = peer.and_then(|peer| peer.session.as_mut()) else { continue };
            session.note_stuck(now, full);
            is_any_late |= session.is_late(now, patience);
            if session.is_blocked() {
                blocked.insert(publisher);
                if !session.lagging {
                    self.look_at = now + patience / 4;
                }
            }
        }
        self.blocked = blocked;
        if !is_any_late {
            return;
        }
        let sessions = || self.peers.values().filter_map(|peer| peer.session.as_ref());
        let moves = |session: &Session| session.stuck_since.is_none() && !session.is_bystander();
        let is_any_moving = sessions().any(moves);
        let ours: BTreeSet<LinkId> = sessions().map(|session| session.port.link()).collect();
        for session in self.peers.values_mut().filter_map(|peer| peer.session.as_mut()) {
            if session.is_late(now, patience) && (is_any_moving || session.port.others_take(&ours)) {
                session.lagging = true;
                session.port.set_lagging(true);
                session.port.tell(HubEvent::Slow(session.node, session.process.clone()));
            }
        }
    }
}
