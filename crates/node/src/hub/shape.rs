//! Which links are used: the hub's end of the [`Map`](crate::map).
//!
//! Links say who their neighbours are and carry what everybody says of its links. A link that rests is asked for nothing and is
//! given nothing, and what still comes over it is left aside: whoever drives it has the hub do so in its next turn
//! ([`super::Port::settle`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shoal_norm::{NodeId, Time};
use shoal_wire::{About, Answer, LinkState, Loser, MessageView, Question, Reach};

use super::accept::Key;
use super::chain::LinkId;
use super::flush::{Asker, FlushId, Heard, Router, Saying};
use super::link::{Link, Ring};
use super::outlet::Skipped;
use super::passing::{Chain, Outbound, PassedOn};
use super::{Hub, lock};
use crate::attributes::Origin;
use crate::map::Map;

/// So many are asked with one record.
const ASKED_AT_ONCE_MAX: usize = 128;

/// The map, and what is to be said of it.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) map: Map,
    /// Of whom each link is to be told.
    due: BTreeMap<LinkId, BTreeSet<u64>>,
    /// Routers on links, with their node ids.
    routers: BTreeMap<(LinkId, u64), NodeId>,
    /// Those that are none, over links with a single neighbour.
    leaves: BTreeMap<(LinkId, u64), NodeId>,
    /// Questions and answers that a link is to carry.
    sayings: BTreeMap<LinkId, VecDeque<Vec<u8>>>,
}

impl Shape {
    pub fn new(publisher: u64) -> Shape {
        Shape {
            map: Map::new(0, publisher),
            due: BTreeMap::new(),
            routers: BTreeMap::new(),
            leaves: BTreeMap::new(),
            sayings: BTreeMap::new(),
        }
    }

    /// All routers on a multicast network, as [`Question::routers`] says them.
    fn routers_on(&self, link: LinkId) -> u64 {
        if !self.map.is_shared(link) {
            return 0;
        }
        let others = self.routers.range((link, 0)..=(link, u64::MAX)).map(|((_, publisher), _)| *publisher);
        others.chain(self.map.is_router().then_some(self.map.own())).fold(0, |all, publisher| all ^ publisher)
    }

