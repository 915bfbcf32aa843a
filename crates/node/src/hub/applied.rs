//! Which announcement of each member a lane applies, as its readers know it.
//!
//! A lane says so before it skips something as unwanted: so a reader knows under which of its announcements a skip was decided, and a
//! lane that skips nothing says nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shoal_norm::NodeId;

/// Members of a link in one of its lanes.
#[derive(Debug, Default)]
pub(super) struct AppliedInterest {
    /// The publisher of each member, and the version that it announced.
    members: BTreeMap<NodeId, (u64, u64)>,
    /// Members whose version the lane has not said.
    unsaid: BTreeSet<NodeId>,
}

impl AppliedInterest {
    /// A member's announcement is applied from here on: its publisher, and the version.
    pub fn set(&mut self, node: NodeId, announced: (u64, u64)) {
        if self.members.insert(node, announced) != Some(announced) {
            self.unsaid.insert(node);
        }
    }

    /// A member is gone, or failed.
    pub fn forget(&mut self, node: NodeId) {
        self.members.remove(&node);
        self.unsaid.remove(&node);
    }

    /// Whether a member's announcement of this version is applied, or a later one.
    pub fn has(&self, publisher: u64, version: u64) -> bool {
        self.members.values().any(|&(of, applied)| of == publisher && applied >= version)
    }

    /// A member does not know what the lane said before.
    pub fn repeat(&mut self, publisher: u64) {
        let known = self.members.iter().find(|(_, announced)| announced.0 == publisher);
        self.unsaid.extend(known.map(|(node, _)| *node));
    }

    /// What was not said yet is said later, by [`AppliedInterest::repeat_all`].
    pub fn say_nothing(&mut self) {
        self.unsaid.clear();
    }

    /// No member knows what the lane said before.
    pub fn repeat_all(&mut self) {
        self.unsaid = self.members.keys().copied().collect();
    }

    /// What the lane has not said yet.
    #[inline]
    pub fn take_unsaid(&mut self) -> Vec<(u64, u64)> {
        let unsaid = std::mem::take(&mut self.unsaid).into_iter();
        unsaid.filter_map(|node| self.members.get(&node).copied()).collect()
    }
}

/// Announcements that are remembered; a lane that applies an older one is not trusted.
const ANNOUNCED_MAX: usize = 64;

/// Our own announcements on a link, and the version of our interest that each contains.
#[derive(Debug, Default)]
pub(super) struct Announced(VecDeque<(u64, u64)>);

impl Announced {
    /// The announcement of this version contains our interest in that version.
    pub fn note(&mut self, announced: u64, interest: u64) {
        match self.0.back_mut() {
            Some((last, contained)) if *last >= announced => *contained = interest.max(*contained),
            _ => self.0.push_back((announced, interest)),
        }
        if self.0.len() > ANNOUNCED_MAX {
            self.0.pop_front();
        }
    }

    /// What was announced does not count any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The version of our interest that an announcement contains, as far as known.
    pub fn interest(&self, announced: u64) -> Option<u64> {
        let contained = self.0.iter().rev().find(|(known, _)| *known <= announced);
        contained.map(|&(_, interest)| interest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_contains_the_last_interest_that_needed_no_newer_one() {
        let mut announced = Announced::default();
        assert_eq!(announced.interest(5), None);
        for (version, interest) in [(1, 10), (1, 12), (3, 20)] {
            announced.note(version, interest);
        }
        assert_eq!([1, 2, 3, 4].map(|version| announced.interest(version)), [12, 12, 20, 20].map(Some));
        (4..200).for_each(|version| announced.note(version, 10 * version));
        assert_eq!((announced.interest(3), announced.interest(199)), (None, Some(1990)));
        assert_eq!(announced.0.len(), ANNOUNCED_MAX);
        announced.clear();
        assert_eq!(announced.interest(200), None);
    }

    #[test]
    fn each_version_is_said_once_until_it_changes_or_is_to_be_repeated() {
        let mut applied = AppliedInterest::default();
        assert_eq!(applied.take_unsaid(), []);
        applied.set(1, (70, 1));
        applied.set(2, (80, 4));
        assert_eq!(applied.take_unsaid(), [(70, 1), (80, 4)]);
        applied.set(1, (70, 1));
        assert_eq!(applied.take_unsaid(), []);
        applied.set(1, (70, 2));
        assert_eq!(applied.take_unsaid(), [(70, 2)]);
        applied.repeat(80);
        applied.repeat(90);
        assert_eq!(applied.take_unsaid(), [(80, 4)], "90 is no member");
        applied.repeat_all();
        assert_eq!(applied.take_unsaid(), [(70, 2), (80, 4)]);
    }

    #[test]
    fn a_member_that_is_gone_is_not_named_and_is_named_again_when_it_returns() {
        let mut applied = AppliedInterest::default();
        applied.set(1, (70, 1));
        applied.forget(1);
        assert_eq!(applied.take_unsaid(), []);
        applied.set(1, (70, 1));
        assert_eq!(applied.take_unsaid(), [(70, 1)]);
    }
}
