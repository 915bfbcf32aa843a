//! What a receiver asks for of a sender's objects of known length, and what it hears others ask for.

use super::entry::InfoState;
use super::missing::Missing;
use super::objects::RxObjects;
use super::slot::Body;
use crate::ObjectId;
use crate::config::NackingMode;
use crate::serial;
use crate::wire::command::Position;
use crate::wire::repair::{RepairRange, RepairWriter};
use crate::wire::{PayloadId, RepairFlags};

impl RxObjects {
    /// Whether anything is missing that is to be asked for, unless somebody else did in this cycle.
    pub fn is_missing(&self, nacking: NackingMode, unless_in: Option<u16>) -> bool {
        self.slots.iter().any(|slot| slot.is_missing(nacking, unless_in))
    }

    /// Asks for what is missing. False if there was no room for all of it.
    pub fn write_requests(&self, nacking: NackingMode, requests: &mut RepairWriter) -> bool {
        let mut unheard: Option<(ObjectId, ObjectId)> = None;
        for (index, slot) in self.slots.iter().enumerate() {
            let object = self.number(index);
            if matches!(slot.body, Body::Wanted { .. }) && slot.is_missing(nacking, None) {
                unheard = Some(unheard.map_or((object, object), |(first, _)| (first, object)));
                continue;
            }
            if unheard.take().is_some_and(|run| !self.write_objects(run, requests)) {
                return false;
            }
            if let Body::Open(open) = &slot.body
                && slot.is_missing(nacking, None)
            {
                let item = open.blocks.layout.position(object, 0);
                let info = slot.info != InfoState::Missing || requests.push(RepairFlags::INFO, item, item);
                if !info || nacking == NackingMode::Full && !open.write_requests(requests) {
                    return false;
                }
            }
        }
        unheard.is_none_or(|run| self.write_objects(run, requests))
    }

    fn item(&self, object: ObjectId) -> Position {
        Position { fec_id: self.fec_id, object, payload_id: PayloadId::default() }
    }

    fn write_objects(&self, (first, last): (ObjectId, ObjectId), requests: &mut RepairWriter) -> bool {
        requests.push(RepairFlags::OBJECT, self.item(first), self.item(last))
    }

    /// Another receiver asked for something: it asked for us too.
    pub fn overhear(&mut self, range: &RepairRange, cycle: u16, erasures: usize) {
        let (first, last) = (range.first.object, range.last.object);
        if !self.synced || serial::before(last, self.first) {
            return;
        }
        let start = if serial::before(first, self.first) { self.first } else { first };
        let indexes =
            usize::from(start.wrapping_sub(self.first))..=usize::from(last.wrapping_sub(self.first));
        for slot in self.slots.iter_mut().take(indexes.end() + 1).skip(*indexes.start()) {
            slot.asked.overhear(range.flags, cycle, true);
            if let Body::Open(open) = &mut slot.body
                && open.blocks.layout.fec_id == range.first.fec_id
            {
                open.overhear(range, cycle, erasures);
            }
        }
    }

    /// Bytes of data in a full segment of the sender.
    pub fn segment_bytes(&self) -> Option<usize> {
        self.slots.iter().find_map(|slot| match &slot.body {
            Body::Open(open) => Some(open.segment_bytes()),
            _ => None,
        })
    }
}
