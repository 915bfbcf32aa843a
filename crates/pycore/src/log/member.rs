//! A member of a group that keeps one log, for Python: bytes from and to other members, elections, who owns.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use shoal_io::store::MemberOptions;
use shoal_log::Identity;
use shoal_replica::{Change, Event, Founding, Members, Options};

use super::{Log, Shared};
use crate::bell::Bell;
use crate::bus::exit::detached;
use crate::convert::duration;
use crate::errors;

/// (store, incarnation, members, microseconds since 1970).
pub type FoundingTuple = (u64, [u8; 16], Vec<u64>, u64);

/// (what, the owner if one is known, term).
type EventTuple = (&'static str, Option<u64>, u64);

/// How a member behaves.
pub fn options(
    id: u64,
    founding: Option<FoundingTuple>,
    election_s: f64,
    seed: u64,
) -> PyResult<MemberOptions> {
    let founding = founding.map(|(store, incarnation, members, at_us)| Founding {
        identity: Identity { store, incarnation },
        members: Members::voting(members),
        at_us,
    });
    let election_timeout = duration("election_s", election_s)?;
    // The log says which entries are committed, and bounds those that are not.
    let replica = Options {
        election_timeout,
        seed,
        applied: u64::MAX,
        uncommitted_bytes_max: u64::MAX,
        ..Options::new(id)
    };
    Ok(MemberOptions { replica, founding })
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

    /// Members that vote, and those that only follow.
    #[getter]
    fn members(&self) -> (Vec<u64>, Vec<u64>) {
        let members = self.shared.look_at_replica(|replica, _| replica.members()).unwrap_or_default();
        (members.voters, members.learners)
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

    /// Takes a member out of the group.
    fn remove(&self, py: Python<'_>, member: u64) -> PyResult<()> {
        let remove =
            || self.shared.command(|replica, now| replica.change_members(now, &[Change::Remove(member)]));
        detached(py, remove).map_err(errors::store)
    }
}
