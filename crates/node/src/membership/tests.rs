//! Nodes that hear each other, or do not.

use std::ops::{Deref, DerefMut};

use shoal_wire::{
    Announce, AnnounceHeader, Announcement, DestinationKind, InterestEntry, NumberedEntry, Welcome,
};

use super::*;
use crate::interest::OwnInterest;

fn unheard(_node: NodeId, _instance: u16) -> Option<Time> {
    None
}

/// Whoever was there before is silent.
fn succeeds(_node: NodeId, _instance: u16) -> bool {
    true
}

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn node(id: NodeId) -> Node {
    node_with(id, Arc::default())
}

fn node_with(id: NodeId, groups: Arc<Groups>) -> Node {
    let membership = Membership::new(MembershipConfig {
        domain: 7,
        node: id,
        publisher: u64::from(id) + 1000,
        heartbeat: Duration::from_millis(1000),
        missed_heartbeats_max: 5,
        members_max: 100,
        groups,
    });
    Node { membership, own: OwnInterest::new() }
}

/// A membership, and what it wants.
struct Node {
    membership: Membership,
    own: OwnInterest,
}

impl Deref for Node {
    type Target = Membership;

    fn deref(&self) -> &Membership {
        &self.membership
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }
}

impl Node {
    fn record(&mut self) -> Option<Vec<u8>> {
        let own = &self.own;
        self.membership.poll_record(|announcer, since, missing| {
            let changes = since.and_then(|since| own.increment(announcer, since, missing));
            changes.unwrap_or_else(|| own.full(announcer, missing))
        })
    }
}

/// Subscribes to this.
fn want(node: &mut Node, now: Time, pattern: &str) {
    node.own.subscribe(&InterestEntry::new(DestinationKind::Topic, pattern)).unwrap();
    let version = node.own.version();
    node.set_wanted(now, version);
}

#[test]
fn what_all_members_want_is_bounded_and_whoever_wants_more_may_want_anything() {
    let mut nodes = [node(1), node(2), node(3)];
    nodes[0].interest_bytes_max = 10_000;
    for number in 0..5 {
        want(&mut nodes[1], at(0), &format!("two/{number}"));
        want(&mut nodes[2], at(0), &format!("three/{number}"));
    }
    settle(at(0), &mut nodes);
    settle(at(1000), &mut nodes);
    assert!(nodes[0].interest_bytes <= 10_000, "{}", nodes[0].interest_bytes);
    assert!(nodes[0].interest_bytes > 0);
    let told = events(&mut nodes[0]);
    let too_much = told.iter().filter(|event| matches!(event, MemberEvent::TooMuch(_))).count();
    assert_eq!(too_much, 1, "{told:?}");
    assert!(!nodes[0].is_interest_known());
    let gone: Vec<NodeId> = nodes[0].members().collect();
    gone.iter().for_each(|&node| nodes[0].on_sender_gone(node, 1, Departure::Left));
    assert_eq!(nodes[0].interest_bytes, 0);
}

/// Whether somebody else wants a pattern, or may.
fn is_wanted(node: &Membership, pattern: &str) -> bool {
    !node.is_interest_known() || node.members.values().any(|member| member.patterns().contains(&pattern))
}

fn positions(_missed: Option<Vec<u64>>) -> Vec<Position> {
    vec![Position { stream: 1, segment: 7, chain: 1, number: 3, missed_from: 0 }]
}

fn no_positions(_missed: Option<Vec<u64>>) -> Vec<Position> {
    Vec::new()
}

/// The patterns that an event of [`Membership`] tells of.
fn patterns(entries: &[(u64, Entry)]) -> Vec<&str> {
    entries.iter().map(|(_, entry)| entry.pattern.as_str()).collect()
}

/// Hands everything one node says to the others until nobody says anything more.
fn settle(now: Time, nodes: &mut [Node]) {
    run(now, nodes, |_, _| true);
}

