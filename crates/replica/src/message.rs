//! Messages between members, in our own encoding: the only place that reads bytes from the network.
//!
//! All numbers are little-endian. A message is
//!
//! ```text
//! u8 version = 1   u64 clock   u64 heard   u8 kind   u64 from   u64 to   u64 term
//! u64 log term   u64 index   u64 commit   u64 commit term   u64 request snapshot   u64 reject hint
//! u8 flags: 1 reject, 2 transfer, 4 has a snapshot
//! u32 entries, each: u64 term   u8 kind: 0 noop, 1 frame, 2 members   u32 bytes   bytes
//! snapshot: u64 index   u64 term   members   u32 bytes   bytes
//! members: four lists (u8 count, u64 each)   u8 leaves by itself
//! ```
//!
//! Entries stand without holes: the first has the message's index + 1. `clock` is the sender's, in microseconds;
//! `heard` is the last clock of the receiver that the sender heard as its follower, or 0.

use std::time::Duration;

use raft::eraftpb::{Message, MessageType};

use crate::entries::{Change, Content, Entry, MEMBERS_MAX, Members, Snapshot};
use crate::storage::{from_raft, snapshot_of, snapshot_to_raft, to_raft};

/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = 192 << 20;

const VERSION: u8 = 1;
const TRANSFER: &[u8] = b"CampaignTransfer";
const REJECT: u8 = 1;
const IS_TRANSFER: u8 = 2;
const HAS_SNAPSHOT: u8 = 4;

/// Kinds that members send to each other; the others of raft-rs stay within a process.
const KINDS: [MessageType; 11] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTransferLeader,
    MessageType::MsgTimeoutNow,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
];

/// Why bytes are no message of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is of another version.
    #[error("the message has version {0}, and must have {VERSION}")]
    Version(u8),
    /// It ends too early, or too late.
    #[error("the message ends at the wrong place")]
    Length,
    /// A field has a value that it cannot have.
    #[error("the message's {0} has a value that it cannot have")]
    Value(&'static str),
}

/// A message with the clocks that a lease needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The sender's clock when it sent it.
    pub clock: Duration,
    /// The last clock of the receiver that the sender heard as its follower.
    pub heard: Option<Duration>,
    /// What raft-rs says.
    pub message: Message,
}

