//! Which index each frame has in the log of a group, which term, and which of them are committed.
//!
//! Frames count from 0, those that begin a segment among them. A group begins with the two that begin segment 1: every
//! member makes them itself. So the first frame that members send to each other has index 2.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::flush::Durable;
use crate::frame::Kind;

/// The first frame that a member can get from another one.
pub const FIRST_INDEX: u64 = 2;
/// Frames of so many bytes stay in memory: what followers that keep up need is read from no file.
const WINDOW_BYTES: usize = 16 << 20;

/// A frame of the log of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Its place, counted from 0.
    pub index: u64,
    /// The term of the owner that appended it.
    pub term: u32,
    /// What it is.
    pub kind: Kind,
    /// The frame without the zeros behind it.
    pub bytes: Arc<Vec<u8>>,
}

/// Where frames of a group's log stand. Decides nothing.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    /// The term in which this member appends.
    pub term: u32,
    /// The index that the next frame gets.
    pub next: u64,
    /// The index of each segment's first frame.
    pub starts: BTreeMap<u32, u64>,
    /// Terms, each with the first index that has it, from the frame before the oldest segment on.
    terms: Vec<(u64, u32)>,
    /// Frames that this member appended as the owner, and that nobody took to replicate yet.
    born: Vec<Indexed>,
    /// The newest frames.
    window: VecDeque<Indexed>,
    window_bytes: usize,
    /// Frames up to here are committed.
    committed: u64,
    /// Frames that are not committed, or not on this disk: index, bytes, and where the log ends behind it.
    open: VecDeque<(u64, usize, Durable)>,
    open_bytes: usize,
    /// Where frames were looked for last: segment, index, position.
    pub place: Cell<Option<(u32, u64, u64)>>,
    /// Indexes of changes of members, as far as frames were read since the log was opened.
    pub changes: Vec<u64>,
}

impl Numbering {
    /// Of a log that has nothing.
    pub fn first(term: u32) -> Numbering {
        Numbering { term, ..Numbering::default() }
    }

    /// A frame was appended, and ends there.
    pub fn add(&mut self, frame: Indexed, end: Durable) {
        self.note(frame.index, frame.term, frame.kind);
        self.open.push_back((frame.index, frame.bytes.len(), end));
        self.open_bytes += frame.bytes.len();
        self.born.push(frame.clone());
        self.window_bytes += frame.bytes.len();
        self.window.push_back(frame);
    }

    /// Frames that were read are not committed, as far as is known: index, bytes, and where the log ends behind each.
    pub fn hide(&mut self, frames: Vec<(u64, usize, Durable)>) {
        self.open_bytes = frames.iter().map(|(_, bytes, _)| bytes).sum();
        self.open = frames.into();
    }

    /// A frame is known: its term, and whether it changes members.
    pub fn note(&mut self, index: u64, term: u32, kind: Kind) {
        self.next = index + 1;
        self.note_term(index, term);
        if kind == Kind::Members {
            self.changes.push(index);
        }
    }

    /// From this index on frames have this term.
    pub fn note_term(&mut self, index: u64, term: u32) {
        if self.terms.last().is_none_or(|last| last.1 != term) {
            self.terms.push((index, term));
        }
    }

    /// The frame that was appended last brought messages: where the log ends now.
    pub fn note_end(&mut self, end: u64) {
        if let Some((.., last)) = self.open.back_mut() {
            last.end = end;
        }
    }

    /// The term of a frame, also of the one before the oldest segment.
    pub fn term_of(&self, index: u64) -> Option<u32> {
        if index >= self.next {
            return None;
        }
        let at = self.terms.partition_point(|(first, _)| *first <= index);
        at.checked_sub(1).map(|at| self.terms[at].1)
    }

    /// Frames that this member appended since the last call.
    pub fn take_born(&mut self) -> Vec<Indexed> {
        std::mem::take(&mut self.born)
    }

    /// Frames up to an index are committed.
    pub fn commit(&mut self, index: u64) {
        self.committed = self.committed.max(index);
    }

    /// Bytes of frames that are not committed, or not on this disk.
    pub fn open_bytes(&self) -> usize {
        self.open_bytes
    }

    /// Up to where frames are committed and on this disk, which has everything up to `synced`. None if that is as before.
    pub fn reach(&mut self, synced: Durable) -> Option<Durable> {
        let mut reached = None;
        while let Some(&(index, bytes, end)) = self.open.front() {
            if index > self.committed || (end.segment, end.position) > (synced.segment, synced.position) {
                break;
            }
            self.open.pop_front();
            self.open_bytes -= bytes;
            reached = Some(end);
        }
        let oldest_open = self.open.front().map_or(self.next, |(index, ..)| *index);
        while self.window_bytes > WINDOW_BYTES
            && let Some(frame) = self.window.front()
            && frame.index < oldest_open
        {
            self.window_bytes -= frame.bytes.len();
            self.window.pop_front();
        }
        reached
    }

    /// The index of the last frame that is on this disk.
    pub fn synced_index(&self, synced: Durable) -> u64 {
        let is_synced = |end: &Durable| (end.segment, end.position) <= (synced.segment, synced.position);
        let first_unsynced = self.open.partition_point(|(.., end)| is_synced(end));
        self.open.get(first_unsynced).map_or(self.next, |(index, ..)| *index).saturating_sub(1)
    }

    /// Whether every frame is committed and on this disk.
    pub fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Frames from an index on that are in memory, as many as fit; none if the first is not.
    pub fn in_memory(&self, first: u64, end: u64, bytes_max: u64) -> Option<Vec<Indexed>> {
        let oldest = self.window.front()?.index;
        let at = usize::try_from(first.checked_sub(oldest)?).ok()?;
        if at >= self.window.len() {
            return None;
        }
        let mut size = 0;
        let fits = |frame: &&Indexed| {
            size += frame.bytes.len() as u64;
            frame.index < end && (frame.index == first || size <= bytes_max)
        };
        Some(self.window.range(at..).take_while(fits).cloned().collect())
    }

    /// The segment that has a frame, with the index of its first.
    pub fn segment_of(&self, index: u64) -> Option<(u32, u64)> {
        self.starts.iter().rev().find(|(_, first)| **first <= index).map(|(number, first)| (*number, *first))
    }

    /// A segment is gone.
    pub fn forget_segment(&mut self, number: u32) {
        self.starts.remove(&number);
        let Some(&oldest) = self.starts.values().next() else { return };
        // The term of the frame before the oldest stays known.
        let before = oldest.saturating_sub(1);
        let at = self.terms.partition_point(|(first, _)| *first <= before);
        if at > 1 {
            self.terms.drain(..at - 1);
        }
        self.place.set(None);
    }
}
