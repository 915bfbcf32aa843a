//! Whole nodes on a wire without sockets: what one transmits reaches the others at once, unless it is dropped.

#![allow(dead_code, reason = "each test uses some of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use shoal_node::hub::{Attempt, Consumer, Overflow, Patience, Publication, WhenFull};
use shoal_node::norm::{LANES, Lane};
use shoal_node::tcp::TcpConfig;
use shoal_node::{HubConfig, HubEvent, Interest, MembershipConfig, Moment, Node, NodeConfig, Origin};
use shoal_norm::{Config, Destination, NodeId, Source, Time};
use shoal_wire::{BodyKind, Destination as To, MessageView, Outgoing, PriorityClass, Topic, TopicPattern};

pub const QUEUE_BYTES: usize = 4 << 20;

/// When the wire starts, by every clock; wall clocks show something else.
pub const WALL_START_US: u64 = 1_700_000_000_000_000;

pub struct Wire {
    pub now: Time,
    pub nodes: Vec<Node>,
    /// Whether what one node sends reaches another, by their places.
    pub passes: Box<dyn FnMut(usize, usize) -> bool>,
    /// A node that is stopped neither sends nor hears; what is sent to it waits.
    pub stopped: Vec<bool>,
    waiting: Vec<Vec<(SocketAddr, bool, Vec<u8>)>>,
    /// Bytes that all of them transmitted.
    pub bytes: u64,
    pub events: Vec<(usize, HubEvent)>,
}

pub fn config(id: NodeId) -> NodeConfig {
    let mut norm = Config::new(id, 1, u64::from(id));
    norm.acker_patience = Duration::from_millis(500);
    let membership = MembershipConfig {
        domain: 7,
        node: id,
        publisher: 0x1000_0000_0000_0000 + u64::from(id),
        heartbeat: Duration::from_millis(500),
        missed_heartbeats_max: 3,
        members_max: 1000,
        groups: Default::default(),
    };
    NodeConfig {
        hub: HubConfig {
            publisher: 0x1000_0000_0000_0000 + u64::from(id),
            node: id,
            lanes: LANES,
            lane_bytes_max: 1 << 20,
            message_bytes_max: 16 << 20,
            assembly_bytes_max: 32 << 20,
            seed: u64::from(id),
        },
        links: vec![(norm, membership)],
        tcp: TcpConfig {
            domain: "desk".to_owned(),
            domain_number: 7,
            software: "shoal".to_owned(),
            heartbeat: Duration::from_millis(500),
            missed_heartbeats_max: 3,
            resume: Duration::from_secs(10),
            patience: Duration::from_millis(500),
            window_bytes: 1 << 20,
            peers_max: 1000,
        },
        window_bytes: 1 << 20,
        cache_bytes: 4 << 20,
        router: false,
    }
}

fn address(place: usize) -> SocketAddr {
    format!("10.0.0.{}:7474", place + 1).parse().unwrap()
}

impl Wire {
    /// So many nodes that have met.
    pub fn new(count: usize) -> Wire {
        let nodes = (1..=count as NodeId).map(|id| Node::new(&config(id)).unwrap()).collect();
        let mut wire = Wire {
            now: Time::from_nanos(1_000_000_000),
            nodes,
            passes: Box::new(|_, _| true),
            stopped: vec![false; count],
            waiting: (0..count).map(|_| Vec::new()).collect(),
            bytes: 0,
            events: Vec::new(),
        };
        wire.run(Duration::from_millis(2500));
        for node in &wire.nodes {
            assert_eq!(node.hub().members().len(), count - 1);
        }
        wire.events.clear();
        wire
    }

    /// One more node.
    pub fn add(&mut self, config: &NodeConfig) {
        self.nodes.push(Node::new(config).unwrap());
        self.stopped.push(false);
        self.waiting.push(Vec::new());
    }

    pub fn moment(&self) -> Moment {
        Moment { now: self.now, wall_us: WALL_START_US + self.now.as_nanos() / 1000 }
    }

