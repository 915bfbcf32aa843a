//! A member of a group that keeps one log, for Python: bytes from and to other members, elections, who owns.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use shoal_io::store::MemberOptions;
use shoal_log::Identity;
use shoal_replica::{Beginning, Change, Entries, Event, Founding, Members, Options};

use super::{Log, Shared};
use crate::bell::Bell;
use crate::bus::exit::detached;
use crate::convert::duration;
use crate::errors;

/// (store, incarnation, members, microseconds since 1970).
pub type FoundingTuple = (u64, [u8; 16], Vec<u64>, u64);

/// (who has it, or none if every other member has; its last entry, the number of its oldest segment, how long each segment is).
type OfferedTuple = (Option<u64>, u64, u32, Vec<u64>);

/// (what, the owner if one is known, term).
type EventTuple = (&'static str, Option<u64>, u64);

/// How a member behaves.
pub fn options(
    id: u64,
    founding: Option<FoundingTuple>,
    joins: Option<u64>,
    election_s: f64,
    seed: u64,
) -> PyResult<MemberOptions> {
    let founding = founding.map(|(store, incarnation, members, at_us)| {
        let identity = Identity { store, incarnation };
        Beginning::Founding(Founding { identity, members: Members::voting(members), at_us })
    });
    let beginning = founding.or(joins.map(Beginning::Joining));
    let election_timeout = duration("election_s", election_s)?;
    // The log says which entries are committed, and bounds those that are not.
    let replica = Options {
        election_timeout,
        seed,
        applied: u64::MAX,
        uncommitted_bytes_max: u64::MAX,
        ..Options::new(id)
    };
    Ok(MemberOptions { replica, beginning })
}

/// The member that a log is of. May be shared between threads.
#[pyclass(module = "shoal._core", frozen)]
pub struct Member {
    shared: Arc<Shared>,
}

#[pymethods]
impl Member {
    #[new]
    fn new(log: &Log) -> PyResult<Member> {
        let shared = log.here()?.clone();
        if !shared.is_member() {
            return Err(errors::config("no group keeps this log".to_owned()));
        }
        Ok(Member { shared })
    }

    /// Rings when there is something to send, or something happened.
    fn attach_bell(&self, bell: &Bell, source: u64) {
        self.shared.bells().add(bell.inner(), source);
    }

    /// Bytes came from another member.
    fn handle_message(&self, py: Python<'_>, bytes: PyBackedBytes) {
        detached(py, || self.shared.handle_message(&bytes));
    }

    /// Time has passed: seconds until this is to be called again.
    fn handle_timeout(&self, py: Python<'_>) -> PyResult<f64> {
        let next = detached(py, || self.shared.handle_timeout()).map_err(errors::store)?;
        Ok(next.as_secs_f64())
    }

    /// Makes what was appended durable on this member's disk.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.shared.sync_own()).map_err(errors::store)
    }

    /// What to send: members, and bytes for each.
    fn take_transmits<'py>(&self, py: Python<'py>) -> Vec<(u64, Bound<'py, PyBytes>)> {
        let taken = detached(py, || self.shared.take_transmits());
        taken.into_iter().map(|each| (each.to, PyBytes::new(py, &each.bytes))).collect()
    }

    /// What happened: (`elected`, `follows` or `members`; the owner, if one is known; term).
    fn take_events(&self, py: Python<'_>) -> Vec<EventTuple> {
        let taken = detached(py, || self.shared.take_events());
        let tuple = |event| match event {
            Event::Elected { term } => ("elected", None, term),
            Event::Follows { owner, term } => ("follows", owner, term),
            Event::Members(_) | Event::SnapshotOffered { .. } | Event::Installed(_) => ("members", None, 0),
        };
        taken.into_iter().map(tuple).collect()
    }

    /// Whether it owns the group now, and may answer and deliver.
    #[getter]
    fn owns(&self) -> bool {
        self.shared.look_at_replica(|replica, now| replica.owns(now)).unwrap_or_default()
    }

    /// Whether it was elected, and takes appends.
    #[getter]
    fn is_elected(&self) -> bool {
        self.shared.look_at_replica(|replica, _| replica.is_elected()).unwrap_or_default()
    }

    /// The member that owns the group, as far as is known.
    #[getter]
    fn owner(&self) -> Option<u64> {
        self.shared.look_at_replica(|replica, _| replica.owner()).flatten()
    }

    #[getter]
    fn term(&self) -> u64 {
        self.shared.look_at_replica(|replica, _| replica.term()).unwrap_or_default()
    }

    /// Indexes: of the oldest entry, the last, the last on this disk, the last that is committed.
    #[getter]
    fn indexes(&self) -> (u64, u64, u64, u64) {
        let (first, last, synced) =
            self.shared.look(|log| (log.first_index(), log.last_index(), log.synced_index()));
        let commit = self.shared.look_at_replica(|replica, _| replica.commit()).unwrap_or_default();
        (first, last, synced, commit)
    }

    /// Members that vote, and those that only follow. While members change, those that are left vote, too.
    #[getter]
    fn members(&self) -> (Vec<u64>, Vec<u64>) {
        let members = self.shared.look_at_replica(|replica, _| replica.members()).unwrap_or_default();
        let mut voters = members.voters;
        voters.extend(members.outgoing.iter().filter(|id| !voters.contains(id)).copied().collect::<Vec<_>>());
        let mut learners = members.learners;
        learners.extend(members.learners_next.iter().filter(|id| !voters.contains(id)));
        (voters, learners)
    }

    /// As of which entry the members are.
    #[getter]
    fn members_at(&self) -> u64 {
        self.shared.look_at_replica(|replica, _| replica.log().state().members_at).unwrap_or_default()
    }

    /// How far each member is, if this one is the owner: (member, last entry on its disk).
    #[getter]
    fn progress(&self) -> Vec<(u64, u64)> {
        self.shared.look_at_replica(|replica, _| replica.progress()).unwrap_or_default()
    }

    /// How often the end of the log was cut off, because an owner had appended something else.
    #[getter]
    fn cuts(&self) -> u64 {
        self.shared.look_at_replica(|replica, _| replica.log().cuts()).unwrap_or_default()
    }

    /// Messages that could not be read, or were not for this member.
    #[getter]
    fn unreadable(&self) -> u64 {
        self.shared.look_at_replica(|replica, _| replica.unreadable).unwrap_or_default()
    }

    /// Why it stopped, if it did.
    #[getter]
    fn failure(&self) -> Option<String> {
        let failure = |replica: &mut shoal_replica::Replica<_>, _| replica.failure().map(ToString::to_string);
        self.shared.look_at_replica(failure).flatten()
    }

    /// Lets another member own the group.
    fn transfer(&self, py: Python<'_>, to: u64) -> PyResult<()> {
        let transfer = || self.shared.command(|replica, now| replica.transfer(now, to));
        detached(py, transfer).map_err(errors::store)
    }

    /// Changes members, all at once: (`voter`, `learner` or `none`, member).
    fn change_members(&self, py: Python<'_>, changes: Vec<(String, u64)>) -> PyResult<()> {
        let change = |(what, member): (String, u64)| match what.as_str() {
            "voter" => Ok(Change::AddVoter(member)),
            "learner" => Ok(Change::AddLearner(member)),
            "none" => Ok(Change::Remove(member)),
            _ => Err(errors::config(format!("a member is 'voter', 'learner' or 'none', and not {what:?}"))),
        };
        let changes: Vec<Change> = changes.into_iter().map(change).collect::<PyResult<_>>()?;
        let command = || self.shared.command(|replica, now| replica.change_members(now, &changes));
        detached(py, command).map_err(errors::store)
    }

    // A copy of another member's log, for one that lacks too much.

    /// The copy that this member needs, if one is offered.
    #[getter]
    fn offered(&self) -> Option<OfferedTuple> {
        let offered = self.shared.offered()?;
        Some((offered.from, offered.last.0, offered.parts.first, offered.parts.bytes))
    }

    /// Reads the oldest sealed segment behind one: its number, and whether it is whole. One that is not is fetched.
    fn scrub(&self, py: Python<'_>, behind: u32) -> Option<(u32, bool)> {
        detached(py, || self.shared.scrub(behind))
    }

    /// Bytes of a segment for another member, at the most so many.
    fn read_part<'py>(
        &self,
        py: Python<'py>,
        segment: u32,
        position: u64,
        bytes_max: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let read = detached(py, || self.shared.read_part(segment, position, bytes_max));
        Ok(PyBytes::new(py, &read.map_err(errors::store)?))
    }

    /// Puts down bytes of the copy that is offered.
    fn put_part(&self, py: Python<'_>, segment: u32, position: u64, bytes: PyBackedBytes) -> PyResult<()> {
        detached(py, || self.shared.put_part(segment, position, &bytes)).map_err(errors::store)
    }

    /// The oldest segment of the offered copy that was not looked at is here: its frames are read.
    fn check_part(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.shared.check_part()).map_err(errors::store)
    }

    /// Every byte of the offered copy was put down: it becomes the log. False if it is not to be, now.
    fn install(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.shared.install()).map_err(errors::store)
    }

    /// The offered copy cannot be fetched.
    fn decline(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.shared.decline()).map_err(errors::store)
    }
}
