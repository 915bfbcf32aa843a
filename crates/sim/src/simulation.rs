//! The simulation: stations, links and the order of things.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use shoal_norm::{Config, ConfigError, Destination, NodeId, Source, Time};

use crate::agenda::Agenda;
use crate::cable::{self, Cables, Carried, WireId};
use crate::link::{Conditions, Ingress, Path, Port};
use crate::node::{Clock, Node};
use crate::station::Station;

const PORT: u16 = 7400;
const NO_SUCH_NODE: ConfigError = ConfigError::new("node", "the id of a node of this simulation");

/// Who speaks that is no station of the simulation, and from where.
const STRANGER: NodeId = NodeId::MAX;
const STRANGERS_ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 255, 255, 254), PORT));

/// A datagram at its destination, and which socket sent it; none, if it is forged.
struct Arrived {
    from: Option<usize>,
    unicast: bool,
    bytes: Arc<[u8]>,
}

enum Happening {
    /// A datagram comes out of the network at a socket's cable.
    Arrive { to: usize, arrived: Arrived },
    /// It is through the cable.
    Receive { to: usize, arrived: Arrived },
    /// Something comes out of a connection at one of its ends.
    Carry { wire: WireId, side: usize },
    /// A station's deadline.
    Wake { place: usize, incarnation: u32 },
}

/// Where a station stands.
struct Place<S> {
    name: NodeId,
    station: S,
    /// Its sockets, one for each of its links.
    sockets: Vec<usize>,
    up: bool,
    /// What waits in the sockets of a station that is frozen.
    unread: Option<Unread>,
    /// Counts stops and starts; what was meant for an earlier one is void.
    incarnation: u32,
    wake_at: Time,
}

/// Where a link of a station meets a network.
struct Socket {
    place: usize,
    /// Which of its station's links.
    link: usize,
    /// Which network: nothing goes from one to another.
    segment: u32,
    address: SocketAddr,
    port: Port,
    ingress: Ingress,
    /// When its cable is free to send again.
    egress_free_at: Time,
}

/// A socket that nobody reads.
struct Unread {
    bytes_left: usize,
    datagrams: VecDeque<(Time, usize, Arrived)>,
}

/// A datagram on its way out of a station.
struct Outgoing {
    at: Time,
    run: u64,
    from: usize,
    to: Destination,
    bytes: Arc<[u8]>,
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

/// Networks of simulated stations, which are NORM sessions unless otherwise said.
pub struct Simulation<S: Station = Node> {
    now: Time,
    random: fastrand::Rng,
    places: Vec<Place<S>>,
    by_name: HashMap<NodeId, usize>,
    sockets: Vec<Socket>,
    by_address: HashMap<SocketAddr, usize>,
    agenda: Agenda<Happening>,
    conditions: Conditions,
    overrides: HashMap<(usize, usize), Conditions>,
    paths: HashMap<(usize, usize), Path>,
    cables: Cables,
    digest: u64,
    datagrams_sent: u64,
    /// Runs of datagrams that nodes handed over.
    runs: u64,
    datagrams_lost: u64,
    /// What arrived, if it is recorded.
    pub trace: Option<Vec<TraceEntry>>,
}

impl Simulation {
    /// An empty network of NORM sessions.
    pub fn new(seed: u64) -> Simulation {
        Simulation::of_stations(seed)
    }

    /// Adds a node, which is up at once.
    pub fn add(&mut self, config: Config, clock: Clock, port: Port) -> Result<(), ConfigError> {
        let name = config.node;
        self.check_new(name, clock, &port)?;
        self.place(name, Node::new(config, clock)?, &[0], &port);
        Ok(())
    }

    /// Ids of all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.places.iter().map(|place| place.name)
    }

    /// A node, if there is one with this id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.station(id)
    }

    /// Starts a node over: it forgets everything and comes back as a new instance.
    pub fn restart(&mut self, id: NodeId) -> Option<Result<(), ConfigError>> {
        self.replace(id, Node::restart)
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
}