/// The same, but only what `heard` lets through arrives: from which node, to which. Returns how many records
/// were said: announcements, heartbeats, welcomes.
fn run(now: Time, nodes: &mut [Node], heard: impl Fn(NodeId, NodeId) -> bool) -> [usize; 3] {
    let mut count = [0; 3];
    loop {
        let mut said = Vec::new();
        for (index, node) in nodes.iter_mut().enumerate() {
            if node.poll_timeout() <= now {
                node.handle_timeout(now, unheard);
            }
            while let Some(record) = node.record().or_else(|| node.poll_heartbeat()) {
                said.push((index, node.config.node, record));
            }
        }
        if said.is_empty() {
            return count;
        }
        for (.., record) in &said {
            let kinds = [RecordKind::Announce, RecordKind::Heartbeat, RecordKind::Welcome];
            let kind = RecordKind::of(record).unwrap();
            count[kinds.iter().position(|known| *known == kind).unwrap()] += 1;
        }
        for (from, id, record) in said {
            for (index, node) in nodes.iter_mut().enumerate() {
                if index != from && heard(id, node.config.node) {
                    node.handle_record(now, (id, 1), &record, succeeds, positions).unwrap();
                }
            }
        }
    }
}

fn events(node: &mut Membership) -> Vec<MemberEvent> {
    std::iter::from_fn(|| node.poll_event()).collect()
}

/// What a node of the domain announces that subscribes to one pattern.
fn announced(version: u64, pattern: &str) -> Vec<u8> {
    let entry = NumberedEntry::new(1, &InterestEntry::new(DestinationKind::Topic, pattern)).unwrap();
    let digest = entry.digest();
    let header =
        AnnounceHeader { domain: 7, publisher: 1002, version, base: 0, heartbeat_ms: 1000, total: 1, digest };
    let announcement = Announcement { header, removed: &[], added: &[&entry], missing: &[], facts: &[] };
    announcement.write(1400).remove(0)
}

#[test]
fn two_nodes_meet_and_welcome_each_other() {
    let mut nodes = [node(1), node(2)];
    want(&mut nodes[1], at(0), "prices/*");
    settle(at(0), &mut nodes);
    settle(at(30), &mut nodes);
    settle(at(200), &mut nodes);
    let seen = events(&mut nodes[0]);
    assert!(seen.contains(&MemberEvent::Joined(2)));
    let is_prices = |event: &MemberEvent| matches!(event, MemberEvent::Subscriptions(2, change) if patterns(&change.added) == ["prices/*"]);
    assert!(seen.iter().any(is_prices), "{seen:?}");
    let welcome = MemberEvent::Welcomed { node: 2, instance: 1, publisher: 1002, positions: positions(None) };
    assert!(seen.contains(&welcome));
    assert!(is_wanted(&nodes[0], "prices/*") && nodes[0].is_interest_known());
    assert_eq!(nodes[0].poll_ackers(), Some(vec![2]));
    assert_eq!(nodes[0].poll_ackers(), None);
    assert!(nodes[0].poll_timeout() > at(900), "nothing more to say until the heartbeat");
}

