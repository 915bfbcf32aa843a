//! Who else is in the domain: announcements, heartbeats, welcomes, and deaths.
//!
//! A node announces what it subscribes to when it starts, when that changes, and when it hears a node
//! it does not know. Whoever hears an announcement of a new node *welcomes* it: it begins to count on
//! that node's acknowledgements, and tells it from which segments of its streams on. The newcomer
//! joins the streams there, so from the welcome on it misses nothing, and owes nothing from before.
//!
//! | on …                             | do                                                          |
//! |----------------------------------|-------------------------------------------------------------|
//! | start, change of subscriptions   | announce                                                    |
//! | a sender that was never heard    | announce soon, so that it learns of us                      |
//! | announcement of a new instance   | member joined; count on it; welcome it; announce soon       |
//! | announcement of a member         | update its subscriptions                                    |
//! | … that lacks us                  | welcome it again with the same; announce soon               |
//! | welcome for us                   | join the sender's streams where it says                     |
//! | a version that was not announced | it may want anything; announce that we lack it              |
//! | … and what we have, once more    | believe that: there is no such version                      |
//! | heartbeat of an unknown node     | announce that we lack it                                    |
//! | control records of a member lost | its welcome for us may be among them: announce that we lack it |
//! | something of a member is lacking | announce that again, ever more rarely                       |
//! | goodbye, or silence too long     | member left; count on it no longer                          |
//! | a turn that comes late           | we stood still: of that time we do not know who was silent  |
//! | a member under another node id, or as another run | the old one is gone, the new one joined; but as long as both speak, ask once more |
//! | somebody else under our node id  | take another one; announce; welcome every member there      |
//! | anything of another domain       | nothing                                                     |

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use shoal_norm::{NodeId, Time};
use shoal_wire::{Goodbye, Heartbeat, JoinedGroups, Position, Process, RecordKind, Roles};

use self::forgotten::Forgotten;
use self::member::Member;
use crate::hub::Departure;
use crate::interest::{Announcer, Entry};
use crate::norm::Groups;

mod beat;
mod forgotten;
mod hearing;
mod member;

/// Announcements that newcomers provoke wait so long for each other.
const ANNOUNCE_DELAY: Duration = Duration::from_millis(20);
/// And are spread over so much time for each member.
const ANNOUNCE_SPREAD: Duration = Duration::from_micros(200);
/// In a larger group than this, welcomes wait for the announcement that follows them: a newcomer is welcomed by
/// everybody, and everybody hears it. And whoever announces something because of others does so at most once in so much time
/// for each member, so that many who come at once do not have everybody say everything again for each of them.
const PROMPT_MEMBERS_MAX: usize = 8;
const ANNOUNCE_GAP: Duration = Duration::from_millis(10);
/// What others provoke us to announce takes no more than so many bytes per second: anybody can seem new.
const PROVOKED_BYTES_PER_S: u32 = 1 << 20;
/// Nodes that were heard without having been announced, at the most; the rest will be heard again.
const STRANGERS_MAX: usize = 256;
/// How soon an unanswered announcement is repeated at first, and at last.
const REPEAT_FIRST: Duration = Duration::from_millis(100);
const REPEAT_LAST: Duration = Duration::from_secs(10);

/// A turn that is no later than this is in time.
const PUNCTUAL: Duration = Duration::from_millis(10);
/// How long the rest of a long announcement is waited for.
const PARTS_PATIENCE: Duration = Duration::from_secs(1);
/// What is kept of what one node wants, and of what all want together. Beyond it everything is sent to whoever announces more.
const INTEREST_BYTES_MAX: usize = 128 << 20;
const ALL_INTEREST_BYTES_MAX: usize = 256 << 20;

/// What a membership can be told.
#[derive(Clone, Debug)]
pub struct MembershipConfig {
    /// Our domain; nodes of others may share the group, and are ignored.
    pub domain: u64,
    /// Our node id.
    pub node: NodeId,
    /// Who we are, whatever our node id.
    pub publisher: u64,
    /// How often to say that we are here (TI).
    pub heartbeat: Duration,
    /// After how many missed ones a node is taken for dead (MH), as often as they are seen to come (AT).
    pub missed_heartbeats_max: u32,
    /// The most members kept track of.
    pub members_max: usize,
    /// The groups that carry messages beside the domain's own.
    pub groups: Arc<Groups>,
}

