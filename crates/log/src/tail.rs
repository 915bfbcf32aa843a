//! The index of the segment that still takes frames, in memory: made when somebody asks for topics, and then only of what
//! is new since the last time.

use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::Disk;
use crate::error::LogError;
use crate::frames::{AHEAD_BYTES, Frames};
use crate::index::{Block, TopicEntry};
use crate::indexer::Indexer;
use crate::segment::Segment;

/// A segment with more topics has no index before it is sealed, and is read whole.
pub const TAIL_TOPICS_MAX: usize = 1 << 16;

/// The blocks of a segment, and the numbers of those that are wanted.
pub(crate) type Wanted = (Vec<Block>, Vec<u32>);

/// What is known of the last segment. Readers share it.
#[derive(Debug, Default)]
pub struct Tail {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    segment: u32,
    /// Where in the file the next frame to be looked at is.
    reached: u64,
    indexer: Indexer,
    has_too_many: bool,
}

impl Tail {
    /// The blocks of a segment as far as it was durable, and which of them have topics asked for.
    pub(crate) fn blocks_with<D: Disk>(
        &self,
        disk: &Arc<D>,
        frames: &mut Frames<D>,
        segment: &Segment,
        wanted: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<Wanted>, LogError> {
        self.ask(disk, frames, segment, |known| {
            let inside = |block: &&Block| block.position < segment.end_position;
            let blocks: Vec<_> = known.indexer.blocks().iter().take_while(inside).copied().collect();
            let mut numbers = known.indexer.blocks_with(wanted);
            numbers.retain(|&number| (number as usize) < blocks.len());
            Some((blocks, numbers))
        })
    }

    /// The topics of a segment, if nobody looked further than it was durable.
    pub(crate) fn topics<D: Disk>(
        &self,
        disk: &Arc<D>,
        frames: &mut Frames<D>,
        segment: &Segment,
    ) -> Result<Option<Vec<TopicEntry>>, LogError> {
        self.ask(disk, frames, segment, |known| {
            (known.reached == segment.end_position).then(|| known.indexer.entries().collect())
        })
    }

    /// Looks at what is new, and asks. None if there is no index of this segment.
    fn ask<D: Disk, R>(
        &self,
        disk: &Arc<D>,
        frames: &mut Frames<D>,
        segment: &Segment,
        ask: impl FnOnce(&Known) -> Option<R>,
    ) -> Result<Option<R>, LogError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.segment > segment.number {
            return Ok(None);
        }
        if known.segment < segment.number {
            *known = Known { segment: segment.number, ..Known::default() };
        }
        frames.set_ahead(AHEAD_BYTES);
        while known.reached < segment.end_position && !known.has_too_many {
            let to = segment.end_position.min(known.reached + STEP_BYTES);
            let (from, store) = (known.reached, frames.store());
            match known.indexer.extend(disk, store, frames, (from, to)) {
                Ok(reached) => known.reached = reached,
                Err(error) => {
                    // It may know some of these frames already, and would note them twice.
                    *known = Known { segment: segment.number, ..Known::default() };
                    return Err(error);
                }
            }
            if known.indexer.topics_count() > TAIL_TOPICS_MAX {
                (known.indexer, known.has_too_many) = (Indexer::default(), true);
            }
        }
        Ok(if known.has_too_many { None } else { ask(&known) })
    }
}

/// So much is looked at before topics are counted.
const STEP_BYTES: u64 = 1 << 20;
