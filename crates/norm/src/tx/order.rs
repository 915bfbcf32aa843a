//! In which order the segments of a stream or an object, and their unasked parity, go out.
//!
//! Blocks go in groups. Of a group the first segment of each block goes first, then the second of each, and so
//! on; then the first parity symbol of each block, the second, and so on. With groups of one that is block
//! after block, each with its parity behind it. With larger ones a burst of loss takes about as much from each
//! block of the group, sources and parity together, as the burst has datagrams for each of them.
//!
//! The blocks of an object are all there, so that a group begins when the one before it ended. Those of a stream are
//! mixed while enough whole ones wait to be sent: how large a group is shows when it begins.

use std::ops::Range;

use super::parity::SymbolSet;
use crate::Config;
use crate::layout::Layout;

/// What goes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Segment(u64),
    Parity { block: u64, rows: SymbolSet },
}

impl Step {
    /// How many datagrams that are.
    pub fn datagrams(&self) -> usize {
        match self {
            Step::Segment(_) => 1,
            Step::Parity { rows, .. } => rows.len().into(),
        }
    }

    /// The block it is of.
    pub fn block(&self, layout: &Layout) -> u64 {
        match self {
            Step::Segment(segment) => layout.block_of(*segment),
            Step::Parity { block, .. } => *block,
        }
    }
}

#[derive(Debug)]
pub struct SendOrder {
    layout: Layout,
    interleave: u64,
    auto_parity: u64,
    /// The blocks that are being sent together; none while it is open how many will be.
    group: Range<u64>,
    /// Datagrams of the group that went out.
    done: u64,
}

impl SendOrder {
    pub fn of_stream(config: &Config, layout: Layout) -> SendOrder {
        SendOrder {
            layout,
            interleave: config.interleave_blocks.into(),
            auto_parity: config.auto_parity.into(),
            group: 0..0,
            done: 0,
        }
    }

    pub fn of_object(config: &Config, layout: Layout) -> SendOrder {
        // Without parity a gap is a loss to every receiver, so there must be none.
        let interleave = if config.parity_symbols > 0 { config.interleave_blocks } else { 1 };
        let mut order = SendOrder { interleave: interleave.into(), ..SendOrder::of_stream(config, layout) };
        order.begin_group(layout.segments);
        order
    }

    /// Begins a group if none is being sent, where segments before `sendable` may be.
    pub fn begin_group(&mut self, sendable: u64) {
        if self.group.is_empty() && self.group.start < self.layout.blocks {
            let left = self.layout.blocks - self.group.start;
            let whole = self.layout.block_segments(self.group.start + self.interleave.min(left) - 1);
            let blocks = if whole.end <= sendable { self.interleave.min(left) } else { 1 };
            self.group.end = self.group.start + blocks;
        }
    }

    /// The blocks that are being sent together.
    pub fn group(&self) -> Range<u64> {
        self.group.clone()
    }

    /// Whether everything went.
    pub fn is_done(&self) -> bool {
        self.group.start == self.layout.blocks
    }

    /// The source segments of the group.
    fn segments(&self) -> Range<u64> {
        let start = self.layout.block_segments(self.group.start).start;
        let last = self.group.clone().next_back();
        start..last.map_or(start, |last| self.layout.block_segments(last).end)
    }

    fn sources(&self) -> u64 {
        let segments = self.segments();
        segments.end - segments.start
    }

    /// What goes next; of one block's parity at most `parity_max` symbols.
    pub fn next(&self, parity_max: usize) -> Option<Step> {
        let blocks = self.group.end - self.group.start;
        if blocks == 0 {
            return None;
        }
        // Longer blocks come first, so whoever has a symbol more than the others is in front.
        let at = |done: u64| (done / blocks, self.group.start + done % blocks);
        let sources = self.sources();
        if self.done < sources {
            let (symbol, block) = at(self.done);
            return Some(Step::Segment(self.layout.block_segments(block).start + symbol));
        }
        let (row, block) = at(self.done - sources);
        let rows = if blocks == 1 { (parity_max as u64).clamp(1, self.auto_parity - row) } else { 1 };
        Some(Step::Parity { block, rows: SymbolSet::from(row as u16..(row + rows) as u16) })
    }

