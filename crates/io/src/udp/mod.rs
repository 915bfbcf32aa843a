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
pub(crate) mod receive;
mod route_news;
mod sockets;
mod waker;
mod watch;

#[cfg(target_os = "linux")]
use crate::sys::linux::{receive_batch, refuses_to_cut, send_segmented, wake_channel};
#[cfg(not(target_os = "linux"))]
use {
    crate::sys::wake_channel,
    plain::{receive_batch, refuses_to_cut, send_segmented},
};

pub use address::{LinkAddress, Mark, SocketOptions};
pub use receive::{ReceiveBuffers, Run, RunMut};
pub use sockets::{RUN_BYTES_MAX, RUN_DATAGRAMS_MAX, Ready, Sockets, Which};
pub use waker::Waker;
pub use watch::{Sight, Watch};

#[cfg(test)]
mod tests;
