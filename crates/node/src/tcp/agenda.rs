//! Which connections and sessions have something to do, and when the next of them has: a turn costs what happened, however many
//! sessions are idle.
//!
//! | what happened                                              | visited in the next turn | asked for bytes to write |
//! |------------------------------------------------------------|--------------------------|--------------------------|
//! | bytes came, a command, an end, a socket that has room again | yes                      | yes                      |
//! | a deadline passed                                          | yes                      | yes                      |
//! | the hub rang: a queue has room, a flush waits              | yes                      | yes                      |
//! | the hub rang: there is data, or another interest           | no                       | yes                      |
//!
//! The hub rings on any thread. A ring is a mark of the session; only the first mark since the last turn takes a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_norm::Time;

use super::news::ConnectionId;
use crate::hub::{LinkBell, Ring};

/// What has a deadline of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    Connection(ConnectionId),
    /// The session with this publisher.
    Session(u64),
}

/// What the hub rang for since it was asked last.
#[derive(Debug)]
struct Marks {
    publisher: u64,
    data: AtomicBool,
    turn: AtomicBool,
}

/// Sessions with a mark.
#[derive(Debug, Default)]
struct Rung(Mutex<Vec<Arc<Marks>>>);

impl Rung {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Marks>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's bell: it marks the session, and then rings for the thread that drives the links.
struct SessionBell {
    marks: Arc<Marks>,
    rung: Arc<Rung>,
    driver: Box<dyn LinkBell>,
}

impl LinkBell for SessionBell {
    #[inline]
    fn ring(&self, why: Ring) {
        let mark = if why == Ring::Turn { &self.marks.turn } else { &self.marks.data };
        if !mark.swap(true, Ordering::SeqCst) {
            self.rung.lock().push(self.marks.clone());
        }
        self.driver.ring(why);
    }

    #[inline]
    fn is_slow(&self) -> bool {
        self.driver.is_slow()
    }
}

/// The agenda of all links.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    rung: Arc<Rung>,
    due: BTreeSet<Party>,
    unsent: BTreeSet<ConnectionId>,
    deadlines: BTreeMap<Party, Time>,
    in_order: BTreeSet<(Time, Party)>,
}

impl Agenda {
    // --- getters ---

    /// Whether somebody is to be visited, whatever the time is.
    fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// When somebody is to be visited next.
    pub fn next(&self) -> Time {
        if self.is_due() { Time::ZERO } else { self.in_order.first().map_or(Time::NEVER, |&(at, _)| at) }
    }

    /// The connections that may have bytes to write.
    pub fn unsent(&self) -> impl Iterator<Item = ConnectionId> {
        self.unsent.iter().copied()
    }

    // --- commands ---

    /// A bell for the session with a publisher, in front of the driver's.
    pub fn bell(&self, publisher: u64, driver: Box<dyn LinkBell>) -> Box<dyn LinkBell> {
        let marks = Marks { publisher, data: AtomicBool::new(false), turn: AtomicBool::new(false) };
        Box::new(SessionBell { marks: Arc::new(marks), rung: self.rung.clone(), driver })
    }

    /// Something happened to it: it is visited in the next turn.
    pub fn touch(&mut self, party: Party) {
        self.due.insert(party);
    }

    /// A connection may have bytes to write.
    pub fn add_unsent(&mut self, id: ConnectionId) {
        self.unsent.insert(id);
    }

    /// A connection is asked for its bytes.
    pub fn take_off(&mut self, id: ConnectionId) {
        self.unsent.remove(&id);
    }

    /// Takes the connections that may have bytes to write.
    pub fn take_unsent(&mut self) -> BTreeSet<ConnectionId> {
        std::mem::take(&mut self.unsent)
    }

    /// Visits it at a time, in place of the time before.
    pub fn set(&mut self, party: Party, at: Time) {
        let before = self.deadlines.get(&party).copied().unwrap_or(Time::NEVER);
        if before == at {
            return;
        }
        self.in_order.remove(&(before, party));
        if at == Time::NEVER {
            self.deadlines.remove(&party);
        } else {
            self.deadlines.insert(party, at);
            self.in_order.insert((at, party));
        }
    }

    /// Takes the marks: calls `data` for each session that the hub rang for data, and has the others visited.
    pub fn hear(&mut self, mut data: impl FnMut(u64) -> Option<ConnectionId>) {
        let rung = std::mem::take(&mut *self.rung.lock());
        for marks in rung {
            // Cleared before anything is looked at: a ring after this is heard the next time.
            if marks.turn.swap(false, Ordering::SeqCst) {
                self.due.insert(Party::Session(marks.publisher));
            }
            if marks.data.swap(false, Ordering::SeqCst) {
                self.unsent.extend(data(marks.publisher));
            }
        }
    }

    /// Takes those that are to be visited now.
    pub fn take_due(&mut self, now: Time) -> BTreeSet<Party> {
        let late = self.in_order.iter().take_while(|&&(at, _)| at <= now);
        self.due.extend(late.map(|&(_, party)| party));
        std::mem::take(&mut self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Silent;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_deadline_replaces_the_one_before_and_the_earliest_comes_first() {
        let mut agenda = Agenda::default();
        let (one, two) = (Party::Connection(1), Party::Session(1));
        assert_eq!(agenda.next(), Time::NEVER);
        agenda.set(one, at(30));
        agenda.set(two, at(20));
        agenda.set(one, at(10));
        assert_eq!(agenda.next(), at(10));
        assert_eq!(agenda.take_due(at(15)), BTreeSet::from([one]));
        agenda.set(one, Time::NEVER);
        assert_eq!((agenda.next(), agenda.take_due(at(15))), (at(20), BTreeSet::new()));
        assert_eq!(agenda.take_due(at(20)), BTreeSet::from([two]));
    }

    #[test]
    fn a_session_is_heard_once_for_any_number_of_rings_and_again_afterwards() {
        let mut agenda = Agenda::default();
        let bell = agenda.bell(7, Box::new(Silent));
        for _ in 0..2 {
            (0..3).for_each(|_| bell.ring(Ring::Data(1, 100)));
            let mut heard = Vec::new();
            agenda.hear(|publisher| {
                heard.push(publisher);
                Some(5)
            });
            assert_eq!((heard, agenda.take_unsent()), (vec![7], BTreeSet::from([5])));
            assert!(!agenda.is_due(), "data alone needs no visit");
        }
        bell.ring(Ring::Turn);
        agenda.hear(|_| None);
        assert_eq!(agenda.take_due(Time::ZERO), BTreeSet::from([Party::Session(7)]));
    }
}
