//! One member of a group. See the crate's page for what is called when.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use raft::eraftpb::{Message, MessageType};
use raft::{Config, ProgressState, RawNode, SnapshotStatus, StateRole};

use crate::entries::{Change, Content, Entries, Entry, LogError, Members, Snapshot, State};
use crate::lease::Lease;
use crate::message::{self, Envelope, MessageError};
use crate::storage::{Store, conf_change, framed, from_raft, members_of, snapshot_of};

/// Ticks of the longest silence of an owner; elections follow after one to two of these.
const ELECTION_TICKS: usize = 10;
/// Ticks between two heartbeats of an owner.
const HEARTBEAT_TICKS: usize = 2;
/// Of an election timeout, what an owner counts on: a tick may be half over, and clocks differ by a few percent.
const LEASE_PERCENT: u32 = 80;
/// A follower that needs a snapshot and said nothing for so many election timeouts gets it again.
const SNAPSHOT_TIMEOUTS: u32 = 10;

/// How a member behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its id: that of its disk. Never 0, and never used again for another disk.
    pub id: u64,
    /// An owner that is not heard for this long is replaced.
    pub election_timeout: Duration,
    /// Bytes of entries in one message, beyond the first entry.
    pub message_bytes: u64,
    /// Messages with entries that a follower has not answered.
    pub in_flight_max: usize,
    /// Bytes that are proposed and not committed; then proposals are refused.
    pub uncommitted_bytes_max: u64,
    /// The last entry that the store has applied: committed ones behind it are handed out again.
    pub applied: u64,
    /// Makes elections differ from member to member.
    pub seed: u64,
}

impl Options {
    /// Usual options of a member.
    pub fn new(id: u64) -> Options {
        Options {
            id,
            election_timeout: Duration::from_secs(1),
            message_bytes: 1 << 20,
            in_flight_max: 64,
            uncommitted_bytes_max: 32 << 20,
            applied: 0,
            seed: id,
        }
    }
}

/// Bytes for another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Which member.
    pub to: u64,
    /// A message for its [`Replica::handle_message`].
    pub bytes: Vec<u8>,
}

/// An entry that a majority has. Every member gets the same ones, in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed(pub Entry);

/// What the store has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// This member was elected. It owns once [`Replica::owns`] says so.
    Elected {
        /// Its term.
        term: u64,
    },
    /// Another member owns, or none; whatever this member delivered and did not commit is void.
    Follows {
        /// The owner, if one is known.
        owner: Option<u64>,
        /// Its term.
        term: u64,
    },
    /// The members changed.
    Members(Members),
    /// This member is too far behind: fetch what the snapshot names, then call [`Replica::install`].
    SnapshotOffered {
        /// Who has it.
        from: u64,
        /// What it is.
        snapshot: Snapshot,
    },
    /// The log was replaced by a snapshot.
    Installed(Snapshot),
}

/// Why a command was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another member owns the group.
    #[error("another member owns the group: {owner:?}")]
    NotOwner {
        /// Which one, if it is known.
        owner: Option<u64>,
    },
    /// Too much is not committed yet, or another change of members is under way.
    #[error("too much is not committed yet")]
    Busy,
    /// The log failed; the member has stopped.
    #[error("the log failed: {0}")]
    Failed(#[from] LogError),
}

/// What waits for the disk.
#[derive(Debug)]
struct Unsynced {
    number: u64,
    needs_sync: bool,
    /// The snapshot that the log becomes.
    snapshot: Option<u64>,
    messages: Vec<Message>,
}

/// One member of a group.
pub struct Replica<L: Entries> {
    options: Options,
    node: RawNode<Store<L>>,
    tick: Duration,
    next_tick_at: Duration,
    /// It votes for no member before this time: it may have promised something before it started.
    votes_from: Duration,
    lease: Lease,
    /// The clock of the owner that was heard last, with its term.
    heard: Option<(u64, u64, Duration)>,
    unsynced: VecDeque<Unsynced>,
    outgoing: VecDeque<Message>,
    committed: VecDeque<Committed>,
    events: VecDeque<Event>,
    known: (Option<u64>, u64, bool),
    offered: Option<Message>,
    /// Since when followers wait for a snapshot.
    snapshots_since: BTreeMap<u64, Duration>,
    failed: Option<LogError>,
    /// Messages that could not be read, or were not for this member.
    pub unreadable: u64,
}

