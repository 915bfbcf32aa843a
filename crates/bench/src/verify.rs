//! An inbox for measurements: it compares every byte with what must have been sent, and counts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use shoal_node::norm::{Application, Frames, Taken};
use shoal_norm::{Chunk, Event, Session, StreamId, Time};

/// A message starts with its number; the rest follows from it.
const NUMBER_BYTES: usize = 8;

/// Fills `body` as the message with this number: the number, then bytes that count on from it.
pub fn fill_pattern(number: u64, body: &mut [u8]) {
    let (head, rest) = body.split_at_mut(NUMBER_BYTES.min(body.len()));
    head.copy_from_slice(&number.to_le_bytes()[..head.len()]);
    for (at, byte) in rest.iter_mut().enumerate() {
        *byte = (number as usize + at) as u8;
    }
}

/// What was verified so far.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Messages that were right.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was wrong, if anything was.
    pub fault: Option<String>,
    /// When the first and the last message came.
    pub span: Option<(Instant, Instant)>,
    /// Its stream ended.
    pub ended: bool,
    /// Its sender said goodbye.
    pub gone: bool,
}

/// The inbox.
#[derive(Debug)]
pub struct VerifyInbox {
    /// Counting bytes, twice around, so that any message's pattern is one slice of it.
    pattern: Vec<u8>,
    frames: Frames,
    local: Verified,
    shared: Arc<Mutex<Verified>>,
}

impl VerifyInbox {
    /// For messages of up to `message_bytes_max`. The second value follows along, batch by batch.
    pub fn new(message_bytes_max: usize) -> (VerifyInbox, Arc<Mutex<Verified>>) {
        let shared = Arc::new(Mutex::new(Verified::default()));
        let pattern = (0..message_bytes_max + 256).map(|at| at as u8).collect();
        let frames = Frames::new(message_bytes_max, 2 * message_bytes_max);
        (VerifyInbox { pattern, frames, local: Verified::default(), shared: shared.clone() }, shared)
    }
}

impl Verified {
    fn check(&mut self, frame: &[u8], pattern: &[u8]) {
        let number = self.messages;
        let start = number as usize % 256;
        let right = frame.len() >= NUMBER_BYTES
            && frame[..NUMBER_BYTES] == number.to_le_bytes()
            && pattern.get(start..start + frame.len() - NUMBER_BYTES) == Some(&frame[NUMBER_BYTES..]);
        if !right {
            self.fail(format!("message {number} came out wrong or out of order"));
        }
        self.messages += 1;
        self.bytes += frame.len() as u64;
    }

    fn fail(&mut self, why: String) {
        self.fault.get_or_insert(why);
    }
}

impl Application for VerifyInbox {
    fn take(&mut self, _now: Time, stream: StreamId, chunk: Chunk<'_>) -> Taken {
        let (local, pattern) = (&mut self.local, &self.pattern);
        match self.frames.read(stream, chunk, |frame| local.check(frame, pattern)) {
            Ok(()) => Taken::All,
            Err(error) => {
                self.local.fail(error.to_string());
                Taken::Broken
            }
        }
    }

    fn event(&mut self, _now: Time, _session: &mut Session, event: &Event) {
        match event {
            Event::StreamClosed { .. } => self.local.ended = true,
            Event::SenderGone { .. } => self.local.gone = true,
            Event::Gap { segments, .. } => self.local.fail(format!("{segments} segments were lost")),
            _ => {}
        }
    }

    fn fail(&mut self, why: &str) {
        self.local.fail(why.to_owned());
        self.batch_done(Time::ZERO);
    }

    fn batch_done(&mut self, _now: Time) {
        let now = Instant::now();
        if self.local.messages > 0 {
            self.local.span = Some((self.local.span.map_or(now, |(first, _)| first), now));
        }
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.local);
    }
}
