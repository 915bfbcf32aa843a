//! How far each chain of each publisher is recorded, so that a store that was away notices what comes again, and what
//! does not come any more.
//!
//! Messages of one chain reach a recorder in the order of their numbers, so one number says which of them it has. There
//! is one recorder for each pattern, and between two of them there is no order: each has marks of its own. A *lane* is
//! the checksum of its pattern.
//!
//! Marks follow from the messages. A checkpoint, and a frame when recording begins, hold them together with the offset up
//! to which they are complete; what lies behind it is read when recording begins again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shoal_wire::{MessageView, TopicPattern};

use crate::cursor::{Cursor, Query, Snapshot};
use crate::disk::Disk;
use crate::error::LogError;
use crate::filter::Filter;
use crate::state::Change;

/// Marks that are kept at most. Beyond, those of the chains that are silent for longest go.
pub const MARKS_MAX: usize = 10_000;
/// If it is not known how far the marks are complete, so many segments are read for them.
pub const MARKS_SEGMENTS_MAX: usize = 4;
/// What a mark takes in a checkpoint.
pub(crate) const MARK_BYTES: usize = 33;

/// Which recorder a pattern means.
pub fn lane_of(pattern: &TopicPattern) -> u32 {
    crc32c::crc32c(pattern.as_str().as_bytes())
}

/// What a mark is about.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkKey {
    /// Who records it.
    pub lane: u32,
    /// Who publishes.
    pub publisher: u64,
    /// Which ordered path of the publisher.
    pub chain: u32,
}

/// How far a chain is recorded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The highest number.
    pub number: u64,
    /// When it was stored, microseconds since 1970.
    pub stored_us: u64,
}

/// The marks of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    covered: u64,
    lanes: BTreeSet<u32>,
    marks: BTreeMap<MarkKey, Mark>,
}

impl Marks {
    /// Marks of these lanes that are complete up to an offset.
    pub fn new(covered: u64, lanes: impl IntoIterator<Item = u32>) -> Marks {
        Marks { covered, lanes: lanes.into_iter().collect(), marks: BTreeMap::new() }
    }

    /// The offset up to which they are complete.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// Who records.
    pub fn lanes(&self) -> impl Iterator<Item = u32> {
        self.lanes.iter().copied()
    }

    /// Whether it has marks of a recorder.
    pub(crate) fn has_lane(&self, lane: u32) -> bool {
        self.lanes.contains(&lane)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (MarkKey, Mark)> {
        self.marks.iter().map(|(key, mark)| (*key, *mark))
    }

    /// The highest number that is recorded of a chain.
    pub fn number(&self, key: MarkKey) -> Option<u64> {
        self.marks.get(&key).map(|mark| mark.number)
    }

    /// The highest number of each chain, whoever recorded it.
    pub fn chains(&self) -> BTreeMap<(u64, u32), u64> {
        let mut chains = BTreeMap::new();
        for (key, mark) in &self.marks {
            let highest = chains.entry((key.publisher, key.chain)).or_insert(mark.number);
            *highest = mark.number.max(*highest);
        }
        chains
    }

    /// Messages up to a number are recorded. A mark never goes back.
    pub fn raise(&mut self, key: MarkKey, number: u64, stored_us: u64) {
        let mark = self.marks.entry(key).or_insert(Mark { number, stored_us });
        mark.number = mark.number.max(number);
        mark.stored_us = mark.stored_us.max(stored_us);
    }

    /// Everything below an offset is taken in.
    pub(crate) fn cover(&mut self, offset: u64) {
        self.covered = self.covered.max(offset);
    }

    /// If there are more than so many, forgets the chains that are silent for longest, and some more, so that it is not
    /// done again at once.
    pub fn trim(&mut self, count_max: usize) {
        if self.marks.len() <= count_max {
            return;
        }
        let mut ages: Vec<_> = self.marks.iter().map(|(key, mark)| (mark.stored_us, *key)).collect();
        ages.sort_unstable();
        for (_, key) in &ages[..ages.len() - count_max * 3 / 4] {
            self.marks.remove(key);
        }
    }

    /// The changes that make them.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        let lanes: Vec<u32> = self.lanes().collect();
        let lanes = (!lanes.is_empty()).then_some(Change::Lanes(self.covered, lanes));
        lanes.into_iter().chain(self.iter().map(|(key, mark)| Change::Mark(key, mark)))
    }

