//! The objects of known length of one sender, in the order of their numbers.
//!
//! Numbers are given in order, so a number that was passed over is an object of which nothing came. From the
//! oldest incomplete object to the newest one there is a slot each, up to a bound; beyond it the oldest is given
//! up. Streams have numbers too: their slots are closed as soon as they are known to be streams.
//!
//! Memory is taken as symbols arrive, whatever length was announced. The objects of one sender hold no more of it
//! than is left, so that however many senders want all of it, there is some for the next.

use std::collections::VecDeque;
use std::time::Duration;

use super::entry::InfoState;
use super::given_up::GivenUp;
use super::object::RxObject;
use super::scope::Scope;
use super::slot::{Body, Slot};
use crate::config::{NackingMode, SyncPolicy};
use crate::event::{AbortReason, Event, StreamId};
use crate::serial;
use crate::stats::{Reject, Taken};
use crate::time::Time;
use crate::wire::command::Position;
use crate::wire::object::ObjectHeader;
use crate::wire::{Data, FecId, Flags, Fti, Info};
use crate::{NodeId, ObjectId};

/// What the place of an object costs to remember, with the room that a growing list of them has to spare. A few are
/// part of what a sender costs.
const SLOT_BYTES: usize = 2 * size_of::<Slot>();
const SLOTS_FREE: usize = 16;
/// A sender that sent nothing yet has so many places between its oldest and its newest object, and one more for each
/// that came: numbers it only skips cost it nothing.
const SLOTS_FIRST: usize = 1024;
/// So many numbers of streams are remembered.
const STREAMS_MAX: usize = 64;

/// The objects of one sender.
#[derive(Debug, Default)]
pub struct RxObjects {
    node: NodeId,
    instance: u16,
    /// The number of the first slot; meaningless before the first object came.
    pub(super) first: ObjectId,
    pub(super) slots: VecDeque<Slot>,
    pub synced: bool,
    /// An object of which nothing came for so long is given up, the first not before `expiry`.
    idle_after: Duration,
    pub expiry: Time,
    /// Watermarks that wait to be acknowledged.
    pub(super) acks: usize,
    /// Watermarks before the first slot: their acknowledgement was given, and may have been lost.
    pub(super) acks_again: VecDeque<(Position, Time)>,
    pub(super) given_up: GivenUp,
    /// The newest numbers that turned out to be streams', whether or not there was a place for these: no watermark in
    /// them is ours to acknowledge.
    streams: VecDeque<ObjectId>,
    /// Objects that came completely.
    came: usize,
    /// Slots were added of which some may be streams'.
    pub(super) grown: bool,
    /// Bytes of the session's memory they hold.
    pub memory: usize,
    /// The FEC scheme the sender uses, for asking for what we know nothing of.
    pub(super) fec_id: FecId,
}

impl RxObjects {
    pub fn new(node: NodeId, instance: u16) -> RxObjects {
        let (idle_after, expiry) = (Duration::MAX, Time::NEVER);
        RxObjects { node, instance, idle_after, expiry, ..RxObjects::default() }
    }

    fn id(&self, object: ObjectId) -> StreamId {
        StreamId { node: self.node, instance: self.instance, object }
    }

    pub(super) fn number(&self, index: usize) -> ObjectId {
        self.first.wrapping_add(index as u16)
    }

    /// The slot of an object, if it is neither before the first nor unheard of.
    pub(super) fn find(&self, object: ObjectId) -> Option<usize> {
        let index = usize::from(object.wrapping_sub(self.first));
        (self.synced && index < self.slots.len()).then_some(index)
    }

