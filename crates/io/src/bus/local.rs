//! Delivery inside the process: what is published here goes to the subscriptions here as it is.
//!
//! A bus on a network has one of these for itself. Buses on an `inproc` domain share one, and have
//! nothing else.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use shoal_node::{Interest, Origin, SubscriptionId, Switch, Target};
use shoal_norm::NodeId;
use shoal_wire::MessageView;

use super::application::BusEvent;
use super::consumer::Consumer;
use super::presence::Presence;
use crate::bell::{Bell, Bells};

struct Subscription<L> {
    consumer: Arc<Consumer<L>>,
    node: NodeId,
    no_local: bool,
    pattern: String,
}

struct State<L> {
    switch: Switch,
    subscriptions: HashMap<SubscriptionId, Subscription<L>>,
    presence: Presence,
}

/// The subscriptions of a process, or of an `inproc` domain.
pub struct LocalSwitch<L> {
    state: Mutex<State<L>>,
    bells: Bells,
    count: AtomicUsize,
    next: AtomicU64,
}

impl<L> LocalSwitch<L> {
    /// One without subscriptions.
    pub fn new(seed: u64) -> LocalSwitch<L> {
        let state =
            State { switch: Switch::new(seed), subscriptions: HashMap::new(), presence: Presence::default() };
        LocalSwitch {
            state: Mutex::new(state),
            bells: Bells::default(),
            count: AtomicUsize::new(0),
            next: AtomicU64::new(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody subscribes to anything.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Delivers what is of interest to a consumer from now on; with `no_local`, not what `node` itself publishes.
    pub fn subscribe(
        &self,
        node: NodeId,
        interest: Interest,
        consumer: Arc<Consumer<L>>,
        no_local: bool,
    ) -> SubscriptionId {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        let pattern = interest.pattern.as_str().to_owned();
        state.presence.subscribe(node, &pattern);
        state.switch.insert(id, interest);
        state.subscriptions.insert(id, Subscription { consumer, node, no_local, pattern });
        self.count.store(state.subscriptions.len(), Ordering::Release);
        drop(state);
        self.bells.ring();
        id
    }

    /// Ends a subscription; its consumer is closed.
    pub fn unsubscribe(&self, id: SubscriptionId) {
        let mut state = self.lock();
        state.switch.remove(id);
        if let Some(subscription) = state.subscriptions.remove(&id) {
            subscription.consumer.close();
            state.presence.unsubscribe(subscription.node, &subscription.pattern);
        }
        self.count.store(state.subscriptions.len(), Ordering::Release);
        drop(state);
        self.bells.ring();
    }

    /// Ends every subscription of a node.
    pub fn unsubscribe_node(&self, node: NodeId) {
        let mut state = self.lock();
        let State { switch, subscriptions, presence } = &mut *state;
        subscriptions.retain(|&id, subscription| {
            let others = subscription.node != node;
            if !others {
                switch.remove(id);
                subscription.consumer.close();
                presence.unsubscribe(node, &subscription.pattern);
            }
            others
        });
        self.count.store(state.subscriptions.len(), Ordering::Release);
        drop(state);
        self.bells.ring();
    }

    /// Rings `bell` as `source` when a subscription begins, and when a full queue has room again.
    pub fn attach(&self, bell: &Arc<Bell>, source: u64) {
        self.bells.add(bell, source);
    }

    /// A queue that was full has room.
    pub fn tell_of_room(&self) {
        self.bells.ring();
    }

    /// The consumers that want a message.
    pub fn wanting(&self, view: &MessageView<'_>, origin: &Origin, found: &mut Vec<Arc<Consumer<L>>>) {
        found.clear();
        let mut state = self.lock();
        let State { switch, subscriptions, .. } = &mut *state;
        for Target { id, .. } in switch.route(view, origin).unwrap_or(&[]) {
            if let Some(subscription) = subscriptions.get(id)
                && !(subscription.no_local && subscription.node == origin.node)
            {
                found.push(subscription.consumer.clone());
            }
        }
    }

    /// The nodes that subscribe to a topic.
    pub fn interested(&self, topic: &[u8]) -> Vec<NodeId> {
        let mut state = self.lock();
        let State { switch, subscriptions, .. } = &mut *state;
        let ids = switch.subscribed(topic).iter();
        let mut nodes: Vec<NodeId> = ids
            .filter_map(|target| subscriptions.get(&target.id))
            .map(|subscription| subscription.node)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// A node joins an `inproc` domain.
    pub fn join(&self, node: NodeId) {
        self.lock().presence.join(node);
        self.bells.ring();
    }

    /// A node leaves, with all its subscriptions.
    pub fn leave(&self, node: NodeId) {
        self.unsubscribe_node(node);
        self.lock().presence.leave(node);
        self.bells.ring();
    }

    /// Everybody else in an `inproc` domain.
    pub fn others(&self, node: NodeId) -> Vec<NodeId> {
        self.lock().presence.others(node)
    }

    /// What happened in an `inproc` domain since the last call; `None` once `node` left.
    pub fn take_events(&self, node: NodeId) -> Option<VecDeque<BusEvent>> {
        self.lock().presence.take_events(node)
    }
}

/// `inproc` domains by name. A domain lives as long as somebody is connected to it.
pub struct Domains<L>(Mutex<Option<HashMap<String, Weak<LocalSwitch<L>>>>>);

impl<L> Domains<L> {
    /// None yet.
    pub const fn new() -> Domains<L> {
        Domains(Mutex::new(None))
    }

    /// The domain of this name.
    pub fn open(&self, name: &str, seed: u64) -> Arc<LocalSwitch<L>> {
        let mut domains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let domains = domains.get_or_insert_default();
        domains.retain(|_, domain| domain.strong_count() > 0);
        if let Some(domain) = domains.get(name).and_then(Weak::upgrade) {
            return domain;
        }
        let domain = Arc::new(LocalSwitch::new(seed));
        domains.insert(name.to_owned(), Arc::downgrade(&domain));
        domain
    }
}

impl<L> Default for Domains<L> {
    fn default() -> Domains<L> {
        Domains::new()
    }
}
