//! An inbox that keeps what arrives until somebody takes it.
//!
//! It is bounded in bytes. When it is full, streams are read no further and their senders wait; objects and commands
//! are refused, and objects are asked for again when there is room. What is told of senders, streams and objects is
//! short, and is taken until there is twice as much; then it is thrown away, and counted.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_node::norm::{Application, Frames, Taken};
use shoal_norm::{AbortReason, Chunk, Event, Session, StreamId, Time};
use shoal_wire::frame;

use crate::bell::{Bell, Bells};
use crate::files::{FileFailure, Files, StoredFile};

/// Parts of messages whose end has not come yet, of all streams together: so many of the longest messages.
const PARTS_MESSAGES_MAX: usize = 2;

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

impl Arrival {
    /// What it takes.
    fn bytes(&self) -> usize {
        let content = match self {
            Arrival::Message(_, body) => body.len(),
            Arrival::Event(Event::DataReceived { content, .. }) => content.len(),
            Arrival::Event(Event::FileChunk { bytes, .. }) => bytes.len(),
            Arrival::Event(Event::CommandReceived { content, .. } | Event::Info { content, .. }) => {
                content.len()
            }
            Arrival::Event(Event::AcksDone { acked, silent, .. }) => 4 * (acked.len() + silent.len()),
            Arrival::Event(Event::WatermarkDone(done)) => 4 * (done.acked.len() + done.silent.len()),
            Arrival::Event(_) => 0,
            Arrival::FileStored(stored) => stored.path.as_os_str().len(),
            Arrival::Broken(_, why) => why.len(),
            Arrival::FileFailed(failure) => failure.why().len(),
        };
        content + size_of::<Arrival>()
    }

    /// Whether it only tells of something, and carries nothing that was acknowledged.
    fn is_news(&self) -> bool {
        match self {
            Arrival::Event(event) => !matches!(
                event,
                Event::DataReceived { .. } | Event::FileChunk { .. } | Event::FileReceived { .. }
            ),
            Arrival::Broken(..) => true,
            Arrival::Message(..) | Arrival::FileStored(_) | Arrival::FileFailed(_) => false,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    arrivals: VecDeque<Arrival>,
    bytes: usize,
    /// How many were thrown away.
    lost: u64,
    closed: bool,
    /// Why nothing more comes, if the link failed.
    failure: Option<String>,
}

/// The taking end.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    bells: Bells,
    bytes_max: usize,
    files: Mutex<Files>,
}

impl Queue {
    /// A queue bounded in bytes, and the inbox that fills it with messages of up to `message_bytes_max`. Files that are
    /// received go into a directory, if there is one, and otherwise into the queue.
    pub fn new(
        bytes_max: usize,
        message_bytes_max: usize,
        files_directory: Option<PathBuf>,
    ) -> (Arc<Queue>, QueueInbox) {
        let files = Mutex::new(Files::new(files_directory));
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            arrived: Condvar::new(),
            bells: Bells::default(),
            bytes_max,
            files,
        });
        let frames = Frames::new(message_bytes_max, PARTS_MESSAGES_MAX * message_bytes_max);
        (queue.clone(), QueueInbox { queue, frames })
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

    /// Files being sent and received.
    pub fn files(&self) -> &Mutex<Files> {
        &self.files
    }

    fn lock_files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last thing the disk refused, once.
    pub fn take_file_error(&self) -> Option<String> {
        self.lock_files().error.take()
    }

    /// Why nothing more comes, if the link failed.
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// How many arrivals were thrown away because nobody took those before them.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// Rings `bell` as `source` when something arrived, or never will.
    pub fn attach(&self, bell: &Arc<Bell>, source: u64) {
        self.bells.add(bell, source);
        bell.ring(source);
    }

    fn is_full(&self) -> bool {
        self.lock().bytes >= self.bytes_max
    }

    fn put(&self, arrival: Arrival) {
        let mut state = self.lock();
        if state.bytes >= 2 * self.bytes_max && arrival.is_news() {
            state.lost += 1;
            return;
        }
        state.bytes += arrival.bytes();
        state.arrivals.push_back(arrival);
    }
}

