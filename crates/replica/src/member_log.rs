//! The log of a store as its replica sees it: [`Entries`] on [`shoal_log::Log`].

use std::ops::Range;
use std::sync::Arc;

use shoal_log::{
    Disk, FIRST_INDEX, Identity, Indexed, Kind, Log, Options, Parts, Recovery, cut_off, put_copy, remove_all,
};

use crate::entries::{Content, Entries, Entry, LogError, Members, Snapshot, State};
use crate::kept::{Kept, KeptFile};
use crate::message::{changes_of, put_changes};

/// What the first members of a group agree on.
#[derive(Debug, Clone)]
pub struct Founding {
    /// The store that the group is.
    pub identity: Identity,
    /// Its members.
    pub members: Members,
    /// When it was founded: microseconds since 1970.
    pub at_us: u64,
}

/// How a member begins that has no log.
#[derive(Debug, Clone)]
pub enum Beginning {
    /// It is one of those that found a group.
    Founding(Founding),
    /// It joins the group that is this store: it has nothing until it gets a copy of another member's log.
    Joining(u64),
}

/// The log of one member, with what it keeps beside.
pub struct MemberLog<D: Disk> {
    log: Log<D>,
    disk: Arc<D>,
    options: Options,
    identity: Identity,
    file: KeptFile<D>,
    kept: Kept,
    /// Entries up to here are committed, as far as this member knows.
    committed: u64,
    /// Entries that raft-rs knows of: the owner's log may have more, until they are proposed.
    accepted: u64,
    /// The segment in which `commit` was written down last.
    noted_in: u32,
    /// How often the end of the log was cut off.
    cuts: u64,
}

impl<D: Disk> MemberLog<D> {
    /// Opens the log of a member. One that has none yet needs its beginning.
    pub fn open(
        disk: Arc<D>,
        options: Options,
        member: u64,
        beginning: Option<&Beginning>,
    ) -> Result<(MemberLog<D>, Recovery), shoal_log::LogError> {
        if !KeptFile::is_there(&*disk)? {
            return match beginning {
                Some(Beginning::Founding(founding)) => MemberLog::found(disk, options, member, founding),
                Some(Beginning::Joining(store)) => MemberLog::join(disk, options, member, *store),
                None => Err(shoal_log::LogError::Refused(
                    "the directory has no log of a member of a group".into(),
                )),
            };
        }
        let (file, kept) = KeptFile::open(&disk)?;
        if kept.member != member {
            return Err(shoal_log::LogError::Refused(format!(
                "the directory belongs to member {:x} of a group, and not to {member:x}",
                kept.member
            )));
        }
        MemberLog::open_kept(disk, options, file, kept)
    }

    /// Opens the log of whichever member it is.
    pub fn open_any(disk: Arc<D>, options: Options) -> Result<MemberLog<D>, shoal_log::LogError> {
        let (file, kept) = KeptFile::open(&disk)?;
        MemberLog::open_kept(disk, options, file, kept).map(|(log, _)| log)
    }

    fn open_kept(
        disk: Arc<D>,
        options: Options,
        mut file: KeptFile<D>,
        mut kept: Kept,
    ) -> Result<(MemberLog<D>, Recovery), shoal_log::LogError> {
        if let Some(place) = kept.cut {
            cut_off(&disk, kept.store, place)?;
            kept.cut = None;
            file.write(&kept)?;
        }
        if let Some((first, last)) = kept.copy {
            put_copy(&disk, first, last)?;
            kept.copy = None;
            file.write(&kept)?;
        }
        if kept.state.commit == 0 {
            remove_all(&disk)?;
            let recovery = Recovery { created: true, ..Recovery::default() };
            return Ok((MemberLog::without_frames(disk, options, file, kept), recovery));
        }
        let identity = Identity { store: kept.store, incarnation: Default::default() };
        let (log, recovery) = Log::open_member(disk.clone(), options, identity, kept.state.commit)?;
        let committed = kept.state.commit;
        let noted_in = log.appended().0;
        let accepted = log.last_index();
        let mut made =
            MemberLog { log, disk, options, identity, file, kept, committed, accepted, noted_in, cuts: 0 };
        made.skip_to_change()?;
        Ok((made, recovery))
    }

    fn join(
        disk: Arc<D>,
        options: Options,
        member: u64,
        store: u64,
    ) -> Result<(MemberLog<D>, Recovery), shoal_log::LogError> {
        let files = disk.list().map_err(|error| shoal_log::LogError::io("listing the directory", error))?;
        if files.iter().any(|(name, _)| is_segment(name)) {
            return Err(shoal_log::LogError::Refused(
                "the directory has a log already: a member that joins begins with an empty one".into(),
            ));
        }
        let kept = Kept { member, store, ..Kept::default() };
        let file = KeptFile::create(&disk, &kept)?;
        let recovery = Recovery { created: true, ..Recovery::default() };
        Ok((MemberLog::without_frames(disk, options, file, kept), recovery))
    }

