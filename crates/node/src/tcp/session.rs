//! What two nodes have with each other, whichever connection carries it: a port of the hub, and a lane's flow in each direction.

use std::sync::Arc;
use std::time::Duration;

use shoal_norm::{Chunk, NodeId, Time};
use shoal_wire::{Announce, Goodbye, Process, RecordKind, Roles};

use super::flow::{Inflow, Outflow};
use super::gate::Gate;
use super::greeting::Position;
use super::meter::Meter;
use super::rights::Rights;
use crate::hub::{Departure, Fed, HubEvent, Lost, Port, Source, SourceNews, Told, Traffic};
use crate::interest::{AnnouncedInterest, Applied, InterestBounds};
use crate::norm::Lane;

/// What was read is acknowledged after so long at the latest.
const ACK_DELAY: Duration = Duration::from_millis(20);
/// What is kept of what the other side wants; beyond it everything is sent to it.
const INTEREST_BYTES_MAX: usize = 16 << 20;
/// How often a port has a turn while its link rests: others bring what it would, and nobody rings for that.
const REST_EVERY: Duration = Duration::from_millis(100);
/// A connection that is gone for so long may not come back: another way is used, if there is one.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// Why what came is not taken.
pub(super) enum Untaken {
    /// It cannot be, and the session is over: why.
    Wrong(String),
    /// There is no memory for it. The session goes on with another connection, which brings it once more.
    NoMemory,
    /// All links together hold too much for readers, and this one more than its share. As above.
    Crowded,
}

/// A session.
pub(super) struct Session {
    pub port: Port,
    pub publisher: u64,
    pub node: NodeId,
    /// The program at the other end, as far as it said so.
    pub process: Option<Process>,
    /// From lane 1 on.
    pub out: Vec<Outflow>,
    pub into: Vec<Inflow>,
    announced: AnnouncedInterest,
    /// What the other side may do, if its connection came where rules count.
    gate: Option<Gate>,
    pub sent: Meter,
    pub received: Meter,
    pub round_trip: Option<Duration>,
    /// Since when the hub has had much for it that could not be taken.
    pub stuck_since: Option<Time>,
    /// Since when it has held part of a long message, and what had come by then; asked while there is little room.
    pub part_since: Option<(Time, u64)>,
    /// Publishers do not wait for it.
    pub lagging: bool,
    /// What the other side said when it left.
    pub goodbye: Option<Goodbye>,
    told: Vec<Told>,
    /// When what was put aside is looked at again.
    aside_at: Time,
    /// When the port has something to do though nothing comes, as it said in the last visit.
    visit_at: Time,
    /// Its connection is gone for so long that another way is used, if there is one.
    is_suspected: bool,
}

impl Session {
    /// One that begins.
    pub fn new(mut port: Port, (publisher, node): (u64, NodeId), window: usize) -> Session {
        let lanes = port.lanes();
        // Until we hear what it wants, it may want anything.
        port.set_open(true);
        port.join(node);
        port.tell_position();
        let into = (1..lanes as u32)
            .map(|chain| Inflow::new(port.open_source(Source { publisher, chain, node }), window));
        Session {
            into: into.collect(),
            process: None,
            out: (1..lanes).map(|lane| Outflow::new(window, Lane::share(lane))).collect(),
            port,
            publisher,
            node,
            announced: AnnouncedInterest::new(InterestBounds { bytes_max: INTEREST_BYTES_MAX }),
            gate: None,
            sent: Meter::default(),
            received: Meter::default(),
            round_trip: None,
            stuck_since: None,
            part_since: None,
            lagging: false,
            goodbye: None,
            told: Vec::new(),
            aside_at: Time::NEVER,
            visit_at: Time::NEVER,
            is_suspected: false,
        }
    }

    // --- getters ---

    /// Whether the hub has everything that came.
    pub fn is_drained(&self) -> bool {
        self.into.iter().all(Inflow::is_drained) && self.aside_at == Time::NEVER
    }

    /// Whether everything published was sent.
    pub fn is_sent(&self) -> bool {
        !self.out.iter().any(Outflow::has_sendable)
            && self.out.iter().all(Outflow::is_hungry)
            && self.waiting() == 0
    }

    /// Bytes that wait in the hub.
    pub fn waiting(&self) -> usize {
        self.port.hub().chains().waiting(self.port.link())
    }

    /// Whether something that is passed on waits until it takes what the hub has.
    pub fn holds_back(&self) -> bool {
        self.port.hub().chains().holds_back(self.port.link())
    }

    /// Messages that went over it.
    pub fn traffic(&self) -> Traffic {
        self.port.traffic()
    }

    /// Bytes that the other side's hub has not got, without those that wait in ours.
    pub fn lacking(&self) -> u64 {
        self.out.iter().map(Outflow::lacking).sum()
    }

