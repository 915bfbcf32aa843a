//! TCP links on wires without sockets: connections that break at any byte, come late, and are made from both ends at once.
//!
//! `TCP_SEEDS=10000 cargo test -p shoal-node --test tcp` searches for longer; a failure names its seed.

#[path = "../../norm/tests/support/counting.rs"]
mod counting;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use shoal_node::hub::{
    Asleep, Attempt, Consumer, Departure, FlushState, Hub, Overflow, Patience, Publication, Silent, WhenFull,
};
use shoal_node::tcp::{ConnectionId, Over, Role, TcpConfig, TcpLinks, TcpNews};
use shoal_node::{HubConfig, HubEvent, Interest, Moment};
use shoal_norm::Time;
use shoal_wire::{BodyKind, Destination, MessageView, Outgoing, Topic, TopicPattern};

const LANES: [usize; 2] = [2, 4];
const HEARTBEAT: Duration = Duration::from_millis(500);

fn seeds(usual: u64) -> u64 {
    std::env::var("TCP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A node with one reader of everything.
struct Node {
    hub: Arc<Hub>,
    links: TcpLinks,
    consumer: Arc<Consumer>,
    reading: bool,
    /// Publisher, chain and number, in the order read.
    read: Vec<(u64, u32, u64)>,
    events: Vec<HubEvent>,
    /// The last number published in each lane.
    published: BTreeMap<usize, u64>,
}

impl Node {
    fn new(publisher: u64, number: usize, resume: Duration, domain: &str, queue: usize) -> Node {
        Node::with_patience(publisher, number, resume, domain, queue, FOR_EVER)
    }

    fn with_patience(
        publisher: u64,
        number: usize,
        resume: Duration,
        domain: &str,
        queue: usize,
        patience: Duration,
    ) -> Node {
        let config = HubConfig {
            publisher,
            node: number as u32 + 1,
            lanes: 5,
            lane_bytes_max: 2000,
            message_bytes_max: 1 << 20,
            assembly_bytes_max: 1 << 20,
            seed: 1,
        };
        let hub = Hub::new(&config, Arc::new(Asleep));
        let tcp = TcpConfig {
            domain: domain.to_owned(),
            domain_number: 7,
            software: format!("shoal {number}"),
            heartbeat: HEARTBEAT,
            missed_heartbeats_max: 4,
            resume,
            patience,
            window_bytes: 3000,
            peers_max: 10,
        };
        let links = TcpLinks::new(hub.clone(), tcp, Box::new(|| Box::new(Silent)));
        let consumer = Arc::new(Consumer::new(queue, Overflow::Wait, Arc::new(Asleep)));
        let interest = Interest::topics(TopicPattern::new(">").unwrap());
        hub.subscribe(interest, consumer.clone(), true);
        Node { hub, links, consumer, reading: true, read: vec![], events: vec![], published: BTreeMap::new() }
    }

    /// Publishes as much as there is room for.
    fn publish(&mut self, now: Time, lane: usize, length: usize) -> bool {
        let (mut head, body) = (Vec::new(), vec![7; length]);
        Outgoing::new(Destination::topic(Topic::new("a").unwrap()), BodyKind::Bytes, &[])
            .encode_head_into(&mut head)
            .unwrap();
        let patience =
            Patience { when_full: WhenFull::Error, patience: Duration::from_secs(1), deadline: None };
        let mut publication = Publication {
            lane,
            parts: [&head, &body],
            expires: false,
            patience,
            caller: None,
            began: None,
            without: Vec::new(),
        };
        let moment = Moment { now, wall_us: 1_700_000_000_000_000 + now.as_nanos() / 1000 };
        match self.hub.publish(&moment, &self.hub.plan(b"a"), &mut publication) {
            Attempt::Done(number) => self.published.insert(lane, number).is_none_or(|last| last < number),
            _ => false,
        }
    }

    fn take(&mut self) {
        while self.reading
            && let Some(taken) = self.consumer.take()
            && !taken.batches.is_empty()
        {
            for batch in &taken.batches {
                for entry in &batch.entries {
                    assert!(MessageView::parse(batch.record(entry)).is_ok());
                    let origin = batch.origin(entry);
                    self.read.push((origin.publisher, origin.chain, origin.number));
                }
            }
        }
        self.events.extend(self.hub.take_events());
    }

    fn lost(&self) -> Vec<(u64, u32, u64, u64)> {
        let lost = |event: &HubEvent| match event {
            HubEvent::Lost(lost) => Some((lost.publisher, lost.chain, lost.first, lost.last)),
            _ => None,
        };
        self.events.iter().filter_map(lost).collect()
    }
}

/// One end of a wire.
struct End {
    node: usize,
    /// Opened at this time; then it is there.
    opens: Time,
    open: bool,
    role: Role,
    /// On its way to this end.
    coming: VecDeque<(Time, Vec<u8>)>,
    /// This end hears at this time that the connection broke.
    ends: Option<Time>,
    over: bool,
}

struct Wire {
    id: ConnectionId,
    ends: [End; 2],
    /// Nothing more gets through.
    cut: bool,
}

/// Somebody who keeps connecting.
#[derive(Clone, Debug)]
struct Dialler {
    from: usize,
    to: usize,
    last: Option<u64>,
    connection: Option<ConnectionId>,
    dial_at: Time,
    refused: Option<String>,
    standby: bool,
}

struct World {
    rng: Rng,
    now: Time,
    nodes: Vec<Node>,
    wires: Vec<Wire>,
    diallers: Vec<Dialler>,
    next: ConnectionId,
    ups: usize,
}

impl World {
    fn new(seed: u64, nodes: Vec<Node>) -> World {
        let now = Time::from_nanos(1_000_000_000);
        World { rng: Rng::with_seed(seed), now, nodes, wires: vec![], diallers: vec![], next: 1, ups: 0 }
    }

    fn dialler(&mut self, from: usize, to: usize) {
        let dial_at = self.now;
        self.diallers.push(Dialler {
            from,
            to,
            last: None,
            connection: None,
            dial_at,
            refused: None,
            standby: false,
        });
    }

    fn latency(&mut self) -> Duration {
        Duration::from_micros(self.rng.u64(100..20_000))
    }

    fn dial(&mut self) {
        for at in 0..self.diallers.len() {
            let Dialler { from, to, last, connection, dial_at, standby, .. } = self.diallers[at].clone();
            let is_up = |state: &shoal_node::tcp::LinkState| {
                Some(state.publisher) == last && state.connection.is_some()
            };
            if standby && self.nodes[from].links.states(self.now).iter().any(is_up) {
                continue;
            }
            if connection.is_some() || self.now < dial_at {
                continue;
            }
            let id = self.next;
            self.next += 1;
            let opens = [self.now + self.latency(), self.now + self.latency()];
            let end = |node, opens, role| End {
                node,
                opens,
                open: false,
                role,
                coming: VecDeque::new(),
                ends: None,
                over: false,
            };
            let ends = [end(from, opens[0], Role::Dialled(last)), end(to, opens[1], Role::Accepted)];
            self.wires.push(Wire { id, ends, cut: false });
            let dialler = &mut self.diallers[at];
            (dialler.connection, dialler.standby) = (Some(id), false);
        }
    }

    fn news(&mut self) {
        for node in 0..self.nodes.len() {
            while let Some(news) = self.nodes[node].links.poll_news() {
                let (TcpNews::Up { connection, .. } | TcpNews::Over { connection, .. }) = &news;
                let later = self.now + Duration::from_millis(self.rng.u64(1..50));
                let Some(dialler) = self
                    .diallers
                    .iter_mut()
                    .find(|dialler| dialler.from == node && dialler.connection == Some(*connection))
                else {
                    continue;
                };
                match news {
                    TcpNews::Up { publisher, .. } => {
                        dialler.last = Some(publisher);
                        self.ups += 1;
                    }
                    TcpNews::Over { why, .. } => {
                        (dialler.connection, dialler.dial_at) = (None, later);
                        match why {
                            Over::Refused(why) => {
                                dialler.refused = Some(why);
                                dialler.dial_at = Time::NEVER;
                            }
                            Over::Duplicate(publisher) => {
                                (dialler.last, dialler.standby) = (Some(publisher), true);
                            }
                            Over::Stale(publisher) => dialler.last = Some(publisher),
                            _ => {}
                        }
                    }
                }
            }
        }
    }

    /// Moves bytes along a wire.
    fn carry(&mut self, at: usize) {
        for side in 0..2 {
            let latency = self.latency();
            let Wire { id, ends, cut } = &mut self.wires[at];
            let id = *id;
            let end = &mut ends[side];
            let node = &mut self.nodes[end.node];
            if !end.open && !end.over && self.now >= end.opens {
                end.open = true;
                let fresh = self.rng.u64(1..);
                node.links.open(self.now, id, end.role, fresh);
            }
            if !end.open || end.over {
                continue;
            }
            while let Some((due, bytes)) = end.coming.pop_front() {
                if due > self.now {
                    end.coming.push_front((due, bytes));
                    break;
                }
                node.links.handle_bytes(self.now, id, &bytes);
            }
            if end.ends.is_some_and(|ends| self.now >= ends) {
                end.over = true;
                node.links.handle_end(self.now, id, "the wire broke");
                continue;
            }
            let bytes = node.links.transmit(self.now, id);
            let part = self.rng.usize(0..=bytes.len());
            let written = if self.rng.u8(..) < 100 { part } else { bytes.len() };
            let bytes = bytes[..written].to_vec();
            node.links.written(self.now, id, written);
            let ending = node.links.is_ending(id);
            let other = &mut ends[1 - side];
            if !*cut && !bytes.is_empty() {
                let last = other.coming.back().map_or(Time::ZERO, |(due, _)| *due);
                let due = (self.now + latency).max(last);
                let cut = self.rng.usize(0..=bytes.len());
                let (one, two) = bytes.split_at(cut);
                other.coming.extend(
                    [(due, one.to_vec()), (due, two.to_vec())].into_iter().filter(|b| !b.1.is_empty()),
                );
            }
            if ending && other.ends.is_none() {
                let last = other.coming.back().map_or(self.now, |(due, _)| *due);
                other.ends = Some(last + latency);
                if !other.open {
                    other.ends = Some(other.opens.max(last) + latency);
                }
            }
        }
    }

    /// Breaks a wire: what is on its way is cut somewhere, and each end hears of it some time, or only by silence.
    fn break_wire(&mut self, at: usize) {
        let mut heard = [self.latency() * 5, self.latency() * 5];
        if self.rng.u8(..) < 40 {
            heard[self.rng.usize(0..2)] = Duration::from_secs(1000);
        }
        let wire = &mut self.wires[at];
        wire.cut = true;
        for (end, heard) in wire.ends.iter_mut().zip(heard) {
            let keep = self.rng.usize(0..=end.coming.len());
            end.coming.truncate(keep);
            if let Some((_, bytes)) = end.coming.back_mut() {
                bytes.truncate(self.rng.usize(0..=bytes.len()));
            }
            end.ends = Some(self.now + heard);
        }
    }

    fn step(&mut self) {
        self.dial();
        for at in 0..self.wires.len() {
            self.carry(at);
        }
        for node in &mut self.nodes {
            node.links.handle_timeout(self.now);
            node.take();
            while let Some(id) = node.links.poll_close() {
                let wires = self.wires.iter_mut().filter(|wire| wire.id == id);
                for end in wires.flat_map(|wire| &mut wire.ends) {
                    end.ends.get_or_insert(self.now);
                }
            }
        }
        self.news();
        self.wires.retain(|wire| !wire.ends.iter().all(|end| end.over));
        self.now += Duration::from_micros(self.rng.u64(100..3000));
    }

    fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&World) -> bool) -> bool {
        let end = self.now + limit;
        while self.now < end {
            if done(self) {
                return true;
            }
            self.step();
        }
        done(self)
    }

    fn is_meshed(&self, links: usize) -> bool {
        let known: usize = self.nodes.iter().map(|node| node.hub.interested(b"a").len()).sum();
        known == 2 * links
    }
}

