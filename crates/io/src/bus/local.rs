//! Delivery inside the process: what is published here goes to the subscriptions here as it is.
//!
//! A bus on a network has one of these for itself. Buses on an `inproc` domain share one, and have
//! nothing else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use shoal_node::{Interest, Origin, SubscriptionId, Switch, Target};
use shoal_norm::NodeId;
use shoal_wire::MessageView;

use super::consumer::Consumer;

struct Subscription<L> {
    consumer: Arc<Consumer<L>>,
    node: NodeId,
    no_local: bool,
}

struct State<L> {
    switch: Switch,
    subscriptions: HashMap<SubscriptionId, Subscription<L>>,
}

/// The subscriptions of a process, or of an `inproc` domain.
pub struct LocalSwitch<L> {
    state: Mutex<State<L>>,
    changed: Condvar,
    count: AtomicUsize,
    next: AtomicU64,
}

impl<L> LocalSwitch<L> {
    /// One without subscriptions.
    pub fn new(seed: u64) -> LocalSwitch<L> {
        let state = State { switch: Switch::new(seed), subscriptions: HashMap::new() };
        LocalSwitch {
            state: Mutex::new(state),
            changed: Condvar::new(),
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
        state.switch.insert(id, interest);
        state.subscriptions.insert(id, Subscription { consumer, node, no_local });
        self.count.store(state.subscriptions.len(), Ordering::Release);
        self.changed.notify_all();
        id
    }

    /// Ends a subscription; its consumer is closed.
    pub fn unsubscribe(&self, id: SubscriptionId) {
        let mut state = self.lock();
        state.switch.remove(id);
        if let Some(subscription) = state.subscriptions.remove(&id) {
            subscription.consumer.close();
        }
        self.count.store(state.subscriptions.len(), Ordering::Release);
    }

    /// Ends every subscription of a node.
    pub fn unsubscribe_node(&self, node: NodeId) {
        let mut state = self.lock();
        let State { switch, subscriptions } = &mut *state;
        subscriptions.retain(|&id, subscription| {
            let others = subscription.node != node;
            if !others {
                switch.remove(id);
                subscription.consumer.close();
            }
            others
        });
        self.count.store(state.subscriptions.len(), Ordering::Release);
    }

    /// The consumers that want a message.
    pub fn wanting(&self, view: &MessageView<'_>, origin: &Origin, found: &mut Vec<Arc<Consumer<L>>>) {
        found.clear();
        let mut state = self.lock();
        let State { switch, subscriptions } = &mut *state;
        for Target { id, .. } in switch.route(view, origin).unwrap_or(&[]) {
            if let Some(subscription) = subscriptions.get(id)
                && !(subscription.no_local && subscription.node == origin.node)
            {
                found.push(subscription.consumer.clone());
            }
        }
    }

    /// How many nodes other than `node` subscribe to a topic.
    pub fn interested(&self, node: NodeId, topic: &[u8]) -> Vec<NodeId> {
        let mut state = self.lock();
        let State { switch, subscriptions } = &mut *state;
        let ids = switch.subscribed(topic).iter();
        let mut nodes: Vec<NodeId> = ids
            .filter_map(|target| subscriptions.get(&target.id))
            .map(|subscription| subscription.node)
            .collect();
        nodes.retain(|&other| other != node);
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Waits until so many nodes other than `node` subscribe to a topic.
    pub fn wait_interested(
        &self,
        node: NodeId,
        topic: &[u8],
        count: usize,
        deadline: Option<Instant>,
    ) -> bool {
        loop {
            if self.interested(node, topic).len() >= count {
                return true;
            }
            let left =
                deadline.map_or(Duration::from_secs(1), |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            // A subscription made between the look and the wait is seen at the next look.
            let pause = left.min(Duration::from_millis(20));
            let _ = self.changed.wait_timeout(self.lock(), pause).unwrap_or_else(PoisonError::into_inner);
        }
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
