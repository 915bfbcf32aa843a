//! Who gets a message: subscriptions of this process and members behind links, in one switch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use shoal_norm::{NodeId, Time};
use shoal_wire::{MessageView, is_reserved};

use super::accept::Key;
use super::chain::LinkId;
use super::consumer::Consumer;
use super::link::Link;
use crate::attributes::Origin;
use crate::switch::{self, Interest, Scope, SubscriptionId, Switch};

/// An interest as its member names it.
pub type InterestId = u64;

/// Who is behind a subscription of the switch.
enum Target {
    /// A queue of this process, and since when.
    Consumer {
        consumer: Arc<Consumer>,
        no_local: bool,
        began: Time,
    },
    Member {
        link: LinkId,
        node: NodeId,
    },
}

/// A node behind a link.
#[derive(Debug, Default)]
struct Member {
    interests: BTreeMap<InterestId, SubscriptionId>,
}

/// A link, and what is known of those behind it.
struct Joined {
    link: Arc<Link>,
    members: BTreeMap<NodeId, Member>,
    /// Those among them that are no routers: they ask for nobody else.
    programs: BTreeSet<NodeId>,
}

/// Who gets the messages of a topic, as long as nobody's interest changes.
#[derive(Clone, Default)]
pub struct Plan {
    /// The interest version it was made for.
    pub version: u64,
    /// Filters decide: ask for each message.
    pub(super) asks: bool,
    pub(super) consumers: Vec<Arc<Consumer>>,
    pub(super) links: Vec<Arc<Link>>,
    /// It is kept, because somebody may ask for it on another way.
    pub(super) keeps: bool,
}

impl Plan {
    /// Whether nobody wants it, and nobody may ask for it later.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.is_empty() && !self.keeps
    }

    /// Whether nobody wants it.
    pub fn is_empty(&self) -> bool {
        !self.asks && self.consumers.is_empty() && self.links.is_empty()
    }

    fn clear(&mut self) {
        self.consumers.clear();
        self.links.clear();
    }

    fn add_link(&mut self, link: &Arc<Link>) {
        if !self.links.iter().any(|known| known.id == link.id) {
            self.links.push(link.clone());
        }
    }
}

/// The switch and everything it leads to.
pub(super) struct Routes {
    switch: Switch,
    targets: HashMap<SubscriptionId, Target>,
    links: BTreeMap<LinkId, Joined>,
    /// Those behind which somebody may want anything: few, and asked about for each message.
    open: BTreeSet<LinkId>,
    next: SubscriptionId,
    /// When each subscription of this process began, the oldest first.
    readers: BTreeMap<SubscriptionId, Time>,
}

impl Routes {
    pub fn new(seed: u64) -> Routes {
        Routes {
            switch: Switch::new(seed),
            targets: HashMap::new(),
            links: BTreeMap::new(),
            open: BTreeSet::new(),
            next: 1,
            readers: BTreeMap::new(),
        }
    }

    // --- getters ---

    /// Every member, link by link.
    pub fn members(&self) -> Vec<NodeId> {
        let nodes: BTreeSet<NodeId> =
            self.links.values().flat_map(|joined| joined.members.keys().copied()).collect();
        nodes.into_iter().collect()
    }

    /// Who is alone at the other end of a link.
    pub fn other_end(&self, link: LinkId) -> Option<NodeId> {
        self.links.get(&link)?.members.keys().next().copied()
    }

    /// Whether a node is behind a link.
    pub fn has_member(&self, link: LinkId, node: NodeId) -> bool {
        self.links.get(&link).is_some_and(|joined| joined.members.contains_key(&node))
    }

    /// The members that subscribe to a topic, whatever they filter.
    pub fn interested(&mut self, topic: &[u8]) -> Vec<NodeId> {
        let Routes { switch, targets, .. } = self;
        let member = |id| match targets.get(id) {
            Some(Target::Member { node, .. }) => Some(*node),
            _ => None,
        };
        let nodes: BTreeSet<NodeId> =
            switch.subscribed(topic).iter().filter_map(|target| member(&target.id)).collect();
        nodes.into_iter().collect()
    }

