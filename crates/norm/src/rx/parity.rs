//! Parity that waits until its block can be computed.
//!
//! Only parity of blocks that miss something is kept, within a bound of bytes that counts as receive memory.
//! When the bound is reached older blocks go first: their parity takes the place of newer ones'.

use std::collections::BTreeMap;

use shoal_fec::{ReedSolomon, Symbol, Workspace};

use crate::wire::{FecId, Fti};

/// A symbol's place in its block, and its bytes.
type Held = (u16, Vec<u8>);

/// Parity by block.
#[derive(Debug)]
pub struct ParityStore {
    code: ReedSolomon,
    workspace: Workspace,
    symbol_bytes: usize,
    blocks: BTreeMap<u64, Vec<Held>>,
    free: Vec<Vec<u8>>,
    /// Buffers in use and free.
    buffers: usize,
    buffers_max: usize,
}

impl ParityStore {
    /// A store for an object of this kind; `None` if it has no parity, or a code unknown to us.
    /// `header_bytes` of each symbol stand before its data.
    pub fn new(fec_id: FecId, fti: &Fti, header_bytes: usize, bytes_max: usize) -> Option<ParityStore> {
        if fec_id == FecId::NoCode || fti.parity_symbols == 0 {
            return None;
        }
        let symbol_bytes = usize::from(fti.segment_bytes) + header_bytes;
        Some(ParityStore {
            code: ReedSolomon::new(fti.block_symbols.into(), fti.parity_symbols.into()).ok()?,
            workspace: Workspace::new(),
            symbol_bytes,
            blocks: BTreeMap::new(),
            free: Vec::new(),
            buffers: 0,
            buffers_max: (bytes_max / symbol_bytes).max(fti.parity_symbols.into()),
        })
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.buffers * self.symbol_bytes
    }

    /// Whether there is a buffer that nobody uses.
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// How much parity of a block is here.
    pub fn count(&self, block: u64) -> usize {
        self.blocks.get(&block).map_or(0, Vec::len)
    }

    /// The first block from this one on of which there is parity.
    pub fn next_block(&self, from: u64) -> Option<u64> {
        self.blocks.range(from..).find(|(_, held)| !held.is_empty()).map(|(block, _)| *block)
    }

    /// Whether parity symbol `index` of a block is here.
    pub fn has(&self, block: u64, index: u16) -> bool {
        self.blocks.get(&block).is_some_and(|held| held.iter().any(|(known, _)| *known == index))
    }

    /// Keeps a parity symbol. False if it was here, is too short, or there is no room.
    pub fn keep(&mut self, block: u64, index: u16, symbol: &[u8], memory_left: &mut usize) -> bool {
        let Some(symbol) = symbol.get(..self.symbol_bytes) else {
            return false;
        };
        if usize::from(index) >= self.code.parity_symbols() || self.has(block, index) {
            return false;
        }
        let Some(mut buffer) = self.buffer(block, memory_left) else {
            return false;
        };
        buffer.clear();
        buffer.extend_from_slice(symbol);
        self.blocks.entry(block).or_default().push((index, buffer));
        true
    }

    fn buffer(&mut self, block: u64, memory_left: &mut usize) -> Option<Vec<u8>> {
        if let Some(buffer) = self.free.pop() {
            return Some(buffer);
        }
        if self.buffers < self.buffers_max
            && let Some(left) = memory_left.checked_sub(self.symbol_bytes)
        {
            *memory_left = left;
            self.buffers += 1;
            return Some(Vec::with_capacity(self.symbol_bytes));
        }
        let mut newest = self.blocks.last_entry().filter(|entry| *entry.key() > block)?;
        let buffer = newest.get_mut().pop();
        if newest.get().is_empty() {
            newest.remove();
        }
        buffer.map(|(_, buffer)| buffer)
    }

