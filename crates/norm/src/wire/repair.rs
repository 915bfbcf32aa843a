//! Repair requests: the content of NORM_NACK and NORM_CMD(REPAIR_ADV) (RFC 5740 section 4.3.1).
//!
//! A request is a form, flags that say what its items name (segments, blocks, objects, information),
//! and items. Ranges are pairs of items, both ends included.

use std::ops::Range;

use super::command::Position;
use super::read_u16;
use crate::stats::Reject;

const REQUEST_HEADER_BYTES: usize = 4;
const ITEM_HEADER_BYTES: usize = 4;

/// How a request lists what it wants.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RepairForm {
    /// One by one.
    Items = 1,
    /// First and last.
    Ranges = 2,
    /// By how many are missing.
    Erasures = 3,
}

/// What the items of a request name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RepairFlags(pub u8);

impl RepairFlags {
    /// Segments.
    pub const SEGMENT: u8 = 0x01;
    /// Whole blocks.
    pub const BLOCK: u8 = 0x02;
    /// NORM_INFO.
    pub const INFO: u8 = 0x04;
    /// Whole objects.
    pub const OBJECT: u8 = 0x08;

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: u8) -> bool {
        self.0 & flags == flags
    }
}

/// One thing asked for: from `first` to `last`, both included.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RepairRange {
    /// What kind of thing.
    pub flags: RepairFlags,
    /// Where it starts.
    pub first: Position,
    /// Where it ends.
    pub last: Position,
}

/// Reads repair requests. What cannot be read ends them with one error.
#[derive(Clone, Debug)]
pub struct RepairRequests<'a> {
    rest: &'a [u8],
    form: RepairForm,
    flags: RepairFlags,
    /// Bytes of `rest` that still belong to the current request.
    left: usize,
}

impl<'a> RepairRequests<'a> {
    /// Starts reading.
    pub fn new(content: &'a [u8]) -> RepairRequests<'a> {
        RepairRequests { rest: content, form: RepairForm::Items, flags: RepairFlags(0), left: 0 }
    }

    fn enter_request(&mut self) -> Result<(), Reject> {
        if self.rest.len() < REQUEST_HEADER_BYTES {
            return Err(Reject::RepairRequest);
        }
        self.form = match self.rest[0] {
            1 => RepairForm::Items,
            2 => RepairForm::Ranges,
            3 => RepairForm::Erasures,
            _ => return Err(Reject::RepairRequest),
        };
        self.flags = RepairFlags(self.rest[1]);
        self.left = read_u16(self.rest, 2).into();
        self.rest = &self.rest[REQUEST_HEADER_BYTES..];
        if self.left > self.rest.len() {
            return Err(Reject::RepairRequest);
        }
        Ok(())
    }

    fn item(&mut self) -> Result<Position, Reject> {
        let item = Position::read_item(&self.rest[..self.left]).map_err(|_| Reject::RepairRequest)?;
        let length = ITEM_HEADER_BYTES + item.fec_id.payload_id_bytes();
        self.rest = &self.rest[length..];
        self.left -= length;
        Ok(item)
    }

    fn range(&mut self) -> Result<RepairRange, Reject> {
        while self.left == 0 {
            self.enter_request()?;
            if self.left == 0 && self.rest.is_empty() {
                return Err(Reject::RepairRequest);
            }
        }
        let first = self.item()?;
        let last = if self.form == RepairForm::Ranges { self.item()? } else { first };
        Ok(RepairRange { flags: self.flags, first, last })
    }
}

impl Iterator for RepairRequests<'_> {
    type Item = Result<RepairRange, Reject>;

    fn next(&mut self) -> Option<Result<RepairRange, Reject>> {
        if self.rest.is_empty() && self.left == 0 {
            return None;
        }
        let range = self.range();
        if range.is_err() {
            (self.rest, self.left) = (&[], 0);
        }
        Some(range)
    }
}

/// Writes repair requests, gathering neighbours of one form and kind into one request.
#[derive(Debug, Default)]
pub struct RepairWriter {
    out: Vec<u8>,
    bytes_max: usize,
    /// Where the open request starts, and its form and flags.
    open: Option<(usize, RepairForm, u8)>,
}

impl RepairWriter {
    /// Starts over, with room for `bytes_max`.
    pub fn reset(&mut self, bytes_max: usize) {
        self.out.clear();
        self.bytes_max = bytes_max;
        self.open = None;
    }

    /// What was written.
    pub fn content(&self) -> &[u8] {
        &self.out
    }

