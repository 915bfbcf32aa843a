//! What takes the place of segmentation offload and batches on systems other than Linux.
//!
//! Compiled in tests on Linux too, so that it cannot rot unseen.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::receive::{Entry, SLOT_BYTES};

/// No offload: the caller sends one datagram after the other.
pub(super) fn send_segmented(_: &UdpSocket, _: &SocketAddr, _: &[u8], _: u16) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether an error says so.
pub(super) fn refuses_to_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// Receives what is there into slots of [`SLOT_BYTES`], without waiting; returns how many entries were filled.
pub(super) fn receive_batch(
    socket: &UdpSocket,
    storage: &mut [u8],
    entries: &mut [Entry],
) -> io::Result<usize> {
    let mut slots = storage.chunks_exact_mut(SLOT_BYTES).zip(entries);
    let mut filled = 0;
    let mut free = slots.next();
    while let Some((slot, entry)) = &mut free {
        match socket.recv_from(slot) {
            Ok((length, from)) => {
                let (segment_bytes, waited) = (length, Duration::ZERO);
                **entry = Entry { from: Some(from), length, segment_bytes, truncated: false, waited };
                filled += 1;
                free = slots.next();
            }
            // Windows tells here that no program listens where an earlier datagram went. That is not about what came.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) if filled > 0 && error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
