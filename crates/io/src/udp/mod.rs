//! UDP sockets of a link: multicast or unicast, with segmentation offload (GSO) and its reverse (GRO) where there is.
//!
//! What decides speed is the number of system calls, so a call moves a *run*: up to 64 datagrams of equal size, one
//! after the other in memory, of which only the last may be shorter. Nothing here allocates once the sockets are open.

mod address;
mod open;
#[cfg(target_os = "linux")]
mod own_filter;
#[cfg(any(not(target_os = "linux"), test))]
mod plain;
mod receive;
mod route_news;
mod sockets;
pub(crate) mod sys;
mod waker;
mod watch;

#[cfg(not(target_os = "linux"))]
use plain::{receive_batch, send_segmented, wake_channel};
#[cfg(target_os = "linux")]
use sys::linux::{receive_batch, send_segmented, wake_channel};

pub use address::{LinkAddress, SocketOptions};
pub use receive::{ReceiveBuffers, Run, RunMut};
pub use sockets::{RUN_BYTES_MAX, RUN_DATAGRAMS_MAX, Ready, Sockets, Which};
pub use waker::Waker;
pub use watch::{Sight, Watch};

#[cfg(test)]
mod tests;