/// A copy of an event; if there is no memory for an object it carries, that the object is given up.
fn kept(event: &Event) -> Event {
    let (Event::DataReceived { object, content } | Event::FileChunk { object, bytes: content, .. }) = event
    else {
        return event.clone();
    };
    let mut copy = Vec::new();
    if frame::append(&mut copy, content).is_err() {
        return Event::ObjectAborted { object: *object, reason: AbortReason::TooLarge };
    }
    match event {
        Event::FileChunk { object, offset, .. } => {
            Event::FileChunk { object: *object, offset: *offset, bytes: copy }
        }
        _ => Event::DataReceived { object: *object, content: copy },
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
        if queue.is_full() {
            return Taken::Nothing;
        }
        let each = |frame: &[u8]| {
            let mut message = Vec::new();
            queue.put(match frame::append(&mut message, frame) {
                Ok(()) => Arrival::Message(stream, message),
                Err(error) => Arrival::Broken(stream, error.to_string()),
            });
        };
        match self.frames.read(stream, chunk, each) {
            Ok(()) => Taken::All,
            Err(error) => {
                queue.put(Arrival::Broken(stream, error.to_string()));
                Taken::Broken
            }
        }
    }

    fn event(&mut self, _now: Time, session: &mut Session, event: &Event) {
        let about_file_only = self.queue.lock_files().on_event(event);
        if !about_file_only {
            self.frames.on_event(event);
            self.queue.put(Arrival::Event(kept(event)));
        }
        self.tell_files(session);
    }

    fn supply(&mut self, session: &mut Session) {
        self.queue.lock_files().serve(session);
        self.tell_files(session);
    }

    fn fail(&mut self, why: &str) {
        self.queue.lock().failure = Some(why.to_owned());
    }

    fn has_room(&self) -> bool {
        !self.queue.is_full()
    }

    fn batch_done(&mut self, _now: Time) {
        self.queue.arrived.notify_all();
        if !self.queue.lock().arrivals.is_empty() {
            self.queue.bells.ring();
        }
    }
}

impl QueueInbox {
    /// Tells what is complete, and what the disk refused, and asks nobody for more of that.
    fn tell_files(&mut self, session: &mut Session) {
        let mut files = self.queue.lock_files();
        if files.stored.is_empty() && files.failures.is_empty() {
            return;
        }
        let (stored, failures) = (std::mem::take(&mut files.stored), std::mem::take(&mut files.failures));
        drop(files);
        stored.into_iter().for_each(|stored| self.queue.put(Arrival::FileStored(stored)));
        for failure in failures {
            if let FileFailure::Receiving(object, _) = &failure {
                session.abandon_object(*object);
            }
            self.queue.put(Arrival::FileFailed(failure));
        }
        self.queue.arrived.notify_all();
        self.queue.bells.ring();
    }
}

impl Drop for QueueInbox {
    fn drop(&mut self) {
        self.queue.lock_files().discard_all();
        self.queue.lock().closed = true;
        self.queue.arrived.notify_all();
        self.queue.bells.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId { node: 7, instance: 1, object: 3 };

    fn told(inbox: &mut QueueInbox, event: &Event) {
        let mut session = Session::new(shoal_norm::Config::new(1, 1, 1)).unwrap();
        inbox.event(Time::ZERO, &mut session, event);
    }

    #[test]
    fn what_objects_hold_counts_and_a_full_queue_has_no_room_until_it_is_taken() {
        let contents = [
            Event::DataReceived { object: STREAM, content: vec![0; 600] },
            Event::FileChunk { object: STREAM, offset: 0, bytes: vec![0; 600] },
            Event::CommandReceived { node: 7, instance: 1, content: vec![0; 600] },
            Event::Info { stream: STREAM, content: vec![0; 600] },
        ];
        for event in contents {
            let (queue, mut inbox) = Queue::new(1000, 1 << 20, None);
            told(&mut inbox, &event);
            assert!(inbox.has_room());
            told(&mut inbox, &event);
            assert!(!inbox.has_room(), "{event:?}");
            let (arrivals, was_full) = queue.take(Some(Duration::ZERO)).unwrap();
            assert_eq!((arrivals.len(), was_full), (2, true));
            assert!(inbox.has_room());
        }
    }

    #[test]
    fn news_of_strangers_are_thrown_away_and_counted_when_nobody_takes_them() {
        let (queue, mut inbox) = Queue::new(100_000, 1 << 20, None);
        for node in 0..100_000 {
            told(&mut inbox, &Event::SenderHeard { node, instance: 1 });
        }
        let object = Event::DataReceived { object: STREAM, content: vec![0; 600] };
        told(&mut inbox, &object);
        let (mut arrivals, _) = queue.take(Some(Duration::ZERO)).unwrap();
        assert!(arrivals.len() * size_of::<Arrival>() <= 201_000, "{}", arrivals.len());
        assert_eq!(arrivals.len() as u64 + queue.lost(), 100_001);
        assert_eq!(arrivals.pop_back(), Some(Arrival::Event(object)), "what was acknowledged is not lost");
    }
}
