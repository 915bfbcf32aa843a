//! A lane of a session, one direction each: what was taken from the hub and is not acknowledged, and what came and the hub has not
//! taken. Bytes are numbered from the session's beginning.

use std::collections::VecDeque;

use shoal_norm::{Share, Time};

use super::greeting::Position;
use crate::hub::SourceId;

/// Emptied buffers kept for their memory, and the largest one that is.
const SPARES_MAX: usize = 2;
const SPARE_BYTES_MAX: usize = 2 << 20;
/// What is held is kept in pieces of so many bytes, or more where more came at once.
const HELD_CHUNK_BYTES: usize = 16 << 10;

/// The way out.
#[derive(Debug, Default)]
pub(super) struct Outflow {
    chunks: VecDeque<Vec<u8>>,
    /// The number of the first chunk's first byte.
    base: u64,
    /// What comes before this the other side's hub has.
    acked: u64,
    /// What comes before this was given to the connection.
    sent: u64,
    /// What comes before this was taken from the hub.
    taken: u64,
    /// The other side has room up to here.
    limit: u64,
    /// And we keep no more than this that is not acknowledged, whatever room it says it has.
    window: u64,
    /// A flush waits until all before this is acknowledged.
    pub awaited: Option<u64>,
    /// Its part of what the session sends.
    pub share: Share,
    /// Whether the hub was told that nothing can be sent.
    pub blocked: bool,
    spares: Vec<Vec<u8>>,
}

impl Outflow {
    pub fn new(window: usize, share: Share) -> Outflow {
        Outflow { window: window as u64, share, ..Outflow::default() }
    }

    /// Keeps no more than this that is not acknowledged, from now on.
    pub fn set_window(&mut self, window: usize) {
        self.window = window as u64;
    }

    /// How far may be sent.
    fn credit(&self) -> u64 {
        self.limit.min(self.acked.saturating_add(self.window))
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes that the other side's hub has not got.
    pub fn lacking(&self) -> u64 {
        self.taken - self.acked
    }

    /// Whether a flush that was waiting is answered, once.
    pub fn take_answer(&mut self) -> bool {
        let answered = self.awaited.is_some_and(|until| self.acked >= until);
        if answered {
            self.awaited = None;
        }
        answered
    }

    /// Whether more is to be taken from the hub: what was taken is sent, and there is credit.
    pub fn is_hungry(&self) -> bool {
        self.sent == self.taken && self.sent < self.credit()
    }

    /// Whether there is something to send, and credit for it.
    pub fn has_sendable(&self) -> bool {
        self.sent < self.taken.min(self.credit())
    }

    /// An empty buffer to exchange with the hub.
    pub fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    /// Takes what the hub gave, or the buffer back that it did not want.
    pub fn add(&mut self, bytes: Vec<u8>) {
        self.taken += bytes.len() as u64;
        if bytes.is_empty() { self.spares.push(bytes) } else { self.chunks.push_back(bytes) }
    }

    /// The next bytes to send, `most` at the most; they count as sent.
    pub fn send(&mut self, most: usize) -> &[u8] {
        let mut at = (self.sent - self.base) as usize;
        let credit = usize::try_from(self.credit().saturating_sub(self.sent)).unwrap_or(usize::MAX);
        for chunk in &self.chunks {
            if at < chunk.len() {
                let length = (chunk.len() - at).min(most).min(credit);
                self.sent += length as u64;
                return &chunk[at..at + length];
            }
            at -= chunk.len();
        }
        &[]
    }

    /// The other side's hub has what comes before `consumed`, and there is room up to `limit`. False if that cannot be.
    pub fn acknowledge(&mut self, consumed: u64, limit: u64) -> bool {
        if consumed > self.sent {
            return false;
        }
        self.acked = self.acked.max(consumed);
        self.limit = self.limit.max(limit);
        while let Some(first) = self.chunks.front()
            && self.base + first.len() as u64 <= self.acked
            && let Some(mut chunk) = self.chunks.pop_front()
        {
            self.base += chunk.len() as u64;
            if chunk.capacity() <= SPARE_BYTES_MAX && self.spares.len() < SPARES_MAX {
                chunk.clear();
                self.spares.push(chunk);
            }
        }
        true
    }

    /// Another connection goes on where the other side is. False if it cannot be there.
    pub fn rewind(&mut self, position: Position) -> bool {
        if position.received < self.acked || position.received > self.taken {
            return false;
        }
        self.sent = position.received;
        self.limit = position.limit;
        true
    }
}

/// The way in.
#[derive(Debug)]
pub(super) struct Inflow {
    pub source: SourceId,
    /// Bytes that the hub has.
    consumed: u64,
    /// What came while the hub had no room, and how much of the first was taken.
    held: VecDeque<Vec<u8>>,
    held_bytes: usize,
    /// How far the other side may send.
    limit: u64,
    /// What was acknowledged last.
    told: u64,
    /// When to say how far we are.
    pub tell_at: Time,
    window: u64,
}

impl Inflow {
    pub fn new(source: SourceId, window: usize) -> Inflow {
        let window = window as u64;
        Inflow {
            source,
            consumed: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            limit: window,
            told: 0,
            tell_at: Time::NEVER,
            window,
        }
    }

    /// Grants no more than this at once, from now on.
    pub fn set_window(&mut self, window: usize) {
        self.window = window as u64;
    }

