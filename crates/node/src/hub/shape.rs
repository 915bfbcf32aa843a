//! Which links are used: the hub's end of the [`Map`](crate::map).
//!
//! Links say who their neighbours are and carry what everybody says of its links. A link that rests is asked for nothing and is
//! given nothing, and what still comes over it is left aside: whoever drives it has the hub do so in its next turn
//! ([`super::Port::settle`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shoal_norm::{NodeId, Time};
use shoal_wire::{Answer, LinkState, MessageView, Question, Reach};

use super::chain::LinkId;
use super::flush::{Asker, Heard, Router, Saying};
use super::link::{Link, Ring};
use super::routes::InterestId;
use super::{Hub, lock};
use crate::map::Map;
use crate::switch::{Interest, Scope, Switch};

/// The map, and what is to be said of it.
#[derive(Debug)]
pub(super) struct Shape {
    map: Map,
    /// Of whom each link is to be told.
    due: BTreeMap<LinkId, BTreeSet<u64>>,
    /// Routers on links, with their node ids.
    routers: BTreeMap<(LinkId, u64), NodeId>,
    /// Questions and answers that a link is to carry.
    sayings: BTreeMap<LinkId, VecDeque<Vec<u8>>>,
}

impl Shape {
    pub fn new(publisher: u64) -> Shape {
        Shape {
            map: Map::new(0, publisher),
            due: BTreeMap::new(),
            routers: BTreeMap::new(),
            sayings: BTreeMap::new(),
        }
    }

    /// A link is to be told of everybody.
    fn tell_all(&mut self, link: LinkId) {
        let known: Vec<u64> = self.map.known().collect();
        if self.map.takes_part()
            && let Some(due) = self.due.get_mut(&link)
        {
            due.extend(known);
        }
    }

    /// All links but one are to be told of somebody.
    fn tell_of(&mut self, publisher: u64, except: Option<LinkId>) {
        if self.map.takes_part() {
            for (_, due) in self.due.iter_mut().filter(|(link, _)| Some(**link) != except) {
                due.insert(publisher);
            }
        }
    }
}

impl Hub {
    /// Changes the map, and has everybody act on it whom that concerns.
    pub(super) fn change_shape(&self, change: impl FnOnce(&mut Shape) -> bool) {
        let mut shape = lock(&self.shape);
        let took_part = shape.map.takes_part();
        if change(&mut shape) {
            shape.tell_of(self.publisher, None);
        }
        if shape.map.takes_part() && !took_part {
            let links: Vec<LinkId> = shape.due.keys().copied().collect();
            links.into_iter().for_each(|link| shape.tell_all(link));
        }
        let resting = shape.map.resting();
        let has_ways = shape.map.has_other_routers() || !resting.is_empty();
        let is_kept_anew = has_ways && self.chains.begin_keeping();
        let due: Vec<LinkId> =
            shape.due.iter().filter(|(_, due)| !due.is_empty()).map(|(&link, _)| link).collect();
        drop(shape);
        if is_kept_anew {
            self.change_interest();
        }
        let links: Vec<Arc<Link>> = self.routes().links().cloned().collect();
        let turned: Vec<&Arc<Link>> = links
            .iter()
            .filter(|link| {
                let rests = resting.contains(&link.id);
                let is_turned = link.is_to_rest.swap(rests, Ordering::SeqCst) != rests;
                if rests {
                    // It is taken up in its next turn.
                    link.rests.store(true, Ordering::SeqCst);
                }
                is_turned
            })
            .collect();
        if !turned.is_empty() {
            let mut wanted = lock(&self.wanted);
            let is_to_rest = |link: &Link| link.is_to_rest.load(Ordering::SeqCst);
            turned.iter().for_each(|link| wanted.asked.set_resting(link.id, is_to_rest(link)));
            self.want(wanted, Ring::Turn);
        }
        for link in links.iter().filter(|link| due.contains(&link.id)) {
            link.has_news.store(true, Ordering::SeqCst);
        }
        for link in
            links.iter().filter(|link| due.contains(&link.id) || turned.iter().any(|one| one.id == link.id))
        {
            link.bell.ring(Ring::Turn);
        }
    }

