//! Chains on their way out: who publishes gets a number here, and each link a bounded buffer of frames.
//!
//! A *chain* is one ordered path. Its lock is held for as long as it takes to give a number and to copy a record into
//! the buffers of the links that want it, so the order of the numbers is the order in every buffer. A link takes a whole buffer
//! and leaves its emptied one in exchange: neither side allocates in the steady state.
//!
//! Marks and skips stand between the records, so that a message carries neither its number nor its time; see [`super::outlet`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use shoal_norm::{NodeId, Time};
use shoal_wire::{Answered, Loser, frame};

mod publishing;

pub(super) use self::publishing::Publishing;
use super::accept::Key;
use super::kept::{Keep, Kept};
use super::link::{Link, Ring};
use super::outlet::{Answer, IsSure, Outlet, Skipped};
use super::passing::{Chain, Item, Outbound, PassedOn};
use super::send_error::SendError;
use super::wake::Wake;
use crate::load::Load;

/// Names a link of a hub.
pub type LinkId = usize;

/// A message published so soon after another has the same timestamp, microseconds.
const STAMP_US: u64 = 1000;
/// The clock is read at least once in so many messages, and whenever a link took what was published before.
const STAMP_MESSAGES: u32 = 16;

/// Where the time comes from; asked for only when it is needed.
pub trait Clock {
    /// By a clock that never jumps.
    fn now(&self) -> Time;

    /// Microseconds since 1970.
    fn wall_us(&self) -> u64;
}

/// When messages were published: the same for all of a millisecond.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Microseconds since 1970.
    pub timestamp_us: u64,
    /// By the clock that never jumps.
    pub clock: Time,
}

#[derive(Debug)]
pub(super) struct State {
    /// The number given last.
    last: u64,
    stamp: Stamp,
    /// Messages until the clock is read again.
    unread: u32,
    outlets: Vec<Option<Outlet>>,
    closed: bool,
    failure: Option<Arc<str>>,
    /// Somebody found no room since a buffer was taken, and waits.
    refused: bool,
    /// Somebody was sent away for want of room since then, and may come back.
    sent_away: bool,
    /// What requests are answered from, and the number of ours with which it began; 0 if it did not.
    kept: Keep,
    kept_from: u64,
    /// What was published here, and what went to links that are closed.
    here: Load,
    gone: Load,
}

/// A request for what a node lacks of a chain.
#[derive(Copy, Clone, Debug)]
pub(super) struct Request {
    pub key: Key,
    /// From this number on; 0 if what came since then is asked for.
    pub first: u64,
    pub since: Time,
    /// Who asks; none if we answer for want of more.
    pub answered: Option<Answered>,
}

/// Whether a request is answered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Serve {
    /// From the ring, which has everything.
    Whole,
    /// From the ring; what it lacks is lost.
    Rest,
    /// As soon as it comes from upstream.
    Later,
    Not,
}

/// What is passed on waits once so many bytes wait for a link. It is taken in small pieces, so that whoever sends it sees a router
/// get on at least every half second, also where a slow path is behind it.
const PASSED_BYTES_MAX: usize = 128 << 10;

/// Bytes that may wait in a lane, for all links together, when something is replayed. However many links are activated, or members
/// behind them change what they want, a replay takes no more memory.
const REPLAYED_BYTES_MAX: usize = 16 << 20;

/// Chains, by the number of their lane, and the buffers of all links.
pub struct Chains {
    chains: Box<[Mutex<State>]>,
    wake: Arc<dyn Wake>,
    /// How to reach links whose sources wait for room.
    bells: Mutex<BTreeMap<LinkId, Weak<Link>>>,
    /// Messages passed on, counted for each link.
    passed: AtomicU64,
    /// What is published and passed on is kept for a while: there may be another way.
    keeps: AtomicBool,
    lane_bytes_max: usize,
    message_bytes_max: usize,
}

