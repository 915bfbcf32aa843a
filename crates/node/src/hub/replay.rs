//! Requests of neighbours for what they lack, and our own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shoal_norm::Time;
use shoal_wire::{Answered, Lacking, MessageView, Replay};

use super::accept::{Due, GivenUp, Key};
use super::chain::{LinkId, Request, Serve};
use super::kept::Kept;
use super::link::{Link, Ring};
use super::passing::{Chain, HOPS_UNKNOWN, Outbound};
use super::{Hub, lock};

/// Of a chain that a router does not know it asks for what was published in this time.
const AGE_MAX: Duration = Duration::from_secs(30);

impl Hub {
    /// A neighbour lacks something.
    pub(super) fn hear_replay(&self, now: Time, link: &Link, replay: &Replay) {
        let is_asked = replay.to == self.publisher || replay.to == 0 && self.is_router();
        // The answer is decided under the announcement that it names; a node whose announcement is not here yet asks again.
        let is_known = self.is_neighbour(link.id, replay.from)
            && self.chains.applies(link.id, replay.from, replay.version);
        if !is_asked || link.is_resting() || !is_known {
            return;
        }
        let answered = Some(Answered { asker: replay.from, version: replay.version });
        for lacking in &replay.chains {
            let key = (lacking.publisher, lacking.chain);
            let since =
                Time::from_nanos(now.as_nanos().saturating_sub(lacking.age_ms.saturating_mul(1_000_000)));
            self.answer(now, link, &Request { key, first: lacking.next, since, answered });
        }
        link.bell.ring(Ring::Turn);
    }

    fn answer(&self, now: Time, link: &Link, request: &Request) {
        let key = request.key;
        let known = match key.0 == self.publisher {
            true => None,
            false if !self.is_router() => return,
            false => match lock(&self.accept).extent(key) {
                None => return,
                known => known,
            },
        };
        // What was skipped before the asker's interest was part of ours may be for it.
        let version = link.interest.load(Ordering::SeqCst);
        let serve = |first: u64, forgotten: u64| {
            let accept = lock(&self.accept);
            match accept.source(key) {
                Some((from, _)) if from == link.id => Serve::Not,
                _ if first > forgotten && accept.covers(key, first, version, link.id) => Serve::Whole,
                None if accept.has_others(link.id) => Serve::Later,
                // Nobody is nearer to a publisher that left.
                None if accept.has_ended(key) => Serve::Rest,
                None => Serve::Not,
                Some(_) => Serve::Later,
            }
        };
        let wanted = |kept: &Kept<'_>| self.is_wanted(kept, link.id);
        let later = self.chains.replay(now, (link.id, self.publisher), request, known, serve, wanted);
        if let Some(first) = later
            && lock(&self.accept).go_back(now, key, link.id, first, version)
        {
            self.ring_source(key);
        }
    }

    fn is_wanted(&self, kept: &Kept<'_>, link: LinkId) -> bool {
        let view = MessageView::parse(kept.record);
        view.is_ok_and(|view| self.routes().is_wanted_on(&view, &kept.origin(), link))
    }

    /// The link that a chain comes from is to ask there.
    fn ring_source(&self, key: Key) {
        let Some((link, _)) = lock(&self.accept).source(key) else { return };
        let link = self.routes().link(link).cloned();
        link.into_iter().for_each(|link| link.bell.ring(Ring::Turn));
    }

    /// Has a link carry the requests that are due, and acts on those that are given up. Returns what is lost to us, and when to
    /// look again.
    pub(super) fn ask(&self, now: Time, link: &Arc<Link>) -> (Vec<(Key, u64, u64)>, Time) {
        let announced = link.announced.load(Ordering::SeqCst);
        let (due, later, given_up) = lock(&self.accept).poll(now, link.id, announced);
        if !due.is_empty() {
            self.say_replays(now, link, link.announcement.load(Ordering::SeqCst), due);
        }
        let mut lost = Vec::new();
        for GivenUp { key, lost: range, behind } in given_up {
            let has_ended = lock(&self.accept).has_ended(key);
            for (behind, first) in behind.into_iter().filter(|_| has_ended) {
                self.answer_rest(now, key, behind, first);
            }
            if let Some((first, last)) = range {
                lost.push((key, first, last));
                self.forward_lost(now, key, (first, last));
            }
        }
        (lost, later)
    }

    fn say_replays(&self, now: Time, link: &Link, version: u64, due: Vec<Due>) {
        let age = match self.is_router() {
            true => AGE_MAX,
            false => now.since(self.routes().reads_since()).min(AGE_MAX),
        };
        let mut replays: BTreeMap<u64, Vec<Lacking>> = BTreeMap::new();
        for Due { to, key: (publisher, chain), next } in due {
            let age_ms = age.as_millis() as u64 + 1;
            replays.entry(to).or_default().push(Lacking { publisher, chain, next, age_ms });
        }
        for (to, chains) in replays {
            for chains in chains.chunks(Replay::CHAINS_MAX) {
                let replay = Replay { from: self.publisher, to, version, chains: chains.to_vec() };
                self.say_on(link, |record| replay.write(record));
            }
        }
    }

    /// Nobody upstream has what a link asked for: it gets what we have, and the rest is lost.
    fn answer_rest(&self, now: Time, key: Key, link: LinkId, first: u64) {
        let Some(link) = self.routes().link(link).cloned().filter(|link| !link.is_resting()) else { return };
        let known = lock(&self.accept).extent(key);
        let request = Request { key, first, since: now, answered: None };
        let wanted = |kept: &Kept<'_>| self.is_wanted(kept, link.id);
        let all = (link.id, self.publisher);
        self.chains.replay(now, all, &request, known, |_, _| Serve::Rest, wanted);
        link.bell.ring(Ring::Turn);
    }

    /// Of a router: numbers are lost to us, and to those behind us.
    fn forward_lost(&self, now: Time, key: Key, range: (u64, u64)) {
        if !self.is_router() {
            return;
        }
        let chain = Chain { publisher: key.0, chain: key.1, hops: HOPS_UNKNOWN, clock: None, again: None };
        let mut outbound = Outbound::default();
        let links = self.routes().asking(LinkId::MAX);
        outbound.add_lost(&chain, range, &links);
        let passed = self.chains.pass_on(
            now,
            (key.1 as usize, LinkId::MAX),
            &outbound,
            &[],
            |_, _, _| None,
            &|link, skipped| self.is_decided(link, skipped),
        );
        for (link, waiting) in self.routes().links_of(&passed.given) {
            link.bell.ring(Ring::Data(key.1 as usize, waiting));
        }
    }
}
