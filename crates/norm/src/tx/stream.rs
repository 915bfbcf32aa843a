//! One stream being sent: its segments from being written to being released.
//!
//! ```text
//!   first ≤ … repairable … ≤ sent ≤ … sealed, waiting … ≤ head (being filled)
//! ```
//! Numbers count segments from the stream's first; they never wrap. What wraps is their form on the wire.

use std::collections::VecDeque;
use std::time::Duration;

use super::acks::AckProcess;
use super::announcements::Announcements;
use super::cache::SegmentCache;
use super::order::{SendOrder, Step};
use super::owed::Owed;
use super::run::Segmented;
use super::template::Template;
use super::window::SendWindow;
use crate::layout::Layout;
use crate::share::Share;
use crate::time::Time;
use crate::wire::command::Position;
use crate::wire::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Config, ObjectId, StreamOptions};

/// How often the last segment of a quiet stream is announced to a large group.
const QUIET_ANNOUNCEMENTS: u32 = 2;
/// With more ackers than this a group is large.
pub(super) const SMALL_GROUP_ACKERS_MAX: usize = 8;

/// Where a stream is in its life.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// It takes data.
    Open,
    /// Its end is written; what is cached is still repaired.
    Ending,
}

/// A stream being sent.
#[derive(Debug)]
pub struct TxStream {
    pub object: ObjectId,
    /// Its part of new data, and of repairs.
    pub data_share: Share,
    pub repair_share: Share,
    pub info: Vec<u8>,
    pub owed: Owed,
    pub order: SendOrder,
    pub acks: AckProcess,
    /// They are not those of the other streams.
    pub has_own_ackers: bool,
    pub announcements: Announcements,
    /// Everything that was sent was announced often enough, and that was told.
    flushed: bool,
    /// When the last of it was sent or repaired.
    sent_at: Time,
    pub squelch: bool,
    /// A write was refused for want of room.
    pub write_refused: bool,
    pub cache: SegmentCache,
    layout: Layout,
    /// The oldest segment that can be repaired.
    pub first: u64,
    /// So many segments were sent.
    pub sent: u64,
    pub(super) head: u64,
    /// Bytes in the segment being filled.
    pub(super) filled: usize,
    /// One more than where the first message in it starts.
    message_start: u16,
    /// Place in the stream where it starts.
    offset: u64,
    pub(super) window: Option<SendWindow>,
    /// Since when something waits to be sent that the window holds back.
    pub(super) held_since: Option<Time>,
    /// Bytes of data sent, and how many of them had been when acknowledgements were asked for last.
    pub(super) sent_bytes: u64,
    pub(super) asked_bytes: u64,
    /// Acknowledgements are asked for after so many messages, and so many of the epoch were written.
    pub(super) epoch_messages: Option<u32>,
    epoch_written: u32,
    /// The segments in which the last messages of epochs begin, of those that were not sent yet.
    pub(super) epoch_ends: VecDeque<u64>,
    /// Little is written to it: see [`StreamOptions::quiet`].
    pub quiet: bool,
    pub state: StreamState,
}

impl TxStream {
    pub fn new(config: &Config, object: ObjectId, options: &StreamOptions, cache: SegmentCache) -> TxStream {
        let layout = Layout::endless(config.fec_id, &cache.fti);
        TxStream {
            object,
            data_share: Share::new(options.precedence, options.weight),
            repair_share: Share::new(options.precedence, options.weight),
            owed: Owed::new(config, &options.info),
            info: options.info.clone(),
            order: SendOrder::of_stream(config, layout),
            layout,
            acks: AckProcess::new(config),
            has_own_ackers: false,
            announcements: Announcements::default(),
            flushed: true,
            sent_at: Time::ZERO,
            squelch: false,
            write_refused: false,
            first: 0,
            sent: 0,
            head: 0,
            filled: 0,
            message_start: 0,
            offset: 0,
            window: options.window_bytes.map(|bytes| {
                let limit = (bytes / cache.segment_bytes()).clamp(1, cache.slots);
                SendWindow::new(limit as u64)
            }),
            held_since: None,
            sent_bytes: 0,
            asked_bytes: 0,
            epoch_messages: config.epoch_messages.filter(|_| options.window_bytes.is_some()),
            epoch_written: 0,
            epoch_ends: VecDeque::new(),
            quiet: options.quiet,
            state: StreamState::Open,
            cache,
        }
    }

    /// Segments complete and not sent yet.
    pub fn waiting(&self) -> u64 {
        self.head - self.sent
    }

    /// Every acker has everything before this segment.
    pub fn acknowledged(&self) -> u64 {
        self.acks.all_acked.min(self.sent)
    }

    /// Its datagrams come from another node id from now on.
    pub fn rename(&mut self, node: crate::NodeId) {
        self.cache.rename(node, self.first..self.head + u64::from(self.filled > 0));
    }

    /// The segment in which the message begins that a receiver may have a part of, if it has everything before `segment`.
    pub fn message_start(&self, segment: u64) -> u64 {
        self.cache.last_start(self.first..segment.min(self.head)).unwrap_or(segment)
    }