impl<L: Entries> Replica<L> {
    /// A member that starts, with its log.
    pub fn new(now: Duration, options: Options, log: L) -> Result<Replica<L>, LogError> {
        // Changes of members that a crash undid are applied again; the store is not given these entries again.
        let state = log.state();
        let applied = options.applied.min(state.members_at).min(state.commit).max(log.first_index() - 1);
        let config = Config {
            id: options.id,
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied,
            max_size_per_msg: options.message_bytes,
            max_inflight_msgs: options.in_flight_max,
            check_quorum: true,
            pre_vote: true,
            max_uncommitted_size: options.uncommitted_bytes_max,
            max_committed_size_per_ready: options.message_bytes,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&config, Store(log, RefCell::default()), &logger).map_err(failed)?;
        let tick = options.election_timeout / ELECTION_TICKS as u32;
        let mut made = Replica {
            votes_from: now + options.election_timeout,
            next_tick_at: now + tick,
            options,
            node,
            tick,
            lease: Lease::default(),
            heard: None,
            unsynced: VecDeque::new(),
            outgoing: VecDeque::new(),
            committed: VecDeque::new(),
            events: VecDeque::new(),
            known: (None, 0, false),
            offered: None,
            snapshots_since: BTreeMap::new(),
            failed: None,
            unreadable: 0,
        };
        made.run(now);
        Ok(made)
    }

    // --- getters ---

    /// Whether this member owns the group now, so that it may answer and deliver: see the crate's page on the lease.
    pub fn owns(&self, now: Duration) -> bool {
        let raft = &self.node.raft;
        let is_serving = raft.state == StateRole::Leader
            && raft.lead_transferee.is_none()
            && self.failed.is_none()
            && raft.raft_log.term(raft.raft_log.applied).is_ok_and(|term| term == raft.term);
        is_serving && self.lease_until(now).is_some_and(|until| now < until)
    }

    fn lease_until(&self, now: Duration) -> Option<Duration> {
        let promised = self.options.election_timeout * LEASE_PERCENT / 100;
        self.lease.until(self.options.id, now, &self.members(), promised)
    }

    /// Whether this member was elected, and proposals are taken. It may not [own](Replica::owns) the group yet, or any more.
    pub fn is_elected(&self) -> bool {
        let raft = &self.node.raft;
        raft.state == StateRole::Leader && raft.lead_transferee.is_none() && self.failed.is_none()
    }

    /// Whether there is something to send, or to tell the store.
    pub fn has_output(&self) -> bool {
        !self.outgoing.is_empty() || !self.events.is_empty()
    }

    /// Who owns the group, as far as this member knows.
    pub fn owner(&self) -> Option<u64> {
        Some(self.node.raft.leader_id).filter(|owner| *owner != 0)
    }

    /// An owner that is not heard for this long is replaced.
    pub fn election_timeout(&self) -> Duration {
        self.options.election_timeout
    }

    /// The term that this member is in.
    pub fn term(&self) -> u64 {
        self.node.raft.term
    }

    /// Entries up to here are committed.
    pub fn commit(&self) -> u64 {
        self.node.raft.raft_log.committed
    }

    /// The members, as of the last change that was applied.
    pub fn members(&self) -> Members {
        members_of(&self.node.raft.prs().conf().to_conf_state())
    }

    /// How far each member is, if this one is the owner: its id and the last entry that it has on disk.
    pub fn progress(&self) -> Vec<(u64, u64)> {
        if self.node.raft.state != StateRole::Leader {
            return Vec::new();
        }
        let mut found: Vec<(u64, u64)> =
            self.node.raft.prs().iter().map(|(id, progress)| (*id, progress.matched)).collect();
        found.sort_unstable();
        found
    }

    /// Members that were heard lately, and how far they are, if this member is the owner. One that has just begun to own the
    /// group counts all of them.
    pub fn present(&self, now: Duration, away: Duration) -> Vec<(u64, u64)> {
        let is_here =
            |id: &u64| *id == self.options.id || self.lease.heard_since(*id, now.saturating_sub(away));
        self.progress().into_iter().filter(|(id, _)| is_here(id)).collect()
    }

    /// The snapshot that was offered and neither installed nor declined, and who has it. None if entries came meanwhile.
    pub fn offered(&self) -> Option<(u64, Snapshot)> {
        let lacks = |message: &&Message| message.get_snapshot().get_metadata().index > self.commit();
        let message = self.offered.as_ref().filter(lacks)?;
        Some((message.from, snapshot_of(message.get_snapshot())))
    }

