//! One stream being sent: its segments from being written to being released.
//!
//! ```text
//!   first ≤ … repairable … ≤ sent ≤ … sealed, waiting … ≤ head (being filled)
//! ```
//! Numbers count segments from the stream's first; they never wrap. What wraps is their form on the wire.

use std::ops::Range;
use std::time::Duration;

use super::acks::AckProcess;
use super::cache::SegmentCache;
use super::order::{SendOrder, Step};
use super::parity::ParityQueue;
use super::repair::RepairQueue;
use super::run::Segmented;
use super::template::Template;
use super::window::SendWindow;
use crate::layout::Layout;
use crate::time::Time;
use crate::wire::command::Position;
use crate::wire::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Config, NodeId, ObjectId, StreamOptions};

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

/// The announcements after the last segment, so that its loss is noticed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum FlushState {
    /// Everything sent was announced often enough.
    Done,
    /// To be announced again at a time, so many times.
    Announcing { at: Time, left: u32 },
}

/// A stream being sent.
#[derive(Debug)]
pub struct TxStream {
    pub object: ObjectId,
    pub precedence: u8,
    pub info: Vec<u8>,
    pub info_pending: bool,
    pub repairs: RepairQueue,
    /// Parity that was asked for.
    pub parity: ParityQueue,
    pub order: SendOrder,
    pub acks: AckProcess,
    flush: FlushState,
    /// When to announce once more, for whoever was out of reach.
    again_at: Time,
    /// When the last of it was sent or repaired.
    sent_at: Time,
    pub squelch: bool,
    /// A write was refused for want of room.
    pub write_refused: bool,
    pub cache: SegmentCache,
    layout: Layout,
    first: u64,
    sent: u64,
    head: u64,
    /// Bytes in the segment being filled.
    filled: usize,
    /// One more than where the first message in it starts.
    message_start: u16,
    /// Place in the stream where it starts.
    offset: u64,
    window: Option<SendWindow>,
    /// Since when something waits to be sent that the window holds back.
    held_since: Option<Time>,
    /// Bytes of data sent, and how many of them had been when acknowledgements were asked for last.
    sent_bytes: u64,
    asked_bytes: u64,
    /// Little is written to it: see [`StreamOptions::quiet`].
    pub quiet: bool,
    state: StreamState,
}

impl TxStream {
    /// `None` if the system has no memory for it.
    pub fn new(
        config: &Config,
        object: ObjectId,
        options: &StreamOptions,
        cache: SegmentCache,
    ) -> Option<TxStream> {
        let layout = Layout::endless(config.fec_id, &cache.fti);
        Some(TxStream {
            object,
            precedence: options.precedence,
            info_pending: !options.info.is_empty(),
            info: options.info.clone(),
            repairs: RepairQueue::new(cache.places())?,
            parity: ParityQueue::new(config.parity_symbols, config.auto_parity),
            order: SendOrder::of_stream(config, layout),
            layout,
            acks: AckProcess::new(config),
            flush: FlushState::Done,
            again_at: Time::NEVER,
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
            quiet: options.quiet,
            state: StreamState::Open,
            cache,
        })
    }

    pub fn state(&self) -> StreamState {
        self.state
    }

    /// Segments that were sent.
    pub fn sent(&self) -> u64 {
        self.sent
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

    /// The oldest segment that can be repaired.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The segment in which the message begins that a receiver may have a part of, if it has everything before `segment`.
    pub fn message_start(&self, segment: u64) -> u64 {
        self.cache.last_start(self.first..segment.min(self.head)).unwrap_or(segment)
    }

    /// How many segments can be repaired.
    pub fn repairable(&self) -> u64 {
        self.sent - self.first
    }

    /// Nothing was written to it, not even its end.
    pub fn is_unused(&self) -> bool {
        self.head == 0 && self.filled == 0
    }

    /// Bytes the stream took so far.
    pub fn bytes_written(&self) -> u64 {
        self.offset + self.filled as u64
    }

    pub fn cache_mut(&mut self) -> &mut SegmentCache {
        &mut self.cache
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
                && (self.head - self.first < self.cache.places() as u64 || self.grow())
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
            self.repairs.recycle(self.first);
            self.first += 1;
            if self.parity.is_in_use() {
                self.parity.forget_before(self.layout.block_of(self.first));
            }
        }
    }