    fn forget_neighbours(&mut self, link: LinkId) {
        self.routers.retain(|(known, _), _| *known != link);
        self.leaves.retain(|(known, _), _| *known != link);
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

    /// A link is to carry a question or an answer.
    fn say(&mut self, link: LinkId, write: impl FnOnce(&mut Vec<u8>)) {
        let mut record = Vec::new();
        write(&mut record);
        self.sayings.entry(link).or_default().push_back(record);
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
        // Whoever is behind a router may ask for what it lacks.
        let is_asked = shape.map.is_router() || !shape.routers.is_empty() || !resting.is_empty();
        let is_kept_anew = is_asked && self.begin_keeping();
        let broken = shape.map.broken();
        let due: BTreeSet<LinkId> =
            shape.due.iter().filter(|(_, due)| !due.is_empty()).map(|(&link, _)| link).collect();
        drop(shape);
        if is_kept_anew {
            self.change_interest();
        }
        let links: Vec<Arc<Link>> = self.routes().links().cloned().collect();
        let is_turned =
            |link: &&Arc<Link>| link.is_to_rest.load(Ordering::SeqCst) != resting.contains(&link.id);
        if links.iter().any(|link| is_turned(&link)) {
            // First: once a link is active, what is announced there contains all that we want.
            let mut wanted = lock(&self.wanted);
            links.iter().filter(is_turned).for_each(|link| {
                wanted.asked.set_resting(link.id, resting.contains(&link.id));
            });
            self.want(wanted, Ring::Turn);
        }
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
        if !(turned.is_empty() && broken.is_empty()) {
            let mut flushes = lock(&self.flushes);
            let begins = |link: &&&Arc<Link>| link.is_resting() && !resting.contains(&link.id);
            turned.iter().filter(begins).for_each(|link| flushes.await_link(link.id));
            turned
                .iter()
                .filter(|link| resting.contains(&link.id))
                .for_each(|link| flushes.note_resting(link.id));
            broken.iter().for_each(|&link| flushes.give_up(link));
            drop(flushes);
            self.say();
            self.wake.wake();
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

    /// Plans and routes made before do not count any more. Called while the lanes are locked, so that no message is published or
    /// forwarded past a link that was just activated: that link would skip it as unwanted.
    fn outdate_plans(&self) {
        self.interest_version.fetch_add(1, Ordering::SeqCst);
    }

    /// Puts what came over a link into the buffers of others, by what is wanted at the moment when it goes there.
    pub(super) fn forward(
        &self,
        now: Time,
        (lane, from): (usize, LinkId),
        outbound: &Outbound,
        bytes: &[u8],
    ) -> PassedOn {
        // What has no interest is not in it: it was decided in the same version.
        let is_sure = |link, skipped: &Skipped| {
            outbound.version >= skipped.interest && lock(&self.accept).is_decided(link, skipped)
        };
        let reroute = |chain: &Chain, (number, timestamp_us), record: &[u8]| {
            if outbound.version == self.interest_version() {
                return None;
            }
            let view = MessageView::parse(record).ok()?;
            let &Chain { publisher, chain, again, .. } = chain;
            let origin = Origin { publisher, chain, number, timestamp_us, ..Origin::default() };
            let mut links = Vec::new();
            self.routes().route_on(&view, &origin, (from, again), |_| (), &mut links, &mut Vec::new());
            Some(links)
        };
        self.chains.pass_on(now, (lane, from), outbound, bytes, reroute, &is_sure)
    }

    /// Gives a link that rested what is published and passed on from now on.
    ///
    /// How far chains are is told first, so that flushes wait until those behind it know what they lack. False if that is to be told
    /// once more, because messages are being delivered.
    pub(super) fn take_up(&self, now: Time, link: &Link, is_asked: bool) -> bool {
        let begin = || {
            link.rests.store(false, Ordering::SeqCst);
            self.outdate_plans();
        };
        self.chains.hold_still(begin);
        lock(&self.owed).forget(link.id);
        link.interest.store(self.interest_version(), Ordering::SeqCst);
        self.chains.activate(link.id, link.interest.load(Ordering::SeqCst));
        let is_told = !is_asked || !self.is_router() || self.tell_passed(now, link, None).is_empty();
        let (appended, routers) = (self.chains.appended(link.id), self.routers(None));
        let routers: Vec<_> = routers.into_iter().filter(|((of, _), _)| *of == link.id).collect();
        if self.broken().contains(&link.id) {
            // Nobody is there.
            lock(&self.flushes).give_up(link.id);
        } else {
            lock(&self.flushes).take_up(link.id, &appended, &routers);
        }
        self.say();
        self.change_interest();
        link.bell.ring(Ring::Turn);
        is_told
    }

    /// Of a router: tells those behind a link how far the chains are that are passed on; all of them, or these. Whoever was served by
    /// another router before learns thereby what it lacks, though nothing more may be published. Returns those of which more
    /// is being delivered just now: they are to be told a little later.
    pub(super) fn tell_passed(&self, now: Time, link: &Link, only: Option<&[Key]>) -> Vec<Key> {
        let positions = lock(&self.accept).positions(now, link.id);
        let is_meant = |key: &Key| only.is_none_or(|only| only.contains(key));
        let (busy, still): (Vec<_>, Vec<_>) =
            positions.into_iter().filter(|(key, ..)| is_meant(key)).partition(|&(.., is_busy)| is_busy);
        let still: Vec<(Key, u64)> = still.into_iter().map(|(key, next, _)| (key, next)).collect();
        self.chains.tell_passed(link.id, &still, false, &|link, skipped| self.is_decided(link, skipped));
        if !still.is_empty() {
            lock(&self.flushes).note_told(link.id);
        }
        link.bell.ring(Ring::Turn);
        busy.into_iter().map(|(key, ..)| key).collect()
    }

    /// Whether numbers that a link does not get were skipped under an interest that contains what its members want.
    pub(super) fn is_decided(&self, link: LinkId, skipped: &Skipped) -> bool {
        lock(&self.accept).is_decided(link, skipped)
    }

    /// A member of a link announced something else: who publishes there, and the version. Skips are decided under it from here on.
    pub(super) fn apply(&self, now: Time, link: &Link, node: NodeId, announced: (u64, u64), asks_more: bool) {
        if asks_more && self.is_router() && !link.is_resting() {
            // What it was not given so far was decided before.
            let positions = lock(&self.accept).positions(now, link.id);
            let positions: Vec<(Key, u64)> =
                positions.into_iter().map(|(key, next, _)| (key, next)).collect();
            self.chains
                .tell_passed(link.id, &positions, true, &|link, skipped| self.is_decided(link, skipped));
        }
        let interest = asks_more.then(|| link.interest.load(Ordering::SeqCst));
        self.chains.apply(link, node, announced, interest);
    }

    /// The network as far as known: everybody who has several links or is a router, and where its links lead.
    pub fn network(&self) -> Vec<(u64, bool, Vec<Reach>)> {
        lock(&self.shape).map.network()
    }

    /// Links that rest, because others lead to the same nodes.
    pub fn resting(&self) -> Vec<LinkId> {
        self.routes().links().filter(|link| link.is_resting()).map(|link| link.id).collect()
    }

    /// Links that are broken, and are not waited for because others lead to the same nodes, or nobody is there.
    pub(super) fn broken(&self) -> BTreeSet<LinkId> {
        lock(&self.shape).map.broken()
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
            shape.forget_neighbours(link);
            shape.map.shut(link)
        });
    }

    pub(super) fn map_neighbours(
        &self,
        link: LinkId,
        domain: u64,
        neighbours: BTreeMap<u64, (NodeId, bool)>,
    ) {
        lock(&self.flushes).keep_routers(link, |router| neighbours.contains_key(&router));
        let programs = neighbours.values().filter(|(_, is_router)| !is_router).map(|&(node, _)| node);
        self.routes().set_programs(link, programs.collect());
        self.change_shape(|shape| {
            shape.map.set_domain(domain);
            shape.forget_neighbours(link);
            for (&publisher, &(node, is_router)) in &neighbours {
                if is_router {
                    shape.routers.insert((link, publisher), node);
                } else {
                    shape.leaves.insert((link, publisher), node);
                }
            }
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

    pub(super) fn map_costs(&self, link: LinkId, cost: Option<NonZeroU32>) {
        self.change_shape(|shape| shape.map.set_cost(link, cost));
    }

    /// Our own programs want something, beside reserved topics; or nothing more.
    pub(super) fn map_reads(&self) {
        self.change_shape(|shape| {
            let is_reader = !lock(&self.wanted).readers.is_empty();
            shape.map.set_reader(is_reader)
        });
    }

    pub(super) fn map_suspects(&self, link: LinkId, is_suspected: bool) {
        self.change_shape(|shape| shape.map.set_suspected(link, is_suspected));
    }

    /// Routers next to us over links that are used, but one, and their node ids.
    pub(super) fn routers(&self, except: Option<LinkId>) -> Vec<(Router, NodeId)> {
        self.neighbours(except, |shape| &shape.routers)
    }

    /// Those next to us that are no routers, over links that are used, but one, and have something to say.
    ///
    /// Of what others want by now, whoever is alone on its link. Of messages, those that got them from one router before and get
    /// them from another now, and know alone what they lost meanwhile: whoever is behind a router, or has several links.
    pub(super) fn leaves(
        &self,
        about: About,
        except: Option<LinkId>,
        is_asked: bool,
    ) -> Vec<(Router, NodeId)> {
        if is_asked && !self.is_router() {
            return Vec::new();
        }
        let mut leaves = self.neighbours(except, |shape| &shape.leaves);
        let map = &lock(&self.shape).map;
        leaves.retain(|((link, publisher), _)| match about {
            About::Interest => !map.is_shared(*link),
            About::Messages => is_asked || map.knows(*publisher),
        });
        leaves
    }

    fn neighbours(
        &self,
        except: Option<LinkId>,
        which: impl Fn(&Shape) -> &BTreeMap<Router, NodeId>,
    ) -> Vec<(Router, NodeId)> {
        let resting = self.resting();
        let shape = lock(&self.shape);
        let broken = shape.map.broken();
        let is_used =
            |link: LinkId| Some(link) != except && !resting.contains(&link) && !broken.contains(&link);
        let used = which(&shape).iter().filter(|((link, _), _)| is_used(*link));
        used.map(|(&neighbour, &node)| (neighbour, node)).collect()
    }

    /// The routers beside this node, over links that are in use.
    pub fn neighbouring_routers(&self) -> BTreeSet<NodeId> {
        self.routers(None).into_iter().map(|(_, node)| node).collect()
    }

    /// Whether a node on a link is a router.
    pub(super) fn has_router(&self, link: LinkId, node: NodeId) -> bool {
        self.router_of(link, node).is_some()
    }

    /// The publisher of a node on a link, if it is a router.
    pub(super) fn router_of(&self, link: LinkId, node: NodeId) -> Option<u64> {
        let shape = lock(&self.shape);
        let mut on_link = shape.routers.range((link, 0)..=(link, u64::MAX));
        on_link.find(|(_, known)| **known == node).map(|((_, publisher), _)| *publisher)
    }

    /// Whether a node is on a link, as far as known.
    pub(super) fn is_neighbour(&self, link: LinkId, publisher: u64) -> bool {
        let shape = lock(&self.shape);
        let node = shape.routers.get(&(link, publisher)).or(shape.leaves.get(&(link, publisher))).copied();
        drop(shape);
        node.is_some_and(|node| self.routes().has_member(link, node))
    }

    /// Whether a router is on a link.
    pub(super) fn has_routers(&self, link: LinkId) -> bool {
        lock(&self.shape).routers.range((link, 0)..=(link, u64::MAX)).next().is_some()
    }

    /// Has links carry the questions and answers that are due.
    pub(super) fn say(&self) {
        self.restart_flushes();
        let over = lock(&self.flushes).over();
        let lost = |(id, origin, link): (_, (u64, u64), _)| (id, self.losers(origin.0, Some(link)));
        let lost: BTreeMap<FlushId, Vec<Loser>> = over.into_iter().map(lost).collect();
        let missed = if lost.is_empty() { Vec::new() } else { self.missed() };
        let said = lock(&self.flushes).poll(&lost, &missed);
        if said.is_empty() {
            return;
        }
        let from = self.publisher;
        let mut links = BTreeSet::new();
        let mut questions: BTreeMap<(LinkId, u64), Vec<Question>> = BTreeMap::new();
        let mut shape = lock(&self.shape);
        for ((link, publisher), saying) in said {
            links.insert(link);
            match saying {
                Saying::Ask(number, about, origin) => {
                    let origin = origin.unwrap_or((from, number));
                    let asked = questions.entry((link, number)).or_default();
                    match asked.last_mut().filter(|question| question.to.len() < ASKED_AT_ONCE_MAX) {
                        Some(question) => question.to.push(publisher),
                        None => {
                            let (to, routers) = (vec![publisher], shape.routers_on(link));
                            asked.push(Question { from, number, about, to, origin, routers });
                        }
                    }
                }
                Saying::Answer(number, silent, is_stale, losers) => {
                    let answer =
                        Answer { from, to: publisher, number, is_pending: false, silent, is_stale, losers };
                    shape.say(link, |record| answer.write(record));
                }
            }
        }
        for ((link, _), asked) in questions {
            asked.iter().for_each(|question| shape.say(link, |record| question.write(record)));
        }
        drop(shape);
        let links: Vec<Arc<Link>> =
            self.routes().links().filter(|link| links.contains(&link.id)).cloned().collect();
        for link in links {
            link.has_news.store(true, Ordering::SeqCst);
            link.bell.ring(Ring::Turn);
        }
    }

    /// Has a link carry a record.
    pub(super) fn say_on(&self, link: &Link, write: impl FnOnce(&mut Vec<u8>)) {
        lock(&self.shape).say(link.id, write);
        link.has_news.store(true, Ordering::SeqCst);
        link.bell.ring(Ring::Turn);
    }

    /// Whether whoever asks us knows other routers on a multicast network than we do: one of us has not noticed yet that one came or went,
    /// and nobody may be asking those behind it.
    pub(super) fn disagrees(&self, link: LinkId, question: &Question) -> bool {
        question.about == About::Messages
            && question.to.contains(&self.publisher)
            && self.is_router()
            && lock(&self.shape).routers_on(link) != question.routers
    }

    /// A question to which the answer is that whoever asked at first should ask again.
    pub(super) fn hear_stale(&self, link: LinkId, question: &Question) {
        let Question { from, number, about, origin, .. } = *question;
        lock(&self.flushes).begin_stale(about, Asker { router: (link, from), number, origin });
        self.say();
    }

    /// Somebody next to us asks, or answers.
    pub(super) fn hear_question(&self, link: LinkId, question: &Question) {
        if !question.to.contains(&self.publisher) {
            return;
        }
        let Question { from, number, about, origin, .. } = *question;
        let asker = Asker { router: (link, from), number, origin };
        let is_resting = self.resting().contains(&link);
        let is_shared = lock(&self.shape).map.is_shared(link);
        let is_end = about == About::Messages && !self.is_router();
        let mut flushes = lock(&self.flushes);
        match flushes.find(&asker) {
            Heard::Again => {
                drop(flushes);
                self.say_awaited(&asker);
            }
            // Nobody is behind us.
            _ if is_end => {
                flushes.begin(about, [], [], Some(asker));
                drop(flushes);
                self.say();
            }
            // Nothing that comes over a link that rests goes on. If both of us should know whether it does, one of us does not yet.
            Heard::New if is_resting && !is_shared => {
                flushes.begin_stale(about, asker);
                drop(flushes);
                self.say();
            }
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

    /// Whoever asks again learns whom we wait for.
    fn say_awaited(&self, asker: &Asker) {
        let links: Vec<Arc<Link>> = self.routes().links().cloned().collect();
        let alone = links.iter().filter(|link| !link.is_shared());
        let alone = alone.filter_map(|link| Some((link.id, self.routes().other_end(link.id)?))).collect();
        let silent = lock(&self.flushes).awaited_for(asker, &alone);
        let Some(link) = links.iter().find(|link| link.id == asker.router.0 && !silent.is_empty()) else {
            return;
        };
        let (from, to, number) = (self.publisher, asker.router.1, asker.number);
        let answer =
            Answer { from, to, number, is_pending: true, silent, is_stale: false, losers: Vec::new() };
        lock(&self.shape).say(link.id, |record| answer.write(record));
        link.has_news.store(true, Ordering::SeqCst);
        link.bell.ring(Ring::Turn);
    }

    /// Others brought something over a link that rests: whoever waited for that and nothing more is answered.
    pub(super) fn note_brought(&self, link: &Link) {
        let mut flushes = lock(&self.flushes);
        // One that is about to be taken up is waited for, whatever others brought.
        if flushes.is_awaiting(link.id) && link.is_to_rest.load(Ordering::SeqCst) {
            flushes.note_brought(link.id, |publisher| lock(&self.owed).is_lacking(link.id, publisher));
            drop(flushes);
            self.say();
        }
    }

    /// Whether routers on a link were asked and have not answered, or are to be asked once more.
    pub(super) fn is_asking(&self, now: Time, link: LinkId) -> bool {
        let mut flushes = lock(&self.flushes);
        flushes.forget_failed(now);
        flushes.is_asking(link)
    }

    /// Asks routers on a link again that have not answered.
    pub(super) fn ask_again(&self, link: LinkId) {
        lock(&self.flushes).ask_again(link);
        self.say();
    }

    pub(super) fn hear_answer(&self, link: LinkId, answer: &Answer) {
        if answer.to == self.publisher {
            lock(&self.flushes).hear((link, answer.from), answer);
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
        // Whom a question reaches knows what whoever asked knew of the ways.
        while let Some(publisher) = shape.due.get_mut(&link.id).and_then(BTreeSet::pop_first) {
            if let Some(record) = shape.map.record(publisher) {
                return Some(record);
            }
        }
        if let Some(record) = shape.sayings.get_mut(&link.id).and_then(VecDeque::pop_front) {
            return Some(record);
        }
        link.has_news.store(false, Ordering::SeqCst);
        None
    }
}
