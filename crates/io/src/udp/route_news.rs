//! Hears from the system that interfaces or their addresses changed: which ones, it has to be asked.
//!
//! Where the system does not tell (other systems than Linux, and sandboxes), links look now and then.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// News are read in pieces of so many bytes, and thrown away.
const READ_BYTES: usize = 8 << 10;

/// One link's ear.
#[derive(Debug)]
pub struct RouteNews(File);

impl RouteNews {
    /// One, if the system has such.
    pub fn open() -> Option<RouteNews> {
        #[cfg(target_os = "linux")]
        return super::sys::linux::route_news().ok().map(|descriptor| RouteNews(descriptor.into()));
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// What to wait for.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Throws away what came.
    pub fn clear(&self) {
        let mut buffer = [0; READ_BYTES];
        loop {
            match (&self.0).read(&mut buffer) {
                Ok(1..) => {}
                // More came than it keeps.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}
