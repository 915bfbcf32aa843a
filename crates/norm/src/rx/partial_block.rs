//! A block of an object that misses something.
//!
//! Its symbols are kept in the order in which they came, so that a block of which little came takes little memory,
//! however long it is. Mostly that is their own order, and nothing has to be moved when the block is complete.

#[derive(Debug)]
pub struct PartialBlock {
    /// One bit per source symbol that is here.
    present: Vec<u64>,
    symbols: usize,
    symbol_bytes: usize,
    /// Which symbols came, in their order; and their bytes, each as long as the longest.
    came: Vec<u16>,
    bytes: Vec<u8>,
    /// Symbols there is room for: one at first, and then ever twice as many.
    room: usize,
    /// Each came after the one before it.
    is_ordered: bool,
}

impl PartialBlock {
    pub fn new(symbols: u64, symbol_bytes: usize) -> PartialBlock {
        PartialBlock {
            present: vec![0; symbols.div_ceil(64) as usize],
            symbols: symbols as usize,
            symbol_bytes,
            came: Vec::new(),
            bytes: Vec::new(),
            room: 0,
            is_ordered: true,
        }
    }

    /// Bytes of memory that a new one takes.
    pub fn memory_at_first(symbols: u64) -> usize {
        size_of::<PartialBlock>() + symbols.div_ceil(64) as usize * 8
    }

    /// Bytes of memory it takes.
    pub fn memory(&self) -> usize {
        PartialBlock::memory_at_first(self.symbols as u64) + self.room * self.place_bytes()
    }

    fn place_bytes(&self) -> usize {
        self.symbol_bytes + size_of::<u16>()
    }

    pub fn has(&self, symbol: u64) -> bool {
        self.present[(symbol / 64) as usize] & (1 << (symbol % 64)) != 0
    }

    /// How many symbols are missing.
    pub fn missing(&self) -> u64 {
        (self.symbols - self.came.len()) as u64
    }

    fn next_room(&self) -> usize {
        (2 * self.room).min(self.symbols).max(1)
    }

    /// Bytes of memory it needs for one more symbol.
    pub fn memory_for_next(&self) -> usize {
        if self.came.len() < self.room { 0 } else { (self.next_room() - self.room) * self.place_bytes() }
    }

    /// Puts a symbol that is not here, for which memory was taken. False if the system has none.
    pub fn put(&mut self, symbol: u64, bytes: &[u8]) -> bool {
        if self.came.len() == self.room {
            let room = self.next_room();
            let more = (room - self.came.len(), room * self.symbol_bytes - self.bytes.len());
            if self.came.try_reserve_exact(more.0).is_err() || self.bytes.try_reserve_exact(more.1).is_err() {
                return false;
            }
            self.room = room;
        }
        self.present[(symbol / 64) as usize] |= 1 << (symbol % 64);
        self.is_ordered &= symbol as usize == self.came.len();
        self.came.push(symbol as u16);
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.came.len() * self.symbol_bytes, 0);
        true
    }

    /// A symbol that is here; where it is shorter than others, zeros follow.
    pub fn symbol(&self, symbol: u64) -> Option<&[u8]> {
        let place = if self.is_ordered {
            symbol as usize
        } else {
            self.came.iter().position(|came| u64::from(*came) == symbol)?
        };
        self.bytes.get(place * self.symbol_bytes..(place + 1) * self.symbol_bytes)
    }

    /// The first `length` bytes of the block, of which nothing is missing.
    pub fn into_bytes(self, length: usize) -> Vec<u8> {
        let PartialBlock { mut came, mut bytes, symbol_bytes, .. } = self;
        // Each symbol changes places with the one that is where it belongs: that takes no memory.
        for at in 0..came.len() {
            while usize::from(came[at]) > at {
                let to = usize::from(came[at]);
                let (before, after) = bytes.split_at_mut(to * symbol_bytes);
                before[at * symbol_bytes..][..symbol_bytes].swap_with_slice(&mut after[..symbol_bytes]);
                came.swap(at, to);
            }
        }
        bytes.truncate(length);
        bytes.shrink_to_fit();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_order_of_its_symbols_a_block_is_what_was_sent() {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let symbols = random.u64(1..200);
            let length = symbols as usize * 10 - random.usize(..10);
            let content: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            let sent: Vec<&[u8]> = content.chunks(10).collect();
            let mut order: Vec<u64> = (0..symbols).collect();
            if seed % 2 == 0 {
                random.shuffle(&mut order);
            }
            let mut block = PartialBlock::new(symbols, 10);
            for symbol in order {
                assert!(!block.has(symbol));
                let (held, more) = (block.memory(), block.memory_for_next());
                let bytes = sent[symbol as usize];
                assert!(block.put(symbol, bytes));
                assert_eq!(block.memory(), held + more, "seed {seed}");
                assert_eq!(&block.symbol(symbol).unwrap()[..bytes.len()], bytes, "seed {seed}");
            }
            assert_eq!(block.missing(), 0);
            assert!(block.into_bytes(length) == content, "seed {seed}");
        }
    }

    #[test]
    fn a_block_of_which_little_came_takes_little() {
        let mut block = PartialBlock::new(255, 1400);
        assert!(block.put(254, &[7; 1400]));
        assert!(block.memory() < 1_600, "{}", block.memory());
    }
}
