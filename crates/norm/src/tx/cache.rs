//! Segments of one stream, kept as the datagrams they travel in.
//!
//! They lie one behind the other, each as long as it is, in a ring of bytes: full neighbours go out as one run
//! without being copied, and small ones take little room. A repair copies its segment.
//!
//! Beside the bytes there is a place for each segment, found by its number. There are as many as full segments have
//! room, and more when smaller ones need them.

use super::template::{Template, rename, stamp};
use crate::Config;
use crate::wire::object::ObjectHeader;
use crate::wire::{Fti, PayloadId, SEGMENT_HEADER_BYTES, SegmentHeader, SenderHeader};

/// A stream keeps at least so many of the units in which it codes and sends: one being sent, one repairable.
const UNITS_MIN: usize = 2;
/// There is at most one place for so many bytes, so that places take less than half of what the bytes do.
const PLACE_EVERY_BYTES: usize = 64;

/// Where the datagram of a segment lies.
#[derive(Copy, Clone, Debug, Default)]
struct Place {
    start: usize,
    length: usize,
}

/// So many empty places, if there is memory.
fn filled(count: usize) -> Option<Vec<Place>> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).ok()?;
    all.resize(count, Place::default());
    Some(all)
}

#[derive(Debug)]
pub struct SegmentCache {
    /// As much of the ring as was ever used.
    bytes: Vec<u8>,
    ring_bytes: usize,
    /// Where the next segment begins, unless it has to begin at the front again.
    next_at: usize,
    places: Vec<Place>,
    mask: u64,
    places_max: usize,
    /// Full segments there is room for.
    pub slots: usize,
    /// Bytes of a full datagram.
    pub stride: usize,
    pub template: Template,
    pub fti: Fti,
}

impl SegmentCache {
    /// As many full segments as fit into `cache_bytes`, at least 64; with parity or interleaving also enough for the
    /// blocks that are sent together. `None` if the system has no memory for as much as the stream cannot do without.
    pub fn new(config: &Config, header: &ObjectHeader, cache_bytes: usize) -> Option<SegmentCache> {
        let segment_bytes = usize::from(config.segment_bytes);
        let stride = config.header_bytes() + segment_bytes;
        let slots_min = if config.parity_symbols > 0 || config.interleave_blocks > 1 {
            UNITS_MIN * usize::from(config.block_symbols) * usize::from(config.interleave_blocks)
        } else {
            1
        };
        let slots = (cache_bytes / stride).max(64).max(slots_min);

        let fti = Fti {
            object_bytes: (slots * segment_bytes) as u64,
            segment_bytes: config.segment_bytes,
            block_symbols: config.block_symbols,
            parity_symbols: config.parity_symbols,
        };
        // What does not fit before the end of the ring is lost: so much more there is.
        let ring_of = |slots: usize| (slots + 1) * stride - 1;
        let ring_bytes = ring_of(slots);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(ring_of(slots_min)).ok()?;
        let places = slots.next_power_of_two();
        Some(SegmentCache {
            bytes,
            ring_bytes,
            next_at: 0,
            places: filled(places)?,
            mask: places as u64 - 1,
            places_max: places.max(1 << (ring_bytes / PLACE_EVERY_BYTES).ilog2()),
            slots,
            stride,
            template: Template::new(config, header, fti),
            fti,
        })
    }

    /// Lets what was begun of these segments come from another node id, and all that is begun later.
    pub fn rename(&mut self, node: crate::NodeId, segments: std::ops::Range<u64>) {
        self.template.rename(node);
        for segment in segments {
            let start = self.places[self.slot(segment)].start;
            rename(&mut self.bytes[start..], node);
        }
    }

