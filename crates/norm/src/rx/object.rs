//! One object of known length being received.
//!
//! Blocks that miss something are held, with their bytes. Of a file a block that is complete is handed over; other
//! objects gather them, and are handed over as a whole. What is held is counted as it comes: a length that was only
//! announced takes nothing.

use std::collections::BTreeMap;

use shoal_fec::Symbol;

use super::asked::AskedSegments;
use super::blocks::Blocks;
use super::parity::ParityStore;
use super::partial_block::PartialBlock;
use super::requests;
use super::scope::Scope;
use crate::event::{AbortReason, Event, ObjectKind, StreamId};
use crate::layout::Layout;
use crate::runs::Runs;
use crate::stats::{Reject, Stats, Taken};
use crate::time::Time;
use crate::wire::repair::RepairWriter;
use crate::wire::{Data, FecId, Flags, Fti, PayloadId};

/// The most blocks a sender is believed to send in turn.
pub(super) const PARITY_LAG_MAX: u64 = 64;

/// What a run of complete blocks costs to remember.
const RUN_BYTES: usize = 64;

/// An object being received.
#[derive(Debug)]
pub struct RxObject {
    pub blocks: Blocks,
    pub last_progress: Time,
    pub kind: ObjectKind,
    /// Blocks that are complete.
    pub(super) complete: Runs,
    /// Every block before this one is complete.
    pub(super) first_incomplete: u64,
    blocks_left: u64,
    pub(super) partial: BTreeMap<u64, PartialBlock>,
    /// Unless it is a file: its blocks that are complete.
    gathered: BTreeMap<u64, Vec<u8>>,
    parity_bytes_max: usize,
    /// Segments before this one were sent, as far as we know.
    known: u64,
    /// Segments before this one were sent, as the sender announced.
    announced: u64,
    /// Segments before this one count as lost if they are missing.
    pub(super) checked: u64,
    newest_block: u64,
    parity_lag: u64,
    /// The most blocks to ask for at once: all, until there was no memory for as many.
    blocks_asked_max: usize,
    /// Bytes taken from the session's memory.
    memory: usize,
}

impl RxObject {
    /// An object as its first message describes it.
    pub fn open(
        id: StreamId,
        flags: Flags,
        (fec_id, fti): (FecId, Fti),
        memory: &mut usize,
        scope: &Scope<'_>,
    ) -> Taken<RxObject> {
        let config = scope.config;
        let layout = Layout::new(fec_id, &fti).ok_or(Reject::ObjectInfo)?;
        let kind = if flags.has(Flags::FILE) { ObjectKind::File } else { ObjectKind::Data };
        // No sender gets more than half of all memory.
        let bytes_max = config.object_bytes_max.min(config.receive_bytes_max as u64 / 2);
        if kind == ObjectKind::Data && fti.object_bytes > bytes_max {
            return Err(Reject::TooLarge);
        }
        *memory = memory.checked_sub(size_of::<RxObject>()).ok_or(Reject::NoMemory)?;
        Ok(RxObject {
            blocks: Blocks { id, fti, layout, parity: None, asked: AskedSegments::default() },
            last_progress: scope.now,
            kind,
            complete: Runs::default(),
            first_incomplete: 0,
            blocks_left: layout.blocks,
            partial: BTreeMap::new(),
            gathered: BTreeMap::new(),
            parity_bytes_max: config.receive_window_bytes / 4,
            known: 0,
            announced: 0,
            checked: 0,
            newest_block: 0,
            parity_lag: u64::from(config.interleave_blocks) - 1,
            blocks_asked_max: usize::MAX,
            memory: size_of::<RxObject>(),
        })
    }

    pub fn segment_bytes(&self) -> usize {
        self.blocks.fti.segment_bytes.into()
    }

    /// Whether what a message says fits what was said before.
    pub fn agrees(&self, fec_id: FecId, fti: Option<Fti>) -> bool {
        self.blocks.layout.fec_id == fec_id && fti.is_none_or(|fti| fti == self.blocks.fti)
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.memory + self.blocks.parity.as_ref().map_or(0, |parity| parity.memory())
    }

