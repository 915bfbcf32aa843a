//! The objects of known length being sent, and the cache that keeps them for repair.
//!
//! Objects go out in the order they were given. What was sent stays in the cache until something new needs its
//! room, but at least as long as a few repairs of it may take; what is asked for after that is refused.
//! An object that was not sent yet, is being repaired, or whose watermark is open is never dropped: then the
//! new one has to wait.

use std::collections::VecDeque;
use std::time::Duration;

use super::acks::AckOutcome;
use super::object::TxObject;
use super::sender::ErasureTally;
use crate::config::Watermark;
use crate::event::Event;
use crate::stats::Stats;
use crate::time::Time;
use crate::wire::RepairFlags;
use crate::wire::command::Position;
use crate::wire::repair::RepairRange;
use crate::{Config, NodeId, ObjectId};

/// Bytes of a file its owner is to read and give to [`crate::Session::supply_file`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// The file.
    pub object: ObjectId,
    /// Where they start.
    pub offset: u64,
    /// How many.
    pub bytes: usize,
}

/// The objects.
#[derive(Debug)]
pub struct TxObjects {
    /// Oldest first.
    pub(super) cache: VecDeque<TxObject>,
    /// Objects at the front that were sent completely.
    pub(super) sent: usize,
    bytes: usize,
    bytes_max: usize,
    objects_max: usize,
    /// When the last segment is announced again, and how often.
    announcement: Option<(Time, u32)>,
    robust_factor: u32,
    /// An object was refused for want of room, and there may be room now.
    refused: bool,
    has_room: bool,
    released: Vec<ObjectId>,
    /// Whether any object may have repairs, information to send, open watermarks, or something to tell: most
    /// of the time none has, and the cache need not be searched.
    pub(super) repairing: bool,
    informing: bool,
    acking: bool,
    pub(super) telling: bool,
    pub(super) rows: Vec<usize>,
    pub(super) scratch: Vec<u8>,
}

impl TxObjects {
    pub fn new(config: &Config) -> TxObjects {
        TxObjects {
            cache: VecDeque::new(),
            sent: 0,
            bytes: 0,
            bytes_max: config.send_cache_bytes_max,
            objects_max: config.send_objects_max,
            announcement: None,
            robust_factor: config.robust_factor,
            refused: false,
            has_room: false,
            released: Vec::new(),
            repairing: false,
            informing: false,
            acking: false,
            telling: false,
            rows: Vec::new(),
            scratch: Vec::new(),
        }
    }

    // --- the cache ---

    /// Whether an object that takes so much memory has room, after dropping old ones if need be. What was sent
    /// is kept for `hold` at least.
    pub fn make_room(&mut self, bytes: usize, now: Time, hold: Duration) -> bool {
        while self.cache.len() >= self.objects_max || self.bytes + bytes > self.bytes_max {
            if !self.is_droppable(now, hold) {
                // One object may always go, however large it is.
                self.refused = !self.cache.is_empty();
                return self.cache.is_empty();
            }
            self.remove(0);
        }
        true
    }

    fn is_droppable(&self, now: Time, hold: Duration) -> bool {
        self.sent > 0
            && self.cache.front().is_some_and(|object| {
                let busy = object.has_repairs() || object.is_watched() || object.info_pending;
                !busy && now.since(object.sent_at) >= hold
            })
    }

    /// Notices that there is room for an object that was refused.
    pub fn check_room(&mut self, now: Time, hold: Duration) {
        if self.refused && self.is_droppable(now, hold) {
            (self.refused, self.has_room) = (false, true);
        }
    }

    fn remove(&mut self, index: usize) {
        if let Some(object) = self.cache.remove(index) {
            self.bytes -= object.memory();
            self.sent -= usize::from(index < self.sent);
            self.released.push(object.id);
        }
    }

    pub fn push(&mut self, object: TxObject) {
        self.bytes += object.memory();
        self.informing |= object.info_pending;
        self.cache.push_back(object);
    }

    /// Forgets an object at once. False if there is none.
    pub fn cancel(&mut self, id: ObjectId) -> bool {
        let found = self.cache.iter().position(|object| object.id == id);
        if let Some(index) = found {
            self.remove(index);
        }
        found.is_some()
    }

    pub fn find(&mut self, id: ObjectId) -> Option<&mut TxObject> {
        self.cache.iter_mut().find(|object| object.id == id)
    }

    /// The oldest object in the cache, at its start.
    pub fn oldest(&self) -> Option<Position> {
        self.cache.front().map(|object| object.position(0))
    }

