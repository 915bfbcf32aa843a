//! Which link each chain is taken from.
//!
//! A chain may reach us over several links, passed on by routers or straight from its publisher. It is taken from one of
//! them at a time: whoever brings it first has it until that source is gone. Where it was then is remembered, so that another
//! source goes on from there, and nothing comes twice.

use foldhash::{HashMap, HashMapExt};

use super::chain::LinkId;

/// Chains that are remembered; beyond it those that nobody brings are forgotten, the oldest first.
const CHAINS_MAX: usize = 16_384;

/// A publisher and its chain.
pub(super) type Key = (u64, u32);

#[derive(Debug)]
struct Taking {
    link: Option<LinkId>,
    /// The number that should come next, when nobody brings it; 0 if not known.
    next: u64,
    /// When it was let go of, counted.
    since: u64,
}

/// Who brings what.
#[derive(Debug)]
pub(super) struct Origins {
    chains: HashMap<Key, Taking>,
    released: u64,
}

/// Whether a link may bring a chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It may, from this number on; 0 if not known.
    Granted(u64),
    /// Another one brings it.
    Elsewhere,
}

impl Default for Origins {
    fn default() -> Origins {
        Origins { chains: HashMap::new(), released: 0 }
    }
}

impl Origins {
    /// A link is about to bring a chain.
    pub fn claim(&mut self, key: Key, link: LinkId) -> Claim {
        match self.chains.get_mut(&key) {
            Some(taking) if taking.link.is_some_and(|other| other != link) => Claim::Elsewhere,
            Some(taking) => {
                taking.link = Some(link);
                Claim::Granted(taking.next)
            }
            None => {
                self.make_room();
                self.chains.insert(key, Taking { link: Some(link), next: 0, since: 0 });
                Claim::Granted(0)
            }
        }
    }

    /// A link brings a chain no longer; the number that should come next.
    pub fn release(&mut self, key: Key, link: LinkId, next: u64) {
        if let Some(taking) = self.chains.get_mut(&key).filter(|taking| taking.link == Some(link)) {
            self.released += 1;
            *taking = Taking { link: None, next, since: self.released };
        }
    }

    fn make_room(&mut self) {
        if self.chains.len() < CHAINS_MAX {
            return;
        }
        let free = self.chains.iter().filter(|(_, taking)| taking.link.is_none());
        if let Some(oldest) = free.min_by_key(|(_, taking)| taking.since).map(|(&key, _)| key) {
            self.chains.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_taken_from_one_link_until_that_lets_go_of_it_and_another_goes_on_from_there() {
        let mut origins = Origins::default();
        assert_eq!(origins.claim((7, 2), 0), Claim::Granted(0));
        assert_eq!(origins.claim((7, 2), 0), Claim::Granted(0), "it has it already");
        assert_eq!(origins.claim((7, 2), 1), Claim::Elsewhere);
        assert_eq!(origins.claim((7, 3), 1), Claim::Granted(0), "another chain");
        origins.release((7, 2), 1, 5);
        assert_eq!(origins.claim((7, 2), 1), Claim::Elsewhere, "only who has it lets go of it");
        origins.release((7, 2), 0, 40);
        assert_eq!(origins.claim((7, 2), 1), Claim::Granted(40));
        assert_eq!(origins.claim((7, 2), 0), Claim::Elsewhere);
    }

    #[test]
    fn chains_that_nobody_brings_are_bounded() {
        let mut origins = Origins::default();
        for number in 0..2 * CHAINS_MAX as u64 {
            origins.claim((number, 1), 0);
            origins.release((number, 1), 0, number);
        }
        assert_eq!(origins.chains.len(), CHAINS_MAX);
        assert_eq!(
            origins.claim((2 * CHAINS_MAX as u64 - 1, 1), 1),
            Claim::Granted(2 * CHAINS_MAX as u64 - 1)
        );
    }
}
