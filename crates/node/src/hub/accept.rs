//! Which numbers of each chain are accepted next, and what is asked for.
//!
//! A chain may reach us over several links, or from several neighbours on one link: straight from its publisher, or forwarded by
//! routers. It is accepted by number, whoever brings it:
//!
//! | what comes                                                  | we                                                  |
//! |-------------------------------------------------------------|-----------------------------------------------------|
//! | the message with the next number                            | take it                                             |
//! | a message below it                                          | discard it                                          |
//! | a message above it, or a mark                               | discard it, and ask from the next number on         |
//! | a skip over it: unwanted, by a neighbour that we trust      | go on behind it                                     |
//! | a skip over it: unwanted, by another one, or unsure         | ask                                                 |
//! | a skip over it: lost, or dropped                            | report it, and go on behind it                      |
//! | anything of an unknown chain that does not begin with 1     | ask by age                                          |
//!
//! We *trust* a neighbour's skips in a lane once it said which of our announcements it applies there, or answered a request of ours, until
//! the lane has a gap, the neighbour forgets us, or its link is on standby. So a skip that we go on behind was decided under an interest
//! that we had announced.
//!
//! A request is repeated with growing pauses, to another neighbour after three times, and given up after [`GIVE_UP_AFTER`]. A router that
//! cannot answer a request *goes back*: it asks upstream from that number on, and targets that are further leave what they have.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use shoal_norm::Time;

use super::chain::LinkId;
use super::inbox::SourceId;
use super::outlet::Skipped;

/// Chains that are remembered; beyond it the one that moved longest ago is forgotten.
const CHAINS_MAX: usize = 16_384;
/// Versions of our interest under which skips of a chain were decided, that are remembered.
const RUNS_MAX: usize = 8;
/// Delay before a request, so that what is under way on another path comes first.
const ASK_AFTER: Duration = Duration::from_millis(20);
/// The pause after the first request; it doubles.
const ASK_AGAIN: Duration = Duration::from_millis(100);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(1);
/// Requests to one neighbour before others are asked.
const ASKS_OF_ONE: u32 = 3;
/// Neighbours that are remembered as asked.
const ASKED_MAX: usize = 8;
/// A request that brings nothing for so long is given up, and what it was for is reported lost.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
/// The same for what others asked us for: we give up before they do.
const GO_BACK_FOR: Duration = Duration::from_secs(3);
/// How far a chain is, is told for so long after its source went.
const TOLD_FOR: Duration = Duration::from_secs(60);

/// A publisher and its chain.
pub(super) type Key = (u64, u32);

/// Who brings a chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub link: LinkId,
    pub source: SourceId,
}

/// Who is asked: over which link, and the neighbour's publisher; 0 for every router there.
pub(super) type Whom = (LinkId, u64);

#[derive(Debug)]
struct Ask {
    /// The next number when it was looked at last.
    next: u64,
    since: Time,
    at: Time,
    wait: Duration,
    count: u32,
    whom: Option<Whom>,
    /// Another neighbour that showed that it has what is missing, and those that were asked since something came.
    shown: Option<Whom>,
    asked: Vec<Whom>,
}

#[derive(Debug, Default)]
struct Chain {
    /// The number that is accepted next; 0 if nothing is known.
    next: u64,
    /// Our own programs are as far as that, though we may have gone back for others.
    high: u64,
    /// Its first number here, and the version of our interest when it began.
    first: u64,
    begun: u64,
    /// Numbers below exist.
    heard: u64,
    /// What came is not delivered yet.
    busy: Option<Holder>,
    /// Skips count that were decided under this version of our interest, or a later one.
    floor: u64,
    /// From which number on the chain came over which link, and under which version what was skipped there was decided. What came over a link says
    /// nothing of what is wanted there.
    runs: VecDeque<(u64, u64, LinkId)>,
    /// Who brought it last.
    from: Option<Whom>,
    at: Time,
    ended: bool,
    ask: Option<Ask>,
    /// Links for which we went back, and to which number.
    behind: BTreeMap<LinkId, u64>,
    /// The number to go back to once what came is delivered; 0 if there is none.
    back: u64,
}

