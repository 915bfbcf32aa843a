//! Which parts of a segment a reader has to look at.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::LogError;
use crate::filter::Filter;
use crate::frame::Header;
use crate::frames::{AHEAD_BYTES, Frames, NEAR_BYTES};
use crate::index::{Block, Index, IndexKey, block_end};
use crate::segment::{Segment, SegmentInfo};
use crate::tail::Tail;

/// An index and its file, if there is one.
pub(crate) type Loaded<D> = Option<(Index, Arc<<D as Disk>::File>)>;

/// A part of a file, and the offsets that are wanted of it: a commit there may have many more.
#[derive(Copy, Clone, Debug)]
struct Stretch {
    from: u64,
    to: u64,
    offsets: (u64, u64),
    is_staged: bool,
}

impl Stretch {
    /// Whether both can be read as one: frames that follow each other, or staged rows of one commit that do.
    fn joins(&self, next: &Stretch) -> bool {
        match (self.is_staged, next.is_staged) {
            (false, false) => self.to == next.from,
            (true, true) => self.from == next.from && self.offsets.1 == next.offsets.0,
            _ => false,
        }
    }
}

/// Stretches of a file, in order, read frame by frame.
pub(crate) struct Plan {
    stretches: std::vec::IntoIter<Stretch>,
    next: u64,
    end: u64,
    offsets: (u64, u64),
}

impl Plan {
    /// The stretches of a segment that have messages a reader wants. Without an index that is all of it.
    pub fn make<D: Disk>(
        disk: &Arc<D>,
        frames: &mut Frames<D>,
        segment: &Segment,
        tail: &Tail,
        filter: &Filter,
        (start, end): (u64, u64),
    ) -> Result<Plan, LogError> {
        let segment = as_it_is(frames, segment)?;
        let wanted = |name: &[u8]| filter.topic_matches(name);
        let found = if segment.sealed {
            let indexed = load(disk, frames, &segment)?;
            indexed.and_then(|(index, file)| blocks_of(&**disk, &index, &file, filter))
        } else if filter.is_any_topic() {
            None
        } else {
            let found = tail.blocks_with(disk, frames, &segment, wanted)?;
            found.map(|(blocks, numbers)| (blocks, numbers, segment.end_position))
        };
        let stretches = match found {
            Some((blocks, numbers, until)) => stretches(&blocks, &numbers, until, start, end),
            None => {
                let (to, offsets) = (segment.end_position, (0, u64::MAX));
                vec![Stretch { from: 0, to, offsets, is_staged: false }]
            }
        };
        let longest = stretches.iter().map(|one| (one.to - one.from) as usize).max().unwrap_or(0);
        frames.set_ahead(longest.clamp(NEAR_BYTES, AHEAD_BYTES));
        Ok(Plan { stretches: stretches.into_iter(), next: 0, end: 0, offsets: (0, 0) })
    }

    /// Where the next frame is.
    pub fn next(&mut self) -> Option<u64> {
        while self.next >= self.end {
            let stretch = self.stretches.next()?;
            (self.next, self.end, self.offsets) = (stretch.from, stretch.to, stretch.offsets);
        }
        Some(self.next)
    }

    /// The offsets that are wanted there, from the first up to before the second.
    pub fn offsets(&self) -> (u64, u64) {
        self.offsets
    }

    /// The frame there was read.
    pub fn passed(&mut self, header: &Header) {
        self.next = header.end();
    }
}

/// The segment as its file is now: retention may have made it anew since the snapshot.
pub(crate) fn as_it_is<D: Disk>(frames: &mut Frames<D>, segment: &Segment) -> Result<Segment, LogError> {
    frames.set_ahead(NEAR_BYTES);
    crate::cursor::read(frames, 0)?;
    let info = SegmentInfo::read(frames.payload(), frames.name())?;
    let end_position = info.compacted_end.unwrap_or(segment.end_position);
    Ok(Segment { end_position, compacted: info.compacted_end.is_some(), ..segment.clone() })
}

/// The index of a segment, if there is one.
pub(crate) fn load<D: Disk>(
    disk: &Arc<D>,
    frames: &mut Frames<D>,
    segment: &Segment,
) -> Result<Loaded<D>, LogError> {
    let store = frames.store();
    let key = IndexKey::of(frames, segment, store)?;
    Ok(Index::load(disk, &key))
}

/// The blocks of a sealed segment, the numbers of those that are wanted, and where the last ends.
fn blocks_of<D: Disk>(
    disk: &D,
    index: &Index,
    file: &D::File,
    filter: &Filter,
) -> Option<(Vec<Block>, Vec<u32>, u64)> {
    let numbers = if filter.is_any_topic() {
        (0..index.blocks().len() as u32).collect()
    } else {
        index.blocks_with(disk, file, |name| filter.topic_matches(name))?
    };
    Some((index.blocks().to_vec(), numbers, index.end_position()))
}

fn stretches(blocks: &[Block], numbers: &[u32], until: u64, start: u64, end: u64) -> Vec<Stretch> {
    let has_offsets = |number: &usize| {
        let block = &blocks[*number];
        block.messages > 0 && block.offset < end && start < block.end_offset
    };
    let stretch = |number: usize| {
        let block = &blocks[number];
        let (from, to) = (block.position, block_end(blocks, number, until));
        Stretch { from, to, offsets: (block.offset, block.end_offset), is_staged: block.is_staged }
    };
    let mut merged: Vec<Stretch> = Vec::new();
    for next in numbers.iter().map(|&number| number as usize).filter(has_offsets).map(stretch) {
        match merged.last_mut() {
            Some(last) if last.joins(&next) => {
                last.to = next.to;
                last.offsets.1 = next.offsets.1;
            }
            _ => merged.push(next),
        }
    }
    merged
}
