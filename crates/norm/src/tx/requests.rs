//! What receivers ask to be sent again.
//!
//! A request names segments, blocks, parity, whole objects or their information; streams and objects are asked for in the
//! same words.

use std::ops::Range;
use std::time::Duration;

use super::nack_budget::Budget;
use super::objects::TxObjects;
use super::owed::Owed;
use super::run::Segmented;
use super::sender::{INVALID_OBJECTS_MAX, Sender};
use super::stream::{SMALL_GROUP_ACKERS_MAX, TxStream};
use crate::datagram::Source;
use crate::stats::{Reject, Stats};
use crate::time::Time;
use crate::wanted::{ErasureTally, Wanted};
use crate::wire::command::Position;
use crate::wire::repair::RepairRange;
use crate::wire::{Nack, RepairFlags, RepairRequests};
use crate::{NodeId, ObjectId};

/// What one NACK may cost, in objects, or segments that are being sent in turn.
const STEPS_MAX: u64 = 65_536;

/// One NACK while it is taken in.
struct Asking<'a> {
    node: NodeId,
    now: Time,
    /// What was repaired so short a time ago is under way.
    hold_off: Duration,
    budget: Budget,
    tally: ErasureTally,
    stats: &'a mut Stats,
}

impl Asking<'_> {
    /// So many segments are to be sent again that were not.
    fn count(&mut self, segments: u64) {
        self.stats.repairs_requested += segments;
        self.budget.repairs -= segments;
    }

    /// Parity of a block that was sent is asked for.
    fn request_parity(
        &mut self,
        object: ObjectId,
        owed: &mut Owed,
        (block, wanted): (u64, Range<u16>),
        hold_off: Duration,
    ) {
        let erasures = self.tally.add((object, block), wanted.len() as u16);
        let erasures = erasures.min(u16::try_from(self.budget.repairs).unwrap_or(u16::MAX));
        let added = owed.parity.request(block, wanted, erasures, self.now, hold_off);
        self.count(added.into());
    }

    /// Segments that were sent are asked for. Returns how many of them are stale.
    fn request_segments(&mut self, owed: &mut Owed, segments: Range<u64>, hold_off: Duration) -> u64 {
        let segments = segments.start..segments.end.min(segments.start.saturating_add(self.budget.repairs));
        let requested = owed.segments.request(segments, self.now, hold_off);
        self.count(requested.segments);
        requested.stale
    }
}

impl Sender {
    pub fn handle_nack(&mut self, now: Time, from: Source, nack: &Nack<'_>, stats: &mut Stats) {
        stats.nacks_received += 1;
        let node = nack.header.source;
        self.hear_feedback(now, from, &nack.header);
        let is_stranger = !self.is_known(node);
        let mut repairs = u64::MAX;
        if is_stranger {
            self.strangers.pass_time(now, stats.segments_sent);
            repairs = self.strangers.left();
        }
        // Requests that we hear late crossed the repair.
        let lag = if self.ackers.len() > SMALL_GROUP_ACKERS_MAX { self.lag.get() } else { Duration::ZERO };
        let hold_off = self.grtt.advertised().max(lag);
        let (budget, tally) = (Budget { steps: STEPS_MAX, repairs }, ErasureTally::default());
        let mut asking = Asking { node, now, hold_off, budget, tally, stats };
        let mut lost = 0;
        for request in RepairRequests::new(nack.requests) {
            match request {
                Ok(range) => {
                    let asked = asking.stats.repairs_requested;
                    let window = self.request_repair(&range, &mut asking);
                    lost += if window { 0 } else { asking.stats.repairs_requested - asked };
                }
                Err(reason) => asking.stats.reject(reason),
            }
        }
        if is_stranger {
            self.strangers.spend(repairs - asking.budget.repairs);
        }
        self.after_nack(now, from, nack, lost, stats);
    }

    /// A NACK was taken in that asked for `lost` segments, for which no window answers, that nobody had asked for.
    fn after_nack(&mut self, now: Time, from: Source, nack: &Nack<'_>, lost: u64, stats: &mut Stats) {
        self.objects.window.acks.settle_requests();
        let stale = std::mem::take(&mut self.objects.stale);
        let (node, grtt) = (nack.header.source, self.grtt.advertised());
        self.streams.iter_mut().for_each(|stream| stream.on_reached(now));
        // Also what can no longer be repaired was lost.
        if !nack.requests.is_empty() {
            self.control.on_nack(now, grtt);
            // Where it is known who counts, nobody else brakes the sender.
            if self.is_known(node) && !self.is_left_behind(node) {
                let lost_bytes = (lost - stale) as f64 * f64::from(self.config.segment_bytes);
                if self.control.on_lost(now, grtt, lost_bytes, stats.bytes_sent) {
                    self.objects.set_mark();
                }
            }
            self.pacer.set_rate(self.control.rate());
        }
        if self.has_repairs() {
            self.gate.on_request(now, self.collect_factor * grtt);
            // Others cannot overhear a unicast request; only a sender that collects leaves them time to.
            self.advertise |= from.unicast && self.gate.opens_at() > now;
        }
    }

