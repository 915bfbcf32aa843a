//! Questions about what a log has, answered from indexes as far as they go.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use shoal_wire::{MessageView, TopicPattern};

use crate::cursor::{Cursor, GapRow, Query, Snapshot, meaningless, read};
use crate::disk::Disk;
use crate::error::LogError;
use crate::filter::Filter;
use crate::frame::{Header, Kind};
use crate::frames::Frames;
use crate::gap::Gap;
use crate::index::{Block, TopicEntry};
use crate::plan::{Loaded, as_it_is, load};
use crate::segment::Segment;

/// How much a query gives.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The offset after the last message counted; the query's start if there is none.
    pub end: u64,
    /// How many messages.
    pub rows: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

/// By which clock to look for a time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// When the store took the message.
    Stored,
    /// When its publisher sent it.
    Published,
}

/// Counts the messages of a query, up to so many and so many bytes; at least one, if there is one.
pub fn extent<D: Disk>(
    disk: &Arc<D>,
    snapshot: &Snapshot,
    query: &Query,
    rows_max: u64,
    bytes_max: u64,
) -> Result<Extent, LogError> {
    let mut cursor = Cursor::new(disk.clone(), snapshot, query)?;
    let mut extent = Extent { end: query.start, ..Extent::default() };
    while extent.rows < rows_max
        && let Some(row) = cursor.next()?
    {
        let bytes = extent.bytes + row.record.len() as u64;
        if bytes > bytes_max && extent.rows > 0 {
            break;
        }
        extent = Extent { end: row.offset + 1, rows: extent.rows + 1, bytes };
    }
    Ok(extent)
}

/// Cuts a range of offsets into parts with about as many messages each that are on topics asked for.
pub fn split<D: Disk>(
    disk: &Arc<D>,
    snapshot: &Snapshot,
    query: &Query,
    parts: usize,
) -> Result<Vec<(u64, u64)>, LogError> {
    let (start, end) = (query.start.max(snapshot.floor), query.end.min(snapshot.end()));
    let mut pieces = Vec::new();
    for segment in snapshot.between(start, end) {
        let mut frames = Frames::open(disk, snapshot.store, segment.number)?;
        weigh(disk, &mut frames, segment, &query.patterns, &mut pieces)?;
    }
    let clip = |&(from, to, weight): &(u64, u64, u64)| {
        let (low, high) = (from.max(start), to.min(end));
        (low < high).then(|| (low, high, (weight * (high - low)).div_ceil(to - from)))
    };
    let pieces: Vec<_> = pieces.iter().filter_map(clip).collect();
    let total: u64 = pieces.iter().map(|piece| piece.2).sum();
    if total == 0 {
        return Ok(Vec::new());
    }
    let share = total.div_ceil(parts.max(1) as u64);
    let (mut cuts, mut filled) = (vec![start], 0);
    for (from, to, weight) in pieces {
        let (mut at, mut left) = (from, weight);
        while filled + left >= share {
            let step = ((to - at) * (share - filled)).div_ceil(left.max(1)).max(1);
            at = (at + step).min(to);
            left = left.saturating_sub(share - filled);
            filled = 0;
            cuts.push(at);
        }
        filled += left;
    }
    cuts.push(end);
    cuts.dedup();
    Ok(cuts.windows(2).filter(|cut| cut[0] < cut[1]).map(|cut| (cut[0], cut[1])).collect())
}

/// Stretches of a segment's offsets, and how many messages each has.
fn weigh<D: Disk>(
    disk: &Arc<D>,
    frames: &mut Frames<D>,
    segment: &Segment,
    patterns: &[TopicPattern],
    pieces: &mut Vec<(u64, u64, u64)>,
) -> Result<(), LogError> {
    let Some((index, file)) = load_index(disk, frames, segment)? else {
        pieces.push((segment.first_offset, segment.end_offset, segment.end_offset - segment.first_offset));
        return Ok(());
    };
    let filter = Filter::new(patterns.to_vec(), None);
    let all = || (0..index.blocks().len() as u32).collect();
    let numbers = if patterns.is_empty() {
        all()
    } else {
        index.blocks_with(&**disk, &file, |name| filter.topic_matches(name)).unwrap_or_else(all)
    };
    for number in numbers {
        let block = &index.blocks()[number as usize];
        if block.messages > 0 {
            pieces.push((block.offset, block.end_offset, block.messages.into()));
        }
    }
    Ok(())
}

fn load_index<D: Disk>(
    disk: &Arc<D>,
    frames: &mut Frames<D>,
    segment: &Segment,
) -> Result<Loaded<D>, LogError> {
    let segment = as_it_is(frames, segment)?;
    if segment.sealed { load(disk, frames, &segment) } else { Ok(None) }
}

/// The first offset stored, or published, at a time or later; the log's end if there is none.
pub fn offset_at<D: Disk>(
    disk: &Arc<D>,
    snapshot: &Snapshot,
    time_us: u64,
    clock: Clock,
) -> Result<u64, LogError> {
    for segment in &snapshot.segments {
        if segment.end_offset <= snapshot.floor
            || segment.first_offset == segment.end_offset
            || (clock == Clock::Stored && segment.sealed && segment.ended_us < time_us)
        {
            continue;
        }
        if let Some(offset) = offset_in(disk, snapshot, segment, time_us, clock)? {
            return Ok(offset);
        }
    }
    Ok(snapshot.end())
}

