//! How an object of known length is cut into segments and blocks (RFC 5052 section 9.1): blocks differ in
//! length by one segment at the most, the longer ones come first, and only the last segment may be shorter. A stream has
//! blocks of one length without end; their numbers wrap on the wire.

use std::ops::Range;

use crate::ObjectId;
use crate::serial;
use crate::wire::command::Position;
use crate::wire::{FecId, Fti, PayloadId};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub fec_id: FecId,
    object_bytes: u64,
    segment_bytes: u64,
    pub segments: u64,
    pub blocks: u64,
    /// So many blocks have one segment more than the others.
    long_blocks: u64,
    short_symbols: u64,
}

impl Layout {
    /// The cut of an object; `None` if it is empty, or has more blocks than its FEC scheme can number.
    pub fn new(fec_id: FecId, fti: &Fti) -> Option<Layout> {
        let segment_bytes = u64::from(fti.segment_bytes);
        let segments = fti.object_bytes.div_ceil(segment_bytes);
        let blocks = segments.div_ceil(fti.block_symbols.into());
        if blocks == 0 || blocks > 1 << fec_id.block_bits() {
            return None;
        }
        let short_symbols = segments / blocks;
        let long_blocks = segments - short_symbols * blocks;
        let object_bytes = fti.object_bytes;
        Some(Layout { fec_id, object_bytes, segment_bytes, segments, blocks, long_blocks, short_symbols })
    }

    /// The cut of a stream.
    pub fn endless(fec_id: FecId, fti: &Fti) -> Layout {
        Layout {
            fec_id,
            object_bytes: u64::MAX,
            segment_bytes: fti.segment_bytes.into(),
            segments: u64::MAX,
            blocks: u64::MAX,
            long_blocks: 0,
            short_symbols: fti.block_symbols.into(),
        }
    }

    pub fn is_finite(&self) -> bool {
        self.blocks < u64::MAX
    }

    /// Source symbols of a block.
    pub fn symbols(&self, block: u64) -> u64 {
        self.short_symbols + u64::from(block < self.long_blocks)
    }

    /// The segments of a block.
    pub fn block_segments(&self, block: u64) -> Range<u64> {
        let start = block * self.short_symbols + block.min(self.long_blocks);
        start..start + self.symbols(block)
    }

    /// The bytes of a block in the object.
    pub fn block_bytes(&self, block: u64) -> Range<u64> {
        let segments = self.block_segments(block);
        segments.start * self.segment_bytes..(segments.end * self.segment_bytes).min(self.object_bytes)
    }

    /// The bytes of a segment in the object.
    pub fn segment_bytes(&self, segment: u64) -> Range<u64> {
        let start = segment * self.segment_bytes;
        start..(start + self.segment_bytes).min(self.object_bytes)
    }

    /// The block a segment is in.
    pub fn block_of(&self, segment: u64) -> u64 {
        let long = self.long_blocks * (self.short_symbols + 1);
        if segment < long {
            segment / (self.short_symbols + 1)
        } else {
            self.long_blocks + (segment - long) / self.short_symbols
        }
    }

    /// How the wire names symbol `symbol` of a block, parity included.
    pub fn place(&self, block: u64, symbol: u64) -> PayloadId {
        let small_block = self.fec_id == FecId::SmallBlock;
        PayloadId {
            block: (block & ((1 << self.fec_id.block_bits()) - 1)) as u32,
            block_len: if small_block { self.symbols(block) as u16 } else { 0 },
            symbol: symbol as u16,
        }
    }

    /// How the wire names a segment.
    pub fn place_of(&self, segment: u64) -> PayloadId {
        let block = self.block_of(segment);
        self.place(block, segment - self.block_segments(block).start)
    }

    /// The segments of a segment's block.
    pub fn block_around(&self, segment: u64) -> Range<u64> {
        self.block_segments(self.block_of(segment))
    }

    /// The block of a stream that a payload id names, as near to a segment as can be.
    pub fn block_near(&self, segment: u64, place: PayloadId) -> u64 {
        serial::extend(self.block_of(segment), place.block, self.fec_id.block_bits())
    }

    /// The segment of a stream that a payload id names, as near to another one as can be.
    pub fn segment_near(&self, segment: u64, place: PayloadId) -> u64 {
        self.block_segments(self.block_near(segment, place)).start + u64::from(place.symbol)
    }

    /// A segment as commands and requests name it.
    pub fn position(&self, object: ObjectId, segment: u64) -> Position {
        Position { fec_id: self.fec_id, object, payload_id: self.place_of(segment) }
    }

    /// A symbol of a block, parity included, as requests name it.
    pub fn symbol_position(&self, object: ObjectId, block: u64, symbol: u64) -> Position {
        Position { fec_id: self.fec_id, object, payload_id: self.place(block, symbol) }
    }

    /// The block a payload id names, if the object has it.
    pub fn block_at(&self, place: PayloadId) -> Option<u64> {
        Some(u64::from(place.block)).filter(|block| *block < self.blocks)
    }

    /// The block a payload id names: the object's, if it has it, or the stream's, as near to a segment as can be.
    pub fn block_named(&self, near: u64, place: PayloadId) -> Option<u64> {
        if self.is_finite() { self.block_at(place) } else { Some(self.block_near(near, place)) }
    }

    /// The segment a payload id of a source symbol names, if the object has it.
    pub fn segment_at(&self, place: PayloadId) -> Option<u64> {
        let segments = self.block_segments(self.block_at(place)?);
        Some(segments.start + u64::from(place.symbol)).filter(|segment| *segment < segments.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(object_bytes: u64) -> Layout {
        let fti = Fti { object_bytes, segment_bytes: 10, block_symbols: 4, parity_symbols: 0 };
        Layout::new(FecId::SmallBlock, &fti).unwrap()
    }

    #[test]
    fn blocks_differ_by_one_segment_at_the_most() {
        let layout = layout(95);
        assert_eq!((layout.segments, layout.blocks), (10, 3));
        let lengths: Vec<u64> = (0..3).map(|block| layout.symbols(block)).collect();
        assert_eq!(lengths, [4, 3, 3]);
        assert_eq!(layout.block_segments(1), 4..7);
        assert_eq!(layout.block_bytes(2), 70..95);
        assert_eq!(layout.segment_bytes(9), 90..95);
    }

    #[test]
    fn every_segment_has_a_name_and_is_found_by_it() {
        for bytes in [1, 10, 39, 40, 41, 95, 1234] {
            let layout = layout(bytes);
            for segment in 0..layout.segments {
                assert_eq!(layout.segment_at(layout.place_of(segment)), Some(segment), "{bytes} bytes");
            }
            let beyond = PayloadId { block: layout.blocks as u32, block_len: 4, symbol: 0 };
            assert_eq!(layout.segment_at(beyond), None);
            let parity = layout.place(0, layout.symbols(0));
            assert_eq!(layout.segment_at(parity), None, "parity is no segment");
        }
    }

    #[test]
    fn what_cannot_be_numbered_is_refused() {
        let fti = Fti { object_bytes: 1 << 40, segment_bytes: 10, block_symbols: 4, parity_symbols: 0 };
        assert_eq!(Layout::new(FecId::NoCode, &fti), None);
        assert_eq!(Layout::new(FecId::NoCode, &Fti { object_bytes: 0, ..fti }), None);
        assert!(Layout::new(FecId::SmallBlock, &Fti { object_bytes: 1 << 30, ..fti }).is_some());
    }
}