    /// When to say how far we are.
    pub fn tell_at(&self) -> Time {
        let due = self.into.iter().map(|inflow| inflow.tell_at).min().unwrap_or(Time::NEVER);
        due.max(self.paid_at())
    }

    /// Nothing is acknowledged before then: the other side sent more than its quota allows.
    pub fn paid_at(&self) -> Time {
        self.gate.as_ref().map_or(Time::ZERO, |gate| gate.paid_at)
    }

    /// Messages and subscriptions of the other side that rules denied.
    pub fn denied(&self) -> u64 {
        self.gate.as_ref().map_or(0, |gate| gate.denied)
    }

    /// Why something was denied since the last call.
    pub fn take_denials(&mut self) -> Vec<String> {
        self.gate.as_mut().map_or_else(Vec::new, |gate| std::mem::take(&mut gate.news))
    }

    /// When the port has something to do though nothing comes.
    pub fn visit_at(&self) -> Time {
        self.visit_at
    }

    /// Whether something cannot be sent for now, in some lane.
    pub fn is_blocked(&self) -> bool {
        self.out.iter().any(|out| out.blocked)
    }

    /// Bytes that came and wait for readers.
    pub fn held_bytes(&self) -> usize {
        self.into.iter().map(Inflow::held_bytes).sum()
    }

    /// Bytes of messages whose end has not come, beside short ones.
    pub fn part_bytes(&self) -> usize {
        self.port.part_bytes()
    }

    /// Lanes have so much credit from now on; what was granted stays.
    pub fn set_window(&mut self, bytes: usize) {
        self.into.iter_mut().for_each(|inflow| inflow.set_window(bytes));
        self.out.iter_mut().for_each(|out| out.set_window(bytes));
    }

    // --- what the other side may do ---

    /// The connection that carries it now came where these rights count. False if it is too late to look at what comes.
    pub fn set_rights(&mut self, rights: Arc<Rights>) -> bool {
        match &mut self.gate {
            Some(gate) => gate.set_rights(rights),
            None if !self.into.iter().all(Inflow::is_fresh) => return false,
            None => {
                self.gate = Some(Gate::new(rights, self.publisher, self.into.len()));
                // Nothing is sent to it before it said what it wants, and may have that.
                self.port.set_open(false);
            }
        }
        self.use_rules();
        true
    }

    /// Uses rules that were replaced.
    pub fn use_rules(&mut self) {
        if let Some(gate) = &mut self.gate
            && !gate.is_current()
        {
            let (added, removed) = gate.regrant(&self.announced);
            self.port.change_interest(self.node, &added, &removed);
        }
    }

    /// Gives the hub what may pass of the bytes of a lane.
    fn feed(&mut self, now: Time, at: usize, bytes: &[u8]) -> Result<Fed, Untaken> {
        let Session { gate, told, port, into, .. } = self;
        let (source, hear) = (into[at].source, |news| told.push(news));
        let Some(gate) = gate else {
            return Ok(port.feed(now, source, Chunk { bytes, fresh: false }, hear));
        };
        let passed = gate.sift(at, bytes).map_err(Untaken::Wrong)?;
        if passed.bytes.is_empty() {
            gate.passed(now, at, passed, bytes.len());
            return Ok(Fed::All);
        }
        let fed = port.feed(now, source, Chunk { bytes: &passed.bytes, fresh: false }, hear);
        if matches!(fed, Fed::All) {
            gate.passed(now, at, passed, bytes.len());
        }
        Ok(fed)
    }

    // --- what came ---

    /// The next bytes of a lane.
    pub fn handle_bytes(
        &mut self,
        now: Time,
        lane: usize,
        bytes: &[u8],
        may_hold: bool,
    ) -> Result<(), Untaken> {
        self.use_rules();
        let at = lane.wrapping_sub(1);
        let Some(inflow) = self.into.get_mut(at) else {
            return Err(Untaken::Wrong(format!("there is no lane {lane}")));
        };
        if !inflow.admits(bytes.len()) {
            return Err(Untaken::Wrong("it sent more than there was credit for".to_owned()));
        }
        let hold = |inflow: &mut Inflow| match may_hold {
            true if inflow.hold(bytes) => Ok(()),
            true => Err(Untaken::NoMemory),
            false => Err(Untaken::Crowded),
        };
        if !inflow.is_drained() {
            return hold(inflow);
        }
        match self.feed(now, at, bytes)? {
            Fed::All => self.into[at].consume(now, bytes.len(), ACK_DELAY),
            Fed::Held => hold(&mut self.into[at])?,
            Fed::Broken => return Err(Untaken::Wrong("what it sent cannot be read".to_owned())),
        }
        self.after_feeding(now);
        Ok(())
    }

