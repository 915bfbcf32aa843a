//! Whether what a source brings is taken, or left to another one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_norm::Time;

use super::super::chain::LinkId;
use super::super::notes::{Hold, Notes};
use super::super::origins::{Claim, Holder, Key, Origins};
use super::super::owed::Owed;
use super::{SourceId, Told};

/// Where an inbox is: its link, and who publishes here.
#[derive(Clone, Debug)]
pub(in crate::hub) struct Place {
    pub link: LinkId,
    /// The link rests: another one brings whatever comes over it, except what was under way until then.
    pub rests: Option<Time>,
    pub publisher: u64,
    pub origins: Arc<Mutex<Origins>>,
    pub owed: Arc<Mutex<Owed>>,
}

impl Place {
    pub fn origins(&self) -> MutexGuard<'_, Origins> {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has to be waited for before a message of a chain: it came already, or nobody else brings the chain any more.
    pub fn is_free_of(&self, (key, number): (Key, u64)) -> bool {
        self.origins().is_free_of(key, number)
    }

    /// A message that came goes on to programs behind links that rest, which others bring it to.
    pub fn owe(&self, now: Time, owed: &[(LinkId, Key, u64)]) {
        if !owed.is_empty() {
            let mut all = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
            owed.iter().for_each(|&(link, key, number)| all.add(now, link, key, number));
        }
    }

    pub fn release(&self, source: SourceId, notes: &mut Notes, rests: bool) {
        if notes.hold == Hold::Ours {
            let holder = Holder { link: self.link, source };
            self.origins().release(notes.key(), holder, notes.awaited().max(notes.floor), rests);
        }
        (notes.hold, notes.busy, notes.rests) = (Hold::Free, false, false);
    }
}

/// What is to be done with a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    Leave,
    /// Another source may bring what comes before it.
    Wait(Time),
}

/// What is being fed, and to whom its chains belong.
pub(super) struct Taking<'a> {
    pub now: Time,
    pub place: &'a Place,
    pub source: SourceId,
    pub own: Key,
    /// Chains of which something was taken and is not delivered yet.
    pub touched: &'a mut Vec<Key>,
    /// The chain that was turned to last is new here.
    pub begins: bool,
    /// What comes is passed on to other links.
    pub passes: bool,
    /// When the oldest subscription of this process began.
    pub reads_since: Time,
}

impl Taking<'_> {
    /// Whether the next message of a chain, which has this number, is taken.
    #[inline]
    pub fn judge(&mut self, notes: &mut Notes, number: u64, told: &mut impl FnMut(Told)) -> Verdict {
        match notes.hold {
            Hold::Ours if notes.busy => Verdict::Take,
            Hold::Elsewhere(next) if number < next => Verdict::Leave,
            _ => self.ask(notes, number, told),
        }
    }

    pub fn ask(&mut self, notes: &mut Notes, number: u64, told: &mut impl FnMut(Told)) -> Verdict {
        let key = notes.key();
        // What was on its way when the link began to rest is still taken, if nobody else brings it.
        let is_free = || notes.hold == Hold::Free && !self.place.origins().knows(key);
        let rests = |until: Time| self.now >= until || notes.hold != Hold::Ours && !is_free();
        if key.0 == self.place.publisher || self.place.rests.is_some_and(rests) {
            self.place.release(self.source, notes, true);
            notes.hold = Hold::Elsewhere(u64::MAX);
            return Verdict::Leave;
        }
        if key.0 == 0 {
            // Whose it is is not known yet.
            (notes.hold, notes.busy) = (Hold::Ours, true);
            return Verdict::Take;
        }
        if let Some(published) = notes.again
            && !self.place.origins().knows(key)
        {
            // Whoever wanted it when it was published gets it: a subscription of ours, or somebody behind us who asked elsewhere.
            if !self.passes && self.reads_since > published {
                return Verdict::Leave;
            }
            notes.is_late = true;
        }
        let holder = Holder { link: self.place.link, source: self.source };
        let claim = self.place.origins().claim(self.now, key, holder, number, key == self.own);
        match claim {
            Claim::Held => {}
            Claim::Granted { next, doubted } => {
                if doubted {
                    notes.doubt(self.now);
                }
                self.begins = next == 0;
                notes.take_over(next, told);
            }
            Claim::Elsewhere(next) => {
                notes.hold = Hold::Elsewhere(next);
                return Verdict::Leave;
            }
            Claim::Wait(until) => {
                notes.hold = Hold::Elsewhere(number);
                return Verdict::Wait(until);
            }
        }
        (notes.hold, notes.busy) = (Hold::Ours, true);
        self.touched.push(key);
        Verdict::Take
    }
}
