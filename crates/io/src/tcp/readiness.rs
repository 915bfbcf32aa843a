//! Which sockets became ready: `epoll`, `kqueue` or Windows' completion ports, through `mio`.
//!
//! A socket is told once when it becomes ready, and not again until it was read or written until it had no more. So whoever stops
//! before that remembers it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::event::Source;
use mio::{Events, Interest, Poll, Registry, Token};

/// Sockets that are told of at once.
const EVENTS_MAX: usize = 256;
/// What the waker is called among sockets, whose numbers begin with 1.
pub(super) const WAKER: u64 = 0;
/// `epoll` counts waits in milliseconds.
#[cfg(target_os = "linux")]
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

    /// Ends a wait from any thread.
    pub fn waker(&self) -> io::Result<Waker> {
        let waker = mio::Waker::new(self.poll.registry(), token(WAKER))?;
        Ok(Waker { waker, pending: AtomicBool::new(false) })
    }

    /// Waits until a socket is ready or the time is over.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        let timeout = if !timeout.is_zero() && timeout < TICK {
            crate::sys::linux::wait_readable(std::os::fd::AsRawFd::as_raw_fd(&self.poll), timeout)?;
            Duration::ZERO
        } else {
            timeout
        };
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

/// Ends waits.
///
/// Wake-ups that come before the waiting thread has seen the last one cost one atomic operation and no system call.
#[derive(Debug)]
pub(super) struct Waker {
    waker: mio::Waker,
    pending: AtomicBool,
}

impl Waker {
    /// Ends the wait, or the next one.
    pub fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            // Should it fail, the thread wakes by itself a little later.
            let _ = self.waker.wake();
        }
    }

    /// The waiting thread saw it. What was done before a `wake` that this swallows is visible afterwards.
    pub fn clear(&self) {
        self.pending.swap(false, Ordering::AcqRel);
    }
}

/// Adds sockets to those that are waited for. One that is closed is no longer among them.
pub(super) struct Watch(Registry);

impl Watch {
    /// Waits for something to read, or for room to write, or both.
    pub fn add(&self, socket: &mut impl Source, id: u64, read: bool, write: bool) -> io::Result<()> {
        self.0.register(socket, token(id), interest(read, write))
    }

    /// Waits for something else of a socket that was added. What is ready now is told once more.
    pub fn change(&self, socket: &mut impl Source, id: u64, read: bool, write: bool) -> io::Result<()> {
        self.0.reregister(socket, token(id), interest(read, write))
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
