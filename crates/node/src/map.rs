//! The network's shape: who is joined to whom, and which links are used.
//!
//! Everybody who has several links says where they lead ([`LinkState`]); routers pass that on. All of them make the same tree
//! of it. Only links of the tree are used: there is one way between any two nodes, nothing comes twice, and nothing goes round.
//! A link that is not used *rests*, until the tree changes.
//!
//! | rule                                                                                                 |
//! |------------------------------------------------------------------------------------------------------|
//! | two nodes are joined if each says that it hears the other                                            |
//! | the root is the router with the smallest id, which is the oldest; every router has the cheapest way to it                 |
//! | a step costs what somebody said at either end of the link, the more of both; otherwise 1 on a shared link and 2 on another |
//! | of equally cheap ways the one over a shared link counts, and then the one to the smaller id          |
//! | of the routers on a shared link, as multicast is, the one next to the root serves it; of those equally far, the smaller |
//! | a node that is no router uses one of its links that lead to the same routers: a shared one, the cheapest, or the one next to the root |
//! | a link behind which no router is, is used, unless its neighbour is heard on a shared link, too       |
//! | a link that is broken, and may be mended, is used only if there is no other way                      |
//! | a router behind a broken link that serves nobody, and all of whose neighbours are reached another way, is not waited for |

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::num::NonZeroU32;

use shoal_wire::{LinkState, Reach};

use crate::hub::LinkId;

/// Nodes that are remembered; of others nothing is known, and links to them are used.
const NODES_MAX: usize = 4096;
/// Neighbours that a node says, or is believed, to hear, on all its links together; of more, nobody is told.
const NEIGHBOURS_MAX: usize = 1024;
/// False states of itself that a node contradicts: two nodes that have one id, as after a copy of a machine, must not do so for ever.
const CONTRADICTIONS_MAX: u32 = 1024;
/// Which of its links a node without a tree of its own prefers: shared ones, then what the step costs, what the way behind it
/// costs, and who is there.
type LinkOrder = (bool, u64, u64, u64);

/// What a step over a shared link costs, and over one that has a single neighbour, if nobody said otherwise.
const SHARED_COST: u64 = 1;
const SINGLE_COST: u64 = 2;

/// One of our own links.
#[derive(Debug, Default)]
struct Own {
    is_shared: bool,
    /// Who is there, and whether it is a router.
    neighbours: BTreeMap<u64, bool>,
    /// It is broken, and may be mended.
    is_suspected: bool,
    /// What it costs, if somebody said so.
    cost: Option<NonZeroU32>,
}

/// What a node said last of itself.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    version: u64,
    is_router: bool,
    serves: bool,
    links: Vec<Reach>,
}

/// A way to the root.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Way {
    root: u64,
    cost: u64,
    /// The next node, and whether over a shared link; none at the root.
    parent: Option<(bool, u64)>,
}

/// The map.
#[derive(Debug)]
pub struct Map {
    domain: u64,
    own: u64,
    is_router: bool,
    links: BTreeMap<LinkId, Own>,
    /// Others.
    nodes: BTreeMap<u64, Known>,
    version: u64,
    /// How often we contradicted a false state of ourselves.
    contradictions: u32,
    /// Our own programs want something.
    is_reader: bool,
    /// We have several links, or had: others know of them, and have to hear that they are gone.
    had_several: bool,
}

impl Map {
    /// One of a node that knows nobody.
    pub fn new(domain: u64, own: u64) -> Map {
        Map {
            domain,
            own,
            is_router: false,
            links: BTreeMap::new(),
            nodes: BTreeMap::new(),
            version: 0,
            contradictions: 0,
            is_reader: false,
            had_several: false,
        }
    }

    // --- getters ---

    /// Whether we have a say in which links are used.
    pub fn takes_part(&self) -> bool {
        self.is_router || self.had_several
    }

    /// Who we are.
    pub fn own(&self) -> u64 {
        self.own
    }