    /// The log.
    pub fn log(&self) -> &L {
        &self.node.store().0
    }

    /// The log, for what does not change its entries: syncing it, removing old ones.
    pub fn log_mut(&mut self) -> &mut L {
        &mut self.node.mut_store().0
    }

    /// Why the member stopped, if it did.
    pub fn failure(&self) -> Option<&LogError> {
        self.failed.as_ref()
    }

    // --- input ---

    /// Bytes came from another member.
    pub fn handle_message(&mut self, now: Duration, bytes: &[u8]) -> Result<(), MessageError> {
        let envelope = message::read(bytes).inspect_err(|_| self.unreadable += 1)?;
        let Envelope { clock, heard, message } = envelope;
        if message.to != self.options.id || self.failed.is_some() {
            self.unreadable += 1;
            return Ok(());
        }
        let (from, term, kind) = (message.from, message.term, message.get_msg_type());
        let asks_for_vote = matches!(kind, MessageType::MsgRequestVote | MessageType::MsgRequestPreVote);
        let is_transfer = !message.context.is_empty();
        if asks_for_vote && !is_transfer && now < self.votes_from {
            return Ok(());
        }
        if kind == MessageType::MsgTimeoutNow && self.is_installing() {
            return Ok(());
        }
        if kind == MessageType::MsgSnapshot && self.is_new(&message) {
            self.offer(message);
        } else {
            // A member that was removed, or an entry that is not here any more: raft-rs says so, and nothing changes.
            let _ = self.node.step(message);
        }
        let raft = &self.node.raft;
        if raft.leader_id == from && raft.term == term && speaks_as_owner(kind) {
            self.heard = Some((from, term, clock));
        }
        if let Some(sent_at) = heard.filter(|_| raft.term == term) {
            self.lease.follows(from, term, sent_at);
        }
        self.run(now);
        Ok(())
    }

    /// Whether a snapshot is not on disk yet. raft-rs must not campaign then: it would read entries that are gone.
    fn is_installing(&self) -> bool {
        self.unsynced.iter().any(|each| each.snapshot.is_some())
    }

    /// Whether a snapshot is worth fetching.
    fn is_new(&self, message: &Message) -> bool {
        message.term >= self.node.raft.term && message.get_snapshot().get_metadata().index > self.commit()
    }

    /// Keep a snapshot until the store has fetched it. Its owner counts as heard. A newer one changes nothing: what is being
    /// fetched is as good, and the entries behind it follow.
    fn offer(&mut self, message: Message) {
        let (from, to, term) = (message.from, message.to, message.term);
        if self.offered().is_none() {
            self.offered = None;
        }
        match &mut self.offered {
            Some(offered) => (offered.from, offered.term) = (from, term),
            None => {
                let snapshot = snapshot_of(message.get_snapshot());
                self.events.push_back(Event::SnapshotOffered { from, snapshot });
                self.offered = Some(message);
            }
        }
        let mut heartbeat = Message { from, to, term, ..Message::default() };
        heartbeat.set_msg_type(MessageType::MsgHeartbeat);
        let _ = self.node.step(heartbeat);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Duration) {
        if now < self.next_tick_at || self.failed.is_some() {
            return;
        }
        if !self.is_installing() {
            self.node.tick();
        }
        // After a standstill the ticks that were missed do not count: silence of this member is not the owner's.
        self.next_tick_at = now + self.tick;
        self.retry_snapshots(now);
        self.run(now);
    }

    /// Let raft-rs send a snapshot again that was not answered.
    fn retry_snapshots(&mut self, now: Duration) {
        let patience = self.options.election_timeout * SNAPSHOT_TIMEOUTS;
        let waiting: Vec<u64> = match self.node.raft.state {
            StateRole::Leader => (self.node.raft.prs().iter())
                .filter(|(_, progress)| progress.state == ProgressState::Snapshot)
                .map(|(id, _)| *id)
                .collect(),
            _ => Vec::new(),
        };
        self.snapshots_since.retain(|id, _| waiting.contains(id));
        for id in waiting {
            let since = *self.snapshots_since.entry(id).or_insert(now);
            if now >= since + patience {
                self.snapshots_since.remove(&id);
                self.node.report_snapshot(id, SnapshotStatus::Failure);
            }
        }
    }

