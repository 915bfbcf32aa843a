//! A chain that is locked while one message is published: it gets its number, and each link that wants it a copy.

use std::sync::MutexGuard;

use super::super::passing::Chain;
use super::super::send_error::SendError;
use super::{Chains, Clock, LinkId, STAMP_MESSAGES, STAMP_US, Stamp, State};

/// A chain that is locked for publishing one message.
pub(in crate::hub) struct Publishing<'a> {
    pub(super) chains: &'a Chains,
    pub(super) chain: usize,
    pub(super) state: MutexGuard<'a, State>,
}

impl Publishing<'_> {
    /// Refuses if nothing more is taken.
    #[inline]
    pub fn check_open(&self) -> Result<(), SendError> {
        self.state.check_open()
    }

    /// The number that the message will have.
    #[inline]
    pub fn number(&self) -> u64 {
        self.state.last + 1
    }

    /// When the message is published. `exactly` reads the clock, which is otherwise done now and then.
    #[inline]
    pub fn stamp(&mut self, clock: &impl Clock, exactly: bool) -> Stamp {
        if self.state.unread == 0 || exactly {
            self.read_clock(clock);
        }
        self.state.unread -= 1;
        self.state.stamp
    }

    fn read_clock(&mut self, clock: &impl Clock) {
        self.state.unread = STAMP_MESSAGES;
        let timestamp_us = clock.wall_us();
        // It may have been set back.
        if timestamp_us.abs_diff(self.state.stamp.timestamp_us) >= STAMP_US {
            self.state.stamp = Stamp { timestamp_us, clock: clock.now() };
        }
    }

    /// Whether a link has room for a record of this length. A link that is gone has.
    #[inline]
    pub fn has_room(&mut self, link: LinkId, length: usize) -> bool {
        let bytes_max = self.chains.lane_bytes_max;
        let outlet = self.state.outlets.get(link).and_then(Option::as_ref);
        let has_room = outlet.is_none_or(|outlet| outlet.has_room(length, bytes_max));
        self.state.refused |= !has_room;
        has_room
    }

    /// The longest message that those behind a link take, if it is shorter than this one.
    #[cold]
    pub fn too_long_for(&self, link: LinkId, length: usize) -> Option<usize> {
        let outlet = self.state.outlets.get(link).and_then(Option::as_ref)?;
        (length > outlet.message_bytes_max).then_some(outlet.message_bytes_max)
    }

    /// Takes memory for a record of this length.
    #[inline]
    pub fn reserve(&mut self, link: LinkId, length: usize) -> Result<(), SendError> {
        let outlet = self.state.outlets.get_mut(link).and_then(Option::as_mut);
        outlet.map_or(Ok(()), |outlet| outlet.reserve(length))
    }

    /// Appends the message for a link. Returns how many bytes wait there now, or `None` if the link cannot send them
    /// anyway.
    #[inline]
    pub fn append(&mut self, link: LinkId, stamp: Stamp, length: usize, parts: &[&[u8]]) -> Option<usize> {
        let number = self.state.last + 1;
        let outlet = self.state.outlets.get_mut(link).and_then(Option::as_mut)?;
        outlet.publish(self.chain as u32, number, stamp, length, parts);
        if outlet.blocked {
            // Who waits for a slow receiver has the time to read the clock.
            self.state.unread = 0;
            return None;
        }
        Some(outlet.bytes.len())
    }

    /// Keeps the message, in case a link takes it later.
    #[inline]
    pub fn keep(&mut self, publisher: u64, stamp: Stamp, parts: &[&[u8]]) {
        if self.chains.keeps() {
            let chain = Chain { publisher, chain: self.chain as u32, hops: 0, clock: None, again: None };
            let number = self.state.last + 1;
            if self.state.kept_from == 0 {
                self.state.kept_from = number;
            }
            self.state.kept.add(stamp.clock, &chain, (number, stamp.timestamp_us), parts);
        }
    }

    /// Its publisher is sent away for want of room, and is to hear of it.
    pub fn send_away(&mut self) {
        self.state.sent_away = true;
    }

    /// The message is not given to a link that wants it, because there is no room.
    pub fn drop_for(&mut self, link: LinkId) {
        let number = self.number();
        if let Some(outlet) = self.state.outlets.get_mut(link).and_then(Option::as_mut) {
            outlet.drop_own(self.chain as u32, number);
        }
    }

    /// So many filters were looked at for the message.
    #[inline]
    pub fn count_evaluated(&mut self, filters: u64) {
        self.state.here.evaluated += filters;
    }

    /// The message, of this length, is published: its number is used. Returns it. `targets` are the links and queues that want it,
    /// and `copies` those that went into queues of this process.
    #[inline]
    pub fn finish(mut self, length: usize, targets: usize, copies: u64) -> u64 {
        let here = &mut self.state.here;
        here.bytes_in += length as u64;
        if targets > 0 {
            here.matched += 1
        } else {
            here.dropped_at_source += 1
        }
        here.delivered += copies;
        here.bytes_out += copies * length as u64;
        self.state.last += 1;
        self.state.last
    }
}
