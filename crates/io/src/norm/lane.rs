//! One lane of a link on its way into its stream.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shoal_norm::{ObjectId, Session, Time};
use shoal_wire::{Mark, frame};

use super::outbox::Outbox;

/// Marks are at least so far apart.
const MARK_INTERVAL: Duration = Duration::from_millis(1);

/// A lane's stream, and what is being written to it.
#[derive(Debug)]
pub struct Lane {
    pub object: ObjectId,
    bytes: Vec<u8>,
    at: usize,
    /// Bytes left of the frame being written.
    frame_left: usize,
    /// Written, but not flushed.
    unflushed: bool,
    /// Written before the rest: a mark, or what the application says.
    head: Vec<u8>,
    head_at: usize,
    marks: bool,
    marked_at: Time,
    marked_version: u64,
    /// Messages written so far.
    messages: u64,
}

impl Lane {
    pub fn new(object: ObjectId, marks: bool) -> Lane {
        Lane {
            object,
            bytes: Vec::new(),
            at: 0,
            frame_left: 0,
            unflushed: false,
            head: Vec::new(),
            head_at: 0,
            marks,
            marked_at: Time::ZERO,
            marked_version: 0,
            messages: 0,
        }
    }

    /// Says when the messages that follow are sent, unless that was said a moment ago.
    fn mark(&mut self, now: Time, version: u64) {
        let said =
            self.messages > 0 && now.since(self.marked_at) < MARK_INTERVAL && version == self.marked_version;
        if !self.marks || said {
            return;
        }
        (self.marked_at, self.marked_version) = (now, version);
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut record = Vec::with_capacity(32);
        let mark = Mark {
            source: None,
            chain: self.object.into(),
            number: self.messages,
            timestamp_us: timestamp.as_micros() as u64,
            clock_us: now.as_nanos() / 1000,
            version,
        };
        mark.write(&mut record);
        frame::write(&record, &mut self.head);
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.at + self.head.len() - self.head_at
    }

    /// Says something before the next message, in whole frames.
    pub fn say_first(&mut self, frames: &[u8]) {
        self.head.extend_from_slice(frames);
    }

    /// Moves what waits in the outbox into the stream, as far as that takes it; `version` is what marks say.
    pub fn write(&mut self, now: Time, session: &mut Session, outbox: &Outbox, number: usize, version: u64) {
        loop {
            if self.at == self.bytes.len() {
                self.at = 0;
                self.bytes.clear();
                if outbox.exchange(number, &mut self.bytes) {
                    self.mark(now, version);
                } else if self.waiting() == 0 {
                    if std::mem::take(&mut self.unflushed) {
                        let _ = session.flush(now, self.object);
                    }
                    return;
                }
            }
            let before = self.at;
            let all = self.write_frames(now, session);
            outbox.add_written(number, self.at - before);
            if !all {
                return;
            }
        }
    }

    /// Writes frames to the stream. False if it took no more.
    fn write_frames(&mut self, now: Time, session: &mut Session) -> bool {
        // The head goes in between two messages, and frames of it may go out one by one.
        while self.frame_left == 0 && self.head_at < self.head.len() {
            let part = &self.head[self.head_at..];
            let taken = session.write(now, self.object, part, self.head_at == 0).unwrap_or(part.len());
            self.head_at += taken;
            self.unflushed = true;
            if self.head_at < self.head.len() {
                return false;
            }
            self.head.clear();
            self.head_at = 0;
        }
        while self.at < self.bytes.len() {
            let starts = self.frame_left == 0;
            if starts {
                self.frame_left = frame::frame_bytes(&self.bytes[self.at..]);
            }
            let part = &self.bytes[self.at..self.at + self.frame_left];
            let Ok(taken) = session.write(now, self.object, part, starts) else {
                // The stream is closed: nothing more can go.
                (self.at, self.frame_left) = (self.bytes.len(), 0);
                return false;
            };
            if taken == 0 && starts {
                self.frame_left = 0;
                return false;
            }
            self.unflushed = true;
            self.at += taken;
            self.frame_left -= taken;
            if self.frame_left > 0 {
                return false;
            }
            self.messages += 1;
        }
        true
    }
}