impl Chains {
    /// So many chains without links. `wake` hears of room.
    pub fn new(count: usize, lane_bytes_max: usize, message_bytes_max: usize, wake: Arc<dyn Wake>) -> Chains {
        let chain = || {
            Mutex::new(State {
                last: 0,
                stamp: Stamp::default(),
                unread: 0,
                outlets: Vec::new(),
                closed: false,
                failure: None,
                refused: false,
                sent_away: false,
                kept: Keep::default(),
                kept_from: 0,
                here: Load::default(),
                gone: Load::default(),
            })
        };
        Chains {
            chains: (0..count).map(|_| chain()).collect(),
            wake,
            bells: Mutex::default(),
            passed: AtomicU64::new(0),
            keeps: AtomicBool::new(false),
            lane_bytes_max,
            message_bytes_max: message_bytes_max.min(frame::FRAME_BYTES_MAX),
        }
    }

    fn lock(&self, chain: usize) -> MutexGuard<'_, State> {
        self.chains[chain].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.chains.len()
    }

    /// The longest message.
    pub fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    /// Bytes that may wait for a link in a chain.
    pub fn lane_bytes_max(&self) -> usize {
        self.lane_bytes_max
    }

    /// Gives a link its buffers. What it is given first has the number that comes next.
    pub fn open(&self, link: LinkId) {
        for chain in &self.chains {
            let mut state = chain.lock().unwrap_or_else(PoisonError::into_inner);
            if state.outlets.len() <= link {
                state.outlets.resize_with(link + 1, || None);
            }
            let next = state.last + 1;
            state.outlets[link] = Some(Outlet::new(next));
        }
    }

    /// A link is gone.
    pub fn shut(&self, link: LinkId) {
        self.stop(link);
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).remove(&link);
    }

    /// Takes a link's buffers away, with what is in them: nobody waits for room there any more.
    pub fn stop(&self, link: LinkId) {
        let mut parked = Vec::new();
        for chain in &self.chains {
            let mut state = chain.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(outlet) = state.outlets.get_mut(link).and_then(Option::take) {
                let last = state.last;
                state.gone += outlet.load(last);
                parked.extend(outlet.parked);
            }
        }
        self.wake_parked(&parked);
        self.wake.wake();
    }

    /// Says which version of our interest a link announced: its marks name it.
    pub fn set_version(&self, link: LinkId, version: u64) {
        for chain in &self.chains {
            let mut state = chain.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(outlet) = state.outlets.get_mut(link).and_then(Option::as_mut) {
                outlet.version = version;
            }
        }
    }

    /// A member of a link announced something else, and its announcement is applied from here on: who publishes there, and the version. It is
    /// part of what we announce in this version, if it asks for more.
    pub(super) fn apply(&self, link: &Link, node: NodeId, announced: (u64, u64), interest: Option<u64>) {
        for chain in 1..self.chains.len() {
            let mut state = self.lock(chain);
            let (last, stamp) = (state.last, state.stamp);
            if let Some(outlet) = state.outlets.get_mut(link.id).and_then(Option::as_mut) {
                if !link.is_resting() {
                    outlet.tell_decided(chain as u32, stamp, last);
                }
                outlet.applied.set(node, announced);
                outlet.interest = interest.unwrap_or(outlet.interest);
            }
        }
    }

    /// Whether the announcement of this version by a member of a link is applied.
    pub(super) fn applies(&self, link: LinkId, publisher: u64, version: u64) -> bool {
        let state = self.lock(1);
        state
            .outlets
            .get(link)
            .and_then(Option::as_ref)
            .is_some_and(|outlet| outlet.applied.has(publisher, version))
    }

    /// A link is active from here on. What was published before went elsewhere, or was not for it: its lanes say how far they are before they
    /// say whose interest they apply. What its members want is part of our interest in this version.
    pub(super) fn activate(&self, link: LinkId, interest: u64) {
        for chain in 1..self.chains.len() {
            let mut state = self.lock(chain);
            let stamp = state.stamp;
            if let Some(outlet) = state.outlets.get_mut(link).and_then(Option::as_mut) {
                outlet.rest(chain as u32, stamp);
                outlet.applied.say_nothing();
            }
        }
        self.tell_position(link);
        for chain in 1..self.chains.len() {
            if let Some(outlet) = self.lock(chain).outlets.get_mut(link).and_then(Option::as_mut) {
                outlet.applied.repeat_all();
                outlet.interest = interest;
            }
        }
    }

    /// Says which is the longest message that those behind a link take.
    pub fn set_message_bytes_max(&self, link: LinkId, bytes_max: usize) {
        for chain in &self.chains {
            let mut state = chain.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(outlet) = state.outlets.get_mut(link).and_then(Option::as_mut) {
                outlet.message_bytes_max = bytes_max;
            }
        }
    }

    /// Locks a chain for publishing.
    pub(super) fn publish(&self, chain: usize) -> Publishing<'_> {
        Publishing { chains: self, chain, state: self.lock(chain) }
    }

    /// Appends one frame made of `parts` to a link's buffer, without number or mark. Returns how many bytes wait there
    /// now, or `None` if the link cannot send them anyway. A frame larger than the bound is taken when nothing waits, so
    /// the bound is exceeded by one frame at most.
    pub fn append(&self, chain: usize, link: LinkId, parts: &[&[u8]]) -> Result<Option<usize>, SendError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.message_bytes_max {
            return Err(SendError::TooLong(length, self.message_bytes_max));
        }
        let mut state =
            self.chains.get(chain).ok_or(SendError::NoLane)?.lock().unwrap_or_else(PoisonError::into_inner);
        state.check_open()?;
        let state = &mut *state;
        let outlet = state.outlets.get_mut(link).and_then(Option::as_mut).ok_or(SendError::NoLane)?;
        if !outlet.has_room(length, self.lane_bytes_max) {
            state.sent_away = true;
            return Err(SendError::Full);
        }
        outlet.reserve(length)?;
        outlet.append(length, parts);
        Ok((!outlet.blocked).then_some(outlet.bytes.len()))
    }

    /// Takes what waits for a link in exchange for `emptied`. False if nothing waits.
    pub fn take(&self, chain: usize, link: LinkId, emptied: &mut Vec<u8>) -> bool {
        let mut state = self.lock(chain);
        let stamp = state.stamp;
        let Some(outlet) = state.outlets.get_mut(link).and_then(Option::as_mut) else { return false };
        if outlet.bytes.is_empty() {
            return false;
        }
        outlet.tell_dropped(chain as u32, stamp);
        // Who missed the mark before them numbers the messages by the one behind them.
        outlet.close_run(chain as u32, stamp);
        emptied.clear();
        std::mem::swap(&mut outlet.bytes, emptied);
        let parked = std::mem::take(&mut outlet.parked);
        state.unread = 0;
        let (refused, sent_away) = (std::mem::take(&mut state.refused), std::mem::take(&mut state.sent_away));
        drop(state);
        if sent_away {
            self.wake.wake();
        } else if refused {
            self.wake.wake_waiting();
        }
        if !parked.is_empty() {
            self.wake_parked(&parked);
        }
        true
    }

    /// Nobody waits for room of a link any more: it lags.
    pub(super) fn wake_parked_on(&self, link: LinkId) {
        let parked = |chain: usize| {
            let mut state = self.lock(chain);
            let outlet = state.outlets.get_mut(link).and_then(Option::as_mut);
            outlet.map(|outlet| std::mem::take(&mut outlet.parked)).unwrap_or_default()
        };
        let parked: Vec<LinkId> = (0..self.chains.len()).flat_map(parked).collect();
        self.wake_parked(&parked);
    }

    /// Has links go on whose sources waited for room.
    #[cold]
    fn wake_parked(&self, parked: &[LinkId]) {
        let bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        let links: Vec<Arc<Link>> = parked.iter().filter_map(|id| bells.get(id)?.upgrade()).collect();
        drop(bells);
        links.iter().for_each(|link| link.bell.ring(Ring::Turn));
    }

    fn lags(&self, link: LinkId) -> bool {
        let bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.get(&link).and_then(Weak::upgrade).is_some_and(|link| link.is_lagging())
    }

    /// Says how to reach a link whose sources may wait for room.
    pub(super) fn set_bell(&self, link: &Arc<Link>) {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.insert(link.id, Arc::downgrade(link));
    }

    /// Forwards what came over a link, in the order it came; `bytes` is where its messages lie. Links that lag are not waited
    /// for. `reroute` chooses the links of a message anew while the lane is locked, if what is wanted changed since they were chosen;
    /// `is_sure` says under which interest numbers were skipped.
    pub(super) fn pass_on(
        &self,
        now: Time,
        (lane, from): (usize, LinkId),
        outbound: &Outbound,
        bytes: &[u8],
        mut reroute: impl FnMut(&Chain, (u64, u64), &[u8]) -> Option<Vec<LinkId>>,
        is_sure: &IsSure<'_>,
    ) -> PassedOn {
        let mut done = PassedOn::default();
        let Some(chain) = self.chains.get(lane) else { return done };
        let mut state = chain.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_some() {
            return done;
        }
        let (own, bytes_max) = ((lane as u32, state.stamp), self.lane_bytes_max);
        let (mut current, mut passed) = (None, 0);
        let sure_of = |link| move |skipped: &Skipped| is_sure(link, skipped);
        let (state, keeps) = (&mut *state, self.keeps());
        for item in &outbound.items {
            match (item, &current) {
                (Item::Chain(chain), _) => {
                    current = Some(*chain);
                    if let Some(Some(outlet)) = state.outlets.get_mut(from) {
                        outlet.leave(own, chain.key());
                    }
                }
                (&Item::Message { start, length, number, timestamp_us, links }, Some(chain)) => {
                    let record = &bytes[start as usize..][..length as usize];
                    if keeps {
                        state.kept.add(now, chain, (number, timestamp_us), &[record]);
                    }
                    let anew = reroute(chain, (number, timestamp_us), record);
                    for &link in anew.as_deref().unwrap_or_else(|| outbound.links(links)) {
                        let Some(Some(outlet)) = state.outlets.get_mut(link) else { continue };
                        if (!outlet.has_room(record.len(), bytes_max)
                            && (record.len() > outlet.message_bytes_max || self.lags(link)))
                            || outlet.reserve(record.len()).is_err()
                        {
                            outlet.drop_passed(chain, number);
                            if outlet.bytes.is_empty() {
                                // Nothing that waits will be taken from there, and it be told then.
                                outlet.tell_dropped(own.0, own.1);
                                done.note(link);
                            }
                        } else {
                            let is_new =
                                outlet.pass(now, own, chain, (number, timestamp_us), record, &sure_of(link));
                            passed += u64::from(is_new);
                            done.note(link);
                        }
                    }
                }
                (&Item::Lost { first, last, links }, Some(chain)) => {
                    if keeps {
                        state.kept.lose(now, chain, (first, last));
                    }
                    let begins = outbound.links(links);
                    for (link, outlet) in state.outlets.iter_mut().enumerate() {
                        if let Some(outlet) = outlet.as_mut().filter(|_| link != from) {
                            outlet.lose(own, chain, (first, last), begins.contains(&link), &sure_of(link));
                            done.note(link);
                        }
                    }
                }
                (&Item::Begins { number, links }, Some(chain)) => {
                    for &link in outbound.links(links) {
                        if let Some(Some(outlet)) = state.outlets.get_mut(link) {
                            outlet.tell_passed(own, chain.key(), number, &sure_of(link));
                            done.note(link);
                        }
                    }
                }
                (_, None) => {}
            }
        }
        self.passed.fetch_add(passed, Ordering::Relaxed);
        done.settle(|link| {
            let outlet = state.outlets.get_mut(link)?.as_mut()?;
            // Nobody waits for a link that lags: it may take nothing for ever.
            let is_full = outlet.bytes.len() >= bytes_max.min(PASSED_BYTES_MAX)
                && !outlet.bytes.is_empty()
                && !self.lags(link);
            if is_full && !outlet.parked.contains(&from) {
                outlet.parked.push(from);
            }
            Some((outlet.bytes.len(), is_full, outlet.blocked))
        });
        done
    }

    /// Messages passed on so far, counted for each link that they went to.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Whether a lane of a link has no room; then a link is rung when it has.
    pub(super) fn is_full_for(&self, lane: usize, link: LinkId, from: LinkId) -> bool {
        let Some(chain) = self.chains.get(lane) else { return false };
        let mut state = chain.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes_max = self.lane_bytes_max.min(PASSED_BYTES_MAX);
        let Some(Some(outlet)) = state.outlets.get_mut(link) else { return false };
        let is_full = outlet.bytes.len() >= bytes_max && !outlet.bytes.is_empty() && !self.lags(link);
        if is_full && !outlet.parked.contains(&from) {
            outlet.parked.push(from);
        }
        is_full
    }

    /// A link says whether it sends nothing of a chain for now, because its receivers take no more.
    pub fn set_blocked(&self, chain: usize, link: LinkId, blocked: bool) {
        if let Some(outlet) = self.lock(chain).outlets.get_mut(link).and_then(Option::as_mut) {
            outlet.blocked = blocked;
        }
    }

    /// Whether something that is passed on waits until a link takes what it has.
    pub fn holds_back(&self, link: LinkId) -> bool {
        self.each(link, |outlet| !outlet.parked.is_empty()).any(|holds_back| holds_back)
    }

    /// Links over which that came.
    pub(super) fn held_back_by(&self, link: LinkId) -> Vec<LinkId> {
        self.each(link, |outlet| outlet.parked.clone()).flatten().collect()
    }

    /// Bytes that wait for a link, in all chains.
    pub fn waiting(&self, link: LinkId) -> usize {
        self.each(link, |outlet| outlet.bytes.len()).sum()
    }

    /// The same, without what the link cannot send for now.
    pub fn sendable(&self, link: LinkId) -> usize {
        self.each(link, |outlet| if outlet.blocked { 0 } else { outlet.bytes.len() }).sum()
    }

    /// Bytes ever appended for a link, chain by chain.
    pub fn appended(&self, link: LinkId) -> Vec<u64> {
        self.each(link, |outlet| outlet.appended).collect()
    }

    /// Messages ever given to a link.
    pub(super) fn messages(&self, link: LinkId) -> u64 {
        self.each(link, |outlet| outlet.messages).sum()
    }

    /// What was published here in a lane, and what went to links that are closed.
    pub(super) fn load(&self, lane: usize) -> (Load, Load) {
        let state = self.lock(lane);
        (Load { received: state.last, ..state.here }, state.gone)
    }

    /// What went to a link in a lane.
    pub(super) fn load_of(&self, lane: usize, link: LinkId) -> Load {
        let state = self.lock(lane);
        let outlet = state.outlets.get(link).and_then(Option::as_ref);
        outlet.map_or_else(Load::default, |outlet| outlet.load(state.last))
    }

    fn each<T: Default>(&self, link: LinkId, get: impl Fn(&Outlet) -> T) -> impl Iterator<Item = T> {
        (0..self.chains.len()).map(move |chain| {
            self.lock(chain).outlets.get(link).and_then(Option::as_ref).map_or_else(T::default, &get)
        })
    }

    /// A node behind a link lost for good some of what was sent in a lane since then.
    pub(super) fn note_loser(&self, lane: usize, link: LinkId, node: NodeId, since: Time) {
        let mut state = self.lock(lane);
        let stamp = state.stamp;
        if let Some(outlet) = state.outlets.get_mut(link).and_then(Option::as_mut) {
            outlet.note_loser(node, (lane as u32, stamp), since);
        }
    }

    /// A node behind a link is gone.
    pub(super) fn forget_loser(&self, link: LinkId, node: NodeId) {
        for chain in 0..self.chains.len() {
            if let Some(outlet) = self.lock(chain).outlets.get_mut(link).and_then(Option::as_mut) {
                outlet.losers.forget(node);
            }
        }
    }

    /// Who lost something of a publisher for good on which link; 0 stands for ourselves.
    pub(super) fn losers(&self, publisher: u64) -> Vec<(LinkId, Loser)> {
        let mut losers = Vec::new();
        for chain in 1..self.chains.len() {
            for (link, outlet) in self.lock(chain).outlets.iter().enumerate() {
                let of_link = outlet.iter().flat_map(|outlet| outlet.losers.of(publisher));
                losers.extend(of_link.map(|loser| (link, loser)));
            }
        }
        losers
    }

    /// The number given last in each chain.
    pub fn last_numbers(&self) -> Vec<u64> {
        (0..self.chains.len()).map(|chain| self.lock(chain).last).collect()
    }

    /// The number given last in a chain.
    pub fn last_number(&self, chain: usize) -> u64 {
        self.lock(chain).last
    }

    /// Whether what is published and passed on is kept for a while.
    #[inline]
    pub(super) fn keeps(&self) -> bool {
        self.keeps.load(Ordering::Relaxed)
    }

    /// Keeps what is published and passed on from now on. True if that is new.
    pub(super) fn begin_keeping(&self) -> bool {
        !self.keeps.swap(true, Ordering::SeqCst)
    }

    /// Nothing is published or forwarded while `change` activates a link, or adds to what is wanted there.
    pub(super) fn hold_still(&self, change: impl FnOnce()) {
        let states: Vec<MutexGuard<'_, State>> =
            (1..self.chains.len()).map(|chain| self.lock(chain)).collect();
        change();
        drop(states);
    }

    /// Answers a request of a node behind a link from the ring; `wanted` says which messages are for those behind it. `known` is the
    /// number that a chain of others begins with here and the one behind the last; `serve` says whether everything is
    /// here from a number on, if the ring forgot those up to another. Where it has not, the answer is only begun. Returns the number that it begins with, unless it is complete.
    pub(super) fn replay(
        &self,
        now: Time,
        (link, publisher): (LinkId, u64),
        request: &Request,
        known: Option<(u64, u64)>,
        serve: impl FnOnce(u64, u64) -> Serve,
        mut wanted: impl FnMut(&Kept<'_>) -> bool,
    ) -> Option<u64> {
        let (key, lane) = (request.key, request.key.1 as usize);
        if !(1..self.chains.len()).contains(&lane) {
            return None;
        }
        let mut state = self.lock(lane);
        let State { outlets, kept, stamp, last, kept_from, .. } = &mut *state;
        let waiting: usize = outlets.iter().flatten().map(|outlet| outlet.bytes.len()).sum();
        let room = REPLAYED_BYTES_MAX.saturating_sub(waiting);
        let outlet = outlets.get_mut(link).and_then(Option::as_mut)?;
        let (begins, high) =
            known.unwrap_or((if *kept_from == 0 { *last + 1 } else { *kept_from }, *last + 1));
        let first = match request.first {
            0 => kept.first_since(key, request.since).unwrap_or(begins),
            first => first,
        };
        let mut forgotten = kept.forgotten(key).map_or(0, |forgotten| forgotten.last);
        let is_own = known.is_none();
        if is_own && request.first > 0 {
            forgotten = forgotten.max(begins - 1);
        }
        let mut messages = kept.of(key, first);
        let last_kept = messages.last().map_or(0, |kept| kept.number + kept.lost.max(1));
        let end = high.max(last_kept).max(outlet.passed_next(key)).max(first);
        let served = if is_own { Serve::Whole } else { serve(first, forgotten) };
        messages.retain(|kept| kept.lost > 0 || wanted(kept));
        let hops = messages.iter().map(|kept| kept.chain.hops).max();
        let chain = Chain {
            publisher: key.0,
            chain: key.1,
            hops: hops.unwrap_or(u8::from(!is_own)),
            clock: messages.last().and_then(|kept| kept.chain.clock),
            again: None,
        };
        let answer = Answer {
            chain,
            publisher,
            first,
            end,
            forgotten,
            is_whole: served != Serve::Rest,
            is_by_age: request.first == 0,
            answered: request.answered,
        };
        if let Some(Answered { asker, .. }) = request.answered {
            // It may lack what the lane said before.
            outlet.applied.repeat(asker);
        }
        let own = (lane as u32, *stamp);
        match served {
            Serve::Not => None,
            Serve::Later => {
                outlet.begin_answer((now, own.0, own.1), &answer);
                Some(first)
            }
            Serve::Whole | Serve::Rest => {
                outlet.replay(now, own, &answer, &messages, room);
                None
            }
        }
    }

    /// A node is not counted on any more on a link. If it failed, the lanes say so: it may only have been silent.
    pub(super) fn forget_member(&self, link: LinkId, node: NodeId, has_failed: bool) {
        for chain in 1..self.chains.len() {
            if let Some(outlet) = self.lock(chain).outlets.get_mut(link).and_then(Option::as_mut) {
                outlet.forget(node, has_failed);
            }
        }
    }

    /// Tells those behind a link that nothing more comes this way for now.
    pub(super) fn rest(&self, link: LinkId) {
        for chain in 1..self.chains.len() {
            let mut state = self.lock(chain);
            let stamp = state.stamp;
            if let Some(outlet) = state.outlets.get_mut(link).and_then(Option::as_mut) {
                outlet.rest(chain as u32, stamp);
            }
        }
    }

    /// Tells those behind a link how far each chain is, of which anything was published: the numbers that were not sent
    /// since the last message that was, and the one that comes next.
    pub fn tell_position(&self, link: LinkId) {
        for chain in 0..self.chains.len() {
            let mut state = self.lock(chain);
            let (next, stamp) = (state.last + 1, state.stamp);
            let Some(outlet) = state.outlets.get_mut(link).and_then(Option::as_mut) else { continue };
            // What waits may end with just that.
            let is_told = outlet.ends_with(next);
            if next == 1 || is_told {
                continue;
            }
            outlet.tell_position(chain as u32, next, stamp);
        }
    }

    /// Tells those behind a link how far chains are that are passed on. Of those that it knows, if `is_known`, only where some numbers
    /// were not said yet.
    pub(super) fn tell_passed(
        &self,
        link: LinkId,
        positions: &[(Key, u64)],
        is_known: bool,
        is_sure: &IsSure<'_>,
    ) {
        for lane in 1..self.chains.len() {
            let mut of_lane = positions.iter().filter(|((_, chain), _)| *chain as usize == lane).peekable();
            if of_lane.peek().is_none() {
                continue;
            }
            let mut state = self.lock(lane);
            let stamp = state.stamp;
            if let Some(outlet) = state.outlets.get_mut(link).and_then(Option::as_mut) {
                for &(key, next) in of_lane {
                    if !is_known || (1..next).contains(&outlet.passed_next(key)) {
                        outlet
                            .tell_passed((lane as u32, stamp), key, next, &|skipped| is_sure(link, skipped));
                    }
                }
            }
        }
    }

    /// Takes nothing more, and lets nobody wait. What was appended can still be taken, and everybody behind a link will
    /// know how many were published.
    pub fn close(&self) {
        for chain in 0..self.chains.len() {
            let mut state = self.lock(chain);
            if !std::mem::replace(&mut state.closed, true) {
                let next = state.last + 1;
                let stamp = state.stamp;
                for outlet in state.outlets.iter_mut().flatten().filter(|outlet| outlet.next != next) {
                    outlet.skip_own(chain as u32, next, stamp);
                }
            }
        }
        self.wake.wake();
    }

    /// The same, because there is no link left: why.
    pub fn fail(&self, why: &Arc<str>) {
        for chain in 0..self.chains.len() {
            self.lock(chain).failure.get_or_insert_with(|| why.clone());
        }
        self.wake.wake();
    }
}

impl State {
    fn check_open(&self) -> Result<(), SendError> {
        if self.closed {
            return Err(SendError::Closed);
        }
        self.failure.as_ref().map_or(Ok(()), |why| Err(SendError::Failed(why.clone())))
    }
}

#[cfg(test)]
mod tests;