/// What one reader has of one chain.
fn numbers(node: &Node, publisher: u64, chain: usize) -> Vec<u64> {
    let of_chain = |read: &&(u64, u32, u64)| (read.0, read.1) == (publisher, chain as u32);
    node.read.iter().filter(of_chain).map(|read| read.2).collect()
}

const FOR_EVER: Duration = Duration::from_secs(100_000);

#[test]
fn whatever_breaks_every_message_arrives_once_and_in_order_as_long_as_sessions_last() {
    for seed in 0..seeds(100) {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(2..4);
        let queue = if rng.bool() { 300 } else { 1 << 20 };
        let mut nodes: Vec<Node> =
            (0..count).map(|number| Node::new(rng.u64(1..), number, FOR_EVER, "desk", queue)).collect();
        rng.shuffle(&mut nodes);
        let mut world = World::new(seed, nodes);
        let mut links = 0;
        for from in 0..count {
            for to in from + 1..count {
                links += 1;
                match rng.u8(0..3) {
                    0 => world.dialler(from, to),
                    1 => world.dialler(to, from),
                    _ => {
                        world.dialler(from, to);
                        world.dialler(to, from);
                    }
                }
            }
        }
        assert!(
            world.run_until(Duration::from_secs(10), |world| world.is_meshed(links)),
            "seed {seed}: no mesh"
        );
        for _ in 0..rng.usize(50..600) {
            let node = rng.usize(0..count);
            match rng.u8(..) {
                0..=3 if !world.wires.is_empty() => {
                    let wire = rng.usize(0..world.wires.len());
                    world.break_wire(wire);
                }
                4..=10 => world.nodes[node].reading ^= true,
                _ => {
                    let (lane, length) = (*rng.choice(LANES.iter()).unwrap(), rng.usize(0..400));
                    let now = world.now;
                    world.nodes[node].publish(now, lane, length);
                }
            }
            world.step();
        }
        world.nodes.iter_mut().for_each(|node| node.reading = true);
        let flushes: Vec<_> = world.nodes.iter().map(|node| node.hub.begin_flush()).collect();
        let flushed = |world: &World| {
            let over = |(node, id): (&Node, &u64)| node.hub.flush_state(*id) == FlushState::Done(vec![]);
            world.nodes.iter().zip(&flushes).all(over)
        };
        assert!(
            world.run_until(Duration::from_secs(120), flushed),
            "seed {seed}: not everybody has everything"
        );
        // Everybody has it, and reads it.
        for _ in 0..5 {
            world.step();
        }
        for publisher in &world.nodes {
            for (&lane, &last) in &publisher.published {
                for reader in
                    world.nodes.iter().filter(|node| node.hub.publisher() != publisher.hub.publisher())
                {
                    let read = numbers(reader, publisher.hub.publisher(), lane);
                    assert_eq!(read, (1..=last).collect::<Vec<_>>(), "seed {seed}");
                }
            }
        }
        for node in &world.nodes {
            assert_eq!(node.lost(), [], "seed {seed}");
            let gone = node.events.iter().filter(|event| matches!(event, HubEvent::Gone(..)));
            assert_eq!(gone.count(), 0, "seed {seed}: {:?}", node.events);
        }
    }
}

