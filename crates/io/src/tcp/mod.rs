//! TCP links: sockets, with TLS or without, pipes to transports of others, and the thread that moves bytes between them and the
//! engine.
//!
//! What is said on a connection, and what becomes of it, is [`shoal_node::tcp`]'s business. When to connect is decided by
//! whoever holds [`TcpNet`], who hears what became of each connection.

mod net;
mod readiness;
mod sockets;
mod stream;
mod tls;

pub use net::{TcpBell, TcpNet};
pub use sockets::{Congestion, Door, Place};
pub use tls::{Certificates, Tls};
