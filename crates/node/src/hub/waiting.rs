//! What the hub's owner, and routers that ask, wait for: until every member has everything, or every router knows what we want.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shoal_norm::{NodeId, Time};
use shoal_wire::{About, Loser};

use super::chain::LinkId;
use super::flush::{Asker, Failed, FlushId, FlushState, INTEREST_LANE};
use super::link::{Link, Ring};
use super::losers::OTHER_END;
use super::{Hub, lock};

impl Hub {
    /// Starts waiting until every member has everything published so far, those behind routers, too.
    pub fn begin_flush(&self) -> FlushId {
        let published = self.chains.last_numbers();
        let id = self.begin_wait(About::Messages, None, None);
        lock(&self.flushes).set_published(id, published);
        id
    }

    /// How many messages were published here.
    fn published(&self) -> u64 {
        self.chains.last_numbers().iter().skip(1).sum()
    }

    /// Whether something was published of which no flush confirmed that everybody has it.
    pub fn has_unconfirmed(&self) -> bool {
        self.published() > lock(&self.flushes).confirmed()
    }

    /// Starts waiting until everybody knows what we want by now: routers, those behind them, members of multicast links, and
    /// whoever is alone at the other end of a link.
    pub fn begin_sync(&self) -> FlushId {
        self.begin_wait(About::Interest, None, None)
    }

    /// Waits over all links but one; for somebody else, if there is an asker.
    pub(super) fn begin_wait(&self, about: About, except: Option<LinkId>, asker: Option<Asker>) -> FlushId {
        let (routers, mut lanes) = (self.routers(except), self.unacknowledged(about, except));
        if let Some(asker) = asker.filter(|_| about == About::Messages) {
            // Those behind a link that rests have what others brought there, and we heard that.
            let resting = self.resting();
            let owed = lock(&self.owed);
            let lacking = resting.into_iter().filter(|&link| owed.is_lacking(link, asker.origin.0));
            lanes.extend(lacking.map(|link| ((link, 0), u64::MAX)));
        }
        let leaves = self.leaves(about, except, asker.is_some());
        let id = {
            let mut flushes = lock(&self.flushes);
            let id = flushes.begin(about, lanes, routers, asker);
            flushes.add_leaves(id, leaves);
            id
        };
        self.say();
        self.ring_all(Ring::Turn);
        id
    }

    /// Begins flushes anew of which ways changed: somebody may be behind another router now.
    pub(super) fn restart_flushes(&self) {
        let stale = lock(&self.flushes).to_restart();
        for &(id, about) in &stale {
            let (routers, lanes) = (self.routers(None), self.unacknowledged(about, None));
            let leaves = self.leaves(about, None, false);
            let mut flushes = lock(&self.flushes);
            flushes.restart(id, lanes, routers);
            flushes.add_leaves(id, leaves);
        }
        if !stale.is_empty() {
            self.ring_all(Ring::Turn);
        }
    }

    /// How many bytes of each lane of each link, but one, somebody who waits about something waits for.
    fn unacknowledged(&self, about: About, except: Option<LinkId>) -> Vec<((LinkId, usize), u64)> {
        let broken = self.broken();
        let links: Vec<Arc<Link>> = self.routes().links().cloned().collect();
        let links = links.iter().filter(|link| !broken.contains(&link.id) && Some(link.id) != except);
        // The first lane is the links' own. It stands for one that is about to be taken up: what goes over it is not known yet.
        let begins = |link: &&Arc<Link>| link.is_resting() && !link.is_to_rest.load(Ordering::SeqCst);
        let begin = links.clone().filter(begins).map(|link| ((link.id, 0), u64::MAX));
        // Members of a multicast link say whether they know; others answer as routers do.
        let is_asked = |link: &&Arc<Link>| about == About::Interest && link.is_shared() && !link.is_resting();
        let wanted = |link: &Arc<Link>| ((link.id, INTEREST_LANE), link.wanted.load(Ordering::SeqCst));
        let interest = links.clone().filter(is_asked).map(wanted);
        let lanes = links.filter(|_| about == About::Messages).flat_map(|link| {
            let appended = self.chains.appended(link.id).into_iter().enumerate().skip(1);
            appended.map(|(lane, bytes)| ((link.id, lane), bytes))
        });
        begin.chain(interest).chain(lanes).collect()
    }

    /// What became of a flush.
    pub fn flush_state(&self, id: FlushId) -> FlushState {
        lock(&self.flushes).state(id)
    }

    /// Members that lost for good something that a flush of ours waits for, here or behind routers, and that no flush named before.
    pub fn flush_losers(&self, id: FlushId) -> BTreeSet<NodeId> {
        let lost = self.losers(0, None);
        lock(&self.flushes).losers(id, &lost)
    }

    /// Who lost something of a publisher for good: we, or somebody behind a link of ours but one. 0 stands for ourselves.
    pub(super) fn losers(&self, publisher: u64, except: Option<LinkId>) -> Vec<Loser> {
        let node = self.node();
        let mut named: Vec<Loser> =
            lock(&self.lost).of(publisher).map(|loser| Loser { node, ..loser }).collect();
        let losers = self.chains.losers(publisher);
        let broken = self.broken();
        let routes = self.routes();
        named.extend(losers.into_iter().filter(|(link, _)| Some(*link) != except).filter_map(
            |(link, loser)| match loser.node {
                // All who are behind it are reached another way, and know themselves what they lost.
                OTHER_END if broken.contains(&link) => None,
                OTHER_END => routes.other_end(link).map(|node| Loser { node, ..loser }),
                _ => Some(loser),
            },
        ));
        named
    }

    /// Whether paths between routers changed while a flush waited, so that it confirms nothing yet.
    pub fn flush_is_unsettled(&self, id: FlushId) -> bool {
        lock(&self.flushes).is_unsettled(id)
    }

    /// A node next to us failed. If it was a router, it may not have forwarded what no flush confirmed; unless all behind it are
    /// reached another way, where that is replayed.
    pub(super) fn note_failed(&self, now: Time, link: LinkId, node: NodeId) {
        let router = self.router_of(link, node).filter(|_| !self.broken().contains(&link));
        if let Some(publisher) = router {
            let failed = Failed { at: now, publisher, is_ours: self.has_unconfirmed() };
            lock(&self.flushes).note_failed(node, failed);
        }
    }

    /// Of a router: routers next to it that failed a short time ago, and behind which programs may be that nobody else leads to. They
    /// are missed until they had time to find another way: what is published meanwhile may not reach them.
    pub(super) fn missed(&self) -> Vec<NodeId> {
        let failed = lock(&self.flushes).failed();
        if failed.is_empty() || !self.is_router() {
            return Vec::new();
        }
        let map = &lock(&self.shape).map;
        failed.into_iter().filter(|&(_, router)| map.is_missed(router)).map(|(node, _)| node).collect()
    }

    /// Routers that have not answered yet.
    pub fn flush_awaited(&self, id: FlushId) -> Vec<NodeId> {
        lock(&self.flushes).awaited(id)
    }

    /// Whom those routers wait for, as far as they said: each router, and those behind it.
    pub fn flush_behind(&self, id: FlushId) -> Vec<(NodeId, Vec<NodeId>)> {
        lock(&self.flushes).behind(id)
    }

    /// Forgets a flush.
    pub fn end_flush(&self, id: FlushId) {
        lock(&self.flushes).end(id);
    }
}