#[test]
fn where_sessions_end_what_is_missing_is_told_and_nothing_comes_twice() {
    let (mut ended, mut told) = (0, 0);
    for seed in 0..seeds(40) {
        let mut rng = Rng::with_seed(seed);
        let resume = Duration::from_millis(rng.u64(20..400));
        let mut nodes: Vec<Node> =
            (0..2).map(|number| Node::new(rng.u64(1..), number, resume, "desk", 1 << 20)).collect();
        rng.shuffle(&mut nodes);
        let mut world = World::new(seed, nodes);
        world.dialler(0, 1);
        if rng.bool() {
            world.dialler(1, 0);
        }
        assert!(world.run_until(Duration::from_secs(10), |world| world.is_meshed(1)), "seed {seed}");
        for _ in 0..rng.usize(100..500) {
            let node = rng.usize(0..2);
            match rng.u8(..) {
                0..=5 if !world.wires.is_empty() => {
                    let wire = rng.usize(0..world.wires.len());
                    world.break_wire(wire);
                    if rng.bool() {
                        world
                            .diallers
                            .iter_mut()
                            .for_each(|dialler| dialler.dial_at += Duration::from_millis(500));
                    }
                }
                _ => {
                    let now = world.now;
                    world.nodes[node].publish(now, 2, rng.usize(0..400));
                }
            }
            world.step();
        }
        assert!(world.run_until(Duration::from_secs(60), |world| world.is_meshed(1)), "seed {seed}");
        // Whatever is half open is found out, and nothing breaks any more.
        world.run_until(Duration::from_secs(15), |_| false);
        for node in 0..2 {
            let now = world.now;
            assert!(world.nodes[node].publish(now, 2, 1), "seed {seed}");
        }
        let lasts: Vec<u64> = world.nodes.iter().map(|node| node.published[&2]).collect();
        let has_last = |world: &World| {
            (0..2).all(|node| {
                let other = &world.nodes[1 - node];
                numbers(&world.nodes[node], other.hub.publisher(), 2).last() == Some(&lasts[1 - node])
            })
        };
        assert!(
            world.run_until(Duration::from_secs(60), has_last),
            "seed {seed}: the last message did not come"
        );
        for node in 0..2 {
            let (reader, publisher) = (&world.nodes[node], world.nodes[1 - node].hub.publisher());
            let read = numbers(reader, publisher, 2);
            assert!(read.is_sorted_by(|one, two| one < two), "seed {seed}: {read:?}");
            let mut known = read.clone();
            for (_, _, first, last) in
                reader.lost().into_iter().filter(|lost| (lost.0, lost.1) == (publisher, 2))
            {
                known.extend(first..=last);
                told += 1;
            }
            known.sort_unstable();
            known.dedup();
            let first = known[0];
            assert_eq!(
                known,
                (first..=lasts[1 - node]).collect::<Vec<_>>(),
                "seed {seed}: {:?}",
                reader.lost()
            );
            let gone = |event: &&HubEvent| matches!(event, HubEvent::Gone(_, Departure::Failed));
            ended += reader.events.iter().filter(gone).count();
        }
    }
    assert!(ended > 10 && told > 10, "{ended} sessions ended, {told} losses");
}

