//! The only sockets, files, clocks and threads.

pub mod bus;
mod clock;
pub mod interfaces;
pub mod norm;
pub mod raw;
pub mod udp;

pub use clock::Clock;