    /// Everything that the log had when [`poll_sync`](Replica::poll_sync) returned a number is on disk.
    pub fn handle_synced(&mut self, now: Duration, number: u64) {
        while let Some(front) = self.unsynced.front().filter(|front| front.number <= number) {
            self.finish_first(front.number);
        }
        self.run(now);
    }

    /// The disk failed: the member takes part no more.
    pub fn handle_failure(&mut self, error: LogError) {
        self.fail(error);
    }

    // --- commands ---

    /// Append a frame, and replicate it: its index. It counts once it is [committed](Replica::poll_committed).
    pub fn propose(&mut self, now: Duration, frame: &[u8]) -> Result<u64, Refused> {
        self.check_owner()?;
        self.node.propose(Vec::new(), framed(frame)).map_err(|_| Refused::Busy)?;
        let index = self.node.raft.raft_log.last_index();
        self.run(now);
        Ok(index)
    }

    /// Change members, one set of changes at a time.
    pub fn change_members(&mut self, now: Duration, changes: &[Change]) -> Result<(), Refused> {
        self.check_owner()?;
        if self.node.raft.has_pending_conf() {
            return Err(Refused::Busy);
        }
        self.node.propose_conf_change(Vec::new(), conf_change(changes)).map_err(|_| Refused::Busy)?;
        self.run(now);
        Ok(())
    }

    /// Let another voter own the group. This member owns nothing from now on, until that is done or has failed.
    pub fn transfer(&mut self, now: Duration, to: u64) -> Result<(), Refused> {
        self.check_owner()?;
        self.node.transfer_leader(to);
        self.run(now);
        Ok(())
    }

    /// What an [offered](Event::SnapshotOffered) snapshot names is here: the log becomes it. False if none is offered, or only
    /// by the owner of an earlier term: the next one offers it again.
    pub fn install(&mut self, now: Duration) -> bool {
        if self.offered.as_ref().is_none_or(|message| message.term < self.node.raft.term) {
            return false;
        }
        let Some(message) = self.offered.take().filter(|message| self.is_new(message)) else { return false };
        let _ = self.node.step(message);
        self.run(now);
        true
    }

    /// What an offered snapshot names cannot be fetched. It may be offered again.
    pub fn decline(&mut self) {
        self.offered = None;
    }

    fn check_owner(&self) -> Result<(), Refused> {
        if let Some(error) = &self.failed {
            return Err(error.clone().into());
        }
        if self.node.raft.state == StateRole::Leader {
            return Ok(());
        }
        Err(Refused::NotOwner { owner: self.owner() })
    }

    // --- output ---

