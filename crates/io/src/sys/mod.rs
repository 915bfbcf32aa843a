//! What operating systems do differently, and the system calls that no safe crate offers without an allocation per call: the only
//! `unsafe` of this crate.
//!
//! `unix` and `windows` have the same names, and the rest of the crate asks for those alone. `linux` has what is faster there;
//! [`crate::udp`] chooses. Each function builds what the kernel reads on its own stack, from slices and sockets it borrows for the
//! length of the call, so that no pointer outlives it. Nothing here decides anything.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
pub(crate) mod linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::net::IpAddr;

#[cfg(target_os = "linux")]
pub(crate) use linux::{ThreadClock, allocate, thread_clock};
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(unix)]
pub use unix::{Descriptor, Pipe, into_descriptor};
#[cfg(windows)]
pub(crate) use windows::*;
#[cfg(windows)]
pub use windows::{Descriptor, Pipe, into_descriptor};

/// What the system says about one address of one interface.
pub(crate) struct RawInterface {
    pub name: String,
    pub index: u32,
    pub address: Option<IpAddr>,
    pub up: bool,
    pub running: bool,
    pub multicast: bool,
    pub loopback: bool,
}

/// The processor time of a thread, which this system is not asked for.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct ThreadClock(std::convert::Infallible);

#[cfg(not(target_os = "linux"))]
impl ThreadClock {
    pub(crate) fn read_ns(&self) -> Option<u64> {
        match self.0 {}
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_clock() -> Option<ThreadClock> {
    None
}

/// Makes a file so long. Here the system promises no room: a full disk shows when the file is written.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allocate(file: &std::fs::File, bytes: u64) -> std::io::Result<()> {
    if file.metadata()?.len() < bytes { file.set_len(bytes) } else { Ok(()) }
}
