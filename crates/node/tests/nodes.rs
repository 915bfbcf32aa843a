//! Whole nodes: what they promise to those who publish and subscribe.

mod support;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use shoal_node::hub::{FlushState, HubEvent, Lost};
use shoal_node::{Announcer, Interest, Origin, OwnInterest};
use shoal_norm::Source;
use shoal_norm::wire::{SenderHeader, command};
use shoal_selector::Selector;
use shoal_wire::{DestinationKind, InterestEntry, TopicPattern};
use support::{Wire, config, read};

const SECOND: Duration = Duration::from_secs(1);

/// The lane of what is neither urgent nor reserved.
const NORMAL: u32 = 2;

/// Segments that the first node sent.
fn segments_sent(wire: &Wire) -> u64 {
    wire.nodes[0].sessions().map(|session| session.stats().segments_sent).sum()
}

fn ids(found: &[(Origin, Vec<u8>)]) -> Vec<Option<String>> {
    found.iter().map(|(origin, _)| origin.message_id()).collect()
}

#[test]
fn a_message_has_one_identity_and_one_timestamp_for_readers_here_and_elsewhere() {
    let mut wire = Wire::new(3);
    let readers = [0, 1, 2].map(|place| wire.subscribe(place, "prices/*"));
    wire.run(SECOND);
    let mut numbers = Vec::new();
    for (topic, wait_ms) in [("prices/A", 0), ("nobody/wants", 0), ("prices/B", 7), ("prices/C", 0)] {
        numbers.push(wire.publish(0, topic, b"x"));
        wire.run(Duration::from_millis(wait_ms));
    }
    wire.run(SECOND);
    assert_eq!(numbers, [1, 2, 3, 4]);
    let [here, one, two] = readers.map(|reader| read(&reader));
    let publisher = wire.nodes[0].hub().publisher();
    assert_eq!(here.len(), 3);
    assert_eq!(ids(&here)[1], Some(format!("ID:{publisher:016x}-{NORMAL}-3")));
    for elsewhere in [one, two] {
        assert_eq!(ids(&elsewhere), ids(&here));
        let times = |found: &[(Origin, Vec<u8>)]| -> Vec<u64> {
            found.iter().map(|(origin, _)| origin.timestamp_us).collect()
        };
        assert_eq!(times(&elsewhere), times(&here));
    }
    assert!(here[2].0.timestamp_us > here[0].0.timestamp_us);
    assert!(here[0].0.timestamp_us > support::WALL_START_US);
}

#[test]
fn what_nobody_wants_is_not_sent_and_filters_decide_before_anything_is_sent() {
    let mut wire = Wire::new(2);
    let everything = Interest::topics(TopicPattern::new("prices/*").unwrap());
    let low = Selector::parse("JMSPriority < 3").unwrap();
    let reader = wire.subscribe_to(1, Interest { selector: Some(low), ..everything });
    wire.run(SECOND);
    let before = segments_sent(&wire);
    for _ in 0..100 {
        wire.publish(0, "orders/1", &[0; 1000]);
        wire.publish(0, "prices/ACME", &[0; 1000]);
    }
    wire.run(SECOND);
    assert_eq!(segments_sent(&wire), before);
    assert_eq!(read(&reader), []);
}

#[test]
fn subscriptions_are_announced_as_changes_and_a_newcomer_gets_all_of_them() {
    let mut wire = Wire::new(2);
    let before = wire.bytes;
    const COUNT: u64 = 20_000;
    for number in 0..COUNT {
        let interest =
            Interest::topics(TopicPattern::new(&format!("sensors/building/{number:08}/*")).unwrap());
        let bounds = (1000, shoal_node::hub::Overflow::Wait);
        let now = wire.now;
        wire.nodes[0].subscribe(now, interest, bounds, false);
        if number % 100 == 0 {
            wire.run(Duration::from_millis(1));
        }
    }
    wire.run(2 * SECOND);
    let each = (wire.bytes - before) / COUNT;
    assert!(each < 300, "{each} bytes for each of {COUNT} subscriptions");
    assert_eq!(wire.nodes[1].hub().interested(b"sensors/building/00019999/t"), [1]);
    assert_eq!(wire.nodes[1].hub().interested(b"sensors/building/00020000/t"), []);
}

#[test]
fn a_flush_is_over_when_every_member_has_everything_and_names_who_has_not() {
    let mut wire = Wire::new(3);
    let readers = [1, 2].map(|place| wire.subscribe(place, ">"));
    wire.run(SECOND);
    for _ in 0..1000 {
        wire.publish(0, "a", &[7; 500]);
    }
    let now = wire.now;
    let flush = wire.nodes[0].begin_flush(now);
    wire.run(SECOND);
    assert_eq!(wire.nodes[0].flush_state(flush), FlushState::Done(vec![]));
    assert_eq!(readers.map(|reader| read(&reader).len()), [1000, 1000]);
    wire.stopped[2] = true;
    wire.publish(0, "a", b"one more");
    let now = wire.now;
    let flush = wire.nodes[0].begin_flush(now);
    wire.run(SECOND + SECOND / 2);
    assert_eq!(wire.nodes[0].flush_state(flush), FlushState::Done(vec![3]));
}

