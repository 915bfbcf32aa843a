//! Links between the hubs of one process: what one publishes is fed to the others by whoever publishes it.
//!
//! The hubs of a domain meet in a [`Meeting`]. A message goes straight from its publisher's buffer into the queues of those
//! who want it. If one of these is full the rest waits in the buffer, and its publisher with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use shoal_norm::{Chunk, NodeId, Time};
use shoal_wire::Announce;

use crate::hub::{Departure, Fed, Hub, LinkBell, LinkKind, Port, Ring, Source, SourceId};
use crate::interest::{AnnouncedInterest, Announcer, Applied, InterestBounds};

/// The time, by the clock of one hub.
type Clock = Box<dyn Fn() -> Time + Send + Sync>;

/// What one hub sends on one lane.
#[derive(Default)]
struct HubLane {
    /// Taken from its buffer, and not everybody has it.
    bytes: Vec<u8>,
    /// How far each of the others is.
    reached: BTreeMap<NodeId, usize>,
    /// Bytes that everybody has, ever.
    sent: u64,
    blocked: bool,
}

/// A hub that is here.
struct Member {
    port: Port,
    clock: Clock,
    lanes: Vec<HubLane>,
    /// The others' lanes, as this hub knows them.
    sources: HashMap<(NodeId, usize), SourceId>,
    /// What it announced to the others that it wants.
    announced: AnnouncedInterest,
}

/// The hubs of an `inproc` domain.
#[derive(Default)]
pub struct Meeting {
    members: Mutex<BTreeMap<NodeId, Member>>,
}

/// A hub's place in a meeting. Dropping it leaves.
pub struct Seat {
    meeting: Arc<Meeting>,
    node: NodeId,
}

struct Bell {
    meeting: Weak<Meeting>,
    node: NodeId,
}

impl LinkBell for Bell {
    fn ring(&self, why: Ring) {
        let Some(meeting) = self.meeting.upgrade() else { return };
        match why {
            Ring::Data(lane, _) => deliver(&mut meeting.lock(), self.node, lane),
            Ring::Interest => announce(&mut meeting.lock(), self.node),
            Ring::Turn => serve(&mut meeting.lock()),
        }
    }
}

