//! Parity that receivers asked for, block by block.
//!
//! A receiver asks for as many parity symbols as it lacks; which ones does not matter to it. So the sender
//! answers with symbols nobody has yet, and one answer serves receivers that lost different segments. A request
//! that comes while an answer is under way counts only for what exceeds that answer. When all parity of a
//! block was used, the symbols named in the request are sent again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::time::Time;

/// Of so many blocks it is remembered which parity was sent: those of which nothing is to be sent make room for others.
const BLOCKS_MAX: usize = 4096;

/// Parity symbols of one block, as a set.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolSet([u64; 4]);

impl From<Range<u16>> for SymbolSet {
    fn from(symbols: Range<u16>) -> SymbolSet {
        let mut set = SymbolSet::default();
        symbols.for_each(|symbol| _ = set.insert(symbol));
        set
    }
}

impl SymbolSet {
    fn insert(&mut self, index: u16) -> bool {
        let (word, bit) = (usize::from(index / 64), 1u64 << (index % 64));
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    fn remove(&mut self, index: u16) {
        self.0[usize::from(index / 64)] &= !(1 << (index % 64));
    }

    fn first(&self) -> Option<u16> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word as u16 * 64 + self.0[word].trailing_zeros() as u16)
    }

    pub fn iter(self) -> impl Iterator<Item = u16> {
        (0..256).filter(move |index| self.0[usize::from(index / 64)] & 1 << (index % 64) != 0)
    }

    pub fn len(&self) -> u16 {
        self.0.iter().map(|word| word.count_ones() as u16).sum()
    }
}

#[derive(Copy, Clone, Debug, Default)]
struct BlockParity {
    pending: SymbolSet,
    /// The first parity symbol that was never sent.
    fresh: u16,
    /// Sent in answer to requests, and when the last of them was.
    answered: u16,
    answered_at: Time,
}

/// The parity of an object's blocks.
#[derive(Debug)]
pub struct ParityQueue {
    parity_symbols: u16,
    auto_parity: u16,
    blocks: BTreeMap<u64, BlockParity>,
    pending: usize,
}