/// What a node wants anew, and what no longer. Neither, if all that changed is that its interest is known again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Subscriptions that began, by the node's numbers for them.
    pub added: Vec<(u64, Entry)>,
    /// Those that ended.
    pub removed: Vec<(u64, Entry)>,
    /// Who announced that, and in which version; 0 if it is not new.
    pub announced: (u64, u64),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// A node is here.
    Joined(NodeId),
    /// A node is gone: its run, and how it went.
    Gone(NodeId, u16, Departure),
    /// A node subscribes to something else now.
    Subscriptions(NodeId, Change),
    /// A node subscribes to more than is kept of one.
    TooMuch(NodeId),
    /// A node that has so many groups, and not as many as we: neither hears the other.
    OtherGroups(NodeId, u32),
    /// A node subscribes to something else now, and we do not know what yet: it may want anything.
    InterestUnknown(NodeId),
    /// Join this node's streams there.
    Welcomed {
        /// The sender.
        node: NodeId,
        /// Its instance.
        instance: u16,
        /// Who publishes there.
        publisher: u64,
        /// Its streams, and from where on.
        positions: Vec<Position>,
    },
}

/// The members of a domain as one node sees them.
#[derive(Debug)]
pub struct Membership {
    config: MembershipConfig,
    /// The version of what we want, and the one that was announced last; 0 if somebody needs all of it.
    version: u64,
    announced: u64,
    members: BTreeMap<NodeId, Member>,
    /// Under which node id each of them is, by its publisher id.
    nodes: HashMap<u64, NodeId>,
    /// How many of them have to announce or welcome us once more, and of how many it is not known what they want.
    lacking: usize,
    unknown: usize,
    /// Nobody is silent for too long before then.
    death_at: Time,
    /// Bytes kept of what they want, and the most that may be.
    interest_bytes: usize,
    interest_bytes_max: usize,
    forgotten: Forgotten,
    /// Heard, but never announced.
    strangers: BTreeSet<u64>,
    /// Runs of nodes that have other groups.
    refused: BTreeSet<(NodeId, u16)>,
    announce_at: Time,
    /// When that was last, and how many bytes it took.
    announced_at: Option<Time>,
    announced_bytes: u32,
    /// Only because something is lacking.
    repeats: bool,
    repeat: Duration,
    heartbeat_at: Time,
    records: VecDeque<Due>,
    /// Who is welcomed with the next announcement.
    held: Vec<NodeId>,
    /// Who returned, and is not counted on before what it wants is acted on.
    returned: Vec<NodeId>,
    /// An announcement that is due.
    announcement: Option<Asked>,
    beats: bool,
    events: VecDeque<MemberEvent>,
    ackers_changed: bool,
    bystanders_changed: bool,
    /// When our next turn was to be.
    due: Time,
}

/// What is to be announced.
#[derive(Debug)]
struct Asked {
    /// Changes since this version, or everything.
    since: Option<u64>,
    missing: Vec<u64>,
    /// Who is welcomed behind it.
    held: Vec<NodeId>,
}

/// What is to be sent.
#[derive(Debug)]
enum Due {
    /// The welcome of a member, as it is by then.
    Welcome(NodeId),
    Record(Vec<u8>),
}

impl Membership {
    /// A node that knows nobody yet and announces itself at once.
    pub fn new(config: MembershipConfig) -> Membership {
        Membership {
            config,
            version: 1,
            announced: 0,
            members: BTreeMap::new(),
            nodes: HashMap::new(),
            lacking: 0,
            unknown: 0,
            death_at: Time::NEVER,
            interest_bytes: 0,
            interest_bytes_max: ALL_INTEREST_BYTES_MAX,
            forgotten: Forgotten::default(),
            strangers: BTreeSet::new(),
            refused: BTreeSet::new(),
            announce_at: Time::ZERO,
            announced_at: None,
            announced_bytes: 0,
            repeats: false,
            repeat: REPEAT_FIRST,
            heartbeat_at: Time::NEVER,
            records: VecDeque::new(),
            held: Vec::new(),
            returned: Vec::new(),
            announcement: None,
            beats: false,
            events: VecDeque::new(),
            ackers_changed: false,
            bystanders_changed: false,
            due: Time::NEVER,
        }
    }

    // --- getters ---

