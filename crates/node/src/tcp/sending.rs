//! What goes out on a connection: what we want, how far we are, and what was published, in this order.

use std::collections::BTreeSet;

use shoal_norm::{Time, next_to_send};
use shoal_wire::{Goodbye, frame};

use super::block::{self, BLOCK_BYTES_MAX, kind};
use super::connection::{Connection, Stage};
use super::flow::{Inflow, Outflow};
use super::links::{Line, TcpLinks};
use super::news::{ConnectionId, Over};
use super::session::Session;
use crate::interest::Announcer;

/// More is put together for a connection while less than this is to be written.
const FILL_BYTES: usize = 128 << 10;

impl TcpLinks {
    /// The connections that may have something to write. One that has more than its socket takes says so again when there is room
    /// ([`TcpLinks::handle_room`]).
    pub fn take_unsent(&mut self) -> BTreeSet<ConnectionId> {
        self.hear_rings();
        self.agenda.take_unsent()
    }

    /// A connection has more to write, and its socket room for it.
    pub fn note_unsent(&mut self, id: ConnectionId) {
        self.agenda.add_unsent(id);
    }

    /// Hears for which sessions the hub rang.
    pub(super) fn hear_rings(&mut self) {
        let peers = &self.peers;
        self.agenda.hear(|publisher| match peers.get(&publisher)?.line {
            Line::Up(id) => Some(id),
            Line::Pending(_) | Line::Down(_) => None,
        });
    }

    /// What is to be written to a connection now. Say with [`TcpLinks::written`] how much of it was.
    pub fn transmit(&mut self, now: Time, id: ConnectionId) -> &[u8] {
        self.agenda.take_off(id);
        let Some(mut connection) = self.connections.remove(&id) else { return &[] };
        if connection.stage == Stage::Open && connection.unwritten().len() < FILL_BYTES {
            connection.clogged = false;
            self.fill(now, id, &mut connection);
        }
        self.connections.insert(id, connection);
        self.plan(now, id);
        self.connections.get(&id).map_or(&[], Connection::unwritten)
    }

    /// So much of that was written; less than all of it if the socket takes no more.
    pub fn written(&mut self, now: Time, id: ConnectionId, bytes: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.wrote(bytes);
        let clogged = !connection.unwritten().is_empty();
        if let Some(session) = self.note_clogged(id, clogged) {
            session.sent.add(now, bytes);
        }
        self.plan(now, id);
    }

    /// All of it was written, and the socket takes no more all the same: what is between us, as TLS, holds what it took.
    pub fn clog(&mut self, now: Time, id: ConnectionId) {
        self.note_clogged(id, true);
        self.plan(now, id);
    }

    /// Returns the session that the connection carries.
    fn note_clogged(&mut self, id: ConnectionId, clogged: bool) -> Option<&mut Session> {
        let connection = self.connections.get_mut(&id)?;
        connection.clogged = clogged;
        let peer = self.peers.get_mut(&connection.publisher?).filter(|peer| peer.line == Line::Up(id))?;
        let session = peer.session.as_mut()?;
        if connection.stage == Stage::Open {
            session.set_blocked(clogged);
        }
        Some(session)
    }

    /// Whether [`TcpLinks::transmit`] has something, as far as known without looking into the hub.
    pub fn has_unwritten(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| !connection.unwritten().is_empty())
    }

    fn fill(&mut self, now: Time, id: ConnectionId, connection: &mut Connection) {
        let Some(publisher) = connection.publisher else { return };
        let Some(peer) = self.peers.get_mut(&publisher).filter(|peer| peer.line == Line::Up(id)) else {
            return;
        };
        let Some(session) = &mut peer.session else { return };
        session.set_blocked(false);
        let mut taken = session.take();
        let announcer = Announcer {
            domain: self.config.domain_number,
            publisher: self.hub.publisher(),
            heartbeat_ms: self.config.heartbeat.as_millis() as u64,
            groups: Default::default(),
        };
        announce(announcer, session, connection);
        let mut frames = Vec::new();
        while let Some(record) = session.port.poll_routing() {
            frame::write(&record, &mut frames);
        }
        for part in frames.chunks(BLOCK_BYTES_MAX) {
            block::write(kind::CONTROL, part, connection.out());
        }
        write_acks(session, now, connection);
        if let Some(sent_us) = connection.pong.take() {
            block::write(kind::PONG, &sent_us.to_be_bytes(), connection.out());
        }
        if now >= connection.ping_at {
            connection.note_ping(now, self.config.heartbeat);
            block::write(kind::PING, &(now.as_nanos() / 1000).to_be_bytes(), connection.out());
        }
        loop {
            while connection.unwritten().len() < FILL_BYTES
                && let Some(place) = next_flow(session)
            {
                let flow = &mut session.out[place];
                let bytes = flow.send(BLOCK_BYTES_MAX);
                block::write(kind::LANE + place as u8 + 1, bytes, connection.out());
                let length = bytes.len();
                flow.share.charge(length);
            }
            if !taken || connection.unwritten().len() >= FILL_BYTES {
                break;
            }
            taken = session.take();
            announce(announcer, session, connection);
        }
        for lane in session.ask_flushes() {
            block::write(kind::ASK, &[lane as u8], connection.out());
        }
        if connection.leave_by.is_some_and(|by| now >= by || session.is_sent()) {
            // Whoever leaves with everything says so: nobody who waits for a flush has to name it.
            write_acks(session, Time::NEVER, connection);
            let last = session.port.last_numbers();
            let last =
                last.into_iter().enumerate().skip(1).map(|(chain, last)| (chain as u32, last)).collect();
            let (domain, own) = (self.config.domain_number, self.hub.publisher());
            let mut record = Vec::new();
            Goodbye { domain, publisher: own, last }.write(&mut record);
            block::write(kind::GOODBYE, &record, connection.out());
            self.over(id, connection, Over::Closed);
            connection.begin_ending(now);
        }
    }
}

/// The place of the lane that goes next.
fn next_flow(session: &mut Session) -> Option<usize> {
    next_to_send(&mut session.out, BLOCK_BYTES_MAX, |flow| &mut flow.share, Outflow::has_sendable)
}

/// Says what we want, if that changed. Whatever was published after we wanted it was not said yet: somebody may answer it, and
/// sends the answer to nobody who is not known to want it.
fn announce(announcer: Announcer, session: &mut Session, connection: &mut Connection) {
    let version = session.port.wanted_version();
    if version == connection.announced {
        return;
    }
    let since = Some(connection.announced).filter(|&since| since > 0);
    let mut frames = Vec::new();
    for record in session.port.announcement(announcer, since, &[]) {
        frame::write(&record, &mut frames);
    }
    for part in frames.chunks(BLOCK_BYTES_MAX) {
        block::write(kind::CONTROL, part, connection.out());
    }
    if connection.announced == 0 {
        // What was said on another connection may not have arrived.
        session.port.tell_link_states();
    }
    connection.announced = version;
}

/// Says how far we are with each lane of which that is due by then.
fn write_acks(session: &mut Session, by: Time, connection: &mut Connection) {
    if by < session.paid_at() {
        return;
    }
    let is_due = |inflow: &Inflow| inflow.tell_at <= by && inflow.tell_at < Time::NEVER;
    for (at, inflow) in session.into.iter_mut().enumerate().filter(|(_, inflow)| is_due(inflow)) {
        let (consumed, limit) = inflow.tell();
        let mut content = vec![at as u8 + 1];
        content.extend_from_slice(&consumed.to_be_bytes());
        content.extend_from_slice(&limit.to_be_bytes());
        block::write(kind::ACK, &content, connection.out());
    }
}
