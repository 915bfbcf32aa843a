//! Who else is in the domain: announcements, heartbeats, welcomes, and deaths.
//!
//! A node announces what it subscribes to when it starts, when that changes, and when it hears a node
//! it does not know. Whoever hears an announcement of a new node *welcomes* it: it begins to count on
//! that node's acknowledgements, and tells it from which segments of its streams on. The newcomer
//! joins the streams there, so from the welcome on it misses nothing, and owes nothing from before.
//!
//! | on …                             | do                                                          |
//! |----------------------------------|-------------------------------------------------------------|
//! | start, change of subscriptions   | announce                                                    |
//! | a sender that was never heard    | announce soon, so that it learns of us                      |
//! | announcement of a new instance   | member joined; count on it; welcome it                      |
//! | announcement we welcomed already | update its subscriptions; welcome it again with the same    |
//! | welcome for us                   | join the sender's streams where it says                     |
//! | no welcome from a member         | announce again, ever more rarely                            |
//! | heartbeat of an unknown version  | announce, so that it announces too                          |
//! | goodbye, or silence too long     | member left; count on it no longer                          |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use shoal_norm::{NodeId, ObjectId, Time};
use shoal_wire::{Announce, DecodeError, Heartbeat, RecordKind, TopicPattern, Welcome};

use crate::topic_index::TopicIndex;

/// Announcements that newcomers provoke wait so long for each other.
const ANNOUNCE_DELAY: Duration = Duration::from_millis(20);
/// How soon an unanswered announcement is repeated at first, and at last.
const REPEAT_FIRST: Duration = Duration::from_millis(100);
const REPEAT_LAST: Duration = Duration::from_secs(10);

/// What a membership can be told.
#[derive(Clone, Debug)]
pub struct MembershipConfig {
    /// Our node id.
    pub node: NodeId,
    /// Our instance.
    pub instance: u16,
    /// How often to say that we are here (TI).
    pub heartbeat: Duration,
    /// After how many missed ones a node is taken for dead (MH).
    pub missed_heartbeats_max: u32,
    /// The most members kept track of.
    pub members_max: usize,
    /// Keeps others from choosing topics that collide.
    pub seed: u64,
}

/// Why a member left.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It said goodbye.
    Left,
    /// It was silent for too long, or started again.
    Failed,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// A node is here.
    Joined(NodeId),
    /// A node is gone.
    Gone(NodeId, Departure),
    /// A node subscribes to something else now: what is new, and what no longer.
    Subscriptions(NodeId, Vec<String>, Vec<String>),
    /// Join this node's streams there.
    Welcomed {
        /// The sender.
        node: NodeId,
        /// Its instance.
        instance: u16,
        /// Its streams, and from which segment on.
        positions: Vec<(ObjectId, u64)>,
    },
}

#[derive(Debug)]
struct Member {
    instance: u16,
    version: u64,
    patterns: BTreeSet<String>,
    heard_at: Time,
    heartbeat: Duration,
    /// What we told it.
    welcome: Vec<(ObjectId, u64)>,
    /// It welcomed us.
    welcomed_us: bool,
}

/// The members of a domain as one node sees them.
#[derive(Debug)]
pub struct Membership {
    config: MembershipConfig,
    patterns: BTreeMap<String, usize>,
    version: u64,
    members: BTreeMap<NodeId, Member>,
    interest: TopicIndex<NodeId>,
    announce_at: Time,
    repeat: Duration,
    heartbeat_at: Time,
    records: VecDeque<Vec<u8>>,
    events: VecDeque<MemberEvent>,
    ackers_changed: bool,
}

impl Membership {
    /// A node that knows nobody yet and announces itself at once.
    pub fn new(config: MembershipConfig) -> Membership {
        Membership {
            interest: TopicIndex::new(config.seed),
            config,
            patterns: BTreeMap::new(),
            version: 1,
            members: BTreeMap::new(),
            announce_at: Time::ZERO,
            repeat: REPEAT_FIRST,
            heartbeat_at: Time::NEVER,
            records: VecDeque::new(),
            events: VecDeque::new(),
            ackers_changed: false,
        }
    }

    // --- getters ---