    /// Bytes of a checkpoint.
    pub(crate) fn bytes(&self) -> usize {
        self.marks.len() * MARK_BYTES + self.lanes.len() * 4 + if self.lanes.is_empty() { 0 } else { 13 }
    }
}

/// The marks of the recorders of these patterns, the first that matches a topic being the one that records it: as far
/// as they are `known`, and the rest as the log has it.
pub fn find_marks<D: Disk>(
    disk: &Arc<D>,
    snapshot: &Snapshot,
    known: &Marks,
    patterns: &[TopicPattern],
) -> Result<Marks, LogError> {
    let lanes: Vec<u32> = patterns.iter().map(lane_of).collect();
    let mut filters: Vec<Filter> =
        patterns.iter().map(|pattern| Filter::new(vec![pattern.clone()], None)).collect();
    let are_known = lanes.iter().all(|lane| known.lanes.contains(lane));
    let mut marks = Marks::new(snapshot.end(), lanes.iter().copied());
    marks.marks.extend(known.marks.iter().filter(|(key, _)| lanes.contains(&key.lane)));
    let skipped = snapshot.segments.len().saturating_sub(MARKS_SEGMENTS_MAX);
    for segment in &snapshot.segments[skipped..] {
        let start = if are_known { segment.first_offset.max(known.covered) } else { segment.first_offset };
        // Below the floor, rows of commits may be gone already.
        let start = start.max(snapshot.floor);
        if start >= segment.end_offset {
            continue;
        }
        let query = Query { patterns: patterns.to_vec(), ..Query::range(start, segment.end_offset) };
        let mut cursor = Cursor::unbounded(disk.clone(), snapshot, &query)?;
        loop {
            let row = match cursor.next() {
                Ok(Some(row)) => row,
                // What is damaged is told to whoever reads it; what comes behind counts.
                Ok(None) | Err(LogError::Corrupt { .. } | LogError::Trimmed { .. }) => break,
                Err(error) => return Err(error),
            };
            let (Some(number), Ok(view)) = (row.number, MessageView::parse(row.record)) else { continue };
            // What somebody wrote in or passed on has numbers of another kind.
            if row.publisher == snapshot.store || !matches!(view.origin(), Ok(None)) {
                continue;
            }
            let (publisher, chain, stored_us) = (row.publisher, row.chain, row.stored_us);
            if let Some(at) = filters.iter_mut().position(|filter| filter.destination_matches(&view)) {
                marks.raise(MarkKey { lane: lanes[at], publisher, chain }, number, stored_us);
            }
        }
        marks.trim(MARKS_MAX);
    }
    Ok(marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(publisher: u64) -> MarkKey {
        MarkKey { lane: 1, publisher, chain: 2 }
    }

    #[test]
    fn a_mark_never_goes_back() {
        let mut marks = Marks::default();
        marks.raise(key(7), 5, 10);
        marks.raise(key(7), 3, 9);
        assert_eq!(marks.iter().collect::<Vec<_>>(), [(key(7), Mark { number: 5, stored_us: 10 })]);
        marks.raise(MarkKey { lane: 2, ..key(7) }, 8, 11);
        assert_eq!(marks.number(key(7)), Some(5), "each recorder has its own");
        assert_eq!(marks.chains().into_iter().collect::<Vec<_>>(), [((7, 2), 8)]);
    }

    #[test]
    fn the_chains_that_are_silent_for_longest_are_forgotten() {
        let mut marks = Marks::default();
        (0..8).for_each(|publisher| marks.raise(key(publisher), 1, 100 - publisher));
        marks.trim(8);
        assert_eq!(marks.iter().count(), 8);
        marks.raise(key(8), 1, 50);
        marks.trim(8);
        let left: Vec<u64> = marks.iter().map(|(key, _)| key.publisher).collect();
        assert_eq!(left, [0, 1, 2, 3, 4, 5]);
    }
}
