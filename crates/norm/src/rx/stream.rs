//! One stream being received: its window, where it was joined, and what was lost.

use shoal_fec::Symbol;

use super::asked::AskedSegments;
use super::blocks::Blocks;
use super::front::Front;
use super::object::PARITY_LAG_MAX;
use super::parity::ParityStore;
use super::reader::{Chunk, Reader, Take};
use super::requests;
use super::scope::Scope;
use super::window::{Insert, Window};
use crate::event::StreamId;
use crate::layout::Layout;
use crate::stats::{Reject, Taken};
use crate::wire::command::Position;
use crate::wire::repair::RepairWriter;
use crate::wire::{Data, Flags, PayloadId, RepairFlags, SEGMENT_HEADER_BYTES, SegmentHeader};

/// All of a stream is refused so often before that is believed.
const REFUSALS_BELIEVED: u32 = 3;
/// A stream of which so many segments came is where it was joined.
const ESTABLISHED_SEGMENTS: u64 = 16;

/// Parity may take this part of what a window may.
const PARITY_SHARE: usize = 4;

/// A stream being received.
#[derive(Debug)]
pub struct RxStream {
    pub blocks: Blocks,
    symbols: u64,
    pub window: Window,
    pub reader: Reader,
    /// Segments before this one were sent: one at or after it was heard, not only spoken of.
    heard_to: u64,
    front: Front,
    /// Nobody said where to join it.
    joined_here: bool,
    /// The sender says that it can repair nothing before this segment, of which nothing was heard: it is asked for.
    refused_before: Option<u64>,
    /// How often all of it was refused since something of it came.
    refusals: u32,
    /// Where we were after the last refusal of repair.
    refused_at: Option<u64>,
    /// What the sender sends now, if that is too far on for us to keep.
    beyond: Option<u64>,
    /// The newest block of which a segment was heard.
    newest_block: u64,
    /// By so many blocks the parity of a block is behind its segments.
    parity_lag: u64,
    /// Losses before this segment were asked for at least once.
    asked_to: u64,
    /// Losses were found since.
    fresh_losses: bool,
}

impl RxStream {
    /// Joins a stream of which the segment at `heard` is known to exist: there, or `at` a segment counted
    /// from the stream's first.
    pub fn join(id: StreamId, data: &Data<'_>, at: Option<u64>, scope: &mut Scope<'_>) -> Taken<RxStream> {
        let (fec_id, fti) = (data.header.fec_id, data.fti.ok_or(Reject::ObjectInfo)?);
        let (layout, symbols) = (Layout::endless(fec_id, &fti), u64::from(fti.block_symbols));
        let (window_bytes, parity_lag) =
            (scope.config.receive_window_bytes, u64::from(scope.config.interleave_blocks) - 1);
        let parity = ParityStore::new(fec_id, &fti, SEGMENT_HEADER_BYTES, window_bytes / PARITY_SHARE);
        let unit = if parity.is_some() { symbols } else { 1 };
        // One whole round of block numbers below, so that numbers before the first heard exist too.
        let base_block = 1u64 << fec_id.block_bits();
        let symbol = data.payload_id.symbol.min(fti.block_symbols - 1);
        let heard = (base_block + u64::from(data.payload_id.block)) * symbols + u64::from(symbol);
        // A count may have gone round the block numbers more often than we know: what counts is how far
        // it lies from what was heard.
        let first = match at {
            Some(0) => base_block * symbols,
            Some(segment) => layout.segment_near(heard, layout.place_of(segment)),
            None => heard,
        };
        let mut window = Window::new(first, unit, fti.segment_bytes.into(), window_bytes, scope.memory_left)
            .ok_or(Reject::NoMemory)?;
        window.extend(heard);
        Ok(RxStream {
            blocks: Blocks { id, fti, layout, parity: parity.map(Box::new), asked: AskedSegments::default() },
            symbols,
            window,
            reader: Reader::new(id, base_block * symbols, at != Some(0)),
            heard_to: heard + 1,
            front: Front::new(symbols),
            joined_here: at.is_none(),
            refused_before: None,
            refusals: 0,
            refused_at: None,
            beyond: None,
            newest_block: base_block,
            parity_lag,
            asked_to: first,
            fresh_losses: false,
        })
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.window.memory() + self.blocks.parity.as_ref().map_or(0, |parity| parity.memory())
    }