#[test]
fn a_member_that_joined_just_now_loses_nothing_of_a_fast_publisher_before_its_first_acknowledgement() {
    const MESSAGE: [u8; 10_000] = [7; 10_000];
    let mut wire = Wire::new(2);
    let first = wire.subscribe(1, "a");
    wire.run(SECOND);
    wire.publish(0, "a", b"for the first reader alone");
    wire.run(SECOND);
    wire.add(&config(3));
    let second = wire.subscribe(2, "a");
    while wire.nodes[0].hub().interested(b"a") != [2, 3] {
        wire.run(Duration::from_micros(100));
    }
    // It hears nothing for less time than anybody is waited for. Meanwhile there is more to send than can be kept.
    let deaf = Rc::new(Cell::new(true));
    let is_deaf = Rc::clone(&deaf);
    wire.passes = Box::new(move |_, to| to != 2 || !is_deaf.get());
    let (mut published, mut received) = (1, [read(&first).len(), read(&second).len()]);
    assert_eq!(received, [1, 0]);
    for step in 0..100 {
        if step == 30 {
            deaf.set(false);
        }
        while published < 2000 && wire.publish_if_room(0, "a", &MESSAGE).is_some() {
            published += 1;
        }
        wire.run(Duration::from_millis(10));
        received[0] += read(&first).len();
        received[1] += read(&second).len();
    }
    let lost = wire.events.iter().filter(|(_, event)| matches!(event, HubEvent::Lost(_)));
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<&(usize, HubEvent)>::new());
    assert_eq!((published, received), (2000, [2000, 1999]));
}

#[test]
fn a_node_that_was_taken_for_dead_is_told_every_number_it_missed() {
    let mut wire = Wire::new(3);
    let (reader, other) = (wire.subscribe(1, "a"), wire.subscribe(2, "b"));
    wire.run(SECOND);
    for _ in 0..10 {
        wire.publish(0, "a", b"before");
    }
    wire.run(SECOND);
    assert_eq!(read(&reader).len(), 10);
    wire.stopped[1] = true;
    wire.run(5 * SECOND);
    assert!(wire.events.contains(&(0, HubEvent::Gone(2, shoal_node::hub::Departure::Failed))));
    wire.events.clear();
    // Only the stopped node wants these, so they are not sent; what another one wants is.
    for number in 11..=40 {
        assert_eq!(wire.publish(0, if number % 10 == 5 { "b" } else { "a" }, b"meanwhile"), number);
    }
    wire.run(SECOND);
    assert_eq!(read(&other).len(), 3);
    wire.go_on(1);
    wire.run(5 * SECOND);
    wire.publish(0, "a", b"after");
    wire.run(SECOND);
    let found = read(&reader);
    assert_eq!(found.last().map(|(origin, _)| origin.number), Some(41));
    let lost = |event: &(usize, HubEvent)| match event {
        (1, HubEvent::Lost(Lost { first, last, .. })) => Some(*first..=*last),
        _ => None,
    };
    let lost: Vec<_> = wire.events.iter().filter_map(lost).collect();
    let got: Vec<u64> = found.iter().map(|(origin, _)| origin.number).collect();
    for number in (11..=40).filter(|number| number % 10 != 5) {
        let told = lost.iter().any(|range| range.contains(&number));
        assert!(told || got.contains(&number), "{number} is missing without a word: {lost:?}, {got:?}");
    }
    assert!(lost.iter().all(|range| *range.start() > 10 && *range.end() <= 40), "{lost:?}");
}

#[test]
fn a_publisher_that_leaves_says_how_far_it_came() {
    let mut wire = Wire::new(2);
    let reader = wire.subscribe(1, "a");
    wire.run(SECOND);
    wire.publish(0, "a", b"heard");
    wire.run(SECOND);
    // Its last messages are lost on the way, and it does not wait.
    wire.passes = Box::new(|from, _| from != 0);
    for _ in 0..5 {
        wire.publish(0, "a", b"lost");
    }
    wire.publish(0, "nobody/wants", b"");
    wire.run(Duration::from_millis(1));
    wire.passes = Box::new(|_, _| true);
    let now = wire.now;
    wire.nodes[0].leave(now);
    wire.run(10 * SECOND);
    assert!(wire.nodes[0].has_left());
    assert_eq!(read(&reader).len(), 1);
    let lost: Vec<_> = wire.events.iter().filter(|(_, event)| matches!(event, HubEvent::Lost(_))).collect();
    let [(1, HubEvent::Lost(Lost { first: 2, last, publisher, chain: NORMAL, .. }))] = lost[..] else {
        panic!("{:?}", wire.events);
    };
    assert_eq!((*last, *publisher), (7, wire.nodes[0].hub().publisher()));
}

