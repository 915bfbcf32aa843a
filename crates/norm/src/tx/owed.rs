//! What of a stream or an object receivers asked for again and the sender has not sent again yet.

use super::parity::ParityQueue;
use super::repairs::Repairs;
use crate::Config;
use crate::layout::Layout;

/// What is owed. Of what is needed alike the oldest goes first, segments and parity: a receiver short of memory waits for the
/// oldest.
#[derive(Debug)]
pub struct Owed {
    /// NORM_INFO, which is sent once unasked.
    pub info: bool,
    pub segments: Repairs,
    pub parity: ParityQueue,
}

impl Owed {
    pub fn new(config: &Config, info: &[u8]) -> Owed {
        let parity = ParityQueue::new(config.parity_symbols, config.auto_parity);
        Owed { info: !info.is_empty(), segments: Repairs::default(), parity }
    }

    /// Whether segments or parity are owed.
    pub fn has_repairs(&self) -> bool {
        !self.segments.is_empty() || !self.parity.is_empty()
    }

    /// The segment to send again next: the oldest that is `needed`, so that who is far behind holds nobody up.
    pub fn next_segment(&self, needed: u64) -> Option<u64> {
        self.segments.first_from(needed).or_else(|| self.segments.first_from(0))
    }

    /// The block whose parity to send next, by the same rule, if that goes before any segment.
    pub fn next_parity(&self, needed: u64, layout: &Layout) -> Option<u64> {
        if self.parity.is_empty() {
            return None;
        }
        let needed_block = layout.block_of(needed);
        let block = self.parity.first_block_from(needed_block).or_else(|| self.parity.first_block())?;
        let rank = |block: u64| (block < needed_block, block);
        let named = self.next_segment(needed).map(|segment| rank(layout.block_of(segment)));
        named.is_none_or(|named| rank(block) < named).then_some(block)
    }
}
