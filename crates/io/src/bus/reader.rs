//! The reading end of a subscription: its queue, and where to wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_node::SubscriptionId;
use shoal_node::hub::Wake as _;
use shoal_node::hub::{Consumer, Taken};

use crate::bell::Bell;
use crate::waiter::Waiter;

/// A subscription as whoever reads it holds it.
#[derive(Clone)]
pub struct Reader {
    /// Its name in the hub.
    pub id: SubscriptionId,
    consumer: Arc<Consumer>,
    arrived: Arc<Waiter>,
}

impl Reader {
    pub(super) fn new(id: SubscriptionId, consumer: Arc<Consumer>, arrived: Arc<Waiter>) -> Reader {
        Reader { id, consumer, arrived }
    }

    /// Its queue.
    #[inline]
    pub fn consumer(&self) -> &Arc<Consumer> {
        &self.consumer
    }

    /// Takes what waited longest. `None` if it is closed and empty.
    pub fn take(&self) -> Option<Taken> {
        let taken = self.consumer.take();
        if self.consumer.is_idle() {
            self.arrived.lower();
            if !self.consumer.is_idle() {
                self.arrived.wake();
            }
        }
        taken
    }

    /// Rings `bell` as `source` when there is something to take, or never will be.
    pub fn attach(&self, bell: &Arc<Bell>, source: u64) {
        self.arrived.attach(bell, source);
        if !self.consumer.is_idle() {
            self.arrived.wake();
        }
    }

    /// Waits until there is something to take, or never will be, at most for `limit`.
    pub fn wait_for_items(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            let seen = self.arrived.seen();
            if !self.consumer.is_idle() || !self.arrived.wait(seen, deadline) {
                return;
            }
        }
    }
}
