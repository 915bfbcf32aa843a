//! The receive window of one stream: segments from the reader's position on, with their gaps.
//!
//! Full segments lie side by side, so that the reader sees long runs of bytes. When everything was
//! read the window starts over at its first slot: a reader that keeps up stays in the processor's cache.
//! The window grows as the distance between reader and sender does, up to its bound, and no more than twice as fast as
//! segments arrive: a sender that only claims to be far ahead makes it take nothing.
//!
//! Where a stream has parity, a block is kept until it is complete, though its beginning was read: what is
//! missing is computed from all of it.

use std::ops::Range;

use crate::wire::SegmentHeader;

/// A new window takes so many bytes, and has at least two slots.
const BYTES_MIN: usize = 16 << 10;
/// It may grow to so many slots, and to so many more for each segment that arrived.
const SLOTS_FIRST: u64 = 64;
const SLOTS_PER_ARRIVAL: u64 = 2;
/// What a slot costs, however short segments are: what there is to know of it, and the work of looking at it.
const SLOT_BYTES_MIN: usize = 64;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Missing,
    Present,
    /// Will never come.
    Lost,
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Entry {
    pub(super) slot: Slot,
    header: SegmentHeader,
}

pub(super) const EMPTY: Entry =
    Entry { slot: Slot::Missing, header: SegmentHeader { length: 0, message_start: 0, offset: 0 } };

/// What became of a segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Insert {
    /// It was missing.
    New,
    /// It was here already.
    Duplicate,
    /// It lies farther ahead than the window can reach.
    Beyond,
    /// It says that it belongs elsewhere in the stream.
    Misplaced,
    /// The memory bound forbids the window to reach it.
    NoMemory,
}

#[derive(Debug)]
pub struct Window {
    bytes: Vec<u8>,
    pub(super) entries: Vec<Entry>,
    pub segment_bytes: usize,
    pub(super) slots_max: usize,
    /// Segments that are kept together until none of them is missing: a block, or 1.
    unit: u64,
    /// The segment that lies in slot 0.
    origin: u64,
    /// The oldest segment held.
    pub(super) base: u64,
    /// Where the reader is.
    pub first: u64,
    /// Every segment before this one is present or lost.
    pub complete: u64,
    /// One past the newest segment known to exist.
    pub end: u64,
    /// Where the data of segment `complete` begins in the stream, if that is known; and what was refused last because it
    /// begins elsewhere: its number, and where.
    next_offset: Option<u32>,
    misplaced: Option<(u64, u32)>,
    /// Missing segments between `complete` and `end`.
    pub(super) missing: u64,
    /// Segments that wait for the reader.
    pub(super) present: u64,
    /// Segments that came, ever.
    pub arrived: u64,
    /// Only what is missing before this segment counts as lost: the rest may still come as parity.
    pub checked: u64,
}

impl Window {
    /// A window at `first`, growing up to `bytes_max`. Takes its memory from `memory`. Segments are kept
    /// in units of `unit` until none of them is missing.
    pub fn new(
        first: u64,
        unit: u64,
        segment_bytes: usize,
        bytes_max: usize,
        memory: &mut usize,
    ) -> Option<Window> {
        let slots_min = 1usize << (BYTES_MIN / segment_bytes).clamp(2, 16).ilog2();
        let left = memory.checked_sub(slots_min * slot_bytes(segment_bytes))?;
        let (entries, bytes) = allocate(slots_min, segment_bytes)?;
        *memory = left;
        let slots_max = (1usize << (bytes_max / slot_bytes(segment_bytes)).max(slots_min).ilog2())
            .max((2 * unit as usize).next_power_of_two());
        Some(Window {
            bytes,
            entries,
            segment_bytes,
            slots_max,
            unit,
            origin: first,
            base: first,
            first,
            complete: first,
            end: first,
            next_offset: None,
            misplaced: None,
            missing: 0,
            present: 0,
            arrived: 0,
            checked: if unit > 1 { first } else { u64::MAX },
        })
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.entries.len() * slot_bytes(self.segment_bytes)
    }

    /// So many slots it may have now.
    pub(super) fn slots_allowed(&self) -> u64 {
        let earned = SLOTS_FIRST.max(2 * self.unit) + SLOTS_PER_ARRIVAL * self.arrived;
        (self.slots_max as u64).min(earned.next_power_of_two()).max(self.entries.len() as u64)
    }

    /// Whether it has no slot left for anything but what waits for the reader.
    pub fn is_full(&self) -> bool {
        self.complete >= self.base + self.slots_allowed()
    }

    /// Whether any segment that counts as lost is missing.
    pub fn has_missing(&self) -> bool {
        self.missing > 0 && self.complete < self.checked
    }

    /// What is missing before `segment` counts as lost.
    pub fn check_before(&mut self, segment: u64) {
        self.checked = self.checked.max(segment);
    }

