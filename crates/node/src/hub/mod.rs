//! The hub: what a connection is made of. It decides who gets a message, gives every message its number, and keeps what
//! waits for links and for subscriptions.
//!
//! A hub has any number of links. Each is driven by somebody else, who holds a [`Port`]: what was received is fed in
//! there, and what is to be sent is taken out. Subscriptions here and members behind links stand in one switch.
//!
//! Methods never wait, and take the time as an argument. Several threads may use a hub. Locks are taken in this order:
//! a chain's, the routes', a queue's; nobody is woken, and no link rung, while one of the first two is held.

mod accept;
mod applied;
mod asking;
mod assembly;
mod attaching;
mod chain;
mod consumer;
mod event;
mod events;
mod flush;
mod held_back;
mod inbox;
mod kept;
mod link;
mod losers;
mod notes;
mod outlet;
mod owed;
mod passing;
mod port;
mod publish;
mod replay;
mod routes;
mod send_error;
mod shape;
mod unnumbered;
mod waiting;
mod wake;
mod withheld;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use shoal_norm::{NodeId, Time};
use shoal_wire::{MessageView, Process, Roles};

pub use self::chain::{Chains, Clock, LinkId, Stamp};
pub use self::consumer::{Batch, Consumer, Entry, Overflow, Source, Taken};
pub use self::event::{Departure, HubEvent, Lost};
pub use self::flush::{FlushId, FlushState, INTEREST_LANE};
pub use self::held_back::HeldBack;
pub use self::inbox::{Fed, SourceId, SourceNews, Told};
pub use self::link::{LinkBell, LinkKind, Ring, Silent, Traffic};
pub use self::port::Port;
pub use self::publish::{Attempt, Patience, Publication, Refusal, Unrung, WhenFull};
pub use self::routes::{InterestId, Plan};
pub use self::send_error::SendError;
pub use self::wake::{Asleep, Wake};

use self::accept::Accept;
use self::assembly::Budget;
use self::events::Events;
use self::flush::Flushes;
use self::link::Link;
use self::losers::Losers;
use self::owed::Owed;
use self::routes::Routes;
use self::shape::Shape;
use crate::attributes::Origin;
use crate::interest::{AskedInterest, Asker, Entry as AnnouncedEntry};
use crate::load::{Arrivals, Departures, Load, LoadPlace, LoadRow};
use crate::switch::{Interest, SubscriptionId};

/// What a hub can be told.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Who publishes: drawn at random for each connection, and never 0.
    pub publisher: u64,
    /// Our node id, which others see as the sender.
    pub node: NodeId,
    /// Lanes of its links, the first for what nodes tell each other.
    pub lanes: usize,
    /// Bytes that may wait in a lane of a link before publishers wait.
    pub lane_bytes_max: usize,
    /// The longest message.
    pub message_bytes_max: usize,
    /// Parts of messages whose end has not come yet, of all senders together.
    pub assembly_bytes_max: usize,
    /// Keeps others from choosing topics that collide.
    pub seed: u64,
}

/// What we want, as links have to announce it.
#[derive(Debug, Default)]
struct Wanted {
    asked: AskedInterest,
    /// What each subscription is announced as.
    announced: HashMap<SubscriptionId, u64>,
    /// Of a router, what each interest of a member behind a link is announced as.
    behind: BTreeMap<(LinkId, NodeId, InterestId), u64>,
    /// What we do beside what our own programs do, apart from routing.
    roles: Roles,
    /// Subscriptions of this process, beside those to reserved topics.
    readers: HashSet<SubscriptionId>,
}

