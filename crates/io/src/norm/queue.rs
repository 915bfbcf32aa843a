//! An inbox that keeps what arrives until somebody takes it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_norm::{Event, Session, StreamId, Time};

use super::Application;
use crate::files::FileFailure;

/// What arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A message.
    Message(StreamId, Vec<u8>),
    /// Something else.
    Event(Event),
    /// A stream held what cannot be a frame.
    Broken(StreamId, String),
    /// The disk refused a file.
    FileFailed(FileFailure),
}

#[derive(Debug, Default)]
struct State {
    arrivals: VecDeque<Arrival>,
    bytes: usize,
    closed: bool,
}

/// The taking end.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    bytes_max: usize,
}

impl Queue {
    /// A queue bounded in bytes, and the inbox that fills it.
    pub fn new(bytes_max: usize) -> (Arc<Queue>, QueueInbox) {
        let queue = Arc::new(Queue { state: Mutex::default(), arrived: Condvar::new(), bytes_max });
        (queue.clone(), QueueInbox(queue))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything there is, waiting until `limit` for the first. Empty if nothing came; `None` if
    /// nothing ever will. The flag says whether the inbox was full and has room now.
    pub fn take(&self, limit: Option<Duration>) -> Option<(VecDeque<Arrival>, bool)> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut state = self.lock();
        while state.arrivals.is_empty() && !state.closed {
            state = match deadline {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        if state.arrivals.is_empty() && state.closed {
            return None;
        }
        let was_full = state.bytes >= self.bytes_max;
        state.bytes = 0;
        Some((std::mem::take(&mut state.arrivals), was_full))
    }

    fn put(&self, arrival: Arrival, bytes: usize) {
        let mut state = self.lock();
        state.arrivals.push_back(arrival);
        // What an entry costs beside its content.
        state.bytes += bytes + 64;
    }
}

/// The filling end.
#[derive(Debug)]
pub struct QueueInbox(Arc<Queue>);

impl Application for QueueInbox {
    fn has_room(&self, _stream: StreamId) -> bool {
        self.0.lock().bytes < self.0.bytes_max
    }

    fn frame(&mut self, _now: Time, stream: StreamId, frame: &[u8]) {
        self.0.put(Arrival::Message(stream, frame.to_vec()), frame.len());
    }

    fn event(&mut self, _now: Time, _session: &mut Session, event: &Event) {
        self.0.put(Arrival::Event(event.clone()), 0);
    }

    fn broken(&mut self, stream: StreamId, why: &str) {
        self.0.put(Arrival::Broken(stream, why.to_owned()), 0);
    }

    fn file_failed(&mut self, failure: &FileFailure) {
        self.0.put(Arrival::FileFailed(failure.clone()), 0);
    }

    fn batch_done(&mut self) {
        self.0.arrived.notify_all();
    }
}

impl Drop for QueueInbox {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.arrived.notify_all();
    }
}