#[test]
fn what_a_filter_left_out_is_not_lost_when_its_publisher_leaves() {
    for selector in ["JMSPriority > 8", "JMSPriority < 9"] {
        let mut wire = Wire::new(1);
        wire.run(5 * SECOND);
        wire.add(&config(2));
        let all = Interest::topics(TopicPattern::new("a").unwrap());
        let reader =
            wire.subscribe_to(1, Interest { selector: Some(Selector::parse(selector).unwrap()), ..all });
        wire.run(3 * SECOND);
        (0..20).for_each(|_| _ = wire.publish(0, "a", b"x"));
        wire.run(SECOND);
        wire.nodes[0].hub().stop_publishing();
        wire.run(SECOND);
        let now = wire.now;
        wire.nodes[0].leave(now);
        wire.run(10 * SECOND);
        assert_eq!(read(&reader).len(), if selector.contains('<') { 20 } else { 0 });
        let is_lost = wire.events.iter().any(|(_, event)| matches!(event, HubEvent::Lost(_)));
        assert!(!is_lost, "{selector}: {:?}", wire.events);
    }
}

#[test]
fn messages_arrive_once_and_in_order_though_the_wire_loses_a_tenth() {
    let mut wire = Wire::new(3);
    let readers = [1, 2].map(|place| wire.subscribe(place, "a"));
    wire.run(SECOND);
    let mut random = fastrand::Rng::with_seed(7);
    wire.passes = Box::new(move |_, _| random.f64() >= 0.1);
    for number in 0..2000u64 {
        wire.publish(0, "a", &number.to_be_bytes());
        if number % 50 == 0 {
            wire.publish(0, "nobody/wants", b"");
        }
        if number % 20 == 0 {
            wire.run(Duration::from_millis(2));
        }
    }
    wire.run(5 * SECOND);
    for reader in readers {
        let found = read(&reader);
        let bodies: Vec<u64> =
            found.iter().map(|(_, body)| u64::from_be_bytes(body[..].try_into().unwrap())).collect();
        assert_eq!(bodies, (0..2000).collect::<Vec<_>>());
        assert!(found.is_sorted_by(|one, two| one.0.number < two.0.number || two.0.number == 0));
    }
    assert!(!wire.events.iter().any(|(_, event)| matches!(event, HubEvent::Lost(_))), "{:?}", wire.events);
}

#[test]
fn a_long_message_that_is_under_way_when_its_publisher_takes_another_node_id_arrives_once() {
    let mut wire = Wire::new(2);
    let reader = wire.subscribe(1, "long");
    wire.run(SECOND);
    // The reader gets the first half: far more than is read again in any case.
    let left = Rc::new(Cell::new(300));
    let gate = left.clone();
    wire.passes = Box::new(move |from, to| {
        if (from, to) == (0, 1) {
            gate.set(gate.get() - 1);
        }
        // The twin, who comes later, does not hear that somebody has its id: the publisher takes another one.
        (from, to) != (0, 2) && ((from, to) != (0, 1) || gate.get() >= 0)
    });
    let body = vec![7; 900_000];
    wire.publish(0, "long", &body);
    wire.run(Duration::from_millis(1));
    let acknowledged = |session: &shoal_norm::Session| session.acknowledged_segments(NORMAL as u16);
    let (acknowledged, sent) =
        (wire.nodes[0].sessions().map(acknowledged).sum::<u64>(), segments_sent(&wire));
    assert!(acknowledged > 100 && acknowledged < sent, "{acknowledged} of {sent}");

    let mut twin = config(1);
    let (norm, membership) = &mut twin.links[0];
    (norm.instance, norm.seed) = (2, 77);
    (twin.hub.publisher, membership.publisher) = (77, 77);
    wire.add(&twin);
    wire.run(SECOND / 10);
    left.set(i32::MAX);
    wire.run(5 * SECOND);
    let found = read(&reader);
    assert_eq!(found.iter().map(|(_, body)| body.len()).collect::<Vec<_>>(), [body.len()]);
    let node = wire.nodes[0].hub().node();
    assert!(node != 1 && wire.events.contains(&(0, HubEvent::Renamed(1, node))), "{:?}", wire.events);
    assert!(!wire.events.iter().any(|(_, event)| matches!(event, HubEvent::Lost(_))), "{:?}", wire.events);
}

#[test]
fn an_announcement_in_a_command_makes_nobody_a_member() {
    let mut wire = Wire::new(2);
    let mut own = OwnInterest::new();
    own.subscribe(&InterestEntry::new(DestinationKind::Topic, "a")).unwrap();
    let announced =
        own.full(Announcer { domain: 7, publisher: 99, heartbeat_ms: 1000, groups: Default::default() }, &[]);
    let header = SenderHeader { sequence: 1, source: 99, instance: 1, grtt: 0, backoff: 0, group_size: 1 };
    let mut datagram = Vec::new();
    command::write_application(&header, &announced[0], &mut datagram);
    let from = Source { address: "10.0.0.99:7474".parse().unwrap(), unicast: false, waited: Duration::ZERO };
    for _ in 0..10 {
        let now = wire.now;
        wire.nodes[0].handle_datagram(now, 0, from, &datagram);
        wire.run(Duration::from_millis(20));
    }
    assert_eq!(wire.nodes[0].hub().members(), [2]);
}
