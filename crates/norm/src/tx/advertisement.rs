//! NORM_CMD(REPAIR_ADV): what receivers asked for by unicast, told to the others, who could not hear it and need
//! not ask again.
//!
//! It has the form of a NACK, and lists all that waits to be repaired: segments, whole blocks and objects,
//! parity and information, as far as a segment has room.

use std::time::Duration;

use super::object::TxObject;
use super::sender::Sender;
use super::stream::TxStream;
use crate::time::Time;
use crate::wire::command::{self, Position};
use crate::wire::repair::{RepairWriter, each_run};
use crate::wire::{PayloadId, RepairFlags, RepairItem};

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
        let _ = self.streams.iter().all(|stream| write_stream(stream, &mut self.requests))
            && self.objects.with_requests().all(|object| write_object(object, &mut self.requests));
        if self.requests.content().is_empty() {
            return false;
        }
        command::write_repair_advertisement(&self.header, self.requests.content(), &mut self.scratch);
        true
    }
}

fn item(Position { fec_id, object, payload_id }: Position) -> RepairItem {
    RepairItem { fec_id, object, payload_id }
}

/// Lists what of a stream waits to be repaired. False if there was no room for all of it.
fn write_stream(stream: &TxStream, requests: &mut RepairWriter) -> bool {
    let at = |segment: u64| item(stream.position(segment));
    if stream.info_pending && !requests.push(RepairFlags::INFO, at(0), at(0)) {
        return false;
    }
    let symbols = stream.symbols();
    let block_of = |segment: u64| {
        let start = segment / symbols * symbols;
        start..start + symbols
    };
    each_run(stream.repairs.pending(stream.sent()), |first, last| {
        requests.push_run(first..last + 1, block_of, at)
    }) && stream.parity.pending().all(|(block, rows)| {
        let first = stream.position(block * symbols);
        let place = |symbol: u64| {
            let payload_id = PayloadId { symbol: symbol as u16, ..first.payload_id };
            item(Position { payload_id, ..first })
        };
        each_run(rows.map(|row| symbols + u64::from(row)), |from, to| {
            requests.push(RepairFlags::SEGMENT, place(from), place(to))
        })
    })
}

/// Lists what of an object waits to be repaired. False if there was no room for all of it.
fn write_object(object: &TxObject, requests: &mut RepairWriter) -> bool {
    let layout = object.layout();
    let at = |segment: u64| item(object.position(segment));
    if object.is_asked_for_whole() {
        return requests.push(RepairFlags::OBJECT, at(0), at(0));
    }
    if object.info_pending && !requests.push(RepairFlags::INFO, at(0), at(0)) {
        return false;
    }
    let block_of = |segment: u64| layout.block_segments(layout.block_of(segment));
    object.repairs.runs().all(|run| requests.push_run(run, block_of, at))
        && object.parity.pending().all(|(block, rows)| {
            let place = |symbol: u64| {
                let payload_id = layout.place(block, symbol);
                item(Position { payload_id, ..object.position(0) })
            };
            let symbols = layout.symbols(block);
            each_run(rows.map(|row| symbols + u64::from(row)), |from, to| {
                requests.push(RepairFlags::SEGMENT, place(from), place(to))
            })
        })
}
