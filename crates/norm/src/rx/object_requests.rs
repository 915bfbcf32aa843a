//! What is lost of an object of known length, what of it to ask for, and what others asked for.

use std::ops::Range;

use super::object::RxObject;
use super::requests;
use crate::wanted::Wanted;
use crate::wire::RepairFlags;
use crate::wire::command::Position;
use crate::wire::repair::{RepairRange, RepairWriter};

/// The most runs of segments remembered as asked for by others.
const ASKED_RUNS_MAX: usize = 64;

impl RxObject {
    /// Whether anything of it counts as lost, unless somebody else asked for it in this cycle.
    pub fn is_missing(&self, unless_in: Option<u16>) -> bool {
        unless_in.map_or_else(|| self.first_missing(0).is_some(), |cycle| self.needs_asking(cycle))
    }

    /// The first block from `from` on that lost something.
    fn first_missing(&self, from: u64) -> Option<u64> {
        let checked_blocks = if self.checked == 0 { 0 } else { self.layout.block_of(self.checked - 1) + 1 };
        let mut block = from.max(self.first_incomplete);
        while block < checked_blocks {
            if let Some(complete) = self.complete.run_of(block) {
                block = complete.end;
            } else if self.lost(block).next().is_some() {
                return Some(block);
            } else {
                block += 1;
            }
        }
        None
    }

    /// Source symbols of a block that are lost.
    fn lost(&self, block: u64) -> impl Iterator<Item = u64> + Clone + '_ {
        let segments = self.layout.block_segments(block);
        let end = segments.end.min(self.checked).saturating_sub(segments.start);
        let partial = self.partial.get(&block);
        let complete = self.is_block_complete(block);
        (0..end).filter(move |at| !complete && partial.is_none_or(|partial| !partial.has(*at)))
    }

    /// Whether anything is lost that nobody else asked for in this cycle.
    fn needs_asking(&self, cycle: u16) -> bool {
        let asked = if self.asked_in == cycle { &self.asked[..] } else { &[] };
        let mut from = 0;
        while let Some(block) = self.first_missing(from) {
            let segments = self.layout.block_segments(block);
            let covers = |run: &&Range<u64>| run.start <= segments.start && segments.end <= run.end;
            if let Some(run) = asked.iter().find(covers) {
                let blocks = self.layout.blocks;
                from = if run.end < self.layout.segments { self.layout.block_of(run.end) } else { blocks };
                continue;
            }
            let is_asked = |at: u64| asked.iter().any(|run| run.contains(&(segments.start + at)));
            if !self.lost(block).all(is_asked) {
                return true;
            }
            from = block + 1;
        }
        false
    }

    fn item(&self, block: u64, symbol: u64) -> Position {
        self.layout.symbol_position(self.id.object, block, symbol)
    }

    /// Asks for what is lost. False if there was no room for all of it.
    pub fn write_requests(&self, info_missing: bool, requests: &mut RepairWriter) -> bool {
        if info_missing {
            let first = self.item(0, 0);
            if !requests.push(RepairFlags::INFO, first, first) {
                return false;
            }
        }
        let (mut from, mut left) = (0, self.blocks_asked_max as u64);
        while let Some(block) = self.first_missing(from)
            && left > 0
        {
            let run_end = self.untouched_end(block).min(block.saturating_add(left));
            let fits = if run_end > block {
                requests.push(RepairFlags::BLOCK, self.item(block, 0), self.item(run_end - 1, 0))
            } else {
                self.write_block(block, requests)
            };
            if !fits {
                return false;
            }
            from = run_end.max(block + 1);
            left -= from - block;
        }
        true
    }

    /// The first block from `block` on of which something came, or of which not all was sent.
    fn untouched_end(&self, block: u64) -> u64 {
        let sent_whole = if self.checked < self.layout.segments {
            self.layout.block_of(self.checked)
        } else {
            self.layout.blocks
        };
        let partial = self.partial.range(block..).next().map(|(touched, _)| *touched);
        let parity = self.parity.as_ref().and_then(|parity| parity.next_block(block));
        let touched = [partial, parity, self.complete.next_start(block)];
        touched.into_iter().flatten().fold(sent_whole, u64::min).max(block)
    }

    fn write_block(&self, block: u64, requests: &mut RepairWriter) -> bool {
        let symbols = self.layout.symbols(block);
        let whole = self.layout.block_segments(block).end <= self.checked;
        let parity_symbols = if whole { self.fti.parity_symbols } else { 0 };
        let held = |index: u16| self.parity.as_ref().is_some_and(|parity| parity.has(block, index));
        let lost = self.lost(block).map(|at| at as u16);
        requests::write_symbols(lost, symbols as u16, parity_symbols, held, |first, last| {
            let place = |at: u16| self.item(block, at.into());
            requests.push(RepairFlags::SEGMENT, place(first), place(last))
        })
    }

    /// Another receiver asked for something of this object: it asked for us too.
    pub fn overhear(&mut self, range: &RepairRange, cycle: u16, erasures: usize) {
        if self.asked_in != cycle {
            self.asked_in = cycle;
            self.asked.clear();
        }
        if self.asked.len() >= ASKED_RUNS_MAX {
            return;
        }
        let wanted = Wanted::read(range, &self.layout, 0..u64::MAX, 0);
        let Some(Wanted { segments, parity }) = wanted else { return };
        match parity.filter(|_| segments.is_empty() && self.has_parity()) {
            // Symbols asked for by name may be ones we have; parity serves everybody who lacks no more.
            Some((block, _)) => {
                let held = self.parity.as_ref().map_or(0, |parity| parity.count(block));
                if self.lost(block).count() <= held + erasures {
                    self.asked.push(self.layout.block_segments(block));
                }
            }
            None => self.asked.push(segments),
        }
    }
}