impl Chain {
    /// Numbers from this one on come over a link, and were skipped there under this version.
    fn skip(&mut self, first: u64, mut version: u64, link: LinkId) {
        while let Some(&(_, of_run, from)) = self.runs.back().filter(|&&(known, ..)| known >= first) {
            version = if from == link { version.min(of_run) } else { 0 };
            self.runs.pop_back();
        }
        if self.runs.back().is_none_or(|&(_, known, from)| (known, from) != (version, link)) {
            if self.runs.len() == RUNS_MAX {
                self.runs.pop_front();
            }
            self.runs.push_back((first, version, link));
        }
    }

    /// It comes once more from this number on, and what is skipped is decided anew.
    fn return_to(&mut self, number: u64) {
        if number < self.next {
            self.next = number;
            self.runs.retain(|&(first, ..)| first < number);
        }
    }
}

/// How far a chain is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub next: u64,
    pub high: u64,
    pub floor: u64,
}

/// Whether a source may bring a chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It does, until [`Accept::progress`].
    Granted(Place),
    /// Everything below this number was here.
    Below(u64),
    /// Another source is bringing it just now.
    Busy,
    /// Nothing is known of it.
    Unknown,
}

/// A request that is due: who is asked, and from which number on; 0 by age.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub to: u64,
    pub key: Key,
    pub next: u64,
}

/// A request that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GivenUp {
    pub key: Key,
    /// These are lost to us.
    pub lost: Option<(u64, u64)>,
    /// Links that asked us for more than we got, and from where.
    pub behind: Vec<(LinkId, u64)>,
}

/// What is accepted, and what is asked for.
#[derive(Debug, Default)]
pub(super) struct Accept {
    chains: BTreeMap<Key, Chain>,
    asking: BTreeSet<Key>,
    /// Links in use behind which a router is.
    usable: BTreeSet<LinkId>,
    /// A chain may reach us on several paths, or could once: what was forwarded may come yet.
    is_routed: bool,
}

impl Accept {
    // --- getters ---

    /// The number that is accepted next; 0 if nothing is known.
    pub fn next(&self, key: Key) -> u64 {
        self.chains.get(&key).map_or(0, |chain| chain.next)
    }

    /// Whether something of a publisher is asked for.
    pub fn is_lacking(&self, publisher: u64) -> bool {
        self.asking.range((publisher, 0)..=(publisher, u32::MAX)).next().is_some()
    }

    /// The link that a chain comes from, and whether it ended.
    pub fn source(&self, key: Key) -> Option<Whom> {
        self.chains.get(&key)?.from
    }

    /// How far the chains are that do not come over this link, those whose source went a short time ago included, and whether more of
    /// each is being delivered just now.
    pub fn positions(&self, now: Time, link: LinkId) -> Vec<(Key, u64, bool)> {
        let is_told = |chain: &Chain| match chain.from {
            Some((from, _)) => from != link,
            None => now < chain.at + TOLD_FOR,
        };
        let known = self.chains.iter().filter(|(_, chain)| chain.next > 1 && is_told(chain));
        known.map(|(&key, chain)| (key, chain.high.max(chain.next), chain.busy.is_some())).collect()
    }

    /// Whether all numbers from this one on are here as messages, or as skips that were decided under this version of our interest, the
    /// interest of a link included.
    pub fn covers(&self, key: Key, number: u64, version: u64, link: LinkId) -> bool {
        let Some(chain) = self.chains.get(&key) else { return false };
        chain.next >= chain.high
            && (number >= chain.next
                || self.is_decided(
                    link,
                    &Skipped { key, first: number, end: chain.next, interest: version, begins: false },
                ))
    }

    /// Whether numbers were skipped under this version of our interest, the interest of a link included, if they are no messages. Of a chain
    /// that begins on the link, whether messages were left out under it, too.
    pub fn is_decided(&self, link: LinkId, skipped: &Skipped) -> bool {
        let &Skipped { key, first, end, interest, begins } = skipped;
        let Some(chain) = self.chains.get(&key).filter(|chain| !begins || chain.begun >= interest) else {
            return false;
        };
        let mut until = u64::MAX;
        for &(start, of_run, from) in chain.runs.iter().rev() {
            if start < end && first < until && (of_run < interest || from == link) {
                return false;
            }
            if start <= first {
                return true;
            }
            until = start;
        }
        first >= chain.first && chain.runs.len() < RUNS_MAX
    }