    /// The slot of an object, made if it is newer than all. `None` if it is before the first one.
    fn find_or_add(&mut self, object: ObjectId, scope: &mut Scope<'_>) -> Option<usize> {
        let slots_max = scope.config.objects_per_sender_max.min(SLOTS_FIRST + self.came);
        if !self.synced {
            self.synced = true;
            self.idle_after = scope.config.object_idle_after;
            let older =
                if scope.config.sync == SyncPolicy::All { usize::from(object).min(slots_max - 1) } else { 0 };
            let older = (0..older).take_while(|_| self.add_slot(scope)).count();
            self.first = object.wrapping_sub(older as u16);
            self.given_up = GivenUp::starting_at(self.first);
        }
        if serial::before(object, self.first) {
            return None;
        }
        let index = usize::from(object.wrapping_sub(self.first));
        if index >= self.slots.len() + slots_max {
            // So far ahead that nothing we know of is still to be had.
            for index in 0..self.slots.len() {
                self.close(index, Some(AbortReason::Overrun), scope);
            }
            self.clear_slots(scope);
            self.first = object;
            self.given_up = GivenUp::starting_at(object);
            self.given_up.add(object.wrapping_sub(1), false, None);
        }
        let index = usize::from(object.wrapping_sub(self.first));
        // A newer object has begun, so the one before it was sent completely.
        if index >= self.slots.len()
            && let Some(Slot { body: Body::Open(newest), .. }) = self.slots.back_mut()
        {
            scope.stats.losses_detected += newest.announce_all();
        }
        while self.slots.len() <= usize::from(object.wrapping_sub(self.first)) {
            if self.slots.len() >= slots_max || !self.add_slot(scope) {
                self.close(0, Some(AbortReason::Overrun), scope);
                self.pop_first(scope);
                continue;
            }
            let new = self.number(self.slots.len() - 1);
            self.streams.retain(|stream| *stream != new);
            self.grown = true;
            self.expiry = self.expiry.min(scope.now + self.idle_after);
        }
        self.find(object)
    }

    /// Makes a place for one more object. False if there is no memory for it.
    fn add_slot(&mut self, scope: &mut Scope<'_>) -> bool {
        let charge = if self.slots.len() < SLOTS_FREE { 0 } else { SLOT_BYTES };
        let taken = with_share(&mut self.memory, scope, |share, _| {
            share.checked_sub(charge).map(|left| *share = left).is_some()
        });
        if taken {
            self.slots.push_back(Slot::wanted(scope.now));
        }
        taken
    }

    /// Forgets all places.
    fn clear_slots(&mut self, scope: &mut Scope<'_>) {
        while !self.slots.is_empty() {
            self.pop_first(scope);
        }
        self.acks = 0;
    }

    /// Ends a slot: tells that it is complete, or that it is given up. What waits for nothing but its information is
    /// complete without it where nobody can send that any more.
    fn close(&mut self, index: usize, reason: Option<AbortReason>, scope: &mut Scope<'_>) {
        let object = self.id(self.number(index));
        let slot = &mut self.slots[index];
        slot.info = InfoState::Have;
        let heard = match std::mem::replace(&mut slot.body, Body::Closed) {
            Body::Open(open) => {
                *scope.memory_left += open.memory();
                self.memory -= open.memory();
                let is_over = matches!(reason, None | Some(AbortReason::Squelched | AbortReason::SenderGone));
                if is_over && open.is_complete() {
                    self.came += 1;
                    scope.events.push_back(open.into_event());
                    return;
                }
                true
            }
            Body::Wanted { .. } => false,
            Body::Closed => return,
        };
        if let Some(reason) = reason {
            if reason == AbortReason::Squelched {
                self.acks -= usize::from(self.slots[index].ack.take().is_some());
                // The sender knows that it is not here: later watermarks need not say so.
                self.given_up.add(object.object, heard, Some(object.object));
            } else {
                self.note_given_up(object.object, heard);
            }
            scope.events.push_back(Event::ObjectAborted { object, reason });
        }
    }

    fn pop_first(&mut self, scope: &mut Scope<'_>) {
        let slot = self.slots.pop_front();
        if slot.is_some() && self.slots.len() >= SLOTS_FREE {
            *scope.memory_left += SLOT_BYTES;
            self.memory -= SLOT_BYTES;
        }
        if self.slots.len() * 4 < self.slots.capacity() && self.slots.capacity() > 4 * SLOTS_FREE {
            self.slots.shrink_to(2 * self.slots.len());
        }
        self.acks -= usize::from(slot.is_some_and(|slot| slot.ack.is_some()));
        self.first = self.first.wrapping_add(1);
        self.given_up.on_first(self.first);
    }

    /// Lets go of closed slots at the front.
    pub(super) fn release(&mut self, scope: &mut Scope<'_>) {
        // The newest one stays: what comes next is counted from it.
        while self.slots.len() > 1
            && self.slots.front().is_some_and(|slot| matches!(slot.body, Body::Closed) && slot.ack.is_none())
        {
            self.pop_first(scope);
        }
    }