    /// Everybody known, without us.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.keys().copied()
    }

    /// Which members want a topic.
    pub fn interested(&mut self, topic: &[u8]) -> &[NodeId] {
        self.interest.matching(topic).unwrap_or(&[])
    }

    // --- commands ---

    /// We subscribe to a pattern, once more.
    pub fn subscribe(&mut self, now: Time, pattern: &str) {
        let count = self.patterns.entry(pattern.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            self.change(now);
        }
    }

    /// We no longer subscribe to a pattern, once less.
    pub fn unsubscribe(&mut self, now: Time, pattern: &str) {
        if let Some(count) = self.patterns.get_mut(pattern) {
            *count -= 1;
            if *count == 0 {
                self.patterns.remove(pattern);
                self.change(now);
            }
        }
    }

    fn change(&mut self, now: Time) {
        self.version += 1;
        self.announce_at = now;
    }

    // --- input ---

    /// A sender was heard whose instance is new to us.
    pub fn on_sender_heard(&mut self, now: Time) {
        self.announce_at = self.announce_at.min(now + ANNOUNCE_DELAY);
    }

    /// A sender said goodbye, or its state was dropped.
    pub fn on_sender_gone(&mut self, node: NodeId, instance: u16) {
        if self.members.get(&node).is_some_and(|member| member.instance == instance) {
            self.forget(node, Departure::Left);
        }
    }

    /// Takes a control record of a node. `positions` is where our streams are now.
    pub fn handle_record(
        &mut self,
        now: Time,
        node: NodeId,
        instance: u16,
        record: &[u8],
        positions: impl FnOnce() -> Vec<(ObjectId, u64)>,
    ) -> Result<(), DecodeError> {
        if let Some(member) = self.members.get_mut(&node).filter(|member| member.instance == instance) {
            member.heard_at = now;
        }
        match RecordKind::of(record)? {
            RecordKind::Announce => {
                self.on_announce(now, node, instance, &Announce::read(record)?, positions)
            }
            RecordKind::Heartbeat => self.on_heartbeat(now, node, Heartbeat::read(record)?),
            RecordKind::Welcome => self.on_welcome(node, instance, Welcome::read(record)?),
            _ => {}
        }
        Ok(())
    }

    fn on_announce(
        &mut self,
        now: Time,
        node: NodeId,
        instance: u16,
        announce: &Announce<'_>,
        positions: impl FnOnce() -> Vec<(ObjectId, u64)>,
    ) {
        if self.members.get(&node).is_some_and(|member| member.instance != instance) {
            self.forget(node, Departure::Failed);
        }
        if !self.members.contains_key(&node) {
            if self.members.len() >= self.config.members_max {
                return;
            }
            let member = Member {
                instance,
                version: 0,
                patterns: BTreeSet::new(),
                heard_at: now,
                heartbeat: Duration::from_millis(announce.heartbeat_ms.clamp(10, 3_600_000)),
                welcome: positions(),
                welcomed_us: false,
            };
            self.members.insert(node, member);
            self.ackers_changed = true;
            self.events.push_back(MemberEvent::Joined(node));
            self.announce_at = self.announce_at.min(now + ANNOUNCE_DELAY);
            self.repeat = REPEAT_FIRST;
        }
        self.take_patterns(node, announce);
        let Some(member) = self.members.get(&node) else { return };
        let mut record = Vec::new();
        Welcome { node, instance, positions: member.welcome.clone() }.write(&mut record);
        self.records.push_back(record);
    }

    fn take_patterns(&mut self, node: NodeId, announce: &Announce<'_>) {
        let Some(member) = self.members.get_mut(&node) else { return };
        if member.version == announce.version {
            return;
        }
        member.version = announce.version;
        let announced: BTreeSet<String> =
            announce.patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let added: Vec<String> = announced.difference(&member.patterns).cloned().collect();
        let removed: Vec<String> = member.patterns.difference(&announced).cloned().collect();
        for (patterns, insert) in [(&added, true), (&removed, false)] {
            for pattern in patterns {
                if let Ok(pattern) = TopicPattern::new(pattern) {
                    if insert {
                        self.interest.insert(&pattern, node);
                    } else {
                        self.interest.remove(&pattern, node);
                    }
                }
            }
        }
        member.patterns = announced;
        if !added.is_empty() || !removed.is_empty() {
            self.events.push_back(MemberEvent::Subscriptions(node, added, removed));
        }
    }

    fn on_heartbeat(&mut self, now: Time, node: NodeId, heartbeat: Heartbeat) {
        if self.members.get(&node).is_none_or(|member| member.version != heartbeat.version) {
            self.announce_at = self.announce_at.min(now + ANNOUNCE_DELAY);
        }
    }

    fn on_welcome(&mut self, node: NodeId, instance: u16, welcome: Welcome) {
        if (welcome.node, welcome.instance) != (self.config.node, self.config.instance) {
            return;
        }
        if let Some(member) = self.members.get_mut(&node).filter(|member| member.instance == instance) {
            member.welcomed_us = true;
        }
        self.events.push_back(MemberEvent::Welcomed { node, instance, positions: welcome.positions });
    }

    fn forget(&mut self, node: NodeId, departure: Departure) {
        let Some(member) = self.members.remove(&node) else { return };
        for pattern in &member.patterns {
            if let Ok(pattern) = TopicPattern::new(pattern) {
                self.interest.remove(&pattern, node);
            }
        }
        self.ackers_changed = true;
        self.events.push_back(MemberEvent::Gone(node, departure));
    }

    /// Announces, beats and buries as time goes on.
    pub fn handle_timeout(&mut self, now: Time) {
        let beats = self.config.missed_heartbeats_max + 1;
        let silent = |member: &Member| now.since(member.heard_at) > member.heartbeat * beats;
        while let Some((&node, _)) = self.members.iter().find(|(_, member)| silent(member)) {
            self.forget(node, Departure::Failed);
        }
        if self.announce_at <= now {
            self.announce(now);
        } else if self.heartbeat_at <= now {
            let mut record = Vec::new();
            Heartbeat { version: self.version }.write(&mut record);
            self.records.push_back(record);
            self.heartbeat_at = now + self.config.heartbeat;
        }
    }

    fn announce(&mut self, now: Time) {
        let mut record = Vec::new();
        let announce = Announce {
            version: self.version,
            heartbeat_ms: self.config.heartbeat.as_millis() as u64,
            patterns: self.patterns.keys().map(String::as_str).collect(),
        };
        announce.write(&mut record);
        self.records.push_back(record);
        self.heartbeat_at = now + self.config.heartbeat;
        // Until everybody has welcomed us, somebody may have missed it.
        if self.members.values().all(|member| member.welcomed_us) {
            self.announce_at = Time::NEVER;
        } else {
            self.announce_at = now + self.repeat;
            self.repeat = (self.repeat * 2).min(REPEAT_LAST);
        }
    }

    // --- output ---

    /// The next record to send to the group.
    pub fn poll_record(&mut self) -> Option<Vec<u8>> {
        self.records.pop_front()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<MemberEvent> {
        self.events.pop_front()
    }

    /// Whose acknowledgements count, if that changed. Must be acted on before anything more is sent.
    pub fn poll_ackers(&mut self) -> Option<Vec<NodeId>> {
        std::mem::take(&mut self.ackers_changed).then(|| self.members.keys().copied().collect())
    }

    /// When [`Membership::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Time {
        let deaths = self.members.values().map(|member| {
            member.heard_at
                + member.heartbeat * (self.config.missed_heartbeats_max + 1)
                + Duration::from_millis(1)
        });
        deaths.fold(self.announce_at.min(self.heartbeat_at), Time::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn node(id: NodeId) -> Membership {
        Membership::new(MembershipConfig {
            node: id,
            instance: 1,
            heartbeat: Duration::from_millis(1000),
            missed_heartbeats_max: 5,
            members_max: 100,
            seed: 1,
        })
    }

    /// Hands everything one node says to the others until nobody says anything more.
    fn settle(now: Time, nodes: &mut [Membership]) {
        loop {
            let mut said = Vec::new();
            for (index, node) in nodes.iter_mut().enumerate() {
                if node.poll_timeout() <= now {
                    node.handle_timeout(now);
                }
                while let Some(record) = node.poll_record() {
                    said.push((index, node.config.node, record));
                }
            }
            if said.is_empty() {
                return;
            }
            for (from, id, record) in said {
                for (index, node) in nodes.iter_mut().enumerate() {
                    if index != from {
                        node.handle_record(now, id, 1, &record, || vec![(1, 7)]).unwrap();
                    }
                }
            }
        }
    }

    fn events(node: &mut Membership) -> Vec<MemberEvent> {
        std::iter::from_fn(|| node.poll_event()).collect()
    }

    #[test]
    fn two_nodes_meet_and_welcome_each_other() {
        let mut nodes = [node(1), node(2)];
        nodes[1].subscribe(at(0), "prices/*");
        settle(at(0), &mut nodes);
        settle(at(30), &mut nodes);
        settle(at(200), &mut nodes);
        let seen = events(&mut nodes[0]);
        assert!(seen.contains(&MemberEvent::Joined(2)));
        assert!(seen.contains(&MemberEvent::Subscriptions(2, vec!["prices/*".into()], vec![])));
        assert!(seen.contains(&MemberEvent::Welcomed { node: 2, instance: 1, positions: vec![(1, 7)] }));
        assert_eq!(nodes[0].interested(b"prices/ACME"), [2]);
        assert_eq!(nodes[0].poll_ackers(), Some(vec![2]));
        assert_eq!(nodes[0].poll_ackers(), None);
        assert!(nodes[0].poll_timeout() > at(900), "nothing more to say until the heartbeat");
    }

    #[test]
    fn a_lost_announcement_is_repeated_until_everybody_has_welcomed_us() {
        let (mut one, mut two) = (node(1), node(2));
        one.handle_timeout(at(0));
        let heard = one.poll_record().unwrap();
        two.handle_record(at(0), 1, 1, &heard, Vec::new).unwrap();
        while two.poll_record().is_some() {}
        // Two knows one, but one heard nothing of two yet, and two was not welcomed.
        let mut announced = 0;
        let mut now = at(0);
        while now < at(3000) {
            now = two.poll_timeout();
            two.handle_timeout(now);
            while let Some(record) = two.poll_record() {
                announced += u32::from(RecordKind::of(&record) == Ok(RecordKind::Announce));
            }
        }
        assert!((4..10).contains(&announced), "{announced} announcements in three seconds");
    }

    #[test]
    fn a_silent_node_is_taken_for_dead_after_its_missed_heartbeats() {
        let mut nodes = [node(1), node(2)];
        settle(at(0), &mut nodes);
        settle(at(30), &mut nodes);
        events(&mut nodes[0]);
        let one = &mut nodes[0];
        one.handle_timeout(at(6000));
        assert_eq!(events(one), []);
        one.handle_timeout(at(6031));
        assert_eq!(events(one), [MemberEvent::Gone(2, Departure::Failed)]);
        assert_eq!(one.poll_ackers(), Some(vec![]));
    }

    #[test]
    fn a_node_that_starts_again_is_another_one() {
        let mut nodes = [node(1), node(2)];
        settle(at(0), &mut nodes);
        settle(at(30), &mut nodes);
        events(&mut nodes[0]);
        let mut record = Vec::new();
        Announce { version: 9, heartbeat_ms: 1000, patterns: vec!["x"] }.write(&mut record);
        nodes[0].handle_record(at(50), 2, 2, &record, Vec::new).unwrap();
        assert_eq!(
            events(&mut nodes[0]),
            [
                MemberEvent::Gone(2, Departure::Failed),
                MemberEvent::Joined(2),
                MemberEvent::Subscriptions(2, vec!["x".into()], vec![]),
            ]
        );
        nodes[0].on_sender_gone(2, 1);
        assert_eq!(events(&mut nodes[0]), [], "the goodbye of the old instance does not bury the new one");
    }

    #[test]
    fn a_subscription_held_twice_is_announced_once_and_withdrawn_with_the_last() {
        let mut one = node(1);
        one.subscribe(at(0), "a/b");
        one.subscribe(at(0), "a/b");
        one.handle_timeout(at(0));
        let record = one.poll_record().unwrap();
        assert_eq!(Announce::read(&record).unwrap().patterns, ["a/b"]);
        one.unsubscribe(at(1), "a/b");
        assert!(one.poll_timeout() > at(1));
        one.unsubscribe(at(2), "a/b");
        assert_eq!(one.poll_timeout(), at(2));
    }
}