    /// Whether somebody may be asked who is not behind this link.
    pub fn has_others(&self, link: LinkId) -> bool {
        self.usable.iter().any(|&usable| usable != link)
    }

    /// Whether a chain may reach us on several paths.
    pub fn is_routed(&self) -> bool {
        self.is_routed
    }

    /// A chain may reach us on several paths from now on: what is missing on one is asked for.
    pub fn set_routed(&mut self) {
        self.is_routed = true;
    }

    // --- what comes ---

    /// A source brings something that ends with this number.
    pub fn claim(&mut self, now: Time, key: Key, holder: Holder, number: u64) -> Claim {
        let Some(chain) = self.chains.get_mut(&key) else { return Claim::Unknown };
        if chain.next == 0 {
            return Claim::Unknown;
        }
        if chain.busy.is_some_and(|busy| busy != holder) {
            return if number < chain.next { Claim::Below(chain.next) } else { Claim::Busy };
        }
        if number < chain.next {
            return Claim::Below(chain.next);
        }
        (chain.busy, chain.at) = (Some(holder), now);
        if chain.runs.back().is_none_or(|run| run.2 != holder.link) {
            // Nothing is skipped yet, but what comes says nothing of what is wanted there.
            let next = chain.next;
            chain.skip(next, u64::MAX, holder.link);
        }
        let &mut Chain { next, high, floor, .. } = chain;
        Claim::Granted(Place { next, high, floor })
    }

    /// A chain begins with this number, if nothing was known. True if so.
    pub fn begin(&mut self, now: Time, key: Key, number: u64, interest: u64) -> bool {
        let chain = self.chain(now, key);
        let is_new = chain.next == 0;
        if is_new {
            (chain.next, chain.high, chain.first) = (number, number, number);
            chain.begun = interest;
        }
        is_new
    }

    /// What is below this number is older than what was asked for: the chain begins here.
    pub fn begin_after(&mut self, key: Key, number: u64) {
        if let Some(chain) = self.chains.get_mut(&key) {
            chain.first = number;
            chain.runs.clear();
        }
    }

    fn chain(&mut self, now: Time, key: Key) -> &mut Chain {
        if self.chains.len() >= CHAINS_MAX && !self.chains.contains_key(&key) {
            let oldest = self.chains.iter().filter(|(_, chain)| chain.busy.is_none() && chain.ask.is_none());
            if let Some(oldest) = oldest.min_by_key(|(_, chain)| chain.at).map(|(&key, _)| key) {
                self.chains.remove(&oldest);
            }
        }
        self.chains.entry(key).or_insert_with(|| Chain { at: now, ..Chain::default() })
    }

    /// What a source brought is delivered; the number that comes next.
    pub fn progress(&mut self, now: Time, key: Key, holder: Holder, whom: Whom, next: u64) {
        let Some(chain) = self.chains.get_mut(&key).filter(|chain| chain.busy == Some(holder)) else {
            return;
        };
        chain.busy = None;
        if next > chain.next {
            (chain.next, chain.at, chain.from) = (next, now, Some(whom));
            chain.high = chain.high.max(next);
            chain.heard = chain.heard.max(next);
            if next >= chain.high {
                chain.behind.clear();
            }
        }
        if chain.back > 0 {
            let back = std::mem::take(&mut chain.back);
            chain.return_to(back);
        }
    }

    /// The number that a chain begins with here, and the one behind the last that we passed; none if nothing is known.
    pub fn extent(&self, key: Key) -> Option<(u64, u64)> {
        let chain = self.chains.get(&key).filter(|chain| chain.next > 0)?;
        Some((chain.first, chain.high))
    }

    /// Numbers from this one on do not come over a link, or are not kept, which was decided under this version.
    pub fn skip(&mut self, key: Key, first: u64, version: u64, link: LinkId) {
        if let Some(chain) = self.chains.get_mut(&key) {
            chain.skip(first, version, link);
        }
    }