    /// Which segment a payload id of a source symbol names.
    pub fn segment_at(&self, payload_id: PayloadId) -> u64 {
        self.blocks.layout.segment_near(self.reference(), payload_id)
    }

    /// Whatever is told of places ahead, numbers are those around the reader.
    pub(super) fn reference(&self) -> u64 {
        let quarter = (1u64 << (self.blocks.layout.fec_id.block_bits() - 2)) * self.symbols;
        self.window.end.min(self.window.complete + quarter).max(1)
    }

    /// Takes a segment in; `repair` says that somebody had asked for it. What is next to be read is offered to
    /// `take` before it is kept. True if it was new.
    pub fn receive(&mut self, data: &Data<'_>, take: &mut Take<'_>, scope: &mut Scope<'_>) -> Taken<bool> {
        if u64::from(data.payload_id.symbol) >= self.symbols {
            return Ok(self.receive_parity(data, scope));
        }
        let (header, bytes) = SegmentHeader::split(data.payload)?;
        if bytes.len() > self.window.segment_bytes {
            return Err(Reject::Position);
        }
        let (segment, repair) = (self.segment_at(data.payload_id), data.header.flags.has(Flags::REPAIR));
        if !self.front.judge(segment, self.window.end) {
            return Err(Reject::BeyondWindow);
        }
        self.hear(segment);
        self.refusals = 0;
        if self.is_next(segment, &header) && take(self.blocks.id, Chunk { bytes, fresh: self.reader.fresh }) {
            self.reader.fresh = false;
            self.window.pass(&header);
            if !repair {
                self.front.on_first_time(segment, self.window.end);
            }
            scope.stats.segments_received += 1;
            scope.stats.payload_bytes_received += bytes.len() as u64;
            return Ok(true);
        }
        let known = self.window.end;
        let inserted = self.window.insert(segment, header, bytes, scope.memory_left);
        let losses = segment.saturating_sub(known).min(self.window.end - known);
        scope.stats.losses_detected += losses;
        self.fresh_losses |= losses > 0;
        if self.blocks.parity.is_some() {
            // Also what cannot be kept says how far the sender is, and so what is lost.
            self.note_block(segment / self.symbols);
        }
        match inserted {
            Insert::New => {
                self.beyond = None;
                scope.stats.segments_received += 1;
                scope.stats.payload_bytes_received += bytes.len() as u64;
                if !repair && self.front.on_first_time(segment, self.window.end) {
                    self.retract(segment + 1);
                }
                if self.blocks.parity.is_some() {
                    self.try_recover(segment / self.symbols, scope);
                }
                Ok(true)
            }
            Insert::Duplicate => {
                scope.stats.duplicates_received += 1;
                if !repair && self.judge_join(segment) {
                    self.join_again(segment);
                }
                Ok(false)
            }
            Insert::Beyond => {
                self.beyond = Some(segment);
                Err(Reject::BeyondWindow)
            }
            Insert::Misplaced => Err(Reject::Position),
            Insert::NoMemory => Err(Reject::NoMemory),
        }
    }

    /// The sender is here: what is known of places ahead was somebody else's word.
    fn retract(&mut self, end: u64) {
        self.window.retract(end);
        let end = self.window.end;
        (self.heard_to, self.refused_before, self.beyond) = (end, None, None);
        self.asked_to = self.asked_to.min(end);
        self.newest_block = self.newest_block.min(end / self.symbols);
    }

    /// A segment came for the first time. The stream was joined where the first segment was that came in its sender's name: that
    /// may have been a copy with another number. True if the sender goes on before it, and that is where the stream is.
    fn judge_join(&mut self, segment: u64) -> bool {
        self.joined_here
            && segment < self.window.first
            && self.window.arrived < ESTABLISHED_SEGMENTS
            && self.front.on_first_time(segment, u64::MAX)
    }

