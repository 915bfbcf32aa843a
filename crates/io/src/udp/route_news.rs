//! Hears from the system that interfaces or their addresses changed: which ones, it has to be asked.
//!
//! Where the system does not tell (other systems than Linux, and sandboxes), links look now and then.

#[cfg(target_os = "linux")]
pub use linux::RouteNews;
#[cfg(not(target_os = "linux"))]
pub use none::RouteNews;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::{self, Read};

    use crate::sys::{self, Borrowed};

    /// News are read in pieces of so many bytes, and thrown away.
    const READ_BYTES: usize = 8 << 10;

    /// One link's ear.
    #[derive(Debug)]
    pub struct RouteNews(File);

    impl RouteNews {
        /// One, if the system lets us hear it.
        pub fn open() -> Option<RouteNews> {
            sys::linux::route_news().ok().map(|descriptor| RouteNews(descriptor.into()))
        }

        /// What to wait for.
        pub fn descriptor(&self) -> Borrowed<'_> {
            sys::borrow(&self.0)
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
}

#[cfg(not(target_os = "linux"))]
mod none {
    use crate::sys::Borrowed;

    /// There is none.
    #[derive(Debug)]
    pub enum RouteNews {}

    impl RouteNews {
        /// None.
        pub fn open() -> Option<RouteNews> {
            None
        }

        /// What to wait for.
        pub fn descriptor(&self) -> Borrowed<'_> {
            match *self {}
        }

        /// Throws away what came.
        pub fn clear(&self) {
            match *self {}
        }
    }
}