    /// Its publisher left, and this was its last number.
    pub fn end(&mut self, now: Time, key: Key, last: u64) {
        let chain = self.chain(now, key);
        (chain.ended, chain.at) = (true, now);
        chain.heard = chain.heard.max(last + 1);
    }

    /// A source says nothing more, or its link is on standby. What it brought is delivered.
    pub fn release(&mut self, key: Key, holder: Holder, whom: Whom) {
        if let Some(chain) = self.chains.get_mut(&key) {
            chain.busy = chain.busy.filter(|busy| *busy != holder);
            chain.from = chain.from.filter(|from| *from != whom);
            if let Some(ask) = &mut chain.ask {
                ask.whom = ask.whom.filter(|asked| *asked != whom);
                ask.shown = ask.shown.filter(|shown| *shown != whom);
            }
        }
    }

    /// A neighbour brings a chain no longer, though others may: all of its chains, or this one.
    pub fn rest(&mut self, whom: Whom, only: Option<Key>) {
        for (key, chain) in &mut self.chains {
            if only.is_none_or(|only| only == *key) {
                chain.from = chain.from.filter(|from| *from != whom);
            }
        }
    }

    /// Whether the publisher of a chain left.
    pub fn has_ended(&self, key: Key) -> bool {
        self.chains.get(&key).is_some_and(|chain| chain.ended)
    }

    // --- requests ---

    /// Numbers of a chain below `heard` are lacking; `whom` showed it.
    pub fn need(&mut self, now: Time, key: Key, whom: Option<Whom>, heard: u64) {
        let chain = self.chain(now, key);
        chain.heard = chain.heard.max(heard);
        let after = if chain.next == 0 { Duration::ZERO } else { ASK_AFTER };
        self.ask(now, key, whom, after);
    }

    fn ask(&mut self, now: Time, key: Key, whom: Option<Whom>, after: Duration) {
        let Some(chain) = self.chains.get_mut(&key) else { return };
        let next = chain.next;
        let ask = chain.ask.get_or_insert(Ask {
            next,
            since: now,
            at: now + after,
            wait: ASK_AGAIN,
            count: 0,
            whom,
            shown: None,
            asked: Vec::new(),
        });
        ask.whom = ask.whom.or(whom);
        if whom.is_some() && whom != ask.whom {
            ask.shown = whom;
            if whom.is_some_and(|whom| !ask.asked.contains(&whom)) {
                ask.at = ask.at.min(now + after);
            }
        }
        self.asking.insert(key);
    }

    /// A link asks from this number on for what we do not have under this version of our interest: we ask upstream. False if we know
    /// nothing of the chain, or it comes from that link.
    pub fn go_back(&mut self, now: Time, key: Key, link: LinkId, number: u64, version: u64) -> bool {
        let comes_from = |chain: &Chain| chain.from.is_some_and(|from| from.0 == link);
        let chain = self.chains.get_mut(&key).filter(|chain| chain.next > 0 && !comes_from(chain));
        let Some(chain) = chain else { return false };
        let whom = chain.from;
        chain.floor = chain.floor.max(version);
        match chain.busy {
            None => chain.return_to(number),
            Some(_) => chain.back = if chain.back == 0 { number } else { chain.back.min(number) },
        }
        let from = chain.behind.entry(link).or_insert(number);
        *from = number.min(*from);
        if let Some(ask) = &mut chain.ask {
            (ask.at, ask.since) = (now, now);
        }
        self.ask(now, key, whom, Duration::ZERO);
        true
    }

    /// Says whether requests may go over a link.
    pub fn set_usable(&mut self, link: LinkId, is_usable: bool) {
        self.is_routed |= is_usable;
        let changed = if is_usable { self.usable.insert(link) } else { self.usable.remove(&link) };
        if changed && !is_usable {
            self.leave(link);
        }
    }

    /// A link is gone, or on standby: what was asked there is asked elsewhere.
    pub fn leave(&mut self, link: LinkId) {
        self.usable.remove(&link);
        for chain in self.chains.values_mut() {
            chain.from = chain.from.filter(|from| from.0 != link);
            chain.behind.remove(&link);
            if let Some(ask) = &mut chain.ask {
                ask.whom = ask.whom.filter(|whom| whom.0 != link);
                ask.shown = ask.shown.filter(|shown| shown.0 != link);
            }
        }
    }

