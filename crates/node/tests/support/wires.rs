//! TCP links of several nodes on wires without sockets, clock or threads.

// Each test program uses a part of it, and the compiler looks at one program at a time.
#![allow(dead_code)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use shoal_node::hub::{Asleep, Attempt, Consumer, Hub, Overflow, Patience, Publication, Silent, WhenFull};
use shoal_node::tcp::{ConnectionId, Over, Role, TcpConfig, TcpLinks, TcpNews};
use shoal_node::{HubConfig, HubEvent, Interest, Moment, SubscriptionId};
use shoal_norm::Time;
use shoal_wire::{BodyKind, Destination, MessageView, Outgoing, Topic, TopicPattern};

pub const HEARTBEAT: Duration = Duration::from_millis(500);

pub fn hub_config(publisher: u64, node: u32) -> HubConfig {
    HubConfig {
        publisher,
        node,
        lanes: 5,
        lane_bytes_max: 2000,
        message_bytes_max: 1 << 20,
        assembly_bytes_max: 1 << 20,
        seed: 1,
    }
}

pub fn tcp_config() -> TcpConfig {
    TcpConfig {
        domain: "desk".to_owned(),
        domain_number: 7,
        software: "shoal".to_owned(),
        heartbeat: HEARTBEAT,
        missed_heartbeats_max: 4,
        resume: FOR_EVER,
        patience: FOR_EVER,
        window_bytes: 3000,
        peers_max: 10,
    }
}

/// A node with one reader of everything.
pub struct Node {
    pub hub: Arc<Hub>,
    pub links: TcpLinks,
    pub subscription: SubscriptionId,
    pub consumer: Arc<Consumer>,
    pub reading: bool,
    /// Publisher, chain and number, in the order read.
    pub read: Vec<(u64, u32, u64)>,
    pub events: Vec<HubEvent>,
    /// The last number published in each lane.
    pub published: BTreeMap<usize, u64>,
}

impl Node {
    pub fn new(publisher: u64, number: usize, resume: Duration, domain: &str, queue: usize) -> Node {
        Node::with_patience(publisher, number, resume, domain, queue, FOR_EVER)
    }

    pub fn with_patience(
        publisher: u64,
        number: usize,
        resume: Duration,
        domain: &str,
        queue: usize,
        patience: Duration,
    ) -> Node {
        let tcp = TcpConfig {
            domain: domain.to_owned(),
            software: format!("shoal {number}"),
            resume,
            patience,
            ..tcp_config()
        };
        Node::made(&hub_config(publisher, number as u32 + 1), tcp, queue)
    }

    pub fn made(config: &HubConfig, tcp: TcpConfig, queue: usize) -> Node {
        let hub = Hub::new(config, Arc::new(Asleep));
        let links = TcpLinks::new(hub.clone(), tcp, Box::new(|| Box::new(Silent)));
        let consumer = Arc::new(Consumer::new(queue, Overflow::Wait, Arc::new(Asleep)));
        let interest = Interest::topics(TopicPattern::new(">").unwrap());
        let subscription = hub.subscribe(Time::ZERO, interest, consumer.clone(), true);
        Node {
            hub,
            links,
            subscription,
            consumer,
            reading: true,
            read: vec![],
            events: vec![],
            published: BTreeMap::new(),
        }
    }

    /// Publishes as much as there is room for.
    pub fn publish(&mut self, now: Time, lane: usize, length: usize) -> bool {
        match self.try_publish(now, lane, length) {
            Attempt::Done(number) => self.published.insert(lane, number).is_none_or(|last| last < number),
            _ => false,
        }
    }

    pub fn try_publish(&mut self, now: Time, lane: usize, length: usize) -> Attempt {
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
        self.hub.publish(&moment, &self.hub.plan(b"a"), &mut publication)
    }

