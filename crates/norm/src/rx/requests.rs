//! What a receiver asks for, and what it hears others ask for.
//!
//! Without parity: the missing segments, whole blocks as blocks. With parity, of a block that was sent
//! completely: as many parity symbols as segments are missing, by the numbers of the first ones it does not
//! have; which ones come is the sender's choice. Where more is missing than a block has parity: all parity,
//! and the rest by name. These are libnorm's rules.

use std::ops::Range;

use super::parity::ParityStore;
use super::stream::RxStream;
use crate::wire::RepairFlags;
use crate::wire::repair::{RepairWriter, each_run};

/// Asks for the segments a stream misses, from `least` on. False if there was no room for all of it.
pub fn write(stream: &RxStream, least: u64, requests: &mut RepairWriter) -> bool {
    let (object, layout) = (stream.id.object, stream.layout);
    let item = |segment: u64| layout.position(object, segment);
    let mut fits = true;
    // Whether what was refused is really gone shows when the first segment comes that is said not to be.
    if let Some(segment) = stream.refused_before
        && !requests.push(RepairFlags::SEGMENT, item(segment), item(segment))
    {
        return false;
    }
    let Some(parity) = stream.parity() else {
        stream.window.missing_runs_from(least, |from, to| {
            fits = fits && requests.push_run(from..to, |segment| layout.block_around(segment), item);
            fits
        });
        return fits;
    };
    // The next block that was not looked at: runs of missing segments may share one.
    let mut next_block = least / stream.symbols;
    stream.window.missing_runs_from(least, |from, to| {
        let first = (from / stream.symbols).max(next_block);
        next_block = next_block.max((to - 1) / stream.symbols + 1);
        fits = fits && write_blocks(stream, parity, first..next_block, requests);
        fits
    });
    fits
}

/// Asks for what `blocks` miss, where blocks have parity.
fn write_blocks(
    stream: &RxStream,
    parity: &ParityStore,
    blocks: Range<u64>,
    requests: &mut RepairWriter,
) -> bool {
    let (symbols, window) = (stream.symbols, &stream.window);
    let (object, layout) = (stream.id.object, stream.layout);
    let item = |segment: u64| layout.position(object, segment);
    let Range { start: mut block, end } = blocks;
    while block < end {
        let start = block * symbols;
        let known = (start + symbols).min(window.end).min(window.checked);
        let is_missing = |segment: &u64| window.held(*segment).is_none();
        // What is missing before the window's complete part was lost for good, or never wanted.
        let from = start.max(window.complete);
        let erasures = (from..known).filter(is_missing).count() as u64;
        if erasures == symbols && parity.count(block) == 0 {
            let empty = |block: &u64| {
                let start = block * symbols;
                parity.count(*block) == 0 && (start..start + symbols).all(|segment| is_missing(&segment))
            };
            let full = known.max(window.end.min(window.checked) / symbols * symbols) / symbols;
            let run_end = (block..end.min(full)).find(|block| !empty(block)).unwrap_or(end.min(full));
            if !requests.push(RepairFlags::BLOCK, item(start), item((run_end - 1) * symbols)) {
                return false;
            }
            block = run_end;
            continue;
        }
        let computable = known == start + symbols && !(start..from).any(|segment| is_missing(&segment));
        let parity_symbols = if computable { u64::from(stream.fti.parity_symbols) } else { 0 };
        let lost = (from..known).filter(is_missing).map(|segment| (segment - start) as u16);
        let fits = write_symbols(
            lost,
            symbols as u16,
            parity_symbols as u16,
            |index| parity.has(block, index),
            |first, last| {
                let place = |symbol: u16| layout.symbol_position(object, block, symbol.into());
                requests.push(RepairFlags::SEGMENT, place(first), place(last))
            },
        );
        if !fits {
            return false;
        }
        block += 1;
    }
    true
}

/// Asks for what one block of `symbols` lost: `push` gets runs of symbols, both ends included, and says
/// whether there was room.
pub fn write_symbols(
    lost: impl Iterator<Item = u16> + Clone,
    symbols: u16,
    parity_symbols: u16,
    held: impl Fn(u16) -> bool,
    mut push: impl FnMut(u16, u16) -> bool,
) -> bool {
    let by_parity = lost.clone().take(parity_symbols.into()).count() as u16;
    let wanted = (0..by_parity).filter(|index| !held(*index)).map(|index| symbols + index);
    let symbols = lost.skip(by_parity.into()).chain(wanted).map(u64::from);
    each_run(symbols, |first, last| push(first as u16, last as u16))
}
