//! Best-effort links on a network without sockets that loses, doubles, delays and forges datagrams.
//!
//! `UDP_SEEDS=10000 cargo test -p shoal-node --test udp` searches for longer; a failure names its seed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use shoal_node::hub::{
    Asleep, Attempt, Consumer, Departure, FlushState, Hub, LinkKind, Overflow, Patience, Publication, Silent,
    WhenFull,
};
use shoal_node::udp::{To, UdpConfig, UdpLink, Way};
use shoal_node::{HubConfig, HubEvent, Interest, Moment};
use shoal_norm::Time;
use shoal_wire::{BodyKind, Destination, MessageView, Outgoing, Topic, TopicPattern};

fn seeds(usual: u64) -> u64 {
    std::env::var("UDP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn address(number: usize) -> SocketAddr {
    format!("10.0.0.{}:7474", number + 1).parse().unwrap()
}

struct Node {
    hub: Arc<Hub>,
    link: UdpLink,
    consumer: Arc<Consumer>,
    /// Number and length, in the order read.
    read: Vec<(u64, usize)>,
    events: Vec<HubEvent>,
}

impl Node {
    fn new(number: usize, way: Way, secret: u64) -> Node {
        let config = HubConfig {
            publisher: number as u64 + 100,
            node: number as u32 + 1,
            lanes: 5,
            lane_bytes_max: 1 << 20,
            message_bytes_max: 1 << 20,
            assembly_bytes_max: 1 << 20,
            seed: 1,
        };
        let hub = Hub::new(&config, Arc::new(Asleep));
        let udp = UdpConfig {
            domain: 7,
            way,
            heartbeat: Duration::from_millis(500),
            missed_heartbeats_max: 4,
            datagram_bytes: 300,
            rate: None,
            peers_max: 5,
            secret,
        };
        let link = UdpLink::new(hub.attach("udp", LinkKind::BestEffort, Box::new(Silent)), udp);
        let consumer = Arc::new(Consumer::new(1 << 20, Overflow::Wait, Arc::new(Asleep)));
        hub.subscribe(Time::ZERO, Interest::topics(TopicPattern::new(">").unwrap()), consumer.clone(), true);
        Node { hub, link, consumer, read: vec![], events: vec![] }
    }

    fn publish(&mut self, now: Time, length: usize) {
        let (mut head, body) = (Vec::new(), vec![length as u8; length]);
        Outgoing::new(Destination::topic(Topic::new("a").unwrap()), BodyKind::Bytes, &[])
            .encode_head_into(&mut head)
            .unwrap();
        let patience = Patience { when_full: WhenFull::Error, patience: Duration::ZERO, deadline: None };
        let mut publication = Publication {
            lane: 2,
            parts: [&head, &body],
            expires: false,
            patience,
            caller: None,
            began: None,
            without: Vec::new(),
        };
        let moment = Moment { now, wall_us: 1_700_000_000_000_000 + now.as_nanos() / 1000 };
        let done = self.hub.publish(&moment, &self.hub.plan(b"a"), &mut publication);
        assert!(matches!(done, Attempt::Done(_)));
    }

    fn take(&mut self, now: Time) {
        self.link.hand_over(now);
        while let Some(taken) = self.consumer.take()
            && !taken.batches.is_empty()
        {
            for batch in &taken.batches {
                for entry in &batch.entries {
                    let view = MessageView::parse(batch.record(entry)).unwrap();
                    let body = view.body();
                    assert!(
                        body.iter().all(|&byte| byte == body.len() as u8),
                        "a message is mixed with another"
                    );
                    self.read.push((batch.origin(entry).number, body.len()));
                }
            }
        }
        self.events.extend(self.hub.take_events());
    }

    /// What it sends now: to whom, and each datagram.
    fn sent(&mut self, now: Time) -> Vec<(To, Vec<u8>)> {
        let mut sent = Vec::new();
        while let Some(transmit) = self.link.poll_transmit(now) {
            for datagram in transmit.bytes.chunks(transmit.segment_bytes) {
                sent.push((transmit.to.clone(), datagram.to_vec()));
            }
        }
        sent
    }
}

fn at(millis: u64) -> Time {
    Time::from_nanos(1_000_000_000 + millis * 1_000_000)
}

/// Two nodes of a group, and what is on its way: when, to whom, what.
struct World {
    nodes: [Node; 2],
    coming: Vec<(u64, usize, Vec<u8>)>,
}

impl World {
    fn of_a_group() -> World {
        let group = Way::To("239.1.2.3:7474".parse().unwrap());
        World { nodes: [Node::new(0, group.clone(), 1), Node::new(1, group, 2)], coming: vec![] }
    }

    fn step(&mut self, millis: u64, mut fate: impl FnMut(&mut Vec<u64>)) {
        let now = at(millis);
        for from in 0..2 {
            self.nodes[from].link.handle_timeout(now);
            for (_, datagram) in self.nodes[from].sent(now) {
                let mut delays = vec![1];
                fate(&mut delays);
                self.coming
                    .extend(delays.into_iter().map(|delay| (millis + delay, 1 - from, datagram.clone())));
            }
            self.nodes[from].link.handle_timeout(now);
        }
        let (due, later) =
            std::mem::take(&mut self.coming).into_iter().partition(|&(when, ..)| when <= millis);
        self.coming = later;
        let mut due: Vec<(u64, usize, Vec<u8>)> = due;
        due.sort_by_key(|&(when, ..)| when);
        for (_, to, datagram) in due {
            self.nodes[to].link.handle_datagram(now, address(1 - to), &datagram);
        }
        self.nodes.iter_mut().for_each(|node| node.take(now));
    }
}

#[test]
fn without_loss_everything_arrives_and_a_flush_ends_when_all_is_sent() {
    let mut world = World::of_a_group();
    (0..20).for_each(|millis| world.step(millis, |_| {}));
    assert_eq!((world.nodes[0].hub.members(), world.nodes[1].hub.members()), (vec![2], vec![1]));
    let lengths = [0, 1, 200, 263, 264, 265, 3000];
    for length in lengths {
        world.nodes[0].publish(at(20), length);
    }
    let flush = world.nodes[0].hub.begin_flush();
    (20..40).for_each(|millis| world.step(millis, |_| {}));
    assert_eq!(world.nodes[0].hub.flush_state(flush), FlushState::Done(vec![]));
    let expected: Vec<(u64, usize)> = (1..).zip(lengths).collect();
    assert_eq!(world.nodes[1].read, expected);
    world.nodes[0].link.leave();
    (40..50).for_each(|millis| world.step(millis, |_| {}));
    assert!(world.nodes[0].link.has_left());
    assert!(world.nodes[1].events.contains(&HubEvent::Gone(1, Departure::Left)));
}

#[test]
fn with_loss_copies_and_delay_what_arrives_is_whole_and_in_order_and_never_twice() {
    for seed in 0..seeds(300) {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::of_a_group();
        (0..20).for_each(|millis| world.step(millis, |_| {}));
        let mut lengths = Vec::new();
        for millis in 20..200 {
            for _ in 0..rng.usize(0..4) {
                lengths.push(if rng.u8(..) < 30 { rng.usize(0..2000) } else { rng.usize(0..100) });
                world.nodes[0].publish(at(millis), *lengths.last().unwrap());
            }
            world.step(millis, |delays| match rng.u8(0..10) {
                0 => delays.clear(),
                1 => delays.push(rng.u64(1..10)),
                2 => delays[0] = rng.u64(1..10),
                _ => {}
            });
        }
        (200..1500).for_each(|millis| world.step(millis, |_| {}));
        let read = &world.nodes[1].read;
        assert!(read.len() > lengths.len() / 4, "seed {seed}: {} of {}", read.len(), lengths.len());
        assert!(read.is_sorted_by(|one, two| one.0 < two.0), "seed {seed}: {read:?}");
        for &(number, length) in read {
            assert_eq!(lengths[number as usize - 1], length, "seed {seed}: message {number}");
        }
    }
}

#[test]
fn noise_is_counted_and_changes_nothing() {
    let mut rng = Rng::with_seed(5);
    let mut world = World::of_a_group();
    (0..20).for_each(|millis| world.step(millis, |_| {}));
    world.nodes[0].publish(at(20), 100);
    let mut real: Vec<Vec<u8>> = world.nodes[0].sent(at(20)).into_iter().map(|(_, bytes)| bytes).collect();
    real.push(b"SHU\x03".to_vec());
    for _ in 0..seeds(300) * 100 {
        let mut said = real[rng.usize(0..real.len())].clone();
        match rng.u8(0..3) {
            0 => said.truncate(rng.usize(0..=said.len())),
            1 => {
                let index = rng.usize(0..said.len());
                said[index] ^= 1 << rng.u8(0..8);
            }
            _ => said.extend((0..rng.usize(0..50)).map(|_| rng.u8(..))),
        }
        world.nodes[1].link.handle_datagram(at(21), address(9), &said);
    }
    let counters = world.nodes[1].link.counters();
    assert!(
        counters.malformed > 0 && counters.other_domain > 0 && counters.other_version > 0,
        "{counters:?}"
    );
    // Forged publishers are members for a while, no more of them than the bound.
    assert!(world.nodes[1].hub.members().len() <= 5);
}

#[test]
fn a_listener_sends_to_an_address_only_after_it_said_its_number_again() {
    let mut hub = Node::new(0, Way::Whoever(2), 42);
    let mut leaf = Node::new(1, Way::To(address(0)), 43);
    leaf.link.handle_timeout(at(0));
    for (_, hello) in leaf.sent(at(0)) {
        hub.link.handle_datagram(at(1), address(1), &hello);
        // Somebody says the same in the name of others.
        hub.link.handle_datagram(at(1), address(7), &hello);
    }
    let asked = hub.sent(at(1));
    assert!(asked.iter().all(|(to, _)| matches!(to, To::One(_))));
    assert_eq!(hub.link.destinations().count(), 0);
    for (_, question) in asked.iter().filter(|(to, _)| *to == To::One(address(1))) {
        leaf.link.handle_datagram(at(2), address(0), question);
    }
    for (to, answer) in leaf.sent(at(2)) {
        assert_eq!(to, To::One(address(0)));
        // The number is another one for each address.
        hub.link.handle_datagram(at(3), address(7), &answer);
        hub.link.handle_datagram(at(3), address(1), &answer);
    }
    assert_eq!(hub.link.destinations().collect::<Vec<_>>(), [address(1)]);
    assert_eq!(hub.link.counters().malformed, 1);
    hub.link.handle_timeout(at(10_000));
    assert_eq!(hub.link.destinations().count(), 0);
    hub.take(at(10_000));
    assert!(hub.events.contains(&HubEvent::Gone(2, Departure::Failed)));
}