    /// Nothing was written to it, not even its end.
    pub fn is_unused(&self) -> bool {
        self.head == 0 && self.filled == 0
    }

    /// Bytes the stream took so far.
    pub fn bytes_written(&self) -> u64 {
        self.offset + self.filled as u64
    }

    /// The segment's place as commands name it.
    pub fn position(&self, segment: u64) -> Position {
        self.layout.position(self.object, segment)
    }

    /// The segment whose wire form is `payload_id`, as near to what was sent as can be.
    pub fn segment_at(&self, payload_id: crate::wire::PayloadId) -> u64 {
        self.layout.segment_near(self.sent, payload_id)
    }

    /// Appends data. Returns how much was taken: less than all of it if there is no room.
    pub fn write(&mut self, mut data: &[u8], starts_message: bool) -> usize {
        let mut taken = 0;
        let mut mark = starts_message;
        while !data.is_empty() {
            if self.filled == 0 && !self.make_room() {
                self.write_refused = true;
                break;
            }
            if mark && self.message_start == 0 {
                self.message_start = self.filled as u16 + 1;
            }
            if mark && let Some(epoch) = self.epoch_messages {
                self.count_message(epoch);
            }
            mark = false;
            let count = self.cache.fill(self.head, self.filled, data);
            self.filled += count;
            taken += count;
            data = &data[count..];
            if self.filled == self.cache.segment_bytes() {
                self.seal();
            }
        }
        taken
    }

    fn count_message(&mut self, epoch_messages: u32) {
        self.epoch_written += 1;
        if self.epoch_written >= epoch_messages {
            self.epoch_written = 0;
            // Of several epochs that end in one segment the first one asks for all.
            if self.epoch_ends.back() != Some(&self.head) {
                self.epoch_ends.push_back(self.head);
            }
        }
    }

    /// Makes what was written sendable, though its segment is not full.
    pub fn push(&mut self) {
        if self.filled > 0 {
            self.seal();
        }
    }

    /// Ends the stream. False if there is no room for its end yet.
    pub fn end(&mut self) -> bool {
        self.push();
        if self.state == StreamState::Open {
            if !self.make_room() {
                self.write_refused = true;
                return false;
            }
            self.seal();
            self.state = StreamState::Ending;
        }
        true
    }

    fn seal(&mut self) {
        let header = SegmentHeader {
            length: self.filled as u16,
            message_start: self.message_start,
            offset: self.offset as u32,
        };
        self.cache.seal(self.head, self.layout.place_of(self.head), header);
        self.offset += self.filled as u64;
        self.head += 1;
        self.filled = 0;
        self.message_start = 0;
    }

    /// Starts a segment if there is room for it; forgets the oldest ones if that is what it takes.
    fn make_room(&mut self) -> bool {
        if self.has_backlog() {
            return false;
        }
        loop {
            // Places are made only where they are what is lacking.
            if self.cache.has_room(self.first, self.head)
                && (self.head - self.first < self.cache.places() as u64
                    || self.cache.grow(self.first, self.head))
            {
                if self.cache.begin(self.first, self.head) {
                    return true;
                }
                // There is no memory for more: what is acknowledged in time has to fit into what there is.
                if let Some(window) = &mut self.window {
                    window.limit_to(self.cache.slots_left() as u64);
                }
                continue;
            }
            if !self.is_forgettable_segment(self.first) {
                return false;
            }
            self.first += 1;
            if self.owed.parity.is_in_use() {
                // Parity is computed from whole blocks.
                self.owed.parity.forget_before(self.layout.block_of(self.first - 1) + 1);
            }
        }
    }

    /// Whether the oldest segment need not be kept.
    fn is_forgettable_segment(&self, segment: u64) -> bool {
        segment < self.releasable() && !self.owed.segments.is_pending(segment)
    }

    /// Whether a write would be taken now.
    pub fn has_room(&self) -> bool {
        self.filled > 0 || (!self.has_backlog() && self.has_slot())
    }

    /// Without a window, which keeps what is not acknowledged, what waits to be sent takes half the cache at
    /// most: the other half is for repair.
    fn has_backlog(&self) -> bool {
        let half = (self.cache.slots as u64 / 2, self.cache.slots * self.cache.stride / 2);
        self.window.is_none()
            && self.waiting() >= half.0
            && (self.cache.is_at_most(2 * self.waiting())
                || self.cache.bytes_of(self.sent..self.head) >= half.1)
    }

    fn has_slot(&self) -> bool {
        let has_room =
            |first: u64| !self.cache.is_at_most(self.head - first) && self.cache.has_room(first, self.head);
        let mut first = self.first;
        while !has_room(first) {
            if !self.is_forgettable_segment(first) {
                return false;
            }
            first += 1;
        }
        true
    }