    /// Joins the stream after this segment.
    fn join_again(&mut self, segment: u64) {
        self.window.begin_at(segment + 1);
        self.reader.restart();
        self.asked_to = segment + 1;
        self.retract(segment + 1);
    }

    /// A segment is heard. What the sender said of those before it is true if it is one that can be had.
    fn hear(&mut self, segment: u64) {
        self.heard_to = self.heard_to.max(segment + 1);
        if let Some(before) = self.refused_before.take_if(|before| *before <= segment) {
            self.give_up_before(before);
        }
    }

    /// Whether the reader waits for just this segment, and for nothing to be told before it.
    fn is_next(&self, segment: u64, header: &SegmentHeader) -> bool {
        segment == self.window.first
            && self.window.first == self.window.end
            && header.length > 0
            && self.window.continues(header)
            && self.blocks.parity.is_none()
            && self.reader.is_waiting()
    }

    /// A segment of a block came: earlier blocks are complete by now, or have lost something.
    fn note_block(&mut self, block: u64) {
        if block > self.newest_block {
            self.newest_block = block;
            self.window.check_before(block.saturating_sub(self.parity_lag) * self.symbols);
        }
    }

    fn receive_parity(&mut self, data: &Data<'_>, scope: &mut Scope<'_>) -> bool {
        let index = data.payload_id.symbol - self.symbols as u16;
        let first = self.segment_at(PayloadId { symbol: 0, ..data.payload_id });
        let block = first / self.symbols;
        // Parity is computed from a whole block, so all of the block was sent.
        let end = first + self.symbols;
        if end <= self.window.complete || !self.front.judge(end - 1, self.window.end) {
            return false;
        }
        scope.stats.losses_detected += self.window.extend(end);
        let Some(parity) = &mut self.blocks.parity else { return false };
        if !data.header.flags.has(Flags::REPAIR) && block <= self.newest_block {
            self.parity_lag = self.parity_lag.max(self.newest_block - block).min(PARITY_LAG_MAX);
        }
        let complete = (first..end).all(|segment| self.window.held(segment).is_some());
        if complete || !parity.keep(block, index, data.payload, scope.memory_left) {
            return false;
        }
        scope.stats.parity_received += 1;
        self.try_recover(block, scope);
        true
    }

    /// Computes what a block misses, if there is enough parity.
    fn try_recover(&mut self, block: u64, scope: &mut Scope<'_>) {
        let Some(parity) = self.blocks.parity.as_mut().filter(|parity| parity.count(block) > 0) else {
            return;
        };
        let (first, symbols, window) = (block * self.symbols, self.symbols as usize, &self.window);
        let headers: Vec<Option<[u8; SEGMENT_HEADER_BYTES]>> = (first..first + self.symbols)
            .map(|segment| window.held(segment).map(|(header, _)| header.to_bytes()))
            .collect();
        if headers.iter().all(Option::is_some) {
            return parity.forget(block);
        }
        let recovered = parity.recover(block, symbols, |symbol| {
            let (_, data) = window.held(first + symbol as u64)?;
            headers[symbol].as_ref().map(|header| Symbol::in_two_pieces(header, data))
        });
        if recovered.is_empty() {
            return;
        }
        for (at, symbol) in recovered {
            let segment = first + at as u64;
            let Ok((header, data)) = SegmentHeader::split(&symbol) else {
                scope.stats.reject(Reject::Position);
                continue;
            };
            if data.len() <= self.window.segment_bytes
                && self.window.insert(segment, header, data, scope.memory_left) == Insert::New
            {
                scope.stats.segments_recovered += 1;
                scope.stats.payload_bytes_received += data.len() as u64;
            }
        }
        let reader = self.window.first / self.symbols;
        if let Some(parity) = &mut self.blocks.parity {
            parity.forget_before(reader.min(self.window.complete / self.symbols));
        }
    }