    /// It went.
    pub fn advance(&mut self, step: &Step) {
        self.advance_by(step.datagrams() as u64);
        if self.layout.is_finite() {
            self.begin_group(self.layout.segments);
        }
    }

    /// So many datagrams went.
    fn advance_by(&mut self, datagrams: u64) {
        self.done += datagrams;
        if self.done == self.sources() + self.auto_parity * (self.group.end - self.group.start) {
            (self.group, self.done) = (self.group.end..self.group.end, 0);
        }
    }

    // --- of streams ---

    /// Whether segments go as they were written, and nothing else does.
    fn is_plain(&self) -> bool {
        self.auto_parity == 0 && self.interleave == 1
    }

    /// Begins a run of segments that go as they were written, if that is what goes next. Returns where it ends: anywhere, or
    /// at the end of their block.
    pub fn begin_run(&mut self, sendable: u64) -> Option<u64> {
        if self.is_plain() {
            return Some(sendable);
        }
        self.begin_group(sendable);
        let in_a_row = self.group.end - self.group.start == 1 && !self.owes_parity();
        in_a_row.then(|| sendable.min(self.segments().end))
    }

    /// Such a run of so many segments went.
    pub fn ran(&mut self, segments: u64) {
        if !self.is_plain() {
            self.advance_by(segments);
        }
    }

    /// Whether unasked parity of what was sent is to be sent.
    pub fn owes_parity(&self) -> bool {
        !self.group.is_empty() && self.done >= self.sources()
    }

    /// Segments before this one are no longer needed for unasked parity, if everything before `sent` went.
    pub fn releasable(&self, sent: u64) -> u64 {
        if self.auto_parity == 0 { sent } else { sent.min(self.segments().start) }
    }

    // --- what went ---

    /// Segments before this one went, with their parity.
    pub fn whole(&self) -> u64 {
        if self.is_done() { self.layout.segments } else { self.segments().start }
    }

    /// Segments before this one went, all of them, and perhaps more of those being sent together.
    pub fn prefix(&self) -> u64 {
        let in_a_row = self.group.end - self.group.start == 1 || self.owes_parity();
        if in_a_row { self.count() } else { self.whole() }
    }

    /// How many segments went.
    pub fn count(&self) -> u64 {
        if self.is_done() {
            return self.layout.segments;
        }
        let group = self.segments();
        (group.start + self.done).min(group.end)
    }

    /// One past the last segment of which the group, or one before it, has sent something.
    pub fn reach(&self) -> u64 {
        match (self.is_done(), self.done) {
            (true, _) => self.layout.segments,
            (false, 0) => self.segments().start,
            (false, _) => self.segments().end,
        }
    }

    /// Whether a segment went.
    pub fn was_sent(&self, segment: u64) -> bool {
        let block = self.layout.block_of(segment);
        if !self.group.contains(&block) {
            return block < self.group.start;
        }
        let symbol = segment - self.layout.block_segments(block).start;
        symbol * (self.group.end - self.group.start) + (block - self.group.start) < self.done
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

    fn config(block_symbols: u16, auto_parity: u16, interleave_blocks: u16) -> (Config, Fti) {
        let mut config = Config::new(1, 1, 1);
        (config.block_symbols, config.interleave_blocks) = (block_symbols, interleave_blocks);
        (config.parity_symbols, config.auto_parity) = (4, auto_parity);
        (config, Fti { object_bytes: 0, segment_bytes: 10, block_symbols, parity_symbols: 4 })
    }

    fn of_object(segments: u64, block_symbols: u16, auto_parity: u16, interleave_blocks: u16) -> SendOrder {
        let (config, fti) = config(block_symbols, auto_parity, interleave_blocks);
        let fti = Fti { object_bytes: segments * 10, ..fti };
        SendOrder::of_object(&config, Layout::new(config.fec_id, &fti).unwrap())
    }

    fn of_stream(auto_parity: u16, interleave_blocks: u16) -> SendOrder {
        let (config, fti) = config(4, auto_parity, interleave_blocks);
        SendOrder::of_stream(&config, Layout::endless(config.fec_id, &fti))
    }

    fn parity(block: u64, rows: Range<u16>) -> Step {
        Step::Parity { block, rows: SymbolSet::from(rows) }
    }

    fn steps(order: &mut SendOrder) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(step) = order.next(100) {
            order.advance(&step);
            steps.push(step);
        }
        steps
    }

