//! One object of known length being received.
//!
//! Bytes in memory are put where they belong as they come. Of a file only blocks that miss something are held;
//! a block that is complete is handed over.

use std::collections::BTreeMap;
use std::ops::Range;

use shoal_fec::Symbol;

use super::parity::ParityStore;
use super::requests;
use crate::config::Config;
use crate::event::{Event, ObjectKind, StreamId};
use crate::layout::Layout;
use crate::stats::{Reject, Stats};
use crate::time::Time;
use crate::wire::repair::{RepairRange, RepairWriter};
use crate::wire::{Data, FecId, Flags, Fti, PayloadId, RepairFlags, RepairItem};

/// The most runs of segments remembered as asked for by others.
const ASKED_RUNS_MAX: usize = 64;

/// A block that misses something.
#[derive(Debug)]
struct PartialBlock {
    /// One bit per source symbol that is here.
    present: Vec<u64>,
    missing: u64,
    /// Its bytes, if the object is a file.
    bytes: Vec<u8>,
}

impl PartialBlock {
    fn has(&self, symbol: u64) -> bool {
        self.present[(symbol / 64) as usize] & (1 << (symbol % 64)) != 0
    }
}

/// An object being received.
#[derive(Debug)]
pub struct RxObject {
    pub id: StreamId,
    pub last_progress: Time,
    kind: ObjectKind,
    fec_id: FecId,
    fti: Fti,
    layout: Layout,
    /// One bit per block that is complete.
    complete: Vec<u64>,
    /// Every block before this one is complete.
    first_incomplete: u64,
    blocks_left: u64,
    partial: BTreeMap<u64, PartialBlock>,
    /// All of it, unless it is a file.
    content: Vec<u8>,
    parity: Option<Box<ParityStore>>,
    parity_bytes_max: usize,
    /// Segments before this one were sent, as far as we know.
    known: u64,
    /// Segments before this one count as lost if they are missing.
    checked: u64,
    newest_block: u64,
    parity_lag: u64,
    /// Runs of segments that others asked for, and in which cycle.
    asked: Vec<Range<u64>>,
    asked_in: u16,
    /// Bytes taken from the session's memory.
    memory: usize,
}

impl RxObject {
    /// An object as its first message describes it.
    pub fn open(
        id: StreamId,
        flags: Flags,
        (fec_id, fti): (FecId, Fti),
        now: Time,
        config: &Config,
        memory_left: &mut usize,
    ) -> Result<RxObject, Reject> {
        let layout = Layout::new(fec_id, &fti).ok_or(Reject::ObjectInfo)?;
        let kind = if flags.has(Flags::FILE) { ObjectKind::File } else { ObjectKind::Data };
        let words = layout.blocks().div_ceil(64) as usize;
        let content_bytes = match kind {
            ObjectKind::Data if fti.object_bytes > config.object_bytes_max => return Err(Reject::TooLarge),
            ObjectKind::Data => fti.object_bytes as usize,
            ObjectKind::File => 0,
        };
        let memory = content_bytes + words * 8;
        *memory_left = memory_left.checked_sub(memory).ok_or(Reject::NoMemory)?;
        Ok(RxObject {
            id,
            last_progress: now,
            kind,
            fec_id,
            fti,
            layout,
            complete: vec![0; words],
            first_incomplete: 0,
            blocks_left: layout.blocks(),
            partial: BTreeMap::new(),
            content: vec![0; content_bytes],
            parity: None,
            parity_bytes_max: config.receive_window_bytes / 4,
            known: 0,
            checked: 0,
            newest_block: 0,
            parity_lag: 0,
            asked: Vec::new(),
            asked_in: 0,
            memory,
        })
    }

    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    pub fn fec_id(&self) -> FecId {
        self.fec_id
    }

    pub fn object_bytes(&self) -> u64 {
        self.fti.object_bytes
    }

    pub fn segment_bytes(&self) -> usize {
        self.fti.segment_bytes.into()
    }

    /// Whether what a message says fits what was said before.
    pub fn agrees(&self, fec_id: FecId, fti: Option<Fti>) -> bool {
        self.fec_id == fec_id && fti.is_none_or(|fti| fti == self.fti)
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.memory + self.parity.as_ref().map_or(0, |parity| parity.memory())
    }