impl Meeting {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hub takes its seat. `clock` is the one it reads.
    pub fn join(
        self: &Arc<Meeting>,
        hub: &Arc<Hub>,
        clock: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Seat {
        let node = hub.node();
        let bell = Bell { meeting: Arc::downgrade(self), node };
        let port = hub.attach("inproc", LinkKind::Inside, Box::new(bell));
        let lanes = (0..port.lanes()).map(|_| HubLane::default()).collect();
        let newcomer = Member {
            port,
            clock: Box::new(clock),
            lanes,
            sources: HashMap::new(),
            announced: AnnouncedInterest::new(InterestBounds { bytes_max: usize::MAX }),
        };
        let mut members = self.lock();
        for (&other, member) in members.iter() {
            member.port.join(node);
            newcomer.port.join(other);
            let wanted: Vec<_> = member.announced.entries().map(|(id, entry)| (id, entry.clone())).collect();
            newcomer.port.change_interest(other, &wanted, &[]);
        }
        members.insert(node, newcomer);
        announce(&mut members, node);
        Seat { meeting: self.clone(), node }
    }
}

impl Seat {
    /// Bytes that were published, and not everybody has.
    pub fn unsent(&self) -> u64 {
        let members = self.meeting.lock();
        let Some(member) = members.get(&self.node) else { return 0 };
        let appended = member.port.hub().chains().appended(member.port.link());
        appended.iter().zip(&member.lanes).map(|(appended, lane)| appended.saturating_sub(lane.sent)).sum()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut members = self.meeting.lock();
        let gone = members.remove(&self.node);
        for member in members.values_mut() {
            let now = (member.clock)();
            member.port.part(self.node, Departure::Left);
            let of_gone = |(node, _): &(NodeId, usize)| *node == self.node;
            let sources: Vec<(NodeId, usize)> = member.sources.keys().copied().filter(of_gone).collect();
            for source in sources.iter().filter_map(|key| member.sources.remove(key)) {
                member.port.close_source(now, source);
            }
            for lane in &mut member.lanes {
                lane.reached.remove(&self.node);
            }
        }
        // Whoever waited for it waits no more.
        serve(&mut members);
        drop(members);
        drop(gone);
    }
}

/// A hub wants something else now.
fn announce(members: &mut BTreeMap<NodeId, Member>, node: NodeId) {
    let Some(member) = members.get_mut(&node) else { return };
    let version = member.port.wanted_version();
    let known = Some(member.announced.version()).filter(|&known| known > 0);
    let publisher = member.port.hub().publisher();
    let announcer = Announcer { domain: 0, publisher, heartbeat_ms: 0, groups: Default::default() };
    let mut changes = Vec::new();
    for record in member.port.announcement(announcer, known, &[]) {
        // Our own writing can be read.
        if let Ok(record) = Announce::read(&record)
            && let Applied::Changed { added, removed } = member.announced.apply(&record)
        {
            changes.push((added, removed));
        }
    }
    member.port.set_announced(version);
    for (_, other) in members.iter().filter(|(other, _)| **other != node) {
        for (added, removed) in &changes {
            other.port.change_interest(node, added, removed);
        }
    }
}

/// Moves on whatever waits, and answers flushes.
fn serve(members: &mut BTreeMap<NodeId, Member>) {
    let nodes: Vec<NodeId> = members.keys().copied().collect();
    for node in nodes {
        let lanes = members.get(&node).map_or(0, |member| member.lanes.len());
        for lane in 1..lanes {
            deliver(members, node, lane);
        }
        let Some(member) = members.get(&node) else { continue };
        let mut answered = Vec::new();
        let ask = |lane| {
            answered.push(lane);
            true
        };
        member.port.ask_flushes(|lane| member.lanes[lane].sent, ask);
        answered.iter().for_each(|&lane| member.port.answer_flush(lane, &[]));
    }
}

/// Feeds what a hub published on a lane to the others, as far as they have room.
fn deliver(members: &mut BTreeMap<NodeId, Member>, from: NodeId, lane: usize) {
    loop {
        let Some(member) = members.get_mut(&from) else { return };
        let publisher = member.port.hub().publisher();
        let out = &mut member.lanes[lane];
        if out.bytes.is_empty() && !member.port.take(lane, &mut out.bytes) {
            if std::mem::take(&mut out.blocked) {
                member.port.set_blocked(lane, false);
                // What came while nobody rang.
                continue;
            }
            return;
        }
        let mut out = std::mem::take(&mut member.lanes[lane]);
        let source = Source { publisher, chain: lane as u32, node: from };
        let mut everywhere = true;
        for (&node, other) in members.iter_mut().filter(|(node, _)| **node != from) {
            let reached = out.reached.entry(node).or_default();
            if *reached < out.bytes.len() {
                let Member { port, clock, sources, .. } = other;
                let now = clock();
                let id = *sources.entry((from, lane)).or_insert_with(|| port.open_source(source));
                match port.feed(now, id, Chunk { bytes: &out.bytes[*reached..], fresh: false }, |_| ()) {
                    Fed::All | Fed::Broken => *reached = out.bytes.len(),
                    Fed::Held => everywhere = false,
                }
                port.hand_over(now);
            }
        }
        if everywhere {
            out.sent += out.bytes.len() as u64;
            out.bytes.clear();
            out.reached.clear();
        }
        let blocked = !everywhere;
        let newly_blocked = blocked && !std::mem::replace(&mut out.blocked, true);
        let Some(member) = members.get_mut(&from) else { return };
        member.lanes[lane] = out;
        if newly_blocked {
            member.port.set_blocked(lane, true);
        }
        if blocked {
            return;
        }
    }
}

/// `inproc` domains by name. A domain lives as long as somebody is connected to it.
pub struct Domains(Mutex<BTreeMap<String, Weak<Meeting>>>);

impl Domains {
    /// None yet.
    pub const fn new() -> Domains {
        Domains(Mutex::new(BTreeMap::new()))
    }

    /// The domain of this name.
    pub fn open(&self, name: &str) -> Arc<Meeting> {
        let mut domains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        domains.retain(|_, domain| domain.strong_count() > 0);
        if let Some(domain) = domains.get(name).and_then(Weak::upgrade) {
            return domain;
        }
        let domain = Arc::new(Meeting::default());
        domains.insert(name.to_owned(), Arc::downgrade(&domain));
        domain
    }
}

impl Default for Domains {
    fn default() -> Domains {
        Domains::new()
    }
}
