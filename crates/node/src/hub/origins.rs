//! Which source each chain is taken from.
//!
//! A chain may reach us over several links, or from several neighbours on one link: straight from its publisher, or passed
//! on by routers. It is taken from one *holder* at a time, and the number that should come next is known of it. The rules:
//!
//! | who brings a message                                             | it is                                            |
//! |------------------------------------------------------------------|--------------------------------------------------|
//! | the holder                                                       | taken                                            |
//! | anybody, and nobody holds the chain                              | taken, and whoever brings it holds the chain     |
//! | another one, and its number is below the next                    | left: it was here                                |
//! | another one, and the holder brought something a moment ago       | put aside until the holder catches up, or is silent |
//! | another one, and the holder was silent for [`SILENCE`]           | taken, and whoever brings it holds the chain     |
//!
//! Whoever takes over goes on from the next number. What lies between that and what it brings is told as lost, and it is
//! *doubted* for a while: numbers that it says nobody wanted may have been for us, because whoever skipped them did not
//! know of us yet.

use std::collections::BTreeMap;
use std::time::Duration;

use foldhash::HashMap;
use shoal_norm::Time;

use super::chain::LinkId;
use super::inbox::SourceId;

/// Chains that are remembered; beyond it those that nobody brings are forgotten, the oldest first.
const CHAINS_MAX: usize = 16_384;
/// A holder that brought nothing of a chain for so long is replaced by another one that brings more of it.
pub(super) const SILENCE: Duration = Duration::from_millis(500);

/// What was put aside is looked at again so soon after it may be.
const ASIDE_LATE: Duration = Duration::from_millis(20);

/// Of a chain whose publisher left it is told for so long how far it was.
const TOLD_FOR: Duration = Duration::from_secs(60);

/// A publisher and its chain.
pub(super) type Key = (u64, u32);

/// Who may bring a chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub link: LinkId,
    pub source: SourceId,
}

#[derive(Debug)]
struct Taking {
    holder: Option<Holder>,
    /// The number that should come next; 0 if not known.
    next: u64,
    /// When the holder brought something last.
    at: Time,
    /// The holder is bringing something just now.
    busy: bool,
    /// The link over which its publisher itself brought it last; none if somebody else did.
    direct: Option<LinkId>,
    /// When it was let go of, counted.
    since: u64,
    /// Its publisher left, and nothing more comes.
    ended: bool,
}

/// Who brings what.
#[derive(Debug, Default)]
pub(super) struct Origins {
    chains: HashMap<Key, Taking>,
    released: u64,
    /// Links over which something came that waits for another one's holder, and until when.
    aside: BTreeMap<LinkId, Time>,
}

/// Whether a source may bring a chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It holds it already.
    Held,
    /// It does from now on, and goes on with this number; 0 if nothing came before. Whether it is doubted.
    Granted { next: u64, doubted: bool },
    /// Another one brought everything below this number.
    Elsewhere(u64),
    /// Another one may bring what comes before it: ask again then.
    Wait(Time),
}

impl Origins {
    /// A source is about to bring a message with this number; `direct` if it is its publisher's own. Until
    /// [`Origins::progress`] nobody else gets the chain.
    pub fn claim(&mut self, now: Time, key: Key, holder: Holder, number: u64, direct: bool) -> Claim {
        let direct = direct.then_some(holder.link);
        let Some(taking) = self.chains.get_mut(&key) else {
            self.make_room();
            let taking =
                Taking { holder: Some(holder), next: 0, at: now, busy: true, direct, since: 0, ended: false };
            self.chains.insert(key, taking);
            return Claim::Granted { next: 0, doubted: false };
        };
        if taking.holder == Some(holder) {
            taking.busy = true;
            return Claim::Held;
        }
        if taking.holder.is_some() {
            if number < taking.next {
                return Claim::Elsewhere(taking.next);
            }
            if taking.busy || now < taking.at + SILENCE {
                return Claim::Wait(taking.at.max(now) + SILENCE);
            }
        }
        let doubted = taking.next > 0 && (direct.is_none() || taking.direct != direct);
        (taking.holder, taking.at, taking.busy, taking.direct) = (Some(holder), now, true, direct);
        Claim::Granted { next: taking.next, doubted }
    }

    /// Whether something came of a chain before.
    pub fn knows(&self, key: Key) -> bool {
        self.next(key) > 0
    }

    /// The number of a chain that should come next; 0 if not known.
    pub fn next(&self, key: Key) -> u64 {
        self.chains.get(&key).map_or(0, |taking| taking.next)
    }

    /// Whether a message of a chain came already, or nobody brings the chain.
    pub fn is_free_of(&self, key: Key, number: u64) -> bool {
        self.chains.get(&key).is_none_or(|taking| taking.holder.is_none() || taking.next > number)
    }