/// Appends the bytes of a message.
pub fn write(envelope: &Envelope, out: &mut Vec<u8>) {
    let Envelope { clock, heard, message } = envelope;
    let kind = KINDS.iter().position(|kind| *kind == message.get_msg_type()).unwrap_or(usize::MAX);
    out.push(VERSION);
    put_time(out, *clock);
    put_time(out, heard.unwrap_or_default());
    // Kinds that are not listed never leave their process.
    out.push(u8::try_from(kind).unwrap_or(u8::MAX));
    for number in [
        message.from,
        message.to,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.request_snapshot,
        message.reject_hint,
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let has_snapshot = message.get_msg_type() == MessageType::MsgSnapshot;
    let mut flags = if message.reject { REJECT } else { 0 };
    flags |= if message.context == TRANSFER { IS_TRANSFER } else { 0 };
    flags |= if has_snapshot { HAS_SNAPSHOT } else { 0 };
    out.push(flags);
    put_count(out, message.entries.len());
    for entry in &message.entries {
        put_entry(out, &from_raft(entry));
    }
    if has_snapshot {
        let snapshot = snapshot_of(message.get_snapshot());
        out.extend_from_slice(&snapshot.index.to_le_bytes());
        out.extend_from_slice(&snapshot.term.to_le_bytes());
        put_members(out, &snapshot.members);
        put_bytes(out, &snapshot.data);
    }
}

fn put_time(out: &mut Vec<u8>, time: Duration) {
    out.extend_from_slice(&u64::try_from(time.as_micros()).unwrap_or(u64::MAX).to_le_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    out.extend_from_slice(&entry.term.to_le_bytes());
    match &entry.content {
        Content::Noop => {
            out.push(0);
            put_bytes(out, &[]);
        }
        Content::Frame(frame) => {
            out.push(1);
            put_bytes(out, frame);
        }
        Content::Members(changes) => {
            out.push(2);
            put_count(out, changes.len() * 9);
            put_changes(out, changes);
        }
    }
}

/// Appends changes of members.
pub fn put_changes(out: &mut Vec<u8>, changes: &[Change]) {
    for change in changes {
        let (kind, member) = match *change {
            Change::AddVoter(member) => (0, member),
            Change::AddLearner(member) => (1, member),
            Change::Remove(member) => (2, member),
        };
        out.push(kind);
        out.extend_from_slice(&member.to_le_bytes());
    }
}

/// Appends who belongs to a group.
pub fn put_members(out: &mut Vec<u8>, members: &Members) {
    for list in [&members.voters, &members.learners, &members.outgoing, &members.learners_next] {
        out.push(u8::try_from(list.len()).unwrap_or(u8::MAX));
        list.iter().for_each(|member| out.extend_from_slice(&member.to_le_bytes()));
    }
    out.push(members.leaves_by_itself.into());
}

/// The term of a message, as far as bytes are one.
pub fn term_of(bytes: &[u8]) -> Option<u64> {
    // Behind version, two clocks, kind, sender and receiver.
    let term = bytes.get(34..42)?;
    Some(u64::from_le_bytes(term.try_into().ok()?))
}

/// Reads a message.
pub fn read(bytes: &[u8]) -> Result<Envelope, MessageError> {
    let mut rest = Cursor(bytes);
    let version = rest.byte()?;
    if version != VERSION {
        return Err(MessageError::Version(version));
    }
    let clock = Duration::from_micros(rest.number()?);
    let heard = Duration::from_micros(rest.number()?);
    let kind = *KINDS.get(usize::from(rest.byte()?)).ok_or(MessageError::Value("kind"))?;
    let mut message = Message::default();
    message.set_msg_type(kind);
    message.from = rest.number()?;
    message.to = rest.number()?;
    message.term = rest.number()?;
    message.log_term = rest.number()?;
    message.index = rest.number()?;
    message.commit = rest.number()?;
    message.commit_term = rest.number()?;
    message.request_snapshot = rest.number()?;
    message.reject_hint = rest.number()?;
    // raft-rs takes a message without a sender or a term for one of its own process, and counts indexes up.
    if message.from == 0 || message.to == 0 {
        return Err(MessageError::Value("sender or receiver"));
    }
    if message.term == 0 {
        return Err(MessageError::Value("term"));
    }
    if message.index > u64::MAX / 2 || message.reject_hint > u64::MAX / 2 {
        return Err(MessageError::Value("index"));
    }
    let flags = rest.byte()?;
    if flags & !(REJECT | IS_TRANSFER | HAS_SNAPSHOT) != 0 {
        return Err(MessageError::Value("flags"));
    }
    message.reject = flags & REJECT != 0;
    if flags & IS_TRANSFER != 0 {
        message.context = TRANSFER.to_vec().into();
    }
    let count = rest.count()?;
    if count > 0 && kind != MessageType::MsgAppend {
        return Err(MessageError::Value("number of entries"));
    }
    let mut before = message.log_term;
    for place in 1..=count as u64 {
        let entry = rest.entry(message.index + place)?;
        if entry.term < before || entry.term > message.term {
            return Err(MessageError::Value("term of an entry"));
        }
        before = entry.term;
        message.mut_entries().push(to_raft(&entry));
    }
    if (flags & HAS_SNAPSHOT != 0) != (kind == MessageType::MsgSnapshot) {
        return Err(MessageError::Value("flags"));
    }
    if flags & HAS_SNAPSHOT != 0 {
        message.set_snapshot(snapshot_to_raft(&rest.snapshot(message.term)?));
    }
    if !rest.0.is_empty() {
        return Err(MessageError::Length);
    }
    Ok(Envelope { clock, heard: Some(heard).filter(|heard| !heard.is_zero()), message })
}

/// What is left to read.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(MessageError::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, MessageError> {
        Ok(self.take(1)?[0])
    }

    /// The next number.
    pub fn number(&mut self) -> Result<u64, MessageError> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn count(&mut self) -> Result<usize, MessageError> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        let count = u32::from_le_bytes(bytes) as usize;
        // Nothing that is counted takes less than a byte.
        if count > self.0.len() { Err(MessageError::Length) } else { Ok(count) }
    }

    fn bytes(&mut self) -> Result<&'a [u8], MessageError> {
        let count = self.count()?;
        self.take(count)
    }

    fn entry(&mut self, index: u64) -> Result<Entry, MessageError> {
        let term = self.number()?;
        let kind = self.byte()?;
        let bytes = self.bytes()?;
        let content = match kind {
            0 if bytes.is_empty() => Content::Noop,
            1 => Content::Frame(bytes.to_vec()),
            2 => Content::Members(changes_of(bytes)?),
            _ => return Err(MessageError::Value("kind of an entry")),
        };
        Ok(Entry { index, term, content })
    }

    fn snapshot(&mut self, term_max: u64) -> Result<Snapshot, MessageError> {
        let (index, term) = (self.number()?, self.number()?);
        if index == 0 || index > u64::MAX / 2 || term == 0 || term > term_max {
            return Err(MessageError::Value("snapshot"));
        }
        let members = self.all_members()?;
        if members.voters.is_empty() {
            return Err(MessageError::Value("members"));
        }
        Ok(Snapshot { index, term, members, data: self.bytes()?.to_vec() })
    }

    /// Who belongs to a group.
    pub fn all_members(&mut self) -> Result<Members, MessageError> {
        let members = Members {
            voters: self.members()?,
            learners: self.members()?,
            outgoing: self.members()?,
            learners_next: self.members()?,
            leaves_by_itself: self.byte()? != 0,
        };
        if !is_consistent(&members) {
            return Err(MessageError::Value("members"));
        }
        Ok(members)
    }

    fn members(&mut self) -> Result<Vec<u64>, MessageError> {
        let count = usize::from(self.byte()?);
        if count > MEMBERS_MAX {
            return Err(MessageError::Value("members"));
        }
        let list = (0..count).map(|_| self.number()).collect::<Result<Vec<u64>, _>>()?;
        let mut sorted = list.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != list.len() || sorted.first() == Some(&0) {
            return Err(MessageError::Value("members"));
        }
        Ok(list)
    }
}

