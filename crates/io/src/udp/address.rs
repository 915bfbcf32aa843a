//! Where a link lives and how its sockets are set.

use std::net::{IpAddr, SocketAddr};

use crate::interfaces::Interface;

/// Where a link lives.
///
/// Over unicast the two ends name each other, and each has one socket: it sends from the port it listens on, so that
/// the answers pass whatever filters and translates addresses on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// An IPv4 or IPv6 multicast group and its port; or one peer, for a link over unicast.
    pub group: SocketAddr,
    /// The network it is on; for a link over unicast an address is the one to listen on.
    pub interface: Interface,
}

/// What tells switches and this machine's queues how urgent a datagram is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// SO_PRIORITY, 0 to 6: the queue it waits in here, and through `egress-qos-map` the priority of a VLAN.
    pub priority: u8,
}

/// How the sockets of a link are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// How many routers multicast may pass, plus one.
    pub ttl: u32,
    /// What to ask the kernel for; [`Sockets::receive_buffer_bytes`](super::Sockets::receive_buffer_bytes) says what
    /// it gave.
    pub receive_buffer_bytes: usize,
    /// What to ask the kernel for.
    pub send_buffer_bytes: usize,
    /// Whether programs on this machine hear what is sent. Without effect on the loopback interface.
    pub loopback: bool,
    /// How datagrams of each lane are marked, by its number; what is of no lane, as those of the first. Empty marks none.
    pub marks: Vec<Mark>,
    /// Whether to use GSO and GRO where the kernel and the device have them.
    pub offload: bool,
    /// Addresses of further groups, by number, which a link joins when it is told to.
    pub groups: Vec<IpAddr>,
    /// The port a unicast link listens on and sends from; `None` is the peer's own. A multicast
    /// link has none.
    pub listen_port: Option<u16>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            ttl: 1,
            receive_buffer_bytes: 8 << 20,
            // More than a cable's queue holds would be dropped there instead of waiting here.
            send_buffer_bytes: 256 << 10,
            loopback: true,
            marks: Vec::new(),
            offload: true,
            groups: Vec::new(),
            listen_port: None,
        }
    }
}