    /// How far the chains are that come over other links than these, or whose publisher left a short time ago, and whether more
    /// of each is being delivered just now. Of those that nobody brings, somebody else may know more.
    pub fn positions(&self, now: Time, except: &[LinkId]) -> Vec<(Key, u64, bool)> {
        let is_told = |taking: &Taking| match taking.holder {
            Some(holder) => !except.contains(&holder.link),
            None => taking.ended && now < taking.at + TOLD_FOR,
        };
        let known = self.chains.iter().filter(|(_, taking)| taking.next > 1 && is_told(taking));
        known.map(|(&key, taking)| (key, taking.next, taking.busy)).collect()
    }

    /// What a holder brought was delivered; the number that should come next.
    pub fn progress(&mut self, now: Time, key: Key, holder: Holder, next: u64) {
        if let Some(taking) = self.chains.get_mut(&key).filter(|taking| taking.holder == Some(holder)) {
            (taking.next, taking.at, taking.busy) = (next, now, false);
        }
    }

    /// A holder brings a chain no longer; the number that should come next, and whether it skips what would be for us.
    pub fn release(&mut self, key: Key, holder: Holder, next: u64, rests: bool) {
        if let Some(taking) = self.chains.get_mut(&key).filter(|taking| taking.holder == Some(holder)) {
            self.released += 1;
            let direct = taking.direct.filter(|_| !rests);
            let (at, ended, since) = (taking.at, taking.ended, self.released);
            *taking = Taking { holder: None, next, at, busy: false, direct, since, ended };
        }
    }

    /// The publisher left, and everything it published came or is lost.
    pub fn end(&mut self, now: Time, key: Key, holder: Holder) {
        if let Some(taking) = self.chains.get_mut(&key).filter(|taking| taking.holder == Some(holder)) {
            (taking.ended, taking.at) = (true, now);
        }
    }

    /// Something that came over a link is put aside until then; or nothing is any more.
    pub fn set_aside(&mut self, link: LinkId, until: Option<Time>) {
        match until {
            Some(until) => self.aside.insert(link, until),
            None => self.aside.remove(&link),
        };
    }

    /// Whether something that came is put aside, over whichever link. One that is broken has no turn in which to look at it again.
    pub fn has_aside(&self, now: Time) -> bool {
        self.aside.values().any(|&until| now < until + ASIDE_LATE)
    }

    fn make_room(&mut self) {
        if self.chains.len() < CHAINS_MAX {
            return;
        }
        let free = self.chains.iter().filter(|(_, taking)| taking.holder.is_none());
        if let Some(oldest) = free.min_by_key(|(_, taking)| taking.since).map(|(&key, _)| key) {
            self.chains.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Holder = Holder { link: 0, source: 0 };
    const TWO: Holder = Holder { link: 1, source: 0 };
    const KEY: Key = (7, 2);

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_chain_is_taken_from_one_source_until_that_is_silent_and_another_goes_on_from_there() {
        let mut origins = Origins::default();
        let fresh = Claim::Granted { next: 0, doubted: false };
        assert_eq!(origins.claim(at(0), KEY, ONE, 1, true), fresh);
        assert_eq!(
            origins.claim(at(9000), KEY, TWO, 1, false),
            Claim::Wait(at(9500)),
            "it is being delivered"
        );
        origins.progress(at(0), KEY, ONE, 40);
        assert_eq!(origins.claim(at(10), KEY, ONE, 40, true), Claim::Held);
        origins.progress(at(10), KEY, ONE, 41);
        assert_eq!(origins.claim(at(20), KEY, TWO, 40, false), Claim::Elsewhere(41), "it was here");
        assert_eq!(origins.claim(at(20), KEY, TWO, 41, false), Claim::Wait(at(520)));
        assert_eq!(origins.claim(at(20), (7, 3), TWO, 1, false), fresh, "another chain");
        let taken = Claim::Granted { next: 41, doubted: true };
        assert_eq!(origins.claim(at(510), KEY, TWO, 45, false), taken);
        origins.progress(at(510), KEY, TWO, 46);
        assert_eq!(origins.claim(at(511), KEY, ONE, 43, true), Claim::Elsewhere(46));
    }

    #[test]
    fn a_source_that_is_gone_or_rests_lets_go_at_once() {
        let mut origins = Origins::default();
        origins.claim(at(0), KEY, ONE, 1, true);
        origins.release(KEY, TWO, 9, false);
        assert_eq!(origins.claim(at(0), KEY, TWO, 9, false), Claim::Wait(at(500)), "only who has it lets go");
        origins.release(KEY, ONE, 5, false);
        let again = Claim::Granted { next: 5, doubted: false };
        assert_eq!(origins.claim(at(1), KEY, ONE, 5, true), again, "nobody came between");
        origins.release(KEY, ONE, 6, true);
        let doubted = Claim::Granted { next: 6, doubted: true };
        assert_eq!(origins.claim(at(1), KEY, ONE, 6, true), doubted, "it skipped what was for us");
    }

    #[test]
    fn chains_that_nobody_brings_are_bounded() {
        let mut origins = Origins::default();
        for number in 0..2 * CHAINS_MAX as u64 {
            origins.claim(at(0), (number, 1), ONE, 1, true);
            origins.release((number, 1), ONE, number, false);
        }
        assert_eq!(origins.chains.len(), CHAINS_MAX);
    }
}
