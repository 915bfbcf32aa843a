//! One run of one member: what it sends is sealed, and what it hears is opened, once it believes who says it.
//!
//! On reception of a datagram:
//!
//! | it is                                              | then                                                       |
//! |----------------------------------------------------|------------------------------------------------------------|
//! | not sealed, or of a key we do not have             | refused; told if a second one is of the same sender        |
//! | our own                                            | refused                                                    |
//! | not what its tag says, or a counter taken before   | refused                                                    |
//! | of a run we believe                                | opened                                                     |
//! | of any other run                                   | kept, up to a bound, and the run is challenged             |
//! | a challenge of this run                            | answered                                                   |
//! | the answer to our challenge                        | the run is believed, and what waited is released           |

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use ring::aead::{Aad, LessSafeKey, Nonce};

use crate::keys::{KeyId, Keys};
use crate::peer::Peer;
use crate::witness::{Speaker, Witness};
use crate::{HEADER_BYTES, OVERHEAD_BYTES, TAG_BYTES, is_sealed};

const KIND_DATA: u8 = 0;
const KIND_CHALLENGE: u8 = 1;
const KIND_ANSWER: u8 = 2;

/// Runs of peers that are remembered; the one that was silent longest makes room, of those that are not believed first.
const PEERS_MAX: usize = 2048;
/// What is to be told and nobody asked for.
const NOTICES_MAX: usize = 64;
/// Bytes that are kept of runs that are not believed yet, of all of them together.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// Challenges and answers that wait to be sent.
const OUTGOING_MAX: usize = 1024;

type Salt = [u8; 16];

/// Something to tell once.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Somebody speaks with a key that is none of ours.
    OtherKey {
        /// Who.
        from: SocketAddr,
        /// The name of its key.
        theirs: KeyId,
        /// The name of the key we seal with.
        ours: KeyId,
    },
    /// Somebody speaks without a key.
    NoKey {
        /// Who.
        from: SocketAddr,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::OtherKey { from, theirs, ours } => {
                write!(
                    out,
                    "{from} has another key ({theirs}) than this node ({ours}): neither hears the other"
                )
            }
            Notice::NoKey { from } => {
                write!(out, "{from} has no key, and this node has one: neither hears the other")
            }
        }
    }
}

/// What a run said before it was believed.
pub type Released = (SocketAddr, Vec<u8>);

/// One run of a member.
pub struct Seal {
    keys: Keys,
    salt: Salt,
    counter: u64,
    sealing: LessSafeKey,
    peers: HashMap<(KeyId, Salt), Peer>,
    outgoing: VecDeque<(SocketAddr, Vec<u8>)>,
    released: VecDeque<Released>,
    /// Bytes kept of runs that are not believed yet.
    kept_bytes: usize,
    witness: Witness,
    notices: VecDeque<Notice>,
    random: Box<dyn FnMut() -> [u8; 16] + Send>,
    /// Datagrams that were refused.
    pub refused: u64,
}

impl fmt::Debug for Seal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Seal({:?}, {} peers)", self.keys, self.peers.len())
    }
}

impl Seal {
    /// A run with these keys. `random` gives random bytes that nobody can guess: for its salt, and for challenges.
    pub fn new(keys: Keys, mut random: impl FnMut() -> [u8; 16] + Send + 'static) -> Seal {
        let salt = random();
        Seal {
            sealing: keys.first().sealing(&salt),
            keys,
            salt,
            counter: 0,
            peers: HashMap::new(),
            outgoing: VecDeque::new(),
            released: VecDeque::new(),
            kept_bytes: 0,
            witness: Witness::default(),
            notices: VecDeque::new(),
            random: Box::new(random),
            refused: 0,
        }
    }

    /// Changes the keys. Runs that were believed with a key that is still there stay so.
    pub fn set_keys(&mut self, keys: Keys) {
        self.sealing = keys.first().sealing(&self.salt);
        self.keys = keys;
        let keys = &self.keys;
        self.peers.retain(|(id, _), _| keys.find(*id).is_some());
        self.kept_bytes = self.peers.values().map(Peer::kept_bytes).sum();
    }

    /// Bytes that are kept of runs that are not believed yet.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    // --- sending ---

    /// Seals a run of datagrams into `out`, and says how long each is.
    pub fn seal_run(&mut self, bytes: &[u8], datagram_bytes: usize, out: &mut Vec<u8>) -> usize {
        out.clear();
        for datagram in bytes.chunks(datagram_bytes.max(1)) {
            self.seal(KIND_DATA, datagram, out);
        }
        datagram_bytes + OVERHEAD_BYTES
    }