    /// Computes what is missing of a block of so many `symbols` from those that are here and parity: which, and their
    /// bytes. None if there is too little parity.
    pub fn recover<'a>(
        &mut self,
        block: u64,
        symbols: usize,
        symbol: impl Fn(usize) -> Option<Symbol<'a>>,
    ) -> Vec<(usize, Vec<u8>)> {
        let missing: Vec<usize> = (0..symbols).filter(|at| symbol(*at).is_none()).collect();
        if missing.is_empty() || self.count(block) < missing.len() {
            return Vec::new();
        }
        let mut held = self.blocks.remove(&block).unwrap_or_default();
        let rows: Vec<usize> = held[..missing.len()].iter().map(|(index, _)| usize::from(*index)).collect();
        let mut buffers: Vec<&mut [u8]> =
            held[..missing.len()].iter_mut().map(|(_, buffer)| &mut buffer[..]).collect();
        let present = (0..symbols).filter_map(|at| symbol(at).map(|symbol| (at, symbol)));
        let solved = self.code.recover(&mut self.workspace, &missing, &rows, present, &mut buffers).is_ok();
        let recovered = missing.into_iter().zip(&buffers).filter(|_| solved);
        let recovered = recovered.map(|(at, bytes)| (at, bytes.to_vec())).collect();
        self.free.extend(held.into_iter().map(|(_, buffer)| buffer));
        recovered
    }

    /// Forgets everything, and keeps no buffers.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.free = Vec::new();
        self.buffers = 0;
    }

    /// Forgets the parity of a block.
    pub fn forget(&mut self, block: u64) {
        let held = self.blocks.remove(&block).into_iter().flatten();
        self.free.extend(held.map(|(_, buffer)| buffer));
    }

    /// Forgets the parity of every block before this one.
    pub fn forget_before(&mut self, block: u64) {
        while let Some(entry) = self.blocks.first_entry()
            && *entry.key() < block
        {
            self.free.extend(entry.remove().into_iter().map(|(_, buffer)| buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(bytes_max: usize) -> ParityStore {
        let fti = Fti { object_bytes: 0, segment_bytes: 4, block_symbols: 3, parity_symbols: 2 };
        ParityStore::new(FecId::ReedSolomon8, &fti, 0, bytes_max).unwrap()
    }

    #[test]
    fn what_is_missing_is_computed_once_there_is_enough_parity() {
        let source: [&[u8]; 3] = [b"shoa", b"ls", b"swim"];
        let mut parity = vec![vec![0; 4]; 2];
        ReedSolomon::new(3, 2).unwrap().encode(source.map(Symbol::from), &mut parity).unwrap();
        let mut left = 100;
        let mut store = store(100);
        assert!(store.keep(7, 1, &parity[1], &mut left));
        assert!(!store.keep(7, 1, &parity[1], &mut left), "it was here");
        let present = |at: usize| (at == 1).then(|| Symbol::from(source[1]));
        assert!(store.recover(7, 3, present).is_empty());
        assert!(store.keep(7, 0, &parity[0], &mut left));
        let found = store.recover(7, 3, present);
        assert_eq!(found, [(0, b"shoa".to_vec()), (2, b"swim".to_vec())]);
        assert_eq!((store.memory(), left), (8, 92), "buffers are kept for the next block");
    }

    #[test]
    fn at_its_bound_older_blocks_go_first() {
        let mut left = 100;
        let mut store = store(8);
        assert!(store.keep(5, 0, &[1; 4], &mut left));
        assert!(store.keep(6, 0, &[1; 4], &mut left));
        assert!(!store.keep(7, 0, &[1; 4], &mut left));
        assert!(store.keep(4, 0, &[1; 4], &mut left));
        assert_eq!((store.count(4), store.count(5), store.count(6)), (1, 1, 0));
        assert_eq!(store.memory(), 8);
    }

    #[test]
    fn a_parity_symbol_that_is_too_short_is_refused() {
        assert!(!store(8).keep(5, 0, &[1; 3], &mut 100));
        assert!(!store(8).keep(5, 2, &[1; 4], &mut 100));
    }
}