    /// Nothing waits to be sent for the first time.
    pub fn is_sent(&self) -> bool {
        self.sent == self.cache.len()
    }

    /// Nothing waits to be sent, repaired, acknowledged or announced.
    pub fn is_quiet(&self) -> bool {
        self.sent == self.cache.len()
            && self.announcement.is_none()
            && !self.has_repairs()
            && !(self.acking && self.cache.iter().any(|object| object.is_watched()))
    }

    /// The next bytes an owner is to read.
    pub fn poll_read(&mut self) -> Option<FileRead> {
        let sending = self.sent;
        if !self.repairing {
            let object = self.cache.get_mut(sending)?;
            let range = object.poll_read()?;
            let bytes = (range.end - range.start) as usize;
            return Some(FileRead { object: object.id, offset: range.start, bytes });
        }
        let mut candidates = self
            .cache
            .iter_mut()
            .enumerate()
            .filter(|(index, object)| *index == sending || object.has_repairs());
        candidates.find_map(|(_, object)| {
            let range = object.poll_read()?;
            Some(FileRead {
                object: object.id,
                offset: range.start,
                bytes: (range.end - range.start) as usize,
            })
        })
    }

    // --- requests ---

    pub fn has_repairs(&self) -> bool {
        self.repairing && self.cache.iter().any(TxObject::has_repairs)
    }

    /// Objects of which something was asked for and is not repaired yet.
    pub fn with_requests(&self) -> impl Iterator<Item = &TxObject> {
        let sent = self.cache.iter().take(self.sent + 1);
        sent.filter(|object| object.has_repairs() || object.info_pending)
    }

    /// Somebody asked for something of an object. False if it is not here.
    pub fn request(
        &mut self,
        range: &RepairRange,
        (now, hold_off): (Time, Duration),
        budget: &mut u64,
        tally: &mut ErasureTally,
        stats: &mut Stats,
    ) -> bool {
        let Some(object) = self.cache.iter_mut().find(|object| object.id == range.first.object) else {
            return false;
        };
        (self.repairing, self.informing) = (true, true);
        let flags = range.flags;
        if flags.has(RepairFlags::INFO) || flags.has(RepairFlags::OBJECT) {
            object.info_pending = !object.info.is_empty();
        }
        let layout = *object.layout();
        let blocks = (layout.block_at(range.first.payload_id), layout.block_at(range.last.payload_id));
        let segments = if flags.has(RepairFlags::OBJECT) {
            0..layout.segments()
        } else if let (true, (Some(first), Some(last))) = (flags.has(RepairFlags::BLOCK), blocks) {
            layout.block_segments(first).start..layout.block_segments(last).end
        } else if let (true, (Some(first), Some(last))) = (flags.has(RepairFlags::SEGMENT), blocks) {
            let symbols = layout.symbols(last);
            let (from, to) = (range.first.payload_id.symbol, range.last.payload_id.symbol);
            if u64::from(to) >= symbols && first == last && object.was_block_sent(last) {
                let row = |symbol: u16| u64::from(symbol).saturating_sub(symbols) as u16;
                let wanted = row(from)..row(to) + 1;
                let erasures = tally.add((object.id, first), wanted.len() as u16);
                let added = object.parity.request(first, wanted, erasures, now, hold_off);
                stats.repairs_requested += u64::from(added);
            }
            let start = layout.block_segments(first).start + u64::from(from).min(layout.symbols(first));
            start..layout.block_segments(last).start + (u64::from(to) + 1).min(symbols)
        } else {
            return true;
        };
        for segment in segments.start..segments.end.min(object.reach()) {
            if *budget == 0 {
                break;
            }
            *budget -= 1;
            if !object.was_sent(segment) {
                continue;
            }
            stats.repairs_requested += u64::from(object.request(segment, now, hold_off));
        }
        true
    }

    /// An object was acknowledged up to here.
    pub fn on_ack(&mut self, node: NodeId, position: Position) {
        if let Some(object) = self.find(position.object)
            && let Some(segment) = object.layout().segment_at(position.payload_id)
        {
            object.acks.on_ack(node, segment + 1);
        }
    }

    /// Asks who counts to acknowledge an object. False if it is not here.
    pub fn want_ack(&mut self, id: ObjectId, ackers: &[NodeId], now: Time) -> bool {
        let Some(object) = self.find(id) else { return false };
        let end = object.layout().segments();
        object.acks.set_ackers(ackers, 0);
        object.acks.want(end);
        object.acks.request(now, end);
        self.acking = true;
        true
    }