    fn seal(&mut self, kind: u8, plain: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.push(0xf0 | kind);
        out.extend_from_slice(&self.keys.first().id().0);
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.counter.to_be_bytes());
        out.extend_from_slice(plain);
        let (header, body) = out[start..].split_at_mut(HEADER_BYTES);
        let sealed = self.sealing.seal_in_place_separate_tag(nonce(self.counter), Aad::from(&*header), body);
        // A datagram is far shorter than what the algorithm can seal.
        let tag = sealed.expect("a datagram");
        out.extend_from_slice(tag.as_ref());
        self.counter += 1;
    }

    /// A challenge or an answer that is to be sent.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.outgoing.pop_front()
    }

    fn say(&mut self, to: SocketAddr, kind: u8, plain: &[u8]) {
        if self.outgoing.len() < OUTGOING_MAX {
            let mut out = Vec::with_capacity(OVERHEAD_BYTES + plain.len());
            self.seal(kind, plain, &mut out);
            self.outgoing.push_back((to, out));
        }
    }

    // --- receiving ---

    /// Opens a datagram where it is. `None` if it is not to be read, or not yet. `now` is any clock that does not go back.
    pub fn open<'a>(&mut self, now: Duration, from: SocketAddr, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        let opened = self.open_checked(now, from, datagram);
        self.refused += u64::from(opened.is_err());
        opened.ok().flatten()
    }

    fn open_checked<'a>(
        &mut self,
        now: Duration,
        from: SocketAddr,
        datagram: &'a mut [u8],
    ) -> Result<Option<&'a [u8]>, ()> {
        if !is_sealed(datagram) {
            self.tell_of(from, datagram);
            return Err(());
        }
        let (kind, id) = (datagram[0] & 0x0f, KeyId([datagram[1], datagram[2], datagram[3]]));
        let Some(group_key) = self.keys.find(id) else {
            self.tell_of(from, datagram);
            return Err(());
        };
        let (header, body) = datagram.split_at_mut(HEADER_BYTES);
        let header: [u8; HEADER_BYTES] = (&*header).try_into().map_err(|_| ())?;
        let salt: Salt = header[4..20].try_into().map_err(|_| ())?;
        let counter = u64::from_be_bytes(header[20..].try_into().map_err(|_| ())?);
        if salt == self.salt {
            return Err(());
        }
        let name = (id, salt);
        if let Some(peer) = self.peers.get(&name) {
            peer.key.open_in_place(nonce(counter), Aad::from(&header), body).map_err(|_| ())?;
        } else {
            // Nothing is remembered of a run that has not shown that it has the key.
            let key = group_key.sealing(&salt);
            key.open_in_place(nonce(counter), Aad::from(&header), body).map_err(|_| ())?;
            self.make_room();
            let challenge = (self.random)();
            self.peers.insert(name, Peer::new(key, now, challenge));
        }
        let plain = &body[..body.len() - TAG_BYTES];
        let peer = self.peers.get_mut(&name).ok_or(())?;
        if !peer.replay.take(counter) {
            return Err(());
        }
        peer.heard_at = now;
        match kind {
            KIND_DATA if peer.is_believed() => return Ok(Some(plain)),
            KIND_DATA => {
                if self.kept_bytes + plain.len() <= KEPT_BYTES_MAX && peer.keep(from, plain) {
                    self.kept_bytes += plain.len();
                }
            }
            KIND_CHALLENGE if plain.len() == 32 && plain[..16] == self.salt => {
                let answer = plain[16..].to_vec();
                self.say(from, KIND_ANSWER, &answer);
            }
            KIND_ANSWER => {
                if let Some(waiting) = peer.answer(plain) {
                    self.kept_bytes -= waiting.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                    self.released.extend(waiting);
                }
            }
            _ => return Err(()),
        }
        if let Some(asked) = self.peers.get_mut(&name).and_then(|peer| peer.challenge(now)) {
            self.say(from, KIND_CHALLENGE, &[salt, asked].concat());
        }
        Ok(None)
    }

    /// What was said by a run that is believed now.
    pub fn poll_released(&mut self) -> Option<Released> {
        self.released.pop_front()
    }

    /// Something to tell.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Tells of somebody who cannot be read, once it is sure that there is somebody.
    fn tell_of(&mut self, from: SocketAddr, datagram: &[u8]) {
        let Some(speaker) = self.witness.hear(from, datagram) else { return };
        if self.notices.len() < NOTICES_MAX {
            self.notices.push_back(match speaker {
                Speaker::Sealed(theirs, _) => Notice::OtherKey { from, theirs, ours: self.keys.first().id() },
                Speaker::Plain(_) => Notice::NoKey { from },
            });
        }
    }

    fn make_room(&mut self) {
        if self.peers.len() >= PEERS_MAX {
            let rank = |peer: &Peer| (peer.is_believed(), peer.heard_at);
            let least = self.peers.iter().min_by_key(|(_, peer)| rank(peer)).map(|(name, _)| *name);
            if let Some(gone) = least.and_then(|name| self.peers.remove(&name)) {
                self.kept_bytes -= gone.kept_bytes();
            }
        }
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}
