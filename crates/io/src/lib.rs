//! The only sockets, files, clocks and threads.

pub mod interfaces;
pub mod raw;
pub mod udp;
