//! In which order the segments of an object of known length and their unasked parity go out.
//!
//! Blocks go in groups. Of a group the first segment of each block goes first, then the second of each, and so
//! on; then the first parity symbol of each block, the second, and so on. With groups of one that is block
//! after block, each with its parity behind it. With larger ones a burst of loss takes about as much from each
//! block of the group, sources and parity together, as the burst has datagrams for each of them.

use std::ops::Range;

use crate::Config;
use crate::layout::Layout;

/// What goes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Segment(u64),
    Parity { block: u64, rows: Range<usize> },
}

/// The order.
#[derive(Debug)]
pub struct ObjectOrder {
    layout: Layout,
    interleave: u64,
    auto_parity: u64,
    /// The first block of the group that is being sent.
    first: u64,
    /// Datagrams of the group that went out.
    done: u64,
}

impl ObjectOrder {
    pub fn new(config: &Config, layout: Layout) -> ObjectOrder {
        // Without parity a gap is a loss to every receiver, so there must be none.
        let interleave = if config.parity_symbols > 0 { config.interleave_blocks } else { 1 };
        ObjectOrder {
            layout,
            interleave: interleave.into(),
            auto_parity: config.auto_parity.into(),
            first: 0,
            done: 0,
        }
    }

    /// The blocks that are being sent together.
    pub fn group(&self) -> Range<u64> {
        self.first..(self.first + self.interleave).min(self.layout.blocks())
    }

    /// Whether everything went.
    pub fn is_done(&self) -> bool {
        self.first == self.layout.blocks()
    }

    fn group_segments(&self) -> Range<u64> {
        let group = self.group();
        self.layout.block_segments(group.start).start..self.layout.block_segments(group.end - 1).end
    }

    /// What goes next; of one block's parity at most `parity_max` symbols.
    pub fn next(&self, parity_max: usize) -> Option<Step> {
        if self.is_done() {
            return None;
        }
        let (group, segments) = (self.group(), self.group_segments());
        let (blocks, sources) = (group.end - group.start, segments.end - segments.start);
        // Longer blocks come first, so whoever has a symbol more than the others is in front.
        let (symbol, column) = (self.done / blocks, self.done % blocks);
        if self.done < sources {
            return Some(Step::Segment(self.layout.block_segments(self.first + column).start + symbol));
        }
        let parity = self.done - sources;
        let (row, block) = (parity / blocks, self.first + parity % blocks);
        let rows = if blocks == 1 { (parity_max as u64).clamp(1, self.auto_parity - row) } else { 1 };
        Some(Step::Parity { block, rows: row as usize..(row + rows) as usize })
    }

    /// It went.
    pub fn advance(&mut self, step: &Step) {
        self.done += match step {
            Step::Segment(_) => 1,
            Step::Parity { rows, .. } => rows.len() as u64,
        };
        let (group, segments) = (self.group(), self.group_segments());
        let all = segments.end - segments.start + self.auto_parity * (group.end - group.start);
        if self.done == all {
            (self.first, self.done) = (group.end, 0);
        }
    }

    /// Segments before this one went, all of them.
    pub fn whole(&self) -> u64 {
        if self.is_done() { self.layout.segments() } else { self.group_segments().start }
    }

    /// Segments before this one went, all of them, and perhaps more of those being sent together.
    pub fn prefix(&self) -> u64 {
        let group = self.group();
        if group.end - group.start == 1 { self.count() } else { self.whole() }
    }

    /// How many segments went.
    pub fn count(&self) -> u64 {
        if self.is_done() {
            return self.layout.segments();
        }
        let group = self.group_segments();
        (group.start + self.done).min(group.end)
    }

    /// One past the last segment of which the group, or one before it, has sent something.
    pub fn reach(&self) -> u64 {
        match (self.is_done(), self.done) {
            (true, _) => self.layout.segments(),
            (false, 0) => self.group_segments().start,
            (false, _) => self.group_segments().end,
        }
    }