    /// Whether we pass on what comes over one link to others.
    pub fn is_router(&self) -> bool {
        self.is_router
    }

    /// Our links that are broken, and may be mended.
    pub fn suspected(&self) -> impl Iterator<Item = LinkId> {
        self.links.iter().filter(|(_, link)| link.is_suspected).map(|(&id, _)| id)
    }

    /// Whether somebody said where its links lead.
    pub fn knows(&self, publisher: u64) -> bool {
        self.nodes.contains_key(&publisher)
    }

    /// Whether somebody is on a link of ours.
    pub fn is_next_to(&self, link: LinkId, publisher: u64) -> bool {
        self.links.get(&link).is_some_and(|link| link.neighbours.contains_key(&publisher))
    }

    /// Whether there is a router among these that was not on a link before.
    pub fn meets_router(&self, link: LinkId, neighbours: &BTreeMap<u64, bool>) -> bool {
        let was_there =
            |node: &u64| self.links.get(&link).is_some_and(|link| link.neighbours.get(node) == Some(&true));
        neighbours.iter().any(|(node, is_router)| *is_router && !was_there(node))
    }

    /// Everybody of whom something is known.
    pub fn known(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.keys().copied().chain(self.takes_part().then_some(self.own))
    }

    /// What is to be said of a node, ourselves included.
    pub fn record(&self, publisher: u64) -> Option<Vec<u8>> {
        let state = if publisher == self.own {
            self.told_state()
        } else {
            let known = self.nodes.get(&publisher)?;
            let Known { version, is_router, serves, links } = known;
            LinkState {
                domain: self.domain,
                publisher,
                version: *version,
                is_router: *is_router,
                serves: *serves,
                links: links.clone(),
            }
        };
        let mut record = Vec::new();
        state.write(&mut record);
        Some(record)
    }

    /// What others hear of us. Who leads nowhere else is nobody's business.
    fn told_state(&self) -> LinkState {
        let mut state = self.own_state();
        state.links.retain(is_worth_telling);
        state
    }

    fn own_state(&self) -> LinkState {
        let has_say = |(publisher, is_router): (&u64, &bool)| {
            (*is_router || self.nodes.contains_key(publisher)).then_some(*publisher)
        };
        let has_programs = |link: &Own| link.neighbours.iter().any(|neighbour| has_say(neighbour).is_none());
        let reach = |link: &Own| Reach {
            is_shared: link.is_shared,
            cost: link.cost,
            has_programs: link.is_shared && has_programs(link),
            neighbours: link.neighbours.iter().filter(|_| !link.is_suspected).filter_map(has_say).collect(),
        };
        let mut links: Vec<Reach> = self.links.values().map(reach).collect();
        bound(&mut links);
        let serves = self.links.values().any(|link| !link.is_shared && has_programs(link));
        LinkState {
            serves: self.is_reader || serves,
            domain: self.domain,
            publisher: self.own,
            version: self.version,
            is_router: self.is_router,
            links,
        }
    }

    /// The network as far as known: everybody who has a say, whether it is a router, and where its links lead.
    pub fn network(&self) -> Vec<(u64, bool, Vec<Reach>)> {
        let nodes = self.nodes.iter().map(|(&node, known)| (node, known.is_router, known.links.clone()));
        let own = (self.own, self.is_router, self.own_state().links);
        nodes.chain([own]).collect()
    }

    // --- commands: each is true if what we say of ourselves changed ---

    /// We pass on what comes over one link to others.
    pub fn set_router(&mut self) -> bool {
        self.change(|map| map.is_router = true)
    }

    /// The domain's number.
    pub fn set_domain(&mut self, domain: u64) {
        self.domain = domain;
    }