fn pair(domains: [&str; 2]) -> World {
    let nodes = (0..2).map(|at| Node::new(at as u64 + 1, at, Duration::from_secs(1), domains[at], 1 << 20));
    let mut world = World::new(1, nodes.collect());
    world.dialler(0, 1);
    world
}

#[test]
fn nobody_of_another_domain_is_let_in_and_the_refusal_names_both() {
    let mut world = pair(["desk", "floor"]);
    assert!(world.run_until(Duration::from_secs(5), |world| world.diallers[0].refused.is_some()));
    assert_eq!(world.diallers[0].refused.as_deref(), Some("its domain is \"floor\", and ours \"desk\""));
    assert_eq!(world.nodes[1].hub.members(), []);
}

#[test]
fn whoever_leaves_says_so_and_is_gone_at_once() {
    let mut world = pair(["desk", "desk"]);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(1)));
    let now = world.now;
    assert!(world.nodes[0].publish(now, 2, 100));
    world.nodes[0].hub.stop_publishing();
    world.nodes[0].links.leave(now, now + Duration::from_secs(5));
    let left = |world: &World| {
        world.nodes[1].events.iter().any(|event| matches!(event, HubEvent::Gone(1, Departure::Left)))
    };
    assert!(world.run_until(Duration::from_secs(1), left));
    assert_eq!(numbers(&world.nodes[1], 1, 2), [1]);
    assert_eq!(world.nodes[1].lost(), []);
}

