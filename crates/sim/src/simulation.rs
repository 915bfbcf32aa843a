//! The simulation: nodes, links and the order of things.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use shoal_norm::{Config, ConfigError, Destination, NodeId, Source, Time};

use crate::agenda::Agenda;
use crate::link::{Conditions, Ingress, Path, Port};
use crate::node::{Clock, Node};

const PORT: u16 = 7400;
const NO_SUCH_NODE: ConfigError =
    ConfigError { field: "node", wanted: "the id of a node of this simulation" };

enum Happening {
    /// A datagram comes out of the network at a node's cable.
    Arrive { to: usize, from: usize, unicast: bool, bytes: Arc<[u8]> },
    /// It is through the cable.
    Receive { to: usize, from: usize, unicast: bool, bytes: Arc<[u8]> },
    /// A node's deadline.
    Wake { node: usize, incarnation: u32 },
}

struct Place {
    node: Node,
    port: Port,
    ingress: Ingress,
    up: bool,
    /// Counts stops and starts; what was meant for an earlier one is void.
    incarnation: u32,
    wake_at: Time,
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// When.
    pub at: Time,
    /// From which node.
    pub from: NodeId,
    /// To which node.
    pub to: NodeId,
    /// What, as it arrived.
    pub bytes: Vec<u8>,
}

/// A network of simulated nodes.
pub struct Simulation {
    now: Time,
    random: fastrand::Rng,
    places: Vec<Place>,
    by_id: HashMap<NodeId, usize>,
    agenda: Agenda<Happening>,
    conditions: Conditions,
    overrides: HashMap<(usize, usize), Conditions>,
    paths: HashMap<(usize, usize), Path>,
    digest: u64,
    datagrams_sent: u64,
    /// Runs of datagrams that nodes handed over.
    runs: u64,
    datagrams_lost: u64,
    /// What arrived, if it is recorded.
    pub trace: Option<Vec<TraceEntry>>,
}

impl Simulation {
    /// An empty network.
    pub fn new(seed: u64) -> Simulation {
        Simulation {
            now: Time::ZERO,
            random: fastrand::Rng::with_seed(seed),
            places: Vec::new(),
            by_id: HashMap::new(),
            agenda: Agenda::default(),
            conditions: Conditions::default(),
            overrides: HashMap::new(),
            paths: HashMap::new(),
            digest: 0xcbf2_9ce4_8422_2325,
            datagrams_sent: 0,
            runs: 0,
            datagrams_lost: 0,
            trace: None,
        }
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A number that differs if anything arrived differently.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Datagrams put on the network, and how many of their copies it lost.
    pub fn traffic(&self) -> (u64, u64) {
        (self.datagrams_sent, self.datagrams_lost)
    }

    /// A random number that follows from the seed.
    pub fn random(&mut self) -> u64 {
        self.random.u64(..)
    }

    /// Adds a node, which is up at once.
    pub fn add(&mut self, config: Config, clock: Clock, port: Port) -> Result<(), ConfigError> {
        let index = self.places.len();
        let address = Ipv4Addr::from(0x0a00_0001 + index as u32);
        let id = config.node;
        if self.by_id.contains_key(&id) {
            return Err(ConfigError { field: "node", wanted: "different from every other node's" });
        }
        clock.check()?;
        port.check()?;
        let node = Node::new(config, SocketAddr::V4(SocketAddrV4::new(address, PORT)), clock)?;
        self.by_id.insert(id, index);
        self.places.push(Place {
            node,
            port,
            ingress: Ingress::default(),
            up: true,
            incarnation: 0,
            wake_at: Time::NEVER,
        });
        Ok(())
    }

    /// Ids of all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.places.iter().map(|place| place.node.id())
    }

