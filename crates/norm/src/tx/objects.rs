//! The objects of known length being sent, and the cache that keeps them for repair.
//!
//! Objects go out in the order they were given. What was sent stays in the cache until something new needs its
//! room, but at least until everybody who counts has acknowledged it, or as long as a few repairs of it may take if
//! nobody counts; what is asked for after that is refused. An object that was not sent yet, is being repaired, or
//! whose watermark is open is never dropped: then the new one has to wait.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::announcements::Announcements;
use super::object::TxObject;
use super::object_window::{ObjectWindow, Sent};
use super::run::Run;
use crate::effort;
use crate::event::Event;
use crate::time::Time;
use crate::wire::command::Position;
use crate::{Config, NodeId, ObjectId};

/// Numbers wrap, so receivers tell old from new only where they are less than half of all numbers apart.
const NUMBERS_APART_MAX: u16 = 1 << 15;

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

#[derive(Debug, Default)]
pub struct TxObjects {
    /// Oldest first.
    pub(super) cache: VecDeque<TxObject>,
    /// Objects at the front that were sent completely.
    pub(super) sent: usize,
    /// Objects that were sent completely and are gone.
    sent_and_gone: u64,
    /// Where the next object starts in the row of all segments.
    pub(super) row_end: u64,
    pub(super) window: ObjectWindow,
    /// How many segments receivers asked for of which no more is to be concluded: see [`TxObjects::set_mark`].
    pub(super) stale: u64,
    bytes: usize,
    bytes_max: usize,
    objects_max: usize,
    pub(super) announcements: Announcements,
    robust_factor: u32,
    /// An object that takes so much, and has this number, was refused for want of room; and there may be room now.
    pub(super) refused: Option<(usize, ObjectId)>,
    has_room: bool,
    /// What became of objects that are gone, until it is told.
    settled: Vec<Event>,
    /// Objects that have something to repair, information to send, or an open watermark, by their place in the row:
    /// few do, and the others need not be looked at.
    pub(super) repairing: BTreeSet<u64>,
    pub(super) informing: BTreeSet<u64>,
    pub(super) watched: BTreeSet<u64>,
    /// Objects that were sent completely, until it is told.
    pub(super) finished: Vec<ObjectId>,
}

impl TxObjects {
    pub fn new(config: &Config) -> TxObjects {
        TxObjects {
            window: ObjectWindow::new(config),
            bytes_max: config.send_cache_bytes_max,
            objects_max: config.send_objects_max,
            robust_factor: config.robust_factor,
            ..TxObjects::default()
        }
    }

    // --- the cache ---

    fn fits(&self, (bytes, number): (usize, ObjectId)) -> bool {
        let oldest = self.cache.front().map_or(number, |object| object.id);
        self.cache.len() < self.objects_max
            && self.bytes + bytes <= self.bytes_max
            && number.wrapping_sub(oldest) < NUMBERS_APART_MAX
    }

    /// Whether an object that takes so much memory, and has this number, has room, after dropping old ones if need
    /// be. What was sent is kept for `hold` at least, unless it was acknowledged.
    pub fn make_room(&mut self, needed: (usize, ObjectId), now: Time, hold: Duration) -> bool {
        // One object may always go, however large it is.
        while !self.cache.is_empty() && !self.fits(needed) {
            if !self.is_droppable(now, hold) {
                self.refused = Some(needed);
                return false;
            }
            self.window.on_drop(self.cache[0].end());
            self.remove(0);
        }
        true
    }

    fn is_droppable(&self, now: Time, hold: Duration) -> bool {
        self.sent > 0
            && self.cache.front().is_some_and(|object| {
                let busy = object.owed.has_repairs() || object.is_watched() || object.owed.info;
                let enough = match self.window.acks.acked() {
                    Some(acked) => acked >= object.end(),
                    None => now.since(object.sent_at) >= hold,
                };
                !busy && enough
            })
    }

    /// Notices that there is room for an object that was refused.
    pub fn check_room(&mut self, now: Time, hold: Duration) {
        let there_is = |needed| self.cache.is_empty() || self.fits(needed) || self.is_droppable(now, hold);
        if self.refused.is_some_and(there_is) {
            (self.refused, self.has_room) = (None, true);
        }
    }