#[test]
fn a_connection_that_one_end_gives_up_takes_its_session_with_it_at_both() {
    let mut world = pair(["desk", "desk"]);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(1)));
    let now = world.now;
    assert!(world.nodes[0].publish(now, 2, 100));
    let id = world.diallers[0].connection.expect("it is up");
    world.diallers.clear();
    world.nodes[0].links.part(now, id, now + Duration::from_secs(5));
    let left = |at: usize, node: u32| {
        move |world: &World| {
            let gone =
                |event: &HubEvent| matches!(event, HubEvent::Gone(who, Departure::Left) if *who == node);
            world.nodes[at].events.iter().any(gone)
        }
    };
    assert!(world.run_until(Duration::from_secs(1), left(1, 1)));
    assert!(world.run_until(Duration::from_secs(5), left(0, 2)));
    assert_eq!(numbers(&world.nodes[1], 1, 2), [1]);
    assert_eq!(world.nodes[1].lost(), []);
    let now = world.now;
    assert!(world.nodes.iter().all(|node| node.links.states(now).is_empty()), "no session waits");
}

#[test]
fn a_peer_that_takes_nothing_holds_nobody_back_while_another_does_and_is_told_what_it_lost() {
    let patience = Duration::from_millis(500);
    let nodes = (0..3).map(|at| Node::with_patience(at as u64 + 1, at, FOR_EVER, "desk", 500, patience));
    let mut world = World::new(3, nodes.collect());
    world.dialler(0, 1);
    world.dialler(2, 0);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(2)));
    world.nodes[2].reading = false;
    let mut published = 0;
    let end = world.now + Duration::from_secs(20);
    while published < 500 && world.now < end {
        let now = world.now;
        published += usize::from(world.nodes[0].publish(now, 2, 100));
        world.step();
    }
    assert_eq!(published, 500, "the publisher is held back");
    assert!(world.nodes[0].events.contains(&HubEvent::Slow(3)));
    assert!(!world.nodes[0].events.contains(&HubEvent::Slow(2)));
    world.nodes[2].reading = true;
    assert!(world.run_until(Duration::from_secs(5), |world| {
        numbers(&world.nodes[1], 1, 2).len() == 500 && world.nodes[0].links.held_bytes() == 0
    }));
    let now = world.now;
    assert!(world.nodes[0].publish(now, 2, 1));
    assert!(
        world.run_until(Duration::from_secs(5), |world| numbers(&world.nodes[2], 1, 2).last() == Some(&501))
    );
    let read = numbers(&world.nodes[2], 1, 2);
    let lost: u64 = world.nodes[2].lost().iter().map(|lost| lost.3 - lost.2 + 1).sum();
    assert!(lost > 0);
    assert_eq!(read.len() as u64 + lost, 501);
}