    /// Whether everything that came was taken.
    pub fn is_drained(&self) -> bool {
        self.held.is_empty()
    }

    /// Bytes that wait for the hub.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether there is room for so much more.
    pub fn admits(&self, bytes: usize) -> bool {
        self.consumed + self.held_bytes as u64 + bytes as u64 <= self.limit
    }

    /// Keeps what the hub has no room for. False if there is no memory for it.
    pub fn hold(&mut self, bytes: &[u8]) -> bool {
        match self.held.back_mut().filter(|last| last.len() + bytes.len() <= last.capacity()) {
            Some(last) => last.extend_from_slice(bytes),
            None => {
                let mut chunk = Vec::new();
                if chunk.try_reserve_exact(bytes.len().max(HELD_CHUNK_BYTES)).is_err() {
                    return false;
                }
                chunk.extend_from_slice(bytes);
                self.held.push_back(chunk);
            }
        }
        self.held_bytes += bytes.len();
        true
    }

    /// What waited longest, to be given to the hub. It counts as held until [`Inflow::note_held_taken`].
    pub fn take_first_held(&mut self) -> Option<Vec<u8>> {
        self.held.pop_front()
    }

    /// The hub has no room for it.
    pub fn give_back_held(&mut self, bytes: Vec<u8>) {
        self.held.push_front(bytes);
    }

    /// The hub took it.
    pub fn note_held_taken(&mut self, now: Time, bytes: usize, delay: std::time::Duration) {
        self.held_bytes -= bytes;
        self.consume(now, bytes, delay);
    }

    /// Whether nothing came yet.
    pub fn is_fresh(&self) -> bool {
        self.consumed == 0 && self.held_bytes == 0
    }

    /// The hub took so many bytes. Says so soon, or at once if the other side may wait for it.
    pub fn consume(&mut self, now: Time, bytes: usize, delay: std::time::Duration) {
        self.consumed += bytes as u64;
        let at = if self.consumed - self.told >= self.window / 8 { now } else { now + delay };
        self.tell_at = self.tell_at.min(at);
    }

    /// How far we are, as the other side is told when a connection begins.
    pub fn position(&mut self) -> Position {
        self.tell();
        Position { received: self.consumed + self.held_bytes as u64, limit: self.limit }
    }

    /// How far the hub is, and how far there is room: said now.
    pub fn tell(&mut self) -> (u64, u64) {
        self.told = self.consumed;
        self.tell_at = Time::NEVER;
        self.limit = self.limit.max(self.consumed + self.window);
        (self.consumed, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DELAY: Duration = Duration::from_millis(20);

    fn out(chunks: &[usize], limit: u64) -> Outflow {
        let mut out = Outflow { limit, ..Outflow::new(1000, Share::default()) };
        let mut next = 0u8;
        for &length in chunks {
            out.add((0..length).map(|at| next.wrapping_add(at as u8)).collect());
            next = next.wrapping_add(length as u8);
        }
        out
    }

    #[test]
    fn bytes_are_sent_in_order_within_credit_and_again_from_where_the_other_side_is() {
        let mut out = out(&[5, 5], 7);
        assert_eq!(out.send(3), [0, 1, 2]);
        assert_eq!(out.send(100), [3, 4]);
        assert_eq!(out.send(100), [5, 6]);
        assert!(!out.has_sendable() && out.send(100).is_empty());
        assert!(out.acknowledge(6, 20));
        assert_eq!(out.chunks.len(), 1);
        assert!(!out.rewind(Position { received: 5, limit: 20 }), "it had more");
        assert!(!out.rewind(Position { received: 11, limit: 20 }), "so much there never was");
        assert!(out.rewind(Position { received: 6, limit: 9 }));
        assert_eq!(out.send(100), [6, 7, 8]);
        assert!(!out.acknowledge(10, 20), "it was not sent");
        assert!(out.acknowledge(9, 20) && out.acknowledge(9, 20));
        assert!(!out.is_hungry());
        assert_eq!(out.send(1), [9]);
        assert!(out.is_hungry());
        assert_eq!(out.lacking(), 1);
    }

    #[test]
    fn whoever_grants_everything_and_acknowledges_nothing_gets_no_more_than_the_window() {
        let mut out = out(&[600, 600], u64::MAX);
        while out.has_sendable() {
            out.send(100);
        }
        assert_eq!((out.sent, out.is_hungry()), (1000, false));
        assert!(out.acknowledge(100, u64::MAX) && out.has_sendable());
    }

    #[test]
    fn what_the_hub_has_no_room_for_is_held_within_the_window() {
        let now = Time::from_nanos(1_000_000_000);
        let mut inflow = Inflow::new(0, 80);
        assert!(inflow.admits(80) && !inflow.admits(81));
        assert!(inflow.hold(&[1; 50]));
        assert!(inflow.admits(30) && !inflow.admits(31));
        assert_eq!(inflow.position(), Position { received: 50, limit: 80 });
        let held = inflow.take_first_held().unwrap();
        inflow.give_back_held(held);
        assert!(!inflow.is_drained());
        let held = inflow.take_first_held().unwrap();
        inflow.note_held_taken(now, held.len(), DELAY);
        assert_eq!((inflow.tell_at, inflow.is_drained()), (now, true));
        assert_eq!(inflow.tell(), (50, 130));
        inflow.consume(now, 1, DELAY);
        assert_eq!(inflow.tell_at, now + DELAY, "a little is not told at once");
    }
}