fn offset_in<D: Disk>(
    disk: &Arc<D>,
    snapshot: &Snapshot,
    segment: &Segment,
    time_us: u64,
    clock: Clock,
) -> Result<Option<u64>, LogError> {
    let mut frames = Frames::open(disk, snapshot.store, segment.number)?;
    let index = load_index(disk, &mut frames, segment)?;
    let blocks = index.as_ref().map_or(&[][..], |(index, _)| index.blocks());
    let from = match clock {
        // The last block that begins before the time may reach it.
        Clock::Stored => {
            let later = blocks.partition_point(|block| block.stored_us < time_us);
            later.checked_sub(1).map(|number| &blocks[number])
        }
        Clock::Published => {
            match blocks.iter().find(|block| block.messages > 0 && block.latest_us >= time_us) {
                None if index.is_some() => return Ok(None),
                found => found,
            }
        }
    };
    let start = from.map_or(segment.first_offset, |block: &Block| block.offset).max(snapshot.floor);
    let mut cursor = Cursor::unbounded(disk.clone(), snapshot, &Query::range(start, segment.end_offset))?;
    while let Some(row) = cursor.next()? {
        let time = if clock == Clock::Stored { row.stored_us } else { row.timestamp_us };
        if time >= time_us {
            return Ok(Some(row.offset));
        }
    }
    Ok(None)
}

/// The topics between two offsets that match one of the patterns, sorted by name.
pub fn topics<D: Disk>(
    disk: &Arc<D>,
    snapshot: &Snapshot,
    query: &Query,
) -> Result<Vec<TopicEntry>, LogError> {
    let (start, end) = (query.start.max(snapshot.floor), query.end.min(snapshot.end()));
    let mut topics: BTreeMap<Box<[u8]>, TopicEntry> = BTreeMap::new();
    let mut add = |entry: TopicEntry| match topics.get_mut(&entry.name) {
        Some(known) => {
            known.last = entry.last;
            known.count += entry.count;
            known.bytes += entry.bytes;
        }
        None => drop(topics.insert(entry.name.clone(), entry)),
    };
    for segment in snapshot.between(start, end) {
        if start <= segment.first_offset && segment.end_offset <= end {
            let mut frames = Frames::open(disk, snapshot.store, segment.number)?;
            let known = match load_index(disk, &mut frames, segment)? {
                Some((index, _)) => Some(index.topics().cloned().collect()),
                None if segment.sealed => None,
                None => snapshot.tail.topics(disk, &mut frames, segment)?,
            };
            if let Some(known) = known {
                let filter = Filter::new(query.patterns.clone(), None);
                known.into_iter().filter(|topic| filter.topic_matches(&topic.name)).for_each(&mut add);
                continue;
            }
        }
        let part = Query {
            start: start.max(segment.first_offset),
            end: end.min(segment.end_offset),
            patterns: query.patterns.clone(),
            selector: None,
        };
        let mut cursor = Cursor::unbounded(disk.clone(), snapshot, &part)?;
        while let Some(row) = cursor.next()? {
            if let Ok(view) = MessageView::parse(row.record) {
                let (name, bytes) = (view.name_bytes().into(), row.record.len() as u64);
                add(TopicEntry { name, first: row.offset, last: row.offset, count: 1, bytes });
            }
        }
    }
    Ok(topics.into_values().collect())
}

/// The gaps between two offsets, both included.
pub fn gaps<D: Disk>(
    disk: &Arc<D>,
    snapshot: &Snapshot,
    start: u64,
    end: u64,
) -> Result<Vec<GapRow>, LogError> {
    let mut gaps = Vec::new();
    let touches = |segment: &&Segment| segment.first_offset <= end && start <= segment.end_offset;
    for segment in snapshot.segments.iter().filter(touches) {
        let mut frames = Frames::open(disk, snapshot.store, segment.number)?;
        let segment = as_it_is(&mut frames, segment)?;
        let stretches = match load_index(disk, &mut frames, &segment)? {
            Some((index, _)) => {
                let with_gaps = index.blocks().iter().enumerate().filter(|(_, block)| block.has_gaps);
                with_gaps.map(|(number, block)| (block.position, index.block_end(number))).collect()
            }
            None => vec![(0, segment.end_position)],
        };
        for stretch in stretches {
            walk(&mut frames, stretch, |header, payload, name| {
                if header.kind == Kind::Gap && (start..=end).contains(&header.offset) {
                    let gap = Gap::read(payload).ok_or_else(|| meaningless(name, header.offset))?;
                    gaps.push(GapRow { offset: header.offset, stored_us: header.stored_us, gap });
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
    }
    Ok(gaps)
}

/// Reads the frames of a stretch one after the other.
pub(crate) fn walk<D: Disk>(
    frames: &mut Frames<D>,
    (mut position, end): (u64, u64),
    mut each: impl FnMut(&Header, &[u8], &str) -> Result<ControlFlow<()>, LogError>,
) -> Result<(), LogError> {
    while position < end {
        let header = read(frames, position)?;
        if each(&header, frames.payload(), frames.name())?.is_break() {
            break;
        }
        position = header.end();
    }
    Ok(())
}