    /// A number to return to [`handle_synced`](Replica::handle_synced) once the log is synced; none if nothing waits.
    pub fn poll_sync(&self) -> Option<u64> {
        self.unsynced.iter().rev().find(|each| each.needs_sync).map(|each| each.number)
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<Transmit> {
        let message = self.outgoing.pop_front()?;
        let to = message.to;
        let heard = self.heard.filter(|(owner, term, _)| *owner == to && *term == message.term);
        let envelope = Envelope { clock: now, heard: heard.map(|(_, _, clock)| clock), message };
        let mut bytes = Vec::new();
        message::write(&envelope, &mut bytes);
        Some(Transmit { to, bytes })
    }

    /// The next entry that is committed.
    pub fn poll_committed(&mut self) -> Option<Committed> {
        self.committed.pop_front()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Replica::handle_timeout).
    pub fn poll_timeout(&self) -> Duration {
        self.next_tick_at
    }

    // --- raft-rs ---

    fn fail(&mut self, error: LogError) {
        if self.failed.is_none() {
            self.failed = Some(error);
            self.lease.end();
            self.outgoing.clear();
        }
    }

    /// Take what raft-rs has decided, until it has nothing more.
    fn run(&mut self, now: Duration) {
        self.draw_election_timeout();
        while self.failed.is_none() && self.node.has_ready() {
            if let Err(error) = self.take_ready() {
                self.fail(error);
                return;
            }
            self.fail_if_unread();
            self.finish_without_sync();
            self.draw_election_timeout();
        }
        self.fail_if_unread();
        self.note_owner(now);
    }

    /// The log could not be read when raft-rs asked for entries: what it decided since means nothing.
    fn fail_if_unread(&mut self) {
        if let Some(error) = self.node.store().1.take() {
            self.fail(error);
        }
    }

    /// raft-rs draws from the thread's random numbers: every election of every member gets a time of its own here.
    fn draw_election_timeout(&mut self) {
        let mixed = (self.options.seed ^ self.node.raft.term.rotate_left(32))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let ticks = ELECTION_TICKS + (mixed >> 40) as usize % ELECTION_TICKS;
        self.node.raft.set_randomized_election_timeout(ticks);
    }

    fn take_ready(&mut self) -> Result<(), LogError> {
        let mut ready = self.node.ready();
        self.outgoing.extend(ready.take_messages());
        let mut installs = None;
        if !ready.snapshot().is_empty() {
            installs = Some(ready.snapshot().get_metadata().index);
            let snapshot = snapshot_of(ready.snapshot());
            self.log_mut().install(&snapshot)?;
            self.committed.clear();
            self.events.push_back(Event::Members(snapshot.members.clone()));
            self.events.push_back(Event::Installed(snapshot));
        }
        if !ready.entries().is_empty() {
            let entries: Vec<Entry> = ready.entries().iter().map(from_raft).collect();
            self.log_mut().append(&entries)?;
        }
        if let Some(hard) = ready.hs() {
            let (term, vote, commit) = (hard.term, hard.vote, hard.commit);
            let state = State { term, vote, commit, ..self.log().state() };
            self.log_mut().set_state(state)?;
        }
        let committed = ready.take_committed_entries();
        let unsynced = Unsynced {
            number: ready.number(),
            needs_sync: ready.must_sync(),
            snapshot: installs,
            messages: ready.take_persisted_messages(),
        };
        self.node.advance_append_async(ready);
        self.unsynced.push_back(unsynced);
        self.apply(committed)
    }

    fn apply(&mut self, committed: Vec<raft::eraftpb::Entry>) -> Result<(), LogError> {
        let Some(last) = committed.last().map(|entry| entry.index) else { return Ok(()) };
        for entry in &committed {
            let entry = from_raft(entry);
            let before = self.log().state();
            if let Content::Members(changes) = &entry.content
                && entry.index > before.members_at
            {
                let changed = self.node.apply_conf_change(&conf_change(changes)).map_err(failed)?;
                let members = members_of(&changed);
                let state = State { members: members.clone(), members_at: entry.index, ..before };
                self.log_mut().set_state(state)?;
                self.step_down_unless_in(&members);
                self.events.push_back(Event::Members(members));
            }
            if entry.index > self.options.applied {
                self.committed.push_back(Committed(entry));
            }
        }
        let state = self.log().state();
        if state.members_at < last {
            self.log_mut().set_state(State { members_at: last, ..state })?;
        }
        self.node.advance_apply_to(last);
        Ok(())
    }

    /// An owner that was removed ends its term, so that the voters elect another. raft-rs would let it go on and
    /// commit nothing.
    fn step_down_unless_in(&mut self, members: &Members) {
        let (id, raft) = (self.options.id, &mut self.node.raft);
        let votes = members.voters.contains(&id) || members.outgoing.contains(&id);
        if raft.state == StateRole::Leader && !votes {
            raft.become_follower(raft.term, 0);
        }
    }

    /// What needs no sync, and waits behind nothing that does, is done.
    fn finish_without_sync(&mut self) {
        while let Some(front) = self.unsynced.front().filter(|front| !front.needs_sync) {
            self.finish_first(front.number);
        }
    }

    /// What waited longest is on disk: its messages may go.
    fn finish_first(&mut self, number: u64) {
        let Some(first) = self.unsynced.pop_front() else { return };
        self.outgoing.extend(first.messages);
        self.node.on_persist_ready(number);
        if let Some(index) = first.snapshot {
            self.node.advance_apply_to(index);
        }
    }

    /// Tell who owns, and keep the lease in step.
    fn note_owner(&mut self, now: Duration) {
        let is_owner = self.node.raft.state == StateRole::Leader;
        let term = self.node.raft.term;
        if is_owner {
            self.lease.begin(now, term);
        } else {
            self.lease.end();
        }
        let known = (self.owner(), term, is_owner);
        if known == self.known {
            return;
        }
        let before = std::mem::replace(&mut self.known, known);
        if is_owner {
            self.events.push_back(Event::Elected { term });
        } else if before.0 != known.0 || before.2 {
            self.events.push_back(Event::Follows { owner: known.0, term });
        }
    }
}

fn speaks_as_owner(kind: MessageType) -> bool {
    matches!(kind, MessageType::MsgHeartbeat | MessageType::MsgAppend | MessageType::MsgSnapshot)
}

fn failed(error: raft::Error) -> LogError {
    LogError(error.to_string())
}