    /// Whether anything was asked for again.
    pub(super) fn has_repairs(&self) -> bool {
        self.streams.iter().any(|stream| stream.owed.has_repairs()) || self.objects.has_repairs()
    }

    /// Takes note of one request. True if a window answers for what was lost: nothing else has to.
    fn request_repair(&mut self, range: &RepairRange, asking: &mut Asking<'_>) -> bool {
        let (first, flags) = (range.first, range.flags);
        let count = usize::from(range.last.object.wrapping_sub(first.object));
        if count > 0 {
            // Only whole objects can be asked for in a range of several.
            if !(flags.has(RepairFlags::OBJECT) || flags.has(RepairFlags::INFO)) {
                asking.stats.reject(Reject::RepairRequest);
                return false;
            }
            for step in 0..=count.min(self.config.send_objects_max + INVALID_OBJECTS_MAX) {
                if !asking.budget.take_step() {
                    break;
                }
                let item = Position { object: first.object.wrapping_add(step as u16), ..first };
                self.request_repair(&RepairRange { flags, first: item, last: item }, asking);
            }
            return false;
        }
        // Whoever asks for all of an object, or its information, may not know our scheme yet.
        let positioned = flags.has(RepairFlags::BLOCK) || flags.has(RepairFlags::SEGMENT);
        let readable = !positioned || first.fec_id == self.config.fec_id;
        if readable && self.objects.request(range, asking) {
            return false;
        }
        let Some(stream) = self.stream_mut(first.object) else {
            self.refuse(first.object, 1);
            return false;
        };
        if !readable {
            asking.stats.reject(Reject::RepairRequest);
            return false;
        }
        if flags.has(RepairFlags::INFO) {
            stream.owed.info = !stream.info.is_empty();
        }
        // Of a stream to which nothing was written there is nothing to wait for.
        if flags.has(RepairFlags::OBJECT) && stream.is_unused() && !stream.owed.info {
            self.refuse(first.object, 1);
            return false;
        }
        stream.request(range, asking);
        stream.has_window()
    }
}

impl TxStream {
    fn request(&mut self, range: &RepairRange, asking: &mut Asking<'_>) {
        let (first, sent, layout) = (self.first, self.sent, *self.layout());
        let Some(Wanted { segments, parity }) = Wanted::read(range, &layout, first..sent, sent) else {
            return;
        };
        let (asked, hold_off) = (asking.stats.repairs_requested, self.repair_hold_off(asking.hold_off));
        let kept = |segments: Range<u64>| segments.start.max(first)..segments.end.min(sent);
        if let Some((block, rows)) = parity {
            let whole = layout.block_segments(block);
            self.squelch |= whole.start < first;
            if whole.start >= first && whole.end <= sent {
                asking.request_parity(self.object, &mut self.owed, (block, rows), hold_off);
            } else if whole.start >= first {
                // Of a block that is not complete yet there is none: what was sent of it goes again.
                asking.request_segments(&mut self.owed, kept(whole), hold_off);
            }
        }
        self.squelch |= segments.start < first && segments.start < segments.end;
        asking.request_segments(&mut self.owed, kept(segments.clone()), hold_off);
        let segments = segments.start.min(sent)..segments.end.min(sent);
        let lost = asking.stats.repairs_requested - asked;
        self.on_request(asking.now, asking.node, &segments, lost);
    }
}

impl TxObjects {
    /// Somebody asks for something of an object. False if it is not here.
    fn request(&mut self, range: &RepairRange, asking: &mut Asking<'_>) -> bool {
        let Some(index) = self.index_of(range.first.object) else { return false };
        let object = &mut self.cache[index];
        if range.flags.has(RepairFlags::INFO) || range.flags.has(RepairFlags::OBJECT) {
            object.owed.info = !object.info.is_empty();
            if object.owed.info {
                self.informing.insert(object.start);
            }
        }
        let layout = *object.layout();
        let wanted = Wanted::read(range, &layout, 0..layout.segments, 0);
        let Some(Wanted { segments, parity }) = wanted else { return true };
        if let Some((block, rows)) = parity.filter(|(block, _)| object.order.was_block_sent(*block)) {
            asking.request_parity(object.id, &mut object.owed, (block, rows), asking.hold_off);
        }
        let (prefix, reach) = (object.order.prefix(), object.order.reach());
        let asked = segments.start.min(prefix)..segments.end.min(prefix);
        self.window.acks.on_request(asking.node, &(object.start + asked.start..object.start + asked.end));
        let hold_off = asking.hold_off;
        self.stale += asking.request_segments(&mut object.owed, asked, hold_off);
        // Of what is being sent together some went, in turn.
        for segment in segments.start.max(prefix)..segments.end.min(reach) {
            if !asking.budget.take_step() {
                break;
            }
            if object.order.was_sent(segment) {
                let segment = segment..segment + 1;
                self.stale += asking.request_segments(&mut object.owed, segment, hold_off);
            }
        }
        if object.owed.has_repairs() {
            self.repairing.insert(object.start);
        }
        true
    }
}