/// Whether no member is a voter and a learner at once, and a configuration of both is whole.
fn is_consistent(members: &Members) -> bool {
    let votes = |member: &u64| members.voters.contains(member) || members.outgoing.contains(member);
    let leaves = members.learners_next.iter().all(|member| members.outgoing.contains(member));
    let is_joint = !members.outgoing.is_empty();
    !members.learners.iter().any(votes) && leaves && (is_joint || !members.leaves_by_itself)
}

/// Changes of members.
pub fn changes_of(bytes: &[u8]) -> Result<Vec<Change>, MessageError> {
    if !bytes.len().is_multiple_of(9) || bytes.len() / 9 > MEMBERS_MAX {
        return Err(MessageError::Value("change of members"));
    }
    let change = |chunk: &[u8]| {
        let mut rest = Cursor(chunk);
        let (kind, member) = (rest.byte()?, rest.number()?);
        match (kind, member) {
            (_, 0) => Err(MessageError::Value("change of members")),
            (0, _) => Ok(Change::AddVoter(member)),
            (1, _) => Ok(Change::AddLearner(member)),
            (2, _) => Ok(Change::Remove(member)),
            _ => Err(MessageError::Value("change of members")),
        }
    };
    bytes.chunks(9).map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Envelope> {
        let mut made = Vec::new();
        for kind in KINDS {
            let mut message =
                Message { from: 3, to: 2, term: 9, log_term: 7, index: 40, ..Message::default() };
            message.set_msg_type(kind);
            (message.commit, message.commit_term, message.reject_hint) = (38, 7, 12);
            message.reject = kind == MessageType::MsgAppendResponse;
            if kind == MessageType::MsgRequestVote {
                message.context = TRANSFER.to_vec().into();
            }
            if kind == MessageType::MsgAppend {
                let contents = [
                    Content::Noop,
                    Content::Frame(b"frame".to_vec()),
                    Content::Members(vec![Change::AddLearner(8), Change::Remove(2)]),
                    Content::Members(Vec::new()),
                ];
                for (place, content) in contents.into_iter().enumerate() {
                    let entry = Entry { index: 41 + place as u64, term: 8, content };
                    message.mut_entries().push(to_raft(&entry));
                }
            }
            if kind == MessageType::MsgSnapshot {
                let members = Members { voters: vec![1, 2, 3], learners: vec![9], ..Members::default() };
                let snapshot = Snapshot { index: 30, term: 6, members, data: b"segments".to_vec() };
                message.set_snapshot(snapshot_to_raft(&snapshot));
            }
            let heard = Some(Duration::from_micros(77));
            made.push(Envelope { clock: Duration::from_micros(123_456), heard, message });
        }
        made
    }

    #[test]
    fn every_kind_comes_back_as_it_was() {
        for envelope in examples() {
            let mut bytes = Vec::new();
            write(&envelope, &mut bytes);
            assert_eq!(read(&bytes), Ok(envelope));
        }
    }

    #[test]
    fn no_cut_or_changed_message_panics_and_a_cut_one_is_refused() {
        let mut random = fastrand::Rng::with_seed(1);
        for envelope in examples() {
            let mut bytes = Vec::new();
            write(&envelope, &mut bytes);
            for length in 0..bytes.len() {
                assert!(read(&bytes[..length]).is_err());
            }
            for _ in 0..20_000 {
                let mut changed = bytes.clone();
                for _ in 0..random.usize(1..4) {
                    let place = random.usize(..changed.len());
                    changed[place] = random.u8(..);
                }
                if let Ok(again) = read(&changed) {
                    let mut rewritten = Vec::new();
                    write(&again, &mut rewritten);
                    assert_eq!(read(&rewritten), Ok(again));
                }
            }
        }
    }

    #[test]
    fn fields_that_would_confuse_the_engine_are_refused() {
        let base = &examples()[0];
        let refuse = |change: &dyn Fn(&mut Message)| {
            let mut envelope = base.clone();
            change(&mut envelope.message);
            let mut bytes = Vec::new();
            write(&envelope, &mut bytes);
            assert!(read(&bytes).is_err());
        };
        refuse(&|message| message.from = 0);
        refuse(&|message| message.term = 0);
        refuse(&|message| message.index = u64::MAX);
        refuse(&|message| message.entries[0].term = 10);
        refuse(&|message| message.entries[1].term = 7);
        refuse(&|message| message.set_msg_type(MessageType::MsgHeartbeat));
        refuse(&|message| message.set_msg_type(MessageType::MsgPropose));
    }
}
