//! What a receiver lacks of a stream or an object, as far as it counts as lost, and whether others asked for it.

use std::ops::Range;

use super::blocks::Blocks;
use super::object::RxObject;
use super::stream::RxStream;
use super::window::{Slot, Window};
use crate::wanted::Wanted;
use crate::wire::repair::{RepairRange, each_run};

/// What is received in segments: a stream, or an object of known length.
pub trait Missing {
    fn blocks(&self) -> &Blocks;

    fn blocks_mut(&mut self) -> &mut Blocks;

    /// Parity symbols that a block can be computed from.
    fn parity_symbols(&self) -> u16;

    /// The segments that others may ask for and that can be had here, and one near to which places on the wire are.
    fn askable(&self) -> (Range<u64>, u64);

    /// Segments from the first of these on that are missing can still be had, those before the second count as lost.
    fn lost_within(&self) -> Range<u64>;

    /// Whether a segment is not here.
    fn lacks(&self, segment: u64) -> bool;

    /// Whether anything counts as lost.
    fn has_missing(&self) -> bool;

    /// Calls `run` with each run of segments from `least` on that count as lost, oldest first, until it returns false, and
    /// returns what it returned last.
    fn missing_runs(&self, least: u64, run: impl FnMut(Range<u64>) -> bool) -> bool;

    /// Whether so much parity of a block as somebody else asked for is all that is lacking here.
    fn suffices(&self, block: u64, erasures: usize) -> bool {
        let Blocks { layout, parity, .. } = self.blocks();
        let lost = layout.block_segments(block).filter(|segment| self.lacks(*segment)).count();
        self.parity_symbols() > 0
            && lost <= parity.as_ref().map_or(0, |parity| parity.count(block)) + erasures
    }

    /// Whether anything counts as lost, unless somebody else asked for it in this cycle.
    fn is_missing(&self, unless_in: Option<u16>) -> bool {
        self.has_missing()
            && unless_in
                .is_none_or(|cycle| !self.missing_runs(0, |run| self.blocks().asked.covers(run, cycle)))
    }

    /// Another receiver asked for something of it, and for `erasures` symbols of its block in all: it asked for us too.
    fn overhear(&mut self, range: &RepairRange, cycle: u16, erasures: usize) {
        let (layout, mut asked) = (self.blocks().layout, std::mem::take(&mut self.blocks_mut().asked));
        let (within, near) = self.askable();
        if let Some(wanted) = Wanted::read(range, &layout, 0..layout.segments, near) {
            asked.overhear(cycle, wanted, within, &layout, |block| self.suffices(block, erasures));
        }
        self.blocks_mut().asked = asked;
    }
}

impl Missing for RxStream {
    fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn parity_symbols(&self) -> u16 {
        if self.blocks.parity.is_some() { self.blocks.fti.parity_symbols } else { 0 }
    }

    fn askable(&self) -> (Range<u64>, u64) {
        (self.window.in_hand(), self.reference())
    }

    fn lost_within(&self) -> Range<u64> {
        self.window.complete..self.window.end.min(self.window.checked)
    }

    fn lacks(&self, segment: u64) -> bool {
        self.window.held(segment).is_none()
    }

    fn has_missing(&self) -> bool {
        self.window.has_missing()
    }

    fn missing_runs(&self, least: u64, run: impl FnMut(Range<u64>) -> bool) -> bool {
        self.window.missing_runs(least, run)
    }
}

impl Missing for RxObject {
    fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn parity_symbols(&self) -> u16 {
        self.blocks.fti.parity_symbols
    }

    fn askable(&self) -> (Range<u64>, u64) {
        (0..self.blocks.layout.segments, 0)
    }

    fn lost_within(&self) -> Range<u64> {
        0..self.checked
    }

    fn lacks(&self, segment: u64) -> bool {
        let block = self.blocks.layout.block_of(segment);
        let symbol = segment - self.blocks.layout.block_segments(block).start;
        !self.is_block_complete(block) && self.partial.get(&block).is_none_or(|partial| !partial.has(symbol))
    }

    fn has_missing(&self) -> bool {
        !self.missing_runs(0, |_| false)
    }

    /// Blocks of which nothing came are one run, however many they are.
    fn missing_runs(&self, _: u64, mut run: impl FnMut(Range<u64>) -> bool) -> bool {
        let (mut block, checked) = (self.first_incomplete, self.checked);
        while block < self.blocks.layout.blocks && self.blocks.layout.block_segments(block).start < checked {
            let Range { start, end } = self.blocks.layout.block_segments(block);
            if let Some(complete) = self.complete.run_of(block) {
                block = complete.end;
            } else if self.partial.contains_key(&block) {
                let lost = (start..end.min(checked)).filter(|segment| self.lacks(*segment));
                if !each_run(lost, |first, last| run(first..last + 1)) {
                    return false;
                }
                block += 1;
            } else {
                let partial = self.partial.range(block..).next().map(|(touched, _)| *touched);
                let touched = partial.into_iter().chain(self.complete.next_start(block));
                block = touched.fold(self.blocks.layout.blocks, u64::min);
                if !run(start..self.blocks.layout.block_segments(block - 1).end.min(checked)) {
                    return false;
                }
            }
        }
        true
    }
}

impl Window {
    /// Calls `run` with each run of missing segments within reach, from `least` on, that count as lost, oldest first, until
    /// it returns false, and returns what it returned last.
    pub(super) fn missing_runs(&self, least: u64, mut run: impl FnMut(Range<u64>) -> bool) -> bool {
        if self.missing == 0 {
            return true;
        }
        let end = self.end.min(self.checked);
        let held = end.min(self.base + self.entries.len() as u64);
        // Beyond the slots in use nothing is here, and the window can still grow.
        let reach = end.min(self.base + self.slots_allowed()).max(held);
        let is_missing = |segment: u64| self.entries[self.slot(segment)].slot == Slot::Missing;
        let mut segment = self.complete.max(least);
        while segment < reach {
            let start = segment;
            while segment < held && is_missing(segment) {
                segment += 1;
            }
            segment = if segment >= held { reach } else { segment };
            if segment == start {
                segment += 1;
            } else if !run(start..segment) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::tests::{SEGMENT, SLOT, missing, put, window};
    use super::*;

    #[test]
    fn what_may_still_come_as_parity_does_not_count_as_lost() {
        let mut window = Window::new(0, 4, SEGMENT, 64 * SLOT, &mut usize::MAX.clone()).unwrap();
        put(&mut window, 1);
        assert!(!window.has_missing());
        assert_eq!(missing(&window), []);
        put(&mut window, 6);
        window.check_before(4);
        assert!(window.has_missing());
        assert_eq!(missing(&window), [(0, 1), (2, 4)]);
    }

    #[test]
    fn what_is_missing_from_a_segment_on_begins_there() {
        let mut window = window(0);
        put(&mut window, 5);
        let mut runs = Vec::new();
        window.missing_runs(3, |run| {
            runs.push((run.start, run.end));
            true
        });
        assert_eq!(runs, [(3, 5)]);
    }
}