    fn grow(&mut self) -> bool {
        if !self.cache.may_grow() {
            return false;
        }
        if !self.repairs.grow(2 * self.cache.places(), self.first, self.head) {
            return self.cache.keep_places();
        }
        self.cache.grow(self.first, self.head)
    }

    /// Whether the oldest segment need not be kept.
    fn is_forgettable_segment(&self, segment: u64) -> bool {
        segment < self.releasable() && !self.repairs.is_pending(segment)
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

    /// Whether all of a block is here, so that its parity can be computed.
    pub fn has_block(&self, block: u64) -> bool {
        let segments = self.layout.block_segments(block);
        self.first <= segments.start && segments.end <= self.head
    }

    /// Whether anything waits to be sent for the first time.
    pub fn has_output(&self) -> bool {
        self.sendable() > self.sent || self.order.owes_parity()
    }

    /// Segments from this one on are needed by those who hold the window; older ones only by those who do not count.
    fn needed(&self) -> u64 {
        self.acks.acked().unwrap_or(0)
    }

    /// How many segments are to be sent again to those who hold the window.
    pub fn repairs_needed(&self) -> usize {
        self.repairs.pending_from(self.needed(), self.sent).count()
    }

    /// The segment to send again next: the oldest that is needed, so that who is far behind holds nobody up.
    fn next_named(&self) -> Option<u64> {
        self.repairs.first_from(self.needed(), self.sent).or_else(|| self.repairs.first_from(0, self.sent))
    }

    /// The block whose parity to send next, by the same rule.
    fn next_parity(&self) -> Option<u64> {
        let needed = self.layout.block_of(self.needed());
        self.parity.first_block_from(needed).or_else(|| self.parity.first_block())
    }

    /// Something that was asked for went out again. Whoever asked for the last segment, or for parity, may know of it from
    /// nobody else, and lose it again: it is announced.
    pub fn on_repaired(&mut self, step: &Step, now: Time, grtt: Duration, robust_factor: u32) {
        let is_news = match step {
            Step::Segment(segment) => {
                self.repairs.repaired(*segment, now);
                *segment + 1 == self.sent
            }
            Step::Parity { .. } => true,
        };
        if is_news {
            self.announce_again(now, grtt, robust_factor);
        }
    }

    /// Whether anything was asked for again.
    pub fn has_repairs(&self) -> bool {
        !self.repairs.is_empty() || !self.parity.is_empty()
    }

    /// Segments before this one may be sent: all, or as far as the window reaches.
    pub fn sendable(&self) -> u64 {
        match (&self.window, self.acks.reached) {
            (Some(window), Some(reached)) => self.head.min(window.end(reached)),
            _ => self.head,
        }
    }

    /// The most segments to send in one go.
    pub fn run_max(&self) -> u64 {
        self.window.as_ref().map_or(u64::MAX, SendWindow::run_max)
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
        self.flush = FlushState::Announcing { at: now + 2 * grtt, left };
        self.sent_at = now;
    }

    /// Whether its announcements would cost more than what was said: everybody hears and answers them.
    pub fn is_hushed(&self) -> bool {
        self.quiet && self.acks.count() > SMALL_GROUP_ACKERS_MAX
    }

    /// The application wants to know when everybody has everything written so far.
    pub fn want_acks(&mut self, now: Time) {
        self.push();
        self.acks.want(self.head);
        self.ask(now);
    }

    /// Asks for acknowledgement of what was sent, if the application waits for it, or if enough of the
    /// window is unacknowledged. Never of what is still to be sent: nobody could acknowledge it, and the
    /// window would never move again.
    pub fn ask(&mut self, now: Time) {
        let due = match (&mut self.window, self.acks.reached) {
            // Small amounts sent one by one fill the window with segments, but hardly with bytes.
            (Some(window), Some(reached)) => {
                let bytes = (window.open() * self.cache.segment_bytes() as u64 / 8).max(1);
                let used = window.on_sent(now, self.sent, reached);
                self.sent > reached.acked && (used || self.sent_bytes - self.asked_bytes >= bytes)
            }
            _ => false,
        };
        if due || self.acks.is_answer_owed(self.sent) {
            self.asked_bytes = self.sent_bytes;
            self.acks.request(now, self.sent);
        }
    }

    /// `node` has everything before `segment`. One that fell silent counts again when it has caught up: earlier,
    /// everybody else would wait for it to.
    pub fn on_ack(&mut self, now: Time, node: NodeId, segment: u64) {
        self.account_held(now);
        let caught_up = self.window.as_ref().map_or(0, |window| self.sent.saturating_sub(window.open()));
        self.acks.on_ack_of(now, node, segment, caught_up);
        self.on_reached(now);
        self.ask(now);
    }

    /// Takes note of who held back what waits to be sent, until now.
    fn account_held(&mut self, now: Time) {
        let Some(window) = &mut self.window else { return };
        if let Some(since) = self.held_since.take() {
            let sent = self.sent;
            if self.acks.on_held(since, now, window.blamed(now), |reached| window.end(reached) <= sent) {
                window.forgive();
            }
        }
        self.held_since = (self.waiting() > 0 && self.sendable() <= self.sent).then_some(now);
    }

    /// `node` asks for repair of segments, `lost` of which nobody had asked for yet.
    pub fn on_request(&mut self, now: Time, node: NodeId, segments: &Range<u64>, lost: u64) {
        self.account_held(now);
        if segments.start < self.first {
            self.acks.on_refused(node);
        }
        if self.acks.on_request(node, segments)
            && let Some(window) = &mut self.window
        {
            window.on_lost(now, node, self.sent, lost);
        }
    }

    /// Somebody may have got farther.
    pub fn on_reached(&mut self, now: Time) {
        if let (Some(window), Some(reached)) = (&mut self.window, self.acks.reached) {
            window.on_reached(now, reached);
        }
    }

    /// For how long a repair that was sent may be on its way: what is asked for again before that crossed it.
    pub fn repair_hold_off(&self, grtt: Duration) -> Duration {
        self.window.as_ref().map_or(grtt, |window| grtt.max(window.round_trip))
    }

    /// Takes note of the time.
    pub fn pass_time(&mut self, now: Time, grtt: Duration) {
        if let Some(window) = &mut self.window {
            window.pass_time(now, grtt, self.sent);
        }
        self.account_held(now);
        // A new acker may owe what was sent long ago, and close the window: nothing is sent then that would ask.
        if self.waiting() > 0 && self.sendable() <= self.sent && !self.acks.is_waiting() {
            self.ask(now);
        }
    }

    /// When time alone lets it send more.
    pub fn window_deadline(&self) -> Time {
        match &self.window {
            Some(window) if self.sendable() < self.head => window.deadline(),
            _ => Time::NEVER,
        }
    }

    /// Whether something other than its window decides how fast to send.
    pub fn set_paced(&mut self, paced: bool) {
        if let Some(window) = &mut self.window {
            window.set_paced(paced);
        }
    }

    /// Whether a window keeps it from sending more than its receivers take.
    pub fn has_window(&self) -> bool {
        self.window.is_some() && self.acks.acked().is_some()
    }

    /// Everybody who counts has everything that was sent, as far as they owe it.
    pub fn all_acked(&self) -> bool {
        self.acks.acked().is_some_and(|acked| acked >= self.sent)
    }

    /// When the last segment is to be announced again: never, while there is something better to send.
    pub fn next_announcement(&self) -> Time {
        // Also who fell silent is told, and learns when it is back what it has missed.
        let all_have_it = self.acks.is_confirmed(self.sent) && !self.acks.is_owed(self.sent);
        if self.waiting() > 0 || self.has_repairs() || self.has_output() || all_have_it {
            return Time::NEVER;
        }
        match self.flush {
            FlushState::Announcing { at, left: 1.. } => at,
            FlushState::Announcing { .. } | FlushState::Done => self.again_at,
        }
    }

    /// Announces the last segment once more, though that was done often enough.
    pub fn remind(&mut self, now: Time) {
        if self.flush == FlushState::Done && self.sent > 0 {
            self.again_at = now;
        }
    }

    /// The last segment was announced.
    pub fn announced(&mut self, next: Time) {
        self.again_at = Time::NEVER;
        if let FlushState::Announcing { at, left } = &mut self.flush {
            *at = next;
            *left = left.saturating_sub(1);
        }
    }

    /// Whether everything sent is announced now; true once.
    pub fn take_flushed(&mut self) -> bool {
        let done = matches!(self.flush, FlushState::Announcing { left, .. }
            if self.waiting() == 0 && (left == 0 || self.acks.is_confirmed(self.sent)));
        if done {
            self.flush = FlushState::Done;
        }
        done
    }

    /// Nothing of it waits to be sent, repaired, acknowledged or announced.
    pub fn is_quiet(&self) -> bool {
        self.filled == 0
            && self.waiting() == 0
            && !self.has_repairs()
            && !self.order.owes_parity()
            && match self.acks.acked() {
                _ if self.quiet => true,
                Some(acked) if acked < self.sent => false,
                _ => self.flush == FlushState::Done || self.acks.is_confirmed(self.sent),
            }
    }

    /// Who has not acknowledged everything written so far, and how many bytes each; what is no longer kept counts as
    /// full segments.
    pub fn lacking(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let end = self.head + u64::from(self.filled > 0);
        let bytes = |acked: u64| {
            let gone = self.first.saturating_sub(acked) * self.cache.segment_bytes() as u64;
            let kept =
                (acked.max(self.first)..self.head).map(|segment| self.cache.data_bytes(segment) as u64);
            gone + kept.sum::<u64>() + self.filled as u64
        };
        self.acks.lacking(end).map(move |(node, acked)| (node, bytes(acked)))
    }

    /// Whether somebody listed as acker, though he may be silent, has not acknowledged everything.
    pub fn is_owed_acks(&self) -> bool {
        !self.quiet && self.acks.is_owed(self.head)
    }

    /// It ended, and all of it was sent and announced.
    pub fn is_finished(&self) -> bool {
        self.state == StreamState::Ending && self.waiting() == 0 && self.flush == FlushState::Done
    }

    /// Nobody needs it any more. Those who need not acknowledge it may ask for its end for `hold` after it went
    /// out; what a silent acker has not is kept, for him and for whoever asks whether all was acknowledged.
    pub fn is_forgettable(&self, now: Time, hold: Duration) -> bool {
        let settled = self.all_acked() && !self.is_owed_acks() && !self.has_repairs();
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

    /// What is older goes first, of what is needed alike.
    fn repairs_by_parity(&self) -> bool {
        if self.parity.is_empty() {
            return false;
        }
        let needed = self.layout.block_of(self.needed());
        let rank = |block: u64| (block < needed, block);
        let named = self.next_named().map(|segment| rank(self.layout.block_of(segment)));
        self.next_parity().is_some_and(|block| named.is_none_or(|named| rank(block) < named))
    }

    fn next_repair(&mut self, now: Time, parity_max: usize) -> Option<Step> {
        self.repairs.seek(self.sent);
        while self.repairs_by_parity()
            && let Some(block) = self.next_parity()
        {
            let rows = self.parity.take(block, parity_max, now);
            // Of a block that is being forgotten there is none any more.
            if self.has_block(block) {
                return Some(Step::Parity { block, rows });
            }
        }
        self.next_named().map(Step::Segment)
    }
}
