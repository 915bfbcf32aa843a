//! The replay ring of a lane: what was published or forwarded a short time ago. Requests are answered from it.
//!
//! Two halves take turns: when the younger one is full, the older one is emptied and becomes the younger. So nothing is allocated in
//! the steady state, and what is kept is between half of the bound and all of it.

use std::collections::BTreeMap;

use shoal_norm::Time;

use super::accept::Key;
use super::passing::Chain;
use crate::attributes::Origin;

/// Bytes that are kept in a lane, with what is noted of them; beyond it the oldest are forgotten.
pub(super) const KEPT_BYTES_MAX: usize = 4 << 20;
/// Chains of which it is known what was forgotten; of others it is taken that something was.
const FORGOTTEN_MAX: usize = 16_384;

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

/// What of a chain was kept, and is not any more: its first and last number, and when these came.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Forgotten {
    pub first: u64,
    pub first_at: Time,
    pub last: u64,
    pub last_at: Time,
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

    fn all(&self) -> impl Iterator<Item = Kept<'_>> {
        let starts = std::iter::once(0).chain(self.notes.iter().map(|noted| noted.end));
        self.notes.iter().zip(starts).map(|(noted, start)| Kept {
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
    forgotten: BTreeMap<Key, Forgotten>,
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
            self.forget();
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

    /// The younger half is emptied.
    fn forget(&mut self) {
        let Half { notes, chains, .. } = &self.younger;
        for noted in notes {
            let (first, last) = (noted.number, noted.number + noted.lost.max(1) - 1);
            let new = Forgotten { first, first_at: noted.at, last, last_at: noted.at };
            let known = self.forgotten.entry(chains[noted.chain].key()).or_insert(new);
            if first < known.first {
                (known.first, known.first_at) = (first, noted.at);
            }
            if (last, noted.at) > (known.last, known.last_at) {
                (known.last, known.last_at) = (last, noted.at);
            }
        }
        while self.forgotten.len() > FORGOTTEN_MAX {
            let oldest = self.forgotten.iter().min_by_key(|(_, known)| known.last_at).map(|(&key, _)| key);
            oldest.map(|key| self.forgotten.remove(&key));
        }
        self.younger.clear();
    }

    /// What of a chain was kept and forgotten.
    pub fn forgotten(&self, key: Key) -> Option<Forgotten> {
        self.forgotten.get(&key).copied()
    }

    /// The first number of a chain that may be younger than `since`; none if all that was ever kept is younger. Of what was forgotten
    /// only the first and the last one's times are known: what is between them may be younger.
    pub fn first_since(&self, key: Key, since: Time) -> Option<u64> {
        match self.forgotten(key) {
            Some(Forgotten { first, first_at, .. }) if first_at >= since => return Some(first),
            Some(Forgotten { last, last_at, .. }) if last_at >= since => return Some(last),
            _ => {}
        }
        let all = self.older.all().chain(self.younger.all());
        let older = all.filter(|kept| kept.chain.key() == key && kept.at < since);
        let older = older.map(|kept| kept.number + kept.lost.max(1)).max();
        older.max(self.forgotten(key).map(|forgotten| forgotten.last + 1))
    }

    /// What is kept of a chain from this number on, in the order of its numbers, each once.
    pub fn of(&self, key: Key, number: u64) -> Vec<Kept<'_>> {
        let all = self.older.all().chain(self.younger.all());
        let mut found: Vec<Kept<'_>> =
            all.filter(|kept| kept.chain.key() == key && kept.number + kept.lost.max(1) > number).collect();
        // A message that came after all counts more than that it was lost.
        found.sort_by_key(|kept| (kept.number, kept.lost));
        found.dedup_by_key(|kept| kept.number);
        found
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CHAIN: Chain = Chain { publisher: 7, chain: 2, hops: 1, clock: None, again: None };

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_chain_comes_back_from_a_number_on_in_order_and_each_once() {
        let mut keep = Keep::default();
        let other = Chain { publisher: 8, ..CHAIN };
        for (number, chain) in [(1, &CHAIN), (2, &CHAIN), (9, &other), (4, &CHAIN), (3, &CHAIN), (2, &CHAIN)]
        {
            keep.add(at(number), chain, (number, 20), &[b"re", b"cent"]);
        }
        let found = keep.of((7, 2), 2);
        assert_eq!(found.iter().map(|kept| kept.number).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(found.iter().all(|kept| kept.record == b"recent" && kept.timestamp_us == 20));
        assert_eq!(keep.first_since((7, 2), at(3)), Some(3), "1 and 2 are older");
        assert_eq!(keep.first_since((8, 2), at(3)), None);
    }

    #[test]
    fn what_was_lost_is_remembered_among_what_came() {
        let mut keep = Keep::default();
        keep.add(at(1), &CHAIN, (1, 10), &[b"one"]);
        keep.lose(at(1), &CHAIN, (2, 4));
        keep.add(at(1), &CHAIN, (5, 10), &[b"five"]);
        let found: Vec<_> =
            keep.of((7, 2), 3).iter().map(|kept| (kept.number, kept.lost, kept.record.len())).collect();
        assert_eq!(found, [(2, 3, 0), (5, 0, 4)]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_youngest_stays() {
        let mut keep = Keep::default();
        for number in 1..100_000 {
            keep.add(at(1), &CHAIN, (number, 0), &[&[0; 1000]]);
            let bytes = keep.older.bytes.len() + keep.younger.bytes.len();
            assert!(bytes <= KEPT_BYTES_MAX + 1000);
        }
        let numbers: Vec<u64> = keep.of((7, 2), 0).iter().map(|kept| kept.number).collect();
        let forgotten = Forgotten { first: 1, first_at: at(1), last: numbers[0] - 1, last_at: at(1) };
        assert_eq!(keep.forgotten((7, 2)), Some(forgotten));
        assert_eq!(keep.first_since((7, 2), at(1)), Some(1), "all of it is as young, and was forgotten");
        assert_eq!(keep.first_since((7, 2), at(2)), Some(100_000));
        assert!(numbers.len() > KEPT_BYTES_MAX / 2 / 1100);
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        assert_eq!(numbers.last(), Some(&99_999));
    }
}
