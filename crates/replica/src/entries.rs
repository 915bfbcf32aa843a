//! What a replica needs of the log of its store.

use std::ops::Range;

/// Voters, learners and the like of one group, each.
pub const MEMBERS_MAX: usize = 32;

/// A log that cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogError(pub String);

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// An owner begins its term with it.
    Noop,
    /// A frame of the store's log.
    Frame(Vec<u8>),
    /// The members change.
    Members(Vec<Change>),
}

/// A change of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It votes from now on.
    AddVoter(u64),
    /// It gets entries and does not vote.
    AddLearner(u64),
    /// It is no member any more.
    Remove(u64),
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place, counted from 1 without a hole.
    pub index: u64,
    /// The term of the owner that appended it.
    pub term: u64,
    /// What it is.
    pub content: Content,
}

/// Who belongs to a group. `outgoing` and what follows it are empty except while several members change at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// Members that vote.
    pub voters: Vec<u64>,
    /// Members that get entries and do not vote.
    pub learners: Vec<u64>,
    /// Voters of the configuration that is left.
    pub outgoing: Vec<u64>,
    /// Voters that become learners when it is left.
    pub learners_next: Vec<u64>,
    /// Whether the group leaves it by itself.
    pub leaves_by_itself: bool,
}

impl Members {
    /// A group of voters.
    pub fn voting(voters: impl IntoIterator<Item = u64>) -> Members {
        Members { voters: voters.into_iter().collect(), ..Members::default() }
    }

    /// Every member, once.
    pub fn all(&self) -> Vec<u64> {
        let lists = [&self.voters, &self.learners, &self.outgoing, &self.learners_next];
        let mut all: Vec<u64> = lists.into_iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// What a member must not forget beside the entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The highest term it has seen.
    pub term: u64,
    /// For whom it voted in that term; 0 for none.
    pub vote: u64,
    /// It knows that entries up to here are committed. May be older than the truth after a crash.
    pub commit: u64,
    /// The members.
    pub members: Members,
    /// The entry that they are as of: changes behind it are not in them.
    pub members_at: u64,
}

/// Everything up to an index, for a member that is too far behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The last entry that is in it.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// The members as of that entry.
    pub members: Members,
    /// What the store needs to get it: names of segments, say.
    pub data: Vec<u8>,
}

impl Snapshot {
    /// What the first members of a group install before they start. Entry 1 stands for it, and no log has it: so a member that
    /// joins later needs a snapshot, and with it the members that the changes in the log build on.
    pub fn bootstrap(members: Members) -> Snapshot {
        Snapshot { index: 1, term: 1, members, data: Vec::new() }
    }
}

/// The log of a store, as its replica sees it. What is appended can be read at once, and is on disk after the next sync.
pub trait Entries {
    /// The first entry that can be read; the one after the last if there is none. No entry may go whose change of
    /// members the state does not have.
    fn first_index(&self) -> u64;
    /// The last entry; 0 if there never was one.
    fn last_index(&self) -> u64;
    /// The term of an entry, also of the one before the first.
    fn term(&self, index: u64) -> Option<u64>;
    /// Entries of a range, as many as `bytes_max` allows and at least one.
    fn read(&self, indexes: Range<u64>, bytes_max: u64) -> Result<Vec<Entry>, LogError>;
    /// Appends entries. What stands at the place of the first, or behind it, goes.
    fn append(&mut self, entries: &[Entry]) -> Result<(), LogError>;
    /// What was set last.
    fn state(&self) -> State;
    /// Keeps this with the next sync.
    fn set_state(&mut self, state: State) -> Result<(), LogError>;
    /// Everything up to a committed index.
    fn snapshot(&self) -> Result<Snapshot, LogError>;
    /// Takes the place of the whole log, its state's members included.
    fn install(&mut self, snapshot: &Snapshot) -> Result<(), LogError>;
}