    /// The members that want a message.
    pub fn wanting(&mut self, view: &MessageView<'_>, origin: &Origin) -> Vec<NodeId> {
        let Routes { switch, targets, .. } = self;
        let wanted = switch.route(view, origin, Scope::Elsewhere).unwrap_or(&[]);
        let nodes: BTreeSet<NodeId> = wanted
            .iter()
            .filter_map(|target| match targets.get(&target.id) {
                Some(Target::Member { node, .. }) => Some(*node),
                _ => None,
            })
            .collect();
        nodes.into_iter().collect()
    }

    /// Whether somebody here subscribes to a topic, whatever he filters.
    pub fn is_wanted_here(&mut self, topic: &[u8]) -> bool {
        self.switch.subscribed(topic).first().is_some_and(switch::Target::is_here)
    }

    /// The queue of a subscription.
    #[inline]
    pub fn consumer(&self, id: SubscriptionId) -> Option<&Arc<Consumer>> {
        match self.targets.get(&id) {
            Some(Target::Consumer { consumer, .. }) => Some(consumer),
            _ => None,
        }
    }

    /// When the oldest subscription of this process began; never if there is none.
    pub fn reads_since(&self) -> Time {
        self.readers.first_key_value().map_or(Time::NEVER, |(_, &began)| began)
    }

    pub fn consumers(&self) -> impl Iterator<Item = &Arc<Consumer>> {
        self.targets.values().filter_map(|target| match target {
            Target::Consumer { consumer, .. } => Some(consumer),
            Target::Member { .. } => None,
        })
    }

    pub fn link(&self, id: LinkId) -> Option<&Arc<Link>> {
        self.links.get(&id).map(|joined| &joined.link)
    }

    /// How often a filter was evaluated for a message.
    pub fn evaluations(&self) -> u64 {
        self.switch.evaluations()
    }

    pub fn links(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.links.values().map(|joined| &joined.link)
    }

    // --- commands ---

    pub fn subscribe(
        &mut self,
        now: Time,
        interest: Interest,
        consumer: Arc<Consumer>,
        no_local: bool,
    ) -> SubscriptionId {
        let id = self.take_id();
        self.switch.insert(id, interest, Scope::Here);
        self.targets.insert(id, Target::Consumer { consumer, no_local, began: now });
        self.readers.insert(id, now);
        id
    }

    fn take_id(&mut self) -> SubscriptionId {
        self.next += 1;
        self.next - 1
    }

    pub fn unsubscribe(&mut self, id: SubscriptionId) -> Option<Arc<Consumer>> {
        self.switch.remove(id)?;
        self.readers.remove(&id);
        match self.targets.remove(&id) {
            Some(Target::Consumer { consumer, .. }) => Some(consumer),
            _ => None,
        }
    }

    pub fn add_link(&mut self, link: Arc<Link>) {
        self.links.insert(link.id, Joined { link, members: BTreeMap::new(), programs: BTreeSet::new() });
    }

    /// Takes a link away, and everybody behind it.
    pub fn remove_link(&mut self, link: LinkId) -> Option<Arc<Link>> {
        let nodes: Vec<NodeId> = self.links.get(&link)?.members.keys().copied().collect();
        for node in nodes {
            self.remove_member(link, node);
        }
        self.open.remove(&link);
        self.links.remove(&link).map(|joined| joined.link)
    }

    /// Says whether somebody behind a link may want anything. True if that is new.
    pub fn set_open(&mut self, link: LinkId, open: bool) -> bool {
        self.links.contains_key(&link) && if open { self.open.insert(link) } else { self.open.remove(&link) }
    }

    /// Says which members behind a link are no routers.
    pub fn set_programs(&mut self, link: LinkId, programs: BTreeSet<NodeId>) {
        if let Some(joined) = self.links.get_mut(&link) {
            joined.programs = programs;
        }
    }

    pub fn add_member(&mut self, link: LinkId, node: NodeId) {
        if let Some(joined) = self.links.get_mut(&link) {
            joined.members.entry(node).or_default();
        }
    }

    pub fn remove_member(&mut self, link: LinkId, node: NodeId) {
        let Some(joined) = self.links.get_mut(&link) else { return };
        let Some(member) = joined.members.remove(&node) else { return };
        for id in member.interests.into_values() {
            self.switch.remove(id);
            self.targets.remove(&id);
        }
    }