    /// Asks for what is missing, or only for what was never asked for. False if there was no room for all of it.
    pub fn write_requests(&self, fresh_only: bool, requests: &mut RepairWriter) -> bool {
        // Whether what was refused is really gone shows when the first segment comes that is said not to be.
        let refused =
            self.refused_before.map(|segment| self.blocks.layout.position(self.blocks.id.object, segment));
        let least = if fresh_only { self.asked_to } else { 0 };
        refused.is_none_or(|refused| requests.push(RepairFlags::SEGMENT, refused, refused))
            && requests::write(self, least, u64::MAX, requests)
    }

    /// Whether a position is before another.
    pub fn is_before(&self, position: Position, other: Position) -> bool {
        position.fec_id == other.fec_id
            && self.segment_at(position.payload_id) < self.segment_at(other.payload_id)
    }

    /// Which of two watermarks to acknowledge, if there is room for one. What is here is acknowledged, as much of it as
    /// possible; of what is not here the nearer one is waited for, because the other may never have been sent. A sender that
    /// wants the other one asks again.
    pub fn more_urgent(&self, one: Position, other: Position) -> Position {
        let is_here = |position: Position| self.has_up_to(position.payload_id);
        let is_earlier = self.is_before(one, other);
        let takes_one = match (is_here(one), is_here(other)) {
            (true, true) => !is_earlier,
            (false, false) => is_earlier,
            (one_is_here, _) => one_is_here,
        };
        if takes_one { one } else { other }
    }

    /// The sender, which is quiet or sends data, says that it has sent everything up to here. Returns how much of it was news.
    pub fn announce(&mut self, payload_id: PayloadId, is_quiet: bool) -> u64 {
        let end = self.segment_at(payload_id) + 1;
        if !is_quiet && !self.front.judge(end - 1, self.window.end) {
            return 0;
        }
        if self.blocks.parity.is_some() {
            self.window.check_before(end);
        }
        let losses = self.window.extend(end);
        self.fresh_losses |= losses > 0;
        losses
    }

    /// Whether losses were found that nobody was asked for yet.
    pub fn has_fresh_losses(&self) -> bool {
        self.fresh_losses && self.window.has_missing()
    }

    /// Everything missing so far was asked for.
    pub fn on_asked(&mut self) {
        self.fresh_losses = false;
        self.asked_to = self.window.end.min(self.window.checked);
    }

    /// Everything up to here is present, or known to be lost.
    pub fn has_up_to(&self, payload_id: PayloadId) -> bool {
        self.segment_at(payload_id) < self.window.complete
    }

    /// The sender can repair nothing before here. Anybody can say so: it is believed as far as segments were heard, and
    /// beyond that once the segment it names was.
    pub fn squelch(&mut self, payload_id: PayloadId) {
        let before = self.segment_at(payload_id);
        self.refused_before = (before > self.heard_to).then_some(before);
        self.give_up_before(before.min(self.heard_to));
    }

    /// The sender says that there is no such stream. True if it has to be believed: something is missing, and nothing came
    /// though that was said several times.
    pub fn on_refusal(&mut self) -> bool {
        self.refusals += u32::from(self.window.has_missing());
        self.refusals >= REFUSALS_BELIEVED
    }

    fn give_up_before(&mut self, before: u64) {
        // What refuses nothing that is missing here is meant for others.
        if before <= self.window.complete {
            return;
        }
        let first = self.window.first;
        let mut before = before;
        if self.refused_at == Some(first)
            && self.window.present == 0
            && let Some(newest) = self.beyond.take()
        {
            // Refused again, and nothing came in between: the sender forgets faster than we can ask.
            before = before.max(newest);
        }
        let skipped = self.window.give_up_before(before);
        if let Some(parity) = &mut self.blocks.parity {
            parity.forget_before(before / self.symbols);
        }
        if skipped > 0 {
            self.reader.lose(first, skipped);
        }
        self.refused_at = Some(self.window.first);
    }
}