    /// Asks for one thing or, if the two differ, for all from `first` to `last`. False if there is no room.
    pub fn push(&mut self, flags: u8, first: Position, last: Position) -> bool {
        let form = if first == last { RepairForm::Items } else { RepairForm::Ranges };
        let item_bytes = ITEM_HEADER_BYTES + first.fec_id.payload_id_bytes();
        let mut needed = if form == RepairForm::Items { item_bytes } else { 2 * item_bytes };
        let continues = self.open.is_some_and(|(_, open, open_flags)| open == form && open_flags == flags);
        if !continues {
            needed += REQUEST_HEADER_BYTES;
        }
        if self.out.len() + needed > self.bytes_max {
            return false;
        }
        if !continues {
            self.open = Some((self.out.len(), form, flags));
            self.out.extend_from_slice(&[form as u8, flags, 0, 0]);
        }
        first.write(&mut self.out);
        if form == RepairForm::Ranges {
            last.write(&mut self.out);
        }
        if let Some((start, ..)) = self.open {
            let length = (self.out.len() - start - REQUEST_HEADER_BYTES) as u16;
            self.out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        true
    }

    /// Asks for a run of segments: whole blocks as blocks, the rest as segments of one block each. `block_of`
    /// tells the segments of a segment's block. False if there is no room for all of it.
    pub fn push_run(
        &mut self,
        run: Range<u64>,
        block_of: impl Fn(u64) -> Range<u64>,
        item: impl Fn(u64) -> Position,
    ) -> bool {
        let mut at = run.start;
        while at < run.end {
            let block = block_of(at);
            let pushed = if at > block.start || run.end < block.end {
                let end = block.end.min(run.end);
                let pushed = self.push(RepairFlags::SEGMENT, item(at), item(end - 1));
                at = end;
                pushed
            } else {
                let first = block.start;
                let tail = block_of(run.end - 1);
                let last = if tail.end <= run.end { tail } else { block_of(tail.start - 1) };
                at = last.end;
                self.push(RepairFlags::BLOCK, item(first), item(last.start))
            };
            if !pushed {
                return false;
            }
        }
        true
    }
}

/// Calls `run` with each run of consecutive numbers, both ends included, until it returns false; returns
/// what it returned last.
pub fn each_run(numbers: impl Iterator<Item = u64>, mut run: impl FnMut(u64, u64) -> bool) -> bool {
    let mut open: Option<(u64, u64)> = None;
    for number in numbers {
        match &mut open {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => {
                if let Some((first, last)) = open.replace((number, number))
                    && !run(first, last)
                {
                    return false;
                }
            }
        }
    }
    open.is_none_or(|(first, last)| run(first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FecId, PayloadId};

    fn item(block: u32, symbol: u16) -> Position {
        let payload_id = PayloadId { block, block_len: 0, symbol };
        Position { fec_id: FecId::ReedSolomon8, object: 3, payload_id }
    }

    #[test]
    fn requests_survive_a_round_trip() {
        let mut writer = RepairWriter::default();
        writer.reset(1400);
        assert!(writer.push(RepairFlags::SEGMENT, item(1, 2), item(1, 2)));
        assert!(writer.push(RepairFlags::SEGMENT, item(1, 9), item(1, 9)));
        assert!(writer.push(RepairFlags::SEGMENT, item(2, 0), item(2, 40)));
        assert!(writer.push(RepairFlags::BLOCK, item(3, 0), item(7, 0)));
        let read: Result<Vec<_>, _> = RepairRequests::new(writer.content()).collect();
        let read = read.unwrap();
        assert_eq!(read.len(), 4);
        assert_eq!((read[2].first, read[2].last), (item(2, 0), item(2, 40)));
        assert_eq!(read[3].flags, RepairFlags(RepairFlags::BLOCK));
        // Two items share one request header: 3 headers, 2 items, 2 ranges.
        assert_eq!(writer.content().len(), 3 * 4 + 6 * 8);
    }

    #[test]
    fn a_full_writer_refuses_and_stays_readable() {
        let mut writer = RepairWriter::default();
        writer.reset(20);
        assert!(writer.push(RepairFlags::SEGMENT, item(1, 2), item(1, 2)));
        assert!(writer.push(RepairFlags::SEGMENT, item(1, 4), item(1, 4)));
        assert!(!writer.push(RepairFlags::SEGMENT, item(1, 6), item(1, 6)));
        assert_eq!(RepairRequests::new(writer.content()).count(), 2);
    }

    #[test]
    fn broken_requests_end_in_one_error() {
        for broken in [
            &[1u8, 1, 0][..],
            &[9, 1, 0, 0],
            &[1, 1, 0, 40, 5, 0, 0, 0],
            &[2, 1, 0, 8, 5, 0, 0, 0, 0, 0, 0, 0],
        ] {
            let read: Vec<_> = RepairRequests::new(broken).collect();
            assert_eq!(read, [Err(Reject::RepairRequest)], "{broken:?}");
        }
    }
}