    /// Everybody known, without us.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.keys().copied()
    }

    /// Our domain.
    pub fn domain(&self) -> u64 {
        self.config.domain
    }

    /// Everybody known by its publisher, its node, its run, and whether it is a router.
    pub fn neighbours(&self) -> impl Iterator<Item = (u64, NodeId, u16, bool)> + '_ {
        let is_router = |member: &Member| member.roles.contains(Roles::ROUTER);
        self.members
            .iter()
            .map(move |(&node, member)| (member.publisher, node, member.instance, is_router(member)))
    }

    /// The program that a member is in, as far as it said so.
    pub fn process(&self, node: NodeId) -> Option<Process> {
        self.members.get(&node)?.process.clone()
    }

    /// Those that do something for others, and are waited for however slow they are.
    pub fn indispensable(&self) -> Vec<NodeId> {
        let is_store = |(_, member): &(&NodeId, &Member)| member.roles.contains(Roles::STORE);
        self.members.iter().filter(is_store).map(|(&node, _)| node).collect()
    }

    /// Who we are.
    pub fn publisher(&self) -> u64 {
        self.config.publisher
    }

    /// Counts the changes of what we subscribe to.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether we know what everybody wants.
    pub fn is_interest_known(&self) -> bool {
        self.unknown == 0
    }

    // --- commands ---

    /// We want something else now.
    pub fn set_wanted(&mut self, now: Time, version: u64) {
        self.version = version;
        self.announce_at = now;
        self.repeats = false;
    }

    /// We have another node id now, and are another sender to everybody: whoever we count on joins our streams there where
    /// everybody has what comes before, as `first` tells for each.
    pub fn rename(&mut self, now: Time, node: NodeId, first: impl Fn(u16) -> u64) {
        self.config.node = node;
        for (&node, member) in &mut self.members {
            for position in &mut member.welcome {
                position.segment = position.segment.max(first(position.stream));
            }
            member.welcomed_at = now;
            self.held.push(node);
        }
        (self.announced, self.announce_at, self.repeats) = (0, now, false);
    }

    // --- input ---

    /// A sender was heard whose instance is new to us.
    pub fn on_sender_heard(&mut self, now: Time) {
        self.announced = 0;
        self.announce_soon(now);
    }

    /// Changes what is known of a member's run, and counts what is lacking then; none if it is no member.
    fn change<T>(&mut self, node: NodeId, instance: u16, change: impl FnOnce(&mut Member) -> T) -> Option<T> {
        let member = self.members.get_mut(&node).filter(|member| member.instance == instance)?;
        let (was_lacking, was_known) = (member.is_lacking(), member.is_known());
        let was_bystander = member.is_bystander();
        let changed = change(member);
        self.bystanders_changed |= was_bystander != member.is_bystander();
        self.lacking = self.lacking + usize::from(member.is_lacking()) - usize::from(was_lacking);
        self.unknown = self.unknown + usize::from(was_known) - usize::from(member.is_known());
        Some(changed)
    }

    /// A larger group takes more time: everybody answers a newcomer.
    fn announce_soon(&mut self, now: Time) {
        let share = f64::from(self.config.node % 1000) / 1000.0;
        let spread = (ANNOUNCE_SPREAD * self.members.len() as u32).mul_f64(share);
        let taken = Duration::from_secs(1) * self.announced_bytes / PROVOKED_BYTES_PER_S;
        let earliest = self.announced_at.map_or(Time::ZERO, |at| at + taken.max(self.gap()));
        self.announce_at = self.announce_at.min(earliest.max(now + ANNOUNCE_DELAY + spread));
        self.repeats = false;
    }

    /// The least time between announcements that others provoke.
    fn gap(&self) -> Duration {
        let members = self.members.len();
        if members > PROMPT_MEMBERS_MAX { ANNOUNCE_GAP * members as u32 } else { Duration::ZERO }
    }

    /// How soon an announcement that was not answered is repeated at first: others need their time.
    fn repeat_first(&self) -> Duration {
        REPEAT_FIRST.max(2 * self.gap())
    }

    /// What members that just returned want is acted on: they are counted on from these numbers of the chains on. False if
    /// nobody did.
    pub fn count_on_returned(&mut self, next: impl Fn() -> Vec<u64>) -> bool {
        if self.returned.is_empty() {
            return false;
        }
        let next = next();
        for node in std::mem::take(&mut self.returned) {
            if let Some(member) = self.members.get_mut(&node) {
                member.count_on(&next);
            }
        }
        true
    }

    /// Says from which number of each chain on members that just went are not counted on.
    pub fn note_forgotten(&mut self, first: impl Fn() -> Vec<u64>) {
        self.forgotten.note(first);
    }

    /// A node said which version of its subscriptions it has announced. True if thereby what it wants is no longer
    /// known: until its announcement arrives it may want anything.
    pub fn on_version(&mut self, now: Time, node: NodeId, instance: u16, version: u64) -> bool {
        // While it is lacking it is asked for, ever more rarely, however many versions it is said to have.
        let became_unknown =
            self.change(node, instance, |member| member.hear_version(now, version)).unwrap_or(false);
        if became_unknown {
            self.repeat = REPEAT_FIRST;
            self.announce_soon(now);
        }
        became_unknown
    }

    /// A sender said goodbye, or is not listened to any more.
    pub fn on_sender_gone(&mut self, node: NodeId, instance: u16, departure: Departure) {
        if self.members.get(&node).is_some_and(|member| member.instance == instance) {
            self.forget(node, departure);
        }
    }

    /// Something that a node told everybody is lost: its welcome for us may have been among it.
    pub fn on_control_lost(&mut self, now: Time, node: NodeId, instance: u16) {
        if self.change(node, instance, |member| member.welcomed_us = false).is_some() {
            self.repeat = REPEAT_FIRST;
            self.announce_soon(now);
        }
    }

    /// What was lacking came.
    fn stop_repeating(&mut self) {
        if self.repeats && self.lacking == 0 {
            self.announce_at = Time::NEVER;
            self.repeats = false;
        }
    }

    /// A member is gone, and may return.
    fn forget(&mut self, node: NodeId, departure: Departure) {
        if let Some(Member { publisher, welcome, .. }) = self.remove(node, departure) {
            // Though it said goodbye: anybody can say that for it.
            self.forgotten.add(publisher, welcome);
        }
    }

    fn remove(&mut self, node: NodeId, departure: Departure) -> Option<Member> {
        let member = self.members.remove(&node)?;
        self.nodes.remove(&member.publisher);
        self.lacking -= usize::from(member.is_lacking());
        self.unknown -= usize::from(!member.is_known());
        self.interest_bytes -= member.interest_bytes();
        (self.ackers_changed, self.bystanders_changed) = (true, true);
        self.events.push_back(MemberEvent::Gone(node, member.instance, departure));
        Some(member)
    }

    /// Announces, beats and buries as time goes on. `last_heard` tells when anything was heard of a node last:
    /// one that speaks is alive, though its heartbeats were lost.
    pub fn handle_timeout(&mut self, now: Time, last_heard: impl Fn(NodeId, u16) -> Option<Time>) {
        self.pardon_silence(now);
        if self.death_at <= now {
            self.bury(now, last_heard);
        }
        if self.announce_at <= now {
            self.announce(now);
        } else if self.heartbeat_at <= now {
            self.beats = true;
            self.heartbeat_at = now + self.config.heartbeat;
        }
        self.due = self.poll_timeout();
    }

    /// Takes for dead who was silent for too long, and finds out when to look again.
    fn bury(&mut self, now: Time, last_heard: impl Fn(NodeId, u16) -> Option<Time>) {
        let missed_max = self.config.missed_heartbeats_max;
        let silent = |member: &Member| member.death_at(missed_max) <= now;
        let mut failed = Vec::new();
        for (&node, member) in self.members.iter_mut().filter(|(_, member)| silent(member)) {
            member.heard_at = member.heard_at.max(last_heard(node, member.instance).unwrap_or(Time::ZERO));
            if silent(member) {
                failed.push(node);
            }
        }
        for node in failed {
            self.forget(node, Departure::Failed);
        }
        let deaths = self.members.values().map(|member| member.death_at(missed_max));
        self.death_at = deaths.min().unwrap_or(Time::NEVER);
    }

    /// A turn that comes later than it was to be shows that we stood still, or had no time: who was silent meanwhile may
    /// have spoken.
    fn pardon_silence(&mut self, now: Time) {
        let late = now.since(self.due);
        if late > PUNCTUAL {
            for member in self.members.values_mut() {
                member.heard_at = (member.heard_at + late).min(now);
                member.beat.pardon(now, late);
            }
        }
    }

    fn announce(&mut self, now: Time) {
        let (complete, patience) = (self.lacking == 0, self.repeat_first());
        // One that was met a moment ago has not had the time to welcome us.
        let lacking = self.members.values().filter(|member| {
            member.is_lacking() && (now.since(member.welcomed_at) >= patience || !member.is_known())
        });
        let mut missing: Vec<u64> = lacking.map(|member| member.publisher).collect();
        missing.extend(std::mem::take(&mut self.strangers));
        let since = (self.announced > 0).then_some(self.announced);
        self.announcement = Some(Asked { since, missing, held: std::mem::take(&mut self.held) });
        (self.announced, self.announced_at) = (self.version, Some(now));
        self.heartbeat_at = now + self.config.heartbeat;
        // A stranger that is there will be heard again.
        self.repeats = !complete;
        if complete {
            self.announce_at = Time::NEVER;
        } else {
            self.announce_at = now + self.repeat.max(patience);
            self.repeat = (self.repeat.max(patience) * 2).min(REPEAT_LAST);
        }
    }

    // --- output ---

    /// A heartbeat to send to the group, once: it need not be repaired, because the next one says the same.
    pub fn poll_heartbeat(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.beats).then(|| {
            let mut record = Vec::new();
            let MembershipConfig { domain, publisher, .. } = self.config;
            Heartbeat { domain, publisher, version: self.version }.write(&mut record);
            record
        })
    }

    /// The next record to send to the group, on the control stream. `announcement` makes the records that announce what
    /// we want: since a version, or all of it; and whom we lack.
    pub fn poll_record(
        &mut self,
        announcement: impl FnOnce(Announcer, Option<u64>, &[u64]) -> Vec<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        if let Some(Asked { since, missing, held }) = self.announcement.take() {
            let MembershipConfig { domain, publisher, heartbeat, ref groups, .. } = self.config;
            let groups = JoinedGroups { count: groups.count() as u32, joined: groups.joined() };
            let announcer =
                Announcer { domain, publisher, heartbeat_ms: heartbeat.as_millis() as u64, groups };
            let records = announcement(announcer, since, &missing);
            self.announced_bytes = records.iter().map(|record| record.len() as u32).sum();
            self.records.extend(records.into_iter().map(Due::Record));
            self.records.extend(held.into_iter().map(Due::Welcome));
        }
        loop {
            match self.records.pop_front()? {
                Due::Record(record) => return Some(record),
                Due::Welcome(node) => {
                    // It may be gone again.
                    if let Some(member) = self.members.get(&node) {
                        return Some(member.welcome_record(self.config.publisher));
                    }
                }
            }
        }
    }

    /// What a record says that is a goodbye in this domain: the last number of each of its sender's chains.
    pub fn read_goodbye(&self, record: &[u8]) -> Option<Vec<(u32, u64)>> {
        let is_goodbye = RecordKind::of(record) == Ok(RecordKind::Goodbye);
        let goodbye = is_goodbye.then(|| Goodbye::read(record).ok()).flatten()?;
        (goodbye.domain == self.config.domain).then_some(goodbye.last)
    }

    /// The record that says goodbye, with the last number of each chain.
    pub fn goodbye(&self, last: Vec<(u32, u64)>) -> Vec<u8> {
        let mut record = Vec::new();
        let MembershipConfig { domain, publisher, .. } = self.config;
        Goodbye { domain, publisher, last }.write(&mut record);
        record
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<MemberEvent> {
        self.events.pop_front()
    }

    /// Whose acknowledgements count, if that changed. Must be acted on before anything more is sent.
    pub fn poll_ackers(&mut self) -> Option<Vec<NodeId>> {
        std::mem::take(&mut self.ackers_changed).then(|| self.members.keys().copied().collect())
    }

    /// Whose acknowledgements count in a group.
    pub fn members_in(&self, group: usize) -> Vec<NodeId> {
        let is_in = |(_, member): &(&NodeId, &Member)| member.groups.joined >> group & 1 == 1;
        self.members.iter().filter(is_in).map(|(&node, _)| node).collect()
    }

    /// Who reads nothing, if that changed: nobody is too slow for them.
    pub fn poll_bystanders(&mut self) -> Option<Vec<NodeId>> {
        let bystanders = self.members.iter().filter(|(_, member)| member.is_bystander());
        std::mem::take(&mut self.bystanders_changed).then(|| bystanders.map(|(&node, _)| node).collect())
    }

    /// When [`Membership::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Time {
        self.announce_at.min(self.heartbeat_at).min(self.death_at)
    }
}

#[cfg(test)]
mod tests;
