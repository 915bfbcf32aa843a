//! Best-effort links: sockets, and the thread that moves datagrams between them and the engine, [`shoal_node::udp`].

mod net;

pub use net::{UdpNet, UdpOpen};
