//! Who lost messages for good on a link of ours, and whose: a flush that returned as if everybody had everything would lie.

use std::collections::BTreeMap;

use shoal_norm::NodeId;
use shoal_wire::Loser;

use super::origins::Key;

/// Stands for whoever is at the other end, where nobody else is.
pub(super) const OTHER_END: NodeId = 0;

/// Entries of a link in a lane; of more, the first are forgotten.
const LOSERS_MAX: usize = 4096;

/// For each node and chain the last number that it may have lost, on one link in one lane. Our own chains have publisher 0.
#[derive(Debug, Default)]
pub(super) struct Losers {
    last: BTreeMap<(NodeId, Key), u64>,
}

impl Losers {
    pub fn add(&mut self, node: NodeId, key: Key, number: u64) {
        if self.last.len() >= LOSERS_MAX && !self.last.contains_key(&(node, key)) {
            self.last.pop_first();
        }
        self.last.insert((node, key), number);
    }

    /// A node is gone: nobody waits for it.
    pub fn forget(&mut self, node: NodeId) {
        self.last.retain(|(of, _), _| *of != node);
    }

    /// Who lost something of a publisher.
    pub fn of(&self, publisher: u64) -> impl Iterator<Item = Loser> {
        let is_its = move |((node, key), number): (&(NodeId, Key), &u64)| {
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
    fn no_more_are_remembered_than_the_bound() {
        let mut losers = Losers::default();
        (0..2 * LOSERS_MAX as u64).for_each(|publisher| losers.add(OTHER_END, (publisher, 1), 1));
        assert_eq!(losers.last.len(), LOSERS_MAX);
        assert_eq!(losers.of(2 * LOSERS_MAX as u64 - 1).count(), 1);
    }
}
