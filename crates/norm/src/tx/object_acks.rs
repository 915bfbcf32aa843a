//! Who has which objects of known length: what the window asks for, and what an application wants to know.

use std::collections::VecDeque;
use std::time::Duration;

use super::acks::AckOutcome;
use super::object::TxObject;
use super::objects::{TxObjects, past_gone};
use super::run::Segmented;
use crate::event::Event;
use crate::time::Time;
use crate::wire::command::Position;
use crate::{NodeId, ObjectId};

impl TxObjects {
    /// Whose acknowledgements count from now on. A new one owes nothing that was sent before, or all that can still
    /// be repaired.
    pub fn set_ackers(&mut self, nodes: &[NodeId], from_oldest: bool) {
        let index = if from_oldest { 0 } else { self.sent };
        let from = self.cache.get(index).map_or(self.row_end, |object| object.start);
        self.window.set_ackers(nodes, from);
    }

    /// Somebody counts, and everybody who does has said that it has everything.
    pub(super) fn is_confirmed(&self) -> bool {
        self.window.acks.is_confirmed(self.row_end)
    }

    /// Some acker, though it may be silent, has not everything that was sent; or nobody counts.
    pub(super) fn is_anybody_behind(&self) -> bool {
        self.window.acks.acked().is_none() || self.window.acks.is_owed(self.sent_so_far().row)
    }

    /// Every acker, silent ones too, has acknowledged every object that was not cancelled.
    pub fn is_acknowledged(&self) -> bool {
        !self.window.is_owed(self.row_end)
    }

    /// An object was acknowledged up to here.
    pub fn on_ack(&mut self, now: Time, node: NodeId, position: Position) {
        let Some(object) = self.find_mut(position.object) else { return };
        let Some(segment) = object.layout().segment_at(position.payload_id) else { return };
        object.acks.on_ack(now, node, segment + 1, 0);
        let row = object.start + segment + 1;
        if row <= object.row_sent() {
            let has = past_gone(&self.cache, row, self.row_end);
            let sent = self.sent_so_far();
            self.window.on_ack(now, node, row, has, sent);
        }
    }

    /// Asks who counts to acknowledge an object. False if it is not here.
    pub fn want_ack(&mut self, id: ObjectId, ackers: &[NodeId], now: Time) -> bool {
        let Some(object) = self.find_mut(id) else { return false };
        let end = object.layout().segments;
        object.acks.set_ackers(ackers, 0);
        object.acks.want(end);
        object.acks.request(now, end);
        let start = object.start;
        self.watched.insert(start);
        true
    }

    /// Sets how long the repairs take that were asked for, without which nobody can acknowledge.
    pub fn set_owed(&mut self, owed: Duration) {
        self.window.acks.set_owed(owed);
        for start in &self.watched {
            if let Ok(index) = self.cache.binary_search_by_key(start, |object| object.start) {
                self.cache[index].acks.set_owed(owed);
            }
        }
    }

    /// A request for acknowledgement that is due: where, and in `nodes` of whom.
    pub fn poll_ack_request(
        &mut self,
        now: Time,
        interval: Duration,
        nodes: &mut Vec<NodeId>,
    ) -> Option<Position> {
        if self.cache.is_empty() {
            return None;
        }
        self.window.ask(now, self.sent_so_far(), self.refused.is_some() || self.is_held_back());
        if let Some(row) = self.window.acks.poll(now, interval, nodes) {
            return self.position_before(row);
        }
        let due: Vec<u64> = self
            .askable()
            .filter(|object| object.acks.next_request <= now)
            .map(|object| object.start)
            .collect();
        due.into_iter().find_map(|start| {
            let object = self.index_at(start).and_then(|index| self.cache.get_mut(index))?;
            let watermark = object.acks.poll(now, interval, nodes)?;
            Some(object.position(watermark - 1))
        })
    }

    /// Objects that were sent and whose watermark an application wants.
    fn askable(&self) -> impl Iterator<Item = &TxObject> {
        let sent = self.cache.get(self.sent).map_or(u64::MAX, |object| object.start);
        self.at(&self.watched)
            .take_while(move |object| object.start < sent)
            .filter(|object| object.is_watched())
    }

    /// When a watermark an application wants is to be asked for.
    pub(super) fn watermark_deadline(&self) -> Time {
        self.askable().map(|object| object.acks.next_request).min().unwrap_or(Time::NEVER)
    }

    /// When anybody is to be asked for an acknowledgement.
    pub fn ack_deadline(&self) -> Time {
        self.window.acks.next_request.min(self.watermark_deadline())
    }

    /// The last segment before a place in the row.
    fn position_before(&self, row: u64) -> Option<Position> {
        let next = self.cache.partition_point(|object| object.start < row);
        let object = self.cache.get(next.checked_sub(1)?)?;
        Some(object.position(row.min(object.end()) - object.start - 1))
    }

    /// The announcement of the last segment that is due, if one is. Those whose acknowledgement counts are asked for
    /// it, and are in `nodes`: one round of answers ends the announcing.
    pub fn poll_announcement(
        &mut self,
        now: Time,
        interval: Duration,
        nodes: &mut Vec<NodeId>,
    ) -> Option<Position> {
        if self.announcements.next() > now {
            return None;
        }
        self.announcements.on_said(now + interval);
        if self.is_confirmed() {
            self.announcements.stop();
        }
        nodes.clear();
        self.window.ask_everybody(now, self.sent_so_far());
        if let Some(row) = self.window.acks.poll(now, interval, nodes) {
            return self.position_before(row);
        }
        let last = self.cache.get(self.sent.checked_sub(1)?)?;
        Some(last.position(last.layout().segments - 1))
    }

    /// Tells who stopped answering.
    pub(super) fn collect_silent(&mut self, events: &mut VecDeque<Event>) {
        while let Some((node, row)) = self.window.poll_silent() {
            if let Some(Position { object, .. }) = self.position_before(row) {
                events.push_back(Event::AckerSilent { object, node });
            }
        }
    }

    /// Tells what became of the watermarks an application asked for.
    pub(super) fn collect_watermarks(&mut self, events: &mut VecDeque<Event>) {
        let watched = std::mem::take(&mut self.watched);
        for start in watched {
            let Some(index) = self.index_at(start) else { continue };
            let object = &mut self.cache[index];
            let (id, end) = (object.id, object.end());
            while let Some(outcome) = object.acks.poll_outcome() {
                if let AckOutcome::Settled(_, silent) = &outcome {
                    silent.iter().for_each(|node| self.window.on_silence(*node, end));
                }
                events.push_back(outcome.into_event(id));
            }
            if object.is_watched() {
                self.watched.insert(start);
            }
        }
    }
}