/// A hub.
pub struct Hub {
    publisher: u64,
    node: AtomicU32,
    lanes: usize,
    assembly: Arc<Budget>,
    chains: Arc<Chains>,
    routes: Mutex<Routes>,
    wanted: Mutex<Wanted>,
    /// Which numbers of each chain are accepted next.
    accept: Arc<Mutex<Accept>>,
    owed: Arc<Mutex<Owed>>,
    /// What comes over one link is passed on to others.
    router: AtomicBool,
    /// Which links are used.
    shape: Mutex<Shape>,
    /// Counts changes of who wants what.
    interest_version: AtomicU64,
    flushes: Mutex<Flushes>,
    /// What this node lost for good.
    lost: Mutex<Losers>,
    events: Mutex<Events>,
    wake: Arc<dyn Wake>,
    /// Numbers of links that are in use.
    link_ids: Mutex<BTreeSet<LinkId>>,
    remote_links: AtomicUsize,
    /// What went from links into queues of this process, and what closed links counted, lane by lane.
    departures: Box<[Departures]>,
    gone: Mutex<Vec<Load>>,
    /// A publisher was sent away because a queue was full.
    sent_away: AtomicBool,
    closed: AtomicBool,
    failure: Mutex<Option<Arc<str>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A hub without links. `wake` hears of room, of events, of changed interest and of flushes that are over.
    pub fn new(config: &HubConfig, wake: Arc<dyn Wake>) -> Arc<Hub> {
        let chains = Chains::new(config.lanes, config.lane_bytes_max, config.message_bytes_max, wake.clone());
        Arc::new(Hub {
            publisher: config.publisher,
            node: AtomicU32::new(config.node),
            lanes: config.lanes,
            assembly: Arc::new(Budget::new(config.assembly_bytes_max)),
            chains: Arc::new(chains),
            routes: Mutex::new(Routes::new(config.seed)),
            wanted: Mutex::default(),
            accept: Arc::default(),
            owed: Arc::default(),
            router: AtomicBool::new(false),
            shape: Mutex::new(Shape::new(config.publisher)),
            interest_version: AtomicU64::new(1),
            flushes: Mutex::default(),
            lost: Mutex::default(),
            events: Mutex::default(),
            wake,
            link_ids: Mutex::default(),
            remote_links: AtomicUsize::new(0),
            departures: (0..config.lanes).map(|_| Departures::default()).collect(),
            gone: Mutex::new(vec![Load::default(); config.lanes]),
            sent_away: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            failure: Mutex::default(),
        })
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        lock(&self.routes)
    }