    /// Gives a link that rested what is published and passed on from now on, and first what may have been on a way that broke.
    pub(super) fn take_up(&self, now: Time, link: &Link) {
        let begin = || link.rests.store(false, Ordering::SeqCst);
        self.chains.repeat(now, (link.id, self.publisher), begin, |kept| {
            let view = MessageView::parse(kept.record);
            view.is_ok_and(|view| self.routes().is_wanted_on(&view, &kept.origin(), link.id))
        });
        link.is_fresh.store(true, Ordering::SeqCst);
        self.change_interest();
        link.bell.ring(Ring::Turn);
    }

    /// A member behind a link that was taken up wants something else now: what may have been on a way that broke comes first.
    pub(super) fn change_fresh_interest(
        &self,
        now: Time,
        link: &Link,
        node: NodeId,
        added: Vec<(InterestId, Interest)>,
        removed: &[InterestId],
    ) {
        let mut asked = Switch::new(0);
        for (id, interest) in &added {
            asked.insert(*id, interest.clone(), Scope::Elsewhere);
        }
        let change = || self.routes().change_interest(link.id, node, added, removed);
        self.chains.repeat(now, (link.id, self.publisher), change, |kept| {
            let view = MessageView::parse(kept.record);
            let mut wanted = |view: &MessageView<'_>| {
                asked.route(view, &kept.origin(), Scope::Elsewhere).is_ok_and(|to| !to.is_empty())
            };
            view.is_ok_and(|view| wanted(&view))
        });
        link.bell.ring(Ring::Turn);
    }

    /// The network as far as known: everybody who has several links or is a router, and where its links lead.
    pub fn network(&self) -> Vec<(u64, bool, Vec<Reach>)> {
        lock(&self.shape).map.network()
    }

    /// Links that rest, because others lead to the same nodes.
    pub fn resting(&self) -> Vec<LinkId> {
        self.routes().links().filter(|link| link.is_resting()).map(|link| link.id).collect()
    }

    pub(super) fn map_routes(&self) {
        self.change_shape(|shape| shape.map.set_router());
    }

    pub(super) fn map_opens(&self, link: LinkId, is_shared: bool) {
        self.change_shape(|shape| {
            shape.due.insert(link, BTreeSet::new());
            shape.tell_all(link);
            shape.map.open(link, is_shared)
        });
    }

    pub(super) fn map_shuts(&self, link: LinkId) {
        self.change_shape(|shape| {
            shape.due.remove(&link);
            shape.sayings.remove(&link);
            shape.routers.retain(|(known, _), _| *known != link);
            shape.map.shut(link)
        });
    }

    pub(super) fn map_neighbours(
        &self,
        link: LinkId,
        domain: u64,
        neighbours: BTreeMap<u64, (NodeId, bool)>,
    ) {
        lock(&self.flushes)
            .keep_routers(link, |router| neighbours.get(&router).is_some_and(|(_, router)| *router));
        self.change_shape(|shape| {
            shape.map.set_domain(domain);
            shape.routers.retain(|(known, _), _| *known != link);
            let routers = neighbours.iter().filter(|(_, (_, is_router))| *is_router);
            shape.routers.extend(routers.map(|(&publisher, &(node, _))| ((link, publisher), node)));
            let neighbours =
                neighbours.into_iter().map(|(publisher, (_, router))| (publisher, router)).collect();
            let met = shape.map.meets_router(link, &neighbours);
            let changed = shape.map.set_neighbours(link, neighbours);
            if met {
                shape.tell_all(link);
            }
            changed
        });
        self.say();
        self.wake.wake();
    }

    pub(super) fn map_suspects(&self, link: LinkId, is_suspected: bool) {
        self.change_shape(|shape| shape.map.set_suspected(link, is_suspected));
    }

    /// Routers next to us over links that are used, but one, and their node ids.
    pub(super) fn routers(&self, except: Option<LinkId>) -> Vec<(Router, NodeId)> {
        let resting = self.resting();
        let is_used = |link: LinkId| Some(link) != except && !resting.contains(&link);
        let shape = lock(&self.shape);
        shape
            .routers
            .iter()
            .filter(|((link, _), _)| is_used(*link))
            .map(|(&router, &node)| (router, node))
            .collect()
    }

    /// The routers beside this node, over links that are in use.
    pub fn neighbouring_routers(&self) -> BTreeSet<NodeId> {
        self.routers(None).into_iter().map(|(_, node)| node).collect()
    }

    /// Whether a node on a link is a router.
    pub(super) fn has_router(&self, link: LinkId, node: NodeId) -> bool {
        let shape = lock(&self.shape);
        shape.routers.range((link, 0)..=(link, u64::MAX)).any(|(_, known)| *known == node)
    }

    /// Has links carry the questions and answers that are due.
    pub(super) fn say(&self) {
        let said = lock(&self.flushes).poll();
        if said.is_empty() {
            return;
        }
        let mut links = BTreeSet::new();
        let mut shape = lock(&self.shape);
        for ((link, publisher), saying) in said {
            let mut record = Vec::new();
            match saying {
                Saying::Ask(number, about, origin) => {
                    let (from, to) = (self.publisher, vec![publisher]);
                    let origin = origin.unwrap_or((from, number));
                    Question { from, number, about, to, origin }.write(&mut record);
                }
                Saying::Answer(number, silent) => {
                    Answer { from: self.publisher, to: publisher, number, silent }.write(&mut record);
                }
            }
            shape.sayings.entry(link).or_default().push_back(record);
            links.insert(link);
        }
        drop(shape);
        let links: Vec<Arc<Link>> =
            self.routes().links().filter(|link| links.contains(&link.id)).cloned().collect();
        for link in links {
            link.has_news.store(true, Ordering::SeqCst);
            link.bell.ring(Ring::Turn);
        }
    }

    /// Somebody next to us asks, or answers.
    pub(super) fn hear_question(&self, link: LinkId, question: &Question) {
        if !question.to.contains(&self.publisher) {
            return;
        }
        let Question { from, number, about, origin, .. } = *question;
        let asker = Asker { router: (link, from), number, origin };
        let is_resting = self.resting().contains(&link);
        let mut flushes = lock(&self.flushes);
        match flushes.find(&asker) {
            Heard::Again => {}
            // Nothing that comes over a link that rests goes on.
            heard if is_resting || heard == Heard::Elsewhere || origin.0 == self.publisher => {
                flushes.begin(about, [], [], Some(asker));
                drop(flushes);
                self.say();
            }
            _ => {
                drop(flushes);
                self.begin_wait(about, Some(link), Some(asker));
            }
        }
    }

    /// Whether routers on a link were asked and have not answered.
    pub(super) fn is_asking(&self, link: LinkId) -> bool {
        lock(&self.flushes).is_asking(link)
    }

    /// Asks routers on a link again that have not answered.
    pub(super) fn ask_again(&self, link: LinkId) {
        lock(&self.flushes).ask_again(link);
        self.say();
    }

    pub(super) fn hear_answer(&self, link: LinkId, answer: &Answer) {
        if answer.to == self.publisher {
            lock(&self.flushes).hear(answer.number, (link, answer.from), &answer.silent);
            self.say();
            self.wake.wake();
        }
    }

    /// Somebody next to us says where links lead, its own or others'.
    pub(super) fn map_hears(&self, link: LinkId, state: LinkState) {
        let publisher = state.publisher;
        self.change_shape(|shape| {
            let is_met = !shape.map.knows(publisher) && shape.map.is_next_to(link, publisher);
            let Some(changed) = shape.map.handle(state) else { return false };
            if shape.map.is_router() {
                shape.tell_of(publisher, Some(link));
            }
            if is_met {
                shape.tell_all(link);
            }
            changed
        });
    }

    pub(super) fn map_tells(&self, link: &Link) {
        lock(&self.shape).tell_all(link.id);
        link.has_news.store(true, Ordering::SeqCst);
    }

    /// The next record that a link is to carry.
    pub(super) fn map_record(&self, link: &Link) -> Option<Vec<u8>> {
        if !link.has_news.load(Ordering::SeqCst) {
            return None;
        }
        let mut shape = lock(&self.shape);
        if let Some(record) = shape.sayings.get_mut(&link.id).and_then(VecDeque::pop_front) {
            return Some(record);
        }
        while let Some(publisher) = shape.due.get_mut(&link.id).and_then(BTreeSet::pop_first) {
            if let Some(record) = shape.map.record(publisher) {
                return Some(record);
            }
        }
        link.has_news.store(false, Ordering::SeqCst);
        None
    }
}