    // --- input ---

    pub fn handle_data(&mut self, data: &Data<'_>, scope: &mut Scope<'_>) -> Taken {
        let Some(index) = self.heard(&data.header, data.fti, scope)? else { return Ok(()) };
        let mut received = self.receive(index, data, scope);
        // The oldest gets done, or none would.
        while received == Err(Reject::NoMemory) && self.forget_newest(index, scope) {
            received = self.receive(index, data, scope);
        }
        let Slot { body: Body::Open(open), info, .. } = &self.slots[index] else { return received };
        let waits_for_info = *info == InfoState::Missing && scope.config.nacking != NackingMode::None;
        if open.is_complete() && !waits_for_info {
            self.close(index, None, scope);
            self.release(scope);
        }
        received
    }

    fn receive(&mut self, index: usize, data: &Data<'_>, scope: &mut Scope<'_>) -> Taken {
        let Body::Open(open) = &mut self.slots[index].body else { return Ok(()) };
        with_share(&mut self.memory, scope, |share, scope| open.receive(data, share, scope))
    }

    /// Forgets what came of objects that are not complete.
    pub fn make_way(&mut self, scope: &mut Scope<'_>) {
        for slot in &mut self.slots {
            if let Body::Open(open) = &mut slot.body
                && open.has_forgettable()
            {
                let before = open.memory();
                open.forget(scope.memory_left);
                self.memory -= before - open.memory();
            }
        }
    }

    /// Makes room by forgetting what came of the newest object after this one that can be asked for again.
    fn forget_newest(&mut self, index: usize, scope: &mut Scope<'_>) -> bool {
        let newer = self.slots.iter_mut().skip(index + 1).rev();
        let mut held = newer.filter_map(|slot| match &mut slot.body {
            Body::Open(open) if open.has_forgettable() => Some(open),
            _ => None,
        });
        let Some(newest) = held.next() else { return false };
        with_share(&mut self.memory, scope, |share, _| newest.forget(share));
        true
    }

    pub fn handle_info(&mut self, info: &Info<'_>, scope: &mut Scope<'_>) -> Taken {
        let Some(index) = self.heard(&info.header, info.fti, scope)? else { return Ok(()) };
        let stream = self.id(info.header.object);
        let slot = &mut self.slots[index];
        if slot.info == InfoState::Have {
            return Ok(());
        }
        slot.info = InfoState::Have;
        scope.events.push_back(Event::Info { stream, content: info.content.to_vec() });
        if let Body::Open(open) = &slot.body
            && open.is_complete()
        {
            self.close(index, None, scope);
            self.release(scope);
        }
        Ok(())
    }

    /// A message of an object came: finds or opens it. `None` if it is not wanted.
    fn heard(
        &mut self,
        header: &ObjectHeader,
        fti: Option<Fti>,
        scope: &mut Scope<'_>,
    ) -> Taken<Option<usize>> {
        self.fec_id = header.fec_id;
        let Some(index) = self.find_or_add(header.object, scope) else {
            scope.stats.duplicates_received += 1;
            return Ok(None);
        };
        let (id, slots) = (self.id(header.object), self.slots.len());
        let slot = &mut self.slots[index];
        match &slot.body {
            Body::Closed => {
                scope.stats.duplicates_received += 1;
                return Ok(None);
            }
            Body::Open(open) if !open.agrees(header.fec_id, fti) => return Err(Reject::ObjectInfo),
            Body::Open(_) => {}
            Body::Wanted { .. } => {
                let fti = fti.ok_or(Reject::ObjectInfo)?;
                let kind = (header.fec_id, fti);
                let opened = with_share(&mut self.memory, scope, |share, scope| {
                    RxObject::open(id, header.flags, kind, share, scope)
                });
                match opened {
                    Ok(mut open) => {
                        if index + 1 < slots {
                            scope.stats.losses_detected += open.announce_all();
                        }
                        let (kind, bytes) = (open.kind, open.blocks.fti.object_bytes);
                        scope.events.push_back(Event::ObjectOpened { object: id, kind, bytes });
                        slot.body = Body::Open(Box::new(open));
                    }
                    Err(reason) => {
                        if reason == Reject::TooLarge {
                            self.close(index, Some(AbortReason::TooLarge), scope);
                        }
                        return Err(reason);
                    }
                }
            }
        }
        let slot = &mut self.slots[index];
        if header.flags.has(Flags::INFO) && slot.info == InfoState::None {
            slot.info = InfoState::Missing;
        }
        Ok(Some(index))
    }

