//! What a repair request asks for of something that is cut into segments and blocks.

use std::ops::Range;

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
    /// Reads a request for something that is cut so, of which there are the segments in `all`. `None` if it asks for no
    /// segments that there can be.
    pub fn read(
        range: &RepairRange,
        layout: &Layout,
        all: Range<u64>,
        block_at: impl Fn(PayloadId) -> Option<u64>,
    ) -> Option<Wanted> {
        if range.flags.has(RepairFlags::OBJECT) {
            return Some(Wanted { segments: all, parity: None });
        }
        let (first, last) = (block_at(range.first.payload_id)?, block_at(range.last.payload_id)?);
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