    pub fn is_complete(&self) -> bool {
        self.blocks_left == 0
    }

    fn is_block_complete(&self, block: u64) -> bool {
        self.complete[(block / 64) as usize] & (1 << (block % 64)) != 0
    }

    fn has_parity(&self) -> bool {
        self.fti.parity_symbols > 0
    }

    // --- input ---

    /// Takes a segment in.
    pub fn receive(
        &mut self,
        now: Time,
        data: &Data<'_>,
        memory_left: &mut usize,
        stats: &mut Stats,
        tell: &mut impl FnMut(Event),
    ) -> Result<(), Reject> {
        let block = self.layout.block_at(data.payload_id).ok_or(Reject::Position)?;
        let symbols = self.layout.symbols(block);
        let symbol = u64::from(data.payload_id.symbol);
        self.hear(block, symbol.min(symbols - 1), symbol >= symbols && !data.header.flags.has(Flags::REPAIR));
        if self.is_block_complete(block) {
            stats.duplicates_received += 1;
            return Ok(());
        }
        if symbol >= symbols {
            self.keep_parity(block, (symbol - symbols) as u16, data.payload, memory_left, stats);
        } else {
            let segment = self.layout.block_segments(block).start + symbol;
            let range = self.layout.segment_bytes(segment);
            if data.payload.len() as u64 != range.end - range.start {
                return Err(Reject::Position);
            }
            if !self.put(block, symbol, data.payload, memory_left)? {
                stats.duplicates_received += 1;
                return Ok(());
            }
            stats.segments_received += 1;
            stats.payload_bytes_received += data.payload.len() as u64;
        }
        self.last_progress = now;
        self.recover(block, memory_left, stats);
        self.finish_block(block, memory_left, tell);
        Ok(())
    }

    /// Takes note of how far the sender is.
    fn hear(&mut self, block: u64, symbol: u64, unasked_parity: bool) {
        self.known = self.known.max(self.layout.block_segments(block).start + symbol + 1);
        if !self.has_parity() {
            self.checked = self.known;
            return;
        }
        if unasked_parity && block <= self.newest_block {
            self.parity_lag = self.parity_lag.max(self.newest_block - block);
        }
        self.newest_block = self.newest_block.max(block);
        let settled = self.newest_block.saturating_sub(self.parity_lag);
        self.checked = self.checked.max(self.layout.block_segments(settled).start);
    }

    /// Everything up to here was sent: what is missing is lost.
    pub fn announce(&mut self, place: PayloadId) {
        if let Some(segment) = self.layout.segment_at(place) {
            self.known = self.known.max(segment + 1);
            self.checked = self.checked.max(segment + 1);
        }
    }

    /// All of it was sent.
    pub fn announce_all(&mut self) {
        (self.known, self.checked) = (self.layout.segments(), self.layout.segments());
    }

    fn partial(&mut self, block: u64, memory_left: &mut usize) -> Result<&mut PartialBlock, Reject> {
        if !self.partial.contains_key(&block) {
            let symbols = self.layout.symbols(block);
            let range = self.layout.block_bytes(block);
            let held = if self.kind == ObjectKind::File { (range.end - range.start) as usize } else { 0 };
            let words = symbols.div_ceil(64) as usize;
            let memory = held + words * 8 + size_of::<PartialBlock>();
            *memory_left = memory_left.checked_sub(memory).ok_or(Reject::NoMemory)?;
            self.memory += memory;
            let fresh = PartialBlock { present: vec![0; words], missing: symbols, bytes: vec![0; held] };
            self.partial.insert(block, fresh);
        }
        self.partial.get_mut(&block).ok_or(Reject::NoMemory)
    }

