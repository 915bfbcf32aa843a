//! Between raft-rs's types and ours. Entries that change members are protocol buffers within raft-rs; they are
//! made here from our own form, and never parsed from the network.

use std::cell::RefCell;

use protobuf::Message as _;
use raft::eraftpb::{self, ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState, EntryType, HardState};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use crate::entries::{Change, Content, Entries, Entry, LogError, Members, Snapshot, State};

/// A store's log as raft-rs sees it, with why it could not be read, if that happened.
pub struct Store<L>(pub L, pub RefCell<Option<LogError>>);

impl<L: Entries> Storage for Store<L> {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let state = self.0.state();
        Ok(RaftState::new(hard_state(&state), conf_state(&state.members)))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<eraftpb::Entry>> {
        if low < self.0.first_index() {
            return Err(StorageError::Compacted.into());
        }
        match self.0.read(low..high, max_size.into().unwrap_or(u64::MAX)) {
            Ok(found) => Ok(found.iter().map(to_raft).collect()),
            // raft-rs ends the process where it cannot read; the replica fails instead, and sends nothing of this.
            Err(error) => {
                self.1.borrow_mut().get_or_insert(error);
                if context.can_async() {
                    Err(StorageError::LogTemporarilyUnavailable.into())
                } else {
                    Ok(Vec::new())
                }
            }
        }
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let missing =
            if index < self.0.first_index() { StorageError::Compacted } else { StorageError::Unavailable };
        self.0.term(index).ok_or_else(|| missing.into())
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.0.first_index())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.0.last_index())
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<eraftpb::Snapshot> {
        // raft-rs asks again. Another error would end the process.
        let unavailable = || StorageError::SnapshotTemporarilyUnavailable.into();
        match self.0.snapshot() {
            Ok(found) if found.index >= request_index => Ok(snapshot_to_raft(&found)),
            Ok(_) | Err(_) => Err(unavailable()),
        }
    }
}

/// The part of a state that raft-rs calls hard.
pub fn hard_state(state: &State) -> HardState {
    HardState { term: state.term, vote: state.vote, commit: state.commit, ..HardState::default() }
}

/// Members, for raft-rs.
pub fn conf_state(members: &Members) -> ConfState {
    ConfState {
        voters: members.voters.clone(),
        learners: members.learners.clone(),
        voters_outgoing: members.outgoing.clone(),
        learners_next: members.learners_next.clone(),
        auto_leave: members.leaves_by_itself,
        ..ConfState::default()
    }
}

/// Members, from raft-rs.
pub fn members_of(state: &ConfState) -> Members {
    Members {
        voters: state.voters.clone(),
        learners: state.learners.clone(),
        outgoing: state.voters_outgoing.clone(),
        learners_next: state.learners_next.clone(),
        leaves_by_itself: state.auto_leave,
    }
}

/// A snapshot, for raft-rs.
pub fn snapshot_to_raft(snapshot: &Snapshot) -> eraftpb::Snapshot {
    let mut made = eraftpb::Snapshot { data: snapshot.data.clone().into(), ..eraftpb::Snapshot::default() };
    let metadata = made.mut_metadata();
    (metadata.index, metadata.term) = (snapshot.index, snapshot.term);
    metadata.set_conf_state(conf_state(&snapshot.members));
    made
}

/// A snapshot, from raft-rs.
pub fn snapshot_of(snapshot: &eraftpb::Snapshot) -> Snapshot {
    let metadata = snapshot.get_metadata();
    Snapshot {
        index: metadata.index,
        term: metadata.term,
        members: members_of(metadata.get_conf_state()),
        data: snapshot.data.to_vec(),
    }
}

/// A change of members, for raft-rs. Several at once pass through a configuration of both.
pub fn conf_change(changes: &[Change]) -> ConfChangeV2 {
    let mut made = ConfChangeV2::default();
    for change in changes {
        let (change_type, node_id) = match *change {
            Change::AddVoter(node) => (ConfChangeType::AddNode, node),
            Change::AddLearner(node) => (ConfChangeType::AddLearnerNode, node),
            Change::Remove(node) => (ConfChangeType::RemoveNode, node),
        };
        made.mut_changes().push(ConfChangeSingle { change_type, node_id, ..ConfChangeSingle::default() });
    }
    made
}

/// A change of members, from an entry that this process made itself; none leaves the configuration of both.
fn changes_of(data: &[u8]) -> Vec<Change> {
    let made = ConfChangeV2::parse_from_bytes(data).unwrap_or_default();
    let change = |single: &ConfChangeSingle| match single.change_type {
        ConfChangeType::AddNode => Change::AddVoter(single.node_id),
        ConfChangeType::AddLearnerNode => Change::AddLearner(single.node_id),
        ConfChangeType::RemoveNode => Change::Remove(single.node_id),
    };
    made.changes.iter().map(change).collect()
}

/// An entry, for raft-rs.
pub fn to_raft(entry: &Entry) -> eraftpb::Entry {
    let mut made = eraftpb::Entry { index: entry.index, term: entry.term, ..eraftpb::Entry::default() };
    match &entry.content {
        Content::Noop => {}
        // One byte before each frame, so that an empty frame is no noop.
        Content::Frame(frame) => made.data = framed(frame),
        Content::Members(changes) => {
            made.set_entry_type(EntryType::EntryConfChangeV2);
            // An empty change has no bytes: raft-rs wants it so.
            made.data = conf_change(changes).write_to_bytes().unwrap_or_default().into();
        }
    }
    made
}

/// The data of a proposal.
pub fn framed<B: From<Vec<u8>>>(frame: &[u8]) -> B {
    let mut data = Vec::with_capacity(frame.len() + 1);
    data.push(1);
    data.extend_from_slice(frame);
    data.into()
}

/// An entry, from raft-rs.
pub fn from_raft(entry: &eraftpb::Entry) -> Entry {
    let content = match entry.get_entry_type() {
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
            Content::Members(changes_of(&entry.data))
        }
        EntryType::EntryNormal => match entry.data.split_first() {
            None => Content::Noop,
            Some((_, frame)) => Content::Frame(frame.to_vec()),
        },
    };
    Entry { index: entry.index, term: entry.term, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_snapshots_come_back_as_they_were() {
        let changes = vec![Change::AddVoter(1), Change::AddLearner(2), Change::Remove(3)];
        for content in [
            Content::Noop,
            Content::Frame(Vec::new()),
            Content::Frame(vec![0, 1, 2]),
            Content::Members(changes),
            Content::Members(Vec::new()),
        ] {
            let entry = Entry { index: 7, term: 3, content };
            assert_eq!(from_raft(&to_raft(&entry)), entry);
        }
        let members = Members {
            voters: vec![1, 2],
            learners: vec![3],
            outgoing: vec![4],
            learners_next: vec![5],
            leaves_by_itself: true,
        };
        let snapshot = Snapshot { index: 9, term: 2, members, data: vec![1, 2, 3] };
        assert_eq!(snapshot_of(&snapshot_to_raft(&snapshot)), snapshot);
    }
}
