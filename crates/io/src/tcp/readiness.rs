//! Which sockets became ready: `epoll` or `kqueue`, through `mio`.
//!
//! A socket is told once when it becomes ready, and not again until it was read or written until it had no more. So whoever stops
//! before that remembers it.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};

use crate::udp::sys;

/// Sockets that are told of at once.
const EVENTS_MAX: usize = 256;
/// The system counts shorter waits in milliseconds.
const TICK: Duration = Duration::from_millis(1);

/// What a socket is ready for.
#[derive(Copy, Clone, Debug)]
pub(super) struct Ready {
    pub id: u64,
    pub readable: bool,
    pub writable: bool,
    /// Nothing follows what can be read.
    pub closed: bool,
}

/// Waits for sockets. One thread has it.
pub(super) struct Readiness {
    poll: Poll,
    events: Events,
}

impl Readiness {
    pub fn new() -> io::Result<Readiness> {
        Ok(Readiness { poll: Poll::new()?, events: Events::with_capacity(EVENTS_MAX) })
    }

    /// Says which sockets are waited for.
    pub fn watch(&self) -> io::Result<Watch> {
        Ok(Watch(self.poll.registry().try_clone()?))
    }

    /// Waits until a socket is ready or the time is over.
    pub fn wait(&mut self, mut timeout: Duration) -> io::Result<()> {
        if !timeout.is_zero() && timeout < TICK {
            sys::wait_readable(self.poll.as_raw_fd(), timeout)?;
            timeout = Duration::ZERO;
        }
        match self.poll.poll(&mut self.events, Some(timeout)) {
            // A signal is no reason to fail: the caller looks at the clock and waits again.
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// What the last wait found.
    pub fn ready(&self) -> impl Iterator<Item = Ready> {
        self.events.iter().map(|event| {
            let closed = event.is_read_closed() || event.is_error();
            Ready {
                id: event.token().0 as u64,
                readable: event.is_readable() || closed,
                writable: event.is_writable() || event.is_write_closed() || event.is_error(),
                closed,
            }
        })
    }
}

/// Adds sockets to those that are waited for. One that is closed is no longer among them.
pub(super) struct Watch(Registry);

impl Watch {
    /// Waits for something to read, or for room to write, or both.
    pub fn add(&self, socket: &impl AsFd, id: u64, read: bool, write: bool) -> io::Result<()> {
        self.0.register(&mut SourceFd(&socket.as_fd().as_raw_fd()), token(id), interest(read, write))
    }

    /// Waits for something else of a socket that was added. What is ready now is told once more.
    pub fn change(&self, socket: &impl AsFd, id: u64, read: bool, write: bool) -> io::Result<()> {
        self.0.reregister(&mut SourceFd(&socket.as_fd().as_raw_fd()), token(id), interest(read, write))
    }
}

fn token(id: u64) -> Token {
    Token(id as usize)
}

fn interest(read: bool, write: bool) -> Interest {
    match (read, write) {
        (true, true) => Interest::READABLE | Interest::WRITABLE,
        (false, true) => Interest::WRITABLE,
        (_, false) => Interest::READABLE,
    }
}
