//! The only sockets, files, clocks and threads.

pub mod interfaces;
pub mod udp;