    /// Puts a source symbol where it belongs. False if it was there.
    fn put(
        &mut self,
        block: u64,
        symbol: u64,
        bytes: &[u8],
        memory_left: &mut usize,
    ) -> Result<bool, Reject> {
        let segment = self.layout.block_segments(block).start + symbol;
        let object_at = self.layout.segment_bytes(segment).start as usize;
        let block_at = object_at - self.layout.block_bytes(block).start as usize;
        let is_file = self.kind == ObjectKind::File;
        let partial = self.partial(block, memory_left)?;
        if partial.has(symbol) {
            return Ok(false);
        }
        partial.present[(symbol / 64) as usize] |= 1 << (symbol % 64);
        partial.missing -= 1;
        if is_file {
            partial.bytes[block_at..block_at + bytes.len()].copy_from_slice(bytes);
        } else {
            self.content[object_at..object_at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(true)
    }

    fn keep_parity(
        &mut self,
        block: u64,
        index: u16,
        symbol: &[u8],
        memory_left: &mut usize,
        stats: &mut Stats,
    ) {
        if self.parity.is_none() {
            let store = ParityStore::new(self.fec_id, &self.fti, 0, self.parity_bytes_max);
            self.parity = store.map(Box::new);
        }
        if let Some(parity) = &mut self.parity
            && parity.keep(block, index, symbol, memory_left)
        {
            stats.parity_received += 1;
        }
    }

    /// The bytes of a source symbol that is here.
    fn symbol(&self, block: u64, symbol: u64) -> Option<&[u8]> {
        let partial = self.partial.get(&block).filter(|partial| partial.has(symbol))?;
        let range = self.layout.segment_bytes(self.layout.block_segments(block).start + symbol);
        if self.kind == ObjectKind::Data {
            return self.content.get(range.start as usize..range.end as usize);
        }
        let start = self.layout.block_bytes(block).start;
        partial.bytes.get((range.start - start) as usize..(range.end - start) as usize)
    }

    /// Computes what a block misses, if there is enough parity.
    fn recover(&mut self, block: u64, memory_left: &mut usize, stats: &mut Stats) {
        let symbols = self.layout.symbols(block);
        let lacking = self.partial.get(&block).map_or(symbols, |partial| partial.missing);
        let held = self.parity.as_ref().map_or(0, |parity| parity.count(block)) as u64;
        if lacking == 0 || held < lacking {
            return;
        }
        let Some(mut parity) = self.parity.take() else { return };
        let missing: Vec<usize> =
            (0..symbols).filter(|at| self.symbol(block, *at).is_none()).map(|at| at as usize).collect();
        let present = (0..symbols)
            .filter_map(|at| self.symbol(block, at).map(|bytes| (at as usize, Symbol::from(bytes))));
        let mut recovered: Vec<(u64, Vec<u8>)> = Vec::with_capacity(missing.len());
        parity.recover(block, &missing, present, |at, bytes| recovered.push((at as u64, bytes.to_vec())));
        self.parity = Some(parity);
        for (at, bytes) in recovered {
            let range = self.layout.segment_bytes(self.layout.block_segments(block).start + at);
            let length = (range.end - range.start) as usize;
            if self.put(block, at, &bytes[..length], memory_left) == Ok(true) {
                stats.segments_recovered += 1;
                stats.payload_bytes_received += length as u64;
            }
        }
    }

    /// Hands a block over if it is complete, and the object if it is.
    fn finish_block(&mut self, block: u64, memory_left: &mut usize, tell: &mut impl FnMut(Event)) {
        if self.partial.get(&block).is_none_or(|partial| partial.missing > 0) {
            return;
        }
        let Some(partial) = self.partial.remove(&block) else { return };
        let memory = partial.bytes.len() + partial.present.len() * 8 + size_of::<PartialBlock>();
        self.memory -= memory;
        *memory_left += memory;
        self.complete[(block / 64) as usize] |= 1 << (block % 64);
        self.blocks_left -= 1;
        while self.first_incomplete < self.layout.blocks() && self.is_block_complete(self.first_incomplete) {
            self.first_incomplete += 1;
        }
        if let Some(parity) = &mut self.parity {
            parity.forget(block);
        }
        let object = self.id;
        if self.kind == ObjectKind::File {
            let offset = self.layout.block_bytes(block).start;
            tell(Event::FileChunk { object, offset, bytes: partial.bytes });
        }
        if self.blocks_left == 0 {
            tell(match self.kind {
                ObjectKind::Data => {
                    Event::DataReceived { object, content: std::mem::take(&mut self.content) }
                }
                ObjectKind::File => Event::FileReceived { object, bytes: self.fti.object_bytes },
            });
        }
    }

    // --- requests ---

    /// Whether anything of it counts as lost.
    pub fn has_missing(&self) -> bool {
        self.first_missing(0).is_some()
    }

    /// The first block from `from` on that lost something.
    fn first_missing(&self, from: u64) -> Option<u64> {
        let checked_blocks = if self.checked == 0 { 0 } else { self.layout.block_of(self.checked - 1) + 1 };
        (from.max(self.first_incomplete)..checked_blocks).find(|block| self.lost(*block).next().is_some())
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
    pub fn needs_asking(&self, cycle: u16) -> bool {
        let asked = if self.asked_in == cycle { &self.asked[..] } else { &[] };
        let mut from = 0;
        while let Some(block) = self.first_missing(from) {
            let start = self.layout.block_segments(block).start;
            let is_asked = |at: u64| asked.iter().any(|run| run.contains(&(start + at)));
            if !self.lost(block).all(is_asked) {
                return true;
            }
            from = block + 1;
        }
        false
    }

    fn item(&self, payload_id: PayloadId) -> RepairItem {
        RepairItem { fec_id: self.fec_id, object: self.id.object, payload_id }
    }

    /// Asks for what is lost. False if there was no room for all of it.
    pub fn write_requests(&self, info_missing: bool, requests: &mut RepairWriter) -> bool {
        if info_missing {
            let first = self.item(self.layout.place(0, 0));
            if !requests.push(RepairFlags::INFO, first, first) {
                return false;
            }
        }
        let mut from = 0;
        while let Some(block) = self.first_missing(from) {
            let untouched = |block: &u64| {
                *block < self.layout.blocks()
                    && !self.partial.contains_key(block)
                    && !self.is_block_complete(*block)
                    && self.layout.block_segments(*block).end <= self.checked
                    && self.parity.as_ref().is_none_or(|parity| parity.count(*block) == 0)
            };
            let run_end = (block..self.layout.blocks()).find(|block| !untouched(block));
            let run_end = run_end.unwrap_or(self.layout.blocks());
            let fits = if run_end > block {
                let (first, last) = (self.layout.place(block, 0), self.layout.place(run_end - 1, 0));
                requests.push(RepairFlags::BLOCK, self.item(first), self.item(last))
            } else {
                self.write_block(block, requests)
            };
            if !fits {
                return false;
            }
            from = run_end.max(block + 1);
        }
        true
    }

    fn write_block(&self, block: u64, requests: &mut RepairWriter) -> bool {
        let symbols = self.layout.symbols(block);
        let whole = self.layout.block_segments(block).end <= self.checked;
        let parity_symbols = if whole { self.fti.parity_symbols } else { 0 };
        let held = |index: u16| self.parity.as_ref().is_some_and(|parity| parity.has(block, index));
        let lost = self.lost(block).map(|at| at as u16);
        requests::write_symbols(lost, symbols as u16, parity_symbols, held, |first, last| {
            let place = |at: u16| self.item(self.layout.place(block, at.into()));
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
        let blocks =
            (self.layout.block_at(range.first.payload_id), self.layout.block_at(range.last.payload_id));
        if range.flags.has(RepairFlags::OBJECT) {
            self.asked.push(0..u64::MAX);
            return;
        }
        let (Some(first), Some(last)) = blocks else { return };
        let (start, end) = (self.layout.block_segments(first).start, self.layout.block_segments(last).end);
        if range.flags.has(RepairFlags::BLOCK) {
            self.asked.push(start..end);
        } else if range.flags.has(RepairFlags::SEGMENT) && first == last {
            let held = self.parity.as_ref().map_or(0, |parity| parity.count(first));
            let (from, to) = (range.first.payload_id.symbol, range.last.payload_id.symbol);
            // Symbols asked for by name may be ones we have; parity serves everybody.
            let by_parity = u64::from(from) >= self.layout.symbols(first) && self.has_parity();
            if by_parity && self.lost(first).count() <= held + erasures {
                self.asked.push(start..end);
            } else if !by_parity {
                self.asked.push(start + u64::from(from)..end.min(start + u64::from(to) + 1));
            }
        }
    }

    /// Whether everything up to here came.
    pub fn has_up_to(&self, place: PayloadId) -> bool {
        let block = self.layout.block_at(place);
        self.is_complete() || block.is_some_and(|block| block < self.first_incomplete)
    }
}