    /// Segments before this one may be forgotten.
    fn releasable(&self) -> u64 {
        let sent = self.order.releasable(self.sent);
        let released = match self.window {
            Some(_) => self.acks.acked().map_or(sent, |acked| acked.min(sent)),
            None => sent,
        };
        // Parity is computed from whole blocks, so they are kept whole.
        if self.cache.fti.parity_symbols > 0 { self.layout.block_around(released).start } else { released }
    }

    /// Whether anything waits to be sent for the first time.
    pub fn has_output(&self) -> bool {
        self.sendable() > self.sent || self.order.owes_parity()
    }

    /// How many segments are to be sent again to those who hold the window.
    pub fn repairs_needed(&self) -> usize {
        self.owed.segments.count_from(self.needed()) as usize
    }

    /// Something that was asked for went out again. Whoever asked for the last segment, or for parity, may know of it from
    /// nobody else, and lose it again: it is announced.
    pub fn on_repaired(&mut self, step: &Step, now: Time, grtt: Duration, robust_factor: u32) {
        let is_news = match step {
            Step::Segment(segment) => *segment + 1 == self.sent,
            Step::Parity { .. } => true,
        };
        if is_news {
            self.announce_again(now, grtt, robust_factor);
        }
    }

    /// The next `count` segments were sent.
    pub fn on_sent(&mut self, count: usize, now: Time, grtt: Duration, robust_factor: u32) {
        let end = self.sent + count as u64;
        self.sent_bytes += (self.sent..end).map(|segment| self.cache.data_bytes(segment) as u64).sum::<u64>();
        self.sent = end;
        self.announce_again(now, grtt, robust_factor);
        self.ask(now);
    }

    /// The last segment is announced if nothing follows it soon.
    fn announce_again(&mut self, now: Time, grtt: Duration, robust_factor: u32) {
        let left = if self.is_hushed() { robust_factor.min(QUIET_ANNOUNCEMENTS) } else { robust_factor };
        self.announcements.begin(now + 2 * grtt, left);
        (self.flushed, self.sent_at) = (false, now);
    }

    /// Whether its announcements would cost more than what was said: everybody hears and answers them.
    pub fn is_hushed(&self) -> bool {
        self.quiet && self.acks.count() > SMALL_GROUP_ACKERS_MAX
    }

    /// When the last segment is to be announced again: never, while there is something better to send.
    pub fn next_announcement(&self) -> Time {
        // Also who fell silent is told, and learns when it is back what it has missed.
        let all_have_it = self.acks.is_confirmed(self.sent) && !self.acks.is_owed(self.sent);
        if self.waiting() > 0 || self.owed.has_repairs() || self.has_output() || all_have_it {
            return Time::NEVER;
        }
        self.announcements.next()
    }

    /// Announces the last segment once more, though that was done often enough.
    pub fn remind(&mut self, now: Time) {
        if self.flushed && self.sent > 0 {
            self.announcements.remind(now);
        }
    }

    /// Whether everything sent is announced now; true once.
    pub fn take_flushed(&mut self) -> bool {
        let is_enough = self.announcements.is_done() || self.acks.is_confirmed(self.sent);
        if self.flushed || self.waiting() > 0 || !is_enough {
            return false;
        }
        self.announcements.stop();
        self.flushed = true;
        true
    }

    /// Nothing of it waits to be sent, repaired, acknowledged or announced.
    pub fn is_quiet(&self) -> bool {
        self.filled == 0
            && self.waiting() == 0
            && !self.owed.has_repairs()
            && !self.order.owes_parity()
            && match self.acks.acked() {
                _ if self.quiet => true,
                Some(acked) if acked < self.sent => false,
                _ => self.flushed || self.acks.is_confirmed(self.sent),
            }
    }

    /// It ended, and all of it was sent and announced.
    pub fn is_finished(&self) -> bool {
        self.state == StreamState::Ending && self.waiting() == 0 && self.flushed
    }

    /// Nobody needs it any more. Those who need not acknowledge it may ask for its end for `hold` after it went
    /// out; what a silent acker has not is kept, for him and for whoever asks whether all was acknowledged.
    pub fn is_forgettable(&self, now: Time, hold: Duration) -> bool {
        let all_acked = self.acks.acked().is_some_and(|acked| acked >= self.sent);
        let settled = all_acked && !self.is_owed_acks() && !self.owed.has_repairs();
        self.is_finished() && settled && now.since(self.sent_at) >= hold
    }
}

impl Segmented for TxStream {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn template(&self) -> &Template {
        &self.cache.template
    }

    fn symbol(&self, segment: u64) -> &[u8] {
        self.cache.symbol(segment)
    }

    fn symbol_bytes_max(&self) -> usize {
        SEGMENT_HEADER_BYTES + self.cache.segment_bytes()
    }

    fn data_bytes(&self, segment: u64) -> usize {
        self.cache.data_bytes(segment)
    }

    fn owed(&mut self) -> &mut Owed {
        &mut self.owed
    }

    fn needed(&self) -> u64 {
        self.acks.acked().unwrap_or(0)
    }

    /// What can be asked for again is kept.
    fn has_block(&self, _: u64) -> bool {
        true
    }
}