impl<S: Station> Simulation<S> {
    /// Empty networks.
    pub fn of_stations(seed: u64) -> Simulation<S> {
        Simulation {
            now: Time::ZERO,
            random: fastrand::Rng::with_seed(seed),
            places: Vec::new(),
            by_name: HashMap::new(),
            sockets: Vec::new(),
            by_address: HashMap::new(),
            agenda: Agenda::default(),
            conditions: Conditions::default(),
            overrides: HashMap::new(),
            paths: HashMap::new(),
            cables: Cables::default(),
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

    /// Says what is wrong with a new station, if anything is.
    pub fn check_new(&self, name: NodeId, clock: Clock, port: &Port) -> Result<(), ConfigError> {
        if self.by_name.contains_key(&name) {
            return Err(ConfigError::new("node", "different from every other node's"));
        }
        clock.check()?;
        port.check()
    }

    /// Adds a station under a name, which is up at once; each of its links is on one of the networks.
    pub fn place(&mut self, name: NodeId, station: S, segments: &[u32], port: &Port) {
        let index = self.places.len();
        let sockets = segments.iter().enumerate().map(|(link, &segment)| {
            let host = Ipv4Addr::from(0x0a00_0001 + self.sockets.len() as u32);
            let address = SocketAddr::V4(SocketAddrV4::new(host, PORT));
            self.by_address.insert(address, self.sockets.len());
            self.sockets.push(Socket {
                place: index,
                link,
                segment,
                address,
                port: port.clone(),
                ingress: Ingress::default(),
                egress_free_at: Time::ZERO,
            });
            self.sockets.len() - 1
        });
        let sockets = sockets.collect();
        self.by_name.insert(name, index);
        self.places.push(Place {
            name,
            station,
            sockets,
            up: true,
            unread: None,
            incarnation: 0,
            wake_at: Time::NEVER,
        });
    }

    /// Lays a cable between two stations; the first one dials. `None` if there is no such station.
    pub fn lay_cable(&mut self, from: NodeId, to: NodeId) -> Option<()> {
        let (from, to) = (*self.by_name.get(&from)?, *self.by_name.get(&to)?);
        let cable = self.cables.add(from, to);
        let now = self.now;
        self.places[from].station.add_cable(now, cable, true);
        self.places[to].station.add_cable(now, cable, false);
        self.serve(from);
        Some(())
    }

    /// The connections of a station end, as those of a process do that is killed: the other ends hear of it.
    pub fn hang_up(&mut self, name: NodeId) -> Option<()> {
        let index = *self.by_name.get(&name)?;
        for (wire, side) in self.cables.of(index) {
            self.close_wire(wire, side, false);
        }
        Some(())
    }

    /// A station, if there is one of this name.
    pub fn station(&self, name: NodeId) -> Option<&S> {
        self.by_name.get(&name).map(|&index| &self.places[index].station)
    }

    /// Does something to a station and lets it act on it.
    pub fn act<R>(&mut self, id: NodeId, act: impl FnOnce(&mut S, Time) -> R) -> Option<R> {
        let index = *self.by_name.get(&id)?;
        let now = self.now;
        let result = act(&mut self.places[index].station, now);
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
        let index = *self.by_name.get(&id).ok_or(NO_SUCH_NODE)?;
        for &socket in &self.places[index].sockets {
            self.sockets[socket].port = port.clone();
        }
        Ok(())
    }

    /// The weather from one node to another; `None` is that of everywhere.
    pub fn set_path(
        &mut self,
        from: NodeId,
        to: NodeId,
        conditions: Option<Conditions>,
    ) -> Result<(), ConfigError> {
        let place = |id: NodeId| self.by_name.get(&id).copied().ok_or(NO_SUCH_NODE);
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

    /// Somebody who is no station sends a datagram to everybody on one of the networks. It arrives at once.
    pub fn inject(&mut self, segment: u32, datagram: &[u8]) {
        let bytes: Arc<[u8]> = Arc::from(datagram);
        for to in 0..self.sockets.len() {
            if self.sockets[to].segment == segment {
                let arrived = Arrived { from: None, unicast: false, bytes: bytes.clone() };
                self.agenda.add(self.now, Happening::Arrive { to, arrived });
            }
        }
    }

    /// Stops a node: it neither sends nor receives, and its clock wakes nobody.
    pub fn stop(&mut self, id: NodeId) -> Option<()> {
        let place = &mut self.places[*self.by_name.get(&id)?];
        place.up = false;
        place.incarnation += 1;
        Some(())
    }

    /// Lets a stopped node go on where it stopped, as a process that was frozen does.
    pub fn resume(&mut self, id: NodeId) -> Option<()> {
        let index = *self.by_name.get(&id)?;
        self.places[index].up = true;
        self.places[index].wake_at = Time::NEVER;
        self.serve(index);
        Some(())
    }

    /// Freezes a node: it does nothing, and its clock wakes nobody, but its socket takes what arrives, up to so many
    /// bytes.
    pub fn freeze(&mut self, id: NodeId, socket_bytes: usize) -> Option<()> {
        self.stop(id)?;
        let place = &mut self.places[*self.by_name.get(&id)?];
        place.unread.get_or_insert(Unread { bytes_left: socket_bytes, datagrams: VecDeque::new() });
        Some(())
    }

    /// Lets a frozen node go on: it reads what its socket holds as if that came now.
    pub fn thaw(&mut self, id: NodeId) -> Option<()> {
        let index = *self.by_name.get(&id)?;
        let unread = self.places[index].unread.take();
        self.resume(id)?;
        for (at, to, arrived) in unread.into_iter().flat_map(|unread| unread.datagrams) {
            self.read(to, at, &arrived);
        }
        Some(())
    }

    /// Exchanges what stands at a place for something that begins anew, and lets it begin.
    pub fn replace<R>(&mut self, id: NodeId, begin: impl FnOnce(&mut S) -> R) -> Option<R> {
        let index = *self.by_name.get(&id)?;
        self.hang_up(id);
        self.places[index].incarnation += 1;
        self.places[index].unread = None;
        let begun = begin(&mut self.places[index].station);
        self.resume(id);
        Some(begun)
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
    pub fn run_while(&mut self, end: Time, mut undone: impl FnMut(&Simulation<S>) -> bool) -> bool {
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

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive { to, arrived } => {
                let socket = &mut self.sockets[to];
                match socket.ingress.receive(self.now, arrived.bytes.len(), &socket.port) {
                    Some(at) if at > self.now => {
                        self.agenda.add(at, Happening::Receive { to, arrived });
                    }
                    Some(_) => self.receive(to, arrived),
                    None => self.datagrams_lost += 1,
                }
            }
            Happening::Receive { to, arrived } => self.receive(to, arrived),
            Happening::Carry { wire, side } => self.carry(wire, side),
            Happening::Wake { place: index, incarnation } => {
                let place = &mut self.places[index];
                if place.up && place.incarnation == incarnation && place.wake_at <= self.now {
                    place.wake_at = Time::NEVER;
                    place.station.handle_timeout(self.now);
                    self.serve(index);
                }
            }
        }
    }

    fn receive(&mut self, to: usize, arrived: Arrived) {
        let place = &mut self.places[self.sockets[to].place];
        if place.up {
            return self.read(to, self.now, &arrived);
        }
        let Some(unread) = &mut place.unread else { return };
        match unread.bytes_left.checked_sub(arrived.bytes.len()) {
            Some(left) => {
                unread.bytes_left = left;
                unread.datagrams.push_back((self.now, to, arrived));
            }
            None => self.datagrams_lost += 1,
        }
    }

    /// A station reads a datagram that came into a socket of its at a time.
    fn read(&mut self, to: usize, at: Time, Arrived { from, unicast, bytes }: &Arrived) {
        let (name, address) = from.map_or((STRANGER, STRANGERS_ADDRESS), |from| {
            let socket = &self.sockets[from];
            (self.places[socket.place].name, socket.address)
        });
        let (index, link) = (self.sockets[to].place, self.sockets[to].link);
        self.record(name, index, bytes);
        let from = Source { address, unicast: *unicast, waited: self.now.since(at) };
        self.places[index].station.handle_datagram(self.now, link, from, bytes);
        self.serve(index);
    }

    fn record(&mut self, from: NodeId, to: usize, bytes: &[u8]) {
        let to = self.places[to].name;
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

    /// Lets a station do all it can do now.
    fn serve(&mut self, index: usize) {
        if !self.places[index].up {
            return;
        }
        let now = self.now;
        self.places[index].station.turn(now);
        let mut outgoing = Vec::new();
        for link in 0..self.places[index].sockets.len() {
            self.transmit(index, link, &mut outgoing);
        }
        self.converse(index);
        self.places[index].station.finish_turn(now);
        for datagram in &outgoing {
            self.send(datagram);
        }
        self.schedule(index);
    }

    /// Lets a station say what it has to say on its connections, dial, and hang up.
    fn converse(&mut self, index: usize) {
        let now = self.now;
        while let Some(cable) = self.places[index].station.poll_dial(now) {
            let other = self.cables.ends(cable)[1];
            let is_cut = |from, to| self.overrides.get(&(from, to)).unwrap_or(&self.conditions).cut;
            let reached = self.places[other].up && !is_cut(index, other) && !is_cut(other, index);
            let wire = reached.then(|| {
                let there = now + self.delay(index, other);
                let here = there + self.delay(other, index);
                let wire = self.cables.open(cable, [here, there]);
                (0..2).for_each(|side| self.look_later(wire, side));
                wire
            });
            self.places[index].station.dialled(now, cable, wire);
        }
        for (id, side) in self.cables.of(index) {
            let Some(wire) = self.cables.wires.get(&id) else { continue };
            let (room, other) = (wire.room(side), wire.ends[1 - side].place);
            let bytes = self.places[index].station.speak(now, id, room);
            if !bytes.is_empty() {
                let at = now + self.delay(index, other);
                if let Some(wire) = self.cables.wires.get_mut(&id) {
                    wire.say(side, at, bytes);
                }
                self.look_later(id, 1 - side);
            }
            if self.places[index].station.is_through(id) {
                self.close_wire(id, side, true);
            }
        }
        while let Some(id) = self.places[index].station.poll_close() {
            let side =
                self.cables.of(index).into_iter().find(|(found, _)| *found == id).map(|(_, side)| side);
            side.into_iter().for_each(|side| self.close_wire(id, side, false));
        }
    }

    fn delay(&mut self, from: usize, to: usize) -> Duration {
        let conditions = self.overrides.get(&(from, to)).unwrap_or(&self.conditions);
        cable::delay(conditions, &mut self.random)
    }

    fn look_later(&mut self, wire: WireId, side: usize) {
        let due = self.cables.due(wire, side);
        if due != Time::NEVER {
            self.agenda.add(due.max(self.now), Happening::Carry { wire, side });
        }
    }

    /// An end of a connection hangs up, or says nothing more.
    fn close_wire(&mut self, id: WireId, side: usize, hears_on: bool) {
        let Some(wire) = self.cables.wires.get(&id) else { return };
        let (from, to) = (wire.ends[side].place, wire.ends[1 - side].place);
        let at = self.now + self.delay(from, to);
        self.cables.hang_up(id, side, at, hears_on);
        self.look_later(id, 1 - side);
    }

    /// Hands a station what came over a connection, unless the network is cut or the station stands still.
    fn carry(&mut self, id: WireId, side: usize) {
        let Some(wire) = self.cables.wires.get_mut(&id) else { return };
        let (from, to) = (wire.ends[1 - side].place, wire.ends[side].place);
        if wire.ends[side].due > self.now {
            return;
        }
        let cut = self.overrides.get(&(from, to)).unwrap_or(&self.conditions).cut;
        if cut || !self.places[to].up {
            wire.ends[side].put_off(self.now);
            return self.look_later(id, side);
        }
        let Some(carried) = wire.ends[side].take(self.now) else { return };
        wire.ends[side].look_again();
        self.look_later(id, side);
        let now = self.now;
        match carried {
            Carried::Open => {
                let fresh = self.random.u64(1..);
                self.places[to].station.handle_open(now, id, fresh);
            }
            Carried::Bytes(bytes) => {
                self.record(self.places[from].name, to, &bytes);
                self.places[to].station.handle_bytes(now, id, &bytes);
                // There is room for more.
                self.serve(from);
            }
            Carried::End => {
                self.places[to].station.handle_end(now, id);
                self.close_wire(id, side, false);
            }
        }
        self.serve(to);
    }

    /// Takes what a link of a station has to send, as far as its cable takes it.
    fn transmit(&mut self, index: usize, link: usize, outgoing: &mut Vec<Outgoing>) {
        let now = self.now;
        let from = self.places[index].sockets[link];
        let station = &mut self.places[index].station;
        let socket = &mut self.sockets[from];
        while socket.egress_free_at <= now {
            self.runs += 1;
            let (run, rate) = (self.runs, socket.port.egress_bytes_per_s);
            let mut leaves_at = now;
            let sent = station.transmit(now, link, &mut |to, datagram| {
                if let Some(rate) = rate {
                    leaves_at += Duration::from_secs_f64(datagram.len() as f64 / rate);
                }
                outgoing.push(Outgoing { at: leaves_at, run, from, to, bytes: Arc::from(datagram) });
            });
            if !sent {
                break;
            }
            socket.egress_free_at = leaves_at;
        }
    }

    fn send(&mut self, datagram: &Outgoing) {
        self.datagrams_sent += 1;
        let from = datagram.from;
        let segment = self.sockets[from].segment;
        match datagram.to {
            Destination::Group => {
                for to in 0..self.sockets.len() {
                    if to != from && self.sockets[to].segment == segment {
                        self.send_to(datagram, to, false);
                    }
                }
            }
            Destination::Node(address) => {
                if let Some(&to) = self.by_address.get(&address)
                    && self.sockets[to].segment == segment
                {
                    self.send_to(datagram, to, true);
                }
            }
        }
    }

    fn send_to(&mut self, datagram: &Outgoing, to: usize, unicast: bool) {
        let Outgoing { at, run, from, ref bytes, .. } = *datagram;
        let between = (self.sockets[from].place, self.sockets[to].place);
        let conditions = self.overrides.get(&between).unwrap_or(&self.conditions);
        let path = self.paths.entry((from, to)).or_default();
        let arrivals = path.send(at, run, conditions, &mut self.random);
        self.datagrams_lost += u64::from(arrivals[0].is_none());
        for at in arrivals.into_iter().flatten() {
            let arrived = Arrived { from: Some(from), unicast, bytes: bytes.clone() };
            self.agenda.add(at, Happening::Arrive { to, arrived });
        }
    }

    fn schedule(&mut self, index: usize) {
        let place = &mut self.places[index];
        let mut wake = place.station.deadline();
        if wake != Time::NEVER {
            let free_at = place.sockets.iter().map(|&socket| self.sockets[socket].egress_free_at).max();
            wake = wake.max(free_at.unwrap_or(Time::ZERO)).max(self.now);
        }
        if wake < place.wake_at {
            place.wake_at = wake;
            let incarnation = place.incarnation;
            self.agenda.add(wake, Happening::Wake { place: index, incarnation });
        }
    }
}