    /// A member wants something else now. True if it wanted nothing before.
    pub fn change_interest(
        &mut self,
        link: LinkId,
        node: NodeId,
        added: Vec<(InterestId, Interest)>,
        removed: &[InterestId],
    ) -> bool {
        let Some(joined) = self.links.get_mut(&link) else { return false };
        let Some(member) = joined.members.get_mut(&node) else { return false };
        let is_first = member.interests.is_empty() && !added.is_empty();
        for name in removed {
            if let Some(id) = member.interests.remove(name) {
                self.switch.remove(id);
                self.targets.remove(&id);
            }
        }
        for (name, interest) in added {
            let id = self.next;
            self.next += 1;
            if let Some(old) = member.interests.insert(name, id) {
                self.switch.remove(old);
                self.targets.remove(&old);
            }
            self.switch.insert(id, interest, Scope::Elsewhere);
            self.targets.insert(id, Target::Member { link, node });
        }
        is_first
    }

    // --- routing ---

    /// Who gets what is published here on a topic.
    pub fn plan(&mut self, topic: &[u8], version: u64) -> Plan {
        let Routes { switch, targets, links, open, .. } = self;
        let mut plan = Plan { version, ..Plan::default() };
        add_unasked(&mut plan, links, open, topic);
        for target in switch.subscribed(topic) {
            plan.asks |= target.is_filtered();
            add(&mut plan, targets, links, target.id);
        }
        plan
    }

    /// Who gets a message published here, if filters decide.
    pub fn ask(&mut self, view: &MessageView<'_>, origin: &Origin, plan: &mut Plan) {
        let Routes { switch, targets, links, open, .. } = self;
        plan.clear();
        add_unasked(plan, links, open, view.name_bytes());
        for target in switch.route(view, origin, Scope::Elsewhere).unwrap_or(&[]) {
            add(plan, targets, links, target.id);
        }
    }

    /// The subscriptions of this process that get a message which came over a link, and the other links that get it. Whether there
    /// are such subscriptions, and whether somebody behind a link that rests wants it; `later` are those links with programs that do. If it was `published` before we knew of its
    /// chain, only subscriptions get it that were there then.
    pub fn route_on(
        &mut self,
        view: &MessageView<'_>,
        origin: &Origin,
        (from, published): (LinkId, Option<Time>),
        mut each: impl FnMut(SubscriptionId),
        on: &mut Vec<LinkId>,
        later: &mut Vec<LinkId>,
    ) -> (bool, bool) {
        let Routes { switch, targets, links, open, .. } = self;
        let mut is_wanted_later = false;
        on.extend(open_links(links, open).map(|link| link.id));
        let wanted = switch.route(view, origin, Scope::Elsewhere).unwrap_or(&[]);
        let here = wanted.partition_point(switch::Target::is_here);
        let mut is_read = false;
        for target in wanted[..here].iter().filter(|target| was_there(targets, target.id, published)) {
            is_read = true;
            each(target.id);
        }
        for target in &wanted[here..] {
            if let Some(Target::Member { link, node }) = targets.get(&target.id)
                && !on.contains(link)
                && let Some(joined) = links.get(link)
            {
                match joined.link.is_resting() {
                    false => on.push(*link),
                    true if *link == from => {}
                    true => {
                        is_wanted_later = true;
                        if joined.link.is_shared() && joined.programs.contains(node) && !later.contains(link)
                        {
                            later.push(*link);
                        }
                    }
                }
            }
        }
        on.retain(|link| *link != from);
        (is_read, is_wanted_later)
    }

    /// Whether somebody behind a link wants a message, or may.
    pub fn is_wanted_on(&mut self, view: &MessageView<'_>, origin: &Origin, link: LinkId) -> bool {
        let Routes { switch, targets, links, open, .. } = self;
        if !links.contains_key(&link) || open.contains(&link) {
            return true;
        }
        let wanted = switch.route(view, origin, Scope::Elsewhere).unwrap_or(&[]);
        let is_there = |id| matches!(targets.get(id), Some(Target::Member { link: of, .. }) if *of == link);
        wanted.iter().any(|target| is_there(&target.id))
    }

