//! Datagrams that come in and go out, and where from and where to.

use std::net::SocketAddr;

/// Where a datagram came from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Who sent it.
    pub address: SocketAddr,
    /// Whether it was sent to us alone.
    pub unicast: bool,
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