    /// Acts on what stood between messages before anybody reads those that follow.
    fn after_feeding(&mut self, now: Time) {
        for told in self.told.drain(..) {
            if let Told::Lost(Source { publisher, chain, .. }, first, last) = told {
                let node = self.node;
                self.port.tell_lost(Lost { node, publisher, chain, first, last, segments: 0 });
            }
        }
        self.port.hand_over_if_full(now);
    }

    /// Gives the port its turn.
    pub fn visit(&mut self, now: Time) -> Result<(), String> {
        self.move_held(now)?;
        let ask_at = self.port.ask_again_in_time(now);
        let rest_at = if self.port.is_resting() { now + REST_EVERY } else { Time::NEVER };
        self.visit_at = self.aside_at.min(ask_at).min(rest_at);
        Ok(())
    }

    /// Gives the hub what it had no room for.
    pub fn move_held(&mut self, now: Time) -> Result<(), String> {
        self.port.settle(now);
        self.port.answer_replays(now);
        let Session { told, port, .. } = self;
        let (aside_at, is_broken) = port.read_aside(now, |_, news| told.push(news));
        self.aside_at = aside_at;
        if is_broken {
            return Err("what it sent cannot be read".to_owned());
        }
        self.after_feeding(now);
        for at in 0..self.into.len() {
            while let Some(bytes) = self.into[at].take_first_held() {
                match self.feed(now, at, &bytes) {
                    Ok(Fed::All) => self.into[at].note_held_taken(now, bytes.len(), ACK_DELAY),
                    Ok(Fed::Held) => {
                        self.into[at].give_back_held(bytes);
                        break;
                    }
                    Ok(Fed::Broken) => return Err("what it sent cannot be read".to_owned()),
                    Err(Untaken::Wrong(why)) => return Err(why),
                    Err(Untaken::NoMemory | Untaken::Crowded) => {}
                }
                self.after_feeding(now);
            }
        }
        self.port.hand_over(now);
        Ok(())
    }

    /// Its connection is gone since then. Has another way used, if there is one, once it is gone for long.
    pub fn suspect(&mut self, now: Time, since: Time) {
        if now >= self.suspect_at(since) {
            self.is_suspected = true;
            self.port.set_suspected(true);
        }
    }

    /// When that is due.
    pub fn suspect_at(&self, since: Time) -> Time {
        if self.is_suspected { Time::NEVER } else { since + SUSPECT_AFTER }
    }

    /// It has a connection again.
    pub fn trust(&mut self) {
        if std::mem::take(&mut self.is_suspected) {
            self.port.set_suspected(false);
        }
    }

    /// Whether the other side reads nothing that programs publish.
    pub fn is_bystander(&self) -> bool {
        self.announced.is_bystander()
    }

    /// Bytes kept of what the other side wants.
    pub fn interest_bytes(&self) -> usize {
        self.announced.bytes()
    }

    /// A record that the other side says of itself; of what it wants, so many bytes may be kept.
    pub fn handle_record(&mut self, record: &[u8], room: usize) -> Result<(), String> {
        self.use_rules();
        if self.gate.as_ref().is_some_and(|gate| !gate.passes(record))
            || self.port.handle_routing(record).map_err(|error| error.to_string())?
            || RecordKind::of(record) != Ok(RecordKind::Announce)
        {
            return Ok(());
        }
        let announce = Announce::read(record).map_err(|error| error.to_string())?;
        if announce.part == 0 && announce.header.version > self.announced.version() {
            let may_route = self.gate.as_ref().is_none_or(Gate::routes);
            let is_router = may_route && Roles::of(&announce.facts).contains(Roles::ROUTER);
            self.port.set_neighbours(announce.header.domain, [(self.publisher, self.node, is_router)]);
            self.port.set_leaf(!is_router);
            self.process = Process::of(&announce.facts);
        }
        self.announced.set_bytes_max(room.min(INTEREST_BYTES_MAX));
        match self.announced.apply(&announce) {
            Applied::Changed { added, removed } => {
                let (added, removed) = match &mut self.gate {
                    Some(gate) => gate.grant(added, removed),
                    None => (added, removed),
                };
                self.port.change_interest(self.node, &added, &removed);
                let announced = (self.publisher, announce.header.version);
                self.port.apply(self.node, announced, !added.is_empty());
                self.port.set_open(false);
            }
            Applied::TooMuch if self.gate.is_some() => {
                return Err("it subscribes to more than is kept of one node".to_owned());
            }
            Applied::TooMuch => {
                let why = "it subscribes to more than is kept of one node: everything is sent to it";
                self.port.tell(HubEvent::Unreadable(self.node, why.to_owned()));
                self.port.set_open(true);
            }
            Applied::Lacking => return Err("it announced a change of what we do not know".to_owned()),
            Applied::Partly | Applied::Old => {}
        }
        Ok(())
    }