    /// A request for acknowledgement that is due: where, and in `nodes` of whom.
    pub fn poll_ack_request(
        &mut self,
        now: Time,
        interval: Duration,
        nodes: &mut Vec<NodeId>,
    ) -> Option<Position> {
        if !self.acking {
            return None;
        }
        let (sent, cache) = (self.sent, &mut self.cache);
        cache.iter_mut().take(sent).filter(|object| object.is_watched()).find_map(|object| {
            let watermark = object.acks.poll(now, interval, nodes)?;
            Some(object.position(watermark - 1))
        })
    }

    // --- sending ---

    /// Whether anything can go for the first time.
    pub fn has_output(&self) -> bool {
        self.cache.get(self.sent).is_some_and(|object| object.next_step(1).is_some())
    }

    /// An object whose NORM_INFO is to be sent.
    pub fn next_info(&mut self) -> Option<&mut TxObject> {
        // Not before the objects that come before it: receivers take a later one for a sign of loss.
        if !self.informing {
            return None;
        }
        self.informing = self.cache.iter().any(|object| object.info_pending);
        self.cache.iter_mut().take(self.sent + 1).find(|object| object.info_pending)
    }

    /// New segments went out: they are announced if nothing follows them soon.
    pub fn on_sent(&mut self, now: Time, grtt: Duration) {
        self.announcement = Some((now + 2 * grtt, self.robust_factor));
    }

    /// Announces the last segment once more, though that was done often enough.
    pub fn remind(&mut self, now: Time) {
        if self.announcement.is_none() && self.sent > 0 {
            self.announcement = Some((now, 1));
        }
    }

    /// The announcement of the last segment that is due, if one is.
    pub fn poll_announcement(&mut self, now: Time, interval: Duration) -> Option<Position> {
        let (at, left) = self.announcement.filter(|(at, _)| *at <= now)?;
        self.announcement = (left > 1).then_some((at.max(now) + interval, left - 1));
        let last = self.cache.get(self.sent.checked_sub(1)?)?;
        Some(last.position(last.layout().segments() - 1))
    }

    /// When something other than a repair is due.
    pub fn deadline(&self, pacer_ready_at: Time, hold: Duration) -> Time {
        let has_output = self.has_output();
        // As long as there is something better to send, nothing is announced.
        let announcement = self.announcement.filter(|_| !has_output && !self.has_repairs());
        let mut next = announcement.map_or(Time::NEVER, |(at, _)| at);
        if self.acking {
            let waiting = self.cache.iter().take(self.sent).filter(|object| object.is_watched());
            next = waiting.map(|object| object.acks.deadline()).fold(next, Time::min);
        }
        let info = self.informing && self.cache.iter().take(self.sent + 1).any(|object| object.info_pending);
        if info || has_output {
            next = next.min(pacer_ready_at);
        }
        if self.refused
            && self.sent > 0
            && let Some(oldest) = self.cache.front().filter(|object| !object.has_repairs())
            && !oldest.is_watched()
            && !oldest.info_pending
        {
            next = next.min(oldest.sent_at + hold);
        }
        next
    }

    /// Tells what became of objects.
    pub fn collect_events(&mut self, events: &mut VecDeque<Event>) {
        if std::mem::take(&mut self.has_room) {
            events.push_back(Event::ObjectRoom);
        }
        for object in self.released.drain(..) {
            events.push_back(Event::ObjectReleased { object });
        }
        if !std::mem::take(&mut self.telling) && !self.acking {
            return;
        }
        self.acking = self.cache.iter().any(|object| object.is_watched());
        for object in &mut self.cache {
            let id = object.id;
            if std::mem::take(&mut object.sent_untold) {
                events.push_back(Event::ObjectSent { object: id });
            }
            if !object.is_watched() {
                continue;
            }
            while let Some(outcome) = object.acks.poll_outcome() {
                events.push_back(match outcome {
                    AckOutcome::Silent(node) => Event::AckerSilent { object: id, node },
                    AckOutcome::Settled(acked, silent) => {
                        Event::WatermarkDone(Watermark { object: id, acked, silent })
                    }
                });
            }
        }
    }

    /// Segments of everything in the cache, the most one NACK can ask for.
    pub fn segments(&self) -> u64 {
        self.cache.iter().map(|object| object.layout().segments()).sum()
    }

    /// Bytes that an owner read.
    pub fn supply(&mut self, id: ObjectId, offset: u64, bytes: &[u8]) {
        if let Some(object) = self.find(id) {
            object.supply(offset, bytes);
        }
    }
}
