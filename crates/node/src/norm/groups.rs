//! The groups that carry the messages of a domain, if it has several (FJM's and iBus's channels).
//!
//! Control, reserved topics and everything of domains without groups stay in the domain's own group, in which every
//! node is. The first level of a topic decides which group carries a message: by its hash, or as it was assigned. So
//! all nodes choose the same, and nobody coordinates. A node is in the groups of which it wants messages; it sends to
//! a group without being in it.

use std::sync::atomic::{AtomicU32, Ordering};

use shoal_wire::{PriorityClass, is_reserved};

use super::lanes::{LANES, Lane};

/// More than a socket may join where `igmp_max_memberships` has its usual value, 20, would not be joined.
pub const GROUPS_MAX: usize = 16;
/// Lanes that a group has: one for each priority class.
const CLASSES: usize = 3;
/// FNV-1a, which is short and the same everywhere.
const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0100_0000_01b3;

/// Which group carries what, and which of them this node is in.
#[derive(Debug, Default)]
pub struct Groups {
    count: usize,
    /// First levels with a group of their own choice.
    assigned: Vec<(Box<[u8]>, usize)>,
    joined: AtomicU32,
}

impl Groups {
    /// So many groups, and the first levels that are not hashed.
    pub fn new(count: usize, assigned: Vec<(Box<[u8]>, usize)>) -> Groups {
        debug_assert!(count <= GROUPS_MAX && assigned.iter().all(|(_, group)| *group < count));
        Groups { count, assigned, joined: AtomicU32::new(0) }
    }

    /// How many there are; none where the domain's own group carries everything.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many lanes a link has.
    pub fn lanes(&self) -> usize {
        LANES + CLASSES * self.count
    }

    /// The lane for a message.
    #[inline]
    pub fn lane(&self, topic: &[u8], class: PriorityClass) -> usize {
        let lane = Lane::of(topic, class).number();
        if self.count == 0 || is_reserved(topic) {
            return lane;
        }
        LANES + CLASSES * self.of_level(first_level(topic)) + lane - 1
    }

    /// The groups, a bit each, of messages that a pattern may match.
    pub fn reached_by(&self, pattern: &[u8]) -> u32 {
        let level = first_level(pattern);
        match () {
            () if self.count == 0 || is_reserved(pattern) => 0,
            () if level.iter().any(|byte| b"*>".contains(byte)) => u32::MAX >> (32 - self.count),
            () => 1 << self.of_level(level),
        }
    }

    fn of_level(&self, level: &[u8]) -> usize {
        if let Some((_, group)) = self.assigned.iter().find(|(known, _)| **known == *level) {
            return *group;
        }
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(HASH_PRIME);
        (level.iter().fold(HASH_BASIS, mix) % self.count.max(1) as u64) as usize
    }

    /// The groups that this node is in, a bit each.
    pub fn joined(&self) -> u32 {
        self.joined.load(Ordering::SeqCst)
    }

    /// This node is in these groups from now on, too.
    pub fn join(&self, groups: u32) {
        self.joined.fetch_or(groups, Ordering::SeqCst);
    }
}

/// The group whose datagrams carry a lane; none if it is the domain's own.
pub fn group_of_lane(lane: usize) -> Option<usize> {
    Some(lane.checked_sub(LANES)? / CLASSES)
}

/// The lane of the same class in the domain's own group.
pub(super) fn own_lane(lane: usize) -> usize {
    lane.checked_sub(LANES).map_or(lane, |above| 1 + above % CLASSES)
}

/// Topics of the form `tag=value` are matched whatever the order of their tags: all of them have the same group.
fn first_level(topic: &[u8]) -> &[u8] {
    let level = topic.split(|byte| *byte == b'/').next().unwrap_or_default();
    if level.contains(&b'=') { b"=" } else { level }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES_ALL: [PriorityClass; 3] = [PriorityClass::High, PriorityClass::Normal, PriorityClass::Low];

    #[test]
    fn without_groups_lanes_are_what_they_are() {
        let groups = Groups::default();
        assert_eq!(groups.lanes(), LANES);
        assert_eq!(groups.lane(b"prices/ACME", PriorityClass::Normal), 2);
        assert_eq!((groups.reached_by(b"prices/*"), groups.reached_by(b">")), (0, 0));
    }

    #[test]
    fn a_message_is_in_a_group_that_every_pattern_reaches_which_matches_it() {
        let groups = Groups::new(8, vec![(b"fx".as_slice().into(), 3)]);
        for topic in ["prices/ACME", "fx", "fx/USD", "orders", "a=1,b=2"] {
            for (class, own) in CLASSES_ALL.into_iter().zip(1..) {
                let lane = groups.lane(topic.as_bytes(), class);
                let group = group_of_lane(lane).unwrap();
                assert!(group < 8 && lane < groups.lanes() && own_lane(lane) == own);
                for pattern in [topic, ">", "*", "*/ACME", "b=2,a=1"]
                    .iter()
                    .filter(|pattern| **pattern != "b=2,a=1" || topic.contains('='))
                {
                    assert!(groups.reached_by(pattern.as_bytes()) >> group & 1 == 1, "{pattern} {topic}");
                }
            }
        }
        assert_eq!(group_of_lane(groups.lane(b"fx/USD", PriorityClass::High)), Some(3));
        assert_eq!(groups.reached_by(b"fx/>"), 1 << 3);
        assert_eq!(groups.reached_by(b"*"), 0xff);
    }

    #[test]
    fn reserved_topics_stay_where_everybody_is() {
        let groups = Groups::new(16, Vec::new());
        assert_eq!(group_of_lane(groups.lane(b"_reply/1", PriorityClass::High)), None);
        assert_eq!(groups.reached_by(b"_reply/1"), 0);
        assert_eq!(groups.reached_by(b">"), 0xffff);
    }

    #[test]
    fn first_levels_are_spread() {
        let groups = Groups::new(8, Vec::new());
        let mut used = [0; 8];
        for number in 0..800 {
            used[group_of_lane(groups.lane(format!("t{number}/x").as_bytes(), PriorityClass::Low))
                .unwrap()] += 1;
        }
        assert!(used.iter().all(|count| (60..140).contains(count)), "{used:?}");
    }
}