#[test]
fn a_lost_announcement_is_repeated_until_everybody_has_welcomed_us() {
    let (mut one, mut two) = (node(1), node(2));
    one.handle_timeout(at(0), unheard);
    let heard = one.record().unwrap();
    two.handle_record(at(0), (1, 1), &heard, succeeds, no_positions).unwrap();
    while two.record().is_some() {}
    // Two knows one, but one heard nothing of two yet, and two was not welcomed.
    let mut announced = 0;
    let mut now = at(0);
    while now < at(3000) {
        now = two.poll_timeout();
        two.handle_timeout(now, unheard);
        while let Some(record) = two.record() {
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
    pass(one, at(6030), unheard);
    assert_eq!(events(one), []);
    pass(one, at(6031), unheard);
    assert_eq!(events(one), [MemberEvent::Gone(2, 1, Departure::Failed)]);
    assert_eq!(one.poll_ackers(), Some(vec![]));
}

/// One node lets time go by, and hears nothing.
fn pass(node: &mut Node, end: Time, last_heard: impl Fn(NodeId, u16) -> Option<Time>) {
    while node.poll_timeout() <= end {
        let now = node.poll_timeout();
        node.handle_timeout(now, &last_heard);
        while node.record().or_else(|| node.poll_heartbeat()).is_some() {}
    }
}

/// A node that met another one, which then said its heartbeats at these times.
fn after_heartbeats(times: &[u64]) -> Node {
    let mut nodes = [node(1), node(2)];
    settle(at(0), &mut nodes);
    settle(at(30), &mut nodes);
    settle(at(200), &mut nodes);
    let [mut one, two] = nodes;
    let mut heartbeat = Vec::new();
    Heartbeat { domain: 7, publisher: two.config.publisher, version: two.version() }.write(&mut heartbeat);
    for &millis in times {
        pass(&mut one, at(millis), unheard);
        one.handle_record(at(millis), (2, 1), &heartbeat, succeeds, no_positions).unwrap();
    }
    events(&mut one);
    one
}

#[test]
fn a_member_that_pauses_now_and_then_is_given_longer_and_one_that_does_not_is_not() {
    let mut punctual = after_heartbeats(&[1000, 2000, 3000, 4000, 5000, 6000, 7000]);
    pass(&mut punctual, at(13_000), unheard);
    assert_eq!(events(&mut punctual), []);
    pass(&mut punctual, at(13_001), unheard);
    assert_eq!(events(&mut punctual), [MemberEvent::Gone(2, 1, Departure::Failed)]);
    // It was silent for four seconds, and is alive after ten.
    let mut pausing = after_heartbeats(&[1000, 2000, 6000, 7000]);
    pass(&mut pausing, at(17_000), unheard);
    assert_eq!(events(&mut pausing), []);
    pass(&mut pausing, at(7000 + 24_001), unheard);
    assert_eq!(events(&mut pausing), [MemberEvent::Gone(2, 1, Departure::Failed)], "a death is noticed");
}

#[test]
fn who_stood_still_itself_takes_nobody_for_dead_before_it_listened_again() {
    let mut one = after_heartbeats(&[1000, 2000, 3000]);
    let due = one.poll_timeout();
    one.handle_timeout(at(60_000), unheard);
    assert_eq!(events(&mut one), []);
    let left = at(9001).since(due);
    pass(&mut one, at(59_999) + left, unheard);
    assert_eq!(events(&mut one), []);
    pass(&mut one, at(60_000) + left, unheard);
    assert_eq!(events(&mut one), [MemberEvent::Gone(2, 1, Departure::Failed)]);
}

#[test]
fn a_store_is_told_by_its_role_until_it_gives_it_up() {
    let mut nodes = [node(1), node(2)];
    nodes[1].own.set_roles(Roles::STORE);
    let version = nodes[1].own.version();
    nodes[1].set_wanted(at(0), version);
    settle(at(0), &mut nodes);
    settle(at(30), &mut nodes);
    assert_eq!(nodes[0].indispensable(), [2]);
    assert_eq!(nodes[1].indispensable(), []);
    nodes[0].poll_ackers();
    nodes[1].own.set_roles(Roles::default());
    let version = nodes[1].own.version();
    nodes[1].set_wanted(at(40), version);
    settle(at(40), &mut nodes);
    assert_eq!(nodes[0].indispensable(), []);
    assert_eq!(nodes[0].poll_ackers(), Some(vec![2]), "whoever waits for it is told");
}

#[test]
fn who_reads_nothing_but_reserved_topics_is_a_bystander_until_it_subscribes() {
    let mut nodes = [node(1), node(2)];
    settle(at(0), &mut nodes);
    settle(at(30), &mut nodes);
    assert_eq!(nodes[0].poll_bystanders(), Some(vec![2]));
    nodes[0].handle_record(at(40), (2, 1), &announced(9, "_store/here"), succeeds, no_positions).unwrap();
    assert_eq!(nodes[0].poll_bystanders(), None, "it still is");
    nodes[0].handle_record(at(50), (2, 1), &announced(10, "prices/*"), succeeds, no_positions).unwrap();
    assert_eq!(nodes[0].poll_bystanders(), Some(vec![]));
}

#[test]
fn a_node_that_starts_again_is_another_one() {
    let mut nodes = [node(1), node(2)];
    settle(at(0), &mut nodes);
    settle(at(30), &mut nodes);
    events(&mut nodes[0]);
    let record = announced(9, "x");
    nodes[0].handle_record(at(50), (2, 2), &record, succeeds, no_positions).unwrap();
    let told = events(&mut nodes[0]);
    let [gone, joined, MemberEvent::Subscriptions(2, change)] = &told[..] else { panic!("{told:?}") };
    assert_eq!([gone, joined], [&MemberEvent::Gone(2, 1, Departure::Failed), &MemberEvent::Joined(2)]);
    assert_eq!(patterns(&change.added), ["x"]);
    nodes[0].on_sender_gone(2, 1, Departure::Left);
    assert_eq!(events(&mut nodes[0]), [], "the goodbye of the old instance does not bury the new one");
}

/// Lets time go by until `end`; returns how many records were said.
fn run_until(now: &mut Time, end: Time, nodes: &mut [Node]) -> [usize; 3] {
    let mut count = [0; 3];
    loop {
        let next = nodes.iter().map(|node| node.poll_timeout()).fold(Time::NEVER, Time::min);
        if next > end {
            *now = end;
            return count;
        }
        *now = next.max(*now);
        let said = run(*now, nodes, |_, _| true);
        count = std::array::from_fn(|kind| count[kind] + said[kind]);
    }
}

#[test]
fn a_member_whose_announcement_was_lost_may_want_anything_until_it_is_heard() {
    let mut nodes = [node(1), node(2), node(3)];
    settle(at(0), &mut nodes);
    settle(at(30), &mut nodes);
    assert!(!is_wanted(&nodes[0], "prices/*"));
    // Two subscribes, and one does not hear of it.
    want(&mut nodes[1], at(100), "prices/*");
    run(at(100), &mut nodes, |from, to| (from, to) != (2, 1));
    assert!(!is_wanted(&nodes[0], "prices/*"), "it cannot know");
    // A message of two says which version it has.
    let version = nodes[1].version();
    assert!(nodes[0].on_version(at(110), 2, 1, version));
    assert!(is_wanted(&nodes[0], "prices/*"));
    assert!(is_wanted(&nodes[0], "something/else"), "nobody knows what it wants");
    assert!(!nodes[0].on_version(at(111), 2, 1, version), "that is no news");
    // One asks, two announces again, and interest is known.
    settle(at(140), &mut nodes);
    settle(at(170), &mut nodes);
    assert!(is_wanted(&nodes[0], "prices/*"));
    assert!(!is_wanted(&nodes[0], "something/else"));
}

#[test]
fn a_heartbeat_tells_of_a_lost_announcement_too() {
    let mut nodes = [node(1), node(2)];
    settle(at(0), &mut nodes);
    settle(at(30), &mut nodes);
    want(&mut nodes[1], at(100), "prices/*");
    run(at(100), &mut nodes, |_, _| false);
    settle(at(1100), &mut nodes);
    assert!(is_wanted(&nodes[0], "prices/*"));
    assert!(events(&mut nodes[0]).contains(&MemberEvent::InterestUnknown(2)));
    settle(at(1130), &mut nodes);
    settle(at(1160), &mut nodes);
    assert!(is_wanted(&nodes[0], "prices/*") && nodes[0].is_interest_known());
}

#[test]
fn a_version_that_nobody_announced_is_outlived() {
    let mut nodes = [node(1), node(2)];
    let mut now = at(0);
    run_until(&mut now, at(500), &mut nodes);
    assert!(nodes[0].on_version(now, 2, 1, u64::MAX));
    assert!(is_wanted(&nodes[0], "prices/*"));
    run_until(&mut now, at(1500), &mut nodes);
    assert!(!is_wanted(&nodes[0], "prices/*"), "it was asked, and announced what it announced before");
    let told = events(&mut nodes[0]);
    assert_eq!(
        told.last(),
        Some(&MemberEvent::Subscriptions(2, Change::default())),
        "interest is known again"
    );
    let version = nodes[1].version() + 1;
    assert!(nodes[0].on_version(now, 2, 1, version), "and a new version is news");
}

#[test]
fn an_announcement_that_comes_late_does_not_hide_the_next_one() {
    let mut nodes = [node(1), node(2)];
    let mut now = at(0);
    run_until(&mut now, at(500), &mut nodes);
    // Two announced twice, and both are repaired long after its message.
    let version = nodes[1].version();
    let one = &mut nodes[0];
    assert!(one.on_version(at(500), 2, 1, version + 2));
    one.handle_record(at(700), (2, 1), &announced(version + 1, "a"), succeeds, no_positions).unwrap();
    assert!(is_wanted(one, "b"), "the second may want it");
    one.handle_record(at(710), (2, 1), &announced(version + 2, "b"), succeeds, no_positions).unwrap();
    assert!(is_wanted(one, "b") && !is_wanted(one, "a"));
}

#[test]
fn versions_that_count_up_do_not_make_a_node_announce_without_pause() {
    let mut nodes = [node(1), node(2)];
    run_until(&mut at(0), at(500), &mut nodes);
    let one = &mut nodes[0];
    let mut announced = 0;
    for millis in 500..3500 {
        one.on_version(at(millis), 2, 1, 1000 + millis);
        one.handle_timeout(at(millis), unheard);
        while let Some(record) = one.record() {
            announced += u32::from(RecordKind::of(&record) == Ok(RecordKind::Announce));
        }
    }
    assert!((4..10).contains(&announced), "{announced} announcements in three seconds");
}

#[test]
fn an_announcement_in_anothers_name_moves_nobody_who_speaks() {
    let mut nodes = [node(1), node(2)];
    want(&mut nodes[1], at(0), "a");
    run_until(&mut at(0), at(500), &mut nodes);
    let one = &mut nodes[0];
    events(one);
    let copy = announced(one.members[&2].interest_version(), "a");
    for (id, instance) in [(3, 1), (2, 9)] {
        one.handle_record(at(600), (id, instance), &copy, |_, _| false, no_positions).unwrap();
        assert_eq!((events(one), one.members().collect::<Vec<_>>()), (vec![], vec![2]));
    }
    one.handle_timeout(at(700), unheard);
    let asked = Announce::read(&one.record().unwrap()).unwrap().missing;
    assert_eq!(asked, [1002], "it is asked who it is");
    one.handle_record(at(710), (3, 1), &copy, succeeds, no_positions).unwrap();
    assert_eq!(one.members().collect::<Vec<_>>(), [3], "the old id is silent: it has another one now");
}

#[test]
fn whoever_seems_new_again_and_again_makes_a_node_with_many_subscriptions_announce_now_and_then() {
    let mut one = node(1);
    for number in 0..20_000 {
        one.own.subscribe(&InterestEntry::new(DestinationKind::Topic, &format!("a/{number}"))).unwrap();
    }
    let version = one.own.version();
    one.set_wanted(at(0), version);
    let mut bytes = 0;
    for millis in 0..10_000 {
        one.on_sender_heard(at(millis));
        one.handle_timeout(at(millis), unheard);
        while let Some(record) = one.record() {
            bytes += record.len();
        }
    }
    assert!(bytes > 4 << 20, "{bytes} bytes: nobody would learn what it wants");
    assert!(bytes < 12 << 20, "{bytes} bytes in ten seconds");
}

#[test]
fn nodes_of_another_domain_are_not_noticed() {
    let mut nodes = [node(1), node(2)];
    nodes[1].config.domain = 8;
    let mut now = at(0);
    want(&mut nodes[1], now, ">");
    run_until(&mut now, at(20_000), &mut nodes);
    let said = run_until(&mut now, at(40_000), &mut nodes);
    for node in &mut nodes {
        assert_eq!(node.members().count(), 0);
        assert!(!is_wanted(node, "prices/*"));
        assert_eq!(events(node), []);
    }
    assert!(said[1] <= 42 && said[0] + said[2] == 0, "{said:?} in 20 s: more than their heartbeats");
}

#[test]
fn a_member_that_speaks_is_alive_though_its_heartbeats_are_lost() {
    let mut nodes = [node(1), node(2)];
    settle(at(0), &mut nodes);
    settle(at(30), &mut nodes);
    events(&mut nodes[0]);
    let one = &mut nodes[0];
    pass(one, at(12_000), |_, _| Some(at(6000)));
    assert_eq!(events(one), []);
    pass(one, at(12_001), |_, _| Some(at(6000)));
    assert_eq!(events(one), [MemberEvent::Gone(2, 1, Departure::Failed)]);
}

#[test]
fn a_crowd_says_no_more_than_its_heartbeats_and_a_newcomer_costs_it_a_few_records_each() {
    const CROWD: usize = 60;
    let mut nodes: Vec<Node> = (0..CROWD).map(|number| node(10 + 7 * number as NodeId)).collect();
    let mut now = at(0);
    run_until(&mut now, at(10_000), &mut nodes);
    assert!(nodes.iter().all(|node| node.members().count() == CROWD - 1));
    let idle = run_until(&mut now, at(30_000), &mut nodes);
    assert!(idle[1] <= 21 * CROWD && idle[0] + idle[2] == 0, "{idle:?} in 20 s of a heartbeat a second");
    nodes.push(node(5));
    let [announcements, _, welcomes] = run_until(&mut now, at(31_000), &mut nodes);
    assert!(nodes.iter().all(|node| node.members().count() == CROWD));
    assert!(announcements <= CROWD + 8, "{announcements} announcements for one newcomer");
    assert!(welcomes <= 2 * CROWD, "{welcomes} welcomes: more than one each way");
}

#[test]
fn whoever_returns_is_not_counted_on_before_what_it_wants_is_acted_on() {
    let mut nodes = [node(1), node(2)];
    want(&mut nodes[1], at(0), "a");
    settle(at(0), &mut nodes);
    settle(at(1000), &mut nodes);
    assert!(!nodes[0].count_on_returned(|| vec![0; 2]), "nobody was here before");
    nodes[0].on_sender_gone(2, 1, Departure::Failed);
    nodes[0].note_forgotten(|| vec![0, 20]);
    want(&mut nodes[1], at(2000), "b");
    nodes[1].handle_timeout(at(2000), unheard);
    let announcement: Vec<_> = std::iter::from_fn(|| nodes[1].record()).collect();
    let returned = |missed: Option<Vec<u64>>| {
        let missed_from = missed.unwrap()[1];
        vec![Position { stream: 1, segment: 7, chain: 1, number: 30, missed_from }]
    };
    for record in announcement {
        nodes[0].handle_record(at(2000), (2, 1), &record, succeeds, returned).unwrap();
    }
    // Others publish until it is known who wants what.
    assert!(nodes[0].count_on_returned(|| vec![0, 35]));
    assert!(!nodes[0].count_on_returned(|| vec![0, 50]), "once");
    let welcome =
        std::iter::from_fn(|| nodes[0].record()).find_map(|record| Welcome::read(&record).ok()).unwrap();
    let told: Vec<_> = welcome.positions.iter().map(|told| (told.missed_from, told.number)).collect();
    assert_eq!(told, [(0, 3), (20, 35)]);
}

/// Where the streams of two groups are, of which the first is in group 0 and the second in group 1.
fn grouped(_missed: Option<Vec<u64>>) -> Vec<Position> {
    let at = |stream, segment| Position { stream, segment, chain: stream.into(), number: 1, missed_from: 0 };
    vec![at(1, 7), at(5, 8), at(8, 9)]
}

/// What a node announces that has some groups, and is in these.
fn in_groups(publisher: u64, version: u64, count: u32, joined: u32) -> Vec<u8> {
    let mut own = OwnInterest::new();
    for number in 1..version {
        own.subscribe(&InterestEntry::new(DestinationKind::Topic, &format!("t{number}"))).unwrap();
    }
    let groups = JoinedGroups { count, joined };
    let announcer = Announcer { domain: 7, publisher, heartbeat_ms: 1000, groups };
    own.full(announcer, &[]).remove(0)
}

/// The streams of which a node told another one where they are, in each welcome.
fn welcomed_in(node: &mut Node) -> Vec<Vec<(u16, u64)>> {
    let mut found = Vec::new();
    while let Some(record) = node.record() {
        if let Ok(welcome) = Welcome::read(&record) {
            found.push(welcome.positions.iter().map(|told| (told.stream, told.segment)).collect());
        }
    }
    found
}

#[test]
fn a_member_is_welcomed_in_groups_when_it_joins_them() {
    let mut here = node_with(1, Arc::new(Groups::new(2, Vec::new())));
    here.handle_record(at(0), (2, 1), &in_groups(1002, 1, 2, 0), succeeds, grouped).unwrap();
    assert_eq!(welcomed_in(&mut here), [vec![(1, 7)]]);
    assert_eq!((here.members_in(0), here.members_in(1)), (vec![], vec![]));
    assert!(here.poll_ackers().is_some());
    here.handle_record(at(500), (2, 1), &in_groups(1002, 2, 2, 0b10), succeeds, grouped).unwrap();
    assert_eq!(welcomed_in(&mut here), [vec![(1, 7), (8, 9)]]);
    assert_eq!((here.members_in(0), here.members_in(1)), (vec![], vec![2]));
    assert!(here.poll_ackers().is_some(), "it counts in the group from now on");
    here.handle_record(at(900), (2, 1), &in_groups(1002, 3, 2, 0b10), succeeds, grouped).unwrap();
    assert!(welcomed_in(&mut here).is_empty(), "it is there already");
    assert!(here.poll_ackers().is_none());
}

#[test]
fn a_node_with_another_number_of_groups_is_refused_and_told_of_once() {
    let mut here = node_with(1, Arc::new(Groups::new(2, Vec::new())));
    for version in 1..4 {
        here.handle_record(at(version), (2, 1), &in_groups(1002, version, 4, 0), succeeds, grouped).unwrap();
    }
    assert_eq!(events(&mut here), [MemberEvent::OtherGroups(2, 4)]);
    assert_eq!(here.members().count(), 0);
    welcomed_in(&mut here);
    let mut heartbeat = Vec::new();
    Heartbeat { domain: 7, publisher: 1002, version: 3 }.write(&mut heartbeat);
    here.handle_timeout(at(5), unheard);
    while here.record().is_some() {}
    here.handle_record(at(6), (2, 1), &heartbeat, succeeds, grouped).unwrap();
    here.handle_timeout(at(300), unheard);
    assert!(here.record().is_none(), "it is not asked who it is");
    here.handle_record(at(309), (2, 2), &in_groups(1002, 1, 2, 0), succeeds, grouped).unwrap();
    let change = Change { announced: (1002, 1), ..Change::default() };
    assert_eq!(events(&mut here), [MemberEvent::Joined(2), MemberEvent::Subscriptions(2, change)]);
}
