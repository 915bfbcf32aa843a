//! Where the reader of a received stream is, and what it is told on its way.

use super::window::Window;
use crate::event::{CloseReason, Event, GapReason, StreamId};
use crate::stats::Stats;

/// Bytes of a stream that can be read now.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// These do not continue what was read before: the stream was joined here, or something before was
    /// lost. They start with a message.
    pub fresh: bool,
}

/// Somebody who reads a stream's bytes where they arrived. False leaves them to be kept.
pub type Take<'a> = dyn FnMut(StreamId, Chunk<'_>) -> bool + 'a;

/// The reader's place in the first segment of a window.
#[derive(Debug)]
pub struct Reader {
    stream: StreamId,
    /// The number of the stream's first segment.
    origin: u64,
    /// Bytes already read of the segment.
    at: usize,
    /// Skip to where a message starts.
    seeking: bool,
    /// What comes next does not continue what was read.
    pub fresh: bool,
    /// Segments lost since the last one read: the first, and how many.
    gap: Option<(u64, u64)>,
    /// That there is something to read was told.
    announced: bool,
    pub ended: bool,
}

impl Reader {
    /// One that begins with a whole message, for which it may have to seek.
    pub fn new(stream: StreamId, origin: u64, seeking: bool) -> Reader {
        Reader { stream, origin, at: 0, seeking, fresh: true, gap: None, announced: false, ended: false }
    }

    /// Begins anew, with the next message.
    pub fn restart(&mut self) {
        (self.at, self.seeking, self.fresh, self.gap) = (0, true, true, None);
    }

    /// Whether it takes what comes next as it is, with nothing to be told before it.
    pub fn is_waiting(&self) -> bool {
        self.gap.is_none() && !(self.seeking || self.ended)
    }

    /// Segments before the next one to be read are lost, from this one on.
    pub fn lose(&mut self, first: u64, count: u64) {
        let (_, lost) = self.gap.get_or_insert((first, 0));
        *lost += count;
        (self.seeking, self.at) = (true, 0);
    }

    /// Brings the reader to the next byte there is, telling on the way what it passes.
    pub fn settle(&mut self, window: &mut Window, stats: &mut Stats, mut tell: impl FnMut(Event)) {
        let stream = self.stream;
        while !self.ended && window.first < window.complete {
            let Some(header) = window.reader_header() else {
                self.lose(window.first, 1);
                window.release_first();
                continue;
            };
            if header.is_stream_end() {
                self.tell_gap(stats, &mut tell);
                self.ended = true;
                tell(Event::StreamClosed { stream, reason: CloseReason::Ended });
                return;
            }
            if header.length == 0 || (self.seeking && header.message_start == 0) {
                window.release_first();
                continue;
            }
            if self.seeking {
                self.at = usize::from(header.message_start) - 1;
                self.seeking = false;
                self.fresh = true;
            }
            self.tell_gap(stats, &mut tell);
            if !self.announced {
                self.announced = true;
                tell(Event::Readable { stream });
            }
            return;
        }
    }

    fn tell_gap(&mut self, stats: &mut Stats, tell: &mut impl FnMut(Event)) {
        if let Some((first, segments)) = self.gap.take() {
            stats.segments_lost += segments;
            let first_segment = first.saturating_sub(self.origin);
            tell(Event::Gap { stream: self.stream, first_segment, segments, reason: GapReason::Squelched });
        }
    }

    /// Gives what can be read now. That there is something is told anew only after nothing was given.
    pub fn read<'a>(&mut self, window: &'a Window) -> Option<Chunk<'a>> {
        let readable = !self.ended && !self.seeking && window.first < window.complete;
        self.announced = readable;
        if !readable {
            return None;
        }
        let bytes = window.run(self.at);
        if bytes.is_empty() {
            self.announced = false;
            return None;
        }
        Some(Chunk { bytes, fresh: self.fresh })
    }

    /// The reader lost its place: skip to where the next message starts.
    pub fn resync(&mut self, window: &mut Window) {
        self.seeking = true;
        if self.at > 0 && window.first < window.complete {
            window.release_first();
            self.at = 0;
        }
    }

    /// So many bytes of the chunk were read.
    pub fn consume(&mut self, window: &mut Window, mut bytes: usize) {
        self.fresh &= bytes == 0;
        while bytes > 0 {
            let Some(header) = window.reader_header() else { return };
            let left = usize::from(header.length) - self.at;
            if bytes < left {
                self.at += bytes;
                return;
            }
            bytes -= left;
            self.at = 0;
            window.release_first();
        }
    }
}