    /// Segments there are places for now.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Makes twice as many places, for the segments from `first` to `head`. False if there are as many as there may be, or
    /// as there is memory for.
    pub fn grow(&mut self, first: u64, head: u64) -> bool {
        let count = 2 * self.places.len();
        let places = if count <= self.places_max { filled(count) } else { None };
        let Some(mut places) = places else {
            // There never will be more.
            self.places_max = self.places.len();
            return false;
        };
        let mask = count as u64 - 1;
        for segment in first..head {
            places[(segment & mask) as usize] = self.places[self.slot(segment)];
        }
        (self.places, self.mask) = (places, mask);
        true
    }

    /// Whether so many places are as many as there may be.
    pub fn is_at_most(&self, places: u64) -> bool {
        places >= self.places_max as u64
    }

    /// Where segment `head` could begin, full as it may become, if `first` is the oldest that is needed.
    fn room(&self, first: u64, head: u64) -> Option<usize> {
        if first == head {
            return Some(0);
        }
        let oldest = self.places[self.slot(first)].start;
        let fits = |at: usize, end: usize| (at + self.stride <= end).then_some(at);
        if self.next_at > oldest {
            fits(self.next_at, self.ring_bytes).or_else(|| fits(0, oldest))
        } else {
            fits(self.next_at, oldest)
        }
    }

    /// Whether there is room for segment `head` if `first` is the oldest that is needed.
    pub fn has_room(&self, first: u64, head: u64) -> bool {
        self.room(first, head).is_some()
    }

    /// Begins segment `head`, for which there must be a place. False if there is no room for it, where `first` is the
    /// oldest that is needed.
    pub fn begin(&mut self, first: u64, head: u64) -> bool {
        let Some(start) = self.room(first, head) else { return false };
        let end = start + self.stride;
        if end > self.bytes.len() && !self.take_memory(end) {
            return false;
        }
        let template = &self.template.bytes;
        self.bytes[start..start + template.len()].copy_from_slice(template);
        let slot = self.slot(head);
        self.places[slot] = Place { start, length: self.stride };
        self.next_at = end;
        true
    }

    /// Makes the ring as long as that, or longer. Where the system has no memory for it the ring stays as it is.
    fn take_memory(&mut self, end: usize) -> bool {
        let bytes = end.max(2 * self.bytes.len()).min(self.ring_bytes);
        if self.bytes.try_reserve_exact(bytes - self.bytes.len()).is_err() {
            self.ring_bytes = self.bytes.capacity();
        }
        let has_memory = end <= self.ring_bytes;
        if has_memory {
            self.bytes.resize(bytes.min(self.ring_bytes), 0);
        }
        has_memory
    }

    /// Full segments there is memory for.
    pub fn slots_left(&self) -> usize {
        (self.ring_bytes / self.stride).min(self.slots)
    }

    /// Bytes that segments take.
    pub fn bytes_of(&self, segments: std::ops::Range<u64>) -> usize {
        if segments.is_empty() {
            return 0;
        }
        let (first, last) =
            (self.places[self.slot(segments.start)], self.places[self.slot(segments.end - 1)]);
        let end = last.start + last.length;
        if end > first.start { end - first.start } else { self.ring_bytes - first.start + end }
    }

    /// Bytes of data in a full segment.
    pub fn segment_bytes(&self) -> usize {
        self.fti.segment_bytes.into()
    }

    fn slot(&self, segment: u64) -> usize {
        (segment & self.mask) as usize
    }

    fn header_bytes(&self) -> usize {
        self.template.bytes.len()
    }

    /// Puts `data` at `at` in the segment; returns how much fitted.
    pub fn fill(&mut self, segment: u64, at: usize, data: &[u8]) -> usize {
        let count = data.len().min(self.segment_bytes() - at);
        let start = self.places[self.slot(segment)].start + self.header_bytes() + SEGMENT_HEADER_BYTES + at;
        self.bytes[start..start + count].copy_from_slice(&data[..count]);
        count
    }