    /// A node, if there is one with this id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.by_id.get(&id).map(|&index| &self.places[index].node)
    }

    /// Does something to a node and lets it act on it.
    pub fn act<R>(&mut self, id: NodeId, act: impl FnOnce(&mut Node, Time) -> R) -> Option<R> {
        let index = *self.by_id.get(&id)?;
        let now = self.now;
        let result = act(&mut self.places[index].node, now);
        self.serve(index);
        Some(result)
    }

    /// The weather everywhere it was not set for two nodes.
    pub fn set_conditions(&mut self, conditions: Conditions) -> Result<(), ConfigError> {
        conditions.check()?;
        self.conditions = conditions;
        Ok(())
    }

    /// Changes a node's cable.
    pub fn set_port(&mut self, id: NodeId, port: Port) -> Result<(), ConfigError> {
        port.check()?;
        let index = *self.by_id.get(&id).ok_or(NO_SUCH_NODE)?;
        self.places[index].port = port;
        Ok(())
    }

    /// The weather from one node to another; `None` is that of everywhere.
    pub fn set_path(
        &mut self,
        from: NodeId,
        to: NodeId,
        conditions: Option<Conditions>,
    ) -> Result<(), ConfigError> {
        let place = |id: NodeId| self.by_id.get(&id).copied().ok_or(NO_SUCH_NODE);
        let pair = (place(from)?, place(to)?);
        match conditions {
            Some(conditions) => {
                conditions.check()?;
                self.overrides.insert(pair, conditions);
            }
            None => {
                self.overrides.remove(&pair);
            }
        }
        Ok(())
    }

    /// Stops a node: it neither sends nor receives, and its clock wakes nobody.
    pub fn stop(&mut self, id: NodeId) -> Option<()> {
        let place = &mut self.places[*self.by_id.get(&id)?];
        place.up = false;
        place.incarnation += 1;
        Some(())
    }

    /// Lets a stopped node go on where it stopped, as a process that was frozen does.
    pub fn resume(&mut self, id: NodeId) -> Option<()> {
        let index = *self.by_id.get(&id)?;
        self.places[index].up = true;
        self.places[index].wake_at = Time::NEVER;
        self.serve(index);
        Some(())
    }

    /// Starts a node over: it forgets everything and comes back as a new instance.
    pub fn restart(&mut self, id: NodeId) -> Option<Result<(), ConfigError>> {
        let index = *self.by_id.get(&id)?;
        self.places[index].incarnation += 1;
        let restarted = self.places[index].node.restart();
        self.resume(id);
        Some(restarted)
    }

    /// Lets time pass until `end`, and everything happen that is due by then.
    pub fn run_until(&mut self, end: Time) {
        while let Some(at) = self.agenda.next_at().filter(|&at| at <= end) {
            let Some((_, happening)) = self.agenda.take() else { break };
            self.now = self.now.max(at);
            self.happen(happening);
        }
        self.now = self.now.max(end);
    }

    /// Lets time pass until `done` says so, asked after every thing that happens, or until `end`.
    /// Returns whether it was done.
    pub fn run_while(&mut self, end: Time, mut undone: impl FnMut(&Simulation) -> bool) -> bool {
        while undone(self) {
            match self.agenda.next_at() {
                Some(at) if at <= end => self.run_until(at),
                _ => {
                    self.now = self.now.max(end);
                    return !undone(self);
                }
            }
        }
        true
    }

    /// Lets time pass until every node in `wanted` has received so many messages, or until `end`.
    /// Returns whether they all did; a node that does not exist never does.
    pub fn run_until_delivered(&mut self, end: Time, wanted: &[(NodeId, usize)]) -> bool {
        // Counts only grow, so whoever has enough need not be asked again.
        let mut satisfied = 0;
        self.run_while(end, |simulation| {
            while let Some(&(id, count)) = wanted.get(satisfied)
                && simulation.node(id).is_some_and(|node| node.delivered >= count)
            {
                satisfied += 1;
            }
            satisfied < wanted.len()
        })
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive { to, from, unicast, bytes } => {
                let place = &mut self.places[to];
                match place.ingress.receive(self.now, bytes.len(), &place.port) {
                    Some(at) if at > self.now => {
                        self.agenda.add(at, Happening::Receive { to, from, unicast, bytes });
                    }
                    Some(_) => self.receive(to, from, unicast, &bytes),
                    None => self.datagrams_lost += 1,
                }
            }
            Happening::Receive { to, from, unicast, bytes } => self.receive(to, from, unicast, &bytes),
            Happening::Wake { node, incarnation } => {
                let place = &mut self.places[node];
                if place.up && place.incarnation == incarnation && place.wake_at <= self.now {
                    place.wake_at = Time::NEVER;
                    let now = self.now;
                    place.node.command(now, |session, local| session.handle_timeout(local));
                    self.serve(node);
                }
            }
        }
    }

    fn receive(&mut self, to: usize, from: usize, unicast: bool, bytes: &[u8]) {
        if !self.places[to].up {
            return;
        }
        let (from_id, address) = (self.places[from].node.id(), self.places[from].node.address);
        self.record(from_id, to, bytes);
        self.places[to].node.handle_datagram(self.now, Source { address, unicast }, bytes);
        self.serve(to);
    }

    fn record(&mut self, from: NodeId, to: usize, bytes: &[u8]) {
        let to = self.places[to].node.id();
        let mut mix = |value: u64| self.digest = (self.digest ^ value).wrapping_mul(0x0000_0100_0000_01b3);
        mix(self.now.as_nanos());
        mix(u64::from(from) << 32 | u64::from(to));
        for chunk in bytes.chunks(8) {
            mix(chunk.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        }
        if let Some(trace) = &mut self.trace {
            trace.push(TraceEntry { at: self.now, from, to, bytes: bytes.to_vec() });
        }
    }

    /// Lets a node do all it can do now.
    fn serve(&mut self, index: usize) {
        if !self.places[index].up {
            return;
        }
        let now = self.now;
        self.places[index].node.read(now);
        self.places[index].node.write(now);
        let mut outgoing: Vec<(Time, u64, Destination, Arc<[u8]>)> = Vec::new();
        loop {
            let place = &mut self.places[index];
            if place.node.egress_free_at > now {
                break;
            }
            self.runs += 1;
            let (run, rate) = (self.runs, place.port.egress_bytes_per_s);
            let mut leaves_at = now;
            let sent = place.node.command(now, |session, local| {
                let burst = session.poll_transmit(local)?;
                for datagram in burst.datagrams() {
                    if let Some(rate) = rate {
                        leaves_at += Duration::from_secs_f64(datagram.len() as f64 / rate);
                    }
                    outgoing.push((leaves_at, run, burst.to, Arc::from(datagram)));
                }
                Some(())
            });
            if sent.is_none() {
                break;
            }
            place.node.egress_free_at = leaves_at;
            place.node.write(now);
        }
        self.places[index].node.read(now);
        self.places[index].node.account(now);
        for (at, run, to, datagram) in outgoing {
            self.send(at, run, (index, to), &datagram);
        }
        self.schedule(index);
    }

    fn send(&mut self, at: Time, run: u64, (from, to): (usize, Destination), bytes: &Arc<[u8]>) {
        self.datagrams_sent += 1;
        match to {
            Destination::Group => {
                for to in 0..self.places.len() {
                    if to != from {
                        self.send_to(at, run, (from, to), false, bytes);
                    }
                }
            }
            Destination::Node(address) => {
                if let Some(to) = self.places.iter().position(|place| place.node.address == address) {
                    self.send_to(at, run, (from, to), true, bytes);
                }
            }
        }
    }

    fn send_to(&mut self, at: Time, run: u64, (from, to): (usize, usize), unicast: bool, bytes: &Arc<[u8]>) {
        let conditions = self.overrides.get(&(from, to)).unwrap_or(&self.conditions);
        let path = self.paths.entry((from, to)).or_default();
        let arrivals = path.send(at, run, conditions, &mut self.random);
        self.datagrams_lost += u64::from(arrivals[0].is_none());
        for at in arrivals.into_iter().flatten() {
            self.agenda.add(at, Happening::Arrive { to, from, unicast, bytes: bytes.clone() });
        }
    }

    fn schedule(&mut self, index: usize) {
        let place = &mut self.places[index];
        let mut wake = place.node.deadline();
        if wake != Time::NEVER {
            wake = wake.max(place.node.egress_free_at).max(self.now);
        }
        if wake < place.wake_at {
            place.wake_at = wake;
            let incarnation = place.incarnation;
            self.agenda.add(wake, Happening::Wake { node: index, incarnation });
        }
    }
}