    /// A member that joined, and has no copy of the log yet.
    fn without_frames(disk: Arc<D>, options: Options, file: KeptFile<D>, kept: Kept) -> MemberLog<D> {
        let identity = Identity { store: kept.store, incarnation: Default::default() };
        let log = Log::without_frames(disk.clone(), options, kept.store);
        MemberLog {
            log,
            disk,
            options,
            identity,
            file,
            kept,
            committed: 0,
            accepted: 0,
            noted_in: 0,
            cuts: 0,
        }
    }

    fn found(
        disk: Arc<D>,
        options: Options,
        member: u64,
        founding: &Founding,
    ) -> Result<(MemberLog<D>, Recovery), shoal_log::LogError> {
        let files = disk.list().map_err(|error| shoal_log::LogError::io("listing the directory", error))?;
        let identity = founding.identity;
        let segments: Vec<_> = files.iter().filter(|(name, _)| is_segment(name)).collect();
        if !segments.is_empty() {
            // What an interrupted founding left, in which nothing was ever acknowledged; or a log that somebody needs.
            let (log, _) = Log::open(disk.clone(), options, identity, founding.at_us)?;
            if !log.is_grouped() || log.last_index() >= FIRST_INDEX {
                return Err(shoal_log::LogError::Refused(
                    "the directory has a log already: a member of a new group begins with an empty one"
                        .into(),
                ));
            }
        }
        for (name, _) in segments {
            disk.remove(name).map_err(|error| shoal_log::LogError::io(format!("removing {name}"), error))?;
        }
        let log = Log::found(disk.clone(), options, identity, founding.at_us)?;
        let members = founding.members.clone();
        let state = State { term: 1, vote: 0, commit: 1, members, members_at: 1 };
        let kept = Kept { member, store: identity.store, state, cut: None, copy: None };
        let file = KeptFile::create(&disk, &kept)?;
        let (committed, accepted, noted_in) = (1, 1, 1);
        let made =
            MemberLog { log, disk, options, identity, file, kept, committed, accepted, noted_in, cuts: 0 };
        Ok((made, Recovery { created: true, ..Recovery::default() }))
    }

    /// No change of members lies between the last one that the state has and what is committed: so raft-rs needs not read
    /// what lies between.
    fn skip_to_change(&mut self) -> Result<(), shoal_log::LogError> {
        let state = &mut self.kept.state;
        let change = self.log.change_behind(state.members_at)?;
        let clear_to = change.map_or(state.commit, |change| (change - 1).min(state.commit));
        state.members_at = state.members_at.max(clear_to);
        Ok(())
    }

    /// The log.
    pub fn log(&self) -> &Log<D> {
        &self.log
    }

    /// The log, for what appends no frame of another member.
    pub fn log_mut(&mut self) -> &mut Log<D> {
        &mut self.log
    }

    /// The store that the group is.
    pub fn store(&self) -> u64 {
        self.kept.store
    }

    /// How often the end of the log was cut off, or a copy took its place, since it was opened.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Entries up to here are committed.
    pub fn commit_to(&mut self, index: u64) {
        self.committed = self.committed.max(index);
        self.log.commit_to(index);
    }

    fn cut_from(&mut self, index: u64) -> Result<(), shoal_log::LogError> {
        if index <= self.committed {
            return Err(shoal_log::LogError::Refused(format!(
                "frame {index} is committed, and the owner sent another one: two groups have the same name"
            )));
        }
        // What was appended and not written must be where the cut looks for it.
        self.log.flush()?;
        let place = self.log.place_of(index)?;
        self.kept.cut = Some(place);
        self.file.write(&self.kept)?;
        self.log.let_spares_go();
        cut_off(&self.disk, self.kept.store, place)?;
        let committed = self.committed.min(index - 1);
        self.log = Log::open_member(self.disk.clone(), self.options, self.identity, committed)?.0;
        self.kept.cut = None;
        self.cuts += 1;
        self.accepted = self.log.last_index();
        self.file.write(&self.kept)
    }

    /// Goes on alone, as another member: everything in the log counts as committed. For the last disk that is left of a group.
    pub fn force(&mut self, member: u64) -> Result<(), shoal_log::LogError> {
        if self.log.is_without_frames() {
            return Err(shoal_log::LogError::Refused("this member has no copy of the log yet".into()));
        }
        let last = self.log.last_index();
        self.kept.member = member;
        let term = self.kept.state.term + 1;
        let members = Members::voting([member]);
        self.kept.state = State { term, vote: 0, commit: last, members, members_at: last };
        self.file.write(&self.kept)
    }

