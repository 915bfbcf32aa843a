//! Datagrams that come in and go out, and where from and where to.

use std::net::SocketAddr;
use std::time::Duration;

use crate::ObjectId;
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

/// How long what is said to us lies in our socket, lately: a host with more to hear than it can hears everything late, and
/// has to give others as much time to hear and answer.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Lag(Duration);

impl Lag {
    /// Whoever stood still for long does not wait for as long once more.
    const MAX: Duration = Duration::from_secs(1);

    /// A datagram lay there for so long. A longer wait counts at once, shorter ones little by little.
    pub fn hear(&mut self, waited: Duration) {
        self.0 = waited.min(Lag::MAX).max(self.0 - self.0 / 16);
    }

    pub fn get(self) -> Duration {
        self.0
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
    /// The stream that they carry segments of; none for feedback, commands and objects.
    pub stream: Option<ObjectId>,
    /// The stream or object that they are about, if they are about one: also commands.
    pub about: Option<ObjectId>,
}

impl<'a> Transmit<'a> {
    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.datagram_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_wait_counts_at_once_and_is_forgotten_after_many_short_ones() {
        let mut lag = Lag::default();
        lag.hear(Duration::from_millis(300));
        assert_eq!(lag.get(), Duration::from_millis(300));
        lag.hear(Duration::from_secs(60));
        assert_eq!(lag.get(), Lag::MAX);
        (0..100).for_each(|_| lag.hear(Duration::from_micros(10)));
        assert!(lag.get() < Duration::from_millis(3), "{lag:?}");
    }
}
