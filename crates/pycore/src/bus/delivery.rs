//! Delivery to the subscriptions of this process: what publishing does when their queues are full.
//!
//! | `when_full` | a queue is full                                                                      |
//! |-------------|--------------------------------------------------------------------------------------|
//! | `block`     | wait; on a network only for `patience`, and then lose messages as a slow member does |
//! | `drop`      | the message is dropped for that queue                                                |
//! | `error`     | nobody gets the message                                                              |
//!
//! A callback never waits for its own queue, and for no other longer than `patience`: two callbacks that
//! feed each other would wait for ever.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use shoal_io::bus::Consumer;
use shoal_io::norm::SendError;

use super::exit::{check, detached};
use super::message::Message;
use super::node::SIGNAL_CHECK;
use crate::errors;

pub type LocalConsumer = Arc<Consumer<Py<Message>>>;

thread_local! {
    /// The queue whose callback runs on this thread, by its address.
    static CALLING: Cell<usize> = const { Cell::new(0) };
}

fn address(consumer: &LocalConsumer) -> usize {
    Arc::as_ptr(consumer) as usize
}

/// Says that this thread runs the callback of a queue, and does nothing else.
pub fn mark_callback_thread(consumer: &LocalConsumer) {
    CALLING.set(address(consumer));
}

/// What publishing does when nobody takes more.
#[derive(Copy, Clone, PartialEq, Eq)]
pub enum WhenFull {
    Block,
    Drop,
    Error,
}

/// How long to wait for the queues of this process.
#[derive(Copy, Clone)]
pub struct Patience {
    pub when_full: WhenFull,
    /// When the publisher gives up.
    pub deadline: Option<Instant>,
    /// When he began to wait, if he comes back.
    pub began: Option<Instant>,
    /// How long a reader may make no progress.
    pub patience: Duration,
    /// Whether there are others than this process, who must not wait for it.
    pub on_network: bool,
}

/// Waits until every queue has room. Those that have none in the end are taken out of `consumers`; false if
/// there are such and the publisher is to know.
pub fn make_room(py: Python<'_>, consumers: &mut Vec<LocalConsumer>, patience: Patience) -> PyResult<bool> {
    let mut complete = true;
    let mut refused = None;
    consumers.retain(|consumer| {
        if refused.is_some() || !consumer.holds_back() {
            return true;
        }
        match patience.when_full {
            WhenFull::Error => refused = Some(errors::send(SendError::Full)),
            WhenFull::Drop => {
                complete = false;
                return false;
            }
            WhenFull::Block => match wait(py, consumer, patience) {
                Ok(has_room) => return has_room,
                Err(error) => refused = Some(error),
            },
        }
        true
    });
    refused.map_or(Ok(complete), Err)
}

/// Waits for one queue. False if its reader was given up.
fn wait(py: Python<'_>, consumer: &LocalConsumer, patience: Patience) -> PyResult<bool> {
    let calling = CALLING.get();
    if calling == address(consumer) {
        return Err(errors::full(
            "the queue of this callback is full, and it cannot be waited for inside the callback itself",
        ));
    }
    if patience.on_network && consumer.is_given_up() {
        consumer.give_up();
        return Ok(false);
    }
    let began = patience.began.unwrap_or_else(Instant::now);
    loop {
        let now = Instant::now();
        if now.duration_since(began) >= patience.patience {
            if patience.on_network {
                consumer.give_up();
                return Ok(false);
            }
            if calling != 0 {
                return Err(errors::full(
                    "a queue stayed full for slow_after_s, and a callback does not wait longer: two callbacks \
                     may be waiting for each other",
                ));
            }
        }
        if patience.deadline.is_some_and(|deadline| deadline <= now) {
            return Err(errors::send(SendError::Full));
        }
        let slice = now + SIGNAL_CHECK.min(patience.patience);
        let until = patience.deadline.map_or(slice, |deadline| deadline.min(slice));
        if detached(py, || consumer.wait_for_room(until)) {
            return Ok(true);
        }
        check(py)?;
    }
}
