//! What was published or passed on a short time ago. Whoever takes up a link says it there again, because it may have been on a way
//! that broke; those who have it leave it, by its numbers.
//!
//! Two halves take turns: when the younger one is full, the older one is emptied and becomes the younger. So nothing is allocated in
//! the steady state, and what is kept is between half of the bound and all of it.

use std::time::Duration;

use shoal_norm::Time;

use super::passing::Chain;
use crate::attributes::Origin;

/// Bytes that are kept in a lane, with what is noted of them; beyond it the oldest are forgotten.
pub(super) const KEPT_BYTES_MAX: usize = 4 << 20;
/// What is older is not said again: longer than it takes to notice that a router is dead.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// A message that is kept.
#[derive(Copy, Clone, Debug)]
pub(super) struct Kept<'a> {
    pub chain: &'a Chain,
    pub number: u64,
    pub timestamp_us: u64,
    /// When it was published, as far as known here.
    pub at: Time,
    pub record: &'a [u8],
    /// It is none: so many from this number on were lost on their way to us.
    pub lost: u64,
}

impl Kept<'_> {
    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        let Chain { publisher, chain, .. } = *self.chain;
        Origin { publisher, chain, number: self.number, timestamp_us: self.timestamp_us, ..Origin::default() }
    }
}

#[derive(Debug)]
struct Noted {
    chain: usize,
    number: u64,
    timestamp_us: u64,
    at: Time,
    end: usize,
    lost: u64,
}

#[derive(Debug, Default)]
struct Half {
    bytes: Vec<u8>,
    notes: Vec<Noted>,
    chains: Vec<Chain>,
}

impl Half {
    fn clear(&mut self) {
        self.bytes.clear();
        self.notes.clear();
        self.chains.clear();
    }

    fn is_full(&self) -> bool {
        self.bytes.len() + self.notes.len() * size_of::<Noted>() >= KEPT_BYTES_MAX / 2
    }

    fn since(&self, oldest: Time) -> impl Iterator<Item = Kept<'_>> {
        let starts = std::iter::once(0).chain(self.notes.iter().map(|noted| noted.end));
        let messages = self.notes.iter().zip(starts).filter(move |(noted, _)| noted.at >= oldest);
        messages.map(|(noted, start)| Kept {
            chain: &self.chains[noted.chain],
            number: noted.number,
            timestamp_us: noted.timestamp_us,
            at: noted.at,
            record: &self.bytes[start..noted.end],
            lost: noted.lost,
        })
    }
}

/// What is kept of a lane.
#[derive(Debug, Default)]
pub(super) struct Keep {
    older: Half,
    younger: Half,
}

impl Keep {
    /// Keeps a message, which is given in parts.
    pub fn add(&mut self, now: Time, chain: &Chain, numbered: (u64, u64), parts: &[&[u8]]) {
        self.note(now, chain, numbered, 0, parts);
    }

    /// Notes that messages of a chain that is passed on were lost on their way to us: whoever is told the others again would not know.
    pub fn lose(&mut self, now: Time, chain: &Chain, (first, last): (u64, u64)) {
        self.note(now, chain, (first, 0), last - first + 1, &[]);
    }

    fn note(
        &mut self,
        now: Time,
        chain: &Chain,
        (number, timestamp_us): (u64, u64),
        lost: u64,
        parts: &[&[u8]],
    ) {
        if self.younger.is_full() {
            std::mem::swap(&mut self.older, &mut self.younger);
            self.younger.clear();
        }
        let Half { bytes, notes, chains } = &mut self.younger;
        if bytes.capacity() == 0 {
            // Memory that is not written to costs nothing; a buffer that grows would have twice as much as it needs.
            bytes.reserve_exact(KEPT_BYTES_MAX / 2);
        }
        if chains.last().is_none_or(|last| (last.key(), last.hops) != (chain.key(), chain.hops)) {
            chains.push(*chain);
        }
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let at = chain.again.unwrap_or(now);
        notes.push(Noted { chain: chains.len() - 1, number, timestamp_us, at, end: bytes.len(), lost });
    }

    /// What is worth to be said again, the oldest first.
    pub fn recent(&self, now: Time) -> impl Iterator<Item = Kept<'_>> {
        let oldest = Time::from_nanos(now.as_nanos().saturating_sub(KEPT_FOR.as_nanos() as u64));
        self.older.since(oldest).chain(self.younger.since(oldest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: Chain = Chain { publisher: 7, chain: 2, hops: 1, clock: None, again: None };

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_recent_comes_back_in_order_with_its_chain() {
        let mut keep = Keep::default();
        let other = Chain { publisher: 8, ..CHAIN };
        keep.add(at(1), &CHAIN, (1, 10), &[b"old"]);
        for (number, chain) in [(2, &CHAIN), (9, &other), (3, &CHAIN)] {
            keep.add(at(100), chain, (number, 20), &[b"re", b"cent"]);
        }
        let found: Vec<_> = keep.recent(at(101)).map(|kept| (kept.chain.publisher, kept.number)).collect();
        assert_eq!(found, [(7, 2), (8, 9), (7, 3)]);
        assert!(keep.recent(at(101)).all(|kept| kept.record == b"recent" && kept.timestamp_us == 20));
    }

    #[test]
    fn what_was_lost_is_remembered_among_what_came() {
        let mut keep = Keep::default();
        keep.add(at(1), &CHAIN, (1, 10), &[b"one"]);
        keep.lose(at(1), &CHAIN, (2, 4));
        keep.add(at(1), &CHAIN, (5, 10), &[b"five"]);
        let found: Vec<_> =
            keep.recent(at(2)).map(|kept| (kept.number, kept.lost, kept.record.len())).collect();
        assert_eq!(found, [(1, 0, 3), (2, 3, 0), (5, 0, 4)]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_youngest_stays() {
        let mut keep = Keep::default();
        for number in 1..100_000 {
            keep.add(at(1), &CHAIN, (number, 0), &[&[0; 1000]]);
            let bytes = keep.older.bytes.len() + keep.younger.bytes.len();
            assert!(bytes <= KEPT_BYTES_MAX + 1000);
        }
        let numbers: Vec<u64> = keep.recent(at(1)).map(|kept| kept.number).collect();
        assert!(numbers.len() > KEPT_BYTES_MAX / 2 / 1100);
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        assert_eq!(numbers.last(), Some(&99_999));
    }
}
