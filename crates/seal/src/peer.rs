//! One run of another member, from the first that was heard of it.

use std::net::SocketAddr;
use std::time::Duration;

use ring::aead::LessSafeKey;

use crate::replay::ReplayWindow;

/// What a run that is not believed yet says is kept, so many datagrams of it.
const WAITING_MAX: usize = 64;
/// A challenge that was not answered is repeated after so long, and each time after twice as long.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);
const DOUBLINGS_MAX: u32 = 8;

/// A run of a peer.
#[derive(Debug)]
pub struct Peer {
    pub key: LessSafeKey,
    pub replay: ReplayWindow,
    pub heard_at: Duration,
    standing: Standing,
}

#[derive(Debug)]
enum Standing {
    Believed,
    Challenged { nonce: [u8; 16], times: u32, again_at: Duration, waiting: Vec<(SocketAddr, Vec<u8>)> },
}

impl Peer {
    pub fn new(key: LessSafeKey, now: Duration, nonce: [u8; 16]) -> Peer {
        let standing = Standing::Challenged { nonce, times: 0, again_at: now, waiting: Vec::new() };
        Peer { key, replay: ReplayWindow::new(), heard_at: now, standing }
    }

    pub fn is_believed(&self) -> bool {
        matches!(self.standing, Standing::Believed)
    }

    /// Bytes that are kept of what it said.
    pub fn kept_bytes(&self) -> usize {
        match &self.standing {
            Standing::Believed => 0,
            Standing::Challenged { waiting, .. } => waiting.iter().map(|(_, bytes)| bytes.len()).sum(),
        }
    }

    /// The challenge, if it is to be sent now.
    pub fn challenge(&mut self, now: Duration) -> Option<[u8; 16]> {
        let Standing::Challenged { nonce, times, again_at, .. } = &mut self.standing else { return None };
        if *again_at > now {
            return None;
        }
        *again_at = now + ASK_AGAIN_AFTER * (1 << (*times).min(DOUBLINGS_MAX));
        *times += 1;
        Some(*nonce)
    }

    /// Keeps what it says until it is believed. False if as much waits already.
    pub fn keep(&mut self, from: SocketAddr, plain: &[u8]) -> bool {
        let Standing::Challenged { waiting, .. } = &mut self.standing else { return false };
        let fits = waiting.len() < WAITING_MAX;
        if fits {
            waiting.push((from, plain.to_vec()));
        }
        fits
    }

    /// It answered. If that is the answer to our challenge: what waited.
    pub fn answer(&mut self, nonce: &[u8]) -> Option<Vec<(SocketAddr, Vec<u8>)>> {
        match &mut self.standing {
            Standing::Challenged { nonce: asked, waiting, .. } if asked[..] == *nonce => {
                let waiting = std::mem::take(waiting);
                self.standing = Standing::Believed;
                Some(waiting)
            }
            _ => None,
        }
    }
}
