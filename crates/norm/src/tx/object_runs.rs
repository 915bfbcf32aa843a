//! Runs of equal datagrams that objects of known length send, for the first time or again.

use shoal_fec::ReedSolomon;

use super::object::TxObject;
use super::object_order::Step;
use super::objects::TxObjects;
use crate::stats::Stats;
use crate::time::Time;
use crate::wire::{Flags, SenderHeader};

/// How much may go in one run.
#[derive(Copy, Clone, Debug)]
pub struct RunLimit {
    pub bytes_max: usize,
    pub segments_max: usize,
}

impl TxObjects {
    /// Gathers new segments into one run of equal datagrams. Returns how long each is; 0 if there are none.
    pub fn write_new(
        &mut self,
        now: Time,
        limit: RunLimit,
        code: Option<&ReedSolomon>,
        sender: &mut SenderHeader,
        stats: &mut Stats,
        out: &mut Vec<u8>,
    ) -> usize {
        out.clear();
        let (mut datagram_bytes, mut count) = (0, 0);
        let window_end = self.window.end();
        while let Some(object) = self.cache.get_mut(self.sent) {
            if object.is_sent() {
                self.sent += 1;
                continue;
            }
            if object.row_used() >= window_end {
                break;
            }
            let left = limit.segments_max - count;
            let Some(step) = object.next_step(left.min(limit.bytes_max / object.datagram_bytes_max())) else {
                break;
            };
            let step_bytes = object.datagram_bytes(&step);
            let step_count = if let Step::Parity { rows, .. } = &step { rows.len() } else { 1 };
            let fits = out.len() + step_bytes * step_count <= limit.bytes_max && step_count <= left;
            if count > 0 && (step_bytes > datagram_bytes || !fits || object.info_pending) {
                break;
            }
            match &step {
                Step::Segment(segment) => {
                    let bytes = object.write_segment(*segment, 0, sender, out, &mut self.scratch);
                    stats.payload_bytes_sent += bytes as u64;
                    stats.segments_sent += 1;
                }
                Step::Parity { block, rows } => {
                    self.rows.clear();
                    self.rows.extend(rows.clone());
                    if let Some(code) = code {
                        object.write_parity(code, *block, &self.rows, 0, sender, out, &mut self.scratch);
                    }
                    stats.parity_sent += rows.len() as u64;
                }
            }
            object.stepped(&step, now);
            if object.is_sent() {
                self.finished.push(object.id);
            }
            count += step_count;
            if datagram_bytes == 0 {
                datagram_bytes = step_bytes;
            } else if step_bytes < datagram_bytes {
                break;
            }
        }
        while self.cache.get(self.sent).is_some_and(TxObject::is_sent) {
            self.sent += 1;
        }
        datagram_bytes
    }

    /// Gathers repairs into one run of equal datagrams. Returns how long each is; 0 if there are none.
    pub fn write_repairs(
        &mut self,
        now: Time,
        limit: RunLimit,
        code: Option<&ReedSolomon>,
        sender: &mut SenderHeader,
        stats: &mut Stats,
        out: &mut Vec<u8>,
    ) -> usize {
        out.clear();
        let mut run = Run::default();
        let mut next = 0;
        while let Some(&start) = self.repairing.range(next..).next() {
            next = start + 1;
            let Some(index) = self.index_at(start) else {
                self.repairing.remove(&start);
                continue;
            };
            let (object, rows, scratch) = (&mut self.cache[index], &mut self.rows, &mut self.scratch);
            let goes_on = run.add_repairs(object, now, limit, code, sender, stats, (out, rows, scratch));
            if !self.cache[index].has_repairs() {
                self.repairing.remove(&start);
            }
            if !goes_on {
                break;
            }
        }
        run.datagram_bytes
    }
}

/// A run of equal datagrams: how long each is, and how many there are.
#[derive(Debug, Default)]
struct Run {
    datagram_bytes: usize,
    count: usize,
}

impl Run {
    /// Adds repairs of one object. False if the run is complete.
    #[allow(clippy::too_many_arguments, reason = "where to write, and what to write it from")]
    fn add_repairs(
        &mut self,
        object: &mut TxObject,
        now: Time,
        limit: RunLimit,
        code: Option<&ReedSolomon>,
        sender: &mut SenderHeader,
        stats: &mut Stats,
        (out, rows, scratch): (&mut Vec<u8>, &mut Vec<usize>, &mut Vec<u8>),
    ) -> bool {
        while self.count < limit.segments_max {
            let room = (limit.bytes_max.saturating_sub(out.len())) / object.datagram_bytes_max();
            // In a run all are as long as the first, but for the last; parity is always of full length.
            let too_long = object.repairs_by_parity() && self.datagram_bytes < object.datagram_bytes_max();
            if self.count > 0 && (room == 0 || too_long) {
                return false;
            }
            let parity_max = room.min(limit.segments_max - self.count);
            let Some(step) = object.next_repair(now, parity_max, rows) else { return true };
            let step_bytes = object.datagram_bytes(&step);
            match step {
                Step::Segment(segment) => {
                    if self.count > 0 && step_bytes > self.datagram_bytes {
                        return false;
                    }
                    object.write_segment(segment, Flags::REPAIR, sender, out, scratch);
                    object.repairs.repaired(segment, now);
                    self.count += 1;
                }
                Step::Parity { block, .. } => {
                    if let Some(code) = code {
                        object.write_parity(code, block, rows, Flags::REPAIR, sender, out, scratch);
                    }
                    stats.parity_sent += rows.len() as u64;
                    self.count += rows.len();
                }
            }
            stats.repairs_sent += 1;
            if self.datagram_bytes == 0 {
                self.datagram_bytes = step_bytes;
            } else if step_bytes < self.datagram_bytes {
                return false;
            }
        }
        false
    }
}
