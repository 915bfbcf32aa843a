//! An inbox that keeps what arrives until somebody takes it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_norm::{Chunk, Event, Session, StreamId, Time};

use super::frames::Frames;
use super::{Application, Taken};
use crate::files::{FileFailure, StoredFile};

/// What arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A message.
    Message(StreamId, Vec<u8>),
    /// Something else.
    Event(Event),
    /// A stream held what cannot be a frame.
    Broken(StreamId, String),
    /// A file is complete.
    FileStored(StoredFile),
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
    /// A queue bounded in bytes, and the inbox that fills it with messages of up to `message_bytes_max`.
    pub fn new(bytes_max: usize, message_bytes_max: usize) -> (Arc<Queue>, QueueInbox) {
        let queue = Arc::new(Queue { state: Mutex::default(), arrived: Condvar::new(), bytes_max });
        (queue.clone(), QueueInbox { queue, frames: Frames::new(message_bytes_max) })
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
pub struct QueueInbox {
    queue: Arc<Queue>,
    frames: Frames,
}

impl Application for QueueInbox {
    fn take(&mut self, _now: Time, stream: StreamId, chunk: Chunk<'_>) -> Taken {
        let queue = &self.queue;
        if queue.lock().bytes >= queue.bytes_max {
            return Taken::Nothing;
        }
        let each = |frame: &[u8]| queue.put(Arrival::Message(stream, frame.to_vec()), frame.len());
        match self.frames.read(stream, chunk, each) {
            Ok(()) => Taken::All,
            Err(error) => {
                queue.put(Arrival::Broken(stream, error.to_string()), 0);
                Taken::Broken
            }
        }
    }

    fn event(&mut self, _now: Time, _session: &mut Session, event: &Event) {
        self.frames.on_event(event);
        self.queue.put(Arrival::Event(event.clone()), 0);
    }

    fn file_stored(&mut self, stored: &StoredFile) {
        self.queue.put(Arrival::FileStored(stored.clone()), 0);
    }

    fn file_failed(&mut self, failure: &FileFailure) {
        self.queue.put(Arrival::FileFailed(failure.clone()), 0);
    }

    fn batch_done(&mut self) {
        self.queue.arrived.notify_all();
    }
}

impl Drop for QueueInbox {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_all();
    }
}
