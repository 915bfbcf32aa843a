//! What carries a connection's bytes: a socket, a socket with TLS, or somebody else through a pipe.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::tls::Secure;
use crate::sys;

/// The end of a pipe inside this process, as it is waited for.
#[cfg(unix)]
pub(super) type Pipe = mio::net::UnixStream;
#[cfg(windows)]
pub(super) type Pipe = TcpStream;

/// `epoll` and `kqueue` tell of what comes after a reading that left nothing behind (epoll(7)). On Windows a socket is told of again only
/// after a reading that found nothing.
const LESS_IS_ALL: bool = cfg!(unix);

/// Bytes in order, both ways. Nothing here waits.
pub(super) enum Stream {
    Plain(TcpStream),
    Secure(Box<Secure>),
    /// The other end of the pipe is held by a transport that is not ours.
    Pipe(Pipe),
}

impl Stream {
    /// What comes through a pipe.
    pub fn piped(pipe: sys::Pipe) -> io::Result<Stream> {
        pipe.set_nonblocking(true)?;
        Ok(Stream::Pipe(Pipe::from_std(pipe)))
    }

    /// What came, and whether there may be more; nothing is the end. What is encrypted is read into `encrypted` first.
    pub fn read(&mut self, buffer: &mut [u8], encrypted: &mut [u8]) -> io::Result<(usize, bool)> {
        let count = match self {
            // What TLS gives says nothing about its socket.
            Stream::Secure(stream) => return Ok((stream.read(buffer, encrypted)?, true)),
            Stream::Plain(stream) => stream.read(buffer)?,
            Stream::Pipe(stream) => stream.read(buffer)?,
        };
        Ok((count, count == buffer.len() || !LESS_IS_ALL))
    }

    /// Takes some: how many bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Secure(stream) => stream.write(bytes),
            Stream::Pipe(stream) => stream.write(bytes),
        }
    }

    /// Sends what it took before and could not send.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Secure(stream) => stream.flush(),
            Stream::Plain(_) | Stream::Pipe(_) => Ok(()),
        }
    }

    /// Whether there is something that it took and could not send.
    pub fn is_clogged(&self) -> bool {
        matches!(self, Stream::Secure(stream) if stream.is_clogged())
    }

    /// What it means that nothing more comes.
    pub fn end(&self) -> &'static str {
        match self {
            Stream::Secure(stream) if stream.is_shaking_hands() => {
                "the other end closed the connection before TLS began: use tls:// at both ends"
            }
            _ => "the other end closed the connection",
        }
    }

    /// Nothing more will be written.
    pub fn shut(&mut self) {
        let _ = match self {
            Stream::Plain(stream) => stream.shutdown(Shutdown::Write),
            Stream::Secure(stream) => {
                stream.shut();
                Ok(())
            }
            Stream::Pipe(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    /// The name that the other end proved, if it did.
    pub fn identity(&self) -> Option<String> {
        match self {
            Stream::Secure(stream) => stream.identity(),
            Stream::Plain(_) | Stream::Pipe(_) => None,
        }
    }
}

impl Stream {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Secure(stream) => stream.socket(),
            Stream::Pipe(stream) => stream,
        }
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.source().register(registry, token, interest)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}