    /// A segment that is held, read or not.
    pub fn held(&self, segment: u64) -> Option<(SegmentHeader, &[u8])> {
        let limit = self.end.min(self.base + self.entries.len() as u64);
        if !(self.base..limit).contains(&segment) {
            return None;
        }
        let slot = self.slot(segment);
        let entry = &self.entries[slot];
        let data = || &self.bytes[slot * self.segment_bytes..][..usize::from(entry.header.length)];
        (entry.slot == Slot::Present).then(|| (entry.header, data()))
    }

    /// What is not complete of the segments for which there are slots.
    pub fn in_hand(&self) -> Range<u64> {
        self.complete..self.end.min(self.base + self.entries.len() as u64)
    }

    pub(super) fn slot(&self, segment: u64) -> usize {
        (segment.wrapping_sub(self.origin) as usize) & (self.entries.len() - 1)
    }

    /// The reader had the next segment without its being kept. Only when caught up, and with a unit of 1.
    pub fn pass(&mut self, header: &SegmentHeader) {
        self.next_offset = Some(header.next_offset());
        self.arrived += 1;
        self.end += 1;
        (self.first, self.complete) = (self.end, self.end);
        (self.origin, self.base) = (self.end, self.end);
    }

    /// Whether a segment begins where the one before it ended, as far as that is known.
    pub fn continues(&self, header: &SegmentHeader) -> bool {
        self.next_offset.is_none_or(|offset| offset == header.offset)
    }

    /// Notes that everything before `end` was sent. Returns how many missing segments that revealed.
    pub fn extend(&mut self, end: u64) -> u64 {
        let revealed = end.saturating_sub(self.end);
        self.end = self.end.max(end);
        self.missing += revealed;
        revealed
    }

    /// Takes a segment in.
    pub fn insert(&mut self, segment: u64, header: SegmentHeader, data: &[u8], memory: &mut usize) -> Insert {
        if segment < self.complete {
            return Insert::Duplicate;
        }
        if segment - self.base >= self.entries.len() as u64 {
            match self.grow(segment, memory) {
                Insert::New => {}
                refused => {
                    // It cannot be kept, but it tells what was sent: a reader that fell behind asks for it later.
                    self.extend(segment + 1);
                    return refused;
                }
            }
        }
        if segment >= self.end {
            self.extend(segment + 1);
        }
        let slot = self.slot(segment);
        let entry = &mut self.entries[slot];
        if entry.slot != Slot::Missing {
            return Insert::Duplicate;
        }
        entry.slot = Slot::Present;
        entry.header = header;
        let start = slot * self.segment_bytes;
        self.bytes[start..start + data.len()].copy_from_slice(data);
        self.missing -= 1;
        self.present += 1;
        self.arrived += 1;
        if segment == self.complete {
            self.advance();
            if segment == self.complete {
                return Insert::Misplaced;
            }
        }
        Insert::New
    }

    fn advance(&mut self) {
        let held = self.end.min(self.base + self.entries.len() as u64);
        while self.complete < held {
            let slot = self.slot(self.complete);
            let Entry { slot: state, header, .. } = self.entries[slot];
            match state {
                Slot::Missing => break,
                Slot::Lost => self.next_offset = None,
                // A copy of another segment with this one's number; the one that belongs here is asked for. If that says
                // the same, what came before it was the copy.
                Slot::Present if !self.continues(&header) && !self.says_again(header.offset) => {
                    self.misplaced = Some((self.complete, header.offset));
                    self.entries[slot] = EMPTY;
                    self.present -= 1;
                    self.missing += 1;
                    break;
                }
                Slot::Present => self.next_offset = Some(header.next_offset()),
            }
            self.complete += 1;
        }
        if self.unit > 1 {
            self.release_units();
        }
    }

    /// Whether the segment that comes next said before that it begins here.
    fn says_again(&self, offset: u32) -> bool {
        self.misplaced == Some((self.complete, offset))
    }

    /// Lets go of what was read and is not needed to compute what is missing.
    fn release_units(&mut self) {
        let keep = self.first.min(self.complete / self.unit * self.unit);
        while self.base < keep {
            let slot = self.slot(self.base);
            self.entries[slot] = EMPTY;
            self.base += 1;
        }
        if self.base == self.end {
            self.origin = self.base;
        }
    }

    fn grow(&mut self, segment: u64, memory: &mut usize) -> Insert {
        let needed = (segment - self.base + 1).checked_next_power_of_two().unwrap_or(u64::MAX);
        if needed > self.slots_allowed() {
            return Insert::Beyond;
        }
        let added = (needed as usize - self.entries.len()) * slot_bytes(self.segment_bytes);
        let Some(left) = memory.checked_sub(added).filter(|_| self.resize(needed as usize)) else {
            return Insert::NoMemory;
        };
        *memory = left;
        Insert::New
    }