    /// Whether a message that came over a link is wanted here, or by a program behind another link that is used.
    pub fn is_read_beside(&mut self, record: &[u8], key: Key, number: u64, from: LinkId) -> bool {
        let Routes { switch, targets, links, .. } = self;
        let Ok(view) = MessageView::parse(record) else { return false };
        let origin = Origin { publisher: key.0, chain: key.1, number, ..Origin::default() };
        let wanted = switch.route(&view, &origin, Scope::Elsewhere).unwrap_or(&[]);
        wanted.iter().any(|target| match targets.get(&target.id) {
            Some(Target::Member { link, node }) => {
                let joined = links.get(link).filter(|joined| *link != from && !joined.link.is_resting());
                joined.is_some_and(|joined| joined.programs.contains(node))
            }
            found => found.is_some(),
        })
    }

    /// The links, but one, behind which somebody wants something.
    pub fn asking(&self, from: LinkId) -> Vec<LinkId> {
        let wants = |joined: &Joined| {
            !joined.link.is_resting() && joined.members.values().any(|member| !member.interests.is_empty())
        };
        let asking = self.links.values().filter(|joined| joined.link.id != from && wants(joined));
        asking.map(|joined| joined.link.id).collect()
    }

    /// Whether somebody behind a link wants something.
    pub fn has_asking(&self, link: LinkId) -> bool {
        let joined = self.links.get(&link);
        joined.is_some_and(|joined| joined.members.values().any(|member| !member.interests.is_empty()))
    }

    /// The links of these numbers.
    pub fn links_of(&self, ids: &[(LinkId, usize)]) -> Vec<(Arc<Link>, usize)> {
        let link = |&(id, waiting): &(LinkId, usize)| Some((self.links.get(&id)?.link.clone(), waiting));
        ids.iter().filter_map(link).collect()
    }

    /// The subscriptions of this process that get a message which came over a link.
    #[inline]
    pub fn route_here(
        &mut self,
        view: &MessageView<'_>,
        origin: &Origin,
        published: Option<Time>,
        mut each: impl FnMut(SubscriptionId),
    ) -> bool {
        let Routes { switch, targets, .. } = self;
        let wanted = switch.route(view, origin, Scope::Here).unwrap_or(&[]);
        let mut is_read = false;
        for target in wanted.iter().filter(|target| was_there(targets, target.id, published)) {
            is_read = true;
            each(target.id);
        }
        is_read
    }
}

/// Whether a subscription of this process was there when something was published, if that matters.
#[inline]
fn was_there(targets: &HashMap<SubscriptionId, Target>, id: SubscriptionId, published: Option<Time>) -> bool {
    let Some(published) = published else { return true };
    matches!(targets.get(&id), Some(Target::Consumer { began, .. }) if *began <= published)
}

/// The links that everything goes to.
fn open_links<'a>(
    links: &'a BTreeMap<LinkId, Joined>,
    open: &'a BTreeSet<LinkId>,
) -> impl Iterator<Item = &'a Arc<Link>> {
    open.iter().filter_map(|id| Some(&links.get(id)?.link)).filter(|link| !link.is_resting())
}

/// Adds the links that get a message whether or not it is wanted there. An answer, whose asker may have subscribed a moment ago, goes
/// wherever he may be.
fn add_unasked(plan: &mut Plan, links: &BTreeMap<LinkId, Joined>, open: &BTreeSet<LinkId>, topic: &[u8]) {
    open_links(links, open).for_each(|link| plan.add_link(link));
    if is_reserved(topic) {
        let links = links.values().map(|joined| &joined.link);
        links.filter(|link| link.takes_answers()).for_each(|link| plan.add_link(link));
    }
}

fn add(
    plan: &mut Plan,
    targets: &HashMap<SubscriptionId, Target>,
    links: &BTreeMap<LinkId, Joined>,
    id: SubscriptionId,
) {
    match targets.get(&id) {
        Some(Target::Consumer { consumer, no_local: false, .. }) => plan.consumers.push(consumer.clone()),
        Some(Target::Member { link, .. }) => {
            if let Some(joined) = links.get(link).filter(|joined| !joined.link.is_resting()) {
                plan.add_link(&joined.link);
            }
        }
        Some(Target::Consumer { no_local: true, .. }) | None => {}
    }
}
