//! A link with a key: its runs are sealed before they are sent, and what comes is opened where it was received.

use std::net::SocketAddr;

use ring::rand::{SecureRandom, SystemRandom};
use shoal_norm::Time;
use shoal_seal::{Keys, OVERHEAD_BYTES, Seal};

use crate::udp::{RUN_BYTES_MAX, RUN_DATAGRAMS_MAX};

/// The most bytes of a run that can be sealed.
pub const PLAIN_RUN_BYTES_MAX: usize = RUN_BYTES_MAX - RUN_DATAGRAMS_MAX * OVERHEAD_BYTES;

/// What a link with a key has.
#[derive(Debug)]
pub struct Sealing {
    pub seal: Seal,
    run: Vec<u8>,
}

impl Sealing {
    /// A run of a member with these keys.
    pub fn new(keys: Keys) -> Sealing {
        let random = SystemRandom::new();
        let draw = move || {
            let mut bytes = [0; 16];
            // Without randomness there is no secrecy: the link's thread ends, and says why.
            random.fill(&mut bytes).expect("the system gives random bytes");
            bytes
        };
        Sealing { seal: Seal::new(keys, draw), run: Vec::with_capacity(RUN_BYTES_MAX) }
    }

    /// A run as it goes out, and how long each of its datagrams is.
    pub fn seal_run(&mut self, bytes: &[u8], datagram_bytes: usize) -> (&[u8], usize) {
        let each = self.seal.seal_run(bytes, datagram_bytes, &mut self.run);
        (&self.run, each)
    }

    /// Opens a datagram where it is.
    pub fn open<'a>(&mut self, now: Time, from: SocketAddr, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        self.seal.open(now.since(Time::ZERO), from, datagram)
    }
}