    /// The copy that was fetched is the log from now on.
    fn become_copy(&mut self, snapshot: &Snapshot) -> Result<(), shoal_log::LogError> {
        let parts = Parts::read(&snapshot.data)
            .ok_or_else(|| shoal_log::LogError::Refused("the snapshot names no segments".into()))?;
        self.log.let_spares_go();
        let state = &mut self.kept.state;
        state.term = state.term.max(snapshot.term);
        (state.commit, state.members_at) = (snapshot.index, snapshot.index);
        state.members = snapshot.members.clone();
        self.kept.copy = Some((parts.first, parts.last()));
        self.file.write(&self.kept)?;
        put_copy(&self.disk, parts.first, parts.last())?;
        self.log = Log::open_member(self.disk.clone(), self.options, self.identity, snapshot.index)?.0;
        if self.log.last_index() != snapshot.index {
            return Err(shoal_log::LogError::Refused(format!(
                "the copy of the log ends at {}, and not at {}",
                self.log.last_index(),
                snapshot.index
            )));
        }
        self.kept.copy = None;
        self.file.write(&self.kept)?;
        (self.committed, self.accepted) = (snapshot.index, snapshot.index);
        self.noted_in = self.log.appended().0;
        self.cuts += 1;
        Ok(())
    }

    fn append_one(&mut self, entry: &Entry) -> Result<(), shoal_log::LogError> {
        if entry.index <= self.log.last_index() {
            if self.log.term_of(entry.index).map(u64::from) == Some(entry.term) {
                // The owner's own, which was here first.
                self.accepted = entry.index;
                return Ok(());
            }
            self.cut_from(entry.index)?;
        }
        if entry.index != self.log.last_index() + 1 {
            return Err(shoal_log::LogError::Refused(format!(
                "frame {} does not follow on {}",
                entry.index,
                self.log.last_index()
            )));
        }
        match &entry.content {
            Content::Noop => self.log.append_own(Kind::Noop, entry.term, &[]),
            Content::Members(changes) => {
                let mut payload = Vec::new();
                put_changes(&mut payload, changes);
                self.log.append_own(Kind::Members, entry.term, &payload)
            }
            Content::Frame(frame) => self.log.follow(frame),
        }?;
        self.accepted = entry.index;
        Ok(())
    }

    /// Once in each segment: so a member that starts knows of most that it is committed, without reading it.
    fn note_commit(&mut self) -> Result<(), shoal_log::LogError> {
        let segment = self.log.appended().0;
        if segment == self.noted_in {
            return Ok(());
        }
        self.noted_in = segment;
        self.file.write(&self.kept)
    }
}

fn is_segment(name: &str) -> bool {
    name.strip_suffix(".log").is_some_and(|stem| stem.parse::<u32>().is_ok())
}

fn entry_of(frame: &Indexed) -> Result<Entry, LogError> {
    let payload = &frame.bytes[shoal_log::HEADER_BYTES..];
    let content = match frame.kind {
        Kind::Noop => Content::Noop,
        Kind::Members => Content::Members(changes_of(payload).map_err(|error| LogError(error.to_string()))?),
        _ => Content::Frame(frame.bytes.to_vec()),
    };
    Ok(Entry { index: frame.index, term: frame.term.into(), content })
}

fn failed(error: shoal_log::LogError) -> LogError {
    LogError(error.to_string())
}

impl<D: Disk> Entries for MemberLog<D> {
    fn first_index(&self) -> u64 {
        if self.log.is_without_frames() { 1 } else { self.log.first_index() }
    }

    fn last_index(&self) -> u64 {
        self.accepted
    }

    fn term(&self, index: u64) -> Option<u64> {
        if self.log.is_without_frames() {
            return (index == 0).then_some(0);
        }
        self.log.term_of(index).filter(|_| index <= self.accepted).map(u64::from)
    }

    fn read(&self, indexes: Range<u64>, bytes_max: u64) -> Result<Vec<Entry>, LogError> {
        let found = self.log.frames_from(indexes.start, indexes.end, bytes_max).map_err(failed)?;
        found.iter().map(entry_of).collect()
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), LogError> {
        entries.iter().try_for_each(|entry| self.append_one(entry)).map_err(failed)
    }

    fn state(&self) -> State {
        self.kept.state.clone()
    }

    fn set_state(&mut self, state: State) -> Result<(), LogError> {
        // As of which entry the members are needs no sync: later changes are applied again.
        let is_the_same = (state.term, state.vote, &state.members)
            == (self.kept.state.term, self.kept.state.vote, &self.kept.state.members);
        // What is written must not be ahead of the disk: a log that ends before it has lost something.
        let commit = state.commit.min(self.log.synced_index());
        self.kept.state = State { commit, ..state };
        if is_the_same { self.note_commit() } else { self.file.write(&self.kept) }.map_err(failed)
    }

    fn snapshot(&self) -> Result<Snapshot, LogError> {
        let not_yet = |why: &str| LogError(format!("there is no snapshot yet: {why}"));
        let index = self.log.visible_index();
        let State { members, members_at, .. } = &self.kept.state;
        if index > self.committed || index > *members_at {
            return Err(not_yet("what is on the disk is not committed"));
        }
        if self.log.change_between(index, *members_at) {
            return Err(not_yet("the members are newer than what is on the disk"));
        }
        let term = self.log.term_of(index).ok_or_else(|| not_yet("its term is not known"))?;
        let parts = self.log.parts().map_err(failed)?;
        Ok(Snapshot { index, term: term.into(), members: members.clone(), data: parts.write() })
    }

    fn install(&mut self, snapshot: &Snapshot) -> Result<(), LogError> {
        self.become_copy(snapshot).map_err(failed)
    }
}
