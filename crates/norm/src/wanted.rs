//! What a repair request asks for of something that is cut into segments and blocks.

use std::ops::Range;

use crate::ObjectId;
use crate::layout::Layout;
use crate::wire::repair::RepairRange;
use crate::wire::{PayloadId, RepairFlags};

/// What a request asks for.
#[derive(Debug)]
pub struct Wanted {
    pub segments: Range<u64>,
    /// Parity symbols of one block.
    pub parity: Option<(u64, Range<u16>)>,
}

impl Wanted {
    /// Reads a request for something that is cut so, of which there are the segments in `all`; of a stream
    /// `near` a segment. `None` if it asks for no
    /// segments that there can be.
    pub fn read(range: &RepairRange, layout: &Layout, all: Range<u64>, near: u64) -> Option<Wanted> {
        if range.flags.has(RepairFlags::OBJECT) {
            return Some(Wanted { segments: all, parity: None });
        }
        let block = |place: PayloadId| layout.block_named(near, place);
        let (first, last) = (block(range.first.payload_id)?, block(range.last.payload_id)?);
        let (start, end) = (layout.block_segments(first).start, layout.block_segments(last).end);
        if range.flags.has(RepairFlags::BLOCK) {
            return Some(Wanted { segments: start..end, parity: None });
        }
        let symbols = layout.symbols(last);
        let (from, to) =
            (u64::from(range.first.payload_id.symbol), u64::from(range.last.payload_id.symbol) + 1);
        let row = |symbol: u64| symbol.saturating_sub(symbols) as u16;
        range.flags.has(RepairFlags::SEGMENT).then(|| Wanted {
            segments: start + from.min(layout.symbols(first))..end - symbols + to.min(symbols),
            parity: (to > symbols && first == last).then(|| (first, row(from)..row(to))),
        })
    }
}

/// How many symbols of one block are asked for, in however many pieces.
#[derive(Debug, Default)]
pub struct ErasureTally {
    block: Option<(ObjectId, u64)>,
    erasures: u16,
}

impl ErasureTally {
    /// Adds a request; returns how much was asked for of its block so far.
    pub fn add(&mut self, block: (ObjectId, u64), erasures: u16) -> u16 {
        if self.block.replace(block) != Some(block) {
            self.erasures = 0;
        }
        self.erasures = self.erasures.saturating_add(erasures);
        self.erasures
    }

    /// The same for what a request names, as far as it names symbols.
    pub fn add_range(&mut self, range: &RepairRange) -> usize {
        let (first, last) = (range.first.payload_id, range.last.payload_id);
        if !range.flags.has(RepairFlags::SEGMENT) || first.block != last.block {
            return 0;
        }
        let symbols = last.symbol.saturating_sub(first.symbol).saturating_add(1);
        self.add((range.first.object, first.block.into()), symbols).into()
    }
}
