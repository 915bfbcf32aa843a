//! What is done with what a source brings: the rules of [`super::super::accept`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_norm::Time;
use shoal_wire::{Skip, SkipReason};

use super::super::accept::{Accept, Claim, Holder, Key, Whom};
use super::super::applied::Announced;
use super::super::chain::LinkId;
use super::super::consumer::Source;
use super::super::notes::{Hold, Notes};
use super::super::owed::Owed;
use super::{SourceId, Told};

/// Where an inbox is: its link, and who publishes here.
#[derive(Clone, Debug)]
pub(in crate::hub) struct Place {
    pub link: LinkId,
    /// The link is on standby: nothing is taken from it.
    pub rests: bool,
    /// Neighbours on the link answer requests.
    pub asks: bool,
    pub publisher: u64,
    pub accept: Arc<Mutex<Accept>>,
    pub owed: Arc<Mutex<Owed>>,
    /// What our announcements on the link contain.
    pub announced: Arc<Mutex<Announced>>,
}

impl Place {
    pub fn accept(&self) -> MutexGuard<'_, Accept> {
        self.accept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of our interest that a lane applies, which says that it applies one of our announcements.
    pub fn applied(&self, announced: Option<u64>) -> Option<u64> {
        let all = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        announced.and_then(|announced| all.interest(announced))
    }

    /// Whether what is missing can be asked for: where no router is known, nobody keeps it.
    pub fn asks(&self) -> bool {
        self.asks && self.accept().is_routed()
    }

    /// A message that came goes on to programs behind links that rest, which others bring it to.
    pub fn owe(&self, now: Time, owed: &[(LinkId, Key, u64)]) {
        if !owed.is_empty() {
            let mut all = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
            owed.iter().for_each(|&(link, key, number)| all.add(now, link, key, number));
        }
    }

    /// A source brings a chain no longer.
    pub fn release(&self, source: SourceId, neighbour: u64, notes: &mut Notes) {
        let holder = Holder { link: self.link, source };
        self.accept().release(notes.key(), holder, (self.link, neighbour));
        notes.hold = Hold::Free;
    }
}

/// What is being fed.
pub(super) struct Taking<'a> {
    pub now: Time,
    pub place: &'a Place,
    pub source: SourceId,
    pub own: Key,
    /// Chains of which something was taken and is not delivered yet.
    pub touched: &'a mut Vec<Key>,
    /// Somebody here, or behind us, reads.
    pub reads: bool,
    /// The chain is new here, and does not begin with 1: others may know it.
    pub begins: bool,
    /// The announcement of ours that the lane applies.
    pub applied: Option<u64>,
    /// The version of our interest by which messages are routed.
    pub version: u64,
}

