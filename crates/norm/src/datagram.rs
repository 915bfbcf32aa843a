//! Datagrams that come in and go out, and where from and where to.

use std::net::SocketAddr;
use std::time::Duration;

use crate::time::Time;

/// A datagram that lay unread for longer says more about its reader, which was away, than about the network. A
/// shorter wait is what traffic does to a round trip, and whoever expects an answer has to reckon with it.
const AWAY_AFTER: Duration = Duration::from_millis(20);

/// Where a datagram came from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Who sent it.
    pub address: SocketAddr,
    /// Whether it was sent to us alone.
    pub unicast: bool,
    /// How long it lay in our socket before it was read, as far as known.
    pub waited: Duration,
}

impl Source {
    /// When a datagram that is read now arrived, as round-trip times count it.
    pub(crate) fn arrived_at(&self, now: Time) -> Time {
        if self.waited > AWAY_AFTER { now - self.waited } else { now }
    }
}

/// Where a datagram goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The group.
    Group,
    /// One member.
    Node(SocketAddr),
}

/// Datagrams to send.
#[derive(Copy, Clone, Debug)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: Destination,
    /// One or more datagrams side by side.
    pub bytes: &'a [u8],
    /// How long each is; the last may be shorter.
    pub datagram_bytes: usize,
}

impl<'a> Transmit<'a> {
    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.datagram_bytes)
    }
}