    fn remove(&mut self, index: usize) {
        let Some(mut object) = self.cache.remove(index) else { return };
        self.bytes -= object.memory;
        for places in [&mut self.repairing, &mut self.informing, &mut self.watched] {
            places.remove(&object.start);
        }
        if index < self.sent {
            self.sent -= 1;
            self.sent_and_gone += 1;
        }
        let id = object.id;
        self.settled.extend(object.acks.settle_now().map(|outcome| outcome.into_event(id)));
        self.settled.push(Event::ObjectReleased { object: id });
        let (cache, row_end) = (&self.cache, self.row_end);
        self.window.acks.advance(|row| past_gone(cache, row, row_end));
    }

    /// What is sent comes from another node id from now on.
    pub fn rename(&mut self, node: NodeId) {
        self.cache.iter_mut().for_each(|object| object.rename(node));
    }

    pub fn push(&mut self, mut object: TxObject) {
        self.bytes += object.memory;
        object.start = self.row_end;
        self.row_end = object.end();
        if object.owed.info {
            self.informing.insert(object.start);
        }
        self.cache.push_back(object);
    }

    /// Forgets an object at once. Says whether anything of it was sent; `None` if there is none.
    pub fn cancel(&mut self, id: ObjectId) -> Option<bool> {
        let index = self.index_of(id)?;
        let object = &self.cache[index];
        let was_begun = object.row_used() > object.start;
        self.remove(index);
        Some(was_begun)
    }

    pub(super) fn index_of(&self, id: ObjectId) -> Option<usize> {
        let first = self.cache.front()?.id;
        let place = |id: ObjectId| id.wrapping_sub(first);
        self.cache.binary_search_by_key(&place(id), |object| place(object.id)).ok()
    }

    /// The object that starts at a place in the row.
    pub(super) fn index_at(&self, start: u64) -> Option<usize> {
        self.cache.binary_search_by_key(&start, |object| object.start).ok()
    }

    /// The objects that start at these places.
    pub(super) fn at<'a>(&'a self, places: &'a BTreeSet<u64>) -> impl Iterator<Item = &'a TxObject> {
        let places = places.iter().inspect(|_| effort::step());
        places.filter_map(|start| self.index_at(*start).map(|index| &self.cache[index]))
    }

    pub fn find_mut(&mut self, id: ObjectId) -> Option<&mut TxObject> {
        self.index_of(id).map(|index| &mut self.cache[index])
    }

    /// What was sent so far.
    pub(super) fn sent_so_far(&self) -> Sent {
        let row = self.cache.get(self.sent).map_or(self.row_end, TxObject::row_sent);
        Sent { row, objects: self.sent_and_gone + self.sent as u64 }
    }

    /// Whether there is something to send that has to wait for acknowledgement.
    pub(super) fn is_held_back(&self) -> bool {
        self.cache.get(self.sent).is_some_and(|object| object.row_used() >= self.window.end())
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
        let settled = match self.window.acks.acked() {
            Some(acked) => acked >= self.row_end,
            None => self.announcements.is_over(),
        };
        self.sent == self.cache.len()
            && settled
            && !self.has_repairs()
            && !self.at(&self.watched).any(TxObject::is_watched)
    }

    /// The next bytes an owner is to read.
    pub fn poll_read(&mut self) -> Option<FileRead> {
        let sending = self.cache.get(self.sent).map(|object| object.start);
        let cache = &mut self.cache;
        sending.iter().chain(&self.repairing).find_map(|start| {
            let index = cache.binary_search_by_key(start, |object| object.start).ok()?;
            let object = &mut cache[index];
            let range = object.poll_read()?;
            let bytes = (range.end - range.start) as usize;
            Some(FileRead { object: object.id, offset: range.start, bytes })
        })
    }

    // --- requests ---

    pub fn has_repairs(&self) -> bool {
        !self.repairing.is_empty()
    }

    /// Objects of which something was asked for and is not repaired yet.
    pub fn with_requests(&self) -> impl Iterator<Item = &TxObject> {
        let sent = self.cache.get(self.sent).map_or(u64::MAX, |object| object.start);
        let informing = self.at(&self.informing).filter(move |object| object.start <= sent);
        self.at(&self.repairing).chain(informing.filter(|object| !object.owed.has_repairs()))
    }

    /// The rate follows from what was lost so far: what is still found lost of it is stale.
    pub fn set_mark(&mut self) {
        for object in self.cache.iter_mut().take(self.sent + 1) {
            effort::step();
            object.owed.segments.set_mark(object.order.reach());
        }
    }

