//! What a receiver asks for, and what it hears others ask for.
//!
//! Without parity: the missing segments, whole blocks as blocks. With parity, of a block that was sent
//! completely: as many parity symbols as segments are missing, by the numbers of the first ones it does not
//! have; which ones come is the sender's choice. Where more is missing than a block has parity: all parity,
//! and the rest by name. These are libnorm's rules.

use std::ops::Range;

use super::blocks::Blocks;
use super::missing::Missing;
use crate::wire::RepairFlags;
use crate::wire::repair::{RepairWriter, each_run};

/// Asks for the segments that `source` lacks, from `least` on, in `blocks_max` blocks at the most. False if there was no room
/// for all of it.
pub fn write(source: &impl Missing, least: u64, blocks_max: u64, requests: &mut RepairWriter) -> bool {
    let Blocks { layout, id, .. } = *source.blocks();
    // The next block that was not looked at: runs of missing segments may share one.
    let (mut next_block, mut left, mut fits) = (layout.block_of(least), blocks_max, true);
    source.missing_runs(least, |run| {
        let first = layout.block_of(run.start).max(next_block);
        let end = (layout.block_of(run.end - 1) + 1).min(first.saturating_add(left));
        if left == 0 && first == layout.block_of(run.start) {
            return false;
        }
        (next_block, left) = (next_block.max(end), left - end.saturating_sub(first));
        fits = if source.parity_symbols() == 0 {
            let run = run.start..run.end.min(layout.block_segments(next_block - 1).end);
            let item = |segment: u64| layout.position(id.object, segment);
            requests.push_run(run, |segment| layout.block_around(segment), item)
        } else {
            write_blocks(source, &run, first..end, requests)
        };
        fits
    });
    fits
}

/// Asks for what `blocks` lack that have parity, where all of `run` is missing: blocks of which nothing came as a whole.
fn write_blocks(
    source: &impl Missing,
    run: &Range<u64>,
    blocks: Range<u64>,
    requests: &mut RepairWriter,
) -> bool {
    let Blocks { layout, id, parity, .. } = source.blocks();
    let Range { start: mut block, end } = blocks;
    while block < end {
        let touched = parity.as_ref().and_then(|parity| parity.next_block(block)).unwrap_or(end);
        let whole_end = if layout.block_segments(end - 1).end <= run.end { end } else { end - 1 };
        let whole_end = touched.min(whole_end);
        let fits = if run.start <= layout.block_segments(block).start && whole_end > block {
            let (first, last) = (block, whole_end - 1);
            block = whole_end;
            let item = |block: u64| layout.symbol_position(id.object, block, 0);
            requests.push(RepairFlags::BLOCK, item(first), item(last))
        } else {
            block += 1;
            write_block(source, block - 1, requests)
        };
        if !fits {
            return false;
        }
    }
    true
}

/// Asks for what one block lost: parity as far as it can be computed from that, and the rest by name.
fn write_block(source: &impl Missing, block: u64, requests: &mut RepairWriter) -> bool {
    let (Blocks { layout, id, parity, .. }, within) = (source.blocks(), source.lost_within());
    let Range { start, end } = layout.block_segments(block);
    let lacks = |segment: &u64| source.lacks(*segment);
    // What is missing before that was lost for good, or never wanted.
    let lost = (start.max(within.start)..end.min(within.end)).filter(lacks).map(|segment| segment - start);
    let computable = end <= within.end && !(start..within.start).any(|segment| lacks(&segment));
    let parity_max = if computable { source.parity_symbols() } else { 0 };
    let by_parity = lost.clone().take(parity_max.into()).count();
    let wanted = (0..by_parity as u16)
        .filter(|index| !parity.as_ref().is_some_and(|parity| parity.has(block, *index)));
    let symbols = lost.skip(by_parity).chain(wanted.map(|index| end - start + u64::from(index)));
    let place = |symbol: u64| layout.symbol_position(id.object, block, symbol);
    each_run(symbols, |first, last| requests.push(RepairFlags::SEGMENT, place(first), place(last)))
}
