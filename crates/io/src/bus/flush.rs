//! Waiting until every member has what was published.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use shoal_norm::{NodeId, ObjectId, Session, Time, Watermark};

use crate::norm::Outbox;

/// One call that waits.
#[derive(Debug)]
struct Waiter {
    id: u64,
    /// For each lane: how much must have been written before its watermark is asked for; then whether it was.
    lanes: Vec<Step>,
    silent: BTreeSet<NodeId>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Step {
    Write(u64),
    Acknowledge,
    Done,
}

#[derive(Debug, Default)]
struct State {
    waiters: Vec<Waiter>,
    next: u64,
    closed: bool,
}

/// Everybody who waits.
#[derive(Debug, Default)]
pub struct Flushes {
    state: Mutex<State>,
    changed: Condvar,
}

impl Flushes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts waiting for all that was appended so far; returns what to wait with.
    pub fn begin(&self, outbox: &Outbox) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        let id = state.next;
        // The first lane is the application's own; of one that nothing was published on, everybody has everything.
        let lanes = outbox.appended().into_iter().enumerate();
        let done = |lane, bytes| lane == 0 || bytes == 0;
        let lanes = lanes
            .map(|(lane, bytes)| if done(lane, bytes) { Step::Done } else { Step::Write(bytes) })
            .collect();
        state.waiters.push(Waiter { id, lanes, silent: BTreeSet::new() });
        id
    }

    /// Waits until `deadline`; returns who did not answer, or `None` if it is not over: then wait again,
    /// or [`Flushes::end`].
    pub fn wait(&self, id: u64, deadline: Instant) -> Option<Vec<NodeId>> {
        let mut state = self.lock();
        loop {
            let at = state.waiters.iter().position(|waiter| waiter.id == id)?;
            if state.waiters[at].lanes.iter().all(|&step| step == Step::Done) {
                return Some(state.waiters.swap_remove(at).silent.into_iter().collect());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Stops waiting.
    pub fn end(&self, id: u64) {
        self.lock().waiters.retain(|waiter| waiter.id != id);
    }

    /// Asks for the watermarks whose time has come.
    pub fn serve(&self, now: Time, session: &mut Session, outbox: &Outbox) {
        let mut state = self.lock();
        for waiter in &mut state.waiters {
            for (lane, step) in waiter.lanes.iter_mut().enumerate() {
                if let Step::Write(bytes) = *step
                    && outbox.written(lane) >= bytes
                    && session.request_watermark(now, lane as ObjectId).is_ok()
                {
                    *step = Step::Acknowledge;
                }
            }
        }
    }

    /// A watermark is settled; it covers every one asked for before.
    pub fn on_watermark(&self, watermark: &Watermark) {
        let mut state = self.lock();
        for waiter in &mut state.waiters {
            if let Some(step) = waiter.lanes.get_mut(usize::from(watermark.object))
                && *step == Step::Acknowledge
            {
                *step = Step::Done;
                waiter.silent.extend(&watermark.silent);
            }
        }
        self.changed.notify_all();
    }

    /// Lets nobody wait any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}