    pub fn take(&mut self) {
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

    pub fn lost(&self) -> Vec<(u64, u32, u64, u64)> {
        let lost = |event: &HubEvent| match event {
            HubEvent::Lost(lost) => Some((lost.publisher, lost.chain, lost.first, lost.last)),
            _ => None,
        };
        self.events.iter().filter_map(lost).collect()
    }
}

/// One end of a wire.
pub struct End {
    pub node: usize,
    /// Opened at this time; then it is there.
    pub opens: Time,
    pub open: bool,
    pub role: Role,
    /// On its way to this end.
    pub coming: VecDeque<(Time, Vec<u8>)>,
    /// This end hears at this time that the connection broke.
    pub ends: Option<Time>,
    pub over: bool,
}

pub struct Wire {
    pub id: ConnectionId,
    pub ends: [End; 2],
    /// Nothing more gets through.
    pub cut: bool,
}

/// Somebody who keeps connecting.
#[derive(Clone, Debug)]
pub struct Dialler {
    pub from: usize,
    pub to: usize,
    pub last: Option<u64>,
    pub connection: Option<ConnectionId>,
    pub dial_at: Time,
    pub refused: Option<String>,
    pub standby: bool,
}

pub struct World {
    pub rng: Rng,
    pub now: Time,
    pub nodes: Vec<Node>,
    pub wires: Vec<Wire>,
    pub diallers: Vec<Dialler>,
    pub next: ConnectionId,
    pub ups: usize,
}

impl World {
    pub fn new(seed: u64, nodes: Vec<Node>) -> World {
        let now = Time::from_nanos(1_000_000_000);
        World { rng: Rng::with_seed(seed), now, nodes, wires: vec![], diallers: vec![], next: 1, ups: 0 }
    }

    pub fn dialler(&mut self, from: usize, to: usize) {
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

    pub fn latency(&mut self) -> Duration {
        Duration::from_micros(self.rng.u64(100..20_000))
    }

    pub fn dial(&mut self) {
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
            let role = if self.rng.bool() { Role::Guest } else { Role::Accepted };
            let ends = [end(from, opens[0], Role::Dialled(last)), end(to, opens[1], role)];
            self.wires.push(Wire { id, ends, cut: false });
            let dialler = &mut self.diallers[at];
            (dialler.connection, dialler.standby) = (Some(id), false);
        }
    }

    pub fn news(&mut self) {
        for node in 0..self.nodes.len() {
            while let Some(news) = self.nodes[node].links.poll_news() {
                if let TcpNews::Asks { connection, .. } = news {
                    // As its owner does who wants everybody.
                    self.nodes[node].links.admit(self.now, connection, None, None);
                }
                let later = self.now + Duration::from_millis(self.rng.u64(1..50));
                let Some(dialler) = self
                    .diallers
                    .iter_mut()
                    .find(|dialler| dialler.from == node && dialler.connection == Some(news.connection()))
                else {
                    continue;
                };
                match news {
                    TcpNews::Asks { .. } | TcpNews::Redirected { .. } | TcpNews::Denied { .. } => {}
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
    pub fn carry(&mut self, at: usize) {
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
    pub fn break_wire(&mut self, at: usize) {
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

    pub fn step(&mut self) {
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

    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&World) -> bool) -> bool {
        let end = self.now + limit;
        while self.now < end {
            if done(self) {
                return true;
            }
            self.step();
        }
        done(self)
    }

    pub fn is_meshed(&self, links: usize) -> bool {
        let known: usize = self.nodes.iter().map(|node| node.hub.interested(b"a").len()).sum();
        known == 2 * links
    }
}

/// What one reader has of one chain.
pub fn numbers(node: &Node, publisher: u64, chain: usize) -> Vec<u64> {
    let of_chain = |read: &&(u64, u32, u64)| (read.0, read.1) == (publisher, chain as u32);
    node.read.iter().filter(of_chain).map(|read| read.2).collect()
}

pub const FOR_EVER: Duration = Duration::from_secs(100_000);