    fn try_routes(&self) -> Option<MutexGuard<'_, Routes>> {
        match self.routes.try_lock() {
            Ok(routes) => Some(routes),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    // --- getters ---

    /// Who publishes here.
    pub fn publisher(&self) -> u64 {
        self.publisher
    }

    /// Our node id, as it is now: a link takes another one if somebody else has it.
    #[inline]
    pub fn node(&self) -> NodeId {
        self.node.load(Ordering::Relaxed)
    }

    /// Takes another node id.
    pub(crate) fn rename(&self, node: NodeId) {
        self.node.store(node, Ordering::Relaxed);
        self.change_interest();
    }

    /// Takes another node id, because somebody else has ours, and tells so.
    pub(crate) fn take_another_id(&self, node: NodeId) {
        let old = self.node();
        self.rename(node);
        self.tell(HubEvent::Renamed(old, node));
    }

    /// Whether it has links of any kind.
    pub(crate) fn has_links(&self) -> bool {
        !lock(&self.link_ids).is_empty()
    }

    /// What waits for links.
    pub fn chains(&self) -> &Arc<Chains> {
        &self.chains
    }

    /// The most bytes of messages whose end has not come, and how many there are, of all links together.
    pub(crate) fn part_bytes(&self) -> (usize, usize) {
        (self.assembly.bytes_max, self.assembly.bytes())
    }

    /// Whether it passes on what comes over one link to others.
    #[inline]
    pub fn is_router(&self) -> bool {
        self.router.load(Ordering::Relaxed)
    }

    /// How often a filter was evaluated for a message, all filters and messages together.
    pub fn evaluations(&self) -> u64 {
        self.routes().evaluations()
    }

    /// Whether a link leads out of the process.
    fn has_remote_links(&self) -> bool {
        self.remote_links.load(Ordering::Relaxed) > 0
    }

    /// Counts changes of who wants what; a [`Plan`] holds until it changes.
    #[inline]
    pub fn interest_version(&self) -> u64 {
        self.interest_version.load(Ordering::SeqCst)
    }

    /// Everybody else in the domain.
    pub fn members(&self) -> Vec<NodeId> {
        self.routes().members()
    }

    /// Members that subscribe to a topic.
    pub fn interested(&self, topic: &[u8]) -> Vec<NodeId> {
        self.routes().interested(topic)
    }

    /// Members that want a message of ours with this head, as far as known.
    pub fn wanting(&self, head: &[u8]) -> Vec<NodeId> {
        let origin = Origin { publisher: self.publisher, node: self.node(), ..Origin::default() };
        MessageView::parse(head).map_or_else(|_| Vec::new(), |view| self.routes().wanting(&view, &origin))
    }

    /// Everybody who subscribes to a topic, ourselves included.
    pub fn subscribers(&self, topic: &[u8]) -> Vec<NodeId> {
        let mut routes = self.routes();
        let mut nodes = routes.interested(topic);
        if routes.is_wanted_here(topic) {
            nodes.push(self.node());
        }
        nodes
    }

    /// The same, unless somebody else holds the lock that it takes.
    pub fn try_plan(&self, topic: &[u8]) -> Option<Plan> {
        let version = self.interest_version();
        let keeps = self.chains.keeps();
        self.try_routes().map(|mut routes| Plan { keeps, ..routes.plan(topic, version) })
    }

    /// Waits until nobody reads or changes who wants what.
    pub fn wait_for_routes(&self) {
        drop(self.routes());
    }

    /// Who gets what is published on a topic.
    pub fn plan(&self, topic: &[u8]) -> Plan {
        // Read first: what changes meanwhile makes the plan an old one.
        let (version, keeps) = (self.interest_version(), self.chains.keeps());
        Plan { keeps, ..self.routes().plan(topic, version) }
    }

    /// What went over a link.
    pub fn traffic(&self, link: LinkId) -> Traffic {
        let messages_sent = self.chains.messages(link);
        let routes = self.routes();
        routes.link(link).map_or_else(Traffic::default, |link| Traffic {
            messages_sent,
            messages_received: link.arrivals.iter().map(Arrivals::received).sum(),
            is_resting: link.is_resting(),
        })
    }

    /// What was counted in each lane of each place: here, of each link, and of links that are closed.
    /// A link that closes at this moment may be missing this time.
    pub fn load(&self) -> Vec<LoadRow> {
        let routes = self.routes();
        let links: Vec<_> = routes.links().map(|link| (link.clone(), routes.other_end(link.id))).collect();
        drop(routes);
        let gone = lock(&self.gone).clone();
        let mut rows = Vec::with_capacity((links.len() + 2) * self.lanes);
        for (lane, gone) in gone.into_iter().enumerate() {
            let (mut here, mut closed) = self.chains.load(lane);
            here += self.departures[lane].load();
            closed += gone;
            rows.push(LoadRow { place: LoadPlace::Here, lane, load: here });
            for (link, peer) in &links {
                let mut load = link.arrivals[lane].load();
                load += self.chains.load_of(lane, link.id);
                let place = LoadPlace::Link(link.id, link.name.clone(), *peer);
                rows.push(LoadRow { place, lane, load });
            }
            rows.push(LoadRow { place: LoadPlace::Closed, lane, load: closed });
        }
        rows
    }

    /// Why there is no link left, if the last one failed.
    pub fn failure(&self) -> Option<Arc<str>> {
        lock(&self.failure).clone()
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Whether events wait to be taken.
    pub fn has_events(&self) -> bool {
        !lock(&self.events).is_empty()
    }

    // --- commands ---

    /// Delivers what is of interest to a queue from now on; with `no_local`, not what is published here.
    pub fn subscribe(
        &self,
        now: Time,
        interest: Interest,
        consumer: Arc<Consumer>,
        no_local: bool,
    ) -> SubscriptionId {
        let id = self.routes().subscribe(now, interest.clone(), consumer.clone(), no_local);
        if let Some(why) = self.failure() {
            consumer.fail(&why);
        } else if self.is_closed() {
            consumer.close();
        }
        let mut wanted = lock(&self.wanted);
        // A pattern is never longer than an announcement takes.
        if let Ok(announced) = asking::ask_here(&mut wanted.asked, &interest) {
            wanted.announced.insert(id, announced);
        }
        let is_first = !interest.pattern.as_str().starts_with('_')
            && wanted.readers.insert(id)
            && wanted.readers.len() == 1;
        self.want(wanted, Ring::Interest);
        if is_first {
            self.map_reads();
        }
        id
    }

    /// Ends a subscription; its queue is closed.
    pub fn unsubscribe(&self, id: SubscriptionId) {
        let Some(consumer) = self.routes().unsubscribe(id) else { return };
        consumer.close();
        let mut wanted = lock(&self.wanted);
        if let Some(announced) = wanted.announced.remove(&id) {
            wanted.asked.withdraw(Asker::Here, announced);
        }
        let was_last = wanted.readers.remove(&id) && wanted.readers.is_empty();
        self.want(wanted, Ring::Interest);
        if was_last {
            self.map_reads();
        }
    }

    /// So many links are about to begin. If there are several then, what is published from now on is kept: it may be on a way that is
    /// given up for another one.
    pub fn expect_links(&self, count: usize) {
        let there = lock(&self.link_ids).len();
        if there + count > 1 && self.begin_keeping() {
            self.change_interest();
        }
    }

    /// Chains may take several paths: what is published and forwarded is kept, and what is missing is asked for. True if that is new.
    fn begin_keeping(&self) -> bool {
        lock(&self.accept).set_routed();
        self.chains.begin_keeping()
    }

    /// Says what a step over a link costs; `None` if it costs as usual.
    pub fn set_cost(&self, link: LinkId, cost: Option<NonZeroU32>) {
        self.map_costs(link, cost);
    }

    /// Says which program this is. To be said before there are links.
    pub fn set_process(&self, process: Process) {
        lock(&self.wanted).asked.set_process(process);
    }

    /// Patterns that programs of this process subscribe to, at most so many.
    pub fn patterns_here(&self, most: usize) -> Vec<String> {
        lock(&self.wanted).asked.patterns_here(most)
    }

    /// Says what we do beside what our own programs do, apart from routing.
    pub fn set_roles(&self, roles: Roles) {
        let mut wanted = lock(&self.wanted);
        wanted.roles = roles;
        self.announce_roles(&mut wanted);
        self.want(wanted, Ring::Interest);
    }

    fn announce_roles(&self, wanted: &mut Wanted) {
        let router = if self.is_router() { Roles::ROUTER } else { Roles::default() };
        wanted.asked.set_roles(wanted.roles.with(router));
    }

    /// Passes on what comes over one link to others from now on. To be said before there are links.
    pub fn set_router(&self) {
        self.router.store(true, Ordering::SeqCst);
        lock(&self.accept).set_routed();
        let mut wanted = lock(&self.wanted);
        wanted.asked.set_covering();
        self.announce_roles(&mut wanted);
        self.want(wanted, Ring::Interest);
        self.map_routes();
    }

    /// Has links announce what we want, where that changed.
    fn want(&self, wanted: MutexGuard<'_, Wanted>, why: Ring) {
        let versions = wanted.asked.versions();
        drop(wanted);
        let routes = self.routes();
        let changed = versions.into_iter().filter_map(|(link, version)| {
            let link = routes.link(link)?;
            (link.wanted.fetch_max(version, Ordering::SeqCst) < version).then(|| link.clone())
        });
        let changed: Vec<Arc<Link>> = changed.collect();
        drop(routes);
        // Behind them: an announcement of this version of a link contains all that the hub's version counts.
        self.change_interest();
        changed.iter().for_each(|link| link.bell.ring(why));
    }

    /// Of a router: a member behind a link wants something else now, and others are asked for it.
    fn ask_behind(
        &self,
        link: LinkId,
        node: NodeId,
        added: &[(u64, AnnouncedEntry)],
        removed: &[(u64, AnnouncedEntry)],
    ) {
        if !self.is_router() {
            return;
        }
        let mut wanted = lock(&self.wanted);
        let Wanted { asked, behind, .. } = &mut *wanted;
        for (id, _) in removed {
            if let Some(announced) = behind.remove(&(link, node, *id)) {
                asked.withdraw(Asker::Behind(link), announced);
            }
        }
        for (id, entry) in added {
            if let Ok(announced) = asking::ask_behind(asked, link, entry)
                && let Some(before) = behind.insert((link, node, *id), announced)
            {
                asked.withdraw(Asker::Behind(link), before);
            }
        }
        // Whoever drives the link may hold what the others need to announce at once.
        self.want(wanted, Ring::Turn);
    }

    /// Of a router: a member behind a link wants nothing any more.
    fn forget_behind(&self, link: LinkId, node: NodeId) {
        if !self.is_router() {
            return;
        }
        let mut wanted = lock(&self.wanted);
        let Wanted { asked, behind, .. } = &mut *wanted;
        let gone: Vec<_> =
            behind.range((link, node, 0)..=(link, node, u64::MAX)).map(|(&key, &id)| (key, id)).collect();
        for (key, announced) in gone {
            behind.remove(&key);
            asked.withdraw(Asker::Behind(link), announced);
        }
        self.want(wanted, Ring::Turn);
    }

    fn change_interest(&self) {
        self.interest_version.fetch_add(1, Ordering::SeqCst);
        self.wake.wake();
    }

    fn ring_all(&self, why: Ring) {
        let links: Vec<Arc<Link>> = self.routes().links().cloned().collect();
        links.iter().for_each(|link| link.bell.ring(why));
    }

    /// A queue that held its senders back has room again.
    pub fn resume(&self) {
        if self.sent_away.swap(false, Ordering::SeqCst) {
            self.wake.wake();
        } else {
            self.wake.wake_waiting();
        }
        self.ring_all(Ring::Turn);
    }

    /// Takes no more messages; what was published is still being sent.
    pub fn stop_publishing(&self) {
        self.chains.close();
    }

    /// Ends every subscription, and delivers nothing any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.chains.close();
        self.stop_delivering();
    }

    /// Delivers nothing any more to the subscriptions of this process.
    pub fn stop_delivering(&self) {
        let consumers: Vec<Arc<Consumer>> = self.routes().consumers().cloned().collect();
        consumers.iter().for_each(|consumer| consumer.close());
        self.change_interest();
    }

    /// There is no memory to hand a message to its reader: it is lost to that, and told.
    pub fn lose(&self, origin: &Origin) {
        self.tell(HubEvent::Lost(Lost::of(origin, origin.number)));
    }

    fn tell(&self, event: HubEvent) {
        let is_new = lock(&self.events).push(event);
        if is_new {
            self.wake.wake();
        }
    }

    // --- output ---

    /// The next thing that happened.
    pub fn poll_event(&self) -> Option<HubEvent> {
        lock(&self.events).pop()
    }

    /// Everything that happened.
    pub fn take_events(&self) -> VecDeque<HubEvent> {
        lock(&self.events).take_all()
    }
}
