//! What carries a connection's bytes: a socket, a socket with TLS, or somebody else through a pipe.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::tls::Secure;

/// Bytes in order, both ways. Nothing here waits.
pub(super) enum Stream {
    Plain(TcpStream),
    Secure(Box<Secure>),
    /// The other end of the pipe is held by a transport that is not ours.
    Pipe(UnixStream),
}

impl Stream {
    /// What came, and whether there may be more; nothing is the end. What is encrypted is read into `encrypted` first.
    pub fn read(&mut self, buffer: &mut [u8], encrypted: &mut [u8]) -> io::Result<(usize, bool)> {
        let count = match self {
            // A socket that gives less than there is room for has no more (epoll(7)). What TLS gives says nothing about its socket.
            Stream::Secure(stream) => return Ok((stream.read(buffer, encrypted)?, true)),
            Stream::Plain(stream) => stream.read(buffer)?,
            Stream::Pipe(stream) => stream.read(buffer)?,
        };
        Ok((count, count == buffer.len()))
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

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Plain(stream) => stream.as_fd(),
            Stream::Secure(stream) => stream.socket().as_fd(),
            Stream::Pipe(stream) => stream.as_fd(),
        }
    }
}
