//! What a receiver acknowledges of a sender's objects of known length.

use super::objects::RxObjects;
use super::scope::Scope;
use super::slot::{Body, Slot};
use crate::ObjectId;
use crate::serial;
use crate::time::Time;
use crate::wire::command::Position;

/// So many acknowledgements of objects that are done with wait to be given again.
const ACKS_AGAIN_MAX: usize = 16;

impl RxObjects {
    /// An object was given up: the first watermark from it on that waits is not acknowledged any more.
    pub(super) fn note_given_up(&mut self, object: ObjectId, heard: bool) {
        let index = self.find(object).unwrap_or(0);
        let asked = (index..self.slots.len()).find(|&index| self.slots[index].ack.take().is_some());
        self.acks -= usize::from(asked.is_some());
        self.acks_again.retain(|(position, _)| serial::before(position.object, object));
        self.given_up.add(object, heard, asked.map(|index| self.number(index)));
    }

    /// What is before the first slot is done with: if an acknowledgement of it was lost, it is given again. False
    /// if nothing is known of it, so that it may be a stream.
    pub(super) fn announce_done(&mut self, position: Position, ack_at: Option<Time>) -> bool {
        let is_known = self.given_up.was_object(position.object);
        if let Some(at) = ack_at.filter(|_| is_known)
            && self.given_up.on_asked(position.object)
            && self.acks_again.len() < ACKS_AGAIN_MAX
            && !self.acks_again.iter().any(|(waiting, _)| *waiting == position)
        {
            self.acks_again.push_back((position, at));
        }
        is_known
    }

    /// Watermarks that can be acknowledged, and from when on. An object's is once it is here and all before it are done
    /// with. Those that were given up do not get so far: see [`super::given_up`].
    fn ready_acks(&self) -> impl Iterator<Item = (usize, Time)> + '_ {
        let settled = |slot: &Slot| matches!(slot.body, Body::Closed);
        let undone =
            if self.acks == 0 { 0 } else { self.slots.iter().take_while(|slot| settled(slot)).count() + 1 };
        self.slots.iter().take(undone).enumerate().filter_map(|(index, slot)| {
            let (position, at) = slot.ack?;
            let has_it = match &slot.body {
                Body::Closed => true,
                // One that is complete and still open waits for its information.
                Body::Open(open) => {
                    open.blocks.layout.fec_id == position.fec_id
                        && open.has_up_to(position.payload_id)
                        && !open.is_complete()
                }
                Body::Wanted { .. } => false,
            };
            has_it.then_some((index, at))
        })
    }

    /// When an acknowledgement is due.
    pub fn ack_deadline(&self) -> Time {
        let again = self.acks_again.iter().map(|(_, at)| *at).min().unwrap_or(Time::NEVER);
        self.ready_acks().map(|(_, at)| at).fold(again, Time::min)
    }

    /// An acknowledgement that is due.
    pub fn take_ack(&mut self, scope: &mut Scope<'_>) -> Option<Position> {
        if let Some(index) = self.acks_again.iter().position(|(_, at)| *at <= scope.now) {
            return self.acks_again.remove(index).map(|(position, _)| position);
        }
        let (index, _) = self.ready_acks().find(|(_, at)| *at <= scope.now)?;
        let (position, _) = self.slots[index].ack.take()?;
        self.acks -= 1;
        self.release(scope);
        Some(position)
    }
}
