//! What takes the place of segmentation offload, batches and eventfd on systems other than Linux.
//!
//! Compiled in tests on Linux too, so that it cannot rot unseen.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::receive::{Entry, SLOT_BYTES};

/// The two ends of what wakes a waiting thread.
pub(super) fn wake_channel() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    writer.set_nonblocking(true)?;
    Ok((reader.into(), Some(writer.into())))
}

/// No offload: the caller sends one datagram after the other.
pub(super) fn send_segmented(_: &UdpSocket, _: &SocketAddr, _: &[u8], _: u16) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Receives what is there into slots of [`SLOT_BYTES`], without waiting; returns how many entries were filled.
pub(super) fn receive_batch(
    socket: &UdpSocket,
    storage: &mut [u8],
    entries: &mut [Entry],
) -> io::Result<usize> {
    let mut filled = 0;
    for (slot, entry) in storage.chunks_exact_mut(SLOT_BYTES).zip(entries) {
        match socket.recv_from(slot) {
            Ok((length, from)) => {
                *entry = Entry {
                    from: Some(from),
                    length,
                    segment_bytes: length,
                    truncated: false,
                    waited: Duration::ZERO,
                };
                filled += 1;
            }
            Err(error) if filled > 0 && error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
