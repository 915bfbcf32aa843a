//! NORM_CMD(REPAIR_ADV): what receivers asked for by unicast, told to the others, who could not hear it and need
//! not ask again.
//!
//! It has the form of a NACK, and lists all that waits to be repaired: segments, whole blocks and objects,
//! parity and information, as far as a segment has room.

use std::ops::Range;
use std::time::Duration;

use super::object::TxObject;
use super::parity::ParityQueue;
use super::run::Segmented;
use super::sender::Sender;
use super::stream::TxStream;
use crate::ObjectId;
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
        let _ = self.streams.iter().all(|stream| write_stream(stream, &mut self.requests))
            && self.objects.with_requests().all(|object| write_object(object, &mut self.requests));
        if self.requests.content().is_empty() {
            return false;
        }
        command::write_repair_advertisement(&self.header, self.requests.content(), &mut self.scratch);
        true
    }
}

/// Lists what of a stream waits to be repaired. False if there was no room for all of it.
fn write_stream(stream: &TxStream, requests: &mut RepairWriter) -> bool {
    let named = stream.repairs.pending(stream.sent());
    let info = stream.info_pending;
    let mut list = List { source: stream, object: stream.object, requests };
    list.info(info)
        && each_run(named, |first, last| list.segments(first..last + 1))
        && list.parity(&stream.parity)
}

/// Lists what of an object waits to be repaired. False if there was no room for all of it.
fn write_object(object: &TxObject, requests: &mut RepairWriter) -> bool {
    let mut list = List { source: object, object: object.id, requests };
    if object.is_asked_for_whole() {
        return list.push(RepairFlags::OBJECT, 0, 0);
    }
    list.info(object.info_pending)
        && object.repairs.runs().all(|run| list.segments(run))
        && list.parity(&object.parity)
}

/// What of a stream or an object waits to be repaired, while it is listed.
struct List<'a, S> {
    source: &'a S,
    object: ObjectId,
    requests: &'a mut RepairWriter,
}

impl<S: Segmented> List<'_, S> {
    fn push(&mut self, flags: u8, first: u64, last: u64) -> bool {
        let at = |segment: u64| self.source.layout().position(self.object, segment);
        self.requests.push(flags, at(first), at(last))
    }

    fn info(&mut self, is_pending: bool) -> bool {
        !is_pending || self.push(RepairFlags::INFO, 0, 0)
    }

    fn segments(&mut self, run: Range<u64>) -> bool {
        let layout = self.source.layout();
        let at = |segment: u64| layout.position(self.object, segment);
        self.requests.push_run(run, |segment| layout.block_around(segment), at)
    }

    fn parity(&mut self, parity: &ParityQueue) -> bool {
        let layout = self.source.layout();
        parity.pending().all(|(block, rows)| {
            let symbols = layout.symbols(block);
            let place = |symbol: u64| layout.symbol_position(self.object, block, symbol);
            each_run(rows.map(|row| symbols + u64::from(row)), |from, to| {
                self.requests.push(RepairFlags::SEGMENT, place(from), place(to))
            })
        })
    }
}
