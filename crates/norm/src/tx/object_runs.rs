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
        self.telling = true;
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
        self.repairing = self.has_repairs();
        let (mut datagram_bytes, mut count) = (0, 0);
        if !self.repairing {
            return 0;
        }
        for object in self.cache.iter_mut().filter(|object| object.has_repairs()) {
            while count < limit.segments_max {
                let room = (limit.bytes_max.saturating_sub(out.len())) / object.datagram_bytes_max();
                // In a run all are as long as the first, but for the last; parity is always of full length.
                let too_long = object.repairs_by_parity() && datagram_bytes < object.datagram_bytes_max();
                if count > 0 && (room == 0 || too_long) {
                    return datagram_bytes;
                }
                let parity_max = room.min(limit.segments_max - count);
                let Some(step) = object.next_repair(now, parity_max, &mut self.rows) else { break };
                let step_bytes = object.datagram_bytes(&step);
                match step {
                    Step::Segment(segment) => {
                        if count > 0 && step_bytes > datagram_bytes {
                            return datagram_bytes;
                        }
                        object.write_segment(segment, Flags::REPAIR, sender, out, &mut self.scratch);
                        object.repairs.repaired(segment, now);
                        count += 1;
                    }
                    Step::Parity { block, .. } => {
                        if let Some(code) = code {
                            let flags = Flags::REPAIR;
                            object.write_parity(
                                code,
                                block,
                                &self.rows,
                                flags,
                                sender,
                                out,
                                &mut self.scratch,
                            );
                        }
                        stats.parity_sent += self.rows.len() as u64;
                        count += self.rows.len();
                    }
                }
                stats.repairs_sent += 1;
                if datagram_bytes == 0 {
                    datagram_bytes = step_bytes;
                } else if step_bytes < datagram_bytes {
                    return datagram_bytes;
                }
            }
        }
        datagram_bytes
    }
}
