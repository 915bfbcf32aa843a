//! Memory to receive into, and the datagrams found there.

use std::net::SocketAddr;
use std::time::Duration;

/// The largest UDP datagram, and so the largest run that the kernel hands over at once.
pub(crate) const SLOT_BYTES: usize = 65_535;
/// How many runs one call can receive.
pub(crate) const BATCH_MAX: usize = 16;

/// Where one run of datagrams lies, and who sent it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub from: Option<SocketAddr>,
    pub length: usize,
    pub segment_bytes: usize,
    pub truncated: bool,
    pub waited: Duration,
}

/// Memory for one call of [`Sockets::receive`](super::Sockets::receive), used again and again.
#[derive(Debug, Default)]
pub struct ReceiveBuffers {
    pub(super) storage: Box<[u8]>,
    pub(super) entries: Box<[Entry]>,
    pub(super) filled: usize,
}

/// Datagrams that one sender sent in one go: all of `segment_bytes`, only the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The datagrams, one after the other.
    pub bytes: &'a [u8],
    /// The size of each.
    pub segment_bytes: usize,
    /// How long the first of them lay in the socket, if the system says so.
    pub waited: Duration,
}

/// The same, to be changed where it is.
#[derive(Debug)]
pub struct RunMut<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The datagrams, one after the other.
    pub bytes: &'a mut [u8],
    /// The size of each.
    pub segment_bytes: usize,
    /// How long the first of them lay in the socket, if the system says so.
    pub waited: Duration,
}

impl<'a> Run<'a> {
    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        // An empty datagram is a datagram too, and `chunks` gives none for it.
        let empty = self.bytes.is_empty().then_some(self.bytes);
        empty.into_iter().chain(self.bytes.chunks(self.segment_bytes.max(1)))
    }
}

impl ReceiveBuffers {
    /// Room for up to `runs` runs (at most 16) of 64 KiB each.
    pub fn new(runs: usize) -> Self {
        let runs = runs.clamp(1, BATCH_MAX);
        Self {
            storage: vec![0; runs * SLOT_BYTES].into(),
            entries: vec![Entry::default(); runs].into(),
            filled: 0,
        }
    }

    /// What the last call of `receive` brought, in order of arrival, to be changed where it is.
    pub fn runs_mut(&mut self) -> impl Iterator<Item = RunMut<'_>> {
        let slots = self.storage.chunks_exact_mut(SLOT_BYTES).zip(&self.entries[..self.filled]);
        slots.filter_map(|(slot, entry)| {
            let from = entry.from.filter(|_| !entry.truncated)?;
            let Entry { length, segment_bytes, waited, .. } = *entry;
            Some(RunMut { from, bytes: &mut slot[..length], segment_bytes, waited })
        })
    }

    /// What the last call of `receive` brought, in order of arrival.
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        self.storage.chunks_exact(SLOT_BYTES).zip(&self.entries[..self.filled]).filter_map(|(slot, entry)| {
            // A truncated datagram cannot happen with slots of this size; if it does, it is a lost one.
            let from = entry.from.filter(|_| !entry.truncated)?;
            let Entry { length, segment_bytes, waited, .. } = *entry;
            Some(Run { from, bytes: &slot[..length], segment_bytes, waited })
        })
    }
}
