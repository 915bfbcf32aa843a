//! NORM_CMD(REPAIR_ADV): what receivers asked for by unicast, told to the others, who could not hear it and need
//! not ask again.
//!
//! It has the form of a NACK, and lists all that waits to be repaired: segments, whole blocks and objects,
//! parity and information, as far as a segment has room.

use std::time::Duration;

use super::owed::Owed;
use super::parity::SymbolSet;
use super::run::Segmented;
use super::sender::Sender;
use crate::ObjectId;
use crate::layout::Layout;
use crate::time::Time;
use crate::wire::RepairFlags;
use crate::wire::command;
use crate::wire::repair::{RepairWriter, each_run};

impl Sender {
    /// Writes the advertisement if one is due, at most once in a round-trip time.
    pub(super) fn plan_repair_advertisement(&mut self, now: Time, grtt: Duration) -> bool {
        if !self.advertise || now < self.advertise_at {
            return false;
        }
        self.advertise = false;
        self.advertise_at = now + grtt;
        self.requests.reset(self.config.segment_bytes.into());
        // What does not fit is not told; the next advertisement starts with what was not repaired by then.
        let requests = &mut self.requests;
        let _ = self
            .streams
            .iter()
            .all(|stream| write(stream.object, stream.layout(), &stream.info, &stream.owed, requests))
            && self
                .objects
                .with_requests()
                .all(|object| write(object.id, object.layout(), &object.info, &object.owed, requests));
        if self.requests.content().is_empty() {
            return false;
        }
        command::write_repair_advertisement(&self.header, self.requests.content(), &mut self.scratch);
        true
    }
}

/// Lists what of a stream or an object waits to be repaired. False if there was no room for all of it.
fn write(object: ObjectId, layout: &Layout, info: &[u8], owed: &Owed, requests: &mut RepairWriter) -> bool {
    let at = |segment: u64| layout.position(object, segment);
    if (info.is_empty() || owed.info) && owed.segments.count() == layout.segments {
        return requests.push(RepairFlags::OBJECT, at(0), at(0));
    }
    let parity = |(block, rows): (u64, SymbolSet), requests: &mut RepairWriter| {
        let place = |row: u64| layout.symbol_position(object, block, layout.symbols(block) + row);
        each_run(rows.iter().map(u64::from), |from, to| {
            requests.push(RepairFlags::SEGMENT, place(from), place(to))
        })
    };
    (!owed.info || requests.push(RepairFlags::INFO, at(0), at(0)))
        && owed.segments.runs().all(|run| requests.push_run(run, |segment| layout.block_around(segment), at))
        && owed.parity.pending().all(|pending| parity(pending, requests))
}