    pub fn is_complete(&self) -> bool {
        self.blocks_left == 0
    }

    pub(super) fn is_block_complete(&self, block: u64) -> bool {
        block < self.first_incomplete || self.complete.run_of(block).is_some()
    }

    // --- input ---

    /// Takes a segment in.
    pub fn receive(&mut self, data: &Data<'_>, memory: &mut usize, scope: &mut Scope<'_>) -> Taken {
        let stats = &mut *scope.stats;
        let block = self.blocks.layout.block_at(data.payload_id).ok_or(Reject::Position)?;
        let symbols = self.blocks.layout.symbols(block);
        let symbol = u64::from(data.payload_id.symbol);
        let revealed = self.hear(block, symbol.min(symbols - 1), !data.header.flags.has(Flags::REPAIR));
        // A source symbol is itself the last one that it reveals.
        stats.losses_detected += revealed.saturating_sub(u64::from(symbol < symbols));
        if self.is_block_complete(block) {
            stats.duplicates_received += 1;
            return Ok(());
        }
        if symbol >= symbols {
            let kept = self.keep_parity(block, (symbol - symbols) as u16, data.payload, memory)?;
            stats.parity_received += u64::from(kept);
        } else {
            let segment = self.blocks.layout.block_segments(block).start + symbol;
            let range = self.blocks.layout.segment_bytes(segment);
            if data.payload.len() as u64 != range.end - range.start {
                return Err(Reject::Position);
            }
            if !self.put(block, symbol, data.payload, memory)? {
                stats.duplicates_received += 1;
                return Ok(());
            }
            stats.segments_received += 1;
            stats.payload_bytes_received += data.payload.len() as u64;
        }
        self.last_progress = scope.now;
        self.recover(block, memory, stats);
        self.finish_block(block, memory, scope);
        Ok(())
    }

    /// Takes note of how far the sender is. Returns how much of that was news.
    fn hear(&mut self, block: u64, symbol: u64, first_time: bool) -> u64 {
        let revealed = self.extend(self.blocks.layout.block_segments(block).start + symbol + 1);
        if self.blocks.fti.parity_symbols == 0 {
            self.checked = self.known;
            return revealed;
        }
        // A sender that comes back to a block it had left sends several of them together.
        if first_time && block < self.newest_block {
            self.parity_lag = self.parity_lag.max(self.newest_block - block).min(PARITY_LAG_MAX);
        }
        self.newest_block = self.newest_block.max(block);
        let settled = self.newest_block.saturating_sub(self.parity_lag);
        self.checked = self.announced.max(self.blocks.layout.block_segments(settled).start);
        revealed
    }

    /// Everything before this segment was sent. Returns how much of that was news.
    fn extend(&mut self, segment: u64) -> u64 {
        let revealed = segment.saturating_sub(self.known);
        self.known += revealed;
        revealed
    }

    /// Everything up to here was sent: what is missing is lost. Returns how much of it was news.
    pub fn announce(&mut self, place: PayloadId) -> u64 {
        self.blocks.layout.segment_at(place).map_or(0, |segment| self.announce_before(segment + 1))
    }

    /// All of it was sent. Returns how much of it was news.
    pub fn announce_all(&mut self) -> u64 {
        self.announce_before(self.blocks.layout.segments)
    }

    fn announce_before(&mut self, segment: u64) -> u64 {
        self.announced = self.announced.max(segment);
        self.checked = self.checked.max(segment);
        self.extend(segment)
    }

    /// Takes memory for a block, and if need be forgets newer ones for it.
    fn reserve(&mut self, block: u64, needed: usize, memory: &mut usize) -> bool {
        while *memory < needed {
            if !self.give_up_newer(block, memory) {
                self.blocks_asked_max = self.partial.len().max(1);
                return false;
            }
        }
        *memory -= needed;
        self.memory += needed;
        true
    }