    /// Whether several nodes are on a link.
    pub fn is_shared(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link| link.is_shared)
    }

    /// A link begins.
    pub fn open(&mut self, link: LinkId, is_shared: bool) -> bool {
        self.change(|map| {
            map.links.insert(link, Own { is_shared, ..Own::default() });
            map.had_several |= map.links.len() > 1;
        })
    }

    /// A link is gone.
    pub fn shut(&mut self, link: LinkId) -> bool {
        self.change(|map| {
            map.links.remove(&link);
        })
    }

    /// What a step over a link costs; `None` if it costs as usual.
    pub fn set_cost(&mut self, link: LinkId, cost: Option<NonZeroU32>) -> bool {
        self.change(|map| {
            if let Some(own) = map.links.get_mut(&link) {
                own.cost = cost;
            }
        })
    }

    /// Whether our own programs want something.
    pub fn set_reader(&mut self, is_reader: bool) -> bool {
        self.change(|map| map.is_reader = is_reader)
    }

    /// Who is on a link now, and whether each is a router.
    pub fn set_neighbours(&mut self, link: LinkId, neighbours: BTreeMap<u64, bool>) -> bool {
        self.change(|map| {
            if let Some(own) = map.links.get_mut(&link) {
                own.neighbours = neighbours;
            }
        })
    }

    /// A link is broken and may be mended; or it is mended.
    pub fn set_suspected(&mut self, link: LinkId, is_suspected: bool) -> bool {
        self.change(|map| {
            if let Some(own) = map.links.get_mut(&link) {
                own.is_suspected = is_suspected;
            }
        })
    }

    fn change(&mut self, change: impl FnOnce(&mut Map)) -> bool {
        let before = self.told_state();
        change(self);
        let after = self.told_state();
        let changed = after != before;
        self.version += u64::from(changed);
        changed
    }

    /// What somebody says of itself, or of another one. `Some` if it is new: whether what we say of ourselves changed, too.
    pub fn handle(&mut self, state: LinkState) -> Option<bool> {
        if state.publisher == self.own {
            return self.contradict(&state).then_some(true);
        }
        let LinkState { domain, publisher, version, is_router, serves, mut links } = state;
        bound(&mut links);
        links.retain(is_worth_telling);
        let is_old = self.nodes.get(&publisher).is_some_and(|known| known.version >= version);
        let is_strange = !self.nodes.contains_key(&publisher) && self.nodes.len() >= NODES_MAX;
        if domain != self.domain || is_old || is_strange {
            return None;
        }
        let known = Known { version, is_router, serves, links };
        let changed = self.change(|map| {
            map.nodes.insert(publisher, known);
            map.forget_unreachable();
        });
        Some(changed)
    }

    /// A state of ourselves that we did not announce, and that others take for newer than ours: we announce ours under a higher
    /// version. True if so.
    fn contradict(&mut self, state: &LinkState) -> bool {
        let is_newer = state.version > self.version;
        let is_false = is_newer || (state.version == self.version && *state != self.told_state());
        if !is_false || state.domain != self.domain || self.contradictions == CONTRADICTIONS_MAX {
            return false;
        }
        let Some(higher) = state.version.checked_add(1) else { return false };
        self.version = higher;
        self.contradictions += 1;
        true
    }

    /// Nodes that nobody says to hear any more are forgotten: they have gone, and come back under another id.
    fn forget_unreachable(&mut self) {
        let mut reached: BTreeSet<u64> = BTreeSet::new();
        let mut open: Vec<u64> =
            self.links.values().flat_map(|link| link.neighbours.keys().copied()).collect();
        while let Some(node) = open.pop() {
            if let Some(known) = self.nodes.get(&node)
                && reached.insert(node)
            {
                open.extend(known.links.iter().flat_map(|link| link.neighbours.iter().copied()));
            }
        }
        // What was heard before whoever joins it to us is not forgotten as long as there is room.
        if self.nodes.len() > NODES_MAX / 2 {
            self.nodes.retain(|node, _| reached.contains(node));
        }
    }

    // --- the tree ---

    /// The links of everybody, by publisher.
    fn everybody(&self) -> BTreeMap<u64, (bool, Vec<Reach>)> {
        let mut all: BTreeMap<u64, (bool, Vec<Reach>)> = self
            .nodes
            .iter()
            .map(|(&publisher, known)| (publisher, (known.is_router, known.links.clone())))
            .collect();
        let own = self.own_state();
        all.insert(self.own, (own.is_router, own.links));
        all
    }

    /// Who is next to whom among routers, over which kind of link, and what that costs.
    fn steps(all: &BTreeMap<u64, (bool, Vec<Reach>)>) -> BTreeMap<u64, BTreeMap<(bool, u64), u64>> {
        // What each end says that a step costs: by its own node, the kind of link, and the neighbour.
        let mut said: BTreeMap<(u64, bool, u64), Option<NonZeroU32>> = BTreeMap::new();
        for (&from, (_, links)) in all {
            for link in links {
                let usual = |cost: Option<NonZeroU32>| cost_of(link.is_shared, cost, None);
                for &to in &link.neighbours {
                    let known = said.entry((from, link.is_shared, to)).or_insert(link.cost);
                    *known = std::cmp::min_by_key(*known, link.cost, |&cost| usual(cost));
                }
            }
        }
        let mut steps: BTreeMap<u64, BTreeMap<(bool, u64), u64>> = BTreeMap::new();
        for (&node, (_, links)) in all.iter().filter(|(_, (is_router, _))| *is_router) {
            let next = steps.entry(node).or_default();
            for link in links {
                for &other in &link.neighbours {
                    let is_router = all.get(&other).is_some_and(|(is_router, _)| *is_router);
                    let theirs = said.get(&(other, link.is_shared, node)).filter(|_| is_router);
                    if let Some(&theirs) = theirs {
                        let cost = cost_of(link.is_shared, link.cost, theirs);
                        let known = next.entry((link.is_shared, other)).or_insert(cost);
                        *known = cost.min(*known);
                    }
                }
            }
        }
        steps
    }

    /// Every router's way to its root.
    fn ways(steps: &BTreeMap<u64, BTreeMap<(bool, u64), u64>>) -> BTreeMap<u64, Way> {
        let mut ways: BTreeMap<u64, Way> = BTreeMap::new();
        for &root in steps.keys() {
            if ways.contains_key(&root) {
                continue;
            }
            ways.insert(root, Way { root, cost: 0, parent: None });
            let mut open = BinaryHeap::from([Reverse((0, root))]);
            while let Some(Reverse((so_far, node))) = open.pop() {
                if ways.get(&node).is_some_and(|way| way.cost < so_far) {
                    continue;
                }
                for (&(is_shared, next), &cost) in steps.get(&node).into_iter().flatten() {
                    let way = Way { root, cost: so_far + cost, parent: Some((is_shared, node)) };
                    let order =
                        |way: &Way| (way.cost, way.parent.map(|(is_shared, node)| (!is_shared, node)));
                    match ways.get(&next) {
                        Some(known) if known.parent.is_none() || order(known) <= order(&way) => {}
                        known => {
                            let is_shorter = known.is_none_or(|known| way.cost < known.cost);
                            ways.insert(next, way);
                            if is_shorter {
                                open.push(Reverse((way.cost, next)));
                            }
                        }
                    }
                }
            }
        }
        ways
    }

    /// Which links of a node that is no router are used, by their places.
    fn used_by_leaf(links: &[Reach], ways: &BTreeMap<u64, Way>) -> BTreeSet<usize> {
        let mut used = BTreeSet::new();
        // By root: the best link, and what makes it so.
        let mut best: BTreeMap<u64, (LinkOrder, usize)> = BTreeMap::new();
        for (place, link) in links.iter().enumerate() {
            let near = link.neighbours.iter().filter_map(|node| Some((ways.get(node)?, *node)));
            let step = cost_of(link.is_shared, link.cost, None);
            let near = near
                .map(|(way, node)| (way.root, (!link.is_shared, step, way.cost, node)))
                .min_by_key(|near| near.1);
            match near {
                None => {
                    used.insert(place);
                }
                Some((root, order)) => {
                    let known = best.entry(root).or_insert((order, place));
                    if order < known.0 {
                        *known = (order, place);
                    }
                }
            }
        }
        used.extend(best.into_values().map(|(_, place)| place));
        used
    }

    /// Our links that are broken and need not be waited for: others lead to those behind them, or nobody is there.
    pub fn broken(&self) -> BTreeSet<LinkId> {
        if self.suspected().next().is_none() {
            return BTreeSet::new();
        }
        let resting = self.resting();
        let deserted = if self.takes_part() { self.deserted() } else { BTreeSet::new() };
        self.suspected().filter(|link| resting.contains(link) || deserted.contains(link)).collect()
    }

    /// Our broken links behind which a router is that serves nobody, and all of whose neighbours are reached another way.
    fn deserted(&self) -> BTreeSet<LinkId> {
        let all = self.everybody();
        let deserted = self.links.iter().filter(|(_, link)| {
            let is_deserted = |router: &u64| self.is_deserted(*router, &all);
            link.is_suspected && !link.is_shared && link.neighbours.keys().all(is_deserted)
        });
        deserted.map(|(&id, _)| id).collect()
    }

    /// Whether nobody leads to a router any more that leaves somebody behind: programs, or nodes that are not reached another way.
    pub fn is_missed(&self, router: u64) -> bool {
        let all = self.everybody();
        let ways = Map::ways(&Map::steps(&all));
        let roots = self.roots(&all[&self.own].1, &ways);
        let is_reached = ways.get(&router).is_some_and(|way| roots.contains(&way.root));
        !is_reached && self.nodes.contains_key(&router) && !self.is_deserted(router, &all)
    }

    /// Whether a router serves nobody, and all its neighbours are reached another way, as all these say.
    fn is_deserted(&self, router: u64, all: &BTreeMap<u64, (bool, Vec<Reach>)>) -> bool {
        let ways = Map::ways(&Map::steps(all));
        let roots = self.roots(&all[&self.own].1, &ways);
        let reaches_router = |node: &u64| ways.get(node).is_some_and(|way| roots.contains(&way.root));
        let is_reached = |node: &u64| {
            *node == self.own
                || reaches_router(node)
                || all.get(node).is_some_and(|(is_router, links)| {
                    let others = links.iter().flat_map(|link| &link.neighbours);
                    !is_router && others.filter(|&&other| other != router).any(reaches_router)
                })
        };
        let Some(known) = self.nodes.get(&router).filter(|known| known.is_router) else { return false };
        let is_empty = |link: &Reach| {
            let served = !link.has_programs || link.neighbours.iter().any(reaches_router);
            served && link.neighbours.iter().all(is_reached)
        };
        !known.serves && known.links.iter().all(is_empty)
    }

    /// The roots of the trees that our links lead to.
    fn roots(&self, links: &[Reach], ways: &BTreeMap<u64, Way>) -> BTreeSet<u64> {
        match ways.get(&self.own) {
            Some(way) => BTreeSet::from([way.root]),
            None => {
                let near = links.iter().flat_map(|link| &link.neighbours);
                near.filter_map(|node| Some(ways.get(node)?.root)).collect()
            }
        }
    }

    /// Which of our links rest.
    pub fn resting(&self) -> BTreeSet<LinkId> {
        if !self.takes_part() {
            return BTreeSet::new();
        }
        let all = self.everybody();
        let ways = Map::ways(&Map::steps(&all));
        let links = &all[&self.own].1;
        let way = ways.get(&self.own);
        let used_by_leaf = if way.is_none() { Map::used_by_leaf(links, &ways) } else { BTreeSet::new() };
        let used = |place: usize, link: &Own| match way {
            Some(way) if link.is_shared => self.serves(way, (place, links), &all, &ways),
            Some(way) => self.uses(way, link, &all, &ways),
            None => used_by_leaf.contains(&place),
        };
        let shared: Vec<&Own> = self.links.values().filter(|link| link.is_shared).collect();
        let doubled = |link: &Own| {
            let elsewhere = |node: &u64| shared.iter().any(|other| other.neighbours.contains_key(node));
            !link.is_shared && link.neighbours.iter().any(|(node, is_router)| !is_router && elsewhere(node))
        };
        let roots = self.roots(links, &ways);
        let has_other_way = |link: &Own| {
            link.neighbours.keys().any(|node| ways.get(node).is_some_and(|way| roots.contains(&way.root)))
        };
        let rests = |(place, (id, link)): (usize, (&LinkId, &Own))| {
            let rests = match link.is_suspected {
                true => has_other_way(link),
                false => !used(place, link) || doubled(link),
            };
            rests.then_some(*id)
        };
        self.links.iter().enumerate().filter_map(rests).collect()
    }

    /// Whether we, a router, use a shared link: we serve it, or it leads to the root.
    fn serves(
        &self,
        way: &Way,
        (place, links): (usize, &[Reach]),
        all: &BTreeMap<u64, (bool, Vec<Reach>)>,
        ways: &BTreeMap<u64, Way>,
    ) -> bool {
        let link = &links[place];
        let hears_us = |node: &u64| {
            all.get(node).is_some_and(|(_, links)| {
                links.iter().any(|link| link.is_shared && link.neighbours.contains(&self.own))
            })
        };
        if let Some((true, parent)) = way.parent {
            // The next node may be on several of them; one is enough, the cheapest.
            let leads = |(_, link): &(usize, &Reach)| link.is_shared && link.neighbours.contains(&parent);
            let leading = links.iter().enumerate().filter(leads);
            let cheapest = leading.min_by_key(|(_, link)| cost_of(true, link.cost, None));
            if cheapest.is_some_and(|(cheapest, _)| cheapest == place) {
                return true;
            }
        }
        let others = link.neighbours.iter().filter(|node| hears_us(node));
        others
            .filter_map(|node| Some((ways.get(node)?.cost, *node)))
            .all(|other| (way.cost, self.own) < other)
    }

    /// Whether we, a router, use a link to one neighbour.
    fn uses(
        &self,
        way: &Way,
        link: &Own,
        all: &BTreeMap<u64, (bool, Vec<Reach>)>,
        ways: &BTreeMap<u64, Way>,
    ) -> bool {
        let Some((neighbour, _)) = link.neighbours.first_key_value() else { return true };
        match (all.get(neighbour), ways.get(neighbour)) {
            // One that has no other link, or has not said so yet.
            (None, _) => true,
            (Some(_), Some(other)) => {
                let joined = all[neighbour]
                    .1
                    .iter()
                    .any(|link| !link.is_shared && link.neighbours.contains(&self.own));
                !joined || way.parent == Some((false, *neighbour)) || other.parent == Some((false, self.own))
            }
            (Some((_, links)), None) => {
                let to_us = |link: &Reach| !link.is_shared && link.neighbours.contains(&self.own);
                let Some(place) = links.iter().position(to_us) else { return true };
                Map::used_by_leaf(links, ways).contains(&place)
            }
        }
    }
}

/// What a step costs: the more of what both ends say, or as usual if neither does.
fn cost_of(is_shared: bool, one: Option<NonZeroU32>, two: Option<NonZeroU32>) -> u64 {
    let usual = if is_shared { SHARED_COST } else { SINGLE_COST };
    one.max(two).map_or(usual, |cost| cost.get().into())
}

/// Whether a link leads to somebody.
fn is_worth_telling(link: &Reach) -> bool {
    link.has_programs || !link.neighbours.is_empty()
}

/// Leaves neighbours out beyond what is told.
fn bound(links: &mut [Reach]) {
    let mut left = NEIGHBOURS_MAX;
    for link in links {
        link.neighbours.truncate(left);
        left -= link.neighbours.len();
    }
}

#[cfg(test)]
mod tests;