    #[test]
    fn without_interleaving_each_block_is_followed_by_its_parity() {
        let mut order = of_object(5, 3, 2, 1);
        let (steps, source) = (steps(&mut order), Step::Segment);
        let last = [source(3), source(4), parity(1, 0..2)];
        assert_eq!(steps, [&[source(0), source(1), source(2), parity(0, 0..2)][..], &last].concat());
        assert!(order.is_done());
    }

    #[test]
    fn a_group_goes_segment_by_segment_and_then_parity_by_parity() {
        let (steps, source) = (steps(&mut of_object(5, 3, 2, 4)), Step::Segment);
        let sources = [source(0), source(3), source(1), source(4), source(2)];
        assert_eq!(steps[..5], sources, "the longer block's last one is alone");
        assert_eq!(steps[5..], [parity(0, 0..1), parity(1, 0..1), parity(0, 1..2), parity(1, 1..2)]);
    }

    #[test]
    fn whatever_the_cut_everything_goes_once_and_bursts_are_spread_over_the_group() {
        for (segments, symbols, auto, interleave) in
            [(1, 4, 1, 8), (7, 4, 0, 2), (64, 4, 2, 4), (65, 4, 2, 4), (1000, 16, 3, 8), (999, 7, 1, 5)]
        {
            let mut order = of_object(segments, symbols, auto, interleave);
            let (mut sent, mut went) = (Vec::new(), Vec::new());
            while let Some(step) = order.next(1) {
                order.advance(&step);
                went.push(step.block(&order.layout));
                match step {
                    Step::Segment(segment) => {
                        assert!(order.was_sent(segment) && segment < order.reach());
                        sent.push(segment);
                    }
                    Step::Parity { block, .. } => {
                        assert!(order.was_block_sent(block), "parity is of a whole block");
                    }
                }
                let known = (0..segments).filter(|segment| order.was_sent(*segment)).count();
                assert_eq!(known, sent.len());
            }
            sent.sort_unstable();
            assert_eq!(sent, (0..segments).collect::<Vec<_>>());
            let blocks = order.layout.blocks;
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

    #[test]
    fn a_stream_without_parity_goes_as_it_was_written() {
        let mut order = of_stream(0, 1);
        assert_eq!((order.begin_run(900), order.releasable(900)), (Some(900), 900));
        order.ran(900);
        assert_eq!((order.next(9), order.begin_run(901)), (None, Some(901)));
    }

    #[test]
    fn parity_of_a_stream_follows_its_block() {
        let mut order = of_stream(2, 1);
        assert_eq!(order.begin_run(9), Some(4));
        order.ran(3);
        assert!(!order.owes_parity());
        order.ran(1);
        assert_eq!((order.begin_run(9), order.prefix(), order.releasable(4)), (None, 4, 0));
        assert_eq!(steps(&mut order), [parity(0, 0..2)]);
        assert_eq!((order.begin_run(9), order.releasable(4)), (Some(8), 4));
    }

    #[test]
    fn blocks_of_a_stream_are_mixed_while_enough_whole_ones_wait() {
        let mut order = of_stream(2, 3);
        assert_eq!(order.begin_run(11), Some(4), "only two whole blocks wait");
        order.ran(1);
        assert_eq!(order.begin_run(100), Some(4), "not in the middle of a block");
        order.ran(3);
        steps(&mut order);
        assert_eq!(order.begin_run(16), None);
        let steps = steps(&mut order);
        let source = Step::Segment;
        assert_eq!(steps[..4], [source(4), source(8), source(12), source(5)]);
        let rows = (0..2).flat_map(|row| (1..4).map(move |block| parity(block, row..row + 1)));
        assert!(steps[12..].iter().cloned().eq(rows));
        assert_eq!((order.prefix(), order.releasable(16)), (16, 16));
    }
}