    /// Completes the segment, whose place is this, so that it can be sent.
    pub fn seal(&mut self, segment: u64, place: PayloadId, header: SegmentHeader) {
        let slot = self.slot(segment);
        let start = self.places[slot].start;
        self.template.place(&mut self.bytes[start..], place);
        let header_at = start + self.header_bytes();
        self.bytes[header_at..header_at + SEGMENT_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let length = self.header_bytes() + SEGMENT_HEADER_BYTES + usize::from(header.length);
        self.places[slot].length = length;
        self.next_at = start + length;
    }

    /// The datagram of a sealed segment.
    pub fn datagram(&self, segment: u64) -> &[u8] {
        let Place { start, length } = self.places[self.slot(segment)];
        &self.bytes[start..start + length]
    }

    /// A sealed segment as parity is computed over it: its header and its data.
    pub fn symbol(&self, segment: u64) -> &[u8] {
        &self.datagram(segment)[self.header_bytes()..]
    }

    /// The last of these sealed segments in which a message begins.
    pub fn last_start(&self, segments: std::ops::Range<u64>) -> Option<u64> {
        let starts = |segment: &u64| {
            SegmentHeader::split(self.symbol(*segment)).is_ok_and(|(header, _)| header.message_start > 0)
        };
        segments.rev().find(starts)
    }

    /// Bytes of data in a sealed segment.
    pub fn data_bytes(&self, segment: u64) -> usize {
        self.places[self.slot(segment)].length - self.header_bytes() - SEGMENT_HEADER_BYTES
    }

    /// How many segments from `first` on, before `end`, go out as one run of equal datagrams
    /// (the last may be shorter): side by side, `bytes_max` at the most, but at least one.
    pub fn run_length(&self, first: u64, end: u64, segments_max: usize, bytes_max: usize) -> usize {
        let limit = ((end - first) as usize).min(segments_max);
        let mut last = self.places[self.slot(first)];
        let mut bytes = last.length;
        let mut count = 1;
        while count < limit && last.length == self.stride {
            let next = self.places[self.slot(first + count as u64)];
            bytes += next.length;
            if bytes > bytes_max || next.start != last.start + self.stride {
                break;
            }
            count += 1;
            last = next;
        }
        count
    }

    /// Stamps a run for transmission and gives its datagrams, side by side, and the length of each.
    pub fn stamp_run(&mut self, first: u64, count: usize, sender: &mut SenderHeader) -> (&mut [u8], usize) {
        let start = self.places[self.slot(first)].start;
        for at in 0..count {
            stamp(&mut self.bytes[start + at * self.stride..], sender);
        }
        let last = self.places[self.slot(first + count as u64 - 1)];
        let end = last.start + last.length;
        (&mut self.bytes[start..end], if count == 1 { end - start } else { self.stride })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn what_was_sent_before_is_repaired_under_another_node_id() {
        let mut cache = cache(1 << 16);
        let header = SegmentHeader { length: 3, message_start: 1, offset: 0 };
        for segment in 0..3 {
            assert!(cache.begin(0, segment));
            cache.fill(segment, 0, b"abc");
            if segment < 2 {
                cache.seal(segment, PayloadId::default(), header);
            }
        }
        cache.rename(0x0102_0304, 0..3);
        cache.seal(2, PayloadId::default(), header);
        assert!(cache.begin(0, 3));
        cache.seal(3, PayloadId::default(), header);
        for segment in 0..4 {
            assert_eq!(cache.datagram(segment)[4..8], [1, 2, 3, 4]);
        }
        assert_eq!(&cache.symbol(0)[SEGMENT_HEADER_BYTES..], b"abc");
    }

    #[test]
    fn memory_is_taken_as_it_is_used() {
        let mut cache = cache(1 << 20);
        assert!(cache.bytes.capacity() < 2 * cache.stride, "one segment is what it cannot do without");
        assert!(cache.begin(0, 0));
        assert!(cache.bytes.capacity() < 4 * cache.stride);
        for head in 1.. {
            let header = SegmentHeader { length: cache.fti.segment_bytes, ..Default::default() };
            cache.seal(head - 1, PayloadId::default(), header);
            if !cache.begin(0, head) {
                break;
            }
        }
        assert!(cache.bytes.len() <= cache.ring_bytes && cache.bytes.capacity() < 2 * cache.ring_bytes);
        assert!(cache.ring_bytes - cache.next_at < cache.stride);
    }

    fn cache(cache_bytes: usize) -> SegmentCache {
        let config = Config::new(1, 1, 1);
        let sender = SenderHeader { sequence: 0, source: 1, instance: 1, grtt: 0, backoff: 4, group_size: 0 };
        let header = ObjectHeader {
            sender,
            flags: crate::wire::Flags(crate::wire::Flags::STREAM),
            fec_id: config.fec_id,
            object: 0,
        };
        SegmentCache::new(&config, &header, cache_bytes).unwrap()
    }

    /// Puts a segment of so many bytes, after forgetting as many of the oldest as it takes.
    fn put(cache: &mut SegmentCache, kept: &mut VecDeque<Vec<u8>>, first: &mut u64, data: Vec<u8>) {
        let head = *first + kept.len() as u64;
        while !cache.has_room(*first, head)
            || (head - *first >= cache.places() as u64 && !cache.grow(*first, head))
        {
            kept.pop_front().unwrap();
            *first += 1;
        }
        assert!(cache.begin(*first, head));
        assert_eq!(cache.fill(head, 0, &data), data.len());
        let header = SegmentHeader { length: data.len() as u16, message_start: 1, offset: 0 };
        cache.seal(head, PayloadId::default(), header);
        kept.push_back(data);
    }

    #[test]
    fn whatever_their_lengths_segments_stay_as_they_were_written_until_they_are_forgotten() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut cache, mut kept, mut first) = (cache(0), VecDeque::new(), 0);
            for round in 0..5_000 {
                // Small ones, full ones, and both by turns.
                let length = match round / 500 % 3 {
                    0 => random.usize(1..100),
                    1 => 1400,
                    _ => random.usize(1..=1400),
                };
                put(&mut cache, &mut kept, &mut first, (0..length).map(|_| random.u8(..)).collect());
                let at = random.usize(..kept.len());
                let symbol = &cache.symbol(first + at as u64)[SEGMENT_HEADER_BYTES..];
                assert!(symbol == kept[at], "seed {seed}, round {round}, {at} of {}", kept.len());
                let run = cache.run_length(first + at as u64, first + kept.len() as u64, 64, 65_000);
                assert!(kept.range(at..at + run - 1).all(|data| data.len() == 1400));
            }
        }
    }

    #[test]
    fn full_segments_have_as_much_room_as_ever_and_small_ones_take_what_they_are_long() {
        let (mut cache, mut kept, mut first) = (cache(4 << 20), VecDeque::new(), 0);
        (0..10_000).for_each(|_| put(&mut cache, &mut kept, &mut first, vec![7; 1400]));
        assert!(kept.len() * 1500 >= 4 << 20, "{} full segments", kept.len());
        assert_eq!(cache.places(), 4096, "they need no more places");
        (0..100_000).for_each(|_| put(&mut cache, &mut kept, &mut first, vec![7; 64]));
        assert!(kept.len() * 120 >= 4 << 20, "{} small segments", kept.len());
    }

    #[test]
    fn full_segments_go_out_in_long_runs() {
        let (mut cache, mut kept, mut first) = (cache(0), VecDeque::new(), 0);
        (0..100).for_each(|_| put(&mut cache, &mut kept, &mut first, vec![7; 1400]));
        let head = first + kept.len() as u64;
        let (mut at, mut runs) = (first, 0);
        while at < head {
            at += cache.run_length(at, head, 64, 1 << 20) as u64;
            runs += 1;
        }
        assert!(runs <= 2, "{runs} runs");
    }
}
