//! An inbox for measurements: it compares every byte with what must have been sent, and counts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use shoal_norm::{Event, Session, StreamId, Time};

use super::Application;

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
}

/// The inbox.
#[derive(Debug)]
pub struct VerifyInbox {
    /// Counting bytes, twice around, so that any message's pattern is one slice of it.
    pattern: Vec<u8>,
    local: Verified,
    shared: Arc<Mutex<Verified>>,
}

impl VerifyInbox {
    /// For messages of up to `message_bytes_max`. The second value follows along, batch by batch.
    pub fn new(message_bytes_max: usize) -> (VerifyInbox, Arc<Mutex<Verified>>) {
        let shared = Arc::new(Mutex::new(Verified::default()));
        let pattern = (0..message_bytes_max + 256).map(|at| at as u8).collect();
        (VerifyInbox { pattern, local: Verified::default(), shared: shared.clone() }, shared)
    }

    fn fail(&mut self, why: String) {
        self.local.fault.get_or_insert(why);
    }
}

impl Application for VerifyInbox {
    fn has_room(&self, _stream: StreamId) -> bool {
        true
    }

    fn frame(&mut self, _now: Time, _stream: StreamId, frame: &[u8]) {
        let number = self.local.messages;
        let start = number as usize % 256;
        let right = frame.len() >= NUMBER_BYTES
            && frame[..NUMBER_BYTES] == number.to_le_bytes()
            && self.pattern.get(start..start + frame.len() - NUMBER_BYTES) == Some(&frame[NUMBER_BYTES..]);
        if !right {
            self.fail(format!("message {number} came out wrong or out of order"));
        }
        self.local.messages += 1;
        self.local.bytes += frame.len() as u64;
    }

    fn event(&mut self, _now: Time, _session: &mut Session, event: &Event) {
        match event {
            Event::StreamClosed { .. } => self.local.ended = true,
            Event::Gap { segments, .. } => self.fail(format!("{segments} segments were lost")),
            _ => {}
        }
    }

    fn broken(&mut self, _stream: StreamId, why: &str) {
        self.fail(why.to_owned());
    }

    fn batch_done(&mut self) {
        let now = Instant::now();
        if self.local.messages > 0 {
            self.local.span = Some((self.local.span.map_or(now, |(first, _)| first), now));
        }
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.local);
    }
}