    /// Segments to be sent again; `None` if there is nothing that could be.
    pub fn repairs_pending(&self) -> Option<u64> {
        if self.cache.is_empty() {
            return None;
        }
        Some(self.at(&self.repairing).map(|object| object.owed.segments.count()).sum())
    }

    // --- sending ---

    /// Whether anything can go for the first time.
    pub fn has_output(&self) -> bool {
        !self.is_held_back() && self.cache.get(self.sent).is_some_and(|object| object.next_step(1).is_some())
    }

    /// Adds new segments to a run.
    pub fn add_new(&mut self, now: Time, run: &mut Run<'_>) {
        let window_end = self.window.end();
        while let Some(object) = self.cache.get_mut(self.sent) {
            if object.is_sent() {
                self.sent += 1;
                continue;
            }
            if object.row_used() >= window_end || (object.owed.info && !run.is_empty()) {
                break;
            }
            let Some(step) = object.next_step(run.parity_max(object)) else { break };
            if !run.add(object, &step, false) {
                break;
            }
            object.stepped(&step, now);
            if object.is_sent() {
                self.finished.push(object.id);
            }
        }
        while self.cache.get(self.sent).is_some_and(TxObject::is_sent) {
            self.sent += 1;
        }
    }

    /// Adds repairs to a run.
    pub fn add_repairs(&mut self, now: Time, run: &mut Run<'_>) {
        let mut next = 0;
        while let Some(&start) = self.repairing.range(next..).next() {
            next = start + 1;
            let Some(index) = self.index_at(start) else {
                self.repairing.remove(&start);
                continue;
            };
            let object = &mut self.cache[index];
            let goes_on = run.add_repairs(object, now, |_, _| {});
            if !object.owed.has_repairs() {
                self.repairing.remove(&start);
            }
            if !goes_on {
                break;
            }
        }
    }

    /// The first object whose NORM_INFO is to be sent, if it is its turn.
    fn informing(&self) -> Option<usize> {
        // Not before the objects that come before it: receivers take a later one for a sign of loss.
        self.index_at(*self.informing.first()?).filter(|index| *index <= self.sent)
    }

    /// An object whose NORM_INFO is sent now.
    pub fn take_info(&mut self) -> Option<&TxObject> {
        let index = self.informing()?;
        let object = &mut self.cache[index];
        object.owed.info = false;
        self.informing.remove(&object.start);
        Some(object)
    }

    /// New segments went out: they are announced if nothing follows them soon.
    pub fn on_sent(&mut self, now: Time, grtt: Duration) {
        self.announcements.begin(now + 2 * grtt, self.robust_factor);
    }

    /// Announces the last segment once more, though that was done often enough.
    pub fn remind(&mut self, now: Time) {
        let is_news = !self.is_confirmed() || self.is_anybody_behind();
        if self.announcements.is_over() && self.sent > 0 && is_news {
            self.announcements.remind(now);
        }
    }

    /// When something other than a repair is due.
    pub fn deadline(&self, pacer_ready_at: Time, hold: Duration) -> Time {
        let has_output = self.has_output();
        // As long as there is something better to send, nothing is announced.
        let mut next = if has_output || self.has_repairs() { Time::NEVER } else { self.announcements.next() };
        // Where every object was cancelled there is nothing left to ask for.
        if !self.cache.is_empty() {
            next = next.min(self.window.acks.next_request);
        }
        next = next.min(self.watermark_deadline());
        if self.informing().is_some() || has_output {
            next = next.min(pacer_ready_at);
        }
        if self.refused.is_some()
            && self.window.acks.acked().is_none()
            && self.sent > 0
            && let Some(oldest) = self.cache.front().filter(|object| !object.owed.has_repairs())
            && !oldest.is_watched()
            && !oldest.owed.info
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
        events.extend(self.settled.drain(..));
        // Also when nothing is left: what was being asked for is settled then.
        self.collect_silent(events);
        for object in std::mem::take(&mut self.finished) {
            if self.index_of(object).is_some() {
                events.push_back(Event::ObjectSent { object });
            }
        }
        self.collect_watermarks(events);
    }
}

/// Places in the row that belong to objects which are gone are nobody's: the next one that is somebody's.
pub(super) fn past_gone(cache: &VecDeque<TxObject>, row: u64, row_end: u64) -> u64 {
    let next = cache.partition_point(|object| object.end() <= row);
    cache.get(next).map_or(row_end, |object| object.start.max(row))
}
