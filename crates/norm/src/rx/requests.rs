//! What a receiver asks for, and what it hears others ask for.
//!
//! Without parity: the missing segments, whole blocks as blocks. With parity, of a block that was sent
//! completely: as many parity symbols as segments are missing, by the numbers of the first ones it does not
//! have; which ones come is the sender's choice. Where more is missing than a block has parity: all parity,
//! and the rest by name. These are libnorm's rules.

use super::parity::ParityStore;
use super::stream::RxStream;
use crate::ObjectId;
use crate::wire::repair::{RepairRange, RepairWriter};
use crate::wire::{PayloadId, RepairFlags, RepairItem};

/// Asks for what a stream misses. False if there was no room for all of it.
pub fn write(stream: &RxStream, info_missing: bool, requests: &mut RepairWriter) -> bool {
    let item = |segment: u64| item_at(stream, stream.payload_id(segment));
    let mut fits = true;
    if info_missing {
        let first = item(stream.window().first());
        fits = requests.push(RepairFlags::INFO, first, first);
    }
    let Some(parity) = stream.parity() else {
        stream.window().missing_runs(|from, to| {
            fits = fits && write_run(from, to, stream.symbols(), &item, requests);
            fits
        });
        return fits;
    };
    // The next block that was not looked at: runs of missing segments may share one.
    let mut next_block = 0;
    stream.window().missing_runs(|from, to| {
        let first = (from / stream.symbols()).max(next_block);
        next_block = (to - 1) / stream.symbols() + 1;
        fits = fits && write_blocks(stream, parity, first, next_block, requests);
        fits
    });
    fits
}

fn item_at(stream: &RxStream, payload_id: PayloadId) -> RepairItem {
    RepairItem { fec_id: stream.fec_id(), object: stream.id.object, payload_id }
}

/// Asks for segments `from..to`: whole blocks as blocks, the rest as segments of one block each.
fn write_run(
    from: u64,
    to: u64,
    symbols: u64,
    item: &impl Fn(u64) -> RepairItem,
    requests: &mut RepairWriter,
) -> bool {
    let mut at = from;
    while at < to {
        let block_end = (at / symbols + 1) * symbols;
        let whole_blocks_end = to / symbols * symbols;
        let (flags, next) = if at.is_multiple_of(symbols) && whole_blocks_end > at {
            (RepairFlags::BLOCK, whole_blocks_end)
        } else {
            (RepairFlags::SEGMENT, block_end.min(to))
        };
        let last = if flags == RepairFlags::BLOCK { next - symbols } else { next - 1 };
        if !requests.push(flags, item(at), item(last)) {
            return false;
        }
        at = next;
    }
    true
}

/// Asks for what blocks `first..end` miss, where blocks have parity.
fn write_blocks(
    stream: &RxStream,
    parity: &ParityStore,
    first: u64,
    end: u64,
    requests: &mut RepairWriter,
) -> bool {
    let (symbols, window) = (stream.symbols(), stream.window());
    let item = |segment: u64| item_at(stream, stream.payload_id(segment));
    let mut block = first;
    while block < end {
        let start = block * symbols;
        let known = (start + symbols).min(window.end()).min(window.checked());
        let is_missing = |segment: &u64| window.held(*segment).is_none();
        // What is missing before the window's complete part was lost for good, or never wanted.
        let from = start.max(window.complete());
        let erasures = (from..known).filter(is_missing).count() as u64;
        if erasures == symbols && parity.count(block) == 0 {
            let empty = |block: &u64| {
                let start = block * symbols;
                parity.count(*block) == 0 && (start..start + symbols).all(|segment| is_missing(&segment))
            };
            let full = known.max(window.end().min(window.checked()) / symbols * symbols) / symbols;
            let run_end = (block..end.min(full)).find(|block| !empty(block)).unwrap_or(end.min(full));
            if !requests.push(RepairFlags::BLOCK, item(start), item((run_end - 1) * symbols)) {
                return false;
            }
            block = run_end;
            continue;
        }
        let computable = known == start + symbols && !(start..from).any(|segment| is_missing(&segment));
        let parity_symbols = if computable { u64::from(stream.fti().parity_symbols) } else { 0 };
        let skipped = erasures.min(parity_symbols) as usize;
        let source = (from..known).filter(is_missing).skip(skipped);
        let named = |index: u16| PayloadId { symbol: symbols as u16 + index, ..stream.payload_id(start) };
        let wanted = (0..erasures.min(parity_symbols) as u16).filter(|index| !parity.has(block, *index));
        let places = source.map(|segment| stream.payload_id(segment)).chain(wanted.map(named));
        if !write_places(stream, places, requests) {
            return false;
        }
        block += 1;
    }
    true
}

/// Asks for symbols of one block, neighbours as ranges.
fn write_places(
    stream: &RxStream,
    places: impl Iterator<Item = PayloadId>,
    requests: &mut RepairWriter,
) -> bool {
    let mut run: Option<(PayloadId, PayloadId)> = None;
    let push = |(first, last): (PayloadId, PayloadId), requests: &mut RepairWriter| {
        requests.push(RepairFlags::SEGMENT, item_at(stream, first), item_at(stream, last))
    };
    for place in places {
        match &mut run {
            Some((_, last)) if last.symbol + 1 == place.symbol => *last = place,
            _ => {
                if let Some(done) = run.replace((place, place))
                    && !push(done, requests)
                {
                    return false;
                }
            }
        }
    }
    run.is_none_or(|last| push(last, requests))
}

/// How many symbols of one block somebody else asked for, in however many pieces.
#[derive(Debug, Default)]
pub struct ErasureTally {
    block: Option<(ObjectId, u32)>,
    erasures: usize,
}

/// Another receiver asked for something of this stream: it asked for us too.
pub fn overhear(stream: &mut RxStream, range: &RepairRange, cycle: u16, tally: &mut ErasureTally) {
    let symbols = stream.symbols();
    let start = |payload_id: PayloadId| PayloadId { symbol: 0, ..payload_id };
    let (first, last) = (range.first.payload_id, range.last.payload_id);
    let (first_block, last_block) = (stream.segment_at(start(first)), stream.segment_at(start(last)));
    if range.flags.has(RepairFlags::OBJECT) {
        stream.window_mut().mark_asked(0, u64::MAX, cycle);
    } else if range.flags.has(RepairFlags::BLOCK) {
        stream.window_mut().mark_asked(first_block, last_block + symbols, cycle);
    } else if range.flags.has(RepairFlags::SEGMENT) {
        let (from, to) = (u64::from(first.symbol).min(symbols), (u64::from(last.symbol) + 1).min(symbols));
        stream.window_mut().mark_asked(first_block + from, last_block + to, cycle);
        if stream.parity().is_none() || first.block != last.block {
            return;
        }
        let block = (stream.id.object, first.block);
        if tally.block.replace(block) != Some(block) {
            tally.erasures = 0;
        }
        let useful = (first_block + from..last_block + to)
            .filter(|segment| stream.window().held(*segment).is_none())
            .count();
        let parity = u64::from(last.symbol) + 1 - to.max(u64::from(first.symbol)).min(u64::from(last.symbol) + 1);
        tally.erasures += useful + parity as usize;
        stream.overhear_parity(first, tally.erasures, cycle);
    }
}