    /// Requests that are due on a link where our interest was announced as of this version, when the next one is, and those that are given up.
    pub fn poll(&mut self, now: Time, link: LinkId, announced: u64) -> (Vec<Due>, Time, Vec<GivenUp>) {
        let (mut due, mut later, mut given_up) = (Vec::new(), Time::NEVER, Vec::new());
        let mut over = Vec::new();
        for &key in &self.asking {
            let Some(chain) = self.chains.get_mut(&key) else {
                over.push(key);
                continue;
            };
            let Some(ask) = chain.ask.as_mut() else {
                over.push(key);
                continue;
            };
            if chain.next > 0 && chain.next >= chain.heard && chain.next >= chain.high {
                over.push(key);
                continue;
            }
            if chain.next > ask.next {
                // What was asked for comes.
                *ask = Ask {
                    next: chain.next,
                    since: now,
                    at: now + ASK_AGAIN,
                    wait: ASK_AGAIN,
                    count: 0,
                    whom: ask.whom,
                    shown: ask.shown,
                    asked: Vec::new(),
                };
            }
            let is_for_others = chain.next > 0 && chain.next < chain.high;
            let patience = if is_for_others { GO_BACK_FOR } else { GIVE_UP_AFTER };
            ask.whom = ask.whom.or_else(|| ask.shown.take());
            let nobody = ask.whom.is_none() && self.usable.is_empty();
            if nobody && chain.next == 0 && !chain.ended {
                // The neighbour that shows the chain next is asked.
                over.push(key);
                continue;
            }
            if chain.busy.is_none() && (now >= ask.since + patience || nobody && now >= ask.at) {
                over.push(key);
                given_up.push(Self::give_up(key, chain));
                continue;
            }
            if now >= ask.at && ask.count > 0 && ask.shown.is_some() {
                std::mem::swap(&mut ask.whom, &mut ask.shown);
                ask.count = 0;
            }
            if ask.whom.is_none() || ask.count >= ASKS_OF_ONE {
                ask.count = 0;
                let before = ask.whom.map_or(0, |(link, _)| link + 1);
                // Whoever asked us has nothing to give.
                let may_have = |link: &&LinkId| !chain.behind.contains_key(*link);
                let other = self.usable.range(before..).chain(&self.usable).find(may_have);
                if other.is_some_and(|&other| ask.whom.is_none_or(|(link, _)| link != other)) {
                    ask.wait = ASK_AGAIN;
                }
                ask.whom = other.map(|&link| (link, 0)).or(ask.whom);
            }
            let Some((over_link, to)) = ask.whom.filter(|whom| whom.0 == link) else { continue };
            debug_assert_eq!(over_link, link);
            // The answer is to be decided under an interest that was announced.
            if now >= ask.at && (announced == 0 || chain.floor > announced) {
                ask.at = now + ASK_AFTER;
            } else if now >= ask.at {
                due.push(Due { to, key, next: chain.next });
                ask.count += 1;
                if let Some(whom) =
                    ask.whom.filter(|whom| !ask.asked.contains(whom) && ask.asked.len() < ASKED_MAX)
                {
                    ask.asked.push(whom);
                }
                ask.at = now + ask.wait;
                ask.wait = (2 * ask.wait).min(ASK_AGAIN_MAX);
            }
            later = later.min(ask.at);
        }
        for key in over {
            self.asking.remove(&key);
            if let Some(chain) = self.chains.get_mut(&key) {
                chain.ask = None;
            }
        }
        (due, later, given_up)
    }

    fn give_up(key: Key, chain: &mut Chain) -> GivenUp {
        let behind: Vec<_> = std::mem::take(&mut chain.behind).into_iter().collect();
        let next = chain.next.max(chain.high).max(1);
        let lost = (chain.heard > next).then_some((next, chain.heard - 1));
        if chain.next == 0 {
            chain.first = chain.heard;
        } else if chain.next < chain.high {
            // What did not come once more is decided under no interest that we know.
            let next = chain.next;
            chain.skip(next, 0, LinkId::MAX);
        }
        chain.next = chain.heard.max(next);
        chain.high = chain.next;
        GivenUp { key, lost, behind }
    }
}