    /// Makes room for a block by forgetting what came of the newest one, if that is newer: the oldest blocks
    /// get done, or none would.
    fn give_up_newer(&mut self, block: u64, memory: &mut usize) -> bool {
        let newest = self.partial.last_key_value().map(|(newest, _)| *newest);
        let Some(newest) = newest.filter(|newest| *newest > block) else { return false };
        self.blocks_asked_max = self.partial.len();
        self.take_partial(newest, memory).is_some()
    }

    fn take_partial(&mut self, block: u64, memory: &mut usize) -> Option<PartialBlock> {
        let partial = self.partial.remove(&block)?;
        self.memory -= partial.memory();
        *memory += partial.memory();
        Some(partial)
    }

    /// Puts a source symbol where it belongs. False if it was there.
    fn put(&mut self, block: u64, symbol: u64, bytes: &[u8], memory: &mut usize) -> Taken<bool> {
        let known = self.partial.get(&block);
        if known.is_some_and(|partial| partial.has(symbol)) {
            return Ok(false);
        }
        let new = || PartialBlock::new(self.blocks.layout.symbols(block), self.segment_bytes());
        let fresh = known.is_none().then(new);
        let next = fresh.as_ref().or(known).map_or(0, PartialBlock::memory_for_next);
        if !self.reserve(block, next + fresh.as_ref().map_or(0, PartialBlock::memory), memory) {
            return Err(Reject::NoMemory);
        }
        self.partial.extend(fresh.map(|fresh| (block, fresh)));
        if !self.partial.get_mut(&block).is_some_and(|partial| partial.put(symbol, bytes)) {
            self.memory -= next;
            *memory += next;
            return Err(Reject::NoMemory);
        }
        Ok(true)
    }

    /// Keeps a parity symbol. False if it was here, or there is no room for it.
    fn keep_parity(&mut self, block: u64, index: u16, symbol: &[u8], memory: &mut usize) -> Taken<bool> {
        let needed = if self.blocks.parity.as_ref().is_some_and(|parity| parity.has_free()) {
            0
        } else {
            symbol.len()
        };
        while *memory < needed {
            if !self.give_up_newer(block, memory) {
                return Err(Reject::NoMemory);
            }
        }
        if self.blocks.parity.is_none() {
            let store =
                ParityStore::new(self.blocks.layout.fec_id, &self.blocks.fti, 0, self.parity_bytes_max);
            self.blocks.parity = store.map(Box::new);
        }
        Ok(self.blocks.parity.as_mut().is_some_and(|parity| parity.keep(block, index, symbol, memory)))
    }

    /// The bytes of a source symbol that is here.
    fn symbol(&self, block: u64, symbol: u64) -> Option<&[u8]> {
        let partial = self.partial.get(&block).filter(|partial| partial.has(symbol))?;
        let range = self.blocks.layout.segment_bytes(self.blocks.layout.block_segments(block).start + symbol);
        partial.symbol(symbol)?.get(..(range.end - range.start) as usize)
    }

    /// Computes what a block misses, if there is enough parity.
    fn recover(&mut self, block: u64, memory: &mut usize, stats: &mut Stats) {
        let Some(mut parity) = self.blocks.parity.take_if(|parity| parity.count(block) > 0) else { return };
        let symbols = self.blocks.layout.symbols(block);
        let symbol = |at: usize| self.symbol(block, at as u64).map(Symbol::from);
        let recovered = parity.recover(block, symbols as usize, symbol);
        self.blocks.parity = Some(parity);
        for (at, bytes) in recovered {
            let at = at as u64;
            let range = self.blocks.layout.segment_bytes(self.blocks.layout.block_segments(block).start + at);
            let length = (range.end - range.start) as usize;
            if self.put(block, at, &bytes[..length], memory) == Ok(true) {
                stats.segments_recovered += 1;
                stats.payload_bytes_received += length as u64;
            }
        }
    }

