//! Makes the index of a segment by reading it.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use shoal_wire::MessageView;

use crate::commit::Commit;
use crate::cursor::{meaningless, read, rows_start};
use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{Header, Kind};
use crate::frames::Frames;
use crate::index::{self, Block, Index, IndexKey, TopicEntry};
use crate::rows::RowsPlace;
use crate::segment::{Segment, index_name};
use crate::turn;

/// A block is closed when it is so long.
pub const INDEX_BLOCK_BYTES: u64 = 64 << 10;

/// What is learned while reading a segment, frame by frame.
#[derive(Debug, Default)]
pub(crate) struct Indexer {
    topics: HashMap<Box<[u8]>, Entry, FixedState>,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Entry {
    first: u64,
    last: u64,
    count: u64,
    bytes: u64,
    blocks: Vec<u32>,
}

impl Indexer {
    fn begin_frame(&mut self, header: &Header) {
        let is_full =
            |block: &Block| block.is_staged || header.place.position - block.position >= INDEX_BLOCK_BYTES;
        if self.blocks.last().is_none_or(is_full) {
            self.begin_block(header, header.offset, false);
        }
        if header.kind == Kind::Gap
            && let Some(block) = self.blocks.last_mut()
        {
            block.has_gaps = true;
        }
    }

    fn begin_block(&mut self, header: &Header, offset: u64, is_staged: bool) {
        self.blocks.push(Block {
            position: header.place.position,
            offset,
            end_offset: offset,
            stored_us: header.stored_us,
            earliest_us: u64::MAX,
            is_staged,
            ..Block::default()
        });
    }

    fn add_rows(&mut self, payload: &[u8], mut place: RowsPlace) -> Result<(), ()> {
        let number = self.blocks.len() as u32 - 1;
        let block = &mut self.blocks[number as usize];
        while let Some(found) = place.next(payload)? {
            let record = &payload[found.start..found.start + found.length];
            block.end_offset = found.offset + 1;
            block.messages += 1;
            block.earliest_us = block.earliest_us.min(found.meta.timestamp_us);
            block.latest_us = block.latest_us.max(found.meta.timestamp_us);
            let Ok(view) = MessageView::parse(record) else { continue };
            match self.topics.get_mut(view.name_bytes()) {
                Some(entry) => {
                    entry.last = found.offset;
                    entry.count += 1;
                    entry.bytes += record.len() as u64;
                    if entry.blocks.last() != Some(&number) {
                        entry.blocks.push(number);
                    }
                }
                None => {
                    let (first, last, bytes) = (found.offset, found.offset, record.len() as u64);
                    let entry = Entry { first, last, count: 1, bytes, blocks: vec![number] };
                    self.topics.insert(view.name_bytes().into(), entry);
                }
            }
        }
        Ok(())
    }

    /// Reads the frames of a stretch, and checks every one of them. Returns where the last of them ends.
    pub fn extend<D: Disk>(
        &mut self,
        disk: &Arc<D>,
        store: u64,
        frames: &mut Frames<D>,
        (mut position, end): (u64, u64),
    ) -> Result<u64, LogError> {
        let mut staged: Option<(u32, Frames<D>)> = None;
        while position < end {
            let header = read(frames, position)?;
            if header.kind != Kind::Commit {
                self.begin_frame(&header);
            }
            let bad = || meaningless(frames.name(), header.offset);
            match header.kind {
                Kind::Messages | Kind::Turn => {
                    let start = turn::rows_start(header.kind, frames.payload()).ok_or_else(bad)?;
                    let place = RowsPlace::new(frames.payload(), start, header.offset).ok_or_else(bad)?;
                    self.add_rows(frames.payload(), place).map_err(|()| bad())?;
                }
                Kind::Commit => {
                    let commit = Commit::read(frames.payload()).ok_or_else(bad)?;
                    let mut offset = header.offset;
                    for frame in commit.frames() {
                        if staged.as_ref().is_none_or(|(number, _)| *number != frame.segment) {
                            staged = Some((frame.segment, Frames::open(disk, store, frame.segment)?));
                        }
                        let Some((_, source)) = &mut staged else { continue };
                        self.begin_block(&header, offset, true);
                        read(source, frame.position)?;
                        let start = rows_start(source.payload()).ok_or_else(bad)?;
                        let place = RowsPlace::new(source.payload(), start, offset).ok_or_else(bad)?;
                        self.add_rows(source.payload(), place).map_err(|()| bad())?;
                        offset += u64::from(frame.rows);
                    }
                }
                Kind::Segment
                | Kind::Checkpoint
                | Kind::Staged
                | Kind::Gap
                | Kind::Change
                | Kind::Noop
                | Kind::Members => {}
            }
            position = header.end();
        }
        Ok(position)
    }

    /// The blocks so far.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// How many topics there are so far.
    pub fn topics_count(&self) -> usize {
        self.topics.len()
    }

    /// The topics so far, in any order.
    pub fn entries(&self) -> impl Iterator<Item = TopicEntry> {
        self.topics.iter().map(|(name, entry)| {
            let &Entry { first, last, count, bytes, .. } = entry;
            TopicEntry { name: name.clone(), first, last, count, bytes }
        })
    }

    /// The numbers of the blocks that have one of the topics asked for, in order.
    pub fn blocks_with(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> Vec<u32> {
        let named = self.topics.iter().filter(|(name, _)| wanted(name));
        let mut found: Vec<u32> = named.flat_map(|(_, entry)| entry.blocks.iter().copied()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The topics, sorted by name, and their blocks.
    pub fn topics(self) -> (Vec<(TopicEntry, Vec<u32>)>, Vec<Block>) {
        let entry = |(name, entry): (Box<[u8]>, Entry)| {
            let Entry { first, last, count, bytes, blocks } = entry;
            (TopicEntry { name, first, last, count, bytes }, blocks)
        };
        let mut topics: Vec<_> = self.topics.into_iter().map(entry).collect();
        topics.sort_unstable_by(|left, right| left.0.name.cmp(&right.0.name));
        (topics, self.blocks)
    }
}

/// Makes the index of a sealed segment, and puts it beside it. Every frame of the segment is checked on the way.
pub fn build_index<D: Disk>(disk: &Arc<D>, store: u64, segment: &Segment) -> Result<(), LogError> {
    let mut frames = Frames::open(disk, store, segment.number)?;
    let key = IndexKey::of(&mut frames, segment, store)?;
    let mut indexer = Indexer::default();
    indexer.extend(disk, store, &mut frames, (0, segment.end_position))?;
    let (topics, blocks) = indexer.topics();
    let bytes = index::write(&key, &topics, &blocks);
    let name = index_name(segment.number);
    let unfinished = format!("{name}.new");
    let failed = |error| LogError::io(format!("writing {name}"), error);
    let file = disk.create(&unfinished, bytes.len() as u64).map_err(failed)?;
    disk.write(&file, 0, &bytes).map_err(failed)?;
    disk.sync(&file).map_err(failed)?;
    disk.rename(&unfinished, &name).map_err(failed)
}

/// Whether a sealed segment has its index.
pub fn has_index<D: Disk>(disk: &Arc<D>, store: u64, segment: &Segment) -> Result<bool, LogError> {
    let mut frames = Frames::open(disk, store, segment.number)?;
    let key = IndexKey::of(&mut frames, segment, store)?;
    Ok(Index::load(disk, &key).is_some())
}
