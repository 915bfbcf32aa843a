//! Which queue's callback a thread runs: publishing inside of it must not wait for that queue.

use std::cell::RefCell;
use std::sync::Arc;

use shoal_node::hub::Consumer;

thread_local! {
    static CALLING: RefCell<Option<Arc<Consumer>>> = const { RefCell::new(None) };
}

/// Says that this thread runs the callback of a queue, and does nothing else.
pub fn mark_callback_thread(consumer: &Arc<Consumer>) {
    CALLING.replace(Some(consumer.clone()));
}

/// The queue whose callback runs on this thread.
pub fn calling() -> Option<Arc<Consumer>> {
    CALLING.with_borrow(Clone::clone)
}