    /// What tells of it once it is complete; if there is no memory to put it together, that it was given up.
    pub fn into_event(mut self) -> Event {
        if self.kind == ObjectKind::File {
            return Event::FileReceived { object: self.blocks.id, bytes: self.blocks.fti.object_bytes };
        }
        let mut content = self.gathered.pop_first().map(|(_, bytes)| bytes).unwrap_or_default();
        let more = self.gathered.values().map(Vec::len).sum();
        if content.try_reserve_exact(more).is_err() {
            return Event::ObjectAborted { object: self.blocks.id, reason: AbortReason::TooLarge };
        }
        while let Some((_, bytes)) = self.gathered.pop_first() {
            content.extend_from_slice(&bytes);
        }
        Event::DataReceived { object: self.blocks.id, content }
    }

    /// Hands a block over if it is complete.
    fn finish_block(&mut self, block: u64, memory: &mut usize, scope: &mut Scope<'_>) {
        if self.partial.get(&block).is_none_or(|partial| partial.missing() > 0) {
            return;
        }
        let Some(partial) = self.take_partial(block, memory) else { return };
        let runs_before = self.complete.runs();
        self.complete.insert(block..block + 1);
        self.count_runs(runs_before, memory);
        self.blocks_left -= 1;
        self.first_incomplete = self.complete.run_of(0).map_or(0, |run| run.end);
        if let Some(parity) = &mut self.blocks.parity {
            parity.forget(block);
        }
        let object = self.blocks.id;
        let range = self.blocks.layout.block_bytes(block);
        let bytes = partial.into_bytes((range.end - range.start) as usize);
        if self.kind == ObjectKind::File {
            scope.events.push_back(Event::FileChunk { object, offset: range.start, bytes });
        } else {
            self.gather(block, bytes, memory);
        }
    }

    /// Takes the memory that runs of complete blocks need more than before, or gives it back.
    fn count_runs(&mut self, runs_before: usize, memory: &mut usize) {
        let runs = self.complete.runs();
        let more = (runs.saturating_sub(runs_before) * RUN_BYTES).min(*memory);
        let less = (runs_before.saturating_sub(runs) * RUN_BYTES).min(self.memory);
        *memory = *memory - more + less;
        self.memory = self.memory + more - less;
    }

    /// Keeps the bytes of a complete block, for which `take_partial` just gave the memory back.
    fn gather(&mut self, block: u64, bytes: Vec<u8>, memory: &mut usize) {
        *memory -= bytes.len();
        self.memory += bytes.len();
        self.gathered.insert(block, bytes);
    }

    /// Whether it holds something that its sender can send again.
    pub fn has_forgettable(&self) -> bool {
        !self.is_complete() && self.memory() > size_of::<RxObject>() + self.complete.runs() * RUN_BYTES
    }

    /// Forgets what came of it: all of it, or of a file what was not handed over.
    pub fn forget(&mut self, memory: &mut usize) {
        *memory += self.memory();
        self.blocks.parity = None;
        self.partial.clear();
        self.memory = size_of::<RxObject>();
        if self.kind == ObjectKind::Data {
            self.gathered = BTreeMap::new();
            (self.complete, self.first_incomplete) = (Runs::default(), 0);
            self.blocks_left = self.blocks.layout.blocks;
        }
        *memory -= self.memory;
        self.count_runs(0, memory);
        self.blocks_asked_max = 1;
    }

    /// Whether everything up to here came.
    pub fn has_up_to(&self, place: PayloadId) -> bool {
        let Some(block) = self.blocks.layout.block_at(place) else { return self.is_complete() };
        let has_symbols = |partial: &PartialBlock| (0..=u64::from(place.symbol)).all(|at| partial.has(at));
        block < self.first_incomplete
            || (block == self.first_incomplete
                && u64::from(place.symbol) < self.blocks.layout.symbols(block)
                && self.partial.get(&block).is_some_and(has_symbols))
    }

    /// Asks for what is lost. False if there was no room for all of it.
    pub fn write_requests(&self, requests: &mut RepairWriter) -> bool {
        requests::write(self, 0, self.blocks_asked_max as u64, requests)
    }
}