impl ParityQueue {
    pub fn new(parity_symbols: u16, auto_parity: u16) -> ParityQueue {
        ParityQueue { parity_symbols, auto_parity, blocks: BTreeMap::new(), pending: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.pending == 0
    }

    /// Whether anything is remembered of any block.
    pub fn is_in_use(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// A receiver lacks `erasures` symbols of a block and names `wanted` for them. Returns how many symbols
    /// that adds to what is to be sent.
    pub fn request(
        &mut self,
        block: u64,
        wanted: Range<u16>,
        erasures: u16,
        now: Time,
        hold_off: Duration,
    ) -> u16 {
        if !self.make_room(block) {
            return 0;
        }
        let auto_parity = self.auto_parity;
        let state =
            self.blocks.entry(block).or_insert(BlockParity { fresh: auto_parity, ..Default::default() });
        let waiting = state.pending.len();
        if waiting == 0 && now.since(state.answered_at) >= hold_off {
            state.answered = 0;
        }
        let lacking = erasures.min(self.parity_symbols).saturating_sub(waiting + state.answered);
        let unused = lacking.min(self.parity_symbols - state.fresh);
        for index in state.fresh..state.fresh + unused {
            state.pending.insert(index);
        }
        state.fresh += unused;
        let again = wanted.end.min(self.parity_symbols);
        let repeated = (wanted.start..again)
            .take(usize::from(lacking - unused))
            .filter(|&index| state.pending.insert(index))
            .count() as u16;
        self.pending += usize::from(unused + repeated);
        unused + repeated
    }

    /// Makes room for one more block. What is sent of a block that was forgotten may be what went before: then it is
    /// asked for once more. False if parity of too many blocks waits to be sent.
    fn make_room(&mut self, block: u64) -> bool {
        if self.blocks.len() < BLOCKS_MAX || self.blocks.contains_key(&block) {
            return true;
        }
        let done = self.blocks.iter().find(|(_, state)| state.pending.len() == 0).map(|(block, _)| *block);
        done.is_some_and(|block| self.blocks.remove(&block).is_some())
    }

    /// The symbols that are to be sent, block by block.
    pub fn pending(&self) -> impl Iterator<Item = (u64, SymbolSet)> {
        let blocks = self.blocks.iter().filter(|(_, state)| state.pending.len() > 0);
        blocks.map(|(block, state)| (*block, state.pending))
    }

    /// The oldest block that has symbols to be sent.
    pub fn first_block(&self) -> Option<u64> {
        self.first_block_from(0)
    }

    /// The oldest block not before `from` that has symbols to be sent.
    pub fn first_block_from(&self, from: u64) -> Option<u64> {
        if self.pending == 0 {
            return None;
        }
        self.blocks.range(from..).find(|(_, state)| state.pending.len() > 0).map(|(block, _)| *block)
    }

    /// Takes up to `count` symbols of a block, to be sent now.
    pub fn take(&mut self, block: u64, count: usize, now: Time) -> SymbolSet {
        let mut taken = SymbolSet::default();
        let Some(state) = self.blocks.get_mut(&block) else { return taken };
        while usize::from(taken.len()) < count
            && let Some(index) = state.pending.first()
        {
            state.pending.remove(index);
            state.answered += 1;
            state.answered_at = now;
            self.pending -= 1;
            taken.insert(index);
        }
        taken
    }

    /// Forgets every block before this one.
    pub fn forget_before(&mut self, block: u64) {
        while let Some(entry) = self.blocks.first_entry()
            && *entry.key() < block
        {
            self.pending -= usize::from(entry.get().pending.len());
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRTT: Duration = Duration::from_millis(1);

    fn taken(queue: &mut ParityQueue, now: Time) -> Vec<u16> {
        let block = queue.first_block();
        block.map_or_else(Vec::new, |block| queue.take(block, 100, now).iter().collect())
    }

    #[test]
    fn receivers_with_different_losses_share_one_answer() {
        let mut queue = ParityQueue::new(8, 2);
        let now = Time::from_nanos(1_000_000_000);
        assert_eq!(queue.request(3, 0..2, 2, now, GRTT), 2);
        assert_eq!(queue.request(3, 0..3, 3, now, GRTT), 1);
        assert_eq!(queue.request(3, 0..1, 1, now, GRTT), 0);
        assert_eq!(taken(&mut queue, now), [2, 3, 4]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_request_that_crossed_its_answer_counts_only_for_what_exceeds_it() {
        let mut queue = ParityQueue::new(8, 0);
        let now = Time::from_nanos(1_000_000_000);
        queue.request(0, 0..2, 2, now, GRTT);
        taken(&mut queue, now);
        assert_eq!(queue.request(0, 0..2, 2, now + GRTT / 2, GRTT), 0);
        assert_eq!(queue.request(0, 0..3, 3, now + GRTT / 2, GRTT), 1);
        taken(&mut queue, now);
        assert_eq!(queue.request(0, 0..1, 1, now + 2 * GRTT, GRTT), 1);
        assert_eq!(taken(&mut queue, now), [3]);
    }

    #[test]
    fn when_all_parity_was_used_what_is_named_is_sent_again() {
        let mut queue = ParityQueue::new(3, 3);
        let now = Time::from_nanos(1_000_000_000);
        assert_eq!(queue.request(5, 1..3, 2, now, GRTT), 2);
        assert_eq!(taken(&mut queue, now), [1, 2]);
        assert_eq!(queue.request(5, 0..200, 200, now + 2 * GRTT, GRTT), 3);
    }

    #[test]
    fn however_long_an_object_is_only_so_many_blocks_are_remembered() {
        let mut queue = ParityQueue::new(8, 0);
        let now = Time::from_nanos(1);
        for block in 0..100_000 {
            assert_eq!(queue.request(block, 0..2, 2, now, GRTT), 2);
            assert_eq!(taken(&mut queue, now).len(), 2);
        }
        assert!(queue.blocks.len() <= BLOCKS_MAX);
        let added: u16 = (0..10_000).map(|block| queue.request(block, 0..1, 1, now + 2 * GRTT, GRTT)).sum();
        assert_eq!(usize::from(added), BLOCKS_MAX, "what is beyond that has to be asked for again");
    }

    #[test]
    fn what_was_forgotten_is_not_sent() {
        let mut queue = ParityQueue::new(8, 0);
        queue.request(1, 0..4, 4, Time::from_nanos(1), GRTT);
        queue.request(2, 0..1, 1, Time::from_nanos(1), GRTT);
        queue.forget_before(2);
        assert_eq!(queue.first_block(), Some(2));
        assert_eq!(taken(&mut queue, Time::from_nanos(1)).len(), 1);
        assert!(queue.is_empty());
    }
}