impl Taking<'_> {
    fn whom(&self) -> Whom {
        (self.place.link, self.own.0)
    }

    /// Whether the next message of a lane is taken.
    #[inline]
    pub fn message(&mut self, notes: &mut Notes, told: &mut impl FnMut(Told)) -> bool {
        let number = notes.number;
        match &mut notes.hold {
            Hold::Busy { next, .. } if *next == number => {
                *next += 1;
                true
            }
            Hold::Busy { next, .. } | Hold::Below(next) if number < *next => false,
            _ => self.judge(notes, number, told),
        }
    }

    fn judge(&mut self, notes: &mut Notes, number: u64, told: &mut impl FnMut(Told)) -> bool {
        if notes.source.publisher == 0 {
            // Whose it is is not known yet.
            return true;
        }
        if number == 0 || !self.enter(notes, number, number) || !self.reach(notes, number, number + 1, told) {
            return false;
        }
        if let Hold::Busy { next, .. } = &mut notes.hold {
            *next = number + 1;
        }
        true
    }

    /// A mark says that this number comes next in the lane.
    pub fn mark(&mut self, notes: &mut Notes, number: u64, told: &mut impl FnMut(Told)) {
        if notes.source.publisher > 0 && self.enter(notes, number, number - 1) {
            self.reach(notes, number, number, told);
        }
    }

    /// The lane skips numbers.
    pub fn skip(&mut self, notes: &mut Notes, skip: Skip, told: &mut impl FnMut(Told)) {
        let (first, last, source) = (skip.number, skip.last(), notes.source);
        if skip.count == 0 || source.publisher == 0 || !self.enter(notes, first, last) {
            return;
        }
        if !self.reach(notes, first, last + 1, told) {
            return;
        }
        let Hold::Busy { next, high } = notes.hold else { return };
        if last < next {
            // It answers another node's request: we are past it.
            return;
        }
        let asks = self.place.asks();
        // Decided under our interest in this version.
        let decided = notes.trust.max(self.place.applied(self.applied));
        let is_believed = match skip.reason {
            SkipReason::Unwanted => decided.is_some_and(|version| version >= notes.floor) || !asks,
            SkipReason::Unsure => !asks,
            // It answers a request by age, and nothing was known.
            SkipReason::Older => {
                next == 1 && first == 1 && notes.trust.is_some_and(|version| version >= notes.floor)
            }
            // It is not lost to its publisher, nor to routers between, if it is lost to another one.
            SkipReason::Lost => decided.is_some() || notes.key() == self.own || !asks,
            _ => true,
        };
        if !is_believed && skip.reason == SkipReason::Lost {
            let mut accept = self.place.accept();
            let whom = accept.source(notes.key()).unwrap_or(self.whom());
            accept.need(self.now, notes.key(), Some(whom), last + 1);
            return told(Told::Asked);
        }
        if !is_believed {
            return self.lack(notes, last + 1, told);
        }
        match skip.reason {
            SkipReason::Unwanted | SkipReason::Unsure => {
                if !asks && next < notes.doubt {
                    lose(source, (next, last.min(notes.doubt - 1)), high, told);
                }
                self.place.accept().skip(notes.key(), next, decided.unwrap_or(0), self.place.link);
            }
            SkipReason::Older => {
                self.place.accept().begin_after(notes.key(), last + 1);
                self.begins = true;
            }
            SkipReason::Expired | SkipReason::Rests => {}
            SkipReason::Dropped | SkipReason::Lost | SkipReason::Other(_) => {
                lose(source, (next, last), high, told);
            }
        }
        notes.hold = Hold::Busy { next: last + 1, high: high.max(last + 1) };
    }

    /// Whether the lane begins not behind the number that comes next. Else that is asked for, up to the end of what came.
    fn reach(&mut self, notes: &mut Notes, number: u64, end: u64, told: &mut impl FnMut(Told)) -> bool {
        let Hold::Busy { next, high } = notes.hold else { return false };
        if number <= next {
            return true;
        }
        if self.place.asks() {
            self.lack(notes, end, told);
            return false;
        }
        lose(notes.source, (next, number - 1), high, told);
        notes.hold = Hold::Busy { next: number, high: high.max(number) };
        true
    }

    fn lack(&self, notes: &Notes, heard: u64, told: &mut impl FnMut(Told)) {
        self.place.accept().need(self.now, notes.key(), Some(self.whom()), heard);
        told(Told::Asked);
    }

    /// Whether the chain is taken from here, where something begins with the first of these numbers and ends with the last.
    fn enter(&mut self, notes: &mut Notes, first: u64, last: u64) -> bool {
        if matches!(notes.hold, Hold::Busy { .. }) {
            return true;
        }
        let key = notes.key();
        if key.0 == self.place.publisher || self.place.rests {
            notes.hold = Hold::Below(u64::MAX);
            return false;
        }
        let holder = Holder { link: self.place.link, source: self.source };
        let mut accept = self.place.accept();
        let mut claim = accept.claim(self.now, key, holder, last);
        if claim == Claim::Unknown {
            if first > 1 && accept.is_routed() && self.place.asks && self.reads {
                accept.need(self.now, key, Some(self.whom()), last + 1);
                return false;
            }
            accept.begin(self.now, key, first, self.version);
            self.begins = first > 1;
            // Its publisher counts us as a member, and has not skipped anything for us before.
            notes.trust = notes.trust.or((key == self.own).then_some(0));
            claim = accept.claim(self.now, key, holder, last);
        }
        match claim {
            Claim::Granted(place) => {
                notes.hold = Hold::Busy { next: place.next, high: place.high };
                notes.floor = place.floor;
                self.touched.push(key);
                true
            }
            Claim::Below(next) => {
                notes.hold = Hold::Below(next);
                false
            }
            Claim::Busy => {
                accept.need(self.now, key, Some(self.whom()), last + 1);
                false
            }
            Claim::Unknown => false,
        }
    }
}

/// Numbers are lost: to us those that we had not passed, to links for which we went back all of them.
fn lose(source: Source, (first, last): (u64, u64), high: u64, told: &mut impl FnMut(Told)) {
    if first < high {
        told(Told::LostBehind(source, first, last.min(high - 1)));
    }
    if last >= high {
        told(Told::Lost(source, first.max(high), last));
    }
}
