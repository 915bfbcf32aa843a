//! One lane of a link on its way into its stream.

use shoal_norm::{ObjectId, Session, Time};
use shoal_wire::frame;

use crate::hub::{Chains, LinkId};

/// A lane's stream, and what is being written to it.
#[derive(Debug)]
pub struct LaneWriter {
    /// The stream.
    pub object: ObjectId,
    bytes: Vec<u8>,
    at: usize,
    /// Bytes left of the frame being written.
    frame_left: usize,
    /// Written, but not flushed.
    unflushed: bool,
    /// Written before the rest: what the application says.
    head: Vec<u8>,
    head_at: usize,
    /// Bytes of frames that the stream has taken, ever.
    written: u64,
}

impl LaneWriter {
    /// One of which nothing is written.
    pub fn new(object: ObjectId) -> LaneWriter {
        LaneWriter {
            object,
            bytes: Vec::new(),
            at: 0,
            frame_left: 0,
            unflushed: false,
            head: Vec::new(),
            head_at: 0,
            written: 0,
        }
    }

    /// Bytes of frames that the stream has taken, ever.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.at + self.head.len() - self.head_at
    }

    /// Says something before the next message, in whole frames.
    pub fn say_first(&mut self, frames: &[u8]) {
        self.head.extend_from_slice(frames);
    }

    /// Moves what waits for the link into the stream, as far as that takes it.
    pub fn write(&mut self, now: Time, session: &mut Session, chains: &Chains, link: LinkId, number: usize) {
        loop {
            if self.at == self.bytes.len() {
                self.at = 0;
                self.bytes.clear();
                if !chains.take(number, link, &mut self.bytes) && self.waiting() == 0 {
                    return;
                }
            }
            let before = self.at;
            let all = self.write_frames(now, session);
            self.written += (self.at - before) as u64;
            if !all {
                return;
            }
        }
    }

    /// Sends what is written without waiting for its segment to fill, unless segments before it have yet to be sent: while
    /// they wait, more may come and fill it.
    #[inline]
    pub fn flush(&mut self, now: Time, session: &mut Session) {
        if self.unflushed && self.waiting() == 0 && session.segments_waiting(self.object) == 0 {
            self.unflushed = false;
            let _ = session.flush(now, self.object);
        }
    }

    /// Whether something was written that waits for its segment to fill.
    pub fn is_unflushed(&self) -> bool {
        self.unflushed
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
        }
        true
    }
}
