//! The only sockets, files, clocks and threads.

pub mod bell;
pub mod bus;
mod clock;
pub mod datagram;
pub mod files;
pub mod interfaces;
pub mod norm;
pub mod store;
mod sys;
pub mod tcp;
mod thread_time;
pub mod udp;
mod waiter;

pub use clock::Clock;
pub use sys::{Descriptor, Pipe, into_descriptor};
pub use waiter::Waiter;