    /// If the other side left: what it published and we have not got is lost.
    pub fn note_goodbye(&mut self, now: Time) {
        let Some(goodbye) = self.goodbye.take() else { return };
        for &(chain, last) in &goodbye.last {
            if let Some(inflow) = (chain as usize).checked_sub(1).and_then(|at| self.into.get(at)) {
                let told = &mut self.told;
                self.port.note_source(now, inflow.source, SourceNews::Ends(last), |news| told.push(news));
                self.after_feeding(now);
            }
        }
    }

    /// Says how far we are with each lane; nothing more is read until the other side heard it.
    pub fn positions(&mut self) -> Vec<Position> {
        self.into.iter_mut().map(Inflow::position).collect()
    }

    // --- what is to be sent ---

    /// Another connection goes on where the other side is. False if it cannot be there.
    pub fn rewind(&mut self, positions: &[Position]) -> bool {
        positions.len() == self.out.len()
            && self.out.iter_mut().zip(positions).all(|(out, &position)| out.rewind(position))
    }

    /// Says at once how far the hub is.
    pub fn tell_soon(&mut self, now: Time) {
        self.into.iter_mut().for_each(|inflow| inflow.tell_at = now);
    }

    /// Says whether anything can be sent: if not, publishers need not ring.
    pub fn set_blocked(&mut self, down: bool) {
        for (at, out) in self.out.iter_mut().enumerate() {
            let blocked = down || !(out.is_hungry() || out.has_sendable());
            if blocked != std::mem::replace(&mut out.blocked, blocked) {
                self.port.set_blocked(at + 1, blocked);
            }
        }
    }

    /// Takes what the hub has for lanes that have credit. True if that was anything.
    pub fn take(&mut self) -> bool {
        let mut taken = false;
        for (at, out) in self.out.iter_mut().enumerate() {
            if out.is_hungry() {
                let mut bytes = out.spare();
                taken |= self.port.take(at + 1, &mut bytes);
                out.add(bytes);
            }
        }
        if taken {
            self.stuck_since = None;
            if std::mem::take(&mut self.lagging) {
                self.port.set_lagging(false);
                // It hears what it lost, though nothing more may be published.
                self.port.tell_position();
            }
        }
        taken
    }

    /// The other side's hub has more, and has room for more. False if it cannot be so.
    pub fn acknowledge(&mut self, lane: usize, consumed: u64, limit: u64) -> bool {
        let Some(out) = lane.checked_sub(1).and_then(|at| self.out.get_mut(at)) else { return false };
        if !out.acknowledge(consumed, limit) {
            return false;
        }
        if out.take_answer() {
            self.port.answer_flush(lane, &[]);
        }
        true
    }

    /// Notes whether the hub has much for it, or holds others back for it, and it takes nothing.
    pub fn note_stuck(&mut self, now: Time, full: usize) {
        if self.is_blocked() && (self.waiting() >= full.max(1) || self.holds_back()) {
            self.stuck_since.get_or_insert(now);
        } else {
            self.stuck_since = None;
        }
    }

    /// Whether it has been so for longer than publishers are patient, and they still wait for it.
    pub fn is_late(&self, now: Time, patience: Duration) -> bool {
        !self.lagging && self.stuck_since.is_some_and(|since| now >= since + patience)
    }

    /// Begins to wait for what flushes wait for. The lanes to ask about.
    pub fn ask_flushes(&mut self) -> Vec<usize> {
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        let out = &mut self.out;
        let taken: Vec<u64> = out.iter().map(Outflow::taken).collect();
        self.port.ask_flushes(
            |lane| taken[lane - 1],
            |lane| {
                let out = &mut out[lane - 1];
                out.awaited = Some(out.taken());
                if out.take_answer() {
                    answered.push(lane)
                } else {
                    asked.push(lane)
                }
                true
            },
        );
        answered.iter().for_each(|&lane| self.port.answer_flush(lane, &[]));
        asked
    }

    /// The other side is gone. What flushes wait for does not come.
    pub fn part(&mut self, departure: Departure) {
        let mut lanes = Vec::new();
        let ask = |lane| {
            lanes.push(lane);
            true
        };
        let lacks = self.lacking() > 0 || self.waiting() > 0;
        self.port.ask_flushes(|_| u64::MAX, ask);
        let silent = if lacks { std::slice::from_ref(&self.node) } else { &[] };
        (1..=self.out.len()).for_each(|lane| self.port.answer_flush(lane, silent));
        self.port.set_open(false);
        self.port.part(self.node, departure);
    }

    /// Nothing more comes.
    pub fn close(mut self, now: Time) {
        for inflow in &self.into {
            self.port.close_source(now, inflow.source);
        }
    }
}