    /// The number belongs to a stream.
    pub fn set_stream(&mut self, object: ObjectId, scope: &mut Scope<'_>) {
        if let Some(index) = self.find(object)
            && matches!(self.slots[index].body, Body::Wanted { .. })
        {
            self.slots[index].body = Body::Closed;
            if self.streams.len() >= STREAMS_MAX {
                self.streams.pop_front();
            }
            self.streams.push_back(object);
            // A watermark in a stream is not reached because its number is an object's no more: it is asked for again.
            self.acks -= usize::from(self.slots[index].ack.take().is_some());
            self.release(scope);
        }
    }

    /// Everything up to here was sent; `ack_at` if that is to be acknowledged. False if it is no object of
    /// ours.
    pub fn announce(&mut self, position: Position, ack_at: Option<Time>, scope: &mut Scope<'_>) -> bool {
        if !self.synced || self.streams.contains(&position.object) {
            return false;
        }
        self.fec_id = position.fec_id;
        let Some(index) = self.find_or_add(position.object, scope) else {
            return self.announce_done(position, ack_at);
        };
        if let Body::Open(open) = &mut self.slots[index].body {
            scope.stats.losses_detected += open.announce(position.payload_id);
        }
        if let Some(at) = ack_at
            && self.given_up.on_asked(position.object)
        {
            let ack = &mut self.slots[index].ack;
            self.acks += usize::from(ack.is_none());
            *ack = Some((position, ack.map_or(at, |(_, known)| known.max(scope.now))));
        }
        true
    }

    /// The sender can repair nothing before `position`, nor what `is_invalid` names.
    pub fn squelch(
        &mut self,
        position: Position,
        is_invalid: impl Fn(ObjectId) -> bool,
        scope: &mut Scope<'_>,
    ) {
        for index in 0..self.slots.len() {
            let object = self.number(index);
            if is_invalid(object) || serial::before(object, position.object) {
                self.close(index, Some(AbortReason::Squelched), scope);
            }
        }
        self.release(scope);
    }

    /// Our application wants no more of an object, or could not keep it when it was complete.
    pub fn abandon(&mut self, object: ObjectId, scope: &mut Scope<'_>) {
        match self.find(object) {
            Some(index) if !matches!(self.slots[index].body, Body::Closed) => {
                self.close(index, Some(AbortReason::Abandoned), scope);
            }
            Some(_) => self.note_given_up(object, true),
            None if self.synced && serial::before(object, self.first) => self.note_given_up(object, true),
            None => return,
        }
        self.release(scope);
    }

    /// Gives up objects of which nothing came for too long.
    pub fn expire(&mut self, scope: &mut Scope<'_>) {
        if self.expiry > scope.now {
            return;
        }
        for index in 0..self.slots.len() {
            let is_idle = |since: Time| scope.now.since(since) >= self.idle_after;
            if self.slots[index].idle_since().is_some_and(is_idle) {
                self.close(index, Some(AbortReason::Expired), scope);
            }
        }
        self.release(scope);
        self.expiry = self.first_expiry();
    }

    fn first_expiry(&self) -> Time {
        let since = self.slots.iter().filter_map(Slot::idle_since);
        since.min().map_or(Time::NEVER, |since| since + self.idle_after)
    }

    /// Gives all memory back, and says that what was not complete will never be.
    pub fn close_all(&mut self, scope: &mut Scope<'_>) {
        for index in 0..self.slots.len() {
            self.close(index, Some(AbortReason::SenderGone), scope);
        }
        self.clear_slots(scope);
    }
}

/// Lets one sender's objects take memory, as long as they hold no more of it than is left for everybody else.
fn with_share<'a, R>(
    held: &mut usize,
    scope: &mut Scope<'a>,
    take: impl FnOnce(&mut usize, &mut Scope<'a>) -> R,
) -> R {
    let share_before = scope.memory_left.saturating_sub(*held) / 2;
    let mut share = share_before;
    let result = take(&mut share, scope);
    *scope.memory_left = *scope.memory_left + share - share_before;
    *held = *held + share_before - share;
    result
}
