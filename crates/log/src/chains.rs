//! How far each publisher's own path to the store is stored: what comes again up to there is dropped.

use std::collections::BTreeMap;

use crate::state::Change;

/// Chains that are remembered at the most, besides those that are kept for ever. Beyond, those that are silent for longest
/// are forgotten, a quarter of them at once.
pub const CHAINS_MAX: usize = 50_000;
const CHAIN_BYTES: usize = 38;

/// How far one chain is stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The highest number.
    pub number: u64,
    /// When it was stored, microseconds since 1970.
    pub stored_us: u64,
    /// An outbox sends it, which may be silent for years.
    pub kept: bool,
    /// A hash of what its publisher alone knows; 0 if the publisher gave nothing.
    pub owner: u64,
}

/// All of them, by publisher and chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chains {
    chains: BTreeMap<(u64, u32), Chain>,
}

impl Chains {
    /// How far a chain is stored.
    pub fn get(&self, publisher: u64, chain: u32) -> Option<Chain> {
        self.chains.get(&(publisher, chain)).copied()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.chains.len()
    }

    /// A chain never goes back, what is kept once is kept, and its first owner stays.
    pub(crate) fn raise(&mut self, publisher: u64, chain: u32, reached: Chain) {
        let known = self.chains.entry((publisher, chain)).or_insert(reached);
        known.number = known.number.max(reached.number);
        known.stored_us = known.stored_us.max(reached.stored_us);
        known.kept |= reached.kept;
        if known.owner == 0 {
            known.owner = reached.owner;
        }
        self.trim(CHAINS_MAX);
    }

    fn trim(&mut self, count_max: usize) {
        if self.chains.len() <= count_max {
            return;
        }
        let mut ages: Vec<_> = self
            .chains
            .iter()
            .filter(|(_, chain)| !chain.kept)
            .map(|(key, chain)| (chain.stored_us, *key))
            .collect();
        if ages.len() <= count_max {
            return;
        }
        ages.sort_unstable();
        for (_, key) in &ages[..ages.len() - count_max * 3 / 4] {
            self.chains.remove(key);
        }
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        self.chains.iter().map(|(&(publisher, chain), &reached)| Change::Chain(publisher, chain, reached))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chains.len() * CHAIN_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_go_first_and_an_outbox_never() {
        let mut chains = Chains::default();
        for publisher in 0..8 {
            chains.chains.insert(
                (publisher, 5),
                Chain { number: 1, stored_us: 100 - publisher, kept: publisher == 7, owner: 0 },
            );
        }
        chains.trim(6);
        let left: Vec<u64> = chains.chains.keys().map(|(publisher, _)| *publisher).collect();
        assert_eq!(left, [0, 1, 2, 3, 7], "the oldest of those that are not kept are gone");
    }

    #[test]
    fn a_chain_never_goes_back() {
        let mut chains = Chains::default();
        chains.raise(1, 5, Chain { number: 9, stored_us: 1, kept: true, owner: 0 });
        chains.raise(1, 5, Chain { number: 3, stored_us: 2, kept: false, owner: 7 });
        chains.raise(1, 5, Chain { number: 3, stored_us: 2, kept: false, owner: 8 });
        assert_eq!(chains.get(1, 5), Some(Chain { number: 9, stored_us: 2, kept: true, owner: 7 }));
        assert_eq!(chains.get(1, 6), None);
    }
}
