//! Who lost messages for good on a link of ours, and whose: a flush that returned as if everybody had everything would lie.

use std::collections::BTreeMap;

use shoal_norm::NodeId;
use shoal_wire::Loser;

use super::accept::Key;

/// Stands for whoever is at the other end, where nobody else is.
pub(super) const OTHER_END: NodeId = 0;

/// Entries of a link in a lane; beyond it the one that lost something longest ago is forgotten.
const LOSERS_MAX: usize = 4096;

/// For each node and chain the last number that it may have lost, on one link in one lane. Our own chains have publisher 0.
#[derive(Debug, Default)]
pub(super) struct Losers {
    /// The number, and when it was noted, counted.
    last: BTreeMap<(NodeId, Key), (u64, u64)>,
    /// The same, the oldest first.
    noted: BTreeMap<u64, (NodeId, Key)>,
    notes: u64,
}

impl Losers {
    pub fn add(&mut self, node: NodeId, key: Key, number: u64) {
        self.notes += 1;
        match self.last.insert((node, key), (number, self.notes)) {
            Some((_, noted)) => _ = self.noted.remove(&noted),
            None if self.last.len() > LOSERS_MAX => {
                self.noted.pop_first().map(|(_, oldest)| self.last.remove(&oldest));
            }
            None => {}
        }
        self.noted.insert(self.notes, (node, key));
    }

    /// A node is gone: nobody waits for it.
    pub fn forget(&mut self, node: NodeId) {
        self.last.retain(|(of, _), _| *of != node);
        self.noted.retain(|_, (of, _)| *of != node);
    }

    /// Who lost something of a publisher.
    pub fn of(&self, publisher: u64) -> impl Iterator<Item = Loser> {
        let is_its = move |((node, key), (number, _)): (&(NodeId, Key), &(u64, u64))| {
            (key.0 == publisher).then_some(Loser { node: *node, chain: key.1, number: *number })
        };
        self.last.iter().filter_map(is_its)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_each_node_and_chain_counts_until_the_node_is_gone() {
        let mut losers = Losers::default();
        for (node, key, number) in [(5, (0, 1), 3), (5, (0, 1), 9), (6, (0, 2), 4), (6, (77, 1), 8)] {
            losers.add(node, key, number);
        }
        let (five, six) = (Loser { node: 5, chain: 1, number: 9 }, Loser { node: 6, chain: 2, number: 4 });
        assert_eq!(losers.of(0).collect::<Vec<_>>(), [five, six]);
        losers.forget(6);
        assert_eq!(losers.of(0).collect::<Vec<_>>(), [five]);
        assert_eq!(losers.of(77).count(), 0);
    }

    #[test]
    fn beyond_the_bound_whoever_lost_something_longest_ago_is_forgotten_whatever_its_id() {
        let all = 2 * LOSERS_MAX as u64;
        for is_rising in [true, false] {
            let mut losers = Losers::default();
            let publisher = |turn: u64| if is_rising { turn } else { all - turn };
            (0..all).for_each(|turn| {
                losers.add(OTHER_END, (publisher(turn), 1), 1);
                losers.add(OTHER_END, (publisher(0), 1), turn);
            });
            assert_eq!((losers.last.len(), losers.noted.len()), (LOSERS_MAX, LOSERS_MAX));
            assert_eq!(losers.of(publisher(all - 1)).count(), 1);
            assert_eq!(losers.of(publisher(0)).count(), 1, "it lost something again");
            assert_eq!(losers.of(publisher(1)).count(), 0);
        }
    }
}