    /// Whether a segment went.
    pub fn was_sent(&self, segment: u64) -> bool {
        let block = self.layout.block_of(segment);
        let group = self.group();
        if !group.contains(&block) {
            return block < group.start;
        }
        let symbol = segment - self.layout.block_segments(block).start;
        symbol * (group.end - group.start) + (block - group.start) < self.done
    }

    /// Whether all source segments of a block went.
    pub fn was_block_sent(&self, block: u64) -> bool {
        self.was_sent(self.layout.block_segments(block).end - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Fti;

    fn order(segments: u64, block_symbols: u16, auto_parity: u16, interleave_blocks: u16) -> ObjectOrder {
        let mut config = Config::new(1, 1, 1);
        (config.block_symbols, config.interleave_blocks) = (block_symbols, interleave_blocks);
        (config.parity_symbols, config.auto_parity) = (4, auto_parity);
        let fti = Fti { object_bytes: segments * 10, segment_bytes: 10, block_symbols, parity_symbols: 4 };
        ObjectOrder::new(&config, Layout::new(config.fec_id, &fti).unwrap())
    }

    fn all_steps(order: &mut ObjectOrder) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(step) = order.next(100) {
            order.advance(&step);
            steps.push(step);
        }
        assert!(order.is_done());
        steps
    }

    #[test]
    fn without_interleaving_each_block_is_followed_by_its_parity() {
        let steps = all_steps(&mut order(5, 3, 2, 1));
        let parity = |block| Step::Parity { block, rows: 0..2 };
        let source = Step::Segment;
        assert_eq!(steps, [source(0), source(1), source(2), parity(0), source(3), source(4), parity(1)]);
    }

    #[test]
    fn a_group_goes_segment_by_segment_and_then_parity_by_parity() {
        let steps = all_steps(&mut order(5, 3, 2, 4));
        let parity = |block, row| Step::Parity { block, rows: row..row + 1 };
        let source = Step::Segment;
        let sources = [source(0), source(3), source(1), source(4), source(2)];
        assert_eq!(steps[..5], sources, "the longer block's last one is alone");
        assert_eq!(steps[5..], [parity(0, 0), parity(1, 0), parity(0, 1), parity(1, 1)]);
    }

    #[test]
    fn whatever_the_cut_everything_goes_once_and_bursts_are_spread_over_the_group() {
        for (segments, symbols, auto, interleave) in
            [(1, 4, 1, 8), (7, 4, 0, 2), (64, 4, 2, 4), (65, 4, 2, 4), (1000, 16, 3, 8), (999, 7, 1, 5)]
        {
            let mut order = order(segments, symbols, auto, interleave);
            let (mut sent, mut went) = (Vec::new(), Vec::new());
            while let Some(step) = order.next(1) {
                order.advance(&step);
                match step {
                    Step::Segment(segment) => {
                        assert!(order.was_sent(segment) && segment < order.reach());
                        sent.push(segment);
                        went.push(order.layout.block_of(segment));
                    }
                    Step::Parity { block, .. } => {
                        assert!(order.was_block_sent(block), "parity is of a whole block");
                        went.push(block);
                    }
                }
                let known = (0..segments).filter(|segment| order.was_sent(*segment)).count();
                assert_eq!(known, sent.len());
            }
            sent.sort_unstable();
            assert_eq!(sent, (0..segments).collect::<Vec<_>>());
            let blocks = order.layout.blocks();
            assert_eq!(went.len() as u64, segments + u64::from(auto) * blocks);
            if blocks.is_multiple_of(interleave.into()) {
                let burst = 3 * usize::from(interleave);
                for window in went.windows(burst) {
                    let most =
                        (0..blocks).map(|block| window.iter().filter(|at| **at == block).count()).max();
                    assert!(most.unwrap() <= 4, "{window:?}");
                }
            }
        }
    }
}
