//! Datagrams that only members of a group can write and read.
//!
//! A [`Seal`] is one run of one member. It owns no socket, clock or random source. Every datagram is sealed with
//! AES-256-GCM after it was cut, so that datagrams that were equally long still are:
//!
//! ```text
//!  0xF0 | kind   key id   salt       counter   sealed bytes   tag
//!  1 byte        3        16         8         …              16
//! ```
//!
//! *Keys.* A group key is 256 random bits. What seals is derived from it with HKDF-SHA-256 and a random salt that each
//! run draws and every datagram carries; the counter is the nonce. So no key seals two datagrams with the same nonce,
//! whatever restarts. The key id is derived, too: it says which of several keys was used, and nothing about it.
//!
//! *Replay.* Each run of a peer has a window of counters: none is taken twice. A run that was never heard before may
//! be a recording. It is believed after it answered a fresh challenge; until then what it says waits, up to a bound.

#![forbid(unsafe_code)]

mod keys;
mod peer;
mod replay;
mod seal;
mod witness;

pub use keys::{GroupKey, KeyError, KeyId, Keys};
pub use seal::{Notice, Released, Seal};
pub use witness::{Speaker, Witness};

/// Kinds of sealed datagrams.
const KINDS: u8 = 3;
/// Bytes before what is sealed.
pub const HEADER_BYTES: usize = 28;
/// Bytes behind it.
pub const TAG_BYTES: usize = 16;
/// So much longer is a datagram that is sealed.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// Whether a datagram has the form of one that is sealed. None of NORM has.
pub fn is_sealed(datagram: &[u8]) -> bool {
    datagram.len() >= OVERHEAD_BYTES && (0xf0..0xf0 + KINDS).contains(&datagram[0])
}