    /// Moves what is held into so many slots, a power of two that has room for it. False if there is no memory for it.
    pub(super) fn resize(&mut self, slots: usize) -> bool {
        let Some((mut entries, mut bytes)) = allocate(slots, self.segment_bytes) else { return false };
        for segment in self.base..self.end.min(self.base + self.entries.len().min(slots) as u64) {
            let (old, new) = (self.slot(segment), (segment - self.base) as usize);
            entries[new] = self.entries[old];
            let length = usize::from(entries[new].header.length);
            bytes[new * self.segment_bytes..][..length]
                .copy_from_slice(&self.bytes[old * self.segment_bytes..][..length]);
        }
        (self.entries, self.bytes, self.origin) = (entries, bytes, self.base);
        true
    }

    /// Nothing was sent from `end` on, or from where everything is here on: what was known of it was not true.
    pub fn retract(&mut self, end: u64) {
        let end = end.max(self.complete);
        let held = self.end.min(self.base + self.entries.len() as u64);
        for segment in end..held {
            let slot = self.slot(segment);
            match self.entries[slot].slot {
                Slot::Missing => self.missing -= 1,
                Slot::Present => self.present -= 1,
                Slot::Lost => {}
            }
            self.entries[slot] = EMPTY;
        }
        self.missing -= self.end.saturating_sub(held.max(end));
        self.end = self.end.min(end);
        if self.unit > 1 {
            self.checked = self.checked.min(end);
        }
    }

    /// Gives up every missing segment before `segment`. Returns how many of them the reader need not
    /// even pass, because the window moved on as a whole.
    pub fn give_up_before(&mut self, segment: u64) -> u64 {
        if segment <= self.complete {
            return 0;
        }
        self.extend(segment);
        if self.present == 0 {
            let skipped = segment - self.first;
            self.begin_at(segment);
            return skipped;
        }
        // What lies beyond the slots in use is given up when the reader is through with these:
        // the sender, asked again, will refuse again.
        for at in self.complete..segment.min(self.base + self.entries.len() as u64) {
            let slot = self.slot(at);
            if self.entries[slot].slot == Slot::Missing {
                self.entries[slot] = Entry { slot: Slot::Lost, ..EMPTY };
                self.missing -= 1;
            }
        }
        self.advance();
        0
    }

    /// Holds nothing, with its reader at a segment.
    pub fn begin_at(&mut self, segment: u64) {
        self.entries.fill(EMPTY);
        (self.first, self.complete, self.origin, self.base) = (segment, segment, segment, segment);
        self.end = self.end.max(segment);
        (self.missing, self.present, self.next_offset) = (self.end - segment, 0, None);
    }

    /// The header of the segment the reader is at, or `None` if it was lost. Only before `complete`.
    pub fn reader_header(&self) -> Option<SegmentHeader> {
        let entry = &self.entries[self.slot(self.first)];
        (entry.slot == Slot::Present).then_some(entry.header)
    }

    /// The bytes the reader can have in one piece, from `at` in its segment on.
    pub fn run(&self, at: usize) -> &[u8] {
        let slot = self.slot(self.first);
        let count = ((self.complete - self.first) as usize).min(self.entries.len() - slot);
        let mut bytes = 0;
        for entry in &self.entries[slot..slot + count] {
            if entry.slot != Slot::Present || entry.header.length == 0 {
                break;
            }
            bytes += usize::from(entry.header.length);
            if usize::from(entry.header.length) < self.segment_bytes {
                break;
            }
        }
        let start = slot * self.segment_bytes;
        &self.bytes[start + at.min(bytes)..start + bytes]
    }

    /// The reader leaves its segment.
    pub fn release_first(&mut self) {
        let slot = self.slot(self.first);
        self.present -= u64::from(self.entries[slot].slot == Slot::Present);
        self.first += 1;
        // What lies at the window's far edge may have become reachable.
        if self.complete < self.first {
            (self.complete, self.next_offset) = (self.first, None);
        }
        if self.unit > 1 {
            return self.release_units();
        }
        self.entries[slot] = EMPTY;
        self.base = self.first;
        if self.first == self.end {
            self.origin = self.first;
        }
    }
}

/// What a slot costs.
fn slot_bytes(segment_bytes: usize) -> usize {
    (segment_bytes + size_of::<Entry>()).max(SLOT_BYTES_MIN)
}

/// So many empty slots, if there is memory for them.
fn allocate(slots: usize, segment_bytes: usize) -> Option<(Vec<Entry>, Vec<u8>)> {
    let (mut entries, mut bytes) = (Vec::new(), Vec::new());
    entries.try_reserve_exact(slots).ok()?;
    bytes.try_reserve_exact(slots * segment_bytes).ok()?;
    entries.resize(slots, EMPTY);
    bytes.resize(slots * segment_bytes, 0);
    Some((entries, bytes))
}

#[cfg(test)]
pub(super) mod tests;