    /// Lets time go by.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.exchange();
            let running = self.nodes.iter().zip(&self.stopped).filter(|(_, stopped)| !**stopped);
            let next = running.map(|(node, _)| node.poll_timeout()).fold(Time::NEVER, Time::min);
            // A step at the least, so that an engine whose deadline has passed does not hold the clock.
            let next = next.max(self.now + Duration::from_micros(100));
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            for place in 0..self.nodes.len() {
                if !self.stopped[place] {
                    self.nodes[place].handle_timeout(self.now);
                }
            }
        }
    }

    /// Hands over what is transmitted until nobody transmits anything more.
    fn exchange(&mut self) {
        loop {
            let mut sent = Vec::new();
            for (place, node) in self.nodes.iter_mut().enumerate().filter(|(place, _)| !self.stopped[*place])
            {
                while let Some(out) = node.poll_transmit(self.now, 0) {
                    for datagram in out.datagrams() {
                        sent.push((place, out.to, datagram.to_vec()));
                    }
                }
            }
            if sent.is_empty() {
                break;
            }
            for (from, to, datagram) in sent {
                self.bytes += datagram.len() as u64;
                for place in (0..self.nodes.len()).filter(|place| *place != from) {
                    let unicast = matches!(to, Destination::Node(_));
                    let meant = match to {
                        Destination::Group => true,
                        Destination::Node(peer) => peer == address(place),
                    };
                    if !meant || !(self.passes)(from, place) {
                        continue;
                    }
                    if self.stopped[place] {
                        // A socket's buffer holds so much.
                        if self.waiting[place].len() < 100 {
                            self.waiting[place].push((address(from), unicast, datagram.clone()));
                        }
                        continue;
                    }
                    let source = Source { address: address(from), unicast, waited: Duration::ZERO };
                    self.nodes[place].handle_datagram(self.now, 0, source, &datagram);
                }
            }
        }
        for (place, node) in self.nodes.iter_mut().enumerate() {
            while let Some(event) = node.poll_event() {
                self.events.push((place, event));
            }
        }
    }

    /// A stopped node goes on, with what waited for it.
    pub fn go_on(&mut self, place: usize) {
        self.stopped[place] = false;
        for (from, unicast, datagram) in std::mem::take(&mut self.waiting[place]) {
            let source = Source { address: from, unicast, waited: Duration::ZERO };
            self.nodes[place].handle_datagram(self.now, 0, source, &datagram);
        }
    }

    pub fn subscribe(&mut self, place: usize, pattern: &str) -> Arc<Consumer> {
        let interest = Interest::topics(TopicPattern::new(pattern).unwrap());
        self.subscribe_to(place, interest)
    }

    pub fn subscribe_to(&mut self, place: usize, interest: Interest) -> Arc<Consumer> {
        let bounds = (QUEUE_BYTES, Overflow::Wait);
        self.nodes[place].subscribe(self.now, interest, bounds, false).1
    }

    pub fn publish(&mut self, place: usize, topic: &str, body: &[u8]) -> u64 {
        match self.offer(place, topic, body, WhenFull::Error) {
            Attempt::Done(number) => number,
            other => panic!("{other:?}"),
        }
    }

    /// Publishes if there is room: the message's number.
    pub fn publish_if_room(&mut self, place: usize, topic: &str, body: &[u8]) -> Option<u64> {
        match self.offer(place, topic, body, WhenFull::Block) {
            Attempt::Done(number) => Some(number),
            Attempt::Wait(_) => None,
            other => panic!("{other:?}"),
        }
    }

    fn offer(&mut self, place: usize, topic: &str, body: &[u8], when_full: WhenFull) -> Attempt {
        let moment = self.moment();
        let mut head = Vec::new();
        Outgoing::new(To::topic(Topic::new(topic).unwrap()), BodyKind::Bytes, &[])
            .encode_head_into(&mut head)
            .unwrap();
        let mut publication = Publication {
            lane: Lane::of(topic.as_bytes(), PriorityClass::Normal).number(),
            parts: [&head, body],
            expires: false,
            patience: Patience { when_full, patience: Duration::from_millis(500), deadline: None },
            caller: None,
            began: None,
            without: Vec::new(),
        };
        self.nodes[place].publish(moment, topic, &mut publication)
    }
}

/// Everything that waits for a subscription: whose, and what.
pub fn read(consumer: &Consumer) -> Vec<(Origin, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        let batches = consumer.take().map(|taken| taken.batches).unwrap_or_default();
        if batches.is_empty() {
            return found;
        }
        for batch in batches {
            for entry in &batch.entries {
                let body = MessageView::parse(batch.record(entry)).unwrap().body().to_vec();
                found.push((batch.origin(entry), body));
            }
        }
    }
}
