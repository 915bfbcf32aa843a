//! Who it is that cannot be read: somebody with another key, somebody without one, or nobody.
//!
//! Noise says nothing. Two datagrams of one address that agree on who sends them do.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::keys::KeyId;
use crate::{HEADER_BYTES, is_sealed};

/// Addresses that are remembered, and those that were told of.
const ADDRESSES_MAX: usize = 64;
/// What NORM begins with: version 1 and one of its types, the header's length in words, and later the node.
const NORM_TYPES: std::ops::RangeInclusive<u8> = 0x11..=0x16;
const NORM_BYTES_MIN: usize = 8;

/// Who a datagram says that it is from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// A run that has a key of this name.
    Sealed(KeyId, [u8; 16]),
    /// A node that has none.
    Plain([u8; 4]),
}

impl Speaker {
    /// As far as a datagram has the form of anything.
    pub fn of(datagram: &[u8]) -> Option<Speaker> {
        if is_sealed(datagram) {
            let header = datagram.first_chunk::<HEADER_BYTES>()?;
            let salt = header[4..20].try_into().ok()?;
            return Some(Speaker::Sealed(KeyId([header[1], header[2], header[3]]), salt));
        }
        let header: &[u8; NORM_BYTES_MIN] = datagram.first_chunk()?;
        let length = usize::from(header[1]) * 4;
        let is_norm = NORM_TYPES.contains(&header[0]) && (NORM_BYTES_MIN..=datagram.len()).contains(&length);
        is_norm.then_some(Speaker::Plain([header[4], header[5], header[6], header[7]]))
    }
}

/// What was heard of addresses that cannot be read.
#[derive(Debug, Default)]
pub struct Witness {
    heard: VecDeque<(SocketAddr, Speaker)>,
    told: VecDeque<SocketAddr>,
}

impl Witness {
    /// Takes note of a datagram that cannot be read. Tells who sends such ones, once for each address, when a second one
    /// says the same as the one before it.
    pub fn hear(&mut self, from: SocketAddr, datagram: &[u8]) -> Option<Speaker> {
        let speaker = Speaker::of(datagram)?;
        if self.told.contains(&from) {
            return None;
        }
        let before = self.heard.iter().position(|(known, _)| *known == from);
        let before = before.and_then(|at| self.heard.remove(at));
        if before != Some((from, speaker)) {
            remember(&mut self.heard, (from, speaker));
            return None;
        }
        remember(&mut self.told, from);
        Some(speaker)
    }
}

fn remember<T>(list: &mut VecDeque<T>, new: T) {
    if list.len() >= ADDRESSES_MAX {
        list.pop_front();
    }
    list.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn noise_is_nobody_and_whoever_says_twice_who_he_is_is_told_of_once() {
        let mut witness = Witness::default();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200_000 {
            let length = random.usize(..200);
            let noise: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            assert_eq!(witness.hear(address(random.u16(..3)), &noise), None);
        }
        let sealed = [0xf0; 80];
        let norm = [0x13, 4, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0];
        for (port, datagram) in [(1, &sealed[..]), (2, &norm)] {
            let told: Vec<_> = (0..5).map(|_| witness.hear(address(port), datagram)).collect();
            assert_eq!(told.iter().flatten().count(), 1, "{told:?}");
        }
        assert_eq!(Speaker::of(&norm), Some(Speaker::Plain([0, 0, 0, 9])));
        assert_eq!(Speaker::of(&norm[..12]), None, "it is shorter than it says");
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut witness = Witness::default();
        for port in 0..1_000 {
            witness.hear(address(port), &[0xf0; 80]);
            witness.hear(address(port), &[0xf0; 80]);
            witness.hear(address(port + 10_000), &[0xf1; 80]);
        }
        assert!(witness.heard.len() <= ADDRESSES_MAX && witness.told.len() <= ADDRESSES_MAX);
    }
}