#[test]
fn where_there_is_no_memory_for_what_waits_a_connection_ends_and_another_brings_it_again() {
    let nodes = (0..2).map(|at| Node::new(at as u64 + 1, at, FOR_EVER, "desk", 500));
    let mut world = World::new(5, nodes.collect());
    world.dialler(0, 1);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(1)));
    world.nodes[1].reading = false;
    let mut published = 0;
    let (refused, ()) = counting::without_pieces(16 << 10, || {
        for _ in 0..1000 {
            let now = world.now;
            published += u64::from(world.nodes[0].publish(now, 2, 100));
            world.step();
        }
    });
    assert!(refused > 0, "nothing had to wait");
    assert!(world.ups > 2, "no connection ended");
    world.nodes[1].reading = true;
    assert!(world.run_until(Duration::from_secs(20), |world| {
        numbers(&world.nodes[1], 1, 2).len() as u64 == published
    }));
    assert_eq!(numbers(&world.nodes[1], 1, 2), (1..=published).collect::<Vec<_>>());
    assert_eq!(world.nodes[1].lost(), []);
}

#[test]
fn a_silent_connection_is_closed_and_so_is_one_that_never_says_who_it_is() {
    let mut world = pair(["desk", "desk"]);
    let links = &mut world.nodes[1].links;
    let now = Time::from_nanos(1_000_000_000);
    for id in 1000..1200 {
        links.open(now, id, Role::Accepted, 1);
    }
    assert!(links.connections() <= 64, "{} strangers wait", links.connections());
    // A byte now and then does not help.
    for second in 1..8 {
        let now = now + Duration::from_secs(second);
        links.handle_bytes(now, 1199, &b"SHOAL/"[..1.min(second as usize)]);
        links.handle_timeout(now);
    }
    assert_eq!(links.connections(), 0);
}

#[test]
fn any_bytes_are_refused_without_harm_before_and_after_a_greeting() {
    for seed in 0..seeds(300) {
        let mut rng = Rng::with_seed(seed);
        let mut world = pair(["desk", "desk"]);
        assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(1)));
        let now = world.now;
        // Real bytes of the session, changed somewhere, on another connection, or on the same one.
        world.nodes[0].publish(now, 2, 300);
        let id = world.wires[0].id;
        let mut bytes = world.nodes[0].links.transmit(now, id).to_vec();
        if rng.bool() {
            bytes = (0..rng.usize(1..2000)).map(|_| rng.u8(..)).collect();
        }
        for _ in 0..rng.usize(1..5) {
            if !bytes.is_empty() {
                let at = rng.usize(0..bytes.len());
                bytes[at] = rng.u8(..);
            }
        }
        let target = if rng.bool() { id } else { 9999 };
        if target == 9999 {
            world.nodes[1].links.open(now, target, Role::Accepted, 5);
        }
        for part in bytes.chunks(rng.usize(1..300)) {
            world.nodes[1].links.handle_bytes(now, target, part);
        }
        world.nodes[1].links.handle_timeout(now);
        world.nodes[1].take();
        assert!(world.nodes[1].links.held_bytes() < 100_000, "seed {seed}");
    }
}
